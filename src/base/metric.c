/* The values of all metrics and their text form. */

#include "config.h"

#include <stdatomic.h>

#include "base/metric.h"
#include "base/text.h"

#define PREFIX "toolcrib_"

static const struct row {
	const char *name, *unit, *help;
	enum metric_type type;
} rows[] = {
#define METRIC(name, type, unit, help) [METRIC_##name] = { #name, unit, help, METRIC_##type },
#include "base/metrics.def"
#undef METRIC
};

static _Atomic uint64_t values[METRIC__COUNT];

void metric_inc(enum metric_id id)
{
	metric_add(id, 1);
}

void metric_add(enum metric_id id, uint64_t n)
{
	atomic_fetch_add_explicit(&values[id], n, memory_order_relaxed);
}

void metric_dec(enum metric_id id)
{
	uint64_t v = atomic_load_explicit(&values[id], memory_order_relaxed);

	/* One decrement too many must show as 0, not as 2^64 - 1. */
	while (v && !atomic_compare_exchange_weak_explicit(&values[id], &v, v - 1, memory_order_relaxed,
							   memory_order_relaxed))
		;
}

void metric_set(enum metric_id id, uint64_t value)
{
	atomic_store_explicit(&values[id], value, memory_order_relaxed);
}

uint64_t metric_get(enum metric_id id)
{
	return atomic_load_explicit(&values[id], memory_order_relaxed);
}

unsigned metric_count(void)
{
	return METRIC__COUNT;
}

const char *metric_name(enum metric_id id)
{
	return rows[id].name;
}

const char *metric_help(enum metric_id id)
{
	return rows[id].help;
}

const char *metric_unit(enum metric_id id)
{
	return rows[id].unit;
}

void metric_expose(struct str *ret)
{
	for (unsigned i = 0; i < METRIC__COUNT; i++) {
		/* Counters end in _total, as scrapers expect. */
		const char *end = rows[i].type == METRIC_COUNTER ? "_total" : "";

		str_printf(ret, "# HELP " PREFIX "%s%s %s\n", rows[i].name, end, rows[i].help);
		str_printf(ret, "# TYPE " PREFIX "%s%s %s\n", rows[i].name, end,
			   rows[i].type == METRIC_COUNTER ? "counter" : "gauge");
		str_printf(ret, PREFIX "%s%s ", rows[i].name, end);
		str_put_u64(ret, metric_get((enum metric_id)i));
		str_putc(ret, '\n');
	}
}
