/* The picture of `toolcrib top`, made of two samples: rates are what was counted between them, so a sample that
 * got lost costs nothing.  Pure; screen.c shows it, the program toolcrib asks for it. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"
#include "top/top.h"

#define BUCKETS_MAX 32
#define COLUMNS_MAX 8
#define LINE_SIZE 1024
#define WIDE_FROM 0x1100                /* characters that may take two cells */

/* --- values */

/* 0 of what is none. */
static double as_number(const json_t *value)
{
	return json_is_number(value) ? jx_nearest(value) : 0;
}

static double number(const json_t *object, const char *name)
{
	return as_number(json_object_get(object, name));
}

/* NAN: nobody knows. */
static double rate(double before, double now, double seconds)
{
	return seconds > 0 ? (now > before ? now - before : 0) / seconds : NAN;
}

/* Outcomes as they are told together. */
enum sort_of { ALL, DENIED, REFUSED, FAILED, SORTS };

static void sum_outcomes(const json_t *of, double ret[SORTS])
{
	static const struct { const char *name; enum sort_of sort; } sorts[] = {
		{ "denied", DENIED }, { "invalid", REFUSED }, { "rate_limited", REFUSED }, { "overload", REFUSED },
		{ "tool_error", FAILED }, { "timeout", FAILED }, { "crashed", FAILED }, { "aborted", FAILED },
	};
	json_t *outcomes = json_object_get(of, "outcomes"), *n;
	const char *name;

	memset(ret, 0, SORTS * sizeof(*ret));
	json_object_foreach(outcomes, name, n)
		ret[ALL] += as_number(n);
	for (size_t i = 0; i < sizeof(sorts) / sizeof(*sorts); i++)
		ret[sorts[i].sort] += number(outcomes, sorts[i].name);
}

/* The value below which a part of what was observed between the samples lies, in seconds; NAN: nothing was. */
static double quantile(const json_t *before, const json_t *now, const json_t *bounds, double part)
{
	const json_t *old = json_object_get(before, "buckets"), *new = json_object_get(now, "buckets");
	const size_t n = json_array_size(new);
	double in[BUCKETS_MAX], sum = 0, below = 0;

	if (!before || n == 0 || n > BUCKETS_MAX || json_array_size(bounds) + 1 != n)
		return NAN;
	for (size_t i = 0; i < n; i++) {
		in[i] = as_number(json_array_get(new, i)) - as_number(json_array_get(old, i));
		in[i] = in[i] > 0 ? in[i] : 0;
		sum += in[i];
	}
	for (size_t i = 0; i < n && sum > 0; i++) {
		double from = i > 0 ? as_number(json_array_get(bounds, i - 1)) : 0;

		if (below + in[i] < part * sum) {
			below += in[i];
			continue;
		}
		if (i + 1 == n)
			return from;            /* above the last bound */
		return from + (as_number(json_array_get(bounds, i)) - from) * (part * sum - below) / in[i];
	}
	return NAN;
}

/* --- values as text */

#define CELL_SIZE 32

static void put_count(double n, char ret[CELL_SIZE])
{
	char digits[CELL_SIZE];
	size_t len, at = 0;

	if (isnan(n)) {
		(void)snprintf(ret, CELL_SIZE, "-");
		return;
	}
	(void)snprintf(digits, sizeof(digits), n < 10 ? "%.1f" : "%.0f", n < 1e15 ? n : 1e15);
	len = strlen(digits);
	for (size_t i = 0; i < len && at + 2 < CELL_SIZE; i++) {
		if (n >= 10 && i > 0 && (len - i) % 3 == 0)
			ret[at++] = ',';
		ret[at++] = digits[i];
	}
	ret[at] = '\0';
}

static void put_whole(double n, char ret[CELL_SIZE])
{
	(void)snprintf(ret, CELL_SIZE, isnan(n) ? "-" : "%.0f", n);
}

static void put_seconds(double s, char ret[CELL_SIZE])
{
	if (isnan(s))
		(void)snprintf(ret, CELL_SIZE, "-");
	else if (s < 0.01)
		(void)snprintf(ret, CELL_SIZE, "%.1f ms", s * 1000);
	else if (s < 1)
		(void)snprintf(ret, CELL_SIZE, "%.0f ms", s * 1000);
	else
		(void)snprintf(ret, CELL_SIZE, "%.1f s", s);
}

static void put_percent(double part, char ret[CELL_SIZE])
{
	(void)snprintf(ret, CELL_SIZE, isnan(part) ? "-" : part < 0.1 ? "%.1f %%" : "%.0f %%", 100 * part);
}

