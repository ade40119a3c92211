/*
 * A handler that asks.  Modern callers get the questions with a sealed state and send both back; a legacy caller is
 * asked on its connection, and the call waits.
 *
 * The sealed payload: expiry (seconds UTC, 8 bytes big-endian), call id of this round (16), the handler's state.  Bound
 * but not carried: tenant, principal, method, name or URI, SHA-256 of the canonical arguments (MCP R-06, B-34).
 */

#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "call_int.h"
#include "ev/ev.h"
#include "json/json.h"
#include "proto/caps.h"
#include "tenant/tenant.h"

enum { EXPIRY_SIZE = 8, HEAD_SIZE = EXPIRY_SIZE + 16 };

static const char *const methods[REG_KINDS] = {
	[REG_TOOL] = "|tools/call|", [REG_PROMPT] = "|prompts/get|", [REG_RESOURCE] = "|resources/read|",
	[REG_TEMPLATE] = "|completion/complete|",
};

/* What the state belongs to; in the engine's scratch. */
static const struct str *context_of(const struct call *c)
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
	str_put(s, args, sizeof args);
	return s;
}

static void seal_state(struct call *c, const struct backend_ask *ask)
{
	const struct str *context = context_of(c);
	uint64_t expiry = clock_wall_us() / 1000000 + CALL_STATE_TTL_S;
	struct str payload = STR_INIT;

	for (int shift = 56; shift >= 0; shift -= 8)
		str_putc(&payload, (char)(expiry >> shift));
	str_put(&payload, c->id, sizeof c->id);
	str_put(&payload, ask->state, ask->state_len);
	seal_make(c->eng->seal, context->p, context->len, payload.p, payload.len, &c->sealed);
	str_fini(&payload);
}

int call_open_state(struct call *c, const char *text, size_t len)
{
	const struct str *context = context_of(c);
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
		memcpy(c->prev, payload.p + EXPIRY_SIZE, sizeof c->prev);
		c->has_prev = true;
		str_put(&c->state_bytes, payload.p + HEAD_SIZE, payload.len - HEAD_SIZE);
	}
	str_fini(&payload);
	return rc;
}

/* What a handler may ask of this caller; NULL, or what is wrong with it. */
static const char *check_questions(const struct call *c, const struct backend_ask *ask)
{
	const char *key;
	json_t *question;

	if (c->completing)                      /* MCP U-06 */
		return "a completion cannot ask";
	if (json_object_size(ask->requests) == 0)
		return "the tool asked, but said no question";
	if (ask->state_len > ASK_STATE_MAX)
		return "the tool's state between two rounds is too large";
	json_object_foreach(ask->requests, key, question) {
		const char *method = json_string_value(json_object_get(question, "method"));
		uint32_t needs = method ? caps_for_request(method, json_object_get(question, "params")) : 0;

		if (!needs)
			return "the tool asked a question that no client knows";
		if (needs & ~c->caps)           /* MCP R-03, M-10 */
			return "the tool needs to ask something that this client did not declare to answer";
	}
	return NULL;
}

static void ask_legacy(struct call *c, struct backend_ask *ask)
{
	struct err err;

	if (!c->out || !c->can_ask) {
		call_fail(c, AUDIT_TOOL_ERROR, "the tool needs to ask, and this connection cannot carry questions");
		return;
	}
	if (c->rounds == CALL_ROUNDS_MAX) {
		call_fail(c, AUDIT_TOOL_ERROR, "the tool asked too often");
		return;
	}
	c->rounds++;
	str_reset(&c->state_bytes);
	str_put(&c->state_bytes, ask->state, ask->state_len);
	call_set_state(c, CALL_ASKING);
	ev_timer_start(c->timer, (uint64_t)CALL_ASK_TIMEOUT_MS * 1000);
	if (c->out->ask(c->out_arg, ask->requests, &err) < 0 && c->state == CALL_ASKING)
		call_fail(c, err.code == ERR_CANCELLED ? AUDIT_CANCELLED : AUDIT_TOOL_ERROR, err.msg);
}

void call_ask(struct call *c, struct backend_ask *ask)
{
	const char *wrong = check_questions(c, ask);

	if (wrong) {
		call_fail(c, AUDIT_TOOL_ERROR, wrong);
	} else if (c->modern) {
		seal_state(c, ask);
		c->requests = json_incref(ask->requests);
		call_end(c, AUDIT_INPUT_REQUIRED);
	} else {
		ask_legacy(c, ask);
	}
	json_decref(ask->requests);
}

void call_ask_timeout(struct call *c)
{
	call_fail(c, AUDIT_TIMEOUT, "the question was not answered in time");
}
