/* Kids that tokens named and that no set of their issuer had when they came: when each was seen first tells which fetch
 * would have brought its key.  Whoever makes up kids pushes out others: then those count as new once more. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"

#include "oauth_int.h"

struct kid {
	struct list node;               /* the one that was not named for longest first */
	uint64_t seen_us;
	size_t len;
	char text[];
};

struct kids {
	struct map *by_text;
	struct list order;
};

struct kids *kids_new(void)
{
	struct kids *k = mem_zalloc(sizeof *k);

	k->by_text = map_new();
	list_init(&k->order);
	return k;
}

static void forget(struct kids *k, struct kid *one)
{
	list_unlink(&one->node);
	(void)map_del(k->by_text, one->text, one->len); /* it is in hand */
	free(one);
}

void kids_free(struct kids **k)
{
	if (!*k)
		return;
	LIST_FOREACH_SAFE(n, tmp, &(*k)->order)
		forget(*k, CONTAINER_OF(n, struct kid, node));
	map_free(&(*k)->by_text);
	free(*k);
	*k = NULL;
}

uint64_t kids_see(struct kids *k, const char *kid, uint64_t now_us)
{
	const size_t len = strlen(kid);
	struct kid *one = map_get(k->by_text, kid, len);

	if (one) {
		list_unlink(&one->node);
	} else {
		if (map_count(k->by_text) >= OAUTH_KIDS_MAX) {
			forget(k, CONTAINER_OF(k->order.next, struct kid, node));
			metric_inc(METRIC_oauth_kids_forgotten);
		}
		one = mem_alloc(sizeof *one + len);
		one->seen_us = now_us;
		one->len = len;
		memcpy(one->text, kid, len);
		(void)map_set(k->by_text, one->text, len, one); /* new */
	}
	list_push_back(&k->order, &one->node);
	return one->seen_us;
}
