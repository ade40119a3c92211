/* Calls of b_fill as blocks at once: what a server would have made of their rows, without the rows.  The main thread draws
 * the calls of a transaction and cuts each log's into blocks; threads make them, by the code of src/audit and src/block;
 * the writer puts them as they come, in order, grows the trees of the logs, and commits.  Chapters are made beside it. */

#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "audit/fold.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "block/block.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "keys/keys.h"

#include "../../src/audit/audit_int.h"
#include "../../src/db/db_int.h"

#include "fill.h"

enum { TILE = TILE_WIDTH, AHEAD = 48 };         /* AHEAD: blocks that are made before the writer has put them */

/* What is kept beside records of one tile. */
struct group { int64_t first; struct audit_bytes body; };

/* A block that is to be made, or a chapter. */
struct piece {
	struct filled_log *log;
	int64_t first, cnt;             /* cnt 0: the log's next chapter */
	size_t call;                    /* of the log's: the first one */
	bool second;                    /* begins with the second record of it */
	struct block b;
	struct audit_bytes bytes;       /* of b */
	uint8_t (*leaf)[TREE_HASH];
	struct group *group; size_t groups, room;
	struct forms_chapter *chapter;
	bool done;
};

/* A tenant's log in this transaction. */
struct filled_log {
	struct audit_log *log;          /* the writer's */
	int64_t line;                   /* where its blocks end */
	int64_t next;                   /* index of the next record that is drawn */
	uint32_t *call; size_t n, cap;  /* numbers of its calls */
	struct met *met;                /* by person */
	bool loose;                     /* may have blocks enough for a chapter */
};

/* The key of a person in a tenant, in the month that was met last. */
struct met { int64_t month; uint32_t dek; };

struct maker {
	pthread_t thread;
	struct db *db;                  /* a reader's, for texts and chapters */
	struct audit_logs logs;         /* texts and scratch of this thread alone */
	struct audit_log *at;           /* the place of the record that is made */
	struct block_maker *block;
	struct block_payload pay[BLOCK_PAYLOADS_MAX];
	uint8_t salt[BLOCK_PAYLOADS_MAX][AUDIT_SALT_SIZE], nonce[BLOCK_PAYLOADS_MAX][24];
	size_t ct[BLOCK_PAYLOADS_MAX + 1];              /* where each begins in cts */
	struct audit_bytes cts;
	int64_t pay_first; size_t npay; bool any;
};

static struct {
	struct call *call; size_t n, cap;               /* of this transaction */
	const struct audit_logs *writers;
	struct filled_log *log;
	uint32_t *wanted; size_t nwanted, wanted_cap;   /* calls whose person or key is new */
	struct keys_dek *dek; size_t ndek, dek_cap;
	uint64_t day; int64_t month;
	/* shared with the threads */
	pthread_mutex_t lock;
	pthread_cond_t more, made;
	struct piece *piece; size_t npiece, piece_cap, ready, taken, put;   /* ready: npiece, once they may be taken */
	bool stop;
	struct maker *maker;
	/* rows that become blocks by themselves */
	struct db *reader;
	struct audit_folder *folder;
	struct audit_folded **folded; size_t nfolded;
	bool drawn, ended;              /* drawn: there will be no more calls */
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .made = PTHREAD_COND_INITIALIZER };

static void must(int rc, const struct err *err)
{
	if (rc < 0)
		fill_die("blocks", err);
}

static void *grown(void *p, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return p;
	*cap = *cap ? 2 * *cap : 64;
	return mem_realloc(p, *cap * size);
}

/* --- one block, on a thread of its own */

static void end_group(struct maker *m, struct piece *p)
{
	struct err err = { 0 };

	for (size_t i = 0; i < m->npay; i++) {
		struct block_payload *v = &m->pay[i];

		if (v->ct.p)
			v->ct.p = m->cts.p + m->ct[i];
	}
	for (size_t at = 0, put = 0; m->any && at < m->npay; at += put) {
		struct group *g;

		p->group = grown(p->group, p->groups, &p->room, sizeof(*p->group));
		g = &p->group[p->groups++];
		*g = (struct group){ .first = m->pay_first + (int64_t)at };
		must(block_payloads_write(m->pay + at, m->npay - at, &g->body, &put, &err), &err);
	}
	m->npay = 0;
	m->any = false;
	m->cts.len = 0;
}

