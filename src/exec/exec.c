/* exec, the block: program, arguments, environment and sandbox of a tool, checked and compiled into a plan, and the
 * command line of one run made from it.  bind() is pure and runs on any thread, the rest on the loop.  An upstream
 * that is a process uses the sandbox's part (exec/sandbox.h).  A secret never gets into argv (SEC S-345). */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "exec/exec.h"
#include "exec/sandbox.h"
#include "json/json.h"
#include "proto/trace.h"
#include "sandbox/sandbox.h"

#include "exec_int.h"

/* --- the block `sandbox` */

/* The block `sandbox`: compiled, weighed against what this machine and the server's configuration say, and turned into
 * the launcher's instructions. */

#define CPU_DEFAULT_S 3600              /* the longest timeout: what escapes the kill ends some day */
#define CPU_MAX_S 86400
#define MEMORY_DEFAULT (4ull << 30)     /* address space, of which some runtimes reserve more than a GiB */
#define MEMORY_MIN (8u << 20)           /* less does not even load libc */
#define MEMORY_MAX (1ull << 40)
#define PROCESSES_DEFAULT 256
#define PROCESSES_MAX 4096
#define FILE_BYTES_MAX (1u << 30)       /* RLIMIT_FSIZE */
#define OPEN_FILES_MAX 256              /* RLIMIT_NOFILE */

/* An absolute path, spelt so that it cannot mean another one (SEC S-506). */
static int check_path(const char *path, const char *at, struct err *err)
{
	if (path[0] != '/')
		return err_set(err, ERR_INVALID, at, "must be an absolute path, is %.60s", path);
	if (strpbrk(path, "{}"))
		return err_set(err, ERR_INVALID, at, "a path takes no template");
	for (const char *p = path; *p; p += strcspn(p, "/")) {
		p += strspn(p, "/");
		size_t n = strcspn(p, "/");
		if (n == 2 && memcmp(p, "..", 2) == 0)
			return err_set(err, ERR_INVALID, at, "a path does not go up by \"..\"");
	}
	return 0;
}

static int read_paths(const json_t *box, const char *name, struct arena *mem, const char *const **ret, struct err *err)
{
	json_t *list = NULL;
	char at[64];

	int rc = jx_get_array(box, "/sandbox", name, JX_OPTIONAL, &list, err);
	if (rc < 0)
		return rc;
	size_t n = json_array_size(list);
	snprintf(at, sizeof(at), "/sandbox/%s", name);
	if (n > SANDBOX_PATHS_MAX)
		return err_set(err, ERR_INVALID, at, "holds more than %d paths", SANDBOX_PATHS_MAX);
	const char **paths = arena_alloc(mem, (n + 1) * sizeof(*paths));
	if (!paths)
		return backend_bind_full(at, err);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		snprintf(at, sizeof(at), "/sandbox/%s/%zu", name, i);
		if (!json_is_string(v) || memchr(json_string_value(v), '\0', json_string_length(v)))
			return err_set(err, ERR_INVALID, at, "must be a path");
		rc = check_path(json_string_value(v), at, err);
		if (rc < 0)
			return rc;
		paths[i] = arena_strdup(mem, json_string_value(v));
		if (!paths[i])
			return backend_bind_full(at, err);
	}
	*ret = paths;
	return 0;
}

static int read_ports(const json_t *net, const char *name, struct arena *mem, const uint16_t **ret, size_t *ret_n,
		      struct err *err)
{
	json_t *list = NULL;
	char at[64];

	int rc = jx_get_array(net, "/sandbox/network", name, JX_OPTIONAL, &list, err);
	if (rc < 0)
		return rc;
	size_t n = json_array_size(list);
	snprintf(at, sizeof(at), "/sandbox/network/%s", name);
	if (n > SANDBOX_PORTS_MAX)
		return err_set(err, ERR_INVALID, at, "holds more than %d ports", SANDBOX_PORTS_MAX);
	uint16_t *ports = arena_alloc(mem, (n + 1) * sizeof(*ports));
	if (!ports)
		return backend_bind_full(at, err);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		snprintf(at, sizeof(at), "/sandbox/network/%s/%zu", name, i);
		if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > UINT16_MAX)
			return err_set(err, ERR_INVALID, at, "must be a port, 1 to 65535");
		ports[i] = (uint16_t)json_integer_value(v);
	}
	*ret = ports;
	*ret_n = n;
	return 0;
}

