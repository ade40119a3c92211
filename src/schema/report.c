/* Failures in words that a model can act on (MCP D), and the two paths to where they happened.  Of the
 * value only the names of members are repeated, and scalars where the caller allows it. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#include "run_int.h"

#define NAME_SHOWN 120          /* bytes of a member name */
#define PATH_SHOWN 150          /* bytes of the names on the way to a value */
#define VALUE_SHOWN 60          /* bytes of a value */
#define CHOICES_SHOWN 200       /* bytes of the values that an enum allows */
#define NEAR_MAX 200            /* names that a misspelt one is compared with */

/* PATHS */

struct paths {
	struct str value;               /* the pointer as it is */
	struct str shown;               /* as it may be told */
	struct str words;               /* "address.street", "items[3].name"; empty at the root */
	struct str keyword;
};

static void paths_fini(struct paths *p)
{
	str_fini(&p->value);
	str_fini(&p->shown);
	str_fini(&p->words);
	str_fini(&p->keyword);
}

static void put_name(struct str *out, const char *name)
{
	char shown[NAME_SHOWN];

	str_puts(out, text_printable(name, strlen(name), shown, sizeof(shown)));
}

/* Does the path begin with all of the pointer? */
static bool is_within(const char *path, const char *pointer)
{
	size_t n = strlen(pointer);

	return strncmp(path, pointer, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Is the place, or one around it, redacted? */
static bool is_hidden(const struct run *r, const char *path)
{
	for (size_t i = 0; r->redact && i < r->redact->n; i++)
		if (is_within(path, r->redact->pointers[i]))
			return true;
	return false;
}

static bool is_around_hidden(const struct run *r, const char *path)
{
	for (size_t i = 0; i < r->redact->n; i++)
		if (is_within(r->redact->pointers[i], path))
			return true;
	return false;
}

static void put_element(struct paths *p, const struct spot *at)
{
	str_printf(&p->value, "/%u", at->child_index);
	str_printf(&p->shown, "/%u", at->child_index);
	str_printf(&p->words, "[%u]", at->child_index);
}

/* A name below a redacted place is a secret as well, unless it is the schema's own. */
static void put_member(const struct run *r, struct paths *p, const struct spot *at)
{
	bool own = strcmp(at->keyword, "properties") == 0;
	const char *name = !own && is_hidden(r, str_text(&p->value)) ? "*" : at->child;

	jx_pointer_add(&p->value, at->child);
	jx_pointer_add(&p->shown, name);
	if (p->words.len)
		str_putc(&p->words, '.');
	put_name(&p->words, name);
}

static void put_keyword(struct paths *p, const struct spot *at)
{
	jx_pointer_add(&p->keyword, at->keyword);
	if (at->name)
		jx_pointer_add(&p->keyword, at->name);
	else if (at->has_index)
		str_printf(&p->keyword, "/%u", at->index);
}

/* The spots lead from where the run is to the root, paths the other way. */
static struct paths paths_to(const struct run *r, const struct spot *at)
{
	struct paths p = { STR_INIT, STR_INIT, STR_INIT, STR_INIT };
	const struct spot **way;
	size_t n = 0;

	for (const struct spot *s = at; s; s = s->up)
		n++;
	way = mem_calloc(n + 1, sizeof(const struct spot *));
	for (size_t i = n; i > 0; at = at->up)
		way[--i] = at;
	for (size_t i = 0; i < n; i++) {
		if (way[i]->element)
			put_element(&p, way[i]);
		if (way[i]->child)
			put_member(r, &p, way[i]);
		put_keyword(&p, way[i]);
	}
	free(way);
	return p;
}

/* FAILURES */

static void copy(char *ret, size_t size, const struct str *text)
{
	(void)snprintf(ret, size, "%s", str_text(text));
}

/* The next free failure with its paths, or NULL when nobody wants one. */
static struct schema_failure *next_failure(struct run *r, const struct spot *at, const char *keyword, struct paths *ret)
{
	struct schema_failure *f;

	if (run_is_over(r))
		return NULL;
	f = &r->report->failure[r->report->count++];
	*ret = paths_to(r, at);
	if (keyword)
		jx_pointer_add(&ret->keyword, keyword);
	copy(f->instance, sizeof(f->instance), &ret->shown);
	copy(f->keyword, sizeof(f->keyword), &ret->keyword);
	return f;
}

/* The value as JSON on one line, where it may be told: scalars that are neither a secret nor around one. */
static void put_value(const struct run *r, const struct paths *p, const json_t *v, struct str *out)
{
	char shown[4 * VALUE_SHOWN];
	struct str text = STR_INIT;
	size_t len;

	if (!v || !r->redact || json_is_object(v) || json_is_array(v) || is_hidden(r, str_text(&p->value)) ||
	    is_around_hidden(r, str_text(&p->value)))
		return;
	len = json_string_length(v);
	if (len > VALUE_SHOWN)
		for (len = VALUE_SHOWN; (json_string_value(v)[len] & 0xc0) == 0x80; len--)
			;
	if (json_is_string(v))
		jx_write_string(&text, json_string_value(v), len);
	else if (json_is_number(v))
		jx_write_number(jx_number(v), &text);
	else
		jx_write(v, &text);
	str_printf(out, "; got %s", text_printable(text.p, text.len > 2 * VALUE_SHOWN ? 2 * VALUE_SHOWN : text.len,
						    shown, sizeof(shown)));
	str_puts(out, len < json_string_length(v) || text.len > 2 * VALUE_SHOWN ? "..." : "");
	str_fini(&text);
}

static bool fail(struct run *r, const struct spot *at, const char *keyword, const json_t *v, const char *why)
{
	struct paths p;
	struct schema_failure *f = next_failure(r, at, keyword, &p);
	struct str got = STR_INIT;

	if (!f)
		return false;
	put_value(r, &p, v, &got);
	(void)snprintf(f->text, sizeof(f->text), "Invalid argument: %.*s: %s%s", PATH_SHOWN,
		       p.words.len ? p.words.p : "(root)", why, str_text(&got));
	str_fini(&got);
	paths_fini(&p);
	return false;
}

bool run_fail(struct run *r, const struct spot *at, const char *keyword, const char *fmt, ...)
{
	char why[sizeof(r->report->failure->text)];
	va_list ap;

	if (run_is_over(r))
		return false;
	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return fail(r, at, keyword, NULL, why);
}

bool run_fail_scalar(struct run *r, const struct spot *at, const char *keyword, const json_t *v, const char *fmt, ...)
{
	char why[sizeof(r->report->failure->text)];
	va_list ap;

	if (run_is_over(r))
		return false;
	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return fail(r, at, keyword, v, why);
}

bool run_fail_missing(struct run *r, const struct spot *at, const char *keyword, const struct name *name,
		      const char *because)
{
	struct paths p;
	struct schema_failure *f = next_failure(r, at, keyword, &p);
	struct str text = STR_INIT;

	if (!f)
		return false;
	str_printf(&text, "Missing required argument: %s%s", str_text(&p.words), p.words.len ? "." : "");
	put_name(&text, name->p);
	if (because) {
		str_puts(&text, " (it goes with ");
		put_name(&text, because);
		str_putc(&text, ')');
	}
	copy(f->text, sizeof(f->text), &text);
	str_fini(&text);
	paths_fini(&p);
	return false;
}

bool run_fail_type(struct run *r, const struct spot *at, const char *keyword, unsigned types, const json_t *v)
{
	char must[128], is[32];

	if (run_is_over(r))
		return false;
	schema_type_words(types, must, sizeof(must));
	if (json_is_real(v) && (types & TYPE_INTEGER))
		return run_fail_scalar(r, at, keyword, v, "must be %s, has a fraction", must);
	schema_type_words(schema_type_bits(v), is, sizeof(is));
	return run_fail_scalar(r, at, keyword, json_is_null(v) ? NULL : v, "must be %s, is %s", must, is);
}

static void put_constant(struct str *out, const struct constant *c)
{
	switch (c->type) {
	case TYPE_OBJECT:
		str_puts(out, "{...}");
		break;
	case TYPE_ARRAY:
		str_puts(out, "[...]");
		break;
	case TYPE_STRING:
		jx_write_string(out, c->text, c->len);
		break;
	case TYPE_NUMBER:
		jx_write_number(c->number, out);
		break;
	case TYPE_BOOLEAN:
		str_puts(out, c->truth ? "true" : "false");
		break;
	default:
		str_puts(out, "null");
	}
}

bool run_fail_constant(struct run *r, const struct spot *at, const struct constants *set, const json_t *v)
{
	struct str list = STR_INIT;
	size_t i = 0, fits = 0;

	if (run_is_over(r))
		return false;
	for (; i < set->n; i++) {
		if (i)
			str_puts(&list, ", ");
		put_constant(&list, &set->values[i]);
		if (list.len > CHOICES_SHOWN)
			break;
		fits = list.len;
	}
	if (i < set->n)
		list.len = fits;
	(void)run_fail_scalar(r, at, set->is_const ? "const" : "enum", v, "must be %s%.*s%s",
			      set->n > 1 ? "one of " : "", (int)list.len, str_text(&list), i < set->n ? ", ..." : "");
	str_fini(&list);
	return false;
}

bool run_fail_unknown(struct run *r, const struct spot *at, const struct obj_rules *rules)
{
	const char *names[NEAR_MAX], *near;
	size_t n = 0;

	if (run_is_over(r))
		return false;
	for (size_t i = 0; i < rules->nprops && n < NEAR_MAX; i++)
		if (rules->props[i].node)
			names[n++] = rules->props[i].name.p;
	near = text_nearest(at->child, names, n);
	if (near)
		return run_fail(r, at, NULL, "is not known, did you mean \"%.100s\"?", near);
	return run_fail(r, at, NULL, "is not known");
}

/* BUDGETS */

/* Room for one more failure, whatever was there before. */
static struct schema_failure *last_failure(struct schema_report *report)
{
	if (report->count == SCHEMA_ERRORS_MAX)
		report->count--;
	return &report->failure[report->count++];
}

void run_note_spent(struct run *r)
{
	struct schema_failure *f;

	if (!r->report || r->report->match_limit)
		return;
	f = last_failure(r->report);
	f->instance[0] = f->keyword[0] = '\0';
	(void)snprintf(f->text, sizeof(f->text), "Invalid argument: (root): too large or too deeply nested to be "
		       "checked against the schema");
}

void run_note_match(struct run *r, const struct spot *at)
{
	struct schema_failure *f;
	struct paths p;

	r->spent = true;
	if (!r->report || r->report->match_limit)
		return;
	r->report->match_limit = true;
	f = last_failure(r->report);
	p = paths_to(r, at);
	copy(f->instance, sizeof(f->instance), &p.shown);
	copy(f->keyword, sizeof(f->keyword), &p.keyword);
	(void)snprintf(f->text, sizeof(f->text), "Invalid argument: %.*s: takes too long to match against a pattern",
		       PATH_SHOWN, p.words.len ? p.words.p : "(root)");
	paths_fini(&p);
}
