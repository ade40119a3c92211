/* Grants: which tools a tenant may call.  The row, the document of `apply` and `export`, and the commands grant add,
 * list, remove and set: a field of a grant is spelt here and in sql/queries/grant.sql alone.  check() of a command runs
 * on the loop thread and parses; its body() runs on the writer's, or for list on the pool's, and reads the arguments.
 * What a tenant sees is computed from the rows by command_changed_tenant(), once at the end of a command. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "assent/rule.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "json/json.h"
#include "toolset/toolset.h"

#define GRANT_GLOB_SIZE 80              /* with the kind in front and NUL */
#define GLOB_MAX 64                     /* characters behind the kind */
#define ALIAS_MAX 64
#define CONCURRENCY_MAX 10000
#define PAGES_MAX 1000                  /* that grant add --with-ui grants at once */
#define APPROVE_MAX 2048                /* bytes of the block `approve` as canonical JSON */

struct grant_row {
	int64_t id, created_us;
	char glob[GRANT_GLOB_SIZE], alias[ALIAS_MAX + 1];       /* alias "" = none */
	uint32_t concurrency;           /* 0 = as the tool says */
	struct text_rate rate;          /* likewise, count 0 */
	int64_t version;                /* of the tool; 0 = the one in force */
	char approve[APPROVE_MAX + 1];  /* "" = it asks nobody */
};

/* --- what a grant may be, in arguments and in documents */

static int check_glob(const char *text, struct err *err)
{
	const char *bare = strcmp(tool_noun(text), "tool") == 0 ? text : tool_bare_name(text);
	size_t len = strlen(bare);

	/* Exactly what names can be made of: SQLite's GLOB has sets in brackets, which we do not. */
	for (size_t i = 0; i < len; i++) {
		if (bare[i] != '*' && bare[i] != '?' && !text_tool_name(&bare[i], 1)) {
			(void)err_set(err, ERR_INVALID, "tool", "\"%.80s\" is no name or pattern of %ss", text,
				      tool_noun(text));
			err_hint(err, "letters, digits, _ . - and the wildcards * and ?, perhaps prompt: or resource: "
				 "in front");
			return ERR_INVALID;
		}
	}
	if (len == 0 || len > GLOB_MAX)
		return err_set(err, ERR_INVALID, "tool", "a name or pattern of %ss has 1 to %d characters",
			       tool_noun(text), GLOB_MAX);
	return 0;
}

/* glob NULL: several. */
static int check_alias(const char *alias, const char *glob, struct err *err)
{
	if (!text_tool_name(alias, strlen(alias)))
		return err_set(err, ERR_INVALID, "as",
			       "the alias \"%.80s\" is no name of a tool: letters, digits, _ . -, at most %d", alias,
			       ALIAS_MAX);
	if (!glob || !text_glob_literal(glob))
		return err_set(err, ERR_INVALID, "as", "an alias is for one tool, not for several or a pattern");
	return 0;
}

/* glob NULL: several. */
static int check_version(const char *glob, struct err *err)
{
	if (!glob || !text_glob_literal(glob))
		return err_set(err, ERR_INVALID, "version", "a version is of one tool, not of several or a pattern");
	return 0;
}

/* HA-01: who has to agree to its calls, beside whom the tool asks. */
static int check_approve(const json_t *block, const char *glob, char ret[APPROVE_MAX + 1], struct err *err)
{
	struct assent_rule *rule = NULL;
	int rc;

	if (strcmp(tool_noun(glob), "tool") != 0)
		return err_set(err, ERR_INVALID, "/approve", "a person is asked of calls of tools, not of prompts and resources");
	rc = assent_rule_read(block, "/approve", &rule, err);
	if (rc == 0 && strlen(rule->text) > APPROVE_MAX)
		rc = err_set(err, ERR_LIMIT, "/approve", "the rule of a grant has at most %d bytes", APPROVE_MAX);
	if (rc == 0)
		(void)snprintf(ret, APPROVE_MAX + 1, "%s", rule->text);
	assent_rule_free(&rule);
	return rc;
}

/* --- arguments */

