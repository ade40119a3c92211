/* The work of toolcrib-ship (ship/ship.h): logs are followed, what was committed becomes a part, and a base of all is
 * copied beside that, piece by piece.  A new generation begins each base_us, while the one before goes on until the
 * new one is whole; and when a chain is broken.  One thread. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "forms/forms.h"
#include "ship/ship.h"

#include "ship_int.h"

enum { PIECE_PAGES = 1024, RETRY_US = 1000000, SEALED_PIECE = 1 << 20 };
#define LOCK_FILE "lock"
#define NO_KEYS "no-keys"               /* in the folder of a generation whose parts of keys.db are gone */

struct shipper {
	struct ship_options o;
	char *store, *target;
	struct age_recipient to[AGE_RECIPIENTS_MAX];
	int lock;
	struct wal *wal[SHIP_OF];
	struct ship_chain now, old;     /* old: whole, until the new one is; fd -1 = there is none */
	bool chained;                   /* now is there, and logs are held */
	bool first[SHIP_OF];            /* the chain has no line on this log yet */
	uint64_t begun_us;              /* wall clock */
	enum ship_of base_of;           /* SHIP_OF: no base is being copied */
	uint64_t base_at;
	struct map *sealed;             /* by name: struct ship_line, as it lies in the target */
	uint64_t last_us, retry_us;     /* monotonic */
	struct err why; int failed;     /* until retry_us */
	struct ship_figures sum;
};

/* --- lines and parts */

static char *part_name(const struct shipper *s, bool sealed)
{
	const struct ship_chain *c = &s->now;

	if (sealed)
		return mem_printf(SHIP_SEALED_FOLDER "/%010" PRIu64 "-%08" PRIu64 ".age", c->generation, c->n + 1);
	return mem_printf("%010" PRIu64 "/%05" PRIu64 "/%08" PRIu64 ".age", c->generation, (c->n + 1) / SHIP_FOLDER_PARTS,
			  c->n + 1);
}

/* Of what both chains have; base pieces belong to the new one alone. */
static int add_line(struct shipper *s, struct ship_line *l, struct err *err)
{
	int rc = ship_chain_add(&s->now, l, err);

	if (rc == 0 && s->old.fd >= 0 && (l->kind == SHIP_LOG || l->kind == SHIP_SEALED))
		rc = ship_chain_add(&s->old, l, err);
	if (rc == 0 && *l->file) {
		s->sum.parts++;
		s->sum.bytes += l->bytes;
	}
	return rc;
}

static int begin_part(struct shipper *s, bool sealed, struct ship_part **ret, struct err *err)
{
	char *name = part_name(s, sealed);
	int rc = ship_part_begin(s->target, name, s->to, s->o.nto, ret, err);

	free(name);
	return rc;
}

static int put_page(struct ship_part *p, uint32_t number, const uint8_t page[WAL_PAGE], struct err *err)
{
	const uint8_t head[4] = { (uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number };
	int rc = ship_part_put(p, head, sizeof(head), err);

	return rc < 0 ? rc : ship_part_put(p, page, WAL_PAGE, err);
}

/* --- sealed files */

static uint64_t changed_us(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000 + (uint64_t)st->st_mtim.tv_nsec / 1000;
}

static int copy_sealed(struct shipper *s, int fd, struct ship_line *l, struct err *err)
{
	char *piece = mem_alloc(SEALED_PIECE);
	struct ship_part *p;
	ssize_t n = 1;
	int rc = begin_part(s, true, &p, err);

	if (rc < 0) {
		free(piece);
		return rc;
	}
	while (rc == 0 && n > 0) {
		n = read(fd, piece, SEALED_PIECE);
		if (n > 0)
			rc = ship_part_put(p, piece, (size_t)n, err);
		else if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			rc = err_set(err, ERR_IO, l->name, "%s cannot be read: %s", l->name, strerror(errno));
	}
	free(piece);
	return ship_part_end(&p, rc, l, err);
}

/* One that was erased in is another file by size or time. */
static int ship_sealed_file(struct shipper *s, const char *name, struct err *err)
{
	struct ship_line l = { .kind = SHIP_SEALED, .at_us = clock_wall_us() };
	const struct ship_line *there = map_get_z(s->sealed, name);
	char *path = path_join(s->store, name);
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc = 0;

	free(path);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || strlen(name) >= sizeof(l.name)) {
		if (fd >= 0)
			close(fd);
		return 0;               /* it is gone again */
	}
	memcpy(l.name, name, strlen(name) + 1);
	l.size = (uint64_t)st.st_size;
	l.changed_us = changed_us(&st);
	if (!there || there->size != l.size || there->changed_us != l.changed_us) {
		rc = copy_sealed(s, fd, &l, err);
		if (rc == 0)
			rc = add_line(s, &l, err);
		if (rc == 0) {
			free(map_get_z(s->sealed, name));
			map_set_z(s->sealed, name, mem_dup(&l, sizeof(l)));
		}
	}
	close(fd);
	return rc;
}

