/* Verifying a sealed file alone (bundle/segment.h): that its records are whole, in order and lead from the tree before
 * them to one that a note covers, whose key leads back to a pinned one; that what stands beside them for queries is
 * what they come to; that what is kept beside them can be theirs.  Any thread. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys/commit.h"
#include "base/mem.h"
#include "bundle/segment.h"
#include "segment/segment.h"
#include "tlog/signer.h"

#include "bundle_int.h"

struct checking {
	struct segment *s;
	const struct segment_info *info;
	const struct audit_evidence *with;      /* or NULL */
	audit_found_fn *found;
	void *arg;
	struct audit_coverage *sum;
	struct bundle_chain chain;
	struct bundle_chapters *chapters;       /* or NULL */
	struct block_reader *reader;    /* of the block at hand */
	struct audit_row row;           /* of the record at hand; of the block's columns as block_row_over() leaves them */
	struct audit_bytes bytes;       /* that its leaf is the hash of */
	enum audit_column dict[COL_COUNT];      /* columns of texts */
	size_t ndict;
	struct tree tree;               /* of the records so far */
	int64_t next, texts;            /* the index that comes; ids of texts that records have so far */
	bool broken, misplaced;         /* a record is missing or unreadable, so that the tree is not theirs; ids of texts
					 * out of order were told */
	bool keyless;                   /* no more is said of what is kept: its table cannot be read */
	struct audit_finding run;       /* of records, not told yet */
	bool running;
};

/* --- findings */

static void tell(struct checking *c, const struct audit_finding *f)
{
	if (audit_finding_bad(f->code) && !f->gap)
		c->sum->bad++;
	else
		c->sum->gaps++;
	c->found(c->arg, f);
}

static void end_run(struct checking *c)
{
	if (c->running)
		tell(c, &c->run);
	c->running = false;
}

static void tell_record(struct checking *c, enum audit_finding_code code, int64_t idx)
{
	if (c->running && c->run.code == code && c->run.to + 1 == idx) {
		c->run.to = idx;
		return;
	}
	end_run(c);
	c->run = (struct audit_finding){ .code = code, .origin = c->info->origin, .from = idx, .to = idx };
	c->running = true;
}

static void tell_range(struct checking *c, enum audit_finding_code code, int64_t from, int64_t to, const char *detail)
{
	end_run(c);
	tell(c, &(struct audit_finding){ .code = code, .origin = c->info->origin, .from = from, .to = to - 1,
		.detail = detail });
}

static void tell_file(struct checking *c, enum audit_finding_code code, const char *detail)
{
	end_run(c);
	tell(c, &(struct audit_finding){ .code = code, .origin = c->info ? c->info->origin : NULL, .from = -1, .to = -1,
		.detail = detail });
}

/* What cannot be read of a file that says it is one is a finding; a failure of the disk is an error. */
static int damaged(struct checking *c, int rc, const struct err *why)
{
	if (rc != ERR_CORRUPT)
		return rc;
	tell_file(c, AUDIT_FINDING_SEGMENT, why->msg);
	return 0;
}

/* --- who signed */

struct chained { struct checking *c; bool good; };

static int add_epoch(void *arg, int64_t n, const uint8_t public[SIGN_PUBLIC_SIZE], const uint8_t *cert, struct err *err)
{
	struct chained *all = arg;

	(void)err;
	all->good = all->good && n == (int64_t)all->c->chain.n && n <= all->c->info->epoch &&
		bundle_chain_add(&all->c->chain, public, cert);
	return 0;
}

static int check_epochs(struct checking *c, struct err *err)
{
	struct chained all = { c, true };
	int rc;

	bundle_chain_begin(&c->chain, c->info->origin, c->with);
	rc = segment_epochs(c->s, add_epoch, &all, err);
	if (rc == 0 && !all.good)
		tell_file(c, AUDIT_FINDING_KEYCHAIN, NULL);
	return rc < 0 ? damaged(c, rc, err) : 0;
}

