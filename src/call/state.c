/*
 * The sealed state of a call that asks: a modern caller gets it with the questions and sends both back.
 *
 * Or of one that waits for a person, in a context of its own, with the id of the call that asked.
 *
 * The sealed payload: expiry (seconds UTC, 8 bytes big-endian), call id of this round (16), the handler's state.  Bound
 * but not carried: tenant, principal, method, name or URI, SHA-256 of the canonical arguments (MCP R-06, B-34).
 */

#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "json/json.h"
#include "tenant/tenant.h"

#include "held_int.h"

enum { EXPIRY_SIZE = 8, HEAD_SIZE = EXPIRY_SIZE + 16 };

static const char *const methods[REG_KINDS] = {
	[REG_TOOL] = "|tools/call|", [REG_PROMPT] = "|prompts/get|", [REG_RESOURCE] = "|resources/read|",
	[REG_TEMPLATE] = "|completion/complete|",
};

/* What the state belongs to; in the engine's scratch. */
static const struct str *context_of(const struct call *c, bool form)
{
	struct str *s = &c->eng->scratch;
	uint8_t args[DIGEST_SIZE];

	str_reset(s);
	jx_write_canon(c->args, s);
	digest_sha256(str_text(s), s->len, args);
	str_reset(s);
	str_put_i64(s, c->who->tenant_id);
	str_putc(s, '|');
	str_put_i64(s, c->who->principal_id);
	str_puts(s, methods[c->kind]);
	str_put(s, c->tool_name, c->tool_len);
	str_putc(s, '|');
	str_put(s, args, sizeof(args));
	if (form)
		str_puts(s, "|approval");
	return s;
}

static void seal_it(struct call *c, bool form, uint64_t expiry, const uint8_t id[16], const struct str *state)
{
	const struct str *context = context_of(c, form);
	struct str payload = STR_INIT;

	for (int shift = 56; shift >= 0; shift -= 8)
		str_putc(&payload, (char)(expiry >> shift));
	str_put(&payload, id, 16);
	if (state)
		str_put(&payload, state->p, state->len);
	seal_make(c->eng->seal, context->p, context->len, payload.p, payload.len, &c->sealed);
	str_fini(&payload);
}

void call_seal_state(struct call *c)
{
	seal_it(c, false, clock_wall_us() / 1000000 + CALL_STATE_TTL_S, c->id, &c->state_bytes);
}

void call_seal_form(struct call *c, const uint8_t asked[16], uint64_t until_us)
{
	seal_it(c, true, until_us / 1000000 + 1, asked, NULL);
}

bool call_form_declined(const json_t *answers)
{
	const char *action = json_string_value(json_object_get(json_object_get(answers, CALL_FORM_KEY), "action"));

	return action && strcmp(action, "accept") != 0;
}

static int open_it(struct call *c, bool form, const char *text, size_t len)
{
	const struct str *context = context_of(c, form);
	struct str payload = STR_INIT;
	uint64_t expiry = 0;
	int rc = seal_open(c->eng->seal, context->p, context->len, text, len, &payload);

	if (rc == 0 && payload.len < HEAD_SIZE)
		rc = ERR_INVALID;
	for (unsigned i = 0; rc == 0 && i < EXPIRY_SIZE; i++)
		expiry = expiry << 8 | (uint8_t)payload.p[i];
	if (rc == 0 && expiry * 1000000 <= clock_wall_us())
		rc = ERR_INVALID;
	if (rc == 0) {
		memcpy(c->prev, payload.p + EXPIRY_SIZE, sizeof(c->prev));
		c->has_prev = true;
		str_put(&c->state_bytes, payload.p + HEAD_SIZE, payload.len - HEAD_SIZE);
	}
	str_fini(&payload);
	return rc;
}

/* What was answered to a form is no answer to the tool. */
int call_open_state(struct call *c, const char *text, size_t len)
{
	int rc = open_it(c, false, text, len);

	if (rc == 0 || c->kind != REG_TOOL)
		return rc;
	rc = open_it(c, true, text, len);
	if (rc < 0)
		return rc;
	c->form_back = true;
	c->declined = call_form_declined(c->answers);
	json_decref(c->answers);
	c->answers = NULL;
	return 0;
}
