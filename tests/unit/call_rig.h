#ifndef TESTS_CALL_RIG_H
#define TESTS_CALL_RIG_H

/*
 * A call engine over a real store and writer, and a handler that does what the test says: it starts, notes its
 * request, and waits for fake_result(), fake_ask() or fake_error().  A cancelled one ends at once, as real ones do.
 */

#include "rows.h"

#include "audit/audit.h"
#include "backend/backend.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "call/call.h"
#include "ev/ev.h"
#include "faultvfs.h"
#include "json/json.h"
#include "keys/keyfile.h"
#include "limit/limit.h"
#include "proto/caps.h"
#include "registry/define.h"
#include "tenant/tenant.h"
#include "task/task.h"
#include "writer/writer.h"

enum { RIG_WAIT_MS = 10000, RIG_RECORDS = 64 };

struct backend_op {
	const struct backend_sink *sink;
	void *arg;
	struct ev_loop *loop;
	enum cancel_why why;
	bool cancelled, deaf;           /* deaf: it was cancelled, and the test ends it */
};

static struct {
	unsigned started, cancelled;
	bool is_started;
	struct backend_op *op;          /* the run that is open, or NULL */
	struct backend_req req;         /* of the last start; texts and trees are borrowed */
	char *state, *answers;          /* copies */
	bool deaf, instant;             /* instant: it has a result in the turn in which it starts */
	uint8_t ran[RIG_RECORDS][16];   /* the calls that have started first */
	struct backend_sandbox sandbox;       /* of the next runs */
} fake;

struct record {
	int kind, outcome, sig, tport, authn;
	bool has_outcome, has_prev, has_xstat;
	uint8_t call[16], prev[16];
	char cred[16], prn[32], tool[65], rule[64], detail[128], tdef[65], rev[16], sbox[BACKEND_LEVEL_TEXT];
	int64_t xstat, n_req, n_res;
	uint32_t flags;
};

struct rig {
	struct rows rows;
	struct writer_limits limits;
	struct ev_loop *loop;
	struct writer *writer;
	struct tasks *tasks;
	struct tenants *tenants;
	struct registry *registry;
	struct limiter *limiter;
	struct call_engine *engine;
	int64_t acme, other;
	struct principal *bot, *other_bot;
	struct record rec[RIG_RECORDS];
	size_t nrec;
	bool has_logs;
};

/* What one caller heard. */
struct heard {
	struct rig *rig;
	struct call *call;
	bool done, asked, gone;
	unsigned ends, asks, progress, logs;
	int ask_rc;
	/* of call_end */
	char *text, *structured, *requests, *state, task[TASK_ID_LEN + 1];
	bool is_error, executed, has_id, has_report;
	uint8_t id[16];
	enum call_refusal refusal;
	enum err_code code;
	uint32_t retry_ms, missing_caps;
	int rpc_code;
	char msg[320];
};

static const uint8_t rig_master[32] = { 42 };

static inline void fake_drop(void *arg)
{
	free(arg);
}

/* Takes the open run away: it has ended. */
static inline struct backend_op *fake_end(void)
{
	struct backend_op *op = fake.op;

	assert_non_null(op);
	fake.op = NULL;
	ev_defer(op->loop, fake_drop, op);
	return op;
}

static inline json_t *json_of(const char *text)
{
	json_t *v = NULL;

	if (text)
		ROWS_OK(jx_parse(text, strlen(text), &v, &rows_err));
	return v;
}

static inline void fake_full_result(const char *text, const char *structured, bool is_error)
{
	struct backend_op *op = fake_end();
	struct backend_result res = { .content = json_pack("[{s:s,s:s}]", "type", "text", "text", text),
				      .structured = json_of(structured), .is_error = is_error };

	op->sink->result(op->arg, &res);
}

static inline void fake_result(const char *text)
{
	fake_full_result(text, NULL, false);
}

static inline void fake_error(enum err_code code, const char *msg, int rpc_code)
{
	struct backend_op *op = fake_end();
	struct err err;

	(void)err_set(&err, code, "", "%s", msg);
	op->sink->error(op->arg, &err, rpc_code, rpc_code ? json_of("{\"x\":1}") : NULL);
}

