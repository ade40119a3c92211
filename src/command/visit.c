/* Visits of browsers at the console, and the links by which they come in (CONSOLE 5): in memory, and none outlives the
 * server.  What a visit may do is asked of roles.c with each command, as of whoever made its link.  Loop thread. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "command/visit.h"
#include "conf/conf.h"

#include "command_int.h"

#define US 1000ull

struct holder {                         /* an administrator, copied */
	struct actor who;
	uint32_t *gids;
	char key[ADMIN_KEY_HASH_SIZE], name[CONF_KEY_NAME_MAX + 1];
};

struct link {
	struct list node;
	uint8_t hash[DIGEST_SIZE];
	struct holder holder;
	uint64_t until_us;              /* monotonic */
};

struct visit {
	struct list node;               /* in visits.open; on its own once it is over */
	uint64_t id;
	uint8_t hash[DIGEST_SIZE];
	struct holder holder;
	char from[VISIT_FROM_SIZE], first[VISIT_TOKEN_SIZE];
	uint64_t since_us, began_us, seen_us;   /* the first one by the wall clock */
	unsigned users;
	bool over;
};

struct visits {
	struct list links, open;
	uint64_t last_id;
	char *url;
};

/* --- who */

static void hold_actor(struct holder *h, const struct actor *who)
{
	h->who = (struct actor){ .uid = who->uid, .pid = who->pid };
	if (who->ngids > 0) {
		h->gids = mem_calloc(who->ngids, sizeof(*h->gids));
		memcpy(h->gids, who->gids, who->ngids * sizeof(*h->gids));
		h->who.gids = h->gids;
		h->who.ngids = who->ngids;
	}
	if (who->key) {
		(void)snprintf(h->key, sizeof(h->key), "%s", who->key);
		(void)snprintf(h->name, sizeof(h->name), "%s", who->name);
	}
}

static bool is_same(const struct holder *h, const struct actor *who)
{
	if (*h->key || who->key)
		return who->key && strcmp(h->key, who->key) == 0;
	return h->who.uid == who->uid;
}

static void hash_of(const char *token, uint8_t ret[DIGEST_SIZE])
{
	digest_sha256(token, strlen(token), ret);
}

/* --- links */

static void link_free(struct link *l)
{
	list_unlink(&l->node);
	free(l->holder.gids);
	free(l);
}

static void forget_old_links(struct visits *v)
{
	const uint64_t now = clock_mono_us();

	LIST_FOREACH_SAFE(n, tmp, &v->links) {
		struct link *l = CONTAINER_OF(n, struct link, node);

		if (l->until_us <= now)
			link_free(l);
	}
}

int visits_link(struct visits *v, const struct actor *who, char ret[VISIT_TOKEN_SIZE], struct err *err)
{
	struct link *l;
	unsigned n = 0;

	forget_old_links(v);
	LIST_FOREACH(node, &v->links)
		n += is_same(&CONTAINER_OF(node, struct link, node)->holder, who);
	if (n >= VISIT_LINKS_MAX) {
		(void)err_set(err, ERR_BUSY, "", "%u links of yours are open, which is the limit", n);
		err_hint(err, "use one of them, or wait a minute, after which they open nothing");
		return ERR_BUSY;
	}
	l = mem_zalloc(sizeof(*l));
	hold_actor(&l->holder, who);
	l->until_us = clock_mono_us() + VISIT_LINK_MS * US;
	id_random_text(ret, VISIT_TOKEN_SIZE - 1);
	hash_of(ret, l->hash);
	list_push_back(&v->links, &l->node);
	return 0;
}

static struct link *find_link(struct visits *v, const char *token)
{
	uint8_t hash[DIGEST_SIZE];

	forget_old_links(v);
	hash_of(token, hash);
	LIST_FOREACH(node, &v->links) {
		struct link *l = CONTAINER_OF(node, struct link, node);

		if (secret_equal(l->hash, hash, sizeof(hash)))
			return l;
	}
	return NULL;
}

/* --- visits */

static void visit_free(struct visit *visit)
{
	list_unlink(&visit->node);
	secret_wipe(visit->first, sizeof(visit->first));
	free(visit->holder.gids);
	free(visit);
}

void visit_end(struct visit *visit)
{
	if (visit->over)
		return;
	visit->over = true;
	list_unlink(&visit->node);
	metric_dec(METRIC_console_visits);
	if (visit->users == 0)
		visit_free(visit);
}

void visit_drop(struct visit *visit)
{
	secret_wipe(visit->first, sizeof(visit->first));
	if (--visit->users == 0 && visit->over)
		visit_free(visit);
}

bool visit_is_over(const struct visit *visit)
{
	return visit->over;
}

const struct actor *visit_actor(const struct visit *visit)
{
	return &visit->holder.who;
}

