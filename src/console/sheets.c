/* Pages of tables: each is a struct sheet, whose blocks are commands and the columns that are
 * shown of their answers; and forms that do something, each a struct act with the one command that it gives.  What may
 * be seen or done is the server's to say: a block that is refused says so in its place (CONSOLE C-406, 7, 8). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"

#include "console_int.h"

enum column_link { PLAIN, TO_TOOL, TO_TOOL_OF, TO_VERSION, TO_VERSION_OF, TO_CALLERS, TO_CALLERS_OF, TO_APPROVAL,
	TO_PRINCIPAL, TO_KEY };
struct column { const char *member, *title; enum column_link link; };  /* ended by member NULL */
/* Those that the answer names, of reports. */
static const struct column any_columns[] = { { NULL, NULL, PLAIN } };

/* What a command is asked with: words "tenant", of the address; "tool=?name", a parameter, when there is one; "id=:id",
 * a segment of the address; "limit=50"; "history!", a flag. */
struct block {
	const char *command, *args, *title;     /* title NULL: it is the page's, or the block is not shown */
	const struct column *columns;           /* NULL: put() shows it */
	const char *none;                       /* what an empty list says */
	void (*put)(const struct request *q, struct str *html, const struct answer *a);
	void (*actions)(const struct request *q, struct str *html,
		const json_t *row);  /* cells behind those of a row */
	bool item;                              /* one row, as a list of facts */
};
struct sheet_field { const char *param, *label; };              /* ended by param NULL */
struct sheet {
	const char *title;                      /* what it is of stands behind it: the tenant, the parameter, or both */
	const char *need;                       /* a parameter that must be given, or NULL */
	struct block block[CON_COMMANDS];       /* the first one decides whether there is a page of this tenant */
	void (*foot)(const struct request *q, struct str *html, const struct answer *a);
	const struct sheet_field *fields;       /* a form above the rows, or NULL */
};

/* --- arguments */

static const char *value_of(const struct request *q, const char *from)
{
	return *from == '?' ? request_param(q, from + 1) : strcmp(from, ":id") == 0 ? q->id : from;
}

static json_t *args_of(const struct request *q, const char *spec)
{
	json_t *args = json_object();
	char word[64], *is;
	bool flag;

	while (spec && *(spec += strspn(spec, " "))) {
		const size_t n = strcspn(spec, " ");

		(void)snprintf(word, sizeof(word), "%.*s", (int)n, spec);
		spec += n;
		is = strpbrk(word, "=!");
		flag = is && *is == '!';
		if (is)
			*is = '\0';
		if (flag) {
			(void)json_object_set_new(args, word, json_true());
		} else if (!is && *q->tenant) {
			(void)json_object_set_new(args, word, json_string(q->tenant));
		} else if (is && *value_of(q, is + 1)) {
			(void)json_object_set_new(args, word, json_string(value_of(q, is + 1)));
		}
	}
	return args;
}

/* --- rows */

static void put_cell(const struct request *q, struct str *html, const struct column *column, const json_t *row)
{
	char *text = view_member(row, column->member), *name = view_text(json_object_get(row, "name"), CON_VALUE_MAX);
	const char *slash = strchr(text, '/');

	if (!*text || column->link == PLAIN)
		view_cell(html, text);
	else if (column->link == TO_TOOL)
		PAGE(html, "cell-tool", { "name", text });
	else if (column->link == TO_TOOL_OF)
		PAGE(html, "cell-tool-of", { "tenant", q->tenant }, { "name", text });
	else if (column->link == TO_VERSION)
		PAGE(html, "cell-version", { "name", *name ? name : request_param(q, "name") }, { "version", text });
	else if (column->link == TO_VERSION_OF)
		PAGE(html, "cell-version-of", { "tenant", q->tenant }, { "name", request_param(q, "name") },
			{ "version", text });
	else if (column->link == TO_CALLERS)
		PAGE(html, "cell-callers", { "name", text });
	else if (column->link == TO_CALLERS_OF)
		PAGE(html, "cell-callers-of", { "tenant", q->tenant }, { "name", text });
	else if (column->link == TO_APPROVAL)
		PAGE(html, "cell-approval", { "id", text });
	else if (column->link == TO_PRINCIPAL)
		PAGE(html, "cell-principal", { "tenant", q->tenant }, { "name", slash ? slash + 1 : text }, { "value",
			text });
	else
		PAGE(html, "cell-key", { "tenant", q->tenant }, { "key", text });
	free(text);
	free(name);
}

static bool is_any(const struct block *b)
{
	return b->columns == any_columns;
}

static void put_heads(struct str *html, const struct block *b, const struct answer *a)
{
	const json_t *name;
	size_t i;

	for (const struct column *c = b->columns; c->member; c++)
		PAGE(html, "column", { "name", c->title });
	json_array_foreach(is_any(b) ? a->columns : NULL, i, name)
		PAGE(html, "column", { "name", json_string_value(name) });
	if (b->actions)
		PAGE(html, "column", { "name", "Decide" });
}

static void put_cells(const struct request *q, struct str *html, const struct block *b, const struct answer *a,
		      const json_t *row)
{
	const json_t *name;
	size_t i;

	for (const struct column *c = b->columns; c->member; c++)
		put_cell(q, html, c, row);
	json_array_foreach(is_any(b) ? a->columns : NULL, i, name)
		reports_cell(q, html, json_string_value(name), json_object_get(row, json_string_value(name)));
	if (b->actions)
		b->actions(q, html, row);
}

/* What there is to say of the rows: reports that have to be empty, and those that have more, say so themselves. */
static void put_remark(struct str *html, const struct block *b, const struct answer *a)
{
	const bool none = json_array_size(a->rows) == 0;

	if (json_is_true(json_object_get(a->header, "must_be_empty")))
		PAGE(html, "none", { "text", none ? "There are none, as it must be." : "This list must be empty, and is not." });
	else if (none)
		PAGE(html, "none", { "text", b->none });
	else if (a->end)
		PAGE(html, "none", { "text", "These are not all: the command shows them, with --limit 0." });
}

static void put_table(const struct request *q, struct str *html, const struct block *b, const struct answer *a)
{
	const json_t *row;
	size_t i;

	if (json_array_size(a->rows) > 0) {
		PAGE_PLAIN(html, "rows");
		put_heads(html, b, a);
		PAGE_PLAIN(html, "rows-begin");
		json_array_foreach(a->rows, i, row) {
			PAGE_PLAIN(html, "row");
			put_cells(q, html, b, a, row);
			PAGE_PLAIN(html, "row-end");
		}
		PAGE_PLAIN(html, "rows-end");
	}
	put_remark(html, b, a);
	if (a->header)
		view_facts(html, a->header);
}

