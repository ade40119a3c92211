/* exec, the run: a process, started or taken from those that wait, what is written to it and read from it, and its end.
 * Loop thread.  Input and output are bounded; the end of the process is the end of the run, whatever its pipes do; the
 * first thing that goes wrong decides the outcome. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/secrets.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/again.h"
#include "ev/child.h"
#include "ev/ev.h"
#include "exec/exec.h"
#include "json/json.h"
#include "keys/secrets.h"
#include "sandbox/policy.h"

#include "exec_int.h"

/* --- stderr */

/* What a failed call shows of stderr. */

#define TAIL_LINES 20
#define TAIL_SHOWN 4096                 /* in at most this many bytes */

/* The start of what is shown of stderr: the last lines, whole. */
static const char *last_lines(const struct str *tail, size_t max)
{
	const char *end = tail->p + tail->len, *p = end;
	unsigned lines = 0;

	if (p > tail->p && p[-1] == '\n')
		p--;
	while (p > tail->p && (size_t)(end - p) < max) {
		if (p[-1] == '\n' && ++lines == TAIL_LINES)
			break;
		p--;
	}
	/* Cut inside a line: begin with the next one, if there is one. */
	if (p > tail->p && p[-1] != '\n') {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		if (nl && nl + 1 < end)
			p = nl + 1;
	}
	return p;
}

/* Line by line, so that line breaks stay and other control bytes show as escapes. */
static void exec_put_tail(const struct str *tail, struct str *out)
{
	char shown[TAIL_SHOWN * 4 + 1];

	if (tail->len == 0)
		return;
	const char *end = tail->p + tail->len;
	for (const char *p = last_lines(tail, TAIL_SHOWN); p < end; ) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		const char *stop = nl ? nl : end;
		text_printable(p, (size_t)(stop - p), shown, sizeof(shown));
		str_printf(out, "\n%s", shown);
		p = stop + 1;
	}
}

/* --- processes */

/* Processes, and those of them that are kept for further calls.
 *
 * A process belongs to one run.  When the tool says `reuse`, the run gives it back at its last line, and it waits for
 * the next call of the same handler by the same tenant; it never serves two tenants, and never two calls at once.  It
 * is let go when it has worked long or often enough, when it has waited too long, when a secret has changed, when it
 * says something that nobody has asked for, and when it ends by itself. */

#define EXEC_TERM_MS 2000               /* between TERM and KILL (SEC S-513) */
struct exec_proc;
struct exec_pipe { int fd; struct ev_io *io; };  /* io NULL: nothing has been awaited of it yet */
struct exec_key {                       /* whom a kept process may serve */
	uint8_t handler[32];
	int64_t tenant_id;
	uint64_t secrets;               /* secret_source.version() at its start */
};
typedef void exec_ended_fn(void *arg, int status, const char *refused); /* as of ev_child; *proc is gone after it */

#define IDLE_MAX 64                     /* processes that wait, of all tenants and tools; then the oldest goes */
#define IDLE_MS 60000                   /* how long one waits */
#define SURPLUS_MS 1000                 /* and one that is more than the tool keeps: the next burst of calls may be
					 * near */
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
	struct exec_pipe pipes[3];      /* our ends of its 0, 1, 2, while no run has them; else -1 */
	exec_ended_fn *ended; void *arg;        /* PROC_BUSY: the run */
	struct ev_child_usage usage;            /* while ended() runs, as is why */
	const char *why;
	struct exec_key key;
	uint64_t born_us;
	unsigned calls;
	unsigned keep; bool surplus;    /* PROC_IDLE: how many of its kind are kept; there were as many before it */
	struct ev_timer *timer;
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