static int ship_sealed_log(struct shipper *s, const char *folder, struct err *err)
{
	char *path = path_join(s->store, folder);
	DIR *d = opendir(path);
	int rc = d || errno == ENOENT ? 0 : err_set(err, ERR_UNREACHABLE, path, "cannot open %s: %s", path, strerror(errno));

	for (const struct dirent *e; d && rc == 0 && (e = readdir(d));) {
		const char *end = strrchr(e->d_name, '.');
		char *name = path_join(folder, e->d_name);

		if (end && strcmp(end, FORMS_FILE_END) == 0)
			rc = ship_sealed_file(s, name, err);
		free(name);
	}
	if (d)
		closedir(d);
	free(path);
	return rc;
}

/* A sealed file is there before the commit that lists it: looked for behind that commit and put into the chain before
 * it, none is missing that the copy lists. */
static int ship_sealed(struct shipper *s, struct err *err)
{
	char *path = path_join(s->store, FORMS_FOLDER);
	DIR *d = opendir(path);
	int rc = 0;

	if (!d && errno != ENOENT)
		rc = err_set(err, ERR_UNREACHABLE, path, "cannot open %s: %s", path, strerror(errno));
	for (const struct dirent *e; d && rc == 0 && (e = readdir(d));) {
		char *folder = path_join(FORMS_FOLDER, e->d_name);

		if (*e->d_name != '.')
			rc = ship_sealed_log(s, folder, err);
		free(folder);
	}
	if (d)
		closedir(d);
	free(path);
	return rc;
}

/* --- logs */

static int put_log(struct shipper *s, struct wal *w, const struct wal_pages *pages, struct ship_line *l,
		   struct err *err)
{
	uint8_t page[WAL_PAGE];
	struct ship_part *p;
	int rc = begin_part(s, false, &p, err);

	if (rc < 0)
		return rc;
	rc = ship_part_put(p, SHIP_MAGIC, SHIP_MAGIC_SIZE, err);
	for (size_t i = 0; i < pages->n && rc == 0; i++) {
		rc = wal_get(w, &pages->v[i], page, err);
		if (rc == 0)
			rc = put_page(p, pages->v[i].number, page, err);
	}
	return ship_part_end(&p, rc, l, err);
}

static int ship_log(struct shipper *s, enum ship_of of, struct err *err)
{
	struct ship_line l = { .kind = SHIP_LOG, .of = of, .at_us = clock_wall_us() };
	struct wal *w = s->wal[of];
	struct wal_pages pages;
	int rc = wal_read(w, &pages, err);

	if (rc < 0)
		return rc;
	if (pages.n > 0 || s->first[of]) {
		rc = of == SHIP_STORE ? ship_sealed(s, err) : 0;
		l.pages = pages.n > 0 ? pages.db_pages : wal_base_pages(w);
		l.place = *wal_next(w);
		if (rc == 0)
			rc = put_log(s, w, &pages, &l, err);
		if (rc == 0)
			rc = add_line(s, &l, err);
		if (rc == 0)
			s->first[of] = false;
	}
	if (rc == 0)
		wal_keep(w);
	else
		wal_undo(w);
	free(pages.v);
	return rc;
}

