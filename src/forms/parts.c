/* How many records of a kind parts of a log have, as table "parts" (forms/forms.h): what zones of chapters or blocks
 * say, so that no block is read.  One log at a time, in its order.  Any thread with a reader. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "forms/forms.h"

#include "forms_int.h"

enum { P_LOG, P_SINCE, P_UNTIL, P_LO, P_HI, P_CHAPTERS, P_OF_KIND, P_ASKED, P_FIRST = P_ASKED, P_BELOW, P_N };
enum { MUST = (1 << P_ASKED) - 1 };
enum { KIND_END = 1002, KIND_DENIED, KIND_RECOVERED };

struct cursor {
	struct forms *f;
	struct db_value given[P_ASKED];
	int64_t asked[P_ASKED];
	int64_t line;                   /* blocks end there */
	int64_t at;                     /* parts up to here were handed on */
	int64_t end;                    /* of the blocks that are asked for now; below it there may be more chapters */
	struct db_stmt *chapters;       /* at one that is not done yet, or NULL */
	struct forms_walk walk;
	struct block_zones *zones;
	int64_t first, below, n;        /* the part; n -1: nobody knows */
};

static void *parts_open(void *arg)
{
	struct cursor *c = mem_zalloc(sizeof(*c));

	c->f = arg;
	return c;
}

static void leave(struct cursor *c)
{
	if (c->chapters)
		db_stmt_put(&c->chapters);
	forms_walk_end(&c->walk);
}

static void parts_close(void *cursor)
{
	struct cursor *c = cursor;

	leave(c);
	free(c->zones);
	free(c);
}

/* --- what is beside a chapter or a block */

static bool is_meant(const struct cursor *c, int64_t kind)
{
	return c->asked[P_OF_KIND] < 0 ? kind >= KIND_END && kind <= KIND_RECOVERED : kind == c->asked[P_OF_KIND];
}

/* Of records that are all in the part: how many, -1: it does not say. */
static int count(struct cursor *c, struct db_stmt *st, unsigned times, unsigned zone, int64_t cnt, int64_t *ret,
		 struct err *err)
{
	const int64_t ts_min = db_col_i64(st, times), ts_max = db_col_i64(st, times + 1);
	const struct block_zone *kinds;
	size_t len = 0;
	const void *p = db_col_blob(st, zone, &len);
	int rc;

	*ret = 0;
	if (ts_max < c->asked[P_SINCE] || ts_min >= c->asked[P_UNTIL])
		return 0;
	*ret = -1;
	if (ts_min < c->asked[P_SINCE] || ts_max >= c->asked[P_UNTIL])
		return 0;
	if (!c->zones)
		c->zones = mem_zalloc(sizeof(*c->zones));
	rc = block_zones_read(p, len, cnt, c->zones, err);
	kinds = &c->zones->of[ZONE_KIND];
	if (rc < 0 || kinds->many)
		return rc;
	*ret = 0;
	for (unsigned i = 0; i < kinds->n; i++)
		*ret += is_meant(c, kinds->v[i].id) ? kinds->v[i].count : 0;
	return 0;
}

static void hand_on(struct cursor *c, int64_t below, int64_t n)
{
	c->first = c->at;
	c->below = c->at = below;
	c->n = n;
}

/* --- blocks */

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The block that the walk is at. */
static int take_block(struct cursor *c, struct err *err)
{
	struct db_stmt *st = c->walk.st;
	const int64_t first = db_col_i64(st, 0), cnt = db_col_i64(st, 1), n = first + cnt;
	int64_t known = -1;
	int rc = 0;

	if (cnt < 1 || cnt > BLOCK_RECORDS_MAX || first < 0 || first > c->at || n <= c->at || n > c->line)
		return forms_bad(c->asked[P_LOG], first, err_set(err, ERR_CORRUPT, "", "no block can be there"), err);
	if (first == c->at && n <= c->end)
		rc = count(c, st, 3, WALK_ZONE, cnt, &known, err);
	if (rc < 0)
		return forms_bad(c->asked[P_LOG], first, rc, err);
	hand_on(c, smaller(n, c->end), known);
	return 1;
}

/* 1: a part; 0: the blocks that were asked for have ended. */
static int next_block(struct cursor *c, struct err *err)
{
	int rc = forms_walk_step(&c->walk, err);

	if (c->walk.jumped >= 0)
		c->at = c->walk.jumped;
	c->walk.jumped = -1;
	if (rc == 1) {
		rc = take_block(c, err);
		return c->walk.file ? forms_file_bad(c->walk.file, rc, err) : rc;
	}
	if (rc == 0 && c->at < c->end)
		return err_set(err, ERR_CORRUPT, "", "the block of record %" PRId64 " of log %" PRId64 " is missing", c->at,
			       c->asked[P_LOG]);
	return rc;
}

static int ask_blocks(struct cursor *c, int64_t end)
{
	c->end = end;
	forms_walk_over(&c->walk, c->at, end - 1);
	return 0;
}

