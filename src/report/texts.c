/* Rows of records as texts, made in C: a statement hands over the columns of a record, and of the begin of its call
 * (db_row()), and here they become what the views v_records and v_calls say, byte for byte, at a tenth of their cost.
 * tests/integ/test_texts.py asks both.
 *
 * A page is a transaction; what was looked up in one is forgotten with the next, as names of people may go. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "report_int.h"

/* --- what statements hand over, in the order of their row_out(); B: of the begin, none in lists of all records */

enum {
	E_IDX, E_KIND, E_TS, E_CALL, E_PREV, E_TRACE, E_EXT, E_CRED, E_PRN, E_TOOL, E_RULE, E_OBO, E_PEER, E_CLIENT,
	E_REV, E_TDEF, E_POL, E_SCOPE, E_SBOX, E_OBJ, E_BOOT, E_BUILD, E_ACTOR, E_AUTHN, E_TPORT, E_CLK, E_OUTCOME,
	E_FLAGS, E_N_REQ, E_N_RES, E_N_STO, E_XSTAT, E_SIG, E_DUR, E_CPU, E_RSS, E_BEG, E_SYS, E_MDL, E_COUNT,
	B_RULE = E_COUNT, B_OBO, B_PEER, B_CLIENT, B_REV, B_TDEF, B_POL, B_SCOPE, B_SBOX, B_AUTHN, B_TPORT, B_N_REQ,
	B_SYS, B_MDL, B_COUNT,
};

enum how {
	AS_NUMBER, AS_THOUSANDTHS, AS_TIME, AS_LOG, AS_TENANT, AS_KIND, AS_OUTCOME, AS_TRANSPORT, AS_AUTHN, AS_ACTOR,
	AS_CLOCK, AS_LEVEL, AS_FLAG, AS_ID, AS_HEX, AS_WORD, AS_PERSON, AS_DETAIL, AS_FIELD_TEXT, AS_FIELD_HEX,
	AS_FIELD_NUMBER, AS_FIELD_SECOND,
};

/* Columns.  begin: the value of the begin where the record has none; of transport and authn, where it is no refusal;
 * 0: none.  more: the bit of a flag, the tag of a field. */
const struct report_column report_calls_columns[] = {
	{ "time", AS_TIME, E_TS, 0, 0 }, { "tenant", AS_TENANT, 0, 0, 0 }, { "tool", AS_WORD, E_TOOL, 0, 0 },
	{ "principal", AS_PERSON, E_PRN, 0, 0 }, { "key", AS_WORD, E_CRED, 0, 0 },
	{ "outcome", AS_OUTCOME, E_OUTCOME, 0, 0 },
	{ "ms", AS_THOUSANDTHS, E_DUR, 0, 0 }, { "rule", AS_WORD, E_RULE, B_RULE, 0 },
	{ "transport", AS_TRANSPORT, E_TPORT, B_TPORT, 0 }, { "revision", AS_WORD, E_REV, B_REV, 0 },
	{ "authn", AS_AUTHN, E_AUTHN, B_AUTHN, 0 }, { "definition", AS_WORD, E_TDEF, B_TDEF, 0 },
	{ "sandbox", AS_WORD, E_SBOX, B_SBOX, 0 }, { "request_bytes", AS_NUMBER, E_N_REQ, B_N_REQ, 0 },
	{ "result_bytes", AS_NUMBER, E_N_RES, 0, 0 }, { "status", AS_NUMBER, E_XSTAT, 0, 0 },
	{ "signal", AS_NUMBER, E_SIG, 0, 0 }, { "undelivered", AS_FLAG, E_FLAGS, 0, AUDIT_FLAG_UNDELIVERED },
	{ "not_executed", AS_FLAG, E_FLAGS, 0, AUDIT_FLAG_NOT_EXECUTED },
	{ "broke_schema", AS_FLAG, E_FLAGS, 0, AUDIT_FLAG_BROKE_SCHEMA }, { "on_behalf_of", AS_WORD, E_OBO, B_OBO, 0 },
	{ "address", AS_WORD, E_PEER, B_PEER, 0 }, { "client", AS_WORD, E_CLIENT, B_CLIENT, 0 },
	{ "system", AS_WORD, E_SYS, B_SYS, 0 }, { "model", AS_WORD, E_MDL, B_MDL, 0 },
	{ "policy", AS_WORD, E_POL, B_POL, 0 }, { "scopes", AS_WORD, E_SCOPE, B_SCOPE, 0 },
	{ "level", AS_LEVEL, E_FLAGS, 0, 0 },
	{ "call", AS_ID, E_CALL, 0, 0 }, { "previous", AS_ID, E_PREV, 0, 0 }, { "detail", AS_DETAIL, E_EXT, 0, 0 },
	{ .name = NULL },
};

