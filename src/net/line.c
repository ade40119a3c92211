/* Newline frames. */
#include "config.h"

#include "net/line.h"

#include <string.h>

ssize_t line_next(const char *p, size_t len, size_t from, size_t max, size_t *ret_len)
{
	const char *end = len > from ? memchr(p + from, '\n', len - from) : NULL;
	/* While the newline is missing, a "\r" at the end may still belong to it. */
	size_t n = end ? (size_t)(end - p) : len;
	size_t content = n > 0 && p[n - 1] == '\r' ? n - 1 : n;
	if (content > max)
		return -1;
	if (!end)
		return 0;
	*ret_len = content;
	return (ssize_t)n + 1;
}
