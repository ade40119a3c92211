/* Approvals of calls, for persons: approve list, show, watch, grant, refuse, recall (HA-04 to HA-07).  check() runs on
 * the loop, where the list of roles and the index of what waits are, and says what whoever asks may see and decide.
 * body() reads rows on the pool, or votes on the writer's thread, with the record in one transaction.  What is asked
 * for stands sealed in its row, and is shown to those who decide of it and to auditors who may read payloads. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assent/assent.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "call/call.h"
#include "command/rows.h"
#include "conf/conf.h"
#include "db/db.h"
#include "json/json.h"
#include "keys/keys.h"
#include "people/people.h"
#include "tenant/tenant.h"

#include "people_int.h"

enum { WHAT_SIZE = 161, OWN_MAX = 1000, SHOWN_ROWS_MAX = 1000 };

/* --- what somebody may see */

struct seen { int64_t id; bool may; };
struct look {
	bool all;                       /* also what is over, and of any tenant */
	bool payloads;                  /* an auditor, who reads what was asked for */
	int64_t id;                     /* of `show`; 0: a list */
	char person[ASSENT_NAME_SIZE];  /* "": whoever asks is no approver */
	char tenant[64];
	char *store;
	const uint8_t *master;
	struct seen *v; size_t n;
};

static void free_look(void *priv)
{
	struct look *l = priv;

	free(l->store);
	free(l->v);
	free(l);
}

static bool may_decide(const struct command_call *c, const struct assent *a, const char *person)
{
	const struct command_env *env = command_env(c);
	const struct assent_caller caller = { a->tenant, a->principal };

	return person && assent_may_decide(env->roles, env->nroles, a->rule, &caller, person);
}

/* Is an approver of tenants one of this one? */
static bool is_of_tenant(const struct command_call *c, const char *tenant, const char *person)
{
	const struct command_env *env = command_env(c);

	for (size_t i = 0; i < env->nroles; i++) {
		const struct conf_role *r = &env->roles[i];

		if (r->kind == CONF_APPROVER && person && strcmp(r->person, person) == 0 &&
		    (!r->tenant || strcmp(r->tenant, tenant) == 0))
			return true;
	}
	return false;
}

static bool reads_store(const struct command_call *c)
{
	return actor_may(c->admin, &c->who, ADM_READ, NULL) || actor_may(c->admin, &c->who, ADM_AUDIT, NULL);
}

struct collect { struct command_call *c; struct look *l; };

static void collect(void *arg, const struct assent *a)
{
	struct collect *x = arg;
	struct look *l = x->l;
	const char *person = *l->person ? l->person : NULL;
	const bool may = may_decide(x->c, a, person);

	if (*l->tenant && strcmp(l->tenant, a->tenant) != 0)
		return;
	if ((l->id && a->id != l->id) || (!may && !reads_store(x->c) && !(l->id && is_of_tenant(x->c, a->tenant, person))))
		return;
	if ((l->n & (l->n - 1)) == 0)
		l->v = mem_realloc(l->v, (l->n ? 2 * l->n : 1) * sizeof(*l->v));
	l->v[l->n++] = (struct seen){ a->id, may };
}

static int look_check(struct command_call *c, struct err *err)
{
	const struct command_env *env = command_env(c);
	const char *person = actor_approver(c->admin, &c->who);
	struct look *l = command_priv(c, sizeof(*l));

	c->free_priv = free_look;
	l->store = mem_strdup(env->store);
	l->master = env->master;
	l->payloads = actor_may(c->admin, &c->who, ADM_PAYLOAD, NULL);
	(void)snprintf(l->person, sizeof(l->person), "%s", person ? person : "");
	if (arg_is_known(c, "tenant"))
		arg_copy(c, "tenant", l->tenant, sizeof(l->tenant));
	l->all = (arg_is_known(c, "all") && arg_flag(c, "all")) || !env->assents;
	if (l->all && !reads_store(c))
		return err_set(err, ERR_DENIED, "all", "what an approver does not decide is for those who read the store");
	if (env->assents)
		assents_each(env->assents, collect, &(struct collect){ c, l });
	return 0;
}

static int show_check(struct command_call *c, struct err *err)
{
	struct look *l;
	int rc = look_check(c, err);

	if (rc < 0)
		return rc;
	l = c->priv;
	l->id = (int64_t)arg_uint(c, "id", 0);
	l->n = 0;
	if (command_env(c)->assents)
		assents_each(command_env(c)->assents, collect, &(struct collect){ c, l });
	l->all = reads_store(c);
	return 0;
}

/* --- rows on a reader's thread */

struct reading { struct command_call *c; struct look *l; struct db *db; struct keys *keys; };
typedef void put_fn(struct reading *r, struct db_stmt *st, int much);

