/* Rows become blocks while a server runs (writer/fold.h).  A step is work of the lane for it, or of the writer's thread
 * when that has to: it counts rows that have come, makes one proposal and looks for leftovers that may go.  What a step
 * uses is whose step runs; while none does, it is the loop's.  One step or job is under way at most. */

#include "config.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/fold.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "writer/fold.h"
#include "writer/writer.h"

#include "writer_int.h"

enum {
	PAGE_ROWS = 4096,               /* of one look: no read transaction is long */
	VICTIMS = 256,                  /* rows that one look for leftovers passes */
	RETRY_US = 1000000,             /* behind what should not have failed, and for a log that is pruned */
	AGAIN_US = 20000,               /* behind a proposal that was thrown away */
	CLOSE_MS = 5000,
};

/* A log as far as its rows were looked at. */
struct flog {
	int64_t id;
	int64_t line, seen;             /* where its rows begin to count; behind the newest that was counted */
	int64_t to;                     /* folded up to here, now */
	uint64_t since_us;              /* when the oldest that waits was counted */
	uint64_t pause_us;              /* not before that */
	int64_t stuck;                  /* rec.id of the row that cannot be folded; 0: none */
	bool kept;                      /* its leftovers stay: one is not what its block has */
	bool loose;                     /* it may have blocks enough for a chapter */
};

struct range { int64_t log, from, to, upto; };  /* as audit_fold_drop() has it; log 0: none */

struct wfold {
	struct wfollower follower;
	struct writer *w;               /* NULL: it is gone */
	struct ev_loop *loop;
	struct ev_timer *timer;
	char *file;
	struct writer_fold_limits limits;
	/* the loop's */
	bool busy, begun, behind, refusing;
	bool resting;                   /* until the timer says so: something did not go well */
	uint64_t wake_us;               /* when the timer says so, if it is armed */
	bool ended;                     /* closed, and nothing is under way */
	bool seen;                      /* the writer's connection sees blocks */
	int64_t allowed;                /* of the rows that waited at the start, those that still do */
	int64_t counted, waited;        /* scanned, waiting: as the last step left them */
	char stuck[640];
	/* whose step it is */
	struct db *db;
	struct audit_folder *folder;
	struct map *logs;
	int64_t scanned, waiting;       /* rows up to this id were counted; of them wait, and can be folded */
	int64_t unfolded;               /* with those of logs that are given up */
	int64_t round_from, round_to;   /* all up to round_from is folded; of a round that is on, else 0 */
	int64_t passed, victim;         /* no row up to here may be dropped; the first of those that are */
	int64_t skipped;                /* the first one that was passed and will be in a block; 0: none */
	uint64_t first_us;              /* when this process put the first block of the store; 0: it did not */
	int64_t leftovers;
	bool any, dropping, short_of_room;
	bool may;                       /* rows might go when the step began: may_drop() */
	atomic_bool closing;
	/* what a step has made */
	struct audit_folded *made;
	struct audit_chapter *chapter;
	struct range drop;
	int64_t tail_from, dropped;     /* tail_from -1: it stays */
	struct flog *sick;
	int rc; struct err err;
};

/* --- a step: what has come */

static struct flog *log_of(struct wfold *f, int64_t id, struct err *err)
{
	struct flog *log = map_get_u64(f->logs, (uint64_t)id);
	int64_t line = 0;
	bool waits;

	if (log)
		return log;
	if (audit_folder_line(f->folder, id, &line, &waits, err) < 0)
		return NULL;
	log = mem_zalloc(sizeof(*log));
	*log = (struct flog){ .id = id, .line = line, .loose = true };
	map_set_u64(f->logs, (uint64_t)id, log);
	return log;
}

static bool waits(const struct flog *log)
{
	return log->line < log->seen;
}

/* The sums over all logs are kept with each that moves: there may be thousands. */
static void count(struct wfold *f, const struct flog *log, int64_t times)
{
	const int64_t n = waits(log) ? (log->seen - log->line) * times : 0;

	f->unfolded += n;
	f->waiting += log->stuck ? 0 : n;
}

