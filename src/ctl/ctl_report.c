/* Reports as text: a header that says what was looked at, then rows as a table, a chart, or for programs.  The answer's
 * first line names the columns, and says whether rows are findings (AUDIT A-1101, A-1103).  And documents, which come
 * as they are. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "json/json.h"
#include "json/yaml.h"
#include "report/carry.h"

#include "ctl_int.h"

/* --- A chart for the terminal */

/* A line for each span of time, a bar of its calls, and in numbers what came of them; in a pipe as wide as COLUMNS
 * says. */

#define WIDTH_DEFAULT 80
#define WIDTH_MAX 200
#define BAR_MIN 10
#define NUMBERS 45                      /* signs beside bar and time: counts */
/* A time is "2026-07-28 10:00:00 +0200". */
#define TIME_LEN 19
#define DATE_LEN 10
#define MINUTES_LEN 5

struct line { char time[48]; int64_t calls, bad; double p50, p95, p99; };
struct ctl_chart { struct line *v; size_t n, cap; };

static struct ctl_chart *ctl_chart_new(void)
{
	return mem_zalloc(sizeof(struct ctl_chart));
}

static void ctl_chart_free(struct ctl_chart **cp)
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

static void ctl_chart_add(struct ctl_chart *c, const json_t *row)
{
	const char *time = json_string_value(json_object_get(row, "time"));
	struct line *l;
	uint64_t us = 0;

	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 64;
		c->v = mem_realloc(c->v, c->cap * sizeof(*c->v));
	}
	l = &c->v[c->n++];
	*l = (struct line){ .calls = number(row, "calls"),
		.bad = number(row, "errors") + number(row, "timeouts") + number(row, "refused") + number(row, "other"),
		.p50 = ms(row, "p50_ms"), .p95 = ms(row, "p95_ms"), .p99 = ms(row, "p99_ms") };
	if (time && clock_parse(time, clock_wall_us(), &us) == 0)
		(void)clock_format_local(us, l->time, sizeof(l->time));
}

/* Of the bar, beside the time. */
static int bar_width(const struct ctl_print *p, int time_width)
{
	const char *columns = getenv("COLUMNS");
	int width = p->width ? (int)p->width : columns ? (int)strtol(columns, NULL, 10) : WIDTH_DEFAULT;

	width = width > WIDTH_MAX ? WIDTH_MAX : width;
	width -= NUMBERS + time_width;
	return width > BAR_MIN ? width : BAR_MIN;
}

/* As many signs as the calls are of the most, at least one for any; the last of them for those that did not go well. */
static void print_bar(const struct line *l, int64_t most, int width, const struct ctl_print *p)
{
	bool utf8 = p->utf8;
	int all = most > 0 ? (int)((l->calls * width + most - 1) / most) : 0;
	int bad = l->calls > 0 ? (int)((l->bad * all + l->calls - 1) / l->calls) : 0;

	for (int i = 0; i < all - bad; i++)
		fputs(utf8 ? "\xe2\x96\x88" : "#", p->out);
	if (bad && p->colour)
		fputs(CTL_RED, p->out);
	for (int i = 0; i < bad; i++)
		fputs(utf8 ? "\xe2\x96\x92" : "!", p->out);
	if (bad && p->colour)
		fputs(CTL_PLAIN, p->out);
	fprintf(p->out, "%*s", width - all, "");
}

/* On a terminal below a line that says the date, when it is another one. */
static void print_time(const struct line *l, const struct ctl_print *p, char date[DATE_LEN + 1])
{
	if (!p->width) {
		fprintf(p->out, "%-*s  ", TIME_LEN, l->time);
		return;
	}
	if (strncmp(l->time, date, DATE_LEN) != 0) {
		(void)snprintf(date, DATE_LEN + 1, "%.*s", DATE_LEN, l->time);
		fprintf(p->out, "%s%s%s%s\n", p->colour ? CTL_BOLD : "", date, l->time + TIME_LEN, p->colour ? CTL_PLAIN : "");
	}
	fprintf(p->out, "%.*s  ", MINUTES_LEN, l->time + DATE_LEN + 1);
}

