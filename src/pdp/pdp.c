/* Policy decision points: whom the configuration names, requests to them, the answers that are kept, and one verdict of
 * all that apply.  The call engine asks before each run, a command to try.  Loop thread.  A request may outlive who
 * asked, and with it what its connection needs: hence the count. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "ev/ev.h"
#include "keys/secrets.h"
#include "net/breaker.h"
#include "net/fetch.h"
#include "net/url.h"
#include "tenant/tenant.h"

#include "pdp_int.h"

#define MEM_MAX 4096
#define SOCKET_URL "http://localhost"
#define SECOND_US 1000000ull
#define FIND_S 3600
#define FIND_SOON_S 60
#define FIND_TIMEOUT_MS 5000

struct pdp {
	struct pdps *all;
	const struct conf_pdp *conf;
	char *url;                      /* of the evaluation */
	char *scope;                    /* of its connections: no tenant has this name */
	struct url at;
	struct arena *mem;
	struct fetch_allow allow;
	struct fetch_policy policy;
	struct map *tenants;            /* a set of names; NULL: all */
	struct map *kept;               /* key -> struct kept */
	struct list order;              /* struct kept, the oldest first */
	size_t running, nwaiting;
	struct list waiting;            /* struct pdp_request, the longest first */
	struct list open;               /* their and those under way, likewise: all have the same time */
	struct ev_timer *late;          /* for the first of them */
	/* What it says of itself (PD-06), where the configuration names no path. */
	struct fetch *finding;          /* it is being asked, and questions wait; NULL: it is not */
	struct str found; int found_status;
	struct ev_timer *find;          /* when it is asked next */
	char *wrong;                    /* it says that it is another one, so nothing is asked; NULL: it does not */
	char *bearer; uint64_t bearer_version;  /* in locked memory; NULL: not opened */
	char why[PDP_WHY_SIZE];         /* what was wrong the last time; "" = nothing */
	uint64_t asked, allowed, denied, failed, cached;
};

struct pdps {
	struct pdps_env env;
	unsigned refs;                  /* its owner's, and of requests under way */
	bool closed;
	size_t n;
	struct pdp pdp[CONF_PDPS_MAX];
};

struct kept {
	struct list node;
	struct pdp *pdp;
	uint64_t until_us;
	enum pdp_word word;
	int status;
	uint8_t digest[DIGEST_SIZE], key[DIGEST_SIZE];
	char why[PDP_WHY_SIZE], reason[PDP_REASON_MAX + 1];
};

struct pdp_request {
	struct list node, open;         /* in its pdp's waiting, or alone; in its pdp's open, while somebody waits for it */
	struct pdp *pdp;
	struct pdp_asking *asking;      /* NULL: nobody wants to know any more */
	struct pdp_said *said;          /* of asking */
	struct fetch *fetch;            /* NULL: not sent */
	struct str text, body;
	uint64_t asked_us, deadline_us;
	bool told;                      /* the breaker has heard of it */
	uint8_t key[DIGEST_SIZE];
	char id[ID_TEXT_SIZE];
	int status;
	char *type, *answer_id, *cache, *age;   /* of the answer's head; NULL: without */
};

struct pdp_asking {
	struct pdps *all;
	pdp_done_fn *done;
	void *arg;
	size_t open;                    /* answers that are still to come */
	bool started;                   /* pdp_ask() has returned, and done() is due */
	struct pdp_request *request[CONF_PDPS_MAX];     /* by place in the verdict; NULL: known, or over */
	char *text[CONF_PDPS_MAX];      /* what was sent, for commands; NULL: not kept */
	struct pdp_verdict v;           /* its said[] behind it */
};

const char *pdp_word_name(enum pdp_word word)
{
	static const char *const names[] = { [PDP_ALLOW] = "allow", [PDP_DENY] = "deny", [PDP_NONE] = "none" };

	return names[word];
}

/* --- whom the configuration names */

