/* Values, and rows of them: cells for people, tables as wide as their widest cell or no wider than the terminal, JSON
 * and CSV for programs.  Lists (ctl_print.c) and reports (ctl_report.c) have them in common.  Whatever comes out of
 * the store is shown without control characters; colour says the state of something and nothing else. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "ctl_int.h"

#define RFC3339_LEN 27

/* --- cells of a terminal: two for East Asian signs and emoji, none for a mark on the sign before it */

struct range { uint32_t first, last; };

/* Ascending.  East_Asian_Width W and F of Unicode 14; what is not given out within a block counts as its neighbours. */
static const struct range wide[] = {
	{ 0x1100, 0x115f }, { 0x231a, 0x231b }, { 0x2329, 0x232a }, { 0x23e9, 0x23ec }, { 0x23f0, 0x23f0 },
	{ 0x23f3, 0x23f3 }, { 0x25fd, 0x25fe }, { 0x2614, 0x2615 }, { 0x2648, 0x2653 }, { 0x267f, 0x267f },
	{ 0x2693, 0x2693 }, { 0x26a1, 0x26a1 }, { 0x26aa, 0x26ab }, { 0x26bd, 0x26be }, { 0x26c4, 0x26c5 },
	{ 0x26ce, 0x26ce }, { 0x26d4, 0x26d4 }, { 0x26ea, 0x26ea }, { 0x26f2, 0x26f3 }, { 0x26f5, 0x26f5 },
	{ 0x26fa, 0x26fa }, { 0x26fd, 0x26fd }, { 0x2705, 0x2705 }, { 0x270a, 0x270b }, { 0x2728, 0x2728 },
	{ 0x274c, 0x274c }, { 0x274e, 0x274e }, { 0x2753, 0x2755 }, { 0x2757, 0x2757 }, { 0x2795, 0x2797 },
	{ 0x27b0, 0x27b0 }, { 0x27bf, 0x27bf }, { 0x2b1b, 0x2b1c }, { 0x2b50, 0x2b50 }, { 0x2b55, 0x2b55 },
	{ 0x2e80, 0x303e }, { 0x3041, 0x3247 }, { 0x3250, 0x4dbf }, { 0x4e00, 0xa4c6 }, { 0xa960, 0xa97c },
	{ 0xac00, 0xd7a3 }, { 0xf900, 0xfad9 }, { 0xfe10, 0xfe19 }, { 0xfe30, 0xfe6b }, { 0xff01, 0xff60 },
	{ 0xffe0, 0xffe6 }, { 0x16fe0, 0x1b2fb }, { 0x1f004, 0x1f004 }, { 0x1f0cf, 0x1f0cf }, { 0x1f18e, 0x1f18e },
	{ 0x1f191, 0x1f19a }, { 0x1f200, 0x1f320 }, { 0x1f32d, 0x1f335 }, { 0x1f337, 0x1f37c }, { 0x1f37e, 0x1f393 },
	{ 0x1f3a0, 0x1f3ca }, { 0x1f3cf, 0x1f3d3 }, { 0x1f3e0, 0x1f3f0 }, { 0x1f3f4, 0x1f3f4 }, { 0x1f3f8, 0x1f43e },
	{ 0x1f440, 0x1f440 }, { 0x1f442, 0x1f4fc }, { 0x1f4ff, 0x1f53d }, { 0x1f54b, 0x1f54e }, { 0x1f550, 0x1f567 },
	{ 0x1f57a, 0x1f57a }, { 0x1f595, 0x1f596 }, { 0x1f5a4, 0x1f5a4 }, { 0x1f5fb, 0x1f64f }, { 0x1f680, 0x1f6c5 },
	{ 0x1f6cc, 0x1f6cc }, { 0x1f6d0, 0x1f6d2 }, { 0x1f6d5, 0x1f6df }, { 0x1f6eb, 0x1f6ec }, { 0x1f6f4, 0x1f6fc },
	{ 0x1f7e0, 0x1f7f0 }, { 0x1f90c, 0x1f93a }, { 0x1f93c, 0x1f945 }, { 0x1f947, 0x1f9ff }, { 0x1fa70, 0x1faf6 },
	{ 0x20000, 0x2fffd },
};