static void move(struct wfold *f, struct flog *log, int64_t line, int64_t seen)
{
	count(f, log, -1);
	log->line = line;
	log->seen = seen;
	count(f, log, 1);
}

static int open_reader(struct wfold *f, struct err *err)
{
	struct db_stmt *st;
	int rc;

	if (f->folder)
		return 0;
	rc = f->db ? 0 : db_open_store(db_of_file(f->file), &f->db, err);
	if (rc == 0)
		rc = audit_fold_tail_get(f->db, &f->scanned, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(f->db, SQL_FORMS_ANY);
	rc = db_step(st, err);
	f->any = rc == 1 && db_col_i64(st, 0);
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	f->round_from = f->scanned;
	f->folder = audit_folder_new(f->db);
	return 0;
}

/* The next rows, one statement. */
static int scan_page(struct wfold *f, int *ret_n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_FOLD_LIST_ROWS);
	const uint64_t now = clock_mono_us();
	int rc;

	*ret_n = 0;
	db_bind_i64(st, 1, f->scanned);
	db_bind_i64(st, 2, INT64_MAX);
	db_bind_i64(st, 3, PAGE_ROWS);
	while ((rc = db_step(st, err)) == 1) {
		const int64_t idx = db_col_i64(st, 2);
		struct flog *log = log_of(f, db_col_i64(st, 1), err);

		if (!log) {
			rc = err->code;
			break;
		}
		f->scanned = db_col_i64(st, 0);
		++*ret_n;
		if (idx < log->line)
			continue;
		if (!waits(log))
			log->since_us = now;
		move(f, log, log->line, idx + 1);
	}
	db_stmt_put(&st);
	return rc;
}

static int scan(struct wfold *f, struct err *err)
{
	int n = PAGE_ROWS, rc = 0;

	while (rc == 0 && n == PAGE_ROWS && !atomic_load(&f->closing))
		rc = scan_page(f, &n, err);
	return rc;
}

/* --- a step: what becomes a block */

/* As if no row between others had gone: what was pruned of a log counts until those before it have gone too. */
static int count_leftovers(struct wfold *f, struct err *err)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_FOLD_OLDEST_ROW);
	int rc = db_step(st, err);

	if (rc == 1) {
		f->leftovers = f->scanned + 1 - db_col_i64(st, 0) - f->unfolded;
		f->leftovers = f->leftovers > 0 ? f->leftovers : 0;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static uint64_t age_us(const struct wfold *f)
{
	return f->limits.fold_age_s * UINT64_C(1000000);
}

static bool round_is_due(const struct wfold *f)
{
	return !f->round_to && f->scanned - f->round_from >= f->limits.fold_rows;
}

/* What is due: all logs when a round begins, else those that have waited. */
static void set_goals(struct wfold *f)
{
	const bool round = round_is_due(f);
	const uint64_t now = clock_mono_us();
	void *value;

	for (size_t it = 0; map_next(f->logs, &it, NULL, NULL, &value);) {
		struct flog *log = value;

		if (round || (log->seen - log->line >= WRITER_FOLD_FEW && now - log->since_us >= age_us(f)))
			log->to = log->seen;
	}
	if (round)
		f->round_to = f->scanned;
}

/* A log that is to be folded; NULL: none is.  *ret_open: one would be, but for its pause. */
static struct flog *next_log(struct wfold *f, bool *ret_open)
{
	const uint64_t now = clock_mono_us();
	struct flog *found = NULL;
	void *value;

	*ret_open = false;
	for (size_t it = 0; map_next(f->logs, &it, NULL, NULL, &value);) {
		struct flog *log = value;

		if (log->stuck || log->line >= log->to)
			continue;
		*ret_open = true;
		if (now >= log->pause_us && (!found || log->since_us < found->since_us))
			found = log;
	}
	return found;
}

/* The log is left as it is, with the first row that is not in a block. */
static int give_up(struct wfold *f, struct flog *log, struct err *err)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_FOLD_ROW_AT);
	int rc;

	db_bind_i64(st, 1, log->id);
	db_bind_i64(st, 2, log->line);
	rc = db_step(st, err);
	count(f, log, -1);
	if (rc >= 0)
		log->stuck = rc == 1 ? db_col_i64(st, 0) : f->scanned + 1;
	count(f, log, 1);
	db_stmt_put(&st);
	f->sick = log;
	return rc < 0 ? rc : 0;
}

