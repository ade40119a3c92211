/* What alerts are made of that the server has in memory (OP-603): each ten seconds what holds now, in a round.  What
 * stands in the store the room reads by itself (alert/read.c).  Loop thread; no I/O but a statement at the start. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "alert/alert.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/tally.h"
#include "conf/conf.h"
#include "db/db.h"
#include "ev/ev.h"
#include "notary/notary.h"
#include "ship/ship.h"
#include "sink/sink.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "app_int.h"

#define ROUND_US UINT64_C(10000000)
#define SECOND_US UINT64_C(1000000)
#define HOUR_US UINT64_C(3600000000)
#define DAY_US UINT64_C(86400000000)
#define REFUSING_US (5 * SECOND_US)
#define UNSIGNED_US (30 * SECOND_US)
#define BEHIND_S 300
#define BACKUP_PAGE_S 3600
#define QUOTA_EVERY_US (60 * SECOND_US)
#define QUOTA_INFO 0.80
#define ROOM_SOON_H (7 * 24)
#define QUOTA_WARN 0.95

static void say(struct app *a, struct alert_seen *s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(struct app *a, struct alert_seen *s, const char *fmt, ...)
{
	char text[ALERT_TEXT_SIZE];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	s->text = text;
	alerts_saw(a->alerts, s);
	s->text = NULL;
}

/* --- the audit */

void app_alerts_watch(struct app *a)
{
	if (a->phase != APP_RUNNING || writer_state(a->writer, NULL) == 0)
		a->look.refusing_us = 0;
	else if (a->look.refusing_us == 0)
		a->look.refusing_us = ev_now_us(a->loop);
}

/* A store that failed ends the server (run.c). */
static void look_at_refusals(struct app *a, uint64_t now_us)
{
	struct alert_seen s = { .rule = ALERT_audit_refusing, .severity = ALERT_PAGE };
	const char *reason = NULL;

	app_alerts_watch(a);
	alerts_look(a->alerts, s.rule);
	if (a->look.refusing_us == 0 || now_us - a->look.refusing_us < REFUSING_US)
		return;
	(void)writer_state(a->writer, &reason);
	s.subject = writer_why_name(writer_why(a->writer));
	s.value = (now_us - a->look.refusing_us) / SECOND_US;
	say(a, &s, "Calls are refused, for %" PRIu64 " s by now: %s (rule audit_refusing: 5 s). Look: toolcrib status",
	    s.value, reason ? reason : "no record of them can be made durable");
}

static void look_at_checkpoints(struct app *a, uint64_t now_us)
{
	struct alert_seen s = { .rule = ALERT_checkpoint_old, .severity = ALERT_PAGE, .subject = "signer" };
	const uint64_t since_us = a->notary ? notary_unsigned_us(a->notary) : 0;

	alerts_look(a->alerts, s.rule);
	if (since_us == 0 || now_us - since_us <= UNSIGNED_US)
		return;
	s.value = (now_us - since_us) / SECOND_US;
	say(a, &s, "Records wait for a signed checkpoint, for %" PRIu64 " s by now: the signer (%s) does not sign "
	    "(rule checkpoint_old: 30 s). Look: toolcrib doctor, and the log of the server", s.value, notary_place(a->notary));
}

/* A sink that puts the system's log into a bucket puts its checkpoints there as well (OP-353). */
static bool has_anchor(const struct conf *conf)
{
	bool put = false;

	for (size_t i = 0; !put && i < conf->nsinks; i++)
		put = conf->sinks[i].type == CONF_SINK_S3 && conf->sinks[i].system;
	return put || conf->anchor_file || conf->anchor_cmd;
}

