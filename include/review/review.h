#ifndef REVIEW_REVIEW_H
#define REVIEW_REVIEW_H

#include "people/people.h"
#include "command/command.h"

/* Reading the audit, for other rooms of commands. */

/* The index of a record, -1 when the argument is absent; those that two times have between them, the last one
 * included. */
int arg_index(const struct command_call *c, const char *name, int64_t *ret, struct err *err) MUST_CHECK;
int range_of_times(struct db *db, int64_t log, uint64_t since_us, uint64_t until_us, int64_t *ret_from, int64_t *ret_to,
		       struct err *err) MUST_CHECK;

/* The argument `call`: in check(), whether it is an id; in body(), the id and the tenant whose call it is, which
 * `tenant` may name. */
int arg_call_check(struct command_call *c, struct err *err) MUST_CHECK;
int arg_call(const struct command_call *c, struct db *db, uint8_t ret[16], struct tenant_row *ret_tenant,
	     struct err *err) MUST_CHECK;
/* In check() of what reads the audit: it is recorded in the log of the tenant that the argument `tenant` names. */
void arg_record_in(struct command_call *c);

/* Its tables of commands, for app/commands.c. */
extern const struct command key_list_commands[], tool_history_commands[], show_commands[], report_commands[],
	tool_health_commands[], review_commands[], tail_commands[], stats_commands[], proof_commands[], verify_commands[],
	daily_commands[], bundle_commands[];

#endif
