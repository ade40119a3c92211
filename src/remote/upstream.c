/* upstream add, list, show, set, remove: the commands for MCP servers whose tools are offered here, and the rows
 * that the store has of them.  check() runs on the loop; bodies that change run on the writer's thread, those that
 * read on the pool. Nothing is started or asked here: sync.c does that. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "json/json.h"
#include "remote/remote.h"

/* --- Upstreams and their tools as rows */

const char *remote_state_name(enum remote_state state)
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

static bool copy_digest(struct db_stmt *st, unsigned col, uint8_t ret[32])
{
	size_t len;
	const void *p = db_col_blob(st, col, &len);

	if (len == 32)
		memcpy(ret, p, 32);
	return len == 32;
}

static int not_found(struct db *db, const char *name, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_ALL);
	const char *names[64], *near;
	size_t n = 0;

	(void)err_set(err, ERR_NOT_FOUND, "", "upstream %.64s: not found", name);
	while (n < NELEMS(names) && db_step(st, NULL) == 1)
		names[n++] = db_col_dup(st, 1);
	db_stmt_put(&st);
	near = text_nearest(name, names, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	while (n > 0)
		free((char *)(uintptr_t)names[--n]);
	return ERR_NOT_FOUND;
}

/* The document says it, or its absence does. */
static int read_uri_prefix(struct upstream_row *u, struct err *err)
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

int upstream_row_get(struct db *db, const char *name, struct upstream_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_FIND);
	int rc;

	db_bind_textz(st, 1, name);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret = (struct upstream_row){ .id = db_col_i64(st, 0), .state = (int)db_col_i64(st, 2),
			.synced_us = db_col_i64(st, 7), .created_us = db_col_i64(st, 8) };
		db_col_copy(st, 1, ret->name, sizeof(ret->name));
		(void)copy_digest(st, 3, ret->digest);
		db_col_copy(st, 4, ret->prefix, sizeof(ret->prefix));
		db_col_copy(st, 5, ret->revision, sizeof(ret->revision));
		db_col_copy(st, 6, ret->server, sizeof(ret->server));
		ret->definition = db_col_dup(st, 9);
	}
	db_stmt_put(&st);
	if (rc == 1)
		rc = read_uri_prefix(ret, err);
	return rc;
}

int upstream_row_find(struct db *db, const char *name, struct upstream_row *ret, struct err *err)
{
	int rc = upstream_row_get(db, name, ret, err);

	return rc == 1 ? 0 : rc < 0 ? rc : not_found(db, name, err);
}

int remotes_load(struct db *db, int64_t upstream_id, struct remote_rows *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_TOOLS);
	struct remote_rows all = { NULL, 0 };
	size_t cap = 0;
	int rc;

	db_bind_i64(st, 1, upstream_id);
	while ((rc = db_step(st, err)) == 1) {
		if (all.n == cap) {
			cap = cap ? cap * 2 : 16;
			all.p = mem_realloc(all.p, cap * sizeof(*all.p));
		}
		struct remote_row *r = &all.p[all.n++];

		*r = (struct remote_row){ .id = db_col_i64(st, 0), .remote = db_col_dup(st, 1),
			.state = (enum remote_state)db_col_i64(st, 2), .tool_id = db_col_i64(st, 3),
			.held = db_col_i64(st, 6) != 0, .note = db_col_dup(st, 7), .tool_state = (int)db_col_i64(st, 9),
			.tool_version = db_col_i64(st, 10) };
		r->has_pinned = copy_digest(st, 4, r->pinned);
		r->has_seen = copy_digest(st, 5, r->seen);
		db_col_copy(st, 8, r->tool, sizeof(r->tool));
	}
	db_stmt_put(&st);
	if (rc < 0)
		remotes_free(&all);
	else
		*ret = all;
	return rc;
}

void remotes_free(struct remote_rows *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->p[i].remote);
		free(r->p[i].note);
	}
	free(r->p);
	*r = (struct remote_rows){ NULL, 0 };
}

/* --- storing */

