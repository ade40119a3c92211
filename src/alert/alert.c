/* Alerts that are open: seen in rounds, counted, said, and brought to the store by jobs of the writer.  An alert is its
 * owner's from the moment it is seen until the store knows that it is over; while a job of it is under way it stays
 * where it is.  Of nodes that share the store, who keeps it has them.  Loop thread, bodies of jobs on the writer's. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "db/db.h"
#include "ev/ev.h"
#include "writer/writer.h"

#include "alert_int.h"

/* One alert that is open, in memory and on its way to the store. */
struct alert {
	struct alerts *owner;
	int64_t id;                     /* 0: not durable yet */
	enum alert_rule rule;
	enum alert_severity severity;
	int64_t tenant_id;
	uint64_t first_us, last_us, over_us;    /* wall clock */
	uint64_t seen_us, stored_us;    /* monotonic; when it was seen, when the store heard of it */
	uint64_t count, value, usual;
	bool acknowledged;
	bool over;                      /* and is gone once the store knows */
	bool again;                     /* it has become worse than the store knows */
	bool busy;                      /* a job of it is under way */
	bool said;                      /* on the ways out */
	bool round;                     /* seen in this round */
	char subject[ALERT_SUBJECT_SIZE], text[ALERT_TEXT_SIZE];
};

struct alerts {
	struct alert_env env;
	struct alert_ways *ways;
	struct map *open;               /* by rule, tenant, subject */
	unsigned n[ALERT_RULES];        /* in it */
	bool looked[ALERT_RULES];       /* in this round */
	uint64_t silent_us[ALERT_RULES];        /* until then, wall clock; 0 = no */
	size_t jobs;                    /* under way */
	bool ours;                      /* else another node keeps the store, and they are that one's */
	bool closed;
};

/* --- which alert */

static bool is_silent(const struct alerts *a, enum alert_rule rule)
{
	return a->silent_us[rule] > clock_wall_us();
}

static void tell_ways(const struct alert *al)
{
	struct alert_news n = { .rule = al->rule, .severity = al->severity, .id = al->id, .tenant_id = al->tenant_id,
				.first_us = al->first_us, .last_us = al->last_us, .over_us = al->over ? al->over_us : 0,
				.count = al->count, .value = al->value, .usual = al->usual, .over = al->over };

	if (!al->owner->ways)
		return;
	(void)snprintf(n.subject, sizeof(n.subject), "%s", al->subject);
	(void)snprintf(n.text, sizeof(n.text), "%s", al->text);
	alert_ways_hear(al->owner->ways, &n, (is_silent(al->owner, al->rule) ? ALERT_SILENT : 0) |
			(al->acknowledged ? ALERT_LOOKED_AFTER : 0));
}

static void make_over(struct alert *al)
{
	al->over = true;
	al->over_us = clock_wall_us();
}

struct key { char text[ALERT_SUBJECT_SIZE + 64]; };

static const char *key_of(enum alert_rule rule, int64_t tenant_id, const char *subject, struct key *ret)
{
	(void)snprintf(ret->text, sizeof(ret->text), "%d %" PRId64 " %s", (int)rule, tenant_id, subject);
	return ret->text;
}

static struct alert *add(struct alerts *a, const struct alert *from)
{
	struct alert *al = mem_alloc(sizeof(*al));
	struct key key;

	*al = *from;
	al->owner = a;
	(void)map_set_z(a->open, key_of(al->rule, al->tenant_id, al->subject, &key), al);
	a->n[al->rule]++;
	return al;
}

static void drop(struct alerts *a, struct alert *al)
{
	struct key key;

	(void)map_del_z(a->open, key_of(al->rule, al->tenant_id, al->subject, &key));   /* it is in hand */
	a->n[al->rule]--;
	free(al);
}

static void maybe_free(struct alerts *a)
{
	void *value;

	if (!a->closed || a->jobs > 0)
		return;
	for (size_t it = 0; map_next(a->open, &it, NULL, NULL, &value);)
		free(value);
	map_free(&a->open);
	free(a);
}

