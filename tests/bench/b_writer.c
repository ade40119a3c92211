/*
 * How fast the store takes records: N calls (a begin, then an end) are submitted from the loop, DEPTH of
 * them at once, and one JSON line tells the rate.
 *
 *	tests/bench/b_writer [CALLS [DEPTH [TENANTS [DIR [LEVEL [BYTES [LEAN [FOLD]]]]]]]]      (50000 64 1 TMPDIR, no values)
 *
 * With a LEVEL (0 metadata, 1 request, 2 request_response) arguments and result have BYTES each; bytes_call is what a call
 * then takes in the store, indexes included; a LEVEL of 9 is none.  LEAN 1: without the indexes of rows, as a store is whose
 * records are in blocks.  FOLD: records become blocks meanwhile, each time that so many have come (audit.fold_rows).
 *
 * records_s counts both records; cpu_us is the processor time of the process per record, writer_us the part
 * of all threads but the loop's, which with FOLD is the writer's and that of folding; wait_p50_us and wait_p99_us are submission to completion of one record.
 */

#include "config.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "audit/payload.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/metric.h"
#include "db/db.h"
#include "ev/ev.h"
#include "keys/keyfile.h"
#include "writer/fold.h"
#include "writer/writer.h"

#include "../unit/tmpdir.h"

static const uint8_t master[32] = { 1 };

struct bench {
	struct ev_loop *loop;
	struct writer *w;
	size_t calls, depth, tenants, begun, ended, failed, waits;
	uint32_t *wait_us;
	bool done;
	int level;                      /* enum audit_level; -1: no values */
	char *value;
	size_t size;
};

struct call {
	struct bench *b;
	uint8_t id[16];
	int64_t tenant;
	uint64_t at_us;
	bool begun;
};

struct create {
	size_t tenants;
	bool lean;
	bool done;
	int rc;
};

static int create_logs(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct create *c = arg;
	int rc = 0;
	char name[32];

	for (size_t i = 1; rc == 0 && i <= c->tenants; i++) {
		snprintf(name, sizeof name, "tenant%zu", i);
		rc = audit_log_create(logs, db, (int64_t)i, name, err);
	}
	return rc == 0 && c->lean ? db_make_lean(db, DB_LEAN_INDEXES, err) : rc;
}

static void created(void *arg, int rc, const struct err *err)
{
	struct create *c = arg;

	c->done = true;
	c->rc = rc;
	if (rc < 0)
		fprintf(stderr, "b_writer: %s\n", err->msg);
}

static void next_call(struct call *c);

static void submit(struct call *c, enum audit_kind kind);

static void recorded(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct call *c = arg;
	struct bench *b = c->b;

	b->wait_us[b->waits++] = (uint32_t)(clock_mono_us() - c->at_us);
	b->failed += rc < 0;
	if (!c->begun) {
		c->begun = true;
		submit(c, AUDIT_CALL_END);
		return;
	}
	b->ended++;
	next_call(c);
}

static void submit(struct call *c, enum audit_kind kind)
{
	static const uint8_t tdef[32] = { 1, 2, 3 };
	struct audit_payload payload = { .n = 1 };
	const bool end = kind == AUDIT_CALL_END;
	struct audit_event ev;

	audit_event_init(&ev, kind, c->tenant);
	ev.has_call = true;
	memcpy(ev.call, c->id, sizeof ev.call);
	ev.cred = "7Qm3xY9aB2cD";
	ev.prn = "prn_4f9sKd83jLq0";
	ev.actor = AUDIT_BY_SERVICE;
	ev.authn = AUDIT_AUTHN_KEY;
	ev.tport = AUDIT_HTTP;
	ev.rev = "2026-07-28";
	ev.tool = "echo";
	ev.tdef = tdef;
	ev.rule = "grant/12";
	ev.n_req = 120;
	if (end) {
		ev.has_outcome = true;
		ev.n_res = 270;
		ev.dur_us = 31;
	}
	payload.level = c->b->level;
	payload.value[0] = (struct audit_value_said){ .ctag = end ? AUDIT_C_RESULT : AUDIT_C_ARGUMENTS, .p = c->b->value,
		.len = c->b->size, .keep = c->b->level >= (end ? AUDIT_REQUEST_RESPONSE : AUDIT_REQUEST) };
	if (c->b->level >= 0)
		ev.payload = &payload;
	c->at_us = clock_mono_us();
	if (writer_audit(c->b->w, &ev, recorded, c) < 0) {
		fprintf(stderr, "b_writer: refused\n");
		exit(1);
	}
}