static void look_at_anchors(struct app *a)
{
	const struct conf *conf = a->opt.conf;
	struct alert_seen s = { .rule = ALERT_anchor_old, .severity = ALERT_WARN, .subject = "anchor" };
	const uint64_t told = metric_get(METRIC_anchor_time) * SECOND_US, now_us = clock_wall_us();
	const uint64_t since_us = told > a->started_us ? told : a->started_us;
	const uint64_t may_us = 2 * SECOND_US * conf->anchor_every_s;

	alerts_look(a->alerts, s.rule);
	if (!a->notary || !has_anchor(conf) || now_us <= since_us || now_us - since_us <= may_us)
		return;
	s.value = (now_us - since_us) / SECOND_US;
	s.usual = conf->anchor_every_s;
	say(a, &s, "No checkpoint was taken outside for %" PRIu64 " s, where anchor.every is %" PRIu64 " s: whoever has this "
	    "machine could make the audit anew from there. Look: toolcrib audit anchors", s.value, s.usual);
}

/* At the pace of a day the floor is near, though there is room enough now. */
static void look_at_pace(struct app *a, struct alert_seen *s)
{
	const uint64_t now = metric_get(METRIC_store_free_bytes), floor = writer_space_floor(a->writer);
	const uint64_t then = a->look.nroom < APP_ROOM_HOURS ? 0 : a->look.room[a->look.nroom % APP_ROOM_HOURS];
	uint64_t hours;

	if (then <= now || now <= floor)
		return;
	hours = (uint64_t)((double)(now - floor) / (double)(then - now) * APP_ROOM_HOURS);
	if (hours >= ROOM_SOON_H)
		return;
	s->usual = (then - now) >> 20;
	say(a, s, "The disk of the store has %" PRIu64 " MiB left, and %" PRIu64 " MiB less than %d hours ago: at that pace "
	    "it reaches audit.space_floor, where calls are refused, in %" PRIu64 " hours (rule space_low: 7 days). "
	    "Look: toolcrib audit capacity", s->value, s->usual, APP_ROOM_HOURS, hours);
}

/* Each hour, what there is. */
static void note_room(struct app *a, uint64_t now_us)
{
	const uint64_t free_bytes = metric_get(METRIC_store_free_bytes);

	if (now_us < a->look.room_due_us || free_bytes == 0)
		return;
	a->look.room[a->look.nroom++ % APP_ROOM_HOURS] = free_bytes;
	a->look.room_due_us = now_us + HOUR_US;
}

static void look_at_room(struct app *a)
{
	struct alert_seen s = { .rule = ALERT_space_low, .severity = ALERT_WARN, .subject = "store" };
	const enum writer_room room = writer_room(a->writer);

	alerts_look(a->alerts, s.rule);
	s.value = metric_get(METRIC_store_free_bytes) >> 20;
	if (room == WRITER_ROOM_ENOUGH) {
		look_at_pace(a, &s);
		return;
	}
	if (room == WRITER_ROOM_NONE)
		s.severity = ALERT_PAGE;
	say(a, &s, "The disk of the store has %" PRIu64 " MiB left, which is below %s. Look: toolcrib audit capacity", s.value,
	    room == WRITER_ROOM_NONE ? "audit.space_floor: calls are refused" : "audit.space_warn");
}

static void see_refusal(void *arg, const struct sink_view *v)
{
	struct alert_seen s = { .rule = ALERT_sink_refused, .severity = ALERT_PAGE, .subject = v->name, .value = v->failures };

	if (v->state == SINK_REFUSED)
		say(arg, &s, "Sink %s takes nothing until a person has mended something: %.200s (rule sink_refused). "
		    "Look: toolcrib sink list", v->name, v->why);
	if (v->rejected == 0)
		return;
	s.rule = ALERT_sink_rejected;
	s.severity = v->rejected < SINK_REJECTED_MAX ? ALERT_WARN : ALERT_PAGE;
	s.value = v->rejected;
	s.usual = SINK_REJECTED_MAX;
	say(arg, &s, "Sink %s did not want records, by %zu refusals that nobody has settled; at %d it gets nothing more (rule "
	    "sink_rejected). Look: toolcrib sink rejected %s", v->name, v->rejected, SINK_REJECTED_MAX, v->name);
}

