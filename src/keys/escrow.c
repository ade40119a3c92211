/* The note of what key files were put away (keys/escrow.h): lines "file PATH", "time TIME", "sha256 HEX" and "key NAME
 * ID".  It is no evidence: whoever may write the store may write it. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/owner.h"
#include "keys/escrow.h"

#define NOTE_MAX 16384

int escrow_keys(const char *store, struct escrow_key ret[ESCROW_KEYS_MAX], size_t *ret_n, struct err *err)
{
	char ids[ESCROW_KEYS_MAX][KEYFILE_ID_SIZE];
	struct keyfile k = { .key = NULL };
	uint8_t *master = NULL;
	size_t n;
	int rc = keyfile_master(store, &master, err);

	if (rc < 0)
		return rc;
	keyfile_from(master, "toolcrib/escrow/1", &k);
	(void)snprintf(ret[0].name, sizeof(ret[0].name), "%s", DB_MASTER_KEY);
	memcpy(ret[0].id, k.id, sizeof(ret[0].id));
	keyfile_fini(&k);
	secret_free(master);
	n = keyfile_others(store, "", ids, ESCROW_KEYS_MAX);
	if (n >= ESCROW_KEYS_MAX)
		return err_set(err, ERR_LIMIT, store, "there are more than %d key files", ESCROW_KEYS_MAX - 1);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(ret[i + 1].name, sizeof(ret[i + 1].name), "secret-%.16s.key", ids[i]);
		memcpy(ret[i + 1].id, ids[i], sizeof(ids[i]));
	}
	*ret_n = n + 1;
	return 0;
}

int escrow_put(const char *store, const char *file, const char *sum, const char *time, const struct escrow_key *keys,
	       size_t n, struct err *err)
{
	char *path = path_join(store, ESCROW_NOTE);
	struct str text = STR_INIT;
	int rc;

	str_printf(&text, "file %s\ntime %s\nsha256 %s\n", file, time, sum);
	for (size_t i = 0; i < n; i++)
		str_printf(&text, "key %s %s\n", keys[i].name, keys[i].id);
	rc = path_replace(path, 0600, text.p, text.len, err);
	str_fini(&text);
	free(path);
	return rc;
}

/* The line that begins with name and a blank, up to its end. */
static void take(const char *text, const char *name, char *ret, size_t size)
{
	const size_t len = strlen(name);

	*ret = '\0';
	for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (strncmp(at, name, len) == 0 && at[len] == ' ') {
			(void)snprintf(ret, size, "%.*s", (int)strcspn(at + len + 1, "\n"), at + len + 1);
			return;
		}
}

static int compare(const char *store, const char *text, struct str *missing, struct err *err)
{
	struct escrow_key keys[ESCROW_KEYS_MAX];
	size_t n = 0;
	int rc = escrow_keys(store, keys, &n, err);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		char *line = mem_printf("\nkey %s %s\n", keys[i].name, keys[i].id);

		if (!strstr(text, line))
			str_printf(missing, "%s%s", missing->len ? ", " : "", keys[i].name);
		free(line);
	}
	return rc;
}

int escrow_look(const char *store, struct escrow_note *ret, struct str *ret_missing, struct err *err)
{
	char *path = path_join(store, ESCROW_NOTE);
	struct str text = STR_INIT;
	int rc = path_exists(path) ? path_read(path, NOTE_MAX, &text, err) : 1;

	free(path);
	if (rc == 1)
		return 0;
	if (rc == 0) {
		take(str_text(&text), "file", ret->file, sizeof(ret->file));
		take(str_text(&text), "time", ret->time, sizeof(ret->time));
		take(str_text(&text), "sha256", ret->sum, sizeof(ret->sum));
		rc = compare(store, str_text(&text), ret_missing, err);
	}
	str_fini(&text);
	return rc < 0 ? rc : 1;
}
