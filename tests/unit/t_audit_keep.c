/* Records that go: tiles, cuts, slices, and what verification says of a log that begins late (AUDIT 10). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "bundle/bundle.h"
#include "audit/checkpoint.h"
#include "audit/keep.h"
#include "base/crypto.h"
#include "base/text.h"
#include "tlog/note.h"

#include "audit_rig.h"
#include "suite.h"

enum { ACME = 7, RECORDS = 600 };

static void append(struct fix *f, enum audit_kind kind, unsigned call)
{
	struct audit_event ev;

	clock_step(10);
	audit_event_init(&ev, kind, ACME);
	ev.has_call = kind == AUDIT_CALL_BEGIN || kind == AUDIT_CALL_END;
	memcpy(ev.call, &call, sizeof call);
	ev.prn = "prn_a";
	ev.tool = "echo";
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
}

/* One tenant, whose log has RECORDS records behind log.open: calls whose begins and ends are neighbours. */
static struct fix *new_store(unsigned records)
{
	struct fix *f = fix_new();

	clock_fake(1000000, 500000);
	open_store(f);
	begin(f);
	create_log(f, 0, NULL);
	create_log(f, ACME, "acme");
	commit(f);
	begin(f);
	for (unsigned i = 0; i < records / 2; i++) {
		append(f, AUDIT_CALL_BEGIN, i);
		append(f, AUDIT_CALL_END, i);
		if (i % 100 == 99) {
			commit(f);
			begin(f);
		}
	}
	commit(f);
	close_store(f);
	return f;
}

static int set_up(void **state)
{
	static struct fix_model model;

	reopen_store(*state = fix_like(&model, new_store, RECORDS));
	return 0;
}

/* The store is closed meanwhile. */
static void change(struct fix *f, const char *sql)
{
	close_store(f);
	raw(f, sql);
	reopen_store(f);
}

static void verify_clean(struct fix *f)
{
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
}

static void verify_finds(struct fix *f, enum audit_finding_code code)
{
	if (verify(f, 0) == 0 || f->count[code] == 0)
		fail_msg("%s was not found; %s", audit_finding_name(code), f->last);
}

/* The log of the tenant is the second. */
static int intend(struct fix *f, int64_t at)
{
	struct audit_cut cut;
	struct audit_receipt r;
	struct audit_event ev, vouch;
	uint8_t range[16] = { 0 };
	static const char by[] = "approval policy one";
	struct audit_field field[4] = { { AUDIT_TAG_RANGE, range, sizeof range }, { AUDIT_TAG_APPROVER, by, sizeof by - 1 },
		{ AUDIT_TAG_ROOT, cut.root, 32 } };
	int rc = audit_cut_read(f->db, 2, at, &cut, &f->err);

	if (rc < 0)
		return rc;
	audit_put_be(range + 8, (uint64_t)at, 8);
	field[3] = (struct audit_field){ AUDIT_TAG_FRONTIER, cut.frontier, cut.peaks * 32 };
	audit_event_init(&ev, AUDIT_PRUNE, ACME);
	ev.field = field;
	ev.nfield = 4;
	begin(f);
	audit_event_init(&vouch, AUDIT_POLICY_CHANGE, 0);
	vouch.obj = "approval/policy/one";
	rc = audit_append(f->logs, f->db, &vouch, NULL, &f->err);
	audit_event_init(&vouch, AUDIT_ADMIN_CMD, 0);
	if (rc == 0)
		rc = audit_cut_rows(f->logs, f->db, &cut, &vouch, &f->err);
	if (rc == 0)
		rc = audit_append(f->logs, f->db, &ev, &r, &f->err);
	if (rc == 0)
		rc = audit_cut_set(f->logs, f->db, &cut, &r, &f->err);
	if (rc == 0) {
		commit(f);
		return 0;
	}
	audit_logs_rollback(f->logs, (struct audit_mark){ 0 });
	(void)db_txn_end(f->db, rc, NULL);
	return rc;
}