int upstream_record(struct command_call *c, struct db *db, struct audit_logs *logs, int kind, const char *name,
			const uint8_t *before, const uint8_t *after, struct err *err)
{
	struct audit_field by;
	char obj[80];

	(void)snprintf(obj, sizeof(obj), "upstream/%.64s", name);
	return command_record(c, db, logs, &(struct command_record){ .kind = kind, .obj = obj, .before = before,
		.after = after,
		.field = &by, .nfield = approval_field(c, &by) }, err);
}

int upstream_insert(struct db *db, const struct upstream_doc *doc, struct err *err)
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

/* The members that differ, and what they become: all of it, for who agrees (HARDENING F-9). */
static void put_reason(struct str *why, const struct upstream_row *u, const struct upstream_doc *doc)
{
	json_t *was = NULL, *is = NULL, *value;
	const char *name;

	str_printf(why, "upstream %s gets", u->name);
	if (jx_parse(u->definition, strlen(u->definition), &was, NULL) == 0
		&& jx_parse(doc->text, strlen(doc->text), &is, NULL) == 0) {
		json_object_foreach(is, name, value) {
			struct str text = STR_INIT;

			if (json_equal(value, json_object_get(was, name)))
				continue;
			jx_write(value, &text);
			str_printf(why, " %s %s", name, str_text(&text));
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
static int check_approved(struct command_call *c, struct db *db, const struct upstream_row *u,
			  const struct upstream_doc *doc, struct err *err)
{
	struct str why = STR_INIT;
	bool wait = false;
	int rc = versions_wait(c, db, &wait, err);

	if (rc < 0 || !wait)
		return rc;
	put_reason(&why, u, doc);
	rc = approval_require_for(c, db, str_text(&why), err);
	str_fini(&why);
	return rc;
}

int upstream_store(struct command_call *c, struct db *db, const struct upstream_row *u, const struct upstream_doc *doc,
		   int state, struct err *err)
{
	bool names = strcmp(u->prefix, doc->prefix) != 0, uris = strcmp(u->uri_prefix, doc->uri_prefix) != 0;
	bool changed = memcmp(u->digest, doc->digest, sizeof(u->digest)) != 0, stored = false, renamed = false;
	struct remote_rows remotes = { NULL, 0 };
	int rc = changed ? remotes_load(db, u->id, &remotes, err) : 0;

	for (size_t i = 0; i < remotes.n; i++) {
		stored = stored || remotes.p[i].tool_id;
		renamed = renamed || (remotes.p[i].tool_id && (names || (uris && has_uri(remotes.p[i].remote))));
	}
	remotes_free(&remotes);
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

#define REMOTES_SHOWN 8                 /* names of tools that `upstream show` lists for each state */

static const char *state_name(int state)
{
	return state == ADM_UPSTREAM_ENABLED ? "enabled" : "disabled";
}

/* --- add */

struct upstream_job {
	struct upstream_doc *doc; size_t count;         /* add: to be stored; set: what was stored */
	bool *off;                      /* for each: it is disabled */
	struct upstream_state now;      /* show: of its links */
	bool removed;
	struct remote_rows had;         /* set: whose runs are ended */
};

static void free_job(void *priv)
{
	struct upstream_job *job = priv;

	for (size_t i = 0; i < job->count; i++)
		upstream_doc_free(&job->doc[i]);
	free(job->doc);
	free(job->off);
	remotes_free(&job->had);
	free(job);
}

/* The options as members of a document; what is not named is left out. */
static json_t *options(const struct command_call *c)
{
	static const struct { const char *arg, *member; bool flag; } copied[] = {
		{ "command", "command", false }, { "url", "url", false }, { "cwd", "cwd", false },
		{ "env", "env", false }, { "header", "headers", false }, { "transport", "transport", false },
		{ "prefix", "prefix", false }, { "uri-prefix", "uriPrefix", false }, { "idle", "idle", false },
		{ "shared", "shared", true },
		{ "asks", "asks", true },
	};
	static const char *const lists[] = { "read", "write" };
	json_t *doc = json_object();

	for (size_t i = 0; i < NELEMS(copied); i++) {
		if (!arg_given(c, copied[i].arg))
			continue;
		json_t *v = copied[i].flag ? json_boolean(arg_flag(c, copied[i].arg))
					   : json_deep_copy(arg_json(c, copied[i].arg));
		json_object_set_new(doc, copied[i].member, v);
	}
	json_t *box = json_object();
	for (size_t i = 0; i < NELEMS(lists); i++)
		if (arg_given(c, lists[i]))
			json_object_set_new(box, lists[i], json_deep_copy(arg_json(c, lists[i])));
	if (arg_given(c, "network"))
		json_object_set_new(box, "network", json_boolean(arg_flag(c, "network")));
	if (json_object_size(box) > 0)
		json_object_set(doc, "sandbox", box);
	json_decref(box);
	if (arg_given(c, "allow-private"))
		json_object_set_new(doc, "allow", json_pack("{s:b}", "private", arg_flag(c, "allow-private")));
	return doc;
}

static int add_words(struct command_call *c, struct upstream_job *job, struct err *err)
{
	json_t *doc = options(c);

	json_object_set_new(doc, "kind", json_string("upstream"));
	json_object_set_new(doc, "name", json_string(arg_text(c, "upstream")));
	job->doc = mem_zalloc(sizeof(*job->doc));
	int rc = upstream_define(doc, job->doc, err);
	job->count = 1;
	json_decref(doc);
	if (rc < 0 && err && *err->where == '/')        /* the words have no lines to point at */
		(void)err_wrap(err, "%s", err->where + 1);
	return rc;
}

static int add_documents(struct command_call *c, struct upstream_job *job, struct err *err)
{
	const json_t *documents = arg_json(c, "documents");
	size_t n = json_array_size(documents);
	char at[32];

	job->doc = mem_calloc(n, sizeof(*job->doc));
	for (size_t i = 0; i < n; i++) {
		int rc = upstream_define(json_array_get(documents, i), &job->doc[i], err);

		(void)snprintf(at, sizeof(at), "/documents/%zu", i);
		if (rc < 0) {
			if (err && *err->where == '/')
				(void)err_wrap(err, "%s", err->where + 1);
			err_at(err, at);
			return rc;
		}
		job->count++;
		for (size_t k = 0; k < i; k++)
			if (strcmp(job->doc[k].name, job->doc[i].name) == 0)
				return err_set(err, ERR_INVALID, at, "two documents define the upstream %s", job->doc[i].name);
	}
	return 0;
}

static int upstream_add_check(struct command_call *c, struct err *err)
{
	struct upstream_job *job = command_priv(c, sizeof(*job));
	bool words = arg_given(c, "upstream"), files = arg_json(c, "documents") != NULL;

	c->free_priv = free_job;
	if (words == files) {
		(void)err_set(err, ERR_INVALID, "", "say an upstream's name, or a file with --file");
		err_hint(err, "toolcrib upstream add NAME --command PROGRAM ..., or --url URL");
		return ERR_INVALID;
	}
	return words ? add_words(c, job, err) : add_documents(c, job, err);
}

static void put_done(struct command_call *c, const char *name, const char *said)
{
	reply_row_begin(c->out);
	reply_text(c->out, "name", name);
	reply_text(c->out, "said", said);
	reply_row_end(c->out);
}

static int add_one(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_doc *doc,
		   bool *ret_off, struct err *err)
{
	struct upstream_row u = { .definition = NULL };
	int rc = upstream_row_get(db, doc->name, &u, err);
	bool known = rc == 1;

	if (rc < 0)
		return rc;
	if (known && memcmp(u.digest, doc->digest, sizeof(u.digest)) == 0) {
		*ret_off = u.state == ADM_UPSTREAM_DISABLED;
		put_done(c, doc->name, "unchanged");
		free(u.definition);
		return 0;
	}
	rc = known ? upstream_store(c, db, &u, doc, u.state, err) : upstream_insert(db, doc, err);
	free(u.definition);
	if (rc == 0)
		rc = upstream_record(c, db, logs, known ? AUDIT_UPSTREAM_CHANGE : AUDIT_UPSTREAM_ADD, doc->name,
			known ? u.digest : NULL,
			    doc->digest, err);
	*ret_off = known && u.state == ADM_UPSTREAM_DISABLED;
	if (rc == 0)
		put_done(c, doc->name, known ? "changed" : "added");
	return rc;
}

static int upstream_add_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct upstream_job *job = c->priv;
	int rc = 0;

	job->off = mem_calloc(job->count, sizeof(*job->off));
	for (size_t i = 0; i < job->count && rc == 0; i++)
		rc = add_one(c, db, logs, &job->doc[i], &job->off[i], err);
	return rc;
}

/* --- list, show */

static const char *way_of(const char *definition)
{
	json_t *doc = NULL;
	bool url;

	if (jx_parse(definition, strlen(definition), &doc, NULL) < 0)
		return "unknown";
	url = json_object_get(doc, "url") != NULL;
	json_decref(doc);
	return url ? "url" : "command";
}

static int upstream_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_LIST);
	char name[80], revision[16];
	int rc;

	(void)logs;
	while ((rc = db_step(st, err)) == 1) {
		char *definition = db_col_dup(st, 3);

		db_col_copy(st, 1, name, sizeof(name));
		db_col_copy(st, 4, revision, sizeof(revision));
		reply_row_begin(c->out);
		reply_text(c->out, "name", name);
		reply_text(c->out, "state", state_name((int)db_col_i64(st, 2)));
		reply_text(c->out, "by", way_of(definition));
		reply_text(c->out, "revision", *revision ? revision : NULL);
		reply_int(c->out, "tools", db_col_i64(st, 6));
		reply_int(c->out, "prompts", db_col_i64(st, 8));
		reply_int(c->out, "resources", db_col_i64(st, 9));
		reply_int(c->out, "waiting", db_col_i64(st, 7));
		reply_time(c->out, "synced", (uint64_t)db_col_i64(st, 5));
		reply_row_end(c->out);
		free(definition);
	}
	db_stmt_put(&st);
	return rc;
}

static int upstream_name_check(struct command_call *c, struct err *err)
{
	struct upstream_job *job = command_priv(c, sizeof(*job));

	(void)err;
	c->free_priv = free_job;
	upstreams_state(command_env(c)->upstreams, arg_text(c, "upstream"), &job->now);
	return 0;
}

/* "12 in force, 1 changed (github_get_me), 2 new (...)": what waits is named. */
static char *summary(const struct remote_rows *remotes)
{
	struct str out = STR_INIT;

	for (int state = REMOTE_PINNED; state <= REMOTE_REFUSED; state++) {
		size_t n = 0;

		for (size_t i = 0; i < remotes->n; i++)
			n += remotes->p[i].state == (enum remote_state)state;
		if (n == 0)
			continue;
		str_printf(&out, "%s%zu %s", out.len ? ", " : "", n, remote_state_name((enum remote_state)state));
		if (state == REMOTE_PINNED)
			continue;
		n = 0;
		for (size_t i = 0; i < remotes->n; i++) {
			if (remotes->p[i].state != (enum remote_state)state || ++n > REMOTES_SHOWN)
				continue;
			str_printf(&out, "%s%s", n == 1 ? " (" : ", ", remotes->p[i].remote);
		}
		str_puts(&out, n > REMOTES_SHOWN ? ", ...)" : ")");
	}
	return str_take(&out);
}

static void put_remotes(struct reply *o, const struct remote_rows *remotes)
{
	json_t *all = json_array();

	for (size_t i = 0; i < remotes->n; i++) {
		const struct remote_row *r = &remotes->p[i];
		json_t *one = json_pack("{s:s, s:s, s:s?}", "there", r->remote, "state", remote_state_name(r->state),
					"tool", r->tool_id ? r->tool : NULL);

		if (*r->note)
			json_object_set_new(one, "why", json_string(r->note));
		json_array_append_new(all, one);
	}
	reply_json(o, "all", all);
	json_decref(all);
}

static int upstream_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct upstream_job *job = c->priv;
	struct remote_rows remotes = { NULL, 0 };
	struct upstream_row u;
	int rc = upstream_row_find(db, arg_text(c, "upstream"), &u, err);

	(void)logs;
	if (rc < 0)
		return rc;
	rc = remotes_load(db, u.id, &remotes, err);
	if (rc == 0) {
		char *tools = summary(&remotes);

		reply_row_begin(c->out);
		reply_text(c->out, "name", u.name);
		reply_text(c->out, "state", state_name(u.state));
		reply_text(c->out, "server", *u.server ? u.server : NULL);
		reply_text(c->out, "revision", *u.revision ? u.revision : NULL);
		reply_time(c->out, "synced", (uint64_t)u.synced_us);
		reply_text(c->out, "prefix", u.prefix);
		reply_text(c->out, "uriPrefix", u.uri_prefix);
		reply_text(c->out, "tools", *tools ? tools : NULL);
		reply_int(c->out, "links", job->now.links);
		reply_int(c->out, "calls", (int64_t)job->now.calls);
		reply_text(c->out, "error", job->now.error.code ? job->now.error.msg : NULL);
		reply_time(c->out, "created", (uint64_t)u.created_us);
		reply_hex(c->out, "digest", u.digest, sizeof(u.digest));
		reply_raw(c->out, "definition", u.definition, strlen(u.definition));
		put_remotes(c->out, &remotes);
		reply_row_end(c->out);
		free(tools);
	}
	remotes_free(&remotes);
	free(u.definition);
	return rc;
}

