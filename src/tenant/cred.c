/* The one check of credentials for all transports. */

#include "config.h"

#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "tenant/arg_rule.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"

#include "tenant_int.h"

const char *cred_refusal_name(enum cred_refusal why)
{
	static const char *const names[CRED_REFUSAL_COUNT] = {
#define CRED_REFUSAL_NAME(sym, name) [CRED_##sym] = name,
		CRED_REFUSALS(CRED_REFUSAL_NAME)
#undef CRED_REFUSAL_NAME
	};

	return names[why];
}

void tenants_watch(struct tenants *t, const struct cred_watch *watch)
{
	t->watch = watch ? *watch : (struct cred_watch){ 0 };
}

static void note_use(struct tenants *t, struct tenant_cred *cred, const struct principal *who,
		     const struct cred_source *source)
{
	bool first = !cred->used;

	cred->used = true;
	cred->used_us = clock_wall_us();
	if (list_empty(&cred->dirty))
		list_push_back(&t->dirty, &cred->dirty);
	if (first && t->watch.used_first)
		t->watch.used_first(t->watch.arg, source, who);
}

/* cred: the key that was named, or NULL. */
static int refuse(struct tenants *t, const struct cred_source *source, const struct tenant_cred *cred,
		  enum cred_refusal why)
{
	static struct log_site site;
	const struct log_ctx ctx = { .peer = source->from };

	metric_inc(METRIC_auth_failures);
	if (log_allow(&site))
		log_info(&ctx, "authentication failed key=%s reason=%s", cred ? cred->accessor : "unknown", cred_refusal_name(why));
	if (t->watch.refused)
		t->watch.refused(t->watch.arg, source, why, cred ? cred->home->tenant.id : 0, cred ? cred->accessor : NULL);
	return ERR_DENIED;
}

void cred_refused(struct tenants *t, const struct cred_source *source, enum cred_refusal why)
{
	(void)refuse(t, source, NULL, why);
}

/* Whom a proved secret stands for; old: the one that was replaced. */
static struct principal *principal_of(struct tenant_cred *cred, bool old)
{
	struct principal *who = cred->who[old];

	if (who)
		return who;
	who = tenant_principal_new(cred->home, tenant_principal(cred->home, cred->principal_id));
	who->cred_id = cred->id;
	who->authn = AUDIT_AUTHN_KEY;
	who->scopes = scopes_ref(cred->scopes);
	who->rules = arg_rules_ref(cred->rules);
	who->proof = tenant_proof(old ? cred->old_hash : cred->hash);
	memcpy(who->accessor, cred->accessor, sizeof(cred->accessor));
	cred->who[old] = who;
	return who;
}

int cred_check(struct tenants *t, const char *bearer, size_t len, const struct cred_source *source,
	       struct principal **ret, struct err *err)
{
	/* A well-formed stand-in: what is malformed or unknown costs the same work (SEC S-305, S-309). */
	static const char stand_in[] = "0000000000000000000000000000000000000000000";
	enum cred_refusal why = len == 0 ? CRED_MISSING : CRED_MALFORMED;
	const char *accessor = NULL, *secret = stand_in;
	struct tenant_cred *cred = NULL;
	struct tenant_shown shown;
	uint8_t hash[32];
	struct err standing;
	bool now, old;

	if (key_parse(bearer, len, &accessor, &secret) == 0) {
		cred = map_get(t->creds, accessor, KEY_ACCESSOR_SIZE - 1);
		why = cred ? CRED_WRONG : CRED_UNKNOWN;
	}
	key_hash(t->pepper, secret, hash);
	/* Both in any case: how long it takes does not say whether there is a second secret (S-310). */
	now = secret_equal(hash, cred ? cred->hash : t->dummy, sizeof(hash));
	old = secret_equal(hash, cred ? cred->old_hash : t->dummy, sizeof(hash));
	shown = (struct tenant_shown){ cred, tenant_proof(hash), source->from };
	secret_wipe(hash, sizeof(hash));
	if (!cred || (!now && !old)) {
		(void)err_set(err, ERR_DENIED, "", "invalid credential");
		return refuse(t, source, cred, why);
	}
	if (tenant_standing(cred->home, tenant_principal(cred->home, cred->principal_id), &shown, &why, &standing) < 0) {
		if (err)
			*err = standing;
		return refuse(t, source, cred, why);
	}
	*ret = principal_of(cred, !now);
	principal_ref(*ret);
	note_use(t, cred, *ret, source);
	return 0;
}
