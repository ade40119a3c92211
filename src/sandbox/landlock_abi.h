#ifndef SANDBOX_LANDLOCK_ABI_H
#define SANDBOX_LANDLOCK_ABI_H

#include <stdint.h>

/* The kernel's Landlock interface up to ABI 6, written down here because the headers of older systems know less
 * of it than their kernels may. */

#define LL_CREATE_RULESET 444           /* system calls; the same on every architecture */
#define LL_ADD_RULE 445
#define LL_RESTRICT_SELF 446

#define LL_CREATE_VERSION (1u << 0)     /* flag of LL_CREATE_RULESET: tell the ABI */
#define LL_RULE_PATH 1
#define LL_RULE_PORT 2

#define LL_FS_EXECUTE (1ull << 0)
#define LL_FS_WRITE_FILE (1ull << 1)
#define LL_FS_READ_FILE (1ull << 2)
#define LL_FS_READ_DIR (1ull << 3)
#define LL_FS_REMOVE_DIR (1ull << 4)
#define LL_FS_REMOVE_FILE (1ull << 5)
#define LL_FS_MAKE_CHAR (1ull << 6)
#define LL_FS_MAKE_DIR (1ull << 7)
#define LL_FS_MAKE_REG (1ull << 8)
#define LL_FS_MAKE_SOCK (1ull << 9)
#define LL_FS_MAKE_FIFO (1ull << 10)
#define LL_FS_MAKE_BLOCK (1ull << 11)
#define LL_FS_MAKE_SYM (1ull << 12)
#define LL_FS_REFER (1ull << 13)        /* ABI 2 */
#define LL_FS_TRUNCATE (1ull << 14)     /* ABI 3 */
#define LL_FS_IOCTL_DEV (1ull << 15)    /* ABI 5 */

#define LL_NET_BIND_TCP (1ull << 0)     /* ABI 4 */
#define LL_NET_CONNECT_TCP (1ull << 1)

#define LL_SCOPE_ABSTRACT_UNIX (1ull << 0)      /* ABI 6 */
#define LL_SCOPE_SIGNAL (1ull << 1)

struct ll_ruleset {                     /* an older kernel gets as much of it as it knows */
	uint64_t handled_fs;
	uint64_t handled_net;           /* ABI 4 */
	uint64_t scoped;                /* ABI 6 */
};
struct ll_path {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));
struct ll_port {
	uint64_t allowed;
	uint64_t port;
};

#endif
