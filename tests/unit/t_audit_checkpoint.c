/* What is due to be signed, what is kept of it, and reading on from a checkpoint. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "audit/checkpoint.h"

#include "audit_rig.h"
#include "suite.h"

enum { ACME = 7, OTHER = 8, TENANTS = 5 };
#define HOUR_US 3600000000ull

static int set_up(void **state)
{
	struct fix *f = fix_new();
	char name[16];

	clock_fake(HOUR_US, 500000);
	open_store(f);
	begin(f);
	create_log(f, 0, NULL);
	for (int i = 0; i < TENANTS; i++) {
		snprintf(name, sizeof name, "t%d", i);
		create_log(f, ACME + i, name);
	}
	commit(f);
	*state = f;
	return 0;
}

static void append(struct fix *f, int64_t tenant)
{
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_LIST, tenant);
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
}

/* One beat in a transaction of its own. */
static struct audit_beat beat_that(struct fix *f, size_t max, bool always, enum audit_saying say)
{
	struct audit_beat_opt opt = { .max = max, .always = always, .say = say };
	struct audit_beat b = { 0 };

	begin(f);
	OK(audit_beat(f->logs, f->db, &opt, &b, &f->err));
	OK(audit_beat_system(f->logs, f->db, &b, &f->err));
	commit(f);
	return b;
}

static struct audit_beat beat(struct fix *f, size_t max, bool always)
{
	return beat_that(f, max, always, AUDIT_SAY_GROWN);
}

static void store(struct fix *f, struct audit_beat *b, int64_t epoch)
{
	struct audit_note note[TENANTS + 1];

	for (size_t i = 0; i < b->nhead; i++)
		note[i] = (struct audit_note){ "note", 4 };
	begin(f);
	OK(audit_beat_store(f->logs, f->db, b, note, epoch, &f->err));
	commit(f);
	audit_beat_fini(b);
}

static int64_t noted(struct fix *f, int64_t log, struct tree *ret)
{
	int rc = audit_cp_find(f->db, log, INT64_MAX, ret, &f->err);

	assert_true(rc >= 0);
	return (int64_t)ret->size;
}

/* What comes with a head: the tree of the size that they begin at grows into it by them.  How many; -1: none come. */
static int64_t fresh(struct fix *f, const struct audit_head *h)
{
	uint8_t want[TREE_HASH], got[TREE_HASH];
	struct tree t = { 0 };

	if (!h->leaf)
		return -1;
	OK(audit_grow(f->db, h->log, h->from, &t, NULL, &f->err));
	for (uint64_t i = h->from; i < h->tree.size; i++)
		tree_append(&t, h->leaf[i - h->from]);
	tree_root(&t, got);
	tree_root(&h->tree, want);
	assert_memory_equal(got, want, TREE_HASH);
	return (int64_t)(h->tree.size - h->from);
}

static int64_t fresh_of_next(struct fix *f)
{
	struct audit_beat b = beat(f, SIZE_MAX, false);
	int64_t n;

	assert_int_equal(b.nhead, 2);
	n = fresh(f, &b.head[0]);
	assert_true(fresh(f, &b.head[1]) != 0);
	store(f, &b, 1);
	return n;
}

/* So a note of one of a thousand tenants is made without reading its records again. */
static void leaves_of_few_records_come_with_the_head(void **state)
{
	struct fix *f = *state;
	struct audit_beat b = beat(f, SIZE_MAX, false);
	struct audit_mark mark;

	store(f, &b, 1);
	for (int n = 1; n <= AUDIT_FRESH_MAX + 1; n += n == 1 ? AUDIT_FRESH_MAX - 1 : 1) {
		for (int i = 0; i < n; i++) {
			begin(f);
			append(f, ACME);
			commit(f);
		}
		assert_int_equal(fresh_of_next(f), n <= AUDIT_FRESH_MAX ? n : -1);
	}
	begin(f);                               /* a beat that is undone, of records that never were */
	mark = audit_logs_mark(f->logs);
	append(f, ACME);
	append(f, ACME);
	OK(audit_beat(f->logs, f->db, &(struct audit_beat_opt){ .max = SIZE_MAX, .say = AUDIT_SAY_LATER }, &b, &f->err));
	audit_beat_fini(&b);
	audit_logs_rollback(f->logs, mark);
	assert_int_equal(db_txn_end(f->db, ERR_AUDIT, &f->err), ERR_AUDIT);
	begin(f);
	append(f, ACME);
	commit(f);
	assert_int_equal(fresh_of_next(f), -1);
	begin(f);
	append(f, ACME);
	commit(f);
	assert_int_equal(fresh_of_next(f), 1);
}

