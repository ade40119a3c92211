#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Buffered bytes over non-blocking descriptors: a socket, or a pair (stdio).  A turn of the loop reads at most
 * STREAM_TURN_BYTES of one stream, and writes at most as much to a socket (SEC S-820); output is gathered and written
 * at the end of the turn.  Above STREAM_OUT_HIGH queued bytes reading pauses; above STREAM_OUT_MAX, or when less than
 * STREAM_STALL_BYTES could be written in STREAM_STALL_MS, the stream ends with STREAM_OVERFLOW or STREAM_STALLED (SEC
 * S-116, S-830).  Loop thread. */

#define STREAM_TURN_BYTES (64u << 10)
#define STREAM_OUT_HIGH (256u << 10)
#define STREAM_OUT_MAX (1u << 20)       /* beside the one answer that is larger by itself */
#define STREAM_STALL_MS 30000
#define STREAM_STALL_BYTES (16u << 10)  /* or all that is queued */
#define STREAM_LINGER_MS 2000           /* for the peer to read the last answer before its unread bytes reset it */

struct ev_loop;
struct stream;
struct tls;

enum stream_end { STREAM_EOF, STREAM_RESET, STREAM_OVERFLOW, STREAM_STALLED };
struct stream_ops {
	/* Bytes are there: take n of them from the front by returning n (0 = wait for more).  Called again while
	 * something is taken and the turn's budget lasts.  The callee may close or finish the stream inside. */
	size_t (*data)(void *arg, const char *p, size_t len);
	/* STREAM_EOF: the peer will send no more, once, after all data was offered; writing still works.  Any
	 * other: the stream is dead; once, last.  Never from inside a call of this module. */
	void (*ended)(void *arg, enum stream_end why);
	/* The output queue has become empty; may be NULL. */
	void (*drained)(void *arg);
};
/* fds are taken (out_fd may equal in_fd).  in_max: bytes that may wait unread by data(); reading stops there. */
struct stream *stream_new(struct ev_loop *loop, int in_fd, int out_fd, size_t in_max, const struct stream_ops *ops,
			  void *arg);
/* Right after stream_new() with a socket: all bytes travel inside of t, which is taken.  The peer's close_notify is its
 * end; an end without it is STREAM_RESET.  Our own is said before the socket is shut (RFC 8446 6.1). */
void stream_tls(struct stream *s, struct tls *t);
/* Right after stream_new(): its bytes may be secrets, and are overwritten wherever they were (SEC S-344). */
void stream_wipe(struct stream *s);
/* Right after stream_new() with a Unix socket: descriptors that come with its bytes are kept, STREAM_FDS_MAX at a time;
 * without it, and beyond them, they are closed. */
#define STREAM_FDS_MAX 16
void stream_take_fds(struct stream *s);
/* Up to n of those that came first; from here on they are the caller's.  How many. */
size_t stream_fds(struct stream *s, int *ret, size_t n);
void stream_write(struct stream *s, const void *p, size_t len);         /* copied */
/* For one large answer: counts towards the high water only, never towards STREAM_OUT_MAX. */
void stream_write_answer(struct stream *s, const void *p, size_t len);
size_t stream_queued(const struct stream *s);
void stream_pause(struct stream *s, bool paused);                       /* stop calling data() */
/* It is read behind all others: EV_BEHIND_MAX in a turn of the loop. */
void stream_behind(struct stream *s, bool behind);
void stream_in_max(struct stream *s, size_t in_max);
void stream_stall_ms(struct stream *s, uint32_t ms);                    /* instead of STREAM_STALL_MS */
/* Call data() again with what waits: after a pause ended or more is wanted. */
void stream_kick(struct stream *s);
/* No more writing: once the queue is written the peer sees the end; what it still sends is dropped.  data() is not
 * called any more, ended() comes once more: STREAM_EOF when the peer has closed too or STREAM_LINGER_MS have passed. */
void stream_half_close(struct stream *s);
/* The same without any callback; the stream frees itself. */
void stream_finish(struct stream **s);
/* Another descriptor of its socket, when nothing waits in either direction and there is no TLS; else -1. */
int stream_dup(const struct stream *s);
void stream_close(struct stream **s);                                   /* at once */

/* --- lines */

/* Newline frames: "text\n" or "text\r\n"; pure.  Returns how many bytes the first line takes with its end and sets
 * *ret_len to its length without; 0 = not whole yet; -1 = longer than max.  from: bytes that an earlier call has
 * searched already (0 at first), so that the search is linear. */
ssize_t line_next(const char *p, size_t len, size_t from, size_t max, size_t *ret_len);

#endif
