/* SMTP of our own (net/mail.h): libcurl's waits for the server's answer behind a message and behind QUIT, which the
 * loop may not.  The fetcher connects, so that the policy of addresses holds; then a dialogue of lines, a step for each
 * answer.  What a server says is a number for us: no text of it is shown.  Loop thread. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "ev/ev.h"
#include "net/fetch.h"
#include "net/mail.h"
#include "net/stream.h"
#include "net/tls.h"
#include "net/url.h"

#define MEM_MAX 4096
#define PASSWORD_FILE_MAX 4096
#define NAME_SIZE 256

enum step {
	AT_GREETING, AT_EHLO, AT_STARTTLS, AT_LOGIN, AT_USER, AT_PASSWORD, AT_FROM, AT_TO, AT_DATA, AT_END,
};
static const struct { const char *name; int wants; } steps[] = {        /* wants: the first digit of what goes on */
	[AT_GREETING] = { "the connection", 2 }, [AT_EHLO] = { "EHLO", 2 }, [AT_STARTTLS] = { "STARTTLS", 2 },
	[AT_LOGIN] = { "AUTH", 3 }, [AT_USER] = { "AUTH", 3 }, [AT_PASSWORD] = { "AUTH", 2 }, [AT_FROM] = { "MAIL FROM", 2 },
	[AT_TO] = { "RCPT TO", 2 }, [AT_DATA] = { "DATA", 3 }, [AT_END] = { "the message", 2 },
};

struct dialing;
struct mail {
	struct ev_loop *loop;
	struct fetcher *fetcher;
	struct mail_conf conf;
	struct url at;
	struct arena *mem;
	struct fetch_allow allow;
	struct fetch_policy policy;
	struct tls_client client;
	char *scope, *url;              /* url: for the fetcher, which connects */
	struct str password;
	char name[NAME_SIZE];           /* of this machine, as EHLO has it */
	hook_done_fn *done;
	void *arg;
	/* one message */
	struct str text;                /* as it goes out, without the dot behind it */
	struct dialing *dialing;        /* NULL: no connection is being made */
	struct tls_handshake *shaking;
	int fd;                         /* while shaking */
	struct stream *stream;
	struct ev_timer *deadline;
	struct ev_timer *soon;          /* TLS begins when this turn's bytes are through */
	enum step step;
	bool secured, starttls, plain, login;   /* what EHLO offers */
	unsigned lines;                 /* of the answer that comes */
	int status;
	size_t to, accepted;
};
struct dialing { struct mail *m; struct fetch *fetch; };        /* m: NULL = nobody wants to know */

/* --- the end of a message */

static void hang_up(struct mail *m)
{
	ev_timer_stop(m->deadline);
	ev_timer_stop(m->soon);
	stream_close(&m->stream);
	tls_handshake_cancel(&m->shaking);
	if (!m->dialing)
		return;
	m->dialing->m = NULL;
	fetch_cancel(m->dialing->fetch);
	m->dialing = NULL;
}

static void end(struct mail *m, const struct hook_answer *a)
{
	hang_up(m);
	str_reset(&m->text);
	m->done(m->arg, a);
}

static void broken(struct mail *m, const char *why, bool mend)
{
	end(m, &(struct hook_answer){ .mend = mend, .why = why, .status = m->status });
}

static void refused(struct mail *m)
{
	char why[96];

	(void)snprintf(why, sizeof(why), "it answers %s with status %d%s", steps[m->step].name, m->status,
		       m->status >= 500 ? ", which a person has to mend" : "");
	broken(m, why, m->status >= 500);
}

static void on_late(void *arg)
{
	broken(arg, "it has not taken the message in 60 s", false);
}

/* --- the dialogue */

static void say(struct mail *m, enum step step, const char *verb, const char *what, const char *end_of)
{
	struct str line = STR_SECRET_INIT;

	str_printf(&line, "%s%s%s\r\n", verb, what, end_of);
	m->step = step;
	m->lines = 0;
	stream_write(m->stream, str_text(&line), line.len);
	str_wipe(&line);
}

static void say_hello(struct mail *m)
{
	m->starttls = m->plain = m->login = false;
	say(m, AT_EHLO, "EHLO ", m->name, "");
}

