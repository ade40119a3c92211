/* What the system log says of other logs: logs.commit, read before them.  Of each log the newest commit of every epoch
 * is kept: it covers those before it, and whoever has stolen a later key cannot have written it.  A commit of form 2
 * has one root for all its logs, which is compared when the last of them has come as far (decision 0065).  Called by
 * anchors.c. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"

#include "anchors_int.h"
#include "verify_int.h"

struct mark *verify_mark_add(struct marks *m)
{
	if (m->n == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 4;
		m->v = mem_realloc(m->v, m->cap * sizeof(*m->v));
	}
	return &m->v[m->n++];
}

/* --- logs.commit */

/* What the newest commit says of a log. */
struct said_last {
	uint64_t size;
	uint8_t root[TREE_HASH];        /* of form 1; else heads */
	struct heads *heads;
	bool bare;                      /* an earlier verification has seen that the root is the log's; it is not known here */
};

static struct marks *marks_of(struct verify *v, uint64_t log)
{
	struct marks *m = map_get_u64(v->commits->logs, log);

	if (!m) {
		m = mem_zalloc(sizeof(*m));
		map_set_u64(v->commits->logs, log, m);
	}
	return m;
}

static struct said_last *said_last(struct verify *v, uint64_t log)
{
	struct said_last *l = map_get_u64(v->commits->said, log);

	if (!l) {
		l = mem_zalloc(sizeof(*l));
		map_set_u64(v->commits->said, log, l);
	}
	return l;
}

/* Form 1: each log with its root.  false: it contradicts the commit before. */
static bool commit_one(struct verify_log *c, const uint8_t *p, uint64_t epoch)
{
	uint64_t log = audit_get_be(p, 4), size = audit_get_be(p + 4, 8);
	struct marks *m = marks_of(c->v, log);
	struct mark *mark = m->n > 0 && m->v[m->n - 1].epoch == epoch ? &m->v[m->n - 1] : verify_mark_add(m);
	struct said_last *last = said_last(c->v, log);
	bool same = last->heads || last->bare || memcmp(last->root, p + 12, TREE_HASH) == 0;
	bool good = size > last->size || (size == last->size && same);

	*mark = (struct mark){ .size = size, .epoch = epoch, .code = AUDIT_FINDING_CROSS_REF };
	memcpy(mark->root, p + 12, TREE_HASH);
	*last = (struct said_last){ .size = size, .heads = NULL };
	memcpy(last->root, p + 12, TREE_HASH);
	return good;
}

static void heads_free(struct heads *h)
{
	free(h->tree);
	free(h->hint);
	free(h);
}

/* Of this epoch, those that are of no log the newest any more. */
static void drop_unneeded(struct verify_commits *k, uint64_t epoch)
{
	struct heads **at = &k->heads;

	while (*at && (*at)->epoch == epoch) {
		struct heads *h = *at;

		if (h->newest > 0) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		heads_free(h);
	}
}

/* Form 2.  false: it contradicts the commit before. */
static bool commit_all(struct verify_log *c, const struct audit_said *said, size_t n, const uint8_t root[TREE_HASH],
		       int64_t idx, uint64_t epoch)
{
	struct verify_commits *k = c->v->commits;
	struct heads *h = mem_zalloc(sizeof(*h) + n * sizeof(*said));
	bool good = true, unneeded = false;

	*h = (struct heads){ .next = k->heads, .idx = idx, .epoch = epoch, .newest = n, .n = n };
	memcpy(h->root, root, TREE_HASH);
	memcpy(h->said, said, n * sizeof(*said));
	for (size_t i = 0; i < n; i++) {
		struct said_last *last = said_last(c->v, said[i].log);

		good &= said[i].size >= last->size;
		if (last->heads && last->heads->epoch == epoch)
			unneeded |= --last->heads->newest == 0;
		*last = (struct said_last){ .size = said[i].size, .heads = h };
	}
	k->heads = h;
	if (unneeded)
		drop_unneeded(k, epoch);
	return good;
}

