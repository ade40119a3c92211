#ifndef LAUNCHER_INT_H
#define LAUNCHER_INT_H

#include "launcher/launcher.h"

/* Messages between the server and its launcher: one packet of a SOCK_SEQPACKET pair each, in the order of bytes of the
 * machine that both are on.  A request is a head and `len` bytes of arguments; an answer is a head. */

#define LAUNCHER_MAGIC 0x54434c31u      /* another one: another version of this package */

enum launcher_op {
	LAUNCHER_OP_START = 1,          /* with descriptors */
	LAUNCHER_OP_SIGNAL,             /* status: the signal */
	LAUNCHER_OP_READY,              /* status: errno of the step that failed, and behind it its name; 0 = it is ready:
					 * number: tools have users; behind it how, or why not */
	LAUNCHER_OP_ENDED,
	LAUNCHER_OP_FAILED,
};

struct launcher_head {
	uint32_t magic, op;
	uint64_t id;
	uint32_t row, number;
	int32_t status;
	uint32_t len;                   /* bytes behind the head */
};

#define LAUNCHER_MESSAGE_MAX (sizeof(struct launcher_head) + LAUNCHER_ARGS_MAX)

struct launcher_message {
	struct launcher_head head;
	char text[LAUNCHER_ARGS_MAX];
	int fds[LAUNCHER_FDS];          /* as sent; -1 = none */
	size_t nfds;
};

/* Is this a request that a launcher carries out: known, whole, bounded, with the descriptors of its row?  Fills head
 * and text. */
bool launcher_request_parse(const void *p, size_t len, size_t nfds, struct launcher_message *ret);
/* One packet with descriptors.  False: errno says why. */
bool launcher_message_send(int fd, const struct launcher_message *m, int flags);
/* One packet; unknown descriptors of it are closed.  Its length, 0 = the other end is gone, -1 with errno.  m->fds
 * are the caller's. */
ssize_t launcher_message_recv(int fd, void *buf, size_t size, struct launcher_message *m, int flags);

/* Arguments of the launcher: none, or the range of users, the first of its groups, and one of these. */
#define LAUNCHER_MAY_FAIL "may-fail"
#define LAUNCHER_MUST_NOT_FAIL "must-not-fail"

/* How many descriptors a row's program gets. */
static inline size_t launcher_row_fds(uint32_t row)
{
	return row == LAUNCHER_RUN ? LAUNCHER_FDS : 1;
}

#endif
