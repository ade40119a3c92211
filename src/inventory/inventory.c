/* inventory set, list, show, export, report; review due, done: the commands.  check() runs on the loop and parses;
 * body() runs on the writer's, or on the pool's where it only reads.  A row, and each review of it, is on record in
 * the log of the tenant that it is about, or in the system's, where principals go by their pseudonyms. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/call.h"
#include "command/rows.h"
#include "db/db.h"
#include "inventory/inventory.h"
#include "json/reply.h"
#include "registry/tool_rows.h"
#include "remote/remote.h"
#include "tenant/tenant_rows.h"
#include "toolset/toolset.h"

#define DAY_MS UINT64_C(86400000)
#define PROHIBITED "prohibited"
#define HIGH "high"

enum subject_kind { TENANT = 1, PRINCIPAL, TOOL, UPSTREAM, SYSTEM };    /* as table inventory has them */
enum { OWNER, CONTACT, PURPOSE, RISK, DATA, OVERSIGHT, TEXTS = INVENTORY_TEXTS };
#define texts inventory_texts
const char *const inventory_texts[TEXTS] = { "owner", "contact", "purpose", "risk", "data", "oversight" };
static const char *const risks[] = { "minimal", "limited", HIGH, PROHIBITED };

/* Columns of inventory_list, inventory_missing and inventory_get. */
enum { COL_SUBJECT, COL_OWNER, COL_DAYS = COL_OWNER + TEXTS, COL_REVIEWED, COL_BY, COL_NOTE, COL_DUE,
       COL_SET, COL_SET_BY, COL_VERSION, COL_MADE_BY };

/* What a command is about. */
struct subject {
	enum subject_kind kind;
	int64_t id, tenant_id, version; /* version: of a tool, in force; else 0 */
	bool served;                    /* a tool that is enabled */
	char name[160];                 /* "tool:echo", as people see it */
	char obj[176];                  /* as records do */
	char pseudonym[32];             /* of a principal; else "" */
};

/* What stands in the row; to be freed by row_free(). */
struct row {
	bool there;
	char *text[TEXTS];              /* or NULL */
	int64_t days;                   /* 0: no review */
	char *set_by, *made_by;         /* who wrote the row, who made the version of the tool; or NULL */
};

/* --- subjects */

static int no_subject(const char *text, struct err *err)
{
	(void)err_set(err, ERR_INVALID, "subject", "\"%.80s\" is no subject", text);
	err_hint(err, "tenant:NAME, principal:TENANT/NAME, system:TENANT/NAME, tool:NAME, prompt:NAME, resource:NAME or "
		 "upstream:NAME");
	return ERR_INVALID;
}

static int find_tool(struct db *db, const char *name, struct subject *ret, struct err *err)
{
	struct tool_row t;
	int rc = tool_row_find(db, name, &t, err);

	if (rc < 0)
		return rc;
	ret->id = t.id;
	ret->version = t.version;
	ret->served = t.state == ADM_TOOL_ENABLED;
	(void)snprintf(ret->name, sizeof(ret->name), "%s:%s", tool_noun(t.name), tool_bare_name(t.name));
	return 0;
}

static int find_upstream(struct db *db, const char *name, struct subject *ret, struct err *err)
{
	struct upstream_row u = { .definition = NULL };
	int rc = upstream_row_find(db, name, &u, err);

	if (rc == 0)
		ret->id = u.id;
	free(u.definition);
	(void)snprintf(ret->name, sizeof(ret->name), "upstream:%.64s", name);
	return rc;
}

static int find_principal(struct db *db, const char *text, struct subject *ret, struct err *err)
{
	char tenant[64], name[64];
	struct tenant_row t;
	struct principal_row p;
	int rc = arg_split(text, tenant, name, err);

	if (rc == 0)
		rc = tenant_row_find(db, tenant, &t, err);
	if (rc == 0)
		rc = principal_row_find(db, &t, name, &p, err);
	if (rc < 0)
		return rc;
	ret->id = p.id;
	ret->tenant_id = t.id;
	(void)snprintf(ret->pseudonym, sizeof(ret->pseudonym), "%s", p.pseudonym);
	(void)snprintf(ret->name, sizeof(ret->name), "principal:%s/%s", t.name, p.name);
	return 0;
}

static int find_system(struct db *db, const char *text, struct subject *ret, struct err *err)
{
	char tenant[64], name[64];
	struct tenant_row t;
	struct db_stmt *st;
	int rc = arg_split(text, tenant, name, err);

	if (rc == 0)
		rc = tenant_row_find(db, tenant, &t, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_SYSTEM_FIND);
	db_bind_i64(st, 1, t.id);
	db_bind_textz(st, 2, name);
	rc = db_step(st, err);
	if (rc == 1)
		ret->id = db_col_i64(st, 0);
	db_stmt_put(&st);
	ret->tenant_id = t.id;
	(void)snprintf(ret->name, sizeof(ret->name), "system:%s/%s", t.name, name);
	return rc == 0 ? err_set(err, ERR_NOT_FOUND, "subject", "system %s/%s: not found", t.name, name) : rc < 0 ? rc : 0;
}

