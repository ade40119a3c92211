/*
 * URI templates (RFC 6570, levels 1 to 3), read backwards: does a template generate this URI, and from which values?
 *
 * A template is cut into items, literal text or one variable each.  A variable takes as much as it can and gives back
 * what the rest needs, like a greedy regular expression; a state that has failed is not tried again, and a match has
 * a budget of steps, so that no URI costs more than that.  Simple and reserved expansion need a value, what has an
 * operator of its own may be left out as a whole, as an expansion leaves out what is undefined.
 */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "registry_int.h"

enum {
	ITEMS_MAX = 32,
	VARIABLE_MAX = 64,              /* characters of a name */
	STEPS_MAX = 50000,              /* of one match */
};

struct item {
	char op;                        /* operator, ' ' for simple expansion, 0 for literal text */
	bool first;                     /* of its expression */
	const char *p; size_t len;      /* the text, or the name */
};

struct template { struct item item[ITEMS_MAX]; size_t n; };

#define UNRESERVED "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
#define RESERVED ":/?#[]@!$&'()*+,;="

static bool is_one_of(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

/* Bytes above ASCII are what clients send for characters that they should have encoded. */
static bool may_stand_in(char c, char op)
{
	return is_one_of(c, UNRESERVED "%") || (unsigned char)c >= 0x80 ||
	       ((op == '+' || op == '#') && is_one_of(c, RESERVED));
}

/* The wrong thing about a template, or NULL. */
static const char *add_item(struct template *t, struct item item)
{
	if (t->n == ITEMS_MAX)
		return "has too many parts";
	t->item[t->n++] = item;
	return NULL;
}

static const char *parse_name(struct template *t, const char *p, size_t len, char op, bool first)
{
	if (len == 0 || len > VARIABLE_MAX)
		return "has a variable without a name, or with one of more than 64 characters";
	for (size_t i = 0; i < len; i++) {
		if (p[i] == '*' || p[i] == ':')
			return "has a modifier (* or :), which cannot be read backwards";
		if (!is_one_of(p[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"))
			return "has a variable whose name is not made of letters, digits and _";
	}
	if (text_eq(p, len, "uri"))
		return "has a variable uri, which is the name of the whole URI";
	for (size_t i = 0; i < t->n; i++)
		if (t->item[i].op && t->item[i].len == len && memcmp(t->item[i].p, p, len) == 0)
			return "has a variable twice";
	return add_item(t, (struct item){ .op = op, .first = first, .p = p, .len = len });
}

/* One expression, from behind its brace to the closing one. */
static const char *parse_expression(struct template *t, const char *p, const char *end)
{
	const struct item *before = t->n ? &t->item[t->n - 1] : NULL;
	char op = p < end && is_one_of(*p, "+#./;?&") ? *p++ : ' ';
	bool first = true;

	if (before && before->op && (op == ' ' || op == '+'))
		return "has two expressions side by side, and nothing tells their values apart";
	for (;;) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
		const char *wrong = parse_name(t, p, (size_t)(stop - p), op, first);

		if (wrong || !comma)
			return wrong;
		p = comma + 1;
		first = false;
	}
}

static const char *parse(const char *pattern, struct template *t)
{
	const char *wrong = NULL;

	t->n = 0;
	for (const char *p = pattern; *p && !wrong;) {
		size_t len = strcspn(p, "{}");
		const char *end;

		if (len > 0) {
			wrong = add_item(t, (struct item){ .p = p, .len = len });
			p += len;
			continue;
		}
		end = *p == '{' ? strchr(p, '}') : NULL;
		if (!end)
			return "has a brace without its other one";
		wrong = parse_expression(t, p + 1, end);
		p = end + 1;
	}
	return wrong;
}

/* RFC 3986 3.1: what stands before the first colon. */
static bool has_scheme(const char *uri)
{
	const char *colon = strchr(uri, ':');

	if (!colon || !is_one_of(*uri, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
		return false;
	for (const char *p = uri; p < colon; p++)
		if (!is_one_of(*p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-."))
			return false;
	return true;
}

bool uri_is_page(const char *uri)
{
	return strncasecmp(uri, "ui:", 3) == 0;
}

static bool hex(char c)
{
	return is_one_of(c, "0123456789ABCDEFabcdef");
}

/* Characters of a URI, and those of an expression where `braces` is true. */
static bool is_uri_text(const char *uri, bool braces)
{
	for (const char *p = uri; *p; p++) {
		if (braces && *p == '{')
			p += strcspn(p, "}");
		if (*p == '%' ? !hex(p[1]) || !hex(p[2]) : !is_one_of(*p, UNRESERVED RESERVED) && !(braces && *p == '}'))
			return false;
	}
	return true;
}

/* One of n characters is "." or "..", written any way: hosts that take a URI apart would go elsewhere with it. */
static bool is_dots(const char *p, size_t n)
{
	size_t dots = 0;

	while (n > 0) {
		size_t step = *p == '.' ? 1 : n >= 3 && strncasecmp(p, "%2e", 3) == 0 ? 3 : 0;

		if (!step || ++dots > 2)
			return false;
		p += step;
		n -= step;
	}
	return dots > 0;
}

static bool has_dots(const char *uri)
{
	for (const char *p = uri, *end; p; p = end ? end + 1 : NULL) {
		end = strchr(p, '/');
		if (is_dots(p, end ? (size_t)(end - p) : strcspn(p, "?#")))
			return true;
	}
	return false;
}

int uri_check(const char *uri, const char *at, bool template, struct err *err)
{
	struct template t;
	const char *wrong = template ? parse(uri, &t) : NULL;
	int rc;

	if (strlen(uri) > REG_URI_MAX)
		return err_set(err, ERR_LIMIT, at, "has %zu bytes, more than %d", strlen(uri), REG_URI_MAX);
	if (!wrong && (!has_scheme(uri) || !is_uri_text(uri, template)))
		wrong = template ? "is no URI template" : "is no URI";
	if (!wrong && uri_is_page(uri) && has_dots(uri))
		wrong = "has a . or .. between its slashes, which a page may not have";
	if (!wrong && template && t.n == 1)
		wrong = "has no variable: this is a resource";
	if (!wrong)
		return 0;
	rc = err_set(err, ERR_INVALID, at, "%s", wrong);
	err_hint(err, template ? "as in files://docs/{name} (RFC 6570, levels 1 to 3)" :
		 "as in files://docs/readme; a space is %%20");
	return rc;
}

size_t uri_template_literals(const char *pattern)
{
	struct template t;
	size_t n = 0;

	if (parse(pattern, &t))
		return 0;
	for (size_t i = 0; i < t.n; i++)
		n += t.item[i].op ? 0 : t.item[i].len;
	return n;
}

bool uri_template_has(const char *pattern, const char *variable)
{
	struct template t;

	if (parse(pattern, &t))
		return false;
	for (size_t i = 0; i < t.n; i++)
		if (t.item[i].op && text_eq(t.item[i].p, t.item[i].len, variable))
			return true;
	return false;
}

/* --- matching */

struct match {
	const struct template *t;
	const char *uri; size_t len;
	unsigned char *failed;          /* bit of (item, an item of its expression stands before it, position) */
	size_t steps;
	struct jx_span value[ITEMS_MAX];
};

static bool match_from(struct match *m, size_t i, bool any, size_t at);

/* The separator before a variable's value: at what position the value begins, or SIZE_MAX. */
static size_t skip_lead(const struct match *m, const struct item *v, bool any, size_t at)
{
	char lead = v->op;
	size_t named = 0;

	if (v->op == ' ' || v->op == '+' || v->op == '#')
		lead = any ? ',' : v->op == '#' ? '#' : '\0';
	else if (v->op == '?' && any)
		lead = '&';
	if (lead) {
		if (at == m->len || m->uri[at] != lead)
			return SIZE_MAX;
		at++;
	}
	if (v->op == '?' || v->op == '&' || v->op == ';') {
		if (m->len - at < v->len || memcmp(m->uri + at, v->p, v->len) != 0)
			return SIZE_MAX;
		at += v->len;
		named = at < m->len && m->uri[at] == '=';
		if (!named && v->op != ';')
			return SIZE_MAX;        /* RFC 6570 3.2.7: only ;x stands without = */
	}
	return at + named;
}

static bool match_variable(struct match *m, size_t i, bool any, size_t at)
{
	const struct item *v = &m->t->item[i];
	bool optional = !is_one_of(v->op, " +") || !v->first;
	bool may_be_empty = !is_one_of(v->op, " +");
	size_t begin = skip_lead(m, v, any, at), end = begin;

	if (begin != SIZE_MAX) {
		while (end < m->len && may_stand_in(m->uri[end], v->op))
			end++;
		m->steps += end - begin + 1;
		for (size_t e = end; e >= begin + !may_be_empty && m->steps < STEPS_MAX; e--) {
			if (match_from(m, i + 1, true, e)) {
				m->value[i] = (struct jx_span){ m->uri + begin, e - begin };
				return true;
			}
			if (e == begin)
				break;
		}
	}
	return optional && match_from(m, i + 1, any, at);
}

static bool match_from(struct match *m, size_t i, bool any, size_t at)
{
	const struct item *item = &m->t->item[i];
	size_t bit;
	bool ok;

	if (i == m->t->n)
		return at == m->len;
	any = any && item->op && !item->first;
	bit = ((i * 2 + any) * (m->len + 1)) + at;
	if (m->failed[bit / 8] & 1u << bit % 8 || ++m->steps > STEPS_MAX)
		return false;
	if (item->op)
		ok = match_variable(m, i, any, at);
	else
		ok = m->len - at >= item->len && memcmp(m->uri + at, item->p, item->len) == 0 &&
			match_from(m, i + 1, false, at + item->len);
	if (!ok)
		m->failed[bit / 8] |= (unsigned char)(1u << bit % 8);
	return ok;
}

static unsigned unhex(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

/* MCP U-05: a handler may build a path from it. */
static bool has_dot_segment(const char *p)
{
	for (;;) {
		size_t len = strcspn(p, "/\\");

		if ((len == 1 && *p == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
			return true;
		if (p[len] == '\0')
			return false;
		p += len + 1;
	}
}

static bool decode(struct jx_span raw, struct str *ret)
{
	for (size_t i = 0; i < raw.len; i++) {
		if (raw.p[i] != '%') {
			str_putc(ret, raw.p[i]);
			continue;
		}
		if (raw.len - i < 3 || !hex(raw.p[i + 1]) || !hex(raw.p[i + 2]))
			return false;
		str_putc(ret, (char)(unhex(raw.p[i + 1]) << 4 | unhex(raw.p[i + 2])));
		i += 2;
	}
	return !memchr(str_text(ret), '\0', ret->len) && text_utf8_valid(str_text(ret), ret->len) &&
		!has_dot_segment(str_text(ret));
}

/* The values as texts; false: one of them cannot be one. */
static bool take_values(const struct match *m, json_t *values)
{
	struct str text = STR_INIT;
	char name[VARIABLE_MAX + 1];
	bool ok = true;

	for (size_t i = 0; i < m->t->n && ok; i++) {
		const struct item *v = &m->t->item[i];

		if (!v->op || !m->value[i].p)
			continue;
		str_reset(&text);
		ok = decode(m->value[i], &text);
		(void)snprintf(name, sizeof(name), "%.*s", (int)v->len, v->p); /* fits */
		if (ok)
			json_object_set_new(values, name, json_stringn(str_text(&text), text.len));
	}
	str_fini(&text);
	return ok;
}

bool reg_uri_match(const char *pattern, const char *uri, size_t len, json_t **ret_values)
{
	size_t begin = strcspn(pattern, "{");
	struct template t;
	struct match m = { .t = &t, .uri = uri, .len = len };
	json_t *values;
	bool ok;

	/* Most templates are not of this URI: their beginning says so. */
	if (len > REG_URI_MAX || len < begin || memcmp(uri, pattern, begin) != 0 || parse(pattern, &t) || t.n == 0)
		return false;
	m.failed = mem_zalloc(t.n * 2 * (len + 1) / 8 + 1);
	ok = match_from(&m, 0, false, 0);
	free(m.failed);
	values = json_object();
	ok = ok && take_values(&m, values);
	if (ok && ret_values)
		*ret_values = json_incref(values);
	json_decref(values);
	return ok;
}

bool reg_has_uri(const struct registry *reg, const char *uri)
{
	const void *key;
	size_t len;
	void *v;

	for (size_t it = 0; map_next(reg->current, &it, &key, &len, &v); ) {
		const struct reg_def *def = &((const struct reg_node *)v)->pub;

		if ((def->kind == REG_RESOURCE && strcmp(def->uri, uri) == 0) ||
		    (def->kind == REG_TEMPLATE && reg_uri_match(def->uri, uri, strlen(uri), NULL)))
			return true;
	}
	return false;
}
