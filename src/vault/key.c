/* Key files: 32 random bytes, mode 0400.  The key that encrypts is derived from them, and so is the id by which rows and
 * the file's name say which one it is (SEC S-341). */
#include "config.h"

#include "vault_int.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "base/path.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/text.h"

#define PREFIX "secret-"
#define SUFFIX ".key"

void vault_key_from(const uint8_t file[32], struct vault_key *ret)
{
	uint8_t id[SECRET_KEY_SIZE];

	ret->key = secret_alloc(SECRET_KEY_SIZE);
	secret_derive(file, "toolcrib/secret/1", ret->key);
	secret_derive(file, "toolcrib/secret-id/1", id);
	text_hex(id, (VAULT_KEY_ID_SIZE - 1) / 2, ret->id);
}

void vault_key_fini(struct vault_key *k)
{
	secret_free(k->key);
	k->key = NULL;
}

#define NAME_SIZE (sizeof(PREFIX SUFFIX) + VAULT_KEY_ID_SIZE - 1)

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

static int load_file(const char *file, struct vault_key *ret, struct err *err)
{
	struct str text = STR_INIT;

	int rc = path_read(file, SECRET_KEY_SIZE + 1, &text, err);
	if (rc == 0 && text.len != SECRET_KEY_SIZE)
		rc = err_set(err, ERR_CORRUPT, file, "%s must have exactly %d bytes", file, SECRET_KEY_SIZE);
	if (rc == 0)
		vault_key_from((const uint8_t *)text.p, ret);
	if (text.p)
		secret_wipe(text.p, text.len);
	str_fini(&text);
	return rc;
}

int vault_key_load(const struct vault_place *place, const char *id, struct vault_key *ret, struct err *err)
{
	struct vault_key k;

	vault_key_from(place->master, &k);
	if (strcmp(k.id, id) == 0) {
		*ret = k;
		return 0;
	}
	vault_key_fini(&k);
	char *file = file_of(place->store, id);
	int rc = load_file(file, &k, err);
	if (rc == 0 && strcmp(k.id, id) != 0) {
		vault_key_fini(&k);
		rc = err_set(err, ERR_CORRUPT, file, "%s holds another key than its name says", file);
	}
	if (rc == 0)
		*ret = k;
	free(file);
	return rc;
}

int vault_key_make(const char *store, struct vault_key *ret, struct err *err)
{
	uint8_t *bytes = secret_alloc(SECRET_KEY_SIZE);
	struct vault_key k;

	id_random(bytes, SECRET_KEY_SIZE);
	vault_key_from(bytes, &k);
	char *file = file_of(store, k.id);
	int rc = path_create(file, 0400, bytes, SECRET_KEY_SIZE, err);
	free(file);
	secret_free(bytes);
	if (rc < 0)
		vault_key_fini(&k);
	else
		*ret = k;
	return rc;
}

static bool is_key_file(const char *name)
{
	size_t n = strlen(name), tail = strlen(SUFFIX);

	return n == NAME_SIZE - 1 && strncmp(name, PREFIX, strlen(PREFIX)) == 0 && strcmp(name + n - tail, SUFFIX) == 0;
}

size_t vault_key_others(const char *store, const char *current, char (*ret)[VAULT_KEY_ID_SIZE], size_t max)
{
	DIR *dir = opendir(store);
	char keep[NAME_SIZE];
	size_t n = 0;

	name_of(current, keep);
	for (struct dirent *e; n < max && dir && (e = readdir(dir)) != NULL; ) {
		if (is_key_file(e->d_name) && strcmp(e->d_name, keep) != 0)
			(void)snprintf(ret[n++], VAULT_KEY_ID_SIZE, "%s", e->d_name + strlen(PREFIX));
	}
	if (dir)
		closedir(dir);
	return n;
}

void vault_key_remove(const char *store, const char *id)
{
	char *file = file_of(store, id);

	if (unlink(file) == 0)
		log_info(NULL, "old key of secrets removed file=%s", file);
	else
		log_warn(NULL, "old key of secrets cannot be removed file=%s", file);
	free(file);
}
