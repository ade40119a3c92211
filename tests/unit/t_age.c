/* Files of age: those that age 1.1.1 has written, our own, and all that is none.  The keys of the vectors are 32 bytes of
 * 0x42, as in age's own tests. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "age/age.h"
#include "base/mem.h"
#include "base/path.h"

#include "suite.h"
#include "tmpdir.h"

#define IDENTITY "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"
#define RECIPIENT "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"

/* "hello toolcrib\n", nothing, and "ssh too\n", which is also for a key of ssh. */
static const char hello[] =
	"YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBab09JMGhkaW5BRG43cEtiTHlsN3QvOXRNR2tnNk1TR2JHbVVYb1Nv"
	"RmlvClhDYlJiV0grNzhJemFVN1ZPS3pnTk1kUmNmVDJBeWtsZXNqY3RJQTZmRkEKLS0tIEVlbjFyNWd5OGRoSHNSc056Q3FU"
	"V2FEc1pneXVyYWMrZHRibTEzbWhvbzgKwFyW+dIPWuPVYN4zYd7tbX8FzG741vfNmsu9kPJGT9X9jHfxT5I+wNexHYh35Qw=";
static const char nothing[] =
	"YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSB4T0dQVlRQTk0yamlqdzJUcEFpRHdoMFZoT0pUVUhCZGVlYkE4Wng0"
	"OTJBCjJMcGpwMytZaklIQk9qYXI5V2dRZFRHQmprc0YwaWtiRHpCaHplOUlRYVkKLS0tICtENDJRQndoZ2gzbmo5U0ZRditm"
	"TEowK05SSUJ1VUc1d3NLbDZ1QlhEbUEKvNHoFGkiS8NHesk0hBo79b8lqchStsNAqYmYpEDeQ2k=";
static const char with_ssh[] =
	"YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBSL25GV1VPMEFzc0x2TWl1UE44bjBURFZCQVd6U2hES1VaS01rQThj"
	"M2k0ClhaZUhvR0MrQTFNVENmaHdJZG5qZyswWVU4TE4wSXdjM3FVSzBYb1RqamcKLT4gc3NoLWVkMjU1MTkgZ0FBbitBIGxi"
	"UXpGekJLbmdqTVprY05NTGxvdTh1aXVFR09aejh3UUIrbEs4Nzg1WEkKZC93L3JCSm9wM0c4dis5RG5QWGQ0ejM1NkJsem85"
	"bmFVd3I1UkxoWERJSQotLS0gZHp6NDFEcHFxU1R0eitKK29DbWtGSGZsand4dTRzZ2pNZGVvRVRLT2R3RQpUhhgNxoWgmxXM"
	"6ueflnXrN8PfPXgkVzftjFrvYVksMjm93t2XLVjQ";

static struct age_identity identity_of(const char *text)
{
	struct age_identity id;
	struct err err;

	assert_int_equal(age_identity_parse(text, strlen(text), &id, &err), 0);
	return id;
}

static struct age_recipient recipient_of(uint8_t seed)
{
	struct age_identity id;
	struct age_recipient to;

	memset(id.secret, seed, sizeof id.secret);
	age_recipient_of(&id, &to);
	return to;
}

static int put(void *arg, const void *p, size_t n, struct err *err)
{
	str_put(arg, p, n);
	return 0;
}

/* In pieces of `step` bytes. */
static int read_back(const void *p, size_t n, size_t step, const struct age_identity *id, struct str *ret, struct err *err)
{
	struct age_reader *r = age_reader_new(id, 1, put, ret);
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < n; at += step)
		rc = age_reader_put(r, (const char *)p + at, n - at < step ? n - at : step, err);
	if (rc == 0)
		return age_reader_end(&r, err);
	age_reader_free(&r);
	return rc;
}

