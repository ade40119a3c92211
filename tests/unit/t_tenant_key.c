/* The text of keys (SEC S-301 to S-304), with the vectors of AUDIT V10. */

#include "config.h"

#include "tenant/tenant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/crypto.h"
#include "suite.h"

#define V10_KEY "tck_7Qm3kZp0aB1x_No287qEH4uQv9vBo5cxQTXAw02KFtzjuPbCrH1FrBEB03QqF4"
#define V10_VERIFIER "6c69893f967f84f10d0bed8a31bcb99f68f3e34dd9a58b644d3e54f4490163a2"

static struct key_pepper counting(void)
{
	struct key_pepper pepper;

	for (unsigned i = 0; i < sizeof pepper.k; i++)
		pepper.k[i] = (uint8_t)i;
	return pepper;
}

/* The text with a CRC that fits again. */
static void mend_crc(char *key)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	uint32_t crc = digest_crc32(key, KEY_TEXT_SIZE - 1 - 6);

	for (int i = KEY_TEXT_SIZE - 2; i > KEY_TEXT_SIZE - 2 - 6; i--) {
		key[i] = digits[crc % 62];
		crc /= 62;
	}
}

static void key_vector_v10_parses_and_hashes(void **state)
{
	const struct key_pepper pepper = counting();
	const char *accessor, *secret;
	uint8_t hash[32];
	char hex[65];

	assert_int_equal(key_parse(V10_KEY, strlen(V10_KEY), &accessor, &secret), 0);
	assert_memory_equal(accessor, "7Qm3kZp0aB1x", 12);
	key_hash(&pepper, secret, hash);
	text_hex(hash, sizeof hash, hex);
	assert_string_equal(hex, V10_VERIFIER);
}

/* MCP Z-06 */
static void made_key_parses_and_hashes_to_what_is_stored(void **state)
{
	const struct key_pepper pepper = counting();

	for (int i = 0; i < 200; i++) {
		struct key_new key;
		const char *accessor, *secret;
		uint8_t hash[32];

		key_make(&pepper, &key);
		assert_int_equal(strlen(key.text), KEY_TEXT_SIZE - 1);
		assert_int_equal(key_parse(key.text, strlen(key.text), &accessor, &secret), 0);
		assert_memory_equal(accessor, key.accessor, strlen(key.accessor));
		key_hash(&pepper, secret, hash);
		assert_memory_equal(hash, key.hash, sizeof hash);
	}
}

static void hash_depends_on_pepper(void **state)
{
	struct key_pepper a, b;
	const char *accessor, *secret;
	uint8_t master[32] = { 1 }, ha[32], hb[32];

	key_pepper_derive(master, &a);
	master[31] = 1;
	key_pepper_derive(master, &b);
	assert_int_equal(key_parse(V10_KEY, strlen(V10_KEY), &accessor, &secret), 0);
	key_hash(&a, secret, ha);
	key_hash(&b, secret, hb);
	assert_memory_not_equal(ha, hb, sizeof ha);
}

/* Every change of one character is found: CRC-32 finds all bursts up to 32 bits. */
static void typing_error_is_found(void **state)
{
	const char *accessor, *secret;
	char key[KEY_TEXT_SIZE];

	for (size_t i = 0; i < KEY_TEXT_SIZE - 1; i++) {
		memcpy(key, V10_KEY, sizeof key);
		key[i] = key[i] == 'x' ? 'y' : 'x';
		assert_int_equal(key_parse(key, strlen(key), &accessor, &secret), ERR_INVALID);
	}
}

static void other_shapes_are_refused(void **state)
{
	static const char *const bad[] = {
		"", "tck_", "Tck_7Qm3kZp0aB1x_No287qEH4uQv9vBo5cxQTXAw02KFtzjuPbCrH1FrBEB03QqF4", V10_KEY "0",
		"tck_7Qm3kZp0aB1x-No287qEH4uQv9vBo5cxQTXAw02KFtzjuPbCrH1FrBEB03QqF4",
		"tck_7Qm3kZp0aB1x_No287qEH4uQv9vBo5cxQTXAw02KFtzjuPbCrH1FrBEB03QqF ",
		"tck_7Qm3kZp0a\377 x_No287qEH4uQv9vBo5cxQTXAw02KFtzjuPbCrH1FrBEB03QqF4",
	};
	const char *accessor, *secret;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(key_parse(bad[i], strlen(bad[i]), &accessor, &secret), ERR_INVALID);
	for (size_t n = 0; n < strlen(V10_KEY); n++)
		assert_int_equal(key_parse(V10_KEY, n, &accessor, &secret), ERR_INVALID);
}

/* 2^256 - 1 has a text, 2^256 has none: no two texts mean one secret. */
static void secret_beyond_256_bits_is_refused(void **state)
{
	char most[] = "tck_7Qm3kZp0aB1x_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1000000";
	char more[] = "tck_7Qm3kZp0aB1x_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp2000000";
	char all[] = "tck_7Qm3kZp0aB1x_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz000000";
	const char *accessor, *secret;

	mend_crc(most);
	mend_crc(more);
	mend_crc(all);
	assert_int_equal(key_parse(most, strlen(most), &accessor, &secret), 0);
	assert_int_equal(key_parse(more, strlen(more), &accessor, &secret), ERR_INVALID);
	assert_int_equal(key_parse(all, strlen(all), &accessor, &secret), ERR_INVALID);
}

SINGLE_THREAD_SUITE(key)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_vector_v10_parses_and_hashes),
		cmocka_unit_test(made_key_parses_and_hashes_to_what_is_stored),
		cmocka_unit_test(hash_depends_on_pepper),
		cmocka_unit_test(typing_error_is_found),
		cmocka_unit_test(other_shapes_are_refused),
		cmocka_unit_test(secret_beyond_256_bits_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
