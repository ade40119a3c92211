#ifndef CONSOLE_INT_H
#define CONSOLE_INT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text.h"
#include "json/json.h"
#include "net/http_server.h"

/* What the files of toolcrib-console share.  One thread, one loop. */

#define CON_CONNS 64                    /* connections */
#define CON_WAITING 64                  /* questions that wait for a door */
#define CON_RUNNING 4                   /* questions of a visit, running and waiting */
#define CON_FORM_MAX (16u << 10)        /* bytes of a form */
#define CON_URL_MAX 4096
#define CON_PARAMS_MAX 16
#define CON_ANSWER_MAX (4u << 20)       /* bytes that a command may say for a page */
#define CON_ROWS 200                    /* of a page, at most */
#define CON_ROWS_DEFAULT 50
#define CON_LOOK "50000"                /* records that a page of calls looks at, at most */
#define CON_VALUE_MAX 200               /* characters of a value in a table */
#define CON_LONG_MAX (64u << 10)        /* bytes of one on a page of its own */
#define CON_MEMORY (256ull << 20)       /* of the process */
#define CON_TAILS 4                     /* pages that go on; of a visit: */
#define CON_TAILS_SHARE 2
#define CON_TAIL_US (3600ull * 1000000)
#define CON_TAIL_ROWS "20"              /* a second */
#define CON_EXPORTS 2                   /* at once; of a visit one */
#define CON_EXPORT_ROWS 1000000
#define CON_PACKS 2                     /* review packs at once; of a visit one */
#define CON_BUNDLES 1                   /* at once, of the two */
#define CON_BUNDLE_MAX (256u << 20)     /* bytes of a bundle */
#define CON_QUEUED_MAX (256u << 10)     /* bytes of a stream that the browser has not taken */
#define CON_MATRIX_ROWS 50
#define CON_MATRIX_COLUMNS 40
#define CON_BARS_MAX 240
#define CON_TOKEN 43                    /* characters of a visit's token, and of a link's */

/* --- pages: page.c, pages_gen.c */

enum page_kind { PAGE_PART, PAGE_TEXT, PAGE_PATH, PAGE_BASE, PAGE_END };
struct page_segment { const char *text; enum page_kind kind; const char *name; };       /* PART: begins that part */
extern const struct page_segment page_segments[];       /* ended by a PART without a name */

struct page_value { const char *name, *value; };
/* A part of the templates with these values, each escaped for its place; one that is missing is a fault of ours. */
void page_put(struct str *out, const char *part, const struct page_value *values, size_t n);
#define PAGE(out, part, ...) \
	page_put(out, part, (const struct page_value[]){ __VA_ARGS__ }, \
		 sizeof((const struct page_value[]){ __VA_ARGS__ }) / sizeof(struct page_value))
#define PAGE_PLAIN(out, part) page_put(out, part, NULL, 0)
/* What stands before each address of ours, "" or "/path" (C-408): borrowed for the life of the process. */
void page_set_base(const char *base);
const char *page_base(void);
/* What the addresses of style sheet and script have, which changes with them; ret_text: of part "css" or "mjs". */
const char *page_asset(const char *part, const char **ret_text);

/* --- what is asked of the server: doors.c */

struct ev_loop;
struct doors;
struct question;
/* code: ERR_OK, or why there is no answer; rows that came before it are there all the same. */
struct answer {
	enum err_code code;
	char *where, *message, *hint;
	json_t *header, *columns, *end;         /* or NULL */
	json_t *rows;                           /* an array of objects */
};
static inline void answer_reset(struct answer *a)
{
	free(a->where);
	free(a->message);
	free(a->hint);
	jx_wipe(&a->header);
	jx_wipe(&a->columns);
	jx_wipe(&a->end);
	jx_wipe(&a->rows);
	*a = (struct answer){ .code = ERR_OK };
}

/* The answer may be taken out of *a; the question is gone when it returns. */
typedef void answer_fn(void *arg, struct answer *a);
/* Rows that are not kept: each as it comes, while there is room for one. */
struct question_stream {
	void (*row)(void *arg, const struct answer *so_far, const json_t *row);
	bool (*room)(void *arg);
};
struct asker { const char *token, *from; };     /* token "": nobody */
/* fds are taken; a door that ends, ends the loop. */
struct doors *doors_new(struct ev_loop *loop, const int *fds, size_t n);
/* args is taken; stream may be NULL.  fn comes later, once, unless doors_forget().  NULL: too much waits, or runs for
 * this visit. */
struct question *doors_ask(struct doors *d, const struct asker *who, const char *command, json_t *args,
			   const struct question_stream *stream, answer_fn *fn, void *arg);
void doors_forget(struct question **q);
/* A bound has refused or cut something: the server counts it, told with the next command. */
void doors_limited(void);

/* --- requests: front.c */

#define CON_COOKIE "__Host-toolcrib"
#define CON_COMMANDS 4                  /* of a page */
struct param { char *name, *value; };
struct request;
struct sheet;
struct act;
typedef void request_then_fn(struct request *q, struct answer *a);      /* a: of each command, in their order */
/* Who may see it, say its commands; whoever is signed in may ask, and ROUTE_OPEN whoever is not, too. */
enum route_class { ROUTE_SEEN, ROUTE_OPEN, ROUTE_FORM };        /* FORM: it has the field c (C-307) */
#define ROUTE_REPORTS "audit :report"   /* that of the address */
struct route {
	const char *method, *path;      /* segments; :tenant, :report, :call, :id stand for one each */
	const char *params;             /* " since until ": what the query, or the form, may have */
	enum route_class class;
	const char *commands;           /* "tool list, tool pending": all that it gives; NULL: none */
	void (*run)(struct request *q);
	const struct sheet *sheet;      /* of pages of tables */
	const struct act *act;         /* of forms */
};
/* Ended by method NULL. */
extern const struct route start_routes[], report_routes[], sheet_routes[], stream_routes[], pack_routes[],
	question_routes[];
