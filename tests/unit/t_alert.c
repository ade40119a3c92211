/* Alerts on a clock that the test steps, with a real writer: rounds, rests, what the store and the records have, what a
 * start finds, and that no name gets out as it is (OP-601, OP-603, OP-605). */
#include "config.h"

#include <fcntl.h>
#include <unistd.h>

#include "alert/alert.h"
#include "alert_int.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"

#include "t_writer.h"
#include "suite.h"

#define NOW UINT64_C(1784109600000000)
#define SECOND UINT64_C(1000000)
#define ROUND (10 * SECOND)
#define DAY (86400 * SECOND)

struct rig { struct fix *f; struct alerts *a; };

static void begin(struct rig *r)
{
	struct db *db = NULL;
	struct err err;

	assert_int_equal(db_open_store(db_of_file(r->f->path), &db, &err), 0);
	assert_int_equal(alerts_open(&(struct alert_env){ .loop = r->f->loop, .writer = r->f->w }, db, &r->a, &err), 0);
	db_close(&db);
}

static int set_up_alerts(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	void *fix;

	clock_fake(NOW, 1000 * SECOND);
	assert_int_equal(set_up(&fix), 0);
	r->f = fix;
	begin(r);
	*state = r;
	return 0;
}

static int tear_down_alerts(void **state)
{
	struct rig *r = *state;
	void *fix = r->f;
	int rc;

	alerts_close(&r->a);
	rc = tear_down(&fix);
	clock_real();
	free(r);
	return rc;
}

static int nothing(struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)db;
	(void)logs;
	(void)err;
	return 0;
}

/* What was submitted before is durable, and its owner was told. */
static void settle(struct rig *r)
{
	r->f->n = 0;
	assert_int_equal(submit_job(r->f, 1, true, nothing), 0);
	wait_idle(r->f);
}

/* One round, in which the rule is looked at; of n things of it, "0" to "n - 1". */
static void round_of(struct rig *r, enum alert_rule rule, enum alert_severity severity, int n)
{
	clock_step(ROUND);
	settle(r);                      /* the loop has the new time */
	alerts_look(r->a, rule);
	for (int i = 0; i < n; i++) {
		char subject[16];

		snprintf(subject, sizeof(subject), "%d", i);
		alerts_saw(r->a, &(struct alert_seen){ .rule = rule, .severity = severity, .subject = subject, .text = "It is so." });
	}
	alerts_end(r->a);
	settle(r);
}

static int64_t in_state(const struct rig *r, enum alert_state state)
{
	char sql[80];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM alert WHERE state = %d", (int)state);
	return ask(r->f, sql);
}

static int64_t records(const struct rig *r, int kind)
{
	char sql[80];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM rec WHERE kind = %d", kind);
	return ask(r->f, sql);
}

static void a_thing_that_goes_on_is_one_alert_that_counts(void **state)
{
	struct rig *r = *state;

	for (int i = 0; i < 9; i++)
		round_of(r, ALERT_space_low, ALERT_WARN, 1);
	assert_int_equal(in_state(r, ALERT_OPEN), 1);
	assert_int_equal(records(r, AUDIT_ALERT_OPEN), 1);
	assert_int_equal(ask(r->f, "SELECT count FROM alert"), 7);      /* of a minute ago */
	assert_int_equal(alerts_waiting(r->a), 1);
}

static void it_is_over_when_it_has_rested(void **state)
{
	struct rig *r = *state;

	round_of(r, ALERT_space_low, ALERT_WARN, 1);
	for (int i = 0; i < 5; i++)
		round_of(r, ALERT_space_low, ALERT_WARN, 0);
	assert_int_equal(in_state(r, ALERT_OPEN), 1);
	round_of(r, ALERT_space_low, ALERT_WARN, 0);                    /* 60 s: the rest of this rule */
	assert_int_equal(in_state(r, ALERT_OVER), 1);
	assert_int_equal(alerts_waiting(r->a), 0);
	round_of(r, ALERT_space_low, ALERT_WARN, 1);                    /* another one */
	assert_int_equal(in_state(r, ALERT_OPEN), 1);
	assert_int_equal(records(r, AUDIT_ALERT_OPEN), 2);
}

