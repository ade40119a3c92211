#ifndef TESTS_BLOCK_RIG_H
#define TESTS_BLOCK_RIG_H

#include "block/block.h"

/* Records for tests and benchmarks of blocks: such as calls make them, and such as nobody would. */

#define RIG_ORIGIN "0123456789abcdef/t/acme"
#define RIG_NO_TEXT 999         /* an id that the dictionary does not have */

struct rig_payload { uint8_t salt[16], nonce[24], ct[80]; size_t ct_len; bool here; };
struct rig {
	uint64_t seed;
	struct map *texts;
	struct arena *arena;            /* of the blobs of rows */
	struct audit_row *row;
	uint8_t (*leaf)[TREE_HASH];
	struct rig_payload *pay;
	size_t n;
	struct block_texts of;
};

void rig_init(struct rig *rig, uint64_t seed);
void rig_fini(struct rig *rig);
uint64_t rig_next(struct rig *rig);             /* SplitMix64 */
uint64_t rig_below(struct rig *rig, uint64_t n);
/* "17/42" for id 42 of kind 17; as long as texts of that kind are. */
int rig_text(void *arg, uint16_t kind, int64_t id, const char **ret, size_t *ret_len, struct err *err);
/* n records from the index first on, in place of what was there: begins and ends of calls of 20 principals and 25 tools at
 * level request, with what a tool error, a refusal and an event have else. */
void rig_calls(struct rig *rig, int64_t first, size_t n);
/* Each column of one record in all, in none, or at random; numbers of each length, bytes of each length up to blob_max. */
void rig_any(struct rig *rig, int64_t first, size_t n, size_t blob_max);
/* A record that has nothing but what it must have. */
void rig_least(struct rig *rig, struct audit_row *row, int64_t idx);
void *rig_bytes(struct rig *rig, size_t n);     /* random ones, as long as the rig */
void rig_leaves(struct rig *rig);               /* of the rows as they are now */

#endif
