/* The pool: processes, requests, and who is next.  A process is started by the first request that finds none, serves
 * the tenant of that request alone, and is killed when a request is cancelled or late, when it says what it should not,
 * and when another tenant needs its place.  Requests of a tenant wait in a queue of the tenant's; queues in which
 * somebody waits stand in a ring.  Loop thread; an end is told from timers, from what a worker says, or deferred, never
 * by worker_start(). */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "ev/helper.h"
#include "worker/proto.h"
#include "worker/worker.h"

#define READ_SIZE 65536                 /* bytes of one worker in one turn of the loop */
#define PROGRAM "toolcrib-worker"

struct worker_pool {
	struct ev_loop *loop;
	unsigned share;                 /* of one tenant */
	struct list procs;              /* the one that has waited longest first */
	unsigned nprocs, nidle;
	struct map *queues;             /* struct queue by tenant */
	struct list ring;               /* of the queues in which somebody waits, the next one first */
	unsigned waiting;
	struct ev_timer *idle;          /* the first of those that wait has waited long enough */
	struct ev_timer *starts;        /* each tenant gets one start back; runs while one lacks any */
};

/* Of a tenant that has requests. */
struct queue {
	struct list node;               /* in the ring, or alone */
	int64_t tenant_id;
	struct list jobs;               /* that wait */
	unsigned waiting, running;
	unsigned started;               /* starts of processes that it has not got back */
};

struct proc {
	struct list node;
	struct worker_pool *pool;
	struct ev_helper *helper;
	int fd;
	struct ev_io *io;
	bool ready;
	int64_t tenant_id;              /* the one that it serves */
	struct worker_job *job;         /* NULL: it waits for one */
	uint64_t idle_us;               /* since then */
	struct str out, in;
};

struct worker_job {
	struct list node;               /* in its queue while it waits */
	struct worker_pool *pool;
	struct queue *queue;
	struct proc *proc;
	struct ev_timer *timer;
	struct str bytes;               /* of the request */
	struct worker_req req;          /* name, p and len are not kept */
	char name[WORKER_NAME_SIZE];
	bool held_back;                 /* it was counted as such */
	bool dropped;                   /* its end is on its way, and nobody wants it any more */
	struct err err;                 /* of a start that failed */
};

static struct log_site no_start, no_rules;      /* one line for many of their kind */

static void dispatch(struct worker_pool *pool);

/* --- jobs */

static void drop_queue(struct worker_pool *pool, struct queue *q)
{
	if (q->waiting > 0 || q->running > 0 || q->started > 0)
		return;
	map_del_u64(pool->queues, (uint64_t)q->tenant_id);
	free(q);
}

static struct queue *queue_of(struct worker_pool *pool, int64_t tenant_id)
{
	struct queue *q = map_get_u64(pool->queues, (uint64_t)tenant_id);

	if (q)
		return q;
	q = mem_zalloc(sizeof(*q));
	q->tenant_id = tenant_id;
	list_init(&q->node);
	list_init(&q->jobs);
	map_set_u64(pool->queues, (uint64_t)tenant_id, q);
	return q;
}

static void free_job(struct worker_job *job)
{
	ev_timer_free(&job->timer);
	str_fini(&job->bytes);
	free(job);
}

/* It waits no more. */
static void take_out(struct worker_job *job)
{
	struct queue *q = job->queue;

	list_unlink(&job->node);
	q->waiting--;
	job->pool->waiting--;
	metric_dec(METRIC_worker_waiting);
	if (q->waiting == 0)
		list_unlink(&q->node);
}

/* It is nobody's any more: not the queue's, not a process's. */
static void detach(struct worker_job *job)
{
	struct worker_pool *pool = job->pool;
	struct queue *q = job->queue;

	job->queue = NULL;
	if (job->proc) {
		job->proc->job = NULL;
		job->proc = NULL;
		q->running--;
		metric_dec(METRIC_worker_running);
	}
	drop_queue(pool, q);
}

/* The end of a job, whose process, if it has one, is gone or free. */
static void finish(struct worker_job *job, const struct err *err, const char *p, size_t len)
{
	struct worker_pool *pool = job->pool;

	detach(job);
	job->req.ended(job->req.arg, err, p, len);
	free_job(job);
	dispatch(pool);
}

