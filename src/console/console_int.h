#ifndef CONSOLE_INT_H
#define CONSOLE_INT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/text.h"
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
#define CON_TOKEN 43                    /* characters of a visit's token, and of a link's */

/* --- pages: page.c, pages_gen.c */

enum page_kind { PAGE_PART, PAGE_TEXT, PAGE_PATH, PAGE_END };
struct page_segment { const char *text; enum page_kind kind; const char *name; };       /* PART: begins that part */
extern const struct page_segment page_segments[];       /* ended by a PART without a name */

struct page_value { const char *name, *value; };
/* A part of the templates with these values, each escaped for its place; one that is missing is a fault of ours. */
void page_put(struct str *out, const char *part, const struct page_value *values, size_t n);
#define PAGE(out, part, ...) \
	page_put(out, part, (const struct page_value[]){ __VA_ARGS__ }, \
		 sizeof((const struct page_value[]){ __VA_ARGS__ }) / sizeof(struct page_value))
#define PAGE_PLAIN(out, part) page_put(out, part, NULL, 0)
/* What the address of the style sheet has, which changes with its text; ret_text: or NULL. */
const char *page_css(const char **ret_text);

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
typedef void answer_fn(void *arg, struct answer *a);    /* borrowed; the question is gone when it returns */
/* fds are taken; a door that ends, ends the loop. */
struct doors *doors_new(struct ev_loop *loop, const int *fds, size_t n);
/* args is taken; token NULL: nobody's.  fn comes later, once, unless doors_forget().  NULL: too much waits, or runs for
 * this visit. */
struct question *doors_ask(struct doors *d, const char *token, const char *from, const char *command, json_t *args,
			   answer_fn *fn, void *arg);
void doors_forget(struct question **q);

/* --- requests: front.c */

#define CON_COOKIE "__Host-toolcrib"
struct param { char *name, *value; };
struct request;
typedef void request_then_fn(struct request *q, struct answer *a);
struct route {
	const char *method, *path;      /* segments; :tenant, :report, :call stand for one each */
	const char *params;             /* " since until ": what the query, or the form, may have */
	bool open;                      /* for whoever is not signed in, too */
	bool csrf;                      /* its form has the field c (C-307) */
	void (*run)(struct request *q);
};
extern const struct route start_routes[], report_routes[];      /* ended by method NULL */

struct front;
struct request {
	struct front *front;
	struct http_request *http;
	const struct route *route;
	char token[CON_TOKEN + 1];      /* "" = nobody */
	char from[64];
	char tenant[64], report[40], call[40];  /* of the path */
	struct param param[CON_PARAMS_MAX]; size_t nparams;
	char *followed;                 /* the address, when a link elsewhere led here without the cookie; or NULL */
	struct question *question; request_then_fn *then;
	json_t *kept;                   /* of the answer before, for who asks twice */
};
const char *request_param(const struct request *q, const char *name);   /* "" when it is not there */
void request_ask(struct request *q, const char *command, json_t *args, request_then_fn *then);       /* args is taken */
/* The end of a request: one of these. */
void request_page(struct request *q, int status, struct str *html);     /* taken */
void request_error(struct request *q, int status, const char *title, const char *message, const char *hint);
void request_missing(struct request *q);                                /* always the same bytes */
void request_reply(struct request *q, int status, const char *type, const char *headers, const char *text);
/* Of this visit and route, in hex: what a form of ours has as c. */
#define CSRF_SIZE 65
void request_csrf(const struct request *q, const char *route, char ret[CSRF_SIZE]);

/* fd listens there, and is taken; name is borrowed.  For the life of the process. */
bool front_open(struct ev_loop *loop, int fd, const char *name, struct doors *doors, const struct route *const *routes);

/* --- what pages have in common: view.c */

void view_begin(const struct request *q, struct str *html, const char *title);
char *view_text(const json_t *v, size_t most);          /* cut to so many characters; free() it */
char *view_member(const json_t *row, const char *name); /* likewise */
/* "toolcrib audit calls --tenant acme": what shows the same in a shell. */
void view_command(struct str *html, const char *command, const json_t *args, const char *positional);
int view_status(enum err_code code);
/* There is no answer, and the request is over.  Of a tenant that one may not see, the page is that of one that is not
 * there (C-407). */
bool view_failed(struct request *q, const struct answer *a);

#endif
