/* The connection to the signer: made, greeted, compared with what the store knows of it; a copy of its directory. */

#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/db.h"
#include "ev/helper.h"
#include "tlog/signer.h"

#include "notary_int.h"

int notary_connect(struct notary *n, struct err *err)
{
	if (n->socket)
		return sign_connect(n->socket, &n->fd, err);
	return ev_helper_start(n->loop, LAUNCHER_SIGN, (const char *const[]){ "--dir", n->dir, NULL }, &n->fd,
			       &n->helper, err);
}

void notary_disconnect(struct notary *n, uint32_t wait_ms)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
	n->greeted = false;
	ev_helper_end(&n->helper, wait_ms);
}

/* --- the greeting */

static void take_who(struct notary *n, struct sign_msg *reply)
{
	if (n->who)
		free(n->who->instance);
	free(n->who);
	n->who = reply->who;
	reply->who = NULL;
}

static int lost_keys(const struct notary *n, struct err *err)
{
	(void)err_set(err, ERR_CORRUPT, n->place, "the signer (%s) has no keys, and the store was signed before", n->place);
	err_hint(err, "put the signer's directory back as it was, or name it as signer.dir or signer.socket; else "
		 HINT_TOGETHER);
	return ERR_CORRUPT;
}

static int put_back(struct err *err)
{
	err_hint(err, HINT_TOGETHER);
	return err->code;
}

static int check_next_epoch(const struct notary *n, struct err *err)
{
	uint8_t text[EPOCH_CERT_TEXT];

	epoch_cert_text(n->who->epoch, n->who->epoch_key, text);
	if (sign_check(n->stored.public, text, sizeof(text), n->who->cert))
		return 0;
	return err_set(err, ERR_CORRUPT, n->place, "the epoch %" PRIu64 " of the signer (%s) does not follow from the store's",
		       n->who->epoch, n->place);
}

int notary_epoch_ahead(const struct notary *n, struct err *err)
{
	(void)err_set(err, ERR_CORRUPT, n->place, "SIGNER_AHEAD: the signer (%s) is in epoch %" PRIu64
		      ", of which the store knows nothing: the store was put back to an earlier state", n->place, n->who->epoch);
	return put_back(err);
}

/* Whether this is the signer of this store, and neither of the two was put back (AUDIT ). */
static int check_who(struct notary *n, const char *instance, struct err *err)
{
	const struct sign_who *who = n->who;

	if (strcmp(who->instance, instance) != 0)
		(void)err_set(err, ERR_CONFLICT, n->place, "the signer (%s) signs for another store", n->place);
	if (strcmp(who->instance, instance) != 0)
		return put_back(err);
	if (!n->known && who->epoch == 0)
		return 0;
	if (!n->known || who->epoch > n->stored.n + 1) {
		n->epochs_lost = n->known && n->starting;
		return n->epochs_lost ? 0 : notary_epoch_ahead(n, err);
	}
	if (who->epoch < n->stored.n) {
		(void)err_set(err, ERR_CORRUPT, n->place, "the signer (%s) is in epoch %" PRIu64 " and the store in %" PRIu64
			      ": the signer was put back to an earlier state", n->place, who->epoch, n->stored.n);
		return put_back(err);
	}
	if (who->epoch > n->stored.n)
		return check_next_epoch(n, err);
	if (memcmp(who->epoch_key, n->stored.public, SIGN_PUBLIC_SIZE) != 0)
		return err_set(err, ERR_CONFLICT, n->place, "the signer (%s) has another key than the store names", n->place);
	return 0;
}

static void learn(struct notary *n, const struct sign_head *h)
{
	struct base *b = map_get_z(n->bases, h->origin);

	if (!b) {
		b = mem_zalloc(sizeof(*b));
		map_set_z(n->bases, h->origin, b);
	}
	/* What a lost reply has left open is told by the list. */
	if (b->size != h->size)
		b->has_tree = false;
	b->size = h->size;
	memcpy(b->root, h->root, TREE_HASH);
}

static int list_logs(struct notary *n, uint64_t until_us, struct err *err)
{
	struct sign_msg req = { .op = SIGN_LOGS }, reply = { 0 };
	int rc;

	do {
		rc = sign_call(n->fd, until_us, &req, &reply, err);
		if (rc < 0)
			return rc;
		for (size_t i = 0; i < reply.nhead; i++)
			learn(n, &reply.head[i]);
		req.number += reply.nhead;
		rc = reply.nhead > 0;
		sign_msg_fini(&reply);
	} while (rc == 1);
	return 0;
}

