/* Identifiers, anchors and dialects: one walk over a document, before anything is compiled, notes which resource
 * each subschema belongs to.  Then a reference is found by its absolute URI: in the documents walked so
 * far, in the catalogue, among the built-in meta-schemas.  Nothing is fetched (MCP Q-05). */
#include "config.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

#include "compile_int.h"
#include "meta_int.h"
#include "uri_int.h"

/* --- Which dialect a schema speaks */

/* Five by name, others by a meta-schema whose vocabularies are known. */

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

	if (strncmp(p, begin, sizeof(begin) - 1) != 0 || strncmp(p += sizeof(begin) - 1, name, strlen(name)) != 0 ||
	    strncmp(p += strlen(name), middle, sizeof(middle) - 1) != 0)
		return 0;
	p += sizeof(middle) - 1;
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

static const json_t *resource_load(struct compiler *c, const char *uri);

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

/* --- where the compiler is, and its memory */

int compile_fail(struct compiler *c, enum err_code code, const char *fmt, ...)
{
	char text[sizeof(c->err->msg)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(c->err, code, str_text(&c->pointer), "%s", text);
}

int compile_fail_memory(struct compiler *c)
{
	return compile_fail(c, ERR_LIMIT, "the compiled schema is larger than %zu MiB",
			    c->nodes_max / SCHEMA_NODES_MAX * (SCHEMA_MEMORY_MAX >> 20));
}

void *compile_take(struct compiler *c, size_t n)
{
	return arena_alloc(c->mem, n);
}

size_t compile_enter(struct compiler *c, const char *name)
{
	size_t mark = c->pointer.len;

	jx_pointer_add(&c->pointer, name);
	return mark;
}

size_t compile_enter_index(struct compiler *c, size_t i)
{
	size_t mark = c->pointer.len;

	str_printf(&c->pointer, "/%zu", i);
	return mark;
}

void compile_leave(struct compiler *c, size_t mark)
{
	c->pointer.len = mark;
	c->pointer.p[mark] = '\0';
}

/* --- References between schemas: RFC 3986 5.2 on text, and fragments. */

/* RFC 3986 appendix B; a part that is absent has p NULL. */
struct part { const char *p; size_t len; };
struct uri { struct part scheme, authority, path, query; };

static struct part take_until(const char **p, const char *stop)
{
	const struct part part = { *p, strcspn(*p, stop) };

	*p += part.len;
	return part;
}

static bool has_scheme(const char *p)
{
	size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");

	return n > 0 && p[n] == ':' && strcspn(p, "0123456789+.-") > 0;
}

static struct uri split(const char *p)
{
	struct uri u = { { NULL, 0 }, { NULL, 0 }, { NULL, 0 }, { NULL, 0 } };

	if (has_scheme(p)) {
		u.scheme = take_until(&p, ":");
		p++;
	}
	if (strncmp(p, "//", 2) == 0) {
		p += 2;
		u.authority = take_until(&p, "/?#");
	}
	u.path = take_until(&p, "?#");
	if (*p == '?') {
		p++;
		u.query = take_until(&p, "#");
	}
	return u;
}

bool uri_is_absolute(const char *uri)
{
	return has_scheme(uri);
}

/* RFC 3986 5.2.4; segments of out are dropped from its end for "..", never those in front of start. */
static void put_without_dots(struct str *out, const char *p, size_t len)
{
	size_t start = out->len;
	const char *end = p + len;

	while (p < end) {
		const char *slash = memchr(p + 1, '/', (size_t)(end - p - 1));
		const char *next = slash ? slash : end;
		const char *name = *p == '/' ? p + 1 : p;
		size_t n = (size_t)(next - name);
		bool up = n == 2 && memcmp(name, "..", 2) == 0, here = n == 1 && *name == '.';

		if (up) {
			while (out->len > start && out->p[out->len - 1] != '/')
				out->len--;
			if (out->len > start)
				out->len--;
		}
		if (!up && !here)
			str_put(out, p, (size_t)(next - p));
		else if (next == end)
			str_putc(out, '/');
		p = next;
	}
}

static void put_merged(struct str *out, const struct uri *base, const struct part *path)
{
	struct str merged = STR_INIT;
	size_t keep = base->path.len;

	while (keep && base->path.p[keep - 1] != '/')
		keep--;
	str_put(&merged, base->path.p, keep);
	if (!keep && base->authority.p)
		str_putc(&merged, '/');
	str_put(&merged, path->p, path->len);
	put_without_dots(out, str_text(&merged), merged.len);
	str_fini(&merged);
}

static void put_path(struct str *out, const struct uri *base, const struct uri *ref)
{
	if (ref->path.len && *ref->path.p == '/')
		put_without_dots(out, ref->path.p, ref->path.len);
	else if (ref->path.len)
		put_merged(out, base, &ref->path);
	else
		str_put(out, base->path.p, base->path.len);
}

char *uri_resolve(const char *base, const char *reference)
{
	const struct uri b = split(base), r = split(reference);
	const struct part *scheme = r.scheme.p ? &r.scheme : &b.scheme;
	const struct part *authority = r.scheme.p || r.authority.p ? &r.authority : &b.authority;
	const struct part *query = r.scheme.p || r.authority.p || r.path.len || r.query.p ? &r.query : &b.query;
	struct str out = STR_INIT;

	if (scheme->p) {
		str_put(&out, scheme->p, scheme->len);
		str_putc(&out, ':');
	}
	if (authority->p) {
		str_puts(&out, "//");
		str_put(&out, authority->p, authority->len);
	}
	/* Names of a scheme without a hierarchy, as urn:, are taken as they are. */
	if (r.scheme.p && (!r.path.len || *r.path.p != '/'))
		str_put(&out, r.path.p, r.path.len);
	else if (r.scheme.p || r.authority.p)
		put_without_dots(&out, r.path.p, r.path.len);
	else
		put_path(&out, &b, &r);
	if (query->p) {
		str_putc(&out, '?');
		str_put(&out, query->p, query->len);
	}
	return str_take(&out);
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The fragment with its %xx undone, "" when there is none, NULL when an escape is broken or hides U+0000;
 * free() it. */
static char *uri_fragment(const char *reference)
{
	const char *p = strchr(reference, '#');
	char *copy = mem_strdup(p ? p + 1 : ""), *to = copy;

	for (p = copy; *p; p++) {
		char c = *p;

		if (c == '%') {
			int high = hex(p[1]), low = high < 0 ? -1 : hex(p[2]);

			if (low < 0 || (high | low) == 0) {
				free(copy);
				return NULL;
			}
			c = (char)(high << 4 | low);
			p += 2;
		}
		*to++ = c;
	}
	*to = '\0';
	return copy;
}

/* --- identifiers, anchors and where a reference leads */

#define DOCUMENTS_MAX 32        /* built-in documents of one schema */

/* MAKING RESOURCES */

/* Takes uri. */
static struct resource *new_resource(struct compiler *c, const json_t *doc, char *uri, const struct dialect *d)
{
	struct resource *r = mem_zalloc(sizeof(*r));

	r->uri = uri;
	r->doc = doc;
	r->dialect = *d;
	r->place = mem_strdup(str_text(&c->pointer));
	r->anchors = map_new();
	*c->last_resource = r;
	c->last_resource = &r->next;
	if (!map_get_z(c->by_uri, uri))
		(void)map_set_z(c->by_uri, uri, r);
	return r;
}

void resource_free_all(struct compiler *c)
{
	while (c->resources) {
		struct resource *r = c->resources;

		c->resources = r->next;
		free(r->uri);
		free(r->place);
		free(r->dynamic);
		map_free(&r->anchors);
		free(r);
	}
	for (size_t i = 0; i < c->nloaded; i++)
		json_decref(c->loaded[i]);
	free(c->loaded);
}

static int add_anchor(struct compiler *c, struct resource *r, const char *name, const json_t *doc)
{
	void *known = map_get_z(r->anchors, name);

	if (!*name)
		return 0;
	if (known && known != doc)
		return compile_fail(c, ERR_INVALID, "two schemas have the anchor \"%.80s\"", name);
	(void)map_set_z(r->anchors, name, (void *)(uintptr_t)doc);
	return 0;
}

static void add_dynamic(struct resource *r, const char *name)
{
	r->dynamic = mem_realloc(r->dynamic, (r->ndynamic + 1) * sizeof(*r->dynamic));
	r->dynamic[r->ndynamic++] = (struct name){ name, strlen(name) };
}

/* THE WALK */

static int walk(struct compiler *c, const json_t *doc, struct resource *in);

/* An identifier opens a resource; up to draft-07 one that is only a fragment names an anchor. */
static int read_id(struct compiler *c, const json_t *doc, struct resource **in)
{
	struct dialect d = (*in)->dialect;
	const json_t *dialect = json_object_get(doc, "$schema");
	const char *id, *hash;
	int rc = doc == (*in)->doc ? 0 : dialect_choose(c, json_object_get(doc, "$id") ? dialect : NULL, &d);

	if (rc)
		return rc;
	id = json_string_value(json_object_get(doc, dialect_id_keyword(d.draft)));
	if (!id || (d.draft & (D4 | D6 | D7) && json_object_get(doc, "$ref")))
		return 0;
	hash = strchr(id, '#');
	if (hash != id) {
		struct resource *outer = *in;
		char *uri = uri_resolve(outer->uri, id);
		const struct resource *known = map_get_z(c->by_uri, uri);

		/* Copies of one schema may come with the documents that use it. */
		if (known && known->doc != doc && !jx_equal(known->doc, doc)) {
			rc = compile_fail(c, ERR_INVALID, "two different schemas have the identifier \"%.120s\"", uri);
			free(uri);
			return rc;
		}
		*in = new_resource(c, doc, uri, &d);
		/* A document is also known by the URI that led to it. */
		if (outer->doc == doc)
			(void)map_set_z(c->by_uri, outer->uri, *in);
	}
	if (!hash || !hash[1])
		return 0;
	if (d.draft & (D2019 | D2020))
		return compile_fail(c, ERR_INVALID, "an identifier has no fragment: use $anchor");
	return add_anchor(c, *in, hash + 1, doc);
}

static int read_anchors(struct compiler *c, const json_t *doc, struct resource *in)
{
	const char *anchor = json_string_value(json_object_get(doc, "$anchor"));
	const char *dynamic = json_string_value(json_object_get(doc, "$dynamicAnchor"));
	int rc = 0;

	if (anchor && in->dialect.draft & (D2019 | D2020))
		rc = add_anchor(c, in, anchor, doc);
	if (!rc && dynamic && in->dialect.draft & D2020) {
		rc = add_anchor(c, in, dynamic, doc);
		add_dynamic(in, dynamic);
	}
	if (in->dialect.draft & D2019 && doc == in->doc && json_is_true(json_object_get(doc, "$recursiveAnchor")))
		add_dynamic(in, "");
	return rc;
}

static int walk_list(struct compiler *c, const json_t *list, struct resource *in)
{
	int rc = 0;

	for (size_t i = 0; i < json_array_size(list) && !rc; i++) {
		size_t mark = compile_enter_index(c, i);

		rc = walk(c, json_array_get(list, i), in);
		compile_leave(c, mark);
	}
	return rc;
}

static int walk_map(struct compiler *c, const json_t *map, struct resource *in)
{
	json_t *obj = (json_t *)(uintptr_t)map; /* jansson iterates without const */
	int rc = 0;

	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		size_t mark = compile_enter(c, json_object_iter_key(it));

		rc = walk(c, json_object_iter_value(it), in);
		compile_leave(c, mark);
	}
	return rc;
}

static int walk_member(struct compiler *c, const char *name, const json_t *v, struct resource *in)
{
	enum sub sub = c->sub_of(&in->dialect, name);
	size_t mark;
	int rc = 0;

	if (sub == SUB_NONE)
		return 0;
	mark = compile_enter(c, name);
	if (sub == SUB_MAP)
		rc = walk_map(c, v, in);
	else if (sub == SUB_LIST || json_is_array(v))
		rc = walk_list(c, v, in);
	else
		rc = walk(c, v, in);
	compile_leave(c, mark);
	return rc;
}

static int walk(struct compiler *c, const json_t *doc, struct resource *in)
{
	json_t *obj = (json_t *)(uintptr_t)doc; /* jansson iterates without const */
	struct place *place;
	int rc;

	if (!json_is_object(doc) || map_get_u64(c->places, (uintptr_t)doc))
		return 0;
	if (c->depth == SCHEMA_DEPTH_MAX)
		return compile_fail(c, ERR_LIMIT, "subschemas are nested deeper than %d levels", SCHEMA_DEPTH_MAX);
	place = arena_alloc(c->scratch, sizeof(*place));
	if (!place)
		return compile_fail(c, ERR_LIMIT, "more than %zu subschemas", c->nodes_max);
	rc = read_id(c, doc, &in);
	if (!rc)
		rc = read_anchors(c, doc, in);
	place->in = in;
	(void)map_set_u64(c->places, (uintptr_t)doc, place);
	c->depth++;
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it))
		rc = walk_member(c, json_object_iter_key(it), json_object_iter_value(it), in);
	c->depth--;
	return rc;
}

