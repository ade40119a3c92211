/* system add, set, list, show, remove: AI systems of a tenant, which its principals are (OP-1001, OP-1004).  check()
 * runs on the loop thread; body() on the writer's, or on the pool's where it only reads. */
#include "config.h"

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
#include "tenant/tenant_rows.h"

enum { TEXTS = INVENTORY_SYSTEM_TEXTS, ROLE = 3 };
#define texts inventory_system_texts
const char *const inventory_system_texts[TEXTS] = { "provider", "model", "version", "role" };
static const char *const roles[] = { "provider", "deployer", "user" };
enum { IN_USE = 1, REMOVED = 3 };               /* as table system has them */
enum { COL_TEXT = 2, COL_CREATED = COL_TEXT + TEXTS, COL_TENANT, COL_OWNER, COL_RISK, COL_MEMBERS };

struct system {
	struct tenant_row tenant;
	char name[64];
	int64_t id;                     /* 0: there is none of this name */
	char *text[TEXTS];              /* or NULL */
};

static const char *or_null(const char *text)
{
	return text && *text ? text : NULL;
}

static void system_fini(struct system *s)
{
	for (int i = 0; i < TEXTS; i++)
		free(s->text[i]);
}

static int find_named(struct db *db, const char *name, struct system *ret, struct err *err)
{
	char tenant[64];
	struct db_stmt *st;
	int rc = arg_split(name, tenant, ret->name, err);

	if (rc == 0)
		rc = tenant_row_find(db, tenant, &ret->tenant, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_SYSTEM_FIND);
	db_bind_i64(st, 1, ret->tenant.id);
	db_bind_textz(st, 2, ret->name);
	rc = db_step(st, err);
	if (rc == 1)
		ret->id = db_col_i64(st, 0);
	for (int i = 0; rc == 1 && i < TEXTS; i++)
		ret->text[i] = db_col_type(st, (unsigned)(COL_TEXT + i)) == DB_NULL ? NULL : db_col_dup(st, (unsigned)(COL_TEXT + i));
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int find(const struct command_call *c, struct db *db, struct system *ret, struct err *err)
{
	return find_named(db, arg_text(c, "system"), ret, err);
}

static int find_known(const struct command_call *c, struct db *db, struct system *ret, struct err *err)
{
	int rc = find(c, db, ret, err);

	if (rc < 0 || ret->id > 0)
		return rc;
	(void)err_set(err, ERR_NOT_FOUND, "system", "system %s/%s: not found", ret->tenant.name, ret->name);
	err_hint(err, "toolcrib system list --tenant %s", ret->tenant.name);
	return ERR_NOT_FOUND;
}

static int check_role(const char *role, struct err *err)
{
	for (size_t i = 0; role && *role && i < NELEMS(roles); i++)
		if (strcmp(role, roles[i]) == 0)
			return 0;
	if (!role || !*role)
		return 0;
	(void)err_set(err, ERR_INVALID, "role", "\"%.40s\" is no role", role);
	err_hint(err, "provider, deployer or user");
	return ERR_INVALID;
}

static int name_check(struct command_call *c, struct err *err)
{
	char tenant[64], name[64];

	return arg_split(arg_text(c, "system"), tenant, name, err);
}

static int write_check(struct command_call *c, struct err *err)
{
	int rc = name_check(c, err);

	for (int i = 0; i < TEXTS && rc == 0; i++)
		if (arg_given(c, texts[i]) && strlen(arg_text(c, texts[i])) > INVENTORY_TEXT_MAX)
			rc = err_set(err, ERR_LIMIT, texts[i], "--%s is longer than %d bytes", texts[i], INVENTORY_TEXT_MAX);
	return rc < 0 ? rc : check_role(arg_text(c, "role"), err);
}

static void change(const struct command_call *c, struct system *s)
{
	for (int i = 0; i < TEXTS; i++) {
		if (!arg_given(c, texts[i]))
			continue;
		free(s->text[i]);
		s->text[i] = mem_strdup(arg_text(c, texts[i]));
	}
}

static int record(struct command_call *c, struct db *db, struct audit_logs *logs, const struct system *s,
		  struct err *err)
{
	char obj[160];

	(void)snprintf(obj, sizeof(obj), "system/%s/%s", s->tenant.name, s->name);
	return command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_SYSTEM_CHANGE, .tenant_id = s->tenant.id,
		.obj = obj }, err);
}

static int say(struct command_call *c, struct db *db, struct audit_logs *logs, const struct system *s, struct err *err)
{
	int rc = record(c, db, logs, s, err);

	if (rc == 0)
		rc = command_changed_people(c, db, s->tenant.id, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "tenant", s->tenant.name);
	reply_text(c->out, "name", s->name);
	reply_row_end(c->out);
	return 0;
}

