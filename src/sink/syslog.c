/* Type syslog: RFC 5424 over TLS (RFC 5425), or over TCP on this machine.  Nothing in it acknowledges a message.  So a
 * batch counts as sent when the peer's TCP has acknowledged all of it, and is kept in mind for a while longer
 * (save.c): when the connection breaks, what is younger goes again.  One connection; loop thread, but for put(). */
#include "config.h"

#include <inttypes.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "ev/ev.h"
#include "net/fetch.h"
#include "net/stream.h"
#include "net/tls.h"
#include "net/url.h"

#include "sink_int.h"

#define TIMEOUT_MS 30000                /* for a peer to acknowledge a batch */
#define LOOK_FIRST_US 500               /* between two looks whether it has; doubled */
#define LOOK_MOST_US 20000
#define PEER_SAYS_MAX 4096              /* bytes of the peer's that may wait to be dropped */
/* A peer whose machine is gone is noticed in less than a default `resend`, also when there is nothing to say. */
#define ALIVE_IDLE_S 5
#define ALIVE_TRIES 3
#define FACILITY_AUDIT 13
#define MEM_MAX 4096

struct dialing;
struct siem {
	struct sink *s;
	struct url at;
	struct arena *mem;
	struct fetch_allow allow;
	struct fetch_policy policy;
	char scope[CONF_SINK_NAME_MAX + sizeof("sink:")];
	struct tls_client client;
	char *url;                      /* for the fetcher, which connects */
	struct dialing *dialing;        /* NULL: no connection is being made */
	struct tls_handshake *shaking;
	struct stream *stream;          /* NULL: there is none */
	int fd;                         /* the stream's */
	const struct sink_batch *batch; /* on its way; NULL: none is, or it waits for the connection */
	uint64_t sent_us, look_us;
	struct ev_timer *look;
};
struct dialing { struct siem *m; struct fetch *fetch; };        /* m: NULL = nobody wants to know */

/* --- messages (on the reading lane) */

static const int severities[] = { [SINK_INFO] = 6, [SINK_WARNING] = 4, [SINK_ERROR] = 3 };

static void put_escaped(struct str *out, const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i] == '"' || p[i] == '\\' || p[i] == ']')
			str_putc(out, '\\');
		str_putc(out, p[i]);
	}
}

static void put_param(struct str *out, const char *name, const char *p, size_t len)
{
	str_printf(out, " %s=\"", name);
	put_escaped(out, p, len);
	str_putc(out, '"');
}

static void put_member(struct str *out, const struct report_carried *r, const char *name)
{
	size_t len;
	const char *p = sink_member(r, name, &len);

	if (p)
		put_param(out, name, p, len);
}

static void put_head(struct str *out, const struct sink *s, const struct report_carried *r, size_t cut)
{
	char time[32], index[24];
	struct utsname host;
	const char *kind = audit_kind_name(r->kind);

	str_printf(out, "<%d>1 %s %s toolcrib - %s [toolcrib@%" PRIu32, 8 * FACILITY_AUDIT + severities[sink_severity(r)],
		   clock_format_utc((uint64_t)r->ts_us, time, sizeof(time)), sink_host(&host), kind ? kind : "-", s->conf->pen);
	(void)snprintf(index, sizeof(index), "%" PRId64, r->idx);
	put_param(out, "id", r->uid, strlen(r->uid));
	put_member(out, r, "log");
	put_param(out, "index", index, strlen(index));
	put_member(out, r, "call");
	put_member(out, r, "tenant");
	if (cut) {
		(void)snprintf(index, sizeof(index), "%zu", cut);
		put_param(out, "cut", index, strlen(index));
	}
	str_puts(out, "] ");
}

/* What is too long for many receivers goes without its text: who sees `cut` asks the store. */
static int put_message(struct sink *s, struct str *out, const struct report_carried *r, const char *line, size_t len,
		       struct err *err)
{
	struct str message = STR_INIT;

