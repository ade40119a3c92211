/* The revisions of the protocol and what exists in each, MCP table A as data; the capabilities of clients as bits.
 * A version string is compared here and nowhere else. */
#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "proto/caps.h"
#include "proto/rev.h"

/* --- revisions */

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

/* --- Client capabilities */

/* The JSON of the wire to bits and back, and what each of our questions needs. */

static bool shows_pages(const json_t *extensions)
{
	const json_t *types = json_object_get(json_object_get(extensions, CAP_UI_NAME), "mimeTypes"), *type;
	size_t i;

	json_array_foreach(types, i, type)
		if (json_is_string(type) && strcmp(json_string_value(type), CAP_UI_MIME) == 0)
			return true;
	return false;
}

static json_t *extensions_of(uint32_t caps)
{
	json_t *ret = json_object();

	if (caps & CAP_TASKS)
		json_object_set_new(ret, CAP_TASKS_NAME, json_object());
	if (caps & CAP_UI)
		json_object_set_new(ret, CAP_UI_NAME, json_pack("{s:[s]}", "mimeTypes", CAP_UI_MIME));
	return ret;
}

uint32_t caps_from_json(const json_t *capabilities)
{
	const json_t *sampling = json_object_get(capabilities, "sampling");
	const json_t *elicitation = json_object_get(capabilities, "elicitation");
	const json_t *extensions = json_object_get(capabilities, "extensions");
	uint32_t caps = shows_pages(extensions) ? (uint32_t)CAP_UI : 0;

	if (json_is_object(json_object_get(capabilities, "roots")))
		caps |= CAP_ROOTS;
	if (json_is_object(json_object_get(extensions, CAP_TASKS_NAME)))
		caps |= CAP_TASKS;
	if (json_is_object(sampling)) {
		caps |= CAP_SAMPLING;
		if (json_is_object(json_object_get(sampling, "tools")))
			caps |= CAP_SAMPLING_TOOLS;
	}
	if (json_is_object(elicitation)) {
		if (json_is_object(json_object_get(elicitation, "url")))
			caps |= CAP_ELICITATION_URL;
		/* MCP X-03: without a mode it means the form, the only one there was before modes. */
		if (json_is_object(json_object_get(elicitation, "form")) || !(caps & CAP_ELICITATION_URL))
			caps |= CAP_ELICITATION_FORM;
	}
	return caps;
}

json_t *caps_to_json(uint32_t caps)
{
	json_t *ret = json_object();

	if (caps & CAP_ROOTS)
		json_object_set_new(ret, "roots", json_object());
	if (caps & (CAP_SAMPLING | CAP_SAMPLING_TOOLS)) {
		json_t *sampling = json_object();

		if (caps & CAP_SAMPLING_TOOLS)
			json_object_set_new(sampling, "tools", json_object());
		json_object_set_new(ret, "sampling", sampling);
	}
	if (caps & (CAP_ELICITATION_FORM | CAP_ELICITATION_URL)) {
		json_t *elicitation = json_object();

		if (caps & CAP_ELICITATION_URL) {
			if (caps & CAP_ELICITATION_FORM)
				json_object_set_new(elicitation, "form", json_object());
			json_object_set_new(elicitation, "url", json_object());
		}
		json_object_set_new(ret, "elicitation", elicitation);
	}
	if (caps & (CAP_TASKS | CAP_UI))
		json_object_set_new(ret, "extensions", extensions_of(caps));
	return ret;
}

static const struct { const char *word; uint32_t caps; } words[] = {
	{ "elicitation", CAP_ELICITATION_FORM },
	{ "elicitation.url", CAP_ELICITATION_URL },
	{ "sampling", CAP_SAMPLING },
	{ "sampling.tools", CAP_SAMPLING | CAP_SAMPLING_TOOLS },
	{ "roots", CAP_ROOTS },
};

uint32_t caps_from_word(const char *word)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].caps;
	return 0;
}

const char *caps_word(uint32_t caps)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i].caps & caps)
			return words[i].word;
	return NULL;
}

uint32_t caps_for_request(const char *method, const json_t *params)
{
	if (strcmp(method, "elicitation/create") == 0) {
		const char *mode = json_string_value(json_object_get(params, "mode"));

		return mode && strcmp(mode, "url") == 0 ? CAP_ELICITATION_URL : CAP_ELICITATION_FORM;
	}
	if (strcmp(method, "sampling/createMessage") == 0) {
		bool tools = json_object_get(params, "tools") || json_object_get(params, "toolChoice");

		return tools ? CAP_SAMPLING | CAP_SAMPLING_TOOLS : CAP_SAMPLING;      /* MCP X-07 */
	}
	if (strcmp(method, "roots/list") == 0)
		return CAP_ROOTS;
	return 0;
}
