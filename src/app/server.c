/* status, reload, backup, session list: the store and the process that owns it. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "alert/alert.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "call/call.h"
#include "command/rows.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "json/json.h"
#include "keeping/keeping.h"
#include "keys/keyfile.h"
#include "keys/keys.h"
#include "keys/vault.h"
#include "mcp/mcp.h"
#include "notary/notary.h"
#include "otel/otel.h"
#include "pdp/pdp.h"
#include "people/people.h"
#include "ship/ship.h"
#include "sink/sink.h"
#include "tenant/tenant.h"
#include "writer/fold.h"
#include "writer/writer.h"

#include "app_int.h"

/* --- status: what is in memory is noted on the loop, what is in the store is counted on the pool */

struct status_job {
	char *store;
	bool serving, draining;
	char audit[192];
	char refused[160];              /* why calls are refused; "" = they are not */
	char folding[700];              /* what waits to become blocks, or why something does not */
	char shut[640];                 /* a listener that refuses everybody, and why; "" = there is none */
	size_t running, peers;
	struct str listeners;
	char *conf, *waits, *refused_conf;      /* its file; keys that wait for a restart; why the last reading failed */
	char digest[2 * DIGEST_SIZE + 1];       /* of the text that is in force */
	struct str traces;                      /* where spans go, and how that goes; empty: nowhere */
	struct str sinks;                       /* where copies of records go; likewise */
	struct str policy;                      /* who decides about calls; empty: nobody */
	struct str backup;                      /* how far the copy at backup.to is; empty: there is none */
	struct str verified;                    /* what the daily verification said; empty: there is none */
};

static void free_status(void *priv)
{
	struct status_job *job = priv;

	free(job->store);
	free(job->conf);
	free(job->waits);
	free(job->refused_conf);
	str_fini(&job->listeners);
	str_fini(&job->traces);
	str_fini(&job->sinks);
	str_fini(&job->policy);
	str_fini(&job->backup);
	str_fini(&job->verified);
	free(job);
}

static void count_peer(void *arg, const struct mcp_peer_view *v)
{
	size_t *count = arg;

	(void)v;
	(*count)++;
}

/* The first listener that serves nobody. */
static void find_shut(const json_t *listeners, char *ret, size_t size)
{
	const json_t *one;
	size_t i;

	json_array_foreach(listeners, i, one) {
		const char *why = json_string_value(json_object_get(one, "refused"));

		if (!why)
			continue;
		(void)snprintf(ret, size, "listener %s: %s", json_string_value(json_object_get(one, "address")), why);
		return;
	}
}

static void folding(const struct command_env *env, char *ret, size_t size)
{
	const char *stuck = writer_fold_stuck(env->writer);

	(void)snprintf(ret, size, "%llu records wait%s%s", (unsigned long long)metric_get(METRIC_fold_waiting),
		       *stuck ? "; " : "", stuck);
}

static void note_conf(const struct app *a, struct status_job *job)
{
	const struct conf *conf = a->opt.conf;

	if (!conf)
		return;
	job->conf = mem_strdup(conf->file ? conf->file : "built-in defaults");
	job->waits = mem_strdup(str_text(&a->waits));
	job->refused_conf = mem_strdup(str_text(&a->refused_conf));
	text_hex(conf->digest, sizeof(conf->digest), job->digest);
}

/* For people. */
static void put_conf(struct reply *o, const struct status_job *job)
{
	const bool refused = job->refused_conf && *job->refused_conf, waits = job->waits && *job->waits;
	char *text = job->conf ? mem_printf("%s%s%s%s%s", job->conf, waits ? "; these keys wait for a restart: " : "",
					    waits ? job->waits : "", refused ? "; what was read last was refused: " : "",
					    refused ? job->refused_conf : "") : NULL;

	reply_text(o, "configuration", text);
	reply_text(o, "configuration_file", job->conf);
	reply_text(o, "configuration_digest", job->conf ? job->digest : NULL);
	reply_text(o, "restart", job->waits);
	free(text);
}

