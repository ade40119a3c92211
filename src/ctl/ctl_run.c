/* One command on its way: by the given socket, by the socket on the owner's card, by TLS to another machine, or in
 * this process as the owner of the store.  Rows go to a sink or are gathered. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "app/app.h"
#include "app/handlers.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "db/db.h"
#include "db/owner.h"
#include "db/server.h"
#include "ev/ev.h"
#include "json/json.h"
#include "net/stream.h"
#include "net/tls.h"

#include "ctl_int.h"

/* --- Ctrl-C, while a command runs that can be cancelled */

/* Our end is the command's for the server (command_hang_up()), which still says what became of it.  Whoever asks twice
 * does not want to wait, and nobody waits for long. */

#define LEFT_S 5

static volatile sig_atomic_t interrupted;
static volatile sig_atomic_t watched = -1;      /* the connection */

int ctl_interrupted(void)
{
	return interrupted;
}

static void on_interrupt(int signo)
{
	int saved_errno = errno;

	if (signo == SIGALRM || interrupted)
		_exit(CTL_SIGNAL + (interrupted ? interrupted : signo));
	interrupted = signo;
	(void)shutdown(watched, SHUT_WR);
	(void)alarm(LEFT_S);
	errno = saved_errno;
}

/* -1: no more; who was interrupted is on the way out, and what reads his output may not read on. */
static void interrupt_watch(int fd)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGALRM };
	const struct sigaction act = { .sa_handler = fd >= 0 ? on_interrupt : SIG_DFL };

	if (fd < 0 && (watched < 0 || interrupted))
		return;
	watched = fd >= 0 ? fd : watched;
	(void)alarm(0);
	for (size_t i = 0; i < NELEMS(signals); i++)
		(void)sigaction(signals[i], &act, NULL);
	watched = fd;
}

/* --- One command over the owner's admin socket, or over TLS to another machine: a line there, lines of rows back */

#define SEND_MS 30000                   /* a server that reads nothing for so long is stuck */
#define REPLY_MS (2 * 3600 * 1000)      /* a tool may run for an hour; its call may have waited before */
#define REPLY_MAX (1u << 30)            /* bytes of all rows */
#define CHUNK 65536
#define KEY_FILE_MAX 256

int ctl_remote_connect(const char *path, int *ret_fd, struct err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(addr.sun_path))
		return err_set(err, ERR_UNREACHABLE, path, "%s: longer than a socket's path may be", path);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, ERR_UNREACHABLE, path, "cannot make a socket: %s", strerror(errno));
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) != 0) {
		int e = errno;
		enum err_code code = e == EACCES || e == EPERM ? ERR_DENIED : ERR_UNREACHABLE;

		close(fd);
		(void)err_set(err, code, path, "cannot connect to %s: %s", path, strerror(e));
		err_hint(err, code == ERR_DENIED ? "run this command as the user of the server, or as root" :
			 "does the server run?");
		return code;
	}
	*ret_fd = fd;
	return 0;
}

static struct { bool (*fn)(void *arg); void *arg; int fd; } tick;

void ctl_on_tick(int fd, bool (*fn)(void *arg), void *arg)
{
	tick.fd = fd;
	tick.fn = fn;
	tick.arg = arg;
}

/* Wait for events on fd until the deadline. */
static int await(int fd, short events, uint64_t deadline_us, struct err *err)
{
	for (;;) {
		struct pollfd p[] = { { .fd = fd, .events = events },
				      { .fd = tick.fn ? tick.fd : -1, .events = POLLIN } };
		uint64_t now_us = clock_mono_us();
		int n;

		if (now_us >= deadline_us)
			return err_set(err, ERR_TIMEOUT, "", "the server does not answer");
		n = poll(p, NELEMS(p),
			 tick.fn ? CTL_TICK_MS : deadline_us == UINT64_MAX ? -1 : (int)((deadline_us - now_us) / 1000 + 1));
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n >= 0 && (n == 0 || p[1].revents) && tick.fn && !tick.fn(tick.arg))
			return err_set(err, ERR_CANCELLED, "", "interrupted");
		if (n > 0 && p[0].revents)
			return 0;
		if (n < 0)
			return err_set(err, ERR_UNREACHABLE, "", "poll: %s", strerror(errno));
	}
}

