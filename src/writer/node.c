/* A writer that shares its store with others (CLUSTER 3 to 6): who it is, the fence in each of its transactions, what a
 * commit came to that nobody has answered for, nodes that are gone, and the version by which it learns that others
 * have changed something.  Writer thread; what the loop does of it is in share.c. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/recover.h"
#include "audit/shared.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "db/db.h"
#include "ev/ev.h"

#include "writer_int.h"

enum {
	CLOCK_OFF_US = 30000000,        /* from the server's clock: keys would end at another time (CLUSTER K-208) */
	SUSPECT_US = 1000000,           /* and seen so: one whose commit took long has written a moment ago */
	KEEPER_US = 2000000,            /* from a stop until another one takes its place, if it does not say so before */
	MONTHS_US = 1000000,            /* of a second, as DAY_US below */
	BURY_MAX = 4,                   /* nodes at one beat */
};
#define DAY_US (INT64_C(86400) * MONTHS_US)
#define MONTHS_EVERY_US (INT64_C(3600) * MONTHS_US)

/* --- who it is */

bool writer_node_is_name(const char *name)
{
	const size_t n = strlen(name);

	return n > 0 && n < WRITER_NODE_SIZE && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n && *name != '-';
}

static void default_name(char ret[WRITER_NODE_SIZE])
{
	char host[256] = "";
	size_t n = 0;

	(void)gethostname(host, sizeof(host) - 1);
	for (const char *p = host; *p && n < WRITER_NODE_SIZE - 1; p++) {
		const char c = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && n > 0))
			ret[n++] = c;
		else if (c == '.')
			break;
	}
	ret[n] = '\0';
	if (n == 0)
		(void)snprintf(ret, WRITER_NODE_SIZE, "node");
}

static void command_name(const char *store, char ret[WRITER_NODE_SIZE])
{
	char host[256] = "", hex[2 * DIGEST_SIZE + 1], *place;
	uint8_t digest[DIGEST_SIZE];

	(void)gethostname(host, sizeof(host) - 1);
	place = mem_printf("%s:%s", host, store);
	digest_sha256(place, strlen(place), digest);
	text_hex(digest, sizeof(digest), hex);
	(void)snprintf(ret, WRITER_NODE_SIZE, "cli-%.8s", hex);
	free(place);
}

/* On which machine, and of which folder: there is one process of it, which has the lock of that. */
static char *place_of(const struct writer *w)
{
	char host[256] = "";

	(void)gethostname(host, sizeof(host) - 1);
	return mem_printf("%s:%s", host, w->store);
}

static int make_months(struct writer *w, struct err *err)
{
	const int64_t now = (int64_t)clock_wall_us();
	struct db_stmt *st = db_stmt_get(w->db, SQL_NODE_MAKE_MONTHS);
	int rc;

	db_bind_i64(st, 1, now);
	db_bind_i64(st, 2, now + 32 * DAY_US);
	rc = db_step(st, err);
	db_stmt_put(&st);
	w->node->months_us = now;
	return rc < 0 ? rc : 0;
}

static int check_clock(int64_t there_us, struct err *err)
{
	const int64_t off = (int64_t)clock_wall_us() - there_us;
	int rc;

	if (off < CLOCK_OFF_US && off > -CLOCK_OFF_US)
		return 0;
	rc = err_set(err, ERR_UNREACHABLE, "clock", "this machine's clock is %lld s from the database's",
		     (long long)(off / 1000000));
	err_hint(err, "set one of them right: keys would end at another time here");
	return rc;
}

static int refuse_second(const struct wnode *n, int64_t since_us, const char *place, struct err *err)
{
	int rc = err_set(err, ERR_CONFLICT, "node", "another process is node %s: it wrote %lld ms ago, from %s", n->name,
			 (long long)(since_us / 1000), place);

	err_hint(err, "give this one a name of its own under node in toolcribd.yaml; of one that has died the name is free "
		 "after %d s", WRITER_DEAD_US / 1000000);
	return rc;
}

