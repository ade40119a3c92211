/* Scripted clients: connections, POSTs and their headers, the order of what comes back. */

#include "config.h"

#include "rows.h"

#include "client.h"

#include <stdio.h>

#include "base/clock.h"
#include "json/json.h"

#define CLAIM "io.modelcontextprotocol/protocolVersion"
#define REPLAY_DRAIN_MS 2000            /* as the daemon's default (MCP B-56) */
#define PUMP_TURNS 8
#define NOW_US 1800000000000000ull

const char *const way_names[WAY_COUNT] = { "tcp", "unix", "stdio", "sse", "http" };

/* --- the world */

void world_open(struct world *w)
{
	struct rows *rows;

	memset(w, 0, sizeof *w);
	clock_fake(NOW_US, NOW_US);
	rig_open(&w->core);
	rig_hosted(&w->core);
	rows = w->core.rows;
	for (int way = 0; way < WAY_COUNT; way++) {
		struct tr_rig *tr = &w->tr[way];

		if (way == WAY_SSE)
			continue;
		tr->loop = w->core.loop;
		tr->tenants = w->core.tenants;
		tr->srv = w->core.srv;
		tr_attach(tr, way_names[way], rows->dir, REPLAY_DRAIN_MS);
		tr->conf.tenant = mem_strdup("acme");
		tr_listen(tr);
	}
}

void world_close(struct world *w)
{
	for (int way = 0; way < WAY_COUNT; way++) {
		if (way == WAY_SSE)
			continue;
		free(w->tr[way].conf.tenant);
		tr_detach(&w->tr[way]);
	}
	rig_close(&w->core);
	clock_real();
}

void world_pump(struct world *w)
{
	const bool never = false;

	for (int i = 0; i < PUMP_TURNS; i++)
		(void)ev_loop_run_until(w->core.loop, &never, 0);
	w->core.nrecords = 0;
}

/* --- connections */

static bool is_line(const struct client *c)
{
	return c->way < WAY_SSE;
}

static struct tr_peer *dial(struct client *c)
{
	enum way way = c->way == WAY_SSE ? WAY_HTTP : c->way;
	struct tr_rig *tr = &c->world->tr[way];
	/* The listeners are bound to their tenant; standard input has no listener. */
	struct tr_peer *p = tr_dial(tr, way == WAY_STDIO ? "acme" : NULL);

	assert_true(c->nconns < CLIENT_CONNS_MAX);
	c->conn[c->nconns++] = p;
	return p;
}

/* Of a client on a byte stream or HTTP+SSE: the connection that answers come on. */
static struct tr_peer *main_conn(struct client *c)
{
	for (size_t i = c->nconns; i-- > 0;)
		if (c->conn[i] && (is_line(c) || c->conn[i]->endpoint[0]))
			return c->conn[i];
	return NULL;
}

static void request(struct client *c, struct tr_peer *p, const char *method, const char *path, const char *more,
		    const char *body)
{
	struct str s = STR_INIT;

	str_printf(&s, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\n%s", method, path,
		   c->world->tr[WAY_HTTP].address, more);
	if (body)
		str_printf(&s, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
	str_puts(&s, "\r\n");
	if (body)
		str_puts(&s, body);
	tr_raw(p, s.p, s.len);
	str_fini(&s);
}

static void sse_dial(struct client *c)
{
	struct tr_peer *p = dial(c);

	request(c, p, "GET", "/sse", "", NULL);
	for (int i = 0; i < 4 && !p->endpoint[0]; i++)
		world_pump(c->world);
	assert_true(p->endpoint[0] != '\0');
}

/* --- headers of a POST */

/* Nothing, when the script says so; what the script says; else value, unless that is NULL. */
static void put_header(struct client *c, struct str *out, const char *name, const char *value)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < c->nheaders; i++) {
		if (strncasecmp(c->header[i], name, n) == 0 && c->header[i][n] == ':')
			return;
	}
	if (value)
		str_printf(out, "%s: %s\r\n", name, value);
}

void client_header(struct client *c, const char *line)
{
	assert_true(c->nheaders < CLIENT_HEADERS_MAX);
	c->header[c->nheaders++] = mem_strdup(line);
}

static void drop_headers(struct client *c)
{
	while (c->nheaders)
		free(c->header[--c->nheaders]);
}

/* What Mcp-Name says (MCP H-33). */
static const char *repeated(const char *method, const json_t *params)
{
	static const struct { const char *method, *member; } rows[] = {
		{ "tools/call", "name" }, { "prompts/get", "name" }, { "resources/read", "uri" } };

	for (size_t i = 0; method && i < NELEMS(rows); i++)
		if (strcmp(method, rows[i].method) == 0)
			return json_string_value(json_object_get(params, rows[i].member));
	return NULL;
}