/* Ascending.  General_Category Mn and Me of Unicode 14. */
static const struct range marks[] = {
	{ 0x300, 0x36f }, { 0x483, 0x489 }, { 0x591, 0x5bd }, { 0x5bf, 0x5bf }, { 0x5c1, 0x5c2 }, { 0x5c4, 0x5c5 },
	{ 0x5c7, 0x5c7 }, { 0x610, 0x61a }, { 0x64b, 0x65f }, { 0x670, 0x670 }, { 0x6d6, 0x6dc }, { 0x6df, 0x6e4 },
	{ 0x6e7, 0x6e8 }, { 0x6ea, 0x6ed }, { 0x711, 0x711 }, { 0x730, 0x74a }, { 0x7a6, 0x7b0 }, { 0x7eb, 0x7f3 },
	{ 0x7fd, 0x7fd }, { 0x816, 0x819 }, { 0x81b, 0x823 }, { 0x825, 0x827 }, { 0x829, 0x82d }, { 0x859, 0x85b },
	{ 0x898, 0x89f }, { 0x8ca, 0x8e1 }, { 0x8e3, 0x902 }, { 0x93a, 0x93a }, { 0x93c, 0x93c }, { 0x941, 0x948 },
	{ 0x94d, 0x94d }, { 0x951, 0x957 }, { 0x962, 0x963 }, { 0x981, 0x981 }, { 0x9bc, 0x9bc }, { 0x9c1, 0x9c4 },
	{ 0x9cd, 0x9cd }, { 0x9e2, 0x9e3 }, { 0x9fe, 0xa02 }, { 0xa3c, 0xa3c }, { 0xa41, 0xa51 }, { 0xa70, 0xa71 },
	{ 0xa75, 0xa75 }, { 0xa81, 0xa82 }, { 0xabc, 0xabc }, { 0xac1, 0xac8 }, { 0xacd, 0xacd }, { 0xae2, 0xae3 },
	{ 0xafa, 0xb01 }, { 0xb3c, 0xb3c }, { 0xb3f, 0xb3f }, { 0xb41, 0xb44 }, { 0xb4d, 0xb56 }, { 0xb62, 0xb63 },
	{ 0xb82, 0xb82 }, { 0xbc0, 0xbc0 }, { 0xbcd, 0xbcd }, { 0xc00, 0xc00 }, { 0xc04, 0xc04 }, { 0xc3c, 0xc3c },
	{ 0xc3e, 0xc40 }, { 0xc46, 0xc56 }, { 0xc62, 0xc63 }, { 0xc81, 0xc81 }, { 0xcbc, 0xcbc }, { 0xcbf, 0xcbf },
	{ 0xcc6, 0xcc6 }, { 0xccc, 0xccd }, { 0xce2, 0xce3 }, { 0xd00, 0xd01 }, { 0xd3b, 0xd3c }, { 0xd41, 0xd44 },
	{ 0xd4d, 0xd4d }, { 0xd62, 0xd63 }, { 0xd81, 0xd81 }, { 0xdca, 0xdca }, { 0xdd2, 0xdd6 }, { 0xe31, 0xe31 },
	{ 0xe34, 0xe3a }, { 0xe47, 0xe4e }, { 0xeb1, 0xeb1 }, { 0xeb4, 0xebc }, { 0xec8, 0xecd }, { 0xf18, 0xf19 },
	{ 0xf35, 0xf35 }, { 0xf37, 0xf37 }, { 0xf39, 0xf39 }, { 0xf71, 0xf7e }, { 0xf80, 0xf84 }, { 0xf86, 0xf87 },
	{ 0xf8d, 0xfbc }, { 0xfc6, 0xfc6 }, { 0x102d, 0x1030 }, { 0x1032, 0x1037 }, { 0x1039, 0x103a },
	{ 0x103d, 0x103e }, { 0x1058, 0x1059 }, { 0x105e, 0x1060 }, { 0x1071, 0x1074 }, { 0x1082, 0x1082 },
	{ 0x1085, 0x1086 }, { 0x108d, 0x108d }, { 0x109d, 0x109d }, { 0x135d, 0x135f }, { 0x1712, 0x1714 },
	{ 0x1732, 0x1733 }, { 0x1752, 0x1753 }, { 0x1772, 0x1773 }, { 0x17b4, 0x17b5 }, { 0x17b7, 0x17bd },
	{ 0x17c6, 0x17c6 }, { 0x17c9, 0x17d3 }, { 0x17dd, 0x17dd }, { 0x180b, 0x180d }, { 0x180f, 0x180f },
	{ 0x1885, 0x1886 }, { 0x18a9, 0x18a9 }, { 0x1920, 0x1922 }, { 0x1927, 0x1928 }, { 0x1932, 0x1932 },
	{ 0x1939, 0x193b }, { 0x1a17, 0x1a18 }, { 0x1a1b, 0x1a1b }, { 0x1a56, 0x1a56 }, { 0x1a58, 0x1a60 },
	{ 0x1a62, 0x1a62 }, { 0x1a65, 0x1a6c }, { 0x1a73, 0x1a7f }, { 0x1ab0, 0x1b03 }, { 0x1b34, 0x1b34 },
	{ 0x1b36, 0x1b3a }, { 0x1b3c, 0x1b3c }, { 0x1b42, 0x1b42 }, { 0x1b6b, 0x1b73 }, { 0x1b80, 0x1b81 },
	{ 0x1ba2, 0x1ba5 }, { 0x1ba8, 0x1ba9 }, { 0x1bab, 0x1bad }, { 0x1be6, 0x1be6 }, { 0x1be8, 0x1be9 },
	{ 0x1bed, 0x1bed }, { 0x1bef, 0x1bf1 }, { 0x1c2c, 0x1c33 }, { 0x1c36, 0x1c37 }, { 0x1cd0, 0x1cd2 },
	{ 0x1cd4, 0x1ce0 }, { 0x1ce2, 0x1ce8 }, { 0x1ced, 0x1ced }, { 0x1cf4, 0x1cf4 }, { 0x1cf8, 0x1cf9 },
	{ 0x1dc0, 0x1dff }, { 0x20d0, 0x20f0 }, { 0x2cef, 0x2cf1 }, { 0x2d7f, 0x2d7f }, { 0x2de0, 0x2dff },
	{ 0x302a, 0x302d }, { 0x3099, 0x309a }, { 0xa66f, 0xa672 }, { 0xa674, 0xa67d }, { 0xa69e, 0xa69f },
	{ 0xa6f0, 0xa6f1 }, { 0xa802, 0xa802 }, { 0xa806, 0xa806 }, { 0xa80b, 0xa80b }, { 0xa825, 0xa826 },
	{ 0xa82c, 0xa82c }, { 0xa8c4, 0xa8c5 }, { 0xa8e0, 0xa8f1 }, { 0xa8ff, 0xa8ff }, { 0xa926, 0xa92d },
	{ 0xa947, 0xa951 }, { 0xa980, 0xa982 }, { 0xa9b3, 0xa9b3 }, { 0xa9b6, 0xa9b9 }, { 0xa9bc, 0xa9bd },
	{ 0xa9e5, 0xa9e5 }, { 0xaa29, 0xaa2e }, { 0xaa31, 0xaa32 }, { 0xaa35, 0xaa36 }, { 0xaa43, 0xaa43 },
	{ 0xaa4c, 0xaa4c }, { 0xaa7c, 0xaa7c }, { 0xaab0, 0xaab0 }, { 0xaab2, 0xaab4 }, { 0xaab7, 0xaab8 },
	{ 0xaabe, 0xaabf }, { 0xaac1, 0xaac1 }, { 0xaaec, 0xaaed }, { 0xaaf6, 0xaaf6 }, { 0xabe5, 0xabe5 },
	{ 0xabe8, 0xabe8 }, { 0xabed, 0xabed }, { 0xfb1e, 0xfb1e }, { 0xfe00, 0xfe0f }, { 0xfe20, 0xfe2f },
	{ 0x101fd, 0x101fd }, { 0x102e0, 0x102e0 }, { 0x10376, 0x1037a }, { 0x10a01, 0x10a0f }, { 0x10a38, 0x10a3f },
	{ 0x10ae5, 0x10ae6 }, { 0x10d24, 0x10d27 }, { 0x10eab, 0x10eac }, { 0x10f46, 0x10f50 }, { 0x10f82, 0x10f85 },
	{ 0x11001, 0x11001 }, { 0x11038, 0x11046 }, { 0x11070, 0x11070 }, { 0x11073, 0x11074 }, { 0x1107f, 0x11081 },
	{ 0x110b3, 0x110b6 }, { 0x110b9, 0x110ba }, { 0x110c2, 0x110c2 }, { 0x11100, 0x11102 }, { 0x11127, 0x1112b },
	{ 0x1112d, 0x11134 }, { 0x11173, 0x11173 }, { 0x11180, 0x11181 }, { 0x111b6, 0x111be }, { 0x111c9, 0x111cc },
	{ 0x111cf, 0x111cf }, { 0x1122f, 0x11231 }, { 0x11234, 0x11234 }, { 0x11236, 0x11237 }, { 0x1123e, 0x1123e },
	{ 0x112df, 0x112df }, { 0x112e3, 0x112ea }, { 0x11300, 0x11301 }, { 0x1133b, 0x1133c }, { 0x11340, 0x11340 },
	{ 0x11366, 0x11374 }, { 0x11438, 0x1143f }, { 0x11442, 0x11444 }, { 0x11446, 0x11446 }, { 0x1145e, 0x1145e },
	{ 0x114b3, 0x114b8 }, { 0x114ba, 0x114ba }, { 0x114bf, 0x114c0 }, { 0x114c2, 0x114c3 }, { 0x115b2, 0x115b5 },
	{ 0x115bc, 0x115bd }, { 0x115bf, 0x115c0 }, { 0x115dc, 0x115dd }, { 0x11633, 0x1163a }, { 0x1163d, 0x1163d },
	{ 0x1163f, 0x11640 }, { 0x116ab, 0x116ab }, { 0x116ad, 0x116ad }, { 0x116b0, 0x116b5 }, { 0x116b7, 0x116b7 },
	{ 0x1171d, 0x1171f }, { 0x11722, 0x11725 }, { 0x11727, 0x1172b }, { 0x1182f, 0x11837 }, { 0x11839, 0x1183a },
	{ 0x1193b, 0x1193c }, { 0x1193e, 0x1193e }, { 0x11943, 0x11943 }, { 0x119d4, 0x119db }, { 0x119e0, 0x119e0 },
	{ 0x11a01, 0x11a0a }, { 0x11a33, 0x11a38 }, { 0x11a3b, 0x11a3e }, { 0x11a47, 0x11a47 }, { 0x11a51, 0x11a56 },
	{ 0x11a59, 0x11a5b }, { 0x11a8a, 0x11a96 }, { 0x11a98, 0x11a99 }, { 0x11c30, 0x11c3d }, { 0x11c3f, 0x11c3f },
	{ 0x11c92, 0x11ca7 }, { 0x11caa, 0x11cb0 }, { 0x11cb2, 0x11cb3 }, { 0x11cb5, 0x11cb6 }, { 0x11d31, 0x11d45 },
	{ 0x11d47, 0x11d47 }, { 0x11d90, 0x11d91 }, { 0x11d95, 0x11d95 }, { 0x11d97, 0x11d97 }, { 0x11ef3, 0x11ef4 },
	{ 0x16af0, 0x16af4 }, { 0x16b30, 0x16b36 }, { 0x16f4f, 0x16f4f }, { 0x16f8f, 0x16f92 }, { 0x16fe4, 0x16fe4 },
	{ 0x1bc9d, 0x1bc9e }, { 0x1cf00, 0x1cf46 }, { 0x1d167, 0x1d169 }, { 0x1d17b, 0x1d182 }, { 0x1d185, 0x1d18b },
	{ 0x1d1aa, 0x1d1ad }, { 0x1d242, 0x1d244 }, { 0x1da00, 0x1da36 }, { 0x1da3b, 0x1da6c }, { 0x1da75, 0x1da75 },
	{ 0x1da84, 0x1da84 }, { 0x1da9b, 0x1daaf }, { 0x1e000, 0x1e02a }, { 0x1e130, 0x1e136 }, { 0x1e2ae, 0x1e2ae },
	{ 0x1e2ec, 0x1e2ef }, { 0x1e8d0, 0x1e8d6 }, { 0x1e944, 0x1e94a }, { 0xe0100, 0xe01ef },
};

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

