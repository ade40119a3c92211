/* A stream of bytes over a descriptor, plain or TLS, on the loop's thread; transports and HTTP read and write by it.
 * Most input is taken whole where it was read, on the stack: only what data() leaves is copied into a buffer of the
 * stream, so that an idle connection has none.  Output is gathered in one piece of memory and written at the end of
 * the turn.  Lines of a stream are found by line_next(). */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/metric.h"
#include "ev/again.h"
#include "ev/ev.h"
#include "net/stream.h"
#include "net/tls.h"

/* One direction of a stream: what waits in one piece of memory. */

#define BYTES_FIRST EV_PIECE            /* the least memory that is taken, and given back whenever nothing waits */

struct bytes {                          /* what waits is p[start .. end) */
	char *p;
	size_t start, end, cap;
	bool wiped;                     /* nothing stays in memory that is used no more */
	struct ev_loop *loop;           /* whose pieces it takes */
};

static inline size_t bytes_waiting(const struct bytes *b)
{
	return b->end - b->start;
}

/* --- The buffers of streams */

/* They grow by doubling, and what is taken from the front moves nothing. */

static void wipe(const struct bytes *b, size_t from, size_t to)
{
	if (b->wiped && from < to)
		explicit_bzero(b->p + from, to - from);
}

/* the memory alone; the end */
static void bytes_release(struct bytes *b)
{
	wipe(b, 0, b->cap);
	if (b->cap == BYTES_FIRST)
		ev_piece_give(b->loop, b->p);
	else
		free(b->p);
	b->p = NULL;
	b->cap = 0;
}

/* What a peer sizes: false when there is no memory for it. */
static bool enlarge(struct bytes *b, size_t cap)
{
	char *p = cap == BYTES_FIRST ? ev_piece_take(b->loop) : mem_try_realloc(b->wiped ? NULL : b->p, cap);
	if (!p) {
		metric_inc(METRIC_budget_memory_refused);
		return false;
	}
	if (b->wiped) {
		if (b->end > 0)
			memcpy(p, b->p, b->end);
		bytes_release(b);
	}
	b->p = p;
	b->cap = cap;
	return true;
}

/* room for n more at the end */
static bool bytes_reserve(struct bytes *b, size_t n)
{
	if (b->cap - b->end >= n)
		return true;
	if (b->start > 0) {
		memmove(b->p, b->p + b->start, bytes_waiting(b));
		wipe(b, bytes_waiting(b), b->end);
		b->end -= b->start;
		b->start = 0;
	}
	if (b->cap - b->end >= n)
		return true;
	size_t cap = b->cap ? b->cap : BYTES_FIRST;
	while (cap - b->end < n)
		cap *= 2;
	return enlarge(b, cap);
}

static bool bytes_append(struct bytes *b, const void *p, size_t n)
{
	if (n == 0)
		return true;
	if (!bytes_reserve(b, n))
		return false;
	memcpy(b->p + b->end, p, n);
	b->end += n;
	return true;
}

/* The first n are done with; when they were all, so is the memory. */
static void bytes_drop(struct bytes *b, size_t n)
{
	wipe(b, b->start, b->start + n);
	b->start += n;
	if (b->start < b->end)
		return;
	b->start = b->end = 0;
	if (b->p)
		bytes_release(b);
}

/* --- Newline frames. */

ssize_t line_next(const char *p, size_t len, size_t from, size_t max, size_t *ret_len)
{
	const char *end = len > from ? memchr(p + from, '\n', len - from) : NULL;
	/* While the newline is missing, a "\r" at the end may still belong to it. */
	size_t n = end ? (size_t)(end - p) : len;
	size_t content = n > 0 && p[n - 1] == '\r' ? n - 1 : n;
	if (content > max)
		return -1;
	if (!end)
		return 0;
	*ret_len = content;
	return (ssize_t)n + 1;
}

/* --- a stream */

