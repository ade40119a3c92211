/*  * Failed authentications on record (AUDIT ): one record each up to a rate per source and a rate of
 * all, within a budget of bytes a day; what is beyond is counted in memory and written as a summary once a minute,
 * so that those who have no key cannot fill the disk.  A source stands in records by a name drawn at random, which
 * this process forgets (AUDIT A-511); the log of the server says the address. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "net/gate.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "app_int.h"

#define SOURCE_PER_S 10
#define ALL_PER_S 100
#define INACTIVE_PER_MIN 60             /* a source's opaque tokens that no issuer knows, before it has to wait */
#define DAY_BYTES (64u << 20)
#define RECORD_BYTES 640                /* what one costs in the store, with its part of the indexes */
#define SOURCES_MAX 4096                /* that are told apart at once; others share one rate */
#define SOURCE_REST_US 60000000ull      /* one that was quiet for so long is forgotten */
#define NAMES_PER_DAY 1000              /* new names of sources */
#define NAME_CHARS 8
#define DAY_US 86400000000ull
#define OTHERS "adr_other"

struct source {
	struct limit_bucket bucket, inactive;
	uint64_t last_us;
	uint64_t storm_us;              /* since when its refusals are counted for an alert; 0 = they are not */
	unsigned storm;
	char name[sizeof("adr_") + NAME_CHARS];         /* "": not drawn yet */
};

/* What is not on record one by one, of one log, since the last summary. */
struct tally {
	int64_t tenant_id;              /* 0: the system's log */
	uint64_t counts[CRED_REFUSAL_COUNT], total;
	uint64_t first_us, last_us;
	struct map *sources;            /* a set of struct source; at most SOURCES_MAX */
};

struct app_auth {
	struct app *app;
	struct map *sources;            /* by address */
	struct source others;
	struct map *tallies;            /* by tenant id; 0 = the system's */
	struct limit_bucket all;
	uint64_t day, bytes;            /* of that day since 1970 */
	unsigned names;
	struct ev_timer *timer;         /* armed while there is something to sum up */
};

/* --- sources */

static void forget_rested(struct app_auth *a, uint64_t now)
{
	const void *key;
	size_t len;
	void *value;

	for (size_t it = 0; map_next(a->sources, &it, &key, &len, &value);) {
		struct source *s = value;

		if (now - s->last_us < SOURCE_REST_US)
			continue;
		(void)map_del(a->sources, key, len);    /* the value is in hand */
		free(s);
	}
}

/* Sources are forgotten only here, when no tally names one. */
static struct source *source_of(struct app_auth *a, const char *from, uint64_t now)
{
	struct source *s = map_get_z(a->sources, from);

	if (!s && map_count(a->sources) >= SOURCES_MAX && map_count(a->tallies) == 0)
		forget_rested(a, now);
	if (!s && map_count(a->sources) >= SOURCES_MAX)
		s = &a->others;
	if (!s) {
		s = mem_zalloc(sizeof(*s));
		(void)map_set_z(a->sources, from, s);
	}
	s->last_us = now;
	return s;
}

static void new_day(struct app_auth *a)
{
	uint64_t day = clock_wall_us() / DAY_US;

	if (day == a->day)
		return;
	a->day = day;
	a->bytes = 0;
	a->names = 0;
}

static const char *name_of(struct app_auth *a, struct source *s)
{
	char text[NAME_CHARS + 1];

	if (s->name[0])
		return s->name;
	if (s == &a->others || a->names >= NAMES_PER_DAY)
		return OTHERS;
	a->names++;
	id_random_text(text, NAME_CHARS);
	(void)snprintf(s->name, sizeof(s->name), "adr_%s", text);
	return s->name;
}

static bool may_record(struct app_auth *a, struct source *s, uint64_t now)
{
	const struct text_rate each = { SOURCE_PER_S, 1 }, all = { ALL_PER_S, 1 };
	uint32_t retry_ms;

	new_day(a);
	if (a->bytes + RECORD_BYTES > DAY_BYTES || writer_state(a->app->writer, NULL) != ERR_OK)
		return false;
	if (limit_bucket_take(&s->bucket, each, now, &retry_ms) < 0 ||
	    limit_bucket_take(&a->all, all, now, &retry_ms) < 0)
		return false;
	a->bytes += RECORD_BYTES;
	return true;
}

/* --- the summary */

static void count(struct app_auth *a, struct source *s, enum cred_refusal why, int64_t tenant_id)
{
	struct tally *t = map_get_u64(a->tallies, (uint64_t)tenant_id);

	metric_inc(METRIC_auth_failures_summed);
	if (!t) {
		t = mem_zalloc(sizeof(*t));
		t->tenant_id = tenant_id;
		t->sources = map_new();
		t->first_us = clock_wall_us();
		(void)map_set_u64(a->tallies, (uint64_t)tenant_id, t);
	}
	t->counts[why]++;
	t->total++;
	t->last_us = clock_wall_us();
	(void)map_set(t->sources, &s, sizeof(s), s);     /* no more than there are sources */
	if (!ev_timer_armed(a->timer))
		ev_timer_start(a->timer, APP_AUTH_SUMMARY_MS * 1000ull);
}