static int find_tenant(struct db *db, const char *name, struct subject *ret, struct err *err)
{
	struct tenant_row t;
	int rc = tenant_row_find(db, name, &t, err);

	if (rc < 0)
		return rc;
	ret->id = ret->tenant_id = t.id;
	(void)snprintf(ret->name, sizeof(ret->name), "tenant:%s", t.name);
	return 0;
}

/* whole: the name begins with the word, as those of prompts and resources do. */
static const struct sort {
	const char *word;
	enum subject_kind kind;
	bool whole;
	int (*find)(struct db *db, const char *name, struct subject *ret, struct err *err);
} sorts[] = {
	{ "tenant:", TENANT, false, find_tenant }, { "principal:", PRINCIPAL, false, find_principal },
	{ "tool:", TOOL, false, find_tool }, { "prompt:", TOOL, true, find_tool }, { "resource:", TOOL, true, find_tool },
	{ "upstream:", UPSTREAM, false, find_upstream }, { "system:", SYSTEM, false, find_system },
};

static const struct sort *sort_of(const char *text)
{
	for (size_t i = 0; i < NELEMS(sorts); i++)
		if (strncmp(text, sorts[i].word, strlen(sorts[i].word)) == 0 && text[strlen(sorts[i].word)])
			return &sorts[i];
	return NULL;
}

static int find_named(struct db *db, const char *text, struct subject *ret, struct err *err)
{
	const struct sort *sort = sort_of(text);
	int rc;

	*ret = (struct subject){ .kind = sort ? sort->kind : 0 };
	if (!sort)
		return no_subject(text, err);
	rc = sort->find(db, sort->whole ? text : text + strlen(sort->word), ret, err);
	if (rc == 0 && ret->kind == PRINCIPAL)
		(void)snprintf(ret->obj, sizeof(ret->obj), "inventory/principal:%s", ret->pseudonym);
	else if (rc == 0)
		(void)snprintf(ret->obj, sizeof(ret->obj), "inventory/%s", ret->name);
	return rc;
}

static int find_subject(const struct command_call *c, struct db *db, struct subject *ret, struct err *err)
{
	return find_named(db, arg_text(c, "subject"), ret, err);
}

static int subject_check(struct command_call *c, struct err *err)
{
	const char *text = arg_text(c, "subject");

	return sort_of(text) ? 0 : no_subject(text, err);
}

/* --- rows */

static const char *or_null(const char *text)
{
	return text && *text ? text : NULL;
}

/* The row of inventory_get, at its first step or at none. */
static struct db_stmt *get_row(struct db *db, const struct subject *s)
{
	struct db_stmt *st = db_stmt_get(db, SQL_INVENTORY_GET);

	db_bind_i64(st, 1, s->kind);
	db_bind_i64(st, 2, s->id);
	db_bind_i64(st, 3, s->tenant_id);
	return st;
}

