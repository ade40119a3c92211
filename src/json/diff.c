/* What differs between two trees. */
#include "config.h"

#include "json/json.h"

#include "base/text.h"

struct diff {
	struct str pointer;
	jx_diff_fn *fn;
	void *arg;
};

static void compare(struct diff *d, const json_t *a, const json_t *b);

static size_t enter(struct diff *d, const char *token)
{
	size_t mark = d->pointer.len;

	jx_pointer_add(&d->pointer, token);
	return mark;
}

static void leave(struct diff *d, size_t mark)
{
	d->pointer.len = mark;
	d->pointer.p[mark] = '\0';
}

/* In the order of a, then what is new in b. */
static void compare_objects(struct diff *d, const json_t *a, const json_t *b)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)a, name, v) {
		size_t mark = enter(d, name);

		compare(d, v, json_object_get(b, name));
		leave(d, mark);
	}
	json_object_foreach((json_t *)(uintptr_t)b, name, v) {
		size_t mark;

		if (json_object_get(a, name))
			continue;
		mark = enter(d, name);
		compare(d, NULL, v);
		leave(d, mark);
	}
}

static void compare_arrays(struct diff *d, const json_t *a, const json_t *b)
{
	size_t n = json_array_size(a), m = json_array_size(b);

	for (size_t i = 0; i < n || i < m; i++) {
		size_t mark = d->pointer.len;

		str_printf(&d->pointer, "/%zu", i);
		compare(d, json_array_get(a, i), json_array_get(b, i));
		leave(d, mark);
	}
}

/* The depth is the parser's. */
static void compare(struct diff *d, const json_t *a, const json_t *b)
{
	if (json_is_object(a) && json_is_object(b))
		compare_objects(d, a, b);
	else if (json_is_array(a) && json_is_array(b))
		compare_arrays(d, a, b);
	else if (!a || !b || !jx_equal(a, b))
		d->fn(d->arg, str_text(&d->pointer), a, b);
}

void jx_diff(const json_t *a, const json_t *b, jx_diff_fn *fn, void *arg)
{
	struct diff d = { .pointer = STR_INIT, .fn = fn, .arg = arg };

	compare(&d, a, b);
	str_fini(&d.pointer);
}
