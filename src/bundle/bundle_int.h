#ifndef BUNDLE_BUNDLE_INT_H
#define BUNDLE_BUNDLE_INT_H

#include "block/row.h"
#include "bundle/bundle.h"

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

#endif
