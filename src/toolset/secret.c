/* Commands on secrets: set, list, remove, rekey.  A value passes through set's check() on the loop only, and from
 * there in guarded memory to the body on the writer; what the vault has in memory changes in after(). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "json/json.h"
#include "keys/vault.h"
#include "toolset/toolset.h"

#define NAME_SIZE 80                    /* of a secret, a tool, or upstream/NAME, with NUL */
#define MARK "{secret:"

/* --- which tool names which secret */

struct use { char secret[NAME_SIZE], tool[NAME_SIZE]; bool enabled; };
struct uses { struct use *v; size_t n; };

static void note_use(struct uses *u, const char *secret, size_t len, const char *tool, bool enabled)
{
	for (size_t i = u->n; i > 0 && strcmp(u->v[i - 1].tool, tool) == 0; i--) {
		if (text_eq(secret, len, u->v[i - 1].secret))
			return;
	}
	u->v = mem_realloc(u->v, (u->n + 1) * sizeof(*u->v));
	struct use *use = &u->v[u->n++];
	use->enabled = enabled;
	(void)snprintf(use->secret, sizeof(use->secret), "%.*s", (int)len, secret);
	(void)snprintf(use->tool, sizeof(use->tool), "%s", tool);
}

/* "{secret:k}" in the text of a handler or an upstream; "{{" is a brace and begins nothing. */
static void find_uses(struct uses *u, const char *handler, const char *tool, bool enabled)
{
	for (const char *p = handler; (p = strstr(p, MARK)) != NULL; p += strlen(MARK)) {
		const char *first = p, *name = p + strlen(MARK);
		size_t len = strcspn(name, "}");
		while (first > handler && first[-1] == '{')
			first--;
		if ((p - first) % 2 == 0 && text_tool_name(name, len))
			note_use(u, name, len, tool, enabled);
	}
}

static int find_uses_in(struct uses *u, const char *definition, size_t len, const char *tool, bool enabled,
			struct err *err)
{
	struct str handler = STR_INIT;
	json_t *root = NULL;

	int rc = jx_parse(definition, len, &root, err);
	if (rc < 0)
		return rc;
	const json_t *block = json_object_get(root, "handler");
	jx_write(block ? block : root, &handler);       /* an upstream's document has none */
	find_uses(u, str_text(&handler), tool, enabled);
	str_fini(&handler);
	json_decref(root);
	return 0;
}

