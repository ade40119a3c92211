/* Bubblewrap, where a server is configured to use it: namespaces around the sandbox that is built without it as well.
 *
 * bwrap makes a file system of nothing but what the policy lists, namespaces for processes, IPC, host name and user,
 * and one for the network where the tool has none; in there it starts this program again, which goes on with Landlock,
 * the filter and the tool.  Nothing of the policy is left to it alone but the name spaces. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

#include "sandbox_int.h"


#define WORDS_MAX 2048

/* All of it lives until exec, or until the process ends. */
struct words {
	const char *at[WORDS_MAX + 1]; size_t n;
	bool full;
	char *hidden[SANDBOX_HIDE_MAX + 1]; size_t nhidden;        /* without links; what is not there need not be
								     * hidden */
};

static void put(struct words *w, const char *word)
{
	w->full = w->full || w->n == WORDS_MAX;
	if (!w->full)
		w->at[w->n++] = word;
}

static void put_option(struct words *w, const char *option, const char *value)
{
	put(w, option);
	put(w, value);
}

static bool is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static void put_own_kernel(struct words *w)
{
	put_option(w, "--proc", "/proc");
	put_option(w, "--dev", "/dev");
}

/* A path at its own name, with something empty over each part of it that is hidden.  Landlock says the same in its way;
 * where the kernel has none, nobody else would. */
static int put_path(struct words *w, const char *how, const char *path, struct err *err)
{
	bool writes = strcmp(how, "--bind") == 0;
	char *name = realpath(path, NULL);
	int rc = name ? 0 : err_set(err, ERR_NOT_FOUND, "bwrap", "%.100s: %s", path, strerror(errno));

	if (rc == 0 && sandbox_is_below(name, "/proc"))
		rc = err_set(err, ERR_DENIED, "bwrap", "%.100s: it is not for tools", path);
	put(w, how);
	put_option(w, path, path);
	if (strcmp(path, "/") == 0)
		put_own_kernel(w);
	for (size_t i = 0; rc == 0 && i < w->nhidden; i++) {
		const char *hidden = w->hidden[i];
		if (sandbox_is_below(name, hidden)) {
			rc = err_set(err, ERR_DENIED, "bwrap", "%.100s: it is not for tools", path);
		} else if (sandbox_is_below(hidden, name) && writes) {
			rc = err_set(err, ERR_DENIED, "bwrap", "%.100s: what is not for tools lies in it", path);
		} else if (sandbox_is_below(hidden, name)) {
			const char *rest = hidden + (strcmp(name, "/") == 0 ? 0 : strlen(name));
			if (is_file(hidden))
				put_option(w, "--ro-bind", "/dev/null");
			else
				put(w, "--tmpfs");
			put(w, mem_printf("%s%s", strcmp(path, "/") == 0 ? "" : path, rest));
		}
	}
	free(name);
	return rc;
}

static bool is_everywhere(const char *path)
{
	for (size_t i = 0; landlock_everywhere(i); i++) {
		if (sandbox_is_below(path, landlock_everywhere(i)))
			return true;
	}
	return false;
}

/* bubblewrap mounts on no link: where one lies in what is there anyway, what it points to is all that is missing. */
static int put_readable(struct words *w, const char *path, struct err *err)
{
	char *name = realpath(path, NULL);
	int rc = name ? 0 : err_set(err, ERR_NOT_FOUND, "bwrap", "%.100s: %s", path, strerror(errno));

	if (rc == 0 && !is_everywhere(name))
		rc = put_path(w, "--ro-bind", name, err);       /* borrowed: name stays */
	if (rc == 0 && !is_everywhere(path) && strcmp(path, name) != 0)
		rc = put_path(w, "--ro-bind", path, err);
	return rc;
}

/* Later ones lie over earlier ones. */
static int put_files(struct words *w, const struct sandbox_policy *p, const char *own_dir, const char *self,
		     struct err *err)
{
	int rc = 0;

