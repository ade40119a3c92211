/* Documents in files and folders, and values that are never words.  Documents are read here, so that sockets speak JSON
 * only, a piece of them after another, so that they may be any number, and named here when something is wrong in one of
 * them.  What is written into a folder is made in a hidden one within, and moved to its place when all of it is there,
 * so that nobody sees half of it. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "documents/documents.h"
#include "json/yaml.h"

#include "ctl_int.h"

#define FOLDER_DEPTH_MAX 8
#define WHERE_PREFIX "/documents/"
#define PIECE_BYTES (128u << 10)        /* of text; a document may be larger */
#define GROUP_DOCS 500                  /* that are parsed together */
#define BLOCK 65536

/* --- the files that a folder means */

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
static int expand(const json_t *paths, json_t *ret, struct err *err)
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

/* --- documents of files */

/* Documents that were parsed together: where they are, should one of them be wrong. */
struct group { size_t file, first, count, lines; uint64_t at; size_t len; };

/* The group whose places were asked for last: notes come many at once. */
struct again {
	struct yaml_docs *docs;         /* NULL: it is not what it was */
	size_t of;                      /* its index + 1; 0 = none yet */
};

struct ctl_files {
	struct again *again;
	json_t *paths, *named;          /* named: those that somebody named himself */
	struct group *group; size_t ngroups, cap;
	size_t count;                   /* documents so far */
	bool failed, large;             /* large: a file is one text, which may be so */
	/* the file that is read */
	size_t file;                    /* of paths */
	FILE *in;                       /* NULL: not open */
	FILE **kept;                    /* of each path that can be read only once: what it said */
	struct str text;                /* of it, from a document's begin on */
	uint64_t at;                    /* where text begins */
	size_t lines;                   /* in front of it */
	bool eof;
};

/* --- one file */

/* What somebody names may be a pipe; what lies in a folder is a file. */
static bool is_named(const struct ctl_files *files, const json_t *path)
{
	for (size_t i = 0; i < json_array_size(files->named); i++)
		if (json_array_get(files->named, i) == path)
			return true;
	return false;
}

static int unreadable(const char *path, struct err *err)
{
	int e = errno;

	return err_set(err, ERR_UNREACHABLE, "", "cannot read %s: %s", path, strerror(e));
}

/* A pipe says it once, and may be asked for a place in it later. */
static int keep(const char *path, int fd, FILE **ret, struct err *err)
{
	FILE *f = tmpfile();
	char block[BLOCK];
	ssize_t n = -1;

	while (f && (n = read(fd, block, sizeof(block))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || fwrite(block, 1, (size_t)n, f) != (size_t)n)
			break;
	}
	if (!f || n != 0 || fflush(f) != 0) {
		(void)unreadable(path, err);
		if (f)
			(void)fclose(f);
		return ERR_UNREACHABLE;
	}
	*ret = f;
	return 0;
}

static int open_named(struct ctl_files *files, const char *path, FILE **ret, struct err *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	struct stat st;
	int fd, rc = 0;

	if (!is_stdin && stat(path, &st) == 0 && S_ISREG(st.st_mode))
		return path_open_stream(path, ret, err);
	if (!files->kept[files->file]) {
		fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		rc = fd < 0 ? unreadable(path, err) : keep(path, fd, &files->kept[files->file], err);
		if (!is_stdin && fd >= 0)
			close(fd);
	}
	if (rc == 0)
		rewind(files->kept[files->file]);
	*ret = files->kept[files->file];
	return rc;
}

static const char *path_of(const struct ctl_files *files, size_t file)
{
	return json_string_value(json_array_get(files->paths, file));
}

static int open_file(struct ctl_files *files, struct err *err)
{
	const json_t *path = json_array_get(files->paths, files->file);
	int rc = is_named(files, path) ? open_named(files, json_string_value(path), &files->in, err)
				       : path_open_stream(json_string_value(path), &files->in, err);

	if (rc < 0 && err)
		err->where[0] = '\0';   /* the message names the file */
	str_reset(&files->text);
	files->at = 0;
	files->lines = 0;
	files->eof = false;
	return rc;
}

static void close_file(struct ctl_files *files)
{
	if (files->in && files->in != files->kept[files->file])
		(void)fclose(files->in);        /* it was read */
	files->in = NULL;
}

static int read_more(struct ctl_files *files, struct err *err)
{
	char block[BLOCK];
	size_t n = fread(block, 1, sizeof(block), files->in);

	str_put(&files->text, block, n);
	files->eof = n == 0 && feof(files->in);
	return n == 0 && ferror(files->in) ? unreadable(path_of(files, files->file), err) : 0;
}

