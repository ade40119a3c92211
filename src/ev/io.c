/* Descriptors on the loop. */
#include "config.h"

#include "ev/ev.h"

#include <stdlib.h>

#include <event2/event.h>

#include "base/mem.h"

#include "ev_int.h"

struct ev_io {
	struct ev_loop *loop;
	struct event *read, *write; /* two, so that turning one on or off leaves the other alone */
	bool reading, writing;
	ev_io_fn *fn;
	void *arg;
};

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct ev_io *io = arg;
	struct ev_loop *loop = io->loop;
	io->fn(io->arg, what & EV_READ, what & EV_WRITE);
	ev_run_deferred(loop);
}

struct ev_io *ev_io_new(struct ev_loop *loop, int fd, ev_io_fn *fn, void *arg)
{
	ev_assert_thread(loop);
	struct ev_io *io = mem_alloc(sizeof(*io));
	*io = (struct ev_io){ .loop = loop, .fn = fn, .arg = arg };
	io->read = event_new(loop->base, fd, EV_READ | EV_PERSIST, on_event, io);
	io->write = event_new(loop->base, fd, EV_WRITE | EV_PERSIST, on_event, io);
	if (!io->read || !io->write)
		abort();
	return io;
}

static void toggle(struct event *ev, bool *on, bool want)
{
	if (*on == want)
		return;
	if (want ? event_add(ev, NULL) : event_del(ev))
		abort();        /* a closed descriptor: our bug */
	*on = want;
}

void ev_io_want(struct ev_io *io, bool read, bool write)
{
	toggle(io->read, &io->reading, read);
	toggle(io->write, &io->writing, write);
}

void ev_io_free(struct ev_io **io)
{
	if (!io || !*io)
		return;
	event_free((*io)->read);
	event_free((*io)->write);
	free(*io);
	*io = NULL;
}
