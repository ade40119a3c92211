/* Approvals over a real writer, on a clock that the test steps: what waits lapses, a yes is used once and in time, what was
 * refused is remembered, and nobody is asked beyond the bounds. */
#include "config.h"

#include <inttypes.h>

#include "assent/assent.h"
#include "base/clock.h"
#include "base/metric.h"
#include "conf/conf.h"

#include "t_writer.h"
#include "suite.h"

#define SECOND UINT64_C(1000000)
#define START_US UINT64_C(1800000000000000)
#define RULE "{\"by\":[\"group:finance\"],\"timeout\":\"1m\",\"use_within\":\"10s\"}"

static const uint8_t tdef[32] = { 7 };
static char group[] = "finance", person[] = "ann", *groups[] = { group };
static const struct conf_role roles[] = { { .kind = CONF_APPROVER, .person = person, .groups = groups, .ngroups = 1 } };

struct rig { struct fix *f; struct assents *all; int calls; bool done; int rc; };
static struct assent_person persons[] = { { "ann", ASSENT_OF_RULE } };
static struct assent_deed deed;

static int set_up_assents(void **state)
{
	struct rig *r = calloc(1, sizeof *r);

	clock_fake(START_US, 1000 * SECOND);
	set_up((void **)&r->f);
	assert_int_equal(assents_open(&(struct assent_env){ .loop = r->f->loop, .writer = r->f->w,
		.place = { r->f->dir, writer_master }, .roles = roles, .nroles = 1 }, &r->all, &r->f->err), 0);
	*state = r;
	return 0;
}

static int tear_down_assents(void **state)
{
	struct rig *r = *state;

	assents_close(&r->all);
	tear_down((void **)&r->f);
	clock_real();
	free(r);
	return 0;
}

static void settle(struct rig *r)
{
	for (int i = 0; i < 3; i++) {
		assert_int_equal(submit(r->f, AUDIT_CALL_BEGIN, 2, 100000 + ++r->calls), 0);
		wait_idle(r->f);
	}
}

static void on_written(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct rig *r = arg;

	(void)receipt;
	r->rc = rc;
	r->done = true;
}

static void wait_done(struct rig *r)
{
	assert_true(ev_loop_run_until(r->f->loop, &r->done, WAIT_MS));
	r->done = false;
}

static struct assent *ask_for(struct rig *r, int64_t principal_id, int number)
{
	uint8_t digest[32] = { 0 };
	struct audit_event ev = call_event(AUDIT_CALL_HELD, 1, ++r->calls);
	struct assent *a = NULL;

	memcpy(digest, &number, sizeof number);
	assert_int_equal(assent_file(r->all, &(struct assent_new){ .tenant_id = 1, .principal_id = principal_id, .tenant = "acme",
		.principal = "bot", .prn = "prn_a", .cred = "7Qm3", .tool = "pay", .name = "pay", .tdef = tdef, .digest = digest,
		.rule = RULE, .shown = "{}", .shown_len = 2 }, &ev, (struct assent_carrier){ NULL, NULL },
		on_written, r, &a), 0);
	wait_done(r);
	assert_int_equal(r->rc, 0);
	assert_ptr_equal(assent_find(r->all, 1, digest), a);
	assert_null(assent_find(r->all, 2, digest));
	return a;
}

static int vote_run(struct db *db, struct audit_logs *logs, struct err *err)
{
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_CALL_APPROVED, 0);
	return assent_vote(&deed, &ev, db, logs, err);
}

static void vote(struct rig *r, const struct assent *a, bool yes)
{
	deed = (struct assent_deed){ .id = a->id, .yes = yes, .who = "ann", .name = "key ann", .reason = "why", .persons = persons,
				     .npersons = 1 };
	assert_int_equal(submit_job(r->f, 1, false, vote_run), 0);
	wait_idle(r->f);
	assent_done(r->all, &deed);
}

static int use(struct rig *r, struct assent *a)
{
	struct audit_event ev = call_event(AUDIT_CALL_BEGIN, 1, ++r->calls);

	assert_int_equal(assent_use(r->all, a, &ev, (struct assent_carrier){ NULL, NULL }, on_written, r), 0);
	wait_done(r);
	return r->rc;
}

