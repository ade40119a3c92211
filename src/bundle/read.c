/* Reading a bundle that somebody hands over: nothing in it is believed that does not follow from something else in it
 * (AUDIT A-801, A-1002).  No name, path or text of it is used for anything but comparing. */

#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "audit/keep.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "db/db.h"
#include "json/json.h"
#include "tlog/note.h"
#include "tlog/signer.h"

#include "bundle_int.h"

enum { MEMBERS_MAX = PART_COUNT, GROWTH_MAX = TREE_PROOF_MAX, PROGRAM_MAX = 64, TIME_SIZE = 40 };
#define BUNDLE_PROGRAM "toolcrib "      /* before the version */

/* A note of the bundle, as far as it goes without keys. */
struct noted { uint64_t size; uint8_t root[TREE_HASH]; bool seen; };

struct reading {
	FILE *f;
	const struct audit_evidence *with;      /* or NULL */
	struct bundle_chain chain;
	audit_found_fn *found;
	void *arg;
	struct audit_coverage *sum;
	struct audit_bundle *b;
	struct { bool there; off_t at; uint64_t size; } part[PART_COUNT];
	json_t *json[PART_COUNT];       /* but of the records */
	struct tree tree, end;          /* as read so far; as tree.json has it at the end */
	struct noted *note; size_t nnote;
	struct audit_finding run;       /* of records, not told yet */
	bool running;
	const char *first, *last;       /* of the manifest, borrowed */
	int64_t begun_us, ended_us;     /* times of the first and last record */
};

/* --- findings */

static void tell(struct reading *r, const struct audit_finding *f)
{
	if (audit_finding_bad(f->code) && !f->gap)
		r->sum->bad++;
	else
		r->sum->gaps++;
	r->found(r->arg, f);
}

static void end_run(struct reading *r)
{
	if (r->running)
		tell(r, &r->run);
	r->running = false;
}

static void tell_record(struct reading *r, enum audit_finding_code code, int64_t idx)
{
	if (r->running && r->run.code == code && r->run.to + 1 == idx) {
		r->run.to = idx;
		return;
	}
	end_run(r);
	r->run = (struct audit_finding){ .code = code, .origin = r->b->origin, .from = idx, .to = idx, .detail = NULL };
	r->running = true;
}

/* Always false, for `return`. */
static bool wrong(struct reading *r, enum audit_finding_code code, const char *detail)
{
	tell(r, &(struct audit_finding){ .code = code, .origin = *r->b->origin ? r->b->origin : NULL, .from = -1,
		.to = -1, .detail = detail });
	return false;
}

static int unreadable(struct err *err)
{
	return err_set(err, ERR_IO, "", "the bundle cannot be read: %s", strerror(errno));
}

/* --- members */

/* What stands between and behind members says nothing. */
static int only_zeros(struct reading *r, off_t from, off_t to, bool *ret_ok, struct err *err)
{
	if (fseeko(r->f, from, SEEK_SET) != 0)
		return unreadable(err);
	for (; from < to && *ret_ok; from++) {
		int c = getc(r->f);

		if (c == EOF)
			return unreadable(err);
		*ret_ok = c == 0;
	}
	return 0;
}

