/* A hostile mark, whose MAC is right.  The first byte says what the rest is: 'f', what a mark file says between its first
 * bytes and its MAC; 's', the state that a verification takes up, of a store that is made once; 'b' and 'w', edits of the
 * state that a verification of that store has left at its end or on its way: places (two bytes, little-endian) and the byte
 * that stands there.  Whatever comes, reading ends with what was found or with an error. */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "auditor/mark.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "verify/verify.h"

#include "../unit/tmpdir.h"
#include "fuzz.h"

enum { ACME = 1, CALLS = AUDIT_VERIFY_STEP, EDIT = 3 };
#define OK(expr) FUZZ_CHECK((expr) >= 0)

static struct { char *dir; struct db *db; struct str base, way; } rig;

static void append(struct audit_logs *logs, struct db *db, enum audit_kind kind, unsigned call)
{
	struct audit_event ev;
	struct err err;

	clock_step(10);
	audit_event_init(&ev, kind, ACME);
	ev.has_call = true;
	memset(ev.call, 1, sizeof(ev.call));
	memcpy(ev.call, &call, sizeof(call));
	ev.actor = AUDIT_BY_SERVICE;
	ev.tool = "echo";
	ev.has_outcome = kind == AUDIT_CALL_END;
	OK(audit_append(logs, db, &ev, NULL, &err));
}

static void fill(const char *path)
{
	struct audit_logs *logs = NULL;
	struct db *db = NULL;
	struct err err;

	OK(db_open(path, DB_WRITER, true, &db, &err));
	OK(db_migrate(db, &err));
	OK(audit_logs_open(db, &logs, &err));
	OK(db_txn_begin(db, true, &err));
	OK(audit_log_create(logs, db, 0, NULL, &err));
	OK(audit_log_create(logs, db, ACME, "acme", &err));
	for (unsigned i = 0; i < CALLS; i++) {
		append(logs, db, AUDIT_CALL_BEGIN, i);
		if (i % 512 != 3)
			append(logs, db, AUDIT_CALL_END, i);
	}
	OK(audit_logs_flush(logs, db, &err));
	OK(db_txn_end(db, 0, &err));
	audit_logs_commit(logs);
	audit_logs_close(&logs);
	db_close(&db);
}

static void ignore(void *arg, const struct audit_finding *f)
{
	(void)arg;
	if (!audit_finding_name(f->code) || f->from > f->to)
		abort();
}

static bool due(void *arg)
{
	(void)arg;
	return rig.way.len == 0;
}

static void keep(void *arg, const void *p, size_t len)
{
	(void)arg;
	str_put(&rig.way, p, len);
}

static int verify(const struct verify_marking *mark)
{
	struct audit_coverage sum;
	struct err err;

	return audit_verify_marked(rig.db, NULL, mark, ignore, NULL, &sum, &err);
}

static void remove_store(void)
{
	db_close(&rig.db);
	str_fini(&rig.base);
	str_fini(&rig.way);
	tmpdir_remove(rig.dir);
}

static void set_up(void)
{
	const struct verify_marking mark = { .due = due, .keep = keep, .ret = &rig.base };
	char path[600];
	struct err err;

	if (rig.db)
		return;
	clock_fake(1000000, 500000);
	rig.dir = tmpdir_make();
	tmpdir_path(rig.dir, "toolcrib.db", path, sizeof(path));
	fill(path);
	OK(db_open(path, DB_READER, false, &rig.db, &err));
	OK(verify(&mark));
	(void)atexit(remove_store);
	FUZZ_CHECK(rig.way.len > 0 && rig.base.len > 0);
}

static void edit(bool way, const uint8_t *p, size_t n)
{
	const struct str *of = way ? &rig.way : &rig.base;
	uint8_t *copy = mem_dup(of->p, of->len);
	struct verify_marking mark = { .base = copy, .base_len = of->len };

	for (; n >= EDIT; p += EDIT, n -= EDIT)
		copy[(p[0] | p[1] << 8) % of->len] = p[2];
	if (way)
		mark = (struct verify_marking){ .way = copy, .way_len = of->len };
	(void)verify(&mark);
	free(copy);
}

FUZZ_TARGET(mark)
{
	struct err err;

	if (size == 0)
		return 0;
	set_up();
	if (data[0] == 'f' && mark_try(data + 1, size - 1, &err) < 0)
		FUZZ_CHECK(*err.msg);
	if (data[0] == 's')
		(void)verify(&(struct verify_marking){ .base = data + 1, .base_len = size - 1 });
	if (data[0] == 'b' || data[0] == 'w')
		edit(data[0] == 'w', data + 1, size - 1);
	return 0;
}
