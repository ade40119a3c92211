/* The fake engine above a handler: it binds, starts, counts the ends and keeps what came. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/secrets.h"
#include "exec/exec.h"
#include "upstream/upstream.h"
#include "backend_run.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "ev/child.h"
#include "ev/ev.h"
#include "json/json.h"
#include "keys/secrets.h"
#include "net/fetch.h"
#include "sandbox/sandbox.h"
#include "worker/worker.h"

#include "../unit/handler_table.h"

static struct ev_loop *the_loop;
static struct fetcher *the_fetcher;
static struct exec_workers *the_workers;
static struct worker_pool *the_pool;
static struct upstreams *the_upstreams;
static struct sandbox the_cage;
static char the_dir[4096];

static void secrets_forget(void);

static void clean_up(void)
{
	upstreams_free(&the_upstreams);
	ev_child_kill_all(the_loop);
	exec_workers_free(&the_workers);
	worker_pool_free(&the_pool);
	fetcher_free(&the_fetcher);
	ev_loop_free(&the_loop);
	secrets_forget();
	DIR *d = the_dir[0] ? opendir(the_dir) : NULL;
	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d)) != NULL; )
		(void)unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	(void)rmdir(the_dir);
}

struct ev_loop *run_loop(void)
{
	const char *build = getenv("TOOLCRIB_BUILDDIR");

	if (the_loop)
		return the_loop;
	char *top = build ? mem_strdup(build) : getcwd(NULL, 0);
	char *launcher = path_join(top, "toolcrib-run");
	setenv("TOOLCRIB_RUN", launcher, 0);
	free(launcher);
	char *worker = path_join(top, "toolcrib-worker");
	setenv("TOOLCRIB_WORKER", worker, 0);
	free(worker);
	free(top);
	assert_int_equal(secret_init(), 0);
	the_loop = ev_loop_new();
	the_workers = exec_workers_new(the_loop);
	the_pool = worker_pool_new(the_loop, WORKER_TENANT_MAX);
	atexit(clean_up);
	return the_loop;
}

struct upstreams *run_upstreams(void)
{
	const char *build = getenv("TOOLCRIB_BUILDDIR");
	char *top, *document;
	struct err err;

	if (the_upstreams)
		return the_upstreams;
	the_cage = (struct sandbox){ .best = sandbox_level_probe(), .scratch = run_dir() };
	the_upstreams = upstreams_new(&(struct upstreams_env){ .loop = run_loop(), .fetcher = run_fetcher(), .sandbox = &the_cage });
	top = build ? mem_strdup(build) : getcwd(NULL, 0);
	document = mem_printf("{\"kind\":\"upstream\",\"name\":\"peer\",\"command\":[\"%s/tests/peers/mcp_echo\"]}", top);
	if (upstreams_set(the_upstreams, document, true, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	free(document);
	free(top);
	return the_upstreams;
}

struct fetcher *run_fetcher(void)
{
	if (!the_fetcher)
		the_fetcher = fetcher_new(run_loop());
	return the_fetcher;
}

const char *run_dir(void)
{
	if (!the_dir[0]) {
		const char *tmp = getenv("TMPDIR");
		snprintf(the_dir, sizeof(the_dir), "%s/toolcrib-test-XXXXXX", tmp ? tmp : "/tmp");
		assert_non_null(mkdtemp(the_dir));
	}
	return the_dir;
}

void run_write_file(const char *name, const char *text, unsigned mode)
{
	char *path = path_join(run_dir(), name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	free(path);
}

char *run_read_file(const char *name)
{
	char *path = path_join(run_dir(), name);
	struct str s = STR_INIT;
	struct err err;

	int rc = path_read(path, 1 << 20, &s, &err);
	free(path);
	if (rc < 0) {
		str_fini(&s);
		return NULL;
	}
	return str_take(&s);
}

static void count_end(struct run *r, enum end_kind kind)
{
	assert_false(r->starting);      /* never from inside start() */
	r->kind = kind;
	r->ends++;
	r->done = true;
}

