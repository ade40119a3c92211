/* What policy decision points answer, and for how long it may be used again (PD-03, PD-05, PD-06): pure functions.  Then so
 * many questions that one of them is asked at once, over a Unix socket, on a clock that the test steps (PD-08). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../src/pdp/pdp_int.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "net/fetch.h"
#include "suite.h"
#include "tenant/tenant.h"
#include "tmpdir.h"

static const char asked[] = "{\"subject\":{\"type\":\"identity\",\"id\":\"bot\"},\"action\":{\"name\":\"tools/call\"},"
	"\"resource\":{\"type\":\"tool\",\"id\":\"pay\"},\"context\":{}}";
static const struct pdp_sent sent = { "one", asked, sizeof(asked) - 1, "/context/why" };

static struct pdp_meaning read_reply(struct pdp_reply r)
{
	struct pdp_meaning m;

	r.len = strlen(r.body);
	pdp_read_answer(&r, &sent, &m);
	return m;
}

static struct pdp_meaning read_body(const char *body)
{
	return read_reply((struct pdp_reply){ .status = 200, .type = "application/json", .body = body });
}

static void only_a_clear_permit_allows(void **state)
{
	static const char *const good[] = {
		"{\"decision\":true}", " { \"decision\" : true } ", "{\"decision\":true,\"context\":{}}",
		"{\"context\":{\"obligations\":[]},\"decision\":true}", "{\"decision\":true,\"context\":{\"obligations\":{}}}",
		"{\"decision\":true,\"resource\":{\"id\":\"pay\",\"type\":\"tool\"}}",
	};
	static const char *const bad[] = {
		"", "true", "{}", "[]", "[{\"decision\":true}]", "{\"decision\":\"true\"}", "{\"decision\":1}", "{\"decision\":null}",
		"{\"decision\":[true]}", "{\"Decision\":true}", "{\"decision\":true,\"decision\":true}",
		"{\"decision\":true,\"context\":[]}", "{\"decision\":true,\"context\":null}",
		"{\"decision\":true,\"context\":{\"obligations\":[1]}}", "{\"decision\":true,\"context\":{\"obligations\":null}}",
		"{\"decision\":true,\"context\":{\"obligations\":false}}", "{\"decision\":true,\"subject\":{\"type\":\"identity\",\"id\":\"x\"}}",
		"{\"decision\":true,\"action\":\"tools/call\"}", "{\"decision\":true}x", "{\"decision\":true", "\xef\xbb\xbf{\"decision\":true}",
	};

	(void)state;
	for (size_t i = 0; i < NELEMS(good); i++)
		if (read_body(good[i]).word != PDP_ALLOW)
			fail_msg("refused: %s", good[i]);
	for (size_t i = 0; i < NELEMS(bad); i++) {
		struct pdp_meaning m = read_body(bad[i]);

		if (m.word != PDP_NONE || !*m.why)
			fail_msg("%d of %s", (int)m.word, bad[i]);
	}
	assert_int_equal(read_body("{\"decision\":false,\"context\":{\"obligations\":[1]}}").word, PDP_DENY);
}

static void the_head_counts_too(void **state)
{
	static const char *const types[] = { "application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;x" };
	static const char *const others[] = { NULL, "", "text/plain", "application/jsonp", "application/json5", "application/json,text/html",
					      "application/problem+json" };
	struct pdp_reply r = { .status = 200, .type = types[0], .body = "{\"decision\":true}" };

	(void)state;
	for (size_t i = 0; i < NELEMS(types); i++) {
		r.type = types[i];
		assert_int_equal(read_reply(r).word, PDP_ALLOW);
	}
	for (size_t i = 0; i < NELEMS(others); i++) {
		r.type = others[i];
		assert_int_equal(read_reply(r).word, PDP_NONE);
	}
	r.type = types[0];
	r.id = "one";
	assert_int_equal(read_reply(r).word, PDP_ALLOW);
	r.id = "one,one";
	assert_int_equal(read_reply(r).word, PDP_NONE);
	r.id = NULL;
	for (r.status = 100; r.status < 600; r.status++)
		assert_int_equal(read_reply(r).word, r.status == 200 ? PDP_ALLOW : PDP_NONE);
}

static void a_reason_is_cleaned_and_cut(void **state)
{
	struct str body = STR_INIT;
	struct pdp_meaning m;

	(void)state;
	m = read_body("{\"decision\":false,\"context\":{\"why\":\"ask\\u202e them\",\"admin\":\"rule 7\"}}");
	assert_string_equal(m.reason, "ask\\u{202e} them");
	assert_non_null(strstr(m.why, "rule 7"));
	m = read_body("{\"decision\":false,\"context\":{\"why\":{\"en\":\"no text\"}}}");
	assert_string_equal(m.reason, "");
	str_puts(&body, "{\"decision\":false,\"context\":{\"why\":\"");
	for (int i = 0; i < 200; i++)
		str_puts(&body, "\xc3\xa9");
	str_puts(&body, "\"}}");
	m = read_body(str_text(&body));
	assert_true(strlen(m.reason) <= PDP_REASON_MAX && strlen(m.reason) > PDP_REASON_MAX - 4);
	assert_true(text_utf8_valid(m.reason, strlen(m.reason)));
	str_fini(&body);
}

static void what_may_be_kept(void **state)
{
	static const struct { const char *control, *age; uint64_t s; } rows[] = {
		{ NULL, NULL, 0 }, { "", NULL, 0 }, { "max-age=60", NULL, 60 }, { "Max-Age=60", NULL, 60 }, { "private, max-age=60", NULL, 60 },
		{ "max-age=60 , x", NULL, 60 }, { "max-age=60", "59", 1 }, { "max-age=60", "60", 0 }, { "max-age=60", "x", 0 },
		{ "max-age=60, no-store", NULL, 0 }, { "no-store,max-age=60", NULL, 0 }, { "NO-CACHE, max-age=60", NULL, 0 },
		{ "no-cache=\"a, b\", max-age=60", NULL, 0 }, { "x=\"a, no-store\", max-age=60", NULL, 60 }, { "max-age=60, max-age=60", NULL, 0 },
		{ "max-age", NULL, 0 }, { "max-age=", NULL, 0 }, { "max-age=\"60\"", NULL, 0 }, { "max-age=-1", NULL, 0 }, { "max-age=1.5", NULL, 0 },
		{ "max-age=99999999999999999999", NULL, 0 }, { "max-age=99999999999", NULL, 31536000 }, { "s-maxage=60", NULL, 0 },
		{ "xmax-age=60", NULL, 0 }, { "max-age=0", NULL, 0 }, { "max-age =60", NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct pdp_reply r = { .status = 200, .type = "application/json", .cache = rows[i].control, .age = rows[i].age,
				       .body = i % 2 ? "{\"decision\":true}" : "{\"decision\":false}" };

		if (read_reply(r).max_age_s != rows[i].s)
			fail_msg("%s: %llu", rows[i].control, (unsigned long long)read_reply(r).max_age_s);
		r.body = "{}";
		assert_int_equal(read_reply(r).max_age_s, 0);
	}
}

static int metadata(const char *text, char ret[128])
{
	struct str endpoint = STR_INIT;
	int rc = pdp_read_metadata(text, strlen(text), "https://pdp.example.com", &endpoint, NULL);

	(void)snprintf(ret, 128, "%s", str_text(&endpoint));
	str_fini(&endpoint);
	return rc;
}

static void metadata_of_another_is_not_used(void **state)
{
	static const char *const bad[] = {
		"", "[]", "{}", "{\"policy_decision_point\":\"https://pdp.example.com\"}",
#define META(point, endpoint) "{\"policy_decision_point\":\"" point "\",\"access_evaluation_endpoint\":\"" endpoint "\"}"
		META("https://pdp.example.com/", "https://pdp.example.com/x"), META("https://evil.example", "https://pdp.example.com/x"),
		META("https://pdp.example.com", "https://evil.example/x"), META("https://pdp.example.com", "http://pdp.example.com/x"),
		META("https://pdp.example.com", "https://pdp.example.com:8443/x"), META("https://pdp.example.com", "https://pdp.example.com@evil/x"),
		META("https://pdp.example.com", "/x"),
	};
	char text[128];

	(void)state;
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_true(metadata(bad[i], text) < 0 && !*text);
	assert_int_equal(metadata(META("https://pdp.example.com", "https://pdp.example.com/eval/v1"), text), 0);
	assert_string_equal(text, "https://pdp.example.com/eval/v1");
}

/* --- so many at once (PD-08) */

