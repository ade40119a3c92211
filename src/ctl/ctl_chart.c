/* A chart for the terminal: a line for each span of time, a bar of its calls, and in numbers what came of them. */

#include "config.h"

#include "ctl_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "json/json.h"

#define WIDTH_DEFAULT 80
#define WIDTH_MAX 200
#define BAR_MIN 10
#define NUMBERS 64                      /* signs beside the bar: time and counts */
#define RED "\x1b[31m"
#define PLAIN "\x1b[0m"

struct line { char time[48]; int64_t calls, bad; double p50, p95, p99; };
struct ctl_chart { struct line *v; size_t n, cap; };

struct ctl_chart *ctl_chart_new(void)
{
	return mem_zalloc(sizeof(struct ctl_chart));
}

void ctl_chart_free(struct ctl_chart **cp)
{
	if (!*cp)
		return;
	free((*cp)->v);
	free(*cp);
	*cp = NULL;
}

static int64_t number(const json_t *row, const char *name)
{
	return json_integer_value(json_object_get(row, name));
}

static double ms(const json_t *row, const char *name)
{
	const json_t *value = json_object_get(row, name);

	return value ? jx_nearest(value) : 0;
}

void ctl_chart_add(struct ctl_chart *c, const json_t *row)
{
	const char *time = json_string_value(json_object_get(row, "time"));
	struct line *l;
	uint64_t us = 0;

	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 64;
		c->v = mem_realloc(c->v, c->cap * sizeof *c->v);
	}
	l = &c->v[c->n++];
	*l = (struct line){ .calls = number(row, "calls"),
		.bad = number(row, "errors") + number(row, "timeouts") + number(row, "refused") + number(row, "other"),
		.p50 = ms(row, "p50_ms"), .p95 = ms(row, "p95_ms"), .p99 = ms(row, "p99_ms") };
	if (time && clock_parse(time, clock_wall_us(), &us) == 0)
		(void)clock_format_local(us, l->time, sizeof l->time);
	l->time[19] = '\0';             /* without the zone */
}

static bool is_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strstr(value, "UTF-8") || strstr(value, "utf8");
	}
	return false;
}

static int bar_width(void)
{
	const char *columns = getenv("COLUMNS");
	int width = columns ? (int)strtol(columns, NULL, 10) : WIDTH_DEFAULT;

	width = width > WIDTH_MAX ? WIDTH_MAX : width;
	return width > NUMBERS + BAR_MIN ? width - NUMBERS : BAR_MIN;
}

/* As many signs as the calls are of the most, at least one for any; the last of them for those that did not go well. */
static void print_bar(const struct line *l, int64_t most, int width, const struct ctl_print *p)
{
	bool utf8 = is_utf8();
	int all = most > 0 ? (int)((l->calls * width + most - 1) / most) : 0;
	int bad = l->calls > 0 ? (int)((l->bad * all + l->calls - 1) / l->calls) : 0;

	for (int i = 0; i < all - bad; i++)
		fputs(utf8 ? "\xe2\x96\x88" : "#", p->out);
	if (bad && p->colour)
		fputs(RED, p->out);
	for (int i = 0; i < bad; i++)
		fputs(utf8 ? "\xe2\x96\x92" : "!", p->out);
	if (bad && p->colour)
		fputs(PLAIN, p->out);
	fprintf(p->out, "%*s", width - all, "");
}

void ctl_chart_print(const struct ctl_chart *c, const struct ctl_print *p)
{
	int width = bar_width();
	int64_t most = 0;

	for (size_t i = 0; i < c->n; i++)
		most = c->v[i].calls > most ? c->v[i].calls : most;
	fprintf(p->out, "%-19s  %-*s %7s %6s %8s %8s %8s\n", "TIME", width, "CALLS", "CALLS", "BAD", "P50 MS", "P95 MS", "P99 MS");
	for (size_t i = 0; i < c->n; i++) {
		const struct line *l = &c->v[i];

		fprintf(p->out, "%-19s  ", l->time);
		print_bar(l, most, width, p);
		fprintf(p->out, " %7lld %6lld", (long long)l->calls, (long long)l->bad);
		if (l->calls > 0)
			fprintf(p->out, " %8.1f %8.1f %8.1f", l->p50, l->p95, l->p99);
		fputc('\n', p->out);
	}
}
