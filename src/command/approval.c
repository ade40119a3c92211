/* Destructive acts need two administrators (AUDIT A-909): one runs the command, which files a request; another
 * grants it; then the command, said again, is done.  What is agreed to is a digest of the command with all its
 * arguments.  The table has the texts; who asked and who granted is what the records say (audit/second.h). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "audit/second.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "conf/conf.h"
#include "db/db.h"
#include "json/json.h"
#include "writer/writer.h"

#include "command_int.h"

#define WAITING_MAX 1000                        /* rows of the table */
#define META_POLICY "approvals"                 /* "one": a single administrator is enough */
#define AND_MORE "and more"
#define REASONS_MAX 20                          /* that the one who decides is told */

/* --- persons */

/* Of somebody as actor_text() writes him, by the list of roles; NULL: it does not say. */
static const char *person_of(const struct commands *a, const char *text)
{
	for (size_t i = 0; i < a->env.nroles; i++) {
		const struct conf_role *r = &a->env.roles[i];
		const struct actor of = { .uid = r->id, .key = r->key, .name = r->name };
		char name[ACTOR_SIZE];

		if (r->person && strcmp(actor_text(&of, name), text) == 0)
			return r->person;
	}
	return NULL;
}

static bool persons_are_named(const struct commands *a)
{
	for (size_t i = 0; i < a->env.nroles; i++)
		if (a->env.roles[i].person)
			return true;
	return false;
}

/* Two persons, where persons are named; else two actors. */
static bool are_two(const struct commands *a, const char *one, const char *other)
{
	const char *mine = person_of(a, one), *theirs = person_of(a, other);

	if (strcmp(one, other) == 0)
		return false;
	return !persons_are_named(a) || (mine && theirs && strcmp(mine, theirs) != 0);
}

int actor_check_other(const struct command_call *c, const char *author, const char *did, const char *todo,
		struct err *err)
{
	const struct commands *a = c->admin;
	const char *mine, *theirs, *hint = "where there is no other: toolcrib help approval policy";
	char who[ACTOR_SIZE];

	(void)actor_text(&c->who, who);
	mine = person_of(a, who);
	theirs = person_of(a, author);
	if (strcmp(who, author) == 0) {
		(void)err_set(err, ERR_DENIED, "", "%s %s; another administrator has to %s it", who, did, todo);
	} else if (!persons_are_named(a)) {
		return 0;
	} else if (!mine || !theirs) {
		(void)err_set(err, ERR_DENIED, "", "%s %s, but nothing says which person %s is; another administrator has to %s it",
			      author, did, mine ? author : who, todo);
		hint = "where roles name persons, each user id and key of an administrator needs one: toolcribd.yaml(5), roles";
	} else if (strcmp(mine, theirs) == 0) {
		(void)err_set(err, ERR_DENIED, "", "%s %s, and %s is the same person, %s; another one has to %s it", author, did,
			      who, mine, todo);
	} else {
		return 0;
	}
	err_hint(err, "%s", hint);
	return ERR_DENIED;
}

/* --- rows of the table, and their records */

struct approval {
	int64_t id, tenant_id;
	uint8_t digest[DIGEST_SIZE];
	char *command;
	bool recorded;                  /* the rest is of the records, and the text is the one that they have the hash of */
	char asked_by[AUDIT_WHO_MAX], granted_by[AUDIT_WHO_MAX];  /* granted_by "": it waits */
	char asker[AUDIT_PERSON_MAX], granter[AUDIT_PERSON_MAX];
	uint64_t asked_us, granted_us;
};

static void approval_fini(struct approval *a)
{
	free(a->command);
	a->command = NULL;
}

static void read_approval(struct db_stmt *st, struct approval *ret)
{
	size_t len = 0;
	const void *digest = db_col_blob(st, 1, &len);

	*ret = (struct approval){ .id = db_col_i64(st, 0), .tenant_id = db_col_i64(st, 3) };
	if (len == DIGEST_SIZE)
		memcpy(ret->digest, digest, DIGEST_SIZE);
	ret->command = mem_strdup(db_col_text(st, 2, NULL));
}

