/* The check of tokens against an issuer that answers as a script says: what is remembered, when keys are fetched, what
 * waits, and what is told to those who have no token (SEC S-407 to S-411, MCP A-10). */
#include "config.h"

#include "rows.h"

#include <stdio.h>

#include "../../src/oauth/oauth_int.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "json/json.h"
#include "net/fetch.h"
#include "tenant/scope.h"

#include "http_peer.h"
#include "token.h"
#include "suite.h"

#define NOW_S 1800000000ull
#define SECOND_US 1000000ull
#define ISSUER "https://login.example.com"
#define OTHER "https://other.example.com"
#define RESOURCE "https://tools.example.com/mcp"
#define PATIENCE_MS 60000
#define INTERVAL_S 60
#define MAX_AGE_S 3600

static struct rows store;              /* of all tests */
static int64_t acme;

static struct world {
	struct ev_loop *loop;
	struct fetcher *fetcher;
	struct tenants *tenants;
	struct oauth *o;
	struct peer peer, other;        /* of the issuers */
	struct conf conf;
	struct conf_issuer issuer[2];
	struct token_key *keys[2];
	struct str answer;              /* of the peer */
	unsigned accepted, refused;
	enum cred_refusal why;
	char seen[200];
} w;

static void refused(void *arg, const struct cred_source *source, enum cred_refusal why, int64_t tenant_id, const char *accessor)
{
	w.refused++;
	w.why = why;
}

static void accepted(void *arg, const struct cred_source *source, const struct principal *who, const struct oauth_seen *seen)
{
	w.accepted++;
	snprintf(w.seen, sizeof w.seen, "%s %s %s", seen->issuer, seen->client, seen->commitment);
}

static int secret(void *arg, const char *name, char **ret, size_t *ret_len, struct err *err)
{
	*ret_len = strlen(name);
	*ret = secret_alloc(*ret_len + 1);
	memcpy(*ret, name, *ret_len + 1);
	return 0;
}

