/* Changes of tasks: what goes to the writer (rows.c) as one item with its records, and comes back to the index when it
 * is durable; their expiry; opening and closing.  Loop thread. */

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
#include "base/text.h"
#include "db/db.h"
#include "ev/ev.h"

#include "task_int.h"

enum { EXPIRY_MIN_MS = 1000, EXPIRY_MAX_MS = 60000 };
#define STEP_US INT64_C(3600000000)     /* a clock that was set by more ends nothing at once */
#define EVENT_FIELDS_MAX 8

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
	struct task_move move;          /* of a move; no texts */
	bool body;                      /* of a result: what another round needs instead */
	char *note;
	uint64_t ends_us, updated_us, bytes, before;
	uint8_t call[16];
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

/* The events with the id; state: in which it ends, said by the last one. */
struct told {
	struct audit_event ev[WRITER_CHANGE_EVENTS];
	struct audit_field fields[WRITER_CHANGE_EVENTS][EVENT_FIELDS_MAX];
};

static void tell(const struct task *t, const struct audit_event *ev, size_t n, const uint8_t *state, struct told *ret)
{
	for (size_t i = 0; i < n && i < WRITER_CHANGE_EVENTS; i++) {
		ret->ev[i] = ev[i];
		add_fields(&ret->ev[i], t->id, i + 1 == n ? state : NULL, ret->fields[i]);
	}
}

/* A row with what stands behind it. */
static void *row_new(size_t size, struct task_more *more, const struct writer_rows *also, const void *bytes,
		     size_t nbytes, const char *body, size_t len)
{
	char *row = mem_zalloc(size + nbytes + len);

	*more = (struct task_more){ also, nbytes, len };
	if (nbytes)
		memcpy(row + size, bytes, nbytes);
	if (len)
		memcpy(row + size + nbytes, body, len);
	return row;
}

static void copy(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from ? from : "");       /* they fit: AUDIT A-409 */
}

static void copy_note(char to[TASK_NOTE_MAX + 1], const char *note)
{
	if (note)
		(void)text_printable(note, strlen(note), to, TASK_NOTE_MAX + 1);
}

static uint64_t sealed_bytes(size_t len)
{
	return len ? len + AEAD_TAG : 0;
}

static void expire_at(struct tasks *tasks, uint64_t ends_us);

void tasks_on_change(struct tasks *tasks, task_changed_fn *fn, void *arg)
{
	tasks->changed = fn;
	tasks->changed_arg = arg;
}

/* was: before. */
static void tell_changed(struct job *j, enum task_state was)
{
	struct task *t = j->tasks->closed ? NULL : task_by_id(j->tasks, j->id);

	if (t && j->tasks->changed && strcmp(task_status(was), task_status(t->state)) != 0)
		j->tasks->changed(j->tasks->changed_arg, t, true);
}

void task_says(struct tasks *tasks, struct task *t, const char *note)
{
	char *was = t->note;
	bool other;

	t->note = NULL;
	task_note(t, note);
	other = t->note && (!was || strcmp(was, t->note) != 0);
	free(was);
	if (other && tasks->changed && !tasks->closed)
		tasks->changed(tasks->changed_arg, t, false);
}

/* --- create */

static void on_made(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct job *j = arg;
	struct task *t = j->made;

	(void)receipt;
	if (rc == 0) {
		metric_inc(METRIC_tasks_made);
		t->held = false;
		if (!j->tasks->closed)
			expire_at(j->tasks, t->ends_us);
	} else {
		task_entry_drop(j->tasks, t);
		t = NULL;
	}
	if (!j->tasks->closed)
		j->on_made(j->arg, rc, t);
	job_free(j);
}

bool task_room(struct tasks *tasks, int64_t tenant_id, int64_t principal_id)
{
	const struct task_owner *tenant = task_owner(tasks, tenant_id, 0);

	if (tasks->all.n < tasks->env.max && tenant->open < TASKS_TENANT_MAX && tenant->bytes < tasks->env.bytes &&
	    task_owner(tasks, tenant_id, principal_id)->open < TASKS_PRINCIPAL_MAX)
		return true;
	metric_inc(METRIC_tasks_refused);
	return false;
}

