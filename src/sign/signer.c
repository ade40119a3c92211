/* The signer: two keys, and what it has signed with them.  It signs a larger tree only with a proof that it grew out
 * of the last one, and only once that it did so is on the disk (AUDIT A-712): whoever forks a log, or has two, cannot
 * get both signed.
 *
 * Its directory: `state` (tlog/signer.h, no secret), `log.key` and `epoch-N.key` (32 bytes each, 0400), `lock`, and
 * `epochs`: a line of each that began, "NUMBER HEX-OF-KEY HEX-OF-CERTIFICATE", for a store that has lost them. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tlog/note.h"
#include "tlog/signer.h"

#include "sign_int.h"

enum { LOCK_WAIT_MS = 5000, LOCK_POLL_MS = 5 };         /* for a signer whose owner has just died */

struct signer {
	char *dir;
	int lock_fd;
	struct signer_state state;
	uint8_t *log_secret, *epoch_secret;     /* guarded memory; zero without keys */
};

/* --- files */

static char *key_path(const struct signer *s, uint64_t epoch)
{
	return mem_printf("%s/epoch-%" PRIu64 ".key", s->dir, epoch);
}

static int take_lock(struct signer *s, struct err *err)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	const struct timespec pause = { .tv_nsec = LOCK_POLL_MS * 1000000 };
	char *path = path_join(s->dir, "lock");
	int rc = 0;

	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->lock_fd < 0)
		rc = err_set(err, ERR_UNREACHABLE, path, "cannot open %s: %s", path, strerror(errno));
	for (unsigned ms = 0; rc == 0 && fcntl(s->lock_fd, F_OFD_SETLK, &all) != 0; ms += LOCK_POLL_MS) {
		if (ms >= LOCK_WAIT_MS)
			rc = err_set(err, ERR_CONFLICT, path, "another signer uses %s", s->dir);
		nanosleep(&pause, NULL);
	}
	free(path);
	return rc;
}

static int read_key(const char *path, const uint8_t public[SIGN_PUBLIC_SIZE], uint8_t *ret_secret, struct err *err)
{
	uint8_t is[SIGN_PUBLIC_SIZE];
	struct str seed = STR_INIT;
	int rc = path_read_as(path, PATH_SECRET, SIGN_SEED_SIZE, &seed, err);

	if (rc == 0 && seed.len != SIGN_SEED_SIZE)
		rc = err_set(err, ERR_CORRUPT, path, "a key has %d bytes", SIGN_SEED_SIZE);
	if (rc == 0) {
		sign_keys((const uint8_t *)seed.p, is, ret_secret);
		if (memcmp(is, public, sizeof(is)) != 0)
			rc = err_set(err, ERR_CORRUPT, path, "the key is not the one that the state names");
	}
	str_wipe(&seed);
	return rc;
}

static int write_key(const char *path, uint8_t *ret_public, uint8_t *ret_secret, struct err *err)
{
	uint8_t *seed = secret_alloc(SIGN_SEED_SIZE);
	int rc;

	id_random(seed, SIGN_SEED_SIZE);
	sign_keys(seed, ret_public, ret_secret);
	rc = path_replace(path, 0400, seed, SIGN_SEED_SIZE, err);
	secret_free(seed);
	return rc;
}

/* A key that must not sign again: overwritten, then removed (AUDIT A-731). */
static void destroy_key(const struct signer *s, uint64_t epoch)
{
	static const uint8_t zero[SIGN_SEED_SIZE];
	char *path = key_path(s, epoch);
	int fd;

	(void)chmod(path, 0600);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0) {
		if (write(fd, zero, sizeof(zero)) == (ssize_t)sizeof(zero))
			(void)fsync(fd);
		close(fd);
	}
	(void)unlink(path);
	free(path);
}

static int save(const struct signer *s, struct err *err)
{
	char *path = path_join(s->dir, SIGNER_FILE);
	struct str text = STR_INIT;
	int rc;

	signer_state_print(&s->state, &text);
	rc = path_prepare(path, 0640, text.p, text.len, err);
	CRASH_AT("sign.state.tmp");
	if (rc == 0)
		rc = path_put_in_place(path, err);
	CRASH_AT("sign.state.renamed");
	str_fini(&text);
	free(path);
	return rc;
}

