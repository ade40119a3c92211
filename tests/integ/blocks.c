/* What the C code of blocks says, for another reader to compare (test_blocks.py): of each seed blocks, sums and groups
 * of payloads as they are written, and then such as somebody was at.  One line each: what it is, the numbers and bytes
 * (hex) that are read, "|", the verdict (ok, bad, later) and a digest of the content.
 *
 *	blocks SEEDS MUTANTS        of each block
 *	blocks example              the block of contrib/doc/block-format.md
 */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "block/zone.h"

#include "../unit/block_mutants.h"

struct blocks {
	struct rig rig;
	struct map *texts;
	struct block_maker *maker;
	struct block_reader *reader;
	struct block_summer *summer;
	struct block_texts of;
	struct audit_bytes said, sums, body;
};

/* --- lines */

static void put_hex(const void *p, size_t len)
{
	const uint8_t *at = p;

	putchar(' ');
	for (size_t i = 0; i < len; i++)
		printf("%02x", at[i]);
	if (len == 0)
		putchar('-');
}

static void put_number(int64_t n)
{
	printf(" %" PRId64, n);
}

static void say(struct blocks *s, const void *p, size_t len)
{
	if (s->said.len + len > s->said.cap) {
		s->said.cap = 2 * (s->said.len + len);
		s->said.p = mem_realloc(s->said.p, s->said.cap);
	}
	if (len > 0)
		memcpy(s->said.p + s->said.len, p, len);
	s->said.len += len;
}

static void say_numbers(struct blocks *s, const int64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint64_t big = __builtin_bswap64((uint64_t)v[i]);

		say(s, &big, sizeof(big));
	}
}

static const char *verdict(int rc)
{
	return rc == 0 ? "ok" : rc == ERR_CORRUPT ? "bad" : rc == ERR_INVALID ? "later" : "broken";
}

static void put_digest(struct blocks *s)
{
	uint8_t digest[DIGEST_SIZE];

	digest_sha256(s->said.p, s->said.len, digest);
	put_hex(digest, sizeof(digest));
	s->said.len = 0;
}

/* --- what they are of */

/* "34/5" for id 5 of kind 34, but none for 999. */
static int text_of(void *arg, uint16_t kind, int64_t id, const char **ret, size_t *ret_len, struct err *err)
{
	struct blocks *s = arg;
	struct { int64_t id, kind; } key = { id, kind };
	char *text = map_get(s->texts, &key, sizeof(key));

	(void)err;
	if (id == RIG_NO_TEXT)
		return 0;
	if (!text) {
		text = mem_printf("%u/%" PRId64, kind, id);
		(void)map_set(s->texts, &key, sizeof(key), text);
	}
	*ret = text;
	*ret_len = strlen(text);
	return 1;
}

/* The rig's rows with these texts. */
static void with_texts(struct blocks *s)
{
	for (size_t i = 0; i < s->rig.n; i++)
		for (unsigned col = COL_CALL; col < COL_COUNT; col++) {
			struct audit_value *v = &s->rig.row[i].v[col];
			const char *text = "";

			if (!v->present || audit_columns[col].form != FORM_DICT)
				continue;
			(void)text_of(s, audit_columns[col].tag, v->n, &text, &v->len, NULL);
			v->p = text;
		}
	rig_leaves(&s->rig);
}

static void make(struct blocks *s, struct block *ret)
{
	struct err err;

	for (size_t i = 0; i < s->rig.n; i++)
		if (block_maker_add(s->maker, &s->rig.row[i], &err) != 0)
			abort();
	block_maker_end(s->maker, ret);
}

/* --- verdicts */

