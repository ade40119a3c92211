/* Who watches resources of upstreams.  All that watch one over a link share what the link asks for.  A watch outlives
 * its link, which is opened again for it, and the document of its upstream; after each such gap it is told once, since
 * what happened meanwhile is not known. */
#include "config.h"

#include "slot_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ev/ev.h"

#define RETRY_US 30000000               /* when a link cannot be opened at all, or had to make way */

struct link_watch {
	struct backend_watch base;
	struct list node;               /* slot.watches, or upstreams.homeless */
	struct upstreams *all;
	struct slot *slot;              /* NULL: homeless */
	char *upstream, *tenant, *uri;  /* uri: there */
	int64_t tenant_id;
	backend_changed_fn *fn; void *arg;
	bool linked;                    /* it had a link once */
	bool due;                       /* to be told */
};

static struct link_watch *watch_of(struct list *node)
{
	return CONTAINER_OF(node, struct link_watch, node);
}

static bool is_shared(const struct link_watch *w)
{
	LIST_FOREACH(n, &w->slot->watches)
		if (watch_of(n) != w && strcmp(watch_of(n)->uri, w->uri) == 0)
			return true;
	return false;
}

static void leave(struct link_watch *w)
{
	struct slot *s = w->slot;

	list_unlink(&w->node);
	w->slot = NULL;
	if (s)
		s->nwatches--;
}

static void watch_end(struct backend_watch *base)
{
	struct link_watch *w = CONTAINER_OF(base, struct link_watch, base);
	struct slot *s = w->slot;

	if (s && s->link && !is_shared(w))
		link_unwatch(s->link, w->uri);
	leave(w);
	if (s && s->nwatches == 0 && s->link && !link_busy(s->link))
		slot_idle(s);
	free(w->upstream);
	free(w->tenant);
	free(w->uri);
	free(w);
}

/* --- telling */

static void tell_soon(struct slot *s)
{
	uint64_t now = ev_now_us(s->up->all->env.loop), due = s->told_us + UPSTREAM_UPDATE_MS * UINT64_C(1000);

	if (!ev_timer_armed(s->again))
		ev_timer_start(s->again, s->told_us && due > now ? due - now : 0);
}

void watches_updated(void *slot, const char *uri)
{
	struct slot *s = slot;
	bool any = false;

	LIST_FOREACH(n, &s->watches) {
		struct link_watch *w = watch_of(n);

		if (uri && strcmp(w->uri, uri) != 0)
			continue;
		w->due = true;
		any = true;
	}
	if (any)
		tell_soon(s);
}

static struct link_watch *first_due(const struct slot *s)
{
	LIST_FOREACH(n, &s->watches)
		if (watch_of(n)->due)
			return watch_of(n);
	return NULL;
}

static void tell(struct slot *s)
{
	s->told_us = ev_now_us(s->up->all->env.loop);
	for (struct link_watch *w; (w = first_due(s)); ) {
		w->due = false;
		w->fn(w->arg);
	}
}

/* --- links */

void watches_opened(struct slot *s)
{
	LIST_FOREACH(n, &s->watches) {
		struct link_watch *w = watch_of(n);

		link_watch(s->link, w->uri);
		w->due = w->linked;
		w->linked = true;
	}
	if (s->nwatches > 0)
		tell_soon(s);
}

void watches_reopen(struct slot *s)
{
	uint64_t now = ev_now_us(s->up->all->env.loop);

	if (s->nwatches > 0)
		ev_timer_start(s->again, s->next_try_us > now ? s->next_try_us - now : 0);
}

void watches_wait(struct slot *s)
{
	if (s->nwatches > 0)
		ev_timer_start(s->again, RETRY_US);
}

void watches_late(void *slot)
{
	struct slot *s = slot;
	struct err err;

	if (s->link)
		tell(s);
	else if (s->nwatches > 0 && slot_open(s, false, &err) < 0)
		watches_wait(s);
}

/* --- homes */

static int settle(struct link_watch *w, struct err *err)
{
	struct slot *s = NULL;
	int rc = upstream_slot(w->all, w->upstream, w->tenant_id, w->tenant, &s, err);

	if (rc < 0)
		return rc;
	if (s->nwatches == UPSTREAM_WATCHES_MAX)
		return err_set(err, ERR_LIMIT, "", "more than %d of its resources are watched", UPSTREAM_WATCHES_MAX);
	list_unlink(&w->node);
	list_push_back(&s->watches, &w->node);
	s->nwatches++;
	w->slot = s;
	if (!s->link) {
		watches_reopen(s);
		return 0;
	}
	link_watch(s->link, w->uri);
	if (w->linked)
		watches_updated(s, w->uri);
	w->linked = true;
	return 0;
}

void watches_find_homes(void *upstreams)
{
	struct upstreams *u = upstreams;
	struct err err;

	LIST_FOREACH_SAFE(n, next, &u->homeless)
		(void)settle(watch_of(n), &err); /* else it waits for the next change */
}

void watches_rehome(struct upstreams *u)
{
	if (!list_empty(&u->homeless) && !ev_timer_armed(u->rehome))
		ev_timer_start(u->rehome, 0);
}

void watches_leave(struct slot *s)
{
	struct upstreams *u = s->up->all;

	LIST_FOREACH_SAFE(n, next, &s->watches) {
		struct link_watch *w = watch_of(n);

		leave(w);
		list_push_back(&u->homeless, &w->node);
	}
	watches_rehome(u);
}

int upstreams_watch(struct upstreams *u, const char *name, const char *uri, const struct backend_watch_req *req,
		    struct backend_watch **ret, struct err *err)
{
	struct link_watch *w = mem_zalloc(sizeof(*w));
	struct err why;

	w->base.end = watch_end;
	w->all = u;
	w->upstream = mem_strdup(name);
	w->tenant = mem_strdup(req->tenant);
	w->tenant_id = req->tenant_id;
	w->uri = mem_strdup(uri);
	w->fn = req->fn;
	w->arg = req->arg;
	list_push_back(&u->homeless, &w->node);
	int rc = settle(w, &why);
	if (rc == ERR_LIMIT) {
		if (err)
			*err = why;
		watch_end(&w->base);
		return rc;
	}
	*ret = &w->base;        /* one that finds no home now has one as soon as its upstream is there */
	return 0;
}
