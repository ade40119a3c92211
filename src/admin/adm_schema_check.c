/* Schemas before they are stored: those among documents, with the catalogue as it would be; and schema check, a JSON
 * Schema by itself and documents by it, in the words that a caller of a tool would read. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "registry/catalogue.h"
#include "registry/define.h"
#include "registry/registry.h"
#include "schema/schema.h"

#include "adm_commands.h"
#include "admin_int.h"

/* --- documents */

const struct catalogue *adm_shared(const struct adm_call *c)
{
	const struct registry *reg = c->admin->env.registry;

	return reg ? reg_shared(reg) : NULL;
}

void adm_at_document(struct err *err, size_t i)
{
	char at[32];

	if (err && *err->where == '/')          /* say the member too: a line and a column are its place only */
		(void)err_wrap(err, "%s", err->where + 1);
	(void)snprintf(at, sizeof(at), "/documents/%zu", i);
	err_at(err, at);
}

bool adm_is_schema(const json_t *doc)
{
	const char *kind = json_string_value(json_object_get(doc, "kind"));

	if (kind)
		return strcmp(kind, "schema") == 0;
	return json_object_get(doc, "$id") || json_object_get(doc, "$schema");
}

static int read_one(struct adm_schemas *set, const json_t *documents, size_t i, struct err *err)
{
	struct define_schema *def = &set->def[set->count];
	int rc = define_schema_read(json_array_get(documents, i), def, err);

	if (rc < 0) {
		adm_at_document(err, i);
		return rc;
	}
	set->count++;
	for (size_t k = 0; k + 1 < set->count; k++) {
		if (strcmp(set->def[k].uri, def->uri) != 0)
			continue;
		(void)err_set(err, ERR_INVALID, "", "two documents have the $id %.200s", def->uri);
		adm_at_document(err, i);
		return ERR_INVALID;
	}
	catalogue_set(set->shared, def->uri, def->text, strlen(def->text), def->digest);
	return 0;
}

int adm_schemas_define(const struct adm_call *c, const json_t *documents, bool all, struct adm_schemas *ret,
		       struct err *err)
{
	size_t n = json_array_size(documents);
	int rc = 0;

	ret->def = mem_calloc(n, sizeof(*ret->def));
	ret->document = mem_calloc(n, sizeof(*ret->document));
	ret->shared = catalogue_new(adm_shared(c));
	/* All of them first: they may refer to each other in any order. */
	for (size_t i = 0; i < n && rc == 0; i++) {
		ret->document[ret->count] = i;
		if (all || adm_is_schema(json_array_get(documents, i)))
			rc = read_one(ret, documents, i, err);
	}
	for (size_t k = 0; k < ret->count && rc == 0; k++) {
		rc = define_schema_check(json_array_get(documents, ret->document[k]), ret->shared, &ret->def[k], err);
		if (rc < 0)
			adm_at_document(err, ret->document[k]);
	}
	return rc;
}

void adm_schemas_fini(struct adm_schemas *set)
{
	for (size_t i = 0; i < set->count; i++)
		define_schema_free(&set->def[i]);
	free(set->def);
	free(set->document);
	catalogue_free(&set->shared);
}

/* --- schema check */

static void put_finding(struct adm_out *o, size_t document, const char *pointer, const char *text)
{
	char *where = mem_printf("/documents/%zu%s", document, pointer);

	adm_row_begin(o);
	adm_put_text(o, "where", where);
	adm_put_text(o, "finding", text);
	adm_row_end(o);
	free(where);
}

static void check_instance(struct adm_out *o, const struct schema *s, const json_t *documents, size_t i)
{
	const struct schema_redact nothing = { NULL, 0 };
	struct schema_report report;

	if (schema_explain(s, json_array_get(documents, i), &nothing, &report) == 0)
		return;
	for (size_t k = 0; k < report.count; k++) {
		const struct schema_failure *f = &report.failure[k];
		char *text = mem_printf("%s%s%s%s", f->text, *f->keyword ? " (" : "", f->keyword, *f->keyword ? ")" : "");

		put_finding(o, i, f->instance, text);
		free(text);
	}
}

int adm_schema_check_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const json_t *documents = json_object_get(c->args, "documents");
	struct catalogue_use use = { .from = adm_shared(c) };
	const struct schema_options options = { .assert_format = json_is_true(json_object_get(c->args, "formats")),
		.find = catalogue_find, .find_arg = &use };
	struct schema *s = NULL;
	struct err wrong;

	(void)db;
	(void)logs;
	(void)err;
	if (schema_compile_with(json_array_get(documents, 0), &options, &s, &wrong) < 0) {
		char *text = mem_printf("%s%s%s", wrong.msg, *wrong.hint ? "; " : "", wrong.hint);

		put_finding(c->out, 0, wrong.where, text);
		free(text);
		catalogue_use_end(&use, NULL);
		return 0;
	}
	for (size_t i = 1; i < json_array_size(documents); i++)
		check_instance(c->out, s, documents, i);
	schema_free(&s);
	catalogue_use_end(&use, NULL);
	return 0;
}
