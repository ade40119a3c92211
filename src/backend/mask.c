/* Secret masking: the secrets that a run has in use, and [secret:NAME] in their place in what it says.  run.c masks
 * centrally, handlers what they log or cut; loop thread.
 *
 * A value is looked for as it is; as base64, hex and mistaken Latin-1, whose spellings are made once; and in copies of
 * the text with %XX and with backslash escapes decoded, so that it does not matter which characters somebody chose to
 * encode; two backslashes are read as one and as two, since an escape may begin at either.  Every pass is linear in the
 * text: a tool that knows the value cannot make the search slow. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/secrets.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "keys/secrets.h"

/* What secrets.c keeps and mask.c looks for. */

#define SECRET_FORMS_MAX 9              /* base64 in two alphabets at three alignments, hex in two cases, Latin-1 */

struct secret_form { char *p; size_t len; };    /* not NUL-terminated */
struct used_secret {
	char *name;
	char *value; size_t len;                /* guarded memory */
	struct secret_form form[SECRET_FORMS_MAX]; size_t nforms;
	struct secret_form latin;               /* one of them, or nothing */
};
struct open_secrets {
	const struct secret_source *from;
	struct used_secret *used; size_t n;
};

/* --- secrets in use */

/* Opened once by name, wiped at the end of the run, the link or the worker that has them. */

struct open_secrets *open_secrets_new(const struct secret_source *from)
{
	struct open_secrets *s = mem_zalloc(sizeof(*s));

	s->from = from;
	return s;
}

static void used_fini(struct used_secret *u)
{
	for (size_t i = 0; i < u->nforms; i++) {
		secret_wipe(u->form[i].p, u->form[i].len);
		free(u->form[i].p);
	}
	secret_free(u->value);
	free(u->name);
}

void open_secrets_free(struct open_secrets **s)
{
	if (!s || !*s)
		return;
	for (size_t i = 0; i < (*s)->n; i++)
		used_fini(&(*s)->used[i]);
	free((*s)->used);
	free(*s);
	*s = NULL;
}

bool open_secrets_any(const struct open_secrets *s)
{
	return s && s->n > 0;
}

static void secret_forms(struct used_secret *u);

static int open_value(struct open_secrets *s, const char *name, struct used_secret *u, struct err *err)
{
	struct err why;

	int rc = s && s->from ? s->from->open(s->from->arg, name, &u->value, &u->len, &why) : ERR_NOT_FOUND;
	if (rc == ERR_NOT_FOUND)
		return err_set(err, ERR_TOOL, "", "the secret %.64s, which this tool needs, is not set; nothing has "
			       "run", name);
	if (rc < 0)
		return err_set(err, ERR_TOOL, "", "the secret %.64s cannot be opened: %s; nothing has run", name,
			       why.msg);
	u->name = mem_strdup(name);
	secret_forms(u);
	return 0;
}

int open_secrets_get(struct open_secrets *s, const char *name, const char **ret, size_t *ret_len, struct err *err)
{
	size_t i = 0;

	while (s && i < s->n && strcmp(s->used[i].name, name) != 0)
		i++;
	if (i == OPEN_SECRETS_MAX)
		return err_set(err, ERR_LIMIT, "", "the tool uses more than %d secrets", OPEN_SECRETS_MAX);
	if (!s || i == s->n) {
		struct used_secret u = { .name = NULL };
		int rc = open_value(s, name, &u, err);
		if (rc < 0)
			return rc;
		s->used = mem_realloc(s->used, (s->n + 1) * sizeof(*s->used));
		s->used[s->n++] = u;
	}
	*ret = s->used[i].value;
	*ret_len = s->used[i].len;
	return 0;
}

#define FORM_MIN 4                      /* a shorter piece would be found everywhere */

/* --- spellings */

