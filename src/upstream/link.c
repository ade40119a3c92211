/* A link: one conversation with one server; its handshake, its requests by id, what comes in, news of what is watched,
 * its end.  upstream.c opens links, the wires bring messages; loop thread.  Nothing is reported from inside a call of a
 * user: what is due is noted, and done by work(), which the loop calls. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "proto/caps.h"

#include "link_parts_int.h"

/* --- the handshake */

/* The handshake: server/discover first, initialize when that means nothing there (MCP V-07).  Whichever is answered
 * well decides the era; what was learned is tried first the next time. */

static void send_discover(struct link *l)
{
	uint64_t id;

	(void)link_request(l, LINK_DISCOVER, NULL, &id);
	link_msg_begin(&l->out, id, "server/discover");
	link_msg_meta(&l->out, true, CAP_UI, 0);
	link_msg_end(&l->out);
	link_send(l, id, "server/discover", NULL);
}

static void send_initialize(struct link *l)
{
	uint64_t id;

	l->state = LINK_INITIALIZING;
	(void)link_request(l, LINK_INITIALIZE, NULL, &id);
	link_msg_initialize(&l->out, id, l->asks);
	link_send(l, id, "initialize", NULL);
}

static void link_hand_start(struct link *l, enum link_era era)
{
	l->start_us = ev_now_us(l->env.loop);
	if (era == LINK_ERA_LEGACY) {
		send_initialize(l);
	} else {
		l->state = LINK_PROBING;
		send_discover(l);
	}
	ev_timer_start(l->start, (l->state == LINK_PROBING ? LINK_PROBE_MS : LINK_START_MS) * UINT64_C(1000));
}

/* the start timer */
static void link_hand_late(void *link)
{
	struct link *l = link;

	if (l->state == LINK_PROBING) {
		send_initialize(l);
		ev_timer_start(l->start, LINK_START_MS * UINT64_C(1000));
	} else {
		link_die(l, ERR_TOOL, "it did not answer within %d s", LINK_START_MS / 1000);
	}
}

/* For people and logs only (MCP T-19). */
static void take_server(struct link *l, const json_t *info)
{
	const char *name = json_string_value(json_object_get(info, "name"));
	const char *version = json_string_value(json_object_get(info, "version"));
	char text[128];

	(void)snprintf(text, sizeof(text), "%s%s%s", name ? name : "", version ? " " : "", version ? version : "");
	text_printable(text, strlen(text), l->server, sizeof(l->server));
}

static void take_capabilities(struct link *l, const json_t *result)
{
	static const char *const names[UPSTREAM_KINDS] = { "tools", "prompts", "resources", "resources" };
	const json_t *caps = json_object_get(result, "capabilities");

	for (size_t i = 0; i < UPSTREAM_KINDS; i++) {
		const json_t *one = json_object_get(caps, names[i]);

		l->has[i] = json_is_object(one);
		l->tells[i] = json_is_true(json_object_get(one, "listChanged"));
	}
	l->says_updates = json_is_true(json_object_get(json_object_get(caps, "resources"), "subscribe"));
	l->completes = json_is_object(json_object_get(caps, "completions"));
	l->logs = json_is_object(json_object_get(caps, "logging"));
	l->tasks = caps_from_json(caps) & CAP_TASKS;
}

static void link_watch_start(struct link *l);

static void agreed(struct link *l, enum rev rev)
{
	l->rev = rev;
	l->modern = rev_table[rev].era == ERA_MODERN;
	l->state = LINK_LISTING;
	if (l->wire->ops->spoken)
		l->wire->ops->spoken(l->wire, rev);
	if (!l->modern) {
		str_reset(&l->out);
		str_puts(&l->out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
		link_send(l, 0, "notifications/initialized", NULL);
	}
	link_watch_start(l);
	link_list_start(l);
}

/* Is there a revision in the list that we speak in this era? */
static bool speaks(const json_t *versions, enum rev_era era)
{
	const json_t *v;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)versions, i, v) {
		enum rev rev = json_is_string(v) ? rev_find(json_string_value(v), json_string_length(v)) : REV_COUNT;

		if (rev != REV_COUNT && rev != REV_R0 && rev_table[rev].era == era)
			return true;
	}
	return false;
}

static json_t *parse(struct jx_span v)
{
	json_t *ret = NULL;

	if (!rpc_is(v, '{') || jx_parse_scanned(v.p, v.len, &ret, NULL) < 0)
		return NULL;
	return ret;
}

