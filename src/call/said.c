/* What a call says, for its records: its level, what of it may be repeated, the bytes of the result (AUDIT ). */

#include "config.h"

#include <string.h>

#include "call_int.h"
#include "json/json.h"
#include "tenant/tenant.h"

/* The most specific word wins, in either direction (AUDIT A-221): the tenant's for this tool, the definition's, the
 * tenant's, the server's. */
int call_level(const struct call *c)
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

size_t call_reserve_bytes(const struct call *c)
{
	int level = call_level(c);
	size_t bytes = CALL_RESERVE_BYTES;

	if (level >= AUDIT_REQUEST)
		bytes += kept_of(c->args_len);
	if (level >= AUDIT_REQUEST_RESPONSE)
		bytes += kept_of(c->compiled->result_max);
	return bytes;
}

static void said_init(const struct call *c, struct audit_event *ev, struct call_said *said)
{
	said->payload.level = call_level(c);
	said->payload.n = 0;
	str_init(&said->redacted, 0);
	str_init(&said->text, 0);
	ev->payload = &said->payload;
}

void call_said_fini(struct call_said *said)
{
	str_fini(&said->redacted);
	str_fini(&said->text);
}

static struct audit_value_said *add_value(struct call_said *said, unsigned ctag, const void *p, size_t len, bool keep)
{
	struct audit_value_said *v = &said->payload.value[said->payload.n++];

	*v = (struct audit_value_said){ .ctag = ctag, .p = p, .len = len, .keep = keep };
	return v;
}

struct pointers { const struct call *c; struct call_said *said; size_t n; };

static void hide(void *arg, size_t pointer, size_t from, size_t to)
{
	struct pointers *p = arg;

	p->said->hidden[p->n++] = (struct audit_hidden){ from, to, true };
	str_printf(&p->said->redacted, "%s%s", p->said->redacted.len ? "\n" : "", p->c->compiled->redact[pointer]);
}

/* Our keys, wherever they stand.  With more of them than can be told apart nothing of the value is kept. */
static void hide_keys(struct call_said *said, struct audit_value_said *v, size_t n)
{
	size_t all = n;

	if (!audit_hide_keys(v->p, v->len, said->hidden, &all))
		v->keep = false;
	for (size_t i = n; i < all; i++)
		str_printf(&said->redacted, "%s[key]", said->redacted.len ? "\n" : "");
	v->hidden = said->hidden;
	v->nhidden = all;
}

static void say_redacted(struct call_said *said, bool keep)
{
	if (said->redacted.len > 0)
		(void)add_value(said, AUDIT_C_REDACTED, said->redacted.p, said->redacted.len, keep);
}

/* What a definition calls sensitive is known only when there is one: without it nothing of the arguments is kept. */
static void say_arguments(const struct call *c, struct call_said *said, bool keep)
{
	struct pointers p = { c, said, 0 };
	struct audit_value_said *v;

	if (c->args_len == 0)
		return;
	v = add_value(said, AUDIT_C_ARGUMENTS, c->args_text, c->args_len, keep && c->compiled);
	if (c->compiled && c->compiled->nredact > 0)
		jx_locate(c->args_text, c->args_len, c->compiled->redact, c->compiled->nredact, hide, &p);
	hide_keys(said, v, p.n);
	say_redacted(said, v->keep);
}

void call_say_request(const struct call *c, struct audit_event *ev, struct call_said *said)
{
	bool keep;

	said_init(c, ev, said);
	keep = said->payload.level >= AUDIT_REQUEST;
	say_arguments(c, said, keep);
	if (!c->tool)           /* AUDIT A-633: a name that does not exist is a value; nobody's key, one hopes */
		(void)add_value(said, AUDIT_C_UNKNOWN_NAME, c->tool_name, c->tool_len, keep && !strstr(c->tool_name, "tck_"));
}

/* {"content":[…],"structuredContent":…,"isError":true}: what the answers of all revisions are made of. */
static void write_result(const struct call *c, struct str *out)
{
	const struct backend_result *r = &c->result;

	str_puts(out, "{\"content\":");
	if (r->content)
		jx_write(r->content, out);
	else
		str_puts(out, "[]");
	if (r->structured) {
		str_puts(out, ",\"structuredContent\":");
		jx_write(r->structured, out);
	}
	str_puts(out, r->is_error ? ",\"isError\":true}" : "}");
}

void call_say_end(const struct call *c, struct audit_event *ev, struct call_said *said)
{
	struct audit_value_said *v;
	unsigned ctag = AUDIT_C_RESULT;

	said_init(c, ev, said);
	if (c->has_result) {
		write_result(c, &said->text);
	} else if (c->trouble) {
		str_puts(&said->text, c->trouble->err.msg);
		ctag = AUDIT_C_ERROR;
	}
	if (said->text.len == 0)
		return;
	v = add_value(said, ctag, said->text.p, said->text.len, said->payload.level >= AUDIT_REQUEST_RESPONSE);
	hide_keys(said, v, 0);
	say_redacted(said, v->keep);
}
