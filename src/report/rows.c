/* The rows of a report: its statement, asked log by log and page by page.  Rows of several logs become one list, the
 * newest first, so that a limit leaves out the oldest of all; counts are added up.  A page is a
 * read transaction (AUDIT A-623). */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "forms/forms.h"

#include "report_int.h"

/* --- counts of several logs: groups are added up where they are the same ones, the largest first */

#define GROUPS_MAX 100000

/* What a column of a group is, by its name: all else says which group it is. */
enum part { KEY, COUNT, AVERAGE, FIRST, LAST };
static const struct { const char *name; enum part part; } parts[] = {
	{ "calls", COUNT }, { "failures", COUNT }, { "ok", COUNT }, { "not_ok", COUNT }, { "average_ms", AVERAGE },
	{ "first", FIRST }, { "last", LAST }, { "_timed", COUNT },
};

struct value { enum db_type type; double number; char *text; };
struct column { char *name; enum part part; };
struct sums {
	const struct report_ask *ask;
	struct column *column;
	unsigned ncolumn, by, timed;    /* the count that orders the rows, and that which weighs averages */
	struct map *groups;             /* the key columns -> struct value[ncolumn] */
};

static struct sums *sums_new(const struct report_ask *ask)
{
	struct sums *s = mem_zalloc(sizeof(*s));

	s->ask = ask;
	s->groups = map_new();
	return s;
}

static void free_group(const struct sums *s, struct value *v)
{
	for (unsigned i = 0; i < s->ncolumn; i++)
		free(v[i].text);
	free(v);
}

static void sums_free(struct sums **sp)
{
	struct sums *s = *sp;
	void *v;

	if (!s)
		return;
	for (size_t it = 0; map_next(s->groups, &it, NULL, NULL, &v); )
		free_group(s, v);
	map_free(&s->groups);
	for (unsigned i = 0; i < s->ncolumn; i++)
		free(s->column[i].name);
	free(s->column);
	free(s);
	*sp = NULL;
}

static void take_columns(struct sums *s, struct db_stmt *st)
{
	s->ncolumn = db_col_count(st);
	s->column = mem_calloc(s->ncolumn, sizeof(*s->column));
	for (unsigned i = s->ncolumn; i-- > 0; ) {
		struct column *c = &s->column[i];

		c->name = mem_strdup(db_col_name(st, i));
		for (size_t k = 0; k < NELEMS(parts); k++)
			if (strcmp(parts[k].name, c->name) == 0)
				c->part = parts[k].part;
		if (strcmp(c->name, "_timed") == 0)
			s->timed = i;
		else if (c->part == COUNT)
			s->by = i;
	}
}

static struct value value_of(struct db_stmt *st, unsigned col)
{
	struct value v = { db_col_type(st, col), 0, NULL };

	if (v.type == DB_INT || v.type == DB_FLOAT)
		v.number = db_col_f64(st, col);
	else if (v.type != DB_NULL)
		v.text = db_col_dup(st, col);
	return v;
}

static struct value *values_of(const struct sums *s, struct db_stmt *st)
{
	struct value *row = mem_calloc(s->ncolumn, sizeof(*row));

	for (unsigned i = 0; i < s->ncolumn; i++)
		row[i] = value_of(st, i);
	return row;
}

static void put_key(struct str *key, const struct value *v)
{
	str_printf(key, "%d:", (int)v->type);
	if (v->text)
		str_puts(key, v->text);
	else
		str_printf(key, "%.17g", v->number);
	str_putc(key, '\0');
}

/* The later or the earlier of two times, which are texts of one length. */
static void keep_time(struct value *sum, struct value *v, bool later)
{
	int order = sum->text && v->text ? strcmp(v->text, sum->text) : v->text ? 1 : 0;

	if (order && (!sum->text || (order > 0) == later)) {
		struct value old = *sum;

		*sum = *v;
		*v = old;
	}
}

