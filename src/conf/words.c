/* What the lists of maps share: words, texts and paths as members of an entry.  conf_int.h says what they are. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "conf_int.h"

int conf_read_word(const json_t *obj, const char *at, const char *name, const char *const *words, size_t n,
		   enum jx_need need, unsigned *ret, struct err *err)
{
	struct str list = STR_INIT;
	const char *text = NULL;
	int rc = jx_get_string(obj, at, name, need, &text, err);

	if (rc < 0)
		return conf_named(err);
	for (size_t i = 0; text && i < n; i++) {
		str_printf(&list, "%s%s", i ? ", " : "", words[i]);
		if (strcmp(words[i], text) == 0) {
			*ret = (unsigned)i;
			text = NULL;
		}
	}
	if (text)
		rc = conf_err(err, at, name, "%s must be one of %s, is \"%s\"", name, str_text(&list), text);
	str_fini(&list);
	return rc;
}

int conf_read_texts(const json_t *obj, const char *at, const struct conf_texts *of, char ***ret, size_t *ret_n,
		    struct err *err)
{
	json_t *list = NULL, *item;
	size_t i;
	int rc = jx_get_array(obj, at, of->name, JX_OPTIONAL, &list, err);

	if (rc < 0)
		return conf_named(err);
	if (!list)
		return 0;
	if (json_array_size(list) == 0 || json_array_size(list) > of->max)
		return conf_err(err, at, of->name, "%s must have 1 to %zu entries", of->name, of->max);
	*ret = mem_calloc(json_array_size(list), sizeof(**ret));
	json_array_foreach(list, i, item) {
		if (!json_is_string(item) || !of->is_one(json_string_value(item), json_string_length(item)))
			return conf_err(err, at, of->name, "%s: entry %zu is %s", of->name, i + 1, of->what);
		(*ret)[(*ret_n)++] = mem_strdup(json_string_value(item));
	}
	return 0;
}

int conf_read_yes(const json_t *obj, const char *at, const char *name, bool *ret, struct err *err)
{
	return jx_get_bool(obj, at, name, JX_OPTIONAL, ret, err) < 0 ? conf_named(err) : 0;
}

int conf_read_path(const json_t *obj, const char *at, const char *name, enum jx_need need, char **ret,
		   struct err *err)
{
	const char *path = NULL;

	if (jx_get_string(obj, at, name, need, &path, err) < 0)
		return conf_named(err);
	if (path && *path != '/')
		return conf_err(err, at, name, "\"%s\" must be an absolute path", path);
	*ret = mem_strdup0(path);
	return 0;
}

void conf_hide_url(json_t *obj, const char *url)
{
	const char *host = strstr(url, "://");
	const size_t n = host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?#") : 0;
	char hex[2 * DIGEST_SIZE + 1];
	uint8_t sum[DIGEST_SIZE];

	digest_sha256(url, strlen(url), sum);
	text_hex(sum, sizeof(sum), hex);
	(void)json_object_set_new(obj, "url", json_stringn(url, n));
	(void)json_object_set_new(obj, "url_sha256", json_string(hex));
}