static unsigned cells_of(uint32_t c)
{
	if (c < 0x300)
		return 1;
	return is_in(c, wide, NELEMS(wide)) ? 2 : is_in(c, marks, NELEMS(marks)) ? 0 : 1;
}

/* The bytes at p that are drawn as one sign, and its cells. */
static size_t next_sign(const char *p, size_t len, unsigned *ret_cells)
{
	uint32_t c = 0xfffd;
	unsigned n = text_decode(p, len, &c);

	*ret_cells = n ? cells_of(c) : 1;
	return n ? n : 1;
}

size_t ctl_width(const char *p, size_t len)
{
	size_t cells = 0;
	unsigned w;

	for (size_t i = 0; i < len; cells += w)
		i += next_sign(p + i, len - i, &w);
	return cells;
}

static size_t width_cut(const char *p, size_t len, size_t cells)
{
	size_t used = 0, i = 0;

	while (i < len) {
		unsigned w;
		size_t n = next_sign(p + i, len - i, &w);

		if (used + w > cells)
			break;
		used += w;
		i += n;
	}
	return i;
}

/* --- states */

/* The members whose value is a state, and what the words mean. */
static const char *const states[] = { "state", "outcome", "audit", "how", "finding", "verified_as", "class" };
static const struct meaning { const char *colour, *words; } meanings[] = {
	{ CTL_GREEN, " ok active enabled serving INTACT runs stop set granted used " },
	{ CTL_YELLOW, " rotating suspended expiring waiting pending asked disabled stopped draining starting input_required "
		      "cancelled rate_limited INCOMPLETE never warn " },
	{ CTL_RED, " revoked expired removed denied invalid timeout tool_error crashed crash aborted overload unknown failed "
		   "refused error lost DAMAGED fail " },
};

