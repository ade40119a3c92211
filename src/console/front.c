/* The front of the console: connections of browsers, which request is for which route, and what a request must have
 * before anything is asked for it: our host, a method that is served, no prefetch, a visit, and of forms that they come
 * from our own pages (CONSOLE 6, C-305, C-307).  Answers leave with the headers that keep a page to itself. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "console/console.h"
#include "ev/ev.h"
#include "json/json.h"
#include "net/addr.h"
#include "net/listen.h"

#include "console_int.h"

#define FORM "application/x-www-form-urlencoded"
#define AGAIN "again"                   /* of any page: ask_again() has asked for it */
#define PLAIN \
	"Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
/* One script of our own is on pages, which only adds, and none else may come there (C-402, C-403). */
#define APART(policy) \
	"X-Content-Type-Options: nosniff\r\nReferrer-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n" \
	"Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: " policy \
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'\r\n" \
	"Permissions-Policy: camera=(), microphone=(), geolocation=(), payment=(), usb=(), clipboard-read=(), " \
	"display-capture=()\r\n"

#define SECURE "Strict-Transport-Security: max-age=31536000\r\n"
#define KEPT_APART \
	APART("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; ")

struct front {
	struct ev_loop *loop;
	struct listener *listener;
	struct doors *doors;
	const char *url;                /* where browsers find it */
	char host[CONSOLE_NAME_MAX];    /* of it, without a port */
	bool behind;                    /* a proxy, which has the certificate, and says who asks (C-308) */
	const struct route *const *routes;
	struct list conns;
};

struct conn {
	struct list node;
	struct front *front;
	struct http_conn *http;
	char from[ADDR_TEXT_SIZE];
};

/* --- the end of a request */

static void request_free(struct request *q)
{
	for (size_t i = 0; i < q->nparts; i++) {
		doors_forget(&q->part[i].question);
		jx_wipe(&q->part[i].args);
		answer_reset(&q->answer[i]);
	}
	if (q->ended)
		q->ended(q);
	free(q->followed);
	for (size_t i = 0; i < q->nparams; i++) {
		free(q->param[i].name);
		secret_wipe(q->param[i].value, strlen(q->param[i].value));      /* a link's token may be one */
		free(q->param[i].value);
	}
	secret_wipe(q->token, sizeof(q->token));
	free(q);
}

void request_reply(struct request *q, int status, const char *type, const char *headers, const char *text)
{
	struct http_request *http = q->http;
	const bool is_asset = strncmp(type, "text/css", 8) == 0 || strncmp(type, "text/javascript", 15) == 0;
	struct str all = STR_SECRET_INIT;       /* a cookie */

	str_printf(&all, KEPT_APART "%sContent-Type: %s\r\nCache-Control: %s\r\n%s", q->front->behind ? SECURE : "", type,
		   is_asset ? "max-age=31536000, immutable" : "no-store", headers ? headers : "");
	request_free(q);
	http_reply(http, status, str_text(&all), text, strlen(text));
	str_wipe(&all);
}

#define VERIFIER APART("form-action 'none'; ") "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\n"

void request_verifier(struct request *q, const char *html)
{
	struct http_request *http = q->http;
	const bool behind = q->front->behind;

	request_free(q);
	http_reply(http, 200, behind ? SECURE VERIFIER : VERIFIER, html, strlen(html));
}

void request_page(struct request *q, int status, struct str *html)
{
	PAGE_PLAIN(html, "foot");
	request_reply(q, status, "text/html; charset=utf-8", status == 503 ? "Retry-After: 1\r\n" : NULL, str_text(html));
	str_fini(html);
}

static void begin(struct str *html, const char *title)
{
	PAGE(html, "head", { "title", title });
	PAGE(html, "main", { "title", title });
}

void request_error(struct request *q, int status, const char *title, const char *message, const char *hint)
{
	struct str html = STR_INIT;

	begin(&html, title);
	PAGE(&html, "said", { "text", message });
	if (hint && *hint)
		PAGE(&html, "hint", { "text", hint });
	request_page(q, status, &html);
}

void request_missing(struct request *q)
{
	request_error(q, 404, "Not found", "There is no such page, or none that you may see.", NULL);
}

