/* What is written into a target: parts, each a file of age that is durable before the manifest's line on it, and lines.
 * By toolcrib-ship alone. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "age/age.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

#include "ship_int.h"

static int failed(const char *path, struct err *err)
{
	return err_set(err, ERR_IO, path, "cannot write %s: %s", path, strerror(errno));
}

static int write_all(int fd, const char *path, const void *p, size_t n, struct err *err)
{
	const char *at = p;

	while (n > 0) {
		ssize_t put = write(fd, at, n);

		if (put < 0 && errno != EINTR)
			return failed(path, err);
		at += put > 0 ? put : 0;
		n -= put > 0 ? (size_t)put : 0;
	}
	return 0;
}

/* --- the manifest */

static int open_manifest(struct ship_chain *c, const char *target, uint64_t generation, int flags, struct err *err)
{
	char *folder = ship_folder(target, generation), *path = path_join(folder, SHIP_MANIFEST);
	int rc = path_mkdirs(folder, 0700, err);

	c->generation = generation;
	c->fd = rc == 0 ? open(path, O_WRONLY | O_CLOEXEC | flags, 0600) : -1;
	if (rc == 0 && c->fd < 0)
		rc = failed(path, err);
	if (rc == 0)
		rc = path_sync_parent(path, err);
	if (rc == 0)
		rc = path_sync_parent(folder, err);
	if (rc < 0)
		ship_chain_close(c);
	free(path);
	free(folder);
	return rc;
}

int ship_chain_begin(struct ship_chain *c, const char *target, uint64_t generation, struct err *err)
{
	struct ship_line l = { .kind = SHIP_BEGIN, .at_us = clock_wall_us(), .pages = generation };
	int rc;

	*c = (struct ship_chain){ .fd = -1 };
	rc = open_manifest(c, target, generation, O_CREAT | O_EXCL, err);
	return rc < 0 ? rc : ship_chain_add(c, &l, err);
}

int ship_chain_resume(struct ship_chain *c, const char *target, uint64_t generation, const struct ship_reader *r,
		      uint64_t n, struct err *err)
{
	*c = (struct ship_chain){ .n = n, .fd = -1 };
	ship_reader_end(r, c->digest, &c->bytes);
	return open_manifest(c, target, generation, 0, err);
}

/* What an attempt that failed has left behind the last whole line goes. */
int ship_chain_add(struct ship_chain *c, struct ship_line *l, struct err *err)
{
	struct str text = STR_INIT;
	int rc = 0;

	l->n = c->n + 1;
	memcpy(l->prev, c->digest, DIGEST_SIZE);
	ship_line_print(l, &text);
	str_putc(&text, '\n');
	if (ftruncate(c->fd, (off_t)c->bytes) || lseek(c->fd, (off_t)c->bytes, SEEK_SET) < 0)
		rc = failed(SHIP_MANIFEST, err);
	if (rc == 0)
		rc = write_all(c->fd, SHIP_MANIFEST, text.p, text.len, err);
	if (rc == 0 && fdatasync(c->fd))
		rc = failed(SHIP_MANIFEST, err);
	if (rc == 0) {
		digest_sha256(text.p, text.len - 1, c->digest);
		c->bytes += text.len;
		c->n++;
	}
	str_fini(&text);
	return rc;
}

void ship_chain_close(struct ship_chain *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/* --- a part */

struct ship_part {
	char *path, *file;
	int fd;
	struct digest *digest;
	uint64_t bytes;
	struct age_writer *writer;
};

static int put(void *arg, const void *p, size_t n, struct err *err)
{
	struct ship_part *part = arg;

	digest_put(part->digest, p, n);
	part->bytes += n;
	return write_all(part->fd, part->path, p, n, err);
}

int ship_part_begin(const char *target, const char *file, const struct age_recipient *to, size_t nto,
		    struct ship_part **ret, struct err *err)
{
	struct ship_part *p = mem_zalloc(sizeof(*p));
	char *folder;
	int rc;

	p->path = path_join(target, file);
	p->file = mem_strdup(file);
	folder = mem_strndup(p->path, (size_t)(strrchr(p->path, '/') - p->path));
	rc = path_mkdirs(folder, 0700, err);
	free(folder);
	p->fd = rc == 0 ? open(p->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
	if (rc == 0 && p->fd < 0)
		rc = failed(p->path, err);
	p->digest = digest_new();
	p->writer = age_writer_new(to, nto, put, p);
	*ret = p;
	return rc < 0 ? ship_part_end(ret, rc, NULL, err) : 0;
}

int ship_part_put(struct ship_part *p, const void *bytes, size_t n, struct err *err)
{
	return age_writer_put(p->writer, bytes, n, err);
}

int ship_part_end(struct ship_part **pp, int rc, struct ship_line *l, struct err *err)
{
	struct ship_part *p = *pp;
	uint8_t sha[DIGEST_SIZE];

	*pp = NULL;
	if (rc == 0)
		rc = age_writer_end(&p->writer, err);
	if (rc == 0 && fdatasync(p->fd))
		rc = failed(p->path, err);
	if (rc == 0)
		rc = path_sync_parent(p->path, err);
	digest_end(&p->digest, sha);
	if (rc == 0) {
		memcpy(l->sha, sha, DIGEST_SIZE);
		l->bytes = p->bytes;
		memcpy(l->file, p->file, strlen(p->file) + 1);
	} else if (p->fd >= 0) {
		(void)unlink(p->path);
	}
	if (p->fd >= 0)
		close(p->fd);
	age_writer_free(&p->writer);
	free(p->path);
	free(p->file);
	free(p);
	return rc;
}
