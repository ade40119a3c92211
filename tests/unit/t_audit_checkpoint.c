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
static struct audit_beat beat(struct fix *f, size_t max, bool always)
{
	struct audit_beat b = { 0 };

	begin(f);
	OK(audit_beat(f->logs, f->db, max, always, &b, &f->err));
	OK(audit_beat_system(f->logs, f->db, &b, &f->err));
	commit(f);
	return b;
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
	OK(audit_beat(f->logs, f->db, SIZE_MAX, false, &b, &f->err));
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

SUITE(checkpoint)
{
#define WITH_LOGS(name) cmocka_unit_test_setup_teardown(name, set_up, fix_free)
	const struct CMUnitTest tests[] = {
		WITH_LOGS(only_what_has_grown_is_due),
		WITH_LOGS(those_that_wait_longest_come_first),
		WITH_LOGS(what_is_undone_is_due_again),
		WITH_LOGS(notes_are_thinned),
		WITH_LOGS(a_log_is_read_on_from_its_checkpoint),
		WITH_LOGS(epochs_are_rows_and_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