const struct report_column report_tail_columns[] = {
	{ "index", AS_NUMBER, E_IDX, 0, 0 }, { "log", AS_LOG, 0, 0, 0 }, { "time", AS_TIME, E_TS, 0, 0 },
	{ "tenant", AS_TENANT, 0, 0, 0 }, { "kind", AS_KIND, E_KIND, 0, 0 }, { "tool", AS_WORD, E_TOOL, 0, 0 },
	{ "principal", AS_PERSON, E_PRN, 0, 0 }, { "outcome", AS_OUTCOME, E_OUTCOME, 0, 0 },
	{ "ms", AS_THOUSANDTHS, E_DUR, 0, 0 }, { "rule", AS_WORD, E_RULE, 0, 0 }, { "object", AS_WORD, E_OBJ, 0, 0 },
	{ "call", AS_ID, E_CALL, 0, 0 }, { "detail", AS_DETAIL, E_EXT, 0, 0 }, { .name = NULL },
};

const struct report_column report_export_columns[] = {
	{ "index", AS_NUMBER, E_IDX, 0, 0 }, { "log", AS_LOG, 0, 0, 0 }, { "time", AS_TIME, E_TS, 0, 0 },
	{ "tenant", AS_TENANT, 0, 0, 0 }, { "kind", AS_KIND, E_KIND, 0, 0 }, { "call", AS_ID, E_CALL, 0, 0 },
	{ "principal", AS_PERSON, E_PRN, 0, 0 }, { "pseudonym", AS_WORD, E_PRN, 0, 0 },
	{ "key", AS_WORD, E_CRED, 0, 0 },
	{ "tool", AS_WORD, E_TOOL, 0, 0 }, { "outcome", AS_OUTCOME, E_OUTCOME, 0, 0 },
	{ "rule", AS_WORD, E_RULE, 0, 0 },
	{ "ms", AS_THOUSANDTHS, E_DUR, 0, 0 }, { "transport", AS_TRANSPORT, E_TPORT, 0, 0 },
	{ "authn", AS_AUTHN, E_AUTHN, 0, 0 },
	{ "actor", AS_ACTOR, E_ACTOR, 0, 0 }, { "on_behalf_of", AS_WORD, E_OBO, 0, 0 },
	{ "address", AS_WORD, E_PEER, 0, 0 },
	{ "client", AS_WORD, E_CLIENT, 0, 0 }, { "system", AS_WORD, E_SYS, 0, 0 }, { "model", AS_WORD, E_MDL, 0, 0 },
	{ "revision", AS_WORD, E_REV, 0, 0 },
	{ "definition", AS_WORD, E_TDEF, 0, 0 },
	{ "policy", AS_WORD, E_POL, 0, 0 }, { "scopes", AS_WORD, E_SCOPE, 0, 0 }, { "sandbox", AS_WORD, E_SBOX, 0, 0 },
	{ "object", AS_WORD, E_OBJ, 0, 0 }, { "detail", AS_DETAIL, E_EXT, 0, 0 },
	{ "generation", AS_FIELD_NUMBER, E_EXT, 0, AUDIT_TAG_GENERATION },
	{ "receivers", AS_FIELD_NUMBER, E_EXT, 0, AUDIT_TAG_RECEIVERS },
	{ "before", AS_FIELD_HEX, E_EXT, 0, AUDIT_TAG_BEFORE },
	{ "after", AS_FIELD_HEX, E_EXT, 0, AUDIT_TAG_AFTER },
	{ "range_from", AS_FIELD_NUMBER, E_EXT, 0, AUDIT_TAG_RANGE },
	{ "range_to", AS_FIELD_SECOND, E_EXT, 0, AUDIT_TAG_RANGE },
	{ "ground", AS_FIELD_TEXT, E_EXT, 0, AUDIT_TAG_GROUND },
	{ "ticket", AS_FIELD_TEXT, E_EXT, 0, AUDIT_TAG_TICKET },
	{ "approver", AS_FIELD_TEXT, E_EXT, 0, AUDIT_TAG_APPROVER },
	{ "decision", AS_FIELD_TEXT, E_EXT, 0, AUDIT_TAG_DECISION },
	{ "request_bytes", AS_NUMBER, E_N_REQ, 0, 0 }, { "result_bytes", AS_NUMBER, E_N_RES, 0, 0 },
	{ "stored_bytes", AS_NUMBER, E_N_STO, 0, 0 }, { "level", AS_LEVEL, E_FLAGS, 0, 0 },
	{ "flags", AS_NUMBER, E_FLAGS, 0, 0 },
	{ "status", AS_NUMBER, E_XSTAT, 0, 0 }, { "signal", AS_NUMBER, E_SIG, 0, 0 },
	{ "cpu_ms", AS_THOUSANDTHS, E_CPU, 0, 0 },
	{ "rss_kib", AS_NUMBER, E_RSS, 0, 0 }, { "clock", AS_CLOCK, E_CLK, 0, 0 }, { "boot", AS_WORD, E_BOOT, 0, 0 },
	{ "build", AS_WORD, E_BUILD, 0, 0 }, { "previous", AS_ID, E_PREV, 0, 0 }, { "trace", AS_HEX, E_TRACE, 0, 0 },
	{ "begin", AS_NUMBER, E_BEG, 0, 0 }, { .name = NULL },
};

