/* Numbers and numbers with units: whole text or failure, no clamping. */

#include "config.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit durations[] = {        /* milliseconds */
	{ "ms", 1 }, { "s", 1000 }, { "m", 60 * 1000 }, { "h", 3600 * 1000 }, { "d", 86400 * 1000 },
};
static const struct unit sizes[] = {
	{ "", 1 }, { "KiB", UINT64_C(1) << 10 }, { "MiB", UINT64_C(1) << 20 }, { "GiB", UINT64_C(1) << 30 },
};
static const struct unit rates[] = {            /* seconds; one row for each text_format_rate() writes */
	{ "/s", 1 }, { "/min", 60 }, { "/h", 3600 }, { "/day", 86400 },
};

/* Read decimal digits at the front; returns how many bytes, 0 without a digit or above UINT64_MAX. */
static size_t read_digits(const char *p, size_t len, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i;

	for (i = 0; i < len && p[i] >= '0' && p[i] <= '9'; i++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(p[i] - '0'), &v))
			return 0;
	*ret = v;
	return i;
}

int text_u64(const char *p, size_t len, uint64_t *ret)
{
	uint64_t v;

	if (len == 0 || read_digits(p, len, &v) != len)
		return ERR_INVALID;
	*ret = v;
	return 0;
}

int text_i64(const char *p, size_t len, int64_t *ret)
{
	bool negative = len && p[0] == '-';
	uint64_t v;

	if (text_u64(p + negative, len - negative, &v) < 0 || v > (uint64_t)INT64_MAX + negative)
		return ERR_INVALID;
	*ret = negative ? (int64_t)(0 - v) : (int64_t)v;
	return 0;
}

/* A number and one of the units. */
static int read_unit(const char *text, const struct unit *units, size_t n, uint64_t *ret_number,
		     uint64_t *ret_factor)
{
	uint64_t v;
	size_t used = read_digits(text, strlen(text), &v);

	if (!used)
		return ERR_INVALID;
	for (size_t i = 0; i < n; i++)
		if (strcmp(text + used, units[i].name) == 0) {
			*ret_number = v;
			*ret_factor = units[i].factor;
			return 0;
		}
	return ERR_INVALID;
}

static int read_product(const char *text, const struct unit *units, size_t n, uint64_t *ret)
{
	uint64_t number, factor, product;

	if (read_unit(text, units, n, &number, &factor) < 0 ||
	    __builtin_mul_overflow(number, factor, &product))
		return ERR_INVALID;
	*ret = product;
	return 0;
}

int text_duration_ms(const char *text, uint64_t *ret_ms)
{
	return read_product(text, durations, NELEMS(durations), ret_ms);
}

int text_size(const char *text, uint64_t *ret_bytes)
{
	return read_product(text, sizes, NELEMS(sizes), ret_bytes);
}

int text_rate(const char *text, struct text_rate *ret)
{
	uint64_t count, per_s;

	if (read_unit(text, rates, NELEMS(rates), &count, &per_s) < 0 || count == 0 || count > UINT32_MAX)
		return ERR_INVALID;
	*ret = (struct text_rate){ (uint32_t)count, (uint32_t)per_s };
	return 0;
}

char *text_format_rate(struct text_rate r, char *ret, size_t size)
{
	for (size_t i = 0; i < NELEMS(rates); i++)
		if (rates[i].factor == r.per_s) {
			(void)snprintf(ret, size, "%u%s", r.count, rates[i].name); /* cut at size */
			return ret;
		}
	(void)snprintf(ret, size, "%u per %u s", r.count, r.per_s); /* cut at size */
	return ret;
}

char *text_format_age(uint64_t us, char *ret, size_t size)
{
	uint64_t ms = us / 1000;
	const struct unit *unit = &durations[1];

	/* The largest unit of which there is at least one, from seconds up. */
	for (size_t i = 2; i < NELEMS(durations) && ms >= durations[i].factor; i++)
		unit = &durations[i];
	(void)snprintf(ret, size, "%llu%s", (unsigned long long)(ms / unit->factor), unit->name); /* cut */
	return ret;
}
