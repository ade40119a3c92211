/* One link: its requests by id, what comes in, its end.  Nothing is reported from inside a call of a user: what is
 * due is noted, and done by work(), which the loop calls. */
#include "config.h"

#include "link_parts_int.h"

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

#define NOISE_MAX 100                   /* lines that are no messages, before the server is given up */
#define NOISE_SHOWN 160                 /* bytes of one in the log */
#define BATCH_MAX 50                    /* messages of one array */

/* --- requests of ours */

struct up_open *up_link_request(struct up_link *l, enum up_kind kind, struct up_call *call, uint64_t *ret_id)
{
	struct up_open *o = mem_zalloc(sizeof(*o));

	*o = (struct up_open){ kind, call };
	*ret_id = ++l->next_id;
	(void)map_set_u64(l->open, *ret_id, o);
	return o;
}

void up_link_forget(struct up_link *l, uint64_t id)
{
	free(map_del_u64(l->open, id));
	if (l->wire && l->wire->ops->forget)
		l->wire->ops->forget(l->wire, id);
}

void up_link_send_head(struct up_link *l, uint64_t id, const struct up_head *head)
{
	if (l->state != UP_DEAD)
		l->wire->ops->send(l->wire, id, head, l->out.p, l->out.len);
}

void up_link_send(struct up_link *l, uint64_t id, const char *method, const char *name)
{
	up_link_send_head(l, id, &(struct up_head){ .method = method, .name = name });
}

static void drop_requests(struct up_link *l)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; map_next(l->open, &it, &key, &len, &value); )
		free(value);
	map_free(&l->open);
}

/* --- the end */

static void link_free(struct up_link *l)
{
	drop_requests(l);
	up_list_free(l);
	up_watch_free(l);
	ev_timer_free(&l->start);
	ev_timer_free(&l->relist);
	ev_timer_free(&l->relisten);
	ev_timer_free(&l->doubt);
	str_fini(&l->out);
	free(l->name);
	free(l);
}

static void fail_listers(struct up_link *l, const struct err *err)
{
	while (!list_empty(&l->listers)) {
		struct up_lister *w = CONTAINER_OF(l->listers.next, struct up_lister, node);

		list_unlink(&w->node);
		w->done(w->arg, NULL, err);
		free(w);
	}
}

/* Whoever waits hears of the end first, then the owner, who closes the link. */
static void bury(struct up_link *l)
{
	struct err death = l->death;

	up_call_fail_all(l, &death);
	fail_listers(l, &death);
	if (!l->closed)
		l->env.dead(l->env.arg, &death);
}

static void work(void *arg)
{
	struct up_link *l = arg;

	l->kicked = false;
	if (l->state == UP_DEAD)
		bury(l);
	else
		up_call_run_waiting(l);
	if (l->watch_changed && l->state == UP_READY)
		up_watch_work(l);
	if (l->closed && !l->kicked)
		link_free(l);
}

void up_link_kick(struct up_link *l)
{
	if (l->kicked)
		return;
	l->kicked = true;
	ev_defer(l->env.loop, work, l);
}

static void set_dead(struct up_link *l)
{
	l->state = UP_DEAD;
	ev_timer_stop(l->start);
	ev_timer_stop(l->relist);
	ev_timer_stop(l->relisten);
	ev_timer_stop(l->doubt);
	if (l->wire)
		l->wire->ops->close(&l->wire);
	up_link_kick(l);
}

void up_link_die(struct up_link *l, enum err_code code, const char *fmt, ...)
{
	char text[sizeof(l->death.msg)];
	va_list ap;

	if (l->state == UP_DEAD)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut */
	va_end(ap);
	(void)err_set(&l->death, code, "", "%s", text);
	set_dead(l);
}

void up_link_dead(struct up_link *l, const struct err *err)
{
	if (l->state == UP_DEAD)
		return;
	l->death = *err;
	set_dead(l);
}

void up_link_close(struct up_link **lp)
{
	struct up_link *l = *lp;

	if (!l)
		return;
	*lp = NULL;
	l->closed = true;
	up_call_unpark_all(l);
	if (l->state != UP_DEAD)
		up_link_die(l, ERR_TOOL, "the link was closed");
	else
		up_link_kick(l);
}

/* --- silence */

static void doubt_over(void *arg)
{
	up_link_die(arg, ERR_TOOL, "it does not answer any more");
}

