/* Formats as assertions. */
#include "config.h"

#include "schema_int.h"

struct format { const char *name, *words; };
const struct format *format_find(const char *name, size_t len)
{
	return NULL;
}
const char *format_words(const struct format *f)
{
	return f->words;
}
bool format_check(const struct format *f, const char *p, size_t len)
{
	return true;
}
