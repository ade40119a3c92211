/* Rows become blocks while a server runs (writer/fold.h).  A step is work of the lane for it, or of the writer's thread
 * when that has to: it counts rows that have come, makes proposals and looks for leftovers that may go.  Jobs put the
 * proposals, some in each.  What a step uses is whose step runs; while none does, it is the loop's.  One step or job is
 * under way at most. */

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
	STEP_RECORDS = 32768, STEP_US = 250000,         /* a step makes no more blocks behind so many, or so long (SC-505) */
	STEP_KIB = 12288,               /* their pages: each has rows of many logs, and one look has them all */
	DROPS = 64,                     /* logs of which a step has leftovers go */
	PUT_BLOCKS = 16, PUT_RECORDS = AUDIT_FOLD_RECORDS,      /* of one job: what a writer is held up by */
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

struct range { int64_t log, from, to, upto, gone; };    /* as audit_fold_drop() has it; gone: -1 before the job */

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
	/* what a step has made: blocks, of which jobs have put those before `put`, and the one that runs before `ends` */
	struct audit_folded **made; size_t nmade, put, ends;
	struct forms_chapter *chapter;
	struct range drop[DROPS]; size_t ndrop;
	int64_t tail_from;              /* -1: it stays */
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
		rc = db_keep_pages(f->db, STEP_KIB, err);
	if (rc == 0)
		rc = forms_tail_get(f->db, &f->scanned, err);
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

static int by_age(const void *a, const void *b)
{
	const struct flog *x = *(struct flog *const *)a, *y = *(struct flog *const *)b;

	return x->since_us < y->since_us ? -1 : x->since_us > y->since_us;
}

/* Logs that are to be folded, who waits longest first; the caller frees them.  *ret_open: one is, but for its pause. */
static struct flog **list_due(struct wfold *f, size_t *ret_n, bool *ret_open)
{
	struct flog **due = mem_calloc(map_count(f->logs) + 1, sizeof(struct flog *));
	const uint64_t now = clock_mono_us();
	size_t n = 0;
	void *value;

	*ret_open = false;
	for (size_t it = 0; map_next(f->logs, &it, NULL, NULL, &value);) {
		struct flog *log = value;

		if (log->stuck || log->line >= log->to)
			continue;
		*ret_open = true;
		if (now >= log->pause_us)
			due[n++] = log;
	}
	if (n > 1)
		qsort(due, n, sizeof(struct flog *), by_age);
	*ret_n = n;
	return due;
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

/* What a step may still make. */
struct step { int64_t records; uint64_t until_us; };

static bool goes_on(const struct wfold *f, const struct step *s)
{
	return s->records > 0 && clock_mono_us() < s->until_us && !atomic_load(&f->closing);
}

static void made_one(struct wfold *f, struct audit_folded *folded)
{
	f->made = mem_realloc(f->made, (f->nmade + 1) * sizeof(struct audit_folded *));
	f->made[f->nmade++] = folded;
	audit_folder_go_on(f->folder, folded);
}

/* All of a log that is due, or as much as the step has left.  What cannot be folded, and what has nothing to fold, is
 * seen by the step that comes to it first. */
static int fold_log(struct wfold *f, struct flog *log, struct step *s, struct err *err)
{
	bool first = true;
	int rc = 1;

	while (rc == 1 && goes_on(f, s)) {
		struct audit_folded *folded = NULL;
		struct err why;

		rc = audit_folder_next(f->folder, log->id, log->to, &folded, &why);
		if (rc == 1) {
			s->records -= folded->cnt;
			made_one(f, folded);
		} else if (rc == ERR_CORRUPT || rc == ERR_INVALID) {    /* SC-204 */
			*err = why;
			rc = first ? give_up(f, log, err) : 0;
		} else if (rc < 0) {
			*err = why;
		} else if (first) {
			rc = look_again(f, log, err);
		}
		first = false;
	}
	return rc < 0 ? rc : 0;
}

static int propose(struct wfold *f, struct err *err)
{
	struct step s = { .records = f->behind ? AUDIT_FOLD_RECORDS : STEP_RECORDS, .until_us = clock_mono_us() + STEP_US };
	bool open = false;
	size_t n = 0;
	struct flog **due = NULL;
	int rc = 0;

	if (!round_is_due(f))
		due = list_due(f, &n, &open);
	if (n == 0) {                   /* else who is due since then comes behind those */
		free(due);
		set_goals(f);
		due = list_due(f, &n, &open);
	}
	if (n > 0)
		rc = audit_folder_hold(f->folder, err);
	for (size_t i = 0; rc == 0 && i < n && !f->sick && goes_on(f, &s); i++)
		rc = fold_log(f, due[i], &s, err);
	if (n > 0)
		rc = audit_folder_let_go(f->folder, rc, err);
	free(due);
	if (!open && f->round_to)
		end_round(f);
	return rc;
}

/* --- a step: what may go */

static bool may_drop(const struct wfold *f)
{
	const uint64_t grace = WRITER_FOLD_GRACE_S * UINT64_C(1000000);

	return f->any && (!f->first_us || clock_mono_us() - f->first_us >= grace);
}

struct victim { int64_t id, log, idx; };

/* Whether this row may go with others of its block: 1, the last of f->drop says which.  0: it is passed. */
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
		f->drop[f->ndrop++] = (struct range){ log->id, from, to, upto, -1 };
	return rc;
}

