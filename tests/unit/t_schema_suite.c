/* The official JSON Schema Test Suite, where JSON_SCHEMA_SUITE names its folder "tests"; else skipped.
 * A schema may be refused at compile time for a keyword that is not built; a wrong verdict is a failure. */
#include "config.h"

#include "schema/schema.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"

#define SKIPPED 77
#define FILE_MAX (1u << 20)

struct score { unsigned right, wrong, refused, verbose; };

/* Optional files that test what the dialects leave open, each with the reason why it is left out. */
static const char *const left_out[] = {
	"bignum.json",                  /* numbers beyond int64 and double are refused by the parser */
	"float-overflow.json",          /* the same */
	"format-assertion.json",        /* format is an annotation here */
	"content.json",                 /* contentEncoding and contentMediaType are annotations here */
	"dependencies-compatibility.json", /* draft-07's keyword is refused by name in 2020-12 */
};

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

static void run_group(struct score *s, const char *file, json_t *group, const char *dialect)
{
	json_t *doc = json_object_get(group, "schema"), *test;
	const char *about = json_string_value(json_object_get(group, "description"));
	struct schema *schema = NULL;
	struct err e;
	size_t i;

	if (json_is_object(doc) && !json_object_get(doc, "$schema"))
		(void)json_object_set_new(doc, "$schema", json_string(dialect));
	if (schema_compile(doc, &schema, &e) != 0) {
		s->refused += (unsigned)json_array_size(json_object_get(group, "tests"));
		if (s->verbose)
			printf("# refused: %s: %s: %s: %s\n", file, about, e.where, e.msg);
		return;
	}
	json_array_foreach(json_object_get(group, "tests"), i, test) {
		struct schema_report report;
		int rc = schema_run(schema, json_object_get(test, "data"), &report);
		bool valid = json_is_true(json_object_get(test, "valid"));

		if ((rc == 0) == valid && (rc == 0) == (report.count == 0) &&
		    rc == schema_run(schema, json_object_get(test, "data"), NULL)) {
			s->right++;
			continue;
		}
		s->wrong++;
		printf("# wrong: %s: %s: %s: code %d\n", file, about,
		       json_string_value(json_object_get(test, "description")), rc);
	}
	schema_free(&schema);
}

static bool is_left_out(const char *name)
{
	for (size_t i = 0; i < NELEMS(left_out); i++)
		if (strcmp(left_out[i], name) == 0)
			return true;
	return false;
}

static void run_folder(struct score *s, const char *folder, const char *dialect)
{
	DIR *d = opendir(folder);
	struct dirent *entry;

	if (!d) {
		printf("# cannot open %s: %s\n", folder, strerror(errno));
		s->wrong++;
		return;
	}
	while ((entry = readdir(d))) {
		struct str path = STR_INIT;
		json_t *file, *group;
		size_t i;

		if (!strstr(entry->d_name, ".json") || (strstr(folder, "/optional") && is_left_out(entry->d_name)))
			continue;
		str_printf(&path, "%s/%s", folder, entry->d_name);
		file = read_file(path.p);
		if (!file) {
			printf("# cannot read %s\n", path.p);
			s->wrong++;
		}
		json_array_foreach(file, i, group)
			run_group(s, entry->d_name, group, dialect);
		json_decref(file);
		str_fini(&path);
	}
	(void)closedir(d);
}

int main(void)
{
	static const struct { const char *folder, *dialect; } folders[] = {
		{ "draft2020-12", "https://json-schema.org/draft/2020-12/schema" },
		{ "draft2020-12/optional", "https://json-schema.org/draft/2020-12/schema" },
		{ "draft7", "http://json-schema.org/draft-07/schema#" },
		{ "draft7/optional", "http://json-schema.org/draft-07/schema#" },
	};
	const char *suite = getenv("JSON_SCHEMA_SUITE");
	unsigned wrong = 0;

	if (!suite)
		return SKIPPED;
	for (size_t i = 0; i < NELEMS(folders); i++) {
		struct score s = { .verbose = getenv("VERBOSE") != NULL };
		struct str path = STR_INIT;

		str_printf(&path, "%s/%s", suite, folders[i].folder);
		run_folder(&s, path.p, folders[i].dialect);
		printf("%s: %u right, %u refused, %u wrong\n", folders[i].folder, s.right, s.refused, s.wrong);
		wrong += s.wrong;
		str_fini(&path);
	}
	return wrong != 0;
}
