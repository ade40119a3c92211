/* What there is to restore: the files of a backup, and what toolcrib-ship has written, put together again beside the
 * directory that it is restored to, where restore takes it for a backup like any other.  In the program toolcrib, on
 * its only thread. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "keys/keyfile.h"
#include "ship/ship.h"

#include "keeping_int.h"

#define BESIDE ".unpacking-XXXXXX"
enum { KEY_FILES_MAX = 64 };

/* --- the files of a backup */

void files_fini(struct files *files)
{
	for (size_t i = 0; i < files->n; i++) {
		free(files->v[i].from);
		free(files->v[i].name);
	}
	free(files->v);
	*files = (struct files){ NULL, 0, 0 };
}

bool files_have(const struct files *files, const char *name)
{
	for (size_t i = 0; i < files->n; i++)
		if (strcmp(files->v[i].name, name) == 0)
			return true;
	return false;
}

/* True: it is a file, and one of them now; the first of a name counts. */
static bool take(struct files *files, const char *from, const char *name, unsigned mode)
{
	struct stat st;

	if (files_have(files, name) || stat(from, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	files->v = mem_realloc(files->v, (files->n + 1) * sizeof(*files->v));
	files->v[files->n++] = (struct file){ mem_strdup(from), mem_strdup(name), (uint64_t)st.st_size, mode, false };
	files->bytes += (uint64_t)st.st_size;
	return true;
}

static bool take_in(struct files *files, const char *dir, const char *name, unsigned mode)
{
	char *from = dir ? path_join(dir, name) : NULL;
	bool taken = from && take(files, from, name, mode);

	free(from);
	return taken;
}

static void take_keys(struct files *files, const char *dir)
{
	char (*ids)[KEYFILE_ID_SIZE] = mem_calloc(KEY_FILES_MAX, sizeof(*ids));
	size_t n = keyfile_others(dir, "", ids, KEY_FILES_MAX);

	for (size_t i = 0; i < n; i++) {
		char *name = mem_printf("secret-%s.key", ids[i]);

		(void)take_in(files, dir, name, 0400);
		free(name);
	}
	free(ids);
}

/* Of segments/LOG. */
static void take_sealed(struct files *files, const char *dir, const char *name)
{
	char *path = path_join(dir, name);
	DIR *d = opendir(path);

	for (const struct dirent *e; d && (e = readdir(d));) {
		const char *end = strrchr(e->d_name, '.');
		char *file = path_join(name, e->d_name);

		if (end && strcmp(end, FORMS_FILE_END) == 0)
			(void)take_in(files, dir, file, 0600);
		free(file);
	}
	if (d)
		closedir(d);
	free(path);
}

static void take_all_sealed(struct files *files, const char *dir)
{
	char *path = path_join(dir, FORMS_FOLDER);
	DIR *d = opendir(path);

	for (const struct dirent *e; d && (e = readdir(d));) {
		char *name = path_join(FORMS_FOLDER, e->d_name);

		if (*e->d_name != '.')
			take_sealed(files, dir, name);
		free(name);
	}
	if (d)
		closedir(d);
	free(path);
}

/* With a log of its own it is not the copy that toolcrib backup makes: one without the other is an older store. */
static int refuse_log(const char *file, struct err *err)
{
	char *log = mem_printf("%s-wal", file);
	struct stat st;
	bool is_there = stat(log, &st) == 0 && st.st_size > 0;

	free(log);
	if (!is_there)
		return 0;
	(void)err_set(err, ERR_CONFLICT, file, "%s has a log beside it, %s-wal: it is a store in use, or was copied from one",
		      file, DB_FILE);
	err_hint(err, "make a backup with toolcrib backup, and name that");
	return ERR_CONFLICT;
}

static int gather_backup(const char *from, const char *keys, struct files *ret, struct err *err)
{
	struct stat st;
	bool is_dir = stat(from, &st) == 0 && S_ISDIR(st.st_mode);
	const char *dir = is_dir ? from : NULL;
	char *file = is_dir ? path_join(from, DB_FILE) : mem_strdup(from);
	char *slash = strrchr(file, '/'), *beside = mem_strndup(file, (size_t)(slash - file) + (slash == file));
	int rc = 0;

	if (!take(ret, file, DB_FILE, 0600)) {
		rc = err_set(err, ERR_UNREACHABLE, file, "there is no copy of a store: %s is no file", file);
		err_hint(err, "name the file that toolcrib backup made, or the directory that has it as " DB_FILE);
	}
	if (rc == 0)
		rc = refuse_log(file, err);
	free(file);
	if (rc < 0) {
		files_fini(ret);
		free(beside);
		return rc;
	}
	for (unsigned i = 0; i < 2; i++) {
		const char *place = i == 0 ? dir : keys;

		(void)take_in(ret, place, DB_KEYS, 0600);
		(void)take_in(ret, place, DB_MASTER_KEY, 0400);
		if (place)
			take_keys(ret, place);
	}
	take_all_sealed(ret, beside);
	free(beside);
	return 0;
}

int files_gather(const char *from, const char *keys, struct files *ret, struct err *err)
{
	*ret = (struct files){ NULL, 0, 0 };
	if (from)
		return gather_backup(from, keys, ret, err);
	(void)take_in(ret, keys, DB_MASTER_KEY, 0400);
	if (keys)
		take_keys(ret, keys);
	return 0;
}

/* --- what was shipped */

static int wrong_use(const char *what, const char *hint, struct err *err)
{
	(void)err_set(err, ERR_INVALID, what, "--%s is for a directory that toolcrib-ship wrote, and --from is none", what);
	err_hint(err, "%s", hint);
	return ERR_INVALID;
}

static int take_until(const struct shipped_ask *ask, uint64_t *ret_us, struct err *err)
{
	if (ask->until && clock_parse(ask->until, clock_wall_us(), ret_us) < 0)
		return err_set(err, ERR_INVALID, "until", "--until %s is no time", ask->until);
	return 0;
}

static void say_sum(const struct ship_unpacked *sum, struct str *said)
{
	char when[64];

	str_printf(said, "generation %" PRIu64 ", %" PRIu64 " parts, as of %s", sum->generation, sum->parts,
		   clock_format_utc(sum->at_us, when, sizeof(when)));
}

static int unpack(const struct shipped_ask *ask, const struct age_identity *ids, size_t n, char **ret_dir,
		  struct str *said, struct err *err)
{
	char *dir = mem_printf("%s" BESIDE, ask->to);
	struct ship_unpacked sum;
	uint64_t until_us = 0;
	int rc = take_until(ask, &until_us, err);

	if (rc == 0 && !mkdtemp(dir))
		rc = err_set(err, ERR_UNREACHABLE, ask->to, "no directory can be made beside %s: %s", ask->to, strerror(errno));
	if (rc < 0) {
		free(dir);
		return rc;
	}
	*ret_dir = dir;
	rc = ship_unpack(ask->from, ids, n, until_us, dir, &sum, err);
	if (rc == 0)
		say_sum(&sum, said);
	return rc;
}

static int check_use(const struct shipped_ask *ask, struct err *err)
{
	if (ask->identity)
		return wrong_use("identity", "what toolcrib backup makes is not encrypted", err);
	return ask->until ? wrong_use("until", "what toolcrib backup makes is of one moment", err) : 0;
}

int shipped_look(const struct shipped_ask *ask, uint64_t *ret_bytes, struct str *said, struct err *err)
{
	struct ship_unpacked sum;
	uint64_t until_us = 0;
	int rc;

	if (!ship_is_target(ask->from))
		return check_use(ask, err);
	rc = take_until(ask, &until_us, err);
	if (rc == 0)
		rc = ship_unpack(ask->from, NULL, 0, until_us, NULL, &sum, err);
	if (rc < 0)
		return rc;
	say_sum(&sum, said);
	*ret_bytes = sum.bytes;
	return 1;
}

int shipped_unpack(const struct shipped_ask *ask, char **ret_dir, struct str *said, struct err *err)
{
	struct age_identity ids[AGE_IDENTITIES_MAX];
	size_t n = 0;
	int rc;

	if (!ship_is_target(ask->from))
		return check_use(ask, err);
	if (!ask->identity) {
		(void)err_set(err, ERR_INVALID, "identity", "%s is encrypted: name the file of an identity with --identity",
			      ask->from);
		err_hint(err, "it is what age-keygen made, beside one of the recipients");
		return ERR_INVALID;
	}
	rc = age_identities_read(ask->identity, ids, &n, err);
	if (rc == 0)
		rc = unpack(ask, ids, n, ret_dir, said, err);
	secret_wipe(ids, sizeof(ids));
	return rc;
}