#define ELICIT "{\"confirm\":{\"method\":\"elicitation/create\",\"params\":{\"message\":\"sure?\"}}}"

static inline void fake_ask(const char *requests, const void *state, size_t len)
{
	struct backend_op *op = fake_end();

	op->sink->ask(op->arg, &(struct backend_ask){ .requests = json_of(requests), .state = state, .state_len = len });
}

static inline void fake_cancelled(void *arg)
{
	struct backend_op *op = arg;
	struct err err;

	if (fake.op == op)
		fake.op = NULL;
	(void)err_set(&err, op->why == CANCEL_DEADLINE ? ERR_TIMEOUT : ERR_CANCELLED, "", "stopped");
	op->sink->error(op->arg, &err, 0, NULL);
	free(op);
}

static inline void fake_cancel(struct backend_op *op, enum cancel_why why)
{
	fake.cancelled++;
	if (op->cancelled)
		return;
	op->cancelled = true;
	op->why = why;
	if (!op->deaf)
		ev_defer(op->loop, fake_cancelled, op);
}

static inline int fake_bind(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err)
{
	return 0;
}

static inline void fake_at_once(void *arg)
{
	struct backend_op *op = arg;
	struct backend_result res = { .content = json_pack("[{s:s,s:s}]", "type", "text", "text", "at once") };

	op->sink->result(op->arg, &res);
	free(op);
}

static inline void fake_start(const struct backend_env *env, const struct backend_req *req,
			      const struct backend_sink *sink, void *arg, struct backend_op **ret)
{
	struct backend_op *op = mem_zalloc(sizeof *op);
	struct str answers = STR_INIT;

	op->sink = sink;
	op->arg = arg;
	op->loop = env->loop;
	op->deaf = fake.deaf;
	fake.req = *req;
	free(fake.state);
	free(fake.answers);
	fake.state = mem_strndup(req->state_len ? req->state : "", req->state_len);
	if (req->answers)
		jx_write(req->answers, &answers);
	fake.answers = req->answers ? str_take(&answers) : NULL;
	*ret = op;
	fake.op = fake.instant ? NULL : op;
	if (fake.instant)
		ev_defer(op->loop, fake_at_once, op);
	if (fake.started < RIG_RECORDS)
		memcpy(fake.ran[fake.started], req->call_id, sizeof fake.ran[0]);
	fake.started++;
	fake.is_started = true;
}

static inline void fake_cage(const struct backend_env *env, const void *plan, struct backend_sandbox *ret)
{
	*ret = fake.sandbox;
}

static const struct backend_ops fake_ops = { .name = "fake", .bind = fake_bind, .start = fake_start, .cancel = fake_cancel,
	.sandbox = fake_cage };

static inline int rig_bind(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops,
			   const void **ret_plan, struct err *err)
{
	if (json_object_get(handler, "broken"))
		return err_set(err, ERR_INVALID, "/broken", "no such thing");
	*ret_ops = &fake_ops;
	return 0;
}

/* more: further members, with a comma in front. */
static inline void rig_tool(struct rig *r, const char *name, const char *schema, const char *more)
{
	char *text = mem_printf("{\"name\":\"%s\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"%s}%s,"
				"\"handler\":{\"type\":\"fake\"}}", name, schema, more);

	(void)rows_tool(&r->rows, name, text);
	free(text);
}

