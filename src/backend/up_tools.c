/* The list of tools: read page by page, kept as digests, read again when the server says that it has changed, though
 * never more often than UP_RELIST_MS. */
#include "config.h"

#include "up_link_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"

#define TOOL_NAME_MAX 256               /* bytes; longer ones cannot be tools of ours anyway */

static void digests_free(struct map **m)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; *m && map_next(*m, &it, &key, &len, &value); )
		free(value);
	map_free(m);
}

void up_tools_free(struct up_link *l)
{
	upstream_list_free(&l->list);
	digests_free(&l->digests);
}

static void send_page(struct up_link *l, struct jx_span cursor)
{
	uint64_t id;

	(void)up_link_request(l, UP_LIST, NULL, &id);
	up_msg_begin(&l->out, id, "tools/list");
	if (cursor.p) {
		str_puts(&l->out, "\"cursor\":");
		str_put(&l->out, cursor.p, cursor.len);
	}
	if (cursor.p && l->modern)
		str_putc(&l->out, ',');
	up_msg_meta(&l->out, l->modern, 0, 0);
	up_msg_end(&l->out);
	up_link_send(l, id, "tools/list", NULL);
}

static void tell_listers(struct up_link *l, struct upstream_list *list, const struct err *err)
{
	struct list all;

	list_init(&all);
	while (!list_empty(&l->listers)) {
		struct list *n = l->listers.next;

		list_unlink(n);
		list_push_back(&all, n);
	}
	while (!list_empty(&all)) {
		struct up_lister *w = CONTAINER_OF(all.next, struct up_lister, node);
		bool served = list || err;

		list_unlink(&w->node);
		if (served) {
			w->done(w->arg, list, err);
			list = NULL;
			free(w);
		} else {        /* one list, one taker: the next one reads again */
			list_push_back(&l->listers, &w->node);
			l->again = true;
		}
	}
	upstream_list_free(&list);
}

static void finish(struct up_link *l)
{
	struct map *digests = map_new();
	struct upstream_list *list = l->list;
	struct digest *all = digest_new();
	uint8_t hash[DIGEST_SIZE];

	l->list = NULL;
	l->listing = false;
	l->listed_us = ev_now_us(l->env.loop);
	for (size_t i = 0; i < list->count; i++) {
		const struct upstream_tool *t = &list->tool[i];

		free(map_set_z(digests, t->name, mem_dup(t->digest, sizeof(t->digest))));
		digest_put(all, t->name, strlen(t->name) + 1);
		digest_put(all, t->digest, sizeof(t->digest));
	}
	digest_end(&all, hash);
	bool same = l->digests && memcmp(hash, l->hash, sizeof(hash)) == 0;
	memcpy(l->hash, hash, sizeof(hash));
	digests_free(&l->digests);
	l->digests = digests;
	(void)snprintf(list->revision, sizeof(list->revision), "%s", rev_table[l->rev].text);
	(void)snprintf(list->server, sizeof(list->server), "%s", l->server);
	tell_listers(l, list, NULL);
	up_link_ready(l);
	if (!same)
		l->env.changed(l->env.arg);
	if (l->again) {
		l->again = false;
		up_tools_changed(l);
	}
}

void up_tools_start(struct up_link *l)
{
	if (l->listing) {
		l->again = true;
		return;
	}
	ev_timer_stop(l->relist);
	l->listing = true;
	l->list = mem_zalloc(sizeof(*l->list));
	l->list_bytes = l->pages = 0;
	if (l->has_tools)
		send_page(l, (struct jx_span){ NULL, 0 });
	else
		finish(l);
}

void up_tools_late(void *link)
{
	struct up_link *l = link;

	if (l->state == UP_READY)
		up_tools_start(l);
}

void up_tools_changed(struct up_link *l)
{
	uint64_t now = ev_now_us(l->env.loop), due = l->listed_us + UP_RELIST_MS * UINT64_C(1000);

	if (l->listing)
		l->again = true;
	else if (l->state == UP_READY && !ev_timer_armed(l->relist))
		ev_timer_start(l->relist, due > now ? due - now : 0);
}

