/*
 * Who owns a store: an open-file-description lock on toolcrib.lock.  The text of the file is the card:
 *
 *	pid=4711
 *	admin_sock=/run/toolcrib/admin.sock
 *	mcp_sock=/run/toolcrib/mcp.sock
 *	end
 *
 * Socket lines are left out when there are none; without "end" the card is being written, and says
 * nothing yet.
 */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/owner.h"

enum {
	CARD_MAX = 512,
	ORPHAN_WAIT_MS = 1000,          /* for a lock that a dead process left with a child */
	ORPHAN_TRIES = 200,
};

#define MAGIC_CIFS 0xff534d42           /* not in linux/magic.h of every kernel */
#define MAGIC_SMB2 0xfe534d42
#define MAGIC_FUSE 0x65735546
#define MAGIC_9P 0x01021997

struct db_owner {
	int fd;
	char *path;
};

static int sys_fail(struct err *err, const char *path, const char *what)
{
	int e = errno;

	err_set(err, ERR_UNREACHABLE, path, "cannot %s %s: %s", what, path, strerror(e));
	if (e == ENOENT)
		err_hint(err, "run: toolcrib init");
	return ERR_UNREACHABLE;
}

/* AUDIT A-606: locks and the log's shared memory are per host. */
static int check_file_system(const char *store, struct err *err)
{
	struct statfs fs;

	if (statfs(store, &fs) != 0)
		return sys_fail(err, store, "look at");
	switch ((uint32_t)fs.f_type) {
	case NFS_SUPER_MAGIC:
	case SMB_SUPER_MAGIC:
	case MAGIC_CIFS:
	case MAGIC_SMB2:
		err_set(err, ERR_UNREACHABLE, store, "the store is on a network file system, where locks do not hold");
		err_hint(err, "move it to a local disk");
		return ERR_UNREACHABLE;
	case MAGIC_FUSE:
	case MAGIC_9P:
		log_warn(NULL, "store on a file system that may be shared between hosts path=%s", store);
		return 0;
	default:
		return 0;
	}
}

/* Trap 20: files made by root beside the daemon's are files that the daemon cannot open. */
static int check_user(const char *store, struct err *err)
{
	char *file = path_join(store, DB_FILE);
	const struct passwd *pw;
	struct stat st;
	int rc = 0;

	if (stat(file, &st) != 0 && stat(store, &st) != 0)
		rc = sys_fail(err, store, "look at");
	else if (st.st_uid != geteuid()) {
		pw = getpwuid(st.st_uid);
		if (pw)
			err_set(err, ERR_DENIED, store, "the store belongs to %s", pw->pw_name);
		else
			err_set(err, ERR_DENIED, store, "the store belongs to user %u", (unsigned)st.st_uid);
		err_hint(err, "run this command as that user");
		rc = ERR_DENIED;
	}
	free(file);
	return rc;
}

static int open_lock_file(const char *store, const char *path, int *ret_fd, struct err *err)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	int rc;

	if (fd < 0 && errno == ENOENT) {
		rc = check_user(store, err);
		if (rc < 0)
			return rc;
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	}
	if (fd < 0)
		return sys_fail(err, path, "open");
	*ret_fd = fd;
	return 0;
}

static void set_sock(char *ret, size_t size, const char *value, size_t len)
{
	if (len < size) {
		memcpy(ret, value, len);
		ret[len] = '\0';
	}
}

static void read_card(int fd, struct db_card *ret)
{
	char text[CARD_MAX];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	struct db_card card = { 0 };

	*ret = card;
	text[n > 0 ? n : 0] = '\0';
	for (const char *line = text, *nl; (nl = strchr(line, '\n')); line = nl + 1) {
		const char *eq = memchr(line, '=', (size_t)(nl - line));
		const char *value = eq ? eq + 1 : NULL;

		if (text_eq(line, (size_t)(nl - line), "end"))
			*ret = card;
		if (!eq)
			continue;
		if (text_eq(line, (size_t)(eq - line), "pid"))
			(void)text_i64(value, (size_t)(nl - value), &card.pid);         /* 0 says: unknown */
		else if (text_eq(line, (size_t)(eq - line), "admin_sock"))
			set_sock(card.command_socket, sizeof(card.command_socket), value, (size_t)(nl - value));
		else if (text_eq(line, (size_t)(eq - line), "mcp_sock"))
			set_sock(card.mcp_sock, sizeof(card.mcp_sock), value, (size_t)(nl - value));
	}
}