/* --- where documents end: in front of a line "---", behind a line "..." */

struct split {
	size_t line;                    /* where the next line begins */
	size_t lines;                   /* in front of it */
	bool begun;                     /* a document has begun; else there was nothing yet, or what stands before one */
};

static bool is_mark(const char *line, size_t len, const char *mark)
{
	return len >= 3 && memcmp(line, mark, 3) == 0 && (len == 3 || strchr(" \t\r\n", line[3]));
}

/* Go on to the end of a document: its offset, or 0 when the text does not have it. */
static size_t find_end(const char *p, size_t len, bool eof, struct split *s)
{
	while (s->line < len) {
		const char *line = p + s->line, *nl = memchr(line, '\n', len - s->line);
		size_t n = nl ? (size_t)(nl - line) + 1 : len - s->line, blanks = strspn(line, " \t\r\n");

		if (!nl && !eof)
			return 0;
		if (is_mark(line, n, "---") && s->begun) {
			s->begun = false;
			return s->line;
		}
		s->line += n;
		s->lines++;
		if (is_mark(line, n, "...")) {
			s->begun = false;
			return s->line;
		}
		s->begun = s->begun || (blanks < n && line[blanks] != '#' && *line != '%');
	}
	return eof ? len : 0;
}

static int read_large(struct ctl_files *files, struct err *err)
{
	while (!files->eof && files->text.len <= YAML_LARGE_TEXT_MAX)   /* whoever parses it says so */
		if (read_more(files, err) < 0)
			return err->code;
	return 0;
}

/* The next documents of the file, parsed together: as many as are small. */
static int read_group(struct ctl_files *files, size_t *ret_len, size_t *ret_lines, struct err *err)
{
	struct split s = { .begun = false };
	size_t len = 0, lines = 0, docs = 0, end;

	for (;;) {
		while ((end = find_end(str_text(&files->text), files->text.len, files->eof, &s)) == 0 && !files->eof) {
			if (files->text.len - len > YAML_TEXT_MAX)
				break;          /* whoever parses it says so */
			if (read_more(files, err) < 0)
				return err->code;
		}
		if (end == 0)
			end = files->text.len;
		if (docs > 0 && end > PIECE_BYTES)
			break;                  /* the last one is for another time */
		len = end;
		lines = s.lines;
		if (++docs == GROUP_DOCS || len >= PIECE_BYTES || (files->eof && len == files->text.len))
			break;
	}
	*ret_len = len;
	*ret_lines = lines;
	return 0;
}

static void note(struct ctl_files *files, size_t count, size_t len)
{
	if (files->ngroups == files->cap) {
		files->cap = files->cap ? 2 * files->cap : 16;
		files->group = mem_realloc(files->group, files->cap * sizeof(*files->group));
	}
	files->group[files->ngroups++] = (struct group){ .file = files->file, .first = files->count, .count = count,
		.lines = files->lines, .at = files->at, .len = len };
	files->count += count;
}

static int parse(const struct ctl_files *files, const char *path, size_t lines, const char *text, size_t len,
		 struct yaml_docs **ret, struct err *err)
{
	return files->large ? yaml_load_large(path, text, len, ret, err) : yaml_load_at(path, lines, text, len, ret, err);
}

static int take_group(struct ctl_files *files, json_t *documents, size_t *ret_len, struct err *err)
{
	struct yaml_docs *docs = NULL;
	size_t len = 0, lines = 0;
	int rc = files->large ? read_large(files, err) : read_group(files, &len, &lines, err);

	if (files->large)
		len = files->text.len;
	if (rc == 0)
		rc = parse(files, path_of(files, files->file), files->lines, str_text(&files->text), len, &docs, err);
	if (rc < 0)
		return rc;
	rc = document_take_files(path_of(files, files->file), docs, documents, err);
	note(files, yaml_count(docs), len);
	yaml_free(&docs);
	str_drop_front(&files->text, len);
	files->at += len;
	files->lines += lines;
	*ret_len = len;
	return rc;
}

/* --- all files */

static bool is_at_end(const struct ctl_files *files)
{
	return files->file == json_array_size(files->paths);
}

/* Is there anything behind what was read of this file? */
static int look_on(struct ctl_files *files, struct err *err)
{
	while (files->text.len == 0 && !files->eof)
		if (read_more(files, err) < 0)
			return err->code;
	if (files->text.len > 0)
		return 0;
	close_file(files);
	files->file++;
	return 0;
}

