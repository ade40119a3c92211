/* What the last words of a failed run say of its sandbox: a hint for the author of the tool, in `tool test` and the
 * record of the call (SEC S-514).  On the loop.  The kernel tells nobody what it has refused, so all of it is a guess
 * from those words, and what the kernel says of names that are in them. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "sandbox/policy.h"

#include "exec_int.h"

#define EXPLAIN_PATHS_MAX 2
#define EXPLAIN_LINE_MAX 512            /* bytes of a line that are looked at */

static bool says_any(const char *tail, const char *const *signs)
{
	for (; *signs; signs++)
		if (strcasestr(tail, *signs))
			return true;
	return false;
}

/* One more fact. */
static void explain_more(struct str *out)
{
	if (out->len > 0)
		str_puts(out, "; ");
}

/* One more fact that the sandbox is the cause of, if it is one. */
static void explain_begin(struct str *out)
{
	static const char maybe[] = "the sandbox may be why: ";

	explain_more(out);
	if (!strstr(str_text(out), maybe))
		str_puts(out, maybe);
}

/* --- paths */

/* The next absolute path in *text; false: there is no more.  *ret_at: where it stands. */
static bool next_path(const char **text, char *ret, size_t size, const char **ret_at)
{
	static const char ends[] = " \t\r\n\"'`:,;()[]{}<>|=";
	const char *p = *text, *begin = p;

	for (; *p; p++) {
		size_t n = strcspn(p, ends);

		if (*p != '/' || p[1] == '/' || (p > begin && !strchr(ends, p[-1])) || n < 2 || n >= size)
			continue;
		memcpy(ret, p, n);
		ret[n] = '\0';
		while (n > 1 && strchr("./", ret[n - 1]))       /* the end of a sentence */
			ret[--n] = '\0';
		*ret_at = p;
		*text = p + strcspn(p, ends);
		return true;
	}
	return false;
}

/* Does the line in which this stands say one of these? */
static bool line_says(const char *tail, const char *at, const char *const *signs)
{
	char line[EXPLAIN_LINE_MAX];

	while (at > tail && at[-1] != '\n')
		at--;
	(void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
	return says_any(line, signs);
}

/* Is there no such file?  Then ret_dir has the directory in which it, or the first directory on its way, would have to
 * be made.  Nothing is opened, and nothing mounted. */
static bool is_missing(const char *path, char *ret_dir, size_t size)
{
	struct statx st;
	bool missing = false;

	(void)snprintf(ret_dir, size, "%s", path);
	while (statx(AT_FDCWD, ret_dir, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_TYPE, &st) != 0) {
		if (errno != ENOENT)
			return false;
		missing = true;
		*(strrchr(ret_dir, '/') + (strrchr(ret_dir, '/') == ret_dir)) = '\0';
	}
	return missing && S_ISDIR(st.stx_mode);
}

/* One that is not there: it was looked for, or it was to be made. */
static void explain_missing(const struct sandbox_policy *p, const char *path, const char *dir, bool refused,
			    struct str *out)
{
	bool closed, writes = sandbox_policy_writes(p, dir, &closed);

	if (writes || (!refused && !p->level.ns)) {     /* in namespaces, what is not listed is not there at all */
		explain_more(out);
		str_printf(out, "it names %s, which is not there", path);
		return;
	}
	explain_begin(out);
	str_printf(out, closed ? "it names %s, which is not there, and no tool may make files in %s"
		   : "it names %s, which is not there (sandbox: {write: [%s]} would let it be made)", path, dir);
}

/* Paths that it names and that lie outside of its lists. */
static size_t explain_named(const struct sandbox_policy *p, const char *tail, struct str *out)
{
	static const char *const never[] = { "/proc", "/dev", "/sys", NULL };
	static const char *const denied[] = { "permission denied", "eacces", "read-only", "erofs", NULL };
	char path[BACKEND_HINT_MAX / 3], dir[sizeof(path)];
	const char *rest = tail, *at;
	size_t n = 0;

	while (n < EXPLAIN_PATHS_MAX && next_path(&rest, path, sizeof(path), &at)) {
		bool hidden, skip = false;

		for (const char *const *no = never; *no; no++) {
			size_t len = strlen(*no);

			skip = skip || (strncmp(path, *no, len) == 0 && (path[len] == '/' || path[len] == '\0'));
		}
		if (skip || strstr(str_text(out), path))
			continue;
		bool reads = sandbox_policy_reads(p, path, &hidden);
		if (!hidden && is_missing(path, dir, sizeof(dir))) {
			explain_missing(p, path, dir, line_says(tail, at, denied), out);
		} else if (!reads) {
			explain_begin(out);
			str_printf(out, hidden ? "it names %s, which no tool may read"
				   : "it names %s, which it may not read (sandbox: {read: [%s]} or write would allow it)",
				   path, path);
		} else {
			continue;
		}
		n++;
	}
	return n;
}

/* What it looks for beside itself: modules, libraries, data. */
static void explain_beside(const struct sandbox_policy *p, const char *file, struct str *out)
{
	char dir[BACKEND_HINT_MAX / 3];
	const char *slash = strrchr(file, '/');
	bool hidden;
	int n = snprintf(dir, sizeof(dir), "%.*s", (int)(slash - file), file);

	if (n <= 0 || (size_t)n >= sizeof(dir))
		return;
	if (n > 4 && strcmp(dir + n - 4, "/bin") == 0)
		dir[n - 4] = '\0';
	if (sandbox_policy_reads(p, dir, &hidden) || hidden || strstr(str_text(out), dir))
		return;
	explain_begin(out);
	str_printf(out, "it may read %s but nothing beside it (sandbox: {read: [%s]} would allow that)", file, dir);
}

/* --- system calls that the filter refuses (sandbox/tool_filter.c) */

static const char *const eperm[] = { "not permitted", "eperm", "superuser", NULL };
static const char looks[] = "no tool may look into other processes";
static const char signals[] = "a tool may signal what it has started, and nothing else";
static const char mounts[] = "no tool may mount, change its root or make namespaces";
static const char owners[] = "no tool may change owners of files";
static const char modes[] = "a tool changes modes and times only of its own files, in its directory and write list";
static const char bounds[] = "a tool changes limits and priorities only of the process that asks";
static const char watches[] = "no tool may watch files";
static const char shares[] = "no tool may use System V IPC or POSIX queues";
static const char machine[] = "no tool may make that call";

/* Calls, and programs and words of their messages that mean them. */
static const struct { const char *word, *say; } calls[] = {
	{ "ptrace", looks }, { "PTRACE_TRACEME", looks }, { "strace", looks }, { "process_vm_readv", looks },
	{ "process_vm_writev", looks }, { "pidfd_getfd", looks }, { "perf_event_open", looks }, { "kcmp", looks },
	{ "kill", signals }, { "killpg", signals }, { "pkill", signals }, { "killall", signals }, { "tkill", signals },
	{ "tgkill", signals }, { "sigqueue", signals }, { "pidfd_send_signal", signals },
	{ "mount", mounts }, { "umount", mounts }, { "umount2", mounts }, { "pivot_root", mounts }, { "chroot", mounts },
	{ "unshare", mounts }, { "setns", mounts }, { "nsenter", mounts }, { "bwrap", mounts },
	{ "chown", owners }, { "fchown", owners }, { "lchown", owners }, { "fchownat", owners }, { "chgrp", owners },
	{ "ownership", owners },
	{ "chmod", modes }, { "fchmod", modes }, { "fchmodat", modes }, { "utime", modes }, { "utimes", modes },
	{ "utimensat", modes }, { "futimens", modes }, { "changing permissions", modes }, { "setting times", modes },
	{ "prlimit", bounds }, { "setpriority", bounds }, { "renice", bounds }, { "ionice", bounds }, { "taskset", bounds },
	{ "sched_setaffinity", bounds }, { "sched_setscheduler", bounds },
	{ "inotify_init", watches }, { "inotify_init1", watches }, { "inotify_add_watch", watches },
	{ "inotify", watches }, { "fanotify_init", watches },
	{ "shmget", shares }, { "semget", shares }, { "msgget", shares }, { "mq_open", shares }, { "sem_open", shares },
	{ "bpf", machine }, { "keyctl", machine }, { "add_key", machine }, { "io_uring_setup", machine },
	{ "userfaultfd", machine }, { "sethostname", machine }, { "settimeofday", machine }, { "clock_settime", machine },
	{ "adjtimex", machine }, { "reboot", machine }, { "swapon", machine }, { "init_module", machine },
	{ "finit_module", machine }, { "kexec_load", machine }, { "quotactl", machine }, { "acct", machine },
	{ "personality", machine }, { "open_by_handle_at", machine }, { "iopl", machine }, { "syslog", machine },
};

static bool is_word(const char *text, const char *at, size_t n)
{
	const char before = at > text ? at[-1] : ' ', behind = at[n];

	return !isalnum((unsigned char)before) && !strchr("_-/", before) && !isalnum((unsigned char)behind) &&
	       (behind == '\0' || !strchr("_-/", behind));
}

/* Where it stands alone, as in os.kill(1, 9), and not as a part of a path or of another word. */
static bool names_word(const char *tail, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = tail; (at = strstr(at, word)); at += n)
		if (is_word(tail, at, n))
			return true;
	return false;
}