static void ctl_chart_print(const struct ctl_chart *c, const struct ctl_print *p)
{
	int time_width = p->width ? MINUTES_LEN : TIME_LEN, width = bar_width(p, time_width);
	char date[DATE_LEN + 1] = "";
	int64_t most = 0;

	for (size_t i = 0; i < c->n; i++)
		most = c->v[i].calls > most ? c->v[i].calls : most;
	fprintf(p->out, "%s%-*s  %-*s %7s %6s %8s %8s %8s%s\n", p->colour ? CTL_BOLD : "", time_width, "TIME", width, "CALLS",
		"CALLS", "BAD", "P50 MS", "P95 MS", "P99 MS", p->colour ? CTL_PLAIN : "");
	for (size_t i = 0; i < c->n; i++) {
		const struct line *l = &c->v[i];

		print_time(l, p, date);
		print_bar(l, most, width, p);
		fprintf(p->out, " %7lld %6lld", (long long)l->calls, (long long)l->bad);
		if (l->calls > 0)
			fprintf(p->out, " %8.1f %8.1f %8.1f", l->p50, l->p95, l->p99);
		fputc('\n', p->out);
	}
}

/* --- How far an export has come */

/* A file that is read before, and replaced after each part that was written. */

#define CURSOR_MAX (16u << 20)
#define CURSOR_MODE 0600

struct ctl_cursor {
	char *path;
	json_t *next;                   /* origin -> index */
	bool moved;
};

static int parse_cursor(const char *path, const struct str *text, json_t **ret, struct err *err)
{
	const char *origin;
	json_t *next;
	int rc = jx_parse(str_text(text), text->len, ret, err);

	if (rc == 0 && !json_is_object(*ret))
		rc = err_set(err, ERR_INVALID, "", "must be an object");
	json_object_foreach(rc == 0 ? *ret : NULL, origin, next)
		if (!json_is_integer(next) || json_integer_value(next) < 0)
			rc = err_set(err, ERR_INVALID, "", "%s: must be an index", origin);
	if (rc == 0)
		return 0;
	(void)err_wrap(err, "%s is no cursor", path);
	return rc;
}

int ctl_cursor_read(struct ctl_line *line, struct ctl_cursor **ret, struct err *err)
{
	const struct command_arg *arg = line->cmd->args;
	struct ctl_cursor *c;
	struct str text = STR_INIT;
	const char *path;
	int rc = 0;

	while (arg->name && arg->type != ARG_CURSOR)
		arg++;
	path = arg->name ? json_string_value(json_object_get(line->args, arg->name)) : NULL;
	*ret = NULL;
	if (!path)
		return 0;
	c = mem_zalloc(sizeof(*c));
	c->path = mem_strdup(path);
	if (path_exists(path)) {
		rc = path_read(path, CURSOR_MAX, &text, err);
		if (rc == 0)
			rc = parse_cursor(path, &text, &c->next, err);
	}
	str_fini(&text);
	if (rc < 0) {
		ctl_cursor_free(&c);
		return rc;
	}
	if (!c->next)
		c->next = json_object();
	(void)json_object_set(line->args, arg->name, c->next);
	*ret = c;
	return 0;
}

static void ctl_cursor_note(struct ctl_cursor *c, const json_t *record)
{
	const char *origin = json_string_value(json_object_get(record, "log"));
	const json_t *index = json_object_get(record, "index");

	if (!origin || !json_is_integer(index))
		return;
	(void)json_object_set_new(c->next, origin, json_integer(json_integer_value(index) + 1));
	c->moved = true;
}

/* when anything was noted */
static int ctl_cursor_write(struct ctl_cursor *c, struct err *err)
{
	struct str text = STR_INIT;
	int rc;

	if (!c->moved)
		return 0;
	jx_write(c->next, &text);
	str_putc(&text, '\n');
	rc = path_replace(c->path, CURSOR_MODE, text.p, text.len, err);
	str_fini(&text);
	c->moved = rc < 0;
	return rc;
}

void ctl_cursor_free(struct ctl_cursor **cp)
{
	if (!*cp)
		return;
	free((*cp)->path);
	json_decref((*cp)->next);
	free(*cp);
	*cp = NULL;
}

/* --- the report */

#define REPORT_START "{\"header\":"

struct ctl_report {
	const struct ctl_print *p;
	json_t *head;                   /* {"header":{...},"columns":[...]} */
	const json_t *columns;
	size_t ncols;                   /* of the table */
	char **titles;
	struct ctl_column *cols;
	struct ctl_table *table;
	struct ctl_chart *chart;
	struct ctl_rows out;
	size_t rows;
	json_t *end;                    /* {"rows":100,"next":"..."} when there are more, or NULL */
	bool documents;
	struct ctl_folder *folder;      /* of them, or NULL */
	struct err err;                 /* the first of theirs; nothing is written any more */
	enum ctl_exit status;
};

