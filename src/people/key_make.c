/* key create, and the row of a key. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "command/rows.h"
#include "db/db.h"
#include "tenant/arg_rule.h"
#include "tenant/cidr.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"

#include "people_int.h"

#define SCOPES_TEXT_MAX 8192

struct key_create {
	char tenant[64], principal[64];
	uint64_t ttl_ms;
	struct str scopes, cidr, rules;
	struct key_terms terms;
	struct key_pepper pepper;
	struct key_new key;
};

static void free_create(void *priv)
{
	struct key_create *job = priv;

	str_fini(&job->scopes);
	str_fini(&job->cidr);
	str_fini(&job->rules);
	secret_wipe(job, sizeof(*job));
	free(job);
}

int key_life(const struct command_call *c, const char *name, uint64_t def_ms, uint64_t *ret_ms, struct err *err)
{
	*ret_ms = arg_duration_ms(c, name, def_ms);
	if (*ret_ms < KEY_TTL_MIN_MS || *ret_ms > KEY_TTL_MAX_MS)
		return err_set(err, ERR_LIMIT, name, "%s: a key lives from 1s to 365d", name);
	return 0;
}

/* All values of a repeated option in one text. */
static int gather(const struct command_call *c, const char *name, char between, struct str *ret, struct err *err)
{
	for (size_t i = 0; i < arg_count(c, name); i++) {
		const char *text = arg_nth(c, name, i);

		if (!*text || strchr(text, '\n'))
			return err_set(err, ERR_INVALID, name, "%s: must be one line that is not empty", name);
		if (ret->len > 0)
			str_putc(ret, between);
		str_puts(ret, text);
	}
	return ret->len > SCOPES_TEXT_MAX * 4 ? err_set(err, ERR_LIMIT, name, "%s: too much of it", name) : 0;
}

/* In the long form, so that what is shown is what was meant. */
static int check_scopes(const struct command_call *c, struct key_create *job, struct err *err)
{
	struct scopes *scopes = NULL;
	struct str given = STR_INIT;
	int rc = gather(c, "scope", ' ', &given, err);

	if (rc == 0 && given.len > 0)
		rc = scopes_parse(given.p, given.len, &scopes, err);
	if (rc == 0 && scope_has(scopes, SCOPES_OF_ADMINS) && !actor_may(c->admin, &c->who, ADM_OWNER, NULL))
		rc = err_set(err, ERR_DENIED, "scope", "audit and admin scopes are for an administrator of the store to give");
	if (scopes) {
		scopes_print(scopes, &job->scopes);
		job->terms.scopes = job->scopes.p;
	}
	scopes_unref(&scopes);
	str_fini(&given);
	return rc;
}

static int check_places_and_rules(const struct command_call *c, struct key_create *job, struct err *err)
{
	struct cidrs *cidrs = NULL;
	struct arg_rules *rules = NULL;
	int rc = gather(c, "cidr", ' ', &job->cidr, err);

	if (rc == 0)
		rc = cidrs_parse(str_text(&job->cidr), job->cidr.len, &cidrs, err);
	if (rc == 0)
		rc = gather(c, "arg-rule", '\n', &job->rules, err);
	if (rc == 0)
		rc = arg_rules_parse(str_text(&job->rules), job->rules.len, &rules, err);
	cidrs_free(&cidrs);
	arg_rules_unref(&rules);
	job->terms.cidr = job->cidr.p;
	job->terms.rules = job->rules.p;
	return rc;
}

