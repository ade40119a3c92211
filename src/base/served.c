/* The main() of a program that the server starts and that speaks to it over descriptor 0 alone: toolcrib-report,
 * toolcrib-worker.  By hand it says what it is, and does nothing. */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/served.h"

static void put_usage(const struct served *s, FILE *to)
{
	(void)fprintf(to, "usage: %s\n       %s --version | --help\n", s->name, s->name);
}

static bool say(const struct served *s, const char *word)
{
	if (strcmp(word, "--version") == 0) {
		printf("%s " PACKAGE_VERSION "\n", s->name);
		return true;
	}
	if (strcmp(word, "--help") != 0)
		return false;
	put_usage(s, stdout);
	printf("\n%s\nStarted by hand it does nothing.  See %s.\n", s->does, s->page);
	return true;
}

int served_main(const struct served *s, int argc, char **argv)
{
	struct stat st;

	if (argc == 2 && say(s, argv[1]))
		return SERVED_DONE;
	if (argc > 1) {
		put_usage(s, stderr);
		return SERVED_USAGE;
	}
	if (fstat(STDIN_FILENO, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		(void)fprintf(stderr, "%s is started by toolcribd, not by hand\n", s->name);
		return SERVED_BY_HAND;
	}
	return s->serve();
}
