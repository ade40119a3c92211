/* Records in blocks and rows as one table: whatever is asked, the answer is that of rows alone (SCALE SC-101, SC-102, SC-401,
 * SC-904); and a block that is not what it was ends it. */

#include "config.h"

#include <stdlib.h>

#include "audit/payload.h"
#include "base/crypto.h"
#include "base/text.h"
#include "forms/forms.h"
#include "keys/keys.h"
#include "src/db/db_int.h"

#include "audit_rig.h"
#include "fold_rig.h"
#include "suite.h"

enum { ACME = 7, OTHER = 8, RECORDS = 1500 };
#define BEGUN INT64_C(1780012786000000)          /* seconds before a day */

static uint64_t random_state;

static unsigned draw(unsigned n)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (unsigned)((z ^ (z >> 31)) % n);
}

static void open_keys(struct fix *f)
{
	struct keys *keys = NULL;
	static const uint8_t master[32] = { 1 };
	const struct keyfile_place place = { f->dir, master };

	OK(keys_open(&place, &keys, &f->err));
	audit_logs_give_keys(f->logs, &keys);
}

/* Calls of some people and tools, some of which never end, and events between them. */
static void append_any(struct fix *f)
{
	static const char *const who[] = { "prn_a", "prn_b", "prn_c", "prn_d" }, *const what[] = { "echo", "weather", "seldom" };
	static const int kinds[] = { AUDIT_CALL_BEGIN, AUDIT_CALL_BEGIN, AUDIT_CALL_END, AUDIT_CALL_END, AUDIT_CALL_DENIED,
		AUDIT_AUTH_FAIL, AUDIT_ADMIN_CMD };
	const struct audit_payload payload = { .level = AUDIT_REQUEST, .n = 1,
		.value = { { .ctag = AUDIT_C_ARGUMENTS, .p = "{\"a\":1}", .len = 7, .keep = draw(2) } } };
	struct audit_event ev;
	struct audit_receipt r;
	static uint8_t call[16];

	clock_step(draw(50000) + 1);
	audit_event_init(&ev, (enum audit_kind)kinds[draw(7)], draw(5) ? ACME : OTHER);
	ev.has_call = ev.kind != AUDIT_AUTH_FAIL && ev.kind != AUDIT_ADMIN_CMD;
	if (ev.kind == AUDIT_CALL_BEGIN || draw(4) == 0)
		for (size_t i = 0; i < sizeof(call); i++)
			call[i] = i < 6 && draw(8) ? (uint8_t)(clock_wall_us() / 1000 >> 8 * (5 - i)) : (uint8_t)draw(256);
	memcpy(ev.call, call, sizeof(call));
	ev.prn = who[draw(draw(3) ? 2 : 4)];
	ev.tool = ev.has_call ? what[draw(20) ? draw(2) : 2] : NULL;
	ev.obj = ev.kind == AUDIT_ADMIN_CMD ? what[draw(3)] : NULL;
	ev.rev = ev.kind == AUDIT_CALL_BEGIN && draw(20) == 0 ? "2026-07-28" : NULL;
	ev.tport = ev.kind == AUDIT_CALL_BEGIN ? AUDIT_HTTP : 0;
	ev.n_req = ev.kind == AUDIT_CALL_BEGIN || draw(9) == 0 ? (int64_t)draw(300) : -1;
	if (ev.has_call && ev.kind != AUDIT_CALL_DENIED && draw(3))
		ev.payload = &payload;
	ev.dur_us = ev.kind == AUDIT_CALL_END ? draw(1 << draw(20)) : 0;
	OK(audit_append(f->logs, f->db, &ev, &r, &f->err));
}

/* Ids of calls may then say other times than records have. */
static void append_clock_step(struct fix *f)
{
	struct audit_event ev;
	struct audit_receipt r;

	audit_event_init(&ev, AUDIT_CLOCK_STEP, 0);
	OK(audit_append(f->logs, f->db, &ev, &r, &f->err));
}

static struct fix *new_store(unsigned seed)
{
	struct fix *f = fix_new();

	assert_int_equal(secret_init(), 0);
	random_state = seed;
	clock_fake((uint64_t)BEGUN, 500000);
	open_store(f);
	open_keys(f);
	begin(f);
	create_log(f, 0, NULL);
	create_log(f, ACME, "acme");
	create_log(f, OTHER, "other");
	append_clock_step(f);
	for (unsigned i = 0; i < RECORDS; i++) {
		append_any(f);
		if (draw(50) == 0) {
			commit(f);
			begin(f);
		}
	}
	commit(f);
	close_store(f);
	return f;
}

enum { SEEDS = 6 };

/* The store of a seed, from 1 to SEEDS. */
static struct fix *store_of(unsigned seed)
{
	static struct fix_model model[SEEDS + 1];

	return fix_like(&model[seed], new_store, seed);
}

static int set_up(void **state)
{
	*state = store_of(1);
	return 0;
}

