/* What alerts are made of that stands in the store: new records of the system's log, keys that end soon.  Read on a
 * thread of the pool, a page of records at a time; how far it came is kept once all that it opened is durable, so that
 * a crash between leads to it being read again. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/tally.h"
#include "command/call.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "writer/writer.h"

#include "alert_int.h"

#define PAGE 500                        /* records of a run */
#define FIRST 64                        /* of a store that was never read for alerts: so many before its newest */
#define HISTORY_US UINT64_C(60000000)   /* before its start, what happened is of this server, too */
#define SEEN_MAX 256                    /* things that a run sees; more: those that it saw first */
#define DAY_US UINT64_C(86400000000)
#define STALE_US (8 * DAY_US)
#define STALE_DAILY_US (2 * DAY_US)     /* where the server verifies itself each day */
#define STALE_REST_US UINT64_C(3600000000)      /* behind a start, which makes up for a run that was missed */
#define SOON_US (14 * DAY_US)
#define SOON_WARN_US (7 * DAY_US)
#define SECRET_DAYS 365

#define EVERY_US UINT64_C(3600000000)
#define FIRST_US UINT64_C(60000000)     /* behind its start, when there is less to do */
#define AGAIN_US UINT64_C(60000000)     /* behind one that failed */

struct place {
	bool known;                     /* else it stands in the store */
	int64_t idx;                    /* of the first record of the system's log that was not read */
	uint64_t verified_us;           /* when a verification ended last, or reading began; wall clock */
	int64_t verified;               /* ADM_STATUS_FINDINGS: one had some, of the whole store none since had none */
	uint64_t tested_us, untested_us;        /* when a backup was tested last, 0 = never; since when one should have been */
};

struct alert_reader {
	struct alert_reader_env env;
	struct alert_usual *usual;
	char *file;
	struct place place, kept;       /* where it goes on; what the store knows of that */
	uint64_t due_us;                /* monotonic */
	uint64_t records;               /* of the kinds that rules speak of, at the last time */
	bool reading, closed;
	bool soon;                      /* somebody wants it to be looked at now */
};

struct seen { struct alert_seen s; char subject[ALERT_SUBJECT_SIZE], text[ALERT_TEXT_SIZE]; };

struct reading {
	struct alert_reader *reader;
	const char *file;
	struct place place;       /* before, then behind what was read */
	uint64_t after_us;              /* what happened before is history */
	bool more;                      /* records are left */
	struct seen *seen;
	size_t n;
	int rc;
	struct err err;
};

/* --- on the pool */

/* The place for the next one; NULL: there are too many. */
static struct seen *put(struct reading *r, enum alert_rule rule, enum alert_severity severity, int64_t tenant_id,
			const char *subject)
{
	struct seen *s = r->n < SEEN_MAX ? &r->seen[r->n++] : NULL;

	if (!s)
		return NULL;
	s->s = (struct alert_seen){ .rule = rule, .severity = severity, .tenant_id = tenant_id };
	(void)snprintf(s->subject, sizeof(s->subject), "%s", subject);
	return s;
}

static void see_crash(struct reading *r, uint64_t ts_us)
{
	struct seen *s = ts_us < r->after_us ? NULL : put(r, ALERT_audit_gap, ALERT_PAGE, 0, "server");
	char at[32];

	if (s)
		(void)snprintf(s->text, sizeof(s->text),
			       "The server that started at %s found that the one before it had not stopped: what ran then has no "
			       "end of its own on record. Look: toolcrib audit continuity",
			       clock_format_utc(ts_us, at, sizeof(at)));
}

static void see_drift(struct reading *r, uint64_t ts_us, const char *obj)
{
	struct seen *s = ts_us < r->after_us ? NULL : put(r, ALERT_drift, ALERT_PAGE, 0, obj);

	if (s)
		(void)snprintf(s->text, sizeof(s->text),
			       "What its upstream says of %s is not what was accepted, and it was disabled. "
			       "Look: toolcrib upstream list, then upstream diff", obj);
}

