#ifndef COMMAND_APPROVAL_H
#define COMMAND_APPROVAL_H

#include "base/err.h"
#include "command/command.h"

#include <stddef.h>

/* A second administrator (approval.c). */

struct command_call;
struct command_run;
struct audit_field;
struct audit_logs;
struct db;

/* Rows with ADM_SECOND_ASKED, in body(): 0, or ERR_DENIED unless another administrator has agreed; return that, and
 * what was written until then is undone.  The request is filed, and the answer says how it is granted. */
int approval_require(struct command_call *c, struct db *db, struct err *err) MUST_CHECK;
/* The same where there may be several reasons, each of which the one who decides is told: 0 also when nobody has
 * agreed; the command is refused at the end of its body.  What is taken back (c->undo) needs nobody. */
int approval_require_for(struct command_call *c, struct db *db, const char *why, struct err *err) MUST_CHECK;
/* After that, and in any body of a row with ADM_SECOND_ALWAYS: who agreed, for the field AUDIT_TAG_APPROVER. */
const char *approval_by(const struct command_call *c);
/* how many: none when nobody was asked */
size_t approval_field(const struct command_call *c, struct audit_field *ret);

/* Which policies are in force, as records say.  In bodies on the writer's thread. */
struct audit_policy;
int approval_policy(const struct command_call *c, struct db *db, struct audit_policy *ret, struct err *err) MUST_CHECK;

/* In a job of its own: find or make the request for run->action. */
int approval_file(struct command_run *run, struct db *db, struct audit_logs *logs, struct err *err) MUST_CHECK;
void approval_refuse(struct command_run *run, struct err *err);

/* Its tables of commands, for app/commands.c. */
extern const struct command approval_commands[];

#endif
