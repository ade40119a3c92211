/* Tasks that are parked (TK-33): a run that asks has ended, and its call is gone; what another round needs is sealed in
 * the row.  Answers come by call_task_answer(); a task that waits for a round of its own (TASK_QUEUED: all is answered,
 * a person has said yes, a crash cut its run off) is admitted as every call is, all questions of admission asked again,
 * also behind a restart.  Loop thread. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "assent/assent.h"
#include "base/id.h"
#include "base/log.h"
#include "base/pack.h"
#include "json/json.h"
#include "proto/encode.h"
#include "proto/errmap.h"
#include "tenant/arg_rule.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"

#include "task_call_int.h"

enum { BODY_FORM = 2, BODY_FORM_FIRST = 1, TURN = 16, SOON_MS = 10, LATER_MS = 1000, WIRE_KEY_MAX = 16 };

/* --- what another round needs, as bytes */

struct round {
	uint64_t rev, caps, log_level, tport, authn;
	char name[64], accessor[16];    /* of its principal, and of the key that it showed, or "" */
	bool limited;                   /* scopes say what it may */
	bool far;                       /* state takes up what goes on elsewhere; the first form does not say so */
	struct str scopes, rules, args, state;
	json_t *requests, *answers;     /* by the handler's keys */
};

static void round_fini(struct round *r)
{
	str_fini(&r->scopes);
	str_fini(&r->rules);
	str_fini(&r->args);
	str_fini(&r->state);
	json_decref(r->requests);
	json_decref(r->answers);
}

/* Whoever calls in it. */
static void set_who(struct round *r, const struct principal *who)
{
	r->authn = (uint64_t)who->authn;
	memcpy(r->name, who->name, sizeof(r->name));
	memset(r->accessor, 0, sizeof(r->accessor));
	if (who->cred_id)
		memcpy(r->accessor, who->accessor, sizeof(r->accessor));
	r->limited = who->scopes != NULL;
	str_reset(&r->scopes);
	str_reset(&r->rules);
	if (who->scopes)
		scopes_print(who->scopes, &r->scopes);
	arg_rules_print(who->rules, &r->rules);
}

static void pack_json(struct str *to, const json_t *v)
{
	struct str text = STR_INIT;

	if (v)
		jx_write(v, &text);
	pack_text(to, str_text(&text), text.len);
	str_fini(&text);
}

static void round_pack(const struct round *r, struct str *to)
{
	pack_u64(to, BODY_FORM);
	pack_u64(to, r->rev);
	pack_u64(to, r->caps);
	pack_u64(to, r->log_level);
	pack_u64(to, r->tport);
	pack_u64(to, r->authn);
	pack_text(to, r->name, strlen(r->name));
	pack_text(to, r->accessor, strlen(r->accessor));
	pack_u64(to, r->limited);
	pack_text(to, str_text(&r->scopes), r->scopes.len);
	pack_text(to, str_text(&r->rules), r->rules.len);
	pack_text(to, str_text(&r->args), r->args.len);
	pack_text(to, str_text(&r->state), r->state.len);
	pack_json(to, r->requests);
	pack_json(to, r->answers);
	pack_u64(to, r->far);
}

static void unpack_str(struct unpack *in, struct str *ret)
{
	size_t len;
	const char *p = unpack_text(in, &len);

	str_init(ret, 0);
	if (!in->bad)
		str_put(ret, p, len);
}

/* NULL: there is none. */
static json_t *unpack_json(struct unpack *in)
{
	size_t len;
	const char *p = unpack_text(in, &len);
	json_t *v = NULL;

	if (!in->bad && len > 0 && jx_parse(p, len, &v, NULL) < 0)
		in->bad = true;
	return v;
}

static int round_unpack(const char *text, size_t len, struct round *r)
{
	struct unpack in = { (const uint8_t *)text, len, false };
	const uint64_t form = unpack_u64(&in);

	*r = (struct round){ .limited = false };
	if (form != BODY_FORM && form != BODY_FORM_FIRST)
		in.bad = true;
	r->rev = unpack_u64(&in);
	r->caps = unpack_u64(&in);
	r->log_level = unpack_u64(&in);
	r->tport = unpack_u64(&in);
	r->authn = unpack_u64(&in);
	unpack_name(&in, r->name, sizeof(r->name));
	unpack_name(&in, r->accessor, sizeof(r->accessor));
	r->limited = unpack_bool(&in);
	unpack_str(&in, &r->scopes);
	unpack_str(&in, &r->rules);
	unpack_str(&in, &r->args);
	unpack_str(&in, &r->state);
	r->requests = unpack_json(&in);
	r->answers = unpack_json(&in);
	r->far = form != BODY_FORM_FIRST && unpack_bool(&in);
	if (!in.bad && in.left == 0 && r->rev < REV_COUNT)
		return 0;
	round_fini(r);
	return ERR_CORRUPT;
}

