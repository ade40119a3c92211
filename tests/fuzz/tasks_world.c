/* Rows, the writer and rounds of the tasks behind f_rpc: what the room of tasks and the parked ones of the call engine
 * stand on. */

#include "config.h"

#include <string.h>

#include "assent/assent.h"
#include "base/pack.h"
#include "db/db.h"
#include "tenant/arg_rule.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "../../src/call/task_call_int.h"
#include "../../src/task/task_int.h"
#include "fuzz.h"
#include "tasks_world.h"

#define TTL_US UINT64_C(86400000000)
#define DEADLINE_MS 10000
enum { ROUNDS = 3, FORM = 2 };

/* Of the caller: tenant 1, principal 1. */
static const struct { const char *id; enum task_state state; int64_t tenant_id, principal_id; const char *body, *result; } given[] = {
	{ "workingAAAAAAAAAAAAAAA", TASK_WORKING, 1, 1, NULL, NULL },
	{ "inputAAAAAAAAAAAAAAAAA", TASK_INPUT, 1, 1, "bot", NULL },
	{ "completedAAAAAAAAAAAAA", TASK_COMPLETED, 1, 1, NULL, "{\"resultType\":\"complete\",\"content\":[]}" },
	{ "failedAAAAAAAAAAAAAAAA", TASK_FAILED, 1, 1, NULL, "{\"code\":-32603,\"message\":\"no\"}" },
	{ "cutAAAAAAAAAAAAAAAAAAA", TASK_FAILED, 1, 1, NULL, NULL },
	{ "cancelledAAAAAAAAAAAAA", TASK_CANCELLED, 1, 1, NULL, NULL },
	{ "heldAAAAAAAAAAAAAAAAAA", TASK_HELD, 1, 1, "bot", NULL },
	{ "queuedAAAAAAAAAAAAAAAA", TASK_QUEUED, 1, 1, "bot", NULL },
	{ "queuedBBBBBBBBBBBBBBBB", TASK_QUEUED, 1, 1, "gone", NULL },         /* its principal may not any more */
	{ "brokenAAAAAAAAAAAAAAAA", TASK_INPUT, 1, 1, NULL, NULL },           /* nothing can be opened of it */
	{ "farAAAAAAAAAAAAAAAAAAA", TASK_FAR, 1, 1, "bot", NULL },
	{ "otherAAAAAAAAAAAAAAAAA", TASK_INPUT, 1, 2, WORLD_FOREIGN, NULL },
	{ "otherBBBBBBBBBBBBBBBBB", TASK_COMPLETED, 1, 2, NULL, "{\"x\":\"" WORLD_FOREIGN "\"}" },
	{ "strangerAAAAAAAAAAAAAA", TASK_INPUT, 2, 1, WORLD_FOREIGN, NULL },
	{ "strangerBBBBBBBBBBBBBB", TASK_WORKING, 2, 1, NULL, NULL },
};

struct row { struct str body, result; unsigned changes; bool over; };
struct item {                           /* what the writer has */
	struct world *w;
	const struct writer_rows *rows;
	writer_audit_fn *done;
	void *arg, *bytes;
	size_t len;
	int rc;
};
struct round_run { struct list link; struct world *w; char id[TASK_ID_LEN + 1]; bool asks, stopped; };

struct world {
	struct ev_loop *loop;
	struct principal *who;
	struct call_engine eng;
	struct tasks *tasks;
	struct row row[NELEMS(given)];
	size_t items, ordinal;          /* with the writer; how many it has had */
	bool full;
};
static struct world *world;             /* of this input: what the doubles work on */

static struct row *row_of(const char *id, size_t *ret_i)
{
	for (size_t i = 0; i < NELEMS(given); i++) {
		if (strcmp(given[i].id, id) == 0) {
			if (ret_i)
				*ret_i = i;
			return &world->row[i];
		}
	}
	FUZZ_CHECK(!"a task that nobody made");
	return NULL;
}

/* --- rows */

/* Nothing of somebody else's changes, and nothing that is over. */
static struct row *changed(const char *id, int64_t tenant_id)
{
	size_t i;
	struct row *row = row_of(id, &i);

	FUZZ_CHECK(given[i].tenant_id == 1 && given[i].principal_id == 1 && tenant_id == 1);
	FUZZ_CHECK(!row->over);
	row->changes++;
	return row;
}

static int add(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err)
{
	FUZZ_CHECK(!"no task is made here");
	return 0;
}

static int move(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct task_set *m = bytes;
	struct row *row = changed(m->id, m->tenant_id);

	FUZZ_CHECK(!task_is_over(m->state));
	if (m->has_body) {
		str_reset(&row->body);
		str_put(&row->body, (const char *)(m + 1) + m->more.nbytes, m->more.len);
	}
	return 0;
}