	put_own_kernel(w);
	for (size_t i = 0; rc == 0 && landlock_everywhere(i); i++) {
		const char *path = landlock_everywhere(i);
		if (!sandbox_is_below(path, "/proc") && !sandbox_is_below(path, "/dev") && access(path, F_OK) == 0)
			rc = put_path(w, "--ro-bind", path, err);
	}
	for (const char *const *at = p->read; rc == 0 && *at; at++)
		rc = put_readable(w, *at, err);
	for (const char *const *at = p->write; rc == 0 && *at; at++)
		rc = put_path(w, "--bind", *at, err);
	for (const char *const *at = p->files; rc == 0 && *at; at++) {
		/* As for Landlock: one that is hidden is passed over, nobody has listed it. */
		size_t n = w->n;
		if (is_file(*at) && put_readable(w, *at, err))
			w->n = n;
	}
	rc = rc ? rc : put_readable(w, p->program, err);
	rc = rc ? rc : put_readable(w, self, err);
	if (rc == 0 && own_dir)
		rc = put_path(w, "--bind", own_dir, err);
	return rc;
}

static void find_hidden(struct words *w, const struct sandbox_policy *p)
{
	for (const char *const *at = p->hide; *at; at++) {
		char *name = realpath(*at, NULL);
		if (name)
			w->hidden[w->nhidden++] = name;
	}
}

static int keep(int from, int fd)
{
	return (from == fd ? fcntl(fd, F_SETFD, 0) : dup2(from, fd)) < 0 ? -1 : 0;
}

/* The instructions once more, in a file without a name. */
static int put_instructions(const struct sandbox_policy *p, struct err *err)
{
	struct str bytes = STR_INIT;
	int rc = sandbox_policy_encode(p, &bytes, err);
	int fd = rc ? -1 : memfd_create("instructions", 0);
	bool ok = fd >= 0 && write(fd, bytes.p, bytes.len) == (ssize_t)bytes.len && lseek(fd, 0, SEEK_SET) == 0 &&
		  keep(fd, SANDBOX_INSIDE_POLICY_FD) == 0;

	if (!rc && !ok)
		rc = err_set(err, ERR_IO, "bwrap", "%s", strerror(errno));
	str_fini(&bytes);
	return rc;
}

int bwrap_become(const struct sandbox_policy *p, const char *own_dir, int chan, int program, struct err *err)
{
	static char self[PATH_MAX];
	static struct words w;
	char *const env[] = { NULL };
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	/* Root's capabilities it needs itself, to be root in its namespace, too; it takes them from what it starts. */
	int rc = n > 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0
			 : err_set(err, ERR_IO, "bwrap", "%s", strerror(errno));

	/* Out of the way of those that go to their places. */
	program = fcntl(program, F_DUPFD, SANDBOX_INSIDE_PROGRAM_FD + 1);
	if (!rc && (program < 0 || keep(chan, SANDBOX_INSIDE_CHAN_FD) || keep(SANDBOX_FD, SANDBOX_FD) ||
		    keep(program, SANDBOX_INSIDE_PROGRAM_FD)))
		rc = err_set(err, ERR_IO, "bwrap", "%s", strerror(errno));
	rc = rc ? rc : put_instructions(p, err);
	if (rc)
		return rc;

	put(&w, "bwrap");
	put(&w, "--die-with-parent");
	put(&w, "--unshare-user");
	put(&w, "--unshare-pid");
	put(&w, "--unshare-ipc");
	put(&w, "--unshare-uts");
	put(&w, "--unshare-cgroup-try");
	if (p->net == SANDBOX_NET_NONE)
		put(&w, "--unshare-net");
	put_option(&w, "--cap-drop", "ALL");
	find_hidden(&w, p);
	rc = put_files(&w, p, own_dir, self, err);
	put_option(&w, "--", self);
	put_option(&w, SANDBOX_INSIDE, own_dir ? own_dir : "");
	if (!rc && w.full)
		rc = err_set(err, ERR_LIMIT, "bwrap", "more than %d words", WORDS_MAX);
	if (rc)
		return rc;
	/* What is left of the descriptors: 0, 1, 2, the four that stay, and none else. */
	(void)close_range(SANDBOX_INSIDE_PROGRAM_FD + 1, ~0u, 0);
	execve(p->bwrap, (char *const *)(uintptr_t)w.at, env);
	return err_set(err, ERR_IO, "bwrap", "%.100s: %s", p->bwrap, strerror(errno));
}
