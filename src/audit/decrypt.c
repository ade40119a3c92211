/* Opening what records commit to: for people who may, and for outsiders, one record at a time (AUDIT A-507). */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/payload.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "db/db.h"
#include "keys/keys.h"

#include "audit_int.h"

/* A record as it stands in the row of payload_get. */
struct stood {
	struct audit_cm cm[AUDIT_COMMITS_MAX];
	size_t ncm;
	struct audit_at at;
	int64_t key;
	const uint8_t *salt, *nonce, *ct;
	size_t ct_len;
	uint8_t *values;                /* decrypted, ours */
	struct audit_kept kept[AUDIT_COMMITS_MAX];
	size_t nkept;
};

static int corrupt(struct err *err, int64_t idx, const char *what)
{
	return err_set(err, ERR_CORRUPT, "audit", "record %" PRId64 ": %s", idx, what);
}

/* A salt or a nonce of the right size, or NULL. */
static const uint8_t *blob_of(struct db_stmt *st, unsigned col, size_t size)
{
	size_t len;
	const uint8_t *p = db_col_blob(st, col, &len);

	return db_col_type(st, col) != DB_NULL && len == size ? p : NULL;
}

static int read_stood(struct db_stmt *st, int64_t idx, struct stood *ret, struct err *err)
{
	size_t len;
	const uint8_t *cm = db_col_blob(st, 0, &len);

	if (!audit_cm_read(cm, len, ret->cm, &ret->ncm))
		return corrupt(err, idx, "the commitments are damaged");
	ret->key = db_col_i64(st, 1);
	ret->salt = blob_of(st, 3, AUDIT_SALT_SIZE);
	ret->nonce = blob_of(st, 4, AEAD_NONCE);
	ret->ct = db_col_blob(st, 5, &ret->ct_len);
	ret->at.origin = db_col_text(st, 6, &ret->at.origin_len);
	ret->at.idx = (uint64_t)idx;
	return 0;
}

static int decrypt(struct stood *s, const struct keys_dek *dek, struct err *err)
{
	const int64_t idx = (int64_t)s->at.idx;
	size_t len;

	if (!s->nonce)
		return 0;
	if (s->ct_len < AEAD_TAG)
		return corrupt(err, idx, "the payload is damaged");
	len = s->ct_len - AEAD_TAG;
	s->values = mem_alloc(len + 1);
	if (audit_payload_open(dek->ekey, s->key, s->salt, &s->at, s->nonce, s->ct, s->ct_len, s->values) < 0 ||
	    !audit_kept_read(s->values, len, s->kept, &s->nkept))
		return corrupt(err, idx, "the payload does not open");
	return 0;
}

static const struct audit_kept *kept_of(const struct stood *s, unsigned ctag)
{
	for (size_t i = 0; i < s->nkept; i++)
		if (s->kept[i].ctag == ctag)
			return &s->kept[i];
	return NULL;
}

/* dek NULL: it is destroyed. */
static int tell(const struct stood *s, const struct keys_dek *dek, audit_opened_fn *fn, void *arg, struct err *err)
{
	for (size_t i = 0; i < s->ncm; i++) {
		const struct audit_kept *kept = kept_of(s, s->cm[i].ctag);
		struct audit_opened o = { .ctag = s->cm[i].ctag, .commitment = s->cm[i].commitment };
		uint8_t opening[32], commitment[32];

		if (dek && s->salt) {
			audit_opening(dek->key, s->salt, &s->at, o.ctag, opening);
			o.opening = opening;
		}
		if (kept) {
			audit_commitment(opening, o.ctag, kept->p, kept->len, commitment);
			if (memcmp(commitment, o.commitment, sizeof(commitment)) != 0)
				return corrupt(err, (int64_t)s->at.idx, "a value is not the one that was committed to");
			o.p = kept->p;
			o.len = kept->len;
		}
		if (fn(arg, &o) != 0)
			break;
	}
	return 0;
}

static int open_stood(struct keys *keys, int64_t tenant_id, struct stood *s, audit_opened_fn *fn, void *arg,
		      struct err *err)
{
	const struct keys_dek *dek = NULL;
	int rc = keys_find(keys, tenant_id, s->key, &dek, err);

	if (rc == ERR_NOT_FOUND)        /* erased */
		rc = 0;
	else if (rc == 0 && s->salt)
		rc = decrypt(s, dek, err);
	if (rc == 0)
		rc = tell(s, dek, fn, arg, err);
	free(s->values);
	return rc;
}

int audit_open_record(struct db *db, struct keys *keys, int64_t tenant_id, int64_t idx, audit_opened_fn *fn, void *arg,
		      struct err *err)
{
	struct db_stmt *st;
	int64_t log = 0;
	int rc = audit_log_of(db, tenant_id, &log, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_PAYLOAD_GET);
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	if (rc == 1 && db_col_type(st, 0) != DB_NULL) {
		struct stood s = { 0 };

		rc = read_stood(st, idx, &s, err);
		if (rc == 0)
			rc = open_stood(keys, tenant_id, &s, fn, arg, err);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* --- pseudonyms */

static int open_row(struct db_stmt *st, struct keys *keys, int64_t tenant_id, const char *origin,
		    const char *pseudonym, char **ret, struct err *err)
{
	const struct keys_dek *dek = NULL;
	const uint8_t *nonce = blob_of(st, 3, AEAD_NONCE);
	int64_t key = db_col_i64(st, 2);
	size_t len;
	const uint8_t *ct = db_col_blob(st, 4, &len);
	int rc = keys_find(keys, tenant_id, key, &dek, err);
	char *value;

	if (rc < 0)
		return rc;
	if (!nonce || len < AEAD_TAG)
		return err_set(err, ERR_CORRUPT, "audit", "the row of %s is damaged", pseudonym);
	value = mem_zalloc(len - AEAD_TAG + 1);
	rc = audit_pseudonym_open(dek->ekey, key, (int)db_col_i64(st, 1), origin, pseudonym, nonce, ct, len, (uint8_t *)value);
	if (rc < 0) {
		free(value);
		return err_set(err, ERR_CORRUPT, "audit", "the row of %s does not open", pseudonym);
	}
	*ret = value;
	return 0;
}

static int origin_of(struct db *db, int64_t log, char **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALIAS_ORIGIN);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = mem_strdup(db_col_text(st, 0, NULL));
	db_stmt_put(&st);
	return rc == 0 ? err_set(err, ERR_NOT_FOUND, "audit", "there is no log %" PRId64, log) : rc < 0 ? rc : 0;
}

int audit_open_pseudonym(struct db *db, struct keys *keys, int64_t tenant_id, const char *pseudonym, char **ret,
		     struct err *err)
{
	struct db_stmt *st;
	char *origin = NULL;
	int64_t log = 0;
	int rc = audit_log_of(db, tenant_id, &log, err);

	if (rc == 0)
		rc = origin_of(db, log, &origin, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_ALIAS_GET);
	db_bind_textz(st, 1, pseudonym);
	rc = db_step(st, err);
	if (rc == 1 && db_col_i64(st, 0) == log)
		rc = open_row(st, keys, tenant_id, origin, pseudonym, ret, err);
	else if (rc >= 0)
		rc = err_set(err, ERR_NOT_FOUND, "audit", "%s: not found, or erased", pseudonym);
	db_stmt_put(&st);
	free(origin);
	return rc;
}
