/* What differs, for people: a sign, a place, what was there and what is.  And documents, as files have them. */
#include "config.h"

#include "ctl_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/yaml.h"

#define VALUE_BYTES 96                  /* of a value that is shown; longer ones are cut */

static const char *colour_of(const struct ctl_print *p, char sign)
{
	if (!p->colour)
		return "";
	return sign == '+' ? "\x1b[32m" : sign == '-' ? "\x1b[31m" : "\x1b[33m";
}

/* The value in one line; free() it. */
static char *short_cell(const json_t *value)
{
	static const char more[] = "…";
	char *whole = ctl_cell(value, COL_PLAIN), *cut;
	size_t n = VALUE_BYTES;

	if (strlen(whole) <= VALUE_BYTES)
		return whole;
	while (n > 0 && ((unsigned char)whole[n] & 0xc0) == 0x80)       /* between characters only */
		n--;
	cut = mem_printf("%.*s%s", (int)n, whole, more);
	free(whole);
	return cut;
}

static void print_change(const struct ctl_print *p, const json_t *change, const char *indent)
{
	const char *sign = json_string_value(json_object_get(change, "sign"));
	const json_t *from = json_object_get(change, "from"), *to = json_object_get(change, "to");
	char *where = ctl_cell(json_object_get(change, "where"), COL_PLAIN);
	char *a = from ? short_cell(from) : NULL, *b = to ? short_cell(to) : NULL;

	fprintf(p->out, "%s%s%s%s %s: %s%s%s\n", indent, colour_of(p, sign ? *sign : '~'), sign ? sign : "~",
		p->colour ? "\x1b[0m" : "", where, a ? a : "", a && b ? " -> " : "", b ? b : "");
	free(where);
	free(a);
	free(b);
}

void ctl_print_diff(const struct ctl_print *p, const json_t *row)
{
	const char *sign = json_string_value(json_object_get(row, "sign"));
	const json_t *changes = json_object_get(row, "changes"), *change;
	size_t i;

	if (json_object_get(row, "summary")) {
		char *text = ctl_cell(json_object_get(row, "summary"), COL_PLAIN);

		if (!p->quiet)
			fprintf(p->out, "%s\n", text);
		free(text);
		return;
	}
	if (json_object_get(row, "where")) {
		print_change(p, row, "");
		return;
	}
	char *what = ctl_cell(json_object_get(row, "what"), COL_PLAIN), *said = ctl_cell(json_object_get(row, "said"), COL_PLAIN);

	fprintf(p->out, "%s%s%s %s%s%s\n", colour_of(p, sign ? *sign : '~'), sign ? sign : "~", p->colour ? "\x1b[0m" : "", what,
		strcmp(said, "-") == 0 ? "" : ": ", strcmp(said, "-") == 0 ? "" : said);
	free(what);
	free(said);
	json_array_foreach(changes, i, change)
		if (!p->quiet)
			print_change(p, change, "    ");
}

/* A row that is no document says what could not be made one. */
static void print_note(const struct ctl_print *p, const json_t *row)
{
	char *where = ctl_cell(json_object_get(row, "where"), COL_PLAIN), *text = ctl_cell(json_object_get(row, "finding"), COL_PLAIN);

	fprintf(p->err, "toolcrib: %s: %s\n", where, text);
	free(where);
	free(text);
}

enum ctl_exit ctl_print_documents(const struct ctl_print *p)
{
	json_t *documents = json_array();
	const json_t *row;
	struct str text = STR_INIT;
	struct err err = { 0 };
	size_t i, files = 0;
	int rc = 0;

	json_array_foreach(p->documents, i, row) {
		if (!json_object_get(row, "document")) {
			print_note(p, row);
			continue;
		}
		if (json_array_size(documents) > 0)
			str_puts(&text, "---\n");
		yaml_write(json_object_get(row, "document"), &text);
		(void)json_array_append(documents, (json_t *)(uintptr_t)row);
	}
	if (!p->output)
		fwrite(str_text(&text), 1, text.len, p->out);
	else
		rc = ctl_folder_write(p->output, documents, &files, &err);
	if (rc < 0)
		ctl_print_error(p->err, false, "", &err);
	else if (p->output && !p->quiet)
		fprintf(p->out, "%zu document%s in %zu file%s written to %s\n", json_array_size(documents),
			json_array_size(documents) == 1 ? "" : "s", files, files == 1 ? "" : "s", p->output);
	str_fini(&text);
	json_decref(documents);
	return rc < 0 ? CTL_FAILED : CTL_DONE;
}