static struct task *task_of(struct tasks *tasks, const struct task_new *n, uint64_t now_us)
{
	const struct task_kin kin = { .principal_id = n->principal_id, .prn = n->prn, .tool = n->tool, .name = n->name,
				      .cred = n->cred };
	struct task *t = task_entry_new(tasks, &kin);

	id_random_text(t->id, TASK_ID_LEN);
	t->state = n->state ? n->state : TASK_WORKING;
	t->tenant_id = n->tenant_id;
	memcpy(t->call, n->call, sizeof(t->call));
	t->created_us = t->updated_us = now_us;
	t->ends_us = now_us + n->ttl_ms * 1000;
	t->poll_ms = n->poll_ms;
	t->bytes = (uint32_t)sealed_bytes(n->len);
	t->stop = n->stop;
	t->run = n->run;
	task_note(t, n->note);
	return t;
}

static struct task_add *row_of(const struct task *t, const struct task_new *n)
{
	struct task_more more;
	struct task_add *row = row_new(sizeof(*row), &more, n->also, n->bytes, n->nbytes, n->body, n->len);

	row->more = more;
	memcpy(row->id, t->id, sizeof(row->id));
	copy(row->prn, sizeof(row->prn), n->prn);
	copy(row->cred, sizeof(row->cred), n->cred);
	copy(row->tool, sizeof(row->tool), n->tool);
	copy(row->name, sizeof(row->name), n->name);
	copy_note(row->note, n->note);
	memcpy(row->tdef, n->tdef, sizeof(row->tdef));
	memcpy(row->call, n->call, sizeof(row->call));
	row->tenant_id = n->tenant_id;
	row->principal_id = n->principal_id;
	row->created_us = t->created_us;
	row->ends_us = t->ends_us;
	row->poll_ms = t->poll_ms;
	row->state = t->state;
	row->rerun = n->rerun;
	return row;
}

int task_create(struct tasks *tasks, const struct task_new *task, const struct audit_event *ev, size_t n,
		task_made_fn *done, void *arg)
{
	struct task_add *row;
	struct told told;
	struct job *j;
	struct task *t;
	int rc = task_room(tasks, task->tenant_id, task->principal_id) ? 0 : ERR_LIMIT;

	if (rc < 0)
		return rc;
	t = task_of(tasks, task, ev->time_us);
	row = row_of(t, task);
	tell(t, ev, n, NULL, &told);
	j = job_new(tasks, t, arg);
	j->made = t;
	j->on_made = done;
	t->held = true;                 /* counted, and nobody knows its name yet */
	task_entry_add(tasks, t);
	rc = writer_change(tasks->env.writer, told.ev, n, &task_rows[TASK_ROWS_ADD], row,
			   sizeof(*row) + task->nbytes + task->len, on_made, j);
	free(row);
	if (rc < 0) {
		task_entry_drop(tasks, t);
		job_free(j);
	}
	return rc;
}

/* --- from one state to another */

static void on_moved(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct job *j = arg;
	struct task *t = task_by_id(j->tasks, j->id);
	const enum task_state was = t ? t->state : TASK_WORKING;

	if (t && rc == 0) {
		task_recount(j->tasks, t, j->move.state, j->bytes);
		t->updated_us = j->updated_us;
		t->round = j->move.round;
		if (j->move.call)
			memcpy(t->call, j->call, sizeof(t->call));
		task_note(t, j->note);
		if (!j->tasks->closed)
			expire_at(j->tasks, t->ends_us);
	} else if (t) {
		task_recount(j->tasks, t, t->state, j->before);
	}
	if (!j->tasks->closed)
		j->on_end(j->arg, rc, receipt);
	tell_changed(j, was);
	job_free(j);
}

static uint64_t later_us(const struct task *t, uint64_t now_us)
{
	return now_us > t->updated_us ? now_us : t->updated_us;
}

