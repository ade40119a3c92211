/* POSTs to places of the operator's (net/hook.h), signed or not; what an answer means.  Who sends copies of records and
 * who tells of alerts keeps what to send, and when to try again.  Loop thread. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "net/fetch.h"
#include "net/hook.h"
#include "net/url.h"

#define TIMEOUT_MS 30000
#define MEM_MAX 4096
#define SECRET_FILE_MAX 4096
#define RETRY_AFTER_MOST_S 600

struct sending;
struct hook {
	struct fetcher *fetcher;
	char *url_text;
	struct url at;
	struct arena *mem;
	struct fetch_allow allow;
	struct fetch_policy policy;
	char *scope, *authorization;
	const char *header, *value;
	struct fetch_aws aws;           /* region NULL: not signed so; id: id and secret, one behind the other */
	bool is_signed;
	uint8_t key[HOOK_SECRET_MAX];   /* zeros behind a shorter one are what HMAC puts there */
	hook_done_fn *done;
	void *arg;
	struct sending *sending;        /* NULL: nothing is under way */
};

/* A request; it may outlive the hook. */
struct sending {
	struct hook *h;                 /* NULL: nobody wants to know */
	struct fetch *fetch;
	int status;
	uint64_t retry_after_us;
	struct str body;
	const char *keep[HOOK_KEEP_MAX];
	char *kept[HOOK_KEEP_MAX];
};

/* --- what the configuration names */

static int load_url(struct hook *h, const struct hook_conf *conf, struct err *err)
{
	if (url_parse(conf->url, strlen(conf->url), "url", &h->at, err) < 0)
		return err->code;
	if (!h->at.tls && !url_is_here(&h->at))
		return err_set(err, ERR_INVALID, "url", "%s must be reached by https, unless it is on this machine", h->at.host);
	return fetch_policy_place(&h->at, conf->ca, "url", h->mem, &h->allow, &h->policy, err);
}

