/* What a command said, as text: tables, items, sentences and tool results for people, rows for programs.  Whatever
 * comes out of the store is shown without control characters. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "json/json.h"
#include "json/yaml.h"

#include "ctl_int.h"

#define PLACE_MAX 512                   /* "file:line:column" */
#define HINT_INLINE "did you mean "     /* hints of this kind stand in the line of the error */

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
		char *line = ctl_printable(text + done, n);

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
	const char *hint = json_string_value(json_object_get(row, "hint"));
	struct str out = STR_INIT;
	size_t i;

	json_array_foreach(content, i, block) {
		if (json_is_true(json_object_get(row, "isError")) && json_is_string(json_object_get(block, "text")))
			log_said(json_string_value(json_object_get(block, "text")));
		print_block(p, block);
	}
	if (json_array_size(content) == 0 && structured) {
		jx_write_pretty(structured, &out);
		print_text(p, str_text(&out), out.len);
	}
	if (json_is_true(json_object_get(row, "isError")))
		fprintf(p->err, "toolcrib: the tool reports an error\n");
	if (hint) {
		char *shown = ctl_printable(hint, strlen(hint));

		fprintf(p->err, "hint: %s\n", shown);
		free(shown);
	}
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
		text = ctl_printable(line, nl ? (size_t)(nl - line) : strlen(line));
		fprintf(f, "  %s\n", text);
		free(text);
		if (!nl)
			break;
	}
	str_fini(&out);
}

/* A value behind its title: on a terminal broken into lines, all but the first indented. */
static void print_value(const struct ctl_print *p, const char *text, const char *colour, size_t indent)
{
	size_t width = p->width > 2 * indent ? p->width - indent : 0;   /* a narrow one breaks lines itself */
	const char *rest = text;

	do {
		const char *piece = rest;
		size_t n = width ? ctl_wrap(&rest, width) : strlen(rest);

		rest = width ? rest : rest + n;
		fprintf(p->out, "%*s%s%.*s%s\n", piece == text ? 0 : (int)indent, "", colour ? colour : "", (int)n, piece,
			colour ? CTL_PLAIN : "");
	} while (*rest);
}

static void print_item(const struct ctl_print *p, const json_t *row)
{
	size_t width = 0;

	for (const struct command_column *c = p->cmd->columns; c->member; c++)
		if (ctl_width(c->title, strlen(c->title)) > width)
			width = ctl_width(c->title, strlen(c->title));
	for (const struct command_column *c = p->cmd->columns; c->member; c++) {
		const json_t *value = json_object_get(row, c->member);
		struct ctl_value cell;

		if (!value)
			continue;
		fprintf(p->out, "%s%s%s", p->colour ? CTL_BOLD : "", c->title, p->colour ? CTL_PLAIN : "");
		cell = ctl_value_of(row, c->member, c->type);
		if (cell.align == CTL_NESTED) {
			fputc('\n', p->out);
			print_nested(value, p->out);
		} else {
			fprintf(p->out, "%*s  ", (int)(width - ctl_width(c->title, strlen(c->title))), "");
			print_value(p, cell.text, p->colour ? cell.colour : NULL, width + 2);
		}
		free(cell.text);
	}
}

/* Is there a member of that name?  A quote within a text has a backslash before it. */
static bool has_member(const struct str *rows, const char *name)
{
	char *text = mem_printf("\"%s\":", name);
	bool has = strstr(str_text(rows), text) != NULL;

	free(text);
	return has;
}

static size_t count_columns(const struct command *cmd, const struct str *rows)
{
	const struct command_column *c = cmd->columns;
	size_t n = 0;

	while (c && c[n].member && (c[n].type != COL_ASKED || has_member(rows, c[n].member)))
		n++;
	return n;
}

