/* The life of a key by a scripted clock (F42): before its time, at the edge of expiry, two secrets and the end of the
 * overlap; from where, with which arguments (SEC S-306, S-309 to S-314). */

#include "config.h"

#include "rows.h"

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "tenant/arg_rule.h"
#include "tenant/cidr.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"
#include "suite.h"

#define NOW_US 1800000000000000ull
#define HOUR_US 3600000000ull

static const uint8_t master[32] = { 7 };

struct world {
	struct rows rows;
	struct tenants *tenants;
	struct key_pepper pepper;
	int64_t acme, bot, key_id;
	struct key_new key;
	enum cred_refusal why;
};

static void on_refused(void *arg, const struct cred_source *source, enum cred_refusal why, int64_t tenant_id, const char *accessor)
{
	((struct world *)arg)->why = why;
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof *w);

	clock_fake(NOW_US, 1000000);
	rows_open(&w->rows);
	w->acme = rows_tenant(&w->rows, "acme");
	w->bot = rows_principal(&w->rows, w->acme, "bot");
	key_pepper_derive(master, &w->pepper);
	key_make(&w->pepper, &w->key);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	tenants_close(&w->tenants);
	rows_close(&w->rows);
	clock_real();
	free(w);
	return 0;
}

/* The row, and the table that is made of it; NULL and 0: without. */
static void insert(struct world *w, uint64_t expires_us, uint64_t not_before_us, const char *scopes, const char *cidr,
		   const char *rules, bool enrols)
{
	const struct cred_watch watch = { .refused = on_refused, .arg = w };
	struct db_stmt *st = db_stmt_get(w->rows.db, SQL_KEY_INSERT);
	const char *const texts[] = { scopes, cidr, rules };

	db_bind_i64(st, 1, w->acme);
	db_bind_i64(st, 2, w->bot);
	db_bind_textz(st, 3, w->key.accessor);
	db_bind_blob(st, 4, w->key.hash, sizeof w->key.hash);
	db_bind_textz(st, 5, "");
	db_bind_i64(st, 6, (int64_t)NOW_US);
	db_bind_i64(st, 7, (int64_t)expires_us);
	db_bind_null(st, 8);
	if (not_before_us)
		db_bind_i64(st, 8, (int64_t)not_before_us);
	for (unsigned i = 0; i < NELEMS(texts); i++) {
		db_bind_null(st, 9 + i);
		if (texts[i])
			db_bind_textz(st, 9 + i, texts[i]);
	}
	db_bind_null(st, 12);
	if (enrols)
		db_bind_i64(st, 12, (int64_t)HOUR_US);
	db_bind_null(st, 13);
	w->key_id = rows_run(&w->rows, st);
	ROWS_OK(tenants_open(master, w->rows.db, &w->tenants, &rows_err));
	tenants_watch(w->tenants, &watch);
}

static int check_from(struct world *w, const char *text, const char *from, struct principal **ret)
{
	w->why = CRED_REFUSAL_COUNT;
	return cred_check(w->tenants, text, strlen(text), &(struct cred_source){ from, AUDIT_TCP }, ret, &rows_err);
}

static void passes(struct world *w, const char *text)
{
	struct principal *who = NULL;

	ROWS_OK(check_from(w, text, "192.0.2.1", &who));
	ROWS_OK(principal_check(w->tenants, who, &rows_err));
	principal_unref(&who);
}

static void is_refused(struct world *w, const char *text, enum cred_refusal why, const char *says)
{
	struct principal *who = NULL;

	assert_int_equal(check_from(w, text, "192.0.2.1", &who), ERR_DENIED);
	assert_null(who);
	if (w->why != why || !strstr(rows_err.msg, says))
		fail_msg("%s: %s", cred_refusal_name(w->why), rows_err.msg);
}

static void reload(struct world *w)
{
	struct tenant_image *img = NULL;

	ROWS_OK(tenant_image_load(w->rows.db, w->acme, &img, &rows_err));
	tenants_apply(w->tenants, &img);
}

/* As key rotate writes it. */
static struct key_new rotate(struct world *w, uint64_t until_us)
{
	struct db_stmt *st = db_stmt_get(w->rows.db, SQL_KEY_SET_SECRET);
	struct key_new fresh;

