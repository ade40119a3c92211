#ifndef BUNDLE_BUNDLE_INT_H
#define BUNDLE_BUNDLE_INT_H

#include "base/crypto.h"
#include "block/row.h"
#include "bundle/bundle.h"
#include "tlog/note.h"

struct str;

enum bundle_part { PART_RECORDS, PART_TREE, PART_NOTES, PART_EPOCHS, PART_MANIFEST, PART_COUNT };
extern const char *const bundle_part_name[PART_COUNT];
#define BUNDLE_FORMAT "toolcrib bundle 1"

/* --- format.c: ustar, regular files of these names only */

enum { TAR_BLOCK = 512 };
void bundle_tar_head(enum bundle_part part, uint64_t size, uint64_t mtime_s, uint8_t ret[TAR_BLOCK]);
/* False: not one of ours. */
bool bundle_tar_read(const uint8_t head[TAR_BLOCK], enum bundle_part *ret, uint64_t *ret_size);

/* The columns that the bytes of a record hold, exactly; *ret borrows.  False: they are no record of this encoding. */
bool bundle_decode(const uint8_t *p, size_t len, struct audit_row *ret);
/* What people read, made from the columns alone. */
void bundle_view(const struct audit_row *row, struct str *ret);

/* --- chain.c: the keys of epochs, each signed by the one before (AUDIT A-732) */

struct bundle_chain {
	const struct audit_evidence *with;      /* whose keys count; or NULL */
	char instance[NOTE_NAME_MAX + 1];
	uint8_t (*epoch)[SIGN_PUBLIC_SIZE];
	uint64_t n, cap;
	bool pinned;                    /* one of them is a key of the evidence */
};
/* origin: of the log whose notes they sign. */
void bundle_chain_begin(struct bundle_chain *c, const char *origin, const struct audit_evidence *with);
/* The key of the next epoch; cert NULL: there is none, as for the first.  False: it does not follow, or is not as
 * pinned. */
bool bundle_chain_add(struct bundle_chain *c, const uint8_t public[SIGN_PUBLIC_SIZE], const uint8_t *cert);
bool bundle_chain_signed(const struct bundle_chain *c, const struct note *note, int64_t epoch);
void bundle_chain_fini(struct bundle_chain *c);

/* --- chapters.c: what the blocks of a sealed file come to, counted while they are verified (bundle/seal.h) */

struct audit_coverage;
struct audit_evidence;
struct audit_sealed;
struct audit_segment;
struct block;
struct block_reader;
struct bundle_chapters;
struct db;
struct segment;
/* Times and chapters come into *sealed; path is borrowed. */
struct bundle_chapters *bundle_chapters_new(struct db *db, const char *path, struct audit_sealed *sealed);
/* The next block, which the reader is open at with all columns; its ids are those of the store behind it. */
void bundle_chapters_add(struct bundle_chapters *s, struct segment *segment, struct block_reader *reader,
			 const struct block *b);
/* 0; or why a block was not counted, ERR_CORRUPT: the store does not have a text of it.  Of a file that is not whole
 * what was counted is of no use. */
int bundle_chapters_end(struct bundle_chapters **s, struct err *err) MUST_CHECK;

/* --- segment.c */

/* audit_segment_verify(), and chapters of what it decodes. */
int bundle_segment_verify(const char *path, const struct audit_evidence *with, struct bundle_chapters *chapters,
			  audit_found_fn *found, void *arg, struct audit_segment *ret, struct audit_coverage *sum,
			  struct err *err) MUST_CHECK;

/* --- seal.c */

/* ERR_DENIED: it is a link, or not a folder of the store's user alone: what is made there could be another's. */
int bundle_own_folder(const char *path, struct err *err) MUST_CHECK;     /* makes it, if need be */
int bundle_check_folder(const char *path, struct err *err);

#endif
