#ifndef APP_INT_H
#define APP_INT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/app.h"
#include "audit/recover.h"
#include "command/command.h"
#include "base/clock.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ops/ops.h"
#include "review/daily.h"
#include "review/reports.h"
#include "sandbox/sandbox.h"
#include "transport/transport.h"

struct alerts; struct assents; struct command_socket; struct app_auth; struct app_elders; struct app_handover;
struct app_linger; struct exec_workers; struct call_engine; struct db; struct ev_signal; struct ev_timer;
struct fetcher; struct gate; struct given; struct limiter; struct mcp_server; struct notary; struct oauth;
struct otel; struct otel_setup; struct registry; struct reply; struct pdps; struct sinks; struct tasks;
struct tenants; struct tls_server; struct upstreams; struct vault; struct visits; struct console;
struct worker_pool; struct writer;

#define APP_WRITER_CLOSE_MS 10000       /* how long the last commit may take */
enum app_phase { APP_RUNNING, APP_DRAINING, APP_CANCELLING, APP_ENDED };
#define APP_SIGNALS 3
#define APP_ROOM_HOURS 24               /* of which the pace is told at which the disk fills up */

struct app {
	struct app_opt opt;
	char *store;                    /* absolute */
	size_t started;                 /* rows of the table whose start() succeeded */
	uint64_t started_us;
	struct sandbox sandbox;           /* of all tools */
	char **hide;                    /* its lists and texts */
	char *scratch, *cgroup;
	char *sandbox_levels;           /* both levels, for people */
	char *users;                    /* of tools: which, or why none, for people */
	unsigned landlock;              /* the ABI whose rules bind the server; 0 = none */
	char *confined;                 /* how far the server itself is, for people; NULL = not yet */
	struct ev_loop *loop;
	uint8_t *master;                /* locked memory */
	int audit_level, stored_level;  /* enum audit_level: the server's default; as the store has it, -1 = not yet */
	struct notary *notary;
	struct writer *writer; struct db *reader;       /* reader: of what starts, then of commands (decision 0156) */
	struct tenants *tenants;
	struct app_auth *auth;
	struct vault *vault;
	struct registry *registry;
	struct limiter *limiter;
	struct upstreams *upstreams;
	struct fetcher *fetcher; struct pdps *pdps;     /* pdps: who decides about calls beside us, or NULL */
	struct otel *otel;              /* where spans go; NULL: nowhere */
	struct ship_server *ship;       /* copies the store elsewhere; NULL: nobody does */
	struct sinks *sinks;            /* where copies of records go; NULL: no server */
	struct oauth *oauth;            /* access tokens; NULL: there are none */
	struct exec_workers *workers;
	struct worker_pool *pool;
	struct tasks *tasks; struct assents *assents; struct call_engine *calls;        /* the first two NULL: no server */
	struct mcp_server *mcp;
	struct commands *admin;
	struct reports *reports; struct daily *daily;   /* the latter of a daemon, or NULL */
	struct reports *paged;          /* for browsers; NULL without console.listen */
	struct visits *visits; struct console *console;         /* console: NULL without console.listen */
	struct jobs *jobs;
	struct command_socket *command_socket, *public_sock;    /* public: NULL without admin.socket */
	struct command_socket *remote_sock; /* NULL without admin.listen */
	char remote_shut[500];          /* why it is NULL all the same; "" = it is not */
	struct tls_server *admin_tls;   /* its certificate */
	struct ops *ops;                /* metrics and health; NULL without metrics.listen */
	struct ops_process process;     /* for it, until it is there */
	struct alerts *alerts;
	struct app_alerts {
		struct ev_timer *timer;
		struct alert_reader *reader;
		uint64_t refusing_us;   /* since when calls are refused, monotonic; 0 = they are not */
		uint64_t quota_due_us;
		uint64_t room[APP_ROOM_HOURS];  /* free bytes of the disk, each hour, in turn */
		uint64_t nroom, room_due_us;    /* how many times; monotonic */
	} look;
	struct gate *gate;              /* who may connect; NULL on stdio */
	struct {
		int step, told;         /* enum limit_step: as it is, as the listeners know it */
		bool due;               /* they will be told in this turn */
	} pressure;
	struct given *given;            /* sockets that the service manager has opened; NULL: none */
	struct app_handover *handover;  /* where the next server asks; NULL: nowhere */
	bool leaving, leaving_stopped;  /* it has been told to go on; a signal came since, and nobody does */
	uint64_t stay_us;               /* while leaving: from when on calls that run hold nobody up */
	bool stays;                     /* they do not: the store goes, and they end here */
	uint64_t stopped;               /* rows of the table that were stopped then, a bit each */
	struct app_linger *linger;      /* and this is what is left of the server */
	struct app_elders *elders;      /* servers before this one that have calls; NULL: none */
	size_t nelders;                 /* of them, which still have */
	struct audit_calls elsewhere;   /* those calls, for the start, and since when they run */
	uint64_t elsewhere_us;
	struct transport_env transport_env;
	struct {
		const struct transport_ops *ops;
		struct transport *t;
		bool internal;          /* the relay's way in: not in `status` */
	} listeners[CONF_LISTENERS_MAX + 1];
	size_t nlisteners;
	struct conf_listener relay;     /* borrowed by its transport */
	struct transport *stdio;
	bool stdio_open;                /* its peer may still get something */
	struct ev_signal *signals[APP_SIGNALS];
	struct app_clock {
		int64_t offset_us;      /* wall clock above the monotonic one */
		enum clock_sync sync;   /* what records say of it */
		unsigned changes;       /* of that, which no record tells yet */
		uint64_t told_us;       /* monotonic; when one told of a change; 0 = never */
	} clock;
	uint64_t certs_due_us;          /* when the listeners' certificates are looked at again */
	uint64_t copies_due_us;         /* when copies of before are, that are old enough to go */
	struct ev_timer *watch;         /* each second: has the store failed? */
	bool store_failed;              /* it has, and health says so until the next look */
	struct app_watchdog {           /* OP-104 */
		struct ev_timer *timer; /* NULL: the service manager does not ask for it */
		uint64_t every_us, told_us;     /* how often it is told that all is well; when it was */
		_Atomic uint64_t beat_us;       /* when the writer ran a beat last */
		bool asked, late;       /* it has one to run; it has not for too long */
	} watchdog;
	struct ev_timer *used;          /* each minute: store when keys were last used */
	uint64_t expiring_due_us;       /* monotonic; when keys that will expire are counted again */
	struct ev_timer *drain;         /* while stopping: is it over? */
	uint64_t drain_until_us;
	struct ev_timer *reload;        /* a signal to read the configuration came too soon behind the last */
	uint64_t reloaded_us;
	struct str waits;               /* keys that wait for a restart, as of the last reading */
	struct str refused_conf;        /* why the last reading was refused; empty: it was not */
	enum app_phase phase;
	int status;                     /* exit status */
};

