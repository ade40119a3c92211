/* Calls that are unusual for who makes them (OP-602): rules new_tool, volume, off_hours and denials.  Each hour the new
 * records of each tenant's log are counted by principal and hour into table baseline, a part at a time, and whoever
 * called lately is compared with its own past.  Plain numbers, which the alert says; a principal is compared with
 * itself alone.  Loop thread; bodies on a thread of the pool, one on the writer's. */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "writer/writer.h"

#include "alert_int.h"

#define NAME_SIZE 72
#define PAGE 2000                       /* positions of a part */
#define LOGS 64                         /* logs that a part looks into */
#define WHO 64                          /* principals that are compared at a time */
#define HOUR_US UINT64_C(3600000000)
#define DAY_H 24
#define WEEK_H 168
#define KEPT_H (30 * DAY_H)             /* baselines */
#define VOLUME_H (14 * DAY_H)           /* that the last hour is compared with */
#define VOLUME_TIMES 10
#define VOLUME_LEAST 50
#define VOLUME_HOURS 10                 /* with calls, before there is anything to compare with */
#define DENIALS 20
#define OFF_CALLS 200                   /* before hours say anything */
#define OFF_KNOWN_H (14 * DAY_H)        /* so that each hour of the week came twice */
#define OFF_PERCENT 98
#define OFF_RARE 10                     /* times less than in one of its hours: else it is one of these */
#define OFF_HOURS_MOST (WEEK_H / 2)     /* who calls in more of them has no hours */
#define NEW_KNOWN_US (7 * DAY_H * HOUR_US)
#define NEW_FRESH_US (26 * HOUR_US)     /* what is older when it is read is history */

#define EVERY_US HOUR_US
#define FIRST_US UINT64_C(60000000)     /* behind a start, when there is less to do */

struct seen { struct alert_seen s; char subject[ALERT_SUBJECT_SIZE], text[ALERT_TEXT_SIZE]; };

/* What a principal did with a tool in an hour. */
struct count { int64_t tenant_id, hour; uint64_t n, denied, first_us; char *prn, *tool; bool is_new; };
struct place { int64_t log, idx; };

/* A part of the work; with the pool, then with the loop, then with the writer. */
struct part {
	struct alert_usual *owner;
	const char *file;
	struct db *db;                  /* whose turn it is; handed on: opening takes as long as reading a part */
	int64_t from_log;               /* where it begins, then where the next one goes on; INT64_MAX: all is read */
	int64_t after_tenant; char *after_prn;  /* comparing: behind this one; then the last; NULL: none was left */
	struct seen *seen; size_t nseen;
	struct count *counts; size_t ncounts;
	struct place *places; size_t nplaces;
	int64_t forget_hour;            /* what is older goes; 0: nothing */
	int pairs;                      /* room for further ones: 1 yes, 0 no, -1 not asked */
	int rc;
	struct err err;
};

struct alert_usual {
	struct alert_reader_env env;
	char *file;
	uint64_t due_us;                /* monotonic */
	bool busy, closed;
};

static void part_free(struct part **pp)
{
	struct part *p = *pp;

	db_close(&p->db);
	for (size_t i = 0; i < p->ncounts; i++) {
		free(p->counts[i].prn);
		free(p->counts[i].tool);
	}
	free(p->counts);
	free(p->places);
	free(p->seen);
	free(p->after_prn);
	free(p);
	*pp = NULL;
}

static struct seen *put(struct part *p, enum alert_rule rule, enum alert_severity severity, int64_t tenant_id)
{
	struct seen *s;

	p->seen = mem_realloc(p->seen, (p->nseen + 1) * sizeof(*p->seen));
	s = &p->seen[p->nseen++];
	*s = (struct seen){ .s = { .rule = rule, .severity = severity, .tenant_id = tenant_id } };
	return s;
}

/* Behind what it says already. */
static void say(struct seen *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(struct seen *s, const char *fmt, ...)
{
	const size_t at = strlen(s->text);
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(s->text + at, sizeof(s->text) - at, fmt, args);
	va_end(args);
}

/* --- reading, on the pool */

struct log { int64_t id, tenant_id, idx, end; char tenant[NAME_SIZE]; };

static int open_reader(struct part *p)
{
	return p->db ? forms_see(p->db, &p->err) : forms_open_store(db_of_file(p->file), &p->db, &p->err);
}

/* 1: there is one. */
static int next_log(struct db *db, int64_t from, struct log *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_BASELINE_LOG);
	int rc;

	db_bind_i64(st, 1, from);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret = (struct log){ .id = db_col_i64(st, 0), .tenant_id = db_col_i64(st, 1),
				     .idx = db_col_i64(st, 3), .end = db_col_i64(st, 4) + 1 };
		db_col_copy(st, 2, ret->tenant, sizeof(ret->tenant));
	}
	db_stmt_put(&st);
	return rc;
}