/* 0: it may not be seen; 1: without what was asked for; 2: all of it */
static int how_much(const struct look *l, int64_t id)
{
	int much = l->all ? 1 : 0;

	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].id == id)
			much = l->v[i].may ? 2 : 1;
	return much && l->payloads ? 2 : much;
}

/* The arguments in one line: amount=4800 payee="Nordwerft". */
static void put_what(struct reply *o, const char *text, size_t len)
{
	char shown[WHAT_SIZE];
	struct str line = STR_INIT;
	const char *name;
	json_t *v = NULL, *value;
	struct err err;

	if (jx_parse(text, len, &v, &err) == 0 && json_is_object(v)) {
		json_object_foreach(v, name, value) {
			str_printf(&line, "%s%s=", line.len ? " " : "", *name == '/' ? name + 1 : name);
			jx_write(value, &line);
		}
	}
	json_decref(v);
	reply_text(o, "what", text_printable(str_text(&line), line.len, shown, sizeof(shown)));
	str_fini(&line);
}

static void put_needs(struct reply *o, struct db_stmt *st)
{
	struct assent_rule *rule = NULL;
	struct str text = STR_INIT;
	struct err err;
	const unsigned have = (unsigned)db_col_i64(st, 15);

	if (assent_rule_parse(db_col_text(st, 8, NULL), &rule, &err) == 0) {
		if (!rule->also) {      /* of two, who has agreed of which is not known here */
			str_printf(&text, "%u of ", have < rule->count ? rule->count - have : 0);
			rule->count = 1;
		}
		assent_rule_whom(rule, &text);
		assent_rule_free(&rule);
	}
	reply_text(o, "needs", str_text(&text));
	str_fini(&text);
}

static void put_id(struct reply *o, const char *name, struct db_stmt *st, unsigned col)
{
	char text[ID_TEXT_SIZE];
	size_t len;
	const uint8_t *id = db_col_blob(st, col, &len);

	reply_text(o, name, len == 16 ? id_format(id, text) : NULL);
}

/* What both commands say. */
static void put_common(struct reading *r, struct db_stmt *st, int much)
{
	struct reply *o = r->c->out;
	const int state = (int)db_col_i64(st, 4);
	struct str shown = STR_INIT;
	struct err err;

	reply_int(o, "id", db_col_i64(st, 0));
	reply_text(o, "state", assent_state_name(state));
	reply_text(o, "tenant", db_col_text(st, 1, NULL));
	reply_text(o, "tool", db_col_text(st, 2, NULL));
	reply_text(o, "by", db_col_text(st, 3, NULL));
	reply_time(o, "asked", (uint64_t)db_col_i64(st, 5));
	reply_time(o, "until", (uint64_t)db_col_i64(st, state == ASSENT_WAITS ? 6 : state == ASSENT_GRANTED ? 7 : 16));
	put_needs(o, st);
	if (much < 2)
		reply_text(o, "what", NULL);
	else if (assent_unseal(r->db, r->keys, db_col_i64(st, 14), db_col_i64(st, 0), &shown, &err) == 0)
		put_what(o, str_text(&shown), shown.len);
	else
		reply_text(o, "what", "cannot be opened any more");
	str_fini(&shown);
}

static int read_rows(struct reading *r, put_fn *put, struct err *err)
{
	const struct look *l = r->l;
	struct db_stmt *st;
	size_t n = 0;
	int rc;

	if (l->id && !how_much(l, l->id))
		return 0;                       /* one of others takes as long as none */
	st = db_stmt_get(r->db, SQL_ASSENT_SHOW);
	db_bind_i64(st, 1, l->id ? l->id : 1);
	db_bind_i64(st, 2, l->id ? l->id : INT64_MAX);
	while ((rc = db_step(st, err)) == 1 && n < SHOWN_ROWS_MAX && !reply_full(r->c->out)) {
		const int much = how_much(l, db_col_i64(st, 0));

		if (!much || (*l->tenant && strcmp(l->tenant, db_col_text(st, 1, NULL)) != 0))
			continue;
		n++;
		reply_row_begin(r->c->out);
		put(r, st, much);
		reply_row_end(r->c->out);
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	return n > 0 ? 1 : 0;
}

static int look_body(struct command_call *c, struct db *db, put_fn *put, struct err *err)
{
	struct look *l = c->priv;
	const struct keyfile_place place = { l->store, l->master };
	struct reading r = { .c = c, .l = l, .db = db };
	int rc = keys_open_reader(&place, &r.keys, err);

	if (rc == 0)
		rc = read_rows(&r, put, err);
	keys_close(&r.keys);
	return rc;
}

static int list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = look_body(c, db, put_common, err);

	(void)logs;
	return rc < 0 ? rc : 0;
}