static int end(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct task_finish *f = bytes;
	struct row *row = changed(f->id, f->tenant_id);

	FUZZ_CHECK(task_is_over(f->state));
	row->over = true;
	str_reset(&row->result);
	str_put(&row->result, f->text, f->len);
	return 0;
}

const struct writer_rows task_rows[] = {
	[TASK_ROWS_ADD] = { "task", add },
	[TASK_ROWS_MOVE] = { "state", move },
	[TASK_ROWS_END] = { "end", end },
};

const char *task_status(enum task_state state)
{
	return state == TASK_INPUT ? "input_required" : state == TASK_COMPLETED ? "completed" : state == TASK_FAILED ? "failed" :
		state == TASK_CANCELLED ? "cancelled" : "working";
}

void task_readers_fini(struct task_readers *readers)
{
}

int task_unseal(struct task_readers *readers, const struct keyfile_place *place, const char *id, int64_t tenant_id, bool body,
		struct str *ret, struct err *err)
{
	size_t i;
	const struct row *row = row_of(id, &i);
	const struct str *text = body ? &row->body : &row->result;

	FUZZ_CHECK(tenant_id == 1 && given[i].principal_id == 1);
	if (body && text->len == 0)
		return err_set(err, ERR_NOT_FOUND, id, "it cannot be opened");
	str_put(ret, str_text(text), text->len);
	return text->len > 0;
}

int task_expire(struct task_expiry *x, struct db *db, struct audit_logs *logs, struct err *err)
{
	return ERR_AUDIT;
}

/* --- the writer */

static void item_done(void *arg)
{
	struct item *it = arg;

	if (it->rc == 0 && it->rows)
		it->rc = it->rows->run(it->bytes, it->len, NULL, NULL, NULL);
	it->w->items--;
	if (it->done)
		it->done(it->arg, it->rc, it->rc == 0 ? &(struct audit_receipt){ .idx = 1 } : NULL);
	free(it->bytes);
	free(it);
}

int writer_change(struct writer *w, const struct audit_event *ev, size_t n, const struct writer_rows *rows, const void *bytes,
		  size_t len, writer_audit_fn *done, void *arg)
{
	struct item *it;

	FUZZ_CHECK(n > 0 && n <= WRITER_CHANGE_EVENTS);
	for (size_t i = 0; i < n; i++)
		FUZZ_CHECK(ev[i].tenant_id == 1);
	world->ordinal++;
	if (world->full && world->ordinal % 4 == 1)
		return ERR_AUDIT;
	it = mem_zalloc(sizeof(*it));
	*it = (struct item){ .w = world, .rows = rows, .done = done, .arg = arg, .bytes = bytes ? mem_dup(bytes, len) : NULL, .len = len,
			     .rc = world->full && world->ordinal % 4 == 3 ? ERR_AUDIT : 0 };
	world->items++;
	ev_defer(world->loop, item_done, it);
	return 0;
}

int writer_audit(struct writer *w, const struct audit_event *ev, writer_audit_fn *done, void *arg)
{
	return ev->tenant_id == 1 ? writer_change(w, ev, 1, NULL, NULL, 0, done, arg) : 0;
}

/* A reader's work: on the loop, so that each input is one way through. */
struct work { struct world *w; ev_fn *body, *done; void *arg; };

static void work_done(void *arg)
{
	struct work *k = arg;

	k->w->items--;
	k->done(k->arg);
	free(k);
}

static void work_runs(void *arg)
{
	struct work *k = arg;

	k->body(k->arg);
	ev_defer(k->w->loop, work_done, k);
}

int __wrap_ev_work(struct ev_loop *loop, enum ev_lane lane, ev_fn *body, ev_fn *done, void *arg);
int __wrap_ev_work(struct ev_loop *loop, enum ev_lane lane, ev_fn *body, ev_fn *done, void *arg)
{
	struct work *k;

	world->ordinal++;
	if (world->full && world->ordinal % 8 == 7)
		return ERR_BUSY;
	k = mem_zalloc(sizeof(*k));
	*k = (struct work){ world, body, done, arg };
	world->items++;
	ev_defer(loop, work_runs, k);
	return 0;
}

int writer_submit(struct writer *w, const struct writer_job *job, void *arg)
{
	return ERR_AUDIT;
}

/* --- no store, no persons */

int db_open_store(struct db_where at, struct db **ret, struct err *err)
{
	*ret = NULL;
	return 0;
}

struct db_stmt *db_stmt_get(struct db *db, enum sql_id id)
{
	return NULL;
}

void db_bind_i64(struct db_stmt *st, unsigned pos, int64_t v)
{
}

