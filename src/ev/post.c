/* The one door for other threads: a queue under a lock and one eventfd that wakes the loop. */
#include "config.h"

#include "ev/ev.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ev_int.h"

void ev_post(struct ev_loop *loop, ev_fn *fn, void *arg)
{
	struct ev_post *p = &loop->post;
	pthread_mutex_lock(&p->lock);
	bool first = p->queue.len == 0;
	ev_queue_push(&p->queue, fn, arg);
	pthread_mutex_unlock(&p->lock);
	if (first) {
		uint64_t one = 1;

		/* Else it fails only when a wake-up is pending anyway. */
		while (write(p->fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
}

/* Take all that waits, by swapping the two queues.  False when nothing did. */
static bool take(struct ev_post *p)
{
	pthread_mutex_lock(&p->lock);
	struct ev_queue full = p->queue;
	p->queue = p->taken;
	p->taken = full;
	pthread_mutex_unlock(&p->lock);
	return p->taken.len > 0;
}

static void run_taken(struct ev_loop *loop)
{
	struct ev_post *p = &loop->post;
	for (size_t i = 0; i < p->taken.len; i++) {
		p->taken.v[i].fn(p->taken.v[i].arg);
		ev_run_deferred(loop);
	}
	p->taken.len = 0;
}

static void on_posted(void *arg, bool readable, bool writable)
{
	struct ev_loop *loop = arg;
	uint64_t count;
	/* Before the queue is taken, else a wake-up between the two would be lost. */
	(void)!read(loop->post.fd, &count, sizeof(count));
	if (take(&loop->post))
		run_taken(loop);
}

void ev_post_init(struct ev_loop *loop)
{
	struct ev_post *p = &loop->post;
	pthread_mutex_init(&p->lock, NULL);
	p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->fd < 0)
		abort();
	p->io = ev_io_new(loop, p->fd, on_posted, loop);
	ev_io_want(p->io, true, false);
}

void ev_post_run(struct ev_loop *loop)
{
	while (take(&loop->post))
		run_taken(loop);
}

void ev_post_fini(struct ev_loop *loop)
{
	struct ev_post *p = &loop->post;
	ev_io_free(&p->io);
	close(p->fd);
	ev_queue_fini(&p->queue);
	ev_queue_fini(&p->taken);
	pthread_mutex_destroy(&p->lock);
}
