/* The rig of the core's tests, and the doubles of the call engine and the writer. */

#include "config.h"

#include "rows.h"

#include "mcp_rig.h"

#include "base/map.h"
#include "writer/writer.h"

static const uint8_t master[32] = { 7 };
static const uint8_t call_id[16] = { 0xCA, 0x11 };

/* --- the writer */

struct waiting { writer_audit_fn *done; void *arg; };

static void on_durable(void *arg)
{
	struct waiting *wait = arg;

	wait->done(wait->arg, 0, NULL);
	free(wait);
}

int writer_audit(struct writer *w, const struct audit_event *ev, writer_audit_fn *done, void *arg)
{
	struct rig *r = (struct rig *)w;
	struct rig_record *rec = &r->records[r->nrecords];

	if (r->writer_down)
		return ERR_AUDIT;
	assert_true(r->nrecords < RIG_RECORDS_MAX);
	r->nrecords++;
	rec->kind = (int)ev->kind;
	rec->tenant_id = ev->tenant_id;
	rec->generation = ev->generation;
	rec->receivers = ev->receivers;
	snprintf(rec->cause, sizeof rec->cause, "%s", ev->detail ? ev->detail : "");
	if (done)
		ev_defer(r->loop, on_durable, mem_dup(&(struct waiting){ done, arg }, sizeof(struct waiting)));
	return 0;
}

/* No task is made here. */
int writer_change(struct writer *w, const struct audit_event *ev, size_t n, const struct writer_rows *rows,
		  const void *bytes, size_t len, writer_audit_fn *done, void *arg)
{
	return ERR_AUDIT;
}

int writer_submit(struct writer *w, const struct writer_job *job, void *arg)
{
	return ERR_AUDIT;
}

/* --- the call engine */

struct call { struct rig_call *c; };

bool call_may_record_denied(struct call_engine *eng, struct principal *who, enum call_refusal why)
{
	struct rig *r = (struct rig *)eng;

	return !r->denials_full;
}

void call_start(struct call_engine *eng, const struct call_req *req, const struct call_out *out, void *arg,
		struct call **ret)
{
	struct rig *r = (struct rig *)eng;
	struct rig_call *c = mem_zalloc(sizeof *c);

	assert_true(r->ncalls < RIG_CALLS_MAX);
	r->calls[r->ncalls++] = c;
	c->rig = r;
	c->req = *req;
	if (req->trace) {
		c->trace = *req->trace;
		c->req.trace = &c->trace;
	}
	c->tool = mem_strndup(req->tool, req->tool_len);
	c->args_text = mem_strndup(req->args_text, req->args_len);
	c->state = req->sealed_state ? mem_strndup(req->sealed_state, req->sealed_len) : NULL;
	if (req->nparams) {
		c->param_name = mem_strdup(req->params[0].name);
		c->param_value = mem_strndup(req->params[0].value, req->params[0].value_len);
	}
	c->out = out;
	c->arg = arg;
	*ret = (struct call *)c;
}

void rig_end_call(struct rig_call *c, struct call_end *end)
{
	struct rig *r = c->rig;

	assert_false(c->ended || c->detached);
	c->ended = true;
	c->out->finish(c->arg, end);
	rig_turn(r);
}

static void end_cancelled(void *arg)
{
	struct rig_call *c = arg;
	struct err err;
	struct call_end end = { .err = &err, .call_id = call_id };

	err_set(&err, ERR_CANCELLED, "", "cancelled");
	if (c->ended || c->detached)
		return;
	c->ended = true;
	c->out->finish(c->arg, &end);
}

void call_cancel(struct call *call, enum cancel_why why)
{
	struct rig_call *c = (struct rig_call *)call;

	assert_false(c->ended || c->detached);
	c->cancelled = true;
	c->why = why;
	ev_defer(c->rig->loop, end_cancelled, c);
}

size_t call_cancel_where(struct call_engine *eng, const struct call_where *where, enum cancel_why why)
{
	struct rig *r = (struct rig *)eng;
	size_t n = 0;

	for (size_t i = 0; i < r->ncalls; i++) {
		struct rig_call *c = r->calls[i];

		if (c->ended || c->detached || c->req.who->tenant_id != where->tenant_id ||
		    (where->cred_id && c->req.who->cred_id != where->cred_id))
			continue;
		call_cancel((struct call *)c, why);
		n++;
	}
	return n;
}

