/* Rows of approvals: what the writer does to them, each beside the record that says why, and what a reader's thread
 * opens.  What an approver is shown is sealed by XChaCha20-Poly1305 under a key made of the payload key of the caller
 * and month, bound to the approval. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "keys/keys.h"

#include "assent_int.h"

static const char label[] = "toolcrib/k/1";

const char *assent_state_name(int state)
{
	static const char *const names[] = { [ASSENT_WAITS] = "waits", [ASSENT_GRANTED] = "granted",
		[ASSENT_REFUSED] = "refused", [ASSENT_LAPSED] = "lapsed", [ASSENT_USED] = "used", [ASSENT_RECALLED] = "recalled" };

	return state > 0 && (size_t)state < NELEMS(names) ? names[state] : "unknown";
}

const char *assent_event_name(int what)
{
	return what == ASSENT_WAITS ? "asked" : what == ASSENT_AGREED ? "agreed" : assent_state_name(what);
}

void assent_field(int64_t id, const uint8_t digest[32], int state, uint8_t ret[ASSENT_FIELD])
{
	audit_put_be(ret, (uint64_t)id, 8);
	memcpy(ret + 8, digest, 32);
	ret[40] = (uint8_t)state;
}

void assent_votes_text(const struct assent_vote *vote, size_t n, struct str *out)
{
	for (size_t i = 0; i < n; i++)
		str_printf(out, "%s%s\t%s\t%" PRIu64 "\t%s", i ? "\n" : "", vote[i].who, vote[i].name, vote[i].us,
			   vote[i].reason);
}

/* --- what is sealed */

static size_t place_of(int64_t id, char ret[64])
{
	return (size_t)snprintf(ret, 64, "assent/%" PRId64 "/shown", id);       /* fits */
}

static void key_of(const struct keys_dek *dek, const char *place, uint8_t ret[DIGEST_SIZE])
{
	digest_keyed(dek->key, label, sizeof(label), place, strlen(place), ret);
}

static int seal(const struct assent_add *a, struct db *db, struct audit_logs *logs, struct db_stmt *st, uint8_t *ct,
		uint8_t nonce[AEAD_NONCE], struct err *err)
{
	const struct keys_dek *dek = NULL;
	uint8_t key[DIGEST_SIZE];
	char place[64];
	size_t n = place_of(a->id, place);
	int rc = keys_dek(audit_logs_keys(logs), db, a->tenant_id, a->prn, a->asked_us, &dek, err);

	if (rc < 0)
		return rc;
	key_of(dek, place, key);
	aead_encrypt(key, place, n, a->text + a->rule_len + 1, a->shown_len, nonce, ct);
	secret_wipe(key, sizeof(key));
	db_bind_i64(st, 14, dek->id);
	db_bind_blob(st, 15, nonce, AEAD_NONCE);
	db_bind_blob(st, 16, ct, a->shown_len + AEAD_TAG);
	return 0;
}

int assent_unseal(struct db *db, struct keys *keys, int64_t tenant_id, int64_t id, struct str *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ASSENT_SEALED);
	const struct keys_dek *dek = NULL;
	const uint8_t *nonce, *ct;
	size_t nonce_len, len, n;
	uint8_t key[DIGEST_SIZE];
	char place[64], *text;
	int rc;

	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, tenant_id);
	rc = db_step(st, err);
	if (rc == 1) {
		nonce = db_col_blob(st, 1, &nonce_len);
		ct = db_col_blob(st, 2, &len);
		rc = nonce_len == AEAD_NONCE && len >= AEAD_TAG ? keys_find(keys, tenant_id, db_col_i64(st, 0), &dek, err) :
			ERR_NOT_FOUND;
		if (rc == 0) {
			n = place_of(id, place);
			key_of(dek, place, key);
			text = mem_alloc(len - AEAD_TAG + 1);
			rc = aead_decrypt(key, place, n, nonce, ct, len, text);
			secret_wipe(key, sizeof(key));
			if (rc == 0)
				str_put(ret, text, len - AEAD_TAG);
			free(text);
		}
	} else if (rc == 0) {
		rc = ERR_NOT_FOUND;
	}
	db_stmt_put(&st);
	if (rc < 0)
		return err_set(err, ERR_NOT_FOUND, "", "what approval %" PRId64 " is about cannot be opened any more", id);
	return 0;
}

/* --- the writer's thread: what comes with a record of the engine's */

struct event { int64_t tenant_id, id; int what; uint64_t us; const char *who, *said; };

