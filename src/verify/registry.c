/* Step 9 of AUDIT 8: each row of the registry and each credential against the newest record that speaks of it.
 * The walk through the logs keeps what the newest said of each row; at the end the rows are compared with that, so
 * that one which was added, changed, put back to what it was, or taken away behind the log is found.  It keeps 72
 * bytes of each row that a record ever named, deleted ones too, of at most AUDIT_VERIFY_OPEN_MAX. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/rows.h"
#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "db/server.h"
#include "json/json.h"

#include "verify_int.h"

struct said {
	int64_t log, idx;
	uint64_t ts;
	uint8_t digest[AUDIT_ROW_DIGEST];       /* zero: the row was deleted */
	bool seen, taken;                       /* taken: as it was, by registry.vouch */
};

/* How much of a log the walk has read. */
struct extent { int64_t from, to; };

struct verify_rows {
	struct map *extents;            /* by id of the log */
	struct map *said;               /* by audit_row_key() */
	uint64_t first_us, adopted_us;  /* first record of a change; last one that took rows as they were */
	uint64_t known, known_before;   /* kinds that have records, by registry.vouch; before the newest run of those */
	int64_t vouch_idx;              /* of the newest registry.vouch, -2: none */
	bool again;                     /* rows were taken as they were, though their kind had records */
	bool unvouched;                 /* there are rows of a kind that has none yet */
	bool shut;                      /* whoever verifies may not read hashes of keys, which their rows have */
	bool overflow;
};

/* --- what records say */

static void note(struct verify_rows *r, uint64_t key, const struct said *now)
{
	struct said *s = map_get_u64(r->said, key);

	if (!s && map_count(r->said) >= AUDIT_VERIFY_OPEN_MAX) {
		r->overflow = true;
		return;
	}
	if (!s) {
		s = mem_zalloc(sizeof(*s));
		(void)map_set_u64(r->said, key, s);
	}
	if (now->ts >= s->ts || now->log == s->log)     /* in one log the index decides, the clock may have been set back */
		*s = *now;
}

/* registry.vouch, or a start of an earlier release that took rows: kinds that had records before have none to take. */
static void note_taken(struct verify *v, int64_t kind, int64_t idx, uint64_t ts, const struct audit_value *ext,
		       const uint8_t *keys, size_t nkeys)
{
	struct verify_rows *r = v->rows;
	uint64_t list = kind == AUDIT_REGISTRY_VOUCH ? audit_row_kinds(ext->p, ext->len) : 0, taken = 0;

	if (list && idx != r->vouch_idx + 1)
		r->known_before = r->known;
	for (size_t i = 0; i < nkeys; i++) {
		uint64_t row = audit_get_be(keys + 8 * i, 8) >> AUDIT_ROW_KIND_SHIFT;

		taken |= row < 64 ? UINT64_C(1) << row : 0;
	}
	if (taken & (list ? r->known_before : r->known))
		r->again = true;
	if (taken & ((UINT64_C(1) << AUDIT_ROW_FIRST_LATER) - 1) && ts > r->adopted_us)
		r->adopted_us = ts;
	if (list && taken && r->first_us < ts)
		v->sum->vouched_us = ts;
	if (list)
		r->vouch_idx = idx;
	r->known |= list;
}