/* As send() and recv() that do not wait. */
static ssize_t wire_result(long n)
{
	errno = n == TLS_AGAIN ? EAGAIN : ECONNRESET;
	return n < 0 ? -1 : n;
}

static ssize_t wire_send(const struct ctl_wire *w, const char *p, size_t len)
{
	return w->tls ? wire_result(tls_write(w->tls, p, len)) : send(w->fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t wire_recv(const struct ctl_wire *w, char *p, size_t len)
{
	return w->tls ? wire_result(tls_read(w->tls, p, len)) : recv(w->fd, p, len, MSG_DONTWAIT);
}

static void wire_close(struct ctl_wire *w)
{
	if (w->tls)
		(void)tls_end(w->tls);  /* it need not arrive */
	tls_free(&w->tls);
	close(w->fd);
	w->fd = -1;
}

/* --- files that a server which runs cannot open itself: it gets them with the command, from who may (HARDENING 1.3) */

struct file { const char *path; int fd; bool made; };
struct files { struct file at[STREAM_FDS_MAX]; size_t n; };

/* What this user cannot open either the server is asked to, by name, and says why not. */
static int open_file(const struct command_arg *arg, const char *path, bool *ret_made)
{
	const int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	struct err ignored;
	struct stat st;
	int fd;

	*ret_made = false;
	if (arg->type == ARG_PATH_READ) {       /* of a directory, a signer's, what the signer remembers */
		char *file = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? path_join(path, "state") : mem_strdup(path);

		fd = open(file, O_RDONLY | flags);
		free(file);
		return fd;
	}
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | flags, 0600);
	*ret_made = fd >= 0 && path_sync_parent(path, &ignored) == 0;
	if (fd >= 0 && !*ret_made) {
		(void)unlink(path);
		close(fd);
		fd = -1;
	}
	return fd < 0 && arg->type == ARG_PATH_KEPT ? open(path, O_RDWR | O_NOFOLLOW | flags) : fd;
}

static void add_file(struct files *f, const struct command_arg *arg, const char *path)
{
	struct stat st;
	bool made;
	int fd = path && f->n < STREAM_FDS_MAX ? open_file(arg, path, &made) : -1;

	if (fd < 0)
		return;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		close(fd);
	else
		f->at[f->n++] = (struct file){ path, fd, made };
}

static void open_files(const struct command *cmd, const json_t *args, struct files *f)
{
	for (const struct command_arg *arg = cmd->args; arg && arg->name; arg++) {
		const json_t *value = json_object_get(args, arg->name), *one;
		size_t i;

		if (!command_arg_is_path(arg) || arg->type == ARG_PATH)
			continue;
		if (json_is_string(value))
			add_file(f, arg, json_string_value(value));
		json_array_foreach(value, i, one)
			add_file(f, arg, json_string_value(one));
	}
}

/* What was made and has nothing in it was not wanted. */
static void close_files(struct files *f)
{
	struct stat st;

	while (f->n > 0) {
		const struct file *file = &f->at[--f->n];

		if (file->made && fstat(file->fd, &st) == 0 && st.st_size == 0)
			(void)unlink(file->path);
		close(file->fd);
	}
}

/* The first bytes of the command, with the descriptors. */
static ssize_t send_files(const struct ctl_wire *w, const struct files *f, const char *p, size_t len)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(STREAM_FDS_MAX * sizeof(int))]; } control = { .room = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)p, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = CMSG_SPACE(f->n * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(f->n * sizeof(int));
	for (size_t i = 0; i < f->n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &f->at[i].fd, sizeof(int));
	return sendmsg(w->fd, &msg, MSG_NOSIGNAL);      /* nothing was sent yet: there is room */
}

static void put_files(const struct files *f, struct str *line)
{
	for (size_t i = 0; i < f->n; i++) {
		str_puts(line, i ? "," : ",\"files\":[");
		jx_write_stringz(line, f->at[i].path);
	}
	if (f->n > 0)
		str_putc(line, ']');
}

