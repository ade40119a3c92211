/* Secrets at rest: boxes that fit one place only, limits, and a rekey that can stop anywhere (SEC S-341 to S-343). */
#include "config.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include <cmocka.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "keys/secrets.h"
#include "keys/vault.h"

#include "rows.h"
#include "suite.h"

static const uint8_t master[32] = { 1, 2, 3 };

struct crib { struct rows rows; struct keyfile_place place; struct vault *vault; };

static int set_up(void **state)
{
	struct crib *c = mem_zalloc(sizeof(*c));

	rows_open(&c->rows);
	c->place = (struct keyfile_place){ c->rows.dir, master };
	ROWS_OK(vault_open(&c->place, c->rows.db, &c->vault, &rows_err));
	*state = c;
	return 0;
}

static int tear_down(void **state)
{
	struct crib *c = *state;

	vault_close(&c->vault);
	rows_close(&c->rows);
	free(c);
	return 0;
}

static int try_set(struct crib *c, const char *name, const char *value, size_t len, char key[KEYFILE_ID_SIZE])
{
	const struct vault_new n = { name, value, len, "uid 1" };
	struct vault_change *change = NULL;

	int rc = vault_set(c->rows.db, &c->place, &n, key, &change, &rows_err);
	if (rc == 0)
		vault_apply(c->vault, &change);
	return rc;
}

static void set(struct crib *c, const char *name, const char *value)
{
	char key[KEYFILE_ID_SIZE];

	ROWS_OK(try_set(c, name, value, strlen(value), key));
}

static int get(struct crib *c, const char *name, char **ret)
{
	const struct secret_source *s = vault_secrets(c->vault);
	size_t len;

	return s->open(s->arg, name, ret, &len, &rows_err);
}

static void assert_value(struct crib *c, const char *name, const char *want)
{
	char *value = NULL;

	ROWS_OK(get(c, name, &value));
	assert_string_equal(value, want);
	secret_free(value);
}

