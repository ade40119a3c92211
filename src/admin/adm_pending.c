/* tool pending, approve, reject, drift, and approval versions: what is stored and what is shown are two things where new
 * versions of definitions have to be approved.  A version that waits is in nobody's list; calls go on with the one in force. */
#include "config.h"

#include "adm_pending.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "db/db.h"
#include "registry/define.h"

#include "adm_commands.h"

#define META_POLICY "versions"          /* "required": a second administrator has to approve them */

int adm_versions_wait(struct db *db, bool *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);
	int rc;

	db_bind_textz(st, 1, META_POLICY);
	rc = db_step(st, err);
	*ret = rc == 1 && strcmp(db_col_text(st, 0, NULL), "required") == 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int adm_pending_find(struct db *db, int64_t tool_id, struct adm_pending *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PENDING_FIND);
	size_t len = 0;
	int rc;

	db_bind_i64(st, 1, tool_id);
	rc = db_step(st, err);
	if (rc == 1) {
		const void *digest;

		*ret = (struct adm_pending){ .version = db_col_i64(st, 0), .state = (int)db_col_i64(st, 1),
			.created_us = db_col_i64(st, 3) };
		(void)snprintf(ret->actor, sizeof(ret->actor), "%s", db_col_text(st, 2, NULL));
		digest = db_col_blob(st, 4, &len);
		if (len == sizeof(ret->digest))
			memcpy(ret->digest, digest, len);
	}
	db_stmt_put(&st);
	return rc;
}

int adm_pending_drop(struct db *db, int64_t tool_id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PENDING_DELETE);

	db_bind_i64(st, 1, tool_id);
	return db_run(&st, err);
}

static void put_object(char ret[128], const struct adm_tool *tool, int64_t version)
{
	(void)snprintf(ret, 128, "%s/%s@%" PRId64, adm_noun_of(tool->name), adm_bare(tool->name), version); /* fits */
}

int adm_pending_put(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_tool *tool,
		    const struct adm_pending *p, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PENDING_SET);
	char obj[128];
	int rc;

	db_bind_i64(st, 1, tool->id);
	db_bind_i64(st, 2, p->version);
	db_bind_i64(st, 3, p->state);
	db_bind_textz(st, 4, p->actor);
	db_bind_i64(st, 5, (int64_t)clock_wall_us());
	rc = db_run(&st, err);
	put_object(obj, tool, p->version);
	return rc < 0 ? rc : adm_record(c, db, logs, &(struct adm_record){ .kind = AUDIT_APPROVAL_REQUEST, .obj = obj,
		.before = tool->version ? tool->digest : NULL, .after = p->digest }, err);
}

/* --- tool pending, drift */

