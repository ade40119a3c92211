#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Counters and gauges of the process: one row each in base/metrics.def, from which the names, the
 * help and the text for Prometheus come.  All functions: any thread, relaxed atomics, no order between
 * two metrics. */
struct str;

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_INFO, METRIC_HISTOGRAM };

enum metric_id {
#define METRIC(name, type, unit, help) METRIC_##name,
#include "base/metrics.def"
#undef METRIC
	METRIC__COUNT
};

void metric_inc(enum metric_id id);
void metric_add(enum metric_id id, uint64_t n);
void metric_dec(enum metric_id id);                      /* gauges only; not below 0 */
void metric_set(enum metric_id id, uint64_t value);      /* gauges only */
uint64_t metric_get(enum metric_id id);

/* Walk: for (unsigned i = 0; i < metric_count(); i++) with (enum metric_id)i.  Texts are static. */
unsigned metric_count(void);
const char *metric_name(enum metric_id id);              /* without the prefix "toolcrib_" */
FOR_TESTS const char *metric_help(enum metric_id id);
FOR_TESTS const char *metric_unit(enum metric_id id);      /* what one is: "connections", "calls" */

/* --- the text for scrapers: Prometheus' 0.0.4, or OpenMetrics 1.0.0 */

enum metric_format { METRIC_TEXT, METRIC_OPENMETRICS, METRIC_FORMATS };
#define METRIC_PREFIX "toolcrib_"       /* of all names but those that every process has */

/* Append the lines in front of a family's samples; name: whole, without what the type puts behind it.  help is one
 * sentence without quotes, backslashes and line feeds. */
void metric_head(struct str *ret, enum metric_format format, const char *name, enum metric_type type,
		 const char *help);
/* Append a label's value with its escapes, without the quotes around it; any bytes but NUL. */
void metric_put_label(struct str *ret, const char *value);
/* Append all rows of the table.  An OpenMetrics text ends with METRIC_EOF, which is the caller's to append. */
void metric_expose(struct str *ret, enum metric_format format);
#define METRIC_EOF "# EOF\n"

#endif
