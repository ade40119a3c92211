#ifndef AUDIT_PAYLOAD_H
#define AUDIT_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/commit.h"
#include "base/err.h"

/* What an event says beside its columns: values, which its record commits to and, by its level, keeps encrypted (AUDIT
 * ); and who is behind a pseudonym. */

enum audit_level { AUDIT_METADATA, AUDIT_REQUEST, AUDIT_REQUEST_RESPONSE };    /* bits 0 and 1 of flags */
#define AUDIT_LEVEL_DEFAULT AUDIT_REQUEST
#define AUDIT_LEVEL_MASK 3u
#define AUDIT_FLAG_ARGUMENTS_CUT (1u << 2)
#define AUDIT_FLAG_RESULT_CUT (1u << 3)
#define AUDIT_FLAG_REDACTED (1u << 4)
const char *audit_level_name(int level);                /* "metadata", …; NULL for none */
int audit_level_from_name(const char *name);            /* or -1 */

/* A piece of a value that nothing may repeat.  In its place stands "redacted:TOKEN", a JSON string: equal
 * values of a tenant have equal tokens.  token false: [key] instead. */
struct audit_hidden { size_t from, to; bool token; };

struct audit_value_said {
	unsigned ctag;
	const void *p; size_t len;      /* as it came */
	bool keep;                      /* stored, at most AUDIT_STORED_MAX bytes of it; else the record only commits to it */
	const struct audit_hidden *hidden; size_t nhidden;      /* ascending, apart */
};
#define AUDIT_VALUES_MAX 4
#define AUDIT_HIDDEN_MAX 256            /* pieces of one value; a value with more is cut there */
struct audit_payload {
	int level;                      /* in force; to be found in the record's flags */
	size_t n;
	struct audit_value_said value[AUDIT_VALUES_MAX];        /* ctags ascending */
};

/* Our own keys by their shape (SEC S-301), after what is in hidden[] already: *n grows, ascending.  False: there
 * are more than AUDIT_HIDDEN_MAX. */
bool audit_hide_keys(const char *p, size_t len, struct audit_hidden hidden[AUDIT_HIDDEN_MAX], size_t *n);

enum audit_pseudonym { AUDIT_ALIAS_PERSON = 1, AUDIT_ALIAS_BEHALF, AUDIT_ALIAS_ADDRESS, AUDIT_ALIAS_CLIENT };
unsigned audit_pseudonym_ctag(int64_t kind);        /* enum audit_ctag of its value; 0: no such kind */
#define AUDIT_ALIASES_PER_DAY 1000      /* new addresses and clients of a log; then adr_other, cli_other */
#define AUDIT_ALIAS_VALUE_MAX 255       /* bytes; a longer one is cut */
#define AUDIT_NEAR_VALUE_MAX 48         /* one of at most so many is found by itself, without a token */

/* Reading, any thread with its own connections. */
struct db;
struct keys;
struct audit_opened {                   /* one commitment of a record */
	unsigned ctag;
	const uint8_t *commitment;      /* 32 bytes */
	const uint8_t *opening;         /* the same; NULL: the key or the salt is destroyed */
	const uint8_t *p; size_t len;   /* the value as it is kept; NULL: it is not */
};
typedef int audit_opened_fn(void *arg, const struct audit_opened *o);   /* non-zero ends the walk */
/* Every commitment of a record, in order; borrowed for the call.  None is no error.  ERR_CORRUPT: a value does not
 * open, or does not open its commitment. */
int audit_open_record(struct db *db, struct keys *keys, int64_t tenant_id, int64_t idx, audit_opened_fn *fn, void *arg,
		      struct err *err) MUST_CHECK;
/* What a pseudonym of a tenant's log stands for, as text; the caller frees.  ERR_NOT_FOUND: there is none, or it
 * was erased. */
int audit_open_pseudonym(struct db *db, struct keys *keys, int64_t tenant_id, const char *pseudonym, char **ret,
		     struct err *err) MUST_CHECK;

#endif
