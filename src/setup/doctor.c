/* toolcrib doctor: what is wrong around a store, or will be soon (OP-180).  The program toolcrib calls it where the
 * store is, with a server or without one.  It changes nothing, but that root becomes the server's user, so that what
 * he may not do is seen.  Main thread. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "app/app.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "json/reply.h"
#include "keys/escrow.h"
#include "keys/keyfile.h"
#include "keys/vault.h"
#include "notary/notary.h"
#include "pdp/pdp.h"
#include "sandbox/level.h"
#include "setup/setup.h"

#define DAY_US UINT64_C(86400000000)
#define GROWTH_DAYS 7                   /* that there should be room for */
#define CERT_WARN_US (14 * DAY_US)      /* before a certificate's end */
#define CLOCK_SLACK_US UINT64_C(60000000)       /* a record may be so much younger than now */
#define FLUSHES 100                     /* of FLUSH_BYTES each, */
#define FLUSH_BYTES 4096
#define FLUSH_ALL_US UINT64_C(2000000)  /* but not for longer than that */
#define FLUSH_SLOW_US 20000             /* on average; a call waits for two */

enum level { OK, WARN, FAIL };

struct doctor {
	const struct setup_doctor_opt *opt;
	struct reply out;
	struct conf *conf;              /* NULL: it cannot be read */
	char *store;
	struct db *db;                  /* NULL: it cannot be read, or is of another release */
	json_t *status;                 /* of the server; NULL: none runs, or it does not answer */
	char todo[600];
};

/* --- what is said */

__attribute__((format(printf, 2, 3)))
static const char *todo(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(d->todo, sizeof(d->todo), fmt, ap);
	va_end(ap);
	return d->todo;
}

__attribute__((format(printf, 6, 7)))
static void say(struct doctor *d, enum level level, const char *what, const char *where, const char *cure,
		const char *fmt, ...)
{
	static const char *const names[] = { [OK] = "ok", [WARN] = "warn", [FAIL] = "fail" };
	char text[1000];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	reply_row_begin(&d->out);
	reply_text(&d->out, "class", names[level]);
	reply_text(&d->out, "what", what);
	reply_text(&d->out, "where", where);
	reply_text(&d->out, "said", text);
	reply_text(&d->out, "do", level == OK ? "" : cure);
	reply_row_end(&d->out);
}

/* where: unless the error has a path.  cure: unless it has a hint. */
static void say_err(struct doctor *d, enum level level, const char *what, const char *where, const char *cure,
		    const struct err *err)
{
	say(d, level, what, *err->where == '/' ? err->where : where, *err->hint ? err->hint : cure, "%s", err->msg);
}

/* --- the configuration, and as whom its server runs */

static void look_at_conf(struct doctor *d)
{
	struct err err = { 0 };
	struct stat st;
	const char *file;

	if (conf_load(d->opt->config, &d->conf, &err) < 0) {
		say(d, FAIL, "configuration", err.where, *err.hint ? err.hint : "mend it; toolcribd --check-config reads it as well",
		    "%s; what depends on it is not looked at", err.msg);
		return;
	}
	file = d->conf->file;
	if (!file)
		say(d, OK, "configuration", "", "", "there is no file: the defaults hold");
	else if (stat(file, &st) == 0 && (st.st_mode & (S_IWGRP | S_IWOTH)))
		say(d, FAIL, "configuration", file, todo(d, "chmod go-w %s", file),
		    "others may write it (mode %03o), and so say who gives commands", st.st_mode & 0777u);
	else
		say(d, OK, "configuration", file, "", "can be read");
}

static void find_store(struct doctor *d)
{
	struct err err = { 0 };

	if (d->opt->store)
		d->store = path_absolute(d->opt->store);
	else if (d->conf && d->conf->store)
		d->store = path_absolute(d->conf->store);
	else if (path_default_store(&d->store, &err) < 0)
		say_err(d, FAIL, "store", "", "name it with --store", &err);
}

/* A service whose unit has a user owns its store. */
static void name_user(struct doctor *d)
{
	struct passwd *pw;
	struct stat st;

	if (d->conf->user || geteuid() != 0 || stat(d->store, &st) != 0 || st.st_uid == 0)
		return;
	pw = getpwuid(st.st_uid);
	d->conf->user = mem_strdup0(pw ? pw->pw_name : NULL);
}

