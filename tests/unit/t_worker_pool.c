/* The pool of workers: requests and their ends, bounds, turns, and what a worker cannot reach (HARDENING 1.4, F-2). */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/sanitized.h"
#include "base/text.h"
#include "ev/ev.h"
#include "suite.h"
#include "tmpdir.h"
#include "worker/proto.h"
#include "worker/worker.h"

#define PATIENCE_MS 600000              /* workers give way to all else, and other tests may have all processors */
#define FAR_US 3600000000ull

struct fix {
	struct ev_loop *loop;
	struct worker_pool *pool;
	unsigned ends;                  /* of all asks, in order */
};
struct ask {
	struct fix *f;
	struct worker_job *job;
	bool done, failed;
	unsigned place;                 /* the how manyth that ended */
	struct err err;
	struct str answer;
};

/* A launcher looks once where the programs are. */
static void open_with(struct fix *f, const char *program)
{
	worker_pool_free(&f->pool);
	ev_loop_free(&f->loop);
	setenv("TOOLCRIB_WORKER", program, 1);
	f->loop = ev_loop_new();
	f->pool = worker_pool_new(f->loop, WORKER_TENANT_MAX);
}

static int set_up(void **state)
{
	struct fix *f = mem_zalloc(sizeof(*f));
	const char *build = getenv("TOOLCRIB_BUILDDIR");
	char *here = build ? NULL : getcwd(NULL, 0), *program = mem_printf("%s/tests/peers/worker_trial", build ? build : here);

	open_with(f, program);
	free(program);
	free(here);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	clock_real();
	worker_pool_free(&f->pool);
	ev_loop_free(&f->loop);
	free(f);
	return 0;
}

static void on_ended(void *arg, const struct err *err, const char *p, size_t len)
{
	struct ask *a = arg;

	assert_false(a->done);
	a->done = true;
	a->job = NULL;
	a->place = ++a->f->ends;
	a->failed = err != NULL;
	if (err)
		a->err = *err;
	else
		str_put(&a->answer, p, len);
}

/* What a test asks beyond a name and bytes. */
struct want { int64_t tenant; uint64_t memory, time_us; size_t answer_max; };

static int ask_with(struct fix *f, struct ask *a, const char *name, const char *text, size_t len, struct want w)
{
	*a = (struct ask){ .f = f };
	return worker_start(f->pool, &(const struct worker_req){
		.name = name, .tenant_id = w.tenant, .p = text, .len = len, .memory = w.memory,
		.answer_max = w.answer_max ? w.answer_max : 4096,
		.deadline_us = clock_mono_us() + (w.time_us ? w.time_us : FAR_US), .ended = on_ended, .arg = a,
	}, &a->job, &a->err);
}

static void ask(struct fix *f, struct ask *a, int64_t tenant, const char *name, const char *text)
{
	assert_int_equal(ask_with(f, a, name, text, strlen(text), (struct want){ .tenant = tenant }), 0);
	assert_false(a->done);
}

static void await(struct ask *a)
{
	assert_true(ev_loop_run_until(a->f->loop, &a->done, PATIENCE_MS));
}

static void expect(struct ask *a, const char *answer)
{
	await(a);
	if (a->failed)
		fail_msg("%s: %s", a->err.where, a->err.msg);
	assert_string_equal(str_text(&a->answer), answer);
	str_fini(&a->answer);
}

static void expect_err(struct ask *a, enum err_code code, const char *where)
{
	await(a);
	assert_true(a->failed);
	assert_int_equal(a->err.code, code);
	assert_string_equal(a->err.where, where);
	assert_true(*a->err.msg);
}

static pid_t pid_for(struct fix *f, int64_t tenant)
{
	struct ask a;
	pid_t pid;

	ask(f, &a, tenant, "number", "");
	await(&a);
	assert_false(a.failed);
	pid = (pid_t)strtol(str_text(&a.answer), NULL, 10);
	str_fini(&a.answer);
	return pid;
}

static void drop(struct ask *asks, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		worker_cancel(&asks[i].job);
}

static void set_flag(void *arg)
{
	*(bool *)arg = true;
}

static void turn(struct fix *f)
{
	bool flag = false;

	ev_post(f->loop, set_flag, &flag);
	assert_true(ev_loop_run_until(f->loop, &flag, PATIENCE_MS));
}

/* Reaped as well. */
static void await_death(struct fix *f, pid_t pid)
{
	const uint64_t until = clock_mono_us() + PATIENCE_MS * 1000ull;

	while (kill(pid, 0) == 0) {
		assert_true(clock_mono_us() < until);
		turn(f);
	}
	assert_int_equal(errno, ESRCH);
}