/* true, false, or the ports by name (SEC S-509). */
static int read_network(const json_t *box, struct arena *mem, struct exec_sandbox *ret, struct err *err)
{
	static const char *const known[] = { "connect", "bind", "udp" };
	const json_t *net = json_object_get(box, "network");

	if (!net)
		return 0;
	if (json_is_boolean(net)) {
		ret->net = json_is_true(net) ? SANDBOX_NET_ANY : SANDBOX_NET_NONE;
		return 0;
	}
	if (!json_is_object(net))
		return err_set(err, ERR_INVALID, "/sandbox/network",
			       "must be true, false or {connect: [PORT, ...]}, is %s", jx_type_name(net));
	int rc = jx_only(net, "/sandbox/network", known, NELEMS(known), err);
	if (rc == 0)
		rc = read_ports(net, "connect", mem, &ret->connect_ports, &ret->nconnect, err);
	if (rc == 0)
		rc = read_ports(net, "bind", mem, &ret->bind_ports, &ret->nbind, err);
	if (rc == 0)
		rc = jx_get_bool(net, "/sandbox/network", "udp", JX_OPTIONAL, &ret->udp, err);
	ret->net = ret->nconnect + ret->nbind > 0 || ret->udp ? SANDBOX_NET_PORTS : SANDBOX_NET_NONE;
	return rc;
}

static int read_limits(const json_t *box, struct exec_sandbox *ret, struct err *err)
{
	const char *memory = NULL, *cpu = NULL;
	int64_t processes = PROCESSES_DEFAULT;
	uint64_t ms = 0;

	int rc = jx_get_string(box, "/sandbox", "memory", JX_OPTIONAL, &memory, err);
	if (rc == 0)
		rc = jx_get_string(box, "/sandbox", "cpu", JX_OPTIONAL, &cpu, err);
	if (rc == 0)
		rc = jx_get_int(box, "/sandbox", "processes", JX_OPTIONAL, 1, PROCESSES_MAX, &processes, err);
	if (rc < 0)
		return rc;
	if (memory && (text_size(memory, &ret->memory_bytes) < 0 || ret->memory_bytes < MEMORY_MIN ||
		       ret->memory_bytes > MEMORY_MAX))
		return err_set(err, ERR_INVALID, "/sandbox/memory", "must be a size from 8MiB to 1024GiB, is %.40s",
			       memory);
	if (cpu && (text_duration_ms(cpu, &ms) < 0 || ms < 1000 || ms > CPU_MAX_S * 1000ull))
		return err_set(err, ERR_INVALID, "/sandbox/cpu", "must be a duration from 1s to 24h, is %.40s", cpu);
	if (cpu)
		ret->cpu_s = (ms + 999) / 1000;
	ret->processes = (uint64_t)processes;
	return 0;
}

static int read_require(const json_t *box, struct exec_sandbox *ret, struct err *err)
{
	const char *require = NULL;

	int rc = jx_get_string(box, "/sandbox", "require", JX_OPTIONAL, &require, err);
	if (rc < 0 || !require)
		return rc;
	rc = sandbox_level_parse(require, &ret->require, err);
	if (rc < 0)
		err_at(err, "/sandbox/require");
	else if (ret->require.net0 && ret->net != SANDBOX_NET_NONE)
		rc = err_set(err, ERR_INVALID, "/sandbox/require", "+net0 and a network exclude each other");
	return rc;
}

int exec_sandbox_bind(const json_t *handler, struct arena *mem, struct exec_sandbox *ret, struct err *err)
{
	static const char *const known[] = { "read", "write", "network", "memory", "processes", "cpu", "require" };
	struct exec_sandbox c = { .cpu_s = CPU_DEFAULT_S, .memory_bytes = MEMORY_DEFAULT,
		.processes = PROCESSES_DEFAULT };
	json_t *box = NULL;

	int rc = jx_get_object(handler, "", "sandbox", JX_OPTIONAL, &box, err);
	if (rc == 0 && box)
		rc = jx_only(box, "/sandbox", known, NELEMS(known), err);
	if (rc == 0 && box)
		rc = read_paths(box, "read", mem, &c.read, err);
	if (rc == 0 && box)
		rc = read_paths(box, "write", mem, &c.write, err);
	if (rc == 0 && box)
		rc = read_network(box, mem, &c, err);
	if (rc == 0 && box)
		rc = read_limits(box, &c, err);
	if (rc == 0 && box)
		rc = read_require(box, &c, err);
	if (rc == 0)
		*ret = c;
	return rc;
}