/* Who can put another socket into its folder decides about all calls; its owner may be the user of that service. */
static int check_folder(const char *socket, struct err *err)
{
	char *folder = mem_strndup(socket, (size_t)(strrchr(socket, '/') - socket) + 1);
	struct stat st;
	int rc = 0;

	if (stat(folder, &st) < 0)
		rc = err_set(err, ERR_UNREACHABLE, "socket", "%.120s: there is no such folder", folder);
	else if (st.st_mode & (S_IWGRP | S_IWOTH))
		rc = err_set(err, ERR_DENIED, "socket", "%.120s may be changed by others than its owner and root", folder);
	free(folder);
	return rc;
}

static int load_place(struct pdp *p, struct err *err)
{
	const struct conf_pdp *conf = p->conf;
	size_t len;

	p->mem = arena_new(MEM_MAX);
	if (conf->socket) {
		p->url = mem_printf(SOCKET_URL "%s", conf->path);
		return url_parse(p->url, strlen(p->url), "path", &p->at, err) < 0 ? err->code : check_folder(conf->socket, err);
	}
	len = strlen(conf->url);
	len -= len > 0 && conf->url[len - 1] == '/';
	p->url = mem_printf("%.*s%s", (int)len, conf->url, conf->path);
	if (url_parse(p->url, strlen(p->url), "url", &p->at, err) < 0)
		return err->code;
	if (!p->at.tls)
		return err_set(err, ERR_INVALID, "url", "%s must be reached by https, or by a socket on this machine", p->at.host);
	if (strpbrk(conf->url, "?#"))
		return err_set(err, ERR_INVALID, "url", "it ends with its path: no query");
	return fetch_policy_place(&p->at, conf->ca, "url", p->mem, &p->allow, &p->policy, err);
}

/* Can its files be read?  What they are tells a handshake. */
static int check_files(const struct conf_pdp *conf, struct err *err)
{
	struct str text = STR_SECRET_INIT;
	int rc = conf->ca ? path_read(conf->ca, FETCH_CA_MAX, &text, err) : 0;

	if (rc == 0 && conf->cert)
		rc = path_read(conf->cert, FETCH_CA_MAX, &text, err);
	if (rc == 0 && conf->key)
		rc = path_read_as(conf->key, PATH_SECRET, FETCH_CA_MAX, &text, err);
	str_wipe(&text);
	return rc;
}

static void on_late(void *arg);
static void find(void *arg);

static int pdp_load(struct pdps *all, struct pdp *p, const struct conf_pdp *conf, struct err *err)
{
	*p = (struct pdp){ .all = all, .conf = conf };
	list_init(&p->order);
	list_init(&p->waiting);
	list_init(&p->open);
	p->kept = map_new();
	p->scope = mem_printf(":pdp/%s", conf->name);
	if (conf->ntenants)
		p->tenants = map_new();
	for (size_t i = 0; i < conf->ntenants; i++)
		(void)map_set_z(p->tenants, conf->tenants[i], p);
	if (load_place(p, err) < 0 || check_files(conf, err) < 0) {
		char where[sizeof(err->where)];

		(void)snprintf(where, sizeof(where), "pdp");
		(void)err_wrap(err, "policy decision point %s", conf->name);
		memcpy(err->where, where, sizeof(where));
		return err->code;
	}
	return 0;
}

static void drop_bearer(struct pdp *p)
{
	secret_free(p->bearer);
	p->bearer = NULL;
}

static void forget(struct kept *k)
{
	list_unlink(&k->node);
	(void)map_del(k->pdp->kept, k->key, sizeof(k->key));
	free(k);
}

static void pdp_fini(struct pdp *p)
{
	LIST_FOREACH_SAFE(n, tmp, &p->order)
		forget(CONTAINER_OF(n, struct kept, node));
	map_free(&p->kept);
	map_free(&p->tenants);
	ev_timer_free(&p->late);
	ev_timer_free(&p->find);
	str_fini(&p->found);
	free(p->wrong);
	drop_bearer(p);
	arena_free(&p->mem);
	free(p->url);
	free(p->scope);
}

