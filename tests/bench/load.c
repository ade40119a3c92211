/* A load generator for `make bench`: N connections, each with D requests under way, one thread.  With --rate it asks so often
 * and no more, on whichever connection is free; what waits for one is late, and its time counts from when it was due.
 *
 * Every answer is checked: status 200, the id of this very request, and a text that a right answer contains.
 * Prints one JSON line: requests/s, latency percentiles, CPU of the server per request and its memory.
 * Speaks 2026-07-28, or an older revision in a session that is there (--rev, --session), over HTTP keep-alive or raw lines;
 * answers have a Content-Length or come in chunks.  With --tokens it speaks for
 * many: over HTTP each request has the next key of the file, over lines each connection has one (SC-905). */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>

#define ID_DIGITS 10
#define ID_FIRST 1000000000ULL          /* ids have a fixed width, so that requests are stamped in place */
#define DEPTH_MAX 64
#define CONNS_MAX 4096
#define SENT_RING (2u * DEPTH_MAX * CONNS_MAX)
#define BUCKETS 4096                    /* log-linear histogram: 64 steps for each power of two */
#define KEYS_MAX 10000                  /* of a file of them */
#define KEY_MAX 4096                    /* bytes of one */

struct conn {
	int fd;
	SSL *ssl;                       /* NULL: plain */
	uint64_t last_id;               /* for answers without an id: depth 1 only */
	char *in;
	size_t in_len, in_size;
	char *out;                      /* what the socket did not take yet */
	size_t out_len, out_off, out_size;
	struct conn *next;              /* of those that are free */
};

static struct {
	const char *host, *key, *tokens, *label, *method, *params, *expect, *rev, *session;
	int port, conns, depth, pid;
	double rate;                    /* a second; 0: the next one as soon as one is answered */
	uint64_t requests;              /* in all, without a warm-up; 0: as many as there is time for */
	bool http, tls;
	double secs, warm;
} opt = { .host = "127.0.0.1", .label = "load", .method = "tools/call", .params = "{}", .rev = "2026-07-28", .conns = 64, .depth = 1,
	  .http = true, .secs = 5, .warm = 1 };

/* One whole request: what is in front of the key, and what behind it, with an id to be stamped. */
static char *before, *behind;
static size_t before_len, behind_len, id_at;
static struct key { char *text; size_t len; unsigned line; } keys[KEYS_MAX];
static unsigned nkeys, next_key;        /* none: what is asked is no MCP server */
static uint64_t next_id = ID_FIRST, answers, failures, histogram[BUCKETS];
static uint64_t sent_ns[SENT_RING];     /* when a request was made, by id; more than can be under way */
static bool counting;
static struct conn *idle;               /* with --rate */
static uint64_t rate_from, rate_asked;

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
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

static double bucket_us(unsigned b)
{
	if (b < 64)
		return b / 10.0;
	unsigned log = b / 64 + 5;
	return (double)((uint64_t)(b % 64 + 64) << (log - 6)) / 10.0;
}

static double percentile_us(double p)
{
	uint64_t want = (uint64_t)((double)answers * p / 100), seen = 0;
	for (unsigned b = 0; b < BUCKETS; b++) {
		seen += histogram[b];
		if (seen > want)
			return bucket_us(b);
	}
	return 0;
}

/* --- keys: one a line; empty lines and those that begin with # are none */

