/* tool-health and stats, the commands: what they are asked with.  report/stats.c counts. */
#include "config.h"

#include "base/clock.h"
#include "base/mem.h"
#include "command/rows.h"

#include "review_int.h"

#define SLOTS 48                        /* spans of time that stats aims at */
#define DAY_US 86400000000ull

static int tool_health_check(struct command_call *c, struct err *err)
{
	return report_ask_check(c, report_ask_new(c), err);
}

/* The smallest round step that makes few enough of the span. */
static uint64_t step_for(uint64_t span_us)
{
	static const unsigned seconds[] = { 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
		43200 };

	for (size_t i = 0; i < sizeof(seconds) / sizeof(*seconds); i++)
		if (span_us <= SLOTS * 1000000ull * seconds[i])
			return 1000000ull * seconds[i];
	return (span_us / DAY_US / SLOTS + 1) * DAY_US;
}

static int stats_check(struct command_call *c, struct err *err)
{
	uint64_t now_us = clock_wall_us();
	struct report_ask *ask = report_ask_new(c);
	int rc = report_ask_check(c, ask, err);

	if (rc < 0)
		return rc;
	if (!ask->until_us)
		ask->until_us = now_us;
	if (!ask->since_us)
		ask->since_us = ask->until_us > DAY_US ? ask->until_us - DAY_US : 0;
	if (ask->until_us <= ask->since_us)
		return err_set(err, ERR_INVALID, "until", "--until is not after --since: nothing lies between");
	ask->step_us = 1000 * arg_duration_ms(c, "step", 0);
	if (ask->step_us == 0)
		ask->step_us = step_for(ask->until_us - ask->since_us);
	ask->since_us -= ask->since_us % ask->step_us;
	if ((ask->until_us - ask->since_us) / ask->step_us >= REPORT_SLOTS_MAX)
		return err_set(err, ERR_LIMIT, "step", "more than %d steps: make --step longer", REPORT_SLOTS_MAX);
	return 0;
}

/* --- rows of the command table */

static const struct command_column tool_health_cols[] = {
	COL("tool", "TOOL"), COL("calls", "CALLS"), COL("ok", "OK"), COL("errors", "ERRORS"), COL("timeouts", "TIMEOUTS"),
	COL("refused", "REFUSED"), COL("other", "OTHER"), COL("p50_ms", "P50 MS"), COL("p95_ms", "P95 MS"),
	COL("p99_ms", "P99 MS"), COL("max_ms", "MAX MS"), COL_END };
static const struct command_column stats_cols[] = {
	COL_AT("time", "TIME"), COL("calls", "CALLS"), COL("errors", "ERRORS"), COL("timeouts", "TIMEOUTS"),
	COL("refused", "REFUSED"), COL("p50_ms", "P50 MS"), COL("p95_ms", "P95 MS"), COL("p99_ms", "P99 MS"), COL_END };
static const struct command_arg audit_tool_health_args[] = {
	REPORT_TENANT, REPORT_SPAN, OPT("tool", "TOOL", ARG_TEXT, COMPLETE_TOOL, "This tool alone, as the tenant sees it."),
	REPORT_WAIT, ARG_END };
static const struct command_arg audit_stats_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: of all."), REPORT_TOOL, REPORT_SPAN,
	OPT("step", "TIME", ARG_DURATION, COMPLETE_NONE,
		"How much time a line stands for: 1m, 1h; default: what gives some 48."),
	REPORT_WAIT, ARG_END };

const struct command tool_health_commands[] = {
	{ .noun = "audit", .verb = "tool-health", .help = "Count a tenant's calls, failures and times by tool",
	  .args = audit_tool_health_args,
	  .detail = "P50, P95 and P99 are the times within which so many of a hundred of the calls that ran had ended: "
		    "upper bounds, an eighth too large at most.",
	  .columns = tool_health_cols, .shape = ADM_REPORT, .role = ADM_AUDIT, .console = true, .where = ADM_ELSEWHERE,
	  .record = AUDIT_AUDIT_READ,
	  .check = tool_health_check },
	{ .noun = NULL },
};

const struct command stats_commands[] = {
	{ .noun = "audit", .verb = "stats", .help = "Chart calls, errors and times", .args = audit_stats_args,
	  .detail = "Of the last day, when no time is given; of whole steps, so that the first may begin before --since.  "
		    "Bars are calls, their end in another sign those that failed or were refused.",
	  .columns = stats_cols, .shape = ADM_CHART, .role = ADM_AUDIT, .console = true, .where = ADM_ELSEWHERE,
	  .record = AUDIT_AUDIT_READ,
	  .check = stats_check },
	{ .noun = NULL },
};
