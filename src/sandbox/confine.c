/* What the base layer of the sandbox consists of (SEC S-502, S-504): limits, the tie to the parent, no new
 * privileges, no descriptors, a program that nobody else could have replaced. */
#include "config.h"

#include "sandbox_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/policy.h"

#define NPROC_SPARE 4096
#define BWRAP_PROCESSES 2

uint64_t sandbox_processes(const struct sandbox_policy *p)
{
	return p->processes && p->bwrap ? p->processes + BWRAP_PROCESSES : p->processes;
}

static int fail(struct err *err, const char *step)
{
	return err_set(err, ERR_IO, step, "%s", strerror(errno));
}

/* Never above what we have ourselves.  spare: how much further the hard limit lies. */
static int set_limit(int resource, uint64_t want, uint64_t spare, const char *name, struct err *err)
{
	struct rlimit rl;
	if (getrlimit((__rlimit_resource_t)resource, &rl))
		return fail(err, name);
	if (want < rl.rlim_max && want + spare < rl.rlim_max)
		rl.rlim_max = (rlim_t)(want + spare);
	rl.rlim_cur = want < rl.rlim_max ? (rlim_t)want : rl.rlim_max;
	return setrlimit((__rlimit_resource_t)resource, &rl) ? fail(err, name) : 0;
}

int confine_limits(const struct sandbox_policy *p, struct err *err)
{
	/* A second between SIGXCPU, which names the limit to the server, and SIGKILL. */
	const struct { int resource; uint64_t want, spare; const char *name; } limits[] = {
		{ RLIMIT_CPU, p->cpu_s, 1, "limit cpu" },
		{ RLIMIT_FSIZE, p->file_bytes, 0, "limit file size" },
		{ RLIMIT_NOFILE, p->open_files, 0, "limit open files" },
		/* It counts all processes of the user, the server's threads among them: a backstop, no more (S-517). */
		{ RLIMIT_NPROC, p->processes ? p->processes + NPROC_SPARE : 0, 0, "limit processes" },
	};
	for (size_t i = 0; i < NELEMS(limits); i++) {
		int rc = limits[i].want == 0 ? 0 : set_limit(limits[i].resource, limits[i].want,
							     limits[i].spare, limits[i].name, err);
		if (rc)
			return rc;
	}
	return set_limit(RLIMIT_CORE, 0, 0, "limit core", err);
}

int confine_memory(const struct sandbox_policy *p, struct err *err)
{
	return p->memory_bytes == 0 ? 0 : set_limit(RLIMIT_AS, p->memory_bytes, 0, "limit memory", err);
}

int confine_parent(pid_t supervisor, struct err *err)
{
	/* A session of its own: no terminal, and no group that a process of somebody else could be in. */
	if (setsid() < 0)
		return fail(err, "session");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		return fail(err, "parent death signal");
	/* It may have died before the call above; then nobody would tell us. */
	if (getppid() != supervisor)
		return err_set(err, ERR_IO, "parent", "the supervisor is gone");
	return 0;
}

int confine_privileges(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	/* Root's too; what the bounding set still has cannot be gained by exec after no_new_privs. */
	if (syscall(SYS_capset, &head, none))
		return fail(err, "capabilities");
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? fail(err, "no new privileges") : 0;
}

int confine_open(const struct sandbox_policy *p, int *ret_fd, struct err *err)
{
	struct stat st;
	int fd = open(p->program, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return fail(err, "program");
	int rc = 0;
	if (fstat(fd, &st))
		rc = fail(err, "program");
	else if (!S_ISREG(st.st_mode))
		rc = err_set(err, ERR_DENIED, "program", "not a regular file");
	else if (st.st_uid != 0 && st.st_uid != geteuid())
		rc = err_set(err, ERR_DENIED, "program", "owned by uid %u, not by root or the server's user",
			     (unsigned)st.st_uid);
	else if ((st.st_mode & S_IWOTH) || ((st.st_mode & S_IWGRP) && st.st_gid != 0 && st.st_gid != getegid()))
		rc = err_set(err, ERR_DENIED, "program", "other users may write to it");
	if (rc) {
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

int confine_reopen(const struct sandbox_policy *p, int *ret_fd, struct err *err)
{
	int fd = open(p->program, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return fail(err, "program");
	*ret_fd = fd;
	return 0;
}

int confine_descriptors(int keep_fd, int also_fd, struct err *err)
{
	unsigned low = (unsigned)(keep_fd < also_fd ? keep_fd : also_fd);
	unsigned high = (unsigned)(keep_fd < also_fd ? also_fd : keep_fd), first = SANDBOX_FD + 1;
	bool ok = low <= first || close_range(first, low - 1, 0) == 0;
	ok = ok && (high <= low + 1 || close_range(low + 1, high - 1, 0) == 0);
	return ok && close_range(high + 1, ~0u, 0) == 0 ? 0 : fail(err, "close descriptors");
}
