/* Reporters: one process for each report, what it says goes to who has asked, as fast as he reads.  A process is not
 * believed: its frames are bounded, it names no log but those of its question, and it is killed when it says what it
 * should not, when its reader is gone, has lost his role or does not read, and with the server.  However it ends, the
 * second record says so (SCALE SC-501).  Loop thread. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "command/call.h"
#include "ev/ev.h"
#include "ev/helper.h"
#include "json/json.h"
#include "review/reports.h"
#include "tenant/tenant.h"

#include "review_int.h"

#define PROGRAM "toolcrib-report"
#define SCRATCH "scratch"
#define READ_SIZE (REPORT_FRAME_HEAD + REPORT_FRAME_MAX)
#define LINE_MAX_BYTES (2u << 20)       /* of one row */
#define LOOK_US 1000000                 /* between two looks at the role of who reads */
#define SLOW_US 5000                    /* until a full reader is asked again */
#define STALL_US 60000000               /* how long he may read nothing */

struct reports {
	struct ev_loop *loop;
	char *store, *scratch, *archive;
	struct reports_opt opt;
	struct list running, waiting;   /* struct job */
	unsigned nrunning, nfollowing, nwaiting;
	bool stopped;
};

struct job {
	struct list node;
	struct reports *reports;
	struct command_call *c;         /* NULL: it has ended */
	struct report_ask *ask;         /* c's */
	struct ev_helper *helper;
	int fd;
	struct ev_io *io;
	struct ev_timer *timer;         /* role, and a slow reader */
	uint64_t look_us, full_us;      /* next look; since when the reader has no room, 0 = it has */
	struct str out, in;
	struct digest *digest;
	uint64_t rows;                  /* that it has said */
	int64_t tenant_id;              /* whose log alone it may read; -1: any */
	struct str line;                /* of one, what has come so far */
};

static struct log_site no_start, no_rules;

static void next_one(struct reports *r);

/* --- the end */

static void free_job(void *arg)
{
	struct job *j = arg;
	uint8_t digest[DIGEST_SIZE];

	ev_io_free(&j->io);
	ev_timer_free(&j->timer);
	if (j->fd >= 0)
		close(j->fd);
	if (j->digest)
		digest_end(&j->digest, digest);
	str_fini(&j->out);
	str_fini(&j->in);
	str_fini(&j->line);
	free(j);
}

static void leave_list(struct job *j)
{
	struct reports *r = j->reports;

	list_unlink(&j->node);
	if (!j->helper) {
		r->nwaiting--;
		metric_dec(METRIC_report_waiting);
		return;
	}
	metric_dec(METRIC_report_running);
	if (j->ask->follow)
		r->nfollowing--;
	else
		r->nrunning--;
}

/* The one end of a job, from whatever side. */
static void end(struct job *j, const char *how, const struct err *err)
{
	struct command_told told = { .how = how, .rows = j->rows };
	struct reports *r = j->reports;
	struct command_call *c = j->c;

	leave_list(j);
	if (j->io)
		ev_io_want(j->io, false, false);
	ev_timer_stop(j->timer);
	ev_helper_kill(&j->helper);
	digest_end(&j->digest, told.digest);
	j->c = NULL;
	ev_defer(r->loop, free_job, j);
	command_told(c, &told, err);
	next_one(r);
}

static void fail(struct job *j, const char *how, enum err_code code, const char *why)
{
	struct err err;

	(void)err_set(&err, code, "", "%s", why);
	end(j, how, &err);
}

#define READER_GONE "the report was stopped: its reader went away"

/* --- what it says */

static bool is_allowed(const struct job *j, int64_t tenant_id)
{
	return j->tenant_id < 0 || j->tenant_id == tenant_id;
}

