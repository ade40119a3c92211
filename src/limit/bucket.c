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

bool bucket_has(struct limit_bucket *b, struct text_rate rate, uint64_t now_us, uint32_t *ret_retry_ms)
{
	uint64_t cost, wait_ms;

	if (rate.count == 0)
		return true;
	refill(b, rate, now_us);
	cost = cost_us(rate);
	if (b->level_us >= cost)
		return true;
	wait_ms = (cost - b->level_us + 999) / 1000;
	*ret_retry_ms = wait_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)wait_ms;
	return false;
}

void bucket_pay(struct limit_bucket *b, struct text_rate rate)
{
	if (rate.count)
		b->level_us -= cost_us(rate);
}

bool bucket_full(struct limit_bucket *b, struct text_rate rate, uint64_t now_us)
{
	if (rate.count == 0)
		return true;
	refill(b, rate, now_us);
	return b->level_us == capacity_us(rate);
}

int limit_bucket_take(struct limit_bucket *b, struct text_rate rate, uint64_t now_us, uint32_t *ret_retry_ms)
{
	if (!bucket_has(b, rate, now_us, ret_retry_ms))
		return ERR_RATE;
	bucket_pay(b, rate);
	return 0;
}