static int send_all(const struct ctl_wire *w, const char *p, size_t len, struct err *err)
{
	uint64_t deadline_us = clock_mono_us() + UINT64_C(1000) * SEND_MS;

	for (size_t done = 0; done < len;) {
		ssize_t n = wire_send(w, p + done, len - done);

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			if (await(w->fd, POLLOUT, deadline_us, err) < 0)
				return err->code;
		} else if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
			return 0;       /* a server that has hung up has perhaps said why */
		} else {
			return err_set(err, ERR_UNREACHABLE, "", "cannot send: %s", strerror(errno));
		}
	}
	return 0;
}

/* --- another machine */

/* "crib.example.com:8810", "[::1]:8810": both parts into text. */
static int split(const char *remote, char *text, size_t size, const char **ret_host, const char **ret_port,
		 struct err *err)
{
	int n = snprintf(text, size, "%s", remote);
	char *colon = n > 0 && (size_t)n < size ? strrchr(text, ':') : NULL;

	if (!colon || colon == text || !colon[1])
		return err_set(err, ERR_INVALID, "", "--remote needs HOST:PORT, not \"%s\"", remote);
	*colon = '\0';
	*ret_port = colon + 1;
	*ret_host = text;
	if (text[0] == '[' && colon[-1] == ']') {
		colon[-1] = '\0';
		*ret_host = text + 1;
	}
	return 0;
}

static int dial(const char *host, const char *port, int *ret_fd, struct err *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG };
	struct addrinfo *all = NULL;
	int e = getaddrinfo(host, port, &hints, &all), fd = -1;

	if (e)
		return err_set(err, ERR_UNREACHABLE, "", "%s: %s", host, gai_strerror(e));
	e = 0;
	for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0)
			break;
		e = errno;
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(all);
	if (fd < 0)
		return err_set(err, ERR_UNREACHABLE, "", "cannot connect to %s port %s: %s", host, port, strerror(e));
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	*ret_fd = fd;
	return 0;
}

/* "Authorization: Bearer KEY\n"; whoever else may read the file may give our commands. */
static int read_key(const char *file, struct str *ret, struct err *err)
{
	int rc;

	if (!file)
		return err_set(err, ERR_INVALID, "", "--remote needs --key-file FILE");
	str_puts(ret, "Authorization: Bearer ");
	rc = path_read_as(file, PATH_PRIVATE, KEY_FILE_MAX, ret, err);
	while (ret->len > 0 && (ret->p[ret->len - 1] == '\n' || ret->p[ret->len - 1] == '\r' ||
				ret->p[ret->len - 1] == ' '))
		ret->len--;
	str_putc(ret, '\n');
	return rc;
}