/* --- requests */

static void a_request_gets_its_answer(void **state)
{
	struct ask a;

	ask(*state, &a, 1, "echo", "hello");
	expect(&a, "hello");
	ask(*state, &a, 1, "echo", "");
	expect(&a, "");
}

static void a_worker_stays_with_its_tenant(void **state)
{
	pid_t first = pid_for(*state, 1);

	assert_int_equal(pid_for(*state, 1), first);
	assert_int_not_equal(pid_for(*state, 2), first);
	assert_int_equal(pid_for(*state, 1), first);
}

static void a_failure_says_what_it_is(void **state)
{
	struct ask a;

	ask(*state, &a, 1, "fail", "bad \033 thing");
	expect_err(&a, ERR_CONFLICT, "/there");
	assert_string_equal(a.err.msg, "bad \\x1b thing");
	ask(*state, &a, 1, "nothing", "");
	expect_err(&a, ERR_NOT_FOUND, "worker");
	ask(*state, &a, 1, "echo", "still there");
	expect(&a, "still there");
}

static void a_long_request_and_a_long_answer_come_whole(void **state)
{
	const size_t len = 3u << 20;
	char *text = mem_alloc(len + 1);
	struct ask a;

	for (size_t i = 0; i < len; i++)
		text[i] = (char)('a' + i % 26);
	text[len] = '\0';
	assert_int_equal(ask_with(*state, &a, "echo", text, len, (struct want){ .tenant = 1, .answer_max = len }), 0);
	expect(&a, text);
	free(text);
}

static void an_answer_at_the_limit_passes_and_one_byte_more_does_not(void **state)
{
	for (unsigned over = 0; over < 2; over++) {
		struct ask a;
		int rc = ask_with(*state, &a, "flood", over ? "1001" : "1000", 4,
				  (struct want){ .tenant = 1, .answer_max = 1000 });

		assert_int_equal(rc, 0);
		if (over) {
			expect_err(&a, ERR_LIMIT, "answer");
		} else {
			await(&a);
			assert_int_equal(a.answer.len, 1000);
			str_fini(&a.answer);
		}
	}
}

static void a_request_at_the_limit_passes_and_one_byte_more_does_not(void **state)
{
	const size_t most = WORKER_REQUEST_MAX - WORKER_MSG_MORE;
	char *text = mem_zalloc(most + 1);
	struct ask a;

	assert_int_equal(ask_with(*state, &a, "echo", text, most + 1, (struct want){ .tenant = 1, .answer_max = most }),
			 ERR_LIMIT);
	assert_int_equal(ask_with(*state, &a, "echo", text, 1, (struct want){ .tenant = 1,
		.answer_max = WORKER_ANSWER_MAX - WORKER_MSG_MORE + 1 }), ERR_LIMIT);
	assert_int_equal(ask_with(*state, &a, "echo", text, most, (struct want){ .tenant = 1, .answer_max = most }), 0);
	await(&a);
	assert_int_equal(a.answer.len, most);
	str_fini(&a.answer);
	free(text);
}

/* --- bounds */

static void f2_work_without_end_is_killed_at_its_deadline(void **state)
{
	static const char *const endless[] = { "spin", "wait" };
	struct fix *f = *state;

	for (size_t i = 0; i < NELEMS(endless); i++) {
		const uint64_t killed = metric_get(METRIC_worker_killed), from = clock_mono_us();
		pid_t pid = pid_for(f, 1);
		struct ask a;

		assert_int_equal(ask_with(f, &a, endless[i], "", 0, (struct want){ .tenant = 1, .time_us = 50000 }), 0);
		expect_err(&a, ERR_TIMEOUT, "");
		print_message("%s: killed after %u ms of 50\n", endless[i], (unsigned)((clock_mono_us() - from) / 1000));
		assert_int_equal(metric_get(METRIC_worker_killed), killed + 1);
		await_death(f, pid);
		ask(f, &a, 1, "echo", "and replaced");
		expect(&a, "and replaced");
	}
}

static void f2_memory_is_bounded(void **state)
{
	static const unsigned mib[] = { 8, 64, 0 };

	if (SANITIZED)
		return;
	for (size_t i = 0; i < NELEMS(mib); i++) {
		unsigned want = mib[i] ? mib[i] : WORKER_MEMORY_DEFAULT >> 20, got;
		struct ask a;

		assert_int_equal(ask_with(*state, &a, "eat", "", 0, (struct want){ .tenant = (int64_t)i,
			.memory = (uint64_t)mib[i] << 20 }), 0);
		await(&a);
		got = (unsigned)strtoul(str_text(&a.answer), NULL, 10);
		assert_true(got <= want + 1 && got + 2 >= want);
		str_fini(&a.answer);
	}
}