static int count_views(void *arg, const struct audit_view *v)
{
	++*(int *)arg;
	return 0;
}

static int commits(struct fix *f)
{
	struct audit_filter all = { .kind = AUDIT_LOGS_COMMIT, .outcome = -1, .limit = 1000 };
	int n = 0;

	OK(audit_query(f->db, &all, count_views, &n, &f->err));
	return n;
}

static void only_what_has_grown_is_due(void **state)
{
	struct fix *f = *state;
	struct audit_beat b = beat(f, SIZE_MAX, false);
	struct tree t;

	assert_int_equal(b.nhead, TENANTS + 1);
	assert_int_equal(b.head[TENANTS].tenant_id, 0);
	store(f, &b, 0);
	assert_int_equal(commits(f), 1);
	b = beat(f, SIZE_MAX, false);
	assert_int_equal(b.nhead, 0);
	assert_int_equal(commits(f), 1);
	begin(f);
	append(f, OTHER);
	commit(f);
	b = beat(f, SIZE_MAX, false);
	assert_int_equal(b.nhead, 2);
	assert_int_equal(b.head[0].tenant_id, OTHER);
	assert_int_equal(b.head[0].tree.size, 2);
	assert_int_equal(b.head[1].tree.size, 3);
	store(f, &b, 0);
	assert_int_equal(noted(f, 1, &t), 3);
	/* Silence is said as well (AUDIT A-704). */
	b = beat(f, SIZE_MAX, true);
	assert_int_equal(b.nhead, 1);
	store(f, &b, 0);
	assert_int_equal(commits(f), 3);
}

/* AUDIT A-705: some wait for the next beat, and none for ever. */
static void those_that_wait_longest_come_first(void **state)
{
	struct fix *f = *state;
	struct audit_beat b;
	unsigned seen = 0;

	for (int round = 0; round < 3; round++) {
		b = beat(f, 2, false);
		assert_int_equal(b.nhead, 3);
		for (size_t i = 0; i + 1 < b.nhead; i++)
			seen |= 1u << (b.head[i].tenant_id - ACME);
		store(f, &b, 0);
		begin(f);
		append(f, ACME);        /* comes back behind the others */
		commit(f);
	}
	assert_int_equal(seen, (1u << TENANTS) - 1);
}

static void what_is_undone_is_due_again(void **state)
{
	struct fix *f = *state;
	struct audit_beat b = { 0 };
	struct audit_mark mark;
	struct audit_note note[TENANTS + 1];

	begin(f);
	mark = audit_logs_mark(f->logs);
	OK(audit_beat(f->logs, f->db, &(struct audit_beat_opt){ .max = SIZE_MAX, .say = AUDIT_SAY_GROWN }, &b, &f->err));
	audit_beat_fini(&b);
	audit_logs_rollback(f->logs, mark);
	assert_int_equal(db_txn_end(f->db, ERR_AUDIT, &f->err), ERR_AUDIT);
	b = beat(f, SIZE_MAX, false);
	assert_int_equal(b.nhead, TENANTS + 1);
	for (size_t i = 0; i < b.nhead; i++)
		note[i] = (struct audit_note){ "note", 4 };
	begin(f);
	mark = audit_logs_mark(f->logs);
	OK(audit_beat_store(f->logs, f->db, &b, note, 0, &f->err));
	audit_logs_rollback(f->logs, mark);
	assert_int_equal(db_txn_end(f->db, ERR_AUDIT, &f->err), ERR_AUDIT);
	audit_beat_fini(&b);
	b = beat(f, SIZE_MAX, false);
	assert_int_equal(b.nhead, TENANTS + 1);
	audit_beat_fini(&b);
}