void call_task_body(const struct call *c, struct str *ret)
{
	struct round r = { .rev = c->rev, .caps = c->caps, .log_level = (uint64_t)c->log_level,
			   .tport = (uint64_t)c->tport, .requests = c->requests,
			   .answers = c->requests ? NULL : c->answers, .far = c->far };

	set_who(&r, c->who);
	str_put(&r.args, c->args_text, c->args_len);
	str_put(&r.state, c->state_bytes.p, c->state_bytes.len);
	round_pack(&r, ret);
	r.requests = r.answers = NULL;          /* the call's */
	round_fini(&r);
}

/* --- a round begins */

static void look_in(struct call_engine *eng, uint64_t ms)
{
	if (!eng->closed && !ev_timer_armed(eng->rounds))
		ev_timer_start(eng->rounds, ms * 1000);
}

void call_task_later(struct call_engine *eng)
{
	ev_timer_stop(eng->rounds);
	look_in(eng, LATER_MS);
}


struct failing { struct call_engine *eng; char id[TASK_ID_LEN + 1]; };

static void on_failed(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct failing f = *(struct failing *)arg;
	struct task *t = f.eng->closed ? NULL : task_by_id(f.eng->env.tasks, f.id);

	(void)receipt;
	free(arg);
	if (t)
		task_unhold(f.eng->env.tasks, t);
	if (rc < 0 && !f.eng->closed)
		call_task_later(f.eng);
}

