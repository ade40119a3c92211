/* audit archive, audit attach: sealed files go into the archive, and come back (bundle/seal.h; decision 0089).  A lane
 * that reads copies, the writer says where the file is now, one file after the other; originals go behind the last one,
 * when nobody reads by a catalog of before.  What was moved stays so when the next one cannot be.  Loop thread. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/erase.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "bundle/seal.h"
#include "command/rows.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "keys/keys.h"
#include "review/review.h"
#include "toolset/toolset.h"
#include "writer/writer.h"

#include "keeping_int.h"

#define PAUSE_US 100000                 /* while a reader is in the way */
enum { FLUSHES = 50 };                  /* 5 s */

/* What is under way.  Of a file: COPY, then of attach COLLECT and PLACE, then PUT; in the end, of archive, FLUSH and
 * CLEAN. */
enum stage { COPY, COLLECT, PLACE, PUT, FLUSH, CLEAN };

struct moving {
	struct command_call *c;
	struct commands *admin;         /* counted */
	struct jobs *jobs; const atomic_bool *stop;     /* the same */
	struct ev_timer *timer;
	char *store;                    /* toolcrib.db */
	uint64_t floor;
	/* what was asked for */
	bool attach, dry_run, is_folder;
	char tenant[80];
	int64_t log, before_us;         /* log: 0, of all tenants */
	char *place;                    /* where to, or where from */
	/* how far it is */
	enum stage stage;
	unsigned flushes;
	bool there;                     /* a file was found */
	struct audit_sealed at; char *origin;
	char to[AUDIT_SEAL_PATH_MAX];
	struct audit_erased erased;
	int64_t files, records, bytes;
	size_t originals;
	int rc; struct err err;         /* the first thing that could not be done: then nothing more is begun */
};

static void forget(struct moving *m)
{
	free(m->origin);
	m->origin = NULL;
	audit_erased_fini(&m->erased);
}

static void free_moving(void *priv)
{
	struct moving *m = priv;

	forget(m);
	free(m->store);
	free(m->place);
	free(m);
}

static void finish(struct moving *m)
{
	struct command_call *c = m->c;
	struct commands *admin = m->admin;

	ev_timer_free(&m->timer);
	if (m->rc == 0) {
		reply_row_begin(c->out);
		reply_int(c->out, "files", m->files);
		reply_int(c->out, "records", m->records);
		reply_int(c->out, "bytes", m->bytes);
		reply_text(c->out, "said", m->dry_run ? "would be" : "are");
		reply_row_end(c->out);
	} else if (m->files > 0 && !m->dry_run) {
		(void)err_wrap(&m->err, "%" PRId64 " files were moved; the next one", m->files);
	}
	jobs_unref(m->jobs);
	command_finish(c, m->rc < 0 ? &m->err : NULL);
	commands_unref(admin);
}

/* --- on the lane */

static int find_log(struct moving *m, struct db *db, struct err *err)
{
	struct db_stmt *st;
	int rc;

	if (!*m->tenant || m->log > 0)
		return 0;
	st = db_stmt_get(db, SQL_SEAL_LOG_OF);
	db_bind_textz(st, 1, m->tenant);
	rc = db_step(st, err);
	m->log = rc == 1 ? db_col_i64(st, 0) : 0;
	db_stmt_put(&st);
	return rc == 0 ? err_set(err, ERR_NOT_FOUND, "tenant", "there is no tenant %s", m->tenant) : rc < 0 ? rc : 0;
}

static void count(struct moving *m)
{
	m->files++;
	m->records += m->at.to - m->at.from;
	m->bytes += m->at.bytes;
}

static int archive_next(struct moving *m, struct db *db, struct err *err)
{
	int rc = find_log(m, db, err);

	while (rc == 0 && (rc = audit_archive_next(db, m->log, m->before_us, &m->at, &m->origin, err)) == 1 && m->dry_run) {
		count(m);
		forget(m);
		rc = 0;
	}
	m->there = rc == 1;
	return rc == 1 ? audit_archive_copy(db, m->place, &m->at, m->origin, m->floor, m->stop, m->to, err) : rc;
}

/* The next of the catalog's files that is not in the store and is in the folder, as in an archive: 1. */
static int find_in_folder(struct moving *m, struct db *db, char **ret, struct err *err)
{
	int rc;

	while ((rc = audit_sealed_next(db, &m->at, &m->origin, err)) == 1) {
		char *path = db_beside(db, m->at.path), *in = mem_printf("%s/%" PRId64 "%s", m->place, m->at.log,
									  strrchr(m->at.path, '/'));
		const bool here = !forms_is_archived(m->at.path) && path_exists(path);

		free(path);
		forget(m);
		if (!here && path_exists(in)) {
			*ret = in;
			return 1;
		}
		free(in);
	}
	return rc;
}

