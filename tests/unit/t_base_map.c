/* The hash map. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "suite.h"

enum { MANY = 5000 };

static int values[MANY];

static void set_get_and_del_agree(void **state)
{
	struct map *m = map_new();

	assert_null(map_get_z(m, "a"));
	assert_null(map_del_z(m, "a"));
	assert_null(map_set_z(m, "a", &values[0]));
	assert_ptr_equal(map_set_z(m, "a", &values[1]), &values[0]);
	assert_int_equal(map_count(m), 1);
	assert_ptr_equal(map_get_z(m, "a"), &values[1]);
	assert_ptr_equal(map_del_z(m, "a"), &values[1]);
	assert_null(map_get_z(m, "a"));
	assert_int_equal(map_count(m), 0);
	map_free(&m);
	assert_null(m);
	map_free(&m);
}

static void keys_are_bytes_and_copied(void **state)
{
	struct map *m = map_new();
	char key[] = "k\0x";

	map_set(m, key, 3, &values[0]);
	map_set(m, key, 1, &values[1]);
	map_set(m, NULL, 0, &values[2]);
	key[0] = 'y';
	assert_ptr_equal(map_get(m, "k\0x", 3), &values[0]);
	assert_ptr_equal(map_get_z(m, "k"), &values[1]);
	assert_ptr_equal(map_get_z(m, ""), &values[2]);
	assert_null(map_get(m, "k\0y", 3));
	map_free(&m);
}

static void many_keys_survive_growth_and_churn(void **state)
{
	struct map *m = map_new();

	for (uint64_t i = 0; i < MANY; i++)
		assert_null(map_set_u64(m, i, &values[i]));
	for (uint64_t i = 0; i < MANY; i += 2)
		assert_ptr_equal(map_del_u64(m, i), &values[i]);
	assert_int_equal(map_count(m), MANY / 2);
	/* A queue of ids: each round adds one and removes one, and old places are used again. */
	for (uint64_t i = 0; i < 20 * MANY; i++) {
		assert_null(map_set_u64(m, MANY + i, &values[0]));
		assert_ptr_equal(map_del_u64(m, MANY + i), &values[0]);
	}
	for (uint64_t i = 0; i < MANY; i++)
		assert_ptr_equal(map_get_u64(m, i), i % 2 ? &values[i] : NULL);
	map_free(&m);
}

/* Integers lie in their slots; asked for as bytes they are the same keys, and other bytes are none. */
static void integers_are_their_bytes(void **state)
{
	static const uint64_t keys[] = { 0, 1, UINT64_MAX, UINT64_C(1) << 63, 0x0102030405060708 };
	const size_t n = sizeof(keys) / sizeof(keys[0]);
	struct map *m = map_new(), *bytes = map_new();

	assert_null(map_get_u64(m, 0));
	assert_null(map_del_u64(m, 0));
	for (size_t i = 0; i < n; i++) {
		assert_null(map_set_u64(m, keys[i], &values[i]));
		assert_null(map_set(bytes, &keys[i], sizeof(keys[i]), &values[i]));
	}
	for (size_t i = 0; i < n; i++) {
		assert_ptr_equal(map_get(m, &keys[i], sizeof(keys[i])), &values[i]);
		assert_ptr_equal(map_get_u64(bytes, keys[i]), &values[i]);
		assert_null(map_get(m, &keys[i], 7));
		assert_null(map_del(m, &keys[i], 7));
		assert_ptr_equal(map_set(m, &keys[i], sizeof(keys[i]), &values[i + n]), &values[i]);
		assert_ptr_equal(map_set_u64(bytes, keys[i], &values[i + n]), &values[i]);
	}
	assert_null(map_get_z(m, ""));
	assert_int_equal(map_count(m), n);
	assert_int_equal(map_count(bytes), n);
	for (size_t i = 0; i < n; i++) {
		assert_ptr_equal(map_del(m, &keys[i], sizeof(keys[i])), &values[i + n]);
		assert_ptr_equal(map_del_u64(bytes, keys[i]), &values[i + n]);
		assert_null(map_get_u64(m, keys[i]));
	}
	assert_int_equal(map_count(m), 0);
	assert_int_equal(map_count(bytes), 0);
	map_free(&m);
	map_free(&bytes);
}

/* Keys in steps of a power of two, as ids and pointers are: no run of slots grows long, or this does not end in time. */
static void integers_in_steps_do_not_meet(void **state)
{
	struct map *m = map_new();

	for (unsigned shift = 0; shift < 48; shift += 4)
		for (uint64_t i = 1; i <= MANY; i++)
			(void)map_set_u64(m, i << shift, &values[0]);
	for (unsigned shift = 0; shift < 48; shift += 4)
		for (uint64_t i = 1; i <= MANY; i++)
			assert_ptr_equal(map_get_u64(m, i << shift), &values[0]);
	map_free(&m);
}

