/* Token buckets as time: a token costs per_s / count seconds of credit, credit grows with the clock up to per_s. */

#include "config.h"

#include "limit_int.h"

static uint64_t capacity_us(struct text_rate rate)
{
	return (uint64_t)rate.per_s * 1000000;
}

static uint64_t cost_us(struct text_rate rate)
{
	uint64_t cost = capacity_us(rate) / rate.count;

	return cost ? cost : 1;
}

static void refill(struct limit_bucket *b, struct text_rate rate, uint64_t now_us)
{
	uint64_t cap = capacity_us(rate);

	if (b->at_us == 0 || b->level_us > cap)
		b->level_us = cap;      /* new, or the rate was lowered */
	else if (now_us > b->at_us)
		b->level_us = now_us - b->at_us > cap - b->level_us ? cap : b->level_us + (now_us - b->at_us);
	if (now_us > b->at_us)
		b->at_us = now_us;
}

bool bucket_has(struct limit_bucket *b, struct text_rate rate, unsigned n, uint64_t now_us, uint32_t *ret_retry_ms)
{
	uint64_t cost, wait_ms;

	if (rate.count == 0)
		return true;
	refill(b, rate, now_us);
	cost = cost_us(rate) * n;
	if (cost > capacity_us(rate))
		cost = capacity_us(rate);
	if (b->level_us >= cost)
		return true;
	wait_ms = (cost - b->level_us + (b->at_us > now_us ? b->at_us - now_us : 0) + 999) / 1000;
	*ret_retry_ms = wait_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)wait_ms;
	return false;
}

void bucket_pay(struct limit_bucket *b, struct text_rate rate, unsigned n)
{
	uint64_t cost = rate.count ? cost_us(rate) * n : 0;

	b->level_us -= cost < b->level_us ? cost : b->level_us;
}

void bucket_owe(struct limit_bucket *b, struct text_rate rate, unsigned n, uint64_t now_us)
{
	uint64_t cost, debt;

	if (rate.count == 0)
		return;
	refill(b, rate, now_us);
	cost = cost_us(rate) * n;
	debt = cost > b->level_us ? cost - b->level_us : 0;
	bucket_pay(b, rate, n);
	/* Credit grows from a later time on. */
	b->at_us += debt;
	if (b->at_us > now_us + capacity_us(rate))
		b->at_us = now_us + capacity_us(rate);
}

bool bucket_lends(struct limit_bucket *b, struct text_rate rate, unsigned n, uint64_t now_us)
{
	uint64_t debt;

	if (rate.count == 0)
		return true;
	refill(b, rate, now_us);
	debt = b->at_us > now_us ? b->at_us - now_us : 0;
	return debt + cost_us(rate) * n <= capacity_us(rate) + b->level_us;
}

void bucket_give(struct limit_bucket *b, struct text_rate rate, unsigned n)
{
	uint64_t cost = rate.count ? cost_us(rate) * n : 0, room = rate.count ? capacity_us(rate) - b->level_us : 0;

	b->level_us += cost < room ? cost : room;
}

bool bucket_full(struct limit_bucket *b, struct text_rate rate, uint64_t now_us)
{
	if (rate.count == 0)
		return true;
	refill(b, rate, now_us);
	return b->level_us == capacity_us(rate) && b->at_us <= now_us;
}

int limit_bucket_take(struct limit_bucket *b, struct text_rate rate, uint64_t now_us, uint32_t *ret_retry_ms)
{
	if (!bucket_has(b, rate, 1, now_us, ret_retry_ms))
		return ERR_RATE;
	bucket_pay(b, rate, 1);
	return 0;
}
