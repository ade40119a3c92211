/* Verification of a store (AUDIT 8): the walk.  Each log is read record by record, its tree is computed anew, and
 * every step of the table looks at what passes; what the head of the log says is compared here.  Called by
 * toolcrib-verify and by the server's own checks, in any thread with a read-only connection; nothing that is read
 * is believed. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "forms/forms.h"
#include "units/units.h"
#include "verify/verify.h"

#include "verify_int.h"

/* Retention comes before those that need the tree at the cut, anchors before checkpoints, which settle what those
 * owe. */
static const struct verify_step *const steps[] = {
	&verify_integrity, &verify_sealed, &verify_forms, &verify_lifecycle, &verify_retention, &verify_payload,
	&verify_anchors, &verify_checkpoints, &verify_registry, &verify_approvals, &verify_tasks,
};

/* A number that is an index or a size. */
static int64_t get_place(struct unpack *in)
{
	uint64_t n = unpack_u64(in);

	in->bad |= n > (uint64_t)TREE_LOAD_MAX;
	return in->bad ? 0 : (int64_t)n;
}

/* --- what one verification leaves to the next (decision 0066) */

/* The state of every step at the end of each log, and of the store, as bytes.  Who keeps them, and how nobody else can
 * write them, is the matter of auditor. */

enum { FORM = 1 };

/* Of a log; by id. */
struct was { int64_t id; struct unpack in; };

struct whole {
	bool there;
	int64_t at;                     /* the log that was under way; 0: it came to its end */
	struct unpack sum, store;
	struct was *log; size_t n;
};

struct verify_state {
	const struct verify_marking *mark;
	struct whole base, way;
	struct audit_coverage sum;      /* of the way so far */
	struct { int64_t id; struct str bytes; } *log; size_t n, cap;   /* what is kept now */
};

static void read_whole(struct whole *w, const void *p, size_t len)
{
	struct unpack in = { p, len, false };
	int64_t before = 0;

	in.bad |= unpack_u64(&in) != FORM;
	w->at = get_place(&in);
	unpack_part(&in, &w->sum);
	unpack_part(&in, &w->store);
	w->n = unpack_count(&in, 16);
	w->log = mem_calloc(w->n + 1, sizeof(*w->log));
	for (size_t i = 0; i < w->n && !in.bad; i++) {
		w->log[i].id = get_place(&in);
		unpack_part(&in, &w->log[i].in);
		in.bad |= w->log[i].id <= before;
		before = w->log[i].id;
	}
	w->there = !in.bad && in.left == 0;
}

static int by_id(const void *key, const void *member)
{
	int64_t id = *(const int64_t *)key, other = ((const struct was *)member)->id;

	return id < other ? -1 : id > other;
}

static const struct was *find(const struct whole *w, int64_t id)
{
	return w->there ? bsearch(&id, w->log, w->n, sizeof(*w->log), by_id) : NULL;
}

static int malformed(struct err *err)
{
	return err_set(err, ERR_CORRUPT, "", "what an earlier verification has left is malformed, or of another release");
}

/* --- coverage */

/* Of one that was cut off all is carried, but for what its opening found: going on opens the store again. */
static void save_sum(const struct verify *v, struct str *to)
{
	const struct audit_coverage *s = v->sum;
	const uint64_t all[] = { s->logs, s->records, s->pruned, s->first_us, s->last_us, s->older, s->again,
		s->bad - v->opened_bad, s->gaps - v->opened_gaps, s->running, s->names, s->shut, s->notes };

	for (size_t i = 0; i < NELEMS(all); i++)
		pack_u64(to, all[i]);
	pack_text(to, s->named, strlen(s->named));
}

static void load_sum(struct audit_coverage *s, struct unpack *in)
{
	uint64_t *const all[] = { &s->logs, &s->records, &s->pruned, &s->first_us, &s->last_us, &s->older, &s->again, &s->bad,
		&s->gaps, &s->running, &s->names, &s->shut, &s->notes };

	for (size_t i = 0; i < NELEMS(all); i++)
		*all[i] = unpack_u64(in);
	unpack_name(in, s->named, sizeof(s->named));
	in->bad |= in->left > 0;
}

