/* Names of hosts: the syntax of DNS, and labels with other characters than ASCII by IDNA 2008.  The tables
 * of Unicode are PCRE2's: what a label may hold is one pattern, so is the rule for mixed directions.
 * Compatibility characters are left out by their blocks, not by their decompositions. */
#include "config.h"

#include "format_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

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

int idna_compile(struct arena *mem, const struct idna **ret, struct err *err)
{
	struct idna *idna = arena_alloc(mem, sizeof *idna);
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
		if (!format_is_alpha(p[i]) && !format_is_digit(p[i]) && p[i] != '-' && !(wide && (unsigned char)p[i] >= 0x80))
			return false;
	return true;
}

bool format_dns_name(const char *p, size_t len, bool wide)
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
		memmove(&ret[i + 1], &ret[i], (n - 1 - i) * sizeof *ret);
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
		size_t bytes = (unsigned char)*p < 0x80 ? 1 : (unsigned char)*p < 0xe0 ? 2 : (unsigned char)*p < 0xf0 ? 3 : 4;

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

bool idna_check(const struct idna *idna, const char *p, size_t len, bool wide, struct regex_room **room,
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
