#ifndef SRC_SCHEMA_SCHEMA_INT_H
#define SRC_SCHEMA_SCHEMA_INT_H

/* The program that a schema compiles to: one node per subschema, rules grouped by the type of value that
 * they judge, all of it in one arena.  compile.c and its keyword files write it, run.c reads it. */

#include "schema/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json.h"

struct arena;
struct str;

/* TYPES */

enum {
	TYPE_NULL = 1,
	TYPE_BOOLEAN = 2,
	TYPE_INTEGER = 4,
	TYPE_NUMBER = 8,
	TYPE_STRING = 16,
	TYPE_ARRAY = 32,
	TYPE_OBJECT = 64,
	TYPE_ANY = 127,
};

unsigned schema_type_bits(const json_t *v);             /* an integer is a number as well */
unsigned schema_type_of_name(const char *name);         /* one bit, 0 = not a type */
/* "a string", "a string or null", "an object, an array or null". */
void schema_type_words(unsigned types, char *ret, size_t size);

/* CONSTANTS of const and enum: trees that belong to no thread */

struct constant {
	unsigned type;                          /* one bit; every number is TYPE_NUMBER */
	bool truth;
	struct jx_number number;
	const char *text;                       /* string, or the member name of an object's child */
	size_t len;
	const struct constant *children;        /* of objects each with its name in front: see names */
	const struct name *names;
	size_t n;
};
struct name { const char *p; size_t len; };
struct constants {
	const struct constant *values;
	const uint64_t *hashes;                 /* of the values, same order */
	size_t n;
	unsigned types;                         /* bits of all values */
	bool is_const;                          /* which keyword: const, else enum */
};

/* A hash under which equal values are equal (1 and 1.0, members in any order).  *steps grows by the work. */
uint64_t schema_hash(const json_t *v, size_t *steps);
bool schema_constant_equal(const struct constant *c, const json_t *v);

/* PATTERNS */

struct regex;
/* Translate an ECMA-262 pattern (u flag) to PCRE2 syntax; false with a sentence in *ret_why. */
bool regex_translate(const char *p, size_t len, struct str *out, const char **ret_why);
/* Compile into the arena.  ERR_INVALID or ERR_LIMIT with a sentence in err->msg. */
int regex_compile(struct arena *mem, const char *p, size_t len, const struct regex **ret, struct err *err) MUST_CHECK;
const char *regex_source(const struct regex *re);
/* What one run needs for matching; made at the first match, freed with the run. */
struct regex_room;
void regex_room_free(struct regex_room **room);
/* 1 = matches, 0 = does not, ERR_LIMIT = the limit of one match was reached.  *steps grows by the work. */
int regex_match(const struct regex *re, const char *p, size_t len, struct regex_room **room, size_t *steps);

/* RULES */

struct node;
struct node_list { const struct node **nodes; size_t n; };
struct name_list { struct name *names; size_t n; };
struct bound { bool set; struct jx_number n; };
struct property { struct name name; const struct node *node; };
struct pattern_property { const struct regex *re; const struct node *node; };
struct dependent { struct name name; struct name_list required; const struct node *node; };

struct num_rules {
	struct bound min, max, above, below, step;
	struct jx_decimal step_digits;
};
struct str_rules {
	size_t min, max;                        /* code points */
	const struct regex *pattern;
};
struct arr_rules {
	size_t min, max;
	bool unique;
	struct node_list prefix;
	const struct node *items;               /* of the elements behind prefix */
	const struct node *contains;
	size_t min_contains, max_contains;
};
struct obj_rules {
	size_t min, max;
	struct name_list required;
	struct property *props;                 /* sorted by length, then bytes */
	size_t nprops;
	struct pattern_property *patterns;
	size_t npatterns;
	const struct node *additional, *names;
	struct dependent *dependents;
	size_t ndependents;
};
struct logic {
	struct node_list all, any, one;
	const struct node *not, *cond, *then, *other;
};

struct node {
	uint8_t types;                          /* what may come at all */
	bool never;                             /* the schema false */
	bool plain;                             /* no rules besides types */
	const struct node *ref;
	const struct constants *constants[2];   /* const, enum */
	struct num_rules *num;
	struct str_rules *str;
	struct arr_rules *arr;
	struct obj_rules *obj;
	struct logic *logic;
};

struct schema {
	struct arena *mem;
	const struct node *root;
	bool draft7;
};

const struct property *schema_find_property(const struct obj_rules *o, const char *name, size_t len);
int schema_order_names(const struct name *a, const struct name *b);

#endif
