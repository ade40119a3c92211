/* Commands on schemas: add, list, show, remove of the catalogue that definitions share by $ref, and check.  check()
 * of add compiles the documents on the loop; the bodies store them on the writer, or read rows on the pool.
 *
 * What a stored version of a tool refers to never changes: records name the digest of the version, and that says all
 * of what ran.  So a text under an $id is final once a version refers to it, and a removed schema keeps its row as
 * long. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "registry/catalogue.h"
#include "registry/define.h"
#include "registry/registry.h"
#include "schema/schema.h"
#include "toolset/toolset.h"

/* Schemas before they are stored: those among documents, with the catalogue as it would be; and schema check, a JSON
 * Schema by itself and documents by it, in the words that a caller of a tool would read. */

/* --- documents */

const struct catalogue *schema_shared(const struct command_call *c)
{
	const struct registry *reg = command_env(c)->registry;

	return reg ? reg_shared(reg) : NULL;
}

void err_at_document(struct err *err, size_t i)
{
	char at[32];

	if (err && *err->where == '/')          /* say the member too: a line and a column are its place only */
		(void)err_wrap(err, "%s", err->where + 1);
	(void)snprintf(at, sizeof(at), "/documents/%zu", i);
	err_at(err, at);
}

bool is_schema(const json_t *doc)
{
	const char *kind = json_string_value(json_object_get(doc, "kind"));

	if (kind)
		return strcmp(kind, "schema") == 0;
	return json_object_get(doc, "$id") || json_object_get(doc, "$schema");
}

static int read_one(struct schema_set *set, const json_t *documents, size_t i, struct err *err)
{
	struct define_schema *def = &set->def[set->count];
	int rc = define_schema_read(json_array_get(documents, i), def, err);

	if (rc < 0) {
		err_at_document(err, i);
		return rc;
	}
	set->count++;
	for (size_t k = 0; k + 1 < set->count; k++) {
		if (strcmp(set->def[k].uri, def->uri) != 0)
			continue;
		(void)err_set(err, ERR_INVALID, "", "two documents have the $id %.200s", def->uri);
		err_at_document(err, i);
		return ERR_INVALID;
	}
	catalogue_set(set->shared, def->uri, def->text, strlen(def->text), def->digest);
	return 0;
}

int schema_set_define(const struct catalogue *shared, const json_t *documents, bool all, struct schema_set *ret,
		       struct err *err)
{
	size_t n = json_array_size(documents);
	int rc = 0;

	ret->def = mem_calloc(n, sizeof(*ret->def));
	ret->document = mem_calloc(n, sizeof(*ret->document));
	ret->shared = catalogue_new(shared);
	/* All of them first: they may refer to each other in any order. */
	for (size_t i = 0; i < n && rc == 0; i++) {
		ret->document[ret->count] = i;
		if (all || is_schema(json_array_get(documents, i)))
			rc = read_one(ret, documents, i, err);
	}
	for (size_t k = 0; k < ret->count && rc == 0; k++) {
		rc = define_schema_check(json_array_get(documents, ret->document[k]), ret->shared, &ret->def[k], err);
		if (rc < 0)
			err_at_document(err, ret->document[k]);
	}
	return rc;
}

void schema_set_fini(struct schema_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		define_schema_free(&set->def[i]);
	free(set->def);
	free(set->document);
	catalogue_free(&set->shared);
}

/* --- schema check */

static void put_finding(struct reply *o, size_t document, const char *pointer, const char *text)
{
	char *where = mem_printf("/documents/%zu%s", document, pointer);

	reply_row_begin(o);
	reply_text(o, "where", where);
	reply_text(o, "finding", text);
	reply_row_end(o);
	free(where);
}

static void check_instance(struct reply *o, const struct schema *s, const json_t *documents, size_t i)
{
	const struct schema_redact nothing = { NULL, 0 };
	struct schema_report report;

	if (schema_explain(s, json_array_get(documents, i), &nothing, &report) == 0)
		return;
	for (size_t k = 0; k < report.count; k++) {
		const struct schema_failure *f = &report.failure[k];
		char *text = mem_printf("%s%s%s%s", f->text, *f->keyword ? " (" : "", f->keyword, *f->keyword ? ")" : "");

		put_finding(o, i, f->instance, text);
		free(text);
	}
}