#define SCRATCH_BYTES (16u << 10)       /* one read on the stack */
#define DIRECT_BYTES (16u << 10)        /* an answer of this size is written without a copy; a record of TLS */

struct stream {
	struct ev_loop *loop;
	int in_fd, out_fd;
	struct ev_io *in_io, *out_io;   /* the same when the descriptors are */
	struct tls *tls;                /* or NULL: bytes travel as they are */
	struct ev_timer *always;        /* in_fd is a file: readable at any time; or tls may have more; else NULL */
	struct ev_timer *stall;         /* runs while output waits, and while lingering */
	struct bytes in, out;
	size_t in_max;
	size_t answers;                 /* bytes of out that may be those of answers */
	size_t room;                    /* what may still be written in this turn */
	size_t written;                 /* since the stall timer was started */
	size_t counted;                 /* bytes of out that the gauge has */
	uint32_t stall_ms;
	bool paused, congested, flushing, kicking;
	bool blocked;                   /* the last write did not take all */
	bool eof;                       /* the peer will send no more */
	bool half_closed;               /* we shall write no more: input is dropped */
	bool lingers;                   /* and all is written */
	bool self;                      /* nobody owns it any more */
	struct ev_leaver leaver;        /* with self: the loop ends what still lingers */
	bool dead, closed;
	int *fds; size_t nfds;          /* that came and nobody has taken; NULL: none are wanted */
	const struct stream_ops *ops;
	void *arg;
	enum stream_end why;
};

/* --- the end */

static void count_out(struct stream *s, size_t n)
{
	metric_add(METRIC_output_waiting_bytes, n - s->counted);
	s->counted = n;
}

static void release(void *arg)
{
	struct stream *s = arg;
	count_out(s, 0);
	tls_free(&s->tls);
	bytes_release(&s->in);
	bytes_release(&s->out);
	while (s->nfds > 0)
		close(s->fds[--s->nfds]);
	free(s->fds);
	free(s);
}

/* No event comes from here on; the memory goes at the end of the turn, after a flush that may be due. */
static void shut(struct stream *s)
{
	bool pair = s->out_io != s->in_io;
	ev_io_free(&s->in_io);
	if (pair)
		ev_io_free(&s->out_io);
	s->out_io = NULL;
	ev_timer_free(&s->always);
	ev_timer_free(&s->stall);
	/* What was cut short must not look whole. */
	if (s->tls && s->in_fd >= 0 && bytes_waiting(&s->out) == 0)
		(void)tls_end(s->tls);
	if (s->in_fd >= 0)
		close(s->in_fd);
	if (s->out_fd >= 0 && s->out_fd != s->in_fd)
		close(s->out_fd);
	s->in_fd = s->out_fd = -1;
	s->dead = true;
}

void stream_close(struct stream **ps)
{
	if (!ps || !*ps)
		return;
	struct stream *s = *ps;
	*ps = NULL;
	s->closed = true;
	if (s->self)
		list_unlink(&s->leaver.node);
	shut(s);
	ev_at_turn_end(s->loop, release, s);
}

int stream_dup(const struct stream *s)
{
	if (s->dead || s->tls || s->eof || s->half_closed || s->in_fd != s->out_fd || bytes_waiting(&s->in) > 0 ||
	    bytes_waiting(&s->out) > 0)
		return -1;
	return fcntl(s->in_fd, F_DUPFD_CLOEXEC, 0);
}

static void tell_end(void *arg)
{
	struct stream *s = arg;
	if (!s->closed)
		s->ops->ended(s->arg, s->why);
}

static void die(struct stream *s, enum stream_end why)
{
	if (s->dead)
		return;
	if (s->self) {
		stream_close(&s);
		return;
	}
	shut(s);
	s->why = why;
	ev_defer(s->loop, tell_end, s);
}

/* --- what to wait for */

/* Without an event of the descriptor. */
static bool input_is_here(const struct stream *s)
{
	return !s->tls || (!s->half_closed && tls_pending(s->tls));
}

