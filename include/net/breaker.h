#ifndef NET_BREAKER_H
#define NET_BREAKER_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Circuit breakers: a server that fails again and again rests, so that calls fail at once instead of waiting for it.
 * Closed: requests pass.  BREAKER_FAILURES failures within BREAKER_WINDOW_MS, none of them followed by a success: open,
 * requests are refused for BREAKER_REST_MS.  Then half open: one request is the probe, its outcome closes or opens.
 * One per scope, host and port, because what one tenant provokes is no other's business.  Loop thread. */

#define BREAKER_FAILURES 5
#define BREAKER_WINDOW_MS 60000
#define BREAKER_REST_MS 10000
#define BREAKER_HOSTS_MAX 4096          /* servers that fail; beyond it the one that failed longest ago is forgotten */

struct breakers;
enum breaker_word { BREAKER_GOOD, BREAKER_BAD, BREAKER_UNSAID };  /* unsaid: cancelled, or never sent */

struct breakers *breakers_new(void);
void breakers_free(struct breakers **b);
/* 0: go on, and tell.  Else the milliseconds until it is worth a try. */
uint32_t breaker_ask(struct breakers *b, const char *scope, const char *host, uint16_t port, uint64_t now_us);
void breaker_tell(struct breakers *b, const char *scope, const char *host, uint16_t port, enum breaker_word word,
		  uint64_t now_us);
FOR_TESTS size_t breakers_count(const struct breakers *b);/* servers that are remembered */

#endif
