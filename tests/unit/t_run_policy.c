/* The instructions of toolcrib-run: what is written is read, and nothing else is. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "sandbox/policy.h"
#include "suite.h"

static const char *const argv3[] = { "tool", "--", "a b\n", NULL };
static const char *const env0[] = { NULL };
static const char *const paths2[] = { "/srv/data", "/opt/x y", NULL }, *const paths1[] = { "/etc/shadow", NULL };
static const uint16_t ports2[] = { 443, 65535 };
static const char *const env1[] = { "PATH=/usr/bin", NULL };

static struct sandbox_policy sample(void)
{
	return (struct sandbox_policy){ .program = "/usr/bin/tool", .argv = argv3, .env = env1, .cwd = "/tmp",
				    .scratch = "/var/tmp", .bwrap = "/bin/bwrap", .cgroup = "/sys/fs/cgroup/x",
				    .sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", .cpu_s = 10,
				    .memory_bytes = 1ull << 40, .file_bytes = 3, .open_files = 64, .processes = 7, .level = { .landlock = 4, .seccomp = true, .ns = true, .cgroup = true },
				    .read = paths2, .write = env0, .files = paths1, .hide = paths1, .net = SANDBOX_NET_PORTS,
				    .udp = true, .connect_ports = ports2, .nconnect = 2 };
}

static void encode(struct str *s)
{
	struct sandbox_policy p = sample();
	struct err err;
	assert_int_equal(sandbox_policy_encode(&p, s, &err), 0);
}

static void policy_comes_back_as_written(void **state)
{
	struct str s = STR_INIT;
	struct sandbox_policy *got = NULL;
	struct err err;
	encode(&s);
	assert_int_equal(sandbox_policy_decode(s.p, s.len, &got, &err), 0);
	assert_string_equal(got->program, "/usr/bin/tool");
	assert_string_equal(got->argv[2], "a b\n");
	assert_null(got->argv[3]);
	assert_string_equal(got->env[0], "PATH=/usr/bin");
	assert_null(got->env[1]);
	assert_string_equal(got->cwd, "/tmp");
	assert_int_equal(got->memory_bytes, 1ull << 40);
	assert_string_equal(got->scratch, "/var/tmp");
	assert_int_equal(got->processes, 7);
	assert_int_equal(got->level.landlock, 4);
	assert_true(got->level.seccomp && !got->level.net0 && got->level.cgroup);
	assert_string_equal(got->cgroup, "/sys/fs/cgroup/x");
	assert_int_equal(strlen(got->sha256), SANDBOX_SHA256_TEXT - 1);
	assert_string_equal(got->read[1], "/opt/x y");
	assert_null(got->read[2]);
	assert_null(got->write[0]);
	assert_string_equal(got->hide[0], "/etc/shadow");
	assert_int_equal(got->net, SANDBOX_NET_PORTS);
	assert_true(got->udp && got->nconnect == 2 && got->connect_ports[1] == 65535 && got->nbind == 0);
	free(got);
	str_fini(&s);
}

static void every_truncation_is_refused(void **state)
{
	struct str s = STR_INIT;
	struct err err;
	encode(&s);
	for (size_t n = 0; n < s.len; n++) {
		struct sandbox_policy *got = NULL;
		assert_int_equal(sandbox_policy_decode(s.p, n, &got, &err), ERR_INVALID);
		/* Also when the length in the head agrees. */
		char *cut = mem_dup(s.p, n ? n : 1);
		if (n >= SANDBOX_HEAD_SIZE) {
			uint32_t rest = (uint32_t)(n - SANDBOX_HEAD_SIZE);
			memcpy(cut + 4, &rest, sizeof(rest));
			assert_int_equal(sandbox_policy_decode(cut, n, &got, &err), ERR_INVALID);
		}
		assert_null(got);
		free(cut);
	}
	str_fini(&s);
}

static void trailing_bytes_are_refused(void **state)
{
	struct str s = STR_INIT;
	struct sandbox_policy *got = NULL;
	struct err err;
	encode(&s);
	str_putc(&s, 'x');
	assert_int_equal(sandbox_policy_decode(s.p, s.len, &got, &err), ERR_INVALID);
	uint32_t rest = (uint32_t)(s.len - SANDBOX_HEAD_SIZE);
	memcpy(s.p + 4, &rest, sizeof(rest));
	assert_int_equal(sandbox_policy_decode(s.p, s.len, &got, &err), ERR_INVALID);
	str_fini(&s);
}

static void changed_bytes_never_crash(void **state)
{
	struct str s = STR_INIT;
	struct err err;
	encode(&s);
	for (size_t i = 0; i < s.len; i++) {
		for (int v = 0; v < 256; v += 51) {
			struct sandbox_policy *got = NULL;
			char *copy = mem_dup(s.p, s.len);
			copy[i] = (char)v;
			if (sandbox_policy_decode(copy, s.len, &got, &err) == 0)
				assert_int_equal(got->program[0], '/');
			free(got);
			free(copy);
		}
	}
	str_fini(&s);
}

static int encode_n(size_t nargs, size_t nenv)
{
	const char **args = mem_calloc(nargs + 1, sizeof(*args)), **env = mem_calloc(nenv + 1, sizeof(*env));
	for (size_t i = 0; i < nargs; i++)
		args[i] = "x";
	for (size_t i = 0; i < nenv; i++)
		env[i] = "K=V";
	struct sandbox_policy p = sample();
	p.argv = args;
	p.env = env;
	struct str s = STR_INIT;
	struct sandbox_policy *got = NULL;
	int rc = sandbox_policy_encode(&p, &s, NULL);
	if (rc == 0)
		assert_int_equal(sandbox_policy_decode(s.p, s.len, &got, NULL), 0);
	free(got);
	str_fini(&s);
	free(args);
	free(env);
	return rc;
}

