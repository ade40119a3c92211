/* A call that a person has to agree to (HA-01 to HA-06): asked behind all other questions of admission, so that nobody
 * is asked about what could not run, and again at each run.  A yes is used in the transaction of the call's begin;
 * without one the call is refused, and the request for it filed, in words that say how to go on. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "assent/assent.h"
#include "base/clock.h"
#include "base/metric.h"
#include "json/json.h"
#include "proto/caps.h"
#include "tenant/tenant.h"

#include "held_int.h"
#include "task_call_int.h"

enum { WHEN_SIZE = 32 };

/* To the minute, for people. */
static const char *when(uint64_t us, char ret[WHEN_SIZE])
{
	const time_t at = (time_t)(us / 1000000);
	struct tm tm;

	if (!gmtime_r(&at, &tm) || strftime(ret, WHEN_SIZE, "%Y-%m-%d %H:%M UTC", &tm) == 0)
		*ret = '\0';
	return ret;
}

static int hold(struct call *c, const struct assent *a, const char *text)
{
	struct call_trouble *t = call_trouble(c);

	t->refusal = REFUSE_APPROVAL;
	(void)snprintf(t->rule, sizeof(t->rule), "approval");
	if (a && assent_is_open((int)a->state)) {
		t->approval_id = a->id;
		t->approval_until_us = a->due_us;
	}
	return err_set(&t->err, ERR_DENIED, "", "%s", text);
}

static int hold_waiting(struct call *c, const struct assent *a)
{
	char text[400], until[WHEN_SIZE];

	(void)snprintf(text, sizeof(text), "The call waits for approval %" PRId64 " by %.200s until %s; nothing has run.  "
		       "Call again with the same arguments.", a->id, a->whom, when(a->due_us, until));
	call_trouble(c)->waits = a->state == ASSENT_WAITS;
	return hold(c, a, text);
}

/* --- what an approver is shown */

struct hidden { size_t from, to; };
struct redact { struct hidden v[JX_LOCATE_MAX]; size_t n; };

static void hide(void *arg, size_t pointer, size_t from, size_t to)
{
	struct redact *r = arg;

	(void)pointer;
	r->v[r->n++] = (struct hidden){ from, to };
}

/* All of the arguments as they came, but what is sensitive. */
static void show_all(const struct call *c, struct str *out)
{
	struct redact r = { .n = 0 };
	size_t at = 0;

	if (c->compiled->nredact > 0 && c->args_len > 0)
		jx_locate(c->args_text, c->args_len, c->compiled->redact, c->compiled->nredact, hide, &r);
	for (size_t i = 0; i < r.n; i++) {
		str_put(out, c->args_text + at, r.v[i].from - at);
		str_puts(out, "\"[redacted]\"");
		at = r.v[i].to;
	}
	str_put(out, c->args_text + at, c->args_len - at);
	if (c->args_len == 0)
		str_puts(out, "{}");
}

/* Is it, or what it is in or has in it, what nobody is shown?  A tool's own rule is not stored then, but a grant may
 * come before its tool. */
static bool is_redacted(const struct call *c, const char *pointer)
{
	for (size_t i = 0; i < c->compiled->nredact; i++) {
		const char *other = c->compiled->redact[i];
		const size_t a = strlen(pointer), b = strlen(other), n = a < b ? a : b;
		const char *rest = a < b ? other : pointer;

		if (strncmp(pointer, other, n) == 0 && (rest[n] == '\0' || rest[n] == '/'))
			return true;
	}
	return false;
}

/* Of what one rule names and not the one before it. */
static void show_rule(const struct call *c, const struct assent_rule *rule, const struct assent_rule *before,
		      struct str *out)
{
	for (size_t i = 0; rule && i < rule->nshow; i++) {
		const json_t *v = is_redacted(c, rule->show[i]) ? NULL : jx_at(c->args, rule->show[i]);
		bool again = false;

		for (size_t k = 0; before && k < before->nshow; k++)
			again |= strcmp(rule->show[i], before->show[k]) == 0;
		if (!v || again)
			continue;
		str_puts(out, out->p[out->len - 1] == '{' ? "" : ",");
		jx_write_stringz(out, rule->show[i]);
		str_putc(out, ':');
		jx_write(v, out);
	}
}

/* What its caller has answered, as one more member. */
static void show_answers(const struct call *c, struct str *out)
{
	while (out->len > 1 && out->p[out->len - 1] != '}')
		out->len--;
	out->len--;
	str_puts(out, out->len > 1 ? "," : "");
	str_puts(out, "\"" CALL_ANSWERS_SHOWN "\":");
	jx_write(c->answers, out);
	str_putc(out, '}');
}

