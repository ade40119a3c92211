/* The pool: processes, requests, and who is next.  A process is started by the first request that finds none, serves
 * the tenant of that request alone, and is killed when a request is cancelled or late, when it says what it should not,
 * and when another tenant needs its place.  Requests of a tenant wait in a queue of the tenant's; queues in which
 * somebody waits stand in a ring.  A worker that answers quickly has some of them at hand, behind the one that it works
 * on (decision 0148).  Loop thread; an end is told from timers, from what a worker says, or deferred, never by
 * worker_start(). */
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
	struct ev_timer *ahead;         /* looks whether somebody stands behind work that takes long */
	struct worker_counts counts;
	bool pushing, gone;             /* push_all() is due; and has only to free the pool */
};

/* Of a tenant that has requests. */
struct queue {
	struct list node;               /* in the ring, or alone */
	int64_t tenant_id;
	struct list jobs;               /* that wait here */
	unsigned njobs;                 /* all, whose queue this is */
	unsigned waiting;               /* here, or behind another one in a process */
	unsigned running;               /* processes at work */
	unsigned started;               /* starts of processes that it has not got back */
};

/* What a process was asked.  job NULL: nobody wants the answer any more. */
struct slot { struct worker_job *job; size_t answer_max; };

struct proc {
	struct list node;
	struct worker_pool *pool;
	struct ev_helper *helper;
	int fd;
	struct ev_io *io;
	bool ready, quick;              /* quick: its last answer came within WORKER_AHEAD_US */
	bool told;                      /* there is something in out since the last push */
	int64_t tenant_id;              /* the one that it serves */
	struct queue *queue;            /* of that tenant, while it is at work */
	struct slot slots[WORKER_AHEAD];        /* the first is at work, the others come behind it */
	unsigned n;                     /* of them; 0: it waits for one */
	uint64_t since_us;              /* the first is at work since then, or it waits */
	struct str out, in;
};

struct worker_job {
	struct list node;               /* in its queue while it waits there */
	struct worker_pool *pool;
	struct queue *queue;
	struct proc *proc;
	struct ev_timer *timer;
	struct str bytes;               /* of the request, until it is at work */
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
	if (q->njobs > 0 || q->running > 0 || q->started > 0)
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

/* It stands in its queue no more. */
static void leave_queue(struct worker_job *job)
{
	struct queue *q = job->queue;

	list_unlink(&job->node);
	if (list_empty(&q->jobs))
		list_unlink(&q->node);
}

/* It is at work, or at its end. */
static void stop_waiting(struct worker_job *job)
{
	job->queue->waiting--;
	job->pool->waiting--;
	metric_dec(METRIC_worker_waiting);
}

static void take_out(struct worker_job *job)
{
	leave_queue(job);
	stop_waiting(job);
}

/* It is nobody's any more: no process has it, and its queue did not know it as one that waits. */
static void detach(struct worker_job *job)
{
	struct queue *q = job->queue;

	job->queue = NULL;
	job->proc = NULL;
	q->njobs--;
	drop_queue(job->pool, q);
}

/* The end of a job that no process has and that waits nowhere. */
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

/* The one at work; NULL: there is none, or nobody wants it. */
static struct worker_job *job_of(const struct proc *p)
{
	return p->n > 0 ? p->slots[0].job : NULL;
}

/* What stands behind the first, in the order in which it came, is the next that anybody gets. */
static void take_back(struct proc *p)
{
	for (unsigned i = p->n; i-- > 1;) {
		struct worker_job *job = p->slots[i].job;

		if (!job)
			continue;
		p->slots[i].job = NULL;
		job->proc = NULL;
		list_push_front(&job->queue->jobs, &job->node);
		if (list_empty(&job->queue->node))
			list_push_back(&p->pool->ring, &job->queue->node);
		p->pool->counts.back++;
	}
}

/* It works no more. */
static void stop_work(struct proc *p)
{
	struct queue *q = p->queue;

	p->n = 0;
	p->queue = NULL;
	q->running--;
	metric_dec(METRIC_worker_running);
	drop_queue(p->pool, q);
}

/* The first of its jobs, if it has one, is the caller's to end, who has asked job_of() before. */
static void end_proc(struct proc *p)
{
	struct worker_pool *pool = p->pool;

	if (p->n == 0) {
		pool->nidle--;
	} else {
		take_back(p);
		stop_work(p);
	}
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

		if (p->n == 0)
			return p;
	}
	return NULL;
}

static void on_idle(void *arg)
{
	struct worker_pool *pool = arg;
	const uint64_t now = ev_now_us(pool->loop), most = WORKER_IDLE_MS * 1000ull;
	struct proc *p = longest_idle(pool);

	while (p && (now - p->since_us >= most || pool->nidle > WORKER_IDLE_MAX)) {
		end_proc(p);
		p = longest_idle(pool);
	}
	if (p)
		ev_timer_start(pool->idle, p->since_us + most - now);
}