static void put_item(struct str *html, const struct block *b, const struct answer *a)
{
	const json_t *row = json_array_get(a->rows, 0);

	PAGE_PLAIN(html, "item");
	for (const struct column *c = b->columns; c->member; c++)
		view_fact(html, c->title, json_object_get(row, c->member), CON_LONG_MAX);
	PAGE_PLAIN(html, "item-end");
}

static void put_block(const struct request *q, struct str *html, const struct block *b, const struct answer *a)
{
	if (b->title)
		PAGE(html, "section", { "title", b->title });
	if (a->code != ERR_OK) {
		PAGE(html, "none", { "text", a->message });
		if (*a->hint)
			PAGE(html, "hint", { "text", a->hint });
	} else if (b->put) {
		b->put(q, html, a);
	} else if (b->item) {
		put_item(html, b, a);
	} else {
		put_table(q, html, b, a);
	}
	if (b->title)
		PAGE_PLAIN(html, "section-end");
}

static size_t blocks_of(const struct sheet *s)
{
	size_t n = 0;

	while (n < CON_COMMANDS && s->block[n].command)
		n++;
	return n;
}

static bool is_shown(const struct block *b)
{
	return b->columns || b->put;
}

/* Nothing can be shown, or what the page is about cannot: of a tenant, of one thing. */
static bool is_refused(const struct request *q, const struct sheet *s, const struct answer *a, size_t n)
{
	size_t failed = 0, shown = 0;

	for (size_t i = 0; i < n; i++) {
		shown += is_shown(&s->block[i]);
		failed += is_shown(&s->block[i]) && a[i].code != ERR_OK;
	}
	if (failed == shown || a[0].code == ERR_NOT_FOUND)
		return true;
	return a[0].code == ERR_DENIED && (*q->tenant || s->block[0].item || strcmp(a[0].where, "visit") == 0);
}

static void put_filter(const struct request *q, const struct sheet *s, struct str *html)
{
	if (!s->fields)
		return;
	PAGE_PLAIN(html, "filter");
	for (const struct sheet_field *f = s->fields; f->param; f++)
		PAGE(html, "field", { "label", f->label }, { "name", f->param }, { "value", request_param(q, f->param) });
	PAGE_PLAIN(html, "filter-end");
}

static void sheet_show(struct request *q, struct answer *a)
{
	const struct sheet *s = q->route->sheet;
	const size_t n = blocks_of(s);
	struct asking asked[CON_COMMANDS];
	struct str html = STR_INIT;
	size_t shown = 0;
	char *title;

	if (is_refused(q, s, a, n)) {
		(void)view_failed(q, &a[0]);
		return;
	}
	title = *q->tenant && s->need ? mem_printf("%s%s of %s", s->title, request_param(q, s->need), q->tenant) :
		mem_printf("%s%s", s->title, *q->tenant ? q->tenant : s->need ? request_param(q, s->need) : q->id);
	view_begin(q, &html, title);
	free(title);
	put_filter(q, s, &html);
	for (size_t i = 0; i < n; i++) {
		if (!is_shown(&s->block[i]))
			continue;
		put_block(q, &html, &s->block[i], &a[i]);
		asked[shown++] = (struct asking){ s->block[i].command, q->part[i].args };
	}
	if (s->foot)
		s->foot(q, &html, a);
	view_commands(&html, asked, shown);
	request_page(q, 200, &html);
}

static void sheet_run(struct request *q)
{
	const struct sheet *s = q->route->sheet;
	struct asking asked[CON_COMMANDS];
	const size_t n = blocks_of(s);
	char text[64];

	if (s->need && !*request_param(q, s->need)) {
		(void)snprintf(text, sizeof(text), "%.20s: it is missing", s->need);
		request_error(q, 400, "Bad request", text, NULL);
		return;
	}
	for (size_t i = 0; i < n; i++)
		asked[i] = (struct asking){ s->block[i].command, args_of(q, s->block[i].args) };
	request_ask_all(q, asked, n, sheet_show);
}

/* --- forms that do something: a command with what the form says, and what came of it */

struct act {
	const char *command, *args, *title, *back;      /* back: a path of ours,
		without a tenant; "" = the tenant's reviews */
	bool reason;                                    /* none is done without */
};

static void act_done(struct request *q, struct answer *a)
{
	const struct act *d = q->route->act;
	const struct asking asked = { d->command, q->part[0].args };
	struct str html = STR_INIT;
	const json_t *row;
	size_t i;

	if (a->code == ERR_DENIED && strcmp(a->where, "visit") != 0 && !*q->tenant) {
		request_error(q, 403, "Not done", a->message, a->hint);
		return;
	}
	if (view_failed(q, a))
		return;
	view_begin(q, &html, d->title);
	json_array_foreach(a->rows, i, row) {
		const char *name;
		json_t *value;

		PAGE_PLAIN(&html, "item");
		json_object_foreach((json_t *)(uintptr_t)row, name, value)
			view_fact(&html, name, value, CON_LONG_MAX);
		PAGE_PLAIN(&html, "item-end");
	}
	PAGE(&html, "done", { "back", d->back });
	view_commands(&html, &asked, 1);
	request_page(q, 200, &html);
}

static void act_run(struct request *q)
{
	const struct act *d = q->route->act;

	if (d->reason && !*request_param(q, "reason"))
		request_error(q, 400, "Bad request", "reason: say why, for whoever reads the record of this",
			      "go back, and repeat it");
	else
		request_ask(q, d->command, args_of(q, d->args), act_done);
}

/* --- what is in rows of approvals */

static const json_t *can_row(const struct request *q)
{
	return json_array_get(q->answer[q->nparts - 1].rows, 0);
}

static bool may(const struct request *q, const char *command)
{
	return view_may(&q->answer[q->nparts - 1], "", command);
}

/* Nobody decides what he asked for himself (C-309): there is no button, and the server refuses it as well. */
static bool is_mine(const struct request *q, const json_t *row, const char *member)
{
	const char *by = json_string_value(json_object_get(row, member)),
		*me = json_string_value(json_object_get(can_row(q), "who"));

	return by && me && strcmp(by, me) == 0;
}

