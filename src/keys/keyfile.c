/* Key files: 32 random bytes, mode 0400.  The keys that encrypt are derived from them, one for each purpose, and so is
 * the id by which rows and the file's name say which one it is (SEC S-341). */
#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "keys/keyfile.h"

#define PREFIX "secret-"
#define SUFFIX ".key"

void keyfile_from(const uint8_t file[32], const char *purpose, struct keyfile *ret)
{
	uint8_t id[SECRET_KEY_SIZE];

	ret->key = secret_alloc(SECRET_KEY_SIZE);
	secret_derive(file, purpose, ret->key);
	secret_derive(file, "toolcrib/secret-id/1", id);
	text_hex(id, (KEYFILE_ID_SIZE - 1) / 2, ret->id);
}

void keyfile_fini(struct keyfile *k)
{
	secret_free(k->key);
	k->key = NULL;
}

#define NAME_SIZE (sizeof(PREFIX SUFFIX) + KEYFILE_ID_SIZE - 1)

static const char *name_of(const char *id, char ret[NAME_SIZE])
{
	(void)snprintf(ret, NAME_SIZE, PREFIX "%s" SUFFIX, id); /* fits */
	return ret;
}

static char *file_of(const char *store, const char *id)
{
	char name[NAME_SIZE];

	return path_join(store, name_of(id, name));
}

/* init makes the key of a new store, and never another one for a store that there is. */
static void hint_master(const char *store, const char *file, struct err *err)
{
	char *db = path_join(store, DB_FILE);

	if (*err->hint)
		(void)0;        /* chmod, chown */
	else if (path_exists(file) && err->code != ERR_CORRUPT)
		err_hint(err, "the file must be readable by the owner of the store");
	else if (!path_exists(db))
		err_hint(err, "run: toolcrib init");
	else
		err_hint(err, "put it back from where you keep it: without it no key is accepted, no secret opens and nothing of "
			 "what is kept of calls; records can still be verified with toolcrib-verify");
	free(db);
}

int keyfile_master(const char *store, uint8_t **ret, struct err *err)
{
	char *file = path_join(store, DB_MASTER_KEY);
	struct str text = STR_INIT;
	int rc = path_read_as(file, PATH_SECRET, SECRET_KEY_SIZE + 1, &text, err);

	if (rc == 0 && text.len != SECRET_KEY_SIZE)
		rc = err_set(err, ERR_CORRUPT, file, "%s must have exactly %d bytes, and has %s%zu", file, SECRET_KEY_SIZE,
			     text.len > SECRET_KEY_SIZE ? "at least " : "", text.len);
	if (rc < 0 && err)
		hint_master(store, file, err);
	if (rc == 0) {
		*ret = secret_alloc(SECRET_KEY_SIZE);
		memcpy(*ret, text.p, SECRET_KEY_SIZE);
	}
	if (text.p)
		secret_wipe(text.p, text.len);
	str_fini(&text);
	free(file);
	return rc;
}

static int load_file(const char *file, const char *purpose, struct keyfile *ret, struct err *err)
{
	struct str text = STR_INIT;

	int rc = path_read_as(file, PATH_SECRET, SECRET_KEY_SIZE + 1, &text, err);
	if (rc == 0 && text.len != SECRET_KEY_SIZE)
		rc = err_set(err, ERR_CORRUPT, file, "%s must have exactly %d bytes", file, SECRET_KEY_SIZE);
	if (rc == 0)
		keyfile_from((const uint8_t *)text.p, purpose, ret);
	if (text.p)
		secret_wipe(text.p, text.len);
	str_fini(&text);
	return rc;
}

int keyfile_load(const struct keyfile_place *place, const char *purpose, const char *id, struct keyfile *ret,
		 struct err *err)
{
	struct keyfile k;

	keyfile_from(place->master, purpose, &k);
	if (strcmp(k.id, id) == 0) {
		*ret = k;
		return 0;
	}
	keyfile_fini(&k);
	char *file = file_of(place->store, id);
	int rc = load_file(file, purpose, &k, err);
	if (rc == 0 && strcmp(k.id, id) != 0) {
		keyfile_fini(&k);
		rc = err_set(err, ERR_CORRUPT, file, "%s holds another key than its name says", file);
	}
	if (rc == 0)
		*ret = k;
	free(file);
	return rc;
}

int keyfile_make(const char *store, const char *purpose, struct keyfile *ret, struct err *err)
{
	uint8_t *bytes = secret_alloc(SECRET_KEY_SIZE);
	struct keyfile k;

	id_random(bytes, SECRET_KEY_SIZE);
	keyfile_from(bytes, purpose, &k);
	char *file = file_of(store, k.id);
	int rc = path_create(file, 0400, bytes, SECRET_KEY_SIZE, err);
	if (rc == ERR_IO)       /* of the disk, and not of the store, which would end the server */
		rc = err->code = ERR_UNREACHABLE;
	free(file);
	secret_free(bytes);
	if (rc < 0)
		keyfile_fini(&k);
	else
		*ret = k;
	return rc;
}

bool keyfile_exists(const char *store, const char *id)
{
	char *file = file_of(store, id);
	bool is = path_exists(file);

	free(file);
	return is;
}

static bool is_key_file(const char *name)
{
	size_t n = strlen(name), tail = strlen(SUFFIX);

	return n == NAME_SIZE - 1 && strncmp(name, PREFIX, strlen(PREFIX)) == 0 && strcmp(name + n - tail, SUFFIX) == 0;
}

size_t keyfile_others(const char *store, const char *current, char (*ret)[KEYFILE_ID_SIZE], size_t max)
{
	DIR *dir = opendir(store);
	char keep[NAME_SIZE];
	size_t n = 0;

	name_of(current, keep);
	for (struct dirent *e; n < max && dir && (e = readdir(dir)) != NULL; ) {
		if (is_key_file(e->d_name) && strcmp(e->d_name, keep) != 0)
			(void)snprintf(ret[n++], KEYFILE_ID_SIZE, "%s", e->d_name + strlen(PREFIX));
	}
	if (dir)
		closedir(dir);
	return n;
}

void keyfile_remove(const char *store, const char *id)
{
	char *file = file_of(store, id);

	if (unlink(file) == 0)
		log_info(NULL, "old key file removed file=%s", file);
	else
		log_warn(NULL, "old key file cannot be removed file=%s", file);
	free(file);
}

int keyfile_current(struct db *db, char ret[KEYFILE_ID_SIZE], struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);

	db_bind_textz(st, 1, KEYFILE_META);
	int rc = db_step(st, err);
	if (rc == 1) {
		size_t len;
		const char *text = db_col_text(st, 0, &len);
		(void)snprintf(ret, KEYFILE_ID_SIZE, "%.*s", (int)len, text);   /* 16 digits */
	}
	db_stmt_put(&st);
	return rc;
}
