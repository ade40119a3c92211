/*
 * Pages of the lists: made once per snapshot, kind, revision and beginning, and the least recently used ones go first.
 */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "registry_int.h"

enum {
	ALL_MAX = 1000,                 /* lines of R0's only page */
	PAGE_BYTES_MAX = 4 << 20,       /* a page ends after the line that passes this */
};

struct page {
	struct list lru, mine;
	enum reg_kind kind;
	enum rev rev;
	bool all;
	size_t first, next;             /* indexes: its first line, the one after its last */
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

static struct page *page_make(const struct registry *reg, const struct reg_list *list, const struct page *like)
{
	struct page *p = mem_dup(like, sizeof *like);
	struct str text = STR_INIT;
	size_t max = p->all ? ALL_MAX : REG_PAGE, i;

	str_putc(&text, '[');
	for (i = p->first; i < list->count && i - p->first < max && text.len < PAGE_BYTES_MAX; i++) {
		const struct reg_tool *line = &list->items[i];
		size_t len = text.len;
		bool broken = CONTAINER_OF(line->def, const struct reg_node, pub)->broken != NULL;

		if (len > 1)
			str_putc(&text, ',');
		/* MCP B-31: one bad tool never breaks the list. */
		if (broken || !page_put_line(&text, line, p->rev, reg->shared)) {
			log_warn(NULL, "definition left out of the list name=%s version=%lld", line->def->name,
				 (long long)line->def->version);
			text.len = len;
		}
	}
	str_putc(&text, ']');
	p->next = i;
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

static struct page *page_get(struct registry *reg, struct reg_snap *snap, const struct page *want)
{
	struct page *p;

	LIST_FOREACH(n, &snap->pages) {
		p = CONTAINER_OF(n, struct page, mine);
		if (p->kind == want->kind && p->rev == want->rev && p->all == want->all && p->first == want->first) {
			list_unlink(&p->lru);
			list_push_front(&reg->lru, &p->lru);
			return p;
		}
	}
	p = page_make(reg, &snap->pub.list[want->kind], want);
	list_push_front(&snap->pages, &p->mine);
	list_push_front(&reg->lru, &p->lru);
	reg->page_bytes += p->len;
	while (reg->page_bytes > REG_PAGES_BYTES && reg->lru.prev != &p->lru)
		page_free(reg, CONTAINER_OF(reg->lru.prev, struct page, lru));
	return p;
}

int reg_page(struct registry *reg, struct reg_snapshot *snap, enum reg_kind kind, enum rev rev, bool all,
	     const char *after, const char **ret_text, size_t *ret_len, const char **ret_last, struct err *err)
{
	const struct reg_list *list = &snap->list[kind];
	struct page *p, want = { .kind = kind, .rev = rev, .all = all, .first = index_after(list, after) };

	if ((int)rev < 0 || rev >= REV_COUNT)
		return err_set(err, ERR_INTERNAL, "", "no such revision: %d", (int)rev);
	p = page_get(reg, CONTAINER_OF(snap, struct reg_snap, pub), &want);
	*ret_text = p->text;
	*ret_len = p->len;
	*ret_last = !all && p->next < list->count ? list->items[p->next - 1].name : NULL;
	return 0;
}