/* Nothing came of it: blocks of the log wait to be pruned, or its rows were. */
static int look_again(struct wfold *f, struct flog *log, struct err *err)
{
	int64_t line = log->line;
	bool pruned;
	int rc = audit_folder_line(f->folder, log->id, &line, &pruned, err);

	log->pause_us = clock_mono_us() + RETRY_US;
	move(f, log, line, log->seen);
	return rc;
}

/* The round is over: what is below it are leftovers, but of logs that are given up. */
static void end_round(struct wfold *f)
{
	void *value;

	f->tail_from = f->round_to;
	for (size_t it = 0; map_next(f->logs, &it, NULL, NULL, &value);) {
		const struct flog *log = value;

		if (log->stuck && log->stuck <= f->tail_from)
			f->tail_from = log->stuck - 1;
	}
}

static int propose(struct wfold *f, struct err *err)
{
	bool open = false;
	struct flog *log = round_is_due(f) ? NULL : next_log(f, &open);
	struct err why;
	int rc;

	if (!log) {                     /* else who is due since then comes behind those */
		set_goals(f);
		log = next_log(f, &open);
	}
	for (; log && !atomic_load(&f->closing); log = next_log(f, &open)) {
		rc = audit_folder_next(f->folder, log->id, log->to, &f->made, &why);
		if (rc == ERR_CORRUPT || rc == ERR_INVALID) {   /* SC-204 */
			*err = why;
			return give_up(f, log, err);
		}
		if (rc == 0)
			rc = look_again(f, log, &why);
		if (rc < 0)
			*err = why;
		if (rc != 0)
			return rc < 0 ? rc : 0;
	}
	if (!open && f->round_to)
		end_round(f);
	return 0;
}

/* --- a step: what may go */

static bool may_drop(const struct wfold *f)
{
	const uint64_t grace = WRITER_FOLD_GRACE_S * UINT64_C(1000000);

	return f->any && (!f->first_us || clock_mono_us() - f->first_us >= grace);
}

struct victim { int64_t id, log, idx; };

/* Whether this row may go with others of its block: 1, f->drop says which.  0: it is passed. */
static int look_at(struct wfold *f, const struct victim *v, int64_t upto, struct err *err)
{
	struct flog *log = log_of(f, v->log, err);
	int64_t from, to;
	int rc;

	if (!log)
		return err->code;
	if (!log->kept && !log->stuck && v->idx >= log->line && !f->skipped)
		f->skipped = v->id;
	if (log->kept || v->idx >= log->line)
		return 0;
	rc = audit_folder_left(f->folder, log->id, &from, &to, err);
	if (rc == ERR_CORRUPT || rc == ERR_INVALID) {
		log->kept = true;
		f->sick = log;
		return 1;
	}
	if (rc == 1)
		f->drop = (struct range){ log->id, from, to, upto };
	return rc;
}

/* The oldest rows. */
static int list_oldest(struct wfold *f, int64_t to, struct victim *ret, int *ret_n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_FOLD_LIST_ROWS);
	int rc;

	*ret_n = 0;
	db_bind_i64(st, 1, f->passed);
	db_bind_i64(st, 2, to);
	db_bind_i64(st, 3, VICTIMS);
	while ((rc = db_step(st, err)) == 1)
		ret[(*ret_n)++] = (struct victim){ db_col_i64(st, 0), db_col_i64(st, 1), db_col_i64(st, 2) };
	db_stmt_put(&st);
	return rc;
}

