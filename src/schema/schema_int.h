#ifndef SRC_SCHEMA_SCHEMA_INT_H
#define SRC_SCHEMA_SCHEMA_INT_H

/* The program that a schema compiles to: one node per subschema, rules grouped by the type of value that
 * they judge, all of it in one arena.  compile.c and its keyword files write it, run.c reads it. */

#include "schema/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json.h"

#include "name_int.h"

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
struct constants {
	const struct constant *values;
	const uint64_t *hashes;                 /* of the values, same order */
	size_t n;
	unsigned types;                         /* bits of all values */
	bool is_const;                          /* which keyword: const, else enum */
	bool strings;                           /* all are: index finds them */
	struct name_index index;
	const struct name *texts;
	const struct constants *next;           /* the other keyword, when both are there */
};

/* A hash under which equal values are equal (1 and 1.0, members in any order).  *steps grows by the work. */
uint64_t schema_hash(const json_t *v, size_t *steps);
bool schema_constant_equal(const struct constant *c, const json_t *v);

/* PATTERNS */

#define ECMA_DOT "[^\\n\\r\\x{2028}\\x{2029}]"        /* what . is translated to */

struct regex;
/* Translate an ECMA-262 pattern (u flag) to PCRE2 syntax; false with a sentence in *ret_why. */
bool regex_translate(const char *p, size_t len, struct str *out, const char **ret_why);
/* Compile into the arena.  ERR_INVALID or ERR_LIMIT with a sentence in err->msg. */
int regex_compile(struct arena *mem, const char *p, size_t len, const struct regex **ret, struct err *err) MUST_CHECK;
/* The same for a pattern of our own in PCRE2's syntax. */
int regex_compile_pcre(struct arena *mem, const char *pattern, const struct regex **ret, struct err *err) MUST_CHECK;
const char *regex_source(const struct regex *re);
/* What one run needs for matching; made at the first match, freed with the run. */
struct regex_room;
void regex_room_free(struct regex_room **room);
/* 1 = matches, 0 = does not, ERR_LIMIT = the limit of one match was reached.  *steps grows by the work. */
int regex_match(const struct regex *re, const char *p, size_t len, struct regex_room **room, size_t *steps);

/* RULES */

struct node;
struct node_list {
	const struct node **nodes;
	size_t n;
	const struct name *guard;               /* a member that tells the nodes apart, NULL = none */
	const struct constants **sets;          /* what each node wants it to be, NULL = anything */
};
struct name_list { struct name *names; size_t n; };
struct bound { bool set; struct jx_number n; };
struct divisor {                                /* of multipleOf; see value.c */
	int64_t whole;                          /* its value, when it is an integer within int64, else 0 */
	uint64_t small;                         /* its digits, when they fit, else 0 */
	const char *digits;
	size_t n;
	int64_t exp10;
};
struct property {
	struct name name;
	const struct node *node;                /* NULL: the name is only required */
	uint64_t needed;                        /* its bit when it is required, 0 = not, or beyond 64 of them */
};
struct pattern_property { const struct regex *re; const struct node *node; };
struct dependent { struct name name; struct name_list required; const struct node *node; };

struct num_rules {
	struct bound min, max, above, below, step;
	struct divisor by;
};
struct str_rules {
	size_t min, max;                        /* code points */
	const struct regex *pattern;
	const struct format *format;            /* NULL: an annotation only */
	bool base64;                            /* contentEncoding, where it decides */
	bool json;                              /* contentMediaType, the same */
};
struct arr_rules {
	size_t min, max;
	bool unique;
	bool old_items;                         /* prefix is a list in items, the rest additionalItems */
	bool marks;                             /* what contains finds counts as evaluated */
	struct node_list prefix;
	const struct node *items;               /* of the elements behind prefix */
	const struct node *contains;
	size_t min_contains, max_contains;
};
struct obj_rules {
	size_t min, max;
	struct name_list required;
	uint64_t needed;                        /* the bits of the first of required */
	size_t nneeded;                         /* so many, at most 64 */
	struct property *props;
	size_t nprops;
	struct name_index index;                /* of props */
	bool walk;                              /* members are looked at one by one */
	bool sparse;                            /* only those that have a name in props */
	bool old_dependencies;                  /* the keyword that dependents come from */
	struct pattern_property *patterns;
	size_t npatterns;
	const struct node *additional, *names;
	struct dependent *dependents;
	size_t ndependents;
};
struct logic {
	struct node_list all, any, one;
	const struct node *not, *cond, *then, *other;
	struct logic *before;                   /* the one compiled before */
};

/* $dynamicRef and $recursiveRef. */
struct jump {
	const char *keyword;
	const char *name;                       /* of the anchor to look for; NULL: target, whatever is around */
	const struct node *target;
};
/* The dynamic anchors of one resource: a run remembers the homes that it has come through. */
struct home_anchor { const char *name; const struct node *node; };
struct home { struct home_anchor *anchors; size_t n; };
struct rest { const struct node *items, *props; };      /* unevaluatedItems, unevaluatedProperties */

/* The short ways of a run that is asked for the verdict alone. */
enum node_kind {
	NODE_FULL,                              /* none: only run.c knows all of its rules */
	NODE_QUICK,                             /* it knows them */
	NODE_PLAIN,                             /* types and nothing else */
	NODE_STRINGS,                           /* a string out of a set, and no rule beside */
	NODE_OBJECT, NODE_ARRAY,                /* an object has obj for all rules, an array arr */
};

struct node {
	uint8_t types;                          /* what may come at all */
	bool never;                             /* the schema false */
	bool plain;                             /* no rules besides types */
	bool only_ref;                          /* ref is all that there is */
	bool deep;                              /* has a home or a rest */
	bool same_value;                        /* has ref, jump or logic */
	bool nests;                             /* may lead to further nodes */
	uint8_t kind;                           /* enum node_kind */
	const struct node *ref;
	const struct constants *constants;      /* const, enum */
	struct num_rules *num;
	struct str_rules *str;
	struct arr_rules *arr;
	struct obj_rules *obj;
	struct logic *logic;
	const struct jump *jump;
	struct rest *rest;
	const struct home *home;                /* of its resource, when that has dynamic anchors */
};

struct schema {
	struct arena *mem;
	const struct node *root;
};

/* FORMATS */

struct format;
/* *ret = NULL when the name is not known. */
int format_compile(struct arena *mem, const char *name, const struct format **ret, struct err *err) MUST_CHECK;
const char *format_words(const struct format *f);       /* "a date like 2024-02-29" */
bool format_check(const struct format *f, const char *p, size_t len, struct regex_room **room, size_t *steps);

#endif
