/* Allocation, strings, arenas and lists. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sanitized.h"
#include "base/text.h"
#include "suite.h"

static void mem_copies_end_with_nul(void **state)
{
	char *a = mem_strndup("abcdef", 3), *b = mem_printf("%s-%d", a, 7), *c = mem_dup("xy", 2);

	assert_string_equal(a, "abc");
	assert_string_equal(b, "abc-7");
	assert_memory_equal(c, "xy", 2);
	assert_null(mem_strdup0(NULL));
	free(a);
	free(b);
	free(c);
}

static void mem_of_nothing_is_not_null(void **state)
{
	void *p[] = { mem_alloc(0), mem_zalloc(0), mem_calloc(0, 8), mem_calloc(8, 0), mem_dup(NULL, 0) };

	for (size_t i = 0; i < NELEMS(p); i++) {
		assert_non_null(p[i]);
		free(p[i]);
	}
}

static void str_appends_stop_at_the_limit(void **state)
{
	struct str s;

	str_init(&s, 5);
	str_puts(&s, "abc");
	str_put(&s, "de", 2);
	assert_false(s.failed);
	assert_string_equal(s.p, "abcde");
	str_putc(&s, 'f');
	assert_true(s.failed);
	assert_string_equal(s.p, "abcde");
	str_reset(&s);
	assert_false(s.failed);
	assert_string_equal(str_text(&s), "");
	str_puts(&s, "abcdef");
	assert_true(s.failed);
	assert_int_equal(s.len, 0);
	/* One failure spoils the rest, or the middle of a text would be missing. */
	str_putc(&s, 'x');
	assert_int_equal(s.len, 0);
	str_fini(&s);
	assert_int_equal(s.max, 5);
}

static void str_printf_obeys_the_limit(void **state)
{
	struct str s;

	str_init(&s, 100);
	str_printf(&s, "%050d", 1);
	str_printf(&s, "%050d", 2);
	assert_false(s.failed);
	assert_int_equal(s.len, 100);
	str_printf(&s, "%d", 3);
	assert_true(s.failed);
	assert_int_equal(strlen(s.p), 100);
	str_fini(&s);
}

static void str_grows_without_a_limit(void **state)
{
	struct str s = STR_INIT;

	for (int i = 0; i < 10000; i++)
		str_printf(&s, "%04d", i);
	assert_int_equal(s.len, 40000);
	assert_memory_equal(s.p + 4 * 1234, "1234", 4);
	str_drop_front(&s, 4 * 9999);
	assert_string_equal(s.p, "9999");
	str_drop_front(&s, 4);
	assert_string_equal(s.p, "");
	str_drop_front(&s, 0);
	str_fini(&s);
}

static void str_writes_the_whole_range_of_integers(void **state)
{
	struct str s = STR_INIT;

	str_put_u64(&s, 0);
	str_putc(&s, ' ');
	str_put_u64(&s, UINT64_MAX);
	str_putc(&s, ' ');
	str_put_i64(&s, INT64_MIN);
	str_putc(&s, ' ');
	str_put_i64(&s, INT64_MAX);
	str_putc(&s, ' ');
	str_put_i64(&s, -1);
	assert_string_equal(s.p, "0 18446744073709551615 -9223372036854775808 9223372036854775807 -1");
	str_fini(&s);
}

static void str_take_hands_the_text_out(void **state)
{
	struct str s = STR_INIT;
	char *a = str_take(&s), *b;

	assert_string_equal(a, "");
	str_puts(&s, "x");
	b = str_take(&s);
	assert_string_equal(b, "x");
	assert_null(s.p);
	assert_int_equal(s.len, 0);
	free(a);
	free(b);
}

static void arena_gives_aligned_zeroed_pieces(void **state)
{
	struct arena *a = arena_new(1 << 20);

	for (size_t n = 0; n < 300; n++) {
		char *p = arena_alloc(a, n);

		assert_int_equal((uintptr_t)p % 16, 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xff, n);
	}
	arena_free(&a);
	assert_null(a);
	arena_free(&a);
}