static void what_nobody_looked_at_stays(void **state)
{
	struct rig *r = *state;

	round_of(r, ALERT_key_expiring, ALERT_INFO, 1);
	for (int i = 0; i < 9; i++)
		round_of(r, ALERT_space_low, ALERT_WARN, 0);
	assert_int_equal(in_state(r, ALERT_OPEN), 1);
	round_of(r, ALERT_key_expiring, ALERT_INFO, 0);
	assert_int_equal(in_state(r, ALERT_OVER), 1);
}

static void what_has_happened_stays_until_somebody_says_so(void **state)
{
	struct rig *r = *state;

	round_of(r, ALERT_audit_gap, ALERT_PAGE, 1);
	for (int i = 0; i < 20; i++)
		round_of(r, ALERT_audit_gap, ALERT_PAGE, 0);
	assert_int_equal(in_state(r, ALERT_OPEN), 1);
	alerts_acknowledged(r->a, ask(r->f, "SELECT id FROM alert"));
	settle(r);
	assert_int_equal(in_state(r, ALERT_OVER), 1);
}

static void worse_than_what_was_acknowledged_is_open_again(void **state)
{
	struct rig *r = *state;

	round_of(r, ALERT_quota_near, ALERT_INFO, 1);
	alerts_acknowledged(r->a, ask(r->f, "SELECT id FROM alert"));
	round_of(r, ALERT_quota_near, ALERT_INFO, 1);
	assert_int_equal(alerts_waiting(r->a), 0);
	round_of(r, ALERT_quota_near, ALERT_WARN, 1);
	assert_int_equal(alerts_waiting(r->a), 1);
	assert_int_equal(ask(r->f, "SELECT severity FROM alert"), ALERT_WARN);
	assert_int_equal(records(r, AUDIT_ALERT_OPEN), 2);
	round_of(r, ALERT_quota_near, ALERT_INFO, 1);                   /* better is no news */
	assert_int_equal(ask(r->f, "SELECT severity FROM alert"), ALERT_WARN);
	assert_int_equal(records(r, AUDIT_ALERT_OPEN), 2);
}

static void a_rule_has_a_bound(void **state)
{
	struct rig *r = *state;
	const uint64_t before = metric_get(METRIC_alerts_dropped);

	round_of(r, ALERT_auth_storm, ALERT_WARN, ALERT_RULE_MAX);
	assert_int_equal(metric_get(METRIC_alerts_dropped), before);
	round_of(r, ALERT_auth_storm, ALERT_WARN, ALERT_RULE_MAX + 1);
	assert_int_equal(metric_get(METRIC_alerts_dropped), before + 1);
	assert_int_equal(in_state(r, ALERT_OPEN), ALERT_RULE_MAX);
	round_of(r, ALERT_space_low, ALERT_WARN, 1);                    /* others have their own */
	assert_int_equal(in_state(r, ALERT_OPEN), ALERT_RULE_MAX + 1);
}

static void a_start_finds_what_is_open(void **state)
{
	struct rig *r = *state;

	round_of(r, ALERT_space_low, ALERT_WARN, 1);
	alerts_close(&r->a);
	begin(r);
	assert_int_equal(alerts_waiting(r->a), 1);
	round_of(r, ALERT_space_low, ALERT_WARN, 1);
	assert_int_equal(records(r, AUDIT_ALERT_OPEN), 1);
	for (int i = 0; i < 6; i++)
		round_of(r, ALERT_space_low, ALERT_WARN, 0);
	assert_int_equal(in_state(r, ALERT_OVER), 1);
}

static void of_a_tenant_that_is_gone_nothing_is_left(void **state)
{
	struct rig *r = *state;

	alerts_saw(r->a, &(struct alert_seen){ .rule = ALERT_quota_near, .tenant_id = 99, .subject = "gone", .text = "It is so." });
	alerts_end(r->a);
	settle(r);
	assert_int_equal(alerts_waiting(r->a), 0);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM alert"), 0);
}

