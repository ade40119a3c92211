/* What a person does not see of a text, or takes for something else: one table, by which descriptions are refused or
 * cleaned, terminals and logs get escapes, documents are quoted, and an approver is shown what is there.  Pure
 * functions on any thread. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

struct range { uint32_t first, last; };

static bool is_in(uint32_t c, const struct range *ranges, size_t n)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (c > ranges[mid].last)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && c >= ranges[low].first;
}

/* Ascending.  Default_Ignorable_Code_Point is that of DerivedCoreProperties.txt, Unicode 14.0.0 to 15.1.0: 4174 code
 * points; Bidi_Control, Join_Control and Variation_Selector of PropList.txt and the tags lie within it.  The rest has
 * no picture of its own either, by General_Category of UnicodeData.txt. */
static const struct range hidden[] = {
	{ 0x00, 0x1f }, { 0x7f, 0x9f },         /* Cc */
	{ 0xad, 0xad },                         /* soft hyphen */
	{ 0x34f, 0x34f },                       /* combining grapheme joiner */
	{ 0x61c, 0x61c },                       /* Arabic letter mark */
	{ 0x115f, 0x1160 },                     /* Hangul fillers */
	{ 0x17b4, 0x17b5 },                     /* Khmer vowels that are not shown */
	{ 0x180b, 0x180f },                     /* Mongolian selectors and separator */
	{ 0x200b, 0x200f },                     /* zero width, marks of direction */
	{ 0x2028, 0x202e },                     /* Zl, Zp; embeddings and overrides */
	{ 0x2060, 0x206f },                     /* word joiner, invisible operators, isolates */
	{ 0x3164, 0x3164 },                     /* Hangul filler */
	{ 0xfe00, 0xfe0f },                     /* variation selectors */
	{ 0xfeff, 0xfeff },                     /* byte order mark */
	{ 0xffa0, 0xffa0 },                     /* Hangul filler of half width */
	{ 0xfff0, 0xfffb },                     /* not given out; Cf: annotations */
	{ 0x13430, 0x1345f },                   /* Cf: how hieroglyphs are joined */
	{ 0x1bca0, 0x1bca3 },                   /* shorthand */
	{ 0x1d173, 0x1d17a },                   /* beams and slurs */
	{ 0xe0000, 0xe0fff },                   /* tags, variation selectors */
};

bool text_is_hidden(uint32_t c)
{
	return is_in(c, hidden, NELEMS(hidden));
}

char *text_printable(const char *p, size_t len, char *ret, size_t size)
{
	size_t out = 0;

	for (size_t i = 0; i < len;) {
		char piece[16];
		uint32_t c;
		unsigned n = text_decode(p + i, len - i, &c);
		size_t piece_len;

		if (n == 0 || (c < 0x80 && text_is_hidden(c))) {
			n = 1;
			piece_len = (size_t)snprintf(piece, sizeof(piece), "\\x%02x", (unsigned char)p[i]);
		} else if (text_is_hidden(c)) {
			piece_len = (size_t)snprintf(piece, sizeof(piece), "\\u{%x}", c);
		} else {
			memcpy(piece, p + i, n);
			piece_len = n;
		}
		if (size == 0 || piece_len > size - 1 - out)
			break;
		memcpy(ret + out, piece, piece_len);
		out += piece_len;
		i += n;
	}
	if (size)
		ret[out] = '\0';
	return ret;
}

/* --- what may stand in a description all the same */

enum { ZWNJ = 0x200c, ZWJ = 0x200d, TEXT_STYLE = 0xfe0e, EMOJI_STYLE = 0xfe0f, KEYCAP = 0x20e3 };

/* What emoji-variation-sequences.txt has a style for, in blocks; each of them is seen by itself. */
static bool is_emoji(uint32_t c)
{
	static const struct range emoji[] = {
		{ 0xa9, 0xa9 }, { 0xae, 0xae }, { 0x203c, 0x203c }, { 0x2049, 0x2049 }, { 0x2122, 0x2122 },
		{ 0x2139, 0x2139 }, { 0x2190, 0x21ff }, { 0x2300, 0x23ff }, { 0x24c2, 0x24c2 }, { 0x25a0, 0x27bf },
		{ 0x2934, 0x2935 }, { 0x2b00, 0x2bff }, { 0x3030, 0x3030 }, { 0x303d, 0x303d }, { 0x3297, 0x3297 },
		{ 0x3299, 0x3299 }, { 0x1f000, 0x1faff },
	};

	return is_in(c, emoji, NELEMS(emoji));
}

/* Letters that look different with a joiner between them: Arabic, Syriac, Thaana and N'Ko, the scripts of India. */
static bool is_joined(uint32_t c)
{
	static const struct range joined[] = { { 0x620, 0x7ff }, { 0x900, 0xdff } };

	return is_in(c, joined, NELEMS(joined));
}

