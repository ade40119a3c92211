/* The index of tasks, on the loop's thread: an entry says what the newest durable row says.  What changes a row goes to
 * the writer (rows.c), and the entry follows when that is durable. */

#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"

#include "task_int.h"

enum { EXPIRY_MIN_MS = 1000, EXPIRY_MAX_MS = 60000 };
#define STEP_US INT64_C(3600000000)     /* a clock that was set by more ends nothing at once */
#define EVENT_FIELDS_MAX 8

struct tasks {
	struct task_env env;
	struct map *all;                /* id -> struct task */
	struct map *owners;             /* struct owner by struct who: of tenants, principal 0, and of principals */
	struct list jobs;               /* struct job.link: what has not come back */
	struct ev_timer *expiry;
	struct task_expiry *expiring;   /* the writer has it; NULL: nobody expires */
	int64_t offset_us;              /* wall clock above the monotonic one, as it was seen last */
	bool closed;
};

struct who { int64_t tenant_id, principal_id; };
struct owner { size_t open; uint64_t bytes; };

const char *task_status(enum task_state state)
{
	switch (state) {
	case TASK_WORKING:
		break;
	case TASK_COMPLETED:
		return "completed";
	case TASK_FAILED:
		return "failed";
	case TASK_CANCELLED:
		return "cancelled";
	}
	return "working";
}

/* --- entries and what is counted of them */

static struct owner *owner_of(struct tasks *tasks, int64_t tenant_id, int64_t principal_id)
{
	const struct who who = { tenant_id, principal_id };
	struct owner *o = map_get(tasks->owners, &who, sizeof(who));

	if (!o) {
		o = mem_zalloc(sizeof(*o));
		(void)map_set(tasks->owners, &who, sizeof(who), o);
	}
	return o;
}

/* by: 1 or -1 */
static void count(struct tasks *tasks, const struct task *t, int by)
{
	struct owner *tenant = owner_of(tasks, t->tenant_id, 0);

	tenant->bytes = by > 0 ? tenant->bytes + t->bytes : tenant->bytes - t->bytes;
	if (task_is_over(t->state))
		return;
	tenant->open += (size_t)by;
	owner_of(tasks, t->tenant_id, t->principal_id)->open += (size_t)by;
	if (by > 0)
		metric_inc(METRIC_tasks_open);
	else
		metric_dec(METRIC_tasks_open);
}

static void recount(struct tasks *tasks, struct task *t, enum task_state state, uint64_t bytes)
{
	count(tasks, t, -1);
	t->state = state;
	t->bytes = bytes;
	count(tasks, t, 1);
}

static struct task *task_new(const char *prn, const char *tool, const char *name)
{
	size_t prn_size = strlen(prn) + 1, tool_size = strlen(tool) + 1, name_size = strlen(name) + 1;
	struct task *t = mem_zalloc(sizeof(*t) + prn_size + tool_size + name_size);
	char *text = (char *)(t + 1);

	t->prn = memcpy(text, prn, prn_size);
	t->tool = memcpy(text + prn_size, tool, tool_size);
	t->name = memcpy(text + prn_size + tool_size, name, name_size);
	return t;
}

static void add(struct tasks *tasks, struct task *t)
{
	(void)map_set_z(tasks->all, t->id, t);
	count(tasks, t, 1);
}

static void drop(struct tasks *tasks, struct task *t)
{
	count(tasks, t, -1);
	(void)map_del_z(tasks->all, t->id);
	free(t->note);
	free(t);
}

void task_note(struct task *t, const char *note)
{
	char text[TASK_NOTE_MAX + 1];

	free(t->note);
	t->note = note && *note ? mem_strdup(text_printable(note, strlen(note), text, sizeof(text))) : NULL;
}

/* --- what is on its way */

struct job {
	struct list link;
	struct tasks *tasks;
	char id[TASK_ID_LEN + 1];
	int64_t tenant_id;
	struct task *made;              /* of a create */
	task_made_fn *on_made;
	writer_audit_fn *on_end;
	task_done_fn *on_done;
	task_result_fn *on_result;
	void *arg;
	struct task_answer answer;      /* of an end; no texts */
	char *note;
	uint64_t ends_us, updated_us, bytes;
	struct str text;                /* of a result */
	int rc;
};

