/* The sandbox of all tools: what this machine and the configuration say of it, looked up once, before anything is
 * started.  The table of start.c calls it, first of all, while there is one thread. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/child.h"
#include "launcher/launcher.h"
#include "sandbox/cgroup.h"

#include "app_int.h"


/* May anybody make something in it? */
static bool is_open_to_all(const char *path)
{
	char *real = realpath(path, NULL), *slash;
	struct stat st;
	bool open = real && stat(real, &st) == 0 && (st.st_mode & S_IWOTH) && (st.st_mode & S_IXOTH);

	while (open && (slash = strrchr(real, '/')) > real) {
		*slash = '\0';
		open = stat(real, &st) == 0 && (st.st_mode & S_IXOTH);
	}
	free(real);
	return open;
}

/* Where the own directories of tools are made: the temporary directory of the service.  Users who came by themselves
 * need not be able to come into that of a session. */
static char *scratch_place(const struct app *a, const struct conf *conf)
{
	const char *set = getenv("TMPDIR");

	if (!set || *set != '/')
		return mem_strdup("/tmp");
	if (!a->sandbox.best.uid || !conf || strcmp(conf->sandbox_uids, APP_UIDS_AUTO) != 0 || is_open_to_all(set))
		return mem_strdup(set);
	if (a->opt.profile != APP_EMBEDDED)
		log_info(NULL, "own directories of tools are made in /tmp: TMPDIR is not open to their users tmpdir=%s", set);
	return mem_strdup("/tmp");
}

/* Only a service has a place of its own: a command runs in the cgroup of whoever typed it. */
static void claim_cgroup(struct app *a)
{
	const char *why = NULL;

	if (a->opt.profile != APP_DAEMON)
		return;
	a->sandbox.cgroup = a->cgroup = sandbox_cgroup_claim(&why);
	a->sandbox.best.cgroup = a->cgroup != NULL;
	if (!a->cgroup)
		log_debug(NULL, "tools have no cgroups why=\"%s\"", why);
}

/* Whether it works here shows when a tool starts; that it is missing can be said now. */
static int use_bwrap(struct app *a, struct err *err)
{
	static const char *const places[] = { "/usr/bin/bwrap", "/usr/local/bin/bwrap" };

	for (size_t i = 0; i < NELEMS(places) && !a->sandbox.bwrap; i++) {
		if (access(places[i], X_OK) == 0)
			a->sandbox.bwrap = places[i];
	}
	a->sandbox.best.ns = a->sandbox.bwrap != NULL;
	if (a->sandbox.bwrap)
		return 0;
	(void)err_set(err, ERR_UNREACHABLE, "sandbox.engine", "sandbox.engine is bwrap, and there is no %s", places[0]);
	err_hint(err, "install bubblewrap, or remove the line");
	return ERR_UNREACHABLE;
}

/* Whom tools run as: nobody else is asked for by commands that run none. */
static int choose_uids(const struct conf *conf, struct launcher_uids *ret, struct str *why, struct err *err)
{
	struct err none = { 0 };

	if (!conf || strcmp(conf->sandbox_uids, "none") == 0)
		return 0;
	if (strcmp(conf->sandbox_uids, APP_UIDS_AUTO) != 0)
		return launcher_uids_parse(conf->sandbox_uids, ret, err) < 0 ? err_wrap(err, "sandbox.uids") : 0;
	if (launcher_uids_own(ret, &none) < 0)
		str_puts(why, none.msg);
	ret->may_fail = true;
	return 0;
}

/* Before there is a thread, a key or a stranger. */
static int open_launcher(struct app *a, const struct conf *conf, struct err *err)
{
	struct launcher_uids uids = { 0 };
	struct str why = STR_INIT;
	const char *how = "";
	int rc = choose_uids(conf, &uids, &why, err);

	rc = rc ? rc : ev_launcher_open(a->loop, &uids, err);
	if (rc == 0)
		a->sandbox.best.uid = ev_launcher_has_users(a->loop, &how);
	else if (uids.count > 0)
		rc = err_wrap(err, "sandbox.uids");
	if (rc == 0 && a->sandbox.best.uid)
		a->users = mem_strdup(how);
	else if (rc == 0)
		a->users = mem_printf("none%s%s", *how || why.len ? ": " : "", *how ? how : str_text(&why));
	str_fini(&why);
	return rc;
}