/* 1: there is one. */
static int probe(struct db *db, int64_t log, int64_t idx, int64_t *ret_idx, uint64_t *ret_ts, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_BASELINE_PROBE);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret_idx = db_col_i64(st, 0);
		*ret_ts = (uint64_t)db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	return rc;
}

/* A log that was never read: its first record of the time for which baselines are kept. */
static int find_first(struct db *db, struct log *log, struct err *err)
{
	const uint64_t since_us = clock_wall_us() - KEPT_H * HOUR_US;
	int64_t from = 0, to = log->end;

	while (from < to) {
		const int64_t middle = from + (to - from) / 2;
		uint64_t ts_us = 0;
		int64_t idx = 0;
		const int rc = probe(db, log->id, middle, &idx, &ts_us, err);

		if (rc < 0)
			return rc;
		if (rc == 0 || ts_us >= since_us)
			to = middle;
		else
			from = idx + 1;
	}
	log->idx = from;
	return 0;
}

/* Since when it is known, and how many tools it has called; 0: none. */
static int known(struct db *db, const struct count *c, uint64_t *ret_since_us, uint64_t *ret_n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_BASELINE_TOOLS);
	int rc;

	db_bind_i64(st, 1, c->tenant_id);
	db_bind_textz(st, 2, c->prn);
	rc = db_step(st, err);
	*ret_since_us = rc == 1 ? (uint64_t)db_col_i64(st, 0) : 0;
	*ret_n = rc == 1 ? (uint64_t)db_col_i64(st, 1) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static void see_new(struct part *p, const struct log *log, const struct count *c, uint64_t since_us, uint64_t n)
{
	struct seen *s;
	char at[32];

	if (n == 0 || c->first_us < since_us + NEW_KNOWN_US || c->first_us + NEW_FRESH_US < clock_wall_us())
		return;
	s = put(p, ALERT_new_tool, ALERT_INFO, log->tenant_id);
	s->s.value = 1;
	s->s.usual = n;
	(void)snprintf(s->subject, sizeof(s->subject), "%s %s", c->prn, c->tool);
	say(s, "%s of %s called %s at %s, which it had not called in the %" PRIu64 " days since its first call; ", c->prn,
	    log->tenant, c->tool, clock_format_utc(c->first_us, at, sizeof(at)),
	    (c->first_us - since_us) / (DAY_H * HOUR_US));
	say(s, "it has called %" PRIu64 " other tools (rule new_tool: known for 7 days). ", n);
	say(s, "Look: toolcrib audit calls --tenant %s --principal %s --tool %s", log->tenant, c->prn, c->tool);
}

static int has_room(struct part *p, struct db *db, struct err *err)
{
	struct db_stmt *st;
	int rc;

	if (p->pairs >= 0)
		return p->pairs;
	st = db_stmt_get(db, SQL_BASELINE_PAIRS);
	rc = db_step(st, err);
	if (rc == 1)
		p->pairs = db_col_i64(st, 0) < ALERT_PAIRS_MAX;
	db_stmt_put(&st);
	return rc < 0 ? rc : p->pairs;
}

/* A call of a tool: is it the first one? */
static int see_pair(struct part *p, struct db *db, const struct log *log, struct count *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_BASELINE_PAIR);
	uint64_t since_us, n;
	int rc;

	db_bind_i64(st, 1, c->tenant_id);
	db_bind_textz(st, 2, c->prn);
	db_bind_textz(st, 3, c->tool);
	rc = db_step(st, err);
	db_stmt_put(&st);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = has_room(p, db, err);
	if (rc == 0)
		metric_inc(METRIC_alert_pairs_dropped);
	if (rc <= 0)
		return rc;
	c->is_new = true;
	if (known(db, c, &since_us, &n, err) < 0)
		return err->code;
	see_new(p, log, c, since_us, n);
	return 0;
}

