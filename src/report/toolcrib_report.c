/* toolcrib-report, a process of the server that answers one report (SCALE D4): it gets its question, confines itself
 * around the store that it opens, answers, and ends.  What it has left when the first row is read: descriptors of the
 * store for reading, its log's index, a directory for files without a name, and the sealed files of the store for
 * reading.  No other file is opened, no socket, no program, no process, no signal (SCALE SC-502); it has no key
 * (SC-503), and ends with the server.
 *
 * Rows leave when no statement is open: who reads slowly makes it wait, and holds no transaction (SC-505). */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/sanitized.h"
#include "base/served.h"
#include "base/text.h"
#include "db/owner.h"
#include "db/server.h"
#include "forms/forms.h"
#include "json/json.h"
#include "report/question.h"
#include "sandbox/filter.h"
#include "sandbox/level.h"

#include "report_int.h"

#define OUT STDIN_FILENO                /* the one socket, both ways */
#define FILES_MAX 96                    /* of these, sealed files: FORMS_FILES twice */
#define FOLLOW_NS 250000000             /* until what follows looks again */
#define SEEN_MAX 256                    /* logs between two frames; further ones are those of number 0 */

struct seen { int64_t tenant_id, from, to; uint64_t rows; };

struct serve {
	struct report_ask ask;
	struct report_bounds bounds;
	struct db *db;
	struct reply reply;             /* since the last frame */
	struct seen seen[SEEN_MAX];
	size_t nseen;
	int held;                       /* a file without a name: what was said while a statement was open; -1: none yet */
	uint64_t held_bytes;
	struct forms_absent absent;     /* sealed files that the answer was made without */
};

/* --- frames */

static int gone(struct err *err)
{
	return err_set(err, ERR_CANCELLED, "", "nobody listens");
}

