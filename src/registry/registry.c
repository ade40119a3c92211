/* The current picture of each tenant, the definitions they share, and the pages of its lists.  Loop thread alone; a
 * call and a page hold the snapshot that they began with. */

#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "assent/rule.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "json/json.h"
#include "registry/registry.h"
#include "schema/schema.h"
#include "tenant/scope.h"

#include "registry_int.h"

/* --- one line of a list */

/* The listed part of a definition, cut to what exists in a revision (MCP table A, B-14).  The parts are spans of the
 * stored text: schemas reach the wire with their members in the author's order (MCP Q-08). */

enum {
	W_TITLE, W_DESCRIPTION, W_INPUT, W_INPUT_DIALECT, W_OUTPUT, W_OUTPUT_TYPE, W_OUTPUT_DIALECT, W_ANNOTATIONS,
	W_ANNOTATIONS_TITLE, W_ICONS, W_META, W_COUNT
};

static void put_member(struct str *out, const char *name, const struct jx_want *w)
{
	if (!w->span.p)
		return;
	str_printf(out, ",\"%s\":", name);
	str_put(out, w->span.p, w->span.len);
}

/* R2 knows a title only in the annotations (MCP B-14). */
static void put_annotations_r2(struct str *out, const struct jx_want *w)
{
	const struct jx_span *notes = &w[W_ANNOTATIONS].span, *title = &w[W_TITLE].span;
	const char *rest = notes->p ? notes->p + 1 : "}";
	size_t len = notes->p ? notes->len - 1 : 1;

	if (!title->p || w[W_ANNOTATIONS_TITLE].span.p) {
		put_member(out, "annotations", &w[W_ANNOTATIONS]);
		return;
	}
	str_puts(out, ",\"annotations\":{\"title\":");
	str_put(out, title->p, title->len);
	if (rest[strspn(rest, " \t\r\n")] != '}')
		str_putc(out, ',');
	str_put(out, rest, len);
}

/* May the schema say more than its text does? */
static bool has_more(const struct jx_span *schema, const struct jx_want *dialect, const struct catalogue *shared)
{
	static const char ref[] = "ef\"";       /* $ref, $dynamicRef, $recursiveRef */

	return dialect->span.p ||
	       (!catalogue_is_empty(shared) && memmem(schema->p, schema->len, ref, sizeof(ref) - 1) != NULL);
}

/* Hosts refuse other dialects than 2020-12 (MCP Q-02) and fetch nothing (MCP Q-05): what means the same in it is
 * shown in its words, with the shared schemas that it refers to. */
static bool put_bundle(struct str *out, const struct jx_span *schema, const struct catalogue *shared)
{
	struct catalogue_use use = { .from = shared };
	const struct schema_options options = { .lenient = true, .find = catalogue_find, .find_arg = &use };
	json_t *tree = NULL, *whole = NULL;
	struct err ignored;
	bool done = jx_parse_scanned(schema->p, schema->len, &tree, NULL) == 0 &&
		    schema_bundle(tree, &options, &whole, &ignored) == 1;

	if (done)
		jx_write(whole, out);
	json_decref(whole);
	json_decref(tree);
	catalogue_use_end(&use, NULL);
	return done;
}

static void put_schema(struct str *out, const struct jx_want *schema, const struct jx_want *dialect,
		       const struct catalogue *shared)
{
	if (!has_more(&schema->span, dialect, shared) || !put_bundle(out, &schema->span, shared))
		str_put(out, schema->span.p, schema->span.len);
}

/* R3 and R4 want type object at the root; what has another one is wrapped or left out (MCP B-16). */
static void put_output(struct str *out, const struct rev_row *rev, const struct jx_want *w,
		       const struct catalogue *shared)
{
	const struct jx_span *schema = &w[W_OUTPUT].span, *type = &w[W_OUTPUT_TYPE].span;
	json_t *tree = NULL;
	enum reg_output form = REG_OUTPUT_HIDDEN;

	if (!schema->p)
		return;
	if (rev->structured_any || (type->p && type->len == 8 && memcmp(type->p, "\"object\"", 8) == 0)) {
		str_puts(out, ",\"outputSchema\":");
		put_schema(out, &w[W_OUTPUT], &w[W_OUTPUT_DIALECT], shared);
		return;
	}
	if (jx_parse_scanned(schema->p, schema->len, &tree, NULL) == 0)
		form = define_output_form(tree);
	json_decref(tree);
	if (form != REG_OUTPUT_WRAPPED)
		return;
	str_puts(out, ",\"outputSchema\":{\"type\":\"object\",\"properties\":{\"result\":");
	put_schema(out, &w[W_OUTPUT], &w[W_OUTPUT_DIALECT], shared);
	str_puts(out, "},\"required\":[\"result\"]}");
}

