/* toolcrib-run: reads instructions from descriptor 3, starts one tool in the sandbox that they describe (SEC S-501,
 * S-502), and stays beside it as its supervisor (supervise.c).  The launcher starts it, and tells by --user whom the
 * tool runs as; nothing else is taken from arguments, and nothing from the environment.  It has one thread. */
#include "config.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/served.h"
#include "base/text.h"
#include "sandbox/policy.h"

#include "sandbox_int.h"

/* --- the user */

/* Whom the tool runs as (HARDENING 1.1): the launcher says it by arguments, never the server by its instructions.  We
 * stay the server's user, so that the tool can neither signal nor trace what supervises it. */
static uint64_t user, group;            /* 0 = the server's */
static int users_fd = -1;               /* the namespace in which there are such users; -1 = ours */

/* For ever, and with it all capabilities, those of the namespace too. */
static int become_user(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	if (!user)
		return 0;
	if (users_fd >= 0 && setns(users_fd, CLONE_NEWUSER))
		return err_set(err, ERR_IO, "uid", "its namespace: %s", strerror(errno));
	if (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, group, group, group) ||
	    syscall(SYS_setresuid, user, user, user) || syscall(SYS_capset, &head, none))
		return err_set(err, ERR_IO, "uid", "%" PRIu64 ": %s", user, strerror(errno));
	return 0;
}

