/* A server while it runs: signals, the store's health each second, the reading of the configuration, and its drain.
 * The table of start.c begins and ends it; loop thread. */
#include "config.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "assent/assent.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/notify.h"
#include "base/text.h"
#include "call/call.h"
#include "command/command.h"
#include "conf/conf.h"
#include "people/people.h"
#include "db/db.h"
#include "ev/ev.h"
#include "json/reply.h"
#include "mcp/mcp.h"
#include "oauth/oauth.h"
#include "pdp/pdp.h"
#include "writer/fold.h"
#include "writer/seal.h"
#include "writer/writer.h"

#include "app_int.h"
#include "handover_int.h"

/* --- reload: SIGHUP, or a command */

/* Read the file and the certificates again, aside; take what can be taken, name what needs a restart, keep all on an
 * error.  Either way it is on record, and so is what a start begins with (AUDIT 1604). */

#define REST_US 200000                  /* between two readings: a storm of signals is read, and recorded, as few */

/* before, after: digests of the text that was in force and of the one that was read, or NULL. */
static void record(struct app *a, const uint8_t *before, const uint8_t *after, int outcome, const char *detail)
{
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_CONFIG_LOAD, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.obj = "config";
	ev.before = before;
	ev.after = after;
	ev.has_outcome = true;
	ev.outcome = outcome;
	ev.detail = detail;
	if (writer_audit(a->writer, &ev, NULL, NULL) < 0)
		log_warn(NULL, "the reading of the configuration could not be recorded");
}

static const char *name_of(const struct conf *c)
{
	return c->file ? c->file : "built-in defaults";
}

/* All are whole or nothing is changed. */
static int load(struct app *a, struct conf **ret, struct app_renewal *ret_tls, struct err *err)
{
	struct conf *next = NULL;
	int rc = conf_load(a->opt.conf->file, &next, err);
	const bool same = rc == 0 && conf_same_doors(a->opt.conf, next);

	if (rc == 0)
		rc = app_values_check(next, err);
	if (rc == 0 && !same)
		rc = app_new_doors_check(next, err);
	if (rc == 0)
		rc = app_renewal_make(a, same ? next : a->opt.conf, ret_tls, err);
	if (rc < 0) {
		conf_free(&next);
		return rc;
	}
	*ret = next;
	return 0;
}

static void refused(struct app *a, const struct err *why)
{
	struct str *text = &a->refused_conf;
	uint8_t now[sizeof(a->opt.conf->digest)];
	bool read = a->opt.conf->file && conf_digest(a->opt.conf->file, now, NULL) == 0;

	log_err(NULL, "configuration not reloaded, everything stays as it was where=%s why=\"%s\"%s%s", why->where,
		why->msg,
		*why->hint ? " hint=" : "", why->hint);
	str_reset(text);
	str_printf(text, "%s: refused, the old one stays: %s: %s", name_of(a->opt.conf), why->where, why->msg);
	record(a, a->opt.conf->digest, read ? now : NULL, AUDIT_INVALID, str_text(text));
}

/* The tools are processes of that user as well (SEC S-318). */
static void say_owner(const struct app *a)
{
	if (geteuid() != 0 && commands_owner_rules(a->admin))
		log_warn(NULL,
			 "no user and no group is named as administrator, so whatever runs as uid=%u is one: "
			 "see roles in toolcribd.yaml(5)",
			 (unsigned)geteuid());
}

/* What differs, for who asked, for the log and for the record, which has the keys alone. */
struct told {
	struct reply *out;              /* or NULL */
	struct str now, waits;          /* keys that take effect, and that wait for a restart: "a, b" */
	struct str values;              /* "a 1 -> 2, b none -> x" */
	size_t n;
};

static void add(struct str *list, const char *text)
{
	str_puts(list, list->len ? ", " : "");
	str_puts(list, text);
}

