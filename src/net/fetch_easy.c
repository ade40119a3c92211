/* One request for libcurl: its options, its callbacks, what its end means.  Callbacks may call the sink, which
 * calls nothing of libcurl: starts and cancels are deferred (fetch.c). */
#include "config.h"

#include "fetch_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"

#define CLOCK_STEP_US 2000
#define RESOLVED_MAX 512                /* bytes of the test resolver's addresses */

/* --- addresses: each connect, and each use of a kept connection ---------------------------------- */

static int check_addr(struct fetch *f, const struct addr *a)
{
	struct err err;
	int rc = fetch_policy_addr(f->policy, &f->pool->owner->own, &f->url, a, &err);

	if (rc == 0)
		return 0;
	char text[ADDR_TEXT_SIZE];
	metric_inc(METRIC_fetch_addresses_refused);
	log_warn(NULL, "outbound address refused host=%s port=%u address=%s why=\"%s\"", f->url.host, f->url.port,
		 addr_format(a, text), err.msg);
	if (f->err.code == 0)
		f->err = err;
	return rc;
}

/* SEC S-703: the address that is about to be connected to.  Another address of the same host may follow. */
static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct fetch *f = arg;
	struct addr a = { .len = to->addrlen };

	f->connected = false;
	/* Once refused, refused: no choice among the others, a host with a forbidden address is up to something. */
	if (f->err.code != 0 || purpose != CURLSOCKTYPE_IPCXN || to->addrlen > sizeof(a.sa))
		return CURL_SOCKET_BAD;
	memcpy(&a.sa, &to->addr, to->addrlen);
	if (check_addr(f, &a) < 0)
		return CURL_SOCKET_BAD;
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Trap 31: a kept connection has not gone through on_open() for this request. */
static int on_prereq(void *arg, char *ip, char *local_ip, int port, int local_port)
{
	struct fetch *f = arg;
	char text[ADDR_TEXT_SIZE];
	struct addr a;

	snprintf(text, sizeof(text), strchr(ip, ':') ? "[%.45s]:%d" : "%.45s:%d", ip, port);
	if (addr_parse(text, &a, &f->err) < 0 || check_addr(f, &a) < 0)
		return CURL_PREREQFUNC_ABORT;
	f->connected = true;
	return CURL_PREREQFUNC_OK;
}

/* --- the answer ---------------------------------------------------------------------------------- */

static int head_wrong(struct fetch *f, const char *why)
{
	return err_set(&f->err, ERR_IO, "", "the answer's head %s", why);
}

/* name NUL value NUL; libcurl has cut the lines. */
static int add_field(struct fetch *f, const char *p, size_t len)
{
	const char *colon = memchr(p, ':', len);
	struct str *out = &f->head.fields;
	size_t name = out->len;

	if (!colon || colon == p || p[0] == ' ' || p[0] == '\t' || memchr(p, '\0', len))
		return head_wrong(f, "has a line that is no header");
	for (; p < colon; p++, len--)
		str_putc(out, *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p);
	p++;
	len--;
	while (len > 0 && (*p == ' ' || *p == '\t')) {
		p++;
		len--;
	}
	while (len > 0 && (p[len - 1] == ' ' || p[len - 1] == '\t'))
		len--;
	str_putc(out, '\0');
	size_t value = out->len;
	str_put(out, p, len);
	str_putc(out, '\0');
	if (strcmp(out->p + name, "content-length") == 0 &&
	    strcmp(fetch_head_get(&f->head, "content-length"), out->p + value) != 0)
		f->lengths_differ = true;
	return 0;
}

static int status_of(const char *p, size_t len)
{
	const char *space = memchr(p, ' ', len);
	uint64_t status;

	if (!space || (size_t)(space - p) + 4 > len || text_u64(space + 1, 3, &status) < 0)
		return 0;
	return (int)status;
}

/* libcurl takes a length that it cannot hold as none, and reads to the end of the connection. */
static int head_whole(struct fetch *f)
{
	const char *length = fetch_head_get(&f->head, "content-length");
	int64_t n;

	if (length && (text_i64(length, strlen(length), &n) < 0 || n < 0))
		return head_wrong(f, "has a wrong Content-Length");
	/* RFC 9112 6.3: who reads it otherwise would see another answer behind it. */
	if (length && (f->lengths_differ || fetch_head_get(&f->head, "transfer-encoding")))
		return head_wrong(f, "contradicts itself about the body");
	f->head_done = true;
	f->sink.head(f->arg, &f->head);
	return 0;
}

