/* Upstreams in this process; and who looks when one says that its tools have changed. */
#include "config.h"

#include <stdlib.h>

#include "command/command.h"
#include "upstream/upstream.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/db.h"
#include "db/owner.h"
#include "keys/vault.h"

#include "app_int.h"

int app_upstreams_start(struct app *a, struct err *err)
{
	char *file = path_join(a->store, DB_FILE);
	struct db *db = NULL;
	int rc = db_open(file, DB_READER, false, &db, err);

	free(file);
	a->upstreams = upstreams_new(&(struct upstreams_env){ .loop = a->loop, .fetcher = a->fetcher,
		.secrets = vault_secrets(a->vault), .sandbox = &a->cage });
	if (rc == 0)
		rc = upstreams_load(a->upstreams, db, err);
	db_close(&db);
	if (rc < 0)
		upstreams_free(&a->upstreams);
	return rc;
}

void app_upstreams_stop(struct app *a)
{
	upstreams_free(&a->upstreams);
}

static void looked(void *arg, const struct str *rows, const struct err *err)
{
	char *name = arg;

	(void)rows;
	if (err)
		log_warn(NULL, "tools of an upstream could not be looked at upstream=%s why=\"%s\"", name, err->msg);
	free(name);
}

static void look(void *arg, const char *name)
{
	struct app *a = arg;
	json_t *args = json_pack("{s:s, s:b}", "upstream", name, "check", 1);
	const struct command_req req = { .who = { .system = true }, .noun = "upstream", .verb = "sync", .args = args };

	command_run(a->admin, &req, looked, mem_strdup(name));
	json_decref(args);
}

int app_upstreams_watch(struct app *a, struct err *err)
{
	(void)err;
	upstreams_on_change(a->upstreams, look, a);
	return 0;
}

void app_upstreams_unwatch(struct app *a)
{
	if (a->upstreams)
		upstreams_on_change(a->upstreams, NULL, NULL);
}