/* The newest that it does offer, for a message. */
static void refuse_versions(struct link *l, const json_t *versions)
{
	const char *text = json_string_value(json_array_get(versions, 0));
	char shown[40];

	text_printable(text ? text : "nothing", text ? strlen(text) : 7, shown, sizeof(shown));
	link_die(l, ERR_TOOL, "it speaks no revision of MCP that is known here, but %s", shown);
}

static void link_hand_discovered(struct link *l, const struct rpc_msg *msg)
{
	json_t *result = parse(msg->result), *error = parse(msg->error);
	const json_t *versions = json_object_get(result ? result : json_object_get(error, "data"),
						 result ? "supportedVersions" : "supported");

	if (l->state != LINK_PROBING && l->state != LINK_INITIALIZING) {
		;       /* initialize was faster */
	} else if (result && speaks(versions, ERA_MODERN)) {
		take_server(l, json_object_get(json_object_get(result, "_meta"), "io.modelcontextprotocol/serverInfo"));
		take_capabilities(l, result);
		agreed(l, REV_R5);
	} else if (json_array_size(versions) > 0 && !speaks(versions, ERA_LEGACY)) {
		refuse_versions(l, versions);
	} else if (l->state == LINK_PROBING) {
		/* Any other answer: an older server, or one that lists older revisions only. */
		send_initialize(l);
		ev_timer_start(l->start, LINK_START_MS * UINT64_C(1000));
	}
	json_decref(result);
	json_decref(error);
}

/* link.c */
static void link_hand_initialized(struct link *l, const struct rpc_msg *msg)
{
	json_t *result = parse(msg->result), *data = NULL;
	const json_t *version = json_object_get(result, "protocolVersion");
	char text[160];
	int code;

	if (l->state != LINK_INITIALIZING) {
		json_decref(result);
		return;         /* server/discover was answered in the meantime */
	}
	if (!result) {
		link_msg_error(msg->error, &code, text, sizeof(text), &data);
		json_decref(data);
		link_die(l, ERR_TOOL, "it refused to initialize: error %d: %s", code, text);
		return;
	}
	enum rev rev = json_is_string(version)
		       ? rev_find(json_string_value(version), json_string_length(version)) : REV_COUNT;
	if (rev == REV_COUNT || rev == REV_R0 || rev_table[rev].era != ERA_LEGACY) {
		text_printable(json_is_string(version) ? json_string_value(version) : "none", json_is_string(version) ?
			       json_string_length(version) : 4, text, 40);
		link_die(l, ERR_TOOL, "it speaks no revision of MCP that is known here, but %s", text);
	} else {
		take_server(l, json_object_get(result, "serverInfo"));
		take_capabilities(l, result);
		agreed(l, rev);
	}
	json_decref(result);
}

/* --- news */

/* News of a server: that lists have changed, and resources that somebody watches.  An older server is subscribed to for
 * each resource (MCP U-03); one of 2026-07-28 has a stream of news, whose filter names all of them, and which is
 * replaced by another when they change: the old one ends when the new one is acknowledged, so that nothing is
 * missed. */

#define STEADY_US 60000000              /* a stream that lived so long is asked for again at once */
#define RELISTEN_DOUBLINGS 6

struct watched { char *uri; bool told, recorded; };     /* told: an older server is subscribed to */

static void link_watch_free(struct link *l)
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

static void send_subscription(struct link *l, const char *method, const char *uri, bool recorded)
{
	uint64_t id;

	(void)link_request(l, LINK_ASIDE, NULL, &id);
	link_msg_begin(&l->out, id, method);
	str_puts(&l->out, "\"uri\":");
	jx_write_stringz(&l->out, uri);
	link_msg_end(&l->out);
	link_send_head(l, id, &(struct link_head){ .method = method, .callers = true, .recorded = recorded });
}

/* A server that answers none gets no more of them. */
static bool too_many_aside(const struct link *l)
{
	if (l->naside < LINK_ASIDE_MAX)
		return false;
	metric_inc(METRIC_upstream_subscriptions_held);
	return true;
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
		if (l->wire->ops->full(l->wire) || too_many_aside(l))
			return false;
		w->told = true;
		send_subscription(l, "resources/subscribe", w->uri, w->recorded);
	}
	return true;
}

/* --- a server of 2026-07-28 */

