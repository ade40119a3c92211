/* The notary: lets a separate signer sign the logs as they grow.  A beat of the loop collects what is due in the
 * writer's transaction, a lane of its own asks the signer (round), the writer takes down what came of it.  guard.c
 * looks at the store at a start; at a stop the rest is signed on the writer's thread. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/record.h"
#include "audit/second.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/server.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "notary/notary.h"
#include "writer/writer.h"

#include "notary_int.h"

/* --- a round: proofs that the logs grew out of what the signer has signed last, its signatures, notes of both */

#define META_SIGNED "signed"            /* where nodes share the store: when the last round began (node_signed) */
enum { FRAME_ROOM = SIGN_FRAME_MAX - 1024 };    /* for heads of one request */

static void round_fini(struct round *r)
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

/* The base's tree out of the store.  ERR_CORRUPT: the store is not what was signed. */
static int notary_base_tree(struct db *db, int64_t log, const char *origin, struct base *b, struct err *err)
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

/* What has come since: by the leaves that came with the head; else whole tiles by their hash, so that a busy log is not
 * read again, the rest by leaves.  Whether the log has grown so is what the signer looks at. */
static int grow_since(struct db *db, const struct audit_head *h, struct tree_consistency *since, struct err *err)
{
	struct tree at = { 0 };         /* for its size alone */
	uint8_t hash[TREE_HASH];
	int rc = 0;

	for (uint64_t i = h->from; h->leaf && since->to == i && i < h->tree.size; i++)
		tree_consistency_append(since, h->leaf[i - h->from]);
	while (rc >= 0 && since->to < h->tree.size) {
		const uint64_t next = since->to - since->to % TILE_WIDTH + TILE_WIDTH;

		rc = since->to % TILE_WIDTH > 0 || next > h->tree.size ? 0 :
			audit_tile_get(db, h->log, 1, since->to / TILE_WIDTH, hash, err);
		at.size = since->to;
		if (rc == 1)
			tree_consistency_append_whole(since, TILE_HEIGHT, hash);
		else if (rc == 0)
			rc = audit_grow(db, h->log, next < h->tree.size ? next : h->tree.size, &at, since, err);
	}
	return rc < 0 ? rc : 0;
}

static int prove(struct notary *n, struct db *db, const struct audit_head *h, struct sign_head *ret, struct err *err)
{
	struct base *b = notary_base(n, h->origin);
	struct tree_consistency *since;
	int rc = notary_base_tree(db, h->log, h->origin, b, err);

	if (rc < 0)
		return rc;
	*ret = (struct sign_head){ .origin = h->origin, .size = h->tree.size };
	tree_root(&h->tree, ret->root);
	if (b->size == 0)
		return 0;
	since = mem_alloc(sizeof(*since));
	tree_consistency_start(since, b->size);
	rc = grow_since(db, h, since, err);
	if (rc == 0) {
		ret->proof = mem_calloc(TREE_PROOF_MAX, TREE_HASH);
		tree_consistency_prove(&b->tree, since, ret->proof, &ret->nproof);
	}
	free(since);
	return rc;
}

static void keep_signed(struct notary *n, struct round *r, size_t at, const struct sign_head *head,
			const struct sign_pair *pair)
{
	struct base *b = notary_base(n, head->origin);

	b->size = head->size;
	memcpy(b->root, head->root, TREE_HASH);
	b->tree = r->beat.head[at].tree;
	b->has_tree = true;
	sign_note(n->who, head, pair, &r->note[at]);
}

/* Of many signatures of one reply some are checked, by chance, and always the system log's, which is the last head:
 * a signer that does not work is found, and two checks take three times as long as all else of a note. */
static bool is_checked(const struct round *r, const struct batch *b, size_t i, uint64_t chance)
{
	const size_t every = (b->n + PAIRS_CHECKED - 1) / PAIRS_CHECKED;

	return b->at[i] + 1 == r->beat.nhead || (i + chance) % every == 0;
}

