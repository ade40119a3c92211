/* The picture of `toolcrib top`: screens as data, and what keys do to them. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "json/json.h"
#include "top/top.h"
#include "suite.h"

#define BOUNDS "\"bounds\":[0.001,0.01,0.1,1.0]"
#define SERVER "\"version\":\"1.2\",\"serving_s\":93600,\"resident_bytes\":39845888,\"pressure\":12,"

/* Two seconds lie between them. */
static const char first[] =
	"{\"us\":1000000,\"unix_us\":1784109600000000,\"cpu_us\":100000,\"records\":10,\"refusing\":null," SERVER BOUNDS ","
	"\"counters\":{\"writer_items\":10,\"writer_batches\":5,\"store_wal_pages\":3,\"store_free_bytes\":1000000,"
	"\"checkpoint_time\":1784109599},"
	"\"commit\":{" BOUNDS ",\"buckets\":[5,0,0,0,0]},"
	"\"calls\":{\"outcomes\":{\"ok\":100,\"denied\":1},\"buckets\":[100,0,0,0,0]},"
	"\"tenants\":[{\"name\":\"acme\",\"running\":1,\"waiting\":0,\"outcomes\":{\"ok\":90},\"buckets\":[90,0,0,0,0]},"
	"{\"name\":\"bolt\",\"running\":0,\"waiting\":0,\"outcomes\":{\"ok\":10,\"denied\":1},\"buckets\":[10,0,0,0,0]}],"
	"\"tools\":[{\"name\":\"echo\",\"outcomes\":{\"ok\":100},\"buckets\":[100,0,0,0,0]}],"
	"\"upstreams\":[{\"name\":\"files\",\"up\":true,\"outcomes\":{},\"buckets\":[0,0,0,0,0]},"
	"{\"name\":\"web\",\"up\":true,\"outcomes\":{},\"buckets\":[0,0,0,0,0]}]}";
static const char second[] =
	"{\"us\":3000000,\"unix_us\":1784109602000000,\"cpu_us\":1320000,\"records\":9650,\"refusing\":null," SERVER BOUNDS ","
	"\"counters\":{\"writer_items\":1430,\"writer_batches\":25,\"store_wal_pages\":768,\"store_free_bytes\":227633266688,"
	"\"checkpoint_time\":1784109601},"
	"\"commit\":{" BOUNDS ",\"buckets\":[5,20,0,0,0]},"
	"\"calls\":{\"outcomes\":{\"ok\":9724,\"denied\":25},\"buckets\":[100,9500,124,0,0]},"
	"\"tenants\":[{\"name\":\"acme\",\"running\":18,\"waiting\":2,\"quota\":0.41,\"outcomes\":{\"ok\":90,\"timeout\":1,"
	"\"overload\":3},\"buckets\":[90,0,0,0,1]},"
	"{\"name\":\"bolt\",\"running\":0,\"waiting\":0,\"outcomes\":{\"ok\":9634,\"denied\":25},\"buckets\":[10,9500,124,0,0]},"
	"{\"name\":\"\\u001b[2Jnew\",\"running\":1,\"waiting\":0,\"outcomes\":{\"ok\":1},\"buckets\":[1,0,0,0,0]}],"
	"\"tools\":[{\"name\":\"echo\",\"outcomes\":{\"ok\":9724},\"buckets\":[100,9500,124,0,0]}],"
	"\"upstreams\":[{\"name\":\"files\",\"up\":true,\"outcomes\":{},\"buckets\":[0,0,0,0,0]},"
	"{\"name\":\"web\",\"up\":false,\"outcomes\":{\"answered\":4},\"buckets\":[0,0,4,0,0]}]}";
static const char of_tenant[] =
	"{\"us\":1000000,\"tenant\":\"acme\",\"version\":\"1.2\"," BOUNDS ",\"calls\":{\"outcomes\":{\"ok\":5},\"buckets\":[5,0,0,0,0]},"
	"\"tenants\":[{\"name\":\"acme\",\"running\":0,\"waiting\":0,\"outcomes\":{\"ok\":5},\"buckets\":[5,0,0,0,0]}]}";