void verify_commits_note(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	struct verify_commits *k = c->v->commits;
	size_t len, count_len, all_len, n = 0;
	const uint8_t *p = verify_field(row, AUDIT_TAG_HEADS, &len), *count = verify_field(row, AUDIT_TAG_LOGS, &count_len);
	const uint8_t *all = verify_field(row, AUDIT_TAG_HEADS_ROOT, &all_len);
	/* It belongs to the epoch of the first checkpoint that covers it. */
	uint64_t epoch = c->cover.due ? c->cover.due_epoch : UINT64_MAX;
	uint8_t root[TREE_HASH];
	bool good = true;

	if (!count || count_len != 8 || len % AUDIT_HEAD_BYTES != 0 || (len > 0 && all) ||
	    (all && audit_heads_read(all, all_len, k->scratch, &n, root) < 0)) {
		verify_tell_record(c, AUDIT_FINDING_PARSE, idx, idx);
		return;
	}
	k->count = (int64_t)audit_get_be(count, 8);
	for (size_t at = 0; p && at < len; at += AUDIT_HEAD_BYTES)
		good &= commit_one(c, p + at, epoch);
	if (n > 0)
		good &= commit_all(c, k->scratch, n, root, idx, epoch);
	if (!good)
		verify_tell_record(c, AUDIT_FINDING_CROSS_REF, idx, idx);
}

/* --- form 2, when the system log has been read */

/* A root of before the cut is not to be had from the records.  A note may have it; that the others fit proves it. */
static int find_hint(struct verify *v, struct heads *h, size_t at, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_CP_GET_BEFORE);
	struct checkpoint cp;
	struct note n;
	size_t len = 0;
	int rc;

	db_bind_i64(st, 1, (int64_t)h->said[at].log);
	db_bind_i64(st, 2, (int64_t)h->said[at].size);
	rc = db_step(st, err);
	h->lost = true;
	if (rc == 1) {
		const char *text = db_col_blob(st, 3, &len);

		h->lost = note_parse(text, len, &n) < 0 || checkpoint_parse(n.text, n.text_len, &cp) < 0 ||
			  cp.size != h->said[at].size;
	}
	db_stmt_put(&st);
	if (h->lost)
		return rc < 0 ? rc : 0;
	if (!h->hint)
		h->hint = mem_calloc(h->n, TREE_HASH);
	memcpy(h->hint[at], cp.root, TREE_HASH);
	return 0;
}

/* Logs of which something was pruned, ascending. */
static int list_cuts(struct verify *v, struct audit_said **ret, size_t *ret_n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_CUTS);
	size_t cap = 0;
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		if (*ret_n == cap) {
			cap = cap ? 2 * cap : 64;
			*ret = mem_realloc(*ret, cap * sizeof(**ret));
		}
		(*ret)[(*ret_n)++] = (struct audit_said){ (uint64_t)db_col_i64(st, 0), (uint64_t)db_col_i64(st, 1) };
	}
	db_stmt_put(&st);
	return rc;
}

static int look_at_cuts(struct verify *v, struct err *err)
{
	struct audit_said *cut = NULL;
	size_t n = 0;
	int rc = list_cuts(v, &cut, &n, err);

	for (struct heads *h = v->commits->heads; h && n > 0 && rc == 0; h = h->next)
		for (size_t i = 0, k = 0; i < h->n && rc == 0 && !h->lost; i++) {
			while (k < n && cut[k].log < h->said[i].log)
				k++;
			if (k < n && cut[k].log == h->said[i].log && h->said[i].size < cut[k].size)
				rc = find_hint(v, h, i, err);
		}
	free(cut);
	return rc;
}

int verify_commits_say(struct verify *v, struct err *err)
{
	for (struct heads *h = v->commits->heads; h; h = h->next)
		for (size_t i = 0; i < h->n; i++)
			*verify_mark_add(marks_of(v, h->said[i].log)) = (struct mark){ .size = h->said[i].size, .epoch = h->epoch,
				.code = AUDIT_FINDING_CROSS_REF, .heads = h, .at = i };
	return v->commits->heads ? look_at_cuts(v, err) : 0;
}

void verify_commits_give(struct verify_log *c, const struct mark *m, const uint8_t root[TREE_HASH])
{
	struct heads *h = m->heads;
	uint8_t hash[TREE_HASH];

	h->lost |= h->made != m->at;
	if (h->lost)
		return;
	if (!h->tree)
		h->tree = mem_zalloc(sizeof(*h->tree));
	audit_head_leaf(&h->said[m->at], root, hash);
	tree_append(h->tree, hash);
	if (++h->made < h->n)
		return;
	tree_root(h->tree, hash);
	free(h->tree);
	h->tree = NULL;
	if (memcmp(hash, h->root, TREE_HASH) != 0)
		verify_tell(c->v, &(struct audit_finding){ .code = AUDIT_FINDING_CROSS_REF, .origin = c->v->commits->system,
			.from = h->idx, .to = h->idx, .detail = "it commits other roots than its logs have" });
}

/* --- all of it */