static void add_to_table(const struct ctl_print *p, const json_t *row, struct ctl_table *table, size_t n)
{
	struct ctl_value *cells = mem_calloc(n, sizeof(*cells));

	for (size_t c = 0; c < n; c++)
		cells[c] = ctl_value_of(row, p->cmd->columns[c].member, p->cmd->columns[c].type);
	ctl_table_add(table, cells);
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

/* What a list is written with: its table, or its rows for programs, or neither. */
struct list {
	size_t n;                       /* columns */
	struct ctl_column *cols;
	struct ctl_table *table;
	json_t *head;
	struct ctl_rows rows;
};

static void list_begin(const struct ctl_print *p, const struct str *rows, struct list *l)
{
	bool tabular = p->cmd->shape == ADM_TABLE || p->cmd->shape == ADM_FINDINGS;
	size_t n = count_columns(p->cmd, rows);

	*l = (struct list){ .n = n, .rows = { .format = p->format, .out = p->out } };
	if (p->format != CTL_TABLE) {
		l->head = json_pack("{s:[]}", "columns");
		for (size_t c = 0; c < n; c++)
			(void)json_array_append_new(json_object_get(l->head, "columns"), json_string(p->cmd->columns[c].member));
		l->rows.head = l->head;
		ctl_rows_begin(&l->rows);
	} else if (tabular && !p->json && !p->quiet) {
		l->cols = mem_calloc(n, sizeof(*l->cols));
		for (size_t c = 0; c < n; c++)
			l->cols[c] = (struct ctl_column){ p->cmd->columns[c].title, c == 0 };
		l->table = ctl_table_new(p, l->cols, n);
	}
}

static void list_end(const struct ctl_print *p, struct list *l, bool any)
{
	if (l->head)
		ctl_rows_end(&l->rows);
	if (l->table && (any || p->cmd->shape == ADM_TABLE))
		ctl_table_flush(l->table, p->out);
	ctl_table_free(&l->table);
	free(l->cols);
	json_decref(l->head);
}

static void print_diff(const struct ctl_print *p, const json_t *row);

static void print_row(const struct ctl_print *p, const json_t *row, struct list *list)
{
	if (list->head) {
		ctl_rows_add(&list->rows, row);
		return;
	}
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
	case ADM_DOCUMENTS:
	case ADM_SCREEN:
		break;          /* ctl_report.c, ctl_top.c */
	case ADM_TABLE:
	case ADM_FINDINGS:
		if (p->quiet)
			print_first(p, row);
		else
			add_to_table(p, row, list->table, list->n);
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

/* A row is a finding; one with a class may be a mere gap, the sum of all, or what is fine. */
static enum ctl_exit verdict_of_finding(const char *class)
{
	if (class && (strcmp(class, "sum") == 0 || strcmp(class, "ok") == 0 || strcmp(class, "needs") == 0))
		return CTL_DONE;
	return class && strcmp(class, "gap") == 0 ? CTL_PARTLY : CTL_FINDINGS;
}

static enum ctl_exit verdict(const struct ctl_print *p, const json_t *row)
{
	if (p->cmd->shape == ADM_FINDINGS)
		return verdict_of_finding(json_string_value(json_object_get(row, "class")));
	if (p->cmd->shape == ADM_CONTENT && json_is_true(json_object_get(row, "isError")))
		return CTL_FAILED;
	if (p->cmd->shape == ADM_ITEM && json_string_length(json_object_get(row, "refused")) > 0)       /* of status */
		return CTL_FAILED;
	return CTL_DONE;
}

/* One line of rows; its verdict. */
static enum ctl_exit print_line(const struct ctl_print *p, const char *line, size_t len, struct list *list)
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
	print_row(p, row, list);
	status = verdict(p, row);
	json_decref(root);
	return status;
}

/* --- pages */

/* How many rows of the screen a line takes; what colours it counts as if it were seen. */
static size_t rows_of(const char *line, size_t len, size_t columns)
{
	size_t width = ctl_width(line, len);

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
	size_t lines, columns = p->width, used = 0, left = 0;

	(void)ioctl(fileno(p->out), TIOCGWINSZ, &w);    /* what does not say has 24 lines */
	lines = w.ws_row > 1 ? w.ws_row - 1u : 23;
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

enum ctl_exit ctl_print_items(const struct ctl_print *p, const struct str *rows)
{
	struct list list;
	enum ctl_exit status = CTL_DONE;

	if (p->cmd->shape == ADM_DIFF && p->cmd->role == ADM_READ && p->tty && !p->json && isatty(STDIN_FILENO))
		return print_pages(p, rows);
	list_begin(p, rows, &list);
	for (const char *line = str_text(rows), *nl; (nl = strchr(line, '\n')); line = nl + 1) {
		enum ctl_exit said = print_line(p, line, (size_t)(nl - line), &list);

		if (status == CTL_DONE || (status == CTL_PARTLY && said == CTL_FINDINGS))
			status = said;
	}
	list_end(p, &list, rows->len > 0);
	return status;
}

void ctl_print_error(FILE *f, bool colour, const char *where, const struct err *err)
{
	bool joined = strncmp(err->hint, HINT_INLINE, sizeof(HINT_INLINE) - 1) == 0;
	char *place = ctl_printable(where, strlen(where));
	char *msg = ctl_printable(err->msg, strlen(err->msg));
	char *hint = ctl_printable(err->hint, strlen(err->hint));

	fprintf(f, "%stoolcrib:%s %s%s", colour ? CTL_RED : "", colour ? CTL_PLAIN : "", place, *place ? ": " : "");
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
	return sign == '+' ? CTL_GREEN : sign == '-' ? CTL_RED : CTL_YELLOW;
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

	fprintf(p->out, "%s%s%s %s%s%s\n", colour_of(p, sign ? *sign : '~'), sign ? sign : "~", p->colour ? CTL_PLAIN
		: "", what,
		strcmp(said, "-") == 0 ? "" : ": ", strcmp(said, "-") == 0 ? "" : said);
	free(what);
	free(said);
	json_array_foreach(changes, i, change)
		if (!p->quiet)
			ctl_print_change(p, change, "    ");
}

/* --- The file of ADM_FILE */

/* What a command sends in parts: written here, by who runs the command, and removed again unless it came whole. */

struct ctl_save {
	char *path, *part;              /* the file; what it is until it is whole, beside it */
	int fd;
	struct digest *digest;
	json_t *last;                   /* the row that says what it is */
	struct err err;                 /* the first; nothing is written any more */
};

static int cannot(const struct ctl_save *s, struct err *err)
{
	return err_set(err, errno == EEXIST ? ERR_CONFLICT : ERR_IO, "", "%s: %s", s->path, strerror(errno));
}

/* The argument that names the file. */
static const char *file_of(const struct ctl_line *line)
{
	const struct command_arg *a = line->cmd->args;

	while (a->name && a->type != ARG_PATH)
		a++;
	return json_string_value(json_object_get(line->args, a->name));
}

static void save_free(struct ctl_save *s)
{
	free(s->part);
	free(s->path);
	free(s);
}

int ctl_save_new(const struct ctl_line *line, struct ctl_save **ret, struct err *err)
{
	struct ctl_save *s = mem_zalloc(sizeof(*s));
	struct stat st;

	s->path = mem_strdup(file_of(line));
	s->part = mem_printf("%s.XXXXXX", s->path);
	errno = EEXIST;
	s->fd = lstat(s->path, &st) == 0 ? -1 : mkostemp(s->part, O_CLOEXEC);   /* 0600 */
	if (s->fd < 0) {
		int rc = cannot(s, err);

		save_free(s);
		return rc;
	}
	s->digest = digest_new();
	*ret = s;
	return 0;
}

static void write_all(struct ctl_save *s, const uint8_t *p, size_t n)
{
	digest_put(s->digest, p, n);
	while (n > 0) {
		ssize_t k = write(s->fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			(void)cannot(s, &s->err);
			return;
		}
		p += k;
		n -= (size_t)k;
	}
}

static void take_data(struct ctl_save *s, const json_t *data)
{
	size_t len = json_string_length(data), n = 0;
	uint8_t *bytes = mem_alloc(len + 1);

	if (text_unbase64(json_string_value(data), len, bytes, len, &n) < 0)
		(void)err_set(&s->err, ERR_IO, "", "%s: a part of it is no base64", s->path);
	else
		write_all(s, bytes, n);
	free(bytes);
}

static void take_line(struct ctl_save *s, const char *p, size_t len)
{
	json_t *line = NULL;
	const json_t *data, *row;

	if (jx_parse(p, len, &line, NULL) < 0) {
		(void)err_set(&s->err, ERR_IO, "", "%s: a part of it cannot be read", s->path);
		return;
	}
	row = json_object_get(line, "row");
	data = json_object_get(row, "data");
	if (json_is_string(data)) {
		take_data(s, data);
	} else {
		json_decref(s->last);
		s->last = json_incref((json_t *)(uintptr_t)row);
	}
	json_decref(line);
}

void ctl_save_feed(void *save, const struct str *rows)
{
	struct ctl_save *s = save;

	for (const char *line = str_text(rows), *nl; !s->err.code && (nl = strchr(line, '\n')); line = nl + 1)
		take_line(s, line, (size_t)(nl - line));
}

/* Which takes nobody's place. */
static int take_place(const struct ctl_save *s)
{
	struct stat st;

	if (renameat2(AT_FDCWD, s->part, AT_FDCWD, s->path, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL)
		return -1;
	/* A file system that cannot: then it is looked first. */
	errno = EEXIST;
	return lstat(s->path, &st) == 0 ? -1 : rename(s->part, s->path);
}

static int check_whole(struct ctl_save *s, struct err *err)
{
	const char *said = json_string_value(json_object_get(s->last, "sha256"));
	uint8_t digest[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1];

	if (s->err.code) {
		*err = s->err;
		return s->err.code;
	}
	digest_end(&s->digest, digest);
	text_hex(digest, sizeof(digest), hex);
	if (!said || strcmp(said, hex) != 0)
		return err_set(err, ERR_IO, "", "%s: what came is not what was sent", s->path);
	return fsync(s->fd) == 0 && take_place(s) == 0 ? path_sync_parent(s->path, err) : cannot(s, err);
}

int ctl_save_end(struct ctl_save **sp, bool whole, struct str *ret, struct err *err)
{
	struct ctl_save *s = *sp;
	int rc = whole ? check_whole(s, err) : 0;

	*sp = NULL;
	close(s->fd);
	if (!whole || rc < 0) {
		(void)unlink(s->part);
	} else {
		json_object_set_new(s->last, "bundle", json_string(s->path));
		str_puts(ret, "{\"row\":");
		jx_write(s->last, ret);
		str_puts(ret, "}\n");
	}
	if (s->digest) {
		uint8_t rest[DIGEST_SIZE];

		digest_end(&s->digest, rest);
	}
	json_decref(s->last);
	save_free(s);
	return rc;
}