static json_t *parsed(const char *text)
{
	json_t *ret = NULL;

	assert_int_equal(jx_parse(text, strlen(text), &ret, NULL), 0);
	return ret;
}

static void is_drawn(const char *before, const char *now, const struct top_view *v, struct top_size size, const char *want)
{
	json_t *was = before ? parsed(before) : NULL, *is = parsed(now);
	struct str got = STR_INIT;

	top_draw(was, is, v, size, &got);
	assert_string_equal(str_text(&got), want);
	str_fini(&got);
	json_decref(was);
	json_decref(is);
}

#define WIDE (struct top_size){ 200, 0 }
#define HEAD "toolcrib 1.2  serving 1d 02:00   calls 4,824/s  p50 5.6 ms  p99 30 ms  refused 12/s   CPU 61 %  RSS 38 MiB\n" \
	"audit   ok, 4,820 rec/s, batch 71, commit p99 9.9 ms, WAL 3.0 MiB, signed 1 s ago, free 212 GiB   pressure 12 %\n"
#define TENANT "TENANT                    CALLS/s*       P99    RUN   WAIT  DENIED/s  REFUSED/s  FAILED   QUOTA\n"

static void tenants_are_drawn_the_busiest_first(void **state)
{
	const struct top_view v = { .table = TOP_TENANTS };

	(void)state;
	is_drawn(first, second, &v, WIDE, HEAD "\n" TENANT
		 "bolt                         4,824     30 ms      0      0        12        0.0   0.0 %       -\n"
		 "acme                           2.0     1.0 s     18      2       0.0        1.5    25 %    41 %\n"
		 "\\x1b[2Jnew                       -         -      1      0         -          -       -       -");
}

static void each_table_has_its_columns(void **state)
{
	struct top_view v = { .table = TOP_TOOLS };

	(void)state;
	is_drawn(first, second, &v, WIDE, HEAD "\n"
		 "TOOL                      CALLS/s*       P50       P99  DENIED/s  REFUSED/s  FAILED\n"
		 "echo                         4,812    5.6 ms     30 ms       0.0        0.0   0.0 %");
	v.table = TOP_UPSTREAMS;
	is_drawn(first, second, &v, WIDE, HEAD "\n"
		 "UPSTREAM                  CALLS/s*       P50       P99  STATE\n"
		 "web                            2.0     55 ms     99 ms   down\n"
		 "files                          0.0         -         -     up");
}

static void one_sample_has_no_rates(void **state)
{
	const struct top_view v = { .table = TOP_TENANTS };

	(void)state;
	is_drawn(NULL, first, &v, WIDE,
		 "toolcrib 1.2  serving 1d 02:00   calls -/s  p50 -  p99 -  refused -/s   CPU -  RSS 38 MiB\n"
		 "audit   ok, - rec/s, batch -, commit p99 -, WAL 12 KiB, signed 1 s ago, free 977 KiB   pressure 12 %\n\n" TENANT
		 "acme                             -         -      1      0         -          -       -       -\n"
		 "bolt                             -         -      0      0         -          -       -       -");
}

static void a_tenant_sees_itself(void **state)
{
	const struct top_view v = { .table = TOP_TENANTS };

	(void)state;
	is_drawn(NULL, of_tenant, &v, WIDE, "toolcrib 1.2  tenant acme   calls -/s  p50 -  p99 -  refused -/s\n\n" TENANT
		 "acme                             -         -      0      0         -          -       -       -");
}

static void nothing_is_wider_or_longer_than_the_terminal(void **state)
{
	const struct top_view v = { .table = TOP_TENANTS };

	(void)state;
	is_drawn(first, second, &v, (struct top_size){ 30, 6 },
		 "toolcrib 1.2  serving 1d 02:00\n"
		 "audit   ok, 4,820 rec/s, batch\n"
		 "\n"
		 "TENANT                    CALL\n"
		 "bolt                         4\n"
		 "acme                          ");
}

