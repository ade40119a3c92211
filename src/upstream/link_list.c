/* The lists of a server: read page by page, one after the other, kept as digests, read again when the server says that
 * one has changed, though never more often than LINK_RELIST_MS.  Part of a link; loop thread.  Without its tools a
 * server is of no use; whatever is wrong with another list costs that list alone. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "proto/caps.h"

#include "link_parts_int.h"

#define METHOD_UNKNOWN (-32601)

static const struct list_row { const char *method, *member, *name, *noun; size_t name_max; } rows[UPSTREAM_KINDS] = {
	[UPSTREAM_TOOL] = { "tools/list", "tools", "name", "tool", UPSTREAM_NAME_MAX },
	[UPSTREAM_PROMPT] = { "prompts/list", "prompts", "name", "prompt", UPSTREAM_NAME_MAX },
	[UPSTREAM_RESOURCE] = { "resources/list", "resources", "uri", "resource", UPSTREAM_URI_MAX },
	[UPSTREAM_TEMPLATE] = { "resources/templates/list", "resourceTemplates", "uriTemplate", "resource template",
				UPSTREAM_URI_MAX },
};

uint64_t link_due(uint64_t *tat, uint64_t now, uint64_t gap_us, unsigned burst)
{
	uint64_t from = *tat > now ? *tat : now, slack = (burst - 1) * gap_us;

	*tat = from + gap_us;
	return from > now + slack ? from - slack : now;
}

static void digests_free(struct map **m)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; *m && map_next(*m, &it, &key, &len, &value); )
		free(value);
	map_free(m);
}

void link_list_free(struct link *l)
{
	upstream_list_free(&l->list);
	digests_free(&l->digests);
	map_free(&l->seen);
}

static void send_page(struct link *l, struct jx_span cursor)
{
	const char *method = rows[l->reading].method;

	(void)link_request(l, LINK_LIST, NULL, &l->list_id);
	link_msg_begin(&l->out, l->list_id, method);
	if (cursor.p) {
		str_puts(&l->out, "\"cursor\":");
		str_put(&l->out, cursor.p, cursor.len);
	}
	if (cursor.p && l->modern)
		str_putc(&l->out, ',');
	link_msg_meta(&l->out, l->modern, CAP_UI, 0);
	link_msg_end(&l->out);
	link_send(l, l->list_id, method, NULL);
}

static struct upstream_list *copy_list(const struct upstream_list *list)
{
	struct upstream_list *ret = mem_dup(list, sizeof(*list));

	ret->item = mem_calloc(list->count + 1, sizeof(*ret->item));
	for (size_t i = 0; i < list->count; i++) {
		ret->item[i] = list->item[i];
		ret->item[i].key = mem_strdup(list->item[i].key);
		ret->item[i].text = mem_strdup(list->item[i].text);
	}
	return ret;
}

/* Whoever asked before this reading began; of a failure, everybody.  done() may end others' waiting. */
static void tell_listers(struct link *l, const struct upstream_list *list, const struct err *err)
{
	for (struct link_lister *w; !list_empty(&l->listers); free(w)) {
		w = CONTAINER_OF(l->listers.next, struct link_lister, node);
		if (list && !w->served) {       /* nor did those behind it */
			l->again = true;
			return;
		}
		list_unlink(&w->node);
		w->done(w->arg, list ? copy_list(list) : NULL, err);
	}
}

static void finish(struct link *l)
{
	struct map *digests = map_new();
	struct upstream_list *list = l->list;
	struct digest *all = digest_new();
	uint8_t hash[DIGEST_SIZE];

	l->list = NULL;
	l->listing = false;
	map_free(&l->seen);
	for (size_t i = 0; i < list->count; i++) {
		const struct upstream_item *t = &list->item[i];

		free(map_set_z(digests, t->key, mem_dup(t->digest, sizeof(t->digest))));
		digest_put(all, t->key, strlen(t->key) + 1);
		digest_put(all, t->digest, sizeof(t->digest));
	}
	digest_put(all, list->unread, sizeof(list->unread));
	digest_end(&all, hash);
	bool same = l->digests && memcmp(hash, l->hash, sizeof(hash)) == 0;
	memcpy(l->hash, hash, sizeof(hash));
	memcpy(l->unread, list->unread, sizeof(l->unread));
	digests_free(&l->digests);
	l->digests = digests;
	(void)snprintf(list->revision, sizeof(list->revision), "%s", rev_table[l->rev].text);
	(void)snprintf(list->server, sizeof(list->server), "%s", l->server);
	ev_timer_stop(l->relist);
	tell_listers(l, list, NULL);
	upstream_list_free(&list);
	link_ready(l);
	if (!same)
		l->env.changed(l->env.arg);
	if (l->again) {
		l->again = false;
		link_list_changed(l);
	}
}

