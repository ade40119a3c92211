/* ECMA-262 patterns (as with the u flag) to PCRE2 syntax, Unicode properties included.  What the two languages write
 * alike but mean differently is spelled out; what ECMA-262 refuses is refused here, so that nothing of PCRE2's own
 * syntax can be reached.  Groups lose their names: references to them are turned into numbers.
 *
 * One liberty: a backslash in front of any punctuation of ASCII is taken, because patterns in the wild have
 * them; with the u flag only those that mean something may have one. */
#include "config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#include "schema_int.h"

#define ECMA_PROPERTY_MAX 48    /* bytes of a property's name */

/* --- Unicode properties by the names of ECMA-262 (tables 67 to 69) */

/* Which PCRE2 spells differently or shares with names that ECMA-262 does not have. */

static const struct { const char *name, *pcre; } categories[] = {
	{ "Cased_Letter", "L&" }, { "LC", "L&" },
	{ "Close_Punctuation", "Pe" }, { "Connector_Punctuation", "Pc" }, { "Control", "Cc" }, { "cntrl", "Cc" },
	{ "Currency_Symbol", "Sc" }, { "Dash_Punctuation", "Pd" }, { "Decimal_Number", "Nd" }, { "digit", "Nd" },
	{ "Enclosing_Mark", "Me" }, { "Final_Punctuation", "Pf" }, { "Format", "Cf" }, { "Initial_Punctuation", "Pi" },
	{ "Letter", "L" }, { "Letter_Number", "Nl" }, { "Line_Separator", "Zl" }, { "Lowercase_Letter", "Ll" },
	{ "Mark", "M" }, { "Combining_Mark", "M" }, { "Math_Symbol", "Sm" }, { "Modifier_Letter", "Lm" },
	{ "Modifier_Symbol", "Sk" }, { "Nonspacing_Mark", "Mn" }, { "Number", "N" }, { "Open_Punctuation", "Ps" },
	{ "Other", "C" }, { "Other_Letter", "Lo" }, { "Other_Number", "No" }, { "Other_Punctuation", "Po" },
	{ "Other_Symbol", "So" }, { "Paragraph_Separator", "Zp" }, { "Private_Use", "Co" }, { "Punctuation", "P" },
	{ "punct", "P" }, { "Separator", "Z" }, { "Space_Separator", "Zs" }, { "Spacing_Mark", "Mc" },
	{ "Surrogate", "Cs" }, { "Symbol", "S" }, { "Titlecase_Letter", "Lt" }, { "Unassigned", "Cn" },
	{ "Uppercase_Letter", "Lu" },
};

static const char short_categories[] =
	" C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps "
				       "S Sc Sk Sm So Z Zl Zp Zs ";

static const char binary[] =
	" ASCII ASCII_Hex_Digit AHex Alphabetic Alpha Any Bidi_Control Bidi_C Bidi_Mirrored Bidi_M Case_Ignorable CI "
	"Cased Changes_When_Casefolded CWCF Changes_When_Casemapped CWCM Changes_When_Lowercased CWL "
	"Changes_When_Titlecased CWT Changes_When_Uppercased CWU Dash Default_Ignorable_Code_Point DI Deprecated Dep "
	"Diacritic Dia Emoji Emoji_Component EComp Emoji_Modifier EMod Emoji_Modifier_Base EBase Emoji_Presentation "
	"EPres Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base Grapheme_Extend Gr_Ext Hex_Digit Hex "
	"IDS_Binary_Operator IDSB IDS_Trinary_Operator IDST ID_Continue IDC ID_Start IDS Ideographic Ideo "
	"Join_Control Join_C Logical_Order_Exception LOE Lowercase Lower Math Noncharacter_Code_Point NChar "
	"Pattern_Syntax Pat_Syn Pattern_White_Space Pat_WS Quotation_Mark QMark Radical Regional_Indicator RI "
	"Sentence_Terminal STerm Soft_Dotted SD Terminal_Punctuation Term Unified_Ideograph UIdeo Uppercase Upper "
	"Variation_Selector VS White_Space space XID_Continue XIDC XID_Start XIDS ";

static bool is_word(const char *list, const char *word)
{
	char spaced[ECMA_PROPERTY_MAX + 2];

	(void)snprintf(spaced, sizeof(spaced), " %s ", word);
	return strstr(list, spaced) != NULL;
}

static bool category(const char *name, char ret[ECMA_PROPERTY_MAX])
{
	const char *found = is_word(short_categories, name) ? name : NULL;

	for (size_t i = 0; i < NELEMS(categories) && !found; i++)
		if (strcmp(categories[i].name, name) == 0)
			found = categories[i].pcre;
	if (found)
		(void)snprintf(ret, ECMA_PROPERTY_MAX, "%s", found);
	return found != NULL;
}