static void ask_to_sign_in(struct request *q)
{
	struct str html = STR_INIT;

	begin(&html, "Sign in");
	PAGE_PLAIN(&html, "sign-in");
	request_page(q, 403, &html);
}

/* --- a link elsewhere */

static struct http_text only(const struct http_head *h, const char *name)
{
	unsigned count = 0;
	struct http_text t = http_head_get(h, name, &count);

	return count == 1 ? t : (struct http_text){ NULL, 0 };
}

/* A link elsewhere brings no cookie (SameSite=Strict): the same address, asked for by a page of ours, does, once
 * (C-306).  A foreign page can have ours opened so, as any link can, and reads nothing of it. */
static void ask_again(struct request *q)
{
	struct str html = STR_INIT;
	char *content = mem_printf("0; url=%s%c" AGAIN "=1", q->followed, strchr(q->followed, '?') ? '&' : '?');

	PAGE(&html, "again", { "content", content });
	free(content);
	request_page(q, 200, &html);
}

static bool is_followed(const struct http_head *h)
{
	return http_text_is(only(h, "sec-fetch-site"), "cross-site") && http_text_is(only(h, "sec-fetch-mode"), "navigate") &&
		http_text_is(only(h, "sec-fetch-dest"), "document");
}

/* --- what a visit's forms carry (C-307) */

void request_csrf(const struct request *q, const char *route, char ret[CSRF_SIZE])
{
	static const char what[] = "toolcrib/csrf/1";
	const struct digest_part part[] = { { what, sizeof(what) }, { route, strlen(route) } };
	uint8_t key[DIGEST_SIZE], mac[DIGEST_SIZE];

	digest_sha256(q->token, strlen(q->token), key);
	digest_hmac(key, part, NELEMS(part), mac);
	text_hex(mac, sizeof(mac), ret);
	secret_wipe(key, sizeof(key));
}

static bool csrf_fits(const struct request *q)
{
	char want[CSRF_SIZE];
	const char *got = request_param(q, "c");

	request_csrf(q, q->route->path, want);
	return strlen(got) == CSRF_SIZE - 1 && secret_equal(got, want, CSRF_SIZE - 1);
}

/* --- parameters */

const char *request_param(const struct request *q, const char *name)
{
	for (size_t i = 0; i < q->nparams; i++)
		if (strcmp(q->param[i].name, name) == 0)
			return q->param[i].value;
	return "";
}

static bool has_param(const struct request *q, const char *name)
{
	for (size_t i = 0; i < q->nparams; i++)
		if (strcmp(q->param[i].name, name) == 0)
			return true;
	return false;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* NULL: it is no text, or has a NUL. */
static char *decode(const char *p, size_t len)
{
	char *text = mem_alloc(len + 1);
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int high = p[i] == '%' && i + 2 < len ? digit(p[i + 1]) : -1, low = high >= 0 ? digit(p[i + 2]) : -1;

		if (p[i] == '%' && low < 0)
			goto none;
		text[n++] = p[i] == '+' ? ' ' : p[i] == '%' ? (char)(high << 4 | low) : p[i];
		i += p[i] == '%' ? 2 : 0;
	}
	text[n] = '\0';
	if (!memchr(text, '\0', n) && text_utf8_valid(text, n))
		return text;
none:
	free(text);
	return NULL;
}

static bool is_known(const struct route *route, const char *name)
{
	char word[40];

	(void)snprintf(word, sizeof(word), " %.36s ", name);
	if (strcmp(name, AGAIN) == 0)
		return route->method[0] == 'G';
	return strchr(name, ' ') == NULL && strlen(name) < 36 && route->params && strstr(route->params, word);
}

/* "a=1&b=2"; NULL, or what is wrong with it: a static text, and *ret_name. */
static const char *take_params(struct request *q, const char *p, size_t len, char **ret_name)
{
	const char *end = len ? p + len : p;

	while (p < end) {
		const char *and = memchr(p, '&', (size_t)(end - p)), *stop = and ? and : end;
		const char *is = memchr(p, '=', (size_t)(stop - p));
		char *name = decode(p, (size_t)((is ? is : stop) - p));
		char *value = name && is ? decode(is + 1, (size_t)(stop - is - 1)) : NULL;
		const bool twice = name && has_param(q, name);

		if (!value || twice || !is_known(q->route, name) || q->nparams == CON_PARAMS_MAX) {
			*ret_name = name ? name : mem_strdup("?");
			free(value);
			return !name || !value ? "it is no name and value, or no text" :
				twice ? "it stands there twice" : "this page does not know it";
		}
		q->param[q->nparams++] = (struct param){ name, value };
		p = and ? and + 1 : end;
	}
	return NULL;
}

