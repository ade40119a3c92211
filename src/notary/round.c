/* A round: proofs that the logs grew out of what the signer has signed last, its signatures, notes of both. */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"

#include "notary_int.h"

enum { FRAME_ROOM = SIGN_FRAME_MAX - 1024 };    /* for heads of one request */

void round_fini(struct round *r)
{
	for (size_t i = 0; r->note && i < r->beat.nhead; i++)
		str_fini(&r->note[i]);
	free(r->note);
	if (r->epoch)
		free(r->epoch->instance);
	free(r->epoch);
	audit_beat_fini(&r->beat);
	*r = (struct round){ 0 };
}

struct base *notary_base(struct notary *n, const char *origin)
{
	return map_get_z(n->bases, origin);
}

int notary_base_tree(struct db *db, int64_t log, const char *origin, struct base *b, struct err *err)
{
	uint8_t root[TREE_HASH];
	int rc;

	if (b->has_tree)
		return 0;
	rc = audit_cp_find(db, log, b->size, &b->tree, err);
	if (rc >= 0)
		rc = audit_grow(db, log, b->size, &b->tree, NULL, err);
	if (rc < 0)
		return rc;
	tree_root(&b->tree, root);
	if (b->size > 0 && memcmp(root, b->root, TREE_HASH) != 0)
		return err_set(err, ERR_CORRUPT, origin, "the log %s is not what the signer has signed", origin);
	b->has_tree = true;
	return 0;
}

/* --- asking */

/* One request that is being filled; the heads borrow origins from the beat. */
struct batch {
	struct sign_head head[SIGN_HEADS_MAX];
	size_t at[SIGN_HEADS_MAX];      /* which head of the beat */
	size_t n, bytes;
};

static void batch_clear(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->head[i].proof);
	b->n = b->bytes = 0;
}

static int prove(struct notary *n, struct db *db, const struct audit_head *h, struct sign_head *ret, struct err *err)
{
	struct base *b = notary_base(n, h->origin);
	struct tree_span *since;
	struct tree grown;
	int rc = notary_base_tree(db, h->log, h->origin, b, err);

	if (rc < 0)
		return rc;
	*ret = (struct sign_head){ .origin = h->origin, .size = h->tree.size };
	tree_root(&h->tree, ret->root);
	if (b->size == 0)
		return 0;
	since = mem_alloc(sizeof *since);
	grown = b->tree;
	tree_span_start(since, b->size);
	rc = audit_grow(db, h->log, h->tree.size, &grown, since, err);
	if (rc == 0) {
		ret->proof = mem_calloc(TREE_PROOF_MAX, TREE_HASH);
		tree_prove_growth(&b->tree, since, ret->proof, &ret->nproof);
	}
	free(since);
	return rc;
}

static void keep_signed(struct notary *n, struct round *r, size_t at, const struct sign_head *head, const struct sign_pair *pair)
{
	struct base *b = notary_base(n, head->origin);

	b->size = head->size;
	memcpy(b->root, head->root, TREE_HASH);
	b->tree = r->beat.head[at].tree;
	b->has_tree = true;
	sign_note(n->who, head, pair, &r->note[at]);
}

static int ask(struct notary *n, struct round *r, struct batch *b, struct err *err)
{
	struct sign_msg req = { .op = SIGN_SIGN, .head = b->head, .nhead = b->n }, reply = { 0 };
	int rc = sign_call(n->fd, clock_mono_us() + CALL_MS * 1000ull, &req, &reply, err);

	if (rc == 0 && reply.number != n->who->epoch)
		rc = err_set(err, ERR_CONFLICT, n->place, "the signer has begun an epoch for somebody else");
	for (size_t i = 0; rc == 0 && i < b->n; i++) {
		rc = sign_check_pair(n->who, &b->head[i], &reply.pair[i], err);
		if (rc == 0)
			keep_signed(n, r, b->at[i], &b->head[i], &reply.pair[i]);
	}
	sign_msg_fini(&reply);
	batch_clear(b);
	return rc;
}

/* Logs that are new to the signer are begun there, once (AUDIT A-713). */
static int open_logs(struct notary *n, const struct round *r, struct err *err)
{
	struct sign_head head[SIGN_HEADS_MAX];
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && at < r->beat.nhead) {
		struct sign_msg req = { .op = SIGN_OPEN, .head = head }, reply = { 0 };
		size_t bytes = 0;

		for (; at < r->beat.nhead && req.nhead < SIGN_HEADS_MAX && bytes < FRAME_ROOM / 2; at++) {
			if (notary_base(n, r->beat.head[at].origin))
				continue;
			head[req.nhead++] = (struct sign_head){ .origin = r->beat.head[at].origin };
			bytes += strlen(r->beat.head[at].origin) + 64;
		}
		if (req.nhead > 0)
			rc = sign_call(n->fd, clock_mono_us() + CALL_MS * 1000ull, &req, &reply, err);
		for (size_t i = 0; rc == 0 && i < req.nhead; i++)
			map_set_z(n->bases, head[i].origin, mem_zalloc(sizeof(struct base)));
		sign_msg_fini(&reply);
	}
	return rc;
}

