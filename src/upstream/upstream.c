/* The upstreams that are known, the links to them and who watches resources over these: one link for each tenant that
 * uses one, or one for all (SEC S-515), or one for each call where nothing else says whose a question is (HARDENING
 * F-3); opened by the first call, ended when idle, opened again with a growing delay when it broke.  The app and
 * commands set upstreams, mcp.c asks for links; loop thread. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/secrets.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "db/db.h"
#include "ev/ev.h"
#include "keys/secrets.h"

#include "link_int.h"

struct upstream {
	struct list node;
	struct upstreams *all;
	struct upstream_conf *conf;
	bool enabled;
	bool gone;                      /* replaced or removed: freed with its last link */
	struct map *slots;              /* tenant id -> struct slot */
	struct list every;              /* struct slot.node, retired ones too */
	enum link_era era;                /* spoken last */
	bool has_checked; uint8_t checked[32];  /* the lists that were looked at last */
	uint64_t check_tat;
	struct ev_timer *check;
	struct err error;               /* why the last link that broke did; code 0 = none did */
	bool down;                      /* one did, or could not be opened, since one was ready */
};

/* A tenant's place at an upstream: its link, or how the last one ended. */
struct slot {
	struct list node;
	struct upstream *up;
	int64_t tenant_id;
	char *tenant;
	char *principal;                /* of this one alone, a call at a time, and in no map; NULL: for all of the tenant */
	struct link *link;
	bool retired;                   /* out of the map: ends with its last call */
	bool left;                      /* its link was, by a call without an answer */
	uint64_t secrets_version;
	struct ev_timer *idle;
	uint64_t opened_us, used_us;
	unsigned failures;
	uint64_t next_try_us;
	struct err last;
	struct list watches; size_t nwatches;   /* struct link_watch.node: they keep the link, and open it again */
	struct ev_timer *again;         /* to open it for them, or to tell them */
	uint64_t told_us;
	/* messages that were nobody's, since they were reported last */
	uint64_t ndropped; char dropped[40];    /* the method of the last one */
	struct ev_timer *report;
};

struct upstreams {
	struct upstreams_env env;
	struct map *by_name;            /* struct upstream */
	struct list every;              /* struct upstream.node, those that are gone but busy too */
	struct map *parked;
	size_t nlinks;
	struct list homeless;           /* struct link_watch.node: their upstream is not there, or was changed */
	struct ev_timer *rehome;
	upstreams_changed_fn *changed; void *changed_arg;
	upstreams_dropped_fn *dropped; void *dropped_arg;
};

/* --- who watches */

/* Who watches resources of upstreams.  All that watch one over a link share what the link asks for.  A watch outlives
 * its link, which is opened again for it, and the document of its upstream; after each such gap it is told once, since
 * what happened meanwhile is not known. */

#define RETRY_US 30000000               /* when a link cannot be opened at all, or had to make way */