int adm_tool_pending_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PENDING_LIST);
	int rc;

	(void)logs;
	while ((rc = db_step(st, err)) == 1) {
		int64_t version = db_col_i64(st, 1), in_force = db_col_i64(st, 2);
		char name[REG_FULL_NAME_SIZE];
		size_t len = 0;
		const void *digest;

		(void)snprintf(name, sizeof(name), "%s", db_col_text(st, 0, NULL));
		adm_row_begin(c->out);
		adm_put_text(c->out, "name", name);
		adm_put_int(c->out, "version", version);
		if (in_force == version)
			adm_put_text(c->out, "in_force", NULL);
		else
			adm_put_int(c->out, "in_force", in_force);
		adm_put_text(c->out, "actor", db_col_text(st, 3, NULL));
		adm_put_time(c->out, "since", (uint64_t)db_col_i64(st, 4));
		digest = db_col_blob(st, 5, &len);
		adm_put_hex(c->out, "digest", digest, len);
		adm_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

int adm_tool_drift_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const char *const members[] = { "name", "state", "what", "note" };
	struct db_stmt *st = db_stmt_get(db, SQL_PENDING_DRIFT);
	int rc;

	(void)logs;
	while ((rc = db_step(st, err)) == 1) {
		adm_row_begin(c->out);
		for (unsigned i = 0; i < NELEMS(members); i++) {
			const char *text = db_col_text(st, i, NULL);

			adm_put_text(c->out, members[i], *text ? text : NULL);
		}
		adm_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- tool approve, reject */

struct decide_job {
	char name[REG_FULL_NAME_SIZE];
	uint32_t version;               /* 0: whichever waits */
	int64_t tool_id;                /* out */
};

int adm_pending_check(struct adm_call *c, struct err *err)
{
	struct decide_job *job = adm_priv(c, sizeof(*job));

	(void)err;
	adm_full_name(adm_noun(c), adm_text(c, "tool"), job->name, sizeof(job->name));
	job->version = adm_uint(c, "version", 0);
	return 0;
}

static int find_waiting(struct db *db, const struct decide_job *job, struct adm_tool *ret_tool, struct adm_pending *ret,
			struct err *err)
{
	int rc = adm_find_tool(db, job->name, ret_tool, err);

	if (rc == 0)
		rc = adm_pending_find(db, ret_tool->id, ret, err);
	else
		return rc;
	if (rc == 1 && (!job->version || job->version == ret->version))
		return 0;
	if (rc == 1)
		(void)err_set(err, ERR_CONFLICT, "version", "version %u of %s does not wait, but version %" PRId64, job->version,
			      job->name, ret->version);
	else if (rc == 0)
		(void)err_set(err, ERR_CONFLICT, "", "nothing of %s waits for approval", job->name);
	if (rc >= 0)
		err_hint(err, "toolcrib tool pending");
	return rc < 0 ? rc : ERR_CONFLICT;
}

/* Who made it does not approve it, unless this crib has a single administrator. */
static int check_second(struct adm_call *c, struct db *db, const struct adm_pending *p, char approver[ADM_WHO_SIZE + 32],
			struct err *err)
{
	char who[ADM_WHO_SIZE];
	bool one = false;
	int rc = adm_one_is_enough(db, &one, err);

	if (rc < 0)
		return rc;
	(void)adm_who_text(&c->who, who);
	if (strcmp(who, p->actor) == 0 && !one) {
		(void)err_set(err, ERR_DENIED, "", "%s made this version; another administrator has to approve it", who);
		err_hint(err, "where there is no other: toolcrib help approval policy");
		return ERR_DENIED;
	}
	(void)snprintf(approver, ADM_WHO_SIZE + 32, "%s%s", who, strcmp(who, p->actor) == 0 ? " alone: approval policy one" : "");
	return 0;
}

static void put_decided(struct adm_out *o, const struct adm_tool *tool, const struct adm_pending *p)
{
	adm_row_begin(o);
	adm_put_text(o, "name", tool->name);
	adm_put_int(o, "version", p->version);
	adm_put_text(o, "actor", p->actor);
	adm_put_hex(o, "digest", p->digest, sizeof(p->digest));
	adm_row_end(o);
}

int adm_tool_approve_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct decide_job *job = c->priv;
	char approver[ADM_WHO_SIZE + 32] = "", obj[128];
	struct define_item def = { .text = NULL };
	struct adm_pending p;
	struct adm_tool tool;
	int rc = find_waiting(db, job, &tool, &p, err);

	if (rc == 0)
		rc = check_second(c, db, &p, approver, err);
	if (rc == 0)            /* what it refers to may have gone since */
		rc = adm_define_stored(c, db, &tool, p.version, &def, err);
	if (rc == 0 && memcmp(def.digest, p.digest, sizeof(p.digest)) != 0)
		rc = err_set(err, ERR_CONFLICT, "", "version %" PRId64 " of %s says something else by now; add it again", p.version,
			     tool.name);
	define_free(&def);
	if (rc == 0)
		rc = adm_tool_set_version(db, &tool, p.version, p.state, err);
	if (rc == 0)
		rc = adm_pending_drop(db, tool.id, err);
	put_object(obj, &tool, p.version);
	const struct audit_field by = { AUDIT_TAG_APPROVER, approver, strlen(approver) };
	bool first = tool.version == p.version;

	if (rc == 0)
		rc = adm_record(c, db, logs, &(struct adm_record){ .obj = obj, .before = first ? NULL : tool.digest, .after = p.digest,
			.kind = strcmp(adm_noun_of(tool.name), "tool") == 0 ? AUDIT_TOOL_APPROVE : AUDIT_DEFINITION_CHANGE,
			.field = &by, .nfield = 1 }, err);
	if (rc == 0)
		rc = adm_changed_tools(c, db, &tool.id, 1, err);
	if (rc == 0)
		put_decided(c->out, &tool, &p);
	return rc;
}

/* One that was never in force goes; else the one in force stays. */
int adm_tool_reject_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct decide_job *job = c->priv;
	struct adm_pending p;
	struct adm_tool tool;
	int64_t id = 0;
	char obj[128];
	int rc = find_waiting(db, job, &tool, &p, err);

	if (rc < 0)
		return rc;
	rc = adm_pending_drop(db, tool.id, err);
	if (rc == 0 && tool.version == p.version)
		rc = adm_tool_change_state(c, db, logs, tool.name, ADM_TOOL_REMOVED, &id, err);
	put_object(obj, &tool, p.version);
	if (rc == 0)
		rc = adm_record(c, db, logs, &(struct adm_record){ .kind = AUDIT_ADMIN_CMD, .obj = obj, .after = p.digest }, err);
	if (rc == 0)
		put_decided(c->out, &tool, &p);
	return rc;
}

/* --- approval versions */

struct policy_job { bool required; };

int adm_versions_policy_check(struct adm_call *c, struct err *err)
{
	struct policy_job *job = adm_priv(c, sizeof(*job));
	const char *text = adm_text(c, "policy");

	job->required = strcmp(text, "required") == 0;
	if (!job->required && strcmp(text, "free") != 0)
		return err_set(err, ERR_INVALID, "policy", "it is required or free, not \"%.20s\"", text);
	return 0;
}

int adm_versions_policy_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct policy_job *job = c->priv;
	const char *word = job->required ? "required" : "free";
	struct db_stmt *st;
	char obj[40];
	bool now = false;
	int rc = adm_versions_wait(db, &now, err);

	if (rc == 0 && now && !job->required)
		rc = adm_second(c, db, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_META_SET_VALUE);
	db_bind_textz(st, 1, META_POLICY);
	db_bind_textz(st, 2, word);
	rc = db_run(&st, err);
	(void)snprintf(obj, sizeof(obj), "approval/versions/%s", word);
	if (rc == 0)
		rc = adm_record(c, db, logs, &(struct adm_record){ .kind = AUDIT_POLICY_CHANGE, .obj = obj }, err);
	if (rc < 0)
		return rc;
	adm_row_begin(c->out);
	adm_put_text(c->out, "policy", word);
	adm_put_text(c->out, "said", job->required ? "wait for a second administrator" : "are shown at once");
	adm_row_end(c->out);
	return 0;
}