static int next(struct ctl_files *files, json_t *documents, bool *ret_more, struct err *err)
{
	size_t bytes = 0, len = 0;
	int rc = 0;

	while (rc == 0 && (bytes < PIECE_BYTES || json_array_size(documents) == 0) && !is_at_end(files)) {
		if (!files->in)
			rc = open_file(files, err);
		if (rc == 0)
			rc = take_group(files, documents, &len, err);
		if (rc == 0)
			rc = look_on(files, err);
		bytes += len;
	}
	if (rc == 0 && is_at_end(files) && files->count == 0)
		rc = err_set(err, ERR_INVALID, "", "no document in %s", path_of(files, 0));
	files->failed = rc < 0;
	*ret_more = !is_at_end(files);
	return rc;
}

int ctl_files_each(struct ctl_files *files, ctl_piece_fn *fn, void *arg, struct err *err)
{
	bool again = is_at_end(files), more = true;
	int rc = 0;

	if (again)
		files->file = files->ngroups = files->count = 0;
	while (rc == 0 && more) {
		json_t *documents = json_array();

		rc = next(files, documents, &more, err);
		if (rc == 0 && !again)
			rc = fn(arg, documents, more, err);
		again = false;
		json_decref(documents);
	}
	return rc;
}

int ctl_files_load(const json_t *paths, const struct command *cmd, json_t *documents, struct ctl_files **ret,
		   bool *ret_more, struct err *err)
{
	struct ctl_files *files = mem_zalloc(sizeof(*files));
	int rc;

	files->again = mem_zalloc(sizeof(*files->again));
	files->large = cmd->large;
	files->paths = json_array();
	files->named = json_incref((json_t *)(uintptr_t)paths);
	rc = expand(paths, files->paths, err);
	files->kept = mem_calloc(json_array_size(files->paths), sizeof(*files->kept));
	if (rc == 0 && json_array_size(files->paths) == 0)
		rc = err_set(err, ERR_INVALID, "", "no document in %s", json_string_value(json_array_get(paths, 0)));
	*ret_more = rc == 0;
	while (rc == 0 && *ret_more) {
		rc = next(files, documents, ret_more, err);
		if (cmd->pieces)
			break;
	}
	if (rc < 0)
		ctl_files_free(&files);
	else
		*ret = files;
	return rc;
}

/* --- places */

/* The documents of a group once more. */
static struct yaml_docs *load_again(const struct ctl_files *files, const struct group *g)
{
	const char *path = path_of(files, g->file);
	FILE *kept = files->kept[g->file], *in = kept;
	char *text = mem_alloc(g->len + 1);
	struct yaml_docs *docs = NULL;
	struct err ignored;

	if (!in && path_open_stream(path, &in, &ignored) < 0)
		in = NULL;
	if (in && fseeko(in, (off_t)g->at, SEEK_SET) == 0 && fread(text, 1, g->len, in) == g->len &&
	    parse(files, path, g->lines, text, g->len, &docs, &ignored) < 0)
		docs = NULL;
	if (in && in != kept)
		(void)fclose(in);       /* it was read */
	free(text);
	return docs;
}

bool ctl_files_where(const struct ctl_files *files, const char *where, char *ret, size_t size)
{
	size_t digits;
	uint64_t doc;

	if (files && files->failed) {
		(void)snprintf(ret, size, "%s", where);
		return true;
	}
	if (!files || strncmp(where, WHERE_PREFIX, sizeof(WHERE_PREFIX) - 1) != 0)
		return false;
	where += sizeof(WHERE_PREFIX) - 1;
	digits = strcspn(where, "/");
	if (text_u64(where, digits, &doc) < 0)
		return false;
	for (size_t i = 0; i < files->ngroups; i++) {
		const struct group *g = &files->group[i];
		struct again *again = files->again;

		if (doc < g->first || doc - g->first >= g->count)
			continue;
		if (again->of != i + 1) {
			yaml_free(&again->docs);
			again->docs = load_again(files, g);
			again->of = i + 1;
		}
		if (again->docs && doc - g->first < yaml_count(again->docs))
			yaml_where(again->docs, (size_t)doc - g->first, where + digits, ret, size);
		else            /* it is not what it was */
			(void)snprintf(ret, size, "%s", path_of(files, g->file));
		return true;
	}
	return false;
}

void ctl_files_free(struct ctl_files **filesp)
{
	struct ctl_files *files = filesp ? *filesp : NULL;

	if (!files)
		return;
	*filesp = NULL;
	yaml_free(&files->again->docs);
	free(files->again);
	if (files->kept && !is_at_end(files))
		close_file(files);
	for (size_t i = 0; files->kept && i < json_array_size(files->paths); i++)
		if (files->kept[i])
			(void)fclose(files->kept[i]);   /* it has no name */
	free(files->kept);
	free(files->group);
	str_fini(&files->text);
	json_decref(files->paths);
	json_decref(files->named);
	free(files);
}

