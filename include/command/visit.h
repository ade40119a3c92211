#ifndef COMMAND_VISIT_H
#define COMMAND_VISIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "command/command.h"

/* Visits: browsers that are signed in at the console (CONSOLE 5), and the doors by which that process gives commands on
 * their behalf.  They are kept in memory alone, and a token as its SHA-256 (decision 0160).  Loop thread. */

struct visits;
struct visit;

#define VISIT_TOKEN_SIZE 44             /* 43 characters of base62, and the NUL */
#define VISIT_LINK_MS 60000             /* how long a link opens something, once */
#define VISIT_LINKS_MAX 4               /* open ones of one administrator */
#define VISITS_MAX 256
#define VISITS_SHARE_MAX 8              /* of one administrator */
#define VISIT_IDLE_MS (30u * 60000)     /* without a command of its own */
#define VISIT_MAX_MS (12u * 3600000)    /* from its beginning on */
#define VISIT_FROM_SIZE 64

struct visits *visits_new(void);
/* All of them end. */
void visits_free(struct visits **v);
/* Where browsers find the console, "http://host:port"; NULL: nowhere. */
void visits_at(struct visits *v, const char *url);
const char *visits_url(const struct visits *v);

/* A link by which a browser signs in as this administrator: its token.  ERR_BUSY: VISIT_LINKS_MAX are open. */
int visits_link(struct visits *v, const struct actor *who, char ret[VISIT_TOKEN_SIZE], struct err *err) MUST_CHECK;
/* The link is used up; visit_first_token() tells the visit's, once.  *ret is held as below.  ERR_DENIED: there is no
 * such link, or not any more; ERR_BUSY: there are too many visits, and the link stays. */
int visits_enter(struct visits *v, const char *link, const char *from, struct visit **ret,
		 struct err *err) MUST_CHECK;
/* The visit with this token, which has been seen just now, held: it lives until visit_drop(), however it ends
 * meanwhile.  NULL: there is none. */
struct visit *visits_find(struct visits *v, const char *token);
void visit_drop(struct visit *visit);

/* Who it is, with itself as its visit; lives while the visit does. */
const struct actor *visit_actor(const struct visit *visit);
/* It has ended: whatever still runs for it has no rights. */
bool visit_is_over(const struct visit *visit);
void visit_end(struct visit *visit);

struct visit_view {
	uint64_t id;
	const char *from;
	uint64_t since_us, seen_us, until_us;   /* wall clock; until: if nothing else is seen of it */
};
typedef void visit_fn(void *arg, struct visit *visit, const struct visit_view *view);
/* Each, the oldest first; fn may end it. */
void visits_each(struct visits *v, visit_fn *fn, void *arg);

/* The token of a visit that begins, until its first visit_drop(); then "". */
const char *visit_first_token(const struct visit *visit);

/* --- doors */

/* One line for a command, as on the owner's socket, with "visit": the token, "from": the address, and "limited": how
 * often a bound of the console's own refused something since the last one, or none; of
 * `console enter` the args are {"link": TOKEN} and there is no visit.  {"stop":true}: nobody waits for the answer any
 * more.  Commands are those whose row says `console`. */
struct command_door;
#define DOOR_LINE_MAX (64u << 10)
#define DOOR_LIMITED_MAX 1000000        /* that a line may tell */
#define DOOR_QUEUED_MAX (256u << 10)    /* bytes of a stream that have not been taken yet */
/* fd is taken.  What breaks the form ends the door: gone(arg) follows, once, and the door is closed by then. */
struct command_door *command_door_open(struct commands *a, struct ev_loop *loop, int fd, void (*gone)(void *arg),
				       void *arg);
/* Without gone(). */
void command_door_close(struct command_door **door);

#endif