static int load_row(struct db *db, const struct subject *s, struct row *ret, struct err *err)
{
	struct db_stmt *st = get_row(db, s);
	int rc = db_step(st, err);

	*ret = (struct row){ .there = rc == 1 };
	if (rc == 1) {
		for (int i = 0; i < TEXTS; i++)
			ret->text[i] = db_col_type(st, COL_OWNER + i) == DB_NULL ? NULL : db_col_dup(st, COL_OWNER + i);
		ret->days = db_col_i64(st, COL_DAYS);
		ret->set_by = db_col_dup(st, COL_SET_BY);
		ret->made_by = db_col_type(st, COL_MADE_BY) == DB_NULL ? NULL : db_col_dup(st, COL_MADE_BY);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static void row_free(struct row *r)
{
	for (int i = 0; i < TEXTS; i++)
		free(r->text[i]);
	free(r->set_by);
	free(r->made_by);
}

static int put_row(const struct command_call *c, struct db *db, const struct subject *s, const struct row *r,
		   struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_INVENTORY_PUT);
	char by[ACTOR_SIZE];

	db_bind_i64(st, 1, s->kind);
	db_bind_i64(st, 2, s->id);
	db_bind_i64(st, 3, s->tenant_id);
	for (int i = 0; i < TEXTS; i++)
		db_bind_textz(st, (unsigned)(4 + i), or_null(r->text[i]));
	if (r->days > 0)
		db_bind_i64(st, 10, r->days);
	else
		db_bind_null(st, 10);
	db_bind_i64(st, 11, (int64_t)clock_wall_us());
	db_bind_textz(st, 12, actor_text(&c->who, by));
	if (s->version > 0)
		db_bind_i64(st, 13, s->version);
	else
		db_bind_null(st, 13);
	return db_run(&st, err);
}

/* --- set */

static bool is_said(const struct command_call *c)
{
	for (int i = 0; i < TEXTS; i++)
		if (arg_given(c, texts[i]))
			return true;
	return arg_given(c, "review-every");
}

static int check_risk(const char *risk, struct err *err)
{
	const char *near;

	for (size_t i = 0; i < NELEMS(risks); i++)
		if (strcmp(risk, risks[i]) == 0)
			return 0;
	near = text_nearest(risk, risks, NELEMS(risks));
	(void)err_set(err, ERR_INVALID, "risk", "\"%.40s\" is no risk", risk);
	err_hint(err, near ? "did you mean %s?" : "%s", near ? near : "minimal, limited, high or prohibited");
	return ERR_INVALID;
}

static bool may_prohibit(enum subject_kind kind)
{
	return kind == TOOL || kind == SYSTEM;
}

static int check_risk_of(const char *subject, const char *risk, struct err *err)
{
	int rc = risk ? check_risk(risk, err) : 0;

	if (rc == 0 && risk && strcmp(risk, PROHIBITED) == 0 && !may_prohibit(sort_of(subject)->kind)) {
		(void)err_set(err, ERR_INVALID, "risk", "only systems and what can be called are prohibited");
		err_hint(err, "toolcrib tenant suspend, principal set --suspended or upstream remove");
		rc = ERR_INVALID;
	}
	return rc;
}

static int set_check(struct command_call *c, struct err *err)
{
	const uint64_t every_ms = arg_duration_ms(c, "review-every", 0);
	int rc = subject_check(c, err);

	for (int i = 0; i < TEXTS && rc == 0; i++)
		if (arg_given(c, texts[i]) && strlen(arg_text(c, texts[i])) > INVENTORY_TEXT_MAX)
			rc = err_set(err, ERR_LIMIT, texts[i], "--%s is longer than %d bytes", texts[i], INVENTORY_TEXT_MAX);
	if (rc == 0)
		rc = check_risk_of(arg_text(c, "subject"), or_null(arg_text(c, "risk")), err);
	if (rc == 0 && (every_ms % DAY_MS != 0 || every_ms / DAY_MS > INVENTORY_DAYS_MAX))
		rc = err_set(err, ERR_INVALID, "review-every", "--review-every is a number of days, at most %dd; 0s: never",
			     INVENTORY_DAYS_MAX);
	if (rc == 0 && !is_said(c))
		rc = err_set(err, ERR_INVALID, "", "say at least one of --owner, --contact, --purpose, --risk, --data, --oversight "
			     "and --review-every");
	return rc;
}

static void change_row(const struct command_call *c, struct row *r)
{
	for (int i = 0; i < TEXTS; i++) {
		if (!arg_given(c, texts[i]))
			continue;
		free(r->text[i]);
		r->text[i] = mem_strdup(arg_text(c, texts[i]));
	}
	if (arg_given(c, "review-every"))
		r->days = (int64_t)(arg_duration_ms(c, "review-every", 0) / DAY_MS);
}

/* What may not be called is not shown from now on: its id in *ret. */
static int withdraw(struct command_call *c, struct db *db, struct audit_logs *logs, const struct subject *s,
		    int64_t *ret, struct err *err)
{
	const char *name = strncmp(s->name, "tool:", 5) == 0 ? s->name + 5 : s->name;

	return tool_change_state(c, db, logs, name, ADM_TOOL_DISABLED, ret, err);
}

/* The row, its record, and what is prohibited by it. */
static int store_row(struct command_call *c, struct db *db, struct audit_logs *logs, const struct subject *s,
		     const struct row *r, int64_t *ret_tool, struct err *err)
{
	int rc = put_row(c, db, s, r, err);

	*ret_tool = 0;
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_INVENTORY_CHANGE, .tenant_id = s->tenant_id,
			.obj = s->obj, .prn = or_null(s->pseudonym) }, err);
	if (rc == 0 && s->served && r->text[RISK] && strcmp(r->text[RISK], PROHIBITED) == 0)
		rc = withdraw(c, db, logs, s, ret_tool, err);
	return rc;
}

static int set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct row r = { .there = false };
	struct subject s;
	int64_t tool = 0;
	int rc = find_subject(c, db, &s, err);

	if (rc == 0)
		rc = load_row(db, &s, &r, err);
	if (rc == 0) {
		change_row(c, &r);
		rc = store_row(c, db, logs, &s, &r, &tool, err);
	}
	if (rc == 0 && tool > 0)
		rc = command_changed_tools(c, db, &tool, 1, err);
	if (rc == 0 && s.kind == SYSTEM)        /* its principals may be refused from now on, or no more */
		rc = command_changed_people(c, db, s.tenant_id, err);
	if (rc == 0) {
		reply_row_begin(c->out);
		reply_text(c->out, "subject", s.name);
		reply_text(c->out, "said", tool > 0 ? "changed, and disabled" : r.there ? "changed" : "added");
		reply_row_end(c->out);
	}
	row_free(&r);
	return rc;
}

