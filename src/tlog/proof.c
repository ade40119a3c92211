/* Proofs of inclusion as text: a strict parser, a writer whose output it takes, and the check. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "tlog/proof.h"

static const char format[] = "c2sp.org/tlog-proof@v1";

/* The line up to the newline at *at, without it; moves on behind it. */
static bool take_line(const char **at, size_t *left, const char **line, size_t *len)
{
	const char *end = memchr(*at, '\n', *left);

	if (!end)
		return false;
	*line = *at;
	*len = (size_t)(end - *at);
	*at = end + 1;
	*left -= *len + 1;
	return true;
}

static bool take_word(const char **line, size_t *len, const char *word)
{
	size_t n = strlen(word);

	if (*len < n || memcmp(*line, word, n) != 0)
		return false;
	*line += n;
	*len -= n;
	return true;
}

static bool is_index(const char *p, size_t len, uint64_t *ret)
{
	return text_u64(p, len, ret) == 0 && *ret < INT64_MAX && (len == 1 || *p != '0');
}

static int parse_record(const char *b64, size_t len, struct proof *ret, struct err *err)
{
	size_t size = len / 4 * 3;

	if (size > PROOF_EXTRA_MAX)
		return err_set(err, ERR_LIMIT, "proof", "line 2: the record has more than %d bytes", PROOF_EXTRA_MAX);
	ret->record = mem_alloc(size + 1);
	if (len == 0 || text_unbase64(b64, len, ret->record, size, &ret->record_len) < 0)
		return err_set(err, ERR_INVALID, "proof", "line 2: not base64");
	return 0;
}

static int parse_hashes(const char **at, size_t *left, struct proof *ret, struct err *err)
{
	const char *line;
	size_t len, got;

	for (ret->n = 0;; ret->n++) {
		if (!take_line(at, left, &line, &len))
			return err_set(err, ERR_INVALID, "proof", "ends before its checkpoint");
		if (len == 0)
			return 0;
		if (ret->n == TREE_PROOF_MAX)
			return err_set(err, ERR_LIMIT, "proof", "more than %d hashes", TREE_PROOF_MAX);
		if (text_unbase64(line, len, ret->hash[ret->n], TREE_HASH, &got) < 0 || got != TREE_HASH)
			return err_set(err, ERR_INVALID, "proof", "line %zu: not a hash in base64", ret->n + 4);
	}
}

static int parse(const char *p, size_t len, struct proof *ret, struct err *err)
{
	const char *line;
	size_t n;
	int rc;

	if (len > PROOF_TEXT_MAX)
		return err_set(err, ERR_LIMIT, "proof", "longer than %d bytes", PROOF_TEXT_MAX);
	if (!take_line(&p, &len, &line, &n) || !text_eq(line, n, format))
		return err_set(err, ERR_INVALID, "proof", "line 1: not %s", format);
	if (!take_line(&p, &len, &line, &n) || !take_word(&line, &n, "extra "))
		return err_set(err, ERR_INVALID, "proof", "line 2: not \"extra \" and the record");
	rc = parse_record(line, n, ret, err);
	if (rc < 0)
		return rc;
	if (!take_line(&p, &len, &line, &n) || !take_word(&line, &n, "index ") || !is_index(line, n, &ret->index))
		return err_set(err, ERR_INVALID, "proof", "line 3: not \"index \" and a number");
	rc = parse_hashes(&p, &len, ret, err);
	ret->note = p;
	ret->note_len = len;
	return rc;
}

int proof_parse(const char *p, size_t len, struct proof *ret, struct err *err)
{
	int rc;

	memset(ret, 0, sizeof(*ret));
	rc = parse(p, len, ret, err);
	if (rc < 0)
		proof_fini(ret);
	return rc;
}

void proof_fini(struct proof *p)
{
	free(p->record);
	p->record = NULL;
}

static void put_base64(struct str *s, const void *p, size_t len)
{
	char *text = mem_alloc(text_base64_size(len));

	text_base64(p, len, text);
	str_puts(s, text);
	str_putc(s, '\n');
	free(text);
}

void proof_print(const struct proof *p, struct str *ret)
{
	str_printf(ret, "%s\nextra ", format);
	put_base64(ret, p->record, p->record_len);
	str_printf(ret, "index %llu\n", (unsigned long long)p->index);
	for (size_t i = 0; i < p->n; i++)
		put_base64(ret, p->hash[i], TREE_HASH);
	str_putc(ret, '\n');
	str_put(ret, p->note, p->note_len);
}

int proof_check(const struct proof *p, const struct note_key *key, struct checkpoint *ret, struct err *err)
{
	uint8_t leaf[TREE_HASH];
	struct note note;

	if (note_parse(p->note, p->note_len, &note) < 0)
		return err_set(err, ERR_INVALID, "proof", "the checkpoint is no signed note");
	if (note_check(&note, key) != 1)
		return err_set(err, ERR_INVALID, "proof", "the checkpoint is not signed by %s", key->name);
	if (checkpoint_parse(note.text, note.text_len, ret) < 0 || strcmp(ret->origin, key->name) != 0)
		return err_set(err, ERR_INVALID, "proof", "the checkpoint is of another log than %s", key->name);
	tree_leaf(p->record, p->record_len, leaf);
	if (!tree_check_inclusion(leaf, p->index, ret->size, p->hash, p->n, ret->root))
		return err_set(err, ERR_INVALID, "proof", "the record is not at index %llu of that log",
			       (unsigned long long)p->index);
	return 0;
}