static void update(struct stream *s)
{
	if (s->dead)
		return;
	size_t out = bytes_waiting(&s->out);
	if (s->congested ? out < STREAM_OUT_HIGH / 2 : out > STREAM_OUT_HIGH)
		s->congested = !s->congested;
	bool read = !s->eof && (s->half_closed || (!s->paused && !s->congested && bytes_waiting(&s->in) < s->in_max));
	bool write = (out > 0 && !s->flushing) || (s->tls && tls_wants_write(s->tls) && (read || s->half_closed));
	if (s->always) {
		if (!read || !input_is_here(s))
			ev_timer_stop(s->always);
		else if (!ev_timer_armed(s->always))
			ev_timer_start(s->always, 0);
		read = read && s->tls;
	}
	if (s->in_io == s->out_io) {
		ev_io_want(s->in_io, read, write);
	} else {
		ev_io_want(s->in_io, read, false);
		ev_io_want(s->out_io, false, write);
	}
}

/* --- output */

static void on_stall(void *arg)
{
	struct stream *s = arg;
	size_t least = bytes_waiting(&s->out) < STREAM_STALL_BYTES ? 1 : STREAM_STALL_BYTES;
	if (s->lingers || (s->half_closed && bytes_waiting(&s->out) == 0))
		die(s, STREAM_EOF);
	else if (bytes_waiting(&s->out) > 0 && s->written < least)
		die(s, STREAM_STALLED);
	else if (bytes_waiting(&s->out) > 0)
		ev_timer_start(s->stall, s->stall_ms * 1000ull);
	s->written = 0;
}

/* All is written and nothing will follow. */
static void linger(struct stream *s)
{
	if (s->tls && tls_end(s->tls) == TLS_AGAIN) {
		if (!ev_timer_armed(s->stall))
			ev_timer_start(s->stall, STREAM_STALL_MS * 1000ull);
		return;
	}
	s->lingers = true;
	bool socket = s->in_fd == s->out_fd;
	if (s->eof || !socket || shutdown(s->out_fd, SHUT_WR))
		die(s, STREAM_EOF);
	else
		ev_timer_start(s->stall, STREAM_LINGER_MS * 1000ull);
}

static void after_write(struct stream *s)
{
	size_t left = bytes_waiting(&s->out);
	if (s->answers > left)
		s->answers = left;
	s->blocked = left > 0;
	count_out(s, left);
	if (left > 0 && !ev_timer_armed(s->stall)) {
		s->written = 0;
		ev_timer_start(s->stall, s->stall_ms * 1000ull);
	}
	update(s);
}

/* SEC S-820: a large answer goes in pieces, others come between them.  A pair has one user, and a file in it could not
 * be waited for. */
static size_t piece_of(const struct stream *s, size_t len)
{
	return s->in_fd == s->out_fd && len > s->room ? s->room : len;
}

static void count_written(struct stream *s, size_t n)
{
	s->written += n;
	s->room -= n < s->room ? n : s->room;
}

/* As tls_write(): how much was written, TLS_AGAIN or TLS_BROKEN. */
static long put_bytes(struct stream *s, const char *p, size_t len)
{
	long n;
	len = piece_of(s, len);
	if (len == 0)
		return TLS_AGAIN;
	if (s->tls)
		n = tls_write(s->tls, p, len);
	else
		n = write(s->out_fd, p, len);
	if (n > 0)
		count_written(s, (size_t)n);
	else if (n < 0 && !s->tls)
		n = errno == EAGAIN || errno == EINTR ? TLS_AGAIN : TLS_BROKEN;
	return n;
}

