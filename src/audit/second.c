/* What two administrators have agreed on, from records (audit/second.h).  Called by commands that need two, and by
 * the beat that says which policies are in force.  Writer thread.  A picture of the system log is read on as that
 * grows; every reading ends with its root, which has to be the one in memory, so no row can say otherwise. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/checkpoint.h"
#include "audit/record.h"
#include "audit/second.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"

#include "audit_int.h"

#define WINDOW_US (2 * AUDIT_CONSENT_US + 3600ull * 1000000)    /* a request, then its grant, then an hour of clocks */

void audit_second_signed(struct audit_logs *logs, uint64_t size)
{
	logs->signed_before = (int64_t)size;
}

/* Appended by this process, or signed before it. */
static bool is_believed(const struct audit_logs *logs, int64_t idx)
{
	return idx < logs->signed_before || idx >= logs->found;
}

/* --- what a record says */

bool audit_said_text(const struct audit_value *ext, unsigned tag, char *ret, size_t size)
{
	size_t len = 0;
	const uint8_t *p = ext->present ? audit_field_find(ext->p, ext->len, tag, &len) : NULL;

	(void)snprintf(ret, size, "%.*s", p ? (int)(len < size ? len : size - 1) : 0, p ? (const char *)p : "");
	return p != NULL;
}

bool audit_said_digest(const struct audit_value *ext, unsigned tag, uint8_t ret[DIGEST_SIZE])
{
	size_t len = 0;
	const uint8_t *p = ext->present ? audit_field_find(ext->p, ext->len, tag, &len) : NULL;

	if (!p || len != DIGEST_SIZE)
		return false;
	memcpy(ret, p, DIGEST_SIZE);
	return true;
}

bool audit_said_node(const struct audit_value *ext)
{
	char text[AUDIT_DETAIL_MAX + 1];

	return audit_said_text(ext, AUDIT_TAG_REASON, text, sizeof(text)) && strstr(text, ", node=");
}

/* Who gave a command, from its line: "uid 0 (cli): erase tenant=acme". */
void audit_said_who(const struct audit_value *ext, char ret[AUDIT_WHO_MAX])
{
	char *end;

	(void)audit_said_text(ext, AUDIT_TAG_REASON, ret, AUDIT_WHO_MAX);
	ret[strcspn(ret, ":")] = '\0';
	end = strstr(ret, " (cli)");
	if (end)
		*end = '\0';
}

/* The number in "approval/7"; 0: it is none of these. */
int64_t audit_said_number(const struct audit_value *obj)
{
	static const char prefix[] = "approval/";
	const size_t n = sizeof(prefix) - 1;
	int64_t id = 0;

	if (!obj->present || obj->len <= n || memcmp(obj->p, prefix, n) != 0
		|| text_i64((const char *)obj->p + n, obj->len - n, &id) < 0)
		return 0;
	return id;
}

/* The hash of the text; the person's name may follow. */
bool audit_said_asked(const struct audit_value *ext, uint8_t ret[DIGEST_SIZE], char person[AUDIT_PERSON_MAX])
{
	size_t len = 0;
	const uint8_t *p = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_ASKED, &len) : NULL;

	if (!p || len < DIGEST_SIZE || len >= DIGEST_SIZE + AUDIT_PERSON_MAX)
		return false;
	memcpy(ret, p, DIGEST_SIZE);
	memcpy(person, p + DIGEST_SIZE, len - DIGEST_SIZE);
	person[len - DIGEST_SIZE] = '\0';
	return true;
}

void audit_asked_make(const char *text, const char *person, struct audit_asked *ret)
{
	size_t len = person ? strnlen(person, AUDIT_PERSON_MAX - 1) : 0;

	digest_sha256(text, strlen(text), ret->p);
	if (len > 0)
		memcpy(ret->p + DIGEST_SIZE, person, len);
	ret->len = DIGEST_SIZE + len;
}

/* --- the picture */

static struct audit_consent *find(const struct second *s, int64_t id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].id == id)
			return &s->v[i];
	return NULL;
}

static void drop_at(struct second *s, size_t i)
{
	memmove(&s->v[i], &s->v[i + 1], (s->n - i - 1) * sizeof(*s->v));
	s->n--;
}