/* --- words of the dictionary, as JSON */

#define WORDS_MAX 4096                  /* a power of two; a word takes the place of another one with its last bits */
#define COLUMNS_MAX 64
#define DAY_S 86400

struct word { int64_t id; uint64_t page; struct str json; };   /* json empty: it has no text */

struct report_texts {
	struct db *db;
	const struct report_column *column;
	unsigned ncolumn;
	unsigned width;                 /* columns that the statement hands over */
	bool sparse;                    /* what is null is left out */
	const char *names[COLUMNS_MAX + 1];
	char *lead[COLUMNS_MAX];        /* what comes in front of a value: ,"tool": */
	int64_t log, tenant_id;
	uint64_t page;
	bool known;                     /* origin and tenant, on this page */
	struct str origin, tenant;      /* as JSON */
	struct word *words, *people;    /* WORDS_MAX each */
	int64_t day;                    /* of the last time, whose text is known */
	char date[16];
};

struct report_texts *report_texts_new(struct db *db, const struct report_column *column, const char *const *more,
				      bool sparse)
{
	struct report_texts *t = mem_zalloc(sizeof(*t));
	unsigned n;

	t->db = db;
	t->column = column;
	t->sparse = sparse;
	t->width = E_COUNT;
	for (; column[t->ncolumn].name; t->ncolumn++) {
		t->names[t->ncolumn] = column[t->ncolumn].name;
		t->lead[t->ncolumn] = mem_printf("%s\"%s\":", t->ncolumn ? "," : "", column[t->ncolumn].name);
		t->width = column[t->ncolumn].begin ? B_COUNT : t->width;
	}
	for (n = t->ncolumn; more && *more && n < COLUMNS_MAX; more++)
		t->names[n++] = *more;
	t->words = mem_calloc(WORDS_MAX, sizeof(*t->words));
	t->people = mem_calloc(WORDS_MAX, sizeof(*t->people));
	t->page = 1;
	t->day = -1;
	return t;
}

void report_texts_free(struct report_texts **tp)
{
	struct report_texts *t = *tp;

	if (!t)
		return;
	*tp = NULL;
	for (size_t i = 0; i < WORDS_MAX; i++) {
		str_fini(&t->words[i].json);
		str_fini(&t->people[i].json);
	}
	for (unsigned i = 0; i < t->ncolumn; i++)
		free(t->lead[i]);
	str_fini(&t->origin);
	str_fini(&t->tenant);
	free(t->words);
	free(t->people);
	free(t);
}

const char *const *report_texts_names(const struct report_texts *t)
{
	return t->names;
}

void report_texts_page(struct report_texts *t, int64_t log, int64_t tenant_id)
{
	t->page++;
	t->known = false;
	t->log = log;
	t->tenant_id = tenant_id;
}

static void take_text(struct db_stmt *st, unsigned col, struct str *json)
{
	str_reset(json);
	if (db_col_type(st, col) != DB_NULL)
		jx_write_stringz(json, db_col_text(st, col, NULL));
}