static int grant_check(struct command_call *c, struct err *err)
{
	const char *alias = arg_text(c, "as");
	size_t n = arg_count(c, "tool");
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = check_glob(arg_nth(c, "tool", i), err);
	if (rc < 0)
		return rc;
	if ((alias && arg_flag(c, "no-alias")) || (arg_given(c, "rate") && arg_flag(c, "no-rate")) ||
	    (arg_given(c, "version") && arg_flag(c, "no-version")) || (arg_given(c, "approve") && arg_flag(c, "no-approve")))
		return err_set(err, ERR_INVALID, "", "an option and its --no- contradict each other");
	if (arg_uint(c, "concurrency", 0) > CONCURRENCY_MAX)
		return err_set(err, ERR_LIMIT, "concurrency", "concurrency is at most %d", CONCURRENCY_MAX);
	if (arg_given(c, "version") && arg_uint(c, "version", 0) == 0)
		return err_set(err, ERR_INVALID, "version", "versions are counted from 1; --no-version is whichever is in force");
	if (arg_given(c, "version"))
		rc = check_version(n == 1 ? arg_nth(c, "tool", 0) : NULL, err);
	for (size_t i = 0; i < n && rc == 0 && arg_given(c, "approve"); i++) {
		char text[APPROVE_MAX + 1];

		rc = check_approve(arg_json(c, "approve"), arg_nth(c, "tool", i), text, err);
		if (rc < 0 && strncmp(err->where, "/approve/", strlen("/approve/")) == 0)
			(void)err_wrap(err, "--approve at %s", err->where + strlen("/approve"));
	}
	return rc == 0 && alias ? check_alias(alias, n == 1 ? arg_nth(c, "tool", 0) : NULL, err) : rc;
}

static bool take_approve(const struct command_call *c, struct grant_row *g)
{
	struct str text = STR_INIT;

	if (arg_flag(c, "no-approve"))
		*g->approve = '\0';
	if (arg_given(c, "approve")) {
		jx_write_canon(arg_json(c, "approve"), &text);
		(void)snprintf(g->approve, sizeof(g->approve), "%s", str_text(&text));          /* was checked */
		str_fini(&text);
	}
	return arg_given(c, "approve") || arg_flag(c, "no-approve");
}

/* Whether any was named; the others stay as they are. */
static bool take_options(const struct command_call *c, struct grant_row *g)
{
	bool alias = arg_given(c, "as") || arg_flag(c, "no-alias");
	bool rate = arg_given(c, "rate") || arg_flag(c, "no-rate");
	bool concurrency = arg_given(c, "concurrency");
	bool version = arg_given(c, "version") || arg_flag(c, "no-version");

	if (alias)
		arg_copy(c, "as", g->alias, sizeof(g->alias));
	if (rate)
		g->rate = arg_rate(c, "rate");
	if (concurrency)
		g->concurrency = arg_uint(c, "concurrency", 0);
	if (version)
		g->version = arg_uint(c, "version", 0);
	return take_approve(c, g) || alias || rate || concurrency || version;
}

static int grant_remove_check(struct command_call *c, struct err *err)
{
	bool *operates = command_priv(c, sizeof(*operates));

	*operates = actor_may(c->admin, &c->who, ADM_OPERATE, NULL);
	return grant_check(c, err);
}

static int grant_set_check(struct command_call *c, struct err *err)
{
	struct grant_row g = { .id = 0 };
	int rc = grant_check(c, err);

	if (rc == 0 && !take_options(c, &g))
		return err_set(err, ERR_INVALID, "", "nothing to set: name --as, --rate, --concurrency, "
			       "--version or --approve");
	return rc;
}

/* --- rows */

static void read_row(struct db_stmt *st, struct grant_row *g)
{
	g->id = db_col_i64(st, 0);
	db_col_copy(st, 1, g->glob, sizeof(g->glob));
	db_col_copy(st, 2, g->alias, sizeof(g->alias));
	g->concurrency = (uint32_t)db_col_i64(st, 3);
	g->rate = (struct text_rate){ (uint32_t)db_col_i64(st, 4), (uint32_t)db_col_i64(st, 5) };
	g->created_us = db_col_i64(st, 6);
	g->version = db_col_type(st, 7) == DB_INT ? db_col_i64(st, 7) : 0;
	*g->approve = '\0';
	if (db_col_type(st, 8) != DB_NULL)
		db_col_copy(st, 8, g->approve, sizeof(g->approve));
}

/* said: a further member, or NULL. */
static void put_grant(struct reply *o, const char *tenant, const struct grant_row *g, const char *said)
{
	reply_row_begin(o);
	reply_text(o, "tenant", tenant);
	reply_text(o, "tool", g->glob);
	reply_text(o, "alias", *g->alias ? g->alias : NULL);
	reply_rate(o, "rate", g->rate);
	if (g->concurrency)
		reply_int(o, "concurrency", g->concurrency);
	else
		reply_raw(o, "concurrency", "null", 4);
	if (g->version)
		reply_int(o, "version", g->version);
	else
		reply_raw(o, "version", "null", 4);
	if (*g->approve)
		reply_raw(o, "approve", g->approve, strlen(g->approve));
	else
		reply_raw(o, "approve", "null", 4);
	reply_time(o, "created", (uint64_t)g->created_us);
	reply_int(o, "id", g->id);
	if (said)
		reply_text(o, "said", said);
	reply_row_end(o);
}