struct link_watch {
	struct backend_watch base;
	struct list node;               /* slot.watches, or upstreams.homeless */
	struct upstreams *all;
	struct slot *slot;              /* NULL: homeless */
	char *upstream, *tenant, *uri;  /* uri: there */
	int64_t tenant_id;
	backend_changed_fn *fn; void *arg;
	bool recorded;                  /* that somebody watches */
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

static void slot_idle(struct slot *s);

static void watch_end(struct backend_watch *base, bool recorded)
{
	struct link_watch *w = CONTAINER_OF(base, struct link_watch, base);
	struct slot *s = w->slot;

	if (s && s->link && !is_shared(w))
		link_watch(s->link, w->uri, false, recorded);
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

static void watches_updated(void *slot, const char *uri)
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

static void watches_opened(struct slot *s)
{
	LIST_FOREACH(n, &s->watches) {
		struct link_watch *w = watch_of(n);

		link_watch(s->link, w->uri, true, w->recorded);
		w->due = w->linked;
		w->linked = true;
	}
	if (s->nwatches > 0)
		tell_soon(s);
}

/* the link has ended */
static void watches_reopen(struct slot *s)
{
	uint64_t now = ev_now_us(s->up->all->env.loop);

	if (s->nwatches > 0)
		ev_timer_start(s->again, s->next_try_us > now ? s->next_try_us - now : 0);
}

/* it had to make way */
static void watches_wait(struct slot *s)
{
	if (s->nwatches > 0)
		ev_timer_start(s->again, RETRY_US);
}

static int slot_open(struct slot *s, bool for_call, struct err *err);

/* the timer slot.again */
static void watches_late(void *slot)
{
	struct slot *s = slot;
	struct err err;

	if (s->link)
		tell(s);
	else if (s->nwatches > 0 && slot_open(s, false, &err) < 0)
		watches_wait(s);
}

/* --- homes */

static int upstream_slot(struct upstreams *u, const char *name, const struct upstream_caller *who, struct slot **ret,
			 struct err *err);

static int settle(struct link_watch *w, struct err *err)
{
	struct slot *s = NULL;
	const struct upstream_caller nobody = { w->tenant_id, w->tenant, NULL };
	int rc = upstream_slot(w->all, w->upstream, &nobody, &s, err);

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
	link_watch(s->link, w->uri, true, w->recorded);
	if (w->linked)
		watches_updated(s, w->uri);
	w->linked = true;
	return 0;
}

/* the timer upstreams.rehome */
static void watches_find_homes(void *upstreams)
{
	struct upstreams *u = upstreams;
	struct err err;

	LIST_FOREACH_SAFE(n, next, &u->homeless)
		(void)settle(watch_of(n), &err); /* else it waits for the next change */
}

/* an upstream was added or changed */
static void watches_rehome(struct upstreams *u)
{
	if (!list_empty(&u->homeless) && !ev_timer_armed(u->rehome))
		ev_timer_start(u->rehome, 0);
}

/* watch.c */
static void watches_leave(struct slot *s)
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
	w->recorded = req->recorded;
	list_push_back(&u->homeless, &w->node);
	int rc = settle(w, &why);
	if (rc == ERR_LIMIT) {
		if (err)
			*err = why;
		watch_end(&w->base, false);
		return rc;
	}
	*ret = &w->base;        /* one that finds no home now has one as soon as its upstream is there */
	return 0;
}

#define STABLE_US 10000000              /* a link that lived so long is tried again at once */
#define DELAY_FIRST_US 250000
#define DELAY_LAST_US 30000000
#define CHECK_BURST 8                   /* looks at once, before there is UPSTREAM_CHECK_MS between them */

/* --- messages that are nobody's */

static void report_dropped(struct slot *s)
{
	struct upstreams *u = s->up->all;

	if (s->ndropped > 0 && u->dropped)
		u->dropped(u->dropped_arg, &(struct upstream_dropped){ s->up->conf->name, s->tenant_id, s->dropped,
			   s->ndropped });
	s->ndropped = 0;
}

/* the timer slot.report */
static void report_late(void *slot)
{
	struct slot *s = slot;

	if (s->ndropped == 0)
		return;
	report_dropped(s);
	ev_timer_start(s->report, UPSTREAM_DROPPED_MS * UINT64_C(1000));
}

static void on_dropped(void *slot, const char *method)
{
	struct slot *s = slot;

	s->ndropped++;
	(void)snprintf(s->dropped, sizeof(s->dropped), "%s", method);   /* one of few that are known */
	if (ev_timer_armed(s->report))
		return;
	report_dropped(s);
	ev_timer_start(s->report, UPSTREAM_DROPPED_MS * UINT64_C(1000));
}

/* --- slots */

static void drop_link(struct slot *s)
{
	if (!s->link)
		return;
	link_close(&s->link);
	s->up->all->nlinks--;
	metric_dec(METRIC_upstream_links_open);
}

static void upstream_unref(struct upstream *up)
{
	if (!up->gone || !list_empty(&up->every))
		return;
	list_unlink(&up->node);
	map_free(&up->slots);
	ev_timer_free(&up->check);
	upstream_conf_free(&up->conf);
	free(up);
}

static void slot_unmap(struct slot *s)
{
	if (!s->retired && !s->principal)
		(void)map_del_u64(s->up->slots, (uint64_t)s->tenant_id);
}

static void slot_free(struct slot *s)
{
	drop_link(s);
	report_dropped(s);
	slot_unmap(s);
	list_unlink(&s->node);
	ev_timer_free(&s->idle);
	ev_timer_free(&s->again);
	ev_timer_free(&s->report);
	free(s->tenant);
	free(s->principal);
	free(s);
}

static void slot_leave(struct slot *s)
{
	slot_unmap(s);
	s->retired = true;
	ev_timer_stop(s->again);
	watches_leave(s);
}

/* No new calls; those that run may end.  Who waits for a list does not keep it (HARDENING F-17). */
static void slot_retire(struct slot *s)
{
	slot_leave(s);
	if (!s->link || link_status(s->link).calls == 0)
		slot_free(s);
	else
		link_retire(s->link);
}

static void slot_over(struct slot *s)
{
	struct upstream *up = s->up;

	slot_free(s);
	upstream_unref(up);
}

static void on_dead(void *arg, const struct err *err)
{
	struct slot *s = arg;
	uint64_t now = ev_now_us(s->up->all->env.loop);

	metric_inc(METRIC_upstream_failures);
	log_warn(NULL, "upstream link ended upstream=%s tenant=%s why=\"%s\"", s->up->conf->name, s->tenant, err->msg);
	s->up->error = *err;
	s->up->down = true;
	drop_link(s);
	ev_timer_stop(s->idle);
	if (s->retired) {
		slot_over(s);
		return;
	}
	s->last = *err;
	s->failures = now - s->opened_us > STABLE_US ? 0 : s->failures + 1;
	uint64_t delay = s->failures ? DELAY_FIRST_US << (s->failures > 8 ? 8 : s->failures - 1) : 0;
	s->next_try_us = now + (delay > DELAY_LAST_US ? DELAY_LAST_US : delay);
	watches_reopen(s);
	if (s->principal)
		slot_idle(s);
}

/* One call alone had it, and left it without an answer: it serves no other. */
static bool is_spent(const struct slot *s)
{
	return s->principal && s->link && s->left;
}

/* nobody needs its link now */
static void slot_idle(struct slot *s)
{
	ev_timer_start(s->idle, s->retired || is_spent(s) ? 0 : s->up->conf->idle_ms * UINT64_C(1000));
}

static void on_idle(void *arg, bool left)
{
	struct slot *s = arg;

	s->left = left;
	slot_idle(s);
}

static void idle_over(void *arg)
{
	struct slot *s = arg;

	if ((s->link && link_busy(s->link)) || s->nwatches > 0)
		return;
	if (s->retired || s->principal)
		slot_over(s);
	else
		drop_link(s);
}

static void on_ready(void *arg)
{
	struct slot *s = arg;

	s->up->era = link_status(s->link).era;
	s->up->down = false;
	if (!link_busy(s->link))
		slot_idle(s);
}

/* --- what may have changed */

static void check_due(void *arg)
{
	struct upstream *up = arg;
	struct upstreams *all = up->all;

	if (all->changed && !up->gone)
		all->changed(all->changed_arg, up->conf->name);
}

static void on_changed(void *arg)
{
	struct slot *s = arg;
	struct upstream *up = s->up;
	uint64_t now = ev_now_us(up->all->env.loop);

	if (s->retired || ev_timer_armed(up->check) ||
	    (up->has_checked && memcmp(up->checked, link_status(s->link).hash, sizeof(up->checked)) == 0))
		return;
	ev_timer_start(up->check, link_due(&up->check_tat, now, UPSTREAM_CHECK_MS * UINT64_C(1000), CHECK_BURST) - now);
}

/* --- opening */

static int open_wire(struct link *link, void *arg, struct link_wire **ret, struct err *err)
{
	const struct slot *s = arg;
	const struct upstreams_env *env = &s->up->all->env;

	switch (s->up->conf->transport) {
	case UPSTREAM_PIPE:
		return link_pipe_open(link, env->loop, env->sandbox, s->up->conf, env->secrets, s->tenant_id, s->tenant, ret,
				      err);
	case UPSTREAM_HTTP:
	case UPSTREAM_SSE:
		return link_http_open(link, env->loop, env->fetcher, s->up->conf, env->secrets, s->tenant, ret, err);
	}
	return err_set(err, ERR_INTERNAL, "", "unknown transport");
}

/* Room for one more: the link that has been without a call for longest makes way; for a call one that is only watched
 * over, too. */
static bool make_room(struct upstreams *u, bool for_call)
{
	struct slot *oldest = NULL;

	if (u->nlinks < UPSTREAM_LINKS_MAX)
		return true;
	LIST_FOREACH(k, &u->every) {
		LIST_FOREACH(n, &CONTAINER_OF(k, struct upstream, node)->every) {
			struct slot *s = CONTAINER_OF(n, struct slot, node);

			if (s->link && !link_busy(s->link) && (for_call || s->nwatches == 0) &&
			    (!oldest || s->used_us < oldest->used_us))
				oldest = s;
		}
	}
	if (!oldest)
		return false;
	drop_link(oldest);
	watches_wait(oldest);
	return true;
}

/* its link, if it has none */
static int slot_open(struct slot *s, bool for_call, struct err *err)
{
	struct upstreams *u = s->up->all;
	uint64_t now = ev_now_us(u->env.loop);
	const struct link_env env = { .loop = u->env.loop, .parked = u->parked, .dead = on_dead, .ready = on_ready,
		.changed = on_changed, .updated = watches_updated, .idle = on_idle, .dropped = on_dropped, .arg = s };

	if (s->link)
		return 0;
	if (s->next_try_us > now)
		return err_set(err, ERR_TOOL, "", "%s; it is tried again in %llu ms", s->last.msg,
			       (unsigned long long)((s->next_try_us - now) / 1000));
	if (!make_room(u, for_call))
		return err_set(err, ERR_TOOL, "", "more than %d links to upstreams are in use", UPSTREAM_LINKS_MAX);
	s->opened_us = now;
	s->left = false;
	s->secrets_version = u->env.secrets ? u->env.secrets->version(u->env.secrets->arg) : 0;
	int rc = link_open(&env, s->up->conf->name, s->up->conf->asks, s->up->era, open_wire, s, &s->link, err);
	if (rc == 0) {
		u->nlinks++;
		metric_inc(METRIC_upstream_links_open);
		watches_opened(s);
	}
	s->up->down = s->up->down || rc < 0;
	return rc;
}

/* Another value of a secret: what has the old one ends. */
static bool is_stale(const struct slot *s)
{
	const struct secret_source *secrets = s->up->all->env.secrets;

	return s->link && secrets && secrets->version(secrets->arg) != s->secrets_version;
}

static struct slot *slot_new(struct upstream *up, const struct upstream_caller *who)
{
	struct ev_loop *loop = up->all->env.loop;
	struct slot *s = mem_zalloc(sizeof(*s));

