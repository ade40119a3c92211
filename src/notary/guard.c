/* The checks of a start (AUDIT ): what the store has against what the signer has signed, and records that
 * nobody has signed.  The writer's guard asks before it writes its start; then nobody else uses the store. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/second.h"
#include "audit/shared.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"

#include "notary_int.h"

enum { TAIL_BYTES = 4 + 4 * 8, TAILS_LISTED = 1024, TAILS_NAMED = 8 };

struct check {
	struct notary *n;
	struct db *db;
	struct audit_logs *logs;
	char instance[NOTE_NAME_MAX + 1];
	uint64_t last_us;               /* time of the newest record of the system log that was signed; 0 = none */
	uint64_t stop_us;               /* of server.stop, when it is the newest of all; 0 = it is not */
	bool stop_signed;
	bool ended;                     /* by a stop that was signed, behind which nothing came: all heads were said */
	uint8_t *tails; size_t ntails;
	size_t nwanted;                 /* tails that nobody has taken over */
	struct str wanted;              /* the names of the first of them, a space before each */
	struct behind *behind;
};

static int find_system(void *arg, const struct audit_log_view *log, struct err *err)
{
	struct check *c = arg;

	(void)err;
	if (log->tenant_id == 0)
		snprintf(c->instance, sizeof(c->instance), "%s", log->origin);
	return 0;
}

/* --- tails */

/* "acme:120-133", "system:40-41" */
static void name_tail(const struct audit_log_view *log, uint64_t from, char *ret, size_t size)
{
	const char *t = strstr(log->origin, "/t/");

	snprintf(ret, size, "%s:%" PRIu64 "-%" PRId64, t ? t + 3 : "system", from, log->size - 1);
}

static bool is_adopted(const struct notary *n, const char *name)
{
	for (size_t i = 0; n->adopt && n->adopt[i]; i++)
		if (strcmp(n->adopt[i], name) == 0)
			return true;
	return false;
}

/* AUDIT A-722.  While a server lives its logs are signed at every heartbeat, or calls are refused soon after; so a
 * later record was not written by one.  And nothing is written after its stop. */
static bool is_suspect(const struct check *c, const struct audit_times *times)
{
	uint64_t limit_us = c->last_us + (HEARTBEAT_S + (uint64_t)c->n->max_age_s) * 1000000;

	if (c->last_us == 0)
		return false;
	if (c->n->shared)               /* a stop is that of one node */
		return times->last > limit_us;
	return times->last > limit_us || c->stop_signed || (c->stop_us && times->last > c->stop_us);
}

static void add_tail(struct check *c, const struct audit_log_view *log, uint64_t from, const struct audit_times *times)
{
	char name[NOTE_NAME_MAX + 48];
	uint8_t *p;

	name_tail(log, from, name, sizeof(name));
	log_info(NULL, "records without a checkpoint tail=%s", name);
	if (is_suspect(c, times) && !is_adopted(c->n, name) && c->nwanted++ < TAILS_NAMED)
		str_printf(&c->wanted, " %s", name);
	if (c->ntails == TAILS_LISTED)
		return;
	c->tails = mem_realloc(c->tails, (c->ntails + 1) * TAIL_BYTES);
	p = c->tails + c->ntails++ * TAIL_BYTES;
	audit_put_be(p, (uint64_t)log->id, 4);
	audit_put_be(p + 4, from, 8);
	audit_put_be(p + 12, (uint64_t)log->size, 8);
	audit_put_be(p + 20, times->first, 8);
	audit_put_be(p + 28, times->last, 8);
}

/* --- logs */

static int others(const struct audit_log_view *log, const struct base *b, struct err *err)
{
	(void)err_set(err, ERR_CORRUPT, log->origin,
		      "SIGNER_AHEAD: the signer has signed %" PRIu64 " records of %s, and the store has others", b->size,
		      log->origin);
	err_hint(err,
		 "the store was put back to an earlier state, or changed: toolcrib-verify STORE --signer-state DIR says more; "
		 HINT_TOGETHER);
	return ERR_CORRUPT;
}

