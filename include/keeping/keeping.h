#ifndef KEEPING_KEEPING_H
#define KEEPING_KEEPING_H

#include "command/command.h"

/* The life of records: retention, holds, prunes, erasure, drills and signed checkpoints, as commands. */

/* Go on with what was begun and not ended: records that are pruned. */
void admin_resume(struct admin *a);

/* Its tables of commands, for app/commands.c. */
extern const struct adm_cmd payload_commands[], drill_commands[], sign_commands[], hold_commands[],
	retention_commands[], prune_commands[], compact_commands[], erase_commands[];

#endif
