/* Batches: a part of one log, read on the lane as others get it (report/carry.h).  One is read at a time, of whatever
 * sink; the loop says when, and how long it rests then. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "db/db.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "json/json.h"

#include "sink_int.h"

#define HOSTNAME_MAX 255

/* What the lane has; the sink's batch is the lane's meanwhile. */
struct sink_reading {
	struct sink *s;
	struct report_carry of;
	struct str line;                /* of a format that is not the store's */
	uint64_t cpu_us;
	int rc;
	struct err err;
};

static uint64_t cpu_us(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) ? 0 : (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* --- lane */

static int open_reader(struct sinks *a, struct err *err)
{
	if (a->db)
		return 0;
	return forms_open_store(db_in(a->env.store), &a->db, err);
}

static bool wanted(const void *sink, int kind)
{
	const struct sink *s = sink;

	return kind < 0 || kind >= SINK_KIND_CODES || (s->kinds[kind / 8] & 1u << kind % 8) != 0;
}

/* --- what types say of a record */

/* A quotation mark within a text is written with a back slash, so these bytes begin a member and nothing else. */
const char *sink_member(const struct report_carried *r, const char *name, size_t *ret_len)
{
	char key[40];
	const int n = snprintf(key, sizeof(key), ",\"%s\":\"", name);
	const char *p = memmem(r->json, r->len, key, (size_t)n), *end;

	if (!p)
		return NULL;
	p += n;
	for (end = p; *end != '"'; end++)
		end += *end == '\\';
	*ret_len = (size_t)(end - p);
	return p;
}

enum sink_severity sink_severity(const struct report_carried *r)
{
	switch (r->outcome) {
	case AUDIT_CRASHED: case AUDIT_ABORTED: case AUDIT_UNKNOWN:
		return SINK_ERROR;
	case AUDIT_OK: case AUDIT_INPUT_REQUIRED:
		return SINK_INFO;
	}
	switch (r->kind) {
	case AUDIT_SERVER_CRASH: case AUDIT_AUDIT_FAIL:
		return SINK_ERROR;
	case AUDIT_AUTH_FAIL: case AUDIT_AUTH_FAIL_SUMMARY: case AUDIT_CALL_DENIED: case AUDIT_CALL_DENIED_SUMMARY:
		return SINK_WARNING;
	}
	return r->outcome >= 0 ? SINK_WARNING : SINK_INFO;
}

const char *sink_host(struct utsname *room)
{
	if (uname(room) != 0 || room->nodename[0] == '\0' || strlen(room->nodename) > HOSTNAME_MAX)
		return "-";
	for (const char *p = room->nodename; *p; p++)
		if (*p <= ' ' || *p >= 0x7f)
			return "-";
	return room->nodename;
}

/* --- a batch */

static int put_format(enum conf_sink_format format, struct str *body, const struct report_carried *r, struct err *err)
{
	static const unsigned severities[] = { [SINK_INFO] = 3, [SINK_WARNING] = 6, [SINK_ERROR] = 8 };
	json_t *record = NULL, *event;
	int rc = jx_parse(r->json, r->len, &record, err);

	if (rc < 0)
		return rc;
	if (format == CONF_SINK_CEF) {
		report_cef(record, severities[sink_severity(r)], body);
	} else {
		event = report_ocsf(record);
		jx_write(event, body);
		json_decref(event);
	}
	json_decref(record);
	return 0;
}

static int put_line(void *reading, const struct report_carried *r, struct err *err)
{
	struct sink_reading *job = reading;
	struct sink_batch *b = &job->s->batch;
	const struct str row = { .p = (char *)(uintptr_t)r->json, .len = r->len }, *line = &row;
	int rc = 0;

	if (job->s->conf->format != CONF_SINK_JSONL) {
		str_reset(&job->line);
		rc = put_format(job->s->conf->format, &job->line, r, err);
		line = &job->line;
	}
	if (rc == 0 && job->s->type->put) {
		rc = job->s->type->put(job->s, &b->body, r, str_text(line), line->len, err);
	} else {
		str_put(&b->body, str_text(line), line->len);
		str_putc(&b->body, '\n');
	}
	if (b->n == 0) {
		memcpy(b->uid, r->uid, sizeof(b->uid));
		b->ts_us = r->ts_us;
	}
	b->end[b->n] = b->body.len;
	b->idx[b->n++] = r->idx;
	return rc < 0 ? rc : b->body.len >= SINK_PART_BYTES;
}

static int read_part(struct sink_reading *job)
{
	struct sink *s = job->s;
	struct sinks *a = s->all;
	struct report_carrier **carrier = &a->carrier[s->conf->clear];
	int rc = open_reader(a, &job->err);

	rc = rc ? rc : forms_see(a->db, &job->err);
	if (rc < 0)
		return rc;
	if (!*carrier)
		*carrier = report_carrier_new(a->db, s->conf->clear);
	if (s->type->make)
		return s->type->make(s, a->db, *carrier, &job->of, &job->err);
	rc = report_carry(*carrier, &job->of, put_line, job, &s->batch.to, &job->err);
	if (rc == 0) {
		const int64_t there = job->of.first < 0 ? s->batch.to : job->of.first;

		s->batch.pruned = (uint64_t)(there - s->batch.from);
	}
	return rc;
}

static void body(void *reading)
{
	struct sink_reading *job = reading;
	const uint64_t before = cpu_us();

	job->rc = read_part(job);
	job->cpu_us = cpu_us() - before;
}

/* --- loop */

/* So that all the time that is read is no more than the share of all the time. */
static void rest(struct sinks *a, uint64_t used_us)
{
	const unsigned share = a->env.share(a->env.arg);
	const uint64_t now = clock_mono_us();

	if (share >= 100)
		a->paced_us = now;
	else if (share == 0)
		a->paced_us = now + SINK_TICK_MS * 1000ull;
	else
		a->paced_us = now + used_us * (100 - share) / share;
}

static void done(void *reading)
{
	struct sink_reading *job = reading;
	struct sink *s = job->s;
	struct sinks *a = s->all;

	a->reading = NULL;
	a->reading_of = NULL;
	rest(a, job->cpu_us);
	a->on->read(s, job->rc, &job->err);
	str_fini(&job->line);
	free(job);
	a->on->go(a);
}

bool sink_read(struct sink *s, size_t log)
{
	struct sinks *a = s->all;
	const struct sink_log *l = &a->log[log];
	struct sink_reading *job = mem_zalloc(sizeof(*job));

	job->s = s;
	job->of = (struct report_carry){ .log = l->id, .tenant_id = l->tenant_id, .origin = l->origin,
					 .from = s->place[log].next, .to = l->size, .most_rows = SINK_PART_ROWS,
					 .wanted = s->kinds ? wanted : NULL, .wanted_arg = s };
	str_reset(&s->batch.body);
	s->batch.n = 0;
	s->batch.pruned = s->batch.cut = 0;
	s->batch.done = s->batch.part = 0;
	s->batch.log = log;
	s->batch.from = job->of.from;
	if (ev_work(a->env.loop, EV_LANE_SINK, body, done, job) < 0) {
		free(job);
		return false;
	}
	a->reading = job;
	a->reading_of = s;
	return true;
}
