/* A review pack: every report of a tenant, or of the whole store, one after another on one page that prints, with what
 * came of each and the sum of all rows at its end (CONSOLE 7, C-905).  It goes out as it is made; each report is a look
 * of its own, and on record as one. */
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

#define REPORTS_MAX 40                  /* that there are, at most */
#define HELD_US 20000                   /* until a browser that was full is looked at again */

struct pack {
	struct list node;
	struct request *q;
	struct ev_timer *again;
	const char *name[REPORTS_MAX], *title[REPORTS_MAX], *says[REPORTS_MAX];
	size_t rows[REPORTS_MAX];
	size_t n, at;                   /* reports; the one that is asked */
	struct digest *sum;             /* of the rows so far */
};

static struct list packs;               /* of the one loop of this process */

static void ask(struct pack *p);

static unsigned count(const char *token)
{
	unsigned n = 0;

	if (!packs.next)
		list_init(&packs);
	LIST_FOREACH(node, &packs)
		n += !token || strcmp(CONTAINER_OF(node, struct pack, node)->q->token, token) == 0;
	return n;
}

static void over(struct request *q)
{
	struct pack *p = q->priv;
	uint8_t digest[DIGEST_SIZE];

	list_unlink(&p->node);
	ev_timer_free(&p->again);
	if (p->sum)
		digest_end(&p->sum, digest);
	free(p);
}

static void note_report(void *arg, const char *name, const char *title)
{
	struct pack *p = arg;

	if (p->n == REPORTS_MAX)
		abort();
	p->name[p->n] = name;
	p->title[p->n++] = title;
}

static json_t *args_of(const struct request *q, const char *name)
{
	const char *const spans[] = { "since", "until" };
	json_t *args = json_object();
	char rows[16];

	if (*q->tenant)
		(void)json_object_set_new(args, "tenant", json_string(q->tenant));
	for (size_t i = 0; i < NELEMS(spans); i++)
		if (*request_param(q, spans[i]))
			(void)json_object_set_new(args, spans[i], json_string(request_param(q, spans[i])));
	(void)snprintf(rows, sizeof(rows), "%d", CON_ROWS);
	if (reports_find(name, *q->tenant) == REPORT_PAGES)
		(void)json_object_set_new(args, "limit", json_string(rows));
	return args;
}

/* --- its end */

static void put_verdicts(struct pack *p, struct str *html)
{
	char rows[24];

	PAGE_PLAIN(html, "pack-verdicts");
	for (size_t i = 0; i < p->n; i++) {
		(void)snprintf(rows, sizeof(rows), "%zu", p->rows[i]);
		PAGE(html, "pack-verdict", { "name", p->name[i] }, { "title", p->title[i] },
		     { "says", p->says[i] }, { "rows", rows });
	}
	PAGE_PLAIN(html, "pack-verdicts-end");
}

static void put_commands(const struct pack *p, struct str *html)
{
	struct asking asked[REPORTS_MAX];
	char *command[REPORTS_MAX];

	for (size_t i = 0; i < p->n; i++) {
		command[i] = mem_printf("audit %s", p->name[i]);
		asked[i] = (struct asking){ command[i], args_of(p->q, p->name[i]) };
	}
	view_commands(html, asked, p->n);
	for (size_t i = 0; i < p->n; i++) {
		json_decref(asked[i].args);
		free(command[i]);
	}
}

static void finish(struct pack *p)
{
	struct request *q = p->q;
	struct str html = STR_INIT;
	uint8_t digest[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1], csrf[CSRF_SIZE];

	put_verdicts(p, &html);
	digest_end(&p->sum, digest);
	text_hex(digest, sizeof(digest), hex);
	PAGE(&html, "pack-sum", { "sum", hex });
	request_csrf(q, *q->tenant ? "/t/:tenant/review/sign" : "/review/sign", csrf);
	if (*q->tenant)
		PAGE(&html, "sign-of", { "tenant", q->tenant }, { "csrf", csrf });
	else
		PAGE(&html, "sign", { "csrf", csrf });
	put_commands(p, &html);
	PAGE_PLAIN(&html, "foot");
	http_stream_answer(q->http, str_text(&html), html.len);
	str_fini(&html);
	request_end(q, true);
}

/* --- one report after another */

static void begin_page(struct pack *p)
{
	struct request *q = p->q;
	struct str html = STR_INIT;
	char *title = *q->tenant ? mem_printf("Review of %s", q->tenant) : mem_strdup("Review of the whole store");
	const char *since = request_param(q, "since"), *until = request_param(q, "until");

	p->sum = digest_new();
	request_begin(q, "Content-Type: text/html; charset=utf-8\r\n");
	view_begin(q, &html, title);
	PAGE(&html, "pack", { "since", *since ? since : "the first record" }, { "until", *until ? until : "now" });
	http_stream_write(q->http, str_text(&html), html.len);
	str_fini(&html);
	free(title);
}