static void tell_change(void *arg, const struct conf_change *ch)
{
	struct told *t = arg;
	const char *before = ch->before ? ch->before : "none", *after = ch->after ? ch->after : "none";
	char *text = mem_printf("%s %s -> %s", ch->key, before, after);
	char *said = mem_printf("%s -> %s%s", before, after, ch->restart ? ", after a restart" : "");

	t->n++;
	add(ch->restart ? &t->waits : &t->now, ch->key);
	add(&t->values, text);
	if (t->out) {
		reply_row_begin(t->out);
		reply_text(t->out, "sign", !ch->before ? "+" : !ch->after ? "-" : "~");
		reply_text(t->out, "what", ch->key);
		reply_text(t->out, "said", said);
		reply_text(t->out, "before", ch->before);
		reply_text(t->out, "after", ch->after);
		reply_bool(t->out, "restart", ch->restart);
		reply_row_end(t->out);
	}
	free(text);
	free(said);
}

static void tell_sum(struct told *t, const char *done)
{
	const char *waits = t->waits.len ? str_text(&t->waits) : "nothing";
	char *text = mem_printf("%s; needs a restart: %s", done, waits);

	if (t->out) {
		reply_row_begin(t->out);
		reply_text(t->out, "summary", text);
		reply_text(t->out, "restart", waits);
		reply_int(t->out, "changes", (int64_t)t->n);
		reply_row_end(t->out);
	}
	free(text);
}

static void told_fini(struct told *t)
{
	str_fini(&t->now);
	str_fini(&t->waits);
	str_fini(&t->values);
}

static void take(struct app *a, struct conf *next, struct app_renewal *tls, const struct told *told)
{
	struct str text = STR_INIT;
	uint8_t before[sizeof(next->digest)];
	enum log_level level;

	memcpy(before, a->opt.conf->digest, sizeof(before));
	conf_reload(a->opt.conf, next);
	conf_hidden_free(&a->hide);
	a->hide = conf_hidden(a->opt.conf, a->store);
	a->sandbox.hide = (const char *const *)a->hide;
	commands_set_roles(a->admin, a->opt.conf->roles, a->opt.conf->nroles);
	if (a->assents)
		assents_set_roles(a->assents, a->opt.conf->roles, a->opt.conf->nroles);
	say_owner(a);
	app_renewal_take(a, tls);
	app_gate_reload(a);
	a->transport_env.drain_ms = a->opt.conf->eof_drain_ms;
	if (a->oauth)
		oauth_reload(a->oauth);
	(void)pdps_flush(a->pdps);
	if (log_level_from_name(a->opt.conf->log_level, &level))
		log_set_level(level);
	str_reset(&a->refused_conf);
	str_reset(&a->waits);
	str_puts(&a->waits, str_text(&told->waits));
	log_info(NULL, "configuration reloaded file=%s changes=\"%s\"", name_of(a->opt.conf),
		 told->n ? str_text(&told->values) : "none");
	if (told->waits.len > 0)
		log_warn(NULL, "changed keys need a restart keys=\"%s\"", str_text(&told->waits));
	str_printf(&text, "%s: reloaded%s%s%s%s", name_of(a->opt.conf), told->now.len ? ", changed: " : "",
		   str_text(&told->now), told->waits.len ? ", these keys wait for a restart: " : "", str_text(&told->waits));
	record(a, before, a->opt.conf->digest, AUDIT_OK, str_text(&text));
	app_alerts_soon(a);
	str_fini(&text);
}

int app_reload_now(void *app, bool dry_run, struct reply *out, struct err *err)
{
	struct app *a = app;
	struct app_renewal tls = { .admin = NULL };
	struct told told = { .out = out };
	struct conf *next = NULL;

	if (!dry_run)
		a->reloaded_us = ev_now_us(a->loop);
	if (load(a, &next, &tls, err) < 0) {
		if (!dry_run)
			refused(a, err);
		return err->code;
	}
	conf_changes(a->opt.conf, next, tell_change, &told);
	tell_sum(&told, dry_run ? "configuration is fine, and nothing was changed" : "configuration reloaded");
	if (dry_run)
		app_renewal_drop(&tls);
	else
		take(a, next, &tls, &told);
	told_fini(&told);
	conf_free(&next);
	return 0;
}

static void reload(void *arg)
{
	struct err err;

	(void)app_reload_now(arg, false, NULL, &err);   /* log and record say how it went */
}

/* now or soon; log and record say how it went */
static void app_reload(struct app *a)
{
	uint64_t now = ev_now_us(a->loop), next = a->reloaded_us + REST_US;

	if (a->reloaded_us == 0 || now >= next)
		reload(a);
	else if (!ev_timer_armed(a->reload))
		ev_timer_start(a->reload, next - now);
}

