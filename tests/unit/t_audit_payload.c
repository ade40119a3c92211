/* What records commit to and keep, by level; pseudonyms; and how it is destroyed (AUDIT 5, A-219 to ). */

#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "audit/erase.h"
#include "audit/fold.h"
#include "audit/payload.h"
#include "base/crypto.h"
#include "base/path.h"
#include "base/text.h"
#include "db/owner.h"
#include "keys/keys.h"

#include "audit_rig.h"
#include "suite.h"

enum { ACME = 1, OTHER = 2 };
#define CANARY "c4nary-7f3a99"

static const uint8_t master[32] = { 9 };
static struct keyfile_place place;      /* of the test that runs */

static int64_t number(struct fix *f, const char *text)
{
	sqlite3_stmt *st = NULL;
	sqlite3 *db;
	int64_t n;

	assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, text, -1, &st, NULL), SQLITE_OK);
	n = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
	sqlite3_finalize(st);
	sqlite3_close(db);
	return n;
}

/* The store, and the keys for its logs. */
static void open_keys(struct fix *f)
{
	struct keys *keys = NULL;

	open_store(f);
	OK(keys_open(&place, &keys, &f->err));
	audit_logs_give_keys(f->logs, &keys);
}

static int set_up(void **state)
{
	struct fix *f;

	assert_int_equal(secret_init(), 0);
	f = fix_new();
	place = (struct keyfile_place){ f->dir, master };
	open_keys(f);
	begin(f);
	create_log(f, 0, NULL);
	create_log(f, ACME, "acme");
	create_log(f, OTHER, "other");
	commit(f);
	close_store(f);
	raw(f, "INSERT INTO tenant(id, name, title, state, generation, list_digest, concurrency, rate_count, rate_per_s, created_us) "
	       "VALUES(1, 'acme', '', 1, 0, x'', 0, 0, 0, 1), (2, 'other', '', 1, 0, x'', 0, 0, 0, 1);"
	       "INSERT INTO principal(tenant_id, name, pseudonym, state, created_us) VALUES(1, '" CANARY "-alice', 'prn_alice', 1, 1), "
	       "(1, 'bob', 'prn_bob', 1, 1), (2, 'bob', 'prn_other', 1, 1)");
	open_keys(f);
	*state = f;
	return 0;
}

static struct audit_event event(enum audit_kind kind, const char *prn, const struct audit_payload *p)
{
	struct audit_event ev;

	audit_event_init(&ev, kind, ACME);
	ev.prn = prn;
	ev.payload = p;
	return ev;
}

static int try_append(struct fix *f, const struct audit_event *ev)
{
	struct audit_receipt receipt;
	int rc = audit_append(f->logs, f->db, ev, &receipt, &f->err);

	if (rc == 0)
		f->idx = receipt.idx;
	return rc;
}

static void append(struct fix *f, const struct audit_event *ev)
{
	begin(f);
	OK(try_append(f, ev));
	commit(f);
}

static void append_value(struct fix *f, int level, unsigned ctag, const char *p, size_t len, bool keep)
{
	const struct audit_payload payload = { .level = level, .n = 1, .value = { { .ctag = ctag, .p = p, .len = len, .keep = keep } } };
	const struct audit_event ev = event(AUDIT_CALL_END, "prn_alice", &payload);

	append(f, &ev);
}

/* --- reading back */

struct seen { size_t n; struct { unsigned ctag; bool opening, kept; size_t len; char text[300]; } v[AUDIT_COMMITS_MAX]; };

static int on_opened(void *arg, const struct audit_opened *o)
{
	struct seen *s = arg;
	uint8_t c[32];

	s->v[s->n].ctag = o->ctag;
	s->v[s->n].opening = o->opening != NULL;
	s->v[s->n].kept = o->p != NULL;
	s->v[s->n].len = o->len;
	snprintf(s->v[s->n].text, sizeof s->v[0].text, "%.*s", (int)o->len, o->p ? (const char *)o->p : "");
	if (o->p) {
		audit_commitment(o->opening, o->ctag, o->p, o->len, c);
		assert_memory_equal(c, o->commitment, 32);
	}
	s->n++;
	return 0;
}

static struct seen look(struct fix *f, int64_t idx)
{
	struct keys *keys = NULL;
	struct seen s = { 0 };