static void note_record(struct verify *v, int64_t log, const struct audit_row *row, int64_t idx)
{
	struct verify_rows *r = v->rows;
	const struct audit_value *ext = &row->v[COL_EXT], *ts = &row->v[COL_TS];
	int64_t kind = verify_kind(row);
	struct said now = { .log = log, .idx = idx, .ts = ts->present ? (uint64_t)ts->n : 0 };
	bool takes = kind == AUDIT_SERVER_START || kind == AUDIT_REGISTRY_VOUCH;
	size_t nkeys = 0, ndigests = 0;
	const uint8_t *keys, *digests;

	if (!ext->present || !audit_rows_speak(kind))
		return;
	keys = audit_field_find(ext->p, ext->len, AUDIT_TAG_KEYS, &nkeys);
	digests = audit_field_find(ext->p, ext->len, AUDIT_TAG_CONFIG, &ndigests);
	if (!keys || !digests || nkeys % 8 != 0 || nkeys / 8 * AUDIT_ROW_DIGEST != ndigests)
		nkeys = 0;
	if (takes && log == AUDIT_SYSTEM_LOG)
		note_taken(v, kind, idx, now.ts, ext, keys, nkeys / 8);
	else if (!takes && kind != AUDIT_LOG_OPEN && nkeys > 0 && now.ts < r->first_us)
		r->first_us = now.ts;
	now.taken = takes;
	for (size_t i = 0; i < nkeys / 8; i++) {
		memcpy(now.digest, digests + AUDIT_ROW_DIGEST * i, AUDIT_ROW_DIGEST);
		note(r, audit_get_be(keys + 8 * i, 8), &now);
	}
}

/* --- rows against that */

static void tell_row(struct verify *v, uint64_t key, const char *what)
{
	char text[120];

	(void)snprintf(text, sizeof(text), "%s/%" PRIu64 " %s", audit_row_name((unsigned)(key >> AUDIT_ROW_KIND_SHIFT)),
		       key & ((UINT64_C(1) << AUDIT_ROW_KIND_SHIFT) - 1), what);
	verify_tell_store(v, AUDIT_FINDING_REGISTRY, NULL, text);
}

/* A version that was taken as it was: nobody has seen yet that its digest is that of its text. */
static int check_version(struct verify *v, uint64_t key, int64_t id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_VERSION);
	uint8_t digest[DIGEST_SIZE];
	int rc;

	db_bind_i64(st, 1, id);
	rc = db_step(st, err);
	if (rc == 1) {
		size_t len = 0, n = 0;
		const void *stored = db_col_blob(st, 0, &len);
		const char *text = db_col_text(st, 1, &n);
		struct str canon = STR_INIT;
		json_t *doc = NULL;

		if (jx_parse(text, n, &doc, NULL) == 0)
			jx_write_canon(doc, &canon);
		json_decref(doc);
		digest_sha256(str_text(&canon), canon.len, digest);
		if (len != sizeof(digest) || memcmp(stored, digest, len) != 0)
			tell_row(v, key, "has not the digest of its definition");
		str_fini(&canon);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int compare(void *arg, const struct audit_vouched *row, struct err *err)
{
	struct verify *v = arg;
	uint64_t key = audit_row_key(row->kind, row->id);
	struct said *s = map_get_u64(v->rows->said, key);
	const struct extent *e = map_get_u64(v->rows->extents, (uint64_t)row->log);
	int rc = 0;

	if (s)
		s->seen = true;
	if (s && s->taken && row->kind == AUDIT_ROW_VERSION)
		rc = check_version(v, key, row->id, err);
	if (row->idx < 0 && !s && row->kind >= AUDIT_ROW_FIRST_LATER && !(v->rows->known >> row->kind & 1))
		v->rows->unvouched = true;
	else if (row->idx < 0)
		tell_row(v, key, "was written without a record");
	else if (!s && e && row->idx < e->from)
		verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, NULL, "a row whose record was pruned");
	else if (v->away && map_get_u64(v->away, (uint64_t)row->log) && !(s && s->log == row->log && s->idx == row->idx))
		verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, NULL, "a row whose record may be in a file that is away");
	else if (!s)
		tell_row(v, key, "has no record");
	else if (s->log != row->log || s->idx != row->idx)
		tell_row(v, key, "is not what its newest record made");
	else if (memcmp(s->digest, row->digest, AUDIT_ROW_DIGEST) != 0)
		tell_row(v, key, "is not what its record says");
	return rc;
}

