/* Processes of tools: the start, what they are told, and the end.
 *
 * The launcher starts toolcrib-run in a process group of its own; that gets its instructions from us by a socket, and
 * stays beside the tool as its supervisor.  Its end is the end of all that the tool has started; to close our side of
 * the socket is to ask for it.  The launcher tells the end when nothing is left, even where the supervisor was killed
 * (SEC S-513). */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/child.h"
#include "launcher/launcher.h"
#include "sandbox/policy.h"

#include "ev_int.h"

#define WHY_MAX 200
#define END_US 2000000                  /* how long a supervisor may take to end its tool */
#define REMOVE_TURNS 30                 /* and to remove what its tool has left */

struct ev_child {
	struct list node;               /* in the loop's nursery */
	struct ev_loop *loop;
	uint64_t id;                    /* of the launcher; 0 = it has ended */
	int policy_fd;
	struct ev_io *policy_io;
	struct ev_timer *timer;         /* the end after TERM, KILL after the end */
	bool ending;                    /* the supervisor was told */
	unsigned patience;              /* turns of END_US that it got besides */
	struct str policy;              /* what the launcher has not taken yet */
	char level[SANDBOX_LEVEL_TEXT]; /* that it must reach */
	/* SANDBOX_READY, the level, a newline; then why it went wrong after all, or the usage */
	char report[SANDBOX_REPORT_MAX];
	size_t report_len;
	struct ev_child_usage usage;
	uint32_t number;
	uint64_t bytes;                 /* of its own directory, as was last told */
	char why[WHY_MAX];              /* we have ended it ourselves; "" = we have not */
	void (*ended)(void *arg, int status, const char *refused);
	void *arg;
};

/* --- the end */

static void free_child(void *arg)
{
	struct ev_child *c = arg;
	ev_io_free(&c->policy_io);
	ev_timer_free(&c->timer);
	if (c->policy_fd >= 0)
		close(c->policy_fd);
	str_fini(&c->policy);
	free(c);
}

/* --- bytes of own directories (HARDENING F-10) */

/* ending: those as well that are on their way out, whose directories are not removed yet. */
static uint64_t bytes_of(const struct ev_nursery *n, const uint32_t *number, bool ending)
{
	uint64_t sum = 0;

	LIST_FOREACH(node, &n->children) {
		const struct ev_child *c = CONTAINER_OF(node, struct ev_child, node);
		if ((!number || c->number == *number) && (ending || !c->ending))
			sum += c->bytes;
	}
	return sum;
}

void ev_child_bound(struct ev_loop *loop, const struct ev_child_bounds *bounds)
{
	ev_assert_thread(loop);
	loop->nursery.bounds = *bounds;
}

uint64_t ev_child_bytes(const struct ev_loop *loop, uint32_t number, uint64_t *ret_allowed)
{
	*ret_allowed = loop->nursery.bounds.tenant;
	return bytes_of(&loop->nursery, &number, true);
}

/* One more of it may not begin. */
static int check_bytes(const struct ev_nursery *n, uint32_t number, struct err *err)
{
	uint64_t bytes;

	if (!n->bounds.tenant || n->bytes < n->bounds.tenant)
		return 0;
	bytes = bytes_of(n, &number, true);
	if (bytes < n->bounds.tenant)
		return 0;
	metric_inc(METRIC_budget_scratch_refused);
	return err_set(err, ERR_LIMIT, "", "own directories of this tenant's programs hold %" PRIu64 " bytes, allowed are "
		       "%" PRIu64 " (budgets.scratch_per_tenant): try again when those that run have ended", bytes,
		       n->bounds.tenant);
}

static struct ev_child *largest_of(const struct ev_nursery *n, uint32_t number)
{
	struct ev_child *largest = NULL;

	LIST_FOREACH(node, &n->children) {
		struct ev_child *c = CONTAINER_OF(node, struct ev_child, node);
		if (c->number == number && !c->ending && (!largest || c->bytes > largest->bytes))
			largest = c;
	}
	return largest;
}

