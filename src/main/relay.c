/* toolcribd --stdio beside a running server: bytes both ways, nothing is parsed.  End of input half-closes the
 * socket, so that answers still come; the end of the server is our end (MCP B-28, B-56). */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/mem.h"

#include "main_int.h"

#define PIPE_BYTES (64u << 10)
#define CREDENTIAL_MAX 256

struct flow {                           /* one direction */
	int from, to;
	char buf[PIPE_BYTES];
	size_t at, len;                 /* not yet written */
	bool eof;                       /* from has ended */
	bool moved;                     /* anything at all */
};

int relay_connect(const char *path, int *ret, struct err *err)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(sun.sun_path))
		return err_set(err, ERR_UNREACHABLE, path, "the path of the server's socket is too long: %s", path);
	memcpy(sun.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)(const void *)&sun, sizeof(sun)) != 0) {
		int e = errno;

		if (fd >= 0)
			close(fd);
		return err_set(err, ERR_UNREACHABLE, path, "cannot connect to the server at %s: %s", path, strerror(e));
	}
	*ret = fd;
	return 0;
}

static int send_credential(int fd, const char *key, struct err *err)
{
	char line[CREDENTIAL_MAX];
	int n = snprintf(line, sizeof(line), "Authorization: Bearer %s\n", key);
	int rc = 0;

	if (n < 0 || (size_t)n >= sizeof(line))
		rc = err_set(err, ERR_DENIED, "TOOLCRIB_KEY", "TOOLCRIB_KEY is no key");
	else if (send(fd, line, (size_t)n, MSG_NOSIGNAL) != n)  /* fits any socket buffer */
		rc = err_set(err, ERR_UNREACHABLE, "", "the server does not take the credential line: %s",
			     strerror(errno));
	secret_wipe(line, sizeof(line));
	return rc;
}

static bool is_temporary(void)
{
	return errno == EINTR || errno == EAGAIN;
}

/* Read when empty, write when not.  False: the reading side of `to` is gone. */
static bool step(struct flow *f, bool readable, bool writable)
{
	ssize_t n;

	if (f->len == 0 && readable && !f->eof) {
		n = read(f->from, f->buf, sizeof(f->buf));
		if (n > 0) {
			f->at = 0;
			f->len = (size_t)n;
			f->moved = true;
		} else if (n == 0 || !is_temporary()) {
			f->eof = true;
		}
	}
	if (f->len > 0 && writable) {
		n = write(f->to, f->buf + f->at, f->len);
		if (n < 0)
			return is_temporary();
		f->at += (size_t)n;
		f->len -= (size_t)n;
	}
	return true;
}

static bool has(const struct pollfd *p, short events)
{
	return p->revents & (events | POLLHUP | POLLERR);
}

/* Until the server has ended and all it said is written. */
static int copy(struct flow *up, struct flow *down, struct err *err)
{
	bool closed = false, deaf = false;

	while (!down->eof || down->len > 0) {
		struct pollfd p[] = {
			{ .fd = up->len == 0 && !up->eof && !deaf ? up->from : -1, .events = POLLIN },
			{ .fd = up->len > 0 ? up->to : -1, .events = POLLOUT },
			{ .fd = down->len == 0 && !down->eof ? down->from : -1, .events = POLLIN },
			{ .fd = down->len > 0 ? down->to : -1, .events = POLLOUT },
		};

		if (poll(p, 4, -1) < 0) {
			if (is_temporary())
				continue;
			return err_set(err, ERR_IO, "", "poll: %s", strerror(errno));
		}
		if (!step(up, has(&p[0], POLLIN), has(&p[1], POLLOUT))) {
			/* The server hears nothing more; it may still have said something */
			deaf = true;
			up->len = 0;
			closed = true;
		}
		if (!step(down, has(&p[2], POLLIN), has(&p[3], POLLOUT)))
			return 0;                       /* whoever started us does not read any more */
		if (up->eof && up->len == 0 && !closed) {
			(void)shutdown(up->to, SHUT_WR);
			closed = true;
		}
	}
	if (up->eof)
		return 0;
	if (!down->moved)
		return err_set(err, ERR_DENIED, "TOOLCRIB_KEY",
			       "the server closed the connection: the key is not accepted");
	return err_set(err, ERR_UNREACHABLE, "", "the server has ended");
}

int relay_run(const char *socket_path, const char *key, int in_fd, int out_fd, struct err *err)
{
	struct flow *flows;
	int fd = -1;
	int rc = relay_connect(socket_path, &fd, err);

	if (rc < 0)
		return rc;
	flows = mem_calloc(2, sizeof(*flows));
	rc = send_credential(fd, key, err);
	if (rc == 0) {
		flows[0].from = in_fd;
		flows[0].to = flows[1].from = fd;
		flows[1].to = out_fd;
		rc = copy(&flows[0], &flows[1], err);
	}
	free(flows);
	close(fd);
	return rc;
}
