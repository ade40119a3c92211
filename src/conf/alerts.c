/* The list of ways out of alerts: a map each, whose keys depend on its type.  Files and hosts are named only; nothing
 * is opened here (alert/ways.h looks at them). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"

#include "conf_int.h"

#define ALERTS_AT "/" CONF_ALERTS
#define MAIL_LOCAL_MAX 64               /* RFC 5321 4.5.3.1 */
#define MAIL_ADDRESS_MAX 254
#define NO_ADDRESS "no address like ops@example.com"
#define REPEAT_S (4 * 3600)
#define REPEAT_MANAGER_S 60             /* an Alertmanager forgets what it does not hear of */
#define REPEAT_MIN_S 10
#define REPEAT_MAX_S (7 * 86400)

static const char *const type_names[CONF_ALERT_TYPES] = { [CONF_ALERT_WEBHOOK] = "webhook",
	[CONF_ALERT_ALERTMANAGER] = "alertmanager", [CONF_ALERT_MAIL] = "mail" };

const char *conf_alert_type_name(enum conf_alert_type type)
{
	return type_names[type];
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int read_repeat(const json_t *obj, const char *at, struct conf_alert *w, struct err *err)
{
	const char *text = NULL;
	uint64_t ms = 0;

	if (jx_get_string(obj, at, "repeat", JX_OPTIONAL, &text, err) < 0)
		return conf_named(err);
	w->repeat_s = w->type == CONF_ALERT_ALERTMANAGER ? REPEAT_MANAGER_S : REPEAT_S;
	if (!text)
		return 0;
	if (text_duration_ms(text, &ms) < 0 || ms < REPEAT_MIN_S * 1000 || ms > REPEAT_MAX_S * UINT64_C(1000))
		return conf_err(err, at, "repeat", "repeat must be a time from 10s to 7d, like 4h, is \"%s\"", text);
	w->repeat_s = (uint32_t)(ms / 1000);
	return 0;
}

/* What all types have. */
static int read_common(const json_t *obj, const char *at, struct conf_alert *w, struct err *err)
{
	static const char *const severities[] = { "info", "warn", "page" };
	static const struct conf_texts tenants = { "tenants", CONF_SINK_TENANTS_MAX, text_entity_name,
						   "no name of a tenant: lower-case letters, digits, _ . -" };

	if (conf_read_word(obj, at, "severity", severities, NELEMS(severities), JX_OPTIONAL, &w->severity, err) < 0 ||
	    conf_read_texts(obj, at, &tenants, &w->tenants, &w->ntenants, err) < 0 || read_repeat(obj, at, w, err) < 0)
		return err->code;
	w->system = w->ntenants == 0;
	return conf_read_yes(obj, at, "system", &w->system, err);
}

static int read_place(const json_t *obj, const char *at, struct conf_alert *w, struct err *err)
{
	const char *url = NULL;

	if (jx_get_string(obj, at, "url", JX_REQUIRED, &url, err) < 0)
		return conf_named(err);
	w->url = mem_strdup(url);
	if (conf_read_path(obj, at, "ca", JX_OPTIONAL, &w->ca, err) < 0)
		return err->code;
	if (w->type == CONF_ALERT_WEBHOOK)
		return conf_read_path(obj, at, "secret_file", JX_REQUIRED, &w->secret_file, err);
	return conf_read_path(obj, at, "authorization_file", JX_OPTIONAL, &w->authorization_file, err);
}

/* What stands in a command of SMTP and in a header as it is: no quotes, no brackets, one @. */
static bool is_mail_address(const char *text, size_t len)
{
	const char *at = memchr(text, '@', len);
	const size_t local = at ? (size_t)(at - text) : 0;
	bool edge = true;               /* no dot at an edge, no two */

	if (local == 0 || local > MAIL_LOCAL_MAX || len > MAIL_ADDRESS_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		const char c = text[i];
		const bool divides = i == local || c == '.';

		if (divides ? edge : !(is_alnum(c) || (c != '\0' && strchr(i < local ? "!#$%&'*+-/=?^_`{|}~" : "-", c))))
			return false;
		edge = divides;
	}
	return !edge;
}

/* One text that is such an address. */
static int read_address(const json_t *obj, const char *at, const char *name, char **ret, struct err *err)
{
	const char *text = NULL;

	if (jx_get_string(obj, at, name, JX_REQUIRED, &text, err) < 0)
		return conf_named(err);
	if (!is_mail_address(text, strlen(text)))
		return conf_err(err, at, name, "%s is %s", name, NO_ADDRESS);
	*ret = mem_strdup(text);
	return 0;
}

static int read_login(const json_t *obj, const char *at, struct conf_alert *w, struct err *err)
{
	const char *user = NULL;

	if (jx_get_string(obj, at, "user", JX_OPTIONAL, &user, err) < 0)
		return conf_named(err);
	if (!user)
		return json_object_get(obj, "password_file") ?
			conf_err(err, at, "password_file", "password_file is of no use without user") : 0;
	if (*user == '\0' || strlen(user) > MAIL_ADDRESS_MAX)
		return conf_err(err, at, "user", "user must have 1 to %d bytes", MAIL_ADDRESS_MAX);
	w->user = mem_strdup(user);
	return conf_read_path(obj, at, "password_file", JX_REQUIRED, &w->password_file, err);
}

static int read_mail(const json_t *obj, const char *at, struct conf_alert *w, struct err *err)
{
	static const char *const words[] = { "starttls", "tls", "none" };
	static const struct conf_texts to = { "to", CONF_ALERT_TO_MAX, is_mail_address, NO_ADDRESS };
	const char *server = NULL;

	if (jx_get_string(obj, at, "server", JX_REQUIRED, &server, err) < 0)
		return conf_named(err);
	w->server = mem_strdup(server);
	if (conf_read_word(obj, at, "tls", words, NELEMS(words), JX_OPTIONAL, &w->tls, err) < 0 ||
	    read_address(obj, at, "from", &w->from, err) < 0 || conf_read_texts(obj, at, &to, &w->to, &w->nto, err) < 0)
		return err->code;
	if (w->nto == 0)
		return conf_err(err, at, "to", "to is missing: whom mail goes to");
	if (conf_read_path(obj, at, "ca", JX_OPTIONAL, &w->ca, err) < 0)
		return err->code;
	return read_login(obj, at, w, err);
}

/* --- the list */

#define KEYS_OF_ALL "name", "type", "severity", "repeat", "tenants", "system"

static const struct type {
	int (*read)(const json_t *obj, const char *at, struct conf_alert *w, struct err *err);
	const char *const *known; size_t nknown;
} types[CONF_ALERT_TYPES] = {
	[CONF_ALERT_WEBHOOK] = { read_place, (const char *const[]){ KEYS_OF_ALL, "url", "ca", "secret_file" }, 9 },
	[CONF_ALERT_ALERTMANAGER] = { read_place, (const char *const[]){ KEYS_OF_ALL, "url", "ca", "authorization_file" }, 9 },
	[CONF_ALERT_MAIL] = { read_mail, (const char *const[]){ KEYS_OF_ALL, "server", "tls", "ca", "from", "to", "user",
			      "password_file" }, 13 },
};

static int read_way(json_t *obj, const char *at, struct conf_alert *w, struct err *err)
{
	const char *name = NULL;
	unsigned type = 0;

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at, "must be a map with name, type and what belongs to that type");
	if (jx_get_string(obj, at, "name", JX_REQUIRED, &name, err) < 0)
		return conf_named(err);
	if (!text_entity_name(name, strlen(name)) || strlen(name) > CONF_SINK_NAME_MAX)
		return conf_err(err, at, "name", "\"%s\" is no name of at most %d bytes: lower-case letters, digits, _ . -", name,
				CONF_SINK_NAME_MAX);
	w->name = mem_strdup(name);
	if (conf_read_word(obj, at, "type", type_names, NELEMS(type_names), JX_REQUIRED, &type, err) < 0)
		return err->code;
	w->type = (enum conf_alert_type)type;
	if (jx_only(obj, at, types[type].known, types[type].nknown, err) < 0)
		return conf_named(err);
	if (read_common(obj, at, w, err) < 0 || types[type].read(obj, at, w, err) < 0)
		return err->code;
	if (w->url)
		conf_hide_url(obj, w->url);
	return 0;
}

