#ifndef DB_WAL_H
#define DB_WAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The log of a database that another process owns and writes, followed while it is written: whatever is committed, page
 * by page, nothing left out (OPERATE OP-501 to OP-504, decision 0102).
 *
 * The follower only reads.  It always holds one read transaction of SQLite, and takes the next one before it lets that
 * one go, which is what keeps the log: as long as somebody reads at a place of the log, no checkpoint goes beyond that
 * place and nobody begins the log anew; and who reads the file alone, because all of the log was in it, keeps
 * checkpoints away, so that what is begun anew behind him stays.  So what was read must be safe elsewhere before
 * wal_keep().  One thread.  Whoever uses it must not open or close these files otherwise: that drops SQLite's locks. */

#define WAL_PAGE 4096
struct wal_place { uint32_t salt[2], sum[2]; uint64_t frames; };
struct wal_page { uint32_t number; uint64_t frame; };
struct wal_pages {
	struct wal_page *v; size_t n;   /* by number, each once: as the last commit left it */
	uint32_t db_pages;              /* of the whole database behind that commit */
	uint64_t frames;                /* that were read */
};
struct wal;

/* Holds its first transaction.  ERR_UNREACHABLE. */
int wal_open(const char *path, struct wal **ret, struct err *err) MUST_CHECK;
void wal_close(struct wal **w);
/* Whether the log still is the one of an earlier run, whole from that place on; then it goes on there. */
bool wal_resume(struct wal *w, const struct wal_place *place);
const struct wal_place *wal_next(const struct wal *w);  /* where it goes on behind what was read */
/* Whether something was written behind the place; a cheap look. */
bool wal_is_behind(const struct wal *w);
/* All that was committed behind the place, and the transaction that will hold it; n == 0: nothing.  Then wal_keep() or
 * wal_undo(), and free what is in ret.  ERR_CONFLICT: the log is not the one that was read any more; ERR_IO. */
int wal_read(struct wal *w, struct wal_pages *ret, struct err *err) MUST_CHECK;
int wal_get(struct wal *w, const struct wal_page *page, uint8_t ret[WAL_PAGE], struct err *err) MUST_CHECK;
void wal_keep(struct wal *w);
void wal_undo(struct wal *w);
uint64_t wal_bytes(const struct wal *w);        /* of the log, as far as the last wal_read() went */
/* Nothing is held, so that the log can go, and begin anew; then a first transaction again, from the log's beginning. */
void wal_drop(struct wal *w);
int wal_take(struct wal *w, struct err *err) MUST_CHECK;
void wal_rewind(struct wal *w);                 /* the same of one that is held */
/* Of the database's own file, while checkpoints go on: pages may be old, or torn, and what is newer is in the log. */
uint64_t wal_base_pages(const struct wal *w);
/* How many of n pages from this one on (0 = the first) were there. */
int wal_base_read(struct wal *w, uint64_t from, size_t n, uint8_t *ret, size_t *ret_n, struct err *err) MUST_CHECK;

#endif
