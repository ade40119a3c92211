/* A store with signed notes (seal_rig.h). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/checkpoint.h"
#include "audit/payload.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "keys/keys.h"
#include "tlog/signer.h"

#include "seal_rig.h"

enum { ACME = 7, SYSTEM_ID_MAX = 256, BATCH = 100 };
#define START_US UINT64_C(1780000000000000)

struct making {
	struct db *db;
	struct audit_logs *logs;
	struct err *err;
	uint8_t public[2][SIGN_PUBLIC_SIZE], secret[2][SIGN_SECRET_SIZE];
	char instance[SYSTEM_ID_MAX];
	struct seal_rig *ret;
	size_t notes;
};

static int append(struct making *m, unsigned i)
{
	char value[64];
	struct audit_payload payload = { .level = AUDIT_REQUEST, .n = 1,
		.value = { { .ctag = AUDIT_C_ARGUMENTS, .p = value, .keep = i % 3 == 0 } } };
	const bool end = i % 2 == 1;
	char tool[32];
	const unsigned call = i / 2;
	struct audit_event ev;

	(void)snprintf(value, sizeof(value), "{\"n\":%u,\"text\":\"%u\"}", i, i * 7919);
	payload.value[0].len = strlen(value);
	(void)snprintf(tool, sizeof(tool), "tool_%u", call % 11);
	clock_step(1000 + i * 37 % 911);
	audit_event_init(&ev, end ? AUDIT_CALL_END : AUDIT_CALL_BEGIN, ACME);
	ev.has_call = true;
	memcpy(ev.call, &call, sizeof(call));
	ev.prn = call % 2 ? "prn_a" : "prn_b";
	ev.tool = tool;
	ev.has_outcome = end;
	ev.outcome = end && call % 17 == 0;
	if (i % 5)
		ev.payload = &payload;
	return audit_append(m->logs, m->db, &ev, NULL, m->err);
}

/* Heads go with the records. */
static int end_txn(struct making *m, int rc)
{
	if (rc == 0)
		rc = audit_logs_flush(m->logs, m->db, m->err);
	rc = db_txn_end(m->db, rc, m->err);
	if (rc == 0)
		audit_logs_commit(m->logs);
	return rc;
}

static int transaction(struct making *m, unsigned from, unsigned to)
{
	int rc = db_txn_begin(m->db, true, m->err);

	for (unsigned i = from; rc == 0 && i < to; i++)
		rc = append(m, i);
	return end_txn(m, rc);
}

static void sign(const struct making *m, unsigned epoch, const struct audit_head *head, struct str *ret)
{
	struct checkpoint cp = { .size = head->tree.size };
	uint8_t sig[SIGN_SIZE];
	struct note_key key;
	size_t len;

	(void)snprintf(cp.origin, sizeof(cp.origin), "%s", head->origin);
	tree_root(&head->tree, cp.root);
	checkpoint_print(&cp, ret);
	len = ret->len;
	sign_make(m->secret[epoch], ret->p, len, sig);
	if (epoch_key_set(&key, m->instance, epoch, m->public[epoch]) == 0)
		note_add(ret, len, &key, sig);
}

/* Notes of all logs, as the notary makes them. */
static int checkpoint(struct making *m, unsigned epoch)
{
	const struct audit_beat_opt opt = { .max = SIZE_MAX, .say = AUDIT_SAY_ALL };
	struct audit_note note[4] = { { 0 } };
	struct str text[4] = { STR_INIT, STR_INIT, STR_INIT, STR_INIT };
	struct audit_beat b = { 0 };
	int rc = db_txn_begin(m->db, true, m->err);

	clock_step(UINT64_C(3600000000));       /* of one hour the last one stays */
	if (rc == 0)
		rc = audit_beat(m->logs, m->db, &opt, &b, m->err);
	if (rc == 0)
		rc = audit_beat_system(m->logs, m->db, &b, m->err);
	for (size_t i = 0; rc == 0 && i < b.nhead && i < NELEMS(note); i++) {
		sign(m, epoch, &b.head[i], &text[i]);
		note[i] = (struct audit_note){ text[i].p, text[i].len };
		if (b.head[i].log == SEAL_LOG)
			m->ret->noted[m->notes++] = (int64_t)b.head[i].tree.size;
	}
	if (rc == 0)
		rc = audit_beat_store(m->logs, m->db, &b, note, epoch, m->err);
	rc = end_txn(m, rc);
	for (size_t i = 0; i < NELEMS(text); i++)
		str_fini(&text[i]);
	audit_beat_fini(&b);
	return rc;
}