	(void)err;
	put_head(&message, s, r, 0);
	if (message.len + len > SINK_SYSLOG_MAX) {
		str_reset(&message);
		put_head(&message, s, r, len);
		len = 0;
		s->batch.cut++;
	}
	str_put(&message, line, len);
	str_printf(out, "%zu ", message.len);
	str_put(out, str_text(&message), message.len);
	str_fini(&message);
	return 0;
}

/* --- the end of a connection */

static void hang_up(struct siem *m)
{
	ev_timer_stop(m->look);
	m->batch = NULL;
	stream_close(&m->stream);
	tls_handshake_cancel(&m->shaking);
	if (!m->dialing)
		return;
	m->dialing->m = NULL;
	fetch_cancel(m->dialing->fetch);
	m->dialing = NULL;
}

/* after_us: as failed(). */
static void broken(struct siem *m, const char *why, uint64_t after_us)
{
	struct sink *s = m->s;
	const bool any = s->all->on->again(s);

	hang_up(m);
	if (s->busy || any)
		s->all->on->failed(s, why, after_us);
	else
		s->all->on->go(s->all);
}

/* --- a batch */

static void on_look(void *arg)
{
	struct siem *m = arg;
	const struct sink_batch *b = m->batch;
	int left = 0;

	if (stream_queued(m->stream) == 0 && ioctl(m->fd, SIOCOUTQ, &left) == 0 && left == 0) {
		m->batch = NULL;
		sink_resend_add(&m->s->resend, b->log, b->from);
		m->s->all->on->taken(m->s);
	} else if (clock_mono_us() > m->sent_us + TIMEOUT_MS * 1000ull) {
		broken(m, "it does not take what is sent, for 30 s", 0);
	} else {
		m->look_us = 2 * m->look_us < LOOK_MOST_US ? 2 * m->look_us : LOOK_MOST_US;
		ev_timer_start(m->look, m->look_us);
	}
}

static void write_batch(struct siem *m)
{
	m->batch = &m->s->batch;
	m->sent_us = clock_mono_us();
	m->look_us = LOOK_FIRST_US;
	stream_write(m->stream, m->batch->body.p, m->batch->body.len);
	ev_timer_start(m->look, m->look_us);
}

static size_t on_data(void *arg, const char *p, size_t len)     /* nothing that the protocol knows */
{
	(void)arg;
	(void)p;
	return len;
}

static void on_ended(void *arg, enum stream_end why)
{
	broken(arg, why == STREAM_STALLED ? "it does not take what is sent" : "it has ended the connection", 0);
}

/* --- a connection */

static void stand(struct siem *m, int fd, struct tls *tls)
{
	static const struct stream_ops ops = { on_data, on_ended, NULL };
	const int on = 1, idle = ALIVE_IDLE_S, tries = ALIVE_TRIES;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
	m->fd = fd;
	m->stream = stream_new(m->s->all->env.loop, fd, fd, PEER_SAYS_MAX, &ops, m);
	if (tls)
		stream_tls(m->stream, tls);
	if (m->s->busy)
		write_batch(m);
}

static void on_shaken(void *arg, struct tls *tls)
{
	struct siem *m = arg;
	const struct tls_handshake *h = m->shaking;
	char why[192];
	bool refused;

	m->shaking = NULL;
	if (tls) {
		stand(m, m->fd, tls);
		return;
	}
	(void)snprintf(why, sizeof(why), "no TLS with it: %s", tls_handshake_why(h, &refused));
	broken(m, why, refused ? SINK_MEND : 0);
}

static void shake(struct siem *m, int fd)
{
	struct err err;

	if (m->s->conf->clear_text) {
		stand(m, fd, NULL);
		return;
	}
	m->fd = fd;
	if (tls_begin(m->s->all->env.loop, fd, m->at.host, &m->client, on_shaken, m, &m->shaking, &err) == 0)
		return;
	close(fd);
	broken(m, err.msg, SINK_MEND);
}

