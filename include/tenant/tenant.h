#ifndef TENANT_TENANT_H
#define TENANT_TENANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"

/* Tenants, principals and keys in memory, and the one check of credentials for all transports (SEC S-305,
 * S-306).  Loop thread; the *_load functions run on any thread with its own connection and make plain
 * memory that is handed over once. */

struct arg_rules;
struct db;
struct scopes;
struct tenants;

enum tenant_state { TENANT_ACTIVE = 1, TENANT_SUSPENDED = 2, TENANT_REMOVED = 3 };
#define TENANT_CONCURRENCY_DEFAULT 256
#define TENANTS_MAX 100000
#define TENANT_PRINCIPALS_MAX 10000     /* rows; they stay for the records that name them */
#define TENANT_SUBJECTS_MAX 10000       /* of tokens, without a row; who came within TENANT_SUBJECT_REST_US stays */
#define TENANT_SUBJECT_REST_US 86400000000ull
#define TENANT_KEYS_MAX 10000           /* that are not revoked */
#define TENANT_GRANTS_MAX 10000
#define TENANT_REVOKED_MAX 1000         /* that are told so; others are unknown keys */

struct tenant {                         /* read by callers; written by tenants_apply() only */
	int64_t id;
	const char *name, *title;
	enum tenant_state state;
	uint32_t concurrency;           /* never 0: default filled in */
	struct text_rate rate;          /* count 0 = no limit */
	const char *sandbox;            /* the level that its processes must reach (sandbox/level.h); "" = nothing more */
	int audit_level;                /* enum audit_level, -1 = as the server says */
};

/* Limits of one tenant, principal, key, or tool of a tenant; 0 and count 0: none of its own.  A tenant's
 * concurrency and rate stand in struct tenant. */
enum tenant_scope { TENANT_SCOPE_TENANT = 1, TENANT_SCOPE_PRINCIPAL, TENANT_SCOPE_KEY, TENANT_SCOPE_TOOL };
struct tenant_limits {
	uint32_t concurrency, queue;
	struct text_rate rate, requests;
	uint64_t calls_day, bytes_day;
};

/* From the columns concurrency to bytes_day of limit_row, the first of which is col; NULL is 0. */
struct db_stmt;
void tenant_limits_read(struct db_stmt *st, unsigned col, struct tenant_limits *ret);

/* Who sends a message: counted, immutable; the state behind it is asked for every message. */
struct principal {
	unsigned refs;                  /* loop thread */
	int64_t tenant_id, principal_id, cred_id;      /* cred_id 0 = no key (bound listener, peer uid) */
	char tenant[64], name[64], pseudonym[32], accessor[16], system[64];     /* system: which it is, "": of none */
	int authn;                      /* enum audit_authn */
	struct scopes *scopes;          /* counted; NULL: not limited (tenant/scope.h) */
	struct arg_rules *rules;        /* counted; NULL: any arguments (tenant/arg_rule.h) */
	uint64_t expires_us;            /* of a token or certificate: it ends by itself; 0 = never, or as the key's row says */
	uint64_t proof;                 /* of a key: which of its secrets was shown, a part of its hash */
};
void principal_ref(struct principal *p);
void principal_unref(struct principal **p);

/* master: the 32 bytes of the store's master key; copied (derived). */
int tenants_open(const uint8_t master[32], struct db *db, struct tenants **ret, struct err *err) MUST_CHECK;
void tenants_close(struct tenants **t);

/* Where a credential comes from: an address ("127.0.0.1"), "unix" or "stdio", and enum audit_tport. */
struct cred_source { const char *from; int tport; };
/* A bearer text "tck_…" from a header, credential line or environment.  Unknown, wrong and malformed are one
 * ERR_DENIED in one time class; only a proved secret learns that it is expired, revoked, suspended or not for this
 * place (err->msg).  Failures are counted (metrics) and told to the watcher. */
int cred_check(struct tenants *t, const char *bearer, size_t len, const struct cred_source *source,
	       struct principal **ret, struct err *err) MUST_CHECK;
