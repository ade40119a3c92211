/* The filter on system calls: a list of what no tool needs and what would reach other processes (SEC S-508, S-517); the
 * launcher puts it on last.  The list is a table, and the filter is made from it by the few instructions below: each
 * row compares the number, then perhaps arguments, and returns.  The first row that matches decides; what none matches
 * is allowed.  Of arguments the lower 32 bits are compared, because that is what the kernel looks at: they are ints and
 * flags. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/policy.h"

#include "sandbox_int.h"

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

/* Newer than the headers of older systems; the same numbers everywhere. */
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#endif
#ifndef SYS_removexattrat
#define SYS_removexattrat 466
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1ul << 5)
#endif

enum action { REFUSE, PASS, NOSYS, ASK };       /* EPERM, allowed, ENOSYS, the supervisor decides */
enum op { NONE, IS, IS_NOT, HAS };              /* (argument & mask) ==, !=, & value */

enum when {                                     /* bits; a row counts when one of its bits holds */
	ALWAYS = 1 << 0,
	CLOSED = 1 << 1,                        /* SANDBOX_NET_NONE */
	PORTS = 1 << 2,                         /* SANDBOX_NET_PORTS without UDP */
	PORTS_UDP = 1 << 3,                     /* and with it */
	OPEN = 1 << 4,                          /* SANDBOX_NET_ANY */
	READER = 1 << 5,                        /* no list of what may be written */
	ABI_2 = 1 << 6,                         /* Landlock does not see truncate() */
	ABI_5 = 1 << 7,                         /* nor signals */
};
#define ANY_PORTS (PORTS | PORTS_UDP)

struct cond { unsigned char arg, op; unsigned mask, value; };
struct row { int nr; enum action action; unsigned when; struct cond a, b; };

#define ALL 0xffffffffu
#define TYPE 0xfu                               /* of a socket: without its flags */
#define NEW_NAMESPACE 0x7e020000u               /* CLONE_NEW… */
#define NEW_TIME 0x80u
#define SET_ID 06000u
#define FAST_OPEN 0x20000000u                   /* a connect() that Landlock may not see */
#define NO(call) { SYS_##call, REFUSE, ALWAYS, { 0 }, { 0 } }
#define NO_IN(call, when) { SYS_##call, REFUSE, when, { 0 }, { 0 } }
#define NO_IF(call, when, arg, op, mask, value) { SYS_##call, REFUSE, when, { arg, op, mask, value }, { 0 } }
#define NO_OTHER(call, arg) { SYS_##call, REFUSE, ALWAYS, { arg, IS_NOT, ALL, 0 }, { 0 } } /* 0 = the caller */