static inline void rig_store(struct rig *r)
{
	rows_open(&r->rows);
	r->acme = rows_tenant(&r->rows, "acme");
	r->other = rows_tenant(&r->rows, "other");
	rig_tool(r, "echo", "", "");
	rig_tool(r, "strict", ",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]", "");
	rig_tool(r, "one", "", ",\"limits\":{\"concurrency\":1,\"timeout\":\"1s\",\"result\":\"64\"}");
	rig_tool(r, "asks", "", ",\"needs\":{\"client\":[\"elicitation\"]}");
	rig_tool(r, "shaped", "", ",\"outputSchema\":{\"type\":\"object\",\"required\":[\"a\"]}");
	rig_tool(r, "headed", ",\"properties\":{\"s\":{\"type\":\"string\",\"x-mcp-header\":\"S\"},"
		 "\"i\":{\"type\":\"integer\",\"x-mcp-header\":\"I\"},\"b\":{\"type\":\"boolean\",\"x-mcp-header\":\"B\"}}", "");
	rig_tool(r, "long", "", ",\"task\":{\"support\":\"optional\",\"after\":\"2s\",\"timeout\":\"2m\",\"ttl\":\"1m\"}");
	rig_tool(r, "longer", "", ",\"task\":{\"support\":\"required\",\"timeout\":\"40s\"}");
	rig_tool(r, "hidden", "", "");
	(void)rows_tool(&r->rows, "broken", "{\"name\":\"broken\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"},"
			"\"handler\":{\"broken\":1}}");
	static const char *const granted[] = { "echo", "strict", "one", "asks", "shaped", "headed", "broken", "long", "longer" };
	for (size_t i = 0; i < NELEMS(granted); i++)
		rows_grant(&r->rows, r->acme, granted[i], "");
	rows_grant(&r->rows, r->other, "hidden", "echo");
	ROWS_OK(db_txn_end(r->rows.db, 0, &rows_err));
	db_close(&r->rows.db);
}

static inline void rig_open_writer(struct rig *r)
{
	size_t recovered;

	ROWS_OK(writer_open(r->loop, &(struct keyfile_place){ r->rows.dir, rig_master }, "test", &r->limits, NULL, &r->writer, &recovered, &rows_err));
}

static inline int rig_make_logs(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct rig *r = arg;
	int rc = audit_log_create(logs, db, r->acme, "acme", err);

	return rc < 0 ? rc : audit_log_create(logs, db, r->other, "other", err);
}

static inline void rig_logs_made(void *arg, int rc, const struct err *err)
{
	struct rig *r = arg;

	assert_int_equal(rc, 0);
	r->has_logs = true;
}

static inline void rig_load(struct rig *r)
{
	struct reg_change *change = NULL;
	struct db *db = NULL;
	char path[600];

	ROWS_OK(db_open(tmpdir_path(r->rows.dir, "toolcrib.db", path, sizeof path), DB_READER, false, &db, &rows_err));
	ROWS_OK(tenants_open(rig_master, db, &r->tenants, &rows_err));
	ROWS_OK(reg_change_all(db, &change, &rows_err));
	reg_apply(r->registry, &change, NULL, NULL);
	db_close(&db);
}

static inline int rig_set_up(void **state)
{
	struct rig *r = mem_zalloc(sizeof *r);

	memset(&fake, 0, sizeof fake);
	fake.sandbox = (struct backend_sandbox){ "base", "base", "base", true, false };
	rig_store(r);
	r->limits = (struct writer_limits)WRITER_LIMITS_DEFAULT;
	r->loop = ev_loop_new();
	rig_open_writer(r);
	assert_int_equal(writer_submit(r->writer, &(struct writer_job){ .name = "logs", .run = rig_make_logs,
				       .done = rig_logs_made }, r), 0);
	assert_true(ev_loop_run_until(r->loop, &r->has_logs, RIG_WAIT_MS));
	r->registry = registry_new(rig_bind);
	r->limiter = limiter_new(NULL);
	rig_load(r);
	ROWS_OK(tasks_open(&(struct task_env){ r->loop, r->writer, { r->rows.dir, rig_master }, NULL, 0, 0 }, &r->tasks, &rows_err));
	r->engine = call_engine_new(&(struct call_env){ .loop = r->loop, .tasks = r->tasks, .tenants = r->tenants, .registry = r->registry,
		.limiter = r->limiter, .writer = r->writer, .master = rig_master });
	writer_on_late(r->writer, call_late_begin, r->engine);
	ROWS_OK(principal_named(r->tenants, "acme", NULL, AUDIT_AUTHN_BOUND, &r->bot, &rows_err));
	ROWS_OK(principal_named(r->tenants, "other", NULL, AUDIT_AUTHN_BOUND, &r->other_bot, &rows_err));
	*state = r;
	return 0;
}

