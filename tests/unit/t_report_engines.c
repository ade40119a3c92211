/* Every report says the same of the same records, row by row and in the same order, whichever engine has them.  PostgreSQL
 * where its programs are installed. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "forms/forms.h"
#include "report/report.h"

#include "engines.h"
#include "suite.h"

/* --- records: three logs, some weeks of calls, refusals, approvals, tasks, acts, and a server that was stopped and died */

enum { LOGS = 3, RECORDS = 600 };
#define DAY INT64_C(86400000000)
#define BEGIN_US (INT64_C(20500) * DAY)

struct seed { uint64_t s; };
static unsigned rnd(struct seed *r, unsigned n)
{
	r->s = r->s * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (unsigned)(r->s >> 33) % n;
}

/* Columns of rec, and which of them a record has. */
enum { C_LOG, C_IDX, C_TS, C_KIND, C_CRED, C_PRN, C_OBO, C_PEER, C_CLIENT, C_REV, C_TOOL, C_TDEF, C_POL, C_RULE, C_SCOPE, C_SBOX, C_OBJ, C_SYS,
	C_MDL, C_OUTCOME, C_TPORT, C_AUTHN, C_ACTOR, C_CLK, C_DUR, C_CPU, C_RSS, C_BEG, C_N_REQ, C_N_RES, C_FLAGS, C_XSTAT, C_BOOT, C_BUILD, COLS };
#define COLUMNS "log, idx, ts, kind, cred, prn, obo, peer, client, rev, tool, tdef, pol, rule, scope, sbox, obj, sys, mdl, outcome, tport, " \
	"authn, actor, clk, dur, cpu, rss, beg, n_req, n_res, flags, xstat, boot, build"
#define NONE INT64_MIN

struct record { int64_t v[COLS]; uint8_t call, prev; uint8_t ext[600]; size_t ext_len; };

static struct record a_record(int64_t log, int64_t idx, int64_t ts, int64_t kind)
{
	struct record r = { .call = 0 };

	for (int i = 0; i < COLS; i++)
		r.v[i] = NONE;
	r.v[C_LOG] = log;
	r.v[C_IDX] = idx;
	r.v[C_TS] = ts;
	r.v[C_KIND] = kind;
	return r;
}

static void field(struct record *r, unsigned tag, const void *p, size_t n)
{
	uint8_t *at = r->ext + r->ext_len;
	const uint8_t head[6] = { (uint8_t)(tag >> 8), (uint8_t)tag, 0, 0, (uint8_t)(n >> 8), (uint8_t)n };

	memcpy(at, head, 6);
	memcpy(at + 6, p, n);
	r->ext_len += n + 6;
}

static void text(struct record *r, unsigned tag, const char *z) { field(r, tag, z, strlen(z)); }

static void bind_id(struct db_stmt *st, unsigned pos, int64_t log, int n, uint8_t buffer[16])
{
	memset(buffer, (int)log, 16);
	buffer[0] = (uint8_t)n;
	buffer[7] = 0xab;
	if (n)
		db_bind_blob(st, pos, buffer, 16);
	else
		db_bind_null(st, pos);
}