static void keep(struct maker *m, struct piece *p, int64_t idx, const struct audit_filled *f)
{
	const struct audit_bytes *ct = &m->logs.ct;
	const size_t i = m->npay;
	struct block_payload *v = &m->pay[i];

	if (i == 0)
		m->pay_first = idx;
	*v = (struct block_payload){ 0 };
	if (f->any) {
		memcpy(m->salt[i], f->salt, sizeof(f->salt));
		v->salt = (struct block_bytes){ m->salt[i], sizeof(f->salt) };
	}
	if (f->kept) {
		memcpy(m->nonce[i], f->nonce, sizeof(f->nonce));
		v->nonce = (struct block_bytes){ m->nonce[i], sizeof(f->nonce) };
		m->ct[i] = m->cts.len;
		v->ct = (struct block_bytes){ ct->p, ct->len };
		if (m->cts.len + ct->len > m->cts.cap) {
			m->cts.cap = 2 * (m->cts.len + ct->len);
			m->cts.p = mem_realloc(m->cts.p, m->cts.cap);
		}
		memcpy(m->cts.p + m->cts.len, ct->p, ct->len);
		m->cts.len += ct->len;
	}
	m->any = m->any || f->any;
	m->npay++;
	if ((idx + 1) % TILE == 0)
		end_group(m, p);
}

static void add_record(struct maker *m, struct piece *p, const struct call *c, const struct said *s, bool second, int64_t idx)
{
	const struct keys_dek *dek = s->ev.payload ? &all.dek[c->dek] : NULL;
	struct audit_row row = { 0 };
	struct audit_filled filled;
	struct err err = { 0 };

	m->at->size = idx;
	m->logs.dek = dek;
	must(audit_row_fill(&m->logs, m->db, m->at, &s->ev, &row, &filled, &err), &err);
	audit_row_text(&row, COL_LOG, m->at->id, m->at->origin, m->at->origin_len);
	audit_row_int(&row, COL_IDX, idx);
	if (m->logs.clock != CLOCK_UNKNOWN)
		audit_row_int(&row, COL_CLK, m->logs.clock == CLOCK_SYNCED ? AUDIT_CLOCK_SYNCED : AUDIT_CLOCK_UNSYNCED);
	if (second && s->ev.kind == AUDIT_CALL_END)
		audit_row_int(&row, COL_BEG, idx - 1);
	audit_row_encode(&row, &m->logs.bytes);
	tree_leaf(m->logs.bytes.p, m->logs.bytes.len, p->leaf[idx - p->first]);
	if (block_maker_add(m->block, &row, &err) != 0)
		fill_die("a block", &err);
	keep(m, p, idx, &filled);
}

static void add_records(struct maker *m, struct piece *p)
{
	const int64_t end = p->first + p->cnt;
	bool second = p->second;
	struct said s;

	for (int64_t idx = p->first, at = (int64_t)p->call; idx < end; at++, second = false) {
		const struct call *c = &all.call[p->log->call[at]];

		fill_say(c, &s);
		if (!second)
			add_record(m, p, c, &s, false, idx++);
		if (idx < end && fill_records(c) > 1) {
			fill_say_end(c, &s);
			add_record(m, p, c, &s, true, idx++);
		}
	}
}

static void copy_block(struct piece *p, const struct block *b)
{
	const struct block_bytes *from[] = { &b->cols, &b->hash, &b->zone };
	struct block_bytes *to[] = { &p->b.cols, &p->b.hash, &p->b.zone };

	p->b = *b;
	p->bytes.p = mem_alloc(b->cols.len + b->hash.len + b->zone.len + 1);
	for (size_t i = 0; i < NELEMS(from); i++) {
		if (from[i]->len > 0)
			memcpy(p->bytes.p + p->bytes.len, from[i]->p, from[i]->len);
		to[i]->p = p->bytes.p + p->bytes.len;
		p->bytes.len += from[i]->len;
	}
}

