/*
 * The messages as bytes, all of one form; numbers big-endian, texts and lists behind their length:
 *
 *	op 1, number 8, text 2+n
 *	heads 2: each origin 2+n, size 8, root 32, proof 1: each 32
 *	pairs 2: each verdict 1, signatures 64 and 64
 *	who 1: instance 2+n, log key 32, epoch key 32, certificate 64, epoch 8, logs 8
 */

#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "sign/proto.h"

void sign_msg_fini(struct sign_msg *m)
{
	for (size_t i = 0; i < m->nhead; i++) {
		free(m->head[i].origin);
		free(m->head[i].proof);
	}
	free(m->head);
	free(m->pair);
	if (m->who)
		free(m->who->instance);
	free(m->who);
	free(m->text);
	*m = (struct sign_msg){ 0 };
}

/* --- writing */

static void put_be(struct str *out, uint64_t v, unsigned bytes)
{
	while (bytes > 0)
		str_putc(out, (char)(uint8_t)(v >> 8 * --bytes));
}

static void put_text(struct str *out, const char *text)
{
	size_t len = text ? strlen(text) : 0;

	put_be(out, len, 2);
	str_put(out, text, len);
}

static void put_pair(struct str *out, const struct sign_pair *pair)
{
	put_be(out, pair->verdict, 1);
	str_put(out, pair->log, SIGN_SIZE);
	str_put(out, pair->epoch, SIGN_SIZE);
}

static void put_head(struct str *out, const struct sign_head *head)
{
	put_text(out, head->origin);
	put_be(out, head->size, 8);
	str_put(out, head->root, TREE_HASH);
	put_be(out, head->nproof, 1);
	str_put(out, head->proof, head->nproof * TREE_HASH);
}

static void put_who(struct str *out, const struct sign_who *who)
{
	put_text(out, who->instance);
	str_put(out, who->log_key, sizeof(who->log_key));
	str_put(out, who->epoch_key, sizeof(who->epoch_key));
	str_put(out, who->cert, sizeof(who->cert));
	put_be(out, who->epoch, 8);
	put_be(out, who->logs, 8);
}

int sign_msg_encode(const struct sign_msg *m, struct str *out)
{
	struct str body;
	bool fits;

	str_init(&body, SIGN_FRAME_MAX);
	put_be(&body, m->op, 1);
	put_be(&body, m->number, 8);
	put_text(&body, m->text);
	put_be(&body, m->nhead, 2);
	for (size_t i = 0; i < m->nhead; i++)
		put_head(&body, &m->head[i]);
	put_be(&body, m->npair, 2);
	for (size_t i = 0; i < m->npair; i++)
		put_pair(&body, &m->pair[i]);
	put_be(&body, m->who != NULL, 1);
	if (m->who)
		put_who(&body, m->who);
	fits = !body.failed && m->nhead <= SIGN_HEADS_MAX && m->npair <= SIGN_HEADS_MAX;
	if (fits) {
		put_be(out, body.len, SIGN_HEAD_SIZE);
		str_put(out, body.p, body.len);
	}
	str_fini(&body);
	return fits ? 0 : ERR_LIMIT;
}

/* --- reading: after the first thing that is missing everything is */

struct cursor { const uint8_t *p; size_t len; bool failed; };

static const uint8_t *take(struct cursor *c, size_t n)
{
	const uint8_t *p = c->p;

	if (c->failed || n > c->len) {
		c->failed = true;
		return NULL;
	}
	c->p += n;
	c->len -= n;
	return p;
}