static int schema_check_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const json_t *documents = arg_json(c, "documents");
	struct catalogue_use use = { .from = schema_shared(c) };
	const struct schema_options options = { .assert_format = arg_flag(c, "formats"),
		.find = catalogue_find, .find_arg = &use };
	struct schema *s = NULL;
	struct err wrong;

	(void)db;
	(void)logs;
	(void)err;
	if (schema_compile_with(json_array_get(documents, 0), &options, &s, &wrong) < 0) {
		char *text = mem_printf("%s%s%s", wrong.msg, *wrong.hint ? "; " : "", wrong.hint);

		put_finding(c->out, 0, wrong.where, text);
		free(text);
		catalogue_use_end(&use, NULL);
		return 0;
	}
	for (size_t i = 1; i < json_array_size(documents); i++)
		check_instance(c->out, s, documents, i);
	schema_free(&s);
	catalogue_use_end(&use, NULL);
	return 0;
}

#define NAMES_SHOWN 5                   /* of those that stand in the way */
#define CANDIDATES_MAX 1000

enum { SCHEMA_IN_FORCE = 1, SCHEMA_REMOVED = 3 };

struct schema_row {
	int64_t id, created_us;
	int state;
	uint8_t digest[32];
	char actor[64];
};

/* --- checking */

static void free_add(void *priv)
{
	schema_set_fini(priv);
	free(priv);
}

static int schema_add_check(struct command_call *c, struct err *err)
{
	struct schema_set *set = command_priv(c, sizeof(*set));

	c->free_priv = free_add;
	return schema_set_define(schema_shared(c), arg_json(c, "documents"), true, set, err);
}

/* --- rows */

static void read_row(struct db_stmt *st, struct schema_row *ret)
{
	size_t len;
	const void *digest = db_col_blob(st, 3, &len);
	const char *actor;

	*ret = (struct schema_row){ .id = db_col_i64(st, 0), .state = (int)db_col_i64(st, 2),
		.created_us = db_col_i64(st, 5) };
	if (len == sizeof(ret->digest))
		memcpy(ret->digest, digest, len);
	actor = db_col_text(st, 4, &len);
	(void)snprintf(ret->actor, sizeof(ret->actor), "%.*s", (int)len, actor);
}

/* Removed ones as well: 1 = found. */
static int find_row(struct db *db, const char *uri, struct schema_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SCHEMA_FIND);
	int rc;

	db_bind_textz(st, 1, uri);
	rc = db_step(st, err);
	if (rc == 1)
		read_row(st, ret);
	db_stmt_put(&st);
	return rc;
}

static int not_found(struct db *db, const char *uri, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SCHEMA_LIST);
	char **names = mem_calloc(CANDIDATES_MAX, sizeof(*names));
	const char *near;
	size_t n = 0;

	while (n < CANDIDATES_MAX && db_step(st, NULL) == 1) {
		size_t len;
		const char *text = db_col_text(st, 1, &len);

		names[n++] = mem_strndup(text, len);
	}
	db_stmt_put(&st);
	(void)err_set(err, ERR_NOT_FOUND, "", "schema %.200s: not found", uri);
	near = text_nearest(uri, (const char *const *)names, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	while (n > 0)
		free(names[--n]);
	free(names);
	return ERR_NOT_FOUND;
}

static int find_in_force(struct db *db, const char *uri, struct schema_row *ret, struct err *err)
{
	int rc = find_row(db, uri, ret, err);

	if (rc < 0)
		return rc;
	return rc == 1 && ret->state == SCHEMA_IN_FORCE ? 0 : not_found(db, uri, err);
}

/* "a version 1, b version 3 and 4 more" of the rows name, version of st, which is put. */
static int list_versions(struct db_stmt *st, struct str *out, struct err *err)
{
	size_t n = 0, len;
	int rc;

	for (; (rc = db_step(st, err)) == 1; n++)
		if (n < NAMES_SHOWN) {
			const char *name = db_col_text(st, 0, &len);

			str_printf(out, "%s%.*s version %lld", n ? ", " : "", (int)len, name, (long long)db_col_i64(st, 1));
		}
	if (n > NAMES_SHOWN)
		str_printf(out, " and %zu more", n - NAMES_SHOWN);
	db_stmt_put(&st);
	return rc;
}

