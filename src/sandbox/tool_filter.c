/* The filter of a tool: rows for the calls whose arguments decide, beside the groups of filter.c (SEC S-508, S-517).
 * The launcher puts it on last.  What a tool has is what programs need for themselves and for what they start;
 * whatever reaches others, or goes around Landlock, is refused or asked about. */
#include "config.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/filter.h"
#include "sandbox/policy.h"

#include "filter_calls.h"
#include "sandbox_int.h"

#define GROUPS (FILTER_CORE | FILTER_THREADS | FILTER_FILES | FILTER_MODES | FILTER_WATCH | FILTER_NET | \
		FILTER_START | FILTER_SIGNALS | FILTER_SCHED | FILTER_USERS | FILTER_MEMFD | FILTER_CONFINE)

enum when {                                     /* bits; a row with one counts when it holds */
	CLOSED = 1 << 0,                        /* SANDBOX_NET_NONE */
	PORTS = 1 << 1,                         /* SANDBOX_NET_PORTS without UDP */
	PORTS_UDP = 1 << 2,                     /* and with it */
	OPEN = 1 << 3,                          /* SANDBOX_NET_ANY */
	SERVER = 1 << 4,                        /* ports to bind are listed */
	ABI_2 = 1 << 5,                         /* Landlock does not see truncate() */
	ABI_5 = 1 << 6,                         /* nor signals */
	SHARED = 1 << 7,                        /* files that are not listed have names here, too */
	NS_ROOT = 1 << 8,                       /* namespaces, and root in them */
	UNCOUNTED = 1 << 9,                     /* nobody counts memory that is not of a process */
	SAME_USER = 1 << 10,                    /* SHARED, and they may be this user's */
};
#define ANY_PORTS (PORTS | PORTS_UDP)

#define ALL FILTER_ALL
#define HAS FILTER_HAS
#define IS FILTER_IS
#define IS_NOT FILTER_IS_NOT
#define TYPE 0xfu                               /* of a socket: without its flags */
#define SET_ID 06000u
#define FAST_OPEN 0x20000000u                   /* a connect() that Landlock may not see */
#define IOC(c) ((unsigned)(c) << 8 | 0x40000000u)       /* requests of this letter that set something */
#define IOC_MASK 0xc000ff00u
#define NO_IN(call, when) { SYS_##call, FILTER_REFUSE, when, { 0 }, { 0 } }
#define NO_IF(call, when, arg, op, mask, value) { SYS_##call, FILTER_REFUSE, when, { arg, op, mask, value }, { 0 } }
#define NO_OTHER(call, arg) NO_IF(call, 0, arg, IS_NOT, ALL, 0) /* 0 = the caller */
#define ASK(call, when) { SYS_##call, FILTER_ASK, when, { 0 }, { 0 } }
#define OWN(call) ASK(call, SAME_USER), NO_IN(call, NS_ROOT)
#define NO_ATTR(call) { SYS_##call, FILTER_UNSUPPORTED, SHARED | NS_ROOT, { 0 }, { 0 } } /* as on a disk without */