static int list_tenant(struct command_call *c, struct db *db, const struct tenant_row *t, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_LIST);
	struct grant_row g;
	int rc;

	db_bind_i64(st, 1, t->id);
	while ((rc = db_step(st, err)) == 1) {
		read_row(st, &g);
		put_grant(c->out, t->name, &g, NULL);
	}
	db_stmt_put(&st);
	return rc;
}

static int grant_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *tenant = arg_text(c, "tenant");
	struct tenant_row t;
	struct db_stmt *st;
	int rc = 0;

	(void)logs;
	if (tenant) {
		rc = tenant_row_find(db, tenant, &t, err);
		return rc < 0 ? rc : list_tenant(c, db, &t, err);
	}
	st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		tenant_row_read(st, &t);
		rc = list_tenant(c, db, &t, err);
	}
	db_stmt_put(&st);
	return rc;
}

/* 1 = found. */
static int find_row(struct db *db, int64_t tenant_id, const char *glob, struct grant_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_FIND);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, glob);
	rc = db_step(st, err);
	if (rc == 1)
		read_row(st, ret);
	db_stmt_put(&st);
	return rc;
}

static int find_grant(struct db *db, const struct tenant_row *t, const char *glob, struct grant_row *ret,
		      struct err *err)
{
	const char *globs[64];
	char kept[NELEMS(globs)][GRANT_GLOB_SIZE];
	const char *near;
	struct db_stmt *st;
	size_t n = 0;
	int rc = find_row(db, t->id, glob, ret, err);

	if (rc != 0)
		return rc < 0 ? rc : 0;
	(void)err_set(err, ERR_NOT_FOUND, "", "grant of %s to %s: not found", glob, t->name);
	st = db_stmt_get(db, SQL_ADMIN_GRANT_LIST);
	db_bind_i64(st, 1, t->id);
	while (n < NELEMS(globs) && db_step(st, NULL) == 1) {
		struct grant_row g;

		read_row(st, &g);
		memcpy(kept[n], g.glob, sizeof(g.glob));
		globs[n] = kept[n];
		n++;
	}
	db_stmt_put(&st);
	near = text_nearest(glob, globs, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	return ERR_NOT_FOUND;
}

/* Beside the digest of the row, which has all of it: what it asks now, when that is something else than before. */
static void put_rule(const struct grant_row *g, const char *before, char ret[REASON_SIZE])
{
	struct assent_rule *rule = NULL;
	struct str whom = STR_INIT;
	struct err err;

	*ret = '\0';
	if (strcmp(g->approve, before) == 0)
		return;
	if (!*g->approve)
		(void)snprintf(ret, REASON_SIZE, "approve: none");
	else if (strlen(g->approve) < REASON_SIZE - sizeof("approve: "))
		(void)snprintf(ret, REASON_SIZE, "approve: %.*s", REASON_SIZE - (int)sizeof("approve: "), g->approve);
	else if (assent_rule_parse(g->approve, &rule, &err) == 0) {
		assent_rule_whom(rule, &whom);
		(void)snprintf(ret, REASON_SIZE, "approve: by %.300s", str_text(&whom));
	}
	assent_rule_free(&rule);
	str_fini(&whom);
}

/* before: what it asked, "" nobody. */
static int record_grant(struct command_call *c, struct db *db, struct audit_logs *logs, int kind, int64_t tenant_id,
			const struct grant_row *g, const char *before, struct err *err)
{
	char obj[32], reason[REASON_SIZE];

	(void)snprintf(obj, sizeof(obj), "grant/%lld", (long long)g->id);
	put_rule(g, before, reason);
	return command_record(c, db, logs, &(struct command_record){ .kind = kind, .tenant_id = tenant_id, .obj = obj,
		.reason = *reason ? reason : NULL }, err);
}

/* tool.pin: which version of what, 0 = again the one in force; written where it changes, beside grant.add or
 * grant.change. */
static int record_version(struct command_call *c, struct db *db, struct audit_logs *logs, int64_t tenant_id,
			  const struct grant_row *g, struct err *err)
{
	uint8_t number[8];
	const struct audit_field field[] = { { AUDIT_TAG_VERSION, number, sizeof(number) } };
	char obj[128];

	audit_put_be(number, (uint64_t)g->version, sizeof(number));
	if (g->version)
		(void)snprintf(obj, sizeof(obj), "%s/%s@%" PRId64, tool_noun(g->glob), tool_bare_name(g->glob), g->version);
	else
		(void)snprintf(obj, sizeof(obj), "%s/%s", tool_noun(g->glob), tool_bare_name(g->glob));
	return command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_TOOL_PIN, .tenant_id = tenant_id,
		.obj = obj, .field = field, .nfield = NELEMS(field) }, err);
}

