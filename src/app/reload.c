/* SIGHUP: read the file again, aside; take what can be taken, name what needs a restart, keep all on an error. */
#include "config.h"

#include "base/log.h"
#include "base/str.h"
#include "conf/conf.h"

#include "app_int.h"

void app_reload(struct app *a)
{
	struct conf *next = NULL;
	struct str restart = STR_INIT;
	enum log_level level;
	struct err err;

	if (conf_load(a->opt.conf->file, &next, &err) < 0) {
		log_err(NULL, "configuration not reloaded, everything stays as it was where=%s why=\"%s\"%s%s", err.where, err.msg,
			*err.hint ? " hint=" : "", err.hint);
		return;
	}
	conf_reload(a->opt.conf, next, &restart);
	conf_free(&next);
	app_gate_reload(a);
	a->transport_env.drain_ms = a->opt.conf->eof_drain_ms;
	if (log_level_from_name(a->opt.conf->log_level, &level))
		log_set_level(level);
	log_info(NULL, "configuration reloaded file=%s", a->opt.conf->file ? a->opt.conf->file : "none");
	if (restart.len > 0)
		log_warn(NULL, "changed keys need a restart keys=\"%s\"", str_text(&restart));
	str_fini(&restart);
}