void call_detach(struct call *call)
{
	struct rig_call *c = (struct rig_call *)call;

	assert_false(c->ended || c->detached);
	c->detached = true;
}

void call_answer(struct call *call, json_t *answers)
{
	struct rig_call *c = (struct rig_call *)call;

	assert_false(c->ended || c->detached);
	json_decref(c->answers);
	c->answers = answers;
}

struct rig_watch {
	struct backend_watch base;
	struct rig *rig;
	char *uri;
	backend_changed_fn *fn;
	void *arg;
	struct rig_watch *next;
};

static void watch_end(struct backend_watch *base, bool recorded)
{
	struct rig_watch *w = CONTAINER_OF(base, struct rig_watch, base), **at = &w->rig->watches;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	w->rig->nwatches--;
	free(w->uri);
	free(w);
}

/* --- what messages are charged to */

int call_charge(struct call_engine *eng, const struct principal *who, unsigned cost, bool loose, struct err *err)
{
	struct rig *r = (struct rig *)eng;

	if (r->debt_ms && !loose) {
		err_set(err, ERR_RATE, "tenant/requests", "too many messages");
		err->retry_ms = r->debt_ms;
		return ERR_RATE;
	}
	r->charged += cost;
	return 0;
}

void call_charge_more(struct call_engine *eng, const struct principal *who, unsigned cost)
{
	((struct rig *)eng)->charged += cost;
}

void call_charge_back(struct call_engine *eng, const struct principal *who, unsigned cost)
{
	((struct rig *)eng)->charged -= cost;
}

bool call_shed(const struct call_engine *eng, const struct principal *who, unsigned percent)
{
	return ((const struct rig *)eng)->filled >= percent;
}

bool call_crowds(const struct call_engine *eng, const struct principal *who)
{
	return ((const struct rig *)eng)->filled >= 80;
}

int call_hold_stream(struct call_engine *eng, int64_t tenant_id, struct err *err)
{
	struct rig *r = (struct rig *)eng;

	if (r->no_streams)
		return err_set(err, ERR_BUSY, "server/streams", "too many");
	r->streams++;
	return 0;
}

void call_drop_stream(struct call_engine *eng, int64_t tenant_id)
{
	struct rig *r = (struct rig *)eng;

	assert_true(r->streams > 0);
	r->streams--;
}

int call_watch(struct call_engine *eng, struct reg_def *def, const struct backend_watch_req *req, struct backend_watch **ret,
	       struct err *err)
{
	struct rig *r = (struct rig *)eng;
	struct rig_watch *w;

	if (!req->recorded)
		return ERR_AUDIT;
	w = mem_zalloc(sizeof *w);
	*w = (struct rig_watch){ .base.end = watch_end, .rig = r, .fn = req->fn, .arg = req->arg, .next = r->watches,
				 .uri = mem_strdup(json_string_value(json_object_get(req->args, "uri"))) };
	r->watches = w;
	r->nwatches++;
	*ret = &w->base;
	return 0;
}

void rig_update(struct rig *r, const char *uri)
{
	for (struct rig_watch *w = r->watches; w; w = w->next)
		if (strcmp(w->uri, uri) == 0)
			w->fn(w->arg);
	rig_turn(r);
}

void rig_end_structured(struct rig_call *c, json_t *structured)
{
	struct backend_result res = { .content = json_array(), .structured = structured };
	struct call_end end = { .result = &res };

	rig_end_call(c, &end);
}

struct rig_call *rig_call(struct rig *r)
{
	assert_true(r->ncalls > 0);
	return r->calls[r->ncalls - 1];
}

void rig_end_text(struct rig_call *c, const char *text)
{
	json_t *block = json_object();
	struct backend_result res = { .content = json_array() };
	struct call_end end = { .result = &res, .call_id = NULL };

	json_object_set_new(block, "type", json_string("text"));
	json_object_set_new(block, "text", json_string(text));
	json_array_append_new(res.content, block);
	rig_end_call(c, &end);
}

void rig_end_refused(struct rig_call *c, enum call_refusal why, enum err_code code, const char *msg)
{
	struct err err;
	struct call_end end = { .err = &err, .refusal = why };

	err_set(&err, code, "", "%s", msg);
	rig_end_call(c, &end);
}

/* --- the server */