static int take_head_line(struct fetch *f, const char *p, size_t len)
{
	f->head_got += len;
	if (f->head_got > FETCH_HEAD_MAX) {     /* SEC S-707; interim answers and trailers count, too */
		metric_inc(METRIC_fetch_head_too_large);
		return err_set(&f->err, ERR_LIMIT, "", "the answer's head is larger than %d bytes", FETCH_HEAD_MAX);
	}
	if (f->head_done)
		return 0;       /* a trailer */
	while (len > 0 && (p[len - 1] == '\n' || p[len - 1] == '\r'))
		len--;
	if (len >= 5 && memcmp(p, "HTTP/", 5) == 0 && !memchr(p, ':', len < 9 ? len : 9)) {
		str_reset(&f->head.fields);
		f->head.status = status_of(p, len);
		f->lengths_differ = false;
		return 0;
	}
	if (len > 0)
		return add_field(f, p, len);
	if (f->head.status < 200)
		return 0;       /* an interim answer; the next head follows */
	return head_whole(f);
}

static size_t on_head(char *p, size_t size, size_t n, void *arg)
{
	struct fetch *f = arg;

	if (f->state != FETCH_RUNNING)
		return 0;
	return take_head_line(f, p, size * n) < 0 ? 0 : size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct fetch *f = arg;
	size_t len = size * n;

	if (f->state != FETCH_RUNNING)
		return CURL_WRITEFUNC_ERROR;
	f->body_got += len;
	if (f->body_got > f->body_max) {
		metric_inc(METRIC_fetch_body_too_large);
		(void)err_set(&f->err, ERR_LIMIT, "", "the answer is larger than %zu bytes", f->body_max);
		return CURL_WRITEFUNC_ERROR;
	}
	int rc = f->sink.data(f->arg, p, len);
	if (rc == 0)
		return len;
	(void)err_set(&f->err, (enum err_code)rc, "", "the answer was not wanted to its end");
	return CURL_WRITEFUNC_ERROR;
}

/* No seek function: libcurl cannot send the body a second time by itself, so a request that is not idempotent
 * leaves at most once (RFC 9110 9.2.2). */
static size_t on_read(char *p, size_t size, size_t n, void *arg)
{
	struct fetch *f = arg;
	size_t left = f->body_len - f->body_sent, room = size * n;

	if (left > room)
		left = room;
	if (left > 0)
		memcpy(p, (const char *)f->body + f->body_sent, left);
	f->body_sent += left;
	return left;
}

/* --- options ------------------------------------------------------------------------------------- */

/* What is equal for all requests of a pool. */
CURL *fetch_easy_new(struct fetch_pool *p, const struct fetch_policy *policy)
{
	CURL *e = curl_easy_init();

	if (!e)
		return NULL;
	if (curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) != CURLE_OK ||
	    (policy->ca_file && curl_easy_setopt(e, CURLOPT_CAINFO, policy->ca_file) != CURLE_OK)) {
		curl_easy_cleanup(e);
		return NULL;
	}
	(void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(e, CURLOPT_PROXY, "");           /* SEC S-706: not the environment's either */
	(void)curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
	(void)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	(void)curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	(void)curl_easy_setopt(e, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	(void)curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	(void)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	(void)curl_easy_setopt(e, CURLOPT_HTTP09_ALLOWED, 0L);
	(void)curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
	(void)curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
	(void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)FETCH_CONNECT_MS);
	(void)curl_easy_setopt(e, CURLOPT_NOPROGRESS, 1L);
	(void)curl_easy_setopt(e, CURLOPT_USERAGENT, PACKAGE_NAME "/" PACKAGE_VERSION);
	/* Without it the end of a request that still resolves its name waits for the resolver. */
	(void)curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
	(void)curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
	/* A connection keeps these two from the request that made it. */
	(void)curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, fetch_pool_close_sock);
	(void)curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, p);
	(void)curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_prereq);
	(void)curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_head);
	(void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	(void)curl_easy_setopt(e, CURLOPT_READFUNCTION, on_read);
	return e;
}

