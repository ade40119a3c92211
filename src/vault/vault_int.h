#ifndef VAULT_INT_H
#define VAULT_INT_H

#include "vault/vault.h"

#include <stdint.h>

struct vault_key {
	char id[VAULT_KEY_ID_SIZE];
	uint8_t *key;                   /* derived, guarded memory; NULL = its file is missing */
};
struct vault_box {
	int64_t id;                     /* of the row */
	char *name;
	char key_id[VAULT_KEY_ID_SIZE];
	uint8_t *box; size_t len;       /* NULL in a change: the secret was removed */
};
struct vault_change {
	struct vault_box *box; size_t n;
	struct vault_key key;           /* that the boxes are under; key.key NULL = none */
	struct vault_rekeyed rekeyed;   /* whose old keys go */
};

/* key.c: keys and their files. */
void vault_key_from(const uint8_t file[32], struct vault_key *ret);
int vault_key_load(const struct vault_place *place, const char *id, struct vault_key *ret, struct err *err) MUST_CHECK;
int vault_key_make(const char *store, struct vault_key *ret, struct err *err) MUST_CHECK;       /* a new file */
/* Ids of the key files beside the current one. */
size_t vault_key_others(const char *store, const char *current, char (*ret)[VAULT_KEY_ID_SIZE], size_t max);
void vault_key_remove(const char *store, const char *id);
void vault_key_fini(struct vault_key *k);

/* box.c */
struct db_stmt;
void vault_box_read(struct db_stmt *st, struct vault_box *ret);        /* columns id, name, key_id, value */
void vault_box_fini(struct vault_box *b);
/* Seal into b, whose id and name are set. */
void vault_box_seal(struct vault_box *b, const struct vault_key *k, const char *value, size_t len);
/* *ret: guarded memory, NUL-terminated. */
int vault_box_open(const struct vault_box *b, const struct vault_key *k, char **ret, size_t *ret_len,
		   struct err *err) MUST_CHECK;

#endif
