#ifndef BACKEND_UPSTREAM_H
#define BACKEND_UPSTREAM_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Upstreams: the MCP servers whose tools are hosted.  A document of kind upstream says how one is reached; a sync
 * reads its tools, each of which becomes a definition whose handler is `type: mcp` and carries the digest of the tool
 * as it was read.  Nothing that an upstream says is trusted (SEC S-731). */

struct backend_secrets;
struct db;
struct ev_loop;
struct fetcher;
struct run_cage;
struct upstreams;

/* --- documents: pure functions, any thread */

#define UPSTREAM_TEXT_MAX (64u << 10)   /* bytes of a document as JSON */
#define UPSTREAM_PREFIX_MAX 32          /* bytes in front of the names of its tools */
#define UPSTREAM_ARGV_MAX 64
#define UPSTREAM_ENV_MAX 64
#define UPSTREAM_HEADERS_MAX 32
#define UPSTREAM_IDLE_MIN_MS 1000
#define UPSTREAM_IDLE_MAX_MS 86400000
#define UPSTREAM_IDLE_DEFAULT_MS 600000 /* a link without a call for so long is ended */

struct upstream_doc {
	char name[64];
	char prefix[UPSTREAM_PREFIX_MAX + 1];
	uint8_t digest[32];             /* SHA-256 of the canonical document */
	char *text;                     /* JSON to store */
};
/* Check one document.  ERR_INVALID with where = JSON pointer into it. */
int upstream_define(const json_t *doc, struct upstream_doc *ret, struct err *err) MUST_CHECK;
void upstream_doc_free(struct upstream_doc *d);
bool upstream_prefix_valid(const char *prefix);

/* --- tools as they are there */

#define UPSTREAM_TOOLS_MAX 2000         /* of one upstream */

struct upstream_tool {
	char *name;                     /* there */
	uint8_t digest[32];             /* SHA-256 of the canonical tool object */
	char *text;                     /* the tool object, JSON */
};
struct upstream_list {                  /* plain memory: crosses threads */
	char revision[16];              /* that the two speak */
	char server[128];               /* what it calls itself; for people only (MCP T-19) */
	size_t count;
	struct upstream_tool *tool;
};
void upstream_list_free(struct upstream_list **l);
void upstream_tool_digest(const json_t *tool, uint8_t ret[32]);
/* The definition of a tool: its texts without control characters (SEC S-211), without members that are not a tool's
 * or that the protocol keeps for itself, named prefix + name, its handler pinned to the digest.  ERR_INVALID. */
int upstream_tool_document(const char *upstream, const char *prefix, const struct upstream_tool *tool, json_t **ret,
			   struct err *err) MUST_CHECK;

/* --- the upstreams that are known, and the links to them; loop thread */

#define UPSTREAM_LINKS_MAX 256          /* links of all upstreams and tenants */
#define UPSTREAM_CHECK_MS 5000          /* between two looks at tools that may have changed */

struct upstreams_env {                  /* borrowed for life */
	struct ev_loop *loop;
	const struct backend_secrets *secrets;
	struct fetcher *fetcher;
	const struct run_cage *cage;            /* of their processes; NULL: none is started */
};
struct upstreams *upstreams_new(const struct upstreams_env *env);
/* No call is open any more.  Its processes end, those of the loop as a whole by ev_child_kill_all(). */
void upstreams_free(struct upstreams **u);
/* Read those that the store has.  ERR_CORRUPT. */
int upstreams_load(struct upstreams *u, struct db *db, struct err *err) MUST_CHECK;
/* One that was added or changed: new calls go by the new document, links under the old one end with their calls. */
int upstreams_set(struct upstreams *u, const char *document, bool enabled, struct err *err) MUST_CHECK;
void upstreams_remove(struct upstreams *u, const char *name);
/* fn: the tools of an upstream may not be what was accepted any more, please look (upstreams_list). */
typedef void upstreams_changed_fn(void *arg, const char *name);
void upstreams_on_change(struct upstreams *u, upstreams_changed_fn *fn, void *arg);
/* Its tools, read now: list is taken, NULL with err.  Not before the return.  ERR_NOT_FOUND, ERR_UNREACHABLE; the
 * message names the upstream. */
typedef void upstreams_list_fn(void *arg, struct upstream_list *list, const struct err *err);
void upstreams_list(struct upstreams *u, const char *name, upstreams_list_fn *done, void *arg);
/* Links that are open, and why the last one that broke did (code 0: none did). */
struct upstream_state { unsigned links; size_t calls; struct err error; };
void upstreams_state(const struct upstreams *u, const char *name, struct upstream_state *ret);

#endif