static void add_row(const struct sums *s, struct value *sum, struct value *row)
{
	const double n = sum[s->timed].number, more = row[s->timed].number;

	for (unsigned i = 0; i < s->ncolumn; i++) {
		struct value *a = &sum[i], *b = &row[i];

		switch (s->column[i].part) {
		case KEY:
			break;
		case COUNT:
			a->number += b->number;
			break;
		case AVERAGE:
			if (a->type == DB_NULL)
				*a = *b;
			else if (b->type != DB_NULL)
				a->number = (a->number * n + b->number * more) / (n + more);
			break;
		case FIRST:
		case LAST:
			keep_time(a, b, s->column[i].part == LAST);
			break;
		}
	}
}

static int sums_add(struct sums *s, struct db_stmt *st, struct err *err)
{
	struct str key = STR_INIT;
	struct value *row, *sum;
	int rc = 0;

	if (!s->column)
		take_columns(s, st);
	row = values_of(s, st);
	for (unsigned i = 0; i < s->ncolumn; i++)
		if (s->column[i].part == KEY)
			put_key(&key, &row[i]);
	sum = map_get(s->groups, str_text(&key), key.len);
	if (sum) {
		add_row(s, sum, row);
		free_group(s, row);
	} else if (map_count(s->groups) < GROUPS_MAX) {
		(void)map_set(s->groups, str_text(&key), key.len, row);
	} else {
		free_group(s, row);
		rc = err_set(err, ERR_LIMIT, "", "more than %d groups", GROUPS_MAX);
		err_hint(err, "--tenant, --since and --until make it fewer");
	}
	str_fini(&key);
	return rc;
}

struct group { const struct sums *sums; const struct value *v; };

static int largest_first(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	const struct sums *s = x->sums;
	double more = y->v[s->by].number - x->v[s->by].number;

	if (more != 0)
		return more > 0 ? 1 : -1;
	for (unsigned i = 0; i < s->ncolumn; i++) {
		const struct value *u = &x->v[i], *w = &y->v[i];
		int order = u->text && w->text ? strcmp(u->text, w->text) : (u->text != NULL) - (w->text != NULL);

		if (s->column[i].part == KEY && order)
			return order;
	}
	return 0;
}

static void put_group(const struct sums *s, const struct value *v, struct reply *o)
{
	char number[40];
	int n;

	reply_row_begin(o);
	for (unsigned i = 0; i < s->ncolumn; i++) {
		if (!report_is_asked(s->ask, s->column[i].name))
			continue;
		if (v[i].text || v[i].type == DB_NULL) {
			reply_text(o, s->column[i].name, v[i].text);
		} else if (v[i].type == DB_INT) {
			reply_int(o, s->column[i].name, (int64_t)v[i].number);
		} else {
			n = snprintf(number, sizeof(number), "%.15g", round(v[i].number * 1000) / 1000);
			reply_raw(o, s->column[i].name, number, (size_t)n);
		}
	}
	reply_row_end(o);
}

static void sums_put(const struct sums *s, int64_t limit, struct reply *o)
{
	size_t n = map_count(s->groups), i = 0;
	struct group *all = mem_calloc(n ? n : 1, sizeof(*all));
	void *v;

	for (size_t it = 0; map_next(s->groups, &it, NULL, NULL, &v); i++)
		all[i] = (struct group){ s, v };
	qsort(all, n, sizeof(*all), largest_first);
	for (i = 0; i < n && (int64_t)i < limit && !reply_full(o); i++)
		put_group(s, all[i].v, o);
	free(all);
}

/* --- a page of a log */

#define PARAMS 12
#define PASSED_BYTES 65536              /* of rows of several logs, which come one by one */
#define HELD_ROWS 10000                 /* that wait for their turn, of all logs; one of each may on top */

/* A log on its way from its newest record down. */
struct walk {
	int64_t log, below;             /* what comes next lies below this position */
	int64_t width;                  /* positions that are looked at next */
};