int db_step(struct db_stmt *st, struct err *err)
{
	return 0;
}

void db_stmt_put(struct db_stmt **st)
{
}

void db_close(struct db **db)
{
}

int64_t db_col_i64(struct db_stmt *st, unsigned col)
{
	return 0;
}

const char *db_col_text(struct db_stmt *st, unsigned col, size_t *ret_len)
{
	return "";
}

void db_col_copy(struct db_stmt *st, unsigned col, char *ret, size_t size)
{
	*ret = '\0';
}

const void *db_col_blob(struct db_stmt *st, unsigned col, size_t *ret_len)
{
	*ret_len = 0;
	return "";
}

struct assent *assent_of_call(struct assents *all, int64_t tenant_id, const uint8_t call[16])
{
	return NULL;
}

void assent_lapse(struct assents *all, struct assent *a, const char *why)
{
}

const struct tenant *tenant_by_id(const struct tenants *t, int64_t id)
{
	return NULL;
}

int64_t tenant_key_id(const struct tenants *t, const char *accessor, int64_t *ret_tenant_id, int64_t *ret_principal_id)
{
	return 0;
}

int principal_again(struct tenants *t, const struct principal_again *was, struct principal **ret, struct err *err)
{
	FUZZ_CHECK(was->tenant_id == 1 && was->principal_id == 1);
	if (strcmp(was->name, "gone") == 0)
		return err_set(err, ERR_DENIED, "", "it may not any more");
	principal_ref(world->who);
	*ret = world->who;
	return 0;
}

void arg_rules_print(const struct arg_rules *rules, struct str *out)
{
}

int arg_rules_parse(const char *text, size_t len, struct arg_rules **ret, struct err *err)
{
	return 0;
}

/* --- rounds */

static void put_body(const char *name, struct str *to)
{
		struct str requests = STR_INIT;

	str_printf(&requests, "{\"q\":{\"method\":\"elicitation/create\",\"params\":{\"message\":\"%s\",\"requestedSchema\":"
		   "{\"type\":\"object\",\"properties\":{}}}},\"r\":{\"method\":\"roots/list\"}}", name);
	pack_u64(to, FORM);
	pack_u64(to, REV_R5);
	pack_u64(to, 0);
	pack_u64(to, 0);
	pack_u64(to, AUDIT_TCP);
	pack_u64(to, 0);
	pack_text(to, name, strlen(name));
	pack_text(to, "", 0);           /* the key that was shown */
	pack_u64(to, 0);
	pack_text(to, "", 0);
	pack_text(to, "", 0);
	pack_text(to, "{}", 2);
	pack_text(to, "", 0);
	pack_text(to, requests.p, requests.len);
	pack_text(to, "", 0);
	pack_u64(to, 0);
	str_fini(&requests);
}

static void run_over(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct round_run *r = arg;
	struct task *t = task_by_id(r->w->tasks, r->id);

	if (t)
		task_unhold(r->w->tasks, t);
	free(r);
}

/* It has run. */
static void run_ends(struct round_run *r, struct task *t)
{
	static const char result[] = "{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"ran\"}]}";
	struct task_answer a = { .state = r->stopped ? TASK_CANCELLED : TASK_COMPLETED, .text = r->stopped ? NULL : result,
				 .len = r->stopped ? 0 : sizeof(result) - 1 };
	struct task_move m = { .state = TASK_INPUT, .round = t->round + 1 };
	struct str body = STR_INIT;
	struct audit_event ev;
	int rc;

	audit_event_init(&ev, AUDIT_CALL_END, t->tenant_id);
	t->held = true;
	if (r->asks && !r->stopped) {
		put_body("bot", &body);
		m.body = body.p;
		m.len = body.len;
		rc = task_move(r->w->tasks, t, &ev, 1, &m, run_over, r);
	} else {
		rc = task_end(r->w->tasks, t, &ev, 1, &a, run_over, r);
	}
	str_fini(&body);
	if (rc < 0)
		run_over(r, rc, NULL);
}

static void run_begun(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct round_run *r = arg;
	struct task *t = task_by_id(r->w->tasks, r->id);

	FUZZ_CHECK(t && t->run == r);
	if (rc < 0) {
		t->run = NULL;
		t->stop = NULL;
		call_task_later(&r->w->eng);
		free(r);
	} else {
		run_ends(r, t);
	}
}

static void run_stop(void *arg)
{
	((struct round_run *)arg)->stopped = true;
}