/* NAME=VALUE; PCRE2 knows the scripts and refuses what is none. */
static bool with_value(const char *name, const char *value, char ret[ECMA_PROPERTY_MAX])
{
	const char *kind = NULL;
	int n;

	if (strcmp(name, "General_Category") == 0 || strcmp(name, "gc") == 0)
		return category(value, ret);
	if (strcmp(name, "Script") == 0 || strcmp(name, "sc") == 0)
		kind = "sc";
	else if (strcmp(name, "Script_Extensions") == 0 || strcmp(name, "scx") == 0)
		kind = "scx";
	if (!kind || !*value)
		return false;
	n = snprintf(ret, ECMA_PROPERTY_MAX, "%s:%s", kind, value);
	return n < ECMA_PROPERTY_MAX;
}

/* Translate what stands in \p{...} to PCRE2's name for it; *negated is turned over where PCRE2 has only
 * the opposite.  False when ECMA-262 does not know the property. */
static bool ecma_property(const char *p, size_t len, char ret[ECMA_PROPERTY_MAX], bool *negated)
{
	char name[ECMA_PROPERTY_MAX], *value;

	if (!len || len >= sizeof(name))
		return false;
	for (size_t i = 0; i < len; i++)
		if (p[i] != '_' && p[i] != '=' && !(p[i] >= '0' && p[i] <= '9') &&
		    !((p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'z'))
			return false;
	memcpy(name, p, len);
	name[len] = '\0';
	value = strchr(name, '=');
	if (value) {
		*value++ = '\0';
		return with_value(name, value, ret);
	}
	if (strcmp(name, "Assigned") == 0) {
		*negated = !*negated;
		return category("Unassigned", ret);
	}
	if (category(name, ret))
		return true;
	(void)snprintf(ret, ECMA_PROPERTY_MAX, "%s", name);
	return is_word(binary, name);
}

/* --- the translation of a pattern */

#define NESTING_MAX 100         /* of groups */
#define GROUPS_MAX 200
#define REPEAT_MAX 65535        /* of PCRE2 */
#define TEXT_MAX (64u << 10)

/* What a quantifier would apply to. */
enum atom { ATOM_NONE, ATOM_ASSERTION, ATOM_REPEATED, ATOM_YES };

struct ecma {
	const char *p, *end;
	struct str *out;
	const char *why;
	enum atom atom;
	unsigned depth;
	bool assertion[NESTING_MAX];            /* the open groups: a lookaround? */
	unsigned ngroups;
	struct name names[GROUPS_MAX + 1];      /* of the groups by number; p NULL = none */
};

#define SPACES "\\t-\\r \\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}"
#define NOT_SPACES "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}" \
	"\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10ffff}"

static bool refuse(struct ecma *e, const char *why)
{
	e->why = why;
	return false;
}

static bool next_is(const struct ecma *e, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(e->end - e->p) >= n && memcmp(e->p, word, n) == 0;
}

static bool eat(struct ecma *e, const char *word)
{
	if (!next_is(e, word))
		return false;
	e->p += strlen(word);
	return true;
}

static bool is_alnum(uint32_t c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' && c < 0x80);
}

static bool is_surrogate(uint32_t c)
{
	return c >= 0xd800 && c <= 0xdfff;
}

static void put_code(struct ecma *e, uint32_t c)
{
	if (is_alnum(c))
		str_putc(e->out, (char)c);
	else
		str_printf(e->out, "\\x{%x}", (unsigned)c);
}

/* The pattern is valid UTF-8: it comes from a tree. */
static uint32_t take_char(struct ecma *e)
{
	const unsigned char *p = (const unsigned char *)e->p;
	size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
	uint32_t c = n == 1 ? *p : (uint32_t)*p & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3fu);
	e->p += n;
	return c;
}

/* ESCAPES THAT MEAN ONE CHARACTER */

static bool take_hex(struct ecma *e, unsigned digits, uint32_t *ret)
{
	uint32_t v = 0;

	if ((size_t)(e->end - e->p) < digits)
		return refuse(e, "hexadecimal digits are missing in an escape");
	while (digits--) {
		char c = *e->p++;
		const char *set = "0123456789abcdef", *at;

		if (c >= 'A' && c <= 'F')
			c = (char)(c | 0x20);
		at = c ? strchr(set, c) : NULL;
		if (!at)
			return refuse(e, "hexadecimal digits are missing in an escape");
		v = v << 4 | (uint32_t)(at - set);
	}
	*ret = v;
	return true;
}

