#ifndef UPSTREAM_UPSTREAM_H
#define UPSTREAM_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "backend/backend.h"
#include "base/err.h"

/* Upstreams: the MCP servers whose tools, prompts and resources are hosted.
 *
 * A document of kind upstream says how one is reached, by a process of ours or by URL; a sync reads its lists, each
 * item of which becomes a definition whose handler is `type: mcp` and carries the digest of the item as it was read.
 * Nothing that an upstream says is trusted (SEC S-731).
 *
 * Life and threads.  Documents and items are checked and made into definitions by pure functions, on any thread.
 * struct upstreams is what the server knows and is of the loop thread: commands set upstreams in it when the store has
 * them; a call of a definition asks it for a link, which is opened if there is none, for the caller's tenant or for
 * all; a link that is idle ends.
 *
 * Walk.  mcp.c binds `type: mcp`, and its start() asks upstream.c for the link; link_call.c sends the request over the
 * wire (link_pipe.c, link_http.c); the answer comes in by link.c and is made into a result of ours by item.c. */

struct secret_source;
struct db;
struct ev_loop;
struct fetcher;
struct sandbox;
struct upstreams;
struct upstreams_reading;

extern const struct backend_ops handler_mcp;         /* the handler of hosted items */

/* --- documents: pure functions, any thread */

#define UPSTREAM_TEXT_MAX (64u << 10)   /* bytes of a document as JSON */
#define UPSTREAM_PREFIX_MAX 32          /* bytes in front of the names of its tools, and of its URIs */
#define UPSTREAM_ARGV_MAX 64
#define UPSTREAM_ENV_MAX 64
#define UPSTREAM_HEADERS_MAX 32
#define UPSTREAM_ORIGINS_MAX 64         /* of each list of `ui` */
#define UPSTREAM_IDLE_MIN_MS 1000
#define UPSTREAM_IDLE_MAX_MS 86400000
#define UPSTREAM_IDLE_DEFAULT_MS 600000 /* a link without a call for so long is ended */

struct upstream_doc {
	char name[64];
	char prefix[UPSTREAM_PREFIX_MAX + 1];
	char uri_prefix[UPSTREAM_PREFIX_MAX + 1];
	uint8_t digest[32];             /* SHA-256 of the canonical document */
	char *text;                     /* JSON to store */
};
/* Check one document.  ERR_INVALID with where = JSON pointer into it. */
int upstream_define(const json_t *doc, struct upstream_doc *ret, struct err *err) MUST_CHECK;
void upstream_doc_free(struct upstream_doc *d);
bool upstream_prefix_valid(const char *prefix);

/* --- what it has, as it is there */

#define UPSTREAM_ITEMS_MAX 2000         /* of each kind, of one upstream */
#define UPSTREAM_NAME_MAX 256           /* bytes of a name there */
#define UPSTREAM_URI_MAX 2048           /* bytes of a URI or a URI template there */

enum upstream_kind { UPSTREAM_TOOL, UPSTREAM_PROMPT, UPSTREAM_RESOURCE, UPSTREAM_TEMPLATE, UPSTREAM_KINDS };
/* A key names an item of an upstream: of a tool its name, else prompt:NAME, resource:URI, template:URI-TEMPLATE.
 * ret_name: what it is called there, a part of key. */
enum upstream_kind upstream_key(const char *key, const char **ret_name);

struct upstream_item {
	enum upstream_kind kind;
	char *key;
	uint8_t digest[32];             /* SHA-256 of the canonical object, of a resource without what its content
					 * changes */
	/* The object, JSON; a prompt or template whose arguments the server completes has `completes: true` added. */
	char *text;
};
struct upstream_list {                  /* plain memory: crosses threads */
	char revision[16];              /* that the two speak */
	char server[128];               /* what it calls itself; for people only (MCP T-19) */
	bool unread[UPSTREAM_KINDS];    /* its list of these could not be read: nothing is known of them */
	size_t count;
	struct upstream_item *item;     /* by kind */
};
void upstream_list_free(struct upstream_list **l);
/* Takes out what of a resource changes with its content, then the digest. */
void upstream_item_digest(enum upstream_kind kind, json_t *object, uint8_t ret[32]);

