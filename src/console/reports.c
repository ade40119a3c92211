/* Pages of the audit: one for each report, with its filters, its rows and the next page, and one for a call. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"

#include "console_int.h"

/* --- reports that have a page: audit NAME */

enum { OF_TENANT = 1, OF_ALL = 2, BY_TOOL = 4, BY_PRINCIPAL = 8, BY_KEY = 16, BY_OUTCOME = 32, LOOKS = 64,
	WHOLE = 128 };
#define BY_CALL (BY_TOOL | BY_PRINCIPAL | BY_KEY | BY_OUTCOME | LOOKS)       /* LOOKS: --look; WHOLE: no pages */
static const struct report {
	const char *name, *title;
	unsigned what;
	const char *columns;            /* NULL: those of the answer */
} reports[] = {
	{ "calls", "Calls", OF_TENANT | BY_CALL, " time tool principal outcome ms transport rule call " },
	{ "denied", "Refused calls", OF_TENANT | BY_CALL, NULL },
	{ "admin", "Administration", OF_TENANT | OF_ALL, " time index kind object principal detail " },
	{ "access", "Who looked", OF_TENANT | OF_ALL, NULL },
	{ "auth-failures", "Refused credentials", OF_TENANT | OF_ALL | BY_KEY, NULL },
	{ "credentials", "Keys", OF_TENANT | OF_ALL, NULL },
	{ "after-revocation", "Calls after a revocation", OF_TENANT | OF_ALL, NULL },
	{ "anomalies", "What is unusual", OF_TENANT, NULL },
	{ "approvals", "Approvals of calls", OF_TENANT | OF_ALL | BY_TOOL | BY_PRINCIPAL, NULL },
	{ "clock", "Clock", OF_ALL, NULL },
	{ "config", "Configuration", OF_TENANT | OF_ALL, NULL },
	{ "continuity", "Runs of the server", OF_ALL, NULL },
	{ "coverage", "Coverage", OF_TENANT | OF_ALL, NULL },
	{ "drift", "Calls of unknown definitions", OF_TENANT | OF_ALL, NULL },
	{ "dual-control", "Acts that nobody else approved", OF_TENANT | OF_ALL, NULL },
	{ "erasures", "Erasures", OF_TENANT | OF_ALL, NULL },
	{ "isolation", "Names of other tenants", OF_TENANT | OF_ALL, NULL },
	{ "key-history", "Keys of the store", OF_TENANT | OF_ALL, NULL },
	{ "oversight", "Calls that asked a person", OF_TENANT | OF_ALL, NULL },
	{ "reviews", "Reviews", OF_TENANT | OF_ALL, NULL },
	{ "sandbox", "Sandboxes", OF_TENANT | OF_ALL | BY_TOOL, NULL },
	{ "tasks", "Tasks", OF_TENANT | OF_ALL | BY_TOOL | BY_PRINCIPAL, NULL },
	{ "tool-health", "Calls, failures and times by tool", OF_TENANT | BY_TOOL | WHOLE, NULL },
	{ "capacity", "Capacity", OF_ALL, NULL },
	{ "anchors", "Anchors and epochs", OF_ALL, NULL },
	{ "segments", "Sealed files", OF_TENANT | OF_ALL, NULL },
};

static const struct report *find_report(const char *name, unsigned of)
{
	for (size_t i = 0; i < NELEMS(reports); i++)
		if (strcmp(reports[i].name, name) == 0 && (reports[i].what & of))
			return &reports[i];
	return NULL;
}

/* What a report can be asked with, beside how many and from where on. */
static const struct field { const char *param, *label; unsigned what; } fields[] = {
	{ "since", "Since", 0 }, { "until", "Until", 0 }, { "tool", "Tool", BY_TOOL },
	{ "principal", "Principal", BY_PRINCIPAL }, { "key", "Key", BY_KEY }, { "outcome", "Outcome", BY_OUTCOME },
};
#define NFIELDS (sizeof(fields) / sizeof(fields[0]))
#define FILTERS " since until tool principal key outcome n after "

