/* Error values: filling, wrapping and naming them.  What an error means to a peer is not decided here. */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

static const struct {
	enum err_code code;
	const char *name;
} err_names[] = {
	{ ERR_OK, "ok" },
	{ ERR_IO, "io" },
	{ ERR_TIMEOUT, "timeout" },
	{ ERR_CANCELLED, "cancelled" },
	{ ERR_INVALID, "invalid" },
	{ ERR_NOT_FOUND, "not_found" },
	{ ERR_DENIED, "denied" },
	{ ERR_CAPABILITY, "capability" },
	{ ERR_LIMIT, "limit" },
	{ ERR_RATE, "rate" },
	{ ERR_BUSY, "busy" },
	{ ERR_AUDIT, "audit" },
	{ ERR_CONFLICT, "conflict" },
	{ ERR_CORRUPT, "corrupt" },
	{ ERR_UNCERTAIN, "uncertain" },
	{ ERR_INTERNAL, "internal" },
	{ ERR_UNREACHABLE, "unreachable" },
	{ ERR_TOOL, "tool" },
};

/* Copy src into dst[size]; when it does not fit, cut it before a UTF-8 sequence, not inside one. */
static void copy_cut(char *dst, size_t size, const char *src)
{
	size_t n = strnlen(src, size);

	if (n == size) {
		n = size - 1;
		while (n > 0 && ((unsigned char)src[n] & 0xc0) == 0x80)
			n--;
	}
	memcpy(dst, src, n);
	dst[n] = '\0';
}

/* Room for a text of any member and its context, so that only copy_cut() decides where to cut. */
enum { SCRATCH_SIZE = 1024 };

int err_set(struct err *e, enum err_code code, const char *where, const char *fmt, ...)
{
	char msg[SCRATCH_SIZE], place[sizeof(e->where)];
	va_list ap;

	if (!e)
		return code;
	/* The arguments may point into *e: format first, store last. */
	va_start(ap, fmt);
	if (vsnprintf(msg, sizeof(msg), fmt, ap) < 0)
		msg[0] = '\0';
	va_end(ap);
	copy_cut(place, sizeof(place), where ? where : "");
	memset(e, 0, sizeof(*e));
	e->code = code;
	copy_cut(e->where, sizeof(e->where), place);
	copy_cut(e->msg, sizeof(e->msg), msg);
	return code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char msg[SCRATCH_SIZE];
	va_list ap;
	int n;

	if (!e)
		return ERR_INTERNAL;
	va_start(ap, fmt);
	n = vsnprintf(msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	if (n < 0)
		n = 0;
	if ((size_t)n >= sizeof(e->msg))
		n = sizeof(e->msg) - 1;
	(void)snprintf(msg + n, sizeof(msg) - (size_t)n, "%s%s", n ? ": " : "", e->msg); /* fits */
	copy_cut(e->msg, sizeof(e->msg), msg);
	return e->code;
}

void err_at(struct err *e, const char *prefix)
{
	char where[SCRATCH_SIZE];

	if (!e || !prefix)
		return;
	(void)snprintf(where, sizeof(where), "%s%s", prefix, e->where); /* copy_cut() cuts again */
	copy_cut(e->where, sizeof(e->where), where);
}

void err_hint(struct err *e, const char *fmt, ...)
{
	char hint[SCRATCH_SIZE];
	va_list ap;

	if (!e)
		return;
	va_start(ap, fmt);
	if (vsnprintf(hint, sizeof(hint), fmt, ap) < 0)
		hint[0] = '\0';
	va_end(ap);
	copy_cut(e->hint, sizeof(e->hint), hint);
}

const char *err_name(int code)
{
	for (size_t i = 0; i < NELEMS(err_names); i++)
		if ((int)err_names[i].code == code)
			return err_names[i].name;
	return "unknown";
}

enum err_code err_from_name(const char *name)
{
	for (size_t i = 0; i < NELEMS(err_names); i++)
		if (name && strcmp(err_names[i].name, name) == 0)
			return err_names[i].code;
	return ERR_INTERNAL;
}