/* ERR_LIMIT: so many bytes instead of those that are kept of it are too many. */
static int check_bytes(struct tasks *tasks, const struct task *t, size_t len)
{
	const uint64_t others = task_owner(tasks, t->tenant_id, 0)->bytes - t->bytes;

	if (len <= TASK_SMALL || others + sealed_bytes(len) <= tasks->env.bytes)
		return 0;
	metric_inc(METRIC_tasks_unkept);
	return ERR_LIMIT;
}

static struct task_set *set_of(const struct task *t, const struct task_move *m, uint64_t now_us)
{
	struct task_more more;
	struct task_set *row = row_new(sizeof(*row), &more, m->also, m->bytes, m->nbytes, m->body, m->len);

	row->more = more;
	memcpy(row->id, t->id, sizeof(row->id));
	copy(row->prn, sizeof(row->prn), t->of->prn);
	copy_note(row->note, m->note);
	row->tenant_id = t->tenant_id;
	row->state = m->state;
	row->round = m->round;
	row->updated_us = now_us;
	row->has_call = m->call != NULL;
	if (m->call)
		memcpy(row->call, m->call, sizeof(row->call));
	row->has_body = m->body != NULL;
	return row;
}

int task_move(struct tasks *tasks, struct task *t, const struct audit_event *ev, size_t n, const struct task_move *m,
	      writer_audit_fn *done, void *arg)
{
	struct task_set *row;
	struct told told;
	struct job *j;
	int rc = m->body ? check_bytes(tasks, t, m->len) : 0;

	if (rc < 0)
		return rc;
	if (task_is_parked(m->state)) {
		t->run = NULL;
		t->stop = NULL;
	}
	j = job_new(tasks, t, arg);
	j->on_end = done;
	j->move = *m;
	j->note = m->note ? mem_strdup(m->note) : NULL;
	j->updated_us = later_us(t, ev->time_us);
	j->before = t->bytes;
	j->bytes = m->body ? sealed_bytes(m->len) : t->bytes;
	if (m->call)
		memcpy(j->call, m->call, sizeof(j->call));
	row = set_of(t, m, j->updated_us);
	tell(t, ev, n, NULL, &told);
	task_recount(tasks, t, t->state, j->bytes);          /* what is on its way is kept, or will be */
	rc = writer_change(tasks->env.writer, told.ev, n, &task_rows[TASK_ROWS_MOVE], row,
			   sizeof(*row) + m->nbytes + m->len, on_moved, j);
	free(row);
	if (rc < 0) {
		task_recount(tasks, t, t->state, j->before);
		job_free(j);
	}
	return rc;
}

/* --- end */

static void on_ended(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct job *j = arg;
	struct task *t = task_by_id(j->tasks, j->id);
	const enum task_state was = t ? t->state : TASK_WORKING;

	if (t)
		task_recount(j->tasks, t, rc == 0 ? j->answer.state : t->state, rc == 0 ? j->bytes : j->before);
	if (rc == 0 && t) {
		t->updated_us = j->updated_us;
		t->ends_us = j->ends_us;
		task_note(t, j->note);
		if (!j->tasks->closed)
			expire_at(j->tasks, t->ends_us);
	}
	if (!j->tasks->closed)
		j->on_end(j->arg, rc, receipt);
	tell_changed(j, was);
	job_free(j);
}

static struct task_finish *finish_of(const struct task *t, const struct task_answer *a, const struct job *j,
				     size_t size)
{
	struct task_finish *row = mem_zalloc(size > sizeof(*row) ? size : sizeof(*row));

	memcpy(row->id, t->id, sizeof(row->id));
	copy(row->prn, sizeof(row->prn), t->of->prn);
	copy_note(row->note, j->note);
	row->tenant_id = t->tenant_id;
	row->state = a->state;
	row->updated_us = j->updated_us;
	row->ends_us = j->ends_us;
	row->len = a->len;
	if (a->len)
		memcpy(row->text, a->text, a->len);
	return row;
}

