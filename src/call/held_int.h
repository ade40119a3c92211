#ifndef HELD_INT_H
#define HELD_INT_H

#include "call_int.h"

/* held.c: calls that a person has to agree to, behind all other questions.  0, also when somebody has agreed, or a
 * refusal in c->trouble. */
int call_check_approval(struct call *c);
/* ev: call.held; what is asked for is filed with it.  As writer_audit(). */
int call_file(struct call *c, const struct audit_event *ev, writer_audit_fn *done);
/* ev: call.begin; with the use of its approval, if it needs one.  As writer_audit(); ERR_CONFLICT, here or in done:
 * that is not there any more, and nothing was recorded. */
int call_begin_record(struct call *c, const struct audit_event *ev, writer_audit_fn *done);
void call_refuse_begin(struct call *c, int rc);         /* into c->trouble */

#endif