static void set_method(struct fetch *f)
{
	CURL *e = f->easy;

	if (fetch_method_has_body(f->method) || f->body_len > 0) {
		(void)curl_easy_setopt(e, CURLOPT_POST, 1L);
		(void)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->body_len);
	} else {
		(void)curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
	}
	if (strcmp(f->method, "HEAD") == 0)
		(void)curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
	(void)curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, f->method);
}

/* "-host:port" forgets what is cached, "host:port:addresses" says what the name is for this request. */
static void set_resolved(struct fetch *f)
{
	struct fetcher *owner = f->pool->owner;
	char addresses[RESOLVED_MAX] = "", line[RESOLVED_MAX + URL_HOST_MAX + 10];

	if (owner->resolve && !f->url.literal)
		owner->resolve(owner->resolve_arg, f->url.host, f->url.port, addresses, sizeof(addresses));
	if (addresses[0]) {
		snprintf(line, sizeof(line), "-%s:%u", f->url.host, f->url.port);
		f->resolve = curl_slist_append(NULL, line);
		snprintf(line, sizeof(line), "%s:%u:%s", f->url.host, f->url.port, addresses);
		f->resolve = curl_slist_append(f->resolve, line);
	}
	(void)curl_easy_setopt(f->easy, CURLOPT_RESOLVE, f->resolve);
}

int fetch_easy_set(struct fetch *f, uint64_t now_us)
{
	CURL *e = f->easy;
	long left_ms = 0;       /* 0 = no limit */

	if (f->deadline_us > 0) {
		if (f->deadline_us <= now_us)
			return ERR_TIMEOUT;
		left_ms = (long)((f->deadline_us - now_us + 999) / 1000);
	}
	if (curl_easy_setopt(e, CURLOPT_URL, f->url_text) != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_HTTPHEADER, f->headers) != CURLE_OK)
		return ERR_INTERNAL;
	set_method(f);
	set_resolved(f);
	(void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, left_ms);
	(void)curl_easy_setopt(e, CURLOPT_PRIVATE, f);
	(void)curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, f);
	(void)curl_easy_setopt(e, CURLOPT_PREREQDATA, f);
	(void)curl_easy_setopt(e, CURLOPT_HEADERDATA, f);
	(void)curl_easy_setopt(e, CURLOPT_WRITEDATA, f);
	(void)curl_easy_setopt(e, CURLOPT_READDATA, f);
	return 0;
}

/* --- the end ------------------------------------------------------------------------------------- */

void fetch_easy_explain(const struct fetch *f, CURLcode code, uint64_t now_us, struct err *err)
{
	if (f->err.code != 0) {         /* a callback of ours stopped it */
		*err = f->err;
		return;
	}
	/* libcurl counts whole milliseconds on a clock that it read itself. */
	if (code == CURLE_OPERATION_TIMEDOUT && f->deadline_us > 0 && now_us + CLOCK_STEP_US >= f->deadline_us) {
		(void)err_set(err, ERR_TIMEOUT, "", "the server did not answer in time");
		return;
	}
	switch ((int)code) {            /* libcurl's list is longer than what can happen here */
	case CURLE_OPERATION_TIMEDOUT:
		(void)err_set(err, ERR_UNREACHABLE, "", "no connection within %d ms", FETCH_CONNECT_MS);
		return;
	case CURLE_COULDNT_RESOLVE_HOST:
		(void)err_set(err, ERR_UNREACHABLE, "", "the host's name cannot be resolved");
		return;
	case CURLE_COULDNT_CONNECT:
		(void)err_set(err, ERR_UNREACHABLE, "", "the server cannot be reached");
		return;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_ISSUER_ERROR:
		(void)err_set(err, ERR_DENIED, "", "the server's certificate is not valid for it, or not trusted");
		return;
	case CURLE_SSL_CACERT_BADFILE:
		(void)err_set(err, ERR_DENIED, "", "the file of certificate authorities cannot be read");
		return;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CIPHER:
		(void)err_set(err, ERR_UNREACHABLE, "", "the TLS handshake failed");
		return;
	case CURLE_PARTIAL_FILE:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
		(void)err_set(err, ERR_IO, "", "the connection ended before the answer did");
		return;
	case CURLE_SEND_ERROR:
	case CURLE_SEND_FAIL_REWIND:
		(void)err_set(err, ERR_IO, "", "the connection ended before the request did");
		return;
	default:
		(void)err_set(err, ERR_IO, "", "the answer is not correct HTTP");
	}
}