/* Behind \u: four digits, two surrogates of them, or {digits}. */
static bool take_unicode(struct ecma *e, uint32_t *ret)
{
	const char *second;
	uint32_t low;

	if (eat(e, "{")) {
		const char *close = memchr(e->p, '}', (size_t)(e->end - e->p));
		size_t n = close ? (size_t)(close - e->p) : 0;

		if (!n || n > 8 || !take_hex(e, (unsigned)n, ret) || *ret > 0x10ffff)
			return refuse(e, "\\u{...} needs a code point up to 10FFFF");
		e->p++;
		return true;
	}
	if (!take_hex(e, 4, ret))
		return false;
	second = e->p;
	if (*ret < 0xd800 || *ret > 0xdbff || !eat(e, "\\u"))
		return true;
	if (!next_is(e, "{") && take_hex(e, 4, &low) && low >= 0xdc00 && low <= 0xdfff)
		*ret = 0x10000 + ((*ret - 0xd800) << 10) + (low - 0xdc00);
	else
		e->p = second;          /* a lone one; the next escape is judged on its own */
	e->why = NULL;
	return true;
}

static bool take_control(struct ecma *e, uint32_t *ret)
{
	if (e->p == e->end || !is_alnum((unsigned char)*e->p) || (*e->p >= '0' && *e->p <= '9'))
		return refuse(e, "\\c needs a letter");
	*ret = (uint32_t)*e->p++ & 31;
	return true;
}

/* Behind a backslash: an escape that stands for one character. */
static bool take_char_escape(struct ecma *e, uint32_t *ret)
{
	static const char letters[] = "tnvfr", codes[] = "\t\n\v\f\r";
	char c = *e->p++;
	const char *at = c ? strchr(letters, c) : NULL;

	if (at) {
		*ret = (uint32_t)codes[at - letters];
		return true;
	}
	switch (c) {
	case '0':
		*ret = 0;
		if (e->p < e->end && *e->p >= '0' && *e->p <= '9')
			return refuse(e, "octal escapes are not known");
		return true;
	case 'c':
		return take_control(e, ret);
	case 'x':
		return take_hex(e, 2, ret);
	case 'u':
		return take_unicode(e, ret);
	default:
		if (c <= ' ' || c == 0x7f || c == '_' || is_alnum((unsigned char)c))
			return refuse(e, "a backslash stands in front of a letter or digit that makes no escape "
				      "of ECMA-262");
		*ret = (unsigned char)c;
		return true;
	}
}

/* ESCAPES THAT MEAN A SET */

/* \p{...} and \P{...}, the letter has been read. */
static bool put_property(struct ecma *e, bool negated)
{
	const char *close = eat(e, "{") ? memchr(e->p, '}', (size_t)(e->end - e->p)) : NULL;
	char name[ECMA_PROPERTY_MAX];

	if (!close || !ecma_property(e->p, (size_t)(close - e->p), name, &negated))
		return refuse(e, "\\p needs {a property of ECMA-262}");
	str_printf(e->out, "\\%c{%s}", negated ? 'P' : 'p', name);
	e->p = close + 1;
	return true;
}

/* At a backslash: a set, written for the inside of a class when in_class.  *ret_is false: not a set. */
static bool put_set(struct ecma *e, bool in_class, bool *ret_is)
{
	char c = e->end - e->p < 2 ? '\0' : e->p[1];
	const char *open = in_class ? "" : "[", *close = in_class ? "" : "]";

	*ret_is = c && strchr("dDwWsSpP", c);
	if (!*ret_is)
		return true;
	e->p += 2;
	if (c == 'p' || c == 'P')
		return put_property(e, c == 'P');
	str_puts(e->out, open);
	if (c == 's' || c == 'S')
		str_puts(e->out, c == 's' ? SPACES : NOT_SPACES);
	else
		str_printf(e->out, "\\%c", c);  /* without PCRE2_UCP ASCII only, as in ECMA-262 */
	str_puts(e->out, close);
	return true;
}

/* CLASSES */

/* One member of a class; *ret_set when it was a set and has been written. */
static bool take_class_atom(struct ecma *e, uint32_t *ret, bool *ret_set)
{
	*ret_set = false;
	if (e->p == e->end)
		return refuse(e, "a class is not closed with ]");
	if (*e->p != '\\') {
		*ret = take_char(e);
		return true;
	}
	if (!put_set(e, true, ret_set))
		return false;
	if (*ret_set)
		return true;
	if (++e->p == e->end)
		return refuse(e, "the pattern ends with a backslash");
	if (*e->p == 'b') {
		e->p++;
		*ret = '\b';
		return true;
	}
	return take_char_escape(e, ret);
}

