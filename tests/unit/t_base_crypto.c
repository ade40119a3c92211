/* Digests, locked memory, derived keys and sealed text. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/crypto.h"
#include "base/err.h"
#include "base/text.h"
#include "suite.h"

static void check_hex(const uint8_t digest[DIGEST_SIZE], const char *want)
{
	char text[2 * DIGEST_SIZE + 1];

	text_hex(digest, DIGEST_SIZE, text);
	assert_string_equal(text, want);
}

static void sha256_matches_fips_180_4(void **state)
{
	uint8_t out[DIGEST_SIZE];
	struct digest *d = digest_new();

	digest_sha256("", 0, out);
	check_hex(out, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	digest_sha256("abc", 3, out);
	check_hex(out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	digest_put(d, "a", 1);
	digest_put(d, "", 0);
	digest_put(d, "bc", 2);
	digest_end(&d, out);
	assert_null(d);
	check_hex(out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	digest_sha256_parts((const struct digest_part[]){ { "a", 1 }, { "", 0 }, { "bc", 2 } }, 3, out);
	check_hex(out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	digest_sha256_parts(NULL, 0, out);
	check_hex(out, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/* RFC 4231, 4.2 to 4.4: a shorter key is one with zeros behind it.  Between hashes of the same thread, one of them open. */