static void flush(struct stream *s)
{
	if (s->dead || bytes_waiting(&s->out) == 0) {
		if (!s->dead && s->half_closed && !s->lingers)
			linger(s);      /* our close_notify did not go yet */
		return;
	}
	long n = put_bytes(s, s->out.p + s->out.start, bytes_waiting(&s->out));
	if (n == TLS_BROKEN) {
		die(s, STREAM_RESET);
		return;
	}
	if (n > 0)
		bytes_drop(&s->out, (size_t)n);
	after_write(s);
	if (bytes_waiting(&s->out) > 0)
		return;
	if (s->half_closed)
		linger(s);
	else if (s->ops->drained)
		s->ops->drained(s->arg);
}

static void on_turn_end(void *arg)
{
	struct stream *s = arg;
	s->flushing = false;
	flush(s);
	count_out(s, bytes_waiting(&s->out));
	s->room = STREAM_TURN_BYTES;
}

static void flush_later(struct stream *s)
{
	if (s->flushing || s->dead)     /* a dead one is freed before its turn comes */
		return;
	s->flushing = true;
	ev_at_turn_end(s->loop, on_turn_end, s);
}

void stream_write(struct stream *s, const void *p, size_t len)
{
	if (s->dead || s->half_closed)
		return;
	if (!bytes_append(&s->out, p, len) || bytes_waiting(&s->out) - s->answers > STREAM_OUT_MAX)
		die(s, STREAM_OVERFLOW);
	else
		flush_later(s);
}

/* What waits and p in one system call; how much of p was written. */
static size_t write_direct(struct stream *s, const void *p, size_t len)
{
	size_t before = bytes_waiting(&s->out);
	if (before > s->room)
		return 0;
	struct iovec v[2] = { { .iov_base = before ? s->out.p + s->out.start : NULL, .iov_len = before },
			      { .iov_base = (void *)(uintptr_t)p, .iov_len = piece_of(s, before + len) - before } };
	ssize_t n = before ? writev(s->out_fd, v, 2) : write(s->out_fd, p, v[1].iov_len);
	if (n <= 0)
		return 0;       /* the flush finds out why */
	count_written(s, (size_t)n);
	if ((size_t)n < before) {
		bytes_drop(&s->out, (size_t)n);
		return 0;
	}
	bytes_drop(&s->out, before);
	return (size_t)n - before;
}

/* The same in records of TLS: the first takes along what waits, from there on nothing is copied.  What does not go is
 * the front of the rest, as tls_write() wants it. */
static size_t write_records(struct stream *s, const char *p, size_t len)
{
	size_t before = bytes_waiting(&s->out), first = 0;
	long n;
	if (before > 0) {
		first = DIRECT_BYTES - before % DIRECT_BYTES;
		if (!bytes_append(&s->out, p, first))
			return 0;
		s->answers += first;
		n = put_bytes(s, s->out.p + s->out.start, bytes_waiting(&s->out));
		bytes_drop(&s->out, n > 0 ? (size_t)n : 0);
		if (bytes_waiting(&s->out) > 0)
			return first;
	}
	n = put_bytes(s, p + first, len - first);
	return first + (n > 0 ? (size_t)n : 0);         /* the flush finds out why */
}

void stream_write_answer(struct stream *s, const void *p, size_t len)
{
	if (s->dead || s->half_closed)
		return;
	size_t done = 0;
	if (len >= DIRECT_BYTES && !s->blocked)
		done = s->tls ? write_records(s, p, len) : write_direct(s, p, len);
	if (!bytes_append(&s->out, (const char *)p + done, len - done)) {
		die(s, STREAM_OVERFLOW);        /* half an answer would be worse than none */
		return;
	}
	s->answers += len - done;
	flush_later(s);         /* also when nothing is left: drained() is due */
	update(s);
}

size_t stream_queued(const struct stream *s)
{
	return bytes_waiting(&s->out);
}

/* --- input */

/* How much of p data() takes. */
static size_t offer(struct stream *s, const char *p, size_t len)
{
	size_t taken = 0;
	while (taken < len && !s->paused && !s->dead && !s->half_closed) {
		size_t n = s->ops->data(s->arg, p + taken, len - taken);
		if (n == 0)
			break;
		taken += n;
	}
	return s->half_closed ? len : taken;
}

