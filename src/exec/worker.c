/* exec: processes, and those of them that are kept for further calls.
 *
 * A process belongs to one run.  When the tool says `reuse`, the run gives it back at its last line, and it waits for
 * the next call of the same handler by the same tenant; it never serves two tenants, and never two calls at once.  It is
 * let go when it has worked long or often enough, when it has waited too long, when a secret has changed, when it says
 * something that nobody has asked for, and when it ends by itself. */
#include "config.h"

#include "exec_int.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/metric.h"
#include "ev/child.h"
#include "ev/ev.h"
#include "exec/exec.h"

#define IDLE_MAX 64                     /* processes that wait, of all tenants and tools; then the oldest goes */
#define IDLE_MS 60000                   /* how long one waits */
#define SURPLUS_MS 1000                 /* and one that is more than the tool keeps: the next burst of calls may be near */
#define LIFE_MS 600000                  /* how old one gets */
#define CALLS_MAX 1000                  /* how many calls it serves */
#define LEAVE_MS 1000                   /* from the end of its input to TERM */

enum proc_state { PROC_BUSY, PROC_IDLE, PROC_LEAVES };

struct exec_proc {
	struct list node;               /* in the workers' list, oldest first; on its own when it is not to be kept */
	struct exec_workers *workers;     /* NULL: it is not to be kept */
	struct ev_loop *loop;
	struct ev_child *child;
	enum proc_state state;
	int fds[3];                     /* our ends of its 0, 1, 2, while no run has them; else -1 */
	exec_ended_fn *ended; void *arg;        /* PROC_BUSY: the run */
	struct ev_child_usage usage;            /* while ended() runs */
	struct exec_key key;
	uint64_t born_us;
	unsigned calls;
	unsigned keep; bool surplus;    /* PROC_IDLE: how many of its kind are kept; there were as many before it */
	struct ev_timer *timer;
	struct ev_io *out, *diag;       /* PROC_IDLE, and diag also PROC_LEAVES */
};

struct exec_workers {
	struct ev_loop *loop;
	struct list procs;
	size_t nidle;
};

struct exec_workers *exec_workers_new(struct ev_loop *loop)
{
	struct exec_workers *w = mem_zalloc(sizeof(*w));

	w->loop = loop;
	list_init(&w->procs);
	return w;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void proc_free(struct exec_proc *p)
{
	list_unlink(&p->node);
	if (p->workers && p->state == PROC_IDLE)
		p->workers->nidle--;
	ev_timer_free(&p->timer);
	ev_io_free(&p->out);
	ev_io_free(&p->diag);
	for (int i = 0; i < 3; i++)
		close_fd(&p->fds[i]);
	free(p);
}

void exec_workers_free(struct exec_workers **w)
{
	if (!*w)
		return;
	LIST_FOREACH_SAFE(node, next, &(*w)->procs)
		proc_free(CONTAINER_OF(node, struct exec_proc, node));
	free(*w);
	*w = NULL;
}

/* --- one process --------------------------------------------------------------------------------- */

static void on_child_ended(void *arg, int status, const char *refused)
{
	struct exec_proc *p = arg;

	p->usage = ev_child_usage(p->child);
	p->child = NULL;
	if (p->state == PROC_BUSY)
		p->ended(p->arg, status, refused);
	proc_free(p);
}

int exec_proc_start(struct ev_loop *loop, const struct sandbox_policy *policy, exec_ended_fn *ended, void *arg,
		    struct exec_proc **ret, struct err *err)
{
	struct exec_proc *p = mem_zalloc(sizeof(*p));
	const struct ev_child_req req = { .policy = policy, .ended = on_child_ended, .arg = p };