static int bind_none(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops,
		     const void **ret_plan, struct err *err)
{
	return 0;
}

struct told { struct rig *rig; size_t n; };

static void on_told(void *arg, const struct reg_news *news)
{
	struct told *t = arg;

	t->n += mcp_changed(t->rig->srv, news, "test");
}

static size_t apply(struct rig *r, struct reg_change *c)
{
	struct told t = { r, 0 };

	reg_apply(r->registry, &c, on_told, &t);
	rig_turn(r);
	return t.n;
}

static size_t tenant_changed(struct rig *r, int64_t tenant_id)
{
	struct rows *rows = r->rows;
	struct reg_change *c = NULL;

	ROWS_OK(reg_change_tenant(rows->db, tenant_id, &c, &rows_err));
	return apply(r, c);
}

int64_t rig_tool(struct rig *r, const char *name, const char *more)
{
	char *text = mem_printf("{\"name\":\"%s\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"}"
		"%s,"
				"\"handler\":{\"type\":\"fake\"}}", name, more);
	struct rows *rows = r->rows;
	int64_t id = rows_tool(rows, name, text);
	struct reg_change *c = NULL;

	free(text);
	ROWS_OK(reg_change_tool(rows->db, id, &c, &rows_err));
	apply(r, c);
	return id;
}

void rig_hosted(struct rig *r)
{
	static const struct { const char *name, *text; int kind; const char *uri; } items[] = {
		{ "prompt:greet", "{\"name\":\"greet\",\"arguments\":[{\"name\":\"who\"}],\"complete\":{\"who\":[\"Eve\",\"Bob\"]},"
				  "\"handler\":{\"type\":\"fake\"}}", 2, NULL },
		{ "resource:memo", "{\"name\":\"memo\",\"uri\":\"memo://one\",\"handler\":{\"type\":\"fake\"}}", 3, "memo://one" },
		{ "resource:page", "{\"name\":\"page\",\"uriTemplate\":\"page://{n}\",\"handler\":{\"type\":\"fake\"}}", 4, "page://{n}" },
	};
	struct rows *rows = r->rows;

	for (size_t i = 0; i < NELEMS(items); i++) {
		int64_t id = rows_item(rows, items[i].name, items[i].text, items[i].kind, items[i].uri);
		struct reg_change *c = NULL;

		ROWS_OK(reg_change_tool(rows->db, id, &c, &rows_err));
		apply(r, c);
	}
}

size_t rig_grant(struct rig *r, int64_t tenant_id, const char *glob)
{
	rows_grant(r->rows, tenant_id, glob, "");
	return tenant_changed(r, tenant_id);
}

size_t rig_ungrant(struct rig *r, int64_t tenant_id, const char *glob)
{
	rows_ungrant(r->rows, tenant_id, glob);
	return tenant_changed(r, tenant_id);
}

void rig_suspend(struct rig *r, int64_t tenant_id)
{
	struct rows *rows = r->rows;
	struct tenant_image *img = NULL;

	rows_tenant_state(rows, tenant_id, TENANT_SUSPENDED);
	ROWS_OK(tenant_image_load(rows->db, tenant_id, &img, &rows_err));
	tenants_apply(r->tenants, &img);
}

void rig_open(struct rig *r)
{
	struct rows *rows = mem_zalloc(sizeof *rows);
	struct mcp_env env;

	memset(r, 0, sizeof *r);
	r->rows = rows;
	rows_open(rows);
	r->acme = rows_tenant(rows, "acme");
	r->other = rows_tenant(rows, "other");
	r->loop = ev_loop_new();
	ROWS_OK(tenants_open(master, rows->db, &r->tenants, &rows_err));
	ROWS_OK(principal_named(r->tenants, "acme", NULL, AUDIT_AUTHN_BOUND, &r->who_acme, &rows_err));
	ROWS_OK(principal_named(r->tenants, "other", NULL, AUDIT_AUTHN_BOUND, &r->who_other, &rows_err));
	r->registry = registry_new(bind_none);
	env = (struct mcp_env){ r->loop, r->tenants, r->registry, (struct call_engine *)r,
		NULL, (struct writer *)r, NULL, master, "1.0", false, false, NULL, NULL };
	r->srv = mcp_server_new(&env);
	r->echo = rig_tool(r, "echo", "");
	r->secret = rig_tool(r, "secret", "");
	(void)rig_tool(r, "private", "");
	rig_grant(r, r->acme, "echo");
	rig_grant(r, r->acme, "secret");
	rig_grant(r, r->other, "echo");
	rig_grant(r, r->other, "private");
}