static const char *verdict_of(const struct answer *a)
{
	const bool must = json_is_true(json_object_get(a->header, "must_be_empty"));

	if (a->code != ERR_OK)
		return "not answered";
	if (must)
		return json_array_size(a->rows) == 0 ? "empty, as it must be" : "MUST BE EMPTY, AND IS NOT";
	return a->end ? "there are more" : "all of them";
}

static void sum_up(struct pack *p, const struct answer *a)
{
	struct str line = STR_INIT;
	const json_t *row;
	size_t i;

	json_array_foreach(a->rows, i, row) {
		jx_write_seen(row, &line);
		str_putc(&line, '\n');
	}
	digest_put(p->sum, str_text(&line), line.len);
	str_fini(&line);
}

/* What was looked at, of what there is. */
static void put_header(struct str *html, const json_t *header)
{
	static const char *const names[] = { "asked", "at", "log", "from", "to", "records", "pruned", "verified",
					     "verified_as" };

	if (!json_object_get(header, "log"))
		return;
	PAGE_PLAIN(html, "item");
	for (size_t i = 0; i < NELEMS(names); i++)
		view_fact(html, names[i], json_object_get(header, names[i]), CON_VALUE_MAX);
	PAGE_PLAIN(html, "item-end");
}

static void put_report(struct pack *p, const struct answer *a)
{
	struct request *q = p->q;
	struct str html = STR_INIT;

	p->says[p->at] = verdict_of(a);
	p->rows[p->at] = json_array_size(a->rows);
	PAGE(&html, "section", { "title", p->title[p->at] });
	if (a->code != ERR_OK) {
		PAGE(&html, "none", { "text", a->message });
	} else {
		put_header(&html, a->header);
		reports_put(q, p->name[p->at], &html, a);
		PAGE(&html, "pack-said", { "says", p->says[p->at] });
		sum_up(p, a);
	}
	PAGE_PLAIN(&html, "section-end");
	http_stream_answer(q->http, str_text(&html), html.len);
	str_fini(&html);
}

static void go_on(struct pack *p)
{
	if (p->at == p->n)
		finish(p);
	else if (http_stream_queued(p->q->http) > CON_QUEUED_MAX)
		ev_timer_start(p->again, HELD_US);
	else
		ask(p);
}

static void on_again(void *arg)
{
	go_on(arg);
}

static void answered(struct request *q, struct answer *a)
{
	struct pack *p = q->priv;
	struct str html = STR_INIT;

	if (!p->sum && a->code != ERR_OK) {
		(void)view_failed(q, a);
		return;
	}
	if (!p->sum)
		begin_page(p);
	if (a->code == ERR_DENIED && strcmp(a->where, "visit") == 0) {
		PAGE(&html, "none", { "text", "This visit has ended: what follows was not asked, and this is no whole pack." });
		PAGE_PLAIN(&html, "foot");
		http_stream_write(q->http, str_text(&html), html.len);
		str_fini(&html);
		request_end(q, true);
		return;
	}
	put_report(p, a);
	p->at++;
	go_on(p);
}

static void ask(struct pack *p)
{
	struct request *q = p->q;

	(void)snprintf(q->command, sizeof(q->command), "audit %s", p->name[p->at]);
	request_again(q, q->command, args_of(q, p->name[p->at]), answered);
}

static void run_pack(struct request *q)
{
	struct pack *p;

	if (count(NULL) >= CON_PACKS || count(q->token) > 0) {
		doors_limited();
		request_error(q, 503, "Busy", count(q->token) > 0 ? "A review pack of this visit is being made." :
			      "Others have review packs made just now.", "come again when it is done");
		return;
	}
	p = mem_zalloc(sizeof(*p));
	p->q = q;
	p->again = ev_timer_new(q->loop, on_again, p);
	list_push_back(&packs, &p->node);
	q->priv = p;
	q->ended = over;
	reports_each(*q->tenant, note_report, p);
	ask(p);
}

const struct route pack_routes[] = {
	{ "GET", "/t/:tenant/review/pack", " since until ", ROUTE_SEEN, ROUTE_REPORTS, run_pack, NULL, NULL },
	{ "GET", "/review/pack", " since until ", ROUTE_SEEN, ROUTE_REPORTS, run_pack, NULL, NULL },
	{ NULL, NULL, NULL, ROUTE_SEEN, NULL, NULL, NULL, NULL },
};
