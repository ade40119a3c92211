/* The folder of a log's sealed files (forms/forms.h): what stands there by its name, and what goes when it was
 * pruned.  What a link leads to is not ours, and directories are nobody's sealed files.  Writer thread, and a start. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "forms/forms.h"

#define TMP_END ".tmp"

int64_t forms_name_first(const char *name, bool *ret_tmp)
{
	const char *end = strstr(name, FORMS_FILE_END), *dash = strchr(name, '-');
	int64_t month = 0, first = 0;

	if (!end || !dash || dash - name != FORMS_MONTH_DIGITS || text_i64(name, FORMS_MONTH_DIGITS, &month) < 0 ||
	    text_i64(dash + 1, (size_t)(end - dash - 1), &first) < 0 || first < 0)
		return -1;
	end += strlen(FORMS_FILE_END);
	*ret_tmp = strcmp(end, TMP_END) == 0;
	return *ret_tmp || *end == '\0' ? first : -1;
}

/* The name of one that begins before: 1, the caller frees it; 0: there is none. */
static int find_before(DIR *d, int64_t before, char **ret)
{
	const struct dirent *e;

	while ((e = readdir(d))) {
		bool tmp = false;
		const int64_t first = forms_name_first(e->d_name, &tmp);
		struct stat st;

		if (first < 0 || first >= before || tmp)
			continue;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(st.st_mode))
			continue;
		*ret = mem_strdup(e->d_name);
		return 1;
	}
	return 0;
}

static int begin_of(struct db *db, int64_t log, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_BEGIN);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	*ret = rc == 1 ? db_col_i64(st, 0) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* The file goes, and that is durable. */
static int remove_one(DIR *d, const char *file, const char *folder, struct err *err)
{
	if ((unlinkat(dirfd(d), file, 0) == 0 || errno == ENOENT) && fsync(dirfd(d)) == 0)
		return 0;
	return err_set(err, ERR_UNREACHABLE, folder, "the sealed file %s was pruned, and cannot be removed: %s", file,
		       strerror(errno));
}

/* That it is not in its folder is believed when that is there: else the archive is not. */
static int remove_archived(const char *path, struct err *err)
{
	char *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
	const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	int rc = d ? remove_one(d, strrchr(path, '/') + 1, folder, err) : err_set(err, ERR_UNREACHABLE, folder,
		"the sealed file %s was pruned, and its archive is not here: %s", path, strerror(errno));

	if (d)
		closedir(d);
	free(folder);
	return rc;
}

/* The next one that the catalog had in an archive. */
static int remove_next_archived(struct db *db, int64_t log, bool *ret_more, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_GONE);
	int64_t from = 0;
	char *path = NULL;
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1) {
		from = db_col_i64(st, 0);
		path = db_col_dup(st, 1);
	}
	db_stmt_put(&st);
	if (rc != 1)
		return rc;
	if (forms_is_archived(path) && forms_is_name(path, log, from))
		rc = remove_archived(path, err);
	else
		rc = err_set(err, ERR_CORRUPT, "seg_gone", "a sealed file that was pruned is called as none is");
	free(path);
	if (rc < 0)
		return rc;
	*ret_more = true;
	st = db_stmt_get(db, SQL_FORMS_FORGET_GONE);
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, from);
	return db_run(&st, err);
}

int forms_remove_pruned(struct db *db, int64_t log, bool *ret_more, struct err *err)
{
	char name[64], *folder, *file = NULL;
	int64_t before = 0;
	DIR *d;
	int fd, rc = begin_of(db, log, &before, err);

	*ret_more = false;
	if (rc < 0)
		return rc;
	(void)snprintf(name, sizeof(name), FORMS_FOLDER "/%" PRId64, log);
	folder = db_beside(db, name);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d && errno != ENOENT)
		rc = err_set(err, ERR_UNREACHABLE, folder, "sealed files that were pruned cannot be removed: %s",
			     strerror(errno));
	if (d && find_before(d, before, &file) == 1) {
		*ret_more = true;
		rc = remove_one(d, file, folder, err);
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	free(file);
	free(folder);
	return rc < 0 || *ret_more ? rc : remove_next_archived(db, log, ret_more, err);
}

/* --- what is not here */

enum { AWAY_NAMED = 8 };

int forms_away(struct db *db, struct str *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_ALL_FILES);
	struct str names = STR_INIT;
	size_t n = 0, away = 0;
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		const char *name = db_col_text(st, 0, NULL);
		char *path = db_beside(db, name);

		n++;
		if (!path_exists(path) && away++ < AWAY_NAMED)
			str_printf(&names, "%s%s", away > 1 ? ", " : "", name);
		free(path);
	}
	db_stmt_put(&st);
	if (rc == 0 && away > 0)
		str_printf(ret, "%s%zu of %zu sealed files are not here: %s%s", ret->len > 0 ? "; " : "", away, n,
			   str_text(&names), away > AWAY_NAMED ? " and more" : "");
	str_fini(&names);
	return rc;
}

/* --- where a log can be cut */

int forms_cut(struct db *db, int64_t log, int64_t *cut, int64_t *ret_next, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_FILE_AT);
	int rc;

	*ret_next = *cut;
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, *cut);
	rc = db_step(st, err);
	if (rc == 1 && db_col_i64(st, 1) > *cut && db_col_i64(st, 0) < *cut) {
		*ret_next = db_col_i64(st, 1);
		*cut = db_col_i64(st, 0);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int forms_prune(struct db *db, int64_t log, int64_t cut, bool keep, struct err *err)
{
	struct db_stmt *st;
	int64_t at = cut, next = 0;
	int rc = forms_cut(db, log, &at, &next, err);

	if (rc < 0)
		return rc;
	if (at != cut)
		return err_set(err, ERR_CONFLICT, "", "records %" PRId64 " to %" PRId64 " were put into one sealed file "
			       "meanwhile, which goes as a whole", at, next - 1);
	if (!keep) {
		st = db_stmt_get(db, SQL_FORMS_PRUNE_ARCHIVED);
		db_bind_i64(st, 1, log);
		db_bind_i64(st, 2, cut);
		rc = db_run(&st, err);
		if (rc < 0)
			return rc;
	}
	st = db_stmt_get(db, SQL_FORMS_PRUNE);
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, cut);
	return db_run(&st, err);
}
