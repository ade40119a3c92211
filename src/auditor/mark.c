/* The mark file of an auditor.  Called by toolcrib-verify, on its only thread.  All numbers are little-endian; the MAC
 * is the last thing in the file and covers everything before it. */

#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/record.h"
#include "auditor/mark.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/pack.h"
#include "base/path.h"
#include "base/text.h"

static const char magic[8] = "TCMARK1\n", purpose[] = "toolcrib/mark/1";
enum { KEY_TEXT = 2 * SECRET_KEY_SIZE };

/* --- what a file says between its first bytes and its MAC, read strictly also when that is right */

enum { FORM = 1 };

/* A finding with texts of its own. */
struct mark_found { struct audit_finding f; char *origin, *detail; };

struct mark_range { int64_t from, to; uint64_t at_us; };        /* read at this time, ascending, without gap */
struct mark_log { int64_t id; struct mark_range *range; size_t n; };

struct mark_file {
	uint64_t made_us;               /* when the verification began that base is of */
	uint64_t indexes_us;            /* when the one began that compared the indexes of records last */
	struct unpack base;          /* left 0: none has come to its end */
	struct mark_log *log; size_t nlogs;     /* by id */
	uint64_t begun_us;              /* the same of way */
	struct unpack way;           /* left 0: none was cut off */
	struct mark_found *found; size_t nfound;
};

/* --- findings */

static void mark_found_set(struct mark_found *ret, const struct audit_finding *f)
{
	ret->f = *f;
	ret->f.origin = ret->origin = f->origin ? mem_strdup(f->origin) : NULL;
	ret->f.detail = ret->detail = f->detail ? mem_strdup(f->detail) : NULL;
}

static void mark_found_fini(struct mark_found *f)
{
	free(f->origin);
	free(f->detail);
}

/* A text that may be missing. */
static void put_text(struct str *to, const char *text)
{
	pack_u64(to, text != NULL);
	if (text)
		pack_text(to, text, strlen(text));
}

static char *get_text(struct unpack *in)
{
	bool there = unpack_bool(in);
	size_t len = 0;
	const char *p = there ? unpack_text(in, &len) : NULL;

	in->bad |= there && memchr(p, 0, len);
	return there && !in->bad ? mem_strndup(p, len) : NULL;
}

static void get_found(struct unpack *in, struct mark_found *ret)
{
	int code = 0;
	char name[32];

	unpack_name(in, name, sizeof(name));
	while (code < AUDIT_FINDING_COUNT && strcmp(audit_finding_name((enum audit_finding_code)code), name) != 0)
		code++;
	in->bad |= code == AUDIT_FINDING_COUNT;
	ret->f.code = in->bad ? AUDIT_FINDING_NOT_CHECKED : (enum audit_finding_code)code;
	ret->f.from = (int64_t)unpack_u64(in);
	ret->f.to = (int64_t)unpack_u64(in);
	ret->f.gap = unpack_bool(in);
	ret->f.origin = ret->origin = get_text(in);
	ret->f.detail = ret->detail = get_text(in);
}

/* --- ranges */

static void get_log(struct unpack *in, int64_t before, struct mark_log *ret)
{
	ret->id = (int64_t)unpack_u64(in);
	in->bad |= ret->id <= before;
	ret->n = unpack_count(in, 24);
	in->bad |= ret->n > MARK_RANGES_MAX;
	ret->n = in->bad ? 0 : ret->n;
	ret->range = mem_calloc(ret->n + 1, sizeof(*ret->range));
	for (size_t i = 0; i < ret->n; i++) {
		struct mark_range *r = &ret->range[i];

		r->from = (int64_t)unpack_u64(in);
		r->to = (int64_t)unpack_u64(in);
		r->at_us = unpack_u64(in);
		in->bad |= r->from < 0 || r->to <= r->from || (i > 0 && r->from != r[-1].to);
	}
}

static void put_log(struct str *to, const struct mark_log *l)
{
	pack_u64(to, (uint64_t)l->id);
	pack_u64(to, l->n);
	for (size_t i = 0; i < l->n; i++) {
		pack_u64(to, (uint64_t)l->range[i].from);
		pack_u64(to, (uint64_t)l->range[i].to);
		pack_u64(to, l->range[i].at_us);
	}
}