/* --- documents */

void inventory_said_fini(struct inventory_said *s)
{
	for (int i = 0; i < TEXTS; i++)
		free(s->text[i]);
}

int inventory_said_check(const char *subject, const struct inventory_said *s, struct err *err)
{
	bool any = s->days > 0;

	if (!sort_of(subject))
		return no_subject(subject, err);
	for (int i = 0; i < TEXTS; i++) {
		any |= s->text[i] != NULL;
		if (s->text[i] && strlen(s->text[i]) > INVENTORY_TEXT_MAX)
			return err_set(err, ERR_LIMIT, texts[i], "is longer than %d bytes", INVENTORY_TEXT_MAX);
	}
	if (!any)
		return err_set(err, ERR_INVALID, "", "nothing is said of %.80s", subject);
	return check_risk_of(subject, s->text[RISK], err);
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

int inventory_store(struct command_call *c, struct db *db, struct audit_logs *logs, const char *subject,
		    const struct inventory_said *now, struct inventory_said *ret_said, struct inventory_before *ret,
		    struct err *err)
{
	struct row before = { .there = false }, r = { .days = now->days };
	struct subject s;
	bool same = true;
	int rc = find_named(db, subject, &s, err);

	*ret_said = (struct inventory_said){ .days = 0 };
	*ret = (struct inventory_before){ .there = false };
	if (rc == 0)
		rc = load_row(db, &s, &before, err);
	if (rc < 0)
		return rc;
	for (int i = 0; i < TEXTS; i++) {
		same &= is_same(now->text[i], before.text[i]);
		ret_said->text[i] = before.text[i];
		before.text[i] = NULL;
		r.text[i] = now->text[i];
	}
	ret_said->days = before.days;
	same &= before.there && before.days == now->days;
	ret->there = before.there;
	if (!same)
		rc = store_row(c, db, logs, &s, &r, &ret->tool, err);
	ret->tenant = s.kind == SYSTEM ? s.tenant_id : 0;
	row_free(&before);
	return rc < 0 ? rc : !same;
}

int inventory_each(struct db *db, int64_t tenant_id, inventory_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_INVENTORY_LIST);
	int rc = 0;

	if (tenant_id > 0)
		db_bind_i64(st, 1, tenant_id);
	else
		db_bind_null(st, 1);
	db_bind_null(st, 2);
	db_bind_null(st, 3);
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		struct inventory_said s = { .days = db_col_i64(st, COL_DAYS) };

		for (unsigned i = 0; i < TEXTS; i++)
			s.text[i] = db_col_type(st, COL_OWNER + i) == DB_NULL ? NULL : db_col_dup(st, COL_OWNER + i);
		rc = fn(arg, db_col_text(st, COL_SUBJECT, NULL), &s, err);
		inventory_said_fini(&s);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- list, show, export, due */

/* The members but the first; what is missing of it in *missing. */
static void put_members(struct reply *o, struct db_stmt *st, struct str *missing)
{
	for (int i = 0; i < TEXTS; i++) {
		const bool said = db_col_type(st, (unsigned)(COL_OWNER + i)) != DB_NULL;

		reply_text(o, texts[i], said ? db_col_text(st, (unsigned)(COL_OWNER + i), NULL) : NULL);
		if (!said && (i == OWNER || i == PURPOSE || i == RISK))
			str_printf(missing, "%s%s", missing->len > 0 ? ", " : "", texts[i]);
	}
	if (db_col_type(st, COL_DAYS) != DB_NULL)
		reply_int(o, "review_days", db_col_i64(st, COL_DAYS));
	reply_time(o, "reviewed", (uint64_t)db_col_i64(st, COL_REVIEWED));
	reply_text(o, "reviewed_by", or_null(db_col_text(st, COL_BY, NULL)));
	reply_text(o, "note", or_null(db_col_text(st, COL_NOTE, NULL)));
	reply_time(o, "due", (uint64_t)db_col_i64(st, COL_DUE));
	reply_time(o, "set", (uint64_t)db_col_i64(st, COL_SET));
	reply_text(o, "set_by", or_null(db_col_text(st, COL_SET_BY, NULL)));
}

/* now_us 0: whether it is due is not asked. */
static void put_entry(struct reply *o, struct db_stmt *st, uint64_t now_us)
{
	struct str missing = STR_INIT;

	reply_row_begin(o);
	reply_text(o, "subject", db_col_text(st, COL_SUBJECT, NULL));
	put_members(o, st, &missing);
	reply_text(o, "missing", missing.len > 0 ? str_text(&missing) : NULL);
	if (now_us > 0 && (uint64_t)db_col_i64(st, COL_DUE) > now_us)
		reply_text(o, "class", "ok");
	if (now_us > 0)
		reply_text(o, "state", (uint64_t)db_col_i64(st, COL_DUE) > now_us ? "due" : "overdue");
	reply_row_end(o);
	str_fini(&missing);
}

/* until_us 0: all. */
static int put_entries(struct command_call *c, struct db *db, enum sql_id sql, uint64_t until_us, struct err *err)
{
	const char *tenant = or_null(arg_text(c, "tenant"));
	const char *risk = arg_is_known(c, "risk") ? or_null(arg_text(c, "risk")) : NULL;
	const uint64_t now_us = until_us > 0 ? clock_wall_us() : 0;
	struct db_stmt *st;
	struct tenant_row t;
	int rc = tenant ? tenant_row_find(db, tenant, &t, err) : 0;

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, sql);
	if (tenant)
		db_bind_i64(st, 1, t.id);
	else
		db_bind_null(st, 1);
	db_bind_textz(st, 2, risk);
	if (sql == SQL_INVENTORY_LIST && until_us > 0)
		db_bind_i64(st, 3, (int64_t)until_us);
	else if (sql == SQL_INVENTORY_LIST)
		db_bind_null(st, 3);
	while ((rc = db_step(st, err)) == 1)
		put_entry(c->out, st, now_us);
	db_stmt_put(&st);
	return rc;
}

