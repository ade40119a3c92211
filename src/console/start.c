/* Coming in and going, and the first page: what a visit may look at, and who is signed in (CONSOLE 5, 7). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "json/json.h"

#include "console_int.h"

/* --- GET /, the tenants and the visits */

/* Pages that are looked at first: reports.c has more. */
static const struct link { const char *report, *title; bool of_all; } links[] = {
	{ "calls", "Calls", false }, { "denied", "Refused calls", false }, { "admin", "Administration", true },
	{ "access", "Who looked", true }, { "auth-failures", "Refused credentials", true }, { "credentials", "Keys", true },
	{ "coverage", "Coverage", true }, { "reviews", "Reviews", true },
};

static void put_links(struct str *html, const char *tenant)
{
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		const struct link *l = &links[i];

		if (tenant)
			PAGE(html, "tenant-report", { "tenant", tenant }, { "report", l->report }, { "title", l->title });
		else if (l->of_all)
			PAGE(html, "system-report", { "report", l->report }, { "title", l->title });
	}
}

static void put_tenants(struct str *html, const json_t *rows)
{
	const json_t *row;
	size_t i;

	PAGE_PLAIN(html, "tenants");
	json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
		char *tenant = view_member(row, "tenant");

		PAGE(html, "tenant", { "tenant", tenant });
		put_links(html, tenant);
		PAGE_PLAIN(html, "tenant-end");
		free(tenant);
	}
	PAGE_PLAIN(html, "table-end");
	if (json_array_size(rows) == 0)
		PAGE(html, "none", { "text", "There is no tenant whose audit you may look at." });
	PAGE_PLAIN(html, "system");
	put_links(html, NULL);
	PAGE_PLAIN(html, "system-end");
}

static void put_visits(const struct request *q, struct str *html, const json_t *rows)
{
	char csrf[CSRF_SIZE];
	const json_t *row;
	size_t i;

	request_csrf(q, "/end", csrf);
	PAGE_PLAIN(html, "visits");
	json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
		char *who = view_member(row, "who"), *since = view_member(row, "since"), *seen = view_member(row, "last_seen");
		char *ends = view_member(row, "ends"), *from = view_member(row, "from"), *id = view_member(row, "id");
		const char *this = json_is_true(json_object_get(row, "this")) ? "yes" : "";

		PAGE(html, "visit", { "who", who }, { "since", since }, { "seen", seen }, { "ends", ends }, { "from", from },
		     { "this", this }, { "csrf", csrf }, { "id", id });
		free(who);
		free(since);
		free(seen);
		free(ends);
		free(from);
		free(id);
	}
	PAGE_PLAIN(html, "table-end");
}

static void show_start(struct request *q, struct answer *a)
{
	struct str html = STR_INIT;

	if (view_failed(q, a))
		return;
	view_begin(q, &html, "Console");
	put_tenants(&html, q->kept);
	put_visits(q, &html, a->rows);
	PAGE(&html, "command", { "line", "toolcrib console can\ntoolcrib console visits" });
	request_page(q, 200, &html);
}

static void keep_tenants(struct request *q, struct answer *a)
{
	if (view_failed(q, a))
		return;
	q->kept = json_incref(a->rows);
	request_ask(q, "console visits", json_object(), show_start);
}

static void run_start(struct request *q)
{
	request_ask(q, "console can", json_object(), keep_tenants);
}

/* --- coming in, and going */

static void run_enter(struct request *q)
{
	struct str html = STR_INIT;

	view_begin(q, &html, "Sign in");
	PAGE(&html, "enter", { "token", request_param(q, "t") });
	request_page(q, 200, &html);
}

/* set: a new token, "" = the cookie goes; NULL: it stays. */
static void go_to_start(struct request *q, const char *set)
{
	char headers[400] = "Location: /\r\n";

	if (set && *set)
		(void)snprintf(headers, sizeof(headers),
			       "Location: /\r\nSet-Cookie: " CON_COOKIE "=%.43s; Path=/; Secure; HttpOnly; SameSite=Strict\r\n", set);
	else if (set)
		(void)snprintf(headers, sizeof(headers), "Location: /\r\nClear-Site-Data: \"cache\"\r\nSet-Cookie: " CON_COOKIE
			       "=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0\r\n");
	request_reply(q, 303, "text/html; charset=utf-8", headers, "");
	secret_wipe(headers, sizeof(headers));
}

static void entered(struct request *q, struct answer *a)
{
	const json_t *row = json_array_get(a->rows, 0);
	const char *token = json_string_value(json_object_get(row, "visit"));

	if (a->code != ERR_OK)
		request_error(q, view_status(a->code), "Not signed in", a->message, a->hint);
	else if (!token || strlen(token) != CON_TOKEN)
		request_error(q, 503, "Not signed in", "The server gave no visit.", NULL);
	else
		go_to_start(q, token);
}

static void run_sign_in(struct request *q)
{
	json_t *args = json_object();

	(void)json_object_set_new(args, "link", json_string(request_param(q, "t")));
	secret_wipe(q->token, sizeof(q->token));        /* whoever was signed in before asks for nothing here */
	request_ask(q, "console enter", args, entered);
}

static void signed_out(struct request *q, struct answer *a)
{
	(void)a;                        /* it may have ended by itself */
	go_to_start(q, "");
}

static void run_sign_out(struct request *q)
{
	request_ask(q, "console end", json_object(), signed_out);
}

static void visit_ended(struct request *q, struct answer *a)
{
	if (!view_failed(q, a))
		go_to_start(q, NULL);
}

static void run_end(struct request *q)
{
	json_t *args = json_object();

	(void)json_object_set_new(args, "id", json_string(request_param(q, "id")));
	request_ask(q, "console end", args, visit_ended);
}

/* --- the style sheet, whose address changes with it */

static void run_css(struct request *q)
{
	const char *css;

	(void)page_css(&css);
	request_reply(q, 200, "text/css; charset=utf-8", NULL, css);
}

const struct route start_routes[] = {
	{ "GET", "/", NULL, false, false, run_start },
	{ "GET", "/enter", " t ", true, false, run_enter },
	{ "POST", "/enter", " t ", true, false, run_sign_in },
	{ "POST", "/sign-out", " c ", false, true, run_sign_out },
	{ "POST", "/end", " c id ", false, true, run_end },
	{ "GET", "/a/:hash/console.css", NULL, true, false, run_css },
	{ NULL, NULL, NULL, false, false, NULL },
};
