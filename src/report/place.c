/* Where a report is asked: the log, and the pseudonym, of the names that somebody gave; and where a list goes on.
 *
 * The cursor of a list of records: what `next: --after` says, and what is given back with the same question.  It has no
 * secret and opens nothing: a question is answered from the logs that it covers, whatever a cursor names.  Its digests
 * find what was cut, changed by accident, or is of another question or store.
 *
 * base64url of: version; 8 bytes of the digest of question and store; since and until of the first page; for each log
 * how far its number is above the one before, and the position below which its next row lies; 8 bytes of the digest of
 * all that.  Numbers are those of base/varint.h. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/varint.h"
#include "tenant/tenant_rows.h"

#include "report_int.h"

#define CURSOR_VERSION 1
#define CURSOR_MARK 8                   /* bytes of a digest */
#define CURSOR_MIN (1 + CURSOR_MARK + 2 + CURSOR_MARK)
#define CURSOR_TEXT_MAX 65536           /* an argument may be as long */
#define CURSOR_MAX (CURSOR_TEXT_MAX / 4 * 3)
#define SYSTEM_LOG 1

/* --- names */

static const char *or_null(const char *text)
{
	return *text ? text : NULL;
}

static int find_tenant(struct db *db, struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_FIND_LOG);
	struct tenant_row t = { 0 };
	struct principal_row p;
	int rc;

	db_bind_textz(st, 1, ask->tenant);
	rc = db_step(st, err);
	if (rc == 1) {
		ask->log = db_col_i64(st, 0);
		ask->tenant_id = t.id = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	if (rc == 0)            /* not even a removed one: say which name is near */
		rc = tenant_row_find(db, ask->tenant, &t, err);
	if (rc < 0 || !*ask->principal)
		return rc < 0 ? rc : 0;
	(void)snprintf(t.name, sizeof(t.name), "%s", ask->tenant);
	(void)snprintf(ask->pseudonym, sizeof(ask->pseudonym), "%s", ask->principal);
	if (strncmp(ask->principal, "prn_", 4) == 0)
		return 0;
	rc = principal_row_find(db, &t, ask->principal, &p, err);
	if (rc == 0)
		(void)snprintf(ask->pseudonym, sizeof(ask->pseudonym), "%s", p.pseudonym);
	return rc;
}

