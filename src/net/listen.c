/* Listening sockets. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "net/listen.h"
#include "net/tls.h"

#define BACKLOG 1024
#define ACCEPTS_PER_TURN 8
#define PATH_SIZE sizeof(((struct sockaddr_un *)NULL)->sun_path)
#define PAUSE_US 100000                 /* when descriptors run out (SEC S-811) */
/* of silence, then a peer is asked whether it is there: so often, so far apart */
#define KEEP_IDLE_S 60
#define KEEP_PROBES 3
#define KEEP_BETWEEN_S 20

struct listener {
	struct ev_loop *loop;
	struct ev_io *io;
	struct ev_timer *timer;         /* runs while accepting waits for descriptors */
	int fd, spare;                  /* spare is given up to turn one connection away */
	unsigned live, connections_max;
	bool paused, slow;
	listen_fn *fn;
	void *arg;
	char address[PATH_SIZE];        /* host and port, or a path */
	bool unlink_it, given, kept;
	struct listen_door door;        /* server NULL: no TLS */
	struct list shaking;            /* struct shaking: accepted, and not handed over yet */
	struct log_site out_of_fds;
};

struct shaking {
	struct list node;
	struct listener *l;
	struct accepted a;
	struct tls_handshake *h;
};

static void update(struct listener *l)
{
	if (!l->io)
		return;         /* closed from inside fn */
	ev_io_want(l->io, !l->paused && l->live < l->connections_max && !ev_timer_armed(l->timer), false);
}

static void on_timer(void *arg)
{
	struct listener *l = arg;
	if (l->spare < 0)
		l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	update(l);
}

/* Turn one away, so that it does not wait for an answer that cannot come, and rest a while. */
static void out_of_descriptors(struct listener *l)
{
	if (log_allow(&l->out_of_fds))
		log_err(NULL, "no more descriptors, accepting pauses address=%s live=%u", l->address, l->live);
	if (l->spare >= 0) {
		close(l->spare);
		l->spare = -1;
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			metric_inc(METRIC_connections_refused);
			close(fd);
		}
	}
	ev_timer_start(l->timer, PAUSE_US);
	update(l);
}

void listen_drop(const struct accepted *a)
{
	struct tls *tls = a->tls;
	if (tls)
		(void)tls_end(tls);     /* it need not arrive */
	tls_free(&tls);
	close(a->fd);
}

static void on_shaken(void *arg, struct tls *t)
{
	struct shaking *k = arg;
	struct listener *l = k->l;
	struct accepted a = k->a;
	list_unlink(&k->node);
	free(k);
	a.tls = t;
	if (t) {
		l->fn(l->arg, &a);
		return;
	}
	l->door.failed(l->door.arg, &a);
	listen_conn_gone(l);
}

static void shake(struct listener *l, const struct accepted *a)
{
	struct shaking *k = mem_zalloc(sizeof(*k));
	k->l = l;
	k->a = *a;
	if (!l->door.enter(l->door.arg, &k->a)) {
		close(a->fd);
		free(k);
		l->live--;
		return;
	}
	list_push_back(&l->shaking, &k->node);
	k->h = tls_accept(l->door.server, l->loop, a->fd, a->from, on_shaken, k);
}

static void end_handshakes(struct listener *l)
{
	LIST_FOREACH_SAFE(n, tmp, &l->shaking) {
		struct shaking *k = CONTAINER_OF(n, struct shaking, node);
		tls_handshake_cancel(&k->h);
		l->door.failed(l->door.arg, &k->a);
		list_unlink(&k->node);
		free(k);
		l->live--;
	}
}

static void hand_over(struct listener *l, int fd, const struct addr *peer)
{
	struct accepted a = { .fd = fd, .peer = *peer, .from = "unix", .uid = -1, .pid = -1 };
	if (peer->sa.ss_family == AF_UNIX) {
		struct ucred cred;
		socklen_t len = sizeof(cred);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
			a.uid = cred.uid;
			a.pid = cred.pid;
		}
	} else {
		addr_format_host(peer, a.from);
	}
	l->live++;
	if (l->door.server)
		shake(l, &a);
	else
		l->fn(l->arg, &a);
}

static void on_readable(void *arg, bool readable, bool writable)
{
	struct listener *l = arg;
	int most = l->slow ? LISTEN_SLOW : ACCEPTS_PER_TURN;
	for (int i = 0; i < most && l->live < l->connections_max && !l->paused; i++) {
		struct addr peer = { .len = sizeof(peer.sa) };
		int fd = accept4(l->fd, (struct sockaddr *)&peer.sa, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			hand_over(l, fd, &peer);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			out_of_descriptors(l);
		/* Else there is none, or it has left already; the next turn looks again. */
		break;
	}
	update(l);
}

/* Takes fd. */
static struct listener *listener_new(struct ev_loop *loop, int fd, unsigned connections_max, listen_fn *fn, void *arg)
{
	struct listener *l = mem_zalloc(sizeof(*l));
	l->loop = loop;
	l->fd = fd;
	l->connections_max = connections_max;
	l->fn = fn;
	l->arg = arg;
	list_init(&l->shaking);
	l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	l->timer = ev_timer_new(loop, on_timer, l);
	l->io = ev_io_new(loop, fd, on_readable, l);
	update(l);
	return l;
}

static int fail(struct err *err, const char *address, const char *what, int fd)
{
	int no = errno;
	if (fd >= 0)
		close(fd);
	int rc = err_set(err, ERR_UNREACHABLE, address, "%s: %s", what, strerror(no));
	if (no == EADDRINUSE)
		err_hint(err, "another program listens there; stop it or choose another address");
	else if (no == EACCES)
		err_hint(err, "ports below 1024 and foreign directories need more rights than this user has");
	return rc;
}

/* Accepted sockets inherit what is for them: system calls less for each.  A peer that left without a word, and to which
 * nothing is said, is noticed: a byte stream has no other end. */
static bool for_accepted(int fd)
{
	const int on = 1, idle_s = KEEP_IDLE_S, between_s = KEEP_BETWEEN_S, probes = KEEP_PROBES;
	return !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) &&
		!setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) &&
		!setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s)) &&
		!setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s)) &&
		!setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* *ret: bound. */