static void say_coded(struct mail *m, enum step step, const char *verb, const void *p, size_t len)
{
	char *coded = mem_alloc(text_base64_size(len));

	text_base64(p, len, coded);
	say(m, step, verb, coded, "");
	secret_wipe(coded, strlen(coded));
	free(coded);
}

static void say_plain(struct mail *m)
{
	struct str both = STR_SECRET_INIT;

	str_putc(&both, '\0');          /* RFC 4616 */
	str_put(&both, m->conf.user, strlen(m->conf.user) + 1);
	str_put(&both, m->password.p, m->password.len);
	say_coded(m, AT_PASSWORD, "AUTH PLAIN ", both.p, both.len);
	str_wipe(&both);
}

static void say_from(struct mail *m)
{
	m->to = m->accepted = 0;
	say(m, AT_FROM, "MAIL FROM:<", m->conf.from, ">");
}

static void say_who(struct mail *m)
{
	if (!m->conf.user)
		say_from(m);
	else if (m->plain)
		say_plain(m);
	else if (m->login)
		say(m, AT_LOGIN, "AUTH LOGIN", "", "");
	else
		broken(m, "it takes no password, neither by PLAIN nor by LOGIN", true);
}

static void next_recipient(struct mail *m)
{
	if (m->to < m->conf.nto)
		say(m, AT_TO, "RCPT TO:<", m->conf.to[m->to++], ">");
	else if (m->accepted == 0)
		refused(m);
	else
		say(m, AT_DATA, "DATA", "", "");
}

static void taken(struct mail *m)
{
	static const char quit[] = "QUIT\r\n";

	if (m->accepted < m->conf.nto)
		log_warn(NULL, "mail goes to fewer than it is for, the server refuses some scope=%s to=%zu taken=%zu", m->scope,
			 m->conf.nto, m->accepted);
	stream_write(m->stream, quit, sizeof(quit) - 1);
	stream_finish(&m->stream);      /* nobody waits for its farewell */
	end(m, &(struct hook_answer){ .taken = true, .status = m->status });
}

static void greeted(struct mail *m)
{
	if (m->conf.tls != MAIL_STARTTLS || m->secured)
		say_who(m);
	else if (m->starttls)
		say(m, AT_STARTTLS, "STARTTLS", "", "");
	else
		broken(m, "it offers no STARTTLS", true);
}

static void say_message(struct mail *m)
{
	m->step = AT_END;
	m->lines = 0;
	stream_write_answer(m->stream, m->text.p, m->text.len);
	stream_write(m->stream, ".\r\n", 3);
}

/* The whole answer is there. */
static void go_on(struct mail *m)
{
	const int first = m->status / 100;

	m->accepted += m->step == AT_TO && first == 2;
	if (m->step != AT_TO && first != steps[m->step].wants) {
		refused(m);
		return;
	}
	switch (m->step) {
	case AT_GREETING: say_hello(m); break;
	case AT_EHLO: greeted(m); break;
	case AT_STARTTLS: ev_timer_start(m->soon, 0); break;
	case AT_LOGIN: say_coded(m, AT_USER, "", m->conf.user, strlen(m->conf.user)); break;
	case AT_USER: say_coded(m, AT_PASSWORD, "", m->password.p, m->password.len); break;
	case AT_PASSWORD: say_from(m); break;
	case AT_FROM: case AT_TO: next_recipient(m); break;
	case AT_DATA: say_message(m); break;
	case AT_END: taken(m); break;
	}
}

