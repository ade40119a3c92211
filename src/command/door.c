/* The doors of the console: sockets by which its process gives commands for browsers that are signed in.  It reads
 * what strangers wrote, so nothing of what it says is believed but tokens that only browsers have: which visit it is,
 * is found out here, what that may is roles.c's, and what breaks the form ends the door (CONSOLE C-204, C-205).  Loop
 * thread. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "command/visit.h"
#include "ev/ev.h"
#include "json/json.h"
#include "net/stream.h"

#include "command_int.h"

#define WORD_MAX 32
#define ENTER "console enter"

struct command_door {
	struct commands *admin;
	struct ev_loop *loop;
	struct stream *stream;          /* NULL: it is closed, and a command runs */
	struct visit *visit;            /* whose command runs */
	struct command_call *running;
	bool busy, entering;            /* entering: the visit begins with this command */
	void (*gone)(void *arg);
	void *arg;
};

/* What one line asks for; texts are borrowed of doc. */
struct asked {
	json_t *doc, *args;
	const char *command, *token, *from;
	int64_t limited;
	bool stop;
};

/* --- answers */

static void take_part(void *arg, const struct str *rows)
{
	struct command_door *d = arg;

	if (d->stream)
		stream_write_answer(d->stream, rows->p, rows->len);
}

static int has_room(void *arg)
{
	const struct command_door *d = arg;

	return d->stream ? stream_queued(d->stream) < DOOR_QUEUED_MAX : -1;
}

static void let_go(struct command_door *d)
{
	struct visit *visit = d->visit;

	d->busy = false;
	d->running = NULL;
	d->visit = NULL;
	if (visit)
		visit_drop(visit);
}

static void replied(void *arg, const struct str *rows, const struct err *err)
{
	struct command_door *d = arg;

	if (d->entering && err)
		visit_end(d->visit);    /* what is not on record has not happened */
	if (d->stream)
		command_send_reply(d->stream, err ? NULL : rows, err);
	let_go(d);
	if (!d->stream)
		free(d);
	else
		stream_kick(d->stream);
}

/* --- lines */

static int parse(const char *text, size_t len, struct asked *ret, struct err *err)
{
	static const char *const known[] = { "command", "args", "visit", "from", "limited", "stop" };
	int rc = jx_parse(text, len, &ret->doc, err);

	if (rc == 0 && !json_is_object(ret->doc))
		rc = err_set(err, ERR_INVALID, "", "a request must be an object with command and args");
	if (rc == 0)
		rc = jx_only(ret->doc, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_bool(ret->doc, "", "stop", JX_OPTIONAL, &ret->stop, err);
	if (rc < 0 || ret->stop)
		return rc;
	rc = jx_get_string(ret->doc, "", "command", JX_REQUIRED, &ret->command, err);
	if (rc == 0)
		rc = jx_get_object(ret->doc, "", "args", JX_REQUIRED, &ret->args, err);
	if (rc == 0)
		rc = jx_get_string(ret->doc, "", "visit", JX_OPTIONAL, &ret->token, err);
	if (rc == 0)
		rc = jx_get_int(ret->doc, "", "limited", JX_OPTIONAL, 0, DOOR_LIMITED_MAX, &ret->limited, err);
	return rc < 0 ? rc : jx_get_string(ret->doc, "", "from", JX_REQUIRED, &ret->from, err);
}

/* The row, when browsers may ask for it at all. */
static const struct command *row_of(const struct command_door *d, const char *command)
{
	const size_t n = strcspn(command, " ");
	const struct command *cmd;
	char noun[WORD_MAX];

	if (n >= sizeof(noun))
		return NULL;
	memcpy(noun, command, n);
	noun[n] = '\0';
	cmd = command_find(d->admin->env.tables, noun, command[n] ? command + n + 1 : NULL);
	return cmd && cmd->console ? cmd : NULL;
}

/* Whose command it is: of a token, or of the link that signs in. */
static int find_visit(struct command_door *d, struct asked *q, struct err *err)
{
	const char *link = NULL;
	int rc;

	d->entering = strcmp(q->command, ENTER) == 0;
	if (!d->entering) {
		d->visit = q->token ? visits_find(d->admin->env.visits, q->token) : NULL;
		return d->visit ? 0 : err_set(err, ERR_DENIED, "visit", "nobody is signed in here, or not any more");
	}
	rc = jx_get_string(q->args, "", "link", JX_REQUIRED, &link, err);
	if (rc == 0)
		rc = visits_enter(d->admin->env.visits, link, q->from, &d->visit, err);
	if (rc == 0)
		(void)json_object_clear(q->args);
	return rc;
}

static void run(struct command_door *d, struct asked *q)
{
	static const struct command_sink sink = { .part = take_part, .room = has_room };
	struct command_req req = { .cmd = row_of(d, q->command), .sink = &sink };
	struct err err;

	metric_add(METRIC_console_limited, (uint64_t)q->limited);
	if (!req.cmd)
		(void)err_set(&err, ERR_DENIED, "", "the console gives no such command");
	if (!req.cmd || find_visit(d, q, &err) < 0) {
		command_send_reply(d->stream, NULL, &err);
		return;
	}
	req.who = *visit_actor(d->visit);
	req.args = q->args;
	json_incref(q->args);
	(void)json_object_del(q->doc, "args");
	d->busy = true;
	d->running = command_run(d->admin, &req, replied, d);
}

/* --- the socket */

static void broken(struct command_door *d)
{
	void (*gone)(void *arg) = d->gone;
	void *arg = d->arg;

	command_door_close(&d);
	gone(arg);
}

static size_t door_data(void *arg, const char *p, size_t len)
{
	struct command_door *d = arg;
	struct asked q = { 0 };
	struct err err;
	size_t text_len = 0;
	ssize_t n = line_next(p, len, 0, DOOR_LINE_MAX, &text_len);

	if (n == 0)
		return 0;
	if (n < 0 || parse(p, text_len, &q, &err) < 0 || (d->busy && !q.stop)) {
		metric_inc(METRIC_console_broken);
		jx_wipe(&q.doc);
		broken(d);
		return 0;
	}
	if (!q.stop)
		run(d, &q);
	else if (d->running)
		command_hang_up(d->running);
	jx_wipe(&q.doc);
	return (size_t)n;
}

static void door_ended(void *arg, enum stream_end why)
{
	(void)why;
	broken(arg);
}

struct command_door *command_door_open(struct commands *a, struct ev_loop *loop, int fd, void (*gone)(void *arg),
				       void *arg)
{
	static const struct stream_ops ops = { .data = door_data, .ended = door_ended };
	struct command_door *d = mem_zalloc(sizeof(*d));

	d->admin = a;
	d->loop = loop;
	d->gone = gone;
	d->arg = arg;
	d->stream = stream_new(loop, fd, fd, DOOR_LINE_MAX + 2, &ops, d);
	stream_wipe(d->stream);
	return d;
}

void command_door_close(struct command_door **dp)
{
	struct command_door *d = *dp;
	struct command_call *running = d ? d->running : NULL;

	if (!d)
		return;
	*dp = NULL;
	stream_close(&d->stream);
	if (!d->busy)
		free(d);
	else if (running)
		command_hang_up(running);
}
