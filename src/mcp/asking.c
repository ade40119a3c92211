/* Our requests to legacy callers (MCP section 13): the questions of a call, put to its caller as real requests
 * while the call waits.  Their ids are ours, counted for each channel or session (MCP J-15).  On a byte stream
 * they go out on it; on HTTP on the stream of the request that they belong to (MCP X-09). */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "call/call.h"

#include "method_int.h"

enum { ELICITATION_ID_LEN = 22, ASK_MESSAGE_SIZE = 200 };

struct mcp_ask {
	struct mcp_memory *memory;
	struct mcp_req *req;
	struct list link;       /* mcp_req.asks */
	uint64_t id;
	char key[];             /* the handler's name for it */
};

static void ask_free(struct mcp_ask *a)
{
	map_del_u64(a->memory->asks, a->id);
	list_unlink(&a->link);
	free(a);
}

/* Also what belongs to a request that its caller has cancelled: the question is ours to take back. */
static void send(struct mcp_req *req, const struct str *text)
{
	struct mcp_exchange *x = req->x;

	if (x->ch)
		x->ch->ops->push(x->ch->peer, text->p, text->len);
	else if (!x->closed && x->sse_ok)
		x->sink.ops->notice(x->sink.peer, text->p, text->len);
}

/* R4 wants a name for each question by URL, later revisions none (MCP X-02). */
static json_t *params_for(enum rev rev, const json_t *question)
{
	json_t *params = json_object_get(question, "params");
	const char *mode = json_string_value(json_object_get(params, "mode"));
	char id[ELICITATION_ID_LEN + 1];
	json_t *ret;

	if (rev != REV_R4 || !mode || strcmp(mode, "url") != 0 || json_object_get(params, "elicitationId"))
		return json_incref(params);
	id_random_text(id, ELICITATION_ID_LEN);
	ret = json_copy(params);
	json_object_set_new(ret, "elicitationId", json_string(id));
	return ret;
}

static void ask_one(struct mcp_req *req, const char *key, const json_t *question)
{
	struct mcp_ask *a = mem_zalloc(sizeof *a + strlen(key) + 1);
	struct str *out = &req->x->srv->out;
	json_t *params = params_for(req->rev, question);

	a->memory = req->memory;
	a->req = req;
	a->id = ++req->memory->next_ask;
	memcpy(a->key, key, strlen(key) + 1);
	list_init(&a->link);
	list_push_back(&req->asks, &a->link);
	map_set_u64(req->memory->asks, a->id, a);
	str_reset(out);
	encode_request(out, a->id, json_string_value(json_object_get(question, "method")), params);
	json_decref(params);
	send(req, out);
}

int asking_start(struct mcp_req *req, const json_t *requests, struct err *err)
{
	const char *key;
	json_t *question;

	if (!req->memory || req->mute || req->x->closed || (req->x->http && !req->x->sse_ok) ||
	    (req->x->ch && req->x->ch->eof))
		return err_set(err, ERR_CANCELLED, "", "the caller cannot be asked any more");
	json_object_foreach((json_t *)(uintptr_t)requests, key, question)
		if (!json_is_string(json_object_get(question, "method")))
			return err_set(err, ERR_INTERNAL, key, "a question without a method");
	json_decref(req->answers);
	req->answers = json_object();
	json_object_foreach((json_t *)(uintptr_t)requests, key, question)
		ask_one(req, key, question);
	return 0;
}

void asking_drop(struct mcp_req *req, bool tell)
{
	LIST_FOREACH_SAFE(n, tmp, &req->asks) {
		struct mcp_ask *a = CONTAINER_OF(n, struct mcp_ask, link);
		struct str *out = &req->x->srv->out;
		char id[24];

		if (tell) {     /* MCP L-11 */
			(void)snprintf(id, sizeof id, "%llu", (unsigned long long)a->id);
			str_reset(out);
			encode_cancelled(out, (struct jx_span){ id, strlen(id) }, "No answer is needed any more");
			send(req, out);
		}
		ask_free(a);
	}
}

/* A refusal to answer ends the call; a decline is an answer like any other (MCP X-06). */
static void fail(struct mcp_ask *a, struct jx_span error)
{
	struct mcp_req *req = a->req;
	char key[16], message[ASK_MESSAGE_SIZE] = "no reason given";
	struct rpc_walk w;
	struct jx_span v;

	if (rpc_is(error, '{')) {
		rpc_walk_start(&w, error);
		while (rpc_walk_member(&w, key, sizeof key, &v))
			if (strcmp(key, "message") == 0)
				(void)rpc_string(v, message, sizeof message, NULL);
	}
	free(req->ask_failure);
	req->ask_failure = mem_printf("The client could not answer the tool's question: %s", message);
	ask_free(a);
	asking_drop(req, true);
	call_cancel(req->call, CANCEL_BY_CLIENT);
}

void asking_response(struct mcp_memory *memory, const struct rpc_msg *msg)
{
	uint64_t id = 0;
	json_t *value = NULL, *answers;
	struct mcp_ask *a;
	struct mcp_req *req;

	if (!msg->id.p || msg->id.len > 19)
		return;
	for (size_t i = 0; i < msg->id.len; i++) {
		if (msg->id.p[i] < '0' || msg->id.p[i] > '9')
			return;
		id = id * 10 + (uint64_t)(msg->id.p[i] - '0');
	}
	a = map_get_u64(memory->asks, id);
	if (!a)
		return;         /* taken back, answered already, or never asked */
	req = a->req;
	if (!rpc_is(msg->result, '{') || jx_parse_scanned(msg->result.p, msg->result.len, &value, NULL) < 0) {
		fail(a, msg->error);
		return;
	}
	json_object_set_new(req->answers, a->key, value);
	ask_free(a);
	if (!list_empty(&req->asks))
		return;
	answers = req->answers;
	req->answers = NULL;
	call_answer(req->call, answers);
}
