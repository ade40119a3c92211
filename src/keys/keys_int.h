#ifndef KEYS_INT_H
#define KEYS_INT_H

#include "keys/keys.h"

/* Inside of src/keys. */

struct db_stmt;
struct map;

#define KEYS_PURPOSE "toolcrib/kek/1"   /* of the key, derived from a key file, that KEKs are wrapped with */
#define KEYS_SUBJECT_SIZE 64            /* with NUL */

struct kek { int64_t id; uint8_t key[32], token[32]; };
struct dek { struct keys_dek face; int64_t tenant_id; };

struct keys {
	struct db *db;
	char *store;
	uint8_t *master;                /* guarded memory */
	struct map *by_tenant;          /* struct kek in force */
	struct map *by_id;              /* struct dek, owned */
	struct map *by_place;           /* the same by tenant, month, subject: those in force */
	bool pending;                   /* a transaction is open */
	int64_t last_kek, last_dek;     /* ids given; -1 = not read yet */
};

/* Drop and wipe what is in memory. */
void keys_forget(struct keys *k);
char *keys_kek_place(int64_t id, int64_t tenant_id, const char *key_id);
/* key_id and box stand in columns col and col + 1 of the row. */
int keys_open_kek(struct keys *k, struct db_stmt *st, unsigned col, int64_t id, int64_t tenant_id, uint8_t ret[32],
		  struct err *err) MUST_CHECK;

#endif
