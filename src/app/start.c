/* A start and its end: the table of subsystems, walked forward at start and backward at stop, and those of them that
 * have no file of their own.  Both programs call it, on the main thread.  Whoever stands higher may use what stands
 * above it until its own stop() has run. */
#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "app/app.h"
#include "app/handlers.h"
#include "assent/assent.h"
#include "audit/audit.h"
#include "audit/checkpoint.h"
#include "audit/payload.h"
#include "audit/rows.h"
#include "backend/backend.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "call/call.h"
#include "command/command.h"
#include "command/share.h"
#include "command/visit.h"
#include "conf/conf.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/child.h"
#include "ev/ev.h"
#include "exec/exec.h"
#include "forms/forms.h"
#include "keeping/keeping.h"
#include "keys/keyfile.h"
#include "keys/secrets.h"
#include "keys/vault.h"
#include "limit/limit.h"
#include "mcp/mcp.h"
#include "net/fetch.h"
#include "notary/notary.h"
#include "oauth/oauth.h"
#include "otel/otel.h"
#include "pdp/pdp.h"
#include "people/people.h"
#include "registry/registry.h"
#include "ship/ship.h"
#include "task/task.h"
#include "tenant/tenant.h"
#include "upstream/upstream.h"
#include "worker/worker.h"
#include "writer/fold.h"
#include "writer/seal.h"
#include "writer/writer.h"

#include "app_int.h"
#include "handover_int.h"

/* --- the signer of the audit's checkpoints, and where it is */

/* meta: "dir PATH" or "socket PATH", as the configuration of the last server said, for commands that own the store
 * without having read it (AUDIT A-603); missing when it said nothing. */
#define PLACE_KEY "signer"

struct place { char text[APP_PLACE_SIZE]; };

static int read_place(struct app *a, struct place *ret, struct err *err)
{
	struct db_stmt *st;
	int from, rc = db_open_store(db_in(a->store), &a->reader, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(a->reader, SQL_META_GET_VALUE);
	db_bind_textz(st, 1, PLACE_KEY);
	rc = db_step(st, err);
	if (rc == 1)
		(void)snprintf(ret->text, sizeof(ret->text), "%s", db_col_text(st, 0, NULL));
	db_stmt_put(&st);
	if (db_schema_due(a->reader, &from, NULL) != 0)   /* it goes forward, and is looked at again */
		db_close(&a->reader);
	return rc < 0 ? rc : 0;
}

/* What the configuration says, as it stands in meta. */
static int conf_place(const struct conf *conf, struct place *ret, struct err *err)
{
	const char *path = conf->signer_socket ? conf->signer_socket : conf->signer_dir;
	int rc = app_place_check(conf, err);

	if (rc < 0)
		return rc;
	if (path)
		(void)snprintf(ret->text, sizeof(ret->text), "%s %s", conf->signer_socket ? "socket" : "dir", path);
	return 0;
}

static const char *path_of(const struct place *p, const char *kind)
{
	size_t len = strlen(kind);

	return strncmp(p->text, kind, len) == 0 && p->text[len] == ' ' ? p->text + len + 1 : NULL;
}

/* before the writer: who signs */
static int signer_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf;
	struct place place = { "" };
	int rc;

#ifdef BENCH_BUILD
	if (getenv("TOOLCRIB_BENCH_NOSIGN"))
		return 0;
#endif
	rc = conf ? conf_place(conf, &place, err) : read_place(a, &place, err);
	if (rc < 0)
		return rc;
	return notary_open(&(struct notary_opt){ .loop = a->loop, .store = a->store, .dir = path_of(&place, "dir"),
		.socket = path_of(&place, "socket"), .max_age_s = conf ? conf->checkpoint_max_age_s : NOTARY_MAX_AGE_S,
		.commit_every_s = conf ? conf->commit_every_s : NOTARY_COMMIT_EVERY_S, .adopt = a->opt.adopt,
		.anchor_file = conf ? conf->anchor_file : NULL, .anchor_cmd = conf ? conf->anchor_cmd : NULL,
		.anchor_every_s = conf ? conf->anchor_every_s : 0, .may_keep = conf != NULL }, &a->notary, err);
}

