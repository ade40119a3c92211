/* tasks/get, tasks/update, tasks/cancel (TK-02 to TK-12): what became of a call whose caller has gone on.  A task is
 * its principal's; one that is unknown, over and gone, or somebody else's is the same answer, byte for byte. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/id.h"
#include "base/log.h"
#include "base/clock.h"
#include "base/mem.h"
#include "call/call.h"
#include "ev/ev.h"
#include "json/json.h"
#include "proto/caps.h"
#include "task/task.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "method_int.h"

enum { ID_MAX = 256, SLOW_AFTER_MS = 30000, SLOWER_AFTER_MS = 300000, POLL_MAX_MS = 60000 };

/* TK-11 */
static uint64_t poll_ms(const struct task *t)
{
	const uint64_t now = clock_wall_us(), age_ms = now > t->created_us ? (now - t->created_us) / 1000 : 0;
	const uint64_t times = age_ms < SLOW_AFTER_MS ? 1 : age_ms < SLOWER_AFTER_MS ? 2 : 5, ms = t->poll_ms * times;

	return ms <= POLL_MAX_MS ? ms : t->poll_ms > POLL_MAX_MS ? t->poll_ms : POLL_MAX_MS;
}

void mcp_task_view(const struct task *t, struct enc_task *ret)
{
	*ret = (struct enc_task){ .id = t->id, .status = task_status(t->state), .message = t->note,
				  .created_us = t->created_us, .updated_us = t->updated_us,
				  .ttl_ms = (t->ends_us - t->created_us) / 1000, .poll_ms = poll_ms(t) };
}

static void not_found(struct mcp_req *req)
{
	struct rpc_error e;

	rpc_error_init(&e, FAULT_PARAMS, "Task not found");
	req_fault(req, &e);
}

/* TK-03; NULL: as one that is not there. */
static struct task *find_id(const struct mcp_req *req, const char *id, size_t len)
{
	const struct principal *who = req->x->who;
	struct tasks *tasks = req->x->srv->env.tasks;
	struct task *t = tasks ? task_find(tasks, who->tenant_id, who->principal_id, id, len) : NULL;

	return t && scope_allows(who->scopes, SCOPE_TOOLS_CALL, t->of->name) ? t : NULL;
}

/* NULL: answered. */
static struct task *find(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct task *t;
	char id[ID_MAX] = "";
	struct rpc_error e;
	size_t len = 0;

	if (!(req->caps & CAP_TASKS)) {
		rpc_error_capability(&e, CAP_TASKS);
		req_fault(req, &e);
		return NULL;
	}
	if (!rpc_string(msg->rpc->task_id, id, sizeof(id), &len))
		len = 0;
	t = find_id(req, id, len);
	if (!t)
		not_found(req);
	return t;
}

/* --- what is answered later */

struct later {
	struct mcp_req *req;
	char id[TASK_ID_LEN + 1], peer[64];
	bool first;                     /* this credential is told the end for the first time */
	int rc;
	struct str text;
	bool has_text;
	bool notice;                    /* to a listen, while it is in this state */
	enum task_state state;
};

static struct later *later_new(struct mcp_req *req, const struct task *t)
{
	struct later *l = mem_zalloc(sizeof(*l));

	l->req = req;
	memcpy(l->id, t->id, sizeof(l->id));
	(void)snprintf(l->peer, sizeof(l->peer), "%s", req->x->peer ? req->x->peer : "");       /* an address fits */
	exchange_pin(req->x);
	return l;
}

static void later_free(struct later *l)
{
	struct mcp_exchange *x = l->req->x;

	str_fini(&l->text);
	free(l);
	exchange_unpin(x);
}

/* Of the one who asks. */
static void fill_event(const struct later *l, const struct task *t, enum audit_kind kind, struct audit_event *ev)
{
	const struct mcp_exchange *x = l->req->x;

	audit_event_init(ev, kind, x->who->tenant_id);
	ev->cred = x->who->cred_id ? x->who->accessor : NULL;
	ev->prn = x->who->pseudonym;
	ev->actor = x->who->authn == AUDIT_AUTHN_UID ? AUDIT_BY_UID : AUDIT_BY_SERVICE;
	ev->authn = x->who->authn;
	ev->tport = x->tport;
	ev->rev = rev_table[l->req->rev].text;
	ev->tool = t->of->tool;
	ev->has_prev = true;
	memcpy(ev->prev, t->call, sizeof(ev->prev));
	ev->peer = *l->peer ? l->peer : NULL;
}

