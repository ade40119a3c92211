/* Pseudonyms (AUDIT ).  A person, an address, a claimed client stands in records by a random
 * name.  Its first use writes alias.new, which commits to the value, and a row of alias, which holds it encrypted. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/payload.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "keys/keys.h"

#include "audit_int.h"

enum { NAME_CHARS = 16, TOKEN_SIZE = DIGEST_SIZE };
#define DAY_US UINT64_C(86400000000)

static const struct { const char *prefix, *other; unsigned ctag; } kinds[] = {
	[AUDIT_ALIAS_PERSON] = { "prn_", NULL, AUDIT_C_PERSON },
	[AUDIT_ALIAS_BEHALF] = { "prn_", NULL, AUDIT_C_PERSON },
	[AUDIT_ALIAS_ADDRESS] = { "adr_", "adr_other", AUDIT_C_ADDRESS },
	[AUDIT_ALIAS_CLIENT] = { "cli_", "cli_other", AUDIT_C_CLIENT },
};

unsigned audit_pseudonym_ctag(int64_t kind)
{
	return kind >= AUDIT_ALIAS_PERSON && kind <= AUDIT_ALIAS_CLIENT ? kinds[kind].ctag : 0;
}

/* A value whose pseudonym is to be found. */
struct asked {
	struct audit_logs *logs;
	struct db *db;
	struct audit_log *log;
	const struct audit_event *ev;   /* that it comes with */
	audit_append_fn *append;
	enum audit_pseudonym kind;
	const char *value;
	size_t len;
	uint8_t token[TOKEN_SIZE];
};

static int make_token(struct asked *a, struct err *err)
{
	const uint8_t *key = NULL;
	char label[] = "toolcrib/alias/1/?";
	int rc = keys_token(a->logs->keys, a->db, a->log->tenant_id, &key, err);

	if (rc < 0)
		return rc;
	label[sizeof(label) - 2] = (char)('0' + a->kind);
	digest_keyed(key, label, sizeof(label), a->value, a->len, a->token);
	return 0;
}

/* --- those that are known: log, kind, token -> name */

static size_t cache_key(const struct asked *a, char *ret)
{
	int64_t at[2] = { a->log->id, a->kind };

	memcpy(ret, at, sizeof(at));
	memcpy(ret + sizeof(at), a->token, TOKEN_SIZE);
	return sizeof(at) + TOKEN_SIZE;
}

static uint64_t value_tag(const struct asked *a)
{
	return near_tag((uint64_t)a->log->id << 8 | a->kind, a->value, a->len);
}

/* By its value, without a token; NULL does not say that it is not known. */
static const struct audit_pseudonym_known *find_near(const struct asked *a)
{
	const struct audit_pseudonym_known *c = near_get(a->logs->near_aliases, value_tag(a));
	const int64_t at[2] = { a->log->id, a->kind };

	if (!c || c->value_len != a->len || memcmp(c->key, at, sizeof(at)) != 0)
		return NULL;
	return memcmp(c->value, a->value, a->len) == 0 ? c : NULL;
}

static const char *keep_near(const struct asked *a, struct audit_pseudonym_known *c)
{
	if (c->value_len > 0)
		near_put(a->logs->near_aliases, value_tag(a), c);
	return c->name;
}

static const char *remember(struct asked *a, const char *name)
{
	struct audit_pseudonym_known *c = mem_alloc(sizeof(*c));

	c->len = cache_key(a, c->key);
	snprintf(c->name, sizeof(c->name), "%s", name);  /* names of ours fit */
	c->value_len = a->len <= sizeof(c->value) ? a->len : 0;
	memcpy(c->value, a->value, c->value_len);
	audit_pseudonym_keep(a->logs, c);
	return keep_near(a, c);
}

/* --- a new one */