static bool is_table(const struct ctl_print *p)
{
	return !p->json && p->format == CTL_TABLE;
}

static enum command_column_type type_of(const json_t *value)
{
	return ctl_is_time(value) ? COL_TIME : COL_PLAIN;
}

/* --- the header for people */

/* The members of a line, and the word in front of each; members without a value are left out. */
static const struct head_line {
	const char *title;
	struct { const char *before, *member; } part[6];
} lines[] = {
	{ "report", { { "", "report" }, { " of ", "tenant" }, { ", log ", "log" }, { ", at ", "at" } } },
	{ "asked by", { { "", "asked" } } },
	{ "time", { { "from ", "since" }, { " to ", "until" } } },
	{ "records", { { "", "from" }, { " to ", "to" }, { " of ", "records" }, { ", pruned ", "pruned" },
		{ ", erasures ", "erasures" }, { ", only those of ", "only" } } },
	{ "counted", { { "record by record, of chapters without sums: ", "chapters_decoded" } } },
	{ "sample", { { "by ", "method" }, { ", seed ", "seed" }, { ", of ", "population" },
		{ ", up to record ", "drawn_to" } } },
	{ "signed", { { "checkpoint ", "checkpoint" }, { " covers ", "signed" }, { ", anchor ", "anchor" },
		{ ", age ", "anchor_age" } } },
	{ "verified", { { "", "verified_as" }, { ", ", "verified" } } },
	{ "columns", { { "not part of the evidence: ", "not_evidence" } } },
	{ "store", { { "", "store_bytes" }, { " bytes, unused of them ", "unused_bytes" },
		{ "; a record takes ", "bytes_per_record" } } },
	{ "forms", { { "as rows alone ", "in_rows" }, { ", in blocks ", "in_blocks" }, { " of bytes ", "bytes_in_block" },
		{ "; rows for sqlite3 ", "plain_rows" }, { ", all from ", "plain_since" } } },
	{ "room", { { "", "free_bytes" }, { " bytes; records a day ", "records_a_day" },
		{ "; full in days ", "full_in_days" } } },
};

#define HEAD_INDENT 10
#define LOGS_SHOWN 5

/* On a terminal broken into lines. */
static void print_head_line(const struct ctl_print *p, const char *title, const char *text, FILE *out)
{
	size_t width = p->width > 2 * HEAD_INDENT ? p->width - HEAD_INDENT : SIZE_MAX;
	const char *rest = text;

	fprintf(out, "%s%-8s%s  ", p->colour ? CTL_BOLD : "", title, p->colour ? CTL_PLAIN : "");
	do {
		const char *piece = rest;
		size_t n = ctl_wrap(&rest, width);

		fprintf(out, "%*s%.*s\n", piece == text ? 0 : HEAD_INDENT, "", (int)n, piece);
	} while (*rest);
}

/* Of a report on several logs: the first of them, by the names of their tenants. */
static void print_logs(const struct ctl_print *p, const json_t *header, FILE *out)
{
	const json_t *logs = json_object_get(header, "logs"), *log;
	const size_t n = json_array_size(logs) + (size_t)number(header, "logs_not_named");
	struct str text = STR_INIT;
	size_t i;

	str_printf(&text, "%zu", n);
	json_array_foreach(logs, i, log) {
		const json_t *name = json_object_get(log, "tenant");
		char *cell = ctl_cell(name ? name : json_object_get(log, "log"), COL_PLAIN);

		if (i < LOGS_SHOWN && json_object_get(log, "to"))
			str_printf(&text, "%s%s %lld to %lld", i ? ", " : ": ", cell, (long long)number(log, "from"),
				   (long long)number(log, "to"));
		else if (i < LOGS_SHOWN)
			str_printf(&text, "%s%s none", i ? ", " : ": ", cell);
		free(cell);
	}
	if (n > LOGS_SHOWN)
		str_puts(&text, ", …; json names them");
	if (logs)
		print_head_line(p, "logs", str_text(&text), out);
	str_fini(&text);
}

