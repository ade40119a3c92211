/* The program toolcrib: options, one command, its answer and the exit status. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/app.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/served.h"
#include "json/json.h"
#include "json/reply.h"

#include "ctl_int.h"

/* --- what is behind a stream */

#define COLUMNS_DEFAULT 80              /* of a terminal that does not say */
#define COLUMNS_MIN 20                  /* it is taken for at least so wide, and for at most */
#define COLUMNS_MAX 4096

static size_t columns_of(int fd)
{
	const char *text = getenv("COLUMNS");
	struct winsize w = { 0 };
	uint64_t n = 0;

	if (!text || text_u64(text, strlen(text), &n) < 0 || n == 0) {
		(void)ioctl(fd, TIOCGWINSZ, &w);
		n = w.ws_col ? w.ws_col : COLUMNS_DEFAULT;
	}
	return n < COLUMNS_MIN ? COLUMNS_MIN : n > COLUMNS_MAX ? COLUMNS_MAX : (size_t)n;
}

static bool wants_colour(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

static bool is_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < NELEMS(names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strstr(value, "UTF-8") || strstr(value, "utf8");
	}
	return false;
}

/* --- errors */

static void complain_at(const char *place, const struct err *err)
{
	log_said(err->msg);     /* by a command without a server, in this process */
	log_release();
	ctl_print_error(stderr, wants_colour(STDERR_FILENO), place, err);
}

static void complain(const struct ctl_files *files, const struct err *err)
{
	char place[512];

	complain_at(ctl_files_where(files, err->where, place, sizeof(place)) ? place : "", err);
}

static enum ctl_exit usage_error(const struct ctl_line *line, const struct err *err)
{
	struct str text = STR_INIT;

	complain(NULL, err);
	if (line->cmd) {
		ctl_usage(line->cmd, &text);
		fprintf(stderr, "usage: %s\n", str_text(&text));
	} else if (!err->hint[0]) {
		fputs("usage: toolcrib [OPTION...] COMMAND ...; toolcrib --help lists the commands\n", stderr);
	}
	str_fini(&text);
	return CTL_USAGE;
}

/* The exit status of an error: what never got as far as a command is a road that is closed. */
static enum ctl_exit status_of(const struct err *err, bool reached, bool partly)
{
	if (ctl_interrupted())
		return (enum ctl_exit)(CTL_SIGNAL + ctl_interrupted());
	if (partly)
		return CTL_PARTLY;
	if (!reached || err->code == ERR_UNREACHABLE || err->code == ERR_TIMEOUT || err->code == ERR_IO ||
	    err->code == ERR_CORRUPT)
		return CTL_UNREACHABLE;
	return CTL_FAILED;
}

/* --- progress: a line on the terminal for what takes longer than a second, gone before anything else is said */

#define PROGRESS_FIRST_US 1000000
#define PROGRESS_NEXT_US 200000
#define ERASE_LINE "\r\x1b[K"

struct progress {
	const struct ctl_sink *sink;            /* where the parts of an answer go, or NULL */
	const struct command *cmd;
	const char *file;                       /* that the command writes here, or NULL */
	uint64_t begun_us, drawn_us;            /* drawn 0: not yet */
	uint64_t rows, bytes;                   /* that have come */
};

static void draw_progress(const struct progress *g, uint64_t now_us)
{
	struct str text = STR_INIT;
	struct stat st = { 0 };
	uint64_t bytes = g->file && stat(g->file, &st) == 0 ? (uint64_t)st.st_size : g->bytes;

	ctl_command_name(g->cmd, &text);
	str_printf(&text, ": %" PRIu64 " s", (now_us - g->begun_us) / 1000000);
	if (g->rows > 0)
		str_printf(&text, ", %" PRIu64 " record%s", g->rows, g->rows == 1 ? "" : "s");
	if (bytes > 0)
		str_printf(&text, ", %.1f MiB", (double)bytes / (1 << 20));
	fprintf(stderr, ERASE_LINE "%.*s", (int)(columns_of(STDERR_FILENO) - 1), str_text(&text));
	fflush(stderr);
	str_fini(&text);
}

