/* Making a sealed file of what a store has of a log (bundle/segment.h): its records, whatever form they have there,
 * with what is kept beside them, and what it takes to verify them without the store; in its place in the store. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/keep.h"
#include "audit/record.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "bundle/seal.h"
#include "bundle/segment.h"
#include "db/db.h"
#include "forms/forms.h"
#include "segment/segment.h"

#include "bundle_int.h"

_Static_assert((int)SEGMENT_UNIT == AUDIT_CUT_UNIT, "a sealed file ends where a log can be cut");
_Static_assert((int)SEGMENT_TEXT_MAX == AUDIT_TEXT_MAX, "a sealed file has room for each text of a record");

enum { SAID_MAX = 320 };

struct sealing {
	struct db *db;
	const struct audit_segment_req *req;
	struct segment_maker *m;
	struct segment_info *info;
	struct block_payload kept[SEGMENT_UNIT];        /* of the records from kept_at on; owned */
	int64_t kept_at;
};

/* --- records */

static void forget_kept(struct sealing *s)
{
	for (size_t i = 0; i < SEGMENT_UNIT; i++) {
		free((void *)(uintptr_t)s->kept[i].salt.p);
		free((void *)(uintptr_t)s->kept[i].nonce.p);
		free((void *)(uintptr_t)s->kept[i].ct.p);
	}
	memset(s->kept, 0, sizeof(s->kept));
}

static struct block_bytes copy_of(struct db_stmt *st, unsigned col)
{
	size_t len = 0;
	const void *p = db_col_blob(st, col, &len);
	uint8_t *copy;

	if (db_col_type(st, col) == DB_NULL)
		return (struct block_bytes){ NULL, 0 };
	copy = mem_alloc(len + 1);
	if (len > 0)
		memcpy(copy, p, len);
	return (struct block_bytes){ copy, len };
}

/* Of the tile that begins there. */
static int read_kept(struct sealing *s, int64_t tile, struct err *err)
{
	struct db_stmt *st = db_stmt_get(s->db, SQL_SEAL_LIST_KEPT);
	int rc;

	forget_kept(s);
	s->kept_at = tile;
	db_bind_i64(st, 1, s->req->log);
	db_bind_i64(st, 2, tile);
	db_bind_i64(st, 3, tile + SEGMENT_UNIT);
	while ((rc = db_step(st, err)) == 1) {
		struct block_payload *to = &s->kept[db_col_i64(st, 0) - tile];

		*to = (struct block_payload){ copy_of(st, 1), copy_of(st, 2), copy_of(st, 3) };
	}
	db_stmt_put(&st);
	return rc;
}

static int wrong_record(const struct sealing *s, int64_t idx, struct err *err)
{
	(void)err_set(err, ERR_CORRUPT, s->req->origin, "record %" PRId64 " is missing, or not as it was written", idx);
	err_hint(err, "toolcrib audit verify says what is wrong");
	return ERR_CORRUPT;
}

static int go_on(const atomic_bool *stop, struct err *err)
{
	return stop && atomic_load(stop) ? err_set(err, ERR_CANCELLED, "", "it was stopped") : 0;
}

static int begin_tile(struct sealing *s, int64_t tile, struct err *err)
{
	int rc = go_on(s->req->stop, err);

	return rc < 0 ? rc : read_kept(s, tile, err);
}

static int put_record(struct sealing *s, const struct audit_read *got, struct err *err)
{
	const int64_t at = got->idx % SEGMENT_UNIT;
	int rc = at == 0 ? begin_tile(s, got->idx, err) : 0;

	if (rc == 0)
		rc = segment_put(s->m, &got->row, s->kept[at].salt.p ? &s->kept[at] : NULL, err);
	tree_append(&s->info->after, got->leaf);
	return rc;
}

static int put_records(struct sealing *s, struct err *err)
{
	const struct audit_segment_req *r = s->req;
	struct audit_reader *reader = audit_reader_new(s->db);
	struct audit_page page = { .log = r->log, .origin = r->origin, .from = r->from, .to = r->to };
	struct audit_read got;
	int rc = 0;

	while (rc >= 0 && (rc = audit_reader_next(reader, &page, &got, err)) == 1) {
		if (got.findings || got.idx != (int64_t)s->info->after.size)
			rc = wrong_record(s, (int64_t)s->info->after.size, err);
		else
			rc = put_record(s, &got, err);
	}
	audit_reader_free(&reader);
	return rc == 0 && (int64_t)s->info->after.size != r->to ? wrong_record(s, (int64_t)s->info->after.size, err) : rc;
}

/* --- what binds them */

/* How the tree at the end grew into the one that the note covers. */
static int prove_growth(struct sealing *s, uint64_t size, struct err *err)
{
	const struct audit_segment_req *r = s->req;
	struct audit_ranges ranges = { .db = s->db, .reader = audit_reader_new(s->db), .log = r->log, .origin = r->origin,
		.err = err };
	int rc = tree_prove_consistency((uint64_t)r->to, size, audit_range_hash, &ranges, s->info->growth, &s->info->ngrowth);

	audit_reader_free(&ranges.reader);
	return rc;
}