static const char *colour_of_state(const char *member, const char *text, const json_t *row)
{
	const char *class = json_string_value(json_object_get(row, "class"));
	bool is_state = false;
	char word[64];

	for (size_t i = 0; i < NELEMS(states); i++)
		is_state = is_state || strcmp(member, states[i]) == 0;
	if (!is_state || strlen(text) + 3 > sizeof(word))
		return NULL;
	(void)snprintf(word, sizeof(word), " %s ", text);
	for (size_t i = 0; i < NELEMS(meanings); i++)
		if (!strchr(text, ' ') && strstr(meanings[i].words, word))
			return meanings[i].colour;
	if (strcmp(member, "finding") != 0)
		return NULL;
	return !class ? NULL : strcmp(class, "gap") == 0 ? CTL_YELLOW : CTL_RED;
}

/* --- values */

#define RFC3339_LEN 27

/* A copy without control characters, whose longest form is four bytes for one; free() it. */
char *ctl_printable(const char *p, size_t len)
{
	size_t size = 4 * len + 16;
	char *ret = mem_alloc(size);

	return text_printable(p, len, ret, size);
}

static char *local_time(const char *text)
{
	char buf[48];
	uint64_t us;

	if (clock_parse(text, clock_wall_us(), &us) != 0)
		return ctl_printable(text, strlen(text));
	return mem_strdup(clock_format_local(us, buf, sizeof(buf)));
}

