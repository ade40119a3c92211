/* Fuzz target: messages of a client, through envelope, classifier, gate and methods.  The first line says how
 * they arrive: "tcp", or "http VERSION METHOD NAME" with "-" for a header that is not sent; each further line is
 * one message.  The modules beside the core are doubles: a call echoes its arguments' text, or waits for its end
 * when the tool is called "wait".  "full" instead of "tcp": the store fails every other time.  Behind them are tasks in
 * every state, some of them somebody else's (tasks_world.c); an empty line lets all that is on its way come back.
 *
 * Whatever comes in, each message has exactly one end, what goes out is JSON on one line, and an answer carries
 * the id of its request byte by byte (MCP B-04).  What is kept of others' tasks never goes out (TK-03). */

#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "audit/audit.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "call/call.h"
#include "ev/ev.h"
#include "fuzz.h"
#include "json/json.h"
#include "mcp/mcp.h"
#include "proto/rpc.h"
#include "registry/registry.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"

#include "tasks_world.h"

enum { WORD_MAX = 128, MESSAGES_MAX = 64 };

static struct ev_loop *loop;            /* of this input */
static bool asked_for_it;               /* it has what others' tasks have, and may get it back */
static struct world *world;             /* the tasks behind it */
/* One prompt, one resource, so that their methods are declared; no tool. */
static struct reg_def prompt_def = { .version_id = 1, .kind = REG_PROMPT, .name = "prompt:p" };
static struct reg_def resource_def = { .version_id = 2, .kind = REG_RESOURCE, .name = "resource:r", .uri = "a:b" };
static const struct reg_tool prompt = { .name = "p", .full_name = "prompt:p", .def = &prompt_def };
static const struct reg_tool resource = { .name = "r", .full_name = "resource:r", .def = &resource_def };
static struct reg_snapshot snapshot = { .tenant_id = 1, .generation = { 3 }, .refs = 1, .completes = true,
					.list = { [REG_PROMPT] = { 1, &prompt }, [REG_RESOURCE] = { 1, &resource } } };
const struct reg_kind_row reg_kinds[REG_KINDS] = {
	{ "tool", "tool", "", REG_TOOLS, SCOPE_TOOLS_CALL }, { "prompt", "prompt", "prompt:", REG_PROMPTS, SCOPE_PROMPTS_GET },
	{ "resource", "resource", "resource:", REG_RESOURCES, SCOPE_RESOURCES_READ },
	{ "resourceTemplate", "template", "resource:", REG_RESOURCES, SCOPE_RESOURCES_READ },
};

/* --- what the core stands on */

void principal_ref(struct principal *p)
{
	p->refs++;
}

void principal_unref(struct principal **p)
{
	(*p)->refs--;
	*p = NULL;
}

int principal_check(const struct tenants *t, const struct principal *p, struct err *err)
{
	return 0;
}

uint64_t principal_until(const struct tenants *t, const struct principal *p)
{
	return 0;
}

struct reg_snapshot *reg_acquire(struct registry *reg, int64_t tenant_id)
{
	snapshot.refs++;
	return &snapshot;
}

void reg_release(struct registry *reg, struct reg_snapshot **snap)
{
	snapshot.refs--;
	*snap = NULL;
}

const struct reg_tool *reg_find(const struct reg_snapshot *snap, enum reg_kind kind, const char *name, size_t len)
{
	return kind == REG_PROMPT && len == 1 ? &prompt : NULL;
}

const struct reg_tool *reg_find_template(const struct reg_snapshot *snap, const char *pattern, size_t len)
{
	return NULL;
}

const struct reg_tool *reg_find_uri(const struct reg_snapshot *snap, const char *uri, size_t len, json_t **ret_args)
{
	if (len == 0 || uri[0] != 'a')
		return NULL;
	if (ret_args)
		*ret_args = json_object();
	return &resource;
}

bool reg_in_scope(const struct reg_tool *line, const struct scopes *scopes)
{
	return true;
}

const struct reg_tool *reg_find_remote(const struct reg_snapshot *snap, enum reg_kind kind, const char *name, size_t len,
				       const struct scopes *scopes, bool *ret_ambiguous)
{
	*ret_ambiguous = false;
	return NULL;
}

int reg_compile(struct registry *reg, struct reg_def *def, const struct reg_compiled **ret, struct err *err)
{
	return err_set(err, ERR_CORRUPT, "", "nothing compiles");
}

int reg_page(struct registry *reg, struct reg_snapshot *snap, const struct reg_ask *ask, struct reg_page *ret, struct err *err)
{
	*ret = (struct reg_page){ "[]", 2, ask->after ? NULL : "last", 0 };
	return 0;
}

struct call {
	const struct call_out *out;
	void *arg;
	char *text;
	bool cancelled, detached, asked;
};

