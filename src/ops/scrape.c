/* The listener for metrics and health: who may ask, for what, and the texts that are made for it beside the loop
 * (OP-101, OP-102, OP-110).  app opens and closes it, on the loop's thread.  At most one text of each format is made
 * at a time, whoever asks meanwhile gets the same. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/tally.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "net/addr.h"
#include "net/gate.h"
#include "net/http_server.h"
#include "net/listen.h"
#include "net/tls.h"
#include "writer/writer.h"

#include "ops_int.h"

#define FILE_MAX (OPS_TOKEN_MAX + 2u)   /* with the end of its line */
#define SOCKET_MODE 0660                /* for the group of the directory's choice, as sockets of services are */

/* --- certificate and token */

struct ops_files {
	struct tls_server *tls;         /* NULL: plain */
	bool has_token;
	uint8_t token[DIGEST_SIZE];     /* of the token: itself it is kept nowhere */
};

static int read_token(const char *file, uint8_t ret[DIGEST_SIZE], struct err *err)
{
	struct str text = STR_SECRET_INIT;
	int rc = path_read_as(file, PATH_SECRET, FILE_MAX, &text, err);
	size_t len = text.len;

	if (rc < 0) {
		str_wipe(&text);
		return err_wrap(err, "metrics.token_file");
	}
	if (len > 0 && text.p[len - 1] == '\n')
		len--;
	if (len > 0 && text.p[len - 1] == '\r')
		len--;
	for (size_t i = 0; i < len && rc == 0; i++)
		rc = text.p[i] > ' ' && text.p[i] < 0x7f ? 0 : ERR_INVALID;
	if (rc < 0 || len < OPS_TOKEN_MIN || len > OPS_TOKEN_MAX) {
		rc = err_set(err, ERR_INVALID, file, "metrics.token_file: %s must hold one line of %d to %d visible characters of "
			     "ASCII", file, OPS_TOKEN_MIN, OPS_TOKEN_MAX);
		err_hint(err, "openssl rand -hex 32 makes a good one");
	} else {
		digest_sha256(text.p, len, ret);
	}
	str_wipe(&text);
	return rc;
}

int ops_files_load(const struct conf *conf, struct ops_files **ret, struct err *late, struct err *err)
{
	const struct tls_opt opt = { .cert = conf->metrics_cert, .key = conf->metrics_key, .alpn = "http/1.1", .late = late };
	struct ops_files *f = mem_zalloc(sizeof(*f));
	char file[sizeof(err->where)];
	int rc = 0;

	if (conf->metrics_cert && tls_server_new(&opt, &f->tls, err) < 0) {
		memcpy(file, err->where, sizeof(file));
		rc = strstr(err->msg, file) ? err_wrap(err, "metrics.listen %s", conf->metrics_listen) :
			err_wrap(err, "metrics.listen %s: %s", conf->metrics_listen, file);
	}
	if (rc == 0 && conf->metrics_token_file) {
		f->has_token = true;
		rc = read_token(conf->metrics_token_file, f->token, err);
	}
	if (rc < 0) {
		ops_files_free(&f);
		return rc;
	}
	*ret = f;
	return 0;
}

uint64_t ops_files_expires_us(const struct ops_files *f)
{
	return f->tls ? tls_server_expires_us(f->tls) : 0;
}

void ops_files_free(struct ops_files **fp)
{
	struct ops_files *f = fp ? *fp : NULL;

	if (!f)
		return;
	*fp = NULL;
	tls_server_free(&f->tls);
	secret_wipe(f->token, sizeof(f->token));
	free(f);
}

/* --- state */

struct making {                         /* a text of one format, until all who wait for it have it */
	struct ops *o;
	enum metric_format format;
	struct ops_seen seen;
	size_t ntenants;                /* slots of them, as it begins */
	const char *refused;            /* why there is no text; NULL: there is */
	struct str text;
	struct list waiters;            /* struct asked */
};