static int ask(struct notary *n, struct round *r, struct batch *b, struct err *err)
{
	struct sign_msg req = { .op = SIGN_SIGN, .head = b->head, .nhead = b->n }, reply = { 0 };
	int rc = sign_call(n->fd, clock_mono_us() + CALL_MS * 1000ull, &req, &reply, err);
	uint64_t chance;

	id_random(&chance, sizeof(chance));
	if (rc == 0 && reply.number != n->who->epoch)
		rc = err_set(err, ERR_CONFLICT, n->place, "the signer has begun an epoch for somebody else");
	for (size_t i = 0; rc == 0 && i < b->n; i++) {
		rc = sign_check_pair(n->who, &b->head[i], &reply.pair[i], is_checked(r, b, i, chance), err);
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
		rc = sign_check_pair(reply.who, &head, &reply.pair[0], true, err);
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
	struct batch *b = mem_zalloc(sizeof(*b));
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

/* From here on by the names under which they are signed. */
static void name_heads(const struct notary *n, struct audit_beat *b)
{
	char name[NOTE_NAME_MAX + 1];

	for (size_t i = 0; i < b->nhead && map_count(n->numbers) > 0; i++) {
		notary_name(n, b->head[i].origin, name);
		free(b->head[i].origin);
		b->head[i].origin = mem_strdup(name);
	}
}

/* The signer's part of a round, by a connection to the store that may read. */
static int notary_sign(struct notary *n, struct db *db, struct round *r, struct err *err)
{
	int rc = 0;

	if (n->fd < 0)
		return err_set(err, ERR_UNREACHABLE, n->place, "there is no connection to the signer (%s)", n->place);
	if (!n->greeted)
		rc = notary_greet(n, instance_of(r), err);
	r->note = mem_calloc(r->beat.nhead, sizeof(*r->note));
	name_heads(n, &r->beat);
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
		r->epoch = mem_dup(n->who, sizeof(*n->who));
		r->epoch->instance = mem_strdup(n->who->instance);
	}
	return 0;
}

/* --- taking down */

/* For nodes that do not sign. */
static int note_progress(struct db *db, uint64_t ts, struct err *err)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, ts);
	return db_meta_set(db, META_SIGNED, text, err);
}

/* In a transaction: what came of it. */
static int notary_take_down(struct notary *n, struct db *db, struct audit_logs *logs, struct round *r, struct err *err)
{
	struct audit_note *notes = mem_calloc(r->beat.nhead, sizeof(*notes));
	int rc = 0;

	for (size_t i = 0; i < r->beat.nhead; i++)
		notes[i] = (struct audit_note){ r->note[i].len ? r->note[i].p : NULL, r->note[i].len };
	if (r->epoch && r->epoch->epoch == 0)
		rc = audit_log_key_set(db, r->epoch->log_key, err);
	if (rc == 0 && r->epoch)
		rc = audit_epoch_begin(logs, db, r->epoch->epoch, r->epoch->epoch_key, r->epoch->epoch > 0 ? r->epoch->cert : NULL,
				       err);
	if (rc == 0)
		rc = audit_beat_store(logs, db, &r->beat, notes, (int64_t)r->number, err);
	free(notes);
	return rc < 0 || !n->shared ? rc : note_progress(db, r->beat.ts, err);
}

#define PLACE_KEY "signer"              /* of meta: where the signer is, when it is not beside the store */

static void begin_round(struct notary *n);

/* --- the end of a round */

static void call_waiters(struct notary *n, struct list *list, int rc)
{
	while (!list_empty(list)) {
		struct waiter *w = CONTAINER_OF(list->next, struct waiter, node);

		list_unlink(&w->node);
		w->done(w->arg, rc, rc < 0 ? &n->err : NULL);
		free(w);
	}
}

static void arm(struct notary *n, uint32_t ms)
{
	if (!n->stopping && !ev_timer_armed(n->timer))
		ev_timer_start(n->timer, ms * 1000ull);
}

/* AUDIT A-715: for a while calls go on; a contradiction is another matter. */
static void hold_if_late(struct notary *n)
{
	uint64_t now = ev_now_us(n->loop);

	if (n->refused)
		writer_hold(n->writer, "the signer contradicts the store: see the log");
	else if (n->unsigned_us && now - n->unsigned_us > n->max_age_s * 1000000ull)
		writer_hold(n->writer, "checkpoints of the audit cannot be signed");
}

static void failed(struct notary *n, int rc)
{
	static struct log_site site;

	metric_inc(METRIC_checkpoint_failures);
	if (log_allow(&site))
		log_err(NULL, "a checkpoint was not signed why=\"%s\" where=%s", n->err.msg, n->err.where);
	n->refused |= rc == ERR_CORRUPT || rc == ERR_CONFLICT;
	/* What came of a request that was cut short is asked anew, of a signer that starts from its disk. */
	if (n->state == NOTARY_SIGNS)
		notary_disconnect(n, 0);
	hold_if_late(n);
	n->again = true;
}

