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

#include "console_int.h"

struct running {
	struct list node;
	struct request *q;
	bool tail, csv, begun;
	uint64_t rows;
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

static void say(struct running *r, const struct str *text)
{
	digest_put(r->sum, str_text(text), text->len);
	http_stream_answer(r->q->http, str_text(text), text->len);      /* has_room() holds how many there are */
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
	char *headers = mem_printf("Content-Type: %s\r\nContent-Disposition: attachment; filename=\"%s%s%s.%s\"\r\n",
				   r->csv ? "text/csv; charset=utf-8" : "application/jsonl", q->tenant, *q->tenant
					? "-" : "",
				   *q->report ? q->report : "records", r->csv ? "csv" : "jsonl");
	json_t *head = json_object();

	r->begun = true;
	r->sum = digest_new();
	request_begin(q, headers);
	(void)json_object_set(head, "header", a->header);
	(void)json_object_set(head, "columns", a->columns);
	if (r->csv)
		put_csv(a->columns, NULL, &text);
	else
		jx_write_seen(head, &text);
	if (!r->csv)
		str_putc(&text, '\n');
	say(r, &text);
	str_fini(&text);
	json_decref(head);
	free(headers);
}

/* The last line of JSON Lines says that it is the last, and what came before it; of CSV, only that it is not all. */
static void end_export(struct running *r, bool more)
{
	uint8_t digest[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1];
	struct str text = STR_INIT;
	struct request *q = r->q;

	digest_end(&r->sum, digest);
	text_hex(digest, sizeof(digest), hex);
	if (!r->csv)
		str_printf(&text, "{\"end\":{\"rows\":%llu,\"more\":%s,\"sha256\":\"%s\"}}\n",
			(unsigned long long)r->rows,
			   more ? "true" : "false", hex);
	else if (more)
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
		end_export(r, true);            /* which forgets what is asked */
		return;
	}
	if (!r->begun)
		begin_export(r, a);
	r->rows++;
	if (r->csv) {
		put_csv(a->columns, row, &text);
	} else {
		jx_write_seen(row, &text);
		str_putc(&text, '\n');
	}
	say(r, &text);
	str_fini(&text);
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

static void run_export(struct request *q)
{
	static const struct question_stream stream = { on_export_row, has_room };
	const char *as = request_param(q, "as");
	const bool csv = strcmp(as, "csv") == 0;
	enum report_form form;
	json_t *args;

	if (!csv && strcmp(as, "jsonl") != 0) {
		request_error(q, 400, "Bad request", "as: csv or jsonl", NULL);
		return;
	}
	form = *q->report ? reports_find(q->report, *q->tenant) : REPORT_WHOLE;
	if (form == REPORT_NONE) {
		request_missing(q);
		return;
	}
	if (count(false, NULL) >= CON_EXPORTS || count(false, q->token) > 0) {
		request_error(q, 503, "Busy", count(false, q->token) > 0 ? "An export of this visit is under way." :
			      "Others export just now.", "come again when it is done");
		return;
	}
	args = filters_of(q);
	if (*q->report)
		(void)snprintf(q->command, sizeof(q->command), "audit %s", q->report);
	if (form == REPORT_PAGES)
		(void)json_object_set_new(args, "limit", json_string("0"));
	begin(q, false)->csv = csv;
	request_stream(q, *q->report ? q->command : "audit export", args, &stream, on_export_end);
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
	{ "GET", "/t/:tenant/r/:report/export", EXPORTED, ROUTE_SEEN, ROUTE_REPORTS, run_export, NULL, NULL },
	{ "GET", "/r/:report/export", EXPORTED, ROUTE_SEEN, ROUTE_REPORTS, run_export, NULL, NULL },
	{ NULL, NULL, NULL, ROUTE_SEEN, NULL, NULL, NULL, NULL },
};
