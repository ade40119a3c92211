/* What sinks over HTTP have in common: a batch goes by POST, one request at a time, and what an answer does to it
 * (OP-305); and type webhook, which is no more than that, signed as Standard Webhooks has it: the same batch has the
 * same id at each try.  Places, secrets and requests are net/hook.h's.  Loop thread. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/hook.h"

#include "sink_int.h"

struct sink_http {
	struct sink *s;
	const struct sink_post *post;
	struct hook *hook;
	unsigned unwanted;              /* records that it has not wanted, in a row */
};

/* --- answers */

void sink_http_settled(struct sink_http *h)
{
	struct sink_batch *b = &h->s->batch;

	b->done += b->part;
	b->part = 0;
	if (b->done < b->n)
		sink_http_send(h);
	else
		h->s->all->on->taken(h->s);
}

/* Half of it is sent, until one record is found, which is given up.  A receiver that wants none of many is one that a
 * person has to mend. */
static void halve(struct sink_http *h, const struct hook_answer *a)
{
	struct sink_batch *b = &h->s->batch;
	char why[32];

	if (b->part == 1 && h->unwanted >= SINK_UNWANTED_MOST) {
		h->s->all->on->failed(h->s, a->why, SINK_MEND);
		return;
	}
	if (b->part > 1) {
		b->part = (b->part + 1) / 2;
		sink_http_send(h);
		return;
	}
	h->unwanted++;
	(void)snprintf(why, sizeof(why), "status %d", a->status);
	h->s->all->on->refused(h->s, 1, b->idx[b->done], why);
	sink_http_settled(h);
}

static void on_done(void *arg, const struct hook_answer *a)
{
	struct sink_http *h = arg;
	struct sink *s = h->s;
	const bool unwanted = a->status == 400 || a->status == 413 || a->status == 422;

	if (a->taken)
		h->unwanted = 0;
	if (unwanted && !(h->post->mend && h->post->mend(a)))
		halve(h, a);
	else if (!a->taken)
		s->all->on->failed(s, a->why, a->mend ? SINK_MEND : a->after_us);
	else if (h->post->look)
		h->post->look(s, a);
	else
		sink_http_settled(h);
}

/* --- requests */

void sink_http_send(struct sink_http *h)
{
	struct sink_batch *b = &h->s->batch;
	const size_t left = b->n - b->done, from = b->done ? b->end[b->done - 1] : 0;
	struct hook_message m = { .type = h->post->content };
	struct str made = STR_INIT;
	char id[REPORT_UID_SIZE + 48];

	if (h->s->refusals.n >= SINK_REJECTED_MAX) {
		h->s->all->on->failed(h->s, "what it did not want fills its list: toolcrib sink rejected, then sink settle",
				       SINK_MEND);
		return;
	}
	if (h->post->is_signed && h->s->conf->format == CONF_SINK_CEF)
		m.type = "text/plain; charset=utf-8";
	if (b->part == 0 || b->part > left)
		b->part = left;
	if (b->done > 0)                /* no two parts of a batch have the same */
		(void)snprintf(id, sizeof(id), "%s-%zu-%zu", b->uid, b->part, b->done);
	else
		(void)snprintf(id, sizeof(id), "%s-%zu", b->uid, b->part);
	m.id = id;
	m.body = b->body.p + from;
	m.len = b->end[b->done + b->part - 1] - from;
	if (h->post->body) {
		h->post->body(m.body, m.len, &made);
		m.body = made.p;
		m.len = made.len;
	}
	hook_send(h->hook, &m);
	str_fini(&made);
}

/* --- what the configuration names */

/* *ret_url: what the path is put behind; free() it. */
static struct hook_conf place(const struct conf_sink *conf, const struct sink_post *post, char **ret_url)
{
	size_t len = strlen(conf->url);

	while (post->path && len > 0 && conf->url[len - 1] == '/')
		len--;
	*ret_url = mem_printf("%.*s%s", (int)len, conf->url, post->path ? post->path : "");
	return (struct hook_conf){ .url = *ret_url, .ca = conf->ca, .secret_file = post->is_signed ? conf->secret_file : NULL,
				   .authorization_file = post->is_signed ? NULL : conf->secret_file, .scheme = post->scheme };
}

int sink_http_check(const struct conf_sink *conf, const struct sink_post *post, struct err *err)
{
	char *url;
	const struct hook_conf at = place(conf, post, &url);
	int rc = hook_check(&at, err);

	free(url);
	return rc < 0 ? sink_fault(conf, err) : 0;
}

int sink_http_open(struct sink *s, const struct sink_post *post, const char *header, const char *value,
		   struct sink_http **ret, struct err *err)
{
	struct sink_http *h = mem_zalloc(sizeof(*h));
	char scope[CONF_SINK_NAME_MAX + sizeof("sink:")], *url;
	struct hook_conf at = place(s->conf, post, &url);
	int rc;

	h->s = s;
	h->post = post;
	at.header = header;
	at.value = value;
	(void)snprintf(scope, sizeof(scope), "sink:%s", s->conf->name);         /* no tenant has that name */
	rc = hook_open(s->all->env.fetcher, &at, scope, on_done, h, &h->hook, err);
	free(url);
	if (rc < 0) {
		free(h);
		return sink_fault(s->conf, err);
	}
	*ret = h;
	return 0;
}

void sink_http_close(struct sink_http **hp)
{
	struct sink_http *h = *hp;

	*hp = NULL;
	if (!h)
		return;
	hook_close(&h->hook);
	free(h);
}

/* --- type webhook */

static const struct sink_post webhook = { .content = "application/x-ndjson", .is_signed = true };

static int check_hook(const struct conf_sink *conf, struct err *err)
{
	return sink_http_check(conf, &webhook, err);
}

static int open_hook(struct sink *s, struct err *err)
{
	struct sink_http *h = NULL;
	int rc = sink_http_open(s, &webhook, NULL, NULL, &h, err);

	s->own = h;
	return rc;
}

static void send_hook(struct sink *s, const struct sink_batch *b)
{
	(void)b;
	sink_http_send(s->own);
}

static void close_hook(struct sink *s)
{
	struct sink_http *h = s->own;

	sink_http_close(&h);
}

const struct sink_type sink_webhook = { check_hook, open_hook, send_hook, close_hook, NULL, NULL, NULL };
