/* What the files of this room share: the listener (scrape.c) has texts made (expo.c). */
#ifndef OPS_INT_H
#define OPS_INT_H

#include "base/metric.h"
#include "base/text.h"
#include "ops/ops.h"
#include "writer/writer.h"

/* What only the loop can see, as a text begins. */
struct ops_seen {
	bool ready;                     /* the server is */
	enum writer_why why;            /* what is written is refused, if it is */
	double (*quota)[OPS_QUOTAS];    /* of each slot of a tenant; negative: it has none */
	size_t nquotas;
	struct ops_upstream { char name[64]; bool up; } *upstream;
	size_t nupstreams;
	struct str more;                /* of env.more */
	unsigned others, others_down;   /* upstreams beyond OPS_UPSTREAMS_MAX */
	struct { const char *rule, *severity; unsigned n; } alert[OPS_ALERTS_MAX];
	size_t nalerts;
};
/* expo.c: append all metrics.  Any thread, between tally_hold() and tally_release(). */
void ops_expose(const struct ops_env *env, const struct ops_seen *seen, enum metric_format format, struct str *ret);

#endif
