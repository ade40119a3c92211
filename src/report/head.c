/* The header of a report: what was looked at, and what stands behind it (AUDIT A-1101); and the columns of a row. */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "audit/audit.h"
#include "audit/record.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "forms/forms.h"
#include "json/json.h"
#include "tlog/note.h"
#include "tlog/signer.h"

#include "report_int.h"

/* --- the newest verification that a log has a record of, which has to be in the tree that the log key signed */

#define NOT_AS_WRITTEN "unknown: its record was changed"

static int see_result(void *arg, const struct audit_read *got)
{
	static const char *const known[] = { "INTACT", "INCOMPLETE", "DAMAGED", "FAILED" };
	const struct audit_value *ext = &got->row.v[COL_EXT];
	struct report_verified *v = arg;
	size_t len = 0;
	const uint8_t *p = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_RESULT, &len) : NULL;

	if (got->row.v[COL_KIND].n != AUDIT_AUDIT_VERIFY)
		return 0;
	v->us = (uint64_t)got->row.v[COL_TS].n;
	v->result = "with a result that was not recorded";     /* of an older release */
	for (size_t i = 0; p && i < NELEMS(known); i++)
		if (text_eq((const char *)p, len, known[i]))
			v->result = known[i];
	return 0;
}

/* The newest checkpoint of a log, if the key of the logs has signed it: 1, or 0. */
static int signed_tree(struct db *db, const struct report_ask *ask, int64_t log, const char *origin,
		       struct checkpoint *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PROVE_GET_NOTE);
	struct note_key key;
	struct note note;
	size_t len = 0;
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1) {
		const void *text = db_col_blob(st, 0, &len);

		rc = note_parse(text, len, &note) == 0 && checkpoint_parse(note.text, note.text_len, ret) == 0 &&
		     succession_is(ret->origin, origin) && note_key_set(&key, ret->origin, ask->log_key) == 0 &&
		     note_check(&note, &key) == 1;
	}
	db_stmt_put(&st);
	return rc;
}

static int newest_record(struct db *db, int64_t log, uint64_t size, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_VERIFIED);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, (int64_t)size);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc;
}