/* --- the steps */

static void save_steps(const struct verify *v, const struct verify_log *c, struct str *to)
{
	for (size_t i = 0; i < NELEMS(steps); i++) {
		const struct verify_step *s = steps[i];
		struct str part = STR_INIT;

		pack_u64(&part, s->form);
		if (c && s->save_log)
			s->save_log(c, &part);
		if (!c && s->save)
			s->save(v, &part);
		pack_text(to, part.p, part.len);
		str_fini(&part);
	}
}

static void load_steps(struct verify *v, struct verify_log *c, struct unpack *in)
{
	for (size_t i = 0; i < NELEMS(steps) && !in->bad; i++) {
		const struct verify_step *s = steps[i];
		struct unpack part;

		unpack_part(in, &part);
		part.bad |= unpack_u64(&part) != s->form;
		if (c && s->load_log && !part.bad)
			s->load_log(c, &part);
		if (!c && s->load && !part.bad)
			s->load(v, &part);
		in->bad |= part.bad || part.left > 0;
	}
	in->bad |= in->left > 0;
}

/* --- a log */

static void save_log(struct verify_log *c, struct str *to)
{
	const struct verify_cover *k = &c->cover;
	const uint64_t cover[] = { k->covered, k->last_size, k->owed_size, k->owed_epoch };

	pack_text(to, c->head->origin, strlen(c->head->origin));
	pack_u64(to, (uint64_t)c->next);
	pack_u64(to, (uint64_t)c->head->min_idx);
	pack_u64(to, (uint64_t)c->known);
	pack_bytes(to, c->known_root, TREE_HASH);
	verify_put_tree(to, &c->tree);
	for (size_t i = 0; i < NELEMS(cover); i++)
		pack_u64(to, cover[i]);
	verify_tell_runs(c, to, NULL);
	save_steps(c->v, c, to);
}

struct log_state { const char *origin; size_t origin_len; int64_t next, min_idx, known; uint8_t known_root[TREE_HASH];
	struct verify_cover cover; struct tree tree; };

static void read_log(struct unpack *in, struct log_state *ret)
{
	uint64_t *const cover[] = { &ret->cover.covered, &ret->cover.last_size, &ret->cover.owed_size,
		&ret->cover.owed_epoch };

	memset(ret, 0, sizeof(*ret));
	ret->origin = unpack_text(in, &ret->origin_len);
	ret->next = get_place(in);
	ret->min_idx = get_place(in);
	ret->known = get_place(in);
	unpack_bytes(in, ret->known_root, TREE_HASH);
	verify_get_tree(in, &ret->tree);
	for (size_t i = 0; i < NELEMS(cover); i++)
		*cover[i] = unpack_u64(in);
	in->bad |= ret->min_idx > ret->next;
}

static int not_this(const struct verify_log *c, const char *why, struct err *err)
{
	(void)err_set(err, ERR_INVALID, c->head->origin, "the mark cannot be used: %s", why);
	err_hint(err, "run once without --mark");
	return ERR_INVALID;
}

/* How the log is to be read, given what it was. */
static int choose(struct verify_log *c, const struct log_state *was, bool way, struct err *err)
{
	const struct verify_head *h = c->head;

	if (!text_eq(was->origin, was->origin_len, h->origin))
		return not_this(c, "it is of another log", err);
	if (h->min_idx > was->next)
		return not_this(c, "it is older than what was pruned", err);
	if (h->min_idx != was->min_idx && (way || verify_is_system(c)))
		return not_this(c, "records were pruned that it needs", err);
	c->known = way ? was->known : was->next;
	if (way)
		memcpy(c->known_root, was->known_root, TREE_HASH);
	else
		tree_root(&was->tree, c->known_root);
	c->start = way ? VERIFY_ON : h->min_idx != was->min_idx ? VERIFY_AGAIN : VERIFY_BEHIND;
	return 0;
}