static bool has_field(const struct report *r, const struct field *f)
{
	return f->what == 0 || (r->what & f->what);
}

/* --- GET /t/T/r/R, /r/R: any report */

static const struct report *report_of(const struct request *q)
{
	return find_report(q->report, *q->tenant ? OF_TENANT : OF_ALL);
}

/* Its own number of rows, or what is asked for; "": it is none. */
static const char *rows_of(const struct request *q, char ret[16])
{
	const char *n = request_param(q, "n");
	uint64_t rows = CON_ROWS_DEFAULT;

	if (*n && (text_u64(n, strlen(n), &rows) < 0 || rows < 1 || rows > CON_ROWS))
		return "";
	(void)snprintf(ret, 16, "%u", (unsigned)rows);
	return ret;
}

/* What the page asks with; cursor: from where on, which its command in a shell has not. */
static json_t *args_of(const struct request *q, const struct report *r, const char *rows, bool cursor)
{
	json_t *args = json_object();

	if (*q->tenant)
		(void)json_object_set_new(args, "tenant", json_string(q->tenant));
	for (size_t i = 0; i < NFIELDS; i++)
		if (has_field(r, &fields[i]) && *request_param(q, fields[i].param))
			(void)json_object_set_new(args, fields[i].param, json_string(request_param(q, fields[i].param)));
	if (!(r->what & WHOLE))
		(void)json_object_set_new(args, "limit", json_string(rows));
	if (cursor && (r->what & LOOKS))
		(void)json_object_set_new(args, "look", json_string(CON_LOOK));
	if (cursor && *request_param(q, "after"))
		(void)json_object_set_new(args, "after", json_string(request_param(q, "after")));
	return args;
}

static void put_filter(const struct request *q, const struct report *r, struct str *html)
{
	PAGE_PLAIN(html, "filter");
	for (size_t i = 0; i < NFIELDS; i++)
		if (has_field(r, &fields[i]))
			PAGE(html, "field", { "label", fields[i].label }, { "name", fields[i].param },
			     { "value", request_param(q, fields[i].param) });
	PAGE(html, "field", { "label", "Rows" }, { "name", "n" }, { "value", request_param(q, "n") });
	PAGE_PLAIN(html, "filter-end");
}

static bool is_shown(const struct report *r, const char *column)
{
	char word[72];

	(void)snprintf(word, sizeof(word), " %.68s ", column);
	return !r->columns || strstr(r->columns, word);
}

void reports_cell(const struct request *q, struct str *html, const char *column, const json_t *value)
{
	char *text = view_text(value, CON_VALUE_MAX);

	if (*q->tenant && *text && strcmp(column, "call") == 0)
		PAGE(html, "cell-call", { "tenant", q->tenant }, { "call", text });
	else if (*q->tenant && *text && strcmp(column, "tool") == 0)
		PAGE(html, "cell-called", { "tenant", q->tenant }, { "name", text });
	else if (*q->tenant && *text && (strcmp(column, "key") == 0 || strcmp(column, "accessor") == 0))
		PAGE(html, "cell-key", { "tenant", q->tenant }, { "key", text });
	else if (*text && strcmp(column, "outcome") == 0)
		PAGE(html, "cell-outcome", { "shape", view_shape(text) }, { "value", text });
	else
		view_cell(html, text);
	free(text);
}