/* Are all that stand in it recorded? */
static bool put_filter(struct link *l)
{
	static const char *const lists[UPSTREAM_TEMPLATE] = { "toolsListChanged", "promptsListChanged",
		"resourcesListChanged" };
	const char *comma = "";
	bool recorded = true;
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
		for (size_t it = 0; map_next(l->watched, &it, &key, &len, &value); ) {
			const struct watched *w = value;

			recorded = recorded && w->recorded;
			str_puts(&l->out, comma);
			jx_write_stringz(&l->out, w->uri);
			comma = ",";
		}
		str_putc(&l->out, ']');
	}
	str_puts(&l->out, "},");
	return recorded;
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
	bool recorded = put_filter(l);
	link_msg_meta(&l->out, true, 0, 0);
	link_msg_end(&l->out);
	link_send_head(l, l->listen_id, &(struct link_head){ .method = "subscriptions/listen",
		       .callers = map_count(l->watched) > 0, .recorded = recorded });
}

/* On a pipe the subscription is named by the id of its request, over HTTP the exchange is its own. */
static void link_watch_acknowledged(struct link *l, uint64_t exchange, const struct rpc_msg *msg)
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

/* a stream of news */
static void link_watch_ended(struct link *l, uint64_t id, bool refused)
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

/* the relisten timer */
static void link_watch_late(void *link)
{
	struct link *l = link;

	if (l->state != LINK_READY)
		return;
	ask_news(l);
	link_missed(l);
}

/* --- both */

static void link_watch_start(struct link *l)
{
	if (l->modern)
		ask_news(l);
	else
		l->watch_changed = true;
}

/* what is watched is not what it was */
static void link_watch_work(struct link *l)
{
	l->watch_changed = false;
	if (l->modern)
		ask_news(l);
	else if (l->says_updates)
		l->watch_changed = !subscribe_all(l);
}

/* link.c */
static void link_watch_updated(struct link *l, const struct rpc_msg *msg)
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

static void watch(struct link *l, const char *uri, bool recorded)
{
	struct watched *w = map_get_z(l->watched, uri);

	if (w)
		return;
	w = mem_zalloc(sizeof(*w));
	w->uri = mem_strdup(uri);
	w->recorded = recorded;
	(void)map_set_z(l->watched, uri, w);
	changed(l);
}

static void unwatch(struct link *l, const char *uri, bool recorded)
{
	struct watched *w = map_del_z(l->watched, uri);

	if (!w)
		return;
	/* Its news is nobody's in any case. */
	if (w->told && l->state == LINK_READY && recorded && !too_many_aside(l))
		send_subscription(l, "resources/unsubscribe", uri, recorded);
	else if (l->modern && recorded)
		changed(l);
	free(w->uri);
	free(w);
}

void link_watch(struct link *l, const char *uri, bool on, bool recorded)
{
	if (on)
		watch(l, uri, recorded);
	else
		unwatch(l, uri, recorded);
}

#define NOISE_MAX 100                   /* lines that are no messages, before the server is given up */
#define NOISE_SHOWN 160                 /* bytes of one in the log */
#define BATCH_MAX 50                    /* messages of one array */

/* --- requests of ours */

struct link_open *link_request(struct link *l, enum link_kind kind, struct link_call *call, uint64_t *ret_id)
{
	struct link_open *o = mem_zalloc(sizeof(*o));

	*o = (struct link_open){ kind, call };
	l->naside += kind == LINK_ASIDE;
	*ret_id = ++l->next_id;
	(void)map_set_u64(l->open, *ret_id, o);
	return o;
}

void link_forget(struct link *l, uint64_t id)
{
	free(map_del_u64(l->open, id));
	if (l->wire && l->wire->ops->forget)
		l->wire->ops->forget(l->wire, id);
}

/* What we say for ourselves, with nothing in it that a caller gave; answers have no method. */
static bool is_ours(const char *method)
{
	static const char *const ours[] = { "server/discover", "initialize", "notifications/initialized", "ping", "tools/list",
		"prompts/list", "resources/list", "resources/templates/list", "subscriptions/listen",
		"notifications/cancelled" };

	for (size_t i = 0; method && i < NELEMS(ours); i++)
		if (strcmp(method, ours[i]) == 0)
			return true;
	return !method;
}

void link_send_head(struct link *l, uint64_t id, const struct link_head *head)
{
	static struct log_site site;

	if (l->state == LINK_DEAD)
		return;
	if (!head->recorded && (head->callers || !is_ours(head->method))) {
		metric_inc(METRIC_handlers_unrecorded);
		if (log_allow(&site))
			log_err(NULL, "a message that is not recorded was not sent upstream=%s method=%s", l->name,
				head->method ? head->method : "answer");
		return;
	}
	l->wire->ops->send(l->wire, id, head, l->out.p, l->out.len);
}