	OK(keys_open_reader(&place, &keys, &f->err));
	OK(audit_open_record(f->db, keys, ACME, idx, on_opened, &s, &f->err));
	keys_close(&keys);
	return s;
}

static char *clear_name(struct fix *f, const char *pseudonym)
{
	struct keys *keys = NULL;
	char *text = NULL;

	OK(keys_open_reader(&place, &keys, &f->err));
	if (audit_open_pseudonym(f->db, keys, ACME, pseudonym, &text, &f->err) < 0)
		assert_int_equal(f->err.code, ERR_NOT_FOUND);
	keys_close(&keys);
	return text;
}

/* --- tests */

static void metadata_commits_and_keeps_nothing(void **state)
{
	struct fix *f = *state;

	append_value(f, AUDIT_METADATA, AUDIT_C_RESULT, "{\"a\":1}", 7, false);
	struct seen s = look(f, f->idx);
	assert_int_equal(s.n, 1);
	assert_true(s.v[0].opening);
	assert_false(s.v[0].kept);
	assert_int_equal(number(f, "SELECT count(*) FROM rec WHERE kind = 1002 AND sh IS NOT NULL AND n_sto IS NULL AND flags = 0 "
				   "AND \"key\" = 1"), 1);
	assert_int_equal(number(f, "SELECT count(*) FROM pay WHERE ct IS NOT NULL OR nonce IS NOT NULL"), 0);
}

static void kept_value_is_encrypted_and_opens(void **state)
{
	struct fix *f = *state;

	append_value(f, AUDIT_REQUEST, AUDIT_C_ARGUMENTS, CANARY, strlen(CANARY), true);
	struct seen s = look(f, f->idx);
	assert_int_equal(s.n, 1);
	assert_string_equal(s.v[0].text, CANARY);
	assert_int_equal(number(f, "SELECT n_sto FROM rec WHERE kind = 1002 AND sh IS NULL AND flags = 1"), (int64_t)strlen(CANARY));
}

/* AUDIT A-415: limit and limit + 1 */
static void longer_value_is_cut_and_committed_twice(void **state)
{
	struct fix *f = *state;
	char *big = mem_zalloc(AUDIT_STORED_MAX + 1);

	memset(big, 'x', AUDIT_STORED_MAX + 1);
	append_value(f, AUDIT_REQUEST, AUDIT_C_ARGUMENTS, big, AUDIT_STORED_MAX, true);
	assert_int_equal(look(f, f->idx).n, 1);
	append_value(f, AUDIT_REQUEST, AUDIT_C_ARGUMENTS, big, AUDIT_STORED_MAX + 1, true);
	struct seen s = look(f, f->idx);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.v[0].len, AUDIT_STORED_MAX);
	assert_int_equal(s.v[1].ctag, AUDIT_C_WHOLE_ARGUMENTS);
	assert_false(s.v[1].kept);
	assert_int_equal(number(f, "SELECT flags FROM rec WHERE sh IS NOT NULL AND kind = 1002"), 1 | AUDIT_FLAG_ARGUMENTS_CUT);
	append_value(f, AUDIT_METADATA, AUDIT_C_ARGUMENTS, big, AUDIT_STORED_MAX + 1, false);
	assert_int_equal(look(f, f->idx).n, 1);
	append_value(f, AUDIT_REQUEST_RESPONSE, AUDIT_C_RESULT, big, AUDIT_STORED_MAX + 1, true);
	assert_int_equal(look(f, f->idx).v[1].ctag, AUDIT_C_WHOLE_RESULT);
	free(big);
}

