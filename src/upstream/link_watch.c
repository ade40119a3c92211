/* News of a server: that lists have changed, and resources that somebody watches.  An older server is subscribed to for
 * each resource (MCP U-03); one of 2026-07-28 has a stream of news, whose filter names all of them, and which is
 * replaced by another when they change: the old one ends when the new one is acknowledged, so that nothing is missed. */
#include "config.h"

#include "link_parts_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "ev/ev.h"

#define STEADY_US 60000000              /* a stream that lived so long is asked for again at once */
#define RELISTEN_DOUBLINGS 6

struct watched { char *uri; bool told; };       /* told: an older server is subscribed to */

void link_watch_free(struct link *l)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; l->watched && map_next(l->watched, &it, &key, &len, &value); ) {
		free(((struct watched *)value)->uri);
		free(value);
	}
	map_free(&l->watched);
}

/* --- an older server */

static void send_subscription(struct link *l, const char *method, const char *uri)
{
	uint64_t id;

	(void)link_request(l, LINK_ASIDE, NULL, &id);
	link_msg_begin(&l->out, id, method);
	str_puts(&l->out, "\"uri\":");
	jx_write_stringz(&l->out, uri);
	link_msg_end(&l->out);
	link_send(l, id, method, NULL);
}

/* False: some are left for when there is room. */
static bool subscribe_all(struct link *l)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; map_next(l->watched, &it, &key, &len, &value); ) {
		struct watched *w = value;

		if (w->told)
			continue;
		if (l->wire->ops->full(l->wire))
			return false;
		w->told = true;
		send_subscription(l, "resources/subscribe", w->uri);
	}
	return true;
}

/* --- a server of 2026-07-28 */

static void put_filter(struct link *l)
{
	static const char *const lists[UPSTREAM_TEMPLATE] = { "toolsListChanged", "promptsListChanged", "resourcesListChanged" };
	const char *comma = "";
	const void *key;
	void *value;
	size_t len;

	str_puts(&l->out, "\"notifications\":{");
	for (size_t i = 0; i < NELEMS(lists); i++) {
		if (!l->tells[i])
			continue;
		str_printf(&l->out, "%s\"%s\":true", comma, lists[i]);
		comma = ",";
	}
	if (l->says_updates && map_count(l->watched) > 0) {
		str_printf(&l->out, "%s\"resourceSubscriptions\":[", comma);
		comma = "";
		for (size_t it = 0; map_next(l->watched, &it, &key, &len, &value); comma = ",") {
			str_puts(&l->out, comma);
			jx_write_stringz(&l->out, ((struct watched *)value)->uri);
		}
		str_putc(&l->out, ']');
	}
	str_puts(&l->out, "},");
}

static void cancel_listen(struct link *l, uint64_t *id)
{
	if (!*id)
		return;
	if (!l->wire->exchanges) {      /* MCP C-03, C-04 */
		link_msg_cancelled(&l->out, *id, true);
		link_send(l, 0, "notifications/cancelled", NULL);
	}
	link_forget(l, *id);
	*id = 0;
}

static bool wants_news(const struct link *l)
{
	return l->tells[UPSTREAM_TOOL] || l->tells[UPSTREAM_PROMPT] || l->tells[UPSTREAM_RESOURCE] ||
	       (l->says_updates && map_count(l->watched) > 0);
}

static void ask_news(struct link *l)
{
	cancel_listen(l, &l->old_listen_id);
	l->old_listen_id = l->listen_id;
	l->listen_id = 0;
	ev_timer_stop(l->relisten);
	if (!wants_news(l)) {
		cancel_listen(l, &l->old_listen_id);
		return;
	}
	(void)link_request(l, LINK_LISTEN, NULL, &l->listen_id);
	l->listen_us = ev_now_us(l->env.loop);
	link_msg_begin(&l->out, l->listen_id, "subscriptions/listen");
	put_filter(l);
	link_msg_meta(&l->out, true, 0, 0);
	link_msg_end(&l->out);
	link_send(l, l->listen_id, "subscriptions/listen", NULL);
}