/* By name of the tool. */
static int load_uses(struct db *db, struct uses *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SECRET_TOOLS);
	char tool[NAME_SIZE];
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		size_t len;
		const char *text = db_col_text(st, 0, &len);
		(void)snprintf(tool, sizeof(tool), "%.*s", (int)len, text);
		bool enabled = db_col_i64(st, 1) == ADM_TOOL_ENABLED;
		text = db_col_text(st, 2, &len);
		rc = find_uses_in(ret, text, len, tool, enabled, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

static int is_set(struct db *db, const char *name, bool *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SECRET_FIND);

	db_bind_textz(st, 1, name);
	int rc = db_step(st, err);
	*ret = rc == 1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int secrets_missing(struct db *db, const char *definition, struct str *ret, struct err *err)
{
	struct uses u = { NULL, 0 };

	int rc = find_uses_in(&u, definition, strlen(definition), "", true, err);
	for (size_t i = 0; i < u.n && rc == 0; i++) {
		bool set = false;
		rc = is_set(db, u.v[i].secret, &set, err);
		if (rc == 0 && !set)
			str_printf(ret, "%s%s", ret->len > 0 ? ", " : "", u.v[i].secret);
	}
	free(u.v);
	return rc;
}

/* --- set */

struct set_job {
	char *value; size_t len;        /* guarded memory */
	struct vault_change *change;
};

static void free_set(void *priv)
{
	struct set_job *job = priv;

	secret_free(job->value);
	vault_change_free(&job->change);
	free(job);
}

static int check_name(const char *name, struct err *err)
{
	if (text_tool_name(name, strlen(name)))
		return 0;
	return err_set(err, ERR_INVALID, "name", "%.80s: a name of a secret has 1 to 64 of A-Z a-z 0-9 _ . -", name);
}

static int secret_set_check(struct command_call *c, struct err *err)
{
	struct set_job *job = command_priv(c, sizeof(*job));
	const json_t *value = arg_json(c, "value");
	size_t len = json_string_length(value);

	c->free_priv = free_set;
	if (len <= VAULT_VALUE_MAX) {
		job->len = len;
		job->value = secret_alloc(len + 1);
		memcpy(job->value, json_string_value(value), len);
	}
	/* The tree is ours until the end of the command; what is left in it is dots, whatever the checks say. */
	memset((char *)(uintptr_t)json_string_value(value), '.', len);
	int rc = check_name(arg_text(c, "name"), err);
	if (rc == 0 && len < VAULT_VALUE_MIN)
		rc = err_set(err, ERR_INVALID, "value", "the value has %zu bytes; it needs %d, to be told from other text", len,
			     VAULT_VALUE_MIN);
	if (rc == 0 && len > VAULT_VALUE_MAX)
		rc = err_set(err, ERR_LIMIT, "value", "the value is longer than %u bytes", VAULT_VALUE_MAX);
	return rc;
}

static struct keyfile_place place_of(const struct command_call *c)
{
	return (struct keyfile_place){ command_env(c)->store, command_env(c)->master };
}

static int secret_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct set_job *job = c->priv;
	const struct keyfile_place place = place_of(c);
	char obj[NAME_SIZE + 40], key[KEYFILE_ID_SIZE], actor[ACTOR_SIZE];
	const char *name = arg_text(c, "name");
	const struct vault_new n = { .name = name, .value = job->value, .len = job->len, .actor = actor_text(&c->who, actor) };
	bool known = false;
	int rc = is_set(db, name, &known, err);

	if (rc == 0)
		rc = vault_set(db, &place, &n, key, &job->change, err);
	if (rc < 0)
		return rc;
	(void)snprintf(obj, sizeof(obj), "secret/%s@%s", name, key);
	rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_SECRET_SET, .obj = obj }, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "name", name);
	reply_text(c->out, "said", known ? "changed" : "set");
	reply_text(c->out, "key", key);
	reply_row_end(c->out);
	return 0;
}

static void secret_set_after(struct command_call *c)
{
	struct set_job *job = c->priv;

	vault_apply(command_env(c)->vault, &job->change);
}

/* --- list */

static void put_tools(struct reply *o, const struct uses *u, const char *secret)
{
	json_t *tools = json_array();

	for (size_t i = 0; i < u->n; i++) {
		if (strcmp(u->v[i].secret, secret) == 0)
			json_array_append_new(tools, json_string(u->v[i].tool));
	}
	reply_json(o, "tools", tools);
	json_decref(tools);
}

static void put_secret(struct command_call *c, struct db_stmt *st, const struct uses *u)
{
	char name[NAME_SIZE], text[64];
	size_t len;
	const char *p = db_col_text(st, 0, &len);

	(void)snprintf(name, sizeof(name), "%.*s", (int)len, p);
	reply_row_begin(c->out);
	reply_text(c->out, "name", name);
	reply_bool(c->out, "set", true);
	reply_time(c->out, "created", (uint64_t)db_col_i64(st, 2));
	reply_time(c->out, "changed", (uint64_t)db_col_i64(st, 3));
	p = db_col_text(st, 4, &len);
	(void)snprintf(text, sizeof(text), "%.*s", (int)len, p);
	reply_text(c->out, "actor", text);
	p = db_col_text(st, 1, &len);
	(void)snprintf(text, sizeof(text), "%.*s", (int)len, p);
	reply_text(c->out, "key", text);
	put_tools(c->out, u, name);
	reply_row_end(c->out);
}

