/* restore: the command that puts a backup into a new directory, checks it there, and says log by log what it has and
 * what is missing of what the signer has signed (OPERATE OP-511); with --test only that.  It runs in the program
 * toolcrib, on its only thread, without a server and without owning anything. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "audit/audit.h"
#include "auditor/evidence.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/seal.h"
#include "command/rows.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "json/reply.h"
#include "keeping/keeping.h"
#include "keys/keyfile.h"
#include "notary/notary.h"
#include "succession/succession.h"
#include "tlog/signer.h"
#include "verify/verify.h"

#include "keeping_int.h"

#define FINDINGS_SHOWN 1000             /* rows; what is beyond is counted */
enum { PIECE = 1 << 20 };
#define BESIDE ".restoring-XXXXXX"

/* The one that shall end it; a second one ends it at once. */
static volatile sig_atomic_t told_by;

static void on_signal(int signo)
{
	told_by = signo;
}

static void heed_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	for (size_t i = 0; i < NELEMS(signals); i++)
		(void)sigaction(signals[i], &act, NULL);
}

/* Nothing is left by now; whoever waits for this process sees what ended it. */
static void end_if_told(void)
{
	if (told_by)
		(void)raise(told_by);
}

static int told(struct err *err)
{
	return told_by ? err_set(err, ERR_CANCELLED, "", "interrupted; nothing was left") : 0;
}

/* --- the copy */

static bool is_sealed(const struct file *f)
{
	return strncmp(f->name, FORMS_FOLDER "/", sizeof(FORMS_FOLDER)) == 0;
}

static int check_room(uint64_t bytes, const char *to, struct err *err)
{
	char *parent = path_absolute(to), *slash = strrchr(parent, '/');
	struct statvfs fs;
	uint64_t free_bytes;
	int rc = 0;

	slash[slash == parent] = '\0';
	if (statvfs(parent, &fs) != 0) {
		rc = err_set(err, ERR_UNREACHABLE, parent, "cannot see how much room there is in %s: %s", parent, strerror(errno));
	} else {
		free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
		if (bytes > free_bytes)
			rc = err_set(err, ERR_LIMIT, parent, "the backup needs %" PRIu64 " bytes, and %s has %" PRIu64, bytes,
				     parent, free_bytes);
	}
	free(parent);
	return rc;
}

static bool is_empty(const char *dir)
{
	DIR *d = opendir(dir);
	bool empty = d != NULL;

	for (const struct dirent *e; d && (e = readdir(d));)
		empty = empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
	if (d)
		closedir(d);
	return empty;
}

static int taken(const char *to, struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, to, "%s is there already, and is never written over", to);
	err_hint(err, "name a directory that is not there, or an empty one");
	return ERR_CONFLICT;
}

static int check_target(const char *to, struct err *err)
{
	struct stat st;

	return lstat(to, &st) != 0 || (S_ISDIR(st.st_mode) && is_empty(to)) ? 0 : taken(to, err);
}

static int write_piece(int fd, const char *path, const char *p, size_t n, struct err *err)
{
	while (n > 0) {
		ssize_t put = write(fd, p, n);

		if (put < 0 && errno != EINTR)
			return err_set(err, ERR_IO, path, "cannot write %s: %s", path, strerror(errno));
		p += put > 0 ? put : 0;
		n -= put > 0 ? (size_t)put : 0;
	}
	return 0;
}

/* A file that grows or shrinks meanwhile is nobody's backup; what it is then, the check of the whole says. */
static int copy_bytes(int in, int out, const struct file *f, const char *to, struct err *err)
{
	char *piece = mem_alloc(PIECE);
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = read(in, piece, PIECE)) != 0) {
		rc = told(err);
		if (rc == 0 && n > 0)
			rc = write_piece(out, to, piece, (size_t)n, err);
		else if (rc == 0 && errno != EINTR)
			rc = err_set(err, ERR_IO, f->from, "cannot read %s: %s", f->from, strerror(errno));
	}
	free(piece);
	return rc;
}

