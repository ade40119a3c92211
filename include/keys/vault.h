#ifndef KEYS_VAULT_H
#define KEYS_VAULT_H

#include <stdbool.h>
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
struct str;
struct vault;
struct vault_change;

/* Load all boxes and the keys they need.  A key file that is missing is logged, and its secrets do not open. */
int vault_open(const struct keyfile_place *place, struct db *db, struct vault **ret, struct err *err) MUST_CHECK;
void vault_close(struct vault **v);
const struct secret_source *vault_secrets(const struct vault *v);     /* for handlers; lives with v */
/* Takes what a transaction has changed, after its COMMIT; loop thread. */
void vault_apply(struct vault *v, struct vault_change **change);
void vault_change_free(struct vault_change **change);

/* All of another one, which was loaded meanwhile, and ends; loop thread. */
void vault_take(struct vault *v, struct vault **from);

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

/* Are the key files that lie beside a store those that it was left with?  Asked at each start by the process that owns
 * it, before it writes (decision 0051). */

#define KEYS_FILE_ADOPT "keys.db"       /* what a person says who takes over a store without its payload keys */
#define KEYS_META_MASTER "master_key"   /* in meta: the id of master.key */
#define KEYS_META_LOST "keys_lost"      /* in meta: those of the ones that are lost, and since when, in µs */

/* What a start has to write down. */
struct keys_begin {
	char master[KEYFILE_ID_SIZE];   /* the store has not known it yet; "" = it has */
	const char *by;                 /* with it: what is under it, for people; NULL: nothing */
	int64_t kek, dek;               /* given until now */
	bool lost;                      /* some of them are gone, and somebody has just said that it shall go on */
};

/* Opens keys.db, which it makes only where the store never had a payload key.  adopt: go on without keys that the store
 * remembers.  ERR_CORRUPT, nothing written: master.key is another one; keys.db, or keys in it, are missing (hint: the
 * way back); it is another store's.  store: a writer's connection. */
int keys_begin(const struct keyfile_place *place, struct db *store, bool adopt, struct keys **ret,
	       struct keys_begin *ret_begin, struct err *err) MUST_CHECK;
/* In the transaction of the record of the start: write that down. */
int keys_begun(struct db *store, const struct keys_begin *b, struct err *err) MUST_CHECK;
/* For people: what of the files of a store is not as it should be, appended; nothing where all is.  Any
 * thread. */
int keys_files_wrong(const struct keyfile_place *place, struct db *db, bool modes, struct str *ret,
		     struct err *err) MUST_CHECK;

#endif