/* The store before its keys: a key is there before what it opens.  Where nothing was written the lock alone goes on. */
static int ship_logs(struct shipper *s, bool now, struct err *err)
{
	const uint64_t now_us = clock_mono_us();
	const bool due = now || now_us - s->last_us >= s->o.every_us;
	int rc = 0;

	for (unsigned of = 0; of < SHIP_OF && rc == 0; of++)
		if (due || !wal_is_behind(s->wal[of]))
			rc = ship_log(s, (enum ship_of)of, err);
	if (due && rc == 0) {
		s->last_us = now_us;
		s->sum.at_us = clock_wall_us();
	}
	return rc;
}

/* --- old generations */

/* What a generation says of itself; whole_us 0: it is not. */
struct look {
	uint64_t n, begun_us, whole_us, last_us;
	struct wal_place place[SHIP_OF];
};

typedef void each_line_fn(void *arg, const struct ship_line *l);

static int look_through(struct shipper *s, uint64_t generation, struct look *ret, each_line_fn *each, void *arg,
			struct ship_chain *resume, struct err *err)
{
	struct ship_reader *r;
	struct ship_line l;
	int rc = ship_reader_open(s->target, generation, &r, err);

	*ret = (struct look){ .n = 0 };
	if (rc < 0)
		return rc;
	while ((rc = ship_reader_next(r, &l, err)) == 1) {
		ret->begun_us = l.kind == SHIP_BEGIN ? l.at_us : ret->begun_us;
		ret->whole_us = l.kind == SHIP_WHOLE ? l.at_us : ret->whole_us;
		ret->last_us = l.at_us;
		ret->n = l.n;
		if (l.kind == SHIP_LOG)
			ret->place[l.of] = l.place;
		if (each)
			each(arg, &l);
	}
	if (rc == 0 && resume)
		rc = ship_chain_resume(resume, s->target, generation, r, ret->n, err);
	ship_reader_close(&r);
	return rc;
}

struct keys_out { struct shipper *s; const char *kept; };

/* Keys of older generations: a restore takes the newest, so that what was erased stays that. */
static void drop_keys(void *arg, const struct ship_line *l)
{
	const struct keys_out *k = arg;
	char *path;

	if (!*l->file || l->of != SHIP_KEYS || strncmp(l->file, k->kept, strlen(k->kept)) == 0)
		return;
	path = path_join(k->s->target, l->file);
	(void)unlink(path);
	free(path);
}

static void note_sealed(void *arg, const struct ship_line *l)
{
	if (l->kind == SHIP_SEALED)
		map_set_z(arg, l->file, arg);
}

/* Those that no generation names that is left. */
static void drop_sealed(struct shipper *s, const uint64_t *v, size_t n)
{
	char *folder = path_join(s->target, SHIP_SEALED_FOLDER);
	struct map *named = map_new();
	struct look look;
	bool sure = true;
	DIR *d = opendir(folder);

	for (size_t i = 0; i < n; i++)
		sure = look_through(s, v[i], &look, note_sealed, named, NULL, NULL) == 0 && sure;
	for (const struct dirent *e; sure && d && (e = readdir(d));) {
		char *file = path_join(SHIP_SEALED_FOLDER, e->d_name), *path = path_join(s->target, file);

		if (*e->d_name != '.' && !map_get_z(named, file))
			(void)unlink(path);
		free(path);
		free(file);
	}
	if (d)
		closedir(d);
	map_free(&named);
	free(folder);
}

static void remove_generation(const struct shipper *s, uint64_t number)
{
	char *folder = ship_folder(s->target, number);

	path_remove_tree(folder);
	free(folder);
}

/* When a generation has grown last. */
static uint64_t grown_us(const char *folder)
{
	char *path = path_join(folder, SHIP_MANIFEST);
	struct stat st;
	const uint64_t us = stat(path, &st) == 0 ? changed_us(&st) : 0;

	free(path);
	return us;
}

/* Behind a generation that has become whole.  Parts of a generation may lie in the folder of the next one, so they go
 * from the oldest on, and none behind one that stays. */