static void put_up(double up, char ret[CELL_SIZE])
{
	(void)snprintf(ret, CELL_SIZE, "%s", up > 0 ? "up" : "down");
}

static void put_bytes(double n, char ret[CELL_SIZE])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;

	for (; n >= 1024 && i + 1 < sizeof(units) / sizeof(*units); i++)
		n /= 1024;
	(void)snprintf(ret, CELL_SIZE, n < 10 && i > 0 ? "%.1f %s" : "%.0f %s", n, units[i]);
}

/* --- lines */

/* What of it fits into so many cells, as printable text. */
static void put_line(struct str *ret, const char *text, size_t cells)
{
	char shown[LINE_SIZE];
	size_t len, at = 0;

	text_printable(text, strlen(text), shown, sizeof(shown));
	len = strlen(shown);
	while (at < len) {
		uint32_t c = 0;
		unsigned n = text_decode(shown + at, len - at, &c);
		size_t wide = c >= WIDE_FROM ? 2 : 1;

		if (n == 0 || wide > cells)
			break;
		cells -= wide;
		at += n;
	}
	str_put(ret, shown, at);
}

static void end_line(struct str *ret, struct str *line, size_t columns)
{
	if (ret->len > 0)
		str_putc(ret, '\n');
	put_line(ret, str_text(line), columns);
	str_reset(line);
}

/* --- the head: the server, or what a tenant may know */

static void put_since(struct str *line, double seconds)
{
	const uint64_t minutes = seconds > 0 ? (uint64_t)seconds / 60 : 0;

	str_printf(line, "  serving %" PRIu64 "d %02" PRIu64 ":%02" PRIu64, minutes / 1440, minutes / 60 % 24, minutes % 60);
}

static void put_calls(struct str *line, const json_t *before, const json_t *now, double seconds)
{
	const json_t *was = json_object_get(before, "calls"), *is = json_object_get(now, "calls");
	const json_t *bounds = json_object_get(now, "bounds");
	double old[SORTS], new[SORTS];
	char calls[CELL_SIZE], p50[CELL_SIZE], p99[CELL_SIZE], refused[CELL_SIZE];

	sum_outcomes(was, old);
	sum_outcomes(is, new);
	put_count(rate(old[ALL], new[ALL], seconds), calls);
	put_count(rate(old[DENIED] + old[REFUSED], new[DENIED] + new[REFUSED], seconds), refused);
	put_seconds(quantile(was, is, bounds, 0.5), p50);
	put_seconds(quantile(was, is, bounds, 0.99), p99);
	str_printf(line, "   calls %s/s  p50 %s  p99 %s  refused %s/s", calls, p50, p99, refused);
}

static void put_process(struct str *line, const json_t *before, const json_t *now, double seconds)
{
	char cpu[CELL_SIZE], rss[CELL_SIZE];

	put_percent(rate(number(before, "cpu_us"), number(now, "cpu_us"), seconds) / 1e6, cpu);
	put_bytes(number(now, "resident_bytes"), rss);
	str_printf(line, "   CPU %s  RSS %s", cpu, rss);
}

static void put_audit(struct str *line, const json_t *before, const json_t *now, double seconds)
{
	const json_t *old = json_object_get(before, "counters"), *new = json_object_get(now, "counters");
	const json_t *was = json_object_get(before, "commit"), *is = json_object_get(now, "commit");
	const char *refusing = json_string_value(json_object_get(now, "refusing"));
	const double batches = number(new, "writer_batches") - number(old, "writer_batches");
	const double items = number(new, "writer_items") - number(old, "writer_items");
	const double signed_s = number(new, "checkpoint_time");
	char records[CELL_SIZE], batch[CELL_SIZE], commit[CELL_SIZE], wal[CELL_SIZE], room[CELL_SIZE];

	put_count(rate(number(before, "records"), number(now, "records"), seconds), records);
	put_whole(before && batches > 0 ? items / batches : NAN, batch);
	put_seconds(quantile(was, is, json_object_get(is, "bounds"), 0.99), commit);
	put_bytes(4096 * number(new, "store_wal_pages"), wal);
	put_bytes(number(new, "store_free_bytes"), room);
	str_printf(line, "audit   %s%s, %s rec/s, batch %s, commit p99 %s, WAL %s", refusing ? "REFUSING CALLS: " : "ok",
		   refusing ? refusing : "", records, batch, commit, wal);
	if (signed_s > 0)
		str_printf(line, ", signed %.0f s ago", fmax(0, number(now, "unix_us") / 1e6 - signed_s));
	if (number(now, "alerts") > 0)
		str_printf(line, ", ALERTS %.0f", number(now, "alerts"));
	str_printf(line, ", free %s   pressure %.0f %%", room, number(now, "pressure"));
}