static struct job *job_new(struct tasks *tasks, const struct task *t, void *arg)
{
	struct job *j = mem_zalloc(sizeof(*j));

	j->tasks = tasks;
	memcpy(j->id, t->id, sizeof(j->id));
	j->tenant_id = t->tenant_id;
	j->arg = arg;
	list_push_back(&tasks->jobs, &j->link);
	return j;
}

static void tasks_free(struct tasks *tasks);

static void job_free(struct job *j)
{
	struct tasks *tasks = j->tasks;

	list_unlink(&j->link);
	str_fini(&j->text);
	free(j->note);
	free(j);
	if (tasks->closed && list_empty(&tasks->jobs) && !tasks->expiring)
		tasks_free(tasks);
}

/* The event of a caller with the id in front of the fields it has. */
static void add_fields(struct audit_event *ev, const char *id, const uint8_t *state,
		       struct audit_field fields[EVENT_FIELDS_MAX])
{
	size_t n = 0, i = 0;

	for (; i < ev->nfield && ev->field[i].tag < AUDIT_TAG_TASK; i++)
		fields[n++] = ev->field[i];
	fields[n++] = (struct audit_field){ AUDIT_TAG_TASK, id, TASK_ID_LEN };
	if (state)
		fields[n++] = (struct audit_field){ AUDIT_TAG_TASK_END, state, 1 };
	for (; i < ev->nfield && n < EVENT_FIELDS_MAX; i++)
		fields[n++] = ev->field[i];
	ev->field = fields;
	ev->nfield = n;
}

/* --- create */

static void on_made(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct job *j = arg;
	struct task *t = j->made;

	(void)receipt;
	if (rc == 0) {
		metric_inc(METRIC_tasks_made);
	} else {
		drop(j->tasks, t);
		t = NULL;
	}
	if (!j->tasks->closed)
		j->on_made(j->arg, rc, t);
	job_free(j);
}

static int check_room(struct tasks *tasks, const struct task_new *n)
{
	const struct owner *tenant = owner_of(tasks, n->tenant_id, 0);

	if (map_count(tasks->all) < TASKS_MAX && tenant->open < TASKS_TENANT_MAX && tenant->bytes < TASKS_BYTES_MAX &&
	    owner_of(tasks, n->tenant_id, n->principal_id)->open < TASKS_PRINCIPAL_MAX)
		return 0;
	metric_inc(METRIC_tasks_refused);
	return ERR_LIMIT;
}

static void copy(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from ? from : "");       /* they fit: AUDIT A-409 */
}

int task_create(struct tasks *tasks, const struct task_new *n, const struct audit_event *ev, task_made_fn *done,
		void *arg)
{
	struct audit_field fields[EVENT_FIELDS_MAX];
	struct audit_event with = *ev;
	struct task_add *row;
	struct job *j;
	struct task *t;
	int rc = check_room(tasks, n);

	if (rc < 0)
		return rc;
	t = task_new(n->prn, n->tool, n->name);
	id_random_text(t->id, TASK_ID_LEN);
	t->state = TASK_WORKING;
	t->tenant_id = n->tenant_id;
	t->principal_id = n->principal_id;
	memcpy(t->call, n->call, sizeof(t->call));
	t->created_us = t->updated_us = ev->time_us;
	t->ends_us = ev->time_us + n->ttl_ms * 1000;
	t->poll_ms = n->poll_ms;
	t->stop = n->stop;
	t->run = n->run;
	row = mem_zalloc(sizeof(*row));
	memcpy(row->id, t->id, sizeof(row->id));
	copy(row->prn, sizeof(row->prn), n->prn);
	copy(row->cred, sizeof(row->cred), n->cred);
	copy(row->tool, sizeof(row->tool), n->tool);
	copy(row->name, sizeof(row->name), n->name);
	memcpy(row->tdef, n->tdef, sizeof(row->tdef));
	memcpy(row->call, n->call, sizeof(row->call));
	row->tenant_id = n->tenant_id;
	row->principal_id = n->principal_id;
	row->created_us = t->created_us;
	row->ends_us = t->ends_us;
	row->poll_ms = t->poll_ms;
	add_fields(&with, t->id, NULL, fields);
	j = job_new(tasks, t, arg);
	j->made = t;
	j->on_made = done;
	add(tasks, t);                  /* counted, and nobody knows its name yet */
	rc = writer_change(tasks->env.writer, &with, 1, &task_rows[TASK_ROWS_ADD], row, sizeof(*row), on_made, j);
	free(row);
	if (rc < 0) {
		drop(tasks, t);
		job_free(j);
	}
	return rc;
}

