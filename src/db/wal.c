/* Following the log of a database that another process writes (db/wal.h): the format of SQLite's file format page, 4.1
 * to 4.4, frames and their sums.  Used by toolcrib-ship, on its only thread. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "db/db.h"
#include "db/wal.h"

#include "db_int.h"

enum { HEAD = 32, FRAME_HEAD = 24, FRAME = FRAME_HEAD + WAL_PAGE, MAGIC = 0x377f0682 };

_Static_assert(WAL_PAGE == DB_PAGE_SIZE, "pages");

struct wal {
	char *path;
	struct db *reader[2];           /* one holds a transaction, the other one takes the next */
	unsigned held;
	int file, log;                  /* open for life */
	bool big;                       /* how sums are made of bytes */
	struct wal_place place, next;
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void add_sum(bool big, const uint8_t *p, size_t n, uint32_t sum[2])
{
	for (size_t i = 0; i < n; i += 8) {
		uint32_t a = be32(p + i), b = be32(p + i + 4);

		sum[0] += (big ? a : __builtin_bswap32(a)) + sum[1];
		sum[1] += (big ? b : __builtin_bswap32(b)) + sum[0];
	}
}

static bool read_at(int fd, uint64_t at, void *ret, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t part = pread(fd, (char *)ret + got, n - got, (off_t)(at + got));

		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			return false;
		got += (size_t)part;
	}
	return true;
}

static uint64_t frame_at(uint64_t frame)
{
	return HEAD + frame * FRAME;
}

/* False: there is no log, or its beginning is being written. */
static bool read_head(const struct wal *w, struct wal_place *ret, bool *ret_big)
{
	uint8_t head[HEAD];
	uint32_t sum[2] = { 0, 0 };

	if (!read_at(w->log, 0, head, sizeof(head)) || (be32(head) & ~1u) != MAGIC || be32(head + 8) != WAL_PAGE)
		return false;
	*ret_big = be32(head) & 1;
	add_sum(*ret_big, head, HEAD - 8, sum);
	*ret = (struct wal_place){ { be32(head + 16), be32(head + 20) }, { sum[0], sum[1] }, 0 };
	return sum[0] == be32(head + 24) && sum[1] == be32(head + 28);
}

static bool same_log(const struct wal_place *a, const struct wal_place *b)
{
	return a->salt[0] == b->salt[0] && a->salt[1] == b->salt[1];
}

/* The last frame before the place is the one that was read. */
static bool is_at(const struct wal *w, const struct wal_place *place)
{
	uint8_t head[FRAME_HEAD];

	return place->frames == 0 || (read_at(w->log, frame_at(place->frames - 1), head, sizeof(head)) &&
				      be32(head + 16) == place->sum[0] && be32(head + 20) == place->sum[1]);
}

/* --- the transactions */

static int hold(struct wal *w, unsigned which, struct err *err)
{
	int64_t ignored;
	int rc = db_txn_begin(w->reader[which], false, err);

	if (rc < 0)
		return rc;
	rc = db_pragma_int(w->reader[which], "schema_version", &ignored, err);  /* the first read is the lock */
	return rc < 0 ? db_txn_end(w->reader[which], rc, NULL) : 0;
}

void wal_keep(struct wal *w)
{
	(void)db_txn_end(w->reader[w->held], 0, NULL);
	w->held ^= 1;
	w->place = w->next;
}

void wal_undo(struct wal *w)
{
	(void)db_txn_end(w->reader[w->held ^ 1], 0, NULL);
}

static int open_file(const char *path, int *ret, struct err *err)
{
	*ret = open(path, O_RDONLY | O_CLOEXEC);
	return *ret >= 0 ? 0 : err_set(err, ERR_UNREACHABLE, path, "cannot open %s: %s", path, strerror(errno));
}

/* The second one reads too: what it opens by name is open from then on. */
static int open_readers(struct wal *w, struct err *err)
{
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc == 0; i++) {
		rc = db_open(w->path, DB_READER, false, &w->reader[i], err);
		if (rc == 0)
			rc = hold(w, i, err);
	}
	if (rc == 0)
		wal_undo(w);
	return rc;
}

int wal_open(const char *path, struct wal **ret, struct err *err)
{
	struct wal *w = mem_zalloc(sizeof(*w));
	char *log = mem_printf("%s-wal", path);
	int rc;

	w->path = mem_strdup(path);
	w->file = w->log = -1;
	rc = open_readers(w, err);
	if (rc == 0)
		rc = open_file(path, &w->file, err);
	if (rc == 0)
		rc = open_file(log, &w->log, err);
	free(log);
	if (rc < 0)
		wal_close(&w);
	else
		*ret = w;
	return rc;
}

void wal_close(struct wal **wp)
{
	struct wal *w = *wp;

	*wp = NULL;
	if (!w)
		return;
	for (unsigned i = 0; i < 2; i++)
		db_close(&w->reader[i]);
	if (w->file >= 0)
		close(w->file);
	if (w->log >= 0)
		close(w->log);
	free(w->path);
	free(w);
}