/* --- the whole */

/* The bytes are borrowed.  ret is to be freed also when it fails. */
static int mark_file_read(const uint8_t *p, size_t len, struct mark_file *ret, struct err *err)
{
	struct unpack in = { p, len, false };
	size_t n;

	*ret = (struct mark_file){ .made_us = 0 };
	in.bad |= unpack_u64(&in) != FORM;
	ret->made_us = unpack_u64(&in);
	ret->indexes_us = unpack_u64(&in);
	unpack_part(&in, &ret->base);
	n = unpack_count(&in, 16);
	ret->log = mem_calloc(n + 1, sizeof(*ret->log));
	for (; ret->nlogs < n && !in.bad; ret->nlogs++)
		get_log(&in, ret->nlogs ? ret->log[ret->nlogs - 1].id : 0, &ret->log[ret->nlogs]);
	ret->begun_us = unpack_u64(&in);
	unpack_part(&in, &ret->way);
	n = unpack_count(&in, 48);
	in.bad |= n > MARK_FOUND_MAX;
	ret->found = mem_calloc(in.bad ? 1 : n + 1, sizeof(*ret->found));
	for (; ret->nfound < n && !in.bad; ret->nfound++)
		get_found(&in, &ret->found[ret->nfound]);
	if (in.bad || in.left > 0)
		return err_set(err, ERR_CORRUPT, "", "the mark is malformed, or of another release");
	return 0;
}

static void mark_file_write(const struct mark_file *f, struct str *to)
{
	pack_u64(to, FORM);
	pack_u64(to, f->made_us);
	pack_u64(to, f->indexes_us);
	pack_text(to, (const char *)f->base.p, f->base.left);
	pack_u64(to, f->nlogs);
	for (size_t i = 0; i < f->nlogs; i++)
		put_log(to, &f->log[i]);
	pack_u64(to, f->begun_us);
	pack_text(to, (const char *)f->way.p, f->way.left);
	pack_u64(to, f->nfound);
	for (size_t i = 0; i < f->nfound; i++) {
		const struct audit_finding *a = &f->found[i].f;
		const char *name = audit_finding_name(a->code);

		pack_text(to, name, strlen(name));
		pack_u64(to, (uint64_t)a->from);
		pack_u64(to, (uint64_t)a->to);
		pack_u64(to, a->gap);
		put_text(to, a->origin);
		put_text(to, a->detail);
	}
}

static void free_logs(struct mark_log *log, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(log[i].range);
	free(log);
}

static void mark_file_fini(struct mark_file *f)
{
	free_logs(f->log, f->nlogs);
	for (size_t i = 0; i < f->nfound; i++)
		mark_found_fini(&f->found[i]);
	free(f->found);
}

/* --- what is read again: of old records the part that was read longest ago */

/* A range, and where it stands in the mark. */
struct mark_old { struct verify_range range; uint64_t at_us; };
struct mark_chosen { struct verify_range *v; size_t n; bool indexes; };

static int by_age(const void *a, const void *b)
{
	const struct mark_old *x = a, *y = b;

	if (x->at_us != y->at_us)
		return x->at_us < y->at_us ? -1 : 1;
	if (x->range.log != y->range.log)
		return x->range.log < y->range.log ? -1 : 1;
	return x->range.from < y->range.from ? -1 : x->range.from > y->range.from;
}

