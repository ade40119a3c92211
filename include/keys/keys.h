#ifndef KEYS_KEYS_H
#define KEYS_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/keyfile.h"

/* The keys of payloads, in keys.db beside the store (AUDIT 5, A-503): each tenant has a key (KEK), which wraps the
 * keys (DEK) of its subjects, one for each month; a key file wraps the KEKs.  Who destroys a key destroys what it
 * encrypted, in every copy of the store.  One thread at a time: the writer's, or a reader with a connection of its
 * own.
 *
 * keys_dek() gives the key for a value that is recorded; keys_find() the one that a record names.  New keys become
 * durable by keys_commit(), before the records that use them; keys_abandon() forgets them with the
 * transaction.  What was destroyed is remembered, so that a store that is put back from a copy learns of it. */

#define KEYS_META_GIVEN "keys_given"    /* in meta: the last ids given, of a tenant's and of a payload key */
#define KEYS_CACHE_MAX 4096             /* keys of each kind that are kept in memory, opened */

struct db;
struct keys;
struct keys_dek {
	int64_t id;                     /* rec.key */
	uint8_t key[32];
	uint8_t ekey[32];               /* made of it: audit_payload_key() */
};

/* The writer's: makes the file when it is missing; keys_begin() asks first. */
int keys_open(const struct keyfile_place *place, struct keys **ret, struct err *err) MUST_CHECK;
/* Read-only, for keys_find() alone. */
int keys_open_reader(const struct keyfile_place *place, struct keys **ret, struct err *err) MUST_CHECK;
void keys_close(struct keys **keys);
/* For keys_begin().  given: the last ids of both kinds that the store remembers, and new ones come behind them; on
 * return those that the file has, destroyed ones too.  fn: each key file that keys are under. */
int keys_look(struct keys *keys, int64_t given[2], void (*fn)(void *arg, const char *key_id), void *arg,
	      struct err *err) MUST_CHECK;

/* The key for what concerns this subject ("" = nobody in particular) of a tenant (0: the system log) at this time,
 * and the tenant's key for tokens (32 bytes).  Made when there is none; borrowed until the next call on keys.
 * store: the connection to toolcrib.db, which says what key file is current. */
int keys_dek(struct keys *keys, struct db *store, int64_t tenant_id, const char *subject, uint64_t time_us,
	     const struct keys_dek **ret, struct err *err) MUST_CHECK;
int keys_token(struct keys *keys, struct db *store, int64_t tenant_id, const uint8_t **ret, struct err *err) MUST_CHECK;
/* Make durable what was made.  Comes before the COMMIT of the records that use it (AUDIT A-504); a spare key does
 * no harm. */
int keys_commit(struct keys *keys, struct err *err) MUST_CHECK;
/* In the transaction of those records, before keys_commit(): the store remembers which ids were given. */
int keys_remember(struct keys *keys, struct db *store, struct err *err) MUST_CHECK;
/* nothing that was appended since the last commit stays: nor do its keys */
void keys_abandon(struct keys *keys);

/* A key that a record of this tenant names.  ERR_NOT_FOUND: destroyed, or there never was one; ERR_DENIED: it is
 * another tenant's; ERR_UNREACHABLE, ERR_CORRUPT: it does not open. */
int keys_find(struct keys *keys, int64_t tenant_id, int64_t id, const struct keys_dek **ret,
	      struct err *err) MUST_CHECK;

/* Ids of a subject's keys that are not destroyed; the caller frees *ret. */
int keys_of_subject(struct keys *keys, int64_t tenant_id, const char *subject, int64_t **ret, size_t *ret_n,
		    struct err *err) MUST_CHECK;
/* Destroy, durably, and empty the log of the file, so that no copy of a wrapped key is left in it.  What is destroyed
 * already stays so.  ERR_BUSY: it is destroyed, and a reader keeps the log; call again. */
int keys_destroy(struct keys *keys, const int64_t *ids, size_t n, struct err *err) MUST_CHECK;
int keys_destroy_tenant(struct keys *keys, int64_t tenant_id, struct err *err) MUST_CHECK;
/* Of this file and of the store's, which is open for writing.  ERR_BUSY: readers are in the way for 2 ms. */
int keys_truncate_logs(struct keys *keys, struct db *store, struct err *err) MUST_CHECK;

/* The memory of what was erased: which record says so, and its ext.  Durable on return; a record is noted
 * once. */
struct keys_erased { int64_t id, idx; char *origin; uint8_t leaf[32]; uint8_t *ext; size_t ext_len; };
int keys_note_erased(struct keys *keys, const struct keys_erased *what, struct err *err) MUST_CHECK;
/* The first behind an id: 1, and the caller frees it with keys_erased_fini(); 0: there are no more. */
int keys_next_erased(struct keys *keys, int64_t after, struct keys_erased *ret, struct err *err) MUST_CHECK;
int keys_drop_erased(struct keys *keys, int64_t id, struct err *err) MUST_CHECK;
void keys_erased_fini(struct keys_erased *e);

/* A copy of keys.db beside the one of the store; path must not exist.  Any thread. */
int keys_backup(const char *store, const char *path, struct err *err) MUST_CHECK;

/* Rekey (SEC S-343): how many KEKs are under other key files, and one batch of at most max under this one instead,
 * durable on return.  ret_left: those that remain. */
int keys_stale(struct keys *keys, const char *id, size_t *ret, struct err *err) MUST_CHECK;
int keys_rewrap(struct keys *keys, const char *id, size_t max, size_t *ret_left, struct err *err) MUST_CHECK;

#endif
