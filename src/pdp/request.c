/* What a policy decision point is asked (PD-01): AuthZEN's evaluation of COAZ's default mapping and more, its members
 * in one order and nothing in it that changes by itself, so that equal questions have equal bytes.  What a definition
 * calls sensitive (audit.redact) is in no request, nor in the digest of one's arguments: a short value could be found
 * from that. */
#include "config.h"

#include <string.h>

#include "audit/audit.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "tenant/tenant.h"

#include "pdp_int.h"

static const char *authn_name(int authn)
{
	static const char *const names[] = { [AUDIT_AUTHN_KEY] = "key", [AUDIT_AUTHN_JWT] = "jwt",
		[AUDIT_AUTHN_MTLS] = "mtls", [AUDIT_AUTHN_UID] = "uid", [AUDIT_AUTHN_BOUND] = "bound",
		[AUDIT_AUTHN_NONE] = "none" };
	const char *name = authn >= 0 && (size_t)authn < NELEMS(names) ? names[authn] : NULL;

	return name ? name : "none";
}

static const char *method_of(const struct pdp_question *q)
{
	static const char *const methods[REG_KINDS] = { [REG_TOOL] = "tools/call", [REG_PROMPT] = "prompts/get",
		[REG_RESOURCE] = "resources/read", [REG_TEMPLATE] = "completion/complete" };

	return q->completing ? "completion/complete" : methods[q->kind];
}

static const char *type_of(const struct pdp_question *q)
{
	return q->kind == REG_TOOL ? "tool" : q->kind == REG_PROMPT ? "prompt" : "resource";
}

/* Of a tool its own name, whatever the tenant calls it: no alias goes around a policy. */
static const char *id_of(const struct pdp_question *q)
{
	return q->kind == REG_RESOURCE && q->uri ? q->uri :
		q->tool->def->name + strlen(reg_kinds[q->tool->def->kind].prefix);
}

static void member(struct str *out, const char *name, const char *value)
{
	str_puts(out, name);
	jx_write_stringz(out, value);
}

/* The first name of a pointer, without its escapes; *pointer goes behind it.  False: it is longer than any name. */
static bool next_name(const char **pointer, char ret[JX_NAME_MAX + 1])
{
	const char *p = *pointer + 1;
	size_t n = 0;

	for (; *p && *p != '/' && n < JX_NAME_MAX; p++) {
		const bool escape = *p == '~' && (p[1] == '0' || p[1] == '1');

		ret[n++] = escape ? (*++p == '0' ? '~' : '/') : *p;
	}
	ret[n] = '\0';
	*pointer = p;
	return *p == '\0' || *p == '/';
}

/* v without what the pointer leads to, as a new reference: a copy of what lies on the way, the rest shared. */
static json_t *without(json_t *v, const char *pointer)
{
	char name[JX_NAME_MAX + 1];
	json_t *child = NULL, *copy;
	uint64_t i = 0;

	if (*pointer == '\0' || !next_name(&pointer, name))
		return json_null();
	if (json_is_object(v))
		child = json_object_get(v, name);
	else if (json_is_array(v) && text_u64(name, strlen(name), &i) == 0)
		child = json_array_get(v, (size_t)i);
	if (!child)
		return json_incref(v);
	copy = json_copy(v);
	if (json_is_array(v))
		(void)json_array_set_new(copy, (size_t)i, without(child, pointer));
	else if (*pointer)
		(void)json_object_set_new(copy, name, without(child, pointer));
	else
		(void)json_object_del(copy, name);
	return copy;
}

/* What of the arguments may be known; new reference. */
static json_t *shown_arguments(const struct pdp_question *q)
{
	json_t *v = json_incref((json_t *)(uintptr_t)q->args);

	for (size_t i = 0; i < q->compiled->nredact; i++) {
		json_t *next = without(v, q->compiled->redact[i]);

		json_decref(v);
		v = next;
	}
	return v;
}

static void put_annotations(const struct pdp_question *q, struct str *out)
{
	const struct reg_def *def = q->tool->def;
	struct jx_want want = { .pointer = "/annotations" };

	if (q->kind == REG_TOOL && jx_scan(def->text, def->len, &want, 1, NULL) == 0 && want.span.p && *want.span.p == '{') {
		str_puts(out, ",\"annotations\":");
		str_put(out, want.span.p, want.span.len);
	}
}

static void put_chosen(const struct pdp_question *q, const json_t *shown, struct str *out)
{
	bool first = true;

	str_puts(out, ",\"arguments\":{");
	for (size_t i = 0; i < q->compiled->npolicy; i++) {
		const json_t *v = jx_at(shown, q->compiled->policy[i]);

		if (!v)
			continue;
		if (!first)
			str_putc(out, ',');
		first = false;
		jx_write_stringz(out, q->compiled->policy[i]);
		str_putc(out, ':');
		jx_write_canon(v, out);
	}
	str_putc(out, '}');
}

static void put_context(const struct pdp_question *q, enum conf_pdp_arguments arguments, struct str *out)
{
	json_t *shown = shown_arguments(q);
	struct str canon = STR_INIT;
	uint8_t sum[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1];

	jx_write_canon(shown, &canon);
	digest_sha256(str_text(&canon), canon.len, sum);
	text_hex(sum, sizeof(sum), hex);
	str_puts(out, ",\"context\":{");
	if (q->client) {
		member(out, "\"agent\":", q->client);
		str_putc(out, ',');
	}
	member(out, "\"transport\":", audit_tport_name(q->tport) ? audit_tport_name(q->tport) : "none");
	str_printf(out, ",\"argumentsDigest\":\"sha256:%s\"", hex);
	if (arguments == CONF_PDP_ALL && canon.len <= PDP_ARGUMENTS_MAX) {
		str_puts(out, ",\"arguments\":");
		str_put(out, canon.p, canon.len);
	} else if (arguments == CONF_PDP_ALL) {
		out->failed = true;
	} else if (arguments == CONF_PDP_CHOSEN) {
		put_chosen(q, shown, out);
	}
	str_puts(out, "}}");
	str_fini(&canon);
	json_decref(shown);
}

int pdp_put_request(const struct pdp_question *q, enum conf_pdp_arguments arguments, struct str *out, struct err *err)
{
	const struct principal *who = q->who;
	char hex[2 * DIGEST_SIZE + 1];

	member(out, "{\"subject\":{\"type\":\"identity\",\"id\":", who->name);
	member(out, ",\"properties\":{\"tenant\":", who->tenant);
	member(out, ",\"authn\":", authn_name(who->authn));
	if (who->cred_id)
		member(out, ",\"credential\":", who->accessor);
	member(out, "}},\"action\":{\"name\":", method_of(q));
	member(out, "},\"resource\":{\"type\":", type_of(q));
	member(out, ",\"id\":", id_of(q));
	text_hex(q->tool->def->digest, DIGEST_SIZE, hex);
	member(out, ",\"properties\":{\"definition\":", hex);
	if (q->kind != REG_RESOURCE && strcmp(q->tool->name, id_of(q)) != 0)
		member(out, ",\"alias\":", q->tool->name);
	put_annotations(q, out);
	str_puts(out, "}}");
	put_context(q, arguments, out);
	if (out->failed || out->len > 2 * PDP_ARGUMENTS_MAX)
		return err_set(err, ERR_LIMIT, "", "its arguments have more than %d bytes", PDP_ARGUMENTS_MAX);
	return 0;
}
