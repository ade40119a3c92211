/* Merkle trees against the vectors of the format and against the definition in RFC 6962, written down naively. */

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
#include "tlog/tree.h"

#include "audit_vectors.h"
#include "suite.h"

typedef uint8_t hash_t[TREE_HASH];

static hash_t leaf[VECTOR_LEAVES];

static int make_leaves(void **state)
{
	uint8_t record[VECTOR_RECORD_SIZE];

	if (text_unhex(vector_record, 2 * sizeof record, record, sizeof record) < 0)
		return -1;
	for (unsigned i = 0; i < VECTOR_LEAVES; i++) {
		record[VECTOR_IDX_AT + 6] = (uint8_t)(i >> 8);
		record[VECTOR_IDX_AT + 7] = (uint8_t)i;
		tree_leaf(record, sizeof record, leaf[i]);
	}
	return 0;
}

/* RFC 6962, 2.1, as it stands there. */
static int mth(void *arg, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
{
	hash_t left, right;
	uint64_t k = 1;

	if (to - from == 0)
		digest_sha256("", 0, ret);
	else if (to - from == 1)
		memcpy(ret, leaf[from], TREE_HASH);
	if (to - from < 2)
		return 0;
	while (2 * k < to - from)
		k *= 2;
	mth(arg, from, from + k, left);
	mth(arg, from + k, to, right);
	tree_node(left, right, ret);
	return 0;
}

static void assert_root(const hash_t root, const char *want)
{
	char text[TREE_HASH * 2];

	text_base64(root, TREE_HASH, text);
	assert_string_equal(text, want);
}

static void a_leaf_is_the_hash_of_its_bytes(void **state)
{
	char hex[2 * TREE_HASH + 1];

	text_hex(leaf[0], TREE_HASH, hex);
	assert_string_equal(hex, vector_leaf);
}

static void roots_are_those_of_the_vectors(void **state)
{
	for (size_t v = 0; v < NELEMS(vector_roots); v++) {
		struct tree t = { 0 };
		hash_t root;

		for (unsigned i = 0; i < vector_roots[v].n; i++)
			tree_append(&t, leaf[i]);
		tree_root(&t, root);
		assert_root(root, vector_roots[v].root);
	}
}

/* AUDIT A-904: what was pruned is forgotten but for the peaks, and every later root can still be computed. */
static void a_tree_goes_on_from_its_peaks(void **state)
{
	struct tree t = { 0 }, u;
	hash_t root, want;

	for (unsigned n = 0; n < VECTOR_LEAVES; n++) {
		if (n == 512)
			assert_int_equal(tree_peaks(t.size), 1);
		if (n == 511)
			assert_int_equal(tree_peaks(t.size), 9);
		assert_true(tree_load(&u, n, t.peak, tree_peaks(t.size) * TREE_HASH));
		tree_append(&u, leaf[n]);
		tree_append(&t, leaf[n]);
		tree_root(&u, root);
		mth(NULL, 0, n + 1, want);
		assert_memory_equal(root, want, TREE_HASH);
	}
	assert_false(tree_load(&u, 600, t.peak, 3 * TREE_HASH));
	assert_false(tree_load(&u, -1, t.peak, 0));
	assert_true(tree_load(&u, TREE_LOAD_MAX, t.peak, TREE_HASH));
	assert_false(tree_load(&u, TREE_LOAD_MAX + 1, t.peak, 2 * TREE_HASH));
	assert_true(tree_load(&u, 0, NULL, 0));
}

static void inclusion_is_proved_for_every_leaf(void **state)
{
	static const unsigned sizes[] = { 1, 2, 3, 4, 5, 7, 8, 9, 31, 256, 599, 600 };
	hash_t proof[TREE_PROOF_MAX], root;
	size_t n = 0;

	for (size_t s = 0; s < NELEMS(sizes); s++) {
		mth(NULL, 0, sizes[s], root);
		for (unsigned i = 0; i < sizes[s]; i += sizes[s] > 64 ? 13 : 1) {
			assert_int_equal(tree_prove_inclusion(i, sizes[s], mth, NULL, proof, &n), 0);
			assert_true(tree_check_inclusion(leaf[i], i, sizes[s], (const hash_t *)proof, n, root));
			assert_false(tree_check_inclusion(leaf[i + 1 - 2 * (i & 1)], i, sizes[s], (const hash_t *)proof, n, root));
			assert_false(tree_check_inclusion(leaf[i], i + 1, sizes[s], (const hash_t *)proof, n, root));
			assert_false(n > 0 && tree_check_inclusion(leaf[i], i, sizes[s], (const hash_t *)proof, n - 1, root));
			memset(proof[n], 7, TREE_HASH);
			assert_false(tree_check_inclusion(leaf[i], i, sizes[s], (const hash_t *)proof, n + 1, root));
		}
	}
	tree_prove_inclusion(599, 600, mth, NULL, proof, &n);
	assert_int_equal(n, 6);
	tree_prove_inclusion(0, 600, mth, NULL, proof, &n);
	assert_int_equal(n, 10);
	assert_false(tree_check_inclusion(leaf[0], 0, 0, NULL, 0, root));
}

static void check_consistency_of(unsigned old, unsigned size)
{
	hash_t proof[TREE_PROOF_MAX], before, after, other = { 0 };
	size_t n = 0;

	mth(NULL, 0, old, before);
	mth(NULL, 0, size, after);
	assert_int_equal(tree_prove_consistency(old, size, mth, NULL, proof, &n), 0);
	assert_true(tree_check_consistency(old, size, before, after, (const hash_t *)proof, n));
	assert_false(tree_check_consistency(old, size, other, after, (const hash_t *)proof, n));
	assert_false(tree_check_consistency(old, size, before, other, (const hash_t *)proof, n));
	assert_false(n > 0 && tree_check_consistency(old, size, before, after, (const hash_t *)proof, n - 1));
	memcpy(proof[n], n ? proof[n - 1] : other, TREE_HASH);
	assert_false(tree_check_consistency(old, size, before, after, (const hash_t *)proof, n + 1));
}

static void consistency_is_proved_between_all_sizes(void **state)
{
	static const unsigned more[] = { 255, 256, 257, 511, 512, 600 };
	hash_t proof[TREE_PROOF_MAX], sum;
	char hex[2 * TREE_HASH + 1];
	size_t n = 0;

	for (unsigned old = 1; old < 40; old++) {
		for (unsigned size = old; size < 70; size++)
			check_consistency_of(old, size);
		for (size_t i = 0; i < NELEMS(more); i++)
			check_consistency_of(old, more[i]);
	}
	for (size_t i = 0; i < NELEMS(more); i++)
		for (size_t k = i; k < NELEMS(more); k++)
			check_consistency_of(more[i], more[k]);
	tree_prove_consistency(256, 600, mth, NULL, proof, &n);
	assert_int_equal(n, 2);
	digest_sha256(proof, 2 * TREE_HASH, sum);
	text_hex(sum, TREE_HASH, hex);
	assert_string_equal(hex, vector_consistency);
}

/* The same proofs from the old tree's peaks and what came behind it. */
static void growth_is_proved_from_peaks(void **state)
{
	hash_t want[TREE_PROOF_MAX], got[TREE_PROOF_MAX];
	size_t n = 0, k = 0;

	for (unsigned old = 0; old < 130; old++) {
		struct tree before = { 0 };
		struct tree_consistency since;

		for (unsigned i = 0; i < old; i++)
			tree_append(&before, leaf[i]);
		tree_consistency_start(&since, old);
		for (unsigned size = old; size < 300; size++) {
			n = 0;
			if (old > 0)
				tree_prove_consistency(old, size, mth, NULL, want, &n);
			tree_consistency_prove(&before, &since, got, &k);
			assert_int_equal(k, n);
			assert_memory_equal(got, want, n * TREE_HASH);
			tree_consistency_append(&since, leaf[size]);
		}
	}
}

/* Whole subtrees say the same as their leaves, wherever the old tree ends. */
static void growth_is_proved_from_whole_subtrees(void **state)
{
	hash_t want[TREE_PROOF_MAX], got[TREE_PROOF_MAX], hash;
	size_t n = 0, k = 0;

	for (unsigned old = 1; old < 130; old++) {
		struct tree before = { 0 };
		struct tree_consistency since;

		for (unsigned i = 0; i < old; i++)
			tree_append(&before, leaf[i]);
		tree_consistency_start(&since, old);
		while (since.to < 300 - 16) {
			const unsigned level = since.to % 16 == 0 ? 4 : since.to % 2 == 0 ? 1 : 0;

			mth(NULL, since.to, since.to + (1u << level), hash);
			tree_consistency_append_whole(&since, level, hash);
			tree_prove_consistency(old, since.to, mth, NULL, want, &n);
			tree_consistency_prove(&before, &since, got, &k);
			assert_int_equal(k, n);
			assert_memory_equal(got, want, n * TREE_HASH);
			n = 0;
		}
	}
}

/* A proof of more than 63 levels, a size of nothing, an old tree larger than the new one: wrong, not a crash. */
static void impossible_proofs_are_wrong(void **state)
{
	hash_t proof[TREE_PROOF_MAX] = { { 0 } }, root = { 0 };

	for (size_t n = 0; n <= TREE_PROOF_MAX; n++) {
		assert_false(tree_check_inclusion(root, UINT64_MAX - 1, UINT64_MAX, (const hash_t *)proof, n, leaf[0]));
		assert_false(tree_check_consistency(UINT64_MAX - 1, UINT64_MAX, leaf[0], leaf[1], (const hash_t *)proof, n));
		assert_false(tree_check_consistency(0, 5, root, root, (const hash_t *)proof, n));
		assert_false(tree_check_consistency(6, 5, root, root, (const hash_t *)proof, n));
	}
}

static int failing(void *arg, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
{
	return ERR_IO;
}

static void a_hash_that_cannot_be_had_ends_the_proof(void **state)
{
	hash_t proof[TREE_PROOF_MAX];
	size_t n;

	assert_int_equal(tree_prove_inclusion(3, 600, failing, NULL, proof, &n), ERR_IO);
	assert_int_equal(tree_prove_consistency(3, 600, failing, NULL, proof, &n), ERR_IO);
}

SINGLE_THREAD_SUITE(tree)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leaf_is_the_hash_of_its_bytes),
		cmocka_unit_test(roots_are_those_of_the_vectors),
		cmocka_unit_test(a_tree_goes_on_from_its_peaks),
		cmocka_unit_test(inclusion_is_proved_for_every_leaf),
		cmocka_unit_test(consistency_is_proved_between_all_sizes),
		cmocka_unit_test(growth_is_proved_from_peaks),
		cmocka_unit_test(growth_is_proved_from_whole_subtrees),
		cmocka_unit_test(impossible_proofs_are_wrong),
		cmocka_unit_test(a_hash_that_cannot_be_had_ends_the_proof),
	};

	return cmocka_run_group_tests(tests, make_leaves, NULL);
}