static void fold(struct fix *f, const struct fold_with *with)
{
	OK(db_open(f->path, DB_WRITER, false, &f->db, &f->err));
	if (fold_store(f->db, with, &f->err) <= 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	db_close(&f->db);
}

static struct db *reader(struct fix *f)
{
	struct db *db = NULL;

	OK(forms_open_store(db_of_file(f->path), &db, &f->err));
	return db;
}

/* As a statement of ours has them before it is compiled. */
static void copy_views(struct db *db, const char *sql)
{
	struct db_stmt *st = db_stmt_new(db, "test", sql, 0);

	if (db->viewer)
		assert_int_equal(db->viewer(st, NULL), 0);
	free(st);
}

/* All that a statement gives, a line for each row. */
static void answer(struct db *db, const char *sql, struct str *out)
{
	sqlite3_stmt *st = NULL;
	int rc;

	copy_views(db, sql);
	rc = sqlite3_prepare_v2(db->native, sql, -1, &st, NULL);

	while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(st); i++) {
			const uint8_t *p = sqlite3_column_blob(st, i);

			str_printf(out, "%s%d:", i ? "|" : "", sqlite3_column_type(st, i));
			if (sqlite3_column_type(st, i) == SQLITE_BLOB)
				for (int k = 0; k < sqlite3_column_bytes(st, i); k++)
					str_printf(out, "%02x", p[k]);
			else
				str_printf(out, "%s", (const char *)sqlite3_column_text(st, i));
		}
		str_puts(out, "\n");
		rc = SQLITE_OK;
	}
	if (rc != SQLITE_DONE)
		str_printf(out, "ERROR %s", db->computed.code ? db->computed.msg : sqlite3_errmsg(db->native));
	sqlite3_finalize(st);
}