/* --- jobs: the alert as it was when the job began, and what the store is to know of it */

enum write { WRITE_OPEN, WRITE_AGAIN, WRITE_COUNT, WRITE_OVER };
struct job { struct alert *al, as; enum write what; int64_t id; };

static int record_open(const struct alert *al, int64_t id, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct audit_event ev;
	char obj[40];

	(void)snprintf(obj, sizeof(obj), "alert/%" PRId64, id);
	audit_event_init(&ev, AUDIT_ALERT_OPEN, al->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.rule = alert_rule_name(al->rule);
	ev.obj = obj;
	ev.detail = al->text;
	return audit_append(logs, db, &ev, NULL, err);
}

static void bind_open(struct db_stmt *st, const struct alert *al)
{
	db_bind_textz(st, 1, alert_rule_name(al->rule));
	db_bind_textz(st, 2, al->subject);
	db_bind_i64(st, 3, al->tenant_id);
	db_bind_i64(st, 4, al->severity);
	db_bind_i64(st, 5, (int64_t)al->first_us);
	db_bind_i64(st, 6, (int64_t)al->last_us);
	db_bind_i64(st, 7, (int64_t)al->count);
	db_bind_textz(st, 8, al->text);
	db_bind_i64(st, 9, (int64_t)al->value);
	db_bind_i64(st, 10, (int64_t)al->usual);
}

/* The oldest that are over go: so many stay. */
static int forget(struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_FORGET);

	db_bind_i64(st, 1, ALERT_KEPT);
	return db_run(&st, err);
}

static int write_open(struct job *job, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_INSERT);
	int rc;

	bind_open(st, &job->as);
	job->id = 0;
	rc = db_run_id(&st, &job->id, err);
	if (rc == 0)
		rc = record_open(&job->as, job->id, db, logs, err);
	return rc < 0 ? rc : forget(db, err);
}

static int write_change(const struct job *job, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, job->what == WRITE_AGAIN ? SQL_ALERT_AGAIN : SQL_ALERT_COUNT);

	db_bind_i64(st, 1, job->as.id);
	db_bind_i64(st, 2, job->as.tenant_id);
	db_bind_i64(st, 3, job->as.severity);
	db_bind_i64(st, 4, (int64_t)job->as.last_us);
	db_bind_i64(st, 5, (int64_t)job->as.count);
	db_bind_textz(st, 6, job->as.text);
	db_bind_i64(st, 7, (int64_t)job->as.value);
	db_bind_i64(st, 8, (int64_t)job->as.usual);
	return db_run(&st, err);
}

static int write_over(const struct job *job, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_END);

	db_bind_i64(st, 1, job->as.id);
	db_bind_i64(st, 2, job->as.tenant_id);
	db_bind_i64(st, 3, (int64_t)job->as.last_us);
	db_bind_i64(st, 4, (int64_t)job->as.count);
	db_bind_i64(st, 5, (int64_t)job->as.over_us);
	return db_run(&st, err);
}

static int run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct job *job = arg;
	int rc;

	switch (job->what) {
	case WRITE_OPEN:
		return write_open(job, db, logs, err);
	case WRITE_OVER:
		return write_over(job, db, err);
	case WRITE_AGAIN:
		rc = write_change(job, db, err);
		return rc < 0 ? rc : record_open(&job->as, job->as.id, db, logs, err);
	case WRITE_COUNT:
		break;
	}
	return write_change(job, db, err);
}

