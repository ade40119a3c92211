/* Answers that come in parts: exports, every row of what a page shows the first of, and pages that go on while records
 * are written.  Nothing is kept but the row that is just being said; who does not take what was said is waited for, or
 * left, and what breaks off is seen to be broken off (CONSOLE 14, 15, 16). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "ev/ev.h"
#include "json/json.h"
#include "report/carry.h"

#include "console_int.h"

enum form { AS_CSV, AS_JSONL, AS_OCSF, AS_BUNDLE };     /* OCSF: of records alone, and of them there are bundles */
static const struct { const char *name, *title, *type, *end; } forms[] = {
	[AS_CSV] = { "csv", "CSV", "text/csv; charset=utf-8", ".csv" },
	[AS_JSONL] = { "jsonl", "JSON Lines", "application/jsonl", ".jsonl" },
	[AS_OCSF] = { "ocsf", "OCSF 1.9.0", "application/jsonl", "-ocsf.jsonl" },
	[AS_BUNDLE] = { "", "", "application/x-tar", ".tar" },
};

struct running {
	struct list node;
	struct request *q;
	bool tail, begun, broken, whole;        /* whole: what was said is all, and its sum is right */
	enum form as;
	uint64_t rows, bytes;
	struct digest *sum;         /* of the bytes of an export so far */
	struct ev_timer *end;       /* of a tail */
};

static struct list all_running;         /* of the one loop of this process */

/* --- how many there are */

static unsigned count(bool tail, const char *token)
{
	unsigned n = 0;

	if (!all_running.next)
		list_init(&all_running);
	LIST_FOREACH(node, &all_running) {
		const struct running *r = CONTAINER_OF(node, struct running, node);

		n += r->tail == tail && (!token || strcmp(r->q->token, token) == 0);
	}
	return n;
}

static void over(struct request *q)
{
	struct running *r = q->priv;
	uint8_t digest[DIGEST_SIZE];

	list_unlink(&r->node);
	ev_timer_free(&r->end);
	if (r->sum)
		digest_end(&r->sum, digest);
	free(r);
}

static struct running *begin(struct request *q, bool tail)
{
	struct running *r = mem_zalloc(sizeof(*r));

	r->q = q;
	r->tail = tail;
	list_push_back(&all_running, &r->node);
	q->priv = r;
	q->ended = over;
	return r;
}

static bool has_room(void *arg)
{
	const struct request *q = ((const struct part *)arg)->q;
	const struct running *r = q->priv;

	return !r->begun || http_stream_queued(q->http) < CON_QUEUED_MAX;
}

static json_t *filters_of(const struct request *q)
{
	json_t *args = json_object();

	if (*q->tenant)
		(void)json_object_set_new(args, "tenant", json_string(q->tenant));
	for (size_t i = 0; i < q->nparams; i++)
		if (strcmp(q->param[i].name, "as") != 0 && strcmp(q->param[i].name, "again") != 0 && *q->param[i].value)
			(void)json_object_set_new(args, q->param[i].name, json_string(q->param[i].value));
	return args;
}

/* --- exports */

static void say_bytes(struct running *r, const void *p, size_t n)
{
	r->bytes += n;
	digest_put(r->sum, p, n);
	http_stream_answer(r->q->http, p, n);   /* has_room() holds how many there are */
}

static void say(struct running *r, const struct str *text)
{
	say_bytes(r, str_text(text), text->len);
}

static void put_csv(const json_t *columns, const json_t *row, struct str *out)
{
	const json_t *name;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)columns, i, name) {
		const json_t *value = row ? json_object_get(row, json_string_value(name)) : name;
		char *text = view_text(value, CON_LONG_MAX);

		if (i > 0)
			str_putc(out, ',');
		text_csv(text, json_is_string(value), out);
		free(text);
	}
	str_puts(out, "\r\n");
}