/* --- approve show */

static int not_found(int64_t id, struct err *err)
{
	(void)err_set(err, ERR_NOT_FOUND, "", "approval %" PRId64 ": not found", id);
	err_hint(err, "toolcrib approve list");
	return ERR_NOT_FOUND;
}

/* Who has agreed, a line each. */
static void put_votes(struct reading *r, struct db_stmt *row)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_ASSENT_VOTES);
	struct str text = STR_INIT;
	struct err err;

	db_bind_i64(st, 1, db_col_i64(row, 0));
	db_bind_i64(st, 2, db_col_i64(row, 14));
	while (db_step(st, &err) == 1) {
		char reason[2 * ASSENT_REASON_MAX];
		size_t len;
		const char *why = db_col_text(st, 3, &len);

		str_printf(&text, "%s%s (%s)%s%s", text.len ? "; " : "", db_col_text(st, 0, NULL), db_col_text(st, 1, NULL),
			   len ? ": " : "", len ? text_printable(why, len, reason, sizeof(reason)) : "");
	}
	db_stmt_put(&st);
	reply_text(r->c->out, "agreed", text.len ? str_text(&text) : NULL);
	str_fini(&text);
}

static void put_version(struct reading *r, struct db_stmt *row)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_ASSENT_VERSION);
	struct reply *o = r->c->out;
	size_t len;
	const void *digest = db_col_blob(row, 13, &len);
	struct err err;
	json_t *doc = NULL;

	reply_hex(o, "definition", digest, len);
	db_bind_textz(st, 1, db_col_text(row, 2, NULL));
	db_bind_blob(st, 2, digest, len);
	if (db_step(st, &err) == 1) {
		const char *text = db_col_text(st, 3, &len);

		reply_int(o, "version", db_col_i64(st, 0));
		reply_time(o, "defined", (uint64_t)db_col_i64(st, 1));
		reply_text(o, "defined_by", db_col_text(st, 2, NULL));
		if (jx_parse(text, len, &doc, &err) == 0) {
			struct str hints = STR_INIT;
			const json_t *annotations = json_object_get(doc, "annotations");

			if (annotations)
				jx_write(annotations, &hints);
			reply_text(o, "hints", hints.len ? str_text(&hints) : "none");
			str_fini(&hints);
		}
		json_decref(doc);
	}
	db_stmt_put(&st);
}

static void put_before(struct reading *r, struct db_stmt *row)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_ASSENT_BEFORE);
	struct err err;
	char text[120];

	db_bind_i64(st, 1, db_col_i64(row, 14));
	db_bind_textz(st, 2, db_col_text(row, 18, NULL));
	db_bind_textz(st, 3, db_col_text(row, 2, NULL));
	db_bind_i64(st, 4, db_col_i64(row, 0));
	if (db_step(st, &err) == 1) {
		(void)snprintf(text, sizeof(text), "granted %" PRId64 ", refused %" PRId64 " of %" PRId64 " asked for",
			       db_col_i64(st, 0), db_col_i64(st, 1), db_col_i64(st, 2));         /* fits */
		reply_text(r->c->out, "before", text);
	}
	db_stmt_put(&st);
}

