/* toolcrib-worker: a process of the server for work that can run away (HARDENING 1.4).  The table is all that it can
 * do; whoever adds a row links the objects of its body, and no more: each worker has its own copy of what they need. */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "handlers/handlers.h"
#include "worker/serve.h"

enum { EXIT_DONE = 0, EXIT_USAGE = 2, EXIT_BY_HAND = 126 };

static const struct worker_work table[] = {
	{ SQL_WORK, sql_work },
};

static const char usage[] =
	"usage: toolcrib-worker\n"
	"       toolcrib-worker --version | --help\n";

static const char help[] =
	"\nRuns queries of tools for toolcribd, which starts it and speaks to it over descriptor 0.\n"
	"Started by hand it does nothing.  See toolcribd(8), Workers.\n";

static int say(const char *word)
{
	if (strcmp(word, "--version") == 0)
		puts("toolcrib-worker " PACKAGE_VERSION);
	else if (strcmp(word, "--help") == 0)
		printf("%s%s", usage, help);
	else
		return -1;
	return 0;
}

int main(int argc, char **argv)
{
	struct stat st;

	if (argc == 2 && say(argv[1]) == 0)
		return EXIT_DONE;
	if (argc > 1) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (fstat(STDIN_FILENO, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		fputs("toolcrib-worker is started by toolcribd, not by hand\n", stderr);
		return EXIT_BY_HAND;
	}
	return worker_serve(table, NELEMS(table));
}