static struct db_stmt *by_id(struct db *db, enum sql_id sql, int64_t id)
{
	struct db_stmt *st = db_stmt_get(db, sql);

	db_bind_i64(st, 1, id);
	return st;
}

static bool in_set(const char *uri, size_t len, const char *const *set, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(set[i]) == len && memcmp(set[i], uri, len) == 0)
			return true;
	return false;
}

/* A schema in force that refers to this one and is not in the set, "" = none. */
static int other_user(struct db *db, int64_t id, const char *const *set, size_t n, struct str *ret, struct err *err)
{
	struct db_stmt *st = by_id(db, SQL_SCHEMA_USERS, id);
	int rc;

	while ((rc = db_step(st, err)) == 1 && ret->len == 0) {
		size_t len;
		const char *uri = db_col_text(st, 0, &len);

		if (!in_set(uri, len, set, n))
			str_put(ret, uri, len);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int record_schema(struct command_call *c, struct db *db, struct audit_logs *logs,
			 const struct command_record *what, const char *uri, struct err *err)
{
	char *obj = mem_printf("schema/%s", uri);
	struct command_record r = *what;
	int rc;

	r.obj = obj;
	rc = command_record(c, db, logs, &r, err);
	free(obj);
	return rc;
}

/* --- add */

/* Under the same $id another text may come only while nothing depends on the old one. */
static int may_replace(struct db *db, const struct schema_row *old, const struct schema_set *set, const char *uri,
		       struct err *err)
{
	const char **names = mem_calloc(set->count, sizeof(*names));
	struct str who = STR_INIT;
	int rc = list_versions(by_id(db, SQL_SCHEMA_VERSIONS, old->id), &who, err);

	for (size_t i = 0; i < set->count; i++)
		names[i] = set->def[i].uri;
	if (rc == 0 && who.len > 0) {
		rc = err_set(err, ERR_CONFLICT, "", "schema %.120s cannot change, it is a part of %s", uri, str_text(&who));
		err_hint(err, "give the new text an $id of its own, and let the tools refer to that");
	}
	if (rc == 0)
		rc = other_user(db, old->id, names, set->count, &who, err);
	if (rc == 0 && who.len > 0) {
		rc = err_set(err, ERR_CONFLICT, "", "schema %.120s cannot change alone: %.120s refers to it", uri, str_text(&who));
		err_hint(err, "add both in one command");
	}
	str_fini(&who);
	free(names);
	return rc;
}

static int write_row(const struct command_call *c, struct db *db, const struct define_schema *def,
		     const struct schema_row *old, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, old ? SQL_SCHEMA_SET : SQL_SCHEMA_INSERT);
	char actor[ACTOR_SIZE];

	(void)actor_text(&c->who, actor);
	if (old)
		db_bind_i64(st, 1, old->id);
	else
		db_bind_textz(st, 1, def->uri);
	db_bind_blob(st, 2, def->digest, sizeof(def->digest));
	db_bind_textz(st, 3, def->text);
	db_bind_textz(st, 4, actor);
	db_bind_i64(st, 5, (int64_t)clock_wall_us());
	return db_run(&st, err);
}

static int store_one(struct command_call *c, struct db *db, struct audit_logs *logs, const struct schema_set *set,
		     size_t i,
		     enum row_stored *ret, struct err *err)
{
	const struct define_schema *def = &set->def[i];
	struct schema_row old = { .id = 0 };
	int rc = find_row(db, def->uri, &old, err);
	bool known = rc == 1, alive = known && old.state == SCHEMA_IN_FORCE;
	bool same = known && memcmp(old.digest, def->digest, sizeof(old.digest)) == 0;

	*ret = ADM_UNCHANGED;
	if (rc < 0 || (alive && same))
		return rc < 0 ? rc : 0;
	rc = known && !same ? may_replace(db, &old, set, def->uri, err) : 0;
	if (rc == 0)
		rc = write_row(c, db, def, known ? &old : NULL, err);
	if (rc == 0)
		rc = record_schema(c, db, logs, &(struct command_record){
			.kind = alive ? AUDIT_DEFINITION_CHANGE : AUDIT_DEFINITION_ADD, .before = alive ? old.digest : NULL,
			.after = def->digest }, def->uri, err);
	*ret = alive ? ADM_CHANGED : ADM_ADDED;
	return rc;
}

/* What was checked against is what is there: names and digests are looked up in the rows. */
static int link_one(struct db *db, enum sql_id sql, int64_t id, const struct catalogue_refs *refs, struct err *err)
{
	for (size_t i = 0; i < refs->n; i++) {
		struct db_stmt *st = db_stmt_get(db, sql);
		int rc;

		db_bind_i64(st, 1, id);
		db_bind_textz(st, 2, refs->v[i].uri);
		db_bind_blob(st, 3, refs->v[i].digest, sizeof(refs->v[i].digest));
		rc = db_run(&st, err);
		if (rc == 0 && db_changes(db) != 1)
			rc = err_set(err, ERR_CONFLICT, "", "schema %.200s was changed at the same time", refs->v[i].uri);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int schema_link_tool(struct db *db, int64_t version_id, const struct catalogue_refs *refs, struct err *err)
{
	return link_one(db, SQL_SCHEMA_ADD_TOOL, version_id, refs, err);
}

static int link_schema(struct db *db, const struct define_schema *def, struct err *err)
{
	struct schema_row row;
	struct db_stmt *st;
	int rc = find_in_force(db, def->uri, &row, err);

	if (rc < 0)
		return rc;
	st = by_id(db, SQL_SCHEMA_DROP_REFS, row.id);
	rc = db_run(&st, err);
	return rc < 0 ? rc : link_one(db, SQL_SCHEMA_ADD_REF, row.id, &def->refs, err);
}

static int check_totals(struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SCHEMA_TOTALS);
	int rc = db_step(st, err);

	if (rc == 1 && db_col_i64(st, 0) > CATALOGUE_SCHEMAS_MAX)
		rc = err_set(err, ERR_LIMIT, "", "there would be more than %d shared schemas", CATALOGUE_SCHEMAS_MAX);
	else if (rc == 1 && db_col_i64(st, 1) > CATALOGUE_BYTES_MAX)
		rc = err_set(err, ERR_LIMIT, "", "the shared schemas would have more than %u MiB", CATALOGUE_BYTES_MAX >> 20);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int schema_set_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct schema_set *set,
		      enum row_stored *ret, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < set->count && rc == 0; i++) {
		rc = store_one(c, db, logs, set, i, &ret[i], err);
		if (rc < 0)
			err_at_document(err, set->document[i]);
	}
	for (size_t i = 0; i < set->count && rc == 0; i++)
		rc = link_schema(db, &set->def[i], err);
	if (rc == 0)
		rc = check_totals(db, err);
	for (size_t i = 0; i < set->count && rc == 0; i++)
		if (ret[i] != ADM_UNCHANGED)
			rc = command_changed_schema(c, db, set->def[i].uri, err);
	return rc;
}

static int schema_add_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct schema_set *set = c->priv;
	enum row_stored *stored = mem_calloc(set->count, sizeof(*stored));
	int rc = schema_set_store(c, db, logs, set, stored, err);

	for (size_t i = 0; i < set->count && rc == 0; i++) {
		reply_row_begin(c->out);
		reply_text(c->out, "id", set->def[i].uri);
		reply_text(c->out, "said", stored[i] == ADM_UNCHANGED ? "unchanged" : "stored");
		reply_hex(c->out, "digest", set->def[i].digest, sizeof(set->def[i].digest));
		reply_row_end(c->out);
	}
	free(stored);
	return rc;
}