static void drop(struct pdps *all)
{
	if (--all->refs > 0)
		return;
	for (size_t i = 0; i < all->n; i++)
		pdp_fini(&all->pdp[i]);
	free(all);
}

static int load_all(const struct conf *conf, struct pdps **ret, struct err *err)
{
	struct pdps *all = mem_zalloc(sizeof(*all));
	int rc = 0;

	all->refs = 1;
	for (size_t i = 0; rc == 0 && i < conf->npdps; i++) {
		rc = pdp_load(all, &all->pdp[i], &conf->pdps[i], err);
		all->n++;
	}
	if (rc < 0)
		drop(all);
	else
		*ret = all;
	return rc;
}

int pdps_check(const struct conf *conf, struct err *err)
{
	struct pdps *all = NULL;
	int rc = load_all(conf, &all, err);

	if (rc == 0)
		drop(all);
	return rc;
}

int pdps_open(const struct pdps_env *env, struct pdps **ret, struct err *err)
{
	struct pdps *all = NULL;

	if (!env->conf || env->conf->npdps == 0)
		return 0;
	if (load_all(env->conf, &all, err) < 0)
		return err->code;
	all->env = *env;
	for (size_t i = 0; i < all->n; i++)
		all->pdp[i].late = ev_timer_new(env->loop, on_late, &all->pdp[i]);
	for (size_t i = 0; i < all->n; i++) {
		all->pdp[i].find = ev_timer_new(env->loop, find, &all->pdp[i]);
		find(&all->pdp[i]);
	}
	*ret = all;
	return 0;
}

void pdps_close(struct pdps **p)
{
	if (!*p)
		return;
	for (size_t i = 0; i < (*p)->n; i++) {
		ev_timer_stop((*p)->pdp[i].find);
		if ((*p)->pdp[i].finding)
			fetch_cancel((*p)->pdp[i].finding);
		(*p)->closed = true;
	}
	(void)pdps_flush(*p);
	drop(*p);
	*p = NULL;
}

static bool applies(const struct pdp *p, const char *tenant)
{
	return !p->tenants || map_get_z(p->tenants, tenant);
}

bool pdp_applies(const struct pdps *p, const char *tenant)
{
	for (size_t i = 0; p && i < p->n; i++)
		if (applies(&p->pdp[i], tenant))
			return true;
	return false;
}

/* --- answers that are kept (PD-05) */

static void put_part(struct str *out, const char *text)
{
	str_puts(out, text ? text : "");
	str_putc(out, '\0');
}

/* What tells one question from another: never the same for two of them. */
static void put_key(const struct pdp_question *q, struct str *out)
{
	const struct principal *who = q->who;

	str_put(out, q->tool->def->digest, DIGEST_SIZE);
	str_putc(out, (char)q->kind);
	str_putc(out, q->completing ? 1 : 0);
	str_putc(out, (char)q->tport);
	str_putc(out, (char)who->authn);
	put_part(out, who->tenant);
	put_part(out, who->name);
	put_part(out, who->cred_id ? who->accessor : NULL);
	put_part(out, q->tool->name);
	put_part(out, q->tool->def->name);
	put_part(out, q->kind == REG_RESOURCE ? q->uri : NULL);
	put_part(out, q->client);
	str_put(out, q->args_text, q->args_len);
}

size_t pdps_flush(struct pdps *all)
{
	size_t n = 0;

	for (size_t i = 0; all && i < all->n; i++) {
		LIST_FOREACH_SAFE(node, tmp, &all->pdp[i].order) {
			forget(CONTAINER_OF(node, struct kept, node));
			n++;
		}
		drop_bearer(&all->pdp[i]);
	}
	return n;
}

static const struct kept *find_kept(struct pdp *p, const uint8_t key[DIGEST_SIZE])
{
	struct kept *k = p->conf->cache_ms ? map_get(p->kept, key, DIGEST_SIZE) : NULL;

	if (k && k->until_us <= ev_now_us(p->all->env.loop)) {
		forget(k);
		k = NULL;
	}
	return k;
}

