/* Calls that wait for a person, and whose callers wait for them (HA-06): a call rests for a while, with no slot, no
 * room on the disk and no process, and is admitted anew when somebody has agreed.  When the while is over its caller
 * is told, by a form of its client where that shows one, else in words.  A form is a way to wait: what is answered to
 * it is never the yes (HA-08).  held.c says whether a call has to wait; loop thread. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/metric.h"
#include "proto/caps.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

#include "end_int.h"
#include "held_int.h"
#include "task_call_int.h"

enum { PROGRESS_MS = 5000 };

struct call_hold {
	struct list link;               /* call_engine.held, while it rests or is asked; else in none */
	struct call *c;
	int64_t assent_id;
	uint64_t since_us, until_us;    /* of the loop's clock */
	uint64_t due_us;                /* of the approval */
	struct ev_timer *timer;
	unsigned forms;                 /* that a legacy caller was shown */
	bool room, asked, over;         /* it may rest; it is asked now; its answer is on its way */
	bool form;                      /* which is a form */
};

static struct call_hold *hold_of(struct list *link)
{
	return CONTAINER_OF(link, struct call_hold, link);
}

static bool has_room(const struct call *c)
{
	size_t all = 0, of_tenant = 0;

	LIST_FOREACH(link, &c->eng->held) {
		all++;
		of_tenant += hold_of(link)->c->who->tenant_id == c->who->tenant_id;
	}
	if (all < CALL_HELD_MAX && of_tenant < CALL_HELD_TENANT_MAX)
		return true;
	metric_inc(METRIC_calls_not_held);
	return false;
}

static void enter(struct call_hold *h, uint64_t us)
{
	if (list_empty(&h->link)) {
		list_push_back(&h->c->eng->held, &h->link);
		metric_inc(METRIC_calls_held);
	}
	ev_timer_start(h->timer, us);
}

/* The question that is open is taken back. */
static void leave(struct call_hold *h)
{
	struct call *c = h->c;
	struct err err;

	ev_timer_stop(h->timer);
	if (h->asked && c->out)
		(void)c->out->ask(c->out_arg, NULL, &err);
	h->asked = false;
	if (list_empty(&h->link))
		return;
	list_unlink(&h->link);
	metric_dec(METRIC_calls_held);
}

static void drop(struct call *c)
{
	struct call_hold *h = c->hold;

	if (!h)
		return;
	h->asked = false;
	leave(h);
	ev_timer_free(&h->timer);
	free(h);
	c->hold = NULL;
}

static void drop_trouble(struct call *c)
{
	if (c->trouble)
		free(c->trouble->report);
	free(c->trouble);
	c->trouble = NULL;
}

/* --- the form that a client shows while it waits */

static json_t *form_of(const struct call *c)
{
	struct str text = STR_INIT;
	json_t *ret;

	str_printf(&text, "%s  Accept to go on waiting, decline to withdraw the request: this answer is not the approval.",
		   c->trouble->err.msg);
	ret = json_pack("{s:{s:s, s:{s:s, s:s, s:{s:s, s:{}}}}}", CALL_FORM_KEY, "method", "elicitation/create", "params",
			"mode", "form", "message", str_text(&text), "requestedSchema", "type", "object", "properties");
	str_fini(&text);
	return ret;
}

static bool shows_forms(const struct call *c)
{
	return c->out && (c->caps & CAP_ELICITATION_FORM) && c->rev >= REV_R3;
}

/* A modern one that has answered questions of its tool has a state of those to bring back, and is told in words. */
static bool may_end_with_form(const struct call *c)
{
	return c->modern && shows_forms(c) && !c->answers && c->state_bytes.len == 0;
}

static bool may_ask(const struct call *c)
{
	return !c->modern && c->can_ask && shows_forms(c) && c->hold->room && c->hold->forms < CALL_ROUNDS_MAX;
}

