/* What was shipped, put together again (ship/ship.h): the chain of a generation is walked to the time that was asked
 * for, every part of it is compared with its line, then pages of the base are written, then those of the log, in order.
 * Called by whoever restores, on his thread; into a directory that nobody else knows. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "ship/ship.h"

#include "ship_int.h"

enum { PIECE = 1 << 18 };

struct unpack {
	const char *target, *dir;
	const struct age_identity *ids; size_t nids;
	struct ship_line *v; size_t n;  /* of one generation */
	uint64_t generation;
	struct ship_unpacked sum;
};

bool ship_is_target(const char *dir)
{
	uint64_t *v = NULL;
	size_t n = 0;
	const bool is = ship_generations(dir, &v, &n, NULL) == 0 && n > 0;

	free(v);
	return is;
}

/* --- which lines */

/* All lines up to that time; *ret_whole: the generation was whole by then. */
static int read_lines(struct unpack *u, uint64_t generation, uint64_t until_us, bool *ret_whole, struct err *err)
{
	struct ship_reader *r;
	struct ship_line l;
	size_t room = 0;
	int rc = ship_reader_open(u->target, generation, &r, err);

	*ret_whole = false;
	u->n = 0;
	u->generation = generation;
	free(u->v);
	u->v = NULL;
	if (rc < 0)
		return rc;
	while ((rc = ship_reader_next(r, &l, err)) == 1 && (until_us == 0 || l.at_us < until_us || l.kind == SHIP_SEALED)) {
		if (u->n == room) {
			room = room ? room * 2 : 64;
			u->v = mem_realloc(u->v, room * sizeof(*u->v));
		}
		u->v[u->n++] = l;
		*ret_whole = *ret_whole || l.kind == SHIP_WHOLE;
	}
	ship_reader_close(&r);
	return rc < 0 ? rc : 0;
}

/* The newest that was whole at that time.  One that cannot be read is damage, and not passed over: what is older is
 * asked for by its time. */
static int choose(struct unpack *u, uint64_t until_us, struct err *err)
{
	uint64_t *v = NULL;
	size_t n = 0;
	bool whole = false;
	int rc = ship_generations(u->target, &v, &n, err);

	while (rc == 0 && n > 0 && !whole)
		rc = read_lines(u, v[--n], until_us, &whole, err);
	free(v);
	if (rc == 0 && !whole) {
		rc = err_set(err, ERR_NOT_FOUND, u->target, "%s has nothing that was whole at that time", u->target);
		err_hint(err, "without --until it is the newest");
	}
	return rc;
}

static void count_line(struct unpack *u, const struct ship_line *l, uint64_t pages[SHIP_OF])
{
	u->sum.parts += *l->file != '\0';
	if (l->kind == SHIP_SEALED)
		u->sum.bytes += l->size;
	if (l->kind != SHIP_LOG)
		return;
	pages[l->of] = l->pages;
	u->sum.at_us = l->of == SHIP_STORE ? l->at_us : u->sum.at_us;
}

static void look(struct unpack *u)
{
	uint64_t pages[SHIP_OF] = { 0 };

	for (size_t i = 0; i < u->n; i++)
		count_line(u, &u->v[i], pages);
	for (size_t of = 0; of < SHIP_OF; of++)
		u->sum.bytes += pages[of] * WAL_PAGE;
}

/* --- whether they are what was written */

static int file_digest(const char *path, uint8_t ret[DIGEST_SIZE], uint64_t *ret_bytes, struct err *err)
{
	struct digest *d;
	char *piece;
	FILE *f;
	size_t n;
	int rc = path_open_stream(path, &f, err);

	if (rc < 0)
		return rc;
	d = digest_new();
	piece = mem_alloc(PIECE);
	*ret_bytes = 0;
	while ((n = fread(piece, 1, PIECE, f)) > 0) {
		digest_put(d, piece, n);
		*ret_bytes += n;
	}
	if (ferror(f))
		rc = err_set(err, ERR_IO, path, "%s cannot be read", path);
	digest_end(&d, ret);
	free(piece);
	(void)fclose(f);
	return rc;
}

