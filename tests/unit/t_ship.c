/* A database that is written and followed at once: what was committed is in what is put together, whatever checkpoints do
 * between; lines of manifests. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "age/age.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/db.h"
#include "db/owner.h"
#include "ship/ship.h"
#include "src/ship/ship_int.h"

#include "suite.h"
#include "tmpdir.h"

struct fix {
	char *dir, *store, *target, *back;
	struct age_identity id;
	struct age_recipient to;
	struct db *db[SHIP_OF];
	unsigned n;                     /* rows */
	struct err err;
};

static int set_up(void **state)
{
	struct fix *f = mem_zalloc(sizeof *f);

	assert_int_equal(secret_init(), 0);
	f->dir = tmpdir_make();
	f->store = path_join(f->dir, "store");
	f->target = path_join(f->dir, "target");
	f->back = path_join(f->dir, "back");
	assert_int_equal(path_mkdirs(f->store, 0700, &f->err), 0);
	memset(f->id.secret, 7, sizeof f->id.secret);
	age_recipient_of(&f->id, &f->to);
	for (unsigned of = 0; of < SHIP_OF; of++) {
		char *path = path_join(f->store, ship_of_name((enum ship_of)of));

		assert_int_equal(db_open(path, DB_WRITER, true, &f->db[of], &f->err), 0);
		assert_int_equal(db_migrate(f->db[of], &f->err), 0);
		free(path);
	}
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	for (unsigned of = 0; of < SHIP_OF; of++)
		db_close(&f->db[of]);
	tmpdir_remove(f->dir);
	free(f->store);
	free(f->target);
	free(f->back);
	free(f);
	return 0;
}

static void put_row(struct fix *f, size_t bytes)
{
	char *name = mem_printf("row%u", f->n++), *value = mem_zalloc(bytes + 1);
	struct db_stmt *st;

	memset(value, 'a' + (int)(f->n % 26), bytes);
	assert_int_equal(db_txn_begin(f->db[0], true, &f->err), 0);
	st = db_stmt_get(f->db[0], SQL_META_SET_VALUE);
	db_bind_textz(st, 1, name);
	db_bind_textz(st, 2, value);
	assert_int_equal(db_run(&st, &f->err), 0);
	assert_int_equal(db_txn_end(f->db[0], 0, &f->err), 0);
	free(name);
	free(value);
}

static struct shipper *open_shipper(struct fix *f, uint64_t log_max)
{
	struct ship_options o = SHIP_DEFAULTS;
	struct shipper *s = NULL;

	o.store = f->store;
	o.target = f->target;
	o.to = &f->to;
	o.nto = 1;
	o.log_max = log_max;
	if (shipper_open(&o, &s, &f->err) < 0)
		fail_msg("%s", f->err.msg);
	return s;
}

static void run(struct fix *f, struct shipper *s, enum ship_how how)
{
	bool more;

	if (shipper_run(s, how, &more, &f->err) < 0)
		fail_msg("%s", f->err.msg);
}

/* All rows so far are there, and no page is wrong. */
static void check_copy(struct fix *f)
{
	struct ship_unpacked sum;
	struct db *db = NULL;
	char *path = path_join(f->back, DB_FILE), *keys = path_join(f->back, DB_KEYS);

	assert_int_equal(path_mkdirs(f->back, 0700, &f->err), 0);
	(void)remove(path);
	(void)remove(keys);
	if (ship_unpack(f->target, &f->id, 1, 0, f->back, &sum, &f->err) < 0)
		fail_msg("%s", f->err.msg);
	assert_int_equal(db_open(path, DB_READER, false, &db, &f->err), 0);
	assert_int_equal(db_check_integrity(db, &f->err), 0);
	for (unsigned i = 0; i < f->n; i++) {
		struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);
		char *name = mem_printf("row%u", i);

		db_bind_textz(st, 1, name);
		assert_int_equal(db_step(st, &f->err), 1);
		db_stmt_put(&st);
		free(name);
	}
	db_close(&db);
	free(path);
	free(keys);
}

static void what_is_committed_is_in_the_copy(void **state)
{
	struct fix *f = *state;
	struct shipper *s = open_shipper(f, 1 << 28);

	put_row(f, 10);
	run(f, s, SHIP_ALL);
	assert_true(shipper_figures(s).whole);
	for (unsigned i = 0; i < 40; i++) {
		put_row(f, 20000);
		run(f, s, i % 3 ? SHIP_NOW : SHIP_DUE);
		assert_int_equal(db_checkpoint(f->db[0], 1, &f->err), 0);
		if (i % 5 == 0)
			run(f, s, SHIP_NOW);
	}
	run(f, s, SHIP_NOW);
	check_copy(f);
	assert_int_equal(shipper_figures(s).broken, 0);
	assert_int_equal(shipper_figures(s).generation, 1);
	shipper_close(&s);
}