static int write_summary(struct app_auth *a, const struct tally *t)
{
	uint8_t counts[16], times[16];
	const struct audit_field fields[] = { { AUDIT_TAG_COUNTS, counts, 16 }, { AUDIT_TAG_TIMES, times, 16 } };
	struct str text = STR_INIT;
	struct audit_event ev;
	int rc;

	for (size_t i = 0; i < CRED_REFUSAL_COUNT; i++)
		if (t->counts[i])
			str_printf(&text, "%s=%llu ", cred_refusal_name((enum cred_refusal)i),
				   (unsigned long long)t->counts[i]);
	str_printf(&text, "sources=%zu", map_count(t->sources));
	audit_put_be(counts, t->total, 8);
	audit_put_be(counts + 8, map_count(t->sources), 8);
	audit_put_be(times, t->first_us, 8);
	audit_put_be(times + 8, t->last_us, 8);
	audit_event_init(&ev, AUDIT_AUTH_FAIL_SUMMARY, t->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = str_text(&text);
	ev.field = fields;
	ev.nfield = NELEMS(fields);
	rc = writer_audit(a->app->writer, &ev, NULL, NULL);
	str_fini(&text);
	return rc;
}

/* What cannot be written now stays for the next minute, and is still counted. */
static void sum_up(struct app_auth *a, bool last)
{
	const void *key;
	size_t len;
	void *value;

	for (size_t it = 0; map_next(a->tallies, &it, &key, &len, &value);) {
		struct tally *t = value;

		if (!last && writer_state(a->app->writer, NULL) != ERR_OK)
			continue;
		if (write_summary(a, t) < 0 && !last)
			continue;
		(void)map_del(a->tallies, key, len);    /* the value is in hand */
		map_free(&t->sources);
		free(t);
	}
}

static void on_minute(void *arg)
{
	struct app_auth *a = arg;

	sum_up(a, false);
	if (map_count(a->tallies) > 0)
		ev_timer_start(a->timer, APP_AUTH_SUMMARY_MS * 1000ull);
}

/* --- what tenants tell */

/* Whoever brought nothing, or proved who they are, has tried no lock (SEC S-316); nor who comes with a token that
 * has just ended.  But its issuer was asked about each, so there is an end to that. */
static bool tries_locks(struct source *s, enum cred_refusal why, uint64_t now)
{
	uint32_t retry_ms;

	if (why == CRED_INACTIVE)
		return limit_bucket_take(&s->inactive, (struct text_rate){ INACTIVE_PER_MIN, 60 }, now, &retry_ms) < 0;
	return why == CRED_MALFORMED || why == CRED_UNKNOWN || why == CRED_WRONG;
}

/* Only these have addresses. */
static const char *peer_of(const struct cred_source *from)
{
	return from->tport == AUDIT_TCP || from->tport == AUDIT_HTTP ? from->from : NULL;
}

static void count_storm(struct source *s, uint64_t now)
{
	if (s->storm_us == 0 || now - s->storm_us > APP_AUTH_STORM_US) {
		s->storm_us = now;
		s->storm = 0;
	}
	s->storm++;
}

void app_auth_storms(const struct app *app, app_auth_storm_fn *fn, void *arg)
{
	struct app_auth *a = app->auth;
	const uint64_t now = clock_mono_us();
	void *value;

	for (size_t it = 0; a && map_next(a->sources, &it, NULL, NULL, &value);) {
		struct source *s = value;

		if (s->storm > APP_AUTH_STORM && now - s->storm_us <= APP_AUTH_STORM_US)
			fn(arg, name_of(a, s), s->storm);
	}
	if (a && a->others.storm > APP_AUTH_STORM && now - a->others.storm_us <= APP_AUTH_STORM_US)
		fn(arg, OTHERS, a->others.storm);
}

static void refused(void *arg, const struct cred_source *from, enum cred_refusal why, int64_t tenant_id,
		    const char *accessor)
{
	struct app_auth *a = arg;
	uint64_t now = clock_mono_us();
	struct source *s = source_of(a, from->from, now);
	struct audit_event ev;

	count_storm(s, now);
	if (tries_locks(s, why, now))
		gate_failed(a->app->gate, from->from);
	if (!may_record(a, s, now)) {
		count(a, s, why, tenant_id);
		return;
	}
	audit_event_init(&ev, AUDIT_AUTH_FAIL, tenant_id);
	ev.authn = AUDIT_AUTHN_NONE;
	ev.tport = from->tport;
	ev.peer = peer_of(from);
	ev.cred = accessor;
	ev.rule = cred_refusal_name(why);
	ev.obj = name_of(a, s);
	ev.has_outcome = true;
	ev.outcome = AUDIT_DENIED;
	if (writer_audit(a->app->writer, &ev, NULL, NULL) < 0)
		count(a, s, why, tenant_id);
}

static void used_first(void *arg, const struct cred_source *from, const struct principal *who)
{
	struct app_auth *a = arg;
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_CRED_FIRST_USE, who->tenant_id);
	ev.actor = AUDIT_BY_SERVICE;
	ev.authn = who->authn;
	ev.tport = from->tport;
	ev.peer = peer_of(from);
	ev.cred = who->accessor;
	ev.prn = who->pseudonym;
	if (writer_audit(a->app->writer, &ev, NULL, NULL) < 0)
		log_warn(NULL, "the first use of a key could not be recorded key=%s", who->accessor);
	app_used_soon(a->app);          /* so that the next start knows */
}

int app_auth_start(struct app *app, struct err *err)
{
	struct app_auth *a = mem_zalloc(sizeof(*a));

	(void)err;
	a->app = app;
	a->sources = map_new();
	a->tallies = map_new();
	a->timer = ev_timer_new(app->loop, on_minute, a);
	app->auth = a;
	tenants_watch(app->tenants, &(struct cred_watch){ refused, used_first, a });
	return 0;
}

void app_auth_stop(struct app *app)
{
	struct app_auth *a = app->auth;
	void *value;

	app->auth = NULL;
	tenants_watch(app->tenants, NULL);
	sum_up(a, true);
	for (size_t it = 0; map_next(a->sources, &it, NULL, NULL, &value);)
		free(value);
	map_free(&a->sources);
	map_free(&a->tallies);
	ev_timer_free(&a->timer);
	free(a);
}
