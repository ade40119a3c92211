/* Reports as text: a header that says what was looked at, then rows as a table, a chart, one JSON document, JSON lines or
 * CSV.  The answer's first line names the columns, and says whether rows are findings (AUDIT A-1101, A-1103). */

#include "config.h"

#include "ctl_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#define BOLD "\x1b[1m"
#define PLAIN "\x1b[0m"
#define RFC3339_LEN 27

struct ctl_report {
	const struct ctl_print *p;
	json_t *head;                   /* {"header":{...},"columns":[...]} */
	const json_t *columns;
	struct ctl_table *table;
	struct ctl_chart *chart;
	size_t rows;
	bool titled;                    /* the table has begun */
	enum ctl_exit status;
};

static bool is_format(const struct ctl_print *p, const char *format)
{
	return p->format && strcmp(p->format, format) == 0;
}

static bool is_table(const struct ctl_print *p)
{
	return !p->json && (!p->format || is_format(p, "table"));
}

static enum adm_column_type type_of(const json_t *value)
{
	const char *t = json_string_value(value);

	return t && json_string_length(value) == RFC3339_LEN && t[10] == 'T' && t[RFC3339_LEN - 1] == 'Z' ? COL_TIME : COL_PLAIN;
}

/* --- the header for people */

/* The members of a line, and the word in front of each; members without a value are left out. */
static const struct line {
	const char *title;
	struct { const char *before, *member; } part[6];
} lines[] = {
	{ "report", { { "", "report" }, { " of ", "tenant" }, { ", log ", "log" }, { ", at ", "at" } } },
	{ "asked by", { { "", "asked" } } },
	{ "time", { { "from ", "since" }, { " to ", "until" } } },
	{ "records", { { "", "from" }, { " to ", "to" }, { " of ", "records" }, { ", pruned ", "pruned" }, { ", erasures ", "erasures" } } },
	{ "signed", { { "checkpoint ", "checkpoint" }, { " covers ", "signed" }, { ", anchor ", "anchor" }, { ", age ", "anchor_age" } } },
	{ "verified", { { "", "verified" } } },
	{ "store", { { "", "store_bytes" }, { " bytes, ", "bytes_per_record" }, { " a record; free ", "free_bytes" },
		     { " bytes, full in days ", "full_in_days" } } },
};

static void print_header(const struct ctl_print *p, const json_t *header, FILE *out)
{
	for (size_t i = 0; i < NELEMS(lines); i++) {
		bool any = false;

		for (size_t k = 0; k < NELEMS(lines[i].part) && lines[i].part[k].member; k++) {
			const json_t *value = json_object_get(header, lines[i].part[k].member);
			char *cell = ctl_cell(value, type_of(value));

			if (value && !json_is_null(value)) {
				if (!any)
					fprintf(out, "%s%-8s%s  ", p->colour ? BOLD : "", lines[i].title, p->colour ? PLAIN : "");
				fprintf(out, "%s%s", any || k == 0 ? lines[i].part[k].before : "", cell);
				any = true;
			}
			free(cell);
		}
		if (any)
			fputc('\n', out);
	}
}

/* --- which columns a table has: the row's own choice, or all that the header names */

static size_t chosen(const struct ctl_report *r)
{
	const struct adm_cmd *cmd = r->p->cmd;
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
	size_t n = count_columns(r);
	char **cells = mem_calloc(n, sizeof *cells);
	enum ctl_align *align = mem_calloc(n, sizeof *align);

	for (size_t i = 0; i < n; i++) {
		const json_t *value = json_object_get(row, member_at(r, i));

		cells[i] = ctl_cell(value, type_of(value));
		if (value && !json_is_null(value))
			align[i] = json_is_number(value) ? CTL_NUMBER : CTL_TEXT;
	}
	ctl_table_add(r->table, cells, align);
	free(align);
}

static void print_table(struct ctl_report *r)
{
	size_t n = count_columns(r);
	char **titles = mem_calloc(n, sizeof *titles);

	for (size_t i = 0; i < n; i++) {
		titles[i] = mem_strdup(chosen(r) ? r->p->cmd->columns[i].title : member_at(r, i));
		for (char *c = titles[i]; *c; c++)
			*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c == '_' ? ' ' : *c;
	}
	ctl_table_flush(r->table, r->titled ? NULL : (const char *const *)titles, r->p->colour, r->p->out);
	r->titled = true;
	for (size_t i = 0; i < n; i++)
		free(titles[i]);
	free(titles);
}

/* --- csv (AUDIT A-1003) */