static void signer_stop(struct app *a)
{
	notary_close(&a->notary);
}

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

/* behind it: the first checkpoint */
static int checkpoints_start(struct app *a, struct err *err)
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

static void checkpoints_stop(struct app *a)
{
	if (a->notary)
		notary_stop(a->notary);
}

/* --- audit level: the server's default of how much of a call is kept */

/* The store remembers it, for commands that have no configuration, and so that a change of the file is a record
 * (AUDIT A-221). */

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

static int level_load(struct app *a, struct db *db, struct err *err)
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
	rc = audit_append_rows(logs, db, &ev, 0, NULL, err);
	free(detail);
	return rc;
}

static void level_changed(void *arg, int rc, const struct err *err)
{
	if (rc < 0)
		log_err(NULL, "the audit level could not be recorded why=\"%s\"", err ? err->msg : "");
	free(arg);
}

/* level.c: the default level, from the configuration or as the last server had it. */
static int level_start(struct app *a, struct err *err)
{
	static const struct writer_job job = { .name = "audit level", .run = change_level, .done = level_changed };
	int *level;

	if (a->audit_level == a->stored_level)
		return 0;
	level = mem_dup(&a->audit_level, sizeof(a->audit_level));
	if (writer_submit(a->writer, &job, level) == 0)
		return 0;
	free(level);
	return err_set(err, ERR_AUDIT, "", "the audit level cannot be recorded");
}

/* --- access tokens: whose are accepted, and the record of each that is seen for the first time (SEC S-411) */

/* Who it is stands in records as the pseudonym of its principal; what of the token may be told is its issuer, the
 * client that has it, and a name by which its issuer's log can be compared. */
static void accepted(void *arg, const struct cred_source *from, const struct principal *who,
		     const struct oauth_seen *seen)
{
	struct app *a = arg;
	struct str text = STR_INIT;
	struct audit_event ev;

	str_printf(&text, "issuer=%s token=%s client=%s", seen->issuer, seen->commitment, seen->client);
	audit_event_init(&ev, AUDIT_CRED_FIRST_USE, who->tenant_id);
	ev.actor = AUDIT_BY_SERVICE;
	ev.authn = who->authn;
	ev.tport = from->tport;
	ev.peer = from->from;
	ev.prn = who->pseudonym;
	ev.detail = str_text(&text);
	if (writer_audit(a->writer, &ev, NULL, NULL) < 0)
		log_warn(NULL, "the first use of an access token could not be recorded issuer=%s", seen->issuer);
	str_fini(&text);
}

static int oauth_start(struct app *a, struct err *err)
{
	const struct secret_source *secrets = vault_secrets(a->vault);

	if (a->opt.conf->nissuers == 0)
		return 0;
	return oauth_open(&(struct oauth_env){ .loop = a->loop, .fetcher = a->fetcher, .tenants = a->tenants,
					       .conf = a->opt.conf,
		.master = a->master, .secret = secrets->open, .secret_arg = secrets->arg, .accepted = accepted,
		.accepted_arg = a }, &a->oauth, err);
}

static void oauth_stop(struct app *a)
{
	oauth_close(&a->oauth);
}

/* --- upstreams, and who looks when one says that its tools have changed */

static int upstreams_start(struct app *a, struct err *err)
{
	a->upstreams = upstreams_new(&(struct upstreams_env){ .loop = a->loop, .fetcher = a->fetcher,
		.secrets = vault_secrets(a->vault), .sandbox = &a->sandbox });
	if (upstreams_load(a->upstreams, a->reader, err) == 0)
		return 0;
	upstreams_free(&a->upstreams);
	return err->code;
}

static void upstreams_stop(struct app *a)
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
}