/* Why nobody passed: what a record says of it (AUDIT 1101); the peer learns less. */
#define CRED_REFUSALS(X) \
	X(MISSING, "missing") X(LATE, "late") X(MALFORMED, "malformed") X(UNKNOWN, "unknown") X(WRONG, "wrong") \
	X(REVOKED, "revoked") X(EXPIRED, "expired") X(SUSPENDED, "suspended") X(EARLY, "early") X(AUDIENCE, "audience") \
	X(UNMAPPED, "unmapped") X(UNAVAILABLE, "unavailable") X(INACTIVE, "inactive") X(ROTATED, "rotated") \
	X(ENROLMENT, "enrolment") X(ADDRESS, "address") X(FULL, "full")
enum cred_refusal {
#define CRED_REFUSAL_ENUM(sym, name) CRED_##sym,
	CRED_REFUSALS(CRED_REFUSAL_ENUM)
#undef CRED_REFUSAL_ENUM
	CRED_REFUSAL_COUNT
};
const char *cred_refusal_name(enum cred_refusal why);
/* The same for what never came to a check: no credential, or not in time. */
void cred_refused(struct tenants *t, const struct cred_source *source, enum cred_refusal why);
/* Who is told, during the check: refused() with the tenant and accessor when the key is one of ours, else 0 and NULL;
 * used_first() when a key is used for the first time. */
struct cred_watch {
	void (*refused)(void *arg, const struct cred_source *source, enum cred_refusal why, int64_t tenant_id,
			const char *accessor);
	void (*used_first)(void *arg, const struct cred_source *source, const struct principal *who);
	void *arg;
};
void tenants_watch(struct tenants *t, const struct cred_watch *watch);  /* copied; NULL: nobody any more */
/* Still valid now?  Asked for each message on long-lived connections.  ERR_DENIED with the reason. */
int principal_check(const struct tenants *t, const struct principal *p, struct err *err) MUST_CHECK;
/* When time alone ends that: the credential's own end, or that of the secret which was shown.  Wall clock; 0 =
 * never. */
uint64_t principal_until(const struct tenants *t, const struct principal *p);
/* A principal without a key: a listener bound to a tenant, a mapped peer uid, the CLI's `call`.  name NULL =
 * the tenant's principal "default".  ERR_NOT_FOUND, ERR_DENIED (suspended). */
int principal_named(struct tenants *t, const char *tenant, const char *name, int authn, struct principal **ret,
		    struct err *err) MUST_CHECK;
/* Somebody whose call goes on by itself, who shows nothing now: names, scopes and rules are those of then, standing is
 * that of now, and a token has no end.  accessor: of the key that was shown, or "".  Takes scopes and rules, also when
 * it fails.  ERR_DENIED: they would be refused now, or cannot be found. */
struct principal_again {
	int64_t tenant_id, principal_id;
	const char *name, *accessor;
	struct scopes *scopes;
	struct arg_rules *rules;
	int authn;
};
int principal_again(struct tenants *t, const struct principal_again *was, struct principal **ret,
		    struct err *err) MUST_CHECK;
/* A principal from a token that was verified.  A row of this name, if there is one, speaks for it: its pseudonym, its
 * suspension.  Without a row, id (negative) and pseudonym are derived from tenant and subject. */
struct principal_claims {
	const char *tenant, *subject;   /* names; a subject may be any text of at most PRINCIPAL_SUBJECT_MAX bytes */
	struct scopes *scopes;          /* counted; NULL would not be limited: pass an empty set for no right at all */
	uint64_t expires_us;            /* wall clock; not 0 */
	int authn;                      /* enum audit_authn */
	bool known_only;                /* a subject without a row is refused */
};
#define PRINCIPAL_SUBJECT_MAX 255
/* ERR_NOT_FOUND: no such tenant, or principal with known_only; ERR_INVALID: the subject; ERR_DENIED: suspended,
 * expired; ERR_BUSY with retry_ms: a new subject without a row, and the tenant has TENANT_SUBJECTS_MAX of them.
 * Does not count, tell or record a refusal: cred_refused() does. */
int principal_from_claims(struct tenants *t, const struct principal_claims *claims, struct principal **ret,
			  struct err *err) MUST_CHECK;