static void note_request(struct second *s, int64_t id, const struct audit_row *row)
{
	struct audit_consent c = { .id = id, .asked_us = (uint64_t)row->v[COL_TS].n };

	for (size_t i = s->n; i > 0; i--)
		if (s->v[i - 1].id == id)
			drop_at(s, i - 1);
	if (!audit_said_digest(&row->v[COL_EXT], AUDIT_TAG_AFTER, c.digest)
		|| !audit_said_asked(&row->v[COL_EXT], c.asked, c.asker))
		return;                 /* of an older release: it has to be asked for again */
	audit_said_who(&row->v[COL_EXT], c.asked_by);
	if (s->n == AUDIT_CONSENTS_MAX)
		drop_at(s, 0);
	s->v = mem_realloc(s->v, (s->n + 1) * sizeof(*s->v));
	s->v[s->n++] = c;
}

/* By somebody else, of the same action, and shown the same text. */
static void note_grant(struct second *s, int64_t id, const struct audit_row *row)
{
	struct audit_consent *c = find(s, id), got = { .granted_us = (uint64_t)row->v[COL_TS].n };

	if (!c || c->granted_us || !audit_said_digest(&row->v[COL_EXT], AUDIT_TAG_AFTER, got.digest)
		|| !audit_said_asked(&row->v[COL_EXT], got.asked, got.granter))
		return;
	audit_said_who(&row->v[COL_EXT], got.granted_by);
	if (memcmp(got.digest, c->digest, DIGEST_SIZE) != 0 || memcmp(got.asked, c->asked, DIGEST_SIZE) != 0
		|| strcmp(got.granted_by, c->asked_by) == 0 || (*c->asker && strcmp(got.granter, c->asker) == 0)
		|| got.granted_us >= c->asked_us + AUDIT_CONSENT_US)
		return;
	memcpy(c->granted_by, got.granted_by, sizeof(c->granted_by));
	memcpy(c->granter, got.granter, sizeof(c->granter));
	c->granted_us = got.granted_us;
}

/* A word that asks for less is believed when it is sure, one that asks for more at once. */
static void note_policy(struct second *s, const struct audit_value *obj, bool believed)
{
	const char *p = obj->p;

	if (!obj->present)
		return;
	if (text_eq(p, obj->len, "approval/policy/two"))
		s->policy.one = false;
	else if (text_eq(p, obj->len, "approval/versions/required"))
		s->policy.versions = true;
	else if (believed && text_eq(p, obj->len, "approval/policy/one"))
		s->policy.one = true;
	else if (believed && text_eq(p, obj->len, "approval/versions/free"))
		s->policy.versions = false;
}

/* logs.commit says which policies are in force, but in stores of older releases. */
static void note_commit(struct second *s, const struct audit_value *ext)
{
	size_t len = 0;
	const uint8_t *p = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_POLICIES, &len) : NULL;

	if (p && len == 2) {
		s->policy = (struct audit_policy){ .one = p[0] == 1, .versions = p[1] == 1 };
		s->known = true;
	} else {
		s->unsaid = true;
	}
}

static void note(struct second *s, const struct audit_read *got, bool believed)
{
	const struct audit_row *row = &got->row;
	int64_t id = audit_said_number(&row->v[COL_OBJ]);

	switch (row->v[COL_KIND].present ? row->v[COL_KIND].n : 0) {
	case AUDIT_APPROVAL_REQUEST:
		if (id && believed)
			note_request(s, id, row);
		break;
	case AUDIT_APPROVAL_GRANT:
		if (id && believed)
			note_grant(s, id, row);
		break;
	case AUDIT_ADMIN_CMD:           /* what it allows was done, or it was denied */
		for (size_t i = s->n; id && i > 0; i--)
			if (s->v[i - 1].id == id)
				drop_at(s, i - 1);
		break;
	case AUDIT_POLICY_CHANGE:
		note_policy(s, &row->v[COL_OBJ], believed);
		break;
	case AUDIT_LOGS_COMMIT:
		if (believed)
			note_commit(s, &row->v[COL_EXT]);
		break;
	default:
		break;
	}
}

/* --- reading */

