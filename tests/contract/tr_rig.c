/* The rig of the transports' tests: the store, the listener, and peers. */

#include "config.h"

#include "rows.h"

#include "tr_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "audit/audit.h"
#include "ev/ev.h"

#define TURN_MS 1
#define SETTLE_TURNS 3

static const uint8_t master[32] = { 7 };

/* One for all tests of a program: none changes it for good. */
static struct rows store;
static struct key_new acme_key, other_key;

/* --- the world */

static struct key_new add_key(const char *tenant)
{
	int64_t id = rows_tenant(&store, tenant);
	int64_t bot = rows_principal(&store, id, "bot");
	struct key_pepper pepper;
	struct key_new key;

	key_pepper_derive(master, &pepper);
	key_make(&pepper, &key);
	(void)rows_key(&store, id, bot, &key, 0);
	return key;
}

int tr_store_open(void **state)
{
	(void)state;
	rows_open(&store);
	acme_key = add_key("acme");
	other_key = add_key("other");
	return 0;
}

int tr_store_close(void **state)
{
	(void)state;
	rows_close(&store);
	return 0;
}

void tr_open(struct tr_rig *rig, const char *name)
{
	struct mcp_env env = { 0 };

	memset(rig, 0, sizeof *rig);
	rig->acme = acme_key;
	rig->other = other_key;
	ROWS_OK(tenants_open(master, store.db, &rig->tenants, &rows_err));
	rig->loop = ev_loop_new();
	env.loop = rig->loop;
	rig->srv = mcp_server_new(&env);
	tr_attach(rig, name, store.dir, TR_DRAIN_MS);
}

void tr_attach(struct tr_rig *rig, const char *name, const char *dir, uint32_t drain_ms)
{
	rig->gate = gate_new(rig->loop, &(struct gate_limits){ 0 });
	rig->env = (struct transport_env){ .loop = rig->loop, .mcp = rig->srv, .tenants = rig->tenants, .drain_ms = drain_ms,
		.gate = rig->gate };
	rig->conf.connections_max = TR_PEERS_MAX;
	rig->sse = strcmp(name, "sse") == 0;
	for (size_t i = 0; transport_all[i]; i++)
		if (strcmp(transport_all[i]->name, rig->sse ? "http" : name) == 0)
			rig->ops = transport_all[i];
	assert_int_equal(rig->ops == NULL, strcmp(name, "stdio") == 0);
	if (rig->ops == &tr_unix) {
		char path[100];

		rig->conf.transport = CONF_UNIX;
		rig->conf.address = mem_strdup(tmpdir_path(dir, "mcp.sock", path, sizeof path));
	} else {
		rig->conf.transport = rig->ops == &tr_http ? CONF_HTTP : CONF_TCP;
		rig->conf.address = mem_strdup("127.0.0.1:0");
	}
}

void tr_listen(struct tr_rig *rig)
{
	if (!rig->ops)
		return;
	ROWS_OK(rig->ops->check(&rig->conf, &rows_err));
	ROWS_OK(rig->ops->open(&rig->env, &rig->conf, &rig->t, &rows_err));
	(void)snprintf(rig->address, sizeof rig->address, "%s", rig->ops->address(rig->t));
	if (rig->ops != &tr_unix)
		ROWS_OK(addr_parse(rig->address, &rig->addr, &rows_err));
}

uint64_t tr_real_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void tr_turn(struct tr_rig *rig)
{
	rig->poke = false;
	(void)ev_loop_run_until(rig->loop, &rig->poke, TURN_MS);
}

void tr_settle(struct tr_rig *rig)
{
	for (unsigned i = 0; i < SETTLE_TURNS; i++)
		tr_turn(rig);
}

void tr_tenant_state(struct tr_rig *rig, const char *tenant, enum tenant_state to)
{
	int64_t id = tenant_by_name(rig->tenants, tenant, strlen(tenant))->id;
	struct tenant_image *img = NULL;

	rows_tenant_state(&store, id, to);
	ROWS_OK(tenant_image_load(store.db, id, &img, &rows_err));
	tenants_apply(rig->tenants, &img);
}

