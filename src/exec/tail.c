/* exec: what a failed call shows of stderr. */
#include "config.h"

#include "exec_int.h"

#include <string.h>

#include "base/text.h"

#define TAIL_LINES 20
#define TAIL_SHOWN 4096                 /* in at most this many bytes */

/* The start of what is shown of stderr: the last lines, whole. */
static const char *last_lines(const struct str *tail, size_t max)
{
	const char *end = tail->p + tail->len, *p = end;
	unsigned lines = 0;

	if (p > tail->p && p[-1] == '\n')
		p--;
	while (p > tail->p && (size_t)(end - p) < max) {
		if (p[-1] == '\n' && ++lines == TAIL_LINES)
			break;
		p--;
	}
	/* Cut inside a line: begin with the next one, if there is one. */
	if (p > tail->p && p[-1] != '\n') {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		if (nl && nl + 1 < end)
			p = nl + 1;
	}
	return p;
}

/* Line by line, so that line breaks stay and other control bytes show as escapes. */
void exec_put_tail(const struct str *tail, struct str *out)
{
	char shown[TAIL_SHOWN * 4 + 1];

	if (tail->len == 0)
		return;
	const char *end = tail->p + tail->len;
	for (const char *p = last_lines(tail, TAIL_SHOWN); p < end; ) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		const char *stop = nl ? nl : end;
		text_printable(p, (size_t)(stop - p), shown, sizeof(shown));
		str_printf(out, "\n%s", shown);
		p = stop + 1;
	}
}