/* What tools name, and nobody has set. */
static int put_missing(struct command_call *c, struct db *db, const struct uses *u, struct err *err)
{
	for (size_t i = 0; i < u->n; i++) {
		bool set = false, said = false;
		for (size_t k = 0; k < i && !said; k++)
			said = strcmp(u->v[k].secret, u->v[i].secret) == 0;
		int rc = said ? 0 : is_set(db, u->v[i].secret, &set, err);
		if (rc < 0)
			return rc;
		if (said || set)
			continue;
		reply_row_begin(c->out);
		reply_text(c->out, "name", u->v[i].secret);
		reply_bool(c->out, "set", false);
		reply_time(c->out, "created", 0);
		reply_time(c->out, "changed", 0);
		reply_text(c->out, "actor", NULL);
		reply_text(c->out, "key", NULL);
		put_tools(c->out, u, u->v[i].secret);
		reply_row_end(c->out);
	}
	return 0;
}

static int secret_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct uses u = { NULL, 0 };

	(void)logs;
	int rc = load_uses(db, &u, err);
	if (rc == 0) {
		struct db_stmt *st = db_stmt_get(db, SQL_SECRET_LIST);
		while ((rc = db_step(st, err)) == 1)
			put_secret(c, st, &u);
		db_stmt_put(&st);
	}
	if (rc == 0)
		rc = put_missing(c, db, &u, err);
	free(u.v);
	return rc;
}

/* --- remove */

struct remove_job { struct vault_change **change; size_t nchange; };

static void free_remove(void *priv)
{
	struct remove_job *job = priv;

	for (size_t i = 0; i < job->nchange; i++)
		vault_change_free(&job->change[i]);
	free(job->change);
	free(job);
}

static int secret_remove_check(struct command_call *c, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < arg_count(c, "name") && rc == 0; i++)
		rc = check_name(arg_nth(c, "name", i), err);
	return rc;
}

/* Its tools would fail from now on. */
static int refuse_used(const struct uses *u, const char *name, struct err *err)
{
	struct str tools = STR_INIT;

	for (size_t i = 0; i < u->n; i++) {
		if (u->v[i].enabled && strcmp(u->v[i].secret, name) == 0)
			str_printf(&tools, "%s%s", tools.len > 0 ? ", " : "", u->v[i].tool);
	}
	int rc = tools.len > 0 ? ERR_CONFLICT : 0;
	if (rc < 0) {
		(void)err_set(err, ERR_CONFLICT, "", "secret %s is used by %s", name, str_text(&tools));
		err_hint(err, "with --force it is removed all the same, and calls of these tools fail");
	}
	str_fini(&tools);
	return rc;
}

static int remove_one(struct command_call *c, struct db *db, struct audit_logs *logs, const char *name, struct err *err)
{
	struct remove_job *job = c->priv;
	char obj[NAME_SIZE + 8];

	int rc = vault_remove(db, name, &job->change[job->nchange], err);
	if (rc < 0)
		return rc;
	job->nchange++;
	(void)snprintf(obj, sizeof(obj), "secret/%s", name);
	rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_SECRET_REMOVE, .obj = obj }, err);
	reply_row_begin(c->out);
	reply_text(c->out, "name", name);
	reply_row_end(c->out);
	return rc;
}

static int secret_remove_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct remove_job *job = command_priv(c, sizeof(*job));
	size_t n = arg_count(c, "name");
	struct uses u = { NULL, 0 };
	int rc = arg_flag(c, "force") ? 0 : load_uses(db, &u, err);

	c->free_priv = free_remove;
	job->change = mem_calloc(n, sizeof(struct vault_change *));
	for (size_t i = 0; i < n && rc == 0; i++) {
		const char *name = arg_nth(c, "name", i);
		bool set = false;

		rc = is_set(db, name, &set, err);
		if (rc == 0 && set)
			rc = refuse_used(&u, name, err);
		if (rc == 0)
			rc = remove_one(c, db, logs, name, err);
	}
	free(u.v);
	return rc;
}

static void secret_remove_after(struct command_call *c)
{
	struct remove_job *job = c->priv;

	for (size_t i = 0; i < job->nchange; i++)
		vault_apply(command_env(c)->vault, &job->change[i]);
}

/* --- rekey */

