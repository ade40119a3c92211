#ifndef ASSENT_ASSENT_H
#define ASSENT_ASSENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "assent/rule.h"
#include "base/err.h"
#include "keys/keyfile.h"
#include "writer/writer.h"

/* Calls that a person has to agree to (decision 0113).  A request is a row of the store, changed with the record that
 * says why in one transaction, and an entry of an index in memory that says what the newest durable row says.  What is
 * agreed to is one digest (assent_digest()), once: the use is part of the transaction of the call's begin.  What an
 * approver is shown is sealed in the row with the payload key of the caller and month.
 *
 * Whoever admits a call (src/call) asks for a yes and uses it; commands (src/people/approve.c) give it.  Who may is
 * asked of the list of roles, at the vote and at the use.
 *
 * Loop thread, unless said otherwise. */

struct audit_field;
struct audit_logs;
struct conf_role;
struct db;
struct ev_loop;
struct assents;

/* HA limits; at the limit a call is refused, and nobody is asked. */
#define ASSENTS_TENANT_MAX 1000         /* that wait or are granted, of a tenant */
#define ASSENTS_PRINCIPAL_MAX 50
#define ASSENT_SHOWN_MAX 65536          /* bytes of what an approver is shown */
#define ASSENT_REASON_MAX 400
#define ASSENT_REFUSED_MS 600000        /* so long the same call is refused without asking anew (HA-05) */
#define ASSENT_KEPT_US (UINT64_C(90) * 86400 * 1000000)         /* rows of what is over; then they go */

enum assent_state {                     /* numbers of the store and of records */
	ASSENT_WAITS = 1, ASSENT_GRANTED, ASSENT_REFUSED, ASSENT_LAPSED, ASSENT_USED, ASSENT_RECALLED
};
const char *assent_state_name(int state);
enum { ASSENT_AGREED = 7 };             /* beside them, of table assent_event: one of several has agreed */
const char *assent_event_name(int what);
static inline bool assent_is_open(int state)
{
	return state == ASSENT_WAITS || state == ASSENT_GRANTED;
}

struct assent_vote { char who[ASSENT_NAME_SIZE], name[ASSENT_NAME_SIZE], reason[ASSENT_REASON_MAX]; uint64_t us; };

struct assent {                         /* borrowed until the loop turns */
	int64_t id, tenant_id, principal_id;
	enum assent_state state;
	uint8_t digest[32], tdef[32], call[16];         /* call: that asked */
	char tenant[64], principal[64]; /* principal: "": of a token, whose name no row has (assent_caller) */
	char *prn, *tool, *name;        /* pseudonym; full name; as its tenant saw it */
	char *whom;                     /* assent_rule_whom() */
	char *said;                     /* of a refusal: what its caller is told; or NULL */
	struct assent_rule *rule;
	uint64_t asked_us, due_us;      /* due: until when it waits, is used, or says no */
	struct assent_vote vote[ASSENT_COUNT_MAX];      /* who agreed */
	unsigned nvote;
	bool busy;                      /* its end is on its way to the store */
};

struct assent_env {
	struct ev_loop *loop;
	struct writer *writer;
	struct keyfile_place place; struct db *db;      /* borrowed; db: by the open, or NULL */
	const struct conf_role *roles; size_t nroles;   /* borrowed */
	/* Is the definition still the one that its tenant has under that name? */
	bool (*stands)(void *arg, const struct assent *a);
	/* It was agreed to, or is over: whoever waits for it looks again.  NULL: nobody does. */
	void (*changed)(void *arg, const struct assent *a);
	void *arg;
	const char *notify;             /* approve.notify: a program that is told of each request; NULL: none */
	uint64_t notify_ms;
};
/* Who has something else to put into the same item: fn calls writer_change(), or what does, with these rows among its
 * own, and done follows as it would.  fn NULL: nobody has. */
