/* A schema together with those of a catalogue that it refers to, as one document: 2020-12 lets a schema carry others,
 * each under the $id by which it is referred to.  Lists of tools show it so, for hosts fetch nothing (MCP Q-05).
 * Older dialects are translated on the way. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#include "compile_int.h"
#include "uri_int.h"

/* --- An older dialect in the words of 2020-12, for lists of tools */

/* Hosts refuse what is not 2020-12, though most schemas mean the same in both once a few keywords have their new
 * names.  What would change its meaning is not translated. */

#define TRANSLATE_SCALE 2       /* new names are longer */

struct translation {
	const json_t *root;
	struct dialect from;
	struct str pointer;
	unsigned depth;
	bool contains, rest_items;      /* together they mean something else from 2020-12 on */
	struct err *err;
};

static int translate(struct translation *t, const json_t *doc, json_t **ret);

static int refuse(struct translation *t, const char *why)
{
	return err_set(t->err, ERR_INVALID, str_text(&t->pointer), "%s", why);
}

static size_t enter(struct translation *t, const char *name)
{
	size_t mark = t->pointer.len;

	jx_pointer_add(&t->pointer, name);
	return mark;
}

static void leave(struct translation *t, size_t mark)
{
	t->pointer.len = mark;
	t->pointer.p[mark] = '\0';
}

/* REFERENCES: pointers go through keywords that have new names */

static const char *new_name(const char *name, const json_t *v, const json_t *child)
{
	if (strcmp(name, "definitions") == 0)
		return "$defs";
	if (strcmp(name, "additionalItems") == 0)
		return "items";
	if (strcmp(name, "items") == 0 && json_is_array(v))
		return "prefixItems";
	if (strcmp(name, "dependencies") == 0 && child)
		return json_is_array(child) ? "dependentRequired" : "dependentSchemas";
	return name;
}

/* "#/definitions/a" to "#/$defs/a": keywords stand where schemas are, names and indexes between them. */
static void put_reference(struct translation *t, const char *uri, struct str *out)
{
	enum sub sub = SUB_SCHEMA;
	const json_t *v = t->root;
	const char *p = uri + 1;
	bool keyword = true;

	str_putc(out, '#');
	while (v && *p == '/') {
		size_t n = strcspn(p + 1, "/");
		struct str token = STR_INIT, step = STR_INIT;
		const json_t *child;

		str_put(&token, p + 1, n);
		str_put(&step, p, n + 1);
		p += n + 1;
		child = jx_at(v, step.p);
		if (keyword && sub != SUB_NONE) {
			struct str next = STR_INIT;

			str_put(&next, p, *p ? strcspn(p + 1, "/") + 1 : 0);
			str_printf(out, "/%s", new_name(token.p, child, child ? jx_at(child, str_text(&next)) : NULL));
			str_fini(&next);
			sub = keyword_sub(&t->from, token.p);
			keyword = sub == SUB_SCHEMA || (sub == SUB_ITEMS && !json_is_array(child));
		} else {
			str_put(out, step.p, step.len);
			keyword = true;
		}
		v = child;
		str_fini(&token);
		str_fini(&step);
	}
	str_puts(out, p);
}

static int translate_reference(struct translation *t, const json_t *v, json_t *into)
{
	const char *uri = json_string_value(v);
	struct str text = STR_INIT;

	if (!uri)
		return refuse(t, "must be a string");
	if (*uri == '#' && !strchr(uri, '%'))
		put_reference(t, uri, &text);
	else if (*uri == '#')
		return refuse(t, "a reference with escapes is left as it is");
	else
		str_puts(&text, uri);
	(void)json_object_set_new(into, "$ref", json_stringn(text.p, text.len));
	str_fini(&text);
	return 0;
}

/* KEYWORDS */

static int translate_list(struct translation *t, const json_t *list, json_t **ret)
{
	json_t *made = json_array(), *child;
	int rc = 0;

	for (size_t i = 0; i < json_array_size(list) && !rc; i++) {
		rc = translate(t, json_array_get(list, i), &child);
		if (!rc)
			(void)json_array_append_new(made, child);
	}
	*ret = made;
	return rc;
}

static int translate_map(struct translation *t, const json_t *map, json_t **ret)
{
	json_t *obj = (json_t *)(uintptr_t)map, *made = json_object(), *child; /* jansson iterates without const */
	int rc = 0;

	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		size_t mark = enter(t, json_object_iter_key(it));

		rc = translate(t, json_object_iter_value(it), &child);
		if (!rc) {
			(void)json_object_set_new(made, json_object_iter_key(it), child);
			leave(t, mark);
		}
	}
	*ret = made;
	return rc;
}