static void write_out(const struct age_recipient *to, size_t nto, const void *p, size_t n, size_t step, struct str *ret)
{
	struct age_writer *w = age_writer_new(to, nto, put, ret);
	struct err err;

	for (size_t at = 0; at < n; at += step)
		assert_int_equal(age_writer_put(w, (const char *)p + at, n - at < step ? n - at : step, &err), 0);
	assert_int_equal(age_writer_end(&w, &err), 0);
}

static void keys_are_text_and_back(void **state)
{
	static const char *const bad[] = {
		"", "age1", "AGE1ZVKYG2LQZRAA2LNJVQEJ32NKUU0UES2S82HZRYE869XEEXVN73EQUNUJWJ", RECIPIENT "q",
		"age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwk",
		"agf1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj",
		"age1bvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj", IDENTITY,
	};
	struct age_identity id = identity_of(IDENTITY);
	struct age_recipient of, to;
	char text[AGE_RECIPIENT_SIZE];
	struct err err;

	for (size_t i = 0; i < sizeof id.secret; i++)
		assert_int_equal(id.secret[i], 0x42);
	age_recipient_of(&id, &of);
	age_recipient_print(&of, text);
	assert_string_equal(text, RECIPIENT);
	assert_int_equal(age_recipient_parse(RECIPIENT, &to, &err), 0);
	assert_memory_equal(to.point, of.point, sizeof to.point);
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(age_recipient_parse(bad[i], &to, &err), ERR_INVALID);
	for (uint8_t i = 0; i < 2; i++) {       /* points whose secrets are all alike, 0 and 1 */
		age_recipient_print(&(struct age_recipient){ { i } }, text);
		assert_int_equal(age_recipient_parse(text, &to, &err), ERR_INVALID);
	}
	assert_int_equal(age_identity_parse(RECIPIENT, strlen(RECIPIENT), &id, &err), ERR_INVALID);
}

/* RFC 5869, A.1 and A.3, as far as one block goes. */
static void primitives_are_those_of_the_rfcs(void **state)
{
	static const char *const hex[] = {
		"3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf",
		"8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d",
	};
	static const uint8_t zeros[CURVE_SIZE];
	uint8_t key[CURVE_SIZE], salt[13], got[DIGEST_SIZE], want[DIGEST_SIZE];

	memset(key, 0x0b, 22);
	for (uint8_t i = 0; i < sizeof salt; i++)
		salt[i] = i;
	digest_hkdf(salt, sizeof salt, key, 22, "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9", got);
	assert_int_equal(text_unhex(hex[0], 64, want, sizeof want), 0);
	assert_memory_equal(got, want, sizeof want);
	digest_hkdf("", 0, key, 22, "", got);
	assert_int_equal(text_unhex(hex[1], 64, want, sizeof want), 0);
	assert_memory_equal(got, want, sizeof want);
	assert_int_equal(curve_share(key, zeros, got), ERR_INVALID);    /* it shares the same with all */
}

static void what_age_has_written_is_read(void **state)
{
	static const struct { const char *base64, *text; } files[] = {
		{ hello, "hello toolcrib\n" }, { nothing, "" }, { with_ssh, "ssh too\n" } };
	struct age_identity id = identity_of(IDENTITY), other = id;
	struct err err;

	other.secret[7] ^= 1;
	for (size_t i = 0; i < NELEMS(files); i++) {
		uint8_t file[1024];
		size_t n = 0;
		struct str text = STR_INIT;

		assert_int_equal(text_unbase64(files[i].base64, strlen(files[i].base64), file, sizeof file, &n), 0);
		for (size_t step = 1; step <= n; step = step * 3 + 1) {
			str_reset(&text);
			assert_int_equal(read_back(file, n, step, &id, &text, &err), 0);
			assert_string_equal(str_text(&text), files[i].text);
		}
		assert_int_equal(read_back(file, n, n, &other, &text, &err), ERR_DENIED);
		str_fini(&text);
	}
}

