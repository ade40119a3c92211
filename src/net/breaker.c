/* Circuit breakers.  Only servers that fail are remembered: a success forgets. */
#include "config.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "net/breaker.h"

#define MS 1000ull                      /* microseconds */

struct breaker {
	struct list node;               /* by the last failure, the oldest in front */
	char *key; size_t key_len;
	unsigned failures;
	uint64_t first_us;              /* the window begins */
	uint64_t open_until_us;         /* 0 = closed */
	uint64_t probe_until_us;        /* half open: a probe is out, and counts as lost then; 0 = none */
};

struct breakers {
	struct map *map;
	struct list order;
};

static void forget(struct breakers *b, struct breaker *x)
{
	if (x->open_until_us > 0)
		metric_dec(METRIC_breakers_open);
	(void)map_del(b->map, x->key, x->key_len);
	list_unlink(&x->node);
	free(x->key);
	free(x);
}

struct breakers *breakers_new(void)
{
	struct breakers *b = mem_zalloc(sizeof(*b));

	b->map = map_new();
	list_init(&b->order);
	return b;
}

void breakers_free(struct breakers **pb)
{
	if (!pb || !*pb)
		return;
	while (!list_empty(&(*pb)->order))
		forget(*pb, CONTAINER_OF((*pb)->order.next, struct breaker, node));
	map_free(&(*pb)->map);
	free(*pb);
	*pb = NULL;
}

static void make_key(struct str *key, const char *scope, const char *host, uint16_t port)
{
	str_printf(key, "%s\n%s:%u", scope, host, port);
}

static struct breaker *find(struct breakers *b, const char *scope, const char *host, uint16_t port)
{
	struct str key = STR_INIT;

	if (map_count(b->map) == 0)
		return NULL;
	make_key(&key, scope, host, port);
	struct breaker *x = map_get(b->map, key.p, key.len);
	str_fini(&key);
	return x;
}

static struct breaker *add(struct breakers *b, const char *scope, const char *host, uint16_t port)
{
	struct str key = STR_INIT;

	if (map_count(b->map) >= BREAKER_HOSTS_MAX) {
		metric_inc(METRIC_breakers_forgotten);
		forget(b, CONTAINER_OF(b->order.next, struct breaker, node));
	}
	struct breaker *x = mem_zalloc(sizeof(*x));
	make_key(&key, scope, host, port);
	x->key_len = key.len;
	x->key = str_take(&key);
	list_push_back(&b->order, &x->node);
	(void)map_set(b->map, x->key, x->key_len, x);
	return x;
}

uint32_t breaker_ask(struct breakers *b, const char *scope, const char *host, uint16_t port, uint64_t now_us)
{
	struct breaker *x = find(b, scope, host, port);
	uint64_t until;

	if (!x || x->open_until_us == 0)
		return 0;
	if (now_us >= x->open_until_us && now_us >= x->probe_until_us) {
		x->probe_until_us = now_us + BREAKER_WINDOW_MS * MS;
		return 0;
	}
	metric_inc(METRIC_breaker_refusals);
	/* While a probe is out nobody knows when: the shortest useful wait. */
	until = now_us < x->open_until_us ? x->open_until_us : now_us + MS;
	return (uint32_t)((until - now_us + MS - 1) / MS);
}

static void failed(struct breaker *x, const char *host, uint16_t port, uint64_t now_us)
{
	if (x->failures > 0 && x->open_until_us == 0 && now_us - x->first_us > BREAKER_WINDOW_MS * MS)
		x->failures = 0;
	if (x->failures++ == 0)
		x->first_us = now_us;
	if (x->failures < BREAKER_FAILURES)
		return;
	if (x->open_until_us == 0) {
		metric_inc(METRIC_breakers_open);
		log_warn(NULL, "server fails, it rests host=%s port=%u failures=%u", host, port, x->failures);
	}
	x->open_until_us = now_us + BREAKER_REST_MS * MS;
}

void breaker_tell(struct breakers *b, const char *scope, const char *host, uint16_t port, enum breaker_word word,
		  uint64_t now_us)
{
	struct breaker *x = find(b, scope, host, port);

	if (x)
		x->probe_until_us = 0;
	switch (word) {
	case BREAKER_GOOD:
		if (x)
			forget(b, x);
		break;
	case BREAKER_BAD:
		if (!x)
			x = add(b, scope, host, port);
		list_unlink(&x->node);
		list_push_back(&b->order, &x->node);
		failed(x, host, port, now_us);
		break;
	case BREAKER_UNSAID:
		break;
	}
}

size_t breakers_count(const struct breakers *b)
{
	return map_count(b->map);
}
