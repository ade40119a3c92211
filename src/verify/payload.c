/* What records commit to (AUDIT 8, step 7): what is said to be kept is there and opens its commitment, a salt
 * alone fits its check, what is missing was erased, what was erased is gone, pseudonyms are those of alias.new.
 * Without keys: what can be seen without opening anything, and how much was not opened.  Records that matter are
 * noted as they pass, and read again when the log has been read. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/payload.h"
#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "block/block.h"
#include "db/db.h"
#include "forms/forms.h"
#include "keys/keys.h"
#include "units/units.h"

#include "verify_int.h"

enum { NAMES_SHOWN = 5 };               /* of principals; the others are counted */
enum { ERASED_MAX = 1 << 16 };          /* pseudonyms of a log; with more, any may have lost its name */
enum { BLOCKS_MAX = 1 << 24 };          /* 2 MiB of bits; a log that seems longer is read as a whole */

/* Blocks of VERIFY_BLOCK records of a log, a bit each; all: it is not known which. */
enum { VERIFY_BLOCK = 1024 };
struct verify_blocks { uint8_t *bits; size_t n; bool all; };
/* How many of each were seen whose values are encrypted. */
struct verify_counts { uint16_t *of; size_t n; };

/* An erase: of records from <= idx < to, or of what is under these keys (8 bytes each). */
struct tomb { int64_t idx, from, to, until; uint8_t *keys; size_t nkeys; };     /* until: its end, or INT64_MAX */

struct verify_payload {
	struct tomb *tombs; size_t ntombs;
	struct verify_blocks look;      /* with records that somebody has to look at */
	struct verify_counts closed;
	struct map *gone;               /* pseudonyms whose names were erased */
	bool many;                      /* more than ERASED_MAX */
	int64_t from;                   /* records before were looked at by an earlier verification */
	/* Of records that were looked at: what was not opened for lack of keys; those to which there was no key. */
	uint64_t shut, missing;
};

/* Which rows of pay were there, by the ids of their records. */
struct verify_kept { struct map *blocks; int64_t from, to; };

/* --- tombstones */

/* A record of an erase. */
static void note_tomb(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct audit_value *ext = &row->v[COL_EXT];
	struct tomb *t;
	size_t len = 0;
	const uint8_t *p;

	if (!ext->present)
		return;
	c->payload->tombs = mem_realloc(c->payload->tombs, (c->payload->ntombs + 1) * sizeof(*c->payload->tombs));
	t = &c->payload->tombs[c->payload->ntombs++];
	*t = (struct tomb){ .idx = idx, .until = INT64_MAX };
	p = audit_field_find(ext->p, ext->len, AUDIT_TAG_RANGE, &len);
	if (p && len == 16) {
		t->from = (int64_t)(audit_get_be(p, 8) & INT64_MAX);
		t->to = (int64_t)(audit_get_be(p + 8, 8) & INT64_MAX);
	}
	p = audit_field_find(ext->p, ext->len, AUDIT_TAG_KEYS, &len);
	if (p && len % 8 == 0) {
		t->keys = mem_dup(p, len);
		t->nkeys = len / 8;
	}
}

static void note_done(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct audit_value *ext = &row->v[COL_EXT];
	size_t len = 0;
	const uint8_t *cause = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_CAUSE, &len) : NULL;

	for (size_t i = 0; cause && len == 12 && i < c->payload->ntombs; i++)
		if (c->payload->tombs[i].idx == (int64_t)(audit_get_be(cause + 4, 8) & INT64_MAX))
			c->payload->tombs[i].until = idx;
}

static bool names_key(const struct tomb *t, int64_t key)
{
	for (size_t i = 0; i < t->nkeys; i++)
		if ((int64_t)(audit_get_be(t->keys + 8 * i, 8) & INT64_MAX) == key)
			return true;
	return false;
}

/* Was this record's payload erased?  done: so that nothing of it may be left.  Calls go on between the record of
 * an erase and its end: what they have used of keys that it destroys is lost with them. */