static void what_we_write_is_read_at_each_bound(void **state)
{
	static const size_t sizes[] = { 0, 1, AGE_CHUNK - 1, AGE_CHUNK, AGE_CHUNK + 1, 2 * AGE_CHUNK, 2 * AGE_CHUNK + 1 };
	struct age_identity id = identity_of(IDENTITY);
	struct age_recipient to[AGE_RECIPIENTS_MAX];
	char *plain = mem_alloc(2 * AGE_CHUNK + 1);
	struct err err;

	for (size_t i = 0; i < NELEMS(to); i++)
		to[i] = recipient_of((uint8_t)(0x42 + NELEMS(to) - 1 - i));
	for (size_t i = 0; i < 2 * AGE_CHUNK + 1; i++)
		plain[i] = (char)(i * 7 + i / 251);
	for (size_t i = 0; i < NELEMS(sizes); i++) {
		struct str file = STR_INIT, again = STR_INIT;

		write_out(to, NELEMS(to), plain, sizes[i], 40000, &file);
		assert_int_equal(read_back(file.p, file.len, 50001, &id, &again, &err), 0);
		assert_int_equal(again.len, sizes[i]);
		if (sizes[i] > 0)
			assert_memory_equal(again.p, plain, sizes[i]);
		str_fini(&file);
		str_fini(&again);
	}
	free(plain);
}

/* Also a chunk less at the end, two that changed places, and one more behind. */
static void what_was_changed_is_not_read(void **state)
{
	enum { N = 3 * AGE_CHUNK };
	struct age_identity id = identity_of(IDENTITY);
	struct age_recipient to = recipient_of(0x42);
	char *plain = mem_zalloc(N);
	struct str file = STR_INIT, none = STR_INIT;
	const size_t sealed = AGE_CHUNK + AEAD_TAG;
	struct err err;
	size_t head;
	char *swap;

	write_out(&to, 1, plain, 40, 40, &file);
	for (size_t bit = 0; bit < file.len * 8; bit++) {
		int rc;

		file.p[bit / 8] ^= (char)(1 << bit % 8);
		str_reset(&none);
		rc = read_back(file.p, file.len, file.len, &id, &none, &err);
		assert_true(rc == ERR_CORRUPT || rc == ERR_DENIED);
		file.p[bit / 8] ^= (char)(1 << bit % 8);
	}
	for (size_t n = 0; n < file.len; n++)
		assert_int_equal(read_back(file.p, n, file.len, &id, &none, &err), ERR_CORRUPT);
	str_reset(&file);
	write_out(&to, 1, plain, N, N, &file);
	head = file.len - 3 * sealed;
	assert_int_equal(read_back(file.p, file.len - sealed, file.len, &id, &none, &err), ERR_CORRUPT);
	swap = mem_dup(file.p, file.len);
	memcpy(swap + head, file.p + head + sealed, sealed);
	memcpy(swap + head + sealed, file.p + head, sealed);
	assert_int_equal(read_back(swap, file.len, file.len, &id, &none, &err), ERR_CORRUPT);
	free(swap);
	str_put(&file, plain, sealed);
	assert_int_equal(read_back(file.p, file.len, file.len, &id, &none, &err), ERR_CORRUPT);
	str_fini(&file);
	str_fini(&none);
	free(plain);
}

#define V "age-encryption.org/v1\n"
#define KEY "ZoOI0hdinADn7pKbLyl7t/9tMGkg6MSGbGmUXoSoFio"
#define X "-> X25519 " KEY "\n" KEY "\n"
#define M "--- " KEY "\n"