/* The list of this kind, or of the next one that the server has. */
static void read_from(struct link *l, enum upstream_kind kind)
{
	while (kind < UPSTREAM_KINDS && !l->has[kind])
		kind++;
	if (kind == UPSTREAM_KINDS) {
		finish(l);
		return;
	}
	l->reading = kind;
	l->pages = 0;
	l->list_count = 0;
	send_page(l, (struct jx_span){ NULL, 0 });
}

void link_list_start(struct link *l)
{
	if (l->listing) {
		l->again = true;
		return;
	}
	ev_timer_start(l->relist, LINK_LIST_MS * UINT64_C(1000));
	LIST_FOREACH(n, &l->listers)
		CONTAINER_OF(n, struct link_lister, node)->served = true;
	l->listing = true;
	l->list = mem_zalloc(sizeof(*l->list));
	l->list_bytes = 0;
	l->seen = map_new();
	read_from(l, UPSTREAM_TOOL);
}

void link_list_changed(struct link *l)
{
	uint64_t now = ev_now_us(l->env.loop);

	if (l->listing)
		l->again = true;
	else if (l->state == LINK_READY && !ev_timer_armed(l->relist))
		ev_timer_start(l->relist, link_due(&l->relist_tat, now, LINK_RELIST_MS * UINT64_C(1000),
						   LINK_RELIST_BURST) - now);
}

static void forget_items(struct link *l)
{
	struct upstream_list *list = l->list;

	while (list->count > 0 && list->item[list->count - 1].kind == l->reading) {
		struct upstream_item *t = &list->item[--list->count];

		free(t->key);
		free(t->text);
	}
}

/* Nothing is known of this kind; the others are read all the same. */
static void leave_out(struct link *l, const char *why)
{
	enum upstream_kind kind = l->reading;

	log_warn(NULL, "a list of an upstream could not be read upstream=%s list=%s why=\"%s\"", l->name,
		 rows[kind].method, why);
	l->list->unread[kind] = true;
	forget_items(l);
	read_from(l, kind + 1);
}

void link_list_failed(struct link *l, const struct err *err)
{
	if (l->listing && l->reading != UPSTREAM_TOOL) {
		leave_out(l, err->msg);
		return;
	}
	upstream_list_free(&l->list);
	map_free(&l->seen);
	ev_timer_stop(l->relist);
	l->listing = false;
	if (l->state == LINK_READY)
		tell_listers(l, NULL, err);
	else
		link_die(l, ERR_TOOL, "%s", err->msg);
}

/* Their time is over (HARDENING F-17), whatever the server has been saying meanwhile: without its tools they could
 * not be read; of the others this one and those behind it could not. */
static void overdue(struct link *l)
{
	struct err err;

	metric_inc(METRIC_upstream_lists_late);
	link_forget(l, l->list_id);
	(void)err_set(&err, ERR_TOOL, "", "it did not list its %ss within %d s", rows[l->reading].noun, LINK_LIST_MS / 1000);
	if (l->reading == UPSTREAM_TOOL) {
		link_list_failed(l, &err);
		link_doubt(l);
		return;
	}
	log_warn(NULL, "lists of an upstream could not be read upstream=%s why=\"%s\"", l->name, err.msg);
	forget_items(l);
	for (enum upstream_kind kind = l->reading; kind < UPSTREAM_KINDS; kind++)
		l->list->unread[kind] = l->has[kind];
	finish(l);
}

void link_list_late(void *link)
{
	struct link *l = link;

	if (l->listing)
		overdue(l);
	else if (l->state == LINK_READY)
		link_list_start(l);
}

/* Free; NULL: it has no name that can be used. */
static char *key_of(enum upstream_kind kind, const json_t *object)
{
	static const char *const prefix[UPSTREAM_KINDS] = { "", "prompt:", "resource:", "template:" };
	const json_t *v = json_object_get(object, rows[kind].name);
	const char *name = json_string_value(v), *unused;
	size_t len = json_string_length(v);

	if (!name || len == 0 || len > rows[kind].name_max || strlen(name) != len ||
	    text_hidden(name, len, &(uint32_t){ 0 }) < len)
		return NULL;
	if (kind == UPSTREAM_TOOL && upstream_key(name, &unused) != UPSTREAM_TOOL)
		return NULL;    /* it would look like something else */
	return mem_printf("%s%s", prefix[kind], name);
}

