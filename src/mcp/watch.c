/* What the peers of a tenant are subscribed to, each resource once.  Where its handler can say that what it gives has
 * changed, it is asked to, as long as somebody is told. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "call/call.h"
#include "ev/ev.h"
#include "registry/registry.h"

#include "mcp_int.h"

struct mcp_watch {
	struct mcp_tenant *tenant;
	char *uri;
	size_t peers;
	int64_t version_id;             /* whose handler was asked */
	struct backend_watch *handler;  /* NULL: it has nothing to say */
};

static void on_changed(void *arg)
{
	struct mcp_watch *w = arg;

	notify_updated(w->tenant, w->uri);
}

static int ask_handler(struct mcp_watch *w, const struct reg_snapshot *snap, struct err *err)
{
	json_t *args = NULL;
	const struct reg_tool *line = reg_find_uri(snap, w->uri, strlen(w->uri), &args);
	int rc = 0;

	w->version_id = line ? line->def->version_id : 0;
	if (line)
		rc = call_watch(w->tenant->srv->env.calls, line->def, w->tenant->id, args, on_changed, w, &w->handler, err);
	json_decref(args);
	return rc;
}

static void watch_free(struct mcp_watch *w)
{
	backend_unwatch(&w->handler);
	free(w->uri);
	free(w);
}

bool watch_join(struct mcp_tenant *t, const struct reg_snapshot *snap, const char *uri)
{
	struct mcp_watch *w = map_get_z(t->watches, uri);
	struct err err;

	if (!w) {
		w = mem_zalloc(sizeof *w);
		*w = (struct mcp_watch){ .tenant = t, .uri = mem_strdup(uri) };
		if (ask_handler(w, snap, &err) == ERR_LIMIT) {
			watch_free(w);
			return false;
		}
		map_set_z(t->watches, uri, w);
	}
	w->peers++;
	t->nsubs++;
	return true;
}

void watch_leave(struct mcp_tenant *t, const char *uri)
{
	struct mcp_watch *w = map_get_z(t->watches, uri);

	t->nsubs--;
	if (--w->peers > 0)
		return;
	(void)map_del_z(t->watches, uri);
	watch_free(w);
}

void watch_look(struct mcp_tenant *t, const struct reg_snapshot *snap)
{
	const void *key;
	void *value;
	size_t len;
	struct err err;

	for (size_t it = 0; map_next(t->watches, &it, &key, &len, &value);) {
		struct mcp_watch *w = value;
		const struct reg_tool *line = reg_find_uri(snap, w->uri, strlen(w->uri), NULL);

		if (w->version_id == (line ? line->def->version_id : 0))
			continue;
		backend_unwatch(&w->handler);
		(void)ask_handler(w, snap, &err); /* else only changes of the definition are told */
	}
}

void watch_fini(struct mcp_tenant *t)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; map_next(t->watches, &it, &key, &len, &value);)
		watch_free(value);
	map_free(&t->watches);
	ev_timer_free(&t->updates);
}
