/* One command in this process: as the owner of the store without listeners, or without a store at all. */

#include "config.h"

#include "ctl_int.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>

#include "app/app.h"
#include "app/handlers.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "db/owner.h"
#include "ev/ev.h"

#define COMMAND_MS (2 * 3600 * 1000)    /* a tool may run for an hour */

struct embed {
	const struct ctl_sink *sink;
	struct str *rows;
	struct err *err;
	int rc;
	bool done;
};

static void on_reply(void *arg, const struct str *rows, const struct err *err)
{
	struct embed *e = arg;

	if (rows && rows->len)
		str_put(e->rows, rows->p, rows->len);
	if (err) {
		*e->err = *err;
		e->rc = err->code;
	}
	e->done = true;
}

static void on_part(void *arg, const struct str *rows)
{
	struct embed *e = arg;

	if (e->sink)
		e->sink->rows(e->sink->arg, rows);
	else
		str_put(e->rows, rows->p, rows->len);
}

static int has_room(void *arg)
{
	const struct embed *e = arg;

	return e->done ? -1 : 1;
}

static const struct adm_sink parts = { .part = on_part, .room = has_room };

static void on_signal(void *arg, int signo)
{
	struct embed *e = arg;

	if (!e->done)
		e->rc = err_set(e->err, ERR_CANCELLED, "", "interrupted");
	e->done = true;
}

static int run(struct ev_loop *loop, struct admin *admin, const struct adm_cmd *cmd, const json_t *args,
	       struct embed *e)
{
	struct adm_req req = { .who = { .uid = geteuid(), .pid = getpid(), .embedded = true }, .cmd = cmd, .noun = cmd->noun,
		.verb = cmd->verb, .args = args, .sink = &parts };
	struct ev_signal *on_int = ev_signal_new(loop, SIGINT, on_signal, e);
	struct ev_signal *on_term = ev_signal_new(loop, SIGTERM, on_signal, e);

	admin_run(admin, &req, on_reply, e);
	if (!ev_loop_run_until(loop, &e->done, COMMAND_MS) && !e->done)
		e->rc = err_set(e->err, ERR_TIMEOUT, "", "the command did not end in time");
	ev_signal_free(&on_int);
	ev_signal_free(&on_term);
	return e->rc;
}

static int run_storeless(const struct adm_cmd *cmd, const json_t *args, struct embed *e)
{
	struct ev_loop *loop = ev_loop_new();
	struct admin_env env = { .loop = loop, .tables = app_commands, .bind = handlers_bind, .owner_uid = geteuid() };
	struct admin *admin = admin_new(&env);
	int rc = run(loop, admin, cmd, args, e);

	admin_free(&admin);
	ev_loop_free(&loop);
	return rc;
}

/* The message says which file and where in it. */
static void bad_conf(struct db_owner **owner, struct err *err)
{
	char where[sizeof(err->where)];

	(void)snprintf(where, sizeof(where), "%s", err->where);
	(void)err_wrap(err, "%s", where);
	db_owner_drop(owner);
}

/* The start itself takes over what `audit adopt` names: without it there would be no store to ask (AUDIT A-722). */
static const char **adopted(const struct adm_cmd *cmd, const json_t *args)
{
	const json_t *tails = json_object_get(args, "tail"), *tail;
	const char **ret;
	size_t i;

	if (strcmp(cmd->noun, "audit") != 0 || !cmd->verb || strcmp(cmd->verb, "adopt") != 0)
		return NULL;
	ret = mem_calloc(json_array_size(tails) + 1, sizeof(*ret));
	json_array_foreach(tails, i, tail)
		ret[i] = json_string_value(tail);
	return ret;
}

int ctl_embed_run(const char *store, struct db_owner *owner, const struct adm_cmd *cmd, const json_t *args,
		  const struct ctl_sink *sink, struct str *rows, bool *ret_reached, struct err *err)
{
	struct app_opt opt = { .profile = APP_EMBEDDED, .store = store, .owner = owner };
	struct embed e = { .sink = sink, .rows = rows, .err = err };
	const char **adopt = adopted(cmd, args);
	struct conf *conf = NULL;
	struct app *app = NULL;
	bool have_roles = false;
	struct err ignored;
	int rc = 0;

	if (!owner) {
		*ret_reached = true;
		free(adopt);
		return run_storeless(cmd, args, &e);
	}
	/* A tool must be confined here as in the server; where nobody can read how, none is run. */
	if (cmd->runs)
		rc = conf_load(NULL, &conf, err);
	else if (cmd->role == ADM_AUDIT || cmd->role == ADM_PAYLOAD)
		have_roles = conf_load(NULL, &conf, &ignored) == 0;        /* the owner may be an auditor as well */
	opt.roles = have_roles ? conf->roles : NULL;
	opt.nroles = have_roles ? conf->nroles : 0;
	opt.tools = conf;
	opt.adopt = adopt;
	*ret_reached = rc < 0;
	if (rc < 0)
		bad_conf(&owner, err);
	else
		rc = app_start(&opt, &app, err);
	if (rc == 0) {
		*ret_reached = true;
		rc = run(app_loop(app), app_admin(app), cmd, args, &e);
		/* A reply that comes while the app closes would find `e` still here. */
		app_close(&app);
	}
	conf_free(&conf);
	free(adopt);
	return rc;
}
