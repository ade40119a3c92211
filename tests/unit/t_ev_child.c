/* Children: start, end, refusal, limits, and that nothing stays behind (SEC S-501 to S-514, S-B15). */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/child.h"
#include "ev/ev.h"
#include "sandbox/policy.h"
#include "suite.h"

#define PATIENCE_MS 600000              /* thousands of processes on a machine that has other things to do */

struct run {
	struct ev_loop *loop;
	struct ev_child *child;
	int fds[3];
	int status;
	char refused[SANDBOX_REPORT_MAX];
	char why[256];
	bool ended;
	unsigned ends;
	uint32_t number;
};

static const char *const no_env[] = { NULL };

static void on_ended(void *arg, int status, const char *refused)
{
	struct run *r = arg;
	r->status = status;
	if (refused)
		snprintf(r->refused, sizeof(r->refused), "%s", refused);
	if (ev_child_why(r->child))
		snprintf(r->why, sizeof(r->why), "%s", ev_child_why(r->child));
	r->ended = true;
	r->ends++;
}

/* Start `sh -c script`. */
static void start_of(struct run *r, struct ev_loop *loop, uint32_t number, const char *script, struct sandbox_policy p)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	*r = (struct run){ .loop = loop, .number = number };
	p.program = p.program ? p.program : "/bin/sh";
	p.argv = p.argv ? p.argv : argv;
	p.env = p.env ? p.env : no_env;
	struct ev_child_req req = { .policy = &p, .number = number, .ended = on_ended, .arg = r };
	struct err err = { 0 };
	if (ev_child_start(loop, &req, r->fds, &r->child, &err))
		fail_msg("%s: %s", err.where, err.msg);
	assert_false(r->ended);
}

static void start(struct run *r, struct ev_loop *loop, const char *script, struct sandbox_policy p)
{
	start_of(r, loop, 0, script, p);
}

static void wait_end(struct run *r)
{
	assert_true(ev_loop_run_until(r->loop, &r->ended, PATIENCE_MS));
	assert_int_equal(r->ends, 1);
}

/* All that the ended child wrote; what is open is closed. */
static char *drain(struct run *r, int fd)
{
	static char buf[4096];
	ssize_t n = read(r->fds[fd], buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < 3; i++)
		close(r->fds[i]);
	return buf;
}

static int setup(void **state)
{
	*state = ev_loop_new();
	return 0;
}

static int teardown(void **state)
{
	struct ev_loop *loop = *state;
	ev_loop_free(&loop);
	return 0;
}

static void exit_status_and_output_come_back(void **state)
{
	struct run r;
	start(&r, *state, "read x; echo got $x; echo oops >&2; exit 7", (struct sandbox_policy){ 0 });
	assert_int_equal(write(r.fds[0], "hello\n", 6), 6);
	wait_end(&r);
	assert_int_equal(r.status, 7);
	assert_string_equal(r.refused, "");
	char err_text[16] = { 0 };
	assert_int_equal(read(r.fds[2], err_text, sizeof(err_text) - 1), 5);
	assert_string_equal(err_text, "oops\n");
	assert_string_equal(drain(&r, 1), "got hello\n");
}

static void signal_is_a_negative_status(void **state)
{
	struct run r;
	start(&r, *state, "kill -SEGV $$", (struct sandbox_policy){ 0 });
	wait_end(&r);
	assert_int_equal(r.status, -SIGSEGV);
	drain(&r, 1);
}

/* The process that is our child: the launcher. */
static pid_t launcher_pid(void)
{
	char path[64], text[32] = { 0 };
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	return (pid_t)strtol(text, NULL, 10);
}

/* HARDENING 1.5: what it has started ends with it, its end is told once, and nothing is started any more. */
static void a_launcher_that_is_gone_ends_its_programs(void **state)
{
	struct run r;
	struct err err = { 0 };
	uint64_t before = metric_get(METRIC_launcher_gone);
	const char *const argv[] = { "true", NULL };
	const struct sandbox_policy p = { .program = "/bin/true", .argv = argv, .env = no_env };

	start(&r, *state, "read x", (struct sandbox_policy){ 0 });
	assert_int_equal(kill(launcher_pid(), SIGKILL), 0);
	wait_end(&r);
	assert_int_equal(r.status, -SIGKILL);
	assert_int_equal(metric_get(METRIC_launcher_gone), before + 1);
	drain(&r, 1);
	r = (struct run){ .loop = *state };
	assert_int_equal(ev_child_start(*state, &(struct ev_child_req){ .policy = &p, .ended = on_ended, .arg = &r }, r.fds,
					&r.child, &err), ERR_UNREACHABLE);
}