/* One slice, and the end when it was the last: then true. */
static bool step(struct fix *f)
{
	struct audit_job deed = { 0 };
	bool done = false;

	assert_int_equal(audit_job_next(f->db, 0, &deed, &f->err), 1);
	assert_int_equal(deed.kind, AUDIT_PRUNE);
	begin(f);
	OK(audit_job_step(f->logs, f->db, &deed, &done, &f->err));
	commit(f);
	assert_false(done);
	if (!deed.flush)
		return false;
	OK(db_truncate_log(f->db, &f->err));
	deed.flush = false;
	deed.flushed = true;
	begin(f);
	OK(audit_job_step(f->logs, f->db, &deed, &done, &f->err));
	commit(f);
	return done;
}

static void prune(struct fix *f, int64_t at)
{
	OK(intend(f, at));
	while (!step(f))
		;
}

/* A cut gives rows whose record goes another one: not when they are not what that one says. */
static void a_cut_vouches_for_no_row_that_was_changed(void **state)
{
	static const char as_no_trigger_had_seen_it[] = "UPDATE log SET rec_idx = -1 - rec_idx WHERE id = 2";
	struct fix *f = *state;

	change(f, "UPDATE log SET state = state + 1 WHERE id = 2");
	change(f, as_no_trigger_had_seen_it);
	assert_int_equal(intend(f, 256), ERR_CORRUPT);
	assert_string_equal(f->err.where, "log/2");
	change(f, "UPDATE log SET state = state - 1 WHERE id = 2");
	change(f, as_no_trigger_had_seen_it);
	prune(f, 256);
	verify_clean(f);
}

static void a_pruned_log_verifies(void **state)
{
	struct fix *f = *state;
	struct audit_job deed = { 0 };

	verify_clean(f);
	prune(f, 256);
	assert_int_equal(audit_job_next(f->db, 0, &deed, &f->err), 0);
	verify_clean(f);
	assert_int_equal(f->sum.pruned, 256);
	assert_int_equal(f->sum.records, 2 + 1 + 1 + RECORDS - 256 + 2);        /* the policy, and whose log it is */
	prune(f, 512);
	verify_clean(f);
	close_store(f);
	open_store(f);
	begin(f);
	append(f, AUDIT_LIST, 0);
	commit(f);
	verify_clean(f);
}

static void a_cut_is_a_multiple_of_256_and_moves_on(void **state)
{
	struct fix *f = *state;

	assert_int_equal(intend(f, 255), ERR_INVALID);
	assert_int_equal(intend(f, -256), ERR_INVALID);
	assert_int_equal(intend(f, 768), ERR_CORRUPT);          /* there are not so many */
	prune(f, 512);
	assert_int_equal(intend(f, 512), ERR_CONFLICT);
	assert_int_equal(intend(f, 256), ERR_CONFLICT);
	verify_clean(f);
}

static void a_call_that_runs_is_not_cut(void **state)
{
	struct fix *f = *state;

	begin(f);
	append(f, AUDIT_CALL_BEGIN, 5000);
	commit(f);
	begin(f);
	for (unsigned i = 0; i < 256; i++)
		append(f, AUDIT_LIST, 0);
	commit(f);
	assert_int_equal(intend(f, 768), ERR_CONFLICT);
	begin(f);
	append(f, AUDIT_CALL_END, 5000);
	commit(f);
	prune(f, 768);
	verify_clean(f);
}

static void a_prune_goes_on_where_it_stopped(void **state)
{
	struct fix *f = *state;
	int steps = 1;

	OK(intend(f, 512));
	assert_false(step(f));
	verify_finds(f, AUDIT_FINDING_DANGLING);
	assert_int_equal(f->sum.bad, 0);
	close_store(f);
	open_store(f);
	for (; !step(f); steps++)
		;
	assert_int_equal(steps, 512 / AUDIT_SLICE);
	verify_clean(f);
}

static void an_old_store_gets_its_tiles(void **state)
{
	struct fix *f = *state;

	change(f, "DELETE FROM tile");
	prune(f, 512);
	verify_clean(f);
}