/* --- changes */

/* There is this version, and it is what its record says. */
static int find_version(struct db *db, const struct tool_row *tool, int64_t version, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TOOL_VERSION);
	uint64_t taken_us;
	int rc;

	db_bind_i64(st, 1, tool->id);
	db_bind_i64(st, 2, version);
	rc = db_step(st, err);
	if (rc == 0) {
		(void)err_set(err, ERR_NOT_FOUND, "version", "version %" PRId64 " of %s: not found", version, tool->name);
		err_hint(err, "toolcrib %s history %s lists them", tool_noun(tool->name), tool_bare_name(tool->name));
		rc = ERR_NOT_FOUND;
	} else if (rc == 1) {
		rc = version_check(db, tool, version, db_col_i64(st, 0), &taken_us, err);
	}
	db_stmt_put(&st);
	return rc;
}

/* A version that is kept is one that was looked at: not one that waits, and where versions have to be approved, not any
 * but the one in force without a second administrator, for it may have been rejected. */
static int check_kept(struct command_call *c, struct db *db, const struct grant_row *g, int64_t before, struct err *err)
{
	struct pending_row p = { .version = 0 };
	struct tool_row tool;
	bool waits = false;
	int rc;

	if (g->version == 0 || g->version == before)
		return 0;
	rc = tool_row_find(db, g->glob, &tool, err);
	if (rc == 0)
		rc = find_version(db, &tool, g->version, err);
	if (rc == 0)
		rc = pending_row_find(db, tool.id, &p, err);
	if (rc == 1 && p.version == g->version) {
		(void)err_set(err, ERR_CONFLICT, "version", "version %" PRId64 " of %s waits for approval", p.version, g->glob);
		err_hint(err, "toolcrib tool pending");
		return ERR_CONFLICT;
	}
	if (rc < 0 || g->version == tool.version)
		return rc < 0 ? rc : 0;
	rc = versions_wait(c, db, &waits, err);
	if (rc == 0 && waits)
		rc = approval_require_for(c, db, "a version that is not in force is shown to a tenant", err);
	return rc < 0 ? rc : level_check_version(c, db, &tool, tool.version, g->version, err);
}

/* Where versions have to be approved, one administrator alone does not have a person asked for less, or for something
 * else (decision 0131); for a tool's own rule that is a new version. */
static int check_asked(struct command_call *c, struct db *db, const char *before, const char *after, struct err *err)
{
	bool waits = false;
	int rc;

	if (!*before || strcmp(before, after) == 0)
		return 0;
	rc = versions_wait(c, db, &waits, err);
	if (rc == 0 && waits)
		rc = approval_require_for(c, db, "a person is not asked any more, or of something else", err);
	return rc;
}

/* A grant may come before its tool; a typing error would look the same, so say it. */
static int look_for_tool(struct db *db, const char *glob, char *ret_said, size_t size, struct err *err)
{
	struct tool_row tool;
	int rc = text_glob_literal(glob) ? tool_row_find(db, glob, &tool, err) : 0;

	if (rc == ERR_NOT_FOUND)
		(void)snprintf(ret_said, size, "granted; there is no such %s yet%s%s", tool_noun(glob),
			       *err->hint ? ", " : "", err->hint);
	else
		(void)snprintf(ret_said, size, "granted");
	return rc == ERR_NOT_FOUND ? 0 : rc;
}

static void bind_version(struct db_stmt *st, unsigned n, const struct grant_row *g)
{
	if (g->version)
		db_bind_i64(st, n, g->version);
	else
		db_bind_null(st, n);
}

static int update_grant(struct db *db, int64_t tenant_id, const struct grant_row *g, struct err *err);

static int insert_grant(struct db *db, int64_t tenant_id, struct grant_row *g, struct err *err)
{
	struct db_stmt *st;
	int64_t count = 0;
	int rc = tenant_row_count(db, SQL_ADMIN_GRANT_COUNT, tenant_id, &count, err);

	if (rc < 0)
		return rc;
	if (count >= TENANT_GRANTS_MAX)
		return err_set(err, ERR_LIMIT, "grant", "the tenant has %d grants, which is the limit: let a glob stand for "
			       "several, or remove some", TENANT_GRANTS_MAX);
	st = db_stmt_get(db, SQL_GRANT_INSERT);
	g->created_us = (int64_t)clock_wall_us();
	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, g->glob);
	db_bind_textz(st, 3, g->alias);
	db_bind_i64(st, 4, g->concurrency);
	db_bind_i64(st, 5, g->rate.count);
	db_bind_i64(st, 6, g->rate.per_s);
	db_bind_i64(st, 7, g->created_us);
	bind_version(st, 8, g);
	rc = db_run_id(&st, &g->id, err);
	return rc == 0 && *g->approve ? update_grant(db, tenant_id, g, err) : rc;
}