/* A checkpoint never copies what was not shipped, and where all is shipped and seen the log begins anew. */
static void the_log_waits_for_the_copy(void **state)
{
	struct fix *f = *state;
	struct shipper *s = open_shipper(f, 1 << 28);

	run(f, s, SHIP_ALL);
	for (unsigned i = 0; i < 5; i++)
		put_row(f, 20000);
	assert_int_equal(db_checkpoint(f->db[0], 1, &f->err), 0);
	assert_true(db_wal_pages(f->db[0]) >= 25);
	run(f, s, SHIP_NOW);
	for (unsigned i = 0; i < 5; i++)        /* as much as was held back, or it is not tried */
		put_row(f, 40000);
	run(f, s, SHIP_NOW);
	assert_int_equal(db_checkpoint(f->db[0], 1, &f->err), 0);
	assert_int_equal(db_wal_pages(f->db[0]), 0);
	run(f, s, SHIP_NOW);
	put_row(f, 10);
	assert_true(db_wal_pages(f->db[0]) < 10);
	run(f, s, SHIP_NOW);
	check_copy(f);
	shipper_close(&s);
}

static void it_goes_on_where_it_was_or_begins_anew(void **state)
{
	struct fix *f = *state;
	struct shipper *s = open_shipper(f, 1 << 28);

	put_row(f, 100);
	run(f, s, SHIP_ALL);
	shipper_close(&s);
	put_row(f, 100);
	s = open_shipper(f, 1 << 28);
	run(f, s, SHIP_NOW);
	assert_int_equal(shipper_figures(s).generation, 1);
	check_copy(f);
	shipper_close(&s);
	assert_int_equal(db_truncate_log(f->db[0], &f->err), 0);        /* nothing proves that nothing is missing */
	put_row(f, 100);
	s = open_shipper(f, 1 << 28);
	run(f, s, SHIP_ALL);
	assert_int_equal(shipper_figures(s).generation, 2);
	check_copy(f);
	shipper_close(&s);
}

static void two_do_not_ship_to_one_place(void **state)
{
	struct fix *f = *state;
	struct shipper *s = open_shipper(f, 1 << 28), *other = NULL;
	struct ship_options o = SHIP_DEFAULTS;

	o.store = f->store;
	o.target = f->target;
	o.to = &f->to;
	o.nto = 1;
	assert_int_equal(shipper_open(&o, &other, &f->err), ERR_CONFLICT);
	shipper_close(&s);
}

static void lines_are_read_as_they_were_written(void **state)
{
	struct ship_line l = { .n = 3, .at_us = 5, .bytes = 7, .pages = 9, .file = "1/2.age", .name = "segments/1/x.tcs",
			       .size = 11, .changed_us = 13, .place = { { UINT32_MAX, 1 }, { 2, 3 }, 4 }, .of = SHIP_KEYS };
	static const char *const bad[] = {
		"", "[]", "{}", "{\"n\":1}", "{\"n\":1,\"kind\":\"x\",\"at_us\":1}", "{\"n\":-1,\"kind\":\"whole\",\"at_us\":1}",
	};
	struct err err;

	for (unsigned kind = 0; kind < SHIP_KINDS; kind++) {
		struct str text = STR_INIT, again = STR_INIT;
		struct ship_line got;

		l.kind = (enum ship_kind)kind;
		if (kind == SHIP_BEGIN || kind == SHIP_WHOLE)
			*l.file = '\0';
		else
			memcpy(l.file, "1/2.age", 8);
		ship_line_print(&l, &text);
		assert_int_equal(ship_line_parse(text.p, text.len, &got, &err), 0);
		ship_line_print(&got, &again);
		assert_string_equal(str_text(&again), str_text(&text));
		str_fini(&text);
		str_fini(&again);
	}
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(ship_line_parse(bad[i], strlen(bad[i]), &l, &err), ERR_CORRUPT);
}

/* None leads out of the target, or out of the store. */
static void names_stay_below(void **state)
{
	static const char *const names[] = { "/etc/passwd", "../x", "a/../../x", "" };
	struct ship_line l = { .n = 1, .kind = SHIP_SEALED, .file = "a" };
	struct err err;

	for (size_t i = 0; i < 2 * NELEMS(names); i++) {
		struct str text = STR_INIT;

		(void)snprintf(l.name, sizeof l.name, "%s", i % 2 ? "segments/1/x.tcs" : names[i / 2]);
		(void)snprintf(l.file, sizeof l.file, "%s", i % 2 ? names[i / 2] : "a");
		ship_line_print(&l, &text);
		assert_int_equal(ship_line_parse(text.p, text.len, &l, &err), ERR_CORRUPT);
		str_fini(&text);
	}
}

SINGLE_THREAD_SUITE(ship)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_committed_is_in_the_copy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_log_waits_for_the_copy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(it_goes_on_where_it_was_or_begins_anew, set_up, tear_down),
		cmocka_unit_test_setup_teardown(two_do_not_ship_to_one_place, set_up, tear_down),
		cmocka_unit_test(lines_are_read_as_they_were_written),
		cmocka_unit_test(names_stay_below),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
