/* Proofs of inclusion: the path from one record to the root of a signed checkpoint (AUDIT ). */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/commit.h"
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
			checkpoint_parse(note.text, note.text_len, &p->cp) < 0 || !succession_is(p->cp.origin, p->origin)))
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