static void start_round(struct call_engine *eng, const struct call_req *req)
{
	struct round_run *r = mem_zalloc(sizeof(*r));
	struct reg_snapshot *snap = req->snap;
	struct task *t = req->task;
	static const uint8_t call[16] = { 7 };
	struct task_move m = { .state = TASK_WORKING, .round = t->round, .call = call };
	struct audit_event ev;

	FUZZ_CHECK(t->tenant_id == 1 && t->of->principal_id == 1 && !t->run && !task_is_over(t->state));
	r->w = world;
	memcpy(r->id, t->id, sizeof(r->id));
	r->asks = t->round < ROUNDS;
	t->run = r;
	t->stop = run_stop;
	json_decref(req->args);
	json_decref(req->answers);
	reg_release(NULL, &snap);
	audit_event_init(&ev, AUDIT_CALL_BEGIN, t->tenant_id);
	if (task_move(world->tasks, t, &ev, 1, &m, run_begun, r) < 0)
		run_begun(r, ERR_AUDIT, NULL);
}

/* What runs from the beginning on: its end comes when somebody stops it, or never. */
static void given_stop(void *arg)
{
	struct round_run *r = mem_zalloc(sizeof(*r));
	struct task *t = arg;

	r->w = world;
	memcpy(r->id, t->id, sizeof(r->id));
	r->stopped = true;
	run_ends(r, t);
}

/* --- the world */

static void put_given(struct world *w, size_t i)
{
	const struct task_kin kin = { .principal_id = given[i].principal_id, .prn = "prn", .tool = "t", .name = "t" };
	struct task *t = task_entry_new(w->tasks, &kin);

	memcpy(t->id, given[i].id, sizeof(t->id));
	t->state = given[i].state;
	t->tenant_id = given[i].tenant_id;
	t->created_us = t->updated_us = clock_wall_us();
	t->ends_us = t->created_us + TTL_US;
	t->poll_ms = 1000;
	t->round = given[i].state == TASK_INPUT ? 1 : 0;
	if (given[i].tenant_id != 1 || given[i].principal_id != 1)
		task_note(t, WORLD_FOREIGN);
	if (t->state == TASK_WORKING || t->state == TASK_FAR) {
		t->stop = given_stop;
		t->run = t;
	}
	if (given[i].body)
		put_body(given[i].body, &w->row[i].body);
	if (given[i].result)
		str_puts(&w->row[i].result, given[i].result);
	w->row[i].over = task_is_over(t->state);
	task_entry_add(w->tasks, t);
}

struct world *world_open(struct ev_loop *loop, struct principal *who, bool full)
{
	static const struct keyfile_place nowhere = { .store = "/" };
	struct world *w = world = mem_zalloc(sizeof(*w));
	const struct task_env env = { .loop = loop, .place = nowhere };

	w->loop = loop;
	w->who = who;
	w->full = full;
	FUZZ_CHECK(tasks_open(&env, &w->tasks, NULL) == 0);
	for (size_t i = 0; i < NELEMS(given); i++)
		put_given(w, i);
	w->eng.env.loop = loop;
	w->eng.env.tasks = w->tasks;
	w->eng.start_round = start_round;
	list_init(&w->eng.held);
	w->eng.rounds = ev_timer_new(loop, call_task_turns, &w->eng);
	return w;
}

struct call_engine *world_calls(struct world *w)
{
	return &w->eng;
}

struct tasks *world_tasks(struct world *w)
{
	return w->tasks;
}

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

static bool is_still(const struct world *w)
{
	return w->items == 0 && list_empty(&w->tasks->jobs);
}

void world_settle(struct world *w, bool turns)
{
	if (turns)
		call_task_turns(&w->eng);
	for (int i = 0; i < 100000; i++) {
		bool done = false;

		ev_defer(w->loop, set_true, &done);
		FUZZ_CHECK(ev_loop_run_until(w->loop, &done, DEADLINE_MS));
		if (is_still(w))
			return;
	}
	FUZZ_CHECK(!"it never rests");
}

static void is_sound(void *arg, struct task *t)
{
	size_t i;
	const struct row *row = row_of(t->id, &i);

	(void)arg;
	FUZZ_CHECK(!t->held);
	if (given[i].tenant_id != 1 || given[i].principal_id != 1)
		FUZZ_CHECK(t->state == given[i].state && row->changes == 0);
	FUZZ_CHECK(!row->over || task_is_over(t->state));
	FUZZ_CHECK(!task_is_over(given[i].state) || t->state == given[i].state);
}

void world_close(struct world **wp)
{
	struct world *w = *wp;

	world_settle(w, false);
	tasks_each(w->tasks, is_sound, w);
	FUZZ_CHECK(w->tasks->waiters.n == 0);
	ev_timer_free(&w->eng.rounds);
	tasks_close(&w->tasks);
	for (size_t i = 0; i < NELEMS(given); i++) {
		str_fini(&w->row[i].body);
		str_fini(&w->row[i].result);
	}
	free(w);
	*wp = world = NULL;
}