static void hmac_matches_rfc_4231(void **state)
{
	struct digest *open = digest_new();
	uint8_t key[32], data[50], out[DIGEST_SIZE];

	digest_put(open, "ab", 2);
	for (int i = 0; i < 2; i++) {
		memset(key, 0, sizeof(key));
		memset(key, 0x0b, 20);
		digest_hmac(key, &(struct digest_part){ "Hi There", 8 }, 1, out);
		check_hex(out, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
		digest_sha256("abc", 3, out);
		check_hex(out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
		memset(key, 0, sizeof(key));
		memcpy(key, "Jefe", 4);
		digest_hmac(key, (const struct digest_part[]){ { "what do ya want ", 16 }, { "for nothing?", 12 } }, 2, out);
		check_hex(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	}
	memset(key, 0, sizeof(key));
	memset(key, 0xaa, 20);
	memset(data, 0xdd, sizeof(data));
	digest_hmac(key, &(struct digest_part){ data, sizeof(data) }, 1, out);
	check_hex(out, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
	digest_put(open, "c", 1);
	digest_end(&open, out);
	check_hex(out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* The vectors of the paper (Aumasson, Bernstein: SipHash, appendix A). */
static void short_digest_is_siphash_2_4(void **state)
{
	uint8_t key[DIGEST_SHORT_KEY], text[15];

	for (uint8_t i = 0; i < sizeof key; i++)
		key[i] = i;
	memcpy(text, key, sizeof text);
	assert_true(digest_short(key, text, sizeof text) == UINT64_C(0xa129ca6149be45e5));
	assert_true(digest_short(key, text, 0) == UINT64_C(0x726fdb47dd0e0e31));
}

static void keyed_digest_depends_on_key_and_prefix(void **state)
{
	uint8_t key[32] = { 1 }, a[DIGEST_SIZE], b[DIGEST_SIZE];

	digest_keyed(key, "p", 1, "data", 4, a);
	digest_keyed(key, "p", 1, "data", 4, b);
	assert_memory_equal(a, b, DIGEST_SIZE);
	digest_keyed(key, "q", 1, "data", 4, b);
	assert_memory_not_equal(a, b, DIGEST_SIZE);
	key[0] = 2;
	digest_keyed(key, "p", 1, "data", 4, b);
	assert_memory_not_equal(a, b, DIGEST_SIZE);
}

static void crc32_matches_the_check_value(void **state)
{
	assert_int_equal(digest_crc32("123456789", 9), 0xcbf43926);
	assert_int_equal(digest_crc32("", 0), 0);
}

static void start_up_forbids_cores(void **state)
{
	struct rlimit limit;

	assert_int_equal(secret_init(), 0);
	assert_int_equal(getrlimit(RLIMIT_CORE, &limit), 0);
	assert_int_equal(limit.rlim_cur, 0);
	assert_int_equal(limit.rlim_max, 0);
}

static void secrets_are_zeroed_aligned_and_comparable(void **state)
{
	static const uint8_t zero[100];

	for (size_t n = 0; n <= 100; n++) {
		uint8_t *p = secret_alloc(n);

		assert_int_equal((uintptr_t)p % 16, 0);
		assert_true(secret_equal(p, zero, n));
		memset(p, 1, n);
		assert_int_equal(secret_equal(p, zero, n), n == 0);
		secret_wipe(p, n);
		assert_true(secret_equal(p, zero, n));
		secret_free(p);
	}
	secret_free(NULL);
}

static void derived_keys_differ_by_purpose_and_master(void **state)
{
	uint8_t master[SECRET_KEY_SIZE] = { 0 }, a[SECRET_KEY_SIZE], b[SECRET_KEY_SIZE];

	secret_derive(master, "pepper", a);
	secret_derive(master, "pepper", b);
	assert_memory_equal(a, b, sizeof a);
	secret_derive(master, "seal", b);
	assert_memory_not_equal(a, b, sizeof a);
	master[31] = 1;
	secret_derive(master, "pepper", b);
	assert_memory_not_equal(a, b, sizeof a);
}

struct fixture {
	struct seal *seal;
	struct str text, opened;
};

static int seal_setup(void **state)
{
	static const uint8_t master[32] = { 7 };
	static struct fixture f;

	f = (struct fixture){ seal_new(master, "cursor"), STR_INIT, STR_INIT };
	seal_make(f.seal, "acme\0ann", 8, "page 2", 6, &f.text);
	*state = &f;
	return 0;
}

static int seal_teardown(void **state)
{
	struct fixture *f = *state;

	seal_free(&f->seal);
	str_fini(&f->text);
	str_fini(&f->opened);
	return 0;
}

static void sealed_text_comes_back(void **state)
{
	struct fixture *f = *state;

	assert_memory_equal(f->text.p, "v1.cGFnZSAy.", 12);
	assert_int_equal(f->text.len, 12 + 43);
	assert_int_equal(seal_open(f->seal, "acme\0ann", 8, f->text.p, f->text.len, &f->opened), 0);
	assert_string_equal(f->opened.p, "page 2");
}

static void seal_of_nothing_comes_back(void **state)
{
	struct fixture *f = *state;

	str_reset(&f->text);
	seal_make(f->seal, NULL, 0, NULL, 0, &f->text);
	assert_int_equal(f->text.len, 4 + 43);
	assert_int_equal(seal_open(f->seal, NULL, 0, f->text.p, f->text.len, &f->opened), 0);
	assert_int_equal(f->opened.len, 0);
}

/* SEC S-122: one answer for every kind of damage. */
static void any_changed_byte_breaks_the_seal(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < f->text.len; i++) {
		f->text.p[i] ^= 1;
		assert_int_equal(seal_open(f->seal, "acme\0ann", 8, f->text.p, f->text.len, &f->opened), ERR_INVALID);
		f->text.p[i] ^= 1;
	}
	for (size_t n = 0; n < f->text.len; n++)
		assert_int_equal(seal_open(f->seal, "acme\0ann", 8, f->text.p, n, &f->opened), ERR_INVALID);
	assert_int_equal(f->opened.len, 0);
}

static void seal_binds_context_and_purpose(void **state)
{
	static const uint8_t master[32] = { 7 }, other_master[32] = { 8 };
	struct fixture *f = *state;
	struct seal *other = seal_new(master, "state"), *foreign = seal_new(other_master, "cursor");
	struct str moved = STR_INIT;

	assert_int_equal(seal_open(f->seal, "acme\0bob", 8, f->text.p, f->text.len, &f->opened), ERR_INVALID);
	assert_int_equal(seal_open(f->seal, "acme", 4, f->text.p, f->text.len, &f->opened), ERR_INVALID);
	assert_int_equal(seal_open(other, "acme\0ann", 8, f->text.p, f->text.len, &f->opened), ERR_INVALID);
	assert_int_equal(seal_open(foreign, "acme\0ann", 8, f->text.p, f->text.len, &f->opened), ERR_INVALID);
	/* The tag of ("ab", "c") must not fit ("a", "bc"). */
	str_reset(&f->text);
	seal_make(f->seal, "ab", 2, "c", 1, &f->text);
	str_puts(&moved, "v1.YmM");
	str_puts(&moved, strrchr(f->text.p, '.'));
	assert_int_equal(seal_open(f->seal, "a", 1, moved.p, moved.len, &f->opened), ERR_INVALID);
	str_fini(&moved);
	seal_free(&other);
	seal_free(&foreign);
}

SINGLE_THREAD_SUITE(crypto)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(start_up_forbids_cores),
		cmocka_unit_test(sha256_matches_fips_180_4),
		cmocka_unit_test(hmac_matches_rfc_4231),
		cmocka_unit_test(short_digest_is_siphash_2_4),
		cmocka_unit_test(keyed_digest_depends_on_key_and_prefix),
		cmocka_unit_test(crc32_matches_the_check_value),
		cmocka_unit_test(secrets_are_zeroed_aligned_and_comparable),
		cmocka_unit_test(derived_keys_differ_by_purpose_and_master),
		cmocka_unit_test_setup_teardown(sealed_text_comes_back, seal_setup, seal_teardown),
		cmocka_unit_test_setup_teardown(seal_of_nothing_comes_back, seal_setup, seal_teardown),
		cmocka_unit_test_setup_teardown(any_changed_byte_breaks_the_seal, seal_setup, seal_teardown),
		cmocka_unit_test_setup_teardown(seal_binds_context_and_purpose, seal_setup, seal_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
