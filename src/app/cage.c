/* What this machine and the configuration say about the cages of tools: looked up once, before anything is started. */
#include "config.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "conf/conf.h"
#include "run/cgroup.h"

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
	a->cage.cgroup = a->cgroup = run_cgroup_claim(&why);
	a->cage.best.cgroup = a->cgroup != NULL;
	if (!a->cgroup)
		log_debug(NULL, "tools have no cgroups why=\"%s\"", why);
}

int app_cage_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf;
	const char *require = conf ? conf->sandbox_require : a->opt.require ? a->opt.require : RUN_REQUIRE_DEFAULT;
	char level[RUN_LEVEL_TEXT];
	size_t n = 0;
	int rc = run_level_parse(require, &a->cage.require, err);

	if (rc < 0)
		return err_wrap(err, "sandbox.require");
	a->cage.best = run_level_probe();
	claim_cgroup(a);
	a->hide[n++] = a->store;
	if (conf && conf->file)
		a->hide[n++] = a->conf_file = path_absolute(conf->file);
	a->cage.hide = a->hide;
	a->cage.scratch = a->scratch = scratch_place();
	a->sandbox = mem_printf("%s, required %s", run_level_format(&a->cage.best, level), require);
	if (a->cage.require.landlock == 0 && a->opt.profile != APP_EMBEDDED)    /* SEC S-518 */
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