/* What the records say of it. */
static int look_up(struct audit_logs *logs, struct db *db, struct approval *a, struct err *err)
{
	struct audit_consent c;
	struct audit_asked asked;
	int rc = audit_second_find(logs, db, a->id, &c, err);

	if (rc != 1)
		return rc;
	audit_asked_make(a->command, NULL, &asked);
	a->recorded = memcmp(c.digest, a->digest, DIGEST_SIZE) == 0 && memcmp(c.asked, asked.p, DIGEST_SIZE) == 0;
	if (!a->recorded)
		return 0;
	memcpy(a->asked_by, c.asked_by, sizeof(a->asked_by));
	memcpy(a->granted_by, c.granted_by, sizeof(a->granted_by));
	memcpy(a->asker, c.asker, sizeof(a->asker));
	memcpy(a->granter, c.granter, sizeof(a->granter));
	a->asked_us = c.asked_us;
	a->granted_us = c.granted_us;
	return 0;
}

static uint64_t ends_us(const struct approval *a)
{
	return (a->granted_us ? a->granted_us : a->asked_us) + AUDIT_CONSENT_US;
}

static bool is_over(const struct approval *a)
{
	return clock_wall_us() >= ends_us(a);
}

/* 1: *ret is the row with what the records say of it, approval_fini() it; 0: there is none. */
static int fetch(struct audit_logs *logs, struct db *db, struct db_stmt *st, struct approval *ret, struct err *err)
{
	int rc = db_step(st, err);

	if (rc == 1)
		read_approval(st, ret);
	db_stmt_put(&st);
	if (rc == 1 && look_up(logs, db, ret, err) < 0) {
		approval_fini(ret);
		return err->code;
	}
	return rc;
}

static int find_approval(struct audit_logs *logs, struct db *db, const uint8_t digest[DIGEST_SIZE],
			 struct approval *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_APPROVAL_FIND);

	db_bind_blob(st, 1, digest, DIGEST_SIZE);
	return fetch(logs, db, st, ret, err);
}

static int run_by_id(struct db *db, enum sql_id sql, int64_t id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);

	db_bind_i64(st, 1, id);
	return db_run(&st, err);
}

/* --- the policy */

int approval_policy(const struct command_call *c, struct db *db, struct audit_policy *ret, struct err *err)
{
	struct command_run *run = command_run_of(c);
	int rc = 0;

	/* What has any number of documents asks for each of them; within its transaction nobody else changes it. */
	if (!run->policy_read)
		rc = audit_second_policy(run->logs, db, &run->policy, err);
	run->policy_read = rc == 0 && run->cmd->pieces;
	*ret = run->policy;
	return rc;
}

/* --- what a command asks for */

/* What is agreed to: the words and every argument, whatever their order. */
static void digest_action(const struct command_run *run, uint8_t ret[DIGEST_SIZE])
{
	struct str text = STR_INIT;

	str_printf(&text, "%s %s\n", run->cmd->noun, run->cmd->verb ? run->cmd->verb : "");
	if (run->pieces) {
		json_t *words = json_copy((json_t *)(uintptr_t)run->c.args);

		(void)json_object_del(words, "documents");
		jx_write_canon(words, &text);
		str_put(&text, (const char *)run->documents, sizeof(run->documents));
		json_decref(words);
	} else {
		jx_write_canon(run->c.args, &text);
	}
	digest_sha256(text.p, text.len, ret);
	str_fini(&text);
}

static int needs_second(struct command_run *run, int64_t id, struct err *err)
{
	(void)err_set(err, ERR_DENIED, "", "this needs a second administrator; request %" PRId64 " waits for one", id);
	err_hint(err, "another administrator: toolcrib approval grant %" PRId64 "; then the same command again, "
		"within 24 hours; "
		      "where there is no other: toolcrib help approval policy", id);
	run->unapproved = true;
	return ERR_DENIED;
}

/* Granted, for the time being, by another person than the one who asked, also by the list of roles as it is now. */
static bool is_granted(const struct command_run *run, const struct approval *a)
{
	return a->recorded && *a->granted_by && !is_over(a) && are_two(run->c.admin, a->asked_by, a->granted_by) &&
	       (!*a->asker || strcmp(a->asker, a->granter) != 0);
}