/* --- set */

static int upstream_set_check(struct command_call *c, struct err *err)
{
	int rc = upstream_name_check(c, err);
	json_t *patch = options(c);

	if (rc == 0 && arg_flag(c, "kill") && (!arg_given(c, "enabled") || arg_flag(c, "enabled")))
		rc = err_set(err, ERR_INVALID, "kill", "--kill goes with --enabled no");
	if (rc == 0 && json_object_size(patch) == 0 && !arg_given(c, "enabled")) {
		rc = err_set(err, ERR_INVALID, "", "nothing to set");
		err_hint(err, "toolcrib upstream set --help lists what can be");
	}
	json_decref(patch);
	return rc;
}

/* Variables, headers and the parts of the sandbox one by one, an empty value takes one away; all else as a whole. */
static void patch_member(json_t *doc, const char *name, json_t *value)
{
	json_t *old = json_object_get(doc, name), *v;
	const char *key;

	if (strcmp(name, "env") != 0 && strcmp(name, "headers") != 0 && strcmp(name, "sandbox") != 0) {
		json_object_set(doc, name, value);
		return;
	}
	if (!json_is_object(old)) {
		old = json_object();
		json_object_set_new(doc, name, old);
	}
	json_object_foreach(value, key, v) {
		if (!json_is_string(v) || json_string_length(v) > 0)
			json_object_set(old, key, v);
		else
			(void)json_object_del(old, key);
	}
	if (json_object_size(old) == 0)
		(void)json_object_del(doc, name);
}

