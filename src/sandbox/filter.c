/* The filter on system calls: the table of all calls, by group, and the few instructions that make a filter of groups
 * and rows (sandbox/filter.h).  Any thread of any program of the package.
 *
 * What is allowed is what is known.  The table began with what systemd's @system-service (systemd.exec(5),
 * `systemd-analyze syscall-filter`, 257) and the default profile of the container engines (moby, profiles/seccomp/
 * default.json, 00f3d189) have in common; what either has more stands under `dangerous` where it reaches other
 * processes, the machine, or around this list: io_uring, keys, System V IPC, handles, openat2. */
#include "config.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sanitized.h"
#include "sandbox/filter.h"

#include "filter_calls.h"

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define THIS_ARCH AUDIT_ARCH_RISCV64
#else
#define THIS_ARCH 0                     /* no filter here: the level says so */
#endif
#define X32_BIT 0x40000000u

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1ul << 5)
#endif

/* --- the table */

static const short core[] = {
	/* memory */
	SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_msync, SYS_mincore, SYS_madvise, SYS_remap_file_pages,
	SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect, SYS_membarrier, SYS_get_mempolicy, SYS_map_shadow_stack, SYS_mseal,
	/* time */
	SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_getitimer,
	SYS_setitimer, SYS_timer_create, SYS_timer_delete, SYS_timer_getoverrun, SYS_timer_gettime, SYS_timer_settime,
	SYS_timerfd_create, SYS_timerfd_gettime, SYS_timerfd_settime, SYS_times,
	/* what is open */
	SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev, SYS_preadv2,
	SYS_pwritev2, SYS_lseek, SYS_close, SYS_close_range, SYS_dup, SYS_dup3, SYS_fcntl, SYS_ioctl, SYS_fstat, SYS_fstatfs,
	SYS_ftruncate, SYS_fallocate, SYS_fadvise64, SYS_readahead, SYS_flock, SYS_fsync, SYS_fdatasync, SYS_sync,
	SYS_syncfs, SYS_sync_file_range, SYS_getdents64, SYS_fgetxattr, SYS_flistxattr, SYS_copy_file_range, SYS_sendfile,
	SYS_splice, SYS_tee, SYS_vmsplice, SYS_pipe2, SYS_io_setup, SYS_io_destroy, SYS_io_submit, SYS_io_cancel,
	SYS_io_getevents, SYS_io_pgetevents,
	SYS_eventfd2, SYS_signalfd4, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_ppoll,
	SYS_pselect6, SYS_socketpair, SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg,
	SYS_shutdown, SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt, SYS_accept, SYS_accept4,
	/* signals that come, and threads as they are */
	SYS_rt_sigaction, SYS_rt_sigpending, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigtimedwait,
	SYS_sigaltstack, SYS_restart_syscall, SYS_futex, SYS_futex_waitv, SYS_futex_wake, SYS_futex_wait, SYS_futex_requeue,
	SYS_set_robust_list, SYS_get_robust_list, SYS_set_tid_address, SYS_rseq, SYS_sched_yield, SYS_exit, SYS_exit_group,
	/* who and where we are */
	SYS_getpid, SYS_gettid, SYS_getppid, SYS_getpgid, SYS_getsid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid,
	SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_capget, SYS_getrusage, SYS_getpriority, SYS_getcpu, SYS_getrandom,
	SYS_getcwd, SYS_umask, SYS_uname, SYS_sysinfo, SYS_prctl, SYS_sched_getaffinity, SYS_sched_getattr,
	SYS_sched_getparam, SYS_sched_getscheduler, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
	SYS_sched_rr_get_interval, SYS_ioprio_get, SYS_personality,
#if defined(SYS_getrlimit)
	SYS_getrlimit,
#endif
#if defined(__x86_64__)
	SYS_time, SYS_alarm, SYS_pause, SYS_dup2, SYS_pipe, SYS_getdents, SYS_poll, SYS_select, SYS_epoll_create,
	SYS_epoll_wait, SYS_eventfd, SYS_signalfd, SYS_getpgrp, SYS_arch_prctl, SYS_set_thread_area, SYS_get_thread_area,
	SYS_uretprobe,
#endif
#if defined(SYS_riscv_flush_icache)
	SYS_riscv_flush_icache,
#endif
#if defined(__riscv)
	SYS_riscv_hwprobe,
#endif
};

static const short threads[] = { SYS_clone, SYS_unshare, SYS_tgkill };

