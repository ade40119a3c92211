/* One tenant's traffic for `make bench-fair` and `make bench-overload`: paced or as fast as it goes, well-behaved or not.
 *
 * Every answer is sorted into served (200), refused (429, 503) and wrong (all else, and a refusal without Retry-After); the
 * latency of the served and of the refused is printed apart.  A connection that the server closes is opened again.
 *
 *   requests   one request under way on each connection; with --rate so many in all in a second, else the next at once
 *   connect    connections that are opened, say nothing and are closed again
 *   slow       requests whose bodies come a byte, or --piece bytes, each 100 ms; --pad makes bodies so much longer
 *   listen     subscriptions that are held */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNS_MAX 4096
#define IN_MAX (4u << 20)
#define BUCKETS 4096                    /* log-linear histogram: 64 steps for each power of two */
#define SLOW_NS 100000000ull
#define REOPEN_NS 10000000ull           /* a connection that was refused is not asked for again at once */

enum kind { REQUESTS, CONNECT, SLOW, LISTEN };
enum class { SERVED, REFUSED, CLASSES };

struct conn {
	int fd;                         /* -1: closed */
	bool busy;                      /* an answer is due */
	size_t in_len, in_size, out_off;
	char *in;
	uint64_t sent_ns, next_ns;
};

static struct {
	const char *host, *key, *label, *method, *params, *expect;
	int port, conns;
	enum kind kind;
	double secs, warm, rate;
	size_t pad, piece;
} opt = { .piece = 1, .host = "127.0.0.1", .label = "flood", .method = "tools/call", .params = "{}", .conns = 64, .secs = 5, .warm = 1 };

static char *request;
static size_t request_len;
static struct conn conns[CONNS_MAX];
static int epoll_fd;
static bool counting;
static uint64_t answers[CLASSES], wrong, opened, failed, histogram[CLASSES][BUCKETS];

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "flood: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- latency */

static unsigned bucket_of(uint64_t ns)
{
	uint64_t v = ns / 100;          /* steps of 0.1 us */
	if (v < 64)
		return (unsigned)v;
	unsigned log = 63 - (unsigned)__builtin_clzll(v);
	unsigned b = (log - 5) * 64 + (unsigned)(v >> (log - 6)) - 64;
	return b < BUCKETS ? b : BUCKETS - 1;
}

static double percentile_us(enum class c, double p)
{
	uint64_t want = (uint64_t)((double)answers[c] * p / 100), seen = 0;
	for (unsigned b = 0; b < BUCKETS; b++) {
		seen += histogram[c][b];
		if (seen > want)
			return b < 64 ? b / 10.0 : (double)((uint64_t)(b % 64 + 64) << (b / 64 - 1)) / 10.0;
	}
	return 0;
}

/* --- connections */

static void close_conn(struct conn *c, uint64_t now)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->busy = false;
	c->in_len = c->out_off = 0;
	c->next_ns = now + REOPEN_NS;
}

static bool open_conn(struct conn *c, uint64_t now)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port) };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = c };
	int on = 1;

	if (inet_pton(AF_INET, opt.host, &to.sin_addr) != 1)
		die(opt.host);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		failed += counting;
		close_conn(c, now);
		return false;
	}
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) < 0)
		die("epoll_ctl");
	opened += counting;
	return true;
}

static void send_some(struct conn *c, size_t most, uint64_t now)
{
	size_t left = request_len - c->out_off;
	ssize_t n = send(c->fd, request + c->out_off, left < most ? left : most, MSG_NOSIGNAL);

	if (n > 0)
		c->out_off += (size_t)n;
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		close_conn(c, now);
}

static size_t head_len(void)
{
	return (size_t)(strstr(request, "\r\n\r\n") - request) + 4;
}

/* Its next step, when it is time. */
static void step(struct conn *c, uint64_t now)
{
	if (c->fd < 0 && !open_conn(c, now))
		return;
	if (opt.kind == CONNECT) {
		close_conn(c, now);
		c->next_ns = now;
	} else if (!c->busy) {
		c->busy = true;
		c->out_off = 0;
		c->sent_ns = now;
		send_some(c, opt.kind == SLOW ? head_len() : request_len, now);
		c->next_ns = now + SLOW_NS;
	} else if (c->out_off < request_len) {
		send_some(c, opt.kind == SLOW ? opt.piece : request_len, now);
		c->next_ns = now + (opt.kind == SLOW ? SLOW_NS : 1000000);
	} else {
		c->next_ns = UINT64_MAX;
	}
}