static void print_header(const struct ctl_print *p, const json_t *header, FILE *out)
{
	for (size_t i = 0; i < NELEMS(lines); i++) {
		struct str text = STR_INIT;
		bool any = false;

		if (strcmp(lines[i].title, "signed") == 0)
			print_logs(p, header, out);
		for (size_t k = 0; k < NELEMS(lines[i].part) && lines[i].part[k].member; k++) {
			const json_t *value = json_object_get(header, lines[i].part[k].member);
			char *cell = ctl_cell(value, type_of(value));

			if (value && !json_is_null(value)) {
				str_puts(&text, any || k == 0 ? lines[i].part[k].before : "");
				str_puts(&text, cell);
				any = true;
			}
			free(cell);
		}
		if (any)
			print_head_line(p, lines[i].title, str_text(&text), out);
		str_fini(&text);
	}
}

/* --- what names a row, for -q */

/* Of the rows of a report, the first of these that it has; else its first column that is no time. */
static const char *const ids[] = { "call", "accessor", "index", "key", "who", "object" };

static bool names_rows(const char *member)
{
	for (size_t i = 0; i < NELEMS(ids); i++)
		if (strcmp(ids[i], member) == 0)
			return true;
	return false;
}

static const char *given(const json_t *columns, const json_t *row, const char *name)
{
	const json_t *column;
	size_t i;

	json_array_foreach(columns, i, column)
		if (strcmp(json_string_value(column), name) == 0 && !json_is_null(json_object_get(row, name)))
			return name;
	return NULL;
}

static const char *id_of(const json_t *columns, const json_t *row)
{
	const char *name = NULL;
	const json_t *column;
	size_t i;

	for (i = 0; !name && i < NELEMS(ids); i++)
		name = given(columns, row, ids[i]);
	json_array_foreach(columns, i, column) {
		const json_t *value = json_object_get(row, json_string_value(column));

		if (!name && value && !json_is_null(value) && !ctl_is_time(value))
			name = json_string_value(column);
	}
	return name ? name : json_string_value(json_array_get(columns, 0));
}

/* --- which columns a table has: the row's own choice, or all that the header names */

static size_t chosen(const struct ctl_report *r)
{
	const struct command *cmd = r->p->cmd;
	size_t n = 0;

	if (cmd->shape != ADM_REPORT || !cmd->columns)
		return 0;
	for (; cmd->columns[n].member; n++) {
		const json_t *name;
		bool found = false;
		size_t i;

		json_array_foreach(r->columns, i, name)
			found = found || strcmp(json_string_value(name), cmd->columns[n].member) == 0;
		if (!found)
			return 0;       /* the answer to another question than the usual one */
	}
	return n;
}

static const char *member_at(const struct ctl_report *r, size_t i)
{
	return chosen(r) ? r->p->cmd->columns[i].member : json_string_value(json_array_get(r->columns, i));
}

static size_t count_columns(const struct ctl_report *r)
{
	return chosen(r) ? chosen(r) : json_array_size(r->columns);
}

static void add_row(struct ctl_report *r, const json_t *row)
{
	struct ctl_value *cells = mem_calloc(r->ncols, sizeof(*cells));

	for (size_t i = 0; i < r->ncols; i++)
		cells[i] = ctl_value_of(row, member_at(r, i), type_of(json_object_get(row, member_at(r, i))));
	ctl_table_add(r->table, cells);
}

static void open_table(struct ctl_report *r)
{
	size_t n = count_columns(r);

	r->ncols = n;
	r->titles = mem_calloc(n, sizeof(*r->titles));
	r->cols = mem_calloc(n, sizeof(*r->cols));
	for (size_t i = 0; i < n; i++) {
		r->titles[i] = mem_strdup(chosen(r) ? r->p->cmd->columns[i].title : member_at(r, i));
		for (char *c = r->titles[i]; *c; c++)
			*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c == '_' ? ' ' : *c;
		r->cols[i] = (struct ctl_column){ r->titles[i], names_rows(member_at(r, i)) };
	}
	r->table = ctl_table_new(r->p, r->cols, n);
}

static void close_table(struct ctl_report *r)
{
	ctl_table_free(&r->table);
	for (size_t i = 0; i < r->ncols; i++)
		free(r->titles[i]);
	free(r->titles);
	free(r->cols);
}

static void print_id(const struct ctl_report *r, const json_t *row)
{
	const json_t *value = json_object_get(row, id_of(r->columns, row));
	char *cell = ctl_cell(value, COL_PLAIN);

	fprintf(r->p->out, "%s\n", cell);
	free(cell);
}

/* --- the answer from its first line to its last */

