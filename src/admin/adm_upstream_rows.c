/* Upstreams and their tools as rows. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "json/json.h"

#include "adm_upstream.h"

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