struct verify_commits *verify_commits_new(size_t anchors)
{
	struct verify_commits *k = mem_zalloc(sizeof(*k));

	k->logs = map_new();
	k->said = map_new();
	k->scratch = mem_calloc(AUDIT_HEADS_MAX, sizeof(*k->scratch));
	k->used = mem_calloc(anchors + 1, sizeof(*k->used));
	return k;
}

void verify_commits_free(struct verify *v)
{
	void *value;

	if (!v->commits)
		return;
	for (size_t it = 0; map_next(v->commits->logs, &it, NULL, NULL, &value);) {
		struct marks *m = value;

		free(m->v);
		free(m);
	}
	map_free(&v->commits->logs);
	for (size_t it = 0; map_next(v->commits->said, &it, NULL, NULL, &value);)
		free(value);
	map_free(&v->commits->said);
	while (v->commits->heads) {
		struct heads *h = v->commits->heads;

		v->commits->heads = h->next;
		heads_free(h);
	}
	free(v->commits->scratch);
	free(v->commits->system);
	free(v->commits->used);
	free(v->commits);
	v->commits = NULL;
}

/* --- what is carried */

/* How many stand before it; NULL: all of them. */
static uint64_t place_of(const struct verify_commits *k, const struct heads *of)
{
	uint64_t n = 0;

	for (const struct heads *h = k->heads; h && h != of; h = h->next)
		n++;
	return n;
}

void verify_mark_save(const struct verify_commits *k, const struct mark *m, struct str *to)
{
	pack_u64(to, m->size);
	pack_u64(to, m->epoch);
	pack_u64(to, m->known);
	pack_u64(to, m->code == AUDIT_FINDING_CROSS_REF ? 0 : m->code == AUDIT_FINDING_SIGNER_AHEAD ? 1 : 2);
	pack_u64(to, m->heads ? place_of(k, m->heads) + 1 : 0);
	pack_u64(to, m->heads ? m->at : 0);
	pack_bytes(to, m->heads ? (const uint8_t[TREE_HASH]){ 0 } : m->root, TREE_HASH);
}

static struct heads *load_place(const struct verify_commits *k, struct unpack *in)
{
	uint64_t which = unpack_u64(in);
	struct heads *h = which ? k->heads : NULL;

	for (uint64_t n = which; h && n > 1; n--)
		h = h->next;
	in->bad |= which && !h;
	return h;
}

struct mark verify_mark_load(const struct verify_commits *k, struct unpack *in)
{
	static const enum audit_finding_code codes[] = { AUDIT_FINDING_CROSS_REF, AUDIT_FINDING_SIGNER_AHEAD,
		AUDIT_FINDING_ANCHOR };
	struct mark m = { .size = unpack_u64(in) };
	uint64_t code, at;
	uint8_t root[TREE_HASH];
	struct heads *h;

	m.epoch = unpack_u64(in);
	m.known = unpack_bool(in);
	code = unpack_u64(in);
	h = load_place(k, in);
	at = unpack_u64(in);
	unpack_bytes(in, root, sizeof(root));
	in->bad |= code >= NELEMS(codes) || (h && at >= h->n);
	m.code = code < NELEMS(codes) ? codes[code] : codes[0];
	m.heads = in->bad ? NULL : h;
	if (m.heads)
		m.at = (size_t)at;
	else
		memcpy(m.root, root, TREE_HASH);
	return m;
}

static void save_heads(const struct heads *h, struct str *to)
{
	pack_u64(to, (uint64_t)h->idx);
	pack_u64(to, h->epoch);
	pack_u64(to, h->newest);
	pack_u64(to, h->made);
	pack_u64(to, h->lost);
	pack_bytes(to, h->root, TREE_HASH);
	verify_put_tree(to, h->tree ? h->tree : &(struct tree){ 0 });
	pack_u64(to, h->n);
	for (size_t i = 0; i < h->n; i++) {
		pack_u64(to, h->said[i].log);
		pack_u64(to, h->said[i].size);
	}
	pack_u64(to, h->hint != NULL);
	for (size_t i = 0; h->hint && i < h->n; i++)
		pack_bytes(to, h->hint[i], TREE_HASH);
}

static void load_said(struct heads *h, struct unpack *in)
{
	for (size_t i = 0; i < h->n; i++) {
		h->said[i].log = unpack_u64(in);
		h->said[i].size = unpack_u64(in);
	}
	if (unpack_bool(in))
		h->hint = mem_calloc(h->n + 1, TREE_HASH);
	for (size_t i = 0; h->hint && i < h->n; i++)
		unpack_bytes(in, h->hint[i], TREE_HASH);
}