/* What has become of it, for who watches. */
static int add_event(struct db *db, const struct event *e, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ASSENT_EVENT_ADD);

	db_bind_i64(st, 1, e->tenant_id);
	db_bind_i64(st, 2, e->id);
	db_bind_i64(st, 3, e->what);
	db_bind_i64(st, 4, (int64_t)e->us);
	db_bind_textz(st, 5, e->who);
	db_bind_textz(st, 6, e->said);
	return db_run(&st, err);
}

static int drop_old(struct db *db, int64_t tenant_id, uint64_t now_us, struct err *err)
{
	static const enum sql_id all[] = { SQL_ASSENT_OLD_VOTES, SQL_ASSENT_OLD_EVENTS, SQL_ASSENT_OLD };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < NELEMS(all); i++) {
		struct db_stmt *st = db_stmt_get(db, all[i]);

		db_bind_i64(st, 1, tenant_id);
		db_bind_i64(st, 2, (int64_t)(now_us > ASSENT_KEPT_US ? now_us - ASSENT_KEPT_US : 0));
		rc = db_run(&st, err);
	}
	return rc;
}

static int add(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct assent_add *a = bytes;
	uint8_t *ct = mem_alloc(a->shown_len + AEAD_TAG), nonce[AEAD_NONCE];
	struct db_stmt *st;
	int rc = drop_old(db, a->tenant_id, a->asked_us, err);

	(void)len;
	if (rc < 0) {
		free(ct);
		return rc;
	}
	st = db_stmt_get(db, SQL_ASSENT_ADD);
	db_bind_i64(st, 1, a->id);
	db_bind_i64(st, 2, a->tenant_id);
	db_bind_i64(st, 3, a->principal_id);
	db_bind_textz(st, 4, a->prn);
	db_bind_textz(st, 5, *a->cred ? a->cred : NULL);
	db_bind_blob(st, 6, a->digest, sizeof(a->digest));
	db_bind_textz(st, 7, a->tool);
	db_bind_textz(st, 8, a->name);
	db_bind_blob(st, 9, a->tdef, sizeof(a->tdef));
	db_bind_text(st, 10, a->text, a->rule_len);
	db_bind_i64(st, 11, (int64_t)a->asked_us);
	db_bind_i64(st, 12, (int64_t)a->due_us);
	db_bind_blob(st, 13, a->call, sizeof(a->call));
	rc = seal(a, db, logs, st, ct, nonce, err);
	if (rc == 0)
		rc = db_run(&st, err);
	else
		db_stmt_put(&st);
	if (rc == 0)
		rc = add_event(db, &(struct event){ a->tenant_id, a->id, ASSENT_WAITS, a->asked_us, "", "" }, err);
	CRASH_AT("assent.file");
	free(ct);
	return rc;
}

static int use(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct assent_end *e = bytes;
	struct db_stmt *st = db_stmt_get(db, SQL_ASSENT_USE);
	int rc;

	(void)len;
	(void)logs;
	db_bind_i64(st, 1, e->id);
	db_bind_i64(st, 2, e->tenant_id);
	db_bind_blob(st, 3, e->call, sizeof(e->call));
	db_bind_i64(st, 4, (int64_t)e->us);
	rc = db_run(&st, err);
	if (rc == 0 && db_changes(db) != 1)
		rc = err_set(err, ERR_CONFLICT, "", "approval %" PRId64 " is not granted any more", e->id);
	if (rc == 0)
		rc = add_event(db, &(struct event){ e->tenant_id, e->id, ASSENT_USED, e->us, "", "" }, err);
	CRASH_AT("assent.use");
	return rc;
}

static int set_end(struct db *db, const struct assent_end *e, enum assent_state state, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ASSENT_END);
	int rc;

	db_bind_i64(st, 1, e->id);
	db_bind_i64(st, 2, e->tenant_id);
	db_bind_i64(st, 3, state);
	db_bind_i64(st, 4, (int64_t)e->us);
	db_bind_textz(st, 5, *e->said ? e->said : NULL);
	rc = db_run(&st, err);
	if (rc == 0 && db_changes(db) != 1)
		rc = err_set(err, ERR_CONFLICT, "", "approval %" PRId64 " is over already", e->id);
	return rc;
}

static int lapse(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct assent_end *e = bytes;
	int rc = set_end(db, e, ASSENT_LAPSED, err);

	(void)len;
	(void)logs;
	return rc < 0 ? rc : add_event(db, &(struct event){ e->tenant_id, e->id, ASSENT_LAPSED, e->us, "", e->said }, err);
}

const struct writer_rows assent_rows[] = {
	[ASSENT_ROWS_ADD] = { "approval", add },
	[ASSENT_ROWS_USE] = { "use of an approval", use },
	[ASSENT_ROWS_LAPSE] = { "end of an approval", lapse },
};