static int not_as_written(const struct audit_log *log, uint64_t idx, struct err *err)
{
	(void)err_set(err, ERR_CORRUPT, log->origin, "record %llu of %s is not there as it was written",
		      (unsigned long long)idx, log->origin);
	err_hint(err, "toolcrib-verify STORE says more");
	return ERR_CORRUPT;
}

/* As far as the tree `to`, which is the writer's own. */
static int read_on(struct audit_logs *logs, struct db *db, struct second *s, const struct tree *to, struct err *err)
{
	const struct audit_log *log = audit_log_find(logs, 0);
	struct audit_page page = { .log = log->id, .origin = log->origin, .from = (int64_t)s->tree.size,
		.to = (int64_t)to->size };
	struct audit_reader *reader = audit_reader_new(db);
	uint8_t root[TREE_HASH], want[TREE_HASH];
	struct audit_read got;
	int rc;

	while ((rc = audit_reader_next(reader, &page, &got, err)) == 1) {
		if (got.findings || got.idx != (int64_t)s->tree.size) {
			rc = not_as_written(log, s->tree.size, err);
			break;
		}
		tree_append(&s->tree, got.leaf);
		note(s, &got, is_believed(logs, got.idx));
	}
	audit_reader_free(&reader);
	if (rc < 0)
		return rc;
	tree_root(&s->tree, root);
	tree_root(to, want);
	if (s->tree.size == to->size && memcmp(root, want, TREE_HASH) == 0)
		return 0;
	return not_as_written(log, s->tree.size, err);
}

static void second_fini(struct second *s)
{
	free(s->v);
	*s = (struct second){ .begun = false };
}

static int hint(struct db *db, enum sql_id sql, int64_t arg, int64_t *at, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);
	int rc;

	db_bind_i64(st, 1, arg);
	rc = db_step(st, err);
	if (rc == 1 && db_col_type(st, 0) == DB_INT && db_col_i64(st, 0) < *at)
		*at = db_col_i64(st, 0) > 0 ? db_col_i64(st, 0) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* From where on: the newest record that says which policies are in force, and the oldest request.  Only a hint: what
 * is said too early is read needlessly, what is said too late is not believed. */
static int find_start(struct audit_logs *logs, struct db *db, int64_t size, int64_t *ret, struct err *err)
{
	uint64_t now = clock_wall_us();
	int64_t at = size;
	int rc;

	rc = hint(db, SQL_SECOND_COMMIT, logs->signed_before > 0 ? logs->signed_before : INT64_MAX, &at, err);
	if (at == size)
		at = 0;
	if (rc == 0)
		rc = hint(db, SQL_SECOND_REQUEST, now > WINDOW_US ? (int64_t)(now - WINDOW_US) : 0, &at, err);
	*ret = at;
	return rc;
}

/* A store of an older release: as its rows have it, and from now on records say so. */
static int take_over(struct db *db, struct second *s, struct err *err)
{
	char text[16] = "";
	int rc = db_meta_get(db, "approvals", text, sizeof(text), err);

	s->policy.one = rc == 0 && strcmp(text, "one") == 0;
	if (rc == 0)
		rc = db_meta_get(db, "versions", text, sizeof(text), err);
	s->policy.versions = rc == 0 && strcmp(text, "required") == 0;
	s->known = true;
	return rc;
}

static int read_from(struct audit_logs *logs, struct db *db, int64_t at, const struct tree *to, struct second *s,
		     struct err *err)
{
	int rc;

	second_fini(s);
	rc = audit_cp_find(db, AUDIT_SYSTEM_LOG, (uint64_t)at, &s->tree, err);
	if (rc < 0)
		return rc;
	s->known = s->tree.size == 0;
	rc = read_on(logs, db, s, to, err);
	return rc == 0 && !s->known && s->unsaid ? take_over(db, s, err) : rc;
}

static int read_first(struct audit_logs *logs, struct db *db, const struct tree *to, struct second *s, struct err *err)
{
	int64_t at = 0;
	int rc = find_start(logs, db, (int64_t)to->size, &at, err);

	if (rc == 0)
		rc = read_from(logs, db, at, to, s, err);
	while (rc == 0 && !s->known) {
		at /= 4;
		rc = read_from(logs, db, at, to, s, err);
	}
	s->begun = rc == 0;
	return rc;
}