/* AUDIT A-412 */
static void hidden_pieces_become_tokens_that_can_be_joined(void **state)
{
	struct fix *f = *state;
	static const char text[] = "{\"u\":\"al\",\"pw\":\"" CANARY "\",\"n\":1}";
	const struct audit_hidden hidden = { 15, 15 + sizeof CANARY + 1, true };
	struct audit_payload payload = { .level = AUDIT_REQUEST, .n = 2, .value = {
		{ .ctag = AUDIT_C_ARGUMENTS, .p = text, .len = sizeof text - 1, .keep = true, .hidden = &hidden, .nhidden = 1 },
		{ .ctag = AUDIT_C_REDACTED, .p = "/pw", .len = 3, .keep = true },
	} };
	struct audit_event ev = event(AUDIT_CALL_BEGIN, "prn_alice", &payload);
	char first[300];

	append(f, &ev);
	struct seen s = look(f, f->idx);
	assert_int_equal(s.n, 2);
	assert_null(strstr(s.v[0].text, CANARY));
	assert_non_null(strstr(s.v[0].text, "\"pw\":\"redacted:"));
	assert_non_null(strstr(s.v[0].text, ",\"n\":1}"));
	assert_string_equal(s.v[1].text, "/pw");
	assert_int_equal(number(f, "SELECT flags FROM rec WHERE kind = 1001"), 1 | AUDIT_FLAG_REDACTED);
	snprintf(first, sizeof first, "%s", s.v[0].text);
	append(f, &ev);
	s = look(f, f->idx);
	assert_string_equal(s.v[0].text, first);
}

static void keys_of_ours_are_hidden_by_their_shape(void **state)
{
	static const char key[] = "tck_7Qm3kZp0aB1x_No287qEH4uQv9vBo5cxQTXAw02KFtzjuPbCrH1FrBEB03QqF4";
	struct audit_hidden hidden[AUDIT_HIDDEN_MAX] = { { 2, 5, true } };
	struct str text = STR_INIT;
	size_t n = 1;

	str_printf(&text, "{\"a\":\"%s\",\"b\":\"tck_short\",\"c\":\"%s\"}", key, key);
	assert_true(audit_hide_keys(text.p, text.len, hidden, &n));
	assert_int_equal(n, 3);
	assert_int_equal(hidden[1].to - hidden[1].from, 66);
	assert_memory_equal(text.p + hidden[2].from, key, 66);
	str_reset(&text);
	str_printf(&text, "%.63s%s", key, key);         /* the second begins in the last letters of the first */
	n = 0;
	assert_true(audit_hide_keys(text.p, text.len, hidden, &n));
	assert_int_equal(n, 2);
	assert_int_equal(hidden[0].from, 0);
	assert_int_equal(hidden[1].from, hidden[0].to);
	assert_int_equal(hidden[1].to, text.len);
	hidden[0] = (struct audit_hidden){ text.len - 9, text.len, true };      /* and a value that lies behind */
	n = 1;
	assert_true(audit_hide_keys(text.p, text.len, hidden, &n));
	assert_int_equal(n, 3);
	for (size_t i = 0; i + 1 < n; i++)
		assert_true(hidden[i].to == hidden[i + 1].from);
	str_reset(&text);
	for (int i = 0; i < AUDIT_HIDDEN_MAX; i++)
		str_printf(&text, "%s ", key);
	n = 0;
	assert_true(audit_hide_keys(text.p, text.len, hidden, &n));
	assert_int_equal(n, AUDIT_HIDDEN_MAX);
	str_puts(&text, key);
	n = 0;
	assert_false(audit_hide_keys(text.p, text.len, hidden, &n));
	str_fini(&text);
}

/* AUDIT */
static void people_and_addresses_get_pseudonyms_with_a_record(void **state)
{
	struct fix *f = *state;
	struct audit_event ev = event(AUDIT_CALL_BEGIN, "prn_alice", NULL);

	ev.peer = "192.0.2.7";
	ev.client = "agent/1.0";
	append(f, &ev);
	append(f, &ev);
	ev.prn = "prn_bob";
	append(f, &ev);
	assert_int_equal(number(f, "SELECT count(*) FROM rec WHERE kind = 1104"), 4);
	assert_int_equal(number(f, "SELECT count(DISTINCT peer) FROM rec WHERE kind = 1001 AND client IS NOT NULL"), 1);
	char *name = clear_name(f, "prn_alice");
	assert_string_equal(name, CANARY "-alice");
	free(name);
	close_store(f);
	open_keys(f);
	append(f, &ev);
	assert_int_equal(number(f, "SELECT count(*) FROM rec WHERE kind = 1104"), 4);
	assert_int_equal(number(f, "SELECT count(*) FROM dict WHERE text LIKE '%192.0.2%' OR text LIKE '%agent%' OR text LIKE '%-alice%'"), 0);
}

