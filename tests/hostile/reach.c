/* What a hostile tool can do to a file that is not for it, one small function for each way (HARDENING F-1, F-7, F-14);
 * hostile.c runs them all on each file that it is given.  Each returns something negative with errno, or what shows
 * that it has got through.  What would do harm is done: the test looks at the file afterwards. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "reach.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif

/* open(), or openat(), of libraries adds flags of its own. */
static long bare_open(const char *path, int flags)
{
	long fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);

	if (fd >= 0)
		close((int)fd);
	return fd;
}

static long open_how(const char *path, unsigned flags)
{
	struct open_how how = { .flags = flags };

	return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static long read_it(const char *path)
{
	return bare_open(path, O_RDONLY);
}

static long write_it(const char *path)
{
	return bare_open(path, O_WRONLY);
}

static long append(const char *path)
{
	return bare_open(path, O_RDWR | O_APPEND);
}

static long truncate_reading(const char *path)
{
	return bare_open(path, O_RDONLY | O_TRUNC);
}

static long truncate_creating(const char *path)
{
	return bare_open(path, O_RDONLY | O_CREAT | O_TRUNC);
}

static long truncate_mode_3(const char *path)
{
	return bare_open(path, O_ACCMODE | O_TRUNC);
}

static long open_mode_3(const char *path)
{
	return bare_open(path, O_ACCMODE);
}

#if defined(SYS_open)
static long truncate_old_open(const char *path)
{
	return syscall(SYS_open, path, O_ACCMODE | O_TRUNC, 0);
}

static long truncate_creat(const char *path)
{
	return syscall(SYS_creat, path, 0600);
}
#endif

static long truncate_openat2(const char *path)
{
	return open_how(path, O_RDONLY | O_TRUNC);
}

static long truncate_openat2_mode_3(const char *path)
{
	return open_how(path, O_ACCMODE | O_TRUNC);
}

static long truncate_it(const char *path)
{
	return truncate(path, 0);
}

/* Through a descriptor that is good for nothing but its name. */
static char *by_descriptor(const char *path, char room[64])
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	snprintf(room, 64, "/proc/self/fd/%d", fd);
	return room;
}

static long truncate_by_descriptor(const char *path)
{
	char link[64];

	return bare_open(by_descriptor(path, link), O_ACCMODE | O_TRUNC);
}

static long ioctl_mode_3(const char *path)
{
	int flags = FS_NODUMP_FL, fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_ACCMODE, 0);

	return fd < 0 ? -1 : ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

static long map(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

	return p == MAP_FAILED ? -1 : 0;
}

static long rename_away(const char *path)
{
	return rename(path, "taken");
}

static long rename_over(const char *path)
{
	close(open("mine", O_WRONLY | O_CREAT, 0600));
	return rename("mine", path);
}

static long exchange(const char *path)
{
	close(open("mine", O_WRONLY | O_CREAT, 0600));
	return renameat2(AT_FDCWD, "mine", AT_FDCWD, path, RENAME_EXCHANGE);
}

static long unlink_it(const char *path)
{
	return unlink(path);
}

static long link_it(const char *path)
{
	return link(path, "linked");
}

static long link_by_descriptor(const char *path)
{
	char name[64];

	return linkat(AT_FDCWD, by_descriptor(path, name), AT_FDCWD, "linked2", AT_SYMLINK_FOLLOW);
}

static long mode(const char *path)
{
	return chmod(path, 0666);
}

static long mode_by_descriptor(const char *path)
{
	char link[64];

	return chmod(by_descriptor(path, link), 0666);
}

static long mode_by_link(const char *path)
{
	(void)unlink("to");
	return symlink(path, "to") < 0 ? -1 : fchmodat(AT_FDCWD, "to", 0666, 0);
}

static long mode_new_call(const char *path)
{
	return syscall(SYS_fchmodat2, AT_FDCWD, path, 0666, 0);
}

static long mode_of_open(const char *path)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_ACCMODE | O_CLOEXEC, 0);

	return fd < 0 ? -1 : fchmod(fd, 0666);
}

static long owner(const char *path)
{
	return chown(path, getuid(), getgid());
}