/* --- the keeper: one that writes, or nobody */

static int run_plain(struct writer *w, enum sql_id sql, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, sql);

	return db_run(&st, err);
}

static int is_free(struct writer *w, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_NODE_KEEPER_FREE);
	int rc;

	db_bind_i64(st, 1, KEEPER_US);
	rc = db_step(st, err);
	db_stmt_put(&st);
	return rc;
}

/* 1: this one is it, until the transaction ends at least; the row is locked, so nobody else decides meanwhile. */
static int holds_keeper(struct writer *w, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_NODE_KEEPER_LOCK);
	int64_t id = 0;
	int rc = db_step(st, err);

	if (rc == 1) {
		const char *text = db_col_text(st, 0, NULL);

		rc = text_i64(text, strlen(text), &id) == 0 && id == w->node->id;
	}
	db_stmt_put(&st);
	return rc;
}

/* 1: this one is it, or becomes it since nobody is. */
static int keep(struct writer *w, struct err *err)
{
	struct db_stmt *st;
	int rc = holds_keeper(w, err);

	if (rc == 0)
		rc = is_free(w, err);
	if (rc != 1)
		return rc;
	st = db_stmt_get(w->db, SQL_NODE_KEEPER_SET);
	db_bind_i64(st, 1, w->node->id);
	rc = db_run(&st, err);
	return rc < 0 ? rc : 1;
}

bool writer_keeps(const struct writer *w)
{
	return !w->node || atomic_load(&w->node->keeper);
}

bool writer_drains(const struct writer *w)
{
	return w->node && atomic_load(&w->node->drains);
}

uint64_t writer_share_signed(const struct writer *w)
{
	return (uint64_t)atomic_load(&w->node->signed_us);
}

void wnode_unkeep(struct writer *w)
{
	struct err err;
	struct db_stmt *st;
	int rc = db_txn_begin(w->db, true, &err);

	if (rc == 0) {
		st = db_stmt_get(w->db, SQL_NODE_KEEPER_END);
		db_bind_i64(st, 1, w->node->id);
		rc = db_txn_end(w->db, db_run(&st, &err), &err);
	}
	if (rc < 0)                     /* they find out a moment later */
		log_debug(NULL, "other nodes were not told that this one does not keep the store why=\"%s\"", err.msg);
}