/* --- list, show */

static int put_uris(struct reply *o, const char *name, struct db_stmt **st, struct err *err)
{
	json_t *list = json_array();
	int rc;

	while ((rc = db_step(*st, err)) == 1) {
		size_t len;
		const char *text = db_col_text(*st, 0, &len);

		(void)json_array_append_new(list, json_stringn(text, len));
	}
	db_stmt_put(st);
	if (rc == 0)
		reply_json(o, name, list);
	json_decref(list);
	return rc;
}

static void put_row(struct reply *o, const char *uri, const struct schema_row *row)
{
	reply_text(o, "id", uri);
	reply_hex(o, "digest", row->digest, sizeof(row->digest));
	reply_text(o, "actor", row->actor);
	reply_time(o, "created", (uint64_t)row->created_us);
}

static int schema_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SCHEMA_LIST);
	int rc;

	(void)logs;
	while ((rc = db_step(st, err)) == 1) {
		struct db_stmt *tools;
		struct schema_row row;
		size_t len;
		const char *text = db_col_text(st, 1, &len);
		char *uri = mem_strndup(text, len);

		read_row(st, &row);
		tools = by_id(db, SQL_SCHEMA_TOOLS, row.id);
		reply_row_begin(c->out);
		put_row(c->out, uri, &row);
		rc = put_uris(c->out, "tools", &tools, err);
		reply_row_end(c->out);
		free(uri);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

static int put_text(struct reply *o, struct db *db, const char *uri, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SCHEMA_FIND);
	int rc;

	db_bind_textz(st, 1, uri);
	rc = db_step(st, err);
	if (rc == 1) {
		size_t len;
		const char *text = db_col_text(st, 6, &len);

		reply_raw(o, "schema", text, len);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int schema_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const struct { const char *name; enum sql_id sql; } lists[] = {
		{ "tools", SQL_SCHEMA_TOOLS }, { "schemas", SQL_SCHEMA_USERS }, { "refers_to", SQL_SCHEMA_REFS },
	};
	const char *uri = arg_text(c, "schema");
	struct schema_row row;
	int rc = find_in_force(db, uri, &row, err);

	(void)logs;
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	put_row(c->out, uri, &row);
	for (size_t i = 0; i < NELEMS(lists) && rc == 0; i++) {
		struct db_stmt *st = by_id(db, lists[i].sql, row.id);

		rc = put_uris(c->out, lists[i].name, &st, err);
	}
	if (rc == 0)
		rc = put_text(c->out, db, uri, err);
	reply_row_end(c->out);
	return rc;
}

/* --- remove */

static int may_remove(struct db *db, const struct schema_row *row, const char *uri, const char *const *set, size_t n,
		      struct err *err)
{
	struct str who = STR_INIT;
	int rc = list_versions(by_id(db, SQL_SCHEMA_TOOLS, row->id), &who, err);

	if (rc == 0 && who.len > 0) {
		rc = err_set(err, ERR_CONFLICT, "", "schema %.120s is in use by %s", uri, str_text(&who));
		err_hint(err, "remove these tools, or give them versions that do not refer to it, first");
	}
	if (rc == 0)
		rc = other_user(db, row->id, set, n, &who, err);
	if (rc == 0 && who.len > 0) {
		rc = err_set(err, ERR_CONFLICT, "", "schema %.120s is in use by schema %.120s", uri, str_text(&who));
		err_hint(err, "remove both in one command");
	}
	str_fini(&who);
	return rc;
}

/* What an old version refers to stays, hidden. */
static int take_away(struct db *db, int64_t id, struct err *err)
{
	struct db_stmt *st = by_id(db, SQL_SCHEMA_VERSIONS, id);
	int rc = db_step(st, err);

	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	st = by_id(db, rc == 1 ? SQL_SCHEMA_RETIRE : SQL_SCHEMA_DROP_REFS, id);
	return db_run(&st, err);
}

int schema_set_remove(struct command_call *c, struct db *db, struct audit_logs *logs, const char *const *uri, size_t n,
		       struct err *err)
{
	struct schema_row *row = mem_calloc(n, sizeof(*row));
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = find_in_force(db, uri[i], &row[i], err);
		if (rc == 0)
			rc = may_remove(db, &row[i], uri[i], uri, n, err);
		if (rc == 0)
			rc = take_away(db, row[i].id, err);
		if (rc == 0)
			rc = record_schema(c, db, logs, &(struct command_record){ .kind = AUDIT_DEFINITION_REMOVE,
				.before = row[i].digest }, uri[i], err);
	}
	/* They may have referred to each other. */
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct schema_row now;

		rc = find_row(db, uri[i], &now, err);
		if (rc == 1 && now.state == SCHEMA_IN_FORCE) {
			struct db_stmt *st = by_id(db, SQL_SCHEMA_DELETE, row[i].id);

			rc = db_run(&st, err);
		}
		if (rc >= 0)
			rc = command_changed_schema(c, db, uri[i], err);
	}
	free(row);
	return rc;
}