static void put_why_not(struct str *html, bool mine)
{
	PAGE(html, "cell", { "value", mine ? "yours: somebody else decides" : "" });
}

static void decide_request(const struct request *q, struct str *html, const json_t *row)
{
	const bool mine = is_mine(q, row, "asked_by"), waits = json_is_null(json_object_get(row, "granted_by"));
	char *id = view_member(row, "id"), csrf[CSRF_SIZE];

	if (!may(q, "approval grant")) {
		put_why_not(html, mine);
		free(id);
		return;
	}
	PAGE_PLAIN(html, "decide");
	if (!mine && waits) {
		request_csrf(q, "/approval/grant", csrf);
		PAGE(html, "decide-grant", { "csrf", csrf }, { "id", id });
	}
	request_csrf(q, "/approval/deny", csrf);
	PAGE(html, "decide-deny", { "csrf", csrf }, { "id", id });
	PAGE_PLAIN(html, "decide-end");
	free(id);
}

static void decide_version(const struct request *q, struct str *html, const json_t *row)
{
	const bool mine = is_mine(q, row, "actor");
	char *name = view_member(row, "name"), *version = view_member(row, "version"), csrf[CSRF_SIZE];

	PAGE(html, "decide-diff", { "name", name });
	if (may(q, "tool approve") && !mine) {
		request_csrf(q, "/tool/approve", csrf);
		PAGE(html, "decide-approve", { "csrf", csrf }, { "name", name }, { "version", version });
	}
	if (may(q, "tool reject")) {
		request_csrf(q, "/tool/reject", csrf);
		PAGE(html, "decide-reject", { "csrf", csrf }, { "name", name }, { "version", version });
	}
	PAGE_PLAIN(html, "decide-end");
	free(name);
	free(version);
}

static void decide_alert(const struct request *q, struct str *html, const json_t *row)
{
	const char *state = json_string_value(json_object_get(row, "state"));
	char *id = view_member(row, "id"), csrf[CSRF_SIZE];

	if (may(q, "alerts ack") && state && strcmp(state, "open") == 0) {
		request_csrf(q, "/alerts/ack", csrf);
		PAGE_PLAIN(html, "decide");
		PAGE(html, "decide-ack", { "csrf", csrf }, { "id", id });
		PAGE_PLAIN(html, "decide-end");
	} else {
		PAGE(html, "cell", { "value", "" });
	}
	free(id);
}

/* Below a call that waits. */
static void decide_call(const struct request *q, struct str *html, const struct answer *a)
{
	const char *state = json_string_value(json_object_get(json_array_get(a->rows, 0), "state"));
	char csrf[CSRF_SIZE];

	if (!state)
		return;
	PAGE_PLAIN(html, "rule");
	if (strcmp(state, "waits") == 0 && may(q, "approve grant")) {
		request_csrf(q, "/approvals/grant", csrf);
		PAGE(html, "rule-grant", { "csrf", csrf }, { "id", q->id });
		request_csrf(q, "/approvals/refuse", csrf);
		PAGE(html, "rule-refuse", { "csrf", csrf }, { "id", q->id });
	}
	if (strcmp(state, "granted") == 0 && may(q, "approve recall")) {
		request_csrf(q, "/approvals/recall", csrf);
		PAGE(html, "rule-recall", { "csrf", csrf }, { "id", q->id });
	}
	PAGE_PLAIN(html, "rule-end");
}

struct links { const struct request *q; struct str *html; };

static void put_link(void *arg, const char *name, const char *title)
{
	const struct links *l = arg;

	if (*l->q->tenant)
		PAGE(l->html, "tenant-report", { "tenant", l->q->tenant }, { "page", name }, { "title", title });
	else
		PAGE(l->html, "system-report", { "page", name }, { "title", title });
}

/* Every report of this tenant, or of the whole store. */
static void put_reports(const struct request *q, struct str *html, const struct answer *a)
{
	(void)a;
	PAGE(html, "section", { "title", "Reports" });
	PAGE_PLAIN(html, "links");
	reports_each(*q->tenant, put_link, &(struct links){ q, html });
	PAGE_PLAIN(html, "links-end");
	PAGE_PLAIN(html, "section-end");
}

static void put_verify(const struct request *q, struct str *html, const struct answer *a)
{
	char csrf[CSRF_SIZE];

	request_csrf(q, "/evidence/verify", csrf);
	PAGE(html, "verify", { "csrf", csrf });
	put_reports(q, html, a);
}

/* The text of content blocks. */
static void put_content(const struct request *q, struct str *html, const struct answer *a)
{
	const json_t *content = json_object_get(json_array_get(a->rows, 0), "content"), *part;
	size_t i;

	(void)q;
	json_array_foreach(content, i, part)
		PAGE(html, "pre", { "text", json_string_value(json_object_get(part, "text"))
			? json_string_value(json_object_get(part, "text")) : "" });
}

/* --- the pages */

