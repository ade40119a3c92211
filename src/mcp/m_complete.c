/* completion/complete (MCP U-04): values of a prompt's argument or a template's variable that begin with what the caller
 * has typed.  Where the definition has the values, they are part of it and answered here, recorded like a list; a
 * handler is a call. */

#include "config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "json/json.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

#include "method_int.h"

enum { VALUES_MAX = 100 };

/* What params say; the trees are owned. */
struct asked {
	json_t *ref, *argument, *context;
	const char *type, *name;        /* of the reference: name, or uri */
	const char *argument_name, *value;
};

static void asked_fini(struct asked *a)
{
	json_decref(a->ref);
	json_decref(a->argument);
	json_decref(a->context);
}

static const char *text_in(const json_t *obj, const char *name)
{
	const json_t *v = json_object_get(obj, name);
	const char *text = json_string_value(v);

	return text && strlen(text) == json_string_length(v) ? text : NULL;
}

static bool read_params(const struct mcp_msg *msg, struct asked *ret)
{
	const struct { const char *name; json_t **tree; } members[] = {
		{ "ref", &ret->ref }, { "argument", &ret->argument }, { "context", &ret->context },
	};
	struct rpc_walk w;
	struct jx_span v;
	char name[16];

	if (!msg->rpc->params.p)
		return false;
	rpc_walk_start(&w, msg->rpc->params);
	while (rpc_walk_member(&w, name, sizeof name, &v))
		for (size_t i = 0; i < NELEMS(members); i++)
			if (strcmp(name, members[i].name) == 0 && !*members[i].tree &&
			    (!rpc_is(v, '{') || jx_parse_scanned(v.p, v.len, members[i].tree, NULL) < 0))
				return false;
	ret->type = text_in(ret->ref, "type");
	ret->name = ret->type ? text_in(ret->ref, strcmp(ret->type, "ref/resource") == 0 ? "uri" : "name") : NULL;
	ret->argument_name = text_in(ret->argument, "name");
	ret->value = text_in(ret->argument, "value");
	return ret->name && ret->argument_name && ret->value && strlen(ret->name) < MCP_URI_SIZE &&
		(strcmp(ret->type, "ref/prompt") == 0 || strcmp(ret->type, "ref/resource") == 0);
}

/* The arguments that the caller has settled already, and what it types (MCP U-04: from R3 on). */
static json_t *arguments_of(const struct asked *a)
{
	json_t *given = json_object_get(a->context, "arguments"), *args = json_object(), *value;
	const char *name;

	json_object_foreach(given, name, value)
		if (json_is_string(value))
			json_object_set_new(args, name, json_incref(value));
	json_object_set_new(args, a->argument_name, json_string(a->value));
	return args;
}

static const struct reg_completion *find_completion(const struct reg_compiled *compiled, const char *argument)
{
	for (size_t i = 0; i < compiled->ncompletions; i++)
		if (strcmp(compiled->completions[i].argument, argument) == 0)
			return &compiled->completions[i];
	return NULL;
}

/* how NULL: nothing is known of this argument. */
static void answer_values(struct mcp_req *req, const struct reg_completion *how, const char *typed)
{
	json_t *values = json_array(), *completion = json_object();
	size_t len = strlen(typed), total = 0;

	for (size_t i = 0; how && i < how->nvalues; i++) {
		if (strncasecmp(how->values[i], typed, len) != 0)
			continue;
		if (total++ < VALUES_MAX)
			json_array_append_new(values, json_string(how->values[i]));
	}
	json_object_set_new(completion, "values", values);
	json_object_set_new(completion, "total", json_integer((json_int_t)total));
	json_object_set_new(completion, "hasMore", json_boolean(total > VALUES_MAX));
	req_result(req, &(struct enc_result){ .kind = ENC_COMPLETE, .structured = completion });
	json_decref(completion);
}

static void complete(struct mcp_req *req, const struct mcp_msg *msg, const struct asked *a,
		     const struct reg_snapshot *snap, const struct reg_tool *line)
{
	const struct reg_completion *how;
	const struct reg_compiled *compiled;
	struct mcp_completion what;
	struct rpc_error e;
	char detail[128];

	if (reg_compile(req->x->srv->env.registry, line->def, &compiled, NULL) < 0) {
		rpc_error_init(&e, FAULT_INTERNAL, NULL);
		req_fault(req, &e);
		return;
	}
	how = find_completion(compiled, a->argument_name);
	if (how && how->ops) {
		what = (struct mcp_completion){ .kind = line->def->kind, .ref = a->name, .ref_len = strlen(a->name),
						.argument = how->argument, .args = arguments_of(a) };
		call_completion(req, msg, &what);
		return;
	}
	(void)snprintf(detail, sizeof detail, "completion of %s", line->full_name); /* fits */
	list_record(req, snap->generation[reg_kinds[line->def->kind].family], 0, detail, line->def);
	answer_values(req, how, a->value);
}

void m_complete(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct registry *reg = req->x->srv->env.registry;
	struct asked a = { .ref = NULL };
	const struct reg_tool *line;
	struct reg_snapshot *snap;
	struct rpc_error e;
	bool prompt, whole = false;     /* whole: a URI, no template */

	if (!read_params(msg, &a)) {
		rpc_error_arguments(&e, "params must have ref {type, name or uri} and argument {name, value}");
		req_fault(req, &e);
		asked_fini(&a);
		return;
	}
	prompt = strcmp(a.type, "ref/prompt") == 0;
	snap = reg_acquire(reg, req->x->who->tenant_id);
	line = prompt ? reg_find(snap, REG_PROMPT, a.name, strlen(a.name)) : reg_find_template(snap, a.name, strlen(a.name));
	if (!line && !prompt) {
		line = reg_find_uri(snap, a.name, strlen(a.name), NULL);
		whole = line != NULL;
	}
	if (line && !reg_in_scope(line, req->x->who->scopes))
		line = NULL;
	if (line && !whole) {
		complete(req, msg, &a, snap, line);
	} else if (line) {
		answer_values(req, NULL, a.value);      /* a URI without variables has nothing to complete */
	} else {
		if (prompt)
			rpc_error_unknown_prompt(&e, a.name, strlen(a.name));
		else
			rpc_error_unknown_resource(&e, req->rev, a.name, strlen(a.name));
		req_fault(req, &e);
	}
	reg_release(reg, &snap);
	asked_fini(&a);
}
