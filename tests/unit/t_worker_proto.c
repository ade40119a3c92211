/* The messages between the server and a worker: what is written is read, and nothing else is. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "suite.h"
#include "worker/proto.h"

static const struct worker_msg all[] = {
	{ .op = WORKER_READY },
	{ .op = WORKER_RUN, .name = "sql", .time_us = 1, .brisk_us = 1ull << 33, .memory = 1ull << 40, .answer_max = UINT64_MAX, .p = "a\0b",
	  .len = 3 },
	{ .op = WORKER_RUN, .name = "fifteen_letters" },
	{ .op = WORKER_DONE, .p = "x", .len = 1 },
	{ .op = WORKER_DONE, .last = true },
	{ .op = WORKER_FAILED, .err = { .code = ERR_TOOL, .where = "sql", .msg = "no such table: \xc3\xa4" } },
	{ .op = WORKER_FAILED, .last = true, .err = { .code = ERR_IO } },
};

static void what_is_written_is_read(void **state)
{
	for (size_t i = 0; i < NELEMS(all); i++) {
		struct str bytes = STR_INIT;
		struct worker_msg m;

		worker_msg_encode(&all[i], &bytes);
		assert_int_equal(worker_msg_length(bytes.p), bytes.len - WORKER_HEAD_SIZE);
		assert_int_equal(worker_msg_decode(bytes.p + WORKER_HEAD_SIZE, bytes.len - WORKER_HEAD_SIZE, &m), 0);
		assert_true(m.op == all[i].op && m.last == all[i].last && m.len == all[i].len);
		assert_true(m.time_us == all[i].time_us && m.brisk_us == all[i].brisk_us && m.memory == all[i].memory && m.answer_max == all[i].answer_max);
		assert_string_equal(m.name, all[i].name);
		assert_int_equal(m.err.code, all[i].err.code);
		assert_string_equal(m.err.where, all[i].err.where);
		assert_string_equal(m.err.msg, all[i].err.msg);
		assert_true(m.len == 0 || memcmp(m.p, all[i].p, m.len) == 0);
		str_fini(&bytes);
	}
}

/* Nor is more, where the bytes do not go on to the end. */
static void what_is_cut_is_refused(void **state)
{
	for (size_t i = 0; i < NELEMS(all); i++) {
		struct str bytes = STR_INIT;
		struct worker_msg m;
		size_t whole, fixed;

		worker_msg_encode(&all[i], &bytes);
		whole = bytes.len - WORKER_HEAD_SIZE;
		fixed = whole - all[i].len;
		for (size_t len = 0; len < fixed; len++)
			assert_int_equal(worker_msg_decode(bytes.p + WORKER_HEAD_SIZE, len, &m), ERR_INVALID);
		str_putc(&bytes, 'x');
		assert_int_equal(worker_msg_decode(bytes.p + WORKER_HEAD_SIZE, whole + 1, &m),
				 all[i].op == WORKER_RUN || all[i].op == WORKER_DONE ? 0 : ERR_INVALID);
		str_fini(&bytes);
	}
}

static void refuse(const char *p, size_t len)
{
	struct worker_msg m;

	if (worker_msg_decode(p, len, &m) != ERR_INVALID)
		fail_msg("op %d, %zu bytes", p[0], len);
}

static void what_no_encoder_writes_is_refused(void **state)
{
	refuse("", 0);
	refuse("\0", 1);
	refuse("\5", 1);
	refuse("\3\2", 2);                                                      /* a flag of neither */
	refuse("\4\0\0\0\0\0\0\0\0\0\0", 11);                                   /* no error */
	refuse("\4\0\22\0\0\0\0\0\0\0\0", 11);                                  /* none that there is */
	refuse("\4\0\1\0\0\0\1\0\0\0\0\0", 12);                                 /* NUL */
	refuse("\4\0\1\0\0\0\1\33\0\0\0\0", 12);                                /* a control character */
	refuse("\4\0\1\0\0\0\1\xff\0\0\0\0", 12);                               /* no UTF-8 */
	refuse("\4\0\1\0\0\0\3\xe2\x80\xae\0\0\0\0", 14);                       /* turns the line round */
	refuse("\4\0\1\xff\xff\xff\xff", 7);                                    /* longer than there is */
	refuse("\2\0\0\0\0timetimememorymeanswerno", 29);                       /* no name */
	refuse("\2\0\0\0\3SQLtimetimememorymeanswerno", 32);                    /* none that work has */
	refuse("\2\0\0\0\20abcdefghijklmnoptimetimememorymeanswerno", 45);      /* too long */
}

SUITE(proto)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read), cmocka_unit_test(what_is_cut_is_refused),
		cmocka_unit_test(what_no_encoder_writes_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
