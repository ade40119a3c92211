#ifndef UPSTREAM_LINK_PARTS_INT_H
#define UPSTREAM_LINK_PARTS_INT_H

#include "link_int.h"

/* What the parts of a link share. */

enum link_state {
	LINK_PROBING,            /* server/discover is out */
	LINK_INITIALIZING,       /* initialize is out, perhaps both */
	LINK_LISTING,            /* the handshake is over, the lists are read */
	LINK_READY,
	LINK_DEAD,
};
/* aside: whatever the answer */
enum link_kind { LINK_DISCOVER, LINK_INITIALIZE, LINK_LIST, LINK_CALL, LINK_PING, LINK_LISTEN, LINK_ASIDE };

struct link_open { enum link_kind kind; struct link_call *call; };         /* a request of ours without an answer */

/* served: by the reading under way, which began after it was asked for */
struct link_lister { struct list node; struct link *link; link_list_fn *done; void *arg; bool served; };

struct link {
	struct link_env env;
	char *name;                     /* of the upstream */
	bool asks;
	enum link_state state;
	enum rev rev;
	bool modern;
	struct link_wire *wire;
	struct err death;
	uint64_t next_id;
	struct map *open;               /* id -> struct link_open */
	size_t naside;                  /* of them, of LINK_ASIDE */
	struct list waiting, running, parked;   /* struct link_call.node */
	size_t ncalls, nrunning, nparked;
	/* Who may be meant by what names no call (HARDENING F-3): its only live call, as long as all that were sent are of
	 * one principal, and none was left without its answer. */
	char *voice; bool mixed, left;  /* voice: whose calls they are, NULL before the first; mixed: others' as well */
	bool kicked, closed;            /* closed: freed when the kick has come */
	bool retired;
	struct str out;                 /* a message being written */
	/* the handshake */
	char server[128];
	bool has[UPSTREAM_KINDS];       /* capabilities: it has some, */
	bool tells[UPSTREAM_KINDS];     /* and says when the list changes */
	bool completes, logs, says_updates, tasks;      /* tasks: a modern one has the extension */
	int log_level;                  /* of an older server: what it was told to send; 8 = it was not told */
	struct ev_timer *start;         /* the probe, then the start as a whole */
	uint64_t start_us;
	/* the lists */
	struct upstream_list *list;     /* pages read so far */
	enum upstream_kind reading;     /* which of them */
	struct map *seen;               /* keys in it */
	size_t list_bytes, list_count; unsigned pages;
	bool listing, again;            /* they are being read; and have to be read once more */
	uint64_t list_id;               /* of the request for a page that is out */
	struct map *digests;            /* key -> 32 bytes; NULL until they were read first */
	bool unread[UPSTREAM_KINDS];    /* could not be read */
	uint8_t hash[32];               /* over all of them */
	struct list listers;
	struct ev_timer *relist;        /* while they are read: the end of their time */
	uint64_t relist_tat;
	/* what is watched */
	struct map *watched;            /* by URI */
	uint64_t listen_id, old_listen_id;      /* of a modern server; the old one until the new one is acknowledged */
	uint64_t listen_us;
	unsigned relistens;             /* streams that ended soon, one after the other */
	bool watch_changed;
	struct ev_timer *relisten;
	/* silence */
	struct ev_timer *doubt;
	uint64_t ping_id;               /* the last that was asked; 0: none */
	uint64_t heard_us;
	/* what the server sends unasked */
	unsigned noise;
	uint64_t asked_us; unsigned asked;      /* requests of theirs in this second */
};

/* --- link.c */

void link_kick(struct link *l);                     /* what is due is done in this turn, from the loop */
void link_die(struct link *l, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
struct link_open *link_request(struct link *l, enum link_kind kind, struct link_call *call, uint64_t *ret_id);
void link_forget(struct link *l, uint64_t id);
/* l->out is the message.  The one of ours; and the gate that all pass (HARDENING F-4). */
void link_send(struct link *l, uint64_t id, const char *method, const char *name);
void link_send_head(struct link *l, uint64_t id, const struct link_head *head);
void link_ready(struct link *l);                    /* a list was read */
void link_doubt(struct link *l);

/* --- link_call.c: messages; what is written and what is read, without any state */

void link_msg_begin(struct str *out, uint64_t id, const char *method);       /* up to the members of params */
void link_msg_end(struct str *out);
/* The _meta of a request of 2026-07-28, or of an older one with a token; nothing when there is nothing to say. */
void link_msg_meta(struct str *out, bool modern, uint32_t caps, uint64_t token);
void link_msg_initialize(struct str *out, uint64_t id, bool asks);
void link_msg_answer(struct str *out, struct jx_span id, const json_t *result);
void link_msg_refusal(struct str *out, struct jx_span id, int code, const char *text);
void link_msg_cancelled(struct str *out, uint64_t id, bool modern);
bool link_msg_id(struct jx_span raw, uint64_t *ret);         /* an id of ours */
/* An error object: its code, its message without hidden characters, its data (a reference, or NULL). */
void link_msg_error(struct jx_span error, int *ret_code, char *ret, size_t size, json_t **ret_data);
#define LINK_LOG_OFF 8                  /* of levels of log lines: none */

/* --- link_list.c */

void link_list_start(struct link *l);
void link_list_page(struct link *l, const struct rpc_msg *msg);
void link_list_failed(struct link *l, const struct err *err);
void link_list_changed(struct link *l);                   /* the server says so */
void link_list_late(void *link);                             /* the relist timer */
void link_list_free(struct link *l);

/* --- link_call.c */

void link_call_run_waiting(struct link *l);                   /* what waits, as far as there is room */
void link_call_fail_all(struct link *l, const struct err *err);
void link_call_unpark_all(struct link *l);             /* nobody can go on with one any more */
void link_call_answered(struct link_call *c, const struct rpc_msg *msg);
void link_call_failed(struct link_call *c, const struct err *err);
void link_call_progress(struct link *l, const struct rpc_msg *msg);
void link_call_logged(struct link *l, uint64_t exchange, const struct rpc_msg *msg);
/* True: the question is a call's, and will be answered. */
bool link_call_question(struct link *l, uint64_t exchange, const struct rpc_msg *msg);
void link_call_question_withdrawn(struct link *l, const struct rpc_msg *msg);

#endif