/* sinks.c */
int app_sinks_start(struct app *a, struct err *err) MUST_CHECK;
void app_sinks_stop(struct app *a);

/* listen.c */
int app_listen_start(struct app *a, struct err *err) MUST_CHECK;        /* the configured ways in */
int app_sockets_start(struct app *a, struct err *err) MUST_CHECK;       /* admin and relay, and the owner's card */
/* New certificates for the listeners: made aside from conf, which has the same listeners, then taken or dropped. */
struct app_renewal {
	struct tls_server *next[CONF_LISTENERS_MAX], *admin;
	struct ops_files *ops;
	struct otel_setup *otel;
};
int app_renewal_make(const struct app *a, const struct conf *conf, struct app_renewal *ret, struct err *err) MUST_CHECK;
void app_renewal_take(struct app *a, struct app_renewal *r);
void app_renewal_drop(struct app_renewal *r);
/* Of a configuration that is read while one with other listeners is in force: could these be opened? */
int app_new_doors_check(const struct conf *conf, struct err *err) MUST_CHECK;
void app_listen_stop(struct app *a);
void app_sockets_stop(struct app *a);
unsigned app_listen_busy(const struct app *a);                          /* connections with something to come */
void app_listen_drain(struct app *a);                                   /* no more of them come */
unsigned app_listen_live(const struct app *a);
void app_certs_look(struct app *a);
/* Each listener's certificate; expires_us: wall clock. */
void app_certs_each(const struct app *a, void (*fn)(void *arg, const char *address, uint64_t expires_us), void *arg);
void app_certs_check(struct app *a);                                    /* each second; looks once a day */
json_t *app_listen_show(void *app);                                     /* for `status` */
int app_ops_start(struct app *a, struct err *err) MUST_CHECK;           /* metrics and health, where they are told */
void app_ops_stop(struct app *a);
void app_tallies_sweep(struct app *a);                                  /* each minute */
void app_quotas(void *app, const char *tenant, double ret[OPS_QUOTAS]); /* as struct ops_env has it */
int app_gate_start(struct app *a, struct err *err) MUST_CHECK;
void app_taken(void *arg, int64_t tenant_id, struct command_taken *ret);
void app_gate_reload(struct app *a);
void app_gate_stop(struct app *a);
int app_pressure_start(struct app *a, struct err *err) MUST_CHECK;
void app_pressure_stop(struct app *a);
/* run.c */
int app_say_ready(struct app *a, struct err *err) MUST_CHECK;
int app_reload_start(struct app *a, struct err *err) MUST_CHECK;
/* The same for the command; app is a struct app. */
int app_reload_now(void *app, bool dry_run, struct reply *out, struct err *err);
void app_reload_stop(struct app *a);
int app_watch_start(struct app *a, struct err *err) MUST_CHECK;         /* signals, the store's health */
void app_watch_stop(struct app *a);                                     /* of one that lingers: but for signals */
bool app_is_draining(void *app);                                        /* for `status` */
void app_calls_end(struct app *a);                                      /* cancel and wait, at close */
void app_drain(struct app *a);                                          /* what runs ends, then the loop */
void app_drain_undo(struct app *a);
/* sandbox.c */
int app_sandbox_start(struct app *a, struct err *err) MUST_CHECK;
void app_sandbox_stop(struct app *a);                                   /* also of a start that failed */
/* check.c */
#define APP_UIDS_AUTO "auto"            /* sandbox.uids: what is this user's */
#define APP_PLACE_SIZE 512              /* of "dir PATH" or "socket PATH" in meta: where the signer is */
static inline const char *app_archive(const struct app *a)
{
	const struct conf *conf = a->opt.conf ? a->opt.conf : a->opt.tools;

	return conf ? conf->audit_archive : NULL;
}
int app_place_check(const struct conf *conf, struct err *err) MUST_CHECK;       /* signer and anchor */
/* What app_conf_check() says without the files of listeners. */
int app_values_check(const struct conf *conf, struct err *err) MUST_CHECK;
/* confine.c */
int app_user_check(const struct conf *conf, struct err *err) MUST_CHECK;        /* could app_become_user() do it? */
int app_confine_files(struct app *a, struct err *err) MUST_CHECK;    /* before the first thread */
int app_confine(struct app *a, struct err *err) MUST_CHECK;
FOR_TESTS int app_confine_process(struct err *err) MUST_CHECK;         /* its part that is for ever */
/* usage.c */
int app_used_start(struct app *a, struct err *err) MUST_CHECK;
void app_used_soon(struct app *a);                                      /* a key was used for the first time */
void app_used_stop(struct app *a);
void app_commands_free(struct app *a);
struct reports *app_reports_new(struct app *a);                         /* as a->reports; commands.c */
struct daily *app_daily_new(struct app *a);                             /* as a->daily, of daemons */
int app_usage_load(struct app *a, struct err *err) MUST_CHECK;         /* once there is a limiter */
void app_usage_flush(struct app *a);
/* clock.c */
#define APP_CLOCK_GAP_US 60000000       /* between two records of a clock that became synchronised or ceased to be */
void app_clock_start(struct app *a);
void app_clock_check(struct app *a);                                    /* each second */
/* auth.c */
#define APP_AUTH_SUMMARY_MS 60000
int app_auth_start(struct app *a, struct err *err) MUST_CHECK;
void app_auth_stop(struct app *a);
/* Sources of which more than APP_AUTH_STORM credentials were refused in so long, by their names in records. */
#define APP_AUTH_STORM 100
#define APP_AUTH_STORM_US 300000000ull
typedef void app_auth_storm_fn(void *arg, const char *source, unsigned refused);
void app_auth_storms(const struct app *app, app_auth_storm_fn *fn, void *arg);
/* alerts.c */
int app_alerts_start(struct app *a, struct err *err) MUST_CHECK;
void app_alerts_stop(struct app *a);
void app_alerts_watch(struct app *a);           /* each second: are calls refused? */
void app_alerts_soon(struct app *a);            /* what a reload changed is looked at, as at a start */

/* Its tables of commands, for app/commands.c. */
extern const struct command server_commands[];
/* top.c */
#define TOP_ROWS_MAX 200                /* tenants, tools and upstreams in a sample, of each */
extern const struct command top_commands[];
extern const struct command sink_commands[];

#endif
