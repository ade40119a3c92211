/* Commands about the console: a link to it, who is signed in there, and what he may see.  In a browser they are given
 * by a visit (command/visit.h), on the command line by whoever has a role.  Loop thread. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "command/actor.h"
#include "command/rows.h"
#include "command/visit.h"
#include "people/people.h"
#include "tenant/tenant.h"

#define TENANTS_SHOWN 1000              /* by console can */

static int need_console(const struct command_call *c, struct err *err)
{
	const struct command_env *env = command_env(c);

	if (env->visits && visits_url(env->visits))
		return 0;
	(void)err_set(err, ERR_NOT_FOUND, "", "no console runs here");
	err_hint(err, "console: {listen: 127.0.0.1:8811} in toolcribd.yaml makes the server start one");
	return ERR_NOT_FOUND;
}

static int console_check(struct command_call *c, struct err *err)
{
	return need_console(c, err);
}

/* --- console open */

static int open_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct visits *visits = command_env(c)->visits;
	struct str url = STR_SECRET_INIT;
	char token[VISIT_TOKEN_SIZE], who[ACTOR_SIZE];
	int rc = visits_link(visits, &c->who, token, err);

	(void)db;
	(void)logs;
	if (rc < 0)
		return rc;
	str_printf(&url, "%s/enter?t=%s", visits_url(visits), token);
	reply_row_begin(c->out);
	reply_text(c->out, "url", str_text(&url));
	reply_int(c->out, "seconds", VISIT_LINK_MS / 1000);
	reply_text(c->out, "who", actor_text(&c->who, who));
	reply_row_end(c->out);
	str_wipe(&url);
	secret_wipe(token, sizeof(token));
	return 0;
}

/* --- console enter: of the door alone, which has made the visit (command/door.c) */

static int enter_check(struct command_call *c, struct err *err)
{
	if (c->who.visit)
		return 0;
	(void)err_set(err, ERR_DENIED, "", "that is what the console asks for a browser");
	err_hint(err, "toolcrib console open gives a link for it");
	return ERR_DENIED;
}

static int enter_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	char who[ACTOR_SIZE];

	(void)db;
	(void)logs;
	(void)err;
	reply_row_begin(c->out);
	reply_text(c->out, "visit", visit_first_token(c->who.visit));
	reply_text(c->out, "who", actor_text(&c->who, who));
	reply_row_end(c->out);
	return 0;
}

/* --- console can */

struct seen { struct command_call *c; size_t n; const char *name[TENANTS_SHOWN]; };

/* What a page may ask for, with this tenant's name or without one: what it shows links to (CONSOLE 7). */
static void put_may(struct command_call *c, const char *tenant)
{
	const struct command *const *tables = command_env(c)->tables;
	struct str text = STR_INIT;

	for (const struct command *cmd = NULL; (cmd = command_next(tables, cmd)) != NULL;)
		if (cmd->console && actor_may_run(c->admin, &c->who, cmd, tenant))
			str_printf(&text, "%s%s%s%s", text.len ? "," : "", cmd->noun, cmd->verb ? " " : "", cmd->verb
				? cmd->verb : "");
	reply_text(c->out, "may", str_text(&text));
	str_fini(&text);
}

static void note_tenant(void *arg, const struct tenant *t)
{
	struct seen *s = arg;

	const struct command_call *c = s->c;

	if (s->n < TENANTS_SHOWN && (actor_may(c->admin, &c->who, ADM_AUDIT, t->name) || actor_manages(c->admin,
		&c->who, t->name)))
		s->name[s->n++] = t->name;
}

static int by_name(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

static int can_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct seen s = { .c = c };
	char who[ACTOR_SIZE];

	(void)db;
	(void)logs;
	(void)err;
	tenants_each(command_env(c)->tenants, note_tenant, &s);
	qsort(s.name, s.n, sizeof(s.name[0]), by_name);
	if (c->who.visit) {             /* and what needs no tenant */
		reply_row_begin(c->out);
		reply_text(c->out, "tenant", "");
		reply_text(c->out, "who", actor_text(&c->who, who));
		put_may(c, NULL);
		reply_row_end(c->out);
	}
	for (size_t i = 0; i < s.n; i++) {
		reply_row_begin(c->out);
		reply_text(c->out, "tenant", s.name[i]);
		reply_text(c->out, "payloads", actor_may(c->admin, &c->who, ADM_PAYLOAD, s.name[i]) ? "yes" : "no");
		if (c->who.visit)
			put_may(c, s.name[i]);
		reply_row_end(c->out);
	}
	return 0;
}

/* --- console visits, console end */

struct ending {
	struct command_call *c;
	uint64_t id;                    /* 0: the one that asks */
	bool all;
	size_t n;
};

/* His own, or anybody's for who owns the store. */
static bool may_see(const struct command_call *c, const struct visit *visit)
{
	char mine[ACTOR_SIZE], theirs[ACTOR_SIZE];

	return visit == c->who.visit || strcmp(actor_text(&c->who, mine), actor_text(visit_actor(visit), theirs)) == 0 ||
	       actor_may(c->admin, &c->who, ADM_OWNER, NULL);
}

static void say_visit(void *arg, struct visit *visit, const struct visit_view *v)
{
	struct command_call *c = arg;
	char who[ACTOR_SIZE];

	if (!may_see(c, visit))
		return;
	reply_row_begin(c->out);
	reply_int(c->out, "id", (int64_t)v->id);
	reply_text(c->out, "who", actor_text(visit_actor(visit), who));
	reply_time(c->out, "since", v->since_us);
	reply_time(c->out, "last_seen", v->seen_us);
	reply_time(c->out, "ends", v->until_us);
	reply_text(c->out, "from", v->from);
	if (c->who.visit)
		reply_bool(c->out, "this", visit == c->who.visit);
	reply_row_end(c->out);
}