void rig_forget_calls(struct rig *r)
{
	for (size_t i = 0; i < r->ncalls; i++) {
		struct rig_call *c = r->calls[i];

		if (!c->ended && !c->detached)
			end_cancelled(c);
		reg_release(r->registry, &c->req.snap);
		json_decref(c->req.args);
		json_decref(c->req.answers);
		json_decref(c->answers);
		free(c->tool);
		free(c->args_text);
		free(c->state);
		free(c->param_name);
		free(c->param_value);
		free(c);
	}
	r->ncalls = 0;
}

void rig_close(struct rig *r)
{
	rig_turn(r);
	mcp_server_free(&r->srv);
	rig_turn(r);
	rig_forget_calls(r);
	principal_unref(&r->who_acme);
	principal_unref(&r->who_other);
	registry_free(&r->registry);
	tenants_close(&r->tenants);
	ev_loop_free(&r->loop);
	rows_close(r->rows);
	free(r->rows);
}

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

void rig_turn(struct rig *r)
{
	/* What is deferred may defer again. */
	for (int i = 0; i < 4; i++) {
		bool done = false;

		ev_defer(r->loop, set_true, &done);
		assert_true(ev_loop_run_until(r->loop, &done, 1000));
	}
}

/* --- boxes */

static void box_add(struct rig_box *b, const char *text, size_t len)
{
	assert_true(b->n < NELEMS(b->text));
	assert_null(memchr(text, '\n', len));
	b->text[b->n++] = mem_strndup(text, len);
}

void rig_box_free(struct rig_box *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->text[i]);
	memset(b, 0, sizeof *b);
}

const char *rig_next(struct rig_box *b)
{
	if (b->read == b->n)
		fail_msg("nothing has come");
	return b->text[b->read++];
}

void rig_none(struct rig_box *b)
{
	if (b->read < b->n)
		fail_msg("unexpected: %s", b->text[b->read]);
}

void rig_expect(struct rig_box *b, const char *want)
{
	assert_string_equal(rig_next(b), want);
}

void rig_expect_has(struct rig_box *b, const char *part)
{
	const char *text = rig_next(b);

	if (!strstr(text, part))
		fail_msg("%s is not in %s", part, text);
}

/* --- byte streams */

static void peer_push(void *arg, const char *text, size_t len)
{
	struct rig_peer *p = arg;

	box_add(&p->box, text, len);
}

static size_t peer_queued(const void *arg)
{
	const struct rig_peer *p = arg;

	return p->queued;
}

static void peer_hang_up(void *arg)
{
	struct rig_peer *p = arg;

	p->hung_up = true;
}

static const struct mcp_push_ops peer_push_ops = { peer_push, peer_queued, peer_hang_up };

static void peer_finish(void *arg, const struct mcp_answer *a)
{
	struct rig_peer *p = arg;

	p->finishes++;
	p->told_to_close |= a->hang_up;
	if (a->len)
		box_add(&p->box, a->text, a->len);
}

static const struct mcp_sink_ops peer_sink_ops = { peer_push, peer_finish };

void rig_peer_open(struct rig *r, struct rig_peer *p, struct principal *who)
{
	memset(p, 0, sizeof *p);
	p->rig = r;
	p->who = who;
	p->tport = AUDIT_TCP;
	p->ch = mcp_channel_new(r->srv, &peer_push_ops, p, who, p->tport);
}

void rig_peer_close(struct rig_peer *p)
{
	mcp_channel_close(&p->ch);
	rig_turn(p->rig);
	rig_box_free(&p->box);
}

void rig_feed(struct rig_peer *p, const char *line)
{
	struct mcp_in in = { .text = line, .len = strlen(line), .who = p->who, .tport = p->tport };
	struct mcp_sink sink = { &peer_sink_ops, p };
	unsigned before = p->finishes;
	struct mcp_exchange *x = NULL;

	mcp_input(p->rig->srv, p->ch, &in, &sink, &x);
	assert_int_equal(p->finishes, before);          /* no end before the return */
	assert_true(x || p->told_to_close || p->put_out);             /* what hangs up hears nothing more (MCP B-06) */
}

