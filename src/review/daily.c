/* The daily verification, and `audit daily` (review/daily.h).  The process that reads is not believed: its lines are
 * bounded and strict (auditor/told.h), and whatever it does but say a sum is a failure, on record.  Loop thread; what
 * is to be durable in the folder the process writes itself. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/record.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "command/call.h"
#include "command/rows.h"
#include "ev/ev.h"
#include "ev/helper.h"
#include "notary/notary.h"
#include "review/daily.h"
#include "review/review.h"
#include "auditor/told.h"
#include "writer/writer.h"

#define DAY_S 86400
#define LOOK_US 30000000                /* between two looks at the clock, which may be set */
#define DAILY_NEVER UINT32_MAX
#define NAMED 3                         /* findings in the log, records and status */

/* One process. */
struct run {
	struct daily *daily;
	struct ev_helper *helper;
	int fd;
	struct ev_io *io;
	struct str in;                  /* a line, as far as it has come */
	struct told told;
	uint64_t begun_us, begun_wall_us;
	bool over;
};

struct daily {
	struct ev_loop *loop;
	struct writer *writer;
	char *store, *folder;
	uint32_t at_s;
	unsigned landlock;
	char *archive;
	struct ev_timer *timer;
	int64_t slot;                   /* of the last run that was begun by the clock, or need not be */
	bool started, stopped;
	struct run *run;                /* or NULL */
	struct told last;        /* ended: there is one */
	struct command_call *waiting[DAILY_WAITING_MAX];
	size_t nwaiting, nanswered;     /* of these, the first ones wait for the record of what has ended */
	size_t nrecords;                /* that are on their way; with them it stays */
	bool freed;
};

/* Of the times at which runs are due, the number of the last one at or before now; for comparing. */
static int64_t slot_of(uint64_t wall_us, uint32_t at_s)
{
	const int64_t s = (int64_t)(wall_us / 1000000) - (int64_t)at_s;

	return s >= 0 ? s / DAY_S : -1;
}

/* --- for people */

static void put_found(const struct told_found *f, struct str *out)
{
	str_printf(out, "%s %s", audit_finding_name(f->code), *f->log ? f->log : "-");
	if (f->from >= 0)
		str_printf(out, f->to == f->from ? " %" PRId64 : " %" PRId64 "-%" PRId64, f->from, f->to);
	str_printf(out, ": %s", f->detail);
}

/* What is bad comes first. */
static void put_first(const struct told *t, struct str *out)
{
	const uint64_t all = t->bad + t->gaps;
	size_t n = 0;

	for (int gap = 0; gap < 2; gap++) {
		for (size_t i = 0; i < t->nfound && n < NAMED; i++) {
			if (t->found[i].gap != (gap == 1))
				continue;
			str_puts(out, n++ ? "; " : "");
			put_found(&t->found[i], out);
		}
	}
	if (n > 0 && all > n)
		str_printf(out, "; and %" PRIu64 " more", all - n);
}

/* "3 bad, 0 gaps: ROOT …; 120 records were new, 4 read again, 996 not; mark kept by the server" */
static void put_told(const struct told *t, struct str *out)
{
	if (*t->message) {
		str_printf(out, "%s%s%s", t->message, *t->hint ? "; " : "", t->hint);
		return;
	}
	if (t->bad + t->gaps > 0) {
		str_printf(out, "%" PRIu64 " bad, %" PRIu64 " gaps: ", t->bad, t->gaps);
		put_first(t, out);
		str_puts(out, "; ");
	}
	str_printf(out, "%" PRIu64 " records were new, %" PRIu64 " read again, %" PRIu64 " not",
		   t->records > t->again ? t->records - t->again : 0, t->again, t->older > t->again ? t->older - t->again : 0);
	if (t->shut)
		str_printf(out, "; %" PRIu64 " kept values and names not opened", t->shut);
	str_puts(out, t->bad ? "; the mark stays what it was, kept by the server" : "; mark kept by the server");
}

