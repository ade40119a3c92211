/* A store whose records are in blocks: it is as whole as its rows were, and what somebody changes in it is found (SCALE 10,
 * T42 to T47, T51). */

#include "config.h"

#include <stdlib.h>

#include "base/crypto.h"
#include "audit/payload.h"
#include "keys/keys.h"

#include "audit_rig.h"
#include "fold_rig.h"
#include "suite.h"

enum { ACME = 7, CALLS = 300 };

static void append(struct fix *f, enum audit_kind kind, unsigned call)
{
	static const struct audit_payload payload = { .level = AUDIT_METADATA, .n = 1,
		.value = { { .ctag = AUDIT_C_ARGUMENTS, .p = "{\"a\":1}", .len = 7 } } };
	struct audit_event ev;
	struct audit_receipt r;

	clock_step(10);
	audit_event_init(&ev, kind, ACME);
	ev.has_call = true;
	memcpy(ev.call, &call, sizeof(call));
	ev.prn = call % 7 ? "prn_a" : "prn_b";
	ev.tool = "echo";
	if (kind == AUDIT_CALL_BEGIN)
		ev.payload = &payload;
	OK(audit_append(f->logs, f->db, &ev, &r, &f->err));
}

static void fold(struct fix *f, bool leftovers)
{
	const struct fold_with with = { .seed = 1, .block_max = 120, .tail = 20, .leftovers = leftovers };

	OK(db_open(f->path, DB_WRITER, false, &f->db, &f->err));
	if (fold_store(f->db, &with, &f->err) < 5)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	db_close(&f->db);
}

static struct fix *new_store(void)
{
	static const uint8_t master[32] = { 9 };
	struct fix *f = fix_new();
	const struct keyfile_place place = { f->dir, master };
	struct keys *keys = NULL;

	assert_int_equal(secret_init(), 0);
	clock_fake(1000000, 500000);
	open_store(f);
	OK(keys_open(&place, &keys, &f->err));
	audit_logs_give_keys(f->logs, &keys);
	begin(f);
	create_log(f, 0, NULL);
	create_log(f, ACME, "acme");
	for (unsigned i = 0; i < CALLS; i++) {
		append(f, AUDIT_CALL_BEGIN, i);
		append(f, AUDIT_CALL_END, i);
	}
	commit(f);
	close_store(f);
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	return f;
}

static int set_up(void **state)
{
	struct fix *f = *state = new_store();

	fold(f, false);
	return 0;
}

static int set_up_leftovers(void **state)
{
	struct fix *f = *state = new_store();

	fold(f, true);
	return 0;
}

static void it_is_whole(void **state)
{
	struct fix *f = *state;

	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	assert_int_equal(f->sum.records, 2 * CALLS + 2);
}

static void finds(struct fix *f, const char *sql, enum audit_finding_code code)
{
	raw(f, sql);
	if (verify(f, 0) == 0 || f->count[code] == 0)
		fail_msg("%s was not found; %s", audit_finding_name(code), f->last);
}

#define THIRD "log = 2 AND first = (SELECT first FROM blk WHERE log = 2 ORDER BY first LIMIT 1 OFFSET 2)"

/* T42 */
static void bit_of_the_columns(void **state)
{
	finds(*state, "UPDATE blk SET cols = CAST(substr(cols, 1, 20) || x'ff' || substr(cols, 22) AS BLOB) WHERE " THIRD,
	      AUDIT_FINDING_PARSE);
}

/* T43: it decodes, and the tree is another one. */
static void bit_of_what_is_not_deflated(void **state)
{
	finds(*state, "UPDATE blk SET hash = CAST(CASE WHEN substr(hash, -1) = x'00' THEN substr(hash, 1, length(hash) - 1) || x'01' "
	      "ELSE substr(hash, 1, length(hash) - 1) || x'00' END AS BLOB) WHERE " THIRD, AUDIT_FINDING_ROOT);
}

/* T44 */
static void zone_of_another_block(void **state)
{
	finds(*state, "UPDATE blk SET zone = (SELECT zone FROM blk WHERE log = 2 AND first = 0) WHERE " THIRD, AUDIT_FINDING_INDEX);
}

static void times_that_leave_records_out(void **state)
{
	finds(*state, "UPDATE blk SET ts_max = ts_min WHERE " THIRD, AUDIT_FINDING_INDEX);
}

/* T46 */
static void block_dropped(void **state)
{
	struct fix *f = *state;

	finds(f, "DELETE FROM blk WHERE " THIRD, AUDIT_FINDING_GAP);
}

