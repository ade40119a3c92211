/* The one check of credentials, and what a change of rows does to it (SEC S-305 to S-309, S-313). */

#include "config.h"

#include "rows.h"

#include "audit/audit.h"
#include "base/clock.h"
#include "base/metric.h"
#include "tenant/tenant.h"
#include "suite.h"

#define NOW_US 1800000000000000ull
#define HOUR_US 3600000000ull

static const uint8_t master[32] = { 7 };

struct world {
	struct rows rows;
	struct tenants *tenants;
	int64_t acme, other, bot, key_id;
	struct key_new key;
};

static struct key_new make_key(void)
{
	struct key_pepper pepper;
	struct key_new key;

	key_pepper_derive(master, &pepper);
	key_make(&pepper, &key);
	return key;
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof *w);

	clock_fake(NOW_US, 1000000);
	rows_open(&w->rows);
	w->acme = rows_tenant(&w->rows, "acme");
	w->other = rows_tenant(&w->rows, "other");
	w->bot = rows_principal(&w->rows, w->acme, "build-bot");
	w->key = make_key();
	w->key_id = rows_key(&w->rows, w->acme, w->bot, &w->key, NOW_US + HOUR_US);
	ROWS_OK(tenants_open(master, w->rows.db, &w->tenants, &rows_err));
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

static const struct cred_source here = { "127.0.0.1", AUDIT_TCP };

static int check(struct world *w, const char *text, struct principal **ret, struct err *err)
{
	return cred_check(w->tenants, text, strlen(text), &here, ret, err);
}

static void reload(struct world *w, int64_t tenant_id)
{
	struct tenant_image *img = NULL;

	ROWS_OK(tenant_image_load(w->rows.db, tenant_id, &img, &rows_err));
	tenants_apply(w->tenants, &img);
	assert_null(img);
}

static void key_names_its_principal(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL, *again = NULL;
	struct err err;

	assert_int_equal(check(w, w->key.text, &who, &err), 0);
	assert_int_equal(who->tenant_id, w->acme);
	assert_int_equal(who->principal_id, w->bot);
	assert_int_equal(who->cred_id, w->key_id);
	assert_string_equal(who->tenant, "acme");
	assert_string_equal(who->name, "build-bot");
	assert_string_equal(who->accessor, w->key.accessor);
	assert_memory_equal(who->pseudonym, "prn_", 4);
	assert_int_equal(who->authn, AUDIT_AUTHN_KEY);
	assert_int_equal(principal_check(w->tenants, who, &err), 0);
	assert_int_equal(check(w, w->key.text, &again, &err), 0);
	assert_ptr_equal(who, again);
	principal_unref(&who);
	principal_unref(&again);
	assert_null(who);
}

/* SEC S-309, S-B17 */
static void unknown_wrong_and_malformed_are_one_answer(void **state)
{
	struct world *w = *state;
	struct key_new unknown = make_key(), wrong = make_key();
	const char *texts[3] = { unknown.text, wrong.text, "Bearer nonsense" };
	uint64_t before = metric_get(METRIC_auth_failures);
	struct principal *who = NULL;
	struct err err, first;

	/* Wrong: the accessor is known, the secret is another key's. */
	memcpy(wrong.hash, unknown.hash, sizeof wrong.hash);
	(void)rows_key(&w->rows, w->acme, w->bot, &wrong, 0);
	reload(w, w->acme);
	assert_int_equal(check(w, texts[0], &who, &first), ERR_DENIED);
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(check(w, texts[i], &who, &err), ERR_DENIED);
		assert_string_equal(err.msg, first.msg);
		assert_string_equal(err.where, first.where);
	}
	assert_null(who);
	assert_int_equal(metric_get(METRIC_auth_failures), before + 3);
}

struct told { size_t refused, first; enum cred_refusal why; int64_t tenant_id; char accessor[16]; };

static void on_refused(void *arg, const struct cred_source *source, enum cred_refusal why, int64_t tenant_id, const char *accessor)
{
	struct told *t = arg;

	assert_ptr_equal(source, &here);
	t->refused++;
	t->why = why;
	t->tenant_id = tenant_id;
	snprintf(t->accessor, sizeof t->accessor, "%s", accessor ? accessor : "");
}

static void on_first(void *arg, const struct cred_source *source, const struct principal *who)
{
	struct told *t = arg;

	(void)source;
	t->first++;
	snprintf(t->accessor, sizeof t->accessor, "%s", who->accessor);
}