static bool all_scalars(const json_t *array)
{
	const json_t *item;
	size_t i;

	json_array_foreach(array, i, item)
		if (json_is_object(item) || json_is_array(item))
			return false;
	return true;
}

char *ctl_cell(const json_t *value, enum command_column_type type)
{
	struct str out = STR_INIT;
	char *cell;

	if (!value || json_is_null(value))
		return mem_strdup("-");
	if (json_is_string(value) && type == COL_TIME)
		return local_time(json_string_value(value));
	jx_write_plain(value, &out);
	cell = ctl_printable(str_text(&out), out.len);
	str_fini(&out);
	return cell;
}

bool ctl_is_time(const json_t *value)
{
	const char *t = json_string_value(value);

	return t && json_string_length(value) == RFC3339_LEN && t[10] == 'T' && t[RFC3339_LEN - 1] == 'Z';
}

struct ctl_value ctl_value_of(const json_t *row, const char *member, enum command_column_type type)
{
	const json_t *value = json_object_get(row, member);
	struct ctl_value ret = { .text = ctl_cell(value, type) };

	if (json_is_object(value) || (json_is_array(value) && !all_scalars(value)))
		ret.align = CTL_NESTED;
	else if (value && !json_is_null(value))
		ret.align = json_is_number(value) ? CTL_NUMBER : type == COL_TIME ? CTL_TIME : CTL_TEXT;
	ret.colour = colour_of_state(member, ret.text, row);
	return ret;
}

/* --- Aligned columns, numbers to the right */

/* On a terminal a table is no wider than its lines: what says nothing is left out, titles are broken, long texts are
 * cut (or broken, where they are findings).  What names a row is cut last, or goes below it.  Times are short there,
 * below a line that says the date. */

#define GAP 2                           /* blanks between columns */
#define FLOOR 8                         /* cells that a text keeps, while others have more */
#define FLOOR_LAST 3                    /* that it keeps when there is no other way */
#define NOTHING "-"                     /* what a cell without a value says */
/* A time in full is "2026-07-28 10:00:00 +0200". */
#define TIME_LEN 25
#define DATE_LEN 10
#define MINUTES_LEN 16
#define CLOCK_AT 11
#define CLOCK_LEN 8

struct ctl_table {
	const struct ctl_column *cols;
	size_t ncols, nrows, cap;
	const struct ctl_print *look;
	struct ctl_value **rows;                /* nrows arrays of ncols cells */
	bool *text, *number, *time, *said;      /* a column that holds a text, a number, a time, anything at all */
	bool *state;                            /* one that holds states */
	bool *hidden;                           /* one that is left out of the lines */
	size_t below;                           /* and stands on a line of its own below each; 0: none does */
	size_t *widest, *width;                 /* of all cells so far; as it is printed */
	bool titled;
	char date[TIME_LEN + 1];                /* of the rows that come; "" = none was said */
};

struct ctl_table *ctl_table_new(const struct ctl_print *p, const struct ctl_column *cols, size_t n)
{
	struct ctl_table *t = mem_zalloc(sizeof(*t));

	t->cols = cols;
	t->ncols = n;
	t->look = p;
	t->text = mem_calloc(n, sizeof(*t->text));
	t->number = mem_calloc(n, sizeof(*t->number));
	t->time = mem_calloc(n, sizeof(*t->time));
	t->said = mem_calloc(n, sizeof(*t->said));
	t->state = mem_calloc(n, sizeof(*t->state));
	t->hidden = mem_calloc(n, sizeof(*t->hidden));
	t->widest = mem_calloc(n, sizeof(*t->widest));
	t->width = mem_calloc(n, sizeof(*t->width));
	return t;
}

