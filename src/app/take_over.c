/* A server takes the place of one that runs (OP-901, decision 0091): what it asks, and takes over; and what sockets a
 * service manager has opened (OP-907).  The table of start.c calls it while there is one thread and no loop turns. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "conf/conf.h"
#include "db/db.h"
#include "db/owner.h"
#include "net/given.h"
#include "net/listen.h"

#include "app_int.h"
#include "handover_int.h"

#define BEYOND_DRAIN_MS 30000           /* for calls that are cancelled, the last commit and the end of the old one */
#define CONNECTIONS_MAX 65536           /* that are taken over */
#define DRAIN_MOST_MS 600000            /* drain_ms of conf.def */
#define WORDS_MAX (GIVEN_MAX + 8)       /* of an offer */

struct app_take_over {
	int fd;
	struct given *given;
	bool managed;                   /* by a service manager, which the old server has named */
	uint32_t drain_ms;
	int64_t pid;                    /* the old one */
	char version[64];
	struct { int fd; char address[GIVEN_ADDRESS_SIZE]; } *conns;
	size_t nconns;
};

/* A store that a start would change takes as long as it takes: not while everybody waits. */
int app_take_over_check(const char *store, struct err *err)
{
	char *absolute = path_absolute(store);
	struct db *db = NULL;
	int rc = db_open_store(db_in(absolute), &db, err);

	if (rc == 0)
		rc = db_check_schema(db, err);
	if (rc == ERR_CONFLICT)
		err_hint(err, "a handover changes no store: stop the server, take a backup, start the new one");
	db_close(&db);
	free(absolute);
	return rc;
}

static int unexpected(const struct app_take_over *t, int rc, const struct app_word *m, struct err *err)
{
	if (rc == 1 && m->word == APP_REFUSES)
		return err_set(err, ERR_CONFLICT, "", "process %lld hands nothing over: %s", (long long)t->pid, m->text);
	return err_set(err, ERR_UNREACHABLE, "", "process %lld was to hand over, and %s", (long long)t->pid,
		       rc == 0 ? "ended the conversation" : rc == ERR_TIMEOUT ? "says nothing" :
		       "says what this program does not know");
}

static void inherit_manager(struct app_take_over *t, const struct app_word *m)
{
	char usec[24];

	t->managed = *m->text != '\0';
	if (!t->managed)
		return;
	(void)snprintf(usec, sizeof(usec), "%lld", (long long)m->number);
	(void)setenv("NOTIFY_SOCKET", m->text, 1);
	(void)unsetenv("WATCHDOG_PID");
	if (m->number > 0)
		(void)setenv("WATCHDOG_USEC", usec, 1);
	else
		(void)unsetenv("WATCHDOG_USEC");
}

/* What there is to be had. */
static int hear_offer(struct app_take_over *t, struct err *err)
{
	struct app_word m;
	int fd, rc;

	for (unsigned n = 0;; n++) {
		rc = n > WORDS_MAX ? ERR_INVALID : 0;
		rc = rc ? rc : app_word_hear(t->fd, APP_WORD_MS, &m, &fd);
		if (rc != 1 || m.protocol != APP_WORD_PROTOCOL || m.word == APP_REFUSES)
			return unexpected(t, rc, &m, err);
		if (m.word == APP_THAT_IS_ALL)
			return 0;
		if (m.word == APP_SERVES) {
			t->drain_ms = m.number >= 0 && m.number < DRAIN_MOST_MS ? (uint32_t)m.number : DRAIN_MOST_MS;
			(void)snprintf(t->version, sizeof(t->version), "%.60s", m.text);
		} else if (m.word == APP_IS_TOLD) {
			inherit_manager(t, &m);
		} else if (m.word == APP_LISTENS && fd >= 0) {
			rc = given_add(&t->given, fd, m.flag != 0, err);
			fd = -1;
			if (rc < 0)
				return rc;
		}
		if (fd >= 0)
			close(fd);
	}
}

int app_take_over_open(const char *store, int fd, struct app_take_over **ret, struct err *err)
{
	struct app_take_over *t = mem_zalloc(sizeof(*t));
	char *absolute = path_absolute(store), *key = path_join(absolute, DB_MASTER_KEY);
	int shown = open(key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc = 0;
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);

	t->fd = fd;
	if (shown < 0)
		rc = err_set(err, ERR_UNREACHABLE, key, "cannot open: %s", strerror(errno));
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) || (peer.uid != geteuid() && peer.uid != 0))
		rc = err_set(err, ERR_DENIED, "", "the server of the store %s is another user's", store);
	t->pid = peer.pid;
	if (rc == 0 && !app_word_say(fd, APP_ASKS, 0, "", shown))
		rc = unexpected(t, 0, NULL, err);
	rc = rc ? rc : hear_offer(t, err);
	if (shown >= 0)
		close(shown);
	free(absolute);
	free(key);
	if (rc < 0)
		app_take_over_free(&t);
	else
		*ret = t;
	return rc;
}

bool app_take_over_managed(const struct app_take_over *t)
{
	return t->managed;
}

void app_take_over_free(struct app_take_over **tp)
{
	struct app_take_over *t = *tp;

	if (!t)
		return;
	while (t->nconns > 0)
		close(t->conns[--t->nconns].fd);
	free(t->conns);
	given_free(&t->given);
	if (t->fd >= 0)
		close(t->fd);
	free(t);
	*tp = NULL;
}

