/* Sets of scopes, and principals made from the claims of a token (SEC S-314, S-407). */

#include "config.h"

#include "rows.h"

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"
#include "suite.h"

#define NOW_US 1800000000000000ull
#define HOUR_US 3600000000ull

static struct scopes *parse(const char *words)
{
	struct scopes *s = NULL;

	ROWS_OK(scopes_parse(words, strlen(words), &s, &rows_err));
	return s;
}

static void prints(const char *words, const char *want)
{
	struct scopes *s = words ? parse(words) : NULL;
	struct str out = STR_INIT;

	scopes_print(s, &out);
	assert_string_equal(str_text(&out), want);
	str_fini(&out);
	scopes_unref(&s);
	assert_null(s);
}

static void words_are_printed_back(void **state)
{
	prints("", "");
	prints("tools:list", "tools:list");
	prints("  tools:call   tools:list tools:list ", "tools:list tools:call:*");
	prints("admin audit:read:payload tools:call:b* tools:call:a", "tools:call:b* tools:call:a audit:read:payload admin:*");
	prints("admin:tool.*", "admin:tool.*");
	prints(NULL, "tools:list tools:call:* prompts:list prompts:get:* resources:list resources:read:*");
}

static void what_is_no_scope_is_named(void **state)
{
	static const struct { const char *words, *says; } rows[] = {
		{ "tools:lists", "tools:lists is no scope" }, { "tools", "tools is no scope" }, { "*", "* is no scope" },
		{ "tools:list:*", "is no scope" }, { "Tools:list", "is no scope" }, { "tools:list\ttools:call", "is no scope" },
		{ "tools:call:", "must be followed by" }, { "tools:call:a\"b", "visible ASCII" }, { "tools:call:\xc3\xa9", "visible ASCII" },
		{ "audit:read", "is no scope" }, { "audit:read:all", "is no scope" },
	};
	struct scopes *s = NULL;
	struct err err;

	for (size_t i = 0; i < NELEMS(rows); i++) {
		assert_int_equal(scopes_parse(rows[i].words, strlen(rows[i].words), &s, &err), ERR_INVALID);
		if (!strstr(err.msg, rows[i].says) || strcmp(err.where, "scope") != 0)
			fail_msg("%s: %s", rows[i].words, err.msg);
	}
	assert_null(s);
	assert_int_equal(scopes_parse("tools:lst", 9, &s, &err), ERR_INVALID);
	assert_non_null(strstr(err.hint, "tools:list"));
}

static void sets_and_patterns_have_a_limit(void **state)
{
	struct scopes *s = NULL;
	struct str words = STR_INIT;
	char glob[SCOPE_GLOB_MAX + 20];
	struct err err;

	for (int i = 0; i < SCOPES_MAX; i++)
		str_printf(&words, "tools:call:t%d ", i);
	s = parse(words.p);
	scopes_unref(&s);
	str_puts(&words, "tools:call:t0");
	s = parse(words.p);             /* again the same */
	scopes_unref(&s);
	str_puts(&words, "x");
	assert_int_equal(scopes_parse(words.p, words.len, &s, &err), ERR_LIMIT);
	str_fini(&words);
	(void)snprintf(glob, sizeof glob, "prompts:get:%0*d", SCOPE_GLOB_MAX, 0);
	s = parse(glob);
	scopes_unref(&s);
	(void)snprintf(glob, sizeof glob, "prompts:get:%0*d", SCOPE_GLOB_MAX + 1, 0);
	assert_int_equal(scopes_parse(glob, strlen(glob), &s, &err), ERR_LIMIT);
}

