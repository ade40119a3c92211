/* Formats: dates and times, addresses and URIs, names of hosts, and the table of all.  A name that is not in the table
 * is an annotation, whoever asks.  Each format reads the whole text or refuses it; nothing is skipped, trimmed or
 * guessed, and none costs more than a few passes over the text. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "schema_int.h"

/* The formats behind the table of format.c.  Each reads the whole text or refuses it; nothing is skipped,
 * trimmed or guessed, and no format costs more than a few passes over the text. */

/* What is left to read. */
struct cursor { const char *p, *end; };

static inline bool cursor_eat(struct cursor *c, char what)
{
	if (c->p == c->end || *c->p != what)
		return false;
	c->p++;
	return true;
}

static inline bool format_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool format_is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool format_is_hex(char c)
{
	return format_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

typedef bool format_fn(const char *p, size_t len);

/* Names of hosts, looked at with the eyes of IDNA 2008 (RFC 5891): patterns for one label. */
struct idna {
	const struct regex *label;      /* code points and their context (RFC 5892) */
	const struct regex *bidi;       /* is there something that is written from right to left? */
	const struct regex *order;      /* the rule for each label then (RFC 5893) */
};

/* --- Dates and times of RFC 3339, durations of its appendix A. */

/* Exactly n digits. */
static bool take_number(struct cursor *c, int n, int *ret)
{
	*ret = 0;
	for (; n; n--, c->p++) {
		if (c->p == c->end || !format_is_digit(*c->p))
			return false;
		*ret = *ret * 10 + (*c->p - '0');
	}
	return true;
}

static bool take_date(struct cursor *c)
{
	static const int days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int year, month, day;
	bool leap;

	if (!take_number(c, 4, &year) || !cursor_eat(c, '-') || !take_number(c, 2, &month) || !cursor_eat(c, '-') ||
	    !take_number(c, 2, &day) || month < 1 || month > 12 || day < 1 || day > days[month - 1])
		return false;
	leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return month != 2 || day < 29 || leap;
}

/* Minutes that the local time is ahead of UTC. */
static bool take_offset(struct cursor *c, int *ret)
{
	int hour, minute, sign = 1;

	*ret = 0;
	if (cursor_eat(c, 'Z') || cursor_eat(c, 'z'))
		return true;
	if (cursor_eat(c, '-'))
		sign = -1;
	else if (!cursor_eat(c, '+'))
		return false;
	if (!take_number(c, 2, &hour) || !cursor_eat(c, ':') || !take_number(c, 2, &minute) || hour > 23 || minute > 59)
		return false;
	*ret = sign * (hour * 60 + minute);
	return true;
}

static bool take_time(struct cursor *c)
{
	const int day = 24 * 60;
	int hour, minute, second, offset;

	if (!take_number(c, 2, &hour) || !cursor_eat(c, ':') || !take_number(c, 2, &minute) || !cursor_eat(c, ':') ||
	    !take_number(c, 2, &second) || hour > 23 || minute > 59 || second > 60)
		return false;
	if (cursor_eat(c, '.')) {
		const char *from = c->p;

		while (c->p < c->end && format_is_digit(*c->p))
			c->p++;
		if (c->p == from)
			return false;
	}
	if (!take_offset(c, &offset))
		return false;
	/* A leap second ends a day of UTC. */
	return second < 60 || (hour * 60 + minute - offset + day) % day == day - 1;
}

static bool format_date(const char *p, size_t len)
{
	struct cursor c = { p, p + len };

	return take_date(&c) && c.p == c.end;
}

static bool format_time(const char *p, size_t len)
{
	struct cursor c = { p, p + len };

	return take_time(&c) && c.p == c.end;
}

static bool format_date_time(const char *p, size_t len)
{
	struct cursor c = { p, p + len };

	return take_date(&c) && (cursor_eat(&c, 'T') || cursor_eat(&c, 't')) && take_time(&c) && c.p == c.end;
}

/* Numbers with the units in their order, none left out between two; true when there is none, too. */
static bool take_units(struct cursor *c, const char *units)
{
	const char *last = NULL;

	while (c->p < c->end && format_is_digit(*c->p)) {
		const char *unit;

		while (c->p < c->end && format_is_digit(*c->p))
			c->p++;
		unit = c->p < c->end && *c->p ? strchr(units, *c->p) : NULL;
		if (!unit || (last && unit != last + 1))
			return false;
		last = unit;
		c->p++;
	}
	return true;
}

static bool format_duration(const char *p, size_t len)
{
	struct cursor c = { p, p + len }, weeks;

	/* Something must follow P, and T as well. */
	if (!cursor_eat(&c, 'P') || c.p == c.end)
		return false;
	weeks = c;
	if (take_units(&weeks, "W") && weeks.p == weeks.end)
		return true;
	if (!take_units(&c, "YMD"))
		return false;
	if (c.p == c.end)
		return true;
	return cursor_eat(&c, 'T') && c.p < c.end && take_units(&c, "HMS") && c.p == c.end;
}

/* --- Addresses: IPv4 and IPv6, URI (RFC 3986), IRI (RFC 3987) and URI templates (RFC 6570). */

/* IP */

static bool take_octet(struct cursor *c)
{
	const char *from = c->p;
	unsigned n = 0;

	while (c->p < c->end && format_is_digit(*c->p) && c->p - from < 3)
		n = n * 10 + (unsigned)(*c->p++ - '0');
	return c->p > from && n <= 255 && (*from != '0' || c->p - from == 1);
}

static bool format_ipv4(const char *p, size_t len)
{
	struct cursor c = { p, p + len };

	for (int i = 0; i < 4; i++)
		if ((i && !cursor_eat(&c, '.')) || !take_octet(&c))
			return false;
	return c.p == c.end;
}

static bool format_ipv6(const char *p, size_t len)
{
	struct cursor c = { p, p + len };
	int groups = 0;
	bool gap = false;

	if (len >= 2 && p[0] == ':' && p[1] == ':') {
		gap = true;
		c.p += 2;
	}
	while (c.p < c.end) {
		const char *from = c.p;

		while (c.p < c.end && format_is_hex(*c.p))
			c.p++;
		if (c.p < c.end && *c.p == '.') {
			groups += 2;
			return (gap ? groups <= 7 : groups == 8) && format_ipv4(from, (size_t)(c.end - from));
		}
		if (c.p == from || c.p - from > 4 || ++groups > 8)
			return false;
		if (c.p == c.end)
			break;
		if (!cursor_eat(&c, ':') || c.p == c.end)
			return false;
		if (cursor_eat(&c, ':')) {
			if (gap)
				return false;
			gap = true;
		}
	}
	return gap ? groups <= 7 : groups == 8;
}

/* URI AND IRI */

#define UNRESERVED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
#define SUB_DELIMS "!$&'()*+,;="

/* ucschar of RFC 3987, with private use where that is allowed: the query. */
static bool take_wide(struct cursor *c, bool private)
{
	const unsigned char *p = (const unsigned char *)c->p;
	size_t n = *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
	uint32_t code = (uint32_t)*p & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		code = code << 6 | (p[i] & 0x3fu);
	c->p += n;
	if (code < 0xa0 || (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe)
		return false;
	if ((code >= 0xe000 && code <= 0xf8ff) || code >= 0xf0000)
		return private;
	return code < 0xfff0 || code > 0xffff;
}

/* Characters of the set, %xx, and with wide those beyond ASCII. */
static bool take_chars(struct cursor *c, const char *set, bool wide, bool private)
{
	while (c->p < c->end) {
		if ((unsigned char)*c->p >= 0x80) {
			if (!wide || !take_wide(c, private))
				return false;
		} else if (*c->p == '%') {
			if (c->end - c->p < 3 || !format_is_hex(c->p[1]) || !format_is_hex(c->p[2]))
				return false;
			c->p += 3;
		} else if (*c->p && strchr(set, *c->p)) {
			c->p++;
		} else {
			return false;
		}
	}
	return true;
}

static bool all_chars(const char *p, const char *end, const char *set, bool wide, bool private)
{
	struct cursor c = { p, end };

	return take_chars(&c, set, wide, private);
}

/* Behind '[': IPv6, or v1.anything of a future. */
static bool is_ip_literal(const char *p, const char *end)
{
	const char *dot;

	if (p == end || (*p | 0x20) != 'v')
		return format_ipv6(p, (size_t)(end - p));
	dot = memchr(p, '.', (size_t)(end - p));
	if (!dot || dot == p + 1 || dot + 1 == end || memchr(dot, '%', (size_t)(end - dot)))
		return false;
	for (const char *h = p + 1; h < dot; h++)
		if (!format_is_hex(*h))
			return false;
	return all_chars(dot + 1, end, UNRESERVED SUB_DELIMS ":", false, false);
}

static bool is_authority(const char *p, const char *end, bool wide)
{
	const char *at = memchr(p, '@', (size_t)(end - p)), *host = at ? at + 1 : p, *port;

	if (at && !all_chars(p, at, UNRESERVED SUB_DELIMS ":", wide, false))
		return false;
	if (host < end && *host == '[') {
		const char *close = memchr(host, ']', (size_t)(end - host));

		if (!close || !is_ip_literal(host + 1, close))
			return false;
		port = close + 1;
	} else {
		port = memchr(host, ':', (size_t)(end - host));
		if (!port)
			port = end;
		if (!all_chars(host, port, UNRESERVED SUB_DELIMS, wide, false))
			return false;
	}
	if (port == end)
		return true;
	if (*port != ':')
		return false;
	while (++port < end)
		if (!format_is_digit(*port))
			return false;
	return true;
}

static const char *until(const char *p, const char *end, const char *stop)
{
	while (p < end && !(*p && strchr(stop, *p)))
		p++;
	return p;
}

static bool is_reference(const char *p, size_t len, bool wide, bool absolute)
{
	const char *end = p + len, *stop = until(p, end, ":/?#");
	bool scheme = stop < end && *stop == ':';

	if (scheme) {
		if (stop == p || !format_is_alpha(*p))
			return false;
		for (; p < stop; p++)
			if (!format_is_alpha(*p) && !format_is_digit(*p) && !strchr("+-.", *p))
				return false;
		p++;
	}
	if (absolute && !scheme)
		return false;
	if (end - p >= 2 && p[0] == '/' && p[1] == '/') {
		stop = until(p + 2, end, "/?#");
		if (!is_authority(p + 2, stop, wide))
			return false;
		p = stop;
	}
	stop = until(p, end, "?#");
	if (!all_chars(p, stop, UNRESERVED SUB_DELIMS ":@/", wide, false))
		return false;
	p = stop;
	if (p < end && *p == '?') {
		stop = until(p, end, "#");
		if (!all_chars(p + 1, stop, UNRESERVED SUB_DELIMS ":@/?", wide, wide))
			return false;
		p = stop;
	}
	return p == end || all_chars(p + 1, end, UNRESERVED SUB_DELIMS ":@/?", wide, false);
}

static bool format_uri(const char *p, size_t len)
{
	return is_reference(p, len, false, true);
}

static bool format_uri_reference(const char *p, size_t len)
{
	return is_reference(p, len, false, false);
}

static bool format_iri(const char *p, size_t len)
{
	return is_reference(p, len, true, true);
}

static bool format_iri_reference(const char *p, size_t len)
{
	return is_reference(p, len, true, false);
}

/* TEMPLATES */

static bool take_variable(struct cursor *c)
{
	bool dot = true;        /* not at the begin, nor behind another */
	int digits = 0;

	for (; c->p < c->end; c->p++) {
		if (*c->p == '.' && !dot) {
			dot = true;
			continue;
		}
		if (*c->p == '%' && c->end - c->p >= 3 && format_is_hex(c->p[1]) && format_is_hex(c->p[2]))
			c->p += 2;
		else if (!format_is_alpha(*c->p) && !format_is_digit(*c->p) && *c->p != '_')
			break;
		dot = false;
	}
	if (dot)
		return false;
	if (cursor_eat(c, '*'))
		return true;
	if (!cursor_eat(c, ':'))
		return true;
	if (c->p == c->end || *c->p == '0')
		return false;
	for (; c->p < c->end && format_is_digit(*c->p); c->p++)
		digits++;
	return digits >= 1 && digits <= 4;
}

static bool is_expression(const char *p, const char *end)
{
	struct cursor c = { p, end };

	if (p < end && *p && strchr("+#./;?&=,!@|", *p) && *p != ',')
		c.p++;
	do {
		if (!take_variable(&c))
			return false;
	} while (cursor_eat(&c, ','));
	return c.p == c.end;
}

static bool format_uri_template(const char *p, size_t len)
{
	const char *end = p + len;

	while (p < end) {
		const char *close;

		if (*p == '%') {
			if (end - p < 3 || !format_is_hex(p[1]) || !format_is_hex(p[2]))
				return false;
			p += 3;
		} else if (*p == '{') {
			close = memchr(p, '}', (size_t)(end - p));
			if (!close || !is_expression(p + 1, close))
				return false;
			p = close + 1;
		} else if ((unsigned char)*p <= 0x20 || *p == 0x7f || strchr("\"<>\\^`|}", *p)) {
			return false;
		} else {
			p++;
		}
	}
	return true;
}

/* --- Names of hosts */

/* The syntax of DNS, and labels with other characters than ASCII by IDNA 2008.  The tables of Unicode are PCRE2's:
 * what a label may hold is one pattern, so is the rule for mixed directions.  Compatibility characters are left out
 * by their blocks, not by their decompositions. */

#define NAME_MAX_BYTES 253
#define LABEL_MAX 63

/* RFC 5892 2: letters, digits and marks that keep their form, with the exceptions of 2.6; those that need
 * a context (appendix A) stand with it. */
#define VIRAMA "\\x{94d}\\x{9cd}\\x{a4d}\\x{acd}\\x{b4d}\\x{bcd}\\x{c4d}\\x{ccd}\\x{d3b}\\x{d3c}\\x{d4d}\\x{dca}" \
	"\\x{e3a}\\x{eba}\\x{f84}\\x{1039}\\x{103a}\\x{1714}\\x{1734}\\x{17d2}\\x{1a60}\\x{1b44}\\x{1baa}\\x{1bab}" \
	"\\x{1bf2}\\x{1bf3}\\x{2d7f}\\x{a806}\\x{a8c4}\\x{a953}\\x{a9c0}\\x{aaf6}\\x{abed}\\x{10a3f}\\x{11046}" \
	"\\x{1107f}\\x{110b9}\\x{11133}\\x{11134}\\x{111c0}\\x{11235}\\x{112ea}\\x{1134d}\\x{11442}\\x{114c2}"
#define NEVER "\\x{640}\\x{7fa}\\x{302e}\\x{302f}\\x{3031}-\\x{3035}\\x{303b}\\x{1100}-\\x{11ff}\\x{a960}-\\x{a97f}" \
	"\\x{d7b0}-\\x{d7ff}\\x{f900}-\\x{faff}\\x{fb00}-\\x{fdff}\\x{fe70}-\\x{ffef}\\x{b7}\\x{375}\\x{5f3}\\x{5f4}" \
	"\\x{30fb}\\x{200c}\\x{200d}"
#define JOINING "[\\p{sc:Arabic}\\p{sc:Syriac}\\p{sc:Mongolian}\\p{sc:Nko}\\p{sc:Mandaic}\\p{sc:Manichaean}]"
#define LABEL "^(?!\\p{M}|-|..--)(?!.*-$)(?!(?!.*[\\p{sc:Hiragana}\\p{sc:Katakana}\\p{sc:Han}]).*\\x{30fb})" \
	"(?!.*[\\x{660}-\\x{669}].*[\\x{6f0}-\\x{6f9}])(?!.*[\\x{6f0}-\\x{6f9}].*[\\x{660}-\\x{669}])" \
	"(?:[-\\x{df}\\x{3c2}\\x{6fd}\\x{6fe}\\x{f0b}\\x{3007}\\x{30fb}]" \
	"|(?![" NEVER "])[\\p{Ll}\\p{Lo}\\p{Lm}\\p{Mn}\\p{Mc}\\p{Nd}]" \
	"|(?<=l)\\x{b7}(?=l)|\\x{375}(?=\\p{sc:Greek})|(?<=\\p{sc:Hebrew})[\\x{5f3}\\x{5f4}]" \
	"|(?<=[" VIRAMA "])[\\x{200c}\\x{200d}]|(?<=" JOINING ")\\x{200c}(?=" JOINING "))+$"

/* RFC 5893 2: a name with something from right to left in it. */
#define BC(c) "\\p{bc:" c "}"
#define WEAK BC("EN") BC("ES") BC("CS") BC("ET") BC("ON") BC("BN") BC("NSM")
#define BIDI "[" BC("R") BC("AL") BC("AN") "]"
#define ORDER "^(?:" \
	"(?!.*" BC("EN") ".*" BC("AN") ")(?!.*" BC("AN") ".*" BC("EN") ")(?=[" BC("R") BC("AL") "])" \
	"[" BC("R") BC("AL") BC("AN") WEAK "]*[" BC("R") BC("AL") BC("EN") BC("AN") "]" BC("NSM") "*" \
	"|(?=" BC("L") ")[" BC("L") WEAK "]*[" BC("L") BC("EN") "]" BC("NSM") "*)$"

static int idna_compile(struct arena *mem, const struct idna **ret, struct err *err)
{
	struct idna *idna = arena_alloc(mem, sizeof(*idna));
	int rc;

	if (!idna)
		return err_set(err, ERR_LIMIT, "", "the compiled schema is too large");
	rc = regex_compile_pcre(mem, LABEL, &idna->label, err);
	if (!rc)
		rc = regex_compile_pcre(mem, BIDI, &idna->bidi, err);
	if (!rc)
		rc = regex_compile_pcre(mem, ORDER, &idna->order, err);
	*ret = idna;
	return rc;
}

static bool is_ascii(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)p[i] >= 0x80)
			return false;
	return true;
}