/* The number whose directories hold most. */
static uint32_t fullest(const struct ev_nursery *n)
{
	uint64_t most = 0;
	uint32_t number = 0;

	LIST_FOREACH(node, &n->children) {
		const struct ev_child *c = CONTAINER_OF(node, struct ev_child, node);
		uint64_t bytes = c->bytes && !c->ending ? bytes_of(n, &c->number, false) : 0;
		if (bytes > most) {
			most = bytes;
			number = c->number;
		}
	}
	return number;
}

static void end_tree(struct ev_child *c);

/* Whoever has most has it because of what he does now: he ends, and nobody else. */
static void end_largest(const struct ev_nursery *n, uint32_t number, const char *what, const char *key, uint64_t sum,
			uint64_t allowed)
{
	struct ev_child *c = largest_of(n, number);

	if (!c)
		return;
	snprintf(c->why, sizeof(c->why), "own directories of %s held %" PRIu64 " bytes, allowed are %" PRIu64 " (%s)", what,
		 sum, allowed, key);
	metric_inc(METRIC_budget_scratch_refused);
	end_tree(c);
}

static void set_bytes(struct ev_child *c, uint64_t bytes)
{
	struct ev_nursery *n = &c->loop->nursery;
	uint64_t sum;

	n->bytes += bytes - c->bytes;
	c->bytes = bytes;
	metric_set(METRIC_budget_scratch_bytes, n->bytes);
	sum = n->bounds.tenant && n->bytes > n->bounds.tenant ? bytes_of(n, &c->number, false) : 0;
	if (sum > n->bounds.tenant)
		end_largest(n, c->number, "this tenant's programs", "budgets.scratch_per_tenant", sum, n->bounds.tenant);
	sum = n->bounds.all && n->bytes > n->bounds.all ? bytes_of(n, NULL, false) : 0;
	if (sum > n->bounds.all)
		end_largest(n, fullest(n), "all programs, of which this tenant's are the largest,", "budgets.scratch", sum,
			    n->bounds.all);
}

/* Take the sizes off the report; the last one counts. */
static void take_sizes(struct ev_child *c)
{
	uint64_t bytes = c->bytes;
	char *at, *end;

	while ((at = strstr(c->report, SANDBOX_SIZE)) && (end = strchr(at + strlen(SANDBOX_SIZE), '\n'))) {
		const char *number = at + strlen(SANDBOX_SIZE);
		(void)text_u64(number, (size_t)(end - number), &bytes);
		memmove(at, end + 1, strlen(end + 1) + 1);
		c->report_len = strlen(c->report);
	}
	if (bytes != c->bytes)
		set_bytes(c, bytes);
}

const char *ev_child_why(const struct ev_child *c)
{
	return *c->why ? c->why : NULL;
}

/* --- what the supervisor says */

