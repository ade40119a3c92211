#ifndef KEEPING_KEEPING_H
#define KEEPING_KEEPING_H

#include "command/command.h"
#include "json/reply.h"

/* The life of records: retention, holds, prunes, erasure, drills and signed checkpoints, as commands. */

/* What commands have intended and is done behind them, a slice at a time: pruning and erasing.  One for a store, as
 * `jobs` of struct command_env; freed behind commands_free(), and what a lane does for it then ends soon. */
struct jobs *jobs_new(void);
void jobs_free(struct jobs **jobs);
/* Go on with what was begun and not ended. */
void jobs_resume(struct commands *a);
/* toolcrib keys escrow, by its arguments, in the program that was called.  ERR_NOT_FOUND,
 * ERR_CONFLICT, ERR_CORRUPT: what was put away is not what there is. */
int escrow_run(const char *store, const json_t *args, struct str *rows, struct err *err) MUST_CHECK;

/* Sealed files that the copy of a store at `file` lists, from the store's directory into the folder beside the
 * copy, where toolcrib restore finds them (SC-807): those that are not there yet.  0: the copy lacks none.  Errors of
 * audit_sealed_copy(). */
struct backup_sealed { int64_t files, copied, bytes, archived; };       /* copied, bytes: now; archived: not at all */
int backup_sealed(const char *file, const char *store, struct backup_sealed *ret, struct err *err) MUST_CHECK;
void backup_put(const struct backup_sealed *sealed, struct reply *o);
/* In the program that gave the command (struct command, here): what a server could not copy where it may not write,
 * the row's "sealed_in".  When that fails there is no backup. */
int backup_here(const json_t *args, struct str *rows, struct err *err) MUST_CHECK;

/* Its tables of commands, for app/commands.c. */
extern const struct command payload_commands[], drill_commands[], sign_commands[], hold_commands[],
	retention_commands[], prune_commands[], compact_commands[], erase_commands[], seal_commands[],
	archive_commands[], restore_commands[], tested_commands[], escrow_commands[];

#endif