static inline int rig_tear_down(void **state)
{
	struct rig *r = *state;

	fault_set(FAULT_NONE);
	principal_unref(&r->bot);
	principal_unref(&r->other_bot);
	call_engine_free(&r->engine);
	tasks_close(&r->tasks);
	writer_on_late(r->writer, NULL, NULL);
	(void)writer_close(&r->writer, RIG_WAIT_MS, NULL); /* it may have been told to fail */
	registry_free(&r->registry);
	limiter_free(&r->limiter);
	tenants_close(&r->tenants);
	ev_loop_free(&r->loop);
	tmpdir_remove(r->rows.dir);
	clock_real();
	free(fake.state);
	free(fake.answers);
	free(r);
	return 0;
}

static inline void heard_progress(void *arg, double done, double total, const char *note)
{
	((struct heard *)arg)->progress++;
}

static inline void heard_log(void *arg, int level, const char *logger, json_t *data)
{
	((struct heard *)arg)->logs++;
	json_decref(data);
}

static inline char *text_of(const json_t *v)
{
	struct str s = STR_INIT;

	if (!v)
		return NULL;
	jx_write(v, &s);
	return str_take(&s);
}

static inline int heard_ask(void *arg, const json_t *requests, struct err *err)
{
	struct heard *h = arg;

	h->asks++;
	h->asked = true;
	free(h->requests);
	h->requests = text_of(requests);
	return h->ask_rc ? err_set(err, h->ask_rc, "", "the client cannot be asked") : 0;
}

static inline bool heard_is_gone(void *arg)
{
	return ((struct heard *)arg)->gone;
}

static inline void heard_finish(void *arg, struct call_end *end)
{
	struct heard *h = arg;

	h->ends++;
	h->done = true;
	h->has_id = end->call_id != NULL;
	if (end->call_id)
		memcpy(h->id, end->call_id, sizeof h->id);
	assert_int_equal(!!end->result + !!end->requests + !!end->err + !!end->task, 1);
	if (end->task)
		memcpy(h->task, end->task->id, sizeof h->task);
	if (end->result) {
		const char *text = json_string_value(json_object_get(json_array_get(end->result->content, 0), "text"));

		h->text = mem_strdup0(text);
		h->structured = text_of(end->result->structured);
		h->is_error = end->result->is_error;
		json_decref(end->result->content);
		json_decref(end->result->structured);
		json_decref(end->result->meta);
	}
	if (end->requests) {
		free(h->requests);
		h->requests = text_of(end->requests);
		h->state = mem_strdup(end->sealed_state);
		json_decref(end->requests);
	}
	if (end->err) {
		h->refusal = end->refusal;
		h->code = end->err->code;
		h->retry_ms = end->err->retry_ms;
		h->missing_caps = end->missing_caps;
		h->executed = end->executed;
		h->rpc_code = end->rpc_code;
		h->has_report = end->report && end->report->count > 0;
		memcpy(h->msg, end->err->msg, sizeof h->msg);
		json_decref(end->rpc_data);
	}
}

static const struct call_out heard_out = { heard_progress, heard_log, heard_ask, heard_is_gone, heard_finish };

struct rig_req {                        /* what tests vary */
	const char *tool, *args, *answers, *state;
	struct principal *who;
	uint32_t caps;
	bool can_ask, check_params;
	enum rev rev;
	const struct call_param *params; size_t nparams;
};

static inline struct heard *rig_start(struct rig *r, const struct rig_req *q)
{
	struct heard *h = mem_zalloc(sizeof *h);
	struct principal *who = q->who ? q->who : r->bot;
	struct call_req req = {
		.who = who, .snap = reg_acquire(r->registry, who->tenant_id), .tool = q->tool, .tool_len = strlen(q->tool),
		.args = json_of(q->args), .args_text = q->args ? q->args : "", .args_len = q->args ? strlen(q->args) : 0,
		.answers = json_of(q->answers), .sealed_state = q->state, .sealed_len = q->state ? strlen(q->state) : 0,
		.params = q->params, .nparams = q->nparams, .check_params = q->check_params, .caps = q->caps,
		.can_ask = q->can_ask, .rev = q->rev, .tport = AUDIT_HTTP,
	};

	h->rig = r;
	call_start(r->engine, &req, &heard_out, h, &h->call);
	assert_int_equal(h->ends, 0);           /* never before the return */
	return h;
}

