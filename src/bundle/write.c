/* Writing a bundle: the records as they are hashed, and what it takes to check them without the store. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/checkpoint.h"
#include "audit/keep.h"
#include "audit/record.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "db/db.h"
#include "json/json.h"

#include "bundle_int.h"

struct writing {
	struct db *db;
	const struct audit_bundle_req *req;
	const char *path;
	FILE *f;
	struct digest *digest;          /* of the open member */
	uint64_t size, all;             /* of it, of all */
	char sha256[PART_COUNT][2 * DIGEST_SIZE + 1];
	struct tree start, tree;        /* at req->from; as far as records were read */
	int64_t first_us, last_us;
	struct str text;
	struct audit_bytes bytes;
};

static int failed(const struct writing *w, struct err *err)
{
	return err_set(err, errno == ENOSPC || errno == EDQUOT ? ERR_LIMIT : ERR_IO, w->path,
		       "the bundle cannot be written: %s",
		       strerror(errno));
}

static int put(struct writing *w, const void *p, size_t n, struct err *err)
{
	w->size += n;
	w->all += n;
	if (w->all > AUDIT_BUNDLE_MAX - 64 * TAR_BLOCK) {
		(void)err_set(err, ERR_LIMIT, w->path, "the bundle is larger than %llu GiB", AUDIT_BUNDLE_MAX >> 30);
		err_hint(err, "take a shorter range");
		return ERR_LIMIT;
	}
	digest_put(w->digest, p, n);
	return n == 0 || fwrite(p, n, 1, w->f) == 1 ? 0 : failed(w, err);
}

static int put_head(struct writing *w, enum bundle_part part, uint64_t size, struct err *err)
{
	uint8_t head[TAR_BLOCK];

	bundle_tar_head(part, size, clock_wall_us() / 1000000, head);
	w->all += TAR_BLOCK;
	return fwrite(head, sizeof(head), 1, w->f) == 1 ? 0 : failed(w, err);
}

static int begin_part(struct writing *w, enum bundle_part part, struct err *err)
{
	w->digest = digest_new();
	w->size = 0;
	return put_head(w, part, 0, err);
}

/* The size is known now: the head is written once more. */
static int end_part(struct writing *w, enum bundle_part part, struct err *err)
{
	static const uint8_t zero[TAR_BLOCK];
	uint8_t digest[DIGEST_SIZE];
	size_t pad = (TAR_BLOCK - w->size % TAR_BLOCK) % TAR_BLOCK;
	int rc;

	digest_end(&w->digest, digest);
	text_hex(digest, sizeof(digest), w->sha256[part]);
	if (pad > 0 && fwrite(zero, pad, 1, w->f) != 1)
		return failed(w, err);
	if (fseeko(w->f, -(off_t)(w->size + pad + TAR_BLOCK), SEEK_CUR) != 0)
		return failed(w, err);
	rc = put_head(w, part, w->size, err);
	if (rc == 0 && fseeko(w->f, 0, SEEK_END) != 0)
		rc = failed(w, err);
	w->all += pad - TAR_BLOCK;
	return rc;
}

/* --- records */

static int put_record(struct writing *w, const struct audit_read *got, struct err *err)
{
	struct str *t = &w->text;
	size_t at;
	char leaf[2 * TREE_HASH + 1];

	audit_row_encode(&got->row, &w->bytes);
	text_hex(got->leaf, TREE_HASH, leaf);
	str_reset(t);
	str_printf(t, "{\"idx\":%" PRId64 ",\"enc\":%d,\"leaf\":\"%s\",\"bytes\":\"", got->idx, AUDIT_ENC, leaf);
	at = t->len;
	for (size_t n = text_base64_size(w->bytes.len); t->len < at + n - 1;)
		str_put(t, "                                                                ",
			at + n - 1 - t->len < 64 ? at + n - 1 - t->len : 64);
	text_base64(w->bytes.p, w->bytes.len, t->p + at);
	str_puts(t, "\",\"view\":");
	bundle_view(&got->row, t);
	str_puts(t, "}\n");
	return put(w, t->p, t->len, err);
}

