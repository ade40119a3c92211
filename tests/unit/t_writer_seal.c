/* Sealing while the writer writes: when a month is, what is thrown away because of an erasure, what is left of a file
 * that has no room, and who waits for whom (SCALE SC-105, SC-301, SC-302, SC-808). */

#include "config.h"

#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "bundle/seal.h"
#include "db/db.h"
#include "writer/seal.h"

#include "fold_rig.h"
#include "seal_rig.h"
#include "t_writer.h"
#include "suite.h"

enum { RECORDS = 3000, DAY_S = 86400 };
#define SECOND UINT64_C(1000000)
#define AFTER_MAY UINT64_C(1780272000000000)    /* 2026-06-01; the records are of May 28 */
#define EVERY (WRITER_SEAL_EVERY_S * SECOND)

static struct told { int n, rc; struct writer_sealed sealed; char why[sizeof ((struct err *)0)->msg]; } told;
static atomic_bool blocked;
static char log_origin[256];            /* of the log that is sealed */

static void tell(void *arg, int rc, const struct writer_sealed *sealed, const struct err *err)
{
	struct told *t = arg;

	t->n++;
	t->rc = rc;
	t->sealed = *sealed;
	(void)snprintf(t->why, sizeof(t->why), "%s", rc < 0 ? err->msg : "");
}

/* A store with signed notes, all of whose records but the newest are in blocks; the writer is not open. */
static int make_store(void **state)
{
	const struct fold_with with = { .seed = 1, .block_max = 512 };
	struct fix *f = calloc(1, sizeof *f);
	struct seal_rig rig;
	struct db *db = NULL;

	f->dir = tmpdir_make();
	tmpdir_path(f->dir, "toolcrib.db", f->path, sizeof f->path);
	f->limits = (struct writer_limits)WRITER_LIMITS_DEFAULT;
	f->limits.deadline_ms = 3600000;
	if (seal_rig_make(f->dir, RECORDS, &rig, &f->err) < 0 || db_open(f->path, DB_WRITER, false, &db, &f->err) < 0 ||
	    fold_store(db, &with, &f->err) < 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	(void)snprintf(log_origin, sizeof(log_origin), "%s", rig.origin);
	db_close(&db);
	f->loop = ev_loop_new();
	told = (struct told){ 0 };
	*state = f;
	return 0;
}

static int drop_store(void **state)
{
	int rc = tear_down(state);

	clock_real();
	return rc;
}

static void open_at(struct fix *f, uint64_t wall_us, const struct writer_seal_limits *limits)
{
	static const uint8_t master[32] = { 1 };

	clock_fake(wall_us, 500000);
	if (writer_open(f->loop, &(struct keyfile_place){ f->dir, master }, "test", &f->limits, NULL, &f->w, &f->recovered, &f->err) < 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	writer_seal_start(f->w, limits);
}

static int64_t sealed_files(const struct fix *f)
{
	return ask(f, "SELECT count(*) FROM seg");
}

/* In the folders of sealed files, whatever they are called. */
static int files(const struct fix *f)
{
	int n = 0;

	for (int log = 1; log <= SEAL_LOG; log++) {
		char name[32], path[700];
		const struct dirent *e;
		DIR *d;

		(void)snprintf(name, sizeof(name), "segments/%d", log);
		d = opendir(tmpdir_path(f->dir, name, path, sizeof(path)));
		while (d && (e = readdir(d)))
			n += e->d_name[0] != '.';
		if (d)
			closedir(d);
	}
	return n;
}

static bool is_taken(const struct fix *f)
{
	(void)f;
	return metric_get(METRIC_writer_queue_len) == 0;
}

static bool is_told(const struct fix *f)
{
	(void)f;
	return told.n > 0;
}

static bool has_files(const struct fix *f)
{
	return sealed_files(f) > 0 && ask(f, "SELECT count(*) FROM blk b WHERE first < (SELECT max(to_idx) FROM seg s WHERE s.log = b.log)") == 0;
}

static bool put_waits(const struct fix *f)
{
	(void)f;
	return metric_get(METRIC_writer_queue_len) >= 2;
}

static bool nothing_is_made(const struct fix *f)
{
	return writer_seal_yield(f->w);
}

static uint64_t passes;

static bool has_passed(const struct fix *f)
{
	(void)f;
	return metric_get(METRIC_seal_passes) > passes;
}

static void until(struct fix *f, bool (*is)(const struct fix *f))
{
	const bool never = false;

	for (int i = 0; i == 0 || !is(f); i++) {
		if (i == WAIT_MS)
			fail_msg("not within %d ms", WAIT_MS);
		(void)ev_loop_run_until(f->loop, &never, 1);
	}
}

/* One pass over all that has ended, to its end. */
static void seal_now(struct fix *f)
{
	told = (struct told){ 0 };
	assert_int_equal(writer_seal_now(f->w, NULL, clock_wall_us(), tell, &told, &f->err), 0);
	until(f, is_told);
}

/* --- when */

static void a_month_is_sealed_when_it_has_ended(void **state)
{
	struct fix *f = *state;

	open_at(f, AFTER_MAY - 1, NULL);
	seal_now(f);
	assert_int_equal(told.rc, 0);
	assert_int_equal(sealed_files(f), 0);
	clock_step(1);
	seal_now(f);
	assert_int_equal(told.sealed.files, 1);
	assert_int_equal(ask(f, "SELECT count(*) FROM seg WHERE log = 2 AND month = 202605 AND from_idx = 0 AND to_idx % 256 = 0"), 1);
}

static void by_itself_at_that_moment_and_not_before(void **state)
{
	const struct writer_seal_limits limits = { .on = true, .after_s = DAY_S };
	struct fix *f = *state;

	passes = metric_get(METRIC_seal_passes);
	open_at(f, AFTER_MAY + DAY_S * SECOND - 1, &limits);
	until(f, has_passed);
	assert_int_equal(sealed_files(f), 0);
	close_writer(f);
	open_at(f, AFTER_MAY + DAY_S * SECOND, &limits);
	until(f, has_files);
	assert_int_equal(files(f), sealed_files(f));
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE log = 2 AND kind = 1912"), 1);
}

static void off_means_when_told(void **state)
{
	const struct writer_seal_limits limits = { .on = false };
	struct fix *f = *state;

	passes = metric_get(METRIC_seal_passes);
	open_at(f, AFTER_MAY + 40 * DAY_S * SECOND, &limits);
	until(f, has_passed);
	assert_int_equal(sealed_files(f), 0);
	assert_int_equal(writer_seal_now(f->w, "nobody", 0, tell, &told, &f->err), 0);
	until(f, is_told);
	assert_int_equal(told.rc, ERR_NOT_FOUND);
	told = (struct told){ 0 };
	assert_int_equal(writer_seal_now(f->w, NULL, clock_wall_us(), tell, &told, &f->err), 0);
	assert_int_equal(writer_seal_now(f->w, NULL, 0, tell, &told, &f->err), ERR_BUSY);
	assert_int_equal(told.n, 0);            /* never before the return */
	until(f, is_told);
	assert_int_equal(told.rc, 0);
	assert_int_equal(told.n, 1);
	assert_int_equal(told.sealed.files, sealed_files(f));
	assert_int_equal(told.sealed.records, ask(f, "SELECT sum(to_idx - from_idx) FROM seg"));
	assert_int_equal(told.sealed.bytes, ask(f, "SELECT sum(bytes) FROM seg"));
}

/* --- erasing */

static int hold(struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)db;
	(void)logs;
	(void)err;
	while (atomic_load(&blocked))
		(void)sched_yield();
	return 0;
}

static int erase(struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)logs;
	return fold_sql(db, "INSERT INTO meta(key, value) VALUES('erasures', 1) ON CONFLICT DO UPDATE SET value = value + 1", NULL, err);
}