int resource_add_document(struct compiler *c, const json_t *doc, const char *uri, const struct dialect *inherited,
			  struct resource **ret)
{
	struct dialect d = *inherited;
	const struct place *place;
	unsigned depth = c->depth;
	int rc = dialect_choose(c, json_object_get(doc, "$schema"), &d);

	if (rc)
		return rc;
	*ret = new_resource(c, doc, mem_strdup(uri ? uri : ""), &d);
	c->depth = 0;
	rc = walk(c, doc, *ret);
	c->depth = depth;
	place = map_get_u64(c->places, (uintptr_t)doc);
	if (!rc && place)
		*ret = place->in;       /* it has an identifier of its own */
	return rc;
}

int resource_add_stray(struct compiler *c, const json_t *doc, struct resource *in)
{
	unsigned depth = c->depth;
	int rc;

	c->depth = 0;
	rc = walk(c, doc, in);
	c->depth = depth;
	return rc;
}

/* FINDING */

static const json_t *resource_load(struct compiler *c, const char *uri)
{
	size_t len = strcspn(uri, "#");
	char *whole = mem_strndup(uri, len);
	const json_t *doc = c->options.find ? c->options.find(c->options.find_arg, whole) : NULL;
	json_t *parsed = NULL;

	for (const struct meta_text *m = meta_texts; m->uri && !doc && c->nloaded < DOCUMENTS_MAX; m++) {
		struct err ignored;

		if (strcmp(m->uri, whole) != 0 || jx_parse(m->text, strlen(m->text), &parsed, &ignored) != 0)
			continue;
		c->loaded = mem_realloc(c->loaded, (c->nloaded + 1) * sizeof(json_t *));
		doc = c->loaded[c->nloaded++] = parsed;
	}
	free(whole);
	return doc;
}