static int state_log(struct verify_log *c, struct err *err)
{
	struct verify_state *s = c->v->state;
	const struct was *was = s ? find(&s->way, c->head->id) : NULL;
	bool way = was != NULL;
	struct log_state state;
	struct unpack in;
	int rc;

	if (s && !was)
		was = find(&s->base, c->head->id);
	if (!was)
		return 0;
	in = was->in;
	read_log(&in, &state);
	rc = in.bad ? malformed(err) : choose(c, &state, way, err);
	if (rc < 0 || c->start == VERIFY_AGAIN)
		return rc;
	c->next = state.next;
	c->tree = state.tree;
	c->cover = state.cover;
	verify_tell_runs(c, NULL, &in);
	load_steps(c->v, c, &in);
	return in.bad ? malformed(err) : 0;
}

static struct str *add_log(struct verify_state *s, int64_t id)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 16;
		s->log = mem_realloc(s->log, s->cap * sizeof(*s->log));
	}
	s->log[s->n].id = id;
	s->log[s->n].bytes = (struct str)STR_INIT;
	return &s->log[s->n++].bytes;
}

static void keep_log(struct verify_log *c)
{
	if (c->v->state)
		save_log(c, add_log(c->v->state, c->head->id));
}

/* What could not be read this time is where it was: else what the mark knew of it would be forgotten with it. */
static void keep_base(struct verify_log *c)
{
	struct verify_state *s = c->v->state;
	const struct was *was = s ? find(&s->base, c->head->id) : NULL;

	if (was && (s->n == 0 || s->log[s->n - 1].id != c->head->id))
		str_put(add_log(s, c->head->id), was->in.p, was->in.left);
	if (s && s->mark->unread)
		s->mark->unread(s->mark->arg, c->head->id);
}

/* --- the store */

static void save_whole(struct verify *v, int64_t at, struct str *to)
{
	const struct verify_state *s = v->state;
	struct str part = STR_INIT;

	pack_u64(to, FORM);
	pack_u64(to, (uint64_t)at);
	save_sum(v, &part);
	pack_text(to, part.p, part.len);
	str_reset(&part);
	save_steps(v, NULL, &part);
	pack_text(to, part.p, part.len);
	str_fini(&part);
	pack_u64(to, s->n);
	for (size_t i = 0; i < s->n; i++) {
		pack_u64(to, (uint64_t)s->log[i].id);
		pack_text(to, s->log[i].bytes.p, s->log[i].bytes.len);
	}
}

static void keep_way(struct verify_log *c)
{
	struct verify_state *s = c->v->state;
	struct str all = STR_INIT;

	if (!s || !s->mark->due || !s->mark->due(s->mark->arg))
		return;
	c->v->way = true;
	keep_log(c);
	save_whole(c->v, c->head->id, &all);
	s->mark->keep(s->mark->arg, all.p, all.len);
	str_fini(&s->log[--s->n].bytes);
	str_fini(&all);
	c->v->way = false;
}

static void keep_all(struct verify *v)
{
	if (v->state && v->state->mark->ret)
		save_whole(v, 0, v->state->mark->ret);
}

/* Of logs that were read before it was cut off, what is kept is what was. */
static void keep_done(struct verify_state *s)
{
	for (size_t i = 0; i < s->way.n; i++)
		if (s->way.log[i].id < s->way.at)
			str_put(add_log(s, s->way.log[i].id), s->way.log[i].in.p, s->way.log[i].in.left);
}

static int state_load(struct verify *v, struct err *err)
{
	struct verify_state *s = v->state;
	const struct whole *w;
	struct unpack in, sum;

	if (!s)
		return 0;
	w = s->way.there ? &s->way : &s->base;
	if (!w->there)
		return 0;
	in = w->store;
	sum = w->sum;
	load_sum(&s->sum, &sum);
	load_steps(v, NULL, &in);
	return in.bad || sum.bad ? malformed(err) : 0;
}

static int64_t go_on(struct verify *v)
{
	struct verify_state *s = v->state;
	struct audit_coverage *sum = v->sum;

	v->opened_bad = sum->bad;
	v->opened_gaps = sum->gaps;
	if (s && s->mark->opened)
		s->mark->opened(s->mark->arg);
	if (!s || !s->way.there)
		return 0;
	s->sum.bad += sum->bad;
	s->sum.gaps += sum->gaps;
	s->sum.epochs = sum->epochs;
	s->sum.vouched_us = sum->vouched_us;
	s->sum.pinned = sum->pinned;
	*sum = s->sum;
	keep_done(s);
	return s->way.at - 1;
}