static int origin_of(struct db *db, int64_t log, char ret[NOTE_NAME_MAX + 1], struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	(void)snprintf(ret, NOTE_NAME_MAX + 1, "%s", rc == 1 ? db_col_text(st, 0, NULL) : "");
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int verify_newest(struct db *db, const struct report_ask *ask, int64_t log, struct report_verified *ret,
			 struct err *err)
{
	char origin[NOTE_NAME_MAX + 1];
	struct audit_place at = { .log = log, .origin = origin };
	struct checkpoint cp;
	int rc = ask->has_key ? origin_of(db, log, origin, err) : 0;

	*ret = (struct report_verified){ .us = 0 };
	if (rc < 0 || !ask->has_key)
		return rc;
	rc = newest_record(db, log, INT64_MAX, &at.idx, err);   /* most logs have none */
	if (rc == 1)
		rc = signed_tree(db, ask, log, origin, &cp, err);
	if (rc == 1 && (uint64_t)at.idx >= cp.size)
		rc = newest_record(db, log, cp.size, &at.idx, err);
	if (rc != 1)
		return rc;
	at.size = cp.size;
	at.root = cp.root;
	rc = audit_included(db, &at, see_result, ret, err);
	if (rc != ERR_CORRUPT && (rc < 0 || ret->result))
		return rc < 0 ? rc : 0;
	*ret = (struct report_verified){ 0, NOT_AS_WRITTEN };
	return 0;
}

/* --- what was looked at */

int report_next_log(struct db *db, int64_t *log, int64_t *ret_tenant, struct err *err)
{
	struct db_stmt *st;
	int rc = forms_see(db, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_REPORT_NEXT_LOG);
	db_bind_i64(st, 1, *log);
	rc = db_step(st, err);
	*log = rc == 1 ? db_col_i64(st, 0) : 0;
	if (ret_tenant)
		*ret_tenant = rc == 1 ? db_col_i64(st, 1) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

#define SYSTEM_LOG 1

#define LOGS_SAID_MAX 1000              /* that a header names; a line of one reporter has room for them */

/* What the header says of a log, or of all of them together. */
struct coverage {
	char origin[512], tenant[80];
	int64_t size, pruned, erased, covered;  /* covered: how many of its records the newest checkpoint covers; -1: none */
	int64_t decoded;                /* chapters of the span without sums: a report that counts reads their blocks */
	int64_t from, to;               /* positions in the span that was asked for; to < from: none */
	uint64_t checkpoint_us;
	struct report_verified verified;
};

/* All that a report stands on. */
struct basis {
	const struct report_ask *ask;
	struct coverage sum;
	struct report_verified whole;          /* of the whole store, and so of each log */
	bool stepped;                   /* the clock was set, as far as anybody knows */
	struct reply logs;              /* of several logs, one after another */
	int64_t nlogs;
};

/* Time and size of the newest checkpoint of a log, or of the newest anchor; 0 and -1: there is none. */
static int newest_of(struct db *db, enum sql_id id, int64_t log, uint64_t *ret_us, int64_t *ret_size, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, id);
	int rc;

	if (db_param_count(st) > 0)
		db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	*ret_us = rc == 1 ? (uint64_t)db_col_i64(st, 0) : 0;
	*ret_size = rc == 1 ? db_col_i64(st, 1) : -1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int count(struct db *db, int64_t log, int kind, int64_t *sum, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_COUNT);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, kind);
	rc = db_step(st, err);
	if (rc == 1)
		*sum += db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int read_size(struct db *db, int64_t log, struct coverage *cov, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1) {
		(void)snprintf(cov->origin, sizeof(cov->origin), "%s", db_col_text(st, 0, NULL));
		(void)snprintf(cov->tenant, sizeof(cov->tenant), "%s", db_col_text(st, 1, NULL));
		cov->size += db_col_i64(st, 2);
		cov->pruned += db_col_i64(st, 3);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int one_of(struct db *db, enum sql_id id, int64_t log, int64_t number, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, id);
	int rc;

	db_bind_i64(st, 1, log);
	if (db_param_count(st) > 1)
		db_bind_i64(st, 2, number);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc;
}

/* Whether times may go back somewhere: the record of that may be pruned. */
static int read_stepped(struct db *db, bool *ret, struct err *err)
{
	int64_t first = 0, step;
	int rc = one_of(db, SQL_REPORT_PLACE_FROM, SYSTEM_LOG, 0, &first, err);

	if (rc >= 0)
		rc = one_of(db, SQL_REPORT_STEPS, 1, 0, &step, err);
	*ret = rc == 1 || first > 0;
	return rc < 0 ? rc : 0;
}

static int two_of(struct db *db, enum sql_id id, int64_t log, int64_t since, int64_t until, int64_t *ret_first,
		  int64_t *ret_last, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, id);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, since);
	db_bind_i64(st, 3, until);
	rc = db_step(st, err);
	if (rc == 1 && db_col_type(st, 0) == DB_NULL)
		rc = 0;
	if (rc == 1) {
		*ret_first = db_col_i64(st, 0);
		*ret_last = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	return rc;
}

int report_span(struct db *db, int64_t log, int64_t since, int64_t until, int64_t *ret_first, int64_t *ret_last,
		struct err *err)
{
	return two_of(db, forms_seen(db) ? SQL_REPORT_HEAD_SPAN_FORMS : SQL_REPORT_HEAD_SPAN, log, since, until, ret_first,
		      ret_last, err);
}

int report_edges(struct db *db, int64_t log, int64_t since, int64_t until, int64_t *ret_first, int64_t *ret_last,
		 struct err *err)
{
	return two_of(db, SQL_REPORT_EDGES, log, since, until, ret_first, ret_last, err);
}

/* The first and the last record of the span.  Where nothing bounds it, or the clock was set, those of the log: all of
 * it is looked through. */
