#ifndef END_INT_H
#define END_INT_H

#include "call_int.h"

/* end.c: from state to state, and how a call ends. */
void call_set_state(struct call *c, enum call_state to);
/* The next step: now, or in a later turn of the loop, when its tenant has had its share of this one. */
void call_pace(struct call *c, ev_fn *step);
void call_on_pace(void *eng);                           /* an ev_fn */
void call_turn_soon(struct call_engine *eng);           /* a slot may have become free */
void call_finish(struct call *c, int outcome);          /* the run or the wait: recorded, then answered */
static inline void call_fail(struct call *c, int outcome, const char *text)
{
	call_put_failure(c, text);
	call_finish(c, outcome);
}
void call_say_cancelled(struct call *c);                /* into c->trouble */
/* How a cancelled call ends, whatever its handler says (AUDIT A-224: aborted by a drain). */
static inline void call_end_cancelled(struct call *c)
{
	if (c->eng->closed)
		return;
	call_say_cancelled(c);
	call_finish(c, c->why == CANCEL_SHUTDOWN ? AUDIT_ABORTED : AUDIT_CANCELLED);
}
void call_deny(struct call *c);                         /* for what is in c->trouble */
void call_release_holds(struct call *c);                /* its slots, its room, its timer */
void call_reply(void *call);                            /* an ev_fn */

/* denied.c */
int call_outcome_of(enum call_refusal refusal);         /* enum audit_outcome */
struct denials *denials_new(struct call_engine *eng);
void denials_free(struct denials **d);

#endif
