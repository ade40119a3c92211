/* Fuzz target: newline frames, as the line transports and the admin socket cut them.  The first byte says in what
 * pieces the rest arrives, the second how long a line may be.  Whatever the pieces, the same lines come out and a line
 * that is too long is refused at the same place; no line is lost, longer than allowed or has its end inside. */

#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "fuzz.h"
#include "net/stream.h"

#define LINES_MAX 4096u                 /* of one input; what comes later is not compared */

struct cut { size_t start, len; };

struct cuts {
	struct cut line[LINES_MAX];
	size_t n, consumed;
	bool refused;
};

/* Whether the bytes of a line without its end may stand for n bytes "text\n" or "text\r\n". */
static void check_line(const char *p, size_t used, size_t len, size_t max)
{
	FUZZ_CHECK(used >= 1 && len <= max && len < used && used - len <= 2);
	FUZZ_CHECK(p[used - 1] == '\n' && !memchr(p, '\n', used - 1));
	FUZZ_CHECK(used - len == 1 || p[len] == '\r');
}

/* A refused line does not fit, however it goes on. */
static void check_refused(const char *p, size_t len, size_t max)
{
	FUZZ_CHECK(len > max && !memchr(p, '\n', max + 1));
	FUZZ_CHECK(p[max] != '\r' || (len > max + 1 && p[max + 1] != '\n'));
}

/* Read as a connection does: after each piece all lines that are whole, and remember how far the search went. */
static void read_pieces(const char *p, size_t len, size_t step, size_t max, struct cuts *ret)
{
	size_t have = 0, searched = 0;

	ret->n = ret->consumed = 0;
	ret->refused = false;
	while (have < len && !ret->refused) {
		have = have + step < len ? have + step : len;
		for (;;) {
			const char *from = p + ret->consumed;
			size_t line = 0;
			ssize_t used = line_next(from, have - ret->consumed, searched, max, &line);

			searched = have - ret->consumed;
			ret->refused = used < 0;
			if (used <= 0)
				break;
			FUZZ_CHECK((size_t)used <= searched);
			check_line(from, (size_t)used, line, max);
			if (ret->n < LINES_MAX)
				ret->line[ret->n++] = (struct cut){ ret->consumed, line };
			ret->consumed += (size_t)used;
			searched = 0;
		}
	}
}

FUZZ_TARGET(line)
{
	static struct cuts whole, pieces;

	if (size < 2)
		return 0;
	size_t len = size - 2, step = (size_t)data[0] + 1, max = data[1];
	const char *p = (const char *)data + 2;

	read_pieces(p, len, len + 1, max, &whole);
	read_pieces(p, len, step, max, &pieces);
	FUZZ_CHECK(whole.refused == pieces.refused && whole.consumed == pieces.consumed && whole.n == pieces.n);
	FUZZ_CHECK(memcmp(whole.line, pieces.line, whole.n * sizeof whole.line[0]) == 0);
	if (whole.refused)
		check_refused(p + whole.consumed, len - whole.consumed, max);
	else
		FUZZ_CHECK(!memchr(p + whole.consumed, '\n', len - whole.consumed));
	return 0;
}