/* --- reading */

bool wal_resume(struct wal *w, const struct wal_place *place)
{
	struct wal_place head;
	bool big;

	if (!read_head(w, &head, &big) || !same_log(&head, place) || !is_at(w, place))
		return false;
	w->big = big;
	w->place = *place;
	return true;
}

const struct wal_place *wal_next(const struct wal *w)
{
	return &w->next;
}

bool wal_is_behind(const struct wal *w)
{
	struct wal_place head;
	uint8_t next[FRAME_HEAD];
	bool big;

	if (!read_head(w, &head, &big))
		return false;
	if (!same_log(&head, &w->place))
		return true;
	return read_at(w->log, frame_at(w->place.frames), next, sizeof(next)) && be32(next + 8) == head.salt[0] &&
		be32(next + 12) == head.salt[1];
}

/* Frames from w->next on, up to the last commit; the next place. */
static void scan(struct wal *w, struct wal_pages *ret)
{
	uint8_t *frame = mem_alloc(FRAME);
	struct wal_place at = w->next, last = at;
	size_t n = 0, room = 0;

	while (read_at(w->log, frame_at(at.frames), frame, FRAME)) {
		if (be32(frame + 8) != at.salt[0] || be32(frame + 12) != at.salt[1])
			break;
		add_sum(w->big, frame, 8, at.sum);
		add_sum(w->big, frame + FRAME_HEAD, WAL_PAGE, at.sum);
		if (at.sum[0] != be32(frame + 16) || at.sum[1] != be32(frame + 20))
			break;
		if (n == room) {
			room = room ? room * 2 : 256;
			ret->v = mem_realloc(ret->v, room * sizeof(*ret->v));
		}
		ret->v[n++] = (struct wal_page){ be32(frame), at.frames };
		at.frames++;
		if (be32(frame + 4) == 0)
			continue;
		ret->db_pages = be32(frame + 4);
		ret->frames = at.frames - w->next.frames;
		ret->n = n;
		last = at;
	}
	w->next = last;
	free(frame);
}

static int by_number(const void *a, const void *b)
{
	const struct wal_page *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->frame > y->frame ? -1 : x->frame < y->frame;
}

static void keep_newest(struct wal_pages *pages)
{
	size_t n = 0;

	if (pages->n > 0)
		qsort(pages->v, pages->n, sizeof(*pages->v), by_number);
	for (size_t i = 0; i < pages->n; i++)
		if (n == 0 || pages->v[n - 1].number != pages->v[i].number)
			pages->v[n++] = pages->v[i];
	pages->n = n;
}

int wal_read(struct wal *w, struct wal_pages *ret, struct err *err)
{
	struct wal_place head;
	bool big;
	int rc = hold(w, w->held ^ 1, err);

	*ret = (struct wal_pages){ NULL, 0, 0, 0 };
	if (rc < 0)
		return rc;
	w->next = w->place;
	if (!read_head(w, &head, &big))
		return 0;
	if (!same_log(&head, &w->place)) {
		w->next = head;
		w->big = big;
	} else if (!is_at(w, &w->place)) {
		wal_undo(w);
		return err_set(err, ERR_CONFLICT, w->path, "the log is not the one that was read before");
	}
	scan(w, ret);
	keep_newest(ret);
	return 0;
}

static int unreadable(const char *path, struct err *err)
{
	return err_set(err, ERR_IO, path, "%s cannot be read", path);
}

int wal_get(struct wal *w, const struct wal_page *page, uint8_t ret[WAL_PAGE], struct err *err)
{
	return read_at(w->log, frame_at(page->frame) + FRAME_HEAD, ret, WAL_PAGE) ? 0 : unreadable(w->path, err);
}

uint64_t wal_bytes(const struct wal *w)
{
	return w->next.frames * FRAME;
}

void wal_drop(struct wal *w)
{
	(void)db_txn_end(w->reader[w->held], 0, NULL);
}

void wal_rewind(struct wal *w)
{
	w->place = w->next = (struct wal_place){ .frames = 0 };
}

int wal_take(struct wal *w, struct err *err)
{
	wal_rewind(w);
	return hold(w, w->held, err);
}

uint64_t wal_base_pages(const struct wal *w)
{
	struct stat st;

	return fstat(w->file, &st) == 0 ? (uint64_t)st.st_size / WAL_PAGE : 0;
}

int wal_base_read(struct wal *w, uint64_t from, size_t n, uint8_t *ret, size_t *ret_n, struct err *err)
{
	size_t got = 0;

	while (got < n * WAL_PAGE) {
		ssize_t part = pread(w->file, ret + got, n * WAL_PAGE - got, (off_t)(from * WAL_PAGE + got));

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return unreadable(w->path, err);
		if (part == 0)
			break;
		got += (size_t)part;
	}
	*ret_n = got / WAL_PAGE;
	return 0;
}
