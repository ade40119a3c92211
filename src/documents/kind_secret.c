/* Documents of kind secret, for apply and export: {kind: secret, name: shop} says that one must be set.  A value never
 * stands in a file. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "json/json.h"

#include "documents_int.h"

static int read_secret(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	static const char *const known[] = { "kind", "name" };
	const char *name = NULL;
	int rc = 0;

	(void)a;
	if (json_object_get(doc, "value")) {
		(void)err_set(err, ERR_INVALID, "/value", "a secret's value does not belong into a file");
		err_hint(err, "toolcrib secret set NAME reads it from standard input");
		return ERR_INVALID;
	}
	rc = jx_only(doc, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(doc, "", "name", JX_REQUIRED, &name, err);
	if (rc == 0 && !text_tool_name(name, strlen(name)))
		rc = err_set(err, ERR_INVALID, "/name", "\"%.80s\" is no name of a secret", name);
	if (rc == 0)
		item->name = mem_strdup(name);
	return rc;
}

static int store_secret(struct apply *a, const struct apply_item *item, struct err *err)
{
	struct db_stmt *st = db_stmt_get(a->db, SQL_SECRET_FIND);
	int rc;

	db_bind_textz(st, 1, item->name);
	rc = db_step(st, err);
	db_stmt_put(&st);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	(void)err_set(err, ERR_NOT_FOUND, "/name", "secret %s is not set", item->name);
	err_hint(err, "toolcrib secret set %s reads its value from standard input", item->name);
	return ERR_NOT_FOUND;
}

/* What cannot be brought back by a file is not taken away by one. */
static int prune_secrets(struct apply *a, const struct apply_kind *kind, struct err *err)
{
	(void)a;
	(void)kind;
	(void)err;
	return 0;
}

/* They are the store's: one tenant's export has none. */
static int export_secrets(struct export *x, const struct apply_kind *kind, struct err *err)
{
	struct db_stmt *st;
	int rc = 0;

	if (*x->tenant)
		return 0;
	st = db_stmt_get(x->db, SQL_SECRET_LIST);
	while ((rc = db_step(st, err)) == 1) {
		size_t len;
		const char *text = db_col_text(st, 0, &len);
		char *name = mem_strndup(text, len);

		export_put(x, kind->name, name, json_pack("{s:s, s:s}", "kind", "secret", "name", name));
		free(name);
	}
	db_stmt_put(&st);
	return rc;
}

const struct apply_kind apply_kind_secret = {
	.name = "secret", .space = "secret", .read = read_secret, .store = store_secret, .prune = prune_secrets,
	.export = export_secrets, .free_doc = free,
};
