/* The block `approve`: read from definitions and from rows, asked of arguments and of persons; and the digest of what
 * is agreed to. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assent/rule.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"
#include "schema/schema.h"

/* --- reading it */

static int wrong(struct err *err, const char *at, const char *name, const char *what)
{
	char where[96];

	(void)snprintf(where, sizeof(where), "%s/%s", at, name);
	return err_set(err, ERR_INVALID, where, "%s", what);
}

static int read_by(const json_t *block, const char *at, struct assent_rule *r, struct err *err)
{
	json_t *by = NULL, *item;
	size_t i;
	int rc = jx_get_array(block, at, "by", JX_REQUIRED, &by, err);

	if (rc < 0)
		return rc;
	if (json_array_size(by) == 0 || json_array_size(by) > ASSENT_BY_MAX)
		return wrong(err, at, "by", "must name 1 to 16 groups and persons");
	json_array_foreach(by, i, item) {
		const char *text = json_string_value(item), *name = text ? strchr(text, ':') : NULL;
		const bool group = name && text_eq(text, (size_t)(name - text), "group");

		if (!name || !(group || text_eq(text, (size_t)(name - text), "person")) ||
		    strlen(name + 1) >= ASSENT_NAME_SIZE || !text_entity_name(name + 1, strlen(name + 1)) ||
		    strlen(text) != json_string_length(item))
			return wrong(err, at, "by", "must be group:NAME or person:NAME each, of the list of roles");
		r->by[r->nby].group = group;
		(void)snprintf(r->by[r->nby++].name, ASSENT_NAME_SIZE, "%s", name + 1);         /* fits */
	}
	return 0;
}

static int read_above(const json_t *block, const char *at, struct assent_rule *r, struct err *err)
{
	json_t *above = NULL, *most;
	const char *pointer;
	int rc = jx_get_object(block, at, "above", JX_OPTIONAL, &above, err);

	if (rc < 0 || !above)
		return rc;
	if (json_object_size(above) == 0 || json_object_size(above) > ASSENT_POINTERS_MAX)
		return wrong(err, at, "above", "must have 1 to 16 pointers into the arguments");
	json_object_foreach(above, pointer, most) {
		if (*pointer != '/' || !jx_pointer_valid(pointer))
			return wrong(err, at, "above", "each name must be a JSON pointer into the arguments, as in /amount");
		if (!json_is_number(most))
			return wrong(err, at, "above", "each value must be a number");
		r->above[r->nabove].pointer = mem_strdup(pointer);
		r->above[r->nabove++].most = json_incref(most);
	}
	return 0;
}

static int read_when(const json_t *block, const char *at, struct assent_rule *r, struct err *err)
{
	json_t *when = NULL;
	int rc = jx_get_object(block, at, "when", JX_OPTIONAL, &when, err);

	if (rc < 0 || !when)
		return rc;
	rc = schema_compile(when, &r->when, err);
	if (rc < 0) {
		err_at(err, "/when");
		err_at(err, at);
	}
	return rc;
}

static int read_show(const json_t *block, const char *at, struct assent_rule *r, struct err *err)
{
	json_t *show = NULL, *item;
	size_t i;
	int rc = jx_get_array(block, at, "show", JX_OPTIONAL, &show, err);

	if (rc < 0 || !show)
		return rc;
	if (json_array_size(show) == 0 || json_array_size(show) > ASSENT_POINTERS_MAX)
		return wrong(err, at, "show", "must have 1 to 16 pointers into the arguments");
	json_array_foreach(show, i, item) {
		const char *pointer = json_string_value(item);

		if (!pointer || *pointer != '/' || strlen(pointer) != json_string_length(item) || !jx_pointer_valid(pointer))
			return wrong(err, at, "show", "must be a JSON pointer into the arguments each, as in /amount");
		r->show[r->nshow++] = mem_strdup(pointer);
	}
	return 0;
}

