/* Signed notes and checkpoints: strict parsers, writers whose output they take. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "tlog/note.h"

#define DASH "\xe2\x80\x94 "            /* U+2014 EM DASH and a space begin a signature line */
enum { DASH_LEN = 4, ALG_ED25519 = 1 };

/* --- names */

/* White space beyond ASCII (Unicode White_Space), as UTF-8; the ASCII ones are at most ' '. */
static bool starts_with_space(const char *p, size_t len)
{
	static const char *const two[] = { "\xc2\x85", "\xc2\xa0" };
	static const char *const three[] = { "\xe1\x9a\x80", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f",
		"\xe3\x80\x80" };

	for (size_t i = 0; i < NELEMS(two); i++)
		if (len >= 2 && memcmp(p, two[i], 2) == 0)
			return true;
	for (size_t i = 0; i < NELEMS(three); i++)
		if (len >= 3 && memcmp(p, three[i], 3) == 0)
			return true;
	/* U+2000 to U+200A */
	return len >= 3 && memcmp(p, "\xe2\x80", 2) == 0 && (unsigned char)p[2] >= 0x80 && (unsigned char)p[2] <= 0x8a;
}

static bool is_name(const char *p, size_t len)
{
	if (len == 0 || len > NOTE_NAME_MAX || !text_utf8_valid(p, len))
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)p[i] <= ' ' || p[i] == 0x7f || p[i] == '+' || starts_with_space(p + i, len - i))
			return false;
	return true;
}

/* --- parsing notes */

/* Where the signatures begin: behind the last empty line.  0: there is none. */
static size_t find_signatures(const char *p, size_t len)
{
	for (size_t i = len; i >= 2; i--)
		if (p[i - 1] == '\n' && p[i - 2] == '\n')
			return i;
	return 0;
}

static int parse_signature(const char *p, size_t len, struct note_sig *ret)
{
	uint8_t bytes[NOTE_KEY_ID + NOTE_SIG_MAX];
	const char *space;
	size_t n = 0;

	if (len < DASH_LEN || memcmp(p, DASH, DASH_LEN) != 0)
		return ERR_INVALID;
	p += DASH_LEN;
	len -= DASH_LEN;
	space = memchr(p, ' ', len);
	if (!space || !is_name(p, (size_t)(space - p)))
		return ERR_INVALID;
	ret->name = p;
	ret->name_len = (size_t)(space - p);
	ret->b64 = space + 1;
	ret->b64_len = len - ret->name_len - 1;
	if (text_unbase64(ret->b64, ret->b64_len, bytes, sizeof(bytes), &n) < 0 || n <= NOTE_KEY_ID)
		return ERR_INVALID;
	memcpy(ret->id, bytes, NOTE_KEY_ID);
	return 0;
}

static bool same_key(const struct note_sig *a, const struct note_sig *b)
{
	return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0 &&
	       memcmp(a->id, b->id, NOTE_KEY_ID) == 0;
}

static int parse_signatures(const char *p, size_t len, struct note *ret)
{
	while (len > 0) {
		const char *end = memchr(p, '\n', len);
		struct note_sig *sig = &ret->sig[ret->nsig];

		if (ret->nsig == NOTE_SIGS_MAX)
			return ERR_LIMIT;
		if (!end || parse_signature(p, (size_t)(end - p), sig) < 0)
			return ERR_INVALID;
		for (size_t i = 0; i < ret->nsig; i++)
			if (same_key(&ret->sig[i], sig))
				return ERR_INVALID;
		ret->nsig++;
		len -= (size_t)(end + 1 - p);
		p = end + 1;
	}
	return ret->nsig > 0 ? 0 : ERR_INVALID;
}

int note_parse(const char *p, size_t len, struct note *ret)
{
	struct note n = { 0 };
	size_t at;
	int rc;

	if (len > NOTE_MAX)
		return ERR_LIMIT;
	if (!text_utf8_valid(p, len))
		return ERR_INVALID;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)p[i] < ' ' && p[i] != '\n')
			return ERR_INVALID;
	at = find_signatures(p, len);
	if (at < 2)
		return ERR_INVALID;
	n.text = p;
	n.text_len = at - 1;
	rc = parse_signatures(p + at, len - at, &n);
	if (rc == 0)
		*ret = n;
	return rc;
}

/* --- keys */

int note_key_set(struct note_key *ret, const char *name, const uint8_t public[SIGN_PUBLIC_SIZE])
{
	static const uint8_t alg[2] = { '\n', ALG_ED25519 };
	const size_t len = strlen(name);
	uint8_t sum[DIGEST_SIZE];
	struct digest *d;

	if (!is_name(name, len))
		return ERR_INVALID;
	d = digest_new();
	digest_put(d, name, len);
	digest_put(d, alg, sizeof(alg));
	digest_put(d, public, SIGN_PUBLIC_SIZE);
	digest_end(&d, sum);
	memcpy(ret->name, name, len + 1);
	memcpy(ret->public, public, SIGN_PUBLIC_SIZE);
	memcpy(ret->id, sum, NOTE_KEY_ID);
	return 0;
}