static int wrong_record(const struct writing *w, int64_t idx, struct err *err)
{
	(void)err_set(err, ERR_CORRUPT, w->req->origin, "record %" PRId64 " is missing, or not as it was written", idx);
	err_hint(err, "toolcrib audit verify says what is wrong");
	return ERR_CORRUPT;
}

/* From the tile before the range on: records before it are read for their leaves only. */
static int put_records(struct writing *w, struct err *err)
{
	const struct audit_bundle_req *r = w->req;
	struct audit_reader *reader = audit_reader_new(w->db);
	struct audit_page page = { .log = r->log, .origin = r->origin, .from = (int64_t)w->tree.size, .to = r->to };
	struct audit_read got;
	int rc = 0;

	while (rc >= 0 && (rc = audit_reader_next(reader, &page, &got, err)) == 1) {
		if (got.findings || got.idx != (int64_t)w->tree.size) {
			rc = wrong_record(w, (int64_t)w->tree.size, err);
			break;
		}
		if (got.idx == r->from)
			w->start = w->tree;
		if (got.idx >= r->from) {
			int64_t ts = got.row.v[COL_TS].n;

			w->first_us = w->first_us ? w->first_us : ts;
			w->last_us = ts;
			rc = put_record(w, &got, err);
		}
		tree_append(&w->tree, got.leaf);
	}
	audit_reader_free(&reader);
	return rc == 0 && (int64_t)w->tree.size != r->to ? wrong_record(w, (int64_t)w->tree.size, err) : rc;
}

/* --- what binds them */

static void put_b64(struct str *t, const void *p, size_t n)
{
	char *b64 = mem_alloc(text_base64_size(n));

	text_base64(p, n, b64);
	jx_write_stringz(t, b64);
	free(b64);
}

static void put_tree(struct str *t, const char *name, const struct tree *tree)
{
	uint8_t root[TREE_HASH];

	tree_root(tree, root);
	str_printf(t, "\"%s\":{\"size\":%" PRIu64 ",\"root\":", name, tree->size);
	put_b64(t, root, sizeof(root));
	str_puts(t, ",\"frontier\":[");
	for (size_t i = 0; i < tree_peaks(tree->size); i++) {
		str_puts(t, i ? "," : "");
		put_b64(t, tree->peak[i], TREE_HASH);
	}
	str_puts(t, "]}");
}

/* How the tree at the end of the range grew into the one that the first note behind it covers. */
static int put_growth(struct writing *w, uint64_t size, struct err *err)
{
	uint8_t proof[TREE_PROOF_MAX][TREE_HASH];
	struct tree_consistency since;
	struct tree tree = w->tree;
	size_t n = 0;
	int rc;

	tree_consistency_start(&since, tree.size);
	rc = audit_grow(w->db, w->req->log, size, &tree, &since, err);
	if (rc < 0)
		return rc;
	tree_consistency_prove(&w->tree, &since, proof, &n);
	str_printf(&w->text, ",\"growth\":{\"size\":%" PRIu64 ",\"proof\":[", size);
	for (size_t i = 0; i < n; i++) {
		str_puts(&w->text, i ? "," : "");
		put_b64(&w->text, proof[i], TREE_HASH);
	}
	str_puts(&w->text, "]}");
	return 0;
}