static void pipe_close(struct exec_pipe *p)
{
	ev_io_free(&p->io);
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

static void proc_free(struct exec_proc *p)
{
	list_unlink(&p->node);
	if (p->workers && p->state == PROC_IDLE)
		p->workers->nidle--;
	ev_timer_free(&p->timer);
	for (int i = 0; i < 3; i++)
		pipe_close(&p->pipes[i]);
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

/* --- one process */

static void on_child_ended(void *arg, int status, const char *refused)
{
	struct exec_proc *p = arg;

	p->usage = ev_child_usage(p->child);
	p->why = ev_child_why(p->child);
	p->child = NULL;
	if (p->state == PROC_BUSY)
		p->ended(p->arg, status, refused);
	proc_free(p);
}

static int exec_proc_start(struct ev_loop *loop, const struct sandbox_policy *policy, int64_t tenant_id,
			   exec_ended_fn *ended, void *arg, struct exec_proc **ret, struct err *err)
{
	struct exec_proc *p = mem_zalloc(sizeof(*p));
	const struct ev_child_req req = { .policy = policy, .number = ev_child_number(tenant_id),
					   .ended = on_child_ended, .arg = p };

	list_init(&p->node);
	p->loop = loop;
	p->ended = ended;
	p->arg = arg;
	p->born_us = ev_now_us(loop);
	int fds[3], rc = ev_child_start(loop, &req, fds, &p->child, err);
	if (rc < 0) {
		free(p);
		return rc;
	}
	for (int i = 0; i < 3; i++)
		p->pipes[i].fd = fds[i];
	*ret = p;
	return 0;
}

static struct ev_child_usage exec_proc_usage(const struct exec_proc *p)
{
	return p->workers ? (struct ev_child_usage){ 0 } : p->usage;
}

/* Our end of its 0, 1 or 2; taken by the caller. */
static struct exec_pipe exec_proc_pipe(struct exec_proc *p, int i)
{
	struct exec_pipe pipe = p->pipes[i];

	p->pipes[i] = (struct exec_pipe){ -1, NULL };
	return pipe;
}

/* What there is to read is fn's, whoever had it before. */
static void pipe_hear(struct exec_pipe *p, struct ev_loop *loop, ev_io_fn *fn, void *arg)
{
	if (p->fd < 0)
		return;
	if (p->io)
		ev_io_hand(p->io, fn, arg);
	else
		p->io = ev_io_new(loop, p->fd, fn, arg);
	ev_io_want(p->io, true, false);
}

/* In ended() alone: what it used for its one run; nothing of one that may have served others as well. */
static void exec_proc_stop(struct exec_proc *p, uint32_t term_ms)
{
	ev_child_stop(p->child, term_ms);
}

/* --- idle ones, and those that leave */

/* What it writes to stderr while nobody is there to hear it must not make it wait. */
static void on_diag(void *arg, bool readable, bool writable)
{
	struct exec_proc *p = arg;
	char buf[4096];

	if (read(p->pipes[2].fd, buf, sizeof(buf)) <= 0)
		ev_io_want(p->pipes[2].io, false, false);       /* closed; its end is told by its pidfd */
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
	ev_io_free(&p->pipes[1].io);
	pipe_close(&p->pipes[0]);
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
	struct pollfd fd = { .fd = p->pipes[1].fd, .events = POLLIN };

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

static struct exec_proc *exec_workers_take(struct exec_workers *w, const struct exec_key *key, exec_ended_fn *ended,
					   void *arg)
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
		metric_inc(METRIC_workers_reused);
		return p;
	}
	return NULL;
}

/* One that waits, now busy for this run, or NULL.  w: NULL = none is kept. */
static void exec_workers_add(struct exec_workers *w, struct exec_proc *p, const struct exec_key *key)
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

/* The run is over: keep it, but not for long when `keep` of its kind wait already, or let it go.  pipes are taken; -1 =
 * closed, and then it goes. */
static void exec_workers_put(struct exec_proc *p, const struct exec_pipe pipes[3], unsigned keep)
{
	struct exec_workers *w = p->workers;

	memcpy(p->pipes, pipes, sizeof(p->pipes));
	ev_io_free(&p->pipes[0].io);
	p->calls++;
	pipe_hear(&p->pipes[2], p->loop, on_diag, p);
	if (!w || p->pipes[0].fd < 0 || p->pipes[1].fd < 0 || is_worn(p)) {
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
	pipe_hear(&p->pipes[1], p->loop, on_out, p);
	p->timer = ev_timer_new(p->loop, on_idle_timer, p);
	ev_timer_start(p->timer, (p->surplus ? SURPLUS_MS : IDLE_MS) * 1000ull);
}

#define READ_SIZE (64u << 10)           /* per turn: a flood must not starve the loop (trap 5) */
#define TAIL_MAX (128u << 10)           /* bytes of stderr that are kept: the last ones (SEC S-512), and whole secrets
					 * in them */
#define LOG_SHOWN 512                   /* bytes of stderr in the log */
#define NOTICE_MAX (8u << 20)           /* bytes of progress and log lines of one run */

struct exec_op {
	struct backend_op op;
	const struct exec_plan *plan;
	struct exec_proc *proc;                 /* NULL: it has ended, or was given back */
	struct ev_timer *deadline;
	struct exec_pipe in, out, diag;         /* its stdin, stdout, stderr */
	struct str input; size_t sent;
	struct ev_child_usage usage;            /* of proc, once it has ended */
	bool fed, kept;                         /* all input is sent; the process goes on without us */
	struct str output;                      /* text and json: all of it */
	struct str tail;                        /* of stderr */
	size_t result_max;
	bool failed; struct err fail;           /* what went wrong first */
	/* stream */
	struct child_reader reader;
	size_t result_bytes, notice_bytes;
	bool has_last; enum child_kind last;
	struct backend_result res;
	json_t *requests; char *state; size_t state_len;
	struct err rpc; int rpc_code; json_t *rpc_data;
	struct open_secrets *secrets;             /* the run's, until its end */
	const struct sandbox *sandbox;          /* the server's */
	/* for the log */
	char *tool, *tenant, *principal;
	char call[ID_TEXT_SIZE];
};

/* It is somebody else's now. */
static void pipe_release(struct exec_pipe *p)
{
	*p = (struct exec_pipe){ -1, NULL };
}

static void exec_free(struct exec_op *x)
{
	pipe_close(&x->in);
	pipe_close(&x->out);
	pipe_close(&x->diag);
	ev_timer_free(&x->deadline);
	str_wipe(&x->input);
	str_fini(&x->output);
	str_fini(&x->tail);
	child_reader_fini(&x->reader);
	json_decref(x->res.content);
	json_decref(x->res.structured);
	json_decref(x->res.meta);
	json_decref(x->requests);
	json_decref(x->rpc_data);
	free(x->state);
	free(x->tool);
	free(x->tenant);
	free(x->principal);
	free(x);
}

/* Stop the child; its end will report this error.  The pipes stay open, unread: a handler of TERM that says
 * a last word must not die of SIGPIPE, and a flood waits in the kernel. */
static void exec_fail(struct exec_op *x, const struct err *err)
{
	if (x->failed)
		return;
	x->failed = true;
	x->fail = *err;
	pipe_close(&x->in);
	ev_io_free(&x->out.io);
	ev_io_free(&x->diag.io);
	if (x->proc)
		exec_proc_stop(x->proc, EXEC_TERM_MS);
}

/* --- output */

static int too_much(const struct exec_op *x, struct err *err)
{
	return err_set(err, ERR_LIMIT, "", "the tool's output is larger than %zu bytes", x->result_max);
}

static int too_many_notices(struct err *err)
{
	return err_set(err, ERR_LIMIT, "", "the tool sent more than %u bytes of progress, log and task lines", NOTICE_MAX);
}

static void keep_result(struct exec_op *x, const struct child_msg *msg)
{
	if (msg->content)
		json_array_extend(x->res.content, msg->content);
	x->res.structured = json_incref(msg->structured);
	x->res.meta = json_incref(msg->meta);
	x->res.is_error = msg->is_error;
	if (msg->structured && json_array_size(x->res.content) == 0)    /* MCP T-27 */
		json_array_append_new(x->res.content,
				      content_text(msg->structured_text, msg->structured_len));
}

static int keep_ask(struct exec_op *x, const struct child_msg *msg, struct err *err)
{
	if (json_array_size(x->res.content) > 0)
		return err_set(err, ERR_TOOL, "",
			       "the tool sent content before it asked; content of a run that asks is lost");
	x->requests = json_incref(msg->data);
	if (msg->state) {
		x->state = mem_dup(msg->state, msg->state_len + 1);
		x->state_len = msg->state_len;
	}
	return 0;
}

static int on_message(void *arg, const struct child_msg *msg, struct err *err)
{
	struct exec_op *x = arg;
	bool notice = msg->kind == CHILD_PROGRESS || msg->kind == CHILD_LOG || msg->kind == CHILD_TASK;
	size_t *used = notice ? &x->notice_bytes : &x->result_bytes;
	size_t max = notice ? NOTICE_MAX : x->result_max;

	if (msg->len > max - *used)
		return notice ? too_many_notices(err) : too_much(x, err);
	*used += msg->len;
	if (!notice && msg->kind != CHILD_CONTENT) {
		x->has_last = true;
		x->last = msg->kind;
	}
	switch (msg->kind) {
	case CHILD_PROGRESS:
		x->op.sink.progress(x->op.arg, msg->done, msg->total, msg->text);
		break;
	case CHILD_LOG:
		x->op.sink.log(x->op.arg, msg->level, msg->text, json_incref(msg->data));
		break;
	case CHILD_TASK:
		x->op.sink.lasts(x->op.arg, msg->text);
		break;
	case CHILD_CONTENT:
		json_array_append(x->res.content, msg->data);
		break;
	case CHILD_ASK:
		return keep_ask(x, msg, err);
	case CHILD_RESULT:
		keep_result(x, msg);
		break;
	case CHILD_ERROR:
		x->rpc_code = msg->code;
		x->rpc_data = json_incref(msg->data);
		(void)err_set(&x->rpc, ERR_TOOL, "", "%s", msg->text);
		break;
	}
	/* The sink may have cancelled this run. */
	return x->failed ? x->fail.code : 0;
}

static void take_output(struct exec_op *x, const char *p, size_t n)
{
	struct err err;
	int rc = 0;

	if (x->plan->out == EXEC_STREAM) {
		rc = child_read(&x->reader, p, n, on_message, x, &err);
	} else {
		str_put(&x->output, p, n);
		if (x->output.failed)
			rc = too_much(x, &err);
	}
	if (rc < 0)
		exec_fail(x, &err);
}

static void take_diag(struct exec_op *x, const char *p, size_t n)
{
	str_put(&x->tail, p, n);
	if (x->tail.len > 2 * TAIL_MAX)
		str_drop_front(&x->tail, x->tail.len - TAIL_MAX);
}

typedef void take_fn(struct exec_op *x, const char *p, size_t n);

/* One read; false when nothing more comes now.  A read error is the end, as a closed pipe is. */
static bool pipe_read(struct exec_op *x, struct exec_pipe *p, take_fn *take)
{
	char buf[READ_SIZE];

	ssize_t n = read(p->fd, buf, sizeof(buf));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		pipe_close(p);
		return false;
	}
	take(x, buf, (size_t)n);
	return true;
}

static void give_back(struct exec_op *x);

static void on_stdout(void *arg, bool readable, bool writable)
{
	struct exec_op *x = arg;

	(void)pipe_read(x, &x->out, take_output);       /* the rest in the next turn */
	if (x->plan->reuse && x->reader.over && !x->failed)
		give_back(x);
}

static void on_stderr(void *arg, bool readable, bool writable)
{
	struct exec_op *x = arg;

	(void)pipe_read(x, &x->diag, take_diag);
}

/* What the dead left in its pipes; a pipe holds at most a few reads. */
static void drain(struct exec_op *x)
{
	struct err err;

	while (!x->failed && x->out.fd >= 0 && pipe_read(x, &x->out, take_output))
		;
	for (int i = 0; i < 16 && x->diag.fd >= 0 && pipe_read(x, &x->diag, take_diag); i++)
		;
	if (!x->failed && x->plan->out == EXEC_STREAM && child_read_end(&x->reader, on_message, x, &err) < 0)
		exec_fail(x, &err);
}

/* --- input */

static void on_in(void *arg, bool readable, bool writable);

/* A child that does not read, or is gone, is no error of ours (SEC S-512). */
static void push_input(struct exec_op *x)
{
	while (x->sent < x->input.len) {
		ssize_t n = write(x->in.fd, x->input.p + x->sent, x->input.len - x->sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (!x->in.io)
				x->in.io = ev_io_new(x->op.loop, x->in.fd, on_in, x);
			ev_io_want(x->in.io, false, true);
			return;
		}
		if (n < 0)
			break;
		x->sent += (size_t)n;
	}
	x->fed = x->sent == x->input.len;
	if (!x->plan->reuse || !x->fed)
		pipe_close(&x->in);
	else if (x->in.io)
		ev_io_want(x->in.io, false, false);
	str_wipe(&x->input);
	x->sent = 0;
}

static void on_in(void *arg, bool readable, bool writable)
{
	push_input(arg);
}

/* --- the end */

/* Before it is cut: half a secret would not be found (SEC S-345). */
static void blank_tail(struct exec_op *x)
{
	struct str out = STR_INIT;

	if (!open_secrets_any(x->secrets))
		return;
	mask_text(x->secrets, str_text(&x->tail), x->tail.len, &out);
	str_fini(&x->tail);
	x->tail = out;
}

static void log_tail(const struct exec_op *x, int status)
{
	static struct log_site site;
	char shown[LOG_SHOWN * 4 + 1];

	if (x->tail.len == 0 || !log_allow(&site))
		return;
	const struct log_ctx ctx = { .tenant = x->tenant, .principal = x->principal, .call = x->call };
	size_t n = x->tail.len < LOG_SHOWN ? x->tail.len : LOG_SHOWN;
	text_printable(x->tail.p + x->tail.len - n, n, shown, sizeof(shown));
	log_info(&ctx, "tool wrote to stderr tool=%s status=%d text=%s", x->tool, status, shown);
}

/* A run that failed, timed out or was cancelled has cost as much as any other. */
static void give_error(struct exec_op *x, const struct err *err, int rpc_code, json_t *data)
{
	x->op.sink.used(x->op.arg, x->usage.cpu_us, x->usage.rss_kib);
	x->op.sink.error(x->op.arg, err, rpc_code, data);
}

static void give_result(struct exec_op *x, int status)
{
	struct backend_result res = x->res;

	x->res = (struct backend_result){ 0 };
	if (status >= 0) {
		res.xstat = status;
		res.has_xstat = !x->kept;
	} else {
		res.sig = -status;
	}
	res.cpu_us = x->usage.cpu_us;
	res.rss_kib = x->usage.rss_kib;
	x->op.sink.result(x->op.arg, &res);
}

static void give_hint(const struct exec_op *x, int status)
{
	struct sandbox_policy p = { .program = x->plan->program, .files = x->plan->files };
	struct str text;

	exec_sandbox_fill(&x->plan->sandbox, x->sandbox, &p);
	str_init(&text, BACKEND_HINT_MAX);
	exec_explain(&p, str_text(&x->tail), status, &text);
	if (text.len > 0 && x->op.sink.hint)
		x->op.sink.hint(x->op.arg, str_text(&text));
	str_fini(&text);
}

/* Exit status or signal: a result of the tool, and a failed one (SEC S-514). */
static void give_status(struct exec_op *x, int status)
{
	struct str text = STR_INIT;

	if (status > 0) {
		str_printf(&text, "exit status %d", status);
	} else {
		const char *name = sigabbrev_np(-status);
		str_printf(&text, "killed by signal %d%s%s", -status, name ? " SIG" : "", name ? name : "");
	}
	if (x->plan->out != EXEC_STREAM)        /* a stream's stderr is for the log alone (product.md 6) */
		exec_put_tail(&x->tail, &text);
	json_array_append_new(x->res.content, content_text(str_text(&text), text.len));
	str_fini(&text);
	json_decref(x->res.structured);
	x->res.structured = NULL;
	x->res.is_error = true;
	give_result(x, status);
}

/* stdout of text and json becomes the result. */
static int decode_output(struct exec_op *x, struct err *err)
{
	const char *p = str_text(&x->output);
	size_t n = x->output.len;

	if (x->plan->out == EXEC_TEXT) {
		if (!text_utf8_valid(p, n))
			return err_set(err, ERR_TOOL, "", "the tool's output is not UTF-8 text");
	} else {
		int rc = jx_parse(p, n, &x->res.structured, err);
		if (rc < 0) {
			(void)err_wrap(err, "the tool's output is not JSON: %s", err->where);
			err->code = rc == ERR_LIMIT ? ERR_LIMIT : ERR_TOOL;
			return err->code;
		}
		while (n > 0 && strchr(" \t\r\n", p[n - 1]))
			n--;
	}
	json_array_append_new(x->res.content, content_text(p, n));
	return 0;
}

static void give_stream_end(struct exec_op *x, int status)
{
	if (x->has_last && x->last == CHILD_ERROR) {
		json_t *data = x->rpc_data;
		x->rpc_data = NULL;
		give_error(x, &x->rpc, x->rpc_code, data);
	} else if (status != 0 &&
		   !(status > 0 && x->has_last && x->last == CHILD_RESULT && x->res.is_error)) {
		give_status(x, status);
	} else if (x->has_last && x->last == CHILD_ASK) {
		struct backend_ask ask = { x->requests, x->state, x->state_len };
		x->requests = NULL;
		x->op.sink.ask(x->op.arg, &ask);
	} else {
		give_result(x, status);
	}
}

static void on_ended(void *arg, int status, const char *refused)
{
	struct exec_op *x = arg;
	const char *why = x->proc->why;
	struct err err;

	x->usage = exec_proc_usage(x->proc);
	x->proc = NULL;
	drain(x);
	blank_tail(x);
	log_tail(x, status);
	if (why && !x->failed) {        /* a budget of its tenant (HARDENING F-10) */
		(void)err_set(&err, ERR_LIMIT, "", "the tool was ended: %s", why);
		exec_fail(x, &err);
	}
	if (refused && !x->failed) {
		(void)err_set(&err, ERR_TOOL, "", "the tool's program could not be started: %s", refused);
		exec_fail(x, &err);
	}
	if (!x->failed && x->plan->out != EXEC_STREAM && status == 0 && decode_output(x, &err) < 0)
		exec_fail(x, &err);
	if (status != 0 && !refused && !why && (x->tail.len > 0 || status == -SIGSYS))
		give_hint(x, status);
	if (x->failed)
		give_error(x, &x->fail, 0, NULL);
	else if (x->plan->out == EXEC_STREAM)
		give_stream_end(x, status);
	else if (status != 0)
		give_status(x, status);
	else
		give_result(x, 0);
	exec_free(x);
}

/* The last line of a call: the process has done its part, and may serve another one. */
static void give_back(struct exec_op *x)
{
	bool clean = x->fed && x->reader.line.len == 0;
	struct exec_proc *proc = x->proc;

	for (int i = 0; i < 16 && x->diag.fd >= 0 && pipe_read(x, &x->diag, take_diag); i++)
		;
	if (!clean)
		pipe_close(&x->out);
	const struct exec_pipe pipes[3] = { x->in, x->out, x->diag };
	pipe_release(&x->in);
	pipe_release(&x->out);
	pipe_release(&x->diag);
	x->proc = NULL;
	x->kept = true;
	exec_workers_put(proc, pipes, x->plan->reuse);
	blank_tail(x);
	log_tail(x, 0);
	give_stream_end(x, 0);
	exec_free(x);
}

/* --- the start */

static int make_input(struct exec_op *x, const struct backend_req *req, uint64_t now, struct err *err)
{
	switch (x->plan->in) {
	case EXEC_STDIN_NONE:
		return 0;
	case EXEC_STDIN_TEMPLATE:
		return tpl_render(x->plan->in_tpl, req, &x->input, err);
	case EXEC_STDIN_JSON:
		break;
	}
	if (x->plan->out == EXEC_STREAM) {
		child_write_request(req, (req->deadline_us - now) / 1000, &x->input);
	} else {
		backend_put_args(req, &x->input);
		str_putc(&x->input, '\n');
	}
	return 0;
}

static int start_process(struct exec_op *x, const struct sandbox *sandbox, int64_t tenant_id, const char *const *argv,
			 const char *const *env, struct err *err)
{
	const struct exec_plan *plan = x->plan;
	struct sandbox_policy policy = {
		.program = plan->program, .argv = argv, .env = env, .cwd = plan->cwd, .files = plan->files,
		.sha256 = plan->sha256,
	};
	const struct log_ctx ctx = { .tenant = x->tenant, .principal = x->principal, .call = x->call };

	exec_sandbox_fill(&plan->sandbox, sandbox, &policy);
	int rc = exec_proc_start(x->op.loop, &policy, tenant_id, on_ended, x, &x->proc, err);
	if (rc == ERR_LIMIT && *err->where == '\0') {    /* a budget of its tenant */
		struct err why = *err;
		return err_set(err, ERR_LIMIT, "", "the tool's program was not started: %s", why.msg);
	}
	if (rc < 0) {
		log_err(&ctx, "tool cannot be started tool=%s reason=%s: %s", x->tool, err->where, err->msg);
		return err_set(err, ERR_TOOL, "", "the tool's program could not be started");
	}
	return 0;
}

/* One that waits for this very call, or a new one. */
static int get_process(struct exec_op *x, const struct backend_env *env, const struct backend_req *req,
		       const char *const *argv, const char *const *vars, struct err *err)
{
	struct exec_key key = { .tenant_id = req->tenant_id };
	int rc = 0;

	if (x->plan->reuse) {
		memcpy(key.handler, x->plan->handler, sizeof(key.handler));
		key.secrets = env->secrets ? env->secrets->version(env->secrets->arg) : 0;
		x->proc = exec_workers_take(env->workers, &key, on_ended, x);
	}
	if (!x->proc) {
		rc = start_process(x, env->sandbox, req->tenant_id, argv, vars, err);
		if (rc < 0)
			return rc;
		if (x->plan->reuse)
			exec_workers_add(env->workers, x->proc, &key);
	}
	x->in = exec_proc_pipe(x->proc, 0);
	x->out = exec_proc_pipe(x->proc, 1);
	x->diag = exec_proc_pipe(x->proc, 2);
	pipe_hear(&x->out, x->op.loop, on_stdout, x);
	pipe_hear(&x->diag, x->op.loop, on_stderr, x);
	push_input(x);
	return 0;
}

static void on_deadline(void *arg)
{
	struct err err;

	(void)backend_cancel_err(CANCEL_DEADLINE, &err);
	exec_fail(arg, &err);
}

static int launch(struct exec_op *x, const struct backend_env *env, const struct backend_req *req, struct err *err)
{
	const char *argv[EXEC_ARGV_MAX + 1] = { NULL }, *vars[EXEC_ENV_MAX + 5] = { NULL };
	uint64_t now = ev_now_us(x->op.loop);

	if (req->deadline_us <= now)
		return backend_cancel_err(CANCEL_DEADLINE, err);
	struct arena *mem = arena_new(EXEC_COMMAND_MAX);
	int rc = exec_sandbox_check(&x->plan->sandbox, env->sandbox, err);
	if (rc == 0)
		rc = exec_render_argv(x->plan, req, mem, argv, err);
	if (rc == 0)
		rc = exec_render_env(x->plan, req, mem, vars, err);
	bool rendered = rc == 0;
	if (rc == 0)
		rc = make_input(x, req, now, err);
	if (rc == 0)
		rc = get_process(x, env, req, argv, vars, err);
	for (size_t i = 0; rendered && i < x->plan->nenv; i++)  /* SEC S-344: the arena's copies, of secrets perhaps */
		explicit_bzero((char *)(uintptr_t)vars[i], strlen(vars[i]));
	arena_free(&mem);
	if (rc < 0)
		return rc;
	x->deadline = ev_timer_new(x->op.loop, on_deadline, x);
	ev_timer_start(x->deadline, req->deadline_us - now);
	return 0;
}

static void give_failure(void *arg)
{
	struct exec_op *x = arg;

	x->op.sink.error(x->op.arg, &x->fail, 0, NULL);
	exec_free(x);
}

void exec_start(const struct backend_env *env, const struct backend_req *req, const struct backend_sink *sink,
		void *arg, struct backend_op **ret)
{
	struct exec_op *x = mem_zalloc(sizeof(*x));
	struct err err;

	backend_op_init(&x->op, env, sink, arg);
	x->plan = req->plan;
	x->in.fd = x->out.fd = x->diag.fd = -1;
	x->secrets = req->secrets;
	x->sandbox = env->sandbox;
	x->result_max = req->result_max;
	x->res.content = json_array();
	str_init(&x->output, x->result_max);
	x->tool = mem_strdup(req->tool);
	x->tenant = mem_strdup(req->tenant);
	x->principal = mem_strdup(req->principal);
	id_format(req->call_id, x->call);
	*ret = &x->op;
	if (launch(x, env, req, &err) < 0) {
		exec_fail(x, &err);
		ev_defer(env->loop, give_failure, x);
	}
}

void exec_cancel(struct backend_op *op, enum cancel_why why)
{
	struct exec_op *x = CONTAINER_OF(op, struct exec_op, op);
	struct err err;

	(void)backend_cancel_err(why, &err);
	exec_fail(x, &err);
}
