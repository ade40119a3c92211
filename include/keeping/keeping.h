#ifndef KEEPING_KEEPING_H
#define KEEPING_KEEPING_H

#include "command/command.h"

/* The life of records: retention, holds, prunes, erasure, drills and signed checkpoints, as commands. */

/* Go on with what was begun and not ended: records that are pruned. */
void jobs_resume(struct commands *a);

/* Its tables of commands, for app/commands.c. */
extern const struct command payload_commands[], drill_commands[], sign_commands[], hold_commands[],
	retention_commands[], prune_commands[], compact_commands[], erase_commands[], seal_commands[];

#endif