/* A row that waits. */
struct held { int64_t ts, idx; char *text; size_t len; };

/* A log among several, and those of its rows that come next. */
struct lane {
	struct walk walk;
	int64_t tenant_id, below;       /* the rows below this position have not been said */
	struct held *row;
	size_t n, next;
	int64_t page;                   /* rows of the next look */
};

struct rows {
	struct report_out *out;
	const struct report_ask *ask;
	const struct report_cursor *from;
	int64_t tenant_id;              /* of the log that is asked */
	int64_t left;                   /* rows that may still be said */
	int64_t got, ts, idx;           /* rows of the page, and where its last one stands */
	size_t met;                     /* of the logs that the cursor names */
	struct report_look look;
	struct report_texts *texts;     /* what makes rows, or NULL: they are the statement's */
	struct lane *lane;              /* where they wait; NULL: they are said at once */
	struct sums *sums;              /* or where they are added up */
	struct lane **heap;             /* lanes with a row to say, the newest on top */
	size_t lanes;
	int64_t held;
	int64_t looked;                 /* positions of parts that were read, and parts that were passed over */
	uint64_t until_us;              /* monotonic */
	bool tired;                     /* that is enough for once */
};

static const char *or_null(const char *text)
{
	return *text ? text : NULL;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void report_bind(struct db_stmt *st, const struct report_ask *ask, int64_t log, int64_t low, int64_t below,
		 int64_t rows)
{
	const int64_t number[PARAMS] = { log, report_since(ask), report_until(ask), 0, 0, 0, ask->outcome, rows, below, low, 0,
		ask->number };
	const char *const text[PARAMS] = { [3] = or_null(ask->tool), [4] = or_null(ask->pseudonym),
		[5] = or_null(ask->key), [10] = ask->as_text ? ask->text : NULL };
	static const bool is_text[PARAMS] = { [3] = true, [4] = true, [5] = true, [10] = true };
	unsigned count = db_param_count(st);

	if (count > PARAMS)
		db_bind_row(st, PARAMS + 1);
	for (unsigned i = 0; i < PARAMS && i < count; i++) {
		if (is_text[i])
			db_bind_textz(st, i + 1, text[i]);
		else
			db_bind_i64(st, i + 1, number[i]);
	}
}

static void find_place(struct rows *r, struct db_stmt *st)
{
	unsigned count = db_col_count(st);

	for (unsigned col = 0; col < count; col++) {
		if (strcmp(db_col_name(st, col), "_ts") == 0)
			r->ts = db_col_i64(st, col);
		if (strcmp(db_col_name(st, col), "_idx") == 0)
			r->idx = db_col_i64(st, col);
	}
}

static int put_members(struct rows *r, struct db_stmt *st, struct reply *o, struct err *err)
{
	int rc = 0;

	reply_row_begin(o);
	if (r->texts)
		rc = report_texts_row(r->texts, st, o, err);
	else
		report_columns(o, r->ask, st);
	reply_row_end(o);
	return rc;
}

static int hold_row(struct rows *r, struct db_stmt *st, struct err *err)
{
	struct lane *lane = r->lane;
	struct reply o = { STR_INIT, false, 0 };
	int rc = put_members(r, st, &o, err);

	lane->row = mem_realloc(lane->row, (lane->n + 1) * sizeof(*lane->row));
	lane->row[lane->n] = (struct held){ r->ts, r->idx, NULL, o.text.len };
	lane->row[lane->n++].text = str_take(&o.text);
	r->held++;
	return rc;
}

static int put_row(struct rows *r, struct db_stmt *st, struct err *err)
{
	int rc = put_members(r, st, r->out->reply, err);

	if (r->ask->way->paged)
		r->out->seen(r->out->arg, r->tenant_id, r->idx);
	r->left--;
	return rc;
}

/* One more than may be said shows that the limit leaves some out. */
static int take_row(struct rows *r, struct db_stmt *st, struct err *err)
{
	const int64_t above = r->idx;
	struct report_out *out = r->out;
	int rc = 0;

	r->got++;
	find_place(r, st);
	if (r->sums)
		return sums_add(r->sums, st, err);
	if (r->lane) {
		rc = hold_row(r, st, err);
	} else if (r->left > 0) {
		rc = put_row(r, st, err);
	} else {
		out->more = true;
		r->idx = above;
	}
	return rc == 0 && out->hold && out->reply->text.len >= REPORT_HELD ? out->hold(out->arg, err) : rc;
}

/* No statement is open: whoever reads may take what was said, and his time (SCALE SC-505). */
static int pass_on(struct rows *r, size_t least_bytes, struct err *err)
{
	struct report_out *out = r->out;

	return out->part && out->reply->text.len >= least_bytes ? out->part(out->arg, err) : 0;
}

static enum sql_id sql_of(const struct report_way *way, const struct db *db)
{
	return way->forms && forms_seen(db) ? way->forms : way->sql;
}

/* One read transaction. */
static int ask_page(struct rows *r, struct db *db, int64_t log, int64_t low, int64_t below, int64_t rows,
		    struct err *err)
{
	struct db_stmt *st;
	int rc = forms_see(db, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, sql_of(r->ask->way, db));
	report_bind(st, r->ask, log, low, below, rows);
	if (r->texts)
		report_texts_page(r->texts, log, r->tenant_id);
	r->got = 0;
	while (rc == 0 && !reply_full(r->out->reply) && (rc = db_step(st, err)) == 1)
		rc = take_row(r, st, err);
	db_stmt_put(&st);
	return rc;
}

/* --- parts that are worth reading */


/* Then it is said where to go on (CONSOLE C-501).  Something has been looked at by then, so that who asks gets on. */
static bool is_enough(struct rows *r)
{
	if (r->ask->look && !r->lane && (r->looked >= r->ask->look || (r->looked > 0 && clock_mono_us() >= r->until_us)))
		r->tired = true;
	return r->tired;
}

/* The next part that is worth reading, from *ret_low to below w->below: 1, or 0 when there is none.  Parts in which
 * nothing is grow, the others are narrowed until they are small. */
static int next_part(struct rows *r, struct db *db, struct walk *w, int64_t *ret_low, struct err *err)
{
	int64_t first;
	const int64_t most = report_part(r->ask, db, &first);

	*ret_low = 0;
	if (!r->ask->way->walked)
		return w->below > 0;
	if (w->width == 0)
		w->width = first;
	while (w->below > 0 && !is_enough(r)) {
		const int64_t low = w->below > w->width ? w->below - w->width : 0;
		int64_t newest;
		int rc = report_look(&r->look, db, w->log, low, w->below, &newest, err);

		if (rc < 0)
			return rc;
		if (rc == 1 && newest >= 0) {
			w->below = newest + 1;
			*ret_low = w->below > most ? w->below - most : 0;
			return 1;
		}
		if (rc == 0) {
			w->below = low;
			r->looked++;
			w->width = least(4 * w->width, INT64_MAX / 8);
		} else if (w->below - low > most) {
			w->width = (w->below - low) / 4 > most ? (w->below - low) / 4 : most;
		} else {
			*ret_low = low;
			return 1;
		}
	}
	return 0;
}

/* So many of the next rows of a log, fewer when it has no more: w->below is 0 then. */
static int ask_rows(struct rows *r, struct db *db, struct walk *w, int64_t rows, struct err *err)
{
	int64_t low, page, above;
	int rc = 0;

	while (rc == 0 && rows > 0 && w->below > 0 && !reply_full(r->out->reply) && !is_enough(r)) {
		page = least(rows, REPORT_PAGE);
		rc = forms_see(db, err);
		rc = rc < 0 ? rc : next_part(r, db, w, &low, err);
		if (rc <= 0)
			break;
		above = w->below;
		rc = ask_page(r, db, w->log, low, w->below, page, err);
		w->below = r->got == page ? r->idx : low;
		r->looked += above - w->below;
		rows -= r->got;
		rc = rc < 0 ? rc : pass_on(r, r->lane ? PASSED_BYTES : 0, err);
	}
	return rc;
}

/* A log begins to be read at its newest record, or where the cursor says.  What is written from now on is not shown. */
static int open_walk(struct rows *r, struct db *db, int64_t log, struct walk *w, struct err *err)
{
	const struct report_cursor *from = r->from;
	struct report_record last;
	size_t i = 0;
	int rc = report_record_at(db, SQL_REPORT_PLACE_BELOW, log, INT64_MAX, &last, err);

	*w = (struct walk){ .log = log, .below = rc == 1 ? last.idx + 1 : 0 };
	if (rc < 0 || !from)
		return rc < 0 ? rc : 0;
	while (i < from->n && from->place[i].log != log)
		i++;
	if (i < from->n && from->place[i].below > w->below)
		return err_set(err, ERR_INVALID, "after", "after: the cursor is of a newer state of the store: it names record %"
			       PRId64 ", of a log that has %" PRId64, from->place[i].below, w->below);
	w->below = i < from->n ? from->place[i].below : 0;
	r->met += i < from->n;
	return 0;
}

/* A cursor that names a log which the question has not is none that anybody was given. */
static int check_met(const struct rows *r, struct err *err)
{
	return !r->from || r->met == r->from->n ? 0
		: err_set(err, ERR_INVALID, "after", "after: the cursor names a log that is no part of the question");
}

/* So many are asked for, to know whether there are more; of a sample there are always. */
static int64_t one_more(const struct rows *r)
{
	return r->left < INT64_MAX && !r->ask->way->drawn ? r->left + 1 : r->left;
}

/* It goes on at the record below; when that was, says how far back this was looked for. */
static int stop_at(struct rows *r, struct db *db, const struct walk *w, struct err *err)
{
	struct report_record next;
	int rc = report_record_at(db, SQL_REPORT_PLACE_BELOW, w->log, w->below, &next, err);

	r->out->more = rc == 1;
	r->out->looked_us = rc == 1 ? (uint64_t)next.ts : 0;
	r->idx = w->below;
	return rc < 0 ? rc : 0;
}

static int ask_paged(struct rows *r, struct db *db, int64_t log, struct err *err)
{
	struct report_place at = { .log = log };
	struct walk w;
	int rc = open_walk(r, db, log, &w, err);

	if (rc == 0)
		rc = check_met(r, err);
	r->idx = w.below;
	if (rc == 0)
		rc = ask_rows(r, db, &w, one_more(r), err);
	if (rc == 0 && r->tired && !r->out->more)
		rc = stop_at(r, db, &w, err);
	at.below = r->idx;
	return rc == 0 && r->out->more ? report_cursor_text(db, r->ask, &at, 1, &r->out->next, err) : rc;
}

static int ask_log(struct rows *r, struct db *db, int64_t log, struct err *err)
{
	int rc;

	r->out->seen(r->out->arg, r->tenant_id, -1);
	if (r->ask->way->paged)
		return ask_paged(r, db, log, err);
	rc = ask_page(r, db, log, 0, r->ask->to >= 0 ? r->ask->to + 1 : INT64_MAX, one_more(r), err);
	rc = rc < 0 ? rc : pass_on(r, PASSED_BYTES, err);
	return rc;
}

/* --- several logs, one after another: what has no time, or is added up */

static int ask_each(struct rows *r, struct db *db, int64_t log, struct err *err)
{
	const int64_t left = r->left;
	int rc;

	if (r->sums)
		r->left = GROUPS_MAX + 1;
	while ((rc = report_next_log(db, &log, &r->tenant_id, err)) == 0 && log > 0 && !r->out->more
		&& !reply_full(r->out->reply)) {
		rc = ask_log(r, db, log, err);
		if (rc < 0)
			return rc;
	}
	if (rc == 0 && r->sums) {
		sums_put(r->sums, left, r->out->reply);
		r->out->more = (int64_t)map_count(r->sums->groups) > left;
	}
	return rc;
}

/* --- several logs, merged by time: each in its own order, the next row is the newest of those that come next */

static const struct held *top_of(const struct lane *lane)
{
	return &lane->row[lane->next];
}

/* By time; of the same moment, the older log's first, so that an order is an order. */
static bool is_before(const struct lane *a, const struct lane *b)
{
	const int64_t x = top_of(a)->ts, y = top_of(b)->ts;

	return x != y ? x > y : a->walk.log < b->walk.log;
}

static void sink(struct rows *r, size_t i)
{
	for (size_t child; (child = 2 * i + 1) < r->lanes; i = child) {
		struct lane *lane = r->heap[i];

		if (child + 1 < r->lanes && is_before(r->heap[child + 1], r->heap[child]))
			child++;
		if (!is_before(r->heap[child], lane))
			return;
		r->heap[i] = r->heap[child];
		r->heap[child] = lane;
	}
}

/* The next rows of a lane that has said all of its own, none when it has ended. */
static int fill(struct rows *r, struct db *db, struct lane *lane, struct err *err)
{
	const int64_t room = r->held < HELD_ROWS ? HELD_ROWS - r->held : 1, left = r->left > 0 ? r->left : 1;
	const int64_t rows = least(least(lane->page, REPORT_PAGE), least(left, room));
	int rc;

	lane->n = lane->next = 0;
	r->lane = lane;
	r->tenant_id = lane->tenant_id;
	rc = ask_rows(r, db, &lane->walk, rows, err);
	r->lane = NULL;
	lane->page = 2 * rows;
	return rc;
}

static int find_lanes(struct rows *r, struct db *db, int64_t log, struct err *err)
{
	int64_t tenant_id;
	int rc;

	while ((rc = report_next_log(db, &log, &tenant_id, err)) == 0 && log > 0) {
		struct lane *lane = mem_zalloc(sizeof(*lane));

		lane->tenant_id = tenant_id;
		r->heap = mem_realloc(r->heap, (r->lanes + 1) * sizeof(struct lane *));
		r->heap[r->lanes++] = lane;
		rc = open_walk(r, db, log, &lane->walk, err);
		lane->below = lane->walk.below;
		if (rc < 0)
			return rc;
	}
	return rc < 0 ? rc : check_met(r, err);
}

static void free_lane(struct lane *lane)
{
	for (size_t i = lane->next; i < lane->n; i++)
		free(lane->row[i].text);
	free(lane->row);
	free(lane);
}

/* First looks: of each log its share of what is wanted, so that many logs cost no more than a few. */
static int fill_all(struct rows *r, struct db *db, struct err *err)
{
	const int64_t share = r->lanes ? least(r->left, HELD_ROWS) / (int64_t)r->lanes : 0;
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < r->lanes; i++) {
		struct lane *lane = r->heap[i];

		lane->page = share > 0 ? share : 1;
		r->out->seen(r->out->arg, lane->tenant_id, -1);
		rc = rc < 0 ? rc : fill(r, db, lane, err);
		if (rc == 0 && lane->n > 0)
			r->heap[n++] = lane;
		else
			free_lane(lane);
	}
	r->lanes = n;
	for (size_t i = n / 2; i-- > 0; )
		sink(r, i);
	return rc;
}

