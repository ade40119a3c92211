#ifndef PROTO_CAPS_H
#define PROTO_CAPS_H

#include <jansson.h>
#include <stdint.h>

#define CAP_TASKS_NAME "io.modelcontextprotocol/tasks"
#define CAP_UI_NAME "io.modelcontextprotocol/ui"
#define CAP_UI_MIME "text/html;profile=mcp-app"                /* of a page */

/* Client capabilities as bits; unknown keys and wrong-typed unknown values are ignored (MCP L-10). */
enum {
	CAP_ROOTS = 1u << 0,
	CAP_SAMPLING = 1u << 1,
	CAP_SAMPLING_TOOLS = 1u << 2,
	CAP_ELICITATION_FORM = 1u << 3,         /* `elicitation: {}` means form (MCP X-03) */
	CAP_ELICITATION_URL = 1u << 4,
	CAP_TASKS = 1u << 5,                    /* extensions: {"io.modelcontextprotocol/tasks": {}} (TK-01) */
	CAP_UI = 1u << 6,                       /* …/ui with that type in its mimeTypes: it shows pages (UI-03) */
};
uint32_t caps_from_json(const json_t *capabilities);
json_t *caps_to_json(uint32_t caps);                    /* new reference, ClientCapabilities shape */
/* The bits of a word of `needs.client`: "elicitation", "elicitation.url", "sampling", "sampling.tools", "roots";
 * 0 = unknown. */
uint32_t caps_from_word(const char *word);
const char *caps_word(uint32_t caps);                   /* the first word that names one of them; NULL = none */
/* What a server-to-client method needs: "elicitation/create" with its params, …; 0 = no such method. */
uint32_t caps_for_request(const char *method, const json_t *params);

#endif