void link_send(struct link *l, uint64_t id, const char *method, const char *name)
{
	link_send_head(l, id, &(struct link_head){ .method = method, .name = name });
}

static void drop_requests(struct link *l)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; map_next(l->open, &it, &key, &len, &value); )
		free(value);
	map_free(&l->open);
}

/* --- the end */

static void link_free(struct link *l)
{
	drop_requests(l);
	link_list_free(l);
	link_watch_free(l);
	ev_timer_free(&l->start);
	ev_timer_free(&l->relist);
	ev_timer_free(&l->relisten);
	ev_timer_free(&l->doubt);
	str_fini(&l->out);
	free(l->voice);
	free(l->name);
	free(l);
}

static void fail_listers(struct link *l, const struct err *err)
{
	while (!list_empty(&l->listers)) {
		struct link_lister *w = CONTAINER_OF(l->listers.next, struct link_lister, node);

		list_unlink(&w->node);
		w->done(w->arg, NULL, err);
		free(w);
	}
}

static void fail_retired(struct link *l)
{
	struct err err;

	(void)err_set(&err, ERR_TOOL, "", "it was changed, disabled or removed");
	fail_listers(l, &err);
}

/* Whoever waits hears of the end first, then the owner, who closes the link. */
static void bury(struct link *l)
{
	struct err death = l->death;

	link_call_fail_all(l, &death);
	fail_listers(l, &death);
	if (!l->closed)
		l->env.dead(l->env.arg, &death);
}

static void work(void *arg)
{
	struct link *l = arg;

	l->kicked = false;
	if (l->state == LINK_DEAD) {
		bury(l);
	} else {
		if (l->retired)
			fail_retired(l);
		link_call_run_waiting(l);
	}
	if (l->watch_changed && l->state == LINK_READY)
		link_watch_work(l);
	if (l->closed && !l->kicked)
		link_free(l);
}

void link_kick(struct link *l)
{
	if (l->kicked)
		return;
	l->kicked = true;
	ev_defer(l->env.loop, work, l);
}

static void set_dead(struct link *l)
{
	l->state = LINK_DEAD;
	ev_timer_stop(l->start);
	ev_timer_stop(l->relist);
	ev_timer_stop(l->relisten);
	ev_timer_stop(l->doubt);
	if (l->wire)
		l->wire->ops->close(&l->wire);
	link_kick(l);
}

void link_die(struct link *l, enum err_code code, const char *fmt, ...)
{
	char text[sizeof(l->death.msg)];
	va_list ap;

	if (l->state == LINK_DEAD)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut */
	va_end(ap);
	(void)err_set(&l->death, code, "", "%s", text);
	set_dead(l);
}

void link_dead(struct link *l, const struct err *err)
{
	if (l->state == LINK_DEAD)
		return;
	l->death = *err;
	set_dead(l);
}

void link_close(struct link **lp)
{
	struct link *l = *lp;

	if (!l)
		return;
	*lp = NULL;
	l->closed = true;
	link_call_unpark_all(l);
	if (l->state != LINK_DEAD)
		link_die(l, ERR_TOOL, "the link was closed");
	else
		link_kick(l);
}

/* --- silence */

static void doubt_over(void *arg)
{
	link_die(arg, ERR_TOOL, "it does not answer any more");
}

/* A call was given up after its time: is there still somebody?  Any message within LINK_DOUBT_MS says yes. */
void link_doubt(struct link *l)
{
	const char *method = l->modern ? "server/discover" : "ping";
	uint64_t id;

	if (l->state != LINK_READY || ev_timer_armed(l->doubt))
		return;
	ev_timer_start(l->doubt, LINK_DOUBT_MS * UINT64_C(1000));
	if (l->ping_id)
		link_forget(l, l->ping_id);
	(void)link_request(l, LINK_PING, NULL, &id);
	l->ping_id = id;
	link_msg_begin(&l->out, id, method);
	link_msg_meta(&l->out, l->modern, 0, 0);
	link_msg_end(&l->out);
	link_send(l, id, method, NULL);
}

/* --- what comes in */

/* Whatever its answer; more wait until there is room for many, as each time all that is watched is gone through. */
static void aside_over(struct link *l)
{
	l->naside--;
	if (l->watch_changed && l->naside < LINK_ASIDE_MAX / 2)
		link_kick(l);
}