static void put_form(struct call *c)
{
	struct call_hold *h = c->hold;
	const struct assent *a = h && h->form ? assent_by_id(c->eng->env.assents, h->assent_id) : NULL;

	if (!a)
		return;                 /* in words */
	c->requests = form_of(c);
	call_seal_form(c, a->call, a->due_us + a->rule->use_ms * 1000);
	drop_trouble(c);
}

static void say_waiting(const struct call *c, struct call_end *end)
{
	if (!c->hold || !c->hold->form)
		return;
	end->approval_id = c->hold->assent_id;
	end->approval_until_us = c->hold->due_us;
}

/* --- the wait is over */

static void reply_later(void *arg)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	put_form(c);
	call_reply(c);
}

/* As c->trouble says, or by a form.  What it was asked for is on record as call.held; of an identical call that it
 * waited is. */
static void end(struct call *c)
{
	leave(c->hold);
	c->hold->over = true;
	c->outcome = call_outcome_of(c->trouble->refusal);
	if (c->has_id)
		ev_defer(c->eng->env.loop, reply_later, c);
	else
		call_deny(c);
}

/* It waits no more, and why. */
static void settle(struct call *c, const char *text)
{
	c->trouble->approval_id = 0;
	(void)err_set(&c->trouble->err, ERR_DENIED, "", "%s", text);
	end(c);
}

/* Somebody has agreed: all questions of admission are asked again, of what its tenant has now. */
static void again(struct call *c)
{
	leave(c->hold);
	drop_trouble(c);
	c->drawn = c->has_id = false;
	reg_release(c->eng->env.registry, &c->snap);
	c->snap = reg_acquire(c->eng->env.registry, c->who->tenant_id);
	c->eng->again(c);
}

static void ask(struct call *c)
{
	struct call_hold *h = c->hold;
	json_t *form = form_of(c);
	struct err err;

	h->forms++;
	h->asked = true;
	enter(h, (uint64_t)CALL_ASK_TIMEOUT_MS * 1000);
	if (c->out->ask(c->out_arg, form, &err) < 0 && c->state == CALL_HELD && !h->over) {
		h->asked = false;
		end(c);
	}
	json_decref(form);
}

static void tell(struct call *c)
{
	c->hold->form = may_end_with_form(c);
	if (may_ask(c))
		ask(c);
	else
		end(c);
}

/* --- it rests */

static void rest(struct call *c)
{
	struct call_hold *h = c->hold;
	const uint64_t now = ev_now_us(c->eng->env.loop);

	if (!h->until_us) {
		h->since_us = now;
		h->until_us = now + (h->room ? (uint64_t)c->eng->env.hold_ms * 1000 : 0);
	}
	if (now >= h->until_us) {
		tell(c);
		return;
	}
	enter(h, h->until_us - now < PROGRESS_MS * 1000 ? h->until_us - now : PROGRESS_MS * 1000);
}

static void on_timer(void *arg)
{
	struct call *c = arg;
	struct call_hold *h = c->hold;

	if (h->asked) {                 /* nobody answers it */
		end(c);
		return;
	}
	if (c->out && !c->modern && ev_now_us(c->eng->env.loop) < h->until_us)
		c->out->progress(c->out_arg, (double)((ev_now_us(c->eng->env.loop) - h->since_us) / 1000000),
				 (double)(c->eng->env.hold_ms / 1000), "Waiting for approval");
	rest(c);
}

/* What it waits for is on record. */
static void rest_from_now(struct call *c)
{
	struct call_hold *h = c->hold;

	h->assent_id = c->trouble->approval_id;
	h->due_us = c->trouble->approval_until_us;
	call_release_holds(c);
	call_set_state(c, CALL_HELD);
	rest(c);
}

