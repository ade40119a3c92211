/* Streams over socket pairs, and listeners. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"
#include "net/listen.h"
#include "net/stream.h"
#include "suite.h"

#define PATIENCE_MS 60000
#define IN_MAX 100

enum habit { TAKE_ALL, TAKE_LINES, TAKE_NONE, CLOSE_INSIDE, PAUSE_AFTER_ONE, FINISH_INSIDE };

struct peer {
	struct ev_loop *loop;
	struct stream *s;
	int near, far;          /* near is the stream's */
	enum habit habit;
	struct str got;
	unsigned ends, drains, calls;
	enum stream_end why;
	bool done;
};

static size_t on_data(void *arg, const char *p, size_t len)
{
	struct peer *x = arg;
	size_t take = len;
	const char *nl = memchr(p, '\n', len);
	x->calls++;
	switch (x->habit) {
	case TAKE_ALL:
		break;
	case TAKE_LINES:
		take = nl ? (size_t)(nl + 1 - p) : 0;
		break;
	case TAKE_NONE:
		take = 0;
		break;
	case CLOSE_INSIDE:
		stream_close(&x->s);
		break;
	case FINISH_INSIDE:
		stream_write(x->s, "bye", 3);
		stream_finish(&x->s);
		break;
	case PAUSE_AFTER_ONE:
		take = 1;
		stream_pause(x->s, true);
		break;
	}
	str_put(&x->got, p, take);
	return take;
}

static void on_ended(void *arg, enum stream_end why)
{
	struct peer *x = arg;
	x->why = why;
	x->ends++;
	x->done = true;
}

static void on_drained(void *arg)
{
	struct peer *x = arg;
	x->drains++;
}

static const struct stream_ops ops = { on_data, on_ended, on_drained };

static int setup(void **state)
{
	struct peer *x = mem_zalloc(sizeof(*x));
	int fds[2];
	x->loop = ev_loop_new();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	x->near = fds[0];
	x->far = fds[1];
	x->s = stream_new(x->loop, fds[0], fds[0], IN_MAX, &ops, x);
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct peer *x = *state;
	clock_real();
	stream_close(&x->s);
	ev_loop_free(&x->loop);
	if (x->far >= 0)
		close(x->far);
	str_fini(&x->got);
	free(x);
	return 0;
}

static void set_true(void *arg) { bool *flag = arg; *flag = true; }

/* What is ready is handled; nothing is waited for. */
static void run_turns(struct peer *x)
{
	for (int i = 0; i < 5; i++) {
		bool turned = false;
		ev_post(x->loop, set_true, &turned);
		assert_true(ev_loop_run_until(x->loop, &turned, PATIENCE_MS));
	}
}

static void send_far(struct peer *x, const char *z)
{
	assert_int_equal(write(x->far, z, strlen(z)), (ssize_t)strlen(z));
	run_turns(x);
}

static void read_far(struct peer *x, struct str *into)
{
	char buf[65536];
	ssize_t n;
	while ((n = read(x->far, buf, sizeof(buf))) > 0)
		str_put(into, buf, (size_t)n);
}

static void what_is_not_taken_is_offered_again_with_more(void **state)
{
	struct peer *x = *state;
	x->habit = TAKE_LINES;
	send_far(x, "one\ntwo\nthr");
	assert_string_equal(x->got.p, "one\ntwo\n");
	send_far(x, "e");
	send_far(x, "e\n");
	assert_string_equal(x->got.p, "one\ntwo\nthree\n");
}

static void end_of_file_comes_once_after_the_data(void **state)
{
	struct peer *x = *state;
	assert_int_equal(write(x->far, "last", 4), 4);
	shutdown(x->far, SHUT_WR);
	run_turns(x);
	assert_string_equal(x->got.p, "last");
	assert_int_equal(x->ends, 1);
	assert_int_equal(x->why, STREAM_EOF);
	/* Half closed: we may still write. */
	stream_write(x->s, "answer", 6);
	run_turns(x);
	char buf[16];
	assert_int_equal(read(x->far, buf, sizeof(buf)), 6);
}