static void give_failure(void *arg)
{
	struct worker_job *job = arg;

	if (!job->dropped)
		job->req.ended(job->req.arg, &job->err, NULL, 0);
	free_job(job);
}

/* --- processes */

static void free_proc(void *arg)
{
	struct proc *p = arg;

	ev_io_free(&p->io);
	close(p->fd);
	str_fini(&p->out);
	str_fini(&p->in);
	free(p);
}

/* Its job, if it has one, is the caller's to end. */
static void end_proc(struct proc *p)
{
	struct worker_pool *pool = p->pool;

	if (!p->job)
		pool->nidle--;
	pool->nprocs--;
	list_unlink(&p->node);
	ev_io_want(p->io, false, false);
	ev_helper_kill(&p->helper);
	ev_defer(pool->loop, free_proc, p);
}

/* Oldest first, so that the first one without a job has waited longest. */
static struct proc *longest_idle(const struct worker_pool *pool)
{
	LIST_FOREACH(node, &pool->procs) {
		struct proc *p = CONTAINER_OF(node, struct proc, node);

		if (!p->job)
			return p;
	}
	return NULL;
}

static void on_idle(void *arg)
{
	struct worker_pool *pool = arg;
	const uint64_t now = ev_now_us(pool->loop), most = WORKER_IDLE_MS * 1000ull;
	struct proc *p = longest_idle(pool);

	while (p && (now - p->idle_us >= most || pool->nidle > WORKER_IDLE_MAX)) {
		end_proc(p);
		p = longest_idle(pool);
	}
	if (p)
		ev_timer_start(pool->idle, p->idle_us + most - now);
}

/* It has answered. */
static void rest(struct proc *p)
{
	struct worker_pool *pool = p->pool;

	list_unlink(&p->node);
	list_push_back(&pool->procs, &p->node);
	p->idle_us = ev_now_us(pool->loop);
	pool->nidle++;
	if (pool->nidle > WORKER_IDLE_MAX || !ev_timer_armed(pool->idle))
		on_idle(pool);
}

/* The process is of no use any more, and so is what it was asked. */
static void give_up(struct proc *p, enum err_code code, const char *where, const char *why)
{
	struct worker_job *job = p->job;
	struct err err;

	end_proc(p);
	if (!job)
		return;
	(void)err_set(&err, code, where, "%s", why);
	finish(job, &err, NULL, 0);
}