static int rotate(struct notary *n, struct db *db, struct round *r, size_t at, struct err *err)
{
	struct sign_head head = { 0 };
	struct sign_msg req = { .op = SIGN_ROTATE, .number = n->who->epoch, .head = &head, .nhead = 1 }, reply = { 0 };
	int rc = prove(n, db, &r->beat.head[at], &head, err);

	if (rc == 0)
		rc = sign_call(n->fd, clock_mono_us() + CALL_MS * 1000ull, &req, &reply, err);
	if (rc == 0 && reply.who->epoch != n->who->epoch + 1)
		rc = err_set(err, ERR_INVALID, n->place, "the signer's new epoch is not the next one");
	if (rc == 0)
		rc = sign_check_pair(reply.who, &head, &reply.pair[0], err);
	if (rc == 0) {
		free(n->who->instance);
		free(n->who);
		n->who = reply.who;
		reply.who = NULL;
		keep_signed(n, r, at, &head, &reply.pair[0]);
		r->rotated = true;
	}
	sign_msg_fini(&reply);
	free(head.proof);
	return rc;
}

static int sign_heads(struct notary *n, struct db *db, struct round *r, struct err *err)
{
	struct batch *b = mem_zalloc(sizeof *b);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->beat.nhead; i++) {
		const struct audit_head *h = &r->beat.head[i];
		struct sign_head one = { 0 };

		if (r->note[i].len > 0)
			continue;
		rc = prove(n, db, h, &one, err);
		size_t bytes = strlen(h->origin) + 64 + one.nproof * TREE_HASH;
		if (rc == 0 && (b->n == SIGN_HEADS_MAX || b->bytes + bytes > FRAME_ROOM))
			rc = ask(n, r, b, err);
		b->head[b->n] = one;
		b->at[b->n++] = i;
		b->bytes += bytes;
	}
	if (rc == 0 && b->n > 0)
		rc = ask(n, r, b, err);
	batch_clear(b);
	free(b);
	return rc;
}

static const char *instance_of(const struct round *r)
{
	return r->beat.head[r->beat.nhead - 1].origin;  /* the system log's */
}

int notary_sign(struct notary *n, struct db *db, struct round *r, struct err *err)
{
	int rc = 0;

	if (n->fd < 0)
		return err_set(err, ERR_UNREACHABLE, n->place, "there is no connection to the signer (%s)", n->place);
	if (!n->greeted)
		rc = notary_greet(n, instance_of(r), err);
	r->note = mem_calloc(r->beat.nhead, sizeof *r->note);
	if (rc == 0)
		rc = open_logs(n, r, err);
	CRASH_AT("cp.asked");
	/* An epoch that the store has not heard of comes first: it needs a checkpoint of its own (AUDIT A-734). */
	if (rc == 0 && r->rotate && n->known && n->who->epoch == n->stored.n)
		rc = rotate(n, db, r, r->beat.nhead - 1, err);
	if (rc == 0)
		rc = sign_heads(n, db, r, err);
	if (rc < 0)
		return rc;
	CRASH_AT("cp.signed");
	r->number = n->who->epoch;
	if (!n->known || n->who->epoch != n->stored.n) {
		r->epoch = mem_dup(n->who, sizeof *n->who);
		r->epoch->instance = mem_strdup(n->who->instance);
	}
	return 0;
}

/* --- taking down */

int notary_take_down(struct notary *n, struct db *db, struct audit_logs *logs, struct round *r, struct err *err)
{
	struct audit_note *notes = mem_calloc(r->beat.nhead, sizeof *notes);
	int rc = 0;

	for (size_t i = 0; i < r->beat.nhead; i++)
		notes[i] = (struct audit_note){ r->note[i].len ? r->note[i].p : NULL, r->note[i].len };
	if (r->epoch && r->epoch->epoch == 0)
		rc = audit_log_key_set(db, r->epoch->log_key, err);
	if (rc == 0 && r->epoch)
		rc = audit_epoch_begin(logs, db, r->epoch->epoch, r->epoch->epoch_key, r->epoch->epoch > 0 ? r->epoch->cert : NULL, err);
	if (rc == 0)
		rc = audit_beat_store(logs, db, &r->beat, notes, (int64_t)r->number, err);
	free(notes);
	return rc;
}