static void see_sink(void *arg, const struct sink_view *v)
{
	struct alert_seen s = { .rule = ALERT_sink_behind, .severity = v->state == SINK_STOPPED ? ALERT_PAGE : ALERT_WARN,
				.subject = v->name, .value = v->behind_s, .usual = BEHIND_S };

	if (v->state != SINK_STOPPED && v->behind_s <= BEHIND_S)
		return;
	say(arg, &s, "%" PRIu64 " records wait for sink %s, which has not had all for %" PRIu64 " s and is %s%s%.200s "
	    "(rule sink_behind: %d s). Look: toolcrib sink list", v->behind, v->name, v->behind_s,
	    v->state == SINK_UP ? "slow" : sink_state_name(v->state), *v->why ? ": " : "", v->why, BEHIND_S);
}

static void look_at_sinks(struct app *a)
{
	alerts_look(a->alerts, ALERT_sink_behind);
	alerts_look(a->alerts, ALERT_sink_refused);
	alerts_look(a->alerts, ALERT_sink_rejected);
	if (a->sinks) {
		sinks_each(a->sinks, see_sink, a);
		sinks_each(a->sinks, see_refusal, a);
	}
}

static void look_at_backup(struct app *a)
{
	struct alert_seen s = { .rule = ALERT_backup_behind, .subject = "backup.to", .usual = BEHIND_S };
	struct ship_view v;
	uint64_t now_us = clock_wall_us();

	alerts_look(a->alerts, s.rule);
	if (!a->ship)
		return;
	ship_server_view(a->ship, &v);
	metric_set(METRIC_backup_lag_s, now_us > v.since_us ? (now_us - v.since_us) / SECOND_US : 0);
	if (now_us < v.since_us + (BEHIND_S + 2 * a->opt.conf->backup_every_ms / 1000) * SECOND_US)
		return;
	s.value = (now_us - v.since_us) / SECOND_US;
	s.severity = s.value >= BACKUP_PAGE_S ? ALERT_PAGE : ALERT_WARN;
	say(a, &s, "The store has not been copied to backup.to for %" PRIu64 " s: %.200s (rule backup_behind: %d s). "
	    "Look: toolcrib status, and the log of the server", s.value,
	    *v.why ? v.why : v.whole ? "toolcrib-ship says nothing" : "no base is whole yet", BEHIND_S);
}