/* SC-506: notes of tenants keep their beat, what the system log says of them has its own. */
static void sc506_heads_are_said_less_often_than_notes_are_made(void **state)
{
	struct fix *f = *state;
	struct audit_beat b = beat_that(f, SIZE_MAX, false, AUDIT_SAY_LATER);

	assert_int_equal(b.nhead, TENANTS + 1);
	assert_true(b.owed);
	store(f, &b, 0);
	assert_int_equal(commits(f), 0);
	/* All is signed, and still to be said. */
	b = beat_that(f, SIZE_MAX, false, AUDIT_SAY_LATER);
	assert_int_equal(b.nhead, 0);
	assert_true(b.owed);
	audit_beat_fini(&b);
	b = beat_that(f, SIZE_MAX, false, AUDIT_SAY_GROWN);
	assert_int_equal(b.nhead, 1);
	assert_false(b.owed);
	store(f, &b, 0);
	assert_int_equal(commits(f), 1);
	b = beat_that(f, SIZE_MAX, false, AUDIT_SAY_GROWN);
	assert_int_equal(b.nhead, 0);
	assert_false(b.owed);
	assert_int_equal(commits(f), 1);
	/* Said of all that have grown since all was said, whatever was said in between; then of none. */
	b = beat_that(f, SIZE_MAX, false, AUDIT_SAY_ALL);
	store(f, &b, 0);
	assert_int_equal(commits(f), 2);
	b = beat_that(f, SIZE_MAX, false, AUDIT_SAY_ALL);
	assert_int_equal(b.nhead, 0);
	assert_int_equal(commits(f), 2);
	/* After a crash nobody knows. */
	audit_heads_forget(f->logs);
	b = beat_that(f, SIZE_MAX, false, AUDIT_SAY_GROWN);
	store(f, &b, 0);
	assert_int_equal(commits(f), 3);
}

/* What was said in a transaction that was undone is said again. */
static void sc506_heads_that_were_undone_are_said_again(void **state)
{
	struct fix *f = *state;
	struct audit_beat b = beat_that(f, SIZE_MAX, false, AUDIT_SAY_LATER);
	struct audit_mark mark;

	store(f, &b, 0);
	begin(f);
	mark = audit_logs_mark(f->logs);
	OK(audit_beat(f->logs, f->db, &(struct audit_beat_opt){ .max = SIZE_MAX, .say = AUDIT_SAY_ALL }, &b, &f->err));
	audit_beat_fini(&b);
	audit_logs_rollback(f->logs, mark);
	assert_int_equal(db_txn_end(f->db, ERR_AUDIT, &f->err), ERR_AUDIT);
	b = beat_that(f, SIZE_MAX, false, AUDIT_SAY_LATER);
	assert_true(b.owed);
	audit_beat_fini(&b);
	b = beat_that(f, SIZE_MAX, false, AUDIT_SAY_ALL);
	store(f, &b, 0);
	assert_int_equal(commits(f), 1);
}

/* --- form 2 */

struct said { unsigned n; struct audit_said first[4], all[AUDIT_HEADS_MAX + 2]; size_t of[4]; uint8_t root[4][TREE_HASH]; };

static int read_said(void *arg, const struct audit_view *v)
{
	static struct audit_said said[AUDIT_HEADS_MAX];
	struct said *s = arg;
	size_t len = 0, n = 0;
	const uint8_t *p = audit_field_find(v->ext, v->ext_len, AUDIT_TAG_HEADS_ROOT, &len);

	assert_non_null(p);
	assert_true(s->n < 4);
	assert_int_equal(audit_heads_read(p, len, said, &n, s->root[s->n]), 0);
	s->of[s->n] = n;
	s->first[s->n++] = said[0];
	return 0;
}

