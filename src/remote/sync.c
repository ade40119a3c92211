/* upstream sync, diff, accept: what an upstream lists against what was accepted of it (SEC S-740).  Prompts and
 * resources are tools here as everywhere in the store.
 *
 * A tool that was never seen is stored by sync and pinned to its digest.  One whose digest is another now is disabled
 * and waits; so is one that is gone.  One that is again what was accepted comes back by itself. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "json/json.h"
#include "registry/define.h"
#include "remote/remote.h"

struct sync_job {
	struct upstreams_reading *reading;      /* sync: the lists have been asked for */
	struct upstream_list *list;
	int64_t *changed; size_t nchanged, cap;
	struct upstream_doc doc;        /* stored with another prefix */
};

static void free_job(void *priv)
{
	struct sync_job *job = priv;

	free(job->changed);
	upstream_list_free(&job->list);
	upstream_doc_free(&job->doc);
	free(job);
}

static struct sync_job *new_job(struct command_call *c)
{
	struct sync_job *job = command_priv(c, sizeof(*job));

	c->free_priv = free_job;
	return job;
}

static int upstream_sync_check(struct command_call *c, struct err *err)
{
	const char *prefix = arg_text(c, "prefix");

	(void)new_job(c);
	if (prefix && !upstream_prefix_valid(prefix))
		return err_set(err, ERR_INVALID, "prefix", "%.80s is no prefix: letters, digits, _ . -, at most %d", prefix,
			       UPSTREAM_PREFIX_MAX);
	return 0;
}

static void on_list(void *arg, struct upstream_list *list, const struct err *err)
{
	struct command_call *c = arg;
	struct sync_job *job = c->priv;

	job->reading = NULL;
	job->list = list;
	command_gathered(c, err);
}

static void upstream_sync_gather(struct command_call *c)
{
	struct sync_job *job = c->priv;

	job->reading = upstreams_list(command_env(c)->upstreams, arg_text(c, "upstream"), on_list, c);
}

static void upstream_sync_ungather(struct command_call *c)
{
	struct sync_job *job = c->priv;

	upstreams_unlist(&job->reading);
}

static int upstream_accept_check(struct command_call *c, struct err *err)
{
	const char *digest = arg_text(c, "digest");
	uint8_t bytes[32];

	(void)new_job(c);
	if (digest && text_unhex(digest, strlen(digest), bytes, sizeof(bytes)) < 0) {
		(void)err_set(err, ERR_INVALID, "digest", "it has 64 hexadecimal digits");
		err_hint(err, "toolcrib upstream diff %s shows what waits and its digest", arg_text(c, "upstream"));
		return ERR_INVALID;
	}
	return 0;
}

/* --- what is said, what is changed */

static void say(struct command_call *c, const char *there, const char *said, const char *tool, int64_t version,
		const char *why)
{
	reply_row_begin(c->out);
	reply_text(c->out, "there", there);
	reply_text(c->out, "said", said);
	reply_text(c->out, "tool", tool);
	if (version)
		reply_int(c->out, "version", version);
	else
		reply_text(c->out, "version", NULL);
	reply_text(c->out, "why", why && *why ? why : NULL);
	reply_row_end(c->out);
}

static void note_changed(struct sync_job *job, int64_t tool_id)
{
	if (job->nchanged == job->cap) {
		job->cap = job->cap ? job->cap * 2 : 16;
		job->changed = mem_realloc(job->changed, job->cap * sizeof(*job->changed));
	}
	job->changed[job->nchanged++] = tool_id;
}

/* Another state for a tool of ours, with its record. */
static int set_tool_state(struct command_call *c, struct db *db, struct audit_logs *logs, const struct remote_row *r,
			  int state, int kind, const uint8_t *after, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TOOL_SET_STATE);
	char obj[96];
	int rc;

	db_bind_i64(st, 1, r->tool_id);
	db_bind_i64(st, 2, state);
	rc = db_run(&st, err);
	(void)snprintf(obj, sizeof(obj), "tool/%s@%lld", r->tool, (long long)r->tool_version);
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = kind, .obj = obj, .before = r->pinned,
			.after = after },
				err);
	if (rc == 0)
		note_changed(c->priv, r->tool_id);
	return rc;
}

