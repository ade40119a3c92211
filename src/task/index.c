/* The index of tasks: an entry says what the newest durable row says, and is counted for its tenant and principal; who
 * holds one, and who waits for it.  tasks.c keeps it as the rows are.  Loop thread. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"

#include "task_int.h"

struct who { int64_t tenant_id, principal_id; };

/* --- entries and what is counted of them */

struct task_owner *task_owner(struct tasks *tasks, int64_t tenant_id, int64_t principal_id)
{
	const struct who who = { tenant_id, principal_id };
	struct task_owner *o = map_get(tasks->owners, &who, sizeof(who));

	if (!o) {
		o = mem_zalloc(sizeof(*o));
		(void)map_set(tasks->owners, &who, sizeof(who), o);
	}
	return o;
}

/* by: 1 or -1 */
static void count(struct tasks *tasks, const struct task *t, int by)
{
	struct task_owner *tenant = task_owner(tasks, t->tenant_id, 0);

	tenant->bytes = by > 0 ? tenant->bytes + t->bytes : tenant->bytes - t->bytes;
	if (task_is_over(t->state))
		return;
	tenant->open += (size_t)by;
	task_owner(tasks, t->tenant_id, t->principal_id)->open += (size_t)by;
	if (by > 0)
		metric_inc(METRIC_tasks_open);
	else
		metric_dec(METRIC_tasks_open);
}

static void enqueue(struct tasks *tasks, struct task *t)
{
	const bool is = !list_empty(&t->queued), should = t->state == TASK_QUEUED || (t->state == TASK_HELD && !t->rests);

	if (is == should)
		return;
	if (should)
		list_push_back(&tasks->queue, &t->queued);
	else
		list_unlink(&t->queued);
	tasks->queued = should ? tasks->queued + 1 : tasks->queued - 1;
}

void task_look(struct tasks *tasks, struct task *t, bool due)
{
	t->rests = !due;
	enqueue(tasks, t);
}

void task_recount(struct tasks *tasks, struct task *t, enum task_state state, uint64_t bytes)
{
	count(tasks, t, -1);
	t->state = state;
	t->bytes = bytes;
	count(tasks, t, 1);
	enqueue(tasks, t);
}

struct task *task_entry_new(const char *prn, const char *tool, const char *name, const char *cred)
{
	const char *const from[] = { prn, tool, name, cred };
	const char *to[NELEMS(from)] = { NULL };
	size_t size = 0;
	struct task *t;
	char *text;

	for (size_t i = 0; i < NELEMS(from); i++)
		size += from[i] ? strlen(from[i]) + 1 : 0;
	t = mem_zalloc(sizeof(*t) + size);
	text = (char *)(t + 1);
	for (size_t i = 0; i < NELEMS(from); i++) {
		if (!from[i] || !*from[i])
			continue;
		to[i] = memcpy(text, from[i], strlen(from[i]) + 1);
		text += strlen(from[i]) + 1;
	}
	t->prn = to[0] ? to[0] : "";
	t->tool = to[1] ? to[1] : "";
	t->name = to[2] ? to[2] : "";
	t->cred = to[3];
	list_init(&t->queued);
	return t;
}

void task_entry_add(struct tasks *tasks, struct task *t)
{
	(void)map_set_z(tasks->all, t->id, t);
	count(tasks, t, 1);
	enqueue(tasks, t);
}

static void wake(struct tasks *tasks, const char *id);

void task_entry_drop(struct tasks *tasks, struct task *t)
{
	char id[TASK_ID_LEN + 1];

	memcpy(id, t->id, sizeof(id));
	count(tasks, t, -1);
	if (!list_empty(&t->queued))
		tasks->queued--;
	list_unlink(&t->queued);
	(void)map_del_z(tasks->all, t->id);
	free(t->note);
	free(t);
	wake(tasks, id);
}

void task_note(struct task *t, const char *note)
{
	char text[TASK_NOTE_MAX + 1];

	free(t->note);
	t->note = note && *note ? mem_strdup(text_printable(note, strlen(note), text, sizeof(text))) : NULL;
}

/* --- one change after the other */

/* Whoever waits for it, until somebody holds it. */
static void wake(struct tasks *tasks, const char *id)
{
	struct task_waiter *w, called;
	const struct task *t;

	while (!tasks->closed && (!(t = map_get_z(tasks->all, id)) || !t->held) &&
	       (w = task_waiter_of(&tasks->waiters, id)) != NULL) {
		called = *w;
		list_unlink(&w->link);
		tasks->waiters.n--;
		free(w);
		called.fn(called.arg);
	}
}

void task_unhold(struct tasks *tasks, struct task *t)
{
	char id[TASK_ID_LEN + 1];

	memcpy(id, t->id, sizeof(id));
	t->held = false;
	wake(tasks, id);
}

int task_wait(struct tasks *tasks, struct task *t, void (*fn)(void *arg), void *arg)
{
	struct task_waiter *w;

	if (tasks->waiters.n >= TASK_WAITERS_MAX)
		return ERR_BUSY;
	w = mem_zalloc(sizeof(*w));
	memcpy(w->id, t->id, sizeof(w->id));
	w->fn = fn;
	w->arg = arg;
	list_push_back(&tasks->waiters.all, &w->link);
	tasks->waiters.n++;
	return 0;
}

struct task *tasks_next(struct tasks *tasks)
{
	struct task *t;

	if (list_empty(&tasks->queue))
		return NULL;
	t = CONTAINER_OF(tasks->queue.next, struct task, queued);
	list_unlink(&t->queued);
	list_push_back(&tasks->queue, &t->queued);
	return t;
}

size_t tasks_queued(const struct tasks *tasks)
{
	return tasks->queued;
}

void tasks_each(struct tasks *tasks, task_each_fn *fn, void *arg)
{
	const void *key;
	size_t len;
	void *v;

	for (size_t it = 0; map_next(tasks->all, &it, &key, &len, &v); )
		fn(arg, v);
}

/* --- find */

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