	s->up = up;
	s->tenant_id = who->tenant_id;
	s->tenant = mem_strdup(who->tenant);
	s->principal = mem_strdup0(who->principal);
	s->idle = ev_timer_new(loop, idle_over, s);
	s->again = ev_timer_new(loop, watches_late, s);
	s->report = ev_timer_new(loop, report_late, s);
	list_init(&s->watches);
	list_push_back(&up->every, &s->node);
	return s;
}

static struct slot *slot_of(struct upstream *up, const struct upstream_caller *who)
{
	struct slot *s = map_get_u64(up->slots, (uint64_t)who->tenant_id);

	if (s && is_stale(s)) {
		slot_retire(s);
		s = NULL;
	}
	if (!s) {
		s = slot_new(up, who);
		(void)map_set_u64(up->slots, (uint64_t)who->tenant_id, s);
	}
	return s;
}

/* --- slots of one principal */

/* An older server asks over a pipe or HTTP+SSE without saying for which call: whose question it is, is known for
 * certain only where there is one call, and nobody else ever had one (HARDENING F-3). */
static bool serves_one(const struct upstream *up)
{
	return up->conf->asks && up->conf->transport != UPSTREAM_HTTP && up->era != LINK_ERA_MODERN;
}

static bool is_free(const struct slot *s)
{
	return !s->link || !link_busy(s->link);
}

static void retire_unfit(struct upstream *up)
{
	LIST_FOREACH_SAFE(n, next, &up->every) {
		struct slot *s = CONTAINER_OF(n, struct slot, node);

		if (s->principal && !s->retired && (is_spent(s) || is_stale(s)))
			slot_retire(s);
	}
}

/* A free one of the same principal, best with a link; or room for another: of the tenant's other principals one that
 * nobody uses goes.  ERR_TOOL. */
static int slot_for(struct upstream *up, const struct upstream_caller *who, struct slot **ret, struct err *err)
{
	struct slot *mine = NULL, *other = NULL;
	size_t n = 0;

	retire_unfit(up);
	LIST_FOREACH(k, &up->every) {
		struct slot *s = CONTAINER_OF(k, struct slot, node);

		if (!s->principal || s->tenant_id != who->tenant_id)
			continue;
		n++;
		if (s->retired || !is_free(s))
			continue;
		if (strcmp(s->principal, who->principal) != 0)
			other = other ? other : s;
		else if (!mine || !mine->link)
			mine = s;
	}
	if (!mine && n >= UPSTREAM_ASKING_MAX && !other) {
		metric_inc(METRIC_upstream_asking_refused);
		return err_set(err, ERR_TOOL, "", "more than %d calls of this tenant are open there", UPSTREAM_ASKING_MAX);
	}
	if (!mine && n >= UPSTREAM_ASKING_MAX)
		slot_free(other);
	*ret = mine ? mine : slot_new(up, who);
	return 0;
}

/* upstream.c: ERR_TOOL with a sentence that names no upstream. */
static int upstream_slot(struct upstreams *u, const char *name, const struct upstream_caller *who, struct slot **ret,
			 struct err *err)
{
	static const struct upstream_caller all = { 0, "", NULL };
	struct upstream *up = map_get_z(u->by_name, name);

