/* The handshake: server/discover first, initialize when that means nothing there (MCP V-07).  Whichever is answered
 * well decides the era; what was learned is tried first the next time. */
#include "config.h"

#include "link_parts_int.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"

static void send_discover(struct link *l)
{
	uint64_t id;

	(void)link_request(l, LINK_DISCOVER, NULL, &id);
	link_msg_begin(&l->out, id, "server/discover");
	link_msg_meta(&l->out, true, 0, 0);
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

void link_hand_start(struct link *l, enum link_era era)
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

void link_hand_late(void *link)
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
}

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

void link_hand_discovered(struct link *l, const struct rpc_msg *msg)
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

void link_hand_initialized(struct link *l, const struct rpc_msg *msg)
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
	enum rev rev = json_is_string(version) ? rev_find(json_string_value(version), json_string_length(version)) : REV_COUNT;
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