/* What came of saying heads: when again, if not all are said. */
static void note_said(struct notary *n)
{
	uint64_t now = ev_now_us(n->loop), due;

	if (n->round.say != AUDIT_SAY_LATER)
		n->said_us = n->round_us;
	due = n->said_us + n->commit_every_s * 1000000ull;
	if (n->round.beat.owed && !n->stopping)
		ev_timer_start(n->heads, due > now ? due - now : 0);
	n->closed = n->closed ? !n->round.rotated : n->round.closes;
	n->again |= n->round.closes;
}

/* Who signs more logs than one round has goes round all of them in CYCLE_MS (AUDIT A-G07). */
static uint32_t until_next(const struct notary *n, int rc)
{
	const uint64_t rounds = (n->round.beat.left + TENANTS_MAX - 1) / TENANTS_MAX + 1, now = ev_now_us(n->loop);
	const uint64_t due = n->round_us + CYCLE_MS * 1000ull / rounds;

	return rc < 0 ? RETRY_MS : n->round.beat.left == 0 ? BEAT_MS : due > now ? (uint32_t)((due - now) / 1000) : 0;
}

static void end_round(struct notary *n, int rc)
{
	const uint32_t pause = until_next(n, rc);
	bool signed_any = rc == 0 && n->round.beat.nhead > 0;

	if (rc < 0) {
		failed(n, rc);
	} else {
		n->refused = false;
		note_said(n);
		n->again |= n->round.epoch != NULL || n->round.beat.left > 0;   /* its own record came behind its checkpoint */
		n->unsigned_us = n->again ? n->round_us : 0;
		writer_hold(n->writer, NULL);
		if (signed_any) {
			metric_inc(METRIC_checkpoints);
			metric_set(METRIC_checkpoint_time, clock_wall_us() / 1000000);
		}
		if (n->round.rotated)
			n->epoch_us = ev_now_us(n->loop);
		if (signed_any && (n->always || n->round.rotated))
			notary_anchor(n, &n->round);
	}
	round_fini(&n->round);
	n->state = NOTARY_IDLE;
	n->always = n->always && rc < 0;
	if (!n->stopping)
		ev_timer_start(n->heartbeat, HEARTBEAT_S * 1000000ull);
	if (n->again || !list_empty(&n->waiters))
		arm(n, pause);
	call_waiters(n, &n->running, rc);
}

/* --- taking down */

static int store_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct notary *n = arg;

	return notary_take_down(n, db, logs, &n->round, err);
}

static void note_epoch(struct notary *n, const struct round *r)
{
	if (!r->epoch)
		return;
	n->known = true;
	n->stored.n = r->epoch->epoch;
	memcpy(n->stored.public, r->epoch->epoch_key, SIGN_PUBLIC_SIZE);
}

static void store_done(void *arg, int rc, const struct err *err)
{
	struct notary *n = arg;

	CRASH_AT("cp.stored");
	if (rc < 0)
		n->err = *err;
	else
		note_epoch(n, &n->round);
	end_round(n, rc < 0 ? ERR_AUDIT : 0);
}

/* --- signing, on its lane */

static int open_reader(struct notary *n, struct err *err)
{
	if (n->reader)
		return 0;
	return db_open_store(db_in(n->store), &n->reader, err);
}

static void sign_body(void *arg)
{
	struct notary *n = arg;

	n->rc = open_reader(n, &n->err);
	if (n->rc == 0)
		n->rc = forms_see(n->reader, &n->err);
	if (n->rc == 0)
		n->rc = notary_sign(n, n->reader, &n->round, &n->err);
}

static void sign_done(void *arg)
{
	static const struct writer_job job = { .name = "checkpoint", .run = store_run, .volatile_only = true,
					       .done = store_done };
	struct notary *n = arg;

	if (n->rc < 0) {
		end_round(n, n->rc);
		return;
	}
	n->state = NOTARY_STORES;
	if (writer_submit(n->writer, &job, n) < 0)
		end_round(n, err_set(&n->err, ERR_AUDIT, "writer", "the store takes nothing now"));
}

/* --- what is due */