/* How definitions of an upstream are named. */
struct upstream_naming {
	const char *upstream, *prefix, *uri_prefix;
	/* Of what is no tool: the bare name that it has already, or NULL; and whether the name made for it ends with a
	 * part of the digest of its key, because another one has the plain name. */
	const char *name;
	bool marked;
};
/* The definition of an item: its texts without control characters (SEC S-211), without members that are not of its kind
 * or that the protocol keeps for itself, its handler pinned to the digest.  A tool is named prefix + name; what else
 * has a name that cannot be one here gets one made of it.  ERR_INVALID. */
int upstream_document(const struct upstream_naming *naming, const struct upstream_item *item, json_t **ret,
		      struct err *err) MUST_CHECK;

/* A definition of this item as an older release stored it, whose pages are not named as those of today: true, and they
 * are from now on.  What an administrator has changed of it stays (decision 0120). */
bool upstream_move_pages(const struct upstream_naming *naming, const struct upstream_item *item, json_t *doc);

/* --- the upstreams that are known, and the links to them; loop thread */

#define UPSTREAM_LINKS_MAX 256          /* links of all upstreams and tenants */
#define UPSTREAM_CHECK_MS 5000          /* between two looks at what may have changed, after a few at once */
#define UPSTREAM_WATCHES_MAX 256        /* resources of one link that somebody wants to hear of */
#define UPSTREAM_UPDATE_MS 250          /* between two rounds of telling that resources have changed */
#define UPSTREAM_ASKING_MAX 32          /* links of one tenant to one upstream that serve a call each */
#define UPSTREAM_DROPPED_MS 60000       /* between two reports of a link's messages that are nobody's */

struct upstreams_env {                  /* borrowed for life */
	struct ev_loop *loop;
	const struct secret_source *secrets;
	struct fetcher *fetcher;
	const struct sandbox *sandbox;            /* of their processes; NULL: none is started */
};
struct upstreams *upstreams_new(const struct upstreams_env *env);
/* No call is open any more.  Its processes end, those of the loop as a whole by ev_child_kill_all(). */
void upstreams_free(struct upstreams **u);
/* Read those that the store has.  ERR_CORRUPT. */
int upstreams_load(struct upstreams *u, struct db *db, struct err *err) MUST_CHECK;
/* One that was added or changed: new calls go by the new document, links under the old one end with their calls. */
int upstreams_set(struct upstreams *u, const char *document, bool enabled, struct err *err) MUST_CHECK;
/* Its links end, with their calls and processes. */
void upstreams_remove(struct upstreams *u, const char *name);
/* fn: what an upstream has may not be what was accepted any more, please look (upstreams_list). */
typedef void upstreams_changed_fn(void *arg, const char *name);
void upstreams_on_change(struct upstreams *u, upstreams_changed_fn *fn, void *arg);
/* fn: messages of an upstream were dropped, because they name no live request of one principal; the first at once, then
 * how many there were in each UPSTREAM_DROPPED_MS.  tenant_id 0: of the link of all tenants. */
struct upstream_dropped { const char *upstream; int64_t tenant_id; const char *method; uint64_t count; };
typedef void upstreams_dropped_fn(void *arg, const struct upstream_dropped *what);
void upstreams_on_dropped(struct upstreams *u, upstreams_dropped_fn *fn, void *arg);
/* What it has, read now: list is taken, NULL with err.  Not before the return.  ERR_NOT_FOUND, ERR_UNREACHABLE; the
 * message names the upstream. */
typedef void upstreams_list_fn(void *arg, struct upstream_list *list, const struct err *err);
struct upstreams_reading *upstreams_list(struct upstreams *u, const char *name, upstreams_list_fn *done, void *arg);
void upstreams_unlist(struct upstreams_reading **reading);      /* nobody wants to know any more; before done() */
/* Links that are open, and why the last one that broke did (code 0: none did). */
struct upstream_state { unsigned links; size_t calls; struct err error; };
void upstreams_state(const struct upstreams *u, const char *name, struct upstream_state *ret);
/* Each that is enabled.  up: none of its links has broken, or could not be opened, since one was ready. */
typedef void upstreams_each_fn(void *arg, const char *name, bool up);
void upstreams_each(const struct upstreams *u, upstreams_each_fn *fn, void *arg);
bool upstreams_has(const struct upstreams *u, const char *name);

#endif