static int status_check(struct command_call *c, struct err *err)
{
	const struct command_env *env = command_env(c);
	struct status_job *job = command_priv(c, sizeof(*job));
	const char *reason = NULL;
	int state = writer_state(env->writer, &reason);
	json_t *listeners = env->listeners ? env->listeners(env->arg) : NULL;

	(void)err;
	c->free_priv = free_status;
	job->store = mem_strdup(env->store);
	job->serving = !c->who.embedded;
	if (state < 0)
		(void)snprintf(job->refused, sizeof(job->refused), "%s", reason ? reason : err_name((enum err_code)state));
	(void)snprintf(job->audit, sizeof(job->audit), "%s%s", state == 0 ? "ok" : "calls are refused: ", job->refused);
	folding(env, job->folding, sizeof(job->folding));
	note_conf(env->arg, job);
	if (((const struct app *)env->arg)->otel)
		otel_describe(((const struct app *)env->arg)->otel, &job->traces);
	if (((const struct app *)env->arg)->sinks)
		sinks_describe(((const struct app *)env->arg)->sinks, &job->sinks);
	pdps_describe(env->pdps, &job->policy);
	ship_server_describe(((const struct app *)env->arg)->ship, &job->backup);
	if (env->daily)
		daily_describe(env->daily, &job->verified);
	job->draining = env->draining && env->draining(env->arg);
	job->running = call_engine_running(env->calls);
	if (env->mcp)
		mcp_peers(env->mcp, 0, count_peer, &job->peers);
	if (listeners)
		jx_write(listeners, &job->listeners);
	else
		str_puts(&job->listeners, "[]");
	find_shut(listeners, job->shut, sizeof(job->shut));
	json_decref(listeners);
	return 0;
}

/* All counters by name, so that an operator sees which limit is being hit. */
static void put_counters(struct reply *o)
{
	struct str text = STR_INIT;

	for (unsigned i = 0; i < metric_count(); i++)
		str_printf(&text, "%s\"%s\":%llu", i ? "," : "{", metric_name((enum metric_id)i),
			   (unsigned long long)metric_get((enum metric_id)i));
	str_putc(&text, '}');
	reply_raw(o, "counters", str_text(&text), text.len);
	str_fini(&text);
}

static int status_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct status_job *job = c->priv;
	const struct app *app = command_env(c)->arg;
	struct reply *o = c->out;
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_COUNTS);
	struct clock_state clock;
	struct str files = STR_INIT;
	char alerts[120] = "";
	int rc = db_step(st, err);

	(void)logs;
	clock_state(&clock);
	if (rc == 1 && keys_files_wrong(&(struct keyfile_place){ job->store, command_env(c)->master }, db, true,
				       &files, err) < 0)
		rc = err->code;
	if (rc == 1 && forms_away(db, &files, err) < 0)
		rc = err->code;
	if (rc == 1 && alerts_describe(db, alerts, sizeof(alerts), err) < 0)
		rc = err->code;
	if (rc == 1) {
		reply_row_begin(o);
		reply_text(o, "store", job->store);
		reply_text(o, "version", PACKAGE_VERSION);
		reply_text(o, "mode", job->serving ? "server" : "no server");
		reply_text(o, "state", !job->serving ? "stopped" : job->draining ? "draining" : *job->refused ? "refusing calls" :
			   "serving");
		reply_text(o, "refused", *job->refused ? job->refused : job->shut);
		if (job->serving)
			reply_int(o, "pid", getpid());
		else
			reply_raw(o, "pid", "null", 4);
		reply_time(o, "started", job->serving ? command_env(c)->started_us : 0);
		reply_text(o, "audit", job->audit);
		reply_text(o, "alerts", alerts);
		reply_text(o, "folding", job->serving ? job->folding : NULL);
		reply_text(o, "traces", job->traces.len ? str_text(&job->traces) : NULL);
		reply_text(o, "sinks", job->sinks.len ? str_text(&job->sinks) : NULL);
		reply_text(o, "policy", job->policy.len ? str_text(&job->policy) : NULL);
		reply_text(o, "backup", job->backup.len ? str_text(&job->backup) : NULL);
		reply_text(o, "verified", job->verified.len ? str_text(&job->verified) : NULL);
		put_conf(o, job);
		reply_text(o, "files", files.len ? str_text(&files) : "ok");
		reply_text(o, "sandbox", command_env(c)->sandbox_levels);
		reply_text(o, "users", app->users);
		reply_text(o, "confined", app->confined);
		reply_text(o, "clock", clock_sync_name(clock.sync));
		reply_int(o, "tenants", db_col_i64(st, 0));
		reply_int(o, "tools", db_col_i64(st, 1));
		reply_int(o, "keys", db_col_i64(st, 2));
		reply_int(o, "records", db_col_i64(st, 3));
		reply_int(o, "running", (int64_t)job->running);
		reply_int(o, "peers", (int64_t)job->peers);
		reply_raw(o, "listeners", str_text(&job->listeners), job->listeners.len);
		put_counters(o);
		reply_row_end(o);
	}
	db_stmt_put(&st);
	str_fini(&files);
	return rc < 0 ? rc : 0;
}