static void what_was_pruned_cannot_be_denied(void **state)
{
	static const struct { const char *sql; enum audit_finding_code code; } tries[] = {
		{ "UPDATE log SET min_idx = 512 WHERE id = 2", AUDIT_FINDING_TILE },
		{ "UPDATE log SET min_idx = 300 WHERE id = 2", AUDIT_FINDING_TILE },
		{ "UPDATE log SET min_idx = 0, pruned_by = NULL WHERE id = 2", AUDIT_FINDING_GAP },
		{ "UPDATE log SET pruned_by = pruned_by - 1 WHERE id = 2", AUDIT_FINDING_TILE },
		{ "UPDATE log SET pruned_by = NULL WHERE id = 2", AUDIT_FINDING_TILE },
		{ "UPDATE tile SET hashes = randomblob(length(hashes))", AUDIT_FINDING_TILE },
		{ "INSERT INTO rec(enc, log, idx, kind, ts) VALUES(1, 2, 7, 1010, 5)", AUDIT_FINDING_ERASED_BUT_PRESENT },
		{ "INSERT INTO hold(log, set_by) VALUES(2, 400)", AUDIT_FINDING_REGISTRY },
		{ "INSERT INTO retention(log, set_by, from_idx, min_days) VALUES(2, 400, 400, 1)", AUDIT_FINDING_REGISTRY },
	};
	struct fix *f = *state;
	char name[16], cmd[700];

	prune(f, 256);
	for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
		struct fix try = { .dir = f->dir };
		sqlite3 *db;

		snprintf(name, sizeof name, "try%zu", i % 100);
		tmpdir_path(f->dir, name, try.path, sizeof try.path);
		snprintf(cmd, sizeof cmd, "VACUUM INTO '%s'", try.path);
		change(f, cmd);
		assert_int_equal(sqlite3_open(try.path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, tries[i].sql, NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
		verify_finds(&try, tries[i].code);
	}
}

/* --- bundles */

struct file { char path[640]; uint8_t *p; size_t n; };

static void load(struct fix *f, const struct audit_bundle_req *req, struct file *ret)
{
	static unsigned count;
	struct audit_bundle b;
	char name[32];
	FILE *in;

	snprintf(name, sizeof name, "bundle%u.tar", count++);
	tmpdir_path(f->dir, name, ret->path, sizeof ret->path);
	OK(audit_bundle_write(f->db, req, ret->path, &b, &f->err));
	assert_int_equal(audit_bundle_write(f->db, req, ret->path, &b, &f->err), ERR_CONFLICT);
	ret->p = mem_alloc(4 << 20);
	in = fopen(ret->path, "rb");
	assert_non_null(in);
	ret->n = fread(ret->p, 1, 4 << 20, in);
	fclose(in);
	assert_true(ret->n > 0 && ret->n < 4 << 20);
}

static unsigned check(struct fix *f, const struct file *file, struct audit_bundle *ret)
{
	FILE *in = fmemopen(file->p, file->n, "rb");

	memset(f->count, 0, sizeof f->count);
	f->last[0] = '\0';
	assert_non_null(in);
	OK(audit_bundle_verify(in, NULL, found, f, ret, &f->sum, &f->err));
	fclose(in);
	return (unsigned)f->sum.bad;
}

static const char *origin(struct fix *f)
{
	static char text[256];
	struct db_stmt *st = db_stmt_get(f->db, SQL_AUDIT_LIST_LOGS);

	while (db_step(st, &f->err) == 1)
		if (db_col_i64(st, 0) == 2)
			snprintf(text, sizeof text, "%s", db_col_text(st, 2, NULL));
	db_stmt_put(&st);
	return text;
}

static void a_bundle_verifies_without_the_store(void **state)
{
	static const int64_t ranges[][2] = { { 0, 256 }, { 0, 512 }, { 256, 512 }, { 3, 5 }, { 255, 257 }, { 511, 601 } };
	struct fix *f = *state;

	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		struct audit_bundle_req req = { 2, ranges[i][0], ranges[i][1], origin(f), "audit bundle acme" };
		struct audit_bundle b;
		struct file file;

		load(f, &req, &file);
		if (check(f, &file, &b) != 0)
			fail_msg("%s", f->last);
		assert_int_equal(f->sum.gaps, 1);               /* nobody signs here */
		assert_int_equal(f->sum.records, req.to - req.from);
		assert_int_equal(b.from, req.from);
		assert_int_equal(b.to, req.to);
		memset(f->count, 0, sizeof f->count);
		OK(audit_bundle_join(f->db, &b, found, f, &f->sum, &f->err));
		assert_int_equal(f->count[AUDIT_FINDING_ROOT], 0);
		assert_int_equal(f->count[AUDIT_FINDING_NOT_CHECKED], req.to % 256 ? 1 : 0);
		b.root[0] ^= 1;
		OK(audit_bundle_join(f->db, &b, found, f, &f->sum, &f->err));
		assert_int_equal(f->count[AUDIT_FINDING_ROOT], req.to % 256 ? 0 : 1);
		free(file.p);
	}
}