int app_reload_start(struct app *a, struct err *err)
{
	(void)err;
	a->reload = ev_timer_new(a->loop, reload, a);
	say_owner(a);
	record(a, NULL, a->opt.conf->digest, AUDIT_OK, name_of(a->opt.conf));
	return 0;
}

void app_reload_stop(struct app *a)
{
	ev_timer_free(&a->reload);
	str_fini(&a->waits);
	str_fini(&a->refused_conf);
}

/* --- notify: what the service manager is told */

static void notify(const char *state, int flags)
{
	if (!notify_manager(state, flags))
		log_warn(NULL, "service manager not told state=%s", state);
}

int app_say_ready(struct app *a, struct err *err)
{
	struct str where = STR_INIT;

	(void)err;
	for (size_t i = 0; i < a->nlisteners; i++)
		if (!a->listeners[i].internal)
			str_printf(&where, " %s=%s", a->listeners[i].ops->name,
				   a->listeners[i].ops->address(a->listeners[i].t));
	if (a->ops)
		str_printf(&where, " metrics=%s", ops_address(a->ops));
	if (a->console)
		str_printf(&where, " console=%s", console_address(a->console));
	log_info(NULL, "ready version=%s pid=%ld store=%s%s", PACKAGE_VERSION, (long)getpid(), a->store,
		 str_text(&where));
	str_fini(&where);
	notify("READY=1", 0);
	if (a->opt.ready_fd > 0) {
		(void)!write(a->opt.ready_fd, "", 1);   /* who does not wait any more is not told */
		close(a->opt.ready_fd);
	}
	return 0;
}

/* --- watchdog: the service manager hears that loop and writer go on, or ends the process (OP-104, SEC S-843) */

#define WATCHDOG_TICK_US 1000000        /* how often the writer is asked, at least */
#define WATCHDOG_WRITER_US 10000000     /* how long it may take to answer */

/* Writer thread.  That it is run says that what came before is done: a flush that hangs lets none come. */
static int beat(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct app *a = arg;

	(void)db;
	(void)logs;
	(void)err;
	atomic_store(&a->watchdog.beat_us, clock_mono_us());
	return 0;
}

static void beaten(void *arg, int rc, const struct err *err)
{
	struct app *a = arg;

	(void)rc;
	(void)err;
	a->watchdog.asked = false;
}

/* Since when nobody has answered; true: too long. */
static bool writer_is_late(struct app *a, uint64_t now)
{
	const uint64_t asked_us = atomic_load(&a->watchdog.beat_us), turned_us = writer_turned_us(a->writer);
	const uint64_t beat_us = asked_us > turned_us ? asked_us : turned_us;     /* one that refuses is not asked */
	const bool late = now > beat_us && now - beat_us > WATCHDOG_WRITER_US;

	if (late && !a->watchdog.late)
		log_err(NULL, "the writer does not answer, and the service manager is not told that all is well silent_s=%llu",
			(unsigned long long)(now - beat_us) / 1000000);
	else if (!late && a->watchdog.late)
		log_info(NULL, "the writer answers again");
	a->watchdog.late = late;
	return late;
}

static void watchdog(void *arg)
{
	static const struct writer_job job = { .name = "watchdog", .run = beat, .volatile_only = true, .done = beaten };
	struct app *a = arg;
	struct app_watchdog *w = &a->watchdog;
	const uint64_t tick_us = w->every_us < WATCHDOG_TICK_US ? w->every_us : WATCHDOG_TICK_US;
	const uint64_t now = ev_now_us(a->loop);

	if (!w->asked)
		w->asked = writer_submit(a->writer, &job, a) == 0;
	if (!writer_is_late(a, now) && (w->told_us == 0 || now - w->told_us + tick_us > w->every_us)) {
		w->told_us = now;
		notify("WATCHDOG=1", MSG_DONTWAIT);
	}
	ev_timer_start(w->timer, tick_us);
}

