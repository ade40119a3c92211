#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "base/err.h"
#include "base/metric.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a server tells those who keep it running: metrics and health, over HTTP on a listener of its own (OP-101 to
 * OP-106).  It reads what is counted anyway and holds up nobody: texts are made on a lane of the pool that nobody else
 * uses.  No argument, result, key, principal or address is in any answer (OP-003), and no tenant in those about
 * health.  Loop thread. */

#define OPS_CONNECTIONS_MAX 16
#define OPS_HEAD_MAX 8192               /* bytes of a request's head */
#define OPS_BODY_MAX 0
#define OPS_REQUEST_MS 5000             /* a whole request, and the first of a connection */
#define OPS_IDLE_MS 60000               /* between two requests */
#define OPS_TEXT_MAX (64u << 20)        /* bytes of a text of metrics */
#define OPS_METHODS_MAX 64              /* of MCP, that have a slot */
#define OPS_UPSTREAMS_MAX 500           /* upstreams that have a slot, and are told to be up or down each by itself */
#define OPS_ALERTS_MAX 128              /* rules of alerts, by severity */
#define OPS_TENANTS_AT_ONCE 1000        /* in a turn of the loop, whose quotas are looked at for a text */
#define OPS_TOKEN_MIN 16                /* bytes of the token */
#define OPS_TOKEN_MAX 512

struct conf;
struct ev_loop;
struct gate;
struct ops;
struct str;
struct writer;

/* Descriptors by which the process is looked at: opened before the server gives up opening files (HARDENING 1.3).  -1:
 * there is none, and what it would say is left out. */
struct ops_process { int statm, fds; };
void ops_process_open(struct ops_process *ret);
void ops_process_close(struct ops_process *p);
uint64_t ops_process_resident(const struct ops_process *p);     /* bytes; 0: nobody knows */

/* From here on tenants, tools, methods and upstreams have counts of their own, as many as conf says. */
void ops_count_names(const struct conf *conf);

/* Of which a tenant has so much in a day: calls, bytes of arguments and results, bytes of records. */
enum ops_quota { OPS_QUOTA_CALLS, OPS_QUOTA_BYTES, OPS_QUOTA_AUDIT, OPS_QUOTAS };
typedef void ops_upstream_fn(void *arg, const char *name, bool up);
typedef void ops_alert_fn(void *arg, const char *rule, const char *severity, unsigned n);

struct ops_env {                        /* copied; what it names is borrowed for life */
	struct ev_loop *loop;
	struct gate *gate;              /* NULL: everybody may connect */
	const struct writer *writer;    /* NULL: it refuses nothing */
	bool (*draining)(void *arg);
	/* What part of each quota of today a tenant has used; left alone where it has none.  NULL: nobody knows. */
	void (*quotas)(void *arg, const char *tenant, double ret[OPS_QUOTAS]);
	/* fn of each upstream that is in use.  NULL: nobody knows. */
	void (*upstreams)(void *arg, ops_upstream_fn *fn, void *fn_arg);
	/* fn of each rule of alerts, by severity: how many are open; names are static text.  NULL: there are none. */
	void (*alerts)(void *arg, ops_alert_fn *fn, void *fn_arg);
	/* Families of metrics that a room above tells itself, as metric_head() begins them.  NULL: none does. */
	void (*more)(void *arg, enum metric_format format, struct str *ret);
	void *arg;
	const char *store;              /* its folder; NULL: there is none */
	const char *const *files;       /* those in it whose sizes are told; NULL ends them */
	const char *version, *engine;   /* of the server, and of its SQLite */
	uint64_t started_us;            /* wall clock */
	struct ops_process process;     /* taken, unless ops_open() fails */
};

/* What a start and a reload read: certificate, key and token of the configuration. */
struct ops_files;
/* late: as in struct tls_opt, what time alone made bad.  ERR_INVALID and those of tls_server_new() and path_read_as();
 * where = the file, and the message names the key. */
int ops_files_load(const struct conf *conf, struct ops_files **ret, struct err *late, struct err *err) MUST_CHECK;
uint64_t ops_files_expires_us(const struct ops_files *f);        /* of its certificate; wall clock; 0: it has none */
void ops_files_free(struct ops_files **f);

/* Listen at metrics.listen of conf, which has one.  A certificate whose time is over is said in the log, and nobody is
 * let in until ops_renew().  As ops_files_load(), listen_tcp() and listen_unix(). */
int ops_open(const struct ops_env *env, const struct conf *conf, struct ops **ret, struct err *err) MUST_CHECK;
/* From the next connection, and request, on; *next is taken. */
void ops_renew(struct ops *o, struct ops_files **next);
void ops_close(struct ops **o);         /* its connections end */
const char *ops_address(const struct ops *o);           /* as bound */
uint64_t ops_expires_us(const struct ops *o);           /* of its certificate; wall clock; 0: it has none */
const struct ops_process *ops_process(const struct ops *o);
const char *ops_shut(const struct ops *o);              /* why nobody is let in; NULL: they are */

#endif
