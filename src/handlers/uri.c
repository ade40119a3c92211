/* URL templates of the http handler, RFC 6570 level 3: simple, path, label, parameter and query expansion; `*` behind a
 * list, for its elements one by one.  `{+x}` here means "slashes stay" and is for paths only; `{#x}` is refused, for
 * fragments are not sent.  Compiled on any thread, expanded on the loop.  Arguments are percent-encoded and never reach
 * scheme, host or port (SEC S-708). */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "http_int.h"

#define VARS_MAX 64                     /* of a template */
#define NAME_MAX_BYTES 64

enum uri_op { OP_SIMPLE, OP_SLASHES, OP_PATH, OP_LABEL, OP_PARAM, OP_QUERY, OP_AND };

static const struct op_row {
	char mark;              /* behind the brace */
	char first, sep;        /* before the first value, and the others */
	bool named;             /* name=value */
	bool query;             /* belongs into the query */
} op_rows[] = {
	[OP_SIMPLE] = { '\0', '\0', ',', false, false },
	[OP_SLASHES] = { '+', '\0', ',', false, false },
	[OP_PATH] = { '/', '/', '/', false, false },
	[OP_LABEL] = { '.', '.', '.', false, false },
	[OP_PARAM] = { ';', ';', ';', true, false },
	[OP_QUERY] = { '?', '?', '&', true, true },
	[OP_AND] = { '&', '&', '&', true, true },
};

struct uri_var {
	const char *name;
	const struct tpl *value;        /* `{/name}` */
	bool each;                      /* `*` */
};

struct uri_piece {
	const char *text; size_t len;   /* literal text; NULL = an expression */
	enum uri_op op;
	bool in_query;                  /* a `?` stands before it */
	const struct uri_var *vars; size_t nvars;
};

struct uri_tpl {
	size_t n;
	struct uri_piece piece[];
};

/* --- compile */

static int compile_var(char *spec, const char *at, struct arena *mem, struct uri_var *ret, struct err *err)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	char pointer[NAME_MAX_BYTES + 4];
	size_t len = strlen(spec);

	if (len > 0 && spec[len - 1] == '*') {
		spec[--len] = '\0';
		ret->each = true;
	}
	if (strncmp(spec, "secret:", 7) == 0) {
		(void)err_set(err, ERR_INVALID, at, "a secret cannot be part of the URL, which others could see");
		err_hint(err, "put it into headers, query or body");
		return ERR_INVALID;
	}
	if (len == 0 || len > NAME_MAX_BYTES || strspn(spec, chars) != len) {
		(void)err_set(err, ERR_INVALID, at, "{%.60s}: a URL takes names of arguments", spec);
		err_hint(err, "as in https://api.example.com/users/{id}{?fields,page} (RFC 6570)");
		return ERR_INVALID;
	}
	ret->name = spec;
	snprintf(pointer, sizeof(pointer), "{/%s}", spec);      /* fits */
	return tpl_compile(pointer, at, TPL_ARGS, mem, &ret->value, err);
}

/* spec is what stands between the braces. */
static int compile_vars(char *spec, const char *at, struct arena *mem, struct uri_piece *piece, struct err *err)
{
	struct uri_var *vars;
	size_t n = 1, i = 0;

	for (const char *p = spec; *p; p++)
		n += *p == ',';
	if (n > VARS_MAX)
		return err_set(err, ERR_LIMIT, at, "an expression has at most %d arguments", VARS_MAX);
	vars = arena_alloc(mem, n * sizeof(*vars));
	if (!vars)
		return backend_bind_full(at, err);
	for (char *p = spec; p; i++) {
		char *comma = strchr(p, ',');
		if (comma)
			*comma = '\0';
		int rc = compile_var(p, at, mem, &vars[i], err);
		if (rc < 0)
			return rc;
		p = comma ? comma + 1 : NULL;
	}
	piece->vars = vars;
	piece->nvars = n;
	return 0;
}