static const struct column tool_columns[] = {
	{ "name", "Tool", TO_TOOL }, { "version", "Version", PLAIN }, { "state", "State", PLAIN }, { "created",
		"Created", PLAIN },
	{ "changed", "Changed", PLAIN }, { "digest", "Digest", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column drift_columns[] = {
	{ "name", "Name", PLAIN }, { "state", "State", PLAIN }, { "what", "What", PLAIN }, { "note", "Note", PLAIN },
	{ NULL, NULL, PLAIN } };
static const struct column pending_columns[] = {
	{ "name", "Name", PLAIN }, { "version", "Version", PLAIN }, { "in_force", "In force", PLAIN }, { "actor",
		"Made by", PLAIN },
	{ "since", "Since", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column shown_columns[] = {
	{ "version", "Version", PLAIN }, { "state", "State", PLAIN }, { "grants", "Grants", PLAIN }, { "actor",
		"Made by", PLAIN },
	{ "created", "Created", PLAIN }, { "digest", "Digest", PLAIN }, { "definition", "Definition", PLAIN },
	{ NULL, NULL, PLAIN } };
static const struct column history_columns[] = {
	{ "version", "Version: what it changed", TO_VERSION }, { "in_force", "In force", PLAIN }, { "actor",
		"Made by", PLAIN },
	{ "created", "Created", PLAIN }, { "kept_by", "Tenants that keep it", PLAIN },
	{ "digest", "Digest: who called it", TO_CALLERS },
	{ NULL, NULL, PLAIN } };
static const struct column history_of_columns[] = {
	{ "version", "Version: what it changed", TO_VERSION_OF }, { "in_force", "In force", PLAIN }, { "actor",
		"Made by", PLAIN },
	{ "created", "Created", PLAIN }, { "digest", "Digest: who called it", TO_CALLERS_OF },
	{ NULL, NULL, PLAIN } };
static const struct column grant_columns[] = {
	{ "tool", "Tool", TO_TOOL_OF }, { "alias", "Alias", PLAIN }, { "version", "Version", PLAIN }, { "rate",
		"Rate", PLAIN },
	{ "concurrency", "At once", PLAIN }, { "approve", "Approvers", PLAIN }, { "created", "Granted", PLAIN },
	{ NULL, NULL, PLAIN } };
static const struct column principal_columns[] = {
	{ "principal", "Principal", TO_PRINCIPAL }, { "state", "State", PLAIN }, { "system", "AI system", PLAIN },
	{ "pseudonym", "Pseudonym", PLAIN }, { "created", "Created", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column key_columns[] = {
	{ "accessor", "Key", TO_KEY }, { "principal", "Principal", PLAIN }, { "state", "State", PLAIN },
	{ "label", "Label (not evidence)", PLAIN }, { "scopes", "Scopes", PLAIN }, { "cidr", "Networks", PLAIN },
	{ "created", "Created", PLAIN }, { "expires", "Expires", PLAIN }, { "last_used", "Last used", PLAIN },
	{ NULL, NULL, PLAIN } };
static const struct column request_columns[] = {
	{ "id", "Request", PLAIN }, { "state", "State", PLAIN }, { "asked_by", "Asked by", PLAIN }, { "asked",
		"Asked", PLAIN },
	{ "granted_by", "Granted by", PLAIN }, { "until", "Until", PLAIN }, { "command", "Command", PLAIN }, { NULL,
		NULL, PLAIN } };
static const struct column waiting_columns[] = {
	{ "id", "Approval", TO_APPROVAL }, { "state", "State", PLAIN }, { "tenant", "Tenant", PLAIN }, { "tool",
		"Tool", PLAIN },
	{ "by", "By", PLAIN }, { "asked", "Asked", PLAIN }, { "until", "Until", PLAIN }, { "needs", "Needs", PLAIN },
	{ "what", "What", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column approval_columns[] = {
	{ "state", "State", PLAIN }, { "tenant", "Tenant", PLAIN }, { "tool", "Tool", PLAIN }, { "by", "By", PLAIN },
	{ "key", "Key", PLAIN }, { "asked", "Asked", PLAIN }, { "until", "Until", PLAIN }, { "needs", "Needs", PLAIN },
	{ "arguments", "Arguments", PLAIN }, { "rule", "Rule", PLAIN }, { "digest",
		"Digest of what is asked for", PLAIN },
	{ "definition", "Definition", PLAIN }, { "version", "Its version", PLAIN }, { "defined", "Defined", PLAIN },
	{ "defined_by", "Defined by", PLAIN }, { "hints", "Hints", PLAIN }, { "agreed", "Agreed", PLAIN }, { "said",
		"Said", PLAIN },
	{ "call", "Call", PLAIN }, { "used", "Used by call", PLAIN }, { "before", "Before", PLAIN }, { "yours",
		"Yours", PLAIN },
	{ NULL, NULL, PLAIN } };
static const struct column tenant_columns[] = {
	{ "title", "Title", PLAIN }, { "state", "State", PLAIN }, { "created", "Created", PLAIN }, { "principals",
		"Principals", PLAIN },
	{ "keys", "Keys", PLAIN }, { "grants", "Grants", PLAIN }, { "budget_calls", "Calls", PLAIN }, { "budget_queue",
		"Queue", PLAIN },
	{ "budget_connections", "Connections", PLAIN }, { "budget_audit", "Audit", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column limit_columns[] = {
	{ "of", "Of", PLAIN }, { "limit", "Limit", PLAIN }, { "value", "Value", PLAIN }, { "from", "From", PLAIN },
		{ "now", "Now", PLAIN },
	{ NULL, NULL, PLAIN } };
static const struct column hold_columns[] = {
	{ "id", "Hold", PLAIN }, { "ticket", "Ticket", PLAIN }, { "note", "Note", PLAIN }, { "by", "By", PLAIN },
		{ "since", "Since", PLAIN },
	{ "what", "What", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column retention_columns[] = {
	{ "min_days", "Least days", PLAIN }, { "max_days", "Most days", PLAIN }, { "records", "Records", PLAIN },
	{ "since", "Since", PLAIN }, { "pruned", "Pruned", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column status_columns[] = {
	{ "version", "Version", PLAIN }, { "state", "State", PLAIN }, { "refused", "Refused", PLAIN }, { "started",
		"Started", PLAIN },
	{ "audit", "Audit", PLAIN }, { "alerts", "Alerts", PLAIN }, { "files", "Files", PLAIN }, { "verified",
		"Verified", PLAIN },
	{ "folding", "Folding", PLAIN }, { "sandbox", "Sandbox", PLAIN }, { "confined", "Server confined", PLAIN },
	{ "clock", "Clock", PLAIN }, { "backup", "Backup", PLAIN }, { "sinks", "Sinks", PLAIN }, { "policy",
		"Policy", PLAIN },
	{ "configuration_digest", "Configuration", PLAIN }, { "restart", "Needs a restart", PLAIN }, { "tenants",
		"Tenants", PLAIN },
	{ "tools", "Tools", PLAIN }, { "keys", "Keys", PLAIN }, { "records", "Records", PLAIN }, { "running",
		"Running calls", PLAIN },
	{ "peers", "Connected", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column capacity_columns[] = {
	{ "log", "Log", PLAIN }, { "tenant", "Tenant", PLAIN }, { "records", "Records", PLAIN }, { "last_day",
		"Last day", PLAIN },
	{ "last_week", "Last week", PLAIN }, { "percent", "Of all, in percent", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column alert_columns[] = {
	{ "id", "Alert", PLAIN }, { "severity", "Severity", PLAIN }, { "rule", "Rule", PLAIN }, { "subject",
		"Subject", PLAIN },
	{ "state", "State", PLAIN }, { "count", "Count", PLAIN }, { "first", "First", PLAIN }, { "last",
		"Last", PLAIN },
	{ "text", "Text", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column anchor_columns[] = {
	{ "time", "Time", PLAIN }, { "what", "What", PLAIN }, { "covers", "Covers", PLAIN }, { "behind",
		"Behind", PLAIN },
	{ "uncovered_since", "Uncovered since", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column coverage_columns[] = {
	{ "tenant", "Tenant", PLAIN }, { "day", "Day", PLAIN }, { "first", "First record", PLAIN }, { "last",
		"Last record", PLAIN },
	{ "calls", "Calls", PLAIN }, { "denied", "Refused", PLAIN }, { "starts", "Starts", PLAIN }, { "stops",
		"Stops", PLAIN },
	{ "crashes", "Crashes", PLAIN }, { "checkpoints", "Checkpoints", PLAIN }, { NULL, NULL, PLAIN } };

static const struct sheet tools = { "Tools", NULL, {
	{ "tool list", NULL, "In force", tool_columns, "There are none.", NULL, NULL, false },
	{ "tool drift", NULL, "Not as it was approved", drift_columns, "All of them are as they were approved.", NULL,
		NULL, false },
}, NULL, NULL };
static const struct sheet tool = { "Tool ", "name", {
	{ "tool show", "tool=?name", "In force", shown_columns, NULL, NULL, NULL, true },
	{ "tool history", "tool=?name", "Versions", history_columns, "There are none.", NULL, NULL, false },
	{ "tool history", "tool=?name events!", "What was done to it", any_columns, "Nothing is on record.", NULL, NULL,
		false },
}, NULL, NULL };
static const struct sheet tool_of = { "Tool ", "name", {
	{ "tool show", "tool=?name tenant", "In force", shown_columns, NULL, NULL, NULL, true },
	{ "tool history", "tool=?name tenant", "Versions", history_of_columns, "There are none.", NULL, NULL, false },
}, NULL, NULL };
static const struct sheet diff = { "What changes: ", "name", {
	{ "tool diff", "tool=?name from=?from to=?to", NULL, NULL, NULL, words_diff, NULL, false },
}, NULL, NULL };
static const struct sheet diff_of = { "What changes: ", "name", {
	{ "tool diff", "tool=?name from=?from to=?to tenant", NULL, NULL, NULL, words_diff, NULL, false },
}, NULL, NULL };
static const struct sheet access = { "Who may call what: ", NULL, {
	{ "grant who", "tenant tool=?tool", "Principals and tools", NULL, NULL, chart_who, NULL, false },
	{ "grant list", "tenant", "Grants", grant_columns, "Nothing is granted.", NULL, NULL, false },
}, NULL, NULL };
static const struct sheet files = { "Files of ", NULL, {
	{ "audit coverage", "tenant limit=31", "Records of each day", coverage_columns, "There are none.", NULL, NULL, false },
}, stream_files, NULL };
static const struct sheet keys = { "Principals and keys of ", NULL, {
	{ "principal list", "tenant", "Principals", principal_columns, "There are none.", NULL, NULL, false },
	{ "key list", "tenant", "Keys", key_columns, "There are none.", NULL, NULL, false },
}, NULL, NULL };
static const struct sheet tenant = { "Overview of ", NULL, {
	{ "tenant show", "tenant", "The tenant", tenant_columns, NULL, NULL, NULL, true },
	{ "limit show", "who", "Limits in force", limit_columns, "There are none.", NULL, NULL, false },
	{ "hold list", "tenant", "Held back from deletion", hold_columns, "Nothing is held.", NULL, NULL, false },
	{ "retention show", "tenant", "How long records are kept", retention_columns, "There is nothing.", NULL, NULL,
		false },
}, put_reports, NULL };
static const struct sheet approvals = { "Approvals", NULL, {
	{ "approval list", NULL, "Acts that need a second administrator", request_columns, "Nothing waits.", NULL,
		decide_request,
	  false },
	{ "tool pending", NULL, "Versions that wait", pending_columns, "Nothing waits.", NULL, decide_version, false },
	{ "approve list", NULL, "Calls that wait for a person", waiting_columns, "Nothing waits.", NULL, NULL, false },
	{ "console can", NULL, NULL, NULL, NULL, NULL, NULL, false },
}, NULL, NULL };
static const struct sheet approval = { "Approval ", NULL, {
	{ "approve show", "id=:id", "What is asked for", approval_columns, NULL, NULL, NULL, true },
	{ "console can", NULL, NULL, NULL, NULL, NULL, NULL, false },
}, decide_call, NULL };
static const struct sheet server = { "Server", NULL, {
	{ "status", NULL, "Health", status_columns, NULL, NULL, NULL, true },
	{ "audit capacity", NULL, "Capacity", capacity_columns, "There is nothing.", NULL, NULL, false },
	{ "alerts list", NULL, "Alerts", alert_columns, "Nothing asks for a person.", NULL, decide_alert, false },
	{ "console can", NULL, NULL, NULL, NULL, NULL, NULL, false },
}, NULL, NULL };
static const struct sheet evidence = { "Evidence", NULL, {
	{ "audit anchors", "limit=50", "Anchors and epochs of the signing key", anchor_columns, "There are none.",
		NULL, NULL, false },
	{ "audit coverage", "limit=50", "Records of each day", coverage_columns, "There are none.", NULL, NULL, false },
	{ "audit keys", NULL, "Keys to pin", NULL, NULL, put_content, NULL, false },
}, put_verify, NULL };

static const struct act grant_request = { "approval grant", "id=?id reason=?reason", "Granted", "approvals", true };
static const struct act deny_request = { "approval deny", "id=?id reason=?reason", "Denied", "approvals", true };
static const struct act approve_version = { "tool approve", "tool=?name version=?version reason=?reason", "In force",
	"approvals", true };
static const struct act reject_version = { "tool reject", "tool=?name version=?version reason=?reason", "Rejected",
	"approvals", true };
static const struct act grant_call = { "approve grant", "id=?id reason=?reason", "Agreed", "approvals", true };
static const struct act refuse_call = { "approve refuse", "id=?id reason=?reason", "Refused", "approvals", true };
static const struct act recall_call = { "approve recall", "id=?id", "Recalled", "approvals", false };
static const struct act ack_alert = { "alerts ack", "id=?id note=?reason", "Acknowledged", "server", true };
static const struct act sign_review = { "audit review", "action=sign tenant until=?until note=?note", "Review signed",
	"", false };
static const struct act verify_new = { "audit daily", NULL, "What was verified", "evidence", false };

const struct route sheet_routes[] = {
	{ "GET", "/tools", NULL, ROUTE_SEEN, "tool list, tool drift", sheet_run, &tools, NULL },
	{ "GET", "/tool", " name ", ROUTE_SEEN, "tool show, tool history", sheet_run, &tool, NULL },
	{ "GET", "/tool/diff", " name from to ", ROUTE_SEEN, "tool diff", sheet_run, &diff, NULL },
	{ "GET", "/approvals", NULL, ROUTE_SEEN, "approval list, tool pending, approve list, console can", sheet_run,
		&approvals, NULL },
	{ "GET", "/approvals/call/:id", NULL, ROUTE_SEEN, "approve show, console can", sheet_run, &approval, NULL },
	{ "GET", "/server", NULL, ROUTE_SEEN, "status, audit capacity, alerts list, console can", sheet_run, &server,
		NULL },
	{ "GET", "/evidence", NULL, ROUTE_SEEN, "audit anchors, audit coverage, audit keys", sheet_run, &evidence,
		NULL },
	{ "GET", "/t/:tenant", NULL, ROUTE_SEEN, "tenant show, limit show, hold list, retention show", sheet_run,
		&tenant, NULL },
	{ "GET", "/t/:tenant/access", " tool ", ROUTE_SEEN, "grant who, grant list", sheet_run, &access, NULL },
	{ "GET", "/t/:tenant/files", NULL, ROUTE_SEEN, "audit coverage", sheet_run, &files, NULL },
	{ "GET", "/t/:tenant/keys", NULL, ROUTE_SEEN, "principal list, key list", sheet_run, &keys, NULL },
	{ "GET", "/t/:tenant/tool", " name ", ROUTE_SEEN, "tool show, tool history", sheet_run, &tool_of, NULL },
	{ "GET", "/t/:tenant/tool/diff", " name from to ", ROUTE_SEEN, "tool diff", sheet_run, &diff_of, NULL },
	{ "POST", "/approval/grant", " c id reason ", ROUTE_FORM, "approval grant", act_run, NULL, &grant_request },
	{ "POST", "/approval/deny", " c id reason ", ROUTE_FORM, "approval deny", act_run, NULL, &deny_request },
	{ "POST", "/tool/approve", " c name version reason ", ROUTE_FORM, "tool approve", act_run, NULL,
		&approve_version },
	{ "POST", "/tool/reject", " c name version reason ", ROUTE_FORM, "tool reject", act_run, NULL,
		&reject_version },
	{ "POST", "/approvals/grant", " c id reason ", ROUTE_FORM, "approve grant", act_run, NULL, &grant_call },
	{ "POST", "/approvals/refuse", " c id reason ", ROUTE_FORM, "approve refuse", act_run, NULL, &refuse_call },
	{ "POST", "/approvals/recall", " c id ", ROUTE_FORM, "approve recall", act_run, NULL, &recall_call },
	{ "POST", "/alerts/ack", " c id reason ", ROUTE_FORM, "alerts ack", act_run, NULL, &ack_alert },
	{ "POST", "/evidence/verify", " c ", ROUTE_FORM, "audit daily", act_run, NULL, &verify_new },
	{ "POST", "/review/sign", " c until note ", ROUTE_FORM, "audit review", act_run, NULL, &sign_review },
	{ "POST", "/t/:tenant/review/sign", " c until note ", ROUTE_FORM, "audit review", act_run, NULL,
		&sign_review },
	{ NULL, NULL, NULL, ROUTE_SEEN, NULL, NULL, NULL, NULL },
};

#define PAGE_ROWS "limit=50"

/* --- answers that are no report with filters: of one key, of one person, of what is counted, kept, drawn */

static const struct column changed_columns[] = {
	{ "time", "Changed", PLAIN }, { "kind", "What", PLAIN }, { "min_days", "Least days", PLAIN },
	{ "max_days", "Most days", PLAIN },
	{ "from", "From", PLAIN }, { "to", "To", PLAIN }, { "approver", "Approver", PLAIN }, { "detail", "Detail", PLAIN },
	{ NULL, NULL, PLAIN } };
static const struct column kept_columns[] = {
	{ "min_days", "Least days", PLAIN }, { "max_days", "Most days", PLAIN }, { "records", "Records", PLAIN },
	{ "since", "Since", PLAIN }, { "pruned", "Pruned", PLAIN }, { NULL, NULL, PLAIN } };
static const struct column held_columns[] = {
	{ "id", "Hold", PLAIN }, { "state", "State", PLAIN }, { "principal", "Principal", PLAIN }, { "from", "From", PLAIN },
	{ "to", "To", PLAIN }, { "ticket", "Ticket", PLAIN }, { "set", "Set", PLAIN }, { "set_by", "Set by", PLAIN },
	{ "released", "Released", PLAIN }, { "released_by", "Released by", PLAIN }, { "reason", "Reason", PLAIN },
	{ NULL, NULL, PLAIN } };
static const struct column sink_columns[] = {
	{ "name", "Sink", PLAIN }, { "type", "Type", PLAIN }, { "state", "State", PLAIN }, { "behind", "Behind", PLAIN },
	{ "behind_s", "For seconds", PLAIN }, { "sent", "Sent", PLAIN }, { "rejected", "To settle", PLAIN },
	{ "why", "Why", PLAIN },
	{ NULL, NULL, PLAIN } };

static void put_calls_of_key(const struct request *q, struct str *html, const struct answer *a)
{
	(void)a;
	PAGE(html, "calls-of-key", { "tenant", q->tenant }, { "name", request_param(q, "key") });
}

static void put_calls_of_principal(const struct request *q, struct str *html, const struct answer *a)
{
	(void)a;
	PAGE(html, "calls-of-principal", { "tenant", q->tenant }, { "name", request_param(q, "principal") });
}

static void put_by_command(const struct request *q, struct str *html, const struct answer *a)
{
	(void)q;
	(void)a;
	PAGE_PLAIN(html, "by-command");
}

static const struct sheet_field sample_fields[] = {
	{ "kind", "Kind of records, or calls" }, { "number", "How many" }, { "seed", "Seed" }, { NULL, NULL } };

#define REPORT(command_, args_, title_) { command_, args_, title_, any_columns, "There are none.", NULL, NULL, false }
static const struct sheet key = { "Key ", "key", {
	REPORT("audit credential", "key=?key tenant", "Where it was used, and for what"),
	REPORT("audit blast-radius", "key=?key tenant", "What it could reach"),
	REPORT("audit credential", "key=?key timeline! tenant " PAGE_ROWS, "Each record"),
}, put_calls_of_key, NULL };
static const struct sheet principal = { "Principal ", "principal", {
	REPORT("audit subject", "principal=?principal tenant", "What there is, counted"),
	REPORT("audit subject", "principal=?principal export! tenant " PAGE_ROWS, "Each record"),
}, put_calls_of_principal, NULL };
static const struct sheet definition = { "Calls of definition ", "hash", {
	REPORT("audit blast-radius", "tool-hash=?hash tenant", "Who called it"),
}, NULL, NULL };
static const struct sheet key_review = { "Keys to review, of ", NULL, {
	REPORT("key list", "tenant review!", "Who has access"),
	REPORT("key list", "tenant stale=90d", "Not used or rotated for 90 days, or without an end"),
	REPORT("key list", "tenant unused-scopes!", "Grants that a key did not use for 90 days"),
}, NULL, NULL };
static const struct sheet kept = { "What is kept of ", NULL, {
	{ "retention show", "tenant", "How long", kept_columns, "There is nothing.", NULL, NULL, false },
	{ "retention show", "tenant history!", "Changed and pruned", changed_columns, "Nothing was.", NULL, NULL,
	  false },
	{ "hold list", "tenant history!", "Held back from deletion, now and before", held_columns, "Nothing was.",
	  NULL, NULL, false },
}, NULL, NULL };
static const struct sheet sample = { "A sample of ", NULL, {
	REPORT("audit sample", "tenant kind=?kind number=?number seed=?seed", NULL),
}, NULL, sample_fields };
static const struct sheet counts = { "Counts of ", NULL, {
	REPORT("audit calls", "tenant group-by=client,obo", "Calls by client, as it calls itself, and by whose behalf"),
	REPORT("audit calls", "tenant group-by=tool,outcome", "Calls by tool and outcome"),
	REPORT("audit denied", "tenant by=rule", "Refused calls by rule"),
	REPORT("audit auth-failures", "tenant by=rule", "Refused credentials by rule"),
}, NULL, NULL };
static const struct sheet persons = { "What persons decided about calls of ", NULL, {
	REPORT("audit oversight", "tenant " PAGE_ROWS, "Calls that asked a person"),
	REPORT("audit approvals", "tenant by=person", "Decisions by person"),
	REPORT("audit approvals", "tenant " PAGE_ROWS, "Each of them"),
	REPORT("audit tasks", "tenant open! " PAGE_ROWS, "Tasks that have no end on record"),
}, NULL, NULL };
static const struct sheet failures = { "Refused credentials, counted", NULL, {
	REPORT("audit auth-failures", "by=source", "By source"),
	REPORT("audit auth-failures", "by=rule", "By rule"),
	REPORT("audit auth-failures", PAGE_ROWS, "The newest"),
}, NULL, NULL };
static const struct sheet runs = { "Was it ever off?", NULL, {
	REPORT("audit continuity", "commands! " PAGE_ROWS, "Runs of the server, and commands without one"),
	REPORT("audit continuity", "executions! " PAGE_ROWS, "Calls that ran while the audit was failing"),
}, NULL, NULL };
static const struct sheet room = { "Room", NULL, {
	REPORT("audit capacity", NULL, "How large the logs are"),
	REPORT("audit capacity", "events! " PAGE_ROWS, "When room was short, or the audit failed"),
	REPORT("audit segments", PAGE_ROWS, "Sealed files"),
}, NULL, NULL };
static const struct sheet outside = { "Outside, and by commands", NULL, {
	{ "sink list", NULL, "Where copies of records are carried", sink_columns, "Nowhere: no sink is configured.",
	  NULL, NULL, false },
	REPORT("audit access", PAGE_ROWS, "Who read, exported, verified or reviewed the audit"),
}, put_by_command, NULL };

/* --- what reviewers ask: test_console_questions.py walks all 42 (CONSOLE 9) */

#define WAYS 2
/* Below a tenant, or "/PAGE" of the whole store; r/NAME is a report.  command: who may give it, is led there. */
struct way { const char *path, *title, *command; };
static const struct question_row { const char *number, *text; struct way way[WAYS]; } questions[] = {
	{ "01", "Who called which tool, when, from where, with what result?",
	  { { "r/calls", "Calls", "audit calls" } } },
	{ "02", "What did this person or agent do?",
	  { { "keys", "Principals and keys", "key list" }, { "r/calls", "Calls", "audit calls" } } },
	{ "03", "What was done with this key, and from where?",
	  { { "keys", "Principals and keys", "key list" } } },
	{ "04", "What happened in one call, from end to end?",
	  { { "r/calls", "Calls", "audit calls" } } },
	{ "05", "Can I prove to an outsider that a call is in the log?",
	  { { "r/calls", "Calls", "audit calls" } } },
	{ "06", "Was any record changed, removed or added?",
	  { { "/evidence", "Evidence", "audit daily" } } },
	{ "07", "Are the records complete, day by day?",
	  { { "r/coverage", "Coverage", "audit coverage" },
	    { "/r/coverage", "Coverage of the system's log", "audit coverage" } } },
	{ "08", "A sample at random that can be drawn again",
	  { { "sample", "Sample", "audit sample" } } },
	{ "09", "What was refused, and why?",
	  { { "r/denied", "Refused calls", "audit denied" }, { "counts", "Counts", "audit calls" } } },
	{ "10", "Who was not let in, from where?",
	  { { "/failures", "Refused credentials, counted", "audit auth-failures" },
	    { "r/auth-failures", "Those of keys of this tenant", "audit auth-failures" } } },
	{ "11", "What did administrators do?",
	  { { "r/admin", "Administration", "audit admin" }, { "/r/admin", "Of the whole store", "audit admin" } } },
	{ "12", "Who read or exported the audit?",
	  { { "r/access", "Who looked", "audit access" }, { "/r/access", "In the whole store", "audit access" } } },
	{ "13", "Which keys were made, changed, revoked, by whom?",
	  { { "r/credentials", "Keys, what happened to them", "audit credentials" } } },
	{ "14", "Who has access now, since when, until when?",
	  { { "key-review", "Keys to review", "key list" } } },
	{ "15", "Which keys are old, unused, or may more than they use?",
	  { { "key-review", "Keys to review", "key list" } } },
	{ "16", "Were there calls after a revocation?",
	  { { "r/after-revocation", "Calls after a revocation", "audit after-revocation" } } },
	{ "17", "Was logging ever stopped or failing?",
	  { { "/runs", "Runs of the server", "audit continuity" } } },
	{ "18", "Did calls run while the audit was failing?",
	  { { "/runs", "Runs of the server", "audit continuity" } } },
	{ "19", "Are the clocks right?",
	  { { "/r/clock", "Clock", "audit clock" } } },
	{ "20", "What is kept, since when; what was pruned, by whom?",
	  { { "kept", "What is kept", "retention show" } } },
	{ "21", "What is held back from deletion, and was?",
	  { { "kept", "What is kept", "hold list" } } },
	{ "22", "What was erased, why, and who agreed?",
	  { { "r/erasures", "Erasures", "audit erasures" } } },
	{ "23", "What is there about this person?",
	  { { "keys", "Principals and keys", "key list" } } },
	{ "24", "What could a key, or a version of a tool, reach?",
	  { { "keys", "Principals and keys", "key list" }, { "/tools", "Tools and versions", "tool list" } } },
	{ "25", "Which version of a tool was in force when; who changed and approved it?",
	  { { "/tools", "Tools and versions", "tool list" }, { "access", "Tools of this tenant", "grant list" } } },
	{ "26", "Were there calls of a definition that nobody approved?",
	  { { "r/drift", "Calls of unknown definitions", "audit drift" } } },
	{ "27", "Which policy and configuration decided a call?",
	  { { "r/config", "Configuration", "audit config" }, { "r/calls", "Calls", "audit calls" } } },
	{ "28", "Did anything cross from one tenant to another?",
	  { { "r/isolation", "Names of other tenants", "audit isolation" } } },
	{ "29", "Is it encrypted, and how old are the keys?",
	  { { "r/key-history", "Keys of the store", "audit key-history" } } },
	{ "30", "Did two persons agree where two have to?",
	  { { "r/dual-control", "Acts that nobody else approved", "audit dual-control" } } },
	{ "31", "Was the audit reviewed, when, by whom?",
	  { { "r/reviews", "Reviews", "audit reviews" } } },
	{ "32", "What is unusual?",
	  { { "r/anomalies", "What is unusual", "audit anomalies" } } },
	{ "33", "What fails, and what is slow?",
	  { { "r/tool-health", "Health of tools", "audit tool-health" } } },
	{ "34", "Did tools run as confined as was promised?",
	  { { "r/sandbox", "Sandboxes", "audit sandbox" } } },
	{ "35", "Which calls needed a person, and who answered?",
	  { { "persons", "What persons decided", "audit oversight" } } },
	{ "36", "For which client, on whose behalf?",
	  { { "counts", "Counts", "audit calls" } } },
	{ "37", "When is the store full? Was it ever?",
	  { { "/room", "Room", "audit capacity" } } },
	{ "38", "Does all of it reach our other systems?",
	  { { "/outside", "Copies, and what commands do", "sink list" } } },
	{ "39", "What was left outside, and what was not yet?",
	  { { "/evidence", "Evidence", "audit anchors" } } },
	{ "40", "Can I check it without this software?",
	  { { "/outside", "Copies, and what commands do", "sink list" },
	    { "r/calls", "Calls, each with its proof", "audit calls" } } },
	{ "41", "Does yesterday's backup verify?",
	  { { "/outside", "Copies, and what commands do", "sink list" } } },
	{ "42", "Would tampering be noticed?",
	  { { "/outside", "Copies, and what commands do", "sink list" } } },
};

static void put_way(const struct request *q, struct str *html, const struct way *w)
{
	const bool whole = *w->path == '/';
	const char *path = w->path + whole, *report = strncmp(path, "r/", 2) == 0 ? path + 2 : NULL;

	if (!whole)
		PAGE(html, report ? "tenant-report" : "tenant-page", { "tenant", q->tenant },
		     { "page", report ? report : path }, { "title", w->title });
	else
		PAGE(html, report ? "system-report" : "system-page", { "page", report ? report : path },
		     { "title", w->title });
}

static void put_questions(const struct request *q, struct str *html, const struct answer *a)
{
	const struct answer *can = &q->answer[1];

	(void)a;
	PAGE_PLAIN(html, "questions");
	for (size_t i = 0; i < NELEMS(questions); i++) {
		const struct question_row *row = &questions[i];
		bool led = false;

		PAGE(html, "question", { "number", row->number }, { "text", row->text });
		for (size_t k = 0; k < WAYS && row->way[k].path; k++) {
			if (!view_may(can, *row->way[k].path == '/' ? "" : q->tenant, row->way[k].command))
				continue;
			put_way(q, html, &row->way[k]);
			led = true;
		}
		if (!led)
			PAGE(html, "said", { "text", "of another role" });
		PAGE_PLAIN(html, "question-end");
	}
	PAGE_PLAIN(html, "rows-end");
}

static const struct sheet all = { "Questions about ", NULL, {
	{ "tenant show", "tenant", NULL, NULL, NULL, put_questions, NULL, false },
	{ "console can", NULL, NULL, NULL, NULL, NULL, NULL, false },
}, NULL, NULL };

#define SHEET(path_, params_, commands_, sheet_) \
	{ "GET", path_, params_, ROUTE_SEEN, commands_, sheet_run, &(sheet_), NULL }
const struct route question_routes[] = {
	SHEET("/t/:tenant/questions", NULL, "tenant show, console can", all),
	SHEET("/t/:tenant/key", " key ", "audit credential, audit blast-radius", key),
	SHEET("/t/:tenant/principal", " principal ", "audit subject", principal),
	SHEET("/t/:tenant/definition", " hash ", "audit blast-radius", definition),
	SHEET("/t/:tenant/key-review", NULL, "key list", key_review),
	SHEET("/t/:tenant/kept", NULL, "retention show, hold list", kept),
	SHEET("/t/:tenant/sample", " kind number seed ", "audit sample", sample),
	SHEET("/t/:tenant/counts", NULL, "audit calls, audit denied, audit auth-failures", counts),
	SHEET("/t/:tenant/persons", NULL, "audit oversight, audit approvals, audit tasks", persons),
	SHEET("/definition", " hash ", "audit blast-radius", definition),
	SHEET("/failures", NULL, "audit auth-failures", failures),
	SHEET("/runs", NULL, "audit continuity", runs),
	SHEET("/room", NULL, "audit capacity, audit segments", room),
	SHEET("/outside", NULL, "sink list, audit access", outside),
	{ NULL, NULL, NULL, ROUTE_SEEN, NULL, NULL, NULL, NULL },
};