/* limit and limit + 1 of what is found by its value; equal ends, other kinds and other logs are not it */
static void values_that_look_alike_have_pseudonyms_of_their_own(void **state)
{
	struct fix *f = *state;
	struct audit_event ev = event(AUDIT_CALL_BEGIN, "prn_alice", NULL);
	char value[AUDIT_NEAR_VALUE_MAX + 2];

	memset(value, 'a', sizeof(value));
	for (int turn = 0; turn < 3; turn++)
		for (size_t len = AUDIT_NEAR_VALUE_MAX; len <= AUDIT_NEAR_VALUE_MAX + 1; len++)
			for (int c = 0; c < 3; c++) {
				*value = (char)('a' + c);
				value[len] = '\0';
				ev.peer = ev.client = value;
				append(f, &ev);
				value[len] = 'a';
			}
	assert_int_equal(number(f, "SELECT count(*) FROM rec WHERE kind = 1104"), 1 + 2 * 6);
	assert_int_equal(number(f, "SELECT count(DISTINCT peer) FROM rec WHERE kind = 1001"), 6);
	assert_int_equal(number(f, "SELECT count(DISTINCT client) FROM rec WHERE kind = 1001"), 6);
	assert_int_equal(number(f, "SELECT count(*) FROM (SELECT count(*) AS n FROM rec WHERE kind = 1001 GROUP BY peer, client "
				"HAVING n = 3)"), 6);
}

static void pseudonyms_undone_are_made_again(void **state)
{
	struct fix *f = *state;
	struct audit_event ev = event(AUDIT_CALL_BEGIN, "prn_alice", NULL);
	struct audit_mark mark;

	ev.peer = "192.0.2.7";
	begin(f);
	mark = audit_logs_mark(f->logs);
	OK(try_append(f, &ev));
	(void)db_txn_end(f->db, ERR_CANCELLED, NULL);
	audit_logs_rollback(f->logs, mark);
	append(f, &ev);
	assert_int_equal(number(f, "SELECT count(*) FROM alias"), 2);
	assert_int_equal(look(f, number(f, "SELECT idx FROM rec WHERE kind = 1104")).v[0].opening, true);
}

/* AUDIT A-633: limit and limit + 1 */
static void new_addresses_are_bounded_by_the_day(void **state)
{
	struct fix *f = *state;
	struct audit_event ev = event(AUDIT_AUTH_FAIL, NULL, NULL);
	char peer[32];

	begin(f);
	for (int i = 0; i < AUDIT_ALIASES_PER_DAY + 3; i++) {
		snprintf(peer, sizeof peer, "10.0.%d.%d", i / 250, i % 250);
		ev.peer = peer;
		OK(try_append(f, &ev));
	}
	commit(f);
	assert_int_equal(number(f, "SELECT count(*) FROM alias"), AUDIT_ALIASES_PER_DAY);
	assert_int_equal(number(f, "SELECT count(*) FROM rec JOIN dict ON dict.id = peer WHERE text = 'adr_other'"), 3);
	ev.time_us += UINT64_C(86400000000);
	append(f, &ev);
	assert_int_equal(number(f, "SELECT count(*) FROM alias"), AUDIT_ALIASES_PER_DAY + 1);
}

/* --- erasure */

static bool is_in_file(const char *path, const char *text, size_t len)
{
	struct str s = STR_INIT;
	struct err err;
	bool found;

	if (!path_exists(path))
		return false;
	assert_int_equal(path_read(path, 64 << 20, &s, &err), 0);
	found = s.len && memmem(s.p, s.len, text, len);
	str_fini(&s);
	return found;
}

/* The salts, which stand in the clear, are what can be looked for. */
static void salt_of(struct fix *f, int64_t idx, uint8_t ret[16])
{
	sqlite3_stmt *st = NULL;
	sqlite3 *db;

	assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	sqlite3_prepare_v2(db, "SELECT salt FROM pay JOIN rec ON id = rec WHERE log = 2 AND idx = ?", -1, &st, NULL);
	sqlite3_bind_int64(st, 1, idx);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	memcpy(ret, sqlite3_column_blob(st, 0), 16);
	sqlite3_finalize(st);
	sqlite3_close(db);
}

