/* Type hec: Splunk's HTTP Event Collector.  A batch is a request of events; 200 says that they were received, and with
 * `ack` they are asked for until they are indexed.  Loop thread, but for put(). */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "ev/ev.h"
#include "json/json.h"
#include "net/hook.h"

#include "sink_int.h"

#define ASK_FIRST_MS 10                 /* whether it is indexed; doubled */
#define ASK_MOST_MS 10000
#define ASK_FOR_MS 300000               /* then the batch goes again */
#define CHANNEL "x-splunk-request-channel"

struct hec {
	struct sink_http *events;
	struct hook *ack;               /* NULL: nothing is asked */
	char channel[ID_TEXT_SIZE];     /* of this process: acknowledgements are numbered in it */
	int64_t id;                     /* of the request that is asked for */
	uint64_t since_us, ask_ms;
	bool broke;                     /* a question was not answered: who was away may have forgotten what it took */
	struct ev_timer *ask;
};

/* --- an event (on the reading lane) */

static int put_event(struct sink *s, struct str *body, const struct report_carried *r, const char *line, size_t len,
		     struct err *err)
{
	struct utsname host;
	size_t n = 0;
	const char *log = sink_member(r, "log", &n);

	(void)s;
	(void)err;
	str_printf(body, "{\"time\":%" PRId64 ".%06" PRId64 ",\"host\":\"", r->ts_us / 1000000, r->ts_us % 1000000);
	str_puts(body, sink_host(&host));
	str_puts(body, "\",\"source\":\"");
	str_put(body, log ? log : "", n);
	str_printf(body, "\",\"sourcetype\":\"toolcrib:audit\",\"fields\":{\"id\":\"%s\"},\"event\":", r->uid);
	str_put(body, line, len);
	str_puts(body, "}\n");
	return 0;
}

/* --- acknowledgements */

static void again(struct hec *c)
{
	ev_timer_start(c->ask, c->ask_ms * 1000);
	c->ask_ms = 2 * c->ask_ms < ASK_MOST_MS ? 2 * c->ask_ms : ASK_MOST_MS;
}

static void not_yet(struct hec *c, const struct hook_answer *a)
{
	c->broke |= !a->taken;
	again(c);
}

static bool says_yes(const struct hec *c, const struct hook_answer *a)
{
	json_t *tree = NULL;
	struct err err;
	char key[24];
	bool yes;

	if (!a->taken || jx_parse(a->body, a->len, &tree, &err) < 0)
		return false;
	(void)snprintf(key, sizeof(key), "%" PRId64, c->id);
	yes = json_is_true(json_object_get(json_object_get(tree, "acks"), key));
	json_decref(tree);
	return yes;
}

static void on_ack(void *arg, const struct hook_answer *a)
{
	struct sink *s = arg;
	struct hec *c = s->own;

	if (says_yes(c, a))
		sink_http_settled(c->events);
	else if (a->taken && c->broke)
		s->all->on->failed(s, "it was away, and does not acknowledge what it took before", 0);
	else if (clock_mono_us() > c->since_us + ASK_FOR_MS * 1000ull)
		s->all->on->failed(s, a->taken ? "it has not acknowledged what it took, for 5 min" : a->why, 0);
	else
		not_yet(c, a);
}

static void on_ask(void *arg)
{
	struct sink *s = arg;
	struct hec *c = s->own;
	char body[48];
	const int n = snprintf(body, sizeof(body), "{\"acks\":[%" PRId64 "]}", c->id);

	hook_send(c->ack, &(struct hook_message){ .id = "", .type = "application/json", .body = body, .len = (size_t)n });
}

/* {"text":"Success","code":0,"ackId":7} */
static void look(struct sink *s, const struct hook_answer *a)
{
	struct hec *c = s->own;
	json_t *tree = NULL, *id;
	struct err err;

	if (!c->ack) {
		sink_http_settled(c->events);
		return;
	}
	id = jx_parse(a->body, a->len, &tree, &err) < 0 ? NULL : json_object_get(tree, "ackId");
	c->id = json_is_integer(id) ? json_integer_value(id) : -1;
	json_decref(tree);
	if (c->id < 0) {
		s->all->on->failed(s, "it gives no ackId: acknowledgement is off for this token, which a person has to mend",
				   SINK_MEND);
		return;
	}
	c->since_us = clock_mono_us();
	c->broke = false;
	c->ask_ms = ASK_FIRST_MS;
	again(c);
}

/* Of the codes of a 400 those that no record is to blame for: no or a wrong index, channel, acknowledgement. */
static bool mend(const struct hook_answer *a)
{
	json_t *tree = NULL, *code;
	struct err err;
	json_int_t n;

	if (jx_parse(a->body, a->len, &tree, &err) < 0)
		return false;
	code = json_object_get(tree, "code");
	n = json_is_integer(code) ? json_integer_value(code) : 0;
	json_decref(tree);
	return n == 7 || n == 10 || n == 11 || n == 14;
}

static const struct sink_post post = { .content = "application/json", .path = "/services/collector/event",
				       .scheme = "Splunk", .mend = mend, .look = look };

/* --- life */

static int check_hec(const struct conf_sink *conf, struct err *err)
{
	return sink_http_check(conf, &post, err);
}

static void close_hec(struct sink *s)
{
	struct hec *c = s->own;

	sink_http_close(&c->events);
	hook_close(&c->ack);
	ev_timer_free(&c->ask);
	free(c);
}

static int open_ack(struct sink *s, struct hec *c, struct err *err)
{
	size_t len = strlen(s->conf->url);
	char scope[CONF_SINK_NAME_MAX + sizeof("sink:")], *url;
	int rc;

	while (len > 0 && s->conf->url[len - 1] == '/')
		len--;
	url = mem_printf("%.*s/services/collector/ack?channel=%s", (int)len, s->conf->url, c->channel);
	(void)snprintf(scope, sizeof(scope), "sink:%s", s->conf->name);
	rc = hook_open(s->all->env.fetcher, &(struct hook_conf){ .url = url, .ca = s->conf->ca, .scheme = post.scheme,
			.authorization_file = s->conf->secret_file, .header = CHANNEL, .value = c->channel }, scope, on_ack, s,
		       &c->ack, err);
	free(url);
	return rc < 0 ? sink_fault(s->conf, err) : 0;
}

static int open_hec(struct sink *s, struct err *err)
{
	struct hec *c = mem_zalloc(sizeof(*c));
	uint8_t id[16];
	int rc;

	id_uuid7(id);
	(void)id_format(id, c->channel);
	c->ask = ev_timer_new(s->all->env.loop, on_ask, s);
	s->own = c;
	rc = sink_http_open(s, &post, CHANNEL, c->channel, &c->events, err);
	return rc == 0 && s->conf->ack ? open_ack(s, c, err) : rc;      /* sinks_open() closes what is there */
}

static void send_hec(struct sink *s, const struct sink_batch *b)
{
	struct hec *c = s->own;

	(void)b;
	sink_http_send(c->events);
}

const struct sink_type sink_hec = { check_hec, open_hec, send_hec, close_hec, put_event, NULL, NULL };