static int bind_tcp(const char *address, struct addr *a, int *ret, struct err *err)
{
	int rc = addr_parse(address, a, err);
	if (rc)
		return rc;
	int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(err, address, "cannot make a socket", fd);
	const int on = 1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) || !for_accepted(fd) ||
	    (a->sa.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on))) ||
	    bind(fd, (struct sockaddr *)&a->sa, a->len))
		return fail(err, address, "cannot listen", fd);
	*ret = fd;
	return 0;
}

int listen_probe(const char *address, struct err *err)
{
	struct addr a;
	int fd = -1, rc = bind_tcp(address, &a, &fd, err);
	if (rc == 0 && listen(fd, 0))
		return fail(err, address, "cannot listen", fd);
	if (rc == 0)
		close(fd);
	return rc;
}

int listen_tcp(struct ev_loop *loop, const char *address, unsigned connections_max, listen_fn *fn, void *arg,
	       struct listener **ret, struct err *err)
{
	struct addr a;
	int fd = -1, rc = bind_tcp(address, &a, &fd, err);
	if (rc)
		return rc;
	if (listen(fd, BACKLOG))
		return fail(err, address, "cannot listen", fd);
	a.len = sizeof(a.sa);
	if (getsockname(fd, (struct sockaddr *)&a.sa, &a.len))
		return fail(err, address, "cannot listen", fd);
	struct listener *l = listener_new(loop, fd, connections_max, fn, arg);
	addr_format(&a, l->address);
	*ret = l;
	return 0;
}

int listen_unix(struct ev_loop *loop, const char *path, unsigned mode, unsigned connections_max, listen_fn *fn,
		void *arg, struct listener **ret, struct err *err)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t n = strlen(path);
	if (n == 0 || n >= sizeof(sa.sun_path))
		return err_set(err, ERR_INVALID, path, "the path of a socket has 1 to %zu bytes",
			       sizeof(sa.sun_path) - 1);
	memcpy(sa.sun_path, path, n + 1);
	struct stat st;
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return err_set(err, ERR_CONFLICT, path, "it exists and is not a socket");
	if (unlink(path) && errno != ENOENT)
		return fail(err, path, "cannot remove the stale socket", -1);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(err, path, "cannot make a socket", fd);
	/* Nobody can connect before listen(), so the mode is in force in time. */
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)))
		return fail(err, path, "cannot bind the socket", fd);
	if (chmod(path, (mode_t)mode) || listen(fd, BACKLOG)) {
		int rc = fail(err, path, "cannot listen", fd);
		unlink(path);
		return rc;
	}
	struct listener *l = listener_new(loop, fd, connections_max, fn, arg);
	memcpy(l->address, path, n + 1);
	l->unlink_it = true;
	*ret = l;
	return 0;
}

int listen_given(struct ev_loop *loop, int fd, const char *address, unsigned connections_max, listen_fn *fn, void *arg,
		 struct listener **ret, struct err *err)
{
	if (*address != '/' && !for_accepted(fd))
		return fail(err, address, "cannot serve the socket that was given", fd);
	struct listener *l = listener_new(loop, fd, connections_max, fn, arg);
	(void)snprintf(l->address, sizeof(l->address), "%s", address);
	l->given = true;
	*ret = l;
	return 0;
}

void listen_tls(struct listener *l, const struct listen_door *door)
{
	l->door = *door;
}

const char *listen_address(const struct listener *l)
{
	return l->address;
}

void listen_conn_gone(struct listener *l)
{
	l->live--;
	update(l);
}

unsigned listen_live(const struct listener *l)
{
	return l->live;
}

void listen_pause(struct listener *l, bool paused)
{
	l->paused = paused;
	if (paused)
		end_handshakes(l);
	update(l);
}

static void shut(struct listener *l)
{
	ev_io_free(&l->io);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	if (l->unlink_it && !l->kept)
		unlink(l->address);
	l->unlink_it = false;
}

void listen_shut(struct listener *l)
{
	listen_pause(l, true);
	if (!l->given && !l->kept)
		shut(l);
}

void listen_own(struct listener *l)
{
	l->given = false;
	l->unlink_it = *l->address == '/';
}

bool listen_is_own(const struct listener *l)
{
	return !l->given;
}

int listen_fd(const struct listener *l)
{
	return l->fd;
}

void listen_keep(struct listener *l, bool kept)
{
	l->kept = kept;
}

void listen_adopt(struct listener *l, int fd)
{
	struct addr peer = { .len = sizeof(peer.sa) };
	if (getpeername(fd, (struct sockaddr *)&peer.sa, &peer.len)) {
		close(fd);              /* it has left meanwhile */
		return;
	}
	hand_over(l, fd, &peer);
	update(l);
}

static void free_listener(void *arg)
{
	free(arg);
}

void listen_slow(struct listener *l, bool on)
{
	l->slow = on;
}

void listen_close(struct listener **pl)
{
	if (!pl || !*pl)
		return;
	struct listener *l = *pl;
	*pl = NULL;
	l->paused = true;
	end_handshakes(l);
	shut(l);
	ev_timer_free(&l->timer);
	if (l->spare >= 0)
		close(l->spare);
	ev_defer(l->loop, free_listener, l);    /* it may be closed from inside fn */
}