static int by_place(const void *a, const void *b)
{
	const struct verify_range *x = a, *y = b;

	if (x->log != y->log)
		return x->log < y->log ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* The oldest so many records; a range is cut where a tile ends. */
static void choose_oldest(struct mark_chosen *ret, struct mark_old *old, size_t n, uint64_t quota, uint64_t indexes_us)
{
	uint64_t newest = 0;

	qsort(old, n, sizeof(*old), by_age);
	ret->v = mem_calloc(n + 1, sizeof(*ret->v));
	for (size_t i = 0; i < n && quota > 0; i++) {
		struct verify_range r = old[i].range;
		uint64_t size = (uint64_t)(r.to - r.from);

		if (size > quota) {
			r.to = (r.from + (int64_t)quota + TILE_WIDTH - 1) / TILE_WIDTH * TILE_WIDTH;
			r.to = r.to < old[i].range.to ? r.to : old[i].range.to;
			size = quota;
		}
		quota -= size;
		newest = old[i].at_us;
		ret->v[ret->n++] = r;
	}
	ret->indexes = indexes_us <= newest;
	qsort(ret->v, ret->n, sizeof(*ret->v), by_place);
}

static void choose(const struct mark_file *f, unsigned part, struct mark_chosen *ret)
{
	uint64_t total = 0;
	size_t n = 0, k = 0;
	struct mark_old *old;

	for (size_t i = 0; i < f->nlogs; i++)
		n += f->log[i].n;
	old = mem_calloc(n + 1, sizeof(*old));
	for (size_t i = 0; i < f->nlogs; i++)
		for (size_t j = 0; j < f->log[i].n; j++) {
			const struct mark_range *r = &f->log[i].range[j];

			total += (uint64_t)(r->to - r->from);
			old[k++] = (struct mark_old){ { f->log[i].id, r->from, r->to }, r->at_us };
		}
	choose_oldest(ret, old, n, total / part + (total % part > 0), f->indexes_us);
	free(old);
}

/* --- when what was read */

/* When each range of each log was read, once a verification that began at at_us has read what is new. */
struct mark_reading {
	const struct mark_file *was;
	uint64_t at_us;
	const struct mark_chosen *chosen;
	struct mark_log *log; size_t n, cap;
	uint64_t oldest_us;             /* of all, once they are noted */
};

static uint64_t apart(const struct mark_range *r)
{
	return r[0].at_us > r[1].at_us ? r[0].at_us - r[1].at_us : r[1].at_us - r[0].at_us;
}

/* Two neighbours become one, as old as the older. */
static void merge(struct mark_log *l)
{
	size_t best = 0;

	for (size_t i = 1; i + 1 < l->n; i++)
		if (apart(&l->range[i]) < apart(&l->range[best]))
			best = i;
	l->range[best].to = l->range[best + 1].to;
	if (l->range[best + 1].at_us < l->range[best].at_us)
		l->range[best].at_us = l->range[best + 1].at_us;
	memmove(&l->range[best + 1], &l->range[best + 2], (l->n - best - 2) * sizeof(*l->range));
	l->n--;
}

static const struct mark_log *find(const struct mark_file *f, int64_t id)
{
	for (size_t from = 0, to = f->nlogs; from < to;) {
		size_t at = from + (to - from) / 2;

		if (f->log[at].id == id)
			return &f->log[at];
		if (f->log[at].id < id)
			from = at + 1;
		else
			to = at;
	}
	return NULL;
}

/* Neighbours of one time are one range; more of them than there may be become fewer. */
static void add_range(struct mark_log *l, int64_t from, int64_t to, uint64_t at_us)
{
	if (from >= to)
		return;
	if (l->n > 0 && l->range[l->n - 1].at_us == at_us) {
		l->range[l->n - 1].to = to;
		return;
	}
	l->range[l->n++] = (struct mark_range){ from, to, at_us };
	if (l->n > MARK_RANGES_MAX)
		merge(l);
}

/* A range of before, of which parts were read again. */
static void add_old(struct mark_reading *r, struct mark_log *l, const struct mark_range *old)
{
	int64_t at = old->from;

	for (size_t i = 0; r->chosen && i < r->chosen->n; i++) {
		const struct verify_range *c = &r->chosen->v[i];

		if (c->log != l->id || c->from < at || c->to > old->to)
			continue;
		add_range(l, at, c->from, old->at_us);
		add_range(l, c->from, c->to, r->at_us);
		at = c->to;
	}
	add_range(l, at, old->to, old->at_us);
}

static void mark_file_note(struct mark_reading *r, int64_t id, int64_t from, int64_t size)
{
	const struct mark_log *was = find(r->was, id);
	struct mark_log *l;
	int64_t at = from;

	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 16;
		r->log = mem_realloc(r->log, r->cap * sizeof(*r->log));
	}
	l = &r->log[r->n++];
	*l = (struct mark_log){ .id = id, .range = mem_calloc(MARK_RANGES_MAX + 1, sizeof(*l->range)) };
	/* A log of which something was pruned was read anew. */
	if (was && was->n > 0 && was->range[0].from == from) {
		for (size_t i = 0; i < was->n; i++)
			add_old(r, l, &was->range[i]);
		at = was->range[was->n - 1].to;
	}
	add_range(l, at, size, r->at_us);
	for (size_t i = 0; i < l->n; i++)
		if (l->range[i].at_us < r->oldest_us)
			r->oldest_us = l->range[i].at_us;
}

