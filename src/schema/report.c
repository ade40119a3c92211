/* Failures in words that a model can act on (MCP D), and the two paths to where they happened.  Nothing of
 * the value is repeated but the names of members. */
#include "config.h"

#include "run_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"

#define NAME_SHOWN 120          /* bytes of a member name */
#define CHOICES_SHOWN 200       /* bytes of the values that an enum allows */
#define NEAR_MAX 200            /* names that a misspelt one is compared with */

static void put_name(struct str *out, const char *name)
{
	char shown[NAME_SHOWN];

	str_puts(out, text_printable(name, strlen(name), shown, sizeof shown));
}

/* "address.street", "items[3].name"; "" at the root. */
static void put_dotted(struct str *out, const struct spot *at)
{
	if (!at)
		return;
	put_dotted(out, at->up);
	if (at->element)
		str_printf(out, "[%u]", at->child_index);
	if (!at->child)
		return;
	if (out->len)
		str_putc(out, '.');
	put_name(out, at->child);
}

static void put_instance(struct str *out, const struct spot *at)
{
	if (!at)
		return;
	put_instance(out, at->up);
	if (at->element)
		str_printf(out, "/%u", at->child_index);
	if (at->child)
		jx_pointer_add(out, at->child);
}

static void put_keyword(struct str *out, const struct spot *at)
{
	if (!at)
		return;
	put_keyword(out, at->up);
	jx_pointer_add(out, at->keyword);
	if (at->name)
		jx_pointer_add(out, at->name);
	else if (at->has_index)
		str_printf(out, "/%u", at->index);
}

static void copy(char *ret, size_t size, struct str *text)
{
	(void)snprintf(ret, size, "%s", str_text(text));
	str_fini(text);
}

/* The next free failure with its paths, or NULL when nobody wants one. */
static struct schema_failure *next_failure(struct run *r, const struct spot *at, const char *keyword)
{
	struct str instance = STR_INIT, path = STR_INIT;
	struct schema_failure *f;

	if (run_is_over(r))
		return NULL;
	f = &r->report->failure[r->report->count++];
	put_instance(&instance, at);
	put_keyword(&path, at);
	if (keyword)
		jx_pointer_add(&path, keyword);
	copy(f->instance, sizeof f->instance, &instance);
	copy(f->keyword, sizeof f->keyword, &path);
	return f;
}

bool run_fail(struct run *r, const struct spot *at, const char *keyword, const char *fmt, ...)
{
	struct schema_failure *f = next_failure(r, at, keyword);
	struct str text = STR_INIT;
	char why[sizeof f->text];
	va_list ap;

	if (!f)
		return false;
	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	put_dotted(&text, at);
	(void)snprintf(f->text, sizeof f->text, "Invalid argument: %.150s: ", text.len ? text.p : "(root)");
	str_reset(&text);
	str_printf(&text, "%s%s", f->text, why);
	copy(f->text, sizeof f->text, &text);
	return false;
}

bool run_fail_missing(struct run *r, const struct spot *at, const char *keyword, const struct name *name,
		      const char *because)
{
	struct schema_failure *f = next_failure(r, at, keyword);
	struct str text = STR_INIT, path = STR_INIT;

	if (!f)
		return false;
	put_dotted(&path, at);
	if (path.len)
		str_putc(&path, '.');
	put_name(&path, name->p);
	str_printf(&text, "Missing required argument: %s", path.p);
	if (because) {
		str_puts(&text, " (it goes with ");
		put_name(&text, because);
		str_putc(&text, ')');
	}
	str_fini(&path);
	copy(f->text, sizeof f->text, &text);
	return false;
}

bool run_fail_type(struct run *r, const struct spot *at, const char *keyword, unsigned types, const json_t *v)
{
	char must[128], is[32];

	if (run_is_over(r))
		return false;
	schema_type_words(types, must, sizeof must);
	if (json_is_real(v) && (types & TYPE_INTEGER))
		return run_fail(r, at, keyword, "must be %s, has a fraction", must);
	schema_type_words(schema_type_bits(v), is, sizeof is);
	return run_fail(r, at, keyword, "must be %s, is %s", must, is);
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

bool run_fail_constant(struct run *r, const struct spot *at, const struct constants *set)
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
	(void)run_fail(r, at, set->is_const ? "const" : "enum", "must be %s%.*s%s", set->n > 1 ? "one of " : "",
		       (int)list.len, str_text(&list), i < set->n ? ", ..." : "");
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

void run_note_spent(struct run *r)
{
	struct schema_failure *f;

	if (!r->report)
		return;
	if (r->report->count == SCHEMA_ERRORS_MAX)
		r->report->count--;
	f = &r->report->failure[r->report->count++];
	f->instance[0] = f->keyword[0] = '\0';
	(void)snprintf(f->text, sizeof f->text, "Invalid argument: (root): too large or too deeply nested to be "
		       "checked against the schema");
}