/* --- end */

static void expire_at(struct tasks *tasks, uint64_t ends_us);

static void on_ended(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct job *j = arg;
	struct task *t = map_get_z(j->tasks->all, j->id);

	if (t)
		recount(j->tasks, t, rc == 0 ? j->answer.state : t->state, rc == 0 ? j->bytes : 0);
	if (rc == 0 && t) {
		t->updated_us = j->updated_us;
		t->ends_us = j->ends_us;
		task_note(t, j->note);
		if (!j->tasks->closed)
			expire_at(j->tasks, t->ends_us);
	}
	if (!j->tasks->closed)
		j->on_end(j->arg, rc, receipt);
	job_free(j);
}

int task_end(struct tasks *tasks, struct task *t, const struct audit_event *ev, const struct task_answer *a,
	     writer_audit_fn *done, void *arg)
{
	const size_t size = offsetof(struct task_finish, text) + a->len;
	const uint64_t bytes = a->len ? a->len + AEAD_TAG : 0;
	const uint8_t state = (uint8_t)a->state;
	struct task_finish *row;
	struct audit_field fields[EVENT_FIELDS_MAX];
	struct audit_event with = *ev;
	struct job *j;
	int rc;

	t->run = NULL;
	t->stop = NULL;
	if (a->len > TASK_SMALL && owner_of(tasks, t->tenant_id, 0)->bytes + bytes > TASKS_BYTES_MAX) {
		metric_inc(METRIC_tasks_unkept);
		return ERR_LIMIT;
	}
	row = mem_zalloc(size > sizeof(*row) ? size : sizeof(*row));
	j = job_new(tasks, t, arg);
	j->on_end = done;
	j->answer.state = a->state;
	j->note = a->note ? mem_strdup(a->note) : NULL;
	j->updated_us = ev->time_us > t->updated_us ? ev->time_us : t->updated_us;
	j->ends_us = j->updated_us + UINT64_C(1000) * TASKS_KEPT_MS;
	if (t->ends_us > j->ends_us)
		j->ends_us = t->ends_us;
	j->bytes = bytes;
	memcpy(row->id, t->id, sizeof(row->id));
	copy(row->prn, sizeof(row->prn), t->prn);
	if (j->note)
		(void)text_printable(j->note, strlen(j->note), row->note, sizeof(row->note));
	row->tenant_id = t->tenant_id;
	row->state = a->state;
	row->updated_us = j->updated_us;
	row->ends_us = j->ends_us;
	row->len = a->len;
	if (a->len)
		memcpy(row->text, a->text, a->len);
	add_fields(&with, t->id, &state, fields);
	recount(tasks, t, t->state, bytes);     /* what is on its way is kept, or will be */
	rc = writer_change(tasks->env.writer, &with, 1, &task_rows[TASK_ROWS_END], row, size, on_ended, j);
	free(row);
	if (rc < 0) {
		recount(tasks, t, t->state, 0);
		job_free(j);
	}
	return rc;
}

/* --- find, cancel */

struct task *task_by_id(struct tasks *tasks, const char *id)
{
	return map_get_z(tasks->all, id);
}

struct task *task_find(struct tasks *tasks, int64_t tenant_id, int64_t principal_id, const char *id, size_t len)
{
	char text[TASK_ID_LEN + 1] = "";
	struct task *t;