static struct assent_asks asks_of(const struct call *c)
{
	struct assent_asks asks;

	(void)assent_asks(c->compiled->approve, c->tool->approve, c->args, &asks);
	return asks;
}

/* {"/amount":4800,…}: of what the rules that ask name; all, where one of them names nothing. */
static void shown_of(const struct call *c, struct str *out)
{
	const struct assent_asks asks = asks_of(c);
	const struct assent_rule *tool = asks.by_tool ? asks.tool : NULL, *grant = asks.by_grant ? asks.grant : NULL;

	if ((tool && tool->nshow == 0) || (grant && grant->nshow == 0)) {
		show_all(c, out);
	} else {
		str_putc(out, '{');
		show_rule(c, tool, NULL, out);
		show_rule(c, grant, tool, out);
		str_putc(out, '}');
	}
	if (c->answers)
		show_answers(c, out);
}

/* --- admission */

/* Of a task whose tool has asked, and which is answered: not the first. */
static bool is_round(const struct call *c)
{
	return c->task && c->task->round > 0;
}

static void digest_of(const struct call *c, uint8_t ret[32])
{
	const struct assent_asks asks = asks_of(c);
	struct str rule = STR_INIT;
	struct assent_what what = {
		.tenant_id = c->who->tenant_id, .principal_id = c->who->principal_id, .tool = c->tool->full_name,
		.tdef = c->tool->def->digest, .args = c->args, .answers = c->answers, .task = is_round(c) ? c->task->id : NULL,
		.round = is_round(c) ? c->task->round : 0 };

	assent_asks_text(&asks, &rule);
	what.rule = str_text(&rule);
	assent_digest(&what, ret);
	str_fini(&rule);
}

/* HA-06: whatever its tool says of tasks. */
static bool waits_as_task(const struct call *c)
{
	return c->modern && (c->caps & CAP_TASKS) && c->eng->env.tasks &&
		task_room(c->eng->env.tasks, c->who->tenant_id, c->who->principal_id);
}

/* Nobody was asked yet: deny() files it. */
static int hold_new(struct call *c)
{
	struct str shown = STR_INIT;
	struct err err;
	bool fits;

	if (assent_room(c->eng->env.assents, c->who->tenant_id, c->who->principal_id, &err) < 0)
		return hold(c, NULL, err.msg);
	shown_of(c, &shown);
	fits = shown.len <= ASSENT_SHOWN_MAX;
	str_fini(&shown);
	if (!fits) {
		metric_inc(METRIC_approvals_refused);
		return hold(c, NULL, "A person has to agree to this call, and its arguments are too long to be shown to one; "
			    "nobody was asked");
	}
	(void)hold(c, NULL, "the request for an approval cannot be recorded");
	c->trouble->files = true;
	c->trouble->waits = !c->task && !waits_as_task(c);
	return ERR_DENIED;
}

static int hold_lapsed(struct call *c, struct assent *a)
{
	char text[160];

	assent_lapse(c->eng->env.assents, a, a->due_us <= clock_wall_us() ? "it was not used in time" :
		     "who agreed may not any more");
	(void)snprintf(text, sizeof(text), "Approval %" PRId64 " has lapsed; nothing has run.  Call again to ask anew.",
		       a->id);
	return hold(c, NULL, text);
}

/* Its task was made to wait for this one. */
static int check_held(struct call *c, const struct assent *a)
{
	struct assents *all = c->eng->env.assents;

	if (!a)
		return hold(c, NULL, CALL_LAPSED_TEXT);
	if (a->state == ASSENT_REFUSED)
		return hold(c, NULL, a->said ? a->said : "Refused");
	if (a->state == ASSENT_GRANTED && !a->busy && a->due_us > clock_wall_us() && assent_stands(all, a)) {
		c->assent_id = a->id;
		return 0;
	}
	task_look(c->eng->env.tasks, c->task, a->busy || a->state == ASSENT_GRANTED);
	return hold_waiting(c, a);
}

/* Its caller has answered so to the form. */
static int hold_declined(struct call *c, struct assent *a)
{
	call_withdraw(c, a);
	return hold(c, NULL, CALL_WITHDRAWN_TEXT);
}

