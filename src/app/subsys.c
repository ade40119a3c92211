/* THE start and stop table: forward at start, backward at stop.  Whoever stands higher may use what stands above it
 * until its own stop() has run. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/command.h"
#include "app/app.h"
#include "app/handlers.h"
#include "audit/audit.h"
#include "audit/rows.h"
#include "backend/backend.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "call/call.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/child.h"
#include "ev/ev.h"
#include "exec/exec.h"
#include "keeping/keeping.h"
#include "keys/keyfile.h"
#include "limit/limit.h"
#include "mcp/mcp.h"
#include "net/fetch.h"
#include "notary/notary.h"
#include "registry/registry.h"
#include "tenant/tenant.h"
#include "keys/vault.h"
#include "writer/writer.h"

#include "app_int.h"

#define WRITER_CLOSE_MS 10000           /* how long the last commit may take */

/* --- master key (SEC S-341) */

static int master_start(struct app *a, struct err *err)
{
	return keyfile_master(a->store, &a->master, err);
}

static void master_stop(struct app *a)
{
	secret_free(a->master);
	a->master = NULL;
}

/* --- writer: the store is open, migrated and recovered after this */

static int writer_start(struct app *a, struct err *err)
{
	static const char *const modes[] = { [APP_DAEMON] = "daemon", [APP_STDIO] = "stdio", [APP_EMBEDDED] = "cli" };
	struct writer_limits limits = WRITER_LIMITS_DEFAULT;
	struct writer_guard guard = { 0 };
	size_t recovered = 0;
	char *mode;
	int rc;

	if (a->opt.conf) {
		limits.queue_max = a->opt.conf->audit_queue;
		limits.deadline_ms = a->opt.conf->audit_deadline_ms;
		limits.space_floor = (uint64_t)a->opt.conf->space_floor_mib << 20;
		limits.space_warn = (unsigned)a->opt.conf->space_warn_percent;
	}
	if (a->notary)
		notary_guard(a->notary, &guard);
	mode = mem_printf("%s, sandbox %s, signer %s", modes[a->opt.profile], a->sandbox, a->notary ? notary_place(a->notary) : "none");
	rc = writer_open(a->loop, &(struct keyfile_place){ a->store, a->master }, mode, &limits, &guard, &a->writer, &recovered, err);
	free(mode);
	if (rc == 0)
		metric_add(METRIC_calls_recovered, recovered);
	if (rc == 0 && recovered > 0)
		log_warn(NULL, "calls without an end recovered count=%zu", recovered);
	return rc;
}

static void writer_stop(struct app *a)
{
	struct err err;

	if (writer_close(&a->writer, WRITER_CLOSE_MS, &err) < 0) {
		log_err(NULL, "writer did not close where=%s why=\"%s\"", err.where, err.msg);
		a->status = 1;
	}
}

/* --- what is loaded from the store */

static int load(struct app *a, struct db *db, struct err *err)
{
	struct reg_change *change = NULL;
	int rc = audit_rows_check(db, err);

	if (rc == 0)
		rc = tenants_open(a->master, db, &a->tenants, err);
	if (rc == 0)
		rc = vault_open(&(struct keyfile_place){ a->store, a->master }, db, &a->vault, err);
	if (rc == 0)
		rc = app_level_load(a, db, err);
	if (rc < 0)
		return rc;
	a->registry = registry_new(handlers_bind);
	rc = reg_change_all(db, &change, err);
	if (rc == 0)
		reg_apply(a->registry, &change, NULL, NULL);
	return rc;
}

static void registry_stop(struct app *a)
{
	registry_free(&a->registry);
	vault_close(&a->vault);
	tenants_close(&a->tenants);
}

static int registry_start(struct app *a, struct err *err)
{
	char *file = path_join(a->store, DB_FILE);
	struct db *db = NULL;
	int rc = db_open(file, DB_READER, false, &db, err);

	free(file);
	if (rc == 0)
		rc = load(a, db, err);
	db_close(&db);
	if (rc < 0)
		registry_stop(a);
	return rc;
}

