#ifndef KEYS_VAULT_H
#define KEYS_VAULT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/keyfile.h"

/* Secrets at rest (SEC S-341 to S-345).  The store holds boxes (base/crypto.h), each bound to its row; the keys are
 * derived from key files beside it: master.key at first, secret-ID.key after a rekey.  In memory the loop keeps
 * boxes and derived keys; a value exists in the clear, in guarded memory, from its use to the end of the run that
 * uses it. */

#define VAULT_VALUE_MIN 4               /* bytes: a shorter one could not be told from other text when it is masked */
#define VAULT_VALUE_MAX (64u << 10)     /* bytes */
#define VAULT_SECRETS_MAX 1000
#define VAULT_REKEY_BATCH 64            /* rows of one transaction */
#define VAULT_OLD_KEYS 8                /* key files that one rekey removes; what is more goes with the next */

struct secret_source;
struct db;
struct keys;
struct vault;
struct vault_change;

/* Load all boxes and the keys they need.  A key file that is missing is logged, and its secrets do not open. */
int vault_open(const struct keyfile_place *place, struct db *db, struct vault **ret, struct err *err) MUST_CHECK;
void vault_close(struct vault **v);
const struct secret_source *vault_secrets(const struct vault *v);     /* for handlers; lives with v */
/* Takes what a transaction has changed, after its COMMIT; loop thread. */
void vault_apply(struct vault *v, struct vault_change **change);
void vault_change_free(struct vault_change **change);

/* The rest: writer thread, in the caller's transaction; the caller records. */

struct vault_new { const char *name; const char *value; size_t len; const char *actor; };
/* ERR_LIMIT: too many.  ret_key: which key it is under. */
int vault_set(struct db *db, const struct keyfile_place *place, const struct vault_new *n,
	      char ret_key[KEYFILE_ID_SIZE], struct vault_change **ret, struct err *err) MUST_CHECK;
/* ERR_NOT_FOUND. */
int vault_remove(struct db *db, const char *name, struct vault_change **ret, struct err *err) MUST_CHECK;

struct vault_rekeyed {
	char key[KEYFILE_ID_SIZE];    /* the current key */
	size_t rewritten, left;         /* rows of this batch; still under older keys, payload keys included */
	/* With the last batch: the files of older keys, which vault_apply() removes. */
	char old[VAULT_OLD_KEYS][KEYFILE_ID_SIZE]; size_t nold;
};
/* One batch; when no secret is left under an older key, one of payload keys, which are durable at once (keys NULL:
 * there are none).  When nothing is under an older key, a new key file is made first: so a rekey that was
 * interrupted goes on, and one that was finished begins anew.  ERR_CORRUPT names a secret whose box does not open. */
int vault_rekey(struct db *db, const struct keyfile_place *place, struct keys *keys, struct vault_rekeyed *ret_done,
		struct vault_change **ret, struct err *err) MUST_CHECK;

#endif
