#ifndef UPSTREAM_MCP_INT_H
#define UPSTREAM_MCP_INT_H

#include "link_int.h"

/* mcp: what is run (mcp.c), and what has come back (item.c). */

struct mcp_plan {
	const char *upstream;
	enum upstream_kind kind;
	const char *name, *key;         /* there */
	const char *argument;           /* to be completed, of a prompt or a template; NULL: it is called, got, read */
	bool has_digest;
	uint8_t digest[32];
};

/* A result of a server as a tree.  ERR_TOOL, ERR_LIMIT. */
int mcp_parse(struct jx_span span, size_t max, json_t **ret, struct err *err) MUST_CHECK;
/* A result there as one of ours; what is taken over leaves it.  ERR_TOOL. */
int mcp_take(const struct mcp_plan *plan, const struct upstream_conf *conf, json_t *result, struct backend_result *res,
	     struct err *err) MUST_CHECK;
/* Of what the protocol keeps for itself; pages by their URIs here. */
void mcp_clean_meta(json_t *obj, const char *prefix);

#endif