static int load(struct signer *s, struct err *err)
{
	char *path = path_join(s->dir, SIGNER_FILE), *log_key = path_join(s->dir, "log.key"), *epoch_key = NULL;
	struct str text = STR_INIT;
	int rc = 0;

	if (path_exists(path)) {
		rc = path_read(path, SIGNER_FILE_MAX, &text, err);
		if (rc == 0)
			rc = signer_state_parse(&s->state, text.p, text.len, err);
		if (rc == 0) {
			epoch_key = key_path(s, s->state.epoch);
			rc = read_key(log_key, s->state.log_key, s->log_secret, err);
		}
		if (rc == 0)
			rc = read_key(epoch_key, s->state.epoch_key, s->epoch_secret, err);
		if (rc == 0) {
			/* A rotation that was cut short left the key before, or the one that was to come. */
			if (s->state.epoch > 0)
				destroy_key(s, s->state.epoch - 1);
			destroy_key(s, s->state.epoch + 1);
		}
	}
	str_fini(&text);
	free(path);
	free(log_key);
	free(epoch_key);
	return rc;
}

int signer_open(const char *dir, struct signer **ret, struct err *err)
{
	struct signer *s = mem_zalloc(sizeof(*s));
	int rc = path_mkdirs(dir, 0700, err);

	s->dir = mem_strdup(dir);
	s->lock_fd = -1;
	s->log_secret = secret_alloc(SIGN_SECRET_SIZE);
	s->epoch_secret = secret_alloc(SIGN_SECRET_SIZE);
	signer_state_init(&s->state);
	if (rc == 0)
		rc = take_lock(s, err);
	if (rc == 0)
		rc = load(s, err);
	if (rc < 0) {
		signer_close(&s);
		return rc;
	}
	*ret = s;
	return 0;
}

void signer_close(struct signer **sp)
{
	struct signer *s = *sp;

	if (!s)
		return;
	*sp = NULL;
	secret_free(s->log_secret);
	secret_free(s->epoch_secret);
	signer_state_fini(&s->state);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	free(s->dir);
	free(s);
}

int signer_keys(const struct signer *s, struct note_key *ret_log, struct note_key *ret_epoch, struct err *err)
{
	if (!s->state.instance[0])
		return err_set(err, ERR_NOT_FOUND, s->dir, "no store has been signed from here yet");
	if (note_key_set(ret_log, s->state.instance, s->state.log_key) < 0 ||
	    epoch_key_set(ret_epoch, s->state.instance, s->state.epoch, s->state.epoch_key) < 0)
		return err_set(err, ERR_CORRUPT, s->dir, "the instance has no name for a key");
	return 0;
}

/* --- replies */

static int refuse(struct sign_msg *reply, const char *why)
{
	sign_msg_fini(reply);
	reply->op = SIGN_ERROR;
	reply->text = mem_strdup(why);
	return 0;
}

static void sign_pair_of(const struct signer *s, const char *origin, uint64_t size, const uint8_t root[TREE_HASH],
			 struct sign_pair *ret)
{
	struct checkpoint cp = { .size = size };
	struct str text = STR_INIT;

	snprintf(cp.origin, sizeof(cp.origin), "%s", origin);
	memcpy(cp.root, root, TREE_HASH);
	checkpoint_print(&cp, &text);
	ret->verdict = SIGN_SIGNED;
	sign_make(s->log_secret, text.p, text.len, ret->log);
	sign_make(s->epoch_secret, text.p, text.len, ret->epoch);
	str_fini(&text);
}

static void say_who(const struct signer *s, struct sign_msg *reply)
{
	const struct signer_state *st = &s->state;
	struct sign_who *who = mem_zalloc(sizeof(*who));

	who->instance = mem_strdup(st->instance);
	who->logs = st->nlogs;
	who->epoch = st->epoch;
	memcpy(who->log_key, st->log_key, sizeof(who->log_key));
	memcpy(who->epoch_key, st->epoch_key, sizeof(who->epoch_key));
	memcpy(who->cert, st->cert, sizeof(who->cert));
	reply->who = who;
}

/* --- requests */

