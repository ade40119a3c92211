/* What a command said, as text: tables, items, sentences and tool results for people, one object per line for
 * programs.  Whatever comes out of the store is shown without control characters. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "json/yaml.h"

#include "ctl_int.h"

/* --- Aligned columns: as wide as their widest cell, numbers to the right. */

#define GAP 2                           /* blanks between columns */
#define BOLD "\x1b[1m"
#define PLAIN "\x1b[0m"

struct ctl_table {
	size_t ncols, nrows, cap;
	char ***rows;                   /* nrows arrays of ncols cells */
	bool *text, *number;            /* a column that holds a text, a number */
	size_t *width;                  /* of the widest cell so far */
};

struct ctl_table *ctl_table_new(size_t ncols)
{
	struct ctl_table *t = mem_zalloc(sizeof(*t));

	t->ncols = ncols;
	t->text = mem_calloc(ncols, sizeof(*t->text));
	t->number = mem_calloc(ncols, sizeof(*t->number));
	t->width = mem_calloc(ncols, sizeof(*t->width));
	return t;
}

void ctl_table_add(struct ctl_table *t, char **cells, const enum ctl_align *align)
{
	if (t->nrows == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->rows = mem_realloc(t->rows, t->cap * sizeof(char **));
	}
	t->rows[t->nrows++] = cells;
	for (size_t c = 0; c < t->ncols; c++) {
		t->number[c] = t->number[c] || align[c] == CTL_NUMBER;
		t->text[c] = t->text[c] || align[c] == CTL_TEXT;
	}
}

static size_t width_of(const char *cell)
{
	return text_utf8_count(cell, strlen(cell));
}

/* Blanks are written in front of the next cell, so that no line ends in them. */
static void print_cells(const struct ctl_table *t, const char *const *cells, const size_t *width, FILE *out)
{
	size_t pending = 0;

	for (size_t c = 0; c < t->ncols; c++) {
		size_t fill = width[c] - width_of(cells[c]);
		bool right = t->number[c] && !t->text[c];

		if (right)
			pending += fill;
		if (*cells[c]) {
			fprintf(out, "%*s%s", (int)pending, "", cells[c]);
			pending = 0;
		}
		pending += GAP + (right ? 0 : fill);
	}
}

static void widen(struct ctl_table *t, const char *const *titles)
{
	for (size_t c = 0; c < t->ncols; c++) {
		if (titles && width_of(titles[c]) > t->width[c])
			t->width[c] = width_of(titles[c]);
		for (size_t r = 0; r < t->nrows; r++)
			if (width_of(t->rows[r][c]) > t->width[c])
				t->width[c] = width_of(t->rows[r][c]);
	}
}

static void forget_rows(struct ctl_table *t)
{
	for (size_t r = 0; r < t->nrows; r++) {
		for (size_t c = 0; c < t->ncols; c++)
			free(t->rows[r][c]);
		free(t->rows[r]);
	}
	t->nrows = 0;
}

void ctl_table_flush(struct ctl_table *t, const char *const *titles, bool colour, FILE *out)
{
	widen(t, titles);
	if (titles) {
		fputs(colour ? BOLD : "", out);
		print_cells(t, titles, t->width, out);
		fputs(colour ? PLAIN "\n" : "\n", out);
	}
	for (size_t r = 0; r < t->nrows; r++) {
		print_cells(t, (const char *const *)t->rows[r], t->width, out);
		fputc('\n', out);
	}
	forget_rows(t);
}

void ctl_table_free(struct ctl_table **tp)
{
	struct ctl_table *t = tp ? *tp : NULL;

	if (!t)
		return;
	*tp = NULL;
	forget_rows(t);
	free(t->rows);
	free(t->text);
	free(t->number);
	free(t->width);
	free(t);
}

/* --- values and colours */

#define RED "\x1b[31m"
#define PLACE_MAX 512                   /* "file:line:column" */
#define HINT_INLINE "did you mean "     /* hints of this kind stand in the line of the error */