static int write_all(const void *p, size_t len, struct err *err)
{
	const char *at = p;

	while (len > 0) {
		ssize_t n = write(OUT, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return gone(err);
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int put_frame(enum report_frame what, const void *p, size_t len, struct err *err)
{
	const unsigned char head[REPORT_FRAME_HEAD] = { (unsigned char)(len >> 24), (unsigned char)(len >> 16),
							(unsigned char)(len >> 8), (unsigned char)len, (unsigned char)what };
	int rc = write_all(head, sizeof(head), err);

	return rc < 0 ? rc : write_all(p, len, err);
}

/* Of whole lines, unless one is longer. */
static size_t frame_of(const char *p, size_t len)
{
	const char *nl = len > REPORT_FRAME_MAX ? memrchr(p, '\n', REPORT_FRAME_MAX) : NULL;

	return nl ? (size_t)(nl - p) + 1 : len < REPORT_FRAME_MAX ? len : REPORT_FRAME_MAX;
}

static int put_rows(const char *p, size_t len, struct err *err)
{
	int rc = 0;

	while (rc == 0 && len > 0) {
		const size_t n = frame_of(p, len);

		rc = put_frame(REPORT_SAYS_ROWS, p, n, err);
		p += n;
		len -= n;
	}
	return rc;
}

/* Before the rows that it speaks of: what has left is known to the server, however this process ends. */
static int put_seen(struct serve *s, struct err *err)
{
	struct str out = STR_INIT;
	int rc = 0;

	for (size_t i = 0; i < s->nseen; i++)
		str_printf(&out, "%s[%lld,%lld,%lld,%llu]", i ? "," : "[", (long long)s->seen[i].tenant_id,
			   (long long)s->seen[i].from, (long long)s->seen[i].to, (unsigned long long)s->seen[i].rows);
	str_putc(&out, ']');
	if (s->nseen > 0)
		rc = put_frame(REPORT_SAYS_SEEN, out.p, out.len, err);
	s->nseen = 0;
	str_fini(&out);
	return rc;
}

static void see(void *arg, int64_t tenant_id, int64_t idx)
{
	struct serve *s = arg;
	struct seen *at;
	size_t i = s->nseen;

	while (i > 0 && s->seen[i - 1].tenant_id != tenant_id)
		i--;
	if (i == 0 && s->nseen == SEEN_MAX) {   /* as command_seen(): the system's log speaks for the rest */
		see(arg, 0, -1);
		return;
	}
	if (i == 0) {
		s->seen[s->nseen++] = (struct seen){ .tenant_id = tenant_id };
		i = s->nseen;
	}
	at = &s->seen[i - 1];
	if (idx < 0)
		return;
	at->rows++;
	at->from = at->to == 0 || idx < at->from ? idx : at->from;
	if (idx >= at->to)
		at->to = idx + 1;
}

/* Of a log that see() knows. */
static void look_over(void *arg, int64_t tenant_id, int64_t from, int64_t to)
{
	struct serve *s = arg;

	for (size_t i = 0; from < to && i < s->nseen; i++) {
		struct seen *at = &s->seen[i];

		if (at->tenant_id != tenant_id)
			continue;
		at->from = at->to == 0 || from < at->from ? from : at->from;
		at->to = to > at->to ? to : at->to;
	}
}

/* --- what is said while a statement is open */

static int store(const struct serve *s, const char *p, size_t len, struct err *err)
{
	while (len > 0) {
		ssize_t n = write(s->held, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return errno == EFBIG ? ERR_LIMIT : err_set(err, ERR_IO, "scratch", "%s", strerror(errno));
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* In words of the configuration, whichever limit it was. */
static int too_much(const struct serve *s, const char *key, uint64_t bytes, struct err *err)
{
	(void)s;
	(void)err_set(err, ERR_LIMIT, "", "the report needs more than %s (%llu MiB)", key, (unsigned long long)(bytes >> 20));
	err_hint(err, "--since, --until and --tenant make it smaller");
	return ERR_LIMIT;
}

#define TEMP "admin.report_temp"
#define MEMORY "admin.report_memory"

static int hold(void *arg, struct err *err)
{
	struct serve *s = arg;
	int rc;

	if (s->held < 0)
		s->held = path_nameless(s->bounds.scratch);
	if (s->held < 0)
		return err_set(err, ERR_IO, "scratch", "%s: %s", s->bounds.scratch, strerror(errno));
	rc = store(s, s->reply.text.p, s->reply.text.len, err);
	if (rc == ERR_LIMIT)
		return too_much(s, TEMP, s->bounds.temp, err);
	s->held_bytes += s->reply.text.len;
	str_reset(&s->reply.text);
	return rc;
}

static int put_held(struct serve *s, struct err *err)
{
	char *buf = mem_alloc(REPORT_FRAME_MAX);
	uint64_t at = 0;
	int rc = 0;

	while (rc == 0 && at < s->held_bytes) {
		ssize_t n = pread(s->held, buf, REPORT_FRAME_MAX, (off_t)at);

		if (n <= 0)
			rc = err_set(err, ERR_IO, "scratch", "%s", n < 0 ? strerror(errno) : "it ends too early");
		else
			rc = put_rows(buf, (size_t)n, err);
		at += n > 0 ? (uint64_t)n : 0;
	}
	free(buf);
	s->held_bytes = 0;
	if (rc == 0 && s->held >= 0 && (ftruncate(s->held, 0) || lseek(s->held, 0, SEEK_SET)))
		rc = err_set(err, ERR_IO, "scratch", "%s", strerror(errno));
	return rc;
}

/* All that was said so far leaves. */
static int part(void *arg, struct err *err)
{
	struct serve *s = arg;
	int rc = put_seen(s, err);

	if (rc == 0 && s->held_bytes > 0)
		rc = put_held(s, err);
	if (rc == 0)
		rc = put_rows(s->reply.text.p, s->reply.text.len, err);
	str_reset(&s->reply.text);
	if (rc == 0)
		rc = forms_see_without(s->db, &s->absent, err); /* the first blocks may have come meanwhile (decision 0054) */
	return rc;
}

static int say_end(const struct serve *s, const char *how, bool findings, const struct err *failed)
{
	json_t *end = json_pack("{s:s, s:b}", "how", how, "findings", findings);
	struct str out = STR_INIT;
	struct err err;
	int rc;

	if (failed)
		(void)json_object_update_new(end, json_pack("{s:s, s:s, s:s, s:s}", "code", err_name(failed->code), "where",
							    failed->where, "message", failed->msg, "hint", failed->hint));
	jx_write(end, &out);
	json_decref(end);
	rc = put_frame(REPORT_SAYS_END, out.p, out.len, &err);
	str_fini(&out);
	return rc;
}

/* SC-002: never fewer rows without a word. */
static int say_absent(const struct serve *s, struct err *err)
{
	const struct forms_absent *a = &s->absent;
	const char *name = a->v[0].name, *why = a->v[0].why;
	const int year = (int)(a->v[0].month / 100), month = (int)(a->v[0].month % 100);
	char more[64] = "";

	if (a->n > 1)
		(void)snprintf(more, sizeof(more), ", and those of %zu other archives", a->n - 1);
	if (*why)
		return err_set(err, ERR_UNREACHABLE, REPLY_ABSENT, "archive %s cannot be read (%s): rows of %04d-%02d%s are missing "
			       "from this answer", name, why, year, month, more);
	return err_set(err, ERR_UNREACHABLE, REPLY_ABSENT, "archive %s is not here: rows of %04d-%02d%s are missing from this "
		       "answer", name, year, month, more);
}

/* --- the answer */

static bool is_feed(const struct report_ask *ask)
{
	return strcmp(ask->report->verb, "tail") == 0 || strcmp(ask->report->verb, "export") == 0;
}

static int answer_feed(struct serve *s, struct report_out *out, struct err *err)
{
	struct report_feed *feed = report_feed_new(&s->ask);
	enum report_more more = REPORT_MORE_NOW;
	int rc = 0;

	while (rc == 0 && more != REPORT_NO_MORE) {
		rc = report_feed_part(feed, out, s->db, &more, err);
		if (rc == 0)
			rc = part(s, err);
		if (rc == 0 && more == REPORT_MORE_LATER)
			(void)nanosleep(&(struct timespec){ 0, FOLLOW_NS }, NULL);
	}
	report_feed_free(&feed);
	return rc;
}

/* Behind the rows, when there are more: {"end":{"rows":100,"next":"..."}} (SCALE SC-003). */
static void put_next(struct serve *s, const struct report_out *out)
{
	if (!out->more)
		return;
	str_printf(&s->reply.text, "{\"end\":{\"rows\":%zu,\"next\":", s->reply.rows);
	if (out->next)
		jx_write_stringz(&s->reply.text, out->next);
	else
		str_puts(&s->reply.text, "null");
	s->reply.any = true;
	if (out->looked_us)
		reply_time(&s->reply, "searched", out->looked_us);
	str_puts(&s->reply.text, "}}\n");
}

static int answer(struct serve *s)
{
	struct report_out out = { .reply = &s->reply, .seen = see, .looked = look_over, .part = part, .hold = hold, .arg = s };
	struct err err = { 0 };
	int rc = is_feed(&s->ask) ? answer_feed(s, &out, &err) : report_answer(&out, s->db, &s->ask, &err);

	if (rc == 0)
		put_next(s, &out);
	if (rc == 0)
		rc = part(s, &err);
	free(out.next);
	if (rc == 0 && s->absent.n > 0)
		rc = say_absent(s, &err);
	if (rc == ERR_CANCELLED)
		return SERVED_FAILED;
	if (rc == ERR_LIMIT && strstr(err.msg, "too much memory"))
		(void)too_much(s, MEMORY, s->bounds.memory, &err);
	if (rc == ERR_AUDIT)            /* SQLite's file for sorting: nothing else is written here */
		(void)too_much(s, TEMP, s->bounds.temp, &err);
	return say_end(s, rc < 0 ? "failed" : out.more ? "limit" : "done", out.findings, rc < 0 ? &err : NULL) == 0
		? SERVED_DONE : SERVED_FAILED;
}

/* --- confinement */

/* The store is opened by its name, so that SQLite has it as ever, while nothing else of its directory can be; then
 * nothing can. */
static int open_store(struct serve *s, struct err *err)
{
	char *file = path_join(s->ask.store, DB_FILE), *log = mem_printf("%s-wal", file), *index = mem_printf("%s-shm", file);
	char *sealed = path_join(s->ask.store, FORMS_FOLDER);
	const struct confine_place places[] = {
		{ file, PLACES_READ }, { log, PLACES_READ }, { index, PLACES_READ | PLACES_WRITE },
		{ s->bounds.scratch, PLACES_READ | PLACES_WRITE },
		{ *s->bounds.archive ? s->bounds.archive : s->bounds.scratch, PLACES_READ }, { sealed, PLACES_READ },
	};
	enum { KEPT = 3 };              /* of these, the last ones */
	const size_t absent = path_exists(sealed) ? 0 : 1;
	const unsigned abi = SANITIZED || COVERAGE ? 0 : s->bounds.landlock;
	int rc = db_serve_found(s->ask.store, err);
	const bool served = rc == 0 && db_is_served(s->ask.store);      /* by a server, reached before all is shut */

	if (rc == 0 && !served)
		rc = places_only(places, NELEMS(places) - absent, abi, err);
	if (rc == 0)
		rc = db_open_reporter(db_of_file(file), s->bounds.scratch, report_may_read, s->ask.report, &s->db, err);
	if (rc == 0)
		rc = forms_see_without(s->db, &s->absent, err);
	if (rc == 0 && !served)
		rc = forms_see_sums(s->db, &s->absent, err);
	if (rc == 0)
		rc = places_only(places + NELEMS(places) - KEPT, KEPT - absent, abi, err);
	free(sealed);
	free(file);
	free(log);
	free(index);
	return rc;
}

static int confine(struct serve *s, struct err *err)
{
	int rc;

	served_step_back(s->bounds.class);
	if (!served_bound(s->bounds.memory, s->bounds.temp))
		return err_set(err, ERR_IO, "limits", "%s", strerror(errno));
	rc = open_store(s, err);
	return rc == 0 ? filter_reader(0, err) : rc;
}

/* --- the question */

static bool read_all(void *p, size_t len)
{
	char *at = p;

	while (len > 0) {
		ssize_t n = read(OUT, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static int read_question(struct serve *s, struct err *err)
{
	unsigned char head[4];
	size_t len;
	char *text;
	int rc;

	if (!read_all(head, sizeof(head)))
		return gone(err);
	len = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
	if (len > REPORT_QUESTION_MAX)
		return err_set(err, ERR_LIMIT, "", "a question has at most %u bytes", REPORT_QUESTION_MAX);
	text = mem_alloc(len);
	rc = read_all(text, len) ? report_question_parse(text, len, &s->ask, &s->bounds, err) : gone(err);
	free(text);
	return rc;
}

static int serve(void)
{
	static struct serve s = { .held = -1 };
	struct err err = { 0 };
	int rc, status = SERVED_FAILED;

	if (!served_shut(FILES_MAX)) {
		fputs("toolcrib-report: it cannot be confined\n", stderr);
		return SERVED_FAILED;
	}
	rc = read_question(&s, &err);
	if (rc == 0)
		rc = confine(&s, &err);
	if (rc == 0)
		status = answer(&s);
	else if (rc != ERR_CANCELLED)
		(void)say_end(&s, "failed", false, &err);
	db_close(&s.db);
	str_fini(&s.reply.text);
	report_ask_fini(&s.ask);
	free((char *)(uintptr_t)s.bounds.scratch);
	free((char *)(uintptr_t)s.bounds.archive);
	return status;
}

int main(int argc, char **argv)
{
	static const struct served report = {
		.name = "toolcrib-report", .page = "toolcribd(8), Reporters", .serve = serve,
		.does = "Answers a report of the audit for toolcribd or toolcrib, which start it and speak to it over descriptor 0.",
	};

	return served_main(&report, argc, argv);
}
