/* What this machine and the configuration say about the cages of tools: looked up once, before anything is started. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "conf/conf.h"
#include "sandbox/cgroup.h"

#include "app_int.h"

/* Where the own directories of tools are made; the temporary directory of the service. */
static char *scratch_place(void)
{
	const char *set = getenv("TMPDIR");

	return mem_strdup(set && *set == '/' ? set : "/tmp");
}

/* Only a service has a place of its own: a command runs in the cgroup of whoever typed it. */
static void claim_cgroup(struct app *a)
{
	const char *why = NULL;

	if (a->opt.profile != APP_DAEMON)
		return;
	a->cage.cgroup = a->cgroup = sandbox_cgroup_claim(&why);
	a->cage.best.cgroup = a->cgroup != NULL;
	if (!a->cgroup)
		log_debug(NULL, "tools have no cgroups why=\"%s\"", why);
}

/* Whether it works here shows when a tool starts; that it is missing can be said now. */
static int use_bwrap(struct app *a, struct err *err)
{
	static const char *const places[] = { "/usr/bin/bwrap", "/usr/local/bin/bwrap" };

	for (size_t i = 0; i < NELEMS(places) && !a->cage.bwrap; i++) {
		if (access(places[i], X_OK) == 0)
			a->cage.bwrap = places[i];
	}
	a->cage.best.ns = a->cage.bwrap != NULL;
	if (a->cage.bwrap)
		return 0;
	(void)err_set(err, ERR_UNREACHABLE, "sandbox.engine", "sandbox.engine is bwrap, and there is no %s", places[0]);
	err_hint(err, "install bubblewrap, or remove the line");
	return ERR_UNREACHABLE;
}

int app_cage_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf ? a->opt.conf : a->opt.tools;
	const char *require = conf ? conf->sandbox_require : SANDBOX_REQUIRE_DEFAULT;
	char level[SANDBOX_LEVEL_TEXT];
	size_t n = 0;
	int rc = sandbox_level_parse(require, &a->cage.require, err);

	if (rc < 0)
		return err_wrap(err, "sandbox.require");
	a->cage.best = sandbox_level_probe();
	claim_cgroup(a);
	if (conf && strcmp(conf->sandbox_engine, "bwrap") == 0 && use_bwrap(a, err) < 0)
		return ERR_UNREACHABLE;
	a->hide[n++] = a->store;
	if (conf && conf->file)
		a->hide[n++] = a->conf_file = path_absolute(conf->file);
	a->cage.hide = a->hide;
	a->cage.scratch = a->scratch = scratch_place();
	a->sandbox = mem_printf("%s, required %s", sandbox_level_format(&a->cage.best, level), require);
	if (a->cage.require.landlock == 0 && !a->cage.require.ns && a->opt.profile != APP_EMBEDDED)    /* SEC S-518 */
		log_warn(NULL, "sandbox.require lets tools run that can read the store require=%s reached=%s", require, level);
	return 0;
}

void app_cage_stop(struct app *a)
{
	free(a->sandbox);
	free(a->scratch);
	free(a->conf_file);
	free(a->cgroup);
	a->sandbox = a->scratch = a->conf_file = a->cgroup = NULL;
}