static int list_check(struct command_call *c, struct err *err)
{
	const char *risk = or_null(arg_text(c, "risk"));

	return risk ? check_risk(risk, err) : 0;
}

static int list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const bool missing = arg_is_known(c, "missing") && arg_flag(c, "missing");

	(void)logs;
	return put_entries(c, db, missing ? SQL_INVENTORY_MISSING : SQL_INVENTORY_LIST, 0, err);
}

static int not_there(const char *name, struct err *err)
{
	(void)err_set(err, ERR_NOT_FOUND, "subject", "nothing is said of %s", name);
	err_hint(err, "toolcrib inventory set %s --owner ... --purpose ... --risk ...", name);
	return ERR_NOT_FOUND;
}

static int show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st;
	struct subject s;
	int rc = find_subject(c, db, &s, err);

	(void)logs;
	if (rc < 0)
		return rc;
	st = get_row(db, &s);
	rc = db_step(st, err);
	if (rc == 1)
		put_entry(c->out, st, 0);
	db_stmt_put(&st);
	return rc == 0 ? not_there(s.name, err) : rc < 0 ? rc : 0;
}

static int due_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)logs;
	return put_entries(c, db, SQL_INVENTORY_LIST, clock_wall_us() + arg_duration_ms(c, "within", 0) * 1000, err);
}

/* --- report (OP-1008) */

/* A part of a report: what a framework asks for, and the statement whose rows say what there is. */
struct report_part { const char *ref, *title, *look; enum sql_id sql; };
enum { REPORT_PARTS = 6 };
static const struct report_frame {
	const char *name, *title;
	struct report_part part[REPORT_PARTS];
} frames[] = {
	{ "ai-act", "Regulation (EU) 2024/1689 (AI Act)", {
		{ "Articles 16, 26", "AI systems, and what the tenant is to them", "system list", SQL_INVENTORY_REPORT_SYSTEMS },
		{ "Article 9", "Risks", "inventory list", SQL_INVENTORY_REPORT_RISKS },
		{ "Articles 12, 19, 26(6)", "Logs, which are kept for at least six months", "retention list",
		  SQL_INVENTORY_REPORT_LOGS },
		{ "Articles 14, 26(2)", "Oversight by people", "audit oversight", SQL_INVENTORY_REPORT_OVERSIGHT },
		{ "Articles 26(5), 73", "What may have been an incident", "alerts", SQL_INVENTORY_REPORT_INCIDENTS },
		{ "Article 26", "What is not said", "inventory list --missing", SQL_INVENTORY_REPORT_MISSING } } },
	{ "iso-42001", "ISO/IEC 42001, Annex A", {
		{ "A.4, A.9", "Resources, and how they are used", "system list", SQL_INVENTORY_REPORT_SYSTEMS },
		{ "A.5", "Impact", "inventory list", SQL_INVENTORY_REPORT_RISKS },
		{ "A.6.2.8", "Event logs", "retention list", SQL_INVENTORY_REPORT_LOGS },
		{ "A.9.2, A.9.3", "Oversight of use", "audit oversight", SQL_INVENTORY_REPORT_OVERSIGHT },
		{ "A.10", "Third parties", "upstream list", SQL_INVENTORY_REPORT_THIRD },
		{ "A.4.2", "What is not said", "inventory list --missing", SQL_INVENTORY_REPORT_MISSING } } },
};