static void tell_missing(struct verify *v)
{
	static const uint8_t gone[AUDIT_ROW_DIGEST];
	int64_t *missing = mem_calloc(map_count(v->rows->said) + 1, sizeof(*missing));
	const void *key;
	size_t len, n = 0;
	void *value;

	for (size_t it = 0; map_next(v->rows->said, &it, &key, &len, &value);) {
		const struct said *s = value;

		memcpy(&missing[n], key, sizeof(*missing));
		n += !s->seen && memcmp(s->digest, gone, sizeof(gone)) != 0 &&
			!(v->rows->shut && missing[n] >> AUDIT_ROW_KIND_SHIFT == AUDIT_ROW_CRED);
	}
	verify_sort(missing, n);
	for (size_t i = 0; i < n; i++)
		tell_row(v, (uint64_t)missing[i], "is missing");
	free(missing);
}

/* What was appended since the walk read the log. */
static int catch_up(struct verify *v, int64_t *after, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_AUDIT_NEXT_HEAD);
	struct audit_page page = { .to = INT64_MAX };
	struct audit_reader *reader;
	struct audit_read got;
	char *origin = NULL;
	int rc;

	db_bind_i64(st, 1, *after);
	db_bind_i64(st, 2, 0);
	rc = db_step(st, err);
	if (rc == 1) {
		const struct extent *e = map_get_u64(v->rows->extents, (uint64_t)db_col_i64(st, 0));

		page.log = *after = db_col_i64(st, 0);
		page.from = e ? e->to : 0;
		page.origin = origin = mem_strdup(db_col_text(st, 1, NULL));
	}
	db_stmt_put(&st);
	if (rc != 1)
		return rc;
	reader = audit_reader_new(v->db);
	while ((rc = audit_reader_next(reader, &page, &got, err)) == 1)
		note_record(v, page.log, &got.row, got.idx);
	audit_reader_free(&reader);
	free(origin);
	return rc < 0 ? rc : 1;
}

/* A store whose meta has another name than its system log: commands look things up by it. */
static int check_instance(struct verify *v, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_INSTANCE);
	int rc = db_step(st, err);

	if (rc == 1)
		verify_tell_store(v, AUDIT_FINDING_REGISTRY, NULL, "meta/instance is not the name of the system log");
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int compare_all(struct verify *v, struct err *err)
{
	int64_t after = 0;
	int rc;

	while ((rc = catch_up(v, &after, err)) == 1)
		;
	rc = rc < 0 ? rc : check_instance(v, err);
	rc = rc < 0 ? rc : db_may_read_keys(v->db, err);
	if (rc < 0)
		return rc;
	if ((v->rows->shut = rc == 0))
		verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, NULL, "rows of keys: this role may not read their hashes");
	rc = 0;
	if (v->rows->adopted_us > v->rows->first_us || v->rows->again)
		verify_tell_store(v, AUDIT_FINDING_REGISTRY, NULL,
				  "a start took rows as they were, though there were records of them");
	for (unsigned kind = 1; kind < AUDIT_ROW_END && rc == 0; kind++) {
		int64_t from = 0;

		do {
			rc = v->rows->shut && kind == AUDIT_ROW_CRED ? 0 : audit_rows_page(v->db, kind, &from, compare, v, err);
		} while (rc == 1);
	}
	if (rc == 0)
		tell_missing(v);
	if (v->rows->unvouched)
		verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, NULL,
				  "versions, settings and whose logs they are: no server of this release has started, none is vouched for");
	return rc;
}

/* --- whose log it is */

/* log.open says it: the id, then the name of that day, which stands in the origin as well. */
static void check_tenant(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct audit_value *ext = &row->v[COL_EXT];
	size_t len = 0;
	const uint8_t *whose = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_TENANT, &len) : NULL;

	if (whose && (len < 8 || (int64_t)audit_get_be(whose, 8) != c->head->tenant_id))
		verify_tell_record(c, AUDIT_FINDING_REGISTRY, idx, idx);
}

/* --- the step */

static int registry_open(struct verify *v, struct err *err)
{
	(void)err;
	if (v->tenant_id)               /* rows may be of any tenant */
		return 0;
	v->rows = mem_zalloc(sizeof(*v->rows));
	v->rows->said = map_new();
	v->rows->extents = map_new();
	v->rows->first_us = UINT64_MAX;
	v->rows->vouch_idx = -2;
	return 0;
}

