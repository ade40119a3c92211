/* The keys (AUDIT 8, step 2): from the pinned key of the first epoch to the newest, each signed by the one before;
 * what was signed with another key, or by a later one in the name of an earlier, is wrong.  The steps that meet
 * signatures ask here whether they are good. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "base/mem.h"
#include "db/db.h"
#include "tlog/signer.h"

#include "verify_int.h"

struct verify_keys {
	char instance[NOTE_NAME_MAX + 1];
	bool has_log_key;
	uint8_t log_key[SIGN_PUBLIC_SIZE];
	uint8_t (*epoch)[SIGN_PUBLIC_SIZE];
	size_t n, cap;
};

/* --- the chain */

static int read_instance(struct verify *v, char ret[NOTE_NAME_MAX + 1], struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_GET_SYSTEM);
	int rc = db_step(st, err);

	if (rc == 1)
		snprintf(ret, NOTE_NAME_MAX + 1, "%s", db_col_text(st, 0, NULL));
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static const struct note_key *pinned(const struct verify *v, const char *name)
{
	for (size_t i = 0; i < v->with->nkey; i++)
		if (strcmp(v->with->key[i].name, name) == 0)
			return &v->with->key[i];
	return NULL;
}

/* An epoch that is pinned must have that key; the first one has nothing else to vouch for it. */
static bool is_as_pinned(const struct verify *v, uint64_t n, const uint8_t public[SIGN_PUBLIC_SIZE])
{
	const struct note_key *pin;
	struct note_key key;

	if (epoch_key_set(&key, v->keys->instance, n, public) < 0)
		return false;
	pin = pinned(v, key.name);
	v->sum->pinned |= pin != NULL;
	return !pin || memcmp(pin->public, public, SIGN_PUBLIC_SIZE) == 0;
}

static void add_epoch(struct verify *v, uint64_t n, const void *pk, size_t pk_len, const void *cert, size_t cert_len)
{
	struct verify_keys *k = v->keys;
	uint8_t text[EPOCH_CERT_TEXT], public[SIGN_PUBLIC_SIZE] = { 0 };
	char detail[80];
	bool good = pk_len == sizeof(public) && n == k->n;

	if (good) {
		memcpy(public, pk, sizeof(public));
		epoch_cert_text(n, public, text);
		good = is_as_pinned(v, n, public) &&
		       (n == 0 ? cert_len == 0 : cert_len == SIGN_SIZE && sign_check(k->epoch[n - 1], text, sizeof(text), cert));
	}
	if (!good) {
		snprintf(detail, sizeof(detail), "epoch %" PRIu64 " does not follow from the one before", n);
		verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, detail);
	}
	if (k->n == k->cap) {
		k->cap = k->cap ? 2 * k->cap : 64;
		k->epoch = mem_realloc(k->epoch, k->cap * sizeof(*k->epoch));
	}
	memcpy(k->epoch[k->n++], public, sizeof(public));
}

/* Epochs that are not known yet: the store may be in use. */
static int load_epochs(struct verify *v, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_EPOCHS);
	int rc;

	db_bind_i64(st, 1, (int64_t)v->keys->n);
	while ((rc = db_step(st, err)) == 1) {
		size_t pk_len = 0, cert_len = 0;
		const void *pk = db_col_blob(st, 1, &pk_len), *cert = db_col_blob(st, 2, &cert_len);

		add_epoch(v, (uint64_t)db_col_i64(st, 0), pk, pk_len, cert, cert_len);
	}
	db_stmt_put(&st);
	return rc;
}

static int keys_open(struct verify *v, struct err *err)
{
	struct verify_keys *k = v->keys = mem_zalloc(sizeof(*k));
	const struct note_key *pin;
	int rc = read_instance(v, k->instance, err);

	if (rc == 0) {
		rc = audit_log_key_get(v->db, k->log_key, err);
		if (rc == ERR_CORRUPT) {
			verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, err->msg);
			rc = 0;
		}
		k->has_log_key = rc == 1;
	}
	if (rc >= 0)
		rc = load_epochs(v, err);
	if (rc < 0)
		return rc;
	pin = pinned(v, k->instance);
	if (pin && (!k->has_log_key || memcmp(pin->public, k->log_key, sizeof(k->log_key)) != 0))
		verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, "the key of the logs is not the pinned one");
	if (pin)
		memcpy(k->log_key, pin->public, sizeof(k->log_key));
	k->has_log_key |= pin != NULL;
	if (k->n > 0 && !k->has_log_key)
		verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, "the store does not name the key of its logs");
	if (v->with->nkey > 0 && !v->sum->pinned)
		verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, "the store has no epoch of which a key is pinned");
	v->sum->epochs = k->n;
	return 0;
}

/* --- signatures */

bool verify_keys_signed(const struct verify *v)
{
	return v->keys->n > 0;
}

uint64_t verify_keys_newest(const struct verify *v)
{
	return v->keys->n - 1;
}

static bool is_signed(const struct note *n, const char *name, const uint8_t public[SIGN_PUBLIC_SIZE])
{
	struct note_key key;

	return note_key_set(&key, name, public) == 0 && note_check(n, &key) == 1;
}

int verify_keys_check(struct verify *v, const struct note *n, const char *origin, uint64_t epoch, bool *ret,
		      struct err *err)
{
	struct verify_keys *k = v->keys;
	struct note_key key;
	int rc = epoch >= k->n ? load_epochs(v, err) : 0;

	if (rc < 0)
		return rc;
	v->sum->notes++;
	*ret = epoch < k->n && is_signed(n, origin, k->log_key) &&
	       epoch_key_set(&key, k->instance, epoch, k->epoch[epoch]) == 0 && note_check(n, &key) == 1;
	return 0;
}

bool verify_keys_know(const struct verify *v, const struct note *n, const char *origin)
{
	return v->keys->has_log_key && is_signed(n, origin, v->keys->log_key);
}

/* --- the step */

/* A record of epoch.start against the table. */
static void check_start(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct verify_keys *k = c->v->keys;
	const struct audit_value *ext = &row->v[COL_EXT];
	size_t n_len = 0, pk_len = 0;
	const uint8_t *n = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_EPOCH, &n_len) : NULL;
	const uint8_t *pk = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_PUBLIC, &pk_len) : NULL;
	uint64_t epoch = n && n_len == 8 ? audit_get_be(n, 8) : UINT64_MAX;

	if (epoch >= k->n || pk_len != SIGN_PUBLIC_SIZE || memcmp(k->epoch[epoch], pk, SIGN_PUBLIC_SIZE) != 0)
		verify_tell_record(c, AUDIT_FINDING_KEYCHAIN, idx, idx);
}

static int keys_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	(void)err;
	if (verify_is_system(c) && verify_kind(&got->row) == AUDIT_EPOCH_START)
		check_start(c, &got->row, got->idx);
	return 0;
}

static void keys_free(struct verify *v)
{
	if (v->keys)
		free(v->keys->epoch);
	free(v->keys);
	v->keys = NULL;
}

const struct verify_step verify_keychain = {
	.name = "keys", .open = keys_open, .record = keys_record, .free = keys_free,
};