	key_remake(&w->pepper, w->key.accessor, &fresh);
	db_bind_i64(st, 1, w->acme);
	db_bind_i64(st, 2, w->key_id);
	db_bind_blob(st, 3, fresh.hash, sizeof fresh.hash);
	db_bind_i64(st, 4, (int64_t)NOW_US);
	if (until_us)
		db_bind_i64(st, 5, (int64_t)until_us);
	else
		db_bind_null(st, 5);
	db_bind_i64(st, 6, (int64_t)(NOW_US + 100 * HOUR_US));
	(void)rows_run(&w->rows, st);
	reload(w);
	return fresh;
}

static void a_key_begins_and_ends_at_its_microsecond(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL;

	insert(w, NOW_US + HOUR_US, NOW_US + 10, NULL, NULL, NULL, false);
	clock_fake(NOW_US + 9, 1000000);
	is_refused(w, w->key.text, CRED_EARLY, "not valid yet");
	clock_fake(NOW_US + 10, 1000000);
	passes(w, w->key.text);
	ROWS_OK(check_from(w, w->key.text, "192.0.2.1", &who));
	clock_fake(NOW_US + HOUR_US - 1, 1000000);
	passes(w, w->key.text);
	clock_fake(NOW_US + HOUR_US, 1000000);
	is_refused(w, w->key.text, CRED_EXPIRED, "has expired");
	/* On a connection as well: the next message. */
	assert_int_equal(principal_check(w->tenants, who, &rows_err), ERR_DENIED);
	principal_unref(&who);
}

/* S-310: both secrets, the same principal, until the microsecond. */
static void the_overlap_of_a_rotation_ends(void **state)
{
	struct world *w = *state;
	struct principal *before = NULL, *old = NULL, *now = NULL;
	struct key_new fresh;

	insert(w, NOW_US + HOUR_US, 0, NULL, NULL, NULL, false);
	ROWS_OK(check_from(w, w->key.text, "192.0.2.1", &before));
	fresh = rotate(w, NOW_US + 500);
	assert_string_equal(fresh.accessor, w->key.accessor);
	assert_string_not_equal(fresh.text, w->key.text);
	ROWS_OK(check_from(w, w->key.text, "192.0.2.1", &old));
	ROWS_OK(check_from(w, fresh.text, "192.0.2.1", &now));
	assert_int_equal(old->cred_id, now->cred_id);
	assert_string_equal(old->pseudonym, now->pseudonym);
	ROWS_OK(principal_check(w->tenants, before, &rows_err));
	clock_fake(NOW_US + 499, 1000000);
	passes(w, w->key.text);
	clock_fake(NOW_US + 500, 1000000);
	is_refused(w, w->key.text, CRED_ROTATED, "was rotated");
	passes(w, fresh.text);
	/* Connections that were opened with the old secret end too, whenever that was. */
	assert_int_equal(principal_check(w->tenants, before, &rows_err), ERR_DENIED);
	assert_int_equal(principal_check(w->tenants, old, &rows_err), ERR_DENIED);
	ROWS_OK(principal_check(w->tenants, now, &rows_err));
	principal_unref(&before);
	principal_unref(&old);
	principal_unref(&now);
}

/* At most two secrets: the one before the last is wrong, and is told nothing. */
static void a_third_secret_is_never_valid(void **state)
{
	struct world *w = *state;
	struct key_new second, third;

	insert(w, NOW_US + HOUR_US, 0, NULL, NULL, NULL, false);
	second = rotate(w, NOW_US + HOUR_US);
	third = rotate(w, NOW_US + HOUR_US);
	is_refused(w, w->key.text, CRED_WRONG, "invalid credential");
	passes(w, second.text);
	passes(w, third.text);
	(void)rotate(w, 0);
	is_refused(w, second.text, CRED_WRONG, "invalid credential");
	is_refused(w, third.text, CRED_WRONG, "invalid credential");
}

static void suspend(struct world *w, bool suspended)
{
	struct db_stmt *st = db_stmt_get(w->rows.db, SQL_KEY_SET_SUSPENDED);

	db_bind_i64(st, 1, w->acme);
	db_bind_i64(st, 2, w->key_id);
	db_bind_null(st, 3);
	if (suspended)
		db_bind_i64(st, 3, (int64_t)NOW_US);
	(void)rows_run(&w->rows, st);
	reload(w);
}