static bool progress_tick(void *arg)
{
	struct progress *g = arg;
	uint64_t now_us = clock_mono_us();

	if (now_us - g->begun_us < PROGRESS_FIRST_US || now_us - g->drawn_us < PROGRESS_NEXT_US)
		return true;
	draw_progress(g, now_us);
	g->drawn_us = now_us;
	return true;
}

/* Commands that run a tool have theirs (ctl_call.c), and what goes to the screen as it comes needs none. */
static bool wants_progress(const struct ctl_line *line)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0) && !line->opt.quiet && !line->cmd->cancel &&
	       !(line->cmd->stream && line->cmd->shape != ADM_FILE && isatty(STDOUT_FILENO));
}

static void count(void *arg, const struct str *rows)
{
	struct progress *g = arg;

	for (const char *p = str_text(rows); (p = strstr(p, "{\"row\":")); p++)
		g->rows += p == str_text(rows) || p[-1] == '\n';
	g->bytes += rows->len;
	if (g->drawn_us)
		fputs(ERASE_LINE, stderr);
	g->sink->rows(g->sink->arg, rows);
	fflush(stdout);
	(void)progress_tick(g);
}

/* ctl_run() of the line's command. */
static int run_shown(const struct ctl_line *line, const json_t *args, const struct ctl_sink *sink, struct str *rows,
		     bool *ret_reached, struct err *err)
{
	struct progress g = { .sink = sink, .cmd = line->cmd, .begun_us = clock_mono_us() };
	struct ctl_sink counted = sink ? *sink : (struct ctl_sink){ .rows = NULL };
	int rc;

	if (!wants_progress(line))
		return ctl_run(&line->opt, line->cmd, args, sink, rows, ret_reached, err);
	if (counted.rows) {
		counted.rows = count;
		counted.arg = &g;
	}
	for (const struct command_arg *arg = line->cmd->args; arg && arg->name; arg++)
		if (arg->type == ARG_PATH_NEW && arg->required && !line->opt.remote)
			g.file = json_string_value(json_object_get(args, arg->name));
	ctl_on_tick(-1, progress_tick, &g);
	rc = ctl_run(&line->opt, line->cmd, args, sink ? &counted : NULL, rows, ret_reached, err);
	ctl_on_tick(-1, NULL, NULL);
	if (g.drawn_us)
		fputs(ERASE_LINE, stderr);
	return rc;
}

/* --- the question before a change that cannot be undone */

static void put_count(const json_t *row, const char *member, const char *one, struct str *out)
{
	json_int_t n = json_integer_value(json_object_get(row, member));

	if (n > 0)
		str_printf(out, "%s%lld %s%s", out->len ? " and " : " with ", (long long)n, one,
			   n == 1 ? "" : "s");
}

static void put_question(const struct ctl_line *line, const json_t *row, struct str *out)
{
	struct str counts = STR_INIT;
	const char *verb = line->cmd->verb;

	if (!verb) {            /* what it does has just been shown */
		str_puts(out, "Do this? [y/N] ");
		return;
	}
	str_printf(out, "%c%s %s", verb[0] - 'a' + 'A', verb + 1, line->cmd->noun);
	for (const struct command_arg *arg = line->cmd->args; arg && arg->name; arg++) {
		const json_t *value = json_object_get(line->args, arg->name);
		char *cell;

		if (arg->option || !value)
			continue;
		cell = ctl_cell(value, COL_PLAIN);
		str_printf(out, " %s", cell);
		free(cell);
	}
	put_count(row, "keys", "key", &counts);
	put_count(row, "grants", "grant", &counts);
	str_printf(out, "%s? [y/N] ", str_text(&counts));
	str_fini(&counts);
}

/* new reference, or NULL */
static json_t *first_row(const struct str *rows)
{
	const char *nl = strchr(str_text(rows), '\n');
	json_t *root = NULL, *row = NULL;

	if (nl && jx_parse(rows->p, (size_t)(nl - rows->p), &root, NULL) == 0)
		row = json_incref(json_object_get(root, "row"));
	json_decref(root);
	return row;
}