/* The oldest leftover that is not among the newest rows (SC-109), and others of its block. */
static int look_left(struct wfold *f, struct err *err)
{
	const int64_t plain = f->short_of_room ? 0 : f->limits.plain_rows;
	const int64_t upto = f->scanned - (plain > 0 ? plain : 1);      /* the newest row stays in any case */
	const int64_t slack = f->dropping || plain == 0 ? 0 : plain < f->limits.fold_rows ? plain : f->limits.fold_rows;
	struct victim v[VICTIMS];
	int n = 0, rc, got = 0;

	if (f->drop.log || !f->may || upto - slack <= f->passed)
		return 0;
	rc = list_oldest(f, upto - slack, v, &n, err);
	if (rc < 0)
		return rc;
	for (int i = 0; got == 0 && i < n; i++) {
		got = look_at(f, &v[i], upto, err);
		if (got < 0)
			return got;
		f->victim = v[i].id;
		if (got == 0)
			f->passed = v[i].id;
	}
	if (got == 0 && n < VICTIMS)
		f->passed = upto - slack;
	f->dropping = got == 1 || n == VICTIMS;
	return 0;
}

/* --- a step: blocks become chapters, when there is nothing else to do */

static int make_chapter(struct wfold *f, struct err *err)
{
	void *value;
	int rc = 0;

	for (size_t it = 0; rc == 0 && map_next(f->logs, &it, NULL, NULL, &value) && !atomic_load(&f->closing);) {
		struct flog *log = value;

		if (!log->loose)
			continue;
		rc = audit_chapter_next(f->db, log->id, AUDIT_CHAPTER_BLOCKS, &f->chapter, err);
		log->loose = rc == 1;
		if (rc == ERR_CORRUPT) {        /* its blocks are read without; the verifier says what is wrong */
			log_err(NULL, "blocks do not become a chapter why=\"%s\"", err->msg);
			rc = 0;
		}
	}
	return rc < 0 ? rc : 0;
}

/* Of f, whose step it is: a proposal in made, rows that may go in drop, a log that is given up in sick; or nothing. */
static void step(struct wfold *f)
{
	int rc;

	f->tail_from = f->dropped = -1;
	f->sick = NULL;
	rc = open_reader(f, &f->err);
	f->may = may_drop(f);
	if (rc == 0)
		rc = scan(f, &f->err);
	if (rc == 0)
		rc = count_leftovers(f, &f->err);
	/* Where no row is to stay, what a block has replaced goes before the next one is made, unless much waits. */
	if (rc == 0 && (!f->drop.log || f->waiting > f->limits.fold_rows))
		rc = propose(f, &f->err);
	if (rc == 0 && !f->sick)
		rc = look_left(f, &f->err);
	if (rc == 0 && !f->made && !f->sick && !f->behind)      /* it takes too long for the writer */
		rc = make_chapter(f, &f->err);
	f->rc = rc;
}

/* --- the writer's part */

static int put_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct wfold *f = arg;
	int rc = 0;

	if (f->behind) {                /* SC-303 */
		step(f);
		if (f->rc < 0)
			audit_folded_free(&f->made);
		if (f->rc < 0)
			return 0;
	}
	f->dropped = -1;
	if (f->made)
		rc = audit_fold_put(logs, db, f->made, err);
	CRASH_AT("fold.put");
	if (rc == 0 && f->chapter)
		rc = audit_chapter_put(db, f->chapter, err);
	if (rc == 0 && f->tail_from >= 0)
		rc = audit_fold_tail_set(db, f->tail_from, err);
	if (rc == 0 && f->drop.log && forms_seen(db)) {
		rc = audit_fold_drop(db, f->drop.log, f->drop.from, f->drop.to, f->drop.upto, &f->dropped, err);
		CRASH_AT("fold.half");
	}
	return rc;
}

static int see_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)arg;
	(void)logs;
	return forms_see(db, err);
}

/* --- what comes of a step, on the loop */

static void next(struct wfold *f);
static void look_what_came(struct wfold *f);

/* What was made is not put. */
static void forget(struct wfold *f)
{
	audit_folded_free(&f->made);
	audit_chapter_free(&f->chapter);
}

