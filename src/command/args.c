/* Arguments: one check against the command's row for both roads, and getters for the handlers. */
#include "config.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "command_int.h"

#define ARG_TEXT_MAX (64u << 10)
#define ARG_REPEATED_MAX 1000
#define NAMES_MAX 32

int command_arg_check(const struct command_arg *arg, const char *text, struct err *err)
{
	struct text_rate rate;
	uint64_t n;

	switch (arg->type) {
	case ARG_UINT:
		if (text_u64(text, strlen(text), &n) == 0 && n <= UINT32_MAX)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: \"%s\" is no number", arg->name, text);
	case ARG_DURATION:
		if (text_duration_ms(text, &n) == 0)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: \"%s\" is no duration like 10s, 5m, 12h, 90d", arg->name, text);
	case ARG_RATE:
		if (text_rate(text, &rate) == 0)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: \"%s\" is no rate like 10/s, 60/min, 5000/day", arg->name, text);
	case ARG_TIME:
		if (clock_parse(text, clock_wall_us(), &n) == 0)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: \"%s\" is no time like 1h (ago), 2026-07-28, 2026-07-28T10:00:00Z",
			       arg->name, text);
	case ARG_YESNO:
		if (strcmp(text, "yes") == 0 || strcmp(text, "no") == 0)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: say yes or no", arg->name);
	case ARG_PATH:
	case ARG_PATH_READ:
	case ARG_PATH_NEW:
	case ARG_PATH_KEPT:
		if (*text)
			return 0;
		return err_set(err, ERR_INVALID, arg->name, "%s: the path is empty", arg->name);
	case ARG_TEXT:
	case ARG_JSON:
	case ARG_FLAG:
	case ARG_FILE:
	case ARG_KEYVALUES:
	case ARG_SECRET:
	case ARG_CURSOR:
	case ARG_COMMAND:
		break;
	}
	return 0;
}

static int bad_type(const struct command_arg *arg, const char *must, const json_t *value, struct err *err)
{
	return err_set(err, ERR_INVALID, arg->name, "%s must be %s, is %s", arg->name, must, jx_type_name(value));
}

static int check_text(const struct command_arg *arg, const json_t *value, struct err *err)
{
	if (!json_is_string(value))
		return bad_type(arg, "a string", value, err);
	if (strlen(json_string_value(value)) != json_string_length(value))
		return err_set(err, ERR_INVALID, arg->name, "%s has a NUL inside", arg->name);
	if (json_string_length(value) > ARG_TEXT_MAX && arg->type != ARG_JSON && arg->type != ARG_SECRET)
		return err_set(err, ERR_LIMIT, arg->name, "%s is longer than %u bytes", arg->name, ARG_TEXT_MAX);
	if (command_arg_check(arg, json_string_value(value), err) < 0)
		return ERR_INVALID;
	/* The program makes it so; any other that speaks to the socket must not mean a place of the server's, or its input. */
	if (command_arg_is_path(arg) && *json_string_value(value) != '/')
		return err_set(err, ERR_INVALID, arg->name, "%s: the path must be absolute", arg->name);
	return 0;
}

static int check_value(const struct command_arg *arg, const json_t *value, struct err *err)
{
	const json_t *item;
	const char *key;
	size_t i;

	if (arg->type == ARG_FLAG)
		return json_is_boolean(value) ? 0 : bad_type(arg, "true or false", value, err);
	if (arg->type == ARG_JSON || arg->type == ARG_CURSOR)
		return json_is_object(value) ? 0 : bad_type(arg, "an object", value, err);
	if (arg->type == ARG_KEYVALUES) {
		json_t *v;

		if (!json_is_object(value))
			return bad_type(arg, "an object of texts", value, err);
		json_object_foreach((json_t *)(uintptr_t)value, key, v)
			if (!json_is_string(v))
				return err_set(err, ERR_INVALID, arg->name, "%s must be a text", key);
		return 0;
	}
	if (arg->type == ARG_FILE || arg->repeated) {
		if (!json_is_array(value) || json_array_size(value) == 0)
			return bad_type(arg, "a list of at least one", value, err);
		if (json_array_size(value) > ARG_REPEATED_MAX)
			return err_set(err, ERR_LIMIT, arg->name, "%s: at most %d at once", arg->name, ARG_REPEATED_MAX);
		if (arg->type == ARG_FILE)
			return 0;
		json_array_foreach(value, i, item)
			if (check_text(arg, item, err) < 0)
				return ERR_INVALID;
		return 0;
	}
	return check_text(arg, value, err);
}