	list_init(&p->node);
	p->loop = loop;
	p->ended = ended;
	p->arg = arg;
	p->born_us = ev_now_us(loop);
	int rc = ev_child_start(loop, &req, p->fds, &p->child, err);
	if (rc < 0)
		free(p);
	else
		*ret = p;
	return rc;
}

struct ev_child_usage exec_proc_usage(const struct exec_proc *p)
{
	return p->workers ? (struct ev_child_usage){ 0 } : p->usage;
}

void exec_proc_fds(struct exec_proc *p, int ret_fds[3])
{
	memcpy(ret_fds, p->fds, sizeof(p->fds));
	for (int i = 0; i < 3; i++)
		p->fds[i] = -1;
}

void exec_proc_stop(struct exec_proc *p, uint32_t term_ms)
{
	ev_child_stop(p->child, term_ms);
}

/* --- idle ones, and those that leave ------------------------------------------------------------- */

/* What it writes to stderr while nobody is there to hear it must not make it wait. */
static void on_diag(void *arg, bool readable, bool writable)
{
	struct exec_proc *p = arg;
	char buf[4096];

	if (read(p->fds[2], buf, sizeof(buf)) <= 0)
		ev_io_want(p->diag, false, false);      /* closed; its end is told by its pidfd */
}

static void on_leave_timer(void *arg)
{
	struct exec_proc *p = arg;

	ev_child_stop(p->child, EXEC_TERM_MS);
}

/* The end of its input says that nothing more comes. */
static void leave(struct exec_proc *p)
{
	if (p->workers && p->state == PROC_IDLE)
		p->workers->nidle--;
	p->state = PROC_LEAVES;
	ev_io_free(&p->out);
	close_fd(&p->fds[0]);
	ev_timer_free(&p->timer);
	p->timer = ev_timer_new(p->loop, on_leave_timer, p);
	ev_timer_start(p->timer, LEAVE_MS * 1000ull);
}

/* Silence is all that is asked of an idle one: a line now would be taken for an answer to the next call. */
static void on_out(void *arg, bool readable, bool writable)
{
	leave(arg);
}

static bool key_equal(const struct exec_key *a, const struct exec_key *b)
{
	return a->tenant_id == b->tenant_id && memcmp(a->handler, b->handler, sizeof(a->handler)) == 0;
}

static bool is_quiet(const struct exec_proc *p)
{
	struct pollfd fd = { .fd = p->fds[1], .events = POLLIN };

	return poll(&fd, 1, 0) == 0;
}

static bool is_worn(const struct exec_proc *p)
{
	return p->calls >= CALLS_MAX || ev_now_us(p->loop) - p->born_us >= LIFE_MS * 1000ull;
}

/* How many wait for this key's next call. */
static unsigned count_idle(const struct exec_workers *w, const struct exec_key *key)
{
	unsigned n = 0;

	LIST_FOREACH(node, &w->procs) {
		const struct exec_proc *p = CONTAINER_OF(node, struct exec_proc, node);
		if (p->state == PROC_IDLE && key_equal(&p->key, key))
			n++;
	}
	return n;
}

/* One more than is kept may go; by now it may be one of those that stay. */
static void on_idle_timer(void *arg)
{
	struct exec_proc *p = arg;

	if (!p->surplus || count_idle(p->workers, &p->key) > p->keep) {
		leave(p);
		return;
	}
	p->surplus = false;
	ev_timer_start(p->timer, (IDLE_MS - SURPLUS_MS) * 1000ull);
}

struct exec_proc *exec_workers_take(struct exec_workers *w, const struct exec_key *key, exec_ended_fn *ended, void *arg)
{
	if (!w)
		return NULL;
	LIST_FOREACH(node, &w->procs) {
		struct exec_proc *p = CONTAINER_OF(node, struct exec_proc, node);

		if (p->state != PROC_IDLE || !key_equal(&p->key, key))
			continue;
		if (p->key.secrets != key->secrets || is_worn(p) || !is_quiet(p)) {
			leave(p);
			continue;
		}
		w->nidle--;
		p->state = PROC_BUSY;
		p->ended = ended;
		p->arg = arg;
		ev_timer_free(&p->timer);
		ev_io_free(&p->out);
		ev_io_free(&p->diag);
		metric_inc(METRIC_workers_reused);
		return p;
	}
	return NULL;
}

void exec_workers_add(struct exec_workers *w, struct exec_proc *p, const struct exec_key *key)
{
	if (!w)
		return;
	p->workers = w;
	p->key = *key;
	list_push_back(&w->procs, &p->node);
}

static void drop_oldest(struct exec_workers *w)
{
	LIST_FOREACH(node, &w->procs) {
		struct exec_proc *p = CONTAINER_OF(node, struct exec_proc, node);
		if (p->state == PROC_IDLE) {
			leave(p);
			return;
		}
	}
}

void exec_workers_put(struct exec_proc *p, const int fds[3], unsigned keep)
{
	struct exec_workers *w = p->workers;

	memcpy(p->fds, fds, sizeof(p->fds));
	p->calls++;
	if (p->fds[2] >= 0) {
		p->diag = ev_io_new(p->loop, p->fds[2], on_diag, p);
		ev_io_want(p->diag, true, false);
	}
	if (!w || p->fds[0] < 0 || p->fds[1] < 0 || is_worn(p)) {
		leave(p);
		return;
	}
	p->keep = keep;
	p->surplus = count_idle(w, &p->key) >= keep;
	if (w->nidle == IDLE_MAX)
		drop_oldest(w);
	w->nidle++;
	p->state = PROC_IDLE;
	/* The one that has waited longest is the first to go. */
	list_unlink(&p->node);
	list_push_back(&w->procs, &p->node);
	p->out = ev_io_new(p->loop, p->fds[1], on_out, p);
	ev_io_want(p->out, true, false);
	p->timer = ev_timer_new(p->loop, on_idle_timer, p);
	ev_timer_start(p->timer, (p->surplus ? SURPLUS_MS : IDLE_MS) * 1000ull);
}