/* Letters, digits and hyphens, none at an end. */
static bool is_ascii_label(const char *p, size_t len, bool wide)
{
	if (!len || len > LABEL_MAX || p[0] == '-' || p[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!format_is_alpha(p[i]) && !format_is_digit(p[i]) && p[i] != '-' &&
		    !(wide && (unsigned char)p[i] >= 0x80))
			return false;
	return true;
}

/* The syntax of names in ASCII; with wide, any other character is taken as it is. */
static bool format_dns_name(const char *p, size_t len, bool wide)
{
	const char *end = p + len;

	if (!len || len > NAME_MAX_BYTES)
		return false;
	for (;;) {
		const char *dot = memchr(p, '.', (size_t)(end - p));

		if (!is_ascii_label(p, (size_t)((dot ? dot : end) - p), wide))
			return false;
		if (!dot)
			return true;
		p = dot + 1;
	}
}

/* PUNYCODE (RFC 3492) */

#define BASE 36
#define SKEW 38
#define FIRST_BIAS 72
#define FIRST_CODE 128

static uint32_t adapt(uint32_t delta, uint32_t points, bool first)
{
	uint32_t k = 0;

	delta = first ? delta / 700 : delta / 2;
	for (delta += delta / points; delta > 455; delta /= 35)
		k += BASE;
	return k + 36 * delta / (delta + SKEW);
}

static uint32_t threshold(uint32_t k, uint32_t bias)
{
	return k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
}

static int digit_value(char c)
{
	if (format_is_digit(c))
		return c - '0' + 26;
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'z' ? c - 'a' : -1;
}

/* What stands behind xn--, as at most LABEL_MAX code points; 0 = not Punycode. */
static size_t decode(const char *p, size_t len, uint32_t ret[LABEL_MAX])
{
	const char *end = p + len, *hyphen = memrchr(p, '-', len);
	uint32_t code = FIRST_CODE, bias = FIRST_BIAS, i = 0;
	size_t n = 0;

	for (; hyphen && p < hyphen; p++)
		ret[n++] = (unsigned char)*p;
	if (hyphen)
		p++;
	while (p < end) {
		uint32_t before = i, weight = 1;

		for (uint32_t k = BASE;; k += BASE) {
			int digit = p < end ? digit_value(*p++) : -1;
			uint32_t t = threshold(k, bias);

			if (digit < 0 || (uint32_t)digit > (UINT32_MAX / 2 - i) / weight)
				return 0;
			i += (uint32_t)digit * weight;
			if ((uint32_t)digit < t)
				break;
			if (weight > UINT32_MAX / 2 / (BASE - t))
				return 0;
			weight *= BASE - t;
		}
		if (n == LABEL_MAX)
			return 0;
		bias = adapt(i - before, (uint32_t)++n, before == 0);
		code += i / (uint32_t)n;
		i %= (uint32_t)n;
		if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
			return 0;
		memmove(&ret[i + 1], &ret[i], (n - 1 - i) * sizeof(*ret));
		ret[i++] = code;
	}
	return n;
}

static void put_variable(struct str *out, uint32_t delta, uint32_t bias)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";

	for (uint32_t k = BASE;; k += BASE) {
		uint32_t t = threshold(k, bias);

		if (delta < t)
			break;
		str_putc(out, digits[t + (delta - t) % (BASE - t)]);
		delta = (delta - t) / (BASE - t);
	}
	str_putc(out, digits[delta]);
}