/* UI-04: a page that this tenant cannot read is not named to it. */
static void drop_unread(const struct reg_snapshot *snap, json_t *obj, const char *member)
{
	const json_t *v = json_object_get(obj, member);
	const char *uri = json_string_value(v);

	if (uri && uri_is_page(uri) && !reg_find_uri(snap, uri, json_string_length(v), NULL))
		(void)json_object_del(obj, member);
}

static void put_tool_meta(struct str *out, const struct reg_snapshot *snap, const struct reg_tool *tool,
			  const struct jx_want *w)
{
	json_t *meta = NULL, *ui;

	if (!tool->def->refers || !w->span.p || jx_parse_scanned(w->span.p, w->span.len, &meta, NULL) < 0) {
		put_member(out, "_meta", w);
		return;
	}
	ui = json_object_get(meta, "ui");
	drop_unread(snap, ui, "resourceUri");
	drop_unread(snap, meta, "ui/resourceUri");
	drop_unread(snap, meta, "openai/outputTemplate");
	if (json_is_object(ui) && json_object_size(ui) == 0)
		(void)json_object_del(meta, "ui");
	if (json_object_size(meta) > 0) {
		str_puts(out, ",\"_meta\":");
		jx_write(meta, out);
	}
	json_decref(meta);
}

static bool put_tool(struct str *out, const struct reg_snapshot *snap, const struct reg_tool *tool,
		     const struct rev_row *rev, const struct catalogue *shared)
{
	struct jx_want w[W_COUNT] = {
		[W_TITLE] = { .pointer = "/title" }, [W_DESCRIPTION] = { .pointer = "/description" },
		[W_INPUT] = { .pointer = "/inputSchema" }, [W_INPUT_DIALECT] = { .pointer = "/inputSchema/$schema" },
		[W_OUTPUT_DIALECT] = { .pointer = "/outputSchema/$schema" }, [W_OUTPUT] = { .pointer = "/outputSchema" },
		[W_OUTPUT_TYPE] = { .pointer = "/outputSchema/type" }, [W_ANNOTATIONS] = { .pointer = "/annotations" },
		[W_ANNOTATIONS_TITLE] = { .pointer = "/annotations/title" }, [W_ICONS] = { .pointer = "/icons" },
		[W_META] = { .pointer = "/_meta" },
	};

	if (jx_scan(tool->def->text, tool->def->len, w, W_COUNT, NULL) < 0)
		return false;
	str_puts(out, "{\"name\":");
	jx_write_stringz(out, tool->name);
	if (rev->title)
		put_member(out, "title", &w[W_TITLE]);
	put_member(out, "description", &w[W_DESCRIPTION]);
	if (w[W_INPUT].span.p) {
		str_puts(out, ",\"inputSchema\":");
		put_schema(out, &w[W_INPUT], &w[W_INPUT_DIALECT], shared);
	}
	if (rev->output_schema)
		put_output(out, rev, w, shared);
	if (rev->annotations && rev->title)
		put_member(out, "annotations", &w[W_ANNOTATIONS]);
	else if (rev->annotations)
		put_annotations_r2(out, w);
	if (rev->icons)
		put_member(out, "icons", &w[W_ICONS]);
	if (rev->tool_meta)
		put_tool_meta(out, snap, tool, &w[W_META]);
	str_putc(out, '}');
	return true;
}

/* --- prompts, resources, templates */

enum { P_URI, P_TITLE, P_DESCRIPTION, P_ARGUMENTS, P_MIME, P_SIZE, P_ANNOTATIONS, P_ICONS, P_META, P_COUNT };

/* A copy without one member of each object: what came with a later revision. */
static void put_without(struct str *out, const struct jx_span *span, const char *member)
{
	json_t *tree = NULL, *entry;
	size_t i;

	if (jx_parse_scanned(span->p, span->len, &tree, NULL) < 0)
		return;
	(void)json_object_del(tree, member); /* may be absent, or an array */
	json_array_foreach(tree, i, entry)
		(void)json_object_del(entry, member);
	jx_write(tree, out);
	json_decref(tree);
}

static void put_older(struct str *out, const char *name, const struct jx_want *w, const char *lacks)
{
	if (!w->span.p)
		return;
	str_printf(out, ",\"%s\":", name);
	if (lacks)
		put_without(out, &w->span, lacks);
	else
		str_put(out, w->span.p, w->span.len);
}

