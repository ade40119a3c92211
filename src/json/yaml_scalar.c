/* What a plain scalar means (YAML 1.2.2 10.3.2): null, a boolean, a number or text. */
#include "config.h"

#include "yaml_int.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

static bool is_one_of(const char *p, size_t len, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text_eq(p, len, words[i]))
			return true;
	return false;
}

static const char *digits(const char *p, const char *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

static bool is_int(const char *p, const char *end)
{
	if (p < end && (*p == '-' || *p == '+'))
		p++;
	return p < end && digits(p, end) == end;
}

/* 0o17 or 0x1F; *ret_base 0 otherwise. */
static int radix(const char *p, const char *end)
{
	const char *set;

	if (end - p < 3 || p[0] != '0' || (p[1] != 'o' && p[1] != 'x'))
		return 0;
	set = p[1] == 'o' ? "01234567" : "0123456789abcdefABCDEF";
	for (const char *c = p + 2; c < end; c++)
		if (!*c || !strchr(set, *c))
			return 0;
	return p[1] == 'o' ? 8 : 16;
}

static bool is_float(const char *p, const char *end)
{
	const char *whole, *point;

	if (p < end && (*p == '-' || *p == '+'))
		p++;
	whole = digits(p, end);
	point = whole;
	if (point < end && *point == '.') {
		const char *fraction = digits(point + 1, end);

		if (whole == p && fraction == point + 1)
			return false;
		point = fraction;
	} else if (whole == p) {
		return false;
	}
	if (point < end && (*point == 'e' || *point == 'E')) {
		point++;
		if (point < end && (*point == '-' || *point == '+'))
			point++;
		if (point == end)
			return false;
		point = digits(point, end);
	}
	return point == end;
}

/* YAML allows a plus, leading zeros and a point at either end, JSON does not. */
static json_t *make_decimal(const char *p, const char *end, const char **ret_why)
{
	struct str text = STR_INIT;
	const char *whole, *fraction;
	json_t *v;

	if (*p == '-')
		str_putc(&text, '-');
	p += *p == '-' || *p == '+';
	while (p < end && *p == '0')
		p++;
	whole = p;
	p = digits(p, end);
	str_put(&text, p > whole ? whole : "0", p > whole ? (size_t)(p - whole) : 1);
	if (p < end && *p == '.') {
		fraction = p;
		p = digits(p + 1, end);
		str_put(&text, fraction, (size_t)(p - fraction));
		str_puts(&text, p == fraction + 1 ? "0" : "");
	}
	str_put(&text, p, (size_t)(end - p));
	v = jx_number_new(text.p, text.len, ret_why);
	str_fini(&text);
	return v;
}

static json_t *make_number(const char *p, size_t len, int base, enum err_code *ret_code, const char **ret_why)
{
	json_t *v = NULL;
	char *z;

	if (!base) {
		v = make_decimal(p, p + len, ret_why);
	} else {
		z = mem_strndup(p, len);
		errno = 0;
		v = json_integer(strtoll(z + 2, NULL, base));
		if (errno) {
			json_decref(v);
			v = NULL;
			*ret_why = "a hexadecimal or octal number is beyond 64 bits (text needs quotes)";
		}
		free(z);
	}
	if (!v)
		*ret_code = ERR_LIMIT;
	return v;
}

json_t *yaml_plain(const char *p, size_t len, enum err_code *ret_code, const char **ret_why)
{
	static const char *const null[] = { "", "~", "null", "Null", "NULL" };
	static const char *const yes[] = { "true", "True", "TRUE" };
	static const char *const no[] = { "false", "False", "FALSE" };
	static const char *const beyond[] = { ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf",
		"-.INF", ".nan", ".NaN", ".NAN" };
	const char *end = p + len;

	if (is_one_of(p, len, null, NELEMS(null)))
		return json_null();
	if (is_one_of(p, len, yes, NELEMS(yes)))
		return json_true();
	if (is_one_of(p, len, no, NELEMS(no)))
		return json_false();
	if (is_one_of(p, len, beyond, NELEMS(beyond))) {
		*ret_code = ERR_INVALID;
		*ret_why = "infinity and not-a-number are no JSON values (text needs quotes)";
		return NULL;
	}
	if (radix(p, end))
		return make_number(p, len, radix(p, end), ret_code, ret_why);
	if (is_int(p, end) || is_float(p, end))
		return make_number(p, len, 0, ret_code, ret_why);
	return json_stringn(p, len);
}