static int read_span(struct db *db, const struct basis *b, int64_t log, struct coverage *cov, struct err *err)
{
	const struct report_ask *ask = b->ask;
	int rc = forms_see(db, err);

	if (rc < 0)
		return rc;
	if (b->stepped || (ask->since_us == 0 && ask->until_us == 0)) {
		rc = one_of(db, SQL_REPORT_PLACE_FROM, log, 0, &cov->from, err);
		if (rc == 1)
			rc = one_of(db, SQL_REPORT_PLACE_BELOW, log, INT64_MAX, &cov->to, err);
		return rc < 0 ? rc : 0;
	}
	rc = report_span(db, log, (int64_t)ask->since_us, ask->until_us ? (int64_t)ask->until_us : INT64_MAX, &cov->from,
			 &cov->to, err);
	return rc < 0 ? rc : 0;
}

/* The later one of two; that one was changed is said unless a later one is there. */
static void take_verified(struct report_verified *sum, const struct report_verified *v)
{
	if (v->us > sum->us || (v->result && !sum->result))
		*sum = *v;
}

int report_verified(struct db *db, const struct report_ask *ask, int64_t log, struct report_verified *ret,
		    struct err *err)
{
	struct report_verified own = { .us = 0 };
	int rc = verify_newest(db, ask, SYSTEM_LOG, ret, err);

	if (rc == 0)
		rc = verify_newest(db, ask, log, &own, err);
	take_verified(ret, &own);
	return rc;
}

/* Decoding for want of sums is said, and changes no number (SC-407). */
static int count_decoded(struct db *db, const struct report_ask *ask, int64_t log, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_DECODED);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, (int64_t)ask->since_us);
	db_bind_i64(st, 3, ask->until_us ? (int64_t)ask->until_us : INT64_MAX);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* A head may lag behind the rows above it (decision 0061). */
static int see_above_head(struct db *db, int64_t log, struct coverage *cov, struct err *err)
{
	int64_t last = -1;
	int rc = one_of(db, SQL_REPORT_PLACE_BELOW, log, INT64_MAX, &last, err);

	if (rc == 1 && last >= cov->size)
		cov->size = last + 1;
	return rc < 0 ? rc : 0;
}

static int read_log(struct db *db, const struct basis *b, int64_t log, struct coverage *cov, struct err *err)
{
	int rc;

	*cov = (struct coverage){ .from = 0, .to = -1 };
	rc = read_size(db, log, cov, err);
	if (rc == 0)
		rc = see_above_head(db, log, cov, err);
	if (rc == 0)
		rc = read_span(db, b, log, cov, err);
	if (rc == 0)
		rc = count(db, log, AUDIT_ERASE_DONE, &cov->erased, err);
	if (rc == 0)
		rc = newest_of(db, SQL_REPORT_HEAD_SIGNED, log, &cov->checkpoint_us, &cov->covered, err);
	if (rc == 0)
		rc = verify_newest(db, b->ask, log, &cov->verified, err);
	if (rc == 0 && b->ask->way->counted)
		rc = count_decoded(db, b->ask, log, &cov->decoded, err);
	take_verified(&cov->verified, &b->whole);
	return rc;
}

static void put_time_or(struct reply *o, const char *name, uint64_t us, const char *none)
{
	if (us)
		reply_time(o, name, us);
	else
		reply_text(o, name, none);
}

static void put_range(struct reply *o, const struct coverage *cov)
{
	if (cov->to < cov->from)
		return;
	reply_int(o, "from", cov->from);
	reply_int(o, "to", cov->to);
}

static void put_verified(struct reply *o, const struct report_verified *v)
{
	put_time_or(o, "verified", v->us, v->result ? NULL : "never");
	reply_text(o, "verified_as", v->result);
}

static void put_log(struct reply *o, const struct coverage *cov)
{
	str_puts(&o->text, o->text.len > 0 ? ",{" : "{");
	o->any = false;
	reply_text(o, "log", cov->origin);
	if (*cov->tenant)
		reply_text(o, "tenant", cov->tenant);
	put_range(o, cov);
	reply_int(o, "records", cov->size);
	if (cov->covered >= 0)
		reply_int(o, "signed", cov->covered);
	put_verified(o, &cov->verified);
	str_putc(&o->text, '}');
}

