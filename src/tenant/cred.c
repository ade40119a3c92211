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

/* May this tenant, principal and key (NULL = none needed) be served now?  SEC S-306 */
static int check_standing(const struct tenant_image *img, const struct ten_principal *p, const struct ten_cred *cred,
			  struct err *err)
{
	if (cred && cred->revoked_us)
		return err_set(err, ERR_DENIED, "", "the key is revoked");
	if (cred && cred->expires_us && cred->expires_us <= clock_wall_us())
		return err_set(err, ERR_DENIED, "", "the key has expired");
	if (!p)
		return err_set(err, ERR_DENIED, "", "the principal does not exist any more");
	if (p->state != PRINCIPAL_ACTIVE)
		return err_set(err, ERR_DENIED, "", "the principal is suspended");
	if (img->tenant.state != TENANT_ACTIVE)
		return err_set(err, ERR_DENIED, "", "the tenant is suspended");
	return 0;
}

static void note_use(struct tenants *t, struct ten_cred *cred)
{
	cred->used_us = clock_wall_us();
	if (list_empty(&cred->dirty))
		list_push_back(&t->dirty, &cred->dirty);
}

static int refuse(const char *from, const char *accessor, const char *why)
{
	static struct log_site site;
	const struct log_ctx ctx = { .peer = from };

	met_inc(MET_auth_failures);
	if (log_allow(&site))
		log_info(&ctx, "authentication failed key=%s reason=\"%s\"", accessor ? accessor : "unknown", why);
	return ERR_DENIED;
}

int cred_check(struct tenants *t, const char *bearer, size_t len, const char *from, struct principal **ret,
	       struct err *err)
{
	/* A well-formed stand-in: what is malformed or unknown costs the same work (SEC S-305, S-309). */
	static const char stand_in[] = "0000000000000000000000000000000000000000000";
	const char *accessor = NULL, *secret = stand_in;
	struct ten_cred *cred = NULL;
	uint8_t hash[32];
	struct err why;
	bool proved;

	if (key_parse(bearer, len, &accessor, &secret) == 0)
		cred = map_get(t->creds, accessor, KEY_ACCESSOR_SIZE - 1);
	key_hash(t->pepper, secret, hash);
	proved = secret_equal(hash, cred ? cred->hash : t->dummy, sizeof hash) && cred;
	secret_wipe(hash, sizeof hash);
	if (!proved) {
		(void)err_set(err, ERR_DENIED, "", "invalid credential");
		return refuse(from, cred ? cred->accessor : NULL, "invalid");
	}
	if (check_standing(cred->home, ten_principal(cred->home, cred->principal_id), cred, &why) < 0) {
		if (err)
			*err = why;
		return refuse(from, cred->accessor, why.msg);
	}
	if (!cred->who) {
		cred->who = ten_principal_new(cred->home, ten_principal(cred->home, cred->principal_id));
		cred->who->cred_id = cred->id;
		cred->who->authn = AUDIT_AUTHN_KEY;
		memcpy(cred->who->accessor, cred->accessor, sizeof cred->accessor);
	}
	note_use(t, cred);
	principal_ref(cred->who);
	*ret = cred->who;
	return 0;
}

int principal_check(const struct tenants *t, const struct principal *p, struct err *err)
{
	const struct tenant_image *img = ten_find(t, p->tenant_id);
	const struct ten_cred *cred = NULL;

	if (!img)
		return err_set(err, ERR_DENIED, "", "the tenant does not exist any more");
	if (p->cred_id) {
		cred = map_get(t->creds, p->accessor, KEY_ACCESSOR_SIZE - 1);
		if (!cred || cred->id != p->cred_id || cred->home != img)
			return err_set(err, ERR_DENIED, "", "the key does not exist any more");
	}
	return check_standing(img, ten_principal(img, p->principal_id), cred, err);
}

int principal_named(struct tenants *t, const char *tenant, const char *name, int authn, struct principal **ret,
		    struct err *err)
{
	const struct tenant_image *img = map_get_z(t->by_name, tenant);
	const struct ten_principal *p = NULL;
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
	rc = check_standing(img, p, NULL, err);
	if (rc < 0)
		return rc;
	*ret = ten_principal_new(img, p);
	(*ret)->authn = authn;
	return 0;
}
