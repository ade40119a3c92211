#ifndef TENANT_INT_H
#define TENANT_INT_H

#include "base/map.h"
#include "tenant/tenant.h"

struct map;

enum principal_state { PRINCIPAL_ACTIVE = 1, PRINCIPAL_SUSPENDED = 2 };

struct ten_principal {
	int64_t id;
	enum principal_state state;
	char name[64], pseudonym[32];
};

struct ten_cred {
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
	struct principal *who[2];               /* by the secret in force, by the old one: made at the first use, shared by all messages */
	uint64_t used_us;
	struct list dirty;                      /* in tenants.dirty while used_us is not stored */
};

struct ten_level { int level; };
struct ten_limits { int64_t scope, subject; struct tenant_limits set; };

/* One tenant's rows.  The arrays are sorted by id. */
struct tenant_image {
	struct tenant tenant;
	char name[64];
	char *title, *sandbox;
	struct ten_principal *principals; size_t nprincipals;
	struct ten_cred *creds; size_t ncreds;
	struct ten_limits *limits; size_t nlimits;      /* sorted by scope and subject */
	struct map *levels;                     /* full name of a tool -> struct ten_level; NULL when there are none */
};

struct ten_subjects;

struct tenants {
	struct map *by_id, *by_name;            /* struct tenant_image */
	struct map *creds;                      /* accessor -> struct ten_cred */
	struct map *subjects;                   /* tenant id -> struct ten_subjects */
	struct list dirty;                      /* struct ten_cred.dirty */
	struct key_pepper *pepper;              /* locked memory */
	struct cred_watch watch;
	uint8_t dummy[32];                      /* what the secret of an unknown key is compared with */
};

struct tenant_image *ten_find(const struct tenants *t, int64_t tenant_id);
const struct ten_principal *ten_principal(const struct tenant_image *img, int64_t principal_id);
const struct ten_principal *ten_principal_named(const struct tenant_image *img, const char *name);
/* proof: which secret of the key was shown; from: where, NULL = as it was when it was shown. */
struct ten_shown { const struct ten_cred *cred; uint64_t proof; const char *from; };
uint64_t ten_proof(const uint8_t hash[32]);
/* May this tenant, principal and key (shown NULL = none needed) be served now? */
int ten_standing(const struct tenant_image *img, const struct ten_principal *p, const struct ten_shown *shown,
		 enum cred_refusal *ret_why, struct err *err) MUST_CHECK;
struct principal *ten_principal_new(const struct tenant_image *img, const struct ten_principal *p);

/* subject.c */
/* A subject of a token without a row comes.  ERR_BUSY with retry_ms: the tenant has too many, and this one is new. */
int ten_subject_meet(struct tenants *t, const struct tenant_image *img, int64_t id, struct err *err) MUST_CHECK;
void ten_subjects_free(struct ten_subjects **s);

int ten_load_all(struct tenants *t, struct db *db, struct err *err) MUST_CHECK;

#endif
