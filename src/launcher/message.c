/* Messages of server and launcher: packets with descriptors, taken apart strictly. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

#include "launcher_int.h"

int launcher_uids_parse(const char *text, struct launcher_uids *ret, struct err *err)
{
	const char *colon = strchr(text, ':');
	uint64_t first = 0, count = 0;

	if (!colon || text_u64(text, (size_t)(colon - text), &first) != 0 ||
	    text_u64(colon + 1, strlen(colon + 1), &count) != 0 || first < LAUNCHER_UID_MIN || count < LAUNCHER_UIDS_MIN ||
	    count > UINT32_MAX || first + count > UINT32_MAX)
		return err_set(err, ERR_INVALID, "", "two numbers FIRST:COUNT, from %d on and at least %d, is \"%.60s\"",
			       LAUNCHER_UID_MIN, LAUNCHER_UIDS_MIN, text);
	*ret = (struct launcher_uids){ .first = (uint32_t)first, .count = (uint32_t)count, .first_gid = (uint32_t)first };
	return 0;
}

/* Each argument ends with a NUL, the last one as well. */
static bool is_whole(const struct launcher_message *m)
{
	return m->head.len == 0 || (m->head.row != LAUNCHER_RUN && m->text[m->head.len - 1] == '\0');
}

bool launcher_request_parse(const void *p, size_t len, size_t nfds, struct launcher_message *ret)
{
	struct launcher_head *head = &ret->head;

	if (len < sizeof(*head) || len > LAUNCHER_MESSAGE_MAX)
		return false;
	memcpy(head, p, sizeof(*head));
	if (head->magic != LAUNCHER_MAGIC || head->len != len - sizeof(*head) || head->id == 0)
		return false;
	memcpy(ret->text, (const char *)p + sizeof(*head), head->len);
	if (head->op == LAUNCHER_OP_SIGNAL)
		return nfds == 0 && head->len == 0 && head->row == 0 && head->number == 0 &&
		       (head->status == SIGTERM || head->status == SIGKILL);
	return head->op == LAUNCHER_OP_START && head->row < LAUNCHER_ROWS && head->status == 0 &&
	       (head->row == LAUNCHER_RUN || head->number == 0) && nfds == launcher_row_fds(head->row) && is_whole(ret);
}

bool launcher_message_send(int fd, const struct launcher_message *m, int flags)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(LAUNCHER_FDS * sizeof(int))]; } control = { .room = { 0 } };
	struct iovec iov[] = {
		{ (void *)(uintptr_t)&m->head, sizeof(m->head) }, { (void *)(uintptr_t)m->text, m->head.len },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = m->head.len ? 2 : 1 };

	if (m->nfds > 0) {
		struct cmsghdr *c = &control.head;

		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(m->nfds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(m->nfds * sizeof(int));
		memcpy(CMSG_DATA(c), m->fds, m->nfds * sizeof(int));
	}
	for (;;) {
		if (sendmsg(fd, &msg, flags | MSG_NOSIGNAL) >= 0)
			return true;
		if (errno != EINTR)
			return false;
	}
}

static void take_fds(const struct cmsghdr *c, struct launcher_message *m)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fds[LAUNCHER_FDS * 2];

	if (n > NELEMS(fds))            /* the room for them was smaller: cannot be */
		n = NELEMS(fds);
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	for (size_t i = 0; i < n; i++) {
		if (m->nfds < LAUNCHER_FDS)
			m->fds[m->nfds++] = fds[i];
		else
			close(fds[i]);
	}
}

ssize_t launcher_message_recv(int fd, void *buf, size_t size, struct launcher_message *m, int flags)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(LAUNCHER_FDS * sizeof(int))]; } control;
	struct iovec iov = { buf, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;

	m->nfds = 0;
	do
		n = recvmsg(fd, &msg, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			take_fds(c, m);
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		while (m->nfds > 0)
			close(m->fds[--m->nfds]);
		errno = EMSGSIZE;
		return -1;
	}
	return n;
}