static void become_user(struct doctor *d)
{
	struct err err = { 0 };
	const uid_t was = geteuid();

	name_user(d);
	if (!d->conf->user && was == 0)
		say(d, WARN, "user", "", "make a user, give it the store, and name it under user in toolcribd.yaml",
		    "the server runs as root, and what breaks into it has the machine");
	if (!d->conf->user)
		return;
	if (app_become_user(d->conf, d->store, &err) == 0)
		say(d, OK, "user", "", "", "%s, as whom all else is looked at", d->conf->user);
	else if (was == 0)
		say_err(d, FAIL, "user", "", "name a user that there is", &err);
	else
		say(d, WARN, "user", "", "run this as root, or as that user",
		    "the server becomes %s, and this is uid %u: what that user may do was not seen", d->conf->user,
		    (unsigned)was);
}

/* --- the files of the store */

static bool look_at_file(struct doctor *d, const char *path, const struct stat *dir)
{
	const bool is_dir = strcmp(path, d->store) == 0;
	struct stat st;
	mode_t others;

	if (lstat(path, &st) != 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return true;            /* gone meanwhile, or a socket, which has its own rules */
	others = S_IRWXO | S_IRGRP | S_IWGRP | (is_dir ? 0 : S_IXGRP);          /* a group may come to the sockets */
	if (st.st_uid != dir->st_uid)
		say(d, FAIL, "owner", path, todo(d, "chown -R --reference=%s %s", d->store, path),
		    "belongs to uid %u, and the store to uid %u", (unsigned)st.st_uid, (unsigned)dir->st_uid);
	if (st.st_mode & others)
		say(d, FAIL, "mode", path, todo(d, "chmod %s %s", is_dir ? "700" : "go=", path),
		    "others may use it: its mode is %03o", st.st_mode & 0777u);
	return st.st_uid == dir->st_uid && !(st.st_mode & others);
}

/* false: there is no store. */
static bool look_at_files(struct doctor *d)
{
	DIR *dir = opendir(d->store);
	struct stat st;
	bool fine;

	if (!dir || fstat(dirfd(dir), &st) != 0) {
		say(d, FAIL, "store", d->store,
		    errno == EACCES ? "run this as its owner" : "toolcrib init makes one; --store names another",
		    "there is none to be seen: %s", strerror(errno));
		if (dir)
			closedir(dir);
		return false;
	}
	fine = look_at_file(d, d->store, &st);
	for (const struct dirent *e; (e = readdir(dir));) {
		char *path = path_join(d->store, e->d_name);

		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			fine = look_at_file(d, path, &st) && fine;
		free(path);
	}
	closedir(dir);
	if (fine)
		say(d, OK, "store", d->store, "", "of uid %u, nobody else may use its files", (unsigned)st.st_uid);
	return true;
}

/* Whoever has put key files away once wants to hear of one that came later (OP-516). */
static void look_at_escrow(struct doctor *d)
{
	struct str missing = STR_INIT;
	struct escrow_note note;
	struct err err = { 0 };
	const int rc = escrow_look(d->store, &note, &missing, &err);

	if (rc < 0)
		say_err(d, WARN, "escrow", d->store, "toolcrib keys escrow makes a new one", &err);
	else if (rc == 1 && missing.len > 0)
		say(d, WARN, "escrow", note.file, "toolcrib keys escrow NEWFILE --to RECIPIENTS",
		    "was made at %s, before these key files: %s", note.time, str_text(&missing));
	else if (rc == 1)
		say(d, OK, "escrow", note.file, "", "all key files were put away at %s", note.time);
	str_fini(&missing);
}

static void look_at_keys(struct doctor *d)
{
	struct keyfile_place place = { .store = d->store };
	struct str wrong = STR_INIT;
	struct err err = { 0 };
	uint8_t *master = NULL;

	if (keyfile_master(d->store, &master, &err) < 0) {
		say_err(d, FAIL, "keys", d->store, "put it back from where you keep it", &err);
		return;
	}
	place.master = master;
	if (d->db && keys_files_wrong(&place, d->db, false, &wrong, &err) < 0)
		say_err(d, FAIL, "keys", d->store, "toolcrib audit verify", &err);
	else if (wrong.len > 0)
		say(d, FAIL, "keys", d->store, "put the files back from where you keep them: toolcribd(8), BAD NIGHTS", "%s",
		    str_text(&wrong));
	else
		say(d, OK, "keys", d->store, "", "master.key is there%s", d->db ? ", and all secrets have their file" : "");
	str_fini(&wrong);
	secret_free(master);
	look_at_escrow(d);
}

/* --- the database */

static size_t lines_of(const struct str *text)
{
	size_t n = 0;

	for (size_t i = 0; i < text->len; i++)
		n += text->p[i] == '\n';
	return n;
}

static void look_at_rows(struct doctor *d)
{
	struct str rows = STR_INIT;
	struct err err = { 0 };

	if (setup_fsck(d->store, &rows, &err) < 0)
		say_err(d, FAIL, "rows", d->store, "toolcrib audit verify", &err);
	else if (rows.len > 0)
		say(d, FAIL, "rows", d->store, "toolcrib fsck lists them",
		    "%zu of the registry are not what their records say: no server starts on them", lines_of(&rows));
	else
		say(d, OK, "rows", d->store, "", "those of the registry are what their records say");
	str_fini(&rows);
}

/* What an erase does not reach (OP-911); "" without one. */
static const char *look_at_copy(const struct doctor *d, char *ret, size_t size)
{
	char name[DB_BEFORE_NAME_SIZE], at[32];
	uint64_t made_us;

	if (!db_before_newest(d->store, name, &made_us))
		return "";
	clock_format_utc(made_us, at, sizeof(at));
	(void)snprintf(ret, size, "; %s beside it is the store as it was on %.10s", name, at);
	return ret;
}

static void look_at_schema(struct doctor *d)
{
	char *file = path_join(d->store, DB_FILE);
	const int known = db_schema_version();
	struct err err = { 0 };
	char copy[96];
	int version = 0;
	int rc = db_open(file, DB_READER, false, &d->db, &err);

	if (rc == 0)
		rc = db_check_version(d->db, &version, &err);
	if (rc == 0 && version == known)
		rc = forms_see(d->db, &err);
	if (rc < 0)
		say_err(d, FAIL, "schema", file, "put it back from a backup: toolcribd(8), BAD NIGHTS", &err);
	else if (version < known)
		say(d, WARN, "schema", file, "toolcrib migrate, or let the next start do it; --dry-run says what that takes",
		    "%d, which an older release made; this one has %d", version, known);
	else
		say(d, OK, "schema", file, "", "%d, to the letter%s", version, look_at_copy(d, copy, sizeof(copy)));
	if (rc < 0 || version != known)
		db_close(&d->db);
	free(file);
}

static void look_at_engine(struct doctor *d)
{
	bool fixed = false;
	const char *version = db_engine(&fixed);

	if (fixed)
		say(d, OK, "sqlite", "", "", "%s", version);
	else
		say(d, OK, "sqlite", "", "", "%s has the WAL-reset bug, which one connection that alone writes does not meet: "
		    "let no other program write to the store", version);
}

/* --- the disk */

struct room { uint64_t free, total, each, week; bool known; };

/* What a week of records takes, by those of the last one; a store of less than a day says nothing. */
static void grow(struct doctor *d, struct room *r)
{
	const uint64_t now = clock_wall_us();
	struct db_stmt *st = d->db ? db_stmt_get(d->db, SQL_REPORT_ROOM) : NULL;
	struct err err;

	if (!st)
		return;
	db_bind_i64(st, 1, (int64_t)(now - GROWTH_DAYS * DAY_US));
	if (db_step(st, &err) == 1 && db_col_i64(st, 2) > 0) {
		const uint64_t first = (uint64_t)db_col_i64(st, 4), age = now > first ? now - first : 0;
		const double each = (double)(db_col_i64(st, 0) - db_col_i64(st, 1)) / (double)db_col_i64(st, 2);
		const double days = age > GROWTH_DAYS * DAY_US ? GROWTH_DAYS : (double)age / (double)DAY_US;

		r->known = age >= DAY_US;
		r->week = r->known ? (uint64_t)(each * (double)db_col_i64(st, 3) * GROWTH_DAYS / days) : 0;
	}
	db_stmt_put(&st);
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static void look_at_room(struct doctor *d)
{
	const uint64_t floor = (uint64_t)d->conf->space_floor_mib << 20;
	const unsigned warn = d->conf->space_warn_percent;
	struct room r = { 0 };
	struct statvfs fs;

	if (statvfs(d->store, &fs) != 0)
		return;
	r.free = (uint64_t)fs.f_bavail * fs.f_frsize;
	r.total = (uint64_t)fs.f_blocks * fs.f_frsize;
	grow(d, &r);
	if (r.free < floor)
		say(d, FAIL, "space", d->store, "make room, or toolcrib retention prune",
		    "%.0f MiB are free, and below %.0f (audit.space_floor) calls are refused", mib(r.free), mib(floor));
	else if (r.known && r.free - floor < r.week)
		say(d, WARN, "space", d->store, "make room, or toolcrib retention prune",
		    "%.0f MiB are free, and the store grows by %.0f in %d days", mib(r.free), mib(r.week), GROWTH_DAYS);
	else if (warn > 0 && r.free / 100 < r.total / 10000 * warn)
		say(d, WARN, "space", d->store, "make room", "%.0f MiB are free, less than %u percent (audit.space_warn)",
		    mib(r.free), warn);
	else if (r.known)
		say(d, OK, "space", d->store, "", "%.0f MiB are free, the store grows by %.0f in %d days", mib(r.free), mib(r.week),
		    GROWTH_DAYS);
	else
		say(d, OK, "space", d->store, "", "%.0f MiB are free; how the store grows shows when it is a day old", mib(r.free));
}

static bool is_in_memory(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && ((uint32_t)fs.f_type == TMPFS_MAGIC || (uint32_t)fs.f_type == RAMFS_MAGIC);
}

struct flushes { unsigned n; uint64_t all_us, worst_us; };

/* As often as it takes, in a file without a name. */
static int flush(int fd, struct flushes *f)
{
	static const char block[FLUSH_BYTES];

	while (f->n < FLUSHES && f->all_us < FLUSH_ALL_US) {
		uint64_t us = clock_mono_us();

		if (pwrite(fd, block, sizeof(block), (off_t)f->n * FLUSH_BYTES) != FLUSH_BYTES || fdatasync(fd) != 0)
			return -1;
		us = clock_mono_us() - us;
		f->n++;
		f->all_us += us;
		f->worst_us = us > f->worst_us ? us : f->worst_us;
	}
	return 0;
}

static void look_at_flush(struct doctor *d)
{
	const uint32_t deadline_ms = d->conf->audit_deadline_ms;
	struct flushes f = { 0 };
	int fd = path_nameless(d->store);
	const int rc = fd < 0 ? -1 : flush(fd, &f);
	const int e = errno;
	double mean;

	if (fd >= 0)
		close(fd);
	if (rc < 0) {
		say(d, FAIL, "disk", d->store, "mend or replace the disk, or give its owner the right to write",
		    "cannot be written durably: %s", strerror(e));
		return;
	}
	mean = (double)f.all_us / f.n / 1000;
	if (f.worst_us >= (uint64_t)deadline_ms * 1000)
		say(d, FAIL, "disk", d->store, "a faster disk, or a longer audit.deadline_ms",
		    "a flush of 4 KiB took %" PRIu64 " ms, and a call is refused after %u (audit.deadline_ms)", f.worst_us / 1000,
		    (unsigned)deadline_ms);
	else if (f.all_us / f.n >= FLUSH_SLOW_US)
		say(d, WARN, "disk", d->store, "a faster disk", "a flush of 4 KiB takes %.1f ms, and each call waits for two", mean);
	else if (is_in_memory(d->store))
		say(d, WARN, "disk", d->store, "move it to a disk", "the store lies in memory, and is gone with the next boot");
	else
		say(d, OK, "disk", d->store, "", "a flush of 4 KiB takes %.1f ms, the longest of %u %.1f", mean, f.n,
		    (double)f.worst_us / 1000);
}

/* --- the clock */

/* When the newest checkpoint of the system log was made; 0: none is there, or nobody can say. */
static uint64_t last_signed(struct doctor *d)
{
	struct db_stmt *st = d->db ? db_stmt_get(d->db, SQL_DOCTOR_LAST_SIGNED) : NULL;
	struct err err;
	uint64_t us = 0;

	if (st && db_step(st, &err) == 1)
		us = (uint64_t)db_col_i64(st, 0);
	db_stmt_put(&st);
	return us;
}

static void look_at_clock(struct doctor *d)
{
	const uint64_t now = clock_wall_us(), last = last_signed(d);
	const char *server = json_string_value(json_object_get(d->status, "clock"));
	struct clock_state state;
	const char *sync;
	char text[32];

	clock_state(&state);
	sync = server ? server : clock_sync_name(state.sync);
	if (last > now + CLOCK_SLACK_US)
		say(d, FAIL, "clock", "", "set it; a clock that ran ahead before needs waiting until it is passed",
		    "it is %" PRIu64 " s behind the newest checkpoint, of %s", (last - now) / 1000000,
		    clock_format_utc(last, text, sizeof(text)));
	else if (strcmp(sync, clock_sync_name(CLOCK_UNSYNCED)) == 0)
		say(d, WARN, "clock", "", "run chrony or systemd-timesyncd", "nobody keeps it right, as each record says");
	else
		say(d, OK, "clock", "", "", "%s", sync);
}

/* --- tools */

/* The text of `status`: "REACHED, required WANTED". */
static void judge_level(struct doctor *d, const char *text, const char *users)
{
	static const char between[] = ", required ";
	const char *at = strstr(text, between);
	char *reached = at ? mem_strndup(text, (size_t)(at - text)) : mem_strdup(text);
	struct sandbox_level has, wanted;
	struct err err;

	if (!at || sandbox_level_parse(reached, &has, &err) < 0 ||
	    sandbox_level_parse(at + strlen(between), &wanted, &err) < 0)
		say(d, WARN, "sandbox", "", "ask with the program of the same release", "\"%s\" is not understood", text);
	else if (!sandbox_level_meets(&has, &wanted))
		say(d, FAIL, "sandbox", "", "a newer kernel, users for tools (sandbox.uids), or a lower sandbox.require",
		    "tools that are programs are refused: %s; users: %s", text, users);
	else
		say(d, OK, "sandbox", "", "", "%s; users: %s", text, users);
	free(reached);
}

static void look_at_cgroups(struct doctor *d, const char *levels)
{
	if (!d->status)
		say(d, OK, "cgroups", "", "", "a server finds out when it starts");
	else if (strstr(levels, "+cgroup"))
		say(d, OK, "cgroups", "", "", "each tool has one");
	else if (path_exists("/sys/fs/cgroup/cgroup.controllers"))
		say(d, WARN, "cgroups", "", "Delegate=memory pids in the unit of the service",
		    "tools have none: memory is bounded for each process, not for all of a tool");
	else
		say(d, OK, "cgroups", "", "", "this machine has no cgroups v2: memory is bounded for each process of a tool");
}

static void on_level(void *arg, const char *levels, const char *users)
{
	judge_level(arg, levels, users);
	look_at_cgroups(arg, levels);
}

static void look_at_sandbox(struct doctor *d)
{
	const char *levels = json_string_value(json_object_get(d->status, "sandbox"));
	const char *users = json_string_value(json_object_get(d->status, "users"));

	struct err err = { 0 };

	if (levels && users)
		on_level(d, levels, users);
	else if (app_sandbox_look(d->conf, d->store, on_level, d, &err) < 0)
		say_err(d, FAIL, "sandbox", "", "see sandbox in toolcribd.yaml(5)", &err);
}

static void look_at_policy(struct doctor *d)
{
	const char *said = json_string_value(json_object_get(d->status, "policy"));

	if (said && strstr(said, ": " PDP_NO_ANSWER))
		say(d, WARN, "policy", "", "toolcrib pdp status; calls are refused as long as it lasts", "%s", said);
	else if (said)
		say(d, OK, "policy", "", "", "%s", said);
	else if (d->conf->npdps)
		say(d, OK, "policy", "", "", "%zu are asked when a server runs", d->conf->npdps);
}

static void look_at_programs(struct doctor *d)
{
	static const char *const names[][2] = {
		{ "toolcrib-launcher", "TOOLCRIB_LAUNCHER" }, { "toolcrib-run", "TOOLCRIB_RUN" },
		{ "toolcrib-sign", "TOOLCRIB_SIGN" }, { "toolcrib-worker", "TOOLCRIB_WORKER" },
		{ "toolcrib-report", "TOOLCRIB_REPORT" }, { "toolcrib-verifier", "TOOLCRIB_VERIFIER" },
		{ "toolcrib-console", "TOOLCRIB_CONSOLE" },
	};
	bool fine = true;

	for (size_t i = 0; i < NELEMS(names); i++) {
		char *path = path_program(names[i][0], names[i][1]);

		if (access(path, X_OK) != 0) {
			fine = false;
			say(d, FAIL, "programs", path, "install the whole package again", "cannot be run: %s", strerror(errno));
		}
		free(path);
	}
	if (fine)
		say(d, OK, "programs", "", "", "those that the server starts are there");
}

/* --- evidence: the signer, and where checkpoints are taken */

static void look_at_socket(struct doctor *d)
{
	const char *path = d->conf->signer_socket;
	struct err err = { 0 };

	if (d->status)
		say(d, OK, "signer", path, "", "the server has it");
	else if (notary_look(path, d->db, &err) < 0)
		say_err(d, FAIL, "signer", path, "start it: systemctl start toolcrib-sign; see toolcrib-sign(8)", &err);
	else
		say(d, OK, "signer", path, "", "answers");
}

static void look_at_signer(struct doctor *d)
{
	const struct conf *c = d->conf;
	char *dir = c->signer_dir ? path_absolute(c->signer_dir) : path_join(d->store, "signer");
	struct notary_copy copy = { .epoch = 0 };
	struct err err = { 0 };

	if (c->signer_socket && c->signer_dir)
		say(d, FAIL, "signer", c->file, "leave one of both out", "there are both a signer.socket and a signer.dir");
	else if (c->signer_socket)
		look_at_socket(d);
	else if (notary_copy_take(dir, &copy, &err) == 0)
		say(d, OK, "signer", dir, "", "its keys are those that its state names, epoch %" PRIu64, copy.epoch);
	else if (last_signed(d) == 0 && err.code == ERR_NOT_FOUND)
		say(d, OK, "signer", dir, "", "has no keys yet, the first start makes them");
	else
		say_err(d, FAIL, "signer", dir, "put its directory back as it was: toolcribd(8), BAD NIGHTS", &err);
	notary_copy_fini(&copy);
	free(dir);
}

static void look_at_anchors(struct doctor *d)
{
	const char *file = d->conf->anchor_file, *cmd = d->conf->anchor_cmd, *tell = d->conf->approve_notify;
	struct stat st, store;

	if (tell && access(tell, X_OK) != 0)
		say(d, FAIL, "approve", tell, "name a program that can be run under approve.notify",
		    "cannot be run: %s", strerror(errno));
	if (cmd && access(cmd, X_OK) != 0)
		say(d, FAIL, "anchor", cmd, "name a program that can be run under anchor.cmd", "cannot be run: %s", strerror(errno));
	else if (cmd)
		say(d, OK, "anchor", cmd, "", "can be run");
	if (!file)
		return;
	char *dir = mem_strndup(file, (size_t)(strrchr(file, '/') ? strrchr(file, '/') - file + 1 : 0));

	if (access(dir, W_OK | X_OK) != 0)
		say(d, FAIL, "anchor", file, "make its folder, and let the server write there", "cannot be written: %s",
		    strerror(errno));
	else if (stat(dir, &st) == 0 && stat(d->store, &store) == 0 && st.st_dev == store.st_dev)
		say(d, WARN, "anchor", file, "name a place elsewhere under anchor.file",
		    "lies on the disk of the store: who changes one changes both");
	else
		say(d, OK, "anchor", file, "", "lies elsewhere than the store");
	free(dir);
}

/* --- certificates */

static void look_at_door(void *arg, const struct app_door *door)
{
	struct doctor *d = arg;
	const uint64_t now = clock_wall_us();
	char when[32];

	if (door->err) {
		say_err(d, FAIL, "listener", door->name, "mend it; toolcribd --check-config reads it as well", door->err);
		return;
	}
	if (door->expires_us == 0)
		return;
	clock_format_utc(door->expires_us, when, sizeof(when));
	if (door->expires_us < now + CERT_WARN_US)
		say(d, WARN, "certificate", door->cert, "put a new one in its place, then toolcrib reload",
		    "of %s expires at %s", door->name, when);
	else
		say(d, OK, "certificate", door->cert, "", "of %s is good until %s", door->name, when);
}

/* --- the server */

static void judge_server(struct doctor *d, int64_t pid)
{
	const char *version = json_string_value(json_object_get(d->status, "version"));
	const char *refused = json_string_value(json_object_get(d->status, "refused"));
	const char *state = json_string_value(json_object_get(d->status, "state"));
	char *where = mem_printf("process %" PRId64, pid);

	if (refused && *refused)
		say(d, FAIL, "server", where, "toolcrib status and the log say more", "refuses calls: %s", refused);
	else if (version && strcmp(version, PACKAGE_VERSION) != 0)
		say(d, WARN, "server", where, "restart it", "runs version %s, and this is %s", version, PACKAGE_VERSION);
	else
		say(d, OK, "server", where, "", "%s", state ? state : "answers");
	free(where);
}

static void judge_conf(struct doctor *d)
{
	const char *file = json_string_value(json_object_get(d->status, "configuration_file"));
	const char *digest = json_string_value(json_object_get(d->status, "configuration_digest"));
	const char *waits = json_string_value(json_object_get(d->status, "restart"));
	char *mine = d->conf->file ? path_absolute(d->conf->file) : NULL;
	char hex[2 * DIGEST_SIZE + 1];

	text_hex(d->conf->digest, sizeof(d->conf->digest), hex);
	if (file && *file == '/' && (!mine || strcmp(file, mine) != 0))
		say(d, WARN, "configuration", mine ? mine : "", todo(d, "toolcrib doctor --config %s", file),
		    "the server reads %s, and this was looked at", file);
	else if (digest && strcmp(digest, hex) != 0)
		say(d, WARN, "configuration", mine ? mine : "",
		    "toolcrib reload --dry-run says what changes, toolcrib reload takes it",
		    "has changed since the server read it");
	if (waits && *waits)
		say(d, WARN, "configuration", mine ? mine : "", "restart the server", "these keys wait for a restart: %s", waits);
	free(mine);
}

static void ask_server(struct doctor *d)
{
	struct db_card card = { 0 };
	struct err err = { 0 };
	int rc = db_owner_look(d->store, &card, &err);
	char *where = mem_printf("process %" PRId64, card.pid);

	if (rc < 0)
		say_err(d, FAIL, "server", d->store, "move the store to a local disk", &err);
	else if (rc == 0)
		say(d, OK, "server", d->store, "", "none runs on this store");
	else if (!*card.command_socket)
		say(d, OK, "server", where, "", "a command has the store");
	else if (d->opt->ask(d->opt->arg, card.command_socket, "status", &d->status, &err) < 0)
		say_err(d, FAIL, "server", where, "look at its log; restart it if it hangs", &err);
	else
		judge_server(d, card.pid);
	free(where);
}

/* --- the copy at backup.to */

static void look_at_backup(struct doctor *d)
{
	const char *said = json_string_value(json_object_get(d->status, "backup"));
	const char *to = d->conf->backup_to;
	struct stat at, store;

	if (!to)
		say(d, OK, "backup", "", "", "nothing copies the store by itself, but toolcrib backup (backup.to)");
	else if (stat(to, &at) != 0 || !S_ISDIR(at.st_mode))
		say(d, FAIL, "backup", to, "mount it, or make it", "is no directory that is there: nothing is copied");
	else if (said && strstr(said, "does not go on"))
		say(d, FAIL, "backup", to, "mend what it names; the log of the server says more", "%s", said);
	else if (d->store && stat(d->store, &store) == 0 && store.st_dev == at.st_dev)
		say(d, WARN, "backup", to, "name a directory of another disk or machine", "lies on the file system of the store%s%s",
		    said ? ": " : "", said ? said : "");
	else
		say(d, OK, "backup", to, "", "%s", said ? said : "a server copies the store there");
}

/* --- all of it */

static void look_at_store(struct doctor *d)
{
	if (!d->store || !look_at_files(d))
		return;
	ask_server(d);
	if (d->status && d->conf)
		judge_conf(d);
	look_at_schema(d);
	look_at_keys(d);
	if (d->db)
		look_at_rows(d);
	if (!d->conf)
		return;
	look_at_room(d);
	look_at_flush(d);
	look_at_signer(d);
	look_at_backup(d);
}

void setup_doctor(const struct setup_doctor_opt *o, struct str *rows)
{
	struct doctor d = { .opt = o };

	look_at_conf(&d);
	find_store(&d);
	if (d.conf && d.store)
		become_user(&d);
	look_at_store(&d);
	look_at_clock(&d);
	look_at_engine(&d);
	look_at_programs(&d);
	if (d.conf) {
		look_at_policy(&d);
		look_at_anchors(&d);
		app_doors(d.conf, look_at_door, &d);
		look_at_sandbox(&d);    /* it starts a process */
	}
	str_put(rows, str_text(&d.out.text), d.out.text.len);
	str_fini(&d.out.text);
	json_decref(d.status);
	db_close(&d.db);
	conf_free(&d.conf);
	free(d.store);
}
