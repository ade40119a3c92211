/* Templates of handler blocks: a list of pieces, literal text or the name of what is inserted.  Compiled by bind() on
 * any thread, rendered for each run on the loop.  What is inserted is never read as a template again; where the text
 * goes (one element of argv, stdin, a choice) is the caller's matter. */
#include "config.h"

#include <string.h>

#include "backend/handler.h"
#include "backend/secrets.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#define SPAN_LEVELS_MAX 4               /* of a pointer that jx_scan() can follow */

enum piece_kind { PIECE_LITERAL, PIECE_ARGUMENT, PIECE_SECRET, PIECE_TENANT, PIECE_PRINCIPAL, PIECE_CALL };

struct piece {
	enum piece_kind kind;
	const char *text;               /* literal text, or the pointer or name (NUL-terminated) */
	size_t len;
};

struct tpl {
	bool maybe;                     /* a missing argument is no text */
	size_t n;
	struct piece piece[];
};

static const char *const insert_names[] = { "tenant", "principal", "call" };
static const enum piece_kind insert_kinds[] = { PIECE_TENANT, PIECE_PRINCIPAL, PIECE_CALL };

static bool pointer_valid(const char *p)
{
	for (; *p; p++) {
		if (*p == '~' && p[1] != '0' && p[1] != '1')
			return false;
	}
	return true;
}

static int compile_secret(const char *name, const char *at, unsigned may, struct piece *ret, struct err *err)
{
	if (!text_tool_name(name, strlen(name)))
		return err_set(err, ERR_INVALID, at, "{secret:%.60s}: a name has 1 to 64 of A-Z a-z 0-9 _ . -", name);
	if (!(may & TPL_SECRETS)) {             /* SEC S-345 */
		(void)err_set(err, ERR_INVALID, at,
			      "{secret:%.60s}: a secret cannot be inserted here, where others could see it", name);
		err_hint(err, "a program gets it in env: {NAME: \"{secret:%.40s}\"} or on stdin", name);
		return ERR_INVALID;
	}
	*ret = (struct piece){ PIECE_SECRET, name, strlen(name) };
	return 0;
}

/* One insert; name is what stands between the braces, NUL-terminated. */
static int compile_insert(const char *name, const char *at, unsigned may, struct piece *ret,
			  struct err *err)
{
	if (name[0] == '/') {
		if (!(may & TPL_ARGS))          /* SEC S-505 */
			return err_set(err, ERR_INVALID, at, "arguments cannot be inserted here");
		if (!pointer_valid(name))
			return err_set(err, ERR_INVALID, at,
				       "{%.60s} is no JSON pointer: ~ needs 0 or 1 after it", name);
		*ret = (struct piece){ PIECE_ARGUMENT, name, strlen(name) };
		return 0;
	}
	if (strncmp(name, "secret:", 7) == 0)
		return compile_secret(name + 7, at, may, ret, err);
	for (size_t i = 0; i < NELEMS(insert_names); i++) {
		if (strcmp(name, insert_names[i]) == 0) {
			*ret = (struct piece){ insert_kinds[i], NULL, 0 };
			return 0;
		}
	}
	(void)err_set(err, ERR_INVALID, at, "unknown insert {%.60s}", name);
	const char *near = text_nearest(name, insert_names, NELEMS(insert_names));
	if (near)
		err_hint(err, "did you mean {%s}?", near);
	else
		err_hint(err, "an argument is {/name}, a literal brace is {{ or }}");
	return ERR_INVALID;
}

static void add_literal(struct tpl *t, const char *start, const char *end)
{
	if (end > start)
		t->piece[t->n++] = (struct piece){ PIECE_LITERAL, start, (size_t)(end - start) };
}

/* Cut the arena's copy of the text into pieces; each closing brace of an insert becomes its NUL. */
static int compile_pieces(char *text, const char *at, unsigned may, struct tpl *t, struct err *err)
{
	char *start = text;

	for (char *p = text; *p; ) {
		if (*p != '{' && *p != '}') {
			p++;
			continue;
		}
		if (p[1] == *p) {
			add_literal(t, start, p + 1);
			start = p += 2;
			continue;
		}
		char *end = *p == '{' ? strchr(p, '}') : NULL;
		if (!end) {
			(void)err_set(err, ERR_INVALID, at, "a lone %c at byte %zu", *p,
				      (size_t)(p - text) + 1);
			err_hint(err, "write %c%c for a literal brace", *p, *p);
			return ERR_INVALID;
		}
		add_literal(t, start, p);
		*end = '\0';
		int rc = compile_insert(p + 1, at, may, &t->piece[t->n], err);
		if (rc < 0)
			return rc;
		t->n++;
		start = p = end + 1;
	}
	add_literal(t, start, start + strlen(start));
	return 0;
}