static const struct row rows[] = {
	/* Other processes, seen from inside. */
	NO(ptrace), NO(process_vm_readv), NO(process_vm_writev), NO(process_madvise), NO(kcmp), NO(pidfd_getfd),
	NO(pidfd_send_signal), NO(perf_event_open), NO(move_pages), NO_OTHER(migrate_pages, 0),
	NO_OTHER(prlimit64, 0), NO_OTHER(sched_setscheduler, 0), NO_OTHER(sched_setparam, 0),
	NO_OTHER(sched_setattr, 0), NO_OTHER(sched_setaffinity, 0), NO_OTHER(setpriority, 1),
	NO_IF(setpriority, ALWAYS, 0, IS, ALL, 2 /* a user */), NO_OTHER(ioprio_set, 1),
	NO_IF(ioprio_set, ALWAYS, 0, IS, ALL, 3 /* a user */),
	{ SYS_kill, ASK, ABI_5, { 0 }, { 0 } }, { SYS_tkill, ASK, ABI_5, { 0 }, { 0 } },
	{ SYS_tgkill, ASK, ABI_5, { 0 }, { 0 } }, { SYS_rt_sigqueueinfo, ASK, ABI_5, { 0 }, { 0 } },
	{ SYS_rt_tgsigqueueinfo, ASK, ABI_5, { 0 }, { 0 } },
	NO_IF(fcntl, ABI_5, 1, IS, ALL, 8 /* F_SETOWN */), NO_IF(fcntl, ABI_5, 1, IS, ALL, 15 /* F_SETOWN_EX */),
	NO_IF(ioctl, ABI_5, 1, IS, ALL, 0x8901 /* FIOSETOWN */),
	NO_IF(ioctl, ABI_5, 1, IS, ALL, 0x8902 /* SIOCSPGRP */),
	/* New processes are in no other namespaces.  clone3 keeps its flags in memory, where a filter cannot look;
	 * libraries take clone instead. */
	{ SYS_clone3, NOSYS, ALWAYS, { 0 }, { 0 } },
	NO_IF(clone, ALWAYS, 0, HAS, ALL, NEW_NAMESPACE),
	NO_IF(unshare, ALWAYS, 0, HAS, ALL, NEW_NAMESPACE | NEW_TIME), NO(setns),
	/* The machine. */
	NO(mount), NO(umount2), NO(pivot_root), NO(chroot), NO(fsopen), NO(fsconfig), NO(fsmount), NO(fspick),
	NO(move_mount), NO(open_tree), NO(open_tree_attr), NO(mount_setattr), NO(swapon), NO(swapoff), NO(reboot),
	NO(kexec_load), NO(init_module), NO(finit_module), NO(delete_module), NO(acct), NO(settimeofday),
	NO(clock_settime), NO(clock_adjtime), NO(adjtimex), NO(sethostname), NO(setdomainname), NO(syslog),
	NO(quotactl), NO(quotactl_fd), NO(vhangup), NO(open_by_handle_at), NO(fanotify_init),
#if defined(SYS_kexec_file_load)
	NO(kexec_file_load),
#endif
#if defined(__x86_64__)
	NO(iopl), NO(ioperm), NO(modify_ldt), NO(uselib),
#endif
	/* Large parts of the kernel that no tool needs, and what would go around this list. */
	NO(bpf), NO(userfaultfd), NO(io_uring_setup), NO(io_uring_enter), NO(io_uring_register), NO(keyctl),
	NO(add_key), NO(request_key),
	/* Mode 3 opens for neither reading nor writing, so Landlock has nothing to ask about, and still allows ioctl() and
	 * truncation.  Before ABI 3 reading alone is asked about where O_TRUNC comes with it.  openat2 keeps its flags in
	 * memory (HARDENING F-1). */
#if defined(__x86_64__)
	NO_IF(open, ALWAYS, 1, IS, O_ACCMODE, O_ACCMODE), NO_IF(open, ABI_2, 1, IS, O_ACCMODE | O_TRUNC, O_TRUNC),
#endif
	NO_IF(openat, ALWAYS, 2, IS, O_ACCMODE, O_ACCMODE), NO_IF(openat, ABI_2, 2, IS, O_ACCMODE | O_TRUNC, O_TRUNC),
	{ SYS_openat2, NOSYS, ALWAYS, { 0 }, { 0 } },
	{ SYS_personality, REFUSE, ALWAYS, { 0, IS_NOT, ALL, 0 }, { 0, IS_NOT, ALL, ALL /* asks */ } },
	/* Words into somebody's terminal. */
	NO_IF(ioctl, ALWAYS, 1, IS, ALL, 0x5412 /* TIOCSTI */),
	NO_IF(ioctl, ALWAYS, 1, IS, ALL, 0x541c /* TIOCLINUX */),
	/* Landlock does not look at modes and attributes: they would open the server's own files to others. */
#if defined(__x86_64__)
	NO_IF(chmod, ALWAYS, 1, HAS, ALL, SET_ID), NO_IN(chmod, READER),
#endif
	NO_IF(fchmod, ALWAYS, 1, HAS, ALL, SET_ID), NO_IN(fchmod, READER), NO_IF(fchmodat, ALWAYS, 2, HAS, ALL, SET_ID),
	NO_IN(fchmodat, READER), NO_IF(fchmodat2, ALWAYS, 2, HAS, ALL, SET_ID), NO_IN(fchmodat2, READER),
	NO_IN(setxattr, READER), NO_IN(lsetxattr, READER), NO_IN(fsetxattr, READER), NO_IN(setxattrat, READER),
	NO_IN(removexattr, READER), NO_IN(lremovexattr, READER), NO_IN(fremovexattr, READER),
	NO_IN(removexattrat, READER), NO_IN(file_setattr, READER), NO_IN(truncate, ABI_2),
	/* Sockets.  A pair of datagram sockets could be sent on to any other. */
	NO_IF(socketpair, ALWAYS, 0, IS_NOT, ALL, 1 /* AF_UNIX */),
	{ SYS_socketpair, REFUSE, ALWAYS, { 1, IS_NOT, TYPE, 1 /* stream */ }, { 1, IS_NOT, TYPE, 5 /* packets */ } },
	NO_IN(socket, CLOSED),
	NO_IF(socket, PORTS, 1, IS_NOT, TYPE, 1 /* stream */),
	{ SYS_socket, REFUSE, PORTS_UDP, { 1, IS_NOT, TYPE, 1 }, { 1, IS_NOT, TYPE, 2 /* datagram */ } },
	NO_IF(socket, ANY_PORTS, 2, HAS, ALL, ~31u),            /* MPTCP and its like: not what Landlock calls TCP */
	NO_IF(sendto, ANY_PORTS, 3, HAS, ALL, FAST_OPEN), NO_IF(sendmsg, ANY_PORTS, 2, HAS, ALL, FAST_OPEN),
	NO_IF(sendmmsg, ANY_PORTS, 3, HAS, ALL, FAST_OPEN),
	{ SYS_socket, PASS, ANY_PORTS | OPEN, { 0, IS, ALL, 2 /* AF_INET */ }, { 0 } },
	{ SYS_socket, PASS, ANY_PORTS | OPEN, { 0, IS, ALL, 10 /* AF_INET6 */ }, { 0 } },
	{ SYS_socket, PASS, OPEN, { 0, IS, ALL, 16 /* AF_NETLINK */ },
	  { 2, IS, ALL, 0 /* which addresses are there? */ } },
	NO_IN(socket, ANY_PORTS | OPEN),
};