static struct count *add_count(struct part *p, const struct log *log, struct db_stmt *st)
{
	const uint64_t n = (uint64_t)db_col_i64(st, 4);
	const bool denied = db_col_i64(st, 2) == AUDIT_CALL_DENIED;
	struct count *c;

	p->counts = mem_realloc(p->counts, (p->ncounts + 1) * sizeof(*p->counts));
	c = &p->counts[p->ncounts++];
	*c = (struct count){ .tenant_id = log->tenant_id, .prn = db_col_dup(st, 0), .tool = denied ? NULL : db_col_dup(st, 1),
			     .hour = db_col_i64(st, 3), .n = denied ? 0 : n, .denied = denied ? n : 0,
			     .first_us = (uint64_t)db_col_i64(st, 5) };
	return c;
}

static int read_page(struct part *p, struct db *db, const struct log *log, int64_t to, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_BASELINE_PAGE);
	int rc;

	db_bind_i64(st, 1, log->id);
	db_bind_i64(st, 2, log->idx);
	db_bind_i64(st, 3, to);
	while ((rc = db_step(st, err)) == 1) {
		struct count *c = add_count(p, log, st);

		rc = c->tool ? see_pair(p, db, log, c, err) : 0;
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

/* "rate=12 unknown_tool=3" (call/denied.c) */
static uint64_t sum_of(const void *ext, size_t len)
{
	size_t n = 0;
	const uint8_t *p = audit_field_find(ext, len, AUDIT_TAG_REASON, &n);
	char *line = mem_strndup(p ? (const char *)p : "", n);
	uint64_t all = 0, one;

	for (const char *at = line; (at = strchr(at, '='));) {
		at++;
		all += text_u64(at, strspn(at, "0123456789"), &one) == 0 ? one : 0;
	}
	free(line);
	return all;
}

static int read_sums(struct part *p, struct db *db, const struct log *log, int64_t to, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_BASELINE_SUMS);
	int rc;

	db_bind_i64(st, 1, log->id);
	db_bind_i64(st, 2, log->idx);
	db_bind_i64(st, 3, to);
	while ((rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const void *ext = db_col_blob(st, 2, &len);

		p->counts = mem_realloc(p->counts, (p->ncounts + 1) * sizeof(*p->counts));
		p->counts[p->ncounts++] = (struct count){ .tenant_id = log->tenant_id, .prn = db_col_dup(st, 0),
			.hour = (int64_t)((uint64_t)db_col_i64(st, 1) / HOUR_US), .denied = sum_of(ext, len) };
	}
	db_stmt_put(&st);
	return rc;
}

/* One log, or a part of it; its positions that were read. */
static int read_log(struct part *p, struct db *db, struct log *log, int64_t *ret_n, struct err *err)
{
	const bool fresh = log->idx < 0;
	int64_t to;
	int rc = fresh ? find_first(db, log, err) : 0;

	to = log->end - log->idx > PAGE ? log->idx + PAGE : log->end;
	if (rc == 0 && to > log->idx)
		rc = read_page(p, db, log, to, err);
	if (rc == 0 && to > log->idx)
		rc = read_sums(p, db, log, to, err);
	if (rc < 0)
		return rc;
	*ret_n = to - log->idx;
	if (fresh || to > log->idx) {
		p->places = mem_realloc(p->places, (p->nplaces + 1) * sizeof(*p->places));
		p->places[p->nplaces++] = (struct place){ log->id, to };
	}
	p->from_log = to < log->end ? log->id : log->id + 1;
	return 0;
}

static void read_body(void *arg)
{
	struct part *p = arg;
	int64_t n = 0, all = 0;

	p->rc = open_reader(p);
	for (int i = 0; p->rc == 0 && i < LOGS && all < PAGE; i++) {
		struct log log;
		const int rc = next_log(p->db, p->from_log, &log, &p->err);

		if (rc == 1) {
			p->rc = read_log(p, p->db, &log, &n, &p->err);
			all += n;
			continue;
		}
		p->rc = rc;
		p->from_log = INT64_MAX;
		p->forget_hour = (int64_t)(clock_wall_us() / HOUR_US) - KEPT_H;
		break;
	}
}

/* --- what was read, into the store */

static int put_count(const struct count *c, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_BASELINE_PUT);
	int rc;

	db_bind_i64(st, 1, c->tenant_id);
	db_bind_textz(st, 2, c->prn);
	db_bind_i64(st, 3, c->hour);
	db_bind_i64(st, 4, (int64_t)c->n);
	db_bind_i64(st, 5, (int64_t)c->denied);
	rc = db_run(&st, err);
	if (rc < 0 || !c->is_new)
		return rc;
	st = db_stmt_get(db, SQL_BASELINE_PAIR_PUT);
	db_bind_i64(st, 1, c->tenant_id);
	db_bind_textz(st, 2, c->prn);
	db_bind_textz(st, 3, c->tool);
	db_bind_i64(st, 4, (int64_t)c->first_us);
	return db_run(&st, err);
}

