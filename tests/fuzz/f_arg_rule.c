/* Fuzz target: the rules of a key for arguments.  The last line is the arguments, what is before it the rules.  Who is refused is
 * told where, and never what would be allowed; fewer rules allow no less. */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "fuzz.h"
#include "json/json.h"
#include "tenant/arg_rule.h"

static bool allows(const struct arg_rules *rules, const json_t *args)
{
	struct err err = { 0 };
	char with[sizeof err.msg], without[sizeof err.msg];
	int rc = arg_rules_check(rules, "t", args, &err);

	if (rc == 0)
		return true;
	snprintf(with, sizeof with, "the key does not allow this value at %s", err.where);
	snprintf(without, sizeof without, "the key allows this tool only with a value at %s", err.where);
	FUZZ_CHECK(rc == ERR_DENIED && (strcmp(err.where, "") == 0 || err.where[0] == '/'));
	/* where is cut where msg is not, in its own room. */
	FUZZ_CHECK(strncmp(err.msg, with, strlen(with)) == 0 || strncmp(err.msg, without, strlen(without)) == 0);
	return false;
}

static void check_lines(const struct arg_rules *all, const char *text, const json_t *args)
{
	bool each = true;

	for (const char *p = text + strspn(text, "\n"); *p;) {
		size_t len = strcspn(p, "\n");
		struct arg_rules *one = NULL;

		FUZZ_CHECK(len <= ARG_RULE_MAX && arg_rules_parse(p, len, &one, NULL) == 0 && one);
		each = allows(one, args) && each;
		arg_rules_unref(&one);
		p += len + strspn(p + len, "\n");
	}
	FUZZ_CHECK(allows(all, args) == each);
}

FUZZ_TARGET(arg_rule)
{
	const uint8_t *last = size ? memrchr(data, '\n', size) : NULL;
	size_t len = last ? (size_t)(last - data) : size;
	char *exact = mem_alloc(len ? len : 1);         /* with no byte behind it */
	char *text = mem_strndup((const char *)data, len);
	struct arg_rules *rules = NULL;
	json_t *args = NULL;
	struct err err = { 0 };
	int rc;

	if (len)
		memcpy(exact, data, len);
	if (last && jx_parse((const char *)last + 1, size - len - 1, &args, NULL) < 0)
		args = NULL;
	rc = arg_rules_parse(exact, len, &rules, &err);
	if (rc < 0) {
		FUZZ_CHECK(rules == NULL && (rc == ERR_INVALID || rc == ERR_LIMIT) && strcmp(err.where, "arg-rule") == 0 && err.msg[0]);
	} else {
		FUZZ_CHECK(strlen(text) == len);
		check_lines(rules, text, args);
	}
	arg_rules_unref(&rules);
	json_decref(args);
	free(exact);
	free(text);
	return 0;
}
