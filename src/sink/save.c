/* Positions in the store: read at the start, and written by the writer's thread in a batch that it commits anyway.  The
 * same job learns how many records each log has, which are durable when it is done; table head may be behind that
 * (decision 0061). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/checkpoint.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/tally.h"
#include "db/db.h"
#include "forms/forms.h"
#include "writer/writer.h"

#include "sink_int.h"

struct moved { const char *sink; int64_t log, next; };
struct file_moved { const char *sink; struct sink_file_at at; };
struct grown { int64_t log, size; };
struct refused { const char *sink; struct sink_refusals list; };

/* What the writer's thread has: a copy of what has moved, and the answer. */
struct sink_save {
	struct sinks *a;
	struct moved *moved; size_t nmoved;
	struct file_moved *file; size_t nfiles;
	struct refused *refused; size_t nrefused;
	uint64_t begun_us;              /* what is durable by now will be in the sizes */
	int64_t last_log;               /* the newest that the loop knows */
	struct sink_log *log; size_t nlogs;     /* answer: those that have come since */
	struct grown *grown; size_t ngrown, cap;
};

static void save_free(struct sink_save *save)
{
	for (size_t i = 0; i < save->nlogs; i++) {
		free(save->log[i].origin);
		free(save->log[i].tenant);
	}
	free(save->log);
	for (size_t i = 0; i < save->nrefused; i++)
		sink_refusals_fini(&save->refused[i].list);
	free(save->refused);
	free(save->moved);
	free(save->file);
	free(save->grown);
	free(save);
}

/* Behind the last one that is known. */
static int read_logs(struct db *db, int64_t last, struct sink_log **log, size_t *n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SINK_LOGS);
	int rc;

	db_bind_i64(st, 1, last);
	while ((rc = db_step(st, err)) == 1) {
		*log = mem_realloc(*log, (*n + 1) * sizeof(**log));
		(*log)[(*n)++] = (struct sink_log){ .id = db_col_i64(st, 0), .tenant_id = db_col_i64(st, 1),
			.origin = db_col_dup(st, 2), .tenant = db_col_type(st, 3) == DB_NULL ? NULL : db_col_dup(st, 3) };
	}
	db_stmt_put(&st);
	return rc;
}

/* --- start */

static size_t log_at(const struct sinks *a, int64_t id)
{
	size_t low = 0, high = a->nlogs;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (a->log[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < a->nlogs && a->log[low].id == id ? low : SIZE_MAX;
}

static int load_cursors(struct sink *s, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SINK_CURSORS);
	int rc;

	db_bind_textz(st, 1, s->conf->name);
	while ((rc = db_step(st, err)) == 1) {
		const size_t at = log_at(s->all, db_col_i64(st, 0));

		if (at != SIZE_MAX)
			s->place[at].next = db_col_i64(st, 1);
		s->placed = true;
	}
	db_stmt_put(&st);
	return rc;
}

/* One that the store knows; *ret_text: what the configuration said of it, "" = it was not in the list. */
static void load_sink(struct sink *s, struct db_stmt *st)
{
	s->known = true;
	s->text = db_col_dup(st, 1);
	s->file = (struct sink_file_at){ db_col_i64(st, 2), db_col_i64(st, 3), db_col_i64(st, 4) };
	s->file_stored = s->file;
}

static void find_sink(struct sinks *a, struct db_stmt *st)
{
	const char *name = db_col_text(st, 0, NULL);

	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->v[i].conf->name, name) == 0) {
			load_sink(&a->v[i], st);
			return;
		}
	}
	if (db_col_type(st, 1) != DB_NULL) {            /* it was in the list */
		a->gone = mem_realloc(a->gone, (a->ngone + 1) * sizeof(*a->gone));
		a->gone[a->ngone++] = mem_strdup(name);
	}
}

static int load(struct sinks *a, struct db *db, struct err *err)
{
	struct db_stmt *st;
	int rc = read_logs(db, 0, &a->log, &a->nlogs, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_SINK_LIST);
	while ((rc = db_step(st, err)) == 1)
		find_sink(a, st);
	db_stmt_put(&st);
	for (size_t i = 0; rc == 0 && i < a->n; i++) {
		a->v[i].place = mem_calloc(a->nlogs + 1, sizeof(*a->v[i].place));
		rc = load_cursors(&a->v[i], db, err);
		rc = rc ? rc : sink_refusals_load(&a->v[i].refusals, db, a->v[i].conf->name, err);
	}
	return rc;
}

int sinks_load(struct sinks *a, struct err *err)
{
	struct db *db = NULL;
	int rc = db_open_store(db_in(a->env.store), &db, err);

	rc = rc ? rc : load(a, db, err);
	db_close(&db);
	return rc;
}

