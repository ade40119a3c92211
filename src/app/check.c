/* What is wrong with a configuration, beyond what its text says: before a start, and before anything of one that is
 * read again takes effect.  Loop thread, and before there is one. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert/alert.h"
#include "base/mem.h"
#include "command/share.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "launcher/launcher.h"
#include "otel/otel.h"
#include "pdp/pdp.h"
#include "sandbox/level.h"
#include "ship/ship.h"
#include "sink/sink.h"

#include "app_int.h"

int app_place_check(const struct conf *conf, struct err *err)
{
	const char *path = conf->signer_socket ? conf->signer_socket : conf->signer_dir;
	const char *key = conf->signer_socket ? "signer.socket" : "signer.dir";

	if (conf->signer_socket && conf->signer_dir)
		return err_set(err, ERR_INVALID, "signer.socket",
			       "signer.dir is for a signer that this server starts, signer.socket for another");
	if (path && (*path != '/' || strlen(path) > APP_PLACE_SIZE - 16))
		return err_set(err, ERR_INVALID, key, "%s must be an absolute path", path);
	if ((conf->anchor_file && *conf->anchor_file != '/') || (conf->anchor_cmd && *conf->anchor_cmd != '/'))
		return err_set(err, ERR_INVALID, conf->anchor_file && *conf->anchor_file != '/' ? "anchor.file" : "anchor.cmd",
			       "anchor.file and anchor.cmd are absolute paths");
	if (conf->approve_notify && *conf->approve_notify != '/')
		return err_set(err, ERR_INVALID, "approve.notify", "approve.notify is an absolute path");
	return 0;
}

static int fault_of(struct err *err, const char *key)
{
	(void)snprintf(err->where, sizeof(err->where), "%s", key);
	return err->code;
}

static int sandbox_check(const struct conf *conf, struct err *err)
{
	struct sandbox_level level;
	struct launcher_uids uids;

	if (strcmp(conf->sandbox_require, SANDBOX_REQUIRE_AUTO) != 0 &&
	    sandbox_level_parse(conf->sandbox_require, &level, err) < 0) {
		(void)err_wrap(err, "sandbox.require");
		return fault_of(err, "sandbox.require");
	}
	if (strcmp(conf->sandbox_uids, "none") != 0 && strcmp(conf->sandbox_uids, APP_UIDS_AUTO) != 0 &&
	    launcher_uids_parse(conf->sandbox_uids, &uids, err) < 0) {
		(void)err_wrap(err, "sandbox.uids");
		return fault_of(err, "sandbox.uids");
	}
	return 0;
}

static int otel_check(const struct conf *conf, struct err *err)
{
	struct otel_setup *setup = NULL;
	int rc = conf->otel_endpoint ? otel_setup_load(conf, &setup, err) : 0;

	otel_setup_free(&setup);
	return rc;
}

/* The key's line; a file that is at fault stays named. */
static int at_line(const struct conf *conf, struct err *err)
{
	char key[sizeof(err->where)];

	memcpy(key, err->where, sizeof(key));
	if (*key && *key != '/') {
		if (!strstr(err->msg, key))
			(void)err_wrap(err, "%s", key);
		(void)snprintf(err->where, sizeof(err->where), "%s", conf_where(conf, key));
	}
	return err->code;
}

int app_values_check(const struct conf *conf, struct err *err)
{
	int rc = app_user_check(conf, err);

	rc = rc ? rc : app_place_check(conf, err);
	rc = rc ? rc : sandbox_check(conf, err);
	rc = rc ? rc : otel_check(conf, err);
	rc = rc ? rc : sinks_check(conf, NULL, err);
	rc = rc ? rc : alerts_check(conf, err);
	rc = rc ? rc : pdps_check(conf, err);
	rc = rc ? rc : ship_check(conf, err);
	rc = rc ? rc : commands_share_check(conf, err);
	return rc < 0 ? at_line(conf, err) : 0;
}

static void keep_first(void *arg, const struct app_door *door)
{
	struct err *err = arg;

	if (door->err && !err->code)
		*err = *door->err;
}

int app_conf_check(const struct conf *conf, struct err *err)
{
	int rc = app_values_check(conf, err);

	if (rc < 0)
		return rc;
	*err = (struct err){ 0 };
	app_doors(conf, keep_first, err);
	return err->code;
}

int app_sandbox_look(struct conf *conf, char *store, void (*fn)(void *arg, const char *levels, const char *users),
		     void *arg, struct err *err)
{
	struct app *a = mem_zalloc(sizeof(*a));
	int rc;

	a->opt = (struct app_opt){ .profile = APP_EMBEDDED, .conf = conf, .store = store };
	a->store = store;
	a->loop = ev_loop_new();
	rc = app_sandbox_start(a, err);
	if (rc == 0) {
		fn(arg, a->sandbox_levels, a->users);
		app_sandbox_stop(a);
	}
	ev_loop_free(&a->loop);
	free(a);
	return rc;
}