/* True when it has named a call. */
static bool explain_call(const char *tail, struct str *out)
{
	/* mount(8) has words of its own for EPERM. */
	bool mount = strstr(tail, "mount: ") && strcasestr(tail, "permission denied");

	if (!mount && !says_any(tail, eperm))
		return false;
	for (size_t i = 0; i < NELEMS(calls); i++) {
		if (!names_word(tail, calls[i].word))
			continue;
		explain_begin(out);
		str_printf(out, "it names %s, and %s, see toolcrib-run(8)", calls[i].word, calls[i].say);
		return true;
	}
	return false;
}

void exec_explain(const struct sandbox_policy *p, const char *tail, int status, struct str *out)
{
	static const char *const files[] = { "no such file", "not found", "permission denied", "cannot open", "can't open",
		"cannot find", "no module named", "enoent", "eacces", "read-only", "erofs", "nonexistent", NULL };
	static const char *const net[] = { "name resolution", "resolve", "network is unreachable", "getaddrinfo", "socket",
		NULL };
	const bool closed = p->level.seccomp && p->net == SANDBOX_NET_NONE;
	bool call;

	if (p->level.seccomp && status == -SIGSYS) {
		explain_begin(out);
		str_puts(out, "a system call by another architecture's numbers ends a tool, see toolcrib-run(8)");
	}
	call = p->level.seccomp && explain_call(tail, out);
	if (!call && p->level.landlock && says_any(tail, files) && explain_named(p, tail, out) == 0) {
		explain_beside(p, p->program, out);
		for (const char *const *file = p->files; file && *file; file++)
			explain_beside(p, *file, out);
	}
	if (closed && says_any(tail, net)) {
		explain_begin(out);
		str_puts(out, "it has no network (sandbox: {network: true} would give it one)");
	}
	if (out->len == 0 && p->level.seccomp && says_any(tail, eperm)) {
		explain_begin(out);
		str_puts(out, "system calls that no tool may make fail so, see toolcrib-run(8)");
		if (closed)
			str_puts(out, ", and as it has no network, so do sockets (sandbox: {network: true} would give it one)");
	}
}