static int by_time(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* HA-07: the reader's own record, against nodding. */
static void put_own(struct reading *r)
{
	struct db_stmt *st;
	int64_t took[OWN_MAX];
	size_t n = 0, yes = 0;
	struct err err;
	char text[120];

	if (!*r->l->person)
		return;
	st = db_stmt_get(r->db, SQL_ASSENT_OWN);
	db_bind_textz(st, 1, r->l->person);
	while (n < OWN_MAX && db_step(st, &err) == 1) {
		yes += db_col_i64(st, 0) != 0;
		took[n++] = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	qsort(took, n, sizeof(*took), by_time);
	if (n > 0)
		(void)snprintf(text, sizeof(text), "granted %zu of your last %zu, median %" PRId64 " s", yes, n,
			       took[n / 2] / 1000000);         /* fits */
	reply_text(r->c->out, "yours", n > 0 ? text : "none yet");
}

static void put_shown(struct reading *r, struct db_stmt *row, int much)
{
	struct str shown = STR_INIT, pretty = STR_INIT;
	struct err err;
	json_t *v = NULL;
	char *text;
	size_t size;

	if (much == 2 && assent_unseal(r->db, r->keys, db_col_i64(row, 14), db_col_i64(row, 0), &shown, &err) == 0 &&
	    jx_parse(str_text(&shown), shown.len, &v, &err) == 0)
		jx_write(v, &pretty);
	json_decref(v);
	size = 8 * pretty.len + 1;
	text = mem_alloc(size);
	reply_text(r->c->out, "arguments", pretty.len ? text_printable(str_text(&pretty), pretty.len, text, size) : NULL);
	free(text);
	str_fini(&shown);
	str_fini(&pretty);
}

static void put_show(struct reading *r, struct db_stmt *st, int much)
{
	struct reply *o = r->c->out;
	size_t len;
	const void *digest = db_col_blob(st, 17, &len);

	put_common(r, st, much);
	reply_text(o, "key", db_col_type(st, 12) == DB_NULL ? NULL : db_col_text(st, 12, NULL));
	put_shown(r, st, much);
	reply_text(o, "rule", db_col_text(st, 8, NULL));
	reply_hex(o, "digest", digest, len);
	put_version(r, st);
	put_votes(r, st);
	reply_text(o, "said", db_col_type(st, 9) == DB_NULL ? NULL : db_col_text(st, 9, NULL));
	put_id(o, "call", st, 10);
	put_id(o, "used", st, 11);
	put_before(r, st);
	put_own(r);
}

static int show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct look *l = c->priv;
	int rc = look_body(c, db, put_show, err);

	(void)logs;
	return rc < 0 ? rc : rc == 1 ? 0 : not_found(l->id, err);
}

/* --- approve watch */

/* What has become of approvals, by rows whose positions ascend with the commits (decision 0133): a reader that is slow
 * waits in the store, and one that comes back says where it was. */
enum { WATCH_BATCH = 256 };
#define WATCH_LOG "approvals"           /* the name of the positions, in rows and in the file of --cursor */

struct watch {
	struct look look;               /* without what is open: what is over is told as well */
	struct conf_role *roles;        /* copies of the lines of this person, which the next part makes anew */
	size_t nroles;
	bool begun, follows;            /* follows: everything, not only what is open */
	int64_t at, last;               /* the position behind which the next is; of the newest when it began */
};

static void free_roles(struct watch *w)
{
	for (size_t i = 0; i < w->nroles; i++) {
		free(w->roles[i].person);
		free(w->roles[i].tenant);
		free(w->roles[i].principal);
		for (size_t k = 0; k < w->roles[i].ngroups; k++)
			free(w->roles[i].groups[k]);
		free(w->roles[i].groups);
		for (size_t k = 0; k < w->roles[i].ncallers; k++)
			free(w->roles[i].callers[k]);
		free(w->roles[i].callers);
	}
	free(w->roles);
	w->roles = NULL;
	w->nroles = 0;
}

static void free_watch(void *priv)
{
	struct watch *w = priv;

	free_roles(w);
	free(w->look.store);
	free(w);
}

static void copy_role(const struct conf_role *from, struct conf_role *to)
{
	to->kind = from->kind;
	to->person = mem_strdup(from->person);
	to->tenant = from->tenant ? mem_strdup(from->tenant) : NULL;
	to->principal = from->principal ? mem_strdup(from->principal) : NULL;
	to->groups = mem_calloc(from->ngroups + 1, sizeof(*to->groups));
	for (; to->ngroups < from->ngroups; to->ngroups++)
		to->groups[to->ngroups] = mem_strdup(from->groups[to->ngroups]);
	to->callers = mem_calloc(from->ncallers + 1, sizeof(*to->callers));
	for (; to->ncallers < from->ncallers; to->ncallers++)
		to->callers[to->ncallers] = mem_strdup(from->callers[to->ncallers]);
}

/* Before each part, as a reload may have changed it. */
static int watch_again(struct command_call *c, struct err *err)
{
	const struct command_env *env = command_env(c);
	const char *person = actor_approver(c->admin, &c->who);
	struct watch *w = c->priv;

	(void)err;
	free_roles(w);
	w->look.payloads = actor_may(c->admin, &c->who, ADM_PAYLOAD, NULL);
	w->look.all = reads_store(c);
	(void)snprintf(w->look.person, sizeof(w->look.person), "%s", person ? person : "");
	w->roles = mem_calloc(env->nroles + 1, sizeof(*w->roles));
	for (size_t i = 0; person && i < env->nroles; i++)
		if (env->roles[i].person && strcmp(env->roles[i].person, person) == 0)
			copy_role(&env->roles[i], &w->roles[w->nroles++]);
	return 0;
}

static int watch_check(struct command_call *c, struct err *err)
{
	const struct command_env *env = command_env(c);
	const json_t *next = json_object_get(arg_json(c, "cursor"), WATCH_LOG);
	const int64_t at = json_integer_value(next) - 1;
	struct watch *w = command_priv(c, sizeof(*w));

	c->free_priv = free_watch;
	w->look.store = mem_strdup(env->store);
	w->look.master = env->master;
	arg_copy(c, "tenant", w->look.tenant, sizeof(w->look.tenant));
	if (!env->assents) {
		(void)err_set(err, ERR_INVALID, "", "there is nothing to watch: no server runs on this store");
		err_hint(err, "start toolcribd; toolcrib approve list shows what waits");
		return ERR_INVALID;
	}
	if (arg_given(c, "after") && arg_given(c, "cursor"))
		return err_set(err, ERR_INVALID, "after", "--after and --cursor both say where to go on");
	w->follows = arg_given(c, "after") || json_is_integer(next);
	w->at = arg_given(c, "after") ? (int64_t)arg_uint(c, "after", 0) : w->follows && at > 0 ? at : 0;
	return watch_again(c, err);
}

static int one_number(struct db *db, enum sql_id id, int64_t at, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, id);
	int rc;

	if (at)
		db_bind_i64(st, 1, at);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* What goes on behind a position: is all of it still there? */
static int watch_begin(struct command_call *c, struct watch *w, struct db *db, struct err *err)
{
	static const char head[] = "{\"header\":{\"must_be_empty\":false},\"columns\":[\"index\",\"time\",\"event\",\"id\","
		"\"tenant\",\"tool\",\"by\",\"until\",\"needs\",\"what\",\"who\",\"said\",\"log\"]}\n";
	const uint64_t kept_from = clock_wall_us() - ASSENT_KEPT_US;
	int64_t us = 0;
	int rc = one_number(db, SQL_ASSENT_EVENT_LAST, 0, &w->last, err);

	if (rc == 0 && w->follows)
		rc = one_number(db, SQL_ASSENT_EVENT_AT, w->at > 0 ? w->at : 1, &us, err);
	if (rc < 0)
		return rc;
	if (w->at > w->last) {
		(void)err_set(err, ERR_INVALID, "", "position %" PRId64 " is behind the newest of this store, %" PRId64, w->at,
			      w->last);
		err_hint(err, "a backup was put back, or it is another store: watch from the beginning");
		return ERR_INVALID;
	}
	str_puts(&c->out->text, head);
	if (w->follows && (uint64_t)us < kept_from && w->at < w->last) {
		reply_row_begin(c->out);
		reply_text(c->out, "event", "lost");
		reply_text(c->out, "said", "what was over for 90 days is not kept, and was perhaps not told");
		reply_row_end(c->out);
	}
	return 0;
}

static bool watch_may_decide(const struct watch *w, const struct assent_rule *rule, struct db_stmt *st)
{
	const struct assent_caller caller = { db_col_text(st, 7, NULL), db_col_text(st, 10, NULL) };

	return *w->look.person && assent_may_decide(w->roles, w->nroles, rule, &caller, w->look.person);
}

static void put_shown_once(struct reading *r, struct db_stmt *st)
{
	const struct keyfile_place place = { r->l->store, r->l->master };
	struct str shown = STR_INIT;
	struct err err;

	if ((r->keys || keys_open_reader(&place, &r->keys, &err) == 0) &&
	    assent_unseal(r->db, r->keys, db_col_i64(st, 6), db_col_i64(st, 5), &shown, &err) == 0)
		put_what(r->c->out, str_text(&shown), shown.len);
	else
		reply_text(r->c->out, "what", "cannot be opened any more");
	str_fini(&shown);
}

static void put_whom(struct reply *o, const struct assent_rule *rule)
{
	struct str whom = STR_INIT;

	if (rule && rule->count == 1 && !rule->also)
		str_puts(&whom, "1 of ");
	if (rule)
		assent_rule_whom(rule, &whom);
	reply_text(o, "needs", str_text(&whom));
	str_fini(&whom);
}

static const char *text_or_null(struct db_stmt *st, unsigned col)
{
	const char *text = db_col_text(st, col, NULL);

	return *text ? text : NULL;
}

static void put_event(struct reading *r, struct db_stmt *st, const struct assent_rule *rule, bool shown)
{
	const int what = (int)db_col_i64(st, 2);
	const bool asked = what == ASSENT_WAITS;
	struct reply *o = r->c->out;

	reply_row_begin(o);
	reply_int(o, "index", db_col_i64(st, 0));
	reply_time(o, "time", (uint64_t)db_col_i64(st, 1));
	reply_text(o, "event", assent_event_name(what));
	reply_int(o, "id", db_col_i64(st, 5));
	reply_text(o, "tenant", db_col_text(st, 7, NULL));
	reply_text(o, "tool", db_col_text(st, 8, NULL));
	reply_text(o, "by", db_col_text(st, 9, NULL));
	reply_time(o, "until", asked || what == ASSENT_GRANTED || what == ASSENT_AGREED ? (uint64_t)db_col_i64(st, 12) : 0);
	if (asked)
		put_whom(o, rule);
	else
		reply_text(o, "needs", NULL);
	if (asked && shown)
		put_shown_once(r, st);
	else
		reply_text(o, "what", NULL);
	reply_text(o, "who", text_or_null(st, 3));
	reply_text(o, "said", text_or_null(st, 4));
	reply_text(o, "log", WATCH_LOG);
	reply_row_end(o);
}

static void watch_one(struct reading *r, struct watch *w, struct db_stmt *st)
{
	struct assent_rule *rule = NULL;
	struct err err;
	bool may;

	if (*w->look.tenant && strcmp(w->look.tenant, db_col_text(st, 7, NULL)) != 0)
		return;
	may = assent_rule_parse(db_col_text(st, 11, NULL), &rule, &err) == 0 && watch_may_decide(w, rule, st);
	if (may || w->look.all)
		put_event(r, st, rule, may || w->look.payloads);
	assent_rule_free(&rule);
}

static int watch_part(struct reading *r, struct watch *w, size_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(r->db, w->follows ? SQL_ASSENT_EVENTS : SQL_ASSENT_EVENTS_OPEN);
	int rc;

	db_bind_i64(st, 1, w->at);
	db_bind_i64(st, 2, WATCH_BATCH);
	if (!w->follows)
		db_bind_i64(st, 3, w->last);
	for (*ret = 0; (rc = db_step(st, err)) == 1; ++*ret) {
		w->at = db_col_i64(st, 0);
		watch_one(r, w, st);
	}
	db_stmt_put(&st);
	return rc;
}

/* At its beginning what is open; then all that comes.  --after, --cursor: what came since. */
static int watch_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct watch *w = c->priv;
	struct reading r = { .c = c, .l = &w->look, .db = db };
	size_t n = 0;
	int rc = w->begun ? 0 : watch_begin(c, w, db, err);

	(void)logs;
	w->begun = true;
	if (rc == 0)
		rc = watch_part(&r, w, &n, err);
	keys_close(&r.keys);
	if (rc < 0)
		return rc;
	c->more = n == WATCH_BATCH || !w->follows ? ADM_MORE_NOW : ADM_MORE_LATER;
	if (n < WATCH_BATCH && !w->follows) {
		w->follows = true;
		w->at = w->last;
	}
	return 0;
}

