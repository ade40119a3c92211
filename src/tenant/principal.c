/* Who speaks: principals with and without a key, and whether they may still be served. */

#include "config.h"

#include "tenant/tenant.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "tenant/arg_rule.h"
#include "tenant/cidr.h"
#include "tenant/scope.h"
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
	if (--(*p)->refs == 0) {
		scopes_unref(&(*p)->scopes);
		arg_rules_unref(&(*p)->rules);
		free(*p);
	}
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

uint64_t ten_proof(const uint8_t hash[32])
{
	uint64_t proof;

	memcpy(&proof, hash, sizeof proof);
	return proof;
}

/* SEC S-306, S-310 */
static int check_key(const struct ten_shown *shown, enum cred_refusal *ret_why, struct err *err)
{
	const struct ten_cred *c = shown->cred;
	uint64_t now = clock_wall_us();

	*ret_why = CRED_REVOKED;
	if (c->revoked_us)
		return err_set(err, ERR_DENIED, "", "the key is revoked");
	*ret_why = CRED_EXPIRED;
	if (c->expires_us && c->expires_us <= now)
		return err_set(err, ERR_DENIED, "", "the key has expired");
	*ret_why = CRED_EARLY;
	if (c->not_before_us > now)
		return err_set(err, ERR_DENIED, "", "the key is not valid yet");
	*ret_why = CRED_ROTATED;
	if (shown->proof != ten_proof(c->hash) && (shown->proof != ten_proof(c->old_hash) || c->old_until_us <= now))
		return err_set(err, ERR_DENIED, "", "the key was rotated, this secret has ended");
	*ret_why = CRED_SUSPENDED;
	if (c->suspended)
		return err_set(err, ERR_DENIED, "", "the key is suspended");
	*ret_why = CRED_ENROLMENT;
	if (c->enrols)
		return err_set(err, ERR_DENIED, "", "the key can only be exchanged for another one: toolcrib key enroll");
	*ret_why = CRED_ADDRESS;
	if (shown->from && c->cidrs && !cidrs_hold(c->cidrs, shown->from))
		return err_set(err, ERR_DENIED, "", "the key cannot be used from this address");
	return 0;
}

int ten_standing(const struct tenant_image *img, const struct ten_principal *p, const struct ten_shown *shown,
		 enum cred_refusal *ret_why, struct err *err)
{
	int rc = shown ? check_key(shown, ret_why, err) : 0;

	if (rc < 0)
		return rc;
	*ret_why = CRED_SUSPENDED;
	if (!p)
		return err_set(err, ERR_DENIED, "", "the principal does not exist any more");
	if (p->state != PRINCIPAL_ACTIVE)
		return err_set(err, ERR_DENIED, "", "the principal is suspended");
	if (img->tenant.state != TENANT_ACTIVE)
		return err_set(err, ERR_DENIED, "", "the tenant is suspended");
	return 0;
}

const struct ten_principal *ten_principal_named(const struct tenant_image *img, const char *name)
{
	for (size_t i = 0; i < img->nprincipals; i++)
		if (strcmp(img->principals[i].name, name) == 0)
			return &img->principals[i];
	return NULL;
}

/* A principal without a row: its id is negative, it cannot be suspended, and it ends when a row takes its name. */
static const struct ten_principal rowless = { .state = PRINCIPAL_ACTIVE };

static const struct ten_principal *standing_of(const struct tenant_image *img, const struct principal *p)
{
	if (p->principal_id > 0)
		return ten_principal(img, p->principal_id);
	return ten_principal_named(img, p->name) ? NULL : &rowless;
}

/* what: that ends by itself. */
static int check_end(uint64_t expires_us, const char *what, struct err *err)
{
	if (expires_us && expires_us <= clock_wall_us())
		return err_set(err, ERR_DENIED, "", "the %s has expired", what);
	return 0;
}