/* A verification that came to its end, by its record: "uid 0: audit verify" of the whole store, or "daily: INTACT,
 * ...", the server's own, which reads what is new and a part of what is old: what it does not find may be there. */
static void see_verification(struct reading *r, struct db_stmt *st, uint64_t ts_us)
{
	const int64_t status = db_col_i64(st, 3);
	size_t len = 0, n = 0;
	const void *ext = db_col_blob(st, 4, &len);
	const uint8_t *p = audit_field_find(ext, len, AUDIT_TAG_COMMAND, &n);
	char *line = mem_strndup(p ? (const char *)p : "", n);
	const bool daily = strncmp(line, "daily: ", 7) == 0;
	const bool whole = !daily && strstr(line, ": audit verify") && !strstr(line, " tenant=");

	free(line);
	if ((!daily && !whole) || (status != 0 && status != ADM_STATUS_FINDINGS && status != ADM_STATUS_GAPS))
		return;
	r->place.verified_us = ts_us;
	if (whole || status == ADM_STATUS_FINDINGS)
		r->place.verified = status;
}

/* That a backup was restored for a test, and nothing damaged was found (OP-515).  Its time is what somebody says, so it
 * is not later than the record. */
static void see_test(struct reading *r, struct db_stmt *st, uint64_t ts_us)
{
	size_t len = 0, counts_len = 0, time_len = 0;
	const void *ext = db_col_blob(st, 4, &len);
	const uint8_t *counts = audit_field_find(ext, len, AUDIT_TAG_COUNTS, &counts_len);
	const uint8_t *time = audit_field_find(ext, len, AUDIT_TAG_TIMES, &time_len);
	uint64_t at_us;

	if (!counts || counts_len != 24 || !time || time_len != 8 || audit_get_be(counts + 8, 8) != 0)
		return;
	at_us = audit_get_be(time, 8);
	at_us = at_us < ts_us ? at_us : ts_us;
	if (at_us > r->place.tested_us)
		r->place.tested_us = at_us;
}

static void see_record(struct reading *r, struct db_stmt *st)
{
	const uint64_t ts_us = (uint64_t)db_col_i64(st, 2);

	r->place.idx = db_col_i64(st, 0) + 1;
	switch (db_col_i64(st, 1)) {
	case AUDIT_SERVER_CRASH:
		see_crash(r, ts_us);
		break;
	case AUDIT_TOOL_DRIFT:
		see_drift(r, ts_us, db_col_text(st, 5, NULL));
		break;
	case AUDIT_AUDIT_VERIFY:
		see_verification(r, st, ts_us);
		break;
	case AUDIT_BACKUP_TEST:
		see_test(r, st, ts_us);
		break;
	}
}

/* 0, or negative; nothing was read for alerts so far: what is older than the newest records is history. */
static int find_place(struct reading *r, struct db *db, struct err *err)
{
	struct db_stmt *st;
	int rc;

	if (r->place.known)
		return 0;
	r->place.known = true;
	st = db_stmt_get(db, SQL_ALERT_PLACE);
	rc = db_step(st, err);
	if (rc == 1)
		r->place = (struct place){ .known = true, .idx = db_col_i64(st, 0),
			.verified_us = (uint64_t)db_col_i64(st, 1), .verified = db_col_i64(st, 2),
			.tested_us = (uint64_t)db_col_i64(st, 3), .untested_us = (uint64_t)db_col_i64(st, 4) };
	db_stmt_put(&st);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	r->place.verified_us = r->reader->env.started_us;
	r->after_us = r->reader->env.started_us - HISTORY_US;
	st = db_stmt_get(db, SQL_ALERT_NEWEST);
	rc = db_step(st, err);
	if (rc == 1 && db_col_i64(st, 0) > FIRST)
		r->place.idx = db_col_i64(st, 0) - FIRST;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int read_records(struct reading *r, struct db *db, struct err *err)
{
	const int64_t until = r->place.idx + PAGE;
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_RECORDS);
	int rc;

	db_bind_i64(st, 1, r->place.idx);
	db_bind_i64(st, 2, until);
	while ((rc = db_step(st, err)) == 1)
		see_record(r, st);
	db_stmt_put(&st);
	r->more = rc == 0 && r->place.idx == until;
	return rc;
}