/* One keyword became two with 2019-09. */
static int translate_dependencies(struct translation *t, const json_t *v, json_t *into)
{
	json_t *obj = (json_t *)(uintptr_t)v, *required = json_object(), *schemas = json_object(), *child;
	int rc = 0;

	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		if (json_is_array(json_object_iter_value(it))) {
			(void)json_object_set(required, json_object_iter_key(it), json_object_iter_value(it));
			continue;
		}
		rc = translate(t, json_object_iter_value(it), &child);
		if (!rc)
			(void)json_object_set_new(schemas, json_object_iter_key(it), child);
	}
	if (json_object_size(required))
		(void)json_object_set(into, "dependentRequired", required);
	if (json_object_size(schemas))
		(void)json_object_set(into, "dependentSchemas", schemas);
	json_decref(required);
	json_decref(schemas);
	return rc;
}

/* Draft-04: true turns the bound beside it into an exclusive one. */
static void translate_bound(const json_t *doc, const char *name, json_t *into)
{
	const char *exclusive = strcmp(name, "minimum") == 0 ? "exclusiveMinimum" : "exclusiveMaximum";
	bool is = json_is_true(json_object_get(doc, exclusive));

	(void)json_object_set(into, is ? exclusive : name, json_object_get(doc, name));
}

static int translate_id(struct translation *t, const json_t *doc, const char *name, const json_t *v, json_t *into)
{
	const char *id = json_string_value(v);

	if (id && *id == '#' && id[1]) {
		(void)json_object_set_new(into, "$anchor", json_string(id + 1));
		return 0;
	}
	if (doc != t->root)
		return refuse(t, "a subschema has an identifier");
	(void)json_object_set_new(into, "$id", json_incref((json_t *)(uintptr_t)v));
	return 0;
}

/* Keywords that have another name, form or meaning; false: they stay as they are. */
static bool translate_special(struct translation *t, const json_t *doc, const char *name, json_t *v, json_t *into,
			      int *rc)
{
	json_t *child = NULL;

	*rc = 0;
	if (strcmp(name, "$schema") == 0 || strcmp(name, "$recursiveAnchor") == 0)
		return true;
	if (strcmp(name, "$ref") == 0 || strcmp(name, "$recursiveRef") == 0)
		*rc = translate_reference(t, v, into);
	else if (strcmp(name, dialect_id_keyword(t->from.draft)) == 0)
		*rc = translate_id(t, doc, name, v, into);
	else if (strcmp(name, "dependencies") == 0)
		*rc = translate_dependencies(t, v, into);
	else if (t->from.draft == D4 && (strcmp(name, "minimum") == 0 || strcmp(name, "maximum") == 0))
		translate_bound(doc, name, into);
	else if (strcmp(name, "additionalItems") == 0 && json_is_array(json_object_get(doc, "items")))
		*rc = translate(t, v, &child);
	else if (strcmp(name, "additionalItems") == 0 ||
		 (t->from.draft == D4 && strncmp(name, "exclusiveM", 10) == 0) ||
		 (strcmp(name, "items") == 0 && json_is_array(v) && json_array_size(v) == 0))
		return true;                    /* no effect, or said by the bound beside it */
	else
		return false;
	if (child)
		(void)json_object_set_new(into, "items", child);
	return true;
}

static int translate_member(struct translation *t, const json_t *doc, const char *name, json_t *v, json_t *into)
{
	const struct dialect to = dialect_default();
	enum sub sub = keyword_sub(&t->from, name);
	json_t *child = NULL;
	int rc;

	if (translate_special(t, doc, name, v, into, &rc))
		return rc;
	t->contains |= strcmp(name, "contains") == 0;
	t->rest_items |= strcmp(name, "unevaluatedItems") == 0;
	if (strcmp(name, "definitions") == 0 && json_object_get(doc, "$defs"))
		return refuse(t, "stands beside $defs");
	if (sub == SUB_NONE && (keyword_sub(&to, name) != SUB_NONE || keyword_is_new(&t->from, name)))
		return refuse(t, "has no meaning in this dialect, but would have one in 2020-12");
	if (sub == SUB_NONE)
		child = json_incref(v);
	else if (sub == SUB_MAP)
		rc = translate_map(t, v, &child);
	else if (sub == SUB_LIST || json_is_array(v))
		rc = translate_list(t, v, &child);
	else
		rc = translate(t, v, &child);
	if (child)
		(void)json_object_set_new(into, new_name(name, v, NULL), child);
	return rc;
}

