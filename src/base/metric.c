/* The values of all metrics and their text form.  Whoever counts calls it, on any thread; the text is made for scrapers
 * by the room ops. */

#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"

static const struct row {
	const char *name, *unit, *help;
	enum metric_type type;
	const char *exposed, *label;    /* label NULL: none */
} rows[] = {
#define METRIC(name, type, unit, help) METRIC_AS(name, type, unit, help, #name)
#define METRIC_AS(name, type, unit, help, exposed) METRIC_OF(name, type, unit, help, exposed, NULL)
#define METRIC_OF(name, type, unit, help, exposed, label) \
	[METRIC_##name] = { #name, unit, help, METRIC_##type, exposed, label },
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

/* --- the text for scrapers */

static const struct { const char *word, *suffix, *word_0_0_4; } types[] = {
	[METRIC_COUNTER] = { "counter", "_total", "counter" },
	[METRIC_GAUGE] = { "gauge", "", "gauge" },
	[METRIC_HISTOGRAM] = { "histogram", "", "histogram" },
	[METRIC_INFO] = { "info", "_info", "gauge" },   /* 0.0.4 knows no such type */
};

/* What the samples have behind the family's name. */
static const char *suffix_of(enum metric_type type)
{
	return types[type].suffix;
}

/* The base unit with which a name ends, or NULL. */
static const char *unit_of(const char *name)
{
	static const char *const units[] = { "seconds", "bytes", "ratio" };
	const char *last = strrchr(name, '_');

	for (size_t i = 0; last && i < NELEMS(units); i++) {
		if (strcmp(last + 1, units[i]) == 0)
			return units[i];
	}
	return NULL;
}

void metric_head(struct str *ret, enum metric_format format, const char *name, enum metric_type type, const char *help)
{
	const char *end = format == METRIC_TEXT ? suffix_of(type) : "", *unit = unit_of(name);

	if (format == METRIC_TEXT) {
		str_printf(ret, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, end, help, name, end, types[type].word_0_0_4);
		return;
	}
	str_printf(ret, "# TYPE %s %s\n", name, types[type].word);
	if (unit)
		str_printf(ret, "# UNIT %s %s\n", name, unit);
	str_printf(ret, "# HELP %s %s\n", name, help);
}

void metric_put_label(struct str *ret, const char *value)
{
	for (const char *p = value; *p; p++) {
		if (*p == '\\' || *p == '"')
			str_putc(ret, '\\');
		if (*p == '\n')
			str_puts(ret, "\\n");
		else
			str_putc(ret, *p);
	}
}

void metric_expose(struct str *ret, enum metric_format format)
{
	for (unsigned i = 0; i < METRIC__COUNT; i++) {
		char name[96];

		(void)snprintf(name, sizeof(name), METRIC_PREFIX "%s", rows[i].exposed);
		if (i == 0 || strcmp(rows[i].exposed, rows[i - 1].exposed) != 0)
			metric_head(ret, format, name, rows[i].type, rows[i].help);
		str_puts(ret, name);
		str_puts(ret, suffix_of(rows[i].type));
		if (rows[i].label)
			str_printf(ret, "{%s}", rows[i].label);
		str_putc(ret, ' ');
		str_put_u64(ret, metric_get((enum metric_id)i));
		str_putc(ret, '\n');
	}
}
