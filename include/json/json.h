#ifndef JSON_JSON_H
#define JSON_JSON_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* JSON at the edge: one strict pass over the bytes decides first (scan), then jansson builds a tree.
 * What is forwarded, echoed or digested is a span of the text, never parsed and printed again
 * (SEC S-207, MCP B-04, B-33).  Trees belong to the thread that parsed them. */

struct str;

#define JX_DEPTH_MAX 64                 /* nesting (SEC S-202) */
#define JX_MEMBERS_MAX 100000           /* members and elements of one text */
#define JX_NAME_MAX 256                 /* bytes of a member name after unescaping */
#define JX_MESSAGE_MAX (10u << 20)      /* bytes of one message (SEC S-113) */
#define JX_DIGITS_MAX 2048              /* digits of a number, without zeros at its ends */
/* the exponent that a number is written with, here or with one digit before its point */
#define JX_EXPONENT_MAX 1000000000

/* A piece of the scanned text; p NULL = absent. */
struct jx_span { const char *p; size_t len; };

/* What the caller wants spans of: a JSON pointer of member names only ("/params/arguments"), no
 * escapes, at most 4 levels.  The scan fills span with the raw text of the value. */
struct jx_want { const char *pointer; struct jx_span span; };

/* One strict pass: UTF-8, syntax (RFC 8259, nothing around the value but white space, no BOM), depth,
 * counts, duplicate members compared after unescaping.  No recursion, linear time.
 * ERR_INVALID: not JSON (-32700), or U+0000 in a member name; ERR_CONFLICT: duplicate member (-32600);
 * ERR_LIMIT: too deep, too many, too long.  err->where is "byte N", counted from 1.  Spans point into
 * text; on failure those found before it are filled in, so that an id can be answered.  nwant <= 32. */
int jx_scan(const char *text, size_t len, struct jx_want *want, size_t nwant, struct err *err) MUST_CHECK;

/* Scan, then build a tree.  Lone surrogate escapes become U+FFFD (MCP B-33); U+0000 in values is kept, in
 * names refused; a number beyond the limits below is ERR_LIMIT.  On success *ret is a new reference. */
int jx_parse(const char *text, size_t len, json_t **ret, struct err *err) MUST_CHECK;
/* The same for text that jx_scan() has accepted already. */
int jx_parse_scanned(const char *text, size_t len, json_t **ret, struct err *err) MUST_CHECK;

/* Give back a reference and set *v to NULL; the texts of values that nobody else holds are overwritten first. */
void jx_wipe(json_t **v);

/* Write compact JSON, members in the tree's order. */
void jx_write(const json_t *v, struct str *out);
/* The same, and what a person would not see of it as escapes, which mean the same. */
void jx_write_seen(const json_t *v, struct str *out);
/* As people read it: a text as it is, yes and no, a list of such with commas, "-" if empty; nothing for null. */
void jx_write_plain(const json_t *v, struct str *out);
/* Indented by 2, for people. */
void jx_write_pretty(const json_t *v, struct str *out);
/* Canonical form for digests: equal values, equal text, and it reads back as an equal value.  Members
 * sorted by bytes, no white space, the escapes of RFC 8785 3.2.2; whole numbers within int64 as integers
 * (1.0 prints as 1), others in the shortest form that reads back, beyond int64 with an exponent. */
void jx_write_canon(const json_t *v, struct str *out);
/* A JSON string literal with its quotes; p is valid UTF-8 (else invalid bytes become U+FFFD). */
void jx_write_string(struct str *out, const char *p, size_t len);
void jx_write_stringz(struct str *out, const char *z);

/* Equality of JSON Schema: 1 equals 1.0, order of members does not matter. */
bool jx_equal(const json_t *a, const json_t *b);
/* Call fn for each place where two trees differ, as deep as they are alike; a or b NULL: nothing is there.  Arrays
 * are compared element by element. */