/* Of whom the service manager asks it, as sd_watchdog_enabled(3) finds out. */
static void watchdog_start(struct app *a)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t us = 0, who = 0;

	if (!usec || text_u64(usec, strlen(usec), &us) < 0 || us < 2)
		return;
	if (pid && (text_u64(pid, strlen(pid), &who) < 0 || who != (uint64_t)getpid()))
		return;
	a->watchdog.every_us = us / 2;
	atomic_store(&a->watchdog.beat_us, clock_mono_us());
	a->watchdog.timer = ev_timer_new(a->loop, watchdog, a);
	ev_timer_start(a->watchdog.timer, 0);
}

/* --- drain: the steps from "no new work" to an idle loop (AUDIT A-224) */

#define WATCH_US 1000000
#define POLL_US 10000                   /* how often a drain looks whether it is over */
#define CANCEL_US 5000000               /* how long cancelled calls may take to end and to be recorded */
#define DRAIN_DEFAULT_MS 25000

static bool nothing_runs(const struct app *a)
{
	return call_engine_running(a->calls) == 0 && a->nelders == 0;
}

/* Leaving: somebody waits for us. */
static bool is_idle(const struct app *a)
{
	return nothing_runs(a) && (a->leaving ? app_listen_busy(a) == 0 : app_listen_live(a) == 0 && !a->stdio_open);
}

static void cancel(struct app *a)
{
	size_t running = call_engine_running(a->calls);

	if (running > 0)
		log_warn(NULL, "cancelling running calls count=%zu", running);
	a->phase = APP_CANCELLING;
	a->drain_until_us = ev_now_us(a->loop) + CANCEL_US;
	if (a->leaving && !a->leaving_stopped && call_engine_staying(a->calls, NULL, NULL) <= APP_STAY_MAX)
		call_engine_cancel_others(a->calls);
	else
		call_engine_cancel_all(a->calls, CANCEL_SHUTDOWN);
}

/* What runs on does so here, and what else there is has ended; late: as far as it will. */
static bool may_part(const struct app *a, bool late)
{
	if (!a->leaving || a->leaving_stopped || ev_now_us(a->loop) < a->stay_us )
		return false;
	return late || app_listen_busy(a) <= call_engine_running(a->calls);
}

static void drain_poll(void *arg)
{
	struct app *a = arg;
	bool late = ev_now_us(a->loop) >= a->drain_until_us;

	a->stays = !is_idle(a) && may_part(a, late) && app_linger_begin(a);
	if (a->stays || is_idle(a) || (a->phase == APP_CANCELLING && (late || nothing_runs(a)))) {
		a->phase = APP_ENDED;
		ev_loop_stop(a->loop);
		return;
	}
	if (a->phase == APP_DRAINING && late)
		cancel(a);
	ev_timer_start(a->drain, POLL_US);
}

void app_drain(struct app *a)
{
	uint32_t drain_ms = a->opt.conf ? a->opt.conf->drain_ms : DRAIN_DEFAULT_MS;

	a->phase = APP_DRAINING;
	a->drain_until_us = ev_now_us(a->loop) + (uint64_t)drain_ms * 1000;
	if (a->daily)
		daily_stop(a->daily);
	a->stay_us = ev_now_us(a->loop) + APP_STAY_AFTER_MS * 1000ull;
	if (a->mcp)
		mcp_drain(a->mcp, a->leaving ? APP_LINGER_MAX_MS : drain_ms);
	if (a->leaving)
		call_engine_stay(a->calls);
	if (a->calls)
		call_engine_drain(a->calls);
	a->drain = ev_timer_new(a->loop, drain_poll, a);
	ev_timer_start(a->drain, 0);
}

void app_drain_undo(struct app *a)
{
	ev_timer_free(&a->drain);
	a->phase = APP_RUNNING;
}

void app_stop(struct app *a)
{
	if (a->phase == APP_DRAINING)
		cancel(a);
	if (a->phase != APP_RUNNING)
		return;
	notify("STOPPING=1", 0);
	app_listen_drain(a);
	call_engine_put_off(a->calls);
	app_drain(a);
}

bool app_is_draining(void *app)
{
	const struct app *a = app;

	return a->phase != APP_RUNNING;
}

/* --- signals */

static const int signals[APP_SIGNALS] = { SIGTERM, SIGINT, SIGHUP };