struct ops {
	struct ops_env env;
	struct listener *listener;
	struct ops_files *files;
	char shut[500];                 /* why nobody is let in; "" = they are */
	bool loopback;                  /* plain, on an address of this machine: a web page could lead a browser here */
	struct list conns;              /* struct conn */
	struct making *making[METRIC_FORMATS];
	bool closing;
};

struct conn {
	struct list node;
	struct ops *o;
	struct http_conn *http;
	struct gate_pass pass;
	struct ev_timer *first;         /* armed until its first request is there */
	bool waits;                     /* for a text */
	char from[ADDR_TEXT_SIZE];
};

enum route { ROUTE_METRICS, ROUTE_HEALTHZ, ROUTE_READYZ, ROUTES };

struct asked {                          /* a request whose head was accepted */
	struct list node;               /* of making.waiters */
	struct conn *c;
	struct http_request *r;
	enum route route;
	enum metric_format format;
};

static void maybe_free(struct ops *o)
{
	if (!o->closing || !list_empty(&o->conns) || o->making[METRIC_TEXT] || o->making[METRIC_OPENMETRICS])
		return;
	listen_close(&o->listener);
	ops_files_free(&o->files);
	ops_process_close(&o->env.process);
	free(o);
}

/* --- answers */

static const char *const content_types[METRIC_FORMATS] = {
	[METRIC_TEXT] = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n",
	[METRIC_OPENMETRICS] = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n",
};
#define PLAIN "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"

static void say(struct http_request *r, int status, const char *headers, const char *text)
{
	char lines[256];

	(void)snprintf(lines, sizeof(lines), PLAIN "%s", headers);
	http_reply(r, status, lines, text, strlen(text));
}

/* Reasons are texts of the server's own: no name of anybody is in them. */
static void add_reason(struct str *ret, bool *all_well, const char *about, const char *why)
{
	if (!ret) {
		*all_well = false;
		return;
	}
	str_puts(ret, *all_well ? "{\"ready\":false,\"reasons\":[\"" : ",\"");
	*all_well = false;
	str_puts(ret, about);
	for (const char *p = why; *p; p++) {
		if (*p == '"' || *p == '\\')
			str_putc(ret, '\\');
		str_putc(ret, (unsigned char)*p < ' ' ? ' ' : *p);
	}
	str_putc(ret, '"');
}

/* May calls come?  Else why not, as JSON; ret NULL: nobody asks that. */
static bool ready(const struct ops_env *env, struct str *ret)
{
	const char *reason = NULL;
	bool all_well = true;

	if (env->draining && env->draining(env->arg))
		add_reason(ret, &all_well, "", "draining");
	if (env->writer && writer_state(env->writer, &reason) < 0)
		add_reason(ret, &all_well, "audit: ", reason ? reason : "calls are refused");
	if (ret)
		str_puts(ret, all_well ? "{\"ready\":true}\n" : "]}\n");
	return all_well;
}

static void answer_health(struct asked *q)
{
	struct str text = STR_INIT;
	bool may_come;

	if (q->route == ROUTE_HEALTHZ) {
		say(q->r, 200, "", "ok\n");
		return;
	}
	may_come = ready(&q->c->o->env, &text);
	http_reply(q->r, may_come ? 200 : 503, "Content-Type: application/json\r\nCache-Control: no-store\r\n", text.p,
		   text.len);
	str_fini(&text);
}

/* on the lane */
static void make(void *arg)
{
	struct making *m = arg;

	ops_expose(&m->o->env, &m->seen, m->format, &m->text);
}

static void refuse_text(struct asked *q, const char *why)
{
	metric_inc(METRIC_scrape_texts_refused);
	say(q->r, 503, "Retry-After: 1\r\n", why);
	free(q);
}