static struct sandbox_level exec_sandbox_level(const struct exec_sandbox *c, const struct sandbox *server)
{
	struct sandbox_level level = server->best;

	level.net0 = level.net0 && c->net == SANDBOX_NET_NONE;
	return level;
}

/* What must be reached: the server's word and the definition's, and what the listed ports need. */
static struct sandbox_level wanted(const struct exec_sandbox *c, const struct sandbox *server)
{
	const struct sandbox_level ports = { .landlock = SANDBOX_LANDLOCK_PORTS, .seccomp = true };
	struct sandbox_level both = sandbox_level_both(&c->require, &server->require);

	return c->net == SANDBOX_NET_PORTS ? sandbox_level_both(&both, &ports) : both;
}

void exec_sandbox_show(const struct exec_sandbox *c, const struct sandbox *server, struct backend_sandbox *ret)
{
	struct sandbox_level reached = exec_sandbox_level(c, server), want = wanted(c, server);

	sandbox_level_format(&reached, ret->level);
	sandbox_level_format(&want, ret->wanted);
	sandbox_level_format(&server->best, ret->best);
	ret->enough = sandbox_level_meets(&reached, &want);
	ret->by_default = server->require_auto && !sandbox_level_meets(&reached, &server->require);
}

int exec_sandbox_check(const struct exec_sandbox *c, const struct sandbox *server, struct err *err)
{
	struct backend_sandbox shown;

	exec_sandbox_show(c, server, &shown);
	return backend_sandbox_check(&shown, err);
}

void exec_sandbox_fill(const struct exec_sandbox *c, const struct sandbox *server, struct sandbox_policy *ret)
{
	ret->level = exec_sandbox_level(c, server);
	ret->cpu_s = c->cpu_s;
	ret->memory_bytes = c->memory_bytes;
	ret->file_bytes = FILE_BYTES_MAX;
	ret->open_files = OPEN_FILES_MAX;
	ret->processes = c->processes;
	ret->scratch = server->scratch;
	ret->bwrap = server->bwrap;
	ret->cgroup = server->cgroup;
	ret->read = c->read;
	ret->write = c->write;
	ret->hide = server->hide;
	ret->net = c->net;
	ret->udp = c->udp;
	ret->connect_ports = c->connect_ports;
	ret->nconnect = c->nconnect;
	ret->bind_ports = c->bind_ports;
	ret->nbind = c->nbind;
}

/* --- the command line */

/* The command line and the environment of one run, from the plan's templates.  All of it lives in an arena,
 * whose limit bounds the whole. */

/* One word of the command line, or one value. */
static int render_one(const struct tpl *t, const struct backend_req *req, struct str *tmp, struct err *err)
{
	str_reset(tmp);
	int rc = tpl_render(t, req, tmp, err);
	if (rc == 0 && tmp->failed)
		rc = err_set(err, ERR_LIMIT, "",
			     "an argument is longer than the %u bytes of a command line's word",
			     EXEC_ARG_MAX);
	return rc;
}

static int command_too_long(struct err *err)
{
	return err_set(err, ERR_LIMIT, "", "the arguments are longer than the %u bytes of a command line",
		       EXEC_COMMAND_MAX);
}

int exec_render_argv(const struct exec_plan *plan, const struct backend_req *req, struct arena *mem,
		     const char **argv, struct err *err)
{
	struct str tmp;
	int rc = 0;

	str_init(&tmp, EXEC_ARG_MAX);
	for (size_t i = 0; i < plan->argc && rc == 0; i++) {
		const struct exec_arg *a = &plan->argv[i];
		rc = render_one(a->tpl, req, &tmp, err);
		/* SEC S-503, S-B04: an argument must not become an option */
		if (rc == 0 && !a->operand && tpl_begins_with_insert(a->tpl) && str_text(&tmp)[0] == '-')
			rc = err_set(err, ERR_TOOL, "", "an argument of this tool must not begin with '-'");
		if (rc == 0 && !(argv[i] = arena_strndup(mem, str_text(&tmp), tmp.len)))
			rc = command_too_long(err);
	}
	str_fini(&tmp);
	return rc;
}