/* What it has learned of texts is forgotten when it is much, and nothing of it is undone. */
static void trim(struct audit_logs *logs)
{
	logs->undo_len = 0;
	if (logs->texts && map_count(logs->texts) < 65536)
		return;
	near_free(&logs->near);
	logs->near = near_new(NEAR_SETS_MAX / 32);
	map_free_all(&logs->texts);
	logs->texts = map_new();
}

static void make_block(struct maker *m, struct piece *p)
{
	const struct audit_log *log = p->log->log;
	struct block b;

	m->at = mem_zalloc(sizeof(*m->at) + log->origin_len + 1);
	m->at->id = log->id;
	m->at->tenant_id = log->tenant_id;
	m->at->origin_len = log->origin_len;
	memcpy(m->at->origin, log->origin, log->origin_len + 1);
	p->leaf = mem_calloc((size_t)p->cnt, TREE_HASH);
	add_records(m, p);
	end_group(m, p);
	block_maker_end(m->block, &b);
	copy_block(p, &b);
	trim(&m->logs);
	free(m->at);
}

static void make_chapter(struct maker *m, struct piece *p)
{
	const struct forms_chapter_sizes sizes = { FORMS_CHAPTER_BLOCKS, all.drawn ? FORMS_CHAPTER_PART : 0, FORMS_BOOK_CHAPTERS,
		all.drawn ? FORMS_BOOK_FEW : 0 };
	struct err err = { 0 };
	int rc = forms_chapter_next(m->db, p->log->log->id, &sizes, &p->chapter, &err);

	must(rc, &err);
	p->log->loose = rc == 1;
}

/* The next piece, when the writer is not too far behind; NULL: there will be none. */
static struct piece *take(void)
{
	struct piece *p = NULL;

	pthread_mutex_lock(&all.lock);
	while (!all.stop && (all.taken == all.ready || all.taken >= all.put + AHEAD))
		pthread_cond_wait(&all.more, &all.lock);
	if (!all.stop)
		p = &all.piece[all.taken++];
	pthread_mutex_unlock(&all.lock);
	return p;
}

static void *make_pieces(void *arg)
{
	struct maker *m = arg;
	struct piece *p;

	id_random_pool();
	while ((p = take())) {
		if (p->cnt > 0)
			make_block(m, p);
		else
			make_chapter(m, p);
		pthread_mutex_lock(&all.lock);
		p->done = true;
		pthread_cond_signal(&all.made);
		pthread_mutex_unlock(&all.lock);
	}
	return NULL;
}

/* --- the writer's part */

static int put_block(struct db *db, struct piece *p, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_PUT_BLOCK);
	const struct block_bytes *bytes[] = { &p->b.cols, &p->b.hash, &p->b.zone };
	const int64_t number[] = { p->log->log->id, p->b.first, p->b.cnt, p->b.fmt, p->b.ts_min, p->b.ts_max };
	int rc;

	for (unsigned i = 0; i < NELEMS(number); i++)
		db_bind_i64(st, 1 + i, number[i]);
	for (unsigned i = 0; i < NELEMS(bytes); i++)
		db_bind_blob(st, 7 + i, bytes[i]->len > 0 ? bytes[i]->p : "", bytes[i]->len);
	rc = db_run(&st, err);
	for (size_t i = 0; rc == 0 && i < p->groups; i++)
		rc = forms_group_put(db, p->log->log->id, p->group[i].first, &p->group[i].body, err);
	return rc;
}

/* As if its rows had been appended. */
static int grow(struct audit_logs *logs, struct db *db, struct piece *p, struct err *err)
{
	struct audit_log *log = p->log->log;
	int rc = log->tail ? 0 : audit_tail_open(log, db, err);

	if (rc < 0)
		return rc;
	for (int64_t i = 0; i < p->cnt; i++)
		audit_tail_add(log->tail, p->leaf[i]);
	log->size += p->cnt;
	p->log->line = log->size;
	if (list_empty(&log->dirty))
		list_push_back(&logs->dirty, &log->dirty);
	if (list_empty(&log->lagging))
		list_push_back(&logs->lagging, &log->lagging);
	audit_behind(logs, log);
	return 0;
}