static bool is_anywhere(struct fix *f, const uint8_t salt[16])
{
	char wal[620];

	snprintf(wal, sizeof(wal), "%s-wal", f->path);
	return is_in_file(f->path, (const char *)salt, 16) || is_in_file(wal, (const char *)salt, 16);
}

/* AUDIT; A-623: whoever still reads what was before keeps it in the log. */
static void erased_record_is_in_no_file(void **state)
{
	struct fix *f = *state;
	sqlite3 *reader = NULL;
	uint8_t salt[16];
	bool had = false;

	append_value(f, AUDIT_REQUEST, AUDIT_C_ARGUMENTS, CANARY, strlen(CANARY), true);
	salt_of(f, f->idx, salt);
	assert_true(is_anywhere(f, salt));
	assert_int_equal(sqlite3_open(f->path, &reader), SQLITE_OK);
	assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM rec", NULL, NULL, NULL), SQLITE_OK);
	begin(f);
	OK(audit_erase_record(f->logs, f->db, ACME, f->idx, &had, &f->err));
	assert_true(had);
	OK(audit_erase_record(f->logs, f->db, ACME, f->idx, &had, &f->err));
	assert_false(had);
	commit(f);
	assert_int_equal(audit_erase_flush(f->logs, f->db, &f->err), ERR_BUSY);
	assert_true(is_anywhere(f, salt));
	assert_int_equal(sqlite3_close(reader), SQLITE_OK);
	OK(audit_erase_flush(f->logs, f->db, &f->err));
	assert_false(is_anywhere(f, salt));
	struct seen s = look(f, f->idx);
	assert_int_equal(s.n, 1);
	assert_false(s.v[0].opening);
	assert_false(s.v[0].kept);
}

static void erase_all(struct fix *f, const int64_t *ids, size_t n)
{
	int64_t cursor = 0;
	unsigned slices = 0;
	bool done = false;

	while (!done) {
		int64_t before = number(f, "SELECT count(*) FROM pay");

		begin(f);
		OK(audit_erase_slice(f->logs, f->db, ACME, ids, n, INT64_MAX, &cursor, &done, &f->err));
		commit(f);
		assert_true(before - number(f, "SELECT count(*) FROM pay") <= AUDIT_ERASE_SLICE);
		slices++;
	}
	assert_true(slices > 1);
	OK(audit_erase_flush(f->logs, f->db, &f->err));
}

static void erased_subject_takes_nobody_else_along(void **state)
{
	struct fix *f = *state;
	const struct audit_payload payload = { .level = AUDIT_REQUEST, .n = 1,
		.value = { { .ctag = AUDIT_C_ARGUMENTS, .p = CANARY, .len = strlen(CANARY), .keep = true } } };
	struct audit_event ev = event(AUDIT_CALL_BEGIN, "prn_alice", &payload);
	int64_t *ids = NULL, last;
	size_t n = 0;

	ev.peer = "192.0.2.7";
	begin(f);
	for (int i = 0; i < 2 * AUDIT_ERASE_SLICE; i++)
		OK(try_append(f, &ev));
	commit(f);
	last = f->idx;
	ev.prn = "prn_bob";
	ev.peer = "192.0.2.8";
	append(f, &ev);
	OK(audit_erase_keys(f->logs, ACME, "prn_alice", &ids, &n, &f->err));
	assert_int_equal(n, 1);
	OK(audit_erase_destroy(f->logs, ids, n, &f->err));
	struct seen s = look(f, last);
	assert_false(s.v[0].opening);
	erase_all(f, ids, n);
	free(ids);
	assert_null(clear_name(f, "prn_alice"));
	char *name = clear_name(f, "prn_bob");
	assert_string_equal(name, "bob");
	free(name);
	s = look(f, f->idx);
	assert_string_equal(s.v[0].text, CANARY);
	assert_int_equal(number(f, "SELECT count(*) FROM alias"), 2);
	assert_int_equal(number(f, "SELECT count(*) FROM pay"), 3);
}