#define SOME(n) "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < " #n ") SELECT x FROM n"
/* Of which the id of a record alone may differ. */
static const char *const questions[] = {
	"SELECT enc, leaf, log, idx, call, ts, mono, boot, clk, cred, prn, actor, authn, obo, peer, client, tport, rev, kind, tool, "
		"tdef, build, pol, rule, scope, cm, sh, n_req, n_res, n_sto, flags, \"key\", outcome, xstat, sig, dur, cpu, rss, sbox, "
		"beg, prev, trace, obj, ext FROM rec ORDER BY log, idx",
	"SELECT log, idx FROM rec ORDER BY log, idx",
	"SELECT idx, kind, leaf FROM rec WHERE log = 2 ORDER BY idx DESC LIMIT 700",
	"SELECT idx FROM rec WHERE log = 2 AND idx >= 300 AND idx < 900 ORDER BY idx",
	"SELECT idx FROM rec WHERE log = 2 AND idx > 300 AND idx <= 900 ORDER BY idx DESC LIMIT 7",
	"SELECT idx FROM rec WHERE log = 2 AND kind IN (1003, 1101) ORDER BY idx DESC",
	"SELECT idx FROM rec WHERE log IN (3, 2) AND kind IN (1003, 1701) ORDER BY log, idx",
	"SELECT idx FROM rec WHERE log = 2 AND tool IN (" SOME(30) ") ORDER BY idx DESC",
	"SELECT idx FROM rec WHERE log = 2 AND tool IN (" SOME(300) ") AND prn IN (" SOME(200) ") ORDER BY idx",
	"SELECT idx FROM rec WHERE log = 2 AND tool IN (" SOME(5000) ") ORDER BY idx",      /* more than come at once */
	"SELECT log, idx FROM rec WHERE kind = 1701 ORDER BY log, idx DESC",
	"SELECT log, idx FROM rec WHERE kind = 1701 ORDER BY log DESC, idx",
	"SELECT idx, ts FROM rec WHERE log = 2 AND kind <> 1001 AND tool = (SELECT id FROM dict WHERE kind = 34 AND text = 'seldom') "
		"ORDER BY idx",
	"SELECT idx FROM rec WHERE log = 2 AND prn = (SELECT id FROM dict WHERE kind = 17 AND text = 'prn_c') AND +kind = 1002 ORDER BY idx",
	"SELECT count(*), min(idx), max(idx), min(ts), max(ts), total(dur) FROM rec WHERE log = 2",
	"SELECT max(idx) FROM rec WHERE log = 2", "SELECT max(idx) + 1 FROM rec WHERE log = 9", "SELECT min(log), max(log) FROM rec",
	"SELECT min(log) FROM rec WHERE log > 2", "SELECT count(*) FROM rec WHERE log = NULL", "SELECT count(*) FROM rec WHERE kind = '1002'",
	"SELECT count(*) FROM rec WHERE ts > 1.78e15 AND ts < 1.79e15", "SELECT count(*) FROM rec WHERE idx BETWEEN 10 AND 5",
	"SELECT kind, tool, count(*), sum(dur), max(ts) FROM rec WHERE log = 2 GROUP BY kind, tool ORDER BY 1, 2",
	"SELECT idx FROM rec WHERE log = 2 AND kind <> 1001 AND ts >= (SELECT ts FROM rec WHERE log = 2 AND idx = 400) "
		"AND ts < (SELECT ts FROM rec WHERE log = 2 AND idx = 450) ORDER BY ts, idx",
	"SELECT idx FROM rec WHERE log = 2 AND kind <> 1001 AND ts >= 0 AND ts < 9223372036854775807 ORDER BY ts DESC, idx DESC LIMIT 1",
	"SELECT b.idx, e.idx FROM rec b JOIN rec e ON e.log = b.log AND e.call = b.call AND e.kind = 1002 AND e.idx > b.idx "
		"WHERE b.log = 2 AND b.kind = 1001 ORDER BY b.idx, e.idx LIMIT 60",
	"SELECT e.idx, b.idx, b.ts FROM rec e LEFT JOIN rec b ON b.log = e.log AND b.idx = e.beg WHERE e.log = 2 AND e.kind = 1002 "
		"ORDER BY e.idx",
	"SELECT e.idx FROM rec e WHERE e.log = 2 AND NOT EXISTS (SELECT 1 FROM rec x WHERE x.log = 2 AND x.prn = e.prn AND x.idx < e.idx)",
	"SELECT r.log, r.idx, p.salt, p.nonce, p.ct FROM rec r LEFT JOIN pay p ON p.rec = r.id ORDER BY r.log, r.idx",
	"SELECT r.log, r.idx FROM pay p LEFT JOIN rec r ON r.id = p.rec ORDER BY 1, 2",
	"SELECT count(*), count(DISTINCT rec), count(ct), count(nonce) FROM pay",
	"SELECT log, idx FROM rec WHERE id IN (SELECT id FROM rec WHERE log = 2 AND idx IN (3, 700, 1)) ORDER BY idx",
	"SELECT log, idx FROM rec WHERE idx IN (3, 700, 1, 100000) ORDER BY log, idx",
	"SELECT a.idx FROM rec a WHERE log = 2 AND (SELECT count(*) FROM rec b WHERE b.log = 2 AND b.id < a.id) <> a.idx",
	"SELECT idx, kind, call, prn, tool, obj FROM rec_text WHERE log = 2 ORDER BY idx",
	"SELECT * FROM v_records ORDER BY log_id, idx", "SELECT * FROM v_calls ORDER BY log_id, idx",
	"SELECT * FROM v_denied ORDER BY log_id, idx", "SELECT * FROM v_auth_failures ORDER BY log_id, idx",
	"SELECT * FROM v_admin ORDER BY log_id, idx", "SELECT * FROM v_keys ORDER BY log_id, idx",
	"SELECT * FROM v_definitions ORDER BY log_id, idx", "SELECT * FROM v_lists ORDER BY log_id, idx",
	"SELECT * FROM v_notify ORDER BY log_id, idx", "SELECT * FROM v_lifecycle ORDER BY log_id, idx",
	"SELECT * FROM v_reads ORDER BY log_id, idx", "SELECT * FROM v_retention ORDER BY log_id, idx",
	"SELECT * FROM v_checkpoints ORDER BY log_id, idx",
};

static void ask_all(struct fix *f, struct str said[NELEMS(questions)])
{
	struct db *db = reader(f);

	for (size_t i = 0; i < NELEMS(questions); i++) {
		str_reset(&said[i]);
		answer(db, questions[i], &said[i]);
	}
	db_close(&db);
}

static void same(struct fix *f, struct str before[NELEMS(questions)])
{
	struct str after[NELEMS(questions)] = { STR_INIT };

	ask_all(f, after);
	for (size_t i = 0; i < NELEMS(questions); i++) {
		if (strcmp(str_text(&before[i]), str_text(&after[i])) != 0)
			fail_msg("%s\nas rows:   %.400s\nas blocks: %.400s", questions[i], str_text(&before[i]), str_text(&after[i]));
		str_fini(&after[i]);
	}
}

/* --- sums */

#define KEYS "cred, prn, authn, obo, peer, client, tport, rev, kind, tool, tdef, rule, outcome, sbox"
#define LAST "9223372036854775807"

/* What rollup says, and what that has to be, by the records; %s is what is asked, @ since and # until. */
static const char sums_said[] = "SELECT day, night, called, " KEYS ", sum(n), sum(timed), sum(dur), max(dur_max), sum(n_req), "
	"sum(n_res), min(idx_min), max(idx_max), min(ts_min), max(ts_max) FROM rollup WHERE %s "
	"GROUP BY day, night, called, " KEYS " ORDER BY day, night, called, " KEYS;