#define CODE_MAX (8 + NELEMS(rows) * 9)

struct code { struct sock_filter at[CODE_MAX]; unsigned short n; };

static void emit(struct code *c, unsigned short op, unsigned k, unsigned char yes, unsigned char no)
{
	c->at[c->n++] = (struct sock_filter){ op, yes, no, k };
}

static void load(struct code *c, size_t offset)
{
	emit(c, BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

/* Where the condition does not hold, jump over what is left of the row. */
static void emit_cond(struct code *c, const struct cond *cond, unsigned char left)
{
	load(c, offsetof(struct seccomp_data, args) + cond->arg * sizeof(uint64_t) +
		(__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(uint32_t) : 0));
	if (cond->mask != ALL)
		emit(c, BPF_ALU | BPF_AND | BPF_K, cond->mask, 0, 0);
	if (cond->op == HAS)
		emit(c, BPF_JMP | BPF_JSET | BPF_K, cond->value, 0, left);
	else if (cond->op == IS)
		emit(c, BPF_JMP | BPF_JEQ | BPF_K, cond->value, 0, left);
	else
		emit(c, BPF_JMP | BPF_JEQ | BPF_K, cond->value, left, 0);
}

static unsigned char cond_size(const struct cond *cond)
{
	return cond->op == NONE ? 0 : cond->mask != ALL ? 3 : 2;
}

static unsigned result_of(enum action action)
{
	switch (action) {
	case REFUSE:
		return SECCOMP_RET_ERRNO | EPERM;
	case NOSYS:
		return SECCOMP_RET_ERRNO | ENOSYS;
	case ASK:
		return SECCOMP_RET_USER_NOTIF;
	case PASS:
		break;
	}
	return SECCOMP_RET_ALLOW;
}

/* The number is loaded before and after. */
static void emit_row(struct code *c, const struct row *row)
{
	unsigned char a = cond_size(&row->a), b = cond_size(&row->b), again = a + b ? 1 : 0;

	emit(c, BPF_JMP | BPF_JEQ | BPF_K, (unsigned)row->nr, 0, (unsigned char)(a + b + 1 + again));
	if (a)
		emit_cond(c, &row->a, (unsigned char)(b + 1));
	if (b)
		emit_cond(c, &row->b, 1);
	emit(c, BPF_RET | BPF_K, result_of(row->action), 0, 0);
	if (again)
		load(c, offsetof(struct seccomp_data, nr));
}

static unsigned conditions(const struct sandbox_policy *p)
{
	unsigned when = ALWAYS;

	when |= p->net == SANDBOX_NET_NONE ? CLOSED : p->net == SANDBOX_NET_ANY ? OPEN : p->udp ? PORTS_UDP : PORTS;
	when |= p->write[0] ? 0 : READER;
	when |= p->level.landlock < 3 ? ABI_2 : 0;
	return when | (p->level.landlock < 6 && !p->level.ns ? ABI_5 : 0);      /* or nobody else is in its namespace */
}

/* True when some row asks. */
static bool build(const struct sandbox_policy *p, struct code *c)
{
	unsigned when = conditions(p);
	bool asks = false;

	load(c, offsetof(struct seccomp_data, arch));
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0);
	emit(c, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
	load(c, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
	emit(c, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	emit(c, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
#endif
	for (size_t i = 0; i < NELEMS(rows); i++) {
		if (!(rows[i].when & when))
			continue;
		emit_row(c, &rows[i]);
		asks = asks || rows[i].action == ASK;
	}
	emit(c, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	return asks;
}

bool filter_available(void)
{
	unsigned ask = SECCOMP_RET_USER_NOTIF, kill = SECCOMP_RET_KILL_PROCESS;

	return THIS_ARCH != 0 && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &ask) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill) == 0;
}

int filter_confine(const struct sandbox_policy *p, int *ret_listener, struct err *err)
{
	struct code code = { .n = 0 };
	long fd = 0;

	if (!p->level.seccomp)
		return 0;
	if (!filter_available())
		return err_set(err, ERR_IO, "seccomp", "the kernel offers no filter for this program's architecture");
	unsigned long flags = build(p, &code) ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
	const struct sock_fprog prog = { code.n, code.at };
	/* Wait killable: a signal that comes again and again must not restart a call for ever. */
	fd = flags ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
			     &prog)
		   : -1;
	if (fd < 0)
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	if (fd < 0)
		return err_set(err, ERR_IO, "seccomp", "%s", strerror(errno));
	if (flags)
		*ret_listener = (int)fd;
	return 0;
}
