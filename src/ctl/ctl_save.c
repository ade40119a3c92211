/* The file that a command sends in parts: written here, by who runs the command, and removed again unless it came
 * whole. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "json/json.h"

#include "ctl_int.h"

struct ctl_save {
	char *path;
	int fd;
	struct digest *digest;
	json_t *last;                   /* the row that says what it is */
	struct err err;                 /* the first; nothing is written any more */
};

static int cannot(const struct ctl_save *s, struct err *err)
{
	return err_set(err, errno == EEXIST ? ERR_CONFLICT : ERR_IO, "", "%s: %s", s->path, strerror(errno));
}

int ctl_save_new(const struct ctl_line *line, struct ctl_save **ret, struct err *err)
{
	struct ctl_save *s = mem_zalloc(sizeof(*s));

	s->path = mem_strdup(json_string_value(json_object_get(line->args, "file")));
	s->fd = open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->fd < 0) {
		int rc = cannot(s, err);

		free(s->path);
		free(s);
		return rc;
	}
	s->digest = digest_new();
	*ret = s;
	return 0;
}

static void write_all(struct ctl_save *s, const uint8_t *p, size_t n)
{
	digest_put(s->digest, p, n);
	while (n > 0) {
		ssize_t k = write(s->fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			(void)cannot(s, &s->err);
			return;
		}
		p += k;
		n -= (size_t)k;
	}
}

static void take_data(struct ctl_save *s, const json_t *data)
{
	size_t len = json_string_length(data), n = 0;
	uint8_t *bytes = mem_alloc(len + 1);

	if (text_unbase64(json_string_value(data), len, bytes, len, &n) < 0)
		(void)err_set(&s->err, ERR_IO, "", "%s: a part of it is no base64", s->path);
	else
		write_all(s, bytes, n);
	free(bytes);
}

static void take_line(struct ctl_save *s, const char *p, size_t len)
{
	json_t *line = NULL;
	const json_t *data, *row;

	if (jx_parse(p, len, &line, NULL) < 0) {
		(void)err_set(&s->err, ERR_IO, "", "%s: a part of it cannot be read", s->path);
		return;
	}
	row = json_object_get(line, "row");
	data = json_object_get(row, "data");
	if (json_is_string(data)) {
		take_data(s, data);
	} else {
		json_decref(s->last);
		s->last = json_incref((json_t *)(uintptr_t)row);
	}
	json_decref(line);
}

void ctl_save_feed(void *save, const struct str *rows)
{
	struct ctl_save *s = save;

	for (const char *line = str_text(rows), *nl; !s->err.code && (nl = strchr(line, '\n')); line = nl + 1)
		take_line(s, line, (size_t)(nl - line));
}

static int check_whole(struct ctl_save *s, struct err *err)
{
	const char *said = json_string_value(json_object_get(s->last, "sha256"));
	uint8_t digest[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1];

	if (s->err.code) {
		*err = s->err;
		return s->err.code;
	}
	digest_end(&s->digest, digest);
	text_hex(digest, sizeof(digest), hex);
	if (!said || strcmp(said, hex) != 0)
		return err_set(err, ERR_IO, "", "%s: what came is not what was sent", s->path);
	return fsync(s->fd) == 0 ? path_sync_parent(s->path, err) : cannot(s, err);
}

int ctl_save_end(struct ctl_save **sp, bool whole, struct str *ret, struct err *err)
{
	struct ctl_save *s = *sp;
	int rc = whole ? check_whole(s, err) : 0;

	*sp = NULL;
	close(s->fd);
	if (!whole || rc < 0) {
		(void)unlink(s->path);
	} else {
		json_object_set_new(s->last, "bundle", json_string(s->path));
		str_puts(ret, "{\"row\":");
		jx_write(s->last, ret);
		str_puts(ret, "}\n");
	}
	if (s->digest) {
		uint8_t rest[DIGEST_SIZE];

		digest_end(&s->digest, rest);
	}
	json_decref(s->last);
	free(s->path);
	free(s);
	return rc;
}