static void insert(struct fix *f, const struct record *r)
{
	char sql[900], types[COLS + 5];
	uint8_t id[3][16];
	struct db_stmt *st;
	int n;

	n = snprintf(sql, sizeof sql, "INSERT INTO rec(" COLUMNS ", enc, call, prev, ext, leaf) VALUES (");
	for (int i = 0; i < COLS; i++)
		n += snprintf(sql + n, sizeof sql - (size_t)n, "?%d, ", i + 1);
	snprintf(sql + n, sizeof sql - (size_t)n, "1, ?%d, ?%d, ?%d, ?%d)", COLS + 1, COLS + 2, COLS + 3, COLS + 4);
	memset(types, 'i', COLS);
	memcpy(types + COLS, "bbbb", 5);
	st = say(f, f->db, sql, types);
	for (unsigned i = 0; i < COLS; i++)
		if (r->v[i] == NONE)
			db_bind_null(st, i + 1);
		else
			db_bind_i64(st, i + 1, r->v[i]);
	bind_id(st, COLS + 1, r->v[C_LOG], r->call, id[0]);
	bind_id(st, COLS + 2, r->v[C_LOG], r->prev, id[1]);
	if (r->ext_len)
		db_bind_blob(st, COLS + 3, r->ext, r->ext_len);
	else
		db_bind_null(st, COLS + 3);
	bind_id(st, COLS + 4, r->v[C_LOG], 1 + (int)r->v[C_IDX] % 250, id[2]);
	if (db_step(st, &f->err) < 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	put(&st);
}

/* ids of dict: kind and text */
static const struct { int kind; const char *text; } words[] = {
	{ 16, "acc1" }, { 16, "acc2" }, { 16, "acc9" },                                         /* 1.. keys */
	{ 17, "prn_1" }, { 17, "prn_2" }, { 17, "prn_9" },                                      /* 4.. principals */
	{ 34, "get_weather" }, { 34, "put" }, { 34, "old" },                                    /* 7.. tools */
	{ 35, "0a0a" }, { 35, "ffff" },                                                         /* 10.. definitions: the second is nobody's */
	{ 18, "client a" }, { 18, "Client \xc3\xa4" }, { 19, "2025-11-25" }, { 19, "2026-07-28" },      /* 12.. */
	{ 20, "for whom" }, { 21, "10.0.0.1" }, { 21, "10.0.0.2" }, { 36, "policy" }, { 37, "no grant" }, { 37, "rate" },      /* 16.. */
	{ 38, "scope" }, { 39, "level 3" }, { 40, "sys" }, { 41, "model" },                      /* 22.. */
	{ 112, "tool/get_weather" }, { 112, "tool/get_weather@2" }, { 112, "approval/1" }, { 112, "key/acc1" }, { 112, "hold/2" },     /* 26.. */
	{ 42, "boot" }, { 43, "build" },
};
static int64_t one_of(struct seed *s, int64_t first, unsigned n)
{
	return rnd(s, 5) == 0 ? NONE : first + rnd(s, n);
}

static void add_words(struct fix *f, struct record *r, struct seed *s)
{
	r->v[C_CLIENT] = one_of(s, 12, 2);
	r->v[C_REV] = one_of(s, 14, 2);
	r->v[C_OBO] = one_of(s, 16, 1);
	r->v[C_PEER] = one_of(s, 17, 2);
	r->v[C_TDEF] = one_of(s, 10, 2);
	r->v[C_SYS] = one_of(s, 24, 1);
	r->v[C_MDL] = one_of(s, 25, 1);
	r->v[C_SCOPE] = one_of(s, 22, 1);
	r->v[C_TPORT] = 1 + rnd(s, 5);
	r->v[C_AUTHN] = 1 + rnd(s, 6);
	r->v[C_N_REQ] = one_of(s, 100, 50);
}

/* A call: its begin, and its end, between which others may stand. */
static void begin_call(struct fix *f, struct record *b, struct seed *s)
{
	b->v[C_CRED] = one_of(s, 1, 3);
	b->v[C_PRN] = one_of(s, 4, 3);
	b->v[C_TOOL] = one_of(s, 7, 3);
	add_words(f, b, s);
	insert(f, b);
}

static void end_call(struct fix *f, struct record *e, const struct record *b, struct seed *s)
{
	static const int outcomes[] = { 0, 0, 0, 1, 2, 3, 5, 7, 8, 9 };

	for (int i = C_CRED; i <= C_PRN; i++)
		e->v[i] = b->v[i];
	e->v[C_TOOL] = b->v[C_TOOL];
	e->v[C_BEG] = b->v[C_IDX];
	e->call = b->call;
	e->v[C_OUTCOME] = outcomes[rnd(s, 10)];
	e->v[C_DUR] = one_of(s, 1 + rnd(s, 3) * 1717, 5000);
	e->v[C_CPU] = one_of(s, 10, 500);
	e->v[C_RSS] = one_of(s, 1000, 500);
	e->v[C_N_RES] = one_of(s, 10, 500);
	e->v[C_FLAGS] = one_of(s, 0, 255);
	e->v[C_SBOX] = one_of(s, 23, 1);
	e->v[C_RULE] = rnd(s, 4) ? NONE : 20 + rnd(s, 2);
	insert(f, e);
}

static void other_record(struct fix *f, struct record *r, const struct record *call, struct seed *s)
{
	static const int kinds[] = { 1003, 1003, 1003, 1005, 1010, 1011, 1031, 1032, 1033, 1034, 1021, 1024, 1101, 1101, 1102, 1103, 1201, 1203, 1204,
		1401, 1404, 1501, 1502, 1503, 1521, 1604, 1701, 1801, 1804, 1902, 1903, 1904, 1906, 1907, 1908, 1910, 1911, 2003 };
	static const uint8_t task_end[] = { 3 };
	uint8_t approval[41] = { 0, 0, 0, 0, 0, 0, 0, 1 };
	const int64_t kind = kinds[rnd(s, sizeof kinds / sizeof kinds[0])];

	r->v[C_KIND] = kind;
	r->v[C_CRED] = one_of(s, 1, 3);
	r->v[C_PRN] = one_of(s, 4, 3);
	r->v[C_TOOL] = one_of(s, 7, 3);
	r->v[C_OBJ] = one_of(s, 26, 5);
	r->v[C_ACTOR] = one_of(s, 1, 5);
	add_words(f, r, s);
	if (kind == 1003) {
		r->call = (uint8_t)(200 + rnd(s, 50));
		r->v[C_OUTCOME] = 2 + rnd(s, 3);
		r->v[C_RULE] = one_of(s, 20, 2);
	}
	if (kind >= 1021 && kind <= 1035)
		r->call = call->call;
	if (kind >= 1031 && kind <= 1035) {
		approval[40] = (uint8_t)rnd(s, 2);
		approval[7] = (uint8_t)rnd(s, 200);
		field(r, 0x011d, approval, sizeof approval);
		if (rnd(s, 2))
			text(r, 0x0106, "alice (cli)");
	}
	if (kind == 1021 || kind == 1024)
		text(r, 0x0119, "tsk_aaaaaaaaaaaaaaaaaa");
	if (kind == 1024)
		field(r, 0x011a, task_end, 1);
	if (rnd(s, 3))
		text(r, 0x0113, rnd(s, 2) ? "uid/7 (cli): audit show call=01010101" : "cli, by hand \xc3\xa4");
	if (rnd(s, 2))
		field(r, 0x0100, "\xab\xcd", 2);
	if (kind > 1900 && rnd(s, 2)) {
		text(r, 0x0106, rnd(s, 2) ? "bob approval/1" : "bob");
		field(r, 0x0102, "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\1\0", 16);
		text(r, 0x0105, "T-1");
	}
	insert(f, r);
}

/* A log of a tenant, or the system's: begins and ends in turn with all else. */
static void add_log(struct fix *f, int64_t log)
{
	static const int life[] = { 1601, 1602, 1601, 1603, 1601, 1605, 1608, 1609, 1610, 2001, 1606, 1604 };
	struct seed s = { (uint64_t)log * 77 };
	struct record open = { .call = 0 };
	int64_t ts = BEGIN_US + log * 1000003;
	bool is_open = false;

	for (int i = 0; i < RECORDS / (log == 1 ? 3 : 1); i++) {
		struct record r;

		ts += INT64_C(1000000) * (1 + rnd(&s, i % 200 < 120 ? 200 : 9000)) + rnd(&s, 999999);
		r = a_record(log, i, i % 97 == 96 ? ts - 5000000 : ts, 1001);          /* a clock that was set back */
		r.v[C_BOOT] = one_of(&s, 31, 1);
		r.v[C_BUILD] = one_of(&s, 32, 1);
		if (log == 1 && rnd(&s, 2)) {
			r.v[C_KIND] = life[rnd(&s, 12)];
			r.v[C_CLK] = 1 + rnd(&s, 3);
			r.v[C_DUR] = r.v[C_KIND] == 1610 ? 3600000000 : NONE;
			if (rnd(&s, 2))
				text(&r, 0x0113, rnd(&s, 2) ? "cli, x" : "serve");
			insert(f, &r);
		} else if (log > 1 && is_open && rnd(&s, 3)) {
			r.v[C_KIND] = rnd(&s, 20) ? 1002 : 1004;
			end_call(f, &r, &open, &s);
			is_open = rnd(&s, 8) == 0;
		} else if (log > 1 && rnd(&s, 4)) {
			r.call = (uint8_t)(1 + i % 190);
			r.prev = rnd(&s, 3) ? 0 : open.call;
			begin_call(f, &r, &s);
			open = r;
			is_open = true;
		} else {
			other_record(f, &r, &open, &s);
		}
	}
}

static void fill(struct fix *f)
{
	static const char *const rows[] = {
		"INSERT INTO log(id, origin, tenant_id, state) VALUES (1, 'i/s', NULL, 1), (2, 'i/t/acme', 1, 1), (3, 'i/t/beta', 2, 1)",
		"INSERT INTO head(log, size) VALUES (1, 200), (2, 600), (3, 600)",
		"INSERT INTO principal(id, tenant_id, name, pseudonym, state, created_us) VALUES (1, 1, 'alice', 'prn_1', 1, 5), (2, 2, 'bob', 'prn_2', 2, 5)",
		"INSERT INTO tool(id, name, state, version, created_us) VALUES (1, 'get_weather', 1, 1, 5)",
		("INSERT INTO tool_grant(id, tenant_id, glob, alias, concurrency, rate_count, rate_per_s, created_us) VALUES (1, 1, 'put', '', 0, 0, 0, 5), "
		 "(2, 1, 'get_*', '', 0, 0, 0, 9), (3, 1, 'zzz', 'old', 0, 0, 0, 5), (5, 1, 'never_*', '', 0, 0, 0, 5), (4, 2, 'x?', '', 0, 0, 0, 5)"),
	};
	char sql[300];

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		snprintf(sql, sizeof sql, "INSERT INTO dict(id, kind, text) VALUES (%d, %d, '%s')", (int)i + 1, words[i].kind, words[i].text);
		assert_int_equal(run(f, f->db, sql), 0);
	}
	for (int i = 1; i <= 2; i++) {
		struct db_stmt *st = say(f, f->db, "INSERT INTO tenant(id, name, title, state, generation, list_digest, concurrency, rate_count, rate_per_s, "
					 "created_us) VALUES (?1, ?2, '', 1, 0, ?3, 0, 0, 0, 0)", "itb");

		db_bind_i64(st, 1, i);
		db_bind_textz(st, 2, i == 1 ? "acme" : "beta");
		db_bind_blob(st, 3, "d", 1);
		assert_int_equal(db_step(st, &f->err), 0);
		put(&st);
	}
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (run(f, f->db, rows[i]) < 0)
			fail_msg("%s: %s", rows[i], f->err.msg);
	for (int i = 1; i <= 3; i++) {
		struct db_stmt *st = say(f, f->db, "INSERT INTO cred(id, tenant_id, principal_id, accessor, hash, label, created_us, expires_us, revoked_us, "
					 "last_used_us, rotated_us) VALUES (?1, ?2, ?2, ?3, ?4, '', 5, ?5, ?6, ?5, ?6)", "iitbii");

		snprintf(sql, sizeof sql, "acc%d", i);
		db_bind_i64(st, 1, i);
		db_bind_i64(st, 2, i == 2 ? 2 : 1);
		db_bind_textz(st, 3, sql);
		db_bind_blob(st, 4, "h", 1);
		for (unsigned at = 5; at <= 6; at++)
			if (i + (int)at == 8)
				db_bind_i64(st, at, BEGIN_US + 9 * DAY);
			else
				db_bind_null(st, at);
		assert_int_equal(db_step(st, &f->err), 0);
		put(&st);
	}
	for (int i = 0; i < 2; i++) {
		struct db_stmt *st = say(f, f->db, i ? "INSERT INTO anchor(kind, size, note, ts) VALUES (1, 60, ?1, 1771300000000000)"
					 : "INSERT INTO tool_version(tool_id, version, digest, list_digest, definition, actor, created_us) "
					   "VALUES (1, 1, ?1, ?1, '', '', 5)", "b");

		db_bind_blob(st, 1, "\x0a\x0a", 2);
		assert_int_equal(db_step(st, &f->err), 0);
		put(&st);
	}
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	for (int64_t log = 1; log <= LOGS; log++)
		add_log(f, log);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
}