/* The next request has a worker again. */
static void a_worker_that_dies_is_an_error_of_one_request(void **state)
{
	static const char *const deaths[] = { "die", "greed" };

	for (size_t i = 0; i < NELEMS(deaths) - SANITIZED; i++) {
		const uint64_t died = metric_get(METRIC_worker_died);
		struct ask a, other;

		ask(*state, &other, 1, "wait", "");
		ask(*state, &a, 1, deaths[i], "");
		expect_err(&a, ERR_UNREACHABLE, "worker");
		assert_int_equal(metric_get(METRIC_worker_died), died + 1);
		assert_false(other.done);
		ask(*state, &a, 1, "echo", "again");
		expect(&a, "again");
		drop(&other, 1);
	}
}

static void a_worker_that_breaks_the_rules_is_killed(void **state)
{
	static const struct { const char *p; size_t len; enum err_code code; const char *where; } all[] = {
		{ "\0\0\0\1\1", 5, ERR_UNREACHABLE, "worker" },                         /* ready again */
		{ "\0\0\0\0", 4, ERR_UNREACHABLE, "worker" },                           /* nothing */
		{ "\0\0\0\2\3\2", 6, ERR_UNREACHABLE, "worker" },                       /* neither last nor not */
		{ "\0\0\0\2\3\0\0", 7, ERR_UNREACHABLE, "worker" },                     /* one byte too many */
		{ "\0\0\0\2\3\0\0\0\0\2\3\0", 12, ERR_UNREACHABLE, "worker" },          /* two answers */
		{ "\0\0\0\36\2\0\0\0\1a" "timetimememorymeanswerno", 34, ERR_UNREACHABLE, "worker" },    /* a request */
		{ "\0\0\0\13\4\0\63\0\0\0\0\0\0\0\0", 15, ERR_UNREACHABLE, "worker" },  /* no such code */
		{ "\x7f\xff\xff\xff", 4, ERR_LIMIT, "answer" },                         /* longer than anything */
	};

	for (size_t i = 0; i < NELEMS(all); i++) {
		struct ask a;

		assert_int_equal(ask_with(*state, &a, "rubbish", all[i].p, all[i].len, (struct want){ .tenant = 1 }), 0);
		expect_err(&a, all[i].code, all[i].where);
	}
	assert_int_not_equal(pid_for(*state, 1), 0);
}

/* What has taken long goes on behind all others, and does not come back. */
static void a_worker_that_was_busy_is_replaced(void **state)
{
	pid_t first = pid_for(*state, 1);
	char want[40];
	struct ask a;

#if LOOKS_FOR_RACES
	skip();                         /* it holds signals back until a call that waits, and this work makes none */
#endif
	ask(*state, &a, 1, "busy", "");
	(void)snprintf(want, sizeof(want), "%d 19", (int)first);
	expect(&a, want);
	assert_int_not_equal(pid_for(*state, 1), first);
}

/* --- turns */

static void f2_a_tenant_has_so_many_workers_and_the_next_request_waits(void **state)
{
	const uint64_t full = metric_get(METRIC_worker_tenant_full);
	struct ask at_work[WORKER_TENANT_MAX], next, other;

	for (unsigned i = 0; i < WORKER_TENANT_MAX; i++)
		ask(*state, &at_work[i], 1, "wait", "");
	assert_int_equal(metric_get(METRIC_worker_running), WORKER_TENANT_MAX);
	assert_int_equal(metric_get(METRIC_worker_tenant_full), full);
	ask(*state, &next, 1, "echo", "late");
	assert_int_equal(metric_get(METRIC_worker_running), WORKER_TENANT_MAX);
	assert_int_equal(metric_get(METRIC_worker_waiting), 1);
	assert_int_equal(metric_get(METRIC_worker_tenant_full), full + 1);
	ask(*state, &other, 2, "echo", "another tenant's");
	expect(&other, "another tenant's");
	assert_false(next.done);
	worker_cancel(&at_work[0].job);
	expect(&next, "late");
	drop(at_work, WORKER_TENANT_MAX);
	assert_int_equal(metric_get(METRIC_worker_running), 0);
	assert_int_equal(metric_get(METRIC_worker_waiting), 0);
}