static void first_block_dropped(void **state)
{
	finds(*state, "DELETE FROM blk WHERE log = 2 AND first = 0", AUDIT_FINDING_GAP);
}

static void last_block_dropped(void **state)
{
	finds(*state, "DELETE FROM blk WHERE log = 2 AND first = (SELECT max(first) FROM blk WHERE log = 2)", AUDIT_FINDING_GAP);
}

/* T47 */
static void blocks_that_overlap(void **state)
{
	finds(*state, "INSERT INTO blk SELECT log, first + 1, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM blk WHERE " THIRD,
	      AUDIT_FINDING_GAP);
}

static void block_of_a_size_that_none_has(void **state)
{
	finds(*state, "UPDATE blk SET cnt = 0 WHERE log = 2 AND first = (SELECT max(first) FROM blk WHERE log = 2)",
	      AUDIT_FINDING_PARSE);
}

/* T52, of a text that all forms share. */
static void text_edited(void **state)
{
	finds(*state, "UPDATE dict SET text = 'ecco' WHERE text = 'echo'", AUDIT_FINDING_ROOT);
}

static void text_gone(void **state)
{
	finds(*state, "DELETE FROM dict WHERE text = 'echo'", AUDIT_FINDING_DICT);
}

/* T51: each is told, and nothing else is wrong. */
static void leftover_edited(void **state)
{
	struct fix *f = *state;

	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	finds(f, "DROP TRIGGER rec_frozen; UPDATE rec SET outcome = 1 WHERE log = 2 AND idx = 60; CREATE TRIGGER rec_frozen BEFORE "
	      "UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;", AUDIT_FINDING_FORM);
	assert_non_null(strstr(f->last, "/t/acme 60-60 -"));
	assert_int_equal(f->sum.bad, 1);
}

static void leftover_with_another_leaf(void **state)
{
	finds(*state, "DROP TRIGGER rec_frozen; UPDATE rec SET leaf = zeroblob(32) WHERE log = 2 AND idx = 61; CREATE TRIGGER "
	      "rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;", AUDIT_FINDING_FORM);
}

static void leftover_without_a_leaf(void **state)
{
	finds(*state, "DROP TRIGGER rec_frozen; UPDATE rec SET outcome = 1, leaf = NULL WHERE log = 2 AND idx = 62; CREATE TRIGGER "
	      "rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;", AUDIT_FINDING_FORM);
}

static void leftover_of_no_record(void **state)
{
	finds(*state, "INSERT INTO rec(enc, log, idx, kind, ts) VALUES(1, 2, -5, 1002, 1)", AUDIT_FINDING_FORM);
}

static void what_is_kept_twice_differs(void **state)
{
	finds(*state, "UPDATE pay SET salt = zeroblob(16) WHERE rec = (SELECT id FROM rec WHERE log = 2 AND idx = 61)",
	      AUDIT_FINDING_FORM);
}

static void what_was_erased_from_the_block(void **state)
{
	finds(*state, "DELETE FROM blkpay WHERE log = 2 AND first = 0", AUDIT_FINDING_ERASED_BUT_PRESENT);
}

/* Some of what it has is gone: leftovers go slice by slice. */
static void leftovers_may_go(void **state)
{
	struct fix *f = *state;

	raw(f, "DELETE FROM pay WHERE rec IN (SELECT id FROM rec WHERE log = 2 AND idx BETWEEN 30 AND 90);"
	    "DELETE FROM rec WHERE log = 2 AND idx BETWEEN 30 AND 90");
	it_is_whole(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, fix_free)
#define WITH_LEFTOVERS(name) cmocka_unit_test_setup_teardown(name, set_up_leftovers, fix_free)
SUITE(verify_forms)
{
	const struct CMUnitTest tests[] = {
		TEST(it_is_whole), TEST(bit_of_the_columns), TEST(bit_of_what_is_not_deflated), TEST(zone_of_another_block),
		TEST(times_that_leave_records_out), TEST(block_dropped), TEST(first_block_dropped), TEST(last_block_dropped),
		TEST(blocks_that_overlap), TEST(block_of_a_size_that_none_has), TEST(text_edited), TEST(text_gone),
		WITH_LEFTOVERS(it_is_whole), WITH_LEFTOVERS(leftover_edited), WITH_LEFTOVERS(leftover_with_another_leaf),
		WITH_LEFTOVERS(leftover_without_a_leaf), WITH_LEFTOVERS(leftover_of_no_record), WITH_LEFTOVERS(what_is_kept_twice_differs),
		WITH_LEFTOVERS(what_was_erased_from_the_block), WITH_LEFTOVERS(leftovers_may_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
