#ifndef CTL_INT_H
#define CTL_INT_H

#include "command/command.h"
#include "base/err.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The program toolcrib: from words to a row of the command table, from the row's answer to text.  It knows no
 * command by name but the few that run without a store (toolcrib.c). */

/* 0 to 5; and, with the signal's number added, of a command that was interrupted. */
enum ctl_exit { CTL_DONE, CTL_FAILED, CTL_USAGE, CTL_UNREACHABLE, CTL_FINDINGS, CTL_PARTLY, CTL_SIGNAL = 128 };

enum ctl_format { CTL_TABLE, CTL_JSON, CTL_JSONL, CTL_CSV, CTL_OCSF };   /* how an answer is written */
#define CTL_FORMATS "table|json|jsonl|csv"

/* --- ctl_args.c: words */

struct ctl_opt {                        /* options that every command has; texts borrowed from argv */
	const char *store, *socket;
	const char *remote, *ca, *key_file;
	const char *format_name;
	bool json, quiet, yes, help, version;
};
struct ctl_global { const char *name, *value, *help; char letter; };
extern const struct ctl_global ctl_globals[];           /* ended by name NULL */

struct ctl_line {
	struct ctl_opt opt;
	const struct command *cmd;
	json_t *args;                   /* as command_run() takes them, without documents */
	json_t *files;                  /* paths of ARG_FILE words, or NULL */
	enum ctl_format format;
};
/* Words to a row and its arguments.  0, or ERR_INVALID: a usage error, and line->cmd is the row if it was found.
 * With --help or --version the arguments may be missing; cmd is NULL when no command was named, and *ret_noun the
 * first word then, if there is one. */
int ctl_args_parse(const struct command *const *tables, int argc, char **argv, struct ctl_line *ret,
		   const char **ret_noun, struct err *err) MUST_CHECK;
void ctl_line_fini(struct ctl_line *line);

/* --- ctl_help.c: the table as text */

/* The letter of an option, or 0: "-f" is "--file". */
char ctl_letter(const struct command_arg *arg);
void ctl_command_name(const struct command *cmd, struct str *out);      /* "tool add" */
void ctl_usage(const struct command *cmd, struct str *out);             /* "toolcrib tool add FILE..." */
void ctl_help_command(const struct command *cmd, struct str *out);
void ctl_help_noun(const struct command *const *tables, const char *noun, struct str *out);
void ctl_help_all(const struct command *const *tables, struct str *out);
/* The command help: of "tool add", "tool" or nothing. */
int ctl_help_run(const struct ctl_line *line, struct str *rows, struct err *err) MUST_CHECK;
void ctl_man_commands(const struct command *const *tables, struct str *out);    /* mdoc: the list in toolcrib(8) */
/* The completion for a shell.  ERR_INVALID: there is none. */
int ctl_complete(const struct command *const *tables, const char *shell, struct str *out, struct err *err) MUST_CHECK;

/* --- ctl_file.c: definition documents */

struct ctl_files;
/* Read the documents of the files ("-" = standard input) and append them to `documents`: all, or the first piece of
 * them when the row takes pieces, and the others by ctl_files_each().  err.where is a place for people,
 * "weather.yaml:3:1", or "". */
int ctl_files_load(const json_t *paths, const struct command *cmd, json_t *documents, struct ctl_files **ret,
		   bool *ret_more, struct err *err) MUST_CHECK;
/* Hand over each further piece, and the same ones when it is asked again; the last one may be empty.  After a failure
 * ctl_files_where() is err.where. */
typedef int ctl_piece_fn(void *arg, const json_t *documents, bool more, struct err *err);
int ctl_files_each(struct ctl_files *files, ctl_piece_fn *fn, void *arg, struct err *err) MUST_CHECK;
/* "/documents/3/inputSchema" to "weather.yaml:7:14"; false when `where` points to no document. */
bool ctl_files_where(const struct ctl_files *files, const char *where, char *ret, size_t size);
void ctl_files_free(struct ctl_files **files);

/* --- ctl_file.c: folders of documents */

/* Write the `document` of each row into its `file` below dir.  ERR_CONFLICT when one is there.  Nothing is seen of them
 * before ctl_folder_end() has said 0; whole false: nor then.  *f is NULL before the first. */
