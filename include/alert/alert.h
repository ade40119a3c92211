#ifndef ALERT_ALERT_H
#define ALERT_ALERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/metric.h"
#include "command/command.h"

/* Alerts: what a person should look at, in a sentence that says which command shows more (OP-601 to OP-605).  Whoever
 * watches something says in rounds what holds now; a thing that goes on is one alert that counts.  It is on record when
 * it opens (1811), when somebody acknowledges it (1812) and when a rule is silenced (1814); that it is over stands in
 * table alert alone.  Beside the log, the ways out of the configuration are told (OP-604), each at least once.
 * Nothing here delays a call: what the writer has no room for is tried again at the next round.  Names in alerts
 * are shown as text_printable() has them.  Loop thread. */

#define ALERT_RULE_MAX 200              /* open alerts of one rule; what is beyond is counted by alerts_dropped */
#define ALERT_KEPT 10000                /* newest alerts that stay in the store when they are over */
#define ALERT_SUBJECT_SIZE 160          /* bytes, with its NUL */
#define ALERT_TEXT_SIZE 600
#define ALERT_STORE_MS 60000            /* between two updates of a count in the store */
#define ALERT_SILENCE_MAX_MS (30 * 86400000ull)
#define ALERT_PAIRS_MAX 100000          /* pairs of somebody and a tool that are remembered */
#define ALERT_WAY_MAX 1000              /* alerts that one way out has been told of, or is to be */
#define ALERT_WAY_TOGETHER 100          /* alerts of one message */
#define ALERT_WAY_SPAN_MAX 30           /* messages to one way in a span; then one with all that is due behind it */
#define ALERT_WAY_SPAN_US UINT64_C(600000000)
#define ALERT_WAY_RETRY_MS 60000        /* between two tries, at most */

struct alert_reader;
struct alert_ways;
struct alerts;
struct conf;
struct db;
struct ev_loop;
struct fetcher;
struct str;
struct tenants;
struct writer;

enum alert_rule {
#define ALERT(name, severity, ends, rest, from, help) ALERT_##name,
#include "alert/alerts.def"
	ALERT_RULES
};
enum alert_severity { ALERT_INFO, ALERT_WARN, ALERT_PAGE, ALERT_SEVERITIES };
enum alert_state { ALERT_OPEN, ALERT_ACKNOWLEDGED, ALERT_OVER };        /* as table alert has them */
const char *alert_rule_name(enum alert_rule rule);              /* "audit_refusing" */
int alert_rule_find(const char *name, enum alert_rule *ret);    /* 0, or ERR_NOT_FOUND */
const char *alert_severity_name(enum alert_severity severity);  /* "info", "warn", "page" */
enum alert_severity alert_rule_severity(enum alert_rule rule);
/* So long it must have held no more; UINT64_MAX: an acknowledgement ends it. */
uint64_t alert_rule_rest_us(enum alert_rule rule);
static inline bool alert_rule_ends_by_ack(enum alert_rule rule)
{
	return alert_rule_rest_us(rule) == UINT64_MAX;
}
const char *alert_rule_help(enum alert_rule rule, const char **ret_from);       /* where it begins, for people */

/* What holds now; texts are borrowed for the call, and cut to the sizes above. */
struct alert_seen {
	enum alert_rule rule;
	enum alert_severity severity;
	int64_t tenant_id;              /* 0: of the whole server; its record is in the system's log */
	const char *subject;            /* of what: "acme", an address; unique among the open ones of rule and tenant */
	uint64_t value, usual;          /* what was counted, and what it is compared with; for people */
	const char *text;               /* a sentence, and "Look: toolcrib ..." */
};

/* Is what the list `alerts` names there?  ERR_INVALID, ERR_DENIED; where = "alerts". */
int alerts_check(const struct conf *conf, struct err *err) MUST_CHECK;
struct alert_env {                      /* copied; what it names is borrowed for life */
	struct ev_loop *loop;
	struct writer *writer;
	const char *store;              /* its folder */
	struct fetcher *fetcher;
	const struct conf *conf;        /* its list of ways out, which stays as it is; NULL: there is none */
	const struct tenants *tenants;  /* or NULL */
};
/* db: any connection of the store, for the call: what is open, and which rules are silenced. */
int alerts_open(const struct alert_env *env, struct db *db, struct alerts **ret, struct err *err) MUST_CHECK;
/* Where nodes share the store they are those of the one that keeps it: false, and nothing is seen here until that is
 * this one, with a round that ends behind it. */
bool alerts_are_ours(const struct alerts *a);
/* What is open stays open in the store.  Before writer_close(), which ends what is under way. */
void alerts_close(struct alerts **a);

/* A round: this rule is looked at; alerts_saw() for each thing of it that holds; at the end alerts of rules that were
 * looked at and of which nothing was seen for the rest of their rule are over. */
void alerts_look(struct alerts *a, enum alert_rule rule);
void alerts_saw(struct alerts *a, const struct alert_seen *seen);
void alerts_end(struct alerts *a);
/* What commands did, behind their commit. */
void alerts_acknowledged(struct alerts *a, int64_t id);
void alerts_silenced(struct alerts *a, enum alert_rule rule, uint64_t until_us);      /* wall clock; past: no more */

/* Reads the store for rules that stand in it, in rounds of their own: a minute behind its start, each hour, when
 * alert_reader_soon() was called, and when records were written that such rules speak of; and the records of calls, for
 * what is unusual (OP-602). */
struct alert_reader_env {               /* copied; what it names is borrowed for life */
	struct ev_loop *loop;
	struct writer *writer;
	struct alerts *alerts;
	const char *store;              /* its folder */
	uint64_t started_us;            /* of the server; wall clock */
	bool daily;                     /* the server verifies itself each day */
	uint64_t test_us;               /* how often a backup is to be restored for a test; 0: never */
};
struct alert_reader *alert_reader_new(const struct alert_reader_env *env);
void alert_reader_tick(struct alert_reader *r);         /* is it time? */
void alert_reader_soon(struct alert_reader *r);
void alert_reader_free(struct alert_reader **r);        /* before its alerts are closed */

typedef void alerts_count_fn(void *arg, enum alert_rule rule, enum alert_severity severity, unsigned n);
void alerts_counts(const struct alerts *a, alerts_count_fn *fn, void *arg);     /* open ones, acknowledged ones too */
unsigned alerts_waiting(const struct alerts *a);                /* open ones that nobody has acknowledged */
/* Families of metrics, with the name of a way out as their label. */
struct alert_ways *alerts_ways(const struct alerts *a);
void alert_ways_expose(const struct alert_ways *w, enum metric_format format, struct str *ret);
/* For status, from any connection and thread: "2 open: 1 page, 1 warn; toolcrib alerts", or "none". */
int alerts_describe(struct db *db, char *ret, size_t size, struct err *err) MUST_CHECK;

extern const struct command alert_commands[];

#endif
