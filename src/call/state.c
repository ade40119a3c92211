/*
 * The sealed state of a call that asks: a modern caller gets it with the questions and sends both back.
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

#include "call_int.h"

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
	str_put(s, args, sizeof(args));
	return s;
}

void call_seal_state(struct call *c)
{
	const struct str *context = context_of(c);
	uint64_t expiry = clock_wall_us() / 1000000 + CALL_STATE_TTL_S;
	struct str payload = STR_INIT;

	for (int shift = 56; shift >= 0; shift -= 8)
		str_putc(&payload, (char)(expiry >> shift));
	str_put(&payload, c->id, sizeof(c->id));
	str_put(&payload, c->state_bytes.p, c->state_bytes.len);
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
		memcpy(c->prev, payload.p + EXPIRY_SIZE, sizeof(c->prev));
		c->has_prev = true;
		str_put(&c->state_bytes, payload.p + HEAD_SIZE, payload.len - HEAD_SIZE);
	}
	str_fini(&payload);
	return rc;
}