static void put_head(struct str *ret, const json_t *before, const json_t *now, double seconds, size_t columns)
{
	const char *version = json_string_value(json_object_get(now, "version"));
	const char *tenant = json_string_value(json_object_get(now, "tenant"));
	struct str line = STR_INIT;

	str_printf(&line, "toolcrib %s", version ? version : "?");
	if (tenant)
		str_printf(&line, "  tenant %s", tenant);
	else
		put_since(&line, number(now, "serving_s"));
	put_calls(&line, before, now, seconds);
	if (!tenant)
		put_process(&line, before, now, seconds);
	end_line(ret, &line, columns);
	if (!tenant) {
		put_audit(&line, before, now, seconds);
		end_line(ret, &line, columns);
	}
	str_fini(&line);
}

/* --- the tables */

enum what { CALLS, P50, P99, RUN, WAIT, DENY, REFUSE, FAIL, QUOTA, UP };
static const struct column {
	const char *title;
	int width;
	void (*put)(double v, char ret[CELL_SIZE]);
} columns[] = {
	[CALLS] = { "CALLS/s", 9, put_count }, [P50] = { "P50", 9, put_seconds }, [P99] = { "P99", 9, put_seconds },
	[RUN] = { "RUN", 6, put_whole }, [WAIT] = { "WAIT", 6, put_whole }, [DENY] = { "DENIED/s", 9, put_count },
	[REFUSE] = { "REFUSED/s", 10, put_count }, [FAIL] = { "FAILED", 7, put_percent },
	[QUOTA] = { "QUOTA", 7, put_percent }, [UP] = { "STATE", 6, put_up },
};
static const struct table {
	const char *member, *title;
	enum what column[COLUMNS_MAX];
	unsigned n;
} tables[TOP_TABLES] = {
	[TOP_TENANTS] = { "tenants", "TENANT", { CALLS, P99, RUN, WAIT, DENY, REFUSE, FAIL, QUOTA }, 8 },
	[TOP_TOOLS] = { "tools", "TOOL", { CALLS, P50, P99, DENY, REFUSE, FAIL }, 6 },
	[TOP_UPSTREAMS] = { "upstreams", "UPSTREAM", { CALLS, P50, P99, UP }, 4 },
};

struct row { const char *name; double v[COLUMNS_MAX]; unsigned sort; };

static const json_t *named(const json_t *list, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		const char *its = json_string_value(json_object_get(one, "name"));

		if (its && strcmp(its, name) == 0)
			return one;
	}
	return NULL;
}

static double value_or_nan(const json_t *object, const char *name)
{
	return json_object_get(object, name) ? number(object, name) : NAN;
}

static double value(enum what what, const json_t *was, const json_t *is, const json_t *bounds, double seconds)
{
	double old[SORTS], new[SORTS];

	sum_outcomes(was, old);
	sum_outcomes(is, new);
	if (!was || !json_object_get(is, "outcomes"))
		seconds = 0;
	switch (what) {
	case CALLS:
		return rate(old[ALL], new[ALL], seconds);
	case P50:
		return quantile(was, is, bounds, 0.5);
	case P99:
		return quantile(was, is, bounds, 0.99);
	case RUN:
		return value_or_nan(is, "running");
	case WAIT:
		return value_or_nan(is, "waiting");
	case DENY:
		return rate(old[DENIED], new[DENIED], seconds);
	case REFUSE:
		return rate(old[REFUSED], new[REFUSED], seconds);
	case FAIL:
		return seconds > 0 && new[ALL] > old[ALL] ? (new[FAILED] - old[FAILED]) / (new[ALL] - old[ALL]) : NAN;
	case QUOTA:
		return value_or_nan(is, "quota");
	case UP:
		return json_is_true(json_object_get(is, "up"));
	}
	return NAN;
}

/* Most first, what nobody knows last, equal ones by name. */
static int by_value(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	const double v = isnan(x->v[x->sort]) ? -1 : x->v[x->sort], w = isnan(y->v[y->sort]) ? -1 : y->v[y->sort];

	return v > w ? -1 : v < w ? 1 : strcmp(x->name, y->name);
}

/* malloc()ed */
static struct row *take_rows(const json_t *before, const json_t *now, const struct top_view *v, double seconds,
			     size_t *ret_n)
{
	const struct table *t = &tables[v->table];
	const json_t *list = json_object_get(now, t->member), *old = json_object_get(before, t->member), *one;
	struct row *rows = mem_calloc(json_array_size(list) + 1, sizeof(*rows));
	size_t n = 0, i;

	json_array_foreach(list, i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));
		const json_t *was = name ? named(old, name) : NULL;

		if (!name || !strstr(name, v->filter))
			continue;
		rows[n] = (struct row){ .name = name, .sort = v->sort < t->n ? v->sort : 0 };
		for (unsigned c = 0; c < t->n; c++)
			rows[n].v[c] = value(t->column[c], was, one, json_object_get(now, "bounds"), seconds);
		n++;
	}
	qsort(rows, n, sizeof(*rows), by_value);
	*ret_n = n;
	return rows;
}

