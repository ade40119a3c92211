/* Outbound requests by libcurl on the loop's thread: pools of connections, one for each scope and policy, options and
 * callbacks of a request, one end for each.  Addresses are judged by fetch_policy.c at each connect and at each use of
 * a kept connection; nothing follows a redirect. */
#include "config.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "ev/ev.h"
#include "net/breaker.h"
#include "net/fetch.h"
#include "net/url.h"

#include "fetch_int.h"

#define FETCH_SPARE_MAX 256             /* easy handles that a pool keeps for the next requests */

struct fetcher {
	struct ev_loop *loop;
	struct map *pools;              /* key -> struct fetch_pool */
	struct list idle;               /* pools without work; the front one is idle for the longest time */
	size_t running;
	struct fetch_own own;
	struct breakers *breakers;
	fetch_resolve_fn *resolve;
	void *resolve_arg;
};

struct fetch_pool {
	struct list node;               /* in fetcher's idle, or alone */
	struct fetcher *owner;
	char *key; size_t key_len;      /* scope and policy */
	CURLM *multi;
	struct ev_timer *timer;         /* libcurl's */
	struct ev_timer *idle;
	struct map *socks;              /* descriptor -> struct fetch_sock */
	struct list running; size_t nrunning;   /* struct fetch */
	CURL *spare[FETCH_SPARE_MAX]; size_t nspare;
	bool acting;                    /* libcurl or an end is on the stack */
};

enum fetch_state { FETCH_WAITING, FETCH_RUNNING, FETCH_DONE };

struct fetch {
	struct list node;               /* in its pool's running */
	struct fetch_pool *pool;
	CURL *easy;
	enum fetch_state state;
	struct fetch_sink sink;
	void *arg;
	const struct fetch_policy *policy;
	struct url url;
	char *url_text, *method;
	struct curl_slist *headers, *resolve;
	void *body; size_t body_len, body_sent;
	uint64_t deadline_us;
	size_t body_max, body_got;
	struct fetch_head head;
	char address[ADDR_TEXT_SIZE];   /* of the last connection that was tried, or is used; "" = none */
	bool connected;                 /* on_prereq() has agreed to the connection that it is on */
	char *aws, *aws_id, *aws_secret;        /* what libcurl calls AWS_SIGV4; NULL: not signed */
	char *unix_socket, *cert_file, *key_file;       /* of fetch_req; NULL: none */
	bool connect_only; int socket;  /* it ends with a connection, which is here until somebody takes it; -1: none */
	struct err err;                 /* why a callback stopped it; code 0 = none did */
};

/* --- one request for libcurl: its options, its callbacks, what its end means */

/* Callbacks may call the sink, which calls nothing of libcurl: starts and cancels are deferred. */

#define METHOD_MAX 16
#define CLOCK_STEP_US 2000
#define RESOLVED_MAX 512                /* bytes of the test resolver's addresses */

/* --- addresses: each connect, and each use of a kept connection */

static int check_addr(struct fetch *f, const struct addr *a)
{
	struct err err;

	(void)addr_format(a, f->address);
	int rc = fetch_policy_addr(f->policy, &f->pool->owner->own, &f->url, a, &err);

	if (rc == 0)
		return 0;
	metric_inc(METRIC_fetch_addresses_refused);
	log_warn(NULL, "outbound address refused host=%s port=%u address=%s why=\"%s\"", f->url.host, f->url.port,
		 f->address, err.msg);
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
	if (f->unix_socket)             /* libcurl has its path from us alone */
		return to->family == AF_UNIX ? socket(AF_UNIX, to->socktype | SOCK_CLOEXEC, 0) : CURL_SOCKET_BAD;
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

	f->connected = f->unix_socket != NULL;
	if (f->connected)
		return CURL_PREREQFUNC_OK;
	snprintf(text, sizeof(text), strchr(ip, ':') ? "[%.45s]:%d" : "%.45s:%d", ip, port);
	if (addr_parse(text, &a, &f->err) < 0 || check_addr(f, &a) < 0)
		return CURL_PREREQFUNC_ABORT;
	f->connected = true;
	return CURL_PREREQFUNC_OK;
}

/* --- the answer */