static void push(struct proc *p)
{
	ssize_t n = p->out.len ? send(p->fd, p->out.p, p->out.len, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

	if (n > 0)
		str_drop_front(&p->out, (size_t)n);
	/* Where it cannot be told anything its end is about to be read. */
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		str_reset(&p->out);
	ev_io_want(p->io, true, p->out.len > 0);
}

static void take_answer(struct proc *p, const struct worker_msg *m)
{
	struct worker_job *job = p->job;
	struct str in = p->in;          /* what m points into */

	str_init(&p->in, 0);
	p->job = NULL;
	job->proc = NULL;
	job->queue->running--;
	metric_dec(METRIC_worker_running);
	rest(p);
	if (m->last && p->helper)
		end_proc(p);
	finish(job, m->op == WORKER_FAILED ? &m->err : NULL, m->p, m->len);
	str_fini(&in);
}

/* Nothing may follow an answer; its request may be answered right behind the first word. */
static bool is_expected(const struct proc *p, const struct worker_msg *m, size_t len)
{
	if (m->op == WORKER_READY)
		return !p->ready;
	return m->op != WORKER_RUN && p->ready && p->job && p->in.len == WORKER_HEAD_SIZE + len;
}

/* A whole message; false: it was the last one, or p is gone. */
static bool take_message(struct proc *p, size_t len)
{
	struct worker_msg m;

	if (worker_msg_decode(p->in.p + WORKER_HEAD_SIZE, len, &m) < 0 || !is_expected(p, &m, len)) {
		if (log_allow(&no_rules))
			log_warn(NULL, "worker says what it should not");
		give_up(p, ERR_UNREACHABLE, "worker", "its worker broke the rules");
		return false;
	}
	if (m.op != WORKER_READY) {
		take_answer(p, &m);
		return false;
	}
	p->ready = true;
	str_drop_front(&p->in, WORKER_HEAD_SIZE + len);
	return true;
}

static void look(struct proc *p)
{
	bool more = true;

	while (more && p->in.len >= WORKER_HEAD_SIZE) {
		const size_t len = worker_msg_length(p->in.p);
		const size_t most = WORKER_MSG_MORE + (p->job && p->ready ? p->job->req.answer_max : 0);

		if (len > most) {
			give_up(p, ERR_LIMIT, "answer", "the answer is too large");
			return;
		}
		more = p->in.len >= WORKER_HEAD_SIZE + len && take_message(p, len);
	}
}

static void died(struct proc *p)
{
	if (p->job || !p->ready)
		metric_inc(METRIC_worker_died);
	if (!p->ready && log_allow(&no_start))
		log_err(NULL, "worker cannot be started program=" PROGRAM);
	give_up(p, ERR_UNREACHABLE, "worker", p->ready ? "its worker died: of want of memory, or of a fault"
		: "its worker could not be started");
}

static void on_io(void *arg, bool readable, bool writable)
{
	struct proc *p = arg;
	char buf[READ_SIZE];
	ssize_t n;

	if (!p->helper)                 /* it was ended in this turn */
		return;
	if (writable)
		push(p);
	if (!readable)
		return;
	n = recv(p->fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		died(p);
		return;
	}
	str_put(&p->in, buf, (size_t)n);
	look(p);
}

/* The one place where workers begin. */
static int start_proc(struct worker_pool *pool, struct queue *q, struct proc **ret, struct err *err)
{
	struct proc *p = mem_zalloc(sizeof(*p));
	int rc;

	p->pool = pool;
	p->tenant_id = q->tenant_id;
	rc = ev_helper_start(pool->loop, LAUNCHER_WORKER, NULL, &p->fd, &p->helper, err);
	if (rc < 0) {
		free(p);
		return rc;
	}
	(void)fcntl(p->fd, F_SETFL, O_NONBLOCK);
	metric_inc(METRIC_worker_started);
	q->started++;
	if (!ev_timer_armed(pool->starts))
		ev_timer_start(pool->starts, WORKER_START_MS * 1000ull);
	list_push_back(&pool->procs, &p->node);
	pool->nprocs++;
	pool->nidle++;
	p->io = ev_io_new(pool->loop, p->fd, on_io, p);
	*ret = p;
	return 0;
}

/* --- who is next */

/* The last one, whose caches are warm. */
static struct proc *idle_for(const struct worker_pool *pool, int64_t tenant_id)
{
	for (struct list *node = pool->procs.prev; node != &pool->procs; node = node->prev) {
		struct proc *p = CONTAINER_OF(node, struct proc, node);

		if (!p->job && p->tenant_id == tenant_id)
			return p;
	}
	return NULL;
}

/* A process for this tenant; *ret NULL: all are at work. */
static int get_proc(struct worker_pool *pool, struct queue *q, struct proc **ret, struct err *err)
{
	struct proc *other;

	*ret = idle_for(pool, q->tenant_id);
	if (*ret)
		return 0;
	other = pool->nprocs >= WORKER_MAX ? longest_idle(pool) : NULL;
	if (other)
		end_proc(other);
	return pool->nprocs < WORKER_MAX ? start_proc(pool, q, ret, err) : 0;
}

/* Whether the first of those that wait may have a process by now: one that rests, or one more. */
static bool may_begin(const struct worker_pool *pool, const struct queue *q, struct worker_job *first)
{
	if (q->running >= pool->share)
		return false;
	if (q->started < WORKER_TENANT_STARTS || idle_for(pool, q->tenant_id))
		return true;
	if (!first->held_back)
		metric_inc(METRIC_worker_held_back);
	first->held_back = true;
	return false;
}

/* Whose processes had to be started anew lately has less of it, and so has what has little time left. */
static uint64_t brisk_us(const struct queue *q, uint64_t time_us)
{
	const uint64_t most = WORKER_BRISK_US / (1 + q->started), part = time_us / WORKER_BRISK_PART;

	return part < most ? part : most;
}

static void give(struct worker_job *job, struct proc *p)
{
	const uint64_t now = ev_now_us(job->pool->loop);
	struct worker_msg m = { .op = WORKER_RUN, .memory = job->req.memory, .answer_max = job->req.answer_max,
				.time_us = job->req.deadline_us > now ? job->req.deadline_us - now : 0,
				.p = job->bytes.p, .len = job->bytes.len };

	m.brisk_us = brisk_us(job->queue, m.time_us);

	memcpy(m.name, job->name, sizeof(m.name));
	take_out(job);
	job->queue->running++;
	metric_inc(METRIC_worker_running);
	job->proc = p;
	p->job = job;
	p->pool->nidle--;
	worker_msg_encode(&m, &p->out);
	str_fini(&job->bytes);
	push(p);
}

/* Not started: no job waits for what comes with the next one. */
static void fail_start(struct worker_job *job, const struct err *err)
{
	if (log_allow(&no_start))
		log_err(NULL, "worker cannot be started program=" PROGRAM " reason=%s", err->msg);
	(void)err_set(&job->err, ERR_UNREACHABLE, "worker", "its worker could not be started");
	take_out(job);
	ev_timer_stop(job->timer);
	detach(job);
	ev_defer(job->pool->loop, give_failure, job);
}

unsigned worker_pool_running(const struct worker_pool *pool, int64_t tenant_id)
{
	const struct queue *q = map_get_u64(pool->queues, (uint64_t)tenant_id);

	return q ? q->running : 0;
}

/* Each tenant in turn, as long as there are workers; one that has its share waits for its own. */
static void dispatch(struct worker_pool *pool)
{
	struct list *node = pool->ring.next;

	while (node != &pool->ring) {
		struct queue *q = CONTAINER_OF(node, struct queue, node);
		struct worker_job *job = CONTAINER_OF(q->jobs.next, struct worker_job, node);
		struct proc *p = NULL;
		struct err err;

		node = node->next;
		if (!may_begin(pool, q, job))
			continue;
		if (get_proc(pool, q, &p, &err) < 0) {
			fail_start(job, &err);
			node = pool->ring.next;
			continue;
		}
		if (!p)
			return;
		list_unlink(&q->node);
		list_push_back(&pool->ring, &q->node);  /* behind all others; give() takes it out with its last job */
		give(job, p);
		node = pool->ring.next;
	}
}

/* Each tenant that lacks one gets a start back. */
static void on_starts(void *arg)
{
	struct worker_pool *pool = arg;
	bool more = false;
	const void *key;
	size_t len;
	void *value;

	for (size_t it = 0; map_next(pool->queues, &it, &key, &len, &value);) {
		struct queue *q = value;

		if (q->started > 0)
			q->started--;
		more = more || q->started > 0;
		drop_queue(pool, q);
	}
	if (more)
		ev_timer_start(pool->starts, WORKER_START_MS * 1000ull);
	dispatch(pool);
}

/* --- requests */

static void on_deadline(void *arg)
{
	struct worker_job *job = arg;
	struct proc *p = job->proc;
	struct err err;

	if (p) {
		metric_inc(METRIC_worker_killed);
		give_up(p, ERR_TIMEOUT, "", "it took too long");
		return;
	}
	metric_inc(METRIC_worker_waited_too_long);
	take_out(job);
	(void)err_set(&err, ERR_TIMEOUT, "wait", "no worker was free in time");
	finish(job, &err, NULL, 0);
}

static int check(const struct worker_pool *pool, const struct worker_req *req, struct err *err)
{
	const struct queue *q = map_get_u64(pool->queues, (uint64_t)req->tenant_id);
	const unsigned mine = q ? q->waiting : 0;

	if (req->len > WORKER_REQUEST_MAX - WORKER_MSG_MORE)
		return err_set(err, ERR_LIMIT, "request", "a request has at most %u bytes, this has %zu",
			       WORKER_REQUEST_MAX - WORKER_MSG_MORE, req->len);
	if (req->answer_max > WORKER_ANSWER_MAX - WORKER_MSG_MORE)
		return err_set(err, ERR_LIMIT, "answer", "an answer has at most %u bytes",
			       WORKER_ANSWER_MAX - WORKER_MSG_MORE);
	/* Who has nothing that waits may begin, however much of others does. */
	if (mine < WORKER_TENANT_WAIT_MAX && (mine == 0 || pool->waiting < WORKER_WAIT_MAX))
		return 0;
	metric_inc(METRIC_worker_refused);
	return err_set(err, ERR_BUSY, "worker", "too many requests wait for a worker");
}

int worker_start(struct worker_pool *pool, const struct worker_req *req, struct worker_job **ret, struct err *err)
{
	const uint64_t now = ev_now_us(pool->loop);
	struct worker_job *job;
	int rc = check(pool, req, err);

	if (rc < 0)
		return rc;
	job = mem_zalloc(sizeof(*job));
	job->pool = pool;
	job->req = *req;
	if (!req->memory)
		job->req.memory = WORKER_MEMORY_DEFAULT;
	(void)snprintf(job->name, sizeof(job->name), "%s", req->name);
	str_put(&job->bytes, req->p, req->len);
	job->queue = queue_of(pool, req->tenant_id);
	job->timer = ev_timer_new(pool->loop, on_deadline, job);
	ev_timer_start(job->timer, req->deadline_us > now ? req->deadline_us - now : 0);
	list_push_back(&job->queue->jobs, &job->node);
	job->queue->waiting++;
	pool->waiting++;
	metric_inc(METRIC_worker_waiting);
	metric_inc(METRIC_worker_requests);
	if (job->queue->running >= pool->share)
		metric_inc(METRIC_worker_tenant_full);
	if (list_empty(&job->queue->node))
		list_push_back(&pool->ring, &job->queue->node);
	*ret = job;
	if (req->deadline_us > now)
		dispatch(pool);
	return 0;
}

void worker_cancel(struct worker_job **jobp)
{
	struct worker_job *job = *jobp;
	struct worker_pool *pool;
	struct proc *p;

	if (!job)
		return;
	*jobp = NULL;
	if (!job->queue) {              /* it was not started */
		job->dropped = true;
		return;
	}
	pool = job->pool;
	p = job->proc;
	if (p) {
		metric_inc(METRIC_worker_killed);
		end_proc(p);
	} else {
		take_out(job);
	}
	detach(job);
	free_job(job);
	dispatch(pool);
}

/* --- the pool */

unsigned worker_share(unsigned processors)
{
	return processors < WORKER_TENANT_LEAST ? WORKER_TENANT_LEAST :
		processors > WORKER_TENANT_MAX ? WORKER_TENANT_MAX : processors;
}

unsigned worker_pool_share(const struct worker_pool *pool)
{
	return pool->share;
}

struct worker_pool *worker_pool_new(struct ev_loop *loop, unsigned share)
{
	struct worker_pool *pool = mem_zalloc(sizeof(*pool));

	pool->loop = loop;
	pool->share = share;
	list_init(&pool->procs);
	list_init(&pool->ring);
	pool->queues = map_new();
	pool->idle = ev_timer_new(loop, on_idle, pool);
	pool->starts = ev_timer_new(loop, on_starts, pool);
	return pool;
}

void worker_pool_free(struct worker_pool **poolp)
{
	struct worker_pool *pool = *poolp;
	const void *key;
	size_t len;
	void *value;

	if (!pool)
		return;
	*poolp = NULL;
	LIST_FOREACH_SAFE(node, next, &pool->procs) {
		struct proc *p = CONTAINER_OF(node, struct proc, node);
		struct worker_job *job = p->job;

		end_proc(p);
		if (job) {
			detach(job);
			free_job(job);
		}
	}
	for (size_t it = 0; map_next(pool->queues, &it, &key, &len, &value);) {
		struct queue *q = value;

		LIST_FOREACH_SAFE(node, next, &q->jobs) {
			struct worker_job *job = CONTAINER_OF(node, struct worker_job, node);

			take_out(job);
			free_job(job);
		}
		free(q);
	}
	map_free(&pool->queues);
	ev_timer_free(&pool->idle);
	ev_timer_free(&pool->starts);
	free(pool);
}
