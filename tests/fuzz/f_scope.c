/* Fuzz target: the scopes of a key or token.  The first line are the words, the second a name.  What is printed says the same
 * again, and every question about a set is answered as its printed words say. */

#include "config.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "fuzz.h"
#include "tenant/scope.h"

static void check_rights(const struct scopes *s, const char *name)
{
	char need[SCOPE_NEED_SIZE];

	FUZZ_CHECK(scope_has(s, SCOPE_ANYONE));
	for (unsigned right = SCOPE_TOOLS_LIST; right <= SCOPE_ADMIN; right <<= 1) {
		bool all = scope_allows_all(s, (enum scope_right)right), allows = scope_allows(s, (enum scope_right)right, name);

		FUZZ_CHECK(!all || allows);
		FUZZ_CHECK(!allows || scope_has(s, right));
		FUZZ_CHECK(strlen(scope_need(right, need)) > 0);
	}
}

/* Printed, read, printed. */
static void check_print(const struct scopes *s, const char *name)
{
	struct str first = STR_INIT, second = STR_INIT;
	struct scopes *again = NULL;

	scopes_print(s, &first);
	FUZZ_CHECK(scopes_parse(str_text(&first), first.len, &again, NULL) == 0);
	scopes_print(again, &second);
	FUZZ_CHECK(strcmp(str_text(&first), str_text(&second)) == 0);
	for (unsigned right = SCOPE_TOOLS_LIST; right <= SCOPE_ADMIN; right <<= 1) {
		FUZZ_CHECK(scope_has(s, right) == scope_has(again, right));
		FUZZ_CHECK(scope_allows(s, (enum scope_right)right, name) == scope_allows(again, (enum scope_right)right, name));
	}
	for (size_t i = 0; i < first.len; i++)          /* it may stand in a challenge (RFC 6749 3.3) */
		FUZZ_CHECK(first.p[i] >= ' ' && first.p[i] < 0x7f && first.p[i] != '"' && first.p[i] != '\\');
	scopes_unref(&again);
	str_fini(&first);
	str_fini(&second);
}

FUZZ_TARGET(scope)
{
	const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
	size_t len = newline ? (size_t)(newline - data) : size;
	char *words = mem_alloc(len ? len : 1);         /* with no byte behind them */
	char *name = newline ? mem_strndup((const char *)newline + 1, size - len - 1) : mem_strdup("x");
	struct scopes *s = NULL;
	struct err err = { 0 };
	int rc;

	if (len)
		memcpy(words, data, len);
	rc = scopes_parse(words, len, &s, &err);
	if (rc < 0) {
		FUZZ_CHECK(s == NULL && (rc == ERR_INVALID || rc == ERR_LIMIT) && strcmp(err.where, "scope") == 0 && err.msg[0]);
	} else {
		check_rights(s, name);
		check_print(s, name);
	}
	scopes_unref(&s);
	free(words);
	free(name);
	return 0;
}