/* leaves: of the rows, NULL: what the block itself gives. */
static void put_block(struct blocks *s, const struct block *b, const uint8_t (*leaves)[TREE_HASH])
{
	struct err err;
	int rc;

	printf("block");
	put_number(b->first);
	put_number(b->cnt);
	put_number(b->fmt);
	put_number(b->ts_min);
	put_number(b->ts_max);
	put_hex(b->cols.p, b->cols.len);
	put_hex(b->hash.p, b->hash.len);
	put_hex(b->zone.p, b->zone.len);
	rc = block_open(s->reader, b, BLOCK_ALL_COLUMNS, &err);
	printf(" | %s %s", verdict(rc), rc == 0 ? verdict(block_derived(s->reader, &err)) : "-");
	for (int64_t i = 0; rc == 0 && i < block_count(s->reader); i++) {
		uint8_t leaf[TREE_HASH];

		rc = block_leaf(s->reader, i, leaf, &err);
		if (rc == 0 && leaves && memcmp(leaf, leaves[i], TREE_HASH) != 0)
			abort();
		say(s, leaf, sizeof(leaf));
	}
	if (rc < 0)
		s->said.len = 0;
	printf(" %s", verdict(rc));
	put_digest(s);
	putchar('\n');
}

static void put_sums(struct blocks *s, int64_t first, int64_t cnt, const void *p, size_t len)
{
	struct block_sums sums;
	struct err err;
	int rc;

	printf("sums");
	put_number(first);
	put_number(cnt);
	put_hex(p, len);
	rc = block_sums_read(p, len, first, cnt, &sums, &err);
	printf(" | %s", verdict(rc));
	if (rc == 0 && !sums.partial) {
		say(s, "full", 4);
		say_numbers(s, (const int64_t *)sums.sum, sums.sums * (sizeof(struct block_sum) / sizeof(int64_t)));
		say_numbers(s, (const int64_t *)sums.hist, sums.hists * (sizeof(struct block_hist) / sizeof(int64_t)));
		say_numbers(s, sums.apart, sums.aparts);
	}
	put_digest(s);
	putchar('\n');
	block_sums_fini(&sums);
}

static void put_body(struct blocks *s, const void *p, size_t len)
{
	struct block_payload v[BLOCK_PAYLOADS_MAX];
	struct err err;
	size_t n = 0;
	int rc = block_payloads_read(p, len, v, &n, &err);

	printf("body");
	put_hex(p, len);
	printf(" | %s", verdict(rc));
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct block_bytes *piece[] = { &v[i].salt, &v[i].nonce, &v[i].ct };

		for (size_t k = 0; k < NELEMS(piece); k++) {
			const int64_t told = piece[k]->p ? (int64_t)piece[k]->len : -1;

			say_numbers(s, &told, 1);
			say(s, piece[k]->p, piece[k]->len);
		}
	}
	put_digest(s);
	putchar('\n');
}

/* --- seeds */

static void sums_of(struct blocks *s, const struct block *b, unsigned mutants)
{
	struct part part = { 0 };
	struct err err;

	if (block_open(s->reader, b, BLOCK_ALL_COLUMNS, &err) < 0)
		abort();
	block_summer_add(s->summer, s->reader);
	block_summer_end(s->summer, &s->sums);
	printf("of-the-block ");
	put_sums(s, b->first, b->cnt, s->sums.p, s->sums.len);
	for (unsigned i = 0; i < mutants; i++) {
		part_set(&part, s->sums.p, s->sums.len);
		mutant_bytes(&s->rig, &part);
		put_sums(s, b->first, b->cnt, part.p, part.len);
	}
	free(part.p);
}

static void payloads_of(struct blocks *s, unsigned mutants)
{
	struct block_payload v[BLOCK_PAYLOADS_MAX];
	const size_t most = s->rig.n < 12 ? s->rig.n : 12;
	struct part part = { 0 };
	struct err err;
	size_t n = 0;

	memset(v, 0, sizeof(v));
	for (size_t i = 0; i < most; i++) {
		const struct rig_payload *pay = &s->rig.pay[i];

		if (!pay->here)
			continue;
		v[i] = (struct block_payload){ .salt = { pay->salt, 16 }, .ct = { pay->ct, pay->ct_len } };
		if (rig_below(&s->rig, 3) > 0)
			v[i].nonce = (struct block_bytes){ pay->nonce, 24 };
	}
	if (block_payloads_write(v, most, &s->body, &n, &err) < 0)
		abort();
	put_body(s, s->body.p, s->body.len);
	for (unsigned i = 0; i < mutants; i++) {
		part_set(&part, s->body.p, s->body.len);
		mutant_bytes(&s->rig, &part);
		put_body(s, part.p, part.len);
	}
	free(part.p);
}