/* --- questions */

struct question {
	const char *noun, *verb, *option, *text, *tenant, *principal, *key, *tool, *method;
	int outcome, limit;
	int64_t kind, since_us, until_us;
	bool after;                     /* the second page as well */
};

static const struct report_way *way_of(const struct report *r, const struct question *q)
{
	const struct report_way *w = r->way;

	while (w->option && (!q->option || strcmp(w->option, q->option) != 0 || (w->method && !q->method)))
		w++;
	while (w->method && !q->method)
		w++;
	return w;
}

static void ask_of(const struct question *q, struct report_ask *ask)
{
	*ask = (struct report_ask){ .report = report_find(q->noun, q->verb), .newest = -1, .to = -1, .population = -1, .outcome = q->outcome - 1 };
	assert_non_null(ask->report);
	ask->way = way_of(ask->report, q);
	ask->line = mem_strdup("question");
	ask->store = mem_strdup("/");
	snprintf(ask->tenant, sizeof ask->tenant, "%s", q->tenant ? q->tenant : "");
	snprintf(ask->principal, sizeof ask->principal, "%s", q->principal ? q->principal : "");
	snprintf(ask->key, sizeof ask->key, "%s", q->key ? q->key : "");
	snprintf(ask->tool, sizeof ask->tool, "%s", q->tool ? q->tool : "");
	snprintf(ask->text, sizeof ask->text, "%s", q->text ? q->text : "");
	ask->as_text = q->text != NULL;
	ask->kind = q->kind;
	if (q->kind) {
		snprintf(ask->text, sizeof ask->text, "%d", (int)q->kind);
		ask->as_text = true;
	}
	ask->since_us = (uint64_t)q->since_us;
	ask->until_us = (uint64_t)q->until_us;
	ask->limit = q->limit ? q->limit : 1000;
	ask->number = strcmp(q->verb, "sample") == 0 ? 4711 : BEGIN_US + 20 * DAY;      /* the seed, or the time */
	if (strcmp(q->verb, "stats") == 0) {
		ask->since_us = (uint64_t)(q->since_us ? q->since_us : BEGIN_US - DAY);
		ask->until_us = (uint64_t)(q->until_us ? q->until_us : BEGIN_US + 30 * DAY);
		ask->step_us = DAY / 2;
	}
}