int upstream_patch(const char *definition, const char *patch, struct upstream_doc *ret, struct err *err)
{
	json_t *doc = NULL, *changes = NULL, *v;
	const char *name;
	int rc = jx_parse(definition, strlen(definition), &doc, err);

	if (rc == 0)
		rc = jx_parse(patch, strlen(patch), &changes, err);
	if (rc == 0) {
		/* The other way of reaching it takes the place of this one with all that belongs to it. */
		static const char *const of_command[] = { "command", "env", "cwd", "sandbox" },
			*const of_url[] = { "url", "headers", "transport", "allow", "ca" };

		for (size_t i = 0; i < NELEMS(of_command) && json_object_get(changes, "url"); i++)
			(void)json_object_del(doc, of_command[i]);
		for (size_t i = 0; i < NELEMS(of_url) && json_object_get(changes, "command"); i++)
			(void)json_object_del(doc, of_url[i]);
		json_object_foreach(changes, name, v)
			patch_member(doc, name, v);
		rc = upstream_define(doc, ret, err);
	}
	json_decref(doc);
	json_decref(changes);
	return rc;
}

static int patch_options(const struct command_call *c, const char *definition, struct upstream_doc *ret,
			 struct err *err)
{
	json_t *patch = options(c);
	struct str text = STR_INIT;
	int rc;