static void environment_is_exactly_what_the_policy_lists(void **state)
{
	struct run r;
	const char *const argv[] = { "env", NULL }, *const env[] = { "ONE=1", "TWO=a=b", NULL };
	setenv("LD_PRELOAD_TEST", "x", 1);
	start(&r, *state, NULL, (struct sandbox_policy){ .program = "/usr/bin/env", .argv = argv, .env = env });
	wait_end(&r);
	assert_string_equal(drain(&r, 1), "ONE=1\nTWO=a=b\n");
}

static void only_three_descriptors_are_open(void **state)
{
	struct run r;
	int leak = dup(1);      /* not CLOEXEC */
	start(&r, *state, "for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do "
	      "[ -e /proc/$$/fd/$i ] && echo $i; done", (struct sandbox_policy){ 0 });
	wait_end(&r);
	close(leak);
	assert_string_equal(drain(&r, 1), "0\n1\n2\n");
}

static void child_gains_no_privileges_and_has_its_own_group(void **state)
{
	struct run r;
	start(&r, *state, "while read k v x; do case $k in NoNewPrivs:) echo $v;; esac; done < /proc/$$/status;"
	      " set -- $(cat /proc/$$/stat); [ $5 = $$ ] && echo leader; ulimit -c", (struct sandbox_policy){
	      .env = (const char *const[]){ "PATH=/usr/bin:/bin", NULL } });
	wait_end(&r);
	assert_string_equal(drain(&r, 1), "1\nleader\n0\n");
}

static void limits_hold(void **state)
{
	struct run r;
	struct sandbox_policy p = { .memory_bytes = 512u << 20, .file_bytes = 1 << 20, .open_files = 32, .cpu_s = 3 };
	start(&r, *state, "ulimit -v; ulimit -f; ulimit -n; ulimit -t; pwd", p);
	wait_end(&r);
	assert_string_equal(drain(&r, 1), "524288\n2048\n32\n3\n/\n");
}

static void signals_are_reset(void **state)
{
	struct run r;
	sigset_t block;
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigprocmask(SIG_BLOCK, &block, NULL);
	start(&r, *state, "while read k v; do case $k in SigBlk:|SigIgn:) echo 0x$v;; esac; done < /proc/$$/status",
	      (struct sandbox_policy){ 0 });
	sigprocmask(SIG_UNBLOCK, &block, NULL);
	wait_end(&r);
	char *out = drain(&r, 1);
	assert_int_equal(strtoull(out, &out, 0), 0);
	/* 32 and 33 are the C library's own: it leaves them ignored. */
	assert_int_equal(strtoull(out, NULL, 0) & ~(3ull << 31), 0);
}

static void missing_program_is_a_refusal(void **state)
{
	struct run r;
	start(&r, *state, NULL, (struct sandbox_policy){ .program = "/nonexistent/tool" });
	wait_end(&r);
	assert_string_equal(r.refused, "program: No such file or directory");
	drain(&r, 1);
}

static void write_script(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void script_runs_unless_others_may_write_to_it(void **state)
{
	char dir[] = "/tmp/t_ev_child.XXXXXX", path[64];
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/tool", dir);
	struct { const char *text; mode_t mode; const char *refused, *out; } cases[] = {
		{ "#!/bin/sh\necho $0\n", 0755, "", path },
		{ "#!/bin/sh\necho $0\n", 0757, "program: other users may write to it", "" },
		{ "#!/nonexistent/sh\n", 0755, "exec: No such file or directory", "" },
		{ "#!/bin/sh\n", 0644, "exec: Permission denied", "" },
	};
	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct run r;
		write_script(path, cases[i].text, cases[i].mode);
		start(&r, *state, NULL, (struct sandbox_policy){ .program = path });
		wait_end(&r);
		char *out = drain(&r, 1);
		out[strcspn(out, "\n")] = '\0';
		assert_string_equal(r.refused, cases[i].refused);
		assert_string_equal(out, cases[i].out);
	}
	unlink(path);
	rmdir(dir);
}