static int update_grant(struct db *db, int64_t tenant_id, const struct grant_row *g, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_SET);

	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, g->id);
	db_bind_textz(st, 3, g->alias);
	db_bind_i64(st, 4, g->concurrency);
	db_bind_i64(st, 5, g->rate.count);
	db_bind_i64(st, 6, g->rate.per_s);
	bind_version(st, 7, g);
	if (*g->approve)
		db_bind_textz(st, 8, g->approve);
	else
		db_bind_null(st, 8);
	return db_run(&st, err);
}

/* Pages of apps that come with the tools of a grant and that the tenant cannot read (UI-04), each with a NUL. */
static int find_pages(struct db *db, int64_t tenant_id, const char *glob, struct str *ret, size_t *ret_n,
		      struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_PAGES);
	size_t len;
	int rc;

	*ret_n = 0;
	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, glob);
	db_bind_i64(st, 3, PAGES_MAX + 1);
	while ((rc = db_step(st, err)) == 1) {
		const char *name = db_col_text(st, 0, &len);

		str_put(ret, name, len);
		str_putc(ret, '\0');
		++*ret_n;
	}
	db_stmt_put(&st);
	return rc;
}

static int add_page(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		    const char *name, struct err *err)
{
	struct grant_row g = { .id = 0 };
	int rc;

	(void)snprintf(g.glob, sizeof(g.glob), "%s", name);     /* fits */
	rc = insert_grant(db, t->id, &g, err);
	if (rc == 0)
		rc = record_grant(c, db, logs, AUDIT_GRANT_ADD, t->id, &g, "", err);
	if (rc == 0)
		put_grant(c->out, t->name, &g, "granted with its tool");
	return rc;
}

/* Beside a grant that was made: its pages too, or a word about them. */
static int look_for_pages(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
			  const struct grant_row *g, char *said, size_t size, struct err *err)
{
	struct str pages = STR_INIT;
	bool too = arg_flag(c, "with-ui");
	size_t n = 0, len = strlen(said);
	int rc = strchr(g->glob, ':') ? 0 : find_pages(db, t->id, g->glob, &pages, &n, err);

	if (rc == 0 && too && n > PAGES_MAX)
		rc = err_set(err, ERR_LIMIT, "", "%s has more than %d pages: grant them by a pattern", g->glob, PAGES_MAX);
	if (rc == 0 && n == 1 && !too)
		(void)snprintf(said + len, size - len, "; its page %s is not: --with-ui grants both", pages.p);
	else if (rc == 0 && n > 0 && !too)
		(void)snprintf(said + len, size - len, "; its pages, such as %s, are not: --with-ui grants them too", pages.p);
	if (rc == 0)
		put_grant(c->out, t->name, g, said);
	for (const char *p = pages.p; too && rc == 0 && n > 0; n--, p += strlen(p) + 1)
		rc = add_page(c, db, logs, t, p, err);
	str_fini(&pages);
	return rc;
}

static int add_one(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		   const char *glob, struct err *err)
{
	struct grant_row g = { .id = 0 }, old;
	char said[256];
	int rc = look_for_tool(db, glob, said, sizeof(said), err);

	if (rc == 0)
		rc = find_row(db, t->id, glob, &old, err);
	if (rc == 1) {
		(void)err_set(err, ERR_CONFLICT, "", "%s is granted to %s already", glob, t->name);
		err_hint(err, "toolcrib grant set %s '%s' … changes its alias and limits", t->name, glob);
		return ERR_CONFLICT;
	}
	if (rc < 0)
		return rc;
	memcpy(g.glob, glob, strlen(glob) + 1);
	(void)take_options(c, &g);
	rc = check_kept(c, db, &g, 0, err);
	if (rc == 0)
		rc = insert_grant(db, t->id, &g, err);
	if (rc == 0)
		rc = record_grant(c, db, logs, AUDIT_GRANT_ADD, t->id, &g, "", err);
	if (rc == 0 && g.version)
		rc = record_version(c, db, logs, t->id, &g, err);
	return rc < 0 ? rc : look_for_pages(c, db, logs, t, &g, said, sizeof(said), err);
}