/* None implies another; a broad one is enough (MCP A-11). */
static void rights_are_those_of_the_words(void **state)
{
	struct scopes *s = parse("tools:call:get_* tools:call:x prompts:list admin:key.*"), *all = parse("tools:call"), *none = parse("");

	assert_true(scope_allows(s, SCOPE_TOOLS_CALL, "get_weather"));
	assert_true(scope_allows(s, SCOPE_TOOLS_CALL, "x"));
	assert_false(scope_allows(s, SCOPE_TOOLS_CALL, "xx"));
	assert_false(scope_allows(s, SCOPE_TOOLS_LIST, NULL));
	assert_true(scope_allows(s, SCOPE_PROMPTS_LIST, NULL));
	assert_false(scope_allows(s, SCOPE_PROMPTS_GET, "x"));
	assert_true(scope_allows(s, SCOPE_ADMIN, "key.list"));
	assert_false(scope_allows(s, SCOPE_ADMIN, "tool.list"));
	assert_false(scope_allows_all(s, SCOPE_TOOLS_CALL));
	assert_true(scope_allows_all(all, SCOPE_TOOLS_CALL));
	assert_true(scope_has(s, SCOPE_TOOLS_LIST | SCOPE_TOOLS_CALL));
	assert_false(scope_has(s, SCOPE_TOOLS_LIST | SCOPE_RESOURCES_READ));
	assert_true(scope_has(none, SCOPE_ANYONE));
	assert_true(scope_allows(none, SCOPE_ANYONE, "x"));
	assert_false(scope_has(none, ~(unsigned)SCOPE_ANYONE));
	assert_true(scope_allows(NULL, SCOPE_RESOURCES_READ, "x"));
	assert_false(scope_has(NULL, SCOPE_ADMIN | SCOPE_AUDIT_SELF | SCOPE_AUDIT_TENANT | SCOPE_AUDIT_PAYLOAD));
	scopes_unref(&s);
	scopes_unref(&all);
	scopes_unref(&none);
}

static void needs_are_words(void **state)
{
	char text[SCOPE_NEED_SIZE];

	assert_string_equal(scope_need(SCOPE_TOOLS_CALL, text), "tools:call");
	assert_string_equal(scope_need(SCOPE_PROMPTS_GET | SCOPE_RESOURCES_READ, text), "prompts:get resources:read");
	assert_string_equal(scope_need(SCOPE_ANYONE, text), "");
	(void)scope_need(~0u, text);    /* fits */
}

/* --- tokens */

struct world { struct rows rows; struct tenants *tenants; int64_t acme, bot; struct scopes *scopes; };

static int set_up(void **state)
{
	static const uint8_t master[32] = { 7 };
	struct world *w = calloc(1, sizeof *w);

	clock_fake(NOW_US, 1000000);
	rows_open(&w->rows);
	w->acme = rows_tenant(&w->rows, "acme");
	(void)rows_tenant(&w->rows, "other");
	w->bot = rows_principal(&w->rows, w->acme, "build-bot");
	ROWS_OK(tenants_open(master, w->rows.db, &w->tenants, &rows_err));
	w->scopes = parse("tools:list");
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	scopes_unref(&w->scopes);
	tenants_close(&w->tenants);
	rows_close(&w->rows);
	clock_real();
	free(w);
	return 0;
}

static struct principal *from_claims(struct world *w, const char *tenant, const char *subject)
{
	const struct principal_claims claims = { tenant, subject, w->scopes, NOW_US + HOUR_US, AUDIT_AUTHN_JWT, false };
	struct principal *who = NULL;

	ROWS_OK(principal_from_claims(w->tenants, &claims, &who, &rows_err));
	return who;
}

static void a_subject_with_a_row_is_that_principal(void **state)
{
	struct world *w = *state;
	struct principal *who = from_claims(w, "acme", "build-bot");

	assert_int_equal(who->principal_id, w->bot);
	assert_int_equal(who->tenant_id, w->acme);
	assert_int_equal(who->authn, AUDIT_AUTHN_JWT);
	assert_ptr_equal(who->scopes, w->scopes);
	assert_int_equal(principal_check(w->tenants, who, &rows_err), 0);
	principal_unref(&who);
}