static void wait_or_deny(struct call *c)
{
	struct call_hold *h = c->hold;

	if (!c->trouble->waits || c->task || c->tport == AUDIT_ADMIN_SOCKET) {
		call_deny(c);
		return;
	}
	if (!c->kept)
		call_keep_texts(c);
	if (!h) {
		c->hold = h = mem_zalloc(sizeof(*h));
		h->c = c;
		list_init(&h->link);
		h->timer = ev_timer_new(c->eng->env.loop, on_timer, c);
		h->room = has_room(c);
	}
	if (c->trouble->files)
		call_deny(c);           /* then rest_from_now() */
	else
		rest_from_now(c);
}

/* --- what comes meanwhile */

static void look(struct call *c)
{
	struct assents *all = c->eng->env.assents;
	const struct assent *a = assent_by_id(all, c->hold->assent_id);

	if (!a)
		settle(c, CALL_LAPSED_TEXT);
	else if (a->state == ASSENT_REFUSED)
		settle(c, a->said ? a->said : "Refused");
	else if (a->state == ASSENT_GRANTED && a->busy)
		settle(c, "The approval of this call is being used by another one.  Call again to ask anew.");
	else if (a->state == ASSENT_GRANTED)
		again(c);
}

static void look_at_holds(void *arg)
{
	struct call_engine *eng = arg;
	struct list due;

	list_init(&due);
	LIST_FOREACH_SAFE(link, tmp, &eng->held) {
		list_unlink(link);
		list_push_back(&due, link);
	}
	while (!list_empty(&due)) {
		struct list *link = due.next;

		list_unlink(link);
		list_push_back(&eng->held, link);
		look(hold_of(link)->c);
	}
}

/* Nobody else of the same principal waits for it. */
static bool is_alone(const struct call *c, const struct assent *a)
{
	LIST_FOREACH(link, &c->eng->held)
		if (hold_of(link)->assent_id == a->id && hold_of(link)->c != c)
			return false;
	return !call_held_as(c->eng, a);
}

void call_withdraw(struct call *c, struct assent *a)
{
	if (a && assent_is_open((int)a->state) && !a->busy && is_alone(c, a))
		assent_lapse(c->eng->env.assents, a, "its caller does not wait any more");
}

static void form_answered(struct call *c, json_t *answers)
{
	struct call_hold *h = c->hold;
	const bool declined = call_form_declined(answers);

	json_decref(answers);
	if (!h->asked || h->over)
		return;
	h->asked = false;
	if (declined) {
		call_withdraw(c, assent_by_id(c->eng->env.assents, h->assent_id));
		settle(c, CALL_WITHDRAWN_TEXT);
		return;
	}
	h->since_us = ev_now_us(c->eng->env.loop);
	h->until_us = h->since_us + (uint64_t)c->eng->env.hold_ms * 1000;
	rest(c);
}

static void cancel(struct call *c, enum cancel_why why)
{
	struct call_hold *h = c->hold;
	struct call_trouble *t = c->trouble;

	if (h->over)
		return;
	/* The request stays: whoever comes back, to this server or the next one, joins it. */
	if (why != CANCEL_SHUTDOWN && !(why == CANCEL_BY_CLIENT && h->asked)) {
		c->cancelled = true;
		c->why = why;
		call_say_cancelled(c);
		t->refusal = REFUSE_CANCELLED;
		t->approval_id = 0;
		memcpy(t->rule, "approval/cancelled", sizeof("approval/cancelled"));
	}
	end(c);
}

void call_engine_drain(struct call_engine *eng)
{
	while (!list_empty(&eng->held))
		cancel(hold_of(eng->held.next)->c, CANCEL_SHUTDOWN);
}

/* --- an identical call beside a task that waits */

static bool joins(const struct call *c, struct call_end *ret)
{
	const struct call_trouble *t = c->trouble;

	ret->task = *t->task && c->eng->env.tasks ? task_by_id(c->eng->env.tasks, t->task) : NULL;
	return ret->task != NULL;
}

const struct call_holding call_holding = { wait_or_deny, rest_from_now, put_form, say_waiting, form_answered, cancel,
	drop, look_at_holds, joins };