static int schema_remove_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char **uri = mem_calloc(arg_count(c, "schema"), sizeof(*uri));
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < arg_count(c, "schema"); i++) {           /* once each */
		const char *text = arg_nth(c, "schema", i);

		if (!in_set(text, strlen(text), uri, n))
			uri[n++] = text;
	}
	rc = schema_set_remove(c, db, logs, uri, n, err);
	for (size_t i = 0; i < n && rc == 0; i++) {
		reply_row_begin(c->out);
		reply_text(c->out, "id", uri[i]);
		reply_row_end(c->out);
	}
	free(uri);
	return rc;
}

/* --- rows of the command table */

static const struct command_arg schema_check_args[] = {
	FILES("YAML or JSON: the first document is the schema, all others are checked by it; - is standard input."),
	FLAG("formats", "Let format decide too; else it is an annotation."), ARG_END };
static const struct command_arg schema_add_args[] = {
	FILES("YAML or JSON, one or more schemas with an absolute $id; - is standard input."), ARG_END };
static const struct command_arg schema_args[] = { WORD("schema", "ID", COMPLETE_SCHEMA, "The $id of the schema."),
	ARG_END };
static const struct command_arg schemas_args[] = { WORDS("schema", "ID", COMPLETE_SCHEMA, "The $id of the schema."),
	ARG_END };