/* A task waits for the same one: who knows tasks has its handle, others wait, and do not use what is the task's. */
static int hold_beside(struct call *c, const struct assent *a, const char *task)
{
	if (a->state == ASSENT_GRANTED)
		(void)hold(c, a, "The approval of this call is being used by the task that waits for it.  Call again to ask "
			   "anew.");
	else
		(void)hold_waiting(c, a);
	if (!c->modern || !(c->caps & CAP_TASKS))
		return ERR_DENIED;
	c->trouble->waits = false;
	(void)snprintf(c->trouble->task, sizeof(c->trouble->task), "%s", task);         /* fits */
	return ERR_DENIED;
}

int call_check_approval(struct call *c)
{
	const bool may_ask = c->kind == REG_TOOL && !c->completing;
	struct assent_asks asks;
	struct assents *all = c->eng->env.assents;
	const bool held = c->task && c->task->state == TASK_HELD;
	uint8_t digest[32];
	const char *task;
	struct assent *a;

	if (!may_ask || !assent_asks(c->compiled->approve, c->tool->approve, c->args, &asks))
		/* who waits was told that he would be asked for */
		return held ? hold(c, NULL, CALL_LAPSED_TEXT) : c->declined ? hold_declined(c, NULL) : 0;
	if (c->far && !c->answers && !held)     /* it follows what has begun elsewhere, and tells it nothing */
		return 0;
	if (!all)
		return hold(c, NULL, "A person has to agree to this call, and no server runs that could ask one");
	digest_of(c, digest);
	a = assent_find(all, c->who->tenant_id, digest);
	if (held || (c->task && a))
		return check_held(c, a);
	if (c->task)
		return hold_new(c);
	if (c->declined)
		return hold_declined(c, a);
	if (!a)                         /* who has waited already does not ask anew by that */
		return c->form_back || c->hold ? hold(c, NULL, CALL_LAPSED_TEXT) : hold_new(c);
	if (a->state == ASSENT_REFUSED)
		return hold(c, NULL, a->said ? a->said : "Refused");
	if (a->busy && a->state == ASSENT_GRANTED)
		return hold(c, NULL, "The approval of this call is being used by another one.  Call again to ask anew.");
	if (!a->busy && (a->due_us <= clock_wall_us() || (a->state == ASSENT_GRANTED && !assent_stands(all, a))))
		return hold_lapsed(c, a);
	if ((task = call_held_as(c->eng, a)))
		return hold_beside(c, a, task);
	if (a->state != ASSENT_GRANTED)
		return hold_waiting(c, a);
	c->assent_id = a->id;
	return 0;
}

/* --- filing, and use */

/* The caller has its handle; the record says that the call is held. */
static void on_filed(void *arg, int rc, struct task *t)
{
	static const struct audit_receipt none = { .idx = -1 };
	struct call *c = arg;

	if (c->eng->closed)
		return;
	if (rc == 0) {
		struct call_end end = { .call_id = c->id, .task = t, .span = c->span };
		const struct call_out *out = c->out;

		c->out = NULL;
		c->span = NULL;
		if (out)
			out->finish(c->out_arg, &end);
	}
	c->trouble->filed.done(c->trouble->filed.arg, rc, &none);
}

struct filing { struct call *c; struct assent *a; };

static void put_note(const struct filing *f, char note[TASK_NOTE_MAX])
{
	char until[WHEN_SIZE];

	(void)snprintf(note, TASK_NOTE_MAX, "Waiting for approval %" PRId64 " by %.100s until %s", f->a->id, f->a->whom,
		       when(f->a->due_us, until));
}

/* The request and the task that waits for it are one item. */
static int file_as_task(void *arg, const struct audit_event *ev, const struct writer_rows *rows, const void *bytes,
			size_t len, writer_audit_fn *done, void *done_arg)
{
	const struct filing *f = arg;
	struct call *c = f->c;
	const struct reg_task *how = &c->compiled->task;
	const struct assent_asks asks = asks_of(c);
	char note[TASK_NOTE_MAX];
	struct task_new n = {
		.tenant_id = c->who->tenant_id, .principal_id = c->who->principal_id, .prn = c->who->pseudonym,
		.cred = c->who->cred_id ? c->who->accessor : NULL, .tool = c->tool->full_name, .name = c->tool->name,
		.tdef = c->tool->def->digest, .call = c->id, .poll_ms = (uint32_t)how->poll_ms, .state = TASK_HELD,
		.note = note, .also = rows, .bytes = bytes, .nbytes = len,
		.ttl_ms = how->ttl_ms + assent_asks_ms(&asks), .rerun = how->rerun,
	};
	struct audit_event evs[2] = { *ev };
	struct str body = STR_INIT;
	int rc;

	put_note(f, note);
	call_fill_event(c, AUDIT_TASK_CREATE, &evs[1]);
	call_task_body(c, &body);
	n.body = body.p;
	n.len = body.len;
	c->trouble->filed.done = done;
	c->trouble->filed.arg = done_arg;
	rc = task_create(c->eng->env.tasks, &n, evs, NELEMS(evs), on_filed, c);
	str_fini(&body);
	return rc;
}