static void f2_the_share_of_a_tenant_is_as_many_as_processors_within_bounds(void **state)
{
	(void)state;
	assert_int_equal(worker_share(1), WORKER_TENANT_LEAST);
	assert_int_equal(worker_share(WORKER_TENANT_LEAST), WORKER_TENANT_LEAST);
	assert_int_equal(worker_share(WORKER_TENANT_LEAST + 1), WORKER_TENANT_LEAST + 1);
	assert_int_equal(worker_share(WORKER_TENANT_MAX), WORKER_TENANT_MAX);
	assert_int_equal(worker_share(WORKER_TENANT_MAX + 1), WORKER_TENANT_MAX);
}

/* What waits behind work without end would else be given a process each, for the moment that is left of its time. */
static void f2_a_tenant_has_so_many_starts_and_one_more_waits_for_its_rate(void **state)
{
	const uint64_t held = metric_get(METRIC_worker_held_back), started = metric_get(METRIC_worker_started);
	struct ask hung, next, other;

	for (unsigned i = 0; i < WORKER_TENANT_STARTS; i++) {
		ask(*state, &hung, 1, "wait", "");
		worker_cancel(&hung.job);
	}
	assert_int_equal(metric_get(METRIC_worker_started), started + WORKER_TENANT_STARTS);
	assert_int_equal(metric_get(METRIC_worker_held_back), held);
	ask(*state, &next, 1, "echo", "one more");
	ask(*state, &other, 2, "echo", "another tenant's");
	assert_int_equal(metric_get(METRIC_worker_held_back), held + 1);
	assert_int_equal(metric_get(METRIC_worker_started), started + WORKER_TENANT_STARTS + 1);
	expect(&other, "another tenant's");
	assert_false(next.done);
	expect(&next, "one more");
	/* A process that rests needs no start. */
	ask(*state, &next, 1, "echo", "the same");
	expect(&next, "the same");
	assert_int_equal(metric_get(METRIC_worker_held_back), held + 1);
}

static long moment_for(struct fix *f, int64_t tenant)
{
	struct ask a;
	long us;

	ask(f, &a, tenant, "brisk", "");
	await(&a);
	assert_false(a.failed);
	us = strtol(str_text(&a.answer), NULL, 10);
	str_fini(&a.answer);
	return us;
}

/* Two processes a second that each begin with 10 ms at the usual priority would be one in fifty of what others wait for. */
static void f2_who_lacks_starts_has_less_at_the_usual_priority(void **state)
{
	struct ask hung;
	long lacking;

	for (unsigned i = 0; i < WORKER_TENANT_STARTS; i++) {
		ask(*state, &hung, 1, "wait", "");
		worker_cancel(&hung.job);
	}
	lacking = moment_for(*state, 1);
	assert_true(lacking > 0);
	assert_true(moment_for(*state, 2) > lacking + WORKER_BRISK_US / 4);     /* both with what the kernel adds, a tick */
}

static void f2_so_many_wait_and_one_more_is_refused(void **state)
{
	enum { ALL = WORKER_TENANT_MAX + WORKER_TENANT_WAIT_MAX };
	const uint64_t refused = metric_get(METRIC_worker_refused);
	struct ask *asks = mem_calloc(ALL, sizeof(*asks)), more;

	for (unsigned i = 0; i < ALL; i++)
		ask(*state, &asks[i], 1, "wait", "");
	assert_int_equal(ask_with(*state, &more, "echo", "", 0, (struct want){ .tenant = 1 }), ERR_BUSY);
	assert_int_equal(metric_get(METRIC_worker_refused), refused + 1);
	ask(*state, &more, 2, "echo", "there is room");
	expect(&more, "there is room");
	drop(asks, ALL);
	free(asks);
}

/* Those of other tenants, as many as there may be, do not keep one out that has none. */
static void f2_so_many_of_all_wait_and_a_tenant_may_still_begin(void **state)
{
	enum { TENANTS = WORKER_WAIT_MAX / WORKER_TENANT_WAIT_MAX + 1, EACH = WORKER_TENANT_MAX + WORKER_TENANT_WAIT_MAX };
	struct ask *asks = mem_calloc(TENANTS * EACH, sizeof(*asks)), more;
	unsigned n = 0;

	for (unsigned i = 0; i < TENANTS - 1; i++)
		for (unsigned k = 0; k < EACH; k++)
			ask(*state, &asks[n++], i, "wait", "");
	assert_int_equal(metric_get(METRIC_worker_waiting), WORKER_WAIT_MAX);
	for (unsigned k = 0; k < WORKER_TENANT_MAX; k++)
		ask(*state, &asks[n++], 100, "wait", "");
	ask(*state, &asks[n++], 100, "wait", "");       /* waits, as the first of its tenant */
	assert_int_equal(ask_with(*state, &more, "echo", "", 0, (struct want){ .tenant = 100 }), ERR_BUSY);
	ask(*state, &more, 101, "echo", "in");
	expect(&more, "in");
	drop(asks, n);
	free(asks);
}