static bool put_hosted(struct str *out, const struct reg_tool *line, const struct rev_row *rev)
{
	bool template = line->def->kind == REG_TEMPLATE;
	struct jx_want w[P_COUNT] = {
		[P_URI] = { .pointer = template ? "/uriTemplate" : "/uri" }, [P_TITLE] = { .pointer = "/title" },
		[P_DESCRIPTION] = { .pointer = "/description" }, [P_ARGUMENTS] = { .pointer = "/arguments" },
		[P_MIME] = { .pointer = "/mimeType" }, [P_SIZE] = { .pointer = "/size" },
		[P_ANNOTATIONS] = { .pointer = "/annotations" }, [P_ICONS] = { .pointer = "/icons" },
		[P_META] = { .pointer = "/_meta" },
	};

	if (jx_scan(line->def->text, line->def->len, w, P_COUNT, NULL) < 0)
		return false;
	str_puts(out, "{\"name\":");
	jx_write_stringz(out, line->name);
	put_member(out, template ? "uriTemplate" : "uri", &w[P_URI]);
	if (rev->title)
		put_member(out, "title", &w[P_TITLE]);
	put_member(out, "description", &w[P_DESCRIPTION]);
	put_older(out, "arguments", &w[P_ARGUMENTS], rev->title ? NULL : "title");              /* MCP I-01 */
	put_member(out, "mimeType", &w[P_MIME]);
	put_member(out, "size", &w[P_SIZE]);
	put_older(out, "annotations", &w[P_ANNOTATIONS], rev->tool_meta ? NULL : "lastModified");     /* MCP T-34 */
	if (rev->icons)
		put_member(out, "icons", &w[P_ICONS]);
	if (rev->tool_meta)
		put_member(out, "_meta", &w[P_META]);
	str_putc(out, '}');
	return true;
}

/* A line of a list as this revision knows it (page_line.c).  False: the stored text is no JSON. */
static bool page_put_line(struct str *out, const struct reg_snapshot *snap, const struct reg_tool *line, enum rev rev,
			  const struct catalogue *shared)
{
	if (line->def->kind == REG_TOOL)
		return put_tool(out, snap, line, &rev_table[rev], shared);
	return put_hosted(out, line, &rev_table[rev]);
}

/* --- pages of the lists */

/* Made once per snapshot, kind, revision, beginning and cut, and the least recently used ones go first.  A cut is the
 * text of scopes that do not let everything pass: keys of equal scopes share pages. */

enum {
	ALL_MAX = 1000,                 /* lines of R0's only page */
	PAGE_BYTES_MAX = 4 << 20,       /* a page ends after the line that passes this */
	PAGES_MAX = 512,                /* of one snapshot: the walk below has an end, whatever cuts there are */
};

struct page {
	struct list lru, mine;
	enum reg_kind kind;
	enum rev rev;
	bool all;
	bool models;                    /* what is for apps alone is left out */
	size_t first, last;             /* indexes: its first line, its last one */
	bool more;                      /* there are lines behind it */
	size_t total;                   /* lines of all pages */
	char *cut;                      /* or NULL */
	char *text;
	size_t len;
};

static void page_free(struct registry *reg, struct page *p)
{
	list_unlink(&p->lru);
	list_unlink(&p->mine);
	reg->page_bytes -= p->len;
	free(p->cut);
	free(p->text);
	free(p);
}

static void reg_pages_drop(struct registry *reg, struct reg_snap *snap)
{
	while (!list_empty(&snap->pages))
		page_free(reg, CONTAINER_OF(snap->pages.next, struct page, mine));
}

static bool is_shown(const struct page *p, const struct reg_tool *line, const struct scopes *scopes)
{
	return !(p->models && line->def->app_only) && (!p->cut || reg_in_scope(line, scopes));
}

static void put_line(const struct registry *reg, const struct reg_snapshot *snap, struct str *text,
		     const struct reg_tool *line, enum rev rev)
{
	size_t len = text->len;
	bool broken = CONTAINER_OF(line->def, const struct reg_node, pub)->broken != NULL;

	if (len > 1)
		str_putc(text, ',');
	if (!broken && page_put_line(text, snap, line, rev, reg->shared))
		return;
	/* MCP B-31: one bad tool never breaks the list. */
	log_warn(NULL, "definition left out of the list name=%s version=%lld", line->def->name, (long long)line->def->version);
	text->len = len;
}