/* The note, and that the tree behind the records grew into its. */
static void check_note(struct checking *c)
{
	const struct segment_info *i = c->info;
	uint8_t root[TREE_HASH];
	struct checkpoint cp;
	struct note note;

	if (note_parse(i->note, i->note_len, &note) < 0 || checkpoint_parse(note.text, note.text_len, &cp) < 0 ||
	    !succession_is(cp.origin, i->origin) || cp.size < (uint64_t)i->to) {
		tell_file(c, AUDIT_FINDING_PARSE, "the note is malformed, of another log, or does not cover the records");
		return;
	}
	if (!bundle_chain_signed(&c->chain, &note, i->epoch))
		tell_file(c, AUDIT_FINDING_CP_SIG, "the checkpoint is not signed by the key of its epoch");
	tree_root(&i->after, root);
	if (!tree_check_consistency((uint64_t)i->to, cp.size, root, cp.root, (const uint8_t (*)[TREE_HASH])i->growth,
				    i->ngrowth))
		tell_file(c, AUDIT_FINDING_ROOT, "the tree behind the records does not lead to the note");
	if (c->with && !c->chain.pinned)
		tell_file(c, AUDIT_FINDING_NOT_CHECKED, "no key is pinned: the checkpoint is signed by keys of the file itself");
	c->sum->notes = 1;
	c->sum->epochs = c->chain.n;
	c->sum->pinned = c->chain.pinned;
}

/* --- what is kept beside a record */

/* What the record's own columns say must be so (AUDIT A-517); whether the values are those that it commits to is seen
 * by who has the keys. */
static bool may_be_kept(const struct audit_row *row, const struct block_payload *kept)
{
	const struct audit_value *sh = &row->v[COL_SH], *n_sto = &row->v[COL_N_STO];
	const bool stored = n_sto->present && n_sto->n > 0;
	uint8_t check[16];

	if (kept->salt.len != AUDIT_SALT_SIZE)
		return false;
	if (sh->present) {
		audit_salt_check(kept->salt.p, check);
		if (memcmp(check, sh->p, sizeof(check)) != 0)
			return false;
	}
	if (stored)
		return kept->nonce.len == AEAD_NONCE && kept->ct.len >= AEAD_TAG;
	return !kept->ct.p && sh->present;
}

static int check_kept(struct checking *c, const struct audit_row *row, int64_t idx, struct err *err)
{
	struct block_payload kept;
	int rc = c->keyless ? 0 : segment_kept(c->s, idx, &kept, err);

	if (rc < 0) {
		c->keyless = true;
		return damaged(c, rc, err);
	}
	if (rc == 0)
		return 0;
	if (!row->v[COL_CM].present)
		tell_record(c, AUDIT_FINDING_PAYLOAD_EXTRA, idx);
	else if (!may_be_kept(row, &kept))
		tell_record(c, AUDIT_FINDING_PAYLOAD, idx);
	else if (kept.ct.p)
		c->sum->shut++;
	return 0;
}

/* --- records */

/* Ids of texts ascend from 1 on in the order in which records use them: so none is there twice, or for nothing. */
static void check_texts(struct checking *c, const struct audit_row *row)
{
	for (size_t i = 0; i < c->ndict; i++) {
		const struct audit_value *v = &row->v[c->dict[i]];

		if (!v->present)
			continue;
		if (v->n == c->texts + 1) {
			c->texts++;
		} else if (v->n > c->texts && !c->misplaced) {
			tell_file(c, AUDIT_FINDING_DICT, "ids of texts do not ascend in the order in which records use them");
			c->misplaced = true;
		}
	}
}

static void note_time(struct checking *c, uint64_t ts)
{
	if (c->sum->first_us == 0 || ts < c->sum->first_us)
		c->sum->first_us = ts;
	if (ts > c->sum->last_us)
		c->sum->last_us = ts;
}

static int check_record(struct checking *c, int64_t i, struct err *err)
{
	const int64_t idx = block_first(c->reader) + i;
	uint8_t leaf[TREE_HASH];
	int rc = block_row_over(c->reader, i, &c->row, err);

	if (rc == ERR_CORRUPT) {
		tell_record(c, AUDIT_FINDING_DICT, idx);
		c->broken = true;
		return 0;
	}
	if (rc < 0)
		return rc;
	audit_row_encode(&c->row, &c->bytes);
	tree_leaf(c->bytes.p, c->bytes.len, leaf);
	tree_append(&c->tree, leaf);
	note_time(c, (uint64_t)c->row.v[COL_TS].n);
	check_texts(c, &c->row);
	c->sum->records++;
	return check_kept(c, &c->row, idx, err);
}