static void keep(const struct pdp_request *r, const struct pdp_meaning *m)
{
	struct pdp *p = r->pdp;
	uint64_t life_us = m->max_age_s * SECOND_US;
	struct kept *k;

	if (life_us > p->conf->cache_ms * 1000)
		life_us = p->conf->cache_ms * 1000;
	if (life_us == 0)
		return;
	k = map_get(p->kept, r->key, DIGEST_SIZE);
	if (k)
		forget(k);
	if (map_count(p->kept) >= PDP_CACHE_MAX)
		forget(CONTAINER_OF(p->order.next, struct kept, node));
	k = mem_zalloc(sizeof(*k));
	k->pdp = p;
	/* from the question on: what it was answered from may have changed since */
	k->until_us = r->asked_us + life_us;
	k->word = m->word;
	k->status = r->status;
	memcpy(k->digest, r->said->digest, sizeof(k->digest));
	memcpy(k->key, r->key, sizeof(k->key));
	memcpy(k->why, m->why, sizeof(k->why));
	memcpy(k->reason, m->reason, sizeof(k->reason));
	list_push_back(&p->order, &k->node);
	(void)map_set(p->kept, k->key, sizeof(k->key), k);
}

/* --- one verdict of several */

static void count(struct pdp *p, enum pdp_word word)
{
	switch (word) {
	case PDP_ALLOW:
		p->allowed++;
		break;
	case PDP_DENY:
		p->denied++;
		metric_inc(METRIC_pdp_denied);
		break;
	case PDP_NONE:
		p->failed++;
		metric_inc(METRIC_pdp_failed);
		break;
	case PDP_UNSAID:
		break;
	}
}

static void request_free(struct pdp_request *r)
{
	list_unlink(&r->node);
	list_unlink(&r->open);
	str_fini(&r->text);
	str_fini(&r->body);
	free(r->type);
	free(r->answer_id);
	free(r->cache);
	free(r->age);
	drop(r->pdp->all);
	free(r);
}

static void tell_breaker(struct pdp_request *r, enum breaker_word word)
{
	const struct pdp *p = r->pdp;

	if (!r->told)
		breaker_tell(fetcher_breakers(p->all->env.fetcher), p->scope, p->at.host, p->at.port, word,
			     ev_now_us(p->all->env.loop));
	r->told = true;
}

/* Nobody waits for it any more. */
static void leave(struct pdp_request *r)
{
	r->asking = NULL;
	list_unlink(&r->open);
	if (r->fetch) {
		fetch_cancel(r->fetch); /* its end frees it */
		return;
	}
	r->pdp->nwaiting--;
	tell_breaker(r, BREAKER_UNSAID);
	request_free(r);
}

static void leave_all(struct pdp_asking *a)
{
	for (size_t i = 0; i < a->v.n; i++) {
		if (a->request[i])
			leave(a->request[i]);
		a->request[i] = NULL;
	}
	a->open = 0;
}

/* One has said something, or not.  The first that does not allow decides. */
static void say(struct pdp_asking *a, struct pdp_said *s, const struct pdp_meaning *m)
{
	s->word = m->word;
	memcpy(s->why, m->why, sizeof(s->why));
	if (m->word == PDP_ALLOW || a->v.against)
		return;
	a->v.word = m->word;
	a->v.against = s;
	memcpy(a->v.reason, m->reason, sizeof(a->v.reason));
}

static void settle(struct pdp_asking *a)
{
	if (a->v.against)
		leave_all(a);
	if (a->open > 0 || a->v.word != PDP_UNSAID)
		return;
	a->v.word = PDP_ALLOW;
}

/* --- requests */

static void start(struct pdp_request *r);

static void said_wrong(struct pdp *p, const char *why)
{
	if (!*p->why)
		log_warn(NULL, "a policy decision point gives no answer, calls are refused pdp=%s why=\"%s\"", p->conf->name, why);
	(void)snprintf(p->why, sizeof(p->why), "%.*s", PDP_WHY_SIZE - 1, why);
}