/* HARDENING F-3: in the log of the tenant whose link it was, or the system's. */
static void dropped(void *arg, const struct upstream_dropped *what)
{
	struct app *a = arg;
	struct audit_event ev;
	char *obj = mem_printf("upstream/%s", what->upstream);
	char *detail = mem_printf("messages=%llu last=%s", (unsigned long long)what->count, what->method);

	audit_event_init(&ev, AUDIT_MESSAGE_DROPPED, what->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.obj = obj;
	ev.detail = detail;
	if (writer_audit(a->writer, &ev, NULL, NULL) < 0)
		log_err(NULL, "no record of dropped messages upstream=%s %s", what->upstream, detail);
	free(detail);
	free(obj);
}

/* look when their tools change; record what of theirs is nobody's */
static int watch_upstreams(struct app *a, struct err *err)
{
	(void)err;
	upstreams_on_change(a->upstreams, look, a);
	upstreams_on_dropped(a->upstreams, dropped, a);
	return 0;
}

/* upstreams.c */
static void unwatch_upstreams(struct app *a)
{
	if (!a->upstreams)
		return;
	upstreams_on_change(a->upstreams, NULL, NULL);
	upstreams_on_dropped(a->upstreams, NULL, NULL);
}

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

static void count_record(void *arg, int64_t tenant_id, size_t bytes, bool low)
{
	struct app *a = arg;

	if (a->limiter)
		limit_add_audit(a->limiter, tenant_id, clock_wall_us(), bytes, low);
}

static int backup_start(struct app *a, struct err *err)
{
	(void)err;
	a->ship = a->opt.conf->backup_to ? ship_server_new(a->loop, a->opt.conf, a->store) : NULL;
	return 0;
}

static void backup_stop(struct app *a)
{
	ship_server_free(&a->ship);
}

static int writer_start(struct app *a, struct err *err)
{
	static const char *const modes[] = { [APP_DAEMON] = "daemon", [APP_STDIO] = "stdio", [APP_EMBEDDED] = "cli" };
	struct writer_limits limits = WRITER_LIMITS_DEFAULT;
	struct writer_guard guard = { 0 };
	size_t recovered = 0;
	char *mode, *by = NULL, *instead = app_take_over_said(a);
	int rc;

	if (a->opt.conf) {
		limits.queue_max = a->opt.conf->audit_queue;
		limits.deadline_ms = a->opt.conf->audit_deadline_ms;
		limits.space_floor = (uint64_t)a->opt.conf->space_floor_mib << 20;
		limits.space_warn = (unsigned)a->opt.conf->space_warn_percent;
		limits.node = a->opt.conf->node;
	}
	if (a->opt.profile != APP_EMBEDDED)
		limits.waiting_max = WRITER_FOLD_START_MAX;
	limits.of_command = !a->opt.conf;
	limits.counted = count_record;
	limits.arg = a;
	if (a->notary)
		notary_guard(a->notary, &guard);
	guard.checkpoint = a->ship ? ship_server_wait : NULL;
	guard.checkpoint_arg = a->ship;
	guard.recover = task_recover;
	guard.elsewhere = a->elsewhere.n > 0 ? &a->elsewhere : NULL;
	guard.elsewhere_us = a->elsewhere_us;
	guard.adopt = a->opt.adopt;
	guard.no_copy = a->opt.no_copy;
	if (a->opt.quarantine) {
		by = mem_printf("uid %u (cli) alone, as the store did not start: fsck --quarantine", (unsigned)geteuid());
		guard.quarantine = a->opt.quarantine;
		guard.quarantined_by = by;
	}
	mode = mem_printf("%s, sandbox %s, signer %s%s", modes[a->opt.profile], a->sandbox_levels, a->notary ?
			  notary_place(a->notary) : "none", instead);
	rc = writer_open(a->loop, &(struct keyfile_place){ a->store, a->master }, mode, &limits, &guard, &a->writer,
			 &recovered, err);
	free(instead);
	free(mode);
	free(by);
	if (rc == 0)
		metric_add(METRIC_calls_recovered, recovered);
	if (rc == 0 && a->opt.profile == APP_EMBEDDED)
		writer_seal_start(a->writer, NULL);
	if (rc == 0 && recovered > 0)
		log_warn(NULL, "calls without an end recovered count=%zu", recovered);
	return rc;
}

static void writer_stop(struct app *a)
{
	struct err err;

	ship_server_hurry(a->ship);
	if (writer_close(&a->writer, APP_WRITER_CLOSE_MS, &err) < 0) {
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
		rc = level_load(a, db, err);
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
	int rc = a->reader ? 0 : db_open_store(db_in(a->store), &a->reader, err);

	if (rc == 0)
		rc = forms_see(a->reader, err);
	if (rc == 0)
		rc = load(a, a->reader, err);
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

/* --- spans */

static int otel_start(struct app *a, struct err *err)
{
	struct otel_setup *setup = NULL;

	if (!a->opt.conf->otel_endpoint)
		return 0;
	if (otel_setup_load(a->opt.conf, &setup, err) < 0)
		return err->code;
	a->otel = otel_new(&(struct otel_env){ .loop = a->loop, .fetcher = a->fetcher, .conf = a->opt.conf,
					       .version = PACKAGE_VERSION }, &setup);
	return 0;
}

static void otel_stop(struct app *a)
{
	otel_free(&a->otel);
}

/* --- tasks */

static int tasks_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf;

	return tasks_open(&(struct task_env){ .loop = a->loop, .writer = a->writer, .place = { a->store, a->master },
					      .db = a->reader, .max = conf ? conf->tasks_max : 0,
					      .bytes = conf ? (uint64_t)conf->tasks_bytes_mib << 20 : 0 },
			  &a->tasks, err);
}

static void tasks_stop(struct app *a)
{
	tasks_close(&a->tasks);
}

/* --- who decides beside us: also of what a command runs without a server */

static int policy_start(struct app *a, struct err *err)
{
	return pdps_open(&(struct pdps_env){ .loop = a->loop, .fetcher = a->fetcher,
		.conf = a->opt.conf ? a->opt.conf : a->opt.tools, .secrets = vault_secrets(a->vault) }, &a->pdps, err);
}

static void policy_stop(struct app *a)
{
	pdps_close(&a->pdps);
}

/* --- approvals */

/* Has the tenant the same definition under that name, and does its grant ask for the same? */
static bool still_stands(void *arg, const struct assent *of)
{
	struct app *a = arg;
	struct reg_snapshot *snap = reg_acquire(a->registry, of->tenant_id);
	const struct reg_tool *line = reg_find(snap, REG_TOOL, of->name, strlen(of->name));
	const char *grant = line && line->approve ? line->approve->text : NULL;
	const bool stands = line && memcmp(line->def->digest, of->tdef, sizeof(of->tdef)) == 0 &&
		!grant == !of->rule->grant && (!grant || strcmp(grant, of->rule->grant) == 0);

	reg_release(a->registry, &snap);
	return stands;
}

static void look_again(void *arg, const struct assent *of)
{
	struct app *a = arg;

	if (a->calls)
		call_look_at_held(a->calls, of);
}

static int assents_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf;
	const struct assent_env env = { .loop = a->loop, .writer = a->writer, .db = a->reader,
		.roles = conf ? conf->roles : a->opt.roles, .nroles = conf ? conf->nroles : a->opt.nroles,
		.place = { a->store, a->master }, .stands = still_stands, .changed = look_again, .arg = a,
		.notify = conf ? conf->approve_notify : NULL, .notify_ms = conf ? conf->approve_notify_ms : 0 };

	return assents_open(&env, &a->assents, err);
}

static void assents_stop(struct app *a)
{
	assents_close(&a->assents);
}

/* --- calls */

static int calls_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf;
	struct limit_conf limits = LIMIT_CONF_DEFAULT;
	int rc;

	if (conf)
		limits = (struct limit_conf){
			.ceiling = { conf->limit_calls, conf->limit_queue, conf->limit_streams,
				     (uint64_t)conf->limit_bytes_mib << 20 },
			.share_percent = conf->limit_share, .wait_ms = conf->limit_queue ? conf->limit_wait_ms : 0,
			.tenant_bytes = (uint64_t)conf->budget_results_mib << 20,
			.tenant_audit = (uint64_t)conf->budget_audit_mib << 20,
		};
	a->limiter = limiter_new(&limits);
	rc = app_usage_load(a, err);
	if (rc < 0) {
		limiter_free(&a->limiter);
		return rc;
	}
	a->workers = exec_workers_new(a->loop);
	a->pool = worker_pool_new(a->loop, worker_share(cpu_count()));
	a->calls = call_engine_new(&(struct call_env){
		.loop = a->loop, .tenants = a->tenants, .registry = a->registry, .limiter = a->limiter,
		.writer = a->writer, .tasks = a->tasks, .assents = a->assents, .master = a->master, .fetcher = a->fetcher,
		.upstreams = a->upstreams, .pdps = a->pdps,
		.sandbox = &a->sandbox, .workers = a->workers, .pool = a->pool, .audit_level = a->audit_level,
		.hold_ms = conf ? conf->approve_hold_ms : 0,
		.queue = conf ? conf->limit_tenant_queue : LIMIT_TENANT_QUEUE,
		.requests = conf ? conf->limit_requests : LIMIT_REQUESTS,
		.secrets = vault_secrets(a->vault), .store = a->store, .also = app_elders_cancel, .also_arg = a,
	});
	writer_on_late(a->writer, call_late_begin, a->calls);
	return 0;
}