/* What the object looks like, by "NOUN show" when there is such a row for the same words: 0, and *ret_row may stay
 * NULL; an error when the object is not there. */
static int look_first(const struct ctl_line *line, json_t **ret_row, bool *ret_reached, struct err *err)
{
	const struct command *show = command_find(app_commands, line->cmd->noun, "show");
	const char *name = line->cmd->args[0].name;
	json_t *value = json_object_get(line->args, name), *args, *root = NULL;
	struct str rows = STR_INIT;
	int rc;

	if (!show || !show->args || strcmp(show->args[0].name, name) != 0 || json_array_size(value) > 1)
		return 0;
	args = json_object();
	(void)json_object_set(args, name, json_is_array(value) ? json_array_get(value, 0) : value);
	rc = ctl_run(&line->opt, show, args, NULL, &rows, ret_reached, err);
	if (rc == 0)
		root = first_row(&rows);
	*ret_row = root;
	json_decref(args);
	str_fini(&rows);
	return rc;
}

static bool ask(const struct ctl_line *line, const json_t *row)
{
	struct str question = STR_INIT;
	char answer[16];

	put_question(line, row, &question);
	fputs(str_text(&question), stderr);
	fflush(stderr);
	str_fini(&question);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static struct ctl_print printer(const struct ctl_line *line, const struct ctl_files *files)
{
	return (struct ctl_print){
		.cmd = line->cmd, .json = line->opt.json, .quiet = line->opt.quiet, .files = files,
		.output = json_string_value(json_object_get(line->args, "output")),
		.format = line->format, .width = isatty(STDOUT_FILENO) ? columns_of(STDOUT_FILENO) : 0, .utf8 = is_utf8(),
		.colour = wants_colour(STDOUT_FILENO), .tty = isatty(STDOUT_FILENO), .out = stdout, .err = stderr,
	};
}

static enum ctl_exit print_answer(const struct ctl_line *line, const struct ctl_files *files, const struct str *rows)
{
	struct ctl_print p = printer(line, files);

	return ctl_print_rows(&p, rows);
}

/* What would be done, by the command itself. */
static enum ctl_exit rehearse(const struct ctl_line *line, const struct ctl_sink *sink, const struct ctl_files *files)
{
	json_t *args = json_copy(line->args);
	struct str rows = STR_INIT;
	struct err err = { 0 };
	bool reached = false;
	enum ctl_exit status = CTL_DONE;

	(void)json_object_set_new(args, "dry-run", json_true());
	if (run_shown(line, args, sink, &rows, &reached, &err) < 0) {
		complain(files, &err);
		status = status_of(&err, reached, false);
	} else {
		(void)print_answer(line, files, &rows);
		fflush(stdout);
	}
	json_decref(args);
	str_fini(&rows);
	return status;
}

static bool is_destructive(const struct ctl_line *line)
{
	return !json_object_get(line->args, "dry-run") && (line->cmd->destructive ||
	       (line->cmd->destructive_with && json_object_get(line->args, line->cmd->destructive_with)));
}

/* CTL_DONE: go on. */
static enum ctl_exit confirm(const struct ctl_line *line, const struct ctl_sink *sink, const struct ctl_files *files)
{
	enum ctl_exit status = CTL_DONE;
	json_t *row = NULL;
	struct err err = { 0 };
	bool reached = false, yes;

	if (!is_destructive(line) || line->opt.yes)
		return CTL_DONE;
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
		(void)err_set(&err, ERR_INVALID, "", "%s %s%s cannot ask without a terminal: say --yes",
			      line->cmd->noun,
			      line->cmd->verb ? "" : "--", line->cmd->verb ? line->cmd->verb
				: line->cmd->destructive_with);
		return usage_error(line, &err);
	}
	if (line->cmd->destructive_with) {
		status = rehearse(line, sink, files);
	} else if (look_first(line, &row, &reached, &err) < 0) {
		complain(NULL, &err);
		status = status_of(&err, reached, false);
	}
	if (status != CTL_DONE)
		return status;
	yes = ask(line, row);
	json_decref(row);
	if (!yes)
		fprintf(stderr, "Nothing was done.\n");
	return yes ? CTL_DONE : CTL_FAILED;
}