/* The label's form in ASCII without xn--; n <= LABEL_MAX. */
static void encode(const uint32_t *p, size_t n, struct str *out)
{
	uint32_t code = FIRST_CODE, bias = FIRST_BIAS, delta = 0;
	uint32_t done = 0, basic;

	for (size_t i = 0; i < n; i++)
		if (p[i] < 0x80)
			str_putc(out, (char)p[i]);
	basic = done = (uint32_t)out->len;
	if (basic)
		str_putc(out, '-');
	while (done < n) {
		uint32_t next = UINT32_MAX;

		for (size_t i = 0; i < n; i++)
			if (p[i] >= code && p[i] < next)
				next = p[i];
		delta += (next - code) * (done + 1);
		code = next;
		for (size_t i = 0; i < n; i++) {
			if (p[i] < code)
				delta++;
			if (p[i] != code)
				continue;
			put_variable(out, delta, bias);
			bias = adapt(delta, done + 1, done == basic);
			delta = 0;
			done++;
		}
		delta++;
		code++;
	}
}

/* LABELS */

static void put_utf8(struct str *out, uint32_t c)
{
	if (c < 0x80) {
		str_putc(out, (char)c);
		return;
	}
	if (c < 0x800) {
		str_putc(out, (char)(0xc0 | c >> 6));
	} else {
		if (c < 0x10000) {
			str_putc(out, (char)(0xe0 | c >> 12));
		} else {
			str_putc(out, (char)(0xf0 | c >> 18));
			str_putc(out, (char)(0x80 | (c >> 12 & 0x3f)));
		}
		str_putc(out, (char)(0x80 | (c >> 6 & 0x3f)));
	}
	str_putc(out, (char)(0x80 | (c & 0x3f)));
}