/* Run fn(arg) as the tool's user, in a process of its own; false when it did not. */
static bool run_as_user(void (*fn)(const char *arg), const char *arg)
{
	struct err err = { 0 };
	int status = 0;
	pid_t pid;

	if (!user) {
		fn(arg);
		return true;
	}
	pid = fork();
	if (pid == 0) {
		if (become_user(&err) == 0)
			fn(arg);
		_exit(err.code != 0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* --- the own directory */

/* The directory of one tool: made before it starts, by its own user, removed when all its processes are dead (SEC
 * S-507). */

static char *own_dir_name(const char *parent)
{
	uint64_t n = 0;
	char *real = realpath(parent, NULL), *path;

	(void)!getrandom(&n, sizeof(n), 0);
	path = mem_printf("%s/toolcrib-%016" PRIx64, real ? real : parent, n);
	free(real);
	return path;
}

static int own_dir_make(const char *path, struct err *err)
{
	return path && mkdir(path, S_IRWXU) ? err_set(err, ERR_IO, "own directory", "%.100s: %s", path, strerror(errno)) : 0;
}

/* Take away what forbids to look into a directory or to move it.  False: it is none.  Nobody can put a link in its
 * place meanwhile. */
static bool make_open(int parent, const char *name)
{
	struct stat st;

	return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	       fchmodat(parent, name, S_IRWXU, 0) == 0;
}

static DIR *open_dir(int parent, const char *name)
{
	if (!make_open(parent, name))
		return NULL;
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0)
		close(fd);
	return d;
}

static bool is_entry(const struct dirent *e)
{
	return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* A directory that moves changes its "..": it has to be writable itself. */
static bool move_up(int from, const char *name, int top, unsigned *count)
{
	char moved[24];

	if (!make_open(from, name))
		return false;
	do
		snprintf(moved, sizeof(moved), "%u", ++*count);
	while (renameat2(from, name, top, moved, RENAME_NOREPLACE) && errno == EEXIST);
	return faccessat(from, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

/* Empty the directory `name` of top: what is no directory goes, directories move up into top under new names, so that
 * no depth of theirs needs depth of ours.  False when nothing could be done. */
static bool flatten(int top, const char *name, unsigned *count)
{
	DIR *d = open_dir(top, name);
	bool progress = false;

	if (!d)
		return false;
	for (struct dirent *e; (e = readdir(d));) {
		if (is_entry(e) && (unlinkat(dirfd(d), e->d_name, 0) == 0 || move_up(dirfd(d), e->d_name, top, count)))
			progress = true;
	}
	closedir(d);
	return unlinkat(top, name, AT_REMOVEDIR) == 0 || progress;
}

/* With everything in it, whatever the tool has made of it; nobody else may be at work there. */
static void own_dir_remove(const char *path)
{
	unsigned count = 0;
	DIR *d = open_dir(AT_FDCWD, path);
	/* What moves up during a pass is seen by the next one at the latest. */

	for (bool progress = d != NULL; progress;) {
		progress = false;
		rewinddir(d);
		for (struct dirent *e; (e = readdir(d));) {
			if (is_entry(e) && (unlinkat(dirfd(d), e->d_name, 0) == 0 ||
					    flatten(dirfd(d), e->d_name, &count)))
				progress = true;
		}
	}
	if (d)
		closedir(d);
	(void)rmdir(path);      /* one that stays shows that something went wrong here */
}

/* --- the base layer */

/* What the base layer of the sandbox consists of (SEC S-502, S-504): limits, the tie to the parent, no new
 * privileges, no descriptors, a program that nobody else could have replaced. */

#define NPROC_SPARE 4096

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

/* The steps of the launcher, in the order of SEC S-502.  Each fills *err with the step's name as where
 * and the system's reason as text. */
static int confine_limits(const struct sandbox_policy *p, struct err *err)
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

/* The last of the limits, because the steps between need memory themselves. */
static int confine_memory(const struct sandbox_policy *p, struct err *err)
{
	return p->memory_bytes == 0 ? 0 : set_limit(RLIMIT_AS, p->memory_bytes, 0, "limit memory", err);
}

/* A session of its own, and death with the supervisor. */
static int confine_parent(pid_t supervisor, struct err *err)
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

/* No capabilities, and none to gain. */
static int confine_privileges(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	/* Root's too; what the bounding set still has cannot be gained by exec after no_new_privs. */
	if (syscall(SYS_capset, &head, none))
		return fail(err, "capabilities");
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? fail(err, "no new privileges") : 0;
}

/* --- the program */

/* What was checked is what runs: a binary from its descriptor.  The interpreter of a script opens it once more, by the
 * name that it is given.  That is the script's own name where nobody but root and our user can put another file there;
 * else, and where the definition has pinned what runs, it is /dev/fd/N, and the descriptor stays open (HARDENING
 * F-15). */
struct program { int fd; bool by_name; };

#define LINKS_MAX 40                    /* in a name, as the kernel counts */

/* Could somebody else put another entry into this directory, or take this one away?  dir: "" = "/". */
static bool is_fixed_entry(const char *dir, const char *entry, char *const *writable)
{
	struct stat d, e;

	if (stat(*dir ? dir : "/", &d) || lstat(entry, &e))
		return false;
	for (; *writable; writable++) {         /* the tool itself could, one that runs already */
		if (sandbox_is_below(dir, *writable))
			return false;
	}
	if (d.st_uid != 0 && d.st_uid != geteuid())
		return false;
	bool open = (d.st_mode & S_IWOTH) || ((d.st_mode & S_IWGRP) && d.st_gid != 0 && d.st_gid != getegid());
	return !open || ((d.st_mode & S_ISVTX) && (e.st_uid == 0 || e.st_uid == geteuid()));
}

/* The same for each directory that the name leads through. */
static bool is_fixed_name(const char *path, char *const *writable)
{
	char done[PATH_MAX] = "", entry[PATH_MAX + NAME_MAX + 2], todo[PATH_MAX * 2], target[PATH_MAX];
	int links = 0;

	snprintf(todo, sizeof(todo), "%s", path);
	for (;;) {
		char *name = todo + strspn(todo, "/"), *end = name + strcspn(name, "/"), rest[PATH_MAX];
		if (!*name)
			return true;
		if (snprintf(rest, sizeof(rest), "%s", end) >= PATH_MAX)
			return false;
		*end = '\0';
		if (strcmp(name, "..") == 0 || strcmp(name, ".") == 0) {        /* what is done has no links */
			if (name[1])
				*(strrchr(done, '/') ? strrchr(done, '/') : done) = '\0';
			memmove(todo, rest, strlen(rest) + 1);
			continue;
		}
		snprintf(entry, sizeof(entry), "%s/%s", done, name);
		if (!is_fixed_entry(done, entry, writable))
			return false;
		ssize_t n = readlink(entry, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		if (n > 0 && (++links > LINKS_MAX || strlen(target) + strlen(rest) >= sizeof(todo)))
			return false;
		if (target[0] == '/')
			done[0] = '\0';
		if (n <= 0 && snprintf(done, sizeof(done), "%s", entry) >= PATH_MAX)
			return false;
		snprintf(todo, sizeof(todo), "%s%s", target, rest);
	}
}

/* SHA-256 (FIPS 180-4): the libraries that have it take longer to load than a small program to run. */
struct sha { uint32_t h[8]; uint64_t total; unsigned char block[64]; };

static uint32_t turn(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static void sha_block(struct sha *s)
{
	static const uint32_t k[64] = {
		0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
		0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
		0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
		0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
		0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
		0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
		0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
		0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
	};
	uint32_t w[64], v[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)s->block[i * 4] << 24 | (uint32_t)s->block[i * 4 + 1] << 16 |
		       (uint32_t)s->block[i * 4 + 2] << 8 | s->block[i * 4 + 3];
	for (int i = 16; i < 64; i++)
		w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
		       (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(v, s->h, sizeof(v));
	for (int i = 0; i < 64; i++) {
		uint32_t a = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) +
			     k[i] + w[i];
		uint32_t b = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) +
			     ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += a;
		v[0] = a + b;
	}
	for (int i = 0; i < 8; i++)
		s->h[i] += v[i];
}

static void sha_put(struct sha *s, const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		s->block[s->total++ % 64] = p[i];
		if (s->total % 64 == 0)
			sha_block(s);
	}
}

static void sha_end(struct sha *s, char ret[SANDBOX_SHA256_TEXT])
{
	uint64_t bits = htobe64(s->total * 8);

	sha_put(s, (const unsigned char *)"\x80", 1);
	while (s->total % 64 != 56)
		sha_put(s, (const unsigned char *)"", 1);
	sha_put(s, (const unsigned char *)&bits, sizeof(bits));
	for (int i = 0; i < 8; i++)
		snprintf(ret + i * 8, SANDBOX_SHA256_TEXT - (size_t)i * 8, "%08x", s->h[i]);
}

/* A descriptor of the program to read from; -1: execute permission alone is enough for a binary. */
static int open_to_read(int fd)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return open(link, O_RDONLY | O_CLOEXEC);
}

static int check_pin(const char *pin, int in, struct err *err)
{
	struct sha sha = { .h = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
				  0x5be0cd19 } };
	unsigned char buf[16384];
	char got[SANDBOX_SHA256_TEXT];
	ssize_t n = -1;

	while (in >= 0 && (n = read(in, buf, sizeof(buf))) > 0)
		sha_put(&sha, buf, (size_t)n);
	if (n < 0)
		return err_set(err, ERR_DENIED, "program", "it is pinned by its SHA-256 and cannot be read: %s", strerror(errno));
	sha_end(&sha, got);
	return strcmp(got, pin) == 0 ? 0 : err_set(err, ERR_DENIED, "program", "its SHA-256 is %s, pinned is %s", got, pin);
}

/* writable: NULL = nobody can put another file under its name. */
static int look_inside(const struct sandbox_policy *p, char *const *writable, struct program *prog, struct err *err)
{
	int in = open_to_read(prog->fd);
	char start[2] = { 0 };
	int rc = p->sha256 ? check_pin(p->sha256, in, err) : 0;
	bool script = !rc && in >= 0 && pread(in, start, 2, 0) == 2 && memcmp(start, "#!", 2) == 0;

	prog->by_name = script && !p->sha256 && (!writable || is_fixed_name(p->program, writable));
	/* The kernel gives an interpreter no descriptor that it closes, and some read from it instead of opening it. */
	if (script && !prog->by_name) {
		rc = lseek(in, 0, SEEK_SET) || fcntl(in, F_SETFD, 0) ? fail(err, "program") : 0;
		close(prog->fd);
		prog->fd = in;
	} else if (in >= 0) {
		close(in);
	}
	return rc;
}

/* Checked; what prog->fd is good for is fexecve(). */
static int confine_open(const struct sandbox_policy *p, char *const *writable, struct program *prog, struct err *err)
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
	prog->fd = fd;
	return rc ? rc : look_inside(p, writable, prog, err);
}

/* Inside, owners have other numbers; it is the same file or it does not run, and nobody moves what is mounted. */
static int confine_reopen(const struct sandbox_policy *p, struct program *prog, struct err *err)
{
	struct stat before, now;
	int fd = open(p->program, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return fail(err, "program");
	if (fstat(prog->fd, &before) || fstat(fd, &now))
		return fail(err, "program");
	if (before.st_dev != now.st_dev || before.st_ino != now.st_ino)
		return err_set(err, ERR_DENIED, "program", "somebody has put another file in its place");
	close(prog->fd);
	prog->fd = fd;
	return look_inside(p, NULL, prog, err);
}

/* Everything from SANDBOX_FD + 1 on is closed, except these two, which lie there. */
static int confine_descriptors(int keep_fd, int also_fd, struct err *err)
{
	unsigned low = (unsigned)(keep_fd < also_fd ? keep_fd : also_fd);
	unsigned high = (unsigned)(keep_fd < also_fd ? also_fd : keep_fd), first = SANDBOX_FD + 1;
	bool ok = low <= first || close_range(first, low - 1, 0) == 0;

	ok = ok && (high <= low + 1 || close_range(low + 1, high - 1, 0) == 0);
	return ok && close_range(high + 1, ~0u, 0) == 0 ? 0 : fail(err, "close descriptors");
}

#define EXIT_NOT_STARTED 126    /* for the log only: what counts is the report */

static int read_all(int from, void *p, size_t n, struct err *err)
{
	char *at = p;

	while (n > 0) {
		ssize_t got = read(from, at, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_set(err, ERR_IO, "instructions", "%s", strerror(errno));
		if (got == 0)
			return err_set(err, ERR_IO, "instructions", "cut short");
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

static int read_policy(int from, struct sandbox_policy **ret, struct err *err)
{
	unsigned char head[SANDBOX_HEAD_SIZE];
	size_t rest = 0;
	int rc = read_all(from, head, sizeof(head), err);

	rc = rc ? rc : sandbox_policy_head(head, &rest, err);
	if (rc)
		return rc;
	unsigned char *bytes = mem_alloc(sizeof(head) + rest);
	memcpy(bytes, head, sizeof(head));
	rc = read_all(from, bytes + sizeof(head), rest, err);
	rc = rc ? rc : sandbox_policy_decode(bytes, sizeof(head) + rest, ret, err);
	free(bytes);
	return rc;
}

static void report(const char *text, size_t len)
{
	(void)!send(SANDBOX_FD, text, len, MSG_NOSIGNAL);   /* a server that is gone needs no report */
}

/* --- the tool */

/* The environment of the policy, and the own directory where it says nothing else. */
struct env { const char *at[SANDBOX_ENV_MAX + 3]; char home[256], tmpdir[256]; };

static bool env_has(const struct env *e, size_t n, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < n; i++) {
		if (strncmp(e->at[i], name, len) == 0)
			return true;
	}
	return false;
}

static void build_env(const struct sandbox_policy *p, const char *own_dir, struct env *e)
{
	size_t n = 0;

	for (; p->env[n]; n++)
		e->at[n] = p->env[n];
	snprintf(e->home, sizeof(e->home), "HOME=%s", own_dir ? own_dir : "");
	snprintf(e->tmpdir, sizeof(e->tmpdir), "TMPDIR=%s", own_dir ? own_dir : "");
	if (own_dir && !env_has(e, n, "HOME="))
		e->at[n++] = e->home;
	if (own_dir && !env_has(e, n, "TMPDIR="))
		e->at[n++] = e->tmpdir;
	e->at[n] = NULL;
}

static int send_listener(int fd, int listener, struct err *err)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control = { .room = { 0 } };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &listener, sizeof(int));
	return sendmsg(fd, &msg, MSG_NOSIGNAL) == 1 ? 0 : err_set(err, ERR_IO, "seccomp", "%s", strerror(errno));
}

/* In this order, because each step would be in the way of those before it.  fd: the program. */
static int confine(const struct sandbox_policy *p, const char *own_dir, int chan, int fd, struct err *err)
{
	const char *cwd = p->cwd ? p->cwd : own_dir ? own_dir : "/";
	int listener = -1;
	int rc = chdir(cwd) ? err_set(err, ERR_IO, "cwd", "%s", strerror(errno)) : 0;

	rc = rc ? rc : confine_privileges(err);
	rc = rc ? rc : landlock_confine(p, own_dir, err);
	rc = rc ? rc : confine_descriptors(fd, chan, err);
	rc = rc ? rc : filter_confine(p, &listener, err);
	if (!rc && listener >= 0)
		rc = send_listener(chan, listener, err);
	return rc;
}

static void report_level(const struct sandbox_policy *p)
{
	char level[SANDBOX_LEVEL_TEXT], text[SANDBOX_LEVEL_TEXT + 2];
	int n = snprintf(text, sizeof(text), "%c%s\n", SANDBOX_READY, sandbox_level_format(&p->level, level));

	report(text, (size_t)n);
}

/* What on the way to a file our user may not pass, or the file, and the line that helps. */
static int name_closed(const char *where, const char *path, struct err *err)
{
	char at[PATH_MAX];
	size_t n = 1, len = strlen(path);
	bool found = false;

	for (; n < len && n < sizeof(at) && !found; n++) {
		snprintf(at, sizeof(at), "%.*s", (int)n, path);
		found = path[n] == '/' && access(at, X_OK) != 0;
	}
	return err_set(err, ERR_IO, where, "%.100s: it must be open to user %" PRIu64 ": setfacl -m u:%" PRIu64 ":%s %.100s",
		       path, user, user, found ? "x" : "rx", found ? at : path);
}

static int check_open(const char *where, const char *const *list, struct err *err)
{
	for (; user && *list; list++)
		if (access(*list, F_OK) && errno == EACCES)
			return name_closed(where, *list, err);
	return 0;
}

static int become_tool(const struct sandbox_policy *p, const char *own_dir, int chan, const struct program *prog,
		       struct err *err)
{
	struct env env;
	sigset_t none;
	int rc = confine(p, own_dir, chan, prog->fd, err);

	rc = rc ? rc : confine_memory(p, err);
	if (rc)
		return rc;

	build_env(p, own_dir, &env);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* exec takes lists of char * but writes to none of them. */
	char *const *argv = (char *const *)(uintptr_t)p->argv, *const *envp = (char *const *)(uintptr_t)env.at;
	report_level(p);
	if (prog->by_name)
		execve(p->program, argv, envp);
	else
		fexecve(prog->fd, argv, envp);
	if (errno == EACCES && user)
		return name_closed("exec", p->program, err);
	return err_set(err, ERR_IO, "exec", "%s", strerror(errno));
}

static int become(const struct sandbox_policy *p, const char *own_dir, const struct supervisor *s, pid_t supervisor,
		  int chan, struct err *err)
{
	struct program prog = { .fd = -1 };
	int rc = s->cgroup ? cgroup_enter(s->cgroup, err) : 0;

	rc = rc ? rc : confine_limits(p, err);
	rc = rc ? rc : confine_open(p, s->writable, &prog, err);
	rc = rc ? rc : become_user(err);
	rc = rc ? rc : check_open("read", p->read, err);
	rc = rc ? rc : check_open("write", p->write, err);
	rc = rc ? rc : own_dir_make(own_dir, err);
	rc = rc ? rc : confine_parent(supervisor, err);
	if (rc || !p->bwrap)
		return rc ? rc : become_tool(p, own_dir, chan, &prog, err);
	return bwrap_become(p, own_dir, chan, prog.fd, err);
}

/* --- the supervisor */

static void report_failure(const struct err *err)
{
	char text[sizeof(err->where) + sizeof(err->msg) + 2];
	int n = snprintf(text, sizeof(text), "%s: %s", err->where, err->msg);

	report(text, n < SANDBOX_REPORT_MAX / 2 ? (size_t)n : SANDBOX_REPORT_MAX / 2);
}

/* All are dead and counted.  What the tool's own process had before it was one does not matter: we are small. */
static void report_usage(const char *cgroup)
{
	struct rusage ru = { .ru_maxrss = 0 };
	char text[64];

	getrusage(RUSAGE_CHILDREN, &ru);
	uint64_t cpu_us = cgroup ? cgroup_value(cgroup, "cpu.stat", "usage_usec ") : 0;
	uint64_t rss_kib = cgroup ? cgroup_value(cgroup, "memory.peak", "") / 1024 : 0;         /* since Linux 5.19 */
	if (cpu_us == 0)
		cpu_us = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000 +
			 (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	if (rss_kib == 0)
		rss_kib = (uint64_t)ru.ru_maxrss;
	int n = snprintf(text, sizeof(text), SANDBOX_USAGE "%" PRIu64 " %" PRIu64 "\n", cpu_us, rss_kib);
	report(text, (size_t)n);
}

/* Our end is the tool's: the server sees only us. */
static noreturn void end_like(int status)
{
	sigset_t none;

	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	sigemptyset(&none);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	sigprocmask(SIG_SETMASK, &none, NULL);
	raise(SIGKILL);
	_exit(EXIT_NOT_STARTED);
}

static int start(const struct sandbox_policy *p, const char *own_dir, const struct supervisor *s, pid_t *ret_tool,
		 int *ret_chan, struct err *err)
{
	pid_t supervisor = getpid();
	int chan[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, chan))
		return err_set(err, ERR_IO, "socketpair", "%s", strerror(errno));
	*ret_tool = fork();
	if (*ret_tool < 0)
		return err_set(err, ERR_IO, "fork", "%s", strerror(errno));
	if (*ret_tool == 0) {
		(void)become(p, own_dir, s, supervisor, chan[1], err);
		report_failure(err);
		_exit(EXIT_NOT_STARTED);
	}
	close(chan[1]);
	*ret_chan = chan[0];
	return 0;
}

/* Before the tool is started: which files are its own to change, as they are called now. */
static void find_writable(const struct sandbox_policy *p, const char *own_dir, struct supervisor *s)
{
	size_t n = 0;

	for (const char *const *path = p->write; *path; path++) {
		s->writable[n] = realpath(*path, NULL);
		n += s->writable[n] != NULL;
	}
	s->writable[n] = own_dir ? mem_strdup(own_dir) : NULL;
	n += s->writable[n] != NULL;
	/* What is not for tools is not theirs to change either, whoever has listed it. */
	for (const char *const *hide = p->hide; *hide; hide++) {
		char *name = realpath(*hide, NULL);
		for (size_t i = 0; name && i < n; i++) {
			if (!sandbox_is_below(s->writable[i], name))
				continue;
			free(s->writable[i]);
			s->writable[i--] = s->writable[--n];
		}
		free(name);
	}
	s->writable[n] = NULL;
}

static int run(const struct sandbox_policy *p, struct err *err)
{
	struct supervisor s = { .cgroup = NULL };
	char *own_dir = NULL;
	pid_t tool = 0;
	int chan = -1, status = 0;
	int rc = supervise_prepare(p, &s, err);

	if (!rc && p->scratch)
		own_dir = own_dir_name(p->scratch);
	if (!rc && p->level.uid && !user)
		rc = err_set(err, ERR_DENIED, "uid", "the launcher has given no user");
	if (!rc && p->cgroup)
		rc = cgroup_make(p, &s.cgroup, err);
	find_writable(p, own_dir, &s);
	s.own_dir = own_dir;
	s.become_user = become_user;
	s.user = users_fd < 0 ? (uid_t)user : 0;
	s.group = users_fd < 0 ? (gid_t)group : 0;
	rc = rc ? rc : start(p, own_dir, &s, &tool, &chan, err);
	if (!rc) {
		/* No core of ours, no look into us, and no end of the tool's pipes that it could wait for. */
		prctl(PR_SET_DUMPABLE, 0);
		close_range(STDIN_FILENO, STDOUT_FILENO, 0);
		status = supervise(&s, p, tool, chan);
		report_usage(s.cgroup);
	}
	if (own_dir)
		(void)run_as_user(own_dir_remove, own_dir);
	free(own_dir);
	if (s.cgroup)
		cgroup_remove(s.cgroup);
	free(s.cgroup);
	if (!rc)
		end_like(status);
	return rc;
}

/* Started by bubblewrap: what is left to do in its namespaces.  A session of its own once more, so that a signal to the
 * tool's group does not hit bubblewrap. */
static int sandbox_inside(const char *own_dir)
{
	struct err err = { 0 };
	struct sandbox_policy *policy = NULL;
	struct program prog = { .fd = SANDBOX_INSIDE_PROGRAM_FD };
	int rc = fcntl(SANDBOX_FD, F_SETFD, FD_CLOEXEC) || fcntl(SANDBOX_INSIDE_CHAN_FD, F_SETFD, FD_CLOEXEC) ||
		 setsid() < 0 ? err_set(&err, ERR_IO, "inside", "%s", strerror(errno)) : 0;

	rc = rc ? rc : read_policy(SANDBOX_INSIDE_POLICY_FD, &policy, &err);
	rc = rc ? rc : confine_reopen(policy, &prog, &err);
	rc = rc ? rc : become_tool(policy, *own_dir ? own_dir : NULL, SANDBOX_INSIDE_CHAN_FD, &prog, &err);
	report_failure(&err);
	return EXIT_NOT_STARTED;
}

/* For people and package checks; the server passes no arguments. */
static bool answer(const char *option)
{
	if (!strcmp(option, "--version"))
		served_put_version("toolcrib-run");
	else if (!strcmp(option, "--help"))
		puts("toolcrib-run is started by toolcribd, with its instructions on descriptor 3; see "
		     "toolcrib-run(8)");
	else
		return false;
	return true;
}

/* The launcher's arguments. */
static bool read_user(char **argv)
{
	if (text_u64(argv[2], strlen(argv[2]), &user) != 0 || text_u64(argv[3], strlen(argv[3]), &group) != 0)
		return false;
	if (strcmp(argv[1], "--user") == 0)
		return true;
	users_fd = SANDBOX_USERS_FD;
	return strcmp(argv[1], "--user-inside") == 0 && fcntl(users_fd, F_SETFD, FD_CLOEXEC) == 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && answer(argv[1]))
		return 0;
	if (argc == 3 && !strcmp(argv[1], SANDBOX_INSIDE))
		return sandbox_inside(argv[2]);
	if (argc == 4 && !read_user(argv))
		return EXIT_NOT_STARTED;
	if (fcntl(SANDBOX_FD, F_SETFD, FD_CLOEXEC)) {
		fputs("toolcrib-run: it is started by toolcribd, with its instructions on descriptor 3\n", stderr);
		return EXIT_NOT_STARTED;
	}
	struct err err = { 0 };
	struct sandbox_policy *policy = NULL;
	prctl(PR_SET_NAME, "toolcrib-run");     /* a program that was started by its descriptor is named after that */
	setpgid(0, 0);          /* the server has done it already; started otherwise, it still holds */
	int rc = read_policy(SANDBOX_FD, &policy, &err);
	if (!rc)
		rc = run(policy, &err);
	report_failure(&err);
	free(policy);
	return EXIT_NOT_STARTED;
}