/* The notes of the range, and the first one behind it; *ret_last: its size, 0 = there is none. */
static int list_notes(struct writing *w, uint64_t *ret_last, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_BUNDLE_LIST_NOTES);
	bool any = false;
	int rc;

	db_bind_i64(st, 1, w->req->log);
	db_bind_i64(st, 2, w->req->from);
	db_bind_i64(st, 3, w->req->to);
	str_reset(&w->text);
	str_putc(&w->text, '[');
	while ((rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const char *note = db_col_blob(st, 2, &len);

		str_printf(&w->text, "%s\n{\"size\":%" PRId64 ",\"epoch\":%" PRId64 ",\"note\":", any ? "," : "",
			   db_col_i64(st, 0),
			   db_col_i64(st, 1));
		jx_write_string(&w->text, note, len);
		str_putc(&w->text, '}');
		any = true;
		if (db_col_i64(st, 0) > w->req->to)
			*ret_last = (uint64_t)db_col_i64(st, 0);
	}
	db_stmt_put(&st);
	str_puts(&w->text, "]\n");
	return rc;
}

static int list_epochs(struct writing *w, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_BUNDLE_LIST_EPOCHS);
	bool any = false;
	int rc;

	str_reset(&w->text);
	str_putc(&w->text, '[');
	while ((rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const void *p = db_col_blob(st, 1, &len);

		str_printf(&w->text, "%s\n{\"n\":%" PRId64 ",\"from\":%" PRId64 ",\"pk\":", any ? "," : "",
			   db_col_i64(st, 0),
			   db_col_i64(st, 3));
		put_b64(&w->text, p, len);
		str_puts(&w->text, ",\"cert\":");
		p = db_col_blob(st, 2, &len);
		if (len > 0)
			put_b64(&w->text, p, len);
		else
			str_puts(&w->text, "null");
		str_putc(&w->text, '}');
		any = true;
	}
	db_stmt_put(&st);
	str_puts(&w->text, "]\n");
	return rc;
}

static void make_manifest(struct writing *w)
{
	const struct audit_bundle_req *r = w->req;
	struct str *t = &w->text;
	char time[40];

	str_reset(t);
	str_puts(t, "{\"format\":\"" BUNDLE_FORMAT "\",\"program\":\"" PACKAGE_STRING "\",\"made\":");
	jx_write_stringz(t, clock_format_utc(clock_wall_us(), time, sizeof(time)));
	str_puts(t, ",\"origin\":");
	jx_write_stringz(t, r->origin);
	str_printf(t, ",\"from\":%" PRId64 ",\"to\":%" PRId64 ",\"records\":%" PRId64 ",\"first\":", r->from, r->to,
		   r->to - r->from);
	jx_write_stringz(t, clock_format_utc((uint64_t)w->first_us, time, sizeof(time)));
	str_puts(t, ",\"last\":");
	jx_write_stringz(t, clock_format_utc((uint64_t)w->last_us, time, sizeof(time)));
	str_puts(t, ",\"query\":");
	jx_write_stringz(t, r->query);
	str_puts(t, ",\"sha256\":{");
	for (unsigned i = 0; i < PART_MANIFEST; i++)
		str_printf(t, "%s\"%s\":\"%s\"", i ? "," : "", bundle_part_name[i], w->sha256[i]);
	str_puts(t, "}}\n");
}

static int put_text_part(struct writing *w, enum bundle_part part, struct err *err)
{
	int rc = begin_part(w, part, err);

	if (rc == 0)
		rc = put(w, w->text.p, w->text.len, err);
	return rc == 0 ? end_part(w, part, err) : rc;
}