static bool is_erased(const struct verify_log *c, int64_t idx, int64_t key, bool done)
{
	for (size_t i = 0; i < c->payload->ntombs; i++) {
		const struct tomb *t = &c->payload->tombs[i];
		bool all = t->from == 0 && t->to == t->idx && t->nkeys == 0;
		int64_t to = all && !done ? t->until : t->to < t->idx ? t->to : t->idx;

		if (done && t->until == INT64_MAX)
			continue;
		if ((idx >= t->from && idx < to) || (idx < t->until && names_key(t, key)))
			return true;
	}
	return false;
}

/* --- payloads */

/* A record with what there is of it; columns of verify_list_payloads. */
struct seen {
	int64_t idx, kind, n_sto, key;
	struct audit_cm cm[AUDIT_COMMITS_MAX];
	size_t ncm;
	bool has_cm, has_row;
	const uint8_t *sh, *salt, *nonce, *ct;
	size_t ct_len;
	struct audit_at at;
};

static const uint8_t *bytes(struct db_stmt *st, unsigned col, size_t want)
{
	size_t len;
	const uint8_t *p = db_col_blob(st, col, &len);

	return db_col_type(st, col) == DB_BLOB && len == want ? p : NULL;
}

static bool see(const struct verify_log *c, struct db_stmt *st, struct seen *s)
{
	size_t len;
	const uint8_t *cm = db_col_blob(st, 2, &len);

	*s = (struct seen){ .idx = db_col_i64(st, 0), .kind = db_col_i64(st, 1), .n_sto = db_col_i64(st, 4),
			    .key = db_col_i64(st, 5), .has_cm = db_col_type(st, 2) != DB_NULL,
			    .has_row = db_col_type(st, 6) != DB_NULL, .sh = bytes(st, 3, 16), .salt = bytes(st, 7, AUDIT_SALT_SIZE),
			    .nonce = bytes(st, 8, AEAD_NONCE) };
	s->ct = db_col_type(st, 9) == DB_BLOB ? db_col_blob(st, 9, &s->ct_len) : NULL;
	s->at = (struct audit_at){ c->head->origin, strlen(c->head->origin), (uint64_t)s->idx };
	return !s->has_cm || audit_cm_read(cm, len, s->cm, &s->ncm);
}

/* What the record's own columns say must be there; NULL or the code. */
static int look_without_keys(const struct seen *s)
{
	uint8_t check[16];

	if (!s->salt)
		return AUDIT_FINDING_PAYLOAD;
	if (s->sh) {                                    /* AUDIT A-517 */
		audit_salt_check(s->salt, check);
		if (memcmp(check, s->sh, sizeof(check)) != 0)
			return AUDIT_FINDING_PAYLOAD;
	}
	if (s->n_sto > 0 && (!s->nonce || !s->ct || s->ct_len < AEAD_TAG))
		return AUDIT_FINDING_PAYLOAD_MISSING;
	if (s->n_sto == 0 && (s->ct || !s->sh))
		return AUDIT_FINDING_PAYLOAD;
	return -1;
}

static const struct audit_cm *cm_of(const struct seen *s, unsigned ctag)
{
	for (size_t i = 0; i < s->ncm; i++)
		if (s->cm[i].ctag == ctag)
			return &s->cm[i];
	return NULL;
}

static bool opens(const struct seen *s, const uint8_t dek[32], const struct audit_kept *kept)
{
	const struct audit_cm *cm = cm_of(s, kept->ctag);
	uint8_t opening[32], commitment[32];

	if (!cm)
		return false;
	audit_opening(dek, s->salt, &s->at, kept->ctag, opening);
	audit_commitment(opening, kept->ctag, kept->p, kept->len, commitment);
	return memcmp(commitment, cm->commitment, sizeof(commitment)) == 0;
}

