/* Months become files while a server runs (writer/seal.h).  A step is work of the lane for it: it goes on over the logs
 * until there is something for the writer to do, a file to put or blocks to drop.  What a step uses is whose step runs;
 * while none does, it is the loop's.  One step or job is under way at most. */

#include "config.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/seal.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "writer/seal.h"
#include "writer/writer.h"

#include "writer_int.h"

enum { CLOSE_MS = 5000 };
#define EVERY_US (WRITER_SEAL_EVERY_S * UINT64_C(1000000))

/* What was asked for, and what came of it. */
struct pass {
	bool on, make;                  /* make: false: leftovers go, and that is all */
	bool look_hot;                  /* not yet whether too much is in blocks */
	char *tenant;                   /* NULL: all logs */
	int64_t until_us;
	writer_seal_fn *done;           /* NULL: nobody asked */
	void *arg;
	struct writer_sealed sum;
	int rc; struct err err;         /* the first reason why a log was left */
};

enum todo { NOTHING, PUT, DROP, UNMAKE };

struct wseal {
	struct wfollower follower;
	struct writer *w;               /* NULL: it is gone */
	struct ev_loop *loop;
	struct ev_timer *timer;
	char *store, *file;
	struct writer_seal_limits limits;
	uint64_t floor;                 /* bytes of the file system that are for calls */
	bool by_itself;
	/* the loop's */
	struct pass next;
	bool busy, on_lane;             /* something is under way; it is a step */
	bool ended;                     /* closed, and nothing is under way */
	/* whose step it is */
	struct db *db;
	struct pass pass;
	int64_t at;                     /* logs up to this one are done with */
	int64_t log;                    /* the one that it stands at */
	enum todo todo;
	struct audit_sealed made;       /* of PUT, UNMAKE */
	struct str away;                /* what the log has last said of files that are not here */
	atomic_bool stop;
};

/* --- a step */

static void failed(struct pass *p, int rc, const struct err *err)
{
	if (p->rc == 0) {
		p->rc = rc;
		p->err = *err;
	}
	metric_inc(METRIC_seal_failed);
}

static int open_reader(struct wseal *s, struct err *err)
{
	int rc = s->db ? 0 : forms_open_store(db_of_file(s->file), &s->db, err);

	return rc < 0 ? rc : forms_see(s->db, err);
}

/* 1: s->log is the next one; 0: there is none. */
static int next_log(struct wseal *s, struct err *err)
{
	const char *tenant = s->pass.tenant;
	struct db_stmt *st = db_stmt_get(s->db, tenant ? SQL_SEAL_LOG_OF : SQL_SEAL_NEXT_LOG);
	int rc;

	if (tenant)
		db_bind_textz(st, 1, tenant);
	else
		db_bind_i64(st, 1, s->at);
	rc = db_step(st, err);
	s->log = rc == 1 && db_col_type(st, 0) != DB_NULL ? db_col_i64(st, 0) : 0;
	db_stmt_put(&st);
	if (rc == 0 && tenant)
		rc = err_set(err, ERR_NOT_FOUND, "tenant", "there is no tenant %s", tenant);
	return rc < 0 ? rc : s->log > s->at;
}