	jx_write(patch, &text);
	rc = upstream_patch(definition, str_text(&text), ret, err);
	str_fini(&text);
	json_decref(patch);
	return rc;
}

static int upstream_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct upstream_job *job = c->priv;
	struct upstream_doc doc = { .text = NULL };
	struct upstream_row u;
	int rc = upstream_row_find(db, arg_text(c, "upstream"), &u, err), state;

	if (rc < 0)
		return rc;
	if (arg_given(c, "enabled"))
		state = arg_flag(c, "enabled") ? ADM_UPSTREAM_ENABLED : ADM_UPSTREAM_DISABLED;
	else
		state = u.state;
	rc = patch_options(c, u.definition, &doc, err);
	if (rc == 0)
		rc = upstream_store(c, db, &u, &doc, state, err);
	free(u.definition);
	if (rc == 0)
		rc = upstream_record(c, db, logs, AUDIT_UPSTREAM_CHANGE, u.name, u.digest, doc.digest, err);
	if (rc == 0 && arg_flag(c, "kill"))
		rc = remotes_load(db, u.id, &job->had, err);
	if (rc < 0) {
		upstream_doc_free(&doc);
		return rc;
	}
	job->off = mem_calloc(1, sizeof(*job->off));
	job->off[0] = state == ADM_UPSTREAM_DISABLED;
	job->doc = mem_dup(&doc, sizeof(doc));
	job->count = 1;
	put_done(c, u.name, state == u.state ? "changed" : state == ADM_UPSTREAM_ENABLED ? "enabled" : "disabled");
	return 0;
}