static int check_part(const struct unpack *u, const struct ship_line *l, struct err *err)
{
	char *path = path_join(u->target, l->file);
	uint8_t sha[DIGEST_SIZE];
	uint64_t bytes = 0;
	int rc = 0;

	if (!path_exists(path))
		rc = err_set(err, ERR_CORRUPT, l->file, "part %" PRIu64 " of generation %" PRIu64 ", %s, is missing", l->n,
			     u->generation, l->file);
	if (rc == 0)
		rc = file_digest(path, sha, &bytes, err);
	if (rc == 0 && (bytes != l->bytes || memcmp(sha, l->sha, DIGEST_SIZE) != 0))
		rc = err_set(err, ERR_CORRUPT, l->file, "part %" PRIu64 " of generation %" PRIu64 ", %s, is not what was written",
			     l->n, u->generation, l->file);
	free(path);
	return rc;
}

/* --- what is in them */

struct pages {
	int fd;
	const char *path;
	uint64_t at;                    /* in the part */
	size_t n;                       /* in buf */
	uint8_t buf[4 + WAL_PAGE];
};

static int write_at(int fd, const char *path, const uint8_t *p, size_t n, uint64_t at, struct err *err)
{
	while (n > 0) {
		ssize_t put = pwrite(fd, p, n, (off_t)at);

		if (put < 0 && errno != EINTR)
			return err_set(err, ERR_IO, path, "cannot write %s: %s", path, strerror(errno));
		p += put > 0 ? put : 0;
		at += put > 0 ? (size_t)put : 0;
		n -= put > 0 ? (size_t)put : 0;
	}
	return 0;
}

static int put_pages(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct pages *p = arg;
	const uint8_t *at = bytes;
	int rc = 0;

	while (rc == 0 && n > 0) {
		const size_t want = p->at < SHIP_MAGIC_SIZE ? SHIP_MAGIC_SIZE - p->at : sizeof(p->buf) - p->n;
		const size_t part = n < want ? n : want;

		if (p->at < SHIP_MAGIC_SIZE && memcmp(at, &SHIP_MAGIC[p->at], part) != 0)
			return err_set(err, ERR_CORRUPT, p->path, "a part that has no pages");
		if (p->at >= SHIP_MAGIC_SIZE) {
			memcpy(p->buf + p->n, at, part);
			p->n += part;
		}
		p->at += part;
		at += part;
		n -= part;
		if (p->n == sizeof(p->buf)) {
			uint32_t number = (uint32_t)p->buf[0] << 24 | (uint32_t)p->buf[1] << 16 | (uint32_t)p->buf[2] << 8 | p->buf[3];

			if (number == 0)
				return err_set(err, ERR_CORRUPT, p->path, "a page without a number");
			rc = write_at(p->fd, p->path, p->buf + 4, WAL_PAGE, ((uint64_t)number - 1) * WAL_PAGE, err);
			p->n = 0;
		}
	}
	return rc;
}

struct plain { int fd; const char *path; uint64_t at; };

static int put_plain(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct plain *p = arg;
	int rc = write_at(p->fd, p->path, bytes, n, p->at, err);

	p->at += n;
	return rc;
}

static int decrypt(const struct unpack *u, const struct ship_line *l, age_put_fn *put, void *arg, struct err *err)
{
	struct age_reader *r = age_reader_new(u->ids, u->nids, put, arg);
	char *path = path_join(u->target, l->file), *piece = mem_alloc(PIECE);
	FILE *f = NULL;
	size_t n;
	int rc = path_open_stream(path, &f, err);

	while (rc == 0 && (n = fread(piece, 1, PIECE, f)) > 0)
		rc = age_reader_put(r, piece, n, err);
	if (rc == 0 && ferror(f))
		rc = err_set(err, ERR_IO, path, "%s cannot be read", path);
	if (rc == 0)
		rc = age_reader_end(&r, err);
	if (rc < 0)
		(void)err_wrap(err, "%s", l->file);
	if (f)
		(void)fclose(f);
	age_reader_free(&r);
	free(piece);
	free(path);
	return rc;
}