void rig_send(struct rig_peer *p, const char *line)
{
	rig_feed(p, line);
	rig_turn(p->rig);
}

void rig_handshake(struct rig_peer *p, enum rev rev, const char *capabilities)
{
	char *line = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":\"init\",\"method\":\"initialize\",\"params\":{"
		"\"protocolVersion\":\"%s\","
				"\"capabilities\":%s,\"clientInfo\":{\"name\":\"rig\",\"version\":\"1\"}}}",
				rev_table[rev].text, capabilities);
	char *want = mem_printf("\"id\":\"init\",\"result\":{\"protocolVersion\":\"%s\"", rev_table[rev].text);

	rig_send(p, line);
	rig_expect_has(&p->box, want);
	rig_send(p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	free(line);
	free(want);
}

/* --- HTTP */

static void http_notice(void *arg, const char *text, size_t len)
{
	struct rig_http *h = arg;

	assert_false(h->finished);
	h->notices++;
	box_add(&h->box, text, len);
}

static void http_finish(void *arg, const struct mcp_answer *a)
{
	struct rig_http *h = arg;

	assert_false(h->finished);
	h->finished = true;
	h->x = NULL;
	h->status = a->status;
	h->retry_after_s = a->retry_after_s;
	snprintf(h->session, sizeof h->session, "%s", a->session ? a->session : "");
	snprintf(h->scope, sizeof h->scope, "%s", a->scope ? a->scope : "");
	if (a->len)
		box_add(&h->box, a->text, a->len);
}

static const struct mcp_sink_ops http_sink_ops = { http_notice, http_finish };

void rig_post(struct rig *r, struct rig_http *h, struct principal *who, const struct rig_head *head,
	const char *body)
{
	struct mcp_param param = { head->param, head->param_value,
		head->param_value ? strlen(head->param_value) : 0 };
	struct mcp_headers http = {
		.version = head->version, .session = head->session, .method = head->method, .name = head->name,
		.params = &param, .nparams = head->param ? 1 : 0, .duplicate = head->duplicate,
		.sse_ok = !head->no_sse, .traceparent = head->traceparent, .tracestate = head->tracestate,
	};
	struct mcp_in in = { .text = body, .len = strlen(body), .who = who, .http = &http,
		.tport = AUDIT_HTTP };
	struct mcp_sink sink = { &http_sink_ops, h };

	memset(h, 0, sizeof *h);
	h->rig = r;
	mcp_input(r->srv, NULL, &in, &sink, &h->x);
	assert_false(h->finished);
	rig_turn(r);
}

void rig_http_free(struct rig_http *h)
{
	if (!h->finished && h->x)
		mcp_exchange_gone(&h->x);
	rig_turn(h->rig);
	rig_box_free(&h->box);
}

char *rig_modern_line(const char *id, const char *method, const char *params, const char *capabilities)
{
	return mem_printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"%s\",\"params\":{\"_meta\":{"
			  "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
			  "\"io.modelcontextprotocol/clientCapabilities\":%s}%s}}", id, method, capabilities,
				params);
}

void rig_modern(struct rig *r, struct rig_http *h, const char *method, const char *name, const char *params,
		const char *capabilities)
{
	struct rig_head head = { .version = "2026-07-28", .method = method, .name = name };
	char *body = rig_modern_line("1", method, params, capabilities);

	rig_post(r, h, r->who_acme, &head, body);
	free(body);
}

static void stream_push(void *arg, const char *text, size_t len)
{
	struct rig_stream *s = arg;

	box_add(&s->box, text, len);
}

static void stream_hang_up(void *arg)
{
	struct rig_stream *s = arg;

	s->hung_up = true;
}

static size_t stream_queued(const void *arg)
{
	return 0;
}

static const struct mcp_push_ops stream_ops = { stream_push, stream_queued, stream_hang_up };

void rig_stream_open(struct rig *r, struct rig_stream *s, const char *session, struct principal *who)
{
	struct mcp_session *found = NULL;

	memset(s, 0, sizeof *s);
	s->rig = r;
	assert_int_equal(mcp_session_find(r->srv, session, who, &found, NULL), 0);
	mcp_session_stream(found, &stream_ops, s, who);
}

void rig_stream_close(struct rig_stream *s, const char *session)
{
	mcp_session_stream_gone(s->rig->srv, session, s);
	rig_box_free(&s->box);
}
