/* Definition documents in files and folders: read here, so that sockets speak JSON only, named here when something is
 * wrong in one of them, and written when documents are asked for. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "json/yaml.h"

#include "ctl_int.h"

/* --- Folders of documents */

/* Which files a folder means, and the folder that documents are written into. */

#define FOLDER_DEPTH_MAX 8
#define FOLDER_FILES_MAX 10000

/* --- reading */

static bool is_document(const char *name)
{
	static const char *const ends[] = { ".yaml", ".yml", ".json" };
	size_t len = strlen(name);

	for (size_t i = 0; i < NELEMS(ends); i++) {
		size_t n = strlen(ends[i]);

		if (len > n && strcmp(name + len - n, ends[i]) == 0)
			return true;
	}
	return false;
}

static int not_hidden(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static bool is_folder(const char *path)
{
	struct stat st;

	return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int take_folder(const char *path, unsigned depth, json_t *into, struct err *err);

static int take_entry(const char *path, const char *name, unsigned depth, json_t *into, struct err *err)
{
	int rc = 0;

	if (is_folder(path))
		rc = take_folder(path, depth + 1, into, err);
	else if (is_document(name) && json_array_size(into) == FOLDER_FILES_MAX)
		rc = err_set(err, ERR_LIMIT, "", "more than %d files", FOLDER_FILES_MAX);
	else if (is_document(name))
		(void)json_array_append_new(into, json_string(path));
	return rc;
}

/* By name, folders among the files. */
static int take_folder(const char *path, unsigned depth, json_t *into, struct err *err)
{
	struct dirent **list = NULL;
	int n, rc = 0;

	if (depth > FOLDER_DEPTH_MAX)
		return err_set(err, ERR_LIMIT, "", "%s is nested deeper than %d folders", path, FOLDER_DEPTH_MAX);
	n = scandir(path, &list, not_hidden, alphasort);
	if (n < 0) {
		int e = errno;

		return err_set(err, ERR_UNREACHABLE, "", "cannot read %s: %s", path, strerror(e));
	}
	for (int i = 0; i < n; i++) {
		char *child = path_join(path, list[i]->d_name);

		if (rc == 0)
			rc = take_entry(child, list[i]->d_name, depth, into, err);
		free(child);
		free(list[i]);
	}
	free(list);
	return rc;
}

/* Append the paths to ret, each folder as the documents below it, by name. */
static int ctl_folder_expand(const json_t *paths, json_t *ret, struct err *err)
{
	const json_t *path;
	size_t i;
	int rc = 0;

	json_array_foreach(paths, i, path) {
		const char *name = json_string_value(path);

		if (is_folder(name))
			rc = take_folder(name, 0, ret, err);
		else
			(void)json_array_append(ret, (json_t *)(uintptr_t)path);
		if (rc < 0)
			break;
	}
	return rc;
}

/* --- writing */

/* The names come from the store: none may lead out of the folder. */
static bool is_inside(const char *file)
{
	return *file && *file != '/' && *file != '.' && !strstr(file, "/.");
}

/* Documents of one file, in the order of their rows. */
static void add_text(json_t *files, const char *file, const json_t *document)
{
	const char *before = json_string_value(json_object_get(files, file));
	struct str text = STR_INIT;

	if (before)
		str_printf(&text, "%s---\n", before);
	yaml_write(document, &text);
	(void)json_object_set_new(files, file, json_stringn(str_text(&text), text.len));
	str_fini(&text);
}

static int write_file(const char *dir, const char *file, const json_t *text, bool only_look, struct err *err)
{
	char *path = path_join(dir, file), *slash = strrchr(path, '/');
	int rc = 0;

	if (only_look) {
		if (path_exists(path))
			rc = err_set(err, ERR_CONFLICT, "", "%s exists already", path);
		if (rc < 0)
			err_hint(err, "nothing was written: name a folder without such files");
	} else {
		*slash = '\0';
		rc = path_mkdirs(path, 0777, err);
		*slash = '/';
		if (rc == 0)
			rc = path_create(path, 0666, json_string_value(text), json_string_length(text), err);
	}
	free(path);
	return rc;
}

int ctl_folder_write(const char *dir, const json_t *rows, size_t *ret_files, struct err *err)
{
	json_t *files = json_object(), *text;
	const json_t *row;
	const char *file;
	size_t i;
	int rc = 0;

	json_array_foreach(rows, i, row) {
		file = json_string_value(json_object_get(row, "file"));
		if (!file || !is_inside(file)) {
			rc = err_set(err, ERR_INVALID, "", "a document without a name for its file");
			break;
		}
		add_text(files, file, json_object_get(row, "document"));
	}
	/* Look at all before the first is written. */
	for (int look = 1; look >= 0 && rc == 0; look--)
		json_object_foreach(files, file, text)
			if (rc == 0)
				rc = write_file(dir, file, text, look, err);
	*ret_files = json_object_size(files);
	json_decref(files);
	return rc;
}

/* --- documents of files */

#define WHERE_PREFIX "/documents/"

struct file {
	struct yaml_docs *docs;
	size_t first, count;            /* its documents among those of all files */
};
struct ctl_files {
	struct file *v;
	size_t n;
};

/* What somebody names may be a pipe; what lies in a folder is a file. */
static bool is_named(const json_t *paths, const json_t *path)
{
	for (size_t i = 0; i < json_array_size(paths); i++) {
		if (json_array_get(paths, i) == path)
			return true;
	}
	return false;
}

static int load_file(const char *path, bool named, struct file *file, json_t *documents, struct err *err)
{
	struct str text = STR_INIT;
	int rc = named ? path_read_input(path, YAML_TEXT_MAX, &text, err) : path_read(path, YAML_TEXT_MAX, &text, err);

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
	struct ctl_files *files = mem_zalloc(sizeof(*files));
	json_t *all = json_array();
	const json_t *path;
	size_t i;
	int rc = ctl_folder_expand(paths, all, err);

	files->v = mem_calloc(json_array_size(all), sizeof(*files->v));
	json_array_foreach(all, i, path) {
		if (rc == 0)
			rc = load_file(json_string_value(path), is_named(paths, path), &files->v[files->n], documents,
				       err);
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

	if (!files || strncmp(where, WHERE_PREFIX, sizeof(WHERE_PREFIX) - 1) != 0)
		return false;
	where += sizeof(WHERE_PREFIX) - 1;
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