static uint64_t take_be(struct cursor *c, unsigned bytes)
{
	const uint8_t *p = take(c, bytes);
	uint64_t v = 0;

	for (unsigned i = 0; p && i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

static void take_bytes(struct cursor *c, void *ret, size_t n)
{
	const uint8_t *p = take(c, n);

	if (p)
		memcpy(ret, p, n);
}

static char *take_text(struct cursor *c)
{
	size_t len = take_be(c, 2);
	const uint8_t *p = take(c, len);

	if (p && memchr(p, '\0', len))
		c->failed = true;
	return c->failed ? NULL : mem_strndup((const char *)p, len);
}

/* How many there are of what takes at least so many bytes each: nothing is allocated for what cannot be there. */
static size_t take_count(struct cursor *c, unsigned bytes, size_t each)
{
	size_t n = take_be(c, bytes);

	if (n > c->len / each || n > SIGN_HEADS_MAX)
		c->failed = true;
	return c->failed ? 0 : n;
}

static void take_pair(struct cursor *c, struct sign_pair *ret)
{
	ret->verdict = (uint8_t)take_be(c, 1);
	take_bytes(c, ret->log, SIGN_SIZE);
	take_bytes(c, ret->epoch, SIGN_SIZE);
}

static void take_head(struct cursor *c, struct sign_head *ret)
{
	ret->origin = take_text(c);
	ret->size = take_be(c, 8);
	take_bytes(c, ret->root, TREE_HASH);
	ret->nproof = take_count(c, 1, TREE_HASH);
	if (ret->nproof > TREE_PROOF_MAX) {
		c->failed = true;
		ret->nproof = 0;
	}
	if (ret->nproof > 0) {
		ret->proof = mem_calloc(ret->nproof, TREE_HASH);
		take_bytes(c, ret->proof, ret->nproof * TREE_HASH);
	}
}

static struct sign_who *take_who(struct cursor *c)
{
	struct sign_who *who = mem_zalloc(sizeof(*who));

	who->instance = take_text(c);
	take_bytes(c, who->log_key, sizeof(who->log_key));
	take_bytes(c, who->epoch_key, sizeof(who->epoch_key));
	take_bytes(c, who->cert, sizeof(who->cert));
	who->epoch = take_be(c, 8);
	who->logs = take_be(c, 8);
	return who;
}

int sign_msg_decode(const void *p, size_t len, struct sign_msg *ret)
{
	enum { HEAD_LEAST = 2 + 8 + TREE_HASH + 1, PAIR = 1 + 2 * SIGN_SIZE };
	struct cursor c = { p, len, false };
	struct sign_msg m = { 0 };
	uint64_t who;

	m.op = (uint8_t)take_be(&c, 1);
	m.number = take_be(&c, 8);
	m.text = take_text(&c);
	m.nhead = take_count(&c, 2, HEAD_LEAST);
	m.head = m.nhead ? mem_calloc(m.nhead, sizeof(*m.head)) : NULL;
	for (size_t i = 0; i < m.nhead; i++)
		take_head(&c, &m.head[i]);
	m.npair = take_count(&c, 2, PAIR);
	m.pair = m.npair ? mem_calloc(m.npair, sizeof(*m.pair)) : NULL;
	for (size_t i = 0; i < m.npair; i++)
		take_pair(&c, &m.pair[i]);
	who = take_be(&c, 1);
	if (who == 1)
		m.who = take_who(&c);
	if (c.failed || who > 1 || c.len > 0 || m.op == 0 || m.op >= SIGN_OP_COUNT) {
		sign_msg_fini(&m);
		return ERR_INVALID;
	}
	*ret = m;
	return 0;
}

/* --- sockets */

static int await(int fd, short what, uint64_t until_us, struct err *err)
{
	struct pollfd p = { .fd = fd, .events = what };

	for (;;) {
		uint64_t now = clock_mono_us();
		int ms = -1, n;

		if (until_us && now >= until_us)
			return err_set(err, ERR_TIMEOUT, "signer", "the signer did not answer in time");
		if (until_us)
			ms = until_us - now > 60000000 ? 60000 : (int)((until_us - now + 999) / 1000);
		n = poll(&p, 1, ms);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return err_set(err, ERR_UNREACHABLE, "signer", "poll: %s", strerror(errno));
	}
}

/* 1; 0 when the other side ended before the first byte. */
static int read_all(int fd, uint64_t until_us, void *p, size_t n, struct err *err)
{
	char *at = p;

	while (n > 0) {
		int rc = await(fd, POLLIN, until_us, err);
		ssize_t got;

		if (rc < 0)
			return rc;
		got = recv(fd, at, n, MSG_DONTWAIT);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (got == 0 && at == p)
			return 0;
		if (got <= 0)
			return err_set(err, ERR_UNREACHABLE, "signer", "the connection ended: %s", got ? strerror(errno) : "cut short");
		at += got;
		n -= (size_t)got;
	}
	return 1;
}

int sign_msg_read(int fd, uint64_t until_us, struct sign_msg *ret, struct err *err)
{
	uint8_t head[SIGN_HEAD_SIZE];
	uint8_t *body;
	size_t len;
	int rc = read_all(fd, until_us, head, sizeof(head), err);

	if (rc <= 0)
		return rc;
	len = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
	if (len == 0 || len > SIGN_FRAME_MAX)
		return err_set(err, ERR_INVALID, "signer", "a message of %zu bytes", len);
	body = mem_alloc(len);
	rc = read_all(fd, until_us, body, len, err);
	if (rc == 0)
		rc = err_set(err, ERR_UNREACHABLE, "signer", "the connection ended: cut short");
	if (rc == 1 && sign_msg_decode(body, len, ret) < 0)
		rc = err_set(err, ERR_INVALID, "signer", "a message that means nothing");
	free(body);
	return rc;
}

int sign_msg_write(int fd, uint64_t until_us, const struct sign_msg *m, struct err *err)
{
	struct str bytes = STR_INIT;
	int rc = sign_msg_encode(m, &bytes);

	if (rc < 0)
		rc = err_set(err, ERR_LIMIT, "signer", "a message of more than %d bytes", SIGN_FRAME_MAX);
	for (size_t at = 0; rc == 0 && at < bytes.len;) {
		ssize_t n;

		rc = await(fd, POLLOUT, until_us, err);
		if (rc < 0)
			break;
		n = send(fd, bytes.p + at, bytes.len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			at += (size_t)n;
		else if (n < 0 && errno != EAGAIN && errno != EINTR)
			rc = err_set(err, ERR_UNREACHABLE, "signer", "the connection ended: %s", strerror(errno));
	}
	str_fini(&bytes);
	return rc;
}