/* The peer publishes these keys. */
static void publish(const char *first, const char *second)
{
	const char *kids[] = { first, second };
	struct str set = STR_INIT;

	str_puts(&set, "{\"keys\":[");
	for (size_t i = 0; i < 2; i++) {
		if (!kids[i])
			continue;
		str_puts(&set, set.p[set.len - 1] == '[' ? "" : ",");
		token_key_jwk(w.keys[i], kids[i], NULL, &set);
	}
	str_puts(&set, "]}");
	str_reset(&w.answer);
	str_printf(&w.answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", set.len, set.p);
	peer_says(&w.peer, w.answer.p, true);
	str_fini(&set);
}

/* The first issuers of the configuration. */
static void open_issuers(size_t n)
{
	static const uint8_t master[32] = { 7 };

	oauth_close(&w.o);
	w.conf.nissuers = n;
	ROWS_OK(oauth_open(&(struct oauth_env){ .loop = w.loop, .fetcher = w.fetcher, .tenants = w.tenants, .conf = &w.conf,
			   .master = master, .secret = secret, .accepted = accepted }, &w.o, &rows_err));
}

static struct conf_issuer issuer_at(const char *name, unsigned port)
{
	static struct conf_word words[2];
	static char *read_scopes[] = { (char *)(uintptr_t)"tools:list" }, *use_scopes[] = { (char *)(uintptr_t)"tools:call:*" };

	words[0] = (struct conf_word){ (char *)(uintptr_t)"read", read_scopes, 1 };
	words[1] = (struct conf_word){ (char *)(uintptr_t)"use", use_scopes, 1 };
	return (struct conf_issuer){ .issuer = mem_strdup(name), .jwks_uri = mem_printf("http://127.0.0.1:%u/keys", port),
		.allow = { mem_printf("127.0.0.1:%u", port) }, .nallow = 1, .tenant = { .fixed = (char *)(uintptr_t)"acme" },
		.words = words, .nwords = 2 };
}

static int open_store(void **state)
{
	rows_open(&store);
	acme = rows_tenant(&store, "acme");
	return 0;
}

static int close_store(void **state)
{
	rows_close(&store);
	return 0;
}

static int set_up(void **state)
{
	static const uint8_t master[32] = { 7 };

	w = (struct world){ .answer = STR_INIT };
	clock_fake(NOW_S * SECOND_US, 1000 * SECOND_US);
	ROWS_OK(tenants_open(master, store.db, &w.tenants, &rows_err));
	tenants_watch(w.tenants, &(struct cred_watch){ .refused = refused });
	w.loop = ev_loop_new();
	w.fetcher = fetcher_new(w.loop);
	peer_open(&w.peer, w.loop, "127.0.0.1:0");
	peer_open(&w.other, w.loop, "127.0.0.1:0");
	for (size_t i = 0; i < 2; i++)
		w.keys[i] = token_key_new("EdDSA", 0);
	w.issuer[0] = issuer_at(ISSUER, w.peer.port);
	w.issuer[1] = issuer_at(OTHER, w.other.port);
	w.conf.issuers = w.issuer;
	w.conf.oauth_jwks_interval_s = INTERVAL_S;
	w.conf.oauth_jwks_max_age_s = MAX_AGE_S;
	open_issuers(1);
	publish("a", NULL);
	return 0;
}

static int tear_down(void **state)
{
	oauth_close(&w.o);
	fetcher_free(&w.fetcher);
	peer_close(&w.peer);
	peer_close(&w.other);
	tenants_close(&w.tenants);
	ev_loop_free(&w.loop);
	for (size_t i = 0; i < 2; i++) {
		token_key_free(&w.keys[i]);
		free(w.issuer[i].issuer);
		free(w.issuer[i].jwks_uri);
		free(w.issuer[i].allow[0]);
	}
	str_fini(&w.answer);
	clock_real();
	return 0;
}

/* --- one check */

struct verdict { bool done; int rc; struct oauth_pass pass; struct err err; };

static void on_done(void *arg, int rc, const struct oauth_pass *pass, const struct err *err)
{
	struct verdict *v = arg;

	assert_false(v->done);
	v->done = true;
	v->rc = rc;
	v->pass = *pass;
	v->err = *err;
}

static char *token_of(const char *issuer, size_t by, const char *kid, const char *sub, const char *scope)
{
	char *header = mem_printf("{\"alg\":\"EdDSA\",\"kid\":\"%s\"}", kid);
	char *claims = mem_printf("{\"iss\":\"%s\",\"aud\":\"" RESOURCE "\",\"exp\":%llu,\"sub\":\"%s\",\"client_id\":\"editor\","
				  "\"scope\":\"%s\"}", issuer, (unsigned long long)(clock_wall_us() / SECOND_US + 600), sub, scope);
	struct str out = STR_INIT;

	token_sign(w.keys[by], header, claims, &out);
	free(header);
	free(claims);
	return str_take(&out);
}

static char *token(size_t by, const char *kid, const char *sub, const char *scope)
{
	return token_of(ISSUER, by, kid, sub, scope);
}

static int begin(const char *text, struct verdict *v, struct oauth_check **ret)
{
	const struct cred_source source = { "127.0.0.9", 4 };

	*v = (struct verdict){ .rc = 1 };
	*ret = NULL;
	v->rc = oauth_check(w.o, &(struct oauth_ask){ text, strlen(text), RESOURCE, &source }, on_done, v, &v->pass, ret, &v->err);
	v->done = v->rc <= 0;
	assert_int_equal(*ret != NULL, v->rc == 1);
	return v->rc;
}

/* To its end.  Takes the text. */
static int ask(char *text, struct verdict *v)
{
	struct oauth_check *c;

	if (begin(text, v, &c) == 1)
		assert_true(ev_loop_run_until(w.loop, &v->done, PATIENCE_MS));
	free(text);
	principal_unref(&v->pass.who);
	return v->rc;
}

static int ask_as(size_t by, const char *kid)
{
	struct verdict v;

	return ask(token(by, kid, "alice", "read use"), &v);
}

static void step_s(uint64_t s)
{
	clock_step(s * SECOND_US);
}

static uint64_t counter(enum metric_id m)
{
	return metric_get(m);
}

/* --- tests */

static void keys_are_fetched_for_the_first_token(void **state)
{
	struct verdict v[3];
	struct oauth_check *c[3];
	char *text = token(0, "a", "alice", "read");

	assert_int_equal(w.peer.requests, 0);
	for (size_t i = 0; i < 3; i++)          /* all wait for one fetch */
		assert_int_equal(begin(text, &v[i], &c[i]), 1);
	for (size_t i = 0; i < 3; i++) {
		assert_true(ev_loop_run_until(w.loop, &v[i].done, PATIENCE_MS));
		assert_int_equal(v[i].rc, 0);
		assert_string_equal(v[i].pass.who->tenant, "acme");
		assert_true(scope_has(v[i].pass.who->scopes, SCOPE_TOOLS_LIST));
		assert_false(scope_has(v[i].pass.who->scopes, SCOPE_TOOLS_CALL));
		principal_unref(&v[i].pass.who);
	}
	assert_int_equal(w.peer.requests, 1);
	assert_non_null(strstr(w.seen, ISSUER " editor "));
	assert_int_equal(ask(text, &v[0]), 0);
	assert_int_equal(w.peer.requests, 1);
}

/* SEC S-409: whatever comes in, one fetch in an interval; and a kid that a fetch did not bring is none. */
static void unknown_kids_fetch_once_in_an_interval(void **state)
{
	assert_int_equal(ask_as(0, "a"), 0);
	step_s(1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(ask_as(1, "b"), ERR_UNREACHABLE);
	assert_int_equal(w.peer.requests, 1);
	step_s(INTERVAL_S - 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(ask_as(1, "b"), ERR_DENIED);
	assert_int_equal(w.why, CRED_UNKNOWN);
	assert_int_equal(w.peer.requests, 2);
	step_s(1);
	assert_int_equal(ask_as(1, "b"), ERR_DENIED);
	assert_int_equal(ask_as(1, "c"), ERR_UNREACHABLE);      /* nobody can tell yet */
	assert_int_equal(w.peer.requests, 2);
	publish("a", "b");
	step_s(INTERVAL_S);
	assert_int_equal(ask_as(1, "b"), 0);
	assert_int_equal(ask_as(0, "a"), 0);
	assert_int_equal(ask_as(1, "c"), ERR_DENIED);
	assert_int_equal(w.peer.requests, 3);
}

/* Not 401: its client would throw away a token that is good. */
static void key_from_right_behind_a_fetch_is_waited_for(void **state)
{
	struct verdict early, late[2];
	struct oauth_check *c[2];
	char *text = token(1, "b", "alice", "read");

	assert_int_equal(ask_as(0, "a"), 0);
	publish("a", "b");
	step_s(1);
	assert_int_equal(ask(mem_strdup(text), &early), ERR_UNREACHABLE);
	assert_int_equal(early.err.retry_ms, (INTERVAL_S - 1) * 1000 + 1);
	assert_int_equal(w.why, CRED_UNAVAILABLE);
	step_s(INTERVAL_S - 1 - OAUTH_NEAR_MS / 1000);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(begin(text, &late[i], &c[i]), 1);
	assert_int_equal(w.peer.requests, 1);
	step_s(OAUTH_NEAR_MS / 1000);
	for (size_t i = 0; i < 2; i++) {
		assert_true(ev_loop_run_until(w.loop, &late[i].done, PATIENCE_MS));
		assert_int_equal(late[i].rc, 0);
		principal_unref(&late[i].pass.who);
	}
	assert_int_equal(w.peer.requests, 2);
	assert_int_equal(ask(text, &early), 0);
}

static void wait_for_a_fetch_ends_with_it(void **state)
{
	struct oauth_check *c[2];
	struct verdict v[2];
	char *text = token(1, "b", "alice", "read");

	assert_int_equal(ask_as(0, "a"), 0);
	peer_says(&w.peer, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", true);
	step_s(INTERVAL_S - 1);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(begin(text, &v[i], &c[i]), 1);
	oauth_check_cancel(&c[0]);
	step_s(1);
	assert_true(ev_loop_run_until(w.loop, &v[1].done, PATIENCE_MS));
	assert_int_equal(v[1].rc, ERR_UNREACHABLE);
	assert_false(v[0].done);
	assert_int_equal(w.peer.requests, 2);
	free(text);
}

/* What the issuer has withdrawn is over, whenever the token comes. */
static void withdrawn_key_is_refused_at_once(void **state)
{
	assert_int_equal(ask_as(0, "a"), 0);
	publish(NULL, "b");
	step_s(INTERVAL_S);
	assert_int_equal(ask_as(1, "b"), 0);
	step_s(1);
	assert_int_equal(ask_as(0, "a"), ERR_DENIED);
	assert_int_equal(w.why, CRED_UNKNOWN);
	assert_int_equal(w.peer.requests, 2);
	step_s(INTERVAL_S);
	assert_int_equal(ask_as(1, "c"), ERR_DENIED);           /* and it stays so behind the next fetch */
	step_s(1);
	assert_int_equal(ask_as(0, "a"), ERR_DENIED);
	assert_int_equal(w.peer.requests, 3);
}

static void kids_are_remembered_up_to_a_limit(void **state)
{
	uint64_t forgotten = counter(METRIC_oauth_kids_forgotten);
	struct unknown_keys *k = unknown_keys_new();
	char name[16];

	for (unsigned i = 0; i < OAUTH_KIDS_MAX; i++) {
		snprintf(name, sizeof name, "%u", i);
		assert_int_equal(unknown_keys_see(k, name, i), i);
	}
	assert_int_equal(unknown_keys_see(k, "0", 1000), 0);
	assert_int_equal(counter(METRIC_oauth_kids_forgotten), forgotten);
	assert_int_equal(unknown_keys_see(k, "more", 1000), 1000);
	assert_int_equal(counter(METRIC_oauth_kids_forgotten), forgotten + 1);
	assert_int_equal(unknown_keys_see(k, "0", 2000), 0);            /* named meanwhile */
	assert_int_equal(unknown_keys_see(k, "1", 2000), 2000);
	unknown_keys_free(&k);
}

/* Strangers can have keys fetched, and must not fill the log by that; nor does a reload. */
static void first_use_is_told_once_however_often_keys_are_fetched(void **state)
{
	char *text = token(0, "a", "alice", "read");
	struct verdict v;

	assert_int_equal(ask(mem_strdup(text), &v), 0);
	assert_int_equal(w.accepted, 1);
	step_s(INTERVAL_S);
	assert_int_equal(ask_as(1, "b"), ERR_DENIED);
	assert_int_equal(w.peer.requests, 2);
	assert_int_equal(ask(mem_strdup(text), &v), 0);
	oauth_reload(w.o);
	assert_int_equal(ask(text, &v), 0);
	assert_int_equal(w.accepted, 1);
}

static void old_keys_stay_until_new_ones_are_read(void **state)
{
	static const char *const bad[] = { "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n" };
	uint64_t wait_s = INTERVAL_S;

	assert_int_equal(ask_as(0, "a"), 0);
	for (size_t i = 0; i < NELEMS(bad); i++) {
		unsigned before = w.peer.requests;

		peer_says(&w.peer, bad[i], true);
		step_s(wait_s);
		assert_int_equal(ask_as(1, "b"), ERR_UNREACHABLE);
		assert_int_equal(w.peer.requests, before + 1);
		assert_int_equal(ask_as(0, "a"), 0);
		wait_s = INTERVAL_S << i;       /* the first failure waits as long as a success, then twice as long */
		step_s(wait_s - OAUTH_NEAR_MS / 1000 - 1);
		assert_int_equal(ask_as(1, "b"), ERR_UNREACHABLE);
		assert_int_equal(w.peer.requests, before + 1);
		wait_s = OAUTH_NEAR_MS / 1000 + 1;
	}
	step_s(INTERVAL_S << 2);
	publish(NULL, "b");
	assert_int_equal(ask_as(1, "b"), 0);
	assert_int_equal(ask_as(0, "a"), ERR_DENIED);   /* revoked by its issuer, and forgotten here */
}

/* Not 401: the token may be good. */
static void keys_that_are_too_old_are_no_keys(void **state)
{
	struct verdict v;

	assert_int_equal(ask_as(0, "a"), 0);
	peer_says(&w.peer, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", true);
	step_s(MAX_AGE_S - 1);
	assert_int_equal(ask_as(0, "a"), 0);
	step_s(1);
	assert_int_equal(ask(token(0, "a", "bob", "read"), &v), ERR_UNREACHABLE);
	assert_true(v.err.retry_ms > 0);
	assert_int_equal(w.why, CRED_UNAVAILABLE);
	publish("a", NULL);
	step_s(INTERVAL_S * 2);
	assert_int_equal(ask_as(0, "a"), 0);
}

static void last_done(void *arg, int rc, const struct err *err)
{
	if (arg)
		*(bool *)arg = true;
}

/* Requests of tools, to nobody who answers. */
struct tools {
	struct fetch *all[FETCH_RUNNING_MAX];
	size_t n;
	struct fetch_allow allow;
	struct fetch_policy policy;
	struct arena *mem;
	bool done;
};

/* As many as one tenant may have, or with all of them as many as there may be. */
static void tools_ask(struct tools *t, size_t n)
{
	static const struct fetch_sink sink = { .done = last_done };
	const size_t one = FETCH_RUNNING_MAX - FETCH_KEPT;
	char *url = mem_printf("http://127.0.0.1:%u/", w.other.port), scope[32];

	*t = (struct tools){ .n = n, .mem = arena_new(4096), .policy = { .allow = &t->allow, .nallow = 1 } };
	ROWS_OK(fetch_allow_parse(w.issuer[1].allow[0], "", t->mem, &t->allow, &rows_err));
	for (size_t i = 0; i < n; i++) {
		snprintf(scope, sizeof(scope), "tenant%zu", i < one ? 0 : i / FETCH_POOL_SHARE);
		ROWS_OK(fetch_start(w.fetcher, &(struct fetch_req){ .method = "GET", .url = url, .policy = &t->policy, .scope = scope },
				    &sink, i + 1 < n ? NULL : &t->done, &t->all[i], &rows_err));
	}
	free(url);
}

static void tools_stop(struct tools *t)
{
	for (size_t i = 0; i < t->n; i++)
		fetch_cancel(t->all[i]);
	assert_true(ev_loop_run_until(w.loop, &t->done, PATIENCE_MS));
	arena_free(&t->mem);
}

/* SEC S-804 */
static void tools_of_one_tenant_shut_out_no_fetch(void **state)
{
	static struct tools tools;

	tools_ask(&tools, FETCH_RUNNING_MAX - FETCH_KEPT);
	assert_int_equal(ask_as(0, "a"), 0);
	tools_stop(&tools);
}

/* Tools that ask for much at once must not shut out those with tokens for a whole interval. */
static void a_fetch_without_a_place_is_tried_again_soon(void **state)
{
	static struct tools tools;
	struct verdict v;

	tools_ask(&tools, FETCH_RUNNING_MAX);
	assert_int_equal(ask(token(0, "a", "alice", "read"), &v), ERR_UNREACHABLE);
	assert_in_range(v.err.retry_ms, 1, 1001);
	tools_stop(&tools);
	step_s(1);
	assert_int_equal(ask_as(0, "a"), 0);
}

/* Nor does a check wait for a fetch that is not made. */
static void wait_ends_when_there_is_no_place_for_the_fetch(void **state)
{
	static struct tools tools;
	char *text = token(1, "b", "alice", "read");
	struct oauth_check *c;
	struct verdict v;

	assert_int_equal(ask_as(0, "a"), 0);
	publish("a", "b");
	step_s(INTERVAL_S - 1);
	assert_int_equal(begin(text, &v, &c), 1);
	step_s(1);
	tools_ask(&tools, FETCH_RUNNING_MAX);
	assert_true(ev_loop_run_until(w.loop, &v.done, PATIENCE_MS));
	assert_int_equal(v.rc, ERR_UNREACHABLE);
	tools_stop(&tools);
	assert_int_equal(begin(text, &v, &c), 1);               /* BUSY is over soon: waited for */
	step_s(1);
	assert_true(ev_loop_run_until(w.loop, &v.done, PATIENCE_MS));
	assert_int_equal(v.rc, 0);
	principal_unref(&v.pass.who);
	free(text);
}

static void waiting_room_has_a_limit(void **state)
{
	static struct verdict v[OAUTH_WAITING_MAX + 1];
	static struct oauth_check *c[OAUTH_WAITING_MAX + 1];
	char *text = token(0, "a", "alice", "read");
	uint64_t full = counter(METRIC_oauth_checks_refused);

	w.peer.answer = NULL;           /* silence */
	for (size_t i = 0; i < OAUTH_WAITING_MAX; i++)
		assert_int_equal(begin(text, &v[i], &c[i]), 1);
	assert_int_equal(begin(text, &v[OAUTH_WAITING_MAX], &c[OAUTH_WAITING_MAX]), ERR_UNREACHABLE);
	assert_int_equal(counter(METRIC_oauth_checks_refused), full + 1);
	oauth_check_cancel(&c[0]);
	assert_int_equal(begin(text, &v[OAUTH_WAITING_MAX], &c[OAUTH_WAITING_MAX]), 1);
	for (size_t i = 1; i <= OAUTH_WAITING_MAX; i++)
		oauth_check_cancel(&c[i]);
	free(text);
}

/* n checks that wait.  Their verdicts stay until the next call. */
static struct oauth_check **crowd(const char *text, size_t n)
{
	static struct verdict v[OAUTH_WAITING_MAX];
	struct oauth_check **c = mem_calloc(n, sizeof *c);

	for (size_t i = 0; i < n; i++)
		assert_int_equal(begin(text, &v[i], &c[i]), 1);
	return c;
}

static void disperse(struct oauth_check **c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		oauth_check_cancel(&c[i]);
	free(c);
}

/* SEC S-804: whoever floods an issuer that is silent fills its places and the common ones, and no more. */
static void silent_issuer_takes_no_places_of_others(void **state)
{
	const size_t share = OAUTH_WAITING_MAX / 4, most = OAUTH_WAITING_MAX - share;
	char *text = token(0, "a", "alice", "read"), *other = token_of(OTHER, 0, "a", "bob", "read");
	struct oauth_check **flood, **rest, *c;
	uint64_t full;
	struct verdict v;

	open_issuers(2);
	peer_says(&w.other, w.peer.answer, true);
	w.peer.answer = NULL;
	flood = crowd(text, most);
	full = counter(METRIC_oauth_checks_refused);
	assert_int_equal(begin(text, &v, &c), ERR_UNREACHABLE);
	assert_int_equal(counter(METRIC_oauth_checks_refused), full + 1);
	assert_true(v.err.retry_ms > 0);
	assert_int_equal(ask(mem_strdup(other), &v), 0);
	assert_string_equal(v.pass.issuer->conf->issuer, OTHER);
	/* Nor does a second one that falls silent have more than its own. */
	w.other.answer = NULL;
	step_s(MAX_AGE_S);
	free(other);
	other = token_of(OTHER, 0, "a", "bob", "read");
	rest = crowd(other, share);
	assert_int_equal(begin(other, &v, &c), ERR_UNREACHABLE);
	assert_int_equal(counter(METRIC_oauth_checks_refused), full + 2);
	assert_int_equal(counter(METRIC_oauth_checks_waiting), OAUTH_WAITING_MAX);
	oauth_check_cancel(&flood[0]);          /* a common place */
	assert_int_equal(begin(other, &v, &c), 1);
	assert_int_equal(begin(text, &v, &flood[0]), ERR_UNREACHABLE);
	disperse(flood, most);
	disperse(rest, share);
	oauth_check_cancel(&c);
	assert_int_equal(counter(METRIC_oauth_checks_waiting), 0);
	free(text);
	free(other);
}

/* Questions about opaque tokens are requests of the fetcher: neither other issuers' keys nor tools may go without. */
static void questions_about_tokens_have_a_limit(void **state)
{
	char *uri = w.issuer[0].jwks_uri;
	uint64_t full = counter(METRIC_oauth_introspections_refused);
	struct oauth_check **flood, *c;
	struct verdict v;

	w.issuer[0].jwks_uri = NULL;
	w.issuer[0].ask_uri = uri;
	w.issuer[0].ask_client = w.issuer[0].ask_secret = (char *)(uintptr_t)"toolcrib";
	open_issuers(2);
	peer_says(&w.other, w.peer.answer, true);
	w.peer.answer = NULL;
	flood = crowd("opaque", OAUTH_ASKING_MAX);
	assert_int_equal(counter(METRIC_oauth_introspections_refused), full);
	assert_int_equal(begin("opaque", &v, &c), ERR_UNREACHABLE);
	assert_int_equal(counter(METRIC_oauth_introspections_refused), full + 1);
	assert_int_equal(ask(token_of(OTHER, 0, "a", "bob", "read"), &v), 0);
	oauth_check_cancel(&flood[0]);
	assert_int_equal(begin("opaque", &v, &flood[0]), 1);
	disperse(flood, OAUTH_ASKING_MAX);
	w.issuer[0].jwks_uri = uri;
}

static void cache_holds_at_its_limit_and_ends(void **state)
{
	const struct oauth_pass none = { 0 };
	struct oauth_cache *cache = oauth_cache_new(3);
	uint64_t evicted = counter(METRIC_oauth_tokens_evicted);
	uint8_t key[5][DIGEST_SIZE];
	struct principal *who = mem_zalloc(sizeof *who);
	struct oauth_pass pass = { who, NULL }, got = none;

	who->refs = 1;
	for (size_t i = 0; i < 5; i++)
		oauth_cache_key("token", 5, (const char *[]){ "a", "b", "c", "d", "e" }[i], key[i]);
	for (size_t i = 0; i < 3; i++)
		assert_true(oauth_cache_put(cache, key[i], &pass, 100));
	assert_int_equal(counter(METRIC_oauth_tokens_evicted), evicted);
	assert_true(oauth_cache_get(cache, key[0], 99, &got));          /* used: the next one makes room */
	assert_true(oauth_cache_put(cache, key[3], &pass, 100));
	assert_int_equal(counter(METRIC_oauth_tokens_evicted), evicted + 1);
	assert_true(oauth_cache_get(cache, key[0], 99, &got));
	assert_false(oauth_cache_get(cache, key[1], 99, &got));
	assert_false(oauth_cache_get(cache, key[2], 100, &got));        /* over */
	assert_false(oauth_cache_put(cache, key[2], &pass, 200));       /* but it was there */
	assert_true(oauth_cache_get(cache, key[2], 100, &got));
	oauth_cache_expire(cache, NULL);
	assert_false(oauth_cache_get(cache, key[0], 1, &got));
	assert_false(oauth_cache_put(cache, key[0], &pass, 100));
	oauth_cache_free(&cache);
	assert_int_equal(who->refs, 1);
	principal_unref(&who);
}

/* A token of a subject that finds no place is no bad token: it is not punished, and may come again. */
static void a_tenant_full_of_subjects_takes_who_is_known(void **state)
{
	struct scopes *none = NULL;
	struct verdict v;

	assert_int_equal(ask_as(0, "a"), 0);
	ROWS_OK(scopes_parse("", 0, &none, &rows_err));
	for (unsigned i = 1; i < TENANT_SUBJECTS_MAX; i++) {
		char sub[16];
		const struct principal_claims claims = { "acme", sub, none, clock_wall_us() + SECOND_US, AUDIT_AUTHN_JWT, false };
		struct principal *who = NULL;

		snprintf(sub, sizeof sub, "s %u", i);
		ROWS_OK(principal_from_claims(w.tenants, &claims, &who, &rows_err));
		principal_unref(&who);
	}
	scopes_unref(&none);
	assert_int_equal(ask(token(0, "a", "mallory", "read"), &v), ERR_BUSY);
	assert_true(v.err.retry_ms > 0);
	assert_non_null(strstr(v.err.msg, "which is the limit"));
	assert_int_equal(w.why, CRED_FULL);
	assert_int_equal(ask(token(0, "a", "alice", "read"), &v), 0);
}

static void token_ends_although_it_is_remembered(void **state)
{
	char *text = token(0, "a", "alice", "read");    /* 600 s */
	uint64_t hits;
	struct verdict v;

	assert_int_equal(ask(mem_strdup(text), &v), 0);
	hits = counter(METRIC_oauth_cache_hits);
	step_s(OAUTH_CACHE_MS / 1000 - 1);
	assert_int_equal(ask(mem_strdup(text), &v), 0);
	assert_int_equal(counter(METRIC_oauth_cache_hits), hits + 1);
	step_s(1);
	assert_int_equal(ask(mem_strdup(text), &v), 0);
	assert_int_equal(counter(METRIC_oauth_cache_hits), hits + 1);      /* verified again */
	assert_int_equal(w.accepted, 1);                                /* and told once */
	step_s(300);
	assert_int_equal(ask(text, &v), ERR_DENIED);
	assert_int_equal(w.why, CRED_EXPIRED);
	assert_string_equal(v.err.msg, "the token has expired");
}

static void suspended_tenant_is_refused_at_once(void **state)
{
	char *text = token(0, "a", "alice", "read");
	struct tenant_image *img = NULL;
	struct verdict v;

	assert_int_equal(ask(mem_strdup(text), &v), 0);
	rows_tenant_state(&store, acme, TENANT_SUSPENDED);
	ROWS_OK(tenant_image_load(store.db, acme, &img, &rows_err));
	rows_tenant_state(&store, acme, TENANT_ACTIVE);
	tenants_apply(w.tenants, &img);
	assert_int_equal(ask(text, &v), ERR_DENIED);
	assert_int_equal(w.why, CRED_SUSPENDED);
	assert_string_equal(v.err.msg, "the tenant is suspended");
}

static void challenge_names_words_of_the_issuer(void **state)
{
	static const struct { unsigned rights; const char *error, *want; } rows[] = {
		{ SCOPE_TOOLS_LIST, NULL, "Bearer realm=\"toolcrib\", scope=\"read\", resource_metadata=\"M\"" },
		{ SCOPE_TOOLS_LIST | SCOPE_TOOLS_CALL, "insufficient_scope",
		  "Bearer realm=\"toolcrib\", error=\"insufficient_scope\", scope=\"read use\", resource_metadata=\"M\"" },
		{ SCOPE_PROMPTS_GET, "insufficient_scope",
		  "Bearer realm=\"toolcrib\", error=\"insufficient_scope\", resource_metadata=\"M\"" },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct str out = STR_INIT;

		oauth_challenge(w.o, &(struct oauth_challenge){ "M", rows[i].error, rows[i].rights, NULL }, &out);
		assert_string_equal(out.p, rows[i].want);
		str_fini(&out);
	}
}

SINGLE_THREAD_SUITE(check)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(keys_are_fetched_for_the_first_token),
		T(unknown_kids_fetch_once_in_an_interval),
		T(key_from_right_behind_a_fetch_is_waited_for),
		T(wait_for_a_fetch_ends_with_it),
		T(withdrawn_key_is_refused_at_once),
		cmocka_unit_test(kids_are_remembered_up_to_a_limit),
		T(first_use_is_told_once_however_often_keys_are_fetched),
		T(old_keys_stay_until_new_ones_are_read),
		T(keys_that_are_too_old_are_no_keys),
		T(tools_of_one_tenant_shut_out_no_fetch),
		T(a_fetch_without_a_place_is_tried_again_soon),
		T(wait_ends_when_there_is_no_place_for_the_fetch),
		T(waiting_room_has_a_limit),
		T(silent_issuer_takes_no_places_of_others),
		T(questions_about_tokens_have_a_limit),
		cmocka_unit_test(cache_holds_at_its_limit_and_ends),
		T(a_tenant_full_of_subjects_takes_who_is_known),
		T(token_ends_although_it_is_remembered),
		T(suspended_tenant_is_refused_at_once),
		T(challenge_names_words_of_the_issuer),
	};

	return cmocka_run_group_tests(tests, open_store, close_store);
}
