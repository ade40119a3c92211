/* backup, audit restore-test.  What lies beside the file that toolcrib backup makes (SCALE SC-807): sealed files,
 * which are copied once.  Called by whoever may read the store and write where its copy is: the server on its pool,
 * or the program that gave the command.  And that a backup was tested, which is on record (OPERATE OP-515,
 * decision 0132). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/checkpoint.h"
#include "audit/fields.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/seal.h"
#include "command/rows.h"
#include "db/db.h"
#include "forms/forms.h"
#include "json/json.h"
#include "json/reply.h"
#include "keeping/keeping.h"

#include "keeping_int.h"

static int copy_one(const struct audit_sealed *listed, const char *origin, const char *store, const char *dir,
		    struct backup_sealed *sum, struct err *err)
{
	char *from = path_join(store, listed->path), *to = path_join(dir, listed->path);
	struct stat st = { 0 };
	bool is_new = false;
	int rc = audit_sealed_copy(from, to, origin, listed, NULL, &is_new, err);

	if (rc == 0)
		sum->files++;
	if (rc == 0 && is_new) {
		sum->copied++;
		sum->bytes += stat(to, &st) == 0 ? st.st_size : 0;
	}
	free(from);
	free(to);
	return rc;
}

int backup_sealed(const char *file, const char *store, struct backup_sealed *ret, struct err *err)
{
	struct audit_sealed listed = { .from = -1 };
	const char *slash = strrchr(file, '/');
	char *dir = slash > file ? mem_strndup(file, (size_t)(slash - file)) : mem_strdup("/"), *origin;
	struct db *db = NULL;
	int rc = db_open(file, DB_READER, false, &db, err);

	*ret = (struct backup_sealed){ 0 };
	while (rc == 0 && (rc = audit_sealed_next(db, &listed, &origin, err)) == 1) {
		ret->archived += forms_is_archived(listed.path);
		rc = forms_is_archived(listed.path) ? 0 : copy_one(&listed, origin, store, dir, ret, err);
		free(origin);
	}
	db_close(&db);
	free(dir);
	return rc;
}

void backup_put(const struct backup_sealed *sealed, struct reply *o)
{
	char *said = sealed->files == 0 ? mem_strdup("")
		: mem_printf(", and beside it %" PRId64 " sealed files, %" PRId64 " of them new", sealed->files, sealed->copied);

	reply_int(o, "sealed", sealed->files);
	reply_int(o, "sealed_new", sealed->copied);
	reply_int(o, "sealed_bytes", sealed->bytes);
	reply_int(o, "archived", sealed->archived);
	reply_text(o, "beside", said);
	free(said);
}

int backup_here(const json_t *args, struct str *rows, struct err *err)
{
	static const char *const files[] = { "file", "keys", "signer" };
	json_t *root = NULL, *row;
	struct backup_sealed sealed;
	struct reply said = { .text = STR_INIT };
	const char *end = strchr(str_text(rows), '\n'), *store;
	int rc = end ? jx_parse(rows->p, (size_t)(end - rows->p), &root, err) : 0;

	row = json_object_get(root, "row");
	store = json_string_value(json_object_get(row, "sealed_in"));
	if (rc == 0 && store) {
		rc = backup_sealed(json_string_value(json_object_get(args, "file")), store, &sealed, err);
		for (size_t i = 0; i < NELEMS(files) && rc < 0; i++) {
			const char *path = json_string_value(json_object_get(args, files[i]));

			if (path)
				(void)unlink(path);
		}
		str_reset(rows);
	}
	if (rc == 0 && store) {
		const char *name;
		json_t *value;

		(void)json_object_del(row, "sealed_in");
		reply_row_begin(&said);
		json_object_foreach(row, name, value)
			reply_json(&said, name, value);
		backup_put(&sealed, &said);
		reply_row_end(&said);
		str_put(rows, said.text.p, said.text.len);
	}
	str_fini(&said.text);
	json_decref(root);
	return rc;
}

/* --- that one was tested */

/* What toolcrib restore --test --result writes, where the identity is, is a claim of whoever gives it to the server,
 * and his name stands in the record; what can be compared is: the copy's last record is one of this store's. */
#define FORMAT 1
#define AHEAD_US 300000000ll            /* of another machine's clock */
#define WHAT_MAX 200                    /* bytes of a text in it */