static void arena_refuses_above_its_limit(void **state)
{
	static const size_t limits[] = { 16, 100, 4096, 1 << 20 };

	for (size_t i = 0; i < NELEMS(limits); i++) {
		struct arena *a = arena_new(limits[i]);

		assert_null(arena_alloc(a, limits[i] + 16));
		assert_null(arena_alloc(a, SIZE_MAX));
		assert_null(arena_strndup(a, "", SIZE_MAX));
		assert_int_equal(arena_used(a), 0);
		assert_non_null(arena_alloc(a, limits[i]));
		assert_null(arena_alloc(a, 1));
		assert_null(arena_alloc(a, 0));
		arena_free(&a);
	}
}

static void arena_spends_its_limit_in_small_pieces(void **state)
{
	struct arena *a = arena_new(100000);
	size_t n = 0;

	while (arena_dup(a, "0123456789abcdef", 16))
		n++;
	assert_int_equal(n, 100000 / 16);
	assert_int_equal(arena_used(a), n * 16);
	arena_free(&a);
}

static void arena_copies_texts(void **state)
{
	struct arena *a = arena_new(1000);
	char *x = arena_strdup(a, "abc"), *y = arena_strndup(a, "defgh", 2);

	assert_string_equal(x, "abc");
	assert_string_equal(y, "de");
	arena_free(&a);
}

struct item {
	int n;
	struct list node;
};

static void list_keeps_order_and_unlinks_twice(void **state)
{
	struct item items[4] = { { .n = 0 }, { .n = 1 }, { .n = 2 }, { .n = 3 } };
	struct list head;
	int want = 0;

	list_init(&head);
	assert_true(list_empty(&head));
	for (int i = 1; i < 4; i++)
		list_push_back(&head, &items[i].node);
	list_push_front(&head, &items[0].node);
	LIST_FOREACH(n, &head)
		assert_int_equal(CONTAINER_OF(n, struct item, node)->n, want++);
	LIST_FOREACH_SAFE(n, next, &head)
		if (CONTAINER_OF(n, struct item, node)->n % 2)
			list_unlink(n);
	list_unlink(&items[1].node);
	assert_ptr_equal(head.next, &items[0].node);
	assert_ptr_equal(head.next->next, &items[2].node);
	assert_ptr_equal(head.prev, &items[2].node);
}

/* HARDENING F-15: what a peer sizes fails, what is small and ours does not. */
static void test_f15_no_memory_fails_who_asks_for_much(void **state)
{
	struct arena *a = arena_new(SIZE_MAX);
	struct str bounded = STR_INIT, secret = STR_SECRET_INIT, any = STR_INIT;
	static const char much[4000];
	char *p;

	bounded.max = secret.max = 100000;
	str_puts(&bounded, "kept");
	str_puts(&secret, "kept");
	mem_fail_above(3000);
	assert_null(mem_try_realloc(NULL, 3001));
	p = mem_try_realloc(NULL, 3000);
	assert_non_null(p);
	assert_null(mem_try_realloc(p, 3001));
	free(p);
	str_put(&bounded, much, sizeof(much));
	str_put(&secret, much, sizeof(much));
	str_put(&any, much, sizeof(much));
	assert_true(bounded.failed);
	assert_true(secret.failed);
	assert_string_equal(bounded.p, "kept");
	assert_string_equal(secret.p, "kept");
	assert_false(any.failed);
	assert_null(arena_alloc(a, sizeof(much)));
	mem_fail_above(SIZE_MAX);
	assert_non_null(arena_alloc(a, sizeof(much)));
	str_reset(&bounded);
	str_put(&bounded, much, sizeof(much));
	assert_int_equal(bounded.len, sizeof(much));
	str_fini(&bounded);
	str_wipe(&secret);
	str_fini(&any);
	arena_free(&a);
}

/* Take what there is, in pieces; the first has a pointer to the next. */
static void *take_all(size_t piece)
{
	void *first = NULL, *p;

	while ((p = malloc(piece)) != NULL) {
		*(void **)p = first;
		first = p;
	}
	return first;
}

static void give_all(void *first)
{
	while (first) {
		void *next = *(void **)first;
		free(first);
		first = next;
	}
}

/* In a process with few addresses: what is small is there when nothing is, nobody who tries gets any, and all is well
 * again when something was given back.  Exit status: the step that failed. */