/* "250-8BITMIME", "250-AUTH PLAIN LOGIN", "250 STARTTLS" */
static void offered(struct mail *m, const char *p, size_t len)
{
	char line[MAIL_LINE_MAX + 1], *save = NULL;
	const char *word;

	memcpy(line, p, len);
	line[len] = '\0';
	word = strtok_r(line, " =", &save);
	if (word && strcasecmp(word, "STARTTLS") == 0)
		m->starttls = true;
	if (!word || strcasecmp(word, "AUTH") != 0)
		return;
	while ((word = strtok_r(NULL, " ", &save)) != NULL) {
		m->plain = m->plain || strcasecmp(word, "PLAIN") == 0;
		m->login = m->login || strcasecmp(word, "LOGIN") == 0;
	}
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_answer(const struct mail *m, const char *p, size_t len, int *ret_status)
{
	if (len < 3 || p[0] < '2' || p[0] > '5' || !is_digit(p[1]) || !is_digit(p[2]) ||
	    (len > 3 && p[3] != ' ' && p[3] != '-'))
		return false;
	*ret_status = 100 * (p[0] - '0') + 10 * (p[1] - '0') + p[2] - '0';
	return m->lines < MAIL_LINES_MAX && (m->lines == 0 || *ret_status == m->status);
}

static size_t on_data(void *arg, const char *p, size_t len)
{
	struct mail *m = arg;
	size_t line;
	const ssize_t n = line_next(p, len, 0, MAIL_LINE_MAX, &line);
	int status = 0;

	if (ev_timer_armed(m->soon)) {
		broken(m, "it says more than an answer before TLS", true);      /* from whoever (CVE-2011-0411) */
		return len;
	}
	if (n == 0)
		return 0;
	if (n < 0 || !is_answer(m, p, line, &status)) {
		broken(m, "it does not speak SMTP", true);
		return len;
	}
	m->status = status;
	if (m->step == AT_EHLO && m->lines > 0 && line > 4)
		offered(m, p + 4, line - 4);
	m->lines++;
	if (line <= 3 || p[3] != '-')
		go_on(m);
	return (size_t)n;
}

static void on_ended(void *arg, enum stream_end why)
{
	broken(arg, why == STREAM_STALLED ? "it does not take what is sent" : "it has ended the connection", false);
}

/* --- a connection */

static void stand(struct mail *m, int fd, struct tls *tls)
{
	static const struct stream_ops ops = { on_data, on_ended, NULL };

	m->stream = stream_new(m->loop, fd, fd, MAIL_LINE_MAX + 2, &ops, m);
	stream_wipe(m->stream);
	if (tls)
		stream_tls(m->stream, tls);
	if (tls && m->conf.tls == MAIL_STARTTLS) {
		say_hello(m);           /* what was offered before is forgotten (RFC 3207 4.2) */
		return;
	}
	m->step = AT_GREETING;
	m->lines = 0;
}

static void on_shaken(void *arg, struct tls *tls)
{
	struct mail *m = arg;
	const struct tls_handshake *h = m->shaking;
	char why[192];
	bool by_us;

	m->shaking = NULL;
	if (tls) {
		m->secured = true;
		stand(m, m->fd, tls);
		return;
	}
	(void)snprintf(why, sizeof(why), "no TLS with it: %s", tls_handshake_why(h, &by_us));
	broken(m, why, by_us);
}

static void shake(struct mail *m, int fd)
{
	struct err err;

	m->fd = fd;
	if (tls_begin(m->loop, fd, m->at.host, &m->client, on_shaken, m, &m->shaking, &err) == 0)
		return;
	close(fd);
	broken(m, err.msg, true);
}

static void on_soon(void *arg)
{
	struct mail *m = arg;
	const int fd = stream_dup(m->stream);

	stream_close(&m->stream);
	if (fd < 0)
		broken(m, "it has ended the connection", false);
	else
		shake(m, fd);
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
	struct mail *m = d->m;

	if (m)
		m->dialing = NULL;
	if (m && rc < 0)
		broken(m, err->msg, rc == ERR_DENIED);
	else if (m && m->conf.tls == MAIL_TLS)
		shake(m, fetch_take_socket(d->fetch));
	else if (m)
		stand(m, fetch_take_socket(d->fetch), NULL);
	free(d);
}

/* RFC 5321 4.5.2: a line that begins with a dot gets one more. */
static void take_text(struct mail *m, const char *p, size_t len)
{
	str_reset(&m->text);
	for (size_t at = 0; at < len;) {
		const char *lf = memchr(p + at, '\n', len - at);
		const size_t n = lf ? (size_t)(lf - p) + 1 - at : len - at;

		if (p[at] == '.')
			str_putc(&m->text, '.');
		str_put(&m->text, p + at, n);
		at += n;
	}
}

void mail_send(struct mail *m, const void *text, size_t len)
{
	static const struct fetch_sink sink = { on_head, on_answer, on_dialed };
	struct dialing *d = mem_zalloc(sizeof(*d));
	struct err err;
	int rc;

	take_text(m, text, len);
	m->secured = false;
	m->status = 0;
	m->step = AT_GREETING;
	d->m = m;
	rc = fetch_start(m->fetcher, &(struct fetch_req){ .method = "GET", .url = m->url, .policy = &m->policy,
			.scope = m->scope, .connect_only = true,
			.deadline_us = clock_mono_us() + FETCH_CONNECT_MS * 1000ull }, &sink, d, &d->fetch, &err);
	if (rc == 0) {
		m->dialing = d;
		ev_timer_start(m->deadline, MAIL_DIALOG_MS * 1000ull);
		return;
	}
	free(d);
	broken(m, err.msg, rc == ERR_DENIED);
}

/* --- what the configuration names, and life */

static int load_password(struct mail *m, struct err *err)
{
	const char *file = m->conf.password_file;
	int rc = path_read_as(file, PATH_SECRET, PASSWORD_FILE_MAX, &m->password, err);
	size_t len;

	if (rc < 0)
		return rc;
	len = strcspn(str_text(&m->password), "\r\n");
	if (len == 0)
		return err_set(err, ERR_INVALID, file, "%s holds no line with a password", file);
	m->password.len = len;
	return 0;
}

static int load_server(struct mail *m, struct err *err)
{
	if (url_parse_host_port(m->conf.server, "server", &m->at, err) < 0)
		return err->code;
	m->url = mem_printf("http://%s/", m->conf.server);
	if (m->conf.tls == MAIL_CLEAR && !url_is_here(&m->at))
		return err_set(err, ERR_INVALID, "tls", "%s must be reached by TLS, unless it is on this machine", m->conf.server);
	if (fetch_policy_place(&m->at, m->conf.ca, "server", m->mem, &m->allow, &m->policy, err) < 0)
		return err->code;
	return m->conf.tls == MAIL_CLEAR ? 0 : tls_client_check(&m->client, err);
}

/* Anything else in it and a server may want no more of us. */
static void load_name(struct mail *m)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";

	if (gethostname(m->name, sizeof(m->name) - 1) != 0 || m->name[0] == '\0' || m->name[strspn(m->name, letters)] != '\0')
		(void)snprintf(m->name, sizeof(m->name), "localhost");
}