/* A copy without control characters, whose longest form is four bytes for one; free() it. */
static char *printable(const char *p, size_t len)
{
	size_t size = 4 * len + 16;
	char *ret = mem_alloc(size);

	return text_printable(p, len, ret, size);
}

static char *local_time(const char *text)
{
	char buf[48];
	uint64_t us;

	if (clock_parse(text, clock_wall_us(), &us) != 0)
		return printable(text, strlen(text));
	return mem_strdup(clock_format_local(us, buf, sizeof(buf)));
}

static bool all_scalars(const json_t *array)
{
	const json_t *item;
	size_t i;

	json_array_foreach(array, i, item)
		if (json_is_object(item) || json_is_array(item))
			return false;
	return true;
}

static char *list_cell(const json_t *array)
{
	struct str out = STR_INIT;
	const json_t *item;
	size_t i;

	json_array_foreach(array, i, item) {
		char *cell = ctl_cell(item, COL_PLAIN);

		str_printf(&out, "%s%s", i ? ", " : "", cell);
		free(cell);
	}
	if (out.len == 0)
		str_putc(&out, '-');
	return str_take(&out);
}

char *ctl_cell(const json_t *value, enum command_column_type type)
{
	struct str out = STR_INIT;
	char *cell;

	if (!value || json_is_null(value))
		return mem_strdup("-");
	if (json_is_boolean(value))
		return mem_strdup(json_is_true(value) ? "yes" : "no");
	if (json_is_string(value) && type == COL_TIME)
		return local_time(json_string_value(value));
	if (json_is_string(value))
		return printable(json_string_value(value), json_string_length(value));
	if (json_is_array(value) && all_scalars(value))
		return list_cell(value);
	jx_write(value, &out);
	cell = printable(str_text(&out), out.len);
	str_fini(&out);
	return cell;
}

/* Fill "%{member}" of a sentence with the row's values. */
static void ctl_fill(const char *sentence, const json_t *row, struct str *out)
{
	const char *open;

	while ((open = strstr(sentence, "%{"))) {
		const char *close = strchr(open, '}');
		char *member, *cell;

		if (!close)
			break;
		member = mem_strndup(open + 2, (size_t)(close - open) - 2);
		cell = ctl_cell(json_object_get(row, member), COL_PLAIN);
		str_put(out, sentence, (size_t)(open - sentence));
		str_puts(out, cell);
		free(cell);
		free(member);
		sentence = close + 1;
	}
	str_puts(out, sentence);
}

/* What is hidden is legal inside JSON strings, but some terminals obey it and nobody sees it: written as escapes, which
 * mean the same. */