static void made(void *arg)
{
	struct making *m = arg;
	struct ops *o = m->o;
	char lines[160];

	(void)snprintf(lines, sizeof(lines), "%sCache-Control: no-store\r\n", content_types[m->format]);
	if (m->text.failed)
		m->refused = "the metrics are larger than they may be\n";
	while (!list_empty(&m->waiters)) {
		struct asked *q = CONTAINER_OF(m->waiters.next, struct asked, node);

		list_unlink(&q->node);
		q->c->waits = false;
		if (m->refused) {
			refuse_text(q, m->refused);
			continue;
		}
		metric_inc(METRIC_scrapes);
		http_reply(q->r, 200, lines, m->text.p, m->text.len);
		free(q);
	}
	o->making[m->format] = NULL;
	tally_release();
	free(m->seen.quota);
	free(m->seen.upstream);
	str_fini(&m->seen.more);
	str_fini(&m->text);
	free(m);
	maybe_free(o);
}

static void look_at_upstream(void *arg, const char *name, bool up)
{
	struct ops_seen *s = arg;
	struct ops_upstream *u;

	if (s->nupstreams == OPS_UPSTREAMS_MAX) {
		metric_inc(METRIC_labels_summed);
		s->others++;
		s->others_down += !up;
		return;
	}
	if (!s->upstream)
		s->upstream = mem_calloc(OPS_UPSTREAMS_MAX, sizeof(*s->upstream));
	u = &s->upstream[s->nupstreams++];
	(void)snprintf(u->name, sizeof(u->name), "%s", name);
	u->up = up;
}

static void look_at_alert(void *arg, const char *rule, const char *severity, unsigned n)
{
	struct ops_seen *s = arg;

	if (s->nalerts == OPS_ALERTS_MAX)
		return;                 /* there are fewer rules */
	s->alert[s->nalerts].rule = rule;
	s->alert[s->nalerts].severity = severity;
	s->alert[s->nalerts++].n = n;
}

static void look_at_quotas(struct making *m, size_t end)
{
	const struct ops_env *env = &m->o->env;

	for (size_t *n = &m->seen.nquotas; *n < end; ++*n) {
		double *quota = m->seen.quota[*n];

		for (size_t of = 0; of < OPS_QUOTAS; of++)
			quota[of] = -1;
		env->quotas(env->arg, tally_name(TALLY_TENANT, *n), quota);
	}
}

/* What only the loop can see, a part of the tenants in each of its turns; then the text. */
static void look(void *arg)
{
	struct making *m = arg;
	const size_t rest = m->ntenants - m->seen.nquotas;

	if (m->refused) {
		made(m);
		return;
	}
	look_at_quotas(m, m->seen.nquotas + (rest < OPS_TENANTS_AT_ONCE ? rest : OPS_TENANTS_AT_ONCE));
	if (m->seen.nquotas < m->ntenants) {
		ev_post(m->o->env.loop, look, m);
		return;
	}
	if (ev_work(m->o->env.loop, EV_LANE_OPS, make, made, m) < 0) {
		m->refused = "the server is busy\n";
		made(m);
	}
}

static struct making *making_new(struct ops *o, enum metric_format format)
{
	struct making *m = mem_zalloc(sizeof(*m));

	*m = (struct making){ .o = o, .format = format, .seen = {
		.ready = ready(&o->env, NULL), .why = o->env.writer ? writer_why(o->env.writer) : WRITER_TAKES } };
	str_init(&m->text, OPS_TEXT_MAX);
	list_init(&m->waiters);
	tally_hold();
	o->making[format] = m;
	ev_post(o->env.loop, look, m);
	if (o->env.upstreams)
		o->env.upstreams(o->env.arg, look_at_upstream, &m->seen);
	if (o->env.alerts)
		o->env.alerts(o->env.arg, look_at_alert, &m->seen);
	if (o->env.more)
		o->env.more(o->env.arg, format, &m->seen.more);
	m->ntenants = o->env.quotas ? tally_slots(TALLY_TENANT) : 0;
	if (m->ntenants > 0)
		m->seen.quota = mem_calloc(m->ntenants, sizeof(*m->seen.quota));
	return m;
}