static void what_is_no_header_is_refused(void **state)
{
	static const char *const bad[] = {
		"age-encryption.org/v2\n" X M, "x", V M, V "->\n\n" M, V "-> \n\n" M, V "-> a  b\n\n" M, V "-> a \n\n" M,
		V "-> a\n=\n" M, V "-> a\nA\n" M, V "-> X25519 \n" KEY "\n" M, V "-> X25519 " KEY " more\n" KEY "\n" M,
		V "-> X25519 " KEY "\n\n" M, V "-> X25519 " KEY "\n" KEY KEY "\n" M,
		V "-> X25519 ZoOI0hdinADn7pKbLyl7t/9tMGkg6MSGbGmUXoSoFip\n" KEY "\n" M, V X "---\n", V X "--- \n",
		V X "--- " KEY "=\n", V X "---" KEY "\n", V X "more\n" M,
	};
	struct age_header h;
	struct err err;

	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(age_header_parse(bad[i], strlen(bad[i]), &h, &err), ERR_CORRUPT);
	for (size_t n = 0; n < strlen(V X M); n++)
		assert_int_equal(age_header_parse(V X M, n, &h, &err), 0);
	assert_int_equal(age_header_parse(V X M, strlen(V X M), &h, &err), 1);
	assert_int_equal(h.n, 1);
}

static void a_header_has_at_most_so_many_stanzas_and_bytes(void **state)
{
	struct str text = STR_INIT;
	struct age_header h;
	struct err err;

	for (size_t n = AGE_STANZAS_MAX; n <= AGE_STANZAS_MAX + 1; n++) {
		str_reset(&text);
		str_puts(&text, V);
		for (size_t i = 0; i < n; i++)
			str_puts(&text, i % 2 ? X : "-> other kind\n\n");
		str_puts(&text, M);
		assert_int_equal(age_header_parse(text.p, text.len, &h, &err), n == AGE_STANZAS_MAX ? 1 : ERR_LIMIT);
	}
	for (size_t more = 0; more <= 1; more++) {
		str_reset(&text);
		str_puts(&text, V "-> a ");
		while (text.len < AGE_HEADER_MAX - strlen("\n\n" M) + more)
			str_putc(&text, 'x');
		str_puts(&text, "\n\n" M);
		assert_int_equal(age_header_parse(text.p, text.len, &h, &err), more ? ERR_LIMIT : 1);
	}
	str_fini(&text);
}

static void identities_are_read_from_a_file(void **state)
{
	struct age_identity ids[AGE_IDENTITIES_MAX];
	char *dir = tmpdir_make(), path[600];
	struct str text = STR_INIT;
	struct err err;
	size_t n = 0;

	tmpdir_path(dir, "id", path, sizeof path);
	assert_int_equal(path_create(path, 0600, "# made\n\n" IDENTITY "\r\n", strlen("# made\n\n" IDENTITY "\r\n"), &err), 0);
	assert_int_equal(age_identities_read(path, ids, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_int_equal(path_replace(path, 0600, "# none\n", 7, &err), 0);
	assert_int_equal(age_identities_read(path, ids, &n, &err), ERR_INVALID);
	assert_int_equal(path_replace(path, 0600, IDENTITY "x", strlen(IDENTITY "x"), &err), 0);
	assert_int_equal(age_identities_read(path, ids, &n, &err), ERR_INVALID);
	assert_null(strstr(err.msg, "GFPYY"));
	for (size_t more = 0; more <= 1; more++) {
		str_reset(&text);
		for (size_t i = 0; i < AGE_IDENTITIES_MAX + more; i++)
			str_puts(&text, IDENTITY "\n");
		assert_int_equal(path_replace(path, 0600, text.p, text.len, &err), 0);
		assert_int_equal(age_identities_read(path, ids, &n, &err), more ? ERR_LIMIT : 0);
	}
	str_fini(&text);
	tmpdir_remove(dir);
}

static int init(void **state)
{
	return secret_init();
}

SINGLE_THREAD_SUITE(age)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_text_and_back),
		cmocka_unit_test(primitives_are_those_of_the_rfcs),
		cmocka_unit_test(what_age_has_written_is_read),
		cmocka_unit_test(what_we_write_is_read_at_each_bound),
		cmocka_unit_test(what_was_changed_is_not_read),
		cmocka_unit_test(what_is_no_header_is_refused),
		cmocka_unit_test(a_header_has_at_most_so_many_stanzas_and_bytes),
		cmocka_unit_test(identities_are_read_from_a_file),
	};

	return cmocka_run_group_tests(tests, init, NULL);
}
