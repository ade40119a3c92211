/* The official JSON Schema Test Suite, where JSON_SCHEMA_SUITE names its folder; else skipped.  All
 * mandatory tests must pass; of the optional ones those that do not are listed by name, with the reason
 * where it is known, and may be two in a hundred. */
#include "config.h"

#include "schema/schema.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#define SKIPPED 77
#define FILE_MAX (1u << 20)
#define REMOTE_BASE "http://localhost:1234"
#define OPTIONAL_MAX_WRONG 2    /* in a hundred */

struct score { unsigned right, wrong; };
struct suite {
	const char *folder;
	const char *dialect;
	struct map *remotes;            /* uri -> json_t */
	struct score translated;        /* to 2020-12 */
};

/* Why an optional test does not pass, by its file. */
static const struct { const char *file, *why; } reasons[] = {
	{ "zeroTerminatedFloats.json", "1.0 is an integer in every dialect here, as from draft-06 on" },
};

/* The tests of a file that the parser refuses. */
static unsigned count_tests(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = mem_zalloc(FILE_MAX);
	unsigned n = 0;

	if (f) {
		(void)!fread(text, 1, FILE_MAX - 1, f);
		(void)fclose(f);
	}
	for (const char *p = text; (p = strstr(p, "\"valid\"")); p++)
		n++;
	free(text);
	return n;
}

static json_t *read_file(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = mem_alloc(FILE_MAX);
	size_t len;
	json_t *v = NULL;

	if (!f) {
		free(text);
		return NULL;
	}
	len = fread(text, 1, FILE_MAX, f);
	(void)fclose(f);
	if (jx_parse(text, len, &v, NULL) != 0)
		v = NULL;
	free(text);
	return v;
}

