#ifndef SHIP_INT_H
#define SHIP_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/crypto.h"
#include "base/err.h"
#include "db/wal.h"

/* A target is a directory: generations, each a folder named by its number of 10 digits with manifest.jsonl and its
 * parts, and the folder `sealed`.  A part is a file of age.  The manifest has a line for each, and the digest of the
 * line before; the first line of a generation has that of the last line of the generation before. */

#define SHIP_MANIFEST "manifest.jsonl"
#define SHIP_SEALED_FOLDER "sealed"
#define SHIP_LINE_MAX 4096
#define SHIP_FOLDER_PARTS 1000          /* in one folder of a generation */
#define SHIP_GENERATIONS_MAX 100000

enum ship_of { SHIP_STORE, SHIP_KEYS, SHIP_OF };
enum ship_kind {
	SHIP_BEGIN,                     /* of a generation */
	SHIP_BASE,                      /* pages of the database's own file */
	SHIP_LOG,                       /* pages that were committed since the last such line */
	SHIP_SEALED,                    /* a sealed file; it may lie there from an older generation */
	SHIP_WHOLE,                     /* from here on the generation can be put back */
	SHIP_KINDS,
};
struct ship_line {
	uint64_t n;                     /* from 1 on, in its generation */
	enum ship_kind kind;
	enum ship_of of;
	uint64_t at_us;                 /* what was committed until then is in this and the lines before */
	char file[160];                 /* below the target; "" = none */
	uint64_t bytes;
	uint8_t sha[DIGEST_SIZE];       /* of the file as it lies there */
	uint64_t pages;                 /* SHIP_LOG: of the whole database; SHIP_BASE: here; SHIP_BEGIN: generation */
	struct wal_place place;         /* SHIP_LOG: where the log goes on */
	char name[160];                 /* SHIP_SEALED: below the store */
	uint64_t size, changed_us;      /* of that */
	uint8_t prev[DIGEST_SIZE];
};
const char *ship_of_name(enum ship_of of);      /* the file in the store */

struct str;
void ship_line_print(const struct ship_line *l, struct str *ret);       /* without its end */
FOR_TESTS int ship_line_parse(const char *text, size_t len, struct ship_line *ret, struct err *err) MUST_CHECK;

/* Numbers of the generations that lie there, ascending; free() them. */
int ship_generations(const char *target, uint64_t **ret, size_t *ret_n, struct err *err) MUST_CHECK;
char *ship_folder(const char *target, uint64_t generation);             /* free() it */

/* Reads a manifest line by line, and checks that each continues the one before.  A last line without an end is none: it
 * was being written. */
struct ship_reader;
int ship_reader_open(const char *target, uint64_t generation, struct ship_reader **ret, struct err *err) MUST_CHECK;
/* 1, 0 at the end, ERR_CORRUPT with the number of the line. */
int ship_reader_next(struct ship_reader *r, struct ship_line *ret, struct err *err) MUST_CHECK;
/* The digest of the last line that was read, and the bytes of all. */
void ship_reader_end(const struct ship_reader *r, uint8_t ret[DIGEST_SIZE], uint64_t *ret_bytes);
void ship_reader_close(struct ship_reader **r);

/* --- writing */

/* A manifest that is being written. */
struct ship_chain { uint64_t generation, n, bytes; uint8_t digest[DIGEST_SIZE]; int fd; };
int ship_chain_begin(struct ship_chain *c, const char *target, uint64_t generation, struct err *err) MUST_CHECK;
/* Behind what a reader has read to its end. */
int ship_chain_resume(struct ship_chain *c, const char *target, uint64_t generation, const struct ship_reader *r,
		      uint64_t n, struct err *err) MUST_CHECK;
/* Number and digest of the line before are put in here. */
int ship_chain_add(struct ship_chain *c, struct ship_line *l, struct err *err) MUST_CHECK;
void ship_chain_close(struct ship_chain *c);

/* A part that is being written: what is put in is encrypted.  l gets file, bytes and digest; it is durable then. */
struct age_recipient;
struct ship_part;
int ship_part_begin(const char *target, const char *file, const struct age_recipient *to, size_t nto,
		    struct ship_part **ret, struct err *err) MUST_CHECK;
int ship_part_put(struct ship_part *p, const void *bytes, size_t n, struct err *err) MUST_CHECK;
int ship_part_end(struct ship_part **p, int rc, struct ship_line *l, struct err *err) MUST_CHECK;


#define SHIP_MAGIC "toolcrib pages\1\n"         /* before pages: a number of 4 bytes, high one first, and the page */
enum { SHIP_MAGIC_SIZE = 16 };
_Static_assert(sizeof(SHIP_MAGIC) == SHIP_MAGIC_SIZE + 1, "magic");

#endif