/* What a start gives when this variable names a file that is not there. */
static int start_without(const char *variable, struct run *r, struct err *err)
{
	char *before = getenv(variable) ? mem_strdup(getenv(variable)) : NULL;
	const char *const argv[] = { "true", NULL };
	const struct sandbox_policy p = { .program = "/bin/true", .argv = argv, .env = no_env };
	const struct ev_child_req req = { .policy = &p, .ended = on_ended, .arg = r };
	int rc;

	setenv(variable, "/nonexistent/program", 1);
	rc = ev_child_start(r->loop, &req, r->fds, &r->child, err);
	if (before)
		setenv(variable, before, 1);
	else
		unsetenv(variable);
	free(before);
	return rc;
}

static void missing_launcher_is_unreachable(void **state)
{
	struct run r = { .loop = *state };
	struct err err = { 0 };

	assert_int_equal(start_without("TOOLCRIB_LAUNCHER", &r, &err), ERR_UNREACHABLE);
	assert_string_equal(err.where, "/nonexistent/program");
}

static void a_missing_program_of_the_package_is_a_refusal(void **state)
{
	struct run r = { .loop = *state };
	struct err err = { 0 };

	uint64_t refused = metric_get(METRIC_launcher_refused);

	assert_int_equal(start_without("TOOLCRIB_RUN", &r, &err), 0);
	wait_end(&r);
	assert_int_equal(metric_get(METRIC_launcher_refused), refused + 1);
	assert_string_equal(r.refused, "launcher: toolcrib-run: No such file or directory");
	drain(&r, 1);
}

static void large_instructions_arrive(void **state)
{
	struct run r;
	char *arg = mem_alloc(120001);
	memset(arg, 'x', 120000);
	arg[120000] = '\0';
	const char *const argv[] = { "sh", "-c", "echo ${#1} ${#2}", "sh", arg, arg, NULL };
	start(&r, *state, NULL, (struct sandbox_policy){ .argv = argv });
	wait_end(&r);
	assert_string_equal(drain(&r, 1), "120000 120000\n");
	free(arg);
}

/* Read one number that the child prints. */
static pid_t read_pid(struct run *r)
{
	char buf[32] = { 0 };
	for (int i = 0; i < 5000; i++) {
		if (read(r->fds[1], buf, sizeof(buf) - 1) > 0)
			return (pid_t)strtol(buf, NULL, 10);
		bool never = false;
		ev_loop_run_until(r->loop, &never, 1);
	}
	fail_msg("the child printed nothing");
	return 0;
}

static void group_dies_with_its_leader(void **state)
{
	struct run r;
	start(&r, *state, "sleep 1000 & echo $!", (struct sandbox_policy){ 0 });
	pid_t left = read_pid(&r);
	wait_end(&r);
	assert_int_equal(r.status, 0);
	assert_int_equal(kill(left, 0), -1);
	assert_int_equal(errno, ESRCH);
	drain(&r, 1);
}

/* SEC S-T25: a double fork with a session of its own has left the group. */
static void runaway_dies_with_its_tool(void **state)
{
	struct run r;
	start(&r, *state, "(setsid sh -c 'echo $$; exec sleep 1000' &); read x; exit 3", (struct sandbox_policy){
	      .env = (const char *const[]){ "PATH=/usr/bin:/bin", NULL } });
	pid_t left = read_pid(&r);
	assert_int_equal(write(r.fds[0], "\n", 1), 1);
	wait_end(&r);
	assert_int_equal(r.status, 3);
	assert_int_equal(kill(left, 0), -1);
	drain(&r, 1);
}

static void end_of_one_tool_leaves_another_alone(void **state)
{
	struct run a, b;
	start(&a, *state, "(setsid sh -c 'echo $$; exec sleep 1000' &) ; read x", (struct sandbox_policy){
	      .env = (const char *const[]){ "PATH=/usr/bin:/bin", NULL } });
	pid_t runaway = read_pid(&a);
	start(&b, *state, "exit 0", (struct sandbox_policy){ 0 });
	wait_end(&b);
	assert_int_equal(kill(runaway, 0), 0);
	assert_false(a.ended);
	assert_int_equal(write(a.fds[0], "\n", 1), 1);
	wait_end(&a);
	assert_int_equal(kill(runaway, 0), -1);
	drain(&a, 1);
	drain(&b, 1);
}