static void walk_sees_each_pair_once(void **state)
{
	struct map *m = map_new();
	char seen[MANY] = { 0 };
	const void *key;
	size_t len, n = 0;
	void *value;

	for (uint64_t i = 0; i < MANY; i++)
		map_set_u64(m, i, &values[i]);
	for (size_t it = 0; map_next(m, &it, &key, &len, &value); n++) {
		uint64_t k;

		assert_int_equal(len, sizeof k);
		memcpy(&k, key, sizeof k);
		assert_ptr_equal(value, &values[k]);
		assert_int_equal(seen[k]++, 0);
	}
	assert_int_equal(n, MANY);
	map_free(&m);
}

static void walk_allows_deleting_the_pair_just_returned(void **state)
{
	struct map *m = map_new();
	const void *key;
	size_t len, n = 0;
	void *value;

	for (uint64_t i = 0; i < MANY; i++)
		map_set_u64(m, i, &values[i]);
	for (size_t it = 0; map_next(m, &it, &key, &len, &value); n++)
		assert_ptr_equal(map_del(m, key, len), value);
	assert_int_equal(n, MANY);
	assert_int_equal(map_count(m), 0);
	for (size_t it = 0; map_next(m, &it, NULL, NULL, NULL);)
		fail();
	map_free(&m);
}

static void walk_of_an_empty_map_ends_at_once(void **state)
{
	struct map *m = map_new();
	size_t it = 0;

	assert_false(map_next(m, &it, NULL, NULL, NULL));
	map_free(&m);
}

/* --- in front of maps */

static void near_has_what_was_put(void **state)
{
	struct near *n = near_new(1);

	assert_null(near_get(n, 0));
	near_put(n, 0, &values[0]);
	near_put(n, UINT64_MAX, &values[1]);
	assert_ptr_equal(near_get(n, 0), &values[0]);
	assert_ptr_equal(near_get(n, UINT64_MAX), &values[1]);
	near_put(n, 0, &values[2]);             /* another one with its tag: the newest */
	assert_ptr_equal(near_get(n, 0), &values[2]);
	near_del(n, 0, &values[2]);
	assert_ptr_equal(near_get(n, 0), &values[0]);
	near_del(n, 0, &values[2]);
	near_clear(n);
	assert_null(near_get(n, 0));
	assert_null(near_get(n, UINT64_MAX));
	near_free(&n);
	assert_null(n);
	near_free(&n);
}

/* limit and limit + 1 */
static void near_forgets_the_first_of_a_full_set(void **state)
{
	struct near *n = near_new(1);

	for (uint64_t i = 0; i < NEAR_WAYS; i++)
		near_put(n, i, &values[i]);
	for (uint64_t i = 0; i < NEAR_WAYS; i++)
		assert_ptr_equal(near_get(n, i), &values[i]);
	near_put(n, NEAR_WAYS, &values[NEAR_WAYS]);
	assert_null(near_get(n, 0));
	for (uint64_t i = 1; i <= NEAR_WAYS; i++)
		assert_ptr_equal(near_get(n, i), &values[i]);
	near_free(&n);
	n = near_new(NEAR_SETS_MAX);
	for (uint64_t i = 0; i < MANY; i++)
		near_put(n, i << 56 | i, &values[i]);
	for (uint64_t i = 0; i < MANY; i++)
		assert_ptr_equal(near_get(n, i << 56 | i), &values[i]);
	near_free(&n);
}

static void near_tags_are_of_the_end(void **state)
{
	assert_int_equal(near_tag(1, "a", 1), near_tag(1, "abc", 1));
	assert_int_not_equal(near_tag(1, "a", 1), near_tag(2, "a", 1));
	assert_int_not_equal(near_tag(1, "", 0), near_tag(1, "a", 1));
	assert_int_not_equal(near_tag(1, "tool_0001", 9), near_tag(1, "tool_0002", 9));
	assert_int_equal(near_tag(1, "x-12345678", 10), near_tag(1, "y-12345678", 10));
}

SINGLE_THREAD_SUITE(map)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_get_and_del_agree),
		cmocka_unit_test(keys_are_bytes_and_copied),
		cmocka_unit_test(many_keys_survive_growth_and_churn),
		cmocka_unit_test(integers_are_their_bytes),
		cmocka_unit_test(integers_in_steps_do_not_meet),
		cmocka_unit_test(walk_sees_each_pair_once),
		cmocka_unit_test(walk_allows_deleting_the_pair_just_returned),
		cmocka_unit_test(walk_of_an_empty_map_ends_at_once),
		cmocka_unit_test(near_has_what_was_put),
		cmocka_unit_test(near_forgets_the_first_of_a_full_set),
		cmocka_unit_test(near_tags_are_of_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
