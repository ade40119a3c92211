/* Requests for the tests of the HTTP way in. */

#include "config.h"

#include "http_ask.h"

#include <stdio.h>

#include "base/clock.h"

struct tr_rig rig;
struct tr_peer *peer;
const char NONE[1] = "";
static unsigned answered, begun;        /* whole answers and heads that peer had before it asked */

int open_rig(void **state)
{
	tr_open(&rig, "http");
	peer = NULL;
	return 0;
}

int open_frozen(void **state)
{
	clock_fake(NOW_US, SECOND_US);
	return open_rig(state);
}

int close_rig(void **state)
{
	tr_close(&rig);
	clock_real();
	return 0;
}

static void put_header(struct str *out, const char *name, const char *value, const char *usual)
{
	if (value != NONE)
		str_printf(out, "%s%s\r\n", name, value ? value : usual);
}

static void put_ask(const struct ask *a, struct str *out)
{
	const char *method = a->method ? a->method : a->session ? "GET" : "POST";
	const char *more = a->more ? a->more : a->session ?
		"Accept: text/event-stream\r\nMcp-Session-Id: " FAKE_SESSION "\r\n" : HTTP_ACCEPT;
	const char *body = a->body ? a->body : a->session ? NONE : "now 1 new";

	str_printf(out, "%s %s HTTP/1.1\r\n", method, a->target ? a->target : "/mcp");
	put_header(out, "Host: ", a->host, rig.address);
	put_header(out, "Authorization: Bearer ", a->key, rig.acme.text);
	put_header(out, "Content-Type: ", a->type, "application/json");
	str_puts(out, more);
	if (body != NONE)
		str_printf(out, "Content-Length: %zu\r\n", strlen(body));
	str_printf(out, "\r\n%s", body);
}

void send_ask(const struct ask *a)
{
	struct str s = STR_INIT;

	if (!rig.t)
		tr_listen(&rig);
	/* A connection that ends behind its answer says so (RFC 9112 9.6). */
	if (!peer || peer->eof || strstr(peer->head, "\r\nConnection: close\r\n"))
		peer = tr_dial(&rig, "acme");
	answered = peer->replies;
	begun = peer->heads;
	put_ask(a, &s);
	tr_raw(peer, s.p, s.len);
	str_fini(&s);
}

int ask(const struct ask *a)
{
	send_ask(a);
	if (a->method && strcmp(a->method, "HEAD") == 0) {
		TR_WAIT(&rig, peer->heads > begun);
		tr_hang_up(&peer);
		return rig.peers[rig.npeers - 1]->status;
	}
	TR_WAIT(&rig, peer->replies > answered);
	return peer->status;
}

bool head_has(const char *line)
{
	char want[600];

	(void)snprintf(want, sizeof want, "\r\n%s\r\n", line);
	return strstr(peer->head, want) != NULL;
}

const char *body(void)
{
	return str_text(&peer->body);
}