/* --- answers */

struct answer { int status; bool retry, last; const char *body; };

/* Bytes of the first whole answer, 0: not whole yet. */
static size_t frame(const struct conn *c, struct answer *ret)
{
	const char *end = memmem(c->in, c->in_len, "\r\n\r\n", 4), *length;
	size_t head, body;

	if (!end)
		return 0;
	head = (size_t)(end - c->in) + 4;
	length = memmem(c->in, head, "Content-Length: ", 16);
	ret->status = (int)strtol(c->in + 9, NULL, 10);
	ret->retry = memmem(c->in, head, "Retry-After: ", 13) != NULL;
	ret->last = memmem(c->in, head, "Connection: close", 17) != NULL;
	ret->body = c->in + head;
	body = length ? strtoul(length + 16, NULL, 10) : 0;
	if (!length && opt.kind == LISTEN)      /* an event stream: it lasts */
		return 0;
	return c->in_len >= head + body ? head + body : 0;
}

static void judge(const struct conn *c, const struct answer *a, size_t len, uint64_t now)
{
	static bool shown;
	bool refused = a->status == 429 || a->status == 503;
	enum class k = refused ? REFUSED : SERVED;

	if (!counting)
		return;
	if (refused ? !a->retry : a->status != 200 || (opt.expect && !memmem(a->body, len, opt.expect, strlen(opt.expect)))) {
		wrong++;
		if (!shown)
			fprintf(stderr, "flood: wrong answer: %.*s\n", (int)(c->in_len < 600 ? c->in_len : 600), c->in);
		shown = true;
		return;
	}
	answers[k]++;
	histogram[k][bucket_of(now - c->sent_ns)]++;
}

/* False: that was all. */
static bool fill(struct conn *c)
{
	for (;;) {
		if (c->in_len == c->in_size && c->in_size < IN_MAX) {
			c->in_size = c->in_size ? c->in_size * 2 : 4096;
			c->in = realloc(c->in, c->in_size + 1);
			if (!c->in)
				die("memory");
		}
		ssize_t n = read(c->fd, c->in + c->in_len, c->in_size - c->in_len);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (n <= 0)
			return false;
		c->in_len += (size_t)n;
		if (opt.kind == LISTEN && c->in_len == IN_MAX)
			c->in_len = 0;
	}
}

static void readable(struct conn *c, uint64_t now)
{
	struct answer a;
	bool open = fill(c);
	size_t used = 0;

	if (c->in_len > 0) {
		c->in[c->in_len] = '\0';
		used = frame(c, &a);
	}
	if (used > 0) {
		judge(c, &a, used - (size_t)(a.body - c->in), now);
		c->in_len = 0;          /* one request at a time: nothing comes behind it */
		c->busy = false;
		c->next_ns = now;
		open = open && !a.last && opt.kind != SLOW;
	}
	if (open)
		return;
	if (c->busy && counting && opt.kind == REQUESTS)
		failed++;
	close_conn(c, now);
}

/* --- the loop */

/* Paced: the connections take turns, and one that is still busy at its turn misses it. */
static void paced(uint64_t now, uint64_t *next, unsigned *turn)
{
	const uint64_t gap = (uint64_t)(1e9 / opt.rate);

	while (*next <= now) {
		struct conn *c = &conns[(*turn)++ % (unsigned)opt.conns];

		if (!c->busy || opt.kind == SLOW)
			step(c, now);
		*next += gap;
	}
}

static void run(uint64_t until)
{
	static uint64_t next;
	static unsigned turn;
	struct epoll_event events[256];
	uint64_t now = now_ns();

	if (next < now)
		next = now;
	while (now < until) {
		int n = epoll_wait(epoll_fd, events, 256, 1);
		now = now_ns();
		for (int i = 0; i < n; i++)
			if (((struct conn *)events[i].data.ptr)->fd >= 0)
				readable(events[i].data.ptr, now);
		if (opt.rate > 0)
			paced(now, &next, &turn);
		for (int i = 0; i < opt.conns; i++)
			if ((opt.rate <= 0 || (conns[i].busy && conns[i].out_off < request_len)) && conns[i].next_ns <= now &&
			    (!conns[i].busy || conns[i].out_off < request_len))
				step(&conns[i], now);
	}
}