static int say_newest(struct rows *r, struct db *db, struct err *err)
{
	struct lane *lane = r->heap[0];
	struct held *row = &lane->row[lane->next++];
	int rc = 0;

	str_put(&r->out->reply->text, row->text, row->len);
	r->out->reply->rows++;
	r->out->seen(r->out->arg, lane->tenant_id, row->idx);
	lane->below = row->idx;
	free(row->text);
	r->held--;
	r->left--;
	if (lane->next == lane->n)
		rc = fill(r, db, lane, err);
	if (lane->next == lane->n) {
		r->heap[0] = r->heap[--r->lanes];
		free_lane(lane);
	}
	sink(r, 0);
	return rc < 0 ? rc : pass_on(r, PASSED_BYTES, err);
}

static int by_log(const void *a, const void *b)
{
	const struct report_place *x = a, *y = b;

	return x->log < y->log ? -1 : x->log > y->log;
}

/* A log that has nothing more to say is left out. */
static int put_next(struct rows *r, struct db *db, struct err *err)
{
	struct report_place *at = mem_calloc(r->lanes, sizeof(*at));
	int rc;

	for (size_t i = 0; i < r->lanes; i++)
		at[i] = (struct report_place){ r->heap[i]->walk.log, r->heap[i]->below };
	qsort(at, r->lanes, sizeof(*at), by_log);
	rc = report_cursor_text(db, r->ask, at, r->lanes, &r->out->next, err);
	free(at);
	return rc;
}