/* Few combinations, so that sums are worth it. */
static void alike(struct blocks *s, size_t n)
{
	rig_any(&s->rig, 70, n, 0);
	for (size_t i = 0; i < n; i++) {
		struct audit_row *row = &s->rig.row[i];

		rig_least(&s->rig, row, 70 + (int64_t)i);
		audit_row_int(row, COL_TS, INT64_C(1767225600000000) + (int64_t)rig_below(&s->rig, 2) * 43200000000 + (int64_t)i);
		audit_row_int(row, COL_KIND, 1001 + (int64_t)rig_below(&s->rig, 2));
		audit_row_text(row, COL_TOOL, 5, "", 0);
		if (row->v[COL_KIND].n == 1001)
			continue;
		audit_row_int(row, COL_OUTCOME, rig_below(&s->rig, 10) == 0);
		audit_row_int(row, COL_DUR, (int64_t)rig_below(&s->rig, 40));
		if (rig_below(&s->rig, 10) == 0)
			audit_row_int(row, COL_BEG, rig_below(&s->rig, 4) == 0 ? 5 : 70 + (int64_t)rig_below(&s->rig, i + 1));
	}
}

/* Two calls, and begins that have the same one, or not. */
static void of_two_calls(struct blocks *s, size_t n)
{
	rig_any(&s->rig, 0, n, 0);
	for (size_t i = 0; i < n; i++) {
		struct audit_row *row = &s->rig.row[i];

		rig_least(&s->rig, row, 90 + (int64_t)i);
		audit_row_blob(row, COL_CALL, rig_below(&s->rig, 2) ? "0123456789abcdef" : "0123456789abcdeF", 16);
		audit_row_int(row, COL_BEG, row->v[COL_IDX].n - (int64_t)rig_below(&s->rig, i + 1));
	}
}