int tested_write(const char *file, const struct tested *t, struct err *err)
{
	char when[40], last[40];
	struct str text = STR_INIT;
	json_t *root = json_pack("{s:i, s:s, s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "restore_test", FORMAT,
				 "instance", t->instance, "system_records", (json_int_t)t->size,
				 "last_record", clock_format_utc(t->last_us, last, sizeof(last)),
				 "tested", clock_format_utc(t->tested_us, when, sizeof(when)), "state", t->state,
				 "copy", t->copy, "records", (json_int_t)t->records, "logs", (json_int_t)t->logs,
				 "missing", (json_int_t)t->missing, "bad", (json_int_t)t->bad, "gaps", (json_int_t)t->gaps);
	int rc;

	if (root) {
		jx_write_pretty(root, &text);
		str_putc(&text, '\n');
		rc = path_replace(file, 0600, text.p, text.len, err);
	} else {
		rc = err_set(err, ERR_INVALID, file, "what was tested has a name that is no text");
	}
	str_fini(&text);
	json_decref(root);
	return rc;
}

/* --- the record */

static int wrong(const char *member, const char *what, struct err *err)
{
	(void)err_set(err, ERR_INVALID, member, "%s %s: this is not what a test has written", member, what);
	err_hint(err, "name the file that toolcrib restore --test --result FILE has written");
	return ERR_INVALID;
}

static int take_text(const json_t *doc, const char *member, const char **ret, struct err *err)
{
	*ret = json_string_value(json_object_get(doc, member));
	return *ret && strlen(*ret) <= WHAT_MAX ? 0 : wrong(member, "is no text, or a long one", err);
}

static int take_number(const json_t *doc, const char *member, uint64_t *ret, struct err *err)
{
	const json_t *is = json_object_get(doc, member);

	if (!json_is_integer(is) || json_integer_value(is) < 0)
		return wrong(member, "is no number from 0 on", err);
	*ret = (uint64_t)json_integer_value(is);
	return 0;
}

static int take_time(const json_t *doc, const char *member, uint64_t *ret, struct err *err)
{
	const char *text;
	int rc = take_text(doc, member, &text, err);

	if (rc == 0 && clock_parse(text, 0, ret) < 0)
		rc = wrong(member, "is no time", err);
	return rc;
}

static int take_all(const json_t *doc, struct tested *t, struct err *err)
{
	const struct { const char *name; uint64_t *to; } number[] = {
		{ "system_records", &t->size }, { "records", &t->records }, { "logs", &t->logs }, { "missing", &t->missing },
		{ "bad", &t->bad }, { "gaps", &t->gaps },
	};
	const struct { const char *name; const char **to; } text[] = {
		{ "instance", &t->instance }, { "state", &t->state }, { "copy", &t->copy },
	};
	int rc = json_integer_value(json_object_get(doc, "restore_test")) == FORMAT ? 0
		: wrong("restore_test", "is not 1", err);

	for (size_t i = 0; rc == 0 && i < NELEMS(text); i++)
		rc = take_text(doc, text[i].name, text[i].to, err);
	for (size_t i = 0; rc == 0 && i < NELEMS(number); i++)
		rc = take_number(doc, number[i].name, number[i].to, err);
	if (rc == 0)
		rc = take_time(doc, "tested", &t->tested_us, err);
	return rc == 0 ? take_time(doc, "last_record", &t->last_us, err) : rc;
}

struct look { const struct tested *t; int64_t log; };

/* 0: it is another store, or one that has fewer records. */
static int find_system(void *arg, const struct audit_log_view *log, struct err *err)
{
	struct look *look = arg;

	(void)err;
	if (log->tenant_id == 0 && strcmp(log->origin, look->t->instance) == 0 && look->t->size > 0 &&
	    look->t->size <= (uint64_t)log->size)
		look->log = log->id;
	return 0;
}

/* A copy is of this store when its last record is one of its own, of that time. */
static int check_ours(const struct tested *t, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct look look = { t, 0 };
	uint64_t ts = 0;
	int kind = 0, rc = audit_logs_each(logs, find_system, &look, err);

	if (rc == 0 && look.log)
		rc = audit_at(db, look.log, (int64_t)t->size - 1, &ts, &kind, err);
	if (rc == 0 && (!look.log || ts != t->last_us))
		rc = err_set(err, ERR_CONFLICT, "instance", "what was tested is no copy of this store: it ends at record %" PRIu64
			     " of %s", t->size, t->instance);
	if (rc == 0 && t->tested_us > clock_wall_us() + AHEAD_US)
		rc = err_set(err, ERR_INVALID, "tested", "the test was in the future: is a clock wrong?");
	return rc;
}

static int record(struct command_call *c, const struct tested *t, struct db *db, struct audit_logs *logs,
		  struct err *err)
{
	uint8_t counts[24], time[8];
	const struct audit_field field[] = {
		{ AUDIT_TAG_COUNTS, counts, sizeof(counts) }, { AUDIT_TAG_TIMES, time, sizeof(time) },
	};
	char when[40], *said;
	int rc;

