/* The server's default of how much of a call is kept.  The store remembers it, for commands that have no configuration, and so
 * that a change of the file is a record (AUDIT A-221). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/payload.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "db/db.h"
#include "writer/writer.h"

#include "app_int.h"

#define META_LEVEL "audit_level"

/* What the store says; -1: nothing yet. */
static int read_level(struct db *db, int *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);
	int rc;

	db_bind_textz(st, 1, META_LEVEL);
	rc = db_step(st, err);
	*ret = rc == 1 ? audit_level_from_name(db_col_text(st, 0, NULL)) : -1;
	db_stmt_put(&st);
	if (rc == 1 && *ret < 0)        /* AUDIT A-222: it never means less */
		return err_set(err, ERR_CORRUPT, "meta/" META_LEVEL, "the store's audit level cannot be read");
	return rc < 0 ? rc : 0;
}

int app_level_load(struct app *a, struct db *db, struct err *err)
{
	int rc = read_level(db, &a->stored_level, err);

	if (rc < 0)
		return rc;
	if (a->opt.conf)
		a->audit_level = audit_level_from_name(a->opt.conf->audit_level);
	else
		a->audit_level = a->stored_level < 0 ? AUDIT_LEVEL_DEFAULT : a->stored_level;
	return 0;
}

static int store_level(struct db *db, const char *name, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_SET_VALUE);

	db_bind_textz(st, 1, META_LEVEL);
	db_bind_textz(st, 2, name);
	return db_run(&st, err);
}

/* Writer thread.  A store without one had no payloads: it is a change from nothing, which is one. */
static int change_level(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const int *level = arg;
	struct audit_event ev;
	int stored = -1;
	char *detail;
	int rc = read_level(db, &stored, err);

	if (rc < 0)
		return rc;
	rc = store_level(db, audit_level_name(*level), err);
	if (rc < 0)
		return rc;
	detail = mem_printf("%s -> %s", stored < 0 ? "none" : audit_level_name(stored), audit_level_name(*level));
	audit_event_init(&ev, AUDIT_LEVEL_CHANGE, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.obj = "level/default";
	ev.detail = detail;
	rc = audit_append(logs, db, &ev, NULL, err);
	free(detail);
	return rc;
}

static void level_changed(void *arg, int rc, const struct err *err)
{
	if (rc < 0)
		log_err(NULL, "the audit level could not be recorded why=\"%s\"", err ? err->msg : "");
	free(arg);
}

int app_level_start(struct app *a, struct err *err)
{
	static const struct writer_job job = { .name = "audit level", .run = change_level, .done = level_changed };
	int *level;

	if (a->audit_level == a->stored_level)
		return 0;
	level = mem_dup(&a->audit_level, sizeof a->audit_level);
	if (writer_submit(a->writer, &job, level) == 0)
		return 0;
	free(level);
	return err_set(err, ERR_AUDIT, "", "the audit level cannot be recorded");
}