static int find_parts(struct reading *r, bool *ret_ok, struct err *err)
{
	uint8_t head[TAR_BLOCK];
	enum bundle_part part;
	uint64_t size = 0;
	off_t at = 0, next, all;
	int rc = 0;

	if (fseeko(r->f, 0, SEEK_END) != 0 || (all = ftello(r->f)) < 0)
		return unreadable(err);
	*ret_ok = (uint64_t)all <= AUDIT_BUNDLE_MAX;
	for (unsigned n = 0; n < MEMBERS_MAX && *ret_ok && rc == 0; n++) {
		if (fseeko(r->f, at, SEEK_SET) != 0 || (fread(head, sizeof(head), 1, r->f) != 1 && ferror(r->f)))
			return unreadable(err);
		at += TAR_BLOCK;
		*ret_ok = at <= all && bundle_tar_read(head, &part, &size) && !r->part[part].there &&
			size <= (uint64_t)(all - at) &&
			  (part == PART_RECORDS || size <= AUDIT_BUNDLE_PART_MAX);
		if (!*ret_ok)
			break;
		r->part[part].there = true;
		r->part[part].at = at;
		r->part[part].size = size;
		next = at + (off_t)((size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK);
		*ret_ok = next <= all;
		if (*ret_ok)
			rc = only_zeros(r, at + (off_t)size, next, ret_ok, err);
		at = next;
	}
	if (rc == 0 && *ret_ok)
		rc = only_zeros(r, at, all, ret_ok, err);
	if (rc == 0 && !*ret_ok)
		(void)wrong(r, AUDIT_FINDING_PARSE,
			    "this is no bundle: a tar of records, tree, notes, epochs and manifest, each once");
	return rc;
}

static int read_part(struct reading *r, enum bundle_part part, struct str *ret, struct err *err)
{
	size_t n = (size_t)r->part[part].size;
	char *p = mem_alloc(n + 1);

	if (fseeko(r->f, r->part[part].at, SEEK_SET) != 0 || (n > 0 && fread(p, n, 1, r->f) != 1)) {
		free(p);
		return unreadable(err);
	}
	str_reset(ret);
	str_put(ret, p, n);
	free(p);
	return 0;
}

/* The digest that the manifest has of a member; the manifest is read first. */
static bool digest_fits(struct reading *r, enum bundle_part part, struct digest **d)
{
	const json_t *all = json_object_get(r->json[PART_MANIFEST], "sha256");
	const char *want = json_string_value(json_object_get(all, bundle_part_name[part]));
	uint8_t digest[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1];

	digest_end(d, digest);
	text_hex(digest, sizeof(digest), hex);
	return (want && strcmp(want, hex) == 0) || wrong(r, AUDIT_FINDING_PARSE,
							 "a member is not what the manifest says");
}

static int load_part(struct reading *r, enum bundle_part part, bool *ret_ok, struct err *err)
{
	struct str text = STR_INIT;
	struct digest *d;
	int rc = read_part(r, part, &text, err);

	if (rc == 0) {
		*ret_ok = jx_parse(str_text(&text), text.len, &r->json[part], NULL) == 0 ||
			  wrong(r, AUDIT_FINDING_PARSE, "a member is no JSON");
		if (*ret_ok && part != PART_MANIFEST) {
			d = digest_new();
			digest_put(d, str_text(&text), text.len);
			*ret_ok = digest_fits(r, part, &d);
		}
	}
	str_fini(&text);
	return rc;
}

static bool get_hash(const json_t *v, uint8_t ret[TREE_HASH])
{
	size_t len = 0;

	return json_is_string(v) && text_unbase64(json_string_value(v), json_string_length(v), ret, TREE_HASH,
						  &len) == 0 &&
	       len == TREE_HASH;
}

static bool get_number(const json_t *obj, const char *name, int64_t *ret)
{
	return jx_get_int(obj, "", name, JX_REQUIRED, 0, INT64_MAX, ret, NULL) == 0;
}

/* An object of these members and no others: what is not compared with something has no place in a bundle. */
static bool only(const json_t *obj, const char *const *names, size_t n)
{
	return json_is_object(obj) && jx_only(obj, "", names, n, NULL) == 0;
}

/* "toolcrib 0.1": a name and a version, nothing that people may take for evidence. */
static bool is_program(const char *text)
{
	size_t name = strlen(BUNDLE_PROGRAM), len = strlen(text);

	return len > name && len < PROGRAM_MAX && memcmp(text, BUNDLE_PROGRAM, name) == 0 &&
	       strspn(text + name, "0123456789abcdefghijklmnopqrstuvwxyz.-+~") == len - name;
}

/* The commands that write bundles, of the log's tenant. */
static bool is_query(const struct reading *r, const char *text)
{
	static const char *const commands[] = { "audit bundle ", "retention prune " };
	const char *slash = strstr(r->b->origin, "/t/"), *tenant = slash ? slash + 3 : "";

	for (size_t i = 0; i < NELEMS(commands); i++)
		if (strncmp(text, commands[i], strlen(commands[i])) == 0 && strcmp(text + strlen(commands[i]), tenant) == 0)
			return true;
	return false;
}

static bool is_time_text(const char *text)
{
	char same[TIME_SIZE];
	uint64_t us = 0;

	return clock_parse(text, 0, &us) == 0 && strcmp(clock_format_utc(us, same, sizeof(same)), text) == 0;
}

static bool read_claims(struct reading *r)
{
	static const char *const parts[] = { "records.jsonl", "tree.json", "notes.json", "epochs.json" };
	const json_t *m = r->json[PART_MANIFEST];
	const char *program = NULL, *query = NULL, *made = NULL;

	return jx_get_string(m, "", "program", JX_REQUIRED, &program, NULL) == 0 && is_program(program) &&
	       jx_get_string(m, "", "query", JX_REQUIRED, &query, NULL) == 0 && is_query(r, query) &&
	       jx_get_string(m, "", "made", JX_REQUIRED, &made, NULL) == 0 && is_time_text(made) &&
	       jx_get_string(m, "", "first", JX_REQUIRED, &r->first, NULL) == 0 &&
	       jx_get_string(m, "", "last", JX_REQUIRED, &r->last, NULL) == 0 &&
	       only(json_object_get(m, "sha256"), parts, NELEMS(parts));
}

static bool read_manifest(struct reading *r)
{
	static const char *const names[] = { "format", "program", "made", "origin", "from", "to", "records", "first", "last",
		"query", "sha256" };
	const json_t *m = r->json[PART_MANIFEST];
	const char *format = NULL, *origin = NULL;
	int64_t records = 0;

	if (!only(m, names, NELEMS(names)) || jx_get_string(m, "", "format", JX_REQUIRED, &format, NULL) < 0 ||
	    strcmp(format, BUNDLE_FORMAT) != 0 ||
	    jx_get_string(m, "", "origin", JX_REQUIRED, &origin, NULL) < 0 || strlen(origin) >= sizeof(r->b->origin) ||
	    !get_number(m, "from", &r->b->from) || !get_number(m, "to", &r->b->to) ||
		!get_number(m, "records", &records) ||
	    r->b->from >= r->b->to || records != r->b->to - r->b->from)
		return wrong(r, AUDIT_FINDING_PARSE, "the manifest does not say what is here");
	snprintf(r->b->origin, sizeof(r->b->origin), "%s", origin);
	return read_claims(r) ||
	       wrong(r, AUDIT_FINDING_PARSE, "the manifest says what no program of this release says of such records");
}

static bool read_tree(const json_t *v, int64_t size, struct tree *ret)
{
	static const char *const names[] = { "size", "root", "frontier" };
	const json_t *frontier = json_object_get(v, "frontier"), *item;
	uint8_t root[TREE_HASH], want[TREE_HASH], peak[TREE_PEAKS_MAX][TREE_HASH];
	int64_t said = 0;
	size_t i;

	if (!only(v, names, NELEMS(names)) || !get_number(v, "size", &said) || said != size ||
	    !get_hash(json_object_get(v, "root"), want) ||
	    !json_is_array(frontier) || json_array_size(frontier) != tree_peaks((uint64_t)size))
		return false;
	json_array_foreach(frontier, i, item)
		if (!get_hash(item, peak[i]))
			return false;
	if (!tree_load(ret, size, peak, json_array_size(frontier) * TREE_HASH))
		return false;
	tree_root(ret, root);
	return memcmp(root, want, TREE_HASH) == 0;
}

static bool read_trees(struct reading *r)
{
	static const char *const names[] = { "start", "end", "growth" };
	const json_t *t = r->json[PART_TREE];

	return (only(t, names, NELEMS(names)) && read_tree(json_object_get(t, "start"), r->b->from, &r->tree) &&
		read_tree(json_object_get(t, "end"), r->b->to, &r->end)) ||
	       wrong(r, AUDIT_FINDING_TILE, "the hashes at the ends of the range contradict each other");
}

/* --- who signed */

static bool read_epoch(struct reading *r, const json_t *v)
{
	static const char *const names[] = { "n", "from", "pk", "cert" };
	const json_t *cert = json_object_get(v, "cert");
	uint8_t public[SIGN_PUBLIC_SIZE], sig[SIGN_SIZE];
	int64_t said = -1, from = 0;
	size_t len = 0;

	if (!only(v, names, NELEMS(names)) || !get_number(v, "from", &from) || !get_number(v, "n", &said) ||
	    (uint64_t)said != r->chain.n || !get_hash(json_object_get(v, "pk"), public))
		return false;
	if (!json_is_null(cert) &&
	    (!json_is_string(cert) || text_unbase64(json_string_value(cert), json_string_length(cert), sig, sizeof(sig),
						    &len) < 0 || len != sizeof(sig)))
		return false;
	return bundle_chain_add(&r->chain, public, json_is_null(cert) ? NULL : sig);
}

/* Each epoch's key is signed by the one before (AUDIT A-732). */
static bool read_epochs(struct reading *r)
{
	const json_t *all = r->json[PART_EPOCHS], *item;
	size_t i;

	if (!json_is_array(all))
		return wrong(r, AUDIT_FINDING_PARSE, "the epochs are no list");
	bundle_chain_begin(&r->chain, r->b->origin, r->with);
	json_array_foreach(all, i, item)
		if (!read_epoch(r, item))
			return wrong(r, AUDIT_FINDING_KEYCHAIN,
				     "an epoch does not follow from the one before, or is not as pinned");
	return true;
}

static bool read_note(struct reading *r, const json_t *v, struct noted *ret)
{
	static const char *const names[] = { "size", "epoch", "note" };
	const json_t *text = json_object_get(v, "note");
	struct checkpoint cp;
	struct note note;
	int64_t size = 0, epoch = 0;

	if (!only(v, names, NELEMS(names)) || !json_is_string(text) || !get_number(v, "size", &size) ||
	    !get_number(v, "epoch", &epoch) ||
	    note_parse(json_string_value(text), json_string_length(text), &note) < 0 ||
	    checkpoint_parse(note.text, note.text_len, &cp) < 0 || (int64_t)cp.size != size ||
		!succession_is(cp.origin, r->b->origin))
		return false;
	ret->size = cp.size;
	memcpy(ret->root, cp.root, TREE_HASH);
	if (!bundle_chain_signed(&r->chain, &note, epoch))
		(void)wrong(r, AUDIT_FINDING_CP_SIG, "a checkpoint is not signed by the key of its epoch");
	return true;
}

static bool read_notes(struct reading *r)
{
	const json_t *all = r->json[PART_NOTES], *item;
	size_t i;

	if (!json_is_array(all))
		return wrong(r, AUDIT_FINDING_PARSE, "the notes are no list");
	r->note = mem_calloc(json_array_size(all) + 1, sizeof(*r->note));
	json_array_foreach(all, i, item) {
		if (!read_note(r, item, &r->note[i]) || (i > 0 && r->note[i].size <= r->note[i - 1].size) ||
		    r->note[i].size <= (uint64_t)r->b->from)
			return wrong(r, AUDIT_FINDING_PARSE, "a note is malformed, of another log or out of order");
		r->nnote++;
	}
	return true;
}

/* --- records */

/* 1: a line without its end; 0: no more; ERR_LIMIT: longer than any can be. */
static int next_line(struct reading *r, uint64_t *left, struct str *line)
{
	str_reset(line);
	while (*left > 0) {
		int c = getc(r->f);

		if (c == EOF)
			return ERR_IO;
		--*left;
		if (c == '\n')
			return 1;
		if (line->len >= AUDIT_BUNDLE_LINE_MAX)
			return ERR_LIMIT;
		str_putc(line, (char)c);
	}
	return line->len > 0 ? ERR_LIMIT : 0;
}

static bool view_fits(const json_t *v, const struct audit_row *row)
{
	const json_t *view = json_object_get(v, "view");
	struct str text = STR_INIT;
	json_t *want = NULL;
	bool same;

	bundle_view(row, &text);
	same = view && jx_parse(text.p, text.len, &want, NULL) == 0 && jx_equal(view, want);
	json_decref(want);
	str_fini(&text);
	return same;
}

static void compare_notes(struct reading *r)
{
	uint8_t root[TREE_HASH];

	for (size_t i = 0; i < r->nnote; i++) {
		struct noted *n = &r->note[i];

		if (n->size != r->tree.size)
			continue;
		tree_root(&r->tree, root);
		n->seen = true;
		if (memcmp(root, n->root, TREE_HASH) != 0)
			tell_record(r, AUDIT_FINDING_ROOT, (int64_t)n->size - 1);
	}
}

static void check_row(struct reading *r, const json_t *v, const struct audit_row *row, const uint8_t leaf[TREE_HASH])
{
	static const char *const names[] = { "idx", "enc", "leaf", "bytes", "view" };
	const char *hex = json_string_value(json_object_get(v, "leaf"));
	int64_t want = (int64_t)r->tree.size, idx = row->v[COL_IDX].n, said = -1, enc = -1;
	char text[2 * TREE_HASH + 1];

	text_hex(leaf, TREE_HASH, text);
	if (idx != want || !text_eq(row->v[COL_LOG].p, row->v[COL_LOG].len, r->b->origin))
		tell_record(r, AUDIT_FINDING_GAP, want);
	if (!hex || strcmp(hex, text) != 0)
		tell_record(r, AUDIT_FINDING_LEAF, want);
	if (!only(v, names, NELEMS(names)) || !get_number(v, "idx", &said) || said != idx ||
	    !get_number(v, "enc", &enc) || enc != AUDIT_ENC || !view_fits(v, row))
		tell_record(r, AUDIT_FINDING_VIEW, want);
	if (r->sum->records == 0)
		r->begun_us = row->v[COL_TS].n;
	r->ended_us = row->v[COL_TS].n;
	if (r->sum->first_us == 0 || (uint64_t)row->v[COL_TS].n < r->sum->first_us)
		r->sum->first_us = (uint64_t)row->v[COL_TS].n;
	if ((uint64_t)row->v[COL_TS].n > r->sum->last_us)
		r->sum->last_us = (uint64_t)row->v[COL_TS].n;
}

static void check_line(struct reading *r, const struct str *line)
{
	int64_t idx = (int64_t)r->tree.size;
	uint8_t leaf[TREE_HASH], *bytes = NULL;
	struct audit_row row;
	json_t *v = NULL;
	const json_t *b64;
	size_t len = 0;

	memset(leaf, 0, sizeof(leaf));
	if (jx_parse(str_text(line), line->len, &v, NULL) == 0 && (b64 = json_object_get(v, "bytes")) &&
	    json_is_string(b64)) {
		bytes = mem_alloc(json_string_length(b64) + 1);
		if (text_unbase64(json_string_value(b64), json_string_length(b64), bytes, json_string_length(b64),
				  &len) < 0)
			len = 0;
		tree_leaf(bytes, len, leaf);
	}
	if (len > 0 && bundle_decode(bytes, len, &row))
		check_row(r, v, &row, leaf);
	else
		tell_record(r, AUDIT_FINDING_PARSE, idx);
	tree_append(&r->tree, leaf);
	compare_notes(r);
	r->sum->records++;
	free(bytes);
	json_decref(v);
}

static int check_lines(struct reading *r, struct err *err)
{
	uint64_t left = r->part[PART_RECORDS].size;
	struct str line = STR_INIT;
	struct digest *d = digest_new();
	int rc;

	if (fseeko(r->f, r->part[PART_RECORDS].at, SEEK_SET) != 0)
		rc = unreadable(err);
	else
		while ((rc = next_line(r, &left, &line)) == 1 && (int64_t)r->tree.size < r->b->to) {
			digest_put(d, str_text(&line), line.len);
			digest_put(d, "\n", 1);
			check_line(r, &line);
		}
	end_run(r);
	if (rc == ERR_LIMIT || rc == 1)
		(void)wrong(r, AUDIT_FINDING_PARSE, "more records than the manifest says, or a line without an end");
	(void)digest_fits(r, PART_RECORDS, &d);
	str_fini(&line);
	return rc == ERR_IO ? unreadable(err) : 0;
}

/* --- the end */

/* The note behind the range, by the proof of how the tree grew. */
static void check_growth(struct reading *r, const struct noted *n)
{
	static const char *const names[] = { "size", "proof" };
	const json_t *g = json_object_get(r->json[PART_TREE], "growth"), *proof = json_object_get(g, "proof"), *item;
	uint8_t hash[GROWTH_MAX][TREE_HASH], root[TREE_HASH];
	int64_t size = 0;
	size_t i, count = json_array_size(proof);
	bool good = only(g, names, NELEMS(names)) && json_is_array(proof) && count <= GROWTH_MAX &&
		get_number(g, "size", &size) &&
		(uint64_t)size == n->size;

	json_array_foreach(proof, i, item)
		good = good && get_hash(item, hash[i]);
	tree_root(&r->tree, root);
	if (!good || !tree_check_consistency(r->tree.size, n->size, root, n->root, (const uint8_t (*)[TREE_HASH])hash,
					     count))
		(void)wrong(r, AUDIT_FINDING_ROOT, "the records do not lead to the note behind them");
}

static bool is_time(const char *text, int64_t us)
{
	char want[TIME_SIZE];

	return strcmp(clock_format_utc((uint64_t)us, want, sizeof(want)), text) == 0;
}

/* What the manifest says of the records for people, now that they have been read. */
static void check_times(struct reading *r)
{
	if (!is_time(r->first, r->begun_us) || !is_time(r->last, r->ended_us))
		(void)wrong(r, AUDIT_FINDING_VIEW, "the manifest has other times of the first and last record than these");
}

static void check_end(struct reading *r)
{
	uint8_t root[TREE_HASH], want[TREE_HASH];
	bool covered = false, behind = false;

	if ((int64_t)r->tree.size != r->b->to) {
		tell(r, &(struct audit_finding){ .code = AUDIT_FINDING_GAP, .origin = r->b->origin,
			.from = (int64_t)r->tree.size, .to = r->b->to - 1, .detail = NULL });
		return;
	}
	tree_root(&r->tree, root);
	tree_root(&r->end, want);
	if (memcmp(root, want, TREE_HASH) != 0)
		(void)wrong(r, AUDIT_FINDING_ROOT, "the records do not give the root at the end of the range");
	for (size_t i = 0; i < r->nnote; i++) {
		if (r->note[i].size > (uint64_t)r->b->to) {
			check_growth(r, &r->note[i]);
			behind = true;
		}
		covered = covered || r->note[i].size >= (uint64_t)r->b->to;
	}
	if (!behind && json_object_get(r->json[PART_TREE], "growth"))
		(void)wrong(r, AUDIT_FINDING_PARSE, "a proof of growth without a note that it leads to");
	check_times(r);
	if (!covered)
		(void)wrong(r, AUDIT_FINDING_NOT_CHECKED, "no checkpoint covers the end of the range");
	if (covered && r->with && !r->chain.pinned)
		(void)wrong(r, AUDIT_FINDING_NOT_CHECKED,
			    "no key is pinned: the checkpoints are signed by keys of the bundle itself");
	r->b->peaks = tree_peaks(r->tree.size);
	memcpy(r->b->frontier, r->tree.peak, r->b->peaks * TREE_HASH);
	memcpy(r->b->root, root, sizeof(root));
}

static int read_all(struct reading *r, struct err *err)
{
	static const enum bundle_part first[] = { PART_MANIFEST, PART_TREE, PART_NOTES, PART_EPOCHS };
	bool ok = false;
	int rc = find_parts(r, &ok, err);

	for (size_t i = 0; i < NELEMS(first) && rc == 0 && ok; i++)
		rc = load_part(r, first[i], &ok, err);
	if (rc < 0 || !ok || !read_manifest(r) || !read_trees(r) || !read_epochs(r) || !read_notes(r))
		return rc;
	rc = check_lines(r, err);
	if (rc == 0)
		check_end(r);
	return rc;
}

static int hash_all(FILE *f, uint8_t ret[DIGEST_SIZE], struct err *err)
{
	struct digest *d = digest_new();
	uint8_t buf[65536];
	size_t n;

	rewind(f);
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0)
		digest_put(d, buf, n);
	digest_end(&d, ret);
	return ferror(f) ? unreadable(err) : 0;
}