static void on_signal(void *arg, int signo)
{
	struct app *a = arg;

	if (a->linger) {
		a->leaving_stopped |= signo != SIGHUP;
		return;
	}
	if (signo == SIGHUP && a->opt.profile == APP_DAEMON) {
		app_reload(a);
		return;
	}
	a->leaving_stopped = a->leaving;
	log_info(NULL, a->phase == APP_RUNNING ? "stopping signal=%d" : "stopping without waiting signal=%d", signo);
	app_stop(a);
}

/* --- copies of before (OP-911) */

#define DAY_US UINT64_C(86400000000)

static void drop_body(void *arg)
{
	const struct app *a = arg;
	struct err err = { 0 };
	unsigned n;

	if (db_before_drop(a->store, DB_BEFORE_OLD, &n, &err) < 0)
		log_warn(NULL, "old copies of the store cannot be removed where=%s why=\"%s\"", err.where, err.msg);
}

static void drop_done(void *arg)
{
	(void)arg;
}

static void drop_copies(struct app *a)
{
	if (ev_now_us(a->loop) >= a->copies_due_us && ev_work(a->loop, EV_LANE_READ, drop_body, drop_done, a) == 0)
		a->copies_due_us = ev_now_us(a->loop) + DAY_US;
}

/* A store that failed stays failed until it is opened again: leave it to the supervisor (AUDIT A-216).  Not at once:
 * who asks each second whether calls may come hears why they may not (OP-103).  A node may be drained. */
static void watch(void *arg)
{
	struct app *a = arg;
	const char *reason = NULL;

	if (a->phase == APP_RUNNING && writer_state(a->writer, &reason) == ERR_IO) {
		if (!a->store_failed) {
			a->store_failed = true;
			ev_timer_start(a->watch, WATCH_US);
			return;
		}
		log_err(NULL, "ending because of the store why=\"%s\"", reason);
		a->status = 1;
		app_stop(a);
		app_stop(a);
		return;
	}
	if (a->phase == APP_RUNNING && writer_drains(a->writer))
		app_stop(a);
	app_clock_check(a);
	app_alerts_watch(a);
	app_certs_check(a);
	drop_copies(a);
	ev_timer_start(a->watch, WATCH_US);
}

/* The writer ends both. */
static void fold_and_seal(struct app *a)
{
	const struct conf *conf = a->opt.conf;

	if (!conf)
		return;
	writer_fold_start(a->writer, &(struct writer_fold_limits){ .fold_rows = conf->fold_rows,
		.plain_rows = conf->plain_rows, .fold_age_s = conf->fold_age_s });
	writer_seal_start(a->writer, &(struct writer_seal_limits){ .on = strcmp(conf->audit_seal, "on") == 0,
		.after_s = conf->seal_after_s, .hot = conf->hot_records });
}

int app_watch_start(struct app *a, struct err *err)
{
	(void)err;
	for (size_t i = 0; i < APP_SIGNALS; i++)
		a->signals[i] = ev_signal_new(a->loop, signals[i], on_signal, a);
	app_clock_start(a);
	app_certs_look(a);
	a->watch = ev_timer_new(a->loop, watch, a);
	ev_timer_start(a->watch, WATCH_US);
	watchdog_start(a);
	fold_and_seal(a);
	if (a->daily)
		daily_start(a->daily);
	return 0;
}

void app_watch_stop(struct app *a)
{
	for (size_t i = 0; i < APP_SIGNALS && !a->linger; i++)
		ev_signal_free(&a->signals[i]);
	ev_timer_free(&a->watch);
	ev_timer_free(&a->watchdog.timer);
	ev_timer_free(&a->drain);
}

/* --- at close: whatever still runs is cancelled, and its end recorded, while the writer is there */

struct idle_wait { struct app *a; struct ev_timer *timer; bool done; };

static void idle_poll(void *arg)
{
	struct idle_wait *w = arg;

	w->done = call_engine_running(w->a->calls) == 0;
	if (!w->done)
		ev_timer_start(w->timer, POLL_US);
}