static int answer_create(struct signer *s, const struct sign_msg *req, struct sign_msg *reply, struct err *err)
{
	struct signer_state *st = &s->state;
	struct note_key key;
	char *path;
	int rc;

	if (st->instance[0])
		return refuse(reply, "this signer has keys already");
	/* Room for what an origin and an epoch append to it. */
	if (strlen(req->text) > NOTE_NAME_MAX / 2 || note_key_set(&key, req->text, st->log_key) < 0)
		return refuse(reply, "this is no name of an instance");
	path = path_join(s->dir, "log.key");
	rc = write_key(path, st->log_key, s->log_secret, err);
	free(path);
	path = key_path(s, 0);
	if (rc == 0)
		rc = write_key(path, st->epoch_key, s->epoch_secret, err);
	free(path);
	if (rc == 0) {
		snprintf(st->instance, sizeof(st->instance), "%s", req->text);
		(void)signer_state_add(st, st->instance);
		rc = save(s, err);
	}
	if (rc == 0)
		say_who(s, reply);
	return rc;
}

/* The system log, or the log of a tenant. */
static bool is_ours(const struct signer *s, const char *origin)
{
	size_t len = strlen(s->state.instance);
	struct note_key key;

	return strncmp(origin, s->state.instance, len) == 0 && strncmp(origin + len, "/t/", 3) == 0 &&
	       note_key_set(&key, origin, s->state.log_key) == 0;
}

static int answer_open(struct signer *s, const struct sign_msg *req, struct sign_msg *reply, struct err *err)
{
	for (size_t i = 0; i < req->nhead; i++)
		if (!is_ours(s, req->head[i].origin) || signer_state_find(&s->state, req->head[i].origin))
			return refuse(reply, "a log is begun once, and under the name of its instance");
	for (size_t i = 0; i < req->nhead; i++)
		if (!signer_state_find(&s->state, req->head[i].origin) && !signer_state_add(&s->state, req->head[i].origin))
			return refuse(reply, "there are too many logs");
	return save(s, err);
}

static void answer_logs(const struct signer *s, const struct sign_msg *req, struct sign_msg *reply)
{
	size_t room = SIGN_FRAME_MAX / 2;

	reply->head = mem_calloc(SIGN_HEADS_MAX, sizeof(*reply->head));
	for (uint64_t i = req->number; i < s->state.nlogs && reply->nhead < SIGN_HEADS_MAX; i++) {
		const struct signer_log *l = s->state.log[i];
		struct sign_head *h = &reply->head[reply->nhead];
		size_t need = strlen(l->origin) + 64;

		if (need > room)
			break;
		room -= need;
		h->origin = mem_strdup(l->origin);
		h->size = l->size;
		memcpy(h->root, l->root, TREE_HASH);
		reply->nhead++;
	}
}

/* Its records from some size on were given up, and it is never signed under this name again. */
static bool is_closed(const struct signer *s, const char *name)
{
	char origin[NOTE_NAME_MAX + 1], next[NOTE_NAME_MAX + 1];
	uint64_t n;
	size_t len = succession_split(name, &n);

	snprintf(origin, sizeof(origin), "%.*s", (int)len, name);
	succession_name(origin, n + 1, next);
	return signer_state_find(&s->state, next) != NULL;
}

static enum sign_verdict judge(const struct signer *s, const struct sign_head *h)
{
	const struct signer_log *l = signer_state_find(&s->state, h->origin);
	bool grew;

	if (!l)
		return SIGN_UNKNOWN;
	if (is_closed(s, h->origin))
		return SIGN_CONTRADICTION;
	if (l->size == 0)
		grew = h->size > 0 && h->nproof == 0;
	else
		grew = h->size <= INT64_MAX && tree_check_consistency(l->size, h->size, l->root, h->root,
								      (const uint8_t (*)[TREE_HASH])h->proof, h->nproof);
	return grew && h->size <= INT64_MAX ? SIGN_SIGNED : SIGN_CONTRADICTION;
}

static bool remember(struct signer *s, const struct sign_head *h)
{
	struct signer_log *l = signer_state_find(&s->state, h->origin);
	bool moved = l->size != h->size;

	l->size = h->size;
	memcpy(l->root, h->root, TREE_HASH);
	return moved;
}