/* --- one command */

static enum ctl_exit run_local(const struct ctl_line *line)
{
	struct str rows = STR_INIT;
	struct err err = { 0 };
	bool text = false;
	enum ctl_exit status = CTL_DONE;

	if (ctl_local_run(line, &rows, &text, &err) < 0) {
		complain(NULL, &err);
		status = status_of(&err, true, false);
	} else if (text)
		fputs(str_text(&rows), stdout);
	else
		status = print_answer(line, NULL, &rows);
	str_fini(&rows);
	return status;
}

/* Is there a next step? */
static bool goes_on(const struct ctl_line *line, const struct str *rows)
{
	json_t *row = line->cmd->stepwise ? first_row(rows) : NULL;
	bool more = json_integer_value(json_object_get(row, "left")) > 0;

	json_decref(row);
	return more;
}

static enum ctl_exit run_step(const struct ctl_line *line, const struct ctl_sink *sink, const struct ctl_files *files,
			      bool *ret_more)
{
	struct str rows = STR_INIT;
	struct err err = { 0 };
	bool reached = false;
	int rc = line->cmd->cancel ? ctl_call_run(line, &rows, &reached, &err)
				   : run_shown(line, line->args, sink, &rows, &reached, &err);
	enum ctl_exit status;

	rc = rc == 0 && line->cmd->here && !line->opt.remote ? line->cmd->here(line->args, &rows, &err) : rc;
	status = rc == 0 || rows.len > 0 ? print_answer(line, files, &rows) : CTL_DONE;

	if (rc < 0) {
		complain(files, &err);
		status = status_of(&err, reached, rows.len > 0);
	} else if (ctl_interrupted()) {
		status = (enum ctl_exit)(CTL_SIGNAL + ctl_interrupted());
	}
	*ret_more = rc == 0 && goes_on(line, &rows);
	str_fini(&rows);
	return status;
}

static enum ctl_exit run_command(const struct ctl_line *line, const struct ctl_sink *sink,
				 const struct ctl_files *files)
{
	enum ctl_exit status;
	bool more;

	do {
		status = run_step(line, sink, files, &more);
	} while (more && status == CTL_DONE);
	return status;
}

static void feed(void *arg, const struct str *rows)
{
	ctl_report_feed(arg, rows);
}

/* A command that answers in parts: each is printed as it comes. */
static enum ctl_exit run_stream(struct ctl_line *line)
{
	struct ctl_print p = printer(line, NULL);
	struct ctl_report *report;
	struct ctl_sink sink = { .rows = feed };
	struct str rows = STR_INIT;
	struct err err = { 0 };
	bool reached = false;
	enum ctl_exit status, failed = CTL_DONE;

	if (ctl_cursor_read(line, &p.cursor, &err) < 0) {
		complain(NULL, &err);
		return CTL_FAILED;
	}
	report = ctl_report_new(&p);
	sink.arg = report;
	if (run_shown(line, line->args, &sink, &rows, &reached, &err) < 0) {
		complain(NULL, &err);
		failed = status_of(&err, reached, strcmp(err.where, REPLY_ABSENT) == 0);
	} else {
		ctl_report_feed(report, &rows);
	}
	status = ctl_report_end(&report, failed == CTL_DONE);
	ctl_cursor_free(&p.cursor);
	str_fini(&rows);
	return failed != CTL_DONE ? failed : status;
}

static enum ctl_exit run_screen(struct ctl_line *line)
{
	struct err err = { 0 };
	bool reached = false;

	if (ctl_top_run(line, &reached, &err) == 0)
		return CTL_DONE;
	complain(NULL, &err);
	return status_of(&err, reached, false);
}

/* A command that sends a file. */
static enum ctl_exit run_save(const struct ctl_line *line)
{
	struct ctl_sink sink = { .rows = ctl_save_feed };
	struct ctl_save *save = NULL;
	struct str rows = STR_INIT, last = STR_INIT;
	struct err err = { 0 }, failure = { 0 };
	enum ctl_exit status = CTL_DONE;
	bool reached = false;
	int rc = ctl_save_new(line, &save, &err);