static void peer_free(struct tr_peer *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->box[i].p);
	str_fini(&p->in);
	str_fini(&p->body);
	free(p);
}

static void disconnect(struct tr_peer *p)
{
	ev_io_free(&p->io);
	if (p->out_fd >= 0 && p->out_fd != p->in_fd)
		close(p->out_fd);
	if (p->in_fd >= 0)
		close(p->in_fd);
	p->in_fd = p->out_fd = -1;
}

void tr_drop_peers(struct tr_rig *rig)
{
	for (size_t i = 0; i < rig->npeers; i++) {
		tr_stdio_close(&rig->peers[i]->stdio);
		disconnect(rig->peers[i]);
		peer_free(rig->peers[i]);
	}
	rig->npeers = 0;
}

void tr_detach(struct tr_rig *rig)
{
	if (rig->t)
		rig->ops->close(&rig->t);
	tr_drop_peers(rig);
	tr_settle(rig);
	gate_free(&rig->gate);
	free(rig->conf.address);
}

void tr_close(struct tr_rig *rig)
{
	tr_detach(rig);
	mcp_server_free(&rig->srv);
	ev_loop_free(&rig->loop);
	tenants_close(&rig->tenants);
}

/* --- what a peer receives */

static void box_put(struct tr_peer *p, const char *text, size_t len)
{
	assert_true(p->n < TR_BOX_MAX);
	p->box[p->n++] = (struct tr_text){ mem_strndup(text, len), len, p->status };
}

static const char *rest(const struct tr_peer *p, size_t *ret_len)
{
	*ret_len = p->in.len - p->at;
	return p->in.p + p->at;
}

static bool take_line(struct tr_peer *p)
{
	size_t len;
	const char *at = rest(p, &len), *end = len ? memchr(at, '\n', len) : NULL;

	if (!end)
		return false;
	box_put(p, at, (size_t)(end - at));
	p->at += (size_t)(end - at) + 1;
	return true;
}

/* One event: a comment, or "event: message" and one data line (MCP B-53); where to POST comes first (MCP O-01). */
static void take_event(struct tr_peer *p, const char *text, size_t len)
{
	static const char begin[] = "event: message\ndata: ", endpoint[] = "event: endpoint\ndata: ";
	const size_t n = sizeof begin - 1, m = sizeof endpoint - 1;

	if (len == 1 && text[0] == ':') {
		p->comments++;
		return;
	}
	if (!p->endpoint[0] && len > m && memcmp(text, endpoint, m) == 0) {
		assert_true(len - m < sizeof p->endpoint);
		memcpy(p->endpoint, text + m, len - m);
		return;
	}
	assert_true(len >= n);
	assert_memory_equal(text, begin, n);
	assert_null(memchr(text + n, '\n', len - n));
	box_put(p, text + n, len - n);
}

static void take_events(struct tr_peer *p)
{

	for (;;) {
		const char *text = str_text(&p->body), *end = p->body.len ? memmem(text, p->body.len, "\n\n", 2) : NULL;

		if (!end)
			return;
		size_t len = (size_t)(end - text);

		take_event(p, text, len);
		str_drop_front(&p->body, len + 2);
	}
}

static bool take_head(struct tr_peer *p)
{
	size_t len;
	const char *at = rest(p, &len), *end = len ? memmem(at, len, "\r\n\r\n", 4) : NULL, *length;

	if (!end)
		return false;
	len = (size_t)(end - at) + 4;
	assert_true(len < sizeof p->head);
	memcpy(p->head, at, len);
	p->head[len] = '\0';
	p->at += len;
	assert_int_equal(sscanf(p->head, "HTTP/1.1 %d ", &p->status), 1);
	p->heads++;
	str_reset(&p->body);
	length = strstr(p->head, "\r\nContent-Length: ");
	p->left = length ? strtoul(length + 18, NULL, 10) : 0;
	p->state = strstr(p->head, "\r\nTransfer-Encoding: chunked\r\n") ? TR_CHUNK : TR_BODY;
	return true;
}