int notary_greet(struct notary *n, const char *instance, struct err *err)
{
	uint64_t until_us = clock_mono_us() + GREET_MS * 1000ull;
	struct sign_msg req = { .op = SIGN_HELLO, .number = 1 }, reply = { 0 };
	int rc = sign_call(n->fd, until_us, &req, &reply, err);

	if (rc == ERR_UNREACHABLE && !n->socket)        /* one of ours: it has said why before it ended */
		err_hint(err, "what toolcrib-sign says above names the file: put it back as it was, else " HINT_TOGETHER);
	if (rc == 0 && !*reply.who->instance) {
		if (n->known)
			rc = lost_keys(n, err);
		sign_msg_fini(&reply);
		if (rc == 0) {
			req = (struct sign_msg){ .op = SIGN_CREATE, .text = mem_strdup(instance) };
			rc = sign_call(n->fd, until_us, &req, &reply, err);
			free(req.text);
		}
	}
	if (rc == 0) {
		take_who(n, &reply);
		sign_msg_fini(&reply);
		rc = check_who(n, instance, err);
	}
	if (rc == 0)
		rc = list_logs(n, until_us, err);
	n->greeted = rc == 0;
	return rc;
}

/* --- a look from outside */

static int check_instance(struct db *db, const char *socket, const char *instance, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_VERIFY_GET_SYSTEM);
	int rc = db_step(st, err);

	if (rc == 1 && strcmp(db_col_text(st, 0, NULL), instance) != 0)
		rc = err_set(err, ERR_CONFLICT, socket, "the signer (%s) signs for another store", socket);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int notary_look(const char *socket, struct db *db, struct err *err)
{
	struct sign_msg req = { .op = SIGN_HELLO, .number = 1 }, reply = { 0 };
	int fd = -1, rc = sign_connect(socket, &fd, err);

	if (rc < 0)
		return rc;
	rc = sign_call(fd, clock_mono_us() + CALL_MS * 1000ull, &req, &reply, err);
	if (rc == 0) {
		if (db && *reply.who->instance)
			rc = check_instance(db, socket, reply.who->instance, err);
		sign_msg_fini(&reply);
	}
	close(fd);
	return rc;
}

/* --- a copy of its directory, as a tar archive (POSIX.1-1988 ustar): state, log.key, epoch-N.key */

enum { BLOCK = 512, TRIES = 3 };
#define FOLDER "signer/"

struct tar_head {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[8], user[32], group[32],
		major[8], minor[8], prefix[155], pad[12];
};

static void put_member(struct str *tar, const char *name, unsigned mode, const void *p, size_t n)
{
	static const char zeros[BLOCK];
	struct tar_head h = { .type = p ? '0' : '5', .magic = "ustar" };
	unsigned sum = 0;

	(void)snprintf(h.name, sizeof(h.name), FOLDER "%s", name);
	(void)snprintf(h.mode, sizeof(h.mode), "%07o", mode);
	(void)snprintf(h.uid, sizeof(h.uid), "%07o", (unsigned)geteuid() & 07777777u);
	(void)snprintf(h.gid, sizeof(h.gid), "%07o", (unsigned)getegid() & 07777777u);
	(void)snprintf(h.size, sizeof(h.size), "%011zo", n);
	(void)snprintf(h.mtime, sizeof(h.mtime), "%011" PRIo64,
		       clock_wall_us() / 1000000 & UINT64_C(077777777777));
	memcpy(h.magic + 6, "00", 2);
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const uint8_t *)&h)[i];
	(void)snprintf(h.sum, sizeof(h.sum), "%06o", sum);
	str_put(tar, &h, sizeof(h));
	str_put(tar, p, n);
	str_put(tar, zeros, (BLOCK - n % BLOCK) % BLOCK);
}

static void put_end(struct str *tar)
{
	static const char zeros[2 * BLOCK];

	str_put(tar, zeros, sizeof(zeros));
}