/* --- writing */

struct ctl_folder {
	char *dir, *temp;               /* temp: within it, hidden */
	bool made;                      /* the folder was not there */
	json_t *files;                  /* those below temp: name -> how many documents */
};

/* The names come from the store: none may lead out of the folder. */
static bool is_inside(const char *file)
{
	return *file && *file != '/' && *file != '.' && !strstr(file, "/.");
}

static int cannot(const char *path, struct err *err)
{
	int e = errno;

	return err_set(err, e == EEXIST ? ERR_CONFLICT : ERR_IO, "", "%s: %s", path, strerror(e));
}

static int exists(const char *path, struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, "", "%s exists already", path);
	err_hint(err, "nothing was written: name a folder without such files");
	return ERR_CONFLICT;
}

static void folder_free(struct ctl_folder *f)
{
	path_remove_tree(f->temp);                                      /* what cannot go stays, hidden */
	if (f->made)
		(void)rmdir(f->dir);                                    /* only when nothing is in it */
	json_decref(f->files);
	free(f->temp);
	free(f->dir);
	free(f);
}

static int folder_new(const char *dir, struct ctl_folder **ret, struct err *err)
{
	struct ctl_folder *f;
	bool made = !path_exists(dir);
	char *temp;

	if (path_mkdirs(dir, 0777, err) < 0)
		return err->code;
	temp = path_join(dir, ".export-XXXXXX");
	if (!mkdtemp(temp)) {
		(void)cannot(temp, err);
		free(temp);
		return err->code;
	}
	f = mem_zalloc(sizeof(*f));
	*f = (struct ctl_folder){ .dir = mem_strdup(dir), .temp = temp, .made = made, .files = json_object() };
	*ret = f;
	return 0;
}

/* A new path below dir, with the folders that lead to it; free() it. */
static int make_place(const char *dir, const char *file, char **ret, struct err *err)
{
	char *path = path_join(dir, file), *slash = strrchr(path, '/');
	int rc;

	*slash = '\0';
	rc = path_mkdirs(path, 0777, err);
	*slash = '/';
	if (rc < 0)
		free(path);
	else
		*ret = path;
	return rc;
}

static int append(const char *path, bool first, const json_t *document, struct err *err)
{
	struct str text = STR_INIT;
	FILE *f = fopen(path, first ? "wxe" : "ae");
	bool done;

	if (!f)
		return cannot(path, err);
	if (!first)
		str_puts(&text, "---\n");
	yaml_write(document, &text);
	done = fwrite(text.p, 1, text.len, f) == text.len;
	str_fini(&text);
	return fclose(f) == 0 && done ? 0 : cannot(path, err);
}

static int put(struct ctl_folder *f, const json_t *row, struct err *err)
{
	const char *file = json_string_value(json_object_get(row, "file"));
	json_int_t before;
	char *path;
	int rc = 0;

	if (!file || !is_inside(file))
		return err_set(err, ERR_INVALID, "", "a document without a name for its file");
	before = json_integer_value(json_object_get(f->files, file));
	path = path_join(f->dir, file);
	if (before == 0 && path_exists(path))
		rc = exists(path, err);
	free(path);
	if (rc == 0)
		rc = make_place(f->temp, file, &path, err);
	if (rc < 0)
		return rc;
	rc = append(path, before == 0, json_object_get(row, "document"), err);
	free(path);
	(void)json_object_set_new(f->files, file, json_integer(before + 1));
	return rc;
}

int ctl_folder_put(struct ctl_folder **f, const char *dir, const json_t *row, struct err *err)
{
	if (!*f && folder_new(dir, f, err) < 0)
		return err->code;
	return put(*f, row, err);
}

/* Never over what is there. */
static int move(const struct ctl_folder *f, const char *file, struct err *err)
{
	char *from = path_join(f->temp, file), *to = NULL;
	int rc = make_place(f->dir, file, &to, err);

	if (rc == 0 && link(from, to) != 0)
		rc = errno == EEXIST ? exists(to, err) : cannot(to, err);
	free(from);
	free(to);
	return rc;
}

static void take_back(const struct ctl_folder *f, size_t n)
{
	const char *file;
	json_t *count;

	json_object_foreach(f->files, file, count) {
		char *path = path_join(f->dir, file);

		if (n-- > 0)
			(void)unlink(path);
		free(path);
		if (n == 0)
			break;
	}
}

