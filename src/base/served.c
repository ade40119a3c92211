/* The main() of a program that the server starts and that speaks to it over descriptor 0 alone: toolcrib-report,
 * toolcrib-verifier, toolcrib-worker; and what the first two give up, which read what others wrote.  By hand it says
 * what it is, and does nothing.  What all programs say of their build. */
#include "config.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sanitized.h"
#include "base/served.h"
#include "base/text.h"

#define IOPRIO_CLASS_SHIFT 13
#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_CLASS_BE 2
#define IOPRIO_CLASS_IDLE 3
#define IOPRIO_LOWEST 7
#define IDLE_NICE 19
#define BATCH_NICE 15                   /* where both want a processor, a thirtieth of what the server has: sched(7) */

/* --- which build it is */

#define NOTE_ALIGN(n) (((n) + 3) & ~(size_t)3)

/* The id in the notes of one segment; false: there is none. */
static bool put_id(const uint8_t *at, size_t left, struct str *ret)
{
	ElfW(Nhdr) note;

	while (left >= sizeof(note)) {
		memcpy(&note, at, sizeof(note));
		const size_t name = NOTE_ALIGN((size_t)note.n_namesz), id = NOTE_ALIGN((size_t)note.n_descsz);

		if (name > left - sizeof(note) || id > left - sizeof(note) - name)
			return false;
		at += sizeof(note);
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(at, "GNU", 4) == 0) {
			for (size_t i = 0; i < note.n_descsz; i++)
				str_printf(ret, "%02x", at[name + i]);
			return true;
		}
		at += name + id;
		left -= sizeof(note) + name + id;
	}
	return false;
}

/* The first is the program itself; the kernel's own is no file. */
static int put_part(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct str *ret = arg;
	char *file = *info->dlpi_name ? realpath(info->dlpi_name, NULL) : NULL;
	bool found = false;

	(void)size;
	if (*info->dlpi_name && !file)
		return 0;
	str_printf(ret, "%s ", file ? strrchr(file, '/') + 1 : "build");
	for (size_t i = 0; i < info->dlpi_phnum && !found; i++)
		if (info->dlpi_phdr[i].p_type == PT_NOTE)
			found = put_id((const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
				       info->dlpi_phdr[i].p_memsz, ret);
	str_puts(ret, found ? "\n" : "none\n");
	free(file);
	return 0;
}

void served_version(const char *name, struct str *ret)
{
	str_printf(ret, "%s %s\n", name, PACKAGE_VERSION);
	(void)dl_iterate_phdr(put_part, ret);
}

void served_put_version(const char *name)
{
	struct str text = STR_INIT;

	served_version(name, &text);
	(void)fputs(str_text(&text), stdout);
	str_fini(&text);
}

static void put_usage(const struct served *s, FILE *to)
{
	(void)fprintf(to, "usage: %s\n       %s --version | --help\n", s->name, s->name);
}

static bool say(const struct served *s, const char *word)
{
	if (strcmp(word, "--version") == 0) {
		served_put_version(s->name);
		return true;
	}
	if (strcmp(word, "--help") != 0)
		return false;
	put_usage(s, stdout);
	printf("\n%s\nStarted by hand it does nothing.  See %s.\n", s->does, s->page);
	return true;
}

int served_main(const struct served *s, int argc, char **argv)
{
	struct stat st;

	if (argc == 2 && say(s, argv[1]))
		return SERVED_DONE;
	if (argc > 1) {
		put_usage(s, stderr);
		return SERVED_USAGE;
	}
	if (fstat(STDIN_FILENO, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		(void)fprintf(stderr, "%s is started by toolcribd, not by hand\n", s->name);
		return SERVED_BY_HAND;
	}
	return s->serve();
}

/* --- what it gives up */

static bool bound(int what, uint64_t most)
{
	struct rlimit r;

	if (getrlimit(what, &r) != 0)
		return false;
	r.rlim_cur = r.rlim_max = most < r.rlim_max ? most : r.rlim_max;
	return setrlimit(what, &r) == 0;
}

bool served_shut(unsigned nfiles)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || null < 0 ||
	    signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR || dup2(null, STDOUT_FILENO) < 0)
		return false;
	if (!SANITIZED && dup2(null, STDERR_FILENO) < 0)
		return false;
	if (close_range(STDERR_FILENO + 1, ~0u, 0))
		return false;
	(void)mallopt(M_ARENA_MAX, 1);
	return bound(RLIMIT_CORE, 0) && bound(RLIMIT_NOFILE, nfiles);
}

void served_step_back(enum served_class class)
{
	static const struct { int policy, nice, io; } to[] = {
		[SERVED_IDLE] = { SCHED_IDLE, IDLE_NICE, IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT },
		[SERVED_BATCH] = { SCHED_BATCH, BATCH_NICE, IOPRIO_CLASS_BE << IOPRIO_CLASS_SHIFT | IOPRIO_LOWEST },
		[SERVED_PAGE] = { SCHED_IDLE, IDLE_NICE, IOPRIO_CLASS_BE << IOPRIO_CLASS_SHIFT | IOPRIO_LOWEST },
	};
	const struct sched_param none = { 0 };
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		(void)!write(fd, "1000", 4);
		close(fd);
	}
	if (class == SERVED_NORMAL)
		return;
	(void)sched_setscheduler(0, to[class].policy, &none);
	if (getpriority(PRIO_PROCESS, 0) < to[class].nice)       /* never before who started it */
		(void)setpriority(PRIO_PROCESS, 0, to[class].nice);
	(void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, to[class].io);
}

bool served_bound(uint64_t memory, uint64_t file)
{
	if (!SANITIZED && (prctl(PR_SET_DUMPABLE, 0) || !bound(RLIMIT_AS, memory)))
		return false;
	return bound(RLIMIT_FSIZE, file);
}
