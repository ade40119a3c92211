/* What statements cost, preloaded into the programs: for each run of a statement on a connection that only reads, a line in the
 * file TOOLCRIB_TEST_WORK, with tabs between: steps of the virtual machine, which rows that are walked or sorted take as well;
 * pages that were read, from wherever the system had them; the process, and KiB that it had at most; its text.
 *
 * It can be held: behind the first run of a statement that has the text TOOLCRIB_TEST_PAUSE, the process writes a byte into the
 * file TOOLCRIB_TEST_GATE and goes on when that is empty again.
 *
 * A walk can be planted: TOOLCRIB_TEST_WALK is a text that statements have, and "+" comes in front of it where they are
 * compiled, so that no index serves for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

enum { GATE_MS = 60000 };
static int out = -1, gate = -1;

/* With the first connection: a reporter closes what it was started with. */
static void open_out(void)
{
	const char *path = getenv("TOOLCRIB_TEST_WORK"), *way = getenv("TOOLCRIB_TEST_GATE");

	if (path && out < 0) {
		out = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
		gate = way ? open(way, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
	}
}

static void wait_at_gate(const char *sql)
{
	const char *text = getenv("TOOLCRIB_TEST_PAUSE");
	struct stat st;

	if (gate < 0 || !text || !strstr(sql, text))
		return;
	(void)!write(gate, ".", 1);
	for (int ms = 0; ms < GATE_MS && fstat(gate, &st) == 0 && st.st_size > 0; ms++)
		(void)nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	(void)close(gate);
	gate = -1;
}

static int on_end(unsigned what, void *arg, void *stmt, void *ns)
{
	char *line = NULL;
	struct rusage used = { 0 };
	int n, pages = 0, most;

	(void)sqlite3_db_status(sqlite3_db_handle(stmt), SQLITE_DBSTATUS_CACHE_MISS, &pages, &most, 1);
	(void)getrusage(RUSAGE_SELF, &used);
	n = asprintf(&line, "%d\t%d\t%d\t%ld\t%s\n", sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 1), pages, getpid(),
		     used.ru_maxrss, sqlite3_sql(stmt));
	if (n > 0)
		(void)!write(out, line, (size_t)n);
	free(line);
	wait_at_gate(sqlite3_sql(stmt));
	return 0;
}

int sqlite3_open_v2(const char *path, sqlite3 **ret, int flags, const char *vfs)
{
	int (*real)(const char *, sqlite3 **, int, const char *) = dlsym(RTLD_NEXT, "sqlite3_open_v2");
	int rc = real(path, ret, flags, vfs);

	open_out();
	if (rc == SQLITE_OK && out >= 0 && flags & SQLITE_OPEN_READONLY)
		sqlite3_trace_v2(*ret, SQLITE_TRACE_PROFILE, on_end, NULL);
	return rc;
}

int sqlite3_prepare_v3(sqlite3 *db, const char *sql, int n, unsigned flags, sqlite3_stmt **ret, const char **tail)
{
	int (*real)(sqlite3 *, const char *, int, unsigned, sqlite3_stmt **, const char **) = dlsym(RTLD_NEXT, "sqlite3_prepare_v3");
	const char *walk = getenv("TOOLCRIB_TEST_WALK"), *at = walk && *walk && n < 0 ? strstr(sql, walk) : NULL;
	char *text = NULL;
	int rc;

	if (at && asprintf(&text, "%.*s+%s", (int)(at - sql), sql, at) < 0)
		return SQLITE_NOMEM;
	rc = real(db, text ? text : sql, n, flags, ret, text ? NULL : tail);
	free(text);
	return rc;
}