static int load_secret(struct hook *h, const char *file, struct err *err)
{
	static const char prefix[] = "whsec_";
	struct str text = STR_SECRET_INIT;
	size_t len = 0;
	const char *p;
	int rc = path_read_as(file, PATH_SECRET, SECRET_FILE_MAX, &text, err);

	if (rc == 0) {
		p = str_text(&text);
		p += strncmp(p, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
		if (text_unbase64(p, strcspn(p, "\r\n"), h->key, sizeof(h->key), &len) < 0 || len < HOOK_SECRET_MIN) {
			rc = err_set(err, ERR_INVALID, file, "%s holds no base64 of %d to %d bytes, with whsec_ in front of it or not",
				     file, HOOK_SECRET_MIN, HOOK_SECRET_MAX);
			err_hint(err, "printf 'whsec_%%s\\n' \"$(openssl rand -base64 32)\" > %s", file);
		}
	}
	str_wipe(&text);
	h->is_signed = true;
	return rc;
}

static int load_authorization(struct hook *h, const char *file, const char *scheme, struct err *err)
{
	struct str text = STR_SECRET_INIT;
	size_t len = 0;
	int rc = path_read_as(file, PATH_SECRET, SECRET_FILE_MAX, &text, err);

	if (rc == 0) {
		len = strcspn(str_text(&text), "\r\n");
		rc = fetch_check_header_value(str_text(&text), len, file, err);
	}
	if (rc == 0 && len == 0)
		rc = err_set(err, ERR_INVALID, file, "%s holds no line like Bearer TOKEN", file);
	if (rc == 0)
		h->authorization = mem_printf("%s%s%.*s", scheme ? scheme : "", scheme ? " " : "", (int)len, str_text(&text));
	str_wipe(&text);
	return rc;
}

/* Two lines. */
static int load_aws(struct hook *h, const struct hook_conf *conf, struct err *err)
{
	struct str text = STR_SECRET_INIT;
	int rc = path_read_as(conf->aws_key_file, PATH_SECRET, SECRET_FILE_MAX, &text, err);
	const char *id = str_text(&text), *secret;
	size_t id_len = strcspn(id, " \t\r\n"), len;

	secret = id + id_len + strspn(id + id_len, "\r\n");
	len = strcspn(secret, " \t\r\n");
	if (rc == 0 && (id_len == 0 || len == 0 || secret == id + id_len))
		rc = err_set(err, ERR_INVALID, conf->aws_key_file, "%s must hold two lines: the id of a key, and its secret",
			     conf->aws_key_file);
	if (rc == 0) {
		h->aws.id = mem_strndup(id, id_len);
		h->aws.secret = mem_strndup(secret, len);
		h->aws.region = mem_strdup(conf->aws_region);
	}
	str_wipe(&text);
	return rc;
}

static void wipe(const char *text)
{
	char *p = (char *)(uintptr_t)text;

	if (p)
		secret_wipe(p, strlen(p));
	free(p);
}

static void hook_free(struct hook *h)
{
	wipe(h->aws.id);
	wipe(h->aws.secret);
	wipe(h->aws.region);
	arena_free(&h->mem);
	secret_wipe(h->key, sizeof(h->key));
	if (h->authorization)
		secret_wipe(h->authorization, strlen(h->authorization));
	free(h->authorization);
	free(h->url_text);
	free(h->scope);
	free(h);
}

static int hook_load(const struct hook_conf *conf, struct hook **ret, struct err *err)
{
	struct hook *h = mem_zalloc(sizeof(*h));
	int rc;

	h->mem = arena_new(MEM_MAX);
	h->url_text = mem_strdup(conf->url);
	h->header = conf->header;
	h->value = conf->value;
	rc = load_url(h, conf, err);
	if (rc == 0 && conf->secret_file)
		rc = load_secret(h, conf->secret_file, err);
	if (rc == 0 && conf->authorization_file)
		rc = load_authorization(h, conf->authorization_file, conf->scheme, err);
	if (rc == 0 && conf->aws_key_file)
		rc = load_aws(h, conf, err);
	if (rc < 0) {
		hook_free(h);
		return rc;
	}
	*ret = h;
	return 0;
}

int hook_check(const struct hook_conf *conf, struct err *err)
{
	struct hook *h = NULL;
	int rc = hook_load(conf, &h, err);

	hook_close(&h);
	return rc;
}

/* --- answers (OP-305) */

static void answered(const struct hook *h, const struct sending *q)
{
	const int status = q->status;
	const bool busy = status == 408 || status == 425 || status == 429 || status >= 500;
	struct hook_answer a = { .taken = status >= 200 && status < 300, .mend = !busy, .status = status,
				 .after_us = busy ? q->retry_after_us : 0, .body = str_text(&q->body), .len = q->body.len };
	char why[96];

	for (size_t i = 0; i < HOOK_KEEP_MAX; i++)
		a.kept[i] = q->kept[i];
	(void)snprintf(why, sizeof(why), "it answers with status %d%s", status, busy ? "" : ", which a person has to mend");
	a.why = why;
	h->done(h->arg, &a);
}

static void failed(const struct hook *h, int rc, const struct err *err)
{
	h->done(h->arg, &(struct hook_answer){ .mend = rc == ERR_DENIED, .why = err->msg });
}

static void on_head(void *arg, const struct fetch_head *head)
{
	struct sending *q = arg;
	const char *after = fetch_head_get(head, "retry-after");
	const uint64_t now_us = clock_wall_us(), most_us = RETRY_AFTER_MOST_S * 1000000ull;
	uint64_t seconds, at_us;

	q->status = fetch_head_status(head);
	for (size_t i = 0; i < HOOK_KEEP_MAX; i++) {
		const char *value = q->keep[i] ? fetch_head_get(head, q->keep[i]) : NULL;

		q->kept[i] = value ? mem_strdup(value) : NULL;
	}
	if (!after)
		return;
	if (text_u64(after, strlen(after), &seconds) == 0)      /* RFC 9110 10.2.3 */
		q->retry_after_us = seconds < RETRY_AFTER_MOST_S ? seconds * 1000000 : most_us;
	else if (clock_parse_http(after, now_us, &at_us) == 0 && at_us > now_us)
		q->retry_after_us = at_us - now_us < most_us ? at_us - now_us : most_us;
}

static int on_data(void *arg, const void *p, size_t len)
{
	struct sending *q = arg;

	str_put(&q->body, p, len);
	return 0;
}

static void sending_free(struct sending *q)
{
	for (size_t i = 0; i < HOOK_KEEP_MAX; i++)
		free(q->kept[i]);
	str_fini(&q->body);
	free(q);
}

static void on_done(void *arg, int rc, const struct err *err)
{
	struct sending *q = arg;
	struct hook *h = q->h;

	if (h)
		h->sending = NULL;
	if (h && rc < 0)
		failed(h, rc, err);
	else if (h)
		answered(h, q);
	sending_free(q);
}

/* --- requests */

struct signature { char time[24], value[64]; };

static void make_signature(const struct hook *h, const struct hook_message *m, struct signature *ret)
{
	uint8_t mac[DIGEST_SIZE];
	char text[48];

	(void)snprintf(ret->time, sizeof(ret->time), "%" PRIu64, clock_wall_us() / 1000000);
	const struct digest_part part[] = { { m->id, strlen(m->id) }, { ".", 1 }, { ret->time, strlen(ret->time) },
					    { ".", 1 }, { m->body, m->len } };

	digest_hmac(h->key, part, NELEMS(part), mac);
	text_base64(mac, sizeof(mac), text);
	(void)snprintf(ret->value, sizeof(ret->value), "v1,%s", text);
}

void hook_send(struct hook *h, const struct hook_message *m)
{
	static const struct fetch_sink sink = { on_head, on_data, on_done };
	struct fetch_header headers[6 + HOOK_HEADERS_MAX];
	struct sending *q = mem_zalloc(sizeof(*q));
	struct signature sig;
	struct err err;
	char *url = NULL;
	size_t n = 0;
	int rc;

	if (m->type)
		headers[n++] = (struct fetch_header){ "content-type", m->type };
	for (size_t i = 0; i < m->nheaders && i < HOOK_HEADERS_MAX; i++)
		headers[n++] = m->headers[i];
	if (h->is_signed) {
		make_signature(h, m, &sig);
		headers[n++] = (struct fetch_header){ "webhook-id", m->id };
		headers[n++] = (struct fetch_header){ "webhook-timestamp", sig.time };
		headers[n++] = (struct fetch_header){ "webhook-signature", sig.value };
	}
	if (h->authorization)
		headers[n++] = (struct fetch_header){ "authorization", h->authorization };
	if (h->header)
		headers[n++] = (struct fetch_header){ h->header, h->value };
	q->h = h;
	memcpy(q->keep, m->keep, sizeof(q->keep));
	if (m->path)
		url = mem_printf("%s%s", h->url_text, m->path);
	rc = fetch_start(h->fetcher, &(struct fetch_req){ .method = m->method ? m->method : "POST",
			.url = url ? url : h->url_text, .aws = h->aws.region ? &h->aws : NULL, .policy = &h->policy,
			.scope = h->scope, .headers = headers, .nheaders = n, .body = m->body, .body_len = m->len,
			.deadline_us = clock_mono_us() + TIMEOUT_MS * 1000ull, .body_max = HOOK_ANSWER_MAX }, &sink, q, &q->fetch,
			 &err);
	free(url);
	if (rc == 0) {
		h->sending = q;
		return;
	}
	sending_free(q);
	failed(h, rc, &err);
}

int hook_open(struct fetcher *f, const struct hook_conf *conf, const char *scope, hook_done_fn *done, void *arg,
	      struct hook **ret, struct err *err)
{
	struct hook *h = NULL;
	int rc = hook_load(conf, &h, err);

	if (rc < 0)
		return rc;
	h->fetcher = f;
	h->scope = mem_strdup(scope);
	h->done = done;
	h->arg = arg;
	*ret = h;
	return 0;
}

void hook_close(struct hook **hp)
{
	struct hook *h = hp ? *hp : NULL;

	if (!h)
		return;
	*hp = NULL;
	if (h->sending) {
		h->sending->h = NULL;
		fetch_cancel(h->sending->fetch);
	}
	hook_free(h);
}