/* Texts have no surrogates, so in a class they match nothing; PCRE2 would refuse them. */
static void put_range(struct ecma *e, uint32_t from, uint32_t to)
{
	if (is_surrogate(from))
		from = 0xe000;
	if (is_surrogate(to))
		to = 0xd7ff;
	if (from > to)
		return;
	put_code(e, from);
	if (from == to)
		return;
	str_putc(e->out, '-');
	put_code(e, to);
}

static bool translate_class(struct ecma *e)
{
	uint32_t from = 0, to = 0;
	bool set = false, set_to = false;

	str_puts(e->out, eat(e, "^") ? "[^" : "[");
	while (!eat(e, "]")) {
		if (!take_class_atom(e, &from, &set))
			return false;
		if (!next_is(e, "-") || e->end - e->p < 2 || e->p[1] == ']') {
			if (!set)
				put_range(e, from, from);
			continue;
		}
		e->p++;
		if (!take_class_atom(e, &to, &set_to))
			return false;
		if (set || set_to)
			return refuse(e, "a set like \\w is the end of a range: write \\- for a hyphen");
		if (from > to)
			return refuse(e, "a range in a class is out of order");
		put_range(e, from, to);
	}
	str_putc(e->out, ']');
	e->atom = ATOM_YES;
	return true;
}

/* GROUPS AND REFERENCES */

/* The name up to '>', in front of which *p stands; steps behind it. */
static bool take_name(const char **p, const char *end, struct name *ret)
{
	const char *close = memchr(*p, '>', (size_t)(end - *p));

	if (!close || close == *p)
		return false;
	ret->p = *p;
	ret->len = (size_t)(close - *p);
	for (const char *c = *p; c < close; c++)
		if (!is_alnum((unsigned char)*c) && *c != '_' && *c != '$' && (unsigned char)*c < 0x80)
			return false;
	*p = close + 1;
	return *ret->p < '0' || *ret->p > '9';
}

static bool add_group(struct ecma *e, const char *p)
{
	struct name name = { NULL, 0 };

	if (++e->ngroups > GROUPS_MAX)
		return refuse(e, "more than 200 groups");
	if (*p == '?') {
		p += 2;
		if (!take_name(&p, e->end, &name))
			return refuse(e, "a group has no proper name");
		for (unsigned i = 1; i < e->ngroups; i++)
			if (e->names[i].p && schema_order_names(&e->names[i], &name) == 0)
				return refuse(e, "two groups have the same name");
	}
	e->names[e->ngroups] = name;
	return true;
}

/* Number the groups before anything is written: a reference may stand in front of its group. */
static bool number_groups(struct ecma *e)
{
	bool in_class = false;

	for (const char *p = e->p; p < e->end; p++) {
		size_t left = (size_t)(e->end - p);

		if (*p == '\\')
			p++;
		else if (in_class || *p == '[')
			in_class = *p != ']';
		else if (*p == '(' && left > 1 && (p[1] != '?' ||
						   (left > 3 && p[2] == '<' && p[3] != '=' && p[3] != '!')))
			if (!add_group(e, p + 1))
				return false;
	}
	return true;
}

static bool open_group(struct ecma *e)
{
	static const char *const kinds[] = { "?:", "?=", "?!", "?<=", "?<!" };
	struct name name;
	size_t i = 0;

	if (e->depth == NESTING_MAX)
		return refuse(e, "groups are nested deeper than 100 levels");
	str_putc(e->out, '(');
	while (i < sizeof(kinds) / sizeof(*kinds) && !next_is(e, kinds[i]))
		i++;
	e->assertion[e->depth++] = i > 0 && i < sizeof(kinds) / sizeof(*kinds);
	e->atom = ATOM_NONE;
	if (i < sizeof(kinds) / sizeof(*kinds)) {
		str_puts(e->out, kinds[i]);
		e->p += strlen(kinds[i]);
		return true;
	}
	if (eat(e, "?<"))
		return take_name(&e->p, e->end, &name) || refuse(e, "a group has no proper name");
	return !next_is(e, "?") || refuse(e, "a kind of group that ECMA-262 does not know");
}

static bool close_group(struct ecma *e)
{
	if (!e->depth)
		return refuse(e, "a ) has no (");
	str_putc(e->out, ')');
	e->atom = e->assertion[--e->depth] ? ATOM_ASSERTION : ATOM_YES;
	return true;
}

static bool put_reference(struct ecma *e, unsigned number)
{
	str_printf(e->out, "\\g{%u}", number);
	e->atom = ATOM_YES;
	return true;
}