void ctl_table_add(struct ctl_table *t, struct ctl_value *cells)
{
	if (t->nrows == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->rows = mem_realloc(t->rows, t->cap * sizeof(*t->rows));
	}
	t->rows[t->nrows++] = cells;
	for (size_t c = 0; c < t->ncols; c++) {
		t->number[c] = t->number[c] || cells[c].align == CTL_NUMBER;
		t->text[c] = t->text[c] || cells[c].align == CTL_TEXT || cells[c].align == CTL_NESTED;
		t->time[c] = t->time[c] || cells[c].align == CTL_TIME;
		t->state[c] = t->state[c] || cells[c].colour;
		t->said[c] = t->said[c] || (*cells[c].text && strcmp(cells[c].text, NOTHING) != 0);
	}
}

static void forget_rows(struct ctl_table *t)
{
	for (size_t r = 0; r < t->nrows; r++) {
		for (size_t c = 0; c < t->ncols; c++)
			free(t->rows[r][c].text);
		free(t->rows[r]);
	}
	t->nrows = 0;
}

void ctl_table_free(struct ctl_table **tp)
{
	struct ctl_table *t = tp ? *tp : NULL;

	if (!t)
		return;
	*tp = NULL;
	forget_rows(t);
	free(t->rows);
	free(t->text);
	free(t->number);
	free(t->time);
	free(t->said);
	free(t->state);
	free(t->hidden);
	free(t->widest);
	free(t->width);
	free(t);
}

static bool is_right(const struct ctl_table *t, size_t c)
{
	return t->number[c] && !t->text[c] && !t->time[c];
}

/* --- pieces of a text */

size_t ctl_wrap(const char **rest, size_t cells)
{
	const char *p = *rest;
	size_t len = strlen(p), n = width_cut(p, len, cells), at = n;

	if (n == len) {
		*rest = p + len;
		return len;
	}
	while (at > 0 && p[at] != ' ')
		at--;
	if (at > 0) {
		*rest = p + at + 1;
		return at;
	}
	if (n == 0)
		n = width_cut(p, len, cells + 1);   /* one sign of two cells where there is one */
	*rest = p + n;
	return n;
}

/* The length of what is shown of the text, an ellipsis behind it when *ret_cut. */
static size_t cut_to(const struct ctl_table *t, const char *p, size_t cells, bool *ret_cut)
{
	size_t len = strlen(p), dots = t->look->utf8 ? 1 : 3;

	*ret_cut = ctl_width(p, len) > cells;
	if (!*ret_cut)
		return len;
	return width_cut(p, len, cells > dots ? cells - dots : 0);
}

static size_t longest_word(const char *text)
{
	size_t longest = 0;

	while (*text) {
		size_t n = strcspn(text, " "), w = ctl_width(text, n);

		longest = w > longest ? w : longest;
		text += n + strspn(text + n, " ");
	}
	return longest;
}

/* --- how wide the columns are */

static size_t total(const struct ctl_table *t)
{
	size_t sum = 0, shown = 0;

	for (size_t c = 0; c < t->ncols; c++) {
		if (t->hidden[c])
			continue;
		sum += t->width[c];
		shown++;
	}
	return sum + (shown > 1 ? (shown - 1) * GAP : 0);
}

/* Take from the widest, one cell each time, until the table fits or none has more than the floor. */
static void shrink(struct ctl_table *t, bool ids, size_t floor)
{
	while (total(t) > t->look->width) {
		size_t widest = t->ncols;

		for (size_t c = 0; c < t->ncols; c++) {
			bool last = floor < FLOOR, fixed = t->hidden[c] || t->time[c] || is_right(t, c) ||
				(t->cols[c].id && !ids) || (t->state[c] && !last);
			size_t word = longest_word(t->cols[c].title), least = last || word < floor ? floor : word;

			if (!fixed && t->width[c] > least && (widest == t->ncols || t->width[c] > t->width[widest]))
				widest = c;
		}
		if (widest == t->ncols)
			return;
		t->width[widest]--;
	}
}

/* What comes later may say something in a column that says nothing yet: a stream keeps all. */
static void hide(struct ctl_table *t)
{
	for (size_t c = t->ncols; c-- > 0 && t->nrows > 0 && !t->look->cmd->stream && total(t) > t->look->width;)
		t->hidden[c] = !t->said[c];
}