static void input_is_limited(void **state)
{
	struct peer *x = *state;
	char big[3 * IN_MAX];
	memset(big, 'x', sizeof(big));
	x->habit = TAKE_NONE;
	assert_int_equal(write(x->far, big, sizeof(big)), sizeof(big));
	run_turns(x);
	unsigned calls = x->calls;
	run_turns(x);
	assert_int_equal(x->calls, calls);      /* no spinning */
	x->habit = TAKE_ALL;
	stream_kick(x->s);
	run_turns(x);
	assert_int_equal(x->got.len, sizeof(big));
}

/* HARDENING F-15, SEC S-810 */
static void test_f15_input_without_memory_ends_its_stream(void **state)
{
	struct peer *x = *state;
	x->habit = TAKE_NONE;
	mem_fail_above(10);
	send_far(x, "abc");
	mem_fail_above(SIZE_MAX);
	run_turns(x);
	assert_int_equal(x->ends, 1);
	assert_int_equal(x->why, STREAM_OVERFLOW);
}

static void pause_holds_back_and_kick_goes_on(void **state)
{
	struct peer *x = *state;
	x->habit = PAUSE_AFTER_ONE;
	send_far(x, "abc");
	assert_string_equal(x->got.p, "a");
	send_far(x, "d");
	assert_string_equal(x->got.p, "a");
	x->habit = TAKE_ALL;
	stream_pause(x->s, false);
	stream_kick(x->s);
	run_turns(x);
	assert_string_equal(x->got.p, "abcd");
}

static void close_inside_a_callback_is_the_last_one(void **state)
{
	struct peer *x = *state;
	x->habit = CLOSE_INSIDE;
	send_far(x, "x");
	assert_null(x->s);
	assert_int_equal(x->ends, 0);
	char c;
	assert_int_equal(read(x->far, &c, 1), 0);
}

static void finish_delivers_and_reports_nothing(void **state)
{
	struct peer *x = *state;
	struct str far = STR_INIT;
	x->habit = FINISH_INSIDE;
	send_far(x, "question and more");
	send_far(x, "dropped");
	read_far(x, &far);
	assert_string_equal(far.p, "bye");
	assert_int_equal(x->ends, 0);
	close(x->far);
	x->far = -1;
	run_turns(x);
	str_fini(&far);
}

static void half_close_ends_when_the_peer_closes_or_in_time(void **state)
{
	struct peer *x = *state;
	char c;
	stream_half_close(x->s);
	run_turns(x);
	assert_int_equal(read(x->far, &c, 1), 0);
	assert_int_equal(x->ends, 0);
	close(x->far);
	x->far = -1;
	run_turns(x);
	assert_int_equal(x->ends, 1);
	assert_int_equal(x->why, STREAM_EOF);
}

static void lingering_has_an_end(void **state)
{
	struct peer *x = *state;
	clock_fake(1, 1000);
	stream_half_close(x->s);
	run_turns(x);
	clock_step((STREAM_LINGER_MS - 1) * 1000ull);
	run_turns(x);
	assert_int_equal(x->ends, 0);
	clock_step(1000);
	run_turns(x);
	assert_int_equal(x->ends, 1);
}

static void writes_of_a_turn_arrive_whole_and_in_order(void **state)
{
	struct peer *x = *state;
	struct str far = STR_INIT;
	char *big = mem_zalloc(100000);
	memset(big, 'b', 100000);
	stream_write(x->s, "head", 4);
	stream_write_answer(x->s, big, 100000);
	stream_write(x->s, "tail", 4);
	run_turns(x);
	for (int i = 0; i < 100 && far.len < 100008; i++) {
		read_far(x, &far);
		run_turns(x);
	}
	assert_int_equal(far.len, 100008);
	assert_memory_equal(far.p, "headb", 5);
	assert_memory_equal(far.p + 100003, "btail", 5);
	assert_int_equal(stream_queued(x->s), 0);
	assert_true(x->drains >= 1);
	str_fini(&far);
	free(big);
}

static void pattern(char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i * 31 + i / 251);
}

