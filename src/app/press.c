/* A server that fills up leaves things out in steps, and says so (SEC S-807); lists and listens are left out by mcp. */
#include "config.h"

#include "base/log.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "limit/limit.h"

#include "app_int.h"

static const struct {
	enum transport_press press;
	const char *say;
} steps[LIMIT_STEPS] = {
	[LIMIT_CALM] = { TRANSPORT_CALM, "not full any more, connections are kept" },
	[LIMIT_NEARLY_FULL] = { TRANSPORT_NEARLY_FULL, "nearly full, connections of those who fill it are not kept" },
	[LIMIT_FULL] = { TRANSPORT_FULL, "full, new connections are taken slowly" },
};

static void count(int from, int to)
{
	metric_set(METRIC_pressure_step, (uint64_t)to);
	if (from < LIMIT_NEARLY_FULL && to >= LIMIT_NEARLY_FULL)
		metric_inc(METRIC_pressure_nearly_full);
	if (from < LIMIT_FULL && to >= LIMIT_FULL)
		metric_inc(METRIC_pressure_full);
}

/* What came and went within a turn is no change. */
static void tell(void *arg)
{
	static struct log_site site;
	struct app *a = arg;

	a->press.due = false;
	if (a->press.step == a->press.told)
		return;
	count(a->press.told, a->press.step);
	a->press.told = a->press.step;
	for (size_t i = 0; i < a->nlisteners; i++)
		a->listeners[i].ops->press(a->listeners[i].t, steps[a->press.told].press);
	if (!log_allow(&site))
		return;
	if (a->press.told == LIMIT_CALM)
		log_info(NULL, "%s pressure=%u%%", steps[a->press.told].say, limit_pressure(a->limiter));
	else
		log_warn(NULL, "%s pressure=%u%%", steps[a->press.told].say, limit_pressure(a->limiter));
}

static void on_step(void *arg, enum limit_step step)
{
	struct app *a = arg;

	a->press.step = (int)step;
	if (a->press.due)
		return;
	a->press.due = true;
	ev_at_turn_end(a->loop, tell, a);
}

int app_press_start(struct app *a, struct err *err)
{
	(void)err;
	limiter_on_step(a->limiter, on_step, a);
	return 0;
}

void app_press_stop(struct app *a)
{
	limiter_on_step(a->limiter, NULL, NULL);
	a->press.step = a->press.told;          /* tell() may be due, and runs when the limiter is gone */
}