static const struct report_frame *frame_of(const char *name)
{
	for (size_t i = 0; i < NELEMS(frames); i++)
		if (strcmp(frames[i].name, name) == 0)
			return &frames[i];
	return NULL;
}

static int report_check(struct command_call *c, struct err *err)
{
	const char *name = arg_text(c, "frame");

	if (frame_of(name))
		return 0;
	(void)err_set(err, ERR_INVALID, "frame", "\"%.40s\" is no frame", name);
	err_hint(err, "ai-act or iso-42001");
	return ERR_INVALID;
}

/* Texts of people, on one line: nothing in them is markup, or a formula of a spreadsheet. */
static void put_cell(struct str *out, const char *text, bool csv)
{
	const size_t len = strlen(text), size = 8 * len + 1;
	char *plain = mem_alloc(size);

	(void)text_printable(text, len, plain, size);
	if (csv)
		str_puts(out, *plain && strchr("=+-@", *plain) ? "\"'" : "\"");
	for (const char *p = plain; *p; p++) {
		if (csv ? *p == '"' : strchr("\\|<>`*_[]#", *p) != NULL)
			str_putc(out, csv ? '"' : '\\');
		str_putc(out, *p);
	}
	if (csv)
		str_putc(out, '"');
	free(plain);
}

/* The names of its columns, and a line below. */
static void put_columns(struct str *out, struct db_stmt *st)
{
	for (unsigned i = 0; i < db_col_count(st); i++)
		str_printf(out, "%s%s", i ? " | " : "| ", db_col_name(st, i));
	str_puts(out, " |\n");
	for (unsigned i = 0; i < db_col_count(st); i++)
		str_puts(out, i ? "|---" : "|---");
	str_puts(out, "|\n");
}

static void put_cells(struct str *out, struct db_stmt *st)
{
	for (unsigned i = 0; i < db_col_count(st); i++) {
		const char *text = db_col_text(st, i, NULL);

		str_puts(out, i ? " | " : "| ");
		put_cell(out, text ? text : "", false);
	}
	str_puts(out, " |\n");
}

/* A line for each thing that is said: part, its row, what, and the text. */
static void put_csv(struct str *out, struct db_stmt *st, const struct report_part *part)
{
	for (unsigned i = 1; i < db_col_count(st); i++) {
		const char *text = db_col_text(st, i, NULL), *row = db_col_text(st, 0, NULL);

		if (!text)
			continue;
		put_cell(out, part->ref, true);
		str_putc(out, ',');
		put_cell(out, part->title, true);
		str_putc(out, ',');
		put_cell(out, row ? row : "", true);
		str_putc(out, ',');
		put_cell(out, db_col_name(st, i), true);
		str_putc(out, ',');
		put_cell(out, text, true);
		str_puts(out, "\r\n");
	}
}

static void put_text(struct reply *o, struct str *text)
{
	reply_row_begin(o);
	reply_text(o, "report", str_text(text));
	reply_row_end(o);
	str_reset(text);
}

static int put_part(struct command_call *c, struct db *db, const struct report_part *part, int64_t tenant_id,
		    bool csv, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, part->sql);
	struct str text = STR_INIT;
	size_t n = 0;
	int rc;

	if (tenant_id > 0)
		db_bind_i64(st, 1, tenant_id);
	else
		db_bind_null(st, 1);
	if (!csv)
		str_printf(&text, "\n## %s: %s\n\n", part->ref, part->title);
	while ((rc = db_step(st, err)) == 1 && !reply_full(c->out)) {
		if (csv)
			put_csv(&text, st, part);
		else if (n == 0)
			put_columns(&text, st);
		if (!csv)
			put_cells(&text, st);
		n++;
		put_text(c->out, &text);
	}
	if (rc == 0 && !csv)
		str_printf(&text, "%s\nSee `toolcrib %s`.\n", n ? "" : "Nothing is on record.\n", part->look);
	if (text.len > 0)
		put_text(c->out, &text);
	db_stmt_put(&st);
	str_fini(&text);
	return rc < 0 ? rc : 0;
}

static void put_head(struct command_call *c, const struct report_frame *frame, const char *tenant, bool csv)
{
	struct str text = STR_INIT;
	char now[40];

	(void)clock_format_utc(clock_wall_us(), now, sizeof(now));
	if (csv)
		str_puts(&text, "\"reference\",\"asks for\",\"of\",\"what\",\"said\"\r\n");
	else
		str_printf(&text, "# %s\n\nWhat this server has on record on what %s asks for, %s%s, at %s. It is a list, and "
			   "no legal judgement: whether it is enough, and whether it is true, is for people to say.\n",
			   frame->title, frame->title, tenant ? "of tenant " : "of all tenants", tenant ? tenant : "", now);
	put_text(c->out, &text);
	str_fini(&text);
}