void ctl_write_json(const json_t *row, FILE *f)
{
	struct str out = STR_INIT;
	unsigned n;

	jx_write(row, &out);
	for (size_t i = 0; i < out.len; i += n) {
		uint32_t c = 0xfffd;

		n = text_decode(out.p + i, out.len - i, &c);
		if (n == 0)
			n = 1;          /* there is none */
		if (!text_is_hidden(c))
			fwrite(out.p + i, 1, n, f);
		else if (c > 0xffff)
			fprintf(f, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
		else
			fprintf(f, "\\u%04x", c);
	}
	str_fini(&out);
}

static void print_json(const json_t *row, FILE *f)
{
	ctl_write_json(row, f);
	fputc('\n', f);
}

/* --- tool results */

static void print_text(const struct ctl_print *p, const char *text, size_t len)
{
	size_t done = 0;

	if (!p->tty)
		fwrite(text, 1, len, p->out);   /* a file gets what the tool said */
	while (p->tty && done < len) {
		const char *nl = memchr(text + done, '\n', len - done);
		size_t n = nl ? (size_t)(nl - text) - done : len - done;
		char *line = printable(text + done, n);

		fprintf(p->out, "%s%s", line, nl ? "\n" : "");
		free(line);
		done += n + (nl ? 1 : 0);
	}
	if (len == 0 || text[len - 1] != '\n')
		fputc('\n', p->out);
}

static void print_member(const json_t *block, const char *name, FILE *out)
{
	const json_t *value = json_object_get(block, name);
	char *cell;

	if (!value)
		return;
	cell = ctl_cell(value, COL_PLAIN);
	fprintf(out, " %s", cell);
	free(cell);
}

static void print_block(const struct ctl_print *p, const json_t *block)
{
	const json_t *resource = json_object_get(block, "resource");
	const json_t *text = json_object_get(block, "text");
	const json_t *data = json_object_get(block, "data");

	if (!text)
		text = json_object_get(resource, "text");
	if (json_is_string(text)) {
		print_text(p, json_string_value(text), json_string_length(text));
		return;
	}
	fputc('[', p->out);
	print_member(block, "type", p->out);
	print_member(block, "mimeType", p->out);
	print_member(block, "uri", p->out);
	print_member(resource, "uri", p->out);
	if (json_is_string(data))
		fprintf(p->out, ", %zu characters of base64", json_string_length(data));
	fputs(" ]\n", p->out);
}

static void print_content(const struct ctl_print *p, const json_t *row)
{
	const json_t *content = json_object_get(row, "content"), *block;
	const json_t *structured = json_object_get(row, "structuredContent");
	struct str out = STR_INIT;
	size_t i;

	json_array_foreach(content, i, block)
		print_block(p, block);
	if (json_array_size(content) == 0 && structured) {
		jx_write_pretty(structured, &out);
		print_text(p, str_text(&out), out.len);
	}
	if (json_is_true(json_object_get(row, "isError")))
		fprintf(p->err, "toolcrib: the tool reports an error\n");
	str_fini(&out);
}

/* --- rows */

static void print_nested(const json_t *value, FILE *f)
{
	struct str out = STR_INIT;
	const char *line, *nl;

	yaml_write(value, &out);
	for (line = str_text(&out); *line; line = nl + 1) {
		char *text;

		nl = strchr(line, '\n');
		text = printable(line, nl ? (size_t)(nl - line) : strlen(line));
		fprintf(f, "  %s\n", text);
		free(text);
		if (!nl)
			break;
	}
	str_fini(&out);
}

static void print_item(const struct ctl_print *p, const json_t *row)
{
	size_t width = 0;

	for (const struct command_column *c = p->cmd->columns; c->member; c++)
		if (text_utf8_count(c->title, strlen(c->title)) > width)
			width = text_utf8_count(c->title, strlen(c->title));
	for (const struct command_column *c = p->cmd->columns; c->member; c++) {
		const json_t *value = json_object_get(row, c->member);
		char *cell;

		if (!value)
			continue;
		fprintf(p->out, "%s%s%s", p->colour ? BOLD : "", c->title, p->colour ? PLAIN : "");
		if (json_is_object(value) || (json_is_array(value) && !all_scalars(value))) {
			fputc('\n', p->out);
			print_nested(value, p->out);
			continue;
		}
		cell = ctl_cell(value, c->type);
		fprintf(p->out, "%*s  %s\n", (int)(width - text_utf8_count(c->title, strlen(c->title))), "", cell);
		free(cell);
	}
}

static size_t count_columns(const struct command *cmd)
{
	size_t n = 0;

	while (cmd->columns && cmd->columns[n].member)
		n++;
	return n;
}

static void add_to_table(const struct ctl_print *p, const json_t *row, struct ctl_table *table)
{
	size_t n = count_columns(p->cmd);
	char **cells = mem_calloc(n, sizeof(*cells));
	enum ctl_align *align = mem_calloc(n, sizeof(*align));

	for (size_t c = 0; c < n; c++) {
		const json_t *value = json_object_get(row, p->cmd->columns[c].member);

		cells[c] = ctl_cell(value, p->cmd->columns[c].type);
		if (value && !json_is_null(value))
			align[c] = json_is_number(value) ? CTL_NUMBER : CTL_TEXT;
	}
	ctl_table_add(table, cells, align);
	free(align);
}

static void print_first(const struct ctl_print *p, const json_t *row)
{
	char *cell = ctl_cell(json_object_get(row, p->cmd->columns[0].member), p->cmd->columns[0].type);

	fprintf(p->out, "%s\n", cell);
	free(cell);
}

static void print_sentence(const struct ctl_print *p, const json_t *row, FILE *f)
{
	struct str out = STR_INIT;

	if (p->quiet || !p->cmd->done)
		return;
	ctl_fill(p->cmd->done, row, &out);
	fprintf(f, "%s\n", str_text(&out));
	str_fini(&out);
}

static enum ctl_exit ctl_print_documents(const struct ctl_print *p);
static void print_diff(const struct ctl_print *p, const json_t *row);

static void print_row(const struct ctl_print *p, const json_t *row, struct ctl_table *table)
{
	if (p->json && !p->output) {
		print_json(row, p->out);
		return;
	}
	switch (p->cmd->shape) {
	case ADM_DONE:
	case ADM_FILE:
		print_sentence(p, row, p->out);
		break;
	case ADM_CONTENT:
		print_content(p, row);
		break;
	case ADM_DOCUMENTS:
		(void)json_array_append(p->documents, (json_t *)(uintptr_t)row);
		break;
	case ADM_DIFF:
		print_diff(p, row);
		break;
	case ADM_TEXT:
		fputs(json_string_value(json_object_get(row, p->cmd->columns[0].member)), p->out);
		print_sentence(p, row, p->err);
		break;
	case ADM_SECRET:
		print_first(p, row);
		print_sentence(p, row, p->err);
		break;
	case ADM_REPORT:
	case ADM_CHART:
		break;          /* ctl_print_report() */
	case ADM_TABLE:
	case ADM_FINDINGS:
		if (p->quiet)
			print_first(p, row);
		else
			add_to_table(p, row, table);
		break;
	case ADM_ITEM:
		if (p->quiet)
			print_first(p, row);
		else
			print_item(p, row);
		break;
	}
}

static void name_place(const struct ctl_print *p, json_t *row)
{
	const char *where = json_string_value(json_object_get(row, "where"));
	char place[PLACE_MAX];

	if (where && ctl_files_where(p->files, where, place, sizeof(place)))
		(void)json_object_set_new(row, "where", json_string(place));
}

/* A row is a finding; one with a class may be a mere gap, or the sum of all. */
static enum ctl_exit verdict_of_finding(const char *class)
{
	if (class && strcmp(class, "sum") == 0)
		return CTL_DONE;
	return class && strcmp(class, "gap") == 0 ? CTL_PARTLY : CTL_FINDINGS;
}

static enum ctl_exit verdict(const struct ctl_print *p, const json_t *row)
{
	if (p->cmd->shape == ADM_FINDINGS)
		return verdict_of_finding(json_string_value(json_object_get(row, "class")));
	if (p->cmd->shape == ADM_CONTENT && json_is_true(json_object_get(row, "isError")))
		return CTL_FAILED;
	return CTL_DONE;
}

static void print_table(const struct ctl_print *p, struct ctl_table *table)
{
	size_t n = count_columns(p->cmd);
	const char **titles = mem_calloc(n, sizeof(*titles));

	for (size_t c = 0; c < n; c++)
		titles[c] = p->cmd->columns[c].title;
	ctl_table_flush(table, titles, p->colour, p->out);
	free(titles);
}

/* One line of rows; its verdict. */
static enum ctl_exit print_line(const struct ctl_print *p, const char *line, size_t len, struct ctl_table *table)
{
	json_t *root = NULL, *row;
	enum ctl_exit status;
	struct err err;

	if (jx_parse(line, len, &root, &err) < 0) {
		(void)err_wrap(&err, "the answer is not understood");
		ctl_print_error(p->err, false, "", &err);
		return CTL_FAILED;
	}
	row = json_object_get(root, "row");
	name_place(p, row);
	print_row(p, row, table);
	status = verdict(p, row);
	json_decref(root);
	return status;
}

/* --- pages */

/* How many rows of the screen a line takes, at most: what is above ASCII may be wide. */
static size_t rows_of(const char *line, size_t len, size_t columns)
{
	size_t width = 0;

	for (size_t i = 0; i < len; i++)
		width += (unsigned char)line[i] < 0x80 ? 1 : ((unsigned char)line[i] & 0xc0) == 0x80 ? 0 : 2;
	return 1 + (width ? (width - 1) / columns : 0);
}

static bool wants_more(FILE *out)
{
	char answer[16];

	fputs("-- Enter: go on, q: stop -- ", out);
	fflush(out);
	return fgets(answer, sizeof(answer), stdin) && *answer != 'q';
}

static enum ctl_exit show_pages(const struct ctl_print *p, const char *text, size_t len)
{
	struct winsize w = { 0 };
	size_t lines, columns, used = 0, left = 0;

	(void)ioctl(fileno(p->out), TIOCGWINSZ, &w);    /* what does not say has 24 lines of 80 */
	lines = w.ws_row > 1 ? w.ws_row - 1u : 23;
	columns = w.ws_col ? w.ws_col : 80;
	for (const char *line = text, *nl; line < text + len; line = nl) {
		nl = memchr(line, '\n', (size_t)(text + len - line));
		nl = nl ? nl + 1 : text + len;
		size_t rows = rows_of(line, (size_t)(nl - line), columns);

		if (used > 0 && used + rows > lines && !left) {
			if (wants_more(p->out))
				used = 0;
			else
				left = 1;
		} else if (left) {
			left++;
		}
		used += rows;
		if (!left)
			fwrite(line, 1, (size_t)(nl - line), p->out);
	}
	if (left)
		fprintf(p->err, "toolcrib: %zu more line%s not shown\n", left, left == 1 ? " was" : "s were");
	return left ? CTL_PARTLY : CTL_DONE;
}

/* On a terminal what is looked at comes in pages. */
static enum ctl_exit print_pages(const struct ctl_print *all, const struct str *rows)
{
	struct ctl_print p = *all;
	enum ctl_exit status, shown;
	char *text = NULL;
	size_t len = 0;

	p.out = open_memstream(&text, &len);
	if (!p.out)
		return CTL_FAILED;
	p.tty = false;
	status = ctl_print_items(&p, rows);
	fclose(p.out);
	shown = show_pages(all, text, len);
	free(text);
	return status == CTL_DONE ? shown : status;
}

enum ctl_exit ctl_print_items(const struct ctl_print *all, const struct str *rows)
{
	struct ctl_print mine = *all, *p = &mine;
	bool tabular = p->cmd->shape == ADM_TABLE || p->cmd->shape == ADM_FINDINGS;
	struct ctl_table *table;
	enum ctl_exit status = CTL_DONE;

	if (p->cmd->shape == ADM_DIFF && p->cmd->role == ADM_READ && p->tty && !p->json && isatty(STDIN_FILENO))
		return print_pages(all, rows);
	table = tabular && !p->json && !p->quiet ? ctl_table_new(count_columns(p->cmd)) : NULL;
	mine.documents = json_array();
	for (const char *line = str_text(rows), *nl; (nl = strchr(line, '\n')); line = nl + 1) {
		enum ctl_exit said = print_line(p, line, (size_t)(nl - line), table);

		if (status == CTL_DONE || (status == CTL_PARTLY && said == CTL_FINDINGS))
			status = said;
	}
	if (table && (rows->len > 0 || p->cmd->shape == ADM_TABLE))
		print_table(p, table);
	ctl_table_free(&table);
	if (p->cmd->shape == ADM_DOCUMENTS && (p->output || !p->json))
		status = ctl_print_documents(p);
	json_decref(mine.documents);
	return status;
}

void ctl_print_error(FILE *f, bool colour, const char *where, const struct err *err)
{
	bool joined = strncmp(err->hint, HINT_INLINE, sizeof(HINT_INLINE) - 1) == 0;
	char *place = printable(where, strlen(where));
	char *msg = printable(err->msg, strlen(err->msg));
	char *hint = printable(err->hint, strlen(err->hint));

	fprintf(f, "%stoolcrib:%s %s%s", colour ? RED : "", colour ? PLAIN : "", place, *place ? ": " : "");
	fprintf(f, "%s%s%s\n", msg, joined ? "; " : "", joined ? hint : "");
	if (*hint && !joined)
		fprintf(f, "hint: %s\n", hint);
	free(place);
	free(msg);
	free(hint);
}

/* --- What differs, for people; ctl_diff.c prints a change */

static const char *colour_of(const struct ctl_print *p, char sign)
{
	if (!p->colour)
		return "";
	return sign == '+' ? "\x1b[32m" : sign == '-' ? "\x1b[31m" : "\x1b[33m";
}

/* A row of ADM_DIFF. */
static void print_diff(const struct ctl_print *p, const json_t *row)
{
	const char *sign = json_string_value(json_object_get(row, "sign"));
	const json_t *changes = json_object_get(row, "changes"), *change;
	size_t i;

	if (json_object_get(row, "summary")) {
		char *text = ctl_cell(json_object_get(row, "summary"), COL_PLAIN);

		if (!p->quiet)
			fprintf(p->out, "%s\n", text);
		free(text);
		return;
	}
	if (json_object_get(row, "where")) {
		ctl_print_change(p, row, "");
		return;
	}
	char *what = ctl_cell(json_object_get(row, "what"), COL_PLAIN),
		*said = ctl_cell(json_object_get(row, "said"), COL_PLAIN);

	fprintf(p->out, "%s%s%s %s%s%s\n", colour_of(p, sign ? *sign : '~'), sign ? sign : "~", p->colour ? "\x1b[0m"
		: "", what,
		strcmp(said, "-") == 0 ? "" : ": ", strcmp(said, "-") == 0 ? "" : said);
	free(what);
	free(said);
	json_array_foreach(changes, i, change)
		if (!p->quiet)
			ctl_print_change(p, change, "    ");
}

/* --- Documents, as files have them */

/* A row that is no document says what could not be made one. */
static void print_note(const struct ctl_print *p, const json_t *row)
{
	char *where = ctl_cell(json_object_get(row, "where"), COL_PLAIN),
		*text = ctl_cell(json_object_get(row, "finding"), COL_PLAIN);

	fprintf(p->err, "toolcrib: %s: %s\n", where, text);
	free(where);
	free(text);
}

/* All rows of ADM_DOCUMENTS. */
static enum ctl_exit ctl_print_documents(const struct ctl_print *p)
{
	json_t *documents = json_array();
	const json_t *row;
	struct str text = STR_INIT;
	struct err err = { 0 };
	size_t i, files = 0;
	int rc = 0;

	json_array_foreach(p->documents, i, row) {
		if (!json_object_get(row, "document")) {
			print_note(p, row);
			continue;
		}
		if (json_array_size(documents) > 0)
			str_puts(&text, "---\n");
		yaml_write(json_object_get(row, "document"), &text);
		(void)json_array_append(documents, (json_t *)(uintptr_t)row);
	}
	if (!p->output)
		fwrite(str_text(&text), 1, text.len, p->out);
	else
		rc = ctl_folder_write(p->output, documents, &files, &err);
	if (rc < 0)
		ctl_print_error(p->err, false, "", &err);
	else if (p->output && !p->quiet)
		fprintf(p->out, "%zu document%s in %zu file%s written to %s\n", json_array_size(documents),
			json_array_size(documents) == 1 ? "" : "s", files, files == 1 ? "" : "s", p->output);
	str_fini(&text);
	json_decref(documents);
	return rc < 0 ? CTL_FAILED : CTL_DONE;
}