static int put_piece(struct audit_logs *logs, struct db *db, struct piece *p, struct err *err)
{
	int rc = 0;

	if (p->cnt > 0)
		rc = grow(logs, db, p, err);
	if (rc == 0 && p->cnt > 0)
		rc = put_block(db, p, err);
	if (rc == 0 && p->chapter)
		rc = forms_chapter_put(db, p->chapter, err);
	for (size_t i = 0; i < p->groups; i++)
		free(p->group[i].body.p);
	free(p->group);
	free(p->leaf);
	free(p->bytes.p);
	forms_chapter_free(&p->chapter);
	return rc;
}

static int put_pieces(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = 0;

	(void)arg;
	for (size_t i = 0; rc == 0 && i < all.npiece; i++) {
		struct piece *p = &all.piece[i];

		pthread_mutex_lock(&all.lock);
		while (!p->done)
			pthread_cond_wait(&all.made, &all.lock);
		all.put = i + 1;
		pthread_cond_broadcast(&all.more);
		pthread_mutex_unlock(&all.lock);
		rc = put_piece(logs, db, p, err);
	}
	return rc;
}

static struct piece *add_piece(struct filled_log *log)
{
	all.piece = grown(all.piece, all.npiece, &all.piece_cap, sizeof(*all.piece));
	all.piece[all.npiece] = (struct piece){ .log = log };
	return &all.piece[all.npiece++];
}

/* All that was added: the threads begin with it. */
static void run_pieces(void)
{
	pthread_mutex_lock(&all.lock);
	all.ready = all.npiece;
	pthread_cond_broadcast(&all.more);
	pthread_mutex_unlock(&all.lock);
	fill_job("blocks", put_pieces, FILL_ROWS);
	pthread_mutex_lock(&all.lock);
	all.npiece = all.ready = all.taken = all.put = 0;
	pthread_mutex_unlock(&all.lock);
}

/* --- rows that are in no block: what commands have recorded in these logs */

static int look(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)arg;
	(void)db;
	all.writers = logs;
	for (uint64_t t = 0; t < opt.tenants; t++) {
		struct filled_log *l = &all.log[t];

		l->log = audit_log_find(logs, fill.tenant[t].id);
		if (!l->log)
			return err_set(err, ERR_NOT_FOUND, "", "%s has no log", fill.tenant[t].name);
	}
	return 0;
}

static int put_folded(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = 0;

	(void)arg;
	for (size_t i = 0; rc == 0 && i < all.nfolded; i++)
		rc = audit_fold_put(logs, db, all.folded[i], err);
	return rc;
}

static int see(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)arg;
	(void)logs;
	return forms_see(db, err);
}

static int drop_folded(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = 0;

	(void)arg;
	(void)logs;
	for (size_t i = 0; rc == 0 && i < all.nfolded; i++) {
		const struct audit_folded *f = all.folded[i];
		int64_t n = AUDIT_FOLD_SLICE;

		while (rc == 0 && n == AUDIT_FOLD_SLICE)
			rc = audit_fold_drop(db, f->log, f->first, f->first + f->cnt, INT64_MAX, &n, err);
	}
	return rc;
}

/* One block of each log that has rows. */
static bool fold_once(void)
{
	struct err err = { 0 };

	all.nfolded = 0;
	for (uint64_t t = 0; t < opt.tenants; t++) {
		struct filled_log *l = &all.log[t];
		struct audit_folded *made = NULL;
		int rc = l->line == l->log->size ? 0 : audit_folder_next(all.folder, l->log->id, l->log->size, &made, &err);

		must(rc, &err);
		if (rc == 0)
			continue;
		l->line = made->first + made->cnt;
		l->loose = true;
		all.folded[all.nfolded++] = made;
	}
	if (all.nfolded == 0)
		return false;
	fill_job("fold", put_folded, FILL_ROWS);
	fill_job("see", see, FILL_ROWS);
	fill_job("drop", drop_folded, FILL_ROWS);
	for (size_t i = 0; i < all.nfolded; i++)
		audit_folded_free(&all.folded[i]);
	return true;
}

/* --- texts and keys that records will have */

static int intern(struct audit_logs *logs, struct db *db, enum audit_column col, const char *text, struct err *err)
{
	struct audit_row row = { 0 };

	return audit_row_intern(&row, col, text, logs, db, err);
}

