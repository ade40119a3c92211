/* One strict pass over a JSON text (RFC 8259): UTF-8, syntax, depth, counts, duplicate members, and the
 * spans that the caller asked for.  It builds nothing and does not recurse: the open containers stand
 * on a stack of JX_DEPTH_MAX frames, the names of open objects in one array.  Escapes of strings and the
 * places of values are read in texts that have passed it.  Any thread. */
#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "json_int.h"

/* --- The escapes of JSON strings, read.  The scan has checked their form before. */

static size_t put_utf8(uint32_t cp, char ret[4])
{
	if (cp < 0x80) {
		ret[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		ret[0] = (char)(0xc0 | cp >> 6);
		ret[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		ret[0] = (char)(0xe0 | cp >> 12);
		ret[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		ret[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	ret[0] = (char)(0xf0 | cp >> 18);
	ret[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	ret[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	ret[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

/* The code point of the well-formed \u escape at p; *ret_len is 12 when a surrogate pair was read.
 * A lone surrogate is JX_REPLACEMENT (MCP B-33). */
static uint32_t jx_unescape_u(const char *p, const char *end, size_t *ret_len)
{
	int high = jx_hex4(p + 2), low;

	*ret_len = 6;
	if (high < 0xd800 || high > 0xdfff)
		return (uint32_t)high;
	if (high > 0xdbff || end - p < 12 || p[6] != '\\' || p[7] != 'u')
		return JX_REPLACEMENT;
	low = jx_hex4(p + 8);
	if (low < 0xdc00 || low > 0xdfff)
		return JX_REPLACEMENT;
	*ret_len = 12;
	return 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
}

static char unescape_letter(char c)
{
	switch (c) {
	case 'b':
		return '\b';
	case 'f':
		return '\f';
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	default:
		return c;               /* quote, backslash, slash */
	}
}

size_t jx_unescape(const char *p, size_t len, char *ret, size_t size)
{
	const char *end = p + len;
	size_t out = 0;

	while (p < end) {
		char piece[4];
		size_t n = 1, used = 1;

		if (*p != '\\') {
			piece[0] = *p;
		} else if (p[1] != 'u') {
			piece[0] = unescape_letter(p[1]);
			used = 2;
		} else {
			n = put_utf8(jx_unescape_u(p, end, &used), piece);
		}
		if (out + n <= size)
			memcpy(ret + out, piece, n);
		out += n;
		p += used;
	}
	return out;
}

/* --- Where values stand in a text */

/* One pass with the pointers that still fit as a set of bits (locate, for redaction). */

/* Pointers whose tokens have all fitted down to here, and how many tokens that is. */
struct level { uint64_t fit; size_t index; bool array; };

struct locate {
	size_t n;
	/* what is left of pointer i at a depth; NULL = does not fit */
	const char *rest[JX_LOCATE_MAX][JX_DEPTH_MAX + 1];
	struct level level[JX_DEPTH_MAX + 1];
	unsigned depth;
	jx_located_fn *fn;
	void *arg;
};

static const char *skip_string(const char *p)
{
	for (p++; *p != '"'; p++)
		p += *p == '\\';
	return p + 1;
}

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

/* Over the value at p, which the scan has found sound. */
static const char *skip_value(const char *p, const char *end)
{
	unsigned open = 0;

	do {
		if (*p == '"') {
			p = skip_string(p);
			continue;
		}
		if (*p == '{' || *p == '[')
			open++;
		else if (*p == '}' || *p == ']')
			open--;
		p++;
		if (open == 0 && (p[-1] == '}' || p[-1] == ']'))
			return p;
	} while (p < end && (open > 0 || !strchr(",}] \t\n\r", *p)));
	return p;
}

/* Which of the pointers that fit here go on with this member name or index; *ret_whole: one that ends there. */
static uint64_t fit_token(struct locate *l, const char *name, size_t index, int *ret_whole)
{
	const struct level *here = &l->level[l->depth];
	uint64_t fit = 0;

	*ret_whole = -1;
	for (size_t i = 0; i < l->n; i++) {
		char token[JX_NAME_MAX + 1];
		const char *rest = l->rest[i][l->depth];
		size_t at;

		if (!(here->fit >> i & 1) || *rest != '/')
			continue;
		rest++;
		if (!jx_pointer_token(&rest, token))
			continue;
		if (here->array ? !jx_pointer_index(token, &at) || at != index : strcmp(token, name) != 0)
			continue;
		l->rest[i][l->depth + 1] = rest;
		fit |= UINT64_C(1) << i;
		if (*rest == '\0' && *ret_whole < 0)
			*ret_whole = (int)i;
	}
	return fit;
}

static const char *read_name(const char *p, char ret[JX_NAME_MAX + 1])
{
	const char *end = skip_string(p);
	size_t n = jx_unescape(p + 1, (size_t)(end - p) - 2, ret, JX_NAME_MAX);

	ret[n < JX_NAME_MAX ? n : JX_NAME_MAX] = '\0';
	return end;
}

static void enter(struct locate *l, const char *p, uint64_t fit)
{
	l->depth++;
	l->level[l->depth] = (struct level){ .fit = fit, .array = *p == '[' };
}

/* A member or element at p, behind the brace, the bracket or the comma; behind it, or into it. */
static const char *step(struct locate *l, const char *p, const char *text, const char *end)
{
	struct level *here = &l->level[l->depth];
	char name[JX_NAME_MAX + 1] = "";
	const char *next;
	uint64_t fit;
	int whole;

	if (!here->array) {
		p = skip_space(read_name(p, name), end);
		p = skip_space(p + 1, end);             /* the colon */
	}
	fit = fit_token(l, name, here->index++, &whole);
	if (fit && whole < 0 && (*p == '{' || *p == '[') && l->depth < JX_DEPTH_MAX) {
		enter(l, p, fit);
		return p + 1;
	}
	next = skip_value(p, end);
	if (whole >= 0)
		l->fn(l->arg, (size_t)whole, (size_t)(p - text), (size_t)(next - text));
	return next;
}

/* All that is in the container whose inside begins at p. */
static void walk(struct locate *l, const char *p, const char *text, const char *end)
{
	for (;;) {
		p = skip_space(p, end);
		if (*p == '}' || *p == ']') {
			p++;
			if (l->depth-- == 0)
				return;
		} else if (*p == ',') {
			p++;
		} else {
			p = step(l, p, text, end);
		}
	}
}

void jx_locate(const char *text, size_t len, const char *const *pointers, size_t n, jx_located_fn *fn, void *arg)
{
	const char *end = text + len, *p = skip_space(text, end);
	struct locate *l = mem_zalloc(sizeof(*l));

	l->n = n;
	l->fn = fn;
	l->arg = arg;
	for (size_t i = 0; i < n; i++) {
		l->rest[i][0] = pointers[i];
		l->level[0].fit |= UINT64_C(1) << i;
		if (pointers[i][0] == '\0') {
			fn(arg, i, (size_t)(p - text), (size_t)(skip_value(p, end) - text));
			free(l);
			return;
		}
	}
	l->level[0].array = *p == '[';
	if (n > 0 && (*p == '{' || *p == '['))
		walk(l, p + 1, text, end);
	free(l);
}

/* --- the scan */

#define NAMES_INLINE 64         /* names of open objects before memory is taken */
#define NAMES_LINEAR 16         /* up to here each new name is compared with those before it */
#define WANTS_MAX 32            /* bits of a mask */

enum step_kind { STEP_END, STEP_VALUE, STEP_FIRST_VALUE, STEP_NAME, STEP_FIRST_NAME, STEP_AFTER };

struct name {
	const char *p;          /* raw, between its quotes */
	uint32_t raw, len;      /* bytes as written, bytes after unescaping */
	uint64_t hash;          /* of the unescaped bytes */
};

struct frame {                  /* an open container */
	const char *start;
	size_t names;           /* index of its first name */
	uint32_t live;          /* the wants whose pointer leads into it */
	uint32_t ends;          /* the wants whose value it is */
	uint32_t prefix;        /* bytes of those pointers that lead here */
	bool object;
};

struct scan {
	const char *start, *p, *end;
	struct err *err;
	struct jx_want *want;
	size_t nwant;
	uint32_t live, ends, prefix;    /* of the value that comes next */
	unsigned depth;
	size_t items, items_max;
	struct name *names;
	size_t nnames, names_cap;
	struct frame stack[JX_DEPTH_MAX];
	struct name names_inline[NAMES_INLINE];
};

static int fail(struct scan *s, enum err_code code, const char *at, const char *text)
{
	char where[32];

	(void)snprintf(where, sizeof(where), "byte %zu", (size_t)(at - s->start) + 1);
	return err_set(s->err, code, where, "%s", text);
}

static int fail_syntax(struct scan *s, const char *at, const char *text)
{
	return fail(s, ERR_INVALID, at, at == s->end ? "the text ends in the middle of a value" : text);
}

static void scan_skip_space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
		s->p++;
}

/* STRINGS */

/* Bytes of the escape at p, or a negative code. */
static int scan_escape(struct scan *s, const char *p)
{
	if (s->end - p < 2)
		return fail_syntax(s, s->end, "");
	switch (p[1]) {
	case '"':
	case '\\':
	case '/':
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		return 2;
	case 'u':
		if (s->end - p < 6)
			return fail_syntax(s, s->end, "");
		if (jx_hex4(p + 2) < 0)
			return fail_syntax(s, p, "\\u needs four hexadecimal digits");
		return 6;
	default:
		return fail_syntax(s, p, "a string has an escape that JSON does not know");
	}
}

/* Step over the string at s->p. */
static int scan_string(struct scan *s, bool *ret_escaped)
{
	const char *p = s->p + 1;
	bool escaped = false;

	for (;;) {
		p += text_plain_run(p, (size_t)(s->end - p));
		if (p == s->end)
			return fail_syntax(s, p, "");
		if (*p == '"')
			break;
		if (*p == '\\') {
			int n = scan_escape(s, p);

			if (n < 0)
				return n;
			escaped = true;
			p += n;
		} else if ((unsigned char)*p < 0x20) {
			return fail_syntax(s, p, "a string has a control character that is not escaped");
		} else {
			size_t n = jx_utf8_len((const unsigned char *)p, (size_t)(s->end - p));

			if (!n)
				return fail_syntax(s, p, "the text is not valid UTF-8");
			p += n;
		}
	}
	s->p = p + 1;
	*ret_escaped = escaped;
	return 0;
}

/* NAMES */

static uint64_t hash_name(const char *p, size_t len)
{
	uint64_t h = len * 0x9e3779b97f4a7c15, w;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&w, p, 8);
		h = (h ^ w) * 0xff51afd7ed558ccd;
		h ^= h >> 32;
	}
	w = 0;
	memcpy(&w, p, len);
	h = (h ^ w) * 0xff51afd7ed558ccd;
	return h ^ h >> 32;
}

/* Order by hash, then by the unescaped bytes: any total order serves to bring equal names together. */
static int order_names(const struct name *a, const struct name *b)
{
	char x[JX_NAME_MAX], y[JX_NAME_MAX];

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	if (a->raw == a->len && b->raw == b->len)
		return memcmp(a->p, b->p, a->len);
	jx_unescape(a->p, a->raw, x, sizeof(x));
	jx_unescape(b->p, b->raw, y, sizeof(y));
	return memcmp(x, y, a->len);
}

static int order_names_v(const void *a, const void *b)
{
	return order_names(a, b);
}

static int fail_duplicate(struct scan *s, const struct name *a, const struct name *b)
{
	const struct name *second = a->p > b->p ? a : b;
	char plain[JX_NAME_MAX], shown[JX_NAME_MAX], text[JX_NAME_MAX + 64];

	jx_unescape(second->p, second->raw, plain, sizeof(plain));
	text_printable(plain, second->len, shown, sizeof(shown));
	(void)snprintf(text, sizeof(text), "the member \"%s\" occurs twice in one object", shown);
	return fail(s, ERR_CONFLICT, second->p, text);
}

/* Remember a name of the innermost object; small objects are checked at once, large ones when they end. */
static int add_name(struct scan *s, const struct frame *f, const struct name *n)
{
	if (s->nnames - f->names < NAMES_LINEAR)
		for (size_t i = f->names; i < s->nnames; i++)
			if (s->names[i].hash == n->hash && order_names(&s->names[i], n) == 0)
				return fail_duplicate(s, &s->names[i], n);
	if (s->nnames == s->names_cap) {
		bool first = s->names == s->names_inline;

		s->names_cap *= 2;      /* JX_MEMBERS_MAX bounds it */
		s->names = mem_realloc(first ? NULL : s->names, s->names_cap * sizeof(*s->names));
		if (first)
			memcpy(s->names, s->names_inline, sizeof(s->names_inline));
	}
	s->names[s->nnames++] = *n;
	return 0;
}

/* Sorting costs n log n whatever the names are, so no choice of names makes it slow (SEC S-208). */
static int check_many_names(struct scan *s, const struct frame *f)
{
	struct name *first = s->names + f->names;
	size_t n = s->nnames - f->names;

	qsort(first, n, sizeof(*first), order_names_v);
	for (size_t i = 1; i < n; i++)
		if (order_names(&first[i - 1], &first[i]) == 0)
			return fail_duplicate(s, &first[i - 1], &first[i]);
	return 0;
}

/* Which wants does the member called name lead to, and which end there? */
static void follow_wants(struct scan *s, const struct frame *f, const char *name, size_t len)
{
	s->prefix = f->prefix + 1 + (uint32_t)len;
	for (uint32_t left = f->live; left; left &= left - 1) {
		const unsigned i = (unsigned)__builtin_ctz(left);
		const char *token = s->want[i].pointer + f->prefix + 1;

		if ((len && *token != *name) || strncmp(token, name, len) != 0)
			continue;
		if (token[len] == '\0')
			s->ends |= 1u << i;
		else if (token[len] == '/')
			s->live |= 1u << i;
	}
}

static int scan_name(struct scan *s, bool first)
{
	const struct frame *f = &s->stack[s->depth - 1];
	char plain[JX_NAME_MAX];
	struct name n;
	const char *text;
	bool escaped;
	int rc;

	if (s->p == s->end || *s->p != '"')
		return fail_syntax(s, s->p, first ? "a member name in quotes or } is expected here" :
						    "a member name in quotes is expected here");
	n.p = text = s->p + 1;
	rc = scan_string(s, &escaped);
	if (rc)
		return rc;
	n.raw = n.len = (uint32_t)(s->p - 1 - n.p);
	if (escaped) {
		n.len = (uint32_t)jx_unescape(n.p, n.raw, plain, sizeof(plain));
		text = plain;
	}
	if (n.len > JX_NAME_MAX)
		return fail(s, ERR_LIMIT, n.p, "a member name is longer than 256 bytes");
	if (escaped && memchr(plain, '\0', n.len))
		return fail(s, ERR_INVALID, n.p, "a member name contains U+0000"); /* SEC S-204 */
	n.hash = hash_name(text, n.len);
	rc = add_name(s, f, &n);
	if (rc)
		return rc;
	if (f->live)
		follow_wants(s, f, text, n.len);
	scan_skip_space(s);
	if (s->p == s->end || *s->p != ':')
		return fail_syntax(s, s->p, "a colon is expected after the member name");
	s->p++;
	return STEP_VALUE;
}

/* VALUES */

static void give_span(struct scan *s, uint32_t ends, const char *start)
{
	for (size_t i = 0; ends; i++, ends >>= 1)
		if (ends & 1)
			s->want[i].span = (struct jx_span){ start, (size_t)(s->p - start) };
}

static bool is_digit(const struct scan *s, const char *p)
{
	return p < s->end && *p >= '0' && *p <= '9';
}

static int scan_number(struct scan *s)
{
	const char *p = s->p;

	if (*p == '-')
		p++;
	if (!is_digit(s, p))
		return fail_syntax(s, p, p == s->p ? "a value is expected here" : "a digit is expected here");
	if (*p == '0')
		p++;
	else
		while (is_digit(s, p))
			p++;
	if (is_digit(s, p))
		return fail_syntax(s, p, "a number has a leading zero");
	if (p < s->end && *p == '.') {
		if (!is_digit(s, ++p))
			return fail_syntax(s, p, "a digit is expected after the decimal point");
		while (is_digit(s, p))
			p++;
	}
	if (p < s->end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < s->end && (*p == '+' || *p == '-'))
			p++;
		if (!is_digit(s, p))
			return fail_syntax(s, p, "a digit is expected in the exponent");
		while (is_digit(s, p))
			p++;
	}
	s->p = p;
	return 0;
}

static int scan_literal(struct scan *s, const char *word, size_t len)
{
	size_t left = (size_t)(s->end - s->p);

	if (left < len && memcmp(s->p, word, left) == 0)
		return fail_syntax(s, s->end, "");
	if (left < len || memcmp(s->p, word, len) != 0)
		return fail_syntax(s, s->p, "a value is expected here");
	s->p += len;
	return 0;
}

static int open_container(struct scan *s, bool object)
{
	struct frame *f = &s->stack[s->depth];

	if (s->depth == JX_DEPTH_MAX)
		return fail(s, ERR_LIMIT, s->p, "nested deeper than 64 levels");
	s->depth++;
	f->start = s->p++;
	f->names = s->nnames;
	f->live = s->live;
	f->ends = s->ends;
	f->prefix = s->prefix;
	f->object = object;
	s->live = s->ends = 0;
	return object ? STEP_FIRST_NAME : STEP_FIRST_VALUE;
}

static int close_container(struct scan *s)
{
	const struct frame *f = &s->stack[s->depth - 1];

	if (s->nnames - f->names > NAMES_LINEAR) {
		int rc = check_many_names(s, f);

		if (rc)
			return rc;
	}
	s->p++;
	s->nnames = f->names;
	give_span(s, f->ends, f->start);
	s->depth--;
	return STEP_AFTER;
}

static int scan_value(struct scan *s)
{
	const char *start = s->p;
	bool escaped;
	int rc;

	if (s->p == s->end)
		return fail_syntax(s, s->p, "");
	switch (*s->p) {
	case '{':
		return open_container(s, true);
	case '[':
		return open_container(s, false);
	case '"':
		rc = scan_string(s, &escaped);
		break;
	case 't':
		rc = scan_literal(s, "true", 4);
		break;
	case 'f':
		rc = scan_literal(s, "false", 5);
		break;
	case 'n':
		rc = scan_literal(s, "null", 4);
		break;
	default:
		rc = scan_number(s);
	}
	if (rc)
		return rc;
	give_span(s, s->ends, start);
	s->live = s->ends = 0;
	return STEP_AFTER;
}

static int scan_after(struct scan *s)
{
	const struct frame *f = s->depth ? &s->stack[s->depth - 1] : NULL;

	if (!f)
		return s->p == s->end ? STEP_END : fail_syntax(s, s->p, "there is more text after the value");
	if (s->p < s->end && *s->p == (f->object ? '}' : ']'))
		return close_container(s);
	if (s->p == s->end || *s->p != ',')
		return fail_syntax(s, s->p, f->object ? "a comma or } is expected here"
				   : "a comma or ] is expected here");
	s->p++;
	return f->object ? STEP_NAME : STEP_VALUE;
}

static int count_item(struct scan *s)
{
	if (s->depth && ++s->items > s->items_max)
		return fail(s, ERR_LIMIT, s->p, "more than 100000 members and elements");
	return 0;
}

static int scan_step(struct scan *s, int next)
{
	bool empty = s->depth && s->p < s->end && *s->p == (s->stack[s->depth - 1].object ? '}' : ']');
	int rc;

	if (next == STEP_AFTER)
		return scan_after(s);
	if (empty && (next == STEP_FIRST_NAME || next == STEP_FIRST_VALUE))
		return close_container(s);
	if (next == STEP_FIRST_NAME || next == STEP_NAME)
		return scan_name(s, next == STEP_FIRST_NAME);
	/* A member is counted with its value. */
	rc = count_item(s);
	return rc ? rc : scan_value(s);
}

static void start_wants(struct scan *s)
{
	for (size_t i = 0; i < s->nwant; i++) {
		s->want[i].span = (struct jx_span){ NULL, 0 };
		s->live |= 1u << i;
	}
}

static int scan_text(const char *text, size_t len, size_t items_max, struct jx_want *want, size_t nwant,
		     struct err *err)
{
	struct scan s;
	int next = STEP_VALUE;

	assert(nwant <= WANTS_MAX);
	s.start = s.p = text;
	s.end = text + len;
	s.err = err;
	s.want = want;
	s.nwant = nwant;
	s.live = s.ends = s.prefix = 0;
	s.depth = 0;
	s.items = 0;
	s.items_max = items_max;
	s.names = s.names_inline;
	s.nnames = 0;
	s.names_cap = NAMES_INLINE;
	start_wants(&s);
	if (len > JX_MESSAGE_MAX && items_max == JX_MEMBERS_MAX)
		return fail(&s, ERR_LIMIT, text + JX_MESSAGE_MAX, "longer than 10 MiB");
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		return fail(&s, ERR_INVALID, text, "the text begins with a byte order mark");
	while (next > STEP_END) {
		scan_skip_space(&s);
		next = scan_step(&s, next);
	}
	if (s.names != s.names_inline)
		free(s.names);
	return next;
}

int jx_scan(const char *text, size_t len, struct jx_want *want, size_t nwant, struct err *err)
{
	return scan_text(text, len, JX_MEMBERS_MAX, want, nwant, err);
}

bool jx_is_large_json(const char *text, size_t len, size_t items_max)
{
	return scan_text(text, len, items_max, NULL, 0, NULL) == 0;
}
