/* A hostile tool: tries what no tool may do and says what came of it, one JSON object on stdout (SEC S-B15, S-T25, S-T26).
 *
 *   hostile files STORE OUTSIDE LISTED    reads and writes
 *   hostile reach FILE...                 all that reach.c knows, for each of the files
 *   hostile own DIR OTHER                 changes modes and times in its own directory and in DIR, by all calls; tries OTHER
 *   hostile processes VICTIM              reaches for the process VICTIM, which is the server
 *   hostile sockets PORT SOCKET           connects
 *   hostile kernel                        what changes the machine, or sees all of it
 *   hostile ipc KEY WORD                  leaves WORD where another tenant's tool may find it, and looks for another's
 *   hostile listen                        makes servers
 *   hostile serve PORT                    makes one as it may
 *   hostile hog N MIB                     has MIB mebibytes in use in each of N processes
 *   hostile memory | descriptors | work | cpu | largefile | foreign | bomb | escape | zombies | flood | hang
 *
 * In the object each attempt stands with the name of its errno, or "done" when it succeeded. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reach.h"

static const char *comma = "{";

/* rc: negative = errno says why. */
static void say(const char *what, long rc)
{
	printf("%s\"%s\":\"%s\"", comma, what, rc < 0 ? strerrorname_np(errno) : "done");
	comma = ",";
}

static void say_number(const char *what, long n)
{
	printf("%s\"%s\":%ld", comma, what, n);
	comma = ",";
}

/* --- files --------------------------------------------------------------------------------------- */

static void try_open(const char *what, const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);
	say(what, fd);
	if (fd >= 0)
		close(fd);
}

static char *join(const char *dir, const char *name)
{
	char *path = NULL;
	if (asprintf(&path, "%s/%s", dir, name) < 0)
		abort();
	return path;
}

static void files(char **argv)
{
	char *store = argv[0], *outside = argv[1], *listed = argv[2];
	char *db = join(store, "toolcrib.db"), *key = join(store, "master.key"), *aside = join(outside, "data");
	char *made = join(outside, "made"), *inside = join(listed, "data"), *new = join(listed, "new"), status[64];
	try_open("store", store, O_RDONLY | O_DIRECTORY);
	try_open("database", db, O_RDONLY);
	try_open("master_key", key, O_RDONLY);
	try_open("outside", aside, O_RDONLY);
	try_open("outside_write", aside, O_WRONLY);
	try_open("outside_create", made, O_WRONLY | O_CREAT);
	try_open("etc", "/etc/passwd", O_RDONLY);
	try_open("root", "/", O_RDONLY | O_DIRECTORY);
	try_open("usr_write", "/usr/made-by-hostile", O_WRONLY | O_CREAT);
	try_open("listed", inside, O_RDONLY);
	try_open("listed_write", new, O_WRONLY | O_CREAT);
	say("symlink", symlink(db, "link"));
	try_open("through_symlink", "link", O_RDONLY);
	say("hardlink", link(aside, "hard"));
	say("truncate", truncate(aside, 0));
	say("unlink", unlink(aside));
	say("rename", rename(aside, "mine"));
	say("mkdir", mkdir(made, 0700));
	say("chmod", chmod(aside, 0777));
	say("setxattr", syscall(SYS_setxattr, aside, "user.x", "x", 1, 0));
	say("device", mknod("device", S_IFCHR | 0600, 0x103));
	snprintf(status, sizeof(status), "/proc/%d/environ", (int)getppid());
	try_open("parent_environ", status, O_RDONLY);
	snprintf(status, sizeof(status), "/proc/%d/mem", (int)getppid());
	try_open("parent_mem", status, O_RDONLY);
	try_open("init_cmdline", "/proc/1/cmdline", O_RDONLY);
	try_open("net_unix", "/proc/self/net/unix", O_RDONLY);
	try_open("net_tcp", "/proc/net/tcp", O_RDONLY);
	snprintf(status, sizeof(status), "/proc/self/task/%d/net/unix", (int)getpid());
	try_open("net_of_thread", status, O_RDONLY);
	try_open("own", "own", O_WRONLY | O_CREAT);
	try_open("own_status", "/proc/self/status", O_RDONLY);
}

/* One object for each file, under its path. */
static void reach(char **argv)
{
	for (; *argv; argv++) {
		printf("%s\"%s\":", comma, *argv);
		comma = "{";
		for (const struct reach *r = reaches; r->name; r++) {
			errno = 0;
			say(r->name, r->attempt(*argv));
		}
		putchar('}');
		comma = ",";
	}
}