static void calls_stop(struct app *a)
{
	writer_on_late(a->writer, NULL, NULL);
	call_engine_free(&a->calls);
	exec_workers_free(&a->workers);
	worker_pool_free(&a->pool);
	app_usage_flush(a);
	limiter_free(&a->limiter);
}

/* --- protocol and administration */

static int mcp_start(struct app *a, struct err *err)
{
	(void)err;
	a->mcp = mcp_server_new(&(struct mcp_env){ .loop = a->loop, .tenants = a->tenants, .registry = a->registry,
		.calls = a->calls, .tasks = a->tasks, .writer = a->writer, .otel = a->otel, .master = a->master,
		.version = PACKAGE_VERSION,
		.model_meta = strstr(a->opt.conf->model_from, "meta") != NULL,
		.model_header = strstr(a->opt.conf->model_from, "header") != NULL,
		.rechecked = app_elders_recheck, .arg = a });
	a->transport_env = (struct transport_env){ .loop = a->loop, .mcp = a->mcp, .tenants = a->tenants,
		.oauth = a->oauth, .resource = a->opt.conf->oauth_resource, .drain_ms = a->opt.conf->eof_drain_ms,
		.given = a->given };
	return 0;
}

static void mcp_stop(struct app *a)
{
	mcp_server_free(&a->mcp);
}