uint8_t verify_payload_look(void *verify, const struct audit_row *row, const struct block_payload *kept)
{
	const bool keys = ((const struct verify *)verify)->with->keys != NULL;
	const struct audit_value *cm = &row->v[COL_CM], *sh = &row->v[COL_SH];
	struct seen s = { .kind = verify_kind(row), .n_sto = row->v[COL_N_STO].present ? row->v[COL_N_STO].n : 0,
			  .sh = sh->present ? sh->p : NULL };

	if (s.kind == AUDIT_ALIAS_NEW || !cm->present || !kept)
		return s.kind == AUDIT_ALIAS_NEW || cm->present || kept ? UNITS_KEPT_LOOK : UNITS_KEPT_NOTHING;
	s.salt = kept->salt.len == AUDIT_SALT_SIZE ? kept->salt.p : NULL;
	s.nonce = kept->nonce.len == AEAD_NONCE ? kept->nonce.p : NULL;
	s.ct = kept->ct.p;
	s.ct_len = kept->ct.len;
	if (!audit_cm_read(cm->p, cm->len, s.cm, &s.ncm) || look_without_keys(&s) >= 0)
		return UNITS_KEPT_LOOK;
	return s.n_sto == 0 ? UNITS_KEPT_GOOD : keys ? UNITS_KEPT_LOOK : UNITS_KEPT_SHUT;
}

/* Every kept value opens its commitment; they are as many bytes as the record says, and all when it has no salt
 * check. */
static bool look_with_key(const struct seen *s, const struct keys_dek *dek)
{
	struct audit_kept kept[AUDIT_COMMITS_MAX];
	size_t n = 0, total = 0, len = s->ct_len - AEAD_TAG;
	uint8_t *values = mem_alloc(len + 1);
	bool good = audit_payload_open(dek->ekey, s->key, s->salt, &s->at, s->nonce, s->ct, s->ct_len, values) == 0 &&
		    audit_kept_read(values, len, kept, &n);

	for (size_t i = 0; i < n && good; i++) {
		good = opens(s, dek->key, &kept[i]);
		total += kept[i].len;
	}
	free(values);
	return good && total == (size_t)s->n_sto && (s->sh || n == s->ncm);
}

static void check_payload(struct verify_log *c, const struct seen *s)
{
	const struct keys_dek *dek = NULL;
	struct err why;
	int code = s->has_row ? look_without_keys(s) : -1;

	if (!s->has_row) {
		if (!is_erased(c, s->idx, s->key, false))
			verify_tell_record(c, AUDIT_FINDING_PAYLOAD_MISSING, s->idx, s->idx);
		return;
	}
	if (is_erased(c, s->idx, s->key, true)) {
		verify_tell_record(c, AUDIT_FINDING_ERASED_BUT_PRESENT, s->idx, s->idx);
		return;
	}
	if (code < 0 && s->n_sto > 0 && !c->v->with->keys) {
		c->payload->shut++;
	} else if (code < 0 && s->n_sto > 0) {
		if (keys_find(c->v->with->keys, c->head->tenant_id, s->key, &dek, &why) < 0)
			code = is_erased(c, s->idx, s->key, false) ? -1 : AUDIT_FINDING_KEY_MISSING;
		else if (!look_with_key(s, dek))
			code = AUDIT_FINDING_PAYLOAD;
	}
	c->payload->missing += code == AUDIT_FINDING_KEY_MISSING;
	if (code >= 0)
		verify_tell_record(c, (enum audit_finding_code)code, s->idx, s->idx);
}

/* --- pseudonyms: a record alias.new has its row, unless that was erased; a row has its record */

static void note_erased(struct verify_payload *p, const char *pseudonym)
{
	if (!p->gone)
		p->gone = map_new();
	if (map_count(p->gone) < ERASED_MAX)
		(void)map_set_z(p->gone, pseudonym, p);
	else
		p->many = true;
}

