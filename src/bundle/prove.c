/* Proofs of inclusion: the path from one record to the root of a signed checkpoint (AUDIT ).  Proofs of
 * consistency: that the log of a signed checkpoint goes on behind what it was at a size (CONSOLE C-108). */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys/commit.h"
#include "audit/record.h"
#include "base/mem.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "db/db.h"
#include "tlog/note.h"
#include "tlog/proof.h"
#include "tlog/signer.h"

#include "bundle_int.h"

struct prover {
	struct db *db;
	struct err *err;
	struct audit_reader *reader;
	int64_t log, min_idx;           /* the first record that is not pruned */
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
		p->min_idx = db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	return rc == 0 ? err_set(p->err, ERR_NOT_FOUND, "audit", "the tenant has no log") : rc < 0 ? rc : 0;
}

static int bad_note(struct prover *p)
{
	return err_set(p->err, ERR_CORRUPT, p->origin, "the newest checkpoint of %s is none", p->origin);
}

/* The newest one.  1; 0: there is none. */
static int read_note(struct prover *p)
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
	if (rc == 1 && (note_parse(p->note.p, p->note.len, &note) < 0 ||
			checkpoint_parse(note.text, note.text_len, &p->cp) < 0 || !succession_is(p->cp.origin, p->origin)))
		return bad_note(p);
	return rc;
}