static void said_right(struct pdp *p)
{
	if (*p->why)
		log_info(NULL, "a policy decision point answers again pdp=%s", p->conf->name);
	p->why[0] = '\0';
}

/* It is over: count, keep, tell. */
static void meant(struct pdp_request *r, const struct pdp_meaning *m)
{
	struct pdp_asking *a = r->asking;
	struct pdp *p = r->pdp;

	count(p, m->word);
	if (m->word == PDP_NONE)
		said_wrong(p, m->why);
	else
		said_right(p);
	r->said->ms = (uint32_t)((clock_mono_us() - r->asked_us) / 1000);
	r->said->status = r->status;
	keep(r, m);
	a->request[r->said - a->v.said] = NULL;
	a->open--;
	r->asking = NULL;
	list_unlink(&r->open);
	say(a, r->said, m);
	settle(a);
	if (a->started && a->v.word != PDP_UNSAID)
		a->done(a->arg, &a->v);
}

static void failed(struct pdp_request *r, const char *why)
{
	struct pdp_meaning m = { .word = PDP_NONE };

	(void)snprintf(m.why, sizeof(m.why), "%.*s", PDP_WHY_SIZE - 1, why);
	meant(r, &m);
}

static void crowded(struct pdp_request *r)
{
	metric_inc(METRIC_pdp_crowded);
	failed(r, "too many questions are under way");
}

/* The next of those that wait. */
static void start_next(struct pdp *p)
{
	while (!p->finding && p->running < PDP_RUNNING_MAX && !list_empty(&p->waiting)) {
		struct pdp_request *r = CONTAINER_OF(p->waiting.next, struct pdp_request, node);

		list_unlink(&r->node);
		p->nwaiting--;
		start(r);
	}
}

/* Its time is over, on its way or not yet. */
static void give_up(struct pdp_request *r)
{
	struct pdp *p = r->pdp;

	if (r->fetch) {
		tell_breaker(r, BREAKER_BAD);
		fetch_cancel(r->fetch);
		failed(r, "it did not answer in time");
		return;
	}
	list_unlink(&r->node);
	p->nwaiting--;
	tell_breaker(r, BREAKER_UNSAID);
	crowded(r);
	request_free(r);
}

/* libcurl has its own clock, which no verdict waits for. */
static void on_late(void *arg)
{
	struct pdp *p = arg;
	const uint64_t now = ev_now_us(p->all->env.loop);

	p->all->refs++;                 /* whoever hears of it may close them all */
	while (!list_empty(&p->open)) {
		struct pdp_request *r = CONTAINER_OF(p->open.next, struct pdp_request, open);

		if (r->deadline_us > now) {
			ev_timer_start(p->late, r->deadline_us - now);
			break;
		}
		give_up(r);
	}
	drop(p->all);
}

static char *copy_head(const struct fetch_head *h, const char *name)
{
	const char *value = fetch_head_get(h, name);
	struct str all = STR_INIT;

	for (const char *v = value; v; v = fetch_head_next(h, name, v))
		str_printf(&all, "%s%s", v == value ? "" : ",", v);
	return value ? str_take(&all) : NULL;
}

static void on_head(void *arg, const struct fetch_head *h)
{
	struct pdp_request *r = arg;

	r->status = fetch_head_status(h);
	r->type = copy_head(h, "content-type");
	r->answer_id = copy_head(h, "x-request-id");
	r->cache = copy_head(h, "cache-control");
	r->age = copy_head(h, "age");
}

static int on_data(void *arg, const void *p, size_t len)
{
	struct pdp_request *r = arg;

	str_put(&r->body, p, len);
	return 0;
}