/* --- remove: the upstream and its tools; grants stay, as with any tool that is removed */

static int remove_tool(struct command_call *c, struct db *db, struct audit_logs *logs, const char *name,
		       int64_t *ret_id, struct err *err)
{
	struct tool_row tool;
	char obj[96];
	int rc = tool_row_find(db, name, &tool, err);

	if (rc < 0)
		return rc;
	struct db_stmt *st = db_stmt_get(db, SQL_TOOL_SET_STATE);
	db_bind_i64(st, 1, tool.id);
	db_bind_i64(st, 2, ADM_TOOL_REMOVED);
	rc = db_run(&st, err);
	(void)snprintf(obj, sizeof(obj), "tool/%s@%lld", tool.name, (long long)tool.version);
	*ret_id = tool.id;
	if (rc == 0)
		rc = pending_drop(db, tool.id, err);
	return rc < 0 ? rc : command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_TOOL_DELETE, .obj = obj,
		.before = tool.digest }, err);
}

/* ret_ids: free() it, also after a failure. */
static int remove_tools(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_row *u,
			int64_t **ret_ids, size_t *ret_n, struct err *err)
{
	struct remote_rows remotes = { NULL, 0 };
	int rc = remotes_load(db, u->id, &remotes, err);
	int64_t *ids = mem_calloc(remotes.n + 1, sizeof(*ids));
	size_t n = 0;

	for (size_t i = 0; i < remotes.n && rc == 0; i++)
		if (remotes.p[i].tool_id && remotes.p[i].tool_state != ADM_TOOL_REMOVED)
			rc = remove_tool(c, db, logs, remotes.p[i].tool, &ids[n++], err);
	*ret_ids = ids;
	*ret_n = n;
	remotes_free(&remotes);
	return rc;
}

int upstream_drop(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_row *u,
		      int64_t **ret_tools, size_t *ret_n, struct err *err)
{
	static const enum sql_id steps[] = { SQL_UPSTREAM_FORGET_TOOLS, SQL_UPSTREAM_REMOVE };
	int rc = remove_tools(c, db, logs, u, ret_tools, ret_n, err);

	for (size_t i = 0; i < NELEMS(steps) && rc == 0; i++) {
		struct db_stmt *st = db_stmt_get(db, steps[i]);

		db_bind_i64(st, 1, u->id);
		rc = db_run(&st, err);
	}
	return rc < 0 ? rc : upstream_record(c, db, logs, AUDIT_UPSTREAM_REMOVE, u->name, u->digest, NULL, err);
}