typedef void jx_diff_fn(void *arg, const char *pointer, const json_t *a, const json_t *b);
void jx_diff(const json_t *a, const json_t *b, jx_diff_fn *fn, void *arg);
bool jx_is_integer(const json_t *v);                    /* 1.0 is one, as in JSON Schema */

/* NUMBERS are never rounded (SEC S-205).  An integer within int64 is a JSON_INTEGER.  A double stands for
 * the shortest decimal that reads back as itself; what is written as such is a JSON_REAL.  Any other number
 * keeps its text: for jansson it is a JSON_REAL that is not a number, which no JSON text yields, so that
 * json_real_value() and json_number_value() serve in src/json alone. */
enum jx_kind { JX_INTEGER, JX_REAL, JX_TEXT };
struct jx_number {
	enum jx_kind kind;
	union { int64_t i; double d; const char *text; };       /* text is borrowed from the tree */
};
struct jx_number jx_number(const json_t *v);
double jx_nearest(const json_t *v);                     /* double to a number; beyond them +-DBL_MAX */
/* A number by its JSON text: a new reference, or NULL with the limit in words. */
json_t *jx_number_new(const char *p, size_t len, const char **ret_why);
/* Order by value, exact: < 0, 0, > 0. */
int jx_compare(struct jx_number a, struct jx_number b);
/* digits * 10^exp10; the n digits (characters) have no zero at either end; n = 0 is zero. */
struct jx_decimal { int64_t exp10; size_t n; bool negative; char digits[JX_DIGITS_MAX]; };
void jx_decimal(struct jx_number n, struct jx_decimal *ret);
/* As compact JSON has it, but 1.0 as 1. */
void jx_write_number(struct jx_number n, struct str *out);

/* Typed getters of object members.  at = the pointer of obj, for err.where ("/limits"); a missing
 * optional member leaves *ret untouched and returns 0; a wrong type is ERR_INVALID with
 * where = at/name and a sentence ("must be a string, is a number"). */
enum jx_need { JX_OPTIONAL, JX_REQUIRED };
int jx_get_string(const json_t *obj, const char *at, const char *name, enum jx_need need, const char **ret,
		  struct err *err) MUST_CHECK;          /* borrowed; refuses U+0000 inside */
int jx_get_bool(const json_t *obj, const char *at, const char *name, enum jx_need need, bool *ret,
		struct err *err) MUST_CHECK;
int jx_get_int(const json_t *obj, const char *at, const char *name, enum jx_need need, int64_t min, int64_t max,
	       int64_t *ret, struct err *err) MUST_CHECK;
int jx_get_object(const json_t *obj, const char *at, const char *name, enum jx_need need, json_t **ret,
		  struct err *err) MUST_CHECK;          /* borrowed */
int jx_get_array(const json_t *obj, const char *at, const char *name, enum jx_need need, json_t **ret,
		 struct err *err) MUST_CHECK;
/* Refuse members that are not in known[]: ERR_INVALID, where = at/name, hint "did you mean …?". */
int jx_only(const json_t *obj, const char *at, const char *const *known, size_t nknown, struct err *err) MUST_CHECK;
const char *jx_type_name(const json_t *v);              /* "object", "string", "integer", "number", … */

/* The value at a JSON pointer (RFC 6901) or NULL; borrowed. */
json_t *jx_at(const json_t *root, const char *pointer);
/* Where the values at these pointers (at most JX_LOCATE_MAX) stand in text that jx_scan() has accepted: fn() for each
 * that is there, from <= byte < to, in the order of the text.  What stands inside of another one is not told. */
#define JX_LOCATE_MAX 64
typedef void jx_located_fn(void *arg, size_t pointer, size_t from, size_t to);
void jx_locate(const char *text, size_t len, const char *const *pointers, size_t n, jx_located_fn *fn, void *arg);
bool jx_pointer_valid(const char *pointer);             /* with names no longer than any can be */
/* Append one reference token to a pointer, escaped (~0 ~1). */
void jx_pointer_add(struct str *pointer, const char *token);

#endif