static int set_pending(struct db *db, int64_t id, enum remote_state state, const uint8_t *seen, const char *pending,
		       bool held, const char *note, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_TOOL_PENDING);

	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, state);
	if (seen)
		db_bind_blob(st, 3, seen, 32);
	else
		db_bind_null(st, 3);
	db_bind_textz(st, 4, pending);
	db_bind_i64(st, 5, held);
	db_bind_textz(st, 6, note);
	return db_run(&st, err);
}

static int run_with_id(struct db *db, enum sql_id sql, int64_t id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);

	db_bind_i64(st, 1, id);
	return db_run(&st, err);
}

static int pin(struct db *db, int64_t id, int64_t tool_id, const uint8_t digest[32], struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_TOOL_PIN);

	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, tool_id);
	db_bind_blob(st, 3, digest, 32);
	return db_run(&st, err);
}

/* --- a tool there becomes one of ours */

/* ERR_CONFLICT: a tool of this name is somebody else's. */
static int check_owner(struct db *db, const char *name, int64_t remote_id, struct err *err)
{
	struct tool_row tool;
	int64_t owner = 0;
	int rc = tool_row_get(db, name, &tool, err);

	if (rc <= 0 || tool.state == ADM_TOOL_REMOVED)
		return rc < 0 ? rc : 0;
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_TOOL_OWNER);
	db_bind_i64(st, 1, tool.id);
	rc = db_step(st, err);
	if (rc == 1)
		owner = db_col_i64(st, 0);
	db_stmt_put(&st);
	if (rc < 0 || owner == remote_id)
		return rc < 0 ? rc : 0;
	return err_set(err, ERR_CONFLICT, "", "there is a tool %s already", name);
}

/* ERR_CONFLICT: another resource has this URI, and whoever reads it would get one or the other. */
static int check_uri(struct db *db, const struct define_item *def, struct err *err)
{
	struct db_stmt *st;
	char name[REG_FULL_NAME_SIZE] = "";
	int rc;

	if (!def->uri)
		return 0;
	st = db_stmt_get(db, SQL_UPSTREAM_URI_OWNER);
	db_bind_textz(st, 1, def->uri);
	db_bind_textz(st, 2, def->name);
	rc = db_step(st, err);
	if (rc == 1)
		db_col_copy(st, 0, name, sizeof(name));
	db_stmt_put(&st);
	if (rc <= 0)
		return rc;
	(void)err_set(err, ERR_CONFLICT, "", "%s has the URI %.200s already", name, def->uri);
	err_hint(err, "another uriPrefix of the upstream tells them apart");
	return ERR_CONFLICT;
}

/* Its definition, checked.  ERR_INVALID, ERR_LIMIT, ERR_CONFLICT: it cannot be one here. */
static int define(struct command_call *c, struct db *db, const struct upstream_naming *naming,
		  const struct upstream_item *t, int64_t remote_id, struct define_item *ret, struct err *err)
{
	json_t *doc = NULL;
	int rc = upstream_document(naming, t, &doc, err);

	if (rc == 0)
		rc = define_item(doc, command_bind(c), NULL, ret, err);
	json_decref(doc);
	if (rc == 0)
		rc = check_owner(db, ret->name, remote_id, err);
	return rc;
}

/* *ret_bad: it cannot be a tool here, err says why; nothing was written.  name: the full one that it has, or "". */
static int accept_tool(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_row *u,
		       int64_t remote_id, const struct upstream_item *t, const char *name, bool *ret_bad, struct err *err)
{
	const char *bare = strchr(name, ':');
	struct upstream_naming naming = { .upstream = u->name, .prefix = u->prefix, .uri_prefix = u->uri_prefix,
		.name = bare ? bare + 1 : NULL };
	struct define_item def = { .text = NULL };
	struct tool_stored stored = { .breaks = NULL };
	int rc = define(c, db, &naming, t, remote_id, &def, err);

	if (rc == ERR_CONFLICT && t->kind != UPSTREAM_TOOL && !naming.name) {   /* two of one name: the second is marked */
		define_free(&def);
		naming.marked = true;
		rc = define(c, db, &naming, t, remote_id, &def, err);
	}
	if (rc == 0)
		rc = check_uri(db, &def, err);
	*ret_bad = rc == ERR_INVALID || rc == ERR_LIMIT || rc == ERR_CONFLICT;
	if (rc == 0)
		rc = tool_store(c, db, logs, &def, false, &stored, err);
	free(stored.breaks);
	if (rc == 0)
		rc = pin(db, remote_id, stored.id, t->digest, err);
	if (rc == 0 && stored.what != ADM_UNCHANGED)
		note_changed(c->priv, stored.id);
	if (rc == 0)
		say(c, t->key, stored.waits ? "waits" : stored.what == ADM_UNCHANGED ? "unchanged" : "stored", def.name,
			stored.version, NULL);
	define_free(&def);
	return rc;
}

