/* Fuzz target: URIs of upstreams and references to pages.  The first line is a URI prefix, the rest a `_meta` or a URI there.
 * A URI comes back as it was; a reference is moved as its page is, or dropped, and nothing else is touched. */

#include "config.h"

#include <jansson.h>
#include <string.h>

#include "../../src/upstream/upstream_int.h"
#include "base/mem.h"
#include "base/text.h"
#include "fuzz.h"
#include "json/json.h"

static void check_uri(const char *uri, const char *prefix)
{
	char *here = upstream_uri_here(uri, prefix), *back = upstream_uri_there(here, prefix);

	FUZZ_CHECK(strcmp(back, uri) == 0);
	free(here);
	free(back);
}

static void check_ref(const json_t *was, const json_t *is, const char *member, const char *prefix)
{
	const char *uri = json_string_value(json_object_get(was, member));
	const char *here = json_string_value(json_object_get(is, member));

	FUZZ_CHECK(json_object_size(is) <= json_object_size(was));
	if (!here) {
		FUZZ_CHECK(!json_object_get(is, member));
		return;
	}
	char *back = upstream_uri_there(here, prefix);
	FUZZ_CHECK(strlen(here) <= UPSTREAM_URI_MAX && uri && strcmp(back, uri) == 0);
	free(back);
}

/* The text, read twice: a copy of a tree has not all numbers (decision 0007). */
static void check_meta(json_t *was, json_t *is, const char *prefix)
{
	upstream_refs_here(is, prefix);
	check_ref(was, is, "ui/resourceUri", prefix);
	check_ref(was, is, "openai/outputTemplate", prefix);
	check_ref(json_object_get(was, "ui"), json_object_get(is, "ui"), "resourceUri", prefix);
	/* Without them both are the same. */
	json_t *sides[] = { was, is };
	for (size_t i = 0; i < NELEMS(sides); i++) {
		(void)json_object_del(sides[i], "ui/resourceUri");
		(void)json_object_del(sides[i], "openai/outputTemplate");
		(void)json_object_del(json_object_get(sides[i], "ui"), "resourceUri");
	}
	struct str a = STR_INIT, b = STR_INIT;
	jx_write_canon(was, &a);
	jx_write_canon(is, &b);
	FUZZ_CHECK(strcmp(str_text(&a), str_text(&b)) == 0);
	str_fini(&a);
	str_fini(&b);
}

FUZZ_TARGET(page)
{
	const char *text = (const char *)data, *end = size ? memchr(text, '\n', size) : NULL;
	char prefix[UPSTREAM_PREFIX_MAX + 1];
	json_t *meta = NULL, *again = NULL;

	if (!end || (size_t)(end - text) > UPSTREAM_PREFIX_MAX || memchr(text, '\0', (size_t)(end - text)))
		return 0;
	memcpy(prefix, text, (size_t)(end - text));
	prefix[end - text] = '\0';
	/* One that a document may have. */
	if (*prefix && (prefix[strspn(prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.")] ||
			strchr("0123456789+-.", *prefix) || upstream_uri_prefix_hides(prefix)))
		return 0;
	size_t len = size - (size_t)(end + 1 - text);
	char *uri = mem_strndup(end + 1, len);
	check_uri(uri, prefix);
	free(uri);
	if (jx_parse(end + 1, len, &meta, NULL) == 0 && json_is_object(meta) && jx_parse(end + 1, len, &again, NULL) == 0)
		check_meta(meta, again, prefix);
	json_decref(meta);
	json_decref(again);
	return 0;
}