/* A call was given up after its time: is there still somebody?  Any message within UP_DOUBT_MS says yes. */
void up_link_doubt(struct up_link *l)
{
	const char *method = l->modern ? "server/discover" : "ping";
	uint64_t id;

	if (l->state != UP_READY || ev_timer_armed(l->doubt))
		return;
	ev_timer_start(l->doubt, UP_DOUBT_MS * UINT64_C(1000));
	(void)up_link_request(l, UP_PING, NULL, &id);
	up_msg_begin(&l->out, id, method);
	up_msg_meta(&l->out, l->modern, 0, 0);
	up_msg_end(&l->out);
	up_link_send(l, id, method, NULL);
}

/* --- what comes in */

static bool on_response(struct up_link *l, uint64_t exchange, const struct rpc_msg *msg)
{
	struct up_open *o;
	uint64_t id = 0;

	o = up_msg_id(msg->id, &id) ? map_del_u64(l->open, id) : NULL;
	if (!o)
		return false;   /* late: nobody waits for it any more (MCP C-02) */
	struct up_open was = *o;
	free(o);
	switch (was.kind) {
	case UP_DISCOVER:
		up_hand_discovered(l, msg);
		break;
	case UP_INITIALIZE:
		up_hand_initialized(l, msg);
		break;
	case UP_LIST:
		up_list_page(l, msg);
		break;
	case UP_CALL:
		up_call_answered(was.call, msg);
		break;
	case UP_LISTEN:
		up_watch_ended(l, id, msg->error.p != NULL);
		break;
	case UP_PING:
	case UP_ASIDE:
		break;
	}
	return id == exchange;
}

/* A server that asks without end is one of no use. */
static bool asks_too_much(struct up_link *l)
{
	uint64_t now = ev_now_us(l->env.loop);

	if (now - l->asked_us > 1000000) {
		l->asked_us = now;
		l->asked = 0;
	}
	if (++l->asked <= UP_ANSWERED_MAX)
		return false;
	up_link_die(l, ERR_TOOL, "it sent more than %d requests in a second", UP_ANSWERED_MAX);
	return true;
}

static void on_request(struct up_link *l, uint64_t exchange, const struct rpc_msg *msg)
{
	if (asks_too_much(l))
		return;
	if (strcmp(msg->method, "ping") == 0) {         /* MCP K-01 */
		up_msg_answer(&l->out, msg->id, NULL);
		up_link_send(l, 0, NULL, NULL);
	} else if (!up_call_question(l, exchange, msg)) {
		up_msg_refusal(&l->out, msg->id, -32601, "This client does not offer it");
		up_link_send(l, 0, NULL, NULL);
	}
}

static void on_notice(struct up_link *l, uint64_t exchange, const struct rpc_msg *msg)
{
	if (strcmp(msg->method, "notifications/progress") == 0)
		up_call_progress(l, msg);
	else if (strcmp(msg->method, "notifications/message") == 0)
		up_call_logged(l, exchange, msg);
	else if (strcmp(msg->method, "notifications/tools/list_changed") == 0 ||
		 strcmp(msg->method, "notifications/prompts/list_changed") == 0 ||
		 strcmp(msg->method, "notifications/resources/list_changed") == 0)
		up_list_changed(l);
	else if (strcmp(msg->method, "notifications/resources/updated") == 0)
		up_watch_updated(l, msg);
	else if (strcmp(msg->method, "notifications/subscriptions/acknowledged") == 0)
		up_watch_acknowledged(l, exchange, msg);
	else if (strcmp(msg->method, "notifications/cancelled") == 0)
		up_call_question_withdrawn(l, msg);
}

void up_link_noise(struct up_link *l, const char *p, size_t len)
{
	static struct log_site site;
	char shown[NOISE_SHOWN * 4 + 1];

	if (l->state == UP_DEAD)
		return;
	if (log_allow(&site)) {
		text_printable(p, len < NOISE_SHOWN ? len : NOISE_SHOWN, shown, sizeof(shown));
		log_warn(NULL, "upstream wrote what is no message upstream=%s text=%s", l->name, shown);
	}
	if (++l->noise > NOISE_MAX)
		up_link_die(l, ERR_TOOL, "it writes what is no MCP to its output");
}

static bool take(struct up_link *l, uint64_t exchange, const char *text, size_t len, bool alone);