static int collect_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct notary *n = arg;
	bool all = n->round.rotate || n->round.closes;  /* an epoch begins and ends with all, and a record of its own */
	uint8_t policies[AUDIT_POLICIES_SIZE];
	struct audit_beat_opt opt = { .max = all ? SIZE_MAX : TENANTS_MAX, .say = n->round.say, .always = n->always || all,
				      .policies = policies };
	int rc = n->joins ? notary_join(n, db, logs, err) : 0;

	if (rc == 0)
		rc = audit_second_said(logs, db, policies, err);
	if (rc == 0)
		rc = audit_beat(logs, db, &opt, &n->round.beat, err);
	return rc < 0 ? rc : audit_beat_system(logs, db, &n->round.beat, err);
}

static void collect_done(void *arg, int rc, const struct err *err)
{
	struct notary *n = arg;

	if (rc < 0) {
		n->err = *err;
		end_round(n, ERR_AUDIT);
		return;
	}
	n->joins = false;
	if (n->round.beat.nhead == 0) {
		end_round(n, 0);
		return;
	}
	n->state = NOTARY_SIGNS;
	if (n->fd < 0)
		rc = notary_connect(n, &n->err);
	if (rc == 0)
		rc = ev_work(n->loop, EV_LANE_SIGN, sign_body, sign_done, n);
	if (rc == ERR_BUSY)
		(void)err_set(&n->err, ERR_BUSY, "signer", "no thread can be had");
	if (rc < 0)
		end_round(n, rc);
}

/* The last round of an epoch says the heads of all logs that grew in it, so that whoever verifies needs no other. */
static void begin_epoch(struct notary *n, uint64_t now)
{
	bool over = n->epoch_us && now - n->epoch_us > EPOCH_S * 1000000ull;

	n->round.closes = n->known && over && !n->closed;
	n->round.rotate = n->known && (n->epoch_us == 0 || (over && n->closed));
}

static enum audit_saying what_to_say(const struct notary *n, uint64_t now)
{
	bool due = n->said_us == 0 || now - n->said_us >= n->commit_every_s * 1000000ull;

	if (n->round.closes)
		return AUDIT_SAY_ALL;
	return due || n->always || n->round.rotate || !list_empty(&n->waiters) ? AUDIT_SAY_GROWN : AUDIT_SAY_LATER;
}

static void begin_round(struct notary *n)
{
	static const struct writer_job job = { .name = "beat", .run = collect_run, .volatile_only = true,
					       .done = collect_done };
	uint64_t now = ev_now_us(n->loop);

	if (n->state != NOTARY_IDLE) {
		n->again = true;
		return;
	}
	ev_timer_stop(n->timer);
	ev_timer_stop(n->heads);
	n->again = false;
	n->round_us = now;
	n->state = NOTARY_COLLECTS;
	n->round = (struct round){ 0 };
	begin_epoch(n, now);
	n->round.say = what_to_say(n, now);
	while (!list_empty(&n->waiters)) {
		struct list *first = n->waiters.next;

		list_unlink(first);
		list_push_back(&n->running, first);
	}
	if (writer_submit(n->writer, &job, n) < 0)
		end_round(n, err_set(&n->err, ERR_AUDIT, "writer", "the store takes nothing now"));
}

/* --- when */

static void on_timer(void *arg)
{
	struct notary *n = arg;

	if (!n->away) {
		begin_round(n);
		return;
	}
	(void)err_set(&n->err, ERR_CONFLICT, "signer", "another node of this store has its signer: toolcrib node list");
	call_waiters(n, &n->waiters, ERR_CONFLICT);
}

/* Whether the node that signs does so (CLUSTER K-209). */
static void watch_keeper(struct notary *n)
{
	const uint64_t is = writer_share_signed(n->writer);

	if (is != n->seen) {
		n->seen = is;
		n->unsigned_us = 0;
		writer_hold(n->writer, NULL);
	}
	hold_if_late(n);
	ev_timer_start(n->heartbeat, BEAT_MS * 1000);
}

/* It is gone, and this one takes its place: with an epoch of its own, as behind a start. */
static void take_place(void *arg)
{
	struct notary *n = arg;

	if (!n->away || n->stopping)
		return;
	n->away = false;
	n->joins = true;
	n->unsigned_us = n->unsigned_us ? n->unsigned_us : ev_now_us(n->loop);
	ev_timer_stop(n->heartbeat);
	begin_round(n);
}

static void on_heartbeat(void *arg)
{
	struct notary *n = arg;

	if (n->away) {
		watch_keeper(n);
		return;
	}
	n->always = true;
	begin_round(n);
}