static bool take_body(struct tr_peer *p)
{
	size_t len;
	const char *at = rest(p, &len);

	if (len < p->left)
		return false;
	str_put(&p->body, at, p->left);
	p->at += p->left;
	if (p->left > 0)
		box_put(p, at, p->left);
	p->replies++;
	p->state = TR_HEAD;
	return true;
}

static bool take_chunk(struct tr_peer *p)
{
	size_t len;
	const char *at = rest(p, &len), *end = len ? memmem(at, len, "\r\n", 2) : NULL;
	size_t size, head;

	if (!end)
		return false;
	size = strtoul(at, NULL, 16);
	head = (size_t)(end - at) + 2;
	if (len < head + size + 2)
		return false;
	assert_memory_equal(at + head + size, "\r\n", 2);
	str_put(&p->body, at + head, size);
	p->at += head + size + 2;
	take_events(p);
	if (size == 0) {
		assert_int_equal(p->body.len, 0);
		p->replies++;
		p->state = TR_HEAD;
	}
	return true;
}

static bool take(struct tr_peer *p)
{
	if (!p->http)
		return take_line(p);
	switch (p->state) {
	case TR_HEAD:
		return take_head(p);
	case TR_BODY:
		return take_body(p);
	case TR_CHUNK:
		return take_chunk(p);
	}
	return false;
}

static void on_io(void *arg, bool readable, bool writable)
{
	struct tr_peer *p = arg;
	char bytes[65536];
	ssize_t n = read(p->in_fd, bytes, sizeof bytes);

	p->rig->poke = true;
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		p->eof = true;
		ev_io_want(p->io, false, false);
		return;
	}
	str_put(&p->in, bytes, (size_t)n);
	while (take(p))
		;
	str_drop_front(&p->in, p->at);
	p->at = 0;
}

/* --- connections */