static void what_waits_lapses(void **state)
{
	const uint64_t open = metric_get(METRIC_approvals_open);
	struct rig *r = *state;
	const int64_t id = ask_for(r, 11, 1)->id;

	assert_int_equal(metric_get(METRIC_approvals_open), open + 1);
	clock_step(59 * SECOND);
	settle(r);
	assert_non_null(assent_by_id(r->all, id));
	clock_step(31 * SECOND);
	settle(r);
	assert_null(assent_by_id(r->all, id));
	assert_int_equal(metric_get(METRIC_approvals_open), open);
	assert_int_equal(ask(r->f, "SELECT state FROM assent"), ASSENT_LAPSED);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1034"), 1);
}

static void a_yes_is_used_once(void **state)
{
	struct rig *r = *state;
	struct assent *a = ask_for(r, 11, 1);

	vote(r, a, true);
	assert_int_equal(a->state, ASSENT_GRANTED);
	assert_true(assent_stands(r->all, a));
	assert_int_equal(use(r, a), 0);
	assert_null(assent_by_id(r->all, deed.id));
	assert_int_equal(ask(r->f, "SELECT state FROM assent"), ASSENT_USED);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1001"), 1);
}

static void a_yes_is_used_in_time(void **state)
{
	struct rig *r = *state;
	struct assent *a = ask_for(r, 11, 1);

	vote(r, a, true);
	clock_step(10 * SECOND + 1);
	assert_int_equal(use(r, a), ERR_CONFLICT);      /* the row knows, whatever the index says; nothing has begun */
	assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1001"), 0);
	clock_step(SECOND);
	settle(r);
	assert_int_equal(ask(r->f, "SELECT state FROM assent"), ASSENT_LAPSED);
}

static void who_has_no_role_any_more_has_not_agreed(void **state)
{
	struct rig *r = *state;
	struct assent *a = ask_for(r, 11, 1);

	vote(r, a, true);
	assents_set_roles(r->all, roles, 0);
	assert_false(assent_stands(r->all, a));
	settle(r);
	assert_null(assent_by_id(r->all, deed.id));
	assert_int_equal(ask(r->f, "SELECT state FROM assent"), ASSENT_LAPSED);
}

static void what_was_refused_is_remembered(void **state)
{
	struct rig *r = *state;
	struct assent *a = ask_for(r, 11, 1);
	uint8_t digest[32];

	memcpy(digest, a->digest, sizeof digest);
	vote(r, a, false);
	assert_string_equal(assent_find(r->all, 1, digest)->said, "Refused by ann: why");
	clock_step(599 * SECOND);
	settle(r);
	assert_non_null(assent_find(r->all, 1, digest));
	clock_step(2 * SECOND);
	assert_null(assent_find(r->all, 1, digest));
}

static void so_many_may_wait(void **state)
{
	const uint64_t refused = metric_get(METRIC_approvals_refused);
	struct rig *r = *state;

	for (int i = 0; i < ASSENTS_TENANT_MAX; i++) {
		const int64_t principal_id = 11 + i / ASSENTS_PRINCIPAL_MAX;

		assert_int_equal(assent_room(r->all, 1, principal_id, &r->f->err), 0);
		(void)ask_for(r, principal_id, i + 1);
		if (i + 1 == ASSENTS_PRINCIPAL_MAX)
			assert_int_equal(assent_room(r->all, 1, 11, &r->f->err), ERR_LIMIT);
	}
	assert_int_equal(assent_room(r->all, 1, 5, &r->f->err), ERR_LIMIT);
	assert_int_equal(assent_room(r->all, 2, 5, &r->f->err), 0);
	assert_int_equal(metric_get(METRIC_approvals_refused), refused + 2);
}

#define K(name) cmocka_unit_test_setup_teardown(name, set_up_assents, tear_down_assents)

SUITE(assent)
{
	const struct CMUnitTest tests[] = {
		K(what_waits_lapses),
		K(a_yes_is_used_once),
		K(a_yes_is_used_in_time),
		K(who_has_no_role_any_more_has_not_agreed),
		K(what_was_refused_is_remembered),
		K(so_many_may_wait),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