/* S-315: with either secret, on connections too; whoever has none learns nothing. */
static void a_suspended_key_is_out_until_it_is_resumed(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL;
	struct key_new fresh;

	insert(w, NOW_US + HOUR_US, 0, NULL, NULL, NULL, false);
	ROWS_OK(check_from(w, w->key.text, "192.0.2.1", &who));
	suspend(w, true);
	is_refused(w, w->key.text, CRED_SUSPENDED, "the key is suspended");
	assert_int_equal(principal_check(w->tenants, who, &rows_err), ERR_DENIED);
	key_remake(&w->pepper, w->key.accessor, &fresh);
	is_refused(w, fresh.text, CRED_WRONG, "invalid credential");
	fresh = rotate(w, NOW_US + HOUR_US);
	is_refused(w, w->key.text, CRED_SUSPENDED, "the key is suspended");
	is_refused(w, fresh.text, CRED_SUSPENDED, "the key is suspended");
	suspend(w, false);
	passes(w, w->key.text);
	passes(w, fresh.text);
	ROWS_OK(principal_check(w->tenants, who, &rows_err));
	clock_fake(NOW_US + 100 * HOUR_US, 1000000);
	suspend(w, true);
	is_refused(w, fresh.text, CRED_EXPIRED, "has expired");
	principal_unref(&who);
}

static void a_one_shot_key_calls_nothing(void **state)
{
	struct world *w = *state;

	insert(w, NOW_US + HOUR_US, 0, NULL, NULL, NULL, true);
	is_refused(w, w->key.text, CRED_ENROLMENT, "key enroll");
}

static void a_key_is_bound_to_networks(void **state)
{
	static const struct { const char *from; bool ok; } rows[] = {
		{ "10.0.0.0", true }, { "10.255.255.255", true }, { "11.0.0.0", false }, { "9.255.255.255", false },
		{ "::ffff:10.1.2.3", true }, { "2001:db8:7f::1", true }, { "2001:db8:80::", false }, { "192.0.2.7", true },
		{ "192.0.2.6", false }, { "unix", false }, { "stdio", false }, { "", false }, { "nonsense", false }, { "::1", false },
		/* A proxy names the client: where the proxy stands says nothing (SEC S-107). */
		{ "10.1.2.3 via 198.51.100.1", true }, { "2001:db8::1 via ::1", true }, { "198.51.100.9 via 10.0.0.1", false },
		{ " via 10.0.0.1", false }, { "10.1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19 via 10.0.0.1", false },
	};
	struct world *w = *state;

	insert(w, NOW_US + HOUR_US, 0, NULL, "10.0.0.0/8 2001:db8::/41 192.0.2.7", NULL, false);
	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct principal *who = NULL;
		int rc = check_from(w, w->key.text, rows[i].from, &who);

		if ((rc == 0) != rows[i].ok)
			fail_msg("%s: %d", rows[i].from, rc);
		assert_int_equal(w->why, rows[i].ok ? CRED_REFUSAL_COUNT : CRED_ADDRESS);
		principal_unref(&who);
	}
}

static void networks_are_read_strictly(void **state)
{
	static const char *const bad[] = { "10.0.0.1/8", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/08x",
		"::/129", "2001:db8::1/32", "example.org", "10.0.0.0/8,11.0.0.0/8", "[::1]", "/8" };
	struct cidrs *c = NULL;
	struct str many = STR_INIT;
	struct err err;

	for (size_t i = 0; i < NELEMS(bad); i++)
		if (cidrs_parse(bad[i], strlen(bad[i]), &c, &err) != ERR_INVALID || strcmp(err.where, "cidr") != 0)
			fail_msg("%s", bad[i]);
	ROWS_OK(cidrs_parse("0.0.0.0/0", 9, &c, &rows_err));
	assert_true(cidrs_hold(c, "203.0.113.9"));
	assert_true(cidrs_hold(c, "unix"));
	assert_false(cidrs_hold(c, "2001:db8::1"));
	cidrs_free(&c);
	ROWS_OK(cidrs_parse("::/0", 4, &c, &rows_err));
	assert_true(cidrs_hold(c, "203.0.113.9"));
	cidrs_free(&c);
	for (int i = 0; i < CIDRS_MAX; i++)
		str_printf(&many, "10.0.0.%d ", i);
	ROWS_OK(cidrs_parse(many.p, many.len, &c, &rows_err));
	cidrs_free(&c);
	str_puts(&many, "10.1.0.0");
	assert_int_equal(cidrs_parse(many.p, many.len, &c, &err), ERR_LIMIT);
	assert_null(c);
	str_fini(&many);
}