int grant_drop(struct command_call *c, struct db *db, struct audit_logs *logs, int64_t tenant_id,
		   const struct grant_row *g, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_GRANT_DELETE);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, g->glob);
	rc = db_run(&st, err);
	if (rc == 0)
		rc = check_asked(c, db, g->approve, "", err);
	return rc < 0 ? rc : record_grant(c, db, logs, AUDIT_GRANT_REMOVE, tenant_id, g, g->approve, err);
}

static bool same_terms(const struct grant_row *a, const struct grant_row *b)
{
	return strcmp(a->alias, b->alias) == 0 && a->concurrency == b->concurrency && a->rate.count == b->rate.count &&
	       a->rate.per_s == b->rate.per_s && a->version == b->version && strcmp(a->approve, b->approve) == 0;
}

int grant_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		struct grant_row *want, json_t **ret_before, enum row_stored *ret, struct err *err)
{
	struct grant_row old;
	int rc = find_row(db, t->id, want->glob, &old, err);
	bool known = rc == 1;

	*ret_before = NULL;
	if (rc < 0)
		return rc;
	*ret = !known ? ADM_ADDED : same_terms(&old, want) ? ADM_UNCHANGED : ADM_CHANGED;
	if (*ret == ADM_UNCHANGED)
		return 0;
	want->id = known ? old.id : 0;
	rc = check_kept(c, db, want, known ? old.version : 0, err);
	if (rc == 0)
		rc = check_asked(c, db, known ? old.approve : "", want->approve, err);
	if (rc < 0)
		return rc;
	rc = known ? update_grant(db, t->id, want, err) : insert_grant(db, t->id, want, err);
	if (rc == 0)
		rc = record_grant(c, db, logs, known ? AUDIT_GRANT_CHANGE : AUDIT_GRANT_ADD, t->id, want, known ? old.approve : "",
				  err);
	if (rc == 0 && want->version != (known ? old.version : 0))
		rc = record_version(c, db, logs, t->id, want, err);
	if (rc == 0 && known)
		*ret_before = grant_document(t->name, &old);
	return rc;
}

static int remove_one(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		      const char *glob, struct err *err)
{
	const bool *operates = c->priv;
	struct grant_row g;
	int rc = find_grant(db, t, glob, &g, err);

	if (rc == 0 && *g.approve && !*operates)        /* a broader grant might speak then, which asks nobody */
		rc = err_set(err, ERR_DENIED, "", "the grant of %s asks a person, and is taken back by who may set that", glob);
	if (rc == 0)
		rc = grant_drop(c, db, logs, t->id, &g, err);
	if (rc < 0)
		return rc;
	put_grant(c->out, t->name, &g, NULL);
	return 0;
}

static int set_one(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		   const char *glob, struct err *err)
{
	struct grant_row after, old;
	int64_t before;
	int rc = find_grant(db, t, glob, &after, err);

	if (rc < 0)
		return rc;
	old = after;
	before = after.version;
	(void)take_options(c, &after);
	rc = check_kept(c, db, &after, before, err);
	if (rc == 0)
		rc = check_asked(c, db, old.approve, after.approve, err);
	if (rc == 0)
		rc = update_grant(db, t->id, &after, err);
	if (rc == 0)
		rc = record_grant(c, db, logs, AUDIT_GRANT_CHANGE, t->id, &after, old.approve, err);
	if (rc == 0 && after.version != before)
		rc = record_version(c, db, logs, t->id, &after, err);
	if (rc < 0)
		return rc;
	put_grant(c->out, t->name, &after, NULL);
	return 0;
}

typedef int grant_fn(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		     const char *glob, struct err *err);

static int each_glob(struct command_call *c, struct db *db, struct audit_logs *logs, grant_fn *fn, struct err *err)
{
	struct tenant_row t;
	int rc = tenant_row_find(db, arg_text(c, "tenant"), &t, err);

	for (size_t i = 0; i < arg_count(c, "tool") && rc == 0; i++)
		rc = fn(c, db, logs, &t, arg_nth(c, "tool", i), err);
	return rc < 0 ? rc : command_changed_tenant(c, db, t.id, err);
}

static int grant_add_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return each_glob(c, db, logs, add_one, err);
}

static int grant_remove_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return each_glob(c, db, logs, remove_one, err);
}

static int grant_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return each_glob(c, db, logs, set_one, err);
}

/* --- as documents */

int document_rate(const json_t *limits, const char *name, struct text_rate *ret, struct err *err)
{
	const char *rate = NULL;
	char where[32];
	int rc = jx_get_string(limits, "/limits", name, JX_OPTIONAL, &rate, err);

	if (rc < 0 || !rate || text_rate(rate, ret) == 0)
		return rc;
	(void)snprintf(where, sizeof(where), "/limits/%s", name); /* fits */
	(void)err_set(err, ERR_INVALID, where, "%.40s is no rate", rate);
	err_hint(err, "write it as 10/s, 60/min, 100/h or 5000/day");
	return ERR_INVALID;
}