/* ERR_NOT_FOUND: its tenant has gone meanwhile, and has no log any more. */
static void done(void *arg, int rc, const struct err *err)
{
	struct job *job = arg;
	struct alert *al = job->al;
	struct alerts *a = al->owner;

	al->busy = false;
	a->jobs--;
	if (rc < 0)
		log_warn(NULL, "alert not stored, which is tried again rule=%s subject=\"%s\" why=\"%s\"",
			 alert_rule_name(al->rule), al->subject, err->msg);
	else if (job->what == WRITE_OPEN)
		al->id = job->id;
	if (rc == ERR_NOT_FOUND)
		make_over(al);
	if (job->what == WRITE_OPEN && a->ways) {
		tell_ways(al);
		alert_ways_go(a->ways);
	}
	if (rc == 0 && job->what != WRITE_OVER)
		al->stored_us = ev_now_us(a->env.loop);
	if (rc == 0 && job->what == WRITE_AGAIN)
		al->again = al->severity > job->as.severity;
	if (rc == ERR_NOT_FOUND || (rc == 0 && job->what == WRITE_OVER))
		drop(a, al);
	free(job);
	maybe_free(a);
}

static void submit(struct alert *al, enum write what)
{
	static const struct writer_job recorded = { .name = "alert", .run = run, .done = done },
		counted = { .name = "alert", .run = run, .done = done, .volatile_only = true };
	const bool on_record = what == WRITE_OPEN || what == WRITE_AGAIN;
	struct job *job = mem_zalloc(sizeof(*job));

	*job = (struct job){ .al = al, .as = *al, .what = what };
	if (writer_submit(al->owner->env.writer, on_record ? &recorded : &counted, job) < 0) {
		free(job);              /* a full queue: at the next round */
		return;
	}
	al->busy = true;
	al->owner->jobs++;
}

static void bring_to_store(struct alert *al, uint64_t now_us)
{
	if (al->busy)
		return;
	if (al->id == 0)
		submit(al, WRITE_OPEN);
	else if (al->over)
		submit(al, WRITE_OVER);
	else if (al->again)
		submit(al, WRITE_AGAIN);
	else if (al->seen_us > al->stored_us && now_us - al->stored_us >= ALERT_STORE_MS * UINT64_C(1000))
		submit(al, WRITE_COUNT);
}

/* --- rounds */

/* The way out that is always there: the log. */
static void say(struct alert *al, const char *news)
{
	if (is_silent(al->owner, al->rule))
		return;
	al->said = true;
	log_warn(NULL, "alert %s rule=%s severity=%s subject=\"%s\" text=\"%s\"", news, alert_rule_name(al->rule),
		 alert_severity_name(al->severity), al->subject, al->text);
}

static void say_end(const struct alert *al)
{
	if (al->said && !is_silent(al->owner, al->rule))
		log_info(NULL, "alert over rule=%s subject=\"%s\"", alert_rule_name(al->rule), al->subject);
}

void alerts_look(struct alerts *a, enum alert_rule rule)
{
	a->looked[rule] = true;
}

static struct alert *add_new(struct alerts *a, const struct alert *as)
{
	if (a->n[as->rule] >= ALERT_RULE_MAX) {
		metric_inc(METRIC_alerts_dropped);
		return NULL;
	}
	metric_inc(METRIC_alerts_opened);
	return add(a, as);
}

void alerts_saw(struct alerts *a, const struct alert_seen *seen)
{
	const uint64_t wall_us = clock_wall_us();
	struct alert as = { .rule = seen->rule, .severity = seen->severity, .tenant_id = seen->tenant_id,
			    .first_us = wall_us };
	struct alert *al;
	struct key key;

	if (a->closed || !a->ours)
		return;
	text_printable(seen->subject, strlen(seen->subject), as.subject, sizeof(as.subject));
	al = map_get_z(a->open, key_of(as.rule, as.tenant_id, as.subject, &key));
	if (!al)
		al = add_new(a, &as);
	if (!al)
		return;
	if (al->over) {                 /* it has begun again before the store knew that it was over */
		al->over = false;
		al->said = false;
	}
	if (seen->severity > al->severity) {
		al->acknowledged = false;
		al->again = al->id != 0;
		al->severity = seen->severity;
		if (al->said)
			say(al, "worse");
	}
	text_printable(seen->text, strlen(seen->text), al->text, sizeof(al->text));
	al->last_us = wall_us;
	al->seen_us = ev_now_us(a->env.loop);
	al->value = seen->value;
	al->usual = seen->usual;
	al->count++;
	al->round = true;
}

