/* The blocks of a definition beside the MCP tool object: limits, audit, needs (product.md 4). */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "audit/payload.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "proto/caps.h"
#include "registry_int.h"

static int read_timeout(const json_t *limits, uint32_t *ret, struct err *err)
{
	const char *text = NULL;
	uint64_t ms;
	int rc = jx_get_string(limits, "/limits", "timeout", JX_OPTIONAL, &text, err);

	if (rc < 0)
		err_hint(err, "write a duration with its unit, as in 10s");
	if (rc < 0 || !text)
		return rc;
	if (text_duration_ms(text, &ms) < 0) {
		rc = err_set(err, ERR_INVALID, "/limits/timeout", "%.40s is no duration", text);
		err_hint(err, "write it with its unit, as in 500ms, 10s, 5m");
		return rc;
	}
	if (ms < REG_TIMEOUT_MIN_MS || ms > REG_TIMEOUT_MAX_MS)
		return err_set(err, ERR_INVALID, "/limits/timeout", "must be from 1s to 1h, is %.40s", text);
	*ret = (uint32_t)ms;
	return 0;
}

static int read_rate(const json_t *limits, struct text_rate *ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(limits, "/limits", "rate", JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (text_rate(text, ret) == 0)
		return 0;
	rc = err_set(err, ERR_INVALID, "/limits/rate", "%.40s is no rate", text);
	err_hint(err, "write it as 10/s, 60/min, 100/h or 5000/day");
	return rc;
}

static int read_result(const json_t *limits, size_t *ret, struct err *err)
{
	const char *text = NULL;
	uint64_t bytes;
	int rc = jx_get_string(limits, "/limits", "result", JX_OPTIONAL, &text, err);

	if (rc < 0)
		err_hint(err, "write a size with its unit, as in 1MiB");
	if (rc < 0 || !text)
		return rc;
	if (text_size(text, &bytes) < 0) {
		rc = err_set(err, ERR_INVALID, "/limits/result", "%.40s is no size", text);
		err_hint(err, "write it as 512, 64KiB or 1MiB");
		return rc;
	}
	if (bytes < 1 || bytes > REG_RESULT_MAX)
		return err_set(err, ERR_INVALID, "/limits/result", "must be from 1 byte to 16MiB, is %.40s", text);
	*ret = (size_t)bytes;
	return 0;
}

int define_read_limits(const json_t *doc, struct reg_compiled *ret, struct err *err)
{
	static const char *const known[] = { "timeout", "concurrency", "rate", "result" };
	json_t *limits = NULL;
	int64_t concurrency = 0;
	int rc = jx_get_object(doc, "", "limits", JX_OPTIONAL, &limits, err);

	ret->timeout_ms = REG_TIMEOUT_DEFAULT_MS;
	ret->result_max = REG_RESULT_DEFAULT;
	if (rc < 0 || !limits)
		return rc;
	rc = jx_only(limits, "/limits", known, NELEMS(known), err);
	if (rc == 0)
		rc = read_timeout(limits, &ret->timeout_ms, err);
	if (rc == 0)
		rc = jx_get_int(limits, "/limits", "concurrency", JX_OPTIONAL, 1, REG_CONCURRENCY_MAX, &concurrency, err);
	if (rc == 0)
		rc = read_rate(limits, &ret->rate, err);
	if (rc == 0)
		rc = read_result(limits, &ret->result_max, err);
	ret->concurrency = (uint32_t)concurrency;
	return rc;
}

int define_read_needs(const json_t *doc, struct reg_compiled *ret, struct err *err)
{
	static const char *const known[] = { "client" };
	static const char *const words[] = { "elicitation", "elicitation.url", "sampling", "sampling.tools", "roots" };
	json_t *needs = NULL, *client = NULL, *v;
	size_t i;
	int rc = jx_get_object(doc, "", "needs", JX_OPTIONAL, &needs, err);

	if (rc == 0 && needs)
		rc = jx_only(needs, "/needs", known, NELEMS(known), err);
	if (rc == 0 && needs)
		rc = jx_get_array(needs, "/needs", "client", JX_OPTIONAL, &client, err);
	if (rc < 0)
		return rc;
	json_array_foreach(client, i, v) {
		const char *word = json_string_value(v), *near;
		uint32_t caps = word ? caps_from_word(word) : 0;
		char at[48];

		ret->needs_caps |= caps;
		if (caps)
			continue;
		(void)snprintf(at, sizeof at, "/needs/client/%zu", i); /* fits */
		if (!word)
			return err_set(err, ERR_INVALID, at, "must be a string, is %s", jx_type_name(v));
		rc = err_set(err, ERR_INVALID, at, "unknown client capability %.40s", word);
		near = text_nearest(word, words, NELEMS(words));
		if (near)
			err_hint(err, "did you mean %s?", near);
		return rc;
	}
	return 0;
}

int define_read_level(const json_t *doc, int *ret, struct err *err)
{
	static const char *const known[] = { "level", "redact" };
	json_t *audit = NULL;
	const char *level = NULL;
	int rc = jx_get_object(doc, "", "audit", JX_OPTIONAL, &audit, err);

	*ret = -1;
	if (rc < 0 || !audit)
		return rc;
	rc = jx_only(audit, "/audit", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(audit, "/audit", "level", JX_OPTIONAL, &level, err);
	if (rc < 0 || !level)
		return rc;
	*ret = audit_level_from_name(level);
	if (*ret >= 0)
		return 0;
	(void)err_set(err, ERR_INVALID, "/audit/level", "unknown audit level %.40s", level);
	err_hint(err, "metadata, request or request_response: how much of a call is kept");
	return ERR_INVALID;
}

/* Arguments that nothing may repeat. */
int define_read_redact(const json_t *doc, struct arena *mem, struct reg_compiled *ret, struct err *err)
{
	json_t *audit = json_object_get(doc, "audit"), *list = NULL, *v;
	const char **pointers;
	char where[40];
	size_t i;
	int rc = audit ? jx_get_array(audit, "/audit", "redact", JX_OPTIONAL, &list, err) : 0;

	if (rc < 0 || !list)
		return rc;
	if (json_array_size(list) > REG_REDACT_MAX)
		return err_set(err, ERR_LIMIT, "/audit/redact", "more than %d pointers", REG_REDACT_MAX);
	pointers = arena_alloc(mem, (json_array_size(list) + 1) * sizeof(const char *));
	if (!pointers)
		return err_set(err, ERR_LIMIT, "/audit/redact", "the definition is too large");
	json_array_foreach(list, i, v) {
		const char *pointer = json_string_value(v);

		(void)snprintf(where, sizeof where, "/audit/redact/%zu", i);
		if (!pointer || memchr(pointer, '\0', json_string_length(v)) || !jx_pointer_valid(pointer)) {
			rc = err_set(err, ERR_INVALID, where, "must be a JSON pointer into the arguments");
			err_hint(err, "write /card/number for {\"card\": {\"number\": ...}}");
			return rc;
		}
		pointers[i] = arena_strdup(mem, pointer);
		if (!pointers[i])
			return err_set(err, ERR_LIMIT, where, "the definition is too large");
	}
	ret->redact = pointers;
	ret->nredact = json_array_size(list);
	return 0;
}