static bool on_response(struct link *l, uint64_t exchange, const struct rpc_msg *msg)
{
	struct link_open *o;
	uint64_t id = 0;

	o = link_msg_id(msg->id, &id) ? map_del_u64(l->open, id) : NULL;
	if (!o)
		return false;   /* late: nobody waits for it any more (MCP C-02) */
	struct link_open was = *o;
	free(o);
	switch (was.kind) {
	case LINK_DISCOVER:
		link_hand_discovered(l, msg);
		break;
	case LINK_INITIALIZE:
		link_hand_initialized(l, msg);
		break;
	case LINK_LIST:
		link_list_page(l, msg);
		break;
	case LINK_CALL:
		link_call_answered(was.call, msg);
		break;
	case LINK_LISTEN:
		link_watch_ended(l, id, msg->error.p != NULL);
		break;
	case LINK_ASIDE:
		aside_over(l);
		break;
	case LINK_PING:
		break;
	}
	return id == exchange;
}

/* A server that asks without end is one of no use. */
static bool asks_too_much(struct link *l)
{
	uint64_t now = ev_now_us(l->env.loop);

	if (now - l->asked_us > 1000000) {
		l->asked_us = now;
		l->asked = 0;
	}
	if (++l->asked <= LINK_ANSWERED_MAX)
		return false;
	link_die(l, ERR_TOOL, "it sent more than %d requests in a second", LINK_ANSWERED_MAX);
	return true;
}

static void on_request(struct link *l, uint64_t exchange, const struct rpc_msg *msg)
{
	if (asks_too_much(l))
		return;
	if (strcmp(msg->method, "ping") == 0) {         /* MCP K-01 */
		link_msg_answer(&l->out, msg->id, NULL);
		link_send(l, 0, NULL, NULL);
	} else if (!link_call_question(l, exchange, msg)) {
		link_msg_refusal(&l->out, msg->id, -32601, "This client does not offer it");
		link_send(l, 0, NULL, NULL);
	}
}

static void on_notice(struct link *l, uint64_t exchange, const struct rpc_msg *msg)
{
	if (strcmp(msg->method, "notifications/progress") == 0)
		link_call_progress(l, msg);
	else if (strcmp(msg->method, "notifications/message") == 0)
		link_call_logged(l, exchange, msg);
	else if (strcmp(msg->method, "notifications/tools/list_changed") == 0 ||
		 strcmp(msg->method, "notifications/prompts/list_changed") == 0 ||
		 strcmp(msg->method, "notifications/resources/list_changed") == 0)
		link_list_changed(l);
	else if (strcmp(msg->method, "notifications/resources/updated") == 0)
		link_watch_updated(l, msg);
	else if (strcmp(msg->method, "notifications/subscriptions/acknowledged") == 0)
		link_watch_acknowledged(l, exchange, msg);
	else if (strcmp(msg->method, "notifications/cancelled") == 0)
		link_call_question_withdrawn(l, msg);
}

/* a line that is no message */
static void link_noise(struct link *l, const char *p, size_t len)
{
	static struct log_site site;
	char shown[NOISE_SHOWN * 4 + 1];

	if (l->state == LINK_DEAD)
		return;
	if (log_allow(&site)) {
		text_printable(p, len < NOISE_SHOWN ? len : NOISE_SHOWN, shown, sizeof(shown));
		log_warn(NULL, "upstream wrote what is no message upstream=%s text=%s", l->name, shown);
	}
	if (++l->noise > NOISE_MAX)
		link_die(l, ERR_TOOL, "it writes what is no MCP to its output");
}

static bool take(struct link *l, uint64_t exchange, const char *text, size_t len, bool alone);

/* MCP J-09: what 2025-03-26 may put into one array. */
static bool take_batch(struct link *l, uint64_t exchange, const char *text, size_t len)
{
	struct jx_span v;
	struct rpc_walk w;
	bool answered = false;
	size_t n = 0;

	for (; *text == ' ' || *text == '\t'; text++)
		len--;
	rpc_walk_start(&w, (struct jx_span){ text, len });
	while (l->state != LINK_DEAD && rpc_walk_element(&w, &v)) {
		if (n++ == BATCH_MAX) {
			link_die(l, ERR_TOOL, "it sent more than %d messages in one", BATCH_MAX);
			break;
		}
		answered = take(l, exchange, v.p, v.len, false) || answered;
	}
	return answered;
}

