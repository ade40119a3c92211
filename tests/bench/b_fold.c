/* Put the records of a store that nobody has open into blocks, as a test wants them:
 *
 *	tests/bench/b_fold STORE [--block N] [--chapter N] [--tail N] [--seed N] [--leftovers] [--partial]
 *
 * --block: records of a block at most (4096); --chapter: blocks of a chapter (64; 0: there is none), with sums unless
 * --partial; --tail: newest records of each log that stay rows; --leftovers: rows of what
 * is in blocks stay beside them.  Says how many blocks there are. */

#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/path.h"
#include "db/owner.h"

#include "../unit/fold_rig.h"

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "block", required_argument, NULL, 'b' }, { "tail", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' }, { "leftovers", no_argument, NULL, 'l' },
		{ "chapter", required_argument, NULL, 'c' }, { "partial", no_argument, NULL, 'p' }, { 0 },
	};
	struct fold_with with = { .seed = 1, .block_max = 4096, .chapter = 64 };
	struct err err = { 0 };
	struct db *db = NULL;
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
		else if (c == 'p')
			with.partial = true;
		else if (c == 'l')
			with.leftovers = true;
		else
			return 2;
	}
	if (argc - optind != 1 || with.block_max < 1) {
		fprintf(stderr, "usage: b_fold STORE [--block N] [--chapter N] [--tail N] [--seed N] [--leftovers] [--partial]\n");
		return 2;
	}
	file = path_join(argv[optind], DB_FILE);
	rc = db_open(file, DB_WRITER, false, &db, &err);
	if (rc == 0)
		rc = fold_store(db, &with, &err);
	db_close(&db);
	free(file);
	if (rc < 0)
		fprintf(stderr, "b_fold: %s: %s\n", err.where, err.msg);
	else
		printf("{\"blocks\":%d}\n", rc);
	return rc < 0;
}