/* Quoted, on one line, and nothing that a spreadsheet takes for a formula. */
static void print_csv_cell(const json_t *value, FILE *out)
{
	const char *text = json_string_value(value);
	char *cell = value && !json_is_null(value) ? ctl_cell(value, COL_PLAIN) : mem_strdup("");

	fputc('"', out);
	if (text && *text && strchr("=+-@\t\r", *text))
		fputc('\'', out);
	for (const char *c = cell; *c; c++) {
		if (*c == '"')
			fputc('"', out);
		fputc(*c, out);
	}
	fputc('"', out);
	free(cell);
}

static void print_csv_row(const struct ctl_report *r, const json_t *row)
{
	const json_t *name;
	size_t i;

	json_array_foreach(r->columns, i, name) {
		if (i)
			fputc(',', r->p->out);
		print_csv_cell(row ? json_object_get(row, json_string_value(name)) : name, r->p->out);
	}
	fputs("\r\n", r->p->out);
}

static void print_ocsf(const struct ctl_print *p, const json_t *row)
{
	json_t *event = ctl_ocsf_event(row);

	ctl_print_json(event, p->out);
	json_decref(event);
}

/* --- the answer from its first line to its last */

static void open_report(struct ctl_report *r)
{
	const struct ctl_print *p = r->p;
	const json_t *header = json_object_get(r->head, "header");
	bool table = is_table(p);

	r->columns = json_object_get(r->head, "columns");
	if ((table || is_format(p, "csv")) && !p->quiet) {
		print_header(p, header, table ? p->out : p->err);
		fputc('\n', table ? p->out : p->err);
	}
	if (table && !p->quiet && p->cmd->shape == ADM_CHART)
		r->chart = ctl_chart_new();
	else if (table && !p->quiet)
		r->table = ctl_table_new(count_columns(r));
	else if (is_format(p, "jsonl"))
		ctl_print_json(r->head, p->out);
	else if (is_format(p, "csv"))
		print_csv_row(r, NULL);
	if (!is_format(p, "json"))
		return;
	fputs("{\"header\":", p->out);
	ctl_write_json(header, p->out);
	fputs(",\n\"columns\":", p->out);
	ctl_write_json(r->columns, p->out);
	fputs(",\n\"rows\":[\n", p->out);
}

static void take_row(struct ctl_report *r, const json_t *row)
{
	const struct ctl_print *p = r->p;

	if (is_format(p, "json") && r->rows > 0)
		fputc(',', p->out);
	r->rows++;
	if (p->cursor)
		ctl_cursor_note(p->cursor, row);
	if (r->chart)
		ctl_chart_add(r->chart, row);
	else if (r->table)
		add_row(r, row);
	else if (is_format(p, "csv"))
		print_csv_row(r, row);
	else if (is_format(p, "ocsf"))
		print_ocsf(p, row);
	else if (p->json || !is_table(p))
		ctl_print_json(row, p->out);
	else
		fprintf(p->out, "%s\n", json_string_value(json_object_get(row, member_at(r, 0))));
}

struct ctl_report *ctl_report_new(const struct ctl_print *p)
{
	struct ctl_report *r = mem_zalloc(sizeof *r);

	r->p = p;
	return r;
}

static void take_line(struct ctl_report *r, const char *line, size_t len)
{
	json_t *root = NULL;
	struct err err;

	if (jx_parse(line, len, &root, &err) < 0) {
		(void)err_wrap(&err, "the answer is not understood");
		ctl_print_error(r->p->err, false, "", &err);
		r->status = CTL_FAILED;
		return;
	}
	if (!r->head) {
		r->head = json_incref(root);
		open_report(r);
	} else {
		take_row(r, json_object_get(root, "row"));
	}
	json_decref(root);
}

/* What is wanted of this part is written, then the file that says so. */
static void finish_part(struct ctl_report *r)
{
	struct err err;

	if (r->table && r->p->cmd->stream)
		print_table(r);
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
		take_line(r, line, (size_t)(nl - line));
	finish_part(r);
}

enum ctl_exit ctl_report_end(struct ctl_report **rp)
{
	struct ctl_report *r = *rp;
	const json_t *header = json_object_get(r->head, "header");
	enum ctl_exit status = r->status;

	*rp = NULL;
	if (r->table && !r->p->cmd->stream)
		print_table(r);
	if (r->chart)
		ctl_chart_print(r->chart, r->p);
	if (is_format(r->p, "json") && r->head)
		fputs("]}\n", r->p->out);
	if (status == CTL_DONE && r->rows > 0 && json_is_true(json_object_get(header, "must_be_empty")))
		status = CTL_FINDINGS;
	ctl_table_free(&r->table);
	ctl_chart_free(&r->chart);
	json_decref(r->head);
	free(r);
	return status;
}

enum ctl_exit ctl_print_report(const struct ctl_print *p, const struct str *rows)
{
	struct ctl_report *r = ctl_report_new(p);

	ctl_report_feed(r, rows);
	return ctl_report_end(&r);
}