static bool named_reference(struct ecma *e)
{
	struct name name;

	if (eat(e, "<") && take_name(&e->p, e->end, &name))
		for (unsigned i = 1; i <= e->ngroups; i++)
			if (e->names[i].p && schema_order_names(&e->names[i], &name) == 0)
				return put_reference(e, i);
	return refuse(e, "\\k needs the <name> of a group");
}

static bool numbered_reference(struct ecma *e)
{
	unsigned n = 0;

	while (e->p < e->end && *e->p >= '0' && *e->p <= '9' && n <= GROUPS_MAX)
		n = n * 10 + (unsigned)(*e->p++ - '0');
	return n <= e->ngroups ? put_reference(e, n) : refuse(e, "a reference to a group that is not there");
}

/* THE REST */

static bool translate_escape(struct ecma *e)
{
	bool is_set;
	uint32_t c = 0;

	if (!put_set(e, false, &is_set))
		return false;
	e->atom = ATOM_YES;
	if (is_set)
		return true;
	if (++e->p == e->end)
		return refuse(e, "the pattern ends with a backslash");
	if (*e->p == 'b' || *e->p == 'B') {
		str_printf(e->out, "\\%c", *e->p++);
		e->atom = ATOM_ASSERTION;
		return true;
	}
	if (*e->p >= '1' && *e->p <= '9')
		return numbered_reference(e);
	if (eat(e, "k"))
		return named_reference(e);
	if (!take_char_escape(e, &c))
		return false;
	if (is_surrogate(c))
		str_puts(e->out, "(?!)");       /* no text has one */
	else
		put_code(e, c);
	return true;
}

static bool take_count(struct ecma *e, unsigned *ret)
{
	const char *from = e->p;
	unsigned n = 0;

	for (; e->p < e->end && *e->p >= '0' && *e->p <= '9'; e->p++)
		n = n > REPEAT_MAX ? n : n * 10 + (unsigned)(*e->p - '0');
	*ret = n;
	return e->p > from;
}

/* Behind '{': n}, n,} or n,m}. */
static bool translate_braces(struct ecma *e)
{
	unsigned min, max;
	bool open = false;

	if (!take_count(e, &min))
		return refuse(e, "a { needs a backslash in front or counts behind it");
	max = min;
	if (eat(e, ","))
		open = !take_count(e, &max);
	if (!eat(e, "}"))
		return refuse(e, "a { needs a backslash in front or counts behind it");
	if (min > REPEAT_MAX || max > REPEAT_MAX)
		return refuse(e, "a count of repetitions is above 65535");
	if (open)
		str_printf(e->out, "{%u,}", min);
	else if (min > max)
		return refuse(e, "counts of repetitions are out of order");
	else
		str_printf(e->out, "{%u,%u}", min, max);
	return true;
}

static bool translate_quantifier(struct ecma *e)
{
	char c = *e->p++;

	if (e->atom != ATOM_YES)
		return refuse(e, "there is nothing to repeat");
	if (c != '{')
		str_putc(e->out, c);
	else if (!translate_braces(e))
		return false;
	if (eat(e, "?"))
		str_putc(e->out, '?');
	e->atom = ATOM_REPEATED;
	return true;
}

static bool translate_one(struct ecma *e)
{
	switch (*e->p) {
	case '\\':
		return translate_escape(e);
	case '*':
	case '+':
	case '?':
	case '{':
		return translate_quantifier(e);
	case '[':
		e->p++;
		return translate_class(e);
	case '(':
		e->p++;
		return open_group(e);
	case ')':
		e->p++;
		return close_group(e);
	case ']':
	case '}':
		return refuse(e, "a ] or } needs a backslash in front");
	case '^':
	case '$':
		str_putc(e->out, *e->p++);
		e->atom = ATOM_ASSERTION;
		return true;
	case '|':
		str_putc(e->out, *e->p++);
		e->atom = ATOM_NONE;
		return true;
	case '.':
		e->p++;
		str_puts(e->out, ECMA_DOT);
		e->atom = ATOM_YES;
		return true;
	default:
		put_code(e, take_char(e));
		e->atom = ATOM_YES;
		return true;
	}
}

bool regex_translate(const char *p, size_t len, struct str *out, const char **ret_why)
{
	struct ecma e = { .p = p, .end = p + len, .out = out };
	bool ok = number_groups(&e);

	out->max = TEXT_MAX;
	while (ok && e.p < e.end)
		ok = translate_one(&e);
	if (ok && e.depth)
		ok = refuse(&e, "a ( has no )");
	if (ok && out->failed)
		ok = refuse(&e, "too long once translated");
	*ret_why = e.why;
	return ok;
}