static size_t utf8(uint32_t c, char ret[4])
{
	if (c < 0x80) {
		ret[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		ret[0] = (char)(0xc0 | c >> 6);
		ret[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		ret[0] = (char)(0xe0 | c >> 12);
		ret[1] = (char)(0x80 | (c >> 6 & 0x3f));
		ret[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	ret[0] = (char)(0xf0 | c >> 18);
	ret[1] = (char)(0x80 | (c >> 12 & 0x3f));
	ret[2] = (char)(0x80 | (c >> 6 & 0x3f));
	ret[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* The form, which may have been there; NULL: it is too short. */
static const struct secret_form *add_form(struct used_secret *u, const char *p, size_t len)
{
	if (len < FORM_MIN)
		return NULL;
	for (size_t i = 0; i < u->nforms; i++) {
		if (u->form[i].len == len && memcmp(u->form[i].p, p, len) == 0)
			return &u->form[i];
	}
	u->form[u->nforms] = (struct secret_form){ mem_dup(p, len), len };
	return &u->form[u->nforms++];
}

/* The digits that depend on the value alone when `before` bytes of something else stand before it in the group, as in
 * "user:value" of an Authorization header. */
static void add_base64(struct used_secret *u, size_t before)
{
	size_t n = before + u->len, first = (8 * before + 5) / 6, end = 8 * n / 6;
	char *plain = mem_zalloc(n), *text = mem_alloc(text_base64_size(n));

	memcpy(plain + before, u->value, u->len);
	text_base64(plain, n, text);
	add_form(u, text + first, end - first);
	for (char *p = text; *p; p++)
		*p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
	add_form(u, text + first, end - first);
	explicit_bzero(plain, n);
	explicit_bzero(text, strlen(text));
	free(plain);
	free(text);
}

static void add_hex(struct used_secret *u)
{
	char *text = mem_alloc(2 * u->len + 1);

	text_hex(u->value, u->len, text);
	add_form(u, text, 2 * u->len);
	for (char *p = text; *p; p++)
		*p = (char)(*p >= 'a' && *p <= 'f' ? *p - 'a' + 'A' : *p);
	add_form(u, text, 2 * u->len);
	explicit_bzero(text, 2 * u->len);
	free(text);
}

/* Bytes taken for Latin-1, as servers do with headers, and written as UTF-8. */
static void add_latin(struct used_secret *u)
{
	char *text = mem_alloc(2 * u->len);
	size_t n = 0;

	for (size_t i = 0; i < u->len; i++)
		n += utf8((unsigned char)u->value[i], text + n);
	const struct secret_form *form = n > u->len ? add_form(u, text, n) : NULL;
	if (form)
		u->latin = *form;
	explicit_bzero(text, n);
	free(text);
}

/* mask.c: fill in the encoded forms of the value */
static void secret_forms(struct used_secret *u)
{
	for (size_t before = 0; before < 3; before++)
		add_base64(u, before);
	add_hex(u);
	add_latin(u);
}

/* --- decoded copies */

struct decoded {
	char *p;
	size_t *from;                   /* where byte i began in the text; from[len] = its end */
	size_t len;
};

static void decoded_fini(struct decoded *d)
{
	if (d->p)
		explicit_bzero(d->p, d->len);
	free(d->p);
	free(d->from);
}

static bool hex_digits(const char *p, const char *end, size_t n, uint32_t *ret)
{
	uint32_t v = 0;

	if ((size_t)(end - p) < n)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = p[i];
		if (c >= '0' && c <= '9')
			v = v << 4 | (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
		else
			return false;
	}
	*ret = v;
	return true;
}

static void put_decoded(struct decoded *d, size_t from, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		d->from[d->len] = from;
		d->p[d->len++] = p[i];
	}
}

/* %XX at p: its length, or 0. */
static size_t percent(const char *p, const char *end, char ret[4], size_t *ret_n)
{
	uint32_t v;

	if (*p != '%' || !hex_digits(p + 1, end, 2, &v))
		return 0;
	ret[0] = (char)v;
	*ret_n = 1;
	return 3;
}

/* \u{N}, as text_printable() writes it: its length, or 0. */
static size_t braced(const char *p, const char *end, char ret[4], size_t *ret_n)
{
	uint32_t v;

	for (size_t n = 1; n <= 6; n++) {
		if ((size_t)(end - p) < n + 4 || !hex_digits(p + 3, end, n, &v))
			return 0;
		if (p[3 + n] == '}' && v <= 0x10ffff) {
			*ret_n = utf8(v, ret);
			return n + 4;
		}
	}
	return 0;
}

static size_t unicode(const char *p, const char *end, char ret[4], size_t *ret_n)
{
	uint32_t v, low;

	if (end - p > 3 && p[2] == '{')
		return braced(p, end, ret, ret_n);
	if (!hex_digits(p + 2, end, 4, &v))
		return 0;
	if (v >= 0xd800 && v < 0xdc00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u' &&
	    hex_digits(p + 8, end, 4, &low) && low >= 0xdc00 && low < 0xe000) {
		*ret_n = utf8(0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00), ret);
		return 12;
	}
	*ret_n = utf8(v, ret);
	return 6;
}

/* A backslash escape at p, as JSON, C and our own logs write it, but for that of a backslash: its length, or 0. */
static size_t unpaired(const char *p, const char *end, char ret[4], size_t *ret_n)
{
	static const char letters[] = "bfnrt\"/'", bytes[] = "\b\f\n\r\t\"/'";
	uint32_t v;

	if (*p != '\\' || end - p < 2)
		return 0;
	if (p[1] == 'u')
		return unicode(p, end, ret, ret_n);
	*ret_n = 1;
	if (p[1] == 'x' && hex_digits(p + 2, end, 2, &v)) {
		ret[0] = (char)v;
		return 4;
	}
	const char *at = memchr(letters, p[1], sizeof(letters) - 1);
	if (!at)
		return 0;
	ret[0] = bytes[at - letters];
	return 2;
}

static size_t backslash(const char *p, const char *end, char ret[4], size_t *ret_n)
{
	if (end - p < 2 || p[0] != '\\' || p[1] != '\\')
		return unpaired(p, end, ret, ret_n);
	ret[0] = '\\';
	*ret_n = 1;
	return 2;
}

typedef size_t escape_fn(const char *p, const char *end, char ret[4], size_t *ret_n);

static void decode(const char *p, size_t len, escape_fn *escape, struct decoded *d)
{
	const char *start = p, *end = p + len;

	d->p = mem_alloc(len);
	d->from = mem_calloc(len + 1, sizeof(*d->from));
	while (p < end) {
		char c[4];
		size_t n = 1, used = escape(p, end, c, &n);
		if (used > 0) {
			put_decoded(d, (size_t)(p - start), c, n);
			p += used;
		} else {
			put_decoded(d, (size_t)(p - start), p, 1);
			p++;
		}
	}
	d->from[d->len] = len;
}

/* --- marks */

/* mark[i] = 1 + index of the secret that byte i is part of; made at the first find. */
struct marks { uint8_t *mark; size_t len; };

static void set_marks(struct marks *m, size_t from, size_t end, size_t secret)
{
	if (!m->mark)
		m->mark = mem_zalloc(m->len);
	memset(m->mark + from, (int)secret + 1, end - from);
}

/* All places of one spelling; d: the text is its decoded copy. */
static void find_all(struct marks *m, const char *p, size_t len, const struct decoded *d, const char *what, size_t n,
		     size_t secret)
{
	const char *at = p, *end = p + len;

	while ((at = memmem(at, (size_t)(end - at), what, n)) != NULL) {
		size_t from = (size_t)(at - p);
		at += n;
		if (d)
			set_marks(m, d->from[from], d->from[from + n], secret);
		else
			set_marks(m, from, from + n, secret);
	}
}

static void find_decoded_one(struct marks *m, const struct decoded *d, const struct used_secret *u, size_t secret)
{
	find_all(m, d->p, d->len, d, u->value, u->len, secret);
	if (u->latin.len > 0)
		find_all(m, d->p, d->len, d, u->latin.p, u->latin.len, secret);
}

static void find_decoded(struct marks *m, const struct open_secrets *s, const char *p, size_t len, const char *sign,
			 escape_fn *escape)
{
	struct decoded d = { .p = NULL };

	if (!memmem(p, len, sign, strlen(sign)))
		return;
	decode(p, len, escape, &d);
	for (size_t i = 0; i < s->n; i++)
		find_decoded_one(m, &d, &s->used[i], i);
	decoded_fini(&d);
}

static void find_secrets(struct marks *m, const struct open_secrets *s, const char *p, size_t len)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct used_secret *u = &s->used[i];
		find_all(m, p, len, NULL, u->value, u->len, i);
		for (size_t k = 0; k < u->nforms; k++)
			find_all(m, p, len, NULL, u->form[k].p, u->form[k].len, i);
	}
	find_decoded(m, s, p, len, "%", percent);
	find_decoded(m, s, p, len, "\\", backslash);
	find_decoded(m, s, p, len, "\\\\", unpaired);
}

static void put_masked(const struct open_secrets *s, const struct marks *m, const char *p, struct str *out)
{
	for (size_t i = 0; i < m->len; ) {
		size_t from = i;
		uint8_t mark = m->mark[i];
		while (i < m->len && m->mark[i] == mark)
			i++;
		if (mark == 0)
			str_put(out, p + from, i - from);
		else
			str_printf(out, "[secret:%s]", s->used[mark - 1].name);
	}
}

/* True, and out has the text, when something was masked. */
static bool mask_found(const struct open_secrets *s, const char *p, size_t len, struct str *out)
{
	struct marks m = { .len = len };

	if (!open_secrets_any(s) || len == 0)
		return false;
	find_secrets(&m, s, p, len);
	if (!m.mark)
		return false;
	put_masked(s, &m, p, out);
	free(m.mark);
	metric_inc(METRIC_secrets_blanked);
	return true;
}

void mask_text(const struct open_secrets *s, const char *p, size_t len, struct str *out)
{
	if (!mask_found(s, p, len, out))
		str_put(out, p, len);
}

/* --- JSON */

static json_t *mask_string(const struct open_secrets *s, json_t *v)
{
	struct str out = STR_INIT;

	if (!mask_found(s, json_string_value(v), json_string_length(v), &out))
		return json_incref(v);
	json_t *copy = json_stringn_nocheck(str_text(&out), out.len);
	str_fini(&out);
	return copy;
}

/* A value of digits alone may stand as a number. */
static json_t *mask_integer(const struct open_secrets *s, json_t *v)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(v));

	for (size_t i = 0; i < s->n; i++) {
		if (s->used[i].len == (size_t)n && memcmp(s->used[i].value, text, (size_t)n) == 0)
			return json_sprintf("[secret:%s]", s->used[i].name);
	}
	return json_incref(v);
}