static void a_bundle_stands_for_what_was_pruned(void **state)
{
	struct fix *f = *state;
	struct audit_bundle_req req = { 2, 0, 256, origin(f), "retention prune acme" };
	struct audit_bundle b;
	struct file file;

	load(f, &req, &file);
	prune(f, 512);
	assert_int_equal(check(f, &file, &b), 0);
	OK(audit_bundle_join(f->db, &b, found, f, &f->sum, &f->err));
	assert_int_equal(f->sum.bad, 0);
	free(file.p);
	snprintf(file.path, sizeof file.path, "%s/none/x", f->dir);
	assert_int_equal(audit_bundle_write(f->db, &req, file.path, &b, &f->err), ERR_UNREACHABLE);
	snprintf(file.path, sizeof file.path, "%s.again", f->path);
	assert_int_equal(audit_bundle_write(f->db, &req, file.path, &b, &f->err), ERR_CORRUPT);
	assert_int_not_equal(access(file.path, F_OK), 0);
}

/* AUDIT A-801: whatever is changed is found, but for the version and the time of the program that wrote the manifest. */
static void every_changed_byte_of_a_bundle_is_found(void **state)
{
	struct fix *f = *state;
	struct audit_bundle_req req = { 2, 0, 6, origin(f), "retention prune acme" };
	struct audit_bundle b;
	struct file file;
	const char *words, *end, *at;

	load(f, &req, &file);
	words = memmem(file.p, file.n, "\"program\"", 9);
	end = memmem(file.p, file.n, ",\"origin\"", 9);
	assert_true(words && end && words < end);
	for (size_t i = 0; i < file.n; i += i < 1024 ? 1 : 7) {
		file.p[i] ^= 4;
		at = (const char *)file.p + i;
		if (check(f, &file, &b) == 0 && !(at >= words && at < end))
			fail_msg("byte %zu: %.20s", i, (const char *)file.p + (i > 10 ? i - 10 : 0));
		file.p[i] ^= 4;
	}
	for (size_t cut = 1; cut < file.n; cut += 501) {
		struct file less = { .p = file.p, .n = file.n - cut };

		if (check(f, &less, &b) == 0 && cut > 2000)
			fail_msg("cut by %zu", cut);
	}
	free(file.p);
}

static void a_view_that_says_something_else_is_found(void **state)
{
	struct fix *f = *state;
	struct audit_bundle_req req = { 2, 0, 6, origin(f), "retention prune acme" };
	struct audit_bundle b;
	struct file file;
	char *at;

	load(f, &req, &file);
	at = memmem(file.p, file.n, "\"tool\":\"echo\"", 13);
	assert_non_null(at);
	at[8] = 'E';
	assert_int_not_equal(check(f, &file, &b), 0);
	assert_int_equal(f->count[AUDIT_FINDING_VIEW], 1);
	assert_int_equal(f->count[AUDIT_FINDING_LEAF], 0);
	free(file.p);
}

/* The digests of the manifest are those of the members again, as a forger would have it. */
static void reseal(struct file *file)
{
	for (size_t at = 0; at + 512 < file->n && file->p[at];) {
		uint8_t *head = file->p + at, digest[DIGEST_SIZE];
		size_t size = strtoul((const char *)head + 124, NULL, 8);
		char key[40], hex[2 * DIGEST_SIZE + 1], *said;

		snprintf(key, sizeof key, "\"%s\":\"", (const char *)head);
		said = memmem(file->p, file->n, key, strlen(key));
		digest_sha256(head + 512, size, digest);
		text_hex(digest, sizeof digest, hex);
		if (said)
			memcpy(said + strlen(key), hex, strlen(hex));
		at += 512 + (size + 511) / 512 * 512;
	}
}