static int meet(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = 0;

	(void)arg;
	for (size_t i = 0; rc == 0 && i < all.nwanted; i++) {
		const struct call *c = &all.call[all.wanted[i]];
		const struct keys_dek *dek = NULL;
		struct person room;
		const struct person *who = fill_person(c, &room);

		rc = intern(logs, db, COL_PRN, who->prn, err);
		if (rc == 0)
			rc = intern(logs, db, COL_CRED, who->cred, err);
		if (rc == 0)
			rc = keys_dek(logs->keys, db, fill.tenant[c->tenant].id, who->prn, c->us, &dek, err);
		if (rc == 0)
			all.dek[c->dek] = *dek;
	}
	return rc;
}

static int intern_tool(struct audit_logs *logs, struct db *db, const char *name, const uint8_t tdef[32], struct err *err)
{
	char hex[65];
	int rc = name ? intern(logs, db, COL_TOOL, name, err) : 0;

	text_hex(tdef, 32, hex);
	return rc < 0 ? rc : intern(logs, db, COL_TDEF, hex, err);
}

/* Persons are met by their first call; who has a key was introduced when it was made. */
static int introduce(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const char *const rules[] = { "grant/1", "scope", "rate" };
	int rc = intern_tool(logs, db, "rare", fill.rare_tdef, err);

	(void)arg;
	if (rc == 0)
		rc = intern_tool(logs, db, NULL, fill_drifted, err);
	for (uint64_t i = 0; rc == 0 && i < opt.tools; i++)
		rc = intern_tool(logs, db, fill.tool[i], fill.tdef[i], err);
	for (size_t i = 0; rc == 0 && i < NELEMS(rules); i++)
		rc = intern(logs, db, COL_RULE, rules[i], err);
	return rc < 0 ? rc : intern(logs, db, COL_REV, FILL_REVISION, err);
}

/* --- a transaction */

static int64_t month_of(uint64_t us)
{
	const time_t s = (time_t)(us / S_US);
	struct tm tm;

	if (us / DAY_US == all.day)
		return all.month;
	gmtime_r(&s, &tm);
	all.day = us / DAY_US;
	all.month = tm.tm_year * INT64_C(12) + tm.tm_mon + 1;
	return all.month;
}

static void find_key(struct call *c, size_t number)
{
	struct met *met = &all.log[c->tenant].met[c->who];
	const int64_t month = month_of(c->us);

	if (met->month != month) {
		all.dek = grown(all.dek, all.ndek, &all.dek_cap, sizeof(*all.dek));
		all.wanted = grown(all.wanted, all.nwanted, &all.wanted_cap, sizeof(*all.wanted));
		all.wanted[all.nwanted++] = (uint32_t)number;
		*met = (struct met){ month, (uint32_t)all.ndek++ };
	}
	c->dek = met->dek;
}

static void draw_calls(void)
{
	const uint64_t until = fill.begun + fill.batch;

	all.n = all.nwanted = 0;
	for (uint64_t t = 0; t < opt.tenants; t++) {
		all.log[t].n = 0;
		all.log[t].next = all.log[t].line;
	}
	while (fill.n < until) {
		struct filled_log *l;
		struct call *c;

		all.call = grown(all.call, all.n, &all.cap, sizeof(*all.call));
		c = &all.call[all.n];
		fill_draw(c);
		l = &all.log[c->tenant];
		if (!l->met)
			l->met = mem_calloc(opt.people + OTHERS, sizeof(*l->met));
		find_key(c, all.n);
		l->call = grown(l->call, l->n, &l->cap, sizeof(*l->call));
		l->call[l->n++] = (uint32_t)all.n++;
		fill_at(c, l->next);
		l->next += (int64_t)fill_records(c);
	}
}

/* As audit_folder_next() ends blocks. */
static void cut_log(struct filled_log *l)
{
	int64_t idx = l->line;
	bool second = false;

	for (size_t at = 0; idx < l->next;) {
		const int64_t most = idx + AUDIT_FOLD_RECORDS, end = l->next < most ? l->next : most - most % TILE;
		struct piece *p = add_piece(l);

		p->first = idx;
		p->cnt = end - idx;
		p->call = at;
		p->second = second;
		while (idx < end) {
			const size_t left = fill_records(&all.call[l->call[at]]) - second;

			second = left > 1 && end - idx == 1;
			idx += second ? 1 : (int64_t)left;
			at += !second;
		}
	}
}