/* --- the same thread: votes */

struct row {
	int64_t tenant_id;
	int state;
	uint64_t due_us, use_by_us;
	uint8_t digest[32], call[16];
	char prn[ASSENT_PRN_SIZE], cred[ASSENT_PRN_SIZE], tool[ASSENT_TEXT_SIZE];
	struct assent_rule *rule;
};

static bool copy_blob(struct db_stmt *st, unsigned col, uint8_t *ret, size_t size)
{
	size_t len;
	const void *p = db_col_blob(st, col, &len);

	if (len == size)
		memcpy(ret, p, size);
	return len == size;
}

/* The caller frees its rule. */
static int get(struct db *db, int64_t id, struct row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ASSENT_GET);
	int rc;

	*ret = (struct row){ 0 };
	db_bind_i64(st, 1, id);
	rc = db_step(st, err);
	if (rc == 1) {
		ret->tenant_id = db_col_i64(st, 1);
		ret->state = (int)db_col_i64(st, 5);
		ret->due_us = (uint64_t)db_col_i64(st, 6);
		ret->use_by_us = (uint64_t)db_col_i64(st, 7);
		db_col_copy(st, 3, ret->tool, sizeof(ret->tool));
		db_col_copy(st, 9, ret->prn, sizeof(ret->prn));
		db_col_copy(st, 10, ret->cred, sizeof(ret->cred));
		rc = copy_blob(st, 2, ret->digest, sizeof(ret->digest)) && copy_blob(st, 8, ret->call, sizeof(ret->call)) ?
			assent_rule_parse(db_col_text(st, 4, NULL), &ret->rule, err) :
			err_set(err, ERR_CORRUPT, "", "the row of approval %" PRId64 " is damaged", id);
	} else if (rc == 0) {
		rc = err_set(err, ERR_NOT_FOUND, "", "approval %" PRId64 ": not found", id);
	}
	db_stmt_put(&st);
	return rc;
}

/* What the record says beside who gave the command. */
static int record(struct assent_deed *d, const struct row *row, struct audit_event *ev, enum audit_kind kind,
		  struct db *db, struct audit_logs *logs, struct err *err)
{
	char by[2 * ASSENT_NAME_SIZE + 4];
	uint8_t which[ASSENT_FIELD];
	struct audit_field field[4];
	const char *line = ev->detail;

	(void)snprintf(by, sizeof(by), "%s (%s)", d->who, d->name);
	assent_field(d->id, row->digest, (int)d->state, which);
	ev->kind = kind;
	ev->tenant_id = row->tenant_id;
	ev->prn = row->prn;
	ev->tool = row->tool;
	ev->has_call = true;            /* beside the call that asked */
	memcpy(ev->call, row->call, sizeof(ev->call));
	ev->nfield = 0;
	field[ev->nfield++] = (struct audit_field){ AUDIT_TAG_APPROVER, by, strlen(by) };
	ev->detail = *d->reason ? d->reason : NULL;
	if (line)
		field[ev->nfield++] = (struct audit_field){ AUDIT_TAG_COMMAND, line, strlen(line) };
	field[ev->nfield++] = (struct audit_field){ AUDIT_TAG_ASSENT, which, sizeof(which) };
	ev->field = field;
	return audit_append(logs, db, ev, NULL, err);
}

static int add_vote(const struct assent_deed *d, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ASSENT_VOTE_ADD);
	int rc;

	db_bind_i64(st, 1, d->tenant_id);
	db_bind_i64(st, 2, d->id);
	db_bind_textz(st, 3, d->who);
	db_bind_textz(st, 4, d->name);
	db_bind_i64(st, 5, d->yes);
	db_bind_i64(st, 6, (int64_t)d->us);
	db_bind_textz(st, 7, d->reason);
	rc = db_run(&st, err);
	if (rc == ERR_CONFLICT)
		rc = err_set(err, ERR_DENIED, "", "%s has agreed to approval %" PRId64 " already", d->who, d->id);
	return rc;
}

static unsigned decides(const struct assent_deed *d, const char *who)
{
	for (size_t i = 0; i < d->npersons; i++)
		if (strcmp(d->persons[i].name, who) == 0)
			return d->persons[i].of;
	return 0;
}

/* Of those who have agreed, who may today?  How many more must, at least? */
static int count(const struct assent_deed *d, const struct assent_rule *rule, struct db *db, unsigned *ret,
		 struct err *err)
{
	const unsigned also = rule->also ? rule->also->count : 0;
	unsigned n = 0, n_also = 0;
	struct db_stmt *st = db_stmt_get(db, SQL_ASSENT_VOTES);
	int rc;

