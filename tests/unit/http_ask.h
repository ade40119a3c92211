#ifndef TESTS_HTTP_ASK_H
#define TESTS_HTTP_ASK_H

/* One HTTP listener, and requests to it byte by byte, for the tests of src/transport/tr_http*.c. */

#include "fake_mcp.h"
#include "tr_rig.h"

#include <stdbool.h>

/* As in the module's own headers, which are on nobody's path. */
#define TRANSPORT_MESSAGE_MAX (10u << 20)
#define TR_HTTP_PARAMS_MAX 16
#define TR_HTTP_ORIGIN_MAX 255

#define NOW_US 1800000000000000ull
#define SECOND_US 1000000ull
#define HTTP_ACCEPT "Accept: application/json, text/event-stream\r\n"

extern struct tr_rig rig;               /* opened for each test */
extern struct tr_peer *peer;            /* who asked last */

int open_rig(void **state);
int open_frozen(void **state);          /* with a clock that the test steps */
int close_rig(void **state);

/* A request: NULL members are as usual, NONE is left out. */
struct ask {
	bool session;                   /* GET of the session's stream is usual, else POST of a message */
	const char *method, *target, *host, *key, *type;
	const char *more;               /* further header lines */
	const char *body;
};
extern const char NONE[1];
#define ASK(...) (&(struct ask){ __VA_ARGS__ })
#define SESSION_ASK(...) (&(struct ask){ .session = true, __VA_ARGS__ })

/* On the peer of this test; a new one where the last was closed. */
void send_ask(const struct ask *a);
/* The status of the whole answer; its head and body are the peer's. */
int ask(const struct ask *a);
bool head_has(const char *line);        /* without its CR LF */
const char *body(void);

#define T(fn) cmocka_unit_test_setup_teardown(fn, open_rig, close_rig)
#define FROZEN(fn) cmocka_unit_test_setup_teardown(fn, open_frozen, close_rig)

#endif