static int upstream_remove_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct upstream_job *job = c->priv;
	struct upstream_row u;
	int64_t *tools = NULL;
	size_t n = 0;
	int rc = upstream_row_find(db, arg_text(c, "upstream"), &u, err);

	if (rc < 0)
		return rc;
	free(u.definition);
	rc = upstream_drop(c, db, logs, &u, &tools, &n, err);
	if (rc == 0 && n > 0)
		rc = command_changed_tools(c, db, tools, n, err);
	free(tools);
	if (rc == 0)
		put_done(c, u.name, "removed");
	job->removed = true;
	return rc;
}

/* --- what is stored is in use */

static void upstream_after(struct command_call *c)
{
	const struct upstream_job *job = c->priv;
	struct upstreams *u = command_env(c)->upstreams;
	struct err err;

	if (job->removed)
		upstreams_remove(u, arg_text(c, "upstream"));
	for (size_t i = 0; i < job->count; i++)
		if (upstreams_set(u, job->doc[i].text, !job->off[i], &err) < 0)
			log_err(NULL, "upstream cannot be used upstream=%s where=%s why=\"%s\"", job->doc[i].name, err.where, err.msg);
	for (size_t i = 0; i < job->had.n; i++)
		if (*job->had.p[i].tool)
			(void)people_stop_tool(c, job->had.p[i].tool);
}

/* --- rows of the command table */

#define UPSTREAM_OPTIONS \
	OPT("url", "URL", ARG_TEXT, COMPLETE_NONE, "Where the server is reached by HTTP."), \
	{ "env", "NAME=VALUE", ARG_KEYVALUES, true, false, false, COMPLETE_NONE, \
	  "A variable for the server that command starts; {secret:NAME} stands for a secret." }, \
	OPT("cwd", "DIR", ARG_PATH, COMPLETE_FILE, "The directory that command starts in; default: one of its own."), \
	{ "read", "PATH", ARG_PATH, true, false, true, COMPLETE_FILE, \
		"What command may read and execute beside the system's files." }, \
	{ "write", "PATH", ARG_PATH, true, false, true, COMPLETE_FILE, "What command may also write." }, \
	OPT("network", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether command gets the network."), \
	{ "header", "NAME=VALUE", ARG_KEYVALUES, true, false, false, COMPLETE_NONE, \
	  "A header for url; a credential must be a {secret:NAME}." }, \
	OPT("transport", "http|sse", ARG_TEXT, COMPLETE_NONE, "How url is spoken to; default http."), \
	OPT("allow-private", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether url may lead to an address that is not public."), \
	OPT("prefix", "TEXT", ARG_TEXT, COMPLETE_NONE, "In front of the names of what it has; default its own name and _."), \
	OPT("uri-prefix", "TEXT", ARG_TEXT, COMPLETE_NONE, \
		"In front of the URIs of its resources; default its own name and +."), \
	OPT("shared", "yes|no", ARG_YESNO, COMPLETE_NONE, "One link for all tenants instead of one for each."), \
	OPT("asks", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether its questions are put to the caller."), \
	OPT("idle", "TIME", ARG_DURATION, COMPLETE_NONE, "End a link that had no call for so long; default 10m.")
#define UPSTREAM_COMMAND { "command", "PROGRAM", ARG_COMMAND, true, false, true, COMPLETE_FILE, \
	"The program that speaks MCP over its stdin and stdout, and its arguments; must come last." }
static const struct command_arg upstream_add_args[] = {
	MAYBE("upstream", "NAME", COMPLETE_NONE, "Lower-case letters, digits and _ . -, at most 63."),
	{ "file", "FILE", ARG_FILE, true, false, true, COMPLETE_FILE, "Documents of kind upstream instead, YAML or JSON." },
	UPSTREAM_OPTIONS, UPSTREAM_COMMAND, ARG_END };