static void prune(struct shipper *s)
{
	const uint64_t now_us = clock_wall_us();
	char *kept = mem_printf("%010" PRIu64 "/", s->now.generation);
	struct keys_out out = { s, kept };
	uint64_t *v = NULL;
	size_t n = 0, gone = 0;
	struct look look;

	if (ship_generations(s->target, &v, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n && v[i] < s->now.generation; i++) {
		char *folder = ship_folder(s->target, v[i]), *mark = path_join(folder, NO_KEYS);

		/* Without the mark it is done again. */
		if (!path_exists(mark) && (look_through(s, v[i], &look, drop_keys, &out, NULL, NULL) < 0 ||
					   path_create(mark, 0600, "", 0, NULL) < 0))
			s->sum.unpruned++;
		if (gone == i && grown_us(folder) + s->o.keep_us < now_us) {
			remove_generation(s, v[i]);
			gone++;
		}
		free(mark);
		free(folder);
	}
	if (gone > 0)
		drop_sealed(s, v + gone, n - gone);
	free(v);
	free(kept);
}

/* --- generations */

/* One that lies in the target no more, or not whole, is copied again. */
static bool is_there(const struct shipper *s, const struct ship_line *l)
{
	char *from = path_join(s->store, l->name), *copy = path_join(s->target, l->file);
	struct stat st;
	const bool there = path_exists(from) && stat(copy, &st) == 0 && (uint64_t)st.st_size == l->bytes;

	free(copy);
	free(from);
	return there;
}

static int name_sealed(struct shipper *s, struct ship_chain *c, struct err *err)
{
	const void *name;
	size_t at = 0, len;
	void *v;
	int rc = 0;

	while (rc == 0 && map_next(s->sealed, &at, &name, &len, &v)) {
		struct ship_line *l = v;

		if (is_there(s, l))
			rc = ship_chain_add(c, l, err);
		else
			l->size = UINT64_MAX;
	}
	return rc;
}

static int next_generation(const struct shipper *s, uint64_t *ret, struct err *err)
{
	uint64_t *v = NULL;
	size_t n = 0;
	int rc = ship_generations(s->target, &v, &n, err);

	*ret = n > 0 ? v[n - 1] + 1 : 1;
	free(v);
	return rc;
}

static int hold_logs(struct shipper *s, struct err *err)
{
	int rc = 0;

	for (unsigned of = 0; of < SHIP_OF && rc == 0; of++) {
		if (s->chained)
			wal_rewind(s->wal[of]);
		else
			rc = wal_take(s->wal[of], err);
		if (rc < 0 && of > 0)
			wal_drop(s->wal[0]);
	}
	return rc;
}

/* Beside the one that is there, when that is whole and its logs are held. */
static int begin(struct shipper *s, struct err *err)
{
	struct ship_chain next = { .fd = -1 };
	uint64_t number = 0;
	int rc = next_generation(s, &number, err);

	if (rc < 0)
		return rc;
	rc = ship_chain_begin(&next, s->target, number, err);
	if (rc == 0)
		rc = name_sealed(s, &next, err);
	if (rc == 0)
		rc = hold_logs(s, err);
	if (rc < 0) {
		ship_chain_close(&next);
		remove_generation(s, number);
		return rc;
	}
	s->old = s->chained ? s->now : (struct ship_chain){ .fd = -1 };
	s->now = next;
	s->chained = true;
	s->sum.generation = number;
	s->sum.whole = false;
	s->begun_us = clock_wall_us();
	s->base_of = SHIP_STORE;
	s->base_at = 0;
	for (unsigned of = 0; of < SHIP_OF; of++)
		s->first[of] = true;
	return 0;
}

/* Nothing is held any more. */
static void break_chain(struct shipper *s)
{
	for (unsigned of = 0; of < SHIP_OF; of++)
		wal_drop(s->wal[of]);
	ship_chain_close(&s->now);
	ship_chain_close(&s->old);
	s->chained = s->sum.whole = false;
	s->sum.broken++;
	s->retry_us = clock_mono_us() + RETRY_US;
}

static int end_base(struct shipper *s, struct err *err)
{
	struct ship_line l = { .kind = SHIP_WHOLE, .at_us = clock_wall_us() };
	int rc = ship_logs(s, true, err);

	if (rc == 0)
		rc = ship_chain_add(&s->now, &l, err);
	if (rc < 0)
		return rc;
	s->base_of = SHIP_OF;
	s->sum.whole = true;
	ship_chain_close(&s->old);
	prune(s);
	return 0;
}

static int ship_piece(struct shipper *s, struct err *err)
{
	struct ship_line l = { .kind = SHIP_BASE, .of = s->base_of, .at_us = clock_wall_us() };
	uint8_t *pages = mem_alloc((size_t)PIECE_PAGES * WAL_PAGE);
	struct ship_part *p;
	size_t n = 0;
	int rc = wal_base_read(s->wal[s->base_of], s->base_at, PIECE_PAGES, pages, &n, err);

	if (rc == 0 && n > 0) {
		rc = begin_part(s, false, &p, err);
		if (rc == 0) {
			rc = ship_part_put(p, SHIP_MAGIC, SHIP_MAGIC_SIZE, err);
			for (size_t i = 0; i < n && rc == 0; i++)
				rc = put_page(p, (uint32_t)(s->base_at + i + 1), pages + i * WAL_PAGE, err);
			rc = ship_part_end(&p, rc, &l, err);
		}
		l.pages = n;
		if (rc == 0)
			rc = add_line(s, &l, err);
	}
	free(pages);
	if (rc < 0)
		return rc;
	s->base_at += n;
	if (n < PIECE_PAGES) {
		s->base_of++;
		s->base_at = 0;
	}
	return s->base_of == SHIP_OF ? end_base(s, err) : 0;
}

/* --- going on */

static void take_sealed(void *arg, const struct ship_line *l)
{
	struct map *sealed = arg;

	if (l->kind != SHIP_SEALED)
		return;
	free(map_get_z(sealed, l->name));
	map_set_z(sealed, l->name, mem_dup(l, sizeof(*l)));
}

/* The newest that is whole, when both logs still are where its last lines were.  What is newer and not whole stays for
 * its parts that the older one may name. */
static int resume(struct shipper *s, struct err *err)
{
	uint64_t *v = NULL;
	size_t n = 0;
	struct look look = { .n = 0 };
	int rc = ship_generations(s->target, &v, &n, err);

	for (size_t i = n; rc == 0 && i-- > 0 && !s->chained;) {
		struct ship_chain c = { .fd = -1 };

		if (look_through(s, v[i], &look, take_sealed, s->sealed, &c, NULL) < 0 || look.whole_us == 0) {
			ship_chain_close(&c);
			continue;
		}
		s->now = c;
		s->chained = wal_resume(s->wal[SHIP_STORE], &look.place[SHIP_STORE]) &&
			wal_resume(s->wal[SHIP_KEYS], &look.place[SHIP_KEYS]);
		if (!s->chained)
			ship_chain_close(&s->now);
		break;
	}
	if (s->chained) {
		s->begun_us = look.begun_us;
		s->sum.generation = s->now.generation;
		s->sum.whole = true;
	}
	free(v);
	return rc;
}

static int lock_target(struct shipper *s, struct err *err)
{
	char *path = path_join(s->target, LOCK_FILE);
	int rc = path_mkdirs(s->target, 0700, err);

	s->lock = rc == 0 ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (rc == 0 && s->lock < 0)
		rc = err_set(err, ERR_IO, path, "cannot write %s: %s", path, strerror(errno));
	if (rc == 0 && flock(s->lock, LOCK_EX | LOCK_NB))
		rc = err_set(err, ERR_CONFLICT, s->target, "another process ships to %s", s->target);
	free(path);
	return rc;
}

int shipper_open(const struct ship_options *o, struct shipper **ret, struct err *err)
{
	struct shipper *s = mem_zalloc(sizeof(*s));
	int rc;

	s->o = *o;
	s->store = path_absolute(o->store);
	s->target = path_absolute(o->target);
	memcpy(s->to, o->to, o->nto * sizeof(*o->to));
	s->lock = s->now.fd = s->old.fd = -1;
	s->base_of = SHIP_OF;
	s->sealed = map_new();
	rc = lock_target(s, err);
	for (unsigned of = 0; of < SHIP_OF && rc == 0; of++) {
		char *path = path_join(s->store, ship_of_name((enum ship_of)of));

		rc = wal_open(path, &s->wal[of], err);
		free(path);
	}
	if (rc == 0)
		rc = resume(s, err);
	if (rc == 0 && !s->chained)
		for (unsigned of = 0; of < SHIP_OF; of++)
			wal_drop(s->wal[of]);
	if (rc < 0)
		shipper_close(&s);
	else
		*ret = s;
	return rc;
}

static int run(struct shipper *s, enum ship_how how, struct err *err)
{
	int rc = 0;

	if (!s->chained || (s->base_of == SHIP_OF && clock_wall_us() - s->begun_us >= s->o.base_us))
		rc = begin(s, err);
	if (rc == 0)
		rc = ship_logs(s, how != SHIP_DUE, err);
	while (rc == 0 && how == SHIP_ALL && s->base_of != SHIP_OF)
		rc = ship_piece(s, err);
	if (rc == 0 && s->base_of != SHIP_OF)
		rc = ship_piece(s, err);
	return rc;
}

/* What is written, but more slowly than the store, has some patience. */
static bool is_too_far(const struct shipper *s, const struct wal *w, int rc)
{
	const uint64_t most = rc < 0 ? s->o.log_max : s->o.log_max * SHIP_LOG_PATIENCE;

	return wal_bytes(w) > most && (rc < 0 || wal_is_behind(w));
}

/* How far the logs have grown, and whether they are the same, where nothing can be shipped. */
static int look_at_logs(struct shipper *s, int rc)
{
	for (unsigned of = 0; of < SHIP_OF && s->chained && rc != ERR_CONFLICT; of++) {
		struct wal_pages pages = { 0 };
		const int got = wal_read(s->wal[of], &pages, NULL);

		if (got == 0)
			wal_undo(s->wal[of]);
		else if (got == ERR_CONFLICT)
			rc = got;
		free(pages.v);
	}
	return rc;
}

/* Is the target still the directory that was opened?  Its lock says so, which we hold: parts behind what somebody has
 * taken away would be a chain that nobody can put back.  What is mounted there no more may come back. */
static int check_target(struct shipper *s, struct err *err)
{
	char *path = path_join(s->target, LOCK_FILE);
	struct stat ours, there, folder;
	const bool held = fstat(s->lock, &ours) == 0;
	const bool same = held && stat(path, &there) == 0 && there.st_dev == ours.st_dev && there.st_ino == ours.st_ino;

	free(path);
	if (same)
		return 0;
	if (!held || stat(s->target, &folder) != 0 || !S_ISDIR(folder.st_mode) || folder.st_dev != ours.st_dev)
		return err_set(err, ERR_UNREACHABLE, s->target, "%s is not there, or it is another file system than before",
			       s->target);
	if (s->chained)
		break_chain(s);
	s->sum.lost = true;
	return err_set(err, ERR_UNREACHABLE, s->target, "what was in %s has been taken away", s->target);
}

int shipper_run(struct shipper *s, enum ship_how how, bool *ret_more, struct err *err)
{
	int rc = 0;

	*ret_more = false;
	if (clock_mono_us() < s->retry_us && how == SHIP_DUE) {
		*err = s->why;
		return s->failed;
	}
	rc = check_target(s, err);
	rc = rc == 0 ? run(s, how, err) : look_at_logs(s, rc);
	s->retry_us = rc < 0 ? clock_mono_us() + RETRY_US : 0;
	s->why = rc < 0 ? *err : (struct err){ 0 };
	s->failed = rc;
	for (unsigned of = 0; of < SHIP_OF && s->chained; of++)
		if (rc == ERR_CONFLICT || is_too_far(s, s->wal[of], rc))
			break_chain(s);
	*ret_more = rc == 0 && s->chained && s->base_of != SHIP_OF;
	return rc;
}

struct ship_figures shipper_figures(const struct shipper *s)
{
	return s->sum;
}

void shipper_close(struct shipper **sp)
{
	struct shipper *s = *sp;
	const void *name;
	size_t at = 0, len;
	void *v;

	*sp = NULL;
	if (!s)
		return;
	while (map_next(s->sealed, &at, &name, &len, &v))
		free(v);
	map_free(&s->sealed);
	ship_chain_close(&s->now);
	ship_chain_close(&s->old);
	for (unsigned of = 0; of < SHIP_OF; of++)
		wal_close(&s->wal[of]);
	if (s->lock >= 0)
		close(s->lock);
	free(s->store);
	free(s->target);
	free(s);
}