/* --- routes */

static bool is_report_name(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!((p[i] >= 'a' && p[i] <= 'z') || p[i] == '-'))
			return false;
	return len > 0 && len < sizeof(((struct request *)0)->report);
}

static bool is_call_id(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (digit(p[i]) < 0 && p[i] != '-')
			return false;
	return len > 0 && len < sizeof(((struct request *)0)->call);
}

static bool is_number(const char *p, size_t len)
{
	uint64_t n;

	return len < sizeof(((struct request *)0)->id) && text_u64(p, len, &n) == 0;
}

/* One segment of a path against one of a route's. */
static bool segment_fits(const char *want, size_t nwant, const char *p, size_t len, struct request *q)
{
	if (text_eq(want, nwant, ":tenant") && text_entity_name(p, len) && len < sizeof(q->tenant))
		(void)snprintf(q->tenant, sizeof(q->tenant), "%.*s", (int)len, p);
	else if (text_eq(want, nwant, ":report") && is_report_name(p, len))
		(void)snprintf(q->report, sizeof(q->report), "%.*s", (int)len, p);
	else if (text_eq(want, nwant, ":call") && is_call_id(p, len))
		(void)snprintf(q->call, sizeof(q->call), "%.*s", (int)len, p);
	else if (text_eq(want, nwant, ":id") && is_number(p, len))
		(void)snprintf(q->id, sizeof(q->id), "%.*s", (int)len, p);
	else if (text_eq(want, nwant, ":hash"))
		return text_eq(p, len, page_asset(NULL, NULL));
	else
		return *want != ':' && nwant == len && memcmp(want, p, len) == 0;
	return true;
}

/* Behind the base, which a proxy may have taken away (C-408). */
static struct http_text without_base(struct http_text path)
{
	const size_t n = strlen(page_base());

	if (n > 0 && path.len > n && memcmp(path.p, page_base(), n) == 0 && path.p[n] == '/')
		path = (struct http_text){ path.p + n, path.len - n };
	return path;
}

static bool path_fits(const char *want, struct http_text path, struct request *q)
{
	const char *p = path.p, *end = path.p + path.len;

	for (;;) {
		const char *slash, *stop = strchrnul(want + 1, '/');

		if (p >= end || *p != '/')
			return false;
		slash = memchr(p + 1, '/', (size_t)(end - p - 1));
		if (!segment_fits(want + 1, (size_t)(stop - want - 1), p + 1, (size_t)((slash ? slash : end) - p - 1), q))
			return false;
		if (!*stop || !slash)
			return !*stop && !slash;
		want = stop;
		p = slash;
	}
}

/* The route, or NULL; *ret_path: another method has it. */
static const struct route *route_of(const struct http_head *h, struct request *q, bool *ret_path)
{
	const struct http_text path = without_base(h->path);

	*ret_path = false;
	for (const struct route *const *table = q->front->routes; *table; table++) {
		for (const struct route *r = *table; r->method; r++) {
			if (!path_fits(r->path, path, q))
				continue;
			if (http_text_is(h->method, r->method))
				return r;
			*ret_path = true;
		}
	}
	return NULL;
}

/* --- what a request must have */

static bool host_is(struct http_text host, const char *name)
{
	const char *colon = host.p ? memrchr(host.p, ':', host.len) : NULL;

	if (colon && !memchr(colon, ']', host.len - (size_t)(colon - host.p)))
		host.len = (size_t)(colon - host.p);
	return host.p && http_text_is_nocase(host, name);
}

/* Another server of this machine has cookies of "localhost" as well, so pages are under a name of our own (C-305). */
static bool leads_here(struct http_text host)
{
	return host_is(host, "localhost") || host_is(host, "127.0.0.1") || host_is(host, "[::1]");
}

static bool is_prefetch(const struct http_head *h)
{
	const struct http_text sec = http_head_get(h, "sec-purpose", NULL), old = http_head_get(h, "purpose", NULL);

	return (sec.len >= 8 && memcmp(sec.p, "prefetch", 8) == 0) || http_text_is(old, "prefetch");
}

