/* Records for tests and benchmarks of blocks. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

#include "block_rig.h"

void rig_init(struct rig *rig, uint64_t seed)
{
	*rig = (struct rig){ .seed = seed, .texts = map_new(), .arena = arena_new((size_t)1 << 30) };
	rig->of = (struct block_texts){ .log = 7, .origin = RIG_ORIGIN, .fn = rig_text, .arg = rig };
}

static void forget(struct rig *rig)
{
	free(rig->row);
	free(rig->leaf);
	free(rig->pay);
	rig->row = NULL;
	rig->leaf = NULL;
	rig->pay = NULL;
	rig->n = 0;
	arena_free(&rig->arena);
}

void rig_fini(struct rig *rig)
{
	void *text;

	for (size_t it = 0; map_next(rig->texts, &it, NULL, NULL, &text); )
		free(text);
	map_free(&rig->texts);
	forget(rig);
}

uint64_t rig_next(struct rig *rig)
{
	uint64_t z = (rig->seed += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return z ^ z >> 31;
}

uint64_t rig_below(struct rig *rig, uint64_t n)
{
	return rig_next(rig) % n;
}

void *rig_bytes(struct rig *rig, size_t n)
{
	uint8_t *p = arena_alloc(rig->arena, n ? n : 1);

	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)rig_next(rig);
	return p;
}

/* --- texts */

/* The tag of a column and how long its texts are, about. */
static const struct { uint16_t kind; const char *format; } kinds[] = {
	{ 0x07, "boot-4f0c2a9b-77d1-4c05-9f1e-%lld" }, { 0x10, "7Qm3kZ%lld" }, { 0x11, "prn_2f1c9ab07d%lld" }, { 0x15, "adr_%lld" },
	{ 0x16, "cli_%lld" }, { 0x20, "2026-07-%lld" }, { 0x22, "files_read_text_%lld" },
	{ 0x23, "123b98d7e42cb3069872c2bf59ce2ba402fa45b02682a1673786439e2f8826%lld" }, { 0x24, "toolcrib 0.2.0 %lld" },
	{ 0x29, "grant/%lld" }, { 0x58, "base+landlock:%lld" },
};

int rig_text(void *arg, uint16_t kind, int64_t id, const char **ret, size_t *ret_len, struct err *err)
{
	struct rig *rig = arg;
	struct { int64_t id, kind; } key = { id, kind };
	const char *format = "text-%lld";
	char *text = map_get(rig->texts, &key, sizeof(key));

	(void)err;
	if (id == RIG_NO_TEXT)
		return 0;
	for (size_t i = 0; i < NELEMS(kinds) && !text; i++)
		if (kinds[i].kind == kind)
			format = kinds[i].format;
	if (!text) {
		char buf[120];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(buf, sizeof(buf), format, (long long)id);
#pragma GCC diagnostic pop
		text = mem_strdup(buf);
		(void)map_set(rig->texts, &key, sizeof(key), text);
	}
	*ret = text;
	*ret_len = strlen(text);
	return 1;
}

static void put_id(struct rig *rig, struct audit_row *row, enum audit_column col, int64_t id)
{
	const char *text = "";
	size_t len = 0;

	if (rig_text(rig, audit_columns[col].tag, id, &text, &len, NULL) == 1)
		audit_row_text(row, col, id, text, len);
}

/* --- rows */

static void begin(struct rig *rig, size_t n)
{
	forget(rig);
	rig->arena = arena_new((size_t)1 << 30);
	rig->row = mem_calloc(n, sizeof(*rig->row));
	rig->leaf = mem_calloc(n, sizeof(*rig->leaf));
	rig->pay = mem_calloc(n, sizeof(*rig->pay));
	rig->n = n;
}

void rig_leaves(struct rig *rig)
{
	struct audit_bytes bytes = { NULL, 0, 0 };

	for (size_t i = 0; i < rig->n; i++) {
		audit_row_encode(&rig->row[i], &bytes);
		tree_leaf(bytes.p, bytes.len, rig->leaf[i]);
	}
	free(bytes.p);
}

void rig_least(struct rig *rig, struct audit_row *row, int64_t idx)
{
	(void)rig;
	memset(row, 0, sizeof(*row));
	audit_row_text(row, COL_LOG, 7, RIG_ORIGIN, strlen(RIG_ORIGIN));
	audit_row_int(row, COL_IDX, idx);
	audit_row_int(row, COL_TS, (int64_t)(1767225600000000u + 400u * (uint64_t)idx));
	audit_row_int(row, COL_KIND, 1010);
}