static void answer_metrics(struct asked *q)
{
	struct ops *o = q->c->o;
	struct making *m = o->making[q->format];

	if (q->c->waits) {
		refuse_text(q, "one request for metrics at a time on a connection\n");
		return;
	}
	if (!m)
		m = making_new(o, q->format);
	q->c->waits = true;
	list_push_back(&m->waiters, &q->node);
}

/* --- which format (OP-105) */

#define Q_MOST 1000                     /* a quality of 1.000 */

/* The next piece of *list in front of sep, without blanks around it; *list becomes what follows.  False: none. */
static bool next_piece(struct http_text *list, char sep, struct http_text *ret)
{
	const char *end;

	if (!list->p)
		return false;
	end = memchr(list->p, sep, list->len);
	*ret = (struct http_text){ list->p, end ? (size_t)(end - list->p) : list->len };
	if (end)
		*list = (struct http_text){ end + 1, list->len - ret->len - 1 };
	else
		list->p = NULL;
	while (ret->len > 0 && (*ret->p == ' ' || *ret->p == '\t'))
		ret->p++, ret->len--;
	while (ret->len > 0 && (ret->p[ret->len - 1] == ' ' || ret->p[ret->len - 1] == '\t'))
		ret->len--;
	return true;
}

/* "0.75" in thousandths; what is no quality is none at all. */
static unsigned quality(struct http_text t)
{
	unsigned q = 0, unit = Q_MOST;

	for (size_t i = 0; i < t.len; i++) {
		if (i == 1 && t.p[i] == '.')
			continue;
		if (t.p[i] < '0' || t.p[i] > '9' || unit == 0 || (i == 0 && t.p[i] > '1'))
			return 0;
		q += unit * (unsigned)(t.p[i] - '0');
		unit /= 10;
	}
	return q > Q_MOST ? 0 : q;
}

/* One member of Accept: how much each of the formats is liked through it. */
static void weigh(struct http_text member, unsigned liked[METRIC_FORMATS])
{
	struct http_text type, param, version = { NULL, 0 };
	unsigned q = Q_MOST;
	enum metric_format f;

	if (!next_piece(&member, ';', &type))
		return;
	while (next_piece(&member, ';', &param)) {
		if (param.len > 2 && (param.p[0] == 'q' || param.p[0] == 'Q') && param.p[1] == '=')
			q = quality((struct http_text){ param.p + 2, param.len - 2 });
		else if (param.len > 8 && memcmp(param.p, "version=", 8) == 0)
			version = (struct http_text){ param.p + 8, param.len - 8 };
	}
	if (http_text_is_nocase(type, "application/openmetrics-text"))
		f = METRIC_OPENMETRICS;
	else if (http_text_is_nocase(type, "text/plain") || http_text_is_nocase(type, "text/*") ||
		 http_text_is_nocase(type, "*/*"))
		f = METRIC_TEXT;
	else
		return;
	if (version.p && !http_text_is(version, f == METRIC_TEXT ? "0.0.4" : "1.0.0"))
		return;
	if (q > liked[f])
		liked[f] = q;
}

/* Of the values of the headers Accept, in order: OpenMetrics where a client prefers it, or likes both as much; whoever
 * asks for something else gets 0.0.4. */
static enum metric_format format_of(const struct http_head *h)
{
	unsigned liked[METRIC_FORMATS] = { 0 };

	for (size_t i = 0; i < h->nheaders; i++) {
		struct http_text list = h->header[i].value, member;

		if (!http_text_is_nocase(h->header[i].name, "accept"))
			continue;
		while (next_piece(&list, ',', &member))
			weigh(member, liked);
	}
	return liked[METRIC_OPENMETRICS] > 0 && liked[METRIC_OPENMETRICS] >= liked[METRIC_TEXT] ? METRIC_OPENMETRICS :
		METRIC_TEXT;
}

/* --- requests */

static int refuse(struct http_request *r, int status, const char *headers, const char *text)
{
	metric_inc(METRIC_scrape_requests_refused);
	say(r, status, headers, text);
	return 1;
}