static void build_request(void)
{
	const char *name = strstr(opt.params, "\"name\":\"");
	char mcp_name[128] = "", *body;

	if (name)
		snprintf(mcp_name, sizeof(mcp_name), "Mcp-Name: %.*s\r\n", (int)strcspn(name + 8, "\""), name + 8);
	if (asprintf(&body, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}%*s", opt.method, opt.params,
		     (int)opt.pad, "") < 0)
		die("memory");
	int n = asprintf(&request, "POST /mcp HTTP/1.1\r\nHost: %s:%d\r\nAuthorization: Bearer %s\r\n"
			 "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
			 "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%sContent-Length: %zu\r\n\r\n%s",
			 opt.host, opt.port, opt.key ? opt.key : "", opt.method, mcp_name, strlen(body), body);
	if (n < 0)
		die("memory");
	request_len = (size_t)n;
	free(body);
}

static enum kind kind_of(const char *name)
{
	static const char *const names[] = { "requests", "connect", "slow", "listen" };

	for (unsigned i = 0; i < 4; i++)
		if (!strcmp(name, names[i]))
			return (enum kind)i;
	fprintf(stderr, "flood: no such kind: %s\n", name);
	exit(2);
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "port", 1, NULL, 'p' }, { "key", 1, NULL, 'k' }, { "label", 1, NULL, 'l' }, { "method", 1, NULL, 'm' },
		{ "params", 1, NULL, 'a' }, { "expect", 1, NULL, 'e' }, { "conns", 1, NULL, 'c' }, { "secs", 1, NULL, 's' },
		{ "warm", 1, NULL, 'w' }, { "rate", 1, NULL, 'r' }, { "kind", 1, NULL, 'K' },
		{ "pad", 1, NULL, 'P' }, { "piece", 1, NULL, 'b' }, { NULL, 0, NULL, 0 },
	};
	for (int k; (k = getopt_long(argc, argv, "", names, NULL)) != -1;) {
		switch (k) {
		case 'p': opt.port = (int)strtol(optarg, NULL, 10); break;
		case 'k': opt.key = optarg; break;
		case 'l': opt.label = optarg; break;
		case 'm': opt.method = optarg; break;
		case 'a': opt.params = optarg; break;
		case 'e': opt.expect = optarg; break;
		case 'c': opt.conns = (int)strtol(optarg, NULL, 10); break;
		case 's': opt.secs = strtod(optarg, NULL); break;
		case 'w': opt.warm = strtod(optarg, NULL); break;
		case 'r': opt.rate = strtod(optarg, NULL); break;
		case 'K': opt.kind = kind_of(optarg); break;
		case 'P': opt.pad = strtoul(optarg, NULL, 10); break;
		case 'b': opt.piece = strtoul(optarg, NULL, 10); break;
		default: exit(2);
		}
	}
	if (opt.port <= 0 || opt.conns < 1 || opt.conns > CONNS_MAX || opt.rate < 0) {
		fprintf(stderr, "usage: flood --port N --key K [--kind requests|connect|slow|listen] [--method M --params JSON "
			"--expect TEXT] [--conns N] [--rate N] [--secs S] [--warm S] [--label L] [--pad N] [--piece N]\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	build_request();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < opt.conns; i++)
		conns[i].fd = -1;
	run(now_ns() + (uint64_t)(opt.warm * 1e9));
	counting = true;
	uint64_t begun = now_ns();
	run(begun + (uint64_t)(opt.secs * 1e9));
	double secs = (double)(now_ns() - begun) / 1e9;
	printf("{\"label\":\"%s\",\"served\":%llu,\"refused\":%llu,\"wrong\":%llu,\"opened\":%llu,\"failed\":%llu,\"per_s\":%.0f,"
	       "\"p50_us\":%.0f,\"p99_us\":%.0f,\"refused_p99_us\":%.0f}\n", opt.label, (unsigned long long)answers[SERVED],
	       (unsigned long long)answers[REFUSED], (unsigned long long)wrong, (unsigned long long)opened, (unsigned long long)failed,
	       (double)(answers[SERVED] + answers[REFUSED]) / secs, percentile_us(SERVED, 50), percentile_us(SERVED, 99),
	       percentile_us(REFUSED, 99));
	return 0;
}