static int insert_alias(struct asked *a, const char *name, int64_t idx, struct err *err)
{
	uint8_t nonce[AEAD_NONCE], ct[AUDIT_ALIAS_VALUE_MAX + AEAD_TAG];
	const struct keys_dek *dek = NULL;
	struct db_stmt *st;
	int rc = audit_shared_locked(a->logs, err);

	if (rc == 0)
		rc = keys_dek(a->logs->keys, a->db, a->log->tenant_id, a->ev->prn ? a->ev->prn : "", a->ev->time_us, &dek, err);

	if (rc < 0)
		return rc;
	audit_pseudonym_seal(dek->ekey, dek->id, a->kind, a->log->origin, name, a->value, a->len, nonce, ct);
	st = db_stmt_get(a->db, SQL_ALIAS_INSERT);
	db_bind_i64(st, 1, a->log->id);
	db_bind_i64(st, 2, a->kind);
	db_bind_blob(st, 3, a->token, TOKEN_SIZE);
	db_bind_textz(st, 4, name);
	db_bind_i64(st, 5, idx);
	db_bind_i64(st, 6, dek->id);
	db_bind_blob(st, 7, nonce, sizeof(nonce));
	db_bind_blob(st, 8, ct, a->len + AEAD_TAG);
	return db_run(&st, err);
}

/* alias.new and its row, in this transaction. */
static int introduce(struct asked *a, const char *name, struct err *err)
{
	const struct audit_payload payload = { .level = AUDIT_METADATA, .n = 1,
		.value = { { .ctag = kinds[a->kind].ctag, .p = a->value, .len = a->len } } };
	struct audit_event ev;
	int rc;

	audit_event_init(&ev, AUDIT_ALIAS_NEW, a->log->tenant_id);
	ev.time_us = a->ev->time_us;
	ev.mono_us = a->ev->mono_us;
	ev.actor = AUDIT_BY_SYSTEM;
	ev.prn = a->ev->prn;
	ev.obj = name;
	ev.payload = &payload;
	rc = a->append(a->logs, a->db, a->log, &ev, err);
	return rc < 0 ? rc : insert_alias(a, name, a->log->size - 1, err);
}

/* AUDIT A-633: what callers choose can fill the store no faster than this. */
static bool too_many(struct asked *a)
{
	uint64_t day = a->ev->time_us / DAY_US;

	if (a->log->alias_day != day) {
		a->log->alias_day = day;
		a->log->alias_count = 0;
	}
	return a->log->alias_count++ >= AUDIT_ALIASES_PER_DAY;
}

/* 1 and the name, 0: there is none. */
static int find_alias(struct asked *a, char ret[32], struct err *err)
{
	struct db_stmt *st = db_stmt_get(a->db, SQL_ALIAS_FIND);
	int rc;

	db_bind_i64(st, 1, a->log->id);
	db_bind_i64(st, 2, a->kind);
	db_bind_blob(st, 3, a->token, TOKEN_SIZE);
	rc = db_step(st, err);
	if (rc == 1)
		snprintf(ret, 32, "%s", db_col_text(st, 0, NULL));      /* as it was cut when it was written */
	db_stmt_put(&st);
	return rc;
}

static int alias_of(struct asked *a, const char **ret, struct err *err)
{
	const struct audit_pseudonym_known *near = find_near(a);
	struct audit_pseudonym_known *c;
	char key[16 + TOKEN_SIZE], name[32];
	int rc = near ? 0 : make_token(a, err);

	if (rc < 0)
		return rc;
	c = near ? NULL : map_get(a->logs->aliases, key, cache_key(a, key));
	if (near || c) {
		*ret = near ? near->name : keep_near(a, c);
		return 0;
	}
	rc = find_alias(a, name, err);
	if (rc == 0 && too_many(a)) {
		*ret = kinds[a->kind].other;
		return 0;
	}
	if (rc == 0) {
		snprintf(name, sizeof(name), "%s", kinds[a->kind].prefix);
		id_random_text(name + strlen(name), NAME_CHARS);
		rc = introduce(a, name, err);
	}
	if (rc < 0)
		return rc;
	*ret = remember(a, name);
	return 0;
}