static void see_key(struct reading *r, struct db_stmt *st, uint64_t now_us)
{
	const uint64_t ends_us = (uint64_t)db_col_i64(st, 3);
	const char *tenant = db_col_text(st, 1, NULL);
	struct seen *s = put(r, ALERT_key_expiring, ends_us - now_us <= SOON_WARN_US ? ALERT_WARN : ALERT_INFO,
			     db_col_i64(st, 0), tenant);
	char at[32];

	if (!s)
		return;
	s->s.value = (uint64_t)db_col_i64(st, 2);
	(void)snprintf(s->text, sizeof(s->text),
		       "%" PRIu64 " of the keys of %s will have expired within 14 days, the first, %s, at %s. "
		       "Look: toolcrib key list %s", s->s.value, tenant, db_col_text(st, 4, NULL),
		       clock_format_utc(ends_us, at, sizeof(at)), tenant);
}

static int read_keys(struct reading *r, struct db *db, struct err *err)
{
	const uint64_t now_us = clock_wall_us();
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_KEYS);
	int rc;

	db_bind_i64(st, 1, (int64_t)now_us);
	db_bind_i64(st, 2, (int64_t)(now_us + SOON_US));
	db_bind_i64(st, 3, ALERT_RULE_MAX);
	while ((rc = db_step(st, err)) == 1)
		see_key(r, st, now_us);
	db_stmt_put(&st);
	return rc;
}

/* Reviews that are overdue, of each tenant and of what belongs to the server (OP-1003). */
static void see_review(struct reading *r, struct db_stmt *st)
{
	const char *whose = db_col_text(st, 1, NULL);
	struct seen *s = put(r, ALERT_review_due, ALERT_WARN, db_col_i64(st, 0), whose);
	char at[32];

	if (!s)
		return;
	s->s.value = (uint64_t)db_col_i64(st, 2);
	(void)snprintf(s->text, sizeof(s->text),
		       "%" PRIu64 " review%s overdue, since %s. Look: toolcrib review due",
		       s->s.value, s->s.value == 1 ? " is" : "s are", clock_format_utc((uint64_t)db_col_i64(st, 3), at, sizeof(at)));
}

static int read_reviews(struct reading *r, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_INVENTORY_OVERDUE);
	int rc;

	db_bind_i64(st, 1, (int64_t)clock_wall_us());
	db_bind_i64(st, 2, ALERT_RULE_MAX);
	while ((rc = db_step(st, err)) == 1)
		see_review(r, st);
	db_stmt_put(&st);
	return rc;
}

static void see_secrets(struct reading *r, struct db_stmt *st, uint64_t now_us)
{
	const uint64_t since_us = (uint64_t)db_col_i64(st, 1);
	struct seen *s = db_col_i64(st, 0) > 0 ? put(r, ALERT_secret_old, ALERT_WARN, 0, "secrets") : NULL;
	char at[32];

	if (!s)
		return;
	s->s.value = (now_us - since_us) / DAY_US;
	s->s.usual = SECRET_DAYS;
	(void)snprintf(s->text, sizeof(s->text),
		       "%" PRId64 " of the secrets of tools had the value that they have for more than %d days, the first, %s, "
		       "since %s (rule secret_old: %d days). Look: toolcrib secret list", db_col_i64(st, 0), SECRET_DAYS,
		       db_col_text(st, 2, NULL), clock_format_utc(since_us, at, sizeof(at)), SECRET_DAYS);
}