/* Valid UTF-8 to code points; 0 when there are more than a label may have. */
static size_t take_codes(const char *p, size_t len, uint32_t ret[LABEL_MAX])
{
	size_t n = 0;

	for (const char *end = p + len; p < end; n++) {
		size_t bytes = (unsigned char)*p < 0x80 ? 1 : (unsigned char)*p < 0xe0 ? 2 : (unsigned char)*p < 0xf0
			? 3 : 4;

		if (n == LABEL_MAX)
			return 0;
		ret[n] = bytes == 1 ? (unsigned char)*p : (unsigned char)*p & (0x7fu >> bytes);
		for (size_t i = 1; i < bytes; i++)
			ret[n] = ret[n] << 6 | ((unsigned char)p[i] & 0x3fu);
		p += bytes;
	}
	return n;
}

struct host {
	const struct idna *idna;
	struct regex_room **room;
	size_t *steps;
	size_t ascii;                   /* bytes of the name's form in ASCII */
	bool bidi;
	struct str labels;              /* in Unicode, each with a line feed behind */
};

static bool matches(struct host *h, const struct regex *re, const char *p, size_t len)
{
	return regex_match(re, p, len, h->room, h->steps) == 1;
}

static bool is_label(struct host *h, const char *p, size_t len)
{
	uint32_t codes[LABEL_MAX];
	struct str text = STR_INIT, ascii = STR_INIT;
	bool xn = len >= 4 && strncasecmp(p, "xn--", 4) == 0, wide = !is_ascii(p, len), ok;
	size_t n;

	if (!xn && !wide) {
		h->ascii += len;
		str_put(&h->labels, p, len);
		str_putc(&h->labels, '\n');
		return is_ascii_label(p, len, false);
	}
	n = xn ? (wide || len > LABEL_MAX ? 0 : decode(p + 4, len - 4, codes)) : take_codes(p, len, codes);
	for (size_t i = 0; i < n; i++)
		put_utf8(&text, codes[i]);
	encode(codes, n, &ascii);
	/* An A-label is the one that its U-label turns into. */
	ok = n > 0 && ascii.len + 4 <= LABEL_MAX && !is_ascii(text.p, text.len) &&
	     (!xn || (ascii.len == len - 4 && strncasecmp(ascii.p, p + 4, ascii.len) == 0)) &&
	     matches(h, h->idna->label, text.p, text.len);
	if (ok) {
		h->ascii += ascii.len + 4;
		h->bidi = h->bidi || matches(h, h->idna->bidi, text.p, text.len);
		str_put(&h->labels, text.p, text.len);
		str_putc(&h->labels, '\n');
	}
	str_fini(&text);
	str_fini(&ascii);
	return ok;
}