/* A key of another tenant than the one that is named is not there. */
static int find_key(struct db *db, struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_FIND_KEY);
	int rc;

	db_bind_textz(st, 1, ask->key);
	db_bind_textz(st, 2, or_null(ask->tenant));
	rc = db_step(st, err);
	if (rc == 1) {
		ask->log = db_col_i64(st, 0);
		ask->tenant_id = db_col_i64(st, 1);
	} else if (rc == 0) {
		rc = err_set(err, ERR_NOT_FOUND, "key", "key %s: not found", ask->key);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int report_ask_find(struct db *db, struct report_ask *ask, struct err *err)
{
	enum report_scope scope = report_ask_scope(ask);

	if (scope == SCOPE_KEY && *ask->key)
		return find_key(db, ask, err);
	if (*ask->tenant)
		return find_tenant(db, ask, err);
	ask->log = scope == SCOPE_EITHER || scope == SCOPE_SYSTEM ? 1 : 0;
	return 0;
}

void report_ask_fini(struct report_ask *ask)
{
	free(ask->line);
	free(ask->after);
	free(ask->store);
	json_decref(ask->cursor);
}

/* --- cursors */

static void put_number(struct str *out, uint64_t n)
{
	uint8_t bytes[VARINT_MAX];

	str_put(out, bytes, (size_t)(put_varint(bytes, n) - bytes));
}

/* Numbers of a record are below 2^63. */
static bool take_number(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
	const uint8_t *behind = get_varint(*at, end, ret);

	if (!behind || *ret > INT64_MAX)
		return false;
	*at = behind;
	return true;
}

static void digest_of(const void *p, size_t len, uint8_t ret[CURSOR_MARK])
{
	static const char name[] = "toolcrib cursor";
	const struct digest_part parts[] = { { name, sizeof(name) }, { p, len } };
	uint8_t digest[DIGEST_SIZE];

	digest_sha256_parts(parts, NELEMS(parts), digest);
	memcpy(ret, digest, CURSOR_MARK);
}

/* Of what was asked, and of which store: its system log has a name that no other has. */
static int question_of(struct db *db, const struct report_ask *ask, uint8_t ret[CURSOR_MARK], struct err *err)
{
	static const char name[] = "toolcrib question";
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD);
	uint8_t digest[DIGEST_SIZE];
	int rc;

	db_bind_i64(st, 1, SYSTEM_LOG);
	rc = db_step(st, err);
	if (rc == 1) {
		const char *origin = db_col_text(st, 0, NULL);
		const struct digest_part parts[] = { { name, sizeof(name) }, { origin, strlen(origin) + 1 },
			{ ask->question, sizeof(ask->question) } };

		digest_sha256_parts(parts, NELEMS(parts), digest);
		memcpy(ret, digest, CURSOR_MARK);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : rc == 1 ? 0 : err_set(err, ERR_CORRUPT, "", "the store has no log of the system");
}

int report_cursor_text(struct db *db, const struct report_ask *ask, const struct report_place *place, size_t n,
		       char **ret, struct err *err)
{
	struct str out = STR_INIT;
	uint8_t mark[CURSOR_MARK];
	int64_t log = 0;
	int rc = question_of(db, ask, mark, err);

	if (rc < 0)
		return rc;
	str_putc(&out, CURSOR_VERSION);
	str_put(&out, mark, sizeof(mark));
	put_number(&out, ask->since_us);
	put_number(&out, ask->until_us);
	for (size_t i = 0; i < n; i++) {
		put_number(&out, (uint64_t)(place[i].log - log));
		put_number(&out, (uint64_t)place[i].below);
		log = place[i].log;
	}
	digest_of(out.p, out.len, mark);
	str_put(&out, mark, sizeof(mark));
	*ret = NULL;
	if (out.len <= CURSOR_MAX) {
		*ret = mem_alloc(text_base64url_size(out.len));
		text_base64url(out.p, out.len, *ret);
	}
	str_fini(&out);
	return 0;
}

static int no_cursor(struct err *err)
{
	(void)err_set(err, ERR_INVALID, "after", "after: this is no cursor, or a part of one, or it was changed");
	err_hint(err, "give what `next:` said, all of it; without --after the list begins anew");
	return ERR_INVALID;
}

static bool take_places(const uint8_t *at, const uint8_t *end, struct report_cursor *ret)
{
	uint64_t step, below, log = 0;

	ret->place = mem_calloc((size_t)(end - at) / 2 + 1, sizeof(*ret->place));
	ret->n = 0;
	while (at < end) {
		if (!take_number(&at, end, &step) || !take_number(&at, end, &below) || step == 0 || step > INT64_MAX - log)
			return false;
		log += step;
		ret->place[ret->n++] = (struct report_place){ (int64_t)log, (int64_t)below };
	}
	return ret->n > 0;
}

int report_cursor_read(struct db *db, struct report_ask *ask, struct report_cursor *ret, struct err *err)
{
	uint8_t *bytes = mem_alloc(CURSOR_MAX), mark[CURSOR_MARK];
	const uint8_t *at = bytes + 1 + CURSOR_MARK, *end;
	struct report_cursor cursor = { NULL, 0 };
	uint64_t since_us = 0, until_us = 0;
	size_t len = 0;
	int rc = text_unbase64url(ask->after, strlen(ask->after), bytes, CURSOR_MAX, &len);

	if (rc == 0 && len >= CURSOR_MIN)
		digest_of(bytes, len - CURSOR_MARK, mark);
	end = bytes + len - CURSOR_MARK;
	if (rc < 0 || len < CURSOR_MIN || memcmp(mark, end, CURSOR_MARK) != 0 || *bytes != CURSOR_VERSION ||
	    !take_number(&at, end, &since_us) || !take_number(&at, end, &until_us) || !take_places(at, end, &cursor))
		rc = no_cursor(err);
	if (rc == 0)
		rc = question_of(db, ask, mark, err);
	if (rc == 0 && memcmp(mark, bytes + 1, CURSOR_MARK) != 0) {
		rc = err_set(err, ERR_INVALID, "after", "after: the cursor is of another question, or of another store");
		err_hint(err, "ask as for its first page; only --limit may differ");
	}
	free(bytes);
	if (rc < 0) {
		free(cursor.place);
		return rc;
	}
	ask->since_us = since_us;
	ask->until_us = until_us;
	*ret = cursor;
	return 0;
}