/* --- what the configuration says of each, once */

int sink_fault(const struct conf_sink *conf, struct err *err)
{
	(void)snprintf(err->where, sizeof(err->where), "sinks");
	return err_wrap(err, "sink %s", conf->name);
}

static int put_names(void *sinks, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct sinks *a = sinks;
	int rc = 0;

	(void)logs;
	for (size_t i = 0; rc == 0 && i < a->n + a->ngone; i++) {
		struct db_stmt *st = db_stmt_get(db, SQL_SINK_PUT);

		db_bind_textz(st, 1, i < a->n ? a->v[i].conf->name : a->gone[i - a->n]);
		db_bind_textz(st, 2, i < a->n ? a->v[i].conf->text : NULL);
		rc = db_run(&st, err);
	}
	return rc;
}

static void named(void *sinks, int rc, const struct err *err)
{
	struct sinks *a = sinks;

	(void)rc;                       /* what is not written is told again by the next start */
	(void)err;
	a->naming--;
	a->on->settle(a);
}

/* Names and what they are of do not change while this is under way. */
int sinks_put_names(struct sinks *a)
{
	static const struct writer_job job = { .name = "sinks", .run = put_names, .volatile_only = true, .done = named };
	int rc = writer_submit(a->env.writer, &job, a);

	a->naming += rc == 0;
	return rc;
}

/* --- writer thread */

static int put_cursor(struct db *db, const struct moved *m, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SINK_PUT_CURSOR);

	db_bind_textz(st, 1, m->sink);
	db_bind_i64(st, 2, m->log);
	db_bind_i64(st, 3, m->next);
	return db_run(&st, err);
}

static int put_file(struct db *db, const struct file_moved *m, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SINK_PUT_FILE);

	db_bind_textz(st, 1, m->sink);
	db_bind_i64(st, 2, m->at.inode);
	db_bind_i64(st, 3, m->at.bytes);
	db_bind_i64(st, 4, m->at.number);
	return db_run(&st, err);
}

static int note_size(void *arg, const struct audit_log_view *log, struct err *err)
{
	struct sink_save *save = arg;

	(void)err;
	if (save->ngrown == save->cap) {
		save->cap = save->cap ? 2 * save->cap : 64;
		save->grown = mem_realloc(save->grown, save->cap * sizeof(*save->grown));
	}
	save->grown[save->ngrown++] = (struct grown){ log->id, log->size };
	return 0;
}

static int run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct sink_save *save = arg;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < save->nfiles; i++)
		rc = put_file(db, &save->file[i], err);
	for (size_t i = 0; rc == 0 && i < save->nmoved; i++)
		rc = put_cursor(db, &save->moved[i], err);
	for (size_t i = 0; rc == 0 && i < save->nrefused; i++)
		rc = sink_refusals_write(&save->refused[i].list, db, save->refused[i].sink, err);
	rc = rc ? rc : read_logs(db, save->last_log, &save->log, &save->nlogs, err);
	return rc < 0 ? rc : audit_logs_each(logs, note_size, save, err);
}

/* --- what has gone out and may still be lost (OP-303) */

/* A peer's TCP acknowledges what lies in the memory of a program that can die.  So what the store has is the position
 * of what is older than the sink's `resend`, and when the connection breaks reading goes back to there. */

void sink_resend_add(struct sink_resend *r, size_t log, int64_t from)
{
	const uint64_t now = clock_mono_us();
	struct sink_marks *m;

	if (log >= r->nlogs) {
		r->log = mem_realloc(r->log, (log + 1) * sizeof(*r->log));
		memset(r->log + r->nlogs, 0, (log + 1 - r->nlogs) * sizeof(*r->log));
		r->nlogs = log + 1;
	}
	m = &r->log[log];
	/* A full list has nine eighths of the time in it, so what it would forget next is due: it stays one mark longer. */
	if (m->n > 0 && (now - m->v[m->n - 1].first_us < r->for_us / (SINK_MARKS - 1) || m->n == SINK_MARKS)) {
		m->v[m->n - 1].last_us = now;
		return;
	}
	m->v[m->n].from = from;
	m->v[m->n].first_us = m->v[m->n].last_us = now;
	m->n++;
}

bool sink_resend_expire(struct sink_resend *r, size_t log)
{
	const uint64_t now = clock_mono_us();
	struct sink_marks *m = log < r->nlogs ? &r->log[log] : NULL;
	unsigned old = 0;

	while (m && old < m->n && now >= m->v[old].last_us + r->for_us)
		old++;
	if (old == 0)
		return false;
	memmove(m->v, m->v + old, (m->n - old) * sizeof(*m->v));
	m->n -= old;
	return true;
}