/* Up to what the signer has signed, from the nearest checkpoint: the records must give its root. */
static int check_signed(struct check *c, const struct audit_log_view *log, struct base *b, struct tree *t,
			struct err *err)
{
	struct audit_times times;
	uint8_t root[TREE_HASH];
	int rc = audit_cp_find(c->db, log->id, b->size, t, err);
	if (rc >= 0)
		rc = audit_grow_checked(c->db, log->id, log->origin, b->size, t, &times, err);
	if (rc < 0)
		return rc;
	tree_root(t, root);
	if (b->size > 0 && memcmp(root, b->root, TREE_HASH) != 0)
		return others(log, b, err);
	b->tree = *t;
	b->has_tree = b->seen = true;
	return 0;
}

/* Records behind the newest checkpoint, and that all of them give the log's head. */
static int check_tail(struct check *c, const struct audit_log_view *log, struct tree *t, struct err *err)
{
	uint8_t root[TREE_HASH], want[TREE_HASH];
	struct audit_times times = { 0 };
	struct tree head;
	uint64_t from;
	int rc = audit_head_tree(c->logs, c->db, log->tenant_id, &head, err);

	if (rc == 0 && log->noted > (int64_t)t->size)
		rc = audit_cp_find(c->db, log->id, (uint64_t)log->noted, t, err);
	if (rc < 0)
		return rc;
	from = t->size;
	rc = audit_grow_checked(c->db, log->id, log->origin, (uint64_t)log->size, t, &times, err);
	if (rc < 0)
		return rc;
	tree_root(t, root);
	tree_root(&head, want);
	if (memcmp(root, want, TREE_HASH) != 0)
		return err_set(err, ERR_CORRUPT, log->origin, "the records of %s do not give its root", log->origin);
	if (from < (uint64_t)log->size && c->n->known)
		add_tail(c, log, from, &times);
	return 0;
}

static int check_log(void *arg, const struct audit_log_view *log, struct err *err)
{
	struct check *c = arg;
	struct tree *t = mem_zalloc(sizeof(*t));
	char name[NOTE_NAME_MAX + 1];
	uint8_t root[TREE_HASH];
	struct base *b;
	bool lost = behind_look(c->behind, log->origin, (uint64_t)log->size);
	int rc = 0;

	notary_name(c->n, log->origin, name);
	b = notary_base(c->n, name);
	if (b && log->tenant_id == 0)
		audit_second_signed(c->logs, lost ? (uint64_t)log->noted : b->size);
	if (b && !lost)
		rc = check_signed(c, log, b, t, err);
	else if (!b && log->noted > 0)
		rc = err_set(err, ERR_CORRUPT, log->origin, "the signer (%s) does not know the log %s, which was signed before",
			     c->n->place, name);
	if (rc == 0)
		rc = check_tail(c, log, t, err);
	if (rc == 0 && lost) {
		tree_root(t, root);
		behind_root(c->behind, root);
	}
	free(t);
	return rc;
}

/* What is known of the end of the run before, from the system log. */
static int look_at_end(void *arg, const struct audit_log_view *log, struct err *err)
{
	struct check *c = arg;
	uint64_t covered = (uint64_t)log->noted, ts = 0;
	char name[NOTE_NAME_MAX + 1];
	const struct base *b;
	int kind = 0, rc = 0;

	if (log->tenant_id != 0 || log->size == 0)
		return 0;
	notary_name(c->n, log->origin, name);
	b = notary_base(c->n, name);
	if (b && b->size > covered)
		covered = b->size;
	/* Who has fewer than the signer is told so when his turn comes. */
	if (covered > 0 && covered <= (uint64_t)log->size)
		rc = audit_at(c->db, log->id, (int64_t)covered - 1, &c->last_us, &kind, err);
	c->stop_signed = kind == AUDIT_SERVER_STOP;
	c->ended = c->stop_signed && !c->n->shared && covered == (uint64_t)log->size;
	if (rc == 0)
		rc = audit_at(c->db, log->id, log->size - 1, &ts, &kind, err);
	if (kind == AUDIT_SERVER_STOP)
		c->stop_us = ts;
	return rc;
}