static struct page *page_make(const struct registry *reg, const struct reg_snapshot *snap, const struct page *like,
			      const struct scopes *scopes)
{
	const struct reg_list *list = &snap->list[like->kind];
	struct page *p = mem_dup(like, sizeof(*like));
	struct str text = STR_INIT;
	size_t max = p->all ? ALL_MAX : REG_PAGE, lines = 0;

	p->cut = like->cut ? mem_strdup(like->cut) : NULL;
	str_putc(&text, '[');
	for (size_t i = 0; i < list->count; i++) {
		if (!is_shown(p, &list->items[i], scopes))
			continue;
		p->total++;
		if (i < p->first || p->more)
			continue;
		if (lines == max || text.len >= PAGE_BYTES_MAX) {
			p->more = true;
			continue;
		}
		put_line(reg, snap, &text, &list->items[i], p->rev);
		lines++;
		p->last = i;
	}
	str_putc(&text, ']');
	p->len = text.len;
	p->text = str_take(&text);
	list_init(&p->lru);
	list_init(&p->mine);
	return p;
}

/* Index of the first line whose name is greater. */
static size_t index_after(const struct reg_list *list, const char *after)
{
	size_t low = 0, high = list->count;

	while (after && low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(list->items[mid].name, after) > 0)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static bool is_same(const struct page *a, const struct page *b)
{
	return a->kind == b->kind && a->rev == b->rev && a->all == b->all && a->first == b->first &&
	       a->models == b->models &&
	       (a->cut && b->cut ? strcmp(a->cut, b->cut) == 0 : a->cut == b->cut);
}

static struct page *page_get(struct registry *reg, struct reg_snap *snap, const struct page *want,
			     const struct scopes *scopes)
{
	struct page *p;
	size_t n = 0;

	LIST_FOREACH(link, &snap->pages) {
		p = CONTAINER_OF(link, struct page, mine);
		if (is_same(p, want)) {
			list_unlink(&p->lru);
			list_push_front(&reg->lru, &p->lru);
			list_unlink(&p->mine);
			list_push_front(&snap->pages, &p->mine);
			return p;
		}
		n++;
	}
	if (n >= PAGES_MAX)
		page_free(reg, CONTAINER_OF(snap->pages.prev, struct page, mine));
	p = page_make(reg, &snap->pub, want, scopes);
	list_push_front(&snap->pages, &p->mine);
	list_push_front(&reg->lru, &p->lru);
	reg->page_bytes += p->len;
	while (reg->page_bytes > REG_PAGES_BYTES && reg->lru.prev != &p->lru)
		page_free(reg, CONTAINER_OF(reg->lru.prev, struct page, lru));
	return p;
}

int reg_page(struct registry *reg, struct reg_snapshot *snap, const struct reg_ask *ask, struct reg_page *ret,
	     struct err *err)
{
	const struct reg_list *list = &snap->list[ask->kind];
	struct page *p, want = { .kind = ask->kind, .rev = ask->rev, .all = ask->all, .first = index_after(list, ask->after),
				.models = ask->kind == REG_TOOL && snap->app_only && !ask->apps };
	struct str cut = STR_INIT;

	if ((int)ask->rev < 0 || ask->rev >= REV_COUNT)
		return err_set(err, ERR_INTERNAL, "", "no such revision: %d", (int)ask->rev);
	if (!scope_allows_all(ask->scopes, (enum scope_right)reg_kinds[ask->kind].right)) {
		scopes_print(ask->scopes, &cut);
		want.cut = cut.p;
	}
	p = page_get(reg, CONTAINER_OF(snap, struct reg_snap, pub), &want, ask->scopes);
	str_fini(&cut);
	*ret = (struct reg_page){ p->text, p->len, p->more ? list->items[p->last].name : NULL, p->total };
	if (ask->all)
		ret->last = NULL;
	return 0;
}

static bool says(const struct reg_def *def, const char *text)
{
	return memmem(def->text, def->len, text, strlen(text)) != NULL;
}

static bool has_word(const json_t *list, const char *word)
{
	const json_t *v;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, v)
		if (json_is_string(v) && strcmp(json_string_value(v), word) == 0)
			return true;
	return false;
}

enum { V_SEEN, V_TYPE, V_TOOL, V_RESOURCE, V_COUNT };

/* What it is called at its upstream, where a page from there may ask for it (UI-05). */
static char *remote_name(const struct reg_def *def, const struct jx_want *w, const json_t *seen)
{
	const struct jx_span *name = &w[def->kind == REG_TOOL ? V_TOOL : V_RESOURCE].span;
	json_t *text = NULL;
	char *ret = NULL;

	if (!w[V_TYPE].span.p || !text_eq(w[V_TYPE].span.p, w[V_TYPE].span.len, "\"mcp\"") || !name->p ||
	    (def->kind == REG_TOOL && json_is_array(seen) && !has_word(seen, "app")) ||
	    jx_parse_scanned(name->p, name->len, &text, NULL) < 0)
		return NULL;
	if (json_is_string(text) && (def->kind == REG_TOOL || uri_is_page(json_string_value(text))))
		ret = mem_strdup(json_string_value(text));
	json_decref(text);
	return ret;
}