static int read_secrets(struct reading *r, struct db *db, struct err *err)
{
	const uint64_t now_us = clock_wall_us();
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_SECRETS);
	int rc;

	db_bind_i64(st, 1, (int64_t)(now_us - SECRET_DAYS * DAY_US));
	rc = db_step(st, err);
	if (rc == 1)
		see_secrets(r, st, now_us);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static void see_verified(struct reading *r)
{
	const struct alert_reader_env *env = &r->reader->env;
	const uint64_t now_us = clock_wall_us(), since_us = r->place.verified_us;
	const uint64_t may_us = env->daily ? STALE_DAILY_US : STALE_US;
	struct seen *s;
	char at[32];

	s = r->place.verified == ADM_STATUS_FINDINGS ? put(r, ALERT_verify_failed, ALERT_PAGE, 0, "store") : NULL;
	if (s)
		(void)snprintf(s->text, sizeof(s->text), "A verification of the store had findings, and none of the whole store "
			       "since then had none: what is in it is not what was written. Look: toolcrib audit verify");
	if (now_us <= since_us + may_us || now_us <= env->started_us + STALE_REST_US)
		return;
	s = put(r, ALERT_verify_stale, ALERT_WARN, 0, "store");
	if (!s)
		return;
	s->s.value = (now_us - since_us) / DAY_US;
	s->s.usual = may_us / DAY_US;
	(void)snprintf(s->text, sizeof(s->text), "No verification has come to its end since %s, %" PRIu64 " days ago (rule "
		       "verify_stale: %" PRIu64 " days%s). Look: toolcrib status, then audit verify",
		       clock_format_utc(since_us, at, sizeof(at)), s->s.value, s->s.usual,
		       env->daily ? ", as audit.verify_at has one each day" : "");
}

static void see_untested(struct reading *r)
{
	const struct alert_reader_env *env = &r->reader->env;
	const uint64_t now_us = clock_wall_us();
	uint64_t since_us;
	struct seen *s;
	char at[32];

	if (env->test_us == 0 || r->place.untested_us == 0)
		r->place.untested_us = now_us;  /* from here on there should be some */
	since_us = r->place.tested_us > r->place.untested_us ? r->place.tested_us : r->place.untested_us;
	if (env->test_us == 0 || now_us <= since_us + 2 * env->test_us)
		return;
	s = put(r, ALERT_restore_untested, ALERT_WARN, 0, "backup.to");
	if (!s)
		return;
	s->s.value = (now_us - since_us) / DAY_US;
	s->s.usual = env->test_us / DAY_US;
	(void)snprintf(s->text, sizeof(s->text), "No backup has been restored for a test since %s, %" PRIu64 " days ago (rule "
		       "restore_untested: twice backup.test_every). Where the identity is: toolcrib restore --test --result FILE; "
		       "here: toolcrib audit restore-test FILE", clock_format_utc(since_us, at, sizeof(at)), s->s.value);
}

static void read_body(void *arg)
{
	struct reading *r = arg;
	struct db *db = NULL;

	r->rc = forms_open_store(db_of_file(r->file), &db, &r->err);
	if (r->rc == 0)
		r->rc = find_place(r, db, &r->err);
	if (r->rc == 0)
		r->rc = read_records(r, db, &r->err);
	if (r->rc == 0)
		r->rc = read_keys(r, db, &r->err);
	if (r->rc == 0)
		r->rc = read_reviews(r, db, &r->err);
	if (r->rc == 0)
		r->rc = read_secrets(r, db, &r->err);
	if (r->rc == 0) {
		see_verified(r);
		see_untested(r);
	}
	db_close(&db);
}

/* --- on the loop */

static void maybe_free(struct alert_reader *r)
{
	if (!r->closed || r->reading)
		return;
	free(r->file);
	free(r);
}

static void tell(struct alerts *a, struct reading *r)
{
	static const enum alert_rule rules[] = { ALERT_audit_gap, ALERT_drift, ALERT_verify_failed, ALERT_verify_stale,
						 ALERT_restore_untested, ALERT_key_expiring, ALERT_review_due,
						 ALERT_secret_old };

	for (size_t i = 0; i < NELEMS(rules); i++)
		alerts_look(a, rules[i]);
	for (size_t i = 0; i < r->n; i++) {
		r->seen[i].s.subject = r->seen[i].subject;
		r->seen[i].s.text = r->seen[i].text;
		alerts_saw(a, &r->seen[i].s);
	}
	alerts_end(a);
}