/* Bytes of the head up to the end of its last line. */
static size_t head_size(const struct http_head *h)
{
	const struct http_text *last = h->nheaders ? &h->header[h->nheaders - 1].value : &h->target;
	static const char ends[] = "\r\n\r\n", version[] = " HTTP/1.1";

	return (size_t)(last->p + last->len - h->method.p) + sizeof(ends) - 1 + (h->nheaders ? 0 : sizeof(version) - 1);
}

/* A name that a web page could have pointed at us is refused (DNS rebinding, SEC S-T20). */
static bool host_is_ours(const struct http_head *h)
{
	unsigned count = 0;
	struct http_text host = http_head_get(h, "host", &count);
	const char *colon = host.p ? memrchr(host.p, ':', host.len) : NULL;
	char text[ADDR_TEXT_SIZE];
	struct addr a;

	if (count == 0)
		return true;            /* HTTP/1.0: no browser's */
	if (colon && !memchr(colon, ']', host.len - (size_t)(colon - host.p)))
		host.len = (size_t)(colon - host.p);
	if (http_text_is_nocase(host, "localhost"))
		return true;
	(void)snprintf(text, sizeof(text), "%.*s:0", host.len < sizeof(text) - 3 ? (int)host.len : 0, host.p);
	return addr_parse(text, &a, NULL) == 0;
}

static bool token_fits(const struct ops_files *f, const struct http_head *h)
{
	static const char scheme[] = "Bearer ";
	const size_t n = sizeof(scheme) - 1;
	unsigned count = 0;
	struct http_text value = http_head_get(h, "authorization", &count);
	uint8_t digest[DIGEST_SIZE];

	if (count != 1 || value.len <= n || !http_text_is_nocase((struct http_text){ value.p, n }, scheme))
		return false;
	digest_sha256(value.p + n, value.len - n, digest);
	return secret_equal(digest, f->token, sizeof(digest));
}

/* 0, or 1: it was refused. */
static int check_token(struct conn *c, struct http_request *r, const struct http_head *h)
{
	const struct ops_files *f = c->o->files;
	uint32_t wait_ms;
	char retry[48];

	if (!f->has_token)
		return 0;
	wait_ms = gate_penalty_ms(&c->pass);
	if (wait_ms > 0) {
		(void)snprintf(retry, sizeof(retry), "Retry-After: %u\r\n", (wait_ms + 999) / 1000);
		http_conn_drain(c->http);
		return refuse(r, 429, retry, "too many failures from this address, come again later\n");
	}
	if (token_fits(f, h)) {
		gate_known(&c->pass);
		return 0;
	}
	metric_inc(METRIC_scrape_tokens_refused);
	gate_failed(c->o->env.gate, c->from);
	http_conn_drain(c->http);
	say(r, 401, "WWW-Authenticate: Bearer realm=\"metrics\"\r\n", "metrics.token_file has the token for this\n");
	return 1;
}

static enum route route_of(struct http_text path)
{
	static const char *const paths[ROUTES] = { "/metrics", "/healthz", "/readyz" };
	enum route i = ROUTE_METRICS;

	while (i < ROUTES && !http_text_is(path, paths[i]))
		i++;
	return i;
}

static int on_head(void *arg, struct http_request *r, const struct http_head *h, size_t *body_max, void **ret_user)
{
	struct conn *c = arg;
	struct asked *q;
	enum route route = route_of(h->path);

	*body_max = OPS_BODY_MAX;
	ev_timer_stop(c->first);
	if (head_size(h) > OPS_HEAD_MAX) {
		http_conn_drain(c->http);
		return refuse(r, 431, "", "the head of a request has at most 8192 bytes here\n");
	}
	if (c->o->loopback && !host_is_ours(h))
		return refuse(r, 403, "", "this host is not served: name an address of this machine, or localhost\n");
	if (route == ROUTES)
		return refuse(r, 404, "", "there are /metrics, /healthz and /readyz\n");
	if (!http_text_is(h->method, "GET") && !http_text_is(h->method, "HEAD"))
		return refuse(r, 405, "Allow: GET, HEAD\r\n", "GET and HEAD only\n");
	if (route == ROUTE_METRICS && check_token(c, r, h) != 0)
		return 1;
	q = mem_zalloc(sizeof(*q));
	*q = (struct asked){ .c = c, .r = r, .route = route, .format = format_of(h) };
	list_init(&q->node);
	*ret_user = q;
	return 0;
}