static void counts_are_limited(void **state)
{
	assert_int_equal(encode_n(SANDBOX_ARGS_MAX, SANDBOX_ENV_MAX), 0);
	assert_int_equal(encode_n(SANDBOX_ARGS_MAX + 1, 0), ERR_LIMIT);
	assert_int_equal(encode_n(1, SANDBOX_ENV_MAX + 1), ERR_LIMIT);
	assert_int_equal(encode_n(0, 0), ERR_INVALID);
}

static int encode_hidden(size_t n)
{
	const char *hide[SANDBOX_HIDE_MAX + 2];
	struct sandbox_policy p = sample(), *got = NULL;
	struct str s = STR_INIT;
	for (size_t i = 0; i < n; i++)
		hide[i] = "/etc/key";
	hide[n] = NULL;
	p.hide = hide;
	int rc = sandbox_policy_encode(&p, &s, NULL);
	if (rc == 0)
		rc = sandbox_policy_decode(s.p, s.len, &got, NULL);
	if (rc == 0)
		assert_true(got->hide[n - 1] && !got->hide[n]);
	free(got);
	str_fini(&s);
	return rc;
}

static void hidden_paths_are_limited(void **state)
{
	assert_int_equal(encode_hidden(SANDBOX_HIDE_MAX), 0);
	assert_int_equal(encode_hidden(SANDBOX_HIDE_MAX + 1), ERR_LIMIT);
}

/* Encode with one argument of n bytes; *ret_len gets the size of the whole. */
static int encode_long(size_t n, size_t *ret_len)
{
	char *long_arg = mem_alloc(n + 1);
	memset(long_arg, 'a', n);
	long_arg[n] = '\0';
	const char *const args[] = { "tool", long_arg, NULL };
	struct sandbox_policy p = sample();
	p.argv = args;
	struct str s = STR_INIT;
	int rc = sandbox_policy_encode(&p, &s, NULL);
	*ret_len = s.len;
	str_fini(&s);
	free(long_arg);
	return rc;
}

static void bytes_are_limited(void **state)
{
	size_t len = 0;
	assert_int_equal(encode_long(0, &len), 0);
	size_t most = SANDBOX_POLICY_MAX - len;
	assert_int_equal(encode_long(most, &len), 0);
	assert_int_equal(len, SANDBOX_POLICY_MAX);
	assert_int_equal(encode_long(most + 1, &len), ERR_LIMIT);
}

static void relative_paths_are_refused(void **state)
{
	struct str s = STR_INIT;
	struct sandbox_policy p = sample();
	p.program = "tool";
	assert_int_equal(sandbox_policy_encode(&p, &s, NULL), ERR_INVALID);
	p = sample();
	p.cwd = "tmp";
	assert_int_equal(sandbox_policy_encode(&p, &s, NULL), ERR_INVALID);
	str_fini(&s);
}

static void layers_and_what_they_need_go_together(void **state)
{
	struct str s = STR_INIT;
	struct sandbox_policy p = sample();
	p.cgroup = NULL;
	assert_int_equal(sandbox_policy_encode(&p, &s, NULL), ERR_INVALID);
	p.level.cgroup = false;
	assert_int_equal(sandbox_policy_encode(&p, &s, NULL), 0);
	p.cgroup = "/sys/fs/cgroup/x";
	assert_int_equal(sandbox_policy_encode(&p, &s, NULL), ERR_INVALID);
	p.level.cgroup = true;
	p.cgroup = "x";
	assert_int_equal(sandbox_policy_encode(&p, &s, NULL), ERR_INVALID);
	p = sample();
	p.bwrap = NULL;
	assert_int_equal(sandbox_policy_encode(&p, &s, NULL), ERR_INVALID);
	str_fini(&s);
}

static void levels_are_written_in_one_order(void **state)
{
	static const char *const good[] = { "base", "base+landlock:6+seccomp+net0+ns+cgroup", "base+ns", "base+net0",
					    "base+seccomp+cgroup" };
	static const char *const bad[] = { "", "bas", "base+", "base+cgroup+ns", "base+landlock:0", "base+cgroups",
					   "base+cgroup+cgroup", "base+landlock:06" };
	char text[SANDBOX_LEVEL_TEXT];
	struct sandbox_level level, both, none = { 0 };
	struct err err;
	for (size_t i = 0; i < NELEMS(good); i++) {
		assert_int_equal(sandbox_level_parse(good[i], &level, &err), 0);
		assert_string_equal(sandbox_level_format(&level, text), good[i]);
		assert_true(sandbox_level_meets(&level, &none) && sandbox_level_equal(&level, &level));
		both = sandbox_level_both(&none, &level);
		assert_true(sandbox_level_equal(&both, &level));
		assert_int_equal(sandbox_level_meets(&none, &level), i == 0);
	}
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(sandbox_level_parse(bad[i], &level, &err), ERR_INVALID);
}

SINGLE_THREAD_SUITE(policy)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policy_comes_back_as_written), cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(trailing_bytes_are_refused),   cmocka_unit_test(changed_bytes_never_crash),
		cmocka_unit_test(counts_are_limited),           cmocka_unit_test(bytes_are_limited),
		cmocka_unit_test(hidden_paths_are_limited),
		cmocka_unit_test(relative_paths_are_refused),   cmocka_unit_test(layers_and_what_they_need_go_together),
		cmocka_unit_test(levels_are_written_in_one_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