/* Nothing is served where tools must have users of their own and have none: each call of one would be refused. */
static int set_requirement(struct app *a, const char **text, struct err *err)
{
	int rc;

	a->sandbox.require_auto = strcmp(*text, SANDBOX_REQUIRE_AUTO) == 0;
	if (a->sandbox.require_auto)
		*text = a->sandbox.best.uid ? SANDBOX_REQUIRE_USERS : SANDBOX_REQUIRE_RULES;
	rc = sandbox_level_parse(*text, &a->sandbox.require, err);
	if (rc < 0)
		return err_wrap(err, "sandbox.require");
	if (!a->sandbox.require.uid || a->sandbox.best.uid || a->opt.profile == APP_EMBEDDED)
		return 0;
	(void)err_set(err, ERR_DENIED, "sandbox.require", "%s is asked for, and tools have no users of their own (%s)", *text,
		      a->users);
	err_hint(err, "see sandbox.uids in toolcribd.yaml(5), or ask for less");
	return ERR_DENIED;
}

/* What is missing is said, by status as well; a command says it by the level of its calls. */
static void say_levels(struct app *a, const char *require)
{
	char level[SANDBOX_LEVEL_TEXT];

	a->sandbox_levels = mem_printf("%s, required %s", sandbox_level_format(&a->sandbox.best, level), require);
	if (a->opt.profile == APP_EMBEDDED)
		return;
	if (!sandbox_level_meets(&a->sandbox.best, &a->sandbox.require))
		log_warn(NULL, "tools that are programs are refused require=%s reached=%s users=\"%s\"", require, level, a->users);
	else if (!a->sandbox.best.uid)
		log_info(NULL, "tools run as the server's user users=\"%s\"", a->users);
	if (a->sandbox.require.landlock == 0 && !a->sandbox.require.ns && !a->sandbox.require.uid)      /* SEC S-518 */
		log_warn(NULL, "sandbox.require lets tools run that can read the store require=%s reached=%s", require,
			 level);
}

/* Its own start, too, where that fails. */
void app_sandbox_stop(struct app *a)
{
	free(a->sandbox_levels);
	free(a->users);
	free(a->scratch);
	conf_hidden_free(&a->hide);
	free(a->cgroup);
	a->sandbox_levels = a->users = a->scratch = a->cgroup = NULL;
}

int app_sandbox_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf ? a->opt.conf : a->opt.tools;
	const char *require = conf ? conf->sandbox_require : SANDBOX_REQUIRE_AUTO;
	int rc;

	a->sandbox.best = sandbox_level_probe();
	rc = open_launcher(a, conf, err);
	rc = rc ? rc : set_requirement(a, &require, err);
	if (conf && a->sandbox.best.landlock > conf->sandbox_landlock)  /* records and sandbox.require go by what is used */
		a->sandbox.best.landlock = conf->sandbox_landlock;
	if (conf)
		ev_child_bound(a->loop, &(struct ev_child_bounds){ (uint64_t)conf->budget_scratch_tenant_mib << 20,
								   (uint64_t)conf->budget_scratch_mib << 20 });
	if (rc == 0)
		claim_cgroup(a);
	if (rc == 0 && conf && strcmp(conf->sandbox_engine, "bwrap") == 0)
		rc = use_bwrap(a, err);
	if (rc < 0) {
		app_sandbox_stop(a);
		return rc;
	}
	a->hide = conf_hidden(conf, a->store);
	a->sandbox.hide = (const char *const *)a->hide;
	a->sandbox.scratch = a->scratch = scratch_place(a, conf);
	say_levels(a, require);
	return 0;
}