static void a_server_that_refuses_calls_says_why(void **state)
{
	const struct top_view v = { .table = TOP_TOOLS };
	json_t *was = parsed(first), *is = parsed(second);
	struct str got = STR_INIT;

	(void)state;
	(void)json_object_set_new(is, "refusing", json_string("disk full"));
	top_draw(was, is, &v, WIDE, &got);
	assert_non_null(strstr(got.p, "\naudit   REFUSING CALLS: disk full, 4,820 rec/s"));
	str_fini(&got);
	json_decref(was);
	json_decref(is);
}

/* Whatever it is that is asked for a sample. */
static void samples_of_another_kind_are_drawn_too(void **state)
{
	static const char *const samples[] = { "{}", "[]", "{\"tenants\":[{}],\"us\":\"x\"}",
		"{\"tenants\":[{\"name\":\"a\",\"buckets\":[1,2,3],\"outcomes\":7}],\"bounds\":{},\"calls\":[],\"counters\":1}" };
	const struct top_view v = { .table = TOP_TENANTS };

	(void)state;
	for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
		json_t *was = parsed(first), *is = parsed(samples[i]);
		struct str got = STR_INIT;

		top_draw(was, is, &v, WIDE, &got);
		top_draw(is, was, &v, WIDE, &got);
		assert_non_null(strstr(got.p, "TENANT"));
		str_fini(&got);
		json_decref(was);
		json_decref(is);
	}
}

static void type(struct top_view *v, const char *keys)
{
	for (; *keys; keys++)
		assert_int_equal(top_key(v, *keys), TOP_DRAW);
}

static void keys_choose_table_and_column(void **state)
{
	struct top_view v = { .table = TOP_TENANTS };

	(void)state;
	type(&v, "ss");
	assert_int_equal(v.sort, 2);
	type(&v, "ssssss");
	assert_int_equal(v.sort, 0);
	type(&v, "st");
	assert_int_equal(v.table, TOP_TOOLS);
	assert_int_equal(v.sort, 0);
	type(&v, "tt");
	assert_int_equal(v.table, TOP_TENANTS);
	type(&v, "p?");
	assert_true(v.paused && v.help);
	type(&v, "p?");
	assert_false(v.paused || v.help);
	assert_int_equal(top_key(&v, 'x'), TOP_NOTHING);
	assert_int_equal(top_key(&v, 'q'), TOP_QUIT);
}

static void a_filter_is_typed(void **state)
{
	struct top_view v = { .table = TOP_TENANTS };

	(void)state;
	type(&v, "/aqx\x7f");
	assert_true(v.typing);
	type(&v, "\r");
	assert_string_equal(v.filter, "aq");
	assert_false(v.typing);
	type(&v, "/\b\x7f");
	assert_string_equal(v.filter, "");
	type(&v, "x\x01\xff\x1b");
	assert_string_equal(v.filter, "");
	assert_false(v.typing);
	type(&v, "/");
	for (int i = 0; i < TOP_FILTER_SIZE; i++)
		type(&v, "a");
	assert_int_equal(strlen(v.filter), TOP_FILTER_SIZE - 1);
}

static void a_filter_leaves_names_out(void **state)
{
	const struct top_view v = { .table = TOP_TENANTS, .filter = "ol", .paused = true };

	(void)state;
	is_drawn(first, second, &v, WIDE, HEAD "only names with: ol   paused: p goes on\n" TENANT
		 "bolt                         4,824     30 ms      0      0        12        0.0   0.0 %       -");
}

SINGLE_THREAD_SUITE(top)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tenants_are_drawn_the_busiest_first),
		cmocka_unit_test(each_table_has_its_columns),
		cmocka_unit_test(one_sample_has_no_rates),
		cmocka_unit_test(a_tenant_sees_itself),
		cmocka_unit_test(nothing_is_wider_or_longer_than_the_terminal),
		cmocka_unit_test(a_server_that_refuses_calls_says_why),
		cmocka_unit_test(samples_of_another_kind_are_drawn_too),
		cmocka_unit_test(keys_choose_table_and_column),
		cmocka_unit_test(a_filter_is_typed),
		cmocka_unit_test(a_filter_leaves_names_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