static void begin_export(struct running *r, const struct answer *a)
{
	struct request *q = r->q;
	struct str text = STR_INIT;
	char *headers = mem_printf("Content-Type: %s\r\nContent-Disposition: attachment; filename=\"%s%s%s%s\"\r\n",
				   forms[r->as].type, q->tenant, *q->tenant ? "-" : "", *q->report ? q->report : "records",
				   forms[r->as].end);
	json_t *head = json_object();

	r->begun = true;
	r->sum = digest_new();
	request_begin(q, headers);
	(void)json_object_set(head, "header", a->header);
	(void)json_object_set(head, "columns", a->columns);
	if (r->as == AS_CSV)
		put_csv(a->columns, NULL, &text);
	else if (r->as == AS_JSONL)
		jx_write_seen(head, &text);
	if (r->as == AS_JSONL)
		str_putc(&text, '\n');
	say(r, &text);
	str_fini(&text);
	json_decref(head);
	free(headers);
}

/* The last line of JSON Lines says that it is the last, and what came before it; of others, only that it is not all. */
static void end_export(struct running *r, bool more)
{
	uint8_t digest[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1];
	struct str text = STR_INIT;
	struct request *q = r->q;

	digest_end(&r->sum, digest);
	text_hex(digest, sizeof(digest), hex);
	if (r->as == AS_JSONL || (r->as == AS_OCSF && more))
		str_printf(&text, "{\"end\":{\"rows\":%llu,\"more\":%s,\"sha256\":\"%s\"}}\n",
			(unsigned long long)r->rows,
			   more ? "true" : "false", hex);
	else if (r->as == AS_CSV && more)
		str_printf(&text,
			"\"there are more than these %d rows: a shorter time has fewer\"\r\n", CON_EXPORT_ROWS);
	http_stream_write(q->http, str_text(&text), text.len);
	str_fini(&text);
	request_end(q, true);
}

static void on_export_row(void *arg, const struct answer *a, const json_t *row)
{
	struct request *q = ((struct part *)arg)->q;
	struct running *r = q->priv;
	struct str text = STR_INIT;

	if (r->rows == CON_EXPORT_ROWS) {
		doors_limited();
		end_export(r, true);            /* which forgets what is asked */
		return;
	}
	if (!r->begun)
		begin_export(r, a);
	r->rows++;
	if (r->as == AS_CSV) {
		put_csv(a->columns, row, &text);
	} else {
		json_t *event = r->as == AS_OCSF ? report_ocsf(row) : json_incref((json_t *)(uintptr_t)row);

		jx_write_seen(event, &text);
		str_putc(&text, '\n');
		json_decref(event);
	}
	say(r, &text);
	str_fini(&text);
}

/* A part of the file, or behind them the row that says what it was: its sum among it. */
static void on_bundle_row(void *arg, const struct answer *a, const json_t *row)
{
	struct running *r = ((struct part *)arg)->q->priv;
	const char *data = json_string_value(json_object_get(row, "data"));
	const char *sum = json_string_value(json_object_get(row, "sha256"));
	const size_t len = data ? strlen(data) : 0;
	char hex[2 * DIGEST_SIZE + 1];
	uint8_t digest[DIGEST_SIZE], *p;
	size_t n = 0;

	if (r->broken)
		return;                         /* it is being left */
	if (!r->begun)
		begin_export(r, a);
	if (data) {
		p = mem_alloc(len + 1);
		r->broken = text_unbase64(data, len, p, len, &n) < 0 || r->bytes + n > CON_BUNDLE_MAX;
		if (r->broken)
			doors_limited();
		else
			say_bytes(r, p, n);
		free(p);
	} else if (sum && r->sum) {
		digest_end(&r->sum, digest);
		text_hex(digest, sizeof(digest), hex);
		r->whole = strcmp(hex, sum) == 0;
	}
	if (r->broken)
		request_end(r->q, false);
}

static void on_bundle_end(struct request *q, struct answer *a)
{
	const struct running *r = q->priv;

	if (a->code != ERR_OK && !r->begun)
		(void)view_failed(q, a);
	else if (!r->broken)
		request_end(q, a->code == ERR_OK && r->whole);
}