static int read_state(const char *dir, struct str *text, struct signer_state *ret, struct err *err)
{
	char *path = path_join(dir, SIGNER_FILE);
	int rc = path_read(path, SIGNER_FILE_MAX, text, err);

	signer_state_init(ret);
	if (rc == 0)
		rc = signer_state_parse(ret, text->p, text->len, err);
	if (rc == 0 && !ret->instance[0])
		rc = err_set(err, ERR_NOT_FOUND, path, "the signer has no keys yet");
	free(path);
	return rc;
}

/* 1: it is the one that the state names; 0: it is another, or gone, since an epoch began. */
static int put_key(const char *dir, const char *name, const uint8_t public[SIGN_PUBLIC_SIZE], struct str *tar,
		   struct err *err)
{
	uint8_t is[SIGN_PUBLIC_SIZE], *secret = secret_alloc(SIGN_SECRET_SIZE);
	char *path = path_join(dir, name);
	struct str seed = STR_INIT;
	int rc = path_read_as(path, PATH_SECRET, SIGN_SEED_SIZE, &seed, err);

	if (rc == 0 && seed.len == SIGN_SEED_SIZE) {
		sign_keys((const uint8_t *)seed.p, is, secret);
		rc = memcmp(is, public, sizeof(is)) == 0;
	}
	if (rc == 1)
		put_member(tar, name, 0400, seed.p, seed.len);
	else if (rc < 0 && !path_exists(path))
		rc = 0;
	str_wipe(&seed);
	secret_free(secret);
	free(path);
	return rc;
}

static int take(const char *dir, struct notary_copy *c, struct err *err)
{
	struct signer_state s;
	struct str text = STR_INIT;
	char epoch[40];
	int rc = read_state(dir, &text, &s, err);

	c->epoch = s.epoch;
	c->logs = s.nlogs;
	if (rc == 0) {
		put_member(&c->tar, "", 0700, NULL, 0);
		put_member(&c->tar, SIGNER_FILE, 0640, text.p, text.len);
		(void)snprintf(epoch, sizeof(epoch), "epoch-%" PRIu64 ".key", s.epoch);
		rc = put_key(dir, "log.key", s.log_key, &c->tar, err);
	}
	if (rc == 1)
		rc = put_key(dir, epoch, s.epoch_key, &c->tar, err);
	put_end(&c->tar);
	str_fini(&text);
	signer_state_fini(&s);
	return rc;
}

int notary_copy_take(const char *dir, struct notary_copy *ret, struct err *err)
{
	int rc = 0;

	for (unsigned i = 0; i < TRIES && rc == 0; i++) {
		*ret = (struct notary_copy){ .tar = { .secret = true } };
		rc = take(dir, ret, err);
		if (rc != 1)
			notary_copy_fini(ret);
	}
	if (rc == 0)
		rc = err_set(err, ERR_CORRUPT, dir, "the keys in %s are not those that its state names", dir);
	return rc < 0 ? rc : 0;
}

int notary_copy_holds(const struct notary_copy *c, const char *dir, struct err *err)
{
	struct signer_state s;
	struct str text = STR_INIT;
	int rc = read_state(dir, &text, &s, err);

	if (rc == 0)
		rc = s.epoch == c->epoch && s.nlogs == c->logs;
	str_fini(&text);
	signer_state_fini(&s);
	return rc;
}

static int write_all(int fd, const char *path, const struct str *text, struct err *err)
{
	for (size_t at = 0; at < text->len;) {
		ssize_t n = write(fd, text->p + at, text->len - at);

		if (n < 0 && errno != EINTR)
			return err_set(err, ERR_IO, path, "cannot write %s: %s", path, strerror(errno));
		at += n > 0 ? (size_t)n : 0;
	}
	return fsync(fd) == 0 ? 0 : err_set(err, ERR_IO, path, "cannot write %s: %s", path, strerror(errno));
}

int notary_copy_write(const struct notary_copy *c, const char *path, struct err *err)
{
	bool is_lent = false;
	int fd, rc = path_make(path, &fd, &is_lent, err);

	if (rc < 0)
		return rc;
	rc = write_all(fd, path, &c->tar, err);
	close(fd);
	if (rc == 0 && !is_lent)
		rc = path_sync_parent(path, err);
	if (rc < 0)
		path_unmake(path);
	return rc;
}

void notary_copy_fini(struct notary_copy *c)
{
	str_wipe(&c->tar);
}

struct base *notary_base(struct notary *n, const char *origin)
{
	return map_get_z(n->bases, origin);
}