#define TIMEOUT_MS 300
#define MANY (PDP_RUNNING_MAX + PDP_WAITING_MAX)

struct many {
	struct ev_loop *loop;
	struct fetcher *fetcher;
	struct pdps *pdps;
	struct conf_pdp point;
	struct conf conf;
	char *dir;
	int listener;
	struct asked { struct pdp_asking *a; bool done; enum pdp_word word; char why[PDP_WHY_SIZE]; } asked[MANY + 1];
};

static int open_many(void **state)
{
	struct many *m = mem_zalloc(sizeof(*m));
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	clock_fake(UINT64_C(1800000000000000), UINT64_C(1000000000));
	m->dir = tmpdir_make();
	m->loop = ev_loop_new();
	m->fetcher = fetcher_new(m->loop);
	m->point = (struct conf_pdp){ .name = mem_strdup("slow"), .path = mem_strdup("/x"), .timeout_ms = TIMEOUT_MS,
				      .socket = path_join(m->dir, "s") };
	m->conf = (struct conf){ .pdps = &m->point, .npdps = 1 };
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", m->point.socket);
	m->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(m->listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(m->listener, PDP_RUNNING_MAX + 1), 0);
	assert_int_equal(pdps_open(&(struct pdps_env){ .loop = m->loop, .fetcher = m->fetcher, .conf = &m->conf }, &m->pdps, NULL), 0);
	*state = m;
	return 0;
}