/* What names a row is of use when it is whole: where there is no room beside the others, it goes below them. */
static void put_below(struct ctl_table *t)
{
	for (size_t c = t->ncols; c-- > 1 && !t->below && total(t) > t->look->width;)
		if (t->cols[c].id && !t->hidden[c] && !is_right(t, c))
			t->below = c;
	if (t->below)
		t->hidden[t->below] = true;
}

static void fit(struct ctl_table *t)
{
	for (size_t c = 0; c < t->ncols; c++) {
		size_t word = longest_word(t->cols[c].title);

		t->width[c] = t->widest[c] > word ? t->widest[c] : word;
	}
	shrink(t, false, FLOOR);
}

static void measure(struct ctl_table *t)
{
	for (size_t c = 0; c < t->ncols; c++) {
		size_t title = ctl_width(t->cols[c].title, strlen(t->cols[c].title));

		for (size_t r = 0; r < t->nrows; r++) {
			const char *text = t->rows[r][c].text;
			size_t w = ctl_width(text, strlen(text));

			t->widest[c] = w > t->widest[c] ? w : t->widest[c];
		}
		t->width[c] = t->widest[c] > title ? t->widest[c] : title;
	}
	if (!t->look->width || total(t) <= t->look->width)
		return;
	if (!t->titled)
		hide(t);
	fit(t);
	if (!t->titled && total(t) > t->look->width) {
		put_below(t);
		fit(t);
	}
	shrink(t, true, FLOOR);
	shrink(t, true, FLOOR_LAST);
}

/* --- times */

static bool is_time(const char *text)
{
	return strlen(text) == TIME_LEN && text[4] == '-' && text[DATE_LEN] == ' ' && text[CLOCK_AT + CLOCK_LEN] == ' ';
}

/* In the column that the rows go by, date and zone give way to a line of their own; elsewhere seconds and zone go. */
static void shorten(struct ctl_value *cell, bool first, char *ret_date)
{
	if (cell->align != CTL_TIME || !is_time(cell->text))
		return;
	if (!first) {
		cell->text[MINUTES_LEN] = '\0';
		return;
	}
	(void)snprintf(ret_date, TIME_LEN + 1, "%.*s%s", DATE_LEN, cell->text, cell->text + CLOCK_AT + CLOCK_LEN);
	memmove(cell->text, cell->text + CLOCK_AT, CLOCK_LEN);
	cell->text[CLOCK_LEN] = '\0';
}

/* --- lines */

/* Blanks are written in front of the next cell, so that no line ends in them. */
static void put_cell(const struct ctl_table *t, size_t c, const char *p, size_t len, const char *dots,
		     const char *colour, size_t *pending, FILE *out)
{
	size_t shown = ctl_width(p, len) + (dots ? ctl_width(dots, strlen(dots)) : 0);
	size_t fill = t->width[c] > shown ? t->width[c] - shown : 0;
	bool right = is_right(t, c);

	if (right)
		*pending += fill;
	if (shown > 0) {
		fprintf(out, "%*s%s%.*s%s%s", (int)*pending, "", colour ? colour : "", (int)len, p, dots ? dots : "",
			colour ? CTL_PLAIN : "");
		*pending = 0;
	}
	*pending += GAP + (right ? 0 : fill);
}

static void put_cut(const struct ctl_table *t, const struct ctl_value *cells, FILE *out)
{
	size_t pending = 0;

	for (size_t c = 0; c < t->ncols; c++) {
		bool cut;
		size_t len = cut_to(t, cells[c].text, t->width[c], &cut);

		if (!t->hidden[c])
			put_cell(t, c, cells[c].text, len, !cut ? NULL : t->look->utf8 ? "\xe2\x80\xa6" : "...",
				 t->look->colour ? cells[c].colour : NULL, &pending, out);
	}
	fputc('\n', out);
}

/* As many lines as the longest text needs; titles when cells is NULL. */
static void put_wrapped(const struct ctl_table *t, const struct ctl_value *cells, FILE *out)
{
	const char **rest = mem_calloc(t->ncols, sizeof(*rest));
	bool more = true, bold = !cells && t->look->colour;

	for (size_t c = 0; c < t->ncols; c++)
		rest[c] = cells ? cells[c].text : t->cols[c].title;
	while (more) {
		size_t pending = 0;

		more = false;
		fputs(bold ? CTL_BOLD : "", out);
		for (size_t c = 0; c < t->ncols; c++) {
			const char *p = rest[c];
			size_t len = ctl_wrap(&rest[c], t->width[c]);

			if (t->hidden[c])
				continue;
			more = more || *rest[c];
			put_cell(t, c, p, len, NULL, cells && t->look->colour ? cells[c].colour : NULL, &pending, out);
		}
		fputs(bold ? CTL_PLAIN "\n" : "\n", out);
	}
	free(rest);
}

