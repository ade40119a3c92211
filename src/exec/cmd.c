/* exec: the command line and the environment of one run, from the plan's templates.  All of it lives in an arena,
 * whose limit bounds the whole. */
#include "config.h"

#include "exec_int.h"

#include <string.h>

#include "base/mem.h"

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

/* SEC S-505: these two and the definition's, nothing else. */
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
		env[n] = "LANG=C.UTF-8";
	str_wipe(&tmp);
	str_wipe(&var);
	return rc;
}