/* AUDIT 1101: the watcher learns why, the peer does not; 1103: and which key is used for the first time */
static void watcher_is_told_why(void **state)
{
	struct world *w = *state;
	struct key_new unknown = make_key(), wrong = make_key();
	const struct { const char *text; enum cred_refusal why; bool known; } tries[] = {
		{ "", CRED_MISSING, false }, { "Bearer nonsense", CRED_MALFORMED, false }, { unknown.text, CRED_UNKNOWN, false },
		{ wrong.text, CRED_WRONG, true },
	};
	struct told told = { 0 };
	struct principal *who = NULL;
	struct err err;

	tenants_watch(w->tenants, &(struct cred_watch){ on_refused, on_first, &told });
	memcpy(wrong.hash, unknown.hash, sizeof wrong.hash);
	(void)rows_key(&w->rows, w->acme, w->bot, &wrong, 0);
	reload(w, w->acme);
	for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
		assert_int_equal(check(w, tries[i].text, &who, &err), ERR_DENIED);
		assert_int_equal(told.refused, i + 1);
		assert_int_equal(told.why, tries[i].why);
		assert_int_equal(told.tenant_id, tries[i].known ? w->acme : 0);
		assert_string_equal(told.accessor, tries[i].known ? wrong.accessor : "");
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(check(w, w->key.text, &who, &err), 0);
		principal_unref(&who);
		reload(w, w->acme);
	}
	assert_int_equal(told.first, 1);
	assert_string_equal(told.accessor, w->key.accessor);
	clock_fake(NOW_US + HOUR_US, 1000000);
	assert_int_equal(check(w, w->key.text, &who, &err), ERR_DENIED);
	assert_int_equal(told.why, CRED_EXPIRED);
	assert_int_equal(told.tenant_id, w->acme);
	tenants_watch(w->tenants, NULL);
	assert_int_equal(check(w, "", &who, &err), ERR_DENIED);
	assert_int_equal(told.refused, 5);
}

static void no_prefix_of_a_key_passes(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL;
	struct err err;

	for (size_t n = 0; n < strlen(w->key.text); n++)
		assert_int_equal(cred_check(w->tenants, w->key.text, n, &here, &who, &err), ERR_DENIED);
}

static void expired_key_fails_at_its_second(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL, *late = NULL;
	struct err err;

	clock_fake(NOW_US + HOUR_US - 1, 1000000);
	assert_int_equal(check(w, w->key.text, &who, &err), 0);
	clock_step(1);
	assert_int_equal(principal_check(w->tenants, who, &err), ERR_DENIED);
	assert_string_equal(err.msg, "the key has expired");
	assert_int_equal(check(w, w->key.text, &late, &err), ERR_DENIED);
	assert_string_equal(err.msg, "the key has expired");
	principal_unref(&who);
}

/* SEC S-307 */
static void expiry_that_makes_no_sense_has_passed(void **state)
{
	struct world *w = *state;
	struct key_new key = make_key();
	struct principal *who = NULL;
	struct err err;

	(void)rows_key(&w->rows, w->acme, w->bot, &key, -1);
	reload(w, w->acme);
	assert_int_equal(check(w, key.text, &who, &err), ERR_DENIED);
}

/* SEC S-306: once the change is applied, the next message fails. */
static void revoked_key_fails_for_the_next_message(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL, *late = NULL;
	struct db_stmt *st;
	struct err err;

	assert_int_equal(check(w, w->key.text, &who, &err), 0);
	st = db_stmt_get(w->rows.db, SQL_KEY_SET_REVOKED);
	db_bind_i64(st, 1, w->acme);
	db_bind_i64(st, 2, w->key_id);
	db_bind_i64(st, 3, NOW_US);
	(void)rows_run(&w->rows, st);
	assert_int_equal(principal_check(w->tenants, who, &err), 0);
	reload(w, w->acme);
	assert_int_equal(principal_check(w->tenants, who, &err), ERR_DENIED);
	assert_string_equal(err.msg, "the key is revoked");
	assert_int_equal(check(w, w->key.text, &late, &err), ERR_DENIED);
	principal_unref(&who);
}

static void is_right(struct world *w, const char *text)
{
	struct principal *who = NULL;
	struct err err;

	assert_int_equal(check(w, text, &who, &err), 0);
	principal_unref(&who);
}

