#ifndef BASE_TALLY_H
#define BASE_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Counts with a label, for scrapers (OP-107 to OP-110): of each tenant and tool how its calls ended and how long
 * they took, of each method and upstream how long requests took.  So many names of a kind have a slot of their own;
 * further ones are counted together, under TALLY_OTHER, and so is whatever has that name.  Counts are the process's,
 * as those of base/metric.h: relaxed atomics, no order between two of them.  The loop's thread counts and makes
 * room; any thread reads between tally_hold() and tally_release(). */

enum tally_kind {
	TALLY_TENANT, TALLY_TOOL, TALLY_METHOD, TALLY_UPSTREAM,
	TALLY_COMMIT, TALLY_TURN,       /* of the writer, which counts itself, and of the loop; never bounded */
	TALLY_KINDS
};
#define TALLY_OTHER "other"
#define TALLY_OUTCOMES 12
#define TALLY_BUCKETS_MAX 14            /* bounds of a kind; one more bucket has what is above them */
#define TALLY_GONE_US 86400000000ull    /* so long the slot of a name stays that is not there any more (OP-107) */

struct tally;

/* Loop thread; once for a kind, before its first slot.  0, and without: all are other. */
void tally_bound(enum tally_kind kind, size_t max);
/* Its slot, or that of all others; never NULL.  It stays while something is in it, see tally_sweep(). */
struct tally *tally_get(enum tally_kind kind, const char *name);
/* Something is in it, which runs or waits, until it leaves. */
enum tally_place { TALLY_RUNNING, TALLY_WAITING, TALLY_PLACES };
void tally_enter(struct tally *t, enum tally_place place);
void tally_leave(struct tally *t, enum tally_place place);
void tally_count(struct tally *t, unsigned outcome);
/* Which call of which trace it was: an exemplar.  16 bytes each; wall clock. */
struct tally_mark { uint8_t trace[16], call[16]; uint64_t us, wall_us; };
void tally_observe(struct tally *t, uint64_t us, const struct tally_mark *mark);        /* mark NULL: none */
/* Give up the slots whose names have not been there for TALLY_GONE_US and in which nothing is; not while somebody
 * reads. */
void tally_sweep(enum tally_kind kind, bool (*is_there)(void *arg, const char *name), void *arg, uint64_t now_us);
void tally_hold(void);
void tally_release(void);

/* A record of this kind was committed, by its code; one beyond the bound is not counted.  Any thread. */
#define TALLY_RECORD_CODES 2560
void tally_record(unsigned code);
uint64_t tally_records(unsigned code);

/* --- for readers */

bool tally_is_bounded(enum tally_kind kind);            /* false: there is one slot, that of all others */
size_t tally_slots(enum tally_kind kind);               /* beside that of all others; it may grow meanwhile */
#define TALLY_OTHERS SIZE_MAX                           /* its place */
const char *tally_name(enum tally_kind kind, size_t i);
struct tally_view {
	const char *name;
	uint64_t outcome[TALLY_OUTCOMES], in[TALLY_PLACES], sum_us;
	uint64_t bucket[TALLY_BUCKETS_MAX + 1];         /* each by itself */
};
void tally_see(enum tally_kind kind, size_t i, struct tally_view *ret);
bool tally_see_mark(enum tally_kind kind, size_t i, size_t bucket, struct tally_mark *ret);     /* false: none */
/* The bounds of a kind in seconds, as they are written. */
size_t tally_bounds(enum tally_kind kind, const char *const **ret);

/* Forget all, as if the process began. */
FOR_TESTS void tally_reset(void);

#endif
