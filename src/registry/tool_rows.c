/* Definitions as rows: tools, prompts and resources by their full names, for commands; any thread with its
 * connection. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "db/db.h"
#include "registry/tool_rows.h"

void tool_row_read(struct db_stmt *st, struct tool_row *ret)
{
	size_t len;
	const void *digest = db_col_blob(st, 6, &len);

	*ret = (struct tool_row){ .id = db_col_i64(st, 0), .state = (int)db_col_i64(st, 2), .version = db_col_i64(st, 3),
		.created_us = db_col_i64(st, 4), .version_id = db_col_i64(st, 5), .changed_us = db_col_i64(st, 7) };
	ret->kind = (int)db_col_i64(st, 8);
	db_col_copy(st, 1, ret->name, sizeof(ret->name));
	db_col_copy(st, 9, ret->uri, sizeof(ret->uri));
	if (len == sizeof(ret->digest))
		memcpy(ret->digest, digest, len);
}

int tool_row_get(struct db *db, const char *name, struct tool_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TOOL_FIND);
	int rc;

	db_bind_textz(st, 1, name);
	rc = db_step(st, err);
	if (rc == 1)
		tool_row_read(st, ret);
	db_stmt_put(&st);
	return rc;
}

int tool_row_find(struct db *db, const char *name, struct tool_row *ret, struct err *err)
{
	struct tool_row tool;
	struct db_stmt *st;
	int rc = tool_row_get(db, name, &tool, err);

	if (rc < 0)
		return rc;
	if (rc == 1 && tool.state != ADM_TOOL_REMOVED) {
		*ret = tool;
		return 0;
	}
	(void)err_set(err, ERR_NOT_FOUND, "", "%s %.64s: not found", tool_noun(name), tool_bare_name(name));
	st = db_stmt_get(db, SQL_ADMIN_TOOL_LIST);
	db_bind_text(st, 1, name, (size_t)(tool_bare_name(name) - name));
	db_did_you_mean(&st, 1, name, err);
	return ERR_NOT_FOUND;
}

const char *tool_bare_name(const char *full_name)
{
	const char *colon = strchr(full_name, ':');

	return colon ? colon + 1 : full_name;
}

const char *tool_noun(const char *full_name)
{
	static const char *const nouns[] = { "prompt", "resource" };

	for (size_t i = 0; i < NELEMS(nouns); i++)
		if (strncmp(full_name, nouns[i], strlen(nouns[i])) == 0 && full_name[strlen(nouns[i])] == ':')
			return nouns[i];
	return "tool";
}

void tool_full_name(const char *noun, const char *name, char *ret, size_t size)
{
	bool tool = strcmp(noun, "tool") == 0, full = strcmp(tool_noun(name), noun) == 0 && tool_bare_name(name) != name;

	(void)snprintf(ret, size, "%s%s%s", tool || full ? "" : noun, tool || full ? "" : ":", name);
}

const char *tool_state_name(int state)
{
	static const char *const names[] = { [ADM_TOOL_ENABLED] = "enabled", [ADM_TOOL_DISABLED] = "disabled",
		[ADM_TOOL_REMOVED] = "removed" };

	return state >= 1 && state <= 3 ? names[state] : "unknown";
}