static void large_answer_behind_much_output_keeps_the_order(void **state)
{
	struct peer *x = *state;
	size_t n = 3 * STREAM_OUT_HIGH;
	char *all = mem_alloc(n);
	struct str far = STR_INIT;
	pattern(all, n);
	stream_write(x->s, all, n - 100000);
	stream_write_answer(x->s, all + n - 100000, 100000);
	while (far.len < n) {
		read_far(x, &far);
		run_turns(x);
	}
	assert_int_equal(far.len, n);
	assert_memory_equal(far.p, all, n);
	str_fini(&far);
	free(all);
}

static void turn_writes_so_much_of_an_answer_and_not_more(void **state)
{
	struct peer *x = *state;
	size_t n = 2 * STREAM_TURN_BYTES + 1;
	char *big = mem_alloc(n);
	struct str far = STR_INIT;
	int room = 8 * STREAM_TURN_BYTES;
	(void)setsockopt(x->near, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	pattern(big, n);
	stream_write_answer(x->s, big, STREAM_TURN_BYTES);
	assert_int_equal(stream_queued(x->s), 0);
	run_turns(x);
	stream_write_answer(x->s, big, STREAM_TURN_BYTES + 1);
	assert_int_equal(stream_queued(x->s), 1);
	stream_write_answer(x->s, big, n);
	assert_int_equal(stream_queued(x->s), 1 + n);   /* nothing of it goes past what is due */
	while (stream_queued(x->s) > 0) {
		read_far(x, &far);
		run_turns(x);
	}
	read_far(x, &far);
	assert_int_equal(far.len, 2 * STREAM_TURN_BYTES + 1 + n);
	assert_memory_equal(far.p + 2 * STREAM_TURN_BYTES + 1, big, n);
	str_fini(&far);
	free(big);
}

/* Fill the socket so that all further output waits here. */
static void fill_socket(struct peer *x)
{
	static char chunk[65536];
	while (stream_queued(x->s) == 0) {
		stream_write(x->s, chunk, sizeof(chunk));
		run_turns(x);
	}
}

static void fill_to(struct peer *x, size_t n)
{
	static char chunk[4096];
	while (stream_queued(x->s) < n) {
		size_t left = n - stream_queued(x->s);
		stream_write(x->s, chunk, left < sizeof(chunk) ? left : sizeof(chunk));
	}
	run_turns(x);
}

static void unread_output_pauses_reading(void **state)
{
	struct peer *x = *state;
	struct str far = STR_INIT;
	fill_socket(x);
	fill_to(x, STREAM_OUT_HIGH);
	send_far(x, "a");
	assert_string_equal(str_text(&x->got), "a");
	fill_to(x, STREAM_OUT_HIGH + 1);
	send_far(x, "b");
	assert_string_equal(str_text(&x->got), "a");
	while (stream_queued(x->s) > 0) {
		read_far(x, &far);
		run_turns(x);
	}
	assert_string_equal(str_text(&x->got), "ab");
	str_fini(&far);
}

static void too_much_unread_output_ends_the_stream(void **state)
{
	struct peer *x = *state;
	fill_socket(x);
	fill_to(x, STREAM_OUT_MAX);
	assert_int_equal(x->ends, 0);
	stream_write(x->s, "x", 1);
	assert_int_equal(x->ends, 0);           /* not from inside the call */
	run_turns(x);
	assert_int_equal(x->ends, 1);
	assert_int_equal(x->why, STREAM_OVERFLOW);
}

static void closed_stream_reports_no_end(void **state)
{
	struct peer *x = *state;
	fill_socket(x);
	fill_to(x, STREAM_OUT_MAX);
	stream_write(x->s, "x", 1);
	stream_close(&x->s);
	run_turns(x);
	assert_int_equal(x->ends, 0);
}

static void a_large_answer_is_no_overflow(void **state)
{
	struct peer *x = *state;
	size_t n = 2 * STREAM_OUT_MAX;
	char *big = mem_zalloc(n);
	struct str far = STR_INIT;
	stream_write_answer(x->s, big, n);
	stream_write(x->s, "next", 4);
	run_turns(x);
	assert_int_equal(x->ends, 0);
	while (stream_queued(x->s) > 0) {
		read_far(x, &far);
		run_turns(x);
	}
	read_far(x, &far);
	assert_int_equal(far.len, n + 4);
	str_fini(&far);
	free(big);
}

static void stalled_output_ends_the_stream(void **state)
{
	struct peer *x = *state;
	clock_fake(1, 1000);
	fill_socket(x);
	clock_step(STREAM_STALL_MS * 1000ull - 1);
	run_turns(x);
	assert_int_equal(x->ends, 0);
	clock_step(1);
	run_turns(x);
	assert_int_equal(x->ends, 1);
	assert_int_equal(x->why, STREAM_STALLED);
}

static void a_peer_that_reads_drop_by_drop_stalls_too(void **state)
{
	struct peer *x = *state;
	char few[1024];         /* ten times in the stall time: something, but too little */
	const int small = 1;    /* so that the socket takes as little at a time */
	clock_fake(1, 1000);
	assert_int_equal(setsockopt(x->near, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	fill_socket(x);
	fill_to(x, STREAM_OUT_HIGH);
	for (int i = 0; i < 30 && x->ends == 0; i++) {
		assert_true(read(x->far, few, sizeof(few)) > 0);
		clock_step(STREAM_STALL_MS * 100ull);
		run_turns(x);
	}
	assert_int_equal(x->why, STREAM_STALLED);
}

static void reset_is_reported(void **state)
{
	struct peer *x = *state;
	close(x->far);
	x->far = -1;
	x->habit = TAKE_ALL;
	stream_write(x->s, "x", 1);
	run_turns(x);
	assert_int_equal(x->why, STREAM_RESET);
}

static void files_can_be_read_like_pipes(void **state)
{
	struct peer *x = *state;
	char path[] = "/tmp/t_net_stream.XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(write(fd, "line\nline\n", 10), 10);
	lseek(fd, 0, SEEK_SET);
	stream_close(&x->s);
	x->s = stream_new(x->loop, fd, open("/dev/null", O_WRONLY | O_CLOEXEC), IN_MAX, &ops, x);
	stream_write(x->s, "out", 3);
	assert_true(ev_loop_run_until(x->loop, &x->done, PATIENCE_MS));
	assert_string_equal(x->got.p, "line\nline\n");
	assert_int_equal(x->why, STREAM_EOF);
	assert_int_equal(stream_queued(x->s), 0);
}

/* --- listeners ----------------------------------------------------------------------------------- */

struct doors {
	struct ev_loop *loop;
	struct listener *l;
	int fds[16];
	unsigned n, in_turn, most;      /* accepted; in this turn of the loop; in any */
	struct accepted last;
};

static void turn_ends(void *arg)
{
	struct doors *d = arg;
	d->most = d->in_turn > d->most ? d->in_turn : d->most;
	d->in_turn = 0;
}

static void on_accept(void *arg, const struct accepted *a)
{
	struct doors *d = arg;
	d->last = *a;
	d->fds[d->n++] = a->fd;
	if (d->in_turn++ == 0)
		ev_at_turn_end(d->loop, turn_ends, d);
}

static void turns(struct doors *d)
{
	struct peer x = { .loop = d->loop };
	run_turns(&x);
}

static int dial_tcp(const char *address)
{
	struct addr a;
	assert_int_equal(addr_parse(address, &a, NULL), 0);
	int fd = socket(a.sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_true(connect(fd, (struct sockaddr *)&a.sa, a.len) == 0 || errno == EINPROGRESS);
	return fd;
}

static void close_doors(struct doors *d)
{
	for (unsigned i = 0; i < d->n; i++)
		close(d->fds[i]);
	listen_close(&d->l);
	ev_loop_free(&d->loop);
}

static void listener_accepts_up_to_its_limit(void **state)
{
	struct doors d = { .loop = ev_loop_new() };
	int far[3];
	assert_int_equal(listen_tcp(d.loop, "127.0.0.1:0", 2, on_accept, &d, &d.l, NULL), 0);
	for (int i = 0; i < 3; i++)
		far[i] = dial_tcp(listen_address(d.l));
	turns(&d);
	assert_int_equal(d.n, 2);
	assert_int_equal(listen_live(d.l), 2);
	assert_string_equal(d.last.from, "127.0.0.1");
	assert_int_equal(d.last.uid, -1);
	listen_conn_gone(d.l);
	turns(&d);
	assert_int_equal(d.n, 3);
	for (int i = 0; i < 3; i++)
		close(far[i]);
	close_doors(&d);
}

/* FAULT F28: an idle peer that is gone without a word. */
static void who_is_accepted_is_asked_whether_it_is_there(void **state)
{
	static const char *const addresses[] = { "127.0.0.1:0", "[::1]:0" };
	for (size_t i = 0; i < NELEMS(addresses); i++) {
		struct doors d = { .loop = ev_loop_new() };
		int on = 0, idle_s = 0, between_s = 0, probes = 0;
		socklen_t size = sizeof(int);
		assert_int_equal(listen_tcp(d.loop, addresses[i], 2, on_accept, &d, &d.l, NULL), 0);
		int far = dial_tcp(listen_address(d.l));
		turns(&d);
		assert_int_equal(d.n, 1);
		assert_int_equal(getsockopt(d.fds[0], SOL_SOCKET, SO_KEEPALIVE, &on, &size), 0);
		assert_int_equal(getsockopt(d.fds[0], IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &size), 0);
		assert_int_equal(getsockopt(d.fds[0], IPPROTO_TCP, TCP_KEEPINTVL, &between_s, &size), 0);
		assert_int_equal(getsockopt(d.fds[0], IPPROTO_TCP, TCP_KEEPCNT, &probes, &size), 0);
		assert_true(on);
		assert_in_range(idle_s + between_s * probes, 1, 180);
		close(far);
		close_doors(&d);
	}
}

static void paused_listener_accepts_nothing(void **state)
{
	struct doors d = { .loop = ev_loop_new() };
	assert_int_equal(listen_tcp(d.loop, "[::1]:0", 2, on_accept, &d, &d.l, NULL), 0);
	listen_pause(d.l, true);
	int far = dial_tcp(listen_address(d.l));
	turns(&d);
	assert_int_equal(d.n, 0);
	listen_pause(d.l, false);
	turns(&d);
	assert_int_equal(d.n, 1);
	assert_string_equal(d.last.from, "::1");
	close(far);
	close_doors(&d);
}

/* SEC S-807 */
static void slow_listener_takes_few_a_turn(void **state)
{
	struct doors d = { .loop = ev_loop_new() };
	int far[NELEMS(d.fds)];
	assert_int_equal(listen_tcp(d.loop, "127.0.0.1:0", 100, on_accept, &d, &d.l, NULL), 0);
	listen_slow(d.l, true);
	for (unsigned i = 0; i < NELEMS(far) / 2; i++)
		far[i] = dial_tcp(listen_address(d.l));
	turns(&d);
	assert_int_equal(d.n, NELEMS(far) / 2);
	assert_int_equal(d.most, LISTEN_SLOW);
	listen_slow(d.l, false);
	for (unsigned i = NELEMS(far) / 2; i < NELEMS(far); i++)
		far[i] = dial_tcp(listen_address(d.l));
	turns(&d);
	assert_int_equal(d.n, NELEMS(far));
	assert_true(d.most > LISTEN_SLOW);
	for (unsigned i = 0; i < NELEMS(far); i++)
		close(far[i]);
	close_doors(&d);
}

static void taken_address_is_named(void **state)
{
	struct doors d = { .loop = ev_loop_new() }, other = d;
	struct err err;
	assert_int_equal(listen_tcp(d.loop, "127.0.0.1:0", 2, on_accept, &d, &d.l, NULL), 0);
	assert_int_equal(listen_tcp(d.loop, listen_address(d.l), 2, on_accept, &other, &other.l, &err), ERR_UNREACHABLE);
	assert_string_equal(err.where, listen_address(d.l));
	assert_string_equal(err.msg, "cannot listen: Address already in use");
	close_doors(&d);
}

/* SEC S-811 */
static void no_more_descriptors_pauses_and_goes_on(void **state)
{
	struct doors d = { .loop = ev_loop_new() };
	struct rlimit before, few;
	assert_int_equal(listen_tcp(d.loop, "127.0.0.1:0", 10, on_accept, &d, &d.l, NULL), 0);
	int far = dial_tcp(listen_address(d.l)), far2 = dial_tcp(listen_address(d.l));
	int top = dup(far2);
	close(top);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)top;
	clock_fake(1, 1000);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	turns(&d);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(d.n, 0);
	char c;
	assert_int_equal(recv(far, &c, 1, 0), 0);       /* turned away, not left waiting */
	turns(&d);
	assert_int_equal(d.n, 0);
	clock_step(100000);
	turns(&d);
	assert_int_equal(d.n, 1);
	clock_real();
	close(far);
	close(far2);
	close_doors(&d);
}

static void unix_socket_replaces_a_stale_one_and_knows_its_peer(void **state)
{
	struct doors d = { .loop = ev_loop_new() }, old = d;
	char dir[] = "/tmp/t_net_stream.XXXXXX";
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct stat st;
	struct err err;
	assert_non_null(mkdtemp(dir));
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%.40s/mcp.sock", dir);
	assert_int_equal(listen_unix(d.loop, sa.sun_path, 0660, 10, on_accept, &old, &old.l, NULL), 0);
	assert_int_equal(listen_unix(d.loop, sa.sun_path, 0660, 10, on_accept, &d, &d.l, NULL), 0);
	assert_int_equal(stat(sa.sun_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	int far = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(far, (struct sockaddr *)&sa, sizeof(sa)), 0);
	turns(&d);
	assert_int_equal(d.n, 1);
	assert_int_equal(d.last.uid, getuid());
	assert_int_equal(d.last.pid, getpid());
	assert_string_equal(d.last.from, "unix");
	close(far);
	listen_close(&old.l);
	struct ev_loop *loop = d.loop;
	d.loop = NULL;
	close_doors(&d);
	ev_loop_free(&loop);
	assert_int_equal(stat(sa.sun_path, &st), -1);

	FILE *f = fopen(sa.sun_path, "w");
	fclose(f);
	d.loop = ev_loop_new();
	assert_int_equal(listen_unix(d.loop, sa.sun_path, 0660, 10, on_accept, &d, &d.l, &err), ERR_CONFLICT);
	ev_loop_free(&d.loop);
	unlink(sa.sun_path);
	rmdir(dir);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

SINGLE_THREAD_SUITE(stream)
{
	const struct CMUnitTest tests[] = {
		T(what_is_not_taken_is_offered_again_with_more),
		T(end_of_file_comes_once_after_the_data),
		T(input_is_limited),
		T(pause_holds_back_and_kick_goes_on),
		T(close_inside_a_callback_is_the_last_one),
		T(finish_delivers_and_reports_nothing),
		T(half_close_ends_when_the_peer_closes_or_in_time),
		T(lingering_has_an_end),
		T(writes_of_a_turn_arrive_whole_and_in_order),
		T(turn_writes_so_much_of_an_answer_and_not_more),
		T(large_answer_behind_much_output_keeps_the_order),
		T(unread_output_pauses_reading),
		T(too_much_unread_output_ends_the_stream),
		T(closed_stream_reports_no_end),
		T(a_large_answer_is_no_overflow), T(test_f15_input_without_memory_ends_its_stream),
		T(stalled_output_ends_the_stream),
		T(a_peer_that_reads_drop_by_drop_stalls_too),
		T(reset_is_reported),
		T(files_can_be_read_like_pipes),
		cmocka_unit_test(listener_accepts_up_to_its_limit),
		cmocka_unit_test(who_is_accepted_is_asked_whether_it_is_there),
		cmocka_unit_test(paused_listener_accepts_nothing),
		cmocka_unit_test(slow_listener_takes_few_a_turn),
		cmocka_unit_test(taken_address_is_named),
		cmocka_unit_test(no_more_descriptors_pauses_and_goes_on),
		cmocka_unit_test(unix_socket_replaces_a_stale_one_and_knows_its_peer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