/* The writer is busy, a file waits to be put, and what comes before it has erased something. */
static void erase_while_a_file_waits(struct fix *f)
{
	open_at(f, AFTER_MAY, NULL);
	atomic_store(&blocked, true);
	assert_int_equal(submit_job(f, 1, true, hold), 0);
	until(f, is_taken);
	assert_int_equal(submit_job(f, 2, true, erase), 0);
	assert_int_equal(writer_seal_now(f->w, NULL, clock_wall_us(), tell, &told, &f->err), 0);
	until(f, put_waits);
	assert_int_equal(files(f), 1);
}

static void what_was_erased_does_not_come_back(void **state)
{
	const uint64_t conflicts = metric_get(METRIC_seal_conflicts);
	struct fix *f = *state;

	erase_while_a_file_waits(f);
	assert_false(writer_seal_yield(f->w));
	atomic_store(&blocked, false);
	until(f, nothing_is_made);
	assert_int_equal(files(f), 0);          /* before anybody says that it is erased */
	until(f, is_told);
	assert_int_equal(told.rc, ERR_CONFLICT);
	assert_int_equal(told.sealed.files, 0);
	assert_int_equal(sealed_files(f), 0);
	assert_int_equal(metric_get(METRIC_seal_conflicts), conflicts + 1);
	seal_now(f);
	assert_int_equal(told.rc, 0);
	assert_int_equal(files(f), sealed_files(f));
	assert_in_range(files(f), 1, 2);
}

static void nobody_waits_where_nothing_is_sealed(void **state)
{
	struct fix *f = *state;

	open_at(f, AFTER_MAY, NULL);
	assert_true(writer_seal_yield(f->w));
	seal_now(f);
	assert_int_equal(told.rc, 0);           /* and it stops nothing that comes later */
	assert_true(writer_seal_yield(f->w));
	seal_now(f);
	assert_int_equal(told.rc, 0);
	assert_int_equal(told.sealed.files, 0);
}

static void a_close_throws_away_what_waits(void **state)
{
	struct fix *f = *state;

	erase_while_a_file_waits(f);
	atomic_store(&blocked, false);
	close_writer(f);
	assert_int_equal(told.n, 1);
	assert_true(told.rc < 0);
	assert_int_equal(files(f), sealed_files(f));
}

/* --- room */

