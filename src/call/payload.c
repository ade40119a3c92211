/* The payload of a call's records: its level, what of it may be repeated, the bytes of the result (AUDIT ).
 * The engine calls it before each record, on the loop's thread.  Nothing that a definition calls sensitive is kept. */

#include "config.h"

#include <string.h>

#include "base/log.h"
#include "json/json.h"
#include "pdp/pdp.h"
#include "proto/trace.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "call_int.h"

enum { TEXT_ROOM = 500 };               /* what most results fit into */

/* The most specific word wins, in either direction (AUDIT A-221): the tenant's for this tool, the definition's, the
 * tenant's, the server's. */
static int call_level(const struct call *c)
{
	const struct tenants *tenants = c->eng->env.tenants;
	const struct tenant *t = tenant_by_id(tenants, c->who->tenant_id);
	int level = c->tool ? tenant_tool_level(tenants, c->who->tenant_id, c->tool->full_name) : -1;

	if (level < 0 && c->compiled)
		level = c->compiled->audit_level;
	if (level < 0 && t)
		level = t->audit_level;
	return level < 0 ? c->eng->env.audit_level : level;
}

static size_t kept_of(size_t bytes)
{
	return (bytes < AUDIT_STORED_MAX ? bytes : AUDIT_STORED_MAX) * CALL_RESERVE_FACTOR;
}

size_t call_reserve_bytes(struct call *c)
{
	const int level = c->level = call_level(c);
	size_t bytes = CALL_RESERVE_BYTES;

	if (level >= AUDIT_REQUEST)
		bytes += kept_of(c->args_len);
	if (level >= AUDIT_REQUEST_RESPONSE)
		bytes += kept_of(c->compiled->result_max);
	return bytes;
}

static void payload_init(int level, struct audit_event *ev, struct call_payload *payload)
{
	payload->audit.level = level;
	payload->audit.n = 0;
	str_init(&payload->redacted, 0);
	str_init(&payload->decision.text, 0);
	ev->payload = &payload->audit;
}

void call_payload_fini(struct call_payload *payload)
{
	str_fini(&payload->redacted);
	str_fini(&payload->decision.text);
}

static struct audit_value_said *add_value(struct call_payload *payload, unsigned ctag, const void *p, size_t len,
					  bool keep)
{
	struct audit_value_said *v = &payload->audit.value[payload->audit.n++];

	*v = (struct audit_value_said){ .ctag = ctag, .p = p, .len = len, .keep = keep };
	return v;
}

struct pointers { const struct call *c; struct call_payload *payload; size_t n; };

static void hide(void *arg, size_t pointer, size_t from, size_t to)
{
	struct pointers *p = arg;

	p->payload->hidden[p->n++] = (struct audit_hidden){ from, to, true };
	str_printf(&p->payload->redacted, "%s%s", p->payload->redacted.len ? "\n" : "",
		   p->c->compiled->redact[pointer]);
}

/* Our keys, wherever they stand.  With more of them than can be told apart nothing of the value is kept. */
static void hide_keys(struct call_payload *payload, struct audit_value_said *v, size_t n)
{
	size_t all = n;

	if (!audit_hide_keys(v->p, v->len, payload->hidden, &all))
		v->keep = false;
	for (size_t i = n; i < all; i++)
		str_printf(&payload->redacted, "%s[key]", payload->redacted.len ? "\n" : "");
	v->hidden = payload->hidden;
	v->nhidden = all;
}

static void say_redacted(struct call_payload *payload, bool keep)
{
	if (payload->redacted.len > 0)
		(void)add_value(payload, AUDIT_C_REDACTED, payload->redacted.p, payload->redacted.len, keep);
}

/* What a definition calls sensitive is known only when there is one: without it nothing of the arguments is kept. */
static void say_arguments(const struct call *c, struct call_payload *payload, bool keep)
{
	struct pointers p = { c, payload, 0 };
	struct audit_value_said *v;

	if (c->args_len == 0)
		return;
	v = add_value(payload, AUDIT_C_ARGUMENTS, c->args_text, c->args_len, keep && c->compiled);
	if (c->compiled && c->compiled->nredact > 0)
		jx_locate(c->args_text, c->args_len, c->compiled->redact, c->compiled->nredact, hide, &p);
	hide_keys(payload, v, p.n);
	say_redacted(payload, v->keep);
}

/* "opa allow 200 3ms", "local deny kept": a line each. */
static void say_decision(const struct call *c, struct audit_event *ev, struct call_decision *ret)
{
	const struct pdp_verdict *v = c->asking ? pdp_verdict(c->asking) : NULL;
	size_t n = 0;

	str_init(&ret->text, 0);
	for (size_t i = 0; v && i < v->n; i++) {
		const struct pdp_said *s = &v->said[i];
		const char *word = pdp_word_name(s->word);

		if (!word)
			continue;
		str_printf(&ret->text, "%s%s %s", n ? "\n" : "", s->name, word);
		if (s->status)
			str_printf(&ret->text, " %d", s->status);
		if (s->cached)
			str_puts(&ret->text, " kept");
		else
			str_printf(&ret->text, " %ums", (unsigned)s->ms);
		memcpy(ret->digests[n++], s->digest, sizeof(ret->digests[0]));
	}
	if (n == 0)
		return;
	ret->field[0] = (struct audit_field){ AUDIT_TAG_DECISION, ret->text.p, ret->text.len };
	ret->field[1] = (struct audit_field){ AUDIT_TAG_DECISION_DIGEST, ret->digests, n * sizeof(ret->digests[0]) };
	ev->field = ret->field;
	ev->nfield = NELEMS(ret->field);
}