/* It waits, with the reason why it cannot be accepted if there is one. */
static int leave_pending(struct command_call *c, struct db *db, const struct remote_row *r,
			 const struct upstream_item *t, const struct err *bad, struct err *err)
{
	char *note = bad ? mem_printf("%s%s%s", bad->where[0] == '/' ? bad->where + 1 : "", bad->where[0] == '/' ? ": " : "",
				      bad->msg) : mem_strdup("");
	enum remote_state state = bad ? REMOTE_REFUSED : r->tool_id ? REMOTE_CHANGED : REMOTE_NEW;
	int rc = set_pending(db, r->id, state, t->digest, t->text, r->held, note, err);

	if (rc == 0)
		say(c, t->key, remote_state_name(state), r->tool_id ? r->tool : NULL, r->tool_version, note);
	free(note);
	return rc;
}

/* --- sync */

static int read_accepted(struct db *db, const struct remote_row *r, json_t **ret, struct err *err);

/* A new version of what an older release stored, whose pages have other names today (decision 0120); what cannot be one
 * stays as it is. */
static int move_pages(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_row *u,
		      struct remote_row *r, const struct upstream_item *t, struct err *err)
{
	const struct upstream_naming naming = { .upstream = u->name, .prefix = u->prefix, .uri_prefix = u->uri_prefix };
	struct tool_stored stored = { .breaks = NULL };
	struct define_item def = { .text = NULL };
	json_t *doc = NULL;
	int rc = read_accepted(db, r, &doc, err);

	if (rc < 0 || !upstream_move_pages(&naming, t, doc)) {
		json_decref(doc);
		return rc;
	}
	rc = define_item(doc, command_bind(c), NULL, &def, err);
	json_decref(doc);
	if (rc == 0)
		rc = check_uri(db, &def, err);
	if (rc < 0)
		return rc == ERR_INVALID || rc == ERR_LIMIT || rc == ERR_CONFLICT ? 0 : rc;
	rc = tool_store(c, db, logs, &def, false, &stored, err);
	free(stored.breaks);
	if (rc == 0) {
		note_changed(c->priv, stored.id);
		say(c, t->key, stored.waits ? "waits" : "stored", def.name, stored.version, NULL);
	}
	define_free(&def);
	return rc < 0 ? rc : 1;
}

static int drifted(struct command_call *c, struct db *db, struct audit_logs *logs, struct remote_row *r,
		   const uint8_t *now, struct err *err)
{
	if (r->tool_state != ADM_TOOL_ENABLED)
		return 0;
	r->held = true;
	return set_tool_state(c, db, logs, r, ADM_TOOL_DISABLED, AUDIT_TOOL_DRIFT, now, err);
}

static int sync_known(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_row *u,
		      struct remote_row *r, const struct upstream_item *t, struct err *err)
{
	bool check = arg_flag(c, "check"), bad = false;
	struct err why;
	int rc = 0;

	if (r->tool_id && memcmp(r->pinned, t->digest, sizeof(r->pinned)) == 0) {
		bool back = r->state != REMOTE_PINNED;

		if (r->held && r->tool_state == ADM_TOOL_DISABLED &&
		    (rc = tool_check_allowed(db, r->tool_id, r->tool, &why)) == 0)
			rc = set_tool_state(c, db, logs, r, ADM_TOOL_ENABLED, AUDIT_TOOL_ENABLE, r->pinned, err);
		if (rc == ERR_DENIED)           /* its risk is prohibited: it stays disabled */
			rc = 0;
		if (rc == 0 && back)
			rc = set_pending(db, r->id, REMOTE_PINNED, t->digest, NULL, false, "", err);
		if (rc == 0 && !back && !check && r->tool_state == ADM_TOOL_ENABLED)
			rc = move_pages(c, db, logs, u, r, t, err);
		if (rc == 1)
			return 0;
		if (rc == 0)
			say(c, t->key, back ? "back" : "unchanged", r->tool, r->tool_version, NULL);
		return rc;
	}
	if (r->tool_id) {
		rc = drifted(c, db, logs, r, t->digest, err);
		return rc < 0 ? rc : leave_pending(c, db, r, t, NULL, err);
	}
	if (!check)
		rc = accept_tool(c, db, logs, u, r->id, t, r->tool, &bad, &why);
	if (check || bad)
		return leave_pending(c, db, r, t, bad ? &why : NULL, err);
	if (rc < 0 && err)
		*err = why;
	return rc;
}