struct call { uint8_t id[16]; int64_t beg; unsigned who, tool; };

static void common(struct rig *rig, struct audit_row *row, const struct call *c)
{
	audit_row_int(row, COL_MONO, row->v[COL_TS].n - 1767000000000000);
	audit_row_int(row, COL_CLK, 1);
	put_id(rig, row, COL_BOOT, 3);
	put_id(rig, row, COL_BUILD, 4);
	put_id(rig, row, COL_CRED, 100 + c->who);
	put_id(rig, row, COL_PRN, 200 + c->who);
	put_id(rig, row, COL_PEER, 300 + c->who);
	put_id(rig, row, COL_REV, 20 + c->who % 2);
	put_id(rig, row, COL_TOOL, 400 + c->tool);
	put_id(rig, row, COL_TDEF, 500 + c->tool);
	put_id(rig, row, COL_RULE, 600 + c->who / 4);
	audit_row_int(row, COL_ACTOR, 1);
	audit_row_int(row, COL_AUTHN, 1);
	audit_row_int(row, COL_TPORT, 4);
	audit_row_blob(row, COL_CALL, c->id, sizeof(c->id));
}

/* A value that is kept, as the writer leaves it. */
static void value(struct rig *rig, size_t i, uint16_t ctag, size_t len)
{
	struct audit_row *row = &rig->row[i];
	struct rig_payload *pay = &rig->pay[i];
	uint8_t *cm = rig_bytes(rig, 34);

	cm[0] = (uint8_t)(ctag >> 8);
	cm[1] = (uint8_t)ctag;
	audit_row_blob(row, COL_CM, cm, 34);
	audit_row_int(row, COL_FLAGS, 1);
	audit_row_int(row, COL_KEY, 30 + (int64_t)rig_below(rig, 20));
	audit_row_int(row, COL_N_STO, (int64_t)len);
	pay->here = true;
	pay->ct_len = 22 + len;
	memcpy(pay->salt, rig_bytes(rig, 16), 16);
	memcpy(pay->nonce, rig_bytes(rig, 24), 24);
	memcpy(pay->ct, rig_bytes(rig, pay->ct_len), pay->ct_len);
}

static void begin_call(struct rig *rig, size_t i, struct call *c)
{
	const uint64_t ms = (uint64_t)rig->row[i].v[COL_TS].n / 1000;

	*c = (struct call){ .beg = rig->row[i].v[COL_IDX].n, .who = (unsigned)rig_below(rig, 20), .tool = (unsigned)rig_below(rig, 25) };
	memcpy(c->id, rig_bytes(rig, 16), 16);
	for (unsigned k = 0; k < 6; k++)
		c->id[k] = (uint8_t)(ms >> (40 - 8 * k));
	c->id[6] = (uint8_t)(0x70 | (c->id[6] & 0x0F));
	common(rig, &rig->row[i], c);
	audit_row_int(&rig->row[i], COL_KIND, 1001);
	audit_row_int(&rig->row[i], COL_N_REQ, 20 + (int64_t)rig_below(rig, 40));
	value(rig, i, 1, 33);
}

static void end_call(struct rig *rig, size_t i, const struct call *c)
{
	struct audit_row *row = &rig->row[i];
	const bool bad = rig_below(rig, 50) == 0;

	common(rig, row, c);
	audit_row_int(row, COL_KIND, 1002);
	audit_row_int(row, COL_BEG, c->beg);
	audit_row_int(row, COL_OUTCOME, bad ? 1 : 0);
	audit_row_int(row, COL_N_RES, 100 + (int64_t)rig_below(rig, 900));
	audit_row_int(row, COL_DUR, 500 + (int64_t)(rig_next(rig) % 20000));
	audit_row_int(row, COL_CPU, 200 + (int64_t)(rig_next(rig) % 4000));
	audit_row_int(row, COL_RSS, 2000 + (int64_t)(rig_next(rig) % 500));
	put_id(rig, row, COL_SBOX, 7);
	if (bad)
		audit_row_int(row, COL_XSTAT, 1);
	if (rig_below(rig, 4) == 0)
		audit_row_blob(row, COL_TRACE, rig_bytes(rig, 16), 16);
	value(rig, i, 2, 33);
}