static json_t *mask_value(const struct open_secrets *s, json_t *v);

/* Two keys that become one: the later one stays. */
static json_t *mask_object(const struct open_secrets *s, json_t *v)
{
	json_t *copy = json_object(), *member;
	const char *key;

	json_object_foreach(v, key, member) {
		struct str out = STR_INIT;
		if (mask_found(s, key, strlen(key), &out))
			json_object_set_new_nocheck(copy, str_text(&out), mask_value(s, member));
		else
			json_object_set_new_nocheck(copy, key, mask_value(s, member));
		str_fini(&out);
	}
	return copy;
}

static json_t *mask_array(const struct open_secrets *s, json_t *v)
{
	json_t *copy = json_array(), *element;
	size_t i;

	json_array_foreach(v, i, element)
		json_array_append_new(copy, mask_value(s, element));
	return copy;
}

/* A new reference.  The depth is bounded by the parser (JX_DEPTH_MAX). */
static json_t *mask_value(const struct open_secrets *s, json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return mask_object(s, v);
	case JSON_ARRAY:
		return mask_array(s, v);
	case JSON_STRING:
		return mask_string(s, v);
	case JSON_INTEGER:
		return mask_integer(s, v);
	case JSON_REAL:
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		break;
	}
	return json_incref(v);
}