/* As a pass begins that is nobody's: with too much in blocks, what they have is sealed whatever its month. */
static int look_hot(struct wseal *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(s->db, SQL_SEAL_HOT);
	int rc = db_step(st, err);

	if (rc == 1 && (uint64_t)db_col_i64(st, 0) > s->limits.hot) {
		s->pass.until_us = INT64_MAX;
		metric_inc(METRIC_seal_early);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* The folder may be another file system (SC-808).  What is left is for calls. */
static int check_room(struct wseal *s, struct err *err)
{
	char *folder = path_join(s->store, FORMS_FOLDER);
	int64_t needs = 0;
	struct statvfs fs;
	int rc = audit_seal_room(s->db, &s->made, &needs, err);

	if (rc == 0 && statvfs(folder, &fs) == 0) {
		const uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;

		if (left < s->floor || left - s->floor < (uint64_t)needs)
			rc = err_set(err, ERR_LIMIT, folder, "a sealed file of %" PRId64 " records may take %" PRId64 " bytes, and "
				     "%" PRIu64 " are free, of which %" PRIu64 " are for calls", s->made.to - s->made.from, needs,
				     left, s->floor);
	}
	free(folder);
	return rc;
}

/* 1: s->todo says what is to be done for this log; 0: nothing is. */
static int look_at(struct wseal *s, struct err *err)
{
	bool left = false;
	int rc = audit_seal_left(s->db, s->log, &left, err);

	if (rc < 0 || left) {
		s->todo = left ? DROP : NOTHING;
		return rc < 0 ? rc : 1;
	}
	rc = s->pass.make ? audit_seal_next(s->db, s->log, s->pass.until_us, &s->made, err) : 0;
	if (rc != 1)
		return rc;
	rc = check_room(s, err);
	if (rc == 0)
		rc = audit_seal_make(s->db, &s->made, &s->stop, err);
	if (rc < 0)
		audit_sealed_fini(&s->made);
	s->todo = rc < 0 ? NOTHING : PUT;
	return rc < 0 ? rc : 1;
}

/* Of a server, as each pass begins: a file that is away is no reason not to start, and one to be told of. */
static void say_away(struct wseal *s)
{
	struct str now = STR_INIT;
	struct err err;

	if (forms_away(s->db, &now, &err) == 0 && strcmp(str_text(&now), str_text(&s->away)) != 0) {
		if (now.len > 0)
			log_warn(NULL, "%s: reports say what is missing, and nothing of them is verified or erased", str_text(&now));
		else
			log_info(NULL, "all sealed files are here again");
		str_reset(&s->away);
		str_puts(&s->away, str_text(&now));
	}
	str_fini(&now);
}

static void step(void *arg)
{
	struct wseal *s = arg;
	struct err err;
	int rc = open_reader(s, &err);

	if (rc == 0 && s->by_itself && s->at == 0)
		say_away(s);
	if (rc == 0 && s->pass.look_hot)
		rc = look_hot(s, &err);
	s->pass.look_hot = false;

	if (s->todo == UNMAKE && rc == 0)
		audit_seal_unmake(s->db, &s->made);     /* else the next start does */
	if (s->todo == UNMAKE)
		audit_sealed_fini(&s->made);
	s->todo = NOTHING;
	while (rc == 0 && !atomic_load(&s->stop) && (rc = next_log(s, &err)) == 1) {
		rc = look_at(s, &err);
		if (rc == 1)
			return;
		if (rc < 0 && rc != ERR_CANCELLED)
			failed(&s->pass, rc, &err);
		s->at = s->log;
		rc = 0;
	}
	if (rc < 0)
		failed(&s->pass, rc, &err);
	db_close(&s->db);               /* it would hold back what empties the log of the file */
}

/* --- the writer's part */

static int put_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct wseal *s = arg;
	int rc;

	if (!forms_seen(db))
		return err_set(err, ERR_BUSY, "", "the first block of this store has only just come");
	rc = audit_seal_put(logs, db, &s->made, err);
	CRASH_AT("seal.noted");
	return rc;
}

static int drop_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct wseal *s = arg;
	bool more = false;
	int rc = audit_seal_drop(db, s->log, &more, err);

	(void)logs;
	CRASH_AT("seal.half");
	if (rc == 0 && !more)
		s->todo = NOTHING;
	return rc;
}

/* --- what comes of it, on the loop */

static void go_on(struct wseal *s);

static void pass_fini(struct pass *p)
{
	free(p->tenant);
	*p = (struct pass){ 0 };
}

static void free_seal(struct wseal *s)
{
	audit_sealed_fini(&s->made);
	db_close(&s->db);
	str_fini(&s->away);
	pass_fini(&s->pass);
	pass_fini(&s->next);
	free(s->file);
	free(s->store);
	free(s);
}