static const char sums_meant[] = "SELECT e.ts / 86400000000 AS day, e.ts / 3600000000 % 24 NOT BETWEEN 6 AND 21 AS night, "
	"e.call IS NOT NULL AS called, e.cred AS cred, e.prn AS prn, CASE WHEN e.kind IN (1002, 1004) THEN b.authn ELSE e.authn END AS authn, "
	"coalesce(e.obo, b.obo) AS obo, coalesce(e.peer, b.peer) AS peer, coalesce(e.client, b.client) AS client, "
	"CASE WHEN e.kind IN (1002, 1004) THEN b.tport ELSE e.tport END AS tport, coalesce(e.rev, b.rev) AS rev, e.kind AS kind, "
	"e.tool AS tool, coalesce(e.tdef, b.tdef) AS tdef, coalesce(e.rule, b.rule) AS rule, e.outcome AS outcome, "
	"coalesce(e.sbox, b.sbox) AS sbox, count(*), count(e.dur), coalesce(sum(e.dur), 0), coalesce(max(e.dur), 0), "
	"coalesce(sum(coalesce(e.n_req, b.n_req)), 0), coalesce(sum(e.n_res), 0), min(e.idx), max(e.idx), min(e.ts), max(e.ts) "
	"FROM main.rec e LEFT JOIN main.rec b ON b.log = e.log AND b.idx = e.beg WHERE e.kind <> 1001 AND %s "
	"GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 "
	"ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17";

/* What is asked of a log between two times, of sums and of records. */
struct asked { const char *sums, *records; };
static const struct asked asked[] = {
	{ "log = 2 AND since = @ AND until = #", "e.log = 2 AND e.ts >= @ AND e.ts < #" },
	{ "log = 3 AND since = @ AND until = " LAST, "e.log = 3 AND e.ts >= @" },
	{ "log = 2 AND since = @ AND until = # AND kind IN (1002, 1003) AND of_prn = -1",
	  "e.log = 2 AND e.ts >= @ AND e.ts < # AND e.kind IN (1002, 1003)" },
	{ "log = 2 AND since = 0 AND until = # AND of_prn = (SELECT id FROM dict WHERE text = 'prn_c')",
	  "e.log = 2 AND e.ts < # AND e.prn = (SELECT id FROM dict WHERE text = 'prn_c')" },
	{ "log = 2 AND since = 0 AND until = # AND tool = (SELECT id FROM dict WHERE text = 'seldom') AND called = 1",
	  "e.log = 2 AND e.ts < # AND e.tool = (SELECT id FROM dict WHERE text = 'seldom') AND e.call IS NOT NULL" },
	{ "log = 2 AND since = 0 AND until = " LAST " AND rev = (SELECT id FROM dict WHERE text = '2026-07-28')",
	  "e.log = 2 AND coalesce(e.rev, b.rev) = (SELECT id FROM dict WHERE text = '2026-07-28')" },
	{ "log = 2 AND since = 0 AND until = " LAST " AND kind = 1003 AND of_tool = -1 AND of_outcome = -1",
	  "e.log = 2 AND e.kind = 1003" },
	{ "log = 2 AND since = 0 AND until = " LAST " AND of_cred = -2", "e.log = 2 AND 0" },
	{ "log = 2 AND since = 0 AND until = NULL", "0" },
	{ "log = 77 AND since = 0 AND until = " LAST, "e.log = 77" },
};

/* The same of rollup_hist, whose slots are of 9 s. */
static const char slots_said[] = "SELECT slot, tool, kind, outcome, step IS NULL, sum(n), max(dur_max) FROM rollup_hist WHERE %s "
	"GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5";
static const char slots_meant[] = "WITH r(slot, tool, kind, outcome, dur) AS (SELECT (e.ts - @) / 9000000, e.tool, e.kind, e.outcome, e.dur "
	"FROM main.rec e WHERE e.kind <> 1001 AND e.call IS NOT NULL AND %s) "
	"SELECT slot, tool, kind, outcome, 1, count(*), coalesce(max(dur), 0) FROM r GROUP BY 1, 2, 3, 4 UNION ALL "
	"SELECT slot, tool, kind, NULL, 0, count(*), NULL FROM r WHERE kind = 1002 GROUP BY 1, 2 ORDER BY 1, 2, 3, 4, 5";
static const struct asked of_slots = { "log = 2 AND since = @ AND until = # AND every = 9000000", "e.log = 2 AND e.ts >= @ AND e.ts < #" };
/* And of parts, with a count of what zones do not say. */
static const char parts_said[] = "SELECT sum(coalesce(n, (SELECT count(*) FROM rec e WHERE log = 2 AND idx >= first AND idx < below AND %s))), "
	"min(first), max(below), sum(below - first) FROM parts WHERE log = 2 AND since = @ AND until = # AND lo = 5 AND hi = 444 "
	"AND chapters = @ % 2 AND of_kind = -1";
