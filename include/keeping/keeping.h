#ifndef KEEPING_KEEPING_H
#define KEEPING_KEEPING_H

#include "command/command.h"

/* The life of records: retention, holds, prunes, erasure, drills and signed checkpoints, as commands. */

/* Go on with what was begun and not ended: records that are pruned. */
void jobs_resume(struct commands *a);

/* toolcrib restore, by its arguments, in the program that was called: a backup into a new directory.  Rows of what is
 * there, the last one with the figures; what is damaged is no error but a row of class "bad", and nothing is left then.
 * ERR_INVALID, ERR_UNREACHABLE, ERR_CONFLICT, ERR_LIMIT, ERR_IO. */
int restore_run(const json_t *args, struct str *rows, struct err *err) MUST_CHECK;

/* Its tables of commands, for app/commands.c. */
extern const struct command payload_commands[], drill_commands[], sign_commands[], hold_commands[],
	retention_commands[], prune_commands[], compact_commands[], erase_commands[], seal_commands[], restore_commands[];

#endif
