/* The end of trees that held secrets (SEC S-344). */
#include "config.h"

#include "json/json.h"

#include <string.h>

/* What somebody else holds, too, is left to the last one.  As deep as the tree: parsed ones have JX_DEPTH_MAX. */
static void overwrite(json_t *v)
{
	const char *name;
	json_t *member;
	size_t i;

	if (v->refcount != 1)
		return;
	if (json_is_string(v))
		explicit_bzero((char *)(uintptr_t)json_string_value(v), json_string_length(v));
	json_array_foreach(v, i, member)
		overwrite(member);
	json_object_foreach(v, name, member)
		overwrite(member);
}

void jx_wipe(json_t **v)
{
	if (*v)
		overwrite(*v);
	json_decref(*v);
	*v = NULL;
}