/* What no change of one byte comes to: sums and groups of payloads by hand. */
static void by_hand(struct blocks *s)
{
	/* One entry of kind 3 on day 0 by night, of eight records; words are streams of one byte. */
#define HEAD "\1\1\41\1"
#define WORDS(kind, count, timed) "\3\0\3\1\3\0\3" kind "\3" count "\3" timed "\3\0\3\0\3\0\3\0\3\0\3\7\3\0\3\0"
	static const struct { const char *p; size_t len; } sums[] = {
#define BYTES(s) { s, sizeof(s) - 1 }
		BYTES("\0"), BYTES("\1\0\0\0\0"), BYTES(HEAD WORDS("\4", "\10", "\0") "\0\0"), BYTES("\0\0"), BYTES("\2"),
		BYTES("\1\1\42\0\0"), BYTES("\1\1\7\0\0"), BYTES("\1\2\41\42\1" WORDS("\4\3\0", "\10", "\0") "\0\0"),
		BYTES("\1\2\42\41\1"), BYTES("\1\2\41\41\1"), BYTES(HEAD WORDS("\0", "\10", "\0") "\0\0"),
		BYTES(HEAD WORDS("\4", "\7", "\0") "\0\0"), BYTES(HEAD WORDS("\4", "\11", "\0") "\0\0"),
		BYTES(HEAD WORDS("\4", "\10", "\11") "\0\0"), BYTES("\1\1\41\2" WORDS("\4", "\10", "\0") "\0\0"),
		BYTES("\1\0\0\1"),
		BYTES("\1\377\377\377\377\377\377\377\377\377\1\7"), BYTES("\377\377\377\377\377\377\377\377\377\1"),
		BYTES(HEAD WORDS("\4", "\10", "\0") "\1\3\0\3\0\3\0\3\5\5\277\2\3\10\0"),
		BYTES(HEAD WORDS("\4", "\10", "\0") "\1\3\0\3\0\3\0\3\5\5\300\2\3\10\0"),
		BYTES(HEAD WORDS("\4", "\10", "\0") "\1\3\0\3\0\3\0\3\6\3\0\3\10\0"),
		BYTES(HEAD WORDS("\4", "\10", "\0") "\1\3\0\3\0\3\0\3\5\3\0\3\11\0"),
		BYTES(HEAD WORDS("\4", "\10", "\0") "\1\3\0\3\2\3\0\3\5\3\0\3\10\0"),
		BYTES(HEAD WORDS("\4", "\10", "\0") "\1\11\377\377\377\77\3\0\3\0\3\5\3\0\3\10\0"),
		/* the last day, and the one behind it */
		BYTES(HEAD WORDS("\4", "\10", "\0") "\1\11\366\317\363\62\3\0\3\0\3\5\3\0\3\10\0"),
		BYTES(HEAD WORDS("\4", "\10", "\0") "\1\11\367\317\363\62\3\0\3\0\3\5\3\0\3\10\0"),
	}, apart[] = {          /* records that stand apart, of twelve */
		BYTES("\1\3\0"), BYTES("\1\3\13"), BYTES("\1\3\14"), BYTES("\1\5\0\0"), BYTES("\2\5\0\1"), BYTES("\1\0"),
		BYTES("\1\3"), BYTES("\0\0"), BYTES("\0"), BYTES(""), BYTES("\1\5\201\0"),
	}, bodies[] = {
		BYTES("\1\0\0\0"), BYTES("\2\0\0\0\1\1\1"), BYTES("\0"), BYTES("\1\0\1\0"), BYTES("\1\0\0\1"), BYTES("\1\2\0\0"),
		BYTES("\1\1\0\0s"), BYTES("\1\201\0\0\0"), BYTES("\201\2"), BYTES("\1\201\200\200\2\0\0"), BYTES(""),
	};

	for (size_t i = 0; i < NELEMS(sums); i++)
		put_sums(s, 0, 8, sums[i].p, sums[i].len);
	for (size_t i = 0; i < NELEMS(apart); i++)
		for (int64_t cnt = 8; cnt <= 12; cnt += 4) {
			static const char head[] = HEAD WORDS("\4", "\10", "\0") "\0";
			char all[96];

			memcpy(all, head, sizeof(head) - 1);
			memcpy(all + sizeof(head) - 1, apart[i].p, apart[i].len);
			put_sums(s, 0, cnt, all, sizeof(head) - 1 + apart[i].len);
		}
	for (int64_t cnt = -1; cnt < 3; cnt++)          /* and where they may be */
		for (int64_t more = -1; more < 3; more++) {
			put_sums(s, more, cnt, "", 1);
			put_sums(s, INT64_MAX - BLOCK_RECORDS_MAX - cnt + more, cnt, "", 1);
			put_sums(s, 0, BLOCK_CHAPTER_MAX + more, "", 1);
		}
	for (size_t i = 0; i < NELEMS(bodies); i++)
		put_body(s, bodies[i].p, bodies[i].len);
}

