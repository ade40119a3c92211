/*
 * Pages of the lists: made once per snapshot, kind, revision, beginning and cut, and the least recently used ones go first.
 * A cut is the text of scopes that do not let everything pass: keys of equal scopes share pages.
 */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "registry_int.h"
#include "tenant/scope.h"

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

void reg_pages_drop(struct registry *reg, struct reg_snap *snap)
{
	while (!list_empty(&snap->pages))
		page_free(reg, CONTAINER_OF(snap->pages.next, struct page, mine));
}

static bool is_shown(const struct page *p, const struct reg_tool *line, const struct scopes *scopes)
{
	return !p->cut || reg_in_scope(line, scopes);
}

static void put_line(const struct registry *reg, struct str *text, const struct reg_tool *line, enum rev rev)
{
	size_t len = text->len;
	bool broken = CONTAINER_OF(line->def, const struct reg_node, pub)->broken != NULL;

	if (len > 1)
		str_putc(text, ',');
	if (!broken && page_put_line(text, line, rev, reg->shared))
		return;
	/* MCP B-31: one bad tool never breaks the list. */
	log_warn(NULL, "definition left out of the list name=%s version=%lld", line->def->name, (long long)line->def->version);
	text->len = len;
}

static struct page *page_make(const struct registry *reg, const struct reg_list *list, const struct page *like,
			      const struct scopes *scopes)
{
	struct page *p = mem_dup(like, sizeof *like);
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
		put_line(reg, &text, &list->items[i], p->rev);
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
	       (a->cut && b->cut ? strcmp(a->cut, b->cut) == 0 : a->cut == b->cut);
}

static struct page *page_get(struct registry *reg, struct reg_snap *snap, const struct page *want, const struct scopes *scopes)
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
	p = page_make(reg, &snap->pub.list[want->kind], want, scopes);
	list_push_front(&snap->pages, &p->mine);
	list_push_front(&reg->lru, &p->lru);
	reg->page_bytes += p->len;
	while (reg->page_bytes > REG_PAGES_BYTES && reg->lru.prev != &p->lru)
		page_free(reg, CONTAINER_OF(reg->lru.prev, struct page, lru));
	return p;
}

int reg_page(struct registry *reg, struct reg_snapshot *snap, const struct reg_ask *ask, struct reg_page *ret, struct err *err)
{
	const struct reg_list *list = &snap->list[ask->kind];
	struct page *p, want = { .kind = ask->kind, .rev = ask->rev, .all = ask->all, .first = index_after(list, ask->after) };
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