static int feed(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	struct report_feed *feed = report_feed_new(ask);
	enum report_more more = REPORT_MORE_NOW;
	struct str all = STR_INIT;
	int rc = 0;

	while (rc == 0 && more == REPORT_MORE_NOW) {
		rc = report_feed_part(feed, out, db, &more, err);
		str_put(&all, out->reply->text.p, out->reply->text.len);        /* a part is handed on, or the next one is short */
		str_fini(&out->reply->text);
	}
	report_feed_free(&feed);
	out->reply->text = all;
	return rc;
}

static void nothing_seen(void *arg, int64_t tenant_id, int64_t idx) { }
static void nothing_looked(void *arg, int64_t tenant_id, int64_t from, int64_t to) { }

/* What it says from its columns on; before them is a header with what the store takes of a disk, and the time. */
static char *answer(struct fix *f, const struct question *q, size_t *ret_rows, char **next)
{
	struct reply reply = { .any = false };
	struct report_out out = { .reply = &reply, .seen = nothing_seen, .looked = nothing_looked };
	struct report_ask ask;
	char *text, *from;
	int rc;

	ask_of(q, &ask);
	ask.after = *next;
	*next = NULL;
	rc = strcmp(q->verb, "tail") == 0 || strcmp(q->verb, "export") == 0 ? feed(&out, f->reader, &ask, &f->err)
									     : report_answer(&out, f->reader, &ask, &f->err);
	if (rc < 0)
		fail_msg("%s: %s %s %s %s: %s: %s", f->e->name, q->noun, q->verb, q->option ? q->option : "", q->text ? q->text : "", f->err.where,
			 f->err.msg);
	*next = out.next;
	text = mem_strndup(reply.text.p ? reply.text.p : "", reply.text.len);
	from = strstr(text, "\"columns\"");
	memmove(text, from ? from : text, strlen(from ? from : text) + 1);
	*ret_rows = reply.rows;
	str_fini(&reply.text);
	report_ask_fini(&ask);
	return text;
}