static int sync_new(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_row *u,
		    const struct upstream_item *t, struct err *err)
{
	struct remote_row r = { .state = REMOTE_NEW };
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_TOOL_INSERT);

	db_bind_i64(st, 1, u->id);
	db_bind_textz(st, 2, t->key);
	db_bind_blob(st, 3, t->digest, sizeof(t->digest));
	db_bind_textz(st, 4, t->text);
	int rc = db_run_id(&st, &r.id, err);
	return rc < 0 ? rc : sync_known(c, db, logs, u, &r, t, err);
}

static int sync_gone(struct command_call *c, struct db *db, struct audit_logs *logs, struct remote_row *r,
		     struct err *err)
{
	const struct sync_job *job = c->priv;
	const char *name;

	if (job->list->unread[upstream_key(r->remote, &name)])
		return 0;               /* nobody knows */
	if (!r->tool_id)
		return run_with_id(db, SQL_UPSTREAM_TOOL_DELETE, r->id, err);
	int rc = drifted(c, db, logs, r, NULL, err);
	if (rc == 0)
		rc = set_pending(db, r->id, REMOTE_GONE, NULL, NULL, r->held, "", err);
	if (rc == 0)
		say(c, r->remote, "gone", r->tool, r->tool_version, NULL);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct upstream_item *)a)->key, ((const struct upstream_item *)b)->key);
}

/* Both lists are in the order of their names. */
static int sync_all(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_row *u,
		    struct remote_rows *remotes, struct err *err)
{
	struct sync_job *job = c->priv;
	size_t i = 0, k = 0;
	int rc = 0;

	if (job->list->count > 1)
		qsort(job->list->item, job->list->count, sizeof(*job->list->item), by_name);
	while (rc == 0 && (i < job->list->count || k < remotes->n)) {
		const struct upstream_item *t = i < job->list->count ? &job->list->item[i] : NULL;
		struct remote_row *r = k < remotes->n ? &remotes->p[k] : NULL;
		int order = !t ? 1 : !r ? -1 : strcmp(t->key, r->remote);

		if (order < 0)
			rc = sync_new(c, db, logs, u, t, err);
		else if (order > 0)
			rc = sync_gone(c, db, logs, r, err);
		else
			rc = sync_known(c, db, logs, u, r, t, err);
		i += order <= 0;
		k += order >= 0;
	}
	return rc;
}

static int change_prefix(struct command_call *c, struct db *db, struct audit_logs *logs, struct upstream_row *u,
			 struct err *err)
{
	struct sync_job *job = c->priv;
	char *patch = mem_printf("{\"prefix\":\"%s\"}", arg_text(c, "prefix"));
	int rc = upstream_patch(u->definition, patch, &job->doc, err);

	free(patch);
	if (rc < 0 || memcmp(u->digest, job->doc.digest, sizeof(u->digest)) == 0)
		return rc;
	rc = upstream_store(c, db, u, &job->doc, u->state, err);
	if (rc == 0)
		rc = upstream_record(c, db, logs, AUDIT_UPSTREAM_CHANGE, u->name, u->digest, job->doc.digest, err);
	memcpy(u->prefix, job->doc.prefix, sizeof(u->prefix));
	return rc;
}

static int synced(struct db *db, int64_t id, const struct upstream_list *list, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_SYNCED);

	db_bind_i64(st, 1, id);
	db_bind_textz(st, 2, list->revision);
	db_bind_textz(st, 3, list->server);
	db_bind_i64(st, 4, (int64_t)clock_wall_us());
	return db_run(&st, err);
}