static struct heads *load_heads(struct unpack *in)
{
	struct heads was = { .idx = (int64_t)unpack_u64(in) }, *h;
	struct tree tree;

	was.epoch = unpack_u64(in);
	was.newest = unpack_u64(in);
	was.made = unpack_u64(in);
	was.lost = unpack_bool(in);
	unpack_bytes(in, was.root, TREE_HASH);
	verify_get_tree(in, &tree);
	was.n = unpack_count(in, 16);
	in->bad |= was.n == 0 || was.n > AUDIT_HEADS_MAX || was.made > was.n || was.newest > was.n;
	was.n = in->bad ? 0 : was.n;
	h = mem_zalloc(sizeof(*h) + was.n * sizeof(*h->said));
	memcpy(h, &was, sizeof(was));
	if (tree.size > 0)
		h->tree = mem_dup(&tree, sizeof(tree));
	load_said(h, in);
	return h;
}

static void save_way(const struct verify_commits *k, struct str *to)
{
	const void *key;
	size_t len;
	void *value;

	pack_u64(to, place_of(k, NULL));
	for (const struct heads *h = k->heads; h; h = h->next)
		save_heads(h, to);
	pack_u64(to, map_count(k->logs));
	for (size_t it = 0; map_next(k->logs, &it, &key, &len, &value);) {
		const struct marks *m = value;
		uint64_t log = 0;

		memcpy(&log, key, len < sizeof(log) ? len : sizeof(log));
		pack_u64(to, log);
		pack_u64(to, m->n);
		for (size_t i = 0; i < m->n; i++)
			verify_mark_save(k, &m->v[i], to);
	}
}

static void load_way(struct verify *v, struct unpack *in)
{
	struct heads **end = &v->commits->heads;

	for (size_t n = unpack_count(in, 96); n > 0 && !in->bad; n--) {
		*end = load_heads(in);
		end = &(*end)->next;
	}
	for (size_t n = unpack_count(in, 16); n > 0 && !in->bad; n--) {
		struct marks *m = marks_of(v, unpack_u64(in));

		for (size_t k = unpack_count(in, VERIFY_MARK_BYTES); k > 0 && !in->bad; k--)
			*verify_mark_add(m) = verify_mark_load(v->commits, in);
	}
}

void verify_commits_save(const struct verify *v, struct str *to)
{
	const struct verify_commits *k = v->commits;
	const uint64_t all[] = { (uint64_t)k->count, (uint64_t)k->receipt, k->taken_us, k->waiting_us, k->waiting_size,
		k->met };
	const void *key;
	size_t len;
	void *value;

	for (size_t i = 0; i < NELEMS(all); i++)
		pack_u64(to, all[i]);
	pack_text(to, k->system ? k->system : "", k->system ? strlen(k->system) : 0);
	pack_u64(to, v->way);
	if (v->way)
		save_way(k, to);
	pack_u64(to, map_count(k->said));
	for (size_t it = 0; map_next(k->said, &it, &key, &len, &value);) {
		const struct said_last *l = value;
		uint64_t log = 0;

		memcpy(&log, key, len < sizeof(log) ? len : sizeof(log));
		pack_u64(to, log);
		pack_u64(to, l->size);
		pack_u64(to, l->bare || (l->heads && !v->way));
		pack_u64(to, v->way && l->heads ? place_of(k, l->heads) + 1 : 0);
		pack_bytes(to, l->root, TREE_HASH);
	}
}

static void load_last(struct verify *v, struct unpack *in)
{
	struct said_last *l = said_last(v, unpack_u64(in));

	l->size = unpack_u64(in);
	l->bare = unpack_bool(in);
	l->heads = load_place(v->commits, in);
	unpack_bytes(in, l->root, TREE_HASH);
}

void verify_commits_load(struct verify *v, struct unpack *in)
{
	struct verify_commits *k = v->commits;
	const char *system;
	size_t len;

	k->count = (int64_t)unpack_u64(in);
	k->receipt = (int64_t)unpack_u64(in);
	k->taken_us = unpack_u64(in);
	k->waiting_us = unpack_u64(in);
	k->waiting_size = unpack_u64(in);
	k->met = unpack_bool(in);
	system = unpack_text(in, &len);
	k->system = len > 0 && !in->bad ? mem_strndup(system, len) : NULL;
	if (unpack_bool(in))
		load_way(v, in);
	for (size_t n = unpack_count(in, 32 + TREE_HASH); n > 0 && !in->bad; n--)
		load_last(v, in);
}