__attribute__((format(printf, 2, 3), noreturn)) static void wrong_line(unsigned line, const char *why, ...)
{
	va_list args;
	fprintf(stderr, "load: %s:%u: ", opt.tokens, line);
	va_start(args, why);
	vfprintf(stderr, why, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

static void add_key(const char *text, size_t len, unsigned line)
{
	if (nkeys == KEYS_MAX)
		wrong_line(line, "a file has at most %d keys", KEYS_MAX);
	char *own = strndup(text, len);
	if (!own)
		die("memory");
	keys[nkeys++] = (struct key){ own, len, line };
}

static int compare(const void *a, const void *b)
{
	const struct key *x = *(const struct key *const *)a, *y = *(const struct key *const *)b;
	int rc = strcmp(x->text, y->text);
	return rc ? rc : (x->line > y->line) - (x->line < y->line);
}

static void refuse_twins(void)
{
	static const struct key *sorted[KEYS_MAX];
	const struct key *twin = NULL, *of = NULL;
	for (unsigned i = 0; i < nkeys; i++)
		sorted[i] = &keys[i];
	qsort(sorted, nkeys, sizeof(sorted[0]), compare);
	for (unsigned i = 1; i < nkeys; i++)
		if (strcmp(sorted[i]->text, sorted[i - 1]->text) == 0 && (!twin || sorted[i]->line < twin->line)) {
			twin = sorted[i];
			of = sorted[i - 1];
		}
	if (twin)
		wrong_line(twin->line, "this is the key of line %u again: it would get two shares", of->line);
}

static void read_key(const char *text, size_t len, unsigned line)
{
	if (len > KEY_MAX)
		wrong_line(line, "a key has at most %d bytes", KEY_MAX);
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			wrong_line(line, "byte %zu is 0x%02x: a key is one word of printing ASCII, alone on its line", i + 1,
				   (unsigned char)text[i]);
	add_key(text, len, line);
}

static void read_keys(void)
{
	static char text[KEY_MAX + 2];
	FILE *f = fopen(opt.tokens, "re");
	if (!f)
		die(opt.tokens);
	unsigned line = 0;
	for (int c = 0; c != EOF;) {
		size_t len = 0;
		while ((c = getc(f)) != EOF && c != '\n')
			if (len < sizeof(text))
				text[len++] = (char)c;
		line++;
		if (len > 0 && *text != '#')
			read_key(text, len, line);
	}
	if (ferror(f))
		die(opt.tokens);
	fclose(f);
	if (nkeys == 0)
		wrong_line(line, "the file ends, and there was no key in it");
	refuse_twins();
	if (!opt.http && (unsigned)opt.conns < nkeys) {
		fprintf(stderr, "load: %s: with --lines each connection has one key, and %d connections leave out some of %u\n",
			opt.tokens, opt.conns, nkeys);
		exit(2);
	}
}

/* --- requests */

static void build_request(void)
{
	char *body, *text;
	if (asprintf(&body, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"%s\",\"params\":%s}", ID_FIRST, opt.method,
		     opt.params) < 0)
		die("memory");
	int n = 0;
	before = strdup("");
	if (!opt.http) {
		n = asprintf(&text, "%s\n", body);
	} else if (!nkeys) {
		n = asprintf(&text, "GET / HTTP/1.1\r\nHost: %s:%d\r\nX-Id: %llu\r\n\r\n", opt.host, opt.port, ID_FIRST);
	} else {
		const char *name = strstr(opt.params, "\"name\":\"");
		char mcp_name[128] = "";
		if (name)
			snprintf(mcp_name, sizeof(mcp_name), "Mcp-Name: %.*s\r\n", (int)strcspn(name + 8, "\""), name + 8);
		free(before);
		if (asprintf(&before, "POST /mcp HTTP/1.1\r\nHost: %s:%d\r\nAuthorization: Bearer ", opt.host, opt.port) < 0)
			die("memory");
		n = asprintf(&text, "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
			     "MCP-Protocol-Version: %s\r\n%s%s%sMcp-Method: %s\r\n%sContent-Length: %zu\r\n\r\n%s",
			     opt.rev, opt.session ? "Mcp-Session-Id: " : "", opt.session ? opt.session : "",
			     opt.session ? "\r\n" : "", opt.method, mcp_name, strlen(body), body);
	}
	if (n < 0 || !before)
		die("memory");
	free(body);
	char id[ID_DIGITS + 1];
	snprintf(id, sizeof(id), "%llu", ID_FIRST);
	before_len = strlen(before);
	behind = text;
	behind_len = (size_t)n;
	id_at = (size_t)(strstr(text, id) - text);
}

/* As read() and write(). */
static ssize_t tls_result(struct conn *c, int rc)
{
	if (rc > 0)
		return rc;
	int why = SSL_get_error(c->ssl, rc);
	errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
	return why == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

static ssize_t put(struct conn *c, const char *p, size_t len)
{
	return c->ssl ? tls_result(c, SSL_write(c->ssl, p, (int)len)) : write(c->fd, p, len);
}

static ssize_t get(struct conn *c, char *p, size_t len)
{
	return c->ssl ? tls_result(c, SSL_read(c->ssl, p, (int)len)) : read(c->fd, p, len);
}

static void flush_out(struct conn *c)
{
	while (c->out_off < c->out_len) {
		ssize_t n = put(c, c->out + c->out_off, c->out_len - c->out_off);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			die("write");
		c->out_off += (size_t)n;
	}
	c->out_off = c->out_len = 0;
}

static void append(struct conn *c, const char *p, size_t len)
{
	memcpy(c->out + c->out_len, p, len);
	c->out_len += len;
}

static void put_request(struct conn *c, uint64_t now)
{
	const struct key *key = opt.http && nkeys ? &keys[next_key] : NULL;
	const size_t len = before_len + (key ? key->len : 0) + behind_len;
	if (opt.requests && next_id - ID_FIRST == opt.requests)
		return;
	if (c->out_len + len > c->out_size) {
		c->out_size = (c->out_len + len) * 2;
		c->out = realloc(c->out, c->out_size);
		if (!c->out)
			die("memory");
	}
	char id[ID_DIGITS + 1];
	snprintf(id, sizeof(id), "%llu", (unsigned long long)next_id);
	append(c, before, before_len);
	if (key) {
		append(c, key->text, key->len);
		next_key = (next_key + 1) % nkeys;
	}
	append(c, behind, behind_len);
	memcpy(c->out + c->out_len - behind_len + id_at, id, ID_DIGITS);
	sent_ns[next_id % SENT_RING] = now;
	c->last_id = next_id++;
}

/* --- answers */

/* The next whole answer in the buffer: its text, and how many bytes it takes; 0 = not whole yet. */
static size_t frame(const struct conn *c, const char **ret_text, size_t *ret_len)
{
	if (!opt.http) {
		const char *end = memchr(c->in, '\n', c->in_len);
		*ret_text = c->in;
		*ret_len = end ? (size_t)(end - c->in) : 0;
		return end ? *ret_len + 1 : 0;
	}
	const char *end = memmem(c->in, c->in_len, "\r\n\r\n", 4);
	if (!end)
		return 0;
	size_t head = (size_t)(end - c->in) + 4;
	const char *length = strcasestr(c->in, "\r\ncontent-length: ");
	if (!length || length > end) {
		const char *last = memmem(end, c->in_len - head + 4, "\r\n0\r\n\r\n", 7);
		if (!last)
			return 0;
		failures += strncmp(c->in, "HTTP/1.1 200 ", 13) != 0;
		*ret_text = end + 4;
		*ret_len = (size_t)(last - end) - 4;
		return (size_t)(last - c->in) + 7;
	}
	size_t body = strtoul(length + 18, NULL, 10);
	if (strncmp(c->in, "HTTP/1.1 200 ", 13))
		failures++;
	*ret_text = end + 4;
	*ret_len = body;
	return c->in_len >= head + body ? head + body : 0;
}

static void judge(const struct conn *c, const char *text, size_t len, uint64_t now)
{
	static bool shown;
	uint64_t id = c->last_id;
	const char *at = nkeys ? memmem(text, len, "\"id\":", 5) : NULL;
	if (at)
		id = strtoull(at + 5, NULL, 10);
	bool good = (!nkeys || (at && id >= ID_FIRST && id < next_id)) &&
		    (!opt.expect || memmem(text, len, opt.expect, strlen(opt.expect)));
	if (!good && !shown) {
		fprintf(stderr, "load: wrong answer: %.*s\n", (int)(len < 400 ? len : 400), text);
		shown = true;
	}
	failures += !good;
	if (!counting)
		return;
	answers++;
	histogram[bucket_of(now - sent_ns[id % SENT_RING])]++;
}

/* Read once.  False: nothing more is there now. */
static bool fill(struct conn *c)
{
	if (c->in_len == c->in_size) {
		c->in_size = c->in_size ? c->in_size * 2 : 65536;
		c->in = realloc(c->in, c->in_size + 1);
		if (!c->in)
			die("memory");
	}
	ssize_t n = get(c, c->in + c->in_len, c->in_size - c->in_len);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0)
		die("the server closed a connection");
	c->in_len += (size_t)n;
	c->in[c->in_len] = '\0';
	return true;
}

/* Edge-triggered: read until nothing is left. */
static void readable(struct conn *c)
{
	const char *text;
	size_t len, used;

	while (fill(c))
		;
	uint64_t now = now_ns();
	while ((used = frame(c, &text, &len)) > 0) {
		judge(c, text, len, now);
		memmove(c->in, c->in + used, c->in_len - used);
		c->in_len -= used;
		c->in[c->in_len] = '\0';
		if (opt.rate > 0) {
			c->next = idle;
			idle = c;
			continue;
		}
		put_request(c, now);
	}
	flush_out(c);
}

/* With --rate: what is due by now, as far as connections are free. */
static void ask_due(void)
{
	const uint64_t due = (uint64_t)((double)(now_ns() - rate_from) * opt.rate / 1e9);

	for (struct conn *c; rate_asked < due && (c = idle) != NULL; rate_asked++) {
		idle = c->next;
		put_request(c, rate_from + (uint64_t)((double)rate_asked * 1e9 / opt.rate));
		flush_out(c);
	}
}

/* --- the server's side, from /proc */

static double server_cpu_s(void)
{
	char path[64], text[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", opt.pid);
	FILE *f = opt.pid ? fopen(path, "r") : NULL;
	if (!f)
		return 0;
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	unsigned long user = 0, system_ticks = 0;
	const char *after = strrchr(text, ')');
	if (after)
		(void)!sscanf(after + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system_ticks);
	return (double)(user + system_ticks) / (double)sysconf(_SC_CLK_TCK);
}

static long server_rss_kib(void)
{
	char path[64], line[256];
	long kib = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", opt.pid);
	FILE *f = opt.pid ? fopen(path, "r") : NULL;
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmRSS:", 6))
			kib = strtol(line + 6, NULL, 10);
	if (f)
		fclose(f);
	return kib;
}

/* --- connections and the loop */

/* While the socket still blocks.  Whose certificate it is does not matter here. */
static void shake(struct conn *c)
{
	static SSL_CTX *ctx;
	if (!ctx) {
		ctx = SSL_CTX_new(TLS_client_method());
		if (!ctx)
			die("TLS");
		SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
		SSL_CTX_set_read_ahead(ctx, 1);
	}
	c->ssl = SSL_new(ctx);
	if (!c->ssl || !SSL_set_fd(c->ssl, c->fd) || SSL_connect(c->ssl) != 1)
		die("TLS handshake");
}

static void open_conn(struct conn *c, int epoll)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port) };
	if (inet_pton(AF_INET, opt.host, &to.sin_addr) != 1)
		die(opt.host);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		die("connect");
	int on = 1;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (opt.tls)
		shake(c);
	char line[KEY_MAX + 32];
	int n = snprintf(line, sizeof(line), "Authorization: Bearer %s\n", nkeys ? keys[next_key].text : "");
	if (!opt.http && nkeys && put(c, line, (size_t)n) != n)
		die("credential line");
	if (!opt.http && nkeys)
		next_key = (next_key + 1) % nkeys;
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c };
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &ev) < 0)
		die("epoll_ctl");
}