static bool take(struct link *l, uint64_t exchange, const char *text, size_t len, bool alone)
{
	struct rpc_msg msg;
	int rc = rpc_scan(text, len, &msg, NULL);

	metric_inc(METRIC_upstream_messages);
	if (rc == 0 && msg.array && alone && l->rev == REV_R2)
		return take_batch(l, exchange, text, len);
	if (rc < 0 || !msg.object || rpc_check(&msg, NULL) < 0) {
		link_noise(l, text, len);
		return false;
	}
	ev_timer_stop(l->doubt);
	switch (msg.kind) {
	case RPC_RESPONSE:
		return on_response(l, exchange, &msg);
	case RPC_REQUEST:
		on_request(l, exchange, &msg);
		break;
	case RPC_NOTICE:
		on_notice(l, exchange, &msg);
		break;
	}
	return false;
}

bool link_message(struct link *l, uint64_t exchange, const char *text, size_t len)
{
	return l->state != LINK_DEAD && take(l, exchange, text, len, true);
}

void link_failed(struct link *l, uint64_t id, const struct err *err)
{
	struct link_open *o = l->state == LINK_DEAD ? NULL : map_del_u64(l->open, id);

	if (!o)
		return;
	struct link_open was = *o;
	free(o);
	switch (was.kind) {
	case LINK_DISCOVER:
		link_hand_discovered(l, &(struct rpc_msg){ .object = true });
		break;
	case LINK_INITIALIZE:
		if (l->state == LINK_INITIALIZING)
			link_dead(l, err);
		break;
	case LINK_LIST:
		link_list_failed(l, err);
		break;
	case LINK_CALL:
		link_call_failed(was.call, err);
		break;
	case LINK_LISTEN:
		link_watch_ended(l, id, false);
		break;
	case LINK_ASIDE:
		aside_over(l);
		break;
	case LINK_PING:
		break;
	}
}

void link_drained(struct link *l)
{
	if (!list_empty(&l->waiting) || l->watch_changed)
		link_kick(l);
}

/* --- the face */

void link_ready(struct link *l)
{
	if (l->state == LINK_LISTING) {
		l->state = LINK_READY;
		ev_timer_stop(l->start);
		log_debug(NULL, "upstream is ready upstream=%s revision=%s", l->name, rev_table[l->rev].text);
		link_kick(l);
	}
	l->env.ready(l->env.arg);
}

int link_open(const struct link_env *env, const char *name, bool asks, enum link_era era, link_open_fn *open,
		 void *arg, struct link **ret, struct err *err)
{
	struct link *l = mem_zalloc(sizeof(*l));

	l->env = *env;
	l->name = mem_strdup(name);
	l->asks = asks;
	l->open = map_new();
	list_init(&l->waiting);
	list_init(&l->running);
	list_init(&l->parked);
	list_init(&l->listers);
	l->start = ev_timer_new(env->loop, link_hand_late, l);
	l->watched = map_new();
	l->log_level = LINK_LOG_OFF;
	l->relist = ev_timer_new(env->loop, link_list_late, l);
	l->relisten = ev_timer_new(env->loop, link_watch_late, l);
	l->doubt = ev_timer_new(env->loop, doubt_over, l);
	int rc = open(l, arg, &l->wire, err);
	if (rc < 0) {
		link_free(l);
		return rc;
	}
	link_hand_start(l, era);
	*ret = l;
	return 0;
}

bool link_busy(const struct link *l)
{
	return l->ncalls > 0 || !list_empty(&l->listers);
}

struct link_status link_status(const struct link *l)
{
	bool agreed = l->state == LINK_READY || l->state == LINK_LISTING;

	return (struct link_status){ !agreed ? LINK_ERA_UNKNOWN : l->modern ? LINK_ERA_MODERN : LINK_ERA_LEGACY, l->ncalls,
		l->hash };
}

void link_retire(struct link *l)
{
	l->retired = true;
	link_kick(l);
}

struct link_lister *link_list(struct link *l, link_list_fn *done, void *arg)
{
	struct link_lister *w = mem_zalloc(sizeof(*w));

	*w = (struct link_lister){ .link = l, .done = done, .arg = arg };
	list_push_back(&l->listers, &w->node);
	if (l->state == LINK_DEAD)
		link_kick(l);
	else if (l->state == LINK_READY)
		link_list_start(l);
	return w;
}

void link_unlist(struct link_lister **lister)
{
	struct link_lister *w = *lister;
	struct link *l = w->link;

	*lister = NULL;
	list_unlink(&w->node);
	free(w);
	if (l->state != LINK_DEAD && !link_busy(l))
		l->env.idle(l->env.arg, l->left);
}