static int upstream_sync_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct sync_job *job = c->priv;
	struct remote_rows remotes = { NULL, 0 };
	struct upstream_row u;
	int rc = upstream_row_find(db, arg_text(c, "upstream"), &u, err);

	if (rc < 0)
		return rc;
	if (arg_given(c, "prefix"))
		rc = change_prefix(c, db, logs, &u, err);
	if (rc == 0)
		rc = remotes_load(db, u.id, &remotes, err);
	if (rc == 0)
		rc = sync_all(c, db, logs, &u, &remotes, err);
	if (rc == 0)
		rc = synced(db, u.id, job->list, err);
	if (rc == 0 && job->nchanged > 0)
		rc = command_changed_tools(c, db, job->changed, job->nchanged, err);
	remotes_free(&remotes);
	free(u.definition);
	return rc;
}

/* --- which are meant: all that wait, or what the argument `tool` names */

static const char there[] = "there:", here[] = "here:";

/* Words that say which side they name are taken so; all others name either. */
static bool is_named(const struct remote_row *r, const char *word)
{
	if (strncmp(word, there, sizeof(there) - 1) == 0)
		return strcmp(word + sizeof(there) - 1, r->remote) == 0;
	if (strncmp(word, here, sizeof(here) - 1) == 0)
		return r->tool_id && strcmp(word + sizeof(here) - 1, r->tool) == 0;
	return strcmp(word, r->remote) == 0 || (r->tool_id && strcmp(word, r->tool) == 0);
}

/* HARDENING F-18: one name, one thing. */
static int choose(const struct upstream_row *u, const struct remote_rows *all, const char *word, bool *chosen,
		  struct err *err)
{
	const struct remote_row *found = NULL;

	for (size_t i = 0; i < all->n; i++) {
		const struct remote_row *r = &all->p[i];

		if (!is_named(r, word))
			continue;
		if (found) {
			const struct remote_row *theirs = strcmp(found->remote, word) == 0 ? found : r;
			const struct remote_row *ours = theirs == found ? r : found;

			(void)err_set(err, ERR_CONFLICT, "tool", "upstream %s has %.64s there, and its %.64s is %.64s here: which?",
				      u->name, theirs->remote, ours->remote, ours->tool);
			err_hint(err, "say %s%.64s or %s%.64s", there, theirs->remote, here, ours->tool);
			metric_inc(METRIC_upstream_names_ambiguous);
			return ERR_CONFLICT;
		}
		found = r;
		chosen[i] = true;
	}
	if (found)
		return 0;
	(void)err_set(err, ERR_NOT_FOUND, "", "upstream %s has no tool %.64s", u->name, word);
	err_hint(err, "toolcrib upstream show %s lists what it has", u->name);
	return ERR_NOT_FOUND;
}

static int remotes_choose(const struct command_call *c, const struct upstream_row *u,
		const struct remote_rows *all, bool *chosen,
		   struct err *err)
{
	size_t n = arg_count(c, "tool");
	int rc = 0;

	for (size_t i = 0; i < all->n && n == 0; i++)
		chosen[i] = all->p[i].state != REMOTE_PINNED;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = choose(u, all, arg_nth(c, "tool", i), chosen, err);
	return rc;
}

/* --- what waits, and the digest that says which text somebody has looked at (HARDENING F-16) */

static int remote_pending(struct db *db, const struct remote_row *r, struct upstream_item *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_TOOL_TEXT);
	const char *name;
	int rc;

	*ret = (struct upstream_item){ .kind = upstream_key(r->remote, &name), .key = r->remote };
	memcpy(ret->digest, r->seen, sizeof(ret->digest));
	db_bind_i64(st, 1, r->id);
	rc = db_step(st, err);
	if (rc == 1)
		ret->text = db_col_dup(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static void put_number(struct digest *d, int64_t n)
{
	uint8_t b[8];

	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)((uint64_t)n >> (56 - 8 * i));
	digest_put(d, b, sizeof(b));
}

static void put_text(struct digest *d, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	put_number(d, (int64_t)n);
	digest_put(d, text ? text : "", n);
}

