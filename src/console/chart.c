/* Pictures, made here as SVG and tables: calls over time, one call, and who may call what.  Each says in words what can
 * be seen, and has its figures as a table (CONSOLE D4, C-903). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"

#include "console_int.h"

/* --- calls over time, from audit stats */

#define WIDTH 960
#define HEIGHT 100

/* What a bar is made of, from below. */
static const struct share { const char *title, *shape; const char *members[3]; } shares[] = {
	{ "ok", "s-ok", { "ok" } }, { "error or timeout", "s-error", { "errors", "timeouts" } },
	{ "refused", "s-refused", { "refused" } }, { "other", "s-other", { "other" } },
};

static uint64_t count_of(const json_t *row, const struct share *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < NELEMS(s->members) && s->members[i]; i++) {
		const json_int_t value = json_integer_value(json_object_get(row, s->members[i]));

		n += value > 0 ? (uint64_t)value : 0;
	}
	return n;
}

static uint64_t all_of(const json_t *row)
{
	uint64_t n = 0;

	for (size_t i = 0; i < NELEMS(shares); i++)
		n += count_of(row, &shares[i]);
	return n;
}

static void put_figures(struct str *html, const json_t *rows)
{
	const json_t *row;
	size_t i;

	PAGE_PLAIN(html, "figures");
	for (size_t k = 0; k < NELEMS(shares); k++)
		PAGE(html, "column", { "name", shares[k].title });
	PAGE_PLAIN(html, "rows-begin");
	json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
		char *time = view_member(row, "time"), number[24];

		if (all_of(row) > 0) {
			PAGE_PLAIN(html, "row");
			PAGE(html, "cell-head", { "value", time });
			for (size_t k = 0; k < NELEMS(shares); k++) {
				(void)snprintf(number, sizeof(number), "%" PRIu64, count_of(row, &shares[k]));
				PAGE(html, "cell", { "value", number });
			}
			PAGE_PLAIN(html, "row-end");
		}
		free(time);
	}
	PAGE_PLAIN(html, "figures-end");
}

/* One step of time; to the next one leads a link to its calls. */
static void put_bar(const struct request *q, struct str *html, const json_t *row, const char *until, const double at[3])
{
	char *time = view_member(row, "time"), x[24], y[24], w[24], h[24], says[200];
	double below = HEIGHT;

	(void)snprintf(x, sizeof(x), "%.2f", at[0]);
	(void)snprintf(w, sizeof(w), "%.2f", at[1]);
	(void)snprintf(says, sizeof(says), "%.40s: %" PRIu64 " calls", time, all_of(row));
	PAGE(html, "bar-link", { "tenant", q->tenant }, { "since", time }, { "until", until }, { "tool",
		request_param(q, "tool") },
	     { "says", says });
	for (size_t k = 0; k < NELEMS(shares); k++) {
		const double height = at[2] * (double)count_of(row, &shares[k]);

		if (height <= 0)
			continue;
		below -= height;
		(void)snprintf(y, sizeof(y), "%.2f", below);
		(void)snprintf(h, sizeof(h), "%.2f", height);
		PAGE(html, "bar-share", { "shape", shares[k].shape }, { "x", x }, { "y", y }, { "w", w }, { "h", h });
	}
	PAGE_PLAIN(html, "bar-link-end");
	free(time);
}

static void put_bars(const struct request *q, struct str *html, const json_t *rows, uint64_t most, const char *end)
{
	const size_t n = json_array_size(rows);
	const double step = (double)WIDTH / (double)n;
	char *next;

	for (size_t i = 0; i < n; i++) {
		const double at[3] = { step * (double)i, step > 3 ? step - 1 : step, (double)HEIGHT / (double)most };

		if (all_of(json_array_get(rows, i)) == 0)
			continue;
		next = i + 1 < n ? view_member(json_array_get(rows, i + 1), "time") : mem_strdup(end);
		put_bar(q, html, json_array_get(rows, i), next, at);
		free(next);
	}
}

void chart_calls(const struct request *q, struct str *html, const struct answer *a)
{
	const size_t n = json_array_size(a->rows);
	char *since = view_member(a->header, "since"), *until = view_member(a->header, "until"), *says;
	uint64_t most = 0, all = 0;
	const json_t *row;
	size_t i;

	json_array_foreach(a->rows, i, row) {
		most = all_of(row) > most ? all_of(row) : most;
		all += all_of(row);
	}
	says = mem_printf("%" PRIu64 " calls%s%s from %s to %s, at most %" PRIu64 " in one of %zu steps%s.", all,
			  *request_param(q, "tool") ? " of " : "", request_param(q, "tool"), since, until, most, n,
			  *request_param(q, "principal") || *request_param(q, "key") || *request_param(q, "outcome") ?
			  "; counted by time and tool alone" : "");
	if (a->code != ERR_OK) {
		PAGE(html, "none", { "text", a->message });
	} else if (all == 0 || n > CON_BARS_MAX) {
		PAGE(html, "none", { "text", says });
	} else {
		PAGE(html, "chart", { "says", says });
		put_bars(q, html, a->rows, most, until);
		PAGE_PLAIN(html, "chart-end");
		put_figures(html, a->rows);
	}
	free(says);
	free(since);
	free(until);
}

/* --- one call, from audit show: what it was, and when each of its records was written */

#define MARK 4                          /* wide, of a record */

/* Seconds, of "2026-07-28T10:00:00.123456Z", from a day that is the same for all; of anything else 0.  Not timegm(),
 * which opens a file of the zone when it is called first. */
