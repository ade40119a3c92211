/*
 * A judge for tests, by the validator that judges the arguments of tools.  Each line of standard input is
 * FILE#POINTER, a tab and a JSON document: is it valid by that definition of that schema file?  Each gets one line:
 * "valid", or "invalid: " and the first failures.  Exit 1, with a sentence, when a line or a schema is no good.
 * second/second.mjs answers the same questions with the validator of somebody else.
 */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "json/json.h"
#include "schema/schema.h"

enum { FILE_LIMIT = 1 << 20, SCALE = 8, SAID_MAX = 3 };

struct judge {
	struct map *files;              /* path: json_t, read once */
	struct map *schemas;            /* FILE#POINTER: struct schema, compiled once */
};

static _Noreturn void fail(const char *where, const struct err *err)
{
	fprintf(stderr, "validate: %s: %s%s%s\n", where, err->msg, *err->where ? " at " : "", err->where);
	exit(1);
}

static json_t *parse(const char *where, const char *text, size_t len)
{
	json_t *v = NULL;
	struct err err;

	if (jx_parse(text, len, &v, &err) < 0)
		fail(where, &err);
	return v;
}

static json_t *file_of(struct judge *j, const char *path)
{
	struct str text = STR_INIT;
	struct err err;
	json_t *doc = map_get_z(j->files, path);

	if (doc)
		return doc;
	if (path_read(path, FILE_LIMIT, &text, &err) < 0)
		fail(path, &err);
	doc = parse(path, text.p, text.len);
	str_fini(&text);
	(void)map_set_z(j->files, path, doc);
	return doc;
}

static struct schema *compile(struct judge *j, const char *reference)
{
	const struct schema_options options = { .assert_format = true, .scale = SCALE };
	const char *pointer = strchr(reference, '#');
	struct err err = { .msg = "has no #POINTER" };
	struct schema *s = NULL;
	char *path;
	json_t *doc;

	if (!pointer)
		fail(reference, &err);
	path = mem_strndup(reference, (size_t)(pointer - reference));
	doc = json_copy(file_of(j, path));
	(void)json_object_set_new(doc, "$ref", json_string(pointer));
	if (schema_compile_with(doc, &options, &s, &err) < 0)
		fail(reference, &err);
	json_decref(doc);
	free(path);
	return s;
}

static const struct schema *schema_of(struct judge *j, const char *reference)
{
	struct schema *s = map_get_z(j->schemas, reference);

	if (!s) {
		s = compile(j, reference);
		(void)map_set_z(j->schemas, reference, s);
	}
	return s;
}

static void answer(struct judge *j, char *line, size_t len)
{
	char *tab = memchr(line, '\t', len);
	struct err err = { .msg = "has no tab" };
	struct schema_report report = { .count = 0 };
	const struct schema *s;
	json_t *v;
	int quick;

	if (!tab)
		fail(line, &err);
	*tab = '\0';
	s = schema_of(j, line);
	v = parse(line, tab + 1, len - (size_t)(tab + 1 - line));
	quick = schema_run(s, v, NULL);
	if (schema_run(s, v, &report) != quick) {
		(void)err_set(&err, ERR_INTERNAL, "", "is judged differently when reasons are asked for");
		fail(line, &err);
	}
	if (quick == 0) {
		puts("valid");
	} else {
		printf("invalid:");
		for (size_t i = 0; i < report.count && i < SAID_MAX; i++)
			printf(" [%s: %s]", report.failure[i].instance, report.failure[i].text);
		putchar('\n');
	}
	json_decref(v);
}

static void judge_fini(struct judge *j)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; map_next(j->schemas, &it, &key, &len, &value);) {
		struct schema *s = value;

		schema_free(&s);
	}
	for (size_t it = 0; map_next(j->files, &it, &key, &len, &value);)
		json_decref(value);
	map_free(&j->schemas);
	map_free(&j->files);
}

int main(void)
{
	struct judge j = { .files = map_new(), .schemas = map_new() };
	char *line = NULL;
	size_t size = 0;
	ssize_t len;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	while ((len = getline(&line, &size, stdin)) > 0) {
		if (line[len - 1] == '\n')
			line[--len] = '\0';
		answer(&j, line, (size_t)len);
	}
	free(line);
	judge_fini(&j);
	return 0;
}