static void on_export_end(struct request *q, struct answer *a)
{
	struct running *r = q->priv;

	if (a->code != ERR_OK && !r->begun) {
		(void)view_failed(q, a);
		return;
	}
	if (!r->begun)
		begin_export(r, a);
	if (a->code != ERR_OK)
		request_end(q, false);
	else
		end_export(r, false);
}

/* False: there are too many, which is said. */
static bool is_free(struct request *q)
{
	if (count(false, NULL) < CON_EXPORTS && count(false, q->token) == 0)
		return true;
	doors_limited();
	request_error(q, 503, "Busy", count(false, q->token) > 0 ? "An export of this visit is under way." :
		      "Others export just now.", "come again when it is done");
	return false;
}

static bool form_of(const char *as, bool records, enum form *ret)
{
	for (unsigned i = AS_CSV; i < AS_BUNDLE; i++) {
		*ret = (enum form)i;
		if (strcmp(forms[i].name, as) == 0)
			return i != AS_OCSF || records;
	}
	return false;
}

static void run_bundle(struct request *q)
{
	static const struct question_stream stream = { on_bundle_row, has_room };
	char name[sizeof(q->tenant) + 8];
	unsigned bundles = 0;
	json_t *args;

	if (!is_free(q))
		return;
	LIST_FOREACH(node, &all_running)
		bundles += CONTAINER_OF(node, struct running, node)->as == AS_BUNDLE;
	if (bundles >= CON_BUNDLES) {
		doors_limited();
		request_error(q, 503, "Busy", "A bundle is being made just now.", "come again when it is done");
		return;
	}
	args = filters_of(q);
	(void)snprintf(name, sizeof(name), "/%s.tar", q->tenant);       /* nobody writes one: it is for the record */
	(void)json_object_set_new(args, "file", json_string(name));
	begin(q, false)->as = AS_BUNDLE;
	request_stream(q, "audit bundle", args, &stream, on_bundle_end);
}

static void run_export(struct request *q)
{
	static const struct question_stream stream = { on_export_row, has_room };
	enum report_form form;
	enum form as;
	json_t *args;

	if (!form_of(request_param(q, "as"), !*q->report, &as)) {
		request_error(q, 400, "Bad request", *q->report ? "as: csv or jsonl" : "as: csv, jsonl or ocsf", NULL);
		return;
	}
	form = *q->report ? reports_find(q->report, *q->tenant) : REPORT_WHOLE;
	if (form == REPORT_NONE) {
		request_missing(q);
		return;
	}
	if (!is_free(q))
		return;
	args = filters_of(q);
	if (*q->report)
		(void)snprintf(q->command, sizeof(q->command), "audit %s", q->report);
	if (form == REPORT_PAGES)
		(void)json_object_set_new(args, "limit", json_string("0"));
	begin(q, false)->as = as;
	request_stream(q, *q->report ? q->command : "audit export", args, &stream, on_export_end);
}

/* --- GET /t/T/files: what can be had as a file */

void stream_files(const struct request *q, struct str *html, const struct answer *a)
{
	(void)a;
	PAGE(html, "files", { "tenant", q->tenant });
	for (size_t i = 0; i < AS_BUNDLE; i++)
		PAGE(html, "files-form", { "name", forms[i].name }, { "title", forms[i].title });
	PAGE(html, "files-end", { "tenant", q->tenant });
}

/* --- a page that goes on: one command, one record, rows as they come (C-906) */

static void end_tail(struct running *r, const char *why)
{
	struct request *q = r->q;
	struct str html = STR_INIT;

	PAGE_PLAIN(&html, "rows-end");
	PAGE(&html, "tail-end", { "text", why });
	PAGE_PLAIN(&html, "foot");
	http_stream_write(q->http, str_text(&html), html.len);
	str_fini(&html);
	request_end(q, true);
}

static const char *const tail_columns[] = { "index", "time", "kind", "tool", "principal", "outcome", "ms", "call" };