static void open_report(struct ctl_report *r)
{
	const struct ctl_print *p = r->p;
	const json_t *header = json_object_get(r->head, "header");
	bool table = is_table(p);

	r->columns = json_object_get(r->head, "columns");
	if ((table || p->format == CTL_CSV || (p->format == CTL_OCSF && json_object_get(header, "only"))) && !p->quiet) {
		print_header(p, header, table ? p->out : p->err);
		fputc('\n', table ? p->out : p->err);
	}
	if (table && !p->quiet && p->cmd->shape == ADM_CHART)
		r->chart = ctl_chart_new();
	else if (table && !p->quiet)
		open_table(r);
	r->out = (struct ctl_rows){ .format = p->format, .head = r->head, .out = p->out };
	ctl_rows_begin(&r->out);
}

static void take_row(struct ctl_report *r, const json_t *row)
{
	const struct ctl_print *p = r->p;
	json_t *event;

	r->rows++;
	if (p->cursor)
		ctl_cursor_note(p->cursor, row);
	if (r->chart) {
		ctl_chart_add(r->chart, row);
	} else if (r->table) {
		add_row(r, row);
	} else if (is_table(p)) {
		print_id(r, row);
	} else if (p->format == CTL_OCSF) {
		event = report_ocsf(row);
		ctl_rows_add(&r->out, event);
		json_decref(event);
	} else {
		ctl_rows_add(&r->out, row);
	}
}

#define NOTE_PLACE_MAX 512

/* --- documents, as files have them: to the output as they come, or into a folder when all are there */

/* A place in a file that was read, instead of a pointer into all documents. */
static void name_place_of(const struct ctl_print *p, json_t *row)
{
	const char *where = json_string_value(json_object_get(row, "where"));
	char place[NOTE_PLACE_MAX];

	if (where && ctl_files_where(p->files, where, place, sizeof(place)))
		(void)json_object_set_new(row, "where", json_string(place));
}

/* A row that is no document says what could not be made one. */
static void print_note(const struct ctl_print *p, const json_t *row)
{
	char *where = ctl_cell(json_object_get(row, "where"), COL_PLAIN),
		*text = ctl_cell(json_object_get(row, "finding"), COL_PLAIN);

	fprintf(p->err, "toolcrib: %s: %s\n", where, text);
	free(where);
	free(text);
}

static void put_document(struct ctl_report *r, const json_t *row)
{
	const struct ctl_print *p = r->p;
	struct str text = STR_INIT;

	if (r->err.code)
		return;
	if (p->json && !p->output) {
		ctl_write_json(row, p->out);
		fputc('\n', p->out);
		return;
	}
	if (!json_object_get(row, "document")) {
		print_note(p, row);
		return;
	}
	if (p->output) {
		if (ctl_folder_put(&r->folder, p->output, row, &r->err) < 0)
			return;
	} else {
		if (r->rows > 0)
			str_puts(&text, "---\n");
		yaml_write(json_object_get(row, "document"), &text);
		fwrite(text.p, 1, text.len, p->out);
		str_fini(&text);
	}
	r->rows++;
}

static void take_document(struct ctl_report *r, const char *line, size_t len)
{
	json_t *root = NULL;

	if (jx_parse(line, len, &root, &r->err) == 0) {
		name_place_of(r->p, json_object_get(root, "row"));
		put_document(r, json_object_get(root, "row"));
	}
	json_decref(root);
}

static enum ctl_exit end_documents(struct ctl_report *r, bool whole)
{
	const struct ctl_print *p = r->p;
	struct err err = { 0 };
	size_t files = 0;

	if (ctl_folder_end(&r->folder, whole && !r->err.code, &files, &err) < 0)
		r->err = err;
	if (r->err.code)
		ctl_print_error(p->err, false, "", &r->err);
	else if (p->output && whole && !p->quiet)
		fprintf(p->out, "%zu document%s in %zu file%s written to %s\n", r->rows, r->rows == 1 ? "" : "s", files,
			files == 1 ? "" : "s", p->output);
	return r->err.code ? CTL_FAILED : CTL_DONE;
}

/* --- either */

struct ctl_report *ctl_report_new(const struct ctl_print *p)
{
	struct ctl_report *r = mem_zalloc(sizeof(*r));

	r->p = p;
	r->documents = p->cmd->shape == ADM_DOCUMENTS;
	return r;
}

static bool is_visible(const char *p, size_t len)
{
	bool visible = true;

	for (size_t i = 0; i < len; i++)
		visible &= p[i] >= ' ' && p[i] < 0x7f;
	return visible;
}

