#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both clocks, in microseconds.  Tests step them: clock_fake() freezes both at the given values until
 * clock_real().  Any thread. */
uint64_t clock_wall_us(void);      /* UTC since 1970 */
uint64_t clock_mono_us(void);      /* since boot */
FOR_TESTS void clock_fake(uint64_t wall_us, uint64_t mono_us);
FOR_TESTS void clock_step(uint64_t us);      /* fake clocks only: both move on */
FOR_TESTS void clock_real(void);

/* The wall clock as it was when the current turn of this thread's loop first asked for it; elsewhere clock_wall_us().
 * For what a turn more or less does not move: the end of a key's life, the day of a quota, a date.  Records
 * have times of their own. */
uint64_t clock_turn_us(void);
void clock_turn(bool in);          /* the loop's thread: a turn begins, or the last one is over */

/* Whether somebody keeps the wall clock right, as the kernel knows it (adjtimex(2)).  Any thread. */
enum clock_sync { CLOCK_UNKNOWN, CLOCK_SYNCED, CLOCK_UNSYNCED };
struct clock_state {
	enum clock_sync sync;
	uint64_t max_error_us;          /* how wrong it may be, of CLOCK_SYNCED */
	unsigned status;                /* STA_… of the kernel; not of CLOCK_UNKNOWN */
	int why;                        /* errno, of CLOCK_UNKNOWN; 0 while the clocks are fake */
};
void clock_state(struct clock_state *ret);
FOR_TESTS void clock_fake_sync(enum clock_sync sync);     /* fake clocks only, which are CLOCK_UNKNOWN otherwise */
const char *clock_sync_name(enum clock_sync sync);      /* "synchronised", "not synchronised", "not known" */

/* RFC 3339, "2026-07-28T10:00:00.000000Z"; ret has at least 28 bytes.  Returns ret. */
char *clock_format_utc(uint64_t wall_us, char *ret, size_t size);
/* Local time with zone for tables, "2026-07-28 12:00:00 +0200"; at least 32 bytes. */
char *clock_format_local(uint64_t wall_us, char *ret, size_t size);
/* RFC 3339 date-time, a date, or an age like "15m", "1h", "3d" before now.  0 or -1. */
int clock_parse(const char *text, uint64_t now_us, uint64_t *ret_us);
/* A date of HTTP in any of its three forms (RFC 9110 5.6.7); now_us tells the century of a year with two digits.  0 or
 * -1. */
int clock_parse_http(const char *text, uint64_t now_us, uint64_t *ret_us);

#endif
