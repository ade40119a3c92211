#ifndef MCP_SUBS_INT_H
#define MCP_SUBS_INT_H

#include "registry/registry.h"

#include <stddef.h>

/* The resources that a peer or a listen is told of.  A subscription remembers which version of a definition its URI
 * led to; when it leads to another one, or to none, the resource has been updated. */

struct mcp_exchange;
struct mcp_sub;
struct mcp_tenant;
struct mcp_subs {
	struct mcp_sub *sub; size_t n;
	struct mcp_tenant *tenant;      /* with n > 0 */
};

enum subs_added { SUBS_ADDED, SUBS_UNKNOWN, SUBS_FULL };
/* x: whose scopes hold; what they leave out is unknown. */
enum subs_added subs_add(struct mcp_subs *s, const struct reg_snapshot *snap, const struct mcp_exchange *x, const char *uri);
void subs_remove(struct mcp_subs *s, const char *uri);  /* a no-op when it is not there */
const char *subs_uri(const struct mcp_subs *s, size_t i);
void subs_mark(struct mcp_subs *s, const char *uri);    /* it has changed, whatever its definition: subs_tell() says so */
/* Call fn for each resource that is another one than when it was last looked at; how many. */
typedef void subs_fn(void *arg, const char *uri);
size_t subs_tell(struct mcp_subs *s, const struct reg_snapshot *snap, subs_fn *fn, void *arg);
void subs_fini(struct mcp_subs *s);

/* What all peers of a tenant are subscribed to (watch.c): each subscription is one join.  False: no more can be
 * watched. */
bool watch_join(struct mcp_tenant *t, const struct reg_snapshot *snap, const char *uri);
void watch_leave(struct mcp_tenant *t, const char *uri);
void watch_look(struct mcp_tenant *t, const struct reg_snapshot *snap);        /* it is a new one */
void watch_fini(struct mcp_tenant *t);
/* What a resource gives is another: whoever is subscribed to it is told soon, of all such at once
 * (notify.c). */
void notify_updated(struct mcp_tenant *t, const char *uri);
void notify_marked(void *tenant);                               /* timer */

#endif
