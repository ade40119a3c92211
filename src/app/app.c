/* The face: an app is its table of subsystems, started and stopped in order. */
#include "config.h"

#include "app/app.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "tenant/tenant.h"

#include "app_int.h"

int app_start(const struct app_opt *opt, struct app **ret, struct err *err)
{
	struct app *a = mem_zalloc(sizeof(*a));
	int rc;

	a->opt = *opt;
	a->store = path_absolute(opt->store);
	a->started_us = clock_wall_us();
	a->loop = ev_loop_new();
	rc = app_subsys_start(a, err);
	if (rc < 0) {
		app_close(&a);
		return rc;
	}
	*ret = a;
	return 0;
}

struct ev_loop *app_loop(struct app *a)
{
	return a->loop;
}

struct commands *app_admin(struct app *a)
{
	return a->admin;
}

static void stdio_ended(void *arg)
{
	struct app *a = arg;

	a->stdio_open = false;
	if (a->phase == APP_RUNNING)
		app_stop(a);
}

int app_serve_stdio(struct app *a, int in_fd, int out_fd, const char *tenant, const char *key, struct err *err)
{
	struct principal *who = NULL;
	int rc;

	if (key) {
		rc = cred_check(a->tenants, key, strlen(key), &(struct cred_source){ "stdio", AUDIT_STDIO }, &who, err);
		if (rc < 0)
			(void)err_wrap(err, "TOOLCRIB_KEY");
	} else {
		rc = principal_named(a->tenants, tenant, NULL, AUDIT_AUTHN_BOUND, &who, err);
	}
	if (rc == 0)
		rc = tr_stdio_open(&a->transport_env, in_fd, out_fd, who, stdio_ended, a, &a->stdio, err);
	a->stdio_open = rc == 0;
	principal_unref(&who);
	return rc;
}

int app_run(struct app *a)
{
	if (a->phase != APP_ENDED)
		ev_loop_run(a->loop);
	return a->status;
}

void app_close(struct app **ap)
{
	struct app *a = ap ? *ap : NULL;

	if (!a)
		return;
	*ap = NULL;
	app_subsys_stop(a);
	ev_loop_free(&a->loop);
	db_owner_drop(&a->opt.owner);
	free(a->relay.address);
	free(a->store);
	free(a);
}