static int use_grant(struct command_run *run, struct db *db, struct err *err)
{
	struct approval a = { 0 };
	int rc = find_approval(run->logs, db, run->action, &a, err);

	if (rc < 0)
		return rc;
	if (rc == 1 && is_granted(run, &a)) {
		(void)snprintf(run->approver, sizeof(run->approver), "%s approval/%" PRId64, a.granted_by, a.id);
		run->agreed = mem_strdup(a.command);
		run->approval = a.id;
		rc = run_by_id(db, SQL_APPROVAL_DELETE, a.id, err);
	} else {
		rc = needs_second(run, rc == 1 ? a.id : 0, err);
	}
	approval_fini(&a);
	return rc;
}

int approval_require(struct command_call *c, struct db *db, struct err *err)
{
	struct command_run *run = command_run_of(c);
	struct audit_policy policy;
	int rc;

	if (run->cmd->second == ADM_SECOND_NO)
		return err_set(err, ERR_INTERNAL, "", "%s asks for a second administrator, and its row does not say so",
			       run->cmd->noun);
	if (*run->approver)             /* whoever agreed has agreed to all of it */
		return 0;
	rc = approval_policy(c, db, &policy, err);
	if (rc < 0)
		return rc;
	digest_action(run, run->action);
	if (!policy.one)
		return use_grant(run, db, err);
	(void)snprintf(run->approver, sizeof(run->approver), "none: approval policy one");
	return 0;
}

/* One more reason, for `approval list`; the first ones are told. */
static void add_reason(struct command_run *run, const char *why)
{
	char *asked = run->asked;

	if (run->nreason == REASONS_MAX)
		why = AND_MORE;
	if (run->nreason <= REASONS_MAX) {
		run->asked = mem_printf("%s%s %s", asked, run->nreason ? ";" : ":", why);
		run->nreason++;
		free(asked);
	}
}

int approval_require_for(struct command_call *c, struct db *db, const char *why, struct err *err)
{
	struct command_run *run = command_run_of(c);
	int rc = c->undo ? 0 : approval_require(c, db, err);

	if (rc < 0 && !run->unapproved)
		return rc;
	/* The store has gone on since: what nobody has read on the request was not agreed to.  A new one is filed. */
	if (run->agreed && !strstr(run->agreed, why) && !strstr(run->agreed, AND_MORE))
		run->unapproved = true;
	if (rc < 0 || run->agreed)
		add_reason(run, why);
	return 0;
}

const char *approval_by(const struct command_call *c)
{
	return command_run_of(c)->approver;
}

size_t approval_field(const struct command_call *c, struct audit_field *ret)
{
	const char *by = approval_by(c);

	*ret = (struct audit_field){ AUDIT_TAG_APPROVER, by, strlen(by) };
	return *by ? 1 : 0;
}

/* --- filing a request, once the command itself has been undone */

static int record_approval(struct command_run *run, struct db *db, struct audit_logs *logs, int kind,
			   const struct approval *a, struct err *err)
{
	char obj[40], who[ACTOR_SIZE];
	struct audit_field field[2];
	struct command_record r = { .kind = kind, .obj = obj, .after = a->digest, .field = field };
	struct audit_asked asked;
	int rc;

	(void)snprintf(obj, sizeof(obj), "approval/%" PRId64, a->id);
	audit_asked_make(a->command, person_of(run->c.admin, actor_text(&run->c.who, who)), &asked);
	if (kind == AUDIT_APPROVAL_GRANT)
		field[r.nfield++] = (struct audit_field){ AUDIT_TAG_APPROVER, a->granted_by, strlen(a->granted_by) };
	if (kind != AUDIT_ADMIN_CMD)
		field[r.nfield++] = (struct audit_field){ AUDIT_TAG_ASKED, asked.p, asked.len };
	rc = command_record(&run->c, db, logs, &r, err);
	r.tenant_id = a->tenant_id;
	return rc == 0 && a->tenant_id ? command_record(&run->c, db, logs, &r, err) : rc;
}

static int expire(struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_APPROVAL_EXPIRE);

	db_bind_i64(st, 1, (int64_t)(clock_wall_us() - AUDIT_CONSENT_US));
	return db_run(&st, err);
}