/* A link that is now to its own file, now to another, while its mode is changed. */
static void race(const char *other)
{
	pid_t child = fork();
	if (child == 0) {
		for (;;) {
			(void)!symlink("mine", "next");
			(void)!rename("next", "turns");
			(void)!symlink(other, "next");
			(void)!rename("next", "turns");
		}
	}
	for (int i = 0; i < 3000; i++)
		(void)!chmod("turns", 0646);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	say("race", 0);
}

/* What a program may do with what is its own, and with OTHER through it. */
static void own(char **argv)
{
	char *dir = argv[0], *other = argv[1], *inside = join(dir, "made"), path[64];
	struct timespec times[2] = { { .tv_sec = 5 }, { .tv_sec = 5 } };
	struct stat st;
	int fd = open("mine", O_RDWR | O_CREAT, 0600), d = open(dir, O_RDONLY | O_DIRECTORY);
	close(open(inside, O_RDWR | O_CREAT, 0600));
	say("chmod", chmod("mine", 0750));
	say("mode", stat("mine", &st) == 0 && (st.st_mode & 07777) == 0750 ? 0 : -1);
	say("fchmod", fchmod(fd, 0640));
	say("fchmodat", fchmodat(d, "made", 0711, 0));
	say("mode_inside", stat(inside, &st) == 0 && (st.st_mode & 07777) == 0711 ? 0 : -1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	say("chmod_by_descriptor", chmod(path, 0600));
	say("set_id", chmod("mine", 04755));
	say("chmod_dot", chmod(".", 0700));
	say("utimensat", utimensat(AT_FDCWD, inside, times, 0));
	say("times", stat(inside, &st) == 0 && st.st_mtime == 5 ? 0 : -1);
	say("futimens_now", futimens(fd, NULL));
	say("utime", syscall(SYS_utimensat, fd, NULL, times, 0));
	say("chown_same", chown("mine", getuid(), (gid_t)-1));
	say("missing", chmod("missing", 0600) < 0 && errno == ENOENT ? 0 : -1);
	say("bad_descriptor", fchmod(77, 0600) < 0 && errno == EBADF ? 0 : -1);
	say("bad_pointer", chmod((const char *)(uintptr_t)8, 0600) < 0 && errno == EFAULT ? 0 : -1);
	(void)unlink("to");
	say("symlink", symlink(other, "to"));
	say("other_chown", chown("mine", 1, 1));
	say("other_link", chmod("to", 0666));
	say("other_time", utimensat(AT_FDCWD, "to", times, 0));
	fd = open(other, O_RDONLY);
	say("other_fchmod", fchmod(fd, 0666));
	fd = open(other, O_PATH);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	say("other_by_descriptor", chmod(path, 0666));
	snprintf(path, sizeof(path), "/proc/%d/cwd/../../../../../../../../../../../..%.30s", (int)getppid(), "/etc");
	say("other_by_parent", chmod(path, 0777));
	race(other);
}

/* --- processes ----------------------------------------------------------------------------------- */

static void processes(char **argv)
{
	pid_t victim = (pid_t)strtol(argv[0], NULL, 10), supervisor = getppid();
	char byte, path[64];
	struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)0x400000, 1 };
	struct rlimit rl = { 1, 1 };
	cpu_set_t cpus;
	siginfo_t si = { .si_code = SI_QUEUE };
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	say("ptrace", ptrace(PTRACE_SEIZE, victim, NULL, NULL));
	say("ptrace_supervisor", ptrace(PTRACE_ATTACH, supervisor, NULL, NULL));
	say("read_memory", process_vm_readv(victim, &here, 1, &there, 1, 0));
	say("kill", kill(victim, SIGUSR1));
	say("kill_group", kill(-getpgid(victim), SIGUSR1));
	say("kill_supervisor", kill(supervisor, SIGKILL));
	say("tkill", syscall(SYS_tkill, victim, SIGUSR1));
	say("tgkill", syscall(SYS_tgkill, victim, victim, SIGUSR1));
	say("sigqueue", syscall(SYS_rt_sigqueueinfo, victim, SIGUSR1, &si));
	int pidfd = (int)syscall(SYS_pidfd_open, victim, 0);
	say("pidfd_signal", syscall(SYS_pidfd_send_signal, pidfd, SIGUSR1, NULL, 0));
	say("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, 0, 0));
	say("prlimit", syscall(SYS_prlimit64, victim, RLIMIT_NOFILE, &rl, NULL));
	say("priority", setpriority(PRIO_PROCESS, (id_t)victim, 19));
	say("affinity", sched_setaffinity(victim, sizeof(cpus), &cpus));
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)victim);
	try_open("descriptors", path, O_RDONLY | O_DIRECTORY);
	say("kill_self", kill(getpid(), 0));
	pid_t child = fork();
	if (child == 0)
		pause();
	/* Its own child nothing but the filter keeps from it. */
	there.iov_base = &byte;
	say("ptrace_child", ptrace(PTRACE_SEIZE, child, NULL, NULL));
	say("read_child_memory", process_vm_readv(child, &here, 1, &there, 1, 0));
	say("prlimit_child", syscall(SYS_prlimit64, child, RLIMIT_NOFILE, NULL, &rl));
	say("affinity_child", sched_setaffinity(child, sizeof(cpus), &cpus));
	say("kill_child", kill(child, SIGKILL));
	say("priority_self", setpriority(PRIO_PROCESS, 0, 5));
}