static int write_page(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct part *p = arg;
	struct db_stmt *st;
	int rc = 0;

	(void)logs;
	for (size_t i = 0; rc == 0 && i < p->ncounts; i++)
		rc = put_count(&p->counts[i], db, err);
	for (size_t i = 0; rc == 0 && i < p->nplaces; i++) {
		st = db_stmt_get(db, SQL_BASELINE_PLACE);
		db_bind_i64(st, 1, p->places[i].log);
		db_bind_i64(st, 2, p->places[i].idx);
		rc = db_run(&st, err);
	}
	if (rc == 0 && p->forget_hour > 0) {
		st = db_stmt_get(db, SQL_BASELINE_FORGET);
		db_bind_i64(st, 1, p->forget_hour);
		rc = db_run(&st, err);
	}
	return rc;
}

/* --- comparing, on the pool */

struct hour { int64_t hour; uint64_t n, denied; };
struct past { const char *tenant, *prn; int64_t tenant_id, first; struct hour *v; size_t n; };

static int load_hours(struct db *db, int64_t since, struct past *past, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_BASELINE_HOURS);
	int rc;

	db_bind_i64(st, 1, past->tenant_id);
	db_bind_textz(st, 2, past->prn);
	db_bind_i64(st, 3, since);
	while ((rc = db_step(st, err)) == 1 && past->n < KEPT_H + 2)
		past->v[past->n++] = (struct hour){ db_col_i64(st, 0), (uint64_t)db_col_i64(st, 1), (uint64_t)db_col_i64(st, 2) };
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static const char *from_of(const struct hour *h, char ret[32])
{
	return clock_format_utc((uint64_t)h->hour * HOUR_US, ret, 32);
}

/* The name of rule and hour, and where to look. */
static void end_text(struct seen *s, const struct past *past, const struct hour *h, const char *rule,
		     const char *report)
{
	char from[32];

	(void)snprintf(s->subject, sizeof(s->subject), "%s", past->prn);
	say(s, " (rule %s). Look: toolcrib audit %s --tenant %s --principal %s --since %s", rule, report, past->tenant,
	    past->prn, from_of(h, from));
}

static void compare_volume(struct part *p, const struct past *past, const struct hour *h)
{
	uint64_t n = 0, hours = 0;
	struct seen *s;
	char from[32];

	for (const struct hour *o = past->v; o < h; o++) {
		if (o->hour < h->hour - VOLUME_H || o->n == 0)
			continue;
		n += o->n;
		hours++;
	}
	if (h->n < VOLUME_LEAST || hours < VOLUME_HOURS || h->n * hours < VOLUME_TIMES * n)
		return;
	s = put(p, ALERT_volume, ALERT_WARN, past->tenant_id);
	s->s.value = h->n;
	s->s.usual = n / hours;
	say(s, "%s of %s made %" PRIu64 " calls in the hour from %s; ", past->prn, past->tenant, h->n, from_of(h, from));
	say(s, "in the %" PRIu64 " hours of the 14 days before in which it made any, %" PRIu64 " each", hours, n / hours);
	end_text(s, past, h, "volume: 10 times, and 50", "calls");
}

static void compare_denials(struct part *p, const struct past *past, const struct hour *h)
{
	uint64_t denied = 0;
	struct seen *s;
	char from[32];

	if (h->denied < DENIALS)
		return;
	for (const struct hour *o = past->v; o < h; o++)
		denied += o->denied;
	s = put(p, ALERT_denials, ALERT_WARN, past->tenant_id);
	s->s.value = h->denied;
	s->s.usual = h > past->v ? denied / (uint64_t)(h - past->v) : 0;
	say(s, "%s of %s was refused %" PRIu64 " calls in the hour from %s; ", past->prn, past->tenant, h->denied,
	    from_of(h, from));
	say(s, "in the %zu hours of the 30 days before in which it called, %" PRIu64 " in all", (size_t)(h - past->v), denied);
	end_text(s, past, h, "denials: 20 in an hour", "denied");
}