static int find_resource(struct compiler *c, const char *uri, const char *reference, struct resource **ret)
{
	struct resource *r = map_get_z(c->by_uri, uri);
	const json_t *doc = r ? NULL : resource_load(c, uri);
	char *pointer;
	int rc;

	*ret = r;
	if (r)
		return 0;
	if (!doc) {
		rc = compile_fail(c, ERR_INVALID, "\"%.120s\" leads out of the schema, nothing is fetched: put it "
				  "into $defs and refer to \"#/$defs/...\"", reference);
		if (uri_is_absolute(uri))
			err_hint(c->err, "or store it where all tools find it by its $id: toolcrib schema add");
		return rc;
	}
	pointer = mem_strdup(str_text(&c->pointer));
	compile_leave(c, 0);
	str_printf(&c->pointer, "%s#", uri);
	rc = resource_add_document(c, doc, uri, &c->in->dialect, ret);
	if (!rc) {
		compile_leave(c, 0);
		str_puts(&c->pointer, pointer);
	}
	free(pointer);
	return rc;
}

/* The value at a pointer, and the innermost resource on the way to it. */
static const json_t *follow(struct compiler *c, const char *pointer, struct resource **in)
{
	const json_t *v = (*in)->doc;
	struct str part = STR_INIT;

	while (v && *pointer) {
		const struct place *place;
		size_t n = strcspn(pointer + 1, "/") + 1;

		str_reset(&part);
		str_put(&part, pointer, n);
		pointer += n;
		v = jx_at(v, part.p);
		place = v ? map_get_u64(c->places, (uintptr_t)v) : NULL;
		if (place)
			*in = place->in;
	}
	str_fini(&part);
	return v;
}

int resource_resolve(struct compiler *c, const char *reference, const json_t **ret, struct resource **ret_in,
		     char **ret_fragment)
{
	char *uri = uri_resolve(c->in->uri, reference), *fragment = uri_fragment(reference);
	const json_t *target = NULL;
	struct resource *in = NULL;
	int rc = fragment ? find_resource(c, uri, reference, &in) :
		 compile_fail(c, ERR_INVALID, "\"%.120s\" has a broken %% escape", reference);

	free(uri);
	if (!rc && (!*fragment || *fragment == '/'))
		target = follow(c, fragment, &in);
	else if (!rc)
		target = map_get_z(in->anchors, fragment);
	if (!rc && !target)
		rc = compile_fail(c, ERR_INVALID, "\"%.120s\" leads nowhere in this schema", reference);
	if (rc) {
		free(fragment);
		return rc;
	}
	*ret = target;
	*ret_in = in;
	*ret_fragment = fragment;
	return 0;
}