static void read_done(void *arg)
{
	struct reading *job = arg;
	struct alert_reader *r = job->reader;

	r->reading = false;
	if (job->rc < 0) {
		log_warn(NULL, "the store was not read for alerts, which is tried again where=%s why=\"%s\"", job->err.where,
			 job->err.msg);
		r->due_us = ev_now_us(r->env.loop) + AGAIN_US;
	} else if (!r->closed) {
		r->place = job->place;
		metric_set(METRIC_backup_test_s, r->place.tested_us / 1000000);
		r->due_us = job->more ? 0 : r->due_us;
		tell(r->env.alerts, job);
	}
	free(job->seen);
	free(job);
	maybe_free(r);
}

static void start(struct alert_reader *r)
{
	struct reading *job = mem_zalloc(sizeof(*job));

	job->reader = r;
	job->file = r->file;
	job->place = r->place;
	job->seen = mem_calloc(SEEN_MAX, sizeof(*job->seen));
	r->reading = ev_work(r->env.loop, EV_LANE_READ, read_body, read_done, job) == 0;
	if (r->reading)
		return;
	free(job->seen);                /* much is being read: at the next tick */
	free(job);
	r->due_us = 0;
}

/* --- how far it came */

static int run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct place *p = arg;
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_PLACE_PUT);

	(void)logs;
	db_bind_i64(st, 1, p->idx);
	db_bind_i64(st, 2, (int64_t)p->verified_us);
	db_bind_i64(st, 3, p->verified);
	db_bind_i64(st, 4, (int64_t)p->tested_us);
	db_bind_i64(st, 5, (int64_t)p->untested_us);
	return db_run(&st, err);
}

static void done(void *arg, int rc, const struct err *err)
{
	if (rc < 0)
		log_warn(NULL, "how far the store was read for alerts is not stored why=\"%s\"", err->msg);
	free(arg);
}

static void keep(struct alert_reader *r)
{
	static const struct writer_job job = { .name = "place of alerts", .run = run, .volatile_only = true, .done = done };
	struct place *copy = mem_alloc(sizeof(*copy));

	*copy = r->place;
	if (writer_submit(r->env.writer, &job, copy) == 0)
		r->kept = r->place;
	else
		free(copy);             /* a full queue: at the next tick */
}

static bool is_further(const struct place *p, const struct place *than)
{
	return p->known && (!than->known || p->idx != than->idx || p->verified_us != than->verified_us);
}

/* --- when */

/* Of kinds that rules of the store speak of, by this process. */
static uint64_t records(void)
{
	return tally_records(AUDIT_TOOL_DRIFT) + tally_records(AUDIT_AUDIT_VERIFY) + tally_records(AUDIT_REVIEW_DONE) +
	       tally_records(AUDIT_INVENTORY_CHANGE) + tally_records(AUDIT_BACKUP_TEST);
}

void alert_reader_tick(struct alert_reader *r)
{
	const uint64_t now_us = ev_now_us(r->env.loop), n = records();

	if (!alerts_are_ours(r->env.alerts))
		return;
	(void)alert_usual_tick(r->usual, r->soon);
	r->soon = false;
	if (r->reading)
		return;
	if (is_further(&r->place, &r->kept) && alerts_are_settled(r->env.alerts))
		keep(r);
	if (now_us < r->due_us && n == r->records)
		return;
	r->due_us = now_us + EVERY_US;
	r->records = n;
	start(r);
}

bool alert_reader_is_reading(const struct alert_reader *r)
{
	return r->reading || alert_usual_tick(r->usual, false);
}

void alert_reader_soon(struct alert_reader *r)
{
	r->due_us = 0;
	r->soon = true;
}

struct alert_reader *alert_reader_new(const struct alert_reader_env *env)
{
	struct alert_reader *r = mem_zalloc(sizeof(*r));

	r->env = *env;
	r->file = path_join(env->store, DB_FILE);
	r->due_us = ev_now_us(env->loop) + FIRST_US;
	r->usual = alert_usual_new(env);
	return r;
}

void alert_reader_free(struct alert_reader **rp)
{
	struct alert_reader *r = rp ? *rp : NULL;

	if (!r)
		return;
	*rp = NULL;
	alert_usual_free(&r->usual);
	r->closed = true;
	maybe_free(r);
}
