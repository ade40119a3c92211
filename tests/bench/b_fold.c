/* Put the records of a store that nobody has open into blocks, as a test wants them:
 *
 *	tests/bench/b_fold STORE [--block N] [--chapter N] [--part N] [--book N] [--tail N] [--seed N] [--leftovers] [--partial]
 *	tests/bench/b_fold STORE --seal MONTH|all [--leftovers]
 *
 * --block: records of a block at most (4096); --chapter: blocks of a chapter (64; 0: there is none), with sums unless
 * --partial; --part: blocks of a small one (8; 0: there is none); --book: chapters of a book (16; 0: there is none); --tail: newest records of each log that stay rows; --leftovers: rows of what
 * is in blocks stay beside them.  Says how many blocks there are.
 *
 * --seal: what is in blocks of the months up to that one (202611) becomes sealed files; with --leftovers the blocks stay
 * beside them.  Says how many files there are, and removes those that are in no catalog. */

#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/crypto.h"
#include "base/path.h"
#include "bundle/seal.h"
#include "db/owner.h"
#include "forms/forms.h"

#include "../unit/fold_rig.h"

/* --- sealing */

struct sealing { struct db *db, *reader; struct audit_logs *logs; bool leftovers; int files; };

static int put(struct sealing *s, const struct audit_sealed *file, struct err *err)
{
	bool more = !s->leftovers;
	int rc = db_txn_begin(s->db, true, err);

	if (rc == 0)
		rc = audit_seal_put(s->logs, s->db, file, err);
	if (rc == 0)
		rc = audit_logs_flush(s->logs, s->db, err);
	rc = db_txn_end(s->db, rc, err);
	if (rc == 0)
		audit_logs_commit(s->logs);
	while (rc == 0 && more) {
		rc = db_txn_begin(s->db, true, err);
		if (rc == 0)
			rc = db_txn_end(s->db, audit_seal_drop(s->db, file->log, &more, err), err);
	}
	return rc;
}

static int seal_log(struct sealing *s, int64_t log, int64_t until_us, struct err *err)
{
	struct audit_sealed file;
	int rc;

	while ((rc = audit_seal_next(s->reader, log, until_us, &file, err)) == 1) {
		rc = audit_seal_make(s->reader, &file, NULL, err);
		if (rc == 0)
			rc = put(s, &file, err);
		audit_sealed_fini(&file);
		if (rc < 0)
			return rc;
		s->files++;
	}
	return rc;
}

/* "202611": when that month ends; "all": later than anything. */
static int64_t end_of(const char *month)
{
	const long n = strtol(month, NULL, 10);
	struct tm tm = { .tm_year = (int)(n / 100) - 1900, .tm_mon = (int)(n % 100), .tm_mday = 1 };

	return strcmp(month, "all") == 0 ? INT64_MAX : (int64_t)timegm(&tm) * 1000000;
}

static int seal_store(const char *store, const char *file, const char *month, bool leftovers, struct err *err)
{
	struct sealing s = { .leftovers = leftovers };
	int64_t logs = 0;
	size_t swept = 0;
	int rc = secret_init() < 0 ? err_set(err, ERR_INTERNAL, "", "no libsodium") : db_open(file, DB_WRITER, false, &s.db, err);

	if (rc == 0)
		rc = audit_seal_sweep(s.db, store, &swept, err);
	if (rc == 0)
		rc = audit_logs_open(s.db, &s.logs, err);
	if (rc == 0)
		rc = forms_open_store(db_of_file(file), &s.reader, err);
	if (rc == 0)
		rc = fold_sql(s.db, "SELECT max(id) FROM log", &logs, err);
	for (int64_t log = 1; rc == 0 && log <= logs; log++)
		rc = seal_log(&s, log, end_of(month), err);
	db_close(&s.reader);
	audit_logs_close(&s.logs);
	db_close(&s.db);
	return rc < 0 ? rc : s.files;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "block", required_argument, NULL, 'b' }, { "tail", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' }, { "leftovers", no_argument, NULL, 'l' },
		{ "chapter", required_argument, NULL, 'c' }, { "partial", no_argument, NULL, 'p' },
		{ "part", required_argument, NULL, 'P' }, { "book", required_argument, NULL, 'B' },
		{ "seal", required_argument, NULL, 'S' }, { 0 },
	};
	struct fold_with with = { .seed = 1, .block_max = 4096, .chapter = 64, .part = 8, .book = 16 };
	struct err err = { 0 };
	struct db *db = NULL;
	const char *month = NULL;
	char *file;
	int c, rc;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'b')
			with.block_max = strtoll(optarg, NULL, 10);
		else if (c == 't')
			with.tail = strtoll(optarg, NULL, 10);
		else if (c == 's')
			with.seed = strtoull(optarg, NULL, 10);
		else if (c == 'c')
			with.chapter = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'P')
			with.part = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'B')
			with.book = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'p')
			with.partial = true;
		else if (c == 'l')
			with.leftovers = true;
		else if (c == 'S')
			month = optarg;
		else
			return 2;
	}
	if (argc - optind != 1 || with.block_max < 1) {
		fprintf(stderr, "usage: b_fold STORE [--block N] [--chapter N] [--part N] [--book N] [--tail N] [--seed N] [--leftovers] "
			"[--partial] [--seal MONTH|all]\n");
		return 2;
	}
	file = path_join(argv[optind], DB_FILE);
	rc = month ? seal_store(argv[optind], file, month, with.leftovers, &err) : db_open(file, DB_WRITER, false, &db, &err);
	if (rc == 0 && !month)
		rc = fold_store(db, &with, &err);
	db_close(&db);
	free(file);
	if (rc < 0)
		fprintf(stderr, "b_fold: %s: %s\n", err.where, err.msg);
	else
		printf("{\"%s\":%d}\n", month ? "files" : "blocks", rc);
	return rc < 0;
}
