/* Proofs of inclusion: the path from one record to the root of a signed checkpoint (AUDIT ). */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/record.h"
#include "audit/tile.h"
#include "base/mem.h"
#include "base/text.h"
#include "bundle/prove.h"
#include "db/db.h"
#include "tlog/note.h"
#include "tlog/proof.h"

struct prover {
	struct db *db;
	struct err *err;
	struct audit_reader *reader;
	int64_t log;
	char origin[NOTE_NAME_MAX + 1];
	struct checkpoint cp;
	struct str note;                /* of cp */
};

static int find_log(struct prover *p, int64_t tenant_id)
{
	struct db_stmt *st = db_stmt_get(p->db, SQL_PROVE_GET_LOG);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, p->err);
	if (rc == 1) {
		p->log = db_col_i64(st, 0);
		snprintf(p->origin, sizeof(p->origin), "%s", db_col_text(st, 1, NULL));
	}
	db_stmt_put(&st);
	return rc == 0 ? err_set(p->err, ERR_NOT_FOUND, "audit", "the tenant has no log") : rc < 0 ? rc : 0;
}

static int bad_note(struct prover *p)
{
	return err_set(p->err, ERR_CORRUPT, p->origin, "the newest checkpoint of %s is none", p->origin);
}

static int read_checkpoint(struct prover *p, int64_t idx)
{
	struct db_stmt *st = db_stmt_get(p->db, SQL_PROVE_GET_NOTE);
	struct note note;
	size_t len = 0;
	int rc;

	db_bind_i64(st, 1, p->log);
	rc = db_step(st, p->err);
	if (rc == 1) {
		const void *text = db_col_blob(st, 0, &len);

		str_put(&p->note, text, len);
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	if (rc == 1 && (note_parse(p->note.p, p->note.len, &note) < 0 ||
			checkpoint_parse(note.text, note.text_len, &p->cp) < 0 || strcmp(p->cp.origin, p->origin) != 0))
		return bad_note(p);
	if (rc == 0 || p->cp.size <= (uint64_t)idx) {
		err_set(p->err, ERR_CONFLICT, p->origin, "no checkpoint covers this record yet");
		err_hint(p->err, "the server signs one within a second, when its signer runs: see toolcrib status");
		return ERR_CONFLICT;
	}
	return 0;
}

static int not_as_written(struct prover *p, uint64_t idx)
{
	err_set(p->err, ERR_CORRUPT, p->origin, "record %llu of %s is not there as it was written",
		(unsigned long long)idx, p->origin);
	err_hint(p->err, "run: toolcrib audit verify");
	return ERR_CORRUPT;
}

/* The tree of the records from <= idx < to, by themselves. */
static int hash_records(struct prover *p, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
{
	struct audit_page page = { .log = p->log, .origin = p->origin, .from = (int64_t)from, .to = (int64_t)to };
	struct tree t = { 0 };
	struct audit_read got;
	int rc;

	while ((rc = audit_reader_next(p->reader, &page, &got, p->err)) == 1) {
		if (got.findings || got.idx != (int64_t)(from + t.size))
			return not_as_written(p, from + t.size);
		tree_append(&t, got.leaf);
	}
	if (rc == 0 && from + t.size != to)
		return not_as_written(p, from + t.size);
	if (rc == 0)
		tree_root(&t, ret);
	return rc;
}

/* Whole tiles from the table, what is smaller from the records; what is neither in halves. */
static int range_hash(void *arg, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
{
	struct prover *p = arg;
	uint64_t n = to - from, half = 1;
	uint8_t left[TREE_HASH], right[TREE_HASH];
	unsigned level = 0;
	int rc = 0;

	while (n > 1 && n % TILE_WIDTH == 0)
		n /= TILE_WIDTH, level++;
	if (n == 1 && level > 0)
		rc = audit_tile_get(p->db, p->log, level, from / (to - from), ret, p->err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (to - from <= TILE_WIDTH)
		return hash_records(p, from, to, ret);
	while (2 * half < to - from)
		half *= 2;
	rc = range_hash(p, from, from + half, left);
	if (rc == 0)
		rc = range_hash(p, from + half, to, right);
	if (rc == 0)
		tree_node(left, right, ret);
	return rc;
}

static int read_record(struct prover *p, int64_t idx, struct audit_bytes *ret)
{
	struct audit_page page = { .log = p->log, .origin = p->origin, .from = idx, .to = idx + 1 };
	struct audit_read got;
	int rc = audit_reader_next(p->reader, &page, &got, p->err);

	if (rc == 0) {
		err_set(p->err, ERR_CONFLICT, p->origin, "record %lld of %s has been pruned", (long long)idx,
			p->origin);
		err_hint(p->err, "its archive bundle has it");
		return ERR_CONFLICT;
	}
	if (rc == 1 && got.findings)
		return not_as_written(p, (uint64_t)idx);
	if (rc == 1) {
		audit_row_encode(&got.row, ret);
		rc = audit_reader_next(p->reader, &page, &got, p->err);         /* lets the statement go */
	}
	return rc < 0 ? rc : 0;
}

static int prove(struct prover *p, int64_t idx, struct str *ret)
{
	struct audit_bytes bytes = { 0 };
	struct proof proof = { .index = (uint64_t)idx };
	uint8_t leaf[TREE_HASH];
	int rc = read_record(p, idx, &bytes);

	if (rc == 0)
		rc = tree_prove_inclusion((uint64_t)idx, p->cp.size, range_hash, p, proof.hash, &proof.n);
	if (rc == 0) {
		tree_leaf(bytes.p, bytes.len, leaf);
		if (!tree_check_inclusion(leaf, proof.index, p->cp.size, (const uint8_t (*)[TREE_HASH])proof.hash,
					  proof.n, p->cp.root))
			rc = not_as_written(p, (uint64_t)idx);
	}
	if (rc == 0) {
		proof.record = bytes.p;
		proof.record_len = bytes.len;
		proof.note = p->note.p;
		proof.note_len = p->note.len;
		proof_print(&proof, ret);
	}
	free(bytes.p);
	return rc;
}

int audit_prove(struct db *db, int64_t tenant_id, int64_t idx, struct str *ret, uint64_t *ret_size, struct err *err)
{
	struct prover p = { .db = db, .err = err, .note = STR_INIT };
	int rc = find_log(&p, tenant_id);

	if (rc == 0)
		rc = read_checkpoint(&p, idx);
	if (rc == 0) {
		p.reader = audit_reader_new(db);
		rc = prove(&p, idx, ret);
		audit_reader_free(&p.reader);
	}
	*ret_size = p.cp.size;
	str_fini(&p.note);
	return rc;
}