static double seconds_of(const json_t *row)
{
	const char *text = json_string_value(json_object_get(row, "time"));
	int year, month, day, hour, minute;
	double second;

	if (!text || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%lf", &year, &month, &day, &hour, &minute, &second) != 6)
		return 0;
	year -= month <= 2;                     /* years that begin in March end with the day that some have not */
	day += year * 365 + year / 4 - year / 100 + year / 400 + (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5;
	return day * 86400.0 + hour * 3600 + minute * 60 + second;
}

/* The value of the last record that has one. */
static char *last_member(const json_t *rows, const char *name)
{
	const json_t *row, *value = NULL;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)rows, i, row)
		if (json_object_get(row, name) && !json_is_null(json_object_get(row, name)))
			value = json_object_get(row, name);
	return view_text(value, CON_VALUE_MAX);
}

static void put_lead(struct str *html, const json_t *rows)
{
	char *tool = last_member(rows, "tool"), *principal = last_member(rows, "principal");
	char *outcome = last_member(rows, "outcome"), *ms = last_member(rows, "ms");
	char *took = *ms ? mem_printf("in %s ms", ms) : mem_strdup("");

	PAGE(html, "lead", { "tool", *tool ? tool : "a tool that there is not" }, { "principal", principal },
	     { "shape", view_shape(outcome) }, { "outcome", *outcome ? outcome : "no end yet" }, { "took", took });
	free(tool);
	free(principal);
	free(outcome);
	free(ms);
	free(took);
}

void chart_call(struct str *html, const json_t *rows)
{
	const size_t n = json_array_size(rows);
	const double from = seconds_of(json_array_get(rows, 0));
	const double span = seconds_of(json_array_get(rows, n ? n - 1 : 0)) - from;
	const json_t *row;
	char says[120];
	size_t i;

	if (n == 0)
		return;
	put_lead(html, rows);
	if (n < 2 || span <= 0)
		return;
	(void)snprintf(says, sizeof(says), "%zu records in %.3f seconds", n, span);
	PAGE(html, "line", { "says", says });
	json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
		char *kind = view_member(row, "kind"), *time = view_member(row, "time");
		char *title = mem_printf("%s, %s", kind, time);
		const double at = (seconds_of(row) - from) / span;
		char x[24];

		(void)snprintf(x, sizeof(x), "%.2f", (at > 0 ? at < 1 ? at : 1 : 0) * (WIDTH - MARK));
		PAGE(html, "line-mark", { "x", x }, { "says", title });
		free(kind);
		free(time);
		free(title);
	}
	PAGE(html, "line-end", { "says", says });
}

/* --- who may call what, from grant who */

static void add_name(json_t *names, const char *name)
{
	if (name && json_object_size(names) < CON_MATRIX_COLUMNS)
		(void)json_object_set_new(names, name, json_true());
}

/* Tools that somebody may call, the first ones by name. */
static json_t *columns_of(const json_t *rows)
{
	json_t *names = json_object(), *all = json_object();
	const json_t *row, *tool;
	const char *name;
	json_t *value;
	size_t i, k;

	json_array_foreach((json_t *)(uintptr_t)rows, i, row)
		json_array_foreach(json_object_get(row, "tools"), k, tool)
			if (json_string_value(tool))
				(void)json_object_set_new(all, json_string_value(tool), json_true());
	json_object_foreach(all, name, value)
		add_name(names, name);
	json_object_set_new(names, "", json_integer((json_int_t)json_object_size(all)));        /* of how many */
	json_decref(all);
	return names;
}

static bool has_tool(const json_t *row, const char *name)
{
	const json_t *tool;
	size_t i;

	json_array_foreach(json_object_get(row, "tools"), i, tool)
		if (json_string_value(tool) && strcmp(json_string_value(tool), name) == 0)
			return true;
	return false;
}

static void put_who(const struct request *q, struct str *html, const json_t *row, const json_t *names)
{
	char *full = view_member(row, "principal"), *state = view_member(row, "state"), *keys = view_member(row,
		"keys");
	const char *slash = strchr(full, '/'), *principal = slash ? slash + 1 : full, *name;
	json_t *value;

	PAGE_PLAIN(html, "row");
	PAGE(html, "who", { "tenant", q->tenant }, { "principal", principal }, { "state", state }, { "keys", keys });
	json_object_foreach((json_t *)(uintptr_t)names, name, value) {
		if (*name && has_tool(row, name))
			PAGE(html, "who-may", { "tenant", q->tenant }, { "principal", principal }, { "tool", name });
		else if (*name)
			PAGE_PLAIN(html, "who-not");
	}
	PAGE_PLAIN(html, "row-end");
	free(full);
	free(state);
	free(keys);
}

void chart_who(const struct request *q, struct str *html, const struct answer *a)
{
	json_t *names = columns_of(a->rows), *value;
	const size_t tools = (size_t)json_integer_value(json_object_get(names, "")), people = json_array_size(a->rows);
	const char *name;
	const json_t *row;
	char says[160];
	size_t i;

	(void)snprintf(says, sizeof(says), "%zu principals and %zu tools that one of them may call%s", people, tools,
		       people > CON_MATRIX_ROWS || tools > CON_MATRIX_COLUMNS ?
		       "; not all are shown: a tool's name or pattern shows fewer" : "");
	PAGE(html, "who-table", { "tool", request_param(q, "tool") }, { "says", says });
	json_object_foreach(names, name, value)
		if (*name)
			PAGE(html, "column-tool", { "tenant", q->tenant }, { "name", name });
	PAGE_PLAIN(html, "rows-begin");
	json_array_foreach(a->rows, i, row)
		if (i < CON_MATRIX_ROWS)
			put_who(q, html, row, names);
	PAGE_PLAIN(html, "rows-end");
	json_decref(names);
}