static int visits_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)db;
	(void)logs;
	(void)err;
	visits_each(command_env(c)->visits, say_visit, c);
	return 0;
}

static int end_check(struct command_call *c, struct err *err)
{
	const char *id = arg_text(c, "id");
	uint64_t n;

	if (need_console(c, err) < 0)
		return err->code;
	if (id && text_u64(id, strlen(id), &n) < 0)
		return err_set(err, ERR_INVALID, "id", "\"%.32s\" is no number of a visit", id);
	if (!id && !arg_given(c, "all") && !c->who.visit)
		return err_set(err, ERR_INVALID, "id", "say which visit, or --all");
	return 0;
}

static void end_one(void *arg, struct visit *visit, const struct visit_view *v)
{
	struct ending *e = arg;
	const bool meant = e->all || (e->id ? v->id == e->id : visit == e->c->who.visit);

	if (!meant || !may_see(e->c, visit))
		return;
	e->n++;
	visit_end(visit);
}

static int end_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *id = arg_text(c, "id");
	struct ending e = { .c = c, .all = arg_given(c, "all") };

	(void)db;
	(void)logs;
	if (id)
		(void)text_u64(id, strlen(id), &e.id);  /* it was checked */
	visits_each(command_env(c)->visits, end_one, &e);
	if (e.n == 0 && !e.all)
		return err_set(err, ERR_NOT_FOUND, "id", "there is no such visit of yours");
	reply_row_begin(c->out);
	reply_int(c->out, "visits", (int64_t)e.n);
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg end_args[] = {
	MAYBE("id", "ID", COMPLETE_NONE, "Number of the visit, as console visits has it; in a browser: the own one."),
	FLAG("all", "All of yours; of everybody, for who owns the store."), ARG_END };
static const struct command_column open_cols[] = { COL("url", "URL"), COL_END };
static const struct command_column enter_cols[] = { COL("visit", "VISIT"), COL("who", "WHO"), COL_END };
static const struct command_column can_cols[] = { COL("tenant", "TENANT"), COL("payloads", "PAYLOADS"), COL_END };
static const struct command_column visits_cols[] = {
	COL("id", "ID"), COL("who", "WHO"), COL_AT("since", "SINCE"), COL_AT("last_seen", "LAST SEEN"), COL_AT("ends", "ENDS"),
	COL("from", "FROM"), COL_END };

static int verifier_here(const json_t *args, struct str *rows, struct err *err)
{
	uint8_t sum[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1];

	(void)args;
	(void)err;
	str_puts(rows, bundle_verifier);
	digest_sha256(rows->p, rows->len, sum);
	text_hex(sum, sizeof(sum), hex);
	fprintf(stderr, "SHA-256: %s\n", hex);
	return 0;
}

const struct command console_commands[] = {
	{ .noun = "console", .verb = "open", .help = "Make a link by which a browser signs in as you",
	  .detail = "The link opens the console once, within a minute; GET asks, and only the button signs in.  Open it in a "
		    "browser on this machine, or through ssh -L 8811:127.0.0.1:8811.  Four links of yours may be open.",
	  .args = no_args, .columns = open_cols, .shape = ADM_SECRET,
	  .done = "valid for %{seconds} s, once; signs in as %{who}", .role = ADM_ANY, .where = ADM_ON_LOOP,
	  .check = console_check, .body = open_body },
	{ .noun = "console", .verb = "enter", .help = "Sign a browser in, which only the console asks for",
	  .args = no_args, .columns = enter_cols, .shape = ADM_ITEM, .role = ADM_ANY, .console = true, .where = ADM_ON_LOOP,
	  .check = enter_check, .body = enter_body },
	{ .noun = "console", .verb = "can", .help = "List the tenants that you may look at",
	  .args = no_args, .columns = can_cols, .shape = ADM_TABLE, .role = ADM_ANY, .console = true, .where = ADM_ON_LOOP,
	  .body = can_body },
	{ .noun = "console", .verb = "visits", .help = "List the browsers that are signed in",
	  .detail = "Yours, or everybody's for who owns the store.  A visit ends half an hour after its last page, twelve "
		    "hours after its beginning, and with the server.",
	  .args = no_args, .columns = visits_cols, .shape = ADM_TABLE, .role = ADM_ANY, .console = true,
	  .where = ADM_ON_LOOP, .check = console_check, .body = visits_body },
	{ .noun = "console", .verb = "verifier", .help = "Print the page that checks a proof in a browser",
	  .detail = "One file, which needs no server and no network: toolcrib console verifier > verify.html.  It takes what "
		    "audit proof, audit consistency and audit payload --opening print, and keys that you have from "
		    "elsewhere.  Its SHA-256 is said on standard error.",
	  .args = no_args, .storeless = true, .role = ADM_READ, .where = ADM_ON_CTL,
	  .here = verifier_here },
	{ .noun = "console", .verb = "end", .help = "Sign a browser out",
	  .detail = "At once: what it has asked for and not got yet is refused.",
	  .args = end_args, .done = "%{visits} visits ended", .shape = ADM_DONE, .role = ADM_ANY, .console = true,
	  .where = ADM_ON_LOOP, .check = end_check, .body = end_body },
	{ .noun = NULL },
};