static int mail_load(const struct mail_conf *conf, struct mail **ret, struct err *err)
{
	struct mail *m = mem_zalloc(sizeof(*m));
	int rc;

	m->conf = *conf;
	m->mem = arena_new(MEM_MAX);
	m->password = (struct str)STR_SECRET_INIT;
	m->client = (struct tls_client){ .ca = conf->ca };
	load_name(m);
	rc = load_server(m, err);
	if (rc == 0 && conf->user)
		rc = load_password(m, err);
	if (rc < 0) {
		mail_close(&m);
		return rc;
	}
	*ret = m;
	return 0;
}

int mail_check(const struct mail_conf *conf, struct err *err)
{
	struct mail *m = NULL;
	int rc = mail_load(conf, &m, err);

	mail_close(&m);
	return rc;
}

int mail_open(struct ev_loop *loop, struct fetcher *f, const struct mail_conf *conf, const char *scope,
	      hook_done_fn *done, void *arg, struct mail **ret, struct err *err)
{
	struct mail *m = NULL;
	int rc = mail_load(conf, &m, err);

	if (rc < 0)
		return rc;
	m->loop = loop;
	m->fetcher = f;
	m->scope = mem_strdup(scope);
	m->done = done;
	m->arg = arg;
	m->deadline = ev_timer_new(loop, on_late, m);
	m->soon = ev_timer_new(loop, on_soon, m);
	*ret = m;
	return 0;
}

void mail_close(struct mail **mp)
{
	struct mail *m = mp ? *mp : NULL;

	if (!m)
		return;
	*mp = NULL;
	if (m->loop)
		hang_up(m);
	ev_timer_free(&m->deadline);
	ev_timer_free(&m->soon);
	arena_free(&m->mem);
	str_wipe(&m->password);
	str_fini(&m->text);
	free(m->scope);
	free(m->url);
	free(m);
}
