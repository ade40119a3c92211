#ifndef KEYS_ESCROW_H
#define KEYS_ESCROW_H

#include <stddef.h>

#include "base/err.h"
#include "base/text.h"
#include "keys/keyfile.h"

/* What of a store's key files was put away, encrypted (OP-516): a note in the store, without a secret.  Whoever makes
 * the copy writes it, whoever looks after the store compares it.  Any thread. */

#define ESCROW_NOTE "escrow"            /* its name in the store */
#define ESCROW_KEYS_MAX 64

/* Names of the key files that are there, master.key first, and their ids.  ERR_UNREACHABLE, ERR_DENIED, ERR_CORRUPT,
 * ERR_LIMIT: more than ESCROW_KEYS_MAX. */
struct escrow_key { char name[40], id[KEYFILE_ID_SIZE]; };
int escrow_keys(const char *store, struct escrow_key ret[ESCROW_KEYS_MAX], size_t *ret_n, struct err *err) MUST_CHECK;
/* file: the copy that holds n keys, sum: its SHA-256 in hex; time: as text. */
int escrow_put(const char *store, const char *file, const char *sum, const char *time, const struct escrow_key *keys,
	       size_t n, struct err *err) MUST_CHECK;
/* 1: there is a note, and *ret_missing gets "a, b", the key files that it does not have; 0: there is none. */
struct escrow_note { char file[4096], sum[65], time[40]; };
int escrow_look(const char *store, struct escrow_note *ret, struct str *ret_missing, struct err *err) MUST_CHECK;

#endif
