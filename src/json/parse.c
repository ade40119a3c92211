/* Scanned text to json_t, by jansson. */
#include "config.h"

#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "json_int.h"

/* Does the escape at p stand for half a character? */
static bool is_lone(const char *p, const char *end, size_t *ret_len)
{
	int unit;

	*ret_len = 2;
	if (p[1] != 'u')
		return false;
	unit = jx_hex4(p + 2);
	return jx_unescape_u(p, end, ret_len) == JX_REPLACEMENT && unit >= 0xd800 && unit <= 0xdfff;
}

/* jansson refuses lone surrogates, JavaScript writes them: a copy of the text in which each is \ufffd
 * (as long, so that places stay true), or NULL when there is none.  A backslash is nothing but the
 * start of an escape in a text that has been scanned. */
static char *mend_surrogates(const char *text, size_t len)
{
	const char *end = text + len, *p = text;
	char *copy = NULL;
	size_t n;

	while (p < end && (p = memchr(p, '\\', (size_t)(end - p)))) {
		if (is_lone(p, end, &n)) {
			if (!copy)
				copy = mem_dup(text, len);
			memcpy(copy + (p - text), "\\ufffd", 6);
		}
		p += n;
	}
	return copy;
}

int jx_parse_scanned(const char *text, size_t len, json_t **ret, struct err *err)
{
	char *mended = mend_surrogates(text, len), where[32];
	json_error_t e;
	json_t *v = json_loadb(mended ? mended : text, len,
			       JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);

	free(mended);
	if (v) {
		*ret = v;
		return 0;
	}
	(void)snprintf(where, sizeof where, "byte %d", e.position);
	if (json_error_code(&e) == json_error_numeric_overflow)
		return err_set(err, ERR_LIMIT, where, "a number is too large: integers end at 64 bits, "
			       "others at 1.8e308");
	return err_set(err, ERR_INTERNAL, where, "the parser refuses what the scan accepted");
}

int jx_parse(const char *text, size_t len, json_t **ret, struct err *err)
{
	int rc = jx_scan(text, len, NULL, 0, err);

	return rc ? rc : jx_parse_scanned(text, len, ret, err);
}