static void on_progress(void *arg, double done, double total, const char *note)
{
	struct run *r = arg;

	assert_false(r->starting);
	r->notices_after_end += r->done;
	r->nprogress++;
	r->progress_done = done;
	r->progress_total = total;
	snprintf(r->note, sizeof(r->note), "%s", note ? note : "");
	if (r->on_progress)
		r->on_progress(r);
}

static void on_lasts(void *arg, const char *note)
{
	struct run *r = arg;

	assert_false(r->starting);
	r->notices_after_end += r->done;
	r->nlasts++;
	snprintf(r->note, sizeof(r->note), "%s", note ? note : "");
}

static void on_log(void *arg, int level, const char *logger, json_t *data)
{
	struct run *r = arg;

	assert_false(r->starting);
	r->notices_after_end += r->done;
	r->nlog++;
	r->level = level;
	r->logger_len = logger ? strlen(logger) : 0;
	snprintf(r->logger, sizeof(r->logger), "%s", logger ? logger : "");
	json_decref(r->log_data);
	r->log_data = data;
}

static void on_result(void *arg, struct backend_result *res)
{
	struct run *r = arg;

	count_end(r, END_RESULT);
	assert_true(json_is_array(res->content));
	r->res = *res;
}

static void on_ask(void *arg, struct backend_ask *ask)
{
	struct run *r = arg;

	count_end(r, END_ASK);
	assert_true(ask->state_len <= ASK_STATE_MAX);
	r->requests = ask->requests;
	r->state = ask->state ? mem_strndup(ask->state, ask->state_len) : NULL;
	r->state_len = ask->state_len;
}

static void on_error(void *arg, const struct err *err, int rpc_code, json_t *data)
{
	struct run *r = arg;

	count_end(r, END_ERROR);
	assert_true(err->msg[0] != '\0');
	r->err = *err;
	r->rpc_code = rpc_code;
	r->rpc_data = data;
}

static void on_used(void *arg, uint64_t cpu_us, uint64_t rss_kib)
{
	struct run *r = arg;

	assert_int_equal(r->kind, END_NONE);
	r->cpu_us = cpu_us;
	r->rss_kib = rss_kib;
}

static const struct backend_sink sink = {
	.progress = on_progress, .log = on_log, .result = on_result, .ask = on_ask, .error = on_error, .used = on_used,
	.lasts = on_lasts,
};

/* --- secrets: a table */

static struct { char *name, *value; } fake_secrets[8];
static uint64_t fake_version;

void run_secret_set(const char *name, const char *value)
{
	size_t i = 0;

	while (i < NELEMS(fake_secrets) && fake_secrets[i].name && strcmp(fake_secrets[i].name, name) != 0)
		i++;
	assert_true(i < NELEMS(fake_secrets));
	free(fake_secrets[i].name);
	free(fake_secrets[i].value);
	fake_secrets[i].name = mem_strdup(name);
	fake_secrets[i].value = mem_strdup(value);
	fake_version++;
}

static int fake_open(void *arg, const char *name, char **ret, size_t *ret_len, struct err *err)
{
	for (size_t i = 0; i < NELEMS(fake_secrets) && fake_secrets[i].name; i++) {
		if (strcmp(fake_secrets[i].name, name) != 0)
			continue;
		*ret_len = strlen(fake_secrets[i].value);
		*ret = secret_alloc(*ret_len + 1);
		memcpy(*ret, fake_secrets[i].value, *ret_len);
		return 0;
	}
	return err_set(err, ERR_NOT_FOUND, "", "no such secret");
}

static uint64_t fake_version_now(void *arg)
{
	return fake_version;
}

static const struct secret_source run_secrets = { .open = fake_open, .version = fake_version_now };

static void secrets_forget(void)
{
	for (size_t i = 0; i < NELEMS(fake_secrets); i++) {
		free(fake_secrets[i].name);
		free(fake_secrets[i].value);
		fake_secrets[i].name = fake_secrets[i].value = NULL;
	}
}

static json_t *parse(const char *text)
{
	json_t *v = NULL;
	struct err err;

	if (jx_parse(text, strlen(text), &v, &err) < 0)
		fail_msg("%s: %s: %s", text, err.where, err.msg);
	return v;
}