static int check_named(struct verify_log *c, const struct seen *s, const char *name, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_ALIAS_GET);
	int rc;

	db_bind_textz(st, 1, name);
	rc = db_step(st, err);
	if (rc >= 0 && (rc == 0 || db_col_i64(st, 0) != c->head->id || db_col_i64(st, 5) != s->idx)) {
		if (is_erased(c, s->idx, s->key, false))
			note_erased(c->payload, name);
		else
			verify_tell_record(c, AUDIT_FINDING_ALIAS, s->idx, s->idx);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* A row of verify_list_aliases: alias, its record, the name that the registry has for a person. */
enum { A_ID, A_NAME, A_KIND, A_IDX, A_KEY, A_NONCE, A_CT, A_RECORD_KIND, A_CM, A_RECORD_KEY, A_OBJ, A_SALT, A_PERSON };

static bool same_text(struct db_stmt *st, unsigned a, unsigned b)
{
	size_t na, nb;
	const char *pa = db_col_text(st, a, &na), *pb = db_col_text(st, b, &nb);

	return na == nb && memcmp(pa, pb, na) == 0;
}

static bool alias_opens(const struct verify_log *c, struct db_stmt *st, const struct audit_cm *cm,
			const struct keys_dek *dek)
{
	const struct audit_at at = { c->head->origin, strlen(c->head->origin), (uint64_t)db_col_i64(st, A_IDX) };
	const uint8_t *nonce = bytes(st, A_NONCE, AEAD_NONCE), *salt = bytes(st, A_SALT, AUDIT_SALT_SIZE);
	uint8_t value[AUDIT_ALIAS_VALUE_MAX + 1], opening[32], commitment[32];
	size_t len, name_len;
	const uint8_t *ct = db_col_blob(st, A_CT, &len);
	const char *name;

	if (!nonce || !salt || len < AEAD_TAG || len - AEAD_TAG > AUDIT_ALIAS_VALUE_MAX ||
	    audit_pseudonym_open(dek->ekey, dek->id, (int)db_col_i64(st, A_KIND), c->head->origin,
				 db_col_text(st, A_NAME, NULL),
			     nonce, ct, len, value) < 0)
		return false;
	audit_opening(dek->key, salt, &at, cm->ctag, opening);
	audit_commitment(opening, cm->ctag, value, len - AEAD_TAG, commitment);
	if (memcmp(commitment, cm->commitment, sizeof(commitment)) != 0)
		return false;
	if (db_col_type(st, A_PERSON) == DB_NULL)
		return true;
	name = db_col_text(st, A_PERSON, &name_len);
	return name_len == len - AEAD_TAG && memcmp(name, value, name_len) == 0;
}

/* A name of a principal that is what the store says, as far as can be seen. */
static void note_name(struct verify_log *c, const char *name)
{
	struct audit_coverage *sum = c->v->sum;
	const char *tenant = strstr(c->head->origin, "/t/");
	size_t used = strlen(sum->named), room = sizeof(sum->named) - used;

	if (sum->names++ < NAMES_SHOWN)
		(void)snprintf(sum->named + used, room, "%s%s/%s", used ? ", " : "", tenant ? tenant + 3 : "", name); /* cut */
	else if (sum->names == NAMES_SHOWN + 1)
		(void)snprintf(sum->named + used, room, ", ...");
}

/* Its name was erased, or the record of it pruned. */
static bool is_nameless(const struct verify_log *c, const char *pseudonym)
{
	return c->head->min_idx > 0 || c->payload->many || (c->payload->gone && map_get_z(c->payload->gone, pseudonym));
}

/* Principals without a pseudonym that is on record.  Each tenant begins with one, of this name, whom no record need
 * have named; the record that made any other one named him. */
static int check_unnamed(struct verify_log *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_LIST_UNNAMED);
	int rc;

	db_bind_i64(st, 1, c->head->tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		note_name(c, db_col_text(st, 0, NULL));
		if (strcmp(db_col_text(st, 0, NULL), "default") != 0 && !is_nameless(c, db_col_text(st, 1, NULL)))
			verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin,
					  "a principal whose name no record has said");
	}
	db_stmt_put(&st);
	return rc;
}

