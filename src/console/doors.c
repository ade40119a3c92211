/* Questions to the server, over its doors: one at a time on each, the others wait (CONSOLE C-204).  What comes back is
 * bounded, and a question that nobody waits for any more is stopped; its door serves again when its end has come. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "console/console.h"
#include "ev/ev.h"
#include "json/json.h"
#include "net/stream.h"

#include "console_int.h"

#define LINE_MAX_BYTES (2u << 20)       /* of one row; as reports bound it */

struct question {
	struct list node;               /* in doors.waiting; on its own while a door has it */
	struct doors *all;
	struct door *door;              /* NULL: it waits */
	char token[CON_TOKEN + 1];
	char *line;
	answer_fn *fn;
	const struct question_stream *stream;   /* NULL: rows are kept until the end */
	void *arg;
};

struct door {
	struct doors *all;
	struct stream *stream;
	struct question *q;             /* NULL: nobody waits for what comes */
	bool busy, stopped, held;       /* held: who takes its rows has no room */
	struct answer a;
	size_t bytes, searched;
};

struct doors {
	struct ev_loop *loop;
	struct ev_timer *again;         /* looks at those that are held */
	struct list waiting;
	size_t nwaiting, n;
	struct door door[CONSOLE_DOORS];
};

/* --- bounds that were reached */

#define LIMITED_MAX 1000000             /* what one line may tell */

static unsigned limited;                /* of the one loop of this process, not told yet */

void doors_limited(void)
{
	limited += limited < LIMITED_MAX;
}

/* --- answers */

static char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return mem_strdup(text ? text : "");
}

static void take_error(struct answer *a, const json_t *error)
{
	char *code = text_of(error, "code");

	if (a->code == ERR_OK) {
		a->code = err_from_name(code);
		a->code = a->code == ERR_OK ? ERR_INTERNAL : a->code;
		a->where = text_of(error, "where");
		a->message = text_of(error, "message");
		a->hint = text_of(error, "hint");
	}
	free(code);
}

static void too_long(struct door *d)
{
	static const char stop[] = "{\"stop\":true}\n";

	if (d->stopped)
		return;
	d->stopped = true;
	doors_limited();
	d->a.code = ERR_LIMIT;
	d->a.where = mem_strdup("");
	d->a.message = mem_strdup("the answer is too long for a page");
	d->a.hint = mem_strdup("a shorter time, or fewer rows, make it shorter");
	stream_write(d->stream, stop, sizeof(stop) - 1);
}

/* True: it was the last line. */
static bool take_line(struct door *d, const json_t *line)
{
	struct answer *a = &d->a;
	json_t *row = json_object_get(line, "row"), *error = json_object_get(line, "error");

	if (error)
		take_error(a, error);
	if (error || json_object_get(line, "done"))
		return true;
	if (d->stopped)
		return false;
	if (row && d->q && d->q->stream)
		d->q->stream->row(d->q->arg, a, row);
	else if (row && d->q)
		(void)json_array_append(a->rows, row);
	if (json_object_get(line, "header") && !a->header) {
		a->header = json_incref(json_object_get(line, "header"));
		a->columns = json_incref(json_object_get(line, "columns"));
	}
	if (json_object_get(line, "end"))
		a->end = json_incref(json_object_get(line, "end"));
	return false;
}

/* --- one door after another */

static void give(struct door *d, struct question *q)
{
	list_unlink(&q->node);
	list_init(&q->node);
	d->all->nwaiting--;
	d->q = q;
	q->door = d;
	d->busy = true;
	d->stopped = false;
	d->bytes = d->searched = 0;
	d->a.rows = json_array();
	stream_write(d->stream, q->line, strlen(q->line));
}

static void serve(struct doors *all)
{
	for (size_t i = 0; i < all->n && !list_empty(&all->waiting); i++)
		if (!all->door[i].busy)
			give(&all->door[i], CONTAINER_OF(all->waiting.next, struct question, node));
}

static void question_free(struct question *q)
{
	list_unlink(&q->node);
	if (q->line)
		secret_wipe(q->line, strlen(q->line));
	secret_wipe(q->token, sizeof(q->token));
	free(q->line);
	free(q);
}

static void end(struct door *d)
{
	struct question *q = d->q;
	struct answer a = d->a;

	d->a = (struct answer){ .code = ERR_OK };
	d->q = NULL;
	d->busy = false;
	if (q) {
		answer_fn *fn = q->fn;
		void *arg = q->arg;

		question_free(q);
		fn(arg, &a);
	}
	answer_reset(&a);
	serve(d->all);
}

#define HELD_US 20000                   /* until a place that was full is looked at again */

