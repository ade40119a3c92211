/* What the files of this room share: the listener (scrape.c) has texts made (expo.c). */
#ifndef OPS_INT_H
#define OPS_INT_H

#include "base/metric.h"
#include "base/text.h"
#include "ops/ops.h"

/* expo.c: append all metrics.  Any thread. */
void ops_expose(const struct ops_env *env, bool ready, enum metric_format format, struct str *ret);

#endif
