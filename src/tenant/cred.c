/* Who speaks: one check of credentials for all transports, and principals that have none. */

#include "config.h"

#include "tenant/tenant.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/secret.h"
#include "metrics/metric.h"
#include "tenant_int.h"

void principal_ref(struct principal *p)
{
	p->refs++;
}

void principal_unref(struct principal **p)
{
	if (!p || !*p)
		return;
	assert((*p)->refs > 0);
	if (--(*p)->refs == 0)
		free(*p);
	*p = NULL;
}

struct principal *ten_principal_new(const struct tenant_image *img, const struct ten_principal *p)
{
	struct principal *who = mem_zalloc(sizeof *who);

	who->refs = 1;
	who->tenant_id = img->tenant.id;
	who->principal_id = p->id;
	memcpy(who->tenant, img->name, sizeof who->tenant);
	memcpy(who->name, p->name, sizeof who->name);
	memcpy(who->pseudonym, p->pseudonym, sizeof who->pseudonym);
	return who;
}

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

/* May this tenant, principal and key (NULL = none needed) be served now?  SEC S-306 */
static int check_standing(const struct tenant_image *img, const struct ten_principal *p, const struct ten_cred *cred,
			  enum cred_refusal *ret_why, struct err *err)
{
	*ret_why = CRED_REVOKED;
	if (cred && cred->revoked_us)
		return err_set(err, ERR_DENIED, "", "the key is revoked");
	*ret_why = CRED_EXPIRED;
	if (cred && cred->expires_us && cred->expires_us <= clock_wall_us())
		return err_set(err, ERR_DENIED, "", "the key has expired");
	*ret_why = CRED_SUSPENDED;
	if (!p)
		return err_set(err, ERR_DENIED, "", "the principal does not exist any more");
	if (p->state != PRINCIPAL_ACTIVE)
		return err_set(err, ERR_DENIED, "", "the principal is suspended");
	if (img->tenant.state != TENANT_ACTIVE)
		return err_set(err, ERR_DENIED, "", "the tenant is suspended");
	return 0;
}

static void note_use(struct tenants *t, struct ten_cred *cred, const struct cred_source *source)
{
	bool first = !cred->used;

	cred->used = true;
	cred->used_us = clock_wall_us();
	if (list_empty(&cred->dirty))
		list_push_back(&t->dirty, &cred->dirty);
	if (first && t->watch.used_first)
		t->watch.used_first(t->watch.arg, source, cred->who);
}

/* cred: the key that was named, or NULL. */
static int refuse(struct tenants *t, const struct cred_source *source, const struct ten_cred *cred, enum cred_refusal why)
{
	static struct log_site site;
	const struct log_ctx ctx = { .peer = source->from };

	met_inc(MET_auth_failures);
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

int cred_check(struct tenants *t, const char *bearer, size_t len, const struct cred_source *source, struct principal **ret,
	       struct err *err)
{
	/* A well-formed stand-in: what is malformed or unknown costs the same work (SEC S-305, S-309). */
	static const char stand_in[] = "0000000000000000000000000000000000000000000";
	enum cred_refusal why = len == 0 ? CRED_MISSING : CRED_MALFORMED;
	const char *accessor = NULL, *secret = stand_in;
	struct ten_cred *cred = NULL;
	uint8_t hash[32];
	struct err standing;
	bool proved;

	if (key_parse(bearer, len, &accessor, &secret) == 0) {
		cred = map_get(t->creds, accessor, KEY_ACCESSOR_SIZE - 1);
		why = cred ? CRED_WRONG : CRED_UNKNOWN;
	}
	key_hash(t->pepper, secret, hash);
	proved = secret_equal(hash, cred ? cred->hash : t->dummy, sizeof hash) && cred;
	secret_wipe(hash, sizeof hash);
	if (!proved) {
		(void)err_set(err, ERR_DENIED, "", "invalid credential");
		return refuse(t, source, cred, why);
	}
	if (check_standing(cred->home, ten_principal(cred->home, cred->principal_id), cred, &why, &standing) < 0) {
		if (err)
			*err = standing;
		return refuse(t, source, cred, why);
	}
	if (!cred->who) {
		cred->who = ten_principal_new(cred->home, ten_principal(cred->home, cred->principal_id));
		cred->who->cred_id = cred->id;
		cred->who->authn = AUDIT_AUTHN_KEY;
		memcpy(cred->who->accessor, cred->accessor, sizeof cred->accessor);
	}
	note_use(t, cred, source);
	principal_ref(cred->who);
	*ret = cred->who;
	return 0;
}

int principal_check(const struct tenants *t, const struct principal *p, struct err *err)
{
	const struct tenant_image *img = ten_find(t, p->tenant_id);
	const struct ten_cred *cred = NULL;
	enum cred_refusal why;

	if (!img)
		return err_set(err, ERR_DENIED, "", "the tenant does not exist any more");
	if (p->cred_id) {
		cred = map_get(t->creds, p->accessor, KEY_ACCESSOR_SIZE - 1);
		if (!cred || cred->id != p->cred_id || cred->home != img)
			return err_set(err, ERR_DENIED, "", "the key does not exist any more");
	}
	return check_standing(img, ten_principal(img, p->principal_id), cred, &why, err);
}

int principal_named(struct tenants *t, const char *tenant, const char *name, int authn, struct principal **ret,
		    struct err *err)
{
	const struct tenant_image *img = map_get_z(t->by_name, tenant);
	const struct ten_principal *p = NULL;
	enum cred_refusal why;
	int rc;

	if (!img)
		return err_set(err, ERR_NOT_FOUND, "", "tenant %s: not found", tenant);
	if (!name)
		name = "default";
	for (size_t i = 0; i < img->nprincipals && !p; i++)
		if (strcmp(img->principals[i].name, name) == 0)
			p = &img->principals[i];
	if (!p)
		return err_set(err, ERR_NOT_FOUND, "", "principal %s/%s: not found", tenant, name);
	rc = check_standing(img, p, NULL, &why, err);
	if (rc < 0)
		return rc;
	*ret = ten_principal_new(img, p);
	(*ret)->authn = authn;
	return 0;
}