static void on_records(void *arg)
{
	struct notary *n = arg;

	if (!n->unsigned_us)
		n->unsigned_us = ev_now_us(n->loop);
	if (n->away)
		return;
	if (n->state == NOTARY_IDLE)
		arm(n, BEAT_MS);
	else
		n->again = true;
}

void notary_now(struct notary *n, notary_done_fn *done, void *arg)
{
	struct waiter *w = mem_zalloc(sizeof(*w));

	list_init(&w->node);
	w->done = done;
	w->arg = arg;
	list_push_back(&n->waiters, &w->node);
	ev_timer_start(n->timer, 0);
}

/* --- the end: on the writer's thread, which is alone with the store by then */

static int stopping(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct notary *n = arg;

	uint8_t policies[AUDIT_POLICIES_SIZE];
	struct audit_beat_opt opt = { .max = SIZE_MAX, .say = AUDIT_SAY_ALL, .policies = policies };
	const bool none = n->stuck || n->away;
	int rc = none ? 0 : audit_second_said(logs, db, policies, err);

	return none || rc < 0 ? rc : audit_beat(logs, db, &opt, &n->round.beat, err);
}

/* An epoch that the store has not heard of begins with a record, and none comes behind server.stop: the signer
 * remembers what it has signed, and the next start takes it down (AUDIT A-734). */
static int sign_last(struct notary *n, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = audit_beat_system(logs, db, &n->round.beat, err);

	if (rc < 0 || n->round.beat.nhead == 0)
		return rc;
	rc = notary_sign(n, db, &n->round, err);
	if (rc == 0 && n->round.epoch)
		return 0;
	if (rc == 0)
		rc = db_txn_begin(db, true, err);
	if (rc < 0)
		return rc;
	rc = db_txn_end(db, notary_take_down(n, db, logs, &n->round, err), err);
	if (rc == 0)
		audit_logs_commit(logs);
	return rc;
}

static void stopped(void *arg, struct db *db, struct audit_logs *logs)
{
	struct notary *n = arg;
	struct err err;

	if (n->stuck || n->away)
		return;
	if (sign_last(n, db, logs, &err) < 0)   /* the next start finds the tail, and says so */
		log_err(NULL, "the last checkpoint was not signed why=\"%s\"", err.msg);
	round_fini(&n->round);
}

/* --- the whole */

/* A signer elsewhere is copied by who runs it. */
static int copying(void *arg, const char *path, struct err *err)
{
	const char *dir = notary_dir(arg);
	struct notary_copy copy = { .epoch = 0 };
	int rc = dir ? notary_copy_take(dir, &copy, err) : ERR_NOT_FOUND;

	if (rc == 0) {
		(void)unlink(path);     /* of somebody who died here */
		rc = notary_copy_write(&copy, path, err);
		notary_copy_fini(&copy);
	}
	return rc == ERR_NOT_FOUND ? 0 : rc;
}

void notary_guard(struct notary *n, struct writer_guard *ret)
{
	*ret = (struct writer_guard){ .before = notary_before, .away = notary_away, .begun = notary_begun,
		.stopping = stopping, .stopped = stopped, .copying = copying, .arg = n };
}

const char *notary_place(const struct notary *n)
{
	return n->place;
}

const char *notary_dir(const struct notary *n)
{
	return n->socket ? NULL : n->dir;
}

const uint8_t *notary_log_key(const struct notary *n)
{
	return n->log_key;
}

uint64_t notary_unsigned_us(const struct notary *n)
{
	return n->unsigned_us;
}

int notary_open(const struct notary_opt *opt, struct notary **ret, struct err *err)
{
	struct notary *n = mem_zalloc(sizeof(*n));
	int rc;

	n->loop = opt->loop;
	n->fd = -1;
	n->store = mem_strdup(opt->store);
	n->socket = mem_strdup0(opt->socket);
	n->dir = opt->dir ? path_absolute(opt->dir) : path_join(opt->store, "signer");
	n->place = n->socket ? mem_printf("socket %s", n->socket) : mem_printf("child %s", n->dir);
	n->max_age_s = opt->max_age_s;
	n->commit_every_s = opt->commit_every_s;
	n->adopt = opt->adopt;
	n->anchor_file = mem_strdup0(opt->anchor_file);
	n->anchor_cmd = mem_strdup0(opt->anchor_cmd);
	n->anchor_every_s = opt->anchor_every_s;
	n->bases = map_new();
	n->numbers = map_new();
	list_init(&n->waiters);
	list_init(&n->running);
	n->timer = ev_timer_new(n->loop, on_timer, n);
	n->heartbeat = ev_timer_new(n->loop, on_heartbeat, n);
	n->heads = ev_timer_new(n->loop, on_timer, n);
	n->shared = db_is_served(opt->store);
	n->may_keep = opt->may_keep;
	rc = n->shared ? 0 : notary_connect(n, err);
	if (rc < 0) {
		notary_close(&n);
		return rc;
	}
	*ret = n;
	return 0;
}