/* --- reload */

static int reload_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct command_env *env = command_env(c);
	int rc;

	(void)db;
	(void)logs;
	if (!env->reload) {
		(void)err_set(err, ERR_INVALID, "", "there is nothing to reload: no server runs on this store");
		err_hint(err, "a server reads its configuration when it starts");
		return ERR_INVALID;
	}
	rc = env->reload(env->arg, arg_flag(c, "dry-run"), c->out, err);
	if (rc < 0 && *err->where && !strstr(err->msg, err->where)) {   /* the file, its line and column */
		char where[sizeof(err->where)];

		(void)snprintf(where, sizeof(where), "%s", err->where);
		(void)err_wrap(err, "%s", where);
	}
	return rc;
}

/* --- backup */

struct backup_job { char *store, *file, *keys, *signer, *dir, *place; };

enum { BACKUP_TRIES = 3, KEY_FILES_MAX = 64 };

static void free_backup(void *priv)
{
	struct backup_job *job = priv;

	free(job->store);
	free(job->file);
	free(job->keys);
	free(job->signer);
	free(job->dir);
	free(job->place);
	free(job);
}

static int check_path(struct command_call *c, const char *name, char **ret, struct err *err)
{
	const char *path = arg_text(c, name);

	if (path && *path != '/')
		return err_set(err, ERR_INVALID, name, "%s: the path must be absolute", path);
	*ret = mem_strdup0(path);
	return 0;
}

static int backup_check(struct command_call *c, struct err *err)
{
	const struct notary *notary = command_env(c)->notary;
	struct backup_job *job = command_priv(c, sizeof(*job));
	int rc;

	c->free_priv = free_backup;
	rc = check_path(c, "file", &job->file, err);
	if (rc == 0)
		rc = check_path(c, "keys", &job->keys, err);
	if (rc == 0)
		rc = check_path(c, "signer", &job->signer, err);
	job->store = mem_strdup(command_env(c)->store);
	job->dir = mem_strdup0(notary ? notary_dir(notary) : NULL);
	job->place = mem_strdup(notary ? notary_place(notary) : "none");
	if (rc < 0 || !job->signer || job->dir)
		return rc;
	(void)err_set(err, ERR_UNREACHABLE, "signer", "the signer (%s) is not this server's, its directory cannot be copied",
		      job->place);
	err_hint(err, "copy its directory where it is, just before the backup, and make that without --signer");
	return ERR_UNREACHABLE;
}

/* The signer's state before the store, keys after it: no log that it has signed is shorter in the copy, and no record
 * without its key.  1: they belong together. */
static int copy_files(const struct backup_job *job, struct db *db, struct notary_copy *signer, struct err *err)
{
	bool made = false, made_keys = false;
	int rc = job->signer ? notary_copy_take(job->dir, signer, err) : 0;

	if (rc == 0) {
		rc = db_backup(db, job->file, err);
		made = rc == 0;
	}
	if (rc == 0 && job->keys) {
		rc = keys_backup(job->store, job->keys, err);
		made_keys = rc == 0;
	}
	if (rc == 0)
		rc = job->signer ? notary_copy_holds(signer, job->dir, err) : 1;
	if (rc == 1 && job->signer && notary_copy_write(signer, job->signer, err) < 0)
		rc = err->code;
	if (rc == 1)
		return rc;
	if (made)
		path_unmake(job->file);
	if (made_keys)
		path_unmake(job->keys);
	return rc;
}

static void put_needs(const struct backup_job *job, struct reply *o)
{
	char (*ids)[KEYFILE_ID_SIZE] = mem_calloc(KEY_FILES_MAX, sizeof(*ids));
	size_t n = keyfile_others(job->store, "", ids, KEY_FILES_MAX);
	struct str text = STR_INIT;

	str_puts(&text, DB_MASTER_KEY);
	for (size_t i = 0; i < n; i++)
		str_printf(&text, ", secret-%s.key", ids[i]);
	if (!job->keys)
		str_puts(&text, ", " DB_KEYS " (--keys FILE copies it)");
	if (!job->signer)
		str_printf(&text, ", the directory of the signer (%s) as it was just before%s", job->place,
			   job->dir ? " (--signer FILE copies it)" : "");
	reply_text(o, "needs", str_text(&text));
	str_fini(&text);
	free(ids);
}

