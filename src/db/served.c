/* Stores whose databases a server of PostgreSQL has: which, and what stands in the folder for programs that read no
 * configuration.  db_open() of a file of such a store opens the server's database instead.  Said once for the process,
 * before anything of the store is opened and before there are threads. */
#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "db/server.h"

#include "db_int.h"

static struct {
	char *store, *url, *keys_url;           /* store NULL: none is; keys_url NULL: beside it, by its name */
	bool require_standby;
} served;

static void say(const char *store, const struct db_served *at)
{
	free(served.store);
	free(served.url);
	free(served.keys_url);
	served.store = path_absolute(store);
	served.url = mem_strdup(at->url);
	served.keys_url = at->keys_url ? mem_strdup(at->keys_url) : NULL;
	served.require_standby = at->require_standby;
}

/* A line for each, so none has one inside. */
static int is_line(const char *what, const char *text, struct err *err)
{
	return !text || (*text && !strpbrk(text, "\r\n")) ? 0 : err_set(err, ERR_INVALID, what, "an address is one line");
}

int db_serve(const char *store, const struct db_served *at, struct err *err)
{
	char *file = path_join(store, DB_FILE), *place = path_join(store, DB_SERVED);
	struct str text = STR_INIT;
	int rc = is_line("database.url", at->url, err);

	if (rc == 0)
		rc = is_line("database.keys_url", at->keys_url, err);
	if (rc == 0 && path_exists(file)) {
		rc = err_set(err, ERR_CONFLICT, store, "there is a store in it already, which is in the file %s", DB_FILE);
		err_hint(err, "a store on PostgreSQL has a folder of its own: toolcrib --store DIR init --database URL");
	}
	if (rc == 0)
		rc = db_server_check(at->url, at->keys_url, err);
	str_printf(&text, "url %s\n", at->url);
	if (at->keys_url)
		str_printf(&text, "keys_url %s\n", at->keys_url);
	if (at->require_standby)
		str_puts(&text, "require_standby\n");
	if (rc == 0)
		rc = path_replace(place, 0600, text.p, text.len, err);
	if (rc == 0)
		say(store, at);
	str_fini(&text);
	free(place);
	free(file);
	return rc;
}

int db_serve_found(const char *store, struct err *err)
{
	char *place = path_join(store, DB_SERVED), *rest = NULL;
	struct db_served at = { 0 };
	struct str text = STR_INIT;
	int rc = path_exists(place) ? path_read(place, DB_SERVED_MAX, &text, err) : 1;

	for (char *line = rc == 0 ? strtok_r(text.p, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, "url ", 4) == 0)
			at.url = line + 4;
		else if (strncmp(line, "keys_url ", 9) == 0)
			at.keys_url = line + 9;
		else if (strcmp(line, "require_standby") == 0)
			at.require_standby = true;
	}
	if (rc == 0 && !at.url) {
		rc = err_set(err, ERR_INVALID, place, "it names no database");
		err_hint(err, "start toolcribd with database.url once, which writes it anew");
	}
	if (rc == 0)
		say(store, &at);
	str_fini(&text);
	free(place);
	return rc == 1 ? 0 : rc;
}

bool db_is_served(const char *store)
{
	char *absolute = served.store ? path_absolute(store) : NULL;
	const bool is = absolute && strcmp(absolute, served.store) == 0;

	free(absolute);
	return is;
}

static bool served_file(const char *path, struct db_server *ret)
{
	const char *end = strrchr(path, '/');
	const char *name = end ? end + 1 : path;
	const bool keys = strcmp(name, DB_KEYS) == 0;
	char *dir;
	bool is;

	if (!served.store || !end || (!keys && strcmp(name, DB_FILE) != 0))
		return false;
	dir = end > path ? mem_strndup(path, (size_t)(end - path)) : mem_strdup("/");
	is = db_is_served(dir);
	free(dir);
	if (is)
		*ret = (struct db_server){ .url = keys && served.keys_url ? served.keys_url : served.url,
			.beside = keys && !served.keys_url, .require_standby = served.require_standby };
	return is;
}

int db_open(const char *path, enum db_mode mode, bool create, struct db **ret, struct err *err)
{
	struct db_server at;
	int rc = 0;

	assert(mode == DB_WRITER || !create);
	if ((mode == DB_WRITER || mode == DB_READER || mode == DB_REPORTER) && served_file(path, &at)) {
		if (mode == DB_REPORTER)        /* a role may read what this one's statements may */
			at.user = DB_SERVER_AUDITOR;
		rc = db_open_server(&at, mode == DB_WRITER ? DB_WRITER : DB_READER, ret, err);
		if (rc == 0) {                  /* others are found beside it */
			free((*ret)->path);
			(*ret)->path = mem_strdup(path);
		}
		return rc;
	}
	if (create)
		rc = path_create(path, 0600, "", 0, err);       /* SQLite would make it 0644 */
	return rc < 0 && rc != ERR_CONFLICT ? rc : db_open_as(path, path, mode, ret, err);
}