static void stop_is_term_then_kill(void **state)
{
	struct run r;
	uint64_t started = metric_get(METRIC_children_started), killed = metric_get(METRIC_children_killed);
	start(&r, *state, "trap 'exit 9' TERM; echo $$; while :; do sleep 0.01; done", (struct sandbox_policy){
	      .env = (const char *const[]){ "PATH=/usr/bin:/bin", NULL } });
	read_pid(&r);
	ev_child_stop(r.child, 5000);
	wait_end(&r);
	assert_int_equal(r.status, 9);
	drain(&r, 1);

	start(&r, *state, "trap '' TERM; echo $$; while :; do sleep 0.01; done", (struct sandbox_policy){
	      .env = (const char *const[]){ "PATH=/usr/bin:/bin", NULL } });
	read_pid(&r);
	assert_int_equal(metric_get(METRIC_children_killed), killed);
	ev_child_stop(r.child, 20);
	wait_end(&r);
	assert_int_equal(r.status, -SIGKILL);
	assert_int_equal(metric_get(METRIC_children_started), started + 2);
	assert_int_equal(metric_get(METRIC_children_killed), killed + 1);
	drain(&r, 1);
}

static void kill_all_leaves_nothing_and_reports_nothing(void **state)
{
	struct run a, b;
	start(&a, *state, "sleep 1000 & echo $!; wait", (struct sandbox_policy){
	      .env = (const char *const[]){ "PATH=/usr/bin:/bin", NULL } });
	start(&b, *state, "exec sleep 1000", (struct sandbox_policy){ .env = (const char *const[]){ "PATH=/usr/bin:/bin", NULL } });
	pid_t inner = read_pid(&a);
	ev_child_kill_all(*state);
	assert_int_equal(kill(inner, 0), -1);
	assert_false(a.ended || b.ended);
	drain(&a, 1);
	drain(&b, 1);
}

/* --- the sandbox ------------------------------------------------------------------------------------ */

static const char *const path_env[] = { "PATH=/usr/bin:/bin", NULL };

/* --- bytes of own directories (HARDENING F-10) */

#define MIB (1u << 20)
#define SIZE_PATIENCE_US 60000000u

/* Files of 4096 bytes, or what `fill` says; each line of input makes one more of 4096. */
static const struct sandbox_policy bare = { .env = path_env, .scratch = "/tmp" };
#define GROW "; while read l; do head -c 4096 /dev/zero > $HOME/more$l; done"
#define FILL(bytes) "head -c " #bytes " /dev/zero > $HOME/first" GROW

/* Until its supervisor has told so much. */
static void wait_bytes(const struct run *r, uint64_t want)
{
	uint64_t until = clock_mono_us() + SIZE_PATIENCE_US, allowed, got;
	bool never = false;

	while ((got = ev_child_bytes(r->loop, r->number, &allowed)) != want && !r->ended && clock_mono_us() < until)
		(void)ev_loop_run_until(r->loop, &never, 20);
	assert_int_equal(got, want);
	assert_false(r->ended);
}

static void release(struct run *r)
{
	close(r->fds[0]);
	wait_end(r);
	close(r->fds[1]);
	close(r->fds[2]);
}