static int registry_begin(struct verify_log *c, struct err *err)
{
	struct extent *e;

	(void)err;
	if (!c->v->rows)
		return 0;
	e = mem_zalloc(sizeof(*e));
	*e = (struct extent){ c->head->min_idx, c->head->size };
	free(map_set_u64(c->v->rows->extents, (uint64_t)c->head->id, e));
	return 0;
}

static int registry_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	(void)err;
	if (verify_kind(&got->row) == AUDIT_LOG_OPEN)
		check_tenant(c, &got->row, got->idx);
	if (c->v->rows && !verify_is_known(c, got->idx))
		note_record(c->v, c->head->id, &got->row, got->idx);
	return 0;
}

/* In one transaction: a server may change rows meanwhile. */
static int registry_finish(struct verify *v, struct err *err)
{
	int rc;

	if (!v->rows)
		return 0;
	if (v->rows->overflow) {
		verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, NULL, "more rows than the check of the registry keeps in mind");
		return 0;
	}
	if (db_txn_alive(v->db))        /* a drill's, which it undoes */
		return compare_all(v, err);
	rc = db_txn_begin(v->db, false, err);
	return rc < 0 ? rc : db_txn_end(v->db, compare_all(v, err), err);
}

static void save_rows(const struct verify *v, struct str *to)
{
	const struct verify_rows *r = v->rows;
	const uint64_t all[] = { r->first_us, r->adopted_us, r->known, r->known_before, (uint64_t)r->vouch_idx, r->again,
		r->overflow, v->sum->vouched_us, map_count(r->said) };
	const void *key;
	size_t len;
	void *value;

	for (size_t i = 0; i < NELEMS(all); i++)
		pack_u64(to, all[i]);
	for (size_t it = 0; map_next(r->said, &it, &key, &len, &value);) {
		const struct said *s = value;
		uint64_t row = 0;

		memcpy(&row, key, len < sizeof(row) ? len : sizeof(row));
		pack_u64(to, row);
		pack_u64(to, (uint64_t)s->log);
		pack_u64(to, (uint64_t)s->idx);
		pack_u64(to, s->ts);
		pack_u64(to, s->taken);
		pack_bytes(to, s->digest, sizeof(s->digest));
	}
}

static void load_rows(struct verify *v, struct unpack *in)
{
	struct verify_rows *r = v->rows;

	r->first_us = unpack_u64(in);
	r->adopted_us = unpack_u64(in);
	r->known = unpack_u64(in);
	r->known_before = unpack_u64(in);
	r->vouch_idx = (int64_t)unpack_u64(in);
	r->again = unpack_bool(in);
	r->overflow = unpack_bool(in);
	v->sum->vouched_us = unpack_u64(in);
	for (size_t n = unpack_count(in, 40 + AUDIT_ROW_DIGEST); n > 0 && !in->bad; n--) {
		struct said *s = mem_zalloc(sizeof(*s));
		uint64_t row = unpack_u64(in);

		s->log = (int64_t)unpack_u64(in);
		s->idx = (int64_t)unpack_u64(in);
		s->ts = unpack_u64(in);
		s->taken = unpack_bool(in);
		unpack_bytes(in, s->digest, sizeof(s->digest));
		in->bad |= map_count(r->said) >= AUDIT_VERIFY_OPEN_MAX;
		free(in->bad ? s : map_set_u64(r->said, row, s));
	}
}

static void registry_free(struct verify *v)
{
	struct verify_rows *r = v->rows;

	if (!r)
		return;
	map_free_all(&r->said);
	map_free_all(&r->extents);
	free(r);
	v->rows = NULL;
}

const struct verify_step verify_registry = {
	.name = "registry", .open = registry_open, .begin = registry_begin, .record = registry_record,
	.finish = registry_finish, .free = registry_free, .form = 1, .save = save_rows, .load = load_rows,
};