static bool in_order(struct host *h)
{
	const char *p = h->labels.p, *end;

	for (; (end = strchr(p, '\n')); p = end + 1)
		if (!matches(h, h->idna->order, p, (size_t)(end - p)))
			return false;
	return true;
}

/* Bytes of a full stop at p: '.', or with wide one of U+3002 U+FF0E U+FF61. */
static size_t stop_size(const char *p, const char *end, bool wide)
{
	if (*p == '.')
		return 1;
	return wide && end - p >= 3 && (memcmp(p, "\xe3\x80\x82", 3) == 0 || memcmp(p, "\xef\xbc\x8e", 3) == 0 ||
		memcmp(p, "\xef\xbd\xa1", 3) == 0) ? 3 : 0;
}

/* wide: U-labels and the full stops of IDNA 2003 may come too, else A-labels only. */
static bool idna_check(const struct idna *idna, const char *p, size_t len, bool wide, struct regex_room **room,
		size_t *steps)
{
	struct host h = { .idna = idna, .room = room, .steps = steps, .labels = STR_INIT };
	const char *end = p + len, *from = p;
	bool ok = len <= (size_t)NAME_MAX_BYTES * 4 && (wide || is_ascii(p, len));

	for (; ok && p < end; p++) {
		size_t stop = stop_size(p, end, wide);

		if (!stop)
			continue;
		ok = is_label(&h, from, (size_t)(p - from));
		h.ascii++;
		from = p + stop;
		p += stop - 1;
	}
	ok = ok && from < end && is_label(&h, from, (size_t)(end - from)) && h.ascii <= NAME_MAX_BYTES &&
	     (!h.bidi || in_order(&h));
	str_fini(&h.labels);
	return ok;
}

