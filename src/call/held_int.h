#ifndef HELD_INT_H
#define HELD_INT_H

#include "call_int.h"

#define CALL_FORM_KEY "approval"        /* the name of the form's question */
#define CALL_ANSWERS_SHOWN "answers of the caller"      /* the name under which an approver finds them */
#define CALL_LAPSED_TEXT "The approval of this call has lapsed; nothing has run"
#define CALL_WITHDRAWN_TEXT "The call does not wait for approval any more; nothing has run"

/* held.c: calls that a person has to agree to, behind all other questions.  0, also when somebody has agreed, or a
 * refusal in c->trouble. */
int call_check_approval(struct call *c);
/* ev: call.held; what is asked for is filed with it.  As writer_audit(). */
int call_file(struct call *c, const struct audit_event *ev, writer_audit_fn *done);
/* ev: call.begin; with the use of its approval, if it needs one.  As writer_audit(); ERR_CONFLICT, here or in done:
 * that is not there any more, and nothing was recorded. */
int call_begin_record(struct call *c, const struct audit_event *ev, writer_audit_fn *done);
void call_refuse_begin(struct call *c, int rc);         /* into c->trouble */

/* hold.c: whose caller waits. */
struct call_holding {
	void (*wait)(struct call *c);           /* call_check_approval() has refused: it rests, or is denied */
	void (*rest)(struct call *c);           /* from when the request for it is on record */
	void (*put_form)(struct call *c);       /* its answer, if it is one, instead of c->trouble */
	void (*say)(const struct call *c, struct call_end *end);        /* of that answer: for what it waits */
	void (*answered)(struct call *c, json_t *answers);              /* taken */
	void (*cancel)(struct call *c, enum cancel_why why);
	void (*drop)(struct call *c);
	void (*look)(void *eng);                /* an ev_fn */
	bool (*joins)(const struct call *c, struct call_end *ret);      /* with the handle of the task that waits */
};
extern const struct call_holding call_holding;
void call_withdraw(struct call *c, struct assent *a);   /* unless others wait for it; a NULL: nothing */
/* state.c */
bool call_form_declined(const json_t *answers);

#endif
