#ifndef SEGMENT_SEGMENT_H
#define SEGMENT_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/err.h"
#include "block/block.h"
#include "tlog/note.h"
#include "tlog/tree.h"

/* Sealed files (contrib/doc/segment-format.md; SCALE SC-105 to SC-108): records of one log, from the begin of a tile to
 * the end of one, as blocks in a file of SQLite of their own, with all that it takes to verify them alone.  What is in
 * one is unsigned but for what its records lead to, so whoever reads one believes nothing of it.
 *
 *	making		segment_make(), segment_put() for each record, segment_end()
 *	reading		segment_open(), segment_info(); blocks and what is kept, in order; texts, by id
 *
 * An object belongs to one thread at a time. */

enum {
	SEGMENT_UNIT = 256,             /* where one begins and ends: hashes of whole tiles join them */
	SEGMENT_RECORDS_MAX = 4194304,
	SEGMENT_RELEASE_MAX = 64,
	SEGMENT_TEXTS_MAX = 16777216,   /* distinct ones of its records */
	SEGMENT_TEXT_MAX = 512,         /* bytes of one (AUDIT A-409) */
};
#define SEGMENT_BYTES_MAX (64ull << 30)

/* What it says of itself. */
struct segment_info {
	char origin[NOTE_NAME_MAX + 1];
	int64_t from, to;               /* from <= idx < to */
	struct tree before, after;      /* of the log's first records, as many as from and to */
	int64_t epoch;                  /* whose key has signed the note */
	char note[NOTE_MAX]; size_t note_len;   /* covers to */
	uint8_t growth[TREE_PROOF_MAX][TREE_HASH]; size_t ngrowth;      /* from after to the note's tree */
	char release[SEGMENT_RELEASE_MAX];      /* of the program that made it; a claim */
};

/* --- making */

struct db;
struct segment_maker;
/* A new file, 0600.  ERR_CONFLICT: there is one. */
int segment_make(const char *path, int64_t from, struct segment_maker **ret, struct err *err) MUST_CHECK;
/* The next record, and what is kept beside it or NULL.  Its texts get ids of the file by the ids that they have.
 * ERR_INVALID: format 1 cannot carry it, where is "idx/42"; ERR_LIMIT: more records, or texts, than a file has. */
int segment_put(struct segment_maker *m, const struct audit_row *row, const struct block_payload *kept,
		struct err *err) MUST_CHECK;
/* The key of an epoch, from 0 on; cert NULL: the first. */
int segment_put_epoch(struct segment_maker *m, int64_t n, const uint8_t public[SIGN_PUBLIC_SIZE],
		      const uint8_t cert[SIGN_SIZE], struct err *err) MUST_CHECK;
/* The file is durable, but for its name; or gone.  Frees in any case. */
int segment_end(struct segment_maker **m, const struct segment_info *info, struct err *err) MUST_CHECK;
/* Frees it, and the file is gone. */
void segment_drop(struct segment_maker **m);

/* --- reading */

struct segment;
/* ERR_UNREACHABLE: it cannot be opened, or is a directory, a link, a device; ERR_INVALID: it is no sealed file;
 * ERR_CONFLICT: of a newer release; ERR_LIMIT; ERR_CORRUPT: it is none that was made so. */
int segment_open(const char *path, struct segment **ret, struct err *err) MUST_CHECK;
void segment_close(struct segment **s);
const struct segment_info *segment_info(const struct segment *s);
/* Its tables, for statements of sql/queries/segment.sql; until it is closed. */
struct db *segment_db(struct segment *s);
/* The pages of the file make up its tables and indexes, and each value is of its column's type.  ERR_CORRUPT. */
int segment_sound(struct segment *s, struct err *err) MUST_CHECK;
/* Each in order, from the first on; what is passed is borrowed for the call.  0; what fn returned, when that is
 * negative; ERR_CORRUPT: values that cannot be. */
typedef int segment_epoch_fn(void *arg, int64_t n, const uint8_t public[SIGN_PUBLIC_SIZE], const uint8_t *cert,
			     struct err *err);
int segment_epochs(struct segment *s, segment_epoch_fn *fn, void *arg, struct err *err) MUST_CHECK;
typedef int segment_block_fn(void *arg, const struct block *b, struct err *err);
int segment_blocks(struct segment *s, segment_block_fn *fn, void *arg, struct err *err) MUST_CHECK;
/* A block_text_fn; arg: the segment.  Texts stay until segment_trim(), which forgets them when they are many, as
 * segment_is_full() says. */
int segment_text(void *segment, uint16_t kind, int64_t id, const char **ret, size_t *ret_len, struct err *err);
bool segment_is_full(const struct segment *s);
void segment_trim(struct segment *s);
/* What is kept beside the record at idx, which ascends from call to call: 1, borrowed until the next; 0: nothing.
 * ERR_CORRUPT: a group that cannot be there.  With idx beyond the last one: nothing is left. */
int segment_kept(struct segment *s, int64_t idx, struct block_payload *ret, struct err *err) MUST_CHECK;
/* SHA-256 over the rows of tables blk and text, and how many texts there are, which have the ids from 1 on.
 * ERR_CORRUPT: an id is missing. */
int segment_digest(struct segment *s, uint8_t ret[DIGEST_SIZE], int64_t *ret_texts, struct err *err) MUST_CHECK;

/* --- erasing */

/* Nothing is changed in a file that may be read: another one is made, which has all that it has but what is kept beside
 * records that gone() names.  So there is no page that has had it.  Compare their digests before it takes its place.
 * It is durable, but for its name; or gone.  stop: ends it, from any thread, ERR_CANCELLED; or NULL.  ERR_CONFLICT:
 * there is a file; ERR_CORRUPT: a group that cannot be there. */
typedef bool segment_gone_fn(void *arg, int64_t idx);
int segment_copy(struct segment *from, const char *path, segment_gone_fn *gone, void *arg, const atomic_bool *stop,
		 struct err *err) MUST_CHECK;

#endif
