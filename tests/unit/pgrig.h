#ifndef TESTS_PGRIG_H
#define TESTS_PGRIG_H

/* A server of PostgreSQL for a test, by tests/pg/pgrig.py, which ends it when this process has ended, however it does. */

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct pgrig {
	pid_t pid;
	FILE *to, *from;
	char line[1024];        /* what it said last: "ready host=…", "skip WHY", "ok", "error WHY" */
	char host[256];
};

static inline const char *pgrig_read(struct pgrig *r)
{
	if (!r->from || !fgets(r->line, sizeof(r->line), r->from))
		snprintf(r->line, sizeof(r->line), "failed: it ended without a word");
	r->line[strcspn(r->line, "\n")] = '\0';
	return r->line;
}

/* false: there is none, and r->line says why: "skip …", none is installed, or "failed …". */
static inline bool pgrig_start(struct pgrig *r)
{
	const char *top = getenv("TOOLCRIB_SRCDIR");
	char path[512];
	int in[2], out[2];

	memset(r, 0, sizeof(*r));
	snprintf(path, sizeof(path), "%s/tests/pg/pgrig.py", top && *top ? top : "..");
	if (pipe(in) < 0 || pipe(out) < 0)
		return false;
	r->pid = fork();
	if (r->pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execlp("python3", "python3", path, (char *)NULL);
		dprintf(1, "skip no python3 is installed\n");
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	r->to = fdopen(in[1], "w");
	r->from = fdopen(out[0], "r");
	if (strncmp(pgrig_read(r), "ready ", 6) != 0)
		return false;
	return sscanf(r->line, "ready host=%255s", r->host) == 1;
}

/* As the superuser. */
static inline bool pgrig_sql(struct pgrig *r, const char *database, const char *text)
{
	fprintf(r->to, "sql %s %s\n", database, text);
	fflush(r->to);
	return strcmp(pgrig_read(r), "ok") == 0;
}

static inline void pgrig_stop(struct pgrig *r)
{
	if (r->to)
		fclose(r->to);
	if (r->from)
		fclose(r->from);
	if (r->pid > 0)
		waitpid(r->pid, NULL, 0);
}

#endif
