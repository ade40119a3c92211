#ifndef UPSTREAM_LINK_PARTS_INT_H
#define UPSTREAM_LINK_PARTS_INT_H

#include "link_int.h"

/* What the parts of a link share. */

enum up_state {
	UP_PROBING,            /* server/discover is out */
	UP_INITIALIZING,       /* initialize is out, perhaps both */
	UP_LISTING,            /* the handshake is over, the lists are read */
	UP_READY,
	UP_DEAD,
};
enum up_kind { UP_DISCOVER, UP_INITIALIZE, UP_LIST, UP_CALL, UP_PING, UP_LISTEN, UP_ASIDE };   /* aside: whatever the answer */

struct up_open { enum up_kind kind; struct up_call *call; };         /* a request of ours without an answer */

struct up_lister { struct list node; up_list_fn *done; void *arg; };

struct up_link {
	struct up_link_env env;
	char *name;                     /* of the upstream */
	bool asks;
	enum up_state state;
	enum rev rev;
	bool modern;
	struct up_wire *wire;
	struct err death;
	uint64_t next_id;
	struct map *open;               /* id -> struct up_open */
	struct list waiting, running, parked;   /* struct up_call.node */
	size_t ncalls, nrunning, nparked;
	bool kicked, closed;            /* closed: freed when the kick has come */
	struct str out;                 /* a message being written */
	/* the handshake */
	char server[128];
	bool has[UPSTREAM_KINDS];       /* capabilities: it has some, */
	bool tells[UPSTREAM_KINDS];     /* and says when the list changes */
	bool completes, logs, says_updates;
	int log_level;                  /* of an older server: what it was told to send; 8 = it was not told */
	struct ev_timer *start;         /* the probe, then the start as a whole */
	uint64_t start_us;
	/* the lists */
	struct upstream_list *list;     /* pages read so far */
	enum upstream_kind reading;     /* which of them */
	struct map *seen;               /* keys in it */
	size_t list_bytes, list_count; unsigned pages;
	bool listing, again;            /* they are being read; and have to be read once more */
	struct map *digests;            /* key -> 32 bytes; NULL until they were read first */
	bool unread[UPSTREAM_KINDS];    /* could not be read */
	uint8_t hash[32];               /* over all of them */
	struct list listers;
	struct ev_timer *relist;
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
	uint64_t heard_us;
	/* what the server sends unasked */
	unsigned noise;
	uint64_t asked_us; unsigned asked;      /* requests of theirs in this second */
};

/* up_link.c */
void up_link_kick(struct up_link *l);                     /* what is due is done in this turn, from the loop */
void up_link_die(struct up_link *l, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
struct up_open *up_link_request(struct up_link *l, enum up_kind kind, struct up_call *call, uint64_t *ret_id);
void up_link_forget(struct up_link *l, uint64_t id);
/* l->out is the message. */
void up_link_send(struct up_link *l, uint64_t id, const char *method, const char *name);
void up_link_send_head(struct up_link *l, uint64_t id, const struct up_head *head);
void up_link_ready(struct up_link *l);                    /* a list was read */
void up_link_doubt(struct up_link *l);

/* up_msg.c: what is written and what is read, without any state */
void up_msg_begin(struct str *out, uint64_t id, const char *method);       /* up to the members of params */
void up_msg_end(struct str *out);
/* The _meta of a request of 2026-07-28, or of an older one with a token; nothing when there is nothing to say. */
void up_msg_meta(struct str *out, bool modern, uint32_t caps, uint64_t token);
/* The same of a call: with the least level of log lines that are wanted, 8 = none (MCP G-03), and its caller's trace or NULL. */
struct up_meta { bool modern; uint32_t caps; uint64_t token; int log_level; const struct trace *trace; };
void up_msg_call_meta(struct str *out, const struct up_meta *m);
void up_msg_initialize(struct str *out, uint64_t id, bool asks);
void up_msg_answer(struct str *out, struct jx_span id, const json_t *result);
void up_msg_refusal(struct str *out, struct jx_span id, int code, const char *text);
void up_msg_cancelled(struct str *out, uint64_t id, bool modern);
bool up_msg_id(struct jx_span raw, uint64_t *ret);         /* an id of ours */
/* An error object: its code, its message without hidden characters, its data (a reference, or NULL). */
void up_msg_error(struct jx_span error, int *ret_code, char *ret, size_t size, json_t **ret_data);
#define UP_LOG_OFF 8
int up_msg_level(const char *word);                        /* of a log line; -1 = no such level */
const char *up_msg_level_word(int level);

/* up_hand.c */
void up_hand_start(struct up_link *l, enum up_era era);
void up_hand_discovered(struct up_link *l, const struct rpc_msg *msg);
void up_hand_initialized(struct up_link *l, const struct rpc_msg *msg);
void up_hand_late(void *link);                            /* the start timer */

/* up_list.c */
void up_list_start(struct up_link *l);
void up_list_page(struct up_link *l, const struct rpc_msg *msg);
void up_list_failed(struct up_link *l, const struct err *err);
void up_list_changed(struct up_link *l);                   /* the server says so */
void up_list_late(void *link);                             /* the relist timer */
void up_list_free(struct up_link *l);

/* up_watch.c */
void up_watch_start(struct up_link *l);                    /* the link is ready: ask for news, of what is watched too */
void up_watch_work(struct up_link *l);                     /* what is watched is not what it was */
void up_watch_acknowledged(struct up_link *l, uint64_t exchange, const struct rpc_msg *msg);
void up_watch_ended(struct up_link *l, uint64_t id, bool refused);      /* a stream of news */
void up_watch_updated(struct up_link *l, const struct rpc_msg *msg);
void up_watch_late(void *link);                            /* the relisten timer */
void up_watch_free(struct up_link *l);

/* up_call.c */
void up_call_run_waiting(struct up_link *l);                   /* what waits, as far as there is room */
void up_call_fail_all(struct up_link *l, const struct err *err);
void up_call_unpark_all(struct up_link *l);             /* nobody can go on with one any more */
void up_call_answered(struct up_call *c, const struct rpc_msg *msg);
void up_call_failed(struct up_call *c, const struct err *err);
void up_call_progress(struct up_link *l, const struct rpc_msg *msg);
void up_call_logged(struct up_link *l, uint64_t exchange, const struct rpc_msg *msg);
/* True: the question is a call's, and will be answered. */
bool up_call_question(struct up_link *l, uint64_t exchange, const struct rpc_msg *msg);
void up_call_question_withdrawn(struct up_link *l, const struct rpc_msg *msg);

#endif
