/* Aligned columns: as wide as their widest cell, numbers to the right. */

#include "config.h"

#include "ctl_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define GAP 2                           /* blanks between columns */
#define BOLD "\x1b[1m"
#define PLAIN "\x1b[0m"

struct ctl_table {
	size_t ncols, nrows, cap;
	char ***rows;                   /* nrows arrays of ncols cells */
	bool *text, *number;            /* a column that holds a text, a number */
	size_t *width;                  /* of the widest cell so far */
};

struct ctl_table *ctl_table_new(size_t ncols)
{
	struct ctl_table *t = mem_zalloc(sizeof *t);

	t->ncols = ncols;
	t->text = mem_calloc(ncols, sizeof *t->text);
	t->number = mem_calloc(ncols, sizeof *t->number);
	t->width = mem_calloc(ncols, sizeof *t->width);
	return t;
}

void ctl_table_add(struct ctl_table *t, char **cells, const enum ctl_align *align)
{
	if (t->nrows == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->rows = mem_realloc(t->rows, t->cap * sizeof(char **));
	}
	t->rows[t->nrows++] = cells;
	for (size_t c = 0; c < t->ncols; c++) {
		t->number[c] = t->number[c] || align[c] == CTL_NUMBER;
		t->text[c] = t->text[c] || align[c] == CTL_TEXT;
	}
}

static size_t width_of(const char *cell)
{
	return text_utf8_count(cell, strlen(cell));
}

/* Blanks are written in front of the next cell, so that no line ends in them. */
static void print_cells(const struct ctl_table *t, const char *const *cells, const size_t *width, FILE *out)
{
	size_t pending = 0;

	for (size_t c = 0; c < t->ncols; c++) {
		size_t fill = width[c] - width_of(cells[c]);
		bool right = t->number[c] && !t->text[c];

		if (right)
			pending += fill;
		if (*cells[c]) {
			fprintf(out, "%*s%s", (int)pending, "", cells[c]);
			pending = 0;
		}
		pending += GAP + (right ? 0 : fill);
	}
}

static void widen(struct ctl_table *t, const char *const *titles)
{
	for (size_t c = 0; c < t->ncols; c++) {
		if (titles && width_of(titles[c]) > t->width[c])
			t->width[c] = width_of(titles[c]);
		for (size_t r = 0; r < t->nrows; r++)
			if (width_of(t->rows[r][c]) > t->width[c])
				t->width[c] = width_of(t->rows[r][c]);
	}
}

static void forget_rows(struct ctl_table *t)
{
	for (size_t r = 0; r < t->nrows; r++) {
		for (size_t c = 0; c < t->ncols; c++)
			free(t->rows[r][c]);
		free(t->rows[r]);
	}
	t->nrows = 0;
}

void ctl_table_flush(struct ctl_table *t, const char *const *titles, bool colour, FILE *out)
{
	widen(t, titles);
	if (titles) {
		fputs(colour ? BOLD : "", out);
		print_cells(t, titles, t->width, out);
		fputs(colour ? PLAIN "\n" : "\n", out);
	}
	for (size_t r = 0; r < t->nrows; r++) {
		print_cells(t, (const char *const *)t->rows[r], t->width, out);
		fputc('\n', out);
	}
	forget_rows(t);
}

void ctl_table_free(struct ctl_table **tp)
{
	struct ctl_table *t = tp ? *tp : NULL;

	if (!t)
		return;
	*tp = NULL;
	forget_rows(t);
	free(t->rows);
	free(t->text);
	free(t->number);
	free(t->width);
	free(t);
}