static void f2_tenants_take_turns_when_all_workers_are_busy(void **state)
{
	struct ask busy[WORKER_MAX], many[5], one;

	for (unsigned i = 0; i < WORKER_MAX; i++)
		ask(*state, &busy[i], 10 + i / WORKER_TENANT_MAX, "wait", "");
	for (unsigned i = 0; i < NELEMS(many); i++)
		ask(*state, &many[i], 1, "echo", "many");
	ask(*state, &one, 2, "echo", "one");
	turn(*state);
	assert_int_equal(metric_get(METRIC_worker_running), WORKER_MAX);
	assert_int_equal(metric_get(METRIC_worker_waiting), NELEMS(many) + 1);
	worker_cancel(&busy[0].job);
	expect(&one, "one");
	assert_true(one.place <= 2);    /* the first of the others, and then it */
	for (unsigned i = 0; i < NELEMS(many); i++)
		expect(&many[i], "many");
	drop(busy, WORKER_MAX);
}

/* The place of one that waits for its own tenant goes to another that needs it. */
static void f2_an_idle_worker_gives_its_place_to_another_tenant(void **state)
{
	struct ask busy[WORKER_MAX - 1], a;
	pid_t idle;

	for (unsigned i = 0; i < WORKER_MAX - 1; i++)
		ask(*state, &busy[i], 10 + i / WORKER_TENANT_MAX, "wait", "");
	idle = pid_for(*state, 1);
	ask(*state, &a, 2, "echo", "its place");
	expect(&a, "its place");
	await_death(*state, idle);
	drop(busy, WORKER_MAX - 1);
}

static void idle_workers_are_few_and_end(void **state)
{
	struct fix *f = *state;
	pid_t pids[WORKER_IDLE_MAX + 1];

	for (unsigned i = 0; i <= WORKER_IDLE_MAX; i++)
		pids[i] = pid_for(f, i);
	await_death(f, pids[0]);
	for (unsigned i = 1; i <= WORKER_IDLE_MAX; i++)
		assert_int_equal(pid_for(f, i), pids[i]);
	clock_fake(clock_wall_us(), clock_mono_us());
	clock_step(WORKER_IDLE_MS * 1000ull);
	turn(f);
	clock_real();
	for (unsigned i = 1; i <= WORKER_IDLE_MAX; i++)
		await_death(f, pids[i]);
}

/* --- behind another (decision 0148), the clock standing still */

static uint64_t ahead_of(const struct fix *f)
{
	return worker_pool_counts(f->pool).ahead;
}

static uint64_t back_of(const struct fix *f)
{
	return worker_pool_counts(f->pool).back;
}

/* A pool of so many workers for a tenant, one of which has answered quickly; its process. */
static pid_t quick(struct fix *f, unsigned share)
{
	worker_pool_free(&f->pool);
	f->pool = worker_pool_new(f->loop, share);
	clock_fake(clock_wall_us(), clock_mono_us());
	return pid_for(f, 1);
}

static void step(struct fix *f, uint64_t us)
{
	clock_step(us);
	turn(f);
}

/* A request that is at work until release(). */
struct held { char *dir, path[600]; struct ask ask; };

static void hold(struct fix *f, struct held *h)
{
	h->dir = tmpdir_make();
	ask(f, &h->ask, 1, "until", tmpdir_path(h->dir, "file", h->path, sizeof(h->path)));
}

