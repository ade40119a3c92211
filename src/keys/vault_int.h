#ifndef VAULT_INT_H
#define VAULT_INT_H

#include "keys/vault.h"

#include <stdint.h>

#define VAULT_REKEY_KEKS 1024            /* payload keys wrapped anew in one transaction */
#define VAULT_PURPOSE "toolcrib/secret/1"       /* of the key that boxes are made with */

struct vault_box {
	int64_t id;                     /* of the row */
	char *name;
	char key_id[KEYFILE_ID_SIZE];
	uint8_t *box; size_t len;       /* NULL in a change: the secret was removed */
};
struct vault_change {
	struct vault_box *box; size_t n;
	struct keyfile key;             /* that the boxes are under; key.key NULL = none */
	struct vault_rekeyed rekeyed;   /* whose old keys go */
};

/* box.c */
struct db_stmt;
void vault_box_read(struct db_stmt *st, struct vault_box *ret);        /* columns id, name, key_id, value */
void vault_box_fini(struct vault_box *b);
/* Seal into b, whose id and name are set. */
void vault_box_seal(struct vault_box *b, const struct keyfile *k, const char *value, size_t len);
/* *ret: guarded memory, NUL-terminated. */
int vault_box_open(const struct vault_box *b, const struct keyfile *k, char **ret, size_t *ret_len,
		   struct err *err) MUST_CHECK;

#endif