static void run(int epoll, uint64_t until)
{
	struct epoll_event events[256];
	while (now_ns() < until && !(opt.requests && answers == opt.requests)) {
		int n = epoll_wait(epoll, events, 256, opt.rate > 0 ? 1 : 100);
		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			if (events[i].events & EPOLLOUT)
				flush_out(c);
			if (events[i].events & (EPOLLIN | EPOLLHUP))
				readable(c);
		}
		if (opt.rate > 0)
			ask_due();
	}
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "host", 1, NULL, 'h' }, { "port", 1, NULL, 'p' }, { "key", 1, NULL, 'k' }, { "label", 1, NULL, 'l' },
		{ "method", 1, NULL, 'm' }, { "params", 1, NULL, 'a' }, { "expect", 1, NULL, 'e' }, { "conns", 1, NULL, 'c' },
		{ "depth", 1, NULL, 'd' }, { "pid", 1, NULL, 'i' }, { "secs", 1, NULL, 's' }, { "warm", 1, NULL, 'w' },
		{ "rev", 1, NULL, 'r' }, { "session", 1, NULL, 'S' }, { "lines", 0, NULL, 'L' }, { "tls", 0, NULL, 'T' }, { "tokens", 1, NULL, 'K' },
		{ "requests", 1, NULL, 'n' }, { "rate", 1, NULL, 'R' }, { NULL, 0, NULL, 0 },
	};
	for (int k; (k = getopt_long(argc, argv, "", names, NULL)) != -1;) {
		switch (k) {
		case 'h': opt.host = optarg; break;
		case 'p': opt.port = (int)strtol(optarg, NULL, 10); break;
		case 'k': opt.key = optarg; break;
		case 'l': opt.label = optarg; break;
		case 'm': opt.method = optarg; break;
		case 'r': opt.rev = optarg; break;
		case 'S': opt.session = optarg; break;
		case 'a': opt.params = optarg; break;
		case 'e': opt.expect = optarg; break;
		case 'c': opt.conns = (int)strtol(optarg, NULL, 10); break;
		case 'd': opt.depth = (int)strtol(optarg, NULL, 10); break;
		case 'i': opt.pid = (int)strtol(optarg, NULL, 10); break;
		case 's': opt.secs = strtod(optarg, NULL); break;
		case 'w': opt.warm = strtod(optarg, NULL); break;
		case 'L': opt.http = false; break;
		case 'T': opt.tls = true; break;
		case 'K': opt.tokens = optarg; break;
		case 'R': opt.rate = strtod(optarg, NULL); break;
		case 'n': opt.requests = strtoull(optarg, NULL, 10); break;
		default: exit(2);
		}
	}
	if (opt.port <= 0 || opt.conns < 1 || opt.conns > CONNS_MAX || opt.depth < 1 || opt.depth > DEPTH_MAX ||
	    (opt.key && opt.tokens) || opt.rate < 0 || (opt.rate > 0 && opt.depth > 1) || optind < argc) {
		fprintf(stderr, "usage: load --port N [--key K | --tokens FILE] [--method M --params JSON --expect TEXT] "
			"[--conns N] [--depth N | --rate N]\n\t[--secs S] [--warm S] [--requests N] [--pid SERVER] [--lines] [--tls] "
			"[--label L]\n");
		exit(2);
	}
	if (opt.tokens)
		read_keys();
	else if (opt.key)
		add_key(opt.key, strlen(opt.key), 0);
}