int audit_bundle_verify(FILE *f, const struct audit_evidence *with, audit_found_fn *found, void *arg,
			struct audit_bundle *ret, struct audit_coverage *sum,
			struct err *err)
{
	struct reading r = { .f = f, .with = with, .found = found, .arg = arg, .sum = sum, .b = ret };
	int rc;

	*ret = (struct audit_bundle){ 0 };
	*sum = (struct audit_coverage){ .logs = 1 };
	rc = read_all(&r, err);
	for (unsigned i = 0; i < PART_COUNT; i++)
		json_decref(r.json[i]);
	free(r.note);
	bundle_chain_fini(&r.chain);
	return rc < 0 ? rc : hash_all(f, ret->sha256, err);
}

/* --- beside its store */

int audit_bundle_join(struct db *db, const struct audit_bundle *b, audit_found_fn *found, void *arg,
		      struct audit_coverage *sum, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_BUNDLE_FIND_LOG);
	struct audit_finding f = { .code = AUDIT_FINDING_NOT_CHECKED, .origin = b->origin, .from = b->from,
		.to = b->to - 1 };
	struct audit_cut cut = { 0 };
	int64_t log = 0, size = 0;
	int rc;

	db_bind_textz(st, 1, b->origin);
	rc = db_step(st, err);
	if (rc == 1) {
		log = db_col_i64(st, 0);
		size = db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		f.detail = "the store has no log of the bundle's origin";
	} else if (b->to % AUDIT_CUT_UNIT != 0 || b->to > size) {
		f.detail = "the bundle does not end with a tile of the log";
	} else {
		rc = audit_cut_read(db, log, b->to, &cut, err);
		if (rc < 0 && rc != ERR_CORRUPT)
			return rc;
		if (rc == 0 && memcmp(cut.root, b->root, TREE_HASH) == 0)
			return 0;
		f.code = AUDIT_FINDING_ROOT;
		f.detail = "the bundle's records are not those that the log had";
	}
	if (audit_finding_bad(f.code))
		sum->bad++;
	else
		sum->gaps++;
	found(arg, &f);
	return 0;
}