int document_limits(const json_t *limits, int64_t max, int64_t *ret_concurrency, struct text_rate *ret_rate,
		    struct err *err)
{
	int rc = jx_get_int(limits, "/limits", "concurrency", JX_OPTIONAL, 1, max, ret_concurrency, err);

	return rc < 0 ? rc : document_rate(limits, "rate", ret_rate, err);
}

void document_put_rate(json_t *limits, const char *name, struct text_rate rate)
{
	char text[40];

	if (rate.count)
		(void)json_object_set_new(limits, name, json_string(text_format_rate(rate, text, sizeof(text))));
}

int document_member(struct err *err, int rc)
{
	if (rc < 0 && err && *err->where != '/')
		err_at(err, "/");
	return rc;
}

static int read_limits(const json_t *doc, struct grant_row *g, struct err *err)
{
	static const char *const known[] = { "concurrency", "rate" };
	int64_t concurrency = 0;
	json_t *limits = NULL;
	int rc = jx_get_object(doc, "", "limits", JX_OPTIONAL, &limits, err);

	if (rc < 0 || !limits)
		return rc;
	rc = jx_only(limits, "/limits", known, NELEMS(known), err);
	if (rc == 0)
		rc = document_limits(limits, CONCURRENCY_MAX, &concurrency, &g->rate, err);
	g->concurrency = (uint32_t)concurrency;
	return rc;
}

static int read_approve(const json_t *doc, const char *tool, struct grant_row *g, struct err *err)
{
	json_t *approve = NULL;
	int rc = jx_get_object(doc, "", "approve", JX_OPTIONAL, &approve, err);

	return rc < 0 || !approve ? rc : check_approve(approve, tool, g->approve, err);
}

/* {kind: grant, tenant: acme, tool: get_*, limits: {rate: 10/s}}      as: weather, version: 3, with a single tool;
 * approve: as of a tool */
int grant_read(const json_t *doc, char ret_tenant[64], struct grant_row **ret, struct err *err)
{
	static const char *const known[] = { "kind", "tenant", "tool", "as", "version", "limits", "approve" };
	struct grant_row *g = *ret = mem_zalloc(sizeof(*g));
	const char *tenant = NULL, *tool = NULL, *as = NULL;
	int rc = jx_only(doc, "", known, NELEMS(known), err);

	if (rc == 0)
		rc = jx_get_string(doc, "", "tenant", JX_REQUIRED, &tenant, err);
	if (rc == 0 && !text_entity_name(tenant, strlen(tenant)))
		rc = err_set(err, ERR_INVALID, "/tenant", "\"%.80s\" is no name of a tenant", tenant);
	if (rc == 0)
		rc = jx_get_string(doc, "", "tool", JX_REQUIRED, &tool, err);
	if (rc == 0)
		rc = document_member(err, check_glob(tool, err));
	if (rc == 0)
		rc = jx_get_string(doc, "", "as", JX_OPTIONAL, &as, err);
	if (rc == 0 && as)
		rc = document_member(err, check_alias(as, tool, err));
	if (rc == 0)
		rc = jx_get_int(doc, "", "version", JX_OPTIONAL, 1, INT32_MAX, &g->version, err);
	if (rc == 0 && g->version)
		rc = document_member(err, check_version(tool, err));
	if (rc == 0)
		rc = read_limits(doc, g, err);
	if (rc == 0)
		rc = read_approve(doc, tool, g, err);
	if (rc < 0)
		return rc;
	(void)snprintf(ret_tenant, 64, "%s", tenant);
	(void)snprintf(g->glob, sizeof(g->glob), "%s", tool);
	(void)snprintf(g->alias, sizeof(g->alias), "%s", as ? as : "");
	return 0;
}

json_t *grant_document(const char *tenant, const struct grant_row *g)
{
	json_t *doc = json_pack("{s:s, s:s, s:s}", "kind", "grant", "tenant", tenant, "tool", g->glob);
	json_t *limits = json_object(), *approve = NULL;
	struct err err;

	if (*g->alias)
		(void)json_object_set_new(doc, "as", json_string(g->alias));
	if (g->version)
		(void)json_object_set_new(doc, "version", json_integer(g->version));
	if (g->concurrency)
		(void)json_object_set_new(limits, "concurrency", json_integer(g->concurrency));
	document_put_rate(limits, "rate", g->rate);
	if (json_object_size(limits) > 0)
		(void)json_object_set(doc, "limits", limits);
	json_decref(limits);
	if (*g->approve && jx_parse(g->approve, strlen(g->approve), &approve, &err) == 0)
		(void)json_object_set_new(doc, "approve", approve);
	return doc;
}

