/* toolcrib-sign: signs checkpoints of the audit's logs for the owner of a store, and remembers outside of it what
 * it has signed (AUDIT A-711).  It reads no store, speaks no SQL and opens no network. */

#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/notify.h"
#include "base/sanitized.h"
#include "base/served.h"
#include "base/text.h"
#include "sandbox/filter.h"

#include "sign_int.h"

/* --- confinement */

/* What a signer may still ask of the kernel once it serves: files it has to write, the sockets it has, memory, time
 * (SEC S-604).  All else is refused: no process, no new socket, no other address space. */

#define YES(call) { SYS_##call, FILTER_ALLOW, 0, { 0 }, { 0 } }
static const struct filter_row rows[] = {
	YES(read), YES(write), YES(recvfrom), YES(sendto), YES(ppoll), YES(accept4), YES(getsockopt),
	YES(openat), YES(close), YES(fsync), YES(fstat), YES(newfstatat), YES(lseek), YES(fchmod), YES(fchmodat),
	YES(renameat), YES(renameat2), YES(unlinkat), YES(faccessat), YES(fcntl),
	YES(mmap), YES(munmap), YES(mprotect), YES(mremap), YES(madvise), YES(mlock), YES(munlock), YES(brk),
	YES(futex), YES(getrandom), YES(clock_gettime), YES(nanosleep), YES(clock_nanosleep), YES(getpid), YES(gettid),
	YES(tgkill), YES(rt_sigaction), YES(rt_sigprocmask), YES(rt_sigreturn), YES(restart_syscall), YES(exit),
	YES(exit_group),
#ifdef __x86_64__
	YES(open), YES(stat), YES(access), YES(poll), YES(rename), YES(unlink), YES(chmod),
#endif
};

/* From here on only what a signer needs (SEC S-604).  Sanitizers need more than a list could say; and there is no list
 * for every machine. */
static int sign_confine(struct err *err)
{
	const struct filter list = { .rows = rows, .nrows = NELEMS(rows) };

	if (SANITIZED || !filter_available())
		return 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return err_set(err, ERR_INTERNAL, "seccomp", "the signer cannot be confined: %s", strerror(errno));
	return filter_put_on(&list, NULL, err);
}

enum { ANSWER_MS = 2000 };              /* from its first byte until its reply is taken */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { OPT_DIR = 256, OPT_SOCKET, OPT_USER, OPT_KEYS, OPT_VERSION };

struct options { const char *dir, *socket, *user; bool keys; };

static const char usage[] =
	"usage: toolcrib-sign --dir DIR [--socket PATH [--user USER]]\n"
	"       toolcrib-sign --dir DIR --keys\n"
	"       toolcrib-sign --version | --help\n";

static const char help[] =
	"\nSigns checkpoints of a store's audit; toolcribd starts it, or connects to it.\n\n"
	"      --dir DIR      keys and memory of this signer; made when it is missing\n"
	"      --socket PATH  listen here instead of serving the socket on descriptor 0\n"
	"      --user USER    with --socket: serve this user alone, not the own one\n"
	"      --keys         print the public keys that a reviewer should pin, and end\n"
	"      --version      print the version\n"
	"  -h, --help         print this\n\n"
	"See toolcrib-sign(8).\n";

static int fail(const struct err *err)
{
	bool named = !*err->where || strstr(err->msg, err->where);

	fprintf(stderr, "toolcrib-sign: %s%s%s\n", named ? "" : err->where, named ? "" : ": ", err->msg);
	return EXIT_FAILED;
}

/* One request and its reply, as far as its other side takes part in the time; 0 = no time.  1: there may be another; 0:
 * that was the last.  Negative: the state cannot be trusted to be on the disk, so the process must end. */
static int answer(struct signer *s, int fd, uint64_t ms)
{
	const uint64_t until_us = ms ? clock_mono_us() + ms * 1000 : 0;
	struct sign_msg req = { 0 }, reply = { 0 };
	struct err err = { 0 }, late;
	int rc = sign_msg_read(fd, until_us, &req, &err), state;

	if (rc < 0 && err.code != ERR_UNREACHABLE)
		(void)fail(&err);
	if (rc <= 0)
		return 0;
	state = signer_answer(s, &req, &reply, &err);
	if (state < 0)
		(void)fail(&err);
	rc = sign_msg_write(fd, until_us, &reply, &late);
	sign_msg_fini(&req);
	sign_msg_fini(&reply);
	return state < 0 ? state : rc == 0;
}

/* One owner until it goes. */
static int serve(struct signer *s, int fd)
{
	int rc;

	while ((rc = answer(s, fd, 0)) == 1)
		;
	return rc;
}

/* --- listening */

static int find_user(const char *name, uid_t *ret, struct err *err)
{
	const struct passwd *pw;
	uint64_t n;

	*ret = geteuid();
	if (!name)
		return 0;
	if (text_u64(name, strlen(name), &n) == 0 && n < UINT32_MAX) {
		*ret = (uid_t)n;
		return 0;
	}
	pw = getpwnam(name);
	if (!pw)
		return err_set(err, ERR_INVALID, "--user", "there is no user %s", name);
	*ret = pw->pw_uid;
	return 0;
}