	audit_put_be(counts, t->size, 8);
	audit_put_be(counts + 8, t->bad, 8);
	audit_put_be(counts + 16, t->gaps, 8);
	audit_put_be(time, t->tested_us, 8);
	said = mem_printf("%s: %" PRIu64 " records of %" PRIu64 " logs, %" PRIu64 " missing; %" PRIu64 " bad, %" PRIu64
			  " gaps; %s, tested %s", t->state, t->records, t->logs, t->missing, t->bad, t->gaps, t->copy,
			  clock_format_utc(t->tested_us, when, sizeof(when)));
	rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_BACKUP_TEST, .obj = "backup", .reason = said,
		.field = field, .nfield = NELEMS(field) }, err);
	if (rc == 0) {
		reply_row_begin(c->out);
		reply_text(c->out, "said", said);
		reply_text(c->out, "tested", when);
		reply_int(c->out, "bad", (int64_t)t->bad);
		reply_int(c->out, "gaps", (int64_t)t->gaps);
		reply_row_end(c->out);
	}
	free(said);
	return rc;
}

static int tested_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const json_t *documents = arg_json(c, "documents");
	struct tested t = { .size = 0 };
	int rc = json_array_size(documents) == 1 ? take_all(json_array_get(documents, 0), &t, err)
		: wrong("file", "has not one document", err);

	if (rc == 0)
		rc = check_ours(&t, db, logs, err);
	return rc < 0 ? rc : record(c, &t, db, logs, err);
}

static const struct command_arg tested_args[] = {
	FILE1("What toolcrib restore --test --result has written; - is standard input."), ARG_END };

static const struct command_arg move_args[] = {
	OPT("to", "URL", ARG_TEXT, COMPLETE_NONE, "Where it goes, as in postgresql:host=pg1 dbname=toolcrib user=toolcrib."),
	OPT("from", "URL", ARG_TEXT, COMPLETE_NONE, "Where it comes from, into the folder of --store."),
	OPT("keys-database", "URL", ARG_TEXT, COMPLETE_NONE, "That of payload keys; else the same with _keys behind."),
	OPT("database-owner", "ROLE", ARG_TEXT, COMPLETE_NONE, "Who makes the tables; without it toolcrib_owner."),
	FLAG("no-standby", "With --to: its commits need wait for no other machine."),
	FLAG("copy", "With --from: the store stays there, and its servers go on."),
	FLAG("again", "Throw away what an earlier move, which was cut off, or a store that has left, is in the target."),
	ARG_END };
static const struct command_column move_cols[] = {
	COL("log", "LOG"), COL("records", "RECORDS"), COL("root", "ROOT"), COL_END };

const struct command tested_commands[] = {
	{ .noun = "audit", .verb = "restore-test", .help = "Put on record that a backup was restored for a test",
	  .detail = "The test runs where the identity or the key files are, which may be another machine: toolcrib restore "
		    "--test --result FILE.  This puts what came of it on record (backup.test), with the name of whoever says so; "
		    "a file of another store, or of a copy that this store does not go on from, is refused.  One that found "
		    "nothing damaged counts as the last test: for the metric backup_test_timestamp_seconds, and for the alert "
		    "restore_untested, which comes after twice backup.test_every without one.",
	  .args = tested_args, .done = "on record: %{said}", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .body = tested_body },
	{ .noun = "store", .verb = "move", .help = "Move the store into a database of PostgreSQL, or back",
	  .detail = "While no server runs.  With --to all that toolcrib.db and keys.db have goes into two empty databases, "
		    "made as toolcribd(8), POSTGRESQL, says; both files then end in .moved, and master.key and the signer stay, "
		    "with a file that says where the store is.  With --from it comes back into a folder that has the key files "
		    "and no toolcrib.db, or, with --copy, as it is at one moment, into any: the servers go on, and both "
		    "verifiers read it.  Ids and bytes stay what they are.  Records come out of "
		    "blocks and sealed files on the way, and a server folds them again.  Each log's tree is counted from its "
		    "records, and what does not "
		    "come to its head is not moved; the roots are printed, and are the same on both sides.  Nothing that is half "
		    "there is ever served: a database is marked until all is in it, a file has another name.  A move that was cut "
		    "off has left the source as it was: --again begins anew.  A database that a store has left refuses servers; "
		    "drop it when the store in the folder has been verified.",
	  .args = move_args, .columns = move_cols, .shape = ADM_TABLE, .storeless = true, .role = ADM_OWNER,
	  .where = ADM_ON_CTL },
	{ .noun = NULL },
};