const char *visit_first_token(const struct visit *visit)
{
	return visit->first;
}

static uint64_t until_of(const struct visit *visit)
{
	const uint64_t idle = visit->seen_us + VISIT_IDLE_MS * US, last = visit->began_us + VISIT_MAX_MS * US;

	return idle < last ? idle : last;
}

static void end_old_visits(struct visits *v)
{
	const uint64_t now = clock_mono_us();

	LIST_FOREACH_SAFE(n, tmp, &v->open) {
		struct visit *visit = CONTAINER_OF(n, struct visit, node);

		if (until_of(visit) <= now)
			visit_end(visit);
	}
}

static int check_room(struct visits *v, const struct actor *who, struct err *err)
{
	size_t all = 0, theirs = 0;

	end_old_visits(v);
	LIST_FOREACH(n, &v->open) {
		all++;
		theirs += is_same(&CONTAINER_OF(n, struct visit, node)->holder, who);
	}
	if (all < VISITS_MAX && theirs < VISITS_SHARE_MAX)
		return 0;
	(void)err_set(err, ERR_BUSY, "", "%zu visits%s are open, which is the limit", theirs < VISITS_SHARE_MAX ? all : theirs,
		      theirs < VISITS_SHARE_MAX ? "" : " of yours");
	err_hint(err, "toolcrib console visits lists them, toolcrib console end ends one");
	return ERR_BUSY;
}

int visits_enter(struct visits *v, const char *link, const char *from, struct visit **ret, struct err *err)
{
	struct link *l = find_link(v, link);
	struct visit *visit;

	if (!l) {
		metric_inc(METRIC_console_refused);
		(void)err_set(err, ERR_DENIED, "link", "this link opens nothing: it was used, or it is older than a minute");
		err_hint(err, "toolcrib console open makes one");
		return ERR_DENIED;
	}
	if (check_room(v, &l->holder.who, err) < 0)
		return err->code;
	visit = mem_zalloc(sizeof(*visit));
	visit->id = ++v->last_id;
	visit->holder = l->holder;
	l->holder.gids = NULL;
	link_free(l);
	(void)snprintf(visit->from, sizeof(visit->from), "%s", from);
	if (*visit->holder.key) {
		visit->holder.who.key = visit->holder.key;
		visit->holder.who.name = visit->holder.name;
		visit->holder.who.from = visit->from;
	}
	visit->holder.who.visit = visit;
	id_random_text(visit->first, VISIT_TOKEN_SIZE - 1);
	hash_of(visit->first, visit->hash);
	visit->since_us = clock_wall_us();
	visit->began_us = visit->seen_us = clock_mono_us();
	list_push_back(&v->open, &visit->node);
	visit->users = 1;
	metric_inc(METRIC_console_visits);
	*ret = visit;
	return 0;
}

struct visit *visits_find(struct visits *v, const char *token)
{
	uint8_t hash[DIGEST_SIZE];

	end_old_visits(v);
	hash_of(token, hash);
	LIST_FOREACH(n, &v->open) {
		struct visit *visit = CONTAINER_OF(n, struct visit, node);

		if (secret_equal(visit->hash, hash, sizeof(hash))) {
			visit->seen_us = clock_mono_us();
			visit->users++;
			return visit;
		}
	}
	metric_inc(METRIC_console_refused);
	return NULL;
}

void visits_each(struct visits *v, visit_fn *fn, void *arg)
{
	const uint64_t now = clock_mono_us(), wall = clock_wall_us();

	end_old_visits(v);
	LIST_FOREACH_SAFE(n, tmp, &v->open) {
		struct visit *visit = CONTAINER_OF(n, struct visit, node);

		fn(arg, visit, &(struct visit_view){ .id = visit->id, .from = visit->from, .since_us = visit->since_us,
				.seen_us = wall - (now - visit->seen_us), .until_us = wall + (until_of(visit) - now) });
	}
}

/* --- all of them */

struct visits *visits_new(void)
{
	struct visits *v = mem_zalloc(sizeof(*v));

	list_init(&v->links);
	list_init(&v->open);
	return v;
}

void visits_at(struct visits *v, const char *url)
{
	free(v->url);
	v->url = url ? mem_strdup(url) : NULL;
}

const char *visits_url(const struct visits *v)
{
	return v->url;
}

void visits_free(struct visits **vp)
{
	struct visits *v = vp ? *vp : NULL;

	if (!v)
		return;
	*vp = NULL;
	while (!list_empty(&v->links))
		link_free(CONTAINER_OF(v->links.next, struct link, node));
	while (!list_empty(&v->open))
		visit_end(CONTAINER_OF(v->open.next, struct visit, node));
	free(v->url);
	free(v);
}