static void let_go(const struct held *h)
{
	int fd = open(h->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void release(struct held *h)
{
	let_go(h);
	expect(&h->ask, "until");
	tmpdir_remove(h->dir);
}

static void so_many_stand_behind_a_quick_one_and_each_gets_its_answer(void **state)
{
	enum { ALL = 3 * WORKER_AHEAD };
	struct fix *f = *state;
	const pid_t pid = quick(f, 1);
	const uint64_t ahead = ahead_of(f), started = metric_get(METRIC_worker_started);
	struct ask asks[ALL], last;
	char texts[ALL][16];

	for (unsigned i = 0; i < ALL; i++) {
		(void)snprintf(texts[i], sizeof(texts[i]), "the %uth", i);
		ask(f, &asks[i], 1, "echo", texts[i]);
		assert_int_equal(ahead_of(f), ahead + (i < WORKER_AHEAD ? i : WORKER_AHEAD - 1));
	}
	assert_int_equal(metric_get(METRIC_worker_running), 1);
	assert_int_equal(metric_get(METRIC_worker_waiting), ALL - 1);
	ask(f, &last, 1, "number", "");
	for (unsigned i = 0; i < ALL; i++) {
		expect(&asks[i], texts[i]);
		assert_int_equal(asks[i].place, asks[0].place + i);
	}
	await(&last);
	assert_int_equal(strtol(str_text(&last.answer), NULL, 10), pid);
	str_fini(&last.answer);
	assert_int_equal(metric_get(METRIC_worker_started), started);
	assert_int_equal(metric_get(METRIC_worker_running), 0);
	assert_int_equal(metric_get(METRIC_worker_waiting), 0);
}

static void a_request_of_so_many_bytes_stands_behind_and_a_larger_one_waits(void **state)
{
	struct fix *f = *state;
	char *text = mem_zalloc(WORKER_AHEAD_BYTES + 1);
	struct ask fits, larger;
	struct held h;
	uint64_t ahead;

	(void)quick(f, 1);
	hold(f, &h);
	ahead = ahead_of(f);
	for (unsigned over = 0; over < 2; over++) {
		assert_int_equal(ask_with(f, over ? &larger : &fits, "echo", text, WORKER_AHEAD_BYTES + over,
					  (struct want){ .tenant = 1, .answer_max = WORKER_AHEAD_BYTES + 1 }), 0);
		assert_int_equal(ahead_of(f), ahead + 1);
	}
	release(&h);
	await(&fits);
	await(&larger);
	assert_int_equal(fits.answer.len, WORKER_AHEAD_BYTES);
	assert_int_equal(larger.answer.len, WORKER_AHEAD_BYTES + 1);
	str_fini(&fits.answer);
	str_fini(&larger.answer);
	free(text);
}

static void nobody_stays_behind_what_takes_long(void **state)
{
	struct fix *f = *state;
	struct ask slow, other, asks[2];

	(void)quick(f, 2);
	ask(f, &slow, 1, "wait", "");           /* the quick one's */
	ask(f, &other, 1, "wait", "");
	ask(f, &asks[0], 1, "echo", "first");
	ask(f, &asks[1], 1, "echo", "second");
	step(f, WORKER_AHEAD_US - 1);
	assert_int_equal(back_of(f), 0);
	step(f, 1);
	assert_int_equal(back_of(f), 2);
	assert_false(asks[0].done || asks[1].done);
	worker_cancel(&other.job);              /* whose place is free now */
	expect(&asks[0], "first");
	expect(&asks[1], "second");
	assert_true(asks[0].place < asks[1].place);
	assert_false(slow.done);
	drop(&slow, 1);
	assert_int_equal(metric_get(METRIC_worker_waiting), 0);
}

/* Who has stood behind it is served elsewhere meanwhile, and what it says to those is nobody's. */
static void an_answer_to_one_that_was_taken_back_is_nobodys(void **state)
{
	struct fix *f = *state;
	struct ask other, behind, next;
	struct held h;
	pid_t pid;

	pid = quick(f, 2);
	hold(f, &h);
	ask(f, &other, 1, "wait", "");
	ask(f, &behind, 1, "echo", "served elsewhere");
	step(f, WORKER_AHEAD_US);
	worker_cancel(&other.job);
	expect(&behind, "served elsewhere");
	release(&h);
	ask(f, &next, 1, "echo", "and the next");
	expect(&next, "and the next");
	for (unsigned i = 0; i < 2 * WORKER_AHEAD; i++) {
		ask(f, &next, 1, "number", "");
		await(&next);
		str_fini(&next.answer);
	}
	assert_int_equal(kill(pid, 0), 0);
}

/* Of all that stood behind it nothing is lost. */
static void the_end_of_a_worker_is_of_one_request_alone(void **state)
{
	static const char *const ends[] = { "die", "wait", "rubbish", "busy" };
	struct fix *f = *state;

	for (size_t i = 0; i < NELEMS(ends) - LOOKS_FOR_RACES; i++) {
		struct ask a, asks[3];
		char texts[3][8];

		(void)quick(f, 1);
		ask(f, &a, 1, ends[i], "\177\377\377\377");
		for (unsigned k = 0; k < NELEMS(asks); k++) {
			(void)snprintf(texts[k], sizeof(texts[k]), "%s%u", "n", k);
			ask(f, &asks[k], 1, "echo", texts[k]);
		}
		turn(f);
		if (strcmp(ends[i], "wait") == 0)
			worker_cancel(&a.job);
		for (unsigned k = 0; k < NELEMS(asks); k++) {
			expect(&asks[k], texts[k]);
			if (k > 0)
				assert_int_equal(asks[k].place, asks[k - 1].place + 1);
		}
		if (strcmp(ends[i], "wait") != 0) {
			assert_true(a.done);
			assert_int_equal(a.failed, strcmp(ends[i], "busy") != 0);
		}
		str_fini(&a.answer);
		assert_int_equal(metric_get(METRIC_worker_running), 0);
		assert_int_equal(metric_get(METRIC_worker_waiting), 0);
		clock_real();
	}
}

static void one_that_stands_behind_is_cancelled_or_late_and_the_others_are_not(void **state)
{
	struct fix *f = *state;
	struct ask cancelled, late, other;
	struct held h;
	pid_t pid;

	pid = quick(f, 1);
	hold(f, &h);
	ask(f, &cancelled, 1, "echo", "cancelled");
	assert_int_equal(ask_with(f, &late, "echo", "late", 4, (struct want){ .tenant = 1, .time_us = WORKER_AHEAD_US / 2 }), 0);
	ask(f, &other, 1, "number", "");
	assert_int_equal(metric_get(METRIC_worker_waiting), 3);
	worker_cancel(&cancelled.job);
	clock_step(WORKER_AHEAD_US / 2);
	expect_err(&late, ERR_TIMEOUT, "wait");
	assert_int_equal(metric_get(METRIC_worker_waiting), 1);
	assert_false(h.ask.done || other.done);
	release(&h);
	await(&other);
	assert_int_equal(strtol(str_text(&other.answer), NULL, 10), pid);
	assert_false(cancelled.done);
	str_fini(&other.answer);
}

/* Who cancels gets the processor back, also of one whose turn comes later. */
static void what_nobody_wants_is_not_worked_on_for_long(void **state)
{
	struct fix *f = *state;
	const uint64_t killed = metric_get(METRIC_worker_killed);
	struct ask unwanted, next;
	struct held h;
	pid_t pid;

	pid = quick(f, 1);
	hold(f, &h);
	ask(f, &unwanted, 1, "wait", "");
	worker_cancel(&unwanted.job);
	assert_int_equal(metric_get(METRIC_worker_killed), killed);
	release(&h);
	ask(f, &next, 1, "echo", "next");
	step(f, 2 * WORKER_AHEAD_US);
	assert_int_equal(metric_get(METRIC_worker_killed), killed + 1);
	await_death(f, pid);
	expect(&next, "next");
}

/* Nobody keeps a place by what stands behind its work. */
static void while_another_tenant_waits_for_a_place_nobody_stands_behind(void **state)
{
	struct fix *f = *state;
	struct ask busy[WORKER_MAX - 1], behind, waits, other;
	struct held h;
	uint64_t ahead;

	(void)quick(f, WORKER_TENANT_MAX);
	for (unsigned i = 0; i < WORKER_MAX - 1; i++)
		ask(f, &busy[i], 10 + i / WORKER_TENANT_MAX, "wait", "");
	hold(f, &h);
	ahead = ahead_of(f);
	ask(f, &behind, 1, "echo", "behind");
	assert_int_equal(ahead_of(f), ahead + 1);
	ask(f, &other, 2, "echo", "another tenant's");
	ask(f, &waits, 1, "echo", "waits");
	assert_int_equal(ahead_of(f), ahead + 1);
	release(&h);
	expect(&behind, "behind");
	expect(&other, "another tenant's");
	expect(&waits, "waits");
	drop(busy, WORKER_MAX - 1);
}

/* --- ends */

static void a_request_that_waits_times_out_as_well(void **state)
{
	const uint64_t late = metric_get(METRIC_worker_waited_too_long);
	struct ask at_work[WORKER_TENANT_MAX], next;

	for (unsigned i = 0; i < WORKER_TENANT_MAX; i++)
		ask(*state, &at_work[i], 1, "wait", "");
	assert_int_equal(ask_with(*state, &next, "echo", "", 0, (struct want){ .tenant = 1, .time_us = 20000 }), 0);
	expect_err(&next, ERR_TIMEOUT, "wait");
	assert_int_equal(metric_get(METRIC_worker_waited_too_long), late + 1);
	drop(at_work, WORKER_TENANT_MAX);
}

static void a_cancelled_request_has_no_end(void **state)
{
	struct ask at_work[WORKER_TENANT_MAX], next;
	pid_t pid = pid_for(*state, 1);

	for (unsigned i = 0; i < WORKER_TENANT_MAX; i++)
		ask(*state, &at_work[i], 1, "wait", "");
	ask(*state, &next, 1, "echo", "");
	worker_cancel(&next.job);
	drop(at_work, WORKER_TENANT_MAX);
	await_death(*state, pid);
	turn(*state);
	assert_false(next.done);
	assert_false(at_work[0].done);
}

static void a_program_that_is_missing_is_an_error_of_the_request(void **state)
{
	struct fix *f = *state;
	struct ask a, dropped;

	open_with(f, "/nonexistent/worker");
	ask(f, &dropped, 1, "echo", "");
	worker_cancel(&dropped.job);
	ask(f, &a, 1, "echo", "");
	expect_err(&a, ERR_UNREACHABLE, "worker");
	assert_false(dropped.done);
	open_with(f, "/bin/false");
	ask(f, &a, 1, "echo", "");
	expect_err(&a, ERR_UNREACHABLE, "worker");
}

static void the_end_of_the_pool_ends_all_workers(void **state)
{
	struct fix *f = *state;
	struct ask at_work[WORKER_TENANT_MAX + 1];
	pid_t pid = pid_for(f, 1);

	for (unsigned i = 0; i < NELEMS(at_work); i++)
		ask(f, &at_work[i], 1, "spin", "");     /* the last one perhaps behind the first */
	worker_pool_free(&f->pool);
	await_death(f, pid);
	assert_false(at_work[0].done);
}

/* --- the cage */

static char *status_of(pid_t pid)
{
	char *path = mem_printf("/proc/%d/status", (int)pid), *text = mem_zalloc(8192);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(read(fd, text, 8191) > 0);
	close(fd);
	free(path);
	return text;
}

static void f2_a_worker_reaches_nothing(void **state)
{
	char *dir = tmpdir_make(), path[600], *status = status_of(pid_for(*state, 1));
	int fd = open(tmpdir_path(dir, "file", path, sizeof(path)), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct ask a;

	assert_true(fd >= 0);
	close(fd);
	assert_non_null(strstr(status, "\nNoNewPrivs:\t1\n"));
	if (!SANITIZED) {
		assert_non_null(strstr(status, "\nSeccomp:\t2\n"));
		ask(*state, &a, 1, "reach", path);
		expect(&a, "end");
	}
	free(status);
	tmpdir_remove(dir);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

SUITE(pool)
{
	const struct CMUnitTest tests[] = {
		T(a_request_gets_its_answer), T(a_worker_stays_with_its_tenant), T(a_failure_says_what_it_is),
		T(a_long_request_and_a_long_answer_come_whole), T(an_answer_at_the_limit_passes_and_one_byte_more_does_not),
		T(a_request_at_the_limit_passes_and_one_byte_more_does_not),
		T(f2_work_without_end_is_killed_at_its_deadline), T(f2_memory_is_bounded),
		T(a_worker_that_dies_is_an_error_of_one_request), T(a_worker_that_breaks_the_rules_is_killed),
		T(a_worker_that_was_busy_is_replaced), T(f2_a_tenant_has_so_many_workers_and_the_next_request_waits),
		T(f2_a_tenant_has_so_many_starts_and_one_more_waits_for_its_rate),
		T(f2_who_lacks_starts_has_less_at_the_usual_priority),
		T(f2_the_share_of_a_tenant_is_as_many_as_processors_within_bounds),
		T(f2_so_many_wait_and_one_more_is_refused), T(f2_so_many_of_all_wait_and_a_tenant_may_still_begin),
		T(f2_tenants_take_turns_when_all_workers_are_busy), T(f2_an_idle_worker_gives_its_place_to_another_tenant),
		T(so_many_stand_behind_a_quick_one_and_each_gets_its_answer),
		T(a_request_of_so_many_bytes_stands_behind_and_a_larger_one_waits), T(nobody_stays_behind_what_takes_long),
		T(an_answer_to_one_that_was_taken_back_is_nobodys), T(the_end_of_a_worker_is_of_one_request_alone),
		T(one_that_stands_behind_is_cancelled_or_late_and_the_others_are_not),
		T(what_nobody_wants_is_not_worked_on_for_long), T(while_another_tenant_waits_for_a_place_nobody_stands_behind),
		T(idle_workers_are_few_and_end), T(a_request_that_waits_times_out_as_well), T(a_cancelled_request_has_no_end),
		T(a_program_that_is_missing_is_an_error_of_the_request), T(the_end_of_the_pool_ends_all_workers),
		T(f2_a_worker_reaches_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