static int count_waiting(struct db *db, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_APPROVAL_COUNT);
	int rc = db_step(st, err);

	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int insert_request(struct command_run *run, struct db *db, struct approval *ret, struct err *err)
{
	struct db_stmt *st;
	int64_t waiting = 0;
	int rc = expire(db, err);

	if (rc == 0)
		rc = count_waiting(db, &waiting, err);
	if (rc == 0 && waiting >= WAITING_MAX)
		rc = err_set(err, ERR_LIMIT, "", "%d requests wait for a second administrator already", WAITING_MAX);
	if (rc < 0)
		return rc;
	*ret = (struct approval){ .tenant_id = run->record_tenant };
	memcpy(ret->digest, run->action, DIGEST_SIZE);
	ret->command = mem_strdup(run->asked);
	(void)actor_text(&run->c.who, ret->asked_by);
	st = db_stmt_get(db, SQL_APPROVAL_INSERT);
	db_bind_blob(st, 1, ret->digest, DIGEST_SIZE);
	db_bind_textz(st, 2, run->asked);
	db_bind_i64(st, 3, ret->tenant_id);
	db_bind_textz(st, 4, ret->asked_by);
	db_bind_i64(st, 5, (int64_t)clock_wall_us());
	return db_run_id(&st, &ret->id, err);
}

int approval_file(struct command_run *run, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct approval a = { 0 };
	int rc = find_approval(logs, db, run->action, &a, err);
	bool fresh = rc == 0;
	/* Nothing on record says so any more, or it is too old.  It was granted, and does not cover all of this; or what it
	 * says is not what would be done by now. */
	bool stale = rc == 1 && (!a.recorded || is_over(&a) || *a.granted_by || strcmp(a.command, run->asked) != 0);

	approval_fini(&a);
	if (stale) {
		rc = run_by_id(db, SQL_APPROVAL_DELETE, a.id, err);
		fresh = true;
	}
	if (rc < 0)
		return rc;
	if (fresh) {
		rc = insert_request(run, db, &a, err);
		if (rc == 0)
			rc = record_approval(run, db, logs, AUDIT_APPROVAL_REQUEST, &a, err);
		approval_fini(&a);
	}
	if (rc < 0)
		return rc;
	run->request = a.id;
	return 0;
}

void approval_refuse(struct command_run *run, struct err *err)
{
	(void)needs_second(run, run->request, err);
}

/* --- approval list */

static const char *state_of(const struct approval *a)
{
	return !a->recorded ? "not recorded" : is_over(a) ? "expired" : *a->granted_by ? "granted" : "waits";
}

/* A text that no record vouches for is not shown: somebody might agree to it. */
static void put_approval(struct reply *o, const struct approval *a)
{
	reply_row_begin(o);
	reply_int(o, "id", a->id);
	reply_text(o, "state", state_of(a));
	reply_text(o, "command", a->recorded ? a->command : NULL);
	reply_text(o, "asked_by", a->recorded ? a->asked_by : NULL);
	reply_time(o, "asked", a->asked_us);
	reply_text(o, "granted_by", *a->granted_by ? a->granted_by : NULL);
	reply_time(o, "granted", a->granted_us);
	reply_time(o, "until", a->recorded ? ends_us(a) : 0);
	reply_hex(o, "digest", a->digest, DIGEST_SIZE);
	reply_row_end(o);
}

/* What the writer has gathered: it alone can tell which records are as they were written. */
struct list_job { struct approval *v; size_t n; };

static void free_list(void *priv)
{
	struct list_job *job = priv;

	for (size_t i = 0; i < job->n; i++)
		approval_fini(&job->v[i]);
	free(job->v);
	free(job);
}

static int list_check(struct command_call *c, struct err *err)
{
	(void)err;
	(void)command_priv(c, sizeof(struct list_job));
	c->free_priv = free_list;
	return 0;
}