/* Until the next base is whole a machine that is lost takes along what came since (OP-520). */
static void record_broken(void *arg, uint64_t n)
{
	struct app *a = arg;
	struct audit_event ev;
	char text[120];

	(void)snprintf(text, sizeof(text), "the chain of copies at backup.to was broken %" PRIu64 " time%s, and a new base "
		       "begins", n, n == 1 ? "" : "s");
	audit_event_init(&ev, AUDIT_BACKUP_BROKEN, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	if (writer_audit(a->writer, &ev, NULL, NULL) < 0)
		log_warn(NULL, "that the chain of copies was broken could not be recorded");
}

/* --- who comes in */

static void see_storm(void *arg, const char *source, unsigned refused)
{
	struct alert_seen s = { .rule = ALERT_auth_storm, .severity = ALERT_WARN, .subject = source, .value = refused,
				.usual = APP_AUTH_STORM };

	say(arg, &s, "%u credentials were refused within 5 minutes that came from one source, which records call %s "
	    "(rule auth_storm: %d). Look: toolcrib audit auth-failures --since 10m", refused, source, APP_AUTH_STORM);
}

static void see_certificate(void *arg, const char *address, uint64_t expires_us)
{
	struct app *a = arg;
	struct alert_seen s = { .rule = ALERT_cert_expiring, .severity = ALERT_WARN, .subject = address };
	const uint64_t now_us = clock_wall_us(), left_us = expires_us > now_us ? expires_us - now_us : 0;
	char at[32];

	if (left_us > 14 * DAY_US)
		return;
	s.severity = left_us <= DAY_US ? ALERT_PAGE : ALERT_WARN;
	s.value = left_us / DAY_US;
	say(a, &s, "The certificate of listener %s %s at %s (rule cert_expiring: 14 days). Renew it, then: toolcrib reload",
	    address, left_us > 0 ? "ends" : "has ended", clock_format_utc(expires_us, at, sizeof(at)));
}

static void look_at_quota(struct app *a, const char *tenant)
{
	static const char *const of[OPS_QUOTAS] = { [OPS_QUOTA_CALLS] = "calls", [OPS_QUOTA_BYTES] = "bytes",
						    [OPS_QUOTA_AUDIT] = "records" };
	const struct tenant *t = tenant_by_name(a->tenants, tenant, strlen(tenant));
	struct alert_seen s = { .rule = ALERT_quota_near, .subject = tenant };
	double used[OPS_QUOTAS] = { 0 };
	int most = 0;

	app_quotas(a, tenant, used);
	for (int i = 1; i < OPS_QUOTAS; i++)
		most = used[i] > used[most] ? i : most;
	if (!t || used[most] < QUOTA_INFO)
		return;
	s.severity = used[most] >= QUOTA_WARN ? ALERT_WARN : ALERT_INFO;
	s.tenant_id = t->id;
	s.value = (uint64_t)(100 * used[most]);
	s.usual = (uint64_t)(100 * QUOTA_INFO);
	say(a, &s, "%s has used %" PRIu64 " %% of what it may have today in %s (rule quota_near: 80 %%). "
	    "Look: toolcrib limit show %s", tenant, s.value, of[most], tenant);
}

/* Of tenants that have counts of their own: there is a bound to these. */
static void look_at_quotas(struct app *a, uint64_t now_us)
{
	if (now_us < a->look.quota_due_us)
		return;
	a->look.quota_due_us = now_us + QUOTA_EVERY_US;
	alerts_look(a->alerts, ALERT_quota_near);
	for (size_t i = 0; i < tally_slots(TALLY_TENANT); i++)
		look_at_quota(a, tally_name(TALLY_TENANT, i));
}

/* --- rounds */

static void look(void *arg)
{
	struct app *a = arg;
	const uint64_t now_us = ev_now_us(a->loop);

	look_at_refusals(a, now_us);
	look_at_checkpoints(a, now_us);
	look_at_anchors(a);
	look_at_room(a);
	note_room(a, now_us);
	look_at_sinks(a);
	look_at_backup(a);
	look_at_quotas(a, now_us);
	alerts_look(a->alerts, ALERT_auth_storm);
	app_auth_storms(a, see_storm, a);
	alerts_look(a->alerts, ALERT_cert_expiring);
	app_certs_each(a, see_certificate, a);
	alerts_look(a->alerts, ALERT_test);
	alerts_end(a->alerts);
	alert_reader_tick(a->look.reader);
	ev_timer_start(a->look.timer, ROUND_US);
}

void app_alerts_soon(struct app *a)
{
	if (!a->alerts)
		return;
	a->look.quota_due_us = 0;
	alert_reader_soon(a->look.reader);
	ev_timer_start(a->look.timer, 0);
}

int app_alerts_start(struct app *a, struct err *err)
{
	int rc = alerts_open(&(struct alert_env){ .loop = a->loop, .writer = a->writer, .fetcher = a->fetcher,
			.store = a->store, .conf = a->opt.conf, .tenants = a->tenants }, a->reader, &a->alerts, err);
	if (rc < 0)
		return rc;
	if (a->ship)
		ship_server_on_broken(a->ship, record_broken, a);
	a->look.reader = alert_reader_new(&(struct alert_reader_env){ .loop = a->loop, .writer = a->writer,
		.alerts = a->alerts, .store = a->store, .started_us = a->started_us,
		.daily = strcmp(a->opt.conf->verify_at, "none") != 0,
		.test_us = a->ship ? a->opt.conf->backup_test_s * SECOND_US : 0 });
	a->look.quota_due_us = ev_now_us(a->loop) + QUOTA_EVERY_US;
	a->look.timer = ev_timer_new(a->loop, look, a);
	ev_timer_start(a->look.timer, ROUND_US);
	return 0;
}

void app_alerts_stop(struct app *a)
{
	if (a->ship)
		ship_server_on_broken(a->ship, NULL, NULL);
	ev_timer_free(&a->look.timer);
	alert_reader_free(&a->look.reader);
	alerts_close(&a->alerts);
}
