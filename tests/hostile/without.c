/* without landlock|seccomp PROGRAM ARG...: runs a program on a kernel that seems to lack this, for tests of what is then
 * refused: the calls that would ask for it fail with ENOSYS. */
#include "config.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LANDLOCK_CREATE_RULESET 444

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	unsigned nr = strcmp(argv[1], "landlock") == 0 ? LANDLOCK_CREATE_RULESET : SYS_seccomp;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog)) {
		perror("without");
		return 1;
	}
	execv(argv[2], argv + 2);
	perror(argv[2]);
	return 1;
}