int principal_check(const struct tenants *t, const struct principal *p, struct err *err)
{
	const struct tenant_image *img = ten_find(t, p->tenant_id);
	struct ten_shown shown = { .proof = p->proof };
	enum cred_refusal why;
	int rc;

	if (!img)
		return err_set(err, ERR_DENIED, "", "the tenant does not exist any more");
	if (p->cred_id) {
		shown.cred = map_get(t->creds, p->accessor, KEY_ACCESSOR_SIZE - 1);
		if (!shown.cred || shown.cred->id != p->cred_id || shown.cred->home != img)
			return err_set(err, ERR_DENIED, "", "the key does not exist any more");
	}
	rc = check_end(p->expires_us, p->authn == AUDIT_AUTHN_MTLS ? "certificate" : "token", err);
	return rc < 0 ? rc : ten_standing(img, standing_of(img, p), shown.cred ? &shown : NULL, &why, err);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

uint64_t principal_until(const struct tenants *t, const struct principal *p)
{
	const struct ten_cred *c = p->cred_id ? map_get(t->creds, p->accessor, KEY_ACCESSOR_SIZE - 1) : NULL;
	uint64_t until = p->expires_us;

	if (c)
		until = sooner(until, c->expires_us);
	if (c && p->proof != ten_proof(c->hash))
		until = sooner(until, c->old_until_us);
	return until;
}

int principal_named(struct tenants *t, const char *tenant, const char *name, int authn, struct principal **ret,
		    struct err *err)
{
	const struct tenant_image *img = map_get_z(t->by_name, tenant);
	const struct ten_principal *p;
	enum cred_refusal why;
	int rc;

	if (!img)
		return err_set(err, ERR_NOT_FOUND, "", "tenant %s: not found", tenant);
	if (!name)
		name = "default";
	p = ten_principal_named(img, name);
	if (!p)
		return err_set(err, ERR_NOT_FOUND, "", "principal %s/%s: not found", tenant, name);
	rc = ten_standing(img, p, NULL, &why, err);
	if (rc < 0)
		return rc;
	*ret = ten_principal_new(img, p);
	(*ret)->authn = authn;
	return 0;
}

/* --- principals of tokens */

/* By the pepper, so that who reads the store cannot try names. */
static void derive(const struct tenants *t, const struct tenant_image *img, const char *subject, struct ten_principal *ret)
{
	static const char label[] = "toolcrib/subject/1";
	uint8_t text[8 + PRINCIPAL_SUBJECT_MAX], hash[DIGEST_SIZE];
	size_t len = strlen(subject);
	int64_t id;

	memcpy(text, &img->tenant.id, 8);
	memcpy(text + 8, subject, len);
	digest_keyed(t->pepper->k, label, sizeof label, text, 8 + len, hash);
	memcpy(&id, hash, sizeof id);
	ret->id = -1 - (id & INT64_MAX);
	memcpy(ret->pseudonym, "prn_", 4);
	text_hex(hash + 8, 8, ret->pseudonym + 4);
	/* No principal is called like one that is cut. */
	(void)snprintf(ret->name, sizeof ret->name, len < sizeof ret->name ? "%s" : "%.50s~", subject);
}

int principal_from_claims(struct tenants *t, const struct principal_claims *claims, struct principal **ret, struct err *err)
{
	const struct tenant_image *img = map_get_z(t->by_name, claims->tenant);
	size_t len = strlen(claims->subject);
	struct ten_principal derived = rowless;
	const struct ten_principal *p;
	enum cred_refusal why;
	int rc;

	if (len == 0 || len > PRINCIPAL_SUBJECT_MAX || !text_utf8_valid(claims->subject, len))
		return err_set(err, ERR_INVALID, "sub", "a subject is a text of 1 to %d bytes", PRINCIPAL_SUBJECT_MAX);
	if (!img)
		return err_set(err, ERR_NOT_FOUND, "", "tenant %s: not found", claims->tenant);
	p = ten_principal_named(img, claims->subject);
	if (!p && claims->known_only)
		return err_set(err, ERR_NOT_FOUND, "", "the subject is no principal of tenant %s", claims->tenant);
	if (!p) {
		derive(t, img, claims->subject, &derived);
		p = &derived;
	}
	rc = check_end(claims->expires_us, "token", err);
	if (rc == 0)
		rc = ten_standing(img, p, NULL, &why, err);
	if (rc == 0 && p == &derived)
		rc = ten_subject_meet(t, img, p->id, err);
	if (rc < 0)
		return rc;
	*ret = ten_principal_new(img, p);
	(*ret)->authn = claims->authn;
	(*ret)->scopes = scopes_ref(claims->scopes);
	(*ret)->expires_us = claims->expires_us;
	return 0;
}