/* The socket is open to all, since another user must reach it; who connects is asked of the kernel. */
static int listen_at(const char *path, int *ret_fd, struct err *err)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (strlen(path) >= sizeof(sun.sun_path)) {
		(void)err_set(err, ERR_LIMIT, path, "the path of a socket has at most %zu bytes", sizeof(sun.sun_path) - 1);
	} else {
		snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
		(void)unlink(path);     /* the lock of the directory says that nobody else serves it */
		if (fd >= 0 && bind(fd, (const struct sockaddr *)&sun, sizeof(sun)) == 0 && chmod(path, 0666) == 0 &&
		    listen(fd, SIGN_CONNECTIONS_MAX) == 0) {
			*ret_fd = fd;
			return 0;
		}
		(void)err_set(err, ERR_UNREACHABLE, path, "cannot listen at %s: %s", path, strerror(errno));
	}
	if (fd >= 0)
		close(fd);
	return err->code;
}

/* A service manager may start the server now; it is told here, since the confined signer opens no socket. */
static int listen_ready(const char *path, int *ret_fd, struct err *err)
{
	int rc = listen_at(path, ret_fd, err);

	if (rc == 0 && !notify_manager("READY=1", 0))
		fputs("toolcrib-sign: the service manager was not told\n", stderr);
	return rc;
}

static bool is_user(int fd, uid_t uid)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == uid;
}

struct owners { struct pollfd fd[1 + SIGN_CONNECTIONS_MAX]; nfds_t n; };      /* the listener first */

/* An owner that was stopped keeps its connection, so one alone would keep all others out. */
static void admit(struct owners *v, uid_t uid)
{
	const int fd = accept4(v->fd[0].fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (is_user(fd, uid) && v->n < NELEMS(v->fd)) {
		v->fd[v->n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
		return;
	}
	if (is_user(fd, uid))
		fprintf(stderr, "toolcrib-sign: %d connections are open, one more was sent away\n", SIGN_CONNECTIONS_MAX);
	else
		fputs("toolcrib-sign: another user connected and was sent away\n", stderr);
	close(fd);
}

/* One request after the other, whoever asks: each stands for itself, and what a log was signed for last is the
 * signer's to know.  Who begins one and does not end it in time goes. */
static int serve_all(struct signer *s, int listener, uid_t uid)
{
	struct owners v = { .fd = { { .fd = listener, .events = POLLIN } }, .n = 1 };

	for (;;) {
		if (poll(v.fd, v.n, -1) < 0) {
			if (errno == EINTR)
				continue;
			fprintf(stderr, "toolcrib-sign: poll: %s\n", strerror(errno));
			return EXIT_FAILED;
		}
		for (nfds_t i = v.n; i-- > 1;) {
			const int rc = v.fd[i].revents ? answer(s, v.fd[i].fd, ANSWER_MS) : 1;

			if (rc < 0)
				return EXIT_FAILED;
			if (rc == 1)
				continue;
			close(v.fd[i].fd);
			v.fd[i] = v.fd[--v.n];
		}
		if (v.fd[0].revents)
			admit(&v, uid);
	}
}

/* --- the program */

static int print_keys(const struct signer *s)
{
	struct note_key log, epoch;
	struct str text = STR_INIT;
	struct err err = { 0 };

	if (signer_keys(s, &log, &epoch, &err) < 0)
		return fail(&err);
	note_key_print(&log, &text);
	str_putc(&text, '\n');
	note_key_print(&epoch, &text);
	puts(str_text(&text));
	str_fini(&text);
	return EXIT_DONE;
}

static int run(const struct options *o)
{
	struct signer *s = NULL;
	struct err err = { 0 };
	int listener = -1, status = EXIT_FAILED;
	uid_t uid;

	if (find_user(o->user, &uid, &err) < 0 || signer_open(o->dir, &s, &err) < 0)
		return fail(&err);
	if (o->keys)
		status = print_keys(s);
	else if ((o->socket && listen_ready(o->socket, &listener, &err) < 0) || sign_confine(&err) < 0)
		(void)fail(&err);
	else if (o->socket)
		status = serve_all(s, listener, uid);
	else
		status = serve(s, STDIN_FILENO) < 0 ? EXIT_FAILED : EXIT_DONE;
	signer_close(&s);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "dir", required_argument, NULL, OPT_DIR }, { "socket", required_argument, NULL, OPT_SOCKET },
		{ "user", required_argument, NULL, OPT_USER }, { "keys", no_argument, NULL, OPT_KEYS },
		{ "version", no_argument, NULL, OPT_VERSION }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	struct options o = { NULL, NULL, NULL, false };

	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		switch (c) {
		case OPT_DIR: o.dir = optarg; break;
		case OPT_SOCKET: o.socket = optarg; break;
		case OPT_USER: o.user = optarg; break;
		case OPT_KEYS: o.keys = true; break;
		case OPT_VERSION:
			served_put_version("toolcrib-sign");
			return EXIT_DONE;
		case 'h':
			printf("%s%s", usage, help);
			return EXIT_DONE;
		default:
			fputs(usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc || !o.dir || (o.user && !o.socket) || (o.keys && o.socket)) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	(void)prctl(PR_SET_NAME, "toolcrib-sign");      /* one that is started by its descriptor is named after that */
	(void)umask(0077);
	if (secret_init() != 0) {
		fputs("toolcrib-sign: this system gives no random bytes\n", stderr);
		return EXIT_FAILED;
	}
	return run(&o);
}