/* True: it holds no more, for long enough. */
static bool is_over(const struct alerts *a, const struct alert *al, uint64_t now_us)
{
	return a->looked[al->rule] && !al->round && now_us - al->seen_us >= alert_rule_rest_us(al->rule);
}

static bool take_over(struct alerts *a);

void alerts_end(struct alerts *a)
{
	const uint64_t now_us = ev_now_us(a->env.loop);
	void *value;

	if (!a->closed && !take_over(a))
		return;
	for (size_t it = 0; !a->closed && map_next(a->open, &it, NULL, NULL, &value);) {
		struct alert *al = value;

		if (!al->over && is_over(a, al, now_us)) {
			make_over(al);
			say_end(al);
		}
		if (!al->said && !al->over && !al->acknowledged)
			say(al, "opened");
		al->round = false;
		tell_ways(al);
		bring_to_store(al, now_us);
	}
	memset(a->looked, 0, sizeof(a->looked));
	if (a->ways)
		alert_ways_go(a->ways);
}

bool alerts_are_settled(const struct alerts *a)
{
	void *value;

	for (size_t it = 0; map_next(a->open, &it, NULL, NULL, &value);)
		if (((const struct alert *)value)->id == 0)
			return false;
	return true;
}

/* --- what commands did */

void alerts_acknowledged(struct alerts *a, int64_t id)
{
	void *value;

	for (size_t it = 0; map_next(a->open, &it, NULL, NULL, &value);) {
		struct alert *al = value;

		if (al->id != id)
			continue;
		al->acknowledged = true;
		if (alert_rule_ends_by_ack(al->rule)) {
			make_over(al);
			say_end(al);
			bring_to_store(al, ev_now_us(a->env.loop));
		}
		tell_ways(al);
		if (a->ways)
			alert_ways_go(a->ways);
		return;
	}
}

void alerts_silenced(struct alerts *a, enum alert_rule rule, uint64_t until_us)
{
	a->silent_us[rule] = until_us;
}

/* --- figures */

void alerts_counts(const struct alerts *a, alerts_count_fn *fn, void *arg)
{
	unsigned n[ALERT_RULES][ALERT_SEVERITIES] = { { 0 } };
	void *value;

	for (size_t it = 0; map_next(a->open, &it, NULL, NULL, &value);) {
		const struct alert *al = value;

		n[al->rule][al->severity] += !al->over;
	}
	for (int rule = 0; rule < ALERT_RULES; rule++)
		for (int s = 0; s < ALERT_SEVERITIES; s++)
			if (n[rule][s] > 0 || s == (int)alert_rule_severity((enum alert_rule)rule))
				fn(arg, (enum alert_rule)rule, (enum alert_severity)s, n[rule][s]);
}

unsigned alerts_waiting(const struct alerts *a)
{
	unsigned n = 0;
	void *value;

	for (size_t it = 0; map_next(a->open, &it, NULL, NULL, &value);)
		n += !((const struct alert *)value)->over && !((const struct alert *)value)->acknowledged;
	return n;
}

struct alert_ways *alerts_ways(const struct alerts *a)
{
	return a->ways;
}

int alerts_describe(struct db *db, char *ret, size_t size, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_COUNTS);
	uint64_t n[ALERT_SEVERITIES] = { 0 }, all = 0;
	size_t at;
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		const int64_t severity = db_col_i64(st, 0);

		if (severity >= 0 && severity < ALERT_SEVERITIES)
			all += n[severity] = (uint64_t)db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	at = (size_t)snprintf(ret, size, all > 0 ? "%" PRIu64 " open:" : "none", all);
	for (int s = ALERT_SEVERITIES - 1; s >= 0 && all > 0 && at < size; s--)
		if (n[s] > 0)
			at += (size_t)snprintf(ret + at, size - at, " %" PRIu64 " %s", n[s],
					       alert_severity_name((enum alert_severity)s));
	if (all > 0 && at < size)
		(void)snprintf(ret + at, size - at, "; toolcrib alerts");
	return 0;
}