void call_payload_request(const struct call *c, struct audit_event *ev, struct call_payload *payload)
{
	bool keep;

	payload_init(c->level < 0 ? call_level(c) : c->level, ev, payload);
	say_decision(c, ev, &payload->decision);
	keep = payload->audit.level >= AUDIT_REQUEST;
	say_arguments(c, payload, keep);
	if (!c->tool)           /* AUDIT A-633: a name that does not exist is a value; nobody's key, one hopes */
		(void)add_value(payload, AUDIT_C_UNKNOWN_NAME, c->tool_name, c->tool_len,
				keep && !strstr(c->tool_name, "tck_"));
}

/* {"content":[…],"structuredContent":…,"isError":true}: what the answers of all revisions are made of. */
void call_write_result(struct call *c)
{
	const struct backend_result *r = &c->result;
	struct str *out = &c->text;

	str_reset(out);
	str_room(out, TEXT_ROOM);
	str_puts(out, "{\"content\":");
	c->content.at = out->len;
	if (r->content)
		jx_write(r->content, out);
	else
		str_puts(out, "[]");
	c->content.len = out->len - c->content.at;
	c->structured = (struct call_part){ 0 };
	if (r->structured) {
		str_puts(out, ",\"structuredContent\":");
		c->structured.at = out->len;
		jx_write(r->structured, out);
		c->structured.len = out->len - c->structured.at;
	}
	str_puts(out, r->is_error ? ",\"isError\":true}" : "}");
}

void call_payload_end(struct call *c, struct audit_event *ev, struct call_payload *payload)
{
	struct audit_value_said *v;
	bool keep;

	payload_init(call_level(c), ev, payload);
	say_decision(c, ev, &payload->decision);   /* of a round, which has no begin of its own */
	keep = payload->audit.level >= AUDIT_REQUEST_RESPONSE;
	if (c->has_result) {
		if (c->text.len == 0)
			call_write_result(c);
		v = add_value(payload, AUDIT_C_RESULT, c->text.p, c->text.len, keep);
	} else if (c->trouble && *c->trouble->err.msg) {
		v = add_value(payload, AUDIT_C_ERROR, c->trouble->err.msg, strlen(c->trouble->err.msg), keep);
	} else {
		return;
	}
	hide_keys(payload, v, 0);
	say_redacted(payload, v->keep);
}

void call_fill_event(const struct call *c, enum audit_kind kind, struct audit_event *ev)
{
	const struct trace *trace = call_trace(c, false);

	audit_event_init(ev, kind, c->who->tenant_id);
	ev->cred = c->who->cred_id ? c->who->accessor : NULL;
	ev->prn = c->who->pseudonym;
	/* AUDIT A-633: a name that does not exist is never interned. */
	ev->tool = c->tool ? c->tool->full_name : NULL;
	ev->has_call = c->has_id;
	memcpy(ev->call, c->id, sizeof(ev->call));
	ev->has_prev = c->has_prev;
	memcpy(ev->prev, c->prev, sizeof(ev->prev));
	if (kind == AUDIT_CALL_END)
		return;
	ev->actor = c->who->authn == AUDIT_AUTHN_UID ? AUDIT_BY_UID : AUDIT_BY_SERVICE;
	ev->authn = c->who->authn;
	ev->tport = c->tport;
	ev->rev = rev_table[c->rev].text;
	ev->tdef = c->tool ? c->tool->def->digest : NULL;
	ev->sbox = c->sandboxed ? c->sandbox.level : NULL;
	ev->n_req = (int64_t)c->args_len;
	ev->has_trace = trace != NULL;
	if (trace)
		memcpy(ev->trace, trace->id, sizeof(ev->trace));
	ev->peer = c->peer;
	ev->client = c->client;
	ev->sys = *c->who->system ? c->who->system : NULL;
	ev->mdl = c->model;
}

void call_late_begin(void *engine, const struct audit_event *begin)
{
	struct call_engine *eng = engine;
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_CALL_END, begin->tenant_id);        /* AUDIT A-210 */
	ev.cred = begin->cred;
	ev.prn = begin->prn;
	ev.tool = begin->tool;
	ev.has_call = true;
	memcpy(ev.call, begin->call, sizeof(ev.call));
	ev.has_outcome = true;
	ev.outcome = AUDIT_ABORTED;
	ev.flags = AUDIT_FLAG_NOT_EXECUTED;
	if (writer_audit(eng->env.writer, &ev, NULL, NULL) < 0)
		log_err(NULL, "the end of a late begin could not be recorded; the next start will tenant_id=%lld",
			(long long)begin->tenant_id);
}
