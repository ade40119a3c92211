#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stdint.h>

/* Every fallible function returns 0 or a negative err_code and fills *err when err is not NULL;
 * outputs stay untouched on failure. */
#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
/* Before a declaration: a seam, which tests alone look through.  contrib/house --check holds it to that. */
#define FOR_TESTS

enum err_code {
	ERR_OK = 0,
	ERR_IO = -1,
	ERR_TIMEOUT = -2,
	ERR_CANCELLED = -3,
	ERR_INVALID = -4,     /* input means nothing; err.where points into it */
	ERR_NOT_FOUND = -5,   /* also for what the caller must not see (MCP B-13) */
	ERR_DENIED = -6,
	ERR_CAPABILITY = -7,  /* the client did not declare a capability; where names it (-32021) */
	ERR_LIMIT = -8,       /* larger, deeper or longer than allowed */
	ERR_RATE = -9,        /* too often or too many at once; retry_ms says when (4290) */
	ERR_BUSY = -10,       /* a queue is full */
	ERR_AUDIT = -11,      /* no durable record: nothing may run, nothing may leave (5030) */
	ERR_CONFLICT = -12,   /* somebody changed it in between, or it exists already */
	ERR_CORRUPT = -13,    /* stored data contradicts itself */
	ERR_UNCERTAIN = -14,  /* unknown whether the change happened */
	ERR_INTERNAL = -15,   /* our bug */
	ERR_UNREACHABLE = -16, /* the store or the server cannot be reached, opened or read */
	ERR_TOOL = -17,       /* the tool itself failed (exit status, signal, bad output); ends as isError */
};

struct err {
	enum err_code code;
	uint32_t retry_ms;    /* with ERR_RATE, ERR_BUSY, ERR_AUDIT: when to try again; 0 = unknown */
	char where[160];      /* a JSON pointer, file:line:column, "idx/42" or an SQL name; "" = nowhere */
	char msg[320];        /* one English sentence without a final stop; never a secret */
	char hint[192];       /* what to do about it ("did you mean get_weather?"); "" = none */
};

/* Fill *e (may be NULL) and return code, so that `return err_set(…)` reads well.  The texts are
 * cut, never overrun.  hint and retry_ms are cleared.  Any thread. */
int err_set(struct err *e, enum err_code code, const char *where, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Put context in front of the message ("tool weather: …"); code, where and hint stay.  Returns
 * e->code, or ERR_INTERNAL when e is NULL. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Put a prefix in front of `where` ("/inputSchema" + "/type"). */
void err_at(struct err *e, const char *prefix);
/* Set the hint.  NULL-safe. */
void err_hint(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The lower-case name of a code, "not_found"; "ok" for 0, "unknown" otherwise.  Static text. */
const char *err_name(int code);
/* The code of a name, or ERR_INTERNAL; the inverse of err_name(), for the admin socket. */
enum err_code err_from_name(const char *name);

#endif