static void tell_gone(struct verify *v)
{
	const struct verify_state *s = v->state;

	for (size_t i = 0, k = 0; s && s->base.there && i < s->base.n; i++) {
		struct unpack in = s->base.log[i].in;
		struct log_state was;
		char *origin;

		while (k < s->n && s->log[k].id < s->base.log[i].id)
			k++;
		if (k < s->n && s->log[k].id == s->base.log[i].id)
			continue;
		read_log(&in, &was);
		origin = mem_strndup(was.origin, was.origin_len);
		verify_tell_store(v, AUDIT_FINDING_LOG_MISSING, origin, "the mark knows a log that is not there");
		free(origin);
	}
}

static int state_new(const struct verify_marking *mark, struct verify_state **ret, struct err *err)
{
	struct verify_state *s = mem_zalloc(sizeof(*s));

	s->mark = mark;
	if (mark->base)
		read_whole(&s->base, mark->base, mark->base_len);
	if (mark->way)
		read_whole(&s->way, mark->way, mark->way_len);
	*ret = s;
	if ((mark->base && (!s->base.there || s->base.at != 0)) || (mark->way && (!s->way.there || s->way.at == 0)))
		return malformed(err);
	return 0;
}

static void state_free(struct verify_state **sp)
{
	struct verify_state *s = *sp;

	if (!s)
		return;
	*sp = NULL;
	for (size_t i = 0; i < s->n; i++)
		str_fini(&s->log[i].bytes);
	free(s->log);
	free(s->base.log);
	free(s->way.log);
	free(s);
}

int verify_state_sizes(const void *p, size_t len, verify_size_fn *fn, void *arg, struct err *err)
{
	struct whole w = { 0 };
	int rc = 0;

	read_whole(&w, p, len);
	if (!w.there)
		rc = malformed(err);
	for (size_t i = 0; w.there && i < w.n && rc == 0; i++) {
		struct log_state state;

		read_log(&w.log[i].in, &state);
		rc = w.log[i].in.bad ? malformed(err) : fn(arg, w.log[i].id, state.min_idx, state.next);
	}
	free(w.log);
	return rc;
}

/* --- one log */

static int begin_steps(struct verify_log *c, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < NELEMS(steps) && rc == 0; i++)
		if (steps[i]->begin)
			rc = steps[i]->begin(c, err);
	if (rc == 0)
		rc = state_log(c, err);
	for (size_t i = 0; i < NELEMS(steps) && rc == 0; i++)
		if (steps[i]->start_log)
			rc = steps[i]->start_log(c, err);
	return rc;
}

static int end_steps(struct verify_log *c, struct err *err)
{
	int rc = 0;

	for (size_t i = NELEMS(steps); i > 0 && rc == 0; i--)
		if (steps[i - 1]->end)
			rc = steps[i - 1]->end(c, err);
	return rc;
}

static void close_steps(struct verify_log *c)
{
	for (size_t i = NELEMS(steps); i > 0; i--)
		if (steps[i - 1]->close)
			steps[i - 1]->close(c);
	verify_tell_runs(c, NULL, NULL);
	free(c->nodes.v);
}

static void sum_up(struct audit_coverage *sum, const struct audit_value *ts)
{
	sum->records++;
	if (ts->present && (sum->first_us == 0 || (uint64_t)ts->n < sum->first_us))
		sum->first_us = (uint64_t)ts->n;
	if (ts->present && (uint64_t)ts->n > sum->last_us)
		sum->last_us = (uint64_t)ts->n;
}

/* A log that is read again was what it is, as far as it had come. */
static void check_known(struct verify_log *c)
{
	uint8_t root[TREE_HASH];

	if (c->known == 0 || c->next != c->known)
		return;
	tree_root(&c->tree, root);
	if (memcmp(root, c->known_root, TREE_HASH) != 0)
		verify_tell_store(c->v, AUDIT_FINDING_ROOT, c->head->origin, "the records below the mark are other ones");
}