/* --- from the store */

static void load_one(struct alerts *a, struct db_stmt *st, uint64_t now_us)
{
	struct alert al = { .id = db_col_i64(st, 0), .tenant_id = db_col_i64(st, 3), .first_us = (uint64_t)db_col_i64(st, 6),
			    .last_us = (uint64_t)db_col_i64(st, 7), .count = (uint64_t)db_col_i64(st, 8),
			    .value = (uint64_t)db_col_i64(st, 10), .usual = (uint64_t)db_col_i64(st, 11),
			    .acknowledged = db_col_i64(st, 5) == ALERT_ACKNOWLEDGED, .said = true, .seen_us = now_us,
			    .stored_us = now_us };
	const int64_t severity = db_col_i64(st, 4);
	struct key key;

	if (alert_rule_find(db_col_text(st, 1, NULL), &al.rule) < 0 || severity < 0 || severity >= ALERT_SEVERITIES)
		return;                 /* of another release: acknowledging it ends it */
	al.severity = (enum alert_severity)severity;
	db_col_copy(st, 2, al.subject, sizeof(al.subject));
	db_col_copy(st, 9, al.text, sizeof(al.text));
	if (!map_get_z(a->open, key_of(al.rule, al.tenant_id, al.subject, &key)))
		(void)add(a, &al);
}

static int load(struct alerts *a, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_LOAD);
	enum alert_rule rule;
	int rc;

	while ((rc = db_step(st, err)) == 1)
		load_one(a, st, ev_now_us(a->env.loop));
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_ALERT_SILENCES);
	while ((rc = db_step(st, err)) == 1)
		if (alert_rule_find(db_col_text(st, 0, NULL), &rule) == 0)
			a->silent_us[rule] = (uint64_t)db_col_i64(st, 1);
	db_stmt_put(&st);
	return rc;
}

/* Another node kept the store until now (CLUSTER K-211): what is open, and who was told of it, is what that one has
 * left in the store.  False: they are not ours; of an error, that is looked at again with the next round. */
static bool take_over(struct alerts *a)
{
	struct alert_ways *ways = NULL;
	struct db *db = NULL;
	struct err err;
	int rc;

	if (a->ours || !writer_keeps(a->env.writer))
		return a->ours;
	rc = db_open_store(db_in(a->env.store), &db, &err);
	if (rc == 0)
		rc = load(a, db, &err);
	if (rc == 0)
		rc = alert_ways_open(&a->env, db, &ways, &err);
	db_close(&db);
	if (rc < 0) {
		log_warn(NULL, "alerts of the node before could not be read why=\"%s\"", err.msg);
		return false;
	}
	alert_ways_close(&a->ways);
	a->ways = ways;
	a->ours = true;
	return true;
}

bool alerts_are_ours(const struct alerts *a)
{
	return a->ours;
}

int alerts_open(const struct alert_env *env, struct db *db, struct alerts **ret, struct err *err)
{
	struct alerts *a = mem_zalloc(sizeof(*a));
	int rc;

	a->env = *env;
	a->open = map_new();
	a->ours = writer_keeps(env->writer);
	rc = a->ours ? load(a, db, err) : 0;
	if (rc == 0)
		rc = alert_ways_open(env, db, &a->ways, err);
	if (rc < 0) {
		alerts_close(&a);
		return rc;
	}
	*ret = a;
	return 0;
}

void alerts_close(struct alerts **ap)
{
	struct alerts *a = ap ? *ap : NULL;

	if (!a)
		return;
	*ap = NULL;
	alert_ways_close(&a->ways);
	a->closed = true;
	maybe_free(a);
}