static struct call *waiting[MESSAGES_MAX * MCP_BATCH_MAX];
static size_t nwaiting;

static void call_free(struct call *c)
{
	free(c->text);
	free(c);
}

static void call_ends(void *arg)
{
	struct call *c = arg;
	json_t *block = json_object();
	struct backend_result res = { .content = json_array() };
	struct err err;
	struct call_end end = { .result = &res };

	json_object_set_new(block, "type", json_string("text"));
	json_object_set_new(block, "text", json_string(c->text));
	json_array_append_new(res.content, block);
	if (c->cancelled) {
		err_set(&err, ERR_CANCELLED, "", "cancelled");
		json_decref(res.content);
		end = (struct call_end){ .err = &err };
	}
	if (c->detached)
		json_decref(res.content);
	else
		c->out->finish(c->arg, &end);
	call_free(c);
}

static void call_asks(void *arg)
{
	struct call *c = arg;
	json_t *requests = json_object(), *question = json_object();

	json_object_set_new(question, "method", json_string("roots/list"));
	json_object_set_new(requests, "k", question);
	if (!c->cancelled && !c->detached)
		c->asked = c->out->ask(c->arg, requests, NULL) == 0;
	json_decref(requests);
}

void call_start(struct call_engine *eng, const struct call_req *req, const struct call_out *out, void *arg,
		struct call **ret)
{
	struct call *c = mem_zalloc(sizeof *c);
	struct reg_snapshot *snap = req->snap;

	c->out = out;
	c->arg = arg;
	c->text = mem_strndup(req->args_text, req->args_len);
	*ret = c;
	json_decref(req->args);
	json_decref(req->answers);
	reg_release(NULL, &snap);
	if (strcmp(req->tool, "wait") == 0 && nwaiting < NELEMS(waiting)) {
		waiting[nwaiting++] = c;
		if (req->can_ask)
			ev_defer(loop, call_asks, c);
	} else {
		ev_defer(loop, call_ends, c);
	}
}

bool call_may_record_denied(struct call_engine *eng, struct principal *who, enum call_refusal why)
{
	return false;
}

void call_cancel(struct call *c, enum cancel_why why)
{
	c->cancelled = true;
}

size_t call_cancel_where(struct call_engine *eng, const struct call_where *where, enum cancel_why why)
{
	return 0;
}

int call_charge(struct call_engine *eng, const struct principal *who, unsigned cost, bool loose, struct err *err)
{
	return 0;
}

void call_charge_more(struct call_engine *eng, const struct principal *who, unsigned cost)
{
}

void call_charge_back(struct call_engine *eng, const struct principal *who, unsigned cost)
{
}

bool call_shed(const struct call_engine *eng, const struct principal *who, unsigned percent)
{
	return false;
}

bool call_crowds(const struct call_engine *eng, const struct principal *who)
{
	return false;
}

int call_hold_stream(struct call_engine *eng, int64_t tenant_id, struct err *err)
{
	return 0;
}

void call_drop_stream(struct call_engine *eng, int64_t tenant_id)
{
}

void call_detach(struct call *c)
{
	c->detached = true;
}

int call_watch(struct call_engine *eng, struct reg_def *def, const struct backend_watch_req *req, struct backend_watch **ret,
	       struct err *err)
{
	return 0;
}

void call_answer(struct call *c, json_t *answers)
{
	FUZZ_CHECK(c->asked && json_object_size(answers) == 1);
	json_decref(answers);
}

/* --- the peer */

struct message {
	struct mcp_exchange *x;
	char id[RPC_ID_MAX + 3];        /* raw; "" when an answer cannot have it */
	bool inside, ended;
};

static void check_text(const char *text, size_t len)
{
	FUZZ_CHECK(jx_scan(text, len, NULL, 0, NULL) == 0);
	FUZZ_CHECK(!memchr(text, '\n', len));
	FUZZ_CHECK(!memmem(text, len, WORLD_FOREIGN, strlen(WORLD_FOREIGN)) || asked_for_it);
}

static void on_notice(void *peer, const char *text, size_t len)
{
	const struct message *m = peer;

	FUZZ_CHECK(!m->inside && !m->ended);
	check_text(text, len);
}

static void on_finish(void *peer, const struct mcp_answer *a)
{
	struct message *m = peer;
	struct rpc_msg answer;

	FUZZ_CHECK(!m->inside && !m->ended);
	m->ended = true;
	m->x = NULL;
	if (!a->len)
		return;
	check_text(a->text, a->len);
	FUZZ_CHECK(rpc_scan(a->text, a->len, &answer, NULL) == 0);
	if (m->id[0] && !answer.array) {
		FUZZ_CHECK(rpc_check(&answer, NULL) == 0 && answer.kind == RPC_RESPONSE);
		FUZZ_CHECK(answer.id.len == strlen(m->id) && memcmp(answer.id.p, m->id, answer.id.len) == 0);
	}
}

