/* traceparent and tracestate, strictly: what does not follow W3C Trace Context is dropped. */
#include "config.h"

#include <string.h>

#include "base/text.h"
#include "proto/trace.h"

#define MEMBERS_MAX 32
#define KEY_MAX 256
#define VALUE_MAX 256

/* "00-" 32 hex "-" 16 hex "-" 2 hex, neither id all zeros. */
static bool parse_parent(struct trace *ret, const char *p, size_t len)
{
	static const char fit[] = "0123456789abcdef-";
	static const uint8_t none[16];
	uint8_t span[8], flags;

	for (size_t i = 0; i < len; i++)
		if (!memchr(fit, p[i], sizeof(fit) - 1))        /* hexadecimal in capitals is none */
			return false;
	if (len != TRACE_PARENT_LEN || memcmp(p, "00-", 3) != 0 || p[35] != '-' || p[52] != '-' ||
	    text_unhex(p + 3, 32, ret->id, sizeof(ret->id)) < 0 || text_unhex(p + 36, 16, span, sizeof(span)) < 0 ||
	    text_unhex(p + 53, 2, &flags, 1) < 0)
		return false;
	return memcmp(ret->id, none, sizeof(ret->id)) != 0 && memcmp(span, none, sizeof(span)) != 0;
}

static bool is_key(const char *p, size_t len)
{
	static const char fit[] = "abcdefghijklmnopqrstuvwxyz0123456789_-*/@";

	if (len == 0 || len > KEY_MAX || !memchr(fit, *p, 36))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!memchr(fit, p[i], sizeof(fit) - 1))
			return false;
	return true;
}

static bool is_value(const char *p, size_t len)
{
	if (len == 0 || len > VALUE_MAX || p[len - 1] == ' ')
		return false;
	for (size_t i = 0; i < len; i++)
		if (p[i] < ' ' || p[i] > '~' || p[i] == '=')
			return false;
	return true;
}

/* "key=value" with commas between; blanks beside a comma, and empty members, do not count. */
static bool is_state(const char *p, size_t len)
{
	unsigned n = 0;

	for (const char *end = p + len; p < end; p++) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end, *last = stop,
			*equals;

		while (p < last && (*p == ' ' || *p == '\t'))
			p++;
		while (p < last && (last[-1] == ' ' || last[-1] == '\t'))
			last--;
		equals = memchr(p, '=', (size_t)(last - p));
		if (p < last && (++n > MEMBERS_MAX || !equals || !is_key(p, (size_t)(equals - p)) ||
				 !is_value(equals + 1, (size_t)(last - equals - 1))))
			return false;
		p = stop;
	}
	return n > 0;
}

bool trace_parse(struct trace *ret, const char *parent, size_t parent_len, const char *state, size_t state_len)
{
	if (!parent || !parse_parent(ret, parent, parent_len))
		return false;
	memcpy(ret->parent, parent, parent_len);
	ret->parent[parent_len] = '\0';
	ret->state[0] = '\0';
	if (!state || state_len > TRACE_STATE_MAX || !is_state(state, state_len))
		return true;
	memcpy(ret->state, state, state_len);
	ret->state[state_len] = '\0';
	return true;
}
