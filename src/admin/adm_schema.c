/* schema check: a JSON Schema by itself, and documents by it, in the words that a caller of a tool would read. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "schema/schema.h"

#include "adm_commands.h"
#include "admin_int.h"

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
	struct schema_report report;

	if (schema_run(s, json_array_get(documents, i), &report) == 0)
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
	const struct schema_options options = { .assert_format = json_is_true(json_object_get(c->args, "formats")) };
	struct schema *s = NULL;
	struct err wrong;

	(void)db;
	(void)logs;
	(void)err;
	if (schema_compile_with(json_array_get(documents, 0), &options, &s, &wrong) < 0) {
		char *text = mem_printf("%s%s%s", wrong.msg, *wrong.hint ? "; " : "", wrong.hint);

		put_finding(c->out, 0, wrong.where, text);
		free(text);
		return 0;
	}
	for (size_t i = 1; i < json_array_size(documents); i++)
		check_instance(c->out, s, documents, i);
	schema_free(&s);
	return 0;
}