/* --- chapters */

/* From where the cursor is: a chapter as a part, 1, or the blocks up to the next one, 0. */
static int next_chapter(struct cursor *c, int64_t end, struct err *err)
{
	int64_t first, cnt, n = -1;
	int rc;

	for (;;) {
		rc = c->chapters ? db_step(c->chapters, err) : 0;
		if (rc < 0)
			return rc;
		if (rc == 0) {
			if (c->chapters)
				db_stmt_put(&c->chapters);
			return ask_blocks(c, end);
		}
		first = db_col_i64(c->chapters, 0);
		cnt = db_col_i64(c->chapters, 1);
		if (first < 0 || cnt < 1 || cnt > BLOCK_CHAPTER_MAX || first + cnt > c->line)
			return err_set(err, ERR_CORRUPT, "", "no chapter of log %" PRId64 " can be at %" PRId64, c->asked[P_LOG], first);
		if (first + cnt > c->at)
			break;
	}
	if (first == c->at && first + cnt <= end)
		rc = count(c, c->chapters, 2, 4, cnt, &n, err);
	if (rc < 0)
		return err_wrap(err, "chapter %" PRId64 " of log %" PRId64, first, c->asked[P_LOG]);
	if (n >= 0) {
		hand_on(c, first + cnt, n);
		return 1;
	}
	return ask_blocks(c, smaller(first + cnt, end));
}

/* --- the cursor */

/* 1: it is at a part; 0: there is none. */
static int parts_next(void *cursor, struct err *err)
{
	struct cursor *c = cursor;
	const int64_t end = smaller(c->line, c->asked[P_HI]);
	int rc = 0;

	while (rc == 0 && c->at < end) {
		if (forms_walk_has(&c->walk))
			rc = next_block(c, err);
		else
			rc = next_chapter(c, end, err);
	}
	if (rc == 0 && c->at < c->asked[P_HI]) {        /* rows */
		hand_on(c, c->asked[P_HI], -1);
		return 1;
	}
	if (rc != 1)
		leave(c);
	return rc;
}

static int parts_filter(void *cursor, const struct db_vtab_ask *ask, struct err *err)
{
	struct cursor *c = cursor;
	unsigned said = 0;
	int64_t sealed = 0;
	int rc;

	leave(c);
	for (unsigned i = 0; i < ask->terms; i++) {
		c->given[ask->term[i].col] = *ask->term[i].value;
		c->asked[ask->term[i].col] = ask->term[i].value->n;
		said |= ask->term[i].value->type == DB_INT ? 1u << ask->term[i].col : 0;
	}
	if (said != MUST)
		return err_set(err, ERR_INTERNAL, "", "parts are asked for without all that they go by");
	c->line = INT64_MIN;
	c->at = c->asked[P_LO];
	rc = forms_seen(c->f->db) ? forms_line(c->f->db, c->asked[P_LOG], &c->line, err) : 0;
	if (rc == 0 && c->line != INT64_MIN)
		rc = forms_sealed(c->f->db, c->asked[P_LOG], &sealed, err);
	if (rc < 0)
		return rc;
	forms_walk_begin(&c->walk, c->f, c->asked[P_LOG], sealed, false);
	if (c->asked[P_CHAPTERS] && c->at < c->line) {
		c->chapters = db_stmt_get(c->f->db, SQL_FORMS_CHAPTERS_UP);
		db_bind_i64(c->chapters, 1, c->asked[P_LOG]);
		db_bind_i64(c->chapters, 2, c->at);
		db_bind_i64(c->chapters, 3, smaller(c->line, c->asked[P_HI]) - 1);
	}
	return parts_next(c, err);
}

static int parts_column(void *cursor, unsigned col, struct db_value *ret, struct err *err)
{
	struct cursor *c = cursor;

	(void)err;
	if (col < P_ASKED) {
		*ret = c->given[col];
		return 0;
	}
	ret->n = col == P_FIRST ? c->first : col == P_BELOW ? c->below : c->n;
	if (ret->n >= 0)
		ret->type = DB_INT;
	return 0;
}

static int64_t parts_id(const void *cursor)
{
	return ((const struct cursor *)cursor)->first;
}

static void parts_plan(void *arg, struct db_vtab_plan *plan)
{
	(void)arg;
	db_vtab_plan_given(plan, P_ASKED, P_ASKED, P_ASKED, 1e4);
}

const struct db_vtab forms_parts = {
	.name = "parts",
	.columns = "log INTEGER, since INTEGER, until INTEGER, lo INTEGER, hi INTEGER, chapters INTEGER, of_kind INTEGER, "
		"first INTEGER, below INTEGER, n INTEGER",
	.plan = parts_plan, .open = parts_open, .filter = parts_filter, .next = parts_next, .column = parts_column,
	.id = parts_id, .close = parts_close,
};
