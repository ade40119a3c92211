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

enum { TABLE_MIN = 64 };                /* a power of two, as every capacity */

struct who { int64_t tenant_id, principal_id; };

/* --- all of them */

static struct task gone;

static struct task **slot_of(const struct task_table *all, const char *id)
{
	for (size_t i = map_hash(id, strlen(id)) & (all->cap - 1);; i = (i + 1) & (all->cap - 1))
		if (!all->slot[i] || (all->slot[i] != &gone && strcmp(all->slot[i]->id, id) == 0))
			return &all->slot[i];
}

static struct task *table_get(const struct task_table *all, const char *id)
{
	return all->cap ? *slot_of(all, id) : NULL;
}

/* At most half full, without those that are gone. */
static void rebuild(struct task_table *all)
{
	const struct task_table old = *all;
	struct task *t;

	all->cap = TABLE_MIN;
	while (all->cap / 2 < old.n + 1)
		all->cap *= 2;
	all->slot = mem_calloc(all->cap, sizeof(*all->slot));
	all->dirty = old.n;
	for (size_t it = 0; (t = task_table_next(&old, &it)) != NULL; )
		*slot_of(all, t->id) = t;
	free(old.slot);
}

static void table_put(struct task_table *all, struct task *t)
{
	if (all->dirty + 1 > all->cap / 8 * 7)
		rebuild(all);
	*slot_of(all, t->id) = t;
	all->n++;
	all->dirty++;
}

static void table_del(struct task_table *all, const struct task *t)
{
	*slot_of(all, t->id) = &gone;
	all->n--;
}

struct task *task_table_next(const struct task_table *all, size_t *it)
{
	while (*it < all->cap) {
		struct task *t = all->slot[(*it)++];

		if (t && t != &gone)
			return t;
	}
	return NULL;
}

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
	task_owner(tasks, t->tenant_id, t->of->principal_id)->open += (size_t)by;
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
	t->bytes = (uint32_t)bytes;
	count(tasks, t, 1);
	enqueue(tasks, t);
}

/* What they have in common, of which one is kept while somebody has it. */
static struct task_kin *kin_ref(struct tasks *tasks, const struct task_kin *of)
{
	const char *const from[] = { of->prn, of->tool, of->name, of->cred };
	const char *to[NELEMS(from)];
	struct str key = STR_INIT;
	struct task_kin *kin;

	str_put(&key, (const char *)&of->principal_id, sizeof(of->principal_id));
	for (size_t i = 0; i < NELEMS(from); i++)
		str_put(&key, from[i] ? from[i] : "", (from[i] ? strlen(from[i]) : 0) + 1);
	kin = map_get(tasks->kin, key.p, key.len);
	if (!kin) {
		kin = mem_zalloc(sizeof(*kin) + key.len);
		char *text = memcpy(kin + 1, key.p, key.len);

		text += sizeof(of->principal_id);
		for (size_t i = 0; i < NELEMS(from); i++, text += strlen(text) + 1)
			to[i] = text;
		*kin = (struct task_kin){ of->principal_id, to[0], to[1], to[2], *to[3] ? to[3] : NULL, 0, key.len };
		(void)map_set(tasks->kin, key.p, key.len, kin);
	}
	str_fini(&key);
	kin->refs++;
	return kin;
}

static void kin_unref(struct tasks *tasks, struct task_kin *kin)
{
	if (--kin->refs > 0)
		return;
	(void)map_del(tasks->kin, kin + 1, kin->size);
	free(kin);
}

struct task *task_entry_new(struct tasks *tasks, const struct task_kin *kin)
{
	struct task *t = mem_zalloc(sizeof(*t));

	t->of = kin_ref(tasks, kin);
	list_init(&t->queued);
	return t;
}

void task_entry_free(struct tasks *tasks, struct task *t)
{
	kin_unref(tasks, t->of);
	free(t->note);
	free(t);
}

void task_entry_add(struct tasks *tasks, struct task *t)
{
	table_put(&tasks->all, t);
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
	table_del(&tasks->all, t);
	task_entry_free(tasks, t);
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

	while (!tasks->closed && (!(t = table_get(&tasks->all, id)) || !t->held) &&
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
	struct task *t;

	for (size_t it = 0; (t = task_table_next(&tasks->all, &it)) != NULL; )
		fn(arg, t);
}

/* --- find */

struct task *task_by_id(struct tasks *tasks, const char *id)
{
	return table_get(&tasks->all, id);
}

struct task *task_find(struct tasks *tasks, int64_t tenant_id, int64_t principal_id, const char *id, size_t len)
{
	char text[TASK_ID_LEN + 1] = "";
	struct task *t;

	if (len == TASK_ID_LEN)
		memcpy(text, id, len);
	t = task_by_id(tasks, text);    /* whatever it is, the same way (TK-02) */
	return t && t->tenant_id == tenant_id && t->of->principal_id == principal_id ? t : NULL;
}