/* Of which trace the call is, for what the program asks in its turn (OP-404). */
static int put_trace(const struct trace *trace, struct arena *mem, const char **env, struct err *err)
{
	char var[sizeof("TRACESTATE=") + TRACE_STATE_MAX];
	int n = snprintf(var, sizeof(var), "TRACEPARENT=%s", trace->parent);

	if (!(env[0] = arena_strndup(mem, var, (size_t)n)))
		return command_too_long(err);
	n = snprintf(var, sizeof(var), "TRACESTATE=%s", trace->state);
	if (*trace->state && !(env[1] = arena_strndup(mem, var, (size_t)n)))
		return command_too_long(err);
	return 0;
}

/* SEC S-505: these two, the caller's trace and the definition's, nothing else. */
int exec_render_env(const struct exec_plan *plan, const struct backend_req *req, struct arena *mem,
		    const char **env, struct err *err)
{
	struct str tmp, var = STR_INIT;
	bool lang = false;
	size_t n = 0;
	int rc = 0;

	str_init(&tmp, EXEC_ARG_MAX);
	for (size_t i = 0; i < plan->nenv && rc == 0; i++) {
		lang = lang || strcmp(plan->env[i].name, "LANG") == 0;
		rc = render_one(plan->env[i].value, req, &tmp, err);
		str_reset(&var);
		str_printf(&var, "%s=%s", plan->env[i].name, str_text(&tmp));
		if (rc == 0 && !(env[n++] = arena_strndup(mem, str_text(&var), var.len)))
			rc = command_too_long(err);
	}
	env[n++] = "PATH=/usr/bin:/bin";
	if (!lang)
		env[n++] = "LANG=C.UTF-8";
	if (rc == 0 && plan->traced && req->trace)
		rc = put_trace(req->trace, mem, &env[n], err);
	str_wipe(&tmp);
	str_wipe(&var);
	return rc;
}

static int bind_program(const char *text, struct exec_plan *plan, struct err *err)
{
	/* SEC S-504: not found by PATH, not chosen by an argument */
	if (strpbrk(text, "{}"))
		return err_set(err, ERR_INVALID, "/argv/0", "the path of the program takes no template");
	if (text[0] != '/')
		return err_set(err, ERR_INVALID, "/argv/0", "the program must be an absolute path, is %.60s",
			       text);
	plan->program = text;
	return 0;
}

static int bind_arg(const char *text, size_t i, struct code_reader reader[2], struct arena *mem, struct exec_arg *arg,
		    struct err *err)
{
	char at[32];

	snprintf(at, sizeof(at), "/argv/%zu", i);
	int rc = tpl_compile(text, at, TPL_ARGS, mem, &arg->tpl, err);
	return rc < 0 ? rc : exec_code_check(reader, text, !tpl_is_constant(arg->tpl), at, err);
}

static int bind_argv(const json_t *handler, struct arena *mem, struct exec_plan *plan, struct err *err)
{
	struct code_reader reader[2] = { { .row = NULL } };
	bool operand = false;
	json_t *argv = NULL;
	char at[32];

	int rc = jx_get_array(handler, "", "argv", JX_REQUIRED, &argv, err);
	if (rc < 0)
		return rc;
	size_t n = json_array_size(argv);
	if (n == 0 || n > EXEC_ARGV_MAX)
		return err_set(err, ERR_INVALID, "/argv", "must hold 1 to %d elements", EXEC_ARGV_MAX);
	struct exec_arg *args = arena_alloc(mem, n * sizeof(*args));
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(argv, i);
		snprintf(at, sizeof(at), "/argv/%zu", i);
		if (!json_is_string(v))
			return err_set(err, ERR_INVALID, at, "must be a string, is %s", jx_type_name(v));
		if (memchr(json_string_value(v), '\0', json_string_length(v)))
			return err_set(err, ERR_INVALID, at, "must not contain U+0000");
		const char *text = arena_strdup(mem, json_string_value(v));
		if (!args || !text)
			return backend_bind_full(at, err);
		if (i == 0)
			rc = bind_program(text, plan, err);
		if (rc == 0)
			rc = bind_arg(text, i, reader, mem, &args[i], err);
		if (rc < 0)
			return rc;
		args[i].path = text[0] == '/' && !strpbrk(text, "{}") ? text : NULL;
		args[i].operand = operand;
		operand = operand || (i > 0 && strcmp(text, "--") == 0);
	}
	plan->argv = args;
	plan->argc = n;
	return 0;
}