static int remotes_digest(struct db *db, const struct upstream_row *u, const struct remote_rows *all,
		const bool *chosen,
		   uint8_t ret[32], size_t *ret_n, struct err *err)
{
	struct digest *d = digest_new();
	int rc = 0;

	*ret_n = 0;
	put_text(d, "toolcrib/upstream-change/1");
	put_text(d, u->name);
	put_text(d, u->prefix);
	put_text(d, u->uri_prefix);
	for (size_t i = 0; i < all->n && rc == 0; i++) {
		const struct remote_row *r = &all->p[i];
		struct upstream_item t;

		if (!chosen[i] || r->state == REMOTE_PINNED)
			continue;
		rc = remote_pending(db, r, &t, err);
		if (rc < 0)
			break;
		++*ret_n;
		put_text(d, r->remote);
		put_number(d, r->state == REMOTE_GONE);
		digest_put(d, t.digest, sizeof(t.digest));
		put_text(d, t.text);
		put_text(d, r->tool_id ? r->tool : "");
		put_number(d, r->tool_id ? r->tool_version : 0);
		free(t.text);
	}
	digest_end(&d, ret);
	return rc;
}

/* --- diff */

/* The version in force of the tool that was made of it; an object without members: there is none. */
static int read_accepted(struct db *db, const struct remote_row *r, json_t **ret, struct err *err)
{
	struct db_stmt *st;
	int rc;

	*ret = json_object();
	if (!r->tool_id)
		return 0;
	st = db_stmt_get(db, SQL_ADMIN_TOOL_VERSION);
	db_bind_i64(st, 1, r->tool_id);
	db_bind_i64(st, 2, r->tool_version);
	rc = db_step(st, err);
	if (rc == 1) {
		size_t len;
		const char *text = db_col_text(st, 5, &len);

		json_decref(*ret);
		*ret = NULL;
		rc = jx_parse(text, len, ret, err);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* The definition that accept would store; of what cannot be one, as it is there, and why. */
static int read_waiting(struct db *db, const struct upstream_row *u, const struct remote_row *r, json_t **ret,
			struct err *ret_why, struct err *err)
{
	const char *bare = strchr(r->tool, ':');
	const struct upstream_naming naming = { .upstream = u->name, .prefix = u->prefix, .uri_prefix = u->uri_prefix,
		.name = r->tool_id && bare ? bare + 1 : NULL };
	struct upstream_item t;
	int rc = remote_pending(db, r, &t, err);

	if (rc < 0)
		return rc;
	if (!t.text)
		*ret = json_object();
	else if (upstream_document(&naming, &t, ret, ret_why) < 0)
		rc = jx_parse(t.text, strlen(t.text), ret, err);
	free(t.text);
	return rc;
}

static void put_row(struct command_call *c, const struct remote_row *r, const json_t *a, const json_t *b,
		const char *why)
{
	const char *sign = r->state == REMOTE_GONE ? "-" : r->tool_id ? "~" : "+";
	char *what = mem_printf("%s%s%s", r->remote, r->tool_id ? ", here " : "", r->tool_id ? r->tool : "");
	char *said = mem_printf("%s%s%s", remote_state_name(r->state), *why ? ": " : "", why);

	reply_row_begin(c->out);
	reply_text(c->out, "sign", sign);
	reply_text(c->out, "what", what);
	reply_text(c->out, "said", said);
	reply_text(c->out, "there", r->remote);
	reply_text(c->out, "state", remote_state_name(r->state));
	reply_text(c->out, "tool", r->tool_id ? r->tool : NULL);
	if (r->has_seen)
		reply_hex(c->out, "seen", r->seen, sizeof(r->seen));
	put_changes(c->out, "changes", a, b);
	reply_row_end(c->out);
	free(said);
	free(what);
}

static int diff_one(struct command_call *c, struct db *db, const struct upstream_row *u, const struct remote_row *r,
		    struct err *err)
{
	json_t *a = NULL, *b = NULL;
	struct err why = { .msg = "" };
	int rc = read_accepted(db, r, &a, err);

	if (rc == 0 && r->state == REMOTE_GONE)
		b = json_object();
	else if (rc == 0)
		rc = read_waiting(db, u, r, &b, &why, err);
	if (rc == 0)
		put_row(c, r, a, b, *r->note ? r->note : why.msg);
	json_decref(a);
	json_decref(b);
	return rc;
}

static void put_how(struct command_call *c, const struct upstream_row *u, const uint8_t digest[32], size_t n)
{
	char hex[65];
	char *summary;

	text_hex(digest, 32, hex);
	summary = n == 0 ? mem_printf("nothing waits of upstream %s", u->name) :
		  mem_printf("digest of %zu change%s: %s", n, n == 1 ? "" : "s", hex);
	reply_row_begin(c->out);
	reply_text(c->out, "summary", summary);
	reply_text(c->out, "digest", n ? hex : NULL);
	reply_row_end(c->out);
	free(summary);
}

static int diff_chosen(struct command_call *c, struct db *db, const struct upstream_row *u,
		const struct remote_rows *all,
		       bool *chosen, struct err *err)
{
	uint8_t digest[32];
	size_t n = 0;
	int rc = remotes_choose(c, u, all, chosen, err);

	if (rc == 0)
		rc = remotes_digest(db, u, all, chosen, digest, &n, err);
	for (size_t i = 0; i < all->n && rc == 0; i++)
		if (chosen[i] && all->p[i].state != REMOTE_PINNED)
			rc = diff_one(c, db, u, &all->p[i], err);
	if (rc == 0)
		put_how(c, u, digest, n);
	return rc;
}

static int upstream_diff_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct remote_rows all = { NULL, 0 };
	struct upstream_row u;
	int rc = upstream_row_find(db, arg_text(c, "upstream"), &u, err);

	(void)logs;
	if (rc < 0)
		return rc;
	rc = remotes_load(db, u.id, &all, err);
	if (rc == 0) {
		bool *chosen = mem_calloc(all.n + 1, sizeof(*chosen));

		rc = diff_chosen(c, db, &u, &all, chosen, err);
		free(chosen);
	}
	remotes_free(&all);
	free(u.definition);
	return rc;
}

/* --- accept */

/* HARDENING F-16: what was looked at is what waits now. */
static int check_looked_at(struct command_call *c, struct db *db, const struct upstream_row *u,
			   const struct remote_rows *all, const bool *chosen, uint8_t ret[32], struct err *err)
{
	const char *looked_at = arg_text(c, "digest");
	char now[65];
	size_t n = 0;
	int rc = remotes_digest(db, u, all, chosen, ret, &n, err);

	if (rc < 0)
		return rc;
	text_hex(ret, 32, now);
	if (n == 0 && !looked_at)
		return 0;
	if (looked_at && n > 0 && strcasecmp(looked_at, now) == 0)
		return 0;
	if (!looked_at)
		rc = err_set(err, ERR_INVALID, "digest", "say which change was looked at: --digest DIGEST");
	else if (n == 0)
		rc = err_set(err, ERR_CONFLICT, "digest", "nothing waits any more, %s neither", looked_at);
	else
		rc = err_set(err, ERR_CONFLICT, "digest", "%s waits now, not %s", now, looked_at);
	err_hint(err, "toolcrib upstream diff %s shows what waits and its digest", u->name);
	if (looked_at)
		metric_inc(METRIC_upstream_accept_stale);
	return rc;
}

static int accept_one(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_row *u,
		      struct remote_row *r, struct err *err)
{
	struct upstream_item t;
	struct err why;
	bool bad = false;
	int rc = 0;

	if (r->state == REMOTE_PINNED) {
		say(c, r->remote, "unchanged", r->tool, r->tool_version, NULL);
		return 0;
	}
	if (r->state == REMOTE_GONE) {
		if (r->tool_state != ADM_TOOL_REMOVED)
			rc = set_tool_state(c, db, logs, r, ADM_TOOL_REMOVED, AUDIT_TOOL_DELETE, NULL, err);
		if (rc == 0 && r->tool_id)
			rc = pending_drop(db, r->tool_id, err);
		if (rc == 0)
			rc = run_with_id(db, SQL_UPSTREAM_TOOL_DELETE, r->id, err);
		if (rc == 0)
			say(c, r->remote, "removed", r->tool, r->tool_version, NULL);
		return rc;
	}
	rc = remote_pending(db, r, &t, err);
	if (rc < 0)
		return rc;
	rc = accept_tool(c, db, logs, u, r->id, &t, r->tool, &bad, &why);
	if (bad && arg_count(c, "tool") == 0)
		rc = leave_pending(c, db, r, &t, &why, err);
	else if (rc < 0 && err)
		*err = why;
	free(t.text);
	return rc;
}

static int accept_chosen(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_row *u,
			 struct remote_rows *all, bool *chosen, struct err *err)
{
	struct sync_job *job = c->priv;
	uint8_t digest[32];
	int rc = remotes_choose(c, u, all, chosen, err);

	if (rc == 0)
		rc = check_looked_at(c, db, u, all, chosen, digest, err);
	for (size_t i = 0; i < all->n && rc == 0; i++)
		if (chosen[i])
			rc = accept_one(c, db, logs, u, &all->p[i], err);
	if (rc == 0 && job->nchanged > 0)
		rc = command_changed_tools(c, db, job->changed, job->nchanged, err);
	return rc < 0 ? rc : upstream_record(c, db, logs, AUDIT_UPSTREAM_ACCEPT, u->name, NULL, digest, err);
}

static int upstream_accept_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct remote_rows remotes = { NULL, 0 };
	struct upstream_row u;
	int rc = upstream_row_find(db, arg_text(c, "upstream"), &u, err);

	if (rc < 0)
		return rc;
	rc = remotes_load(db, u.id, &remotes, err);
	if (rc == 0) {
		bool *chosen = mem_calloc(remotes.n + 1, sizeof(*chosen));

		rc = accept_chosen(c, db, logs, &u, &remotes, chosen, err);
		free(chosen);
	}
	remotes_free(&remotes);
	free(u.definition);
	return rc;
}

