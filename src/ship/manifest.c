/* The manifest of a generation: lines of JSON, each with the digest of the one before. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/owner.h"
#include "json/json.h"

#include "ship_int.h"

enum { NUMBER_DIGITS = 10 };

static const char *const kinds[SHIP_KINDS] = {
	[SHIP_BEGIN] = "begin", [SHIP_BASE] = "base", [SHIP_LOG] = "log", [SHIP_SEALED] = "sealed", [SHIP_WHOLE] = "whole" };
static const char *const of_names[SHIP_OF] = { [SHIP_STORE] = DB_FILE, [SHIP_KEYS] = DB_KEYS };

const char *ship_of_name(enum ship_of of)
{
	return of_names[of];
}

/* --- a line */

static void put_digest(struct str *to, const char *name, const uint8_t sha[DIGEST_SIZE])
{
	char hex[2 * DIGEST_SIZE + 1];

	text_hex(sha, DIGEST_SIZE, hex);
	str_printf(to, ",\"%s\":\"%s\"", name, hex);
}

void ship_line_print(const struct ship_line *l, struct str *ret)
{
	const struct wal_place *p = &l->place;

	str_printf(ret, "{\"n\":%" PRIu64 ",\"kind\":\"%s\",\"at_us\":%" PRIu64, l->n, kinds[l->kind], l->at_us);
	if (l->kind == SHIP_BEGIN)
		str_printf(ret, ",\"generation\":%" PRIu64, l->pages);
	if (l->kind == SHIP_BASE || l->kind == SHIP_LOG)
		str_printf(ret, ",\"of\":\"%s\",\"pages\":%" PRIu64, of_names[l->of], l->pages);
	if (l->kind == SHIP_LOG)
		str_printf(ret, ",\"log\":[%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 "]", p->salt[0], p->salt[1],
			   p->sum[0], p->sum[1], p->frames);
	if (l->kind == SHIP_SEALED) {
		str_puts(ret, ",\"name\":");
		jx_write_stringz(ret, l->name);
		str_printf(ret, ",\"size\":%" PRIu64 ",\"changed_us\":%" PRIu64, l->size, l->changed_us);
	}
	if (*l->file) {
		str_puts(ret, ",\"file\":");
		jx_write_stringz(ret, l->file);
		str_printf(ret, ",\"bytes\":%" PRIu64, l->bytes);
		put_digest(ret, "sha256", l->sha);
	}
	put_digest(ret, "prev", l->prev);
	str_putc(ret, '}');
}