/* --- tasks/get */

static void put_cut(const struct task *t, struct str *text)
{
	struct rpc_error e;
	char id[ID_TEXT_SIZE];

	rpc_error_init(&e, FAULT_INTERNAL, TASK_CUT_TEXT);
	rpc_error_text(&e, "callId", id_format(t->call, id));
	encode_error_object(text, &e);
	rpc_error_fini(&e);
}

/* What the state brings with it. */
static const char *part_of(enum task_state state)
{
	switch (state) {
	case TASK_COMPLETED:
		return "result";
	case TASK_FAILED:
		return "error";
	case TASK_INPUT:
		return "inputRequests";
	case TASK_WORKING:
	case TASK_CANCELLED:
	case TASK_HELD:
	case TASK_QUEUED:
	case TASK_FAR:
		break;
	}
	return NULL;
}

/* What it brings with it, as far as that was read. */
static void fill_part(struct later *l, const struct task *t, struct enc_task *task)
{
	mcp_task_view(t, task);
	if (t->state == TASK_FAILED && !l->has_text)
		put_cut(t, &l->text);
	task->part = part_of(t->state);
	task->text = l->text.p;
	task->text_len = l->text.len;
	if (!task_is_over(t->state) && !l->has_text)
		task->part = NULL;
}

/* What has changed meanwhile is told by itself. */
static void say(struct later *l, const struct task *t)
{
	struct str *out = &l->req->x->srv->out;
	struct enc_task task;

	if (l->rc < 0 || !t || t->state != l->state || l->req->mute || list_empty(&l->req->listen_link))
		return;
	fill_part(l, t, &task);
	str_reset(out);
	encode_task_notice(out, l->req->id, &task);
	req_notice(l->req, out);
}

static void answer_state(struct later *l)
{
	struct tasks *tasks = l->req->x->srv->env.tasks;
	struct task *t = task_by_id(tasks, l->id);
	struct enc_task task;
	struct rpc_error e;

	if (!l->req->open) {
	} else if (l->notice) {
		say(l, t);
	} else if (l->rc == ERR_BUSY || l->rc == ERR_AUDIT) {
		if (l->rc == ERR_BUSY)
			rpc_error_init(&e, FAULT_BUSY, NULL);
		else
			rpc_error_audit(&e, false);
		req_fault(l->req, &e);
	} else if (l->rc < 0 || !t) {
		not_found(l->req);
	} else {
		fill_part(l, t, &task);
		req_result(l->req, &(struct enc_result){ .kind = ENC_TASK_STATE, .task = &task });
	}
	later_free(l);
}

static void on_read_durable(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct later *l = arg;

	(void)receipt;
	l->rc = rc < 0 ? ERR_AUDIT : l->rc;
	answer_state(l);
}

/* TK-51: the first delivery of an end to a credential is on record before it leaves. */
static void record_read(struct later *l, struct task *t)
{
	const struct audit_field fields[] = { { AUDIT_TAG_TASK, t->id, TASK_ID_LEN } };
	struct audit_event ev;

	fill_event(l, t, AUDIT_TASK_READ, &ev);
	ev.field = fields;
	ev.nfield = 1;
	t->told = l->req->x->who->cred_id ? l->req->x->who->cred_id : -1;
	if (writer_audit(l->req->x->srv->env.writer, &ev, on_read_durable, l) < 0) {
		t->told = 0;
		on_read_durable(l, ERR_AUDIT, NULL);
	}
}

static void on_result(void *arg, int rc, const char *text, size_t len)
{
	struct later *l = arg;
	struct task *t = task_by_id(l->req->x->srv->env.tasks, l->id);

	l->rc = rc;
	l->has_text = text != NULL;
	if (text)
		str_put(&l->text, text, len);
	if (rc == 0 && t && t->told != (l->req->x->who->cred_id ? l->req->x->who->cred_id : -1))
		record_read(l, t);
	else
		answer_state(l);
}

/* What it asks.  If that is answered meanwhile, or is asked no more, so is this. */
static void on_questions(void *arg, int rc, const char *text, size_t len)
{
	struct later *l = arg;
	const struct task *t = task_by_id(l->req->x->srv->env.tasks, l->id);

	l->rc = rc;
	if (rc == 0 && t && t->state == TASK_INPUT && !text) {
		l->rc = ERR_BUSY;       /* it asks something else by now */
	} else if (text) {
		l->has_text = true;
		str_put(&l->text, text, len);
	}
	answer_state(l);
}