static void a_subject_without_a_row_is_always_the_same(void **state)
{
	struct world *w = *state;
	struct principal *who = from_claims(w, "acme", "auth0|Ann Ex"), *again = from_claims(w, "acme", "auth0|Ann Ex"),
		*b = from_claims(w, "acme", "auth0|Bob"), *elsewhere = from_claims(w, "other", "auth0|Ann Ex");

	assert_true(who->principal_id < 0);
	assert_int_equal(who->principal_id, again->principal_id);
	assert_string_equal(who->pseudonym, again->pseudonym);
	assert_true(who->principal_id != b->principal_id && who->principal_id != elsewhere->principal_id);
	assert_string_not_equal(who->pseudonym, b->pseudonym);
	assert_string_equal(who->name, "auth0|Ann Ex");
	assert_int_equal(strlen(who->pseudonym), 20);
	assert_int_equal(principal_check(w->tenants, who, &rows_err), 0);
	principal_unref(&who);
	principal_unref(&again);
	principal_unref(&b);
	principal_unref(&elsewhere);
}

static void reload(struct world *w)
{
	struct tenant_image *img = NULL;

	ROWS_OK(tenant_image_load(w->rows.db, w->acme, &img, &rows_err));
	tenants_apply(w->tenants, &img);
}

/* A row that takes the name speaks from then on: so a subject can be suspended. */
static void a_row_ends_who_had_none(void **state)
{
	struct world *w = *state;
	struct principal *who = from_claims(w, "acme", "ann"), *now;

	(void)rows_principal(&w->rows, w->acme, "ann");
	reload(w);
	assert_int_equal(principal_check(w->tenants, who, &rows_err), ERR_DENIED);
	now = from_claims(w, "acme", "ann");
	assert_true(now->principal_id > 0);
	principal_unref(&now);
	principal_unref(&who);
}

/* F42: the edge of expiry, by a scripted clock. */
static void a_token_ends_with_its_time(void **state)
{
	struct world *w = *state;
	struct principal_claims claims = { "acme", "ann", w->scopes, NOW_US + 10, AUDIT_AUTHN_JWT, false };
	struct principal *who = NULL, *late = NULL;

	ROWS_OK(principal_from_claims(w->tenants, &claims, &who, &rows_err));
	clock_fake(NOW_US + 9, 1000000);
	assert_int_equal(principal_check(w->tenants, who, &rows_err), 0);
	clock_fake(NOW_US + 10, 1000000);
	assert_int_equal(principal_check(w->tenants, who, &rows_err), ERR_DENIED);
	assert_string_equal(rows_err.msg, "the token has expired");
	assert_int_equal(principal_from_claims(w->tenants, &claims, &late, &rows_err), ERR_DENIED);
	principal_unref(&who);
}

static int come(struct world *w, const char *tenant, unsigned n, uint64_t mono_us)
{
	char subject[32];
	struct principal_claims claims = { tenant, subject, w->scopes, NOW_US + HOUR_US, AUDIT_AUTHN_JWT, false };
	struct principal *who = NULL;
	int rc;

	(void)snprintf(subject, sizeof subject, "issuer %u", n);
	clock_fake(NOW_US, mono_us);
	rc = principal_from_claims(w->tenants, &claims, &who, &rows_err);
	assert_int_equal(who != NULL, rc == 0);
	principal_unref(&who);
	return rc;
}