static int admin_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf;
	struct reports *reports = app_reports_new(a);

	(void)err;
	a->jobs = jobs_new();
	a->visits = visits_new();
	a->admin = commands_new(&(struct command_env){
		.loop = a->loop, .tables = app_commands, .store = a->store, .tenants = a->tenants,
		.archive = app_archive(a), .registry = a->registry, .writer = a->writer, .notary = a->notary,
		.calls = a->calls, .tasks = a->tasks, .assents = a->assents, .pdps = a->pdps,
		.limiter = a->limiter, .mcp = a->mcp, .vault = a->vault, .reader = a->reader, .fetcher = a->fetcher,
		.upstreams = a->upstreams, .sandbox = &a->sandbox, .workers = a->workers, .pool = a->pool,
		.reports = reports, .paged = a->paged, .visits = a->visits, .alerts = a->alerts, .jobs = a->jobs,
		.daily = app_daily_new(a),
		.sandbox_levels = a->sandbox_levels, .tool_users = a->sandbox.best.uid,
		.master = a->master, .owner_uid = geteuid(), .started_us = a->started_us,
		.tenant_queue = conf ? conf->limit_tenant_queue : LIMIT_TENANT_QUEUE,
		.requests = conf ? conf->limit_requests : LIMIT_REQUESTS,
		.roles = conf ? conf->roles : a->opt.roles, .nroles = conf ? conf->nroles : a->opt.nroles,
		.answer_max = (size_t)(conf ? conf->admin_answer_mib : ADMIN_ANSWER_MIB) << 20,
		.listeners = app_listen_show, .reload = a->opt.profile == APP_DAEMON ? app_reload_now : NULL,
		.draining = app_is_draining, .taken = app_taken, .bind = handlers_bind, .arg = a,
	});
	a->reader = NULL;
	commands_share(a->admin);
	if (a->opt.profile != APP_EMBEDDED)
		jobs_resume(a->admin);
	return 0;
}

