/* Upstreams and their tools as rows. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "json/json.h"

#include "adm_pending.h"
#include "adm_upstream.h"

#define REASON_VALUE 200                /* bytes of a value that the one who decides is told */

const char *adm_remote_state_name(enum adm_remote_state state)
{
	switch (state) {
	case REMOTE_PINNED:
		return "in force";
	case REMOTE_CHANGED:
		return "changed";
	case REMOTE_GONE:
		return "gone";
	case REMOTE_NEW:
		return "new";
	case REMOTE_REFUSED:
		return "refused";
	}
	return "unknown";
}

void adm_col_copy(struct db_stmt *st, unsigned col, char *ret, size_t size)
{
	size_t len;
	const char *text = db_col_text(st, col, &len);

	(void)snprintf(ret, size, "%.*s", (int)(len < size ? len : size - 1), text);
}

static bool copy_digest(struct db_stmt *st, unsigned col, uint8_t ret[32])
{
	size_t len;
	const void *p = db_col_blob(st, col, &len);

	if (len == 32)
		memcpy(ret, p, 32);
	return len == 32;
}

char *adm_col_dup(struct db_stmt *st, unsigned col)
{
	size_t len;
	const char *text = db_col_text(st, col, &len);

	return mem_strndup(text, len);
}

static int not_found(struct db *db, const char *name, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_ALL);
	const char *names[64], *near;
	size_t n = 0;

	(void)err_set(err, ERR_NOT_FOUND, "", "upstream %.64s: not found", name);
	while (n < NELEMS(names) && db_step(st, NULL) == 1)
		names[n++] = adm_col_dup(st, 1);
	db_stmt_put(&st);
	near = text_nearest(name, names, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	while (n > 0)
		free((char *)(uintptr_t)names[--n]);
	return ERR_NOT_FOUND;
}

/* The document says it, or its absence does. */
static int read_uri_prefix(struct adm_upstream *u, struct err *err)
{
	struct upstream_doc doc = { .text = NULL };
	json_t *stored = NULL;
	int rc = jx_parse(u->definition, strlen(u->definition), &stored, err);

	if (rc == 0)
		rc = upstream_define(stored, &doc, err);
	json_decref(stored);
	if (rc == 0)
		memcpy(u->uri_prefix, doc.uri_prefix, sizeof(u->uri_prefix));
	upstream_doc_free(&doc);
	return rc < 0 ? err_wrap(err, "upstream %s", u->name) : 1;
}

int adm_find_upstream_row(struct db *db, const char *name, struct adm_upstream *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_FIND);
	int rc;

	db_bind_textz(st, 1, name);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret = (struct adm_upstream){ .id = db_col_i64(st, 0), .state = (int)db_col_i64(st, 2),
			.synced_us = db_col_i64(st, 7), .created_us = db_col_i64(st, 8) };
		adm_col_copy(st, 1, ret->name, sizeof(ret->name));
		(void)copy_digest(st, 3, ret->digest);
		adm_col_copy(st, 4, ret->prefix, sizeof(ret->prefix));
		adm_col_copy(st, 5, ret->revision, sizeof(ret->revision));
		adm_col_copy(st, 6, ret->server, sizeof(ret->server));
		ret->definition = adm_col_dup(st, 9);
	}
	db_stmt_put(&st);
	if (rc == 1)
		rc = read_uri_prefix(ret, err);
	return rc;
}

int adm_find_upstream(struct db *db, const char *name, struct adm_upstream *ret, struct err *err)
{
	int rc = adm_find_upstream_row(db, name, ret, err);

	return rc == 1 ? 0 : rc < 0 ? rc : not_found(db, name, err);
}

int adm_remotes_load(struct db *db, int64_t upstream_id, struct adm_remotes *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_TOOLS);
	struct adm_remotes all = { NULL, 0 };
	size_t cap = 0;
	int rc;

	db_bind_i64(st, 1, upstream_id);
	while ((rc = db_step(st, err)) == 1) {
		if (all.n == cap) {
			cap = cap ? cap * 2 : 16;
			all.p = mem_realloc(all.p, cap * sizeof(*all.p));
		}
		struct adm_remote *r = &all.p[all.n++];

		*r = (struct adm_remote){ .id = db_col_i64(st, 0), .remote = adm_col_dup(st, 1),
			.state = (enum adm_remote_state)db_col_i64(st, 2), .tool_id = db_col_i64(st, 3),
			.held = db_col_i64(st, 6) != 0, .note = adm_col_dup(st, 7), .tool_state = (int)db_col_i64(st, 9),
			.tool_version = db_col_i64(st, 10) };
		r->has_pinned = copy_digest(st, 4, r->pinned);
		r->has_seen = copy_digest(st, 5, r->seen);
		adm_col_copy(st, 8, r->tool, sizeof(r->tool));
	}
	db_stmt_put(&st);
	if (rc < 0)
		adm_remotes_free(&all);
	else
		*ret = all;
	return rc;
}

