/* Scanned text to json_t.  The scan has decided about syntax, depth, names and UTF-8: here the tree is only
 * built, without recursion and without a second opinion; numbers alone can still be too much. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"

#include "json_int.h"

struct build {
	const char *p, *end;
	json_t *open[JX_DEPTH_MAX];     /* the containers around p */
	unsigned depth;
	json_t *root;
	bool named;                     /* the member that comes next has its name */
	size_t name_len;
	char name[JX_NAME_MAX];
};

/* Step over the string at p; its inside. */
static struct jx_span take_string(struct build *b, bool *ret_escaped)
{
	const char *from = b->p + 1, *p = memchr(from, '"', (size_t)(b->end - from));   /* the scan has seen one */
	const char *escape = memchr(from, '\\', (size_t)(p - from));

	*ret_escaped = escape != NULL;
	if (escape)
		for (p = escape; *p != '"'; p++)
			p += *p == '\\';
	b->p = p + 1;
	return (struct jx_span){ from, (size_t)(p - from) };
}

static void take_name(struct build *b)
{
	bool escaped;
	struct jx_span s = take_string(b, &escaped);

	if (escaped)
		b->name_len = jx_unescape(s.p, s.len, b->name, sizeof(b->name));
	else
		memcpy(b->name, s.p, b->name_len = s.len);
	b->named = true;
}

static json_t *make_string(struct build *b)
{
	bool escaped;
	struct jx_span s = take_string(b, &escaped);
	json_t *v;
	char *text;
	size_t len;

	if (!escaped)
		return json_stringn_nocheck(s.p, s.len);
	text = mem_alloc(s.len + 1);            /* no escape grows */
	len = jx_unescape(s.p, s.len, text, s.len);
	v = json_stringn_nocheck(text, len);
	explicit_bzero(text, s.len);            /* it may be a secret */
	free(text);
	return v;
}

static json_t *make_literal(struct build *b, size_t len, json_t *v)
{
	b->p += len;
	return v;
}

static json_t *make_number(struct build *b, const char **ret_why)
{
	const char *from = b->p;

	while (b->p < b->end && ((*b->p >= '0' && *b->p <= '9') || memchr("+-.eE", *b->p, 5)))
		b->p++;
	return jx_number_new(from, (size_t)(b->p - from), ret_why);
}

static json_t *make_value(struct build *b, const char **ret_why)
{
	switch (*b->p) {
	case '{':
		return make_literal(b, 1, json_object());
	case '[':
		return make_literal(b, 1, json_array());
	case '"':
		return make_string(b);
	case 't':
		return make_literal(b, 4, json_true());
	case 'f':
		return make_literal(b, 5, json_false());
	case 'n':
		return make_literal(b, 4, json_null());
	default:
		return make_number(b, ret_why);
	}
}

/* Hand the value over to the container around it, and step into it when it is one itself. */
static bool put_value(struct build *b, json_t *v)
{
	json_t *around = b->depth ? b->open[b->depth - 1] : NULL;

	if (!v)
		return false;
	if (!around)
		b->root = v;
	else if (b->named ? json_object_setn_new_nocheck(around, b->name, b->name_len, v) != 0 :
			    json_array_append_new(around, v) != 0)
		return false;
	b->named = false;
	if (json_is_object(v) || json_is_array(v))
		b->open[b->depth++] = v;
	return true;
}

static bool build_step(struct build *b, const char **ret_why)
{
	switch (*b->p) {
	case ' ':
	case '\n':
	case '\t':
	case '\r':
	case ',':
	case ':':
		b->p++;
		return true;
	case '}':
	case ']':
		b->p++;
		b->depth--;
		return true;
	case '"':
		if (b->depth && !b->named && json_is_object(b->open[b->depth - 1])) {
			take_name(b);
			return true;
		}
		break;
	default:
		break;
	}
	return put_value(b, make_value(b, ret_why));
}

int jx_parse_scanned(const char *text, size_t len, json_t **ret, struct err *err)
{
	struct build b;
	const char *why = NULL, *at = text;
	char where[32];

	b.p = text;
	b.end = text + len;
	b.depth = 0;
	b.root = NULL;
	b.named = false;
	while (b.p < b.end) {
		at = b.p;
		if (build_step(&b, &why))
			continue;
		json_decref(b.root);
		(void)snprintf(where, sizeof(where), "byte %zu", (size_t)(at - text) + 1);
		return err_set(err, ERR_LIMIT, where, "%s", why ? why : "no memory is left for the text");
	}
	*ret = b.root;
	return 0;
}

int jx_parse(const char *text, size_t len, json_t **ret, struct err *err)
{
	int rc = jx_scan(text, len, NULL, 0, err);

	return rc ? rc : jx_parse_scanned(text, len, ret, err);
}