/* --- requests to the outside */

static int fetcher_start(struct app *a, struct err *err)
{
	(void)err;
	a->fetcher = fetcher_new(a->loop);
	return 0;
}

static void fetcher_stop(struct app *a)
{
	fetcher_free(&a->fetcher);
}

/* --- calls */

static int calls_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf;
	struct limit_conf limits = LIMIT_CONF_DEFAULT;
	int rc;

	if (conf)
		limits = (struct limit_conf){ .ceiling = { conf->limit_calls, conf->limit_queue, conf->limit_streams,
			(uint64_t)conf->limit_bytes_mib << 20 }, .share_percent = conf->limit_share, .wait_ms = conf->limit_queue ? conf->limit_wait_ms : 0 };
	a->limiter = limiter_new(&limits);
	rc = app_usage_load(a, err);
	if (rc < 0) {
		limiter_free(&a->limiter);
		return rc;
	}
	a->workers = exec_workers_new(a->loop);
	a->calls = call_engine_new(&(struct call_env){ .loop = a->loop, .tenants = a->tenants, .registry = a->registry,
		.limiter = a->limiter, .writer = a->writer, .master = a->master, .fetcher = a->fetcher,
		.upstreams = a->upstreams, .cage = &a->cage, .workers = a->workers,
		.audit_level = a->audit_level, .queue = conf ? conf->limit_tenant_queue : LIMIT_TENANT_QUEUE,
		.requests = conf ? conf->limit_requests : LIMIT_REQUESTS, .secrets = vault_secrets(a->vault), .store = a->store });
	writer_on_late(a->writer, call_late_begin, a->calls);
	return 0;
}

static void calls_stop(struct app *a)
{
	writer_on_late(a->writer, NULL, NULL);
	call_engine_free(&a->calls);
	exec_workers_free(&a->workers);
	app_usage_flush(a);
	limiter_free(&a->limiter);
}

/* --- protocol and administration */

static int mcp_start(struct app *a, struct err *err)
{
	(void)err;
	a->mcp = mcp_server_new(&(struct mcp_env){ .loop = a->loop, .tenants = a->tenants, .registry = a->registry,
		.calls = a->calls, .writer = a->writer, .master = a->master, .version = PACKAGE_VERSION });
	a->transport_env = (struct transport_env){ .loop = a->loop, .mcp = a->mcp, .tenants = a->tenants,
		.oauth = a->oauth, .resource = a->opt.conf->oauth_resource, .drain_ms = a->opt.conf->eof_drain_ms };
	return 0;
}

static void mcp_stop(struct app *a)
{
	mcp_server_free(&a->mcp);
}

static int admin_start(struct app *a, struct err *err)
{
	(void)err;
	a->admin = commands_new(&(struct command_env){ .loop = a->loop, .tables = app_commands, .store = a->store, .tenants = a->tenants,
		.registry = a->registry, .writer = a->writer, .notary = a->notary, .calls = a->calls, .limiter = a->limiter,
		.tenant_queue = a->opt.conf ? a->opt.conf->limit_tenant_queue : LIMIT_TENANT_QUEUE,
		.requests = a->opt.conf ? a->opt.conf->limit_requests : LIMIT_REQUESTS, .mcp = a->mcp, .vault = a->vault,
		.master = a->master, .owner_uid = geteuid(), .roles = a->opt.conf ? a->opt.conf->roles : a->opt.roles,
		.nroles = a->opt.conf ? a->opt.conf->nroles : a->opt.nroles, .started_us = a->started_us, .listeners = app_listen_show,
		.reload = a->opt.profile == APP_DAEMON ? app_reload_now : NULL, .draining = app_is_draining,
		.answer_max = (size_t)(a->opt.conf ? a->opt.conf->admin_answer_mib : ADMIN_ANSWER_MIB) << 20,
		.bind = handlers_bind, .arg = a, .fetcher = a->fetcher, .upstreams = a->upstreams, .cage = &a->cage,
		.workers = a->workers, .sandbox = a->sandbox });
	if (a->opt.profile != APP_EMBEDDED)
		jobs_resume(a->admin);
	if (a->opt.profile == APP_DAEMON)
		app_say_owner(a);
	return 0;
}

