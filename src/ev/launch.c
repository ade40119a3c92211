/* The launcher, as a loop has it: started once, heard while it lives, and what it tells is given to who has asked. */
#include "config.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "ev/child.h"
#include "launcher/launcher.h"

#include "ev_int.h"

#define EVENTS_A_TURN 64

struct started { ev_launch_fn *fn; void *arg; };
struct later { struct ev_loop *loop; struct launcher_event event; };

static void tell(struct ev_loop *loop, const struct launcher_event *event)
{
	struct started *s = loop->nursery.started ? map_del_u64(loop->nursery.started, event->id) : NULL;

	if (event->kind == LAUNCHER_FAILED)
		metric_inc(METRIC_launcher_refused);
	if (s)
		s->fn(s->arg, event);
	free(s);
}

/* Nobody tells of what it had started, which ends when its own socket is closed, by who is told here; and nothing is
 * started any more (HARDENING 1.5). */
static void on_gone(void *arg)
{
	struct ev_loop *loop = arg;
	struct ev_nursery *n = &loop->nursery;
	size_t it = 0, len;
	const void *key;
	void *value;

	if (n->gone)
		return;
	n->gone = true;
	log_err(NULL, "the launcher is gone: no program is started until the server is started again");
	metric_inc(METRIC_launcher_gone);
	ev_io_free(&n->io);
	while (map_next(n->started, &it, &key, &len, &value)) {
		struct launcher_event event = { LAUNCHER_ENDED, 0, -SIGKILL };

		memcpy(&event.id, key, sizeof(event.id));
		tell(loop, &event);
	}
}

static void on_launcher(void *arg, bool readable, bool writable)
{
	struct ev_loop *loop = arg;
	struct launcher_event event;
	int rc = 1;

	(void)readable;
	(void)writable;
	for (size_t i = 0; i < EVENTS_A_TURN && (rc = launcher_next(loop->nursery.launcher, &event)) > 0; i++)
		tell(loop, &event);
	if (rc < 0)
		on_gone(loop);
}

static void end(struct ev_loop *loop)
{
	struct ev_nursery *n = &loop->nursery;
	size_t it = 0, len;
	const void *key;
	void *value;

	if (n->kill_all)
		n->kill_all(loop);
	ev_io_free(&n->io);
	launcher_close(&n->launcher);
	while (map_next(n->started, &it, &key, &len, &value)) {
		free(value);
		(void)map_del(n->started, key, len);
	}
	map_free(&n->started);
}

int ev_launcher_open(struct ev_loop *loop, const struct launcher_uids *uids, struct err *err)
{
	struct ev_nursery *n = &loop->nursery;
	int rc;

	ev_assert_thread(loop);
	if (n->gone)
		return err_set(err, ERR_UNREACHABLE, "launcher", "it is gone: start the server again");
	if (n->launcher)
		return 0;
	rc = launcher_open(uids, &n->launcher, err);
	if (rc < 0)
		return rc;
	n->started = map_new();
	n->io = ev_io_new(loop, launcher_fd(n->launcher), on_launcher, loop);
	ev_io_want(n->io, true, false);
	n->end = end;
	return 0;
}

bool ev_launcher_has_users(const struct ev_loop *loop, const char **ret_how)
{
	return launcher_has_users(loop->nursery.launcher, ret_how);
}

int ev_launch(struct ev_loop *loop, const struct launcher_ask *ask, ev_launch_fn *fn, void *arg, uint64_t *ret_id,
	      struct err *err)
{
	struct started *s;
	int rc = ev_launcher_open(loop, NULL, err);

	rc = rc ? rc : launcher_start(loop->nursery.launcher, ask, ret_id, err);
	if (rc < 0)
		return rc;
	s = mem_alloc(sizeof(*s));
	*s = (struct started){ fn, arg };
	map_set_u64(loop->nursery.started, *ret_id, s);
	return 0;
}

void ev_launch_signal(struct ev_loop *loop, uint64_t id, int signal)
{
	if (loop->nursery.launcher)
		launcher_signal(loop->nursery.launcher, id, signal);
}

void ev_launch_forget(struct ev_loop *loop, uint64_t id)
{
	if (loop->nursery.started)
		free(map_del_u64(loop->nursery.started, id));
}

static void on_later(void *arg)
{
	struct later *later = arg;

	tell(later->loop, &later->event);
	free(later);
}

/* One event of another than who waits: in its turn. */
static void tell_later(struct ev_loop *loop, const struct launcher_event *event)
{
	struct later *later = mem_alloc(sizeof(*later));

	*later = (struct later){ loop, *event };
	ev_defer(loop, on_later, later);
}

void ev_launch_await(struct ev_loop *loop, const uint64_t *id, bool others, uint32_t wait_ms)
{
	struct ev_nursery *n = &loop->nursery;
	uint64_t until_us = clock_mono_us() + wait_ms * UINT64_C(1000);

	while (*id != 0 && n->launcher && !n->gone) {
		struct pollfd fd = { .fd = launcher_fd(n->launcher), .events = POLLIN };
		uint64_t now = clock_mono_us();
		struct launcher_event event;
		int rc;

		if (now >= until_us || poll(&fd, 1, (int)((until_us - now + 999) / 1000)) < 1)
			return;
		rc = launcher_next(n->launcher, &event);
		if (rc < 0) {
			ev_defer(loop, on_gone, loop);
			return;
		}
		if (rc > 0 && (others || event.id == *id))
			tell(loop, &event);
		else if (rc > 0)
			tell_later(loop, &event);
	}
}