static void on_head(void *arg, const struct fetch_head *head)
{
	(void)arg;
	(void)head;
}

static int on_answer(void *arg, const void *p, size_t len)
{
	(void)arg;
	(void)p;
	(void)len;
	return 0;
}

static void on_dialed(void *arg, int rc, const struct err *err)
{
	struct dialing *d = arg;
	struct siem *m = d->m;

	if (m)
		m->dialing = NULL;
	if (m && rc < 0)
		broken(m, err->msg, rc == ERR_DENIED ? SINK_MEND : 0);
	else if (m)
		shake(m, fetch_take_socket(d->fetch));
	free(d);
}

static void dial(struct siem *m)
{
	static const struct fetch_sink sink = { on_head, on_answer, on_dialed };
	struct dialing *d = mem_zalloc(sizeof(*d));
	struct err err;
	int rc;

	d->m = m;
	rc = fetch_start(m->s->all->env.fetcher, &(struct fetch_req){ .method = "GET", .url = m->url,
			.policy = &m->policy, .scope = m->scope, .connect_only = true,
			.deadline_us = clock_mono_us() + FETCH_CONNECT_MS * 1000ull }, &sink, d, &d->fetch, &err);
	if (rc == 0) {
		m->dialing = d;
		return;
	}
	free(d);
	broken(m, err.msg, rc == ERR_DENIED ? SINK_MEND : 0);
}

static void send_syslog(struct sink *s, const struct sink_batch *b)
{
	struct siem *m = s->own;

	(void)b;
	if (m->stream)
		write_batch(m);
	else if (!m->dialing && !m->shaking)
		dial(m);
}

/* --- what the configuration names, and life */

static int load_address(struct siem *m, const struct conf_sink *conf, struct err *err)
{
	m->mem = arena_new(MEM_MAX);
	(void)snprintf(m->scope, sizeof(m->scope), "sink:%s", conf->name);      /* no tenant has that name */
	if (url_parse_host_port(conf->address, "address", &m->at, err) < 0)
		return err->code;
	return fetch_policy_place(&m->at, conf->ca, "sinks", m->mem, &m->allow, &m->policy, err);
}

static void siem_free(struct siem *m)
{
	arena_free(&m->mem);
	ev_timer_free(&m->look);
	free(m->url);
	free(m);
}

static int siem_load(const struct conf_sink *conf, struct siem **ret, struct err *err)
{
	struct siem *m = mem_zalloc(sizeof(*m));
	int rc = load_address(m, conf, err);

	m->client = (struct tls_client){ .ca = conf->ca, .cert = conf->cert, .key = conf->key };
	if (rc == 0 && conf->clear_text && !url_is_here(&m->at))
		rc = err_set(err, ERR_INVALID, "tls", "%s must be reached by TLS, unless it is on this machine", conf->address);
	if (rc == 0 && !conf->clear_text)
		rc = tls_client_check(&m->client, err);
	if (rc < 0) {
		siem_free(m);
		return sink_fault(conf, err);
	}
	m->url = mem_printf("http://%s/", conf->address);
	*ret = m;
	return 0;
}

static int check_syslog(const struct conf_sink *conf, struct err *err)
{
	struct siem *m = NULL;
	int rc = siem_load(conf, &m, err);

	if (m)
		siem_free(m);
	return rc;
}

static int open_syslog(struct sink *s, struct err *err)
{
	struct siem *m = NULL;
	int rc = siem_load(s->conf, &m, err);

	if (rc < 0)
		return rc;
	m->s = s;
	m->look = ev_timer_new(s->all->env.loop, on_look, m);
	s->own = m;
	return 0;
}

static void close_syslog(struct sink *s)
{
	struct siem *m = s->own;

	if (m->stream)
		stream_finish(&m->stream);      /* with the farewell of TLS */
	hang_up(m);
	siem_free(m);
}

const struct sink_type sink_syslog = { check_syslog, open_syslog, send_syslog, close_syslog, put_message, NULL, NULL };
