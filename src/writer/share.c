/* A writer that shares its store, as the loop has it: beats, what other nodes have changed, and calls that wait until
 * it is shown here.  Called by the app, and by writer.c through what writer_share_start() has put into struct wnode.
 * Loop thread. */

#include "config.h"

#include "base/log.h"
#include "base/mem.h"
#include "ev/ev.h"

#include "writer_int.h"

enum { BEAT_US = 500000 };

bool writer_is_shared(const struct writer *w)
{
	return w->node != NULL;
}

static bool holds(const struct writer *w)
{
	return w->node->on_change && (int64_t)atomic_load(&w->node->foreign) > w->node->applied;
}

static void look(struct writer *w)
{
	if (!holds(w) || w->node->looking)
		return;
	w->node->looking = true;
	w->node->on_change(w->node->on_change_arg, (int64_t)atomic_load(&w->node->foreign));
}

/* Calls whose begin is durable go on. */
static void release(struct writer *w)
{
	while (!list_empty(&w->node->waiting))
		w->node->finish(w, CONTAINER_OF(w->node->waiting.next, struct witem, waiting), false);
}

/* They have waited too long: their begins are late (AUDIT A-210). */
static void expire(struct writer *w)
{
	const uint64_t now = ev_now_us(w->loop);

	LIST_FOREACH_SAFE(n, next, &w->node->waiting) {
		struct witem *it = CONTAINER_OF(n, struct witem, waiting);

		if (it->due_us <= now)
			w->node->finish(w, it, true);
	}
}

static void beat_done(void *arg, int rc, const struct err *err)
{
	struct writer *w = arg;

	w->node->beating = false;
	if (rc == 0 && w->node->took) {
		log_info(NULL, "this node keeps the store from now on");
		atomic_store(&w->node->keeper, true);
		if (w->node->on_keeper)
			w->node->on_keeper(w->node->on_keeper_arg);
	}
	if (rc == 0 && (w->node->took || w->node->buried) && w->node->on_inherit)
		w->node->on_inherit(w->node->on_inherit_arg);
	if (rc == 0 && atomic_exchange(&w->node->grew, false) && w->on_records)
		w->on_records(w->on_records_arg);
	if (rc < 0 && rc != ERR_AUDIT && rc != ERR_BUSY)
		log_warn(NULL, "a beat of this node failed why=\"%s\"", err->msg);
}

static void on_beat(void *arg)
{
	static const struct writer_job job = { .name = "beat of the node", .run = wnode_beat, .volatile_only = true,
					       .done = beat_done };
	struct writer *w = arg;

	if (!w->node->beating && writer_submit(w, &job, w) == 0)
		w->node->beating = true;
	look(w);
	expire(w);
	ev_timer_start(w->node->beat, BEAT_US);
}

void writer_share_start(struct writer *w, void (*changed)(void *arg, int64_t version), void *arg)
{
	struct wnode *n = w->node;

	if (!n)
		return;
	n->on_change = changed;
	n->on_change_arg = arg;
	if (n->beat) {                  /* nobody hears it any more */
		release(w);
		return;
	}
	n->holds = holds;
	n->look = look;
	n->release = release;
	n->beat = ev_timer_new(w->loop, on_beat, w);
	ev_timer_start(n->beat, BEAT_US);
}

void writer_on_keeper(struct writer *w, void (*fn)(void *arg), void *arg)
{
	if (!w->node)
		return;
	w->node->on_keeper = fn;
	w->node->on_keeper_arg = arg;
}

void writer_on_inherit(struct writer *w, void (*fn)(void *arg), void *arg)
{
	if (!w->node)
		return;
	w->node->on_inherit = fn;
	w->node->on_inherit_arg = arg;
}

void writer_share_applied(struct writer *w, int64_t version)
{
	w->node->looking = false;
	if (version <= w->node->applied)        /* it failed; the next beat asks again */
		return;
	w->node->applied = version;
	look(w);
	if (!holds(w))
		release(w);
}
