/* Commitments by the vectors of the format, and payloads that open in one place only (AUDIT 5). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "keys/commit.h"
#include "base/crypto.h"
#include "base/text.h"
#include "suite.h"

static const char origin[] = "toolcrib.example/t/acme", args[] = "{\"path\":\"notes/a.txt\"}";
static const struct audit_at at0 = { origin, sizeof origin - 1, 0 };
static uint8_t dek[32], salt[AUDIT_SALT_SIZE];

static int set_up(void **state)
{
	for (uint8_t i = 0; i < 32; i++)
		dek[i] = i;
	memcpy(salt, dek, sizeof salt);
	return secret_init();
}

static void is_hex(const void *p, size_t n, const char *want)
{
	char text[65];

	text_hex(p, n, text);
	assert_string_equal(text, want);
}

/* AUDIT V0, V1 */
static void commit_reproduces_the_vectors(void **state)
{
	uint8_t r[32], c[32];

	audit_opening(dek, salt, &at0, AUDIT_C_ARGUMENTS, r);
	is_hex(r, 32, "4462d69288bc77d23dc34ec835ff79df77a7b90fe7ff5db76debdbe56f221dd4");
	audit_commitment(r, AUDIT_C_ARGUMENTS, args, strlen(args), c);
	is_hex(c, 32, "0f9d7aa30611b60f6c989047cc8a48b08097b39ed16305648ea0582110dbd851");
	audit_payload_key(dek, c);
	is_hex(c, 32, "9cbf0020e9eff6c7aabd3df793dbfd9deff1ae5a4c664325dc35698ebf73a693");
	audit_salt_check(salt, c);
	is_hex(c, 16, "5a863ab79612555141ef552583343eaa");
}

static void expect_other(const uint8_t d[32], const uint8_t s[16], const struct audit_at *at, unsigned ctag)
{
	uint8_t r[32], other[32];

	audit_opening(dek, salt, &at0, AUDIT_C_ARGUMENTS, r);
	audit_opening(d, s, at, ctag, other);
	assert_memory_not_equal(r, other, 32);
}

/* AUDIT V9, A-516 */
static void opening_is_lost_with_key_or_salt_and_bound_to_its_place(void **state)
{
	static const uint8_t zero[32];
	struct audit_at at = at0;

	expect_other(zero, salt, &at, AUDIT_C_ARGUMENTS);
	expect_other(dek, zero, &at, AUDIT_C_ARGUMENTS);
	expect_other(dek, salt, &at, AUDIT_C_RESULT);
	at.idx = 1;
	expect_other(dek, salt, &at, AUDIT_C_ARGUMENTS);
	at = (struct audit_at){ "toolcrib.example/t/acmf", sizeof origin - 1, 0 };
	expect_other(dek, salt, &at, AUDIT_C_ARGUMENTS);
}

static void payload_opens_in_its_place_only(void **state)
{
	static const uint8_t values[] = { 0, 1, 0, 0, 0, 2, '{', '}' };
	uint8_t nonce[24], ct[sizeof values + 16], back[sizeof values];
	struct audit_at other = at0;

	audit_payload_seal(dek, 3, salt, &at0, values, sizeof values, nonce, ct);
	assert_int_equal(audit_payload_open(dek, 3, salt, &at0, nonce, ct, sizeof ct, back), 0);
	assert_memory_equal(back, values, sizeof values);
	other.idx = 1;
	assert_int_equal(audit_payload_open(dek, 3, salt, &other, nonce, ct, sizeof ct, back), ERR_CORRUPT);
	assert_int_equal(audit_payload_open(dek, 4, salt, &at0, nonce, ct, sizeof ct, back), ERR_CORRUPT);
	assert_int_equal(audit_payload_open(dek, 3, dek + 1, &at0, nonce, ct, sizeof ct, back), ERR_CORRUPT);
	assert_int_equal(audit_payload_open(dek, 3, salt, &at0, nonce, ct, 15, back), ERR_CORRUPT);
}

static void alias_opens_in_its_row_only(void **state)
{
	uint8_t nonce[24], ct[5 + 16], back[5];

	audit_pseudonym_seal(dek, 3, 1, origin, "prn_1", "alice", 5, nonce, ct);
	assert_int_equal(audit_pseudonym_open(dek, 3, 1, origin, "prn_1", nonce, ct, sizeof ct, back), 0);
	assert_memory_equal(back, "alice", 5);
	assert_int_equal(audit_pseudonym_open(dek, 3, 1, origin, "prn_2", nonce, ct, sizeof ct, back), ERR_CORRUPT);
	assert_int_equal(audit_pseudonym_open(dek, 3, 2, origin, "prn_1", nonce, ct, sizeof ct, back), ERR_CORRUPT);
}

static void cm_is_read_strictly(void **state)
{
	uint8_t cm[34 * (AUDIT_COMMITS_MAX + 1)] = { 0 };
	struct audit_cm got[AUDIT_COMMITS_MAX];
	size_t n;

	for (uint8_t i = 0; i <= AUDIT_COMMITS_MAX; i++)
		cm[34 * i + 1] = (uint8_t)(i + 1);
	assert_true(audit_cm_read(cm, 34 * AUDIT_COMMITS_MAX, got, &n));
	assert_int_equal(n, AUDIT_COMMITS_MAX);
	assert_int_equal(got[1].ctag, 2);
	assert_ptr_equal(got[1].commitment, cm + 36);
	assert_false(audit_cm_read(cm, 34 * (AUDIT_COMMITS_MAX + 1), got, &n));
	assert_false(audit_cm_read(cm, 33, got, &n));
	assert_false(audit_cm_read(cm, 0, got, &n));
	cm[35] = 1;             /* twice */
	assert_false(audit_cm_read(cm, 68, got, &n));
}

static void kept_values_are_read_strictly(void **state)
{
	static const uint8_t two[] = { 0, 1, 0, 0, 0, 1, 'a', 0, 8, 0, 0, 0, 0 };
	static const uint8_t falling[] = { 0, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 'a' };
	static const uint8_t beyond[] = { 0, 1, 0, 0, 0, 2, 'a' };
	struct audit_kept got[AUDIT_COMMITS_MAX];
	size_t n;

	assert_true(audit_kept_read(two, sizeof two, got, &n));
	assert_int_equal(n, 2);
	assert_int_equal(got[0].len, 1);
	assert_int_equal(got[1].ctag, 8);
	assert_false(audit_kept_read(two, sizeof two - 1, got, &n));
	assert_false(audit_kept_read(falling, sizeof falling, got, &n));
	assert_false(audit_kept_read(beyond, sizeof beyond, got, &n));
}

SINGLE_THREAD_SUITE(commit)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commit_reproduces_the_vectors),
		cmocka_unit_test(opening_is_lost_with_key_or_salt_and_bound_to_its_place),
		cmocka_unit_test(payload_opens_in_its_place_only), cmocka_unit_test(alias_opens_in_its_row_only),
		cmocka_unit_test(cm_is_read_strictly), cmocka_unit_test(kept_values_are_read_strictly),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