static int update(struct db *db, const struct system *s, int state, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SYSTEM_UPDATE);

	db_bind_i64(st, 1, s->id);
	db_bind_i64(st, 2, s->tenant.id);
	for (int i = 0; i < TEXTS; i++)
		db_bind_textz(st, (unsigned)(3 + i), or_null(s->text[i]));
	db_bind_i64(st, 3 + TEXTS, state);
	return db_run(&st, err);
}

static int insert(struct db *db, const struct system *s, struct err *err)
{
	struct db_stmt *st;
	int64_t count = 0;
	int rc = tenant_row_count(db, SQL_SYSTEM_COUNT, s->tenant.id, &count, err);

	if (rc == 0 && count >= INVENTORY_SYSTEMS_MAX)
		rc = err_set(err, ERR_LIMIT, "", "tenant %s has %lld systems, which is the limit", s->tenant.name, (long long)count);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_SYSTEM_INSERT);
	db_bind_i64(st, 1, s->tenant.id);
	db_bind_textz(st, 2, s->name);
	for (int i = 0; i < TEXTS; i++)
		db_bind_textz(st, (unsigned)(3 + i), or_null(s->text[i]));
	db_bind_i64(st, 3 + TEXTS, (int64_t)clock_wall_us());
	return db_run(&st, err);
}

static int add_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct system s = { .id = 0 };
	int rc = find(c, db, &s, err);

	if (rc == 0 && s.id > 0)
		rc = err_set(err, ERR_CONFLICT, "system", "system %s/%s is there already", s.tenant.name, s.name);
	if (rc == 0) {
		change(c, &s);
		rc = insert(db, &s, err);
	}
	if (rc == 0)
		rc = say(c, db, logs, &s, err);
	system_fini(&s);
	return rc;
}

static int set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct system s = { .id = 0 };
	int rc = find_known(c, db, &s, err);

	if (rc == 0) {
		change(c, &s);
		rc = update(db, &s, IN_USE, err);
	}
	if (rc == 0)
		rc = say(c, db, logs, &s, err);
	system_fini(&s);
	return rc;
}

static int remove_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct system s = { .id = 0 };
	struct db_stmt *st;
	int rc = find_known(c, db, &s, err);

	if (rc == 0)
		rc = update(db, &s, REMOVED, err);
	if (rc == 0) {
		st = db_stmt_get(db, SQL_SYSTEM_UNSET_PRINCIPALS);
		db_bind_i64(st, 1, s.tenant.id);
		db_bind_i64(st, 2, s.id);
		rc = db_run(&st, err);
	}
	if (rc == 0)
		rc = say(c, db, logs, &s, err);
	system_fini(&s);
	return rc;
}

/* --- documents */

void inventory_system_fini(struct inventory_system *s)
{
	for (int i = 0; i < TEXTS; i++)
		free(s->text[i]);
}

int inventory_system_check(const struct inventory_system *s, struct err *err)
{
	for (int i = 0; i < TEXTS; i++)
		if (s->text[i] && strlen(s->text[i]) > INVENTORY_TEXT_MAX)
			return err_set(err, ERR_LIMIT, texts[i], "is longer than %d bytes", INVENTORY_TEXT_MAX);
	return check_role(s->text[ROLE], err);
}

int inventory_store_system(struct command_call *c, struct db *db, struct audit_logs *logs, const char *name,
			   const struct inventory_system *now, struct inventory_system *ret_said,
			   struct inventory_before *ret, struct err *err)
{
	struct system s = { .id = 0 };
	bool same;
	int rc = find_named(db, name, &s, err);

	*ret_said = (struct inventory_system){ .text = { NULL } };
	*ret = (struct inventory_before){ .there = rc == 0 && s.id > 0, .tenant = s.tenant.id };
	if (rc < 0)
		return rc;
	same = ret->there;
	for (int i = 0; i < TEXTS; i++) {
		same &= now->text[i] && s.text[i] ? strcmp(now->text[i], s.text[i]) == 0 : now->text[i] == s.text[i];
		ret_said->text[i] = s.text[i];
		s.text[i] = now->text[i];
	}
	if (!same)
		rc = ret->there ? update(db, &s, IN_USE, err) : insert(db, &s, err);
	if (rc == 0 && !same)
		rc = record(c, db, logs, &s, err);
	return rc < 0 ? rc : !same;
}

int inventory_each_system(struct db *db, int64_t tenant_id, inventory_system_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SYSTEM_LIST);
	int rc = 0;

	if (tenant_id > 0)
		db_bind_i64(st, 1, tenant_id);
	else
		db_bind_null(st, 1);
	db_bind_null(st, 2);
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		struct inventory_system s;
		char name[160];

		(void)snprintf(name, sizeof(name), "%.63s/%.63s", db_col_text(st, COL_TENANT, NULL), db_col_text(st, 1, NULL));
		for (unsigned i = 0; i < TEXTS; i++)
			s.text[i] = db_col_type(st, COL_TEXT + i) == DB_NULL ? NULL : db_col_dup(st, COL_TEXT + i);
		rc = fn(arg, name, &s, err);
		inventory_system_fini(&s);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- list, show */