static int copy_file(const struct file *f, const char *dir, struct err *err)
{
	char *to = path_join(dir, f->name), *folder = mem_strndup(to, (size_t)(strrchr(to, '/') - to));
	int in = -1, out = -1, rc = path_mkdirs(folder, 0700, err);

	if (rc == 0 && (!f->own || rename(f->from, to) != 0))
		rc = path_open(f->from, 0, SIZE_MAX, &in, err);
	if (rc == 0 && in >= 0) {
		out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, f->mode);
		if (out < 0)
			rc = err_set(err, ERR_IO, to, "cannot make %s: %s", to, strerror(errno));
	}
	if (rc == 0 && in >= 0)
		rc = copy_bytes(in, out, f, to, err);
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	free(folder);
	free(to);
	return rc;
}

/* False: the catalog cannot be read. */
static bool list_sealed(const char *dir, struct map *ret)
{
	struct audit_sealed listed = { .from = -1 };
	char *file = path_join(dir, DB_FILE), *origin = NULL;
	struct db *db = NULL;
	struct err ignored;
	int version = 0, rc = db_open(file, DB_READER, false, &db, &ignored);

	if (rc == 0)
		rc = db_check_version(db, &version, &ignored);
	if (rc == 0 && version != db_schema_version())
		rc = ERR_CONFLICT;
	while (rc == 0 && (rc = audit_sealed_next(db, &listed, &origin, &ignored)) == 1) {
		map_set_z(ret, listed.path, ret);
		free(origin);
		rc = 0;
	}
	db_close(&db);
	free(file);
	return rc == 0;
}

/* Of those beside a copy the ones that it lists: there may be others, of copies that were made later.  All of a store
 * whose catalog cannot be read. */
static void keep_listed(struct files *files, const char *dir)
{
	struct map *listed = map_new();
	size_t n = 0;

	if (list_sealed(dir, listed))
		for (size_t i = 0; i < files->n; i++) {
			struct file *f = &files->v[i];

			if (is_sealed(f) && !map_get_z(listed, f->name)) {
				files->bytes -= f->bytes;
				free(f->from);
				free(f->name);
			} else {
				files->v[n++] = *f;
			}
		}
	else
		n = files->n;
	files->n = n;
	map_free(&listed);
}

static int copy_some(const struct files *files, bool sealed, const char *to, const char *dir, struct err *err)
{
	uint64_t bytes = 0;
	int rc;

	for (size_t i = 0; i < files->n; i++)
		bytes += is_sealed(&files->v[i]) == sealed ? files->v[i].bytes : 0;
	rc = check_room(bytes, to, err);
	for (size_t i = 0; i < files->n && rc == 0; i++)
		if (is_sealed(&files->v[i]) == sealed)
			rc = copy_file(&files->v[i], dir, err);
	return rc;
}

/* A new directory beside `to`, which is not there or empty, with copies of all that are durable; free() it.  Nothing is
 * left when it fails. */
static int copy_files(struct files *files, const char *to, char **ret_dir, struct err *err)
{
	char *dir = mem_printf("%s" BESIDE, to);
	int rc = check_target(to, err);

	if (rc == 0)
		rc = check_room(files->v[0].bytes, to, err);
	if (rc == 0 && !mkdtemp(dir))
		rc = err_set(err, ERR_UNREACHABLE, to, "no directory can be made beside %s: %s", to, strerror(errno));
	if (rc < 0) {
		free(dir);
		return rc;
	}
	rc = copy_some(files, false, to, dir, err);
	if (rc == 0)
		keep_listed(files, dir);
	if (rc == 0)
		rc = copy_some(files, true, to, dir, err);
	if (rc == 0)
		rc = path_sync_all(dir, err);
	if (rc < 0) {
		path_remove_tree(dir);
		free(dir);
		return rc;
	}
	*ret_dir = dir;
	return 0;
}

/* A reader of a file that was a store's own leaves an empty log, or none. */
static void drop_logs(const char *dir)
{
	static const char *const names[] = { DB_FILE "-wal", DB_FILE "-shm", DB_KEYS "-wal", DB_KEYS "-shm" };

	for (size_t i = 0; i < NELEMS(names); i++) {
		char *path = path_join(dir, names[i]);

		(void)unlink(path);
		free(path);
	}
}