static void erased_tenant_goes_as_a_whole(void **state)
{
	struct fix *f = *state;

	for (int i = 0; i < AUDIT_ERASE_SLICE + 1; i++)
		append_value(f, AUDIT_REQUEST, AUDIT_C_ARGUMENTS, CANARY, strlen(CANARY), true);
	OK(audit_erase_destroy_tenant(f->logs, ACME, &f->err));
	assert_false(look(f, f->idx).v[0].opening);
	erase_all(f, NULL, 0);
	assert_int_equal(number(f, "SELECT (SELECT count(*) FROM pay) + (SELECT count(*) FROM alias)"), 0);
	append_value(f, AUDIT_REQUEST, AUDIT_C_ARGUMENTS, CANARY, strlen(CANARY), true);
	assert_true(look(f, f->idx).v[0].kept);
}

static void value_that_was_changed_does_not_open(void **state)
{
	struct fix *f = *state;
	struct keys *keys = NULL;
	struct seen s = { 0 };

	append_value(f, AUDIT_REQUEST, AUDIT_C_ARGUMENTS, "one", 3, true);
	close_store(f);
	raw(f, "UPDATE pay SET ct = zeroblob(length(ct)) WHERE ct IS NOT NULL");
	open_keys(f);
	OK(keys_open_reader(&place, &keys, &f->err));
	assert_int_equal(audit_open_record(f->db, keys, ACME, f->idx, on_opened, &s, &f->err), ERR_CORRUPT);
	keys_close(&keys);
}

/* Decision 0173: however many there are, and however large, with records of pseudonyms between them. */
static void rows_that_wait_are_what_rows_one_by_one_are(void **state)
{
	enum { ROWS = 140, LARGE = 60000 };
	struct fix *f = *state;
	char *large = mem_alloc(LARGE), peer[16];
	int64_t at[ROWS];

	memset(large, 'x', LARGE);
	begin(f);
	for (int i = 0; i < ROWS; i++) {
		const bool is_large = i > 20 && i < 26;
		const struct audit_payload payload = { .level = AUDIT_REQUEST, .n = i % 5 > 0,
			.value = { { .ctag = AUDIT_C_ARGUMENTS, .p = large, .len = is_large ? LARGE : (size_t)i, .keep = i % 5 > 1 } } };
		struct audit_event ev = event(AUDIT_CALL_END, "prn_alice", &payload);

		ev.peer = i % 7 == 0 ? peer : NULL;
		(void)snprintf(peer, sizeof(peer), "192.0.2.%d", i);
		audit_logs_gather(f->logs, true);
		OK(try_append(f, &ev));
		audit_logs_gather(f->logs, false);
		at[i] = f->idx;
	}
	OK(audit_logs_insert(f->logs, f->db, &f->err));
	OK(audit_logs_flush_rows(f->logs, f->db, &f->err));
	OK(db_txn_end(f->db, 0, &f->err));      /* without heads, so that a start reads what is stored, with its leaves */
	audit_logs_commit(f->logs);
	close_store(f);
	open_keys(f);
	append_value(f, AUDIT_METADATA, AUDIT_C_RESULT, "x", 1, false);
	assert_int_equal(number(f, "SELECT count(*) FROM rec WHERE log = 2 AND idx < (SELECT size FROM head WHERE log = 2)"), f->idx + 1);
	for (int i = 0; i < ROWS; i++) {
		struct seen s = look(f, at[i]);

		assert_int_equal(s.n, i % 5 > 0);
		if (s.n > 0)
			assert_int_equal(s.v[0].len, i % 5 <= 1 ? 0 : i > 20 && i < 26 ? LARGE : i);
	}
	free(large);
}

SINGLE_THREAD_SUITE(payload)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fix_free)
	const struct CMUnitTest tests[] = {
		T(metadata_commits_and_keeps_nothing), T(kept_value_is_encrypted_and_opens),
		T(longer_value_is_cut_and_committed_twice), T(hidden_pieces_become_tokens_that_can_be_joined),
		cmocka_unit_test(keys_of_ours_are_hidden_by_their_shape), T(people_and_addresses_get_pseudonyms_with_a_record),
		T(values_that_look_alike_have_pseudonyms_of_their_own),
		T(pseudonyms_undone_are_made_again), T(new_addresses_are_bounded_by_the_day), T(erased_record_is_in_no_file),
		T(erased_subject_takes_nobody_else_along), T(erased_tenant_goes_as_a_whole),
		T(rows_that_wait_are_what_rows_one_by_one_are), T(value_that_was_changed_does_not_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