/* --- the table of formats */

#define LOCAL_MAX 64            /* bytes in front of the @ (RFC 5321 4.5.3.1.1) */

static bool is_uuid(const char *p, size_t len)
{
	if (len != 36)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;

		if (hyphen ? p[i] != '-' : !format_is_hex(p[i]))
			return false;
	}
	return true;
}

/* RFC 6901. */
static bool is_pointer(const char *p, size_t len)
{
	if (len && *p != '/')
		return false;
	for (size_t i = 0; i < len; i++)
		if (p[i] == '~' && (i + 1 == len || (p[i + 1] != '0' && p[i + 1] != '1')))
			return false;
	return true;
}

static bool is_relative_pointer(const char *p, size_t len)
{
	struct cursor c = { p, p + len };

	while (c.p < c.end && format_is_digit(*c.p))
		c.p++;
	if (c.p == p || (*p == '0' && c.p > p + 1))
		return false;
	return (c.end - c.p == 1 && *c.p == '#') || is_pointer(c.p, (size_t)(c.end - c.p));
}

static bool is_regex(const char *p, size_t len)
{
	struct str text = STR_INIT;
	const char *why;
	bool ok = regex_translate(p, len, &text, &why);

	str_fini(&text);
	return ok;
}

/* EMAIL (RFC 5321 4.1.2, RFC 6531) */

