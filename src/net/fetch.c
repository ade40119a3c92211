/* Outbound requests: the face, pools of connections, one end for each request. */
#include "config.h"

#include "net/fetch.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "net/breaker.h"

#include "fetch_int.h"

#define METHOD_MAX 16
#define OWN_MAX 1024                    /* addresses of this machine times its listeners */

/* --- pools --------------------------------------------------------------------------------------- */

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

	str_printf(key, "%s\n%d\n%s\n", req->scope, p->private_ok, p->ca_file ? p->ca_file : "");
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

void fetch_pool_rest(struct fetch_pool *p)
{
	if (p->acting || !list_empty(&p->running))
		return;
	list_unlink(&p->node);
	list_push_back(&p->owner->idle, &p->node);
	ev_timer_start(p->idle, (uint64_t)FETCH_POOL_IDLE_MS * 1000);
}

/* --- one request --------------------------------------------------------------------------------- */

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
	if (p->nspare < FETCH_SPARE_MAX)
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

void fetch_ended(struct fetch *f, CURLcode code)
{
	struct err err = { .code = ERR_OK };

	if (code != CURLE_OK) {
		fetch_easy_explain(f, code, clock_mono_us(), &err);
		log_debug(NULL, "request failed host=%s libcurl=\"%s\" why=\"%s\"", f->url.host, curl_easy_strerror(code),
			  err.msg);
	} else if (!f->head_done) {
		(void)err_set(&err, ERR_IO, "", "the connection ended before the answer did");
	}
	end(f, &err);
}

static void begin(void *arg)
{
	struct fetch *f = arg;
	struct fetch_pool *p = f->pool;
	struct err err;
	int rc = 0;

	if (f->state != FETCH_WAITING)
		return;
	f->easy = p->nspare > 0 ? p->spare[--p->nspare] : fetch_easy_new(p, f->policy);
	if (!f->easy)
		rc = ERR_INTERNAL;
	if (rc == 0)
		rc = fetch_easy_set(f, ev_now_us(p->owner->loop));
	if (rc == 0) {
		f->state = FETCH_RUNNING;
		rc = fetch_pool_add(p, f);
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

/* --- the face ------------------------------------------------------------------------------------ */

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

static void add_own(struct fetcher *f, const struct addr *a)
{
	if (f->own.n == OWN_MAX) {
		log_warn(NULL, "too many addresses of our own; requests to the others are not refused");
		return;
	}
	f->own.addr = mem_realloc(f->own.addr, (f->own.n + 1) * sizeof(*a));
	f->own.addr[f->own.n++] = *a;
}

/* A wildcard listens on each address of the machine. */
static void add_interfaces(struct fetcher *f, int family, in_port_t port)
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		struct addr a = { .len = 0 };

		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET &&
				     (i->ifa_addr->sa_family != AF_INET6 || family != AF_INET6)))
			continue;
		bool six = i->ifa_addr->sa_family == AF_INET6;
		a.len = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
		memcpy(&a.sa, i->ifa_addr, a.len);
		if (six)
			((struct sockaddr_in6 *)(void *)&a.sa)->sin6_port = port;
		else
			((struct sockaddr_in *)(void *)&a.sa)->sin_port = port;
		add_own(f, &a);
	}
	freeifaddrs(all);
}

void fetcher_own(struct fetcher *f, const char *address)
{
	struct addr a;

	if (addr_parse(address, &a, NULL) < 0)
		return;         /* a path */
	add_own(f, &a);
	const struct sockaddr_in *v4 = (const void *)&a.sa;
	const struct sockaddr_in6 *v6 = (const void *)&a.sa;
	if (a.sa.ss_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY))
		add_interfaces(f, AF_INET, v4->sin_port);
	else if (a.sa.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
		add_interfaces(f, AF_INET6, v6->sin6_port);
}

void fetcher_resolve(struct fetcher *f, fetch_resolve_fn *fn, void *arg)
{
	f->resolve = fn;
	f->resolve_arg = arg;
}

int fetch_head_status(const struct fetch_head *h)
{
	return h->status;
}

const char *fetch_head_get(const struct fetch_head *h, const char *name)
{
	const char *p = h->fields.p, *end_of = p ? p + h->fields.len : NULL;

	while (p < end_of) {
		const char *value = p + strlen(p) + 1;

		if (strcmp(p, name) == 0)
			return value;
		p = value + strlen(value) + 1;
	}
	return NULL;
}

bool fetch_method_has_body(const char *method)
{
	return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
}

int fetch_check_header_name(const char *name, const char *at, struct err *err)
{
	static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char *const ours[] = { "host", "connection", "content-length", "transfer-encoding", "te", "trailer",
		"upgrade", "keep-alive", "expect", "proxy-connection", "proxy-authorization", "accept-encoding" };
	size_t len = strlen(name);

	if (len == 0 || len > 128 || strspn(name, token) != len)
		return err_set(err, ERR_INVALID, at, "%.40s is not a header name", name);
	for (size_t i = 0; i < NELEMS(ours); i++) {
		if (strcasecmp(name, ours[i]) == 0)
			return err_set(err, ERR_INVALID, at, "the header %s belongs to the connection and cannot be set",
				       ours[i]);
	}
	return 0;
}

int fetch_check_header_value(const char *value, size_t len, const char *at, struct err *err)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)value[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return err_set(err, ERR_INVALID, at, "a header value must not have control characters");
	}
	return 0;
}
