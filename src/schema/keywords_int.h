#ifndef SRC_SCHEMA_KEYWORDS_INT_H
#define SRC_SCHEMA_KEYWORDS_INT_H

/* The handlers behind the rows of keywords.c. */

#include "compile_int.h"

struct keyword;
typedef int keyword_fn(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v);
struct keyword {
	const char *name;
	unsigned dialects, vocabulary;
	enum sub sub;
	keyword_fn *read;
	size_t offset;          /* of the result in its group of rules */
};

/* kw_value.c */
keyword_fn kw_type, kw_enum, kw_const, kw_bound, kw_multiple, kw_str_count, kw_pattern, kw_format, kw_content;
/* kw_container.c */
keyword_fn kw_arr_count, kw_unique, kw_arr_schema, kw_items, kw_prefix, kw_additional_items;
keyword_fn kw_obj_count, kw_obj_schema, kw_required, kw_properties, kw_pattern_properties, kw_dependents;
keyword_fn kw_rest;
keyword_fn kw_logic_list, kw_logic_schema, kw_definitions;

/* A count: a whole number from 0 on (2.0 is one). */
int kw_read_count(struct compiler *c, const json_t *v, size_t *ret) MUST_CHECK;
/* Compile a pattern; failures point at what is being read. */
int kw_read_pattern(struct compiler *c, const char *p, size_t len, const struct regex **ret) MUST_CHECK;

#endif
