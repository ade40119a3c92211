/*
 * What blocks of records cost: bytes and CPU time a record, one JSON line for each of two stores of calls, a begin and
 * an end each, at level request with arguments of 33 bytes.
 *
 *	tests/bench/b_block [RECORDS [PER_BLOCK]]     (1000000 4096)
 *
 * plain: one principal and one tool, calls one after the other.  mixed: 20 principals, keys and addresses, 25 tools,
 * eight calls at once, random sizes, times, outcomes, CPU and memory figures.  row_bytes is what is hashed of a record;
 * columns, hashes and payloads are bytes of a record in blocks.  encode, open (inflate and decode all columns), leaves
 * (open, and the leaf of each record), check (leaves compared, zone and times counted anew: what a fold does before it
 * deletes rows), two (kind and outcome alone) and sums are microseconds of CPU time a record.
 */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "block/zone.h"

#include "../unit/block_rig.h"

enum { MADE = 16384 };                  /* rows that are made, and gone through again and again */
enum { BEGIN = 1001, END = 1002 };

struct bench {
	struct rig rig;
	struct block_maker *maker;
	struct block_reader *reader;
	struct block_summer *summer;
	bool mixed;
	size_t per_block;
	struct audit_bytes bytes, *kept;  /* kept: of a block, its cols, hash and zone */
	struct block *block;
	size_t blocks;
};

static void must(int rc, const struct err *err)
{
	if (rc == 0)
		return;
	fprintf(stderr, "b_block: %s: %s\n", err->where, err->msg);
	exit(1);
}

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return 1e6 * (double)t.tv_sec + (double)t.tv_nsec / 1e3;
}

/* --- records */

struct call { uint8_t id[16]; int64_t beg; unsigned who, tool; };

static void text(struct bench *b, struct audit_row *row, enum audit_column col, int64_t id)
{
	const char *p = "";
	size_t len = 0;

	(void)rig_text(&b->rig, audit_columns[col].tag, id, &p, &len, NULL);
	audit_row_text(row, col, id, p, len);
}

static void common(struct bench *b, struct audit_row *row, const struct call *c)
{
	const struct { enum audit_column col; int64_t v; } numbers[] = {
		{ COL_MONO, row->v[COL_TS].n - INT64_C(1767000000000000) }, { COL_CLK, 1 }, { COL_ACTOR, 1 }, { COL_AUTHN, 1 },
		{ COL_TPORT, 4 }, { COL_FLAGS, 1 },
	}, ids[] = {
		{ COL_BOOT, 3 }, { COL_BUILD, 4 }, { COL_CRED, 100 + c->who }, { COL_PRN, 200 + c->who }, { COL_PEER, 300 + c->who },
		{ COL_REV, 20 }, { COL_TOOL, 400 + c->tool }, { COL_TDEF, 500 + c->tool }, { COL_RULE, 600 + c->who / 4 },
	};

	for (size_t i = 0; i < NELEMS(numbers); i++)
		audit_row_int(row, numbers[i].col, numbers[i].v);
	for (size_t i = 0; i < NELEMS(ids); i++)
		text(b, row, ids[i].col, ids[i].v);
	audit_row_blob(row, COL_CALL, c->id, sizeof(c->id));
}

static int64_t some(struct bench *b, int64_t plain, int64_t from, uint64_t n)
{
	return b->mixed ? from + (int64_t)rig_below(&b->rig, n) : plain;
}

static void commit(struct bench *b, struct audit_row *row, uint8_t ctag)
{
	uint8_t *cm = rig_bytes(&b->rig, 34);

	cm[0] = 0;
	cm[1] = ctag;
	audit_row_blob(row, COL_CM, cm, 34);
}

