/* Who may connect to the listeners, as the configuration has it. */
#include "config.h"

#include "net/gate.h"

#include <string.h>

#include "app_int.h"

static struct gate_limits limits_of(const struct conf *c)
{
	return (struct gate_limits){
		.per_source = c->per_source, .per_tenant = c->per_tenant,
		.start = c->unknown_start, .percent = c->unknown_percent, .full = c->unknown_full,
		.failed_ms = c->penalty_failed_s * 1000, .broken_ms = c->penalty_broken_s * 1000,
		.longest_ms = c->penalty_longest_s * 1000,
		.loopback = strcmp(c->loopback, "count") == 0,
	};
}

int app_gate_start(struct app *a, struct err *err)
{
	const struct gate_limits limits = limits_of(a->opt.conf);

	(void)err;
	a->gate = gate_new(a->loop, &limits);
	a->transport_env.gate = a->gate;
	return 0;
}

void app_gate_reload(struct app *a)
{
	const struct gate_limits limits = limits_of(a->opt.conf);

	gate_limit(a->gate, &limits);
}

/* Behind the listeners, once what their closing has put off is done. */
void app_gate_stop(struct app *a)
{
	gate_free(&a->gate);
}
