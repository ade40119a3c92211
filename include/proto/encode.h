#ifndef PROTO_ENCODE_H
#define PROTO_ENCODE_H

#include "json/json.h"
#include "proto/errmap.h"
#include "proto/rev.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages to a client, as text appended to a str: one line each, projected to a revision (MCP C.5).
 * encode_result() is the only writer of results, so a field that a revision lacks is left out in one place. */

struct str;

#define ENC_LIST_TTL_MS 5000            /* tools/list: many hosts ignore notices (MCP B-47) */
#define ENC_READ_TTL_MS 5000            /* resources/read: as the lists, whose notices tell of an update too */
#define ENC_DISCOVER_TTL_MS 60000

/* serverInfo.  text: the same as JSON, by enc_server_text(), as most answers have it; NULL: made for each. */
struct enc_server { const char *name, *title, *version; char *text; };
char *enc_server_text(const struct enc_server *s);      /* free() */

struct enc_to {                         /* what an answer answers */
	enum rev rev;
	struct jx_span id;              /* raw token; p NULL: it could not be read */
	const struct enc_server *server;
};

enum enc_kind {
	ENC_EMPTY,              /* ping */
	ENC_INITIALIZE,
	ENC_DISCOVER,
	ENC_LIST,               /* tools/list, prompts/list, … */
	ENC_CALL,               /* tools/call */
	ENC_PROMPT,             /* prompts/get */
	ENC_READ,               /* resources/read */
	ENC_COMPLETE,           /* completion/complete */
	ENC_INPUT,              /* input_required (R5) */
	ENC_LISTEN_END,
	ENC_TASK,               /* tools/call that has become a task (R5, TK-05) */
	ENC_TASK_STATE,         /* tasks/get */
};

/* A task as its caller sees it. */
struct enc_task {
	const char *id, *status;
	const char *message;    /* statusMessage; NULL or "": none */
	uint64_t created_us, updated_us;        /* wall clock */
	uint64_t ttl_ms, poll_ms;
	/* With ENC_TASK_STATE: the name and the text of what the status brings with it; name NULL: nothing. */
	const char *part;
	const char *text; size_t text_len;
};

enum enc_list { ENC_TOOLS, ENC_PROMPTS, ENC_RESOURCES, ENC_TEMPLATES };
/* What a server has beside tools and logging, for its capabilities. */
enum { ENC_HAS_PROMPTS = 1, ENC_HAS_RESOURCES = 2, ENC_HAS_COMPLETIONS = 4, ENC_HAS_PAGES = 8 };

struct enc_result {
	enum enc_kind kind;
	unsigned has;           /* ENC_INITIALIZE, ENC_DISCOVER: ENC_HAS_ bits */
	/* ENC_LIST: which, the text of its array, and the cursor of the next page or NULL. */
	enum enc_list list;
	const char *page; size_t page_len;
	const char *next; size_t next_len;
	/* ENC_CALL: content blocks, or one text block from `text`; NULL structured, meta = absent.  ENC_PROMPT,
	 * ENC_READ, ENC_COMPLETE: structured is {messages, description?}, {contents}, {values, total?, hasMore?}. */
	const json_t *content, *structured, *meta;
	struct jx_span content_text, structured_text;   /* the same, as jx_write() has it; p NULL: it is not written yet */
	const char *text;
	bool is_error;
	/* R3, R4 (MCP B-16): the tool's outputSchema is not listed, so only objects are shown; or it is listed wrapped,
	 * so objects are wrapped too. */
	bool unwrapped, wrapped;
	const uint8_t *call_id; /* 16 bytes for `_meta`, or NULL; also ENC_INPUT */
	/* ENC_INPUT */
	const json_t *requests;
	const char *state;      /* sealed, or NULL */
	const struct enc_task *task;    /* ENC_TASK, ENC_TASK_STATE */
};
void encode_result(struct str *out, const struct enc_to *to, const struct enc_result *r);
void encode_error(struct str *out, const struct enc_to *to, const struct rpc_error *e);
/* The object alone, as it stands inside a task; to->id is not used, and to->server NULL: it says not who answers. */
void encode_result_object(struct str *out, const struct enc_to *to, const struct enc_result *r);
void encode_error_object(struct str *out, const struct rpc_error *e);
/* Of a change of a task, to a listen. */
void encode_task(struct str *out, const struct enc_task *task, struct jx_span subscription);

/* Notices and requests of ours. */
struct enc_progress { struct jx_span token; double done, total; const char *note; };    /* total < 0: unknown */
void encode_progress(struct str *out, enum rev rev, const struct enc_progress *p);
void encode_log(struct str *out, int level, const char *logger, const json_t *data);
/* -1 for a name that is none of the eight; 0 debug … 7 emergency. */
int encode_log_level(const char *name);
/* subscription: raw id of the listen, or p NULL on a legacy stream. */
void encode_list_changed(struct str *out, enum enc_list list, struct jx_span subscription);
void encode_updated(struct str *out, const char *uri, struct jx_span subscription);
/* What a listen is told of: ENC_ON_ bits, URIs of resources. */
enum { ENC_ON_TOOLS = 1u << ENC_TOOLS, ENC_ON_PROMPTS = 1u << ENC_PROMPTS, ENC_ON_RESOURCES = 1u << ENC_RESOURCES };
struct enc_filter { unsigned lists; const char *const *uris, *const *tasks; size_t nuris, ntasks; };
void encode_task_notice(struct str *out, struct jx_span subscription, const struct enc_task *task);     /* TK-10 */
void encode_listen_ack(struct str *out, struct jx_span subscription, const struct enc_filter *filter);
void encode_cancelled(struct str *out, struct jx_span id, const char *reason);
void encode_request(struct str *out, uint64_t id, const char *method, const json_t *params);

#endif