/* rename() takes the place of nothing, or of an empty directory. */
static int put_in_place(const char *dir, const char *to, struct err *err)
{
	drop_logs(dir);
	if (rename(dir, to) == 0)
		return path_sync_parent(to, err);
	if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
		return taken(to, err);
	return err_set(err, ERR_IO, to, "cannot rename %s to %s: %s", dir, to, strerror(errno));
}

/* --- what is said */

enum check { CHECK_FULL, CHECK_QUICK, CHECK_NONE };
struct way {
	char *from, *to, *keys, *signer, *identity;     /* absolute; all but the first: NULL, none */
	const char *until;
	const json_t *key;              /* pinned */
	enum check check;
	bool test;                      /* nothing stays */
	const char *result;             /* NULL, or where what came of that is written */
};
struct restore {
	const struct way *way;
	struct reply *out;
	struct files files;
	char *dir;                      /* where it is put together */
	char *unpacked;                 /* NULL, or where what was shipped lies as a backup like any other */
	struct db *db;
	struct evidence *with;
	struct map *size;               /* of each log that is there, by origin: one more than its records */
	struct map *number;             /* by origin: under which of its names the log is signed in the backup */
	uint64_t records, logs, missing;
	uint64_t bad, gaps;             /* missing: of what was signed; gaps: what else is not whole */
	uint64_t copied_us, ended_us;
	uint64_t last_us;               /* of the system log's last record, unless that is the stop of a server */
	struct tested tested;           /* what is known of the system's log */
	char *instance, *of;            /* its origin; what it is a copy of, for people */
	bool verified, no_keys;         /* no_keys: keys.db is damaged */
};

/* Names of the directory that will not be there any more are those of the backup's files. */
static char *without(const char *said, const char *dir)
{
	const char *at = strstr(said, dir);

	if (!at)
		return mem_strdup(said);
	return mem_printf("%.*s%s", (int)(at - said), said, at + strlen(dir) + (at[strlen(dir)] == '/'));
}

static void say(struct restore *r, const char *class, const char *what, const char *text)
{
	char *said = r->dir ? without(text, r->dir) : mem_strdup(text);

	r->bad += strcmp(class, "bad") == 0;
	r->gaps += strcmp(class, "gap") == 0;
	if (r->bad + r->gaps <= FINDINGS_SHOWN) {
		reply_row_begin(r->out);
		reply_text(r->out, "class", class);
		reply_text(r->out, "what", what);
		reply_text(r->out, "said", said);
		reply_row_end(r->out);
	}
	free(said);
}

/* --- files */

static void say_files(struct restore *r, bool shipped)
{
	for (size_t i = 0; i < r->files.n; i++) {
		const struct file *f = &r->files.v[i];
		char *said = mem_printf("%" PRIu64 " bytes, from %s", f->bytes, f->own ? r->way->from : f->from);

		say(r, "ok", f->name, said);
		free(said);
	}
	if (!files_have(&r->files, DB_MASTER_KEY))
		say(r, "needs", DB_MASTER_KEY, "not in the backup; a start needs it, and no key is checked without it");
	if (!shipped && !files_have(&r->files, DB_KEYS))
		say(r, "needs", DB_KEYS, "not in the backup; a start needs it, and nothing that is kept of calls opens without it");
	say(r, "needs", "signer", "the signer's directory, which a start needs: toolcribd(8), BAD NIGHTS");
}

/* Without --to: what it would take.  Of what was shipped the manifest alone is read, which tells of no damage. */
static int say_needs(struct restore *r, struct err *err)
{
	const struct shipped_ask ask = { r->way->from, NULL, r->way->identity, r->way->until };
	struct str said = STR_INIT;
	uint64_t bytes = 0;
	char *text;
	int rc = shipped_look(&ask, &bytes, &said, err), shipped = rc;

	if (rc == 1)
		say(r, "ok", "shipped", str_text(&said));
	if (rc >= 0)
		rc = files_gather(rc == 1 ? NULL : r->way->from, r->way->keys, &r->files, err);
	str_fini(&said);
	if (rc < 0)
		return rc;
	say_files(r, shipped);
	if (shipped && !r->way->identity)
		say(r, "needs", "identity", "of age, of one of those for whom it was encrypted: --identity");
	bytes += r->files.bytes;
	text = mem_printf("%" PRIu64 " bytes of room, and about %" PRIu64 " s at 30 MB a second; nothing was done: say --to",
			  bytes, bytes / 30000000 + 1);
	reply_row_begin(r->out);
	reply_text(r->out, "class", "sum");
	reply_text(r->out, "what", "NEEDED");
	reply_text(r->out, "said", text);
	reply_int(r->out, "bytes", (int64_t)bytes);
	reply_row_end(r->out);
	free(text);
	return 0;
}