/* A row that is written as it came, as nothing of it is hidden: most of a million. */
static bool pass_row(struct ctl_report *r, const char *line, size_t len)
{
	const struct ctl_print *p = r->p;
	struct jx_want row = { "/row", { NULL, 0 } };
	struct err err;

	if (!r->head || p->cursor || (p->format != CTL_JSONL && !(p->json && p->format == CTL_TABLE)) ||
	    !is_visible(line, len) || jx_scan(line, len, &row, 1, &err) < 0 || !row.span.p)
		return false;
	r->rows++;
	fwrite(row.span.p, 1, row.span.len, p->out);
	fputc('\n', p->out);
	return true;
}

static void take_line(struct ctl_report *r, const char *line, size_t len)
{
	json_t *root = NULL;
	struct err err;

	if (pass_row(r, line, len))
		return;
	if (jx_parse(line, len, &root, &err) < 0) {
		(void)err_wrap(&err, "the answer is not understood");
		ctl_print_error(r->p->err, false, "", &err);
		r->status = CTL_FAILED;
		return;
	}
	if (!r->head) {
		r->head = json_incref(root);
		open_report(r);
	} else if (json_object_get(root, "end")) {
		json_decref(r->end);
		r->end = json_incref(json_object_get(root, "end"));
	} else {
		take_row(r, json_object_get(root, "row"));
	}
	json_decref(root);
}

/* There is more than the limit: for programs in what they read, else beside it. */
static void print_next(const struct ctl_report *r)
{
	const struct ctl_print *p = r->p;
	const char *next = json_string_value(json_object_get(r->end, "next"));

	if (!r->end || p->quiet || (!p->json && (p->format == CTL_JSON || p->format == CTL_JSONL)))
		return;
	if (fflush(p->out) == 0 && next)
		fprintf(p->err, "next: --after %s\n", next);
	else
		fprintf(p->err, "there are more rows: --limit 0 has all\n");
}

/* What is wanted of this part is written, then the file that says so. */
static void finish_part(struct ctl_report *r)
{
	struct err err;

	if (r->table && r->p->cmd->stream)
		ctl_table_flush(r->table, r->p->out);
	if (fflush(r->p->out) != 0 || ferror(r->p->out) || !r->p->cursor)
		return;
	if (ctl_cursor_write(r->p->cursor, &err) == 0)
		return;
	ctl_print_error(r->p->err, false, "", &err);
	r->status = CTL_FAILED;
}

void ctl_report_feed(struct ctl_report *r, const struct str *rows)
{
	for (const char *line = str_text(rows), *nl; r->status == CTL_DONE && (nl = strchr(line, '\n')); line = nl + 1)
		(r->documents ? take_document : take_line)(r, line, (size_t)(nl - line));
	if (!r->documents)
		finish_part(r);
}

enum ctl_exit ctl_report_end(struct ctl_report **rp, bool whole)
{
	struct ctl_report *r = *rp;
	const json_t *header = json_object_get(r->head, "header");
	enum ctl_exit status = r->status;

	*rp = NULL;
	if (r->documents) {
		status = end_documents(r, whole);
		free(r);
		return status;
	}
	if (r->table && !r->p->cmd->stream)
		ctl_table_flush(r->table, r->p->out);
	if (r->chart)
		ctl_chart_print(r->chart, r->p);
	r->out.next = json_object_get(r->end, "next");
	if (r->head)
		ctl_rows_end(&r->out);
	print_next(r);
	if (status == CTL_DONE && r->rows > 0 && json_is_true(json_object_get(header, "must_be_empty")))
		status = CTL_FINDINGS;
	close_table(r);
	ctl_chart_free(&r->chart);
	json_decref(r->head);
	json_decref(r->end);
	free(r);
	return status;
}

static enum ctl_exit ctl_print_report(const struct ctl_print *p, const struct str *rows)
{
	struct ctl_report *r = ctl_report_new(p);

	ctl_report_feed(r, rows);
	return ctl_report_end(&r, true);
}

enum ctl_exit ctl_print_rows(const struct ctl_print *p, const struct str *rows)
{
	if (p->cmd->shape == ADM_DOCUMENTS || strncmp(str_text(rows), REPORT_START, sizeof(REPORT_START) - 1) == 0)
		return ctl_print_report(p, rows);
	return ctl_print_items(p, rows);
}