static int take_note(struct sealing *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(s->db, SQL_SEAL_GET_NOTE);
	uint64_t size = 0;
	const void *note;
	int rc;

	db_bind_i64(st, 1, s->req->log);
	db_bind_i64(st, 2, s->req->to);
	rc = db_step(st, err);
	if (rc == 1) {
		size = (uint64_t)db_col_i64(st, 0);
		s->info->epoch = db_col_i64(st, 1);
		note = db_col_blob(st, 2, &s->info->note_len);
		if (s->info->note_len <= NOTE_MAX)
			memcpy(s->info->note, note, s->info->note_len);
		else
			rc = err_set(err, ERR_CORRUPT, s->req->origin, "a checkpoint is longer than any can be");
	} else if (rc == 0) {
		rc = err_set(err, ERR_CONFLICT, s->req->origin, "no checkpoint covers the first %" PRId64 " records yet", s->req->to);
		err_hint(err, "toolcrib audit checkpoint makes one");
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : prove_growth(s, size, err);
}

static int put_epochs(struct sealing *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(s->db, SQL_BUNDLE_LIST_EPOCHS);
	int rc;

	while ((rc = db_step(st, err)) == 1 && db_col_i64(st, 0) <= s->info->epoch) {
		size_t len = 0, cert_len = 0;
		const void *pk = db_col_blob(st, 1, &len), *cert = db_col_blob(st, 2, &cert_len);
		const bool first = db_col_type(st, 2) == DB_NULL;

		if (len != SIGN_PUBLIC_SIZE || (!first && cert_len != SIGN_SIZE))
			rc = err_set(err, ERR_CORRUPT, "epoch", "a key is not as long as keys are");
		else
			rc = segment_put_epoch(s->m, db_col_i64(st, 0), pk, first ? NULL : cert, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int start_tree(struct sealing *s, struct err *err)
{
	struct audit_cut cut;
	int rc = audit_cut_read(s->db, s->req->log, s->req->from, &cut, err);

	if (rc == 0 && !tree_load(&s->info->before, cut.at, cut.frontier, cut.peaks * TREE_HASH))
		rc = err_set(err, ERR_INTERNAL, "", "a tree without peaks");
	s->info->after = s->info->before;
	return rc;
}

/* --- the file */

static int fill(struct sealing *s, struct err *err)
{
	int rc = start_tree(s, err);

	if (rc == 0)
		rc = take_note(s, err);
	if (rc == 0)
		rc = put_epochs(s, err);
	return rc == 0 ? put_records(s, err) : rc;
}

static int check_range(const struct audit_segment_req *r, struct err *err)
{
	if (r->from < 0 || r->from >= r->to || r->from % SEGMENT_UNIT != 0 || r->to % SEGMENT_UNIT != 0)
		return err_set(err, ERR_INVALID, r->origin, "a sealed file begins and ends at multiples of %d", SEGMENT_UNIT);
	if (r->to - r->from > SEGMENT_RECORDS_MAX)
		return err_set(err, ERR_LIMIT, r->origin, "a sealed file has at most %d records", SEGMENT_RECORDS_MAX);
	return 0;
}

int audit_segment_write(struct db *db, const struct audit_segment_req *req, const char *path, struct err *err)
{
	struct sealing *s;
	int rc = check_range(req, err);

	if (rc < 0)
		return rc;
	s = mem_zalloc(sizeof(*s));
	s->db = db;
	s->req = req;
	s->info = mem_zalloc(sizeof(*s->info));
	s->info->from = req->from;
	s->info->to = req->to;
	(void)snprintf(s->info->origin, sizeof(s->info->origin), "%s", req->origin);
	(void)snprintf(s->info->release, sizeof(s->info->release), "%s", PACKAGE_STRING);
	rc = segment_make(path, req->from, &s->m, err);
	if (rc == 0)
		rc = fill(s, err);
	if (rc == 0)
		rc = segment_end(&s->m, s->info, err);
	segment_drop(&s->m);
	forget_kept(s);
	free(s->info);
	free(s);
	return rc;
}

/* --- in the store */

/* What was found wrong first. */
static void keep_first(void *arg, const struct audit_finding *f)
{
	char *said = arg;

	if (!*said)
		(void)snprintf(said, SAID_MAX, "%s%s%s", audit_finding_name(f->code), f->detail ? ": " : "",
			       f->detail ? f->detail : "");
}

/* It is opened again and believed nothing (SCALE 6), but for whose keys have signed: the store was asked for those. */
static int verify_file(struct db *db, const char *path, struct audit_sealed *s, struct err *err)
{
	struct bundle_chapters *chapters = bundle_chapters_new(db, path, s);
	struct audit_segment made;
	struct audit_coverage sum;
	char said[SAID_MAX] = "";
	struct stat st = { 0 };
	struct err why = { 0 };
	int rc = bundle_segment_verify(path, NULL, chapters, keep_first, said, &made, &sum, err);
	const int counted = bundle_chapters_end(&chapters, &why);

	if (rc == 0 && (sum.bad > 0 || !made.whole || made.from != s->from || made.to != s->to))
		rc = err_set(err, ERR_CORRUPT, path, "the sealed file that was made is not whole: %s", said);
	if (rc == 0 && stat(path, &st) != 0)
		rc = err_set(err, ERR_IO, path, "it is not there any more");
	if (rc < 0)
		return rc;
	memcpy(s->digest, made.digest, sizeof(s->digest));
	memcpy(s->root, made.root, sizeof(s->root));
	s->bytes = st.st_size;
	if (counted < 0)
		*err = why;
	return counted;
}

int bundle_check_folder(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return 0;
	(void)err_set(err, ERR_DENIED, path, "it is a link, or not a folder of the store's user alone");
	err_hint(err, "sealed files are made in folders that nobody else can write: see what is there, and move it away");
	return ERR_DENIED;
}

/* Ours alone, and no link: what is made there, or removed, is nowhere else. */
int bundle_own_folder(const char *path, struct err *err)
{
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return err_set(err, ERR_IO, path, "it cannot be made: %s", strerror(errno));
	return bundle_check_folder(path, err);
}

/* The name of its folder, and of that, are durable as well.  Nothing that came meanwhile is written over. */
static int put_in_place(const char *tmp, const char *path, const char *folder, struct err *err)
{
	int rc;

	CRASH_AT("seal.written");
	rc = renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_NOREPLACE);

	if (rc != 0 && errno == EINVAL)         /* a file system without it */
		rc = rename(tmp, path);
	if (rc != 0)
		return err_set(err, errno == EEXIST ? ERR_CONFLICT : ERR_IO, path, "%s cannot take its name: %s", tmp,
			       strerror(errno));
	CRASH_AT("seal.renamed");
	rc = path_sync_parent(path, err);
	return rc < 0 ? rc : path_sync_parent(folder, err);
}

static int make_as(struct db *db, struct audit_sealed *s, const char *tmp, const atomic_bool *stop, struct err *err)
{
	struct audit_segment_req req = { .log = s->log, .from = s->from, .to = s->to, .stop = stop };
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_ORIGIN);
	char *origin = NULL;
	int rc;

	db_bind_i64(st, 1, s->log);
	rc = db_step(st, err);
	if (rc == 1)
		req.origin = origin = db_col_dup(st, 0);
	db_stmt_put(&st);
	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "audit", "there is no log %" PRId64, s->log);
	if (rc == 1)
		rc = audit_segment_write(db, &req, tmp, err);
	free(origin);
	if (rc == 0)
		rc = go_on(stop, err);
	if (rc == 0)
		rc = verify_file(db, tmp, s, err);
	return rc < 0 ? rc : go_on(stop, err);
}

/* A file that stands where the next one comes. */
static int make_way(struct db *db, const struct audit_sealed *s, const char *path, struct err *err)
{
	struct stat was;
	int rc;

	if (lstat(path, &was) != 0)
		return 0;
	rc = audit_seal_listed(db, s->path, err);
	if (rc == 1)
		rc = err_set(err, ERR_CONFLICT, path, "the catalog has this file for other records");
	if (rc == 0 && unlink(path) != 0)
		rc = err_set(err, ERR_IO, path, "what is in no catalog cannot be removed: %s", strerror(errno));
	if (rc == 0)
		log_warn(NULL, "removed a sealed file that is in no catalog: its records are in blocks, or were pruned file=%s",
			 path);
	return rc;
}

int audit_seal_make(struct db *db, struct audit_sealed *s, const atomic_bool *stop, struct err *err)
{
	char *path = db_beside(db, s->path), *tmp = mem_printf("%s.tmp", path), *all = db_beside(db, FORMS_FOLDER);
	char *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
	int rc = bundle_own_folder(all, err);

	if (rc == 0)
		rc = bundle_own_folder(folder, err);
	if (rc == 0)
		rc = make_way(db, s, path, err);
	if (rc == 0) {
		path_unmake(tmp);               /* of who did not finish */
		rc = make_as(db, s, tmp, stop, err);
		if (rc == 0)
			rc = put_in_place(tmp, path, folder, err);
		if (rc < 0)
			path_unmake(tmp);
	}
	free(all);
	free(folder);
	free(tmp);
	free(path);
	return rc;
}

void audit_seal_unmake(struct db *db, const struct audit_sealed *s)
{
	char *path = db_beside(db, s->path);
	struct err why;

	if (audit_seal_listed(db, s->path, &why) == 0)
		path_unmake(path);
	free(path);
}