/* It has answered all. */
static void rest(struct proc *p)
{
	struct worker_pool *pool = p->pool;

	stop_work(p);
	list_unlink(&p->node);
	list_push_back(&pool->procs, &p->node);
	pool->nidle++;
	if (pool->nidle > WORKER_IDLE_MAX || !ev_timer_armed(pool->idle))
		on_idle(pool);
}

/* The process is of no use any more, and so is what it works on. */
static void give_up(struct proc *p, enum err_code code, const char *where, const char *why)
{
	struct worker_pool *pool = p->pool;
	struct worker_job *job = job_of(p);
	struct err err;

	end_proc(p);
	if (!job) {
		dispatch(pool);
		return;
	}
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
	if (p->out.len == 0 && p->out.cap > READ_SIZE)
		str_fini(&p->out);
	ev_io_want(p->io, true, p->out.len > 0);
}

/* What one turn of the loop has for a process goes in one piece. */
static void push_all(void *arg)
{
	struct worker_pool *pool = arg;

	pool->pushing = false;
	if (pool->gone) {
		free(pool);
		return;
	}
	LIST_FOREACH(node, &pool->procs) {
		struct proc *p = CONTAINER_OF(node, struct proc, node);

		if (p->told)
			push(p);
		p->told = false;
	}
}

/* The first is done, and the next is at work. */
static void go_on(struct proc *p)
{
	struct worker_pool *pool = p->pool;

	p->since_us = ev_now_us(pool->loop);
	if (p->n == 1) {
		rest(p);
		return;
	}
	memmove(&p->slots[0], &p->slots[1], --p->n * sizeof(p->slots[0]));
	if (p->slots[0].job) {
		stop_waiting(p->slots[0].job);
		str_fini(&p->slots[0].job->bytes);
	} else if (!ev_timer_armed(pool->ahead)) {
		ev_timer_start(pool->ahead, WORKER_AHEAD_US);
	}
}

/* m points into what was read, which stays there, whatever becomes of the process in this turn. */
static void take_answer(struct proc *p, const struct worker_msg *m)
{
	struct worker_pool *pool = p->pool;
	struct worker_job *job = job_of(p);

	p->quick = ev_now_us(pool->loop) - p->since_us <= WORKER_AHEAD_US;
	if (m->last)
		end_proc(p);            /* what stood behind was not begun */
	else
		go_on(p);
	if (job)
		finish(job, m->op == WORKER_FAILED ? &m->err : NULL, m->p, m->len);
	else
		dispatch(pool);
}

/* Nothing may follow the last answer; a request may be answered right behind the first word. */
static bool is_expected(const struct proc *p, const struct worker_msg *m, size_t len)
{
	if (m->op == WORKER_READY)
		return !p->ready;
	return m->op != WORKER_RUN && p->ready && p->n > 0 && (p->n > 1 || p->in.len == WORKER_HEAD_SIZE + len);
}

/* A whole message; false: p is gone. */
static bool take_message(struct proc *p, size_t len)
{
	struct worker_msg m;

	if (worker_msg_decode(p->in.p + WORKER_HEAD_SIZE, len, &m) < 0 || !is_expected(p, &m, len)) {
		if (log_allow(&no_rules))
			log_warn(NULL, "worker says what it should not");
		give_up(p, ERR_UNREACHABLE, "worker", "its worker broke the rules");
		return false;
	}
	if (m.op == WORKER_READY)
		p->ready = true;
	else
		take_answer(p, &m);
	str_drop_front(&p->in, WORKER_HEAD_SIZE + len);
	if (p->in.len == 0 && p->in.cap > READ_SIZE)
		str_fini(&p->in);
	return p->helper != NULL;
}

static void look(struct proc *p)
{
	bool more = true;

	while (more && p->in.len >= WORKER_HEAD_SIZE) {
		const size_t len = worker_msg_length(p->in.p);
		const size_t most = WORKER_MSG_MORE + (p->n > 0 && p->ready ? p->slots[0].answer_max : 0);

		if (len > most) {
			give_up(p, ERR_LIMIT, "answer", "the answer is too large");
			return;
		}
		more = p->in.len >= WORKER_HEAD_SIZE + len && take_message(p, len);
	}
}

