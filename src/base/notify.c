/* The datagram to the service manager; see base/notify.h. */
#include <stddef.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/notify.h"

bool notify_manager(const char *state, int flags)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	bool told;
	int fd;

	if (len < 2 || len >= sizeof(sun.sun_path) || (*path != '/' && *path != '@'))
		return true;
	memcpy(sun.sun_path, path, len);
	if (*path == '@')
		sun.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	told = sendto(fd, state, strlen(state), MSG_NOSIGNAL | flags, (const struct sockaddr *)(const void *)&sun,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) >= 0;
	close(fd);
	return told;
}
