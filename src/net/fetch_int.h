#ifndef FETCH_INT_H
#define FETCH_INT_H

#include "base/map.h"
#include "base/text.h"
#include "net/fetch.h"
#include "net/fetch_policy.h"
#include "net/url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <curl/curl.h>

/* What fetch.c (requests, pools), fetch_multi.c (libcurl on the loop) and fetch_easy.c (options, callbacks) share. */

#define FETCH_SPARE_MAX 256             /* easy handles that a pool keeps for the next requests */

struct fetcher {
	struct ev_loop *loop;
	struct map *pools;              /* key -> struct fetch_pool */
	struct list idle;               /* pools without work; the front one is idle for the longest time */
	size_t running;
	struct fetch_own own;
	struct breakers *breakers;
	fetch_resolve_fn *resolve;
	void *resolve_arg;
};

struct fetch_pool {
	struct list node;               /* in fetcher's idle, or alone */
	struct fetcher *owner;
	char *key; size_t key_len;      /* scope and policy */
	CURLM *multi;
	struct ev_timer *timer;         /* libcurl's */
	struct ev_timer *idle;
	struct map *socks;              /* descriptor -> struct fetch_sock */
	struct list running; size_t nrunning;   /* struct fetch */
	CURL *spare[FETCH_SPARE_MAX]; size_t nspare;
	bool acting;                    /* libcurl or an end is on the stack */
};

struct fetch_head {
	int status;
	struct str fields;              /* lower-case name NUL value NUL, … */
};

enum fetch_state { FETCH_WAITING, FETCH_RUNNING, FETCH_DONE };

struct fetch {
	struct list node;               /* in its pool's running */
	struct fetch_pool *pool;
	CURL *easy;
	enum fetch_state state;
	struct fetch_sink sink;
	void *arg;
	const struct fetch_policy *policy;
	struct url url;
	char *url_text, *method;
	struct curl_slist *headers, *resolve;
	void *body; size_t body_len, body_sent;
	uint64_t deadline_us;
	size_t body_max, body_got, head_got;
	struct fetch_head head;
	bool connected;                 /* on_prereq() has agreed to the connection that it is on */
	bool head_done;
	bool lengths_differ;            /* two Content-Lengths */
	struct err err;                 /* why a callback stopped it; code 0 = none did */
};

/* fetch_multi.c */
int fetch_pool_open(struct fetch_pool *p, struct err *err) MUST_CHECK;
void fetch_pool_close(struct fetch_pool *p);            /* nothing is running */
int fetch_pool_add(struct fetch_pool *p, struct fetch *f) MUST_CHECK;
int fetch_pool_close_sock(void *pool, curl_socket_t fd);        /* CURLOPT_CLOSESOCKETFUNCTION */
/* fetch.c: libcurl is through with it. */
void fetch_ended(struct fetch *f, CURLcode code);
void fetch_pool_rest(struct fetch_pool *p);             /* idle, if it has no work */
/* fetch_easy.c */
CURL *fetch_easy_new(struct fetch_pool *p, const struct fetch_policy *policy);
int fetch_easy_set(struct fetch *f, uint64_t now_us) MUST_CHECK;
void fetch_easy_explain(const struct fetch *f, CURLcode code, uint64_t now_us, struct err *err);

#endif