/* --- approve grant, refuse, recall */

struct ruling {
	struct assent_deed d;
	struct err refused;             /* with code: whoever gave the command may not */
	char task[24];                  /* that waits for it, or "" */
};

static void free_ruling(void *priv)
{
	struct ruling *x = priv;

	free(x->d.persons);
	free(x);
}

/* All who decide of it today, each once. */
static void collect_persons(const struct command_call *c, const struct assent *a, struct assent_deed *d)
{
	const struct command_env *env = command_env(c);

	d->persons = mem_calloc(env->nroles + 1, sizeof(*d->persons));
	for (size_t i = 0; i < env->nroles; i++) {
		const char *person = env->roles[i].person;
		const struct assent_caller caller = { a->tenant, a->principal };
		bool known = false;

		for (size_t k = 0; k < d->npersons; k++)
			known |= person && strcmp(d->persons[k].name, person) == 0;
		if (!person || known)
			continue;
		d->persons[d->npersons].of = assent_decides(env->roles, env->nroles, a->rule, &caller, person);
		if (d->persons[d->npersons].of)
			(void)snprintf(d->persons[d->npersons++].name, ASSENT_NAME_SIZE, "%s", person);
	}
}

static int ruling_new(struct command_call *c, struct ruling **ret, struct assent **ret_of, struct err *err)
{
	struct ruling *x = command_priv(c, sizeof(*x));
	const char *person = actor_approver(c->admin, &c->who);
	char who[ACTOR_SIZE];
	int rc = 0;

	c->free_priv = free_ruling;
	x->d.id = (int64_t)arg_uint(c, "id", 0);
	if (!command_env(c)->assents)
		return err_set(err, ERR_UNREACHABLE, "", "approvals are given while the server runs: who opens the store without "
			       "one is no person of the list of roles");
	if (arg_given(c, "reason"))
		rc = arg_reason(c, "reason", x->d.reason, sizeof(x->d.reason), err);
	if (rc < 0)
		return rc;
	(void)actor_text(&c->who, who);
	(void)snprintf(x->d.name, sizeof(x->d.name), "%s", who);
	(void)snprintf(x->d.who, sizeof(x->d.who), "%s", person ? person : who);
	*ret = x;
	*ret_of = assent_by_id(command_env(c)->assents, x->d.id);
	/* Of other tenants as if there were none. */
	if (!*ret_of || (!reads_store(c) && !is_of_tenant(c, (*ret_of)->tenant, person)))
		return not_found(x->d.id, err);
	return 0;
}