static void put_system(struct reply *o, struct db_stmt *st)
{
	char full[160];

	(void)snprintf(full, sizeof(full), "%.63s/%.63s", db_col_text(st, COL_TENANT, NULL), db_col_text(st, 1, NULL));
	reply_row_begin(o);
	reply_text(o, "system", full);
	for (int i = 0; i < TEXTS; i++)
		reply_text(o, texts[i], or_null(db_col_text(st, (unsigned)(COL_TEXT + i), NULL)));
	reply_text(o, "owner", or_null(db_col_text(st, COL_OWNER, NULL)));
	reply_text(o, "risk", or_null(db_col_text(st, COL_RISK, NULL)));
	reply_int(o, "principals", db_col_i64(st, COL_MEMBERS));
	reply_time(o, "created", (uint64_t)db_col_i64(st, COL_CREATED));
	reply_row_end(o);
}

/* tenant_id 0: of all; name NULL: any. */
static int put_systems(struct command_call *c, struct db *db, int64_t tenant_id, const char *name, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SYSTEM_LIST);
	int rc;

	if (tenant_id > 0)
		db_bind_i64(st, 1, tenant_id);
	else
		db_bind_null(st, 1);
	db_bind_textz(st, 2, name);
	while ((rc = db_step(st, err)) == 1)
		put_system(c->out, st);
	db_stmt_put(&st);
	return rc;
}

static int list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *tenant = or_null(arg_text(c, "tenant"));
	struct tenant_row t = { 0 };
	int rc = tenant ? tenant_row_find(db, tenant, &t, err) : 0;

	(void)logs;
	return rc < 0 ? rc : put_systems(c, db, t.id, NULL, err);
}

static int show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct system s = { .id = 0 };
	int rc = find_known(c, db, &s, err);

	(void)logs;
	if (rc == 0)
		rc = put_systems(c, db, s.tenant.id, s.name, err);
	system_fini(&s);
	return rc;
}

/* --- rows of the command table */

#define SYSTEM_WORD WORD("system", "TENANT/NAME", COMPLETE_NONE, "The AI system, with its tenant in front.")
#define TEXT_OPT(name, help) OPT(name, "TEXT", ARG_TEXT, COMPLETE_NONE, help)
static const struct command_arg write_args[] = {
	SYSTEM_WORD, TEXT_OPT("provider", "Who made it."), TEXT_OPT("model", "The model that it is made with."),
	TEXT_OPT("version", "Which version of it."),
	OPT("role", "ROLE", ARG_TEXT, COMPLETE_NONE, "What the tenant is to it: provider, deployer or user."), ARG_END };
static const struct command_arg system_args[] = { SYSTEM_WORD, ARG_END };
static const struct command_arg list_args[] = { TENANT_OPT, ARG_END };
static const struct command_column list_cols[] = {
	COL("system", "SYSTEM"), COL("provider", "PROVIDER"), COL("model", "MODEL"), COL("version", "VERSION"),
	COL("role", "ROLE"),
	COL("owner", "OWNER"), COL("risk", "RISK"), COL("principals", "PRINCIPALS"), COL_END };
static const struct command_column show_cols[] = {
	COL("system", "System"), COL("provider", "Provider"), COL("model", "Model"), COL("version", "Version"),
	COL("role", "Role"),
	COL("owner", "Owner"), COL("risk", "Risk"), COL("principals", "Principals"), COL_AT("created", "Created"), COL_END };

const struct command system_commands[] = {
	{ .noun = "system", .verb = "add", .help = "Add an AI system of a tenant",
	  .detail = "Which principals are this system is said by principal set; who answers for it, by inventory set "
		    "system:TENANT/NAME.  Calls of those principals have its name on record.",
	  .args = write_args, .done = "system %{tenant}/%{name} added", .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = write_check, .body = add_body },
	{ .noun = "system", .verb = "list", .help = "List AI systems", .args = list_args, .columns = list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL, .body = list_body },
	{ .noun = "system", .verb = "show", .help = "Show an AI system", .args = system_args, .columns = show_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .own = "system", .where = ADM_ON_POOL, .check = name_check, .body = show_body },
	{ .noun = "system", .verb = "set", .help = "Change what is said of an AI system",
	  .detail = "What is not named stays as it is; an empty text takes it away.", .args = write_args,
	  .done = "system %{tenant}/%{name} changed", .role = ADM_OWNER, .where = ADM_ON_WRITER, .check = write_check,
	  .body = set_body },
	{ .noun = "system", .verb = "remove", .help = "Remove an AI system",
	  .detail = "Its records stay; its principals are no system any more.", .args = system_args,
	  .done = "system %{tenant}/%{name} removed", .destructive = true, .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = name_check, .body = remove_body },
	{ .noun = NULL },
};