static int by_most(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* How many hours of the week it needs for most of its calls, and how many it made in these. */
static unsigned usual_hours(const uint64_t week[WEEK_H], uint64_t all, uint64_t *ret_n)
{
	uint64_t sorted[WEEK_H];
	unsigned hours = 0;

	memcpy(sorted, week, sizeof(sorted));
	qsort(sorted, WEEK_H, sizeof(sorted[0]), by_most);
	*ret_n = 0;
	while (hours < WEEK_H && *ret_n * 100 < all * OFF_PERCENT)
		*ret_n += sorted[hours++];
	return hours;
}

static void compare_hours(struct part *p, const struct past *past, const struct hour *h)
{
	static const char *const days[] = { "Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday" };
	uint64_t week[WEEK_H] = { 0 }, all = 0, n;
	unsigned hours;
	struct seen *s;

	for (const struct hour *o = past->v; o < h; o++) {
		week[o->hour % WEEK_H] += o->n;
		all += o->n;
	}
	if (h->n == 0 || all < OFF_CALLS || past->v[0].hour > h->hour - OFF_KNOWN_H)
		return;
	hours = usual_hours(week, all, &n);
	if (hours > OFF_HOURS_MOST || week[h->hour % WEEK_H] * hours * OFF_RARE >= n)
		return;
	s = put(p, ALERT_off_hours, ALERT_INFO, past->tenant_id);
	s->s.value = h->n;
	s->s.usual = hours;
	say(s, "%s of %s made %" PRIu64 " calls on a %s from %02d:00 to %02d:59 UTC; ", past->prn, past->tenant, h->n,
	    days[h->hour / DAY_H % 7], (int)(h->hour % DAY_H), (int)(h->hour % DAY_H));
	say(s, "of the %" PRIu64 " calls of the 30 days before it made 98 %% in %u other hours of the week, ", all, hours);
	say(s, "in this one %" PRIu64, week[h->hour % WEEK_H]);
	end_text(s, past, h, "off_hours: 98 % of at least 200, and a tenth", "calls");
}

/* The hour that runs, and the one before it. */
static int compare(struct part *p, struct db *db, int64_t now, struct past *past, struct err *err)
{
	const int rc = load_hours(db, now - KEPT_H, past, err);

	for (size_t i = 0; rc == 0 && i < past->n; i++) {
		if (past->v[i].hour < now - 1 || past->v[i].hour > now)
			continue;
		compare_volume(p, past, &past->v[i]);
		compare_denials(p, past, &past->v[i]);
		compare_hours(p, past, &past->v[i]);
	}
	return rc;
}

struct who { int64_t tenant_id; char *tenant, *prn; };

static int load_who(struct part *p, struct db *db, int64_t now, struct who ret[WHO], size_t *ret_n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_BASELINE_WHO);
	int rc;

	db_bind_i64(st, 1, now - 1);
	db_bind_i64(st, 2, p->after_tenant);
	db_bind_textz(st, 3, p->after_prn);
	db_bind_i64(st, 4, WHO);
	while ((rc = db_step(st, err)) == 1 && *ret_n < WHO)
		ret[(*ret_n)++] = (struct who){ db_col_i64(st, 0), db_col_dup(st, 1), db_col_dup(st, 2) };
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static void compare_body(void *arg)
{
	struct part *p = arg;
	const int64_t now = (int64_t)(clock_wall_us() / HOUR_US);
	struct hour *hours = mem_calloc(KEPT_H + 2, sizeof(*hours));
	struct who who[WHO];
	size_t n = 0;

	p->rc = open_reader(p);
	if (p->rc == 0)
		p->rc = load_who(p, p->db, now, who, &n, &p->err);
	for (size_t i = 0; i < n; i++) {
		struct past past = { .tenant = who[i].tenant, .prn = who[i].prn, .tenant_id = who[i].tenant_id, .v = hours };

		if (p->rc == 0)
			p->rc = compare(p, p->db, now, &past, &p->err);
	}
	free(p->after_prn);
	p->after_prn = n == WHO ? mem_strdup(who[n - 1].prn) : NULL;
	p->after_tenant = n == WHO ? who[n - 1].tenant_id : 0;
	for (size_t i = 0; i < n; i++) {
		free(who[i].tenant);
		free(who[i].prn);
	}
	free(hours);
}

/* --- on the loop */

static void maybe_free(struct alert_usual *u)
{
	if (!u->closed || u->busy)
		return;
	free(u->file);
	free(u);
}

static void tell(struct alert_usual *u, struct part *p, bool all)
{
	static const enum alert_rule rules[] = { ALERT_new_tool, ALERT_volume, ALERT_off_hours, ALERT_denials };

	for (size_t i = 0; all && i < NELEMS(rules); i++)
		alerts_look(u->env.alerts, rules[i]);
	for (size_t i = 0; i < p->nseen; i++) {
		p->seen[i].s.subject = p->seen[i].subject;
		p->seen[i].s.text = p->seen[i].text;
		alerts_saw(u->env.alerts, &p->seen[i].s);
	}
	alerts_end(u->env.alerts);
}

/* It ends here; the next one begins where the store says. */
static void give_up(struct part *p, const char *why)
{
	struct alert_usual *u = p->owner;

	if (!u->closed)
		log_warn(NULL, "what is usual was not looked at, which is tried again why=\"%s\"", why);
	u->busy = false;
	part_free(&p);
	maybe_free(u);
}

static void begin(struct alert_usual *u, struct part *from, ev_fn *body, ev_fn *done)
{
	struct part *p = mem_zalloc(sizeof(*p));

	p->owner = u;
	p->file = u->file;
	p->pairs = -1;
	p->from_log = from && from->from_log != INT64_MAX ? from->from_log : 0;
	p->after_tenant = from ? from->after_tenant : 0;
	p->after_prn = mem_strdup(from && from->after_prn ? from->after_prn : "");
	u->busy = true;
	if (from) {
		p->db = from->db;
		from->db = NULL;
		part_free(&from);
	}
	if (ev_work(u->env.loop, EV_LANE_READ, body, done, p) < 0)
		give_up(p, "much is being read");
}

static void compare_done(void *arg)
{
	struct part *p = arg;
	struct alert_usual *u = p->owner;
	const bool all = p->after_prn == NULL;

	if (p->rc < 0 || u->closed) {
		give_up(p, p->rc < 0 ? p->err.msg : "the server stops");
		return;
	}
	tell(u, p, all);
	if (!all) {
		begin(u, p, compare_body, compare_done);
		return;
	}
	u->busy = false;
	part_free(&p);
}

static void read_done(void *arg);

static void written(void *arg, int rc, const struct err *err)
{
	struct part *p = arg;
	struct alert_usual *u = p->owner;
	const bool all = p->from_log == INT64_MAX;

	if (rc < 0 || u->closed)
		give_up(p, rc < 0 ? err->msg : "the server stops");
	else
		begin(u, p, all ? compare_body : read_body, all ? compare_done : read_done);
}

/* What it opens is on its way to the store before what was read is, so that a death between has it read again. */
static void read_done(void *arg)
{
	static const struct writer_job job = { .name = "what is usual", .run = write_page, .volatile_only = true,
					       .done = written };
	struct part *p = arg;
	struct alert_usual *u = p->owner;

	if (p->rc < 0 || u->closed) {
		give_up(p, p->rc < 0 ? p->err.msg : "the server stops");
		return;
	}
	tell(u, p, false);
	if (writer_submit(u->env.writer, &job, p) < 0)
		give_up(p, "the store takes no rows");
}

bool alert_usual_tick(struct alert_usual *u, bool now)
{
	const uint64_t now_us = ev_now_us(u->env.loop);

	if (now)
		u->due_us = 0;
	if (!u->busy && now_us >= u->due_us) {
		u->due_us = now_us + EVERY_US;
		begin(u, NULL, read_body, read_done);
	}
	return u->busy;
}

struct alert_usual *alert_usual_new(const struct alert_reader_env *env)
{
	struct alert_usual *u = mem_zalloc(sizeof(*u));

	u->env = *env;
	u->file = path_join(env->store, DB_FILE);
	u->due_us = ev_now_us(env->loop) + FIRST_US;
	return u;
}

void alert_usual_free(struct alert_usual **up)
{
	struct alert_usual *u = up ? *up : NULL;

	if (!u)
		return;
	*up = NULL;
	u->closed = true;
	maybe_free(u);
}