static const char parts_meant[] = "SELECT (SELECT count(*) FROM main.rec e WHERE log = 2 AND idx >= 5 AND idx < 444 AND %s), 5, 444, 439";
static const char calls_then[] = "e.ts >= @ AND e.ts < # AND e.kind IN (1002, 1003, 1004)";
/* And of where ids meet; @ and # are times, and what is asked as of sums. */
static const char meets_said[] = "SELECT idx FROM meets WHERE log = 2 AND since = @ AND until = # AND lo = 5 AND hi = 1300 AND %s";
static const char meets_meant[] = "SELECT e.idx FROM main.rec e WHERE e.log = 2 AND e.kind <> 1001 AND e.ts >= @ AND e.ts < # "
	"AND e.idx BETWEEN 5 AND 1300 AND %s ORDER BY e.idx DESC";
#define ID(text) "(SELECT id FROM dict WHERE text = '" text "')"
static const struct asked met[] = {
	{ "of_tool = " ID("seldom") " AND of_prn = " ID("prn_d") " AND of_cred = -1 AND of_outcome = -1 AND of_kind = -1",
	  "e.tool = " ID("seldom") " AND e.prn = " ID("prn_d") },
	{ "of_tool = " ID("echo") " AND of_prn = " ID("prn_c") " AND of_cred = -1 AND of_outcome = -1 AND of_kind = 1003",
	  "e.tool = " ID("echo") " AND e.prn = " ID("prn_c") " AND e.kind = 1003" },
	{ "of_tool = " ID("weather") " AND of_prn = -1 AND of_cred = -1 AND of_outcome = 0 AND of_kind = 1002",
	  "e.tool = " ID("weather") " AND e.outcome = 0 AND e.kind = 1002" },
	{ "of_tool = " ID("seldom") " AND of_prn = -1 AND of_cred = -1 AND of_outcome = -1 AND of_kind = 1101", "0" },
	{ "of_tool = -2 AND of_prn = " ID("prn_a") " AND of_cred = -1 AND of_outcome = -1 AND of_kind = -1", "0" },
	{ "of_tool = -1 AND of_prn = -1 AND of_cred = -1 AND of_outcome = -1 AND of_kind = -1", "1" },
};
enum { SLOTS_ASKED = 4, PARTS_ASKED = 8, MEETS_ASKED = NELEMS(met) * 4 };

static void fill_in(struct str *ret, const char *frame, const char *what, int64_t since, int64_t until)
{
	for (const char *p = frame; *p; p++) {
		if (*p == '%' && p[1] == 's') {
			fill_in(ret, what, "", since, until);
			p++;
		} else if (*p == '@' || *p == '#') {
			str_printf(ret, "%lld", (long long)(*p == '@' ? since : until));
		} else {
			str_putc(ret, *p);
		}
	}
}

/* Times are some record's, or beside it. */
static void ask_sums(struct db *db, const char *frame, const char *what, uint64_t seed, struct str *out)
{
	struct str sql = STR_INIT;
	int64_t since, until;

	random_state = seed;
	since = BEGUN + (int64_t)draw(RECORDS * 12000);
	until = since + (int64_t)draw(RECORDS * 25000);
	fill_in(&sql, frame, what, since, until);
	str_reset(out);
	answer(db, str_text(&sql), out);
	str_fini(&sql);
}

static struct db *reader_of_sums(struct fix *f)
{
	struct db *db = reader(f);

	OK(forms_see_sums(db, NULL, &f->err));
	OK(forms_see_sums(db, NULL, &f->err));
	return db;
}

enum { SUMS_ASKED = NELEMS(asked) * 4, PARTS_FROM = SUMS_ASKED + SLOTS_ASKED, MEETS_FROM = PARTS_FROM + PARTS_ASKED,
       ALL_ASKED = MEETS_FROM + MEETS_ASKED + 3 };

/* The i-th question, of sums or of records; the last three compare forms alone. */
static void ask_one(struct db *db, bool sums, size_t i, uint64_t seed, struct str *out)
{
	static const char by[] = "SELECT tool, day, cred IS NULL, sum(n) FROM rollup WHERE log = 2 AND since = 0 AND until = " LAST
		" AND \"by\" = ',tool,day,' GROUP BY 1, 2 ORDER BY 1, 2", hist[] = "SELECT tool, class, step, sum(n) FROM rollup_hist "
		"WHERE log = 2 AND since = 0 AND until = " LAST " AND of_tool = -1 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3", days[] = "SELECT slot, "
		"tool, kind, outcome, step, sum(n), max(dur_max) FROM rollup_hist WHERE log = 2 AND since = 1779840000000000 AND until = " LAST
		" AND every = 86400000000 GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5";
	const struct asked *a = i < SUMS_ASKED ? &asked[i % NELEMS(asked)] : i < MEETS_FROM ? &of_slots
		: &met[i % NELEMS(met)];

	str_reset(out);
	if (i >= MEETS_FROM + MEETS_ASKED)
		answer(db, i == ALL_ASKED - 1 ? hist : i == ALL_ASKED - 2 ? days : by, out);
	else if (i < SUMS_ASKED)
		ask_sums(db, sums ? sums_said : sums_meant, sums ? a->sums : a->records, seed + i, out);
	else if (i >= MEETS_FROM)
		ask_sums(db, sums ? meets_said : meets_meant, sums ? a->sums : a->records, seed + i, out);
	else if (i >= PARTS_FROM)
		ask_sums(db, sums ? parts_said : parts_meant, calls_then, seed + i, out);
	else
		ask_sums(db, sums ? slots_said : slots_meant, sums ? a->sums : a->records, seed + i, out);
}