/* At the bound it goes on and nothing more is started; above, it ends and is told why; another one is not touched. */
static void test_f10_own_directories_of_one_number_are_bounded(void **state)
{
	struct run a, b, c;
	struct err err = { 0 };
	const char *const argv[] = { "true", NULL };
	const struct sandbox_policy p = { .program = "/bin/true", .argv = argv, .env = no_env };
	const struct ev_child_req next = { .policy = &p, .number = 7, .ended = on_ended, .arg = &c };
	uint64_t refused = metric_get(METRIC_budget_scratch_refused);

	ev_child_bound(*state, &(struct ev_child_bounds){ .tenant = MIB });
	start_of(&a, *state, 7, FILL(1048576), bare);
	start_of(&b, *state, 8, FILL(1044480), bare);
	wait_bytes(&a, MIB);
	wait_bytes(&b, MIB - 4096);
	c = (struct run){ .loop = *state };
	assert_int_equal(ev_child_start(*state, &next, c.fds, &c.child, &err), ERR_LIMIT);
	assert_non_null(strstr(err.msg, "hold 1048576 bytes, allowed are 1048576 (budgets.scratch_per_tenant)"));
	assert_int_equal(write(b.fds[0], "1\n", 2), 2);
	wait_bytes(&b, MIB);
	assert_int_equal(write(a.fds[0], "1\n", 2), 2);
	wait_end(&a);
	assert_string_equal(a.refused, "");
	assert_string_equal(a.why, "own directories of this tenant's programs held 1052672 bytes, allowed are 1048576 "
			    "(budgets.scratch_per_tenant)");
	assert_int_equal(metric_get(METRIC_budget_scratch_refused), refused + 2);
	drain(&a, 1);
	start_of(&a, *state, 7, "exit 0", bare);
	wait_end(&a);
	drain(&a, 1);
	release(&b);
	assert_string_equal(b.why, "");
}

/* Two below the bound of one can be above it together, and the larger one goes; in all, the largest of who has most. */
static void test_f10_the_largest_of_whoever_has_most_ends(void **state)
{
	struct run a, b, c;

	ev_child_bound(*state, &(struct ev_child_bounds){ .all = 2 * MIB });
	start_of(&a, *state, 7, FILL(819200), bare);
	start_of(&b, *state, 8, FILL(737280), bare);
	start_of(&c, *state, 8, FILL(409600), bare);
	wait_bytes(&a, 819200);
	wait_bytes(&c, 1146880);
	for (int i = 0; i < 33; i++) {           /* 1966080 + 32 * 4096 is the bound */
		char line[8];
		int n = snprintf(line, sizeof(line), "%d\n", i);
		assert_int_equal(write(c.fds[0], line, (size_t)n), n);
	}
	wait_end(&b);
	assert_non_null(strstr(b.why, "allowed are 2097152 (budgets.scratch)"));
	assert_false(a.ended || c.ended);
	drain(&b, 1);
	release(&a);
	release(&c);
}

/* What has no name, or lies where nobody may look, counts; and empty files do. */
static void test_f10_nothing_of_an_own_directory_is_hidden(void **state)
{
	static const char *const ways[] = {
		"exec 8> $HOME/x; rm $HOME/x; head -c 2097152 /dev/zero >&8; read x",
		"umask 0777; mkdir -m 0300 $HOME/d; umask 0; head -c 2097152 /dev/zero > $HOME/d/x; read x",
		"i=0; while [ $i -lt 300 ]; do : > $HOME/$i; i=$((i+1)); done; read x",
		"cd $HOME; i=0; while [ $i -lt 140 ]; do mkdir d; cd d; i=$((i+1)); done; read x",
	};
	struct run r;

	ev_child_bound(*state, &(struct ev_child_bounds){ .tenant = MIB });
	for (size_t i = 0; i < NELEMS(ways); i++) {
		start(&r, *state, ways[i], bare);
		wait_end(&r);
		if (!strstr(r.why, "budgets.scratch_per_tenant"))
			fail_msg("%s: %s%s %s", ways[i], r.refused, r.why, drain(&r, 2));
		drain(&r, 1);
	}
}

/* All layers of this machine, or those up to an ABI of Landlock. */
static struct sandbox_policy sandboxed(unsigned landlock)
{
	struct sandbox_policy p = { .env = path_env, .scratch = "/tmp", .processes = 40, .level = sandbox_level_probe() };
	if (p.level.landlock > landlock)
		p.level.landlock = landlock;
	return p;
}

/* What the script says when it has ended, in the sandbox. */
static const char *say(void **state, const char *script, struct sandbox_policy p)
{
	struct run r;
	start(&r, *state, script, p);
	wait_end(&r);
	assert_string_equal(r.refused, "");
	return drain(&r, 1);
}