static int collect(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct list_job *job = ((struct command_call *)arg)->priv;
	struct db_stmt *st = db_stmt_get(db, SQL_APPROVAL_LIST);
	int rc;

	db_bind_i64(st, 1, 2 * WAITING_MAX);
	while ((rc = db_step(st, err)) == 1) {
		job->v = mem_realloc(job->v, (job->n + 1) * sizeof(*job->v));
		read_approval(st, &job->v[job->n]);
		rc = look_up(logs, db, &job->v[job->n++], err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

static void collected(void *arg, int rc, const struct err *err)
{
	command_gathered(arg, rc < 0 ? err : NULL);
}

static void list_gather(struct command_call *c)
{
	static const struct writer_job job = { .name = "approval list", .run = collect, .volatile_only = true,
		.done = collected };
	struct err err = { 0 };
	int rc = writer_submit(c->admin->env.writer, &job, c);

	if (rc < 0) {
		writer_refused(c->admin->env.writer, rc, "nothing was done", &err);
		command_gathered(c, &err);
	}
}

static int approval_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct list_job *job = c->priv;

	(void)db;
	(void)logs;
	(void)err;
	for (size_t i = 0; i < job->n; i++)
		put_approval(c->out, &job->v[i]);
	return 0;
}

/* --- approval grant, deny */

struct decide_job { uint32_t id; };

static int approval_check(struct command_call *c, struct err *err)
{
	struct decide_job *job = command_priv(c, sizeof(*job));

	job->id = arg_uint(c, "id", 0);
	return command_reason_check(c, err);
}

static int get_waiting(const struct command_call *c, struct db *db, struct approval *ret, struct err *err)
{
	const struct decide_job *job = c->priv;
	struct db_stmt *st = db_stmt_get(db, SQL_APPROVAL_GET);
	int rc;

	db_bind_i64(st, 1, job->id);
	rc = fetch(command_run_of(c)->logs, db, st, ret, err);
	if (rc == 1 && ret->recorded && is_over(ret))
		rc = err_set(err, ERR_NOT_FOUND, "", "request %u is older than 24 hours", job->id);
	else if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "", "request %u: not found", job->id);
	if (rc == ERR_NOT_FOUND)
		err_hint(err, "toolcrib approval list");
	return rc < 0 ? rc : 0;
}

static void put_decided(struct reply *o, const struct approval *a)
{
	reply_row_begin(o);
	reply_int(o, "id", a->id);
	reply_text(o, "asked_by", a->recorded ? a->asked_by : "nobody on record");
	reply_text(o, "command", a->command);
	reply_row_end(o);
}

static int not_recorded(const struct approval *a, struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, "", "no record says what request %" PRId64 " says", a->id);
	err_hint(err, "somebody has to ask again; what wrote it behind the log: toolcrib audit verify");
	return ERR_CONFLICT;
}

static int grant(struct command_call *c, struct db *db, struct audit_logs *logs, struct approval *a, struct err *err)
{
	char who[ACTOR_SIZE];
	struct db_stmt *st;
	int rc;

	(void)actor_text(&c->who, who);
	if (!a->recorded)
		return not_recorded(a, err);
	if (*a->granted_by)
		return err_set(err, ERR_CONFLICT, "", "request %" PRId64 " has been granted by %s", a->id, a->granted_by);
	if (actor_check_other(c, a->asked_by, "asked for this", "grant", err) < 0)
		return ERR_DENIED;
	(void)snprintf(a->granted_by, sizeof(a->granted_by), "%s", who);
	st = db_stmt_get(db, SQL_APPROVAL_GRANT);
	db_bind_i64(st, 1, a->id);
	db_bind_textz(st, 2, who);
	db_bind_i64(st, 3, (int64_t)clock_wall_us());
	rc = db_run(&st, err);
	return rc < 0 ? rc : record_approval(command_run_of(c), db, logs, AUDIT_APPROVAL_GRANT, a, err);
}

static int approval_grant_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct approval a = { 0 };
	int rc = get_waiting(c, db, &a, err);

	if (rc == 0)
		rc = grant(c, db, logs, &a, err);
	if (rc == 0)
		put_decided(c->out, &a);
	approval_fini(&a);
	return rc;
}

static int approval_deny_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct approval a = { 0 };
	int rc = get_waiting(c, db, &a, err);

	if (rc == 0)
		rc = run_by_id(db, SQL_APPROVAL_DELETE, a.id, err);
	if (rc == 0)
		rc = record_approval(command_run_of(c), db, logs, AUDIT_ADMIN_CMD, &a, err);
	if (rc == 0)
		put_decided(c->out, &a);
	approval_fini(&a);
	return rc;
}