/* Whether the block is where the next one has to be. */
static bool check_place(struct checking *c, const struct block *b)
{
	const int64_t to = c->info->to;

	if (b->cnt < 1 || b->cnt > BLOCK_RECORDS_MAX || b->first < c->next || b->first >= to || b->cnt > to - b->first) {
		tell_file(c, AUDIT_FINDING_GAP, "a block is not where its records have to be");
		c->broken = true;
		return false;
	}
	if (b->first > c->next) {
		tell_range(c, AUDIT_FINDING_GAP, c->next, b->first, "a block is missing");
		c->broken = true;
	}
	c->next = b->first + b->cnt;
	return true;
}

/* What it keeps of the file's texts goes with them. */
static void make_reader(struct checking *c)
{
	const struct block_texts texts = { .log = 1, .origin = c->info->origin, .fn = segment_text, .arg = c->s };

	if (segment_is_full(c->s))
		block_reader_free(&c->reader);
	segment_trim(c->s);
	if (!c->reader)
		c->reader = block_reader_new(&texts);
	memset(&c->row, 0, sizeof(c->row));
}

static int check_block(void *arg, const struct block *b, struct err *err)
{
	struct checking *c = arg;
	struct err why = { 0 };
	int rc = 0;

	if (!check_place(c, b))
		return 0;
	make_reader(c);
	if (b->first / BLOCK_RECORDS_MAX != (b->first + b->cnt - 1) / BLOCK_RECORDS_MAX)
		tell_range(c, AUDIT_FINDING_PARSE, b->first, c->next, "the block goes over a multiple of 4096");
	if (block_open(c->reader, b, BLOCK_ALL_COLUMNS, &why) < 0) {
		tell_range(c, why.code == ERR_INVALID ? AUDIT_FINDING_NOT_CHECKED : AUDIT_FINDING_PARSE, b->first, c->next, why.msg);
		c->broken = true;
	} else {
		if (block_derived(c->reader, &why) < 0)
			tell_range(c, AUDIT_FINDING_INDEX, b->first, c->next, why.msg);
		for (int64_t i = 0; rc == 0 && i < b->cnt; i++)
			rc = check_record(c, i, err);
		if (rc == 0 && c->chapters)
			bundle_chapters_add(c->chapters, c->s, c->reader, b);
	}
	if (c->with && c->with->progress)
		c->with->progress(c->arg, (uint64_t)(c->next - c->info->from), (uint64_t)(c->info->to - c->info->from));
	return rc;
}

/* --- all of it */

static void check_end(struct checking *c, int64_t texts)
{
	uint8_t root[TREE_HASH], want[TREE_HASH];

	end_run(c);
	if (c->next < c->info->to) {
		tell_range(c, AUDIT_FINDING_GAP, c->next, c->info->to, "a block is missing");
		c->broken = true;
	}
	tree_root(&c->tree, root);
	tree_root(&c->info->after, want);
	if (!c->broken && memcmp(root, want, TREE_HASH) != 0)
		tell_range(c, AUDIT_FINDING_ROOT, c->info->from, c->info->to, "the records do not give the root behind them");
	if (!c->broken && !c->misplaced && texts != c->texts)
		tell_file(c, AUDIT_FINDING_DICT, "there are texts that no record uses");
}

/* Groups behind the last record. */
static int check_last_kept(struct checking *c, struct err *err)
{
	struct block_payload kept;
	int rc = c->keyless || c->broken ? 0 : segment_kept(c->s, INT64_MAX, &kept, err);

	return rc < 0 ? damaged(c, rc, err) : 0;
}