static int attach_next(struct moving *m, struct db *db, struct err *err)
{
	char *file = NULL;
	int rc = 0;

	if (m->is_folder) {
		rc = find_in_folder(m, db, &file, err);
	} else if (m->files == 0) {
		file = mem_strdup(m->place);
		rc = 1;
	}
	m->there = rc == 1;
	if (rc == 1)
		rc = audit_attach_copy(db, file, m->floor, m->stop, &m->at, &m->origin, err);
	free(file);
	return rc;
}

static void step(void *arg)
{
	struct moving *m = arg;
	struct db *db = NULL;
	struct err err;
	int rc = forms_open_store(db_of_file(m->store), &db, &err);

	m->there = false;
	command_lend(m->c);
	if (rc == 0 && m->stage == COPY)
		rc = m->attach ? attach_next(m, db, &err) : archive_next(m, db, &err);
	else if (rc == 0 && m->stage == PLACE)
		rc = audit_attach_place(db, &m->at, m->origin, &m->erased, m->floor, m->stop, m->to, &err);
	else if (rc == 0)
		rc = audit_archive_clean(db, &m->originals, &err);
	command_lend(NULL);
	db_close(&db);
	if (rc < 0 && m->rc == 0) {
		m->rc = rc;
		m->err = err;
	}
}

/* --- on the writer's thread */

/* All that was ever erased in the log, as the keys' file remembers it (AUDIT A-515): the copy may be of before. */
static int collect_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct moving *m = arg;
	struct keys *keys = audit_logs_keys(logs);
	struct keys_erased e = { 0 };
	int64_t after = 0;
	int rc = 0;

	(void)db;
	while (rc == 0 && keys && (rc = keys_next_erased(keys, after, &e, err)) == 1) {
		after = e.id;
		rc = strcmp(e.origin, m->origin) == 0 ? audit_erased_add(&m->erased, e.idx, e.ext, e.ext_len, err) : 0;
		keys_erased_fini(&e);
	}
	return rc;
}

static int put_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct moving *m = arg;

	return audit_moved_put(logs, db, &m->at, m->to, err);
}

static int flush_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)arg;
	return audit_erase_flush(logs, db, err);
}

/* --- one after the other, on the loop */

static void go_on(struct moving *m);

/* Nothing more is moved; the originals of what was go. */
static void end_of_files(struct moving *m)
{
	m->stage = FLUSH;
	if (m->attach || m->dry_run || m->files == 0)
		finish(m);
	else
		go_on(m);
}

/* True: the server stops, and m is gone. */
static bool is_closed(struct moving *m)
{
	if (!commands_closed(m->admin))
		return false;
	if (m->rc == 0)
		m->rc = err_set(&m->err, ERR_CANCELLED, "", "the server is stopping; say it again");
	finish(m);
	return true;
}

static void stepped(void *arg)
{
	struct moving *m = arg;

	if (is_closed(m))
		return;
	if (m->stage == CLEAN) {
		finish(m);
	} else if (m->rc < 0 || (m->stage == COPY && !m->there)) {
		end_of_files(m);
	} else {
		m->stage = m->stage == COPY && m->attach ? COLLECT : PUT;
		go_on(m);
	}
}

static void file_run(void *arg, int rc, const struct err *err)
{
	struct moving *m = arg;

	if (rc < 0) {
		m->rc = rc;
		m->err = *err;
	} else if (m->stage == PUT) {
		count(m);
		forget(m);
	}
	if (is_closed(m))
		return;
	if (rc < 0) {
		end_of_files(m);
		return;
	}
	m->stage = m->stage == COLLECT ? PLACE : COPY;
	go_on(m);
}

/* Who reads by a catalog of before for long is not waited for: originals go with the next start. */
static void flushed(void *arg, int rc, const struct err *err)
{
	struct moving *m = arg;

	if (is_closed(m))
		return;
	if (rc == ERR_BUSY && m->flushes++ < FLUSHES) {
		ev_timer_start(m->timer, PAUSE_US);
		return;
	}
	if (rc < 0) {
		log_warn(NULL, "originals of archived files stay until the next archive or start why=\"%s\"", err->msg);
		finish(m);
		return;
	}
	m->stage = CLEAN;
	go_on(m);
}

static const struct writer_job collect_job = { .name = "what was erased", .run = collect_run, .volatile_only = true,
	.done = file_run };