/* How many bytes the copy has; *ret_lent: whoever gave the command has opened it. */
static int64_t size_of(const char *file, bool *ret_lent)
{
	const int fd = path_borrow(file);
	struct stat st = { 0 };

	(void)(fd < 0 ? stat(file, &st) : fstat(fd, &st));              /* its size is for people */
	if (fd >= 0)
		close(fd);
	*ret_lent = fd >= 0;
	return st.st_size;
}

static void unmake(const struct backup_job *job)
{
	path_unmake(job->file);
	if (job->keys)
		path_unmake(job->keys);
	if (job->signer)
		path_unmake(job->signer);
}

/* Files beside one that is lent cannot be made from here: who has lent it makes them (backup_here()). */
static int copy_sealed(const struct backup_job *job, bool is_lent, struct backup_sealed *ret, struct err *err)
{
	int rc = is_lent ? 0 : backup_sealed(job->file, job->store, ret, err);

	if (rc < 0)
		unmake(job);
	return rc;
}

static int backup_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct backup_job *job = c->priv;
	struct notary_copy signer = { .epoch = 0 };
	struct backup_sealed sealed = { 0 };
	struct err ignored;
	bool is_lent = false;
	int64_t bytes;
	int rc = 0;

	(void)logs;
	for (unsigned i = 0; i < BACKUP_TRIES && rc == 0; i++) {
		rc = copy_files(job, db, &signer, err);
		notary_copy_fini(&signer);
	}
	if (rc == 0)
		rc = err_set(err, ERR_BUSY, "signer", "the signer began something new each time; nothing was copied, try again");
	if (rc < 0)
		return rc;
	bytes = size_of(job->file, &is_lent);
	rc = copy_sealed(job, is_lent, &sealed, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "file", job->file);
	reply_int(c->out, "bytes", bytes);
	if (is_lent && forms_unsealed(db, 0, "copied", &ignored) < 0)
		reply_text(c->out, "sealed_in", job->store);
	else
		backup_put(&sealed, c->out);
	put_needs(job, c->out);
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg init_args[] = {
	OPT("database", "URL", ARG_TEXT, COMPLETE_NONE, "As in postgresql:host=pg1 dbname=toolcrib user=toolcrib."),
	OPT("keys-database", "URL", ARG_TEXT, COMPLETE_NONE, "That of payload keys; else the same with _keys behind."),
	OPT("database-owner", "ROLE", ARG_TEXT, COMPLETE_NONE, "Who makes the tables; without it toolcrib_owner."),
	FLAG("no-standby", "Commits need not wait for another machine."), ARG_END };
static const struct command_arg admin_key_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "What records say of it: lower-case letters, digits and _ . -, at most 32."),
		ARG_END };
static const struct command_arg backup_args[] = {
	{ "file", "FILE", ARG_PATH_NEW, false, true, false, COMPLETE_FILE, "Where the copy goes; it must not exist." },
	OPT("keys", "FILE", ARG_PATH_NEW, COMPLETE_FILE,
	    "Where a copy of keys.db goes as well: the keys of what is kept of calls."),
	OPT("signer", "FILE", ARG_PATH_NEW, COMPLETE_FILE,
	    "Where a copy of the signer's directory goes as well, as a tar archive; whoever has it can sign as of now."),
	ARG_END };
static const struct command_arg reload_args[] = {
	FLAG("dry-run", "Say what would change, and whether anything is wrong, and change nothing."), ARG_END };
static const struct command_arg fsck_args[] = {
	{ "quarantine", "ROW", ARG_TEXT, true, false, true, COMPLETE_NONE,
		"Take this row out of service; to be given again for each that is listed." }, ARG_END };
static const struct command_arg doctor_args[] = {
	OPT("config", "FILE", ARG_TEXT, COMPLETE_FILE, "What toolcribd reads by -c; else its default file."), ARG_END };
static const struct command_column doctor_cols[] = {
	COL("class", "STATE"), COL("what", "WHAT"), COL("where", "WHERE"), COL("said", "SAID"), COL("do", "DO"), COL_END };
