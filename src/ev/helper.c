/* Programs of this package beside the server: one socket, one process. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "ev/helper.h"

#include "ev_int.h"

struct ev_helper {
	struct ev_loop *loop;
	uint64_t id;                    /* of the launcher; 0 = it has ended */
};

static void on_event(void *arg, const struct launcher_event *event)
{
	struct ev_helper *h = arg;

	if (event->kind == LAUNCHER_FAILED)
		log_err(NULL, "a program of this package cannot be started why=\"%s\"", strerror(event->status));
	h->id = 0;
}

int ev_helper_start(struct ev_loop *loop, enum launcher_row row, const char *const args[], int *ret_fd,
		    struct ev_helper **ret, struct err *err)
{
	struct ev_helper *h = mem_zalloc(sizeof(*h));
	int s[2] = { -1, -1 }, rc = 0;

	h->loop = loop;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s))
		rc = err_set(err, ERR_IO, "socketpair", "%s", strerror(errno));
	if (rc == 0)
		rc = ev_launch(loop, &(struct launcher_ask){ .row = row, .args = args, .fds = { s[1], -1, -1, -1 } },
			       on_event, h, &h->id, err);
	if (s[1] >= 0)
		close(s[1]);
	if (rc == 0) {
		*ret_fd = s[0];
		*ret = h;
		return 0;
	}
	if (s[0] >= 0)
		close(s[0]);
	free(h);
	return rc;
}

void ev_helper_end(struct ev_helper **hp, uint32_t wait_ms)
{
	struct ev_helper *h = *hp;

	if (!h)
		return;
	*hp = NULL;
	ev_launch_await(h->loop, &h->id, false, wait_ms);
	if (h->id) {
		ev_launch_signal(h->loop, h->id, SIGKILL);
		ev_launch_await(h->loop, &h->id, false, LAUNCHER_WAIT_MS);
	}
	if (h->id)
		ev_launch_forget(h->loop, h->id);
	free(h);
}

void ev_helper_kill(struct ev_helper **hp)
{
	struct ev_helper *h = *hp;

	if (!h)
		return;
	*hp = NULL;
	if (h->id) {
		ev_launch_signal(h->loop, h->id, SIGKILL);
		ev_launch_forget(h->loop, h->id);
	}
	free(h);
}