/* before: the character in front, 0 at the beginning; p: what follows. */
static bool shapes_its_neighbours(uint32_t c, uint32_t before, const char *p, size_t len)
{
	uint32_t next = 0;

	(void)text_decode(p, len, &next);
	if (c == TEXT_STYLE || c == EMOJI_STYLE)
		return is_emoji(before) || (next == KEYCAP && before < 0x80);
	if (c == ZWJ && is_emoji(next))
		return is_emoji(before) || before == EMOJI_STYLE;
	return (c == ZWJ || c == ZWNJ) && is_joined(before) && is_joined(next);
}

/* Of one code point c with n bytes at p[i]. */
static bool may_stand(const char *p, size_t len, size_t i, unsigned n, uint32_t c, uint32_t before)
{
	return !text_is_hidden(c) || c == '\n' || c == '\t' ||
	       shapes_its_neighbours(c, before, p + i + n, len - i - n);
}

size_t text_hidden(const char *p, size_t len, uint32_t *ret)
{
	uint32_t before = 0;

	for (size_t i = 0; i < len;) {
		unsigned n = text_decode(p + i, len - i, ret);

		if (n == 0 || !may_stand(p, len, i, n, *ret, before))
			return i;
		before = *ret;
		i += n;
	}
	return len;
}

size_t text_without_hidden(const char *p, size_t len, char *ret)
{
	uint32_t before = 0;
	size_t out = 0;

	for (size_t i = 0; i < len;) {
		uint32_t c;
		unsigned n = text_decode(p + i, len - i, &c);

		if (n > 0 && may_stand(p, len, i, n, c, before)) {
			memmove(ret + out, p + i, n);
			out += n;
			before = c;
		}
		i += n ? n : 1;
	}
	return out;
}

/* --- what is taken for something else */

/* Never what it looks like: blanks that are none, letters and signs that copy ASCII in another style, letters that
 * stand alone in a word of their own script and look like ASCII. */
static const struct range copies[] = {
	{ 0xa0, 0xa0 }, { 0x131, 0x131 }, { 0x17f, 0x17f }, { 0x1c0, 0x1c3 },           /* blank, dotless i, long s, clicks */
	{ 0x2b0, 0x2ff }, { 0x37e, 0x37e },                                             /* modifiers, Greek question mark */
	{ 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2010, 0x2012 }, { 0x2024, 0x2024 }, /* blanks, hyphens, one dot leader */
	{ 0x202f, 0x202f }, { 0x2044, 0x2044 }, { 0x205f, 0x205f }, { 0x2100, 0x2121 }, /* fraction slash, letters as signs */
	{ 0x2123, 0x2138 }, { 0x213a, 0x214f }, { 0x2160, 0x2188 },                     /* Roman numerals */
	{ 0x2212, 0x2212 }, { 0x2215, 0x2216 }, { 0x2223, 0x2223 }, { 0x2236, 0x2236 }, /* minus, slashes, bar, ratio */
	{ 0x223c, 0x223c }, { 0x2800, 0x2800 }, { 0x29f5, 0x29f9 }, { 0x3000, 0x3000 }, /* Braille and wide blank */
	{ 0xa78c, 0xa78c }, { 0xa789, 0xa789 }, { 0xfe50, 0xfe6f }, { 0xff00, 0xffef }, /* small and wide forms */
	{ 0x1d400, 0x1d7ff }, { 0x1f100, 0x1f18f },                                     /* letters of formulas, in circles */
};

