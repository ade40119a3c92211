/* Documents of kind schema: what tools share by $ref. */

#include "config.h"

#include "registry/define.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "json/json.h"
#include "registry_int.h"
#include "schema/schema.h"

/* `kind` says nothing more; the rest is the schema.  New reference. */
static json_t *without_kind(const json_t *doc)
{
	json_t *schema = json_copy((json_t *)(uintptr_t)doc);   /* shallow */

	(void)json_object_del(schema, "kind");  /* may be absent */
	return schema;
}

int define_schema_read(const json_t *doc, struct define_schema *ret, struct err *err)
{
	const char *kind = "schema";
	struct str text = STR_INIT;
	json_t *schema;
	char *uri = NULL;
	int rc = json_is_object(doc) ? jx_get_string(doc, "", "kind", JX_OPTIONAL, &kind, err) : 0;

	if (rc == 0 && strcmp(kind, "schema") != 0)
		rc = err_set(err, ERR_INVALID, "/kind", "must be schema, is %.40s", kind);
	if (rc == 0)
		rc = schema_identity(doc, &uri, err);
	if (rc < 0)
		return rc;
	schema = without_kind(doc);
	jx_write(schema, &text);
	if (text.len > SCHEMA_TEXT_MAX) {
		rc = err_set(err, ERR_LIMIT, "", "the schema is longer than %d KiB", SCHEMA_TEXT_MAX >> 10);
		free(uri);
	} else {
		*ret = (struct define_schema){ .uri = uri };
		define_digest(schema, ret->digest);
		ret->text = str_take(&text);
	}
	json_decref(schema);
	str_fini(&text);
	return rc;
}

int define_schema_check(const json_t *doc, const struct catalogue *shared, struct define_schema *def, struct err *err)
{
	struct catalogue_use use = { .from = shared };
	const struct schema_options options = { .find = catalogue_find, .find_arg = &use };
	json_t *schema = without_kind(doc), *whole = NULL;
	struct schema *compiled = NULL;
	int rc = define_check_texts(schema, err);

	if (rc == 0)
		rc = schema_compile_with(schema, &options, &compiled, err);
	schema_free(&compiled);
	if (rc == 0)
		rc = define_no_params(schema, err);
	if (rc == 0)
		rc = schema_bundle(schema, &options, &whole, err);
	json_decref(whole);
	json_decref(schema);
	catalogue_refs_fini(&def->refs);
	catalogue_use_end(&use, rc >= 0 ? &def->refs : NULL);
	return rc < 0 ? rc : 0;
}

void define_schema_free(struct define_schema *d)
{
	free(d->uri);
	free(d->text);
	d->uri = d->text = NULL;
	catalogue_refs_fini(&d->refs);
}