/* False when there is nothing more to come. */
static bool read_report(struct ev_child *c)
{
	size_t room = sizeof(c->report) - 1 - c->report_len;
	ssize_t n = room > 0 ? recv(c->policy_fd, c->report + c->report_len, room, MSG_DONTWAIT) : 0;
	if (n > 0)
		c->report_len += (size_t)n;
	c->report[c->report_len] = '\0';
	if (n > 0)
		take_sizes(c);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Another level than the one that stands in the record (SEC S-510). */
static bool is_other_level(const struct ev_child *c)
{
	const char *end = c->report[0] == SANDBOX_READY ? strchr(c->report, '\n') : NULL;
	size_t n = end ? (size_t)(end - c->report) - 1 : 0;
	return end && (n != strlen(c->level) || memcmp(c->report + 1, c->level, n) != 0);
}

/* NULL when the tool has run. */
static const char *refusal(const struct ev_child *c)
{
	const char *end = strchr(c->report, '\n');
	if (c->report[0] == '\0')
		return "launcher: it died before the tool was started";
	if (c->report[0] != SANDBOX_READY || !end)
		return c->report;
	if (is_other_level(c))
		return "level: the launcher reached another one than was asked for";
	return end[1] ? end + 1 : NULL;
}

/* Take the usage off the report. */
static void take_usage(struct ev_child *c)
{
	struct ev_child_usage got = { 0 };
	char *at = strstr(c->report, SANDBOX_USAGE), *cpu = at ? at + strlen(SANDBOX_USAGE) : NULL;
	const char *rss = cpu ? strchr(cpu, ' ') : NULL, *end = rss ? strchr(rss, '\n') : NULL;
	if (end && text_u64(cpu, (size_t)(rss - cpu), &got.cpu_us) == 0 &&
	    text_u64(rss + 1, (size_t)(end - rss) - 1, &got.rss_kib) == 0)
		c->usage = got;
	if (at)
		*at = '\0';
}

struct ev_child_usage ev_child_usage(const struct ev_child *c)
{
	return c->usage;
}

static void leave(struct ev_child *c)
{
	list_unlink(&c->node);
	metric_dec(METRIC_children_running);
	c->loop->nursery.bytes -= c->bytes;
	metric_set(METRIC_budget_scratch_bytes, c->loop->nursery.bytes);
}

/* Of the launcher: nothing of it is left, or nothing has come to be. */
static void on_event(void *arg, const struct launcher_event *event)
{
	struct ev_child *c = arg;
	char failed[SANDBOX_REPORT_MAX];

	c->id = 0;
	while (errno = 0, read_report(c) && errno == 0)
		;
	leave(c);
	ev_timer_stop(c->timer);
	ev_io_want(c->policy_io, false, false);
	ev_defer(c->loop, free_child, c);
	if (event->kind == LAUNCHER_FAILED) {
		if (event->status == ERANGE)
			snprintf(failed, sizeof(failed), "uid: sandbox.uids has no number for this tenant: make the range longer");
		else
			snprintf(failed, sizeof(failed), "launcher: toolcrib-run: %s", strerror(event->status));
		c->ended(c->arg, -SIGKILL, failed);
		return;
	}
	take_usage(c);
	c->ended(c->arg, event->status, refusal(c));
}

/* It did not end by itself. */
static void end_tree(struct ev_child *c)
{
	if (c->ending)
		return;
	c->ending = true;
	metric_inc(METRIC_children_killed);
	shutdown(c->policy_fd, SHUT_WR);
	ev_timer_start(c->timer, END_US);
}

static void on_timer(void *arg)
{
	struct ev_child *c = arg;
	if (!c->ending) {
		end_tree(c);
	} else if (strstr(c->report, SANDBOX_USAGE) && c->patience++ < REMOVE_TURNS) {
		ev_timer_start(c->timer, END_US);       /* its tool is dead; what is left is to empty the own directory */
	} else {
		log_warn(NULL, "supervisor does not end its tool");
		ev_launch_signal(c->loop, c->id, SIGKILL);
	}
}

void ev_child_stop(struct ev_child *c, uint32_t term_ms)
{
	if (c->id == 0 || c->ending)
		return;
	if (term_ms == 0) {
		end_tree(c);
		return;
	}
	ev_launch_signal(c->loop, c->id, SIGTERM);
	if (!ev_timer_armed(c->timer))
		ev_timer_start(c->timer, (uint64_t)term_ms * 1000);
}

/* --- the start */

static void push_policy(struct ev_child *c)
{
	ssize_t n = send(c->policy_fd, c->policy.p, c->policy.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		str_drop_front(&c->policy, (size_t)n);
	else if (errno != EAGAIN && errno != EINTR)
		str_reset(&c->policy);  /* it died; its end says why */
	ev_io_want(c->policy_io, c->report_len < sizeof(c->report) - 1, c->policy.len > 0);
}

static void on_policy(void *arg, bool readable, bool writable)
{
	struct ev_child *c = arg;
	if (writable)
		push_policy(c);
	if (!readable)
		return;
	if (!read_report(c))
		ev_io_want(c->policy_io, false, c->policy.len > 0);
	if (is_other_level(c))
		end_tree(c);
}

/* theirs: the child's 0, 1, 2 and SANDBOX_FD. */
static int make_pipes(int ours[3], int theirs[4], int *policy_fd, struct err *err)
{
	for (int i = 0; i < 3; i++) {
		int p[2];
		if (pipe2(p, O_CLOEXEC))
			return err_set(err, ERR_IO, "pipe", "%s", strerror(errno));
		int mine = i == 0 ? 1 : 0;
		ours[i] = p[mine];
		theirs[i] = p[!mine];
		if (fcntl(ours[i], F_SETFL, O_NONBLOCK))
			return err_set(err, ERR_IO, "pipe", "%s", strerror(errno));
	}
	int s[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s))
		return err_set(err, ERR_IO, "socketpair", "%s", strerror(errno));
	*policy_fd = s[0];
	theirs[3] = s[1];
	return 0;
}

static void close_fds(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* Where there is a bound, its directory is counted so far, and no file is larger. */
static void bound_policy(const struct ev_nursery *n, struct sandbox_policy *p)
{
	uint64_t least = n->bounds.all;

	if (n->bounds.tenant && (!least || n->bounds.tenant < least))
		least = n->bounds.tenant;
	if (!p->scratch || !least)
		return;
	p->scratch_bytes = least;
	if (p->file_bytes > least)
		p->file_bytes = least;
}

int ev_child_start(struct ev_loop *loop, const struct ev_child_req *req, int ret_fds[3], struct ev_child **ret,
		   struct err *err)
{
	ev_assert_thread(loop);
	int ours[3] = { -1, -1, -1 };
	struct launcher_ask ask = { .row = LAUNCHER_RUN, .number = req->number, .fds = { -1, -1, -1, -1 } };
	struct sandbox_policy policy = *req->policy;
	struct ev_child *c = mem_zalloc(sizeof(*c));
	*c = (struct ev_child){ .loop = loop, .policy_fd = -1, .number = req->number, .ended = req->ended, .arg = req->arg };
	bound_policy(&loop->nursery, &policy);
	list_init(&c->node);
	sandbox_level_format(&req->policy->level, c->level);

	int rc = check_bytes(&loop->nursery, req->number, err);
	rc = rc ? rc : sandbox_policy_encode(&policy, &c->policy, err);
	rc = rc ? rc : make_pipes(ours, ask.fds, &c->policy_fd, err);
	rc = rc ? rc : ev_launch(loop, &ask, on_event, c, &c->id, err);
	close_fds(ask.fds, NELEMS(ask.fds));
	if (rc) {
		close_fds(ours, NELEMS(ours));
		free_child(c);
		return rc;
	}
	metric_inc(METRIC_children_started);
	metric_inc(METRIC_children_running);
	loop->nursery.kill_all = ev_child_kill_all;
	list_push_back(&loop->nursery.children, &c->node);
	c->timer = ev_timer_new(loop, on_timer, c);
	c->policy_io = ev_io_new(loop, c->policy_fd, on_policy, c);
	push_policy(c);
	memcpy(ret_fds, ours, sizeof(ours));
	*ret = c;
	return 0;
}

static void no_end(void *arg, int status, const char *refused)
{
	(void)arg;
	(void)status;
	(void)refused;
}

/* A child that another's event has freed is in the list no more. */
void ev_child_kill_all(struct ev_loop *loop)
{
	struct list *children = &loop->nursery.children;
	uint64_t until_us = clock_mono_us() + END_US;

	LIST_FOREACH(node, children) {
		struct ev_child *c = CONTAINER_OF(node, struct ev_child, node);

		c->ended = no_end;
		shutdown(c->policy_fd, SHUT_WR);
	}
	while (!list_empty(children)) {
		struct ev_child *c = CONTAINER_OF(children->next, struct ev_child, node);
		uint64_t now = clock_mono_us(), id = c->id;

		ev_launch_await(loop, &c->id, true, now < until_us ? (uint32_t)((until_us - now) / 1000) : 0);
		if (c->id == 0)
			continue;
		ev_launch_signal(loop, id, SIGKILL);
		ev_launch_await(loop, &c->id, true, END_US / 1000);
		if (c->id == 0)
			continue;
		ev_launch_forget(loop, id);     /* the launcher goes on trying, and ends with us */
		leave(c);
		free_child(c);
	}
}
