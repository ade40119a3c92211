#ifndef MCP_METHOD_INT_H
#define MCP_METHOD_INT_H

#include "mcp_int.h"

/* The methods, as the table in server.c names them, and what they share. */

/* The capabilities that hold for a request (MCP B-15): what the peer's initialize result declared, else what its
 * tenant has now. */
unsigned mcp_declared(const struct mcp_req *req);
unsigned mcp_has(const struct reg_snapshot *snap);      /* SRV_ bits of what a tenant has */
unsigned mcp_enc_has(unsigned declared);                /* the same as ENC_HAS_ bits */

void m_initialize(struct mcp_req *req, const struct mcp_msg *msg);
void m_ping(struct mcp_req *req, const struct mcp_msg *msg);
void m_set_level(struct mcp_req *req, const struct mcp_msg *msg);
void m_discover(struct mcp_req *req, const struct mcp_msg *msg);
void m_tools_list(struct mcp_req *req, const struct mcp_msg *msg);
void m_prompts_list(struct mcp_req *req, const struct mcp_msg *msg);
void m_resources_list(struct mcp_req *req, const struct mcp_msg *msg);
void m_templates_list(struct mcp_req *req, const struct mcp_msg *msg);
/* Record what was shown of a list of this generation; the same `what` again within a second is not recorded. */
void list_record(struct mcp_req *req, int64_t generation, size_t len, const char *detail, const void *what);
void m_tools_call(struct mcp_req *req, const struct mcp_msg *msg);
void m_prompts_get(struct mcp_req *req, const struct mcp_msg *msg);
void m_resources_read(struct mcp_req *req, const struct mcp_msg *msg);
void m_complete(struct mcp_req *req, const struct mcp_msg *msg);
/* A completion that has a handler, by the call engine; args are taken.  ref is shorter than MCP_URI_SIZE. */
struct mcp_completion { enum reg_kind kind; const char *ref; size_t ref_len; const char *argument; json_t *args; };
void call_completion(struct mcp_req *req, const struct mcp_msg *msg, const struct mcp_completion *what);
void m_subscribe(struct mcp_req *req, const struct mcp_msg *msg);
void m_unsubscribe(struct mcp_req *req, const struct mcp_msg *msg);
void m_listen(struct mcp_req *req, const struct mcp_msg *msg);
void listen_stop(struct mcp_req *req);                          /* not told any more; no answer */
void listen_end(struct mcp_req *req);                           /* by us: result, and the notice (MCP B-20) */

/* A client's `{"name":…,"version":…}` as "name/version"; false: not of that shape. */
bool client_read(struct jx_span raw, char ret[MCP_CLIENT_SIZE]);
const char *req_client(const struct mcp_req *req, const struct mcp_msg *msg, char buf[MCP_CLIENT_SIZE]);       /* or NULL */

/* lease.c: when does the credential end that has opened it? */
void channel_look(struct mcp_channel *ch);
void session_look(struct mcp_session *s);                       /* its stream */
void listen_look(struct mcp_req *req);
/* Set *lease for the moment at which the credential of who ends, now if it has ended; then look(arg) ends what was opened,
 * or looks again: a credential may live longer than it was to. */
void lease_look(struct mcp_server *srv, const struct principal *who, struct ev_timer **lease,
		void (*look)(void *arg), void *arg);
bool lease_over(const struct mcp_server *srv, const struct principal *who);

/* asking.c */
int asking_start(struct mcp_req *req, const json_t *requests, struct err *err);
void asking_drop(struct mcp_req *req, bool tell);                /* open questions are taken back */
void asking_response(struct mcp_memory *memory, const struct rpc_msg *msg);

/* notify.c */
/* Write a record that nobody waits for: lists and notices go out without it. */
void mcp_record(struct mcp_server *srv, const struct audit_event *ev);
/* Of list_changed and of updated resources. */
void notify_missed(struct mcp_memory *m, struct mcp_server *srv, const struct principal *who,
		   const struct mcp_push_ops *ops, void *peer);

/* charge.c: every message is charged before it is looked into (SEC S-803).  False: refused and answered. */
bool mcp_charge(struct mcp_exchange *x, const struct mcp_in *in, struct rpc_msg *rpc);
void mcp_charge_result(struct mcp_exchange *x, size_t len);     /* what a long one was more */

#endif