/* How little is known: several logs stand together on the one that is worst off, and of those on the oldest. */
static int trust_in(const struct report_verified *v)
{
	static const char *const best_last[] = { "DAMAGED", NOT_AS_WRITTEN, NULL, "INCOMPLETE", "INTACT" };

	for (size_t i = 0; v->result && i < NELEMS(best_last); i++)
		if (best_last[i] && strcmp(v->result, best_last[i]) == 0)
			return (int)i;
	return 2;                       /* never, or nobody knows with which result */
}

static void add_log(struct basis *b, const struct coverage *cov)
{
	struct report_verified *sum = &b->sum.verified;
	const int had = trust_in(sum), has = trust_in(&cov->verified);

	b->sum.size += cov->size;
	b->sum.pruned += cov->pruned;
	b->sum.erased += cov->erased;
	b->sum.decoded += cov->decoded;
	if (b->nlogs == 0 || has < had || (has == had && cov->verified.us < sum->us))
		*sum = cov->verified;
	if (b->nlogs++ < LOGS_SAID_MAX)
		put_log(&b->logs, cov);
}

/* Of one log, or of each that the report reads. */
static int read_basis(struct db *db, struct basis *b, struct err *err)
{
	const struct report_ask *ask = b->ask;
	int64_t log = report_ask_scope(ask) == SCOPE_TENANTS ? SYSTEM_LOG : 0, size;
	struct coverage cov;
	int rc = read_stepped(db, &b->stepped, err);

	if (rc == 0)            /* the whole store was verified, and each log with it */
		rc = verify_newest(db, ask, SYSTEM_LOG, &b->whole, err);
	if (rc < 0 || ask->log > 0)
		return rc < 0 ? rc : read_log(db, b, ask->log, &b->sum, err);
	b->sum = (struct coverage){ .origin = "all", .from = 0, .to = -1, .covered = -1, .verified = b->whole };
	while ((rc = report_next_log(db, &log, NULL, err)) == 0 && log > 0) {
		rc = read_log(db, b, log, &cov, err);
		if (rc < 0)
			return rc;
		add_log(b, &cov);
	}
	return rc < 0 ? rc : newest_of(db, SQL_REPORT_HEAD_SIGNED, SYSTEM_LOG, &b->sum.checkpoint_us, &size, err);
}

static void put_age(struct reply *o, const char *name, uint64_t us)
{
	uint64_t now_us = clock_wall_us();
	char age[32];

	reply_text(o, name, us ? text_format_age(now_us > us ? now_us - us : 0, age, sizeof(age)) : NULL);
}

static void put_logs(struct reply *o, const struct basis *b)
{
	struct str list = STR_INIT;

	str_printf(&list, "[%s]", str_text(&b->logs.text));
	reply_raw(o, "logs", list.p, list.len);
	str_fini(&list);
	if (b->nlogs > LOGS_SAID_MAX)
		reply_int(o, "logs_not_named", b->nlogs - LOGS_SAID_MAX);
}

static void put_coverage(struct reply *o, const struct basis *b)
{
	const struct report_ask *ask = b->ask;
	const struct coverage *cov = &b->sum;
	char title[80];

	(void)snprintf(title, sizeof(title), "%s %s", ask->report->noun, ask->report->verb);
	reply_text(o, "report", title);
	reply_text(o, "asked", ask->line);
	reply_time(o, "at", clock_wall_us());
	reply_text(o, "log", cov->origin);
	if (*cov->tenant)
		reply_text(o, "tenant", cov->tenant);
	put_time_or(o, "since", ask->since_us, "the beginning");
	put_time_or(o, "until", ask->until_us, "now");
	put_range(o, cov);
	reply_int(o, "records", cov->size);
	reply_int(o, "pruned", cov->pruned);
	reply_int(o, "erasures", cov->erased);
	if (cov->decoded > 0)
		reply_int(o, "chapters_decoded", cov->decoded);
	if (ask->log == 0)
		put_logs(o, b);
}

static void put_choice(struct str *out, const char *name, const char *value)
{
	if (value && *value)
		str_printf(out, "%s%s=%s", out->len ? " " : "", name, value);
}