static void on_done(void *arg, int rc, const struct err *err)
{
	struct pdp_request *r = arg;
	struct pdp *p = r->pdp;
	const struct pdp_reply reply = { r->status, r->type, r->answer_id, r->cache, r->age, str_text(&r->body), r->body.len };
	const struct pdp_sent sent = { r->id, str_text(&r->text), r->text.len, p->conf->reason };
	struct pdp_meaning m;

	p->running--;
	tell_breaker(r, rc == ERR_CANCELLED || !r->asking ? BREAKER_UNSAID :
		     rc < 0 || r->status >= 500 ? BREAKER_BAD : BREAKER_GOOD);
	if (r->asking && rc < 0) {
		failed(r, err->msg);
	} else if (r->asking) {
		pdp_read_answer(&reply, &sent, &m);
		meant(r, &m);
	}
	start_next(p);
	request_free(r);
}

/* The value of its header; NULL: it needs none. */
static int open_bearer(struct pdp *p, struct err *err)
{
	const struct secret_source *s = p->all->env.secrets;
	const uint64_t version = s ? s->version(s->arg) : 0;
	char *value = NULL;
	size_t len = 0;
	int rc;

	if (!p->conf->secret || (p->bearer && p->bearer_version == version))
		return 0;
	drop_bearer(p);
	rc = s ? s->open(s->arg, p->conf->secret, &value, &len, err) : ERR_NOT_FOUND;
	if (rc < 0)
		return err_set(err, ERR_DENIED, "", "secret %.64s, its token, cannot be had: toolcrib secret set", p->conf->secret);
	p->bearer = secret_alloc(len + sizeof("Bearer "));
	memcpy(p->bearer, "Bearer ", strlen("Bearer "));
	memcpy(p->bearer + strlen("Bearer "), value, len + 1);
	p->bearer_version = version;
	secret_free(value);
	return 0;
}

static int send_it(struct pdp_request *r, struct err *err)
{
	static const struct fetch_sink sink = { on_head, on_data, on_done };
	struct pdp *p = r->pdp;
	const struct conf_pdp *conf = p->conf;
	struct fetch_header headers[4] = { { "content-type", "application/json" }, { "accept", "application/json" },
					   { "x-request-id", r->id } };
	struct fetch_req req = { .method = "POST", .url = p->url, .policy = &p->policy, .scope = p->scope,
				 .headers = headers, .nheaders = 3, .body = r->text.p, .body_len = r->text.len,
				 .deadline_us = r->deadline_us, .body_max = PDP_ANSWER_MAX, .unix_socket = conf->socket,
				 .cert_file = conf->cert, .key_file = conf->key };
	int rc = conf->socket ? check_folder(conf->socket, err) : 0;

	if (p->wrong)                   /* perhaps since it waits */
		rc = err_set(err, ERR_DENIED, "", "%s", p->wrong);
	rc = rc ? rc : open_bearer(p, err);
	if (rc < 0)
		return rc;
	if (p->bearer)
		headers[req.nheaders++] = (struct fetch_header){ "authorization", p->bearer };
	return fetch_start(p->all->env.fetcher, &req, &sink, r, &r->fetch, err);
}

/* Frees it when it cannot be sent. */
static void start(struct pdp_request *r)
{
	struct pdp *p = r->pdp;
	struct err err;

	if (send_it(r, &err) == 0) {
		p->running++;
		return;
	}
	tell_breaker(r, BREAKER_UNSAID);
	failed(r, err.msg);
	request_free(r);
}

/* Not even tried: it rests, or too many wait.  Else it is sent, or waits. */
static void send_or_wait(struct pdp_request *r)
{
	struct pdp *p = r->pdp;

	if ((p->finding || p->running >= PDP_RUNNING_MAX) && p->nwaiting >= PDP_WAITING_MAX) {
		crowded(r);
		request_free(r);
	} else if (breaker_ask(fetcher_breakers(p->all->env.fetcher), p->scope, p->at.host, p->at.port,
			       ev_now_us(p->all->env.loop)) > 0) {
		char text[PDP_WHY_SIZE];

		(void)snprintf(text, sizeof(text), "%s", *p->why ? p->why : "it rests, since it failed again and again");
		failed(r, text);
		request_free(r);
	} else if (!p->finding && p->running < PDP_RUNNING_MAX) {
		start(r);
	} else {
		list_push_back(&p->waiting, &r->node);
		p->nwaiting++;
	}
}

