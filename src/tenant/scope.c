/* Sets of scopes: one array of rights and patterns, in the order of the rights. */

#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "tenant/scope.h"

static const struct {
	enum scope_right right;
	const char *word;
	bool takes_glob;
} rows[] = {
	{ SCOPE_TOOLS_LIST, "tools:list", false },
	{ SCOPE_TOOLS_CALL, "tools:call", true },
	{ SCOPE_PROMPTS_LIST, "prompts:list", false },
	{ SCOPE_PROMPTS_GET, "prompts:get", true },
	{ SCOPE_RESOURCES_LIST, "resources:list", false },
	{ SCOPE_RESOURCES_READ, "resources:read", true },
	{ SCOPE_AUDIT_SELF, "audit:read:self", false },
	{ SCOPE_AUDIT_TENANT, "audit:read:tenant", false },
	{ SCOPE_AUDIT_PAYLOAD, "audit:read:payload", false },
	{ SCOPE_ADMIN, "admin", true },
};

struct scopes {
	unsigned refs, rights;          /* rights: all of them together */
	size_t n;
	struct scope { size_t row; char glob[SCOPE_GLOB_MAX + 1]; } scope[];
};

static int bad_word(const char *word, size_t len, struct err *err)
{
	const char *known[NELEMS(rows)], *near;
	char text[SCOPE_GLOB_MAX];

	for (size_t i = 0; i < NELEMS(rows); i++)
		known[i] = rows[i].word;
	text_printable(word, len, text, sizeof(text));
	near = text_nearest(text, known, NELEMS(known));
	(void)err_set(err, ERR_INVALID, "scope", "%s is no scope", text);
	err_hint(err, near ? "did you mean %s?" : "scopes are tools:list, tools:call:GLOB and the others of toolcrib(8)%s",
		 near ? near : "");
	return ERR_INVALID;
}

static bool good_glob(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)p[i] <= ' ' || (unsigned char)p[i] >= 0x7f || p[i] == '"' || p[i] == '\\')
			return false;   /* RFC 6749 3.3: a word may stand in a challenge */
	return len > 0;
}

static int parse_word(const char *word, size_t len, struct scope *ret, struct err *err)
{
	for (size_t i = 0; i < NELEMS(rows); i++) {
		size_t n = strlen(rows[i].word);

		if (len < n || memcmp(word, rows[i].word, n) != 0 || (len > n && (!rows[i].takes_glob || word[n] != ':')))
			continue;
		ret->row = i;
		if (len == n) {
			memcpy(ret->glob, "*", 2);
			return 0;
		}
		if (!good_glob(word + n + 1, len - n - 1))
			return err_set(err, ERR_INVALID, "scope", "%s: must be followed by a name or pattern of visible ASCII characters",
				       rows[i].word);
		if (len - n - 1 > SCOPE_GLOB_MAX)
			return err_set(err, ERR_LIMIT, "scope", "%s: its pattern is longer than %d bytes", rows[i].word, SCOPE_GLOB_MAX);
		memcpy(ret->glob, word + n + 1, len - n - 1);
		ret->glob[len - n - 1] = '\0';
		return 0;
	}
	return bad_word(word, len, err);
}

static bool has_word(const struct scopes *s, const struct scope *w)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->scope[i].row == w->row && strcmp(s->scope[i].glob, w->glob) == 0)
			return true;
	return false;
}

/* In its place: behind those of the same right and of the rights before. */
static void insert(struct scopes *s, const struct scope *w)
{
	size_t at = s->n;

	while (at > 0 && s->scope[at - 1].row > w->row)
		at--;
	memmove(&s->scope[at + 1], &s->scope[at], (s->n - at) * sizeof(*w));
	s->scope[at] = *w;
	s->n++;
	s->rights |= rows[w->row].right;
}

int scopes_parse(const char *text, size_t len, struct scopes **ret, struct err *err)
{
	struct scopes *s = mem_zalloc(sizeof(*s) + SCOPES_MAX * sizeof(s->scope[0]));
	const char *p = text, *end = text + len;
	int rc = 0;

	s->refs = 1;
	s->rights = SCOPE_ANYONE;
	while (rc == 0 && p < end) {
		const char *blank = memchr(p, ' ', (size_t)(end - p));
		size_t n = (size_t)((blank ? blank : end) - p);
		struct scope w;

		if (n > 0) {
			rc = parse_word(p, n, &w, err);
			if (rc == 0 && !has_word(s, &w)) {
				if (s->n < SCOPES_MAX)
					insert(s, &w);
				else
					rc = err_set(err, ERR_LIMIT, "scope", "there are more than %d scopes", SCOPES_MAX);
			}
		}
		p += n + 1;
	}
	if (rc < 0)
		free(s);
	else
		*ret = mem_realloc(s, sizeof(*s) + s->n * sizeof(s->scope[0]));
	return rc;
}

struct scopes *scopes_ref(struct scopes *s)
{
	if (s)
		s->refs++;
	return s;
}

void scopes_unref(struct scopes **s)
{
	if (!s || !*s)
		return;
	assert((*s)->refs > 0);
	if (--(*s)->refs == 0)
		free(*s);
	*s = NULL;
}

static void put_word(struct str *out, size_t row, const char *glob)
{
	str_printf(out, "%s%s", out->len ? " " : "", rows[row].word);
	if (rows[row].takes_glob)
		str_printf(out, ":%s", glob);
}

void scopes_print(const struct scopes *s, struct str *out)
{
	struct str words = STR_INIT;

	for (size_t i = 0; !s && i < NELEMS(rows); i++)
		if (rows[i].right & SCOPE_SERVED)
			put_word(&words, i, "*");
	for (size_t i = 0; s && i < s->n; i++)
		put_word(&words, s->scope[i].row, s->scope[i].glob);
	str_puts(out, str_text(&words));
	str_fini(&words);
}

bool scope_has(const struct scopes *s, unsigned rights)
{
	return rights & (s ? s->rights : (unsigned)SCOPE_SERVED);
}

bool scope_allows(const struct scopes *s, enum scope_right right, const char *name)
{
	if (!scope_has(s, right))
		return false;
	if (!s || right == SCOPE_ANYONE)
		return true;
	for (size_t i = 0; i < s->n; i++)
		if (rows[s->scope[i].row].right == right &&
		    (!rows[s->scope[i].row].takes_glob || text_glob(s->scope[i].glob, name)))
			return true;
	return false;
}

bool scope_allows_all(const struct scopes *s, enum scope_right right)
{
	if (!scope_has(s, right))
		return false;
	if (!s || right == SCOPE_ANYONE)
		return true;
	for (size_t i = 0; i < s->n; i++)
		if (rows[s->scope[i].row].right == right && strcmp(s->scope[i].glob, "*") == 0)
			return true;
	return false;
}

const char *scope_need(unsigned rights, char ret[SCOPE_NEED_SIZE])
{
	size_t len = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < NELEMS(rows); i++) {
		size_t n = strlen(rows[i].word);

		if (!(rights & rows[i].right))
			continue;
		assert(len + n + 2 <= SCOPE_NEED_SIZE);
		if (len > 0)
			ret[len++] = ' ';
		memcpy(ret + len, rows[i].word, n + 1);
		len += n;
	}
	return ret;
}