static void admin_stop(struct app *a)
{
	app_commands_free(a);
}

static int console_start(struct app *a, struct err *err)
{
	const struct console_env env = { a->loop, a->admin, a->visits, a->fetcher, a->opt.conf->console_url };
	const char *at = a->opt.conf->console_listen;

	return at ? console_open(&env, at, &a->console, err) : 0;
}

static void console_stop(struct app *a)
{
	console_close(&a->console);
}

static void calls_end(struct app *a)
{
	app_calls_end(a);
	upstreams_stop(a);          /* while their processes can still be told apart */
	if (a->notary)
		notary_no_commands(a->notary);
	assents_no_commands(a->assents);
	ev_child_kill_all(a->loop);
	exec_workers_free(&a->workers);
	worker_pool_free(&a->pool);
}

/* --- the table */

static int nothing(struct app *a, struct err *err)
{
	(void)a;
	(void)err;
	return 0;
}

static void stays(struct app *a)
{
	(void)a;
}

#define ALL (1u << APP_DAEMON | 1u << APP_STDIO | 1u << APP_EMBEDDED)
#define SERVE (1u << APP_DAEMON | 1u << APP_STDIO)
#define DAEMON (1u << APP_DAEMON)

static const struct subsys {
	const char *name;
	unsigned profiles;
	int (*start)(struct app *a, struct err *err);
	void (*stop)(struct app *a);    /* may be NULL */
	/* Instead, when the store goes and calls run on (OP-903), and stop() follows behind the last of them: what they need.
	 * NULL: stop() then. */
	void (*part)(struct app *a);
} rows[] = {
	{ "sockets of the service manager", DAEMON, app_given_start, app_given_stop, stays },
	{ "sandbox", ALL, app_sandbox_start, app_sandbox_stop, stays },
	{ "own files", SERVE, app_confine_files, NULL, stays },        /* the launcher is there, threads are not */
	{ "the running server", DAEMON, app_take_over_start, NULL, stays },    /* nothing of the store is open before */
	{ "master key", ALL, master_start, master_stop, stays },
	{ "signer", ALL, signer_start, signer_stop, NULL },
	{ "backup", DAEMON, backup_start, backup_stop, NULL },        /* until the last commit is in it */
	{ "writer", ALL, writer_start, writer_stop, app_linger_writer },
	{ "checkpoints", ALL, checkpoints_start, checkpoints_stop, NULL },
	{ "registry", ALL, registry_start, registry_stop, stays },
	{ "audit level", SERVE, level_start, NULL, stays },
	{ "last use of keys", ALL, app_used_start, app_used_stop, NULL },
	{ "failed authentications", SERVE, app_auth_start, app_auth_stop, stays },
	{ "fetcher", ALL, fetcher_start, fetcher_stop, stays },
	{ "traces", SERVE, otel_start, otel_stop, stays },
	{ "access tokens", DAEMON, oauth_start, oauth_stop, stays },
	{ "upstreams", ALL, upstreams_start, upstreams_stop, stays },
	{ "tasks", SERVE, tasks_start, tasks_stop, stays },
	{ "policy", ALL, policy_start, policy_stop, stays },
	{ "approvals", SERVE, assents_start, assents_stop, stays },
	{ "calls", ALL, calls_start, calls_stop, stays },
	{ "sinks", DAEMON, app_sinks_start, app_sinks_stop, NULL },
	{ "mcp", SERVE, mcp_start, mcp_stop, stays },
	{ "servers before", DAEMON, app_elders_start, app_elders_stop, NULL },
	{ "gate", DAEMON, app_gate_start, app_gate_stop, stays },
	{ "alerts", SERVE, app_alerts_start, app_alerts_stop, NULL },
	{ "admin", ALL, admin_start, admin_stop, NULL },
	{ "changes of upstreams", SERVE, watch_upstreams, unwatch_upstreams, NULL },
	{ "end of calls", ALL, nothing, calls_end, stays },    /* stops after the ways in, before all that a call uses */
	{ "metrics and health", DAEMON, app_ops_start, app_ops_stop, NULL },
	{ "listeners", DAEMON, app_listen_start, app_listen_stop, stays },
	{ "pressure", DAEMON, app_pressure_start, app_pressure_stop, stays },
	{ "console", DAEMON, console_start, console_stop, NULL },
	{ "sockets", SERVE, app_sockets_start, app_sockets_stop, NULL },
	{ "the next server", DAEMON, app_handover_start, app_handover_stop, NULL },
	{ "connections that were taken over", DAEMON, app_take_over_adopt, NULL, stays },
	{ "configuration on record", DAEMON, app_reload_start, app_reload_stop, NULL },
	{ "watch", SERVE, app_watch_start, app_watch_stop, app_watch_stop },
	{ "confinement", SERVE, app_confine, NULL, stays },    /* last: what was opened stays open */
	{ "ready", DAEMON, app_say_ready, NULL, stays },
};