static void open_conns(int epoll)
{
	static struct conn *conns;      /* to the end */
	conns = calloc((size_t)opt.conns, sizeof(*conns));
	if (!conns)
		die("memory");
	for (int i = 0; i < opt.conns; i++) {
		open_conn(&conns[i], epoll);
		if (opt.rate > 0) {
			conns[i].next = idle;
			idle = &conns[i];
			continue;
		}
		for (int d = 0; d < opt.depth; d++)
			put_request(&conns[i], now_ns());
		flush_out(&conns[i]);
	}
	rate_from = now_ns();
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	build_request();
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	counting = opt.requests > 0;    /* all of them */
	double cpu = server_cpu_s();
	uint64_t begun = now_ns();
	open_conns(epoll);
	if (!opt.requests) {
		run(epoll, now_ns() + (uint64_t)(opt.warm * 1e9));
		counting = true;
		cpu = server_cpu_s();
		begun = now_ns();
	}
	run(epoll, begun + (uint64_t)(opt.secs * 1e9));
	double secs = (double)(now_ns() - begun) / 1e9;
	cpu = server_cpu_s() - cpu;
	printf("{\"label\":\"%s\",\"conns\":%d,\"depth\":%d,\"keys\":%u,\"answers\":%llu,\"failures\":%llu,\"per_s\":%.0f,"
	       "\"p50_us\":%.0f,\"p99_us\":%.0f,\"server_cpu_us\":%.1f,\"server_rss_kib\":%ld}\n",
	       opt.label, opt.conns, opt.depth, nkeys, (unsigned long long)answers, (unsigned long long)failures,
	       (double)answers / secs, percentile_us(50), percentile_us(99), answers ? cpu * 1e6 / (double)answers : 0.0,
	       server_rss_kib());
	if (answers < opt.requests)
		fprintf(stderr, "load: %llu of %llu requests were answered within %g s\n", (unsigned long long)answers,
			(unsigned long long)opt.requests, opt.secs);
	return failures || answers < opt.requests ? 1 : 0;
}