static int close_many(void **state)
{
	struct many *m = *state;

	for (size_t i = 0; i < NELEMS(m->asked); i++)
		pdp_forget(&m->asked[i].a);
	pdps_close(&m->pdps);
	fetcher_free(&m->fetcher);
	ev_loop_free(&m->loop);
	close(m->listener);
	tmpdir_remove(m->dir);
	free(m->point.name);
	free(m->point.path);
	free(m->point.socket);
	free(m);
	clock_real();
	return 0;
}

static void on_verdict(void *arg, const struct pdp_verdict *v)
{
	struct asked *one = arg;

	one->done = true;
	one->word = v->word;
	(void)snprintf(one->why, sizeof(one->why), "%s", v->against ? v->against->why : "");
}

static void ask(struct many *m, size_t i)
{
	static const uint8_t id[16] = { 1 };
	static struct reg_def def = { .kind = REG_TOOL, .name = "pay", .text = "{\"name\":\"pay\"}", .len = 14 };
	static const struct reg_tool tool = { .name = "pay", .full_name = "pay", .def = &def };
	static const struct reg_compiled compiled = { .nredact = 0 };
	static const struct principal who = { .tenant = "acme", .name = "bot" };
	json_t *args = json_object();
	const struct pdp_question q = { .who = &who, .tool = &tool, .compiled = &compiled, .kind = REG_TOOL, .args = args,
					.args_text = "{}", .args_len = 2, .call_id = id };

	m->asked[i].a = pdp_ask(m->pdps, &q, on_verdict, &m->asked[i]);
	if (pdp_verdict(m->asked[i].a))
		on_verdict(&m->asked[i], pdp_verdict(m->asked[i].a));
	json_decref(args);
}

static void view(void *arg, const struct pdp_view *v)
{
	*(struct pdp_view *)arg = *v;
}

static void assert_at_once(struct many *m, size_t running, size_t waiting)
{
	struct pdp_view v;

	pdps_each(m->pdps, view, &v);
	assert_int_equal(v.running, running);
	assert_int_equal(v.waiting, waiting);
}