void daily_describe(const struct daily *d, struct str *out)
{
	char at[40];

	if (d->run)
		str_printf(out, "runs since %.16sZ; ", clock_format_utc(d->run->begun_wall_us, at, sizeof(at)));
	if (d->last.ended) {
		str_printf(out, "%.16sZ %s, ", clock_format_utc(d->last.at_us, at, sizeof(at)),
			   told_result(&d->last));
		put_told(&d->last, out);
	} else {
		str_puts(out, "not yet");
	}
	if (d->at_s == DAILY_NEVER)
		str_puts(out, "; none by itself (audit.verify_at)");
	else
		str_printf(out, "; each day at %02u:%02u UTC", d->at_s / 3600, d->at_s / 60 % 60);
}

/* --- what came of it */

static void put_metrics(const struct told *t)
{
	if (!t->ended || *t->message)
		return;
	metric_set(METRIC_verify_time, t->at_us / 1000000);
	metric_set(METRIC_verify_findings, t->bad);
}

static void put_log(const struct told *t)
{
	struct str first = STR_INIT;

	put_first(t, &first);
	if (*t->message)
		log_err(NULL, "verification came to no end why=\"%s\" hint=\"%s\"", t->message, t->hint);
	else if (t->bad)
		log_err(NULL, "verification found damage bad=%" PRIu64 " gaps=%" PRIu64 " first=\"%s\"", t->bad, t->gaps,
			str_text(&first));
	else if (t->gaps)
		log_warn(NULL, "verification could not check all gaps=%" PRIu64 " first=\"%s\"", t->gaps, str_text(&first));
	else
		log_info(NULL, "verification found nothing records=%" PRIu64 " again=%" PRIu64, t->records, t->again);
	str_fini(&first);
}

static int status_of(const struct told *t)
{
	return *t->message ? 3 : t->bad ? ADM_STATUS_FINDINGS : t->gaps ? ADM_STATUS_GAPS : 0;
}

static void put_rows(const struct told *t, struct reply *o)
{
	struct str text = STR_INIT;

	for (size_t i = 0; i < t->nfound; i++) {
		const struct told_found *f = &t->found[i];

		reply_row_begin(o);
		reply_text(o, "finding", audit_finding_name(f->code));
		reply_text(o, "class", f->gap ? "gap" : "bad");
		reply_text(o, "log", *f->log ? f->log : NULL);
		if (f->from >= 0) {
			reply_int(o, "from", f->from);
			reply_int(o, "to", f->to);
		}
		reply_text(o, "detail", f->detail);
		reply_row_end(o);
	}
	put_told(t, &text);
	reply_row_begin(o);
	reply_text(o, "finding", told_result(t));
	reply_text(o, "class", "sum");
	reply_text(o, "log", NULL);
	reply_time(o, "at", t->at_us);
	reply_time(o, "since", t->since_us);
	reply_int(o, "logs", (int64_t)t->logs);
	reply_int(o, "records", (int64_t)t->records);
	reply_int(o, "again", (int64_t)t->again);
	reply_int(o, "older", (int64_t)t->older);
	reply_int(o, "bad", (int64_t)t->bad);
	reply_int(o, "gaps", (int64_t)t->gaps);
	reply_int(o, "not_opened", (int64_t)t->shut);
	reply_int(o, "oldest_s", (int64_t)(t->oldest_us / 1000000));
	reply_text(o, "detail", str_text(&text));
	reply_row_end(o);
	str_fini(&text);
}

static int failed(const struct told *t, struct err *err)
{
	(void)err_set(err, ERR_UNREACHABLE, "", "the verification came to no end: %s", t->message);
	if (*t->hint)
		err_hint(err, "%s", t->hint);
	return ERR_UNREACHABLE;
}

static void forget(struct daily *d, size_t i)
{
	d->nanswered -= i < d->nanswered;
	memmove(&d->waiting[i], &d->waiting[i + 1], (--d->nwaiting - i) * sizeof(*d->waiting));
}

static void answer(struct daily *d, size_t n, const struct err *err)
{
	while (n-- > 0) {
		struct command_call *c = d->waiting[0];

		forget(d, 0);
		if (!err)
			put_rows(&d->last, c->out);
		command_finish(c, err);
	}
}

static void free_daily(struct daily *d)
{
	free(d->store);
	free(d->folder);
	free(d->archive);
	free(d);
}