static void put_titles(struct str *line, const struct table *t, unsigned sort)
{
	char title[CELL_SIZE];

	str_printf(line, "%-*s", TOP_NAME_CELLS, t->title);
	for (unsigned c = 0; c < t->n; c++) {
		const struct column *column = &columns[t->column[c]];

		(void)snprintf(title, sizeof(title), "%s%s", column->title, c == sort ? "*" : "");
		str_printf(line, " %*s", column->width, title);
	}
}

static void put_row(struct str *line, const struct table *t, const struct row *row)
{
	char name[256], cell[CELL_SIZE];

	text_printable(row->name, strlen(row->name), name, sizeof(name));
	str_printf(line, "%-*.*s", TOP_NAME_CELLS, TOP_NAME_CELLS, name);
	for (unsigned c = 0; c < t->n; c++) {
		columns[t->column[c]].put(row->v[c], cell);
		str_printf(line, " %*s", columns[t->column[c]].width, cell);
	}
}

static void put_help(struct str *ret, size_t cells)
{
	static const char *const lines[] = {
		"q  end                       t  tenants, tools, upstreams",
		"s  sort by the next column   /  only names that hold a text",
		"p  pause, and go on          ?  this help", "What a column has: toolcrib(8), top.",
	};
	struct str line = STR_INIT;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		str_puts(&line, lines[i]);
		end_line(ret, &line, cells);
	}
	str_fini(&line);
}

static void put_state(struct str *line, const struct top_view *v)
{
	if (v->typing)
		str_printf(line, "only names with: %s_", v->filter);
	else if (*v->filter)
		str_printf(line, "only names with: %s", v->filter);
	if (v->paused)
		str_printf(line, "%spaused: p goes on", line->len > 0 ? "   " : "");
}

void top_draw(const json_t *before, const json_t *now, const struct top_view *v, struct top_size size, struct str *ret)
{
	const struct table *t = &tables[v->table];
	const double seconds = before ? (number(now, "us") - number(before, "us")) / 1e6 : 0;
	const size_t head = json_is_string(json_object_get(now, "tenant")) ? 3 : 4;
	struct str line = STR_INIT;
	struct row *rows;
	size_t n = 0;

	put_head(ret, before, now, seconds, size.columns);
	put_state(&line, v);
	end_line(ret, &line, size.columns);
	if (v->help) {
		put_help(ret, size.columns);
		str_fini(&line);
		return;
	}
	rows = take_rows(before, now, v, seconds, &n);
	put_titles(&line, t, v->sort < t->n ? v->sort : 0);
	end_line(ret, &line, size.columns);
	for (size_t i = 0; i < n && (size.lines == 0 || i + head < size.lines); i++) {
		put_row(&line, t, &rows[i]);
		end_line(ret, &line, size.columns);
	}
	free(rows);
	str_fini(&line);
}

/* --- keys */

static enum top_does type(struct top_view *v, char key)
{
	size_t len = strlen(v->filter);

	if (key == '\r' || key == '\n') {
		v->typing = false;
	} else if (key == '\x1b') {
		v->typing = false;
		v->filter[0] = '\0';
	} else if (key == '\b' || key == '\x7f') {
		v->filter[len > 0 ? len - 1 : 0] = '\0';
	} else if ((unsigned char)key >= ' ' && (unsigned char)key < '\x7f' && len + 1 < sizeof(v->filter)) {
		v->filter[len] = key;
		v->filter[len + 1] = '\0';
	}
	return TOP_DRAW;
}

enum top_does top_key(struct top_view *v, char key)
{
	if (v->typing)
		return type(v, key);
	switch (key) {
	case 'q':
		return TOP_QUIT;
	case 's':
		v->sort = (v->sort + 1) % tables[v->table].n;
		return TOP_DRAW;
	case 't':
		v->table = (enum top_table)((v->table + 1) % TOP_TABLES);
		v->sort = 0;
		return TOP_DRAW;
	case '/':
		v->typing = true;
		v->filter[0] = '\0';
		return TOP_DRAW;
	case 'p':
		v->paused = !v->paused;
		return TOP_DRAW;
	case '?':
		v->help = !v->help;
		return TOP_DRAW;
	default:
		return TOP_NOTHING;
	}
}