/* The records up to the head's size have its root. */
static void compare_head(struct verify_log *c)
{
	uint8_t root[TREE_HASH];

	c->met = true;
	tree_root(&c->tree, root);
	if (c->head->has_root && memcmp(root, c->head->root, TREE_HASH) != 0)
		verify_tell_store(c->v, AUDIT_FINDING_ROOT, c->head->origin, NULL);
}

static int check_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	int rc = 0;

	if (got->idx > c->next)
		verify_tell_record(c, AUDIT_FINDING_GAP, c->next, got->idx - 1);
	c->next = got->idx + 1;
	verify_tell_read(c, got);
	tree_append_nodes(&c->tree, got->leaf, audit_tile_note, &c->nodes);
	if ((int64_t)c->tree.size == c->head->said && !c->met)
		compare_head(c);
	sum_up(c->v->sum, &got->row.v[COL_TS]);
	for (size_t i = 0; i < NELEMS(steps) && rc == 0; i++)
		if (steps[i]->record)
			rc = steps[i]->record(c, got, err);
	c->nodes.n = 0;
	c->v->sum->again += verify_is_known(c, got->idx);
	check_known(c);
	return rc;
}

/* The head is older than what was read before this verification began (SC-104). */
static int check_past_head(struct verify_log *c, struct err *err)
{
	uint8_t root[TREE_HASH];
	uint64_t ts;
	int rc = verify_past_root(c, (uint64_t)c->head->said, root, &ts, err);

	if (rc == 1 && memcmp(root, c->head->root, TREE_HASH) != 0)
		verify_tell_store(c->v, AUDIT_FINDING_ROOT, c->head->origin, NULL);
	if (rc == 0)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin,
				  "the head is below the mark, and what is kept of tiles does not give its root");
	return rc < 0 ? rc : 0;
}

static int check_head(struct verify_log *c, struct err *err)
{
	const struct verify_head *h = c->head;
	const bool past = h->said > 0 && (uint64_t)h->said < c->tree.size &&
		(c->start == VERIFY_BEHIND || c->start == VERIFY_ON);

	if (h->found < h->size)
		verify_tell_record(c, AUDIT_FINDING_TRUNCATED, h->found, h->size - 1);
	if (h->found > h->size)
		verify_tell_record(c, AUDIT_FINDING_UNCOVERED_TAIL, h->size, h->found - 1);
	if (h->size < c->known)
		verify_tell_record(c, AUDIT_FINDING_TRUNCATED, h->size, c->known - 1);
	if (!h->has_root)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, h->origin, "the log has no tree yet: it is from an older release");
	else if (!c->met && past)
		return check_past_head(c, err);
	else if (!c->met)
		compare_head(c);
	return 0;
}

static void tell_progress(const struct verify *v)
{
	if (v->with->progress)
		v->with->progress(v->arg, v->sum->records + v->sum->older, v->total);
}

/* --- records below the mark that are read again (SC-706) */

/* Those of the log at hand, as far as they are below the mark. */
static int read_chosen(struct verify_log *c, struct err *err)
{
	const struct verify_marking *mark = c->v->state ? c->v->state->mark : NULL;
	int rc = 0;

	for (size_t i = 0; mark && c->start == VERIFY_BEHIND && i < mark->nagain && rc == 0; i++) {
		const struct verify_range *r = &mark->again[i];
		int64_t to = r->to < c->known ? r->to : c->known;       /* whole tiles, but for the log's end */

		if (r->log != c->head->id || to > c->head->size || r->from < c->head->min_idx || r->from >= to)
			continue;
		c->again = true;
		for (size_t s = 0; s < NELEMS(steps) && rc == 0; s++)
			if (steps[s]->again)
				rc = steps[s]->again(c, r->from, to, err);
		c->again = false;
	}
	return rc;
}

static int take_record(struct verify_log *c, const struct audit_read *got, void *arg, struct err *err)
{
	int rc = check_record(c, got, err);

	(void)arg;
	if (rc == 0 && c->v->sum->records % AUDIT_VERIFY_STEP == 0) {
		tell_progress(c->v);
		keep_way(c);
	}
	return rc;
}