/* Up to draft-07 what stands beside a $ref has no effect, so only what never has one is kept. */
static bool is_kept_beside_ref(const char *name)
{
	static const char *const kept[] = { "$ref", "$schema", "$comment", "title", "description", "default",
		"examples",
					    "definitions", "$defs", NULL };

	for (size_t i = 0; kept[i]; i++)
		if (strcmp(kept[i], name) == 0)
			return true;
	return false;
}

static int translate(struct translation *t, const json_t *doc, json_t **ret)
{
	json_t *obj = (json_t *)(uintptr_t)doc, *made;  /* jansson iterates without const */
	bool alone = t->from.draft & (D4 | D6 | D7) && json_object_get(doc, "$ref");
	int rc = 0;

	*ret = NULL;
	if (!json_is_object(doc)) {
		*ret = json_incref(obj);
		return 0;
	}
	if (t->depth == SCHEMA_DEPTH_MAX)
		return refuse(t, "subschemas are nested too deep");
	made = json_object();
	t->depth++;
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		const char *name = json_object_iter_key(it);
		size_t mark;

		if (alone && !is_kept_beside_ref(name))
			continue;
		mark = enter(t, name);
		rc = translate_member(t, doc, name, json_object_iter_value(it), made);
		if (!rc)
			leave(t, mark);
	}
	t->depth--;
	if (rc)
		json_decref(made);
	else
		*ret = made;
	return rc;
}

/* schema_translate(), with a catalogue. */
static int translate_document(const json_t *doc, const struct schema_options *options, json_t **ret, struct err *err)
{
	struct translation t = { .root = doc, .pointer = STR_INIT, .err = err };
	const struct schema_options check = { .lenient = true, .scale = TRANSLATE_SCALE, .find = options->find,
					      .find_arg = options->find_arg };
	struct schema *compiled = NULL;
	json_t *made = NULL;
	int rc = dialect_by_name(json_object_get(doc, "$schema"), &t.from);

	if (rc)
		return err_set(err, ERR_INVALID, "/$schema", "a dialect that is not known by name");
	if (t.from.draft == D2020)
		return 0;
	str_puts(&t.pointer, "");
	rc = translate(&t, doc, &made);
	if (!rc && (t.from.draft & D2019) && t.contains && t.rest_items)
		rc = refuse(&t, "unevaluatedItems sees what contains has found from 2020-12 on");
	/* A reference to what has gone, as what stood beside another reference. */
	if (!rc && schema_compile_with(made, &check, &compiled, err) != 0)
		rc = ERR_INVALID;
	schema_free(&compiled);
	str_fini(&t.pointer);
	if (rc) {
		json_decref(made);
		return rc;
	}
	*ret = made;
	return 1;
}

int schema_translate(const json_t *doc, json_t **ret, struct err *err)
{
	const struct schema_options alone = { .lenient = true };

	return translate_document(doc, &alone, ret, err);
}

/* --- bundles: a schema and all that it refers to */

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
		b->v = mem_realloc(b->v, (b->n + 1) * sizeof(*b->v));
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
	(void)snprintf(at, sizeof(at), "/%s", keyword);  /* fits */
	id = json_string_value(json_object_get(doc, keyword));
	if (!id) {
		rc = err_set(err, ERR_INVALID, at, json_object_get(doc, keyword) ? "must be a string" : "is missing");
		err_hint(err, "an absolute URI by which tools refer to it: %s: https://example.com/schemas/address",
			 keyword);
		return rc;
	}
	fragment = strchr(id, '#');
	if (!uri_is_absolute(id) || (fragment && fragment[1]))  /* "…#" is how older dialects end their names */
		return err_set(err, ERR_INVALID, at, "must be an absolute URI without fragment, is \"%.120s\"", id);
	if (strlen(id) > IDENTITY_MAX)
		return err_set(err, ERR_LIMIT, at, "has more than %d bytes", IDENTITY_MAX);
	host = strstr(id, "://");
	if (host && strncmp(host + 3, BUILT_IN, sizeof(BUILT_IN) - 1) == 0)
		return err_set(err, ERR_INVALID, at, "\"%.120s\" belongs to JSON Schema itself", id);
	*ret = uri_resolve("", id);
	return 0;
}
