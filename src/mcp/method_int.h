#ifndef MCP_METHOD_INT_H
#define MCP_METHOD_INT_H

#include "mcp_int.h"

struct trace;

/* The methods, and the bodies that the table in methods.c names. */

enum name_param { NAME_NONE, NAME_NAME, NAME_URI, NAME_TASK };  /* what Mcp-Name repeats (MCP H-33) */
struct mcp_method {
	const char *name;
	unsigned revs;                  /* bits of enum rev: "removed" is a bit, nothing more */
	unsigned capability;            /* SRV_ bit, 0 = always there */
	unsigned right;                 /* bits of enum scope_right: one of them is needed, and checked before run() */
	enum name_param repeats;
	/* Starts the request; an answer is due by req_result(), req_fault() or later.  NULL: never declared. */
	void (*run)(struct mcp_req *req, const struct mcp_msg *msg);
};
FOR_TESTS extern const struct mcp_method mcp_methods[];           /* ended by name NULL */
const struct mcp_method *mcp_method_find(const char *name);
/* Run it, or refuse it: not of its revision, not declared, without the right. */
void mcp_dispatch(struct mcp_req *req, const struct mcp_msg *msg);

/* m_call.c */
void m_tools_call(struct mcp_req *req, const struct mcp_msg *msg);
void m_prompts_get(struct mcp_req *req, const struct mcp_msg *msg);
void m_resources_read(struct mcp_req *req, const struct mcp_msg *msg);
void m_complete(struct mcp_req *req, const struct mcp_msg *msg);
/* Whether a header's value, which may have the base64 form (MCP H-35, T-44), says this text; false too: malformed. */
bool mcp_header_is(const char *value, size_t len, const char *text, size_t text_len);

/* exchange.c: the questions of a call, as requests to its legacy caller */
int asking_start(struct mcp_req *req, const json_t *requests, struct err *err);
void asking_response(struct mcp_memory *memory, const struct rpc_msg *msg);

/* m_task.c */
/* The tasks of a listen; NULL: none.  due: it says something new of itself, and that is not told before next_us, of the
 * loop's clock. */
#define MCP_TASK_NOTE_US UINT64_C(1000000)      /* at least, between a notice of a task and what it says next (TK-10) */
struct mcp_heard {
	struct ev_timer *timer;         /* for the first that is due */
	size_t n;
	struct mcp_heard_task { char id[TASK_ID_LEN + 1]; bool due; uint64_t next_us; } of[];
};
static inline size_t mcp_ntasks(const struct mcp_req *req)
{
	return req->tasks ? req->tasks->n : 0;
}
/* What m_task.c does for a listen.  take: those of an array of ids that its caller may see, into req->tasks; the others
 * are left out, whatever they are (TK-10); false: they are too many.  begin: what is not working is told, and from now
 * on what changes.  end: frees them. */
struct mcp_task_ways {
	bool (*take)(struct mcp_req *req, struct jx_span ids);
	void (*begin)(struct mcp_req *req);
	void (*end)(struct mcp_req *req);
};
void m_tasks(struct mcp_req *req, const struct mcp_msg *msg);   /* tasks/get, update, cancel */
struct task;
struct enc_task;
void m_listen_tasks(struct mcp_req *req, const struct mcp_msg *msg);    /* m_listen(), which may name tasks */
void mcp_task_view(const struct task *t, struct enc_task *ret);        /* texts borrowed */

/* trace.c */
bool req_read_trace(const struct mcp_msg *msg, struct trace *ret);
void req_span_begin(struct mcp_req *req, const struct mcp_msg *msg);

/* subscriptions.c */
void m_subscribe(struct mcp_req *req, const struct mcp_msg *msg);
void m_unsubscribe(struct mcp_req *req, const struct mcp_msg *msg);
void m_listen(struct mcp_req *req, const struct mcp_msg *msg);

#endif