static bool alias_is_vouched(struct verify_log *c, struct db_stmt *st)
{
	struct audit_cm cm[AUDIT_COMMITS_MAX];
	const struct keys_dek *dek = NULL;
	struct err why;
	size_t len, n = 0;
	const uint8_t *p = db_col_blob(st, A_CM, &len);

	if (db_col_i64(st, A_IDX) < c->head->min_idx) { /* its record was pruned */
		if (db_col_type(st, A_PERSON) != DB_NULL)
			note_name(c, db_col_text(st, A_PERSON, NULL));
		return true;
	}
	if (db_col_i64(st, A_RECORD_KIND) != AUDIT_ALIAS_NEW || !same_text(st, A_NAME, A_OBJ) ||
	    db_col_i64(st, A_KEY) != db_col_i64(st, A_RECORD_KEY) || !audit_cm_read(p, len, cm, &n) || n != 1 ||
	    cm[0].ctag != audit_pseudonym_ctag(db_col_i64(st, A_KIND)))
		return false;
	if (!c->v->with->keys || keys_find(c->v->with->keys, c->head->tenant_id, db_col_i64(st, A_KEY), &dek, &why) < 0) {
		if (db_col_type(st, A_PERSON) != DB_NULL)
			note_name(c, db_col_text(st, A_PERSON, NULL));
		if (!c->v->with->keys)
			c->v->sum->shut++;
		else if (!is_erased(c, db_col_i64(st, A_IDX), db_col_i64(st, A_KEY), false))
			verify_tell_record(c, AUDIT_FINDING_KEY_MISSING, db_col_i64(st, A_IDX), db_col_i64(st, A_IDX));
		return true;
	}
	return alias_opens(c, st, &cm[0], dek);
}

static int check_aliases(struct verify_log *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_LIST_ALIASES);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	while ((rc = db_step(st, err)) == 1)
		if (!alias_is_vouched(c, st))
			verify_tell_store(c->v, AUDIT_FINDING_ALIAS, c->head->origin, db_col_text(st, A_NAME, NULL));
	db_stmt_put(&st);
	return rc < 0 ? rc : check_unnamed(c, err);
}

/* --- the walk */

static int check_seen(struct verify_log *c, struct db_stmt *st, struct err *err)
{
	struct seen s;

	if (!see(c, st, &s)) {
		verify_tell_record(c, AUDIT_FINDING_PARSE, s.idx, s.idx);
		return 0;
	}
	if (!s.has_cm && s.has_row)
		verify_tell_record(c, AUDIT_FINDING_PAYLOAD_EXTRA, s.idx, s.idx);
	else if (s.has_cm)
		check_payload(c, &s);
	return s.kind == AUDIT_ALIAS_NEW ? check_named(c, &s, db_col_text(st, 10, NULL), err) : 0;
}

