#ifndef PROTO_REV_H
#define PROTO_REV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The protocol revisions: one row each, oldest first.  A version string is compared here and nowhere else. */
enum rev { REV_R0, REV_R1, REV_R2, REV_R3, REV_R4, REV_R5, REV_COUNT };
enum rev_era { ERA_LEGACY = 1, ERA_MODERN = 2 };

#define REV_LEGACY_NEWEST REV_R4
#define REV_SESSIONLESS REV_R2          /* HTTP without header and session (MCP H-19) */

struct rev_row {
	const char *text;               /* "2025-11-25" */
	enum rev_era era;
	/* What exists in it (MCP table A). */
	bool annotations, title, output_schema, tool_meta, icons, audio, resource_link, structured_any,
	     progress_message, batches, invalid_args_is_error;
	uint32_t asks;                  /* CAP_ bits: which questions to a client exist (MCP) */
};
extern const struct rev_row rev_table[REV_COUNT];

/* REV_COUNT when unknown. */
enum rev rev_find(const char *text, size_t len);
bool rev_at_least_modern(const char *text, size_t len);   /* string order >= "2026-07-28" (MCP B-27) */

#endif