/* What stands in a bundle is compared with something, or it is no bundle (G-13 of the forger's list). */
static void what_nothing_vouches_for_has_no_place_in_a_bundle(void **state)
{
	static const struct { const char *old, *new; } swaps[] = {
		{ "\"query\":\"audit bundle acme\"", "\"query\":\"audit bundle beta\"" },
		{ "\"query\":\"audit bundle acme\"", "\"query\":\"what is on file.\"" },
		{ "\"program\":\"toolcrib ", "\"program\":\"toolkrib " }, { "\"first\":\"", NULL },
		{ "\"last\":\"", NULL }, { "\"enc\":1", "\"enc\":2" }, { "\"made\":\"", NULL },
		{ "{\"idx\":0,", "{\"odd\":0," }, { "\"frontier\"", "\"frontiex\"" },
	};
	struct fix *f = *state;
	struct audit_bundle_req req = { 2, 0, 6, origin(f), "audit bundle acme" };
	struct audit_bundle b;
	struct file file;

	load(f, &req, &file);
	assert_int_equal(check(f, &file, &b), 0);
	for (size_t i = 0; i < sizeof swaps / sizeof *swaps; i++) {
		size_t len = strlen(swaps[i].old);
		char *at = memmem(file.p, file.n, swaps[i].old, len), next = at ? at[len] : '\0';

		if (!at)
			fail_msg("no %s", swaps[i].old);
		if (swaps[i].new)
			memcpy(at, swaps[i].new, len);
		else
			at[len] = 'x';
		reseal(&file);
		if (check(f, &file, &b) == 0)
			fail_msg("%s", swaps[i].old);
		memcpy(at, swaps[i].old, len);
		at[len] = next;
		reseal(&file);
		assert_int_equal(check(f, &file, &b), 0);
	}
	free(file.p);
}

/* --- what the system log says of logs, in its second form (SC-506) */

enum { OTHER = 8 };

static void root_at(struct fix *f, int64_t log, uint64_t size, uint8_t ret[TREE_HASH])
{
	struct tree t = { 0 };

	memset(ret, 0, TREE_HASH);
	if (audit_grow(f->db, log, size, &t, NULL, &f->err) == 0)
		tree_root(&t, ret);
}

/* wrong: the root is another one. */
static void say(struct fix *f, const struct audit_said *said, size_t n, bool wrong)
{
	static uint8_t bytes[AUDIT_HEADS_BYTES];
	uint8_t count[8] = { [7] = 3 }, leaf[TREE_HASH], root[TREE_HASH];
	struct audit_field field[] = { { AUDIT_TAG_LOGS, count, sizeof count }, { AUDIT_TAG_HEADS_ROOT, bytes, 0 } };
	struct audit_event ev;
	struct tree t = { 0 };

	for (size_t i = 0; i < n; i++) {
		root_at(f, (int64_t)said[i].log, said[i].size, root);
		audit_head_leaf(&said[i], root, leaf);
		tree_append(&t, leaf);
	}
	tree_root(&t, root);
	root[7] ^= wrong;
	field[1].len = audit_heads_write(said, n, root, bytes);
	audit_event_init(&ev, AUDIT_LOGS_COMMIT, 0);
	ev.field = field;
	ev.nfield = 2;
	begin(f);
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	commit(f);
}

/* Another store, with another tenant whose log has one record. */
static void renew(void **state)
{
	struct fix *f;

	fix_free(state);
	set_up(state);
	f = *state;
	begin(f);
	create_log(f, OTHER, "other");
	commit(f);
}

