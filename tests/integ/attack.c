/* What a reporter that somebody has taken over can do, preloaded into it: once it says its first frame, and so is confined as it
 * will ever be, it tries, and says what came of it as the one row of a report. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static char row[4096];

static void tell(const char *what, long rc)
{
	size_t n = strlen(row);

	(void)snprintf(row + n, sizeof(row) - n, "%s\"%s\":\"%s\"", n ? "," : "", what, rc < 0 ? strerrorname_np(errno) : "done");
}

/* Any descriptor that takes a byte where a file of the store has its first one. */
static void write_store(const char *store)
{
	char path[512], link[64], here[512];

	(void)snprintf(path, sizeof(path), "%s/toolcrib.db", store);
	for (int fd = 3; fd < 64; fd++) {
		ssize_t n;

		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, here, sizeof(here) - 1);
		if (n < 0)
			continue;
		here[n] = '\0';
		if (strncmp(here, path, strlen(path)) == 0 && !strstr(here, "-shm"))
			tell(here + strlen(store) + 1, pwrite(fd, "", 0, 0) < 0 ? -1 : 0);
	}
}

static void attack(const char *store)
{
	static const char *const files[] = { "toolcrib.db", "keys.db", "master.key", "signer/state" };
	char path[512], name[] = "true", *const argv[] = { name, NULL };

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", store, files[i]);
		tell(files[i], open(path, i == 0 ? O_RDWR : O_RDONLY));
	}
	tell("passwd", open("/etc/passwd", O_RDONLY));
	tell("new", open("/tmp/toolcrib-attack", O_WRONLY | O_CREAT, 0600));
	tell("socket", socket(AF_INET, SOCK_STREAM, 0));
	tell("unix", socket(AF_UNIX, SOCK_STREAM, 0));
	tell("fork", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	tell("exec", execv("/bin/true", argv));
	tell("kill", kill(getppid(), 0));
	tell("ptrace", ptrace(PTRACE_ATTACH, getppid(), 0, 0));
	tell("code", mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
	write_store(store);
}

ssize_t write(int fd, const void *p, size_t len)
{
	ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
	const char *store = getenv("TOOLCRIB_TEST_STORE");
	static int tried;
	char line[4200];
	unsigned char head[5] = { 0, 0, 0, 0, 'R' };
	int n;

	if (fd != STDIN_FILENO || !store || tried)
		return real(fd, p, len);
	tried = 1;
	attack(store);
	if (getenv("TOOLCRIB_TEST_VERIFIER")) {         /* as the reason why it failed, without its quotes */
		size_t at = 0;

		for (const char *c = row; *c; c++)
			if (*c != '"')
				row[at++] = *c;
		row[at] = '\0';
		n = snprintf(line, sizeof(line), "{\"failed\":{\"message\":\"%s\",\"hint\":\"\"}}\n", row);
		return real(fd, line, (size_t)n) == n ? (ssize_t)len : -1;
	}
	n = snprintf(line, sizeof(line), "{\"row\":{%s}}\n", row);
	head[2] = (unsigned char)(n >> 8);
	head[3] = (unsigned char)n;
	if (real(fd, head, sizeof(head)) < 0 || real(fd, line, (size_t)n) < 0)
		return -1;
	return real(fd, p, len);
}