static void put_rows(const struct request *q, const struct report *r, struct str *html, const struct answer *a)
{
	const json_t *column, *row;
	size_t i, k;

	PAGE_PLAIN(html, "rows");
	json_array_foreach(a->columns, i, column)
		if (is_shown(r, json_string_value(column)))
			PAGE(html, "column", { "name", json_string_value(column) });
	PAGE_PLAIN(html, "rows-begin");
	json_array_foreach(a->rows, k, row) {
		PAGE_PLAIN(html, "row");
		json_array_foreach(a->columns, i, column)
			if (is_shown(r, json_string_value(column)))
				reports_cell(q, html, json_string_value(column), json_object_get(row, json_string_value(column)));
		PAGE_PLAIN(html, "row-end");
	}
	PAGE_PLAIN(html, "rows-end");
	if (json_array_size(a->rows) == 0 && json_object_get(a->end, "searched"))
		PAGE(html, "none", { "text", "There are none so far." });
	else if (json_array_size(a->rows) == 0)
		PAGE(html, "none", { "text", json_is_true(json_object_get(a->header, "must_be_empty")) ?
				     "There are none, as it must be." : "There are none." });
	else if (json_is_true(json_object_get(a->header, "must_be_empty")))
		PAGE(html, "none", { "text", "This list must be empty, and is not." });
}

static void put_next(const struct request *q, struct str *html, const json_t *end)
{
	const char *next = json_string_value(json_object_get(end, "next"));
	const char *searched = json_string_value(json_object_get(end, "searched"));
	char rows[16];

	if (searched)
		PAGE(html, "searched", { "time", searched });
	if (next)
		PAGE(html, "next", { "since", request_param(q, "since") }, { "until", request_param(q, "until") },
		     { "tool", request_param(q, "tool") }, { "principal", request_param(q, "principal") },
		     { "key", request_param(q, "key") }, { "outcome", request_param(q, "outcome") }, { "n", rows_of(q, rows) },
		     { "after", next }, { "what", searched ? "Go on" : "Older ones" });
	else if (end)
		PAGE(html, "none", { "text", "There are more; a shorter time, or more rows, show them." });
}

/* Beside the rows: where all of them can be had, and for reviews the form that signs one. */
static void put_more(const struct request *q, const struct report *r, struct str *html)
{
	const struct page_value export[] = {
		{ "tenant", q->tenant }, { "report", r->name }, { "since", request_param(q, "since") },
		{ "until", request_param(q, "until") }, { "tool", request_param(q, "tool") }, { "key", request_param(q,
			"key") },
		{ "principal", request_param(q, "principal") }, { "outcome", request_param(q, "outcome") },
	};
	char csrf[CSRF_SIZE];

	page_put(html, *q->tenant ? "export-of" : "export", export, NELEMS(export));
	if (strcmp(r->name, "calls") == 0)
		PAGE(html, "tail-link", { "tenant", q->tenant }, { "tool", request_param(q, "tool") });
	if (strcmp(r->name, "reviews") != 0)
		return;
	if (*q->tenant)
		PAGE(html, "pack-form-of", { "tenant", q->tenant });
	else
		PAGE_PLAIN(html, "pack-form");
	request_csrf(q, *q->tenant ? "/t/:tenant/review/sign" : "/review/sign", csrf);
	if (*q->tenant)
		PAGE(html, "sign-of", { "tenant", q->tenant }, { "csrf", csrf });
	else
		PAGE(html, "sign", { "csrf", csrf });
}

/* "24h" stays so in a link that is handed on; the same page with the times of this look, for who wants that (CONSOLE
 * 8). */
static void put_fixed(const struct request *q, struct str *html, const json_t *header)
{
	const char *since = json_string_value(json_object_get(header, "since"));
	const char *at = json_string_value(json_object_get(header, "at"));
	const char *until = json_string_value(json_object_get(header, "until"));
	char rows[16];

	if (!since || !until || !at || !*request_param(q, "since") || strcmp(since, request_param(q, "since")) == 0)
		return;
	PAGE(html, "next", { "since", since }, { "until", *request_param(q, "until") ? until : at },
	     { "tool", request_param(q, "tool") }, { "principal", request_param(q, "principal") },
	     { "key", request_param(q, "key") }, { "outcome", request_param(q, "outcome") }, { "n", rows_of(q, rows) },
	     { "after", "" }, { "what", "These times, for a link that stays so" });
}