static void begin_tail(struct running *r)
{
	struct request *q = r->q;
	struct str html = STR_INIT;
	char *title = mem_printf("Live: %s", q->tenant);
	const struct asking asked = { "audit tail", q->part[0].args };

	r->begun = true;
	request_begin(q, "Content-Type: text/html; charset=utf-8\r\n");
	view_begin(q, &html, title);
	view_commands(&html, &asked, 1);
	PAGE(&html, "tail", { "tenant", q->tenant });
	for (size_t i = 0; i < NELEMS(tail_columns); i++)
		PAGE(&html, "column", { "name", tail_columns[i] });
	PAGE_PLAIN(&html, "rows-begin");
	http_stream_write(q->http, str_text(&html), html.len);
	str_fini(&html);
	free(title);
}

static void on_tail_row(void *arg, const struct answer *a, const json_t *row)
{
	struct request *q = ((struct part *)arg)->q;
	struct running *r = q->priv;
	struct str html = STR_INIT;

	(void)a;
	if (!r->begun)
		begin_tail(r);
	if (json_is_string(json_object_get(row, "kind"))) {
		PAGE_PLAIN(&html, "row");
		for (size_t i = 0; i < NELEMS(tail_columns); i++) {
			char *text = view_member(row, tail_columns[i]);

			if (*text && strcmp(tail_columns[i], "call") == 0)
				PAGE(&html, "cell-call", { "tenant", q->tenant }, { "call", text });
			else
				view_cell(&html, text);
			free(text);
		}
		PAGE_PLAIN(&html, "row-end");
	} else {                                /* how many there were that --rate left out */
		PAGE(&html, "tail-more", { "text", json_string_value(json_object_get(row, "detail")) });
	}
	http_stream_write(q->http, str_text(&html), html.len);
	str_fini(&html);
}

static void on_tail_end(struct request *q, struct answer *a)
{
	struct running *r = q->priv;

	if (!r->begun && a->code != ERR_OK)
		(void)view_failed(q, a);
	else
		end_tail(r, a->code == ERR_OK ? "That was all." : a->message);
}

static void on_tail_time(void *arg)
{
	struct running *r = arg;

	if (!r->begun)
		begin_tail(r);
	end_tail(r, "A page goes on for an hour; load it again.");
}

static void run_tail(struct request *q)
{
	static const struct question_stream stream = { on_tail_row, has_room };
	json_t *args = filters_of(q);
	struct running *r;

	if (count(true, NULL) >= CON_TAILS || count(true, q->token) >= CON_TAILS_SHARE) {
		json_decref(args);
		doors_limited();
		request_error(q, 503, "Busy", count(true, q->token) >= CON_TAILS_SHARE
			? "Two live pages of this visit are open." :
			      "Others look at live pages just now.", "close one of them");
		return;
	}
	(void)json_object_set_new(args, "follow", json_true());
	(void)json_object_set_new(args, "number", json_string(CON_TAIL_ROWS));
	(void)json_object_set_new(args, "rate", json_string(CON_TAIL_ROWS));
	r = begin(q, true);
	r->end = ev_timer_new(q->loop, on_tail_time, r);
	ev_timer_start(r->end, CON_TAIL_US);
	request_stream(q, "audit tail", args, &stream, on_tail_end);
}

#define EXPORTED " as since until tool principal key outcome "
const struct route stream_routes[] = {
	{ "GET", "/t/:tenant/tail", " tool principal key outcome kind ", ROUTE_SEEN, "audit tail", run_tail, NULL,
		NULL },
	{ "GET", "/t/:tenant/export", EXPORTED "kind ", ROUTE_SEEN, "audit export", run_export, NULL, NULL },
	{ "GET", "/t/:tenant/bundle", " since until from to ", ROUTE_SEEN, "audit bundle", run_bundle, NULL, NULL },
	{ "GET", "/t/:tenant/r/:report/export", EXPORTED, ROUTE_SEEN, ROUTE_REPORTS, run_export, NULL, NULL },
	{ "GET", "/r/:report/export", EXPORTED, ROUTE_SEEN, ROUTE_REPORTS, run_export, NULL, NULL },
	{ NULL, NULL, NULL, ROUTE_SEEN, NULL, NULL, NULL, NULL },
};
