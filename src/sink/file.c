/* Type file: lines behind each other, moved aside when there are many (OP-303).  Each record is in there once: with the
 * positions the store has which file it is (its inode) and how many of its bytes they stand for, and a start cuts off
 * what is behind.  So nothing is written to a file before the store knows that one, and a file is moved aside only when
 * the store knows all of it.  Bytes are written and made durable on the lane; the rest is the loop's. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "ev/ev.h"

#include "sink_int.h"

#define FILE_MODE 0640
#define NUMBERS_MAX 100000              /* files that are looked at or removed in one go */

enum file_end { FILE_WRITTEN, FILE_NOT_YET, FILE_FAILED };

/* One at a time; the lane's while it is there. */
struct file {
	struct sink *s;
	int fd;                         /* -1: none is open */
	struct sink_file_at at, stored; /* as it is, as the store has it */
	const struct sink_batch *b;
	enum file_end end;
	struct err err;
};

static int failed(struct file *f, const char *what)
{
	return err_set(&f->err, errno == ENOSPC ? ERR_LIMIT : ERR_IO, f->s->conf->path, "cannot %s %s: %s", what,
		       f->s->conf->path, strerror(errno));
}

static char *moved_name(const struct file *f, int64_t number)
{
	return mem_printf("%s.%" PRId64, f->s->conf->path, number);
}

/* --- lane */

/* Behind whole lines only: what stands there may be somebody else's. */
static int check_line(struct file *f, int64_t size)
{
	char last = '\n';

	if (size > 0 && pread(f->fd, &last, 1, (off_t)size - 1) != 1)
		return failed(f, "read");
	if (last == '\n')
		return 0;
	return err_set(&f->err, ERR_CONFLICT, f->s->conf->path, "%s does not end with a whole line: move it away",
		       f->s->conf->path);
}

/* The file that the store knows: what it does not vouch for goes. */
static int go_on(struct file *f, int64_t size)
{
	if (size < f->at.bytes) {
		log_warn(NULL,
			 "a file of copies is shorter than what was written to it sink=%s path=%s bytes=%" PRId64
			 " of=%" PRId64, f->s->conf->name, f->s->conf->path, size, f->at.bytes);
		f->at.bytes = size;
	} else if (size > f->at.bytes && (ftruncate(f->fd, (off_t)f->at.bytes) || fsync(f->fd))) {
		return failed(f, "cut");
	}
	return check_line(f, f->at.bytes);
}

/* Another one, which may have lines: the next number is one that no file has. */
static int take_up(struct file *f, const struct stat *st)
{
	int rc = check_line(f, st->st_size);

	if (f->at.number < 1)
		f->at.number = 1;
	for (int i = 0; rc == 0 && i < NUMBERS_MAX; i++) {
		char *name = moved_name(f, f->at.number);
		const bool there = path_exists(name);

		free(name);
		if (!there)
			break;
		f->at.number++;
	}
	f->at.inode = (int64_t)st->st_ino;
	f->at.bytes = st->st_size;
	return rc ? rc : path_sync_parent(f->s->conf->path, &f->err);
}

static int open_file(struct file *f)
{
	const char *path = f->s->conf->path;
	struct stat st;
	int rc = path_is_file(path, &f->err);

	if (rc < 0)
		return rc;
	f->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, FILE_MODE);
	if (f->fd < 0 && errno == ELOOP)
		return err_set(&f->err, ERR_UNREACHABLE, path, "%s is a link: name the file that it leads to", path);
	if (f->fd < 0 || fstat(f->fd, &st))
		return failed(f, "open");
	if (!S_ISREG(st.st_mode))
		return err_set(&f->err, ERR_UNREACHABLE, path, "%s is no file", path);
	return (int64_t)st.st_ino == f->at.inode ? go_on(f, st.st_size) : take_up(f, &st);
}

static void close_file(struct file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

/* Somebody else may have moved it away, or put another one there. */
static int look(struct file *f)
{
	struct stat st;

	if (f->fd >= 0 && (lstat(f->s->conf->path, &st) || (int64_t)st.st_ino != f->at.inode))
		close_file(f);
	return f->fd >= 0 ? 0 : open_file(f);
}

/* Files that are more than are kept, the newest of them first. */
static void remove_old(const struct file *f)
{
	for (int64_t n = f->at.number - 1 - f->s->conf->rotate_keep; n > 0 && n > f->at.number - NUMBERS_MAX; n--) {
		char *name = moved_name(f, n);
		const bool gone = unlink(name) == 0;

		free(name);
		if (!gone)
			break;
	}
}

static int move_aside(struct file *f)
{
	char *name = moved_name(f, f->at.number);
	int rc = path_exists(name) ? err_set(&f->err, ERR_CONFLICT, name, "%s is there already: move it away", name) : 0;

	if (rc == 0 && rename(f->s->conf->path, name))
		rc = failed(f, "move");
	free(name);
	if (rc < 0)
		return rc;
	f->at.number++;
	remove_old(f);
	close_file(f);
	return open_file(f);
}

static int put(struct file *f)
{
	const struct str *body = &f->b->body;
	size_t done = 0;
	int rc = 0;

	while (rc == 0 && done < body->len) {
		const ssize_t n = write(f->fd, body->p + done, body->len - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			rc = failed(f, "write");
	}
	if (rc == 0 && fsync(f->fd))
		rc = failed(f, "write");
	if (rc == 0)
		f->at.bytes += (int64_t)body->len;
	else
		close_file(f);          /* and what is in there of it is cut off when it is opened */
	return rc;
}

static bool is_full(const struct file *f)
{
	return f->s->conf->rotate_bytes > 0 && (uint64_t)f->at.bytes >= f->s->conf->rotate_bytes;
}

static void body(void *file)
{
	struct file *f = file;
	int rc = look(f);

	if (rc == 0 && is_full(f) && f->stored.inode == f->at.inode && f->stored.bytes == f->at.bytes &&
	    f->stored.number == f->at.number)
		rc = move_aside(f);
	if (rc == 0 && !is_full(f) && f->stored.inode == f->at.inode && f->stored.bytes <= f->at.bytes) {
		f->end = FILE_WRITTEN;
		rc = put(f);
	} else if (rc == 0) {
		f->end = FILE_NOT_YET;
	}
	if (rc == 0)
		return;
	f->end = FILE_FAILED;
	close_file(f);
}

/* --- loop */

static void done(void *file)
{
	struct file *f = file;
	struct sink *s = f->s;

	s->all->lanes--;
	s->file = f->at;
	s->file_dirty = true;
	if (f->end == FILE_WRITTEN)
		s->all->on->taken(s);
	else if (f->end == FILE_NOT_YET)
		s->all->on->not_yet(s);
	else
		s->all->on->failed(s, f->err.msg, 0);
}

static void send_file(struct sink *s, const struct sink_batch *b)
{
	struct file *f = s->own;

	f->b = b;
	f->at = s->file;
	f->stored = s->file_stored;
	s->all->lanes++;
	if (ev_work(s->all->env.loop, EV_LANE_SINK, body, done, f) == 0)
		return;
	s->all->lanes--;
	s->all->on->failed(s, "no thread can be had", 0);
}

static int open_type(struct sink *s, struct err *err)
{
	struct file *f = mem_zalloc(sizeof(*f));

	f->s = s;
	f->fd = -1;
	s->own = f;
	(void)err;
	return 0;
}

static void close_type(struct sink *s)
{
	struct file *f = s->own;

	close_file(f);
	free(f);
}

const struct sink_type sink_file = { NULL, open_type, send_file, close_type, NULL, NULL, NULL };