static void died(struct proc *p)
{
	if (p->n > 0 || !p->ready)
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

		if (p->n == 0 && p->tenant_id == tenant_id)
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

/* The one that has least to do of those behind whose work a request may stand; *ret NULL: there is none.  While another
 * tenant waits for a place, none is kept from it that way. */
static struct proc *ahead_for(const struct worker_pool *pool, const struct worker_job *job)
{
	const uint64_t now = ev_now_us(pool->loop);
	struct proc *best = NULL;

	if (job->bytes.len > WORKER_AHEAD_BYTES || (pool->nprocs >= WORKER_MAX && pool->ring.next != pool->ring.prev))
		return NULL;
	LIST_FOREACH(node, &pool->procs) {
		struct proc *p = CONTAINER_OF(node, struct proc, node);

		if (p->tenant_id == job->req.tenant_id && p->n < WORKER_AHEAD && p->quick && job_of(p) &&
		    now - p->since_us <= WORKER_AHEAD_US && (!best || p->n < best->n))
			best = p;
	}
	return best;
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

static void tell(struct worker_job *job, struct proc *p)
{
	struct worker_pool *pool = p->pool;
	const uint64_t now = ev_now_us(pool->loop);
	struct worker_msg m = { .op = WORKER_RUN, .memory = job->req.memory, .answer_max = job->req.answer_max,
				.time_us = job->req.deadline_us > now ? job->req.deadline_us - now : 0,
				.p = job->bytes.p, .len = job->bytes.len };

	m.brisk_us = brisk_us(job->queue, m.time_us);
	memcpy(m.name, job->name, sizeof(m.name));
	worker_msg_encode(&m, &p->out);
	p->told = true;
	if (!pool->pushing)
		ev_at_turn_end(pool->loop, push_all, pool);
	pool->pushing = true;
}

/* To one that rests, or behind what it works on. */
static void give(struct worker_job *job, struct proc *p)
{
	struct worker_pool *pool = p->pool;
	struct queue *q = job->queue;

	tell(job, p);
	leave_queue(job);
	job->proc = p;
	p->slots[p->n++] = (struct slot){ job, job->req.answer_max };
	if (p->n > 1) {
		pool->counts.ahead++;
		if (!ev_timer_armed(pool->ahead))
			ev_timer_start(pool->ahead, WORKER_AHEAD_US);
		return;
	}
	stop_waiting(job);
	str_fini(&job->bytes);
	p->queue = q;
	p->since_us = ev_now_us(pool->loop);
	q->running++;
	metric_inc(METRIC_worker_running);
	pool->nidle--;
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

/* Each tenant in turn, as long as there are workers; one that has its share waits for its own, or behind what they
 * do. */
static void dispatch(struct worker_pool *pool)
{
	struct list *node = pool->ring.next;

	while (node != &pool->ring) {
		struct queue *q = CONTAINER_OF(node, struct queue, node);
		struct worker_job *job = CONTAINER_OF(q->jobs.next, struct worker_job, node);
		const bool may = may_begin(pool, q, job);
		struct proc *p = NULL;
		struct err err;

		node = node->next;
		if (may && get_proc(pool, q, &p, &err) < 0) {
			fail_start(job, &err);
			node = pool->ring.next;
			continue;
		}
		if (!p)
			p = ahead_for(pool, job);
		if (!p && may)
			return;
		if (!p)
			continue;
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

/* Whoever stands behind work that takes long waits for the next process instead; the answers that come all the same are
 * nobody's, and a process that works on such a one for long ends. */
static void on_ahead(void *arg)
{
	struct worker_pool *pool = arg;
	const uint64_t now = ev_now_us(pool->loop);
	bool more = false;

	LIST_FOREACH_SAFE(node, next, &pool->procs) {
		struct proc *p = CONTAINER_OF(node, struct proc, node);

		if (p->n == 0 || (p->n == 1 && job_of(p)))
			continue;
		if (now - p->since_us < WORKER_AHEAD_US) {
			more = true;
		} else if (job_of(p)) {
			p->quick = false;
			take_back(p);
		} else {
			metric_inc(METRIC_worker_killed);
			end_proc(p);
		}
	}
	if (more)
		ev_timer_start(pool->ahead, WORKER_AHEAD_US);
	dispatch(pool);
}

/* Of one that stands behind another. */
static void forget_slot(struct worker_job *job)
{
	struct proc *p = job->proc;

	for (unsigned i = 1; i < p->n; i++)
		if (p->slots[i].job == job)
			p->slots[i].job = NULL;
	job->proc = NULL;
	stop_waiting(job);
}

static void on_deadline(void *arg)
{
	struct worker_job *job = arg;
	struct proc *p = job->proc;
	struct err err;

	if (p && job_of(p) == job) {
		metric_inc(METRIC_worker_killed);
		give_up(p, ERR_TIMEOUT, "", "it took too long");
		return;
	}
	metric_inc(METRIC_worker_waited_too_long);
	if (p)
		forget_slot(job);
	else
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
	job->queue->njobs++;
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
	if (p && job_of(p) == job) {
		metric_inc(METRIC_worker_killed);
		end_proc(p);
	} else if (p) {
		forget_slot(job);
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

struct worker_counts worker_pool_counts(const struct worker_pool *pool)
{
	return pool->counts;
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
	pool->ahead = ev_timer_new(loop, on_ahead, pool);
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
		struct worker_job *job = job_of(p);

		end_proc(p);                    /* what stood behind it is in its queue again */
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
	ev_timer_free(&pool->ahead);
	pool->gone = true;
	if (!pool->pushing)             /* else push_all() does */
		free(pool);
}
