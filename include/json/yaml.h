#ifndef JSON_YAML_H
#define JSON_YAML_H

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>

struct str;

/* YAML 1.2 (JSON is YAML) to JSON trees, by libfyaml's events, plain scalars by the 1.2 core schema:
 * `no` is text, `0o17` an integer.  Aliases, anchors, tags other than the core ones, merge keys,
 * duplicate keys, non-text keys, .inf and .nan are refused, each with file:line:column. */

#define YAML_TEXT_MAX (4u << 20)
#define YAML_DOCS_MAX 1000
#define YAML_LARGE_TEXT_MAX (32u << 20)         /* of yaml_load_large() */
#define YAML_LARGE_ITEMS_MAX 1000000
#define YAML_LARGE_LINE_MAX (256 << 10)         /* where it is no JSON */

struct yaml_docs;

/* All documents of a text; name is for messages ("weather.yaml", "-").  Depth and counts as jx_scan.
 * A document without any text (behind a lone "---") is left out.  ERR_INVALID, or ERR_LIMIT for sizes
 * and numbers, with where = "name:line:column". */
int yaml_load(const char *name, const char *text, size_t len, struct yaml_docs **ret, struct err *err) MUST_CHECK;
/* The same for what is large by nature, such as the description of an API: YAML_LARGE_TEXT_MAX bytes with
 * YAML_LARGE_ITEMS_MAX members and elements, and lines of YAML_LARGE_LINE_MAX where it is no JSON.  Its memory is
 * at most 400 MiB, mostly 10 times that of the text. */
int yaml_load_large(const char *name, const char *text, size_t len, struct yaml_docs **ret, struct err *err) MUST_CHECK;
/* The same of a text that has so many lines in front of it, which places count as well. */
int yaml_load_at(const char *name, size_t lines, const char *text, size_t len, struct yaml_docs **ret,
		 struct err *err) MUST_CHECK;
size_t yaml_count(const struct yaml_docs *docs);
json_t *yaml_root(const struct yaml_docs *docs, size_t i);                  /* borrowed */
/* "name:line:column" of the value at a JSON pointer of document i: of its member name if it has one, of
 * the nearest known parent when the pointer leads nowhere. */
void yaml_where(const struct yaml_docs *docs, size_t i, const char *pointer, char *ret, size_t size);
void yaml_free(struct yaml_docs **docs);

/* Write a tree as YAML (block style, strings quoted where YAML would read them otherwise). */
void yaml_write(const json_t *v, struct str *out);

#endif
