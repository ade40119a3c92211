#ifndef TESTS_STORE_H
#define TESTS_STORE_H

/* A store without rows, as db_migrate() makes it: made once in a process and copied for each test, since the steps cost
 * more than all else of a set-up.  t_db_store.c and t_writer_batch.c begin with an empty file. */

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"

#include "tmpdir.h"

static inline int store_model(struct str *ret, struct err *err)
{
	char path[600], *dir = tmpdir_make();
	struct db *db = NULL;
	int rc = db_open(tmpdir_path(dir, DB_FILE, path, sizeof(path)), DB_WRITER, true, &db, err);

	if (rc == 0)
		rc = db_migrate(db, err);
	db_close(&db);
	if (rc == 0)
		rc = path_read(path, 16 << 20, ret, err);
	tmpdir_remove(dir);
	return rc;
}

/* path: of a file that is not there yet.  Nothing makes it durable. */
static inline int store_write(const char *path, const struct str *bytes, struct err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool whole;

	if (fd < 0)
		return err_set(err, ERR_IO, path, "cannot create");
	whole = write(fd, bytes->p, bytes->len) == (ssize_t)bytes->len;
	return close(fd) == 0 && whole ? 0 : err_set(err, ERR_IO, path, "cannot write");
}

static inline int store_copy(const char *path, struct err *err)
{
	static struct str model = STR_INIT;
	int rc = model.len ? 0 : store_model(&model, err);

	return rc < 0 ? rc : store_write(path, &model, err);
}

#endif