/* [[tenant, from, to, rows], …] */
static bool take_seen(struct job *j, const char *p, size_t len)
{
	json_t *list = NULL, *one;
	struct err err;
	size_t i;
	bool fine = jx_parse(p, len, &list, &err) == 0 && json_is_array(list);

	json_array_foreach(fine ? list : NULL, i, one) {
		json_int_t n[4] = { 0 };

		fine = fine && json_is_array(one) && json_array_size(one) == NELEMS(n);
		for (size_t k = 0; fine && k < NELEMS(n); k++) {
			fine = json_is_integer(json_array_get(one, k));
			n[k] = json_integer_value(json_array_get(one, k));
			fine = fine && n[k] >= 0;
		}
		fine = fine && is_allowed(j, n[0]);
		if (fine)
			command_seen_span(j->c, n[0], n[1], n[2], (uint64_t)n[3]);
	}
	json_decref(list);
	return fine;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* How it ended, by its own words; false: they are none. */
static bool take_end(struct job *j, const char *p, size_t len)
{
	static const char *const hows[] = { "done", "limit", "failed" };
	json_t *root = NULL;
	const char *how = NULL;
	struct err err = { 0 };

	if (jx_parse(p, len, &root, &err) == 0)
		for (size_t i = 0; i < NELEMS(hows); i++)
			if (strcmp(text_of(root, "how"), hows[i]) == 0)
				how = hows[i];
	if (how && strcmp(how, "failed") == 0) {
		err = (struct err){ .code = err_from_name(text_of(root, "code")) };
		if (err.code == ERR_OK)
			err.code = ERR_INTERNAL;
		(void)err_set(&err, err.code, text_of(root, "where"), "%s", text_of(root, "message"));
		if (*text_of(root, "hint"))
			err_hint(&err, "%s", text_of(root, "hint"));
		end(j, how, &err);
	} else if (how && j->line.len == 0) {
		if (json_is_true(json_object_get(root, "findings")))
			j->c->status = ADM_STATUS_FINDINGS;
		end(j, how, NULL);
	} else {
		how = NULL;
	}
	json_decref(root);
	return how != NULL;
}

/* Whole lines alone go on: whatever comes behind them can be told from a row. */
static void pass(struct job *j, const char *p, size_t len)
{
	static const char row[] = "{\"row\":";
	const struct str lines = { .p = (char *)(uintptr_t)p, .len = len };

	for (const char *at = p, *nl; (nl = memchr(at, '\n', (size_t)(p + len - at))) != NULL; at = nl + 1)
		j->rows += (size_t)(nl - at) >= sizeof(row) - 1 && memcmp(at, row, sizeof(row) - 1) == 0;
	digest_put(j->digest, p, len);
	command_part(j->c, &lines);
}

/* False: a line is longer than any. */
static bool take_rows(struct job *j, const char *p, size_t len)
{
	const char *nl = memrchr(p, '\n', len);
	const size_t whole = nl ? (size_t)(nl - p) + 1 : 0;

	if (nl && j->line.len > 0) {
		str_put(&j->line, p, whole);
		pass(j, j->line.p, j->line.len);
		str_reset(&j->line);
	} else if (nl) {
		pass(j, p, whole);
	}
	str_put(&j->line, p + whole, len - whole);
	return j->line.len <= LINE_MAX_BYTES;
}

static void broken(struct job *j)
{
	if (log_allow(&no_rules))
		log_warn(NULL, "reporter says what it should not");
	metric_inc(METRIC_report_died);
	fail(j, "killed", ERR_UNREACHABLE, "the report was stopped: its process broke the rules");
}

/* False: it was the last one. */
static bool take_frame(struct job *j, enum report_frame what, const char *p, size_t len)
{
	switch (what) {
	case REPORT_SAYS_ROWS:
		if (!take_rows(j, p, len))
			break;
		return true;
	case REPORT_SAYS_SEEN:
		if (!take_seen(j, p, len))
			break;
		return true;
	case REPORT_SAYS_END:
		if (!take_end(j, p, len))
			break;
		return false;
	}
	broken(j);
	return false;
}

static size_t length_of(const unsigned char *p)
{
	return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

/* Whole frames of what was read, as long as there is room. */
static void look(struct job *j)
{
	size_t at = 0;

	while (j->c && j->in.len - at >= REPORT_FRAME_HEAD && command_room(j->c) > 0) {
		const char *p = j->in.p + at;
		const size_t len = length_of((const unsigned char *)p);

		if (len > REPORT_FRAME_MAX) {
			broken(j);
			return;
		}
		if (j->in.len - at < REPORT_FRAME_HEAD + len)
			break;
		if (!take_frame(j, (enum report_frame)(unsigned char)p[4], p + REPORT_FRAME_HEAD, len))
			return;
		at += REPORT_FRAME_HEAD + len;
	}
	str_drop_front(&j->in, at);
}

static bool is_whole(const struct job *j)
{
	return j->in.len >= REPORT_FRAME_HEAD &&
		j->in.len >= REPORT_FRAME_HEAD + length_of((const unsigned char *)j->in.p);
}

static void died(struct job *j)
{
	metric_inc(METRIC_report_died);
	if (j->rows == 0 && log_allow(&no_start))
		log_err(NULL, "reporter ended before it answered program=" PROGRAM);
	fail(j, "killed", ERR_UNREACHABLE, "the report was cut off: its process was killed, or found no memory");
}

/* --- its socket, and who reads */

static void push(struct job *j)
{
	ssize_t n = j->out.len ? send(j->fd, j->out.p, j->out.len, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

	if (n > 0)
		str_drop_front(&j->out, (size_t)n);
	if (n < 0 && errno != EAGAIN && errno != EINTR)         /* its end is about to be read */
		str_reset(&j->out);
}

/* What there is to do while its reader has room, or has none. */
static void pace(struct job *j)
{
	const uint64_t now = ev_now_us(j->reports->loop);
	const int room = command_room(j->c);

	if (room < 0) {
		fail(j, "cancelled", ERR_CANCELLED, READER_GONE);
		return;
	}
	if (room > 0)
		j->full_us = 0;
	else if (!j->full_us)
		j->full_us = now;
	if (room == 0 && now - j->full_us >= STALL_US) {
		fail(j, "cancelled", ERR_TIMEOUT, "the report was stopped: its reader took nothing for a minute");
		return;
	}
	/* What was read and not taken yet is enough. */
	ev_io_want(j->io, room > 0 && !is_whole(j), j->out.len > 0);
	ev_timer_start(j->timer, room == 0 || is_whole(j) ? SLOW_US : j->look_us > now ? j->look_us - now : 0);
}

static void on_io(void *arg, bool readable, bool writable)
{
	struct job *j = arg;
	char buf[READ_SIZE];
	ssize_t n = 0;

	if (!j->c)                      /* it was ended in this turn */
		return;
	if (writable)
		push(j);
	if (readable) {
		n = recv(j->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0)
			str_put(&j->in, buf, (size_t)n);
		else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			died(j);
			return;
		}
		look(j);
	}
	if (j->c)
		pace(j);
}

static void on_timer(void *arg)
{
	struct job *j = arg;
	const uint64_t now = ev_now_us(j->reports->loop);
	struct err err;

	if (now >= j->look_us) {
		j->look_us = now + LOOK_US;
		if (command_still_may(j->c, &err) < 0) {
			end(j, "cancelled", &err);
			return;
		}
	}
	if (!j->helper) {
		ev_timer_start(j->timer, LOOK_US);
		return;
	}
	look(j);
	if (j->c)
		pace(j);
}

/* --- the beginning */

static int make_scratch(struct reports *r, struct err *err)
{
	if (mkdir(r->scratch, 0700) == 0 || errno == EEXIST)
		return 0;
	return err_set(err, ERR_IO, r->scratch, "cannot make %s: %s", r->scratch, strerror(errno));
}

static void put_question(struct job *j)
{
	struct str text = STR_INIT;

	report_question(j->ask, &j->reports->opt.bounds, &text);
	for (int shift = 24; shift >= 0; shift -= 8)
		str_putc(&j->out, (char)(text.len >> shift));
	str_put(&j->out, text.p, text.len);
	str_fini(&text);
}

/* The one place where reporters begin. */
static int launch(struct job *j, struct err *err)
{
	struct reports *r = j->reports;
	int rc = make_scratch(r, err);

	if (rc == 0)
		rc = ev_helper_start(r->loop, LAUNCHER_REPORT, NULL, &j->fd, &j->helper, err);
	if (rc < 0)
		return rc;
	(void)fcntl(j->fd, F_SETFL, O_NONBLOCK);
	metric_inc(METRIC_report_started);
	metric_inc(METRIC_report_running);
	if (j->ask->follow)
		r->nfollowing++;
	else
		r->nrunning++;
	list_push_back(&r->running, &j->node);
	put_question(j);
	j->io = ev_io_new(r->loop, j->fd, on_io, j);
	push(j);
	j->look_us = ev_now_us(r->loop) + LOOK_US;
	pace(j);
	return 0;
}

static bool has_place(const struct reports *r, const struct report_ask *ask)
{
	return ask->follow ? r->nfollowing < REPORTS_FOLLOW_MAX : r->nrunning < r->opt.at_once && r->nwaiting == 0;
}

static void next_one(struct reports *r)
{
	while (!r->stopped && r->nrunning < r->opt.at_once && !list_empty(&r->waiting)) {
		struct job *j = CONTAINER_OF(r->waiting.next, struct job, node);
		struct err err;

		list_unlink(&j->node);
		if (launch(j, &err) < 0) {
			list_push_front(&r->waiting, &j->node);
			end(j, "failed", &err);
			return;                 /* it has asked for the next one */
		}
		r->nwaiting--;
		metric_dec(METRIC_report_waiting);
	}
}

static int busy(const struct reports *r, const struct report_ask *ask, struct err *err)
{
	static const char *const words[] = { "no", "one", "two", "three", "four", "five", "six", "seven", "eight" };

	metric_inc(METRIC_report_refused);
	if (ask->follow)
		return err_set(err, ERR_BUSY, "", "%d commands follow a log already, which is the limit", REPORTS_FOLLOW_MAX);
	(void)err_set(err, ERR_BUSY, "", "%s report%s run%s already; --wait waits", words[r->opt.at_once],
		      r->opt.at_once == 1 ? "" : "s", r->opt.at_once == 1 ? "s" : "");
	err_hint(err, "and %u wait for their turn; admin.reports in toolcribd.yaml(5) says how many run at once", r->nwaiting);
	return ERR_BUSY;
}

/* Whose log alone is read, as far as the arguments say so; what the store says of a key, the reporter finds out. */
static int64_t tenant_of(const struct command_call *c, const struct report_ask *ask)
{
	const struct tenant *t = *ask->tenant ? tenant_by_name(command_env(c)->tenants, ask->tenant, strlen(ask->tenant))
					      : NULL;

	return t ? t->id : -1;
}

/* Pages have reporters of their own, so that they and the command line do not wait for each other (CONSOLE C-111). */
static struct reports *reports_of(const struct command_call *c)
{
	return c->who.visit ? command_env(c)->paged : command_env(c)->reports;
}

static int start(struct command_call *c, struct err *err)
{
	struct reports *r = reports_of(c);
	struct report_ask *ask = c->priv;
	struct job *j;
	int rc = 0;

	if (r->stopped)
		return err_set(err, ERR_CANCELLED, "", "the server is stopping");
	if (!has_place(r, ask) && (ask->follow || (r->nwaiting >= REPORTS_WAIT_MAX && !arg_given(c, "wait"))))
		return busy(r, ask, err);
	j = mem_zalloc(sizeof(*j));
	j->reports = r;
	j->c = c;
	j->ask = ask;
	j->fd = -1;
	j->tenant_id = tenant_of(c, ask);
	j->digest = digest_new();
	j->timer = ev_timer_new(r->loop, on_timer, j);
	list_init(&j->node);
	if (has_place(r, ask)) {
		rc = launch(j, err);
	} else {
		list_push_back(&r->waiting, &j->node);
		r->nwaiting++;
		metric_inc(METRIC_report_waiting);
		j->look_us = ev_now_us(r->loop) + LOOK_US;
		ev_timer_start(j->timer, LOOK_US);
	}
	if (rc < 0) {
		if (log_allow(&no_start))
			log_err(NULL, "reporter cannot be started program=" PROGRAM " reason=%s", err->msg);
		free_job(j);
	}
	return rc;
}

static void cancel(struct command_call *c, bool stopped)
{
	struct reports *r = reports_of(c);
	struct list *const lists[] = { &r->running, &r->waiting };

	for (size_t i = 0; i < NELEMS(lists); i++) {
		LIST_FOREACH_SAFE(node, tmp, lists[i]) {
			struct job *j = CONTAINER_OF(node, struct job, node);

			if (j->c != c)
				continue;
			fail(j, "cancelled", ERR_CANCELLED, stopped ? "the report was stopped by an administrator" : READER_GONE);
			return;
		}
	}
}

const struct command_elsewhere report_elsewhere = { start, cancel };

/* --- all of them */

struct reports *reports_new(struct ev_loop *loop, const struct reports_opt *opt)
{
	struct reports *r = mem_zalloc(sizeof(*r));

	r->loop = loop;
	r->opt = *opt;
	r->store = mem_strdup(opt->store);
	r->scratch = path_join(opt->store, SCRATCH);
	r->opt.store = r->store;
	r->opt.bounds.scratch = r->scratch;
	r->opt.bounds.archive = r->archive = mem_strdup(opt->bounds.archive ? opt->bounds.archive : "");
	list_init(&r->running);
	list_init(&r->waiting);
	return r;
}

void reports_stop(struct reports *r)
{
	static const char why[] = "the server is stopping";

	if (!r)
		return;
	r->stopped = true;
	while (!list_empty(&r->running))
		fail(CONTAINER_OF(r->running.next, struct job, node), "killed", ERR_CANCELLED, why);
	while (!list_empty(&r->waiting))
		fail(CONTAINER_OF(r->waiting.next, struct job, node), "killed", ERR_CANCELLED, why);
}

void reports_free(struct reports **rp)
{
	struct reports *r = *rp;

	if (!r)
		return;
	*rp = NULL;
	reports_stop(r);
	free(r->store);
	free(r->scratch);
	free(r->archive);
	free(r);
}