static void compare_sums(struct fix *f, uint64_t seed, struct str *meant, bool take)
{
	struct db *db = reader_of_sums(f);
	struct str said = STR_INIT;

	for (size_t i = 0; i < ALL_ASKED; i++) {
		ask_one(db, true, i, seed, &said);
		if (take)
			ask_one(db, false, i, seed, &meant[i]);
		if (strcmp(str_text(&said), str_text(&meant[i])) != 0)
			fail_msg("question %zu\nsaid:  %.600s\nmeant: %.600s", i, str_text(&said), str_text(&meant[i]));
	}
	str_fini(&said);
	db_close(&db);
}

/* SC-401, SC-402: over rows, blocks, whole chapters and such without sums, for any span of time. */
static void sums_are_those_of_the_records(void **state)
{
	static const struct fold_with with[] = {
		{ .seed = 1, .block_max = 100, .tail = 100, .chapter = 16, .part = 3 }, { .seed = 2, .block_max = 4096, .chapter = 1, .book = 1 },
		{ .seed = 3, .block_max = 30, .tail = 1, .chapter = 7, .book = 2, .partial = true },
		{ .seed = 4, .block_max = 100, .tail = 20, .leftovers = true, .chapter = 14, .book = 2 }, { .seed = 5, .block_max = 70 },
		{ .seed = 6, .block_max = 100, .tail = 50, .chapter = 2, .part = 1, .book = 6, .few = 2 },
		{ .seed = 7, .block_max = 4096, .tail = 20, .chapter = 1 }, { .seed = 8, .block_max = 100, .tail = 200, .chapter = 13 },
	};
	struct str meant[ALL_ASKED] = { STR_INIT };
	int64_t whole = 0, n = 0;

	(void)state;
	for (size_t i = 0; i < NELEMS(with); i++) {
		struct fix *f = store_of((unsigned)i % SEEDS + 1);

		for (size_t k = 0; k < NELEMS(meant); k++)
			str_reset(&meant[k]);
		compare_sums(f, 100 * i, meant, true);
		fold(f, &with[i]);
		compare_sums(f, 100 * i, meant, false);
		OK(db_open(f->path, DB_READER, false, &f->db, &f->err));
		OK(fold_sql(f->db, "SELECT count(*) FROM chap WHERE sums <> x'00'", &n, &f->err));
		whole += n;
		db_close(&f->db);
		(void)fix_free((void **)&f);
	}
	if (whole < 3)
		fail_msg("%d chapters have sums", (int)whole);
	for (size_t k = 0; k < NELEMS(meant); k++)
		str_fini(&meant[k]);
}

static void forget(struct str said[NELEMS(questions)])
{
	for (size_t i = 0; i < NELEMS(questions); i++)
		str_fini(&said[i]);
}

static void answers_are_those_of_rows(void **state)
{
	static const struct fold_with with[] = {
		{ .seed = 1, .block_max = 200, .tail = 100 }, { .seed = 2, .block_max = 4096 },
		{ .seed = 3, .block_max = 1, .tail = 1 }, { .seed = 4, .block_max = 50, .tail = 20, .leftovers = true },
	};
	struct str before[NELEMS(questions)] = { STR_INIT };

	(void)state;
	for (size_t i = 0; i < NELEMS(with); i++) {
		struct fix *f = store_of((unsigned)i % SEEDS + 1);

		ask_all(f, before);
		assert_null(strstr(str_text(&before[0]), "ERROR"));
		fold(f, &with[i]);
		same(f, before);
		forget(before);
		(void)fix_free((void **)&f);
	}
}

static void store_without_blocks_is_left_alone(void **state)
{
	struct fix *f = *state;
	struct db *db = reader(f);
	struct str said = STR_INIT;

	answer(db, "SELECT count(*) FROM temp.sqlite_schema", &said);
	assert_string_equal(str_text(&said), "1:0\n");
	fold(f, &(struct fold_with){ .seed = 1, .block_max = 100 });
	OK(forms_see(db, &f->err));       /* while it is open */
	OK(forms_see(db, &f->err));
	str_reset(&said);
	answer(db, "SELECT count(*) = 2 FROM temp.sqlite_schema", &said);
	assert_string_equal(str_text(&said), "1:1\n");
	str_fini(&said);
	db_close(&db);
}