/* A page at a time, so that no read transaction lasts long (AUDIT A-804). */
static int check_page(struct verify_log *c, int64_t *from, int64_t to, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_LIST_PAYLOADS);
	int rows = 0, rc;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, *from);
	db_bind_i64(st, 3, to);
	db_bind_i64(st, 4, VERIFY_BLOCK);
	while ((rc = db_step(st, err)) == 1) {
		rows++;
		*from = db_col_i64(st, 0) + 1;
		rc = check_seen(c, st, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : rows == VERIFY_BLOCK;
}

static int check_range(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	int rc;

	do {
		rc = check_page(c, &from, to, err);
	} while (rc == 1);
	return rc;
}

static void mark(struct verify_blocks *b, int64_t idx)
{
	size_t block = (size_t)(idx / VERIFY_BLOCK);

	if (idx < 0 || idx / VERIFY_BLOCK >= BLOCKS_MAX) {
		b->all = true;
		return;
	}
	if (block / 8 >= b->n) {
		size_t n = 2 * (block / 8 + 1);

		b->bits = mem_realloc(b->bits, n);
		memset(b->bits + b->n, 0, n - b->n);
		b->n = n;
	}
	b->bits[block / 8] |= (uint8_t)(1u << block % 8);
}

static void count_closed(struct verify_payload *p, int64_t idx)
{
	const size_t block = (size_t)(idx / VERIFY_BLOCK);

	if (idx < 0 || idx / VERIFY_BLOCK >= BLOCKS_MAX) {
		p->look.all = true;
		return;
	}
	if (block >= p->closed.n) {
		size_t n = 2 * (block + 1);

		p->closed.of = mem_realloc(p->closed.of, n * sizeof(*p->closed.of));
		memset(p->closed.of + p->closed.n, 0, (n - p->closed.n) * sizeof(*p->closed.of));
		p->closed.n = n;
	}
	p->closed.of[block] += p->closed.of[block] < VERIFY_BLOCK;
}

static void note_commits(struct verify_log *c, const struct audit_read *got)
{
	const struct audit_value *kind = &got->row.v[COL_KIND];

	if (c->kept == UNITS_KEPT_LOOK || (c->kept == UNITS_KEPT_UNKNOWN &&
	    (got->row.v[COL_CM].present || (kind->present && kind->n == AUDIT_ALIAS_NEW))))
		mark(&c->payload->look, got->idx);
	if (c->kept == UNITS_KEPT_SHUT)
		count_closed(c->payload, got->idx);
	c->payload->look.all |= got->findings & AUDIT_FOUND_TYPE;        /* it may not be where it says */
}

static void mark_range(struct verify_blocks *b, int64_t from, int64_t to)
{
	for (int64_t idx = from; idx < to && !b->all; idx = (idx / VERIFY_BLOCK + 1) * VERIFY_BLOCK)
		mark(b, idx);
}

/* What was erased is to be gone, also where all fits. */
static void mark_erased(struct verify_log *c)
{
	const int64_t size = c->head->size;

	for (size_t i = 0; i < c->payload->ntombs; i++) {
		const struct tomb *t = &c->payload->tombs[i];
		int64_t to = t->to < t->idx ? t->to : t->idx;

		if (t->nkeys > 0 && t->until > to)
			to = t->until;
		if (t->until < INT64_MAX)
			mark_range(&c->payload->look, t->nkeys > 0 ? 0 : t->from, to < size ? to : size);
	}
}

/* Most records commit to nothing and have nothing kept, or were looked at when they were decoded: their blocks need not
 * be read again. */
static int check_marked(struct verify_log *c, struct err *err)
{
	struct verify_payload *p = c->payload;
	const struct verify_head *h = c->head;
	const struct verify_blocks *b = &p->look;
	int rc = 0;

	mark_erased(c);
	if (b->all)
		return check_range(c, p->from, h->size, err);
	for (size_t block = 0; (block < 8 * b->n || block < p->closed.n) && rc == 0; block++) {
		int64_t from = (int64_t)block * VERIFY_BLOCK, to = from + VERIFY_BLOCK;

		if (block < 8 * b->n && b->bits[block / 8] & 1u << block % 8)
			rc = check_range(c, from > p->from ? from : p->from, to < h->size ? to : h->size, err);
		else if (block < p->closed.n)
			p->shut += p->closed.of[block];
	}
	return rc;
}

/* --- the step */

static void note_kept(struct verify *v, int64_t log, int64_t idx)
{
	struct verify_blocks *b = map_get_u64(v->kept->blocks, (uint64_t)log);

	if (!b) {
		b = mem_zalloc(sizeof(*b));
		(void)map_set_u64(v->kept->blocks, (uint64_t)log, b);
	}
	mark(b, idx);
}

/* 1: the record is in a block, which has what is kept of it beside it. */
static int is_leftover(struct verify *v, int64_t log, int64_t idx, int64_t *at, int64_t *line, struct err *err)
{
	int rc = 0;

	if (!forms_seen(v->db))
		return 0;
	if (*at != log)
		rc = forms_line(v->db, log, line, err);
	*at = log;
	return rc < 0 ? rc : idx < *line;
}

/* Where the store has payloads beside rows, and whether it has some of records that are not there: of those that came
 * since. */
static int walk_rows(struct verify *v, bool *ret_orphans, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_KEPT_ROWS);
	int64_t at = -1, line = INT64_MIN;
	int rc;

	db_bind_i64(st, 1, v->kept->from);
	while ((rc = db_step(st, err)) == 1) {
		const int64_t log = db_col_i64(st, 0), idx = db_col_i64(st, 1);

		if (db_col_type(st, 0) == DB_NULL)
			*ret_orphans = true;
		else
			rc = is_leftover(v, log, idx, &at, &line, err);
		if (rc < 0)
			break;
		if (db_col_type(st, 0) != DB_NULL && rc == 0)
			note_kept(v, log, idx);
		if (db_col_i64(st, 2) > v->kept->to)
			v->kept->to = db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	return rc;
}

static int walk_kept(struct verify *v, struct err *err)
{
	struct db_stmt *st;
	bool orphans = false;
	int rc = walk_rows(v, &orphans, err);

	if (rc == 0 && forms_seen(v->db)) {
		st = db_stmt_get(v->db, SQL_VERIFY_LIST_KEPT_GROUPS);
		while ((rc = db_step(st, err)) == 1)
			orphans = true;
		db_stmt_put(&st);
	}
	if (rc == 0 && orphans)
		verify_tell_store(v, AUDIT_FINDING_PAYLOAD_EXTRA, NULL, "payloads of records that are not there");
	return rc;
}

static int payload_open(struct verify *v, struct err *err)
{
	(void)err;
	if (v->tenant_id)
		return 0;
	v->kept = mem_zalloc(sizeof(*v->kept));
	v->kept->blocks = map_new();
	v->kept->from = v->kept->to = INT64_MIN;
	return 0;
}

static int payload_start(struct verify *v, struct err *err)
{
	return v->kept ? walk_kept(v, err) : 0;
}

static int payload_begin(struct verify_log *c, struct err *err)
{
	struct verify_blocks *b = c->v->kept ? map_del_u64(c->v->kept->blocks, (uint64_t)c->head->id) : NULL;

	(void)err;
	c->payload = mem_zalloc(sizeof(*c->payload));
	c->payload->from = c->head->min_idx;
	if (b)
		c->payload->look = *b;
	c->payload->look.all |= !c->v->kept;
	free(b);
	return 0;
}

/* What was read before it was cut off was not looked at yet; of a log that is read again it is not known where
 * something is kept. */
static int payload_start_log(struct verify_log *c, struct err *err)
{
	(void)err;
	c->payload->look.all |= c->start == VERIFY_AGAIN;
	if (c->start == VERIFY_ON)
		mark_range(&c->payload->look, c->payload->from, c->next);
	return 0;
}

/* What is kept of records of before the mark; those that were not opened then are counted already. */
static int payload_again(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	uint64_t shut = c->payload->shut, missing = c->payload->missing;
	int rc = check_range(c, from, to, err);

	c->payload->shut = shut;
	c->payload->missing = missing;
	return rc;
}

/* --- what is carried */

static void save_kept(const struct verify *v, struct str *to)
{
	pack_u64(to, (uint64_t)(v->way ? v->kept->from : v->kept->to));
}

static void load_kept(struct verify *v, struct unpack *in)
{
	v->kept->from = v->kept->to = (int64_t)unpack_u64(in);
}

static void save_payload(const struct verify_log *c, struct str *to)
{
	const struct verify_payload *p = c->payload;
	const void *name;
	size_t len;

	pack_u64(to, (uint64_t)(c->v->way ? p->from : c->next));
	pack_u64(to, p->shut);
	pack_u64(to, p->missing);
	pack_u64(to, p->many);
	pack_u64(to, p->gone ? map_count(p->gone) : 0);
	for (size_t it = 0; p->gone && map_next(p->gone, &it, &name, &len, NULL);)
		pack_text(to, name, len);
	pack_u64(to, p->ntombs);
	for (size_t i = 0; i < p->ntombs; i++) {
		const struct tomb *t = &p->tombs[i];

		pack_u64(to, (uint64_t)t->idx);
		pack_u64(to, (uint64_t)t->from);
		pack_u64(to, (uint64_t)t->to);
		pack_u64(to, (uint64_t)t->until);
		pack_text(to, (const char *)t->keys, 8 * t->nkeys);
	}
}

static void load_tomb(struct tomb *t, struct unpack *in)
{
	size_t len;
	const char *keys;

	t->idx = (int64_t)unpack_u64(in);
	t->from = (int64_t)unpack_u64(in);
	t->to = (int64_t)unpack_u64(in);
	t->until = (int64_t)unpack_u64(in);
	keys = unpack_text(in, &len);
	in->bad |= len % 8 != 0;
	t->keys = len > 0 && !in->bad ? mem_dup(keys, len) : NULL;
	t->nkeys = t->keys ? len / 8 : 0;
}

static void load_payload(struct verify_log *c, struct unpack *in)
{
	struct verify_payload *p = c->payload;
	size_t n;

	p->from = (int64_t)unpack_u64(in);
	p->shut = unpack_u64(in);
	p->missing = unpack_u64(in);
	p->many = unpack_bool(in);
	in->bad |= p->from < c->head->min_idx || p->from > c->next;
	for (n = unpack_count(in, 8); n > 0 && !in->bad; n--) {
		size_t len;
		const char *name = unpack_text(in, &len);

		if (!p->gone)
			p->gone = map_new();
		if (!in->bad)
			(void)map_set(p->gone, name, len, p);
	}
	n = unpack_count(in, 40);
	p->tombs = mem_calloc(n + 1, sizeof(*p->tombs));
	for (; n > 0 && !in->bad; n--)
		load_tomb(&p->tombs[p->ntombs++], in);
}

static int payload_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	int64_t kind = verify_kind(&got->row);

	(void)err;
	note_commits(c, got);
	if (kind == AUDIT_ERASE)
		note_tomb(c, &got->row, got->idx);
	if (kind == AUDIT_ERASE_DONE)
		note_done(c, &got->row, got->idx);
	return 0;
}

