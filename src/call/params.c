/* Mcp-Param-* headers against the arguments of the body (MCP T-43 to T-45): one comparison, the body counts. */

#include "config.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "call_int.h"
#include "json/json.h"

#define SAFE_INTEGER_MAX 9007199254740991       /* 2^53 - 1 */

static const struct call_param *find_header(const struct call_req *req, const char *name)
{
	for (size_t i = 0; i < req->nparams; i++)
		if (strcasecmp(req->params[i].name, name) == 0)
			return &req->params[i];
	return NULL;
}

/* Decimal digits with a sign, perhaps a fraction of zeros: 42.0 is 42. */
static bool read_integer(const char *p, size_t len, int64_t *ret)
{
	const char *dot = memchr(p, '.', len);
	size_t whole = dot ? (size_t)(dot - p) : len;

	if (dot && (whole + 1 == len || strspn(dot + 1, "0") < len - whole - 1))
		return false;
	return text_i64(p, whole, ret) == 0 && *ret <= SAFE_INTEGER_MAX && *ret >= -SAFE_INTEGER_MAX;
}

static bool equal(const struct reg_param *p, const json_t *value, const struct call_param *header)
{
	int64_t n;

	switch (p->type) {
	case REG_PARAM_STRING:
		return json_string_length(value) == header->value_len &&
		       memcmp(json_string_value(value), header->value, header->value_len) == 0;
	case REG_PARAM_INTEGER:
		return read_integer(header->value, header->value_len, &n) &&
		       jx_compare(jx_number(value), (struct jx_number){ .kind = JX_INTEGER, .i = n }) == 0;
	case REG_PARAM_BOOLEAN:
		return text_eq(header->value, header->value_len, json_is_true(value) ? "true" : "false");
	}
	return false;
}

static bool has_type(const struct reg_param *p, const json_t *value)
{
	switch (p->type) {
	case REG_PARAM_STRING:
		return json_is_string(value);
	case REG_PARAM_INTEGER:
		return json_is_number(value);
	case REG_PARAM_BOOLEAN:
		return json_is_boolean(value);
	}
	return false;
}

int call_check_params(const struct call *c, const struct call_req *req, struct err *err)
{
	for (size_t i = 0; i < c->compiled->nparams; i++) {
		const struct reg_param *p = &c->compiled->params[i];
		const json_t *value = jx_at(c->args, p->pointer);
		const struct call_param *header = find_header(req, p->header);

		if (!value || json_is_null(value)) {
			if (header)
				return err_set(err, ERR_INVALID, p->pointer,
					       "Mcp-Param-%s has a value, the arguments have none", p->header);
			continue;
		}
		if (!header)
			return err_set(err, ERR_INVALID, p->pointer, "Mcp-Param-%s is missing", p->header);
		/* A value of another type is the schema's matter. */
		if (has_type(p, value) && !equal(p, value, header))
			return err_set(err, ERR_INVALID, p->pointer, "Mcp-Param-%s differs from the arguments", p->header);
	}
	return 0;
}
