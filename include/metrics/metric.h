#ifndef METRICS_METRIC_H
#define METRICS_METRIC_H

#include <stddef.h>
#include <stdint.h>

/* Counters and gauges of the process: one row each in metrics/metrics.def, from which the names, the
 * help and the text for Prometheus come.  All functions: any thread, relaxed atomics, no order between
 * two metrics. */
struct str;

enum metric_type { METRIC_COUNTER, METRIC_GAUGE };

enum metric_id {
#define METRIC(name, type, unit, help) MET_##name,
#include "metrics/metrics.def"
#undef METRIC
	MET__COUNT
};

void met_inc(enum metric_id id);
void met_add(enum metric_id id, uint64_t n);
void met_dec(enum metric_id id);                      /* gauges only; not below 0 */
void met_set(enum metric_id id, uint64_t value);      /* gauges only */
uint64_t met_get(enum metric_id id);

/* Walk: for (unsigned i = 0; i < met_count(); i++) with (enum metric_id)i.  Texts are static. */
unsigned met_count(void);
const char *met_name(enum metric_id id);              /* without the prefix "toolcrib_" */
const char *met_help(enum metric_id id);
const char *met_unit(enum metric_id id);              /* what one is: "connections", "calls" */
enum metric_type met_type(enum metric_id id);

/* Append all of them in Prometheus' text format 0.0.4. */
void met_expose(struct str *ret);

#endif