/* Whoever has waited longest there is allowed. */
static void answer_one(struct many *m, bool *done)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 17\r\n\r\n{\"decision\":true}";
	bool never = false;
	char buf[4096];
	ssize_t n = 0;
	int fd, tries = 0;

	do
		(void)ev_loop_run_until(m->loop, &never, 1);
	while ((fd = accept(m->listener, NULL, NULL)) < 0 && ++tries < 10000);
	assert_true(fd >= 0);
	for (int i = 0; (n <= 0 || buf[n - 1] != '}') && i < 10000; i++) {
		(void)ev_loop_run_until(m->loop, &never, 1);
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	}
	assert_int_equal(write(fd, answer, strlen(answer)), strlen(answer));
	assert_true(ev_loop_run_until(m->loop, done, 10000));
	close(fd);
}

static void so_many_are_asked_at_once_and_the_next_waits(void **state)
{
	struct many *m = *state;

	for (size_t i = 0; i < PDP_RUNNING_MAX; i++)
		ask(m, i);
	assert_at_once(m, PDP_RUNNING_MAX, 0);
	ask(m, PDP_RUNNING_MAX);
	assert_at_once(m, PDP_RUNNING_MAX, 1);
	answer_one(m, &m->asked[0].done);
	assert_int_equal(m->asked[0].word, PDP_ALLOW);
	assert_at_once(m, PDP_RUNNING_MAX, 0);  /* and its turn has come */
	assert_false(m->asked[PDP_RUNNING_MAX].done);
}

static void who_waits_too_long_is_refused(void **state)
{
	struct many *m = *state;
	const uint64_t before = metric_get(METRIC_pdp_crowded);

	for (size_t i = 0; i <= PDP_RUNNING_MAX; i++)
		ask(m, i);
	clock_step(UINT64_C(1000) * TIMEOUT_MS);
	assert_true(ev_loop_run_until(m->loop, &m->asked[PDP_RUNNING_MAX].done, 10000));
	assert_int_equal(m->asked[PDP_RUNNING_MAX].word, PDP_NONE);
	assert_string_equal(m->asked[PDP_RUNNING_MAX].why, "too many questions are under way");
	assert_int_equal(m->asked[0].word, PDP_NONE);
	assert_string_equal(m->asked[0].why, "it did not answer in time");
	assert_int_equal(metric_get(METRIC_pdp_crowded) - before, 1);
}

static void so_many_wait_and_the_next_is_refused(void **state)
{
	struct many *m = *state;
	const uint64_t before = metric_get(METRIC_pdp_crowded);

	for (size_t i = 0; i < MANY; i++)
		ask(m, i);
	assert_at_once(m, PDP_RUNNING_MAX, PDP_WAITING_MAX);
	assert_int_equal(metric_get(METRIC_pdp_crowded) - before, 0);
	ask(m, MANY);
	assert_true(m->asked[MANY].done);
	assert_int_equal(m->asked[MANY].word, PDP_NONE);
	assert_string_equal(m->asked[MANY].why, "too many questions are under way");
	assert_int_equal(metric_get(METRIC_pdp_crowded) - before, 1);
	assert_at_once(m, PDP_RUNNING_MAX, PDP_WAITING_MAX);
	pdp_forget(&m->asked[MANY - 1].a);      /* who goes away makes room */
	assert_at_once(m, PDP_RUNNING_MAX, PDP_WAITING_MAX - 1);
}

SINGLE_THREAD_SUITE(pdp)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_clear_permit_allows),
		cmocka_unit_test(the_head_counts_too),
		cmocka_unit_test(a_reason_is_cleaned_and_cut),
		cmocka_unit_test(what_may_be_kept),
		cmocka_unit_test(metadata_of_another_is_not_used),
		cmocka_unit_test_setup_teardown(so_many_are_asked_at_once_and_the_next_waits, open_many, close_many),
		cmocka_unit_test_setup_teardown(who_waits_too_long_is_refused, open_many, close_many),
		cmocka_unit_test_setup_teardown(so_many_wait_and_the_next_is_refused, open_many, close_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
