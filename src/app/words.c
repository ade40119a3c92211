/* What two servers say to each other when one takes the place of the other: words of one size, each with one descriptor
 * at most, so that nothing has to be put together.  Any thread; whoever says or hears one waits at most APP_WORD_MS. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handover_int.h"

static bool wait_for(int fd, short events, uint32_t ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	do
		n = poll(&p, 1, (int)ms);
	while (n < 0 && errno == EINTR);
	return n == 1;
}

bool app_word_send(int fd, const struct app_word *m, int passed)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control = { .room = { 0 } };
	struct iovec io = { (void *)(uintptr_t)m, sizeof(*m) };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1 };

	if (passed >= 0) {
		msg.msg_control = control.room;
		msg.msg_controllen = sizeof(control.room);
		control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
						 .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&control.head), &passed, sizeof(passed));
	}
	if (!wait_for(fd, POLLOUT, APP_WORD_MS))
		return false;
	return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(*m);
}

bool app_word_say(int fd, enum app_words word, int64_t number, const char *text, int passed)
{
	struct app_word m = { .magic = APP_WORD_MAGIC, .protocol = APP_WORD_PROTOCOL, .word = word, .number = number };

	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	return app_word_send(fd, &m, passed);
}

int app_word_hear(int fd, uint32_t ms, struct app_word *ret, int *ret_fd)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control = { .room = { 0 } };
	struct iovec io = { ret, sizeof(*ret) };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control.room,
			      .msg_controllen = sizeof(control.room) };
	const struct cmsghdr *head;
	ssize_t n;

	*ret_fd = -1;
	if (!wait_for(fd, POLLIN, ms))
		return ERR_TIMEOUT;
	n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	head = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(head), sizeof(*ret_fd));
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return 0;
	if (n == (ssize_t)sizeof(*ret) && ret->magic == APP_WORD_MAGIC && memchr(ret->text, '\0', sizeof(ret->text)))
		return 1;
	if (*ret_fd >= 0)
		close(*ret_fd);
	*ret_fd = -1;
	return ERR_INVALID;
}
