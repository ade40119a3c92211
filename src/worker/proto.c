/*
 * The messages as bytes; numbers big-endian, texts behind their length:
 *
 *	READY   op 1
 *	RUN     op 1, name 4+n, time 8, brisk 8, memory 8, answer 8, the bytes to the end
 *	DONE    op 1, last 1, the bytes to the end
 *	FAILED  op 1, last 1, code 1, where 4+n, message 4+n
 */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "worker/proto.h"

#define CODE_MAX 17                     /* of enum err_code, without its sign */

void worker_put(struct str *out, uint64_t v, unsigned bytes)
{
	char text[8];

	for (unsigned i = 0; i < bytes; i++)
		text[i] = (char)(uint8_t)(v >> 8 * (bytes - 1 - i));
	str_put(out, text, bytes);
}

void worker_put_bytes(struct str *out, const void *p, size_t len)
{
	worker_put(out, len, 4);
	str_put(out, p, len);
}

/* Texts go into logs and to clients, so that they are written as they may be shown. */
static void put_printable(struct str *out, const char *text, size_t size)
{
	char shown[sizeof(((struct err *)0)->msg)];

	text_printable(text, strlen(text), shown, size);
	worker_put_bytes(out, shown, strlen(shown));
}

void worker_msg_encode(const struct worker_msg *m, struct str *out)
{
	size_t at = out->len, len;

	worker_put(out, 0, WORKER_HEAD_SIZE);
	worker_put(out, m->op, 1);
	if (m->op == WORKER_RUN) {
		worker_put_bytes(out, m->name, strlen(m->name));
		worker_put(out, m->time_us, 8);
		worker_put(out, m->brisk_us, 8);
		worker_put(out, m->memory, 8);
		worker_put(out, m->answer_max, 8);
	} else if (m->op != WORKER_READY) {
		worker_put(out, m->last, 1);
	}
	if (m->op == WORKER_FAILED) {
		worker_put(out, (uint64_t)-m->err.code, 1);
		put_printable(out, m->err.where, sizeof(m->err.where));
		put_printable(out, m->err.msg, sizeof(m->err.msg));
	}
	if (m->op == WORKER_RUN || m->op == WORKER_DONE)
		str_put(out, m->p, m->len);
	if (out->failed)
		return;
	len = out->len - at - WORKER_HEAD_SIZE;
	for (unsigned i = 0; i < WORKER_HEAD_SIZE; i++)
		out->p[at + i] = (char)(uint8_t)(len >> 8 * (WORKER_HEAD_SIZE - 1 - i));
}

size_t worker_msg_length(const void *p)
{
	struct worker_cursor c = { p, WORKER_HEAD_SIZE, false };

	return worker_take(&c, WORKER_HEAD_SIZE);
}

/* --- reading */

static const char *take(struct worker_cursor *c, size_t n)
{
	const char *p = c->p;

	if (c->failed || n > c->len) {
		c->failed = true;
		return NULL;
	}
	c->p += n;
	c->len -= n;
	return p;
}

uint64_t worker_take(struct worker_cursor *c, unsigned bytes)
{
	const char *p = take(c, bytes);
	uint64_t v = 0;

	for (unsigned i = 0; p && i < bytes; i++)
		v = v << 8 | (uint8_t)p[i];
	return v;
}

const char *worker_take_bytes(struct worker_cursor *c, size_t *ret_len)
{
	size_t len = worker_take(c, 4);
	const char *p = take(c, len);

	*ret_len = p ? len : 0;
	return p ? p : "";
}

/* A flag is 0 or 1. */
static bool take_flag(struct worker_cursor *c)
{
	uint64_t v = worker_take(c, 1);

	c->failed = c->failed || v > 1;
	return v == 1;
}

static void take_name(struct worker_cursor *c, char *ret, size_t size)
{
	size_t len;
	const char *p = worker_take_bytes(c, &len);

	c->failed = c->failed || len == 0 || len >= size;
	for (size_t i = 0; i < len && !c->failed; i++) {
		c->failed = !((p[i] >= 'a' && p[i] <= 'z') || p[i] == '_');
		ret[i] = p[i];
	}
}

/* What put_printable() writes, and nothing else. */
static void take_printable(struct worker_cursor *c, char *ret, size_t size)
{
	char shown[2 * sizeof(((struct err *)0)->msg)];
	size_t len;
	const char *p = worker_take_bytes(c, &len);

	c->failed = c->failed || len >= size || memchr(p, 0, len) || !text_utf8_valid(p, len);
	if (c->failed)
		return;
	text_printable(p, len, shown, sizeof(shown));
	c->failed = !text_eq(p, len, shown);
	if (len > 0)
		memcpy(ret, p, len);
	ret[len] = '\0';
}

static void take_err(struct worker_cursor *c, struct err *ret)
{
	uint64_t code = worker_take(c, 1);

	c->failed = c->failed || code < 1 || code > CODE_MAX;
	ret->code = (enum err_code)-(int)code;
	take_printable(c, ret->where, sizeof(ret->where));
	take_printable(c, ret->msg, sizeof(ret->msg));
}

int worker_msg_decode(const void *p, size_t len, struct worker_msg *ret)
{
	struct worker_cursor c = { p, len, false };
	struct worker_msg m = { 0 };

	m.op = (uint8_t)worker_take(&c, 1);
	if (m.op == 0 || m.op >= WORKER_OP_COUNT)
		return ERR_INVALID;
	if (m.op == WORKER_RUN) {
		take_name(&c, m.name, sizeof(m.name));
		m.time_us = worker_take(&c, 8);
		m.brisk_us = worker_take(&c, 8);
		m.memory = worker_take(&c, 8);
		m.answer_max = worker_take(&c, 8);
	} else if (m.op != WORKER_READY) {
		m.last = take_flag(&c);
	}
	if (m.op == WORKER_FAILED)
		take_err(&c, &m.err);
	if (m.op == WORKER_RUN || m.op == WORKER_DONE) {
		m.len = c.len;
		m.p = take(&c, c.len);
	}
	if (c.failed || c.len > 0)
		return ERR_INVALID;
	*ret = m;
	return 0;
}