static void admin_stop(struct app *a)
{
	commands_free(&a->admin);
}

static void calls_end(struct app *a)
{
	app_calls_end(a);
	app_upstreams_stop(a);          /* while their processes can still be told apart */
	if (a->notary)
		notary_no_commands(a->notary);
	ev_child_kill_all(a->loop);
	exec_workers_free(&a->workers);
}

static int nothing(struct app *a, struct err *err)
{
	(void)a;
	(void)err;
	return 0;
}

#define ALL (1u << APP_DAEMON | 1u << APP_STDIO | 1u << APP_EMBEDDED)
#define SERVE (1u << APP_DAEMON | 1u << APP_STDIO)
#define DAEMON (1u << APP_DAEMON)

static const struct subsys {
	const char *name;
	unsigned profiles;
	int (*start)(struct app *a, struct err *err);
	void (*stop)(struct app *a);    /* may be NULL */
} rows[] = {
	{ "sandbox", ALL, app_cage_start, app_cage_stop },
	{ "master key", ALL, master_start, master_stop },
	{ "signer", ALL, app_signer_start, app_signer_stop },
	{ "writer", ALL, writer_start, writer_stop },
	{ "checkpoints", ALL, app_checkpoints_start, app_checkpoints_stop },
	{ "registry", ALL, registry_start, registry_stop },
	{ "audit level", SERVE, app_level_start, NULL },
	{ "last use of keys", ALL, app_used_start, app_used_stop },
	{ "failed authentications", SERVE, app_auth_start, app_auth_stop },
	{ "fetcher", ALL, fetcher_start, fetcher_stop },
	{ "access tokens", DAEMON, app_oauth_start, app_oauth_stop },
	{ "upstreams", ALL, app_upstreams_start, app_upstreams_stop },
	{ "calls", ALL, calls_start, calls_stop },
	{ "mcp", SERVE, mcp_start, mcp_stop },
	{ "gate", DAEMON, app_gate_start, app_gate_stop },
	{ "admin", ALL, admin_start, admin_stop },
	{ "changes of upstreams", SERVE, app_upstreams_watch, app_upstreams_unwatch },
	{ "end of calls", ALL, nothing, calls_end },    /* stops after the ways in, before all that a call uses */
	{ "listeners", DAEMON, app_listen_start, app_listen_stop },
	{ "pressure", DAEMON, app_press_start, app_press_stop },
	{ "sockets", SERVE, app_sockets_start, app_sockets_stop },
	{ "configuration on record", DAEMON, app_reload_start, app_reload_stop },
	{ "watch", SERVE, app_watch_start, app_watch_stop },
	{ "ready", DAEMON, app_ready, NULL },
};

int app_subsys_start(struct app *a, struct err *err)
{
	for (; a->started < NELEMS(rows); a->started++) {
		const struct subsys *row = &rows[a->started];
		int rc;

		if (!(row->profiles & 1u << a->opt.profile))
			continue;
		log_debug(NULL, "starting subsystem=\"%s\"", row->name);
		rc = row->start(a, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void app_subsys_stop(struct app *a)
{
	while (a->started > 0) {
		const struct subsys *row = &rows[--a->started];

		if (!(row->profiles & 1u << a->opt.profile) || !row->stop)
			continue;
		log_debug(NULL, "stopping subsystem=\"%s\"", row->name);
		row->stop(a);
	}
}