static const struct command_column schema_list_cols[] = {
	COL("id", "ID"), COL("tools", "TOOLS"), COL_AT("created", "ADDED"), COL_END };
static const struct command_column schema_cols[] = {
	COL("id", "Id"), COL("digest", "Digest"), COL("actor", "Added by (not evidence)"),
	COL_AT("created", "Added"), COL("tools", "Tools"),
	COL("schemas", "Schemas"), COL("refers_to", "Refers to"), COL("schema", "Schema"), COL_END };
static const struct command_column finding_cols[] = {
	COL("where", "PLACE"), COL("finding", "FINDING"), COL_END };

const struct command schema_commands[] = {
	{ .noun = "schema", .verb = "add", .help = "Store schemas for definitions to share",
	  .detail = "All documents or none.  A definition refers to one by its $id: {$ref: "
		    "https://example.com/schemas/address}.  "
	  "What a version of a tool refers to stays as it is: another text needs an $id of its own.  Lists of tools show the "
	  "schema inside of the tool's.",
	  .args = schema_add_args, .done = "schema %{id} %{said}", .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = schema_add_check, .body = schema_add_body },
	{ .noun = "schema", .verb = "list", .help = "List the shared schemas and the tools that use them", .args = no_args,
	  .columns = schema_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = schema_list_body },
	{ .noun = "schema", .verb = "show", .help = "Show a shared schema and who uses it", .args = schema_args,
	  .columns = schema_cols, .shape = ADM_ITEM, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = schema_show_body },
	{ .noun = "schema", .verb = "remove", .help = "Remove shared schemas that no tool uses",
	  .detail = "Old versions of tools that refer to it stay readable; they can be stored again once the schema is back.",
	  .args = schemas_args, .done = "schema %{id} removed", .destructive = true, .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .body = schema_remove_body },
	{ .noun = "schema", .verb = "check", .help = "Check a JSON Schema, and documents by it",
	  .detail = "Needs no store; with one, its shared schemas are known.  The schema is held to the rules for those of "
		    "tools, and failures are said in the words "
	  "that a caller of a tool reads.  Exit status 4 when there is something to say.", .args = schema_check_args,
	  .columns = finding_cols, .shape = ADM_FINDINGS, .store_if_any = true, .role = ADM_READ, .where = ADM_ON_LOOP,
	  .body = schema_check_body },
	{ .noun = NULL },
};
