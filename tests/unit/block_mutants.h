#ifndef TESTS_BLOCK_MUTANTS_H
#define TESTS_BLOCK_MUTANTS_H

#include "block_parts.h"
#include "block_rig.h"

/* Sound bytes changed as somebody would who means harm: a bit, a piece too much or too little, a number that is at the
 * end of its range or longer than it need be.  Some of it says something else, some nothing, and now and then nothing
 * is changed. */

struct mutant { struct block b; struct parts parts; struct part zone; };

/* Of a sound block; the seed says which.  mutant_free() */
void mutant_make(struct mutant *m, struct rig *rig, const struct block *b);
void mutant_free(struct mutant *m);
/* One change of bytes that were set by part_set(). */
void mutant_bytes(struct rig *rig, struct part *part);

#endif