static void put_headers(struct client *c, struct str *out, const char *text, const char *rev)
{
	json_t *msg = NULL, *params;
	const char *claim, *method;

	if (jx_parse(text, strlen(text), &msg, NULL) < 0)
		msg = NULL;     /* its script knows why */
	params = json_object_get(msg, "params");
	claim = json_string_value(json_object_get(json_object_get(params, "_meta"), CLAIM));
	method = json_string_value(json_object_get(msg, "method"));
	if (claim) {
		put_header(c, out, "MCP-Protocol-Version", claim);
		put_header(c, out, "Mcp-Method", method);
		put_header(c, out, "Mcp-Name", repeated(method, params));
	} else if (c->session[0]) {
		/* A client that speaks both eras has no session where it is not answered in one. */
		put_header(c, out, "MCP-Protocol-Version", rev);
		put_header(c, out, "Mcp-Session-Id", c->session);
	}
	for (size_t i = 0; i < c->nheaders; i++) {
		const char *value = strchr(c->header[i], ':') + 1;

		if (*value)
			str_printf(out, "%s\r\n", c->header[i]);
	}
	drop_headers(c);
	json_decref(msg);
}

/* --- talk */

void client_send(struct client *c, const char *text, const char *rev)
{
	struct str more = STR_INIT;

	if (c->way == WAY_HTTP) {
		client_gather(c);       /* the session may have come */
		put_headers(c, &more, text, rev);
		request(c, dial(c), "POST", "/mcp", str_text(&more), text);
		str_fini(&more);
		return;
	}
	if (!main_conn(c)) {
		if (c->way == WAY_SSE)
			sse_dial(c);
		else
			(void)dial(c);
	}
	if (c->way == WAY_SSE) {
		const char *endpoint = main_conn(c)->endpoint;

		request(c, dial(c), "POST", endpoint, "", text);
		world_pump(c->world);   /* POSTs on several connections have no order of their own */
		return;
	}
	tr_say(main_conn(c), text);
}

static void on_session(struct client *c, const char *method)
{
	struct str more = STR_INIT;

	client_gather(c);
	assert_true(c->session[0] != '\0');
	str_printf(&more, "Mcp-Session-Id: %s\r\n", c->session);
	request(c, dial(c), method, "/mcp", more.p, NULL);
	str_fini(&more);
	world_pump(c->world);
}

void client_get(struct client *c)
{
	on_session(c, "GET");
}

void client_delete(struct client *c)
{
	on_session(c, "DELETE");
}

static void note_head(struct client *c, size_t i)
{
	static const char name[] = "\r\nMcp-Session-Id: ";
	const struct tr_peer *p = c->conn[i];
	const char *at;

	if (p->heads == c->heads[i])
		return;
	c->heads[i] = p->heads;
	c->status = p->status;
	at = strstr(p->head, name);
	if (at)
		(void)snprintf(c->session, sizeof c->session, "%.*s", (int)strcspn(at + sizeof name - 1, "\r"),
			       at + sizeof name - 1);
}

void client_gather(struct client *c)
{
	world_pump(c->world);
	for (size_t i = 0; i < c->nconns; i++) {
		struct tr_peer *p = c->conn[i];

		if (!p)
			continue;
		note_head(c, i);
		for (; c->taken[i] < p->n; c->taken[i]++) {
			const struct tr_text *t = &p->box[c->taken[i]];

			/* POSTs of HTTP+SSE are answered in words, refusals of GET and DELETE too. */
			if ((c->way == WAY_SSE && !p->endpoint[0]) || t->p[0] == 'n' || t->p[0] == 'G')
				continue;
			assert_true(c->box.n < NELEMS(c->box.text));
			c->box.text[c->box.n++] = mem_strndup(t->p, t->len);
		}
	}
}

/* --- ends */

static void leave(struct client *c, void (*how)(struct tr_peer **p))
{
	client_gather(c);
	for (size_t i = 0; i < c->nconns; i++)
		if (c->conn[i])
			how(&c->conn[i]);
	world_pump(c->world);
}

void client_close(struct client *c)
{
	leave(c, tr_hang_up);
}

void client_vanish(struct client *c)
{
	leave(c, tr_vanish);
}

void client_end_input(struct client *c)
{
	for (size_t i = 0; i < c->nconns; i++)
		if (c->conn[i])
			tr_end_input(c->conn[i]);
	world_pump(c->world);
}

bool client_ended(const struct client *c)
{
	for (size_t i = 0; i < c->nconns; i++) {
		const struct tr_peer *p = c->conn[i];

		if (p && !p->eof && (is_line(c) || p->replies == 0))
			return false;
	}
	return true;
}

void client_free(struct client *c)
{
	drop_headers(c);
	rig_box_free(&c->box);
	memset(c, 0, sizeof *c);
}
