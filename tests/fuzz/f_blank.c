/* Fuzz target: blanking of secrets.  The first two lines are values (an empty one is none), the rest is what a tool says. */

#include "config.h"

#include <stdbool.h>
#include <string.h>

#include <jansson.h>

#include "backend/secrets.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "keys/secrets.h"
#include "fuzz.h"

#define VALUE_MAX 200
#define FORM_MIN 4                      /* bytes of a spelling that is looked for (blank.c) */

struct value { const char *p; size_t len; };

static int open_value(void *arg, const char *name, char **ret, size_t *ret_len, struct err *err)
{
	const struct value *v = (const struct value *)arg + (*name - 'a');

	*ret = secret_alloc(v->len + 1);
	memcpy(*ret, v->p, v->len);
	(*ret)[v->len] = '\0';
	*ret_len = v->len;
	return 0;
}

static bool holds(const char *p, size_t len, const char *what, size_t n)
{
	return memmem(p, len, what, n) != NULL;
}

/* What stands in place of a value may look like one of these itself. */
static bool can_be_told(const struct value *v)
{
	return v->len > 0 && !memchr(v->p, '[', v->len) && !memchr(v->p, ']', v->len) && !holds("secret:a", 8, v->p, v->len) &&
	       !holds("secret:b", 8, v->p, v->len);
}

static void check_gone(const struct open_secrets *s, const char *said, size_t len, const char *what, size_t n)
{
	struct str out = STR_INIT;

	mask_text(s, said, len, &out);
	FUZZ_CHECK(!holds(str_text(&out), out.len, what, n));
	str_fini(&out);
}

/* An encoded value in the midst of a text is not found in it afterwards. */
static void check_encoded(const struct open_secrets *s, const char *text, size_t len, const char *encoded, size_t n)
{
	struct str said = STR_INIT;

	str_put(&said, text, len);
	str_puts(&said, "  ");
	str_put(&said, encoded, n);
	str_puts(&said, "  ");
	str_put(&said, text, len);
	check_gone(s, said.p, said.len, encoded, n);
	str_fini(&said);
}

static void check_encodings(const struct open_secrets *s, const struct value *v, const char *text, size_t len)
{
	char *hex = mem_alloc(2 * v->len + 1), *base64 = mem_alloc(text_base64_size(v->len));
	struct str percent = STR_INIT, json = STR_INIT;
	size_t digits = 8 * v->len / 6;         /* those that the value alone decides */
	size_t latin = 0;                       /* bytes beyond ASCII */

	text_hex(v->p, v->len, hex);
	text_base64(v->p, v->len, base64);
	for (size_t i = 0; i < v->len; i++) {
		str_printf(&percent, "%%%02X", (unsigned char)v->p[i]);
		str_printf(&json, "\\u00%02x", (unsigned char)v->p[i]);
		latin += (unsigned char)v->p[i] >= 0x80;
	}
	check_encoded(s, text, len, v->p, v->len);
	check_encoded(s, text, len, percent.p, percent.len);
	if (latin == 0 || v->len + latin >= FORM_MIN)   /* taken for Latin-1 */
		check_encoded(s, text, len, json.p, json.len);
	if (2 * v->len >= FORM_MIN)
		check_encoded(s, text, len, hex, 2 * v->len);
	if (digits >= FORM_MIN)
		check_encoded(s, text, len, base64, digits);
	str_fini(&percent);
	str_fini(&json);
	free(hex);
	free(base64);
}

static void check_error(const struct open_secrets *s, const struct value *v, const char *text, size_t len)
{
	struct err err = { .code = ERR_TOOL };

	if (len > sizeof(err.msg) - 1)
		len = sizeof(err.msg) - 1;
	memcpy(err.msg, text, len);
	mask_err(s, &err);
	FUZZ_CHECK(memchr(err.msg, '\0', sizeof(err.msg)));
	FUZZ_CHECK(!can_be_told(v) || !holds(err.msg, strlen(err.msg), v->p, v->len));
}

static void check_json(const struct open_secrets *s, const char *text, size_t len)
{
	struct str out = STR_INIT;

	if (!text_utf8_valid(text, len))
		return;
	mask_text(s, text, len, &out);
	json_t *v = mask_json(s, json_pack("[o]", json_stringn_nocheck(text, len)));
	const json_t *first = json_array_get(v, 0);
	if (text_utf8_valid(str_text(&out), out.len)) {
		FUZZ_CHECK(json_string_length(first) == out.len);
		FUZZ_CHECK(memcmp(json_string_value(first), str_text(&out), out.len) == 0);
	}
	json_decref(v);
	str_fini(&out);
}

static bool take_line(const char **p, size_t *len, struct value *ret)
{
	const char *end = memchr(*p, '\n', *len);

	if (!end)
		return false;
	*ret = (struct value){ *p, (size_t)(end - *p) };
	*len -= ret->len + 1;
	*p = end + 1;
	return ret->len <= VALUE_MAX && !memchr(ret->p, '\0', ret->len);
}

FUZZ_TARGET(blank)
{
	const char *text = (const char *)data, *got;
	struct value values[2];
	const struct secret_source from = { .arg = values, .open = open_value };
	size_t n;

	if (!take_line(&text, &size, &values[0]) || !take_line(&text, &size, &values[1]))
		return 0;
	FUZZ_CHECK(secret_init() == 0);
	struct open_secrets *s = open_secrets_new(&from);
	for (int i = 0; i < 2; i++)
		FUZZ_CHECK(values[i].len == 0 || open_secrets_get(s, i ? "b" : "a", &got, &n, NULL) == 0);
	for (int i = 0; i < 2; i++) {
		if (can_be_told(&values[i])) {
			check_gone(s, text, size, values[i].p, values[i].len);
			check_encodings(s, &values[i], text, size);
		}
		check_error(s, &values[i], text, size);
	}
	check_json(s, text, size);
	open_secrets_free(&s);
	return 0;
}