/* An answer that leaves records out says so: nobody is to take it for the log. */
static void put_chosen(struct reply *o, const struct report_ask *ask)
{
	struct str text = STR_INIT;

	put_choice(&text, "tool", ask->tool);
	put_choice(&text, "principal", ask->principal);
	put_choice(&text, "key", ask->key);
	put_choice(&text, "outcome", ask->outcome >= 0 ? audit_outcome_name(ask->outcome) : NULL);
	put_choice(&text, "kind", ask->kind ? audit_kind_name((int)ask->kind) : NULL);
	str_puts(&text, "; all others are left out");
	reply_text(o, "only", str_text(&text));
	str_fini(&text);
}

/* What draws the same sample again. */
static void put_drawn(struct reply *o, const struct report_ask *ask)
{
	reply_text(o, "method", ask->way->method ? ask->way->method : REPORT_BY_RANK);
	reply_int(o, "seed", ask->number);
	if (ask->population >= 0)
		reply_int(o, "population", ask->population);
	if (ask->to >= 0)
		reply_int(o, "drawn_to", ask->to);
}

#define DAY_US INT64_C(86400000000)
#define ROOM_DAYS 7                     /* that records are counted of, to say how many come a day */

struct room {
	int64_t bytes, unused, records, lately, first_us;
};

static int read_room(struct db *db, int64_t since_us, struct room *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, forms_seen(db) ? SQL_REPORT_ROOM_IN_FORMS : SQL_REPORT_ROOM);
	int rc;

	db_bind_i64(st, 1, since_us);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = (struct room){ db_col_i64(st, 0), db_col_i64(st, 1), db_col_i64(st, 2), db_col_i64(st, 3),
			db_col_i64(st, 4) };
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* In which forms records are (SCALE SC-109, SC-606), and what of them a plain sqlite3 sees. */
static int put_forms(struct reply *o, struct db *db, struct err *err)
{
	static const char *const names[] = { "in_rows", "in_blocks", "bytes_in_block", "plain_rows" };
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_ROOM_FORMS);
	int rc = db_step(st, err);

	for (unsigned i = 0; rc == 1 && i < NELEMS(names); i++)
		if (db_col_type(st, i) != DB_NULL)
			reply_int(o, names[i], db_col_i64(st, i));
	if (rc == 1 && db_col_i64(st, 1) > 0)
		put_time_or(o, "plain_since", (uint64_t)db_col_i64(st, 4), "the first record");
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* How large the store is, and how long there is room for more of it: on the disk, and in pages of the file that are not
 * used.  A store that is younger than a week is counted over its own days, at least one. */
static int put_room(struct reply *o, struct db *db, const struct report_ask *ask, struct err *err)
{
	const int64_t now_us = (int64_t)clock_wall_us();
	struct room room = { 0 };
	struct statvfs fs;
	double days, each, a_day;
	int64_t free_bytes;
	int rc = read_room(db, now_us - ROOM_DAYS * DAY_US, &room, err);

	if (rc < 0)
		return rc;
	days = (double)(now_us - room.first_us) / (double)DAY_US;
	days = days < 1 ? 1 : days > ROOM_DAYS ? ROOM_DAYS : days;
	each = room.records > 0 ? (double)(room.bytes - room.unused) / (double)room.records : 0;
	a_day = (double)room.lately / days;
	reply_int(o, "store_bytes", room.bytes);
	reply_int(o, "unused_bytes", room.unused);
	reply_int(o, "bytes_per_record", (int64_t)each);
	reply_int(o, "records_a_day", (int64_t)a_day);
	rc = put_forms(o, db, err);
	if (rc < 0)
		return rc;
	if (statvfs(ask->store, &fs) != 0)
		return 0;
	free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize);
	reply_int(o, "free_bytes", free_bytes);
	if (a_day > 0 && each > 0)
		reply_int(o, "full_in_days", (int64_t)((double)(free_bytes + room.unused) / (a_day * each)));
	return 0;
}

static void put_column(struct reply *o, const char *name, bool *any)
{
	if (*any)
		str_putc(&o->text, ',');
	*any = true;
	jx_write_stringz(&o->text, name);
}