static void keep_conn(struct app_take_over *t, const struct app_word *m, int fd)
{
	if (fd < 0 || t->nconns >= CONNECTIONS_MAX) {
		if (fd >= 0)
			close(fd);
		return;
	}
	t->conns = mem_realloc(t->conns, (t->nconns + 1) * sizeof(*t->conns));
	t->conns[t->nconns].fd = fd;
	(void)snprintf(t->conns[t->nconns++].address, GIVEN_ADDRESS_SIZE, "%.*s", GIVEN_ADDRESS_SIZE - 1, m->text);
}

/* The old one may die on the way, too: then its store is nobody's, and this is a start like others. */
static int take_orphan(struct app *a, struct err *err)
{
	const uint64_t until_us = clock_mono_us() + APP_WORD_MS * 1000ull;
	struct db_card card = { 0 };
	int rc;

	do {
		rc = db_owner_take(a->store, &a->opt.owner, &card, err);
	} while (rc == 1 && clock_mono_us() < until_us && poll(NULL, 0, 20) == 0);
	if (rc == 1)
		rc = err_set(err, ERR_CONFLICT, "", "process %lld was to hand the store over, and process %lld has it",
			     (long long)a->opt.take_over->pid, (long long)card.pid);
	return rc;
}

int app_take_over_start(struct app *a, struct err *err)
{
	struct app_take_over *t = a->opt.take_over;
	const uint64_t begun_us = clock_mono_us();
	struct app_word m;
	uint32_t most_ms;
	int fd, rc;

	if (!t)
		return 0;
	most_ms = t->drain_ms + BEYOND_DRAIN_MS;
	if (!app_word_say(t->fd, APP_GOES, getpid(), "", -1))
		return unexpected(t, 0, NULL, err);
	do {
		rc = app_word_hear(t->fd, most_ms, &m, &fd);
		if (rc == 1 && m.word == APP_CONNECTED)
			keep_conn(t, &m, fd);
		else if (rc == 1 && (m.word == APP_STAYS || m.word == APP_ELDER))
			fd = app_elders_word(a, t->pid, &m, fd) ? -1 : fd;
		if (rc == 1 && fd >= 0 && m.word != APP_CONNECTED && m.word != APP_STORE)
			close(fd);
	} while (rc == 1 && (m.word == APP_CONNECTED || m.word == APP_STAYS || m.word == APP_ELDER) &&
		 clock_mono_us() < begun_us + most_ms * 1000ull);
	if (rc == 1 && m.word == APP_STORE && fd >= 0)
		rc = db_owner_adopt(a->store, fd, &a->opt.owner, err);
	else if (rc == 0)
		rc = take_orphan(a, err);
	else
		rc = unexpected(t, rc, &m, err);
	if (rc < 0)
		app_elders_stop(a);
	else if (app_elders_word(a, t->pid, NULL, t->fd))
		t->fd = -1;
	if (rc == 0)
		log_info(NULL, "taken over pid=%lld version=%s waited_ms=%llu connections=%zu", (long long)t->pid, t->version,
			 (unsigned long long)(clock_mono_us() - begun_us) / 1000, t->nconns);
	return rc;
}

char *app_take_over_said(const struct app *a)
{
	const struct app_take_over *t = a->opt.take_over;

	return t ? mem_printf(", in place of process %lld of %s", (long long)t->pid, t->version) : mem_strdup("");
}

int app_take_over_adopt(struct app *a, struct err *err)
{
	struct app_take_over *t = a->opt.take_over;

	(void)err;
	for (; t && t->nconns > 0; t->nconns--) {
		struct listener *l = NULL;

		for (size_t i = 0; i < a->nlisteners && !l; i++) {
			l = a->listeners[i].ops->listener(a->listeners[i].t);
			l = strcmp(listen_address(l), t->conns[t->nconns - 1].address) == 0 ? l : NULL;
		}
		if (l)
			listen_adopt(l, t->conns[t->nconns - 1].fd);
		else
			close(t->conns[t->nconns - 1].fd);      /* the new configuration has no such listener */
	}
	return 0;
}

/* --- sockets that somebody else has opened */

/* Before anything is opened or written, and before anything is started that could inherit them. */
int app_given_start(struct app *a, struct err *err)
{
	const struct conf *c = a->opt.conf;
	const char *name, *stray;
	int rc = given_by_manager(&a->given, err);

	if (rc == 0 && a->opt.take_over) {      /* whoever started us knows nothing newer */
		given_free(&a->given);
		a->given = a->opt.take_over->given;
		a->opt.take_over->given = NULL;
	}
	for (size_t i = 0; rc == 0 && i < c->nlisteners; i++)
		if (given_want(a->given, c->listeners[i].address))
			log_info(NULL, "a listener was open already listener=%s", c->listeners[i].address);
		else if (a->opt.take_over && c->listeners[i].transport != CONF_UNIX)
			rc = listen_probe(c->listeners[i].address, err);
	if (rc < 0)
		given_free(&a->given);
	stray = rc == 0 && !a->opt.take_over ? given_stray(a->given, &name) : NULL;
	if (!stray)
		return rc;
	rc = err_set(err, ERR_INVALID, "LISTEN_FDS",
		     "the service manager listens on %s%s%s%s, and no listener of %s has that address", stray,
		     *name ? " (" : "", name, *name ? ")" : "", c->file ? c->file : "the built-in defaults");
	err_hint(err, "let ListenStream= of the socket unit and address of a listener say the same");
	given_free(&a->given);
	return rc;
}

void app_given_stop(struct app *a)
{
	given_free(&a->given);
}
