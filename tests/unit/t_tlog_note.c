/* Signed notes, keys as text, checkpoints: the vectors of the format, and all that is not one. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crypto.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "tlog/note.h"

#include "audit_vectors.h"
#include "suite.h"

#define SIG "\xe2\x80\x94 k AAAAAAA=\n"        /* the shortest: key id and one byte */

static const struct signer { uint8_t seed; const char *name, *vkey; } signers[] = {
	{ 7, "toolcrib.example/t/acme", vector_log_key }, { 8, "toolcrib.example/e/3", vector_epoch_key },
};

static void key_of(const struct signer *s, struct note_key *ret, uint8_t secret[SIGN_SECRET_SIZE])
{
	uint8_t seed[SIGN_SEED_SIZE], public[SIGN_PUBLIC_SIZE];

	memset(seed, s->seed, sizeof seed);
	sign_keys(seed, public, secret);
	assert_int_equal(note_key_set(ret, s->name, public), 0);
}

static int parse(const char *text, struct note *ret)
{
	return note_parse(text, strlen(text), ret);
}

static void keys_are_those_of_the_vectors(void **state)
{
	uint8_t secret[SIGN_SECRET_SIZE];
	struct note_key key, again;
	struct str text = STR_INIT;

	for (size_t i = 0; i < NELEMS(signers); i++) {
		key_of(&signers[i], &key, secret);
		str_reset(&text);
		note_key_print(&key, &text);
		assert_string_equal(str_text(&text), signers[i].vkey);
		assert_int_equal(note_key_parse(text.p, text.len, &again), 0);
		assert_string_equal(again.name, key.name);
		assert_memory_equal(again.public, key.public, sizeof key.public);
		assert_memory_equal(again.id, key.id, sizeof key.id);
	}
	str_fini(&text);
}

static void a_note_is_built_as_in_the_vectors(void **state)
{
	struct checkpoint cp = { .origin = "toolcrib.example/t/acme", .size = VECTOR_LEAVES };
	uint8_t secret[SIGN_SECRET_SIZE], sig[SIGN_SIZE];
	const char *root = vector_roots[NELEMS(vector_roots) - 1].root;
	struct str text = STR_INIT;
	struct note_key key;
	size_t n, len;

	assert_int_equal(text_unbase64(root, strlen(root), cp.root, sizeof cp.root, &n), 0);
	checkpoint_print(&cp, &text);
	len = text.len;
	for (size_t i = 0; i < NELEMS(signers); i++) {
		key_of(&signers[i], &key, secret);
		sign_make(secret, text.p, len, sig);
		note_add(&text, len, &key, sig);
	}
	assert_string_equal(str_text(&text), vector_note);
	str_fini(&text);
}

static void the_note_of_the_vectors_is_taken(void **state)
{
	struct note_key key;
	struct checkpoint cp;
	struct note n;

	assert_int_equal(parse(vector_note, &n), 0);
	assert_int_equal(n.nsig, 2);
	assert_int_equal(checkpoint_parse(n.text, n.text_len, &cp), 0);
	assert_string_equal(cp.origin, "toolcrib.example/t/acme");
	assert_int_equal(cp.size, VECTOR_LEAVES);
	for (size_t i = 0; i < NELEMS(signers); i++) {
		assert_int_equal(note_key_parse(signers[i].vkey, strlen(signers[i].vkey), &key), 0);
		assert_int_equal(note_check(&n, &key), 1);
		assert_int_equal(note_key_set(&key, "another", key.public), 0);
		assert_int_equal(note_check(&n, &key), 0);
	}
}

/* AUDIT A-T22: whatever bit is changed, no signature holds, or the note is none. */
static void a_changed_bit_breaks_the_note(void **state)
{
	struct note_key key;
	struct note n;
	char copy[sizeof vector_note];

	assert_int_equal(note_key_parse(vector_log_key, strlen(vector_log_key), &key), 0);
	for (size_t i = 0; i < 8 * 180; i++) {
		memcpy(copy, vector_note, sizeof copy);
		copy[i / 8] = (char)(copy[i / 8] ^ 1 << i % 8);
		if (note_parse(copy, sizeof copy - 1, &n) == 0)
			assert_int_not_equal(note_check(&n, &key), 1);
	}
}

static void what_is_no_note_is_refused(void **state)
{
	static const char *const bad[] = {
		"", "\n", "\n\n", "a\n", "a\n\n", "a\n" SIG, "\n" SIG, "a\n\n\n", "a\n\nb\n", "a\n\n" SIG "x", "a\r\n\n" SIG,
		"a\tb\n\n" SIG, "a\n\n" SIG "\n", "a\n\n" SIG SIG, "a\xff\n\n" SIG, "a\n\n\xe2\x80\x94 AAAAAAA=\n",
		"a\n\n\xe2\x80\x94  AAAAAAA=\n", "a\n\n\xe2\x80\x94 k+l AAAAAAA=\n", "a\n\n\xe2\x80\x94 k AAAAAA==\n",
		"a\n\n\xe2\x80\x94 k AAAAAAB=\n", "a\n\n\xe2\x80\x94 k AAAAAAA\n", "a\n\n\xe2\x80\x94 k  AAAAAAA=\n",
		"a\n\n\xe2\x80\x94 k AAAAAAA= \n", "a\n\n\xe2\x80\x94 k\xc2\xa0l AAAAAAA=\n", "a\n\n\xe2\x80\x94 k\xe2\x80\x83l AAAAAAA=\n",
		"a\n\n\xe2\x80\x93 k AAAAAAA=\n", "a\n\n- k AAAAAAA=\n", "a\n\n\xe2\x80\x94 k AAAAAAA=",
	};
	struct note n = { .nsig = 99 };

	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(parse(bad[i], &n), ERR_INVALID);
	assert_int_equal(note_parse("a\n\n\0\n", 5, &n), ERR_INVALID);
	assert_int_equal(n.nsig, 99);
	assert_int_equal(parse("a\n\n" SIG, &n), 0);
	assert_int_equal(parse("a\n\nb\n\n" SIG, &n), 0);       /* empty lines may stand in the text */
	assert_int_equal(n.text_len, 5);
}

