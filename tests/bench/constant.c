/* A constant answer of N bytes through the product's own HTTP front: the limit that `make bench` holds lists against.
 * Prints its port, then serves until it is killed. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ev/ev.h"
#include "net/http_server.h"
#include "net/listen.h"

static struct listener *listener;
static char *answer;
static size_t answer_len;

static int on_head(void *arg, struct http_request *r, const struct http_head *h, size_t *body_max, void **ret_user)
{
	return 0;
}

static void on_request(void *arg, struct http_request *r, void *user, const char *body, size_t len)
{
	http_reply(r, 200, "Content-Type: application/json\r\n", answer, answer_len);
}

static void on_gone(void *arg, struct http_request *r, void *user)
{
}

static void on_closed(void *arg, struct http_conn *c)
{
	listen_conn_gone(listener);
}

static const struct http_ops ops = { on_head, on_request, on_gone, on_closed, NULL };

static void accepted(void *arg, const struct accepted *a)
{
	http_conn_new(arg, a->fd, NULL, &ops, NULL);
}

int main(int argc, char **argv)
{
	struct ev_loop *loop = ev_loop_new();
	struct err err;

	answer_len = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
	answer = malloc(answer_len);
	if (!answer)
		return 1;
	memset(answer, 'x', answer_len);
	if (listen_tcp(loop, "127.0.0.1:0", 4096, accepted, loop, &listener, &err) < 0) {
		fprintf(stderr, "constant: %s\n", err.msg);
		return 1;
	}
	printf("%s\n", strrchr(listen_address(listener), ':') + 1);
	fflush(stdout);
	ev_loop_run(loop);
	return 0;
}
