/* make bench-policy: what the loop pays for a verdict of a policy decision point, in processor time of its thread: from a kept
 * answer, and asked over a Unix socket, one question at a time, answered by another thread.  One JSON line each. */

#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "net/fetch.h"
#include "pdp/pdp.h"
#include "tenant/tenant.h"

enum { KEPT = 1000000, ASKED = 20000 };

static void die(const char *what)
{
	fprintf(stderr, "b_pdp: %s\n", what);
	exit(1);
}

/* Allows whatever comes: what ends with a brace is the end of a question. */
static void *serve(void *listener)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: max-age=600\r\n"
		"content-length: 17\r\n\r\n{\"decision\":true}";
	char buf[65536];
	int fd = accept(*(int *)listener, NULL, NULL);

	for (ssize_t n; (n = read(fd, buf, sizeof(buf))) > 0; )
		if (buf[n - 1] == '}' && write(fd, answer, strlen(answer)) < 0)
			break;
	close(fd);
	return NULL;
}

static double cpu_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void on_verdict(void *arg, const struct pdp_verdict *v)
{
	if (v->word != PDP_ALLOW)
		die(v->against->why);
	*(bool *)arg = true;
}

static void ask(struct ev_loop *loop, struct pdps *pdps, struct pdp_question *q)
{
	bool done = false;
	struct pdp_asking *a = pdp_ask(pdps, q, on_verdict, &done);

	if (!pdp_verdict(a) && !ev_loop_run_until(loop, &done, 10000))
		die("no answer");
	pdp_forget(&a);
}

int main(void)
{
	char folder[] = "/tmp/toolcrib-b_pdp-XXXXXX";
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct ev_loop *loop = ev_loop_new();
	struct fetcher *fetcher = fetcher_new(loop);
	struct conf_pdp point = { .name = mem_strdup("bench"), .path = mem_strdup("/access/v1/evaluation"), .timeout_ms = 5000,
				  .cache_ms = 3600000 };
	struct conf conf = { .pdps = &point, .npdps = 1 };
	struct principal who = { .tenant = "acme", .name = "bot", .accessor = "AAAAAAAAAAAA", .cred_id = 1, .authn = 1 };
	struct reg_def def = { .kind = REG_TOOL, .name = "pay", .text = "{\"name\":\"pay\"}", .len = 14 };
	struct reg_tool tool = { .name = "pay", .full_name = "pay", .def = &def };
	struct reg_compiled compiled = { .nredact = 0 };
	uint8_t id[16] = { 1 };
	json_t *args = json_pack("{s:i,s:s}", "amount", 5, "payee", "Nordwerft");
	struct pdp_question q = { .who = &who, .tool = &tool, .compiled = &compiled, .kind = REG_TOOL, .client = "bench 1", .tport = 4,
				  .args = args, .args_text = "{\"amount\":5,\"payee\":\"Nordwerft\"}", .args_len = 32, .call_id = id };
	struct pdps *pdps = NULL;
	struct err err;
	pthread_t server;
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	double begun;

	if (!mkdtemp(folder))
		die("mkdtemp");
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", folder);
	point.socket = mem_strdup(at.sun_path);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 1) < 0 ||
	    pthread_create(&server, NULL, serve, &listener) != 0)
		die("socket");
	if (pdps_open(&(struct pdps_env){ .loop = loop, .fetcher = fetcher, .conf = &conf }, &pdps, &err) < 0)
		die(err.msg);
	ask(loop, pdps, &q);
	begun = cpu_us();
	for (int i = 0; i < KEPT; i++)
		ask(loop, pdps, &q);
	printf("{\"label\":\"verdict of a kept answer\",\"n\":%d,\"cpu_us\":%.2f,\"target\":2}\n", KEPT, (cpu_us() - begun) / KEPT);
	point.cache_ms = 0;
	begun = cpu_us();
	for (int i = 0; i < ASKED; i++)
		ask(loop, pdps, &q);
	printf("{\"label\":\"verdict asked for over a Unix socket\",\"n\":%d,\"cpu_us\":%.2f,\"target\":60}\n", ASKED,
	       (cpu_us() - begun) / ASKED);
	pdps_close(&pdps);
	fetcher_free(&fetcher);
	ev_loop_free(&loop);
	(void)pthread_join(server, NULL);
	unlink(at.sun_path);
	rmdir(folder);
	json_decref(args);
	free(point.name);
	free(point.path);
	free(point.socket);
	return 0;
}