static int start_all(struct app *a, struct err *err)
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

/* subsys.c: start rows until one fails; stop those that were started, backward. */
static void stop_all(struct app *a)
{
	while (a->started > 0) {
		const struct subsys *row = &rows[--a->started];

		if (!(row->profiles & 1u << a->opt.profile) || !row->stop || a->stopped & UINT64_C(1) << a->started)
			continue;
		log_debug(NULL, "stopping subsystem=\"%s\"", row->name);
		row->stop(a);
	}
}

_Static_assert(NELEMS(rows) <= 64, "bits of app.stopped");

/* The store goes to the next server, and what runs ends here: but for what it needs, all stops. */
static void part(struct app *a)
{
	reports_stop(a->reports);
	reports_stop(a->paged);
	for (size_t i = a->started; i-- > 0;) {
		const struct subsys *row = &rows[i];

		if (!(row->profiles & 1u << a->opt.profile))
			continue;
		if (row->part)
			row->part(a);
		else if (row->stop)
			row->stop(a);
		if (!row->part)
			a->stopped |= UINT64_C(1) << i;
	}
	(void)app_handover_end(a);
}

/* --- an app */

int app_start(const struct app_opt *opt, struct app **ret, struct err *err)
{
	struct app *a = mem_zalloc(sizeof(*a));
	int rc;

	a->opt = *opt;
	a->store = path_absolute(opt->store);
	a->started_us = clock_wall_us();
	a->process = (struct ops_process){ -1, -1 };
	id_random_pool();               /* of this thread, which is the loop's */
	a->loop = ev_loop_new();
	rc = start_all(a, err);
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
	if (a->stays)
		part(a);
	return a->status;
}

int app_close(struct app **ap)
{
	struct app *a = ap ? *ap : NULL;
	int status;

	if (!a)
		return 0;
	*ap = NULL;
	stop_all(a);
	app_elders_stop(a);             /* of a start that failed */
	db_close(&a->reader);
	ops_process_close(&a->process);
	ev_loop_free(&a->loop);
	if (app_handover_end(a))
		db_owner_leave(&a->opt.owner);
	else
		db_owner_drop(&a->opt.owner);
	status = a->status;
	free(a->confined);
	free(a->relay.address);
	free(a->store);
	free(a);
	return status;
}

int app_first_keys(const char *store, struct db_owner *owner, char **ret_log, char **ret_epoch, struct err *err)
{
	struct app_opt opt = { .profile = APP_EMBEDDED, .store = store, .owner = owner };
	char *end;
	struct str keys = STR_INIT;
	struct app *a = NULL;
	struct db *db = NULL;
	int rc = app_start(&opt, &a, err);

	app_close(&a);
	if (rc == 0)
		rc = db_open_store(db_in(store), &db, err);
	if (rc == 0)
		rc = audit_keys_print(db, false, &keys, err);
	db_close(&db);
	if (rc == 0) {
		end = strchr(keys.p, '\n');     /* the log's, then the epoch's */
		*ret_log = mem_strndup(keys.p, (size_t)(end - keys.p));
		*ret_epoch = mem_strndup(end + 1, strcspn(end + 1, "\n"));
	}
	str_fini(&keys);
	return rc;
}