/* --remote HOST:PORT: connected, and the key is said.  Nothing leaves before the server has shown who it is. */
static int ctl_tls_connect(const struct ctl_opt *opt, struct ctl_wire *ret, struct err *err)
{
	struct ctl_wire w = { .fd = -1 };
	const char *host = NULL, *port = NULL;
	struct str line = STR_INIT;
	char text[300];
	int rc = split(opt->remote, text, sizeof(text), &host, &port, err);

	if (rc == 0)
		rc = read_key(opt->key_file, &line, err);
	if (rc == 0)
		rc = dial(host, port, &w.fd, err);
	if (rc == 0)
		rc = tls_connect(w.fd, host, opt->ca, &w.tls, err);
	if (rc == 0)
		rc = send_all(&w, line.p, line.len, err);
	if (line.p)
		secret_wipe(line.p, line.len);
	str_fini(&line);
	if (rc == 0)
		*ret = w;
	else if (w.fd >= 0)
		wire_close(&w);
	return rc;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

static bool starts(const char *line, size_t len, const char *with)
{
	return len > strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

/* One line of the answer: 1 = it was the last one. */
static int take_line(const char *line, size_t len, struct str *rows, struct err *err)
{
	json_t *root = NULL, *error;
	int rc = 1;

	if (starts(line, len, "{\"row\":") || starts(line, len, "{\"header\":") ||      /* checked when it is printed */
	    starts(line, len, "{\"progress\":") || starts(line, len, "{\"end\":")) {
		str_put(rows, line, len);
		str_putc(rows, '\n');
		if (rows->failed)
			return err_set(err, ERR_LIMIT, "", "the answer is larger than %u bytes", REPLY_MAX);
		return 0;
	}
	if (jx_parse(line, len, &root, err) < 0)
		return err_wrap(err, "the server's answer is not understood");
	error = json_object_get(root, "error");
	if (error) {
		rc = err_set(err, err_from_name(text_of(error, "code")), text_of(error, "where"), "%s",
			     text_of(error, "message"));
		err_hint(err, "%s", text_of(error, "hint"));
	} else if (!json_object_get(root, "done")) {
		rc = err_set(err, ERR_INTERNAL, "", "the server's answer is not understood");
	}
	json_decref(root);
	return rc;
}

static int receive(const struct ctl_wire *w, struct str *in, struct err *err)
{
	const uint32_t wait_ms = w->wait_ms ? w->wait_ms : REPLY_MS;
	uint64_t deadline_us = w->patient ? UINT64_MAX : clock_mono_us() + UINT64_C(1000) * wait_ms;
	char chunk[CHUNK];

	for (;;) {
		ssize_t n = wire_recv(w, chunk, sizeof(chunk));

		if (n > 0) {
			str_put(in, chunk, (size_t)n);
			if (in->failed)
				return err_set(err, ERR_LIMIT, "", "a line of the answer is too long");
			return 0;
		}
		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			if (await(w->fd, POLLIN, deadline_us, err) < 0)
				return err->code;
			continue;
		}
		if (ctl_interrupted())
			return err_set(err, ERR_CANCELLED, "", "interrupted");
		if (w->tls && !w->heard) {
			(void)err_set(err, ERR_DENIED, "", "the server hung up without a word");
			err_hint(err, "it does so when it does not know the key");
			return ERR_DENIED;
		}
		(void)err_set(err, ERR_UNCERTAIN, "", "the server hung up before it answered");
		err_hint(err, "look whether the change was made before it is made again");
		return ERR_UNCERTAIN;
	}
}

/* Read until the last line; a stream may be silent for as long as nothing happens. */
static int receive_answer(struct ctl_wire *w, const struct ctl_sink *sink, struct str *rows, struct err *err)
{
	struct str in = STR_INIT;
	int rc = 0;

	in.max = ADMIN_LINE_MAX + CHUNK;
	while (rc == 0) {
		size_t done = 0;
		char *nl;

		rc = receive(w, &in, err);
		w->heard = w->heard || rc == 0;
		while (rc == 0 && (nl = memchr(in.p + done, '\n', in.len - done))) {
			size_t n = (size_t)(nl - (in.p + done));

			rc = take_line(in.p + done, n, rows, err);
			done += n + 1;
		}
		str_drop_front(&in, done);
		if (sink && sink->rows && rows->len > 0) {      /* also those that came together with an error */
			sink->rows(sink->arg, rows);
			str_reset(rows);
		}
	}
	str_fini(&in);
	return rc < 0 ? rc : 0;
}

/* Documents that follow their command, in lines of their own.  When one cannot be read we hang up: nothing is done. */
static int send_piece(void *wire, const json_t *documents, bool more, struct err *err)
{
	struct str line = STR_INIT;
	int rc;

	str_puts(&line, "{\"documents\":");
	jx_write(documents, &line);
	str_puts(&line, more ? ",\"more\":true}\n" : "}\n");
	rc = line.len > ADMIN_LINE_MAX ? err_set(err, ERR_LIMIT, "", "a document is larger than %u bytes", ADMIN_LINE_MAX)
				       : send_all(wire, line.p, line.len, err);
	str_fini(&line);
	return rc;
}

int ctl_remote_run(struct ctl_wire *w, const struct command *cmd, const json_t *args, const struct ctl_sink *sink,
		   struct str *rows, struct err *err)
{
	struct str line = STR_SECRET_INIT, name = STR_INIT;
	struct files files = { .n = 0 };
	ssize_t sent = 0;
	int rc;

	if (!w->tls)
		open_files(cmd, args, &files);
	ctl_command_name(cmd, &name);
	str_puts(&line, "{\"command\":");
	jx_write_stringz(&line, str_text(&name));
	str_puts(&line, ",\"args\":");
	jx_write(args, &line);
	put_files(&files, &line);
	str_puts(&line, sink && sink->more ? ",\"more\":true}\n" : "}\n");
	rows->max = REPLY_MAX;
	w->patient = sink && sink->rows && !cmd->cancel;
	interrupt_watch(cmd->cancel ? w->fd : -1);
	if (line.len > ADMIN_LINE_MAX)
		rc = err_set(err, ERR_LIMIT, "", "the command is larger than %u bytes", ADMIN_LINE_MAX);
	else {
		if (files.n > 0)
			sent = send_files(w, &files, line.p, line.len);
		rc = send_all(w, line.p + (sent > 0 ? sent : 0), line.len - (sent > 0 ? (size_t)sent : 0), err);
	}
	if (rc == 0 && sink && sink->more)
		rc = ctl_files_each(sink->more, send_piece, w, err);
	if (rc == 0)
		rc = receive_answer(w, sink, rows, err);
	interrupt_watch(-1);
	close_files(&files);
	wire_close(w);
	str_wipe(&line);
	str_fini(&name);
	return rc;
}

/* --- One command in this process, as the owner of the store without listeners, or without a store at all */

#define COMMAND_MS (2 * 3600 * 1000)    /* a tool may run for an hour */

struct embed {
	const struct ctl_sink *sink;
	struct str *rows;
	struct err *err;
	struct command_call *call;      /* one that can be cancelled */
	int rc;
	bool done;
};

static void on_reply(void *arg, const struct str *rows, const struct err *err)
{
	struct embed *e = arg;

	if (rows && rows->len)
		str_put(e->rows, rows->p, rows->len);
	if (err && e->rc == 0) {
		*e->err = *err;
		e->rc = err->code;
	}
	e->call = NULL;
	e->done = true;
}

static void on_part(void *arg, const struct str *rows)
{
	struct embed *e = arg;

	if (e->sink && e->sink->rows)
		e->sink->rows(e->sink->arg, rows);
	else
		str_put(e->rows, rows->p, rows->len);
}

static int has_room(void *arg)
{
	const struct embed *e = arg;

	return e->done || ferror(stdout) ? -1 : 1;
}

static const struct command_sink parts = { .part = on_part, .room = has_room };

static void on_signal(void *arg, int signo)
{
	struct embed *e = arg;
	bool again = interrupted;

	interrupted = signo;
	if (e->call && !again) {        /* its reply says what became of it; whoever does not wait says so twice */
		command_hang_up(e->call);
		return;
	}
	if (!e->done)
		e->rc = err_set(e->err, ERR_CANCELLED, "", "interrupted");
	e->done = true;
}

static int take_piece(void *call, const json_t *documents, bool more, struct err *err)
{
	(void)err;
	command_piece(call, documents, more);
	return 0;
}

static void on_timer(void *arg)
{
	if (tick.fn)
		(void)tick.fn(tick.arg);
	ev_timer_start(*(struct ev_timer **)arg, UINT64_C(1000) * CTL_TICK_MS);
}

static int run(struct ev_loop *loop, struct commands *admin, const struct command *cmd, const json_t *args,
	       struct embed *e)
{
	struct command_req req = { .who = { .uid = geteuid(), .pid = getpid(), .embedded = true }, .cmd = cmd,
		.noun = cmd->noun,
		.verb = cmd->verb, .args = json_incref((json_t *)(uintptr_t)args), .sink = &parts,
		.more = e->sink && e->sink->more };
	struct ev_signal *on_int = ev_signal_new(loop, SIGINT, on_signal, e);
	struct ev_signal *on_term = ev_signal_new(loop, SIGTERM, on_signal, e);
	struct ev_timer *timer = ev_timer_new(loop, on_timer, &timer);

	if (tick.fn)
		on_timer(&timer);
	e->call = command_run(admin, &req, on_reply, e);
	if (req.more && ctl_files_each(e->sink->more, take_piece, e->call, e->err) < 0) {
		e->rc = e->err->code;
		command_piece(e->call, NULL, false);
	}
	if (!cmd->cancel)
		e->call = NULL;
	if (!ev_loop_run_until(loop, &e->done, COMMAND_MS) && !e->done)
		e->rc = err_set(e->err, ERR_TIMEOUT, "", "the command did not end in time");
	ev_timer_free(&timer);
	ev_signal_free(&on_int);
	ev_signal_free(&on_term);
	return e->rc;
}

static int run_storeless(const struct command *cmd, const json_t *args, struct embed *e)
{
	struct ev_loop *loop = ev_loop_new();
	struct command_env env = { .loop = loop, .tables = app_commands, .bind = handlers_bind, .owner_uid = geteuid() };
	struct commands *admin = commands_new(&env);
	int rc = run(loop, admin, cmd, args, e);

	commands_free(&admin);
	ev_loop_free(&loop);
	return rc;
}

/* The message says which file and where in it. */
static void bad_conf(struct db_owner **owner, struct err *err)
{
	char where[sizeof(err->where)];

	(void)snprintf(where, sizeof(where), "%s", err->where);
	(void)err_wrap(err, "%s", where);
	db_owner_drop(owner);
}

/* The start itself takes over what `audit adopt` names: without it there would be no store to ask (AUDIT A-722). */
const char **ctl_texts(const json_t *list)
{
	const char **ret = mem_calloc(json_array_size(list) + 1, sizeof(*ret));
	const json_t *text;
	size_t i;

	json_array_foreach(list, i, text)
		ret[i] = json_string_value(text);
	return ret;
}

static const char **adopted(const struct command *cmd, const json_t *args)
{
	bool adopts = strcmp(cmd->noun, "audit") == 0 && cmd->verb && strcmp(cmd->verb, "adopt") == 0;

	return adopts ? ctl_texts(json_object_get(args, "tail")) : NULL;
}

/* As the owner of the store; the lock is taken over and dropped.  owner NULL: a command that needs no store. */
static int ctl_embed_run(const char *store, struct db_owner *owner, const struct command *cmd, const json_t *args,
		  const struct ctl_sink *sink, struct str *rows, bool *ret_reached, struct err *err)
{
	struct app_opt opt = { .profile = APP_EMBEDDED, .store = store, .owner = owner };
	struct embed e = { .sink = sink, .rows = rows, .err = err };
	const char **adopt = adopted(cmd, args);
	struct conf *conf = NULL;
	struct app *app = NULL;
	bool have_roles = false;
	struct err ignored;
	int rc = 0;

	if (!owner) {
		*ret_reached = true;
		free(adopt);
		return run_storeless(cmd, args, &e);
	}
	/* A tool must be confined here as in the server; where nobody can read how, none is run. */
	if (cmd->runs)
		rc = conf_load(NULL, &conf, err);
	else if (cmd->role == ADM_AUDIT || cmd->role == ADM_PAYLOAD)
		have_roles = conf_load(NULL, &conf, &ignored) == 0;        /* the owner may be an auditor as well */
	opt.roles = have_roles ? conf->roles : NULL;
	opt.nroles = have_roles ? conf->nroles : 0;
	opt.tools = conf;
	opt.adopt = adopt;
	*ret_reached = rc < 0;
	if (rc < 0)
		bad_conf(&owner, err);
	else
		rc = app_start(&opt, &app, err);
	if (rc == 0) {
		*ret_reached = true;
		rc = run(app_loop(app), app_admin(app), cmd, args, &e);
		/* A reply that comes while the app closes would find `e` still here. */
		app_close(&app);
	}
	conf_free(&conf);
	free(adopt);
	return rc;
}

/* --- the road */

#define OWNER_WAIT_MS 10000             /* for another command at work, or a server that starts or stops */
#define OWNER_RETRY_MS 20

int ctl_store(const struct ctl_opt *opt, char **ret, struct err *err)
{
	if (!opt->store)
		return path_default_store(ret, err);
	if (!*opt->store)
		return err_set(err, ERR_INVALID, "", "--store needs a directory");
	*ret = path_absolute(opt->store);
	return 0;
}

/* db_owner_take() leaves its lock file wherever it is pointed to: look first. */
int ctl_store_check(const char *store, struct err *err)
{
	char *file = path_join(store, DB_FILE), *key = path_join(store, DB_MASTER_KEY);
	struct stat st;
	int rc = db_serve_found(store, err), e;

	if (rc == 0 && !db_is_served(store) && stat(file, &st) != 0) {
		e = errno;
		rc = err_set(err, ERR_UNREACHABLE, store, "no store in %s: %s", store, strerror(e));
		if (path_exists(key))
			err_hint(err, "there was one, its master.key is there: put the newest backup back: toolcribd(8), BAD NIGHTS");
		else if (e == ENOENT || e == ENOTDIR)
			err_hint(err, "toolcrib init creates one; --store DIR or TOOLCRIB_STORE names another");
	}
	free(file);
	free(key);
	return rc;
}

/* Become the owner (*ret_owner) or connect to it (*ret_fd). */
static int find_road(const char *store, struct db_owner **ret_owner, int *ret_fd, struct err *err)
{
	uint64_t deadline_us = clock_mono_us() + UINT64_C(1000) * OWNER_WAIT_MS;
	struct db_card card;
	int rc;

	for (;;) {
		memset(&card, 0, sizeof(card));
		rc = db_owner_take(store, ret_owner, &card, err);
		if (rc <= 0)
			return rc;
		/* A socket that is not there yet, or no more: its owner starts or ends. */
		rc = card.command_socket[0] ? ctl_remote_connect(card.command_socket, ret_fd, err) : ERR_BUSY;
		if (rc == 0 || rc == ERR_DENIED)
			return rc;
		if (clock_mono_us() >= deadline_us)
			break;
		(void)nanosleep(&(struct timespec){ 0, OWNER_RETRY_MS * 1000000L }, NULL);
	}
	if (rc == ERR_UNREACHABLE)
		return rc;
	(void)err_set(err, ERR_UNREACHABLE, store, "another command (process %lld) holds the store",
		      (long long)card.pid);
	err_hint(err, "wait until it has ended, then try again");
	return ERR_UNREACHABLE;
}

static int run_by_store(const char *store, const struct command *cmd, const json_t *args, const struct ctl_sink *sink,
			struct str *rows, bool *ret_reached, struct err *err)
{
	struct db_owner *owner = NULL;
	int fd = -1;
	int rc = ctl_store_check(store, err);

	if (rc == 0)
		rc = find_road(store, &owner, &fd, err);
	if (rc < 0)
		return rc;
	if (owner)
		return ctl_embed_run(store, owner, cmd, args, sink, rows, ret_reached, err);
	*ret_reached = true;
	return ctl_remote_run(&(struct ctl_wire){ .fd = fd }, cmd, args, sink, rows, err);
}

/* For commands that can do without: a store that this user may use. */
static bool has_store(const struct ctl_opt *opt)
{
	char *store = NULL, *file;
	struct err ignored;
	bool has;

	if (opt->socket || opt->remote)
		return true;
	if (ctl_store(opt, &store, &ignored) < 0)
		return false;
	file = path_join(store, DB_FILE);
	has = access(file, R_OK | W_OK) == 0 || (db_serve_found(store, &ignored) == 0 && db_is_served(store));
	free(file);
	free(store);
	return has;
}

int ctl_run(const struct ctl_opt *opt, const struct command *cmd, const json_t *args, const struct ctl_sink *sink,
	    struct str *rows, bool *ret_reached, struct err *err)
{
	char *store = NULL;
	int fd = -1, rc;

	*ret_reached = false;
	if (cmd->storeless || (cmd->store_if_any && !has_store(opt)))
		return ctl_embed_run(NULL, NULL, cmd, args, sink, rows, ret_reached, err);
	if (opt->remote) {
		struct ctl_wire w;

		rc = ctl_tls_connect(opt, &w, err);
		*ret_reached = rc == 0;
		return rc < 0 ? rc : ctl_remote_run(&w, cmd, args, sink, rows, err);
	}
	if (opt->socket) {
		rc = ctl_remote_connect(opt->socket, &fd, err);
		*ret_reached = rc == 0;
		return rc < 0 ? rc : ctl_remote_run(&(struct ctl_wire){ .fd = fd }, cmd, args, sink, rows, err);
	}
	rc = ctl_store(opt, &store, err);
	if (rc == 0)
		rc = run_by_store(store, cmd, args, sink, rows, ret_reached, err);
	free(store);
	return rc;
}