struct ctl_folder;
int ctl_folder_put(struct ctl_folder **f, const char *dir, const json_t *row, struct err *err) MUST_CHECK;
int ctl_folder_end(struct ctl_folder **f, bool whole, size_t *ret_files, struct err *err) MUST_CHECK;

/* --- ctl_file.c: values that are never words */

bool ctl_takes_secret(const struct command *cmd);
/* Put the member "value" in place of the option's file.  ERR_CANCELLED: Ctrl-C. */
int ctl_secret_read(struct ctl_line *line, struct err *err) MUST_CHECK;

/* --- ctl_report.c: how far an export has come, in a file: origin of the log -> next index */

struct ctl_cursor;
/* Put what the file says in place of its name.  *ret NULL: the command has none, or none was given. */
int ctl_cursor_read(struct ctl_line *line, struct ctl_cursor **ret, struct err *err) MUST_CHECK;
void ctl_cursor_free(struct ctl_cursor **c);

/* --- ctl_run.c: run a row; rows gets its lines of {"row":{...}} */

/* Where the rows of a stream go while they come, instead of to the end; rows NULL: to the end.  more: what follows the
 * documents of args, of which the last piece has not been read; or NULL. */
struct ctl_sink { void (*rows)(void *arg, const struct str *rows); void *arg; struct ctl_files *more; };
/* By the socket, by the owner of the store, or as its owner.  *ret_reached false: there was no way to run it.  sink
 * NULL: all rows are kept. */
int ctl_run(const struct ctl_opt *opt, const struct command *cmd, const json_t *args, const struct ctl_sink *sink,
	    struct str *rows, bool *ret_reached, struct err *err) MUST_CHECK;

/* While ctl_run() waits, call this from time to time, and when something can be read from fd, which may be -1; fn NULL:
 * no more.  false: it is to end, with ERR_CANCELLED. */
#define CTL_TICK_MS 200
void ctl_on_tick(int fd, bool (*fn)(void *arg), void *arg);

/* The signal that has interrupted a row with cancel(), which has been cancelled then; or 0. */
int ctl_interrupted(void);

/* The store's directory, absolute, as the options say or by default; free() it. */
int ctl_store(const struct ctl_opt *opt, char **ret, struct err *err) MUST_CHECK;
int ctl_store_check(const char *store, struct err *err) MUST_CHECK;     /* is there one? */
/* The texts of an array, borrowed, and NULL behind them; free() the list. */
const char **ctl_texts(const json_t *list);

struct tls;
struct ctl_wire {
	int fd;
	struct tls *tls;                /* NULL: plain */
	bool heard;                     /* anything at all */
	bool patient;                   /* it may be silent for as long as nothing happens */
	uint32_t wait_ms;               /* for a piece of the answer; 0: as long as a tool may run */
};
int ctl_remote_connect(const char *path, int *ret_fd, struct err *err) MUST_CHECK;
/* One command over a connected socket, which is closed. */
int ctl_remote_run(struct ctl_wire *w, const struct command *cmd, const json_t *args,
			     const struct ctl_sink *sink, struct str *rows, struct err *err) MUST_CHECK;

/* --- ctl_local.c */

/* Rows that run in this program (ADM_ON_CTL); *ret_text: rows is text for people. */
int ctl_local_run(const struct ctl_line *line, struct str *rows, bool *ret_text, struct err *err) MUST_CHECK;

/* --- ctl_call.c: rows that run a tool, which can be cancelled */

/* As ctl_run(), of a row with cancel(): progress and questions go to the terminal. */
int ctl_call_run(const struct ctl_line *line, struct str *rows, bool *ret_reached, struct err *err) MUST_CHECK;

/* --- ctl_top.c: a picture that is drawn again with each sample */

int ctl_top_run(struct ctl_line *line, bool *ret_reached, struct err *err) MUST_CHECK;

/* --- ctl_print.c: the file of ADM_FILE */

struct ctl_save;
/* Make it.  ERR_CONFLICT: it exists. */
int ctl_save_new(const struct ctl_line *line, struct ctl_save **ret, struct err *err) MUST_CHECK;
void ctl_save_feed(void *save, const struct str *rows);         /* as rows() of a struct ctl_sink */
/* whole: all of it was sent; then it is durable, and *ret the row that says what it is.  Else, and after a failure, it
 * is removed. */