static void nothing_can_be_written_by_it(void **state)
{
	struct fix *f = *state;
	struct str said = STR_INIT;
	struct db *db;

	fold(f, &(struct fold_with){ .seed = 1, .block_max = 100 });
	db = reader(f);
	answer(db, "DELETE FROM rec", &said);
	answer(db, "DELETE FROM main.rec", &said);
	assert_non_null(strstr(str_text(&said), "ERROR"));
	str_reset(&said);
	answer(db, "PRAGMA query_only", &said);
	assert_string_equal(str_text(&said), "1:1\n");
	str_fini(&said);
	db_close(&db);
}

static int note_call(void *arg, const struct audit_view *v)
{
	str_printf(arg, "%d/%d ", (int)v->idx, v->kind);
	return 0;
}

/* Whether they have ended, run, or are of another log; and with a clock that was set. */
static void calls_are_found_by_their_ids(void **state)
{
	static const char list[] = "SELECT DISTINCT call FROM rec WHERE call IS NOT NULL ORDER BY call LIMIT 200";
	struct fix *f = *state;
	struct db *rows = reader(f), *blocks = NULL;
	uint8_t call[200][16];
	struct str found[200] = { STR_INIT };
	sqlite3_stmt *st = NULL;
	unsigned n = 0;

	assert_int_equal(sqlite3_prepare_v2(rows->native, list, -1, &st, NULL), SQLITE_OK);
	for (; n < 200 && sqlite3_step(st) == SQLITE_ROW; n++)
		memcpy(call[n], sqlite3_column_blob(st, 0), sizeof(call[n]));
	sqlite3_finalize(st);
	assert_int_equal(n, 200);
	for (unsigned i = 0; i < n; i++)
		OK(audit_query_call(rows, ACME, call[i], note_call, &found[i], &f->err));
	fold(f, &(struct fold_with){ .seed = 1, .block_max = 100, .tail = 30, .leftovers = true });
	blocks = reader(f);
	for (unsigned i = 0; i < n; i++) {
		struct str again = STR_INIT;

		OK(audit_query_call(blocks, ACME, call[i], note_call, &again, &f->err));
		if (strcmp(str_text(&again), str_text(&found[i])) != 0)
			fail_msg("call %u: %s, not %s", i, str_text(&again), str_text(&found[i]));
		str_fini(&again);
		str_fini(&found[i]);
	}
	db_close(&rows);
	db_close(&blocks);
}

/* --- blocks that are not what they were */

static void finds(struct fix *f, const char *sql, const char *question, const char *what)
{
	struct str said = STR_INIT;
	struct db *db;

	raw(f, sql);
	db = reader(f);
	answer(db, question, &said);
	if (!strstr(str_text(&said), "ERROR") || !strstr(str_text(&said), what))
		fail_msg("%s: %s: %.300s", sql, question, str_text(&said) + (said.len > 300 ? said.len - 300 : 0));
	str_fini(&said);
	db_close(&db);
}

/* What a connection keeps of a block is compared with the row, also what few values need. */
static void each_statement_sees_what_a_row_has_by_now(void **state)
{
	static const char calls[] = "SELECT hex(call) FROM rec WHERE log = 2 AND call IS NOT NULL ORDER BY idx LIMIT 3";
	struct fix *f = *state;
	struct str was = STR_INIT, is = STR_INIT, counted = STR_INIT;
	struct db *db;

	fold(f, &(struct fold_with){ .seed = 1, .block_max = 200, .tail = 10 });
	db = reader(f);
	answer(db, calls, &was);
	raw(f, "UPDATE blk SET hash = zeroblob(length(hash)) WHERE log = 2 AND first = 0");
	answer(db, "SELECT count(*) FROM rec WHERE log = 2 AND idx < 100 AND kind = 1002", &counted);
	answer(db, calls, &is);
	assert_null(strstr(str_text(&is), "ERROR"));
	assert_non_null(strstr(str_text(&is), "00000000000000000000"));
	assert_null(strstr(str_text(&was), "00000000000000000000"));
	db_close(&db);
	str_fini(&was);
	str_fini(&is);
	str_fini(&counted);
}

static const char all_of_it[] = "SELECT count(*), total(ts), count(call) FROM rec WHERE log = 2";

static void damaged_block_ends_a_statement(void **state)
{
	struct fix *f = *state;

	fold(f, &(struct fold_with){ .seed = 1, .block_max = 200, .tail = 10 });
	finds(f, "UPDATE blk SET cols = x'00' WHERE log = 2 AND first = (SELECT max(first) FROM blk WHERE log = 2)", all_of_it,
	      "of log 2");
}