static void on_request(void *arg, struct http_request *r, void *user, const char *body, size_t len)
{
	struct asked *q = user;

	if (q->route == ROUTE_METRICS) {
		answer_metrics(q);
		return;
	}
	answer_health(q);
	free(q);
}

static void on_gone(void *arg, struct http_request *r, void *user)
{
	struct asked *q = user;

	if (!list_empty(&q->node))
		q->c->waits = false;
	list_unlink(&q->node);
	free(q);
}

/* --- connections */

static void free_ops(void *arg)
{
	maybe_free(arg);
}

static void on_closed(void *arg, struct http_conn *http)
{
	struct conn *c = arg;
	struct ops *o = c->o;

	list_unlink(&c->node);
	ev_timer_free(&c->first);
	gate_leave(&c->pass);
	free(c);
	listen_conn_gone(o->listener);
	if (o->closing && list_empty(&o->conns))
		ev_defer(o->env.loop, free_ops, o);
}

static void on_broken(void *arg)
{
	const struct conn *c = arg;

	gate_broke(&c->pass);
}

static const struct http_ops http_ops = { on_head, on_request, on_gone, on_closed, on_broken };

/* A connection that asks nothing would keep one of few places. */
static void on_late(void *arg)
{
	struct conn *c = arg;

	metric_inc(METRIC_scrape_connections_late);
	http_conn_close(c->http);
}

/* Is there a place for one more?  It counts already. */
static bool has_place(struct ops *o)
{
	static struct log_site site;

	if (listen_live(o->listener) <= OPS_CONNECTIONS_MAX)
		return true;
	metric_inc(METRIC_scrape_connections_refused);
	if (log_allow(&site))
		log_warn(NULL, "too many connections for metrics and health listener=%s", listen_address(o->listener));
	return false;
}

/* Before a handshake of TLS. */
static bool enter(void *arg, struct accepted *a)
{
	struct ops *o = arg;
	uint32_t wait_ms;

	return !o->shut[0] && has_place(o) &&
	       gate_enter(o->env.gate, &a->peer, false, &a->pass, &wait_ms) == GATE_OPEN;
}

static void not_shaken(void *arg, struct accepted *a)
{
	gate_leave(&a->pass);
}

/* A plain connection passes the gate here.  False: it is gone. */
static bool enter_plain(struct ops *o, const struct accepted *a, struct gate_pass *ret)
{
	static const char busy[] =
		"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
	uint32_t wait_ms = 0;

	if (has_place(o) && gate_enter(o->env.gate, &a->peer, false, ret, &wait_ms) == GATE_OPEN)
		return true;
	/* A socket that has no room for it at its very beginning has no reader either. */
	(void)!write(a->fd, busy, sizeof(busy) - 1);
	close(a->fd);
	listen_conn_gone(o->listener);
	return false;
}

static void accepted(void *arg, const struct accepted *a)
{
	static const struct http_timers timers = { .head_ms = OPS_REQUEST_MS, .body_ms = OPS_REQUEST_MS,
						   .idle_ms = OPS_IDLE_MS };
	struct ops *o = arg;
	struct gate_pass pass = a->pass;
	struct conn *c;

	if (!a->tls && !enter_plain(o, a, &pass))
		return;
	c = mem_zalloc(sizeof(*c));
	c->o = o;
	c->pass = pass;
	(void)snprintf(c->from, sizeof(c->from), "%s", a->from);
	list_push_back(&o->conns, &c->node);
	c->first = ev_timer_new(o->env.loop, on_late, c);
	ev_timer_start(c->first, OPS_REQUEST_MS * 1000ull);
	if (!o->files->has_token)
		gate_known(&c->pass);
	c->http = http_conn_new(o->env.loop, a->fd, &timers, &http_ops, c);
	http_conn_from(c->http, a->tls, &c->pass);
}

