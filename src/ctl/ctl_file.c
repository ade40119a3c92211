/* Definition documents: read here, so that sockets speak JSON only, and named here when something is wrong in
 * one of them. */

#include "config.h"

#include "ctl_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "json/yaml.h"

#define WHERE_PREFIX "/documents/"

struct file {
	struct yaml_docs *docs;
	size_t first, count;            /* its documents among those of all files */
};
struct ctl_files {
	struct file *v;
	size_t n;
};

static int load_file(const char *path, struct file *file, json_t *documents, struct err *err)
{
	struct str text = STR_INIT;
	int rc = path_read(path, YAML_TEXT_MAX, &text, err);

	if (rc < 0)
		err->where[0] = '\0';   /* the message names the file */
	else
		rc = yaml_load(path, str_text(&text), text.len, &file->docs, err);
	str_fini(&text);
	if (rc < 0)
		return rc;
	file->first = json_array_size(documents);
	file->count = yaml_count(file->docs);
	for (size_t i = 0; i < file->count; i++)
		(void)json_array_append(documents, yaml_root(file->docs, i));
	return 0;
}

int ctl_files_load(const json_t *paths, json_t *documents, struct ctl_files **ret, struct err *err)
{
	struct ctl_files *files = mem_zalloc(sizeof *files);
	json_t *all = json_array();
	const json_t *path;
	size_t i;
	int rc = ctl_folder_expand(paths, all, err);

	files->v = mem_calloc(json_array_size(all), sizeof *files->v);
	json_array_foreach(all, i, path) {
		if (rc == 0)
			rc = load_file(json_string_value(path), &files->v[files->n], documents, err);
		if (rc < 0)
			break;
		files->n++;
	}
	if (rc == 0 && json_array_size(documents) == 0)
		rc = err_set(err, ERR_INVALID, "", "no document in %s",
			     json_string_value(json_array_get(paths, 0)));
	json_decref(all);
	if (rc < 0)
		ctl_files_free(&files);
	else
		*ret = files;
	return rc;
}

bool ctl_files_where(const struct ctl_files *files, const char *where, char *ret, size_t size)
{
	size_t digits;
	uint64_t doc;

	if (!files || strncmp(where, WHERE_PREFIX, sizeof WHERE_PREFIX - 1) != 0)
		return false;
	where += sizeof WHERE_PREFIX - 1;
	digits = strcspn(where, "/");
	if (text_u64(where, digits, &doc) < 0)
		return false;
	for (size_t i = 0; i < files->n; i++) {
		const struct file *f = &files->v[i];

		if (doc >= f->first && doc - f->first < f->count) {
			yaml_where(f->docs, (size_t)doc - f->first, where + digits, ret, size);
			return true;
		}
	}
	return false;
}

void ctl_files_free(struct ctl_files **filesp)
{
	struct ctl_files *files = filesp ? *filesp : NULL;

	if (!files)
		return;
	*filesp = NULL;
	for (size_t i = 0; i < files->n; i++)
		yaml_free(&files->v[i].docs);
	free(files->v);
	free(files);
}