/* A directory with a file "data" in it, for one test. */
static char *make_dir(void)
{
	char *dir = mem_strdup("/tmp/t_ev_child.XXXXXX"), *file;
	assert_non_null(mkdtemp(dir));
	file = mem_printf("%s/data", dir);
	FILE *f = fopen(file, "w");
	assert_non_null(f);
	fputs("data\n", f);
	fclose(f);
	free(file);
	return dir;
}

static void remove_dir(char *dir)
{
	char *file = mem_printf("%s/data", dir);
	unlink(file);
	assert_int_equal(rmdir(dir), 0);
	free(file);
	free(dir);
}

static const char *say_about(void **state, const char *dir, const char *format, struct sandbox_policy p)
{
	char *script = mem_printf("D=%s; %s", dir, format);
	const char *said = say(state, script, p);
	free(script);
	return said;
}

/* SEC S-507: allowed is what is listed, down from it, and nothing beside. */
static void landlock_opens_what_is_listed(void **state)
{
	char *dir = make_dir(), *file = mem_printf("%s/data", dir);
	const char *const list[] = { dir, NULL }, *const files[] = { file, dir, NULL };
	const char *read = "cat $D/data 2>/dev/null || echo no; ls $D 2>/dev/null || echo no";
	const char *write = "echo x 2>/dev/null >$D/new && rm $D/new && echo yes || echo no";
	if (sandbox_level_probe().landlock == 0)
		skip();
	for (unsigned abi = 1; abi <= sandbox_level_probe().landlock; abi++) {
		struct sandbox_policy p = sandboxed(abi);
		assert_string_equal(say_about(state, dir, read, p), "no\nno\n");
		p.files = files;        /* a directory on the command line opens nothing */
		assert_string_equal(say_about(state, dir, read, p), "data\nno\n");
		p.read = list;
		assert_string_equal(say_about(state, dir, read, p), "data\ndata\n");
		assert_string_equal(say_about(state, dir, write, p), "no\n");
		p.write = list;
		assert_string_equal(say_about(state, dir, write, p), "yes\n");
	}
	remove_dir(dir);
	free(file);
}

static void landlock_hides_inside_what_is_listed(void **state)
{
	char *dir = make_dir(), *hidden = mem_printf("%s/hidden", dir), *text = mem_printf("%s/key", hidden);
	const char *const list[] = { dir, NULL }, *const root[] = { "/", NULL }, *const hide[] = { hidden, NULL };
	const char *read = "cat $D/data 2>/dev/null || echo no; cat $D/hidden/key 2>/dev/null || echo no;"
			   "cat /proc/$PPID/comm 2>/dev/null || echo no";
	if (sandbox_level_probe().landlock == 0)
		skip();
	assert_int_equal(mkdir(hidden, 0700), 0);
	write_script(text, "key\n", 0644);
	struct sandbox_policy p = sandboxed(SANDBOX_LANDLOCK_MAX);
	p.hide = hide;
	p.read = list;
	assert_string_equal(say_about(state, dir, read, p), "data\nno\nno\n");
	p.read = root;
	assert_string_equal(say_about(state, dir, read, p), "data\nno\nno\n");
	for (int i = 0; i < 2; i++) {
		struct run r;
		p.write = i ? hide : list;
		start(&r, *state, "true", p);
		wait_end(&r);
		assert_non_null(strstr(r.refused, i ? "it is not for tools" : "what is not for tools lies in it"));
		drain(&r, 1);
	}
	unlink(text);
	rmdir(hidden);
	free(text);
	free(hidden);
	remove_dir(dir);
}

static void path_that_is_missing_is_a_refusal(void **state)
{
	const char *const list[] = { "/nonexistent/data", NULL };
	struct run r;
	if (sandbox_level_probe().landlock == 0)
		skip();
	struct sandbox_policy p = sandboxed(SANDBOX_LANDLOCK_MAX);
	p.read = list;
	start(&r, *state, "echo ran", p);
	wait_end(&r);
	assert_string_equal(r.refused, "landlock: /nonexistent/data: No such file or directory");
	assert_string_equal(drain(&r, 1), "");
}