int tpl_compile(const char *text, const char *at, unsigned may, struct arena *mem,
		const struct tpl **ret, struct err *err)
{
	size_t braces = 0;

	for (const char *p = text; *p; p++)
		braces += *p == '{' || *p == '}';
	/* Each brace ends a literal and begins at most one insert. */
	struct tpl *t = arena_alloc(mem, sizeof(*t) + (2 * braces + 1) * sizeof(t->piece[0]));
	char *copy = arena_strdup(mem, text);
	if (!t || !copy)
		return backend_bind_full(at, err);
	t->maybe = (may & TPL_ARGS_MAYBE) == TPL_ARGS_MAYBE;
	int rc = compile_pieces(copy, at, may, t, err);
	if (rc == 0)
		*ret = t;
	return rc;
}

bool tpl_is_constant(const struct tpl *t)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->piece[i].kind != PIECE_LITERAL)
			return false;
	}
	return true;
}

bool tpl_is_of_tenant(const struct tpl *t)
{
	for (size_t i = 0; i < t->n; i++) {
		enum piece_kind kind = t->piece[i].kind;
		if (kind != PIECE_LITERAL && kind != PIECE_SECRET && kind != PIECE_TENANT)
			return false;
	}
	return true;
}

bool tpl_is_one_argument(const struct tpl *t)
{
	return t->n == 1 && t->piece[0].kind == PIECE_ARGUMENT;
}

const char *tpl_pointer(const struct tpl *t)
{
	return t->piece[0].text;
}

bool tpl_begins_with_insert(const struct tpl *t)
{
	return t->n > 0 && t->piece[0].kind != PIECE_LITERAL;
}

/* A number with a fraction, an array or an object goes out as it came in (trap 14); the tree's own spelling
 * is for pointers that the scan cannot follow. */
static void render_raw(const json_t *v, const char *pointer, const struct backend_req *req, struct str *out)
{
	struct jx_want want = { pointer, { NULL, 0 } };
	size_t levels = 0;

	for (const char *p = pointer; *p; p++)
		levels += *p == '/';
	if (levels <= SPAN_LEVELS_MAX && !strchr(pointer, '~') && req->args_len > 0 &&
	    jx_scan(req->args_text, req->args_len, &want, 1, NULL) == 0 && want.span.p)
		str_put(out, want.span.p, want.span.len);
	else
		jx_write(v, out);
}

static int render_argument(const char *pointer, bool maybe, const struct backend_req *req, struct str *out,
			   struct err *err)
{
	const json_t *v = jx_at(req->args, pointer);

	if ((!v || json_is_null(v)) && maybe)
		return 0;
	if (!v || json_is_null(v))
		return err_set(err, ERR_TOOL, pointer, "argument %.80s is missing", pointer);
	switch (json_typeof(v)) {
	case JSON_STRING:
		if (memchr(json_string_value(v), '\0', json_string_length(v)))
			return err_set(err, ERR_TOOL, pointer, "argument %.80s must not contain U+0000",
				       pointer);
		str_put(out, json_string_value(v), json_string_length(v));
		return 0;
	case JSON_INTEGER:
		str_put_i64(out, json_integer_value(v));
		return 0;
	case JSON_TRUE:
		str_puts(out, "true");
		return 0;
	case JSON_FALSE:
		str_puts(out, "false");
		return 0;
	case JSON_REAL:
	case JSON_ARRAY:
	case JSON_OBJECT:
		render_raw(v, pointer, req, out);
		return 0;
	case JSON_NULL:
		break;
	}
	return err_set(err, ERR_INTERNAL, pointer, "unknown JSON type");
}

static int render_secret(const char *name, const struct backend_req *req, struct str *out, struct err *err)
{
	const char *value = NULL;
	size_t len = 0;

	int rc = open_secrets_get(req->secrets, name, &value, &len, err);
	if (rc == 0)
		str_put(out, value, len);
	return rc;
}

int tpl_render(const struct tpl *t, const struct backend_req *req, struct str *out, struct err *err)
{
	char id[ID_TEXT_SIZE];

	for (size_t i = 0; i < t->n; i++) {
		const struct piece *p = &t->piece[i];
		int rc = 0;
		switch (p->kind) {
		case PIECE_LITERAL:
			str_put(out, p->text, p->len);
			break;
		case PIECE_ARGUMENT:
			rc = render_argument(p->text, t->maybe, req, out, err);
			break;
		case PIECE_SECRET:
			rc = render_secret(p->text, req, out, err);
			break;
		case PIECE_TENANT:
			str_puts(out, req->tenant);
			break;
		case PIECE_PRINCIPAL:
			str_puts(out, req->principal);
			break;
		case PIECE_CALL:
			str_puts(out, id_format(req->call_id, id));
			break;
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}