static int compile_expression(char *spec, const char *at, struct arena *mem, struct uri_piece *piece, struct err *err)
{
	piece->op = OP_SIMPLE;
	for (size_t i = OP_SLASHES; i < NELEMS(op_rows); i++) {
		if (spec[0] == op_rows[i].mark) {
			piece->op = (enum uri_op)i;
			spec++;
			break;
		}
	}
	if (piece->op == OP_SIMPLE && strchr("#=,!@|", spec[0]) && spec[0])
		return err_set(err, ERR_INVALID, at, "the operator %c of {%.40s} is not known here", spec[0], spec);
	if (piece->in_query && (piece->op != OP_SIMPLE && piece->op != OP_AND)) {
		(void)err_set(err, ERR_INVALID, at, "{%c%.40s} cannot stand behind a ?", op_rows[piece->op].mark, spec);
		if (piece->op == OP_QUERY)
			err_hint(err, "write {&%.40s}", spec);
		return ERR_INVALID;
	}
	if (!piece->in_query && piece->op == OP_AND) {
		(void)err_set(err, ERR_INVALID, at, "{&%.40s} has no ? before it", spec);
		err_hint(err, "write {?%.40s}", spec);
		return ERR_INVALID;
	}
	return compile_vars(spec, at, mem, piece, err);
}

/* Cut the arena's copy of the text into pieces. */
static int compile_pieces(char *text, const char *at, struct arena *mem, struct uri_tpl *t, struct err *err)
{
	bool in_query = false;

	for (char *p = text; *p; ) {
		size_t len = strcspn(p, "{}");
		char *end = *p == '{' ? strchr(p, '}') : NULL;
		if (len == 0 && !end)
			return err_set(err, ERR_INVALID, at, "a lone %c at byte %zu", *p, (size_t)(p - text) + 1);
		struct uri_piece *piece = &t->piece[t->n++];    /* there is room for what is no fault */
		*piece = (struct uri_piece){ .in_query = in_query };
		if (len > 0) {
			piece->text = p;
			piece->len = len;
			in_query = in_query || memchr(p, '?', len);
			p += len;
			continue;
		}
		*end = '\0';
		int rc = compile_expression(p + 1, at, mem, piece, err);
		if (rc < 0)
			return rc;
		in_query = in_query || op_rows[piece->op].query;
		p = end + 1;
	}
	return 0;
}

/* What the template becomes when all arguments are there, or none is. */
static int parse_sample(const struct uri_tpl *t, bool there, const char *at, struct url *ret, struct err *err)
{
	struct str sample = STR_INIT;

	for (size_t i = 0; i < t->n; i++) {
		const struct uri_piece *piece = &t->piece[i];

		if (piece->text)
			str_put(&sample, piece->text, piece->len);
		else if (there && op_rows[piece->op].first)
			str_printf(&sample, "%cx", op_rows[piece->op].first);
		else if (there)
			str_putc(&sample, 'x');
	}
	int rc = url_parse(str_text(&sample), sample.len, at, ret, err);
	str_fini(&sample);
	if (rc == 0 && ret->target > t->piece[0].len) {
		(void)err_set(err, ERR_INVALID, at, "an argument cannot be part of the host or port");
		err_hint(err, "put a / behind the host");
		rc = ERR_INVALID;
	}
	return rc;
}

/* Scheme, host and port stand in the literal text in front, and an argument cannot become a part of them, nor end them
 * by being there: "https://a.example{/path}.example" has another host without it. */
static int check_base(const struct uri_tpl *t, const char *at, struct url *ret, struct err *err)
{
	struct url without;
	int rc;

	if (t->n == 0 || !t->piece[0].text)
		return err_set(err, ERR_INVALID, at,
			       "must begin with https:// or http:// and a host, not with an argument");
	rc = parse_sample(t, true, at, ret, err);
	return rc < 0 ? rc : parse_sample(t, false, at, &without, err);
}

int uri_compile(const char *text, const char *at, struct arena *mem, const struct uri_tpl **ret, struct url *ret_base,
		struct err *err)
{
	size_t braces = 0;

	if (strlen(text) > URL_MAX)
		return err_set(err, ERR_LIMIT, at, "the URL is longer than %d bytes", URL_MAX);
	for (const char *p = text; *p; p++)
		braces += *p == '{';
	struct uri_tpl *t = arena_alloc(mem, sizeof(*t) + (2 * braces + 1) * sizeof(t->piece[0]));
	char *copy = arena_strdup(mem, text);
	if (!t || !copy)
		return backend_bind_full(at, err);
	int rc = compile_pieces(copy, at, mem, t, err);
	if (rc == 0)
		rc = check_base(t, at, ret_base, err);
	if (rc == 0)
		*ret = t;
	return rc;
}

/* --- expand */

