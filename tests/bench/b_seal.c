/* Make a sealed file of records of a store that nobody has open, whatever form they have there:
 *
 *	tests/bench/b_seal STORE LOG FROM TO FILE
 *
 * LOG: its number.  FROM, TO: indexes from <= idx < to, multiples of 256; a checkpoint has to cover TO.  FILE is verified
 * before it is said how large it is. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/crypto.h"
#include "base/path.h"
#include "bundle/segment.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"

static void found(void *arg, const struct audit_finding *f)
{
	(void)arg;
	fprintf(stderr, "b_seal: %s %" PRId64 "-%" PRId64 " %s\n", audit_finding_name(f->code), f->from, f->to,
		f->detail ? f->detail : "");
}

static int seal(struct db *db, char **word, struct err *err)
{
	struct audit_segment_req req = { .log = strtoll(word[0], NULL, 10), .from = strtoll(word[1], NULL, 10),
		.to = strtoll(word[2], NULL, 10) };
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_ORIGIN);
	struct audit_segment made;
	struct audit_coverage sum;
	struct stat file = { 0 };
	char *origin;
	int rc;

	db_bind_i64(st, 1, req.log);
	rc = db_step(st, err);
	req.origin = origin = rc == 1 ? db_col_dup(st, 0) : NULL;
	db_stmt_put(&st);
	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "", "there is no log %s", word[0]);
	if (rc == 1)
		rc = audit_segment_write(db, &req, word[3], err);
	if (rc == 0)
		rc = audit_segment_verify(word[3], NULL, found, NULL, &made, &sum, err);
	free(origin);
	if (rc == 0 && sum.bad > 0)
		rc = err_set(err, ERR_INTERNAL, word[3], "the file that was made is damaged");
	if (rc == 0 && stat(word[3], &file) == 0)
		printf("{\"records\":%" PRIu64 ",\"bytes\":%lld}\n", sum.records, (long long)file.st_size);
	return rc;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	struct db *db = NULL;
	int rc;

	if (argc != 6 || secret_init() < 0) {
		fprintf(stderr, "usage: b_seal STORE LOG FROM TO FILE\n");
		return 2;
	}
	rc = forms_open_store(db_in(argv[1]), &db, &err);
	if (rc == 0)
		rc = seal(db, argv + 2, &err);
	db_close(&db);
	if (rc < 0)
		fprintf(stderr, "b_seal: %s: %s\n", err.where, err.msg);
	return rc < 0;
}