/* Does this form come from a page of ours? */
static bool is_own_form(const struct front *f, const struct http_head *h, struct http_text host)
{
	struct http_text site = http_head_get(h, "sec-fetch-site", NULL), origin = only(h, "origin");
	char ours[300];

	if (site.p)
		return http_text_is(only(h, "sec-fetch-site"), "same-origin");
	if (f->behind)
		(void)snprintf(ours, sizeof(ours), "%.*s", (int)(strlen(f->url) - strlen(page_base())), f->url);
	else
		(void)snprintf(ours, sizeof(ours), "http://%.*s", (int)host.len, host.p);
	return origin.p && host.len < sizeof(ours) - 8 && http_text_is(origin, ours);
}

static bool is_token(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') || (p[i] >= '0' && p[i] <= '9')))
			return false;
	return len == CON_TOKEN;
}

/* Twice, or malformed: as none. */
static void read_cookie(struct request *q, struct http_text cookies)
{
	static const char name[] = CON_COOKIE "=";
	const size_t n = sizeof(name) - 1;
	const char *end = cookies.len ? cookies.p + cookies.len : cookies.p;
	unsigned found = 0;

	for (const char *p = cookies.p; p < end; ) {
		const char *semi = memchr(p, ';', (size_t)(end - p)), *stop = semi ? semi : end;

		while (p < stop && *p == ' ')
			p++;
		if ((size_t)(stop - p) >= n && memcmp(p, name, n) == 0) {
			found++;
			q->token[0] = '\0';
			if (is_token(p + n, (size_t)(stop - p) - n))
				memcpy(q->token, p + n, CON_TOKEN);
		}
		p = semi ? semi + 1 : end;
	}
	if (found != 1)
		secret_wipe(q->token, sizeof(q->token));
}

static int refuse(struct http_request *r, int status, const char *headers, const char *text)
{
	http_reply(r, status, headers, text, strlen(text));
	return 1;
}

/* 0, or 1: it was answered. */
static int check_head(const struct front *f, struct http_request *r, const struct http_head *h, struct http_text host)
{
	if (!host_is(host, f->host) && leads_here(host) && http_text_is(h->method, "GET"))
		return -1;
	if (!host_is(host, f->host))
		return refuse(r, 421, PLAIN, "this host is not served: toolcrib console open says where the console is\n");
	if (!http_text_is(h->method, "GET") && !http_text_is(h->method, "POST"))
		return refuse(r, 405, PLAIN "Allow: GET, POST\r\n", "GET and POST only\n");
	if (h->target.len > CON_URL_MAX)
		return refuse(r, 414, PLAIN, "an address has at most 4096 bytes here\n");
	if (is_prefetch(h))
		return refuse(r, 503, PLAIN, "pages are not fetched ahead: each look is on record\n");
	if (http_text_is(h->method, "GET"))
		return 0;
	if (!http_text_is(only(h, "content-type"), FORM))
		return refuse(r, 415, PLAIN, "a form is " FORM "\n");
	if (!is_own_form(f, h, host))
		return refuse(r, 403, PLAIN, "this form does not come from a page of the console\n");
	return 0;
}

/* Whom the proxy before us has seen: the last of its list; what stands before that, anybody may have written. */
static void read_from(struct request *q, const struct conn *c, const struct http_head *h)
{
	const struct http_text list = c->front->behind ? only(h, "x-forwarded-for") : (struct http_text){ NULL, 0 };
	const char *comma = list.len ? memrchr(list.p, ',', list.len) : NULL, *p = comma ? comma + 1 : list.p;
	char text[ADDR_TEXT_SIZE];
	struct addr addr;

	while (list.len && p < list.p + list.len && *p == ' ')
		p++;
	(void)snprintf(text, sizeof(text), "%.*s", list.len ? (int)(list.p + list.len - p) : 0, list.len ? p : "");
	if (addr_from_host(text, &addr))
		addr_format_host(&addr, q->from);
	else
		(void)snprintf(q->from, sizeof(q->from), "%s", c->from);
}