static int answer_sign(struct signer *s, const struct sign_msg *req, struct sign_msg *reply, struct err *err)
{
	bool moved = false;
	int rc = 0;

	reply->pair = mem_calloc(req->nhead ? req->nhead : 1, sizeof(*reply->pair));
	reply->npair = req->nhead;
	reply->number = s->state.epoch;
	for (size_t i = 0; i < req->nhead; i++) {
		enum sign_verdict v = judge(s, &req->head[i]);

		reply->pair[i].verdict = (uint8_t)v;
		if (v == SIGN_SIGNED)
			moved |= remember(s, &req->head[i]);
	}
	if (moved)
		rc = save(s, err);
	for (size_t i = 0; rc == 0 && i < req->nhead; i++)
		if (reply->pair[i].verdict == SIGN_SIGNED)
			sign_pair_of(s, req->head[i].origin, req->head[i].size, req->head[i].root, &reply->pair[i]);
	return rc;
}

/* --- logs that go on behind a restore */

/* Nobody can prove that what the store has is what was signed before: the records between are gone.  So it is another
 * name, and the one of before stays as it is, for whoever compares.  Asked again, it is as it was. */
static const char *judge_successor(const struct signer *s, const struct sign_head *h)
{
	char origin[NOTE_NAME_MAX + 1], last[NOTE_NAME_MAX + 1];
	const struct signer_log *is = signer_state_find(&s->state, h->origin), *before;
	uint64_t n;
	size_t len = succession_split(h->origin, &n);
	struct note_key key;

	if (n == 0 || note_key_set(&key, h->origin, s->state.log_key) < 0)
		return "this is no name under which a log goes on";
	snprintf(origin, sizeof(origin), "%.*s", (int)len, h->origin);
	succession_name(origin, n - 1, last);
	before = signer_state_find(&s->state, last);
	if (!before || is_closed(s, h->origin))
		return "a log goes on under the name that is next";
	if (is)
		return is->size == h->size && (h->size == 0 || memcmp(is->root, h->root, TREE_HASH) == 0) ? NULL
			: "the log goes on somewhere else already";
	return h->size < INT64_MAX ? NULL : "a log is not as long";
}

static int answer_succeed(struct signer *s, const struct sign_msg *req, struct sign_msg *reply, struct err *err)
{
	const char *why = NULL;

	for (size_t i = 0; i < req->nhead && !why; i++)
		why = judge_successor(s, &req->head[i]);
	if (why)
		return refuse(reply, why);
	for (size_t i = 0; i < req->nhead; i++) {
		const struct sign_head *h = &req->head[i];
		struct signer_log *l = signer_state_find(&s->state, h->origin);

		if (!l)
			l = signer_state_add(&s->state, h->origin);
		if (!l)
			return refuse(reply, "there are too many logs");
		l->size = h->size;
		memcpy(l->root, h->root, TREE_HASH);
	}
	return save(s, err);
}

/* --- epochs that are over */

enum { PAST_LINE = 20 + 1 + 2 * SIGN_PUBLIC_SIZE + 1 + 2 * SIGN_SIZE + 2 };

/* Durable before the epoch is; who dies between leaves a line that a later one of the same number replaces. */
static int note_epoch(const struct signer *s, struct err *err)
{
	char public[2 * SIGN_PUBLIC_SIZE + 1], cert[2 * SIGN_SIZE + 1], line[PAST_LINE];
	char *path = path_join(s->dir, "epochs");
	int n, rc = 0, fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);

	text_hex(s->state.epoch_key, SIGN_PUBLIC_SIZE, public);
	text_hex(s->state.cert, SIGN_SIZE, cert);
	n = snprintf(line, sizeof(line), "\n%" PRIu64 " %s %s", s->state.epoch, public, cert);
	if (fd < 0 || write(fd, line, (size_t)n) != n || fsync(fd) != 0)
		rc = err_set(err, ERR_IO, path, "cannot write %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(path);
	return rc;
}