static void on_parked(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	task_unhold(c->eng->env.tasks, c->task);
	c->trouble->filed.done(c->trouble->filed.arg, rc, receipt);
}

/* A further round: its task waits again, in the same item, with what the round needs in its row. */
static int park_round(void *arg, const struct audit_event *ev, const struct writer_rows *rows, const void *bytes,
		      size_t len, writer_audit_fn *done, void *done_arg)
{
	const struct filing *f = arg;
	struct call *c = f->c;
	char note[TASK_NOTE_MAX];
	const struct task_move m = { .state = TASK_HELD, .round = c->task->round, .call = c->id, .note = note,
				     .also = rows, .bytes = bytes, .nbytes = len };
	int rc;

	put_note(f, note);
	c->trouble->filed.done = done;
	c->trouble->filed.arg = done_arg;
	c->task->held = true;
	rc = task_move(c->eng->env.tasks, c->task, ev, 1, &m, on_parked, c);
	if (rc < 0)
		task_unhold(c->eng->env.tasks, c->task);
	return rc;
}

int call_file(struct call *c, const struct audit_event *ev, writer_audit_fn *done)
{
	const struct assent_asks asks = asks_of(c);
	struct str shown = STR_INIT, rule = STR_INIT;
	struct assent_new n = {
		.tenant_id = c->who->tenant_id, .principal_id = c->who->principal_id, .tenant = c->who->tenant,
		.principal = c->who->name, .prn = c->who->pseudonym, .cred = c->who->cred_id ? c->who->accessor : NULL,
		.tool = c->tool->full_name, .name = c->tool->name, .tdef = c->tool->def->digest };
	struct filing f = { c, NULL };
	const struct assent_carrier by = { c->task ? park_round : waits_as_task(c) ? file_as_task : NULL, &f };
	uint8_t digest[32];
	int rc;

	digest_of(c, digest);
	shown_of(c, &shown);
	assent_asks_text(&asks, &rule);
	n.rule = str_text(&rule);
	n.digest = digest;
	n.shown = str_text(&shown);
	n.shown_len = shown.len;
	rc = assent_file(c->eng->env.assents, &n, ev, by, done, c, &f.a);
	str_fini(&shown);
	str_fini(&rule);
	if (rc == 0)
		(void)hold_waiting(c, f.a);
	return rc;
}

/* The row of its task says so in the same item. */
static int begin_round(void *arg, const struct audit_event *ev, const struct writer_rows *rows, const void *bytes,
		       size_t len, writer_audit_fn *done, void *done_arg)
{
	struct call *c = arg;
	const struct task_move m = { .state = c->far ? TASK_FAR : TASK_WORKING, .round = c->task->round, .call = c->id,
				     .also = rows, .bytes = bytes, .nbytes = len };

	return task_move(c->eng->env.tasks, c->task, ev, 1, &m, done, done_arg);
}

int call_begin_record(struct call *c, const struct audit_event *ev, writer_audit_fn *done)
{
	struct assent *a = c->assent_id ? assent_by_id(c->eng->env.assents, c->assent_id) : NULL;
	const struct assent_carrier by = { c->task ? begin_round : NULL, c };

	if (!c->assent_id)
		return c->task ? begin_round(c, ev, NULL, NULL, 0, done, c) : writer_audit(c->eng->env.writer, ev, done, c);
	/* It has waited for a slot since. */
	if (!a || a->busy || a->state != ASSENT_GRANTED || a->due_us <= clock_wall_us() ||
	    !assent_stands(c->eng->env.assents, a))
		return ERR_CONFLICT;
	if (!c->has_prev)               /* its end says so, too */
		memcpy(c->prev, a->call, sizeof(c->prev));
	c->has_prev = true;
	return assent_use(c->eng->env.assents, a, ev, by, done, c);
}

void call_refuse_begin(struct call *c, int rc)
{
	struct call_trouble *t = call_trouble(c);

	if (rc == ERR_CONFLICT) {
		(void)hold(c, NULL, "The approval of this call is not there any more; nothing has run.  Call again to ask anew.");
		return;
	}
	metric_inc(METRIC_calls_audit_refused);
	t->refusal = REFUSE_AUDIT;
	(void)err_set(&t->err, ERR_AUDIT, "", "the call could not be recorded, nothing has run");
}