static bool is_quoted(const char *p, const char *end, bool wide)
{
	for (p++, end--; p < end; p++) {
		if (*p == '\\' && ++p == end)
			return false;
		if ((unsigned char)*p < 0x20 || *p == 0x7f || (*p == '"' && p[-1] != '\\') ||
		    ((unsigned char)*p >= 0x80 && !wide))
			return false;
	}
	return true;
}

static bool is_local(const char *p, const char *end, bool wide)
{
	bool dot = true;

	if (end - p > LOCAL_MAX)
		return false;
	if (end - p >= 2 && *p == '"' && end[-1] == '"')
		return is_quoted(p, end, wide);
	for (; p < end; p++) {
		if (*p == '.' && dot)
			return false;
		dot = *p == '.';
		if (!dot && !format_is_alpha(*p) && !format_is_digit(*p) && !((unsigned char)*p >= 0x80 && wide) &&
		    !(*p > 0 && strchr("!#$%&'*+-/=?^_`{|}~", *p)))
			return false;
	}
	return !dot;
}

static bool is_mailbox(const char *p, size_t len, bool wide)
{
	const char *at = memrchr(p, '@', len), *end = p + len;

	if (!at || !is_local(p, at, wide))
		return false;
	p = at + 1;
	if (end - p > 2 && *p == '[' && end[-1] == ']') {
		p++;
		if (end - p > 5 && strncasecmp(p, "IPv6:", 5) == 0)
			return format_ipv6(p + 5, (size_t)(end - p) - 6);
		return format_ipv4(p, (size_t)(end - p) - 1);
	}
	return format_dns_name(p, (size_t)(end - p), wide);
}