static int move_all(const struct ctl_folder *f, struct err *err)
{
	const char *file;
	json_t *count;
	size_t moved = 0;
	int rc = path_sync_all(f->temp, err);

	json_object_foreach(f->files, file, count) {
		if (rc == 0)
			rc = move(f, file, err);
		moved += rc == 0;
	}
	if (rc == 0)
		rc = path_sync_all(f->dir, err);
	if (rc < 0)
		take_back(f, moved);
	return rc;
}

int ctl_folder_end(struct ctl_folder **fp, bool whole, size_t *ret_files, struct err *err)
{
	struct ctl_folder *f = *fp;
	int rc;

	*ret_files = 0;
	if (!f)
		return 0;
	rc = whole ? move_all(f, err) : 0;
	*fp = NULL;
	*ret_files = json_object_size(f->files);
	folder_free(f);
	return rc;
}

/* --- a value that must not stand in a command line: from a file, from standard input, or typed without echo */

#define VALUE_MAX (64u << 10)           /* what the command takes; the command says so itself */
#define CTRL_C '\003'

static const struct command_arg *secret_arg(const struct command *cmd)
{
	const struct command_arg *arg = cmd->args;

	while (arg && arg->name && arg->type != ARG_SECRET)
		arg++;
	return arg && arg->name ? arg : NULL;
}

bool ctl_takes_secret(const struct command *cmd)
{
	return secret_arg(cmd) != NULL;
}

/* One line; Ctrl-C arrives as a character, so that the terminal is always put right again. */
static int type_line(struct str *ret, struct err *err)
{
	struct termios was, hidden;
	ssize_t n = 0;
	char c = '\0';

	if (tcgetattr(STDIN_FILENO, &was) != 0)
		return err_set(err, ERR_IO, "", "cannot read from the terminal: %s", strerror(errno));
	hidden = was;
	hidden.c_lflag &= ~(tcflag_t)(ECHO | ICANON | ISIG);
	hidden.c_cc[VMIN] = 1;
	hidden.c_cc[VTIME] = 0;
	fputs("Value (not shown): ", stderr);
	fflush(stderr);
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) != 0)
		return err_set(err, ERR_IO, "", "cannot turn off echo: %s", strerror(errno));
	while ((n = read(STDIN_FILENO, &c, 1)) == 1 && c != '\n' && c != '\r' && c != CTRL_C && c != was.c_cc[VEOF]) {
		if (c == (char)was.c_cc[VERASE] || c == '\b')
			ret->len -= ret->len > 0;
		else if (c == (char)was.c_cc[VKILL])
			ret->len = 0;
		else
			str_putc(ret, c);
	}
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &was);         /* there is nothing better to do about it */
	fputs("\n", stderr);
	if (n < 0)
		return err_set(err, ERR_IO, "", "cannot read from the terminal: %s", strerror(errno));
	return c == CTRL_C ? err_set(err, ERR_CANCELLED, "", "nothing was done") : 0;
}

static int read_value(const char *path, struct str *ret, struct err *err)
{
	int rc;

	if (!path && isatty(STDIN_FILENO))
		return type_line(ret, err);
	rc = path_read_input(path ? path : "-", VALUE_MAX + 2, ret, err);
	if (rc == ERR_LIMIT)
		return err_set(err, ERR_LIMIT, "", "the value is longer than %u bytes", VALUE_MAX);
	if (rc < 0) {
		err->where[0] = '\0';   /* the message names the file */
		return rc;
	}
	if (ret->len > 0 && ret->p[ret->len - 1] == '\n')
		ret->len--;
	if (ret->len > 0 && ret->p[ret->len - 1] == '\r')
		ret->len--;
	return 0;
}

int ctl_secret_read(struct ctl_line *line, struct err *err)
{
	const struct command_arg *arg = secret_arg(line->cmd);
	const char *path = json_string_value(json_object_get(line->args, arg->name));
	struct str value;
	int rc;

	str_init(&value, VALUE_MAX + 2);
	value.secret = true;
	rc = read_value(path, &value, err);
	if (rc == 0 && (!text_utf8_valid(str_text(&value), value.len) || memchr(str_text(&value), '\0', value.len))) {
		rc = err_set(err, ERR_INVALID, "", "the value is not UTF-8 text without NUL");
		err_hint(err, "store bytes as base64, and let the tool decode them");
	}
	if (rc == 0) {
		(void)json_object_del(line->args, arg->name);
		(void)json_object_set_new(line->args, "value", json_stringn(str_text(&value), value.len));
	}
	str_wipe(&value);
	return rc;
}