int64_t sink_resend_from(const struct sink_resend *r, size_t log, int64_t next)
{
	return log < r->nlogs && r->log[log].n > 0 ? r->log[log].v[0].from : next;
}

void sink_resend_forget(struct sink_resend *r, size_t log)
{
	if (log < r->nlogs)
		r->log[log].n = 0;
}

/* --- loop */

static void add_logs(struct sinks *a, struct sink_save *save)
{
	const size_t n = a->nlogs + save->nlogs;

	if (save->nlogs == 0)
		return;
	a->log = mem_realloc(a->log, n * sizeof(*a->log));
	memcpy(a->log + a->nlogs, save->log, save->nlogs * sizeof(*a->log));
	for (size_t i = 0; i < a->n; i++) {
		struct sink *s = &a->v[i];

		s->place = mem_realloc(s->place, n * sizeof(*s->place));
		memset(s->place + a->nlogs, 0, save->nlogs * sizeof(*s->place));
	}
	a->nlogs = n;
	save->nlogs = 0;                /* they are ours now */
}

/* It was not written: it has still to be. */
static void keep(struct sinks *a, const struct sink_save *save)
{
	for (size_t i = 0; i < a->n; i++) {
		struct sink *s = &a->v[i];

		for (size_t m = 0; m < save->nmoved; m++)
			if (save->moved[m].sink == s->conf->name)
				s->place[log_at(a, save->moved[m].log)].dirty = true;
		for (size_t m = 0; m < save->nrefused; m++)
			if (save->refused[m].sink == s->conf->name)
				sink_refusals_keep(&s->refusals);
		for (size_t m = 0; m < save->nfiles; m++)
			s->file_dirty |= save->file[m].sink == s->conf->name;
	}
}

static void note_stored(struct sinks *a, const struct sink_save *save)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t m = 0; m < save->nfiles; m++)
			if (save->file[m].sink == a->v[i].conf->name)
				a->v[i].file_stored = save->file[m].at;
}

static void saved(void *arg, int rc, const struct err *err)
{
	struct sink_save *save = arg;
	struct sinks *a = save->a;

	(void)err;
	a->saving = NULL;
	if (rc < 0) {
		keep(a, save);
	} else {
		a->sized_us = save->begun_us;
		note_stored(a, save);
		add_logs(a, save);
		for (size_t i = 0; i < save->ngrown; i++) {
			const size_t at = log_at(a, save->grown[i].log);

			if (at != SIZE_MAX)
				a->log[at].size = save->grown[i].size;
		}
	}
	save_free(save);
	a->on->saved(a, rc >= 0);
}

static void collect(struct sink *s, struct sink_save *save)
{
	struct sinks *a = s->all;
	struct sink_refusals refused;

	if (sink_refusals_take(&s->refusals, &refused)) {
		save->refused = mem_realloc(save->refused, (save->nrefused + 1) * sizeof(*save->refused));
		save->refused[save->nrefused++] = (struct refused){ s->conf->name, refused };
	}
	if (s->file_dirty) {
		save->file = mem_realloc(save->file, (save->nfiles + 1) * sizeof(*save->file));
		save->file[save->nfiles++] = (struct file_moved){ s->conf->name, s->file };
		s->file_dirty = false;
	}
	for (size_t i = 0; i < a->nlogs; i++) {
		s->place[i].dirty |= sink_resend_expire(&s->resend, i);
		if (!s->place[i].dirty)
			continue;
		s->place[i].dirty = false;
		save->moved = mem_realloc(save->moved, (save->nmoved + 1) * sizeof(*save->moved));
		save->moved[save->nmoved++] = (struct moved){ s->conf->name, a->log[i].id,
			sink_resend_from(&s->resend, i, s->place[i].next) };
	}
}

static uint64_t records_so_far(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < TALLY_RECORD_CODES; i++)
		n += tally_records(i);
	return n;
}

void sinks_save(struct sinks *a)
{
	static const struct writer_job job = { .name = "positions", .run = run, .volatile_only = true, .done = saved };
	const uint64_t recorded = records_so_far();
	struct sink_save *save;

	if (a->saving)
		return;
	save = mem_zalloc(sizeof(*save));
	save->a = a;
	save->begun_us = clock_mono_us();
	save->last_log = a->nlogs ? a->log[a->nlogs - 1].id : 0;
	for (size_t i = 0; i < a->n; i++)
		collect(&a->v[i], save);
	if (save->nmoved == 0 && save->nfiles == 0 && save->nrefused == 0 && recorded == a->recorded && !a->save_soon) {
		a->sized_us = save->begun_us;
		save_free(save);
		return;
	}
	a->save_soon = false;
	if (writer_submit(a->env.writer, &job, save) < 0) {
		keep(a, save);
		save_free(save);
		return;
	}
	a->recorded = recorded;
	a->saving = save;
}