static bool has_room(struct door *d)
{
	d->held = d->q && d->q->stream && !d->q->stream->room(d->q->arg);
	if (d->held && !ev_timer_armed(d->all->again))
		ev_timer_start(d->all->again, HELD_US);
	return !d->held;
}

static void look_again(void *arg)
{
	struct doors *all = arg;

	for (size_t i = 0; i < all->n; i++)
		if (all->door[i].held)
			stream_kick(all->door[i].stream);
}

static size_t door_data(void *arg, const char *p, size_t len)
{
	struct door *d = arg;
	json_t *line = NULL;
	struct err err;
	size_t text_len = 0;
	ssize_t n;

	if (!has_room(d))
		return 0;
	n = line_next(p, len, d->searched, LINE_MAX_BYTES, &text_len);

	d->searched = n == 0 ? len : 0;
	if (n == 0)
		return 0;
	if (n < 0 || !d->busy) {
		ev_loop_stop(d->all->loop);     /* the server does not speak so */
		return n < 0 ? len : (size_t)n;
	}
	d->bytes += (size_t)n;
	if (d->bytes > CON_ANSWER_MAX && !(d->q && d->q->stream))
		too_long(d);
	if (jx_parse(p, text_len, &line, &err) < 0)
		ev_loop_stop(d->all->loop);
	else if (take_line(d, line))
		end(d);
	jx_wipe(&line);
	return (size_t)n;
}

static void door_ended(void *arg, enum stream_end why)
{
	struct door *d = arg;

	(void)why;
	ev_loop_stop(d->all->loop);
}

/* --- questions */

/* How many a visit has, that run or wait; streams have bounds of their own. */
static unsigned questions_of(const struct doors *all, const char *token)
{
	unsigned n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += all->door[i].q && !all->door[i].q->stream && strcmp(all->door[i].q->token, token) == 0;
	LIST_FOREACH(node, &all->waiting) {
		const struct question *q = CONTAINER_OF(node, struct question, node);

		n += !q->stream && strcmp(q->token, token) == 0;
	}
	return n;
}

struct question *doors_ask(struct doors *all, const struct asker *who, const char *command, json_t *args,
			   const struct question_stream *stream, answer_fn *fn, void *arg)
{
	const char *token = *who->token ? who->token : NULL;
	struct str line = STR_SECRET_INIT;
	struct question *q;
	json_t *doc = json_object();

	(void)json_object_set_new(doc, "command", json_string(command));
	(void)json_object_set_new(doc, "args", args);
	(void)json_object_set_new(doc, "from", json_string(who->from));
	if (token)
		(void)json_object_set_new(doc, "visit", json_string(token));
	if (all->nwaiting >= CON_WAITING || (token && questions_of(all, token) >= CON_RUNNING)) {
		jx_wipe(&doc);
		doors_limited();
		return NULL;
	}
	if (limited > 0)
		(void)json_object_set_new(doc, "limited", json_integer(limited));
	limited = 0;
	jx_write(doc, &line);
	str_putc(&line, '\n');
	jx_wipe(&doc);
	q = mem_zalloc(sizeof(*q));
	q->line = str_take(&line);
	q->all = all;
	q->stream = stream;
	q->fn = fn;
	q->arg = arg;
	if (token)
		memcpy(q->token, token, strnlen(token, CON_TOKEN));
	list_push_back(&all->waiting, &q->node);
	all->nwaiting++;
	serve(all);
	return q;
}

void doors_forget(struct question **qp)
{
	static const char stop[] = "{\"stop\":true}\n";
	struct question *q = *qp;

	if (!q)
		return;
	*qp = NULL;
	if (q->door) {
		q->door->q = NULL;
		if (!q->door->stopped)
			stream_write(q->door->stream, stop, sizeof(stop) - 1);
		q->door->stopped = true;
		if (q->door->held)
			stream_kick(q->door->stream);   /* what it said so far is for nobody */
	} else {
		q->all->nwaiting--;
	}
	question_free(q);
}

struct doors *doors_new(struct ev_loop *loop, const int *fds, size_t n)
{
	static const struct stream_ops ops = { .data = door_data, .ended = door_ended };
	struct doors *all = mem_zalloc(sizeof(*all));

	all->loop = loop;
	all->again = ev_timer_new(loop, look_again, all);
	all->n = n;
	list_init(&all->waiting);
	for (size_t i = 0; i < n; i++) {
		struct door *d = &all->door[i];

		d->all = all;
		d->stream = stream_new(loop, fds[i], fds[i], LINE_MAX_BYTES + 2, &ops, d);
		stream_wipe(d->stream);
	}
	return all;
}
