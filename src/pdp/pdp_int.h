#ifndef PDP_INT_H
#define PDP_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "conf/conf.h"
#include "pdp/pdp.h"

/* answer.c: what an answer means.  Pure; any thread. */
struct pdp_reply {                      /* an answer whose body has come whole */
	int status;
	const char *type;               /* Content-Type, or NULL */
	const char *id;                 /* X-Request-ID, or NULL */
	const char *cache, *age;        /* Cache-Control, Age, or NULL */
	const char *body; size_t len;
};
struct pdp_sent {                       /* and what it answers */
	const char *id, *text; size_t len;
	const char *reason;             /* pointer to what its caller may be told, or NULL */
};
struct pdp_meaning {
	enum pdp_word word;
	uint64_t max_age_s;             /* so long it may be used again; 0: it may not */
	char why[PDP_WHY_SIZE];
	char reason[PDP_REASON_MAX + 1];
};
void pdp_read_answer(const struct pdp_reply *r, const struct pdp_sent *sent, struct pdp_meaning *ret);
/* Of /.well-known/authzen-configuration of url: where an evaluation is asked for.  ERR_INVALID and those of jx_parse():
 * it is not to be used. */
int pdp_read_metadata(const char *body, size_t len, const char *url, struct str *ret_endpoint,
		      struct err *err) MUST_CHECK;

/* request.c: the body of a request.  Pure; loop thread.  ERR_LIMIT: what would be sent is too large. */
int pdp_put_request(const struct pdp_question *q, enum conf_pdp_arguments arguments, struct str *out,
		    struct err *err) MUST_CHECK;

#endif