static int report_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct report_frame *frame = frame_of(arg_text(c, "frame"));
	const char *tenant = or_null(arg_text(c, "tenant"));
	const bool csv = arg_flag(c, "csv");
	struct tenant_row t = { 0 };
	int rc = tenant ? tenant_row_find(db, tenant, &t, err) : 0;

	(void)logs;
	if (rc < 0)
		return rc;
	put_head(c, frame, tenant, csv);
	for (size_t i = 0; rc == 0 && i < REPORT_PARTS; i++)
		rc = put_part(c, db, &frame->part[i], t.id, csv, err);
	return rc;
}

/* --- review done */

static int done_check(struct command_call *c, struct err *err)
{
	char note[REASON_SIZE];
	int rc = subject_check(c, err);

	return rc < 0 ? rc : arg_reason(c, "note", note, sizeof(note), err);
}

/* OP-1003: where the risk is high, nobody reviews his own work. */
static int check_reviewer(const struct command_call *c, const struct row *r, struct err *err)
{
	if (!r->text[RISK] || strcmp(r->text[RISK], HIGH) != 0)
		return 0;
	return r->made_by ? actor_check_other(c, r->made_by, "made the version in force, and the risk is high", "review", err)
		: actor_check_other(c, r->set_by, "wrote what is said of it, and the risk is high", "review", err);
}

static int store_review(const struct command_call *c, struct db *db, const struct subject *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_INVENTORY_REVIEWED);
	char by[ACTOR_SIZE];

	db_bind_i64(st, 1, s->kind);
	db_bind_i64(st, 2, s->id);
	db_bind_i64(st, 3, s->tenant_id);
	db_bind_i64(st, 4, (int64_t)clock_wall_us());
	db_bind_textz(st, 5, actor_text(&c->who, by));
	db_bind_textz(st, 6, arg_text(c, "note"));
	if (s->version > 0)
		db_bind_i64(st, 7, s->version);
	else
		db_bind_null(st, 7);
	return db_run(&st, err);
}

static int done_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct row r = { .there = false };
	struct subject s;
	int rc = find_subject(c, db, &s, err);

	if (rc == 0)
		rc = load_row(db, &s, &r, err);
	if (rc == 0 && !r.there)
		rc = not_there(s.name, err);
	if (rc == 0)
		rc = check_reviewer(c, &r, err);
	if (rc == 0)
		rc = store_review(c, db, &s, err);
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_REVIEW_DONE, .tenant_id = s.tenant_id,
			.obj = s.obj, .prn = or_null(s.pseudonym), .reason = arg_text(c, "note") }, err);
	row_free(&r);
	return rc < 0 ? rc : show_body(c, db, logs, err);
}

/* --- rows of the command table */

#define SUBJECT_WORD WORD("subject", "SUBJECT", COMPLETE_NONE, \
	"tenant:NAME, principal:TENANT/NAME, system:TENANT/NAME, tool:NAME, prompt:NAME, resource:NAME or upstream:NAME.")
#define TEXT_OPT(name, help) OPT(name, "TEXT", ARG_TEXT, COMPLETE_NONE, help)
static const struct command_arg set_args[] = {
	SUBJECT_WORD, TEXT_OPT("owner", "Who answers for it: a unit rather than a person."),
	TEXT_OPT("contact", "Where to ask."), TEXT_OPT("purpose", "What it is for."),
	OPT("risk", "RISK", ARG_TEXT, COMPLETE_NONE, "minimal, limited, high or prohibited."),
	TEXT_OPT("data", "Which data it works on."), TEXT_OPT("oversight", "How people watch it."),
	OPT("review-every", "TIME", ARG_DURATION, COMPLETE_NONE,
	    "So long after a review the next one is due: 90d; 0s: never."),
	ARG_END };
static const struct command_arg list_args[] = {
	FLAG("missing", "What has no owner, purpose or risk, and what nothing is said of."),
	OPT("risk", "RISK", ARG_TEXT, COMPLETE_NONE, "Only of this risk."), TENANT_OPT, ARG_END };
static const struct command_arg subject_args[] = { SUBJECT_WORD, ARG_END };
static const struct command_arg export_args[] = { TENANT_OPT, ARG_END };
static const struct command_arg report_args[] = {
	NEED("frame", "FRAME", ARG_TEXT, COMPLETE_NONE, "ai-act or iso-42001."),
	FLAG("csv", "As a line for each thing that is said, not as Markdown."), TENANT_OPT, ARG_END };
static const struct command_arg due_args[] = {
	OPT("within", "TIME", ARG_DURATION, COMPLETE_NONE, "Those that will be due within this time as well: 30d."),
	TENANT_OPT, ARG_END };
static const struct command_arg done_args[] = {
	SUBJECT_WORD, NEED("note", "TEXT", ARG_TEXT, COMPLETE_NONE, "What was found; it stays in the record for ever."),
	ARG_END };