static void a_silenced_rule_is_on_record_and_not_said(void **state)
{
	struct rig *r = *state;
	struct str said = STR_INIT;
	char path[600];
	int fd;

	tmpdir_path(r->f->dir, "log", path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	log_open(fd, LOG_FORMAT_JSON, LOG_LEVEL_INFO);
	alerts_silenced(r->a, ALERT_space_low, NOW + 100 * SECOND);
	round_of(r, ALERT_space_low, ALERT_WARN, 1);
	assert_int_equal(records(r, AUDIT_ALERT_OPEN), 1);
	assert_int_equal(path_read(path, 1 << 16, &said, NULL), 0);
	assert_null(strstr(str_text(&said), "space_low"));
	for (int i = 0; i < 10; i++)
		round_of(r, ALERT_space_low, ALERT_WARN, 1);
	str_reset(&said);
	assert_int_equal(path_read(path, 1 << 16, &said, NULL), 0);
	assert_non_null(strstr(str_text(&said), "space_low"));
	log_open(STDERR_FILENO, LOG_FORMAT_AUTO, LOG_LEVEL_INFO);
	str_fini(&said);
	close(fd);
}

/* OP-605: what somebody called a thing stays in its place, whatever the way out. */
static void a_hostile_name_is_spelt_out(void **state)
{
	static const struct { const char *name, *want; } cases[] = {
		{ "x\r\nBcc: all@example.org", "x\\x0d\\x0aBcc: all@example.org" },
		{ "a\tb", "a\\x09b" },
		{ "\x1b[2Jx", "\\x1b[2Jx" },
		{ "x\xe2\x80\xaetxt", "x\\u{202e}txt" },
		{ "\xff\xfe", "\\xff\\xfe" },
		{ "", "" },
	};
	struct rig *r = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char sql[300], text[200];

		snprintf(text, sizeof(text), "Somebody made %s. Look: toolcrib alerts", cases[i].name);
		alerts_saw(r->a, &(struct alert_seen){ .rule = ALERT_drift, .severity = ALERT_PAGE, .subject = cases[i].name, .text = text });
		alerts_end(r->a);
		settle(r);
		snprintf(sql, sizeof(sql), "SELECT count(*) FROM alert WHERE subject = '%s' AND text = 'Somebody made %s. Look: toolcrib alerts'",
			 cases[i].want, cases[i].want);
		assert_int_equal(ask(r->f, sql), 1);
	}
}

/* Not even texts that nobody made printable become a header of a mail, or end it. */
static void no_text_of_an_alert_is_a_header_of_a_mail(void **state)
{
	static const char evil[] = "x\r\nBcc: all@example.org\r\n\r\n.\r\nMAIL FROM:<e@example.org>";
	char to[] = "ops@example.com", from[] = "crib@example.com", *list[] = { to, to };
	const struct conf_alert conf = { .type = CONF_ALERT_MAIL, .from = from, .to = list, .nto = 2 };
	struct alert_news news = { .rule = ALERT_drift, .severity = ALERT_PAGE, .id = 7, .first_us = NOW };
	const struct alert_telling t = { &news, evil, -1 };
	struct str out = STR_INIT;
	const char *body;

	(void)state;
	(void)snprintf(news.subject, sizeof(news.subject), "%s", evil);
	(void)snprintf(news.text, sizeof(news.text), "%s", evil);
	alert_tell(&(struct alert_form){ &conf, evil, "alerts-0" }, &t, 1, NOW, &out);
	body = strstr(str_text(&out), "\r\n\r\n");
	assert_non_null(body);
	assert_null(strstr(body + 4, "\r\n\r\n"));
	assert_null(strstr(str_text(&out), "Bcc:"));
	assert_null(strstr(str_text(&out), "MAIL FROM"));
	assert_null(strstr(str_text(&out), "\r\n."));
	assert_non_null(strstr(str_text(&out), "Subject: [toolcrib page] drift of x__Bcc__all_example.org"));
	assert_non_null(strstr(str_text(&out), "\r\nDate: Wed, 15 Jul 2026 10:00:00 +0000\r\n"));
	for (const char *p = str_text(&out); (p = strchr(p, '\n')) != NULL; p++)
		assert_int_equal(p[-1], '\r');
	str_fini(&out);
}