/* --- rows of the command table */

#define UPSTREAM_WORD WORD("upstream", "NAME", COMPLETE_UPSTREAM, "Name of the upstream.")
static const struct command_arg upstream_sync_args[] = {
	UPSTREAM_WORD, OPT("prefix", "TEXT", ARG_TEXT, COMPLETE_NONE,
		"In front of the names of what it has, while nothing is stored."),
	FLAG("check", "Disable what has changed; store nothing new."), ARG_END };
#define REMOTE_TOOLS { "tool", "TOOL", ARG_TEXT, false, false, true, COMPLETE_NONE, \
	"Its name there or here, as upstream show tells it, where both could be meant as there:NAME or here:NAME; else all " \
	"that waits." }
static const struct command_arg upstream_diff_args[] = { UPSTREAM_WORD, REMOTE_TOOLS, ARG_END };
static const struct command_arg upstream_accept_args[] = {
	UPSTREAM_WORD, REMOTE_TOOLS, OPT("digest", "DIGEST", ARG_TEXT, COMPLETE_NONE,
		"Of what was looked at, as upstream diff with the same names tells it; needed where something waits."),
	ARG_END };
static const struct command_column upstream_sync_cols[] = {
	COL("there", "THERE"), COL("said", "SAID"), COL("tool", "TOOL"), COL("version", "VERSION"), COL("why", "WHY"),
	COL_END };