static size_t on_head(char *p, size_t size, size_t n, void *arg)
{
	struct fetch *f = arg;

	int rc;

	if (f->state != FETCH_RUNNING)
		return 0;
	rc = fetch_head_line(&f->head, p, size * n, &f->err);
	if (rc > 0)
		f->sink.head(f->arg, &f->head);
	return rc < 0 ? 0 : size * n;
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

/* --- options */

/* POST, PUT, PATCH */
static bool fetch_method_has_body(const char *method)
{
	return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
}

static int fetch_pool_close_sock(void *pool, curl_socket_t fd);

/* What is equal for all requests of a pool. */
static CURL *fetch_easy_new(struct fetch_pool *p)
{
	CURL *e = curl_easy_init();

	if (!e)
		return NULL;
	if (curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
	    curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) != CURLE_OK) {
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

/* Read here: libcurl would open whatever has the name, and wait for it (HARDENING F-11).  Each time, since the file may
 * have been renewed; a connection is used again where what it says is the same. */
static int set_authorities(struct fetch *f, struct err *err)
{
	struct str text = STR_INIT;
	int rc = 0;

	if (!f->policy->ca_file)
		return 0;
	rc = path_read(f->policy->ca_file, FETCH_CA_MAX, &text, err);
	if (rc == 0 && text.len == 0)
		rc = err_set(err, ERR_DENIED, "", "%s is empty", f->policy->ca_file);
	if (rc < 0) {
		log_warn(NULL, "request failed host=%s why=\"%s\"", f->url.host, err->msg);
		rc = err_set(err, ERR_DENIED, "", "the file of certificate authorities cannot be read");
	}
	struct curl_blob blob = { text.p, text.len, CURL_BLOB_COPY };

	if (rc == 0 && curl_easy_setopt(f->easy, CURLOPT_CAINFO_BLOB, &blob) != CURLE_OK)
		rc = err_set(err, ERR_INTERNAL, "", "libcurl does not take the certificate authorities");
	str_fini(&text);
	return rc;
}

/* As set_authorities(): what a server that asks is shown. */
static int set_certificate(struct fetch *f, struct err *err)
{
	struct str cert = STR_INIT, key = STR_SECRET_INIT;
	int rc;

	if (!f->cert_file)
		return 0;
	rc = path_read(f->cert_file, FETCH_CA_MAX, &cert, err);
	rc = rc ? rc : path_read_as(f->key_file, PATH_SECRET, FETCH_CA_MAX, &key, err);
	if (rc < 0) {
		log_warn(NULL, "request failed host=%s why=\"%s\"", f->url.host, err->msg);
		rc = err_set(err, ERR_DENIED, "", "the certificate to be shown, or its key, cannot be read");
	}
	struct curl_blob shown = { cert.p, cert.len, CURL_BLOB_COPY }, secret = { key.p, key.len, CURL_BLOB_COPY };

	if (rc == 0 && (curl_easy_setopt(f->easy, CURLOPT_SSLCERT_BLOB, &shown) != CURLE_OK ||
			curl_easy_setopt(f->easy, CURLOPT_SSLKEY_BLOB, &secret) != CURLE_OK))
		rc = err_set(err, ERR_INTERNAL, "", "libcurl does not take the certificate to be shown");
	str_fini(&cert);
	str_wipe(&key);
	return rc;
}

static int fetch_easy_set(struct fetch *f, uint64_t now_us)
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
	if (f->aws && (curl_easy_setopt(e, CURLOPT_AWS_SIGV4, f->aws) != CURLE_OK ||
		       curl_easy_setopt(e, CURLOPT_USERNAME, f->aws_id) != CURLE_OK ||
		       curl_easy_setopt(e, CURLOPT_PASSWORD, f->aws_secret) != CURLE_OK))
		return ERR_INTERNAL;
	if (curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, f->unix_socket) != CURLE_OK)
		return ERR_INTERNAL;
	(void)curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, f->connect_only ? 1L : 0L);
	(void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, left_ms);
	(void)curl_easy_setopt(e, CURLOPT_PRIVATE, f);
	(void)curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, f);
	(void)curl_easy_setopt(e, CURLOPT_PREREQDATA, f);
	(void)curl_easy_setopt(e, CURLOPT_HEADERDATA, f);
	(void)curl_easy_setopt(e, CURLOPT_WRITEDATA, f);
	(void)curl_easy_setopt(e, CURLOPT_READDATA, f);
	return 0;
}