/* What has to do with pages of apps: most has not, and costs a search. */
static void read_pages(struct reg_node *node)
{
	struct jx_want w[V_COUNT] = {
		[V_SEEN] = { .pointer = "/_meta/ui/visibility" }, [V_TYPE] = { .pointer = "/handler/type" },
		[V_TOOL] = { .pointer = "/handler/tool" }, [V_RESOURCE] = { .pointer = "/handler/resource" },
	};
	struct reg_def *def = &node->pub;
	json_t *seen = NULL;

	def->refers = says(def, "esourceUri\"") || says(def, "outputTemplate\"");
	if ((!says(def, "\"visibility\"") && !says(def, "\"mcp\"")) || jx_scan(def->text, def->len, w, V_COUNT, NULL) < 0)
		return;
	if (w[V_SEEN].span.p && jx_parse_scanned(w[V_SEEN].span.p, w[V_SEEN].span.len, &seen, NULL) < 0)
		seen = NULL;
	def->app_only = def->kind == REG_TOOL && json_is_array(seen) && !has_word(seen, "model");
	def->remote = node->remote = remote_name(def, w, seen);
	json_decref(seen);
}

struct reg_node *reg_node_new(const struct reg_def *def)
{
	size_t name_size = strlen(def->name) + 1, uri_size = strlen(def->uri) + 1;
	struct reg_node *node = mem_alloc(sizeof(*node) + name_size + def->len + 1 + uri_size);
	char *uri = node->data + name_size + def->len + 1;
	struct jx_want complete = { .pointer = "/complete" };

	*node = (struct reg_node){ .pub = *def, .refs = 1 };
	memcpy(node->data, def->name, name_size);
	memcpy(node->data + name_size, def->text, def->len);
	node->data[name_size + def->len] = '\0';
	memcpy(uri, def->uri, uri_size);
	node->pub.name = node->data;
	node->pub.text = node->data + name_size;
	node->pub.uri = *uri ? uri : NULL;
	if (def->kind == REG_TOOL || def->kind == REG_RESOURCE)
		read_pages(node);
	if (def->kind == REG_PROMPT || def->kind == REG_TEMPLATE)
		node->pub.completes = jx_scan(def->text, def->len, &complete, 1, NULL) == 0 && complete.span.p;
	return node;
}

void reg_node_unref(struct reg_node **node)
{
	struct reg_node *n = *node;

	*node = NULL;
	if (!n || --n->refs > 0)
		return;
	if (n->compiled)
		define_compiled_fini(n->compiled);
	arena_free(&n->mem);
	free(n->broken);
	free(n->remote);
	free(n);
}

struct reg_snap *reg_snap_new(int64_t tenant_id, size_t lines, size_t name_bytes)
{
	struct reg_snap *snap = mem_zalloc(sizeof(*snap));

	snap->pub = (struct reg_snapshot){ .tenant_id = tenant_id, .refs = 1 };
	list_init(&snap->pages);
	if (lines == 0)
		return snap;
	snap->lines = mem_calloc(lines, sizeof(*snap->lines));
	snap->wanted = mem_calloc(lines, sizeof(*snap->wanted));
	snap->names = mem_alloc(name_bytes);
	snap->nlines = lines;
	return snap;
}

/* its pages are gone already */
static void reg_snap_free(struct reg_snap **snap)
{
	struct reg_snap *s = *snap;

	if (!s)
		return;
	assert(list_empty(&s->pages));
	for (size_t i = 0; i < s->nlines; i++) {
		struct reg_node *node = s->lines[i].def ? CONTAINER_OF(s->lines[i].def, struct reg_node, pub) : NULL;

		reg_node_unref(&node);
	}
	for (size_t i = 0; i < s->nrules; i++)
		assent_rule_free(&s->rules[i]);
	free(s->rules);
	free(s->lines);
	free(s->wanted);
	free(s->by_uri);
	free(s->by_remote);
	free(s->names);
	free(s);
	*snap = NULL;
}

struct registry *registry_new(reg_bind_fn *bind)
{
	struct registry *reg = mem_zalloc(sizeof(*reg));

	reg->bind = bind;
	reg->shared = catalogue_new(NULL);
	reg->current = map_new();
	reg->versions = map_new();
	reg->snaps = map_new();
	list_init(&reg->lru);
	return reg;
}

