#ifndef NET_LINE_H
#define NET_LINE_H

#include <stddef.h>
#include <sys/types.h>

/* Newline frames: "text\n" or "text\r\n"; pure.  Returns how many bytes the first line takes with its end and sets
 * *ret_len to its length without; 0 = not whole yet; -1 = longer than max.  from: bytes that an earlier call has
 * searched already (0 at first), so that the search is linear. */
ssize_t line_next(const char *p, size_t len, size_t from, size_t max, size_t *ret_len);

#endif