/* --- the end */

static int fetch_easy_explain(const struct fetch *f, CURLcode code, uint64_t now_us, struct err *err)
{
	if (f->err.code != 0) {         /* a callback of ours stopped it */
		*err = f->err;
		return err->code;
	}
	/* libcurl counts whole milliseconds on a clock that it read itself. */
	if (code == CURLE_OPERATION_TIMEDOUT && f->deadline_us > 0 && now_us + CLOCK_STEP_US >= f->deadline_us)
		return err_set(err, ERR_TIMEOUT, "", "the server did not answer in time");
	switch ((int)code) {            /* libcurl's list is longer than what can happen here */
	case CURLE_OPERATION_TIMEDOUT:
		return err_set(err, ERR_UNREACHABLE, "", "no connection within %d ms", FETCH_CONNECT_MS);
	case CURLE_COULDNT_RESOLVE_HOST:
		return err_set(err, ERR_UNREACHABLE, "", "the host's name cannot be resolved");
	case CURLE_COULDNT_CONNECT:
		return err_set(err, ERR_UNREACHABLE, "", "the server cannot be reached");
	case CURLE_PEER_FAILED_VERIFICATION: case CURLE_SSL_ISSUER_ERROR:
		return err_set(err, ERR_DENIED, "", "the server's certificate is not valid for it, or not trusted");
	case CURLE_SSL_CACERT_BADFILE:
		return err_set(err, ERR_DENIED, "", "the file of certificate authorities cannot be read");
	case CURLE_SSL_CERTPROBLEM:
		return err_set(err, ERR_DENIED, "", "the certificate to be shown, or its key, is none");
	case CURLE_SSL_CONNECT_ERROR: case CURLE_SSL_CIPHER:
		return err_set(err, ERR_UNREACHABLE, "", "the TLS handshake failed");
	case CURLE_PARTIAL_FILE: case CURLE_RECV_ERROR: case CURLE_GOT_NOTHING:
		return err_set(err, ERR_IO, "", "the connection ended before the answer did");
	case CURLE_SEND_ERROR: case CURLE_SEND_FAIL_REWIND:
		return err_set(err, ERR_IO, "", "the connection ended before the request did");
	default:
		return err_set(err, ERR_IO, "", "the answer is not correct HTTP");
	}
}

/* --- libcurl's multi interface on the loop: sockets, its one timer, what has ended. */

/* libcurl forgets a socket at the end of each request and names it anew for the next one.  A connection that has
 * carried a request stays registered until it is closed: two system calls less for each request. */
struct fetch_sock {
	struct fetch_pool *pool;
	curl_socket_t fd;
	struct ev_io *io;
	bool carries;                   /* connected: its end goes through fetch_pool_close_sock() */
	bool resting;                   /* no request is on it */
};

static void fetch_ended(struct fetch *f, CURLcode code);

/* Outside of all callbacks of libcurl: the ends may start and cancel what they like. */
static void collect(struct fetch_pool *p)
{
	int left;
	CURLMsg *msg;

	while ((msg = curl_multi_info_read(p->multi, &left)) != NULL) {
		struct fetch *f = NULL;
		CURLcode code = msg->data.result;

		(void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &f);
		fetch_ended(f, code);
	}
}

static void fetch_pool_rest(struct fetch_pool *p);

static void act(struct fetch_pool *p, curl_socket_t fd, int what)
{
	int running;

	p->acting = true;       /* what the ends start must not close this pool */
	(void)curl_multi_socket_action(p->multi, fd, what, &running);   /* its trouble is each request's */
	collect(p);
	p->acting = false;
	fetch_pool_rest(p);
}

static void on_io(void *arg, bool readable, bool writable)
{
	struct fetch_sock *s = arg;

	if (s->resting)         /* its server has closed it, as libcurl finds out before it uses it again */
		ev_io_want(s->io, false, false);
	else
		act(s->pool, s->fd, (readable ? CURL_CSELECT_IN : 0) | (writable ? CURL_CSELECT_OUT : 0));
}

static struct fetch_sock *sock_new(struct fetch_pool *p, curl_socket_t fd)
{
	struct fetch_sock *s = mem_zalloc(sizeof(*s));

