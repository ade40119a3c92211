#ifndef FETCH_INT_H
#define FETCH_INT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/text.h"

/* What fetch.c and fetch_head.c share. */

struct fetch_head {
	int status;
	struct str fields;              /* lower-case name NUL value NUL, … */
	size_t got;                     /* bytes, with interim answers and trailers */
	bool done;
	bool lengths_differ;            /* two Content-Lengths */
};
/* The next line, with its end.  1: the head is whole; 0: it goes on, or this is a trailer.  ERR_IO: it is none;
 * ERR_LIMIT: more than FETCH_HEAD_MAX. */
int fetch_head_line(struct fetch_head *h, const char *p, size_t len, struct err *err) MUST_CHECK;

#endif