/* SEC S-510: what cannot be reached is not done without. */
static void layer_that_the_kernel_lacks_is_a_refusal(void **state)
{
	struct run r;
	if (sandbox_level_probe().landlock == SANDBOX_LANDLOCK_MAX)
		skip();
	struct sandbox_policy p = sandboxed(SANDBOX_LANDLOCK_MAX);
	p.level.landlock = SANDBOX_LANDLOCK_MAX;
	start(&r, *state, "echo ran", p);
	wait_end(&r);
	assert_ptr_equal(strstr(r.refused, "landlock: the kernel offers"), r.refused);
	assert_string_equal(drain(&r, 1), "");
}

/* Whatever the tool leaves in it: depth, modes, links to what is not its own. */
static void own_directory_is_gone_at_the_end(void **state)
{
	char *outside = make_dir(), *script;
	struct sandbox_policy p = sandboxed(0);
	const char *const writer[] = { "/tmp", NULL };
	p.write = writer;       /* it may change modes */
	script = mem_printf("[ \"$PWD\" = \"$HOME\" ] && [ \"$PWD\" = \"$TMPDIR\" ] && echo $PWD; ln -s %s l;"
			    "i=0; while [ $i -lt 300 ]; do mkdir dddddddddddddddd x && : >x/f && chmod 0 x && cd dddddddddddddddd;"
			    "i=$((i+1)); done; mkfifo p; chmod 0 ../dddddddddddddddd", outside);
	char *own = mem_strdup(say(state, script, p));
	own[strcspn(own, "\n")] = '\0';
	assert_ptr_equal(strstr(own, "/tmp/toolcrib-"), own);
	assert_int_equal(access(own, F_OK), -1);
	free(own);
	free(script);
	remove_dir(outside);    /* with its file still in it */
}

static void too_many_processes_end_the_tool(void **state)
{
	const char *script = "i=0; while [ $i -lt 20 ]; do sleep 1000 & i=$((i+1)); done; echo started; read x; exit 3";
	for (unsigned landlock = 0; landlock <= SANDBOX_LANDLOCK_MAX; landlock += SANDBOX_LANDLOCK_MAX) {
		struct run r;
		struct sandbox_policy p = sandboxed(landlock);
		p.processes = 20;       /* with the shell one more */
		start(&r, *state, script, p);
		wait_end(&r);
		assert_int_equal(r.status, -SIGKILL);
		char text[128] = "";
		(void)!read(r.fds[2], text, sizeof(text) - 1);
		assert_string_equal(text, "toolcrib-run: ended, because it had more than 20 processes and threads\n");
		drain(&r, 1);

		p.processes = 21;
		start(&r, *state, script, p);
		char line[16] = "";
		bool never = false;
		while (read(r.fds[1], line, sizeof(line) - 1) < 1)
			ev_loop_run_until(r.loop, &never, 1);
		ev_loop_run_until(r.loop, &never, 150);         /* one more count */
		assert_false(r.ended);
		assert_int_equal(write(r.fds[0], "\n", 1), 1);
		wait_end(&r);
		assert_int_equal(r.status, 3);
		drain(&r, 1);
	}
}

/* Each process starts two and ends, in a session of its own. */
static void fork_bomb_is_ended(void **state)
{
	for (unsigned landlock = 0; landlock <= SANDBOX_LANDLOCK_MAX; landlock += SANDBOX_LANDLOCK_MAX) {
		struct run r;
		struct sandbox_policy p = sandboxed(landlock);
		p.processes = 30;
		start(&r, *state, "f() { f & setsid -f true; f & }; f 2>/dev/null; sleep 1000", p);
		wait_end(&r);
		assert_int_equal(r.status, -SIGKILL);
		drain(&r, 1);
	}
}

/* More than are looked at in one go, all of them left behind: what is dead is taken away before the next look. */
static void thousands_that_are_left_are_ended(void **state)
{
	struct run r;
	struct sandbox_policy p = sandboxed(0);
	p.processes = 0;
	start(&r, *state, "exec 3<&0; i=0; while [ $i -lt 5000 ]; do (read x <&3) & i=$((i+1)); done; echo $i", p);
	wait_end(&r);
	assert_int_equal(r.status, 0);
	assert_string_equal(drain(&r, 1), "5000\n");
}

