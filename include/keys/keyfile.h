#ifndef KEYS_KEYFILE_H
#define KEYS_KEYFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The files that all else at rest is locked with (SEC S-341): master.key at first, secret-ID.key after a rekey, 32
 * random bytes each.  Nothing is encrypted with these bytes themselves but with keys derived from them, one for
 * each purpose. */

#define KEYFILE_ID_SIZE 17              /* 16 hex digits and NUL */
#define KEYFILE_META "secret_key"       /* in meta: which file is the current one; no row: master.key */

struct db;

struct keyfile_place {                  /* where the files are; borrowed */
	const char *store;              /* directory */
	const uint8_t *master;          /* the 32 bytes of master.key */
};
struct keyfile {
	char id[KEYFILE_ID_SIZE];       /* the same for all purposes */
	uint8_t *key;                   /* derived, guarded memory; NULL = the file is missing */
};

/* The 32 bytes of master.key, in guarded memory; the caller frees them with secret_free(). */
int keyfile_master(const char *store, uint8_t **ret, struct err *err) MUST_CHECK;
/* From the bytes of a file. */
void keyfile_from(const uint8_t file[32], const char *purpose, struct keyfile *ret);
/* ERR_UNREACHABLE: the file is missing; ERR_CORRUPT: it holds another key. */
int keyfile_load(const struct keyfile_place *place, const char *purpose, const char *id, struct keyfile *ret,
		 struct err *err) MUST_CHECK;
/* A new file, durable on return. */
int keyfile_make(const char *store, const char *purpose, struct keyfile *ret, struct err *err) MUST_CHECK;
/* Is there a file with this name, readable or not? */
bool keyfile_exists(const char *store, const char *id);
/* Ids of the files beside the current one, but master.key; at most max. */
size_t keyfile_others(const char *store, const char *current, char (*ret)[KEYFILE_ID_SIZE], size_t max);
void keyfile_remove(const char *store, const char *id);
void keyfile_fini(struct keyfile *k);
/* Which file the store says is current: 1 and its id; 0: master.key. */
int keyfile_current(struct db *db, char ret[KEYFILE_ID_SIZE], struct err *err) MUST_CHECK;

#endif