/* verifier_gen.c: the page of contrib/verify/, which may ask its own server (decision 0176) */
extern const char console_verifier[];

struct front;
struct part { struct request *q; struct question *question; const char *command; json_t *args; };
struct request {
	struct front *front;
	struct ev_loop *loop;
	struct http_conn *conn;
	struct http_request *http;
	const struct route *route;
	char token[CON_TOKEN + 1];      /* "" = nobody */
	char from[64];
	char tenant[64], report[40], call[40], id[24];  /* of the path */
	struct param param[CON_PARAMS_MAX]; size_t nparams;
	char *followed;                 /* the address, when a link elsewhere led here without the cookie; or NULL */
	char command[64];               /* of a report */
	struct part part[CON_COMMANDS]; struct answer answer[CON_COMMANDS];
	size_t nparts, nasked, left;
	request_then_fn *then;
	void *priv; void (*ended)(struct request *q);   /* of streams: told when the request is over; or NULL */
};
const char *request_param(const struct request *q, const char *name);   /* "" when it is not there */
struct asking { const char *command; json_t *args; };   /* args is taken */
void request_ask_all(struct request *q, const struct asking *all, size_t n, request_then_fn *then);
void request_ask(struct request *q, const char *command, json_t *args, request_then_fn *then);
/* Of an answer in parts: the next question, when the one before it is answered, which is forgotten. */
void request_again(struct request *q, const char *command, json_t *args, request_then_fn *then);
/* The end of a request: one of these. */
void request_page(struct request *q, int status, struct str *html);     /* taken */
void request_error(struct request *q, int status, const char *title, const char *message, const char *hint);
void request_missing(struct request *q);                                /* always the same bytes */
void request_reply(struct request *q, int status, const char *type, const char *headers, const char *text);
/* The one page with a script, which its own policy names by its hash. */
void request_verifier(struct request *q, const char *html);
/* Or an answer in parts: rows as they come, then at the end of what is asked, which may be too busy at once. */
void request_stream(struct request *q, const char *command, json_t *args, const struct question_stream *stream,
		    request_then_fn *then);
void request_begin(struct request *q, const char *headers);
void request_end(struct request *q, bool whole);        /* not whole: the peer sees that it is not */
/* Of this visit and route, in hex: what a form of ours has as c. */
#define CSRF_SIZE 65
void request_csrf(const struct request *q, const char *route, char ret[CSRF_SIZE]);

/* fd listens there, and is taken; name is borrowed.  For the life of the process. */
bool front_open(struct ev_loop *loop, int fd, const char *name, struct doors *doors, const struct route *const *routes);

/* --- what pages have in common: view.c */

void view_begin(const struct request *q, struct str *html, const char *title);
char *view_text(const json_t *v, size_t most);          /* cut to so many characters; free() it */
char *view_member(const json_t *row, const char *name); /* likewise */
/* A cell of a table; text that is a time is said as one. */
void view_cell(struct str *html, const char *text);
/* A line of a list of facts, when there is something to say. */
void view_fact(struct str *html, const char *name, const json_t *value, size_t most);
/* The class of how a call ended, which has a sign and a colour. */
const char *view_shape(const char *outcome);
/* The header of a report: what was looked at, as facts that open. */
void view_facts(struct str *html, const json_t *header);
/* "toolcrib audit calls --tenant acme": what shows the same in a shell. */
void view_commands(struct str *html, const struct asking *all, size_t n);
/* There is no answer, and the request is over.  Of a tenant that one may not see, the page is that of one that is not
 * there (C-407). */
bool view_failed(struct request *q, const struct answer *a);
/* Is this in the row `may` of console can, of this tenant or ""? */
bool view_may(const struct answer *can, const char *tenant, const char *command);

/* --- pages of tables, forms: sheets.c; reports: reports.c; pictures: chart.c; words that changed: words.c */

enum report_form { REPORT_NONE, REPORT_WHOLE, REPORT_PAGES };    /* has it a limit, and pages? */
enum report_form reports_find(const char *name, bool of_tenant);
/* The rows of an answer, as the page of this report shows them. */
void reports_put(const struct request *q, const char *name, struct str *html, const struct answer *a);
/* Those that have a page, for this. */
void reports_each(bool of_tenant, void (*fn)(void *arg, const char *name, const char *title), void *arg);
/* A cell of a report's row, which leads where its column says: to a call, to a tool's calls, to a key. */
void reports_cell(const struct request *q, struct str *html, const char *column, const json_t *value);
void chart_call(struct str *html, const json_t *rows);                                  /* of audit show */
void chart_calls(const struct request *q, struct str *html, const struct answer *a);    /* of audit stats */
/* The forms of exports, of tenant's page of files: stream.c. */
void stream_files(const struct request *q, struct str *html, const struct answer *a);
void chart_who(const struct request *q, struct str *html, const struct answer *a);      /* of grant who */
void words_diff(const struct request *q, struct str *html, const struct answer *a);     /* of tool diff */

#endif