/* --- sockets ------------------------------------------------------------------------------------- */

static void try_connect(const char *what, int family, int type, const void *address, socklen_t len)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);
	say(what, fd < 0 ? -1 : connect(fd, address, len));
	if (fd >= 0)
		close(fd);
}

static void sockets(char **argv)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)strtol(argv[0], NULL, 10)),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = in.sin_port, .sin6_addr = in6addr_loopback };
	struct sockaddr_un un = { .sun_family = AF_UNIX }, hidden = { .sun_family = AF_UNIX };
	int pair[2] = { -1, -1 };
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", argv[1]);
	memcpy(hidden.sun_path, "\0hostile-test", 13);
	try_connect("tcp", AF_INET, SOCK_STREAM, &in, sizeof(in));
	try_connect("tcp6", AF_INET6, SOCK_STREAM, &in6, sizeof(in6));
	try_connect("udp", AF_INET, SOCK_DGRAM, &in, sizeof(in));
	try_connect("unix", AF_UNIX, SOCK_STREAM, &un, sizeof(un));
	try_connect("abstract", AF_UNIX, SOCK_STREAM, &hidden, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 13));
	say("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
	say("packet", socket(AF_PACKET, SOCK_RAW, 0));
	say("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	say("vsock", socket(40, SOCK_STREAM, 0));
	say("mptcp", socket(AF_INET, SOCK_STREAM, 262));
	say("datagram_pair", socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	say("stream_pair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	say("pair_elsewhere", connect(pair[0], (struct sockaddr *)&un, sizeof(un)));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("fast_open", fd < 0 ? -1 : sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&in, sizeof(in)));
	in.sin_port = htons(0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("bind", fd < 0 ? -1 : bind(fd, (struct sockaddr *)&in, sizeof(in)));
}

static void listens(char **argv)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int pair[2] = { -1, -1 }, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)argv;
	say("listen_unbound", listen(fd, 1));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("bind_any", fd < 0 ? -1 : bind(fd, (struct sockaddr *)&in, sizeof(in)));
	say("listen_after_refusal", listen(fd, 1));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0)
		say("listen_pair", listen(pair[0], 1));
	in.sin_port = htons(1);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("connect", fd < 0 ? -1 : connect(fd, (struct sockaddr *)&in, sizeof(in)));
	in.sin_family = AF_UNSPEC;
	(void)!connect(fd, (struct sockaddr *)&in, sizeof(in));
	say("listen_after_connect", listen(fd, 1));
}

static void serve(char **argv)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)strtol(argv[0], NULL, 10)),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = in.sin_port, .sin6_addr = in6addr_loopback };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	say("bind", bind(fd, (struct sockaddr *)&in, sizeof(in)));
	say("listen", listen(fd, 1));
	int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("connect", connect(to, (struct sockaddr *)&in, sizeof(in)));
	say("accept", accept(fd, NULL, NULL));
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(fd, (struct sockaddr *)&in6, sizeof(in6)) == 0)        /* a machine may have no IPv6 */
		say("listen6", listen(fd, 1));
}

/* --- what processes share ------------------------------------------------------------------------ */

