/* Signals as callbacks of the loop. */
#include "config.h"

#include "ev/ev.h"

#include <stdlib.h>

#include <event2/event.h>

#include "base/mem.h"

#include "ev_int.h"

struct ev_signal {
	struct ev_loop *loop;
	struct event *event;
	ev_signal_fn *fn;
	void *arg;
};

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct ev_signal *s = arg;
	struct ev_loop *loop = s->loop;
	s->fn(s->arg, (int)signo);
	ev_run_deferred(loop);
}

struct ev_signal *ev_signal_new(struct ev_loop *loop, int signo, ev_signal_fn *fn, void *arg)
{
	ev_assert_thread(loop);
	struct ev_signal *s = mem_alloc(sizeof(*s));
	*s = (struct ev_signal){ .loop = loop, .fn = fn, .arg = arg };
	s->event = evsignal_new(loop->base, signo, on_signal, s);
	if (!s->event || evsignal_add(s->event, NULL))
		abort();
	return s;
}

void ev_signal_free(struct ev_signal **s)
{
	if (!s || !*s)
		return;
	event_free((*s)->event);
	free(*s);
	*s = NULL;
}