int ctl_save_end(struct ctl_save **s, bool whole, struct str *ret, struct err *err) MUST_CHECK;

/* --- what is printed, and where */

struct ctl_print {
	const struct command *cmd;
	bool json, quiet;
	bool colour, utf8, tty;         /* of out */
	size_t width;                   /* cells of its lines; 0: no terminal, everything in full */
	const char *output;             /* folder for documents, or NULL */
	enum ctl_format format;
	struct ctl_cursor *cursor;      /* of an export, or NULL */
	const struct ctl_files *files;  /* to name places in documents; may be NULL */
	FILE *out, *err;
};

/* --- ctl_table.c: values and rows of them */

#define CTL_BOLD "\x1b[1m"
#define CTL_PLAIN "\x1b[0m"
#define CTL_RED "\x1b[31m"
#define CTL_GREEN "\x1b[32m"
#define CTL_YELLOW "\x1b[33m"
size_t ctl_width(const char *p, size_t len);    /* cells of a terminal; the text is printable */
/* The length of what of *rest stands in a line of so many cells, broken at a blank where there is one; *rest goes
 * behind it, at the end of the text when nothing is left. */
size_t ctl_wrap(const char **rest, size_t cells);
/* A copy without control characters, or a value as one line without them; free() it. */
char *ctl_printable(const char *p, size_t len);
char *ctl_cell(const json_t *value, enum command_column_type type);
bool ctl_is_time(const json_t *value);          /* RFC 3339, as records have it */
void ctl_write_json(const json_t *value, FILE *f);

/* How a value stands in a column (numbers to the right), and the colour of a state, or NULL.  text: as ctl_cell(). */
enum ctl_align { CTL_NEITHER, CTL_TEXT, CTL_NUMBER, CTL_TIME, CTL_NESTED };     /* nested: objects in it */
struct ctl_value { char *text; enum ctl_align align; const char *colour; };
struct ctl_value ctl_value_of(const json_t *row, const char *member, enum command_column_type type);

struct ctl_column { const char *title; bool id; };      /* id: what names the row; cut last */
struct ctl_table;
/* p and cols borrowed until the table is freed; n > 0 */
struct ctl_table *ctl_table_new(const struct ctl_print *p, const struct ctl_column *cols, size_t n);
/* One cell of each column; taken, with their texts. */
void ctl_table_add(struct ctl_table *t, struct ctl_value *cells);
/* Print the titles, once, and the rows, and forget them; columns stay as wide as they were. */
void ctl_table_flush(struct ctl_table *t, FILE *out);
void ctl_table_free(struct ctl_table **t);

/* Rows for programs: one document, CSV, or an object for each line.  head: {"header":{...},"columns":[...]} as the
 * answer of a report begins, of a list without the header; borrowed.  --json is CTL_JSONL without head. */
struct ctl_rows {
	enum ctl_format format;
	const json_t *head;
	FILE *out;
	size_t n;
	const json_t *next;             /* before the end: the cursor of what follows; or NULL */
};
void ctl_rows_begin(struct ctl_rows *w);
void ctl_rows_add(struct ctl_rows *w, const json_t *row);
void ctl_rows_end(struct ctl_rows *w);  /* not when there was no head */

/* --- ctl_print.c: text for people and programs */

/* Print lines of {"row":{...}}.  Returns the exit status that the rows ask for. */
enum ctl_exit ctl_print_rows(const struct ctl_print *p, const struct str *rows);
/* The same of rows that have no header (see below). */
enum ctl_exit ctl_print_items(const struct ctl_print *p, const struct str *rows);
/* ctl_report.c: rows with a header, or documents, as they come.  whole: all of them did. */
struct ctl_report;
struct ctl_report *ctl_report_new(const struct ctl_print *p);
void ctl_report_feed(struct ctl_report *r, const struct str *rows);
enum ctl_exit ctl_report_end(struct ctl_report **r, bool whole);
/* "toolcrib: …" and perhaps a hint line; where = file:line:column or "". */
void ctl_print_error(FILE *f, bool colour, const char *where, const struct err *err);

/* ctl_diff.c: a change of ADM_DIFF, each line behind the indent. */
void ctl_print_change(const struct ctl_print *p, const json_t *change, const char *indent);

#endif
