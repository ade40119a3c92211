/* Rows and the records that vouch for them. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "audit/rows.h"

#include "rows.h"
#include "suite.h"

struct fix {
	struct rows rows;
	struct audit_logs *logs;
	int64_t acme;
};

static int set_up(void **state)
{
	struct fix *f = calloc(1, sizeof *f);
	struct audit_event ev;

	rows_open(&f->rows);
	ROWS_OK(audit_logs_open(f->rows.db, &f->logs, &rows_err));
	ROWS_OK(audit_log_create(f->logs, f->rows.db, 0, NULL, &rows_err));
	audit_event_init(&ev, AUDIT_SERVER_START, 0);
	ROWS_OK(audit_append_start(f->logs, f->rows.db, &ev, &rows_err));
	f->acme = rows_tenant(&f->rows, "acme");
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	ROWS_OK(audit_logs_flush(f->logs, f->rows.db, &rows_err));
	audit_logs_commit(f->logs);
	audit_logs_close(&f->logs);
	rows_close(&f->rows);
	free(f);
	return 0;
}

static struct audit_receipt append(struct fix *f, enum audit_kind kind, unsigned about)
{
	struct audit_receipt at;
	struct audit_event ev;

	audit_event_init(&ev, kind, 0);
	ROWS_OK(audit_append_rows(f->logs, f->rows.db, &ev, about, &at, &rows_err));
	return at;
}

static int pending(struct fix *f)
{
	char name[40];
	int rc = audit_rows_pending(f->rows.db, name, &rows_err);

	ROWS_OK(rc);
	return rc;
}

struct seen { const uint8_t *before, *after; uint8_t digest[2][32]; size_t rows; };

static int see(void *arg, const struct audit_view *v)
{
	struct seen *s = arg;
	size_t len = 0;

	s->before = audit_field_find(v->ext, v->ext_len, AUDIT_TAG_BEFORE, &len);
	if (s->before)
		s->before = memcpy(s->digest[0], s->before, len);
	s->after = audit_field_find(v->ext, v->ext_len, AUDIT_TAG_AFTER, &len);
	if (s->after)
		s->after = memcpy(s->digest[1], s->after, len);
	len = 0;
	(void)audit_field_find(v->ext, v->ext_len, AUDIT_TAG_KEYS, &len);
	s->rows = len / 8;
	return 0;
}

static struct seen look(struct fix *f, struct audit_receipt at)
{
	struct seen s = { 0 };

	ROWS_OK(audit_query_at(f->rows.db, 0, at.idx, see, &s, &rows_err));
	return s;
}

static void set_state(struct fix *f, int state)
{
	struct db_stmt *st = db_stmt_get(f->rows.db, SQL_TENANT_SET_STATE);

	db_bind_i64(st, 1, f->acme);
	db_bind_i64(st, 2, state);
	ROWS_OK(db_run(&st, &rows_err));
}

/* AUDIT A-417: what one record says of a row after a change, the next one says of it before. */
static void digests_of_a_row_make_a_chain(void **state)
{
	struct fix *f = *state;
	struct seen made, changed, back;

	assert_int_equal(pending(f), 1);
	made = look(f, append(f, AUDIT_TENANT_CREATE, AUDIT_ROW_TENANT));
	assert_int_equal(pending(f), 0);
	assert_null(made.before);
	assert_non_null(made.after);
	set_state(f, TENANT_SUSPENDED);
	assert_int_equal(pending(f), 1);
	changed = look(f, append(f, AUDIT_TENANT_SUSPEND, AUDIT_ROW_TENANT));
	assert_memory_equal(changed.digest[0], made.digest[1], 32);
	assert_memory_not_equal(changed.digest[1], made.digest[1], 32);
	set_state(f, TENANT_ACTIVE);
	back = look(f, append(f, AUDIT_TENANT_RESUME, AUDIT_ROW_TENANT));
	assert_memory_equal(back.digest[0], changed.digest[1], 32);
	assert_memory_equal(back.digest[1], made.digest[1], 32);
	ROWS_OK(audit_rows_check(f->rows.db, &rows_err));
}

static void deleted_row_is_on_record(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;
	struct seen gone;

	rows_grant(&f->rows, f->acme, "echo", "");
	(void)append(f, AUDIT_GRANT_ADD, AUDIT_ROW_GRANT);
	st = db_stmt_get(f->rows.db, SQL_GRANT_DELETE);
	db_bind_i64(st, 1, f->acme);
	db_bind_textz(st, 2, "echo");
	ROWS_OK(db_run(&st, &rows_err));
	assert_int_equal(pending(f), 1);
	gone = look(f, append(f, AUDIT_GRANT_REMOVE, AUDIT_ROW_GRANT));
	assert_non_null(gone.before);
	assert_null(gone.after);
	assert_int_equal(pending(f), 0);
}

/* At the limit, and one more. */
static void one_record_vouches_for_so_many_rows(void **state)
{
	struct fix *f = *state;
	char name[32];

	(void)append(f, AUDIT_TENANT_CREATE, AUDIT_ROW_TENANT);
	for (int i = 0; i < AUDIT_ROWS_OF_RECORD + 1; i++) {
		snprintf(name, sizeof name, "bot%d", i);
		(void)rows_principal(&f->rows, f->acme, name);
	}
	assert_int_equal(look(f, append(f, AUDIT_ADMIN_CMD, 0)).rows, AUDIT_ROWS_OF_RECORD);
	assert_int_equal(pending(f), 1);
	assert_int_equal(look(f, append(f, AUDIT_ADMIN_CMD, 0)).rows, 1);
	assert_int_equal(pending(f), 0);
}

/* One record for the limit, two for one more. */
static void rows_of_one_event_take_as_many_records_as_they_need(void **state)
{
	struct fix *f = *state;
	struct audit_event ev;
	int rows = 0;
	char name[32];

	(void)append(f, AUDIT_TENANT_CREATE, AUDIT_ROW_TENANT);
	audit_event_init(&ev, AUDIT_ADMIN_CMD, 0);
	for (unsigned want = 1; want <= 2; want++) {
		struct audit_receipt before;

		for (unsigned n = 0; n < AUDIT_ROWS_OF_RECORD + want - 1; n++) {
			snprintf(name, sizeof name, "bot%d", rows++);
			(void)rows_principal(&f->rows, f->acme, name);
		}
		before = append(f, AUDIT_SERVER_STOP, 0);       /* which speaks of no rows */
		ROWS_OK(audit_append_all_rows(f->logs, f->rows.db, &ev, 0, &rows_err));
		assert_int_equal(pending(f), 0);
		assert_int_equal(append(f, AUDIT_SERVER_STOP, 0).idx, before.idx + want + 1);
	}
}

static void row_without_its_record_stops_the_start(void **state)
{
	struct fix *f = *state;
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_SERVER_START, 0);
	assert_int_equal(audit_append_start(f->logs, f->rows.db, &ev, &rows_err), ERR_CORRUPT);
	assert_string_equal(rows_err.where, "tenant/1");
	assert_int_equal(audit_rows_check(f->rows.db, &rows_err), ERR_CORRUPT);
	(void)append(f, AUDIT_ADMIN_CMD, 0);
	ROWS_OK(audit_append_start(f->logs, f->rows.db, &ev, &rows_err));
}

SINGLE_THREAD_SUITE(audit_rows)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(digests_of_a_row_make_a_chain), T(deleted_row_is_on_record), T(one_record_vouches_for_so_many_rows),
		T(rows_of_one_event_take_as_many_records_as_they_need), T(row_without_its_record_stops_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