static void get(struct mcp_req *req, struct task *t)
{
	struct enc_task task;
	struct later *l;
	int rc;

	if (t->state == TASK_INPUT) {
		l = later_new(req, t);
		rc = call_task_questions(req->x->srv->env.calls, t, on_questions, l);
		if (rc < 0) {
			l->rc = rc;
			answer_state(l);
		}
		return;
	}
	if (!task_is_over(t->state)) {
		mcp_task_view(t, &task);
		req_result(req, &(struct enc_result){ .kind = ENC_TASK_STATE, .task = &task });
		return;
	}
	l = later_new(req, t);
	rc = task_result(req->x->srv->env.tasks, t, on_result, l);
	if (rc < 0) {
		l->rc = rc;
		answer_state(l);
	}
}

/* --- notices (TK-10) */

static void tell(struct mcp_req *req, const char *id)
{
	struct task *t = find_id(req, id, TASK_ID_LEN);
	struct later *l;
	int rc = 0;

	if (!t)
		return;
	l = later_new(req, t);
	l->notice = true;
	l->state = t->state;
	if (t->state == TASK_INPUT)
		rc = call_task_questions(req->x->srv->env.calls, t, on_questions, l);
	else if (task_is_over(t->state))
		rc = task_result(req->x->srv->env.tasks, t, on_result, l);
	else
		answer_state(l);
	if (rc < 0) {
		l->rc = rc;
		answer_state(l);
	}
}

/* The i-th: next_us first, since who is told may go away. */
static void tell_one(struct mcp_req *req, size_t i)
{
	req->tasks->of[i].due = false;
	req->tasks->of[i].next_us = ev_now_us(req->x->srv->env.loop) + MCP_TASK_NOTE_US;
	tell(req, req->tasks->of[i].id);
}

/* What is due; of what has ended or asks since, that was a notice of its own. */
static void on_due(void *arg)
{
	struct mcp_req *req = arg;
	struct mcp_exchange *x = req->x;
	const uint64_t now = ev_now_us(x->srv->env.loop);
	uint64_t next = UINT64_MAX;

	exchange_pin(x);
	for (size_t i = 0; req->tasks && i < req->tasks->n; i++) {
		const struct task *t;

		if (!req->tasks->of[i].due)
			continue;
		if (req->tasks->of[i].next_us > now) {
			next = req->tasks->of[i].next_us < next ? req->tasks->of[i].next_us : next;
			continue;
		}
		t = task_by_id(x->srv->env.tasks, req->tasks->of[i].id);
		req->tasks->of[i].due = false;
		if (t && !part_of(t->state) && !task_is_over(t->state))
			tell_one(req, i);
	}
	if (req->tasks && next < UINT64_MAX)
		ev_timer_start(req->tasks->timer, next - now);
	exchange_unpin(x);
}

/* It says something new of itself: at once, or when it is due. */
static void tell_note(struct mcp_req *req, size_t i)
{
	const uint64_t now = ev_now_us(req->x->srv->env.loop), next = req->tasks->of[i].next_us;

	if (next <= now) {
		tell_one(req, i);
		return;
	}
	req->tasks->of[i].due = true;
	if (!ev_timer_armed(req->tasks->timer))
		ev_timer_start(req->tasks->timer, next - now);
}

static void on_change(void *server, struct task *t, bool status)
{
	struct mcp_tenant *tenant = mcp_tenant_get(server, t->tenant_id);

	LIST_FOREACH_SAFE(link, tmp, &tenant->listens) {
		struct mcp_req *req = CONTAINER_OF(link, struct mcp_req, listen_link);
		size_t i = 0, n = mcp_ntasks(req);

		while (i < n && strcmp(req->tasks->of[i].id, t->id) != 0)
			i++;
		if (i < n && status)
			tell_one(req, i);
		else if (i < n)
			tell_note(req, i);
	}
}

static bool take(struct mcp_req *req, struct jx_span ids)
{
	char id[ID_MAX];
	struct rpc_walk w;
	struct jx_span v;
	size_t len, n = 0;

	rpc_walk_start(&w, ids);
	while (rpc_walk_element(&w, &v)) {
		const bool first = !req->tasks;
		const size_t at = mcp_ntasks(req);

		if (n++ == MCP_TASKS_MAX)
			return false;
		if (!rpc_string(v, id, sizeof(id), &len) || !find_id(req, id, len))
			continue;
		req->tasks = mem_realloc(req->tasks, sizeof(*req->tasks) + (at + 1) * sizeof(req->tasks->of[0]));
		if (first)
			req->tasks->timer = ev_timer_new(req->x->srv->env.loop, on_due, req);
		req->tasks->n = at + 1;
		req->tasks->of[at] = (struct mcp_heard_task){ .due = false };
		memcpy(req->tasks->of[at].id, id, sizeof(req->tasks->of[at].id));
	}
	return true;
}

