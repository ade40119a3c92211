/* The wire to a server that is a process of ours: its stdin and stdout, a line for each message; stderr is logged,
 * bounded.  upstream.c opens it for a link, on the loop thread.  The process is confined as that of an exec tool is. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/secrets.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "ev/child.h"
#include "ev/ev.h"
#include "net/stream.h"
#include "sandbox/policy.h"

#include "link_int.h"

#define TERM_MS 2000                    /* between end of input with TERM, and KILL (SEC S-513) */
#define OPEN_FILES_MAX 1024             /* RLIMIT_NOFILE: a server may have many */
#define FULL_BYTES (STREAM_OUT_HIGH / 2)        /* more than this unread by the server: wait */
#define DIAG_READ (16u << 10)           /* bytes of stderr read in a turn */
#define DIAG_SHOWN 400                  /* bytes of a line of it in the log */

struct pipe_wire {
	struct link_wire wire;
	struct link *link;           /* NULL: closed */
	struct ev_loop *loop;
	char *name;                     /* of the upstream, for the log */
	struct stream *stream;
	struct ev_child *child;         /* NULL: it has ended */
	struct open_secrets *secrets;     /* that its environment has */
	int diag_fd; struct ev_io *diag;
	struct ev_leaver leaver;        /* closed, and the loop goes before the process */
	size_t searched;                /* bytes of the line that has no end yet */
};

static void close_diag(struct pipe_wire *w)
{
	ev_io_free(&w->diag);
	if (w->diag_fd >= 0)
		close(w->diag_fd);
	w->diag_fd = -1;
}

static void wire_free(void *arg)
{
	struct pipe_wire *w = arg;

	list_unlink(&w->leaver.node);
	stream_close(&w->stream);
	close_diag(w);
	open_secrets_free(&w->secrets);
	free(w->name);
	free(w);
}

/* --- output */

static void pipe_send(struct link_wire *wire, uint64_t id, const struct link_head *head, const char *text, size_t len)
{
	struct pipe_wire *w = CONTAINER_OF(wire, struct pipe_wire, wire);

	if (!w->stream)
		return;
	stream_write_answer(w->stream, text, len);
	stream_write(w->stream, "\n", 1);
}

static bool pipe_full(const struct link_wire *wire)
{
	const struct pipe_wire *w = CONTAINER_OF((struct link_wire *)(uintptr_t)wire, struct pipe_wire, wire);

	return w->stream && stream_queued(w->stream) > FULL_BYTES;
}

static void on_drained(void *arg)
{
	struct pipe_wire *w = arg;

	if (w->link)
		link_drained(w->link);
}

/* --- input */

static void die(struct pipe_wire *w, const char *why)
{
	struct err err;

	(void)err_set(&err, ERR_TOOL, "", "%s", why);
	if (w->link)
		link_dead(w->link, &err);
}

static size_t on_data(void *arg, const char *p, size_t len)
{
	struct pipe_wire *w = arg;
	size_t from = w->searched < len ? w->searched : 0;
	const char *nl = memchr(p + from, '\n', len - from);
	size_t n = nl ? (size_t)(nl - p) : 0, used = n + 1;

	if (!w->link)
		return len;
	w->searched = nl ? 0 : len;
	if (!nl) {
		if (len <= LINK_MESSAGE_MAX)
			return 0;
		die(w, "it sent a line that is too long");
		return len;
	}
	if (n > 0 && p[n - 1] == '\r')
		n--;
	if (n > 0)
		(void)link_message(w->link, 0, p, n);
	return used;
}

/* Its output is at its end: the process is about to be, and its status is the better word. */
static void on_ended_stream(void *arg, enum stream_end why)
{
	struct pipe_wire *w = arg;

	switch (why) {
	case STREAM_EOF:
		if (w->child)
			ev_child_stop(w->child, TERM_MS);
		break;
	case STREAM_RESET:
		if (w->child)
			ev_child_stop(w->child, TERM_MS);
		else
			die(w, "its process ended");
		break;
	case STREAM_OVERFLOW:
	case STREAM_STALLED:
		die(w, "it does not read what is sent to it");
		break;
	}
}

static void log_line(const struct pipe_wire *w, const char *p, size_t len)
{
	static struct log_site site;
	char shown[DIAG_SHOWN * 4 + 1];
	struct str clean = STR_INIT;

	if (len == 0 || !log_allow(&site))
		return;
	mask_text(w->secrets, p, len, &clean);
	text_printable(str_text(&clean), clean.len < DIAG_SHOWN ? clean.len : DIAG_SHOWN, shown, sizeof(shown));
	log_info(NULL, "upstream wrote to stderr upstream=%s text=%s", w->name, shown);
	str_fini(&clean);
}

static void on_diag(void *arg, bool readable, bool writable)
{
	struct pipe_wire *w = arg;
	char buf[DIAG_READ];
	ssize_t n = read(w->diag_fd, buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close_diag(w);
		return;
	}
	for (const char *p = buf, *end = buf + n; p < end; ) {
		const char *nl = memchr(p, '\n', (size_t)(end - p)), *stop = nl ? nl : end;

		log_line(w, p, (size_t)(stop - p));
		p = stop + 1;
	}
}