/* The refusal is given by body(), so that the attempt is on record. */
static int vote_check(struct command_call *c, struct err *err)
{
	const char *person = actor_approver(c->admin, &c->who), *task;
	struct assent *a;
	struct ruling *x;
	int rc = ruling_new(c, &x, &a, err);

	if (rc < 0)
		return rc;
	x->d.yes = strcmp(command_verb(c), "grant") == 0;
	task = command_env(c)->calls ? call_held_as(command_env(c)->calls, a) : NULL;
	(void)snprintf(x->task, sizeof(x->task), "%s", task ? task : "");       /* fits */
	collect_persons(c, a, &x->d);
	if (!person)
		(void)err_set(&x->refused, ERR_DENIED, "", "%s is no approver by the list of roles", x->d.who);
	else if (!may_decide(c, a, person))
		(void)err_set(&x->refused, ERR_DENIED, "", "approval %" PRId64 " is asked of %.200s, and %s is none of them, or the "
			      "caller", x->d.id, a->whom, person);
	else if (a->busy)
		(void)err_set(&x->refused, ERR_BUSY, "", "approval %" PRId64 " is being written; try again", x->d.id);
	return 0;
}

static void put_done(struct command_call *c, const struct assent_deed *d, const char *said)
{
	reply_row_begin(c->out);
	reply_int(c->out, "id", d->id);
	reply_text(c->out, "state", assent_state_name((int)d->state));
	reply_text(c->out, "tool", d->tool);
	reply_text(c->out, "who", d->who);
	reply_text(c->out, "said", said);
	reply_row_end(c->out);
}