int task_end(struct tasks *tasks, struct task *t, const struct audit_event *ev, size_t n, const struct task_answer *a,
	     writer_audit_fn *done, void *arg)
{
	const size_t size = offsetof(struct task_finish, text) + a->len;
	const uint8_t state = (uint8_t)a->state;
	struct task_finish *row;
	struct told told;
	struct job *j;
	int rc;

	t->run = NULL;
	t->stop = NULL;
	rc = check_bytes(tasks, t, a->len);
	if (rc < 0)
		return rc;
	j = job_new(tasks, t, arg);
	j->on_end = done;
	j->answer.state = a->state;
	j->note = a->note ? mem_strdup(a->note) : NULL;
	j->updated_us = later_us(t, ev->time_us);
	j->ends_us = j->updated_us + UINT64_C(1000) * TASKS_KEPT_MS;
	if (t->ends_us > j->ends_us)
		j->ends_us = t->ends_us;
	j->before = t->bytes;
	j->bytes = sealed_bytes(a->len);
	row = finish_of(t, a, j, size);
	tell(t, ev, n, &state, &told);
	task_recount(tasks, t, t->state, j->bytes);  /* what is on its way is kept, or will be */
	rc = writer_change(tasks->env.writer, told.ev, n, &task_rows[TASK_ROWS_END], row, size, on_ended, j);
	free(row);
	if (rc < 0) {
		task_recount(tasks, t, t->state, j->before);
		job_free(j);
	}
	return rc;
}

/* --- cancel */

static void on_cancel(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct job *j = arg;
	struct task *t = task_by_id(j->tasks, j->id);

	(void)receipt;
	if (!j->tasks->closed) {
		if (rc == 0 && t && t->stop)
			t->stop(t->run);
		j->on_done(j->arg, rc < 0 ? ERR_AUDIT : 0);
	}
	job_free(j);
}

/* One that was parked has ended, or has not. */
static void on_parked_end(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct job *j = arg;
	struct task *t = task_by_id(j->tasks, j->id);

	(void)receipt;
	if (!j->tasks->closed) {
		if (t)
			task_unhold(j->tasks, t);
		if (j->on_done)
			j->on_done(j->arg, rc < 0 ? ERR_AUDIT : 0);
	}
	job_free(j);
}

/* why: what the caller is told; ev: what led to it, or NULL. */
static int end_parked(struct tasks *tasks, struct task *t, const struct audit_event *ev, const char *why, struct job *j)
{
	const struct task_answer a = { .state = TASK_CANCELLED, .note = why };
	struct audit_event both[2];
	size_t n = 0;
	int rc;

	if (ev)
		both[n++] = *ev;
	audit_event_init(&both[n], AUDIT_TASK_END, t->tenant_id);
	both[n].actor = AUDIT_BY_SYSTEM;
	both[n].prn = t->of->prn;
	both[n].cred = t->of->cred;
	both[n].tool = t->of->tool;
	both[n].has_prev = true;
	memcpy(both[n].prev, t->call, sizeof(both[n].prev));
	n++;
	t->held = true;
	rc = task_end(tasks, t, both, n, &a, on_parked_end, j);
	if (rc < 0)
		t->held = false;
	return rc;
}

static int cancel_now(struct tasks *tasks, struct task *t, const struct audit_event *ev, task_done_fn *done, void *arg)
{
	struct audit_field fields[EVENT_FIELDS_MAX];
	struct audit_event with = *ev;
	struct job *j;
	int rc;

	if (task_is_over(t->state) || (!t->stop && !task_is_parked(t->state)))
		return 1;
	j = job_new(tasks, t, arg);
	j->on_done = done;
	if (t->stop) {
		add_fields(&with, t->id, NULL, fields);
		rc = writer_audit(tasks->env.writer, &with, on_cancel, j);
	} else {
		rc = end_parked(tasks, t, ev, TASK_CANCEL_TEXT, j);
	}
	if (rc < 0)
		job_free(j);
	return rc;
}

/* A cancel that waits until what is on its way has come. */
struct cancel {
	struct tasks *tasks;
	char id[TASK_ID_LEN + 1];
	struct audit_event ev;
	task_done_fn *done;
	void *arg;
};

static void cancel_later(void *arg)
{
	struct cancel c = *(struct cancel *)arg;
	struct task *t = task_by_id(c.tasks, c.id);
	int rc = t ? cancel_now(c.tasks, t, &c.ev, c.done, c.arg) : 1;

	free(arg);
	if (rc != 0)
		c.done(c.arg, rc < 0 ? rc : 0);
}