static int check_all(struct checking *c, struct audit_segment *ret, struct err *err)
{
	struct err why = { 0 };
	int64_t texts = 0;
	int rc = segment_sound(c->s, &why);

	rc = rc < 0 ? damaged(c, rc, &why) : 0;
	if (rc == 0)
		rc = check_epochs(c, err);
	if (rc < 0)
		return rc;
	check_note(c);
	rc = segment_digest(c->s, ret->digest, &texts, err);
	if (rc == 0)
		rc = segment_blocks(c->s, check_block, c, err);
	block_reader_free(&c->reader);
	if (rc < 0)
		return damaged(c, rc, err);
	check_end(c, texts);
	return check_last_kept(c, err);
}

int bundle_segment_verify(const char *path, const struct audit_evidence *with, struct bundle_chapters *chapters,
			  audit_found_fn *found, void *arg, struct audit_segment *ret, struct audit_coverage *sum,
			  struct err *err)
{
	struct checking c = { .with = with, .chapters = chapters, .found = found, .arg = arg, .sum = sum };
	int rc;

	*ret = (struct audit_segment){ 0 };
	*sum = (struct audit_coverage){ .logs = 1 };
	rc = segment_open(path, &c.s, err);
	if (rc < 0)
		return damaged(&c, rc, err);
	c.info = segment_info(c.s);
	for (unsigned col = 0; col < COL_COUNT; col++)
		if (audit_columns[col].form == FORM_DICT)
			c.dict[c.ndict++] = (enum audit_column)col;
	c.tree = c.info->before;
	c.next = c.info->from;
	(void)snprintf(ret->origin, sizeof(ret->origin), "%s", c.info->origin);
	ret->from = c.info->from;
	ret->to = c.info->to;
	tree_root(&c.info->before, ret->before);
	tree_root(&c.info->after, ret->root);
	rc = check_all(&c, ret, err);
	ret->first_us = sum->first_us;
	ret->last_us = sum->last_us;
	ret->whole = rc == 0 && sum->bad == 0;
	bundle_chain_fini(&c.chain);
	free(c.bytes.p);
	segment_close(&c.s);
	return rc;
}

int audit_segment_verify(const char *path, const struct audit_evidence *with, audit_found_fn *found, void *arg,
			 struct audit_segment *ret, struct audit_coverage *sum, struct err *err)
{
	return bundle_segment_verify(path, with, NULL, found, arg, ret, sum, err);
}

/* --- files beside each other */

static int by_place(const void *a, const void *b)
{
	const struct audit_segment *x = a, *y = b;
	const int order = strcmp(x->origin, y->origin);

	if (order != 0)
		return order;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

static void join(const struct audit_segment *next, int64_t end, const uint8_t root[TREE_HASH], struct checking *c)
{
	struct audit_finding f = { .origin = next->origin, .from = next->from };

	if (next->from > end) {
		f = (struct audit_finding){ .code = AUDIT_FINDING_SEGMENT_MISSING, .origin = next->origin, .from = end,
			.to = next->from - 1, .gap = true, .detail = "no file that is whole has these records" };
	} else if (next->from < end) {
		f.code = AUDIT_FINDING_SEGMENT;
		f.to = (next->to < end ? next->to : end) - 1;
		f.detail = "two files have these records";
	} else if (memcmp(next->before, root, TREE_HASH) != 0) {
		f.code = AUDIT_FINDING_ROOT;
		f.to = next->from;
		f.detail = "the file does not begin with the tree that the one before it ends with";
	} else {
		return;
	}
	tell(c, &f);
}

void audit_segment_join(struct audit_segment *v, size_t n, audit_found_fn *found, void *arg, struct audit_coverage *sum)
{
	struct checking c = { .found = found, .arg = arg, .sum = sum };
	const struct audit_segment *last = NULL;        /* of the log, the one that reaches furthest */

	if (n > 0)
		qsort(v, n, sizeof(*v), by_place);
	sum->logs = 0;
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || strcmp(v[i - 1].origin, v[i].origin) != 0) {
			sum->logs++;
			last = NULL;
		}
		if (v[i].whole && last)
			join(&v[i], last->to, last->root, &c);
		if (v[i].whole && (!last || v[i].to > last->to))
			last = &v[i];
	}
}
