/*
 * What tools/list shows: the listed part of each definition, cut to what exists in a revision (MCP table A, B-14).
 * The parts are spans of the stored text: schemas reach the wire with their members in the author's order (MCP Q-08).
 * Pages are made once per snapshot, revision and beginning, and the least recently used ones go first.
 */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "json/json.h"
#include "schema/schema.h"
#include "registry_int.h"

enum {
	ALL_MAX = 1000,                 /* tools of R0's only page */
	PAGE_BYTES_MAX = 4 << 20,       /* a page ends after the tool that passes this */
};

struct page {
	struct list lru, mine;
	enum rev rev;
	bool all;
	size_t first, next;             /* indexes: its first tool, the one after its last */
	char *text;
	size_t len;
};

static void page_free(struct registry *reg, struct page *p)
{
	list_unlink(&p->lru);
	list_unlink(&p->mine);
	reg->page_bytes -= p->len;
	free(p->text);
	free(p);
}

void reg_pages_drop(struct registry *reg, struct reg_snap *snap)
{
	while (!list_empty(&snap->pages))
		page_free(reg, CONTAINER_OF(snap->pages.next, struct page, mine));
}

enum { W_TITLE, W_DESCRIPTION, W_INPUT, W_INPUT_DIALECT, W_OUTPUT, W_OUTPUT_TYPE, W_OUTPUT_DIALECT, W_ANNOTATIONS, W_ANNOTATIONS_TITLE, W_ICONS, W_META,
       W_COUNT };

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
	       (!catalogue_is_empty(shared) && memmem(schema->p, schema->len, ref, sizeof ref - 1) != NULL);
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

/* One tool as this revision knows it.  False: the stored text is no JSON. */
static bool put_tool(struct str *out, const struct reg_tool *tool, const struct rev_row *rev,
		     const struct catalogue *shared)
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
		put_member(out, "_meta", &w[W_META]);
	str_putc(out, '}');
	return true;
}

static struct page *page_make(const struct catalogue *shared, const struct reg_snapshot *snap, enum rev rev, bool all,
			      size_t first)
{
	struct page *p = mem_zalloc(sizeof *p);
	struct str text = STR_INIT;
	size_t max = all ? ALL_MAX : REG_PAGE, i;

	str_putc(&text, '[');
	for (i = first; i < snap->tool_count && i - first < max && text.len < PAGE_BYTES_MAX; i++) {
		const struct reg_tool *tool = &snap->tools[i];
		size_t len = text.len;
		bool broken = CONTAINER_OF(tool->def, const struct reg_node, pub)->broken != NULL;

		if (len > 1)
			str_putc(&text, ',');
		/* MCP B-31: one bad tool never breaks the list. */
		if (broken || !put_tool(&text, tool, &rev_table[rev], shared)) {
			log_warn(NULL, "tool left out of the list tool=%s version=%lld", tool->def->name,
				 (long long)tool->def->version);
			text.len = len;
		}
	}
	str_putc(&text, ']');
	p->rev = rev;
	p->all = all;
	p->first = first;
	p->next = i;
	p->len = text.len;
	p->text = str_take(&text);
	list_init(&p->lru);
	list_init(&p->mine);
	return p;
}

/* Index of the first tool whose name is greater. */
static size_t index_after(const struct reg_snapshot *snap, const char *after)
{
	size_t low = 0, high = snap->tool_count;

	while (after && low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(snap->tools[mid].name, after) > 0)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static struct page *page_get(struct registry *reg, struct reg_snap *snap, enum rev rev, bool all, size_t first)
{
	struct page *p;

	LIST_FOREACH(n, &snap->pages) {
		p = CONTAINER_OF(n, struct page, mine);
		if (p->rev == rev && p->all == all && p->first == first) {
			list_unlink(&p->lru);
			list_push_front(&reg->lru, &p->lru);
			return p;
		}
	}
	p = page_make(reg->shared, &snap->pub, rev, all, first);
	list_push_front(&snap->pages, &p->mine);
	list_push_front(&reg->lru, &p->lru);
	reg->page_bytes += p->len;
	while (reg->page_bytes > REG_PAGES_BYTES && reg->lru.prev != &p->lru)
		page_free(reg, CONTAINER_OF(reg->lru.prev, struct page, lru));
	return p;
}

int reg_page(struct registry *reg, struct reg_snapshot *snap, enum rev rev, bool all, const char *after,
	     const char **ret_text, size_t *ret_len, const char **ret_last, struct err *err)
{
	struct page *p;

	if ((int)rev < 0 || rev >= REV_COUNT)
		return err_set(err, ERR_INTERNAL, "", "no such revision: %d", (int)rev);
	p = page_get(reg, CONTAINER_OF(snap, struct reg_snap, pub), rev, all, index_after(snap, after));
	*ret_text = p->text;
	*ret_len = p->len;
	*ret_last = !all && p->next < snap->tool_count ? snap->tools[p->next - 1].name : NULL;
	return 0;
}