/* Logs ascend, the root is that of the entries of form 1, and a proof of one is a path. */
static void sc506_one_root_is_over_the_entries_of_form_one(void **state)
{
	struct fix *f = *state;
	struct audit_filter all = { .kind = AUDIT_LOGS_COMMIT, .outcome = -1, .limit = 10 };
	struct audit_beat b = beat(f, SIZE_MAX, false);
	struct said said = { 0 };
	struct tree t = { 0 };
	uint8_t entry[AUDIT_HEAD_BYTES], root[TREE_HASH], leaf[TREE_HASH];

	OK(audit_query(f->db, &all, read_said, &said, &f->err));
	assert_int_equal(said.n, 1);
	assert_int_equal(said.of[0], TENANTS);
	assert_int_equal(said.first[0].size, 1);
	for (size_t i = 0; i < TENANTS; i++) {
		audit_put_be(entry, (uint64_t)b.head[i].log, 4);
		audit_put_be(entry + 4, b.head[i].tree.size, 8);
		tree_root(&b.head[i].tree, entry + 12);
		tree_leaf(entry, sizeof entry, leaf);
		tree_append(&t, leaf);
	}
	tree_root(&t, root);
	assert_memory_equal(root, said.root[0], TREE_HASH);
	audit_beat_fini(&b);
}

/* AUDIT_HEADS_MAX logs are in one record, one more is in another. */
static void sc506_a_record_has_so_many_logs(void **state)
{
	struct fix *f = *state;
	struct audit_filter all = { .kind = AUDIT_LOGS_COMMIT, .outcome = -1, .limit = 10 };
	struct audit_beat b;
	struct said said = { 0 };
	char name[16];

	begin(f);
	for (int i = TENANTS; i < AUDIT_HEADS_MAX; i++) {
		snprintf(name, sizeof name, "t%d", i);
		create_log(f, ACME + i, name);
	}
	commit(f);
	b = beat(f, 0, false);
	audit_beat_fini(&b);
	begin(f);
	create_log(f, ACME + AUDIT_HEADS_MAX, "one-more");
	commit(f);
	audit_heads_forget(f->logs);
	b = beat(f, 0, false);
	audit_beat_fini(&b);
	OK(audit_query(f->db, &all, read_said, &said, &f->err));
	assert_int_equal(said.n, 3);
	for (unsigned i = 0, ones = 0; i < 3; i++) {
		ones += said.of[i] == 1;
		assert_true(said.of[i] == AUDIT_HEADS_MAX || said.of[i] == 1);
		assert_true(i < 2 || ones == 1);
	}
}

