/* Payload keys: found again, each in its place, gone for good when destroyed (AUDIT, SEC S-343). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "db/db.h"
#include "db/owner.h"
#include "keys/keys.h"

#include "store.h"
#include "tmpdir.h"
#include "suite.h"

#define JULY UINT64_C(1785000000000000)
#define AUGUST UINT64_C(1786000000000000)

static const uint8_t master[32] = { 7, 7 };

struct fix {
	char *dir, path[600];
	struct db *store;
	struct keyfile_place place;
	struct keys *keys;
	struct err err;
};

#define OK(expr) do { if ((expr) < 0) fail_msg("%s: %s: %s", #expr, f->err.where, f->err.msg); } while (0)

static int set_up(void **state)
{
	struct fix *f = mem_zalloc(sizeof *f);
	char path[600];

	assert_int_equal(secret_init(), 0);
	f->dir = tmpdir_make();
	tmpdir_path(f->dir, DB_KEYS, f->path, sizeof f->path);
	f->place = (struct keyfile_place){ f->dir, master };
	OK(store_copy(tmpdir_path(f->dir, DB_FILE, path, sizeof path), &f->err));
	OK(db_open(path, DB_WRITER, false, &f->store, &f->err));
	OK(db_migrate(f->store, &f->err));
	OK(keys_open(&f->place, &f->keys, &f->err));
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	keys_close(&f->keys);
	db_close(&f->store);
	tmpdir_remove(f->dir);
	free(f);
	return 0;
}

static struct keys_dek dek(struct fix *f, int64_t tenant, const char *subject, uint64_t at)
{
	const struct keys_dek *d = NULL;

	OK(keys_dek(f->keys, f->store, tenant, subject, at, &d, &f->err));
	return *d;
}

static void reopen(struct fix *f)
{
	keys_close(&f->keys);
	OK(keys_open(&f->place, &f->keys, &f->err));
}

static int found(struct fix *f, int64_t tenant, int64_t id, const struct keys_dek *want)
{
	const struct keys_dek *d = NULL;
	int rc = keys_find(f->keys, tenant, id, &d, &f->err);

	if (rc == 0)
		assert_memory_equal(d->key, want->key, 32);
	return rc;
}

static void keys_are_one_per_tenant_subject_and_month(void **state)
{
	struct fix *f = *state;
	struct keys_dek a = dek(f, 1, "prn_a", JULY), others[] = {
		dek(f, 1, "prn_b", JULY), dek(f, 2, "prn_a", JULY), dek(f, 1, "prn_a", AUGUST), dek(f, 0, "", JULY),
	};

	for (size_t i = 0; i < 4; i++) {
		assert_int_not_equal(a.id, others[i].id);
		assert_memory_not_equal(a.key, others[i].key, 32);
	}
	OK(keys_commit(f->keys, &f->err));
	reopen(f);
	assert_int_equal(dek(f, 1, "prn_a", JULY + 1).id, a.id);
	assert_memory_equal(dek(f, 1, "prn_a", JULY).key, a.key, 32);
	assert_int_equal(found(f, 1, others[2].id, &others[2]), 0);
	assert_int_equal(found(f, 0, others[3].id, &others[3]), 0);
}

static void key_of_another_tenant_is_not_found(void **state)
{
	struct fix *f = *state;
	struct keys_dek a = dek(f, 1, "prn_a", JULY);

	assert_int_equal(found(f, 2, a.id, &a), ERR_DENIED);
	OK(keys_commit(f->keys, &f->err));
	reopen(f);
	assert_int_equal(found(f, 2, a.id, &a), ERR_DENIED);
	assert_int_equal(found(f, 1, a.id + 1, &a), ERR_NOT_FOUND);
	assert_int_equal(found(f, 1, a.id, &a), 0);
}

static void keys_abandon_forgets_what_was_not_committed(void **state)
{
	struct fix *f = *state;
	struct keys_dek a = dek(f, 1, "prn_a", JULY);

	keys_abandon(f->keys);
	assert_int_equal(found(f, 1, a.id, &a), ERR_NOT_FOUND);
	assert_memory_not_equal(dek(f, 1, "prn_a", JULY).key, a.key, 32);
}

/* AUDIT */
static void destroyed_key_is_in_no_file_and_its_id_is_not_given_again(void **state)
{
	struct fix *f = *state;
	struct keys_dek a = dek(f, 1, "prn_a", JULY), b = dek(f, 1, "prn_b", JULY);
	int64_t *ids = NULL;
	size_t n = 0;

	OK(keys_commit(f->keys, &f->err));
	OK(keys_of_subject(f->keys, 1, "prn_a", &ids, &n, &f->err));
	assert_int_equal(n, 1);
	assert_int_equal(ids[0], a.id);
	OK(keys_destroy(f->keys, ids, n, &f->err));
	OK(keys_destroy(f->keys, ids, n, &f->err));
	free(ids);
	assert_int_equal(found(f, 1, a.id, &a), ERR_NOT_FOUND);
	assert_int_equal(found(f, 1, b.id, &b), 0);
	struct keys_dek again = dek(f, 1, "prn_a", JULY);
	assert_true(again.id > b.id);
	OK(keys_of_subject(f->keys, 2, "prn_a", &ids, &n, &f->err));
	assert_int_equal(n, 0);
	free(ids);
}