/* SP-121: what is remembered was right, and is not remembered for long. */
static void only_right_keys_are_remembered(void **state)
{
	struct world *w = *state;
	struct key_new unknown = make_key(), wrong;
	struct principal *who = NULL;
	struct key_pepper pepper;
	struct err err;

	key_pepper_derive(master, &pepper);
	key_remake(&pepper, w->key.accessor, &wrong);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(check(w, wrong.text, &who, &err), ERR_DENIED);
		assert_string_equal(err.msg, "invalid credential");
		assert_int_equal(check(w, unknown.text, &who, &err), ERR_DENIED);
		assert_int_equal(check(w, "nonsense", &who, &err), ERR_DENIED);
		assert_int_equal(tenants_remembered(w->tenants), i > 0);
		is_right(w, w->key.text);
		is_right(w, w->key.text);
		assert_int_equal(tenants_remembered(w->tenants), 1);
	}
	clock_step(UINT64_C(60) * 1000000);
	assert_int_equal(tenants_remembered(w->tenants), 1);
	is_right(w, w->key.text);
	clock_step(UINT64_C(60) * 1000000 + 1);
	assert_int_equal(tenants_remembered(w->tenants), 0);
	is_right(w, w->key.text);
	clock_fake(NOW_US, 1000000);            /* set back */
	assert_int_equal(tenants_remembered(w->tenants), 0);
	is_right(w, w->key.text);
	assert_int_equal(tenants_remembered(w->tenants), 1);
}

/* The same bytes at the second request, whose key was revoked since the first: they are known, and refused. */
static void key_revoked_between_two_requests_is_forgotten(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL;
	struct db_stmt *st;
	struct err err;

	is_right(w, w->key.text);
	assert_int_equal(tenants_remembered(w->tenants), 1);
	st = db_stmt_get(w->rows.db, SQL_KEY_SET_REVOKED);
	db_bind_i64(st, 1, w->acme);
	db_bind_i64(st, 2, w->key_id);
	db_bind_i64(st, 3, NOW_US);
	(void)rows_run(&w->rows, st);
	reload(w, w->acme);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(check(w, w->key.text, &who, &err), ERR_DENIED);
		assert_string_equal(err.msg, "the key is revoked");
		assert_int_equal(tenants_remembered(w->tenants), 0);
	}
	assert_null(who);
}

/* More keys than are remembered: all stay right. */
static void many_keys_push_each_other_out(void **state)
{
	enum { KEYS = 2300, REMEMBERED = 2048 };
	struct world *w = *state;
	struct key_new *key = calloc(KEYS, sizeof(*key));

	for (int i = 0; i < KEYS; i++) {
		key[i] = make_key();
		(void)rows_key(&w->rows, w->acme, w->bot, &key[i], 0);
	}
	reload(w, w->acme);
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < KEYS; i++) {
			clock_step(1);
			is_right(w, key[i].text);
			assert_true(tenants_remembered(w->tenants) <= REMEMBERED);
		}
	assert_true(tenants_remembered(w->tenants) > REMEMBERED / 2);
	free(key);
}

static void suspended_tenant_fails_for_the_next_message(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL, *named = NULL, *late = NULL;
	struct err err;

	assert_int_equal(check(w, w->key.text, &who, &err), 0);
	assert_int_equal(principal_named(w->tenants, "acme", NULL, AUDIT_AUTHN_BOUND, &named, &err), 0);
	rows_tenant_state(&w->rows, w->acme, TENANT_SUSPENDED);
	reload(w, w->acme);
	assert_int_equal(principal_check(w->tenants, who, &err), ERR_DENIED);
	assert_int_equal(principal_check(w->tenants, named, &err), ERR_DENIED);
	assert_int_equal(check(w, w->key.text, &late, &err), ERR_DENIED);
	assert_string_equal(err.msg, "the tenant is suspended");
	assert_int_equal(principal_named(w->tenants, "acme", NULL, AUDIT_AUTHN_BOUND, &late, &err), ERR_DENIED);
	rows_tenant_state(&w->rows, w->acme, TENANT_ACTIVE);
	reload(w, w->acme);
	assert_int_equal(principal_check(w->tenants, who, &err), 0);
	assert_int_equal(principal_check(w->tenants, named, &err), 0);
	principal_unref(&who);
	principal_unref(&named);
}

static void suspended_principal_fails_for_the_next_message(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL;
	struct db_stmt *st = db_stmt_get(w->rows.db, SQL_PRINCIPAL_SET_STATE);
	struct err err;

	assert_int_equal(check(w, w->key.text, &who, &err), 0);
	db_bind_i64(st, 1, w->acme);
	db_bind_i64(st, 2, w->bot);
	db_bind_i64(st, 3, 2);
	(void)rows_run(&w->rows, st);
	reload(w, w->acme);
	assert_int_equal(principal_check(w->tenants, who, &err), ERR_DENIED);
	assert_string_equal(err.msg, "the principal is suspended");
	principal_unref(&who);
}