/* SEC S-801: who is new finds no place, who was there has one. */
static void subjects_of_a_tenant_are_bounded(void **state)
{
	struct world *w = *state;
	uint64_t start = 1000000, day = TENANT_SUBJECT_REST_US, before = metric_get(METRIC_token_subjects_refused);
	struct principal *row;

	for (unsigned i = 0; i < TENANT_SUBJECTS_MAX; i++)
		assert_int_equal(come(w, "acme", i, start + i), 0);
	assert_int_equal(come(w, "acme", TENANT_SUBJECTS_MAX, start + day - 1), ERR_BUSY);
	assert_int_equal(rows_err.retry_ms, 1);
	assert_non_null(strstr(rows_err.msg, "tenant acme had tokens of 10000 subjects"));
	assert_int_equal(metric_get(METRIC_token_subjects_refused), before + 1);
	/* No flood of others puts out one of them, nor a principal with a row, nor those of another tenant. */
	for (unsigned i = 1; i <= 1000; i++)
		assert_int_equal(come(w, "acme", TENANT_SUBJECTS_MAX + i, start + day - 1), ERR_BUSY);
	assert_int_equal(come(w, "acme", 0, start + day - 1), 0);
	assert_int_equal(come(w, "acme", TENANT_SUBJECTS_MAX - 1, start + day - 1), 0);
	assert_int_equal(come(w, "other", 0, start + day - 1), 0);
	row = from_claims(w, "acme", "build-bot");
	principal_unref(&row);
	/* 1 has not come for a day, 0 has. */
	assert_int_equal(come(w, "acme", TENANT_SUBJECTS_MAX, start + day), ERR_BUSY);
	assert_int_equal(come(w, "acme", TENANT_SUBJECTS_MAX, start + day + 1), 0);
	assert_int_equal(come(w, "acme", 0, start + day + 1), 0);
	assert_int_equal(come(w, "acme", 1, start + day + 1), ERR_BUSY);
}

static void subjects_of_a_removed_tenant_are_forgotten(void **state)
{
	struct world *w = *state;

	assert_int_equal(come(w, "acme", 1, 1000000), 0);
	rows_tenant_state(&w->rows, w->acme, TENANT_REMOVED);
	reload(w);
	assert_int_equal(come(w, "acme", 1, 1000000), ERR_NOT_FOUND);
}

static void claims_that_lead_nowhere_are_refused(void **state)
{
	struct world *w = *state;
	char subject[PRINCIPAL_SUBJECT_MAX + 2];
	struct principal_claims claims = { "acme", subject, w->scopes, NOW_US + HOUR_US, AUDIT_AUTHN_JWT, false };
	struct principal *who = NULL;

	memset(subject, 's', sizeof subject);
	subject[PRINCIPAL_SUBJECT_MAX + 1] = '\0';
	assert_int_equal(principal_from_claims(w->tenants, &claims, &who, &rows_err), ERR_INVALID);
	subject[PRINCIPAL_SUBJECT_MAX] = '\0';
	assert_int_equal(principal_from_claims(w->tenants, &claims, &who, &rows_err), 0);
	assert_true(strlen(who->name) < sizeof who->name);
	principal_unref(&who);
	subject[0] = '\0';
	assert_int_equal(principal_from_claims(w->tenants, &claims, &who, &rows_err), ERR_INVALID);
	(void)snprintf(subject, sizeof subject, "ann");
	claims.known_only = true;
	assert_int_equal(principal_from_claims(w->tenants, &claims, &who, &rows_err), ERR_NOT_FOUND);
	claims.tenant = "nobody";
	assert_int_equal(principal_from_claims(w->tenants, &claims, &who, &rows_err), ERR_NOT_FOUND);
	claims = (struct principal_claims){ "acme", "ann", w->scopes, NOW_US + HOUR_US, AUDIT_AUTHN_JWT, false };
	rows_tenant_state(&w->rows, w->acme, TENANT_SUSPENDED);
	reload(w);
	assert_int_equal(principal_from_claims(w->tenants, &claims, &who, &rows_err), ERR_DENIED);
	assert_null(who);
}

SINGLE_THREAD_SUITE(scope)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_printed_back),
		cmocka_unit_test(what_is_no_scope_is_named),
		cmocka_unit_test(sets_and_patterns_have_a_limit),
		cmocka_unit_test(rights_are_those_of_the_words),
		cmocka_unit_test(needs_are_words),
		TEST(a_subject_with_a_row_is_that_principal),
		TEST(a_subject_without_a_row_is_always_the_same),
		TEST(a_row_ends_who_had_none),
		TEST(a_token_ends_with_its_time),
		TEST(subjects_of_a_tenant_are_bounded),
		TEST(subjects_of_a_removed_tenant_are_forgotten),
		TEST(claims_that_lead_nowhere_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
