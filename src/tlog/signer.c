/* The state of a signer as text: written by toolcrib-sign, read by verifiers.  Pure functions of bytes, any thread. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "tlog/signer.h"

/* One line each, in this order:
 *
 *	toolcrib-sign 1
 *	instance NAME
 *	log-key HEX
 *	epoch NUMBER HEX-OF-KEY HEX-OF-CERTIFICATE
 *	log SIZE HEX-OF-ROOT ORIGIN             (for each)
 *	end NUMBER-OF-LOGS
 */

void signer_state_init(struct signer_state *s)
{
	*s = (struct signer_state){ .by_origin = map_new() };
}

void signer_state_fini(struct signer_state *s)
{
	for (size_t i = 0; i < s->nlogs; i++)
		free(s->log[i]);
	free(s->log);
	map_free(&s->by_origin);
}

struct signer_log *signer_state_find(const struct signer_state *s, const char *origin)
{
	return map_get_z(s->by_origin, origin);
}

struct signer_log *signer_state_add(struct signer_state *s, const char *origin)
{
	size_t len = strlen(origin);
	struct signer_log *l;

	if (s->nlogs == SIGNER_LOGS_MAX || signer_state_find(s, origin))
		return NULL;
	l = mem_zalloc(sizeof(*l) + len + 1);
	memcpy(l->origin, origin, len + 1);
	map_set_z(s->by_origin, l->origin, l);
	if (s->nlogs == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 16;
		s->log = mem_realloc(s->log, s->cap * sizeof(*s->log));
	}
	s->log[s->nlogs++] = l;
	return l;
}

/* --- writing */

static void put_hex(struct str *out, const void *p, size_t n)
{
	char hex[2 * SIGN_SIZE + 1];

	text_hex(p, n, hex);
	str_puts(out, hex);
}

void signer_state_print(const struct signer_state *s, struct str *ret)
{
	str_printf(ret, "toolcrib-sign 1\ninstance %s\nlog-key ", s->instance);
	put_hex(ret, s->log_key, sizeof(s->log_key));
	str_printf(ret, "\nepoch %" PRIu64 " ", s->epoch);
	put_hex(ret, s->epoch_key, sizeof(s->epoch_key));
	str_putc(ret, ' ');
	put_hex(ret, s->cert, sizeof(s->cert));
	str_putc(ret, '\n');
	for (size_t i = 0; i < s->nlogs; i++) {
		str_printf(ret, "log %" PRIu64 " ", s->log[i]->size);
		put_hex(ret, s->log[i]->root, TREE_HASH);
		str_printf(ret, " %s\n", s->log[i]->origin);
	}
	str_printf(ret, "end %zu\n", s->nlogs);
}

/* --- reading */

struct cursor { const char *p; size_t len; unsigned line; };

/* The next word of the line, up to a space; the last one up to the newline, which goes with it. */
static bool take(struct cursor *c, char end, const char **ret, size_t *ret_len)
{
	size_t n = 0;

	while (n < c->len && c->p[n] != end && c->p[n] != '\n')
		n++;
	if (n == c->len || c->p[n] != end)
		return false;
	*ret = c->p;
	*ret_len = n;
	c->p += n + 1;
	c->len -= n + 1;
	c->line += end == '\n';
	return true;
}

static bool take_this(struct cursor *c, const char *word, char end)
{
	const char *p;
	size_t n;

	return take(c, end, &p, &n) && text_eq(p, n, word);
}

static bool take_hex(struct cursor *c, char end, uint8_t *ret, size_t size)
{
	const char *p;
	size_t n;

	return take(c, end, &p, &n) && text_unhex(p, n, ret, size) == 0;
}

static bool take_number(struct cursor *c, char end, uint64_t *ret)
{
	const char *p;
	size_t n;

	return take(c, end, &p, &n) && text_u64(p, n, ret) == 0 && *ret <= INT64_MAX && (p[0] != '0' || n == 1);
}

/* A name that a key may have. */
static bool take_name(struct cursor *c, char ret[NOTE_NAME_MAX + 1])
{
	static const uint8_t any[SIGN_PUBLIC_SIZE];
	struct note_key key;
	const char *p;
	size_t n;

	if (!take(c, '\n', &p, &n) || n > NOTE_NAME_MAX || memchr(p, '\0', n))
		return false;
	memcpy(ret, p, n);
	ret[n] = '\0';
	return note_key_set(&key, ret, any) == 0;
}