static void free_fold(struct wfold *f)
{
	void *value;

	forget(f);
	audit_folder_free(&f->folder);
	db_close(&f->db);
	for (size_t it = 0; map_next(f->logs, &it, NULL, NULL, &value);)
		free(value);
	map_free(&f->logs);
	free(f->file);
	free(f);
}

/* False: it was closed meanwhile, and f is gone. */
static bool came_back(struct wfold *f)
{
	f->busy = false;
	if (f->w)
		return true;
	if (!f->ended)
		f->ended = true;        /* who closes waits for it, and frees it */
	else
		free_fold(f);           /* nobody waits any more */
	return false;
}

static void wake_by(struct wfold *f, uint64_t at_us)
{
	const uint64_t now = ev_now_us(f->loop);

	if (ev_timer_armed(f->timer) && f->wake_us <= at_us)
		return;
	f->wake_us = at_us;
	ev_timer_start(f->timer, at_us > now ? at_us - now : 0);
}

static void rest(struct wfold *f, uint64_t us)
{
	f->resting = true;
	wake_by(f, ev_now_us(f->loop) + us);
}

/* SC-204: once for each log and start. */
static void tell_sick(struct wfold *f)
{
	const struct flog *log = f->sick;
	char text[sizeof(f->stuck)];
	struct audit_event ev;

	f->sick = NULL;
	(void)snprintf(text, sizeof(text), "%s: %s; %s", f->err.where, f->err.msg,
		       log->stuck ? "the log is folded no further" : "rows of the log that are in blocks stay");
	if (!*f->stuck)
		(void)snprintf(f->stuck, sizeof(f->stuck), "%s", text);
	log_err(NULL, "records do not become blocks where=%s why=\"%s\"", f->err.where, f->err.msg);
	metric_inc(METRIC_fold_stuck);
	audit_event_init(&ev, AUDIT_AUDIT_FAIL, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	if (writer_audit(f->w, &ev, NULL, NULL) < 0)
		log_err(NULL, "no record of records that do not become blocks where=%s", f->err.where);
}

static void was_dropped(struct wfold *f)
{
	if (f->dropped < 0)
		return;
	metric_add(METRIC_fold_rows_dropped, (uint64_t)f->dropped);
	if (f->dropped < AUDIT_FOLD_SLICE) {
		f->drop.log = 0;
		if (f->dropped == 0 && f->drop.upto < INT64_MAX)
			f->passed = f->victim;  /* it does not go */
	}
}

static void was_put(struct wfold *f)
{
	const struct audit_folded *made = f->made;
	struct flog *log = map_get_u64(f->logs, (uint64_t)made->log);

	move(f, log, made->first + made->cnt, log->seen);
	log->since_us = clock_mono_us();
	log->pause_us = 0;
	log->loose = true;
	metric_inc(METRIC_fold_blocks);
	metric_add(METRIC_fold_records, (uint64_t)made->cnt);
	if (!f->any)
		f->first_us = log->since_us;
	f->any = true;
	if (f->limits.plain_rows == 0 && !f->drop.log && may_drop(f))
		f->drop = (struct range){ made->log, made->first, log->line, INT64_MAX };
	audit_folded_free(&f->made);
}

static void see_done(void *arg, int rc, const struct err *err)
{
	struct wfold *f = arg;

	if (!came_back(f))
		return;
	f->seen = rc == 0;
	if (rc < 0)
		log_err(NULL, "the writer cannot see blocks why=\"%s\"", err ? err->msg : "");
	if (rc < 0)
		rest(f, RETRY_US);
	else
		next(f);
}

static void submit(struct wfold *f, const struct writer_job *job)
{
	f->busy = true;
	if (writer_submit(f->w, job, f) == 0)
		return;
	f->busy = false;
	forget(f);
	rest(f, RETRY_US);
}

/* The writer's own connection as well, before it drops anything. */
static void see(struct wfold *f)
{
	static const struct writer_job job = { .name = "see blocks", .run = see_run, .volatile_only = true,
		.between = true, .done = see_done };

	submit(f, &job);
}

static void count_out(struct wfold *f)
{
	f->counted = f->scanned;
	f->waited = f->waiting;
	if (!f->begun)
		f->allowed = f->waited;
	f->begun = true;
	metric_set(METRIC_fold_waiting, (uint64_t)f->waiting);
	metric_set(METRIC_fold_leftovers, (uint64_t)f->leftovers);
}

static void put_done(void *arg, int rc, const struct err *err)
{
	static struct log_site site;
	struct wfold *f = arg;

	if (!came_back(f))
		return;
	if (rc < 0) {
		/* Thrown away; the next one is made of what is there then. */
		if (rc == ERR_CONFLICT)
			metric_inc(METRIC_fold_conflicts);
		else if (log_allow(&site))
			log_warn(NULL, "a block was not put why=\"%s\"", err ? err->msg : "");
		forget(f);
		f->drop.log = 0;
		count_out(f);
		rest(f, rc == ERR_CONFLICT ? AGAIN_US : RETRY_US);
		return;
	}
	if (f->behind && f->rc < 0)
		log_warn(NULL, "rows could not be read to become blocks why=\"%s\"", f->err.msg);
	if (f->sick)
		tell_sick(f);
	if (f->tail_from >= 0) {
		f->round_from = f->round_to;
		f->round_to = 0;
		if (f->skipped)
			f->passed = f->skipped - 1;
		f->skipped = 0;
	}
	was_dropped(f);
	if (f->made && f->behind)
		metric_inc(METRIC_fold_by_writer);
	if (f->made)
		was_put(f);
	if (f->chapter)
		metric_inc(METRIC_fold_chapters);
	audit_chapter_free(&f->chapter);
	count_out(f);
	if (f->behind && f->rc < 0)
		rest(f, RETRY_US);
	else if (f->any && !f->seen)
		see(f);
	else
		next(f);
}

static const struct writer_job put_job = { .name = "blocks", .run = put_run, .volatile_only = true, .done = put_done };

/* When there is something to do that nobody comes to say. */
static void wait_for_age(struct wfold *f)
{
	uint64_t due = UINT64_MAX;
	void *value;

	for (size_t it = 0; map_next(f->logs, &it, NULL, NULL, &value);) {
		const struct flog *log = value;
		uint64_t at = UINT64_MAX;

		if (!log->stuck && log->line < log->to)
			at = log->pause_us;
		else if (!log->stuck && log->seen - log->line >= WRITER_FOLD_FEW)
			at = log->since_us + age_us(f);
		due = at < due ? at : due;
	}
	if (f->any && !f->may) {        /* also when its time came during the step */
		const uint64_t at = f->first_us + WRITER_FOLD_GRACE_S * UINT64_C(1000000);

		due = at < due ? at : due;
	}
	if (due != UINT64_MAX)
		wake_by(f, due);
	look_what_came(f);              /* while it was looked */
}

static void step_done(void *arg)
{
	static struct log_site site;
	struct wfold *f = arg;
	bool sick;

	if (!came_back(f))
		return;
	sick = f->sick != NULL;
	count_out(f);
	if (f->rc < 0) {
		if (log_allow(&site))
			log_warn(NULL, "rows could not be read to become blocks why=\"%s\"", f->err.msg);
		forget(f);
		rest(f, RETRY_US);
		return;
	}
	if (sick)
		tell_sick(f);
	if (f->any && !f->seen && !f->made)
		see(f);
	else if (f->made || f->chapter || f->drop.log || f->tail_from >= 0)
		submit(f, &put_job);
	else if (sick)
		next(f);
	else
		wait_for_age(f);
}

static void step_body(void *arg)
{
	step(arg);
}

/* --- how much waits (SC-303) */

static int64_t waiting_now(const struct wfold *f)
{
	return atomic_load(&f->w->newest) - f->counted + f->waited;
}

static void refuse(struct wfold *f, bool refusing, int64_t rows)
{
	struct audit_event ev;
	char text[120];

	f->refusing = refusing;
	f->w->fold_held = refusing ? "too many records wait to become blocks" : NULL;
	if (refusing)
		log_err(NULL, "too many records wait to become blocks, calls are refused rows=%" PRId64, rows);
	else
		log_info(NULL, "records have become blocks, calls go on rows=%" PRId64, rows);
	if (!refusing)
		return;
	(void)snprintf(text, sizeof(text), "audit.fold_rows: %" PRId64 " records wait to become blocks; calls are refused",
		       rows);
	audit_event_init(&ev, AUDIT_AUDIT_FAIL, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	if (writer_audit(f->w, &ev, NULL, NULL) < 0)
		log_err(NULL, "no record of calls that are refused rows=%" PRId64, rows);
}

/* Also while a step is under way, for it may be that which does not come back. */
static void weigh(struct wfold *f)
{
	const int64_t rows = waiting_now(f);
	int64_t over;

	if (!f->begun)
		return;
	f->allowed = rows < f->allowed ? rows : f->allowed;
	if (f->allowed <= f->limits.fold_rows)
		f->allowed = 0;
	over = rows - f->allowed;
	if (!f->busy)
		f->behind = over > WRITER_FOLD_BEHIND * f->limits.fold_rows;
	if (!f->refusing && over > WRITER_FOLD_REFUSE * f->limits.fold_rows)
		refuse(f, true, rows);
	else if (f->refusing && over <= WRITER_FOLD_REFUSE / 2 * f->limits.fold_rows)
		refuse(f, false, rows);
}

/* The next step, on whose thread it is. */
static void next(struct wfold *f)
{
	weigh(f);
	f->resting = false;
	ev_timer_stop(f->timer);
	f->short_of_room = f->w->space->room != WRITER_ROOM_ENOUGH;
	if (f->behind && f->seen == f->any) {
		submit(f, &put_job);
		return;
	}
	f->behind = false;
	f->busy = true;
	if (ev_work(f->loop, EV_LANE_FOLD, step_body, step_done, f) < 0) {
		f->busy = false;
		rest(f, RETRY_US);
	}
}

static void on_timer(void *arg)
{
	struct wfold *f = arg;

	if (!f->busy)
		next(f);
}

static void look_what_came(struct wfold *f)
{
	const int64_t newest = atomic_load(&f->w->newest);

	weigh(f);
	if (f->busy || f->resting || !f->begun)
		return;
	if (newest - f->round_from >= f->limits.fold_rows && !f->round_to)
		next(f);
	else if (newest > f->counted)
		wake_by(f, ev_now_us(f->loop) + age_us(f) / 4);
}

/* --- begin and end */

static void arrived(struct wfollower *follower)
{
	look_what_came(CONTAINER_OF(follower, struct wfold, follower));
}

static void close_fold(struct wfollower *follower)
{
	struct wfold *f = CONTAINER_OF(follower, struct wfold, follower);

	f->w->follower = NULL;
	ev_timer_free(&f->timer);
	atomic_store(&f->closing, true);
	f->w->fold_held = NULL;
	f->w = NULL;
	/* Its connection would keep the log of the file from being emptied. */
	if (!f->busy || ev_loop_run_until(f->loop, &f->ended, CLOSE_MS))
		free_fold(f);
	else
		f->ended = true;        /* whatever it hangs in: came_back() frees it */
}

void writer_fold_start(struct writer *w, const struct writer_fold_limits *limits)
{
	struct wfold *f = mem_zalloc(sizeof(*f));

	f->w = w;
	f->loop = w->loop;
	f->limits = *limits;
	f->file = path_join(w->store, DB_FILE);
	f->logs = map_new();
	f->timer = ev_timer_new(f->loop, on_timer, f);
	atomic_init(&f->closing, false);
	f->follower = (struct wfollower){ arrived, close_fold };
	w->follower = &f->follower;
	wake_by(f, 0);
}

const char *writer_fold_stuck(const struct writer *w)
{
	return w->follower ? CONTAINER_OF(w->follower, struct wfold, follower)->stuck : "";
}