	if (!up)
		return err_set(err, ERR_TOOL, "", "there is no such upstream");
	if (!up->enabled)
		return err_set(err, ERR_TOOL, "", "it is disabled");
	if (who->principal && serves_one(up))
		return slot_for(up, who, ret, err);
	*ret = slot_of(up, up->conf->shared ? &all : &(struct upstream_caller){ who->tenant_id, who->tenant, NULL });
	return 0;
}

static int find_link(struct upstreams *u, const char *name, const struct upstream_caller *who, struct link **ret,
		     struct err *err)
{
	struct slot *s = NULL;
	int rc = upstream_slot(u, name, who, &s, err);

	if (rc < 0)
		return rc;
	s->used_us = ev_now_us(u->env.loop);
	rc = slot_open(s, true, err);
	if (rc == 0)
		*ret = s->link;
	return rc;
}

int upstreams_link(struct upstreams *u, const char *name, const struct upstream_caller *who, struct link **ret,
		   struct err *err)
{
	int rc = u ? find_link(u, name, who, ret, err) :
		 err_set(err, ERR_TOOL, "", "there is no such upstream");

	return rc < 0 ? err_wrap(err, "upstream %s", name) : rc;
}

void upstreams_use_secrets(const struct upstreams *u, const char *name, const struct backend_req *req)
{
	const struct upstream *up = map_get_z(u->by_name, name);

	for (size_t i = 0; up && i < up->conf->nvalues; i++) {
		struct str value = STR_INIT;

		if (tpl_is_constant(up->conf->values[i].value))
			continue;
		if (tpl_render(up->conf->values[i].value, req, &value, NULL) < 0)
			continue;               /* what is not set cannot be said either */
		if (value.p)
			secret_wipe(value.p, value.len);
		str_fini(&value);
	}
}

struct map *upstreams_parked(struct upstreams *u)
{
	return u->parked;
}

const struct upstream_conf *upstreams_conf(const struct upstreams *u, const char *name)
{
	const struct upstream *up = map_get_z(u->by_name, name);

	return up ? up->conf : NULL;
}

/* --- reading the lists */

struct upstreams_reading {
	char *name;
	struct slot *slot;
	struct link_lister *lister;     /* NULL: it could not be asked, which is said in this turn */
	upstreams_list_fn *done; void *arg;     /* NULL: nobody wants to know any more */
	struct err err;
};

static void reading_end(struct upstreams_reading *r, struct upstream_list *list, const struct err *err)
{
	if (r->done)
		r->done(r->arg, list, err);
	free(r->name);
	free(r);
}

void upstreams_unlist(struct upstreams_reading **reading)
{
	struct upstreams_reading *r = *reading;

	*reading = NULL;
	r->done = NULL;
	if (!r->lister)
		return;                 /* reading_failed() is on its way */
	link_unlist(&r->lister);
	reading_end(r, NULL, NULL);
}

static void reading_failed(void *arg)
{
	struct upstreams_reading *r = arg;

	reading_end(r, NULL, &r->err);
}

static void on_list(void *arg, struct upstream_list *list, const struct err *err)
{
	struct upstreams_reading *r = arg;

	if (list) {
		struct upstream *up = r->slot->up;

		memcpy(up->checked, link_status(r->slot->link).hash, sizeof(up->checked));
		up->has_checked = true;
		reading_end(r, list, NULL);
		return;
	}
	r->err = *err;
	(void)err_wrap(&r->err, "upstream %s", r->name);
	r->err.code = ERR_UNREACHABLE;
	reading_end(r, NULL, &r->err);
}

struct upstreams_reading *upstreams_list(struct upstreams *u, const char *name, upstreams_list_fn *done, void *arg)
{
	struct upstreams_reading *r = mem_zalloc(sizeof(*r));
	struct link *link = NULL;

