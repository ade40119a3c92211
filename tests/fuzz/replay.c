/*
 * The main() of a fuzz target without libFuzzer: every file of the directories given as arguments goes
 * through the target once.  Without arguments it takes the target's own corpus,
 * $TOOLCRIB_SRCDIR/tests/fuzz/corpus/NAME for the program f_NAME.  A corpus without files is a failure.
 */

#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "fuzz.h"

enum { FILE_MAX = 1 << 20 };

static void replay_file(const char *path)
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
	if (LLVMFuzzerTestOneInput(exact, content.len) != 0) {
		fprintf(stderr, "%s: the target did not return 0\n", path);
		exit(1);
	}
	free(exact);
	str_fini(&content);
}

static void replay_dir(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	size_t n = 0;

	if (!dir) {
		fprintf(stderr, "cannot open %s: %s\n", path, strerror(errno));
		exit(1);
	}
	while ((entry = readdir(dir))) {
		char *file;

		if (entry->d_name[0] == '.')
			continue;
		file = path_join(path, entry->d_name);
		replay_file(file);
		free(file);
		n++;
	}
	closedir(dir);
	printf("%s: %zu inputs\n", path, n);
	if (n == 0)
		exit(1);
}

int main(int argc, char **argv)
{
	const char *srcdir = getenv("TOOLCRIB_SRCDIR"), *name = strrchr(argv[0], '/');
	char *own;

	for (int i = 1; i < argc; i++)
		replay_dir(argv[i]);
	if (argc > 1)
		return 0;
	name = name ? name + 1 : argv[0];
	if (strncmp(name, "f_", 2) != 0) {
		fprintf(stderr, "%s: give the directories to replay\n", name);
		return 2;
	}
	own = mem_printf("%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", name + 2);
	replay_dir(own);
	free(own);
	return 0;
}