static int read_checkpoint(struct prover *p, int64_t idx)
{
	int rc = read_note(p);

	if (rc < 0)
		return rc;
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
	struct audit_ranges ranges = { p->db, p->reader, p->log, p->origin, p->err };
	int rc = read_record(p, idx, &bytes);

	if (rc == 0)
		rc = tree_prove_inclusion((uint64_t)idx, p->cp.size, audit_range_hash, &ranges, proof.hash, &proof.n);
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

/* --- how a log grew */

/* Whether the tree can be made anew as it was at that size: of what was pruned, the hashes of whole tiles are left. */
static int check_from(const struct prover *p, uint64_t from)
{
	if (from > p->cp.size) {
		err_set(p->err, ERR_INVALID, "from", "from: the newest checkpoint of %s covers %" PRIu64 " records, not %" PRIu64,
			p->origin, p->cp.size, from);
		err_hint(p->err, "toolcrib audit checkpoint signs one now; whoever holds one of a larger size should compare it "
			 "with toolcrib audit verify --anchor");
		return ERR_INVALID;
	}
	if (from < (uint64_t)p->min_idx && from % TILE_WIDTH != 0) {
		err_set(p->err, ERR_CONFLICT, p->origin, "the records of %s before %" PRId64 " have been pruned, and with them how "
			"the log was at %" PRIu64, p->origin, p->min_idx, from);
		err_hint(p->err, "sizes from %" PRId64 " on, and multiples of %d before, can be proved; bundles have the rest",
			 p->min_idx, TILE_WIDTH);
		return ERR_CONFLICT;
	}
	return 0;
}

/* As a witness is asked (C2SP tlog-witness): the old size, the hashes, an empty line, the checkpoint. */
static void print_growth(const struct prover *p, const struct audit_growth *g, const uint8_t (*hash)[TREE_HASH],
			 struct str *ret)
{
	char text[48];

	str_printf(ret, "old %" PRIu64 "\n", g->from);
	for (size_t i = 0; i < g->n; i++) {
		text_base64(hash[i], TREE_HASH, text);
		str_printf(ret, "%s\n", text);
	}
	str_putc(ret, '\n');
	str_put(ret, p->note.p, p->note.len);
}

static int prove_growth(struct prover *p, struct audit_growth *g, struct str *ret)
{
	uint8_t (*hash)[TREE_HASH] = mem_calloc(TREE_PROOF_MAX, TREE_HASH);
	struct audit_ranges ranges = { p->db, p->reader, p->log, p->origin, p->err };
	int rc = 0;

	/* Of nothing, everything is a continuation, and there is nothing to say. */
	if (g->from > 0)
		rc = audit_range_hash(&ranges, 0, g->from, g->from_root);
	if (rc == 0 && g->from > 0)
		rc = tree_prove_consistency(g->from, p->cp.size, audit_range_hash, &ranges, hash, &g->n);
	if (rc == 0 && g->from > 0 && !tree_check_consistency(g->from, p->cp.size, g->from_root, p->cp.root,
							      (const uint8_t (*)[TREE_HASH])hash, g->n)) {
		rc = err_set(p->err, ERR_CORRUPT, p->origin, "the records of %s do not give what its newest checkpoint says",
			     p->origin);
		err_hint(p->err, "run: toolcrib audit verify");
	}
	if (rc == 0)
		print_growth(p, g, (const uint8_t (*)[TREE_HASH])hash, ret);
	free(hash);
	return rc;
}

int audit_prove_growth(struct db *db, int64_t tenant_id, uint64_t from, struct str *ret, struct audit_growth *ret_what,
		       struct err *err)
{
	struct prover p = { .db = db, .err = err, .note = STR_INIT };
	struct audit_growth g = { .from = from };
	int rc = find_log(&p, tenant_id);

	if (rc == 0)
		rc = read_note(&p);
	if (rc == 0) {
		rc = err_set(err, ERR_CONFLICT, p.origin, "%s has no checkpoint yet", p.origin);
		err_hint(err, "toolcrib audit checkpoint signs one now");
	}
	if (rc == 1)
		rc = check_from(&p, from);
	if (rc == 0) {
		p.reader = audit_reader_new(db);
		rc = prove_growth(&p, &g, ret);
		audit_reader_free(&p.reader);
	}
	if (rc == 0) {
		(void)snprintf(g.origin, sizeof(g.origin), "%s", p.cp.origin);
		g.size = p.cp.size;
		*ret_what = g;
	}
	str_fini(&p.note);
	return rc;
}

/* --- checking one that somebody hands over: every byte is hostile */

/* A key of the log, or of the instance whose tenant's log it is, under the name of the log. */
static int find_key(const struct proof *p, const struct audit_evidence *with, struct note_key *ret, struct err *err)
{
	struct checkpoint cp;
	struct note note;

	if (note_parse(p->note, p->note_len, &note) < 0 || checkpoint_parse(note.text, note.text_len, &cp) < 0)
		return err_set(err, ERR_INVALID, "proof", "the checkpoint is no signed note of a log");
	for (size_t i = 0; i < with->nkey; i++) {
		const char *name = with->key[i].name;
		size_t len = strlen(name);

		if (succession_is(cp.origin, name) ||
		    (strncmp(cp.origin, name, len) == 0 && strncmp(cp.origin + len, "/t/", 3) == 0))
			return note_key_set(ret, cp.origin, with->key[i].public);
	}
	return err_set(err, ERR_INVALID, "proof", "the checkpoint of %s is not signed by a key that was given", cp.origin);
}

int audit_proof_check(const char *text, size_t len, const struct audit_evidence *with, struct audit_proved *ret,
		      struct err *err)
{
	struct checkpoint cp;
	struct note_key key;
	struct proof p;
	int rc = proof_parse(text, len, &p, err);

	if (rc < 0)
		return rc;
	rc = find_key(&p, with, &key, err);
	if (rc == 0)
		rc = proof_check(&p, &key, &cp, err);
	if (rc == 0 && !bundle_decode(p.record, p.record_len, &ret->row))
		rc = err_set(err, ERR_INVALID, "proof", "what is proved is no record of this release");
	if (rc == 0) {
		(void)snprintf(ret->origin, sizeof(ret->origin), "%s", cp.origin);
		ret->index = p.index;
		ret->size = cp.size;
		ret->record = p.record;
		p.record = NULL;
	}
	proof_fini(&p);
	return rc;
}

bool audit_proof_opens(const struct audit_proved *p, unsigned ctag, const uint8_t opening[32], const void *value,
		       size_t len)
{
	const struct audit_value *cm = &p->row.v[COL_CM];
	struct audit_cm all[AUDIT_COMMITS_MAX];
	uint8_t made[32];
	size_t n = 0;

	if (!cm->present || !audit_cm_read((const uint8_t *)cm->p, cm->len, all, &n))
		return false;
	audit_commitment(opening, ctag, value, len, made);
	for (size_t i = 0; i < n; i++)
		if (all[i].ctag == ctag)
			return memcmp(all[i].commitment, made, sizeof(made)) == 0;
	return false;
}
