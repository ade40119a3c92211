#ifndef TENANT_INT_H
#define TENANT_INT_H

#include "base/map.h"
#include "tenant/tenant.h"
#include "tenant/tenant_rows.h"

struct map;

enum principal_state { PRINCIPAL_ACTIVE = 1, PRINCIPAL_SUSPENDED = 2 };

struct tenant_principal {
	int64_t id;
	enum principal_state state;
	char name[64], pseudonym[32], system[64];
};

struct tenant_cred {
	int64_t id, principal_id;
	char accessor[KEY_ACCESSOR_SIZE];
	uint8_t hash[32], old_hash[32];         /* old: all zero when there is none */
	uint64_t expires_us, revoked_us;        /* 0 = never */
	uint64_t not_before_us, old_until_us;   /* likewise 0 = always; there is no old secret */
	bool suspended;
	bool enrols;                            /* it makes one key and calls nothing */
	struct scopes *scopes;
	struct cidrs *cidrs;
	struct arg_rules *rules;
	bool used;                              /* once, as the store knows */
	/* Loop thread only: */
	struct tenant_image *home;
	/* by the secret in force, by the old one: made at the first use, shared by all messages */
	struct principal *who[2];
	uint64_t used_us;
	struct list dirty;                      /* in tenants.dirty while used_us is not stored */
};

struct tenant_level { int level; };
struct tenant_limit_row { int64_t scope, subject; struct tenant_limits set; };

/* One tenant's rows.  The arrays are sorted by id. */
struct tenant_image {
	struct tenant tenant;
	char name[64];
	struct tenant_row row;
	struct tenant_principal *principals; size_t nprincipals;
	struct tenant_cred *creds; size_t ncreds;
	struct tenant_limit_row *limits; size_t nlimits;      /* sorted by scope and subject */
	/* full name of a tool -> struct tenant_level; NULL when there are none */
	struct map *levels;
};

struct tenant_subjects;

struct tenants {
	struct map *by_id, *by_name;            /* struct tenant_image */
	struct map *creds;                      /* accessor -> struct tenant_cred */
	struct map *subjects;                   /* tenant id -> struct tenant_subjects */
	struct list dirty;                      /* struct tenant_cred.dirty */
	struct key_pepper *pepper;              /* locked memory */
	struct cred_memo *memo;                 /* goes with the pepper */
	struct cred_watch watch;
	uint8_t dummy[32];                      /* what the secret of an unknown key is compared with */
};

const struct tenant_principal *tenant_principal(const struct tenant_image *img, int64_t principal_id);
/* proof: which secret of the key was shown; from: where, NULL = as it was when it was shown. */
struct tenant_shown { const struct tenant_cred *cred; uint64_t proof; const char *from; };
uint64_t tenant_proof(const uint8_t hash[32]);
/* May this tenant, principal and key (shown NULL = none needed) be served now? */
int tenant_standing(const struct tenant_image *img, const struct tenant_principal *p, const struct tenant_shown *shown,
		 enum cred_refusal *ret_why, struct err *err) MUST_CHECK;
struct cred_memo *cred_memo_new(void);
void cred_memo_free(struct cred_memo **m);
struct principal *tenant_principal_new(const struct tenant_image *img, const struct tenant_principal *p);

#endif