static bool is_json(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

/* The folder "remotes" as a catalogue, each file by the URI that the suite gives it. */
static void read_remotes(struct suite *s, const char *below)
{
	struct str folder = STR_INIT;
	struct dirent *entry;
	DIR *d;

	str_printf(&folder, "%s/remotes%s", s->folder, below);
	d = opendir(folder.p);
	while (d && (entry = readdir(d))) {
		struct str path = STR_INIT;

		str_printf(&path, "%s/%s", below, entry->d_name);
		if (is_json(entry->d_name)) {
			struct str uri = STR_INIT;

			str_printf(&uri, REMOTE_BASE "%s", path.p);
			str_printf(&folder, "/%s", entry->d_name);
			(void)map_set_z(s->remotes, uri.p, read_file(folder.p));
			folder.len -= strlen(entry->d_name) + 1;
			folder.p[folder.len] = '\0';
			str_fini(&uri);
		} else if (!strchr(entry->d_name, '.')) {
			read_remotes(s, path.p);
		}
		str_fini(&path);
	}
	if (d)
		(void)closedir(d);
	str_fini(&folder);
}

static const json_t *find_remote(void *arg, const char *uri)
{
	const struct suite *s = arg;

	return map_get_z(s->remotes, uri);
}

static const char *reason(const char *file)
{
	for (size_t i = 0; i < NELEMS(reasons); i++)
		if (strcmp(reasons[i].file, file) == 0)
			return reasons[i].why;
	return NULL;
}

static void note_wrong(struct score *s, const char *file, const char *group, const char *test, const char *how)
{
	const char *why = reason(file);

	s->wrong++;
	printf("# wrong: %s: %s: %s: %s%s%s\n", file, group, test, how, why ? "; known: " : "", why ? why : "");
}

static void run_group(struct suite *suite, struct score *s, const char *file, json_t *group, bool format)
{
	struct schema_options options = { .lenient = true, .assert_format = format, .find = find_remote,
					  .find_arg = suite };
	json_t *doc = json_object_get(group, "schema"), *test;
	const char *about = json_string_value(json_object_get(group, "description"));
	struct schema *schema = NULL;
	struct err e = { 0 };
	size_t i;
	int rc;

	if (json_is_object(doc) && !json_object_get(doc, "$schema"))
		(void)json_object_set_new(doc, "$schema", json_string(suite->dialect));
	rc = schema_compile_with(doc, &options, &schema, &e);
	json_array_foreach(json_object_get(group, "tests"), i, test) {
		const char *name = json_string_value(json_object_get(test, "description"));
		json_t *data = json_object_get(test, "data");
		bool valid = json_is_true(json_object_get(test, "valid"));
		struct schema_report report;
		char how[600];

		if (rc != 0) {
			(void)snprintf(how, sizeof how, "refused at %s: %s", e.where, e.msg);
			note_wrong(s, file, about, name, how);
		} else if ((schema_run(schema, data, &report) == 0) != valid) {
			note_wrong(s, file, about, name, valid ? report.failure[0].text : "valid");
		} else if ((report.count == 0) != valid || (schema_run(schema, data, NULL) == 0) != valid) {
			note_wrong(s, file, about, name, "another verdict when nobody asks why");
		} else {
			s->right++;
		}
	}
	schema_free(&schema);
}

/* What can be said in 2020-12 must judge the same there. */
static void run_translated(struct suite *suite, struct score *s, const char *file, json_t *group)
{
	const struct schema_options options = { .lenient = true, .find = find_remote, .find_arg = suite };
	const char *about = json_string_value(json_object_get(group, "description"));
	json_t *doc = json_object_get(group, "schema"), *translated = NULL, *test;
	struct schema *schema = NULL;
	struct err e = { 0 };
	size_t i;

	if (!json_is_object(doc) || schema_translate(doc, &translated, &e) != 1)
		return;
	if (schema_compile_with(translated, &options, &schema, &e) != 0)
		note_wrong(s, file, about, "translated", e.msg);
	json_array_foreach(json_object_get(group, "tests"), i, test) {
		if (!schema)
			break;
		if ((schema_run(schema, json_object_get(test, "data"), NULL) == 0) == json_is_true(json_object_get(test, "valid")))
			s->right++;
		else
			note_wrong(s, file, about, json_string_value(json_object_get(test, "description")),
				   "another verdict once translated");
	}
	schema_free(&schema);
	json_decref(translated);
}

static void run_file(struct suite *suite, struct score *s, const char *path, const char *name)
{
	json_t *file = read_file(path), *group;
	bool format = strstr(path, "/optional/format/") || strcmp(name, "content.json") == 0 ||
		      strcmp(name, "ecmascript-regex.json") == 0;
	size_t i;

	if (!file) {
		s->wrong += count_tests(path);
		printf("# wrong: %s: %u tests cannot be read\n", name, count_tests(path));
		return;
	}
	/* content.json is optional where it decides, in draft-07 alone. */
	if (strcmp(name, "content.json") == 0 && !strstr(path, "/optional/"))
		format = false;
	json_array_foreach(file, i, group) {
		run_group(suite, s, name, group, format);
		if (!strstr(path, "/optional/"))
			run_translated(suite, &suite->translated, name, group);
	}
	json_decref(file);
}

static void run_folder(struct suite *suite, struct score *s, const char *below)
{
	struct str folder = STR_INIT;
	struct dirent *entry;
	DIR *d;

	str_printf(&folder, "%s/tests/%s", suite->folder, below);
	d = opendir(folder.p);
	if (!d) {
		printf("# wrong: cannot open %s: %s\n", folder.p, strerror(errno));
		s->wrong++;
	}
	while (d && (entry = readdir(d))) {
		struct str path = STR_INIT;

		str_printf(&path, "%s/%s", folder.p, entry->d_name);
		if (is_json(entry->d_name))
			run_file(suite, s, path.p, entry->d_name);
		str_fini(&path);
	}
	if (d)
		(void)closedir(d);
	str_fini(&folder);
}

int main(void)
{
	static const struct { const char *draft, *dialect; bool optional; } drafts[] = {
		{ "draft2020-12", "https://json-schema.org/draft/2020-12/schema", true },
		{ "draft2019-09", "https://json-schema.org/draft/2019-09/schema", false },
		{ "draft7", "http://json-schema.org/draft-07/schema#", true },
		{ "draft6", "http://json-schema.org/draft-06/schema#", false },
		{ "draft4", "http://json-schema.org/draft-04/schema#", false },
	};
	struct suite suite = { .folder = getenv("JSON_SCHEMA_SUITE") };
	const void *key;
	void *value;
	size_t len;
	bool failed = false;

	if (!suite.folder) {
		printf("skipped: JSON_SCHEMA_SUITE does not name the folder of the JSON Schema Test Suite\n");
		return SKIPPED;
	}
	suite.remotes = map_new();
	read_remotes(&suite, "");
	for (size_t i = 0; i < NELEMS(drafts); i++) {
		struct score must = { 0, 0 }, may = { 0, 0 };
		struct str path = STR_INIT;

		suite.dialect = drafts[i].dialect;
		suite.translated = must;
		run_folder(&suite, &must, drafts[i].draft);
		str_printf(&path, "%s/optional", drafts[i].draft);
		run_folder(&suite, &may, path.p);
		str_puts(&path, "/format");
		run_folder(&suite, &may, path.p);
		printf("%s: mandatory %u of %u, optional and formats %u of %u, translated to 2020-12 %u of %u\n",
		       drafts[i].draft, must.right, must.right + must.wrong, may.right, may.right + may.wrong,
		       suite.translated.right, suite.translated.right + suite.translated.wrong);
		failed |= must.wrong > 0 || suite.translated.wrong > 0 || (drafts[i].optional && may.wrong * 100 > (may.right + may.wrong) *
							OPTIONAL_MAX_WRONG);
		str_fini(&path);
	}
	for (size_t it = 0; map_next(suite.remotes, &it, &key, &len, &value);)
		json_decref(value);
	map_free(&suite.remotes);
	return failed;
}
