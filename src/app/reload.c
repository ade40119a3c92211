/* SIGHUP, or a command: read the file and the certificates again, aside; take what can be taken, name what needs a restart, keep all on
 * an error.  Either way it is on record, and so is what a start begins with (AUDIT 1604). */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "command/command.h"
#include "audit/audit.h"
#include "base/log.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "oauth/oauth.h"
#include "writer/writer.h"

#include "app_int.h"

#define REST_US 200000                  /* between two readings: a storm of signals is read, and recorded, as few */

/* before, after: digests of the text that was in force and of the one that was read, or NULL. */
static void record(struct app *a, const uint8_t *before, const uint8_t *after, int outcome, const char *detail)
{
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_CONFIG_LOAD, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.obj = "config";
	ev.before = before;
	ev.after = after;
	ev.has_outcome = true;
	ev.outcome = outcome;
	ev.detail = detail;
	if (writer_audit(a->writer, &ev, NULL, NULL) < 0)
		log_warn(NULL, "the reading of the configuration could not be recorded");
}

static const char *name_of(const struct conf *c)
{
	return c->file ? c->file : "built-in defaults";
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

static void refused(struct app *a, const struct err *why)
{
	struct str text = STR_INIT;
	uint8_t now[sizeof(a->opt.conf->digest)];
	bool read = a->opt.conf->file && conf_digest(a->opt.conf->file, now, NULL) == 0;

	log_err(NULL, "configuration not reloaded, everything stays as it was where=%s why=\"%s\"%s%s", why->where, why->msg,
		*why->hint ? " hint=" : "", why->hint);
	str_printf(&text, "%s: refused, the old one stays: %s: %s", name_of(a->opt.conf), why->where, why->msg);
	record(a, a->opt.conf->digest, read ? now : NULL, AUDIT_INVALID, str_text(&text));
	str_fini(&text);
}

/* The tools are processes of that user as well (SEC S-318). */
void app_say_owner(const struct app *a)
{
	if (geteuid() != 0 && commands_owner_rules(a->admin))
		log_warn(NULL, "no user and no group is named as administrator, so whatever runs as uid=%u is one: see roles in toolcribd.yaml(5)",
			 (unsigned)geteuid());
}

static void take(struct app *a, struct conf *next, struct app_renewal *tls, struct str *restart)
{
	struct str text = STR_INIT;
	uint8_t before[sizeof(next->digest)];
	enum log_level level;

	memcpy(before, a->opt.conf->digest, sizeof(before));
	conf_reload(a->opt.conf, next, restart);
	commands_set_roles(a->admin, a->opt.conf->roles, a->opt.conf->nroles);
	app_say_owner(a);
	app_renewal_take(a, tls);
	app_gate_reload(a);
	a->transport_env.drain_ms = a->opt.conf->eof_drain_ms;
	if (a->oauth)
		oauth_reload(a->oauth);
	if (log_level_from_name(a->opt.conf->log_level, &level))
		log_set_level(level);
	log_info(NULL, "configuration reloaded file=%s", name_of(a->opt.conf));
	if (restart->len > 0)
		log_warn(NULL, "changed keys need a restart keys=\"%s\"", str_text(restart));
	str_printf(&text, "%s: reloaded%s%s", name_of(a->opt.conf), restart->len ? ", these keys wait for a restart: " : "",
		   str_text(restart));
	record(a, before, a->opt.conf->digest, AUDIT_OK, str_text(&text));
	str_fini(&text);
}

int app_reload_now(void *app, struct str *ret_restart, struct err *err)
{
	struct app *a = app;
	struct app_renewal tls = { .admin = NULL };
	struct conf *next = NULL;

	a->reloaded_us = ev_now_us(a->loop);
	if (load(a, &next, &tls, err) < 0) {
		refused(a, err);
		return err->code;
	}
	take(a, next, &tls, ret_restart);
	conf_free(&next);
	return 0;
}

static void reload(void *arg)
{
	struct str restart = STR_INIT;
	struct err err;

	(void)app_reload_now(arg, &restart, &err);      /* log and record say how it went */
	str_fini(&restart);
}

void app_reload(struct app *a)
{
	uint64_t now = ev_now_us(a->loop), next = a->reloaded_us + REST_US;

	if (a->reloaded_us == 0 || now >= next)
		reload(a);
	else if (!ev_timer_armed(a->reload))
		ev_timer_start(a->reload, next - now);
}

int app_reload_start(struct app *a, struct err *err)
{
	(void)err;
	a->reload = ev_timer_new(a->loop, reload, a);
	record(a, NULL, a->opt.conf->digest, AUDIT_OK, name_of(a->opt.conf));
	return 0;
}

void app_reload_stop(struct app *a)
{
	ev_timer_free(&a->reload);
}