/* SEC S-517: where Landlock does not see signals, the supervisor does. */
static void signals_reach_own_processes_only(void **state)
{
	static const char *const script =
		"sleep 1000 & kill -0 $! && echo child; kill -0 $$ && echo self; kill -0 0 && echo group;"
		"kill -0 $OUTSIDE 2>/dev/null || echo no; kill -0 $PPID 2>/dev/null || echo no;"
		"kill -0 -- -$OUTSIDE 2>/dev/null || echo no; kill $!; wait $!; echo $?";
	if (!sandbox_level_probe().seccomp)
		skip();
	char *outside = mem_printf("OUTSIDE=%d", (int)getpid());
	const char *const env[] = { "PATH=/usr/bin:/bin", outside, NULL };
	for (unsigned abi = 0; abi <= SANDBOX_LANDLOCK_MAX; abi += 3) {
		struct sandbox_policy p = sandboxed(abi);
		p.env = env;
		const char *said = say(state, script, p);
		if (!strstr(said, "no\nno\nno\n143\n") || strstr(said, "child\nself\ngroup\n") != said)
			fail_msg("ABI %u: %s", abi, said);
	}
	free(outside);
}

static void wait_gone(pid_t pid)
{
	uint64_t until = clock_mono_us() + PATIENCE_MS * 1000ull;
	while (kill(pid, 0) == 0 && clock_mono_us() < until)
		sched_yield();
	assert_int_equal(kill(pid, 0), -1);
}

/* SEC S-B15: here the server is another process, and it is killed. */
static void nothing_survives_the_server(void **state)
{
	int fds[2];
	char text[16] = "";
	assert_int_equal(pipe(fds), 0);
	pid_t server = fork();
	if (server == 0) {
		struct ev_loop *loop = ev_loop_new();
		struct run r;
		bool never = false;
		start(&r, loop, "(setsid sh -c 'echo $$; exec sleep 1000' &); sleep 1000", sandboxed(0));
		pid_t runaway = read_pid(&r);
		(void)!dprintf(fds[1], "%d\n", (int)runaway);
		ev_loop_run_until(loop, &never, PATIENCE_MS);
		_exit(0);
	}
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	pid_t runaway = (pid_t)strtol(text, NULL, 10);
	assert_int_equal(kill(runaway, 0), 0);
	kill(server, SIGKILL);
	assert_int_equal(waitpid(server, NULL, 0), server);
	wait_gone(runaway);
	close(fds[0]);
	close(fds[1]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

SINGLE_THREAD_SUITE(child)
{
	/* Run by hand from the build tree: the launcher lies two folders above. */
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < 3 && strrchr(path, '/'); i++)
		*strrchr(path, '/') = '\0';
	strncat(path, "/toolcrib-run", sizeof(path) - strlen(path) - 1);
	setenv("TOOLCRIB_RUN", path, 0);

	const struct CMUnitTest tests[] = {
		T(exit_status_and_output_come_back),
		T(signal_is_a_negative_status),
		T(a_launcher_that_is_gone_ends_its_programs),
		T(environment_is_exactly_what_the_policy_lists),
		T(only_three_descriptors_are_open),
		T(child_gains_no_privileges_and_has_its_own_group),
		T(limits_hold),
		T(signals_are_reset),
		T(missing_program_is_a_refusal),
		T(script_runs_unless_others_may_write_to_it),
		T(missing_launcher_is_unreachable),
		T(a_missing_program_of_the_package_is_a_refusal),
		T(large_instructions_arrive),
		T(group_dies_with_its_leader),
		T(runaway_dies_with_its_tool),
		T(end_of_one_tool_leaves_another_alone),
		T(stop_is_term_then_kill),
		T(kill_all_leaves_nothing_and_reports_nothing),
		T(test_f10_own_directories_of_one_number_are_bounded),
		T(test_f10_the_largest_of_whoever_has_most_ends),
		T(test_f10_nothing_of_an_own_directory_is_hidden),
		T(landlock_opens_what_is_listed),
		T(landlock_hides_inside_what_is_listed),
		T(path_that_is_missing_is_a_refusal),
		T(layer_that_the_kernel_lacks_is_a_refusal),
		T(own_directory_is_gone_at_the_end),
		T(too_many_processes_end_the_tool),
		T(fork_bomb_is_ended),
		T(thousands_that_are_left_are_ended),
		T(signals_reach_own_processes_only),
		T(nothing_survives_the_server),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