static bool goes(const struct wfold *f, int64_t log)
{
	bool found = false;

	for (size_t i = 0; i < f->ndrop; i++)
		found |= f->drop[i].log == log;
	return found;
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

/* The oldest leftovers of some logs that are not among the newest rows (SC-109), each with others of its block. */
static int look_left(struct wfold *f, struct err *err)
{
	const int64_t plain = f->short_of_room ? 0 : f->limits.plain_rows;
	const int64_t upto = f->scanned - (plain > 0 ? plain : 1);      /* the newest row stays in any case */
	const int64_t slack = f->dropping || plain == 0 ? 0 : plain < f->limits.fold_rows ? plain : f->limits.fold_rows;
	struct victim v[VICTIMS];
	int n = 0, got = 0, rc;

	if (f->ndrop > 0 || !f->may || upto - slack <= f->passed)
		return 0;
	rc = audit_folder_hold(f->folder, err);
	if (rc < 0)
		return rc;
	rc = list_oldest(f, upto - slack, v, &n, err);
	for (int i = 0; rc == 0 && i < n && f->ndrop < DROPS && !f->sick && !atomic_load(&f->closing); i++) {
		if (goes(f, v[i].log))
			continue;
		got = look_at(f, &v[i], upto, err);
		rc = got < 0 ? got : 0;
		if (got == 1 && f->ndrop == 1)
			f->victim = v[i].id;
		if (got == 0 && f->ndrop == 0)
			f->passed = v[i].id;
	}
	rc = audit_folder_let_go(f->folder, rc, err);
	if (rc < 0)
		return rc;
	if (f->ndrop == 0 && !f->sick && n < VICTIMS)
		f->passed = upto - slack;
	f->dropping = f->ndrop > 0 || f->sick || n == VICTIMS;
	return 0;
}

/* --- a step: blocks become chapters, when there is nothing else to do */

static int make_chapter(struct wfold *f, struct err *err)
{
	static const struct forms_chapter_sizes sizes = FORMS_CHAPTER_SIZES;
	void *value;
	int rc = 0;

	for (size_t it = 0; rc == 0 && map_next(f->logs, &it, NULL, NULL, &value) && !atomic_load(&f->closing);) {
		struct flog *log = value;

		if (!log->loose)
			continue;
		rc = forms_chapter_next(f->db, log->id, &sizes, &f->chapter, err);
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

	f->tail_from = -1;
	f->sick = NULL;
	rc = open_reader(f, &f->err);
	f->may = may_drop(f);
	if (rc == 0)
		rc = scan(f, &f->err);
	if (rc == 0)
		rc = count_leftovers(f, &f->err);
	/* Where no row is to stay, what a block has replaced goes before the next one is made, unless much waits. */
	if (rc == 0 && (f->ndrop == 0 || f->waiting > f->limits.fold_rows))
		rc = propose(f, &f->err);
	if (rc == 0 && !f->sick)
		rc = look_left(f, &f->err);
	if (rc == 0 && !f->nmade && !f->sick && !f->behind)     /* it takes too long for the writer */
		rc = make_chapter(f, &f->err);
	if (f->db)
		db_give_back(f->db);    /* a store that is written has others by the next one */
	f->rc = rc;
}

/* What was made is not put. */
static void forget_made(struct wfold *f)
{
	for (size_t i = 0; i < f->nmade; i++)
		audit_folded_free(&f->made[i]);
	f->nmade = f->put = f->ends = 0;
}

/* --- the writer's part */

static int put_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct wfold *f = arg;
	int64_t records = 0, dropped = 0;
	int rc = 0;

	if (f->behind && f->nmade == 0) {       /* SC-303 */
		step(f);
		if (f->rc < 0)
			forget_made(f);
		if (f->rc < 0)
			return 0;
	}
	f->ends = f->put;
	for (; rc == 0 && f->ends < f->nmade && f->ends - f->put < PUT_BLOCKS && records < PUT_RECORDS; f->ends++) {
		records += f->made[f->ends]->cnt;
		rc = audit_fold_put(logs, db, f->made[f->ends], err);
	}
	CRASH_AT("fold.put");
	if (rc == 0 && f->chapter)
		rc = forms_chapter_put(db, f->chapter, err);
	if (rc == 0 && f->tail_from >= 0)
		rc = forms_tail_set(db, f->tail_from, err);
	for (size_t i = 0; rc == 0 && i < f->ndrop && dropped < AUDIT_FOLD_SLICE && forms_seen(db); i++) {
		struct range *r = &f->drop[i];

		rc = audit_fold_drop(db, r->log, r->from, r->to, r->upto, &r->gone, err);
		dropped += r->gone;
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

static void forget(struct wfold *f)
{
	forget_made(f);
	forms_chapter_free(&f->chapter);
}

static void free_fold(struct wfold *f)
{
	void *value;

	forget(f);
	free(f->made);
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

/* Of a log that had a whole slice more may go. */
static void were_dropped(struct wfold *f)
{
	size_t left = 0;

	for (size_t i = 0; i < f->ndrop; i++) {
		struct range r = f->drop[i];

		if (r.gone >= 0)
			metric_add(METRIC_fold_rows_dropped, (uint64_t)r.gone);
		if (i == 0 && r.gone == 0 && r.upto < INT64_MAX)
			f->passed = f->victim;  /* it does not go */
		if (r.gone >= 0 && r.gone < AUDIT_FOLD_SLICE)
			continue;
		r.gone = -1;
		f->drop[left++] = r;
	}
	f->ndrop = left;
}

static void was_put(struct wfold *f, const struct audit_folded *made)
{
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
	if (f->limits.plain_rows == 0 && f->ndrop < DROPS && may_drop(f))
		f->drop[f->ndrop++] = (struct range){ made->log, made->first, log->line, INT64_MAX, -1 };
}

static void were_put(struct wfold *f)
{
	if (f->behind)
		metric_add(METRIC_fold_by_writer, f->ends - f->put);
	for (; f->put < f->ends; f->put++)
		was_put(f, f->made[f->put]);
	if (f->put == f->nmade)
		forget_made(f);
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

static void put_done(void *arg, int rc, const struct err *err);
static const struct writer_job put_job = { .name = "blocks", .run = put_run, .volatile_only = true, .done = put_done };

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
		f->ndrop = 0;
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
	were_dropped(f);
	were_put(f);
	if (f->chapter)
		metric_inc(METRIC_fold_chapters);
	forms_chapter_free(&f->chapter);
	count_out(f);
	if (f->behind && f->rc < 0)
		rest(f, RETRY_US);
	else if (f->any && !f->seen && f->nmade == 0)
		see(f);
	else if (f->nmade > 0)
		submit(f, &put_job);
	else
		next(f);
}

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
	if (f->any && !f->seen && f->nmade == 0)
		see(f);
	else if (f->nmade > 0 || f->chapter || f->ndrop > 0 || f->tail_from >= 0)
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
	struct wfold *f;

	if (w->node)                    /* rows are all that such a store has */
		return;
	f = mem_zalloc(sizeof(*f));
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