static void ipc(char **argv)
{
	key_t key = (key_t)strtol(argv[0], NULL, 10);
	struct mq_attr attr = { .mq_maxmsg = 4, .mq_msgsize = 64 };
	struct { long type; char text[64]; } message = { .type = 1 };
	struct sembuf up = { 0, 1, 0 };
	char name[32];
	snprintf(name, sizeof(name), "/hostile-%d", (int)key);
	snprintf(message.text, sizeof(message.text), "%s", argv[1]);
	int shm = shmget(key, 4096, IPC_CREAT | 0666), queue = msgget(key, IPC_CREAT | 0666);
	say("shmget", shm);
	char *at = shmat(shm, NULL, 0);
	say("shmat", at == (void *)-1 ? -1 : 0);
	if (at != (void *)-1 && *at)
		printf("%s\"found\":\"%.60s\"", comma, at);
	if (at != (void *)-1)
		snprintf(at, 64, "%s", argv[1]);
	say("shmctl", shmctl(0, 13 /* SHM_STAT */, (struct shmid_ds *)(void *)&(char[256]){ 0 }));
	say("msgget", queue);
	say("msgsnd", msgsnd(queue, &message, sizeof(message.text), IPC_NOWAIT));
	say("msgrcv", msgrcv(queue, &message, sizeof(message.text), 0, IPC_NOWAIT));
	int sem = semget(key, 1, IPC_CREAT | 0666);
	say("semget", sem);
	say("semop", semop(sem, &up, 1));
	mqd_t mq = mq_open(name, O_RDWR | O_CREAT | O_NONBLOCK, 0666, &attr);
	say("mq_open", (long)mq);
	say("mq_send", mq_send(mq, argv[1], strlen(argv[1]), 0));
	say("mq_unlink", mq_unlink("/hostile-none"));
	int file = memfd_create("hostile", 0);
	say("memfd_create", file);
	say("memfd_secret", syscall(447, 0));
}

/* --- the machine: with arguments that would change nothing, should they pass ----------------------- */

static void kernel(char **argv)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	struct rlimit rl;
	char c = 'x';
	int master = open("/dev/null", O_RDWR);
	(void)argv;
	say("mount", mount("none", "/nonexistent", "tmpfs", 0, NULL));
	say("unshare_user", unshare(CLONE_NEWUSER));
	say("unshare_all", unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET));
	say("clone_user", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	say("clone3", syscall(SYS_clone3, NULL, 0));
	say("setns", setns(0, 0));
	say("chroot", chroot("."));
	say("bpf", syscall(SYS_bpf, 0, NULL, 0));
	say("perf", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
	say("keyctl", syscall(SYS_keyctl, 0, 0, 0, 0, 0));
	say("userfaultfd", syscall(SYS_userfaultfd, 0));
	say("io_uring", syscall(SYS_io_uring_setup, 1, NULL));
	say("module", syscall(SYS_init_module, NULL, 0, ""));
	say("kexec", syscall(SYS_kexec_load, 0, 0, NULL, 0));
	say("reboot", syscall(SYS_reboot, 0, 0, 0, NULL));
	say("swapon", syscall(SYS_swapon, "/nonexistent", 0));
	say("settime", syscall(SYS_clock_settime, 0, NULL));
	say("hostname", syscall(SYS_sethostname, NULL, 1));
	say("syslog", syscall(SYS_syslog, 10, NULL, 0));
	say("personality", syscall(SYS_personality, 0x0040000));
	say("handle", syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0));
	say("tiocsti", ioctl(master, 0x5412 /* TIOCSTI */, &c));
	say("tiocsti_high", syscall(SYS_ioctl, master, 0x100005412ul, &c));
	say("tioclinux", ioctl(master, 0x541c /* TIOCLINUX */, &c));
	say("set_id", chmod(".", 06755));
	say("tty", open("/dev/tty", O_RDWR));
	syscall(SYS_capget, &head, caps);
	say_number("capabilities", (long)(caps[0].permitted | caps[0].effective | caps[0].inheritable | caps[1].permitted));
	getrlimit(RLIMIT_CORE, &rl);
	say_number("core", (long)rl.rlim_max);
	say("personality_asked", syscall(SYS_personality, 0xffffffff));
}

/* --- too much of something ----------------------------------------------------------------------- */

