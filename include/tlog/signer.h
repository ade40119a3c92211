#ifndef TLOG_SIGNER_H
#define TLOG_SIGNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/err.h"
#include "tlog/note.h"
#include "tlog/tree.h"

/* What a signer remembers outside the store, without its secrets: which logs it has signed up to where (AUDIT
 * A-711), and the epoch in force.  toolcrib-sign keeps it as a text file, a verifier takes a copy of that as
 * evidence. */

struct map;
struct str;

#define SIGNER_FILE "state"             /* in the signer's directory */
#define SIGNER_LOGS_MAX 100000
#define SIGNER_FILE_MAX (48u << 20)     /* bytes of the file */

struct signer_log {
	uint64_t size;
	uint8_t root[TREE_HASH];        /* of size 0: nothing was signed yet */
	char origin[];
};
struct signer_state {
	char instance[NOTE_NAME_MAX + 1];       /* origin of the system log; "" = nothing yet */
	uint8_t log_key[SIGN_PUBLIC_SIZE];      /* of all logs, under each one's origin */
	uint64_t epoch;
	uint8_t epoch_key[SIGN_PUBLIC_SIZE];
	uint8_t cert[SIGN_SIZE];        /* of epochs behind 0: the old key's over epoch_cert_text() */
	struct map *by_origin;          /* struct signer_log */
	struct signer_log **log; size_t nlogs, cap;     /* in the order in which they came */
};
void signer_state_init(struct signer_state *s);
void signer_state_fini(struct signer_state *s);
struct signer_log *signer_state_find(const struct signer_state *s, const char *origin);
/* A log under its nth name; NULL: it has none. */
struct signer_log *signer_state_nth(const struct signer_state *s, const char *origin, uint64_t n);
/* A log at size 0; NULL when it is known already or there are too many. */
struct signer_log *signer_state_add(struct signer_state *s, const char *origin);
void signer_state_print(const struct signer_state *s, struct str *ret);
/* Into a state that was just initialised.  ERR_INVALID with the line. */
int signer_state_parse(struct signer_state *s, const char *text, size_t len, struct err *err) MUST_CHECK;

/* A log that goes on behind a restore, without records that were signed, is signed under another name from there on
 * (OPERATE OP-512): its origin and "/r/<n>".  n 0: the origin itself. */
void succession_name(const char *origin, uint64_t n, char ret[NOTE_NAME_MAX + 1]);
/* How much of a name is the log's origin. */
size_t succession_split(const char *name, uint64_t *ret_n);
/* Whether it is a name of this log. */
bool succession_is(const char *name, const char *origin);

/* The names of keys: the log key goes under a log's origin, the epoch key under "<instance>/e/<n>". */
int epoch_key_set(struct note_key *ret, const char *instance, uint64_t epoch,
		  const uint8_t public[SIGN_PUBLIC_SIZE]) MUST_CHECK;
/* What a certificate signs (AUDIT A-731): "epoch", the number of the new epoch, its key. */
#define EPOCH_CERT_TEXT (5 + 8 + SIGN_PUBLIC_SIZE)
void epoch_cert_text(uint64_t epoch, const uint8_t public[SIGN_PUBLIC_SIZE], uint8_t ret[EPOCH_CERT_TEXT]);

#endif