static int refuse_tails(const struct check *c, struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, "audit", "records were added while no server could have: %s",
		      str_text(&c->wanted) + 1);
	err_hint(err, "look at them with toolcrib-verify; to take them over: toolcrib audit adopt%s", str_text(&c->wanted));
	return ERR_CONFLICT;
}

int notary_before(void *arg, struct db *db, struct audit_logs *logs, uint8_t **ret_tails, size_t *ret_len,
			 struct err *err)
{
	struct notary *n = arg;
	struct check c = { .n = n, .db = db, .logs = logs, .wanted = STR_INIT };
	bool grew;
	int rc = n->fd < 0 ? notary_connect(n, err) : 0;

	if (rc == 0 && n->shared) {
		audit_shared_begin(logs, false);
		rc = audit_shared_heads(logs, db, true, &grew, err);    /* sizes and trees that belong together */
	}
	if (rc == 0)
		rc = audit_logs_each(logs, find_system, &c, err);
	if (rc < 0 || !c.instance[0])
		return rc;
	rc = audit_epoch_newest(db, &n->stored, err);
	n->known = rc == 1;
	n->starting = true;
	if (rc >= 0)
		rc = notary_greet(n, c.instance, err);
	n->starting = false;
	if (rc == 0 && !(c.behind = behind_new(n, db, err)))
		rc = err->code;
	if (rc == 0)
		rc = audit_logs_each(logs, look_at_end, &c, err);
	if (rc == 0)
		rc = audit_logs_each(logs, check_log, &c, err);
	if (rc == 0)
		rc = behind_end(c.behind, err);
	behind_free(&c.behind);
	if (rc == 0 && c.nwanted > 0)
		rc = refuse_tails(&c, err);
	if (rc == 0 && !c.ended)
		audit_heads_forget(logs);
	if (rc == 0) {
		*ret_tails = c.tails;
		*ret_len = c.ntails * TAIL_BYTES;
		c.tails = NULL;
	}
	free(c.tails);
	str_fini(&c.wanted);
	return rc;
}

/* --- where nodes share the store, and another one keeps it */

static int note_signed(void *arg, const struct audit_log_view *log, struct err *err)
{
	(void)err;
	if (log->tenant_id == 0)
		audit_second_signed(arg, (uint64_t)log->noted);
	return 0;
}

int notary_away(void *arg, struct audit_logs *logs, struct err *err)
{
	struct notary *n = arg;
	int rc = n->may_keep && !n->socket ? ERR_CONFLICT : 0;

	if (rc < 0) {
		(void)err_set(err, ERR_CONFLICT, "signer", "another node has the signer of this store, and this one could not take "
			      "its place");
		err_hint(err, "several nodes need a signer that listens: toolcrib-sign --dir DIR --socket PATH, and the same "
			 "signer.socket for each; toolcrib-sign(8)");
		return rc;
	}
	n->away = true;
	return audit_logs_each(logs, note_signed, logs, err);
}

int notary_join(struct notary *n, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct behind *b = behind_new(n, db, err);      /* under which names logs go on */
	bool grew;
	int rc = b ? audit_epoch_newest(db, &n->stored, err) : err->code;

	behind_free(&b);
	n->known = rc == 1;
	if (rc >= 0)
		rc = audit_shared_heads(logs, db, false, &grew, err);
	if (rc == 0)
		rc = audit_shared_notes(logs, db, err);
	if (rc == 0)
		audit_heads_forget(logs);
	return rc;
}