static void removed_tenant_is_forgotten(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL, *late = NULL;
	struct err err;

	assert_int_equal(check(w, w->key.text, &who, &err), 0);
	rows_tenant_state(&w->rows, w->acme, TENANT_REMOVED);
	reload(w, w->acme);
	assert_int_equal(tenants_count(w->tenants), 1);
	assert_null(tenant_by_id(w->tenants, w->acme));
	assert_null(tenant_by_name(w->tenants, "acme", 4));
	assert_int_equal(principal_check(w->tenants, who, &err), ERR_DENIED);
	assert_int_equal(check(w, w->key.text, &late, &err), ERR_DENIED);
	assert_string_equal(err.msg, "invalid credential");
	principal_unref(&who);
}

static void principal_without_a_key_is_found_by_name(void **state)
{
	struct world *w = *state;
	struct principal *who = NULL;
	struct err err;

	assert_int_equal(principal_named(w->tenants, "acme", "build-bot", AUDIT_AUTHN_UID, &who, &err), 0);
	assert_int_equal(who->principal_id, w->bot);
	assert_int_equal(who->cred_id, 0);
	assert_string_equal(who->accessor, "");
	assert_int_equal(who->authn, AUDIT_AUTHN_UID);
	principal_unref(&who);
	assert_int_equal(principal_named(w->tenants, "other", "build-bot", AUDIT_AUTHN_UID, &who, &err), ERR_NOT_FOUND);
	assert_int_equal(principal_named(w->tenants, "nobody", NULL, AUDIT_AUTHN_UID, &who, &err), ERR_NOT_FOUND);
}

static void tenant_is_found_with_its_defaults(void **state)
{
	struct world *w = *state;
	const struct tenant *t = tenant_by_name(w->tenants, "acme", 4);

	assert_non_null(t);
	assert_ptr_equal(t, tenant_by_id(w->tenants, w->acme));
	assert_int_equal(t->concurrency, TENANT_CONCURRENCY_DEFAULT);
	assert_int_equal(t->rate.count, 0);
	assert_null(tenant_by_name(w->tenants, "acm", 3));
}

/* SEC S-313 */
static void last_use_is_handed_out_once_and_survives_a_change(void **state)
{
	struct world *w = *state;
	struct tenant_used used[4];
	struct principal *who = NULL;
	struct db_stmt *st;
	struct err err;

	assert_int_equal(tenants_dirty(w->tenants, used, 4), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(check(w, w->key.text, &who, &err), 0);
		principal_unref(&who);
	}
	reload(w, w->acme);
	assert_int_equal(tenants_dirty(w->tenants, used, 4), 1);
	assert_int_equal(tenants_dirty(w->tenants, used, 4), 0);
	assert_int_equal(used[0].tenant_id, w->acme);
	assert_int_equal(used[0].cred_id, w->key_id);
	assert_int_equal(used[0].used_us, NOW_US);
	used[1] = used[0];
	used[1].tenant_id = w->other;
	used[1].used_us++;
	ROWS_OK(tenant_used_write(w->rows.db, used, 2, &rows_err));
	st = db_stmt_get(w->rows.db, SQL_ADMIN_KEY_LIST);
	db_bind_i64(st, 1, w->acme);
	assert_int_equal(db_step(st, &err), 1);
	assert_int_equal(db_col_i64(st, 9), NOW_US);
	db_stmt_put(&st);
}

SINGLE_THREAD_SUITE(check)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(key_names_its_principal),
		TEST(unknown_wrong_and_malformed_are_one_answer),
		TEST(watcher_is_told_why),
		TEST(no_prefix_of_a_key_passes),
		TEST(expired_key_fails_at_its_second),
		TEST(expiry_that_makes_no_sense_has_passed),
		TEST(revoked_key_fails_for_the_next_message),
		TEST(only_right_keys_are_remembered),
		TEST(key_revoked_between_two_requests_is_forgotten),
		TEST(many_keys_push_each_other_out),
		TEST(suspended_tenant_fails_for_the_next_message),
		TEST(suspended_principal_fails_for_the_next_message),
		TEST(removed_tenant_is_forgotten),
		TEST(principal_without_a_key_is_found_by_name),
		TEST(tenant_is_found_with_its_defaults),
		TEST(last_use_is_handed_out_once_and_survives_a_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