static int on_head(void *arg, struct http_request *r, const struct http_head *h, size_t *body_max, void **ret_user)
{
	struct conn *c = arg;
	const struct http_text host = only(h, "host");
	char headers[160 + CONSOLE_NAME_MAX], *name = NULL;
	const char *why;
	struct request *q;
	bool other_method;
	int rc = check_head(c->front, r, h, host);

	*body_max = CON_FORM_MAX;
	if (rc < 0) {
		(void)snprintf(headers, sizeof(headers), PLAIN "Location: %s%s/\r\n", c->front->behind ? "" : "http://",
			       c->front->url);
		rc = refuse(r, 307, headers, "the console has a name of its own\n");
	}
	if (rc > 0)
		return 1;
	q = mem_zalloc(sizeof(*q));
	q->front = c->front;
	q->http = r;
	q->conn = c->http;
	q->loop = c->front->loop;
	read_from(q, c, h);
	read_cookie(q, only(h, "cookie"));
	q->route = route_of(h, q, &other_method);
	if (!q->route && other_method) {
		free(q);
		return refuse(r, 405, PLAIN "Allow: GET, POST\r\n", "this address is for the other method\n");
	}
	if (!q->route) {
		request_missing(q);
		return 1;
	}
	why = q->route->method[0] == 'G' ? take_params(q, h->query.p, h->query.len, &name) : NULL;
	if (why) {
		char text[200];

		(void)snprintf(text, sizeof(text), "%.80s: %s", name, why);
		free(name);
		request_error(q, 400, "Bad request", text, NULL);
		return 1;
	}
	if (is_followed(h)) {
		const struct http_text target = without_base(h->target);

		q->followed = mem_printf("%s%.*s", page_base(), (int)target.len, target.p);
	}
	*ret_user = q;
	return 0;
}

static void on_request(void *arg, struct http_request *r, void *user, const char *body, size_t len)
{
	struct request *q = user;
	char *name = NULL, text[200];
	const char *why = q->route->method[0] == 'P' ? take_params(q, body, len, &name) : NULL;

	(void)arg;
	(void)r;
	if (why) {
		(void)snprintf(text, sizeof(text), "%.80s: %s", name, why);
		free(name);
		request_error(q, 400, "Bad request", text, NULL);
	} else if (!*q->token && q->route->class != ROUTE_OPEN && q->followed && !has_param(q, AGAIN)) {
		ask_again(q);
	} else if (!*q->token && q->route->class != ROUTE_OPEN) {
		ask_to_sign_in(q);
	} else if (q->route->class == ROUTE_FORM && !csrf_fits(q)) {
		request_error(q, 403, "Refused", "This form is not of this visit.", "go back, load the page again, and repeat it");
	} else {
		q->route->run(q);
	}
}

static void on_gone(void *arg, struct http_request *r, void *user)
{
	(void)arg;
	(void)r;
	request_free(user);
}

/* --- questions: those of a page at once, as far as its visit may have them running (C-406) */

static void ask_more(struct request *q);

static void answered(void *arg, struct answer *a)
{
	struct part *part = arg;
	struct request *q = part->q;

	part->question = NULL;
	q->answer[part - q->part] = *a;
	*a = (struct answer){ .code = ERR_OK };
	q->left--;
	ask_more(q);
}

static void too_busy(struct answer *a)
{
	*a = (struct answer){ .code = ERR_BUSY, .where = mem_strdup(""), .rows = json_array(),
			      .message = mem_strdup("Too many pages are being made just now."),
			      .hint = mem_strdup("come again in a second") };
}

/* The next ones, while there is room; when nothing of this page runs, nothing would make room. */
static void ask_more(struct request *q)
{
	const struct asker who = { q->token, q->from };

	while (q->nasked < q->nparts) {
		struct part *part = &q->part[q->nasked];

		part->question = doors_ask(q->front->doors, &who, part->command, json_incref(part->args), NULL,
			answered, part);
		if (!part->question && q->left > q->nparts - q->nasked)
			return;
		if (!part->question) {
			too_busy(&q->answer[q->nasked]);
			q->left--;
		}
		q->nasked++;
	}
	if (q->left == 0)
		q->then(q, q->answer);
}

