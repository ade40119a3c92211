/* Cgroups (v2), from both sides: the server takes the place that it was given, at its start; the launcher makes one in
 * it for its tool and removes it behind the last process. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "sandbox/cgroup.h"
#include "sandbox/policy.h"

#include "sandbox_int.h"

#define LINE_MAX_BYTES 8192             /* of /proc/self/mountinfo */
#define TEXT_MAX 4096                   /* of a file in a cgroup */
#define REMOVE_TRIES 100                /* a cgroup is busy for a moment after its last process */
#define REMOVE_PAUSE_NS 2000000

/* The whole text of a small file, its last newline taken off; false when it cannot be read. */
static bool read_file(const char *dir, const char *name, char ret[TEXT_MAX])
{
	char *path = path_join(dir, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got = -1;

	free(path);
	while (fd >= 0 && n < TEXT_MAX - 1 && (got = read(fd, ret + n, TEXT_MAX - 1 - n)) > 0)
		n += (size_t)got;
	if (fd >= 0)
		close(fd);
	ret[n > 0 && ret[n - 1] == '\n' ? n - 1 : n] = '\0';
	return got == 0;
}

/* A cgroup's file takes what is one write.  0 or -1 with errno. */
static int write_file(const char *dir, const char *name, const char *text)
{
	char *path = path_join(dir, name);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
	int saved = errno;

	free(path);
	if (fd >= 0)
		close(fd);
	errno = saved;
	return n < 0 ? -1 : 0;
}

static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = text; (at = strstr(at, word)) != NULL; at += n) {
		if ((at == text || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
			return true;
	}
	return false;
}

/* --- the server's place */

/* The path after "0::" in /proc/self/cgroup; NULL: no v2 here. */
static char *own_path(char text[TEXT_MAX])
{
	if (!read_file("/proc/self", "cgroup", text))
		return NULL;
	for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
		/* With ".." it lies outside of what this container sees. */
		if (strncmp(line, "0::/", 4) == 0 && strncmp(line, "0::/..", 6) != 0)
			return line + 3;
	}
	return NULL;
}

/* Where path is in the file system, by one line of mountinfo; NULL: not by this one. */
static char *place_in(char *line, const char *path)
{
	/* ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS... - TYPE SOURCE OPTIONS */
	char *type = strstr(line, " - cgroup2 "), *field[5] = { NULL };

	if (!type)
		return NULL;
	*type = '\0';
	for (size_t i = 0; i < NELEMS(field); i++)
		field[i] = strsep(&line, " ");
	if (!field[4] || strchr(field[3], '\\') || strchr(field[4], '\\'))
		return NULL;
	size_t n = strcmp(field[3], "/") == 0 ? 0 : strlen(field[3]);
	if (strncmp(path, field[3], n) != 0 || (path[n] != '/' && path[n] != '\0'))
		return NULL;
	const char *rest = path + n;
	return mem_printf("%s%s", field[4], strcmp(rest, "/") == 0 ? "" : rest);
}

static char *own_dir(const char *path)
{
	char line[LINE_MAX_BYTES], *dir = NULL;
	FILE *f = fopen("/proc/self/mountinfo", "re");

	while (f && !dir && fgets(line, sizeof(line), f))
		dir = place_in(line, path);
	if (f)
		fclose(f);
	return dir;
}

/* Nobody else's processes may be moved, nor be bounded with ours. */
static bool is_alone(const char *dir)
{
	char procs[TEXT_MAX], us[24];

	snprintf(us, sizeof(us), "%d", (int)getpid());
	return read_file(dir, "cgroup.procs", procs) && strcmp(procs, us) == 0;
}

static const char *take_place(const char *dir)
{
	char controllers[TEXT_MAX], *leaf = path_join(dir, "server");
	const char *why = NULL;

	if (!read_file(dir, "cgroup.controllers", controllers) || !has_word(controllers, "memory") ||
	    !has_word(controllers, "pids"))
		why = "memory and pids are not delegated";
	else if (!is_alone(dir))
		why = "other processes are in this one";
	else if (mkdir(leaf, 0755) && errno != EEXIST)
		why = "it cannot be written";
	else if (write_file(leaf, "cgroup.procs", "0"))
		why = "this process cannot be moved";
	if (!why && write_file(dir, "cgroup.subtree_control", "+memory +pids")) {
		why = "memory and pids cannot be passed on";
		(void)write_file(dir, "cgroup.procs", "0");
		(void)rmdir(leaf);
	}
	free(leaf);
	return why;
}

char *sandbox_cgroup_claim(const char **ret_why)
{
	char text[TEXT_MAX], *path = own_path(text), *dir = path ? own_dir(path) : NULL;

	*ret_why = dir ? take_place(dir) : "there is no cgroup v2";
	if (*ret_why) {
		free(dir);
		return NULL;
	}
	return dir;
}

/* --- one tool's */

static int fail(struct err *err, const char *name)
{
	return err_set(err, ERR_IO, "cgroup", "%s: %s", name, strerror(errno));
}

static int limit(const char *dir, const char *name, uint64_t value, struct err *err)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return value > 0 && write_file(dir, name, text) ? fail(err, name) : 0;
}

int cgroup_make(const struct sandbox_policy *p, char **ret, struct err *err)
{
	char *dir = mem_printf("%s/tool-%d", p->cgroup, (int)getpid());
	/* Of a launcher that was killed, and whose number we have. */

	if (mkdir(dir, 0755) && (errno != EEXIST || rmdir(dir) || mkdir(dir, 0755))) {
		int rc = fail(err, dir);
		free(dir);
		return rc;
	}
	int rc = limit(dir, "memory.max", p->memory_bytes, err);
	rc = rc ? rc : limit(dir, "pids.max", sandbox_processes(p), err);
	if (rc) {
		cgroup_remove(dir);
		free(dir);
		return rc;
	}
	/* What is over its bound shall neither go on slowly from disk, nor in part; older kernels lack the files. */
	(void)write_file(dir, "memory.swap.max", "0");
	(void)write_file(dir, "memory.oom.group", "1");
	*ret = dir;
	return 0;
}

int cgroup_enter(const char *dir, struct err *err)
{
	return write_file(dir, "cgroup.procs", "0") ? fail(err, "cgroup.procs") : 0;
}

uint64_t cgroup_value(const char *dir, const char *file, const char *name)
{
	char text[TEXT_MAX];
	uint64_t value = 0;
	size_t n = strlen(name);

	if (!read_file(dir, file, text))
		return 0;
	for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
		if (strncmp(line, name, n) == 0 && text_u64(line + n, strlen(line + n), &value) == 0)
			return value;
	}
	return 0;
}

void cgroup_kill(const char *dir)
{
	(void)write_file(dir, "cgroup.kill", "1");      /* since Linux 5.14; without it each is found and killed */
}

void cgroup_remove(const char *dir)
{
	const struct timespec pause = { .tv_nsec = REMOVE_PAUSE_NS };

	for (int i = 0; i < REMOVE_TRIES && rmdir(dir) && errno == EBUSY; i++)
		nanosleep(&pause, NULL);
}