/* --- arguments */

static bool allows(const char *rules_text, const char *tool, const char *args_text)
{
	struct arg_rules *rules = NULL;
	json_t *args = NULL;
	bool ok;

	ROWS_OK(arg_rules_parse(rules_text, strlen(rules_text), &rules, &rows_err));
	if (args_text)
		ROWS_OK(jx_parse(args_text, strlen(args_text), &args, &rows_err));
	ok = arg_rules_check(rules, tool, args, &rows_err) == 0;
	json_decref(args);
	arg_rules_unref(&rules);
	return ok;
}

static void arguments_are_held_to_rules(void **state)
{
	static const struct { const char *rules, *args; bool ok; } rows[] = {
		{ "t /a equals 1", "{\"a\":1}", true }, { "t /a equals 1", "{\"a\":1.0}", true }, { "t /a equals 1", "{\"a\":\"1\"}", false },
		{ "t /a equals 1", "{}", false }, { "t /a equals 1", NULL, false }, { "other /a equals 1", "{}", true },
		{ "t /a/b/0 equals {\"x\":[1,2]}", "{\"a\":{\"b\":[{\"x\":[1,2]}]}}", true },
		{ "t /a/b/0 equals {\"x\":[1,2]}", "{\"a\":{\"b\":[{\"x\":[1,2],\"y\":0}]}}", false },
		{ "* /a one-of [\"x\",null,3]", "{\"a\":null}", true }, { "* /a one-of [\"x\",null,3]", "{\"a\":2}", false },
		{ "t /a prefix \"/pub/\"", "{\"a\":\"/pub/x\"}", true }, { "t /a prefix \"/pub/\"", "{\"a\":\"/pu\"}", false },
		{ "t /a prefix \"/pub/\"", "{\"a\":[\"/pub/\"]}", false },
		{ "t /a range [1,10]", "{\"a\":1}", true }, { "t /a range [1,10]", "{\"a\":10}", true }, { "t /a range [1,10]", "{\"a\":10.5}", false },
		{ "t /a range [1,10]", "{\"a\":0.999}", false }, { "t /a range [1,10]", "{\"a\":\"5\"}", false },
		{ "t /a range [null,10]", "{\"a\":-1e300}", true }, { "t /a range [1,null]", "{\"a\":99999999999999999999999}", true },
		{ "t /a range [1,99999999999999999999998]", "{\"a\":99999999999999999999999}", false },
		{ "t /a equals 1\nt /b equals 2", "{\"a\":1,\"b\":2}", true }, { "t /a equals 1\nt /b equals 2", "{\"a\":1,\"b\":3}", false },
		{ "", "{\"a\":1}", true },
	};

	for (size_t i = 0; i < NELEMS(rows); i++)
		if (allows(rows[i].rules, "t", rows[i].args) != rows[i].ok)
			fail_msg("%s with %s", rows[i].rules, rows[i].args);
	assert_false(allows("t /secret equals \"hidden value\"", "t", "{\"secret\":1}"));
	assert_null(strstr(rows_err.msg, "hidden"));
	assert_string_equal(rows_err.where, "/secret");
}