/* What somebody with the file could do. */
static void rows_exec(struct rows *r, const char *sql)
{
	char path[600];
	sqlite3 *other = NULL;

	ROWS_OK(db_txn_end(r->db, 0, &rows_err));
	db_close(&r->db);
	assert_int_equal(sqlite3_open(tmpdir_path(r->dir, "toolcrib.db", path, sizeof(path)), &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(other);
	ROWS_OK(db_open(path, DB_WRITER, false, &r->db, &rows_err));
	ROWS_OK(db_txn_begin(r->db, true, &rows_err));
}

/* As a start does. */
static void reopen(struct crib *c)
{
	vault_close(&c->vault);
	ROWS_OK(vault_open(&c->place, c->rows.db, &c->vault, &rows_err));
}

static unsigned key_files(struct crib *c)
{
	DIR *dir = opendir(c->rows.dir);
	unsigned n = 0;

	for (struct dirent *e; (e = readdir(dir)) != NULL; )
		n += strncmp(e->d_name, "secret-", 7) == 0;
	closedir(dir);
	return n;
}

static struct vault_rekeyed rekey(struct crib *c)
{
	struct vault_change *change = NULL;
	struct vault_rekeyed done;

	ROWS_OK(vault_rekey(c->rows.db, &c->place, NULL, &done, &change, &rows_err));
	vault_apply(c->vault, &change);
	return done;
}

static void box_opens_with_its_key_in_its_place(void **state)
{
	uint8_t key[AEAD_KEY_SIZE] = { 7 }, other[AEAD_KEY_SIZE] = { 8 }, box[5 + AEAD_OVERHEAD], again[5 + AEAD_OVERHEAD];
	char text[6] = "";

	aead_seal(key, "here", "hello", 5, box);
	aead_seal(key, "here", "hello", 5, again);
	assert_memory_not_equal(box, again, sizeof(box));
	assert_int_equal(aead_open(key, "here", box, sizeof(box), text), 0);
	assert_string_equal(text, "hello");
	assert_int_equal(aead_open(key, "there", box, sizeof(box), text), ERR_INVALID);
	assert_int_equal(aead_open(other, "here", box, sizeof(box), text), ERR_INVALID);
	assert_int_equal(aead_open(key, "here", box, AEAD_OVERHEAD - 1, text), ERR_INVALID);
	for (size_t i = 0; i < sizeof(box); i++) {
		box[i] ^= 1;
		assert_int_equal(aead_open(key, "here", box, sizeof(box), text), ERR_INVALID);
		box[i] ^= 1;
	}
}

static void value_is_what_was_set_last(void **state)
{
	struct crib *c = *state;
	const struct secret_source *s = vault_secrets(c->vault);
	struct vault_change *change = NULL;
	char *value = NULL;

	assert_int_equal(get(c, "k", &value), ERR_NOT_FOUND);
	uint64_t version = s->version(s->arg);
	set(c, "k", "first");
	assert_true(s->version(s->arg) != version);
	version = s->version(s->arg);
	set(c, "other", "else");
	set(c, "k", "second");
	assert_true(s->version(s->arg) != version);
	assert_value(c, "k", "second");
	reopen(c);
	assert_value(c, "k", "second");
	assert_value(c, "other", "else");
	ROWS_OK(vault_remove(c->rows.db, "k", &change, &rows_err));
	vault_apply(c->vault, &change);
	assert_int_equal(get(c, "k", &value), ERR_NOT_FOUND);
	assert_int_equal(vault_remove(c->rows.db, "k", &change, &rows_err), ERR_NOT_FOUND);
	assert_value(c, "other", "else");
}

static void change_that_is_not_committed_shows_nowhere(void **state)
{
	struct crib *c = *state;
	struct vault_change *change = NULL;
	char key[KEYFILE_ID_SIZE];
	const struct vault_new n = { "k", "second", 6, "uid 1" };

	set(c, "k", "first");
	ROWS_OK(vault_set(c->rows.db, &c->place, &n, key, &change, &rows_err));
	vault_change_free(&change);
	assert_value(c, "k", "first");
}

static void long_value_and_full_table(void **state)
{
	struct crib *c = *state;
	char *text = mem_zalloc(VAULT_VALUE_MAX + 1), name[16], key[KEYFILE_ID_SIZE];

	memset(text, 'x', VAULT_VALUE_MAX);
	set(c, "long", text);
	assert_value(c, "long", text);
	free(text);
	for (int i = 1; i < VAULT_SECRETS_MAX; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		set(c, name, "value");
	}
	assert_int_equal(try_set(c, "one-more", "value", 5, key), ERR_LIMIT);
	assert_int_equal(try_set(c, "s1", "other", 5, key), 0);
	assert_value(c, "s1", "other");
}

/* Swap what two rows hold, then rename: each move must be seen (SEC S-342). */
static void box_moved_to_another_row_does_not_open(void **state)
{
	static const char *const moves[] = {
		"UPDATE secret SET value = (SELECT value FROM secret WHERE name = 'b') WHERE name = 'a'",
		"UPDATE secret SET name = CASE name WHEN 'a' THEN 'x' ELSE name END",
	};
	struct crib *c = *state;
	char *value = NULL;

	for (size_t i = 0; i < NELEMS(moves); i++) {
		set(c, "a", "value of a");
		set(c, "b", "value of b");
		rows_exec(&c->rows, moves[i]);
		reopen(c);
		assert_int_equal(get(c, i == 0 ? "a" : "x", &value), ERR_CORRUPT);
		assert_non_null(strstr(rows_err.msg, "damaged"));
	}
}

static void other_master_key_opens_nothing(void **state)
{
	static const uint8_t other[32] = { 9 };
	struct crib *c = *state;
	char *value = NULL;

	set(c, "k", "value");
	c->place.master = other;
	reopen(c);
	assert_int_equal(get(c, "k", &value), ERR_CORRUPT);
	assert_non_null(strstr(rows_err.msg, "is missing"));
	set(c, "k", "value");   /* the way out */
	assert_value(c, "k", "value");
}

static void rekey_goes_on_after_every_batch(void **state)
{
	enum { N = 2 * VAULT_REKEY_BATCH + 1 };
	struct crib *c = *state;
	char name[16], key[KEYFILE_ID_SIZE];

	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		set(c, name, name);
	}
	struct vault_rekeyed first = rekey(c);
	assert_int_equal(first.rewritten, VAULT_REKEY_BATCH);
	assert_int_equal(first.left, N - VAULT_REKEY_BATCH);
	reopen(c);
	assert_value(c, "s0", "s0");
	assert_value(c, "s128", "s128");
	ROWS_OK(try_set(c, "s128", "new", 3, key));     /* in between: under the new key */
	assert_string_equal(key, first.key);
	struct vault_rekeyed second = rekey(c);
	assert_string_equal(second.key, first.key);
	assert_int_equal(second.rewritten, VAULT_REKEY_BATCH);
	assert_int_equal(second.left, 0);
	assert_int_equal(key_files(c), 1);
	reopen(c);
	assert_value(c, "s127", "s127");
	assert_value(c, "s128", "new");

	/* The next one makes another key, and the first key's file goes with its last row. */
	struct vault_rekeyed third = rekey(c);
	assert_string_not_equal(third.key, first.key);
	assert_int_equal(key_files(c), 2);
	assert_int_equal(rekey(c).left, 1);
	assert_int_equal(key_files(c), 2);
	assert_int_equal(rekey(c).left, 0);
	assert_int_equal(key_files(c), 1);
	reopen(c);
	assert_value(c, "s5", "s5");
}

static void rekey_that_fails_leaves_all_as_it_was(void **state)
{
	struct crib *c = *state;
	struct vault_change *change = NULL;
	struct vault_rekeyed done;

	set(c, "good", "value");
	set(c, "bad", "value");
	rows_exec(&c->rows, "UPDATE secret SET value = zeroblob(60) WHERE name = 'bad'");
	ROWS_OK(db_item_begin(c->rows.db, &rows_err));
	int rc = vault_rekey(c->rows.db, &c->place, NULL, &done, &change, &rows_err);
	assert_int_equal(rc, ERR_CORRUPT);
	assert_non_null(strstr(rows_err.msg, "secret bad cannot be rewritten"));
	assert_non_null(strstr(rows_err.hint, "set it again"));
	assert_int_equal(db_item_end(c->rows.db, rc, &rows_err), ERR_CORRUPT);
	reopen(c);
	assert_value(c, "good", "value");
	set(c, "bad", "fresh");
	assert_int_equal(rekey(c).left, 0);
	assert_int_equal(key_files(c), 1);      /* what the failure left is swept */
	assert_value(c, "bad", "fresh");
}

/* A rekey whose last batch is durable, but not shown yet, meets the first batch of the next one. */
static void key_of_the_next_rekey_is_not_swept(void **state)
{
	struct crib *c = *state;
	struct vault_change *one = NULL, *two = NULL;
	struct vault_rekeyed done;

	set(c, "k", "value");
	ROWS_OK(vault_rekey(c->rows.db, &c->place, NULL, &done, &one, &rows_err));
	ROWS_OK(vault_rekey(c->rows.db, &c->place, NULL, &done, &two, &rows_err));
	vault_apply(c->vault, &one);
	vault_apply(c->vault, &two);
	assert_int_equal(key_files(c), 1);
	reopen(c);
	assert_value(c, "k", "value");
}

static void empty_store_can_be_rekeyed(void **state)
{
	struct crib *c = *state;

	assert_int_equal(rekey(c).rewritten, 0);
	set(c, "k", "value");
	reopen(c);
	assert_value(c, "k", "value");
}

SINGLE_THREAD_SUITE(vault)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(box_opens_with_its_key_in_its_place),
		TEST(value_is_what_was_set_last),
		TEST(change_that_is_not_committed_shows_nowhere),
		TEST(long_value_and_full_table),
		TEST(box_moved_to_another_row_does_not_open),
		TEST(other_master_key_opens_nothing),
		TEST(rekey_goes_on_after_every_batch),
		TEST(rekey_that_fails_leaves_all_as_it_was),
		TEST(key_of_the_next_rekey_is_not_swept),
		TEST(empty_store_can_be_rekeyed),
	};
#undef TEST
	return cmocka_run_group_tests_name("secrets at rest", tests, NULL, NULL);
}