static bool get_u64(const json_t *obj, const char *name, uint64_t *ret)
{
	const json_t *v = json_object_get(obj, name);

	*ret = (uint64_t)json_integer_value(v);
	return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool get_digest(const json_t *obj, const char *name, uint8_t ret[DIGEST_SIZE])
{
	const json_t *v = json_object_get(obj, name);

	return json_is_string(v) && text_unhex(json_string_value(v), json_string_length(v), ret, DIGEST_SIZE) == 0;
}

/* A name below a folder, and nowhere else. */
static bool get_name(const json_t *obj, const char *name, char *ret, size_t size)
{
	const json_t *v = json_object_get(obj, name);
	const char *text = json_string_value(v);

	if (!text || !*text || *text == '/' || strlen(text) != json_string_length(v) || strlen(text) >= size ||
	    strstr(text, ".."))
		return false;
	memcpy(ret, text, strlen(text) + 1);
	return true;
}

static bool get_word(const json_t *obj, const char *name, const char *const *words, unsigned n, unsigned *ret)
{
	const char *text = json_string_value(json_object_get(obj, name));

	for (unsigned i = 0; text && i < n; i++)
		if (strcmp(words[i], text) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

static bool get_place(const json_t *obj, struct wal_place *ret)
{
	const json_t *list = json_object_get(obj, "log");
	uint64_t v[5];

	if (json_array_size(list) != NELEMS(v))
		return false;
	for (size_t i = 0; i < NELEMS(v); i++) {
		const json_t *one = json_array_get(list, i);

		if (!json_is_integer(one) || json_integer_value(one) < 0 || (i < 4 && json_integer_value(one) > UINT32_MAX))
			return false;
		v[i] = (uint64_t)json_integer_value(one);
	}
	*ret = (struct wal_place){ { (uint32_t)v[0], (uint32_t)v[1] }, { (uint32_t)v[2], (uint32_t)v[3] }, v[4] };
	return true;
}

static bool read_line(const json_t *obj, struct ship_line *l)
{
	unsigned kind = 0, of = 0;
	bool fine = get_u64(obj, "n", &l->n) && get_u64(obj, "at_us", &l->at_us) && get_digest(obj, "prev", l->prev) &&
		get_word(obj, "kind", kinds, SHIP_KINDS, &kind);

	l->kind = (enum ship_kind)kind;
	if (fine && kind == SHIP_BEGIN)
		fine = get_u64(obj, "generation", &l->pages);
	if (fine && (kind == SHIP_BASE || kind == SHIP_LOG))
		fine = get_word(obj, "of", of_names, SHIP_OF, &of) && get_u64(obj, "pages", &l->pages);
	l->of = (enum ship_of)of;
	if (fine && kind == SHIP_LOG)
		fine = get_place(obj, &l->place);
	if (fine && kind == SHIP_SEALED)
		fine = get_name(obj, "name", l->name, sizeof(l->name)) && get_u64(obj, "size", &l->size) &&
			get_u64(obj, "changed_us", &l->changed_us);
	if (fine && kind != SHIP_BEGIN && kind != SHIP_WHOLE)
		fine = get_name(obj, "file", l->file, sizeof(l->file)) && get_u64(obj, "bytes", &l->bytes) &&
			get_digest(obj, "sha256", l->sha);
	return fine;
}

int ship_line_parse(const char *text, size_t len, struct ship_line *ret, struct err *err)
{
	struct ship_line l = { .n = 0 };
	json_t *obj = NULL;
	bool fine;

	if (len > SHIP_LINE_MAX || jx_parse(text, len, &obj, NULL) < 0)
		return err_set(err, ERR_CORRUPT, "", "it is no JSON");
	fine = json_is_object(obj) && read_line(obj, &l);
	json_decref(obj);
	if (!fine)
		return err_set(err, ERR_CORRUPT, "", "it lacks a member, or has another kind of value");
	*ret = l;
	return 0;
}

/* --- generations */

char *ship_folder(const char *target, uint64_t generation)
{
	return mem_printf("%s/%0*" PRIu64, target, NUMBER_DIGITS, generation);
}

static int ascending(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int ship_generations(const char *target, uint64_t **ret, size_t *ret_n, struct err *err)
{
	DIR *d = opendir(target);
	uint64_t *v = NULL, number;
	size_t n = 0;

	if (!d)
		return err_set(err, ERR_UNREACHABLE, target, "cannot open %s: %s", target, strerror(errno));
	for (const struct dirent *e; (e = readdir(d)) && n < SHIP_GENERATIONS_MAX;)
		if (strlen(e->d_name) == NUMBER_DIGITS && text_u64(e->d_name, NUMBER_DIGITS, &number) == 0) {
			v = mem_realloc(v, (n + 1) * sizeof(*v));
			v[n++] = number;
		}
	closedir(d);
	if (n > 0)
		qsort(v, n, sizeof(*v), ascending);
	*ret = v;
	*ret_n = n;
	return 0;
}

/* --- reading one */

struct ship_reader {
	FILE *file;
	char *path;
	char line[SHIP_LINE_MAX + 2];
	uint64_t generation, n, bytes;
	uint8_t digest[DIGEST_SIZE];
};

int ship_reader_open(const char *target, uint64_t generation, struct ship_reader **ret, struct err *err)
{
	struct ship_reader *r = mem_zalloc(sizeof(*r));
	char *folder = ship_folder(target, generation);
	int rc;

	r->generation = generation;
	r->path = path_join(folder, SHIP_MANIFEST);
	free(folder);
	rc = path_open_stream(r->path, &r->file, err);
	if (rc < 0)
		ship_reader_close(&r);
	else
		*ret = r;
	return rc;
}

int ship_reader_next(struct ship_reader *r, struct ship_line *ret, struct err *err)
{
	size_t len;
	int rc;

	if (!fgets(r->line, sizeof(r->line), r->file))
		return ferror(r->file) ? err_set(err, ERR_IO, r->path, "%s cannot be read", r->path) : 0;
	len = strlen(r->line);
	if (len == 0 || r->line[len - 1] != '\n')
		return len > SHIP_LINE_MAX ? err_set(err, ERR_CORRUPT, r->path, "%s, line %" PRIu64 ": it is too long", r->path,
						     r->n + 1) : 0;
	rc = ship_line_parse(r->line, len - 1, ret, err);
	if (rc < 0)
		return err_wrap(err, "%s, line %" PRIu64, r->path, r->n + 1);
	if (ret->n != r->n + 1 || (r->n > 0 && memcmp(ret->prev, r->digest, DIGEST_SIZE) != 0) ||
	    (r->n == 0) != (ret->kind == SHIP_BEGIN) || (r->n == 0 && ret->pages != r->generation))
		return err_set(err, ERR_CORRUPT, r->path, "%s, line %" PRIu64 ": it does not continue the line before", r->path,
			       r->n + 1);
	digest_sha256(r->line, len - 1, r->digest);
	r->n++;
	r->bytes += len;
	return 1;
}

void ship_reader_end(const struct ship_reader *r, uint8_t ret[DIGEST_SIZE], uint64_t *ret_bytes)
{
	memcpy(ret, r->digest, DIGEST_SIZE);
	*ret_bytes = r->bytes;
}

void ship_reader_close(struct ship_reader **rp)
{
	struct ship_reader *r = *rp;

	*rp = NULL;
	if (!r)
		return;
	if (r->file)
		(void)fclose(r->file);
	free(r->path);
	free(r);
}