static int vote_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct ruling *x = c->priv;
	struct assent_deed *d = &x->d;
	struct audit_event ev;
	char said[300];
	int rc;

	if (x->refused.code) {
		*err = x->refused;
		return err->code;
	}
	command_event_of(c, AUDIT_CALL_APPROVED, &ev);
	rc = assent_vote(d, &ev, db, logs, err);
	if (rc < 0)
		return rc;
	if (d->state == ASSENT_REFUSED)
		(void)snprintf(said, sizeof(said), "refused by %s (%s)", d->who, d->name);
	else if (d->state == ASSENT_WAITS)
		(void)snprintf(said, sizeof(said), "%s (%s) agrees, and %u more must", d->who, d->name, d->missing);
	else
		(void)snprintf(said, sizeof(said), "granted by %s (%s); the call runs %s%s", d->who, d->name,
			       *x->task ? "as task " : "when it is made again", x->task);
	put_done(c, d, said);
	return 0;
}

static void ruling_after(struct command_call *c)
{
	const struct ruling *x = c->priv;

	assent_done(command_env(c)->assents, &x->d);
}

static int recall_check(struct command_call *c, struct err *err)
{
	const char *person = actor_approver(c->admin, &c->who);
	struct assent *a;
	struct ruling *x;
	int rc = ruling_new(c, &x, &a, err);

	if (rc == 0 && !may_decide(c, a, person) && !actor_may(c->admin, &c->who, ADM_OWNER, NULL))
		(void)err_set(&x->refused, ERR_DENIED, "", "an approval is recalled by one of its approvers, or by an administrator");
	return rc;
}

static int recall_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct ruling *x = c->priv;
	struct audit_event ev;
	char said[300];
	int rc;

	if (x->refused.code) {
		*err = x->refused;
		return err->code;
	}
	command_event_of(c, AUDIT_CALL_RECALLED, &ev);
	rc = assent_recall(&x->d, &ev, db, logs, err);
	if (rc < 0)
		return rc;
	(void)snprintf(said, sizeof(said), "recalled by %s (%s)", x->d.who, x->d.name);
	put_done(c, &x->d, said);
	return 0;
}

/* --- rows of the command table */

#define ID_ARG { "id", "ID", ARG_UINT, false, true, false, COMPLETE_NONE, "Its number, from approve list." }
static const struct command_arg list_args[] = {
	TENANT_OPT, FLAG("all", "Also what others decide, and what is over, as long as it is kept (90 days)."), ARG_END };
static const struct command_arg watch_args[] = {
	TENANT_OPT,
	OPT("after", "N", ARG_UINT, COMPLETE_NONE, "Go on behind the row with this INDEX, instead of what waits now."),
	{ "cursor", "FILE", ARG_CURSOR, true, false, false, COMPLETE_FILE,
	  "Go on where this file says, and keep it up to date; made when it is not there." }, ARG_END };