static void put_line_below(const struct ctl_table *t, const char *text, const char *style, FILE *out)
{
	size_t indent = t->width[0] + GAP;

	if (indent + ctl_width(text, strlen(text)) > t->look->width)
		indent = GAP;
	fprintf(out, "%*s%s%.*s%s\n", (int)indent, "", style,
		(int)width_cut(text, strlen(text), t->look->width - indent), text, *style ? CTL_PLAIN : "");
}

static void put_row(struct ctl_table *t, size_t r, const char *date, FILE *out)
{
	if (*date && strcmp(date, t->date) != 0) {
		fprintf(out, "%s%s%s\n", t->look->colour ? CTL_BOLD : "", date, t->look->colour ? CTL_PLAIN : "");
		(void)snprintf(t->date, sizeof(t->date), "%s", date);
	}
	if (t->look->cmd->shape == ADM_FINDINGS && t->look->width)
		put_wrapped(t, t->rows[r], out);
	else
		put_cut(t, t->rows[r], out);
	if (t->below)
		put_line_below(t, t->rows[r][t->below].text, "", out);
}

void ctl_table_flush(struct ctl_table *t, FILE *out)
{
	char (*dates)[TIME_LEN + 1] = mem_calloc(t->nrows, sizeof(*dates));

	for (size_t r = 0; r < t->nrows && t->look->width; r++)
		for (size_t c = 0; c < t->ncols; c++)
			shorten(&t->rows[r][c], c == 0, dates[r]);
	measure(t);
	if (!t->titled)
		put_wrapped(t, NULL, out);
	if (!t->titled && t->below)
		put_line_below(t, t->cols[t->below].title, t->look->colour ? CTL_BOLD : "", out);
	t->titled = true;
	for (size_t r = 0; r < t->nrows; r++)
		put_row(t, r, dates[r], out);
	forget_rows(t);
	free(dates);
}

/* --- rows for programs */

void ctl_write_json(const json_t *row, FILE *f)
{
	struct str out = STR_INIT;

	jx_write_seen(row, &out);
	fwrite(str_text(&out), 1, out.len, f);
	str_fini(&out);
}

static void put_object(const json_t *value, FILE *f)
{
	ctl_write_json(value, f);
	fputc('\n', f);
}

static void put_csv_cell(const json_t *value, FILE *out)
{
	char *cell = value && !json_is_null(value) && !json_is_string(value)
		? ctl_cell(value, COL_PLAIN) : mem_strdup("");
	struct str text = STR_INIT;

	text_csv(json_is_string(value) ? json_string_value(value) : cell, json_is_string(value), &text);
	fputs(str_text(&text), out);
	str_fini(&text);
	free(cell);
}

/* row NULL: the names of the columns */
static void put_csv(const struct ctl_rows *w, const json_t *row)
{
	const json_t *columns = json_object_get(w->head, "columns"), *name;
	size_t i;

	json_array_foreach(columns, i, name) {
		if (i)
			fputc(',', w->out);
		put_csv_cell(row ? json_object_get(row, json_string_value(name)) : name, w->out);
	}
	fputs("\r\n", w->out);
}

void ctl_rows_begin(struct ctl_rows *w)
{
	const json_t *header = json_object_get(w->head, "header");

	if (w->format == CTL_CSV)
		put_csv(w, NULL);
	if (w->format == CTL_JSONL && header)
		put_object(w->head, w->out);
	if (w->format != CTL_JSON)
		return;
	fputc('{', w->out);
	if (header) {
		fputs("\"header\":", w->out);
		ctl_write_json(header, w->out);
		fputs(",\n", w->out);
	}
	fputs("\"columns\":", w->out);
	ctl_write_json(json_object_get(w->head, "columns"), w->out);
	fputs(",\n\"rows\":[\n", w->out);
}

void ctl_rows_add(struct ctl_rows *w, const json_t *row)
{
	if (w->format == CTL_CSV) {
		put_csv(w, row);
		return;
	}
	if (w->format == CTL_JSON && w->n > 0)
		fputc(',', w->out);
	w->n++;
	put_object(row, w->out);
}

void ctl_rows_end(struct ctl_rows *w)
{
	if (w->format == CTL_JSON)
		fputc(']', w->out);
	if (w->next && (w->format == CTL_JSON || (w->format == CTL_JSONL && json_object_get(w->head, "header")))) {
		fputs(w->format == CTL_JSON ? ",\n\"next\":" : "{\"next\":", w->out);
		ctl_write_json(w->next, w->out);
		fputs(w->format == CTL_JSON ? "" : "}\n", w->out);
	}
	if (w->format == CTL_JSON)
		fputs("}\n", w->out);
}
