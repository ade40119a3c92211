/* A server hands its place to the next one (OP-901, decision 0091): the side of the one that serves, which answers on a
 * socket of the store.  Words (words.c) bring listeners, connections that nobody is asking on, at last the lock of the
 * store.  Loop thread. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/notify.h"
#include "base/path.h"
#include "call/call.h"
#include "conf/conf.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "net/listen.h"

#include "app_int.h"
#include "handover_int.h"

#define PREPARE_MS 120000               /* from the offer on, until the new server is ready to go */

/* --- the one that serves */

struct app_handover {
	struct listener *listener;
	struct ev_io *io;
	struct ev_timer *late;
	int fd;                         /* who asks; -1: nobody */
	int64_t pid;                    /* it, once it takes over */
	bool known;                     /* it may */
	bool deaf;                      /* it takes no connections any more */
	struct { int fd; size_t listener; } *conns;     /* which it has got, and which are ours again if it dies */
	size_t nconns;
};

static void forget_conns(struct app_handover *h)
{
	while (h->nconns > 0)
		close(h->conns[--h->nconns].fd);
	free(h->conns);
	h->conns = NULL;
}

static void drop(struct app *a)
{
	struct app_handover *h = a->handover;

	if (h->fd < 0)
		return;
	ev_io_free(&h->io);
	ev_timer_stop(h->late);
	close(h->fd);
	h->fd = -1;
	h->known = a->leaving = false;
	if (h->listener)
		listen_conn_gone(h->listener);
}

/* Whoever can open the store's key can take the store; a tool in its cage cannot, though it may have our user. */
static bool may_take(const struct app *a, int fd)
{
	char *path = path_join(a->store, DB_MASTER_KEY);
	struct stat shown, key;
	bool may = fd >= 0 && fstat(fd, &shown) == 0 && stat(path, &key) == 0 && shown.st_dev == key.st_dev &&
		   shown.st_ino == key.st_ino && (fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH)) == O_RDONLY;

	free(path);
	return may;
}

static struct listener *listener_of(const struct app *a, size_t i)
{
	return a->listeners[i].ops->listener(a->listeners[i].t);
}

static bool offer(const struct app *a)
{
	const char *manager = getenv("NOTIFY_SOCKET");
	int fd = a->handover->fd;
	bool ok = app_word_say(fd, APP_SERVES, a->opt.conf->drain_ms, PACKAGE_VERSION, -1) &&
		  app_word_say(fd, APP_IS_TOLD, (int64_t)a->watchdog.every_us * 2, manager ? manager : "", -1);

	for (size_t i = 0; ok && i < a->nlisteners; i++) {
		struct listener *l = listener_of(a, i);
		struct app_word m = { .magic = APP_WORD_MAGIC, .protocol = APP_WORD_PROTOCOL, .word = APP_LISTENS,
				      .flag = listen_is_own(l) };

		(void)snprintf(m.text, sizeof(m.text), "%s", listen_address(l));
		ok = a->listeners[i].internal || app_word_send(fd, &m, listen_fd(l));
	}
	return ok && app_word_say(fd, APP_THAT_IS_ALL, 0, "", -1);
}

struct leaving { struct app *a; size_t listener; };

static void take_conn(void *arg, int fd)
{
	const struct leaving *to = arg;
	struct app_handover *h = to->a->handover;
	const char *address = listen_address(listener_of(to->a, to->listener));

	h->conns = mem_realloc(h->conns, (h->nconns + 1) * sizeof(*h->conns));
	h->conns[h->nconns].fd = fd;
	h->conns[h->nconns++].listener = to->listener;
	if (h->deaf)
		return;
	h->deaf = !app_word_say(h->fd, APP_CONNECTED, (int64_t)to->listener, address, fd);
	if (h->deaf)
		log_warn(NULL, "connections could not be handed over, and are closed when this server ends");
}

/* From here on nobody new comes to us, and what nobody is asking on is the next one's. */
static void go(struct app *a, int64_t pid)
{
	struct app_handover *h = a->handover;

	a->leaving = true;
	h->deaf = false;
	h->pid = pid;
	ev_timer_stop(h->late);
	log_info(NULL, "handing over pid=%lld running=%zu", (long long)pid, call_engine_running(a->calls));
	for (size_t i = 0; i < a->nlisteners; i++) {
		struct leaving to = { a, i };

		if (!a->listeners[i].internal)
			listen_keep(listener_of(a, i), true);
		a->listeners[i].ops->leave(a->listeners[i].t, take_conn, &to);
	}
	app_drain(a);
}

/* It has died before we did: all is as it was, but that streams and sessions of ours have ended. */
static void go_on(struct app *a)
{
	struct app_handover *h = a->handover;

	log_warn(NULL, "whoever was to take over has ended, this server goes on pid=%lld", (long long)h->pid);
	app_drain_undo(a);
	for (size_t i = 0; i < a->nlisteners; i++) {
		struct listener *l = listener_of(a, i);

		listen_keep(l, false);
		listen_pause(l, false);
	}
	for (size_t i = 0; i < h->nconns; i++)
		listen_adopt(listener_of(a, h->conns[i].listener), h->conns[i].fd);
	h->nconns = 0;
	forget_conns(h);
}