void adm_remotes_free(struct adm_remotes *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->p[i].remote);
		free(r->p[i].note);
	}
	free(r->p);
	*r = (struct adm_remotes){ NULL, 0 };
}

/* --- storing */

int adm_upstream_record(struct adm_call *c, struct db *db, struct audit_logs *logs, int kind, const char *name,
			const uint8_t *before, const uint8_t *after, struct err *err)
{
	struct audit_field by;
	char obj[80];

	(void)snprintf(obj, sizeof(obj), "upstream/%.64s", name);
	return adm_record(c, db, logs, &(struct adm_record){ .kind = kind, .obj = obj, .before = before, .after = after,
		.field = &by, .nfield = adm_approver_field(c, &by) }, err);
}

int adm_upstream_insert(struct db *db, const struct upstream_doc *doc, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_INSERT);

	db_bind_textz(st, 1, doc->name);
	db_bind_textz(st, 2, doc->text);
	db_bind_blob(st, 3, doc->digest, sizeof(doc->digest));
	db_bind_textz(st, 4, doc->prefix);
	db_bind_i64(st, 5, (int64_t)clock_wall_us());
	return db_run(&st, err);
}

static bool has_uri(const char *key)
{
	const char *name;

	return upstream_key(key, &name) >= UPSTREAM_RESOURCE;
}

/* The members that differ; of those that say where it is reached, what they become. */
static void put_reason(struct str *why, const struct adm_upstream *u, const struct upstream_doc *doc)
{
	json_t *was = NULL, *is = NULL, *value;
	const char *name;

	str_printf(why, "upstream %s gets", u->name);
	if (jx_parse(u->definition, strlen(u->definition), &was, NULL) == 0 && jx_parse(doc->text, strlen(doc->text), &is, NULL) == 0) {
		json_object_foreach(is, name, value) {
			struct str text = STR_INIT;

			if (json_equal(value, json_object_get(was, name)))
				continue;
			jx_write(value, &text);
			str_printf(why, " %s", name);
			if (strcmp(name, "url") == 0 || strcmp(name, "command") == 0)
				str_printf(why, " %.*s%s", REASON_VALUE, str_text(&text), text.len > REASON_VALUE ? "..." : "");
			str_fini(&text);
		}
		json_object_foreach(was, name, value)
			if (!json_object_get(is, name))
				str_printf(why, " no %s", name);
	}
	json_decref(was);
	json_decref(is);
}

/* What was approved leads there (SEC S-740). */
static int check_approved(struct adm_call *c, struct db *db, const struct adm_upstream *u, const struct upstream_doc *doc,
			  struct err *err)
{
	struct str why = STR_INIT;
	bool wait = false;
	int rc = adm_versions_wait(db, &wait, err);

	if (rc < 0 || !wait)
		return rc;
	put_reason(&why, u, doc);
	rc = adm_second_for(c, db, str_text(&why), err);
	str_fini(&why);
	return rc;
}

int adm_upstream_store(struct adm_call *c, struct db *db, const struct adm_upstream *u, const struct upstream_doc *doc, int state,
		       struct err *err)
{
	bool names = strcmp(u->prefix, doc->prefix) != 0, uris = strcmp(u->uri_prefix, doc->uri_prefix) != 0;
	bool changed = memcmp(u->digest, doc->digest, sizeof(u->digest)) != 0, stored = false, renamed = false;
	struct adm_remotes remotes = { NULL, 0 };
	int rc = changed ? adm_remotes_load(db, u->id, &remotes, err) : 0;

	for (size_t i = 0; i < remotes.n; i++) {
		stored = stored || remotes.p[i].tool_id;
		renamed = renamed || (remotes.p[i].tool_id && (names || (uris && has_uri(remotes.p[i].remote))));
	}
	adm_remotes_free(&remotes);
	if (rc < 0)
		return rc;
	if (renamed) {
		(void)err_set(err, ERR_CONFLICT, names ? "prefix" : "uriPrefix", "upstream %s has %s with the prefix \"%s\"", u->name,
			      names ? "tools named" : "resources", names ? u->prefix : u->uri_prefix);
		err_hint(err, "grants name them so: remove the upstream and add it again with another prefix");
		return ERR_CONFLICT;
	}
	if (stored)
		rc = check_approved(c, db, u, doc, err);
	if (rc < 0)
		return rc;
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_SET);

	db_bind_i64(st, 1, u->id);
	db_bind_i64(st, 2, state);
	db_bind_textz(st, 3, doc->text);
	db_bind_blob(st, 4, doc->digest, sizeof(doc->digest));
	db_bind_textz(st, 5, doc->prefix);
	return db_run(&st, err);
}
