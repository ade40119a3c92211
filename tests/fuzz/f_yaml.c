/* Fuzz target: YAML texts.  What loads can be written and loads again as the same value; every value has a
 * place; what does not load says where. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "json/json.h"
#include "json/yaml.h"

/* libfyaml 0.7.12 loses a buffer for a quoted scalar of very many pieces.  Only operators' files are YAML. */
const char *__lsan_default_suppressions(void);
__attribute__((weak)) const char *__lsan_default_suppressions(void)
{
	return "leak:libfyaml.so";
}

static void check_place(const struct yaml_docs *docs, size_t i, const char *pointer)
{
	char where[64];

	yaml_where(docs, i, pointer, where, sizeof where);
	FUZZ_CHECK(strncmp(where, "f:", 2) == 0);
}

/* The pointers of all values, depth first. */
static void check_places(const struct yaml_docs *docs, size_t i, json_t *v, struct str *pointer)
{
	size_t mark = pointer->len;

	check_place(docs, i, str_text(pointer));
	for (void *it = json_object_iter(v); it; it = json_object_iter_next(v, it)) {
		jx_pointer_add(pointer, json_object_iter_key(it));
		FUZZ_CHECK(jx_at(yaml_root(docs, i), pointer->p) == json_object_iter_value(it));
		check_places(docs, i, json_object_iter_value(it), pointer);
		pointer->len = mark;
	}
	for (size_t k = 0; k < json_array_size(v) && k < 20; k++) {
		str_printf(pointer, "/%zu", k);
		check_places(docs, i, json_array_get(v, k), pointer);
		pointer->len = mark;
	}
	if (pointer->p)
		pointer->p[mark] = '\0';
}

static void check_written(const json_t *v)
{
	struct str out = STR_INIT;
	struct yaml_docs *back = NULL;
	struct err e = { 0 };

	yaml_write(v, &out);
	if (yaml_load("f", str_text(&out), out.len, &back, &e) != 0)
		fprintf(stderr, "%s at %s\n%s\n", e.msg, e.where, str_text(&out));
	FUZZ_CHECK(back && yaml_count(back) == 1);
	FUZZ_CHECK(jx_equal(v, yaml_root(back, 0)));
	yaml_free(&back);
	str_fini(&out);
}

FUZZ_TARGET(yaml)
{
	struct yaml_docs *docs = NULL;
	struct err e = { 0 };

	if (yaml_load("f", (const char *)data, size, &docs, &e) != 0) {
		FUZZ_CHECK(!docs && *e.msg && strncmp(e.where, "f:", 2) == 0);
		return 0;
	}
	for (size_t i = 0; i < yaml_count(docs); i++) {
		struct str pointer = STR_INIT;

		check_places(docs, i, yaml_root(docs, i), &pointer);
		check_place(docs, i, "/no~2where");
		check_written(yaml_root(docs, i));
		str_fini(&pointer);
	}
	yaml_free(&docs);
	return 0;
}