/* Letters of other scripts that are drawn as an ASCII letter is. */
static bool is_twin(uint32_t c)
{
	static const struct range twins[] = {
		{ 0x391, 0x392 }, { 0x395, 0x397 }, { 0x399, 0x39a }, { 0x39c, 0x39d }, { 0x39f, 0x39f },       /* Greek */
		{ 0x3a1, 0x3a1 }, { 0x3a4, 0x3a5 }, { 0x3a7, 0x3a7 }, { 0x3b1, 0x3b1 }, { 0x3b3, 0x3b3 },
		{ 0x3b9, 0x3ba }, { 0x3bd, 0x3bd }, { 0x3bf, 0x3bf }, { 0x3c1, 0x3c1 }, { 0x3c3, 0x3c3 },
		{ 0x3c5, 0x3c5 }, { 0x3f2, 0x3f3 }, { 0x3f9, 0x3fa },
		{ 0x405, 0x406 }, { 0x408, 0x408 }, { 0x410, 0x410 }, { 0x412, 0x412 }, { 0x415, 0x415 },       /* Cyrillic */
		{ 0x41a, 0x41a }, { 0x41c, 0x41e }, { 0x420, 0x423 }, { 0x425, 0x425 }, { 0x42c, 0x42c },
		{ 0x430, 0x430 }, { 0x433, 0x433 }, { 0x435, 0x435 }, { 0x43e, 0x43e }, { 0x440, 0x441 },
		{ 0x443, 0x443 }, { 0x445, 0x445 }, { 0x455, 0x456 }, { 0x458, 0x458 }, { 0x474, 0x475 },
		{ 0x4ae, 0x4af }, { 0x4bb, 0x4bb }, { 0x4c0, 0x4c0 }, { 0x4cf, 0x4cf }, { 0x500, 0x501 },
		{ 0x51a, 0x51d },
		{ 0x54d, 0x54d }, { 0x555, 0x555 }, { 0x561, 0x561 }, { 0x563, 0x563 }, { 0x566, 0x566 },       /* Armenian */
		{ 0x570, 0x570 }, { 0x578, 0x578 }, { 0x57d, 0x57d }, { 0x581, 0x582 }, { 0x585, 0x585 },
		{ 0x13a0, 0x13f5 },                                                                             /* Cherokee */
		{ 0x2c60, 0x2ced }, { 0xa4d0, 0xa4fd }, { 0xab30, 0xabbf },                     /* Coptic, Lisu, and more */
		{ 0x10280, 0x1031f }, { 0x10400, 0x1044f }, { 0x104b0, 0x1052f }, { 0x118a0, 0x118df },
	};

	return is_in(c, twins, NELEMS(twins));
}

/* Alphabets with letters like ours, also those of phonetics; not the scripts of the East and South, which may stand in
 * one word with ASCII. */
static bool is_of_alphabet(uint32_t c)
{
	static const struct range alphabets[] = {
		{ 0x180, 0x2af }, { 0x370, 0x58f }, { 0x10a0, 0x10ff }, { 0x13a0, 0x13ff }, { 0x1c80, 0x1cbf },
		{ 0x1d00, 0x1dbf }, { 0x1f00, 0x1fff }, { 0x2c00, 0x2dff }, { 0xa4d0, 0xa4ff }, { 0xa640, 0xa69f },
		{ 0xa720, 0xa7ff }, { 0xab30, 0xabbf }, { 0x10280, 0x1031f }, { 0x10400, 0x1052f }, { 0x118a0, 0x118df },
	};

	return is_in(c, alphabets, NELEMS(alphabets));
}

static bool is_ascii_letter(uint32_t c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* With the accents of Europe, put together or not: none of them is taken for a bare letter. */
static bool is_accented(uint32_t c)
{
	return (c >= 0xc0 && c <= 0x17e) || (c >= 0x300 && c <= 0x36f) || (c >= 0x1e00 && c <= 0x1eff);
}

static bool is_of_word(uint32_t c)
{
	return is_ascii_letter(c) || (c >= '0' && c <= '9') || is_accented(c) || is_of_alphabet(c);
}

/* Is the word at p, which ends at *ret_end, one of two alphabets, or one that looks like another? */
static bool is_false_word(const char *p, size_t len, size_t *ret_end)
{
	bool latin = false, other = false, twins = true;
	size_t i = 0;
	uint32_t c;

	for (unsigned n; i < len && (n = text_decode(p + i, len - i, &c)) > 0 && is_of_word(c); i += n) {
		latin = latin || is_ascii_letter(c) || is_accented(c);
		other = other || is_of_alphabet(c);
		twins = twins && (!is_of_alphabet(c) || is_twin(c));
	}
	*ret_end = i;
	return other && (latin || twins);
}

void text_deceives(const char *p, size_t len, bool *ret)
{
	size_t word_end = 0;
	bool false_word = false;
	uint32_t c;

	memset(ret, 0, len * sizeof(*ret));
	for (size_t i = 0; i < len;) {
		unsigned n = text_decode(p + i, len - i, &c);

		if (n > 0 && i >= word_end && is_of_word(c)) {
			false_word = is_false_word(p + i, len - i, &word_end);
			word_end += i;
		}
		ret[i] = n == 0 || text_is_hidden(c) || is_in(c, copies, NELEMS(copies)) ||
			 (i < word_end && false_word && is_of_alphabet(c));
		i += n ? n : 1;
	}
}

void text_csv(const char *text, bool is_text, struct str *out)
{
	const size_t size = 4 * strlen(text) + 1;
	char *cell = mem_alloc(size);

	str_putc(out, '"');
	if (is_text && *text && strchr("=+-@\t\r", *text))
		str_putc(out, '\'');
	(void)text_printable(text, strlen(text), cell, size);
	for (const char *c = cell; *c; c++) {
		if (*c == '"')
			str_putc(out, '"');
		str_putc(out, *c);
	}
	str_putc(out, '"');
	free(cell);
}