const char *grant_tool(const struct grant_row *g)
{
	return g->glob;
}

/* All rows first: fn may delete them. */
int grant_each(struct db *db, int64_t tenant_id, grant_each_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_LIST);
	struct grant_row *v = NULL;
	size_t n = 0;
	int rc;

	db_bind_i64(st, 1, tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		v = mem_realloc(v, (n + 1) * sizeof(*v));
		read_row(st, &v[n++]);
	}
	db_stmt_put(&st);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = fn(arg, &v[i], err);
	free(v);
	return rc;
}

/* --- rows of the command table */

#define GLOB(macro) macro("tool", "TOOL-GLOB", COMPLETE_TOOL, \
	"A tool's name, or a pattern with * and ?; of prompts and resources with prompt: or resource: in front.")
#define ALIAS OPT("as", "ALIAS", ARG_TEXT, COMPLETE_NONE, \
	"The name that the tenant sees, of a single tool, prompt or resource.")
#define KEPT_VERSION OPT("version", "N", ARG_UINT, COMPLETE_NONE, \
	"The tenant goes on with this version of a single tool, prompt or resource, whichever is in force for others.")
#define APPROVE OPT("approve", "JSON", ARG_JSON, COMPLETE_NONE, \
	"Who has to agree to its calls, as a block approve of a tool says it; where the tool asks as well, both are met.")
static const struct command_arg grant_add_args[] = {
	TENANT_WORD, GLOB(WORDS), ALIAS, RATE_OPT, CONCURRENCY_OPT, KEPT_VERSION, APPROVE,
	FLAG("with-ui", "Grant the pages of the tools as well, which a client that shows apps reads."), ARG_END };
static const struct command_arg grant_set_args[] = {
	TENANT_WORD, GLOB(WORD), ALIAS, FLAG("no-alias", "Show the tool under its own name."), RATE_OPT,
	FLAG("no-rate", "Remove the grant's own limit of the rate."), CONCURRENCY_OPT, KEPT_VERSION,
	FLAG("no-version", "Show the version in force again."), APPROVE,
	FLAG("no-approve", "Ask whom the tool asks, and nobody beside."), ARG_END };
static const struct command_arg grant_list_args[] = { TENANT_MAYBE, ARG_END };
static const struct command_arg grant_remove_args[] = { TENANT_WORD, GLOB(WORDS), ARG_END };
static const struct command_column grant_list_cols[] = {
	COL("tenant", "TENANT"), COL("tool", "TOOL"), COL("alias", "ALIAS"), COL("rate", "RATE"),
	COL("concurrency", "CONCURRENCY"), COL("version", "VERSION"), COL("approve", "APPROVE"), COL_AT("created", "GRANTED"),
	COL_END };

const struct command grant_commands[] = {
	{ .noun = "grant", .verb = "add", .help = "Let a tenant use tools, prompts and resources",
	  .detail = "The tenant's agents are told before the command returns.  Limits may lower those of the tool, "
		    "never raise them.  A grant may come before its tool.",
	  .args = grant_add_args, .done = "%{tenant}: %{tool} %{said}", .role = ADM_OPERATE, .second = ADM_SECOND_ASKED,
	  .where = ADM_ON_WRITER,
	  .check = grant_check, .body = grant_add_body },
	{ .noun = "grant", .verb = "list", .help = "List grants", .args = grant_list_args, .columns = grant_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .console = true, .own = "tenant", .seen = "tenant",
	  .where = ADM_ON_POOL,
	  .check = grant_check, .body = grant_list_body },
	{ .noun = "grant", .verb = "remove", .help = "Take grants back", .args = grant_remove_args,
	  .done = "%{tool} no longer granted to %{tenant}", .destructive = true, .role = ADM_OPERATE, .own = "tenant",
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = grant_remove_check, .body = grant_remove_body },
	{ .noun = "grant", .verb = "set", .help = "Change the alias, the version and the limits of a grant",
	  .detail = "What is not named stays as it is.  A tenant with --version lists and calls that version, and is told of "
		    "no other; a disabled tool is hidden from it as well.  Where approval versions has them approved, a "
		    "version that is not in force needs a second administrator.", .args = grant_set_args,
	  .second = ADM_SECOND_ASKED,
	  .done = "grant of %{tool} to %{tenant} changed", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = grant_set_check, .body = grant_set_body },
	{ .noun = NULL },
};