static void a_note_has_at_most_so_many_bytes_and_signatures(void **state)
{
	struct str text = STR_INIT;
	struct note n;

	for (size_t extra = 0; extra < 2; extra++) {
		str_reset(&text);
		while (text.len < NOTE_MAX + extra - strlen("\n\n" SIG))
			str_putc(&text, 'a');
		str_puts(&text, "\n\n" SIG);
		assert_int_equal(note_parse(text.p, text.len, &n), extra ? ERR_LIMIT : 0);

		str_reset(&text);
		str_puts(&text, "a\n\n");
		for (unsigned i = 0; i < NOTE_SIGS_MAX + extra; i++)
			str_printf(&text, "\xe2\x80\x94 k%u AAAAAAA=\n", i);
		assert_int_equal(note_parse(text.p, text.len, &n), extra ? ERR_LIMIT : 0);
	}
	str_fini(&text);
}

static void what_is_no_key_is_refused(void **state)
{
	static const char *const bad[] = {
		"", "+", "++", "toolcrib.example/t/acme", "toolcrib.example/t/acme+d57070cf",
		"toolcrib.example/t/acmf+d57070cf+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs",        /* another name's id */
		"toolcrib.example/t/acme+D57070CF+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs",
		"toolcrib.example/t/acme+d57070cf+AupKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs",        /* another algorithm */
		"toolcrib.example/t/acme+d57070cf+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtI",
		"toolcrib.example/t/acme+d57070cf+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs=",
		"toolcrib.example/t/acme+d57070cf+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs\n",
	};
	uint8_t public[SIGN_PUBLIC_SIZE] = { 0 };
	char name[NOTE_NAME_MAX + 2];
	struct note_key key;

	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(note_key_parse(bad[i], strlen(bad[i]), &key), ERR_INVALID);
	memset(name, 'n', sizeof name);
	name[NOTE_NAME_MAX + 1] = '\0';
	assert_int_equal(note_key_set(&key, name, public), ERR_INVALID);
	name[NOTE_NAME_MAX] = '\0';
	assert_int_equal(note_key_set(&key, name, public), 0);
}

static void what_is_no_checkpoint_is_refused(void **state)
{
#define ROOT "ZORtCa8Hi9j7c6ijbcCyMQ6UCw8YzxpqWdfiRrKHVWA=\n"
	static const char *const bad[] = {
		"", "o\n", "o\n1\n", "\n1\n" ROOT, "o\n\n" ROOT, "o\n01\n" ROOT, "o\n00\n" ROOT, "o\n-1\n" ROOT, "o\n-0\n" ROOT,
		"o\n+1\n" ROOT, "o\n 1\n" ROOT, "o\n1 \n" ROOT, "o\n9223372036854775808\n" ROOT, "o p\n1\n" ROOT, "o+p\n1\n" ROOT,
		"o\n1\n" ROOT "more\n", "o\n1\n" ROOT "\n", "o\n1\nZORt\n", "o\n1\nZORtCa8Hi9j7c6ijbcCyMQ6UCw8YzxpqWdfiRrKHVWA\n",
		"o\n1\nZORtCa8Hi9j7c6ijbcCyMQ6UCw8YzxpqWdfiRrKHVWB=\n", "o\n1\nZORtCa8Hi9j7c6ijbcCyMQ6UCw8YzxpqWdfiRrKHVWA=",
	};
	static const char *const good[] = { "o\n0\n" ROOT, "o\n9223372036854775807\n" ROOT };
	struct checkpoint cp;
	struct str text = STR_INIT;

	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(checkpoint_parse(bad[i], strlen(bad[i]), &cp), ERR_INVALID);
	for (size_t i = 0; i < NELEMS(good); i++) {
		assert_int_equal(checkpoint_parse(good[i], strlen(good[i]), &cp), 0);
		str_reset(&text);
		checkpoint_print(&cp, &text);
		assert_string_equal(str_text(&text), good[i]);
	}
	str_fini(&text);
}

static int init(void **state)
{
	return secret_init();
}

SINGLE_THREAD_SUITE(note)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_those_of_the_vectors),
		cmocka_unit_test(a_note_is_built_as_in_the_vectors),
		cmocka_unit_test(the_note_of_the_vectors_is_taken),
		cmocka_unit_test(a_changed_bit_breaks_the_note),
		cmocka_unit_test(what_is_no_note_is_refused),
		cmocka_unit_test(a_note_has_at_most_so_many_bytes_and_signatures),
		cmocka_unit_test(what_is_no_key_is_refused),
		cmocka_unit_test(what_is_no_checkpoint_is_refused),
	};

	return cmocka_run_group_tests(tests, init, NULL);
}