const struct command sync_commands[] = {
	{ .noun = "upstream", .verb = "sync", .help = "Read what an upstream has and store it",
	  .detail = "Each tool, prompt, resource and template becomes one here whose digest is pinned.  One that has changed "
		    "there since it was accepted, or is gone, is disabled until upstream accept.  The server looks by itself when "
		    "an upstream says that a list has changed, and then stores nothing new.",
	  .args = upstream_sync_args, .columns = upstream_sync_cols, .runs = true, .shape = ADM_TABLE, .role = ADM_OWNER,
	  .where = ADM_ON_WRITER, .check = upstream_sync_check, .gather = upstream_sync_gather,
	  .ungather = upstream_sync_ungather, .body = upstream_sync_body },
	{ .noun = "upstream", .verb = "diff", .help = "Show what waits of an upstream, and its digest",
	  .detail = "Each definition as upstream accept would store it, against the one in force; what is new or gone, as a "
		    "whole.  The digest at the end is of all that is shown: upstream accept wants it, and refuses when "
		    "something else waits by then.",
	  .args = upstream_diff_args, .shape = ADM_DIFF, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = upstream_diff_body },
	{ .noun = "upstream", .verb = "accept", .help = "Accept what has become of what an upstream has",
	  .detail = "What upstream diff shows is stored and pinned, as a new version that is enabled; what is gone there is "
		    "removed.  The upstream is not asked again.  When something else waits than what --digest names, nothing is "
		    "accepted.",
	  .args = upstream_accept_args, .columns = upstream_sync_cols, .shape = ADM_TABLE, .role = ADM_OWNER,
	  .where = ADM_ON_WRITER, .check = upstream_accept_check, .body = upstream_accept_body },
	{ .noun = NULL },
};
