/* The values of all metrics and their text form. */

#include "config.h"

#include "metrics/metric.h"

#include <stdatomic.h>

#include "base/str.h"

#define PREFIX "toolcrib_"

static const struct row {
	const char *name, *unit, *help;
	enum metric_type type;
} rows[] = {
#define METRIC(name, type, unit, help) [MET_##name] = { #name, unit, help, METRIC_##type },
#include "metrics/metrics.def"
#undef METRIC
};

static _Atomic uint64_t values[MET__COUNT];

void met_inc(enum metric_id id)
{
	met_add(id, 1);
}

void met_add(enum metric_id id, uint64_t n)
{
	atomic_fetch_add_explicit(&values[id], n, memory_order_relaxed);
}

void met_dec(enum metric_id id)
{
	uint64_t v = atomic_load_explicit(&values[id], memory_order_relaxed);

	/* One decrement too many must show as 0, not as 2^64 - 1. */
	while (v && !atomic_compare_exchange_weak_explicit(&values[id], &v, v - 1, memory_order_relaxed,
							   memory_order_relaxed))
		;
}

void met_set(enum metric_id id, uint64_t value)
{
	atomic_store_explicit(&values[id], value, memory_order_relaxed);
}

uint64_t met_get(enum metric_id id)
{
	return atomic_load_explicit(&values[id], memory_order_relaxed);
}

unsigned met_count(void)
{
	return MET__COUNT;
}

const char *met_name(enum metric_id id)
{
	return rows[id].name;
}

const char *met_help(enum metric_id id)
{
	return rows[id].help;
}

const char *met_unit(enum metric_id id)
{
	return rows[id].unit;
}

enum metric_type met_type(enum metric_id id)
{
	return rows[id].type;
}

void met_expose(struct str *ret)
{
	for (unsigned i = 0; i < MET__COUNT; i++) {
		/* Counters end in _total, as scrapers expect. */
		const char *end = rows[i].type == METRIC_COUNTER ? "_total" : "";

		str_printf(ret, "# HELP " PREFIX "%s%s %s\n", rows[i].name, end, rows[i].help);
		str_printf(ret, "# TYPE " PREFIX "%s%s %s\n", rows[i].name, end,
			   rows[i].type == METRIC_COUNTER ? "counter" : "gauge");
		str_printf(ret, PREFIX "%s%s ", rows[i].name, end);
		str_put_u64(ret, met_get((enum metric_id)i));
		str_putc(ret, '\n');
	}
}