static const short files[] = {
	SYS_openat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_getxattr,
	SYS_lgetxattr, SYS_listxattr, SYS_llistxattr, SYS_chdir, SYS_fchdir, SYS_mkdirat, SYS_mknodat, SYS_unlinkat,
	SYS_linkat, SYS_symlinkat, SYS_renameat2, SYS_truncate,
#if defined(SYS_renameat)
	SYS_renameat,
#endif
#if defined(__x86_64__)
	SYS_open, SYS_creat, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_mkdir, SYS_rmdir, SYS_mknod, SYS_unlink,
	SYS_link, SYS_symlink, SYS_rename,
#endif
};

static const short modes[] = {
	SYS_fchmod, SYS_fchmodat, SYS_fchmodat2, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr,
	SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
#if defined(__x86_64__)
	SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
};

static const short watch[] = {
	SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch,
#if defined(__x86_64__)
	SYS_inotify_init,
#endif
};

static const short net[] = { SYS_socket, SYS_bind, SYS_connect, SYS_listen };

static const short start[] = {
	SYS_clone, SYS_unshare, SYS_tgkill, SYS_execve, SYS_execveat, SYS_wait4, SYS_waitid, SYS_setpgid, SYS_setsid,
	SYS_pidfd_open,
#if defined(__x86_64__)
	SYS_fork, SYS_vfork,
#endif
};

static const short signals[] = { SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo };

static const short sched[] = {
	SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler, SYS_setpriority,
	SYS_ioprio_set, SYS_mbind, SYS_set_mempolicy, SYS_set_mempolicy_home_node, SYS_migrate_pages, SYS_mlock, SYS_mlock2,
	SYS_mlockall, SYS_munlock, SYS_munlockall,
#if defined(SYS_setrlimit)
	SYS_setrlimit,
#endif
};

static const short users[] = {
	SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid,
	SYS_setgroups, SYS_capset,
};

static const short memfd[] = { SYS_memfd_create };

static const short confine[] = {
	SYS_seccomp, SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
};

/* In no group: a filter that wants one of them has a row for it. */
static const short dangerous[] = {
	/* other processes, seen from inside */
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_process_mrelease, SYS_kcmp,
	SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_perf_event_open, SYS_move_pages,
	/* what processes share without a name in the file system; it stays when they are gone */
	SYS_shmget, SYS_shmat, SYS_shmctl, SYS_shmdt, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl, SYS_msgget,
	SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive,
	SYS_mq_notify, SYS_mq_getsetattr, SYS_memfd_secret,
	/* other namespaces, other roots */
	SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
	SYS_move_mount, SYS_open_tree, SYS_open_tree_attr, SYS_mount_setattr,
	/* the machine */
	SYS_swapon, SYS_swapoff, SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_acct,
	SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex, SYS_sethostname, SYS_setdomainname, SYS_syslog,
	SYS_quotactl, SYS_quotactl_fd, SYS_vhangup,
#if defined(SYS_kexec_file_load)
	SYS_kexec_file_load,
#endif
#if defined(__x86_64__)
	SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib,
#endif
	/* files without their names, and news of them */
	SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_fanotify_init, SYS_fanotify_mark, SYS_file_setattr,
	/* large parts of the kernel that nobody needs, and what would go around this list */
	SYS_bpf, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_keyctl, SYS_add_key,
	SYS_request_key, SYS_lookup_dcookie,
};

#define LIST(group, name) { group, name, NELEMS(name) }
static const struct { unsigned group; const short *calls; size_t n; } table[] = {
	LIST(0, dangerous), LIST(FILTER_CORE, core), LIST(FILTER_THREADS, threads), LIST(FILTER_FILES, files),
	LIST(FILTER_MODES, modes), LIST(FILTER_WATCH, watch), LIST(FILTER_NET, net), LIST(FILTER_START, start),
	LIST(FILTER_SIGNALS, signals), LIST(FILTER_SCHED, sched), LIST(FILTER_USERS, users), LIST(FILTER_MEMFD, memfd),
	LIST(FILTER_CONFINE, confine),
};

/* Behind the rows of every filter: what is started is in no other namespaces, and FILTER_THREADS is threads alone. */
#define NEW_NAMESPACE 0x7e020000u       /* CLONE_NEW… */
#define NEW_TIME 0x80u
#define NO_START 1u
static const struct filter_row for_all[] = {
	{ SYS_clone, FILTER_REFUSE, 0, { 0, FILTER_HAS, FILTER_ALL, NEW_NAMESPACE }, { 0 } },
	{ SYS_clone, FILTER_REFUSE, NO_START, { 0, FILTER_IS_NOT, CLONE_THREAD, CLONE_THREAD }, { 0 } },
	{ SYS_unshare, FILTER_REFUSE, 0, { 0, FILTER_HAS, FILTER_ALL, NEW_NAMESPACE | NEW_TIME }, { 0 } },
};

