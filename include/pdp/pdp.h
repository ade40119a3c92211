#ifndef PDP_PDP_H
#define PDP_PDP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "registry/registry.h"

/* Policy decision points: services that the list `pdp` of the configuration names and that decide about calls beside
 * us, asked by OpenID AuthZEN 1.0, over TLS or a Unix socket.  What they say can only take away: grants, scopes and
 * limits have been looked at before.  Whatever is no clear permit refuses.  Loop thread. */

struct conf;
struct ev_loop;
struct fetcher;
struct pdp_asking;
struct pdps;
struct principal;
struct secret_source;

#define PDP_RUNNING_MAX 256             /* requests of one that are under way */
#define PDP_WAITING_MAX 1024            /* and wait for that; beyond it calls are refused */
#define PDP_ANSWER_MAX 65536            /* bytes */
#define PDP_CACHE_MAX 4096              /* answers of one that are kept; beyond it the oldest goes */
#define PDP_REASON_MAX 200              /* bytes of what a caller is told */
#define PDP_WHY_SIZE 256
#define PDP_NO_ANSWER "no answer"      /* in what is said of one for people */
#define PDP_ARGUMENTS_MAX 65536         /* bytes of arguments that are sent; a call with more is refused */

struct pdps_env {                       /* borrowed for life */
	struct ev_loop *loop;
	struct fetcher *fetcher;
	const struct conf *conf;
	const struct secret_source *secrets;
};
/* Is what the list names there, and may it be asked?  Files and the folders of sockets are looked at. */
int pdps_check(const struct conf *conf, struct err *err) MUST_CHECK;
/* *ret NULL: the list is empty. */
int pdps_open(const struct pdps_env *env, struct pdps **ret, struct err *err) MUST_CHECK;
void pdps_close(struct pdps **p);       /* nobody asks any more */
/* Forget all answers that are kept; how many those were. */
size_t pdps_flush(struct pdps *p);
/* Is there anybody to be asked about this tenant's calls?  p NULL: no. */
bool pdp_applies(const struct pdps *p, const char *tenant);

struct pdp_question {                   /* borrowed for the call */
	const struct principal *who;
	const struct reg_tool *tool;
	const struct reg_compiled *compiled;
	enum reg_kind kind;             /* REG_RESOURCE, with uri; REG_TEMPLATE: completing */
	bool completing;
	const char *uri;                /* what is read */
	const char *client;             /* as claimed; NULL: unknown */
	int tport;                      /* enum audit_tport */
	const json_t *args; const char *args_text; size_t args_len;
	const uint8_t *call_id;         /* 16 bytes */
	bool shown;                     /* pdp_request_text() is wanted */
};

enum pdp_word { PDP_UNSAID, PDP_ALLOW, PDP_DENY, PDP_NONE };    /* none: no answer that counts */
const char *pdp_word_name(enum pdp_word word);          /* "allow", "deny", "none"; NULL: it was not waited for */
struct pdp_said {                       /* what one of them has said */
	const char *name;
	enum pdp_word word;
	bool cached;
	int status;                     /* of HTTP; 0: there was none */
	uint32_t ms;
	uint8_t digest[32];             /* SHA-256 of the request */
	char why[PDP_WHY_SIZE];         /* of a denial its context, of none what is wrong; for people who administer */
};
struct pdp_verdict {
	enum pdp_word word;             /* PDP_ALLOW: all of them; else what against has said, the first that did not */
	const struct pdp_said *against;
	char reason[PDP_REASON_MAX + 1];        /* what the caller may be told beside; "" = nothing */
	size_t n;
	struct pdp_said said[];
};
typedef void pdp_done_fn(void *arg, const struct pdp_verdict *v);
/* Ask all that apply.  What is known at once is there in pdp_verdict() when it returns; else done() follows, once, not
 * from inside.  What is returned is the caller's to pdp_forget(). */
struct pdp_asking *pdp_ask(struct pdps *p, const struct pdp_question *q, pdp_done_fn *done, void *arg);
const struct pdp_verdict *pdp_verdict(const struct pdp_asking *a);      /* NULL: not yet */
void pdp_forget(struct pdp_asking **a); /* what is under way is cancelled, and nobody hears of it */
/* For commands: what would be sent, of the i-th that applies, as JSON; NULL: there is none. */
const char *pdp_request_text(const struct pdp_asking *a, size_t i);

struct pdp_view {                       /* for status */
	const char *name, *place;       /* URL up to its host, or path of the socket */
	const char *why;                /* what was wrong the last time; "" = it answers, or was not asked yet */
	size_t running, waiting, kept;
	uint64_t asked, allowed, denied, failed, cached;        /* since the start */
};
struct str;
void pdps_describe(const struct pdps *p, struct str *ret);      /* appended, for people; nothing where p is NULL */
void pdps_each(const struct pdps *p, void (*fn)(void *arg, const struct pdp_view *v), void *arg);

#endif
