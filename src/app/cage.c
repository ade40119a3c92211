/* What this machine and the configuration say about the cages of tools: looked up once, before anything is started. */
#include "config.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "conf/conf.h"

#include "app_int.h"

/* Where the own directories of tools are made; the temporary directory of the service. */
static char *scratch_place(void)
{
	const char *set = getenv("TMPDIR");

	return mem_strdup(set && *set == '/' ? set : "/tmp");
}

int app_cage_start(struct app *a, struct err *err)
{
	const struct conf *conf = a->opt.conf;
	const char *require = conf ? conf->sandbox_require : RUN_REQUIRE_DEFAULT;
	char level[RUN_LEVEL_TEXT];
	size_t n = 0;
	int rc = run_level_parse(require, &a->cage.require, err);

	if (rc < 0)
		return err_wrap(err, "sandbox.require");
	a->cage.best = run_level_probe();
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
	a->sandbox = a->scratch = a->conf_file = NULL;
}
