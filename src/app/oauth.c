/* Access tokens in this process: whose are accepted, and the record of each that is seen for the first time (SEC S-411). */
#include "config.h"

#include "oauth/oauth.h"

#include "audit/audit.h"
#include "base/log.h"
#include "base/text.h"
#include "keys/secrets.h"
#include "tenant/tenant.h"
#include "keys/vault.h"
#include "writer/writer.h"

#include "app_int.h"

/* Who it is stands in records as the pseudonym of its principal; what of the token may be told is its issuer, the client
 * that has it, and a name by which its issuer's log can be compared. */
static void accepted(void *arg, const struct cred_source *from, const struct principal *who, const struct oauth_seen *seen)
{
	struct app *a = arg;
	struct str text = STR_INIT;
	struct audit_event ev;

	str_printf(&text, "issuer=%s token=%s client=%s", seen->issuer, seen->commitment, seen->client);
	audit_event_init(&ev, AUDIT_CRED_FIRST_USE, who->tenant_id);
	ev.actor = AUDIT_BY_SERVICE;
	ev.authn = who->authn;
	ev.tport = from->tport;
	ev.peer = from->from;
	ev.prn = who->pseudonym;
	ev.detail = str_text(&text);
	if (writer_audit(a->writer, &ev, NULL, NULL) < 0)
		log_warn(NULL, "the first use of an access token could not be recorded issuer=%s", seen->issuer);
	str_fini(&text);
}

int app_oauth_start(struct app *a, struct err *err)
{
	const struct secret_source *secrets = vault_secrets(a->vault);

	if (a->opt.conf->nissuers == 0)
		return 0;
	return oauth_open(&(struct oauth_env){ .loop = a->loop, .fetcher = a->fetcher, .tenants = a->tenants, .conf = a->opt.conf,
		.master = a->master, .secret = secrets->open, .secret_arg = secrets->arg, .accepted = accepted,
		.accepted_arg = a }, &a->oauth, err);
}

void app_oauth_stop(struct app *a)
{
	oauth_close(&a->oauth);
}
