/*
 * Our side of the differential run: each line of standard input is a schema and documents, JSON texts with tabs between
 * them.  Each gets one line.  "refused", a tab and why, when the schema is; else a word for each document: "valid",
 * "invalid", "limit" (a budget was spent) or "unread" (a number that the tree cannot hold, a member name with U+0000).
 */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"
#include "schema/schema.h"

/* As the validators of others do: members of any name are taken, formats are annotations. */
static int compile(const char *text, size_t len, struct schema **ret, struct err *err)
{
	const struct schema_options options = { .lenient = true };
	json_t *doc = NULL;
	int rc = jx_parse(text, len, &doc, err);

	if (!rc)
		rc = schema_compile_with(doc, &options, ret, err);
	json_decref(doc);
	return rc;
}

static const char *verdict(const struct schema *s, const char *text, size_t len)
{
	json_t *v = NULL;
	int rc;

	if (jx_parse(text, len, &v, NULL) != 0)
		return "unread";
	rc = schema_run(s, v, NULL);
	json_decref(v);
	return rc == 0 ? "valid" : rc == ERR_LIMIT ? "limit" : "invalid";
}

static void answer(const char *line, size_t len)
{
	const char *end = line + len, *tab = memchr(line, '\t', len);
	struct schema *s = NULL;
	struct err err = { 0 };

	if (!tab)
		tab = end;
	if (compile(line, (size_t)(tab - line), &s, &err) < 0) {
		printf("refused\t%s%s%s\n", err.msg, *err.where ? " at " : "", err.where);
		return;
	}
	while (tab < end) {
		const char *from = tab + 1;

		tab = memchr(from, '\t', (size_t)(end - from));
		if (!tab)
			tab = end;
		printf("%s%s", verdict(s, from, (size_t)(tab - from)), tab < end ? " " : "");
	}
	putchar('\n');
	schema_free(&s);
}

int main(void)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t len;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	while ((len = getline(&line, &size, stdin)) > 0)
		answer(line, (size_t)len - (line[len - 1] == '\n'));
	free(line);
	return 0;
}