static inline void rig_wait(struct rig *r, bool *flag)
{
	assert_true(ev_loop_run_until(r->loop, flag, RIG_WAIT_MS));
}

/* Until the handler runs. */
static inline void rig_wait_start(struct rig *r)
{
	rig_wait(r, &fake.is_started);
	fake.is_started = false;
}

/* Until the call has ended; exactly once, and nothing of it is left. */
static inline void rig_wait_end(struct rig *r, struct heard *h)
{
	rig_wait(r, &h->done);
	assert_int_equal(h->ends, 1);
}

static inline void heard_free(struct heard *h)
{
	free(h->text);
	free(h->structured);
	free(h->requests);
	free(h->state);
	free(h);
}

static inline struct heard *rig_call(struct rig *r, const struct rig_req *q)
{
	struct heard *h = rig_start(r, q);

	rig_wait_end(r, h);
	return h;
}

#define COPY(field) ((void)snprintf(to->field, sizeof to->field, "%s", row->field ? row->field : ""))

static inline int rig_take_record(void *arg, const struct audit_view *row)
{
	struct rig *r = arg;
	struct record *to = &r->rec[r->nrec];

	if (r->nrec == RIG_RECORDS)
		return 1;
	*to = (struct record){ .kind = row->kind, .outcome = row->outcome, .sig = row->sig, .tport = row->tport,
			       .authn = row->authn, .has_outcome = row->has_outcome, .has_prev = row->has_prev,
			       .has_xstat = row->has_xstat, .xstat = row->xstat, .n_req = row->n_req, .n_res = row->n_res,
			       .flags = row->flags };
	memcpy(to->call, row->call, sizeof to->call);
	memcpy(to->prev, row->prev, sizeof to->prev);
	COPY(cred);
	COPY(prn);
	COPY(tool);
	COPY(rule);
	COPY(detail);
	COPY(tdef);
	COPY(rev);
	COPY(sbox);
	r->nrec++;
	return 0;
}

/* The records of a tenant of one kind (0 = all but begins), newest first, to r->rec. */
static inline size_t rig_records(struct rig *r, int64_t tenant_id, int kind)
{
	const struct audit_filter f = { .tenant_id = tenant_id, .outcome = -1, .kind = kind, .limit = RIG_RECORDS };
	struct db *db = NULL;
	char path[600];

	r->nrec = 0;
	ROWS_OK(db_open(tmpdir_path(r->rows.dir, "toolcrib.db", path, sizeof path), DB_READER, false, &db, &rows_err));
	ROWS_OK(audit_query(db, &f, rig_take_record, r, &rows_err));
	db_close(&db);
	return r->nrec;
}

/* The records of one call, in order, to r->rec. */
static inline size_t rig_call_records(struct rig *r, int64_t tenant_id, const uint8_t call[16])
{
	struct db *db = NULL;
	char path[600];

	r->nrec = 0;
	ROWS_OK(db_open(tmpdir_path(r->rows.dir, "toolcrib.db", path, sizeof path), DB_READER, false, &db, &rows_err));
	ROWS_OK(audit_query_call(db, tenant_id, call, rig_take_record, r, &rows_err));
	db_close(&db);
	return r->nrec;
}

/* A begin and one end with this outcome; the end is r->rec[1]. */
static inline void assert_pair(struct rig *r, const struct heard *h, int outcome)
{
	assert_true(h->has_id);
	assert_int_equal(rig_call_records(r, r->acme, h->id), 2);
	assert_int_equal(r->rec[0].kind, AUDIT_CALL_BEGIN);
	assert_int_equal(r->rec[1].kind, AUDIT_CALL_END);
	assert_int_equal(r->rec[1].outcome, outcome);
	assert_int_equal(limit_running(r->limiter, r->acme), 0);
	assert_int_equal(call_engine_running(r->engine), 0);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

#endif