/* --- logs */

/* What the signer has signed most of, under the log's name in the backup and those that came after it. */
static const struct signer_log *find_signed(const struct restore *r, const char *origin)
{
	const struct signer_state *s = evidence_get(r->with)->signer;
	const struct signer_log *most = NULL, *l;
	uint64_t n = (uint64_t)(uintptr_t)map_get_z(r->number, origin);

	for (; s && (l = signer_state_nth(s, origin, n)) != NULL; n++)
		if (!most || l->size >= most->size)
			most = l;
	return most;
}

/* A log that ends before what the signer has signed, or is not there at all. */
static bool is_short(const struct restore *r, const char *origin)
{
	const struct signer_log *l = origin ? find_signed(r, origin) : NULL;
	uint64_t size = origin ? (uint64_t)(uintptr_t)map_get_z(r->size, origin) : 0;

	return l && l->size > (size ? size - 1 : 0);
}

static void say_log(struct restore *r, const char *origin, uint64_t records, uint64_t noted)
{
	const struct signer_log *l = find_signed(r, origin);
	struct str said = STR_INIT;

	str_printf(&said, "%" PRIu64 " records, %" PRIu64 " of them signed", records, noted);
	if (l)
		str_printf(&said, "; the signer has signed %" PRIu64, l->size);
	if (is_short(r, origin)) {
		r->missing += l->size - records;
		str_printf(&said, ": records %" PRIu64 "-%" PRIu64 " are missing", records, l->size - 1);
	}
	say(r, is_short(r, origin) ? "gap" : "ok", origin, str_text(&said));
	str_fini(&said);
}

/* Logs that began when the backup was made already. */
static void say_unknown(struct restore *r)
{
	const struct signer_state *s = evidence_get(r->with)->signer;

	for (size_t i = 0; s && i < s->nlogs; i++) {
		const struct signer_log *l = s->log[i];
		char *said, origin[NOTE_NAME_MAX + 1];
		uint64_t n;

		snprintf(origin, sizeof(origin), "%s", l->origin);
		origin[succession_split(l->origin, &n)] = '\0';
		if (l->size == 0 || map_get_z(r->size, origin) || n < (uint64_t)(uintptr_t)map_get_z(r->number, origin))
			continue;
		r->missing += l->size;
		said = mem_printf("not in the backup; the signer has signed %" PRIu64 " records of it", l->size);
		say(r, "gap", l->origin, said);
		free(said);
	}
}

static int check_signer(const struct restore *r, const char *system, struct err *err)
{
	const struct signer_state *s = evidence_get(r->with)->signer;

	if (!s || strcmp(s->instance, system) == 0)
		return 0;
	return err_set(err, ERR_CONFLICT, "signer-state", "the signer of %s signs for another store than that of the backup",
		       r->way->signer);
}

static int note_number(void *arg, const struct succession *s, struct err *err)
{
	(void)err;
	map_set_z(arg, s->origin, (void *)(uintptr_t)s->n);
	return 0;
}

