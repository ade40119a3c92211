/* The signer of the audit's checkpoints: where it is, and the rows of the table that start and stop it. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "db/db.h"
#include "db/owner.h"
#include "notary/notary.h"
#include "writer/writer.h"

#include "app_int.h"

/* meta: "dir PATH" or "socket PATH", as the configuration of the last server said, for commands that own the store without
 * having read it (AUDIT A-603); missing when it said nothing. */
#define PLACE_KEY "signer"

struct place { char text[512]; };

static int read_place(const char *store, struct place *ret, struct err *err)
{
	char *file = path_join(store, DB_FILE);
	struct db *db = NULL;
	struct db_stmt *st;
	int rc = db_open(file, DB_READER, false, &db, err);

	free(file);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_META_GET_VALUE);
	db_bind_textz(st, 1, PLACE_KEY);
	rc = db_step(st, err);
	if (rc == 1)
		(void)snprintf(ret->text, sizeof(ret->text), "%s", db_col_text(st, 0, NULL));
	db_stmt_put(&st);
	db_close(&db);
	return rc < 0 ? rc : 0;
}

/* What the configuration says, as it stands in meta. */
static int conf_place(const struct conf *conf, struct place *ret, struct err *err)
{
	const char *path = conf->signer_socket ? conf->signer_socket : conf->signer_dir;

	if (conf->signer_socket && conf->signer_dir)
		return err_set(err, ERR_INVALID, "signer.socket", "signer.dir is for a signer that this server starts, signer.socket for another");
	if (path && (*path != '/' || strlen(path) > sizeof(ret->text) - 16))
		return err_set(err, ERR_INVALID, "signer", "%s must be an absolute path", path);
	if ((conf->anchor_file && *conf->anchor_file != '/') || (conf->anchor_cmd && *conf->anchor_cmd != '/'))
		return err_set(err, ERR_INVALID, "anchor", "anchor.file and anchor.cmd are absolute paths");
	if (path)
		(void)snprintf(ret->text, sizeof(ret->text), "%s %s", conf->signer_socket ? "socket" : "dir", path);
	return 0;
}

static const char *path_of(const struct place *p, const char *kind)
{
	size_t len = strlen(kind);

	return strncmp(p->text, kind, len) == 0 && p->text[len] == ' ' ? p->text + len + 1 : NULL;
}

int app_signer_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf;
	struct place place = { "" };
	int rc;

#ifdef BENCH_BUILD
	if (getenv("TOOLCRIB_BENCH_NOSIGN"))
		return 0;
#endif
	rc = conf ? conf_place(conf, &place, err) : read_place(a->store, &place, err);
	if (rc < 0)
		return rc;
	return notary_open(&(struct notary_opt){ .loop = a->loop, .store = a->store, .dir = path_of(&place, "dir"),
		.socket = path_of(&place, "socket"), .max_age_s = conf ? conf->checkpoint_max_age_s : NOTARY_MAX_AGE_S,
		.anchor_file = conf ? conf->anchor_file : NULL, .anchor_cmd = conf ? conf->anchor_cmd : NULL,
		.anchor_every_s = conf ? conf->anchor_every_s : 0, .adopt = a->opt.adopt }, &a->notary, err);
}

void app_signer_stop(struct app *a)
{
	notary_close(&a->notary);
}

int app_first_keys(const char *store, struct db_owner *owner, char **ret_log, char **ret_epoch, struct err *err)
{
	struct app_opt opt = { .profile = APP_EMBEDDED, .store = store, .owner = owner };
	char *file = path_join(store, DB_FILE), *end;
	struct str keys = STR_INIT;
	struct app *a = NULL;
	struct db *db = NULL;
	int rc = app_start(&opt, &a, err);

	app_close(&a);
	if (rc == 0)
		rc = db_open(file, DB_READER, false, &db, err);
	if (rc == 0)
		rc = audit_keys_print(db, false, &keys, err);
	db_close(&db);
	free(file);
	if (rc == 0) {
		end = strchr(keys.p, '\n');     /* the log's, then the epoch's */
		*ret_log = mem_strndup(keys.p, (size_t)(end - keys.p));
		*ret_epoch = mem_strndup(end + 1, strcspn(end + 1, "\n"));
	}
	str_fini(&keys);
	return rc;
}

/* --- */

static int place_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct place *p = arg;
	struct db_stmt *st = db_stmt_get(db, *p->text ? SQL_META_SET_VALUE : SQL_META_DELETE_VALUE);

	(void)logs;
	db_bind_textz(st, 1, PLACE_KEY);
	if (*p->text)
		db_bind_textz(st, 2, p->text);
	return db_run(&st, err);
}

static void place_done(void *arg, int rc, const struct err *err)
{
	(void)rc;
	(void)err;
	free(arg);
}

int app_checkpoints_start(struct app *a, struct err *err)
{
	static const struct writer_job job = { .name = "place of the signer", .run = place_run, .volatile_only = true,
		.done = place_done };
	struct place *place;
	int rc;

	if (!a->notary)
		return 0;
	rc = notary_start(a->notary, a->writer, err);
	if (rc < 0 || !a->opt.conf)
		return rc;
	place = mem_zalloc(sizeof(*place));
	rc = conf_place(a->opt.conf, place, err);
	if (rc == 0)
		rc = writer_submit(a->writer, &job, place);
	if (rc < 0)
		free(place);
	return rc;
}

void app_checkpoints_stop(struct app *a)
{
	if (a->notary)
		notary_stop(a->notary);
}