static void seed_of(struct blocks *s, unsigned seed, unsigned mutants)
{
	const size_t calls = mutants ? 80 : seed == 1 ? BLOCK_RECORDS_MAX : 700;
	struct block b;

	s->rig.seed = seed;
	if (seed % 4 == 3)
		alike(s, 60 + rig_below(&s->rig, 60));
	else if (seed % 4 == 1)
		rig_calls(&s->rig, (int64_t)rig_below(&s->rig, 1u << 20), calls < 4096 ? 1 + rig_below(&s->rig, calls) : calls);
	else if (seed % 8 == 2)
		of_two_calls(s, 1 + rig_below(&s->rig, 12));
	else
		rig_any(&s->rig, (int64_t)rig_below(&s->rig, 1u << 20), 1 + rig_below(&s->rig, 12), 100);
	with_texts(s);
	make(s, &b);
	put_block(s, &b, (const uint8_t (*)[TREE_HASH])s->rig.leaf);
	sums_of(s, &b, seed % 4 == 3 ? mutants : 0);
	payloads_of(s, seed % 4 == 1 ? mutants / 2 : 0);
	for (unsigned i = 0; i < mutants; i++) {
		struct mutant m;

		mutant_make(&m, &s->rig, &b);
		put_block(s, &m.b, NULL);
		mutant_free(&m);
	}
}

/* A begin, its end and an event. */
static void example(struct blocks *s)
{
	static const int64_t ts = INT64_C(1767225600000000);
	struct block b;

	rig_any(&s->rig, 8, 3, 0);
	for (unsigned i = 0; i < 3; i++) {
		rig_least(&s->rig, &s->rig.row[i], 8 + i);
		audit_row_int(&s->rig.row[i], COL_TS, ts + 700 * (int64_t)i);
	}
	for (unsigned i = 0; i < 2; i++) {
		audit_row_int(&s->rig.row[i], COL_KIND, 1001 + (int64_t)i);
		audit_row_blob(&s->rig.row[i], COL_CALL, "\001\233\166\332\210\000pqrstuvwxy", 16);
		audit_row_text(&s->rig.row[i], COL_TOOL, 5, "34/5", 4);
	}
	audit_row_blob(&s->rig.row[0], COL_CM, "\0\1""commitment of 32 bytes, it seems", 34);
	audit_row_int(&s->rig.row[1], COL_BEG, 8);
	audit_row_int(&s->rig.row[1], COL_OUTCOME, 0);
	audit_row_int(&s->rig.row[1], COL_DUR, 690);
	audit_row_blob(&s->rig.row[2], COL_EXT, "ext", 3);
	with_texts(s);
	make(s, &b);
	put_block(s, &b, (const uint8_t (*)[TREE_HASH])s->rig.leaf);
	sums_of(s, &b, 0);
}

/* --- */

static void init(struct blocks *s)
{
	*s = (struct blocks){ .texts = map_new(), .maker = block_maker_new(), .summer = block_summer_new() };
	rig_init(&s->rig, 1);
	s->of = (struct block_texts){ .log = 7, .origin = RIG_ORIGIN, .fn = text_of, .arg = s };
	s->reader = block_reader_new(&s->of);
}

static void fini(struct blocks *s)
{
	void *text;

	for (size_t it = 0; map_next(s->texts, &it, NULL, NULL, &text); )
		free(text);
	map_free(&s->texts);
	block_maker_free(&s->maker);
	block_reader_free(&s->reader);
	block_summer_free(&s->summer);
	rig_fini(&s->rig);
	free(s->said.p);
	free(s->sums.p);
	free(s->body.p);
}

int main(int argc, char **argv)
{
	static struct blocks s;
	const bool counted = argc == 3;
	uint64_t seeds = 0, mutants = 0;

	if ((!counted && !(argc == 2 && strcmp(argv[1], "example") == 0)) ||
	    (counted && (text_u64(argv[1], strlen(argv[1]), &seeds) < 0 || seeds > UINT32_MAX ||
			 text_u64(argv[2], strlen(argv[2]), &mutants) < 0 || mutants > UINT32_MAX))) {
		fprintf(stderr, "usage: blocks SEEDS MUTANTS | blocks example\n");
		return 2;
	}
	init(&s);
	if (!counted)
		example(&s);
	else
		by_hand(&s);
	for (unsigned seed = 0; seed < seeds; seed++)
		seed_of(&s, seed, (unsigned)mutants);
	fini(&s);
	return ferror(stdout) || fclose(stdout) != 0;
}