int db_owner_show(struct db_owner *o, const struct db_card *card, struct err *err)
{
	char text[CARD_MAX];
	int n = snprintf(text, sizeof(text), "pid=%lld\n", (long long)card->pid);

	if (card->command_socket[0])
		n += snprintf(text + n, sizeof(text) - (size_t)n, "admin_sock=%s\n", card->command_socket);
	if (card->mcp_sock[0])
		n += snprintf(text + n, sizeof(text) - (size_t)n, "mcp_sock=%s\n", card->mcp_sock);
	n += snprintf(text + n, sizeof(text) - (size_t)n, "end\n");
	if (ftruncate(o->fd, 0) != 0 || pwrite(o->fd, text, (size_t)n, 0) != n)
		return sys_fail(err, o->path, "write");
	return 0;
}

/* 0: locked, 1: held by the process on the card, -1: errno.
 *
 * A child between its start and its exec still has its parent's descriptors, the lock's among them: a server that was
 * killed while it started a tool leaves the lock behind for that moment.  A card of a dead process is waited out. */
static int lock_it(int fd, struct flock *lock, struct db_card *ret_card)
{
	const struct timespec pause = { 0, ORPHAN_WAIT_MS * 1000000 / ORPHAN_TRIES };

	for (int left = ORPHAN_TRIES; fcntl(fd, F_OFD_SETLK, lock) != 0; left--) {
		if (errno != EAGAIN && errno != EACCES)
			return -1;
		read_card(fd, ret_card);
		if (left == 0 || ret_card->pid <= 0 || kill((pid_t)ret_card->pid, 0) == 0 || errno != ESRCH)
			return 1;
		nanosleep(&pause, NULL);
	}
	return 0;
}

int db_owner_take(const char *store, struct db_owner **ret, struct db_card *ret_card, struct err *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct db_card card = { .pid = getpid() };
	struct db_owner *o;
	char *path;
	int fd = -1, rc;

	rc = check_file_system(store, err);
	if (rc < 0)
		return rc;
	path = path_join(store, DB_LOCK);
	rc = open_lock_file(store, path, &fd, err);
	if (rc < 0) {
		free(path);
		return rc;
	}
	o = mem_zalloc(sizeof(*o));
	o->fd = fd;
	o->path = path;
	/* AUDIT A-602: a lock of this descriptor, not of the process; CLOEXEC, so that no child keeps it. */
	rc = lock_it(fd, &lock, ret_card);
	if (rc < 0) {
		rc = sys_fail(err, path, "lock");
	} else if (rc == 0) {
		rc = check_user(store, err);
		if (rc == 0)
			rc = db_owner_show(o, &card, err);
		if (rc == 0)
			*ret = o;
	}
	if (rc != 0) {
		close(fd);
		free(path);
		free(o);
	}
	return rc;
}

int db_owner_look(const char *store, struct db_card *ret_card, struct err *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char *path = path_join(store, DB_LOCK);
	int rc = check_file_system(store, err);
	int fd = rc < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (rc == 0 && fd < 0 && errno != ENOENT)
		rc = sys_fail(err, path, "open");
	if (fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) != 0)
		rc = sys_fail(err, path, "look at");
	else if (fd >= 0 && lock.l_type != F_UNLCK)
		rc = 1;
	if (rc == 1)
		read_card(fd, ret_card);
	if (fd >= 0)
		close(fd);
	free(path);
	return rc;
}

int db_owner_fd(const struct db_owner *o)
{
	return o->fd;
}

void db_owner_leave(struct db_owner **op)
{
	struct db_owner *o = *op;

	*op = NULL;
	close(o->fd);
	free(o->path);
	free(o);
}

int db_owner_adopt(const char *store, int fd, struct db_owner **ret, struct err *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct db_card card = { .pid = getpid() };
	struct db_owner *o = mem_zalloc(sizeof(*o));
	struct stat given, own;
	int rc = 0;

	*o = (struct db_owner){ fd, path_join(store, DB_LOCK) };
	/* It succeeds where the lock is held by this very description, and by nobody. */
	if (fstat(fd, &given) || stat(o->path, &own) || given.st_dev != own.st_dev || given.st_ino != own.st_ino ||
	    fcntl(fd, F_OFD_SETLK, &lock))
		rc = err_set(err, ERR_CONFLICT, o->path, "what was handed over is not the lock of the store %s", store);
	if (rc == 0)
		rc = db_owner_show(o, &card, err);
	if (rc < 0)
		db_owner_leave(&o);
	else
		*ret = o;
	return rc;
}

void db_owner_drop(struct db_owner **op)
{
	struct db_owner *o = op ? *op : NULL;

	if (!o)
		return;
	*op = NULL;
	(void)!ftruncate(o->fd, 0);     /* a card that stays behind only costs its reader a failed connect */
	close(o->fd);
	free(o->path);
	free(o);
}