void app_calls_end(struct app *a)
{
	struct idle_wait w = { .a = a };

	reports_stop(a->reports);
	reports_stop(a->paged);
	if (a->daily)
		daily_stop(a->daily);
	w.timer = ev_timer_new(a->loop, idle_poll, &w);
	ev_timer_start(w.timer, 0);
	if (call_engine_running(a->calls) > 0)
		call_engine_cancel_all(a->calls, CANCEL_SHUTDOWN);
	if (!ev_loop_run_until(a->loop, &w.done, CANCEL_US / 1000))
		log_err(NULL, "calls did not end count=%zu", call_engine_running(a->calls));
	ev_timer_free(&w.timer);
}

/* The wall clock, each second.  Against the monotonic one: when it was set while the server runs, a record says so
 * (AUDIT 1605), and times that fall in the audit are explained.  And whether the kernel takes it for synchronised:
 * every record says that, and one of its own says that it changed (AUDIT 1606, FAULT F25). */

#define STEP_US 1000000                 /* less is drift, or a slow turn of the loop */

static int clock_record(struct app *a, enum audit_kind kind, const char *text)
{
	struct audit_event ev;
	int rc;

	audit_event_init(&ev, kind, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	rc = writer_audit(a->writer, &ev, NULL, NULL);
	if (rc < 0)
		log_warn(NULL, "the state of the clock could not be recorded kind=%s", audit_kind_name(kind));
	return rc;
}

/* A record and a line of what the kernel says now, with as many changes since the last one. */
static int tell(struct app *a, const struct clock_state *now, unsigned changes)
{
	const char *name = clock_sync_name(now->sync);
	char text[192], more[64] = "";

	if (changes > 1)
		(void)snprintf(more, sizeof(more), ", changed %u times since it was last said", changes);
	if (now->sync == CLOCK_UNKNOWN)
		(void)snprintf(text, sizeof(text), "%s: %s%s", name, strerror(now->why), more);
	else if (now->sync == CLOCK_UNSYNCED)
		(void)snprintf(text, sizeof(text), "%s, status 0x%04x%s", name, now->status, more);
	else
		(void)snprintf(text, sizeof(text), "%s, error at most %" PRIu64 " ms, status 0x%04x%s", name,
			       now->max_error_us / 1000,
			       now->status, more);
	if (now->sync == CLOCK_UNSYNCED)
		log_warn(NULL, "the clock is not synchronised, times of records may be wrong state=\"%s\"", text);
	else
		log_info(NULL, "the clock state=\"%s\"", text);
	return clock_record(a, AUDIT_TIME_SYNC, text);
}

static void clock_take(struct app *a, enum clock_sync sync)
{
	a->clock.sync = sync;
	writer_clock(a->writer, sync);
	metric_set(METRIC_clock_synchronised, sync == CLOCK_SYNCED);
}

/* The first change is told at once, what follows at most every APP_CLOCK_GAP_US: a clock on the edge must not fill
 * the log. */
static void check_sync(struct app *a)
{
	struct app_clock *c = &a->clock;
	const uint64_t mono_us = clock_mono_us();
	struct clock_state now;

	clock_state(&now);
	if (now.sync != c->sync) {
		clock_take(a, now.sync);
		c->changes++;
		metric_inc(METRIC_clock_changes);
	}
	if (c->changes == 0 || (c->told_us && mono_us - c->told_us < APP_CLOCK_GAP_US))
		return;
	c->told_us = mono_us;
	if (tell(a, &now, c->changes) == 0)
		c->changes = 0;
}

static void check_step(struct app *a)
{
	int64_t offset = (int64_t)clock_wall_us() - (int64_t)clock_mono_us(), step = offset - a->clock.offset_us;
	char text[64];

	if (step > -STEP_US && step < STEP_US)
		return;
	a->clock.offset_us = offset;
	(void)snprintf(text, sizeof(text), "%+" PRId64 " ms", step / 1000);
	if (a->mcp)
		mcp_recheck(a->mcp, 0); /* what has expired by the clock as it is now */
	log_warn(NULL, "the clock was set by=\"%s\"", text);
	(void)clock_record(a, AUDIT_CLOCK_STEP, text);
}

void app_clock_start(struct app *a)
{
	struct clock_state now;

	a->clock.offset_us = (int64_t)clock_wall_us() - (int64_t)clock_mono_us();
	clock_state(&now);
	clock_take(a, now.sync);
	a->clock.changes = tell(a, &now, 0) < 0;
}

void app_clock_check(struct app *a)
{
	check_step(a);
	check_sync(a);
}
