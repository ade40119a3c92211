#ifndef AGE_AGE_H
#define AGE_AGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/err.h"
#include "base/text.h"

/* Files of age-encryption.org/v1 for X25519 recipients, as age(1) writes and reads them: a header that wraps one key
 * for each recipient, then chunks of 64 KiB, each with its tag and the last one marked.  Who encrypts cannot decrypt.
 * Bytes are pushed in and come out of a function, so that no file is held in memory.  Any thread, one at a time. */

#define AGE_RECIPIENTS_MAX 16           /* that we write */
#define AGE_STANZAS_MAX 16              /* that we read: each costs a scalar multiplication */
#define AGE_HEADER_MAX 16384            /* bytes of it that we read */
#define AGE_CHUNK 65536

struct age_recipient { uint8_t point[CURVE_SIZE]; };
struct age_identity { uint8_t secret[CURVE_SIZE]; };    /* wipe it */
#define AGE_RECIPIENT_SIZE 63           /* "age1…" with its NUL */

/* "age1…".  ERR_INVALID without a place; the text is in the message. */
FOR_TESTS int age_recipient_parse(const char *text, struct age_recipient *ret, struct err *err) MUST_CHECK;
/* A list of 1 to AGE_RECIPIENTS_MAX, with commas between them.  ERR_INVALID, ERR_LIMIT. */
int age_recipients_parse(const char *list, struct age_recipient ret[AGE_RECIPIENTS_MAX], size_t *ret_n,
			 struct err *err) MUST_CHECK;
FOR_TESTS void age_recipient_print(const struct age_recipient *r, char ret[AGE_RECIPIENT_SIZE]);
FOR_TESTS void age_recipient_of(const struct age_identity *id, struct age_recipient *ret);
/* "AGE-SECRET-KEY-1…"; the text is in no message. */
FOR_TESTS int age_identity_parse(const char *text, size_t len, struct age_identity *ret, struct err *err) MUST_CHECK;
/* A file as age-keygen writes it: identities, a line each, with comments and empty lines. */
#define AGE_IDENTITIES_MAX 16
int age_identities_read(const char *path, struct age_identity ret[AGE_IDENTITIES_MAX], size_t *ret_n,
			struct err *err) MUST_CHECK;

typedef int age_put_fn(void *arg, const void *p, size_t n, struct err *err);

struct age_writer;
/* n: 1 to AGE_RECIPIENTS_MAX. */
struct age_writer *age_writer_new(const struct age_recipient *to, size_t n, age_put_fn *put, void *arg);
int age_writer_put(struct age_writer *w, const void *p, size_t n, struct err *err) MUST_CHECK;
/* The last chunk; frees. */
int age_writer_end(struct age_writer **w, struct err *err) MUST_CHECK;
void age_writer_free(struct age_writer **w);

struct age_reader;
/* Identities are copied.  What comes out of put is authentic, chunk by chunk; the end says that nothing was cut off. */
struct age_reader *age_reader_new(const struct age_identity *ids, size_t n, age_put_fn *put, void *arg);
/* ERR_DENIED: it is for none of these identities; ERR_CORRUPT: it is no such file, or was changed. */
int age_reader_put(struct age_reader *r, const void *p, size_t n, struct err *err) MUST_CHECK;
int age_reader_end(struct age_reader **r, struct err *err) MUST_CHECK;
void age_reader_free(struct age_reader **r);

/* A header as it is written; stanzas of other kinds are counted and passed over. */
struct age_stanza { uint8_t share[CURVE_SIZE], body[32]; };
struct age_header {
	struct age_stanza stanza[AGE_STANZAS_MAX];      /* of X25519 */
	size_t n, others;
	uint8_t mac[DIGEST_SIZE];
	size_t signed_len, len;         /* what the MAC is over, and all of it */
};
/* 1: it is whole; 0: more bytes are needed; ERR_CORRUPT; ERR_LIMIT: larger than we read. */
int age_header_parse(const char *p, size_t n, struct age_header *ret, struct err *err) MUST_CHECK;

#endif