static int begin_epoch(struct making *m, unsigned n)
{
	uint8_t text[EPOCH_CERT_TEXT], cert[SIGN_SIZE];
	int rc = db_txn_begin(m->db, true, m->err);

	if (n > 0) {
		epoch_cert_text(n, m->public[n], text);
		sign_make(m->secret[n - 1], text, sizeof(text), cert);
	}
	if (rc == 0)
		rc = audit_epoch_begin(m->logs, m->db, n, m->public[n], n > 0 ? cert : NULL, m->err);
	return end_txn(m, rc);
}

static int create_logs(struct making *m)
{
	int rc = db_txn_begin(m->db, true, m->err);

	if (rc == 0)
		rc = audit_log_create(m->logs, m->db, 0, NULL, m->err);
	if (rc == 0)
		rc = audit_log_create(m->logs, m->db, ACME, "acme", m->err);
	return end_txn(m, rc);
}

static int see_log(void *arg, const struct audit_log_view *log, struct err *err)
{
	struct making *m = arg;

	(void)err;
	if (log->id == SEAL_LOG)
		(void)snprintf(m->ret->origin, sizeof(m->ret->origin), "%s", log->origin);
	else
		(void)snprintf(m->instance, sizeof(m->instance), "%s", log->origin);
	return 0;
}

static int fill(struct making *m, unsigned records)
{
	int rc = create_logs(m);

	if (rc == 0)
		rc = audit_logs_each(m->logs, see_log, m, m->err);
	if (rc == 0)
		rc = epoch_key_set(&m->ret->pin, m->instance, 0, m->public[0]);
	for (unsigned part = 0; rc == 0 && part < SEAL_NOTES; part++) {
		const unsigned epoch = part >= SEAL_NOTES / 2, to = records * (part + 1) / SEAL_NOTES;

		if (part == 0 || part == SEAL_NOTES / 2)
			rc = begin_epoch(m, epoch);
		for (unsigned at = records * part / SEAL_NOTES; rc == 0 && at < to; at += BATCH)
			rc = transaction(m, at, at + BATCH < to ? at + BATCH : to);
		if (rc == 0)
			rc = checkpoint(m, epoch);
	}
	return rc;
}

int seal_rig_make(const char *dir, unsigned records, struct seal_rig *ret, struct err *err)
{
	static const uint8_t master[32] = { 1 };
	const struct keyfile_place place = { dir, master };
	struct making m = { .err = err, .ret = ret };
	char *path = path_join(dir, DB_FILE);
	struct keys *keys = NULL;
	int rc = secret_init();

	if (rc < 0)
		return err_set(err, ERR_INTERNAL, "seal_rig", "no libsodium");
	*ret = (struct seal_rig){ .noted = { 0 } };
	for (unsigned i = 0; i < 2; i++) {
		const uint8_t seed[SIGN_SEED_SIZE] = { (uint8_t)(i + 1) };

		sign_keys(seed, m.public[i], m.secret[i]);
	}
	clock_fake(START_US, 500000);
	rc = db_open(path, DB_WRITER, true, &m.db, err);
	if (rc == 0)
		rc = db_migrate(m.db, err);
	if (rc == 0)
		rc = audit_logs_open(m.db, &m.logs, err);
	if (rc == 0)
		rc = keys_open(&place, &keys, err);
	if (rc == 0) {
		audit_logs_give_keys(m.logs, &keys);
		rc = fill(&m, records);
	}
	audit_logs_close(&m.logs);
	db_close(&m.db);
	free(path);
	return rc;
}