static size_t ask_both(struct fix *f[ENGINES], const struct question *q, size_t *ret_bytes)
{
	char *next[ENGINES] = { NULL };
	size_t all = 0;

	do {
		size_t rows[ENGINES];
		char *said[ENGINES], *a, *b;

		for (int e = 0; e < ENGINES; e++)
			said[e] = answer(f[e], q, &rows[e], &next[e]);
		for (a = said[LITE], b = said[SERVER]; *a && *a == *b; a++, b++)
			;
		if (*a != *b)
			fail_msg("%s %s %s %s tenant %s: %.300s\n --- and ---\n%.300s", q->noun, q->verb, q->option ? q->option : "", q->text ? q->text : "",
				 q->tenant ? q->tenant : "all", a - said[LITE] > 120 ? a - 120 : said[LITE], b - said[SERVER] > 120 ? b - 120 : said[SERVER]);
		all += rows[LITE];
		*ret_bytes += strlen(said[LITE]);
		free(said[LITE]);
		free(said[SERVER]);
		assert_true(!next[LITE] == !next[SERVER]);
	} while (q->after && next[LITE]);
	free(next[LITE]);
	free(next[SERVER]);
	return all;
}

#define ASK(of, ...) { .noun = "audit", .verb = of, ##__VA_ARGS__ }
static const struct question questions[] = {
	ASK("calls"), ASK("calls", .tenant = "acme", .after = true, .limit = 100),
	ASK("calls", .tenant = "acme", .tool = "put"), ASK("calls", .tenant = "beta", .principal = "prn_2", .outcome = 1 + 3),
	ASK("calls", .tenant = "acme", .key = "acc2"), ASK("calls", .tenant = "acme", .tool = "no such"),
	ASK("calls", .option = "group-by", .text = ",tool,", .tenant = "acme"), ASK("calls", .option = "group-by", .text = ",client,obo,", .tenant = "acme"),
	ASK("calls", .option = "group-by", .text = ",principal,key,outcome,", .tenant = "acme"), ASK("calls", .option = "group-by", .text = ",transport,revision,day,", .tenant = "beta"),
	ASK("calls", .option = "group-by", .text = ",outcome,tenant,"), ASK("calls", .option = "group-by", .text = ",day,tenant,", .tool = "put"),
	ASK("calls", .option = "group-by", .text = ",tool,", .tenant = "acme", .principal = "alice", .outcome = 1), ASK("calls", .option = "group-by", .text = ",key,", .tenant = "acme", .key = "acc9"),
	ASK("denied", .tenant = "acme"), ASK("denied", .tenant = "beta", .outcome = 1 + 3), ASK("denied", .option = "by", .text = "rule", .tenant = "acme"),
	ASK("denied", .option = "by", .text = "tool", .tenant = "acme"), ASK("denied", .option = "by", .text = "principal", .tenant = "acme"), ASK("denied", .option = "by", .text = "key", .tenant = "acme"),
	ASK("denied", .option = "by", .text = "outcome", .tenant = "acme"), ASK("denied", .option = "by", .text = "day", .tenant = "beta", .tool = "put"),
	ASK("auth-failures"), ASK("auth-failures", .tenant = "acme", .key = "acc1"), ASK("auth-failures", .option = "by", .text = "source"),
	ASK("auth-failures", .option = "by", .text = "rule"), ASK("auth-failures", .option = "by", .text = "key"), ASK("auth-failures", .option = "by", .text = "transport"),
	ASK("auth-failures", .option = "by", .text = "hour", .tenant = "acme"),
	ASK("admin"), ASK("admin", .tenant = "acme", .after = true, .limit = 100), ASK("access"), ASK("access", .text = "01010101"),
	ASK("credential", .key = "acc1"), ASK("credential", .option = "timeline", .key = "acc2"), ASK("credentials"),
	ASK("subject", .tenant = "acme", .principal = "alice"), ASK("subject", .option = "export", .tenant = "beta", .principal = "prn_9"),
	ASK("coverage"), ASK("coverage", .tenant = "acme"), ASK("coverage", .tenant = "beta", .limit = 3),
	ASK("sample", .tenant = "acme", .limit = 100), ASK("sample", .option = "kind", .tenant = "acme", .kind = 1101, .limit = 4),
	ASK("sample", .tenant = "acme", .method = "hash", .limit = 5), ASK("sample", .option = "kind", .kind = 1601, .method = "hash", .limit = 5),
	ASK("after-revocation"), ASK("after-revocation", .tenant = "acme", .limit = 40, .after = true),
	ASK("continuity"), ASK("continuity", .text = "1"), ASK("continuity", .option = "executions"), ASK("clock"), ASK("erasures"),
	ASK("blast-radius", .key = "acc1"), ASK("blast-radius", .option = "tool-hash", .text = "0a0a"), ASK("blast-radius", .option = "tool-hash", .text = "ffff", .tenant = "beta"),
	ASK("drift"), ASK("config"), ASK("isolation"), ASK("key-history"), ASK("dual-control"), ASK("reviews"),
	ASK("anomalies", .tenant = "acme"), ASK("anomalies", .tenant = "beta"), ASK("sandbox"), ASK("sandbox", .tenant = "acme", .tool = "put"),
	ASK("oversight"), ASK("approvals"), ASK("approvals", .option = "by", .text = "person", .tenant = "acme"), ASK("approvals", .option = "by", .text = "tool"),
	ASK("approvals", .option = "by", .text = "principal"), ASK("tasks"), ASK("tasks", .option = "open"), ASK("tasks", .option = "by", .text = "tool"),
	ASK("tasks", .option = "by", .text = "principal"), ASK("tasks", .option = "by", .text = "state"), ASK("capacity"), ASK("capacity", .option = "events"),
	ASK("segments"), ASK("anchors"), ASK("tool-health", .tenant = "acme"), ASK("tool-health", .tenant = "beta", .tool = "put"),
	ASK("stats", .tenant = "acme"), ASK("stats", .tool = "put"), ASK("tail"), ASK("tail", .tenant = "acme", .principal = "alice", .outcome = 1),
	ASK("export"), ASK("export", .tenant = "beta", .kind = 1003),
	{ .noun = "key", .verb = "list", .tenant = "acme" }, { .noun = "key", .verb = "list", .option = "stale", .tenant = "acme" }, { .noun = "key", .verb = "list", .option = "unused-scopes" },
	{ .noun = "tool", .verb = "history", .text = "tool/get_weather" },
};