static void offer_waiting(struct stream *s)
{
	if (s->dead || bytes_waiting(&s->in) == 0)
		return;
	size_t n = offer(s, s->in.p + s->in.start, bytes_waiting(&s->in));
	bytes_drop(&s->in, n);
}

/* As tls_read().  What comes once we have closed is dropped, so it need not be deciphered. */
static ssize_t read_with_fds(struct stream *s, char *p, size_t size)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(STREAM_FDS_MAX * sizeof(int))]; } control;
	struct iovec iov = { p, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(s->in_fd, &msg, MSG_CMSG_CLOEXEC);

	for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (s->nfds < STREAM_FDS_MAX) {
				s->fds[s->nfds++] = fd;
				continue;
			}
			metric_inc(METRIC_admin_files_refused);
			close(fd);
		}
	}
	if (n >= 0 && (msg.msg_flags & MSG_CTRUNC))
		metric_inc(METRIC_admin_files_refused);         /* the kernel has closed what had no room */
	return n;
}

static long get_bytes(struct stream *s, char *p, size_t size)
{
	if (s->tls && !s->half_closed)
		return tls_read(s->tls, p, size);
	ssize_t n = s->fds ? read_with_fds(s, p, size) : read(s->in_fd, p, size);
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? TLS_AGAIN : TLS_BROKEN;
}

/* 1: *ret_n bytes were read; 0: nothing for now, or the end, which has been dealt with. */
static int read_some(struct stream *s, char *p, size_t size, size_t *ret_n)
{
	long n = get_bytes(s, p, size);
	if (n > 0) {
		*ret_n = (size_t)n;
		return 1;
	}
	if (n == TLS_AGAIN)
		return 0;
	if (n == TLS_BROKEN) {
		die(s, STREAM_RESET);
		return 0;
	}
	s->eof = true;
	if (s->lingers)
		die(s, STREAM_EOF);
	else if (!s->half_closed)
		s->ops->ended(s->arg, STREAM_EOF);
	return 0;
}

/* A record of TLS is read alone, however much fits. */
static bool more_is_likely(const struct stream *s, size_t n, size_t size)
{
	return n == size || (s->tls && !s->dead && tls_pending(s->tls));
}

/* Behind what waits.  False when less came than would have fit. */
static bool read_behind(struct stream *s)
{
	size_t room = s->in_max > bytes_waiting(&s->in) ? s->in_max - bytes_waiting(&s->in) : 0, n = 0;
	room = room < SCRATCH_BYTES ? room : SCRATCH_BYTES;
	if (room == 0)
		return false;
	if (!bytes_reserve(&s->in, room)) {
		die(s, STREAM_OVERFLOW);
		return false;
	}
	if (!read_some(s, s->in.p + s->in.end, room, &n))
		return false;
	s->in.end += n;
	offer_waiting(s);
	return more_is_likely(s, n, room);
}

/* Where nothing waits, most of what comes is taken at once and never copied. */
static bool read_fresh(struct stream *s)
{
	char scratch[SCRATCH_BYTES];
	size_t size = s->in_max < sizeof(scratch) && !s->half_closed ? s->in_max : sizeof(scratch), n = 0;
	if (!read_some(s, scratch, size, &n))
		return false;
	size_t taken = offer(s, scratch, n);
	if (!s->dead && !bytes_append(&s->in, scratch + taken, n - taken))
		die(s, STREAM_OVERFLOW);
	if (s->in.wiped)
		explicit_bzero(scratch, n);
	return more_is_likely(s, n, size);
}

static void on_readable(struct stream *s)
{
	size_t budget = STREAM_TURN_BYTES;      /* SEC S-820 */
	while (budget >= SCRATCH_BYTES && !s->dead && (!s->paused || s->half_closed)) {
		if (s->half_closed || bytes_waiting(&s->in) == 0 ? !read_fresh(s) : !read_behind(s))
			return;
		budget -= SCRATCH_BYTES;
	}
}