static void free_rekey(void *priv)
{
	struct vault_change *change = priv;

	vault_change_free(&change);
}

/* One batch is one transaction and one record; the caller repeats the command while rows are left. */
static int secret_rekey_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct keyfile_place place = place_of(c);
	struct vault_rekeyed done = { 0 };
	struct vault_change *change = NULL;
	char obj[KEYFILE_ID_SIZE + 48];
	int rc = vault_rekey(db, &place, audit_logs_keys(logs), &done, &change, err);

	c->priv = change;               /* for after() */
	c->free_priv = free_rekey;
	if (rc < 0)
		return rc;
	(void)snprintf(obj, sizeof(obj), "secret-key/%s left=%zu", done.key, done.left);
	rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_KEY_ROTATE, .obj = obj }, err);
	for (size_t i = 0; i < done.nold && rc == 0; i++) {        /* intents: the files go after the COMMIT */
		(void)snprintf(obj, sizeof(obj), "secret-key/%s", done.old[i]);
		rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_KEY_DESTROY, .obj = obj }, err);
	}
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "key", done.key);
	reply_int(c->out, "rewritten", (int64_t)done.rewritten);
	reply_int(c->out, "left", (int64_t)done.left);
	reply_row_end(c->out);
	return 0;
}

static void secret_rekey_after(struct command_call *c)
{
	struct vault_change *change = c->priv;

	c->priv = NULL;
	vault_apply(command_env(c)->vault, &change);
	vault_change_free(&change);
}

/* --- rows of the command table */

static const struct command_arg secret_set_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "Letters, digits and _ . -, at most 64."),
	{ "file", "FILE", ARG_SECRET, true, false, false, COMPLETE_FILE,
	  "Read the value from here; else from standard input, from a terminal without echo." }, ARG_END };
static const struct command_arg secret_remove_args[] = {
	WORDS("name", "NAME", COMPLETE_NONE, "The secret."), FLAG("force", "Also while enabled tools use it."), ARG_END };
static const struct command_column secret_list_cols[] = {
	COL("name", "NAME"), COL("set", "SET"), COL_AT("changed", "CHANGED"),
	COL("actor", "BY (NOT EVIDENCE)"), COL("tools", "USED BY"),
	COL_END };

const struct command secret_commands[] = {
	{ .noun = "secret", .verb = "set", .help = "Store a value that tools get by name",
	  .detail = "A definition says {secret:NAME}.  The value is 4 bytes to 64 KiB of UTF-8 text; one line break at its "
		    "end is "
		    "dropped.  It is encrypted in the store, nobody can show it again, and it is blanked from what tools say.  "
		    "Calls that begin from now on use it.",
	  .args = secret_set_args, .done = "secret %{name} %{said}", .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = secret_set_check, .body = secret_set_body, .after = secret_set_after },
	{ .noun = "secret", .verb = "list", .help = "List secrets and the tools that use them, never a value",
	  .detail = "Also those that a tool uses and nobody has set.", .args = no_args, .columns = secret_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = secret_list_body },
	{ .noun = "secret", .verb = "remove", .help = "Remove secrets",
	  .detail = "Refused while an enabled tool uses one; with --force calls of such a tool fail until it is set again.",
	  .args = secret_remove_args, .done = "secret %{name} removed", .destructive = true, .role = ADM_OWNER,
	  .where = ADM_ON_WRITER,
	  .check = secret_remove_check, .body = secret_remove_body, .after = secret_remove_after },
	{ .noun = "secret", .verb = "rekey", .help = "Encrypt all secrets under a new key",
	  .detail = "Makes a key file beside the store and rewrites the secrets, 64 in each transaction, while the server "
		    "serves.  When it is interrupted, the same command goes on.  The old key file is removed after the last "
		    "one; master.key stays, since it is needed to check keys.  A backup made before needs the key file of then.",
	  .args = no_args, .done = "%{rewritten} secrets are under the new key %{key}, %{left} are left", .stepwise = true,
	  .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .body = secret_rekey_body, .after = secret_rekey_after },
	{ .noun = NULL },
};