static bool is_email(const char *p, size_t len)
{
	return is_mailbox(p, len, false);
}

static bool is_idn_email(const char *p, size_t len)
{
	return is_mailbox(p, len, true);
}

/* THE TABLE */

enum host_form { NO_HOST, HOST, IDN_HOST };

static const struct row {
	const char *name, *words;
	format_fn *is;
	enum host_form host;
} rows[] = {
	{ "date-time", "a date with a time like 2024-02-29T12:00:00Z", format_date_time, NO_HOST },
	{ "date", "a date like 2024-02-29", format_date, NO_HOST },
	{ "time", "a time like 12:00:00Z", format_time, NO_HOST },
	{ "duration", "a duration like P1DT12H", format_duration, NO_HOST },
	{ "email", "an email address", is_email, NO_HOST },
	{ "idn-email", "an email address", is_idn_email, NO_HOST },
	{ "hostname", "the name of a host", NULL, HOST },
	{ "idn-hostname", "the name of a host", NULL, IDN_HOST },
	{ "ipv4", "an IPv4 address", format_ipv4, NO_HOST },
	{ "ipv6", "an IPv6 address", format_ipv6, NO_HOST },
	{ "uri", "a URI with a scheme", format_uri, NO_HOST },
	{ "uri-reference", "a URI or a relative reference", format_uri_reference, NO_HOST },
	{ "iri", "an IRI with a scheme", format_iri, NO_HOST },
	{ "iri-reference", "an IRI or a relative reference", format_iri_reference, NO_HOST },
	{ "uri-template", "a URI template like /items/{id}", format_uri_template, NO_HOST },
	{ "json-pointer", "a JSON pointer like /a/0", is_pointer, NO_HOST },
	{ "relative-json-pointer", "a relative JSON pointer like 1/a", is_relative_pointer, NO_HOST },
	{ "uuid", "a UUID", is_uuid, NO_HOST },
	{ "regex", "a regular expression of ECMA-262", is_regex, NO_HOST },
};

struct format {
	const struct row *row;
	const struct idna *idna;        /* of host names */
};

int format_compile(struct arena *mem, const char *name, const struct format **ret, struct err *err)
{
	const struct row *row = NULL;
	struct format *f;
	int rc = 0;

	for (size_t i = 0; i < NELEMS(rows) && !row; i++)
		if (strcmp(rows[i].name, name) == 0)
			row = &rows[i];
	*ret = NULL;
	if (!row)
		return 0;
	f = arena_alloc(mem, sizeof(*f));
	if (!f)
		return err_set(err, ERR_LIMIT, "", "the compiled schema is too large");
	f->row = row;
	if (row->host != NO_HOST)
		rc = idna_compile(mem, &f->idna, err);
	*ret = f;
	return rc;
}

const char *format_words(const struct format *f)
{
	return f->row->words;
}

bool format_check(const struct format *f, const char *p, size_t len, struct regex_room **room, size_t *steps)
{
	*steps += len / 16 + 1;
	if (f->row->host != NO_HOST)
		return idna_check(f->idna, p, len, f->row->host == IDN_HOST, room, steps);
	return f->row->is(p, len);
}
