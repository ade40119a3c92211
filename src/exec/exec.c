/* exec: the handler block of a program, checked and compiled.  A run of it is in run.c. */
#include "config.h"

#include "exec_int.h"

#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "exec/exec.h"
#include "json/json.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_shell(const char *text)
{
	static const char *const shells[] = { "sh", "ash", "bash", "dash", "fish", "ksh", "mksh", "zsh" };

	for (size_t i = 0; i < NELEMS(shells); i++) {
		if (strcmp(base_name(text), shells[i]) == 0)
			return true;
	}
	return false;
}

/* "-c" or a cluster that ends in it, "-ec". */
static bool is_command_option(const char *text)
{
	size_t n = strlen(text);

	return n >= 2 && text[0] == '-' && text[1] != '-' && text[n - 1] == 'c';
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

/* One element.  in_shell: one before it is a shell, and the one just before it is -c. */
static int bind_arg(const char *text, size_t i, bool in_shell, struct arena *mem, struct exec_arg *arg,
		    struct err *err)
{
	char at[32];

	snprintf(at, sizeof(at), "/argv/%zu", i);
	int rc = tpl_compile(text, at, TPL_ARGS, mem, &arg->tpl, err);
	if (rc < 0)
		return rc;
	if (in_shell && !tpl_is_constant(arg->tpl)) {
		(void)err_set(err, ERR_INVALID, at, "a template cannot be part of a shell command");
		err_hint(err, "pass it as an operand after the command, or on stdin");
		return ERR_INVALID;
	}
	return 0;
}

static int bind_argv(const json_t *handler, struct arena *mem, struct exec_plan *plan, struct err *err)
{
	bool operand = false, shell = false, command = false;
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
			rc = bind_arg(text, i, shell && command, mem, &args[i], err);
		if (rc < 0)
			return rc;
		args[i].path = text[0] == '/' && !strpbrk(text, "{}") ? text : NULL;
		args[i].operand = operand;
		operand = operand || (i > 0 && strcmp(text, "--") == 0);
		command = !operand && is_command_option(text);
		shell = shell || is_shell(text);
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
			return err_set(err, ERR_INVALID, at, "with reuse it must be the same for all calls of a tenant");
	}
	for (size_t i = 0; i < plan->nenv; i++) {
		snprintf(at, sizeof(at), "/env/%s", plan->env[i].name);
		if (!tpl_is_of_tenant(plan->env[i].value))
			return err_set(err, ERR_INVALID, at, "with reuse it must be the same for all calls of a tenant");
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
		"reuse" };
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
		rc = bind_files(plan, mem, err);
	if (rc == 0)
		rc = exec_sandbox_bind(handler, mem, &plan->sandbox, err);
	if (rc == 0)
		rc = bind_reuse(handler, plan, err);
	if (rc == 0)
		*ret_plan = plan;
	return rc;
}

const struct backend_ops handler_exec = {
	.name = "exec", .bind = exec_bind, .start = exec_start, .cancel = exec_cancel, .sandbox = exec_sandbox_of,
};