	r->name = mem_strdup(name);
	r->done = done;
	r->arg = arg;
	if (upstreams_link(u, name, &(struct upstream_caller){ 0, "", NULL }, &link, &r->err) < 0) {
		r->err.code = map_get_z(u->by_name, name) ? ERR_UNREACHABLE : ERR_NOT_FOUND;
		ev_defer(u->env.loop, reading_failed, r);
		return r;
	}
	r->slot = map_get_u64(((struct upstream *)map_get_z(u->by_name, name))->slots, 0);
	r->lister = link_list(link, on_list, r);
	return r;
}

/* --- what is known */

struct upstreams *upstreams_new(const struct upstreams_env *env)
{
	struct upstreams *u = mem_zalloc(sizeof(*u));

	u->env = *env;
	list_init(&u->every);
	list_init(&u->homeless);
	u->rehome = ev_timer_new(env->loop, watches_find_homes, u);
	u->by_name = map_new();
	u->parked = map_new();
	return u;
}

/* Its calls may end. */
static void take_out(struct upstreams *u, const char *name)
{
	struct upstream *up = map_del_z(u->by_name, name);

	if (!up)
		return;
	up->gone = true;
	ev_timer_stop(up->check);
	LIST_FOREACH_SAFE(n, next, &up->every)
		slot_retire(CONTAINER_OF(n, struct slot, node));
	upstream_unref(up);
}

/* Everything ends, its processes within a few seconds (HARDENING F-17), also of what it was before a change. */
void upstreams_remove(struct upstreams *u, const char *name)
{
	take_out(u, name);
	LIST_FOREACH_SAFE(n, next, &u->every) {
		struct upstream *up = CONTAINER_OF(n, struct upstream, node);

		if (!up->gone || strcmp(up->conf->name, name) != 0)
			continue;
		while (!list_empty(&up->every))
			slot_free(CONTAINER_OF(up->every.next, struct slot, node));
		upstream_unref(up);
	}
}

int upstreams_set(struct upstreams *u, const char *document, bool enabled, struct err *err)
{
	struct upstream_conf *conf = NULL;
	json_t *doc = NULL;
	int rc = jx_parse(document, strlen(document), &doc, err);

	if (rc == 0)
		rc = upstream_conf_new(doc, &conf, err);
	json_decref(doc);
	if (rc < 0)
		return rc;
	take_out(u, conf->name);
	struct upstream *up = mem_zalloc(sizeof(*up));
	up->all = u;
	up->conf = conf;
	up->enabled = enabled;
	up->slots = map_new();
	list_init(&up->every);
	up->check = ev_timer_new(u->env.loop, check_due, up);
	list_push_back(&u->every, &up->node);
	(void)map_set_z(u->by_name, conf->name, up);
	watches_rehome(u);
	return 0;
}

int upstreams_load(struct upstreams *u, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_ALL);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		size_t len;
		char *text = mem_strdup(db_col_text(st, 3, &len));