/* A route has the commands that its pages give, and no other one is given for it. */
static void check_route(const struct request *q, const char *command)
{
	const char *at = q->route->commands;
	const size_t n = strlen(command);

	while (at && !(strncmp(at, command, n) == 0 && (at[n] == '\0' || at[n] == ','))) {
		if (strcmp(at, ROUTE_REPORTS) == 0 && strncmp(command, "audit ", 6) == 0)
			return;
		at = strchr(at, ',');
		if (at)
			at += 2;
	}
	if (!at)
		abort();
}

static void add_part(struct request *q, const char *command, json_t *args)
{
	struct part *part = &q->part[q->nparts++];

	check_route(q, command);
	part->q = q;
	part->command = command;
	part->args = args;
	q->left++;
}

void request_ask_all(struct request *q, const struct asking *all, size_t n, request_then_fn *then)
{
	q->then = then;
	for (size_t i = 0; i < n; i++)
		add_part(q, all[i].command, all[i].args);
	ask_more(q);
}

void request_ask(struct request *q, const char *command, json_t *args, request_then_fn *then)
{
	request_ask_all(q, &(struct asking){ command, args }, 1, then);
}

void request_again(struct request *q, const char *command, json_t *args, request_then_fn *then)
{
	for (size_t i = 0; i < q->nparts; i++) {
		jx_wipe(&q->part[i].args);
		answer_reset(&q->answer[i]);
	}
	q->nparts = q->nasked = q->left = 0;
	request_ask(q, command, args, then);
}

static void streamed(void *arg, struct answer *a)
{
	struct part *part = arg;

	part->question = NULL;
	part->q->then(part->q, a);
}

void request_stream(struct request *q, const char *command, json_t *args, const struct question_stream *stream,
		    request_then_fn *then)
{
	const struct asker who = { q->token, q->from };
	struct part *part = &q->part[0];

	q->then = then;
	add_part(q, command, args);
	q->nasked = 1;
	part->question = doors_ask(q->front->doors, &who, command, json_incref(args), stream, streamed, part);
	if (!part->question) {
		too_busy(&q->answer[0]);
		then(q, &q->answer[0]);
	}
}

void request_begin(struct request *q, const char *headers)
{
	struct str all = STR_INIT;

	str_printf(&all, KEPT_APART "%sCache-Control: no-store\r\n%s", q->front->behind ? SECURE : "", headers);
	http_stream_begin(q->http, 200, str_text(&all));
	str_fini(&all);
}

void request_end(struct request *q, bool whole)
{
	struct http_request *http = q->http;

	if (!whole) {
		http_conn_close(q->conn);       /* on_gone() follows */
		return;
	}
	request_free(q);
	http_stream_end(http);
}

/* --- connections */

static void on_closed(void *arg, struct http_conn *http)
{
	struct conn *c = arg;

	(void)http;
	list_unlink(&c->node);
	listen_conn_gone(c->front->listener);
	free(c);
}

static void accepted(void *arg, const struct accepted *a)
{
	static const struct http_ops ops = { on_head, on_request, on_gone, on_closed, NULL };
	struct front *f = arg;
	struct conn *c;

	if (listen_live(f->listener) > CON_CONNS) {
		doors_limited();
		listen_drop(a);
		listen_conn_gone(f->listener);
		return;
	}
	c = mem_zalloc(sizeof(*c));
	c->front = f;
	(void)snprintf(c->from, sizeof(c->from), "%s", a->from);
	list_push_back(&f->conns, &c->node);
	c->http = http_conn_new(f->loop, a->fd, NULL, &ops, c);
}

/* "host:port", or "https://host[:port][/path]". */
static void find_host(struct front *f)
{
	static const char scheme[] = "https://";
	const char *host = f->url, *path;

	f->behind = strncmp(host, scheme, sizeof(scheme) - 1) == 0;
	host += f->behind ? sizeof(scheme) - 1 : 0;
	path = strchrnul(host, '/');
	page_set_base(path);
	(void)snprintf(f->host, sizeof(f->host), "%.*s", (int)strcspn(host, ":/"), host);
}

bool front_open(struct ev_loop *loop, int fd, const char *name, struct doors *doors, const struct route *const *routes)
{
	struct front *f = mem_zalloc(sizeof(*f));
	struct err err;

	f->loop = loop;
	f->doors = doors;
	f->url = name;
	find_host(f);
	f->routes = routes;
	list_init(&f->conns);
	return listen_given(loop, fd, name, CON_CONNS + 1, accepted, f, &f->listener, &err) == 0;
}
