/* What an event says becomes commitments and an encrypted payload, once the record's place is known (AUDIT A-502). */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "audit/payload.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "forms/forms.h"
#include "keys/keys.h"

#include "audit_int.h"

enum {
	TOKEN_BYTES = 12,               /* of a redacted value: 96 bits keep apart what a tenant ever sends */
	SCRATCH_MAX = 1 << 20,          /* kept from one record to the next */
	KEY_HEAD = 4 + 12 + 1,          /* tck_ACCESSOR_ */
	KEY_TAIL = 49,
};

static const char *const level_names[] = {
	[AUDIT_METADATA] = "metadata", [AUDIT_REQUEST] = "request", [AUDIT_REQUEST_RESPONSE] = "request_response",
};

const char *audit_level_name(int level)
{
	return level >= 0 && (size_t)level < NELEMS(level_names) ? level_names[level] : NULL;
}

int audit_level_from_name(const char *name)
{
	for (size_t i = 0; i < NELEMS(level_names); i++)
		if (strcmp(level_names[i], name) == 0)
			return (int)i;
	return -1;
}

/* --- redaction */

static size_t base62_run(const char *p, const char *end)
{
	const char *from = p;

	while (p < end && ((*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z')))
		p++;
	return (size_t)(p - from);
}

/* tck_[0-9A-Za-z]{12}_[0-9A-Za-z]{49} at p?  What comes behind does not matter: better too much is hidden. */
static bool is_key(const char *p, const char *end)
{
	return end - p >= KEY_HEAD + KEY_TAIL && base62_run(p + 4, end) == 12 && p[KEY_HEAD - 1] == '_' &&
	       base62_run(p + KEY_HEAD, end) >= KEY_TAIL;
}

static bool add_hidden(struct audit_hidden *hidden, size_t *n, struct audit_hidden h)
{
	size_t at = 0;

	while (at < *n && hidden[at].to <= h.from)
		at++;
	if (at < *n && hidden[at].from <= h.from)       /* two keys that share letters: the rest of the second one */
		h.from = hidden[at++].to;
	if (at < *n && hidden[at].from < h.to)
		h.to = hidden[at].from;
	if (h.from >= h.to)                             /* within another one */
		return true;
	if (*n == AUDIT_HIDDEN_MAX)
		return false;
	memmove(hidden + at + 1, hidden + at, (*n - at) * sizeof(*hidden));
	hidden[at] = h;
	(*n)++;
	return true;
}

bool audit_hide_keys(const char *p, size_t len, struct audit_hidden hidden[AUDIT_HIDDEN_MAX], size_t *n)
{
	const char *end = p + len;

	/* By its rarest byte: memmem() makes a table first, which takes longer than a usual value. */
	for (const char *at = p; at < end && (at = memchr(at, '_', (size_t)(end - at))) != NULL; at++) {
		const size_t from = (size_t)(at - p) - 3, to = from + KEY_HEAD + KEY_TAIL;

		if (at - p >= 3 && memcmp(at - 3, "tck", 3) == 0 && is_key(at - 3, end) &&
		    !add_hidden(hidden, n, (struct audit_hidden){ from, to, false }))
			return false;
	}
	return true;
}

static void put_token(const uint8_t token_key[32], const char *p, size_t len, struct str *out)
{
	static const char label[] = "toolcrib/redact/1";
	uint8_t token[DIGEST_SIZE];
	char text[2 * TOKEN_BYTES];

	digest_keyed(token_key, label, sizeof(label), p, len, token);
	text_base64url(token, TOKEN_BYTES, text);
	str_puts(out, "\"redacted:");
	str_puts(out, text);
	str_putc(out, '"');
}

static int redact(struct audit_logs *logs, struct db *db, int64_t tenant_id, const struct audit_value_said *v,
		  struct str *out, struct err *err)
{
	const uint8_t *token_key = NULL;
	const char *p = v->p;
	size_t at = 0;
	int rc = keys_token(logs->keys, db, tenant_id, &token_key, err);

	if (rc < 0)
		return rc;
	str_reset(out);
	for (size_t i = 0; i < v->nhidden; i++) {
		const struct audit_hidden *h = &v->hidden[i];

		str_put(out, p + at, h->from - at);
		if (h->token)
			put_token(token_key, p + h->from, h->to - h->from, out);
		else
			str_puts(out, "[key]");
		at = h->to;
	}
	str_put(out, p + at, v->len - at);
	return 0;
}

/* --- commitments */

/* What goes into the record and its payload row while it is built. */
struct fill {
	struct audit_logs *logs;
	struct audit_at at;
	const struct keys_dek *dek;
	struct audit_filled *out;
	unsigned flags;
	bool withheld;                  /* something that is committed to is not kept */
	size_t kept;                    /* bytes of values */
};

static void commit(struct fill *f, unsigned ctag, const void *p, size_t len)
{
	struct audit_filled *out = f->out;
	uint8_t opening[32], *cm = out->cm;
	size_t at = 0;

	while (at < out->cm_len && audit_get_be(cm + at, 2) < ctag)
		at += AUDIT_CM_SIZE;
	memmove(cm + at + AUDIT_CM_SIZE, cm + at, out->cm_len - at);
	audit_put_be(cm + at, ctag, 2);
	audit_opening(f->dek->key, out->salt, &f->at, ctag, opening);
	audit_commitment(opening, ctag, p, len, cm + at + 2);
	out->cm_len += AUDIT_CM_SIZE;
}

static void keep(struct fill *f, unsigned ctag, const void *p, size_t len)
{
	struct str *kept = &f->logs->kept;
	uint8_t head[6];

	audit_put_be(head, ctag, 2);
	audit_put_be(head + 2, len, 4);
	str_put(kept, head, sizeof(head));
	str_put(kept, p, len);
	f->kept += len;
}

/* AUDIT A-415: what is kept only in part is committed to twice. */
static void add_value(struct fill *f, const struct audit_value_said *v, const char *p, size_t len)
{
	bool cut = v->keep && len > AUDIT_STORED_MAX;

	if (v->keep)
		keep(f, v->ctag, p, cut ? AUDIT_STORED_MAX : len);
	commit(f, v->ctag, p, cut ? AUDIT_STORED_MAX : len);
	if (cut && v->ctag == AUDIT_C_ARGUMENTS) {
		commit(f, AUDIT_C_WHOLE_ARGUMENTS, p, len);
		f->flags |= AUDIT_FLAG_ARGUMENTS_CUT;
	} else if (cut) {
		commit(f, AUDIT_C_WHOLE_RESULT, p, len);
		f->flags |= AUDIT_FLAG_RESULT_CUT;
	}
	f->withheld |= cut || !v->keep;
}

static int add_values(struct fill *f, struct db *db, const struct audit_event *ev, struct err *err)
{
	for (size_t i = 0; i < ev->payload->n; i++) {
		const struct audit_value_said *v = &ev->payload->value[i];
		struct str *clean = &f->logs->clean;
		int rc;

		if (v->nhidden == 0) {
			add_value(f, v, v->p, v->len);
			continue;
		}
		rc = redact(f->logs, db, ev->tenant_id, v, clean, err);
		if (rc < 0)
			return rc;
		add_value(f, v, str_text(clean), clean->len);
		f->flags |= AUDIT_FLAG_REDACTED;
	}
	return 0;
}

static void put_columns(const struct fill *f, const struct audit_event *ev, struct audit_row *row)
{
	struct audit_filled *out = f->out;

	audit_row_blob(row, COL_CM, out->cm, out->cm_len);
	if (f->withheld) {                              /* AUDIT A-517 */
		audit_salt_check(out->salt, out->sh);
		audit_row_blob(row, COL_SH, out->sh, sizeof(out->sh));
	}
	if (f->kept > 0)
		audit_row_int(row, COL_N_STO, (int64_t)f->kept);
	audit_row_int(row, COL_FLAGS, ev->flags | f->flags | ((unsigned)ev->payload->level & AUDIT_LEVEL_MASK));
	audit_row_int(row, COL_KEY, f->dek->id);
}

static void seal(const struct fill *f)
{
	struct audit_logs *logs = f->logs;
	const struct str *kept = &logs->kept;
	struct audit_bytes *ct = &logs->ct;

	ct->len = kept->len + AEAD_TAG;
	if (ct->len > ct->cap) {
		ct->cap = 2 * ct->len;
		ct->p = mem_realloc(ct->p, ct->cap);
	}
	audit_payload_seal(f->dek->ekey, f->dek->id, f->out->salt, &f->at, (const uint8_t *)str_text(kept), kept->len,
			   f->out->nonce, ct->p);
	f->out->kept = true;
}

int audit_payload_fill(struct audit_logs *logs, struct db *db, const struct audit_log *log,
		       const struct audit_event *ev, struct audit_row *row, struct audit_filled *ret, struct err *err)
{
	struct fill f = { .logs = logs, .at = { log->origin, log->origin_len, (uint64_t)log->size }, .dek = logs->dek,
		.out = ret };
	int rc = 0;

	ret->any = ret->kept = false;
	if (!ev->payload || ev->payload->n == 0)
		return 0;
	if (!f.dek && !logs->keys)
		return err_set(err, ERR_INTERNAL, "audit", "there are no keys to commit with");
	if (!f.dek)
		rc = keys_dek(logs->keys, db, ev->tenant_id, ev->prn ? ev->prn : "", ev->time_us, &f.dek, err);
	if (rc < 0)
		return rc;
	ret->any = true;
	ret->cm_len = 0;
	id_random(ret->salt, sizeof(ret->salt));
	str_reset(&logs->kept);
	rc = add_values(&f, db, ev, err);
	if (rc < 0)
		return rc;
	put_columns(&f, ev, row);
	if (logs->kept.len > 0)
		seal(&f);
	if (logs->clean.cap > SCRATCH_MAX)
		str_fini(&logs->clean);
	return 0;
}

int audit_payload_store(struct audit_logs *logs, struct db *db, const struct audit_row *row,
			const struct audit_filled *f, struct err *err)
{
	const struct forms_payload p = { logs->last_id, f->kept, { f->salt, sizeof(f->salt) }, { f->nonce, sizeof(f->nonce) },
		{ logs->ct.p, logs->ct.len } };
	struct db_stmt *st;

	if (!f->any)
		return 0;
	if (!logs->shared)
		return forms_payload_put(logs->gathered, db, &p, err);
	st = db_stmt_get(db, SQL_PAYLOAD_INSERT_AT);
	db_bind_i64(st, 1, row->v[COL_LOG].n);
	db_bind_i64(st, 2, row->v[COL_IDX].n);
	db_bind_i64(st, 3, row->v[COL_TS].n);
	db_bind_blob(st, 4, f->salt, sizeof(f->salt));
	if (f->kept) {
		db_bind_blob(st, 5, f->nonce, sizeof(f->nonce));
		db_bind_blob(st, 6, logs->ct.p, logs->ct.len);
	} else {
		db_bind_null(st, 5);
		db_bind_null(st, 6);
	}
	return db_run(&st, err);
}