static void begin_call(struct bench *b, size_t i, struct call *c)
{
	struct audit_row *row = &b->rig.row[i];
	struct rig_payload *pay = &b->rig.pay[i];
	const uint64_t ms = (uint64_t)row->v[COL_TS].n / 1000;

	c->beg = row->v[COL_IDX].n;
	c->who = (unsigned)some(b, 0, 0, 20);
	c->tool = (unsigned)some(b, 0, 0, 25);
	memcpy(c->id, rig_bytes(&b->rig, 16), 16);
	for (unsigned k = 0; k < 6; k++)
		c->id[k] = (uint8_t)(ms >> (40 - 8 * k));
	common(b, row, c);
	audit_row_int(row, COL_KIND, BEGIN);
	audit_row_int(row, COL_N_REQ, some(b, 44, 20, 4000));
	audit_row_int(row, COL_N_STO, 33);
	audit_row_int(row, COL_KEY, 30 + c->who);
	audit_row_blob(row, COL_SH, rig_bytes(&b->rig, 16), 16);
	commit(b, row, 1);
	*pay = (struct rig_payload){ .here = true, .ct_len = 16 + 6 + 33 };
	memcpy(pay->salt, rig_bytes(&b->rig, 16), 16);
	memcpy(pay->nonce, rig_bytes(&b->rig, 24), 24);
	memcpy(pay->ct, rig_bytes(&b->rig, pay->ct_len), pay->ct_len);
}

static void end_call(struct bench *b, size_t i, const struct call *c)
{
	struct audit_row *row = &b->rig.row[i];

	common(b, row, c);
	audit_row_int(row, COL_KIND, END);
	audit_row_int(row, COL_BEG, c->beg);
	audit_row_int(row, COL_OUTCOME, b->mixed && rig_below(&b->rig, 20) == 0 ? 1 + (int64_t)rig_below(&b->rig, 6) : 0);
	audit_row_int(row, COL_N_RES, some(b, 88, 50, 8000));
	audit_row_int(row, COL_DUR, some(b, 180 + (int64_t)rig_below(&b->rig, 40), 500, 60000));
	if (b->mixed) {
		audit_row_int(row, COL_CPU, some(b, 0, 200, 8000));
		audit_row_int(row, COL_RSS, some(b, 0, 2000, 3000));
		text(b, row, COL_SBOX, 7);
	}
	commit(b, row, 2);
}

static void records(struct bench *b)
{
	struct call open[8], *c;
	const size_t at_once = b->mixed ? NELEMS(open) : 1;
	size_t calls = 0;
	int64_t ts = INT64_C(1767225600000000);

	rig_any(&b->rig, 0, MADE, 0);
	for (size_t i = 0; i < MADE; i++) {
		rig_least(&b->rig, &b->rig.row[i], (int64_t)i);
		b->rig.pay[i].here = false;
		ts += b->mixed ? 100 + (int64_t)rig_below(&b->rig, 20000) : 190 + (int64_t)rig_below(&b->rig, 32);
		audit_row_int(&b->rig.row[i], COL_TS, ts);
		if (calls == at_once || (calls > 0 && rig_below(&b->rig, 2))) {
			c = &open[rig_below(&b->rig, calls)];
			end_call(b, i, memcpy(rig_bytes(&b->rig, sizeof(*c)), c, sizeof(*c)));
			*c = open[--calls];
		} else {
			c = rig_bytes(&b->rig, sizeof(*c));
			begin_call(b, i, c);
			open[calls++] = *c;
		}
	}
	rig_leaves(&b->rig);
}

/* --- what is measured */

static size_t records_of(const struct bench *b, size_t block)
{
	const size_t left = MADE - block * b->per_block;

	return left < b->per_block ? left : b->per_block;
}

static void keep(struct audit_bytes *to, struct block_bytes *of)
{
	free(to->p);
	to->p = mem_dup(of->p, of->len);
	of->p = to->p;
}

static void encode(struct bench *b, size_t i)
{
	struct err err;

	for (size_t k = 0; k < records_of(b, i); k++)
		must(block_maker_add(b->maker, &b->rig.row[i * b->per_block + k], &err), &err);
	block_maker_end(b->maker, &b->block[i]);
}

static void open_all(struct bench *b, size_t i)
{
	struct err err;

	must(block_open(b->reader, &b->block[i], BLOCK_ALL_COLUMNS, &err), &err);
}

static void leaves(struct bench *b, size_t i)
{
	uint8_t leaf[TREE_HASH];
	struct err err;

	open_all(b, i);
	for (int64_t k = 0; k < block_count(b->reader); k++)
		must(block_leaf(b->reader, k, leaf, &err), &err);
}

static void check(struct bench *b, size_t i)
{
	const uint8_t (*want)[TREE_HASH] = (const uint8_t (*)[TREE_HASH])b->rig.leaf + i * b->per_block;
	struct err err;

	must(block_check(b->reader, &b->block[i], want, &err), &err);
}

static void two(struct bench *b, size_t i)
{
	struct err err;

	must(block_open(b->reader, &b->block[i], BLOCK_COLUMN(COL_KIND) | BLOCK_COLUMN(COL_OUTCOME), &err), &err);
}

