#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* toolcribd.yaml -> struct conf.  Unknown keys are refused; errors carry file:line:column.  One row of conf.def per
 * key: member, check, sample and man page come from it. */

struct str;

enum conf_transport { CONF_HTTP, CONF_TCP, CONF_UNIX };
#define CONF_LISTENERS_MAX 32
#define CONF_ARCHIVE_MAX 400             /* bytes of audit.archive */
#define CONF_CONSOLE_URL_MAX 200        /* bytes of console.url */
#define CONF_UIDS_MAX 64
#define CONF_NAMES_MAX 64                /* origins, hosts, proxies */
#define CONF_CONNECTIONS_DEFAULT 4096
#define CONF_ADDRESS_DEFAULT "127.0.0.1:8808"

struct conf_uid { uint32_t uid; char *tenant, *principal; };    /* peer uid -> principal (MCP B-28) */
/* What a client's certificate says (SEC S-118) -> principal. */
enum conf_client_by { CONF_BY_URI, CONF_BY_DNS, CONF_BY_SPKI };
struct conf_client { enum conf_client_by by; char *value, *tenant, *principal; };
#define CONF_CLIENTS_MAX 256
struct conf_tls {
	char *cert, *key;
	char *client_ca;                /* NULL: clients are not asked for certificates */
	char *client_crl;               /* NULL: none of those is revoked */
	bool client_required, only_1_3;
	struct conf_client *clients; size_t nclients;   /* none: a certificate opens the door, a key says who it is */
};
struct conf_listener {
	enum conf_transport transport;
	char *address;                  /* "127.0.0.1:8808", "[::1]:0", or a socket path */
	char *tenant, *principal;       /* bound to one tenant: loopback or Unix socket only; NULL = credentials */
	struct conf_uid uids[CONF_UIDS_MAX]; size_t nuids;      /* unix */
	bool insecure;                  /* "a proxy in front ends TLS": allows a non-loopback address */
	char **origins; size_t norigins;        /* http: further allowed Origin values */
	char **hosts; size_t nhosts;            /* http: further allowed Host values */
	bool get_opens_sse;             /* http: a GET of the MCP path without a session is GET /sse (MCP B-25) */
	char **proxies; size_t nproxies;        /* http, tcp: addresses or blocks of reverse proxies (SEC S-107) */
	bool forwarded;                 /* http: they tell the client's address by Forwarded, not by X-Forwarded-For */
	uint32_t head_ms, body_ms, idle_ms, credential_ms, stall_ms, late_ms;    /* deadlines; 0 = as usual (SEC S-116) */
	uint32_t connections_max;
	struct conf_tls *tls;           /* http, tcp; NULL = plain.  What it points to changes with conf_reload() */
	/* not from a file: the server's own door for --stdio, which behaves as stdio does */
	bool relay;
};
/* Who may give commands beside the owner of the store. */
enum conf_role_kind { CONF_ADMIN, CONF_OPERATOR, CONF_AUDITOR, CONF_TENANT_AUDITOR, CONF_TENANT_ADMIN, CONF_APPROVER,
	CONF_SECOND, CONF_ROLE_COUNT };
