/* The revisions of the protocol and what exists in each: MCP table A as data. */

#include "config.h"

#include "proto/rev.h"

#include <string.h>

#include "proto/caps.h"

#define ASKS_R1 (CAP_ROOTS | CAP_SAMPLING)
#define ASKS_R3 (ASKS_R1 | CAP_ELICITATION_FORM)
#define ASKS_R4 (ASKS_R3 | CAP_ELICITATION_URL | CAP_SAMPLING_TOOLS)

const struct rev_row rev_table[REV_COUNT] = {
	[REV_R0] = { .text = "2024-10-07", .era = ERA_LEGACY, .asks = CAP_SAMPLING },
	[REV_R1] = { .text = "2024-11-05", .era = ERA_LEGACY, .batches = true, .asks = ASKS_R1 },
	[REV_R2] = { .text = "2025-03-26", .era = ERA_LEGACY, .annotations = true, .audio = true,
		.progress_message = true, .batches = true, .asks = ASKS_R1 },
	[REV_R3] = { .text = "2025-06-18", .era = ERA_LEGACY, .annotations = true, .title = true,
		.output_schema = true, .tool_meta = true, .audio = true, .resource_link = true,
		.progress_message = true, .asks = ASKS_R3 },
	[REV_R4] = { .text = "2025-11-25", .era = ERA_LEGACY, .annotations = true, .title = true,
		.output_schema = true, .tool_meta = true, .icons = true, .audio = true, .resource_link = true,
		.progress_message = true, .invalid_args_is_error = true, .asks = ASKS_R4 },
	[REV_R5] = { .text = "2026-07-28", .era = ERA_MODERN, .annotations = true, .title = true,
		.output_schema = true, .tool_meta = true, .icons = true, .audio = true, .resource_link = true,
		.structured_any = true, .progress_message = true, .invalid_args_is_error = true, .asks = ASKS_R4 },
};

enum rev rev_find(const char *text, size_t len)
{
	for (enum rev r = REV_R0; r < REV_COUNT; r++)
		if (strlen(rev_table[r].text) == len && memcmp(rev_table[r].text, text, len) == 0)
			return r;
	return REV_COUNT;
}

bool rev_at_least_modern(const char *text, size_t len)
{
	const char *modern = rev_table[REV_R5].text;
	size_t n = strlen(modern);
	int d = memcmp(text, modern, len < n ? len : n);

	return d > 0 || (d == 0 && len >= n);
}
