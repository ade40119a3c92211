#ifndef MCP_SUBS_INT_H
#define MCP_SUBS_INT_H

#include "registry/registry.h"

#include <stddef.h>

/* The resources that a peer or a listen is told of.  A subscription remembers which version of a definition its URI
 * led to; when it leads to another one, or to none, the resource has been updated. */

struct mcp_sub;
struct mcp_subs {
	struct mcp_sub *sub; size_t n;
	size_t *of_tenant;              /* how many all peers of the tenant have */
};

enum subs_added { SUBS_ADDED, SUBS_UNKNOWN, SUBS_FULL };
enum subs_added subs_add(struct mcp_subs *s, const struct reg_snapshot *snap, size_t *of_tenant, const char *uri);
void subs_remove(struct mcp_subs *s, const char *uri);  /* a no-op when it is not there */
const char *subs_uri(const struct mcp_subs *s, size_t i);
/* Call fn for each resource that is another one than when it was last looked at; how many. */
typedef void subs_fn(void *arg, const char *uri);
size_t subs_tell(struct mcp_subs *s, const struct reg_snapshot *snap, subs_fn *fn, void *arg);
void subs_fini(struct mcp_subs *s);

#endif