static void destroyed_tenant_takes_all_its_keys(void **state)
{
	struct fix *f = *state;
	struct keys_dek a = dek(f, 1, "prn_a", JULY), b = dek(f, 2, "prn_a", JULY);
	const uint8_t *token;
	uint8_t before[32];

	OK(keys_token(f->keys, f->store, 1, &token, &f->err));
	memcpy(before, token, 32);
	OK(keys_destroy_tenant(f->keys, 1, &f->err));
	OK(keys_destroy_tenant(f->keys, 3, &f->err));
	reopen(f);
	assert_int_equal(found(f, 1, a.id, &a), ERR_NOT_FOUND);
	assert_int_equal(found(f, 2, b.id, &b), 0);
	OK(keys_token(f->keys, f->store, 1, &token, &f->err));
	assert_memory_not_equal(token, before, 32);
}

static void rekey_wraps_in_batches_and_the_old_file_is_not_needed(void **state)
{
	struct fix *f = *state;
	struct keys_dek a = dek(f, 1, "prn_a", JULY);
	struct keyfile file;
	size_t left = 0;

	(void)dek(f, 2, "prn_a", JULY);
	(void)dek(f, 3, "prn_a", JULY);
	OK(keyfile_make(f->dir, "toolcrib/kek/1", &file, &f->err));
	OK(keys_rewrap(f->keys, file.id, 2, &left, &f->err));
	assert_int_equal(left, 1);
	OK(keys_rewrap(f->keys, file.id, 2, &left, &f->err));
	assert_int_equal(left, 0);
	static const uint8_t other[32];
	f->place.master = other;
	reopen(f);
	assert_int_equal(found(f, 1, a.id, &a), 0);
	keyfile_remove(f->dir, file.id);
	reopen(f);
	assert_int_equal(found(f, 1, a.id, &a), ERR_UNREACHABLE);
	assert_true(dek(f, 1, "prn_a", JULY).id > a.id);        /* calls go on */
	OK(keys_stale(f->keys, "0123456789abcdef", &left, &f->err));
	assert_int_equal(left, 1);      /* the new one; what is lost holds nothing up */
	keyfile_fini(&file);
}

static void rekey_stops_at_a_key_file_that_cannot_be_read(void **state)
{
	struct fix *f = *state;
	struct keyfile file, next;
	char path[600], name[64];
	size_t left = 0;
	FILE *broken;

	(void)dek(f, 1, "prn_a", JULY);
	OK(keyfile_make(f->dir, "toolcrib/kek/1", &file, &f->err));
	OK(keys_rewrap(f->keys, file.id, 8, &left, &f->err));
	(void)snprintf(name, sizeof name, "secret-%s.key", file.id);
	assert_int_equal(unlink(tmpdir_path(f->dir, name, path, sizeof path)), 0);
	broken = fopen(path, "wb");
	assert_non_null(broken);
	fclose(broken);
	assert_int_equal(chmod(path, 0400), 0);
	OK(keyfile_make(f->dir, "toolcrib/kek/1", &next, &f->err));
	assert_int_equal(keys_stale(f->keys, next.id, &left, &f->err), ERR_CORRUPT);
	assert_int_equal(keys_rewrap(f->keys, next.id, 8, &left, &f->err), ERR_CORRUPT);
	assert_int_equal(unlink(path), 0);
	OK(keys_stale(f->keys, next.id, &left, &f->err));
	assert_int_equal(left, 0);
	keyfile_fini(&file);
	keyfile_fini(&next);
}

/* SEC S-342 */
static void box_moved_to_another_row_does_not_open(void **state)
{
	struct fix *f = *state;
	struct keys_dek a = dek(f, 1, "prn_a", JULY), b = dek(f, 1, "prn_b", JULY);
	sqlite3 *db;

	OK(keys_commit(f->keys, &f->err));
	keys_close(&f->keys);
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "UPDATE dek SET box = (SELECT box FROM dek WHERE subject = 'prn_b') "
				      "WHERE subject = 'prn_a'", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	OK(keys_open(&f->place, &f->keys, &f->err));
	assert_int_equal(found(f, 1, a.id, &a), ERR_CORRUPT);
	assert_int_equal(found(f, 1, b.id, &b), 0);
}

static void reader_finds_what_is_committed(void **state)
{
	struct fix *f = *state;
	struct keys_dek a = dek(f, 1, "prn_a", JULY);
	const struct keys_dek *d = NULL;
	struct keys *reader = NULL;

	OK(keys_commit(f->keys, &f->err));
	OK(keys_open_reader(&f->place, &reader, &f->err));
	OK(keys_find(reader, 1, a.id, &d, &f->err));
	assert_memory_equal(d->key, a.key, 32);
	keys_close(&reader);
}

SINGLE_THREAD_SUITE(keys)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(keys_are_one_per_tenant_subject_and_month), T(key_of_another_tenant_is_not_found),
		T(keys_abandon_forgets_what_was_not_committed), T(destroyed_key_is_in_no_file_and_its_id_is_not_given_again),
		T(destroyed_tenant_takes_all_its_keys), T(rekey_wraps_in_batches_and_the_old_file_is_not_needed),
		T(rekey_stops_at_a_key_file_that_cannot_be_read),
		T(box_moved_to_another_row_does_not_open), T(reader_finds_what_is_committed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
