#ifndef SANDBOX_FILTER_CALLS_H
#define SANDBOX_FILTER_CALLS_H

#include <sys/syscall.h>

/* System calls that are newer than the headers of older systems; from 424 on a number is the same everywhere. */
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_map_shadow_stack
#define SYS_map_shadow_stack 453
#endif
#ifndef SYS_futex_wake
#define SYS_futex_wake 454
#endif
#ifndef SYS_futex_wait
#define SYS_futex_wait 455
#endif
#ifndef SYS_futex_requeue
#define SYS_futex_requeue 456
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif
#if defined(__x86_64__) && !defined(SYS_uretprobe)
#define SYS_uretprobe 335
#endif
#if defined(__riscv) && !defined(SYS_riscv_hwprobe)
#define SYS_riscv_hwprobe 258
#endif

#endif