static int read_records(struct verify_log *c, struct err *err)
{
	return verify_read(c, c->next, c->head->size, take_record, NULL, err);
}

/* What needs a block that cannot be read, which is told. */
static int left_out(struct verify *v, const char *origin, int rc, struct err *err)
{
	struct err other = { 0 };
	int told;

	if (rc != ERR_CORRUPT && !(rc == ERR_UNREACHABLE && v->unreadable))     /* a sealed file is not here */
		return rc;
	told = verify_forms_blame(v, &other);
	if (told < 0) {
		*err = other;
		return told;
	}
	if (!v->unreadable)
		return rc;
	verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, origin, err->msg);
	return 0;
}

static int check_log(struct verify *v, const struct verify_head *h, struct err *err)
{
	struct verify_log c = { .v = v, .head = h, .next = h->min_idx };
	int rc = begin_steps(&c, err);

	if (rc == 0 && c.start == VERIFY_AGAIN)
		check_known(&c);
	if (rc == 0 && h->said > 0 && (int64_t)c.tree.size == h->said)
		compare_head(&c);
	if (rc == 0 && c.start == VERIFY_BEHIND)
		v->sum->older += (uint64_t)(c.known - h->min_idx);
	tell_progress(v);
	if (rc == 0)
		rc = read_chosen(&c, err);
	if (rc == 0)
		rc = read_records(&c, err);
	if (rc == 0 && c.next < h->size && c.next < h->found)
		verify_tell_record(&c, AUDIT_FINDING_GAP, c.next, h->size - 1);
	for (size_t i = 0; i < NELEMS(steps) && rc == 0; i++)
		if (steps[i]->settle_log)
			rc = steps[i]->settle_log(&c, err);
	if (rc == 0) {
		keep_log(&c);
		rc = check_head(&c, err);
	}
	if (rc == 0)
		rc = end_steps(&c, err);
	if (rc < 0 && (rc = left_out(v, h->origin, rc, err)) == 0)
		keep_base(&c);
	close_steps(&c);
	v->sum->logs++;
	return rc;
}

/* --- the store */

static void read_head(struct db_stmt *st, struct verify_head *ret)
{
	size_t len = 0;
	const void *root = db_col_blob(st, 4, &len), *note;

	*ret = (struct verify_head){ .id = db_col_i64(st, 0), .size = db_col_i64(st, 2), .found = db_col_i64(st, 3),
		.said = db_col_i64(st, 2), .min_idx = db_col_i64(st, 5), .noted = db_col_i64(st, 7),
		.note_epoch = db_col_i64(st, 10), .tenant_id = db_col_i64(st, 8),
		.pruned_by = db_col_type(st, 6) == DB_INT ? db_col_i64(st, 6) : -1 };
	ret->origin = mem_strdup(db_col_text(st, 1, NULL));
	ret->has_root = db_col_type(st, 4) != DB_NULL;
	if (!db_col_i64(st, 9) && ret->found > ret->size)       /* a stop leaves no head behind */
		ret->size = ret->found;
	if (len == TREE_HASH)
		memcpy(ret->root, root, TREE_HASH);
	note = db_col_blob(st, 11, &len);
	str_put(&ret->note, note, len);
}

static int count_records(struct verify *v, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_COUNT);
	int rc;

	db_bind_i64(st, 1, v->tenant_id);
	rc = db_step(st, err);
	if (rc == 1)
		v->total = (uint64_t)db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int check_next_log(struct verify *v, int64_t *after, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_AUDIT_NEXT_HEAD);
	struct verify_head h = { 0 };
	int rc;

	db_bind_i64(st, 1, *after);
	db_bind_i64(st, 2, v->tenant_id);
	rc = db_step(st, err);
	if (rc == 1)
		read_head(st, &h);
	db_stmt_put(&st);
	if (rc != 1)
		return rc;
	*after = h.id;
	rc = check_log(v, &h, err);
	free(h.origin);
	str_fini(&h.note);
	return rc < 0 ? rc : 1;
}

