/* Client capabilities: the JSON of the wire to bits and back, and what each of our questions needs. */

#include "config.h"

#include "proto/caps.h"

#include <stdbool.h>
#include <string.h>

uint32_t caps_from_json(const json_t *capabilities)
{
	const json_t *sampling = json_object_get(capabilities, "sampling");
	const json_t *elicitation = json_object_get(capabilities, "elicitation");
	uint32_t caps = 0;

	if (json_is_object(json_object_get(capabilities, "roots")))
		caps |= CAP_ROOTS;
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
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].caps;
	return 0;
}

const char *caps_word(uint32_t caps)
{
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
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