static void gone(struct app *a)
{
	bool under_way = a->leaving, ended = a->phase == APP_ENDED;

	drop(a);
	a->leaving = under_way && (ended || a->leaving_stopped);
	if (under_way && !ended && !a->leaving_stopped)
		go_on(a);
}

static void refuse(struct app *a, const char *why)
{
	log_warn(NULL, "nothing is handed over why=\"%s\"", why);
	(void)app_word_say(a->handover->fd, APP_REFUSES, 0, why, -1);
	gone(a);
}

static void on_word(void *arg, bool readable, bool writable)
{
	struct app *a = arg;
	struct app_handover *h = a->handover;
	struct app_word m;
	int fd, rc = app_word_hear(h->fd, 0, &m, &fd);

	(void)readable;
	(void)writable;
	if (rc == ERR_TIMEOUT)
		return;
	if (rc != 1) {
		gone(a);
	} else if (m.protocol != APP_WORD_PROTOCOL) {
		refuse(a, "the program that runs and the new one know different ways to hand over; stop the server and start it");
	} else if (m.word == APP_ASKS && !h->known) {
		h->known = may_take(a, fd);
		if (!h->known)
			refuse(a, "who asks has not shown that it can open the store");
		else if (offer(a))
			ev_timer_start(h->late, PREPARE_MS * 1000ull);
		else
			drop(a);
	} else if (m.word == APP_GOES && h->known && !a->leaving) {
		if (a->phase == APP_RUNNING)
			go(a, m.number);
		else
			refuse(a, "the server is stopping");
	} else {
		refuse(a, "a word out of its turn");
	}
	if (rc == 1 && fd >= 0)
		close(fd);
}

static void on_late(void *arg)
{
	refuse(arg, "the new server has taken too long to get ready");
}

static void on_connect(void *arg, const struct accepted *who)
{
	struct app *a = arg;
	struct app_handover *h = a->handover;

	if (h->fd >= 0 || (who->uid != geteuid() && who->uid != 0)) {
		log_warn(NULL, "nothing is handed over to another user uid=%lld", (long long)who->uid);
		listen_drop(who);
		listen_conn_gone(h->listener);
		return;
	}
	h->fd = who->fd;
	h->io = ev_io_new(a->loop, h->fd, on_word, a);
	ev_io_want(h->io, true, false);
	ev_timer_start(h->late, APP_WORD_MS * 1000ull);
}

int app_handover_start(struct app *a, struct err *err)
{
	struct app_handover *h = mem_zalloc(sizeof(*h));
	char *path = app_handover_socket(a->store);
	int rc;

	h->fd = -1;
	h->late = ev_timer_new(a->loop, on_late, a);
	a->handover = h;
	rc = listen_unix(a->loop, path, 0600, 1, on_connect, a, &h->listener, err);
	free(path);
	if (rc < 0)
		app_handover_stop(a);
	return rc;
}

/* With the other sockets; who takes over is told at the very end. */
void app_handover_stop(struct app *a)
{
	struct app_handover *h = a->handover;

	if (!h)
		return;
	ev_io_free(&h->io);
	ev_timer_free(&h->late);
	listen_close(&h->listener);
	if (a->leaving)
		return;
	if (h->fd >= 0)
		close(h->fd);
	free(h);
	a->handover = NULL;
}

static void forget(struct app *a)
{
	forget_conns(a->handover);
	free(a->handover);
	a->handover = NULL;
}

static bool pass_store(struct app *a)
{
	struct app_handover *h = a->handover;
	char *main_pid = mem_printf("MAINPID=%lld", (long long)h->pid);
	bool done;

	(void)notify_manager(main_pid, 0);
	free(main_pid);
	done = app_word_say(h->fd, APP_STORE, 0, a->store, db_owner_fd(a->opt.owner));
	if (done)
		log_info(NULL, "handed over pid=%lld connections=%zu", (long long)h->pid, h->nconns);
	return done;
}

static void say_lost(struct app *a)
{
	log_err(NULL, "the store could not be handed over, a new start will open it pid=%lld", (long long)a->handover->pid);
	a->status = 1;
}

static bool pass_while_calls_stay(struct app *a)
{
	const bool done = a->status == 0 && pass_store(a);

	if (!done)
		say_lost(a);
	forget(a);
	db_owner_leave(&a->opt.owner);
	return done;
}

bool app_handover_end(struct app *a)
{
	struct app_handover *h = a->handover;
	bool done = false;

	if (!h)
		return false;
	if (a->stays) {
		app_linger(a, h->fd, pass_while_calls_stay);
		return false;
	}
	if (h->fd >= 0 && a->leaving_stopped)
		(void)app_word_say(h->fd, APP_REFUSES, 0, "the server was told to stop meanwhile", -1);
	else if (h->fd >= 0 && a->status == 0)
		done = pass_store(a);
	if (!done && !a->leaving_stopped)
		say_lost(a);
	if (h->fd >= 0)
		close(h->fd);
	forget(a);
	return done;
}
