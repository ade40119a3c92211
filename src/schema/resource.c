/* Identifiers and anchors: one walk over a document, before anything is compiled, notes which resource
 * each subschema belongs to.  Then a reference is found by its absolute URI: in the documents walked so
 * far, in the catalogue, among the built-in meta-schemas.  Nothing is fetched (MCP Q-05). */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

#include "compile_int.h"
#include "meta_int.h"
#include "uri_int.h"

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
	enum sub sub = keyword_sub(&in->dialect, name);
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

const json_t *resource_load(struct compiler *c, const char *uri)
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