	if (len == TASK_ID_LEN)
		memcpy(text, id, len);
	t = task_by_id(tasks, text);    /* whatever it is, the same way (TK-02) */
	return t && t->tenant_id == tenant_id && t->principal_id == principal_id ? t : NULL;
}

static void on_cancel(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct job *j = arg;
	struct task *t = map_get_z(j->tasks->all, j->id);

	(void)receipt;
	if (!j->tasks->closed) {
		if (rc == 0 && t && t->stop)
			t->stop(t->run);
		j->on_done(j->arg, rc < 0 ? ERR_AUDIT : 0);
	}
	job_free(j);
}

int task_cancel(struct tasks *tasks, struct task *t, const struct audit_event *ev, task_done_fn *done, void *arg)
{
	struct audit_field fields[EVENT_FIELDS_MAX];
	struct audit_event with = *ev;
	struct job *j;
	int rc;

	if (task_is_over(t->state) || !t->stop)
		return 1;
	add_fields(&with, t->id, NULL, fields);
	j = job_new(tasks, t, arg);
	j->on_done = done;
	rc = writer_audit(tasks->env.writer, &with, on_cancel, j);
	if (rc < 0)
		job_free(j);
	return rc;
}

/* --- results */

static void result_body(void *arg)
{
	struct job *j = arg;
	struct err err = { 0 };

	j->rc = task_unseal(&j->tasks->env.place, j->id, j->tenant_id, &j->text, &err);
	if (j->rc < 0)
		log_warn(NULL, "the result of a task cannot be read task=%s error=%s", j->id, err.msg);
}

static void result_done(void *arg)
{
	struct job *j = arg;

	if (!j->tasks->closed)
		j->on_result(j->arg, j->rc < 0 ? j->rc : 0, j->rc == 1 ? str_text(&j->text) : NULL, j->text.len);
	job_free(j);
}

int task_result(struct tasks *tasks, struct task *t, task_result_fn *done, void *arg)
{
	struct job *j = job_new(tasks, t, arg);
	int rc;

	j->on_result = done;
	str_init(&j->text, 0);
	rc = ev_work(tasks->env.loop, EV_LANE_READ, result_body, result_done, j);
	if (rc < 0)
		job_free(j);
	return rc;
}

/* --- expiry */

static void expire_at(struct tasks *tasks, uint64_t ends_us)
{
	const uint64_t now = clock_wall_us(), least = UINT64_C(1000) * EXPIRY_MIN_MS;
	const uint64_t most = UINT64_C(1000) * EXPIRY_MAX_MS;
	uint64_t in = ends_us > now ? ends_us - now : 0;

	if (ev_timer_armed(tasks->expiry) || tasks->expiring)
		return;                 /* at most EXPIRY_MAX_MS from here */
	in = in < least ? least : in > most ? most : in;
	ev_timer_start(tasks->expiry, in);
}

static int expiry_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tasks *tasks = arg;

	return task_expire(tasks->expiring, db, logs, err);
}

static void expiry_done(void *arg, int rc, const struct err *err)
{
	struct tasks *tasks = arg;
	struct task_expiry *x = tasks->expiring;

	tasks->expiring = NULL;
	if (rc < 0)
		log_warn(NULL, "tasks could not be removed error=%s", err->msg);
	for (size_t i = 0; rc >= 0 && i < x->n; i++) {
		struct task *t = map_get_z(tasks->all, x->id[i]);

		if (t)
			drop(tasks, t);
	}
	if (!tasks->closed && map_count(tasks->all) > 0)
		ev_timer_start(tasks->expiry, UINT64_C(1000) *
			       (rc >= 0 && x->n == TASKS_EXPIRE_BATCH ? EXPIRY_MIN_MS : EXPIRY_MAX_MS));
	free(x);
	if (tasks->closed && list_empty(&tasks->jobs))
		tasks_free(tasks);
}

static bool any_is_due(struct tasks *tasks, uint64_t now)
{
	const void *key;
	size_t len;
	void *v;

	for (size_t it = 0; map_next(tasks->all, &it, &key, &len, &v); ) {
		const struct task *t = v;

		if (task_is_over(t->state) && t->ends_us <= now)
			return true;
	}
	return false;
}