static void every_report_says_the_same(void **state)
{
	struct fix *f[ENGINES];
	size_t bytes = 0, empty = 0;

	for (int e = 0; e < ENGINES; e++) {
		void *made;

		(void)set_up(&made, (enum which)e);
		f[e] = made;
		fill(f[e]);
		assert_int_equal(forms_see_sums(f[e]->reader, NULL, &f[e]->err), 0);
	}
	for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
		struct question q = questions[i];
		size_t n = ask_both(f, &q, &bytes);

		q.since_us = BEGIN_US + 3 * DAY + 12345;
		q.until_us = BEGIN_US + 6 * DAY;
		(void)ask_both(f, &q, &bytes);
		if (n > 0 || strcmp(q.verb, "segments") == 0 || (q.tool && strcmp(q.tool, "no such") == 0))
			continue;
		printf("%s %s %s %s has no row\n", q.noun, q.verb, q.option ? q.option : "", q.text ? q.text : "");
		empty++;
	}
	assert_int_equal(empty, 0);
	assert_true(bytes > 100000);
	for (int e = ENGINES; e-- > 0;) {
		void *made = f[e];

		(void)tear_down(&made);
	}
}

SINGLE_THREAD_SUITE(report_engines)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_report_says_the_same) };
	int rc = start_server();

	rc = rc == 1 ? cmocka_run_group_tests(tests, NULL, NULL) : rc;
	pgrig_stop(&rig);
	return rc;
}