static void dial_socket(struct tr_peer *p)
{
	struct tr_rig *rig = p->rig;
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const struct sockaddr *to = (const void *)&rig->addr.sa;
	socklen_t len = rig->addr.len;
	const int on = 1;

	if (rig->ops == &tr_unix) {
		(void)snprintf(sun.sun_path, sizeof sun.sun_path, "%s", rig->conf.address);
		to = (const void *)&sun;
		len = sizeof sun;
	}
	p->in_fd = p->out_fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(p->in_fd >= 0);
	assert_int_equal(connect(p->in_fd, to, len), 0);
	assert_int_equal(fcntl(p->in_fd, F_SETFL, O_NONBLOCK), 0);
	/* A second small message does not wait for the first one's acknowledgement. */
	if (rig->ops != &tr_unix)
		assert_int_equal(setsockopt(p->in_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
}

static void stdio_ended(void *arg)
{
	struct tr_rig *rig = arg;

	rig->stdio_ended++;
}

static void dial_stdio(struct tr_peer *p)
{
	struct tr_rig *rig = p->rig;
	struct principal *who = NULL;
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
	ROWS_OK(principal_named(rig->tenants, p->tenant, NULL, AUDIT_AUTHN_BOUND, &who, &rows_err));
	ROWS_OK(tr_stdio_open(&rig->env, in[0], out[1], who, stdio_ended, rig, &p->stdio, &rows_err));
	principal_unref(&who);
	p->out_fd = in[1];
	p->in_fd = out[0];
}

static struct tr_peer *connect_peer(struct tr_rig *rig, const char *tenant)
{
	struct tr_peer *p = mem_zalloc(sizeof *p);

	assert_true(rig->npeers < TR_PEERS_MAX);
	rig->peers[rig->npeers++] = p;
	p->rig = rig;
	p->http = rig->ops == &tr_http;
	if (tenant) {
		(void)snprintf(p->tenant, sizeof p->tenant, "%s", tenant);
		memcpy(p->key, strcmp(tenant, "acme") == 0 ? rig->acme.text : rig->other.text, sizeof p->key);
	}
	if (rig->ops)
		dial_socket(p);
	else
		dial_stdio(p);
	p->io = ev_io_new(rig->loop, p->in_fd, on_io, p);
	ev_io_want(p->io, true, false);
	return p;
}

struct tr_peer *tr_dial(struct tr_rig *rig, const char *tenant)
{
	struct tr_peer *p = connect_peer(rig, tenant);
	struct str hello = STR_INIT;

	if (!tenant || (p->http && !rig->sse) || !rig->ops)
		return p;
	if (rig->sse)
		str_printf(&hello, "GET /sse HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
			   "Accept: text/event-stream\r\n\r\n", rig->address, p->key);
	else
		str_printf(&hello, "Authorization: Bearer %s\n", p->key);
	tr_rawz(p, hello.p);
	str_fini(&hello);
	if (rig->sse) {
		TR_WAIT(rig, p->endpoint[0]);
		p->door = connect_peer(rig, tenant);
	}
	return p;
}

void tr_hang_up(struct tr_peer **p)
{
	if ((*p)->door)
		disconnect((*p)->door);
	disconnect(*p);
	*p = NULL;
}

void tr_vanish(struct tr_peer **p)
{
	const struct linger now = { .l_onoff = 1 };

	if ((*p)->in_fd == (*p)->out_fd)
		(void)setsockopt((*p)->in_fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	tr_hang_up(p);
}

void tr_end_input(struct tr_peer *p)
{
	if (p->door)
		tr_end_input(p->door);
	if (p->in_fd == p->out_fd) {
		assert_int_equal(shutdown(p->out_fd, SHUT_WR), 0);
		return;
	}
	close(p->out_fd);
	p->out_fd = -1;
}

void tr_read(struct tr_peer *p, bool on)
{
	ev_io_want(p->io, on, false);
}

/* --- talk */

void tr_raw(struct tr_peer *p, const void *bytes, size_t len)
{
	const char *at = bytes;
	uint64_t end = tr_real_ms() + TR_WAIT_MS;

	if (p->door)
		p = p->door;
	while (len > 0 && !p->eof) {
		ssize_t n = write(p->out_fd, at, len);

		if (n < 0 && errno != EAGAIN)
			return;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
			continue;
		}
		if (tr_real_ms() >= end)
			fail_msg("%zu bytes are not taken", len);
		tr_turn(p->rig);
	}
}

void tr_rawz(struct tr_peer *p, const char *text)
{
	tr_raw(p, text, strlen(text));
}

void tr_frame(const struct tr_peer *p, const char *text, struct str *out)
{
	if (p->http)
		str_printf(out, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
			   "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
			   "Content-Length: %zu\r\n\r\n%s", p->door ? p->endpoint : "/mcp", p->rig->address, p->key, strlen(text), text);
	else
		str_printf(out, "%s\n", text);
}

void tr_say(struct tr_peer *p, const char *text)
{
	struct str s = STR_INIT;

	tr_frame(p, text, &s);
	tr_raw(p, s.p, s.len);
	str_fini(&s);
}

const struct tr_text *tr_next(struct tr_peer *p)
{
	TR_WAIT(p->rig, p->read < p->n);
	return &p->box[p->read++];
}

void tr_expect(struct tr_peer *p, const char *want)
{
	assert_string_equal(tr_next(p)->p, want);
}

void tr_nothing(struct tr_peer *p)
{
	tr_settle(p->rig);
	if (p->read < p->n)
		fail_msg("unexpected: %.200s", p->box[p->read].p);
}

void tr_ended(struct tr_peer *p)
{
	TR_WAIT(p->rig, p->eof);
}
