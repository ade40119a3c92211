#ifndef UPSTREAM_SLOT_INT_H
#define UPSTREAM_SLOT_INT_H

#include "link_int.h"

/* The upstreams that are known: their links (upstream.c) and what is watched over them (watch.c). */

struct upstream {
	struct list node;
	struct upstreams *all;
	struct upstream_conf *conf;
	bool enabled;
	bool gone;                      /* replaced or removed: freed with its last link */
	struct map *slots;              /* tenant id -> struct slot */
	struct list every;              /* struct slot.node, retired ones too */
	enum link_era era;                /* spoken last */
	bool has_checked; uint8_t checked[32];  /* the lists that were looked at last */
	uint64_t check_tat;
	struct ev_timer *check;
	struct err error;               /* why the last link that broke did; code 0 = none did */
};

/* A tenant's place at an upstream: its link, or how the last one ended. */
struct slot {
	struct list node;
	struct upstream *up;
	int64_t tenant_id;
	char *tenant;
	struct link *link;
	bool retired;                   /* out of the map: ends with its last call */
	uint64_t secrets_version;
	struct ev_timer *idle;
	uint64_t opened_us, used_us;
	unsigned failures;
	uint64_t next_try_us;
	struct err last;
	struct list watches; size_t nwatches;   /* struct link_watch.node: they keep the link, and open it again */
	struct ev_timer *again;         /* to open it for them, or to tell them */
	uint64_t told_us;
};

struct upstreams {
	struct upstreams_env env;
	struct map *by_name;            /* struct upstream */
	struct list every;              /* struct upstream.node, those that are gone but busy too */
	struct map *parked;
	size_t nlinks;
	struct list homeless;           /* struct link_watch.node: their upstream is not there, or was changed */
	struct ev_timer *rehome;
	upstreams_changed_fn *changed; void *changed_arg;
};

/* upstream.c: ERR_TOOL with a sentence that names no upstream. */
int upstream_slot(struct upstreams *u, const char *name, int64_t tenant_id, const char *tenant, struct slot **ret,
		  struct err *err) MUST_CHECK;
int slot_open(struct slot *s, bool for_call, struct err *err) MUST_CHECK;       /* its link, if it has none */
void slot_idle(struct slot *s);                         /* nobody needs its link now */

/* watch.c */
void watches_reopen(struct slot *s);                    /* the link has ended */
void watches_wait(struct slot *s);                      /* it had to make way */
void watches_opened(struct slot *s);                    /* there is one again */
void watches_updated(void *slot, const char *uri);
void watches_leave(struct slot *s);                     /* the slot retires: they look for another */
void watches_rehome(struct upstreams *u);               /* an upstream was added or changed */
void watches_late(void *slot);                          /* the timer slot.again */
void watches_find_homes(void *upstreams);               /* the timer upstreams.rehome */

#endif