static void show_report(struct request *q, struct answer *a)
{
	const struct report *r = report_of(q);
	struct str html = STR_INIT;
	char *title, *command, rows[16];
	struct asking asked[2];

	if (view_failed(q, a))
		return;
	title = *q->tenant ? mem_printf("%s of %s", r->title, q->tenant) : mem_strdup(r->title);
	command = mem_printf("audit %s", r->name);
	asked[0] = (struct asking){ command, args_of(q, r, rows_of(q, rows), false) };
	asked[1] = q->nparts > 1 ? (struct asking){ q->part[1].command, q->part[1].args } : (struct asking){ NULL,
		NULL };
	view_begin(q, &html, title);
	if (q->nparts > 1)
		chart_calls(q, &html, &a[1]);
	put_filter(q, r, &html);
	put_rows(q, r, &html, a);
	put_next(q, &html, a->end);
	put_fixed(q, &html, a->header);
	put_more(q, r, &html);
	view_facts(&html, a->header);
	view_commands(&html, asked, q->nparts);
	json_decref(asked[0].args);
	free(title);
	free(command);
	request_page(q, 200, &html);
}

/* Counts of the same time; they know no other filter than the tool. */
static json_t *args_of_chart(const struct request *q)
{
	json_t *args = json_object();

	(void)json_object_set_new(args, "tenant", json_string(q->tenant));
	for (size_t i = 0; i < 3; i++)  /* since, until, tool */
		if (*request_param(q, fields[i].param))
			(void)json_object_set_new(args, fields[i].param, json_string(request_param(q, fields[i].param)));
	return args;
}

static void run_report(struct request *q)
{
	const struct report *r = report_of(q);
	struct asking asked[2] = { { NULL, NULL }, { NULL, NULL } };
	char rows[16];

	if (!r) {
		request_missing(q);
		return;
	}
	for (size_t i = 0; i < NFIELDS; i++) {
		if (has_field(r, &fields[i]) || !*request_param(q, fields[i].param))
			continue;
		request_error(q, 400, "Bad request", "This report has no such filter:", fields[i].label);
		return;
	}
	if (!*rows_of(q, rows)) {
		request_error(q, 400, "Bad request", "n: a page has 1 to 200 rows", NULL);
		return;
	}
	(void)snprintf(q->command, sizeof(q->command), "audit %s", r->name);
	asked[0] = (struct asking){ q->command, args_of(q, r, rows, true) };
	if (strcmp(r->name, "calls") == 0)
		asked[1] = (struct asking){ "audit stats", args_of_chart(q) };
	request_ask_all(q, asked, asked[1].command ? 2 : 1, show_report);
}

/* --- GET /t/T/call/ID: the records of one call */

#define REVEAL "/t/:tenant/call/:call/reveal"

static json_t *args_of_call(const struct request *q)
{
	json_t *args = json_object();

	(void)json_object_set_new(args, "call", json_string(q->call));
	(void)json_object_set_new(args, "tenant", json_string(q->tenant));
	return args;
}

static void put_record(struct str *html, const json_t *row)
{
	char *kind = view_member(row, "kind"), *index = view_member(row, "index");
	const char *name;
	json_t *value;

	PAGE(html, "record", { "kind", kind }, { "index", index });
	json_object_foreach((json_t *)(uintptr_t)row, name, value)
		if (strcmp(name, "kind") != 0 && strcmp(name, "index") != 0)
			view_fact(html, name, value, CON_LONG_MAX);
	PAGE_PLAIN(html, "record-end");
	free(kind);
	free(index);
}

static void show_call(struct request *q, struct answer *a)
{
	struct str html = STR_INIT;
	char *title, csrf[CSRF_SIZE];
	json_t *args, *row;
	size_t i;

	if (view_failed(q, a))
		return;
	title = mem_printf("Call %s", q->call);
	args = args_of_call(q);
	view_begin(q, &html, title);
	chart_call(&html, a->rows);
	json_array_foreach(a->rows, i, row)
		put_record(&html, row);
	request_csrf(q, REVEAL, csrf);
	PAGE(&html, "reveal", { "tenant", q->tenant }, { "call", q->call }, { "csrf", csrf });
	view_commands(&html, &(struct asking){ "audit show", args }, 1);
	json_decref(args);
	free(title);
	request_page(q, 200, &html);
}