static void mark_reading_fini(struct mark_reading *r)
{
	free_logs(r->log, r->n);
}

/* --- a mark */

struct mark {
	char *path, *key_path;
	uint8_t key[SECRET_KEY_SIZE];
	struct str file;                /* as it was read; what follows borrows from it */
	struct mark_file was;
	bool there, resumes, dropped;   /* dropped: there were too many findings to keep them */
	uint64_t begun_us, every_us, kept_us;
	struct verify_marking marking;
	struct str state;               /* at the end */
	struct mark_chosen chosen;
	struct mark_found *found; size_t nfound, cap, nopened;  /* nopened: told before the first log */
	struct mark_run *run;
	struct err failed;              /* the first time that it could not be kept */
};

/* --- where it is */

static int bad_place(const char *path, struct err *err)
{
	(void)err_set(err, ERR_INVALID, path, "the mark and its key must not be inside the store");
	err_hint(err, "keep them where who can write the store cannot");
	return ERR_INVALID;
}

/* The directory of path, without links; NULL: there is none. */
static char *folder_of(const char *path)
{
	char *whole = path_absolute(path), *slash = strrchr(whole, '/'), *ret;

	if (slash)
		*(slash == whole ? slash + 1 : slash) = '\0';
	ret = realpath(whole, NULL);
	free(whole);
	return ret;
}