static unsigned when_for_all(const struct filter *f)
{
	return f->groups & FILTER_START ? 0 : NO_START;
}

/* --- the instructions */

#define CALLS_MAX 512                   /* numbers from here on are newer than the table */

/* From start on, up to the next leaf, all calls have the same result, or the leaf is one call with rows of its own. */
struct leaf { unsigned start, result; bool rows; };

struct code {
	const struct filter *f;
	struct sock_filter at[BPF_MAXINSNS]; unsigned n;
	bool full, asks;
	unsigned result[CALLS_MAX]; bool rows[CALLS_MAX];
	struct leaf leaves[CALLS_MAX + 1]; size_t nleaves;
};

static void emit(struct code *c, unsigned op, unsigned k, size_t yes, size_t no)
{
	c->full = c->full || c->n == BPF_MAXINSNS || yes > UINT8_MAX || no > UINT8_MAX;
	if (!c->full)
		c->at[c->n++] = (struct sock_filter){ (unsigned short)op, (unsigned char)yes, (unsigned char)no, k };
}

static void load(struct code *c, size_t offset)
{
	emit(c, BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

static void give(struct code *c, unsigned result)
{
	emit(c, BPF_RET | BPF_K, result, 0, 0);
}

/* Where the condition does not hold, jump over what is left of the row. */
static void emit_cond(struct code *c, const struct filter_cond *cond, size_t left)
{
	load(c, offsetof(struct seccomp_data, args) + cond->arg * sizeof(uint64_t) +
		(__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(uint32_t) : 0));
	if (cond->mask != FILTER_ALL)
		emit(c, BPF_ALU | BPF_AND | BPF_K, cond->mask, 0, 0);
	if (cond->op == FILTER_HAS)
		emit(c, BPF_JMP | BPF_JSET | BPF_K, cond->value, 0, left);
	else if (cond->op == FILTER_IS)
		emit(c, BPF_JMP | BPF_JEQ | BPF_K, cond->value, 0, left);
	else
		emit(c, BPF_JMP | BPF_JEQ | BPF_K, cond->value, left, 0);
}

static size_t cond_size(const struct filter_cond *cond)
{
	return cond->op == FILTER_NONE ? 0 : cond->mask != FILTER_ALL ? 3 : 2;
}

static unsigned result_of(enum filter_action action)
{
	switch (action) {
	case FILTER_REFUSE:
		return SECCOMP_RET_ERRNO | EPERM;
	case FILTER_ABSENT:
		return SECCOMP_RET_ERRNO | ENOSYS;
	case FILTER_UNSUPPORTED:
		return SECCOMP_RET_ERRNO | EOPNOTSUPP;
	case FILTER_ASK:
		return SECCOMP_RET_USER_NOTIF;
	case FILTER_ALLOW:
		break;
	}
	return SECCOMP_RET_ALLOW;
}

static bool counts(const struct filter_row *row, unsigned when)
{
	return row->nr >= 0 && row->nr < CALLS_MAX && (row->when == 0 || (row->when & when));
}

/* True when one has no condition: it is the last of its call. */
static bool emit_rows(struct code *c, unsigned nr, const struct filter_row *rows, size_t n, unsigned when)
{
	for (size_t i = 0; i < n; i++) {
		const struct filter_row *row = &rows[i];
		if (!counts(row, when) || (unsigned)row->nr != nr)
			continue;
		c->asks = c->asks || row->action == FILTER_ASK;
		if (row->a.op != FILTER_NONE)
			emit_cond(c, &row->a, cond_size(&row->b) + 1);
		if (row->b.op != FILTER_NONE)
			emit_cond(c, &row->b, 1);
		give(c, result_of(row->action));
		if (row->a.op == FILTER_NONE && row->b.op == FILTER_NONE)
			return true;
	}
	return false;
}

static void emit_leaf(struct code *c, const struct leaf *leaf)
{
	const struct filter *f = c->f;

	if (leaf->rows && (emit_rows(c, leaf->start, f->rows, f->nrows, f->when) ||
			   emit_rows(c, leaf->start, for_all, NELEMS(for_all), when_for_all(f))))
		return;
	give(c, leaf->result);
}

/* The call's number is loaded: half of the leaves at a time.  A jump on a condition reaches only so far. */
static void emit_tree(struct code *c, size_t from, size_t to)
{
	size_t mid = from + (to - from) / 2;
	unsigned jump;

	if (to - from == 1) {
		emit_leaf(c, &c->leaves[from]);
		return;
	}
	emit(c, BPF_JMP | BPF_JGE | BPF_K, c->leaves[mid].start, 0, 1);
	jump = c->n;
	emit(c, BPF_JMP | BPF_JA, 0, 0, 0);
	emit_tree(c, from, mid);
	if (!c->full)
		c->at[jump].k = c->n - jump - 1;
	emit_tree(c, mid, to);
}

static void note_rows(struct code *c, const struct filter_row *rows, size_t n, unsigned when)
{
	for (size_t i = 0; i < n; i++) {
		if (counts(&rows[i], when))
			c->rows[rows[i].nr] = true;
	}
}

/* What the table and the rows say of each number. */
static void look_up(struct code *c)
{
	const struct filter *f = c->f;

	for (size_t i = 0; i < CALLS_MAX; i++)
		c->result[i] = result_of(FILTER_ABSENT);
	/* What is in two groups is allowed by either. */
	for (int allowed = 0; allowed < 2; allowed++) {
		for (size_t i = 0; i < NELEMS(table); i++) {
			if (((table[i].group & f->groups) != 0) != allowed)
				continue;
			for (size_t j = 0; j < table[i].n; j++)
				c->result[table[i].calls[j]] = result_of(allowed ? FILTER_ALLOW : FILTER_REFUSE);
		}
	}
	c->result[SYS_clone3] = result_of(FILTER_ABSENT);
	note_rows(c, f->rows, f->nrows, f->when);
	note_rows(c, for_all, NELEMS(for_all), when_for_all(f));
}

static void find_leaves(struct code *c)
{
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		const struct leaf *last = c->nleaves ? &c->leaves[c->nleaves - 1] : NULL;
		if (!last || c->rows[i] || last->rows || last->result != c->result[i])
			c->leaves[c->nleaves++] = (struct leaf){ i, c->result[i], c->rows[i] };
	}
	c->leaves[c->nleaves++] = (struct leaf){ CALLS_MAX, result_of(FILTER_ABSENT), false };
}

static void build(struct code *c)
{
	look_up(c);
	find_leaves(c);
	load(c, offsetof(struct seccomp_data, arch));
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0);
	give(c, SECCOMP_RET_KILL_PROCESS);
	load(c, offsetof(struct seccomp_data, nr));
	/* No call at all: one that a tracer has taken back, which the kernel does not make. */
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, UINT32_MAX, 0, 1);
	give(c, SECCOMP_RET_ALLOW);