/* Each sees blocks that have come (decision 0054); the first finds out whether the file is one of ours. */
static int each_step(struct verify *v, int (*fn)(const struct verify_step *s, struct verify *v, struct err *err),
		     struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < NELEMS(steps) && rc == 0 && !v->sum->foreign; i++) {
		rc = i > 0 ? forms_see(v->db, err) : 0;
		rc = rc < 0 ? rc : left_out(v, NULL, fn(steps[i], v, err), err);
	}
	return rc;
}

static int open_step(const struct verify_step *s, struct verify *v, struct err *err)
{
	return s->open ? s->open(v, err) : 0;
}

static int start_step(const struct verify_step *s, struct verify *v, struct err *err)
{
	return s->start ? s->start(v, err) : 0;
}

static int settle_step(const struct verify_step *s, struct verify *v, struct err *err)
{
	return s->settle ? s->settle(v, err) : 0;
}

/* Up to the first log; what was carried from an earlier verification is there then. */
static int open_steps(struct verify *v, struct err *err)
{
	int rc = each_step(v, open_step, err);

	if (rc == 0 && !v->sum->foreign)
		rc = state_load(v, err);
	return rc < 0 ? rc : each_step(v, start_step, err);
}

/* Before anything is opened. */
static void know(struct verify *v)
{
	const struct verify_state *s = v->state;
	struct unpack in = { .bad = true };

	if (s && (s->way.there || s->base.there))
		in = s->way.there ? s->way.store : s->base.store;
	for (size_t i = 0; i < NELEMS(steps) && !in.bad; i++) {
		struct unpack part;

		unpack_part(&in, &part);
		if (steps[i]->know && unpack_u64(&part) == steps[i]->form && !part.bad)
			steps[i]->know(v, &part);
	}
}

static int check_store(struct verify *v, struct err *err)
{
	int64_t after = 0;
	int rc;

	know(v);
	rc = open_steps(v, err);
	if (rc < 0 || v->sum->foreign)
		return rc;
	if (v->with->progress)
		rc = count_records(v, err);
	after = go_on(v);
	for (int more = 1; rc == 0 && more == 1 && (rc = forms_see(v->db, err)) == 0;) {
		more = left_out(v, NULL, check_next_log(v, &after, err), err);
		rc = more < 0 ? more : 0;
	}
	if (rc == 0)
		rc = each_step(v, settle_step, err);
	if (rc < 0)
		return rc;
	tell_gone(v);
	keep_all(v);
	for (size_t i = NELEMS(steps); i > 0 && rc == 0; i--) {
		rc = forms_see(v->db, err);
		if (rc == 0 && steps[i - 1]->finish)
			rc = left_out(v, NULL, steps[i - 1]->finish(v, err), err);
	}
	return rc;
}

static int verify_as(struct verify *v, const struct verify_marking *mark, struct err *err)
{
	int rc;

	*v->sum = (struct audit_coverage){ 0 };
	rc = mark ? state_new(mark, &v->state, err) : 0;
	v->mark = mark;
	v->indexes = !mark || !mark->base || mark->indexes;
	if (rc == 0)
		rc = check_store(v, err);
	units_free(&v->units);
	for (size_t i = NELEMS(steps); i > 0; i--)
		if (steps[i - 1]->free)
			steps[i - 1]->free(v);
	state_free(&v->state);
	map_free(&v->away);
	return rc;
}

static const struct audit_evidence none;

int audit_verify_with(struct db *db, int64_t tenant_id, const struct audit_evidence *with, audit_found_fn *found,
		      void *arg, struct audit_coverage *ret, struct err *err)
{
	return verify_as(&(struct verify){ .db = db, .tenant_id = tenant_id, .found = found, .arg = arg, .sum = ret,
					   .with = with ? with : &none }, NULL, err);
}

int audit_verify_marked(struct db *db, const struct audit_evidence *with, const struct verify_marking *mark,
			audit_found_fn *found, void *arg, struct audit_coverage *ret, struct err *err)
{
	return verify_as(&(struct verify){ .db = db, .found = found, .arg = arg, .sum = ret,
					   .with = with ? with : &none }, mark, err);
}