struct assent_carrier {
	int (*fn)(void *arg, const struct audit_event *ev, const struct writer_rows *rows, const void *bytes, size_t len,
		  writer_audit_fn *done, void *done_arg);
	void *arg;
};
int assents_open(const struct assent_env *env, struct assents **ret, struct err *err) MUST_CHECK;
/* approve.notify is not started any more.  Right before ev_child_kill_all().  all may be NULL. */
void assents_no_commands(struct assents *all);
void assents_close(struct assents **all);
void assents_set_roles(struct assents *all, const struct conf_role *roles, size_t n);
/* Definitions, grants or roles are others: what nobody may use any more lapses soon. */
void assents_look(struct assents *all);

/* NULL: nobody was asked.  One that has just been refused is found as well. */
struct assent *assent_find(struct assents *all, int64_t tenant_id, const uint8_t digest[32]);
struct assent *assent_by_id(struct assents *all, int64_t id);
/* Each that is open. */
typedef void assent_each_fn(void *arg, const struct assent *a);
void assents_each(struct assents *all, assent_each_fn *fn, void *arg);
/* Do those who agreed still may, and are they enough? */
bool assent_stands(const struct assents *all, const struct assent *a);

struct assent_new {                     /* texts are copied */
	int64_t tenant_id, principal_id;
	const char *tenant, *principal, *prn, *cred, *tool, *name;      /* cred NULL: none */
	const uint8_t *tdef, *digest;   /* 32 bytes each */
	const char *rule;               /* its text */
	const char *shown; size_t shown_len;            /* JSON, to be sealed */
};
/* The open one that this call asked for; NULL.  A walk of those that are open. */
struct assent *assent_of_call(struct assents *all, int64_t tenant_id, const uint8_t call[16]);
/* May one more wait?  ERR_LIMIT with a sentence. */
int assent_room(struct assents *all, int64_t tenant_id, int64_t principal_id, struct err *err) MUST_CHECK;
/* ev: call.held, to which the approval is added.  *ret: it, borrowed; it is found from now on.  done: as of
 * writer_change(); below 0 there is none.  ERR_AUDIT: it is not tried. */
int assent_file(struct assents *all, const struct assent_new *n, const struct audit_event *ev, struct assent_carrier by,
		writer_audit_fn *done, void *arg, struct assent **ret) MUST_CHECK;
/* One that is granted: ev, call.begin, to which approval and votes are added, and the use are one item.  done: rc
 * ERR_CONFLICT: it was not there any more, and nothing was recorded. */
int assent_use(struct assents *all, struct assent *a, const struct audit_event *ev, struct assent_carrier by,
	       writer_audit_fn *done, void *arg) MUST_CHECK;
/* It is over: detail says why.  Recorded as call.lapsed. */
void assent_lapse(struct assents *all, struct assent *a, const char *why);

/* --- what commands do on the writer's thread, and what follows on the loop when that is durable */

struct assent_person { char name[ASSENT_NAME_SIZE]; unsigned of; };      /* of: assent_decides() */
struct assent_deed {
	int64_t id;
	bool yes;                       /* of a vote */
	char who[ASSENT_NAME_SIZE], name[ASSENT_NAME_SIZE], reason[ASSENT_REASON_MAX];
	struct assent_person *persons; size_t npersons; /* who decides of it today, of a vote */
	/* What came of it. */
	int64_t tenant_id;
	enum assent_state state;
	uint64_t us, use_by_us;
	unsigned missing;               /* so many more have to agree */
	char tool[128];
};
/* ev: of this command, to be filled in and recorded.  ERR_NOT_FOUND; ERR_CONFLICT: decided already; ERR_DENIED: this
 * person has voted. */
int assent_vote(struct assent_deed *d, struct audit_event *ev, struct db *db, struct audit_logs *logs,
		struct err *err) MUST_CHECK;
int assent_recall(struct assent_deed *d, struct audit_event *ev, struct db *db, struct audit_logs *logs,
		  struct err *err) MUST_CHECK;
void assent_done(struct assents *all, const struct assent_deed *d);

/* --- a reader's thread */

struct str;
struct keys;
/* What an approver is shown, appended.  ERR_NOT_FOUND: it cannot be opened any more. */
int assent_unseal(struct db *db, struct keys *keys, int64_t tenant_id, int64_t id, struct str *ret,
		  struct err *err) MUST_CHECK;

#endif
