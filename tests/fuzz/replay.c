/*
 * The main() of fuzz targets without libFuzzer: every file of a target's corpus, which is
 * $TOOLCRIB_SRCDIR/tests/fuzz/corpus/NAME, goes through the target once.  A corpus without files is a failure.
 * What is printed last names the target that crashed.
 *
 *	replay                      all targets of this program
 *	replay NAME [DIRECTORY…]    one, with its corpus or with these directories
 *	replay --list               their names
 */

#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "fuzz.h"

enum { FILE_MAX = 1 << 20 };

static struct fuzz_target *targets;     /* by name */

void fuzz_add(struct fuzz_target *t)
{
	struct fuzz_target **at = &targets;

	while (*at && strcmp((*at)->name, t->name) < 0)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
}

static void replay_file(const struct fuzz_target *t, const char *path)
{
	struct str content = STR_INIT;
	struct err err;
	uint8_t *exact;

	if (path_read(path, FILE_MAX, &content, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	/* Of exactly this size, so that sanitizers see a read beyond the end. */
	exact = mem_dup(content.p, content.len);
	if (t->run(exact, content.len) != 0) {
		fprintf(stderr, "%s: the target did not return 0\n", path);
		exit(1);
	}
	free(exact);
	str_fini(&content);
}

static void replay_dir(const struct fuzz_target *t, const char *path)
{
	DIR *dir;
	struct dirent *entry;
	size_t n = 0;

	printf("== target %s\n", t->name);
	(void)fflush(stdout);
	dir = opendir(path);
	if (!dir) {
		fprintf(stderr, "cannot open %s: %s\n", path, strerror(errno));
		exit(1);
	}
	while ((entry = readdir(dir))) {
		char *file;

		if (entry->d_name[0] == '.')
			continue;
		file = path_join(path, entry->d_name);
		replay_file(t, file);
		free(file);
		n++;
	}
	closedir(dir);
	printf("%s: %zu inputs\n", path, n);
	if (n == 0)
		exit(1);
}

static void replay_own(const struct fuzz_target *t)
{
	const char *srcdir = getenv("TOOLCRIB_SRCDIR");
	char *own = mem_printf("%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", t->name);

	replay_dir(t, own);
	free(own);
}

int main(int argc, char **argv)
{
	const bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
	bool known = argc < 2 || list;

	for (const struct fuzz_target *t = targets; t; t = t->next) {
		if (list)
			puts(t->name);
		else if (argc < 2)
			replay_own(t);
		else if (strcmp(argv[1], t->name) == 0) {
			known = true;
			if (argc == 2)
				replay_own(t);
			for (int i = 2; i < argc; i++)
				replay_dir(t, argv[i]);
		}
	}
	if (!known)
		fprintf(stderr, "%s: no such target; --list names them\n", argv[0]);
	return known ? 0 : 2;
}