static const struct command_arg show_args[] = { ID_ARG, ARG_END };
static const struct command_arg grant_args[] = {
	ID_ARG, OPT("reason", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why, for the record."), ARG_END };
static const struct command_arg refuse_args[] = {
	ID_ARG, NEED("reason", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why, for the record and for the caller."), ARG_END };
static const struct command_column list_cols[] = {
	COL("id", "ID"), COL("state", "STATE"), COL("tenant", "TENANT"), COL("tool", "TOOL"), COL("by", "BY"),
	COL_AT("asked", "ASKED"), COL_AT("until", "UNTIL"), COL("needs", "NEEDS"), COL("what", "WHAT"), COL_END };
static const struct command_column watch_cols[] = {
	COL("index", "INDEX"), COL_AT("time", "TIME"), COL("event", "EVENT"), COL("id", "ID"), COL("tenant", "TENANT"),
	COL("tool", "TOOL"), COL("by", "BY"), COL("needs", "NEEDS"), COL("what", "WHAT"), COL("who", "WHO"),
	COL("said", "SAID"), COL_END };
static const struct command_column show_cols[] = {
	COL("id", "id"), COL("state", "state"), COL("tenant", "tenant"), COL("tool", "tool"), COL("by", "by"),
	COL("key", "key"), COL_AT("asked", "asked"), COL_AT("until", "until"), COL("needs", "needs"),
	COL("arguments", "arguments"), COL("rule", "rule"), COL("digest", "digest"), COL("definition", "definition"),
	COL("version", "version"), COL_AT("defined", "defined"), COL("defined_by", "defined by"), COL("hints", "hints"),
	COL("agreed", "agreed"), COL("said", "said"), COL("call", "call"), COL("used", "used by call"),
	COL("before", "before"), COL("yours", "yours"), COL_END };

const struct command approve_commands[] = {
	{ .noun = "approve", .verb = "list", .help = "List the calls that wait for a person",
	  .detail = "Of an approver those that he decides; of others all, without what was asked for, which auditors see "
		    "as well.  UNTIL: when one that waits lapses, until when one that was granted is used, or when it was over.",
	  .args = list_args, .columns = list_cols, .shape = ADM_TABLE, .role = ADM_ASSENTS, .console = true,
	  .where = ADM_ON_POOL,
	  .check = look_check, .body = list_body },
	{ .noun = "approve", .verb = "show", .help = "Show one approval",
	  .detail = "What will run: the arguments as its rule shows them, the definition, since when it is as it is and by "
		    "whom; who has agreed; what this caller was granted before; and how whoever reads it has decided lately.",
	  .args = show_args, .columns = show_cols, .shape = ADM_ITEM, .role = ADM_ASSENTS, .console = true,
	  .where = ADM_ON_POOL,
	  .check = show_check, .body = show_body },
	{ .noun = "approve", .verb = "watch", .help = "Show calls that come to wait for a person, and what becomes of them",
	  .detail = "Begins with what waits, and goes on until Ctrl-C with each request, vote and end of what approve list "
		    "would show to the same person: asked, agreed (of several who must), granted, refused, lapsed, recalled, used.  "
		    "INDEX ascends; who comes back with --after or --cursor is told what came since, without a gap and once each.  "
		    "A row lost says that some of it is older than 90 days and gone.",
	  .args = watch_args, .columns = watch_cols, .shape = ADM_REPORT, .stream = true, .role = ADM_ASSENTS,
	  .where = ADM_ON_POOL, .check = watch_check, .again = watch_again, .body = watch_body },
	{ .noun = "approve", .verb = "grant", .help = "Agree to a call",
	  .detail = "To this one, with these arguments, by this caller, of this version of the tool, once.  Of a tool that "
		    "needs several persons each gives theirs.  Nobody agrees to calls of the principal that is theirs.",
	  .args = grant_args, .done = "approval %{id}: %{said}", .role = ADM_APPROVE, .console = true,
	  .where = ADM_ON_WRITER,
	  .check = vote_check, .body = vote_body, .after = ruling_after },
	{ .noun = "approve", .verb = "refuse", .help = "Refuse a call",
	  .detail = "The same call is answered with the reason for 10 minutes, and nobody is asked again.",
	  .args = refuse_args, .done = "approval %{id}: %{said}", .role = ADM_APPROVE, .console = true,
	  .where = ADM_ON_WRITER,
	  .check = vote_check, .body = vote_body, .after = ruling_after },
	{ .noun = "approve", .verb = "recall", .help = "Take back what was granted and not used yet",
	  .detail = "What runs is stopped by task cancel or tool disable --kill.", .args = grant_args,
	  .done = "approval %{id}: %{said}", .role = ADM_RECALL, .console = true, .where = ADM_ON_WRITER,
	  .check = recall_check, .body = recall_body, .after = ruling_after },
	{ .noun = NULL },
};