#define CONF_KEY_NAME_MAX 32            /* bytes of an administrator's name */
struct conf_role {
	enum conf_role_kind kind;
	bool by_group;                  /* all who are in group id, else the user id */
	uint32_t id;
	/* an administrator elsewhere: SHA-256 of the key in hex, and what records say; else NULL */
	char *key, *name;
	char *person;                   /* whose user id or key it is, where that is said; else NULL */
	char *tenant;                   /* of a tenant-auditor and a tenant-admin, perhaps of an approver; else NULL */
	char **groups; size_t ngroups;  /* of an approver: what rules of approvals name him by */
	char *principal;                /* TENANT/NAME: as which the same person calls tools (HA-04); else NULL */
	char **callers; size_t ncallers;        /* likewise, as which listeners know the user id */
};
#define CONF_ROLES_MAX 256
#define CONF_ROLE_GROUPS_MAX 32
const char *conf_role_name(enum conf_role_kind kind);   /* as in the file */
/* Whose tokens are accepted on HTTP, and what their claims mean here. */
#define CONF_ISSUERS_MAX 32
#define CONF_CLAIMED_MAX 1000           /* values of one claim */
#define CONF_WORDS_MAX 64               /* words of scopes of one issuer */
#define CONF_WORD_SCOPES_MAX 32
#define CONF_ISSUER_ALLOW_MAX 16
struct conf_claimed { char *value, *name; };
struct conf_claim {                     /* one of fixed and claim; both NULL = the default */
	char *fixed, *claim;
	struct conf_claimed *values; size_t nvalues;    /* none: the claim's value is the name */
};
struct conf_word { char *word; char **scopes; size_t nscopes; };
struct conf_issuer {
	char *issuer;                   /* as `iss` has it, byte by byte */
	char *jwks_file, *jwks_uri;     /* one of these, or the next */
	char *ask_uri, *ask_client, *ask_secret, *ask_secret_file;      /* introspection; secret: its name */
	char *allow[CONF_ISSUER_ALLOW_MAX]; size_t nallow;      /* as in a tool's allow.hosts */
	char *ca_file;
	struct conf_claim tenant, principal;
	struct conf_word *words; size_t nwords;
};
/* Where copies of records go (operate.md section 6); sink/sink.h says what is done with it. */
#define CONF_SINKS_MAX 16
#define CONF_SINK_NAME_MAX 32           /* bytes */
#define CONF_SINK_KINDS_MAX 64
#define CONF_SINK_TENANTS_MAX 1000
#define CONF_SINK_REQUIRED_MS_MIN 5000
#define CONF_SINK_REQUIRED_MS_MAX (UINT64_C(2592000) * 1000)
#define CONF_SINK_RESEND_MS_MIN 1000
#define CONF_SINK_RESEND_MS_MAX 600000
enum conf_sink_type {
	CONF_SINK_FILE, CONF_SINK_WEBHOOK, CONF_SINK_SYSLOG, CONF_SINK_HEC, CONF_SINK_OTLP, CONF_SINK_S3,
	CONF_SINK_TYPES
};
enum conf_sink_format { CONF_SINK_JSONL, CONF_SINK_OCSF, CONF_SINK_CEF };
struct conf_sink {
	char *name, *text;              /* text: the whole of it as JSON, canonical */
	enum conf_sink_type type;
	enum conf_sink_format format;
	char **kinds; size_t nkinds;    /* names with * and ?; none: all */
	char **tenants; size_t ntenants;        /* none: all */
	bool system;                    /* the system log, too */
	bool clear;                     /* names of people, where somebody knows them; else pseudonyms alone */
	uint64_t required_ms;           /* calls are refused when what waits for it is older; 0: they are not */
	bool from_now;                  /* a new one begins with the next record, not with the first that there is */
	/* file */
	char *path;
	uint64_t rotate_bytes;          /* 0: never */
	uint32_t rotate_keep;
	/* webhook, hec, otlp */
	char *url, *ca, *secret_file;   /* ca: NULL = the system's authorities; otlp: secret_file NULL = nothing is said */
	bool ack;                       /* hec: what was taken is asked for until it is indexed */
	/* s3; url, ca, and secret_file, which has the id of a key and its secret */
	char *region;
	uint32_t lock_days;             /* objects cannot be deleted for so long; 0: they are not locked */
	bool lock_governance;           /* but by who may break it; else by nobody */
	uint32_t segment_records;       /* of an object at most; as many make one */
	uint64_t segment_bytes, segment_ms;     /* likewise; what waits makes one after so long */
	/* syslog, and ca */
	char *address, *cert, *key;     /* cert, key: NULL = nothing is shown */
	bool clear_text;                /* without TLS */
	uint64_t resend_ms;             /* what is younger goes again when the connection breaks */
	uint32_t pen;                   /* of the structured data's name */
};
const char *conf_sink_type_name(enum conf_sink_type type);      /* as in the file */
/* Who hears of alerts beside the log of the server (OP-604); alert/ways.h says what is done with it. */
#define CONF_ALERTS_MAX 8
#define CONF_ALERT_TO_MAX 16
enum conf_alert_type { CONF_ALERT_WEBHOOK, CONF_ALERT_ALERTMANAGER, CONF_ALERT_MAIL, CONF_ALERT_TYPES };
struct conf_alert {
	char *name;                     /* at most CONF_SINK_NAME_MAX bytes */
	enum conf_alert_type type;
	unsigned severity;              /* the least that it hears of: 0 info, 1 warn, 2 page */
	uint32_t repeat_s;              /* what goes on is said again */
	char **tenants; size_t ntenants;        /* none: all */
	bool system;                    /* what is no tenant's, too */
	char *url, *ca;                 /* ca: NULL = the system's authorities */
	char *secret_file, *authorization_file;         /* of a webhook, of an Alertmanager; NULL: none */
	/* mail, and ca */
	char *server, *from, *user, *password_file;     /* user and password_file: NULL = neither */
	unsigned tls;                   /* 0 starttls, 1 from the first byte, 2 none */
	char **to; size_t nto;
};
const char *conf_alert_type_name(enum conf_alert_type type);    /* as in the file */
/* Who decides about calls beside us (PD-01 to PD-08); pdp/pdp.h says how it is asked. */
#define CONF_PDPS_MAX 16
#define CONF_PDP_NAME_MAX 24            /* bytes: "pdp/NAME/unreachable" is a rule in records */
#define CONF_PDP_TENANTS_MAX 1000
#define CONF_PDP_SOCKET_MAX 100         /* of a socket's path */
/* What it is told of a call's arguments. */
enum conf_pdp_arguments { CONF_PDP_DIGEST, CONF_PDP_CHOSEN, CONF_PDP_ALL };
struct conf_pdp {
	char *name;
	char *url, *socket;             /* one of these */
	char *path; bool has_path;      /* of the evaluation; has_path: the file says it */
	char *ca;                       /* NULL = the system's authorities */
	char *secret;                   /* the name of a secret of the store, its bearer token, or NULL */
	char *cert, *key;               /* files, or NULL */
	uint64_t timeout_ms, cache_ms;  /* cache_ms: the longest that an answer is used again, 0 = never */
	char **tenants; size_t ntenants;        /* none: all */
	enum conf_pdp_arguments arguments;
	char *reason;                   /* where its answer says why, for the caller: a pointer, or NULL */
};
struct conf {
	char *file;                     /* where it came from, or NULL = built-in defaults */
	uint8_t digest[32];             /* SHA-256 of the file as it was read last; zeros without one */
#define CONF_UINT(member, key, unit, min, max, def, reload, help) uint32_t member;
#define CONF_TEXT(member, key, choices, def, reload, help) char *member;
#include "conf/conf.def"
#undef CONF_UINT
#undef CONF_TEXT
	struct conf_listener *listeners; size_t nlisteners;
	struct conf_role *roles; size_t nroles;
	struct conf_issuer *issuers; size_t nissuers;
	char *issuers_text;             /* the same, to be compared */
	struct conf_sink *sinks; size_t nsinks;
	struct conf_alert *alerts; size_t nalerts;
	struct conf_pdp *pdps; size_t npdps;
	json_t *lists;                  /* listeners, roles, oauth.issuers, sinks, alerts, pdp as written: key -> array */
	char **places;                  /* "file:line:column" of each key of conf.def that the file has, or NULL */
};