/* What was loose as the last transaction ended. */
static void add_chapters(void)
{
	for (uint64_t t = 0; t < opt.tenants; t++)
		if (all.log[t].loose)
			(void)add_piece(&all.log[t]);
}

void fill_blocks_batch(void)
{
	while (fold_once())
		;
	draw_calls();
	if (all.nwanted > 0)
		fill_job("keys", meet, FILL_ROWS);
	add_chapters();
	for (uint64_t t = 0; t < opt.tenants; t++)
		cut_log(&all.log[t]);
	run_pieces();
	for (uint64_t t = 0; t < opt.tenants; t++)
		all.log[t].loose = all.log[t].loose || all.log[t].n > 0;
}

/* --- begin and end */

/* A store that is not whole yet is no use to anybody: it is flushed once, at its end. */
static int durable(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *sql = all.ended ? "PRAGMA synchronous=full" : "PRAGMA synchronous=off";

	(void)arg;
	(void)logs;
	return sqlite3_exec(db->native, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : err_set(err, ERR_INTERNAL, "", "%s", sql);
}

static void begin_maker(struct maker *m, const char *file)
{
	const struct audit_logs *logs = all.writers;
	struct err err = { 0 };

	must(db_open_store(db_of_file(file), &m->db, &err), &err);
	m->block = block_maker_new();
	memcpy(m->logs.boot, logs->boot, sizeof(logs->boot));
	memcpy(m->logs.build, logs->build, sizeof(logs->build));
	m->logs.clock = logs->clock;
	trim(&m->logs);
	if (pthread_create(&m->thread, NULL, make_pieces, m) != 0)
		fill_die("a thread", &(struct err){ .msg = "cannot be made" });
}

void fill_blocks_begin(void)
{
	char *file = path_join(opt.store, DB_FILE);
	struct err err = { 0 };

	all.log = mem_calloc(opt.tenants, sizeof(*all.log));
	all.folded = mem_calloc(opt.tenants, sizeof(struct audit_folded *));
	fill_job("flush at the end", durable, FILL_BETWEEN);
	fill_job("introduce", introduce, FILL_ROWS);
	fill_job("look", look, FILL_ROWS);
	must(db_open_store(db_of_file(file), &all.reader, &err), &err);
	all.folder = audit_folder_new(all.reader);
	for (uint64_t t = 0; t < opt.tenants; t++) {
		bool waits;

		must(audit_folder_line(all.folder, all.log[t].log->id, &all.log[t].line, &waits, &err), &err);
	}
	all.maker = mem_calloc(opt.threads, sizeof(*all.maker));
	for (uint64_t i = 0; i < opt.threads; i++)
		begin_maker(&all.maker[i], file);
	free(file);
}

static void end_maker(struct maker *m)
{
	pthread_join(m->thread, NULL);
	db_close(&m->db);
	block_maker_free(&m->block);
	free(m->cts.p);
	free(m->logs.ct.p);
	free(m->logs.bytes.p);
	free(m->logs.ext.p);
	free(m->logs.undo);
	near_free(&m->logs.near);
	str_fini(&m->logs.kept);
	str_fini(&m->logs.clean);
}

void fill_blocks_end(void)
{
	bool any = true;

	while (fold_once())
		;
	all.drawn = true;
	for (uint64_t t = 0; t < opt.tenants; t++)
		all.log[t].loose = true;
	while (any) {
		add_chapters();
		any = all.npiece > 0;
		run_pieces();
	}
	all.ended = true;
	fill_job("flush", durable, FILL_BETWEEN);
	pthread_mutex_lock(&all.lock);
	all.stop = true;
	pthread_cond_broadcast(&all.more);
	pthread_mutex_unlock(&all.lock);
	for (uint64_t i = 0; i < opt.threads; i++)
		end_maker(&all.maker[i]);
	audit_folder_free(&all.folder);
	db_close(&all.reader);
}