#if defined(__x86_64__)
	emit(c, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	give(c, SECCOMP_RET_KILL_PROCESS);
#endif
	emit_tree(c, 0, c->nleaves);
}

bool filter_available(void)
{
	unsigned ask = SECCOMP_RET_USER_NOTIF, kill = SECCOMP_RET_KILL_PROCESS;

	return THIS_ARCH != 0 && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &ask) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill) == 0;
}

static int set_filter(const struct code *c, int *ret_listener, struct err *err)
{
	const struct sock_fprog prog = { (unsigned short)c->n, (struct sock_filter *)(uintptr_t)c->at };
	unsigned long flags = c->asks ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
	long fd = -1;

	flags |= c->f->all_threads ? SECCOMP_FILTER_FLAG_TSYNC : 0;
	/* Wait killable: a signal that comes again and again must not restart a call for ever. */
	if (c->asks)
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
	if (fd < 0)
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	if (fd > 0 && !c->asks)
		return err_set(err, ERR_IO, "seccomp", "thread %ld has a filter of its own", fd);
	if (fd < 0)
		return err_set(err, ERR_IO, "seccomp", "%s", strerror(errno));
	if (c->asks)
		*ret_listener = (int)fd;
	return 0;
}

int filter_put_on(const struct filter *f, int *ret_listener, struct err *err)
{
	struct code c = { .f = f };

	if (THIS_ARCH == 0)
		return err_set(err, ERR_IO, "seccomp", "there is no filter for this program's architecture");
	build(&c);
	if (c.full)
		return err_set(err, ERR_LIMIT, "seccomp", "the filter has more than %d instructions", BPF_MAXINSNS);
	if (c.asks && (!ret_listener || f->all_threads))
		return err_set(err, ERR_INVALID, "seccomp", "a row asks, and nobody is there to answer");
	return set_filter(&c, ret_listener, err);
}

int filter_reader(unsigned groups, struct err *err)
{
	static const struct filter_row rows[] = {
		{ SYS_mmap, FILTER_REFUSE, 0, { 2, FILTER_HAS, FILTER_ALL, PROT_EXEC }, { 0 } },
		{ SYS_mprotect, FILTER_REFUSE, 0, { 2, FILTER_HAS, FILTER_ALL, PROT_EXEC }, { 0 } },
	};
	const struct filter list = { .groups = FILTER_CORE | FILTER_FILES | groups, .rows = rows, .nrows = NELEMS(rows) };

	return SANITIZED || !filter_available() ? 0 : filter_put_on(&list, NULL, err);
}