/* --- opening and closing */

/* One more than there are places: who finds none is told so. */
static int open_listener(struct ops *o, const char *address, struct err *err)
{
	struct addr a;
	int rc;

	if (*address == '/')
		return listen_unix(o->env.loop, address, SOCKET_MODE, OPS_CONNECTIONS_MAX + 1, accepted, o, &o->listener, err);
	rc = addr_parse(address, &a, err);
	if (rc == 0)
		rc = listen_tcp(o->env.loop, address, OPS_CONNECTIONS_MAX + 1, accepted, o, &o->listener, err);
	if (rc < 0)
		return rc;
	o->loopback = addr_is_loopback(&a) && !o->files->tls && !o->files->has_token;
	if (o->files->tls)
		listen_tls(o->listener, &(struct listen_door){ o->files->tls, enter, not_shaken, o });
	return 0;
}

void ops_count_names(const struct conf *conf)
{
	tally_bound(TALLY_TENANT, conf->metrics_tenants);
	tally_bound(TALLY_TOOL, conf->metrics_tools);
	tally_bound(TALLY_METHOD, OPS_METHODS_MAX);
	tally_bound(TALLY_UPSTREAM, OPS_UPSTREAMS_MAX);
}

int ops_open(const struct ops_env *env, const struct conf *conf, struct ops **ret, struct err *err)
{
	struct ops *o = mem_zalloc(sizeof(*o));
	struct err late = { 0 };
	int rc;

	o->env = *env;
	list_init(&o->conns);
	rc = ops_files_load(conf, &o->files, &late, err);
	if (rc == 0 && open_listener(o, conf->metrics_listen, err) < 0)
		rc = err_wrap(err, "metrics.listen %s", conf->metrics_listen);
	if (rc < 0) {
		ops_files_free(&o->files);
		free(o);
		return rc;
	}
	if (late.code) {
		(void)snprintf(o->shut, sizeof(o->shut), "%s: %s", late.where, late.msg);
		log_err(NULL, "listener refused, nobody is served there until a reload finds good files listener=%s why=\"%s\"",
			ops_address(o), o->shut);
	}
	*ret = o;
	return 0;
}

void ops_renew(struct ops *o, struct ops_files **next)
{
	struct ops_files *f = *next;

	if (!f)
		return;
	*next = NULL;
	if (o->files->tls && f->tls) {
		tls_server_replace(o->files->tls, &f->tls);
		o->shut[0] = '\0';
	}
	memcpy(o->files->token, f->token, sizeof(f->token));
	ops_files_free(&f);
}

void ops_close(struct ops **op)
{
	struct ops *o = op ? *op : NULL;

	if (!o)
		return;
	*op = NULL;
	o->closing = true;
	for (int f = 0; f < METRIC_FORMATS; f++)
		if (o->making[f])
			o->making[f]->refused = "the server ends\n";     /* whom it would ask is gone by then */
	listen_pause(o->listener, true);
	LIST_FOREACH_SAFE(n, tmp, &o->conns)
		http_conn_close(CONTAINER_OF(n, struct conn, node)->http);
	if (list_empty(&o->conns))
		ev_defer(o->env.loop, free_ops, o);
}

const char *ops_address(const struct ops *o)
{
	return listen_address(o->listener);
}

uint64_t ops_expires_us(const struct ops *o)
{
	return o->files->tls ? tls_server_expires_us(o->files->tls) : 0;
}

const char *ops_shut(const struct ops *o)
{
	return o->shut[0] ? o->shut : NULL;
}

const struct ops_process *ops_process(const struct ops *o)
{
	return &o->env.process;
}