/* The row, locked, and its epoch raised: what the process before had on its way is over, or will never be. */
static int fence_own(struct writer *w, const char *place, struct err *err)
{
	struct wnode *n = w->node;
	struct db_stmt *st = db_stmt_get(w->db, SQL_NODE_ADD);
	int rc;

	db_bind_textz(st, 1, n->name);
	rc = db_run(&st, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(w->db, SQL_NODE_FIND);
	db_bind_textz(st, 1, n->name);
	rc = db_step(st, err);
	if (rc == 1) {
		const char *was = db_col_text(st, 5, NULL);

		n->id = db_col_i64(st, 0);
		n->epoch = db_col_i64(st, 1);
		db_col_copy(st, 2, n->before, sizeof(n->before));
		n->before_us = db_col_i64(st, 3);
		rc = check_clock(db_col_i64(st, 6), err);
		if (rc == 0 && db_col_i64(st, 4) < WRITER_DEAD_US && strcmp(was, place) != 0)
			rc = refuse_second(n, db_col_i64(st, 4), was, err);
	} else if (rc == 0) {
		rc = err_set(err, ERR_CORRUPT, "node", "the row of node %s is gone", n->name);
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	st = db_stmt_get(w->db, SQL_NODE_TAKE);
	db_bind_i64(st, 1, n->id);
	db_bind_i64(st, 2, n->epoch);
	db_bind_textz(st, 3, n->before);
	db_bind_i64(st, 4, n->before_us);
	db_bind_textz(st, 5, place);
	rc = db_run_id(&st, &n->epoch, err);
	if (rc == 0)
		rc = run_plain(w, SQL_NODE_KEEPER_MAKE, err);
	if (rc == 0)
		rc = keep(w, err);
	if (rc >= 0)
		atomic_store(&n->keeper, rc == 1);
	return rc < 0 ? rc : make_months(w, err);
}

int wnode_open(struct writer *w, struct err *err)
{
	char *place = place_of(w);
	int rc = 0;

	w->node = mem_zalloc(sizeof(*w->node));
	if (w->limits.of_command)
		command_name(w->store, w->node->name);
	else if (w->limits.node)
		(void)snprintf(w->node->name, sizeof(w->node->name), "%s", w->limits.node);
	else
		default_name(w->node->name);
	list_init(&w->node->waiting);
	for (int tries = 0; tries == 0 || (rc == ERR_BUSY && tries < 5); tries++) {    /* the server waits 2 s for a lock */
		rc = db_txn_begin(w->db, true, err);
		if (rc == 0)
			rc = db_txn_end(w->db, fence_own(w, place, err), err);
	}
	if (rc == ERR_UNCERTAIN)
		rc = err_set(err, ERR_UNREACHABLE, "database", "it did not say whether node %s is taken; start again",
			     w->node->name);
	free(place);
	return rc;
}

/* In the transaction of the start: calls of the process before have their end, and it is this one. */
int wnode_begin(struct writer *w, size_t *ret_recovered, struct err *err)
{
	struct wnode *n = w->node;
	struct db_stmt *st;
	int rc = 0;

	if (*n->before && n->before_us)
		rc = audit_recover_node(w->logs, w->db, n->before, n->before_us, ret_recovered, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(w->db, SQL_NODE_BOOT);
	db_bind_i64(st, 1, n->id);
	db_bind_i64(st, 2, n->epoch);
	db_bind_textz(st, 3, audit_boot(w->logs));
	rc = db_step(st, err);
	if (rc == 1)
		n->version = db_col_i64(st, 0);
	else if (rc == 0)
		rc = err_set(err, ERR_CONFLICT, "node", "another process has become node %s", n->name);
	db_stmt_put(&st);
	if (rc == 1 && atomic_load(&n->keeper) && (rc = holds_keeper(w, err)) == 0)
		atomic_store(&n->keeper, false);        /* it took so long to start that another one did not wait */
	return rc < 0 ? rc : 0;
}

/* --- each transaction */

/* A command sees what others have done, and they wait for it: the system's log is the first of all. */
int wnode_enter(struct writer *w, struct witem *first, struct err *err)
{
	const bool job = first && first->is_job;
	const struct wjob *j = job ? CONTAINER_OF(first, struct wjob, item) : NULL;
	int64_t *tenant;
	size_t n = 0;
	int rc;

	w->node->entered = false;
	audit_shared_begin(w->logs, job);
	for (struct witem *it = first; it; it = it->next)
		n++;
	tenant = mem_calloc(n + 1, sizeof(*tenant));
	n = 0;
	if (w->fails.count > 0 || (j && !j->job.volatile_only))
		tenant[n++] = 0;
	for (struct witem *it = job ? NULL : first; it; it = it->next)
		if (!it->is_job)
			tenant[n++] = CONTAINER_OF(it, struct wevent, item)->ev.tenant_id;
	rc = audit_shared_meet_all(w->logs, tenant, n, w->db, err);
	free(tenant);
	w->node->entered = rc == 0;
	return rc;
}

bool wnode_again(const struct writer *w, const struct witem *first, int tries)
{
	return w->node && first && tries < SHARED_TRIES && (!first->is_job || !w->node->entered);
}

static int fenced(const struct wnode *n, struct err *err)
{
	return err_set(err, ERR_IO, "node", "node %s was fenced: it did not write for too long, or another process is it",
		       n->name);
}

static int changed(struct writer *w, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_NODE_CHANGE);
	int64_t version;

	return db_run_id(&st, &version, err);
}

int wnode_move(struct writer *w, bool changes, struct err *err)
{
	struct wnode *n = w->node;
	struct db_stmt *st;
	int rc = changes ? changed(w, err) : 0;

	if (rc < 0)
		return rc;
	n->batch++;
	st = db_stmt_get(w->db, SQL_NODE_MOVE);
	db_bind_i64(st, 1, n->id);
	db_bind_i64(st, 2, n->epoch);
	db_bind_i64(st, 3, n->batch);
	db_bind_i64(st, 4, audit_shared_since(w->logs));
	rc = db_step(st, err);
	if (rc == 1) {
		n->next = db_col_i64(st, 0);
		n->leaves = db_col_i64(st, 1) != 0;
	} else if (rc == 0) {
		rc = fenced(n, err);
	}
	n->own = changes;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

void wnode_moved(struct writer *w)
{
	struct wnode *n = w->node;

	if (n->next > n->version + n->own)
		atomic_store(&n->foreign, n->next);
	atomic_store(&n->drains, n->leaves);
	n->version = n->next;
}

static int resolve(struct writer *w, int64_t *ret_batch, struct err *err)
{
	struct db_stmt *st;
	int rc = db_txn_begin(w->db, true, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(w->db, SQL_NODE_RESOLVE);
	db_bind_i64(st, 1, w->node->id);
	db_bind_i64(st, 2, w->node->epoch);
	db_bind_textz(st, 3, audit_boot(w->logs));
	rc = db_step(st, err);
	if (rc == 1) {
		w->node->epoch = db_col_i64(st, 0);
		*ret_batch = db_col_i64(st, 1);
		rc = 0;
	} else if (rc == 0) {
		rc = fenced(w->node, err);
	}
	db_stmt_put(&st);
	return db_txn_end(w->db, rc, err);
}

/* CLUSTER K-206: a later commit that was answered for covers this one, on the standby as well; reading alone would not.
 * 0: it was durable; ERR_AUDIT: it was not, and never will be. */
int wnode_resolve(struct writer *w, bool (*give_up)(struct writer *w), struct err *err)
{
	int64_t batch = 0;
	struct err why;
	int rc;

	metric_inc(METRIC_cluster_unsure);
	atomic_store(&w->refused, "the database of the store has not said whether it has the last records");
	while ((rc = resolve(w, &batch, &why)) < 0 && rc != ERR_IO) {
		if (give_up(w))
			return err_set(err, ERR_IO, "database", "whether the last records are there is not known: %s", why.msg);
	}
	if (rc < 0) {
		*err = why;
		return rc;
	}
	return batch == w->node->batch ? 0 : err_set(err, ERR_AUDIT, "database", "a transaction was lost with its connection");
}

int wnode_stop(struct writer *w, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_NODE_LEAVE);
	int rc;

	db_bind_i64(st, 1, w->node->id);
	db_bind_i64(st, 2, w->node->epoch);
	rc = db_run(&st, err);
	return rc == 0 && db_changes(w->db) != 1 ? fenced(w->node, err) : rc;
}

/* --- beats: an idle node says that it is there, and looks after those that are not any more */

/* 1: it has written nothing since it was seen first. */
static int is_dead(struct wnode *n, int64_t id, int64_t beat_us)
{
	const uint64_t now = clock_mono_us();

	if (n->suspect.id == id && n->suspect.beat_us == beat_us)
		return now - n->suspect.seen_us >= SUSPECT_US;
	n->suspect.id = id;
	n->suspect.beat_us = beat_us;
	n->suspect.seen_us = now;
	return 0;
}

/* As its next start would have said it. */
static int write_death(struct writer *w, struct audit_logs *logs, const char *name, struct err *err)
{
	char text[2 * WRITER_NODE_SIZE + 40];
	struct audit_event ev;

	(void)snprintf(text, sizeof(text), "node=%s, fenced by node=%s", name, w->node->name);
	audit_event_init(&ev, AUDIT_SERVER_CRASH, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	return audit_append(logs, w->db, &ev, NULL, err);
}

/* 1: one was buried. */
static int bury(struct writer *w, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_NODE_DEAD);
	char boot[40] = "", name[WRITER_NODE_SIZE] = "";
	int64_t id = 0, epoch = 0, since_us = 0;
	size_t n = 0;
	int rc;

	db_bind_i64(st, 1, w->node->id);
	db_bind_i64(st, 2, WRITER_DEAD_US);
	rc = db_step(st, err);
	if (rc == 1) {
		id = db_col_i64(st, 0);
		db_col_copy(st, 1, name, sizeof(name));
		epoch = db_col_i64(st, 2);
		db_col_copy(st, 3, boot, sizeof(boot));
		since_us = db_col_i64(st, 4);
		rc = is_dead(w->node, id, db_col_i64(st, 5));
	}
	db_stmt_put(&st);
	if (rc <= 0)
		return rc;
	st = db_stmt_get(w->db, SQL_NODE_FENCE);
	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, epoch);
	rc = db_run(&st, err);
	if (rc == 0 && db_changes(w->db) != 1)
		return 0;
	if (rc == 0)
		rc = write_death(w, logs, name, err);
	if (rc == 0 && since_us)
		rc = audit_recover_node(logs, w->db, boot, since_us, &n, err);
	if (rc == 0 && w->guard.recover)
		rc = w->guard.recover(w->db, logs, err);
	if (rc == 0) {
		st = db_stmt_get(w->db, SQL_NODE_FORGET);
		db_bind_i64(st, 1, id);
		rc = db_run(&st, err);
	}
	if (rc < 0)
		return rc;
	w->node->buried = true;
	metric_inc(METRIC_cluster_fenced);
	log_warn(NULL, "a node was fenced, it has not written for too long or is removed, and its calls have an end node=%s "
		 "calls=%zu", name, n);
	return 1;
}

/* It looks for what others have appended, and it alone; the others look how far it has come. */
static int beat_keeper(struct writer *w, struct audit_logs *logs, struct err *err)
{
	bool grew = false;
	int rc = audit_shared_heads(logs, w->db, false, &grew, err);

	if (grew)
		atomic_store(&w->node->grew, true);
	return rc;
}

static int beat_other(struct writer *w, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_NODE_SIGNED);
	int rc = db_step(st, err);

	if (rc == 1)
		atomic_store(&w->node->signed_us, db_col_i64(st, 0));
	db_stmt_put(&st);
	if (rc < 0 || w->limits.of_command)     /* a command does not stay */
		return rc < 0 ? rc : 0;
	rc = is_free(w, err);
	if (rc == 1)
		rc = keep(w, err);
	w->node->took = rc == 1;
	return rc < 0 ? rc : 0;
}

int wnode_beat(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct writer *w = arg;
	int rc = 0;

	w->node->took = w->node->buried = false;
	audit_shared_eased(logs);
	if (atomic_load(&w->node->keeper) && (int64_t)clock_wall_us() - w->node->months_us > MONTHS_EVERY_US)
		rc = make_months(w, err);
	if (rc == 0)
		rc = audit_shared_logs(logs, db, err);
	for (int i = 0; rc == 0 && i < BURY_MAX && (rc = bury(w, logs, err)) == 1; i++)
		rc = 0;
	if (rc < 0)
		return rc;
	return atomic_load(&w->node->keeper) ? beat_keeper(w, logs, err) : beat_other(w, err);
}

void wnode_free(struct writer *w)
{
	if (!w->node)
		return;
	ev_timer_free(&w->node->beat);
	free(w->node);
	w->node = NULL;
}