static void on_io(void *arg, bool readable, bool writable)
{
	struct stream *s = arg;
	bool retry = writable && s->tls && tls_wants_write(s->tls);     /* it may be a read that waited for this */
	if ((readable || retry) && !s->dead && !s->eof)
		on_readable(s);
	if (writable)
		flush_later(s);
	update(s);
}

static void on_always(void *arg)
{
	on_io(arg, true, false);
}

static void on_kick(void *arg)
{
	struct stream *s = arg;
	s->kicking = false;
	offer_waiting(s);
	update(s);
}

void stream_kick(struct stream *s)
{
	if (s->kicking || s->dead)
		return;
	s->kicking = true;
	ev_defer(s->loop, on_kick, s);
}

void stream_pause(struct stream *s, bool paused)
{
	s->paused = paused;
	update(s);
}

void stream_behind(struct stream *s, bool behind)
{
	if (s->in_io)
		ev_io_behind(s->in_io, behind);
}

void stream_in_max(struct stream *s, size_t in_max)
{
	s->in_max = in_max;
	update(s);
}

void stream_stall_ms(struct stream *s, uint32_t ms)
{
	s->stall_ms = ms;
}

/* --- begin and end */

/* Files and /dev/null cannot be waited for: they are always ready. */
static bool can_wait(int fd)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = { .events = EPOLLIN };
	bool ok = ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) == 0 || errno != EPERM;
	if (ep >= 0)
		close(ep);
	return ok;
}

struct stream *stream_new(struct ev_loop *loop, int in_fd, int out_fd, size_t in_max, const struct stream_ops *ops,
			  void *arg)
{
	struct stream *s = mem_alloc(sizeof(*s));
	*s = (struct stream){ .loop = loop, .in_fd = in_fd, .out_fd = out_fd, .in_max = in_max, .ops = ops,
			      .arg = arg, .room = STREAM_TURN_BYTES, .stall_ms = STREAM_STALL_MS,
			      .in = { .loop = loop }, .out = { .loop = loop } };
	s->in_io = s->out_io = ev_io_new(loop, in_fd, on_io, s);
	if (out_fd != in_fd) {
		s->out_io = ev_io_new(loop, out_fd, on_io, s);
		if (!can_wait(in_fd))
			s->always = ev_timer_new(loop, on_always, s);
	}
	s->stall = ev_timer_new(loop, on_stall, s);
	update(s);
	return s;
}

void stream_half_close(struct stream *s)
{
	if (s->dead || s->half_closed)
		return;
	s->half_closed = true;
	if (bytes_waiting(&s->out) == 0)
		linger(s);
	else
		flush_later(s);
	update(s);
}

void stream_wipe(struct stream *s)
{
	s->in.wiped = s->out.wiped = true;
}

void stream_take_fds(struct stream *s)
{
	s->fds = mem_calloc(STREAM_FDS_MAX, sizeof(*s->fds));
}

size_t stream_fds(struct stream *s, int *ret, size_t n)
{
	n = n < s->nfds ? n : s->nfds;
	if (n == 0)
		return 0;
	memcpy(ret, s->fds, n * sizeof(*ret));
	s->nfds -= n;
	memmove(s->fds, s->fds + n, s->nfds * sizeof(*ret));
	return n;
}

void stream_tls(struct stream *s, struct tls *t)
{
	s->tls = t;
	s->always = ev_timer_new(s->loop, on_always, s);
	update(s);
}

static void on_loop_free(void *arg)
{
	struct stream *s = arg;
	stream_close(&s);
}

void stream_finish(struct stream **ps)
{
	if (!ps || !*ps)
		return;
	struct stream *s = *ps;
	*ps = NULL;
	if (s->dead) {
		stream_close(&s);
		return;
	}
	s->self = true;
	ev_at_free(s->loop, &s->leaver, on_loop_free, s);
	stream_half_close(s);
}
