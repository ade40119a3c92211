#ifndef UP_LINK_INT_H
#define UP_LINK_INT_H

#include "up_int.h"

/* What the parts of a link share. */

enum up_state {
	UP_PROBING,            /* server/discover is out */
	UP_INITIALIZING,       /* initialize is out, perhaps both */
	UP_LISTING,            /* the handshake is over, the first list is read */
	UP_READY,
	UP_DEAD,
};
enum up_kind { UP_DISCOVER, UP_INITIALIZE, UP_LIST, UP_CALL, UP_PING, UP_LISTEN };

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
	bool has_tools, tells;          /* capabilities: tools, and that it says when they change */
	struct ev_timer *start;         /* the probe, then the start as a whole */
	uint64_t start_us;
	/* the list */
	struct upstream_list *list;     /* pages read so far */
	size_t list_bytes; unsigned pages;
	bool listing, again;            /* a list is being read; and has to be read once more */
	struct map *digests;            /* name there -> 32 bytes; NULL until the first list */
	uint8_t hash[32];               /* over all of them */
	struct list listers;
	struct ev_timer *relist;
	uint64_t listed_us;
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
void up_link_ready(struct up_link *l);                    /* a list was read */
void up_link_doubt(struct up_link *l);

/* up_msg.c: what is written and what is read, without any state */
void up_msg_begin(struct str *out, uint64_t id, const char *method);       /* up to the members of params */
void up_msg_end(struct str *out);
/* The _meta of a request of 2026-07-28, or of an older one with a token; nothing when there is nothing to say. */
void up_msg_meta(struct str *out, bool modern, uint32_t caps, uint64_t token);
void up_msg_initialize(struct str *out, uint64_t id, bool asks);
void up_msg_answer(struct str *out, struct jx_span id, const json_t *result);
void up_msg_refusal(struct str *out, struct jx_span id, int code, const char *text);
void up_msg_cancelled(struct str *out, uint64_t id, bool modern);
bool up_msg_id(struct jx_span raw, uint64_t *ret);         /* an id of ours */
/* An error object: its code, its message without hidden characters, its data (a reference, or NULL). */
void up_msg_error(struct jx_span error, int *ret_code, char *ret, size_t size, json_t **ret_data);
int up_msg_level(const char *word);                        /* of a log line; -1 = no such level */

/* up_hand.c */
void up_hand_start(struct up_link *l, enum up_era era);
void up_hand_discovered(struct up_link *l, const struct rpc_msg *msg);
void up_hand_initialized(struct up_link *l, const struct rpc_msg *msg);
void up_hand_late(void *link);                            /* the start timer */

/* up_tools.c */
void up_tools_start(struct up_link *l);
void up_tools_page(struct up_link *l, const struct rpc_msg *msg);
void up_tools_failed(struct up_link *l, const struct err *err);
void up_tools_changed(struct up_link *l);                  /* the server says so */
void up_tools_late(void *link);                            /* the relist timer */
void up_tools_free(struct up_link *l);

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