/* MCP J-09: what 2025-03-26 may put into one array. */
static bool take_batch(struct up_link *l, uint64_t exchange, const char *text, size_t len)
{
	struct jx_span v;
	struct rpc_walk w;
	bool answered = false;
	size_t n = 0;

	for (; *text == ' ' || *text == '\t'; text++)
		len--;
	rpc_walk_start(&w, (struct jx_span){ text, len });
	while (l->state != UP_DEAD && rpc_walk_element(&w, &v)) {
		if (n++ == BATCH_MAX) {
			up_link_die(l, ERR_TOOL, "it sent more than %d messages in one", BATCH_MAX);
			break;
		}
		answered = take(l, exchange, v.p, v.len, false) || answered;
	}
	return answered;
}

static bool take(struct up_link *l, uint64_t exchange, const char *text, size_t len, bool alone)
{
	struct rpc_msg msg;
	int rc = rpc_scan(text, len, &msg, NULL);

	metric_inc(METRIC_upstream_messages);
	if (rc == 0 && msg.array && alone && l->rev == REV_R2)
		return take_batch(l, exchange, text, len);
	if (rc < 0 || !msg.object || rpc_check(&msg, NULL) < 0) {
		up_link_noise(l, text, len);
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

bool up_link_message(struct up_link *l, uint64_t exchange, const char *text, size_t len)
{
	return l->state != UP_DEAD && take(l, exchange, text, len, true);
}

void up_link_failed(struct up_link *l, uint64_t id, const struct err *err)
{
	struct up_open *o = l->state == UP_DEAD ? NULL : map_del_u64(l->open, id);

	if (!o)
		return;
	struct up_open was = *o;
	free(o);
	switch (was.kind) {
	case UP_DISCOVER:
		up_hand_discovered(l, &(struct rpc_msg){ .object = true });
		break;
	case UP_INITIALIZE:
		if (l->state == UP_INITIALIZING)
			up_link_dead(l, err);
		break;
	case UP_LIST:
		up_list_failed(l, err);
		break;
	case UP_CALL:
		up_call_failed(was.call, err);
		break;
	case UP_LISTEN:
		up_watch_ended(l, id, false);
		break;
	case UP_PING:
	case UP_ASIDE:
		break;
	}
}

void up_link_drained(struct up_link *l)
{
	if (!list_empty(&l->waiting) || l->watch_changed)
		up_link_kick(l);
}

/* --- the face */

void up_link_ready(struct up_link *l)
{
	if (l->state == UP_LISTING) {
		l->state = UP_READY;
		ev_timer_stop(l->start);
		log_debug(NULL, "upstream is ready upstream=%s revision=%s", l->name, rev_table[l->rev].text);
		up_link_kick(l);
	}
	l->env.ready(l->env.arg);
}

int up_link_open(const struct up_link_env *env, const char *name, bool asks, enum up_era era, up_open_fn *open,
		 void *arg, struct up_link **ret, struct err *err)
{
	struct up_link *l = mem_zalloc(sizeof(*l));

	l->env = *env;
	l->name = mem_strdup(name);
	l->asks = asks;
	l->open = map_new();
	list_init(&l->waiting);
	list_init(&l->running);
	list_init(&l->parked);
	list_init(&l->listers);
	l->start = ev_timer_new(env->loop, up_hand_late, l);
	l->watched = map_new();
	l->log_level = UP_LOG_OFF;
	l->relist = ev_timer_new(env->loop, up_list_late, l);
	l->relisten = ev_timer_new(env->loop, up_watch_late, l);
	l->doubt = ev_timer_new(env->loop, doubt_over, l);
	int rc = open(l, arg, &l->wire, err);
	if (rc < 0) {
		link_free(l);
		return rc;
	}
	up_hand_start(l, era);
	*ret = l;
	return 0;
}

bool up_link_busy(const struct up_link *l)
{
	return l->ncalls > 0 || !list_empty(&l->listers);
}

enum up_era up_link_era(const struct up_link *l)
{
	if (l->state != UP_READY && l->state != UP_LISTING)
		return UP_ERA_UNKNOWN;
	return l->modern ? UP_ERA_MODERN : UP_ERA_LEGACY;
}

size_t up_link_calls(const struct up_link *l)
{
	return l->ncalls;
}

const uint8_t *up_link_hash(const struct up_link *l)
{
	return l->hash;
}

void up_link_list(struct up_link *l, up_list_fn *done, void *arg)
{
	struct up_lister *w = mem_zalloc(sizeof(*w));

	w->done = done;
	w->arg = arg;
	list_push_back(&l->listers, &w->node);
	if (l->state == UP_DEAD)
		up_link_kick(l);
	else if (l->state == UP_READY)
		up_list_start(l);
}