static void add_item(struct link *l, char *key, json_t *object)
{
	struct upstream_list *list = l->list;
	struct str text = STR_INIT;

	if ((list->count & (list->count - 1)) == 0)
		list->item = mem_realloc(list->item, (list->count ? list->count * 2 : 1) * sizeof(*list->item));
	struct upstream_item *t = &list->item[list->count++];
	*t = (struct upstream_item){ .kind = l->reading, .key = key };
	upstream_item_digest(l->reading, object, t->digest);
	if (l->reading == UPSTREAM_PROMPT || l->reading == UPSTREAM_TEMPLATE)
		json_object_set_new(object, "completes", json_boolean(l->completes));
	jx_write(object, &text);
	t->text = str_take(&text);
	l->list_count++;
	(void)map_set_z(l->seen, key, l);
}

/* 1: there is room for no more. */
static int take_item(struct link *l, struct jx_span text, struct err *err)
{
	const struct list_row *row = &rows[l->reading];
	bool tool = l->reading == UPSTREAM_TOOL;
	json_t *object = NULL;
	int rc = 0;

	if (l->list_count == UPSTREAM_ITEMS_MAX && tool)
		return err_set(err, ERR_TOOL, "", "it lists more than %d tools", UPSTREAM_ITEMS_MAX);
	if (l->list_count == UPSTREAM_ITEMS_MAX) {
		log_warn(NULL, "an upstream lists more than can be hosted, the rest is left out upstream=%s list=%s "
			 "max=%d", l->name, row->method, UPSTREAM_ITEMS_MAX);
		return 1;
	}
	if (!rpc_is(text, '{') || jx_parse_scanned(text.p, text.len, &object, err) < 0)
		return err_set(err, ERR_TOOL, "", "its list of %ss holds what is no %s", row->noun, row->noun);
	char *key = key_of(l->reading, object);
	bool twice = key && map_get_z(l->seen, key);
	if (!key)
		rc = err_set(err, ERR_TOOL, "", "its list of %ss holds one without a usable %s", row->noun, row->name);
	else if (twice && tool)
		rc = err_set(err, ERR_TOOL, "", "it lists the tool %.80s twice", key);
	else if (!twice)
		add_item(l, key, object);
	if (rc < 0 || twice)
		free(key);
	json_decref(object);
	return rc;
}

/* 1: the list is at its end for us. */
static int take_items(struct link *l, struct jx_span items, struct err *err)
{
	const struct list_row *row = &rows[l->reading];
	struct rpc_walk w;
	struct jx_span v;
	int rc = 0;

	l->list_bytes += items.len;
	if (!rpc_is(items, '['))
		return err_set(err, ERR_TOOL, "", "its answer to %s has no list of %ss", row->method, row->noun);
	if (l->list_bytes > LINK_LIST_BYTES_MAX || ++l->pages > LINK_PAGES_MAX)
		return err_set(err, ERR_TOOL, "", "its list of %ss has more than %u MiB or %d pages", row->noun,
			       LINK_LIST_BYTES_MAX >> 20, LINK_PAGES_MAX);
	rpc_walk_start(&w, items);
	while (rc == 0 && rpc_walk_element(&w, &v))
		rc = take_item(l, v, err);
	return rc;
}

static void refused(struct link *l, const struct rpc_msg *msg)
{
	char text[160];
	struct err err;
	json_t *data;
	int code;

	link_msg_error(msg->error, &code, text, sizeof(text), &data);
	json_decref(data);
	if (code == METHOD_UNKNOWN && l->reading != UPSTREAM_TOOL) {
		read_from(l, l->reading + 1);   /* who has resources need not have templates */
		return;
	}
	(void)err_set(&err, ERR_TOOL, "", "it refused to list its %ss: error %d: %s", rows[l->reading].noun, code,
		      text);
	link_list_failed(l, &err);
}

void link_list_page(struct link *l, const struct rpc_msg *msg)
{
	struct jx_span items = { NULL, 0 }, cursor = { NULL, 0 }, v;
	struct rpc_walk w;
	char name[24];
	struct err err;

	if (!l->listing)
		return;
	if (!rpc_is(msg->result, '{')) {
		refused(l, msg);
		return;
	}
	rpc_walk_start(&w, msg->result);
	while (rpc_walk_member(&w, name, sizeof(name), &v)) {
		if (strcmp(name, rows[l->reading].member) == 0)
			items = v;
		else if (strcmp(name, "nextCursor") == 0 && rpc_is(v, '"'))
			cursor = v;
	}
	int rc = take_items(l, items, &err);
	if (rc < 0)
		link_list_failed(l, &err);
	else if (cursor.p && rc == 0)
		send_page(l, cursor);
	else
		read_from(l, l->reading + 1);
}