static int put_parts(struct writing *w, struct err *err)
{
	static const uint8_t end[2 * TAR_BLOCK];
	uint64_t last = 0;
	int rc = begin_part(w, PART_RECORDS, err);

	if (rc == 0)
		rc = put_records(w, err);
	if (rc == 0)
		rc = end_part(w, PART_RECORDS, err);
	if (rc == 0)
		rc = list_notes(w, &last, err);
	if (rc == 0)
		rc = put_text_part(w, PART_NOTES, err);
	if (rc == 0)
		rc = list_epochs(w, err);
	if (rc == 0)
		rc = put_text_part(w, PART_EPOCHS, err);
	if (rc < 0)
		return rc;
	str_reset(&w->text);
	str_putc(&w->text, '{');
	put_tree(&w->text, "start", &w->start);
	str_putc(&w->text, ',');
	put_tree(&w->text, "end", &w->tree);
	if (last > 0)
		rc = put_growth(w, last, err);
	str_puts(&w->text, "}\n");
	if (rc == 0)
		rc = put_text_part(w, PART_TREE, err);
	if (rc < 0)
		return rc;
	make_manifest(w);
	rc = put_text_part(w, PART_MANIFEST, err);
	return rc == 0 && fwrite(end, sizeof(end), 1, w->f) != 1 ? failed(w, err) : rc;
}

/* --- the file */

static int hash_file(struct writing *w, uint8_t ret[DIGEST_SIZE], struct err *err)
{
	struct digest *d = digest_new();
	uint8_t buf[65536];
	size_t n;
	int rc = fseeko(w->f, 0, SEEK_SET) == 0 ? 0 : failed(w, err);

	while (rc == 0 && (n = fread(buf, 1, sizeof(buf), w->f)) > 0)
		digest_put(d, buf, n);
	digest_end(&d, ret);
	return rc == 0 && ferror(w->f) ? failed(w, err) : rc;
}

static int start_tree(struct writing *w, struct err *err)
{
	struct audit_cut cut;
	int rc = audit_cut_read(w->db, w->req->log, w->req->from - w->req->from % AUDIT_CUT_UNIT, &cut, err);

	if (rc == 0 && !tree_load(&w->tree, cut.at, cut.frontier, cut.peaks * TREE_HASH))
		rc = err_set(err, ERR_INTERNAL, "", "a tree without peaks");
	return rc;
}

static int write_all(struct writing *w, struct audit_bundle *ret, struct err *err)
{
	int rc = start_tree(w, err);

	if (rc == 0)
		rc = put_parts(w, err);
	if (rc == 0 && fflush(w->f) != 0)
		rc = failed(w, err);
	if (rc == 0)
		rc = hash_file(w, ret->sha256, err);
	if (rc < 0)
		return rc;
	snprintf(ret->origin, sizeof(ret->origin), "%s", w->req->origin);
	ret->from = w->req->from;
	ret->to = w->req->to;
	ret->peaks = tree_peaks(w->tree.size);
	memcpy(ret->frontier, w->tree.peak, ret->peaks * TREE_HASH);
	tree_root(&w->tree, ret->root);
	return 0;
}

static int write_file(struct writing *w, struct audit_bundle *ret, struct err *err)
{
	int rc = write_all(w, ret, err);

	if (w->digest) {
		uint8_t rest[DIGEST_SIZE];

		digest_end(&w->digest, rest);
	}
	str_fini(&w->text);
	free(w->bytes.p);
	return rc;
}

int audit_bundle_write_to(struct db *db, const struct audit_bundle_req *req, FILE *f, struct audit_bundle *ret,
			  struct err *err)
{
	struct writing w = { .db = db, .req = req, .path = "", .f = f };

	return write_file(&w, ret, err);
}

int audit_bundle_write(struct db *db, const struct audit_bundle_req *req, const char *path, struct audit_bundle *ret,
		       struct err *err)
{
	struct writing w = { .db = db, .req = req, .path = path };
	bool is_lent = false;
	int fd = -1, rc = path_make(path, &fd, &is_lent, err);

	if (rc < 0)
		return rc;
	w.f = fdopen(fd, "w+");
	rc = w.f ? write_file(&w, ret, err) : failed(&w, err);
	if (rc == 0 && fsync(fd) != 0)
		rc = failed(&w, err);
	if (rc == 0 && !is_lent)
		rc = path_sync_parent(path, err);
	if (w.f)
		fclose(w.f);
	else
		close(fd);
	if (rc < 0)
		path_unmake(path);
	return rc;
}