static bool env_name_valid(const char *p)
{
	if (text_eq(p, strlen(p), "") || (*p >= '0' && *p <= '9'))
		return false;
	return p[strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

/* SEC S-505: names and values come from the definition, never from arguments. */
static int bind_env(const json_t *handler, struct arena *mem, struct exec_plan *plan, struct err *err)
{
	json_t *env = NULL, *value;
	const char *name;
	char at[sizeof(err->where)];
	size_t i = 0;

	int rc = jx_get_object(handler, "", "env", JX_OPTIONAL, &env, err);
	if (rc < 0 || !env)
		return rc;
	size_t n = json_object_size(env);
	if (n > EXEC_ENV_MAX)
		return err_set(err, ERR_INVALID, "/env", "holds more than %d variables", EXEC_ENV_MAX);
	struct exec_var *vars = arena_alloc(mem, n * sizeof(*vars) + 1);
	json_object_foreach(env, name, value) {
		const char *text = NULL;
		snprintf(at, sizeof(at), "/env/%s", name);
		if (!env_name_valid(name))
			return err_set(err, ERR_INVALID, at, "is no name of a variable");
		if (strcmp(name, "PATH") == 0)
			return err_set(err, ERR_INVALID, at, "PATH is fixed: /usr/bin:/bin");
		rc = jx_get_string(env, "/env", name, JX_REQUIRED, &text, err);
		if (rc < 0)
			return rc;
		if (!vars || !(vars[i].name = arena_strdup(mem, name)))
			return backend_bind_full(at, err);
		rc = tpl_compile(text, at, TPL_SECRETS, mem, &vars[i].value, err);
		if (rc < 0)
			return rc;
		i++;
	}
	plan->env = vars;
	plan->nenv = n;
	return 0;
}

static int bind_cwd(const json_t *handler, struct arena *mem, struct exec_plan *plan, struct err *err)
{
	const char *cwd = NULL;

	int rc = jx_get_string(handler, "", "cwd", JX_OPTIONAL, &cwd, err);
	if (rc < 0 || !cwd)
		return rc;
	if (cwd[0] != '/')
		return err_set(err, ERR_INVALID, "/cwd", "must be an absolute path");
	if (strpbrk(cwd, "{}"))         /* SEC S-506 */
		return err_set(err, ERR_INVALID, "/cwd", "a path takes no template");
	plan->cwd = arena_strdup(mem, cwd);
	return plan->cwd ? 0 : backend_bind_full("/cwd", err);
}

/* HARDENING F-15: the bytes of the program, not its name, are what was looked at. */
static int bind_pin(const json_t *handler, struct arena *mem, struct exec_plan *plan, struct err *err)
{
	const char *pin = NULL;

	int rc = jx_get_string(handler, "", "sha256", JX_OPTIONAL, &pin, err);
	if (rc < 0 || !pin)
		return rc;
	if (!sandbox_sha256_valid(pin))
		return err_set(err, ERR_INVALID, "/sha256", "must be the 64 hexadecimal digits that sha256sum prints");
	plan->sha256 = arena_strdup(mem, pin);
	return plan->sha256 ? 0 : backend_bind_full("/sha256", err);
}

static int bind_stdin(const json_t *handler, struct arena *mem, struct exec_plan *plan, struct err *err)
{
	const char *in = NULL;

	plan->in = EXEC_STDIN_JSON;
	int rc = jx_get_string(handler, "", "stdin", JX_OPTIONAL, &in, err);
	if (rc < 0 || !in || strcmp(in, "json") == 0)
		return rc;
	if (plan->out == EXEC_STREAM)
		return err_set(err, ERR_INVALID, "/stdin", "must be json with output: stream");
	if (strcmp(in, "none") == 0) {
		plan->in = EXEC_STDIN_NONE;
		return 0;
	}
	plan->in = EXEC_STDIN_TEMPLATE;
	rc = tpl_compile(in, "/stdin", TPL_ARGS | TPL_SECRETS, mem, &plan->in_tpl, err);
	if (rc == 0 && tpl_is_constant(plan->in_tpl))
		rc = err_set(err, ERR_INVALID, "/stdin",
			     "must be json, none or a template like \"{/text}\", is %.40s", in);
	return rc;
}

/* A script after its interpreter, a table that it reads: what the author names outright may be read. */
static int bind_files(struct exec_plan *plan, struct arena *mem, struct err *err)
{
	size_t n = 0;

	const char **files = arena_alloc(mem, (SANDBOX_PATHS_MAX + 1) * sizeof(*files));
	if (!files)
		return backend_bind_full("/argv", err);
	for (size_t i = 1; i < plan->argc && n < SANDBOX_PATHS_MAX; i++) {
		if (plan->argv[i].path)
			files[n++] = plan->argv[i].path;
	}
	plan->files = files;
	return 0;
}

static void exec_sandbox_of(const struct backend_env *env, const void *plan, struct backend_sandbox *ret)
{
	exec_sandbox_show(&((const struct exec_plan *)plan)->sandbox, env->sandbox, ret);
}

/* A process that is kept is the same for all calls of a tenant: what differs comes by its input. */
/* A process of several calls is of no trace. */
static int bind_trace(const json_t *handler, struct exec_plan *plan, struct err *err)
{
	plan->traced = true;
	int rc = jx_get_bool(handler, "", "trace", JX_OPTIONAL, &plan->traced, err);
	for (size_t i = 0; i < plan->nenv; i++)
		if (strcmp(plan->env[i].name, "TRACEPARENT") == 0 || strcmp(plan->env[i].name, "TRACESTATE") == 0)
			plan->traced = false;
	if (plan->reuse)
		plan->traced = false;
	return rc;
}

static int bind_reuse(const json_t *handler, struct exec_plan *plan, struct err *err)
{
	struct str text = STR_INIT;
	int64_t reuse = 0;
	char at[sizeof(err->where)];

	int rc = jx_get_int(handler, "", "reuse", JX_OPTIONAL, 1, EXEC_REUSE_MAX, &reuse, err);
	if (rc < 0 || reuse == 0)
		return rc;
	if (plan->out != EXEC_STREAM)
		return err_set(err, ERR_INVALID, "/reuse", "a process is only reused with output: stream");
	for (size_t i = 0; i < plan->argc; i++) {
		snprintf(at, sizeof(at), "/argv/%zu", i);
		if (!tpl_is_of_tenant(plan->argv[i].tpl))
			return err_set(err, ERR_INVALID, at,
				       "with reuse it must be the same for all calls of a tenant");
	}
	for (size_t i = 0; i < plan->nenv; i++) {
		snprintf(at, sizeof(at), "/env/%s", plan->env[i].name);
		if (!tpl_is_of_tenant(plan->env[i].value))
			return err_set(err, ERR_INVALID, at,
				       "with reuse it must be the same for all calls of a tenant");
	}
	plan->reuse = (unsigned)reuse;
	jx_write_canon(handler, &text);
	digest_sha256(str_text(&text), text.len, plan->handler);
	str_fini(&text);
	return 0;
}

static int exec_bind(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err)
{
	static const char *const known[] = { "type", "argv", "stdin", "output", "env", "cwd", "sandbox",
		"reuse", "sha256", "trace" };
	static const char *const outputs[] = { "text", "json", "stream" };
	struct exec_plan *plan = arena_alloc(mem, sizeof(*plan));
	unsigned out = EXEC_TEXT;

	if (!plan)
		return backend_bind_full("", err);
	int rc = jx_only(handler, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = bind_argv(handler, mem, plan, err);
	if (rc == 0)
		rc = backend_get_word(handler, "output", outputs, NELEMS(outputs), &out, err);
	plan->out = (enum exec_output)out;
	if (rc == 0)
		rc = bind_stdin(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_env(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_cwd(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_pin(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_files(plan, mem, err);
	if (rc == 0)
		rc = exec_sandbox_bind(handler, mem, &plan->sandbox, err);
	if (rc == 0)
		rc = bind_reuse(handler, plan, err);
	if (rc == 0)
		rc = bind_trace(handler, plan, err);
	if (rc == 0)
		*ret_plan = plan;
	return rc;
}

const struct backend_ops handler_exec = {
	.name = "exec", .bind = exec_bind, .start = exec_start, .cancel = exec_cancel, .sandbox = exec_sandbox_of,
};