/* What is no call: an event with fields of its own. */
static void event(struct rig *rig, size_t i)
{
	struct audit_row *row = &rig->row[i];

	audit_row_int(row, COL_KIND, 1405);
	put_id(rig, row, COL_OBJ, 700 + (int64_t)rig_below(rig, 50));
	audit_row_blob(row, COL_EXT, rig_bytes(rig, 40), 40);
	audit_row_blob(row, COL_SH, rig_bytes(rig, 16), 16);
	audit_row_int(row, COL_ACTOR, 2);
}

void rig_calls(struct rig *rig, int64_t first, size_t n)
{
	enum { UNDER_WAY = 8 };
	struct call *open, *c;
	size_t count = 0;
	int64_t ts = 1767225600000000 + 400 * first;

	begin(rig, n);
	open = arena_alloc(rig->arena, (n + 1) * sizeof(*open));
	for (size_t i = 0, calls = 0; i < n; i++) {
		ts += 100 + (int64_t)rig_below(rig, 600);
		rig_least(rig, &rig->row[i], first + (int64_t)i);
		audit_row_int(&rig->row[i], COL_TS, ts);
		if (rig_below(rig, 200) == 0) {
			event(rig, i);
		} else if (calls - count > 0 && (calls - count >= UNDER_WAY || rig_below(rig, 2))) {
			/* not always the oldest */
			const size_t at = count + rig_below(rig, calls - count);
			const struct call ended = open[at];

			c = arena_alloc(rig->arena, sizeof(*c));
			*c = ended;
			end_call(rig, i, c);
			open[at] = open[count];
			open[count++] = *c;
		} else {
			c = arena_alloc(rig->arena, sizeof(*c));
			begin_call(rig, i, c);
			open[calls++] = *c;
		}
	}
	rig_leaves(rig);
}

/* --- any rows */

static int64_t any_number(struct rig *rig)
{
	static const int64_t edges[] = { 0, 1, 127, 128, 16383, 16384, INT32_MAX, INT64_MAX - 1, INT64_MAX };
	const uint64_t which = rig_below(rig, 4);

	if (which == 0)
		return edges[rig_below(rig, NELEMS(edges))];
	if (which == 1)
		return (int64_t)rig_below(rig, 5);
	return (int64_t)(rig_next(rig) >> (1 + rig_below(rig, 62)));
}

static void any_blob(struct rig *rig, struct audit_row *row, enum audit_column col, size_t blob_max)
{
	size_t len = audit_columns[col].size;

	if (col == COL_CM)
		len = 34 * rig_below(rig, 1 + (blob_max < 200 ? blob_max : 200) / 34);
	else if (col == COL_EXT)
		len = rig_below(rig, 1 + blob_max);
	audit_row_blob(row, col, rig_bytes(rig, len), len);
}

/* The call of the begin, or a beg that names none. */
static void any_begin(struct rig *rig, size_t i)
{
	struct audit_row *row = &rig->row[i];
	const size_t back = rig_below(rig, i + 1);
	const struct audit_value *call = &rig->row[i - back].v[COL_CALL];

	if (rig_below(rig, 4) == 0)
		return;
	audit_row_int(row, COL_BEG, row->v[COL_IDX].n - (int64_t)back);
	if (row->v[COL_CALL].present && call->present && rig_below(rig, 8) != 0)
		row->v[COL_CALL] = *call;
}

static void any_value(struct rig *rig, struct audit_row *row, enum audit_column col, size_t blob_max)
{
	int64_t n = any_number(rig);

	if (audit_columns[col].form == FORM_BLOB)
		any_blob(rig, row, col, blob_max);
	else if (audit_columns[col].form == FORM_DICT)
		put_id(rig, row, col, n == RIG_NO_TEXT ? 1 : n);
	else
		audit_row_int(row, col, n);
}

void rig_any(struct rig *rig, int64_t first, size_t n, size_t blob_max)
{
	unsigned in[COL_COUNT];         /* how many of eight records have a value */

	begin(rig, n);
	for (unsigned col = 0; col < COL_COUNT; col++)
		in[col] = rig_below(rig, 2) ? (unsigned)rig_below(rig, 2) * 8 : (unsigned)rig_below(rig, 9);
	for (size_t i = 0; i < n; i++) {
		rig_least(rig, &rig->row[i], first + (int64_t)i);
		for (unsigned col = COL_CALL; col < COL_COUNT; col++)
			if (col == COL_TS || col == COL_KIND || rig_below(rig, 8) < in[col])
				any_value(rig, &rig->row[i], (enum audit_column)col, blob_max);
		if (rig->row[i].v[COL_BEG].present)
			any_begin(rig, i);
	}
	rig_leaves(rig);
}