int task_cancel(struct tasks *tasks, struct task *t, const struct audit_event *ev, task_done_fn *done, void *arg)
{
	struct cancel *c;
	int rc;

	if (!t->held)
		return cancel_now(tasks, t, ev, done, arg);
	c = mem_zalloc(sizeof(*c));
	*c = (struct cancel){ .tasks = tasks, .ev = *ev, .done = done, .arg = arg };
	memcpy(c->id, t->id, sizeof(c->id));
	rc = task_wait(tasks, t, cancel_later, c);
	if (rc < 0)
		free(c);
	return rc;
}

/* --- results */

static void result_body(void *arg)
{
	struct job *j = arg;
	struct err err = { 0 };

	j->rc = task_unseal(&j->tasks->readers, &j->tasks->env.place, j->id, j->tenant_id, j->body, &j->text, &err);
	if (j->rc < 0)
		log_warn(NULL, "what is sealed of a task cannot be read task=%s error=%s", j->id, err.msg);
}

static void result_done(void *arg)
{
	struct job *j = arg;

	if (!j->tasks->closed)
		j->on_result(j->arg, j->rc < 0 ? j->rc : 0, j->rc == 1 ? str_text(&j->text) : NULL, j->text.len);
	job_free(j);
}

static int read_sealed(struct tasks *tasks, struct task *t, bool body, task_result_fn *done, void *arg)
{
	struct job *j = job_new(tasks, t, arg);
	int rc;

	j->body = body;
	j->on_result = done;
	str_init(&j->text, 0);
	rc = ev_work(tasks->env.loop, EV_LANE_READ, result_body, result_done, j);
	if (rc < 0)
		job_free(j);
	return rc;
}

int task_result(struct tasks *tasks, struct task *t, task_result_fn *done, void *arg)
{
	return read_sealed(tasks, t, false, done, arg);
}

int task_body(struct tasks *tasks, struct task *t, task_result_fn *done, void *arg)
{
	return read_sealed(tasks, t, true, done, arg);
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
		struct task *t = task_by_id(tasks, x->id[i]);

		if (t)
			task_entry_drop(tasks, t);
	}
	if (!tasks->closed && tasks->all.n > 0)
		ev_timer_start(tasks->expiry, UINT64_C(1000) *
			       (rc >= 0 && x->n == TASKS_EXPIRE_BATCH ? EXPIRY_MIN_MS : EXPIRY_MAX_MS));
	free(x);
	if (tasks->closed && list_empty(&tasks->jobs))
		tasks_free(tasks);
}

static bool any_is_due(struct tasks *tasks, uint64_t now)
{
	const struct task *t;

	for (size_t it = 0; (t = task_table_next(&tasks->all, &it)) != NULL; )
		if (task_is_over(t->state) && t->ends_us <= now)
			return true;
	return false;
}

/* TK-12: those that are parked and have no time left. */
static void end_late(struct tasks *tasks, uint64_t now)
{
	struct task *t;
	size_t n = 0;

	for (size_t it = 0; n < TASKS_EXPIRE_BATCH && (t = task_table_next(&tasks->all, &it)) != NULL; ) {
		struct job *j;

		if (!task_is_parked(t->state) || t->ends_us > now || t->held || t->run)
			continue;
		j = job_new(tasks, t, NULL);
		if (end_parked(tasks, t, NULL, TASK_LATE_TEXT, j) < 0) {
			job_free(j);
			return;         /* at the next look */
		}
		n++;
	}
}

static void on_expiry(void *arg)
{
	static const struct writer_job job = { .name = "tasks", .run = expiry_run, .done = expiry_done };
	struct tasks *tasks = arg;
	const uint64_t now = clock_wall_us();
	const int64_t offset = (int64_t)now - (int64_t)clock_mono_us();
	const bool stepped = llabs(offset - tasks->offset_us) > STEP_US;

	tasks->offset_us = offset;
	if (!stepped)
		end_late(tasks, now);
	if (!stepped && any_is_due(tasks, now)) {
		tasks->expiring = mem_zalloc(sizeof(*tasks->expiring));
		tasks->expiring->now_us = now;
		if (writer_submit(tasks->env.writer, &job, tasks) == 0)
			return;
		free(tasks->expiring);
		tasks->expiring = NULL;
	}
	if (tasks->all.n > 0)
		ev_timer_start(tasks->expiry, UINT64_C(1000) * EXPIRY_MAX_MS);
}