static void sc506_one_root_binds_all_logs_of_a_commit(void **state)
{
	static const struct { struct { struct audit_said said[2]; size_t n; bool wrong; } of[2]; unsigned found; } cases[] = {
		{ { { { { 2, 300 }, { 3, 1 } }, 2, false } }, 0 },
		{ { { { { 2, 300 }, { 3, 1 } }, 2, true } }, 1 },
		{ { { { { 2, 601 }, { 3, 1 } }, 2, false }, { { { 3, 1 } }, 1, true } }, 1 },
		/* more than there is; of a log that there is not */
		{ { { { { 2, 602 }, { 3, 1 } }, 2, false } }, 1 },
		{ { { { { 2, 300 }, { 4, 1 } }, 2, false } }, 1 },
		/* less than before, as much as before */
		{ { { { { 2, 300 } }, 1, false }, { { { 2, 299 } }, 1, false } }, 1 },
		{ { { { { 2, 300 } }, 1, false }, { { { 2, 300 } }, 1, false } }, 0 },
		/* of each log the newest one counts; the first is needed for the other log still */
		{ { { { { 2, 300 } }, 1, true }, { { { 2, 301 } }, 1, false } }, 0 },
		{ { { { { 2, 300 }, { 3, 1 } }, 2, true }, { { { 2, 301 } }, 1, false } }, 1 },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct fix *f;

		renew(state);
		f = *state;
		for (size_t k = 0; k < 2 && cases[i].of[k].n > 0; k++)
			say(f, cases[i].of[k].said, cases[i].of[k].n, cases[i].of[k].wrong);
		if (verify(f, 0) != cases[i].found || f->count[AUDIT_FINDING_CROSS_REF] != cases[i].found)
			fail_msg("%zu: %u, %s", i, f->count[AUDIT_FINDING_CROSS_REF], f->last);
		assert_int_equal(verify(f, ACME), 0);
	}
}

static void add_note(struct fix *f, uint64_t size)
{
	static const char sql[] = "INSERT INTO cp(log, size, epoch, ts, note, frontier) VALUES(2, %d, 0, 1, CAST('%s' AS BLOB), x'00')";
	struct checkpoint cp = { .size = size };
	uint8_t sig[SIGN_SIZE] = { 1 }, public[SIGN_PUBLIC_SIZE] = { 2 };
	struct str note = STR_INIT, text = STR_INIT;
	struct note_key key;

	snprintf(cp.origin, sizeof cp.origin, "%s", "somebody");
	root_at(f, 2, size, cp.root);
	checkpoint_print(&cp, &note);
	assert_int_equal(note_key_set(&key, "somebody", public), 0);
	note_add(&note, note.len, &key, sig);
	str_printf(&text, sql, (int)size, str_text(&note));
	change(f, str_text(&text));
	str_fini(&note);
	str_fini(&text);
}

/* A root of what was pruned since stands in a note, or nowhere: then the sizes alone are compared. */
static void sc506_what_was_pruned_has_its_root_from_a_note(void **state)
{
	static const struct { bool noted, wrong; unsigned found; } cases[] = {
		{ true, false, 0 }, { true, true, 1 }, { false, false, 0 }, { false, true, 0 },
	};
	static const struct audit_said said[] = { { 2, 300 }, { 3, 1 } }, more[] = { { 3, 2 } };

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct fix *f;

		renew(state);
		f = *state;
		say(f, said, 2, cases[i].wrong);
		if (cases[i].noted)
			add_note(f, 300);
		prune(f, 512);
		(void)verify(f, 0);
		if (f->count[AUDIT_FINDING_CROSS_REF] != cases[i].found)
			fail_msg("%zu: %u, %s", i, f->count[AUDIT_FINDING_CROSS_REF], f->last);
		say(f, more, 1, false);
		(void)verify(f, 0);
		if (f->count[AUDIT_FINDING_CROSS_REF] != cases[i].found + 1)
			fail_msg("%zu: %u, %s", i, f->count[AUDIT_FINDING_CROSS_REF], f->last);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fix_free)

SUITE(keep)
{
	const struct CMUnitTest tests[] = {
		T(a_pruned_log_verifies), T(a_cut_vouches_for_no_row_that_was_changed),
		T(a_cut_is_a_multiple_of_256_and_moves_on), T(a_call_that_runs_is_not_cut),
		T(a_prune_goes_on_where_it_stopped), T(an_old_store_gets_its_tiles), T(what_was_pruned_cannot_be_denied),
		T(a_bundle_verifies_without_the_store), T(a_bundle_stands_for_what_was_pruned),
		T(every_changed_byte_of_a_bundle_is_found), T(a_view_that_says_something_else_is_found),
		T(what_nothing_vouches_for_has_no_place_in_a_bundle), T(sc506_one_root_binds_all_logs_of_a_commit),
		T(sc506_what_was_pruned_has_its_root_from_a_note),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