/* On a pipe the subscription is named by the id of its request, over HTTP the exchange is its own. */
void link_watch_acknowledged(struct link *l, uint64_t exchange, const struct rpc_msg *msg)
{
	struct jx_span v;
	struct rpc_walk w;
	uint64_t id = exchange;
	char name[48];

	if (!exchange && rpc_is(msg->meta, '{')) {
		rpc_walk_start(&w, msg->meta);
		while (rpc_walk_member(&w, name, sizeof(name), &v))
			if (strcmp(name, "io.modelcontextprotocol/subscriptionId") == 0 && !link_msg_id(v, &id))
				id = 0;
	}
	if (id && id == l->listen_id)
		cancel_listen(l, &l->old_listen_id);
}

void link_watch_ended(struct link *l, uint64_t id, bool refused)
{
	uint64_t gap = LINK_RELISTEN_MS * UINT64_C(1000);

	if (id == l->old_listen_id)
		l->old_listen_id = 0;
	if (id != l->listen_id)
		return;
	l->listen_id = 0;
	if (refused)
		return;
	if (ev_now_us(l->env.loop) - l->listen_us >= STEADY_US)
		l->relistens = 0;
	else if (l->relistens < RELISTEN_DOUBLINGS)
		l->relistens++;
	ev_timer_start(l->relisten, l->relistens ? gap << (l->relistens - 1) : 0);
}

/* What was said while nobody listened is not known: it is looked at again. */
void link_missed(struct link *l)
{
	if (l->state != LINK_READY)
		return;
	link_list_changed(l);
	if (map_count(l->watched) > 0)
		l->env.updated(l->env.arg, NULL);
}

void link_watch_late(void *link)
{
	struct link *l = link;

	if (l->state != LINK_READY)
		return;
	ask_news(l);
	link_missed(l);
}

/* --- both */

void link_watch_start(struct link *l)
{
	if (l->modern)
		ask_news(l);
	else
		l->watch_changed = true;
}

void link_watch_work(struct link *l)
{
	l->watch_changed = false;
	if (l->modern)
		ask_news(l);
	else if (l->says_updates)
		l->watch_changed = !subscribe_all(l);
}

void link_watch_updated(struct link *l, const struct rpc_msg *msg)
{
	char uri[UPSTREAM_URI_MAX + 2];
	size_t len;

	if (!rpc_string(msg->uri, uri, sizeof(uri), &len) || strlen(uri) != len)
		return;
	/* It may name a part of what is watched. */
	while (len > 0 && !map_get_z(l->watched, uri)) {
		while (len > 0 && uri[len - 1] != '/')
			len--;
		if (map_get(l->watched, uri, len)) {
			uri[len] = '\0';
			break;
		}
		len -= len > 0;
		uri[len] = '\0';
	}
	if (len > 0)
		l->env.updated(l->env.arg, uri);
}

static void changed(struct link *l)
{
	bool begun = l->state == LINK_LISTING || l->state == LINK_READY;

	if (!begun || !l->says_updates)
		return;
	l->watch_changed = true;
	if (l->state == LINK_READY)
		link_kick(l);
}

void link_watch(struct link *l, const char *uri)
{
	struct watched *w = map_get_z(l->watched, uri);

	if (w)
		return;
	w = mem_zalloc(sizeof(*w));
	w->uri = mem_strdup(uri);
	(void)map_set_z(l->watched, uri, w);
	changed(l);
}

void link_unwatch(struct link *l, const char *uri)
{
	struct watched *w = map_del_z(l->watched, uri);

	if (!w)
		return;
	if (w->told && l->state == LINK_READY)
		send_subscription(l, "resources/unsubscribe", uri);
	else if (l->modern)
		changed(l);
	free(w->uri);
	free(w);
}