static const struct command_column fsck_cols[] = {
	COL("row", "ROW"), COL("what", "WHAT"), COL("closing", "QUARANTINE"), COL_END };
static const struct command_arg migrate_args[] = {
	FLAG("dry-run", "Say what would be done, step by step, in how much room and time, and change nothing."),
	FLAG("fold", "Put records into blocks also where a server would do it by itself."),
	FLAG("no-copy", "Make no copy of before; have a backup."),
	FLAG("drop-copy", "Remove copies of before, also while a server runs, and do nothing else."),
	ARG_END };
static const struct command_arg help_args[] = {
	{ "command", "COMMAND", ARG_TEXT, false, false, true, COMPLETE_COMMAND, "The command to explain." }, ARG_END };
static const struct command_arg completion_args[] = {
	WORD("shell", "bash|zsh|fish", COMPLETE_NONE, "The shell to complete for."), ARG_END };
static const struct command_column init_cols[] = { COL("store", "Store"), COL("admin_socket", "Admin socket"),
	COL("log_key", "Pin this key"), COL("epoch_key", "and this one"), COL_END };
static const struct command_column status_cols[] = {
	COL("store", "Store"), COL("version", "Version"), COL("mode", "Mode"), COL("state", "State"), COL("pid", "Process"),
	COL_AT("started", "Started"), COL("configuration", "Configuration"), COL("audit", "Audit"), COL("files", "Files"),
	COL("sandbox", "Sandbox"), COL("users", "Users of tools"),
	COL("confined", "Server confined"), COL("folding", "Folding"), COL("verified", "Verified"),
	COL("traces", "Traces"), COL("sinks", "Sinks"), COL("policy", "Policy"), COL("backup", "Backup"),
	COL("clock", "Clock"),
	COL("tenants", "Tenants"), COL("tools", "Tools"),
	COL("keys", "Keys"), COL("records", "Records"), COL("running", "Running calls"), COL("peers", "Connected"),
	COL("listeners", "Listeners"), COL_END };
static const struct command_column admin_key_cols[] = { COL("key", "KEY"), COL_END };