static int check_others(const struct conf *c, const char *at, struct err *err)
{
	const struct conf_alert *w = &c->alerts[c->nalerts - 1];

	for (const struct conf_alert *o = c->alerts; o < w; o++)
		if (strcmp(o->name, w->name) == 0)
			return conf_err(err, at, "name", "%s is there twice", w->name);
	return 0;
}

int conf_alerts_read(const json_t *list, struct conf *c, struct err *err)
{
	json_t *item;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > CONF_ALERTS_MAX)
		return err_set(err, ERR_INVALID, ALERTS_AT, "must be a list of at most %d ways out of alerts", CONF_ALERTS_MAX);
	c->alerts = mem_calloc(json_array_size(list) + 1, sizeof(*c->alerts));
	json_array_foreach(list, i, item) {
		char *at = mem_printf(ALERTS_AT "/%zu", i);
		int rc = read_way(item, at, &c->alerts[c->nalerts++], err);

		rc = rc ? rc : check_others(c, at, err);
		free(at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void conf_alerts_free(struct conf *c)
{
	for (size_t i = 0; i < c->nalerts; i++) {
		struct conf_alert *w = &c->alerts[i];

		for (size_t k = 0; k < w->ntenants; k++)
			free(w->tenants[k]);
		free(w->tenants);
		free(w->name);
		free(w->url);
		free(w->ca);
		free(w->secret_file);
		free(w->authorization_file);
		for (size_t k = 0; k < w->nto; k++)
			free(w->to[k]);
		free(w->to);
		free(w->server);
		free(w->from);
		free(w->user);
		free(w->password_file);
	}
	free(c->alerts);
	c->alerts = NULL;
	c->nalerts = 0;
}

void conf_alerts_sample(struct str *out)
{
	str_puts(out, "\n"
		 "# Who is told of alerts, beside the log of the server.  type: webhook, alertmanager or mail.  severity: the\n"
		 "# least, info, warn or page.  tenants: all, and what is no tenant's, where it is missing.  See Ways out of alerts\n"
		 "# in toolcribd.yaml(5).  Needs a restart.\n"
		 "#alerts:\n"
		 "#  - {name: hook, type: webhook, url: \"https://ops.example.com/alerts\", severity: warn,\n"
		 "#     secret_file: /etc/toolcrib/alerts.secret}\n"
		 "#  - {name: prometheus, type: alertmanager, url: \"http://127.0.0.1:9093\"}\n"
		 "#  - {name: people, type: mail, server: \"smtp.example.com:587\", from: toolcrib@example.com,\n"
		 "#     to: [ops@example.com], severity: page, user: toolcrib, password_file: /etc/toolcrib/mail.password}\n");
}
