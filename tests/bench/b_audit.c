/*
 * Fill a store with records of calls, by the tree's own code but without a server, for tests/bench/audit.py:
 *
 *	tests/bench/b_audit STORE RECORDS DAYS
 *
 * The store must have its tenants; each gets its share of begins and ends, spread evenly over the days before now, with
 * 20 principals, 20 keys and 25 tools.  One call in 50 fails, one in 100 is refused.
 */

#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"

#define BATCH 5000
#define DAY_US 86400000000ull
#define TENANTS_MAX 1000
#define CHECKPOINT_PAGES 1000

struct fill {
	struct db *db;
	struct audit_logs *logs;
	struct { int64_t id, first, last; char name[80]; } tenant[TENANTS_MAX];
	size_t tenants;
	uint64_t n, records, start_us, step_us;
};

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "b_audit: %s: %s\n", what, err->msg);
	exit(1);
}

static void list_tenants(struct fill *f)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_ADMIN_TENANT_LIST);
	struct err err;

	while (f->tenants < TENANTS_MAX && db_step(st, &err) == 1) {
		f->tenant[f->tenants].id = db_col_i64(st, 0);
		f->tenant[f->tenants].first = -1;
		(void)snprintf(f->tenant[f->tenants++].name, sizeof(f->tenant[0].name), "%s", db_col_text(st, 1, NULL));
	}
	db_stmt_put(&st);
	if (f->tenants == 0) {
		fprintf(stderr, "b_audit: the store has no tenant\n");
		exit(1);
	}
}

static void append(struct fill *f, size_t tenant, const struct audit_event *ev)
{
	struct audit_receipt receipt;
	struct err err;

	if (audit_append(f->logs, f->db, ev, &receipt, &err) < 0)
		die("append", &err);
	if (f->tenant[tenant].first < 0)
		f->tenant[tenant].first = receipt.idx;
	f->tenant[tenant].last = receipt.idx;
	f->n++;
}

static void one_call(struct fill *f)
{
	static const uint8_t tdef[32] = { 1, 2, 3 };
	uint64_t call = f->n / 2, who = call / f->tenants % 20;
	char prn[24], cred[24], tool[24];
	struct audit_event ev;
	bool denied = call % 100 == 99;

	(void)snprintf(prn, sizeof(prn), "prn_bench%08u", (unsigned)who);
	(void)snprintf(cred, sizeof(cred), "bench%07u", (unsigned)who);
	(void)snprintf(tool, sizeof(tool), "tool_%02u", (unsigned)(call / f->tenants * 7 % 25));
	audit_event_init(&ev, denied ? AUDIT_CALL_DENIED : AUDIT_CALL_BEGIN, f->tenant[call % f->tenants].id);
	ev.time_us = f->start_us + f->n * f->step_us;
	ev.has_call = true;
	id_uuid7(ev.call);
	ev.prn = prn;
	ev.cred = cred;
	ev.tool = tool;
	ev.tdef = tdef;
	ev.actor = AUDIT_BY_SERVICE;
	ev.authn = AUDIT_AUTHN_KEY;
	ev.tport = AUDIT_HTTP;
	ev.rev = "2026-07-28";
	ev.rule = denied ? "rate" : "grant/1";
	ev.n_req = 120;
	ev.has_outcome = denied;
	ev.outcome = denied ? AUDIT_RATE_LIMITED : 0;
	append(f, call % f->tenants, &ev);
	if (denied)
		return;
	ev.kind = AUDIT_CALL_END;
	ev.time_us += f->step_us / 2;
	ev.has_outcome = true;
	ev.outcome = call % 50 == 7 ? AUDIT_TOOL_ERROR : AUDIT_OK;
	ev.n_res = 270;
	ev.dur_us = 500 + call * 7919 % 20000;
	append(f, call % f->tenants, &ev);
}

static void fill(struct fill *f)
{
	struct err err;

	while (f->n < f->records) {
		int rc = db_txn_begin(f->db, true, &err);

		for (unsigned i = 0; rc == 0 && i < BATCH && f->n < f->records; i++)
			one_call(f);
		if (rc == 0)
			rc = audit_logs_flush(f->logs, f->db, &err);
		if (db_txn_end(f->db, rc, &err) < 0)
			die("commit", &err);
		audit_logs_commit(f->logs);
		if (db_checkpoint(f->db, CHECKPOINT_PAGES, &err) < 0)
			die("checkpoint", &err);
	}
}

/* What no server wrote is taken over by name, and signed (AUDIT A-722). */
static void adopt(const struct fill *f, const char *store, struct db_owner *owner)
{
	const char **names = mem_calloc(f->tenants + 1, sizeof(*names));
	struct app_opt opt = { .profile = APP_EMBEDDED, .store = store, .owner = owner, .adopt = names };
	struct app *app = NULL;
	struct str name = STR_INIT;
	struct err err;

	for (size_t i = 0; i < f->tenants; i++) {
		str_printf(&name, "%s:%lld-%lld", f->tenant[i].name, (long long)f->tenant[i].first, (long long)f->tenant[i].last);
		names[i] = str_take(&name);
	}
	if (app_start(&opt, &app, &err) < 0)
		die("adopt", &err);
	app_close(&app);
	for (size_t i = 0; i < f->tenants; i++)
		free((char *)(uintptr_t)names[i]);
	free(names);
}

int main(int argc, char **argv)
{
	struct db_owner *owner = NULL;
	struct db_card card;
	static struct fill f;
	struct err err = { 0 };
	uint64_t days = 0, began_us;
	char path[1024];

	if (argc != 4 || text_u64(argv[2], strlen(argv[2]), &f.records) < 0 || text_u64(argv[3], strlen(argv[3]), &days) < 0 ||
	    days == 0 || f.records == 0 || secret_init() < 0) {
		fputs("usage: b_audit STORE RECORDS DAYS\n", stderr);
		return 2;
	}
	(void)snprintf(path, sizeof(path), "%s/%s", argv[1], DB_FILE);
	if (db_owner_take(argv[1], &owner, &card, &err) != 0)
		die(argv[1], &err);
	if (db_open(path, DB_WRITER, false, &f.db, &err) < 0 || audit_logs_open(f.db, &f.logs, &err) < 0)
		die(path, &err);
	f.step_us = days * DAY_US / f.records;
	f.start_us = clock_wall_us() - days * DAY_US;
	list_tenants(&f);
	began_us = clock_mono_us();
	fill(&f);
	printf("{\"records\": %llu, \"seconds\": %.1f}\n", (unsigned long long)f.n, (double)(clock_mono_us() - began_us) / 1e6);
	audit_logs_close(&f.logs);
	db_close(&f.db);
	adopt(&f, argv[1], owner);
	return 0;
}
