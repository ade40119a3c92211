/* Tokens that were found good: by digest, never the token itself; the one that was not used for longest makes room. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"

#include "oauth_int.h"

struct entry {
	struct list node;               /* least recently used first */
	uint8_t key[DIGEST_SIZE];
	struct oauth_pass pass;         /* who is counted */
	uint64_t until_us;              /* monotonic; then it is only known to have been good */
};

struct oauth_cache {
	struct map *by_key;
	struct list order;
	size_t max;
};

struct oauth_cache *oauth_cache_new(size_t max)
{
	struct oauth_cache *c = mem_zalloc(sizeof *c);

	c->by_key = map_new();
	c->max = max;
	list_init(&c->order);
	return c;
}

static void forget(struct oauth_cache *c, struct entry *e)
{
	list_unlink(&e->node);
	(void)map_del(c->by_key, e->key, sizeof e->key);        /* e is in hand */
	principal_unref(&e->pass.who);
	free(e);
	metric_dec(METRIC_oauth_tokens_cached);
}

void oauth_cache_free(struct oauth_cache **c)
{
	if (!*c)
		return;
	LIST_FOREACH_SAFE(n, tmp, &(*c)->order)
		forget(*c, CONTAINER_OF(n, struct entry, node));
	map_free(&(*c)->by_key);
	free(*c);
	*c = NULL;
}

void oauth_cache_expire(struct oauth_cache *c, const struct oauth_issuer *issuer)
{
	LIST_FOREACH_SAFE(n, tmp, &c->order) {
		struct entry *e = CONTAINER_OF(n, struct entry, node);

		if (!issuer || e->pass.issuer == issuer)
			e->until_us = 0;
	}
}

void oauth_cache_key(const char *token, size_t len, const char *resource, uint8_t ret[DIGEST_SIZE])
{
	struct digest *d = digest_new();

	digest_put(d, resource, strlen(resource) + 1);  /* a token is good for one of our URLs, not for another */
	digest_put(d, token, len);
	digest_end(&d, ret);
}

bool oauth_cache_get(struct oauth_cache *c, const uint8_t key[DIGEST_SIZE], uint64_t now_us, struct oauth_pass *ret)
{
	struct entry *e = map_get(c->by_key, key, DIGEST_SIZE);

	if (!e || e->until_us <= now_us)
		return false;
	list_unlink(&e->node);
	list_push_back(&c->order, &e->node);
	*ret = e->pass;
	return true;
}

bool oauth_cache_put(struct oauth_cache *c, const uint8_t key[DIGEST_SIZE], const struct oauth_pass *pass, uint64_t until_us)
{
	struct entry *e = map_get(c->by_key, key, DIGEST_SIZE);
	bool known = e != NULL;

	if (known)
		forget(c, e);
	if (map_count(c->by_key) >= c->max) {
		forget(c, CONTAINER_OF(c->order.next, struct entry, node));
		metric_inc(METRIC_oauth_tokens_evicted);
	}
	e = mem_zalloc(sizeof *e);
	memcpy(e->key, key, sizeof e->key);
	e->pass = *pass;
	principal_ref(pass->who);
	e->until_us = until_us;
	(void)map_set(c->by_key, e->key, sizeof e->key, e);     /* new */
	list_push_back(&c->order, &e->node);
	metric_inc(METRIC_oauth_tokens_cached);
	return !known;
}

void oauth_cache_del(struct oauth_cache *c, const uint8_t key[DIGEST_SIZE])
{
	struct entry *e = map_get(c->by_key, key, DIGEST_SIZE);

	if (e)
		forget(c, e);
}
