#ifndef LAUNCHER_LAUNCHER_H
#define LAUNCHER_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* The launcher: a process of its own, toolcrib-launcher, which is the only one that starts programs (HARDENING 1.1,
 * 1.5).  The server starts it before it reads a stranger's byte and starts nothing itself any more.  It has no
 * listener, no store and no keys, reads one socketpair, and starts the programs of a fixed table: a message names a
 * row, never a file.
 *
 * A request carries the descriptors that the program gets as its 0, 1, 2 and, for a tool, SANDBOX_FD.  What has ended
 * is told once, when nothing of it is left: the launcher is the subreaper of all that it has started and kills what a
 * dead one leaves behind (SEC S-513).  When the server's end of the socketpair closes, it ends them all, and itself.
 *
 * One thread uses a struct launcher. */

#define LAUNCHER_CHILDREN_MAX 4096      /* that run at a time; one more is refused with EAGAIN */
#define LAUNCHER_FDS 4                  /* that a program gets */
#define LAUNCHER_CAPABILITIES { CAP_SETUID, CAP_SETGID, CAP_KILL }     /* for users, where no namespace gives them */
#define LAUNCHER_ARGS_MAX 3072          /* bytes of the arguments of a row, each with its NUL */
#define LAUNCHER_GREET_MS 30000         /* how long its greeting may take: a machine may be slow */
#define LAUNCHER_WAIT_MS 5000           /* for room in the socket, and for its end */

enum launcher_row {                     /* programs: who they run as is the row's matter */
	LAUNCHER_RUN,                   /* toolcrib-run: a tool's cage */
	LAUNCHER_SIGN,                  /* toolcrib-sign: the service's user */
	LAUNCHER_WORKER,                /* toolcrib-worker: likewise */
	LAUNCHER_REPORT,                /* toolcrib-report: likewise */
	LAUNCHER_VERIFIER,              /* toolcrib-verifier: likewise */
	LAUNCHER_SHIP,                  /* toolcrib-ship: likewise */
	LAUNCHER_CONSOLE,               /* toolcrib-console: likewise */
	LAUNCHER_ROWS,
};

/* Whom tools run as: a range of user ids of the machine, and one of groups.  count = 0: the server's user.  Where it
 * may fail, and the users cannot be had, the launcher goes on without them and says why. */
struct launcher_uids { uint32_t first, count, first_gid; bool may_fail; };
#define LAUNCHER_UID_MIN 1000           /* below are users of the system */
#define LAUNCHER_UIDS_MIN 2             /* one for the server's own commands, one for each tenant */
/* "FIRST:COUNT", of users and groups.  ERR_INVALID, where = "". */
int launcher_uids_parse(const char *text, struct launcher_uids *ret, struct err *err) MUST_CHECK;
/* The upper half of what /etc/subuid and /etc/subgid give to our user, who is not root.  ERR_NOT_FOUND, where = "". */
int launcher_uids_own(struct launcher_uids *ret, struct err *err) MUST_CHECK;
/* The same of these files, for this user; name: "" = he has none. */
FOR_TESTS int launcher_uids_find(const char *subuid, const char *subgid, const char *name, uint32_t uid,
				 struct launcher_uids *ret, struct err *err) MUST_CHECK;

struct launcher_ask {
	enum launcher_row row;
	uint32_t number;                /* LAUNCHER_RUN: of the range; 0 = commands of the server's own */
	const char *const *args;        /* behind the program's name, NULL-terminated; LAUNCHER_RUN: NULL */
	int fds[LAUNCHER_FDS];          /* borrowed; -1 = /dev/null, the last one only for LAUNCHER_RUN */
};

enum launcher_event_kind {
	LAUNCHER_ENDED,                 /* status: as of waitid(), exit status or -signal */
	LAUNCHER_FAILED,                /* it has not been started; status: errno */
};
struct launcher_event { enum launcher_event_kind kind; uint64_t id; int status; };

struct launcher;

/* Start it and hear that it is there.  uids may be NULL.  ERR_UNREACHABLE: its program is missing (where = path);
 * ERR_DENIED: the range cannot be used; ERR_IO.  Before the first thread where its memory matters. */
int launcher_open(const struct launcher_uids *uids, struct launcher **ret, struct err *err) MUST_CHECK;
/* Have tools users of their own?  *ret_how: how, or why not, for people; "" = none were asked for. */
bool launcher_has_users(const struct launcher *l, const char **ret_how);
/* It and all that it has started end.  Waits for that, LAUNCHER_WAIT_MS at most; then it is killed. */
void launcher_close(struct launcher **l);
/* To be waited for until it can be read. */
int launcher_fd(const struct launcher *l);
/* Ask for a start; *ret_id is never given again.  What came of it is an event.  Waits while the socket is full.
 * ERR_LIMIT: arguments; ERR_UNREACHABLE: the launcher is gone. */
int launcher_start(struct launcher *l, const struct launcher_ask *ask, uint64_t *ret_id, struct err *err) MUST_CHECK;
/* A signal, SIGTERM or SIGKILL, to the group that the program leads; nothing when it has ended. */
void launcher_signal(struct launcher *l, uint64_t id, int signal);
/* 1: *ret is filled; 0: nothing more for now; ERR_UNREACHABLE: it is gone, and nobody
 * tells of what it has started; that ends when its own sockets are closed. */
int launcher_next(struct launcher *l, struct launcher_event *ret);

#endif