static void sc506_a_list_of_heads_is_read_strictly(void **state)
{
	static const struct { const char *bytes; size_t len; } bad[] = {
#define BYTES(text) { text, sizeof text - 1 }
		BYTES(""), BYTES("\x02"), BYTES("\x00\x02"), BYTES("\x02\x00"), BYTES("\x02\x01"), BYTES("\x82\x00\x02"),
		BYTES("\x02\x82\x00"), BYTES("\x02\x82"), BYTES("\x02\x02\x00\x02"), BYTES("\x02\x02\x01\x01"),
		BYTES("\x80\x80\x80\x80\x10\x02"), BYTES("\xff\xff\xff\xff\x0f\x02\x01\x02"),
		BYTES("\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), BYTES("\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x02"),
#undef BYTES
	};
	static struct audit_said said[AUDIT_HEADS_MAX + 1], got[AUDIT_HEADS_MAX];
	static uint8_t bytes[AUDIT_HEADS_BYTES + 32];
	uint8_t root[TREE_HASH] = { 1, 2, 3 }, got_root[TREE_HASH];
	size_t len, n = 0;

	(void)state;
	for (size_t i = 0; i < NELEMS(bad); i++) {
		memcpy(bytes, bad[i].bytes, bad[i].len);
		memcpy(bytes + bad[i].len, root, TREE_HASH);
		if (audit_heads_read(bytes, bad[i].len + TREE_HASH, got, &n, got_root) != ERR_INVALID)
			fail_msg("%zu is taken", i);
	}
	assert_int_equal(audit_heads_read(bytes, TREE_HASH - 1, got, &n, got_root), ERR_INVALID);
	said[0] = (struct audit_said){ 2, INT64_MAX };
	said[1] = (struct audit_said){ 3, 1 };
	for (size_t i = 2; i < AUDIT_HEADS_MAX; i++)
		said[i] = (struct audit_said){ UINT32_MAX - AUDIT_HEADS_MAX + 1 + i, i % 3 ? i * i * i * i : 1 };
	len = audit_heads_write(said, AUDIT_HEADS_MAX, root, bytes);
	assert_true(len <= AUDIT_HEADS_BYTES);
	assert_int_equal(audit_heads_read(bytes, len, got, &n, got_root), 0);
	assert_int_equal(n, AUDIT_HEADS_MAX);
	assert_memory_equal(got, said, sizeof got);
	assert_memory_equal(got_root, root, TREE_HASH);
	/* One more. */
	memmove(bytes + len - TREE_HASH + 2, bytes + len - TREE_HASH, TREE_HASH);
	memcpy(bytes + len - TREE_HASH, "\x01\x00", 2);
	assert_int_equal(audit_heads_read(bytes, len + 2, got, &n, got_root), ERR_INVALID);
}

/* --- what stays */

/* AUDIT A-706: the newest, one for each hour, the last of each epoch. */
static void notes_are_thinned(void **state)
{
	struct fix *f = *state;
	static const struct { uint64_t after_us; int64_t epoch; unsigned notes; } steps[] = {
		{ 0, 0, 1 }, { 1000000, 0, 1 }, { HOUR_US, 0, 2 }, { 1000000, 0, 2 }, { 1000000, 1, 3 }, { 1000000, 1, 3 },
		{ HOUR_US, 2, 4 },
	};

	for (size_t i = 0; i < NELEMS(steps); i++) {
		struct audit_beat b;
		struct tree t;
		unsigned n = 0;

		clock_step(steps[i].after_us);
		b = beat(f, SIZE_MAX, true);
		store(f, &b, steps[i].epoch);
		for (uint64_t at = INT64_MAX; audit_cp_find(f->db, 1, at, &t, &f->err) == 1; n++)
			at = t.size - 1;
		assert_int_equal(n, steps[i].notes);
	}
}

static int64_t notes_of(struct fix *f, int64_t log)
{
	struct tree t;
	int64_t n = 0;

	for (uint64_t at = INT64_MAX; audit_cp_find(f->db, log, at, &t, &f->err) == 1; n++)
		at = t.size - 1;
	return n;
}

static void one_more(struct fix *f, int64_t epoch)
{
	struct audit_beat b;

	begin(f);
	for (int i = 0; i < TENANTS; i++)
		append(f, ACME + i);
	commit(f);
	b = beat(f, SIZE_MAX, false);
	store(f, &b, epoch);
}

/* SC-506: of what is older than a month the last note of each epoch stays; a turn looks at so many of them. */
static void sc506_old_notes_of_tenants_stay_at_the_ends_of_epochs(void **state)
{
	enum { HOURS = 40, EACH = 8 };
	struct fix *f = *state;
	int64_t log, left = HOURS * TENANTS;

	for (int i = 0; i < HOURS; i++, clock_step(HOUR_US))
		one_more(f, i / EACH);
	for (log = 2; log < 2 + TENANTS; log++)
		assert_int_equal(notes_of(f, log), HOURS);
	/* To the limit of a month nothing goes; the oldest has an hour more then. */
	clock_step((uint64_t)AUDIT_THIN_US - HOURS * HOUR_US);
	one_more(f, HOURS / EACH);
	one_more(f, HOURS / EACH);
	assert_int_equal(notes_of(f, 2), HOURS + 1);
	clock_step(HOURS * HOUR_US);
	for (int i = 0; i < 2 + HOURS * TENANTS / (AUDIT_THIN_ROWS - 1); i++) {
		int64_t now = 0;

		one_more(f, HOURS / EACH);
		for (log = 2; log < 2 + TENANTS; log++)
			now += notes_of(f, log) - 2;
		assert_true(now >= left - AUDIT_THIN_ROWS && now <= left);
		left = now;
	}
	for (log = 2; log < 2 + TENANTS; log++)
		assert_int_equal(notes_of(f, log), HOURS / EACH + 2);
	/* The system log's stay: they are few, and taken outside. */
	assert_true(notes_of(f, 1) > HOURS);
}

static void a_log_is_read_on_from_its_checkpoint(void **state)
{
	struct fix *f = *state;
	struct audit_beat b = beat(f, SIZE_MAX, false);
	struct tree stored, checked, head;
	struct tree_consistency since;
	struct audit_times times;
	uint8_t one[TREE_HASH], two[TREE_HASH], proof[TREE_PROOF_MAX][TREE_HASH];
	int64_t log = b.head[0].log, tenant = b.head[0].tenant_id;
	char *origin = mem_strdup(b.head[0].origin);
	size_t n;

	store(f, &b, 0);
	begin(f);
	for (int i = 0; i < 5; i++) {
		clock_step(1000);
		append(f, tenant);
	}
	commit(f);
	assert_int_equal(noted(f, log, &stored), 1);
	checked = stored;
	tree_root(&stored, one);
	tree_consistency_start(&since, 1);
	OK(audit_grow(f->db, log, 6, &stored, &since, &f->err));
	OK(audit_grow_checked(f->db, log, origin, 6, &checked, &times, &f->err));
	OK(audit_head_tree(f->logs, f->db, tenant, &head, &f->err));
	assert_memory_equal(&stored, &head, sizeof head.size + tree_peaks(6) * TREE_HASH);
	assert_memory_equal(&checked, &head, sizeof head.size + tree_peaks(6) * TREE_HASH);
	assert_int_equal(times.last - times.first, 4000);
	assert_int_equal(times.last_kind, AUDIT_LIST);
	assert_int_equal(noted(f, log, &checked), 1);
	tree_consistency_prove(&checked, &since, proof, &n);
	tree_root(&head, two);
	assert_true(tree_check_consistency(1, 6, one, two, (const uint8_t (*)[TREE_HASH])proof, n));
	/* More than there are is no tree. */
	assert_int_equal(audit_grow(f->db, log, 7, &stored, NULL, &f->err), ERR_CORRUPT);
	free(origin);
}

static void epochs_are_rows_and_records(void **state)
{
	struct fix *f = *state;
	uint8_t public[SIGN_PUBLIC_SIZE] = { 1 }, cert[SIGN_SIZE] = { 2 };
	struct audit_filter all = { .kind = AUDIT_EPOCH_START, .outcome = -1, .limit = 10 };
	struct audit_epoch e;
	int n = 0;

	assert_int_equal(audit_epoch_newest(f->db, &e, &f->err), 0);
	begin(f);
	OK(audit_epoch_begin(f->logs, f->db, 0, public, NULL, &f->err));
	public[0] = 9;
	OK(audit_epoch_begin(f->logs, f->db, 1, public, cert, &f->err));
	assert_int_equal(audit_epoch_begin(f->logs, f->db, 1, public, cert, &f->err), ERR_CONFLICT);
	commit(f);
	assert_int_equal(audit_epoch_newest(f->db, &e, &f->err), 1);
	assert_int_equal(e.n, 1);
	assert_memory_equal(e.public, public, sizeof public);
	OK(audit_query(f->db, &all, count_views, &n, &f->err));
	assert_int_equal(n, 2);
}

SINGLE_THREAD_SUITE(checkpoint)
{
#define WITH_LOGS(name) cmocka_unit_test_setup_teardown(name, set_up, fix_free)
	const struct CMUnitTest tests[] = {
		WITH_LOGS(only_what_has_grown_is_due),
		WITH_LOGS(those_that_wait_longest_come_first),
		WITH_LOGS(what_is_undone_is_due_again),
		WITH_LOGS(sc506_heads_are_said_less_often_than_notes_are_made),
		WITH_LOGS(sc506_heads_that_were_undone_are_said_again),
		WITH_LOGS(sc506_one_root_is_over_the_entries_of_form_one),
		WITH_LOGS(sc506_a_record_has_so_many_logs),
		WITH_LOGS(leaves_of_few_records_come_with_the_head),
		cmocka_unit_test(sc506_a_list_of_heads_is_read_strictly),
		WITH_LOGS(notes_are_thinned),
		WITH_LOGS(sc506_old_notes_of_tenants_stay_at_the_ends_of_epochs),
		WITH_LOGS(a_log_is_read_on_from_its_checkpoint),
		WITH_LOGS(epochs_are_rows_and_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