static int know_log(struct report_texts *t, struct err *err)
{
	struct db_stmt *st = db_stmt_get(t->db, SQL_REPORT_HEAD);
	int rc;

	db_bind_i64(st, 1, t->log);
	rc = db_step(st, err);
	if (rc == 1) {
		take_text(st, 0, &t->origin);
		take_text(st, 1, &t->tenant);
		t->known = true;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int look_up(struct report_texts *t, struct word *w, enum sql_id sql, int64_t id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(t->db, sql);
	int rc;

	db_bind_i64(st, 1, id);
	if (db_param_count(st) > 1)
		db_bind_i64(st, 2, t->tenant_id);
	rc = db_step(st, err);
	str_reset(&w->json);
	if (rc == 1)
		take_text(st, 0, &w->json);
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	w->id = id;
	w->page = t->page;
	return 0;
}

/* ret: its text as JSON, or NULL. */
static int word_of(struct report_texts *t, const struct db_value *v, bool person, const struct str **ret,
		   struct err *err)
{
	struct word *w;
	int rc = 0;

	*ret = NULL;
	if (v->type != DB_INT)
		return 0;
	w = &(person ? t->people : t->words)[(uint64_t)v->n % WORDS_MAX];
	if (w->id != v->n || w->page != t->page)
		rc = look_up(t, w, person ? SQL_REPORT_PERSON : SQL_REPORT_WORD, v->n, err);
	if (rc == 0 && w->json.len > 0)
		*ret = &w->json;
	return rc;
}

/* --- values */

static void put_null(struct str *out)
{
	str_put(out, "null", 4);
}

static void put_name(struct str *out, const char *name)
{
	if (!name) {
		put_null(out);
		return;
	}
	str_putc(out, '"');             /* none of ours needs an escape */
	str_puts(out, name);
	str_putc(out, '"');
}

/* One of a list that begins with 1. */
static void put_listed(struct str *out, const struct db_value *v, const char *const *list, size_t n)
{
	put_name(out, v->type == DB_INT && v->n >= 1 && v->n <= (int64_t)n ? list[v->n - 1] : NULL);
}

static void put_numbered(struct str *out, const char *name, const struct db_value *v)
{
	char number[24];

	if (v->type != DB_INT) {
		put_null(out);
		return;
	}
	(void)snprintf(number, sizeof(number), "%" PRId64, v->n);
	put_name(out, name ? name : number);
}

static void put_number(struct str *out, const struct db_value *v)
{
	if (v->type == DB_INT)
		str_put_i64(out, v->n);
	else
		put_null(out);
}

#define EXACT INT64_C(1000000000000000) /* as many digits as "%.15g" has */

static void put_thousandths(struct str *out, const struct db_value *v)
{
	char text[32];
	int n;

	if (v->type != DB_INT) {
		put_null(out);
		return;
	}
	if (v->n < 0 || v->n >= EXACT) {
		n = snprintf(text, sizeof(text), "%.15g", (double)v->n / 1000.0);
		str_put(out, text, (size_t)n);
		return;
	}
	str_put_u64(out, (unsigned long long)v->n / 1000);
	n = (int)(v->n % 1000);
	text[0] = '.';
	text[1] = (char)('0' + n / 100);
	text[2] = (char)('0' + n / 10 % 10);
	text[3] = (char)('0' + n % 10);
	if (n > 0)
		str_put(out, text, n % 10 ? 4 : n % 100 ? 3 : 2);
}

static void put_digits(char *at, unsigned n, unsigned digits)
{
	while (digits-- > 0) {
		at[digits] = (char)('0' + n % 10);
		n /= 10;
	}
}

static void put_time(struct report_texts *t, struct str *out, int64_t us)
{
	char text[40] = "\"", all[32];
	const unsigned s = (unsigned)(us / 1000000 % DAY_S);

	if (us < 0) {
		put_null(out);
		return;
	}
	if (us / 1000000 / DAY_S != t->day) {
		(void)clock_format_utc((uint64_t)us, all, sizeof(all));
		memcpy(t->date, all, 10);
		t->day = us / 1000000 / DAY_S;
	}
	memcpy(text + 1, t->date, 10);
	memcpy(text + 11, "T00:00:00.000000Z\"", 18);
	put_digits(text + 12, s / 3600, 2);
	put_digits(text + 15, s / 60 % 60, 2);
	put_digits(text + 18, s % 60, 2);
	put_digits(text + 21, (unsigned)(us % 1000000), 6);
	str_put(out, text, 29);
}

/* As the id of a call is written, with dashes behind the bytes 4, 6, 8 and 10. */
static void put_id(struct str *out, const struct db_value *v)
{
	char hex[2 * 16 + 4 + 3], *at = hex;

	if (v->type != DB_BLOB || v->len != 16) {
		put_null(out);
		return;
	}
	*at++ = '"';
	for (unsigned i = 0; i < 16; i++) {
		if (i >= 4 && i <= 10 && i % 2 == 0)
			*at++ = '-';
		text_hex((const uint8_t *)v->p + i, 1, at);
		at += 2;
	}
	*at++ = '"';
	str_put(out, hex, (size_t)(at - hex));
}

static void put_hex(struct str *out, const void *p, size_t len)
{
	char *hex;

	if (!p) {
		put_null(out);
		return;
	}
	hex = mem_alloc(2 * len + 1);
	text_hex(p, len, hex);
	put_name(out, hex);
	free(hex);
}

static void put_level(struct str *out, const struct db_value *v)
{
	static const char *const levels[] = { "metadata", "request", "request_response", NULL };
	const bool of_call = v[E_KIND].n >= AUDIT_CALL_BEGIN && v[E_KIND].n <= AUDIT_CALL_RECOVERED;

	put_name(out, of_call ? levels[v[E_FLAGS].type == DB_INT ? v[E_FLAGS].n & 3 : 0] : NULL);
}

/* --- fields of ext */

static const uint8_t *field(const struct db_value *ext, unsigned tag, size_t *ret_len)
{
	return ext->type == DB_BLOB && ext->len > 0 ? audit_field_find(ext->p, ext->len, tag, ret_len) : NULL;
}

/* As a text of the database: up to its first NUL. */
static void put_text(struct str *out, const uint8_t *p, size_t len)
{
	if (p)
		jx_write_string(out, (const char *)p, strnlen((const char *)p, len));
	else
		put_null(out);
}

/* The first of the two. */
static void put_detail(struct str *out, const struct db_value *ext)
{
	size_t len = 0, other_len = 0;
	const uint8_t *p = field(ext, AUDIT_TAG_REASON, &len), *other = field(ext, AUDIT_TAG_COMMAND, &other_len);

	if (other && (!p || other < p))
		put_text(out, other, other_len);
	else
		put_text(out, p, len);
}

/* 8 bytes behind so many. */
static void put_field_number(struct str *out, const struct db_value *ext, unsigned tag, size_t behind)
{
	size_t len = 0;
	const uint8_t *p = field(ext, tag, &len);
	char text[32];
	uint64_t n;

	if (!p || len < behind + 8) {
		put_null(out);
		return;
	}
	n = audit_get_be(p + behind, 8);
	if (n <= INT64_MAX) {
		str_put_u64(out, n);
		return;
	}
	(void)snprintf(text, sizeof(text), "%.15g", (double)n);
	str_puts(out, text);
}

/* --- a row */

static const struct db_value *either(const struct db_value *v, const struct report_column *c)
{
	return c->begin && v[c->at].type == DB_NULL ? &v[c->begin] : &v[c->at];
}

/* Of calls it is the begin that says so, unless they have none. */
static const struct db_value *of_call(const struct db_value *v, const struct report_column *c)
{
	return c->begin && v[E_KIND].n != AUDIT_CALL_DENIED ? &v[c->begin] : &v[c->at];
}

static int put_word(struct report_texts *t, struct str *out, const struct db_value *v, const struct report_column *c,
		    struct err *err)
{
	const struct str *json;
	int rc = word_of(t, &v[c->at], c->how == AS_PERSON, &json, err);

	if (rc == 0 && !json && c->begin)
		rc = word_of(t, &v[c->begin], false, &json, err);
	if (json)
		str_put(out, json->p, json->len);
	else
		put_null(out);
	return rc;
}

static void put_said(struct str *out, const struct str *json)
{
	if (json->len > 0)
		str_put(out, json->p, json->len);
	else
		put_null(out);
}

static int code_of(const struct db_value *v)
{
	return v->type == DB_INT && v->n >= 0 && v->n <= INT16_MAX ? (int)v->n : -1;
}

/* What says which log, what and how. */
static void put_named(struct report_texts *t, struct str *out, const struct db_value *v, const struct report_column *c)
{
	static const char *const authn[] = { "key", "jwt", "mtls", "uid", "bound", "none" };
	static const char *const actors[] = { "service", "human", "admin", "uid", "system" };
	static const char *const clocks[] = { "synchronised", "not synchronised", "stepped" };
	const struct db_value *one = &v[c->at];

	switch (c->how) {
	case AS_LOG:
		put_said(out, &t->origin);
		break;
	case AS_TENANT:
		put_said(out, &t->tenant);
		break;
	case AS_KIND:
		put_numbered(out, audit_kind_name(code_of(one)), one);
		break;
	case AS_OUTCOME:
		put_numbered(out, audit_outcome_name(code_of(one)), one);
		break;
	case AS_TRANSPORT:
		one = of_call(v, c);
		put_name(out, code_of(one) >= AUDIT_STDIO ? audit_tport_name(code_of(one)) : NULL);
		break;
	case AS_AUTHN:
		put_listed(out, of_call(v, c), authn, NELEMS(authn));
		break;
	case AS_ACTOR:
		put_listed(out, one, actors, NELEMS(actors));
		break;
	default:
		put_listed(out, one, clocks, NELEMS(clocks));
	}
}

static void put_field(struct str *out, const struct db_value *ext, const struct report_column *c)
{
	size_t len = 0;
	const uint8_t *p;

	if (c->how == AS_DETAIL) {
		put_detail(out, ext);
	} else if (c->how == AS_FIELD_NUMBER || c->how == AS_FIELD_SECOND) {
		put_field_number(out, ext, c->more, c->how == AS_FIELD_SECOND ? 8 : 0);
	} else {
		p = field(ext, c->more, &len);
		if (c->how == AS_FIELD_TEXT)
			put_text(out, p, len);
		else
			put_hex(out, p, len);
	}
}

static int put_value(struct report_texts *t, struct str *out, const struct db_value *v, const struct report_column *c,
		     struct err *err)
{
	const struct db_value *one = &v[c->at];

	switch ((enum how)c->how) {
	case AS_NUMBER:
		put_number(out, either(v, c));
		break;
	case AS_THOUSANDTHS:
		put_thousandths(out, one);
		break;
	case AS_TIME:
		put_time(t, out, one->n);
		break;
	case AS_LEVEL:
		put_level(out, v);
		break;
	case AS_FLAG:
		str_puts(out, one->type == DB_INT && one->n & c->more ? "true" : "false");
		break;
	case AS_ID:
		put_id(out, one);
		break;
	case AS_HEX:
		put_hex(out, one->type == DB_BLOB && one->len > 0 ? one->p : NULL, one->len);
		break;
	case AS_WORD:
	case AS_PERSON:
		return put_word(t, out, v, c, err);
	case AS_DETAIL:
	case AS_FIELD_TEXT:
	case AS_FIELD_HEX:
	case AS_FIELD_NUMBER:
	case AS_FIELD_SECOND:
		put_field(out, one, c);
		break;
	case AS_LOG:
	case AS_TENANT:
	case AS_KIND:
	case AS_OUTCOME:
	case AS_TRANSPORT:
	case AS_AUTHN:
	case AS_ACTOR:
	case AS_CLOCK:
		put_named(t, out, v, c);
	}
	return 0;
}

void report_texts_basics(struct db_stmt *st, int64_t *ret_ts, int *ret_kind, int *ret_outcome)
{
	const struct db_value *v = db_row(st, E_COUNT);

	*ret_ts = v && v[E_TS].type == DB_INT ? v[E_TS].n : 0;
	*ret_kind = v ? code_of(&v[E_KIND]) : -1;
	*ret_outcome = v ? code_of(&v[E_OUTCOME]) : -1;
}

static bool is_null(const struct str *text, size_t from)
{
	return text->len - from == 4 && memcmp(text->p + from, "null", 4) == 0;
}

int report_texts_row(struct report_texts *t, struct db_stmt *st, struct reply *o, struct err *err)
{
	const struct db_value *v = db_row(st, t->width);
	int rc = t->known ? 0 : know_log(t, err);

	if (rc == 0 && !v)
		return err_set(err, ERR_INTERNAL, "report", "a row of records did not come out");
	for (unsigned i = 0; rc == 0 && i < t->ncolumn; i++) {
		const size_t before = o->text.len;
		size_t from;

		str_puts(&o->text, t->lead[i]);
		from = o->text.len;
		rc = put_value(t, &o->text, v, &t->column[i], err);
		if (t->sparse && is_null(&o->text, from)) {
			o->text.len = before;
			o->text.p[before] = '\0';
		}
	}
	o->any = true;
	return rc;
}