/* What the CLI has read from files has another name there. */
static const char *member_of(const struct command_arg *arg)
{
	return arg->type == ARG_FILE ? "documents" : arg->type == ARG_SECRET ? "value" : arg->name;
}

int command_args_check(const struct command *cmd, const json_t *args, struct err *err)
{
	const char *known[NAMES_MAX];
	size_t n = 0;

	for (const struct command_arg *arg = cmd->args; arg && arg->name && n < NELEMS(known); arg++)
		known[n++] = member_of(arg);
	if (!json_is_object(args))
		return err_set(err, ERR_INVALID, "", "arguments must be an object");
	if (jx_only(args, "", known, n, err) < 0)
		return ERR_INVALID;
	for (const struct command_arg *arg = cmd->args; arg && arg->name; arg++) {
		const json_t *value = json_object_get(args, member_of(arg));

		if (!value && arg->required)
			return err_set(err, ERR_INVALID, arg->name, "%s is missing", arg->name);
		if (value && check_value(arg, value, err) < 0)
			return ERR_INVALID;
	}
	return 0;
}

/* The arguments, of the thread that has them alone. */
static const json_t *args_of(const struct command_call *c)
{
	const struct command_run *run = command_run_of(c);

	assert(run->owned && pthread_equal(run->owner, pthread_self()));
	return c->args;
}

const json_t *arg_json(const struct command_call *c, const char *name)
{
	return json_object_get(args_of(c), name);
}

const char *arg_text(const struct command_call *c, const char *name)
{
	return json_string_value(arg_json(c, name));
}

void arg_copy(const struct command_call *c, const char *name, char *ret, size_t size)
{
	const char *text = arg_text(c, name);

	(void)snprintf(ret, size, "%s", text ? text : "");
}

bool arg_given(const struct command_call *c, const char *name)
{
	return arg_json(c, name) != NULL;
}

bool arg_flag(const struct command_call *c, const char *name)
{
	const json_t *value = arg_json(c, name);

	return json_is_true(value) || (json_is_string(value) && strcmp(json_string_value(value), "yes") == 0);
}

uint32_t arg_uint(const struct command_call *c, const char *name, uint32_t def)
{
	const char *text = arg_text(c, name);
	uint64_t n = def;

	if (text)
		(void)text_u64(text, strlen(text), &n); /* was checked */
	return (uint32_t)n;
}

uint64_t arg_duration_ms(const struct command_call *c, const char *name, uint64_t def)
{
	const char *text = arg_text(c, name);
	uint64_t ms = def;

	if (text)
		(void)text_duration_ms(text, &ms);      /* was checked */
	return ms;
}

struct text_rate arg_rate(const struct command_call *c, const char *name)
{
	const char *text = arg_text(c, name);
	struct text_rate rate = { 0, 0 };

	if (text)
		(void)text_rate(text, &rate);           /* was checked */
	return rate;
}

uint64_t arg_time(const struct command_call *c, const char *name)
{
	const char *text = arg_text(c, name);
	uint64_t us = 0;

	if (text)
		(void)clock_parse(text, clock_wall_us(), &us);  /* was checked */
	return us;
}

size_t arg_count(const struct command_call *c, const char *name)
{
	const json_t *value = arg_json(c, name);

	return json_is_array(value) ? json_array_size(value) : value != NULL;
}

const char *arg_nth(const struct command_call *c, const char *name, size_t i)
{
	const json_t *value = arg_json(c, name);

	return json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
}

int arg_split(const char *text, char ret_tenant[64], char ret_name[64], struct err *err)
{
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : 0;

	if (!slash || !text_entity_name(text, n) || !text_entity_name(slash + 1, strlen(slash + 1))) {
		(void)err_set(err, ERR_INVALID, "", "\"%s\" is no TENANT/NAME", text);
		err_hint(err, "names are lower-case letters, digits and _ . -, for example acme/build-bot");
		return ERR_INVALID;
	}
	memcpy(ret_tenant, text, n);
	ret_tenant[n] = '\0';
	memcpy(ret_name, slash + 1, strlen(slash + 1) + 1);
	return 0;
}

void *command_priv(struct command_call *c, size_t n)
{
	c->priv = mem_zalloc(n);
	if (!c->free_priv)
		c->free_priv = free;
	return c->priv;
}

int arg_reason(const struct command_call *c, const char *name, char *ret, size_t size, struct err *err)
{
	const char *text = arg_text(c, name);

	if (text && (!*text || strlen(text) >= size))
		return err_set(err, ERR_INVALID, name, "%s has 1 to %zu bytes", name, size - 1);
	arg_copy(c, name, ret, size);
	return 0;
}