static void missing_block_ends_a_statement(void **state)
{
	struct fix *f = *state;

	fold(f, &(struct fold_with){ .seed = 1, .block_max = 100, .tail = 10 });
	finds(f, "DELETE FROM blk WHERE log = 2 AND first = (SELECT first FROM blk WHERE log = 2 ORDER BY first LIMIT 1 OFFSET 3)",
	      all_of_it, "gap");
	finds(f, "SELECT 1", "SELECT idx FROM rec WHERE log = 2 ORDER BY idx DESC", "gap");
	finds(f, "SELECT 1", "SELECT idx FROM rec WHERE log = 2 AND idx = (SELECT first + cnt FROM blk WHERE log = 2 ORDER BY first "
	      "LIMIT 1 OFFSET 2)", "missing");
	finds(f, "SELECT 1", "SELECT idx FROM rec WHERE log = 2 AND idx <= (SELECT first + cnt FROM blk WHERE log = 2 ORDER BY first "
	      "LIMIT 1 OFFSET 2) ORDER BY idx DESC", "missing");
}

static void overlapping_blocks_end_a_statement(void **state)
{
	struct fix *f = *state;

	fold(f, &(struct fold_with){ .seed = 1, .block_max = 100, .tail = 10 });
	finds(f, "INSERT INTO blk SELECT log, first + 1, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM blk WHERE log = 2 "
	      "AND first = 0", all_of_it, "overlaps");
}

static void block_of_a_later_release_ends_a_statement(void **state)
{
	struct fix *f = *state;

	fold(f, &(struct fold_with){ .seed = 1, .block_max = 100, .tail = 10 });
	finds(f, "UPDATE blk SET fmt = 2 WHERE log = 2 AND first = 0", all_of_it, "later release");
	finds(f, "UPDATE blk SET cnt = 5000 WHERE log = 2 AND first = 0", all_of_it, "no block can be there");
}

/* A row of the catalog may name any file: what is called otherwise than files of those records is not opened. */
static void a_sealed_file_has_one_name(void **state)
{
	static const char *const others[] = {
		"segments/2/202611-256.tcs", "segments/3/202611-0.tcs", "segments/2/20261-0.tcs", "segments/2/2026111-0.tcs",
		"segments/2/202611-00.tcs", "segments/2/202611-0.tcs.tmp", "segments/2/202611-0", "/segments/2/202611-0.tcs",
		"segments/../segments/2/202611-0.tcs", "segments//2/202611-0.tcs", "202611-0.tcs", "/etc/passwd", "/", "",
		"/2/202611-0.tcs", "/mnt/../etc/2/202611-0.tcs", "/mnt/./2/202611-0.tcs", "/mnt//2/202611-0.tcs",
		"/mnt/segments/2/202611-0.tcs", "/mnt/3/202611-0.tcs", "/mnt/2/202611-256.tcs", "mnt/2/202611-0.tcs",
	};
	char longest[FORMS_PATH_MAX + 1];

	(void)state;
	assert_true(forms_is_name("segments/2/202611-0.tcs", 2, 0));
	assert_true(forms_is_name("/mnt/archive/2/202611-0.tcs", 2, 0));
	assert_true(forms_is_name("segments/4194303/000000-1099511627520.tcs", 4194303, INT64_C(1099511627520)));
	for (size_t i = 0; i < NELEMS(others); i++)
		if (forms_is_name(others[i], 2, 0))
			fail_msg("%s", others[i]);
	memset(longest, 'a', sizeof(longest));
	longest[0] = '/';
	(void)snprintf(longest + FORMS_PATH_MAX - 1 - strlen("/2/202611-0.tcs"), strlen("/2/202611-0.tcs") + 1, "/2/202611-0.tcs");
	assert_true(forms_is_name(longest, 2, 0));
	(void)snprintf(longest + FORMS_PATH_MAX - strlen("/2/202611-0.tcs"), strlen("/2/202611-0.tcs") + 1, "/2/202611-0.tcs");
	longest[FORMS_PATH_MAX - 1 - strlen("/2/202611-0.tcs")] = 'a';
	assert_false(forms_is_name(longest, 2, 0));
}

SINGLE_THREAD_SUITE(forms)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sealed_file_has_one_name),
		cmocka_unit_test(answers_are_those_of_rows), cmocka_unit_test(sums_are_those_of_the_records),
		cmocka_unit_test_setup_teardown(store_without_blocks_is_left_alone, set_up, fix_free),
		cmocka_unit_test_setup_teardown(nothing_can_be_written_by_it, set_up, fix_free),
		cmocka_unit_test_setup_teardown(calls_are_found_by_their_ids, set_up, fix_free),
		cmocka_unit_test_setup_teardown(each_statement_sees_what_a_row_has_by_now, set_up, fix_free),
		cmocka_unit_test_setup_teardown(damaged_block_ends_a_statement, set_up, fix_free),
		cmocka_unit_test_setup_teardown(missing_block_ends_a_statement, set_up, fix_free),
		cmocka_unit_test_setup_teardown(overlapping_blocks_end_a_statement, set_up, fix_free),
		cmocka_unit_test_setup_teardown(block_of_a_later_release_ends_a_statement, set_up, fix_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