static bool read_past(const char *line, uint64_t want, struct sign_who *ret)
{
	const size_t key = 2 * SIGN_PUBLIC_SIZE, cert = 2 * SIGN_SIZE;
	const char *space = strchr(line, ' ');
	uint64_t n;

	return space && text_u64(line, (size_t)(space - line), &n) == 0 && n == want &&
	       strlen(space) == 1 + key + 1 + cert && text_unhex(space + 1, key, ret->epoch_key, SIGN_PUBLIC_SIZE) == 0 &&
	       text_unhex(space + 1 + key + 1, cert, ret->cert, SIGN_SIZE) == 0;
}

static int answer_past(const struct signer *s, const struct sign_msg *req, struct sign_msg *reply)
{
	char *path = path_join(s->dir, "epochs"), line[PAST_LINE];
	FILE *f = req->number < s->state.epoch ? fopen(path, "re") : NULL;
	bool found = req->number == s->state.epoch;

	free(path);
	say_who(s, reply);
	reply->who->epoch = req->number;
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		found |= read_past(line, req->number, reply->who);
	}
	if (f)
		(void)fclose(f);
	return found ? 0 : refuse(reply, "this signer does not know that epoch any more");
}

/* The new epoch begins on the disk together with the checkpoint that is its first (AUDIT A-734). */
static int begin_epoch(struct signer *s, const struct sign_head *h, struct err *err)
{
	struct signer_state *st = &s->state;
	uint8_t *next = secret_alloc(SIGN_SECRET_SIZE), text[EPOCH_CERT_TEXT];
	char *path = key_path(s, st->epoch + 1);
	int rc = write_key(path, st->epoch_key, next, err);

	if (rc == 0) {
		epoch_cert_text(st->epoch + 1, st->epoch_key, text);
		sign_make(s->epoch_secret, text, sizeof(text), st->cert);
		st->epoch++;
		(void)remember(s, h);
		rc = note_epoch(s, err);
		CRASH_AT("epoch.cert");
	}
	if (rc == 0)
		rc = save(s, err);
	if (rc == 0) {
		memcpy(s->epoch_secret, next, SIGN_SECRET_SIZE);
		destroy_key(s, st->epoch - 1);
		CRASH_AT("epoch.wiped");
	}
	secret_free(next);
	free(path);
	return rc;
}

static int answer_rotate(struct signer *s, const struct sign_msg *req, struct sign_msg *reply, struct err *err)
{
	int rc;

	if (req->nhead != 1 || !succession_is(req->head[0].origin, s->state.instance))
		return refuse(reply, "an epoch begins with a checkpoint of the system log");
	if (req->number != s->state.epoch)
		return refuse(reply, "another epoch is in force");
	if (judge(s, &req->head[0]) != SIGN_SIGNED)
		return refuse(reply, "the system log contradicts what was signed before");
	rc = begin_epoch(s, &req->head[0], err);
	if (rc == 0) {
		say_who(s, reply);
		reply->pair = mem_zalloc(sizeof(*reply->pair));
		reply->npair = 1;
		sign_pair_of(s, req->head[0].origin, req->head[0].size, req->head[0].root, reply->pair);
	}
	return rc;
}

int signer_answer(struct signer *s, const struct sign_msg *req, struct sign_msg *reply, struct err *err)
{
	bool empty = !s->state.instance[0];
	int rc = 0;

	*reply = (struct sign_msg){ .op = req->op };
	if (empty && req->op != SIGN_HELLO && req->op != SIGN_CREATE)
		return refuse(reply, "this signer has no keys yet");
	switch ((enum sign_op)req->op) {
	case SIGN_HELLO:
		say_who(s, reply);
		break;
	case SIGN_CREATE:
		rc = answer_create(s, req, reply, err);
		break;
	case SIGN_OPEN:
		rc = answer_open(s, req, reply, err);
		break;
	case SIGN_LOGS:
		answer_logs(s, req, reply);
		break;
	case SIGN_SIGN:
		rc = answer_sign(s, req, reply, err);
		break;
	case SIGN_ROTATE:
		rc = answer_rotate(s, req, reply, err);
		break;
	case SIGN_SUCCEED:
		rc = answer_succeed(s, req, reply, err);
		break;
	case SIGN_PAST:
		rc = answer_past(s, req, reply);
		break;
	case SIGN_ERROR:
	case SIGN_OP_COUNT:
		return refuse(reply, "this is no request");
	}
	if (rc < 0)
		(void)refuse(reply, "the signer cannot write its state");
	return rc;
}