static int read_span(const json_t *block, const char *at, const char *name, const uint64_t bounds[2], const char *range,
		     uint64_t *ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(block, at, name, JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (text_duration_ms(text, ret) < 0 || *ret < bounds[0] || *ret > bounds[1])
		return wrong(err, at, name, range);
	return 0;
}

static int read_rest(const json_t *block, const char *at, struct assent_rule *r, struct err *err)
{
	static const uint64_t wait[] = { ASSENT_TIMEOUT_MIN_MS, ASSENT_TIMEOUT_MAX_MS };
	static const uint64_t use[] = { ASSENT_USE_MIN_MS, ASSENT_USE_MAX_MS };
	int64_t count = 1;
	int rc = jx_get_int(block, at, "count", JX_OPTIONAL, 1, ASSENT_COUNT_MAX, &count, err);

	r->count = (unsigned)count;
	r->timeout_ms = ASSENT_TIMEOUT_MS;
	r->use_ms = ASSENT_USE_MS;
	if (rc == 0)
		rc = read_span(block, at, "timeout", wait, "must be a time from 1m to 7d, as in 4h", &r->timeout_ms, err);
	if (rc == 0)
		rc = read_span(block, at, "use_within", use, "must be a time from 1s to 1d, as in 15m", &r->use_ms, err);
	return rc;
}

int assent_rule_read(const json_t *block, const char *at, struct assent_rule **ret, struct err *err)
{
	static const char *const known[] = { "by", "count", "above", "when", "timeout", "use_within", "show" };
	struct assent_rule *r = mem_zalloc(sizeof(*r));
	struct str text = STR_INIT;
	int rc = jx_only(block, at, known, NELEMS(known), err);

	if (rc == 0)
		rc = read_by(block, at, r, err);
	if (rc == 0)
		rc = read_above(block, at, r, err);
	if (rc == 0)
		rc = read_when(block, at, r, err);
	if (rc == 0)
		rc = read_show(block, at, r, err);
	if (rc == 0)
		rc = read_rest(block, at, r, err);
	jx_write_canon(block, &text);
	r->text = str_take(&text);
	if (rc < 0)
		assent_rule_free(&r);
	else
		*ret = r;
	return rc;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void join(struct assent_rule *r, struct assent_rule *also)
{
	r->also = also;
	r->timeout_ms = least(r->timeout_ms, also->timeout_ms);
	r->use_ms = least(r->use_ms, also->use_ms);
}

/* What assent_asks_text() has written. */
static int read_request(const json_t *v, const char *text, struct assent_rule **ret, struct err *err)
{
	const json_t *asks = json_object_get(v, "asks"), *grant = json_object_get(v, "grant"), *who;
	struct assent_rule *r = NULL, *next = NULL;
	struct str block = STR_INIT;
	size_t i;
	int rc = json_array_size(asks) > 0 && grant ? 0 : err_set(err, ERR_CORRUPT, "", "the rule of a request asks nobody");

	json_array_foreach(asks, i, who) {
		const char *name = json_string_value(who);

		next = NULL;
		if (rc == 0 && i < 2)
			rc = assent_rule_read(json_object_get(v, name ? name : ""), "", &next, err);
		if (rc == 0 && r && next)
			join(r, next);
		else if (next)
			r = next;
	}
	if (rc < 0) {
		assent_rule_free(&r);
		return rc;
	}
	jx_write_canon(grant, &block);
	r->grant = str_take(&block);
	free(r->text);
	r->text = mem_strdup(text);
	*ret = r;
	return 0;
}

int assent_rule_parse(const char *text, struct assent_rule **ret, struct err *err)
{
	json_t *block = NULL;
	int rc = jx_parse(text, strlen(text), &block, err);

	if (rc == 0 && !json_is_object(block))
		rc = err_set(err, ERR_CORRUPT, "", "the rule of an approval is no object");
	if (rc == 0)
		rc = json_object_get(block, "asks") ? read_request(block, text, ret, err) : assent_rule_read(block, "", ret, err);
	json_decref(block);
	return rc;
}

void assent_rule_free(struct assent_rule **rule)
{
	struct assent_rule *r = *rule;

	*rule = NULL;
	if (!r)
		return;
	for (size_t i = 0; i < r->nabove; i++) {
		free(r->above[i].pointer);
		json_decref(r->above[i].most);
	}
	for (size_t i = 0; i < r->nshow; i++)
		free(r->show[i]);
	schema_free(&r->when);
	assent_rule_free(&r->also);
	free(r->grant);
	free(r->text);
	free(r);
}

/* --- asking it */

static bool applies(const struct assent_rule *r, const json_t *args)
{
	for (size_t i = 0; i < r->nabove; i++) {
		const json_t *v = jx_at(args, r->above[i].pointer);

		if (!json_is_number(v) || jx_compare(jx_number(v), jx_number(r->above[i].most)) > 0)
			return true;
	}
	if (r->when)            /* not valid: it does not; beyond the budget: who knows */
		return schema_run(r->when, args, NULL) != ERR_INVALID;
	return r->nabove == 0;
}

void assent_rule_whom(const struct assent_rule *r, struct str *out)
{
	if (r->count > 1)
		str_printf(out, "%u of ", r->count);
	for (size_t i = 0; i < r->nby; i++)
		str_printf(out, "%s%s", i ? " or " : "", r->by[i].name);
	if (r->also) {
		str_puts(out, ", and ");
		assent_rule_whom(r->also, out);
	}
}

unsigned assent_rule_count(const struct assent_rule *r)
{
	return r->also && r->also->count > r->count ? r->also->count : r->count;
}

bool assent_asks(const struct assent_rule *tool, const struct assent_rule *grant, const json_t *args,
		 struct assent_asks *ret)
{
	*ret = (struct assent_asks){ tool, grant, tool && applies(tool, args),
				     grant && applies(grant, args) };
	return ret->by_tool || ret->by_grant;
}

/* Canonical JSON, of which only this writes `asks`; `count` is for verifiers, which count votes. */
void assent_asks_text(const struct assent_asks *a, struct str *out)
{
	unsigned count = a->by_tool ? a->tool->count : 0;

	if (!a->grant) {
		str_puts(out, a->tool->text);
		return;
	}
	if (a->by_grant && a->grant->count > count)
		count = a->grant->count;
	str_printf(out, "{\"asks\":[%s%s%s],\"count\":%u,\"grant\":%s", a->by_tool ? "\"tool\"" : "",
		   a->by_grant && a->by_tool ? "," : "", a->by_grant ? "\"grant\"" : "", count, a->grant->text);
	if (a->tool)
		str_printf(out, ",\"tool\":%s", a->tool->text);
	str_putc(out, '}');
}

uint64_t assent_asks_ms(const struct assent_asks *a)
{
	const struct assent_rule *one = a->by_tool ? a->tool : a->grant, *other = a->by_grant ? a->grant : one;

	return least(one->timeout_ms, other->timeout_ms) + least(one->use_ms, other->use_ms);
}

void assent_digest(const struct assent_what *what, uint8_t ret[32])
{
	json_t *v = json_object();
	struct str text = STR_INIT;
	char hex[2 * DIGEST_SIZE + 1];

	text_hex(what->tdef, DIGEST_SIZE, hex);
	json_object_set_new(v, "tenant", json_integer(what->tenant_id));
	json_object_set_new(v, "principal", json_integer(what->principal_id));
	json_object_set_new(v, "tool", json_string(what->tool));
	json_object_set_new(v, "definition", json_string(hex));
	json_object_set_new(v, "arguments", json_incref((json_t *)(uintptr_t)what->args));
	json_object_set_new(v, "rule", json_string(what->rule));
	if (what->answers)
		json_object_set_new(v, "answers", json_incref((json_t *)(uintptr_t)what->answers));
	if (what->task) {
		json_object_set_new(v, "task", json_string(what->task));
		json_object_set_new(v, "round", json_integer(what->round));
	}
	jx_write_canon(v, &text);
	digest_sha256(str_text(&text), text.len, ret);
	str_fini(&text);
	json_decref(v);
}

/* --- who may */

static bool is_named(const struct conf_role *role, const struct assent_rule *rule)
{
	for (size_t i = 0; i < rule->nby; i++) {
		if (!rule->by[i].group && strcmp(rule->by[i].name, role->person) == 0)
			return true;
		for (size_t k = 0; rule->by[i].group && k < role->ngroups; k++)
			if (strcmp(rule->by[i].name, role->groups[k]) == 0)
				return true;
	}
	return false;
}

static bool is_principal(const char *name, const struct assent_caller *caller)
{
	const size_t n = strcspn(name, "/");

	return text_eq(name, n, caller->tenant) && (!*caller->principal || strcmp(name + n + 1, caller->principal) == 0);
}

/* Is the calling principal this person's own, as this line says or as a listener knows his user id? */
static bool is_caller(const struct conf_role *role, const struct assent_caller *caller)
{
	bool own = role->principal && is_principal(role->principal, caller);

	for (size_t i = 0; i < role->ncallers; i++)
		own |= is_principal(role->callers[i], caller);
	return own;
}

unsigned assent_decides(const struct conf_role *roles, size_t n, const struct assent_rule *rule,
			const struct assent_caller *caller, const char *person)
{
	unsigned of = 0;

	for (size_t i = 0; i < n; i++) {
		const struct conf_role *r = &roles[i];

		if (!r->person || strcmp(r->person, person) != 0)
			continue;
		if (is_caller(r, caller))
			return 0;
		if (r->kind != CONF_APPROVER || (r->tenant && strcmp(r->tenant, caller->tenant) != 0))
			continue;
		of |= is_named(r, rule) ? ASSENT_OF_RULE : 0;
		of |= rule->also && is_named(r, rule->also) ? ASSENT_OF_ALSO : 0;
	}
	return of;
}

bool assent_may_decide(const struct conf_role *roles, size_t n, const struct assent_rule *rule,
		       const struct assent_caller *caller, const char *person)
{
	return assent_decides(roles, n, rule, caller, person) != 0;
}
