/*
 * Validates real documents by real schemas: FOLDER/NAME/schema.json and instances.jsonl, one document per line, all
 * valid.  Prints one JSON line per schema: microseconds per document when warm, milliseconds to compile, bytes of the
 * program per byte of the schema's text.  tests/bench/schema.py starts it and the peers.
 * Usage: b_schema FOLDER [ROUNDS_MS]
 */

#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "json/json.h"
#include "schema/schema.h"

enum { FILE_LIMIT = 16 << 20, SCALE = 8, COMPILES = 20, WARM_MS = 100, ROUNDS_MS = 300 };

static double now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static _Noreturn void fail(const char *name, const char *what)
{
	fprintf(stderr, "b_schema: %s: %s\n", name, what);
	exit(1);
}

static char *read_file(const char *folder, const char *name, const char *file, size_t *ret_len)
{
	struct str path = STR_INIT;
	char *text = mem_alloc(FILE_LIMIT);
	FILE *f;

	str_printf(&path, "%s/%s/%s", folder, name, file);
	f = fopen(path.p, "re");
	if (!f)
		fail(path.p, "cannot be opened");
	*ret_len = fread(text, 1, FILE_LIMIT, f);
	(void)fclose(f);
	str_fini(&path);
	return text;
}

static json_t *parse(const char *name, const char *text, size_t len)
{
	json_t *v = NULL;
	struct err err;

	if (jx_parse(text, len, &v, &err) != 0)
		fail(name, err.msg);
	return v;
}

static json_t *read_lines(const char *folder, const char *name)
{
	json_t *list = json_array();
	size_t len;
	char *text = read_file(folder, name, "instances.jsonl", &len), *end = text + len;

	for (char *p = text, *line; p < end; p = line + 1) {
		line = memchr(p, '\n', (size_t)(end - p));
		if (!line)
			line = end;
		if (line > p)
			(void)json_array_append_new(list, parse(name, p, (size_t)(line - p)));
	}
	free(text);
	return list;
}

static struct schema *compile(const char *name, const json_t *doc, double *ret_ms)
{
	const struct schema_options options = { .lenient = true, .scale = SCALE };
	struct schema *s = NULL;
	struct err err;
	double best = 1e9;

	for (int i = 0; i < COMPILES; i++) {
		double from = now_us();

		schema_free(&s);
		from = now_us();
		if (schema_compile_with(doc, &options, &s, &err) != 0)
			fail(name, err.msg);
		if (now_us() - from < best)
			best = now_us() - from;
	}
	*ret_ms = best / 1e3;
	return s;
}

static double round_us(const char *name, const struct schema *s, const json_t *list)
{
	double from = now_us();

	for (size_t i = 0; i < json_array_size(list); i++)
		if (schema_run(s, json_array_get(list, i), NULL) != 0)
			fail(name, "a document is judged wrongly");
	return now_us() - from;
}

static void measure(const char *folder, const char *name, double rounds_ms)
{
	size_t len;
	char *text = read_file(folder, name, "schema.json", &len);
	json_t *doc = parse(name, text, len), *list = read_lines(folder, name);
	double compile_ms, spent = 0, best = 1e18;
	struct schema *s = compile(name, doc, &compile_ms);
	struct str compact = STR_INIT;

	jx_write(doc, &compact);
	while (spent < WARM_MS * 1e3)
		spent += round_us(name, s, list);
	for (spent = 0; spent < rounds_ms * 1e3;) {
		double us = round_us(name, s, list);

		spent += us;
		if (us < best)
			best = us;
	}
	printf("{\"schema\":\"%s\",\"docs\":%zu,\"us_per_doc\":%.4f,\"compile_ms\":%.4f,\"memory_per_text\":%.2f,"
	       "\"text\":%zu}\n", name, json_array_size(list), best / (double)json_array_size(list), compile_ms,
	       (double)schema_memory(s) / (double)compact.len, compact.len);
	str_fini(&compact);
	schema_free(&s);
	json_decref(list);
	json_decref(doc);
	free(text);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int main(int argc, char **argv)
{
	struct dirent **entries = NULL;
	int n = argc > 1 ? scandir(argv[1], &entries, NULL, by_name) : -1;

	if (n < 0)
		fail(argc > 1 ? argv[1] : "usage", "name a folder with schemas");
	for (int i = 0; i < n; i++) {
		if (entries[i]->d_type == DT_DIR && entries[i]->d_name[0] != '.')
			measure(argv[1], entries[i]->d_name, argc > 2 ? strtod(argv[2], NULL) : ROUNDS_MS);
		free(entries[i]);
	}
	free(entries);
	return 0;
}