/* What an earlier verification had no keys for, it did not open; with keys now it is not opened either. */
static int payload_settle(struct verify_log *c, struct err *err)
{
	uint64_t before = c->payload->missing;
	int rc = check_marked(c, err);

	if (before > 0)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin,
				  "there were no keys to some of what was kept of the older records");
	c->v->sum->shut += c->payload->shut;
	return rc;
}

static int payload_end(struct verify_log *c, struct err *err)
{
	return check_aliases(c, err);
}

static void payload_close(struct verify_log *c)
{
	struct verify_payload *p = c->payload;

	if (!p)
		return;
	for (size_t i = 0; i < p->ntombs; i++)
		free(p->tombs[i].keys);
	free(p->tombs);
	map_free(&p->gone);
	free(p->look.bits);
	free(p->closed.of);
	free(p);
	c->payload = NULL;
}

/* Without keys a ciphertext may be any, and so may the name that stands beside a pseudonym. */
static int payload_finish(struct verify *v, struct err *err)
{
	char detail[100];

	(void)err;
	if (v->sum->shut == 0 || v->with->shut_on_purpose)
		return 0;
	snprintf(detail, sizeof(detail), "no keys were given: %" PRIu64 " kept values and names were not opened",
		 v->sum->shut);
	verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, NULL, detail);
	return 0;
}

static void payload_free(struct verify *v)
{
	void *value;

	if (!v->kept)
		return;
	for (size_t it = 0; map_next(v->kept->blocks, &it, NULL, NULL, &value);) {
		struct verify_blocks *b = value;

		free(b->bits);
		free(b);
	}
	map_free(&v->kept->blocks);
	free(v->kept);
	v->kept = NULL;
}

const struct verify_step verify_payload = {
	.name = "payload", .open = payload_open, .begin = payload_begin, .record = payload_record, .end = payload_end,
	.close = payload_close, .finish = payload_finish, .free = payload_free, .form = 1, .save = save_kept,
	.load = load_kept, .save_log = save_payload, .load_log = load_payload, .start = payload_start,
	.start_log = payload_start_log, .settle_log = payload_settle, .again = payload_again,
};