void registry_free(struct registry **reg)
{
	void *value;

	if (!reg || !*reg)
		return;
	for (size_t it = 0; map_next((*reg)->snaps, &it, NULL, NULL, &value);) {
		struct reg_snapshot *snap = &((struct reg_snap *)value)->pub;

		reg_release(*reg, &snap);
	}
	for (size_t it = 0; map_next((*reg)->current, &it, NULL, NULL, &value);) {
		struct reg_node *node = value;

		reg_node_unref(&node);
	}
	for (size_t it = 0; map_next((*reg)->versions, &it, NULL, NULL, &value);) {
		struct reg_node *node = value;

		reg_node_unref(&node);
	}
	map_free(&(*reg)->versions);
	catalogue_free(&(*reg)->shared);
	map_free(&(*reg)->snaps);
	map_free(&(*reg)->current);
	free(*reg);
	*reg = NULL;
}

const struct catalogue *reg_shared(const struct registry *reg)
{
	return reg->shared;
}

struct reg_snapshot *reg_acquire(struct registry *reg, int64_t tenant_id)
{
	struct reg_snap *snap = map_get_u64(reg->snaps, (uint64_t)tenant_id);

	if (!snap)
		return &reg_snap_new(tenant_id, 0, 0)->pub;
	snap->pub.refs++;
	return &snap->pub;
}

void reg_release(struct registry *reg, struct reg_snapshot **snap)
{
	struct reg_snap *s;

	if (!snap || !*snap)
		return;
	s = CONTAINER_OF(*snap, struct reg_snap, pub);
	*snap = NULL;
	assert(s->pub.refs > 0);
	if (--s->pub.refs > 0)
		return;
	reg_pages_drop(reg, s);
	reg_snap_free(&s);
}

/* Order of counted bytes and a text. */
static int compare(const char *p, size_t len, const char *z)
{
	size_t n = strlen(z);
	int d = memcmp(p, z, len < n ? len : n);

	return d ? d : (len > n) - (len < n);
}

static int compare_remote(enum reg_kind kind, const char *name, size_t len, const struct reg_tool *line)
{
	return kind != line->def->kind ? (kind > line->def->kind) - (kind < line->def->kind)
				       : compare(name, len, line->def->remote);
}

