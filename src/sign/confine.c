/* What a signer may still ask of the kernel once it serves: files it has to write, the sockets it has, memory, time
 * (SEC S-604).  All else is refused: no process, no new socket, no other address space. */

#include "config.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/mem.h"

#include "sign_int.h"

#if defined __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCH AUDIT_ARCH_AARCH64
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined ARCH && !defined SANITIZED
static const int allowed[] = {
	SYS_read, SYS_write, SYS_recvfrom, SYS_sendto, SYS_ppoll, SYS_accept4, SYS_getsockopt,
	SYS_openat, SYS_close, SYS_fsync, SYS_fstat, SYS_newfstatat, SYS_lseek, SYS_fchmod, SYS_fchmodat, SYS_renameat,
	SYS_renameat2, SYS_unlinkat, SYS_faccessat, SYS_fcntl,
	SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_mlock, SYS_munlock, SYS_brk,
	SYS_futex, SYS_getrandom, SYS_clock_gettime, SYS_nanosleep, SYS_clock_nanosleep, SYS_getpid, SYS_gettid, SYS_tgkill,
	SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_exit, SYS_exit_group,
#ifdef __x86_64__
	SYS_open, SYS_stat, SYS_access, SYS_poll, SYS_rename, SYS_unlink, SYS_chmod,
#endif
};

int sign_confine(struct err *err)
{
	struct sock_filter code[5 + 2 * NELEMS(allowed)];
	struct sock_fprog prog = { .filter = code };
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < NELEMS(allowed); i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	prog.len = n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) != 0)
		return err_set(err, ERR_INTERNAL, "seccomp", "the signer cannot be confined: %s", strerror(errno));
	return 0;
}
#else
/* Sanitizers need more than a list could say; and there is no list for this machine. */
int sign_confine(struct err *err)
{
	(void)err;
	return 0;
}
#endif