int note_key_parse(const char *p, size_t len, struct note_key *ret)
{
	const char *plus = memchr(p, '+', len), *second;
	char name[NOTE_NAME_MAX + 1], hex[2 * NOTE_KEY_ID + 1];
	uint8_t bytes[1 + SIGN_PUBLIC_SIZE];
	struct note_key key;
	size_t n = 0;

	if (!plus || plus - p > NOTE_NAME_MAX)
		return ERR_INVALID;
	second = memchr(plus + 1, '+', len - (size_t)(plus + 1 - p));
	if (!second || second - plus != sizeof(hex))
		return ERR_INVALID;
	if (text_unbase64(second + 1, len - (size_t)(second + 1 - p), bytes, sizeof(bytes), &n) < 0 || n != sizeof(bytes) ||
	    bytes[0] != ALG_ED25519)
		return ERR_INVALID;
	memcpy(name, p, (size_t)(plus - p));
	name[plus - p] = '\0';
	if (strlen(name) != (size_t)(plus - p) || note_key_set(&key, name, bytes + 1) < 0)
		return ERR_INVALID;
	text_hex(key.id, NOTE_KEY_ID, hex);
	if (memcmp(hex, plus + 1, sizeof(hex) - 1) != 0)
		return ERR_INVALID;
	*ret = key;
	return 0;
}

static void put_base64(struct str *s, const void *p, size_t len)
{
	char *text = mem_alloc(text_base64_size(len));

	text_base64(p, len, text);
	str_puts(s, text);
	free(text);
}

void note_key_print(const struct note_key *key, struct str *ret)
{
	uint8_t bytes[1 + SIGN_PUBLIC_SIZE] = { ALG_ED25519 };
	char hex[2 * NOTE_KEY_ID + 1];

	memcpy(bytes + 1, key->public, SIGN_PUBLIC_SIZE);
	text_hex(key->id, NOTE_KEY_ID, hex);
	str_printf(ret, "%s+%s+", key->name, hex);
	put_base64(ret, bytes, sizeof(bytes));
}

int note_check(const struct note *n, const struct note_key *key)
{
	for (size_t i = 0; i < n->nsig; i++) {
		const struct note_sig *sig = &n->sig[i];
		uint8_t bytes[NOTE_KEY_ID + NOTE_SIG_MAX];
		size_t len = 0;

		if (!text_eq(sig->name, sig->name_len, key->name) || memcmp(sig->id, key->id, NOTE_KEY_ID) != 0)
			continue;
		if (text_unbase64(sig->b64, sig->b64_len, bytes, sizeof(bytes), &len) < 0 || len != NOTE_KEY_ID + SIGN_SIZE ||
		    !sign_check(key->public, n->text, n->text_len, bytes + NOTE_KEY_ID))
			return ERR_INVALID;
		return 1;
	}
	return 0;
}

void note_add(struct str *note, size_t text_len, const struct note_key *key, const uint8_t sig[SIGN_SIZE])
{
	uint8_t bytes[NOTE_KEY_ID + SIGN_SIZE];

	if (note->len == text_len)
		str_putc(note, '\n');
	memcpy(bytes, key->id, NOTE_KEY_ID);
	memcpy(bytes + NOTE_KEY_ID, sig, SIGN_SIZE);
	str_printf(note, DASH "%s ", key->name);
	put_base64(note, bytes, sizeof(bytes));
	str_putc(note, '\n');
}

/* --- checkpoints */

/* The next line, without its newline. */
static const char *take_line(const char **p, size_t *len, size_t *ret_len)
{
	const char *line = *p, *end = *len ? memchr(line, '\n', *len) : NULL;

	if (!end)
		return NULL;
	*ret_len = (size_t)(end - line);
	*len -= *ret_len + 1;
	*p = end + 1;
	return line;
}

int checkpoint_parse(const char *text, size_t len, struct checkpoint *ret)
{
	const char *origin, *size, *root;
	size_t origin_len = 0, size_len = 0, root_len = 0, n = 0;
	struct checkpoint cp = { 0 };
	int64_t number = 0;

	origin = take_line(&text, &len, &origin_len);
	size = origin ? take_line(&text, &len, &size_len) : NULL;
	root = size ? take_line(&text, &len, &root_len) : NULL;
	if (!root || len > 0 || !is_name(origin, origin_len))
		return ERR_INVALID;
	if (text_i64(size, size_len, &number) < 0 || number < 0 || size[0] == '-' || (size[0] == '0' && size_len > 1))
		return ERR_INVALID;
	if (text_unbase64(root, root_len, cp.root, TREE_HASH, &n) < 0 || n != TREE_HASH)
		return ERR_INVALID;
	memcpy(cp.origin, origin, origin_len);
	if (strlen(cp.origin) != origin_len)
		return ERR_INVALID;
	cp.size = (uint64_t)number;
	*ret = cp;
	return 0;
}

void checkpoint_print(const struct checkpoint *cp, struct str *ret)
{
	str_printf(ret, "%s\n%llu\n", cp->origin, (unsigned long long)cp->size);
	put_base64(ret, cp->root, TREE_HASH);
	str_putc(ret, '\n');
}