static const struct filter_row rows[] = {
	/* Other processes, seen from inside. */
	NO_OTHER(migrate_pages, 0), NO_OTHER(prlimit64, 0), NO_OTHER(sched_setscheduler, 0), NO_OTHER(sched_setparam, 0),
	NO_OTHER(sched_setattr, 0), NO_OTHER(sched_setaffinity, 0), NO_OTHER(setpriority, 1),
	NO_IF(setpriority, 0, 0, IS, ALL, 2 /* a user */), NO_OTHER(ioprio_set, 1),
	NO_IF(ioprio_set, 0, 0, IS, ALL, 3 /* a user */), NO_IF(prctl, 0, 0, IS, ALL, 62 /* PR_SCHED_CORE */),
	ASK(kill, ABI_5), ASK(tkill, ABI_5), ASK(tgkill, ABI_5), ASK(rt_sigqueueinfo, ABI_5), ASK(rt_tgsigqueueinfo, ABI_5),
	NO_IF(fcntl, ABI_5, 1, IS, ALL, 8 /* F_SETOWN */), NO_IF(fcntl, ABI_5, 1, IS, ALL, 15 /* F_SETOWN_EX */),
	NO_IF(ioctl, ABI_5, 1, IS, ALL, 0x8901 /* FIOSETOWN */),
	NO_IF(ioctl, ABI_5, 1, IS, ALL, 0x8902 /* SIOCSPGRP */),
	{ SYS_personality, FILTER_REFUSE, 0, { 0, IS_NOT, ALL, 0 }, { 0, IS_NOT, ALL, ALL /* asks */ } },
	/* Words into somebody's terminal. */
	NO_IF(ioctl, 0, 1, IS, ALL, 0x5412 /* TIOCSTI */), NO_IF(ioctl, 0, 1, IS, ALL, 0x541c /* TIOCLINUX */),
	/* Memory that is in no process: a file of it takes as much as the machine has (HARDENING F-8). */
	{ SYS_memfd_create, FILTER_ABSENT, UNCOUNTED, { 0 }, { 0 } },
	/* Mode 3 opens for neither reading nor writing, so Landlock has nothing to ask about, and still allows ioctl() and
	 * truncation.  Before ABI 3 reading alone is asked about where O_TRUNC comes with it.  openat2 keeps its flags in
	 * memory, and is in no group (HARDENING F-1). */
#if defined(__x86_64__)
	NO_IF(open, 0, 1, IS, O_ACCMODE, O_ACCMODE), NO_IF(open, ABI_2, 1, IS, O_ACCMODE | O_TRUNC, O_TRUNC),
#endif
	NO_IF(openat, 0, 2, IS, O_ACCMODE, O_ACCMODE), NO_IF(openat, ABI_2, 2, IS, O_ACCMODE | O_TRUNC, O_TRUNC),
	NO_IN(truncate, ABI_2),
	/* Landlock does not look at modes, owners, times and attributes: what is not the tool's own stays as it is
	 * (HARDENING F-7).  bubblewrap mounts it so that nothing can be changed, but for devices, where root is root. */
	NO_IF(fchmod, 0, 1, HAS, ALL, SET_ID), NO_IF(fchmodat, 0, 2, HAS, ALL, SET_ID),
	NO_IF(fchmodat2, 0, 2, HAS, ALL, SET_ID),
	OWN(fchmod), OWN(fchmodat), OWN(fchmodat2), OWN(fchown), OWN(fchownat), OWN(utimensat),
#if defined(__x86_64__)
	NO_IF(chmod, 0, 1, HAS, ALL, SET_ID), OWN(chmod), OWN(chown), OWN(lchown), OWN(utime), OWN(utimes), OWN(futimesat),
#endif
	NO_ATTR(setxattr), NO_ATTR(lsetxattr), NO_ATTR(fsetxattr), NO_ATTR(removexattr), NO_ATTR(lremovexattr),
	NO_ATTR(fremovexattr),
	/* The same by ioctl(): flags, versions, projects, verity, encryption.  (F_SETFL and its like are no requests.) */
	NO_IF(ioctl, 0, 1, IS, IOC_MASK, IOC('f')), NO_IF(ioctl, 0, 1, IS, IOC_MASK, IOC('X')),
	NO_IF(ioctl, 0, 1, IS, IOC_MASK, IOC('v')), NO_IF(ioctl, 0, 1, IS, ALL, 0xc0506617 /* keys of encryption */),
	NO_IF(ioctl, 0, 1, IS, ALL, 0xc0406618),
	/* When somebody uses a file it can only be told where nobody else's have names (HARDENING F-14). */
#if defined(__x86_64__)
	NO_IN(inotify_init, SHARED),
#endif
	NO_IN(inotify_init1, SHARED), NO_IN(inotify_add_watch, SHARED),
	/* Sockets.  A pair of datagram sockets could be sent on to any other. */
	NO_IF(socketpair, 0, 0, IS_NOT, ALL, 1 /* AF_UNIX */),
	{ SYS_socketpair, FILTER_REFUSE, 0, { 1, IS_NOT, TYPE, 1 /* stream */ }, { 1, IS_NOT, TYPE, 5 /* packets */ } },
	NO_IN(socket, CLOSED),
	NO_IF(socket, PORTS, 1, IS_NOT, TYPE, 1 /* stream */),
	{ SYS_socket, FILTER_REFUSE, PORTS_UDP, { 1, IS_NOT, TYPE, 1 }, { 1, IS_NOT, TYPE, 2 /* datagram */ } },
	NO_IF(socket, ANY_PORTS, 2, HAS, ALL, ~31u),            /* MPTCP and its like: not what Landlock calls TCP */
	NO_IF(sendto, ANY_PORTS, 3, HAS, ALL, FAST_OPEN), NO_IF(sendmsg, ANY_PORTS, 2, HAS, ALL, FAST_OPEN),
	NO_IF(sendmmsg, ANY_PORTS, 3, HAS, ALL, FAST_OPEN),
	{ SYS_socket, FILTER_ALLOW, ANY_PORTS | OPEN, { 0, IS, ALL, 2 /* AF_INET */ }, { 0 } },
	{ SYS_socket, FILTER_ALLOW, ANY_PORTS | OPEN, { 0, IS, ALL, 10 /* AF_INET6 */ }, { 0 } },
	{ SYS_socket, FILTER_ALLOW, OPEN, { 0, IS, ALL, 16 /* AF_NETLINK */ },
	  { 2, IS, ALL, 0 /* which addresses are there? */ } },
	NO_IN(socket, ANY_PORTS | OPEN),
	/* A socket that listens without bind() takes a port that nobody has listed, unseen by Landlock (HARDENING F-14). */
	ASK(listen, SERVER), NO_IN(listen, CLOSED | ANY_PORTS),
};

static unsigned conditions(const struct sandbox_policy *p)
{
	unsigned when = 0;

	when |= p->net == SANDBOX_NET_NONE ? CLOSED : p->net == SANDBOX_NET_ANY ? OPEN : p->udp ? PORTS_UDP : PORTS;
	when |= p->net == SANDBOX_NET_PORTS && p->nbind > 0 ? SERVER : 0;
	when |= p->level.landlock < 3 ? ABI_2 : 0;
	when |= !p->level.ns ? SHARED : geteuid() == 0 ? NS_ROOT : 0;
	when |= !p->level.ns && !p->level.uid ? SAME_USER : 0;
	when |= p->level.cgroup ? 0 : UNCOUNTED;
	return when | (p->level.landlock < 6 && !p->level.ns ? ABI_5 : 0);      /* or nobody else is in its namespace */
}

int filter_confine(const struct sandbox_policy *p, int *ret_listener, struct err *err)
{
	const struct filter f = { .groups = GROUPS, .rows = rows, .nrows = NELEMS(rows), .when = conditions(p) };

	if (!p->level.seccomp)
		return 0;
	if (!filter_available())
		return err_set(err, ERR_IO, "seccomp", "the kernel offers no filter for this program's architecture");
	return filter_put_on(&f, ret_listener, err);
}
