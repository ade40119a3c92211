/* Which dialect a schema speaks: five by name, others by a meta-schema whose vocabularies are known. */
#include "config.h"

#include "compile_int.h"

#include <string.h>

#include "base/mem.h"

#define CHAIN_MAX 4             /* meta-schemas of meta-schemas */

#define VOC_ALL (VOC_CORE | VOC_APPLICATOR | VOC_UNEVALUATED | VOC_VALIDATION | VOC_META | VOC_FORMAT | VOC_CONTENT)

static const struct { const char *uri, *name; unsigned draft; } dialects[] = {
	{ "https://json-schema.org/draft/2020-12/schema", "2020-12", D2020 },
	{ "https://json-schema.org/draft/2019-09/schema", "2019-09", D2019 },
	{ "http://json-schema.org/draft-07/schema", "draft-07", D7 },
	{ "http://json-schema.org/draft-06/schema", "draft-06", D6 },
	{ "http://json-schema.org/draft-04/schema", "draft-04", D4 },
};

static const struct { const char *name; unsigned drafts, bits; } vocabularies[] = {
	{ "core", D2019 | D2020, VOC_CORE },
	{ "applicator", D2019, VOC_APPLICATOR | VOC_UNEVALUATED },
	{ "applicator", D2020, VOC_APPLICATOR },
	{ "unevaluated", D2020, VOC_UNEVALUATED },
	{ "validation", D2019 | D2020, VOC_VALIDATION },
	{ "meta-data", D2019 | D2020, VOC_META },
	{ "format", D2019, VOC_FORMAT },
	{ "format-annotation", D2020, VOC_FORMAT },
	{ "format-assertion", D2020, VOC_FORMAT | VOC_ASSERT },
	{ "content", D2019 | D2020, VOC_CONTENT },
};

const char *dialect_name(unsigned draft)
{
	for (size_t i = 0; i < NELEMS(dialects); i++)
		if (dialects[i].draft == draft)
			return dialects[i].name;
	return "";
}

struct dialect dialect_default(void)
{
	return (struct dialect){ D2020, VOC_ALL };      /* MCP Q-02 */
}

const char *dialect_id_keyword(unsigned draft)
{
	return draft == D4 ? "id" : "$id";
}

static bool same_uri(const char *uri, const char *dialect)
{
	size_t n = strlen(dialect);

	return strncmp(uri, dialect, n) == 0 && (uri[n] == '\0' || strcmp(uri + n, "#") == 0);
}

static unsigned draft_of(const char *uri)
{
	for (size_t i = 0; i < NELEMS(dialects); i++)
		if (same_uri(uri, dialects[i].uri))
			return dialects[i].draft;
	return 0;
}

static unsigned vocabulary_bits(unsigned draft, const char *uri)
{
	static const char begin[] = "https://json-schema.org/draft/", middle[] = "/vocab/";
	const char *name = dialect_name(draft), *p = uri;

	if (strncmp(p, begin, sizeof begin - 1) != 0 || strncmp(p += sizeof begin - 1, name, strlen(name)) != 0 ||
	    strncmp(p += strlen(name), middle, sizeof middle - 1) != 0)
		return 0;
	p += sizeof middle - 1;
	for (size_t i = 0; i < NELEMS(vocabularies); i++)
		if ((vocabularies[i].drafts & draft) && strcmp(vocabularies[i].name, p) == 0)
			return vocabularies[i].bits;
	return 0;
}

static int read_vocabularies(struct compiler *c, const json_t *meta, struct dialect *d)
{
	json_t *list = json_object_get(meta, "$vocabulary");

	if (!json_is_object(list) || !(d->draft & (D2019 | D2020)))
		return 0;
	d->vocabularies = VOC_CORE;
	for (void *it = json_object_iter(list); it; it = json_object_iter_next(list, it)) {
		const char *uri = json_object_iter_key(it);
		unsigned bits = vocabulary_bits(d->draft, uri);

		d->vocabularies |= bits;
		if (!bits && json_is_true(json_object_iter_value(it)))
			return compile_fail(c, ERR_INVALID, "the dialect needs the vocabulary \"%.120s\", which is not "
					    "supported", uri);
	}
	return 0;
}

static int fail_dialect(struct compiler *c, const char *uri)
{
	int rc = compile_fail(c, ERR_INVALID, "the dialect \"%.120s\" is not supported", uri);

	err_hint(c->err, "leave $schema out for 2020-12, or name 2019-09, draft-07, draft-06 or draft-04");
	return rc;
}

/* The draft of a meta-schema is that of its own meta-schema, up to one that is known by name. */
static int choose_by_meta(struct compiler *c, const char *uri, struct dialect *ret)
{
	const json_t *first = NULL;
	const char *at = uri;
	unsigned draft = 0;

	for (int i = 0; i < CHAIN_MAX && !draft; i++) {
		const json_t *meta = resource_load(c, at);

		if (!first)
			first = meta;
		at = json_string_value(json_object_get(meta, "$schema"));
		if (!at)
			return fail_dialect(c, uri);
		draft = draft_of(at);
	}
	if (!draft)
		return fail_dialect(c, uri);
	*ret = (struct dialect){ draft, VOC_ALL };
	return read_vocabularies(c, first, ret);
}

int dialect_by_name(const json_t *v, struct dialect *ret)
{
	unsigned draft = json_is_string(v) ? draft_of(json_string_value(v)) : 0;

	*ret = dialect_default();
	if (draft)
		ret->draft = draft;
	return draft || !v ? 0 : ERR_INVALID;
}

int dialect_choose(struct compiler *c, const json_t *v, struct dialect *ret)
{
	const char *uri = json_string_value(v);
	unsigned draft;
	size_t mark;
	int rc = 0;

	if (!v)
		return 0;
	mark = compile_enter(c, "$schema");
	draft = uri ? draft_of(uri) : 0;
	if (!uri)
		rc = compile_fail(c, ERR_INVALID, "must be a string");
	else if (draft)
		*ret = (struct dialect){ draft, VOC_ALL };
	else
		rc = choose_by_meta(c, uri, ret);
	compile_leave(c, mark);
	return rc;
}
