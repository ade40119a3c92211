#ifndef TESTS_T_WRITER_H
#define TESTS_T_WRITER_H

/* What the tests of the writer share: a store with the logs of three tenants, and submissions that count. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit/audit.h"
#include "base/crypto.h"
#include "db/db.h"
#include "ev/ev.h"
#include "keys/keyfile.h"
#include "writer/writer.h"

#include "faultvfs.h"
#include "store.h"
#include "tmpdir.h"

static const uint8_t writer_master[32] = { 4, 2 };

enum { TENANTS = 3, LOG_MAX = 2048, WAIT_MS = 10000 };

struct fix {
	char *dir, path[600];
	struct ev_loop *loop;
	struct writer *w;
	struct writer_limits limits;
	size_t recovered;
	struct err err;
	/* completions in order */
	size_t pending, n;
	bool idle;
	struct { int tag, rc; int64_t idx; } log[LOG_MAX];
};

struct ticket {
	struct fix *f;
	int tag;
};

static inline void completed(struct fix *f, int tag, int rc, int64_t idx)
{
	assert_true(f->n < LOG_MAX);
	f->log[f->n].tag = tag;
	f->log[f->n].rc = rc;
	f->log[f->n++].idx = idx;
	f->idle = --f->pending == 0;
}

static inline void on_audit(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct ticket *t = arg;

	assert_true((rc == 0) == (receipt != NULL));
	completed(t->f, t->tag, rc, receipt ? receipt->idx : -1);
	free(t);
}

static inline struct audit_event call_event(enum audit_kind kind, int64_t tenant, int call)
{
	struct audit_event ev;

	audit_event_init(&ev, kind, tenant);
	ev.has_call = true;
	memset(ev.call, 0, sizeof ev.call);
	memcpy(ev.call, &call, sizeof call);
	ev.cred = "7Qm3";
	ev.prn = "prn_a";
	ev.tool = "echo";
	ev.has_outcome = kind == AUDIT_CALL_END;
	return ev;
}

static inline struct ticket *ticket(struct fix *f, int tag)
{
	struct ticket *t = malloc(sizeof *t);

	t->f = f;
	t->tag = tag;
	return t;
}

/* The tag is the call's number; an end's is negative. */
static inline int submit(struct fix *f, enum audit_kind kind, int64_t tenant, int call)
{
	struct audit_event ev = call_event(kind, tenant, call);
	struct ticket *t = ticket(f, kind == AUDIT_CALL_END ? -call : call);
	size_t before = f->n;
	int rc = writer_audit(f->w, &ev, on_audit, t);

	assert_int_equal(f->n, before);         /* never before the return */
	if (rc == 0) {
		f->pending++;
		f->idle = false;
	} else {
		free(t);
	}
	return rc;
}

static inline void wait_idle(struct fix *f)
{
	if (!f->pending)
		return;
	if (!ev_loop_run_until(f->loop, &f->idle, WAIT_MS))
		fail_msg("%zu submissions have not come back", f->pending);
}

/* rc of the submission with this tag, and how often it came back. */
static inline int rc_of(const struct fix *f, int tag)
{
	int rc = 1, times = 0;

	for (size_t i = 0; i < f->n; i++)
		if (f->log[i].tag == tag) {
			rc = f->log[i].rc;
			times++;
		}
	assert_int_equal(times, 1);
	return rc;
}

struct job {
	struct fix *f;
	int tag;
	int (*run)(struct db *db, struct audit_logs *logs, struct err *err);
};

static inline int run_job(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	return ((struct job *)arg)->run(db, logs, err);
}

static inline void job_done(void *arg, int rc, const struct err *err)
{
	struct job *j = arg;

	if (rc < 0)
		j->f->err = *err;
	completed(j->f, j->tag, rc, -1);
	free(j);
}

static inline int submit_job(struct fix *f, int tag, bool volatile_only, int (*run)(struct db *, struct audit_logs *, struct err *))
{
	struct writer_job job = { .name = "job", .run = run_job, .volatile_only = volatile_only, .done = job_done };
	struct job *j = malloc(sizeof *j);
	int rc;

	*j = (struct job){ f, tag, run };
	rc = writer_submit(f->w, &job, j);
	if (rc == 0) {
		f->pending++;
		f->idle = false;
	} else {
		free(j);
	}
	return rc;
}

/* Its bytes are the key of a row of meta, or "fail". */
static inline int note_row(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st;

	(void)logs;
	st = db_stmt_get(db, SQL_META_SET_VALUE);
	db_bind_text(st, 1, bytes, len);
	db_bind_textz(st, 2, "x");
	if (db_run(&st, err) < 0)
		return err->code;
	return len == 4 && memcmp(bytes, "fail", 4) == 0 ? err_set(err, ERR_NOT_FOUND, "", "no such row") : 0;
}

static const struct writer_rows note_rows = { "note", note_row };

static inline int submit_change(struct fix *f, const struct audit_event *ev, size_t n, const char *key, int tag)
{
	struct ticket *t = ticket(f, tag);
	size_t before = f->n;
	int rc = writer_change(f->w, ev, n, &note_rows, key, strlen(key), on_audit, t);

	assert_int_equal(f->n, before);         /* never before the return */
	if (rc == 0) {
		f->pending++;
		f->idle = false;
	} else {
		free(t);
	}
	return rc;
}

static inline int make_tenants(struct db *db, struct audit_logs *logs, struct err *err)
{
	char name[16];
	int rc = 0;

	for (int i = 1; rc == 0 && i <= TENANTS; i++) {
		snprintf(name, sizeof name, "t%d", i);
		rc = audit_log_create(logs, db, i, name, err);
	}
	return rc;
}

static inline void open_writer(struct fix *f)
{
	int rc = writer_open(f->loop, &(struct keyfile_place){ f->dir, writer_master }, "test", &f->limits, NULL, &f->w, &f->recovered, &f->err);

	if (rc != 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
}

static inline void close_writer(struct fix *f)
{
	int rc = writer_close(&f->w, WAIT_MS, &f->err);

	if (rc != 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
}

static inline int set_up(void **state)
{
	struct fix *f = calloc(1, sizeof *f);

	assert_int_equal(secret_init(), 0);
	f->dir = tmpdir_make();
	tmpdir_path(f->dir, "toolcrib.db", f->path, sizeof f->path);
	f->limits = (struct writer_limits)WRITER_LIMITS_DEFAULT;
	f->loop = ev_loop_new();
	assert_int_equal(store_copy(f->path, &f->err), 0);
	open_writer(f);
	assert_int_equal(submit_job(f, 0, false, make_tenants), 0);
	wait_idle(f);
	assert_int_equal(f->log[0].rc, 0);
	f->n = 0;
	*state = f;
	return 0;
}

static inline int tear_down(void **state)
{
	struct fix *f = *state;

	fault_set(FAULT_NONE);
	(void)writer_close(&f->w, WAIT_MS, &f->err);
	ev_loop_free(&f->loop);
	tmpdir_remove(f->dir);
	free(f);
	return 0;
}

/* A number from the store, by the raw library: the store may be open. */
static inline int64_t ask(const struct fix *f, const char *sql)
{
	sqlite3_stmt *st = NULL;
	sqlite3 *raw;
	int64_t n;

	assert_int_equal(sqlite3_open_v2(f->path, &raw, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(raw, sql, -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(raw);
	return n;
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