static void copy(const struct second *from, struct second *ret)
{
	*ret = *from;
	ret->v = from->n > 0 ? mem_dup(from->v, from->n * sizeof(*from->v)) : NULL;
}

/* By now, with what this transaction has appended; second_fini() it. */
static int look(struct audit_logs *logs, struct db *db, struct second *ret, struct err *err)
{
	struct audit_log *log = audit_log_find(logs, 0);
	struct second s = { .begun = false };
	struct tree now;
	int rc = audit_head_tree(logs, db, 0, &now, err);

	if (rc < 0)
		return rc;
	if (logs->second.begun)
		copy(&logs->second, &s);
	if (!s.begun)
		rc = read_first(logs, db, &log->tail->now, &s, err);
	else if (s.tree.size < log->tail->now.size)
		rc = read_on(logs, db, &s, &log->tail->now, err);
	if (rc == 0 && (!logs->second.begun || logs->second.tree.size < s.tree.size)) {
		second_fini(&logs->second);
		copy(&s, &logs->second);
	}
	if (rc == 0 && s.tree.size < now.size)
		rc = read_on(logs, db, &s, &now, err);
	if (rc < 0)
		second_fini(&s);
	else
		*ret = s;
	return rc;
}

int audit_second_find(struct audit_logs *logs, struct db *db, int64_t id, struct audit_consent *ret, struct err *err)
{
	struct second s;
	const struct audit_consent *c;
	int rc = look(logs, db, &s, err);

	if (rc < 0)
		return rc;
	c = find(&s, id);
	if (c)
		*ret = *c;
	second_fini(&s);
	return c != NULL;
}

int audit_second_policy(struct audit_logs *logs, struct db *db, struct audit_policy *ret, struct err *err)
{
	struct second s;
	int rc = look(logs, db, &s, err);

	if (rc < 0)
		return rc;
	*ret = s.policy;
	second_fini(&s);
	return 0;
}

int audit_second_said(struct audit_logs *logs, struct db *db, uint8_t ret[AUDIT_POLICIES_SIZE], struct err *err)
{
	struct audit_policy p = logs->second.policy;
	int rc = audit_second_policy(logs, db, &p, err);

	if (rc < 0 && !logs->second.begun)
		return rc;
	ret[0] = p.one ? 1 : 2;
	ret[1] = p.versions ? 1 : 0;
	return 0;
}

/* --- versions that wait, which may be old: by a proof for the one record */

struct author { const char *obj; const uint8_t *digest; char *who, *person; bool found; };

static int see_author(void *arg, const struct audit_read *got)
{
	struct author *a = arg;
	const struct audit_row *row = &got->row;
	uint8_t digest[DIGEST_SIZE], asked[DIGEST_SIZE];

	if (row->v[COL_KIND].n != AUDIT_APPROVAL_REQUEST || !row->v[COL_OBJ].present
		|| !text_eq(row->v[COL_OBJ].p, row->v[COL_OBJ].len, a->obj)
		|| !audit_said_digest(&row->v[COL_EXT], AUDIT_TAG_AFTER, digest)
		|| memcmp(digest, a->digest, DIGEST_SIZE) != 0)
		return 0;
	audit_said_who(&row->v[COL_EXT], a->who);
	if (!audit_said_asked(&row->v[COL_EXT], asked, a->person))
		*a->person = '\0';
	a->found = true;
	return 0;
}

int audit_second_author(struct audit_logs *logs, struct db *db, const char *obj, const uint8_t digest[DIGEST_SIZE],
			char *ret_who, char *ret_person, struct err *err)
{
	const struct audit_log *log = audit_log_find(logs, 0);
	struct author a = { obj, digest, ret_who, ret_person, false };
	uint8_t root[TREE_HASH];
	struct tree now;
	struct db_stmt *st;
	int rc = audit_head_tree(logs, db, 0, &now, err);

	if (rc < 0)
		return rc;
	tree_root(&now, root);
	st = db_stmt_get(db, SQL_SECOND_OF_OBJECT);
	db_bind_textz(st, 1, obj);
	while (!a.found && (rc = db_step(st, err)) == 1) {
		const struct audit_place at = { log->id, db_col_i64(st, 0), log->origin, now.size, root };

		if (is_believed(logs, at.idx))
			rc = audit_included(db, &at, see_author, &a, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : a.found;
}