#define UPSTREAM_WORD WORD("upstream", "NAME", COMPLETE_UPSTREAM, "Name of the upstream.")
static const struct command_arg upstream_args[] = { UPSTREAM_WORD, ARG_END };
static const struct command_arg upstream_set_args[] = { UPSTREAM_WORD, UPSTREAM_OPTIONS,
	OPT("enabled", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether what it has may be used."),
	FLAG("kill", "With --enabled no: cancel the calls that run there."), UPSTREAM_COMMAND, ARG_END };
static const struct command_column upstream_list_cols[] = {
	COL("name", "NAME"), COL("state", "STATE"), COL("by", "BY"),
	COL("revision", "REVISION (NOT EVIDENCE)"), COL("tools", "TOOLS"),
	COL("prompts", "PROMPTS"), COL("resources", "RESOURCES"), COL("waiting", "WAITING"),
	COL_AT("synced", "SYNCED (NOT EVIDENCE)"),
	COL_END };
static const struct command_column upstream_cols[] = {
	COL("name", "Name"), COL("state", "State"), COL("server", "Calls itself (not evidence)"),
	COL("revision", "Revision (not evidence)"),
	COL_AT("synced", "Synced (not evidence)"), COL("prefix", "Prefix"), COL("uriPrefix", "URI prefix"),
	COL("tools", "Hosted"), COL("links", "Open links"),
	COL("calls", "Running calls"), COL("error", "Last failure"), COL_AT("created", "Added"), COL("digest", "Digest"),
	COL("definition", "Definition"), COL_END };

const struct command upstream_commands[] = {
	{ .noun = "upstream", .verb = "add", .help = "Add an MCP server whose tools, prompts and resources are hosted",
	  .detail = "Nothing is started or asked yet: upstream sync does that.  One that is there is changed, as by "
		    "upstream set.",
	  .args = upstream_add_args, .done = "upstream %{name} %{said}", .role = ADM_OWNER, .second = ADM_SECOND_ASKED,
	  .where = ADM_ON_WRITER,
	  .check = upstream_add_check, .body = upstream_add_body, .after = upstream_after },
	{ .noun = "upstream", .verb = "list", .help = "List the upstreams",
	  .detail = "RESOURCES counts templates as well, WAITING what changed there, is gone there, is new or cannot "
		    "be hosted.",
	  .args = no_args, .columns = upstream_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = upstream_list_body },
	{ .noun = "upstream", .verb = "show", .help = "Show an upstream and what has become of what it has",
	  .detail = "With --json each tool, prompt and resource is listed.", .args = upstream_args, .columns = upstream_cols,
	  .shape = ADM_ITEM,
	  .role = ADM_READ, .where = ADM_ON_POOL, .check = upstream_name_check, .body = upstream_show_body },
	{ .noun = "upstream", .verb = "set", .help = "Change an upstream",
	  .detail = "What is not named stays as it is; a variable or header with an empty value is taken away.  Links under "
		    "the old settings end when their calls have ended.  Where new versions have to be approved (approval versions), "
		    "a change of one that has tools here needs a second administrator: see approval list; --enabled alone does not.",
	  .args = upstream_set_args, .done = "upstream %{name} %{said}", .role = ADM_OWNER, .second = ADM_SECOND_ASKED,
	  .where = ADM_ON_WRITER,
	  .check = upstream_set_check, .body = upstream_set_body, .after = upstream_after },
	{ .noun = NULL },
};

const struct command upstream_remove_commands[] = {
	{ .noun = "upstream", .verb = "remove", .help = "Remove an upstream with all that it brought",
	  .detail = "Grants stay, as with any tool that is removed.  Calls that run there end, and so do its processes.",
	  .args = upstream_args,
	  .done = "upstream %{name} %{said}",
	  .destructive = true, .role = ADM_OWNER, .where = ADM_ON_WRITER, .check = upstream_name_check,
	  .body = upstream_remove_body, .after = upstream_after },
	{ .noun = NULL },
};