/* file NULL: the first that exists of SYSCONFDIR/toolcrib/toolcribd.yaml, $XDG_CONFIG_HOME/toolcrib/toolcribd.yaml
 * (~/.config), else built-in defaults: HTTP on 127.0.0.1:8808.  ERR_INVALID with where = file:line:column. */
int conf_load(const char *file, struct conf **ret, struct err *err) MUST_CHECK;
void conf_free(struct conf **c);
/* SHA-256 of the file's text as it is now: of one that does not load.  ERR_UNREACHABLE, ERR_LIMIT. */
int conf_digest(const char *file, uint8_t ret[32], struct err *err) MUST_CHECK;
/* Do c and next have the same listeners, whatever stands under tls? */
bool conf_same_doors(const struct conf *c, const struct conf *next);
/* What differs, in the order of conf.def and then of the lists: the key, "listeners[0].idle_ms" in a list; both values
 * as text, NULL = there is none; whether it takes a restart.  No value is a secret: the file names those. */
struct conf_change { const char *key, *before, *after; bool restart; };
typedef void conf_change_fn(void *arg, const struct conf_change *change);
void conf_changes(const struct conf *c, const struct conf *next, conf_change_fn *fn, void *arg);
/* Take over into c what takes effect at once: LIVE values of next, its roles and, with the same doors, what stands
 * under tls. */
void conf_reload(struct conf *c, struct conf *next);
/* "file:line:column" of a key of conf.def; of one that the file has not, the file, or "". */
const char *conf_where(const struct conf *c, const char *key);
/* What no tool may see: the store, the file, and what it names as secret; absolute, NULL-terminated.  c: NULL = there
 * is none. */
char **conf_hidden(const struct conf *c, const char *store);
/* What it names to be read by the server itself; likewise. */
char **conf_read_files(const struct conf *c);
void conf_hidden_free(char ***list);
/* The sample file, every key with its help, unit and default commented out: etc/toolcribd.yaml is this text. */
void conf_sample(struct str *out);

#endif