static int read_logs(struct restore *r, struct err *err)
{
	struct db_stmt *st;
	int rc = succession_each(r->db, note_number, r->number, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(r->db, SQL_RESTORE_LIST_LOGS);
	while ((rc = db_step(st, err)) == 1) {
		const char *origin = db_col_text(st, 1, NULL);
		const int64_t records = db_col_i64(st, 2), noted = db_col_i64(st, 3);

		rc = db_col_i64(st, 0) == 1 ? check_signer(r, origin, err) : 0;
		if (rc == 0 && (records < 0 || noted < 0))
			rc = err_set(err, ERR_CORRUPT, r->way->from, "a log has fewer than no records");
		if (rc < 0)
			break;
		if (db_col_i64(st, 0) == 1 && db_col_i64(st, 5) != AUDIT_SERVER_STOP)
			r->last_us = (uint64_t)db_col_i64(st, 4);
		if (db_col_i64(st, 0) == 1) {
			r->instance = mem_strdup(origin);
			r->tested = (struct tested){ .size = (uint64_t)records, .last_us = (uint64_t)db_col_i64(st, 4) };
		}
		map_set_z(r->size, origin, (void *)(uintptr_t)((uint64_t)records + 1));
		r->records += (uint64_t)records;
		r->logs++;
		say_log(r, origin, (uint64_t)records, (uint64_t)noted);
	}
	db_stmt_put(&st);
	if (rc == 0)
		say_unknown(r);
	return rc;
}

/* --- checks */

/* What the signer has beyond the copy is said log by log already. */
static void found(void *arg, const struct audit_finding *f)
{
	struct restore *r = arg;
	const char *name = audit_finding_name(f->code);
	struct str said = STR_INIT;
	bool bad = audit_finding_bad(f->code) && !f->gap;

	if ((f->code == AUDIT_FINDING_SIGNER_AHEAD || f->code == AUDIT_FINDING_LOG_MISSING) && is_short(r, f->origin))
		return;
	str_printf(&said, "%s", f->origin ? f->origin : "");
	if (f->from >= 0)
		str_printf(&said, " %" PRId64, f->from);
	if (f->from >= 0 && f->to != f->from)
		str_printf(&said, "-%" PRId64, f->to);
	str_printf(&said, "%s%s", said.len ? ": " : "", f->detail ? f->detail : audit_finding_text(f->code));
	say(r, bad ? "bad" : "gap", name, str_text(&said));
	str_fini(&said);
}

/* What a server had written in the moment before the copy was made, and not signed, is as young as it was then. */
static uint64_t young_s(const struct restore *r)
{
	const uint64_t now_us = clock_wall_us();

	if (r->last_us == 0)
		return 0;
	return NOTARY_MAX_AGE_S + (now_us > r->last_us ? (now_us - r->last_us) / 1000000 : 0);
}

/* A verification cannot be called off, and it takes minutes. */
static void progress(void *arg, uint64_t records, uint64_t total)
{
	struct restore *r = arg;

	(void)records;
	(void)total;
	if (told_by)
		path_remove_tree(r->dir);
	end_if_told();
}

static int verify_all(struct restore *r, struct err *err)
{
	struct audit_evidence with;
	struct audit_coverage sum;
	int rc = 0;

	/* Nothing is opened without both. */
	if (files_have(&r->files, DB_MASTER_KEY) && files_have(&r->files, DB_KEYS) && !r->no_keys)
		rc = evidence_payload_keys(r->with, r->dir, false, err);
	with = *evidence_get(r->with);
	with.young_s = young_s(r);
	with.threads = cpu_count();
	with.progress = progress;
	if (rc == 0)
		rc = audit_verify_with(r->db, 0, &with, found, r, &sum, err);
	r->verified = rc == 0;
	return rc;
}

/* By itself: what is damaged in it is damage also when nothing is opened with it. */
static int check_keys(struct restore *r, struct err *err)
{
	char *file = path_join(r->dir, DB_KEYS);
	struct db *db = NULL;
	int rc = files_have(&r->files, DB_KEYS) ? db_open(file, DB_READER, false, &db, err) : 0;

	if (rc == 0 && db)
		rc = db_migrate_keys(db, err);
	if (rc == 0 && db)
		rc = db_check_integrity(db, err);
	r->no_keys = rc == ERR_CORRUPT;
	if (r->no_keys)
		say(r, "bad", DB_KEYS, err->msg);
	db_close(&db);
	free(file);
	return r->no_keys ? 0 : rc;
}

/* What a verification of all says by itself. */
static int check_sealed(struct restore *r, struct err *err)
{
	struct audit_sealed listed = { .from = -1 };
	char *origin = NULL;
	int rc;

	while ((rc = audit_sealed_next(r->db, &listed, &origin, err)) == 1) {
		const bool away = forms_is_archived(listed.path);
		char *path = away ? mem_strdup(listed.path) : path_join(r->dir, listed.path);

		if (!path_exists(path))
			say(r, r->way->check == CHECK_NONE || away ? "gap" : "bad", "SEGMENT_MISSING", listed.path);
		free(path);
		free(origin);
	}
	return rc;
}

/* A store of an older release is carried forward by its first start. */
static int check(struct restore *r, struct err *err)
{
	char *file = path_join(r->dir, DB_FILE), *said;
	int version = 0, rc = r->way->check == CHECK_NONE ? 0 : check_keys(r, err);

	if (rc == 0)
		rc = db_open(file, DB_READER, false, &r->db, err);

	free(file);
	if (rc == 0)
		rc = db_check_version(r->db, &version, err);
	if (rc == 0 && (r->way->check == CHECK_QUICK || version < db_schema_version()))
		rc = r->way->check == CHECK_NONE ? 0 : db_check_integrity(r->db, err);
	if (rc == 0 && version < db_schema_version()) {
		said = mem_printf("the backup has schema %d, this program %d, so it was not read: a start carries it forward, then "
				  "toolcrib audit verify", version, db_schema_version());
		say(r, "gap", DB_FILE, said);
		free(said);
		return 0;
	}
	if (rc == 0)
		rc = read_logs(r, err);
	if (rc < 0)
		return rc;
	return r->way->check == CHECK_FULL ? verify_all(r, err) : check_sealed(r, err);
}

/* What of it cannot be read is damage like any other. */
static int check_whole(struct restore *r, struct err *err)
{
	int rc = check(r, err);

	if (rc == ERR_CORRUPT) {
		say(r, "bad", DB_FILE, err->msg);
		rc = 0;
	} else if (rc < 0) {
		(void)err_wrap(err, "%s", r->way->from);
	}
	evidence_free(&r->with);        /* it has keys.db open */
	db_close(&r->db);
	return rc;
}

/* --- the whole */

/* What was shipped and is damaged is a finding, and there is nothing to look at then. */
static int unpack(struct restore *r, struct err *err)
{
	const struct shipped_ask ask = { r->way->from, r->way->to, r->way->identity, r->way->until };
	struct str said = STR_INIT;
	int rc = check_target(r->way->to, err);

	if (rc == 0)
		rc = shipped_unpack(&ask, &r->unpacked, &said, err);
	if (rc == ERR_CORRUPT)
		say(r, "bad", "CHAIN", err->msg);
	else if (rc == 0 && r->unpacked)
		say(r, "ok", "shipped", str_text(&said));
	if (r->unpacked && said.len)
		r->of = mem_strdup(str_text(&said));
	str_fini(&said);
	return rc;
}

static int gather(struct restore *r, struct err *err)
{
	int rc = files_gather(r->unpacked ? r->unpacked : r->way->from, r->way->keys, &r->files, err);

	for (size_t i = 0; r->unpacked && i < r->files.n; i++)
		r->files.v[i].own = strncmp(r->files.v[i].from, r->unpacked, strlen(r->unpacked)) == 0;
	for (size_t i = 0; rc == 0 && i < json_array_size(r->way->key); i++)
		rc = evidence_key(r->with, json_string_value(json_array_get(r->way->key, i)), err);
	if (rc == 0 && r->way->signer)
		rc = evidence_signer(r->with, r->way->signer, err);
	return rc;
}

static int end(struct restore *r, struct err *err)
{
	int rc = 0;

	if (!r->way->test && r->bad == 0)
		rc = told(err);
	if (rc == 0 && !r->way->test && r->bad == 0)
		rc = put_in_place(r->dir, r->way->to, err);
	if (r->way->test || r->bad > 0 || rc < 0)
		path_remove_tree(r->dir);
	return rc;
}

static const char *state_of(const struct restore *r)
{
	return r->bad ? "DAMAGED" : r->gaps ? "INCOMPLETE" : r->verified ? "INTACT" : "NOT VERIFIED";
}

/* One whose logs could not be read is of no store that could be told. */
static int write_result(const struct restore *r, struct err *err)
{
	struct tested t = r->tested;

	if (!r->way->result || !r->instance)
		return 0;
	t.instance = r->instance;
	t.state = state_of(r);
	t.copy = r->of ? r->of : "a backup";
	t.tested_us = clock_wall_us();
	t.records = r->records;
	t.logs = r->logs;
	t.missing = r->missing;
	t.bad = r->bad;
	t.gaps = r->gaps;
	return tested_write(r->way->result, &t, err);
}

static void put_sum(struct restore *r, uint64_t begun_us)
{
	const uint64_t ms = (r->ended_us - begun_us) / 1000;
	const char *state = state_of(r);
	const char *where = r->way->test ? "tested, and removed again" : r->bad == 0 ? r->way->to
		: "nothing was left; --verify none leaves it as it is";
	char *said = mem_printf("%" PRIu64 " records of %" PRIu64 " logs, %" PRIu64 " missing, %" PRIu64 " bytes, %" PRIu64
				" ms; %" PRIu64 " bad, %" PRIu64 " gaps: %s", r->records, r->logs, r->missing, r->files.bytes, ms, r->bad,
				r->gaps, where);

	reply_row_begin(r->out);
	reply_text(r->out, "class", "sum");
	reply_text(r->out, "what", state);
	reply_text(r->out, "said", said);
	reply_int(r->out, "bytes", (int64_t)r->files.bytes);
	reply_int(r->out, "records", (int64_t)r->records);
	reply_int(r->out, "logs", (int64_t)r->logs);
	reply_int(r->out, "missing", (int64_t)r->missing);
	reply_int(r->out, "bad", (int64_t)r->bad);
	reply_int(r->out, "gaps", (int64_t)r->gaps);
	reply_ms(r->out, "copied_ms", r->copied_us - begun_us);
	reply_ms(r->out, "checked_ms", r->ended_us - r->copied_us);
	reply_row_end(r->out);
	free(said);
}

static int put_together(struct restore *r, struct err *err)
{
	const struct way *way = r->way;
	const uint64_t begun_us = clock_mono_us();
	int rc = unpack(r, err);

	if (rc == 0)
		rc = gather(r, err);
	if (rc == 0)
		rc = copy_files(&r->files, way->to, &r->dir, err);
	r->copied_us = clock_mono_us();
	if (rc == 0) {
		say_files(r, false);
		rc = check_whole(r, err);
	}
	r->ended_us = clock_mono_us();
	if (rc == 0)
		rc = end(r, err);
	else if (r->dir)
		path_remove_tree(r->dir);
	if (rc == ERR_CORRUPT && r->bad > 0 && !r->dir)
		rc = 0;
	if (rc == 0)
		rc = write_result(r, err);
	if (rc == 0)
		put_sum(r, begun_us);
	return rc;
}

static int restore(const struct way *way, struct reply *out, struct err *err)
{
	struct restore r = { .way = way, .out = out, .with = evidence_new(), .size = map_new(),
			     .number = map_new() };
	int rc = way->to ? put_together(&r, err) : say_needs(&r, err);

	if (r.unpacked)
		path_remove_tree(r.unpacked);
	free(r.unpacked);
	evidence_free(&r.with);
	map_free(&r.size);
	map_free(&r.number);
	files_fini(&r.files);
	free(r.dir);
	free(r.instance);
	free(r.of);
	return rc;
}

static int take_check(const char *text, enum check *ret, struct err *err)
{
	static const char *const names[] = { [CHECK_FULL] = "full", [CHECK_QUICK] = "quick", [CHECK_NONE] = "none" };

	for (unsigned i = 0; i < NELEMS(names); i++)
		if (!text || strcmp(text, names[i]) == 0) {
			*ret = (enum check)i;
			return 0;
		}
	return err_set(err, ERR_INVALID, "verify", "--verify %s: it is full, quick or none", text);
}

/* Of an option that was given. */
static char *take_path(const json_t *args, const char *name)
{
	const char *path = json_string_value(json_object_get(args, name));
	char *ret = path ? path_absolute(path) : NULL;

	for (size_t n = ret ? strlen(ret) : 0; n > 1 && ret[n - 1] == '/'; n--)
		ret[n - 1] = '\0';
	return ret;
}

/* toolcrib restore, by its arguments, in the program that was called: a backup into a new directory.  Rows of what is
 * there, the last one with the figures; what is damaged is no error but a row of class "bad", and nothing is left then.
 * ERR_INVALID, ERR_UNREACHABLE, ERR_CONFLICT, ERR_LIMIT, ERR_IO. */
static int restore_run(const json_t *args, struct str *rows, struct err *err)
{
	struct way way = { take_path(args, "from"), take_path(args, "to"), take_path(args, "keys"),
			   take_path(args, "signer-state"), take_path(args, "identity"),
			   json_string_value(json_object_get(args, "until")), json_object_get(args, "key"), CHECK_FULL,
			   json_is_true(json_object_get(args, "test")),
			   json_string_value(json_object_get(args, "result")) };
	struct reply out = { .text = STR_INIT };
	int rc = take_check(json_string_value(json_object_get(args, "verify")), &way.check, err);

	if (rc == 0 && way.result && (!way.test || way.check != CHECK_FULL))
		rc = err_set(err, ERR_INVALID, "result", "--result is for --test, with --verify full");
	if (rc == 0 && !way.to && way.test)
		rc = err_set(err, ERR_INVALID, "to", "--test wants --to, beside which it is put together");
	heed_signals();
	if (rc == 0)
		rc = restore(&way, &out, err);
	end_if_told();
	str_put(rows, out.text.p, out.text.len);
	str_fini(&out.text);
	free(way.from);
	free(way.to);
	free(way.keys);
	free(way.signer);
	free(way.identity);
	return rc;
}

/* --- rows of the command table */

static const struct command_arg restore_args[] = {
	NEED("from", "BACKUP", ARG_TEXT, COMPLETE_FILE,
	     "The file that toolcrib backup made, with segments beside it, the directory that has it as toolcrib.db, or one "
	     "that toolcrib-ship wrote."),
	OPT("to", "DIR", ARG_TEXT, COMPLETE_FILE,
	    "The store's directory: one that is not there, or an empty one.  Without it nothing is done, and what it would "
	    "take is said."),
	OPT("identity", "FILE", ARG_TEXT, COMPLETE_FILE,
	    "Of a directory that toolcrib-ship wrote: the identity of age that opens it, as age-keygen made it."),
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE,
	    "Of such a directory: as the store was before this time; default: the newest."),
	OPT("keys", "DIR", ARG_TEXT, COMPLETE_FILE, "Where key files are looked for that do not lie beside the backup."),
	OPT("signer-state", "FILE", ARG_TEXT, COMPLETE_FILE,
	    "What the signer remembers: its directory, or a copy of its file state."),
	OPT("verify", "full|quick|none", ARG_TEXT, COMPLETE_NONE,
	    "Read every record (full, which is the default), the database's own structure (quick), or nothing."),
	OPTS("key", "KEY", ARG_TEXT, COMPLETE_NONE,
	     "A key that you have pinned, as audit keys prints it; may be given again."),
	FLAG("test", "Put it together beside DIR, check it, and remove it."),
	OPT("result", "FILE", ARG_TEXT, COMPLETE_FILE,
	    "With --test: write what came of it to this file, for toolcrib audit restore-test where the store is."),
	ARG_END };
static const struct command_column restore_cols[] = {
	COL("class", "STATE"), COL("what", "WHAT"), COL("said", "SAID"), COL_END };

const struct command restore_commands[] = {
	{ .noun = "restore", .help = "Put a backup into a new directory, and check it",
	  .detail = "Copies what a start looks for (toolcrib.db, keys.db, master.key, secret-*.key, sealed files) into a new "
		    "directory beside DIR, reads all of it as toolcrib-verify does, and renames it to DIR: never onto a store that "
		    "is there.  Says log by log how many records there are, how many of them are signed, and, with "
		    "--signer-state, how many of those that the signer has signed are missing.  Exit status 4 when something is "
		    "damaged, and then nothing is left in DIR; 5 when records are missing, or something could not be checked.  "
		    "The signer is not put back with it: toolcribd(8), BAD NIGHTS.",
	  .args = restore_args, .columns = restore_cols, .shape = ADM_FINDINGS, .storeless = true, .role = ADM_OWNER,
	  .where = ADM_ON_CTL, .here = restore_run },
	{ .noun = NULL },
};
