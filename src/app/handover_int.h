#ifndef APP_HANDOVER_INT_H
#define APP_HANDOVER_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What two servers say to each other when one takes the place of the other (OP-901), for both sides of it and for the
 * table of start.c. */

struct app;

/* --- words, and the side of the one that serves: handover.c */

#define APP_WORD_MAGIC UINT32_C(0x43524942)
#define APP_WORD_PROTOCOL 1             /* raised when a word changes: others are refused */
#define APP_WORD_MS 10000               /* for the next word, and for room in the socket */
enum app_words { APP_ASKS = 1, APP_SERVES, APP_IS_TOLD, APP_LISTENS, APP_THAT_IS_ALL, APP_GOES,
	APP_CONNECTED, APP_STORE, APP_REFUSES };
struct app_word {
	uint32_t magic, protocol, word, flag;
	int64_t number;
	char text[232];
};
/* With a descriptor, or -1.  False: it did not leave. */
bool app_word_say(int fd, enum app_words word, int64_t number, const char *text, int passed);
/* 1: a word, with *ret_fd, the caller's, or -1; 0: the end; ERR_TIMEOUT; ERR_INVALID: no word of ours. */
int app_word_hear(int fd, uint32_t ms, struct app_word *ret, int *ret_fd);
int app_handover_start(struct app *a, struct err *err) MUST_CHECK;
void app_handover_stop(struct app *a);
/* At the very end.  True: the store is another process's, with its lock. */
bool app_handover_end(struct app *a);

/* --- the side of the one that takes over: take_over.c */

int app_given_start(struct app *a, struct err *err) MUST_CHECK;         /* sockets that others have opened */
void app_given_stop(struct app *a);
int app_take_over_start(struct app *a, struct err *err) MUST_CHECK;     /* now: until the store is ours */
int app_take_over_adopt(struct app *a, struct err *err) MUST_CHECK;     /* connections, behind the listeners */
char *app_take_over_said(const struct app *a);                          /* for the record of the start; "" = as usual */

#endif
