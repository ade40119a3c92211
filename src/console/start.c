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

/* Pages that are looked at first, of whoever may: reports.c has more. */
struct link { const char *path, *title, *command; };
static const struct link of_tenant[] = {
	{ "questions", "Questions", "audit calls" }, { "r/calls", "Calls", "audit calls" },
	{ "tail", "Live", "audit tail" }, { "access", "Who may call what",
		"grant who" },
	{ "keys", "Principals and keys", "key list" }, { "r/denied", "Refused calls", "audit denied" },
	{ "r/admin", "Administration", "audit admin" }, { "r/access", "Who looked", "audit access" },
	{ "r/tool-health", "Health of tools", "audit tool-health" }, { "r/anomalies", "What is unusual",
		"audit anomalies" },
	{ "r/reviews", "Reviews", "audit reviews" }, { "files", "Files", "audit export" },
};
static const struct link of_all[] = {
	{ "approvals", "Approvals", "approve list" }, { "tools", "Tools and versions", "tool list" },
	{ "evidence", "Evidence", "audit anchors" }, { "server", "Server, capacity, alerts", "status" },
	{ "r/admin", "Administration", "audit admin" }, { "r/access", "Who looked", "audit access" },
	{ "r/auth-failures", "Refused credentials", "audit auth-failures" }, { "r/coverage", "Coverage",
		"audit coverage" },
	{ "r/continuity", "Runs of the server", "audit continuity" }, { "r/config", "Configuration", "audit config" },
	{ "r/dual-control", "Acts without a second", "audit dual-control" }, { "r/reviews", "Reviews",
		"audit reviews" },
};

/* A path is of one of our own segments, or of r/ and one. */
static void put_link(struct str *html, const struct link *l, const char *tenant)
{
	const bool is_report = strncmp(l->path, "r/", 2) == 0;

	if (tenant)
		PAGE(html, is_report ? "tenant-report" : "tenant-page", { "tenant", tenant }, { "page",
			l->path + (is_report ? 2 : 0) },
		     { "title", l->title });
	else
		PAGE(html, is_report ? "system-report" : "system-page", { "page", l->path + (is_report ? 2 : 0) },
			{ "title", l->title });
}

static void put_tenants(struct str *html, const struct answer *can)
{
	size_t shown = 0, i;
	const json_t *row;

	PAGE_PLAIN(html, "tenants");
	json_array_foreach(can->rows, i, row) {
		char *tenant = view_member(row, "tenant");

		if (*tenant) {
			shown++;
			PAGE(html, "tenant", { "tenant", tenant });
			for (size_t k = 0; k < NELEMS(of_tenant); k++)
				if (view_may(can, tenant, of_tenant[k].command))
					put_link(html, &of_tenant[k], tenant);
			PAGE_PLAIN(html, "tenant-end");
		}
		free(tenant);
	}
	PAGE_PLAIN(html, "table-end");
	if (shown == 0)
		PAGE(html, "none", { "text", "There is no tenant that you may look at." });
}

static void put_system(struct str *html, const struct answer *can)
{
	PAGE_PLAIN(html, "system");
	for (size_t k = 0; k < NELEMS(of_all); k++)
		if (view_may(can, "", of_all[k].command))
			put_link(html, &of_all[k], NULL);
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

	if (view_failed(q, &a[0]) || view_failed(q, &a[1]))
		return;
	view_begin(q, &html, "Console");
	put_system(&html, &a[0]);
	put_tenants(&html, &a[0]);
	put_visits(q, &html, a[1].rows);
	PAGE(&html, "command", { "line", "toolcrib console can\ntoolcrib console visits" });
	request_page(q, 200, &html);
}

static void run_start(struct request *q)
{
	const struct asking asked[] = { { "console can", json_object() }, { "console visits", json_object() } };

	request_ask_all(q, asked, NELEMS(asked), show_start);
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
	char headers[700];

	if (set && *set)
		(void)snprintf(headers, sizeof(headers),
			"Location: %s/\r\nSet-Cookie: " CON_COOKIE "=%.43s; Path=/; Secure; HttpOnly; SameSite=Strict\r\n",
			page_base(), set);
	else
		(void)snprintf(headers, sizeof(headers), "Location: %s/\r\n%s", page_base(), set ? "Clear-Site-Data: \"cache\"\r\n"
			"Set-Cookie: " CON_COOKIE "=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0\r\n" : "");
	request_reply(q, 303, "text/html; charset=utf-8", headers, "");
	secret_wipe(headers, sizeof(headers));
}

static void entered(struct request *q, struct answer *a)
{
	const json_t *row = json_array_get(a->rows, 0);
	const char *token = json_string_value(json_object_get(row, "visit"));

	if (view_failed(q, a))
		return;
	if (!token || strlen(token) != CON_TOKEN)
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

/* --- style sheet and script, whose address changes with them */

static void run_css(struct request *q)
{
	const char *css;

	(void)page_asset("css", &css);
	request_reply(q, 200, "text/css; charset=utf-8", NULL, css);
}

static void run_mjs(struct request *q)
{
	const char *mjs;

	(void)page_asset("mjs", &mjs);
	request_reply(q, 200, "text/javascript; charset=utf-8", NULL, mjs);
}

/* For everybody, since it has no data. */
static void run_verify(struct request *q)
{
	request_verifier(q, console_verifier);
}

const struct route start_routes[] = {
	{ "GET", "/", NULL, ROUTE_SEEN, "console can, console visits", run_start, NULL, NULL },
	{ "GET", "/enter", " t ", ROUTE_OPEN, NULL, run_enter, NULL, NULL },
	{ "POST", "/enter", " t ", ROUTE_OPEN, "console enter", run_sign_in, NULL, NULL },
	{ "POST", "/sign-out", " c ", ROUTE_FORM, "console end", run_sign_out, NULL, NULL },
	{ "POST", "/end", " c id ", ROUTE_FORM, "console end", run_end, NULL, NULL },
	{ "GET", "/verify", NULL, ROUTE_OPEN, NULL, run_verify, NULL, NULL },
	{ "GET", "/a/:hash/console.css", NULL, ROUTE_OPEN, NULL, run_css, NULL, NULL },
	{ "GET", "/a/:hash/console.mjs", NULL, ROUTE_OPEN, NULL, run_mjs, NULL, NULL },
	{ NULL, NULL, NULL, ROUTE_SEEN, NULL, NULL, NULL, NULL },
};
