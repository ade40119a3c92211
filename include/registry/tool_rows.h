#ifndef REGISTRY_TOOL_ROWS_H
#define REGISTRY_TOOL_ROWS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Definitions as rows: tools, prompts and resources by their full names, for commands; any thread with its
 * connection. */

struct db;
struct db_stmt;

/* --- what a definition is called: a full name is "prompt:greet", "resource:readme", or a tool's bare name */

const char *tool_noun(const char *full_name);
const char *tool_bare_name(const char *full_name);
/* The full name of what a command of this noun calls `name`: the bare name, or the full one. */
void tool_full_name(const char *noun, const char *name, char *ret, size_t size);

/* Any definition, by its full name. */
struct tool_row {
	int64_t id, version, version_id, created_us, changed_us;
	int state, kind;                /* kind: tool_version.kind */
	char name[80], uri[2049];       /* uri: "" for tools and prompts */
	uint8_t digest[32];
};
int tool_row_find(struct db *db, const char *name, struct tool_row *ret, struct err *err) MUST_CHECK;
/* Removed ones as well: 1 = found, 0 = there never was one. */
int tool_row_get(struct db *db, const char *name, struct tool_row *ret, struct err *err) MUST_CHECK;
/* The same of what is granted to a tenant, by its name; of anything else ERR_NOT_FOUND in the same words, whether it is
 * there or not, and without a hint.  Removed ones where `removed` says so. */
int tool_row_granted(struct db *db, const char *tenant, const char *name, bool removed, struct tool_row *ret,
		     struct err *err) MUST_CHECK;
enum { ADM_TOOL_ENABLED = 1, ADM_TOOL_DISABLED = 2, ADM_TOOL_REMOVED = 3 };
const char *tool_state_name(int state);
/* The row that a statement admin_tool_find or _list stands at. */
void tool_row_read(struct db_stmt *st, struct tool_row *ret);

#endif