void uri_encode(const char *p, size_t len, bool slashes, struct str *out)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)p[i];
		bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c != '\0' && strchr("-._~", c)) || (slashes && c == '/');
		if (plain) {
			str_putc(out, (char)c);
		} else {
			str_putc(out, '%');
			str_putc(out, digits[c >> 4]);
			str_putc(out, digits[c & 15]);
		}
	}
}

static int wrong_value(const struct uri_var *v, const char *why, struct err *err)
{
	return err_set(err, ERR_TOOL, "", "argument %.64s %s", v->name, why);
}

/* A scalar; tmp is scratch. */
static int put_scalar(const struct uri_var *v, const json_t *value, const struct backend_req *req, bool slashes,
		      struct str *tmp, struct str *out, struct err *err)
{
	int rc = 0;

	str_reset(tmp);
	if (json_is_string(value))
		str_put(tmp, json_string_value(value), json_string_length(value));
	else if (json_is_object(value) || json_is_array(value) || json_is_null(value))
		rc = wrong_value(v, "has elements that a URL cannot hold", err);
	else if (value == json_object_get(req->args, v->name))
		rc = tpl_render(v->value, req, tmp, err);       /* in the spelling in which it came */
	else
		jx_write(value, tmp);
	if (rc == 0 && memchr(str_text(tmp), '\0', tmp->len))
		rc = wrong_value(v, "must not contain U+0000", err);
	if (rc == 0)
		uri_encode(str_text(tmp), tmp->len, slashes, out);
	return rc;
}

/* RFC 6570 3.2.7 - 3.2.9: a parameter without a value has no `=`, a query always has one. */
static void put_name(enum uri_op op, const struct uri_var *v, bool empty, struct str *out)
{
	if (!op_rows[op].named)
		return;
	uri_encode(v->name, strlen(v->name), false, out);
	if (!empty || op != OP_PARAM)
		str_putc(out, '=');
}

static bool is_empty(const json_t *value)
{
	return json_is_string(value) && json_string_length(value) == 0;
}

static int put_list(enum uri_op op, const struct uri_var *v, const json_t *list, const struct backend_req *req,
		    struct str *tmp, struct str *out, struct err *err)
{
	const json_t *item;
	size_t i;
	int rc = 0;

	json_array_foreach(list, i, item) {
		if (i == 0 || v->each) {
			if (i > 0)
				str_putc(out, op_rows[op].sep);
			put_name(op, v, is_empty(item) && v->each, out);
		} else {
			str_putc(out, ',');
		}
		rc = put_scalar(v, item, req, op == OP_SLASHES, tmp, out, err);
		if (rc < 0)
			break;
	}
	return rc;
}

/* `/users/{id}` without an id would be another resource. */
static bool must_be_there(const struct uri_piece *piece)
{
	return !piece->in_query && (piece->op == OP_SIMPLE || piece->op == OP_SLASHES);
}

static bool is_absent(const json_t *value)
{
	return !value || json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
}

static int expand_piece(const struct uri_piece *piece, const struct backend_req *req, struct str *tmp, struct str *out,
			struct err *err)
{
	const struct op_row *row = &op_rows[piece->op];
	size_t done = 0;

	for (size_t i = 0; i < piece->nvars; i++) {
		const struct uri_var *v = &piece->vars[i];
		const json_t *value = json_object_get(req->args, v->name);
		int rc;

		if (must_be_there(piece) && (is_absent(value) || is_empty(value)))
			return wrong_value(v, is_absent(value) ? "is missing" : "is empty", err);
		if (is_absent(value))
			continue;
		if (done++ > 0)
			str_putc(out, row->sep);
		else if (row->first)
			str_putc(out, row->first);
		if (json_is_array(value)) {
			rc = put_list(piece->op, v, value, req, tmp, out, err);
		} else {
			put_name(piece->op, v, is_empty(value), out);
			rc = put_scalar(v, value, req, piece->op == OP_SLASHES, tmp, out, err);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

int uri_expand(const struct uri_tpl *t, const struct backend_req *req, struct str *out, struct err *err)
{
	struct str tmp = STR_INIT;
	int rc = 0;

	for (size_t i = 0; i < t->n && rc == 0; i++) {
		if (t->piece[i].text)
			str_put(out, t->piece[i].text, t->piece[i].len);
		else
			rc = expand_piece(&t->piece[i], req, &tmp, out, err);
	}
	str_fini(&tmp);
	return rc;
}