static void rules_are_read_strictly(void **state)
{
	static const char *const bad[] = { "t", "t /a", "t /a equals", "t /a equals ", "t /a is 1", "t a equals 1", "t /a~2 equals 1",
		"t /a equals 1 2", "t /a equals {", "t /a equals 'x'", "t /a one-of 1", "t /a one-of []", "t /a prefix 1", "t /a prefix \"\"",
		"t /a range [1]", "t /a range [1,\"2\"]", "t /a range 1", "t /a equals {\"a\":1,\"a\":2}", " " };
	struct arg_rules *r = NULL;
	struct str text = STR_INIT;
	struct err err;

	for (size_t i = 0; i < NELEMS(bad); i++)
		if (arg_rules_parse(bad[i], strlen(bad[i]), &r, &err) != ERR_INVALID || strcmp(err.where, "arg-rule") != 0)
			fail_msg("%s", bad[i]);
	for (int i = 0; i < ARG_RULES_MAX; i++)
		str_puts(&text, "t /a equals 1\n");
	ROWS_OK(arg_rules_parse(text.p, text.len, &r, &rows_err));
	arg_rules_unref(&r);
	str_puts(&text, "t /a equals 1");
	assert_int_equal(arg_rules_parse(text.p, text.len, &r, &err), ERR_LIMIT);
	str_reset(&text);
	str_printf(&text, "t /a equals \"%0*d\"", ARG_RULE_MAX - 14, 0);
	assert_int_equal(text.len, ARG_RULE_MAX);
	ROWS_OK(arg_rules_parse(text.p, text.len, &r, &rows_err));
	arg_rules_unref(&r);
	str_putc(&text, ' ');
	assert_int_equal(arg_rules_parse(text.p, text.len, &r, &err), ERR_LIMIT);
	assert_null(r);
	str_fini(&text);
}

/* What a row says is what its principal is given. */
static void limits_of_the_row_reach_the_principal(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL;

	insert(w, NOW_US + HOUR_US, 0, "tools:call:x", NULL, "x /a equals 1", false);
	ROWS_OK(check_from(w, w->key.text, "192.0.2.1", &who));
	assert_true(scope_allows(who->scopes, SCOPE_TOOLS_CALL, "x"));
	assert_false(scope_has(who->scopes, SCOPE_TOOLS_LIST));
	assert_int_equal(arg_rules_check(who->rules, "x", NULL, &rows_err), ERR_DENIED);
	reload(w);                      /* the table's own are gone, what a call holds is not */
	assert_true(scope_allows(who->scopes, SCOPE_TOOLS_CALL, "x"));
	principal_unref(&who);
}

static void end_key(struct world *w, int64_t id, uint64_t at_us)
{
	struct db_stmt *st = db_stmt_get(w->rows.db, SQL_KEY_SET_REVOKED);

	db_bind_i64(st, 1, w->acme);
	db_bind_i64(st, 2, id);
	db_bind_i64(st, 3, (int64_t)at_us);
	(void)rows_run(&w->rows, st);
}

/* SEC S-801: whoever may make and revoke keys does not fill the memory with them. */
static void those_revoked_last_are_known(void **state)
{
	struct world *w = *state;
	const struct cred_watch watch = { .refused = on_refused, .arg = w };
	struct key_new last, first = w->key;

	for (uint64_t i = 0; i < TENANT_REVOKED_MAX; i++) {
		end_key(w, rows_key(&w->rows, w->acme, w->bot, &w->key, 0), NOW_US - HOUR_US + i);
		last = w->key;
		key_make(&w->pepper, &w->key);
	}
	ROWS_OK(tenants_open(master, w->rows.db, &w->tenants, &rows_err));
	tenants_watch(w->tenants, &watch);
	is_refused(w, first.text, CRED_REVOKED, "revoked");
	tenants_close(&w->tenants);
	end_key(w, rows_key(&w->rows, w->acme, w->bot, &w->key, 0), NOW_US);
	ROWS_OK(tenants_open(master, w->rows.db, &w->tenants, &rows_err));
	tenants_watch(w->tenants, &watch);
	is_refused(w, first.text, CRED_UNKNOWN, "invalid");
	is_refused(w, last.text, CRED_REVOKED, "revoked");
	is_refused(w, w->key.text, CRED_REVOKED, "revoked");
}

SINGLE_THREAD_SUITE(life)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_key_begins_and_ends_at_its_microsecond),
		TEST(the_overlap_of_a_rotation_ends),
		TEST(a_third_secret_is_never_valid),
		TEST(a_suspended_key_is_out_until_it_is_resumed),
		TEST(a_one_shot_key_calls_nothing),
		TEST(a_key_is_bound_to_networks),
		TEST(limits_of_the_row_reach_the_principal),
		TEST(those_revoked_last_are_known),
		cmocka_unit_test(networks_are_read_strictly),
		cmocka_unit_test(arguments_are_held_to_rules),
		cmocka_unit_test(rules_are_read_strictly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