const struct reg_tool *reg_find(const struct reg_snapshot *snap, enum reg_kind kind, const char *name, size_t len)
{
	const struct reg_list *list = &snap->list[kind];
	size_t low = 0, high = list->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int d = compare(name, len, list->items[mid].name);

		if (d == 0)
			return &list->items[mid];
		if (d < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

bool reg_in_scope(const struct reg_tool *line, const struct scopes *scopes)
{
	return scope_allows(scopes, (enum scope_right)reg_kinds[line->def->kind].right, line->name);
}

static const struct reg_tool *find_resource(const struct reg_snapshot *snap, const char *uri, size_t len)
{
	size_t low = 0, high = snap->list[REG_RESOURCE].count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int d = compare(uri, len, snap->by_uri[mid]->def->uri);

		if (d == 0)
			return snap->by_uri[mid];
		if (d < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

static const struct reg_tool *match_template(const struct reg_snapshot *snap, const char *uri, size_t len)
{
	const struct reg_list *list = &snap->list[REG_TEMPLATE];
	const struct reg_tool *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < list->count; i++) {
		const char *pattern = list->items[i].def->uri;
		size_t literal;

		if (!reg_uri_match(pattern, uri, len, NULL))
			continue;
		literal = uri_template_literals(pattern);
		if (best && literal <= most)
			continue;
		best = &list->items[i];
		most = literal;
	}
	return best;
}

const struct reg_tool *reg_find_remote(const struct reg_snapshot *snap, enum reg_kind kind, const char *name,
				       size_t len, const struct scopes *scopes, bool *ret_ambiguous)
{
	const struct reg_tool *found = NULL;
	size_t low = 0, high = snap->nremote;

	*ret_ambiguous = false;
	while (low < high) {            /* the first of them */
		size_t mid = low + (high - low) / 2;

		if (compare_remote(kind, name, len, snap->by_remote[mid]) > 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < snap->nremote && compare_remote(kind, name, len, snap->by_remote[low]) == 0; low++) {
		if (!reg_in_scope(snap->by_remote[low], scopes))
			continue;
		if (found) {
			*ret_ambiguous = true;
			return NULL;
		}
		found = snap->by_remote[low];
	}
	return found;
}

const struct reg_tool *reg_find_template(const struct reg_snapshot *snap, const char *pattern, size_t len)
{
	const struct reg_list *list = &snap->list[REG_TEMPLATE];

	for (size_t i = 0; i < list->count; i++)
		if (text_eq(pattern, len, list->items[i].def->uri))
			return &list->items[i];
	return NULL;
}

const struct reg_tool *reg_find_uri(const struct reg_snapshot *snap, const char *uri, size_t len, json_t **ret_args)
{
	const struct reg_tool *line;
	json_t *args = NULL;

	if (len > REG_URI_MAX || memchr(uri, '\0', len))
		return NULL;
	line = find_resource(snap, uri, len);
	if (!line) {
		line = match_template(snap, uri, len);
		if (line && ret_args)
			(void)reg_uri_match(line->def->uri, uri, len, &args); /* it has matched */
	}
	if (line && ret_args) {
		*ret_args = args ? args : json_object();
		json_object_set_new(*ret_args, "uri", json_stringn(uri, len));
	}
	return line;
}

static int compile(struct registry *reg, struct reg_node *node, struct err *err)
{
	json_t *doc = NULL;
	int rc;

	node->mem = arena_new(DEFINE_MEMORY_MAX);
	node->compiled = arena_alloc(node->mem, sizeof(*node->compiled));
	rc = jx_parse(node->pub.text, node->pub.len, &doc, err);
	if (rc == 0)
		rc = define_compile(doc, node->pub.kind, reg->bind, reg->shared, node->mem, node->compiled, err);
	json_decref(doc);
	if (rc == 0)
		return 0;
	node->compiled = NULL;
	arena_free(&node->mem);
	return rc;
}

int reg_compile(struct registry *reg, struct reg_def *def, const struct reg_compiled **ret, struct err *err)
{
	struct reg_node *node = CONTAINER_OF(def, struct reg_node, pub);
	struct err why;

	if (!node->compiled && !node->broken && compile(reg, node, &why) < 0) {
		/* It was checked when it was written: another release, or somebody's hand, wrote this one. */
		node->broken = mem_zalloc(sizeof(*node->broken));
		(void)err_set(node->broken, ERR_CORRUPT, why.where, "tool %s, version %lld: %s", def->name,
			      (long long)def->version, why.msg);
		log_err(NULL, "stored definition does not compile tool=%s version=%lld where=%s reason=\"%s\"",
			def->name, (long long)def->version, why.where, why.msg);
	}
	if (node->broken) {
		if (err)
			*err = *node->broken;
		return ERR_CORRUPT;
	}
	*ret = node->compiled;
	return 0;
}

static void apply_def(struct registry *reg, struct reg_change_def *d)
{
	struct reg_node *old;

	old = d->node ? map_set_u64(reg->current, (uint64_t)d->tool_id, d->node)
		      : map_del_u64(reg->current, (uint64_t)d->tool_id);
	d->node = NULL;
	reg_node_unref(&old);
}

static int by_uri(const void *x, const void *y)
{
	const struct reg_tool *const *a = x, *const *b = y;

	return strcmp((*a)->def->uri, (*b)->def->uri);
}

static int by_remote(const void *x, const void *y)
{
	const struct reg_tool *const *a = x, *const *b = y;

	return compare_remote((*a)->def->kind, (*a)->def->remote, strlen((*a)->def->remote), *b);
}

static void index_remote(struct reg_snap *snap)
{
	size_t n = 0;

	for (size_t i = 0; i < snap->nlines; i++)
		n += snap->lines[i].def->remote != NULL;
	if (n == 0)
		return;
	snap->by_remote = mem_calloc(n, sizeof(*snap->by_remote));
	for (size_t i = 0; i < snap->nlines; i++)
		if (snap->lines[i].def->remote)
			snap->by_remote[snap->pub.nremote++] = &snap->lines[i];
	qsort(snap->by_remote, n, sizeof(*snap->by_remote), by_remote);
	snap->pub.by_remote = snap->by_remote;
}

/* What is found by something else than a place in all lines: the lists, the indexes. */
static void index_lines(struct reg_snap *snap)
{
	struct reg_list *resources = &snap->pub.list[REG_RESOURCE];

	for (size_t i = 0; i < snap->nlines; i++) {
		struct reg_list *list = &snap->pub.list[snap->lines[i].def->kind];

		if (list->count++ == 0)
			list->items = &snap->lines[i];
		snap->pub.completes |= snap->lines[i].def->completes;
		snap->pub.app_only |= snap->lines[i].def->app_only;
		snap->pub.pages |= snap->lines[i].def->uri && uri_is_page(snap->lines[i].def->uri);
	}
	index_remote(snap);
	if (resources->count == 0)
		return;
	snap->by_uri = mem_calloc(resources->count, sizeof(*snap->by_uri));
	for (size_t i = 0; i < resources->count; i++)
		snap->by_uri[i] = &resources->items[i];
	qsort(snap->by_uri, resources->count, sizeof(*snap->by_uri), by_uri);
	snap->pub.by_uri = snap->by_uri;
}

/* Lines to definitions.  A line whose definition is not there is left out: changes were applied out of order. */
static void resolve(struct registry *reg, struct reg_snap *snap)
{
	size_t n = 0;

	for (size_t i = 0; i < snap->nlines; i++) {
		const struct reg_line_ref *want = &snap->wanted[i];
		struct reg_node *node = map_get_u64(reg->current, (uint64_t)want->tool_id);

		if (!node || node->pub.version_id != want->version_id)  /* a grant may name another one */
			node = map_get_u64(reg->versions, (uint64_t)want->version_id);
		if (!node || node->pub.version_id != want->version_id) {
			log_err(NULL, "tool version not in memory tenant_id=%lld tool=%s version_id=%lld",
				(long long)snap->pub.tenant_id, snap->lines[i].name, (long long)want->version_id);
			continue;
		}
		node->refs++;
		snap->lines[n] = snap->lines[i];
		snap->lines[n++].def = &node->pub;
	}
	snap->nlines = n;
	free(snap->wanted);
	snap->wanted = NULL;
	index_lines(snap);
}

/* What is there already stays: it may be compiled. */
static void take_versions(struct registry *reg, struct reg_change *c)
{
	void *value;

	for (size_t it = 0; c->versions && map_next(c->versions, &it, NULL, NULL, &value);) {
		struct reg_node *node = value;

		if (map_get_u64(reg->versions, (uint64_t)node->pub.version_id))
			reg_node_unref(&node);
		else
			(void)map_set_u64(reg->versions, (uint64_t)node->pub.version_id, node);
	}
	map_free(&c->versions);
}

/* Those that no picture has any more. */
static void drop_versions(struct registry *reg)
{
	void *value;

	for (size_t it = 0; map_next(reg->versions, &it, NULL, NULL, &value);) {
		struct reg_node *node = value;

		if (node->refs > 1)
			continue;
		(void)map_del_u64(reg->versions, (uint64_t)node->pub.version_id);
		reg_node_unref(&node);
	}
}

void reg_apply(struct registry *reg, struct reg_change **change, reg_told_fn *told, void *arg)
{
	struct reg_change *c = *change;

	*change = NULL;
	for (size_t i = 0; i < c->nschemas; i++)
		catalogue_set(reg->shared, c->schemas[i].uri, c->schemas[i].text, c->schemas[i].len, c->schemas[i].digest);
	for (size_t i = 0; i < c->ndefs; i++)
		apply_def(reg, &c->defs[i]);
	take_versions(reg, c);
	for (size_t i = 0; i < c->ntenants; i++) {
		struct reg_snap *snap = c->tenants[i].snap, *old;

		resolve(reg, snap);
		old = map_set_u64(reg->snaps, (uint64_t)snap->pub.tenant_id, snap);
		if (old) {
			struct reg_snapshot *gone = &old->pub;

			reg_release(reg, &gone);
		}
	}
	drop_versions(reg);
	/* All pictures are in place before anybody is told and comes to look. */
	for (size_t i = 0; i < c->ntenants; i++) {
		struct reg_news news;

		if (told && reg_change_tenant_at(c, i, &news))
			told(arg, &news);
		c->tenants[i].snap = NULL;
	}
	reg_change_free(&c);
}

bool reg_change_tenant_at(const struct reg_change *c, size_t i, struct reg_news *ret)
{
	if (i >= c->ntenants)
		return false;
	*ret = (struct reg_news){ .tenant_id = c->tenants[i].snap->pub.tenant_id };
	memcpy(ret->generation, c->tenants[i].snap->pub.generation, sizeof(ret->generation));
	memcpy(ret->differs, c->tenants[i].differs, sizeof(ret->differs));
	return true;
}

void reg_change_free(struct reg_change **c)
{
	void *value;

	if (!c || !*c)
		return;
	for (size_t i = 0; i < (*c)->nschemas; i++) {
		free((*c)->schemas[i].uri);
		free((*c)->schemas[i].text);
	}
	free((*c)->schemas);
	for (size_t i = 0; i < (*c)->ndefs; i++)
		reg_node_unref(&(*c)->defs[i].node);
	for (size_t i = 0; i < (*c)->ntenants; i++)
		reg_snap_free(&(*c)->tenants[i].snap);
	for (size_t it = 0; (*c)->versions && map_next((*c)->versions, &it, NULL, NULL, &value);) {
		struct reg_node *node = value;

		reg_node_unref(&node);
	}
	map_free(&(*c)->versions);
	free((*c)->defs);
	free((*c)->tenants);
	free(*c);
	*c = NULL;
}