static int live_on_the_reserve(void)
{
	const struct rlimit few = { 256u << 20, 256u << 20 };
	void *all, *rest, *p;
	char *text, *zero;
	struct digest *d;
	uint8_t sum[DIGEST_SIZE];

	digest_sha256("a", 1, sum);
	mem_reserve(MEM_RESERVE);
	if (setrlimit(RLIMIT_AS, &few))
		return 1;
	all = take_all(1u << 20);
	rest = take_all(512);
	if (mem_try_realloc(NULL, 4096) || mem_reserve_given_up() != 0)
		return 2;
	p = mem_alloc(1000);
	p = mem_realloc(p, 100000);
	text = mem_printf("%0*d", 1000, 7);
	zero = mem_zalloc(100);
	if (strlen(text) != 1000 || zero[99] != 0 || mem_reserve_given_up() != 1)
		return 3;
	free(p);
	p = mem_try_realloc(NULL, 16);
	if (p)
		return 4;
	give_all(all);
	p = mem_try_realloc(NULL, 65536);
	if (!p)
		return 5;
	free(p);
	give_all(rest);
	/* A second time, and what a library allocates for us. */
	all = take_all(1u << 20);
	rest = take_all(16);
	d = digest_new();
	digest_put(d, "a", 1);
	digest_end(&d, sum);
	return mem_reserve_given_up() == 2 && !mem_try_realloc(NULL, 16) ? 0 : 6;
}

static void test_f15_what_is_small_has_a_reserve(void **state)
{
	int status = -1;
	pid_t pid;

	if (SANITIZED)
		skip();                 /* it reserves more addresses than any bound would leave */
	pid = fork();
	if (pid == 0)
		_exit(live_on_the_reserve());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void spare_pieces_are_used_again_up_to_a_bound(void **state)
{
	struct mem_spares s = { .size = 64, .max = 2 };
	void *p[3], *large = mem_spare_try(&s, 65);

	for (size_t i = 0; i < 3; i++) {
		p[i] = i == 0 ? mem_spare(&s) : mem_spare_try(&s, 64 - i);
		memset(p[i], 'x', 64);          /* all of it, whatever was asked for */
	}
	mem_spare_free(&s, large, 65);
	assert_int_equal(s.n, 0);
	for (size_t i = 0; i < 3; i++)
		mem_spare_free(&s, p[i], 64);
	assert_int_equal(s.n, SANITIZED ? 0 : 2);
	mem_fail_above(32);
	assert_null(mem_spare_try(&s, 33));     /* however many are here */
	mem_fail_above(SIZE_MAX);
	if (!SANITIZED) {
		assert_ptr_equal(mem_spare(&s), p[1]);
		for (size_t i = sizeof(void *); i < 64; i++)
			assert_int_equal(((char *)p[1])[i], 0); /* nothing of who had it before */
		assert_ptr_equal(mem_spare_try(&s, 1), p[0]);
		assert_int_equal(s.n, 0);
		mem_spare_free(&s, p[1], 64);
		mem_spare_free(&s, p[0], 64);
	}
	mem_spare_free(&s, NULL, 1);
	mem_spares_fini(&s);
	assert_null(s.first);
}

SINGLE_THREAD_SUITE(mem)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mem_copies_end_with_nul),
		cmocka_unit_test(mem_of_nothing_is_not_null),
		cmocka_unit_test(test_f15_no_memory_fails_who_asks_for_much),
		cmocka_unit_test(test_f15_what_is_small_has_a_reserve),
		cmocka_unit_test(spare_pieces_are_used_again_up_to_a_bound),
		cmocka_unit_test(str_appends_stop_at_the_limit),
		cmocka_unit_test(str_printf_obeys_the_limit),
		cmocka_unit_test(str_grows_without_a_limit),
		cmocka_unit_test(str_writes_the_whole_range_of_integers),
		cmocka_unit_test(str_take_hands_the_text_out),
		cmocka_unit_test(arena_gives_aligned_zeroed_pieces),
		cmocka_unit_test(arena_refuses_above_its_limit),
		cmocka_unit_test(arena_spends_its_limit_in_small_pieces),
		cmocka_unit_test(arena_copies_texts),
		cmocka_unit_test(list_keeps_order_and_unlinks_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