/* --- where it is asked (PD-06) */

static void on_found_head(void *arg, const struct fetch_head *h)
{
	struct pdp *p = arg;

	p->found_status = fetch_head_status(h);
}

static int on_found_data(void *arg, const void *data, size_t len)
{
	struct pdp *p = arg;

	str_put(&p->found, data, len);
	return 0;
}

/* Who says that he is another one is not asked.  Who says nothing has the path that all have. */
static void take_found(struct pdp *p)
{
	struct str endpoint = STR_INIT;
	struct err err;

	free(p->wrong);
	p->wrong = NULL;
	if (p->found_status != 200)
		return;
	if (pdp_read_metadata(str_text(&p->found), p->found.len, p->conf->url, &endpoint, &err) < 0) {
		p->wrong = mem_printf("its metadata is not to be used: %.200s", err.msg);
		log_warn(NULL, "a policy decision point is another one, calls are refused pdp=%s why=\"%s\"", p->conf->name,
			 p->wrong);
		str_fini(&endpoint);
		return;
	}
	free(p->url);
	p->url = str_take(&endpoint);
}

static void on_found(void *arg, int rc, const struct err *err)
{
	struct pdp *p = arg;

	(void)err;
	p->finding = NULL;
	if (!p->all->closed) {
		if (rc == 0)
			take_found(p);
		ev_timer_start(p->find, (rc < 0 || p->wrong ? FIND_SOON_S : FIND_S) * SECOND_US);
		start_next(p);
	}
	drop(p->all);
}

/* At the start, and hourly; as long as it is away or wrong, sooner. */
static void find(void *arg)
{
	static const struct fetch_sink sink = { on_found_head, on_found_data, on_found };
	struct pdp *p = arg;
	const char *url = p->conf->url, *path;
	struct err err;
	char *at;

	if (!url || p->conf->has_path)
		return;
	path = url + strcspn(url, "/") + 2;     /* behind https:// */
	path += strcspn(path, "/");
	at = mem_printf("%.*s/.well-known/authzen-configuration%s", (int)(path - url), url,
			strcmp(path, "/") == 0 ? "" : path);
	str_fini(&p->found);
	str_init(&p->found, PDP_ANSWER_MAX);
	p->found_status = 0;
	if (fetch_start(p->all->env.fetcher, &(struct fetch_req){ .method = "GET", .url = at, .policy = &p->policy,
			.scope = p->scope, .deadline_us = clock_mono_us() + FIND_TIMEOUT_MS * 1000ull, .body_max = PDP_ANSWER_MAX,
			.cert_file = p->conf->cert, .key_file = p->conf->key }, &sink, p, &p->finding, &err) == 0)
		p->all->refs++;
	else
		ev_timer_start(p->find, FIND_SOON_S * SECOND_US);
	free(at);
}

/* --- questions */

static void ask_one(struct pdp *p, struct pdp_asking *a, struct pdp_said *s, const struct pdp_question *q,
		    const uint8_t key[DIGEST_SIZE])
{
	struct pdp_request *r = mem_zalloc(sizeof(*r));
	struct err err;

	list_init(&r->node);
	list_push_back(&p->open, &r->open);
	if (!ev_timer_armed(p->late))
		ev_timer_start(p->late, p->conf->timeout_ms * 1000);
	str_init(&r->body, PDP_ANSWER_MAX);
	r->pdp = p;
	p->all->refs++;
	r->asking = a;
	r->said = s;
	r->asked_us = clock_mono_us();
	r->deadline_us = r->asked_us + p->conf->timeout_ms * 1000;
	memcpy(r->key, key, sizeof(r->key));
	id_format(q->call_id, r->id);
	a->request[s - a->v.said] = r;
	a->open++;
	p->asked++;
	metric_inc(METRIC_pdp_asked);
	if (pdp_put_request(q, p->conf->arguments, &r->text, &err) < 0) {
		failed(r, err.msg);
		request_free(r);
		return;
	}
	digest_sha256(r->text.p, r->text.len, s->digest);
	if (q->shown)
		a->text[s - a->v.said] = mem_strndup(r->text.p, r->text.len);
	send_or_wait(r);
}