/* Nobody hears how it ended before that is durable. */
static void recorded(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct daily *d = arg;
	struct err err = { 0 };

	(void)receipt;
	if (rc < 0)
		writer_refused(d->writer, rc, "no record could be written of how it ended", &err);
	else if (*d->last.message)
		rc = failed(&d->last, &err);
	answer(d, d->nanswered, rc < 0 ? &err : NULL);
	if (--d->nrecords == 0 && d->freed)
		free_daily(d);
}

static void put_record(struct daily *d)
{
	const struct told *t = &d->last;
	const char *result = told_result(t);
	uint8_t counts[8];
	const struct audit_field fields[] = {
		{ AUDIT_TAG_COUNTS, counts, sizeof(counts) }, { AUDIT_TAG_RESULT, result, strlen(result) },
	};
	struct str text = STR_INIT;
	struct audit_event ev;
	int rc;

	str_printf(&text, "daily: %s, ", result);
	put_told(t, &text);
	audit_put_be(counts, t->records, sizeof(counts));
	audit_event_init(&ev, AUDIT_AUDIT_VERIFY, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = str_text(&text);
	ev.field = fields;
	ev.nfield = NELEMS(fields);
	ev.has_xstat = true;
	ev.xstat = status_of(t);
	d->nrecords++;
	rc = writer_audit(d->writer, &ev, recorded, d);
	if (rc < 0) {
		log_err(NULL, "how a verification ended could not be recorded");
		recorded(d, rc, NULL);
	}
	str_fini(&text);
}

static void free_run(void *arg)
{
	struct run *r = arg;

	ev_io_free(&r->io);
	close(r->fd);
	str_fini(&r->in);
	free(r);
}

static void drop_run(struct daily *d)
{
	struct run *r = d->run;

	d->run = NULL;
	r->over = true;
	ev_io_want(r->io, false, false);
	ev_helper_kill(&r->helper);
	ev_defer(d->loop, free_run, r);
}

static void end(struct daily *d, const struct told *told)
{
	if (d->run)
		drop_run(d);
	d->last = *told;
	d->nanswered = d->nwaiting;
	put_metrics(told);
	put_log(told);
	put_record(d);
}

static void fail(struct daily *d, const char *why)
{
	struct told told = { .ended = true, .at_us = clock_wall_us() };

	(void)snprintf(told.message, sizeof(told.message), "%s", why);
	end(d, &told);
}

/* --- what it says */

/* When it ended, if that can be so. */
static uint64_t time_of(const struct run *r)
{
	const uint64_t now = clock_wall_us(), at = r->told.at_us;

	return at >= r->begun_wall_us && at <= now ? at : now;
}

/* False: it has ended. */
static bool take(struct run *r)
{
	size_t at = 0;
	struct err err;

	for (const char *nl; (nl = memchr(r->in.p + at, '\n', r->in.len - at)) != NULL;) {
		const size_t len = (size_t)(nl - (r->in.p + at));

		if (told_take(&r->told, r->in.p + at, len, &err) < 0) {
			fail(r->daily, "its process broke the rules");
			return false;
		}
		at += len + 1;
		if (!r->told.ended)
			continue;
		r->told.at_us = time_of(r);
		end(r->daily, &r->told);
		return false;
	}
	str_drop_front(&r->in, at);
	if (r->in.len < TOLD_LINE_MAX)
		return true;
	fail(r->daily, "its process broke the rules");
	return false;
}

static void on_io(void *arg, bool readable, bool writable)
{
	struct run *r = arg;
	char buf[TOLD_LINE_MAX];
	ssize_t n;

	(void)writable;
	if (r->over || !readable)
		return;
	n = recv(r->fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (n > 0) {
		str_put(&r->in, buf, (size_t)n);
		(void)take(r);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		fail(r->daily, "its process was killed, found no memory, or is not there");
	}
}

/* --- the beginning */

/* The question is shorter than what a socket takes at once; of who is gone already the end is read. */
static int ask(const struct daily *d, int fd, struct err *err)
{
	const struct verifier_ask question = { d->store, d->folder, d->landlock, DAILY_SCRUB, NOTARY_MAX_AGE_S,
		d->archive };
	struct str line = STR_INIT;
	ssize_t n = -1;
	bool fine;

	verifier_ask_write(&question, &line);
	errno = EMSGSIZE;
	if (line.len <= VERIFIER_ASK_MAX)
		n = send(fd, line.p, line.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	fine = (n >= 0 && (size_t)n == line.len) || (n < 0 && (errno == EPIPE || errno == ECONNRESET));
	str_fini(&line);
	return fine ? 0 : err_set(err, ERR_IO, "", "its process cannot be asked");
}

static int launch(struct daily *d, struct err *err)
{
	struct run *r;
	struct ev_helper *helper = NULL;
	int fd = -1, rc;

	if (mkdir(d->folder, 0700) != 0 && errno != EEXIST)
		return err_set(err, ERR_IO, d->folder, "cannot make %s: %s", d->folder, strerror(errno));
	rc = ev_helper_start(d->loop, LAUNCHER_VERIFIER, NULL, &fd, &helper, err);
	if (rc < 0)
		return rc;
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	rc = ask(d, fd, err);
	if (rc < 0) {
		ev_helper_kill(&helper);
		close(fd);
		return rc;
	}
	r = mem_zalloc(sizeof(*r));
	*r = (struct run){ .daily = d, .helper = helper, .fd = fd, .begun_us = ev_now_us(d->loop),
			   .begun_wall_us = clock_wall_us() };
	r->io = ev_io_new(d->loop, fd, on_io, r);
	ev_io_want(r->io, true, false);
	d->run = r;
	log_info(NULL, "verification begins");
	return 0;
}

static void begin(struct daily *d)
{
	struct err err = { 0 };

	if (!d->run && launch(d, &err) < 0)
		fail(d, err.msg);
}

/* --- the clock */

/* A clock that was set back waits for its time again; what was due meanwhile has run. */
static bool is_due(struct daily *d)
{
	const int64_t slot = d->at_s == DAILY_NEVER ? d->slot : slot_of(clock_wall_us(), d->at_s), was = d->slot;

	d->slot = slot;
	return slot > was;
}

static uint64_t until_next_us(const struct daily *d)
{
	const uint64_t now = clock_wall_us();
	uint64_t next;

	if (d->at_s == DAILY_NEVER)
		return LOOK_US;
	next = ((uint64_t)(slot_of(now, d->at_s) + 1) * DAY_S + d->at_s) * 1000000;
	return next > now && next - now < LOOK_US ? next - now : LOOK_US;
}

static void on_timer(void *arg)
{
	struct daily *d = arg;

	if (d->run && ev_now_us(d->loop) - d->run->begun_us > DAILY_LONGEST_S * UINT64_C(1000000))
		fail(d, "it took longer than 23 hours; the next one goes on with it");
	else if (is_due(d))
		begin(d);
	ev_timer_start(d->timer, until_next_us(d));
}

static bool has_mark(const struct daily *d)
{
	char *mark = path_join(d->folder, VERIFIER_MARK);
	const bool is = path_exists(mark);

	free(mark);
	return is;
}

void daily_start(struct daily *d)
{
	const uint64_t now = clock_wall_us();

	d->started = true;
	/* A store that was never verified waits for its time. */
	if (d->at_s != DAILY_NEVER)
		d->slot = d->last.ended ? slot_of(d->last.at_us, d->at_s) : has_mark(d) ? -1 : slot_of(now, d->at_s);
	ev_timer_start(d->timer, 0);
}

void daily_stop(struct daily *d)
{
	struct err err;

	d->stopped = true;
	ev_timer_stop(d->timer);
	if (d->run) {
		log_info(NULL, "verification is cut off, the next start goes on with it");
		drop_run(d);
	}
	(void)err_set(&err, ERR_CANCELLED, "", "the server is stopping; the next start goes on with it");
	answer(d, d->nwaiting, &err);
}

/* --- one of them */

/* What the last one has said, before this start. */
static void read_last(struct daily *d)
{
	char *file = path_join(d->folder, VERIFIER_LAST);
	struct str text = STR_INIT;
	struct err err = { 0 };

	if (path_exists(file)) {
		int rc = path_read_as(file, PATH_PRIVATE | PATH_NO_LINK, TOLD_MAX, &text, &err);

		if (rc == 0)
			rc = told_read(text.p, text.len, &d->last, &err);
		if (rc < 0) {
			d->last = (struct told){ .ended = false };
			log_warn(NULL, "what the last verification said cannot be read why=\"%s\"", err.msg);
		}
	}
	put_metrics(&d->last);
	str_fini(&text);
	free(file);
}

struct daily *daily_new(struct ev_loop *loop, const struct daily_opt *opt)
{
	struct daily *d = mem_zalloc(sizeof(*d));

	d->loop = loop;
	d->writer = opt->writer;
	d->store = mem_strdup(opt->store);
	d->folder = path_join(opt->store, DAILY_FOLDER);
	d->at_s = DAILY_NEVER;
	(void)text_time_of_day(opt->at, &d->at_s);
	d->landlock = opt->landlock;
	d->archive = opt->archive ? mem_strdup(opt->archive) : NULL;
	d->timer = ev_timer_new(loop, on_timer, d);
	read_last(d);
	return d;
}

void daily_free(struct daily **dp)
{
	struct daily *d = *dp;

	if (!d)
		return;
	*dp = NULL;
	ev_timer_free(&d->timer);
	d->freed = true;
	if (d->nrecords == 0)
		free_daily(d);
}

/* --- audit daily */

static int daily_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct daily *d = command_env(c)->daily;

	(void)db;
	(void)logs;
	if (!d || !d->started || d->stopped) {
		(void)err_set(err, ERR_UNREACHABLE, "", "no server runs that could verify by itself");
		err_hint(err, "without one: toolcrib-verify --mark FILE --scrub 1/%d STORE", DAILY_SCRUB);
		return ERR_UNREACHABLE;
	}
	if (arg_flag(c, "last")) {
		if (!d->last.ended)
			return err_set(err, ERR_NOT_FOUND, "", "no verification has come to its end yet");
		if (*d->last.message)
			return failed(&d->last, err);
		put_rows(&d->last, c->out);
		return 0;
	}
	if (d->nwaiting == DAILY_WAITING_MAX)
		return err_set(err, ERR_BUSY, "", "%d commands wait for it already, which is the limit", DAILY_WAITING_MAX);
	c->later = true;
	d->waiting[d->nwaiting++] = c;
	begin(d);
	return 0;
}

/* It goes on without him. */
static void daily_cancel(struct command_call *c, bool stopped)
{
	struct daily *d = command_env(c)->daily;
	struct err err;

	for (size_t i = 0; d && i < d->nwaiting; i++) {
		if (d->waiting[i] != c)
			continue;
		forget(d, i);
		(void)err_set(&err, ERR_CANCELLED, "", stopped ? "an administrator has ended the waiting; the verification goes on"
			      : "whoever gave it has hung up; the verification goes on");
		command_finish(c, &err);
		return;
	}
}

static const struct command_arg daily_args[] = {
	FLAG("last", "Say what the last one has found, and begin none."), ARG_END };
static const struct command_column daily_cols[] = {
	COL("finding", "FINDING"), COL("log", "LOG"), COL("from", "FROM"), COL("to", "TO"), COL("detail", "DETAIL"), COL_END };

const struct command daily_commands[] = {
	{ .noun = "audit", .verb = "daily", .help = "Let the server verify what is new now, as it does each day",
	  .detail = "A process of its own reads the records that came since the last run, and the thirtieth of the older ones "
		    "that was read longest ago, as toolcrib-verify --mark --scrub 1/30 does; what is kept of calls stays shut.  "
		    "The command waits for its end, or for that of one that runs already, and prints the first findings; "
		    "hanging up does not end it.  The same by itself: audit.verify_at in toolcribd.yaml(5).  Exit status 4 when "
		    "something is bad, 5 when only something could not be checked.",
	  .args = daily_args, .columns = daily_cols, .shape = ADM_FINDINGS, .role = ADM_AUDIT, .console = true,
	  .where = ADM_ON_LOOP,
	  .record = AUDIT_ADMIN_CMD, .body = daily_body, .cancel = daily_cancel },
	{ .noun = NULL },
};