static int check_life(struct command_call *c, struct key_create *job, struct err *err)
{
	bool enrols = arg_flag(c, "one-shot");
	uint64_t key_ttl_ms = 0;
	int rc = key_life(c, "ttl", enrols ? KEY_DAY_MS : KEY_TTL_DEFAULT_MS, &job->ttl_ms, err);

	if (rc == 0)
		rc = key_life(c, "key-ttl", KEY_TTL_DEFAULT_MS, &key_ttl_ms, err);
	if (rc < 0)
		return rc;
	if (arg_given(c, "key-ttl") && !enrols)
		return err_set(err, ERR_INVALID, "key-ttl", "--key-ttl is for keys with --one-shot; for others say --ttl");
	job->terms.enrol_ttl_us = enrols ? key_ttl_ms * 1000 : 0;
	job->terms.not_before_us = arg_time(c, "not-before");
	if (!arg_given(c, "not-before"))
		return 0;
	if (job->terms.not_before_us <= clock_wall_us()) {
		(void)err_set(err, ERR_INVALID, "not-before", "not-before: %s has passed", arg_text(c, "not-before"));
		err_hint(err, "say a time to come as in 2030-01-31T08:00:00Z, or leave it out");
		return ERR_INVALID;
	}
	if (job->terms.not_before_us > clock_wall_us() + KEY_TTL_MAX_MS * 1000)
		return err_set(err, ERR_LIMIT, "not-before", "not-before: at most a year ahead");
	return 0;
}

static int key_create_check(struct command_call *c, struct err *err)
{
	struct key_create *job = command_priv(c, sizeof(*job));
	const char *label = arg_text(c, "label");
	int rc = arg_split(arg_text(c, "principal"), job->tenant, job->principal, err);

	c->free_priv = free_create;
	if (rc == 0)
		rc = check_life(c, job, err);
	if (rc == 0)
		rc = check_scopes(c, job, err);
	if (rc == 0)
		rc = check_places_and_rules(c, job, err);
	if (rc < 0)
		return rc;
	if (label && strlen(label) > KEY_LABEL_MAX)
		return err_set(err, ERR_LIMIT, "label", "the label is longer than %d bytes", KEY_LABEL_MAX);
	key_pepper_derive(command_env(c)->master, &job->pepper);
	return 0;
}

static int check_room(struct db *db, const struct tenant_row *t, struct err *err)
{
	int64_t count = 0;
	int rc = tenant_row_count(db, SQL_ADMIN_KEY_COUNT, t->id, &count, err);

	if (rc < 0)
		return rc;
	if (count >= TENANT_KEYS_MAX)
		return err_set(err, ERR_LIMIT, "", "tenant %s has %d keys, which is the limit: revoke some", t->name,
			       TENANT_KEYS_MAX);
	return 0;
}

static void bind_us(struct db_stmt *st, unsigned pos, uint64_t us)
{
	if (us)
		db_bind_i64(st, pos, (int64_t)us);
	else
		db_bind_null(st, pos);
}

static void bind_maybe(struct db_stmt *st, unsigned pos, const char *text)
{
	if (text)
		db_bind_textz(st, pos, text);
	else
		db_bind_null(st, pos);
}

static int insert_row(struct db *db, int64_t tenant_id, int64_t principal_id, const struct key_new *key,
		      const struct key_terms *terms, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_KEY_INSERT);

	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, principal_id);
	db_bind_textz(st, 3, key->accessor);
	db_bind_blob(st, 4, key->hash, sizeof(key->hash));
	db_bind_textz(st, 5, terms->label);
	db_bind_i64(st, 6, (int64_t)clock_wall_us());
	db_bind_i64(st, 7, (int64_t)terms->expires_us);
	bind_us(st, 8, terms->not_before_us);
	bind_maybe(st, 9, terms->scopes);
	bind_maybe(st, 10, terms->cidr);
	bind_maybe(st, 11, terms->rules);
	bind_us(st, 12, terms->enrol_ttl_us);
	bind_us(st, 13, (uint64_t)terms->parent_id);
	return db_run(&st, err);
}

int key_insert(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		   const struct principal_row *p, const struct key_new *key, const struct key_terms *terms, const char *reason,
		   struct err *err)
{
	char obj[32];
	int rc = check_room(db, t, err);