		rc = upstreams_set(u, text, db_col_i64(st, 2) == 1, err);
		free(text);
		if (rc < 0) {
			(void)err_wrap(err, "upstream %s", db_col_text(st, 1, &len));
			err->code = ERR_CORRUPT;
			break;
		}
	}
	db_stmt_put(&st);
	return rc;
}

void upstreams_on_change(struct upstreams *u, upstreams_changed_fn *fn, void *arg)
{
	u->changed = fn;
	u->changed_arg = arg;
}

void upstreams_on_dropped(struct upstreams *u, upstreams_dropped_fn *fn, void *arg)
{
	u->dropped = fn;
	u->dropped_arg = arg;
}

void upstreams_state(const struct upstreams *u, const char *name, struct upstream_state *ret)
{
	const struct upstream *up = u ? map_get_z(u->by_name, name) : NULL;

	*ret = (struct upstream_state){ .links = 0 };
	if (!up)
		return;
	LIST_FOREACH(n, &up->every) {
		const struct slot *s = CONTAINER_OF(n, struct slot, node);

		ret->links += s->link != NULL;
		ret->calls += s->link ? link_status(s->link).calls : 0;
	}
	ret->error = up->error;
}

void upstreams_each(const struct upstreams *u, upstreams_each_fn *fn, void *arg)
{
	LIST_FOREACH(n, &u->every) {
		const struct upstream *up = CONTAINER_OF(n, struct upstream, node);

		if (up->enabled && !up->gone)
			fn(arg, up->conf->name, !up->down);
	}
}

bool upstreams_has(const struct upstreams *u, const char *name)
{
	return map_get_z(u->by_name, name) != NULL;
}

void upstreams_free(struct upstreams **up)
{
	struct upstreams *u = up ? *up : NULL;

	if (!u)
		return;
	*up = NULL;
	u->changed = NULL;
	ev_timer_free(&u->rehome);
	LIST_FOREACH_SAFE(n, next, &u->every) {
		struct upstream *one = CONTAINER_OF(n, struct upstream, node);

		one->gone = true;
		while (!list_empty(&one->every))
			slot_free(CONTAINER_OF(one->every.next, struct slot, node));
		upstream_unref(one);
	}
	map_free(&u->by_name);
	map_free(&u->parked);
	free(u);
}