static int ask_merged(struct rows *r, struct db *db, int64_t log, struct err *err)
{
	int rc = find_lanes(r, db, log, err);

	if (rc == 0)
		rc = fill_all(r, db, err);
	while (rc == 0 && r->lanes > 0 && r->left > 0 && !reply_full(r->out->reply))
		rc = say_newest(r, db, err);
	r->out->more = rc == 0 && r->lanes > 0;
	return r->out->more ? put_next(r, db, err) : rc;
}

/* --- all of it */

static int put_head(struct rows *r, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql_of(r->ask->way, db));
	int rc = report_head(r->out->reply, db, r->ask, st, r->texts ? report_texts_names(r->texts) : NULL, err);

	db_stmt_put(&st);
	return rc;
}

static int put_rows(struct report_out *out, struct db *db, const struct report_ask *ask,
		    const struct report_cursor *from, struct err *err)
{
	struct rows r = { .out = out, .ask = ask, .look = { .ask = ask }, .from = from, .tenant_id = ask->tenant_id,
			  .left = ask->limit > 0 ? ask->limit : INT64_MAX, .until_us = clock_mono_us() + REPORT_LOOK_US };
	const int64_t before = report_ask_scope(ask) == SCOPE_TENANTS ? 1 : 0;  /* the first log is the system's */
	int rc;

	r.texts = ask->way->columns ? report_texts_new(db, ask->way->columns, NULL, false) : NULL;
	rc = put_head(&r, db, err);
	r.sums = ask->log == 0 && ask->way->sums ? sums_new(ask) : NULL;
	if (rc == 0 && ask->log > 0)
		rc = ask_log(&r, db, ask->log, err);
	else if (rc == 0 && ask->way->paged)
		rc = ask_merged(&r, db, before, err);
	else if (rc == 0)
		rc = ask_each(&r, db, before, err);
	for (size_t i = 0; i < r.lanes; i++)
		free_lane(r.heap[i]);
	free(r.heap);
	free(r.look.steps);
	sums_free(&r.sums);
	report_texts_free(&r.texts);
	return rc;
}

int report_answer(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	struct report_cursor from = { NULL, 0 };
	int rc = report_ask_find(db, ask, err);

	if (rc == 0 && ask->after)
		rc = report_cursor_read(db, ask, &from, err);
	if (rc == 0)
		rc = ask->way->body ? ask->way->body(out, db, ask, err)
				    : put_rows(out, db, ask, ask->after ? &from : NULL, err);
	free(from.place);
	out->findings = out->findings || (ask->way->must_be_empty && out->reply->rows > 0);
	return rc;
}