bool report_is_asked(const struct report_ask *ask, const char *column)
{
	const char *name = strcmp(column, "claimed_client") == 0 ? "client"
		: strcmp(column, "on_behalf_of") == 0 ? "obo" : column;
	char word[72];

	(void)snprintf(word, sizeof(word), " %s ", name);
	if (*column == '_' || !ask->report->text_list || !ask->way->option || !strstr(ask->report->text_in, word))
		return *column != '_';
	(void)snprintf(word, sizeof(word), ",%s,", name);
	return strstr(ask->text, word);
}

static void put_columns(struct reply *o, const struct report_ask *ask, struct db_stmt *st, const char *const *names)
{
	unsigned n = st ? db_col_count(st) : 0;
	bool any = false;

	str_puts(&o->text, "},\"columns\":[");
	for (unsigned col = 0; col < n; col++)
		if (report_is_asked(ask, db_col_name(st, col)))
			put_column(o, db_col_name(st, col), &any);
	for (; names && *names; names++)
		put_column(o, *names, &any);
	str_puts(&o->text, "]}\n");
}

int report_head(struct reply *o, struct db *db, const struct report_ask *ask, struct db_stmt *columns,
		const char *const *names, struct err *err)
{
	struct basis b = { .ask = ask };
	uint64_t anchor_us = 0;
	int64_t anchored = -1;
	int rc = read_basis(db, &b, err);

	if (rc == 0)
		rc = newest_of(db, SQL_REPORT_HEAD_ANCHOR, 0, &anchor_us, &anchored, err);
	if (rc == 0) {
		str_puts(&o->text, "{\"header\":{");
		o->any = false;
		put_coverage(o, &b);
		if (ask->way->drawn)
			put_drawn(o, ask);
		if (ask->way->chosen && report_is_chosen(ask))
			put_chosen(o, ask);
		put_time_or(o, "checkpoint", b.sum.checkpoint_us, "none");
		if (b.sum.covered >= 0)
			reply_int(o, "signed", b.sum.covered);
		put_time_or(o, "anchor", anchor_us, "none");
		put_age(o, "anchor_age", anchor_us);
		put_verified(o, &b.sum.verified);
		if (ask->way->not_evidence)
			reply_text(o, "not_evidence", ask->way->not_evidence);
		reply_bool(o, "must_be_empty", ask->way->must_be_empty);
		if (ask->report->room)
			rc = put_room(o, db, ask, err);
		put_columns(o, ask, columns, names);
	}
	str_fini(&b.logs.text);
	return rc;
}

/* --- the columns of a row */

/* Columns whose numbers mean yes and no. */
static bool is_yes_or_no(const char *name)
{
	static const char *const names[] = { "undelivered", "not_executed", "broke_schema", "answered_by_caller" };

	for (size_t i = 0; i < NELEMS(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static void put_value(struct reply *o, struct db_stmt *st, unsigned col)
{
	const char *name = db_col_name(st, col);
	char number[32];
	size_t len = 0;
	const void *p;
	int n;

	switch (db_col_type(st, col)) {
	case DB_NULL:
		reply_text(o, name, NULL);
		break;
	case DB_INT:
		if (is_yes_or_no(name))
			reply_bool(o, name, db_col_i64(st, col) != 0);
		else
			reply_int(o, name, db_col_i64(st, col));
		break;
	case DB_FLOAT:
		n = snprintf(number, sizeof(number), "%.15g", db_col_f64(st, col));
		reply_raw(o, name, number, (size_t)n);
		break;
	case DB_TEXT:
		reply_text(o, name, db_col_text(st, col, NULL));
		break;
	case DB_BLOB:
		p = db_col_blob(st, col, &len);
		reply_hex(o, name, p, len);
		break;
	}
}

void report_columns(struct reply *o, const struct report_ask *ask, struct db_stmt *st)
{
	unsigned count = db_col_count(st);

	for (unsigned col = 0; col < count; col++)
		if (report_is_asked(ask, db_col_name(st, col)))
			put_value(o, st, col);
}