static const struct mcp_sink_ops sink_ops = { on_notice, on_finish };

static void on_push(void *peer, const char *text, size_t len)
{
	check_text(text, len);
}

static size_t on_queued(const void *peer)
{
	return 0;
}

static void on_hang_up(void *peer)
{
}

static const struct mcp_push_ops push_ops = { on_push, on_queued, on_hang_up };

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

static void turn(void)
{
	for (int i = 0; i < 3; i++) {
		bool done = false;

		ev_defer(loop, set_true, &done);
		FUZZ_CHECK(ev_loop_run_until(loop, &done, 10000));
	}
}

/* The next word of a line, or NULL for "-" and the end. */
static const char *word(const char **at, const char *end, char buf[WORD_MAX])
{
	size_t len = 0;

	while (*at < end && **at == ' ')
		(*at)++;
	while (*at < end && **at != ' ') {
		if (len < WORD_MAX - 1 && **at)
			buf[len++] = **at;
		(*at)++;
	}
	buf[len] = '\0';
	return len == 0 || strcmp(buf, "-") == 0 ? NULL : buf;
}

static void feed(struct mcp_server *srv, struct mcp_channel *ch, const struct mcp_in *in, struct message *m)
{
	struct mcp_sink sink = { &sink_ops, m };
	struct rpc_msg msg;

	if (rpc_scan(in->text, in->len, &msg, NULL) == 0 && !msg.array && rpc_check(&msg, NULL) == 0 &&
	    msg.kind == RPC_REQUEST)
		memcpy(m->id, msg.id.p, msg.id.len);
	m->inside = true;
	mcp_input(srv, ch, in, &sink, &m->x);
	m->inside = false;
	turn();
}

static void run(struct mcp_server *srv, struct principal *who, const char *text, const char *end)
{
	char version[WORD_MAX], method[WORD_MAX], name[WORD_MAX];
	struct message m[MESSAGES_MAX] = { { .x = NULL } };
	const char *at = text, *line = memchr(text, '\n', (size_t)(end - text));
	struct mcp_headers http = { .sse_ok = true };
	struct mcp_channel *ch = NULL;
	size_t n = 0;
	bool is_http = end - text >= 4 && memcmp(text, "http", 4) == 0;

	line = line ? line : end;
	(void)word(&at, line, version);         /* "http" or "tcp" */
	http.version = word(&at, line, version);
	http.method = word(&at, line, method);
	http.name = word(&at, line, name);
	if (!is_http)
		ch = mcp_channel_new(srv, &push_ops, m, who, AUDIT_TCP);
	while (line < end && n < MESSAGES_MAX) {
		const char *start = line + 1, *stop = memchr(start, '\n', (size_t)(end - start));
		struct mcp_in in = { .text = start, .who = who, .http = is_http ? &http : NULL,
				     .tport = is_http ? AUDIT_HTTP : AUDIT_TCP };

		line = stop ? stop : end;
		in.len = (size_t)(line - start);
		if (in.len > 0)
			feed(srv, ch, &in, &m[n++]);
		else
			world_settle(world, true);
	}
	world_settle(world, true);
	(void)mcp_changed(srv, &(struct reg_news){ .tenant_id = 1, .generation = { 4, 4, 4 }, .differs = { true, true, true } },
			  "fuzz");
	for (size_t i = 0; is_http && i < n; i++)
		if (!m[i].ended)
			mcp_exchange_gone(&m[i].x);
	mcp_channel_close(&ch);
	for (size_t i = 0; i < nwaiting; i++)
		call_ends(waiting[i]);
	nwaiting = 0;
	turn();
	world_settle(world, false);
}

FUZZ_TARGET(rpc)
{
	static const uint8_t master[32] = { 1 };
	struct principal who = { .refs = 1, .tenant_id = 1, .principal_id = 1, .tenant = "t", .name = "p" };
	char *text = mem_strndup((const char *)data, size);
	struct mcp_env env = { .master = master, .version = "1" };
	struct mcp_server *srv;

	FUZZ_CHECK(secret_init() == 0);
	log_set_level(LOG_LEVEL_ERR);
	loop = ev_loop_new();
	asked_for_it = memmem(data, size, WORLD_FOREIGN, strlen(WORLD_FOREIGN)) != NULL;
	world = world_open(loop, &who, size >= 4 && memcmp(data, "full", 4) == 0);
	env.loop = loop;
	env.tasks = world_tasks(world);
	env.calls = world_calls(world);
	srv = mcp_server_new(&env);
	run(srv, &who, text, text + size);
	mcp_server_free(&srv);
	turn();
	world_close(&world);
	ev_loop_free(&loop);
	FUZZ_CHECK(who.refs == 1 && snapshot.refs == 1);
	free(text);
	return 0;
}