/* It can only fail. */
static void lose(struct call_engine *eng, struct task *t, const char *why)
{
	struct failing *f = mem_zalloc(sizeof(*f));
	struct task_answer a = { .state = TASK_FAILED };
	struct str text = STR_INIT;
	struct audit_event ev;
	struct rpc_error e;
	char id[ID_TEXT_SIZE];

	log_warn(NULL, "a task cannot go on task=%s error=%s", t->id, why);
	f->eng = eng;
	memcpy(f->id, t->id, sizeof(f->id));
	audit_event_init(&ev, AUDIT_TASK_END, t->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.prn = t->of->prn;
	ev.cred = t->of->cred;
	ev.tool = t->of->tool;
	ev.has_prev = true;
	memcpy(ev.prev, t->call, sizeof(ev.prev));
	ev.detail = why;
	rpc_error_init(&e, FAULT_DENIED, "%s", why);
	rpc_error_text(&e, "callId", id_format(t->call, id));
	encode_error_object(&text, &e);
	rpc_error_fini(&e);
	a.text = text.p;
	a.len = text.len;
	t->held = true;
	if (task_end(eng->env.tasks, t, &ev, 1, &a, on_failed, f) < 0)
		on_failed(f, ERR_AUDIT, NULL);
	str_fini(&text);
}

/* who: taken. */
static void admit(struct call_engine *eng, struct task *t, struct round *r, struct principal *who)
{
	struct call_req req = {
		.who = who, .kind = REG_TOOL, .tool = t->of->name, .tool_len = strlen(t->of->name),
		.args_text = str_text(&r->args), .args_len = r->args.len, .caps = (uint32_t)r->caps,
		.log_level = (int)r->log_level, .rev = (enum rev)r->rev, .tport = (int)r->tport,
		.task = t, .state = r->state.p, .state_len = r->state.len, .far = r->far,
	};

	if (r->args.len > 0 && jx_parse(r->args.p, r->args.len, &req.args, NULL) < 0) {
		principal_unref(&who);
		lose(eng, t, "its arguments cannot be read any more");
		return;
	}
	req.answers = json_incref(r->answers);
	req.snap = reg_acquire(eng->env.registry, who->tenant_id);
	eng->start_round(eng, &req);
	principal_unref(&who);
}

/* Nobody calls: scopes and rules are those of then. */
static int who_again(struct call_engine *eng, const struct task *t, const struct round *r, struct principal **ret,
		     struct err *err)
{
	struct principal_again was = { .tenant_id = t->tenant_id, .principal_id = t->of->principal_id, .name = r->name,
				       .accessor = r->accessor, .authn = (int)r->authn };
	int rc = r->limited ? scopes_parse(str_text(&r->scopes), r->scopes.len, &was.scopes, err) : 0;

	if (rc == 0 && r->rules.len > 0)
		rc = arg_rules_parse(r->rules.p, r->rules.len, &was.rules, err);
	if (rc < 0) {
		scopes_unref(&was.scopes);
		return rc;
	}
	return principal_again(eng->env.tenants, &was, ret, err);
}

struct turn { struct call_engine *eng; char id[TASK_ID_LEN + 1]; };

static void on_turn_body(void *arg, int rc, const char *text, size_t len)
{
	struct turn turn = *(struct turn *)arg;
	struct task *t = task_by_id(turn.eng->env.tasks, turn.id);
	struct principal *who = NULL;
	struct round r;
	struct err err = { .msg = "what it needs is not there any more" };

	free(arg);
	if (turn.eng->closed || !t)
		return;
	t->held = false;                /* waiters are called below: it runs by then, or has failed */
	if (rc == ERR_BUSY || (t->state != TASK_QUEUED && t->state != TASK_HELD)) {
		look_in(turn.eng, LATER_MS);
	} else if (rc < 0 || !text || round_unpack(text, len, &r) < 0) {
		lose(turn.eng, t, err.msg);
	} else {
		if (who_again(turn.eng, t, &r, &who, &err) == 0)
			admit(turn.eng, t, &r, who);
		else
			lose(turn.eng, t, err.msg);
		round_fini(&r);
	}
	t = task_by_id(turn.eng->env.tasks, turn.id);
	if (t && !t->held)
		task_unhold(turn.eng->env.tasks, t);
}

void call_task_turns(void *arg)
{
	struct call_engine *eng = arg;
	struct tasks *tasks = eng->env.tasks;
	size_t n = tasks && !eng->stopping ? tasks_queued(tasks) : 0;

	for (size_t i = 0; i < n && i < TURN; i++) {
		struct task *t = tasks_next(tasks);
		struct turn *turn;

		if (t->run || !task_hold(t))
			continue;
		turn = mem_zalloc(sizeof(*turn));
		turn->eng = eng;
		memcpy(turn->id, t->id, sizeof(turn->id));
		if (task_body(tasks, t, on_turn_body, turn) < 0) {
			free(turn);
			task_unhold(tasks, t);
		}
	}
	if (n > 0)
		look_in(eng, n > TURN ? SOON_MS : LATER_MS);
}

/* --- what waits for a person */

struct looking { const struct assent *a; struct task *found; };

static void is_it(void *arg, struct task *t)
{
	struct looking *l = arg;

	if (t->state == TASK_HELD && t->tenant_id == l->a->tenant_id && memcmp(t->call, l->a->call, sizeof(t->call)) == 0)
		l->found = t;
}

static struct task *held_by(struct call_engine *eng, const struct assent *a)
{
	struct looking l = { a, NULL };

	if (eng->env.tasks)
		tasks_each(eng->env.tasks, is_it, &l);
	return l.found;
}

const char *call_held_as(struct call_engine *eng, const struct assent *a)
{
	const struct task *t = held_by(eng, a);

	return t ? t->id : NULL;
}

void call_look_at_held(struct call_engine *eng, const struct assent *a)
{
	struct task *t = held_by(eng, a);

	if (!list_empty(&eng->held))
		ev_timer_start(eng->holds, 0);
	if (!t)
		return;
	task_look(eng->env.tasks, t, true);
	ev_timer_stop(eng->rounds);
	look_in(eng, 0);
}

static void withdraw(struct call_engine *eng, const struct task *t)
{
	struct assent *a = t->state == TASK_HELD && eng->env.assents ?
		assent_of_call(eng->env.assents, t->tenant_id, t->call) : NULL;

	if (a)
		assent_lapse(eng->env.assents, a, "its caller does not wait any more");
}

/* --- cancel */

/* One that may be worked on elsewhere: by whom, and how that is told. */
struct leaving {
	struct call_engine *eng;
	char id[TASK_ID_LEN + 1];
	struct audit_event ev;
	task_done_fn *done;
	void *arg;
	char principal[64];
	struct str state;
	bool far;
};

/* NULL: what it does is done here, or its tool is not there any more. */
static const struct reg_compiled *handler_of(struct call_engine *eng, struct reg_snapshot *snap, const struct task *t)
{
	const struct reg_tool *tool = snap ? reg_find(snap, REG_TOOL, t->of->name, strlen(t->of->name)) : NULL;
	const struct reg_compiled *compiled = NULL;

	if (!tool || reg_compile(eng->env.registry, tool->def, &compiled, NULL) < 0)
		return NULL;
	return compiled->ops->leave ? compiled : NULL;
}

static bool may_be_far(struct call_engine *eng, const struct task *t)
{
	struct reg_snapshot *snap = NULL;
	bool ret;

	if (t->state != TASK_INPUT && t->state != TASK_QUEUED)
		return false;
	snap = reg_acquire(eng->env.registry, t->tenant_id);
	ret = handler_of(eng, snap, t) != NULL;
	reg_release(eng->env.registry, &snap);
	return ret;
}

static void leave(const struct leaving *l, const struct task *t)
{
	struct call_engine *eng = l->eng;
	const struct backend_env env = call_backend_env(eng);
	struct reg_snapshot *snap = reg_acquire(eng->env.registry, t->tenant_id);
	const struct reg_compiled *compiled = handler_of(eng, snap, t);
	const struct tenant *tenant = tenant_by_id(eng->env.tenants, t->tenant_id);
	const struct backend_leave what = { .plan = compiled ? compiled->plan : NULL, .state = l->state.p,
		.state_len = l->state.len, .tenant_id = t->tenant_id, .tenant = tenant ? tenant->name : "",
		.principal = l->principal, .recorded = true };

	if (compiled && tenant)
		compiled->ops->leave(&env, &what);
	reg_release(eng->env.registry, &snap);
}

static void leaving_end(struct leaving *l, int rc)
{
	l->done(l->arg, rc);
	str_fini(&l->state);
	free(l);
}

static void on_left(void *arg, int rc)
{
	struct leaving *l = arg;
	const struct task *t = l->eng->closed ? NULL : task_by_id(l->eng->env.tasks, l->id);

	if (rc == 0 && t && l->far)
		leave(l, t);
	leaving_end(l, rc);
}

static void on_leaving_body(void *arg, int rc, const char *text, size_t len)
{
	struct leaving *l = arg;
	struct task *t = task_by_id(l->eng->env.tasks, l->id);
	struct round r;

	if (rc == 0 && text && round_unpack(text, len, &r) == 0) {
		l->far = r.far;
		memcpy(l->principal, r.name, sizeof(l->principal));
		str_put(&l->state, r.state.p, r.state.len);
		round_fini(&r);
	}
	rc = t ? task_cancel(l->eng->env.tasks, t, &l->ev, on_left, l) : 1;
	if (rc != 0)
		leaving_end(l, rc < 0 ? rc : 0);
}

int call_task_cancel(struct call_engine *eng, struct task *t, const struct audit_event *ev, task_done_fn *done,
		     void *arg)
{
	struct leaving *l;

	withdraw(eng, t);
	if (!may_be_far(eng, t))
		return task_cancel(eng->env.tasks, t, ev, done, arg);
	l = mem_zalloc(sizeof(*l));
	*l = (struct leaving){ .eng = eng, .ev = *ev, .done = done, .arg = arg };
	memcpy(l->id, t->id, sizeof(l->id));
	if (task_body(eng->env.tasks, t, on_leaving_body, l) == 0)
		return 0;
	free(l);
	return task_cancel(eng->env.tasks, t, ev, done, arg);
}

/* --- questions and answers */

/* The names on the wire: a handler may use its keys again, what the client sees is never used twice (TK-08). */
static json_t *on_wire(const struct task *t, const json_t *requests)
{
	json_t *ret = json_object(), *question;
	struct str name = STR_INIT;
	const char *key;

	json_object_foreach((json_t *)(uintptr_t)requests, key, question) {
		str_reset(&name);
		str_printf(&name, "%u:%s", t->round, key);
		json_object_set_new(ret, str_text(&name), json_incref(question));
	}
	str_fini(&name);
	return ret;
}

struct questions {
	struct call_engine *eng;
	char id[TASK_ID_LEN + 1];
	unsigned round;
	task_result_fn *done;
	void *arg;
};

static void on_questions(void *arg, int rc, const char *text, size_t len)
{
	struct questions q = *(struct questions *)arg;
	struct task *t = task_by_id(q.eng->env.tasks, q.id);
	struct str out = STR_INIT;
	json_t *open;
	struct round r;

	free(arg);
	if (rc == 0 && t && t->state == TASK_INPUT && t->round == q.round) {
		rc = text ? round_unpack(text, len, &r) : ERR_NOT_FOUND;
		if (rc == 0) {
			open = on_wire(t, r.requests);
			jx_write(open, &out);
			json_decref(open);
			round_fini(&r);
		}
	}
	q.done(q.arg, rc < 0 && rc != ERR_BUSY ? ERR_NOT_FOUND : rc, out.len ? out.p : NULL, out.len);
	str_fini(&out);
}

int call_task_questions(struct call_engine *eng, struct task *t, task_result_fn *done, void *arg)
{
	struct questions *q = mem_zalloc(sizeof(*q));
	int rc;

	*q = (struct questions){ .eng = eng, .round = t->round, .done = done, .arg = arg };
	memcpy(q->id, t->id, sizeof(q->id));
	rc = task_body(eng->env.tasks, t, on_questions, q);
	if (rc < 0)
		free(q);
	return rc;
}

struct answer {
	struct call_engine *eng;
	char id[TASK_ID_LEN + 1];
	struct principal *who;
	json_t *answers;
	struct audit_event ev;
	struct round r;
	bool read;                      /* r is there */
	char detail[48];
	task_done_fn *done;
	void *arg;
};

static void answer_end(struct answer *a, int rc)
{
	principal_unref(&a->who);
	json_decref(a->answers);
	if (a->read)
		round_fini(&a->r);
	a->done(a->arg, rc);
	free(a);
}

/* Somebody else's turn. */
static void answer_release(struct answer *a, struct task *t, int rc)
{
	struct tasks *tasks = a->eng->env.tasks;

	answer_end(a, rc);
	task_unhold(tasks, t);
}

static void on_answered(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct answer *a = arg;
	struct task *t = task_by_id(a->eng->env.tasks, a->id);
	struct call_engine *eng = a->eng;

	(void)receipt;
	if (!t) {
		answer_end(a, rc);
		return;
	}
	t->held = false;
	CRASH_AT("task.answered");
	if (rc == 0 && t->state == TASK_QUEUED && !eng->stopping && !eng->closed) {
		struct principal *who = a->who;

		principal_ref(who);
		admit(eng, t, &a->r, who);
		t = task_by_id(eng->env.tasks, a->id);
	}
	if (t && !t->held)
		answer_release(a, t, rc == ERR_CONFLICT ? 0 : rc);
	else
		answer_end(a, rc == ERR_CONFLICT ? 0 : rc);
}

/* The handler's key of a name on the wire, if that is of this round; else NULL. */
static const char *key_of(const struct task *t, const char *name)
{
	char head[WIRE_KEY_MAX];
	int len = snprintf(head, sizeof(head), "%u:", t->round);        /* fits */

	return strncmp(name, head, (size_t)len) == 0 ? name + len : NULL;
}

/* How many of them are for questions that are open; those are not any more. */
static size_t take_answers(struct answer *a, const struct task *t)
{
	const char *name;
	json_t *value;
	size_t n = 0;

	if (!a->r.answers)
		a->r.answers = json_object();
	json_object_foreach(a->answers, name, value) {
		const char *key = key_of(t, name);

		if (!key || !json_object_get(a->r.requests, key))
			continue;
		json_object_set_new(a->r.answers, key, json_incref(value));
		(void)json_object_del(a->r.requests, key);      /* it is there */
		n++;
	}
	return n;
}

static size_t bytes_of(const json_t *v)
{
	struct str text = STR_INIT;
	size_t n;

	jx_write(v, &text);
	n = text.len;
	str_fini(&text);
	return n;
}

static int keep_answers(struct answer *a, struct task *t)
{
	const size_t n = take_answers(a, t), left = json_object_size(a->r.requests);
	struct task_move m = { .state = left ? TASK_INPUT : TASK_QUEUED, .round = t->round };
	struct str body = STR_INIT;
	int rc;

	if (n == 0)
		return 1;
	if (bytes_of(a->r.answers) > CALL_TASK_ANSWERS_MAX)
		return ERR_LIMIT;
	set_who(&a->r, a->who);
	round_pack(&a->r, &body);
	m.body = body.p;
	m.len = body.len;
	a->ev.n_req = (int64_t)bytes_of(a->answers);
	(void)snprintf(a->detail, sizeof(a->detail), "%zu answered, %zu open", n, left);        /* fits */
	a->ev.detail = a->detail;
	rc = task_move(a->eng->env.tasks, t, &a->ev, 1, &m, on_answered, a);
	str_fini(&body);
	return rc;
}

static void on_answer_body(void *arg, int rc, const char *text, size_t len)
{
	struct answer *a = arg;
	struct task *t = task_by_id(a->eng->env.tasks, a->id);

	if (!t) {
		answer_end(a, ERR_NOT_FOUND);
		return;
	}
	if (rc == 0 && t->state == TASK_INPUT) {
		rc = text && round_unpack(text, len, &a->r) == 0 ? 0 : ERR_NOT_FOUND;
		a->read = rc == 0;
		if (rc == 0)
			rc = keep_answers(a, t);
		if (rc == 0)
			return;
	}
	answer_release(a, t, rc > 0 ? 0 : rc);
}

static void answer_now(void *arg)
{
	struct answer *a = arg;
	struct task *t = task_by_id(a->eng->env.tasks, a->id);
	int rc = 0;

	if (!t || t->state != TASK_INPUT) {     /* TK-09 */
		answer_end(a, t ? 0 : ERR_NOT_FOUND);
		return;
	}
	if (!task_hold(t)) {
		rc = task_wait(a->eng->env.tasks, t, answer_now, a);
		if (rc < 0)
			answer_end(a, rc);
		return;
	}
	rc = task_body(a->eng->env.tasks, t, on_answer_body, a);
	if (rc < 0)
		answer_release(a, t, rc);
}

void call_task_answer(struct call_engine *eng, struct task *t, struct principal *who, json_t *answers,
		      const struct audit_event *ev, task_done_fn *done, void *arg)
{
	struct answer *a = mem_zalloc(sizeof(*a));

	*a = (struct answer){ .eng = eng, .who = who, .answers = answers, .ev = *ev, .done = done, .arg = arg };
	memcpy(a->id, t->id, sizeof(a->id));
	principal_ref(who);
	answer_now(a);
}

/* --- whoever may not go on any more */

struct ending { struct call_engine *eng; const struct call_where *where; size_t n; };

static void ended(void *arg, int rc)
{
	struct call_engine *eng = arg;

	if (rc < 0)
		log_err(NULL, "a task that is parked could not be cancelled");
	(void)eng;
}

static bool concerns(const struct call_engine *eng, const struct call_where *w, const struct task *t)
{
	int64_t tenant_id, principal_id, cred_id = 0;

	if (w->cred_id && t->of->cred)
		cred_id = tenant_key_id(eng->env.tenants, t->of->cred, &tenant_id, &principal_id);
	return (!w->tenant_id || t->tenant_id == w->tenant_id) &&
	       (!w->principal_id || t->of->principal_id == w->principal_id) &&
	       (!w->cred_id || cred_id == w->cred_id) &&
	       (!w->tool || strcmp(t->of->tool, w->tool) == 0);
}

static void end_one(void *arg, struct task *t)
{
	struct ending *e = arg;
	struct audit_event ev;

	if (!task_is_parked(t->state) || t->run || !concerns(e->eng, e->where, t))
		return;
	audit_event_init(&ev, AUDIT_TASK_CANCEL, t->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.prn = t->of->prn;
	ev.tool = t->of->tool;
	ev.has_prev = true;
	memcpy(ev.prev, t->call, sizeof(ev.prev));
	e->n += call_task_cancel(e->eng, t, &ev, ended, e->eng) == 0;
}

size_t call_task_cancel_where(struct call_engine *eng, const struct call_where *where)
{
	struct ending e = { eng, where, 0 };

	if (eng->env.tasks)
		tasks_each(eng->env.tasks, end_one, &e);
	return e.n;
}