/* --- opening and closing */

static void read_one(struct tasks *tasks, struct db_stmt *st)
{
	const struct task_kin kin = { .principal_id = db_col_i64(st, 2), .prn = db_col_text(st, 3, NULL),
				      .tool = db_col_text(st, 4, NULL), .name = db_col_text(st, 13, NULL),
				      .cred = db_col_text(st, 15, NULL) };
	struct task *t = task_entry_new(tasks, &kin);
	size_t len;
	const void *call = db_col_blob(st, 6, &len);

	db_col_copy(st, 0, t->id, sizeof(t->id));
	t->tenant_id = db_col_i64(st, 1);
	t->state = (enum task_state)db_col_i64(st, 5);
	if (t->state == TASK_FAR)       /* nobody follows it any more */
		t->state = TASK_QUEUED;
	if (len == sizeof(t->call))
		memcpy(t->call, call, len);
	t->created_us = (uint64_t)db_col_i64(st, 7);
	t->updated_us = (uint64_t)db_col_i64(st, 8);
	t->ends_us = (uint64_t)db_col_i64(st, 9);
	t->poll_ms = (uint32_t)db_col_i64(st, 10);
	t->bytes = (uint32_t)db_col_i64(st, 12);
	t->round = (unsigned)db_col_i64(st, 14) & UINT16_MAX;
	task_note(t, db_col_text(st, 11, NULL));
	task_entry_add(tasks, t);
}

static int read_all(struct tasks *tasks, struct err *err)
{
	struct db *db = tasks->env.db, *own = NULL;
	struct db_stmt *st;
	int rc = db ? 0 : db_open_store(db_in(tasks->env.place.store), &own, err);

	tasks->env.db = NULL;
	if (rc < 0)
		return rc;
	st = db_stmt_get(db ? db : own, SQL_TASK_LIST);

	db_bind_i64(st, 1, 0);
	while ((rc = db_step(st, err)) == 1)
		read_one(tasks, st);
	db_stmt_put(&st);
	db_close(&own);
	return rc;
}

int tasks_open(const struct task_env *env, struct tasks **ret, struct err *err)
{
	struct tasks *tasks = mem_zalloc(sizeof(*tasks));
	int rc;

	tasks->env = *env;
	tasks->env.max = env->max ? env->max : TASKS_MAX;
	tasks->env.bytes = env->bytes ? env->bytes : TASKS_BYTES_MAX;
	tasks->kin = map_new();
	tasks->owners = map_new();
	list_init(&tasks->jobs);
	list_init(&tasks->queue);
	list_init(&tasks->waiters.all);
	(void)pthread_mutex_init(&tasks->readers.lock, NULL);
	tasks->expiry = ev_timer_new(env->loop, on_expiry, tasks);
	tasks->offset_us = (int64_t)clock_wall_us() - (int64_t)clock_mono_us();
	rc = read_all(tasks, err);
	if (rc < 0) {
		tasks_free(tasks);
		return rc;
	}
	if (tasks->all.n > 0)
		expire_at(tasks, 0);
	*ret = tasks;
	return 0;
}

static void tasks_free(struct tasks *tasks)
{
	const void *key;
	struct task *t;
	size_t len;
	void *v;

	for (size_t it = 0; (t = task_table_next(&tasks->all, &it)) != NULL; )
		task_entry_free(tasks, t);
	for (size_t it = 0; map_next(tasks->owners, &it, &key, &len, &v); )
		free(v);
	LIST_FOREACH_SAFE(link, tmp, &tasks->waiters.all)
		free(CONTAINER_OF(link, struct task_waiter, link));
	task_readers_fini(&tasks->readers);
	free(tasks->all.slot);
	map_free(&tasks->kin);
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