	if (rc < 0) {
		complain(NULL, &err);
		return CTL_FAILED;
	}
	sink.arg = save;
	rc = run_shown(line, line->args, &sink, &rows, &reached, &err);
	if (rc == 0)
		ctl_save_feed(save, &rows);
	else
		status = status_of(&err, reached, false);
	if (ctl_save_end(&save, rc == 0, &last, &failure) < 0) {
		err = failure;
		status = CTL_FAILED;
	}
	if (status != CTL_DONE)
		complain(NULL, &err);
	else
		status = print_answer(line, NULL, &last);
	str_fini(&rows);
	str_fini(&last);
	return status;
}

static enum ctl_exit run_whole(struct ctl_line *line)
{
	struct ctl_files *files = NULL;
	struct ctl_sink sink = { .rows = NULL };
	struct err err = { 0 };
	enum ctl_exit status;
	bool more = false;

	if (line->files) {      /* all documents, or the first piece where any number may come */
		json_t *documents = json_array();

		(void)json_object_set_new(line->args, "documents", documents);
		if (ctl_files_load(line->files, line->cmd, documents, &files, &more, &err) < 0) {
			complain_at(err.where, &err);
			return CTL_FAILED;
		}
	}
	sink.more = more ? files : NULL;
	if (ctl_takes_secret(line->cmd) && ctl_secret_read(line, &err) < 0) {
		complain(NULL, &err);
		return CTL_FAILED;
	}
	status = confirm(line, &sink, files);
	if (status == CTL_DONE)
		status = run_command(line, &sink, files);
	ctl_files_free(&files);
	return status;
}

static enum ctl_exit run_line(struct ctl_line *line)
{
	struct ctl_cursor *cursor = NULL;
	struct err err = { 0 };

	if (line->cmd->where == ADM_ON_CTL)
		return run_local(line);
	if (line->cmd->shape == ADM_FILE)
		return run_save(line);
	if (line->cmd->shape == ADM_SCREEN)
		return run_screen(line);
	if (line->cmd->stream || line->cmd->where == ADM_ELSEWHERE)
		return run_stream(line);
	if (ctl_cursor_read(line, &cursor, &err) < 0) {
		complain(NULL, &err);
		return CTL_FAILED;
	}
	ctl_cursor_free(&cursor);
	log_hold();     /* what goes wrong in this process is told by complain() */
	return run_whole(line);
}

static enum ctl_exit show_help(const struct ctl_line *line, const char *noun)
{
	struct str text = STR_INIT;

	if (line->opt.version)
		served_version("toolcrib", &text);
	else if (line->cmd)
		ctl_help_command(line->cmd, &text);
	else if (noun)
		ctl_help_noun(app_commands, noun, &text);
	else
		ctl_help_all(app_commands, &text);
	fputs(str_text(&text), stdout);
	str_fini(&text);
	return CTL_DONE;
}

/* A full disk or a closed pipe behind standard output must not look like success. */
static enum ctl_exit finish_output(enum ctl_exit status)
{
	struct err err;

	log_release();
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (errno != EPIPE) {
		(void)err_set(&err, ERR_IO, "", "cannot write the answer: %s", strerror(errno));
		complain(NULL, &err);
	}
	return status == CTL_DONE ? CTL_FAILED : status;
}

int main(int argc, char **argv)
{
	struct ctl_line line;
	struct err err = { 0 };
	const char *noun = NULL;
	enum ctl_exit status;

	log_open(STDERR_FILENO, LOG_FORMAT_TEXT, LOG_LEVEL_WARN);
	if (secret_init() < 0) {
		fputs("toolcrib: cannot start libsodium\n", stderr);
		return CTL_FAILED;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (ctl_args_parse(app_commands, argc, argv, &line, &noun, &err) < 0)
		status = usage_error(&line, &err);
	else if (line.opt.help || line.opt.version)
		status = show_help(&line, noun);
	else
		status = run_line(&line);
	ctl_line_fini(&line);
	return finish_output(status);
}