static const struct command_column list_cols[] = {
	COL("subject", "SUBJECT"), COL("risk", "RISK"), COL("owner", "OWNER"), COL("purpose", "PURPOSE"),
	COL_AT("reviewed", "REVIEWED"), COL_AT("due", "DUE"), COL_IF("missing", "MISSING"), COL_END };
static const struct command_column export_cols[] = {
	COL("subject", "SUBJECT"), COL("risk", "RISK"), COL("owner", "OWNER"), COL("contact", "CONTACT"),
	COL("purpose", "PURPOSE"), COL("data", "DATA"), COL("oversight", "OVERSIGHT"), COL("review_days", "REVIEW DAYS"),
	COL_AT("reviewed", "REVIEWED"), COL("reviewed_by", "REVIEWED BY"), COL("note", "NOTE"), COL_AT("due", "DUE"),
	COL_AT("set", "SET"), COL("set_by", "SET BY"), COL("missing", "MISSING"), COL_END };
static const struct command_column report_cols[] = { COL("report", "Report"), COL_END };
static const struct command_column show_cols[] = {
	COL("subject", "Subject"), COL("owner", "Owner"), COL("contact", "Contact"), COL("purpose", "Purpose"),
	COL("risk", "Risk"), COL("data", "Data"), COL("oversight", "Oversight"),
	COL("review_days", "Review days"), COL_AT("due", "Review due"),
	COL_AT("reviewed", "Reviewed"), COL("reviewed_by", "Reviewed by"), COL("note", "Note"), COL_AT("set", "Set"),
	COL("set_by", "Set by"), COL_IF("missing", "Missing"), COL_END };
static const struct command_column due_cols[] = {
	COL("subject", "SUBJECT"), COL("state", "STATE"), COL_AT("due", "DUE"), COL("risk", "RISK"), COL("owner", "OWNER"),
	COL("contact", "CONTACT"), COL_AT("reviewed", "REVIEWED"), COL_END };

const struct command inventory_commands[] = {
	{ .noun = "inventory", .verb = "set", .help = "Say who answers for something, what it is for, and how risky it is",
	  .detail = "What is not named stays as it is; an empty text takes it away.  All of it is on record for ever.  "
		    "A tool, prompt or resource of risk prohibited is disabled at once, and is not enabled, nor gets a new version, "
		    "while that stands; the principals of a system of that risk are refused.  "
		    "The first review is due one period after a period was said.", .args = set_args,
	  .done = "%{subject}: %{said}", .role = ADM_OWNER, .where = ADM_ON_WRITER, .check = set_check, .body = set_body },
	{ .noun = "inventory", .verb = "list", .help = "List who answers for what, and how risky it is",
	  .detail = "What was removed is not listed; its records stay.", .args = list_args, .columns = list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL, .check = list_check,
	  .body = list_body },
	{ .noun = "inventory", .verb = "show", .help = "Show what is said of something", .args = subject_args,
	  .columns = show_cols, .shape = ADM_ITEM, .role = ADM_READ, .where = ADM_ON_POOL, .check = subject_check,
	  .body = show_body },
	{ .noun = "inventory", .verb = "export", .help = "List all that is said, for other programs",
	  .detail = "With --format csv or jsonl.", .args = export_args, .columns = export_cols, .shape = ADM_TABLE,
	  .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL, .body = list_body },
	{ .noun = "inventory", .verb = "report", .help = "Write what is on record on what a framework asks for",
	  .detail = "A document in Markdown, or CSV: AI systems and roles, risks, logs and how long they are kept, oversight, "
		    "what may have been incidents, third parties, and what is not said.  It is a list, no legal judgement.",
	  .args = report_args, .columns = report_cols, .shape = ADM_TEXT, .role = ADM_READ, .own = "tenant",
	  .where = ADM_ON_POOL, .check = report_check, .body = report_body },
	{ .noun = NULL },
};

const struct command inventory_review_commands[] = {
	{ .noun = "review", .verb = "due", .help = "List of what a review is due",
	  .detail = "Those that were due, and with --within those that will be.  A new version of a tool of risk high makes "
		    "its review due at once.  Exit status 4 when one is overdue.", .args = due_args, .columns = due_cols,
	  .shape = ADM_FINDINGS, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL, .body = due_body },
	{ .noun = "review", .verb = "done", .help = "Say that something was reviewed",
	  .detail = "What is said of it stands: see inventory set.  Where the risk is high, by another administrator than "
		    "the one who made the version of the tool that is in force, or, of what has no "
		    "versions, wrote what is said of it.",
	  .args = done_args, .done = "%{subject}: reviewed", .role = ADM_OPERATE, .where = ADM_ON_WRITER, .check = done_check,
	  .body = done_body },
	{ .noun = NULL },
};