static void a_full_disk_leaves_nothing_and_is_tried_again(void **state)
{
	const struct writer_seal_limits limits = { .on = true };
	struct fix *f = *state;
	uint64_t failures;

	passes = metric_get(METRIC_seal_passes);
	open_at(f, AFTER_MAY - 1, &limits);
	until(f, has_passed);
	passes = metric_get(METRIC_seal_passes);
	failures = metric_get(METRIC_seal_failed);
	fault_set(FAULT_FULL);
	clock_step(EVERY);
	until(f, has_passed);
	assert_int_equal(metric_get(METRIC_seal_failed), failures + 1);
	assert_int_equal(files(f), 0);
	fault_set(FAULT_NONE);
	assert_int_equal(sealed_files(f), 0);
	clock_step(EVERY);
	until(f, has_files);
	assert_int_equal(files(f), sealed_files(f));
}

static void the_room_of_calls_is_not_taken(void **state)
{
	struct fix *f = *state;

	f->limits.space_floor = UINT64_MAX / 2;
	open_at(f, AFTER_MAY, NULL);
	seal_now(f);
	assert_int_equal(told.rc, ERR_LIMIT);
	assert_non_null(strstr(told.why, "are for calls"));
	assert_int_equal(files(f), 0);
	assert_int_equal(sealed_files(f), 0);
}

/* --- who reads files that are there (SC-701) */

enum { CHECKED = 60, ABSENT = 7, APART = 5 };   /* files; of each seventh there is none, each fifth begins elsewhere */

static void hear(void *arg, const struct audit_finding *found)
{
	str_printf(arg, "%s %" PRId64 " %s\n", audit_finding_name(found->code), found->from, found->detail);
}

static void read_catalog(struct db *db, struct audit_sealed *ret)
{
	struct db_stmt *st = db_stmt_get(db, SQL_VERIFY_LIST_FILES);
	struct err err;

	db_bind_i64(st, 1, SEAL_LOG);
	assert_int_equal(db_step(st, &err), 1);
	audit_sealed_row(st, SEAL_LOG, ret);
	db_stmt_put(&st);
}

static void take_first(struct audit_seal_checks *checks, unsigned *taken, struct str *said)
{
	struct audit_seal_checked got;
	struct err err;

	assert_int_equal(audit_seal_checks_next(checks, hear, said, &got, &err), 1);
	assert_int_equal(got.whole, *taken % ABSENT != 0);
	assert_int_equal(got.follows, *taken % APART != 0);
	str_printf(said, "%u\n", (*taken)++);
}

/* The one file again and again: what is told, in which order, by so many threads. */
static void check_files(struct fix *f, unsigned threads, struct str *said)
{
	struct audit_sealed one, other;
	struct audit_seal_known was = { NULL, 0, 0 }, now = { NULL, 0, 0 };
	struct audit_seal_checks *checks;
	struct db *db = NULL;
	unsigned taken = 0;

	assert_int_equal(db_open(f->path, DB_READER, false, &db, &f->err), 0);
	read_catalog(db, &one);
	other = one;
	(void)snprintf(other.path, sizeof(other.path), "segments/%d/209901-%d.tcs", SEAL_LOG, 0);
	checks = audit_seal_checks_new(db, threads, &was, &now);
	for (unsigned i = 0; i < CHECKED; i++) {
		if (audit_seal_checks_full(checks))
			take_first(checks, &taken, said);
		audit_seal_checks_put(checks, log_origin, i % ABSENT ? &one : &other, i % APART ? one.from : one.to, false);
	}
	while (taken < CHECKED)
		take_first(checks, &taken, said);
	assert_int_equal(audit_seal_checks_next(checks, hear, said, &(struct audit_seal_checked){ 0 }, &f->err), 0);
	audit_seal_checks_free(&checks);
	assert_int_equal(now.n, 1);             /* which is known once, however often a catalog lists it */
	audit_seal_known_fini(&now);
	db_close(&db);
}

static void who_reads_several_at_once_says_the_same(void **state)
{
	struct fix *f = *state;
	struct str alone = STR_INIT;

	open_at(f, AFTER_MAY, NULL);
	seal_now(f);
	close_writer(f);
	check_files(f, 1, &alone);
	assert_non_null(strstr(str_text(&alone), "it is not here"));
	assert_non_null(strstr(str_text(&alone), "does not begin where the one before it ends"));
	for (unsigned threads = 2; threads <= 5; threads++) {
		struct str said = STR_INIT;

		check_files(f, threads, &said);
		assert_string_equal(str_text(&said), str_text(&alone));
		str_fini(&said);
	}
	str_fini(&alone);
}

#define S(name) cmocka_unit_test_setup_teardown(name, make_store, drop_store)

SUITE(writer_seal)
{
	const struct CMUnitTest tests[] = {
		S(a_month_is_sealed_when_it_has_ended), S(by_itself_at_that_moment_and_not_before), S(off_means_when_told),
		S(what_was_erased_does_not_come_back), S(nobody_waits_where_nothing_is_sealed),
		S(a_close_throws_away_what_waits), S(a_full_disk_leaves_nothing_and_is_tried_again),
		S(the_room_of_calls_is_not_taken), S(who_reads_several_at_once_says_the_same),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
