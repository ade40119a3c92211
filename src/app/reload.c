/* SIGHUP: read the file and the certificates again, aside; take what can be taken, name what needs a restart, keep all on
 * an error.  Either way it is on record (AUDIT 1604). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "conf/conf.h"
#include "writer/writer.h"

#include "app_int.h"

/* detail: what needs a restart, or why nothing was taken. */
static void record(struct app *a, const uint8_t before[32], int rc, const char *detail)
{
	const struct audit_field fields[] = { { AUDIT_TAG_BEFORE, before, 32 }, { AUDIT_TAG_AFTER, a->opt.conf->digest, 32 } };
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_CONFIG_LOAD, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.obj = "config";
	ev.detail = detail;
	ev.has_outcome = true;
	ev.outcome = rc < 0 ? AUDIT_INVALID : AUDIT_OK;
	ev.field = fields;
	ev.nfield = NELEMS(fields);
	if (writer_audit(a->writer, &ev, NULL, NULL) < 0)
		log_warn(NULL, "a reload of the configuration could not be recorded");
}

/* Both are whole or nothing is changed. */
static int load(struct app *a, struct conf **ret, struct app_renewal *ret_tls, struct err *err)
{
	struct conf *next = NULL;
	int rc = conf_load(a->opt.conf->file, &next, err);

	if (rc == 0)
		rc = app_renewal_make(a, conf_same_doors(a->opt.conf, next) ? next : a->opt.conf, ret_tls, err);
	if (rc < 0) {
		conf_free(&next);
		return rc;
	}
	*ret = next;
	return 0;
}

static void take(struct app *a, struct conf *next, struct app_renewal *tls, struct str *restart)
{
	enum log_level level;

	conf_reload(a->opt.conf, next, restart);
	app_renewal_take(a, tls);
	app_gate_reload(a);
	a->transport_env.drain_ms = a->opt.conf->eof_drain_ms;
	if (log_level_from_name(a->opt.conf->log_level, &level))
		log_set_level(level);
}

void app_reload(struct app *a)
{
	struct app_renewal tls = { { NULL } };
	struct str restart = STR_INIT;
	struct conf *next = NULL;
	uint8_t before[32];
	struct err err;

	memcpy(before, a->opt.conf->digest, sizeof(before));
	if (load(a, &next, &tls, &err) < 0) {
		char *why = mem_printf("%s: %s", err.where, err.msg);

		log_err(NULL, "configuration not reloaded, everything stays as it was where=%s why=\"%s\"%s%s", err.where, err.msg,
			*err.hint ? " hint=" : "", err.hint);
		record(a, before, err.code, why);
		free(why);
		return;
	}
	take(a, next, &tls, &restart);
	conf_free(&next);
	log_info(NULL, "configuration reloaded file=%s", a->opt.conf->file ? a->opt.conf->file : "none");
	if (restart.len > 0)
		log_warn(NULL, "changed keys need a restart keys=\"%s\"", str_text(&restart));
	record(a, before, 0, restart.len > 0 ? str_text(&restart) : NULL);
	str_fini(&restart);
}