	s->pool = p;
	s->fd = fd;
	s->io = ev_io_new(p->owner->loop, fd, on_io, s);
	(void)map_set_u64(p->socks, (uint64_t)fd, s);
	return s;
}

static void sock_free(struct fetch_sock *s)
{
	(void)map_del_u64(s->pool->socks, (uint64_t)s->fd);
	ev_io_free(&s->io);
	free(s);
}

/* A socket whose connect fails, or is overtaken by that to another address, is closed without a word to
 * fetch_pool_close_sock(): only one that stands may stay. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct fetch_pool *p = arg;
	struct fetch_sock *s = map_get_u64(p->socks, (uint64_t)fd);
	const struct fetch *f = NULL;

	if (what == CURL_POLL_REMOVE) {
		if (s && s->carries) {
			s->resting = true;
			ev_io_want(s->io, true, false);
		} else if (s) {
			sock_free(s);
		}
		return 0;
	}
	if (!s)
		s = sock_new(p, fd);
	(void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &f);
	s->carries = s->carries || f->connected;
	s->resting = false;
	ev_io_want(s->io, what & CURL_POLL_IN, what & CURL_POLL_OUT);
	return 0;
}

/* CURLOPT_CLOSESOCKETFUNCTION */
static int fetch_pool_close_sock(void *pool, curl_socket_t fd)
{
	struct fetch_pool *p = pool;
	struct fetch_sock *s = map_get_u64(p->socks, (uint64_t)fd);

	if (s)
		sock_free(s);
	return close(fd);
}

