/* toolcrib-verifier, a process of the server that verifies its store and ends (SCALE SC-708, decision 0098): it gets
 * its question, confines itself around the store, goes on from the mark that the last one has left, says what it has
 * found (auditor/told.h), and ends.  What it has left when the first record is read: the database and the sealed files
 * for reading, the index of the database's log, and one folder to write, with the mark, its key and the last result.
 * No other file, no socket, no program, no process, no signal, and no key of what is kept: that stays shut. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "auditor/mark.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/sanitized.h"
#include "base/served.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "sandbox/filter.h"
#include "sandbox/level.h"
#include "auditor/told.h"
#include "verify/verify.h"

#define ASKED STDIN_FILENO              /* the one socket, both ways */
#define FILES_MAX 256                   /* sealed files among them */
#define MEMORY_LEAST (128ull << 20)     /* that SQLite may have at least */
#define MEMORY_MAX (4ull << 30)         /* of its addresses, beside a quarter of the store */

struct verifier {
	struct verifier_ask ask;
	char *file, *sealed;            /* the database, the folder of sealed files, which the server has made */
	struct db *db;
	struct mark *mark;
	struct told told;
};

/* --- the question, and the answer */

static bool read_line(char *line, size_t *ret_len)
{
	size_t n = 0;

	for (; n < VERIFIER_ASK_MAX; n++) {
		ssize_t got = read(ASKED, line + n, 1);

		if (got < 0 && errno == EINTR) {
			n--;
			continue;
		}
		if (got <= 0)
			return false;
		if (line[n] == '\n')
			break;
	}
	*ret_len = n;
	return n < VERIFIER_ASK_MAX;
}

static int read_question(struct verifier *v, struct err *err)
{
	char *line = mem_alloc(VERIFIER_ASK_MAX);
	size_t len = 0;
	int rc = read_line(line, &len) ? verifier_ask_parse(line, len, &v->ask, err)
				       : err_set(err, ERR_CANCELLED, "", "nobody asks");

	free(line);
	return rc;
}

static bool write_all(const char *p, size_t len)
{
	while (len > 0) {
		ssize_t n = write(ASKED, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* First where the next start finds it. */
static bool say(struct verifier *v)
{
	struct str text = STR_INIT;
	char *last = v->ask.folder ? path_join(v->ask.folder, VERIFIER_LAST) : NULL;
	struct err err = { 0 };
	bool fine;

	v->told.at_us = clock_wall_us();
	told_write(&v->told, &text);
	if (last && !*v->told.message && path_replace(last, 0600, text.p, text.len, &err) < 0) {
		(void)snprintf(v->told.message, sizeof(v->told.message), "%s", err.msg);
		str_reset(&text);
		told_write(&v->told, &text);
	}
	fine = write_all(text.p, text.len);
	free(last);
	str_fini(&text);
	return fine;
}

static void fail(struct verifier *v, const struct err *err)
{
	(void)snprintf(v->told.message, sizeof(v->told.message), "%.150s%s%.200s", err->where, *err->where ? ": " : "",
		       err->msg);
	(void)snprintf(v->told.hint, sizeof(v->told.hint), "%s", err->hint);
}

/* --- confinement */

static int confine(struct verifier *v, struct err *err)
{
	char *log = mem_printf("%s-wal", v->file), *index = mem_printf("%s-shm", v->file);
	const struct confine_place places[] = {
		{ v->file, PLACES_READ }, { log, PLACES_READ }, { index, PLACES_READ | PLACES_WRITE },
		{ v->ask.folder, PLACES_READ | PLACES_WRITE }, { v->sealed, PLACES_READ },
		{ v->ask.archive ? v->ask.archive : v->sealed, PLACES_READ },
	};
	struct stat st = { 0 };
	int rc;

	(void)stat(v->file, &st);
	db_memory_max(MEMORY_LEAST + (uint64_t)st.st_blocks * 512 / 4);
	served_step_back(SERVED_IDLE);
	if (!served_bound(MEMORY_MAX + (uint64_t)st.st_blocks * 512 / 4, MARK_FILE_MAX))
		rc = err_set(err, ERR_IO, "limits", "%s", strerror(errno));
	else
		rc = places_only(places, NELEMS(places), SANITIZED || COVERAGE ? 0 : v->ask.landlock, err);
	if (rc == 0)                    /* modes: of its new files */
		rc = filter_reader(FILTER_THREADS | FILTER_MODES, err);
	free(log);
	free(index);
	return rc;
}

/* --- the work */

static void found(void *arg, const struct audit_finding *f)
{
	struct verifier *v = arg;

	mark_found(v->mark, f);
	told_add(&v->told, f);
}

static int open_all(struct verifier *v, struct err *err)
{
	char *mark = path_join(v->ask.folder, VERIFIER_MARK);
	int rc = mark_open(mark, NULL, NULL, &v->mark, err);

	if (rc == 0)
		rc = db_open(v->file, DB_READER, false, &v->db, err);
	free(mark);
	return rc;
}

static int verify(struct verifier *v, struct err *err)
{
	const struct audit_evidence with = { .shut_on_purpose = true, .young_s = v->ask.young_s };
	struct mark_run run = { .resume = true, .every_us = MARK_KEEP_US, .scrub = v->ask.scrub, .found = found, .arg = v };
	struct audit_coverage sum = { 0 };
	const struct verify_marking *marking;
	int rc = open_all(v, err);

	if (rc < 0)
		return rc;
	marking = mark_begin(v->mark, &run);
	rc = audit_verify_marked(v->db, &with, marking, found, v, &sum, err);
	if (rc == 0)
		rc = mark_end(v->mark, &sum, &v->told.oldest_us, err);
	v->told.since_us = run.made_us;
	v->told.logs = sum.logs;
	v->told.records = sum.records;
	v->told.again = sum.again;
	v->told.older = sum.older;
	v->told.bad = sum.bad;
	v->told.gaps = sum.gaps;
	v->told.shut = sum.shut;
	return rc;
}

static int serve(void)
{
	static struct verifier v;
	struct err err = { 0 };
	int rc;
	bool said = false;

	if (!served_shut(FILES_MAX) || secret_init() < 0) {
		fputs("toolcrib-verifier: it cannot be confined\n", stderr);
		return SERVED_FAILED;
	}
	rc = read_question(&v, &err);
	if (rc == 0) {
		v.file = path_join(v.ask.store, DB_FILE);
		v.sealed = path_join(v.ask.store, FORMS_FOLDER);
		rc = confine(&v, &err);
	}
	if (rc == 0)
		rc = verify(&v, &err);
	if (rc < 0)
		fail(&v, &err);
	if (rc != ERR_CANCELLED)
		said = say(&v);
	db_close(&v.db);
	mark_free(&v.mark);
	verifier_ask_fini(&v.ask);
	free(v.file);
	free(v.sealed);
	return said && rc == 0 ? SERVED_DONE : SERVED_FAILED;
}

int main(int argc, char **argv)
{
	static const struct served verifier = {
		.name = "toolcrib-verifier", .page = "toolcribd(8), Verification each day", .serve = serve,
		.does = "Verifies a store for toolcribd, which starts it and speaks to it over descriptor 0; for people there is "
			"toolcrib-verify(8).",
	};

	return served_main(&verifier, argc, argv);
}