json_t *mask_json(const struct open_secrets *s, json_t *v)
{
	if (!v || !open_secrets_any(s))
		return v;
	json_t *copy = mask_value(s, v);
	json_decref(v);
	return copy;
}

/* --- errors */

/* The length of the longest end of the text that begins a value or one of its spellings. */
static size_t begun(const char *p, size_t len, const char *what, size_t n)
{
	for (size_t k = n - 1 < len ? n - 1 : len; k >= FORM_MIN; k--) {
		if (memcmp(p + len - k, what, k) == 0)
			return k;
	}
	return 0;
}

/* size: of the array that holds z; a text that fills it may have been cut inside a value. */
static void mask_buffer(const struct open_secrets *s, char *z, size_t size)
{
	struct str out = STR_INIT;
	size_t len = strlen(z), cut = 0;

	for (size_t i = 0; i < s->n && len + 5 > size; i++) {
		size_t k = begun(z, len, s->used[i].value, s->used[i].len);
		cut = k > cut ? k : cut;
		for (size_t f = 0; f < s->used[i].nforms; f++) {
			k = begun(z, len, s->used[i].form[f].p, s->used[i].form[f].len);
			cut = k > cut ? k : cut;
		}
	}
	mask_text(s, z, len - cut, &out);
	snprintf(z, size, "%s", str_text(&out));
	str_fini(&out);
}

void mask_err(const struct open_secrets *s, struct err *err)
{
	if (!open_secrets_any(s))
		return;
	mask_buffer(s, err->where, sizeof(err->where));
	mask_buffer(s, err->msg, sizeof(err->msg));
	mask_buffer(s, err->hint, sizeof(err->hint));
}
