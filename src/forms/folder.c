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

int forms_prune(struct db *db, int64_t log, int64_t cut, struct err *err)
{
	struct db_stmt *st;
	int64_t at = cut, next = 0;
	int rc = forms_cut(db, log, &at, &next, err);

	if (rc < 0)
		return rc;
	if (at != cut)
		return err_set(err, ERR_CONFLICT, "", "records %" PRId64 " to %" PRId64 " were put into one sealed file "
			       "meanwhile, which goes as a whole", at, next - 1);
	st = db_stmt_get(db, SQL_FORMS_PRUNE);
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, cut);
	return db_run(&st, err);
}