static int intern_alias(struct audit_logs *logs, struct db *db, struct audit_log *log, const struct audit_event *ev,
			audit_append_fn *append, enum audit_pseudonym kind, struct audit_row *row, struct err *err)
{
	const char *value = kind == AUDIT_ALIAS_ADDRESS ? ev->peer : ev->client, *name = NULL;
	struct asked a = { .logs = logs, .db = db, .log = log, .ev = ev, .append = append, .kind = kind,
			   .value = value };
	int rc;

	if (!value || !*value)
		return 0;
	a.len = strnlen(value, AUDIT_ALIAS_VALUE_MAX);
	rc = alias_of(&a, &name, err);
	if (rc < 0)
		return rc;
	return audit_row_intern(row, kind == AUDIT_ALIAS_ADDRESS ? COL_PEER : COL_CLIENT, name, logs, db, err);
}

/* --- persons: the pseudonym is there already, made with the principal */

static int has_alias(struct db *db, const char *name, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALIAS_GET);
	int rc;

	db_bind_textz(st, 1, name);
	rc = db_step(st, err);
	db_stmt_put(&st);
	return rc;
}

/* 1 and its name, 0: no principal of this tenant has this pseudonym. */
static int person_name(struct db *db, int64_t tenant_id, const char *prn, char ret[AUDIT_ALIAS_VALUE_MAX + 1],
		       struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALIAS_GET_PERSON);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, prn);
	rc = db_step(st, err);
	if (rc == 1)
		snprintf(ret, AUDIT_ALIAS_VALUE_MAX + 1, "%s", db_col_text(st, 0, NULL));       /* at most 63 */
	db_stmt_put(&st);
	return rc;
}

static int introduce_person(struct audit_logs *logs, struct db *db, struct audit_log *log, const struct audit_event *ev,
			    audit_append_fn *append, struct err *err)
{
	struct asked a = { .logs = logs, .db = db, .log = log, .ev = ev, .append = append, .kind = AUDIT_ALIAS_PERSON };
	char value[AUDIT_ALIAS_VALUE_MAX + 1];
	int rc = has_alias(db, ev->prn, err);

	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = person_name(db, log->tenant_id, ev->prn, value, err);
	if (rc <= 0)
		return rc;
	a.value = value;
	a.len = strlen(value);
	rc = make_token(&a, err);
	return rc < 0 ? rc : introduce(&a, ev->prn, err);
}

static int meet_person(struct audit_logs *logs, struct db *db, struct audit_log *log, const struct audit_event *ev,
		       audit_append_fn *append, struct err *err)
{
	struct asked known = { .logs = logs, .log = log, .kind = AUDIT_ALIAS_PERSON, .value = ev->prn };
	struct audit_pseudonym_known *c;
	char key[16 + TOKEN_SIZE];
	int rc;

	known.len = strlen(ev->prn);
	if (find_near(&known))
		return 0;
	snprintf((char *)known.token, sizeof(known.token), "%s", ev->prn);       /* pseudonyms are shorter */
	c = map_get(logs->aliases, key, cache_key(&known, key));
	if (c) {
		(void)keep_near(&known, c);
		return 0;
	}
	rc = introduce_person(logs, db, log, ev, append, err);
	if (rc == 0)
		(void)remember(&known, ev->prn);
	return rc;
}

int audit_pseudonym_fill(struct audit_logs *logs, struct db *db, struct audit_log *log, const struct audit_event *ev,
		     audit_append_fn *append, struct audit_row *row, struct err *err)
{
	int rc = 0;

	if (!logs->keys)
		return 0;
	if (ev->prn && log->tenant_id)
		rc = meet_person(logs, db, log, ev, append, err);
	if (rc == 0)
		rc = intern_alias(logs, db, log, ev, append, AUDIT_ALIAS_ADDRESS, row, err);
	if (rc == 0)
		rc = intern_alias(logs, db, log, ev, append, AUDIT_ALIAS_CLIENT, row, err);
	return rc;
}