static void run_call(struct request *q)
{
	request_ask(q, "audit show", args_of_call(q), show_call);
}

/* --- POST /t/T/call/ID/reveal: what it said, for a reason that stands on record */

static json_t *args_of_reveal(const struct request *q)
{
	json_t *args = args_of_call(q);

	(void)json_object_set_new(args, "reason", json_string(request_param(q, "reason")));
	return args;
}

static void show_said(struct request *q, struct answer *a)
{
	struct str html = STR_INIT;
	char *title;
	json_t *args, *row;
	size_t i;

	if (a->code == ERR_DENIED && strcmp(a->where, "visit") != 0) {
		request_error(q, 403, "Not shown", a->message, a->hint);        /* it says nothing of the tenant */
		return;
	}
	if (view_failed(q, a))
		return;
	title = mem_printf("What call %s said", q->call);
	args = args_of_reveal(q);
	view_begin(q, &html, title);
	json_array_foreach(a->rows, i, row)
		put_record(&html, row);
	if (json_array_size(a->rows) == 0)
		PAGE(&html, "none", { "text", "Nothing of it was kept." });
	PAGE(&html, "back", { "tenant", q->tenant }, { "call", q->call });
	view_commands(&html, &(struct asking){ "audit payload", args }, 1);
	json_decref(args);
	free(title);
	request_page(q, 200, &html);
}

static void run_reveal(struct request *q)
{
	if (!*request_param(q, "reason"))
		request_error(q, 400, "Bad request", "reason: say why, for whoever reads the record of this", NULL);
	else
		request_ask(q, "audit payload", args_of_reveal(q), show_said);
}

void reports_put(const struct request *q, const char *name, struct str *html, const struct answer *a)
{
	put_rows(q, find_report(name, *q->tenant ? OF_TENANT : OF_ALL), html, a);
}

enum report_form reports_find(const char *name, bool of_tenant)
{
	const struct report *r = find_report(name, of_tenant ? OF_TENANT : OF_ALL);

	return !r ? REPORT_NONE : (r->what & WHOLE) ? REPORT_WHOLE : REPORT_PAGES;
}

void reports_each(bool of_tenant, void (*fn)(void *arg, const char *name, const char *title), void *arg)
{
	for (size_t i = 0; i < NELEMS(reports); i++)
		if (reports[i].what & (of_tenant ? OF_TENANT : OF_ALL))
			fn(arg, reports[i].name, reports[i].title);
}

static void put_proof(struct request *q, struct answer *a)
{
	char *proof;

	if (view_failed(q, a))
		return;
	proof = mem_strdup0(json_string_value(json_object_get(json_array_get(a->rows, 0), "proof")));
	request_reply(q, 200, "text/plain; charset=utf-8", NULL, proof ? proof : "");
	free(proof);
}

static void run_proof(struct request *q)
{
	request_ask(q, "audit proof", args_of_call(q), put_proof);
}

const struct route report_routes[] = {
	{ "GET", "/t/:tenant/r/:report", FILTERS, ROUTE_SEEN, "audit stats, " ROUTE_REPORTS, run_report, NULL, NULL },
	{ "GET", "/r/:report", FILTERS, ROUTE_SEEN, ROUTE_REPORTS, run_report, NULL, NULL },
	{ "GET", "/t/:tenant/call/:call", NULL, ROUTE_SEEN, "audit show", run_call, NULL, NULL },
	{ "GET", "/t/:tenant/call/:call/proof", NULL, ROUTE_SEEN, "audit proof", run_proof, NULL, NULL },
	{ "POST", REVEAL, " c reason ", ROUTE_FORM, "audit payload", run_reveal, NULL, NULL },
	{ NULL, NULL, NULL, ROUTE_SEEN, NULL, NULL, NULL, NULL },
};
