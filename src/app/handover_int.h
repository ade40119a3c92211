#ifndef APP_HANDOVER_INT_H
#define APP_HANDOVER_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/err.h"
#include "call/call.h"

/* What two servers say to each other when one takes the place of the other (OP-901), for both sides of it and for the
 * table of start.c. */

struct app;

/* --- words: words.c */

#define APP_WORD_MAGIC UINT32_C(0x43524942)
#define APP_WORD_PROTOCOL 2             /* raised when a word changes: others are refused */
#define APP_WORD_MS 10000               /* for the next word, and for room in the socket */
enum app_words { APP_ASKS = 1, APP_SERVES, APP_IS_TOLD, APP_LISTENS, APP_THAT_IS_ALL, APP_GOES,
	APP_CONNECTED, APP_STORE, APP_REFUSES,
	/* Of calls that run on in the old server (linger.c).  Before APP_STORE: one that does; a server from before that
	 * one, whose calls come next.  Then: a record; where it stands; which of them end now. */
	APP_STAYS, APP_ELDER, APP_RECORD, APP_RECORDED, APP_CANCELS };
struct app_word {
	uint32_t magic, protocol, word, flag;
	int64_t number;
	char text[232];
};
/* With a descriptor, or -1.  False: it did not leave. */
bool app_word_say(int fd, enum app_words word, int64_t number, const char *text, int passed);
bool app_word_send(int fd, const struct app_word *word, int passed);
/* 1: a word, with *ret_fd, the caller's, or -1; 0: the end; ERR_TIMEOUT; ERR_INVALID: no word of ours. */
int app_word_hear(int fd, uint32_t ms, struct app_word *ret, int *ret_fd);

/* --- the side of the one that serves: handover.c */

int app_handover_start(struct app *a, struct err *err) MUST_CHECK;
void app_handover_stop(struct app *a);
/* At the very end, or, with stays, before that, as calls run on here: until they have ended.  True: the store is
 * another process's, with its lock, which is to be left. */
bool app_handover_end(struct app *a);

/* --- the side of the one that takes over: take_over.c */

int app_given_start(struct app *a, struct err *err) MUST_CHECK;         /* sockets that others have opened */
void app_given_stop(struct app *a);
int app_take_over_start(struct app *a, struct err *err) MUST_CHECK;     /* now: until the store is ours */
int app_take_over_adopt(struct app *a, struct err *err) MUST_CHECK;     /* connections, behind the listeners */
char *app_take_over_said(const struct app *a);                          /* for the record of the start; "" = as usual */

/* --- calls that run on in a server whose store is the next one's: linger.c */

#define APP_STAY_AFTER_MS 300           /* so long others wait for calls that may end by themselves */
#define APP_LINGER_MAX_MS 3600000       /* then they are cancelled */
#define APP_STAY_MAX 1000               /* calls of a server that run on; with more it waits for them, up to drain_ms */
#define APP_ELDERS_MAX 64               /* servers before this one that have calls, likewise */
/* The side of the old one.  Can it give the store away now?  Then it has begun to. */
bool app_linger_begin(struct app *a);
void app_linger_writer(struct app *a);                                  /* instead of the writer's end */
/* Says on fd which calls are its own, and those of older ones; pass() says the rest, false: nobody has the store.
 * Returns when the last of them has ended. */
void app_linger(struct app *a, int fd, bool (*pass)(struct app *a));
/* The side of the one that has the store. */
/* STAYS, ELDER; at last NULL with the descriptor of the one that was spoken with.  fd is taken if that is so. */
bool app_elders_word(struct app *a, int64_t pid, const struct app_word *word, int fd);
int app_elders_start(struct app *a, struct err *err) MUST_CHECK;
void app_elders_stop(struct app *a);                                    /* or, of one that lingers: listens no more */
size_t app_elders_cancel(void *app, const struct call_where *where, enum cancel_why why);
void app_elders_recheck(void *app, int64_t tenant_id);

#endif