/* --- the process */

static void on_ended(void *arg, int status, const char *refused)
{
	struct pipe_wire *w = arg;
	const char *budget = ev_child_why(w->child);
	char why[300];

	w->child = NULL;
	if (!w->link) {
		wire_free(w);
		return;
	}
	if (budget) {
		(void)snprintf(why, sizeof(why), "its process was ended: %s", budget);
	} else if (refused) {
		(void)snprintf(why, sizeof(why), "its program could not be started: %s", refused);
	} else if (status >= 0) {
		(void)snprintf(why, sizeof(why), "its process ended with status %d", status);
	} else {
		const char *name = sigabbrev_np(-status);

		(void)snprintf(why, sizeof(why), "its process was killed by signal %d%s%s", -status, name ? " SIG" : "",
			       name ? name : "");
	}
	die(w, why);
}

/* A closed wire waits for its process to be gone. */
static void pipe_close(struct link_wire **wire)
{
	struct pipe_wire *w = CONTAINER_OF(*wire, struct pipe_wire, wire);

	*wire = NULL;
	w->link = NULL;
	stream_close(&w->stream);
	close_diag(w);
	if (!w->child) {
		wire_free(w);
		return;
	}
	ev_child_stop(w->child, TERM_MS);
	ev_at_free(w->loop, &w->leaver, wire_free, w);
}

static const struct link_wire_ops pipe_ops = { .send = pipe_send, .full = pipe_full, .close = pipe_close };

/* SEC S-505: the document's variables and two of ours. */
static int render_env(const struct upstream_conf *conf, const struct backend_req *req, char **env, struct err *err)
{
	struct str value = STR_INIT;
	bool lang = false;
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < conf->nvalues && rc == 0; i++) {
		str_reset(&value);
		str_printf(&value, "%s=", conf->values[i].name);
		rc = tpl_render(conf->values[i].value, req, &value, err);
		if (rc == 0)
			env[n++] = mem_strndup(str_text(&value), value.len);
		lang = lang || strcmp(conf->values[i].name, "LANG") == 0;
	}
	env[n++] = mem_strdup("PATH=/usr/bin:/bin");
	if (!lang)
		env[n] = mem_strdup("LANG=C.UTF-8");
	if (value.p)
		secret_wipe(value.p, value.len);
	str_fini(&value);
	return rc;
}

static int spawn(struct pipe_wire *w, const struct sandbox *sandbox, const struct upstream_conf *conf,
		int64_t tenant_id,
		 char *const *env, struct err *err)
{
	static const struct stream_ops ops = { .data = on_data, .ended = on_ended_stream, .drained = on_drained };
	struct sandbox_policy policy = {
		.program = conf->argv[0], .argv = conf->argv, .env = (const char *const *)env, .cwd = conf->cwd,
	};
	const struct ev_child_req child = { .policy = &policy, .number = ev_child_number(tenant_id),
					     .ended = on_ended, .arg = w };
	int fds[3];

	if (!sandbox)
		return err_set(err, ERR_TOOL, "", "no program is started here");
	int rc = exec_sandbox_check(&conf->sandbox, sandbox, err);
	if (rc < 0) {
		err->code = ERR_TOOL;
		return ERR_TOOL;
	}
	exec_sandbox_fill(&conf->sandbox, sandbox, &policy);
	policy.open_files = OPEN_FILES_MAX;
	rc = ev_child_start(w->loop, &child, fds, &w->child, err);
	if (rc < 0) {
		log_err(NULL, "upstream cannot be started upstream=%s reason=%s: %s", conf->name, err->where, err->msg);
		return err_set(err, ERR_TOOL, "", "its program could not be started");
	}
	w->stream = stream_new(w->loop, fds[1], fds[0], LINK_MESSAGE_MAX + 1, &ops, w);
	w->diag_fd = fds[2];
	w->diag = ev_io_new(w->loop, fds[2], on_diag, w);
	ev_io_want(w->diag, true, false);
	return 0;
}

int link_pipe_open(struct link *link, struct ev_loop *loop, const struct sandbox *sandbox,
		   const struct upstream_conf *conf, const struct secret_source *secrets, int64_t tenant_id,
		   const char *tenant, struct link_wire **ret, struct err *err)
{
	char *env[UPSTREAM_ENV_MAX + 3] = { NULL };
	struct pipe_wire *w = mem_zalloc(sizeof(*w));

	*w = (struct pipe_wire){ .wire = { .ops = &pipe_ops }, .loop = loop, .diag_fd = -1 };
	list_init(&w->leaver.node);
	w->name = mem_strdup(conf->name);
	w->secrets = open_secrets_new(secrets);
	const struct backend_req req = { .tenant = tenant, .principal = "", .secrets = w->secrets };
	int rc = render_env(conf, &req, env, err);
	if (rc == 0)
		rc = spawn(w, sandbox, conf, tenant_id, env, err);
	for (char **e = env; *e; e++) {
		secret_wipe(*e, strlen(*e));
		free(*e);
	}
	if (rc < 0) {
		wire_free(w);
		return rc;
	}
	w->link = link;
	*ret = &w->wire;
	return 0;
}