static void on_expiry(void *arg)
{
	static const struct writer_job job = { .name = "tasks", .run = expiry_run, .done = expiry_done };
	struct tasks *tasks = arg;
	const uint64_t now = clock_wall_us();
	const int64_t offset = (int64_t)now - (int64_t)clock_mono_us();
	const bool stepped = llabs(offset - tasks->offset_us) > STEP_US;

	tasks->offset_us = offset;
	if (!stepped && any_is_due(tasks, now)) {
		tasks->expiring = mem_zalloc(sizeof(*tasks->expiring));
		tasks->expiring->now_us = now;
		if (writer_submit(tasks->env.writer, &job, tasks) == 0)
			return;
		free(tasks->expiring);
		tasks->expiring = NULL;
	}
	if (map_count(tasks->all) > 0)
		ev_timer_start(tasks->expiry, UINT64_C(1000) * EXPIRY_MAX_MS);
}

/* --- opening and closing */

static void read_one(struct tasks *tasks, struct db_stmt *st)
{
	struct task *t = task_new(db_col_text(st, 3, NULL), db_col_text(st, 4, NULL), db_col_text(st, 13, NULL));
	size_t len;
	const void *call = db_col_blob(st, 6, &len);

	db_col_copy(st, 0, t->id, sizeof(t->id));
	t->tenant_id = db_col_i64(st, 1);
	t->principal_id = db_col_i64(st, 2);
	t->state = (enum task_state)db_col_i64(st, 5);
	if (len == sizeof(t->call))
		memcpy(t->call, call, len);
	t->created_us = (uint64_t)db_col_i64(st, 7);
	t->updated_us = (uint64_t)db_col_i64(st, 8);
	t->ends_us = (uint64_t)db_col_i64(st, 9);
	t->poll_ms = (uint32_t)db_col_i64(st, 10);
	t->bytes = (uint64_t)db_col_i64(st, 12);
	task_note(t, db_col_text(st, 11, NULL));
	add(tasks, t);
}

static int read_all(struct tasks *tasks, struct err *err)
{
	char *path = path_join(tasks->env.place.store, DB_FILE);
	struct db *db = NULL;
	struct db_stmt *st;
	int rc = db_open_store(path, &db, err);

	free(path);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_TASK_LIST);
	db_bind_i64(st, 1, 0);
	while ((rc = db_step(st, err)) == 1)
		read_one(tasks, st);
	db_stmt_put(&st);
	db_close(&db);
	return rc;
}

int tasks_open(const struct task_env *env, struct tasks **ret, struct err *err)
{
	struct tasks *tasks = mem_zalloc(sizeof(*tasks));
	int rc;

	tasks->env = *env;
	tasks->all = map_new();
	tasks->owners = map_new();
	list_init(&tasks->jobs);
	tasks->expiry = ev_timer_new(env->loop, on_expiry, tasks);
	tasks->offset_us = (int64_t)clock_wall_us() - (int64_t)clock_mono_us();
	rc = read_all(tasks, err);
	if (rc < 0) {
		tasks_free(tasks);
		return rc;
	}
	if (map_count(tasks->all) > 0)
		expire_at(tasks, 0);
	*ret = tasks;
	return 0;
}

static void tasks_free(struct tasks *tasks)
{
	const void *key;
	size_t len;
	void *v;

	for (size_t it = 0; map_next(tasks->all, &it, &key, &len, &v); ) {
		free(((struct task *)v)->note);
		free(v);
	}
	for (size_t it = 0; map_next(tasks->owners, &it, &key, &len, &v); )
		free(v);
	map_free(&tasks->all);
	map_free(&tasks->owners);
	ev_timer_free(&tasks->expiry);
	free(tasks);
}

void tasks_close(struct tasks **p)
{
	struct tasks *tasks = p ? *p : NULL;

	if (!tasks)
		return;
	*p = NULL;
	tasks->closed = true;
	ev_timer_stop(tasks->expiry);
	if (list_empty(&tasks->jobs) && !tasks->expiring)
		tasks_free(tasks);      /* else whoever comes back last */
}