	db_bind_i64(st, 1, d->id);
	db_bind_i64(st, 2, d->tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		const unsigned of = decides(d, db_col_text(st, 0, NULL));

		n += (of & ASSENT_OF_RULE) != 0;
		n_also += (of & ASSENT_OF_ALSO) != 0;
	}
	db_stmt_put(&st);
	*ret = n < rule->count ? rule->count - n : 0;
	if (n_also < also && also - n_also > *ret)
		*ret = also - n_also;
	return rc;
}

static int grant(struct assent_deed *d, const struct row *row, struct db *db, struct err *err)
{
	struct db_stmt *st;
	int rc = count(d, row->rule, db, &d->missing, err);

	if (rc < 0)
		return rc;
	d->state = d->missing ? ASSENT_WAITS : ASSENT_GRANTED;
	if (d->missing)
		return 0;
	d->use_by_us = d->us + row->rule->use_ms * 1000;
	st = db_stmt_get(db, SQL_ASSENT_GRANT);
	db_bind_i64(st, 1, d->id);
	db_bind_i64(st, 2, d->tenant_id);
	db_bind_i64(st, 3, (int64_t)d->us);
	db_bind_i64(st, 4, (int64_t)d->use_by_us);
	return db_run(&st, err);
}

static int refuse(struct assent_deed *d, struct db *db, struct err *err)
{
	struct assent_end e = { .id = d->id, .tenant_id = d->tenant_id, .us = d->us };

	d->state = ASSENT_REFUSED;
	(void)snprintf(e.said, sizeof(e.said), "Refused by %s%s%.300s", d->who, *d->reason ? ": " : "", d->reason);
	return set_end(db, &e, ASSENT_REFUSED, err);
}

static int event_of(const struct assent_deed *d, struct db *db, struct err *err)
{
	const int what = d->state == ASSENT_WAITS ? ASSENT_AGREED : (int)d->state;

	return add_event(db, &(struct event){ d->tenant_id, d->id, what, d->us, d->who, d->reason }, err);
}

static int is_decided(const struct assent_deed *d, const struct row *row, struct err *err)
{
	if (row->state != ASSENT_WAITS)
		return err_set(err, ERR_CONFLICT, "", "approval %" PRId64 " is %s already", d->id, assent_state_name(row->state));
	if (row->due_us <= d->us)
		return err_set(err, ERR_CONFLICT, "", "the time of approval %" PRId64 " is over", d->id);
	return 0;
}

int assent_vote(struct assent_deed *d, struct audit_event *ev, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct row row;
	int rc = get(db, d->id, &row, err);

	d->us = ev->time_us;
	d->tenant_id = row.tenant_id;
	(void)snprintf(d->tool, sizeof(d->tool), "%.100s", row.tool);
	if (rc == 0)
		rc = is_decided(d, &row, err);
	if (rc == 0)
		rc = add_vote(d, db, err);
	if (rc == 0)
		rc = d->yes ? grant(d, &row, db, err) : refuse(d, db, err);
	if (rc == 0)
		rc = event_of(d, db, err);
	if (rc == 0)
		rc = record(d, &row, ev, d->yes ? AUDIT_CALL_APPROVED : AUDIT_CALL_REFUSED, db, logs, err);
	CRASH_AT("assent.vote");
	assent_rule_free(&row.rule);
	return rc;
}

int assent_recall(struct assent_deed *d, struct audit_event *ev, struct db *db, struct audit_logs *logs,
		  struct err *err)
{
	struct assent_end e = { .id = d->id, .us = ev->time_us };
	struct row row;
	int rc = get(db, d->id, &row, err);

	d->us = ev->time_us;
	e.tenant_id = d->tenant_id = row.tenant_id;
	d->state = ASSENT_RECALLED;
	(void)snprintf(d->tool, sizeof(d->tool), "%.100s", row.tool);
	(void)snprintf(e.said, sizeof(e.said), "Recalled by %s%s%.300s", d->who, *d->reason ? ": " : "", d->reason);
	if (rc == 0 && row.state != ASSENT_GRANTED)
		rc = err_set(err, ERR_CONFLICT, "", "approval %" PRId64 " is not granted: it %s%s", d->id,
			     row.state == ASSENT_WAITS ? "" : "is ", assent_state_name(row.state));
	if (rc == 0)
		rc = set_end(db, &e, ASSENT_RECALLED, err);
	if (rc == 0)
		rc = event_of(d, db, err);
	if (rc == 0)
		rc = record(d, &row, ev, AUDIT_CALL_RECALLED, db, logs, err);
	CRASH_AT("assent.recall");
	assent_rule_free(&row.rule);
	return rc;
}
