/* backup: what lies beside the file that toolcrib backup makes (SCALE SC-807): sealed files, which are copied
 * once.  Called by whoever may read the store and write where its copy is: the server on its pool, or the program that
 * gave the command. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "bundle/seal.h"
#include "db/db.h"
#include "forms/forms.h"
#include "json/json.h"
#include "json/reply.h"
#include "keeping/keeping.h"

static int copy_one(const struct audit_sealed *listed, const char *origin, const char *store, const char *dir,
		    struct backup_sealed *sum, struct err *err)
{
	char *from = path_join(store, listed->path), *to = path_join(dir, listed->path);
	struct stat st = { 0 };
	bool is_new = false;
	int rc = audit_sealed_copy(from, to, origin, listed, NULL, &is_new, err);

	if (rc == 0)
		sum->files++;
	if (rc == 0 && is_new) {
		sum->copied++;
		sum->bytes += stat(to, &st) == 0 ? st.st_size : 0;
	}
	free(from);
	free(to);
	return rc;
}

int backup_sealed(const char *file, const char *store, struct backup_sealed *ret, struct err *err)
{
	struct audit_sealed listed = { .from = -1 };
	const char *slash = strrchr(file, '/');
	char *dir = slash > file ? mem_strndup(file, (size_t)(slash - file)) : mem_strdup("/"), *origin;
	struct db *db = NULL;
	int rc = db_open(file, DB_READER, false, &db, err);

	*ret = (struct backup_sealed){ 0 };
	while (rc == 0 && (rc = audit_sealed_next(db, &listed, &origin, err)) == 1) {
		ret->archived += forms_is_archived(listed.path);
		rc = forms_is_archived(listed.path) ? 0 : copy_one(&listed, origin, store, dir, ret, err);
		free(origin);
	}
	db_close(&db);
	free(dir);
	return rc;
}

void backup_put(const struct backup_sealed *sealed, struct reply *o)
{
	char *said = sealed->files == 0 ? mem_strdup("")
		: mem_printf(", and beside it %" PRId64 " sealed files, %" PRId64 " of them new", sealed->files, sealed->copied);

	reply_int(o, "sealed", sealed->files);
	reply_int(o, "sealed_new", sealed->copied);
	reply_int(o, "sealed_bytes", sealed->bytes);
	reply_int(o, "archived", sealed->archived);
	reply_text(o, "beside", said);
	free(said);
}

int backup_here(const json_t *args, struct str *rows, struct err *err)
{
	static const char *const files[] = { "file", "keys", "signer" };
	json_t *root = NULL, *row;
	struct backup_sealed sealed;
	struct reply said = { .text = STR_INIT };
	const char *end = strchr(str_text(rows), '\n'), *store;
	int rc = end ? jx_parse(rows->p, (size_t)(end - rows->p), &root, err) : 0;

	row = json_object_get(root, "row");
	store = json_string_value(json_object_get(row, "sealed_in"));
	if (rc == 0 && store) {
		rc = backup_sealed(json_string_value(json_object_get(args, "file")), store, &sealed, err);
		for (size_t i = 0; i < NELEMS(files) && rc < 0; i++) {
			const char *path = json_string_value(json_object_get(args, files[i]));

			if (path)
				(void)unlink(path);
		}
		str_reset(rows);
	}
	if (rc == 0 && store) {
		const char *name;
		json_t *value;

		(void)json_object_del(row, "sealed_in");
		reply_row_begin(&said);
		json_object_foreach(row, name, value)
			reply_json(&said, name, value);
		backup_put(&sealed, &said);
		reply_row_end(&said);
		str_put(rows, said.text.p, said.text.len);
	}
	str_fini(&said.text);
	json_decref(root);
	return rc;
}