static const struct writer_job put_job = { .name = "moved file", .run = put_run, .done = file_run };
static const struct writer_job flush_job = { .name = "moved files", .run = flush_run, .between = true,
	.done = flushed };

static void go_on(struct moving *m)
{
	const struct command_env *env = command_env(m->c);
	const struct writer_job *job = m->stage == COLLECT ? &collect_job : m->stage == PUT ? &put_job
		: m->stage == FLUSH ? &flush_job : NULL;
	int rc = job ? writer_submit(env->writer, job, m) : ev_work(env->loop, EV_LANE_SEAL, step, stepped, m);

	if (rc == 0)
		return;
	if (m->rc == 0)
		m->rc = err_set(&m->err, (enum err_code)rc, "", "too much waits already, and nothing more is moved");
	finish(m);
}

static void on_timer(void *arg)
{
	struct moving *m = arg;

	if (!is_closed(m))
		go_on(m);
}

/* --- rows of the command table */

static struct moving *begin(struct command_call *c)
{
	struct moving *m = mem_zalloc(sizeof(*m));

	m->c = c;
	m->at = (struct audit_sealed){ .from = -1 };
	c->priv = m;
	c->free_priv = free_moving;
	return m;
}

static int move_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct command_env *env = command_env(c);
	struct moving *m = c->priv;

	(void)db;
	(void)logs;
	(void)err;
	c->later = true;
	m->admin = c->admin;
	commands_ref(m->admin);
	m->jobs = env->jobs;
	m->stop = jobs_ref(m->jobs);
	m->store = path_join(env->store, DB_FILE);
	m->floor = writer_space_floor(env->writer);
	m->timer = ev_timer_new(env->loop, on_timer, m);
	go_on(m);
	return 0;
}

static int archive_check(struct command_call *c, struct err *err)
{
	const char *archive = command_env(c)->archive, *to = arg_text(c, "to");
	struct moving *m = begin(c);

	m->dry_run = arg_flag(c, "dry-run");
	m->before_us = (int64_t)arg_time(c, "before");
	arg_copy(c, "tenant", m->tenant, sizeof(m->tenant));
	if (!archive) {
		(void)err_set(err, ERR_INVALID, "audit.archive", "there is no archive: the configuration has no audit.archive");
		err_hint(err, "name a directory there and start the server again, which opens no others");
		return ERR_INVALID;
	}
	if (to && strcmp(to, archive) != 0)
		return err_set(err, ERR_INVALID, "to", "%s is not the archive: audit.archive is %s, and reports read no other "
			       "directory", to, archive);
	m->place = mem_strdup(archive);
	return 0;
}

static int attach_check(struct command_call *c, struct err *err)
{
	struct moving *m = begin(c);
	struct stat st;

	(void)err;
	m->attach = true;
	m->place = mem_strdup(arg_text(c, "from"));
	m->is_folder = stat(m->place, &st) == 0 && S_ISDIR(st.st_mode);
	return 0;
}

static const struct command_arg archive_args[] = {
	NEED("before", "TIME", ARG_TIME, COMPLETE_NONE, "Files whose records are all older than this."), TENANT_OPT,
	OPT("to", "DIR", ARG_TEXT, COMPLETE_FILE, "The archive, as audit.archive has it; default: that."),
	FLAG("dry-run", "Say what would be moved and move nothing."), ARG_END };
static const struct command_arg attach_args[] = {
	{ "from", "PATH", ARG_PATH_READ, false, true, false, COMPLETE_FILE,
	  "A sealed file, of any name; or a directory that has them as an archive does." }, ARG_END };

const struct command archive_commands[] = {
	{ .noun = "audit", .verb = "archive", .help = "Move old sealed files into the archive",
	  .detail = "Each is copied to audit.archive, made durable, read back and compared with the catalog; then a record "
		    "says that it is there; then the original goes.  Reports read it there; while the archive is away they say "
		    "what is missing, and end with exit status 5.  Files of the system's log stay.",
	  .args = archive_args, .done = "%{files} files with %{records} records %{said} in the archive", .runs = true,
	  .role = ADM_OWNER, .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD, .check = archive_check, .body = move_body },
	{ .noun = "audit", .verb = "attach", .help = "Bring sealed files back that are away",
	  .detail = "A file that the catalog has, and that is in the archive or lost, is copied into the folder of the store "
		    "and compared with the catalog; another one is refused by its name.  What was erased since it was copied away "
		    "goes from it.  Where it came from it stays.",
	  .args = attach_args, .done = "%{files} files with %{records} records are in the store again",
	  .role = ADM_OWNER, .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD, .check = attach_check, .body = move_body },
	{ .noun = NULL },
};