static bool is_within(const char *dir, const char *path)
{
	size_t len = strlen(dir);

	return strncmp(dir, path, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* store: a directory, which has more than the file, or a copy of the file, which may stand beside the mark. */
static int check_place(const char *path, const char *store, struct err *err)
{
	char *dir = realpath(store, NULL), *mine = folder_of(path);
	struct stat st;
	int rc = 0;

	if (!mine)
		rc = err_set(err, ERR_UNREACHABLE, path, "%s", strerror(errno));
	else if (dir && stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && is_within(dir, mine))
		rc = bad_place(path, err);
	free(dir);
	free(mine);
	return rc;
}

/* --- its key */

static int make_key(struct mark *m, struct err *err)
{
	char text[KEY_TEXT + 2];
	int rc;

	id_random(m->key, sizeof(m->key));
	text_hex(m->key, sizeof(m->key), text);
	text[KEY_TEXT] = '\n';
	rc = path_create(m->key_path, 0600, text, KEY_TEXT + 1, err);
	secret_wipe(text, sizeof(text));
	return rc;
}

static int read_key(struct mark *m, struct err *err)
{
	struct str text = STR_SECRET_INIT;
	int rc = path_read_as(m->key_path, PATH_PRIVATE, KEY_TEXT + 1, &text, err);

	if (rc == 0 && text.len == KEY_TEXT + 1 && text.p[KEY_TEXT] == '\n')
		text.len--;
	if (rc == 0 && text_unhex(str_text(&text), text.len, m->key, sizeof(m->key)) < 0)
		rc = err_set(err, ERR_INVALID, m->key_path, "this is no key of a mark: 64 hexadecimal digits");
	str_wipe(&text);
	return rc;
}

static void make_mac(const struct mark *m, const void *p, size_t n, uint8_t ret[DIGEST_SIZE])
{
	digest_keyed(m->key, purpose, sizeof(purpose), p, n, ret);
}

/* --- reading */

static int read_file(struct mark *m, struct err *err)
{
	uint8_t mac[DIGEST_SIZE];
	size_t len;
	int rc = path_read_as(m->path, PATH_PRIVATE, MARK_FILE_MAX, &m->file, err);

	if (rc < 0)
		return rc;
	if (m->file.len < sizeof(magic) + DIGEST_SIZE || memcmp(m->file.p, magic, sizeof(magic)) != 0)
		return err_set(err, ERR_CORRUPT, m->path, "this is no mark of toolcrib-verify");
	len = m->file.len - DIGEST_SIZE;
	make_mac(m, m->file.p, len, mac);
	if (!secret_equal(mac, m->file.p + len, sizeof(mac))) {
		(void)err_set(err, ERR_CORRUPT, m->path, "the mark was changed, or is of another key than %s", m->key_path);
		err_hint(err, "run once without --mark");
		return ERR_CORRUPT;
	}
	rc = mark_file_read((const uint8_t *)m->file.p + sizeof(magic), len - sizeof(magic), &m->was, err);
	if (rc == 0 && m->was.base.left == 0 && m->was.way.left == 0)
		rc = err_set(err, ERR_CORRUPT, m->path, "the mark is empty");
	if (rc < 0)
		err_hint(err, "run once without --mark");
	m->there = rc == 0;
	return rc;
}

int mark_try(const void *p, size_t len, struct err *err)
{
	struct mark_file f;
	int rc = mark_file_read(p, len, &f, err);

	mark_file_fini(&f);
	return rc;
}

int mark_open(const char *path, const char *key, const char *store, struct mark **ret, struct err *err)
{
	struct mark *m = mem_zalloc(sizeof(*m));
	int rc;

	m->path = mem_strdup(path);
	m->key_path = key ? mem_strdup(key) : mem_printf("%s.key", path);
	rc = store ? check_place(m->path, store, err) : 0;
	if (rc == 0 && store)
		rc = check_place(m->key_path, store, err);
	if (rc == 0)
		rc = path_exists(path) || path_exists(m->key_path) ? read_key(m, err) : make_key(m, err);
	if (rc == 0 && path_exists(path))
		rc = read_file(m, err);
	if (rc < 0)
		mark_free(&m);
	*ret = m;
	return rc;
}

void mark_free(struct mark **mp)
{
	struct mark *m = *mp;

	if (!m)
		return;
	*mp = NULL;
	mark_file_fini(&m->was);
	for (size_t i = 0; i < m->nfound; i++)
		mark_found_fini(&m->found[i]);
	free(m->found);
	str_fini(&m->file);
	str_fini(&m->state);
	free(m->chosen.v);
	secret_wipe(m->key, sizeof(m->key));
	free(m->path);
	free(m->key_path);
	free(m);
}

/* --- writing */

static int write_file(struct mark *m, const struct mark_file *f, struct err *err)
{
	struct str all = STR_INIT;
	uint8_t mac[DIGEST_SIZE];
	int rc;

	str_init(&all, MARK_FILE_MAX);
	str_put(&all, magic, sizeof(magic));
	mark_file_write(f, &all);
	if (!all.failed) {
		make_mac(m, all.p, all.len, mac);
		str_put(&all, mac, sizeof(mac));
	}
	if (all.failed)
		rc = err_set(err, ERR_LIMIT, m->path, "the mark would be larger than %u MiB", MARK_FILE_MAX >> 20);
	else
		rc = path_replace(m->path, 0600, all.p, all.len, err);
	str_fini(&all);
	return rc;
}

/* --- a verification */

static bool due(void *arg)
{
	const struct mark *m = arg;

	return !m->dropped && clock_mono_us() - m->kept_us >= m->every_us;
}

static void keep(void *arg, const void *p, size_t len)
{
	struct mark *m = arg;
	struct mark_file f = m->was;
	struct err err;

	f.way = (struct unpack){ p, len, false };
	f.begun_us = m->begun_us;
	f.found = m->nfound > m->nopened ? &m->found[m->nopened] : NULL;
	f.nfound = m->nfound - m->nopened;
	if (write_file(m, &f, &err) < 0 && *m->failed.msg == '\0')
		m->failed = err;
	m->kept_us = clock_mono_us();
	if (m->run->kept)
		m->run->kept(m->run->arg);
}

/* They are findings of this verification as well, and are kept with the others. */
static void opened(void *arg)
{
	struct mark *m = arg;

	m->nopened = m->nfound;
	for (size_t i = 0; m->resumes && i < m->was.nfound; i++)
		m->run->found(m->run->arg, &m->was.found[i].f);
}

/* What was to be read again of it was not. */
static void unread(void *arg, int64_t log)
{
	struct mark *m = arg;

	for (size_t i = 0; i < m->chosen.n; i++)
		if (m->chosen.v[i].log == log)
			m->chosen.v[i].to = m->chosen.v[i].from;
}

const struct verify_marking *mark_begin(struct mark *m, struct mark_run *run)
{
	m->run = run;
	run->made_us = m->was.base.left > 0 ? m->was.made_us : 0;
	m->resumes = run->resume = run->resume && m->was.way.left > 0;
	m->begun_us = m->resumes ? m->was.begun_us : clock_wall_us();
	m->every_us = run->every_us;
	m->kept_us = clock_mono_us();
	m->marking = (struct verify_marking){ .opened = opened, .due = due, .keep = keep, .unread = unread,
		.arg = m, .ret = &m->state };
	if (m->was.base.left > 0) {
		m->marking.base = m->was.base.p;
		m->marking.base_len = m->was.base.left;
	}
	if (run->scrub > 0 && m->was.base.left > 0 && !m->resumes) {
		choose(&m->was, run->scrub, &m->chosen);
		m->marking.again = m->chosen.v;
		m->marking.nagain = m->chosen.n;
		m->marking.indexes = m->chosen.indexes;
	}
	if (m->resumes) {
		m->marking.way = m->was.way.p;
		m->marking.way_len = m->was.way.left;
	}
	return &m->marking;
}

void mark_found(struct mark *m, const struct audit_finding *f)
{
	m->dropped |= m->nfound >= MARK_FOUND_MAX;
	if (m->dropped)
		return;
	if (m->nfound == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 16;
		m->found = mem_realloc(m->found, m->cap * sizeof(*m->found));
	}
	mark_found_set(&m->found[m->nfound++], f);
}

/* --- its end */

static int note_range(void *arg, int64_t log, int64_t from, int64_t size)
{
	struct mark_reading *r = arg;

	mark_file_note(r, log, from, size);
	return 0;
}

static int give_up_way(struct mark *m, struct err *err)
{
	struct mark_file f = m->was;

	f.way = (struct unpack){ .p = NULL };
	f.nfound = 0;
	if (f.base.left > 0)
		return write_file(m, &f, err);
	if (unlink(m->path) != 0 && errno != ENOENT)
		return err_set(err, ERR_IO, m->path, "%s", strerror(errno));
	return 0;
}

int mark_end(struct mark *m, const struct audit_coverage *sum, uint64_t *ret_oldest_us, struct err *err)
{
	struct mark_reading reading = { .was = &m->was, .at_us = m->begun_us, .chosen = &m->chosen, .oldest_us = m->begun_us };
	struct mark_file f = { .made_us = m->begun_us, .base = { (const uint8_t *)m->state.p, m->state.len, false } };
	int rc;

	*ret_oldest_us = 0;
	if (sum->bad > 0 || sum->foreign)
		return path_exists(m->path) ? give_up_way(m, err) : 0;
	rc = verify_state_sizes(m->state.p, m->state.len, note_range, &reading, err);
	f.log = reading.log;
	f.nlogs = reading.n;
	f.indexes_us = m->was.base.left == 0 || m->chosen.indexes ? m->begun_us : m->was.indexes_us;
	if (f.indexes_us < reading.oldest_us)
		reading.oldest_us = f.indexes_us;
	if (reading.oldest_us < clock_wall_us())
		*ret_oldest_us = clock_wall_us() - reading.oldest_us;
	if (rc == 0)
		rc = write_file(m, &f, err);
	mark_reading_fini(&reading);
	return rc;
}
