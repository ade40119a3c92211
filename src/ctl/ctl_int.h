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

enum ctl_exit { CTL_DONE, CTL_FAILED, CTL_USAGE, CTL_UNREACHABLE, CTL_FINDINGS, CTL_PARTLY };  /* 0 to 5 */

/* --- ctl_args.c: words */

struct ctl_opt {                        /* options that every command has; texts borrowed from argv */
	const char *store, *socket;
	const char *remote, *ca, *key_file;
	bool json, quiet, yes, help, version;
};
struct ctl_global { const char *name, *value, *help; char letter; };
extern const struct ctl_global ctl_globals[];           /* ended by name NULL */

struct ctl_line {
	struct ctl_opt opt;
	const struct command *cmd;
	json_t *args;                   /* as command_run() takes them, without documents */
	json_t *files;                  /* paths of ARG_FILE words, or NULL */
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
void ctl_man_commands(const struct command *const *tables, struct str *out);    /* mdoc: the list in toolcrib(8) */
void ctl_complete_bash(const struct command *const *tables, struct str *out);

/* --- ctl_file.c: definition documents */

struct ctl_files;
/* Read all documents of the files ("-" = standard input) and append them to `documents`.  err.where is a place for
 * people, "weather.yaml:3:1", or "". */
int ctl_files_load(const json_t *paths, json_t *documents, struct ctl_files **ret, struct err *err) MUST_CHECK;
/* "/documents/3/inputSchema" to "weather.yaml:7:14"; false when `where` points to no document. */
bool ctl_files_where(const struct ctl_files *files, const char *where, char *ret, size_t size);
void ctl_files_free(struct ctl_files **files);

/* --- ctl_file.c: folders of documents */

/* Write the `document` of each row into its `file` below dir.  ERR_CONFLICT when one is there; nothing is written
 * then. */
int ctl_folder_write(const char *dir, const json_t *rows, size_t *ret_files, struct err *err) MUST_CHECK;

/* --- ctl_secret.c: values that are never words */

bool ctl_takes_secret(const struct command *cmd);
/* Put the member "value" in place of the option's file.  ERR_CANCELLED: Ctrl-C. */
int ctl_secret_read(struct ctl_line *line, struct err *err) MUST_CHECK;

/* --- ctl_report.c: how far an export has come, in a file: origin of the log -> next index */

struct ctl_cursor;
/* Put what the file says in place of its name.  *ret NULL: the command has none, or none was given. */
int ctl_cursor_read(struct ctl_line *line, struct ctl_cursor **ret, struct err *err) MUST_CHECK;
void ctl_cursor_free(struct ctl_cursor **c);

/* --- ctl_run.c: run a row; rows gets its lines of {"row":{...}} */

/* Where the rows of a stream go while they come, instead of to the end. */
struct ctl_sink { void (*rows)(void *arg, const struct str *rows); void *arg; };
/* By the socket, by the owner of the store, or as its owner.  *ret_reached false: there was no way to run it.  sink
 * NULL: all rows are kept. */
int ctl_run(const struct ctl_opt *opt, const struct command *cmd, const json_t *args, const struct ctl_sink *sink,
	    struct str *rows, bool *ret_reached, struct err *err) MUST_CHECK;

/* Rows that run in this program (ADM_ON_CTL); *ret_text: rows is text for people. */
int ctl_local_run(const struct ctl_line *line, struct str *rows, bool *ret_text, struct err *err) MUST_CHECK;

struct tls;
struct ctl_wire { int fd; struct tls *tls; bool heard; };       /* tls NULL: plain; heard: anything at all */
FOR_TESTS int ctl_remote_connect(const char *path, int *ret_fd, struct err *err) MUST_CHECK;
/* One command over a connected socket, which is closed. */
FOR_TESTS int ctl_remote_run(struct ctl_wire *w, const struct command *cmd, const json_t *args,
			     const struct ctl_sink *sink, struct str *rows, struct err *err) MUST_CHECK;

/* --- ctl_save.c: the file of ADM_FILE */

struct ctl_save;
/* Make it.  ERR_CONFLICT: it exists. */
int ctl_save_new(const struct ctl_line *line, struct ctl_save **ret, struct err *err) MUST_CHECK;
void ctl_save_feed(void *save, const struct str *rows);         /* as rows() of a struct ctl_sink */
/* whole: all of it was sent; then it is durable, and *ret the row that says what it is.  Else, and after a failure, it
 * is removed. */
int ctl_save_end(struct ctl_save **s, bool whole, struct str *ret, struct err *err) MUST_CHECK;

/* --- ctl_print.c: text for people and programs */

struct ctl_print {
	const struct command *cmd;
	bool json, quiet;
	bool colour, tty;               /* of out */
	const char *output;             /* folder for documents, or NULL */
	const char *format;             /* of a report, or NULL */
	struct ctl_cursor *cursor;      /* of an export, or NULL */
	const struct ctl_files *files;  /* to name places in documents; may be NULL */
	FILE *out, *err;
	json_t *documents;              /* rows of ADM_DOCUMENTS, while they are read */
};
/* Print lines of {"row":{...}}.  Returns the exit status that the rows ask for. */
enum ctl_exit ctl_print_rows(const struct ctl_print *p, const struct str *rows);
/* The same of rows that have no header (see below). */
enum ctl_exit ctl_print_items(const struct ctl_print *p, const struct str *rows);
/* ctl_report.c: rows with a header, as they come. */
struct ctl_report;
struct ctl_report *ctl_report_new(const struct ctl_print *p);
void ctl_report_feed(struct ctl_report *r, const struct str *rows);
enum ctl_exit ctl_report_end(struct ctl_report **r);
void ctl_write_json(const json_t *value, FILE *f);
/* "toolcrib: …" and perhaps a hint line; where = file:line:column or "". */
void ctl_print_error(FILE *f, bool colour, const char *where, const struct err *err);
/* A value as one line without control characters; free() it. */
char *ctl_cell(const json_t *value, enum command_column_type type);

/* ctl_diff.c: a change of ADM_DIFF, each line behind the indent. */
void ctl_print_change(const struct ctl_print *p, const json_t *change, const char *indent);

/* Aligned columns: add rows of ncols cells (taken), print, free. */
struct ctl_table;
enum ctl_align { CTL_NEITHER, CTL_TEXT, CTL_NUMBER };   /* a column of numbers stands to the right */
struct ctl_table *ctl_table_new(size_t ncols);
void ctl_table_add(struct ctl_table *t, char **cells, const enum ctl_align *align);
/* Print the rows and forget them; columns stay as wide as they were.  titles NULL: without them. */
void ctl_table_flush(struct ctl_table *t, const char *const *titles, bool colour, FILE *out);
void ctl_table_free(struct ctl_table **t);

#endif
