/* Fuzz target: definition documents.  What is taken compiles again from what is stored, means the same when it is
 * defined again, and what is refused points into the document. */

#include "config.h"

#include <string.h>

#include "../unit/handler_table.h"
#include "base/mem.h"
#include "fuzz.h"
#include "json/json.h"
#include "json/yaml.h"
#include "registry/define.h"

/* libfyaml 0.7.12 loses a buffer for a quoted scalar of very many pieces.  Only operators' files are YAML. */
const char *__lsan_default_suppressions(void);
__attribute__((weak)) const char *__lsan_default_suppressions(void)
{
	return "leak:libfyaml.so";
}

static void check_taken(const struct define_item *d)
{
	struct arena *mem = arena_new(DEFINE_MEMORY_MAX);
	struct define_item again = { .text = NULL };
	struct reg_compiled compiled;
	json_t *doc = NULL;
	struct err err;

	FUZZ_CHECK(strlen(d->text) <= DEFINE_TEXT_MAX);
	FUZZ_CHECK(jx_parse(d->text, strlen(d->text), &doc, &err) == 0);
	FUZZ_CHECK(define_compile(doc, d->kind, bind_handler, NULL, mem, &compiled, &err) == 0);
	FUZZ_CHECK(compiled.timeout_ms >= REG_TIMEOUT_MIN_MS && compiled.timeout_ms <= REG_TIMEOUT_MAX_MS);
	FUZZ_CHECK(compiled.result_max >= 1 && compiled.result_max <= REG_RESULT_MAX);
	FUZZ_CHECK((compiled.output != NULL) == (compiled.output_form != REG_OUTPUT_NONE));
	define_compiled_fini(&compiled);
	arena_free(&mem);
	json_object_set_new(doc, "kind", json_string(reg_kinds[d->kind].word));
	FUZZ_CHECK(define_item(doc, bind_handler, NULL, &again, &err) == 0);
	FUZZ_CHECK(strcmp(again.name, d->name) == 0 && strcmp(again.text, d->text) == 0);
	FUZZ_CHECK(memcmp(again.digest, d->digest, sizeof again.digest) == 0);
	FUZZ_CHECK(memcmp(again.list_digest, d->list_digest, sizeof again.list_digest) == 0);
	define_free(&again);
	json_decref(doc);
}

static void check_warning(void *arg, const char *pointer, const char *text)
{
	FUZZ_CHECK((*pointer == '\0' || *pointer == '/') && *text);
}

static void check_document(const json_t *doc)
{
	struct define_item d = { .text = NULL };
	struct err err;

	if (json_is_object(doc))
		define_lint(doc, check_warning, NULL);
	if (define_item(doc, bind_handler, NULL, &d, &err) < 0) {
		FUZZ_CHECK(err.where[0] == '\0' || err.where[0] == '/');
		FUZZ_CHECK(err.msg[0] != '\0');
		return;
	}
	check_taken(&d);
	define_free(&d);
}

FUZZ_TARGET(define)
{
	struct yaml_docs *docs = NULL;

	if (yaml_load("f", (const char *)data, size, &docs, NULL) < 0)
		return 0;
	for (size_t i = 0; i < yaml_count(docs); i++)
		check_document(yaml_root(docs, i));
	yaml_free(&docs);
	return 0;
}