static void take_kept(struct pdp *p, struct pdp_asking *a, struct pdp_said *s, const struct kept *k)
{
	struct pdp_meaning m = { .word = k->word };

	p->cached++;
	metric_inc(METRIC_pdp_cached);
	count(p, k->word);
	s->cached = true;
	s->status = k->status;
	memcpy(s->digest, k->digest, sizeof(s->digest));
	memcpy(m.why, k->why, sizeof(m.why));
	memcpy(m.reason, k->reason, sizeof(m.reason));
	say(a, s, &m);
}

struct pdp_asking *pdp_ask(struct pdps *all, const struct pdp_question *q, pdp_done_fn *done, void *arg)
{
	struct pdp *who[CONF_PDPS_MAX];
	struct pdp_asking *a;
	struct str text = STR_INIT;
	uint8_t key[DIGEST_SIZE];
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		if (applies(&all->pdp[i], q->who->tenant))
			who[n++] = &all->pdp[i];
	a = mem_zalloc(sizeof(*a) + n * sizeof(a->v.said[0]));
	a->all = all;
	a->done = done;
	a->arg = arg;
	a->v.n = n;
	put_key(q, &text);
	digest_sha256(text.p, text.len, key);
	str_fini(&text);
	for (size_t i = 0; i < n && !a->v.against; i++) {
		const struct kept *k = find_kept(who[i], key);

		a->v.said[i].name = who[i]->conf->name;
		if (k)
			take_kept(who[i], a, &a->v.said[i], k);
		else
			ask_one(who[i], a, &a->v.said[i], q, key);
	}
	settle(a);
	a->started = true;
	return a;
}

const struct pdp_verdict *pdp_verdict(const struct pdp_asking *a)
{
	return a->v.word == PDP_UNSAID ? NULL : &a->v;
}

const char *pdp_request_text(const struct pdp_asking *a, size_t i)
{
	return i < a->v.n ? a->text[i] : NULL;
}

void pdp_forget(struct pdp_asking **ap)
{
	struct pdp_asking *a = *ap;

	if (!a)
		return;
	*ap = NULL;
	leave_all(a);
	for (size_t i = 0; i < a->v.n; i++)
		free(a->text[i]);
	free(a);
}

/* --- for status */

void pdps_each(const struct pdps *all, void (*fn)(void *arg, const struct pdp_view *v), void *arg)
{
	for (size_t i = 0; all && i < all->n; i++) {
		const struct pdp *p = &all->pdp[i];
		const size_t len = p->conf->socket ? 0 : p->at.target < strlen(p->url) ? p->at.target : strlen(p->url);
		char *place = p->conf->socket ? mem_strdup(p->conf->socket) : mem_strndup(p->url, len);

		fn(arg, &(struct pdp_view){ .name = p->conf->name, .place = place, .why = p->why, .running = p->running,
			.waiting = p->nwaiting, .kept = map_count(p->kept), .asked = p->asked, .allowed = p->allowed,
			.denied = p->denied, .failed = p->failed, .cached = p->cached });
		free(place);
	}
}

static void describe(void *arg, const struct pdp_view *v)
{
	struct str *ret = arg;

	str_printf(ret, "%s%s: %s%s%s", ret->len ? "; " : "", v->name,
		   *v->why ? PDP_NO_ANSWER : v->asked ? "answers" : "not asked yet", *v->why ? ", " : "", v->why);
	if (v->denied + v->failed > 0)
		str_printf(ret, ", %llu calls denied, %llu undecided", (unsigned long long)v->denied, (unsigned long long)v->failed);
}

void pdps_describe(const struct pdps *p, struct str *ret)
{
	pdps_each(p, describe, ret);
}