/* With the decoding, which is told by itself. */
static void sums(struct bench *b, size_t i)
{
	open_all(b, i);
	block_summer_add(b->summer, b->reader);
	if (i + 1 == b->blocks)
		block_summer_end(b->summer, &b->bytes);
}

static double measure(struct bench *b, void fn(struct bench *, size_t), size_t records_in_all)
{
	double from = cpu_us();
	size_t n = 0;

	while (n < records_in_all)
		for (size_t i = 0; i < b->blocks; i++) {
			fn(b, i);
			n += records_of(b, i);
		}
	return (cpu_us() - from) / (double)n;
}

static double payload_bytes(struct bench *b)
{
	struct block_payload v[BLOCK_PAYLOADS_MAX];
	double bytes = 0;
	struct err err;
	size_t n = 0;

	for (size_t i = 0; i < MADE; i += NELEMS(v)) {
		memset(v, 0, sizeof(v));
		for (size_t k = 0; k < NELEMS(v); k++) {
			const struct rig_payload *pay = &b->rig.pay[i + k];

			if (pay->here)
				v[k] = (struct block_payload){ { pay->salt, 16 }, { pay->nonce, 24 }, { pay->ct, pay->ct_len } };
		}
		must(block_payloads_write(v, NELEMS(v), &b->bytes, &n, &err), &err);
		bytes += (double)b->bytes.len;
	}
	return bytes / MADE;
}

static void store(struct bench *b, size_t n)
{
	double rows = 0, columns = 0, hashes = 0, zones = 0, encoded, opened;

	records(b);
	for (size_t i = 0; i < MADE; i++) {
		audit_row_encode(&b->rig.row[i], &b->bytes);
		rows += (double)b->bytes.len;
	}
	encoded = measure(b, encode, n);
	for (size_t i = 0; i < b->blocks; i++) {
		encode(b, i);
		keep(&b->kept[3 * i], &b->block[i].cols);
		keep(&b->kept[3 * i + 1], &b->block[i].hash);
		keep(&b->kept[3 * i + 2], &b->block[i].zone);
		columns += (double)b->block[i].cols.len;
		hashes += (double)b->block[i].hash.len;
		zones += (double)b->block[i].zone.len;
	}
	opened = measure(b, open_all, n);
	printf("{\"store\":\"%s\",\"per_block\":%zu,\"row_bytes\":%.1f,\"columns\":%.2f,\"hashes\":%.2f,\"zone\":%.2f,"
	       "\"payloads\":%.2f,\"encode\":%.3f,\"open\":%.3f,\"leaves\":%.3f,\"check\":%.3f,\"two\":%.3f,\"sums\":%.3f}\n",
	       b->mixed ? "mixed" : "plain", b->per_block, rows / MADE, columns / MADE, hashes / MADE, zones / MADE,
	       payload_bytes(b), encoded, opened, measure(b, leaves, n), measure(b, check, n), measure(b, two, n),
	       measure(b, sums, n) - opened);
	(void)fflush(stdout);
}

int main(int argc, char **argv)
{
	const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
	struct bench b = { .maker = block_maker_new(), .summer = block_summer_new(), .per_block = BLOCK_RECORDS_MAX };

	if (argc > 2)
		b.per_block = strtoul(argv[2], NULL, 10);
	if (b.per_block < 1 || b.per_block > BLOCK_RECORDS_MAX) {
		fprintf(stderr, "usage: b_block [RECORDS [PER_BLOCK]], of a block 1 to 4096\n");
		return 2;
	}
	rig_init(&b.rig, 1);
	b.reader = block_reader_new(&b.rig.of);
	b.blocks = (MADE + b.per_block - 1) / b.per_block;
	b.block = mem_calloc(b.blocks, sizeof(*b.block));
	b.kept = mem_calloc(3 * b.blocks, sizeof(*b.kept));
	for (unsigned mixed = 0; mixed < 2; mixed++) {
		b.mixed = mixed;
		store(&b, n);
	}
	for (size_t i = 0; i < 3 * b.blocks; i++)
		free(b.kept[i].p);
	free(b.kept);
	free(b.block);
	free(b.bytes.p);
	block_summer_free(&b.summer);
	block_maker_free(&b.maker);
	block_reader_free(&b.reader);
	rig_fini(&b.rig);
	return 0;
}
