/* The console's process: started when console.listen is set, and again when it ends or says what it should not.  Its
 * socket is opened here, so that a start knows whether it can be had; nobody connects to it here.  Loop thread. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "command/visit.h"
#include "console/console.h"
#include "ev/ev.h"
#include "ev/helper.h"
#include "net/fetch.h"
#include "net/listen.h"

#include "people/people.h"

#define AGAIN_FIRST_US 1000000ull       /* doubles with each end that comes soon */
#define AGAIN_LAST_US 60000000ull
#define SOON_US 60000000ull
#define END_MS 2000
#define PING_US 10000000ull             /* how often it is asked whether it still turns; it has until the next time */

struct door_slot { struct console *console; struct command_door *door; };

struct console {
	struct console_env env;
	struct listener *listener;      /* paused for good */
	char name[CONSOLE_NAME_MAX];
	struct ev_helper *helper;       /* NULL: it does not run */
	int fd;
	struct ev_io *io;
	struct ev_timer *again, *ping;
	bool asked;                     /* and it has not said so yet */
	uint64_t started_us, wait_us;
	struct door_slot doors[CONSOLE_DOORS];
};

static void start(void *arg);

/* --- the end */

static void close_doors(struct console *k)
{
	for (size_t i = 0; i < CONSOLE_DOORS; i++)
		command_door_close(&k->doors[i].door);
	ev_io_free(&k->io);
	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
}

static void ended(struct console *k, const char *why)
{
	const bool soon = ev_now_us(k->env.loop) - k->started_us < SOON_US;

	if (!k->helper)
		return;
	ev_timer_stop(k->ping);
	close_doors(k);
	ev_helper_kill(&k->helper);
	k->wait_us = !soon || k->wait_us == 0 ? AGAIN_FIRST_US : 2 * k->wait_us;
	if (k->wait_us > AGAIN_LAST_US)
		k->wait_us = AGAIN_LAST_US;
	log_warn(NULL, "console ended why=\"%s\"", why);
	ev_timer_start(k->again, k->wait_us);
}

static void door_gone(void *arg)
{
	struct door_slot *slot = arg;

	slot->door = NULL;
	ended(slot->console, "one of its doors was closed");
}

/* It says nothing here but the byte that it was asked with. */
static void on_io(void *arg, bool readable, bool writable)
{
	struct console *k = arg;
	char byte;
	const ssize_t n = recv(k->fd, &byte, 1, MSG_DONTWAIT);

	(void)readable;
	(void)writable;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && k->asked)
		k->asked = false;
	else
		ended(k, n == 1 ? "it said what nobody asked" : "its process is gone");
}

/* One that hangs is ended, and comes again: who is signed in stays (CONSOLE 17). */
static void on_ping(void *arg)
{
	struct console *k = arg;

	if (k->asked || send(k->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) {
		ended(k, "it does not answer any more");
		return;
	}
	k->asked = true;
	ev_timer_start(k->ping, PING_US);
}

/* --- the beginning */

/* One message with all that it gets. */
static int hand_over(struct console *k, const int fds[CONSOLE_FDS])
{
	union { struct cmsghdr head; char room[CMSG_SPACE(CONSOLE_FDS * sizeof(int))]; } control;
	struct iovec text = { k->name, strlen(k->name) + 1 };
	struct msghdr m = { .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };

	memset(&control, 0, sizeof(control));
	control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(CONSOLE_FDS * sizeof(int)), .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.head), fds, CONSOLE_FDS * sizeof(int));
	return sendmsg(k->fd, &m, MSG_NOSIGNAL) == (ssize_t)text.iov_len ? 0 : -1;
}

static void make_doors(struct console *k)
{
	int fds[CONSOLE_FDS] = { listen_fd(k->listener) }, pair[2];
	size_t n = 0;
	bool fine = true;

	while (n < CONSOLE_DOORS && fine) {
		fine = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0;
		if (!fine)
			break;
		k->doors[n].door = command_door_open(k->env.admin, k->env.loop, pair[0], door_gone, &k->doors[n]);
		fds[++n] = pair[1];
	}
	if (!fine || hand_over(k, fds) < 0)
		ended(k, "there are no descriptors for it");
	while (n > 0)
		close(fds[n--]);
}

static void start(void *arg)
{
	struct console *k = arg;
	struct err err;

	metric_inc(METRIC_console_starts);
	k->started_us = ev_now_us(k->env.loop);
	if (ev_helper_start(k->env.loop, LAUNCHER_CONSOLE, NULL, &k->fd, &k->helper, &err) < 0) {
		log_err(NULL, "console cannot be started reason=%s", err.msg);
		ev_timer_start(k->again, AGAIN_LAST_US);
		return;
	}
	k->io = ev_io_new(k->env.loop, k->fd, on_io, k);
	ev_io_want(k->io, true, false);
	k->asked = false;
	ev_timer_start(k->ping, PING_US);
	make_doors(k);
}

/* Nobody is taken: its process takes them. */
static void not_here(void *arg, const struct accepted *c)
{
	(void)arg;
	listen_drop(c);
}

int console_open(const struct console_env *env, const char *address, struct console **ret, struct err *err)
{
	struct console *k = mem_zalloc(sizeof(*k));
	char url[CONSOLE_NAME_MAX + 8];

	k->env = *env;
	k->fd = -1;
	for (size_t i = 0; i < CONSOLE_DOORS; i++)
		k->doors[i].console = k;
	if (listen_tcp(env->loop, address, 1, not_here, k, &k->listener, err) < 0) {
		free(k);
		return err_wrap(err, "console.listen %s", address);
	}
	listen_pause(k->listener, true);
	if (env->url)
		(void)snprintf(k->name, sizeof(k->name), "%s", env->url);
	else
		(void)snprintf(k->name, sizeof(k->name), CONSOLE_HOST "%s", strrchr(listen_address(k->listener), ':'));
	(void)snprintf(url, sizeof(url), "%s%s", env->url ? "" : "http://", k->name);
	visits_at(env->visits, url);
	fetcher_own(env->fetcher, listen_address(k->listener)); /* SEC S-705 */
	k->again = ev_timer_new(env->loop, start, k);
	k->ping = ev_timer_new(env->loop, on_ping, k);
	start(k);
	*ret = k;
	return 0;
}

/* The next server may want the address: its process is gone before this returns. */
void console_close(struct console **kp)
{
	struct console *k = *kp;

	if (!k)
		return;
	*kp = NULL;
	visits_at(k->env.visits, NULL);
	ev_timer_free(&k->again);
	ev_timer_free(&k->ping);
	listen_close(&k->listener);
	close_doors(k);
	ev_helper_end(&k->helper, END_MS);
	free(k);
}

const char *console_address(const struct console *k)
{
	return listen_address(k->listener);
}