static void begin(struct mcp_req *req)
{
	struct tasks *tasks = req->x->srv->env.tasks;

	/* What changed before this is told now, and what has not will be. */
	tasks_on_change(tasks, on_change, req->x->srv);
	for (size_t i = 0; i < mcp_ntasks(req); i++) {
		const struct task *t = task_by_id(tasks, req->tasks->of[i].id);

		if (t && (part_of(t->state) || task_is_over(t->state)))
			tell_one(req, i);
	}
}

static void end(struct mcp_req *req)
{
	ev_timer_free(&req->tasks->timer);
	free(req->tasks);
	req->tasks = NULL;
}

void m_listen_tasks(struct mcp_req *req, const struct mcp_msg *msg)
{
	static const struct mcp_task_ways ways = { take, begin, end };

	req->ways = &ways;
	m_listen(req, msg);
}

/* --- tasks/cancel */

static void acknowledge(struct mcp_req *req)
{
	req_result(req, &(struct enc_result){ .kind = ENC_EMPTY });
}

static void on_cancelled(void *arg, int rc)
{
	struct later *l = arg;
	struct rpc_error e;

	if (l->req->open && rc < 0) {
		rpc_error_audit(&e, false);
		req_fault(l->req, &e);
	} else if (l->req->open) {
		acknowledge(l->req);
	}
	later_free(l);
}

/* TK-34: who and why is durable before the handler is told. */
static void cancel(struct mcp_req *req, struct task *t)
{
	struct later *l = later_new(req, t);
	struct audit_event ev;
	int rc;

	fill_event(l, t, AUDIT_TASK_CANCEL, &ev);
	rc = call_task_cancel(req->x->srv->env.calls, t, &ev, on_cancelled, l);
	if (rc != 0)
		on_cancelled(l, rc < 0 ? rc : 0);
}

/* --- tasks/update */

/* An object of objects (TK-08); else why not. */
static const char *read_answers(struct jx_span raw, json_t **ret)
{
	json_t *value;
	const char *key;

	if (!rpc_is(raw, '{') || jx_parse_scanned(raw.p, raw.len, ret, NULL) < 0)
		return "params.inputResponses must be an object";
	json_object_foreach(*ret, key, value)
		if (!json_is_object(value))
			return "each member of params.inputResponses must be an object";
	return NULL;
}

static void refuse_answers(struct mcp_req *req, const char *why)
{
	struct rpc_error e;

	rpc_error_init(&e, FAULT_PARAMS, NULL);
	rpc_error_text(&e, "reason", why);
	req_fault(req, &e);
}

static void on_updated(void *arg, int rc)
{
	struct later *l = arg;
	struct rpc_error e;

	if (!l->req->open) {
	} else if (rc == 0) {
		acknowledge(l->req);
	} else if (rc == ERR_LIMIT) {
		refuse_answers(l->req, "the answers of a round may have 1 MiB");
	} else if (rc == ERR_NOT_FOUND) {
		not_found(l->req);
	} else {
		if (rc == ERR_BUSY)
			rpc_error_init(&e, FAULT_BUSY, NULL);
		else
			rpc_error_audit(&e, false);
		req_fault(l->req, &e);
	}
	later_free(l);
}

/* Of what is not asked, the acknowledgement alone (TK-09). */
static void update(struct mcp_req *req, const struct mcp_msg *msg, struct task *t)
{
	json_t *answers = NULL;
	const char *wrong = read_answers(msg->rpc->responses, &answers);
	struct audit_event ev;
	struct later *l;

	if (wrong) {
		json_decref(answers);
		refuse_answers(req, wrong);
		return;
	}
	l = later_new(req, t);
	fill_event(l, t, AUDIT_TASK_INPUT, &ev);
	call_task_answer(req->x->srv->env.calls, t, req->x->who, answers, &ev, on_updated, l);
}

/* --- all three */

void m_tasks(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct task *t = find(req, msg);

	if (!t)
		return;
	if (strcmp(req->method, "tasks/get") == 0)
		get(req, t);
	else if (strcmp(req->method, "tasks/cancel") == 0)
		cancel(req, t);
	else
		update(req, msg, t);
}