const struct command server_commands[] = {
	{ .noun = "init", .help = "Create a store",
	  .detail = "Makes the directory (0700) with the store and its master key (0400), and says where they are.  With "
		    "--database its tables are made in databases of PostgreSQL: see toolcribd(8), POSTGRESQL.",
	  .args = init_args, .columns = init_cols, .shape = ADM_ITEM, .storeless = true, .role = ADM_OWNER,
	  .where = ADM_ON_CTL },
	{ .noun = "status", .help = "Show the store and the server that owns it",
	  .detail = "Exits 1 while the server, or a listener whose certificate has expired, refuses calls, and says why.  "
		    "Files says what of the store's files is not as it should be: payload keys that were given up, key files "
		    "that are missing, modes that let others in.",
	  .args = no_args, .columns = status_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .console = true, .where = ADM_ON_POOL,
	  .check = status_check, .body = status_body },
	{ .noun = "admin-key", .help = "Make a key for an administrator on another machine",
	  .detail = "Nothing is stored: what is printed beside the key stands under roles in the configuration, "
	            "and the key in a file "
		    "that only its owner reads, for --key-file.",
	  .args = admin_key_args, .columns = admin_key_cols, .shape = ADM_SECRET, .storeless = true,
	  .done = "under roles in the configuration, then reload: {role: operator, key: %{hash}, name: %{name}}",
	  .role = ADM_READ,
	  .where = ADM_ON_CTL },
	{ .noun = "reload", .help = "Let the server read its configuration again",
	  .detail = "And the certificates that it names, as SIGHUP does, but with the outcome as the answer: what has "
		    "changed, with both values, and what of it needs a restart.  A fault anywhere changes nothing, and is named by "
		    "file, line and column.",
	  .args = reload_args, .shape = ADM_DIFF, .role = ADM_OPERATE, .where = ADM_ON_LOOP,
	  .record = AUDIT_ADMIN_CMD, .body = reload_body },
	{ .noun = "backup", .help = "Copy the store to new files while it is in use",
	  .detail = "The copy is one compact database, made by whoever gives the command; from another machine, it lies in a "
		    "directory of files in toolcribd.yaml(5).  Sealed files go into the folder segments beside FILE, those that are "
		    "not there yet, so that a copy each night into one directory costs what is new; if one cannot be copied there "
		    "is no copy at all.  It starts again with all that is named here, and the answer "
		    "says what of it is not copied: keys.db, the signer as it was just before, and, which no backup takes, "
		    "master.key and, after a rekey, secret-*.key: without these two keys cannot be checked and secrets not be "
		    "opened, so keep a copy of them apart from the backup.  toolcribd(8), BAD NIGHTS, has the commands that put "
		    "it back.  What is kept of calls "
		    "is opened by keys.db: keep a copy of it elsewhere, and not as long as it may take to erase something; what "
		    "was erased can be read again by whoever has an older one.  A store that is put back while keys.db stays as "
		    "it is erases again, when it starts, what was erased since.",
	  .args = backup_args, .done = "store copied to %{file}, %{bytes} bytes%{beside}; a start needs beside it: %{needs}",
	  .role = ADM_OWNER, .where = ADM_ON_POOL,
	  .record = AUDIT_ADMIN_CMD,
	  .check = backup_check, .body = backup_body, .here = backup_here },
	{ .noun = "fsck", .help = "List rows that keep the store from starting, or take them out of service",
	  .detail = "A row of the registry that is not what its record says, or has none, was written behind the log: no "
		    "server starts on it.  A backup of before is the better way back.  --quarantine, while no server runs, only "
		    "closes: keys are revoked, principals and the tenants of grants and limits suspended, tenants, tools, "
		    "schemas, upstreams and secrets removed.  What a row says is not believed, and what it was stays in the "
		    "record registry.quarantine.  All rows that are listed have to be named.  A store that does not start has "
		    "no second administrator to ask: the record says so, and audit dual-control lists it.  Exit status 4 when "
		    "there are such rows.",
	  .args = fsck_args, .columns = fsck_cols, .shape = ADM_FINDINGS, .destructive_with = "quarantine",
	  .role = ADM_OWNER, .where = ADM_ON_CTL },
	{ .noun = "doctor", .help = "Say what is wrong around the store and its server, and what to do",
	  .detail = "With a server or without one; run it as root, which becomes the server's user first, or as that user.  "
		    "Nothing is changed.  It reads the configuration as the server would and looks at modes and owners of the "
		    "store's files, the schema, rows and key files, room on the disk against seven days' growth, how long a "
		    "flush takes (100 of 4 KiB in a file without a name), the clock, the signer, anchors, certificates, the "
		    "programs that the server starts, how far tools are confined, and what the server says of itself.  A line "
		    "is ok, warn or fail, and names the thing, the place and what to do.  Exit status 4 when one is not ok.",
	  .args = doctor_args, .columns = doctor_cols, .shape = ADM_FINDINGS, .role = ADM_OWNER, .where = ADM_ON_CTL },
	{ .noun = "migrate", .help = "Bring the store to this program's schema",
	  .detail = "Opening a store for writing does the same; a store that a newer program made is refused.  Before the "
		    "first step the store is copied to before-NN.db beside it, NN the schema that it goes to, and nothing is done "
		    "when there is no room for that; the record of the start names both schemas and the copy with its SHA-256.  "
		    "A server removes the copy after 14 days.  What was erased or pruned since is still in it: toolcribd(8), "
		    "UPGRADES.  A store in "
		    "which more than 1,048,576 records wait to become blocks, as one of an older release may be, is served only "
		    "when this has put them there: while no server runs, in about one second for 100,000 records, and with room "
		    "for about a third of what the file has.  It may be ended at any moment and goes on when it is called "
		    "again.  Then it drops the indexes that only records outside of blocks need, one by one.  Heads, "
		    "checkpoints and proofs stay what they were.",
	  .args = migrate_args, .done = "schema %{from} -> %{to}: %{said}", .role = ADM_OWNER, .where = ADM_ON_CTL },
	{ .noun = "help", .help = "Explain a command", .args = help_args, .storeless = true, .role = ADM_READ,
	  .where = ADM_ON_CTL },
	{ .noun = "completion", .help = "Print the completion for a shell",
	  .detail = "make install puts them where the shells look.  Elsewhere: toolcrib completion bash > "
		    "/etc/bash_completion.d/toolcrib", .args = completion_args,
	  .storeless = true, .role = ADM_READ, .where = ADM_ON_CTL },
	{ .noun = NULL },
};