/* False: it was closed meanwhile, and s is gone. */
static bool came_back(struct wseal *s)
{
	s->busy = s->on_lane = false;
	if (s->w)
		return true;
	if (!s->ended)
		s->ended = true;        /* who closes waits for it, and frees it */
	else
		free_seal(s);           /* nobody waits any more */
	return false;
}

static void end_pass(struct wseal *s, struct pass *p)
{
	struct pass was = *p;

	*p = (struct pass){ 0 };
	metric_inc(METRIC_seal_passes);
	if (was.rc < 0)
		log_warn(NULL, "records were not sealed, which is tried again where=%s why=\"%s\"", was.err.where, was.err.msg);
	if (was.sum.files > 0)
		log_info(NULL, "records are in sealed files files=%" PRId64 " records=%" PRId64, was.sum.files, was.sum.records);
	if (was.done)
		was.done(was.arg, was.rc, &was.sum, &was.err);
	pass_fini(&was);
	if (s->w && s->by_itself)
		ev_timer_start(s->timer, EVERY_US);
}

/* What was asked for comes before what is done by itself. */
static void begin(struct wseal *s, bool due)
{
	if (s->busy || s->pass.on)
		return;
	if (s->next.on) {
		s->pass = s->next;
		s->next = (struct pass){ 0 };
	} else if (due && s->by_itself) {
		s->pass = (struct pass){ .on = true, .make = s->limits.on,
			.look_hot = s->limits.on && s->limits.hot > 0,
			.until_us = (int64_t)clock_wall_us() - s->limits.after_s * INT64_C(1000000) };
	} else {
		return;
	}
	s->at = 0;
	atomic_store(&s->stop, false);
	go_on(s);
}

static void on_timer(void *arg)
{
	begin(arg, true);
}

static void stepped(void *arg)
{
	struct wseal *s = arg;

	if (!came_back(s))
		return;
	if (atomic_load(&s->stop) && s->todo == PUT) {
		metric_inc(METRIC_seal_conflicts);
		s->todo = UNMAKE;
	}
	if (atomic_load(&s->stop) && s->pass.rc == 0)
		s->pass.rc = err_set(&s->pass.err, ERR_CONFLICT, "audit", "something is being erased meanwhile");
	if (s->todo != NOTHING) {
		go_on(s);
		return;
	}
	end_pass(s, &s->pass);
	begin(s, false);
}

static void put_done(void *arg, int rc, const struct err *err)
{
	struct wseal *s = arg;

	s->todo = rc == 0 ? DROP : UNMAKE;
	if (!came_back(s))
		return;
	if (rc == 0) {
		s->pass.sum.files++;
		s->pass.sum.records += s->made.to - s->made.from;
		s->pass.sum.bytes += s->made.bytes;
		metric_inc(METRIC_seal_files);
		metric_add(METRIC_seal_records, (uint64_t)(s->made.to - s->made.from));
		audit_sealed_fini(&s->made);
	} else {
		if (rc == ERR_CONFLICT)
			metric_inc(METRIC_seal_conflicts);
		failed(&s->pass, rc, err);
		s->at = s->log;
	}
	go_on(s);
}

static void drop_done(void *arg, int rc, const struct err *err)
{
	struct wseal *s = arg;

	if (!came_back(s))
		return;
	if (rc < 0) {                   /* they are leftovers, and go with the next pass */
		failed(&s->pass, rc, err);
		s->at = s->log;
		s->todo = NOTHING;
	}
	go_on(s);
}

static const struct writer_job put_job = { .name = "sealed file", .run = put_run, .done = put_done };
static const struct writer_job drop_job = { .name = "blocks of files", .run = drop_run, .volatile_only = true,
	.done = drop_done };