/* Borrowed until the next tenants_apply(). */
const struct tenant *tenant_by_id(const struct tenants *t, int64_t id);      /* or NULL */
const struct tenant *tenant_by_name(const struct tenants *t, const char *name, size_t len);
/* What the tenant says for one tool by its full name (enum audit_level), or -1. */
int tenant_tool_level(const struct tenants *t, int64_t tenant_id, const char *tool);
/* subject: 0 of a tenant, else the id of the principal, key or tool.  NULL: none.  Borrowed as above. */
const struct tenant_limits *tenant_limits(const struct tenants *t, int64_t tenant_id, enum tenant_scope scope,
					  int64_t subject);
/* Ids by names, whether they are valid or not; 0: there is none.  A key says its tenant and principal too. */
int64_t tenant_principal_id(const struct tenants *t, int64_t tenant_id, const char *name);
int64_t tenant_key_id(const struct tenants *t, const char *accessor, int64_t *ret_tenant_id, int64_t *ret_principal_id);
size_t tenants_count(const struct tenants *t);
/* How many texts of keys are known to be right (SP-121). */
FOR_TESTS size_t tenants_remembered(const struct tenants *t);
typedef void tenant_each_fn(void *arg, const struct tenant *tenant);
void tenants_each(const struct tenants *t, tenant_each_fn *fn, void *arg);

/* One tenant's rows as plain memory: read on the writer thread right after a change, in its transaction;
 * applied on the loop after the COMMIT.  apply takes it. */
struct tenant_image;
int tenant_image_load(struct db *db, int64_t tenant_id, struct tenant_image **ret, struct err *err) MUST_CHECK;
int64_t tenant_image_id(const struct tenant_image *img);        /* of the tenant */
void tenant_image_free(struct tenant_image **img);
void tenants_apply(struct tenants *t, struct tenant_image **img);

/* When keys were last used: kept in memory, written each minute and at stop (SEC S-313).  dirty hands out
 * the keys used since they were last handed out, at most max of them, and returns how many; call again while it
 * returns max.  used_write is the body of the job that stores them: any key of another tenant is left alone. */
struct tenant_used { int64_t tenant_id, cred_id; uint64_t used_us; };
#define TENANT_USED_FLUSH_MS 60000
size_t tenants_dirty(struct tenants *t, struct tenant_used *ret, size_t max);
int tenant_used_write(struct db *db, const struct tenant_used *used, size_t n, struct err *err) MUST_CHECK;

/* Keys whose life is over get a record each (AUDIT 1204), within a minute: find, on any connection, says whether
 * there is one; write is the body of the job that records at most TENANT_EXPIRED_MAX of them. */
#define TENANT_EXPIRED_MAX 64
struct audit_logs;
int tenant_expired_find(struct db *db, bool *ret, struct err *err) MUST_CHECK;
int tenant_expired_write(struct db *db, struct audit_logs *logs, bool *ret_more, struct err *err) MUST_CHECK;
/* How many keys that can be used will have expired within a day, a week, two weeks. */
#define TENANT_EXPIRING 3
int tenant_expiring_count(struct db *db, uint64_t ret[TENANT_EXPIRING], struct err *err) MUST_CHECK;

/* A key's text, shown once (SEC S-301): tck_ 12 base62 _ 43 base62 6 base62. */
#define KEY_TEXT_SIZE 67
#define KEY_ACCESSOR_SIZE 13
struct key_new {
	char text[KEY_TEXT_SIZE];       /* wipe after it was shown */
	char accessor[KEY_ACCESSOR_SIZE];
	uint8_t hash[32];
};
struct key_pepper { uint8_t k[32]; };
void key_pepper_derive(const uint8_t master[32], struct key_pepper *ret);
void key_make(const struct key_pepper *pepper, struct key_new *ret);
/* A new secret for the key with this accessor (SEC S-310). */
void key_remake(const struct key_pepper *pepper, const char *accessor, struct key_new *ret);
/* Shape and CRC only.  0 or ERR_INVALID; accessor (12 characters) and secret (43) point into text. */
int key_parse(const char *text, size_t len, const char **ret_accessor, const char **ret_secret) MUST_CHECK;
/* What is stored (SEC S-304) of a secret that key_parse() let through. */
void key_hash(const struct key_pepper *pepper, const char *secret, uint8_t ret[32]);

#endif