void run_start(struct run *r, json_t *handler, const struct run_opts *o)
{
	static const uint8_t call_id[16] = { 1, 2, 3 };
	the_cage = (struct sandbox){ .best = sandbox_level_probe(), .scratch = run_dir() };
	const struct backend_env env = { .loop = run_loop(), .secrets = &run_secrets, .fetcher = run_fetcher(),
					 .sandbox = &the_cage, .workers = the_workers, .pool = the_pool,
					 .upstreams = run_upstreams() };
	uint64_t now = clock_mono_us();
	const void *plan = NULL;
	struct err err;

	*r = (struct run){ .loop = run_loop(), .mem = arena_new(1 << 20), .handler = handler };
	if (bind_handler(handler, r->mem, &r->ops, &plan, &err) < 0)
		fail_msg("bind: %s: %s", err.where, err.msg);
	/* A plan stands alone: the definition's tree goes away. */
	json_decref(r->handler);
	r->handler = NULL;
	const char *args = o->args ? o->args : "{}";
	r->args = parse(args);
	r->answers = o->answers ? parse(o->answers) : NULL;
	r->req = (struct backend_req){
		.recorded = !o->unrecorded, .author = o->author,
		.plan = plan,
		.tool = "trial",
		.args = r->args,
		.args_text = args,
		.args_len = strlen(args),
		.answers = r->answers,
		.state = o->state,
		.state_len = o->state ? strlen(o->state) : 0,
		.call_id = call_id,
		.tenant_id = o->tenant_id,
		.tenant = "acme",
		.principal = "bot",
		.rev = "2026-07-28",
		.caps = o->caps,
		.deadline_us = o->expired ? now : now + (o->timeout_us ? o->timeout_us : PATIENCE_MS * 1000ull),
		.result_max = o->result_max ? o->result_max : BACKEND_RESULT_MAX_DEFAULT,
	};
	r->starting = true;
	assert_int_equal(backend_start(r->ops, &env, &r->req, &sink, r, &r->op, NULL), o->unrecorded ? ERR_AUDIT : 0);
	if (o->unrecorded)
		return;
	r->starting = false;
	assert_non_null(r->op);
	assert_int_equal(r->ends, 0);
}

static void set_flag(void *arg)
{
	*(bool *)arg = true;
}

void run_turns(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		bool flag = false;
		ev_post(run_loop(), set_flag, &flag);
		assert_true(ev_loop_run_until(run_loop(), &flag, PATIENCE_MS));
	}
}

void run_wait(struct run *r)
{
	assert_true(ev_loop_run_until(r->loop, &r->done, PATIENCE_MS));
	run_turns(3);
	assert_int_equal(r->ends, 1);
	assert_int_equal(r->notices_after_end, 0);
}

void run_free(struct run *r)
{
	json_decref(r->args);
	json_decref(r->answers);
	json_decref(r->res.content);
	json_decref(r->res.structured);
	json_decref(r->res.meta);
	json_decref(r->requests);
	json_decref(r->rpc_data);
	json_decref(r->log_data);
	free(r->state);
	arena_free(&r->mem);
}

void run_it(struct run *r, json_t *handler, const struct run_opts *opts)
{
	run_start(r, handler, opts);
	run_wait(r);
}

const char *run_text(const struct run *r)
{
	const char *text = json_string_value(json_object_get(json_array_get(r->res.content, 0), "text"));

	return text ? text : "";
}

json_t *handler_json(const char *text)
{
	char *copy = mem_strdup(text);

	for (char *p = copy; *p; p++) {
		if (*p == '\'')
			*p = '"';
	}
	json_t *v = parse(copy);
	free(copy);
	return v;
}

json_t *handler_sh(const char *script, const char *output)
{
	struct str s = STR_INIT;

	for (const char *p = script; *p; p++) {
		str_putc(&s, *p);
		if (*p == '{' || *p == '}')
			str_putc(&s, *p);
	}
	json_t *h = json_pack("{s:s, s:[s,s,s], s:s}", "type", "exec", "argv", "/bin/sh", "-c", str_text(&s),
			      "output", output);
	str_fini(&s);
	return h;
}