static void on_due(void *arg)
{
	act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer(CURLM *multi, long timeout_ms, void *arg)
{
	struct fetch_pool *p = arg;

	if (timeout_ms < 0)
		ev_timer_stop(p->timer);
	else
		ev_timer_start(p->timer, (uint64_t)timeout_ms * 1000);
	return 0;
}

static int fetch_pool_open(struct fetch_pool *p, struct err *err)
{
	p->socks = map_new();
	p->multi = curl_multi_init();
	if (!p->multi)
		return err_set(err, ERR_INTERNAL, "", "libcurl has no memory");
	p->timer = ev_timer_new(p->owner->loop, on_due, p);
	(void)curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
	(void)curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	(void)curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
	(void)curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, (long)FETCH_IDLE_MAX);
	(void)curl_multi_setopt(p->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	return 0;
}

/* nothing is running */
static void fetch_pool_close(struct fetch_pool *p)
{
	void *s;

	while (p->nspare > 0)
		curl_easy_cleanup(p->spare[--p->nspare]);
	if (p->multi)
		(void)curl_multi_cleanup(p->multi);
	for (size_t it = 0; map_next(p->socks, &it, NULL, NULL, &s); )
		sock_free(s);
	map_free(&p->socks);
	ev_timer_free(&p->timer);
	ev_timer_free(&p->idle);
}

/* --- pools */

static void pool_free(struct fetch_pool *p)
{
	list_unlink(&p->node);
	(void)map_del(p->owner->pools, p->key, p->key_len);
	fetch_pool_close(p);
	free(p->key);
	free(p);
}

static void on_pool_idle(void *arg)
{
	pool_free(arg);
}

/* Connections are shared where scope, switches, list and authorities are equal. */
static void pool_key(const struct fetch_req *req, struct str *key)
{
	const struct fetch_policy *p = req->policy;

	str_printf(key, "%s\n%d\n%s\n%s\n%s\n", req->scope, p->private_ok, p->ca_file ? p->ca_file : "",
		   req->unix_socket ? req->unix_socket : "", req->cert_file ? req->cert_file : "");
	for (size_t i = 0; i < p->nallow; i++) {
		const struct fetch_allow *a = &p->allow[i];

		if (a->host) {
			str_printf(key, "%s:%u\n", a->host, a->port);
		} else {
			str_putc(key, '/');
			str_put(key, a->net, sizeof(a->net));
			str_printf(key, "%u\n", a->bits);
		}
	}
}

static int pool_new(struct fetcher *f, const struct str *key, struct fetch_pool **ret, struct err *err)
{
	if (map_count(f->pools) >= FETCH_POOLS_MAX && list_empty(&f->idle)) {
		metric_inc(METRIC_fetch_busy);
		return err_set(err, ERR_BUSY, "", "too many servers are being asked; try again");
	}
	if (map_count(f->pools) >= FETCH_POOLS_MAX)
		pool_free(CONTAINER_OF(f->idle.next, struct fetch_pool, node));
	struct fetch_pool *p = mem_zalloc(sizeof(*p));
	p->owner = f;
	list_init(&p->node);
	list_init(&p->running);
	p->key = mem_dup(key->p, key->len);
	p->key_len = key->len;
	p->idle = ev_timer_new(f->loop, on_pool_idle, p);
	(void)map_set(f->pools, p->key, p->key_len, p);
	int rc = fetch_pool_open(p, err);
	if (rc < 0)
		pool_free(p);
	else
		*ret = p;
	return rc;
}

static int pool_get(struct fetcher *f, const struct fetch_req *req, struct fetch_pool **ret, struct err *err)
{
	struct str key = STR_INIT;
	int rc = 0;

	pool_key(req, &key);
	struct fetch_pool *p = map_get(f->pools, key.p, key.len);
	if (!p)
		rc = pool_new(f, &key, &p, err);
	str_fini(&key);
	if (rc < 0)
		return rc;
	list_unlink(&p->node);
	ev_timer_stop(p->idle);
	*ret = p;
	return 0;
}

/* idle, if it has no work */
static void fetch_pool_rest(struct fetch_pool *p)
{
	if (p->acting || !list_empty(&p->running))
		return;
	list_unlink(&p->node);
	list_push_back(&p->owner->idle, &p->node);
	ev_timer_start(p->idle, (uint64_t)FETCH_POOL_IDLE_MS * 1000);
}

/* --- one request */

/* URL, headers and body may hold secrets. */
static void fetch_free(void *arg)
{
	struct fetch *f = arg;

	for (struct curl_slist *h = f->headers; h; h = h->next)
		secret_wipe(h->data, strlen(h->data));
	secret_wipe(f->url_text, strlen(f->url_text));
	secret_wipe(f->body, f->body_len);
	curl_slist_free_all(f->headers);
	curl_slist_free_all(f->resolve);
	str_fini(&f->head.fields);
	if (f->socket >= 0)
		close(f->socket);
	if (f->aws_secret)
		secret_wipe(f->aws_secret, strlen(f->aws_secret));
	free(f->aws);
	free(f->aws_id);
	free(f->aws_secret);
	free(f->unix_socket);
	free(f->cert_file);
	free(f->key_file);
	free(f->url_text);
	free(f->method);
	free(f->body);
	free(f);
}

static void give_back_easy(struct fetch *f)
{
	struct fetch_pool *p = f->pool;

	if (f->state == FETCH_RUNNING)
		(void)curl_multi_remove_handle(p->multi, f->easy);
	/* No other request may be signed by its key, or show its certificate. */
	if (p->nspare < FETCH_SPARE_MAX && !f->aws && !f->cert_file)
		p->spare[p->nspare++] = f->easy;
	else
		curl_easy_cleanup(f->easy);
	f->easy = NULL;
}

/* The one end.  The memory stays until what is deferred for it has run. */
static void end(struct fetch *f, const struct err *err)
{
	struct fetch_pool *p = f->pool;

	if (f->easy)
		give_back_easy(f);
	f->state = FETCH_DONE;
	list_unlink(&f->node);
	p->nrunning--;
	p->owner->running--;
	metric_dec(METRIC_fetch_running);
	if (err->code != 0)
		metric_inc(METRIC_fetch_failures);
	ev_defer(p->owner->loop, fetch_free, f);
	fetch_pool_rest(p);
	f->sink.done(f->arg, err->code, err);
}

/* libcurl closes its own descriptor when it lets go of the connection. */
static bool keep_socket(struct fetch *f)
{
	curl_socket_t fd = CURL_SOCKET_BAD;

	if (curl_easy_getinfo(f->easy, CURLINFO_ACTIVESOCKET, &fd) == CURLE_OK && fd != CURL_SOCKET_BAD)
		f->socket = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return f->socket >= 0;
}

/* libcurl is through with it. */
static void fetch_ended(struct fetch *f, CURLcode code)
{
	struct err err = { .code = ERR_OK };

	if (code != CURLE_OK) {
		(void)fetch_easy_explain(f, code, clock_mono_us(), &err);
		log_debug(NULL, "request failed host=%s libcurl=\"%s\" why=\"%s\"", f->url.host,
			  curl_easy_strerror(code),
			  err.msg);
	} else if (f->connect_only ? !keep_socket(f) : !f->head.done) {
		(void)err_set(&err, ERR_IO, "", "the connection ended before the answer did");
	}
	end(f, &err);
}

static void begin(void *arg)
{
	struct fetch *f = arg;
	struct fetch_pool *p = f->pool;
	struct err err;
	int rc;

	if (f->state != FETCH_WAITING)
		return;
	f->easy = p->nspare > 0 ? p->spare[--p->nspare] : fetch_easy_new(p);
	if (f->easy && (set_authorities(f, &err) < 0 || set_certificate(f, &err) < 0)) {
		end(f, &err);
		return;
	}
	rc = f->easy ? fetch_easy_set(f, ev_now_us(p->owner->loop)) : ERR_INTERNAL;
	if (rc == 0) {
		f->state = FETCH_RUNNING;
		/* libcurl's timer, due at once, sends it with all others of this turn. */
		rc = curl_multi_add_handle(p->multi, f->easy) == CURLM_OK ? 0 : ERR_INTERNAL;
	}
	if (rc == ERR_TIMEOUT)
		(void)err_set(&err, rc, "", "the server did not answer in time");
	else if (rc < 0)
		(void)err_set(&err, rc, "", "libcurl refused the request");
	if (rc < 0)
		end(f, &err);
}

/* "Name: value"; libcurl's own forms: "Name:" leaves a header of its own out, "Name;" sends an empty one. */
static void add_header(struct fetch *f, const char *name, const char *value)
{
	char *line = mem_printf(*value ? "%s: %s" : "%s;%s", name, value);

	f->headers = curl_slist_append(f->headers, line);
	secret_wipe(line, strlen(line));
	free(line);
}

/* What libcurl would add by itself to a body is left out; its own Accept stays. */
static void add_headers(struct fetch *f, const struct fetch_req *req)
{
	bool typed = false;

	for (size_t i = 0; i < req->nheaders; i++) {
		typed = typed || strcasecmp(req->headers[i].name, "content-type") == 0;
		add_header(f, req->headers[i].name, req->headers[i].value);
	}
	if (!fetch_method_has_body(req->method) && req->body_len == 0)
		return;
	if (!req->aws)          /* it would be signed, and not sent */
		f->headers = curl_slist_append(f->headers, "Expect:");
	if (!typed)
		f->headers = curl_slist_append(f->headers, "Content-Type:");
}

static bool is_method(const char *m)
{
	size_t len = strlen(m);

	return len > 0 && len <= METHOD_MAX && strspn(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == len &&
	       strcmp(m, "CONNECT") != 0 && strcmp(m, "TRACE") != 0;
}

static int check_req(const struct fetch_req *req, struct url *ret_url, struct err *err)
{
	if (!is_method(req->method))
		return err_set(err, ERR_INVALID, "", "%.20s is not a method for requests", req->method);
	if (req->body_len > 0 && (strcmp(req->method, "GET") == 0 || strcmp(req->method, "HEAD") == 0))
		return err_set(err, ERR_INVALID, "", "%s has no body", req->method);
	if (req->nheaders > FETCH_HEADERS_MAX)
		return err_set(err, ERR_LIMIT, "", "a request has at most %d headers", FETCH_HEADERS_MAX);
	for (size_t i = 0; i < req->nheaders; i++) {
		const struct fetch_header *h = &req->headers[i];
		int rc = fetch_check_header_name(h->name, "", err);

		if (rc == 0)
			rc = fetch_check_header_value(h->value, strlen(h->value), "", err);
		if (rc < 0)
			return rc;
	}
	int rc = url_parse(req->url, strlen(req->url), "", ret_url, err);
	if (rc == 0 && req->unix_socket)
		return ret_url->tls ? err_set(err, ERR_INVALID, "", "a Unix socket is asked by http") : 0;
	return rc < 0 ? rc : fetch_policy_url(req->policy, ret_url, err);
}

static int busy(struct err *err)
{
	metric_inc(METRIC_fetch_busy);
	return err_set(err, ERR_BUSY, "", "too many requests are under way; try again");
}

/* No tenant's requests take the places of another one's, nor of ours (SEC S-804). */
static bool has_share(const struct fetcher *f, const struct fetch_pool *p)
{
	return f->running < FETCH_RUNNING_MAX - FETCH_KEPT || p->nrunning < FETCH_POOL_SHARE;
}

int fetch_start(struct fetcher *f, const struct fetch_req *req, const struct fetch_sink *sink, void *arg,
		struct fetch **ret, struct err *err)
{
	struct fetch_pool *pool = NULL;
	struct url url;
	int rc = check_req(req, &url, err);

	if (rc < 0)
		return rc;
	if (f->running >= FETCH_RUNNING_MAX)
		return busy(err);
	rc = pool_get(f, req, &pool, err);
	if (rc < 0)
		return rc;
	if (!has_share(f, pool))        /* it has work, and needs no rest */
		return busy(err);
	struct fetch *x = mem_zalloc(sizeof(*x));
	x->pool = pool;
	x->sink = *sink;
	x->arg = arg;
	x->policy = req->policy;
	x->url = url;
	x->url_text = mem_strdup(req->url);
	x->method = mem_strdup(req->method);
	x->body = mem_dup(req->body_len ? req->body : "", req->body_len);
	x->body_len = req->body_len;
	x->deadline_us = req->deadline_us;
	x->body_max = req->body_max;
	x->connect_only = req->connect_only;
	x->socket = -1;
	x->unix_socket = mem_strdup0(req->unix_socket);
	x->cert_file = mem_strdup0(req->cert_file);
	x->key_file = mem_strdup0(req->key_file);
	if (req->aws) {
		x->aws = mem_printf("aws:amz:%s:s3", req->aws->region);
		x->aws_id = mem_strdup(req->aws->id);
		x->aws_secret = mem_strdup(req->aws->secret);
	}
	str_init(&x->head.fields, 0);   /* FETCH_HEAD_MAX is counted before it grows */
	add_headers(x, req);
	list_push_back(&pool->running, &x->node);
	pool->nrunning++;
	f->running++;
	metric_inc(METRIC_fetch_running);
	metric_inc(METRIC_fetch_started);
	ev_defer(f->loop, begin, x);
	*ret = x;
	return 0;
}

static void cancelled(void *arg)
{
	struct fetch *f = arg;
	struct err err;

	if (f->state == FETCH_DONE)
		return;
	(void)err_set(&err, ERR_CANCELLED, "", "cancelled");
	end(f, &err);
}

void fetch_cancel(struct fetch *f)
{
	ev_defer(f->pool->owner->loop, cancelled, f);
}

/* --- the face */

struct fetcher *fetcher_new(struct ev_loop *loop)
{
	struct fetcher *f = mem_zalloc(sizeof(*f));

	(void)curl_global_init(CURL_GLOBAL_DEFAULT);    /* counted by libcurl; idempotent */
	f->loop = loop;
	f->pools = map_new();
	f->breakers = breakers_new();
	list_init(&f->idle);
	return f;
}

void fetcher_free(struct fetcher **pf)
{
	const void *key;
	void *pool;
	size_t len;

	if (!pf || !*pf)
		return;
	struct fetcher *f = *pf;
	*pf = NULL;
	for (size_t it = 0; map_next(f->pools, &it, &key, &len, &pool); ) {
		struct fetch_pool *p = pool;

		while (!list_empty(&p->running))
			cancelled(CONTAINER_OF(p->running.next, struct fetch, node));
		pool_free(p);
	}
	map_free(&f->pools);
	breakers_free(&f->breakers);
	free(f->own.addr);
	free(f);
	curl_global_cleanup();
}

struct breakers *fetcher_breakers(struct fetcher *f)
{
	return f->breakers;
}

void fetcher_own(struct fetcher *f, const char *address)
{
	fetch_own_add(&f->own, address);
}

void fetcher_resolve(struct fetcher *f, fetch_resolve_fn *fn, void *arg)
{
	f->resolve = fn;
	f->resolve_arg = arg;
}

const char *fetch_address(const struct fetch *f)
{
	return f->address;
}

int fetch_take_socket(struct fetch *f)
{
	const int fd = f->socket;

	f->socket = -1;
	return fd;
}
