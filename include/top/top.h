#ifndef TOP_TOP_H
#define TOP_TOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/text.h"

/* The picture of `toolcrib top` (OP-201): two samples of what a server counts, drawn as lines of text, and the terminal
 * on which they are drawn again and again.  It knows neither commands nor sockets.  One thread. */

/* --- the picture (draw.c): pure functions */

enum top_table { TOP_TENANTS, TOP_TOOLS, TOP_UPSTREAMS, TOP_TABLES };
#define TOP_FILTER_SIZE 65              /* bytes of a filter, with its NUL */
#define TOP_NAME_CELLS 24               /* of the first column */

struct top_view {                       /* zeroed: tenants, the busiest first */
	enum top_table table;
	unsigned sort;                  /* the column, without that of names */
	char filter[TOP_FILTER_SIZE];   /* names that hold it; "" = all */
	bool typing, paused, help;
};

enum top_does { TOP_NOTHING, TOP_DRAW, TOP_QUIT };
/* What a key does to it; ?: help, q: quit. */
enum top_does top_key(struct top_view *v, char key);

struct top_size { size_t columns, lines; };     /* lines 0: as many as there are */
/* Lines, none wider than the terminal and each but the last with a line feed behind it.  before NULL: there are no
 * rates yet.  Names have no control characters, whatever the samples say. */
void top_draw(const json_t *before, const json_t *now, const struct top_view *v, struct top_size size, struct str *ret);

/* --- the terminal (screen.c): standard input and output; one at a time */

/* From now on keys come at once and are not shown, lines go to a screen of their own, and whatever ends or stops the
 * process puts back what was there before.  ERR_IO: it is no terminal. */
int top_screen_open(struct err *err) MUST_CHECK;
void top_screen_close(void);            /* also when none is open */
struct top_size top_screen_size(void);
/* A key that was typed; false: none was. */
bool top_screen_key(char *ret);
/* The size has changed, or the process went on after a stop: once for each. */
bool top_screen_changed(void);
void top_screen_show(const struct str *lines);

#endif