static bool parse_head(struct cursor *c, struct signer_state *s)
{
	return take_this(c, "toolcrib-sign", ' ') && take_this(c, "1", '\n') && take_this(c, "instance", ' ') &&
	       take_name(c, s->instance) && take_this(c, "log-key", ' ') &&
		take_hex(c, '\n', s->log_key, sizeof(s->log_key)) &&
	       take_this(c, "epoch", ' ') && take_number(c, ' ', &s->epoch) &&
	       take_hex(c, ' ', s->epoch_key, sizeof(s->epoch_key)) && take_hex(c, '\n', s->cert, sizeof(s->cert));
}

static bool parse_log(struct cursor *c, struct signer_state *s)
{
	struct signer_log *l;
	uint8_t root[TREE_HASH];
	char origin[NOTE_NAME_MAX + 1];
	uint64_t size;

	if (!take_number(c, ' ', &size) || !take_hex(c, ' ', root, sizeof(root)) || !take_name(c, origin))
		return false;
	l = signer_state_add(s, origin);
	if (!l)
		return false;
	l->size = size;
	memcpy(l->root, root, sizeof(root));
	return true;
}

static bool parse(struct cursor *c, struct signer_state *s)
{
	const char *word;
	size_t n;
	uint64_t count;

	if (!parse_head(c, s))
		return false;
	while (take(c, ' ', &word, &n)) {
		if (text_eq(word, n, "end"))
			return take_number(c, '\n', &count) && count == s->nlogs && c->len == 0;
		if (!text_eq(word, n, "log") || !parse_log(c, s))
			return false;
	}
	return false;
}

int signer_state_parse(struct signer_state *s, const char *text, size_t len, struct err *err)
{
	struct cursor c = { text, len, 1 };
	char where[24];

	if (len <= SIGNER_FILE_MAX && parse(&c, s))
		return 0;
	snprintf(where, sizeof(where), "line %u", c.line);
	return err_set(err, ERR_INVALID, where, "line %u is not what a signer writes", c.line);
}

/* --- names of a log */

void succession_name(const char *origin, uint64_t n, char ret[NOTE_NAME_MAX + 1])
{
	if (n == 0)
		snprintf(ret, NOTE_NAME_MAX + 1, "%s", origin);
	else
		snprintf(ret, NOTE_NAME_MAX + 1, "%s/r/%" PRIu64, origin, n);
}

size_t succession_split(const char *name, uint64_t *ret_n)
{
	const char *slash = strrchr(name, '/');
	size_t len = strlen(name);
	uint64_t n = 0;

	*ret_n = 0;
	if (!slash || slash - name < 3 || memcmp(slash - 2, "/r", 2) != 0 || slash[1] == '0' ||
	    text_u64(slash + 1, strlen(slash + 1), &n) < 0 || n > UINT32_MAX)
		return len;
	*ret_n = n;
	return (size_t)(slash - 2 - name);
}

bool succession_is(const char *name, const char *origin)
{
	uint64_t n;
	size_t len = succession_split(name, &n);

	return strlen(origin) == len && memcmp(name, origin, len) == 0;
}

struct signer_log *signer_state_nth(const struct signer_state *s, const char *origin, uint64_t n)
{
	char name[NOTE_NAME_MAX + 1];

	succession_name(origin, n, name);
	return signer_state_find(s, name);
}

/* --- keys */

int epoch_key_set(struct note_key *ret, const char *instance, uint64_t epoch, const uint8_t public[SIGN_PUBLIC_SIZE])
{
	char name[NOTE_NAME_MAX + 32];

	snprintf(name, sizeof(name), "%s/e/%" PRIu64, instance, epoch);
	return note_key_set(ret, name, public);
}

void epoch_cert_text(uint64_t epoch, const uint8_t public[SIGN_PUBLIC_SIZE], uint8_t ret[EPOCH_CERT_TEXT])
{
	memcpy(ret, "epoch", 5);
	for (unsigned i = 0; i < 8; i++)
		ret[5 + i] = (uint8_t)(epoch >> 8 * (7 - i));
	memcpy(ret + 13, public, SIGN_PUBLIC_SIZE);
}