static int apply(const struct unpack *u, enum ship_kind kind, enum ship_of of, int fd, const char *path,
		 uint64_t *ret_pages, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < u->n && rc == 0; i++) {
		struct pages p = { .fd = fd, .path = path };

		if (u->v[i].kind != kind || u->v[i].of != of)
			continue;
		rc = check_part(u, &u->v[i], err);
		if (rc == 0)
			rc = decrypt(u, &u->v[i], put_pages, &p, err);
		if (rc == 0 && (p.n != 0 || p.at < SHIP_MAGIC_SIZE))
			rc = err_set(err, ERR_CORRUPT, u->v[i].file, "%s ends within a page", u->v[i].file);
		if (kind == SHIP_LOG)
			*ret_pages = u->v[i].pages;
	}
	return rc;
}

static int unpack_database(struct unpack *u, enum ship_of of, struct err *err)
{
	char *path = path_join(u->dir, ship_of_name(of));
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc = 0;
	uint64_t pages = 0;

	if (fd < 0)
		rc = err_set(err, ERR_IO, path, "cannot make %s: %s", path, strerror(errno));
	if (rc == 0)
		rc = apply(u, SHIP_BASE, of, fd, path, &pages, err);
	if (rc == 0)
		rc = apply(u, SHIP_LOG, of, fd, path, &pages, err);
	if (rc == 0 && ftruncate(fd, (off_t)(pages * WAL_PAGE)))
		rc = err_set(err, ERR_IO, path, "cannot write %s: %s", path, strerror(errno));
	u->sum.bytes += pages * WAL_PAGE;
	if (fd >= 0)
		close(fd);
	free(path);
	return rc;
}

static int unpack_sealed(struct unpack *u, const struct ship_line *l, struct err *err)
{
	char *path = path_join(u->dir, l->name), *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
	struct plain p = { .fd = -1, .path = path };
	int rc = check_part(u, l, err);

	if (rc == 0)
		rc = path_mkdirs(folder, 0700, err);
	if (rc == 0) {
		p.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (p.fd < 0)
			rc = err_set(err, ERR_IO, path, "cannot make %s: %s", path, strerror(errno));
	}
	if (rc == 0)
		rc = decrypt(u, l, put_plain, &p, err);
	u->sum.bytes += p.at;
	if (p.fd >= 0)
		close(p.fd);
	free(folder);
	free(path);
	return rc;
}

/* Of a sealed file that was made anew the last copy counts, which the walk comes to last. */
static int unpack_store(struct unpack *u, struct err *err)
{
	int rc = unpack_database(u, SHIP_STORE, err);

	for (size_t i = 0; i < u->n && rc == 0; i++) {
		u->sum.at_us = u->v[i].kind == SHIP_LOG && u->v[i].of == SHIP_STORE ? u->v[i].at_us : u->sum.at_us;
		u->sum.parts += *u->v[i].file != '\0';
		if (u->v[i].kind == SHIP_SEALED)
			rc = unpack_sealed(u, &u->v[i], err);
	}
	return rc;
}

int ship_unpack(const char *target, const struct age_identity *ids, size_t nids, uint64_t until_us, const char *dir,
		struct ship_unpacked *ret, struct err *err)
{
	struct unpack u = { .target = target, .dir = dir, .ids = ids, .nids = nids };
	int rc = choose(&u, until_us, err);

	u.sum.generation = u.generation;
	if (rc == 0 && !dir)
		look(&u);
	else if (rc == 0)
		rc = unpack_store(&u, err);
	if (rc == 0 && dir && until_us > 0)
		rc = choose(&u, 0, err);
	if (rc == 0 && dir)
		rc = unpack_database(&u, SHIP_KEYS, err);
	free(u.v);
	if (rc == 0)
		*ret = u.sum;
	return rc;
}
