/* The end: signals, the store's health, and the steps from "no new work" to an idle loop (AUDIT A-224). */
#include "config.h"

#include <signal.h>

#include "base/log.h"
#include "call/call.h"
#include "ev/ev.h"
#include "mcp/mcp.h"
#include "writer/writer.h"

#include "app_int.h"

#define WATCH_US 1000000
#define POLL_US 10000                   /* how often a drain looks whether it is over */
#define CANCEL_US 5000000               /* how long cancelled calls may take to end and to be recorded */
#define DRAIN_DEFAULT_MS 25000

static bool is_idle(const struct app *a)
{
	return call_engine_running(a->calls) == 0 && app_listen_live(a) == 0 && !a->stdio_open;
}

static void end(struct app *a)
{
	a->phase = APP_ENDED;
	ev_loop_stop(a->loop);
}

static void cancel(struct app *a)
{
	size_t running = call_engine_running(a->calls);

	if (running > 0)
		log_warn(NULL, "cancelling running calls count=%zu", running);
	a->phase = APP_CANCELLING;
	a->drain_until_us = ev_now_us(a->loop) + CANCEL_US;
	call_engine_cancel_all(a->calls, CANCEL_SHUTDOWN);
}

static void drain_poll(void *arg)
{
	struct app *a = arg;
	bool late = ev_now_us(a->loop) >= a->drain_until_us;

	if (is_idle(a) || (a->phase == APP_CANCELLING && (late || call_engine_running(a->calls) == 0))) {
		end(a);
		return;
	}
	if (a->phase == APP_DRAINING && late)
		cancel(a);
	ev_timer_start(a->drain, POLL_US);
}

void app_stop(struct app *a)
{
	uint32_t drain_ms = a->opt.conf ? a->opt.conf->drain_ms : DRAIN_DEFAULT_MS;

	if (a->phase == APP_DRAINING)
		cancel(a);
	if (a->phase != APP_RUNNING)
		return;
	a->phase = APP_DRAINING;
	a->drain_until_us = ev_now_us(a->loop) + (uint64_t)drain_ms * 1000;
	app_notify("STOPPING=1");
	app_listen_pause(a);
	if (a->mcp)
		mcp_drain(a->mcp, drain_ms);
	a->drain = ev_timer_new(a->loop, drain_poll, a);
	ev_timer_start(a->drain, 0);
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

	if (signo == SIGHUP && a->opt.profile == APP_DAEMON) {
		app_reload(a);
		return;
	}
	log_info(NULL, a->phase == APP_RUNNING ? "stopping signal=%d" : "stopping without waiting signal=%d", signo);
	app_stop(a);
}

/* A store that failed stays failed until it is opened again: leave it to the supervisor (AUDIT A-216). */
static void watch(void *arg)
{
	struct app *a = arg;
	const char *reason = NULL;

	if (a->phase == APP_RUNNING && writer_state(a->writer, &reason) == ERR_IO) {
		log_err(NULL, "ending because of the store why=\"%s\"", reason);
		a->status = 1;
		app_stop(a);
		app_stop(a);
		return;
	}
	app_clock_check(a);
	app_certs_check(a);
	ev_timer_start(a->watch, WATCH_US);
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
	return 0;
}

void app_watch_stop(struct app *a)
{
	for (size_t i = 0; i < APP_SIGNALS; i++)
		ev_signal_free(&a->signals[i]);
	ev_timer_free(&a->watch);
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

	w.timer = ev_timer_new(a->loop, idle_poll, &w);
	ev_timer_start(w.timer, 0);
	if (call_engine_running(a->calls) > 0)
		call_engine_cancel_all(a->calls, CANCEL_SHUTDOWN);
	if (!ev_loop_run_until(a->loop, &w.done, CANCEL_US / 1000))
		log_err(NULL, "calls did not end count=%zu", call_engine_running(a->calls));
	ev_timer_free(&w.timer);
}
