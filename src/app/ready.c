/* Saying that we are there: one line in the log, and the datagram that a service manager waits for. */
#include "config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

#include "app_int.h"

/* The protocol of sd_notify(3): a datagram to $NOTIFY_SOCKET, a path or, with '@', an abstract name. */
void app_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len < 2 || len >= sizeof(sun.sun_path) || (*path != '/' && *path != '@'))
		return;
	memcpy(sun.sun_path, path, len);
	if (*path == '@')
		sun.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)(const void *)&sun,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_warn(NULL, "service manager not told state=%s", state);
	close(fd);
}

int app_ready(struct app *a, struct err *err)
{
	struct str where = STR_INIT;

	(void)err;
	for (size_t i = 0; i < a->nlisteners; i++)
		if (!a->listeners[i].internal)
			str_printf(&where, " %s=%s", a->listeners[i].ops->name, a->listeners[i].ops->address(a->listeners[i].t));
	log_info(NULL, "ready version=%s pid=%ld store=%s%s", PACKAGE_VERSION, (long)getpid(), a->store, str_text(&where));
	str_fini(&where);
	app_notify("READY=1");
	return 0;
}