static void a_long_text_is_cut_between_characters(void **state)
{
	struct rig *r = *state;
	char text[2 * ALERT_TEXT_SIZE + 1];

	for (size_t i = 0; i < sizeof(text) - 1; i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	text[sizeof(text) - 1] = '\0';
	alerts_saw(r->a, &(struct alert_seen){ .rule = ALERT_drift, .severity = ALERT_PAGE, .subject = text, .text = text });
	alerts_end(r->a);
	settle(r);
	assert_int_equal(ask(r->f, "SELECT length(CAST(text AS BLOB)) FROM alert"), ALERT_TEXT_SIZE - 2);
	assert_int_equal(ask(r->f, "SELECT length(CAST(subject AS BLOB)) FROM alert"), ALERT_SUBJECT_SIZE - 2);
}

static void read_store(struct rig *r, struct alert_reader *reader)
{
	alert_reader_soon(reader);
	settle(r);
	alert_reader_tick(reader);
	while (alert_reader_is_reading(reader))
		settle(r);
	settle(r);
}

/* Not in the hour behind a start either, which makes up for what was missed. */
static void stale_after(struct rig *r, uint64_t may_us, bool daily)
{
	struct alert_reader_env env = { .loop = r->f->loop, .writer = r->f->w, .alerts = r->a, .store = r->f->dir,
					.started_us = clock_wall_us(), .daily = daily };
	struct alert_reader *reader = alert_reader_new(&env);

	read_store(r, reader);
	clock_step(may_us);
	read_store(r, reader);
	assert_int_equal(in_state(r, ALERT_OPEN), 0);
	clock_step(SECOND);
	read_store(r, reader);
	assert_int_equal(ask(r->f, "SELECT usual FROM alert WHERE rule = 'verify_stale' AND state = 0"), may_us / DAY);
	alert_reader_free(&reader);

	env.started_us = clock_wall_us();
	reader = alert_reader_new(&env);
	read_store(r, reader);
	assert_int_equal(in_state(r, ALERT_OPEN), 0);
	clock_step(3601 * SECOND);
	read_store(r, reader);
	assert_int_equal(in_state(r, ALERT_OPEN), 1);
	alert_reader_free(&reader);
}

static void no_verification_for_eight_days_is_said(void **state)
{
	stale_after(*state, 8 * DAY, false);
}

static void of_a_server_that_verifies_itself_after_two(void **state)
{
	stale_after(*state, 2 * DAY, true);
}

static void each_rule_has_a_name_of_its_own_and_says_what_it_is(void **state)
{
	enum alert_rule found;
	const char *from;

	(void)state;
	for (int i = 0; i < ALERT_RULES; i++) {
		const enum alert_rule rule = (enum alert_rule)i;

		assert_int_equal(alert_rule_find(alert_rule_name(rule), &found), 0);
		assert_int_equal(found, rule);
		assert_true(strlen(alert_rule_help(rule, &from)) > 10);
	}
	assert_int_equal(alert_rule_find("nothing", &found), ERR_NOT_FOUND);
}

#define A(name) cmocka_unit_test_setup_teardown(name, set_up_alerts, tear_down_alerts)

SUITE(alert)
{
	const struct CMUnitTest tests[] = {
		A(a_thing_that_goes_on_is_one_alert_that_counts),
		A(it_is_over_when_it_has_rested),
		A(what_nobody_looked_at_stays),
		A(what_has_happened_stays_until_somebody_says_so),
		A(worse_than_what_was_acknowledged_is_open_again),
		A(a_rule_has_a_bound),
		A(a_start_finds_what_is_open),
		A(of_a_tenant_that_is_gone_nothing_is_left),
		A(a_silenced_rule_is_on_record_and_not_said),
		A(a_hostile_name_is_spelt_out),
		cmocka_unit_test(no_text_of_an_alert_is_a_header_of_a_mail),
		A(a_long_text_is_cut_between_characters),
		A(no_verification_for_eight_days_is_said),
		A(of_a_server_that_verifies_itself_after_two),
		cmocka_unit_test(each_rule_has_a_name_of_its_own_and_says_what_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