/* --- approval policy */

struct policy_job { bool one; };

static int approval_policy_check(struct command_call *c, struct err *err)
{
	struct policy_job *job = command_priv(c, sizeof(*job));
	const char *text = arg_text(c, "policy");

	job->one = strcmp(text, "one") == 0;
	if (!job->one && strcmp(text, "two") != 0)
		return err_set(err, ERR_INVALID, "policy", "policy is one or two, not \"%.20s\"", text);
	/* Who can run it without a server holds the files, and needs no command to take records away. */
	if (job->one && !c->who.embedded) {
		(void)err_set(err, ERR_DENIED, "", "while the server runs, no command makes one administrator enough");
		err_hint(err, "stop toolcribd, run this as the user of the store, start toolcribd");
		return ERR_DENIED;
	}
	return 0;
}

static int approval_policy_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct policy_job *job = c->priv;
	const char *obj = job->one ? "approval/policy/one" : "approval/policy/two";
	struct db_stmt *st = db_stmt_get(db, SQL_META_SET_VALUE);
	int rc;

	db_bind_textz(st, 1, META_POLICY);
	db_bind_textz(st, 2, job->one ? "one" : "two");
	rc = db_run(&st, err);
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_POLICY_CHANGE, .obj = obj }, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "policy", job->one ? "one" : "two");
	reply_text(c->out, "said", job->one ? "one administrator is" : "two administrators are");
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg approval_args[] = {
	{ "id", "ID", ARG_UINT, false, true, false, COMPLETE_NONE, "Number of the request, from approval list." },
	REASON_OPT, ARG_END };
static const struct command_arg approval_policy_args[] = {
	WORD("policy", "one|two", COMPLETE_NONE, "How many administrators a destructive act needs."), ARG_END };
static const struct command_column approval_list_cols[] = {
	COL("id", "ID"), COL("state", "STATE"), COL("asked_by", "ASKED BY"), COL_AT("asked", "ASKED"), COL("granted_by",
		"GRANTED BY"),
	COL_AT("until", "UNTIL"), COL("command", "COMMAND"), COL_END };

const struct command approval_commands[] = {
	{ .noun = "approval", .verb = "list", .help = "List what waits for a second administrator",
	  .detail = "A destructive act needs two, as does one by which less is recorded: the first runs the "
	            "command, which files a "
		    "request; another grants it within 24 hours; then the same command, said again within 24 hours, is done.  "
		    "Where files say what is done, the request names what of them needs a second one.  Administrators are told "
		    "apart by their person, where the list of roles says whose a user id or a key is; else by their user id, or by "
		    "the name of their key.  All of this is what records say: a row that no record vouches for is shown as not "
		    "recorded, without its text, and a grant that a crash left unsigned has to be given again.",
	  .args = no_args, .columns = approval_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .console = true,
	  .where = ADM_ON_POOL,
	  .check = list_check, .gather = list_gather, .body = approval_list_body },
	{ .noun = "approval", .verb = "grant", .help = "Agree to what another administrator asked for",
	  .detail = "What is agreed to is the command with all its arguments, once.  Nobody grants a request of their own.",
	  .args = approval_args, .done = "request %{id} of %{asked_by} granted: %{command}", .role = ADM_AGREE,
	  .console = true,
	  .where = ADM_ON_WRITER, .check = approval_check, .body = approval_grant_body },
	{ .noun = "approval", .verb = "deny", .help = "Take a request away, or withdraw it", .args = approval_args,
	  .done = "request %{id} of %{asked_by} denied: %{command}", .role = ADM_AGREE, .console = true,
	  .where = ADM_ON_WRITER,
	  .check = approval_check, .body = approval_deny_body },
	{ .noun = "approval", .verb = "policy", .help = "Say how many administrators a destructive act needs",
	  .detail = "Two, unless this says one, for a crib that has a single administrator.  Going down to one "
	            "works only while "
		    "no server runs, as the user of the store.  Both ways are recorded, and so is each act that had no second.",
	  .args = approval_policy_args, .done = "%{said} enough for a destructive act", .role = ADM_OWNER,
	  .where = ADM_ON_WRITER, .check = approval_policy_check, .body = approval_policy_body },
	{ .noun = NULL },
};