static long owner_by_descriptor(const char *path)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	return fchownat(fd, "", getuid(), getgid(), AT_EMPTY_PATH);
}

static long times(const char *path)
{
	const struct timespec then[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	return utimensat(AT_FDCWD, path, then, 0);
}

static long times_by_descriptor(const char *path)
{
	const struct timespec then[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	char link[64];

	return utimensat(AT_FDCWD, by_descriptor(path, link), then, 0);
}

static long times_old_call(const char *path)
{
	return utime(path, NULL);
}

static long attribute(const char *path)
{
	return setxattr(path, "user.hostile", "x", 1, 0);
}

static long attribute_by_descriptor(const char *path)
{
	char link[64];

	return setxattr(by_descriptor(path, link), "user.hostile", "x", 1, 0);
}

static long attribute_away(const char *path)
{
	return lremovexattr(path, "user.toolcrib");
}

static long attribute_new_call(const char *path)
{
	const struct { uint64_t value; uint32_t size, flags; } args = { (uintptr_t)"x", 1, 0 };

	return syscall(SYS_setxattrat, AT_FDCWD, path, 0, "user.hostile", &args, sizeof(args));
}

static long flags_new_call(const char *path)
{
	const uint64_t attr[3] = { 0 };

	return syscall(SYS_file_setattr, AT_FDCWD, path, attr, sizeof(attr), 0);
}

static long watch(const char *path)
{
	return inotify_add_watch(inotify_init1(IN_CLOEXEC), path, IN_ALL_EVENTS);
}

static long watch_fanotify(const char *path)
{
	int fd = fanotify_init(FAN_REPORT_FID, O_RDONLY);

	return fd < 0 ? -1 : fanotify_mark(fd, FAN_MARK_ADD, FAN_MODIFY, AT_FDCWD, path);
}

static long handle(const char *path)
{
	struct { struct file_handle head; char room[128]; } handle = { .head.handle_bytes = 128 };
	int mount = 0;

	return name_to_handle_at(AT_FDCWD, path, &handle.head, &mount, 0);
}

static long size_and_time(const char *path)
{
	struct stat st;

	return stat(path, &st);
}

const struct reach reaches[] = {
	{ "open to read", read_it }, { "open to write", write_it }, { "open to append", append },
	{ "open, mode 3", open_mode_3 }, { "truncate()", truncate_it },
	{ "O_RDONLY|O_TRUNC", truncate_reading }, { "O_CREAT|O_TRUNC", truncate_creating },
	{ "3|O_TRUNC", truncate_mode_3 },
#if defined(SYS_open)
	{ "3|O_TRUNC, open()", truncate_old_open }, { "creat()", truncate_creat },
#endif
	{ "3|O_TRUNC, by /proc/self/fd", truncate_by_descriptor }, { "O_TRUNC, openat2()", truncate_openat2 },
	{ "3|O_TRUNC, openat2()", truncate_openat2_mode_3 }, { "ioctl(), mode 3", ioctl_mode_3 },
	{ "mmap()", map }, { "rename away", rename_away }, { "rename over", rename_over },
	{ "RENAME_EXCHANGE", exchange }, { "unlink()", unlink_it },
	{ "link()", link_it }, { "link() by /proc/self/fd", link_by_descriptor },
	{ "chmod()", mode }, { "chmod() by /proc/self/fd", mode_by_descriptor }, { "fchmodat() by a link", mode_by_link },
	{ "fchmodat2()", mode_new_call }, { "fchmod(), mode 3", mode_of_open },
	{ "chown()", owner }, { "fchownat(), O_PATH", owner_by_descriptor },
	{ "utimensat()", times }, { "utimensat() by /proc/self/fd", times_by_descriptor }, { "utime()", times_old_call },
	{ "setxattr()", attribute }, { "setxattr() by /proc/self/fd", attribute_by_descriptor },
	{ "lremovexattr()", attribute_away }, { "setxattrat()", attribute_new_call },
	{ "file_setattr()", flags_new_call }, { "inotify", watch }, { "fanotify", watch_fanotify },
	{ "name_to_handle_at()", handle }, { "stat()", size_and_time },
	{ NULL, NULL },
};
