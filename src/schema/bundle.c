/* A schema together with those of a catalogue that it refers to, as one document: 2020-12 lets a schema carry others,
 * each under the $id by which it is referred to.  Lists of tools show it so, for hosts fetch nothing (MCP Q-05). */
#include "config.h"

#include "compile_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#include "uri_int.h"

#define IDENTITY_MAX 256                        /* bytes */
#define BUILT_IN "json-schema.org/draft"        /* after the scheme */
#define BUNDLE_SCALE 2                          /* one text of several documents, and new names are longer */

/* What a compilation has asked the catalogue for. */
struct found { char *uri; const json_t *doc; };
struct bundle {
	const struct schema_options *options;
	struct found *v;
	size_t n;
};

static const json_t *find_and_note(void *arg, const char *uri)
{
	struct bundle *b = arg;
	const json_t *doc = b->options->find(b->options->find_arg, uri);

	for (size_t i = 0; i < b->n && doc; i++)
		if (strcmp(b->v[i].uri, uri) == 0)
			return doc;
	if (doc) {
		b->v = mem_realloc(b->v, (b->n + 1) * sizeof *b->v);
		b->v[b->n++] = (struct found){ mem_strdup(uri), doc };
	}
	return doc;
}

/* Ask for all that the document refers to, whether or not anybody refers to that part of it. */
static int ask(const json_t *doc, const struct schema_options *noting, struct err *err)
{
	struct schema *s = NULL;
	int rc = schema_compile_with(doc, noting, &s, err);

	schema_free(&s);
	return rc;
}

/* The document in 2020-12, without "$schema".  New reference. */
static int modern(const json_t *doc, const struct schema_options *options, json_t **ret, struct err *err)
{
	int rc = translate_document(doc, options, ret, err);

	if (rc != 0)
		return rc < 0 ? rc : 0;
	*ret = json_copy((json_t *)(uintptr_t)doc);     /* shallow */
	(void)json_object_del(*ret, "$schema");         /* may be absent */
	return 0;
}

/* Its own "$defs" first; a copy, for the document is the caller's. */
static json_t *own_defs(json_t *root)
{
	json_t *defs = json_object_get(root, "$defs");

	defs = defs ? json_copy(defs) : json_object();
	(void)json_object_set_new(root, "$defs", defs);
	return defs;
}

/* More is found while it goes on. */
static int embed(const struct bundle *b, const struct schema_options *noting, json_t *root, struct err *err)
{
	json_t *defs = own_defs(root);

	for (size_t i = 0; i < b->n; i++) {
		const struct found f = b->v[i];
		json_t *doc = NULL;
		int rc;

		if (json_object_get(defs, f.uri))
			return err_set(err, ERR_INVALID, "/$defs", "\"%.120s\" is the name of a shared schema", f.uri);
		rc = ask(f.doc, noting, err);
		if (rc == 0)
			rc = modern(f.doc, noting, &doc, err);
		if (rc < 0)
			return err_wrap(err, "%.120s", f.uri);
		(void)json_object_set_new(defs, f.uri, doc);
	}
	return 0;
}

/* It must mean something without the catalogue, and be no larger than any schema may be (SEC S-209). */
static int check(const json_t *made, struct err *err)
{
	const struct schema_options alone = { .lenient = true, .scale = BUNDLE_SCALE };
	struct schema *s = NULL;
	struct str text;
	bool over;

	str_init(&text, SCHEMA_TEXT_MAX);
	jx_write(made, &text);
	over = text.failed;
	str_fini(&text);
	if (over)
		return err_set(err, ERR_LIMIT, "", "with the shared schemas that it refers to it is longer than %d KiB",
			       SCHEMA_TEXT_MAX >> 10);
	if (schema_compile_with(made, &alone, &s, err) < 0) {
		err->where[0] = '\0';
		return err_wrap(err, "with the shared schemas that it refers to");
	}
	schema_free(&s);
	return 0;
}

int schema_bundle(const json_t *doc, const struct schema_options *options, json_t **ret, struct err *err)
{
	struct bundle b = { .options = options };
	const struct schema_options noting = { .lenient = true, .scale = options->scale,
					       .find = options->find ? find_and_note : NULL, .find_arg = &b };
	json_t *made = NULL;
	struct err e;
	int rc = ask(doc, &noting, &e);

	if (rc == 0 && b.n == 0) {
		rc = schema_translate(doc, ret, &e);
	} else if (rc == 0) {
		rc = modern(doc, &noting, &made, &e);
		if (rc == 0)
			rc = embed(&b, &noting, made, &e);
		if (rc == 0)
			rc = check(made, &e);
		if (rc == 0) {
			*ret = json_incref(made);
			rc = 1;
		}
	}
	json_decref(made);
	while (b.n > 0)
		free(b.v[--b.n].uri);
	free(b.v);
	if (rc < 0 && err)
		*err = e;
	return rc;
}

int schema_identity(const json_t *doc, char **ret, struct err *err)
{
	struct dialect d;
	const char *keyword, *id, *fragment, *host;
	char at[16];
	int rc;

	if (!json_is_object(doc))
		return err_set(err, ERR_INVALID, "", "a shared schema must be an object");
	rc = dialect_by_name(json_object_get(doc, "$schema"), &d);
	if (rc < 0)     /* a list could not show it (schema_bundle()) */
		return err_set(err, rc, "/$schema", "a dialect that is not known by name");
	keyword = dialect_id_keyword(d.draft);
	(void)snprintf(at, sizeof at, "/%s", keyword);  /* fits */
	id = json_string_value(json_object_get(doc, keyword));
	if (!id) {
		rc = err_set(err, ERR_INVALID, at, json_object_get(doc, keyword) ? "must be a string" : "is missing");
		err_hint(err, "an absolute URI by which tools refer to it: %s: https://example.com/schemas/address", keyword);
		return rc;
	}
	fragment = strchr(id, '#');
	if (!uri_is_absolute(id) || (fragment && fragment[1]))  /* "…#" is how older dialects end their names */
		return err_set(err, ERR_INVALID, at, "must be an absolute URI without fragment, is \"%.120s\"", id);
	if (strlen(id) > IDENTITY_MAX)
		return err_set(err, ERR_LIMIT, at, "has more than %d bytes", IDENTITY_MAX);
	host = strstr(id, "://");
	if (host && strncmp(host + 3, BUILT_IN, sizeof BUILT_IN - 1) == 0)
		return err_set(err, ERR_INVALID, at, "\"%.120s\" belongs to JSON Schema itself", id);
	*ret = uri_resolve("", id);
	return 0;
}