/* A job that cannot be submitted is one that failed. */
static void submit(struct wseal *s, const struct writer_job *job)
{
	struct err err = { 0 };
	int rc = writer_submit(s->w, job, s);

	if (rc == 0)
		return;
	(void)err_set(&err, (enum err_code)rc, "audit", "the writer takes nothing more");
	job->done(s, rc, &err);
}

/* The next step, or what the last one has left to do. */
static void go_on(struct wseal *s)
{
	struct err err = { 0 };

	s->busy = true;
	if (s->todo == PUT || s->todo == DROP) {
		submit(s, s->todo == PUT ? &put_job : &drop_job);
		return;
	}
	s->on_lane = true;
	if (ev_work(s->loop, EV_LANE_SEAL, step, stepped, s) == 0)
		return;
	s->busy = s->on_lane = false;
	failed(&s->pass, err_set(&err, ERR_BUSY, "audit", "too much waits to be sealed"), &err);
	end_pass(s, &s->pass);
}

/* --- begin and end */

static struct wseal *seal_of(const struct writer *w)
{
	return w->sealer ? CONTAINER_OF(w->sealer, struct wseal, follower) : NULL;
}

int writer_seal_now(struct writer *w, const char *tenant, uint64_t until_us, writer_seal_fn *done, void *arg,
		    struct err *err)
{
	struct wseal *s = seal_of(w);

	if (!s || s->next.on)
		return err_set(err, ERR_BUSY, "", s ? "somebody waits to have records sealed already" : "nothing is sealed now");
	s->next = (struct pass){ .on = true, .make = true, .tenant = tenant ? mem_strdup(tenant) : NULL,
		.until_us = (int64_t)until_us, .done = done, .arg = arg };
	if (!s->pass.on)
		ev_timer_start(s->timer, 0);
	return 0;
}

bool writer_seal_yield(struct writer *w)
{
	struct wseal *s = seal_of(w);

	if (!s || (!s->on_lane && s->todo != PUT && s->todo != UNMAKE))
		return true;
	atomic_store(&s->stop, true);
	return false;
}

static void give_up(struct pass *p)
{
	struct pass was = *p;

	*p = (struct pass){ 0 };
	if (was.on && was.rc == 0)
		was.rc = err_set(&was.err, ERR_CANCELLED, "", "the server is stopping");
	if (was.done)
		was.done(was.arg, was.rc, &was.sum, &was.err);
	pass_fini(&was);
}

static void close_seal(struct wfollower *follower)
{
	struct wseal *s = CONTAINER_OF(follower, struct wseal, follower);

	s->w->sealer = NULL;
	s->w = NULL;
	ev_timer_free(&s->timer);
	atomic_store(&s->stop, true);
	give_up(&s->next);
	if (s->busy && !ev_loop_run_until(s->loop, &s->ended, CLOSE_MS)) {
		struct pass told = { .on = true, .done = s->pass.done, .arg = s->pass.arg };

		give_up(&told);         /* the pass itself is whose step it is */
		s->ended = true;        /* whatever it hangs in: came_back() frees it */
		return;
	}
	if ((s->todo == PUT || s->todo == UNMAKE) && s->db)
		audit_seal_unmake(s->db, &s->made);
	give_up(&s->pass);
	free_seal(s);
}

void writer_seal_start(struct writer *w, const struct writer_seal_limits *limits)
{
	struct wseal *s;

	if (w->node)                    /* rows are all that such a store has */
		return;
	s = mem_zalloc(sizeof(*s));
	s->w = w;
	s->loop = w->loop;
	s->by_itself = limits != NULL;
	if (limits)
		s->limits = *limits;
	s->store = mem_strdup(w->store);
	s->file = path_join(w->store, DB_FILE);
	s->floor = w->limits.space_floor;
	s->timer = ev_timer_new(s->loop, on_timer, s);
	atomic_init(&s->stop, false);
	s->follower.close = close_seal;
	w->sealer = &s->follower;
	if (s->by_itself)
		ev_timer_start(s->timer, 0);
}