struct start { struct notary *n; bool done; int rc; struct err err; };

static void started(void *arg, int rc, const struct err *err)
{
	struct start *s = arg;

	s->done = true;
	s->rc = rc;
	if (rc < 0)
		s->err = *err;
}

static int first_round(struct notary *n, struct err *err)
{
	struct start s = { .n = n };

	notary_now(n, started, &s);
	if (!ev_loop_run_until(n->loop, &s.done, START_MS))
		return err_set(err, ERR_TIMEOUT, n->place, "the signer (%s) did not answer", n->place);
	if (s.rc < 0)
		*err = s.err;
	return s.rc;
}

int notary_start(struct notary *n, struct writer *w, struct err *err)
{
	bool first = !n->known;
	int rc;

	n->writer = w;
	writer_on_records(w, on_records, n);
	if (!writer_keeps(w)) {
		n->away = true;
		notary_disconnect(n, HELPER_END_MS);    /* of a start that took too long */
		writer_on_keeper(w, take_place, n);
		ev_timer_start(n->heartbeat, BEAT_MS * 1000);
		rc = open_reader(n, err);
		return rc < 0 ? rc : audit_log_key_get(n->reader, n->log_key, err) < 0 ? err->code : 0;
	}
	rc = first_round(n, err);
	/* An epoch that a crash had kept from the store got its checkpoint with that; now it ends. */
	if (rc == 0 && !first && n->epoch_us == 0)
		rc = first_round(n, err);
	if (rc == 0 && first)
		n->epoch_us = ev_now_us(n->loop);
	if (rc == 0)
		memcpy(n->log_key, n->who->log_key, sizeof(n->log_key));
	if (rc < 0)
		notary_stop(n);
	return rc;
}

static void idle(void *arg, int rc, const struct err *err)
{
	bool *done = arg;

	(void)rc;
	(void)err;
	*done = true;
}

void notary_stop(struct notary *n)
{
	bool done = n->state == NOTARY_IDLE;

	if (!n->writer)
		return;
	n->stopping = true;
	ev_timer_stop(n->timer);
	ev_timer_stop(n->heartbeat);
	ev_timer_stop(n->heads);
	if (!done) {
		struct waiter *w = mem_zalloc(sizeof(*w));

		list_init(&w->node);
		w->done = idle;
		w->arg = &done;
		list_push_back(&n->running, &w->node);
		n->stuck = !ev_loop_run_until(n->loop, &done, START_MS);
	}
	if (n->stuck)
		log_err(NULL, "the signer does not end its work place=\"%s\"", n->place);
	if (!n->stuck)
		notary_anchor_wait(n);
	(void)err_set(&n->err, ERR_CANCELLED, "", "the server is stopping");
	call_waiters(n, &n->waiters, ERR_CANCELLED);
	writer_on_records(n->writer, NULL, NULL);
	if (!n->stuck)
		db_close(&n->reader);
	writer_on_keeper(n->writer, NULL, NULL);
	if (n->fd < 0 && !n->away && notary_connect(n, &n->err) < 0)
		log_warn(NULL, "no signer for the last checkpoint why=\"%s\"", n->err.msg);
}

void notary_close(struct notary **np)
{
	struct notary *n = *np;
	void *base;

	if (!n)
		return;
	*np = NULL;
	notary_disconnect(n, HELPER_END_MS);
	db_close(&n->reader);
	ev_timer_free(&n->timer);
	ev_timer_free(&n->heartbeat);
	ev_timer_free(&n->heads);
	for (size_t it = 0; map_next(n->bases, &it, NULL, NULL, &base);)
		free(base);
	map_free(&n->bases);
	map_free(&n->numbers);
	if (n->who)
		free(n->who->instance);
	free(n->who);
	round_fini(&n->round);
	free(n->given);
	free(n->past);
	free(n->anchor_file);
	free(n->anchor_cmd);
	free(n->store);
	free(n->dir);
	free(n->socket);
	free(n->place);
	free(n);
}