static void next_call(struct call *c)
{
	struct bench *b = c->b;

	if (b->begun == b->calls) {
		b->done = b->ended == b->calls;
		return;
	}
	c->tenant = (int64_t)(b->begun++ % b->tenants) + 1;
	c->begun = false;
	id_uuid7(c->id);
	submit(c, AUDIT_CALL_BEGIN);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double cpu_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static size_t number(int argc, char **argv, int i, size_t otherwise)
{
	return argc > i ? (size_t)strtoull(argv[i], NULL, 10) : otherwise;
}

static int create_store(const char *dir, struct err *err)
{
	struct db *db = NULL;
	char path[600];
	int rc = db_open(tmpdir_path(dir, "toolcrib.db", path, sizeof path), DB_WRITER, true, &db, err);

	db_close(&db);
	return rc;
}

static void print(const struct bench *b, uint64_t took_us, double cpu, double writer)
{
	double records = 2.0 * (double)b->calls;

	printf("{\"bench\":\"writer\",\"calls\":%zu,\"depth\":%zu,\"tenants\":%zu,\"failed\":%zu,\"records_s\":%.0f,"
	       "\"cpu_us\":%.1f,\"writer_us\":%.1f,\"wait_p50_us\":%u,\"wait_p99_us\":%u}\n",
	       b->calls, b->depth, b->tenants, b->failed, records * 1e6 / (double)took_us, cpu / records, writer / records,
	       b->wait_us[b->waits / 2], b->wait_us[b->waits * 99 / 100]);
}

int main(int argc, char **argv)
{
	struct bench b = { .calls = number(argc, argv, 1, 50000), .depth = number(argc, argv, 2, 64), .tenants = number(argc, argv, 3, 1) };
	struct writer_limits limits = WRITER_LIMITS_DEFAULT;
	const struct writer_fold_limits fold = { .fold_rows = (int64_t)number(argc, argv, 8, 0), .plain_rows = 1000000, .fold_age_s = 60 };
	struct create create = { .tenants = b.tenants, .lean = number(argc, argv, 7, 0) == 1 };
	const struct writer_job job = { .name = "create", .run = create_logs, .done = created };
	char *dir, path[600];
	struct stat before = { 0 }, after = { 0 };
	struct call *calls = calloc(b.depth, sizeof *calls);
	struct err err = { 0 };
	uint64_t start;
	double cpu, loop_cpu;

	(void)secret_init();
	b.level = argc > 5 && number(argc, argv, 5, 0) < 9 ? (int)number(argc, argv, 5, 0) : -1;
	b.size = number(argc, argv, 6, 1024);
	b.value = mem_zalloc(b.size + 1);
	id_random_text(b.value, b.size);
	if (argc > 4)
		(void)setenv("TMPDIR", argv[4], 1);
	dir = tmpdir_make();    /* of its own, and removed at the end */
	if (!dir) {
		perror("b_writer");
		return 1;
	}
	b.loop = ev_loop_new();
	b.wait_us = calloc(2 * b.calls, sizeof *b.wait_us);
	if (create_store(dir, &err) < 0 || writer_open(b.loop, &(struct keyfile_place){ dir, master }, "bench", &limits, NULL, &b.w, NULL, &err) < 0 ||
	    writer_submit(b.w, &job, &create) < 0 || !ev_loop_run_until(b.loop, &create.done, 10000) || create.rc < 0) {
		fprintf(stderr, "b_writer: %s: %s\n", err.where, err.msg);
		return 1;
	}
	if (fold.fold_rows > 0)
		writer_fold_start(b.w, &fold);
	(void)stat(tmpdir_path(dir, "toolcrib.db", path, sizeof path), &before);
	start = clock_mono_us();
	cpu = cpu_us(CLOCK_PROCESS_CPUTIME_ID);
	loop_cpu = cpu_us(CLOCK_THREAD_CPUTIME_ID);
	for (size_t i = 0; i < b.depth && i < b.calls; i++) {
		calls[i].b = &b;
		next_call(&calls[i]);
	}
	if (!ev_loop_run_until(b.loop, &b.done, 600000))
		return 1;
	start = clock_mono_us() - start;
	cpu = cpu_us(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	loop_cpu = cpu_us(CLOCK_THREAD_CPUTIME_ID) - loop_cpu;
	qsort(b.wait_us, b.waits, sizeof *b.wait_us, by_value);
	print(&b, start, cpu, cpu - loop_cpu);
	if (fold.fold_rows > 0)
		printf("{\"bench\":\"writer\",\"blocks\":%" PRIu64 ",\"by_writer\":%" PRIu64 ",\"folded\":%" PRIu64 "}\n",
		       metric_get(METRIC_fold_blocks), metric_get(METRIC_fold_by_writer), metric_get(METRIC_fold_records));
	if (writer_close(&b.w, 10000, &err) < 0)
		fprintf(stderr, "b_writer: %s\n", err.msg);
	(void)stat(tmpdir_path(dir, "toolcrib.db", path, sizeof path), &after);
	printf("{\"bench\":\"writer\",\"level\":%d,\"value\":%zu,\"bytes_call\":%.0f}\n", b.level, b.level < 0 ? 0 : b.size,
	       (double)(after.st_size - before.st_size) / (double)b.calls);
	free(b.value);
	ev_loop_free(&b.loop);
	free(b.wait_us);
	free(calls);
	tmpdir_remove(dir);
	return 0;
}