void up_tools_failed(struct up_link *l, const struct err *err)
{
	upstream_list_free(&l->list);
	l->listing = false;
	if (l->state == UP_READY)
		tell_listers(l, NULL, err);
	else
		up_link_die(l, ERR_TOOL, "%s", err->msg);
}

static int add_tool(struct up_link *l, struct jx_span text, struct err *err)
{
	struct upstream_list *list = l->list;
	json_t *tool = NULL;
	const char *name;

	if (list->count == UPSTREAM_TOOLS_MAX)
		return err_set(err, ERR_TOOL, "", "it lists more than %d tools", UPSTREAM_TOOLS_MAX);
	if (!rpc_is(text, '{') || jx_parse_scanned(text.p, text.len, &tool, err) < 0)
		return err_set(err, ERR_TOOL, "", "its list of tools holds what is no tool");
	name = json_string_value(json_object_get(tool, "name"));
	size_t len = json_string_length(json_object_get(tool, "name"));
	int rc = 0;
	if (!name || len == 0 || len > TOOL_NAME_MAX || strlen(name) != len || text_hidden(name, len, &(uint32_t){ 0 }) < len)
		rc = err_set(err, ERR_TOOL, "", "its list of tools holds one without a usable name");
	for (size_t i = 0; i < list->count && rc == 0; i++)
		if (strcmp(list->tool[i].name, name) == 0)
			rc = err_set(err, ERR_TOOL, "", "it lists the tool %.80s twice", name);
	if (rc == 0) {
		if ((list->count & (list->count - 1)) == 0)
			list->tool = mem_realloc(list->tool, (list->count ? list->count * 2 : 1) * sizeof(*list->tool));
		struct upstream_tool *t = &list->tool[list->count++];
		t->name = mem_strdup(name);
		t->text = mem_strndup(text.p, text.len);
		upstream_tool_digest(tool, t->digest);
	}
	json_decref(tool);
	return rc;
}

static int add_tools(struct up_link *l, struct jx_span tools, struct err *err)
{
	struct rpc_walk w;
	struct jx_span v;
	int rc = 0;

	l->list_bytes += tools.len;
	if (!rpc_is(tools, '['))
		return err_set(err, ERR_TOOL, "", "its answer to tools/list has no list of tools");
	if (l->list_bytes > UP_LIST_BYTES_MAX || ++l->pages > UP_PAGES_MAX)
		return err_set(err, ERR_TOOL, "", "its list of tools has more than %u MiB or %d pages", UP_LIST_BYTES_MAX >> 20,
			       UP_PAGES_MAX);
	rpc_walk_start(&w, tools);
	while (rc == 0 && rpc_walk_element(&w, &v))
		rc = add_tool(l, v, err);
	return rc;
}

void up_tools_page(struct up_link *l, const struct rpc_msg *msg)
{
	struct jx_span tools = { NULL, 0 }, cursor = { NULL, 0 }, v;
	struct rpc_walk w;
	char name[16], text[160];
	struct err err;
	json_t *data;
	int code;

	if (!l->listing)
		return;
	if (!rpc_is(msg->result, '{')) {
		up_msg_error(msg->error, &code, text, sizeof(text), &data);
		json_decref(data);
		(void)err_set(&err, ERR_TOOL, "", "it refused to list its tools: error %d: %s", code, text);
		up_tools_failed(l, &err);
		return;
	}
	rpc_walk_start(&w, msg->result);
	while (rpc_walk_member(&w, name, sizeof(name), &v)) {
		if (strcmp(name, "tools") == 0)
			tools = v;
		else if (strcmp(name, "nextCursor") == 0 && rpc_is(v, '"'))
			cursor = v;
	}
	if (add_tools(l, tools, &err) < 0)
		up_tools_failed(l, &err);
	else if (cursor.p)
		send_page(l, cursor);
	else
		finish(l);
}