static void memory(char **argv)
{
	(void)argv;
	void *volatile all = malloc(10ull << 30);       /* else a compiler may leave it out */
	say("malloc", all ? 0 : -1);
	size_t got = 0;
	while (got < 10240 && mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		got++;
	say_number("mebibytes", (long)got);
}

static void hog(char **argv)
{
	size_t size = (size_t)strtoul(argv[1], NULL, 10) << 20;
	long n = strtol(argv[0], NULL, 10);
	int ready[2];
	char byte = 0;
	if (pipe(ready))
		abort();
	for (long i = 0; i < n; i++) {
		if (fork() == 0) {
			char *all = malloc(size);
			if (all)
				memset(all, 'x', size);
			__asm__ volatile("" : : "r"(all) : "memory");
			(void)!write(ready[1], &byte, 1);
			for (;;)
				pause();
		}
	}
	for (long i = 0; i < n; i++)
		(void)!read(ready[0], &byte, 1);
	say("hog", 0);
}

static void descriptors(char **argv)
{
	long n = 0;
	(void)argv;
	while (dup(0) >= 0)
		n++;
	say("dup", -1);
	say_number("descriptors", n);
}

/* Uses 200 ms of processor time and 40 MiB, in a child. */
static void work(char **argv)
{
	struct rusage ru = { .ru_maxrss = 0 };
	(void)argv;
	pid_t child = fork();
	if (child == 0) {
		char *all = malloc(40 << 20);
		if (all)
			memset(all, 'x', 40 << 20);
		__asm__ volatile("" : : "r"(all) : "memory");
		do
			getrusage(RUSAGE_SELF, &ru);
		while (ru.ru_utime.tv_sec == 0 && ru.ru_stime.tv_sec == 0 && ru.ru_utime.tv_usec + ru.ru_stime.tv_usec < 200000);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	say("work", 0);
}

static void cpu(char **argv)
{
	(void)argv;
	for (volatile unsigned i = 0;; i++)
		;
}

static void largefile(char **argv)
{
	(void)argv;
	signal(SIGXFSZ, SIG_IGN);
	int fd = open("large", O_WRONLY | O_CREAT, 0600);
	say("at_the_limit", ftruncate(fd, 1l << 30));
	say("beyond", ftruncate(fd, (1l << 30) + 1));
}

/* Call number 20 is getpid() in the other table of this processor. */
static void foreign(char **argv)
{
	(void)argv;
#if defined(__x86_64__)
	long rc;
	__asm__ volatile("int $0x80" : "=a"(rc) : "a"(20l) : "memory", "r8", "r9", "r10", "r11");
	say("foreign", rc);
#endif
}

/* --- what stays behind --------------------------------------------------------------------------- */

/* A process that waits for ever in a session of its own; its number goes to the file. */
static void leave(const char *file, bool session)
{
	if (fork() != 0)
		return;
	if (session)
		setsid();
	if (fork() != 0)
		_exit(0);
	FILE *f = fopen(file, "w");
	if (f) {
		fprintf(f, "%d\n", (int)getpid());
		fclose(f);
	}
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	for (;;)
		pause();
}

static void await_file(const char *file)
{
	struct stat st;
	while (stat(file, &st) || st.st_size == 0)
		usleep(1000);
}

static void escape(char **argv)
{
	char *a = join(argv[0], "left-session"), *b = join(argv[0], "left-group");
	leave(a, true);
	leave(b, false);
	await_file(a);
	await_file(b);
	say("escape", 0);
}

/* Never ends by itself, and asks nobody. */
static void hang(char **argv)
{
	escape(argv);
	fflush(stdout);
	signal(SIGTERM, SIG_IGN);
	for (;;)
		pause();
}

static void bomb(char **argv)
{
	(void)argv;
	signal(SIGTERM, SIG_IGN);
	for (;;) {
		if (fork() == 0)
			setsid();
	}
}

static void zombies(char **argv)
{
	(void)argv;
	for (int i = 0; i < 100; i++) {
		if (fork() == 0)
			_exit(0);
	}
	say("zombies", 0);
}

static void flood(char **argv)
{
	static char line[65536];
	(void)argv;
	memset(line, 'x', sizeof(line));
	for (;;)
		(void)!write(1, line, sizeof(line));
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*attempt)(char **argv); int args; } attempts[] = {
		{ "files", files, 3 }, { "reach", reach, -1 }, { "own", own, 2 }, { "processes", processes, 1 }, { "sockets", sockets, 2 }, { "kernel", kernel, 0 },
		{ "ipc", ipc, 2 }, { "listen", listens, 0 }, { "serve", serve, 1 },
		{ "memory", memory, 0 }, { "hog", hog, 2 },
		{ "work", work, 0 }, { "descriptors", descriptors, 0 }, { "cpu", cpu, 0 }, { "largefile", largefile, 0 },
		{ "foreign", foreign, 0 }, { "escape", escape, 1 }, { "hang", hang, 1 }, { "bomb", bomb, 0 },
		{ "zombies", zombies, 0 }, { "flood", flood, 0 },
	};
	for (size_t i = 0; argc > 1 && i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		if (strcmp(argv[1], attempts[i].name) == 0 &&
		    (argc == attempts[i].args + 2 || attempts[i].args < 0)) {
			attempts[i].attempt(argv + 2);
			puts("}");
			return 0;
		}
	}
	return 2;
}
