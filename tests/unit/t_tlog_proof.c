/* Proofs of inclusion as text: what is printed is taken and proves its record; anything else proves nothing. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "tlog/proof.h"
#include "suite.h"

enum { LEAVES = 300 };
static const char origin[] = "crib.example/t/acme";

static void record_of(uint64_t i, char ret[16])
{
	snprintf(ret, 16, "record %llu", (unsigned long long)i);
}

/* MTH(D[from:to]) by the definition of RFC 6962, 2.1. */
static int range(void *arg, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
{
	uint8_t left[TREE_HASH], right[TREE_HASH];
	uint64_t half = 1;
	char text[16];

	(void)arg;
	if (to - from == 1) {
		record_of(from, text);
		tree_leaf(text, strlen(text), ret);
		return 0;
	}
	while (2 * half < to - from)
		half *= 2;
	range(NULL, from, from + half, left);
	range(NULL, from + half, to, right);
	tree_node(left, right, ret);
	return 0;
}

static void key_pair(struct note_key *key, uint8_t secret[SIGN_SECRET_SIZE])
{
	uint8_t seed[SIGN_SEED_SIZE] = { 42 }, public[SIGN_PUBLIC_SIZE];

	sign_keys(seed, public, secret);
	assert_int_equal(note_key_set(key, origin, public), 0);
}

/* The text of a proof of one record in a log of LEAVES. */
static void prove(uint64_t index, const char *name, struct str *ret)
{
	uint8_t secret[SIGN_SECRET_SIZE], sig[SIGN_SIZE];
	struct checkpoint cp = { .size = LEAVES };
	struct proof p = { .index = index };
	struct str note = STR_INIT;
	struct note_key key;
	char record[16];

	key_pair(&key, secret);
	snprintf(cp.origin, sizeof cp.origin, "%s", name);
	range(NULL, 0, LEAVES, cp.root);
	checkpoint_print(&cp, &note);
	sign_make(secret, note.p, note.len, sig);
	note_add(&note, note.len, &key, sig);
	record_of(index, record);
	p.record = (uint8_t *)record;
	p.record_len = strlen(record);
	assert_int_equal(tree_prove_inclusion(index, LEAVES, range, NULL, p.hash, &p.n), 0);
	p.note = note.p;
	p.note_len = note.len;
	proof_print(&p, ret);
	str_fini(&note);
}

static int check(const char *text, size_t len, struct err *err)
{
	uint8_t secret[SIGN_SECRET_SIZE];
	struct checkpoint cp;
	struct note_key key;
	struct proof p;
	int rc = proof_parse(text, len, &p, err);

	if (rc < 0)
		return rc;
	key_pair(&key, secret);
	rc = proof_check(&p, &key, &cp, err);
	if (rc == 0)
		assert_int_equal(cp.size, LEAVES);
	proof_fini(&p);
	return rc;
}

static void each_record_is_proved(void **state)
{
	struct err err;

	for (uint64_t i = 0; i < LEAVES; i++) {
		struct str text = STR_INIT;

		prove(i, origin, &text);
		assert_int_equal(check(text.p, text.len, &err), 0);
		str_fini(&text);
	}
}

static void no_byte_can_be_changed_or_lost(void **state)
{
	struct str text = STR_INIT;
	struct err err;

	prove(77, origin, &text);
	for (size_t i = 0; i < text.len; i++) {
		char before = text.p[i];

		text.p[i] ^= 1;
		assert_true(check(text.p, text.len, &err) < 0);
		text.p[i] = before;
	}
	for (size_t len = 0; len < text.len; len++)
		assert_true(check(text.p, len, &err) < 0);
	assert_int_equal(check(text.p, text.len, &err), 0);
	str_fini(&text);
}

static void another_log_s_checkpoint_proves_nothing(void **state)
{
	struct str text = STR_INIT;
	struct err err;

	prove(5, "crib.example/t/other", &text);
	assert_int_equal(check(text.p, text.len, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "another log"));
	str_fini(&text);
}

static void what_is_wrong_is_said_with_its_line(void **state)
{
	static const struct { const char *text, *says; int rc; } bad[] = {
		{ "", "line 1", ERR_INVALID },
		{ "c2sp.org/tlog-proof@v2\n", "line 1", ERR_INVALID },
		{ "c2sp.org/tlog-proof@v1\nindex 1\n", "line 2", ERR_INVALID },
		{ "c2sp.org/tlog-proof@v1\nextra \n", "line 2", ERR_INVALID },
		{ "c2sp.org/tlog-proof@v1\nextra AA=\n", "line 2", ERR_INVALID },
		{ "c2sp.org/tlog-proof@v1\nextra AA==\nindex 01\n", "line 3", ERR_INVALID },
		{ "c2sp.org/tlog-proof@v1\nextra AA==\nindex -1\n", "line 3", ERR_INVALID },
		{ "c2sp.org/tlog-proof@v1\nextra AA==\nindex 1\nAA==\n", "line 4", ERR_INVALID },
		{ "c2sp.org/tlog-proof@v1\nextra AA==\nindex 1\n", "before its checkpoint", ERR_INVALID },
	};
	struct proof p;
	struct err err;

	for (size_t i = 0; i < NELEMS(bad); i++) {
		assert_int_equal(proof_parse(bad[i].text, strlen(bad[i].text), &p, &err), bad[i].rc);
		assert_non_null(strstr(err.msg, bad[i].says));
		assert_null(p.record);
	}
}

static void a_record_and_its_path_have_limits(void **state)
{
	struct str text = STR_INIT;
	struct proof p = { .index = 1, .n = TREE_PROOF_MAX, .note = "x", .note_len = 1 }, again;
	struct err err;

	p.record = mem_zalloc(PROOF_EXTRA_MAX + 3);
	for (p.record_len = PROOF_EXTRA_MAX - 2; p.record_len <= PROOF_EXTRA_MAX + 3; p.record_len++) {
		int rc;

		str_reset(&text);
		proof_print(&p, &text);
		rc = proof_parse(text.p, text.len, &again, &err);
		/* Three bytes are four letters: the limit is on those. */
		assert_int_equal(rc, (p.record_len + 2) / 3 * 3 <= PROOF_EXTRA_MAX ? 0 : ERR_LIMIT);
		proof_fini(&again);
	}
	p.record_len = 1;
	str_reset(&text);
	proof_print(&p, &text);
	assert_int_equal(proof_parse(text.p, text.len, &again, &err), 0);
	proof_fini(&again);
	char *hash = strstr(text.p, "index 1\n") + 8, *more;
	more = mem_printf("%.*s%.45s%s", (int)(hash - text.p), text.p, hash, hash);
	assert_int_equal(proof_parse(more, strlen(more), &again, &err), ERR_LIMIT);
	free(more);
	free(p.record);
	str_fini(&text);
}

SINGLE_THREAD_SUITE(proof)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_record_is_proved), cmocka_unit_test(no_byte_can_be_changed_or_lost),
		cmocka_unit_test(another_log_s_checkpoint_proves_nothing), cmocka_unit_test(what_is_wrong_is_said_with_its_line),
		cmocka_unit_test(a_record_and_its_path_have_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