	if (rc == 0)
		rc = insert_row(db, t->id, p->id, key, terms, err);
	(void)snprintf(obj, sizeof(obj), "cred/%s", key->accessor);
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_CRED_CREATE, .tenant_id = t->id, .obj = obj,
			.accessor = key->accessor, .prn = p->pseudonym, .reason = reason }, err);
	return rc < 0 ? rc : command_changed_people(c, db, t->id, err);
}

void put_new_key(struct reply *o, const struct key_new *key, const char *tenant, const char *principal,
		 uint64_t expires_us)
{
	char name[160];

	(void)snprintf(name, sizeof(name), "%s/%s", tenant, principal);
	reply_row_begin(o);
	reply_text(o, "key", key->text);
	reply_text(o, "accessor", key->accessor);
	reply_text(o, "principal", name);
	reply_time(o, "expires", expires_us);
	reply_row_end(o);
}

static int key_create_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct key_create *job = c->priv;
	struct tenant_row t;
	struct principal_row p;
	uint64_t now = clock_wall_us();
	int rc = tenant_row_find(db, job->tenant, &t, err);

	if (rc < 0)
		return rc;
	rc = principal_row_find(db, &t, job->principal, &p, err);
	if (rc == ERR_NOT_FOUND)
		rc = principal_row_add(db, &t, job->principal, &p, err);
	if (rc < 0)
		return rc;
	key_make(&job->pepper, &job->key);
	job->terms.label = arg_text(c, "label");
	if (!job->terms.label)
		job->terms.label = "";
	job->terms.expires_us = (job->terms.not_before_us ? job->terms.not_before_us : now) + job->ttl_ms * 1000;
	rc = key_insert(c, db, logs, &t, &p, &job->key, &job->terms, NULL, err);
	if (rc == 0)
		put_new_key(c->out, &job->key, job->tenant, job->principal, job->terms.expires_us);
	return rc;
}

/* --- rows of the command table */

static const struct command_arg key_create_args[] = {
	WORD("principal", "TENANT/NAME", COMPLETE_PRINCIPAL, "Whom the key is for; created when it is missing."),
	OPT("ttl", "TIME", ARG_DURATION, COMPLETE_NONE, "Life of the key, at most 365d; default 90d, 1d with --one-shot."),
	OPT("not-before", "TIME", ARG_TIME, COMPLETE_NONE, "It is not valid before; its life begins then."),
	OPTS("scope", "WORDS", ARG_TEXT, COMPLETE_NONE, "What it may do, as in SCOPES; default: whatever the tenant's grants "
		"show."),
	OPTS("cidr", "NETWORK", ARG_TEXT, COMPLETE_NONE,
	     "Where it may be used, such as 10.0.0.0/8; sockets and pipes of this machine count as 127.0.0.1."),
	OPTS("arg-rule", "RULE", ARG_TEXT, COMPLETE_NONE, "What arguments must be, as in SCOPES."),
	FLAG("one-shot", "The key calls nothing; key enroll exchanges it, once, for one that has the rest."),
	OPT("key-ttl", "TIME", ARG_DURATION, COMPLETE_NONE, "Life of the key that a one-shot key is exchanged for; default "
		"90d."),
	OPT("label", "TEXT", ARG_TEXT, COMPLETE_NONE, "A note for people: where the key is used."), ARG_END };
static const struct command_column key_create_cols[] = { COL("key", "KEY"), COL_END };

const struct command key_make_commands[] = {
	{ .noun = "key", .verb = "create", .help = "Create a key and show it once",
	  .detail = "The key goes to standard output, the rest to standard error.  Only a keyed hash of it is stored: "
		    "nobody can show it again.  A tenant has at most 10000 keys that are not revoked, and 10000 principals.",
	  .args = key_create_args, .columns = key_create_cols,
	  .done = "key %{accessor} of %{principal} expires %{expires}; it is not shown again", .shape = ADM_SECRET,
	  .role = ADM_OWNER, .own = "principal", .where = ADM_ON_WRITER,
	  .check = key_create_check, .body = key_create_body },
	{ .noun = NULL },
};
