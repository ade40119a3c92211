/* Spans: their ids and context, whether they are sent (OP-405), and what is sent of them (opentelemetry-proto,
 * trace.v1).  Loop thread. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/metric.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "otel/otlp.h"
#include "otel/pb.h"
#include "otel/span.h"
#include "proto/trace.h"

#include "otel_int.h"

enum { UNUSED_MAX = 256, FLAG_SAMPLED = 1, FLAG_RANDOM = 2, ID_SIZE = 8, TRACE_ID_SIZE = 16 };

/* trace.v1 */
enum {
	SPAN_TRACE_ID = 1, SPAN_SPAN_ID = 2, SPAN_TRACE_STATE = 3, SPAN_PARENT = 4, SPAN_NAME = 5, SPAN_KIND = 6,
	SPAN_START = 7, SPAN_END = 8, SPAN_ATTRIBUTE = 9, SPAN_ATTRIBUTES_DROPPED = 10, SPAN_EVENT = 11, SPAN_LINK = 13,
	SPAN_STATUS = 15, SPAN_FLAGS = 16,
	EVENT_TIME = 1, EVENT_NAME = 2,
	LINK_TRACE_ID = 1, LINK_SPAN_ID = 2, LINK_FLAGS = 6,
	STATUS_CODE = 3, STATUS_ERROR = 2,
	FLAG_HAS_REMOTE = 0x100, FLAG_REMOTE = 0x200,
};

struct event { const char *name; uint64_t mono_us; };

struct span {
	struct otel *o;
	struct span *next;              /* of the unused */
	struct trace trace;             /* with this span as the parent */
	uint8_t id[ID_SIZE], parent[ID_SIZE], flags;
	bool has_parent, remote, has_link;
	uint8_t link_trace[TRACE_ID_SIZE], link_id[ID_SIZE], link_flags;
	enum span_kind kind;
	int64_t tenant_id;
	uint64_t wall_us, mono_us, end_us;      /* end_us: monotonic */
	bool sampled, kept, error;      /* kept: sent although it is not sampled */
	char name[SPAN_NAME_MAX + 1];
	struct event event[SPAN_EVENTS_MAX]; unsigned nevents;
	struct str attributes; unsigned nattributes, dropped;
};

/* --- shares: of a tenant in this second */

struct share { uint64_t second; uint32_t followed, kept; };

static void forget_shares(struct otel *o)
{
	const void *key;
	size_t len;
	void *value;

	for (size_t it = 0; map_next(o->shares, &it, &key, &len, &value);) {
		map_del(o->shares, key, len);
		free(value);
	}
}

static struct share *share_of(struct otel *o, int64_t tenant_id)
{
	const uint64_t second = clock_mono_us() / 1000000;
	struct share *s = map_get_u64(o->shares, (uint64_t)tenant_id);

	if (!s) {
		if (map_count(o->shares) >= SPAN_SHARES_MAX)
			forget_shares(o);
		s = mem_zalloc(sizeof(*s));
		map_set_u64(o->shares, (uint64_t)tenant_id, s);
	}
	if (s->second != second)
		*s = (struct share){ .second = second };
	return s;
}

static bool take(uint32_t *count, uint32_t most)
{
	if (*count >= most)
		return false;
	++*count;
	return true;
}

/* --- sampling (OP-405) */

/* Of 2^56 equally likely numbers the upper `sample` percent: OpenTelemetry's consistent probability, by which all who
 * sample a trace with a random id agree. */
static bool is_lucky(const struct otel *o, const uint8_t random[7])
{
	const uint64_t all = UINT64_C(1) << 56;
	uint64_t v = 0;

	for (size_t i = 0; i < 7; i++)
		v = v << 8 | random[i];
	return v >= all - all / 100 * o->env.conf->otel_sample;
}

static bool decide(struct otel *o, const struct span_from *from, uint8_t parent_flags, const uint8_t id[TRACE_ID_SIZE])
{
	uint8_t random[7];

	if (!from->parent)
		return is_lucky(o, id + TRACE_ID_SIZE - sizeof(random));
	if (!(parent_flags & FLAG_SAMPLED))
		return false;
	if (take(&share_of(o, from->tenant_id)->followed, o->env.conf->otel_parent_limit))
		return true;
	/* Who chooses the ids of his traces does not choose which of them are sent. */
	metric_inc(METRIC_otel_parents_refused);
	id_random(random, sizeof(random));
	return is_lucky(o, random);
}

/* --- ids and context */

static void new_id(uint8_t *ret, size_t n)
{
	static const uint8_t zero[TRACE_ID_SIZE];

	do
		id_random(ret, n);
	while (memcmp(ret, zero, n) == 0);
}

static void read_parent(const struct trace *t, uint8_t ret_id[ID_SIZE], uint8_t *ret_flags)
{
	(void)text_unhex(t->parent + 36, 16, ret_id, ID_SIZE);         /* trace_parse() has seen both */
	(void)text_unhex(t->parent + 53, 2, ret_flags, 1);
}

/* "00-TRACE-SPAN-FLAGS" */
static void write_parent(struct span *s)
{
	char *p = s->trace.parent;

	memcpy(p, "00-", 3);
	text_hex(s->trace.id, sizeof(s->trace.id), p + 3);
	p[35] = '-';
	text_hex(s->id, sizeof(s->id), p + 36);
	p[52] = '-';
	text_hex(&s->flags, 1, p + 53);
}

static struct span *span_new(struct otel *o, enum span_kind kind, int64_t tenant_id)
{
	struct span *s = o->unused;
	struct str attributes = STR_INIT;

	if (s) {
		o->unused = s->next;
		o->nunused--;
		attributes = s->attributes;
	} else {
		s = mem_alloc(sizeof(*s));
		str_init(&attributes, SPAN_BYTES_MAX);
	}
	s->o = o;
	s->attributes = attributes;
	s->kind = kind;
	s->tenant_id = tenant_id;
	s->wall_us = clock_wall_us();
	s->mono_us = s->end_us = clock_mono_us();
	s->has_parent = s->remote = s->has_link = s->kept = s->error = false;
	s->nevents = s->nattributes = s->dropped = 0;
	s->name[0] = '\0';
	new_id(s->id, sizeof(s->id));
	return s;
}

struct span *span_begin(struct otel *o, const struct span_from *from)
{
	struct span *s;

	if (!o)
		return NULL;
	s = span_new(o, SPAN_SERVER, from->tenant_id);
	s->trace.state[0] = '\0';
	s->flags = FLAG_RANDOM;
	if (from->parent) {
		memcpy(s->trace.id, from->parent->id, sizeof(s->trace.id));
		(void)snprintf(s->trace.state, sizeof(s->trace.state), "%s", from->parent->state);      /* fits */
		read_parent(from->parent, s->parent, &s->flags);
		s->has_parent = s->remote = true;
	} else {
		new_id(s->trace.id, sizeof(s->trace.id));
	}
	if (from->link) {
		memcpy(s->link_trace, from->link->id, sizeof(s->link_trace));
		read_parent(from->link, s->link_id, &s->link_flags);
		s->has_link = true;
	}
	s->sampled = decide(o, from, s->flags, s->trace.id);
	s->flags = (uint8_t)((s->flags & FLAG_RANDOM) | (s->sampled ? FLAG_SAMPLED : 0));
	write_parent(s);
	return s;
}

struct span *span_child(const struct span *parent, enum span_kind kind)
{
	struct span *s;

	if (!parent)
		return NULL;
	s = span_new(parent->o, kind, parent->tenant_id);
	memcpy(s->trace.id, parent->trace.id, sizeof(s->trace.id));
	(void)snprintf(s->trace.state, sizeof(s->trace.state), "%s", parent->trace.state);              /* fits */
	memcpy(s->parent, parent->id, sizeof(s->parent));
	s->has_parent = true;
	s->sampled = parent->sampled;
	s->flags = parent->flags;
	write_parent(s);
	return s;
}

const struct trace *span_trace(const struct span *s)
{
	return s ? &s->trace : NULL;
}

/* --- what is said of it */

void span_event(struct span *s, const char *name)
{
	if (s && s->nevents < SPAN_EVENTS_MAX)
		s->event[s->nevents++] = (struct event){ name, clock_mono_us() };
}

bool span_stop(struct span *s, bool failed)
{
	if (!s)
		return false;
	s->end_us = clock_mono_us();
	if (!s->sampled && !s->kept && (failed || s->end_us - s->mono_us > SPAN_SLOW_US))
		s->kept = take(&share_of(s->o, s->tenant_id)->kept, s->o->env.conf->otel_parent_limit);
	return s->sampled || s->kept;
}

void span_name(struct span *s, const char *what, const char *target)
{
	char text[SPAN_NAME_MAX + 1];

	if (!s || s->name[0])
		return;
	(void)snprintf(text, sizeof(text), "%s%s%.*s", what, target ? " " : "", SPAN_NAME_MAX, target ? target : "");
	(void)text_printable(text, strlen(text), s->name, sizeof(s->name));
}

/* Is there room for one more? */
static bool may_say(struct span *s)
{
	if (s && s->nattributes < SPAN_ATTRIBUTES_MAX) {
		s->nattributes++;
		return true;
	}
	if (s)
		s->dropped++;
	return false;
}

/* One that did not fit whole is left out. */
static void said(struct span *s, size_t before)
{
	if (!s->attributes.failed)
		return;
	s->attributes.failed = false;
	s->attributes.len = before;
	s->nattributes--;
	s->dropped++;
}

void span_text_n(struct span *s, const char *key, const char *value, size_t len)
{
	if (!may_say(s))
		return;
	const size_t before = s->attributes.len;

	otlp_text_n(&s->attributes, SPAN_ATTRIBUTE, key, value, len);
	said(s, before);
}

void span_text(struct span *s, const char *key, const char *value)
{
	span_text_n(s, key, value, strlen(value));
}

void span_int(struct span *s, const char *key, int64_t value)
{
	if (!may_say(s))
		return;
	const size_t before = s->attributes.len;

	otlp_int(&s->attributes, SPAN_ATTRIBUTE, key, value);
	said(s, before);
}

void span_error(struct span *s, const char *type)
{
	if (!s || s->error)
		return;
	s->error = true;
	span_text(s, "error.type", type);
}

/* --- what is sent */

static uint64_t wall_ns(const struct span *s, uint64_t mono_us)
{
	return (s->wall_us + (mono_us - s->mono_us)) * 1000;
}

static void put_event(struct str *out, const struct span *s, const struct event *e)
{
	const size_t mark = pb_open(out, SPAN_EVENT);

	pb_fixed64(out, EVENT_TIME, wall_ns(s, e->mono_us));
	pb_text(out, EVENT_NAME, e->name);
	pb_close(out, mark);
}

static void put_link(struct str *out, const struct span *s)
{
	const size_t mark = pb_open(out, SPAN_LINK);

	pb_bytes(out, LINK_TRACE_ID, s->link_trace, sizeof(s->link_trace));
	pb_bytes(out, LINK_SPAN_ID, s->link_id, sizeof(s->link_id));
	pb_fixed32(out, LINK_FLAGS, s->link_flags | FLAG_HAS_REMOTE | FLAG_REMOTE);
	pb_close(out, mark);
}

static void put_span(struct str *out, const struct span *s)
{
	pb_bytes(out, SPAN_TRACE_ID, s->trace.id, sizeof(s->trace.id));
	pb_bytes(out, SPAN_SPAN_ID, s->id, sizeof(s->id));
	if (s->trace.state[0])
		pb_text(out, SPAN_TRACE_STATE, s->trace.state);
	if (s->has_parent)
		pb_bytes(out, SPAN_PARENT, s->parent, sizeof(s->parent));
	pb_text(out, SPAN_NAME, s->name);
	pb_uint(out, SPAN_KIND, s->kind);
	pb_fixed64(out, SPAN_START, wall_ns(s, s->mono_us));
	pb_fixed64(out, SPAN_END, wall_ns(s, s->end_us));
	str_put(out, str_text(&s->attributes), s->attributes.len);
	if (s->dropped)
		pb_uint(out, SPAN_ATTRIBUTES_DROPPED, s->dropped);
	for (unsigned i = 0; i < s->nevents; i++)
		put_event(out, s, &s->event[i]);
	if (s->has_link)
		put_link(out, s);
	if (s->error) {
		const size_t mark = pb_open(out, SPAN_STATUS);

		pb_uint(out, STATUS_CODE, STATUS_ERROR);
		pb_close(out, mark);
	}
	pb_fixed32(out, SPAN_FLAGS, s->flags | FLAG_HAS_REMOTE | (s->remote ? FLAG_REMOTE : 0));
}

static void keep_for_next(struct span *s)
{
	struct otel *o = s->o;

	if (o->nunused >= UNUSED_MAX) {
		str_fini(&s->attributes);
		free(s);
		return;
	}
	str_reset(&s->attributes);
	s->next = o->unused;
	o->unused = s;
	o->nunused++;
}

void span_end(struct span **sp)
{
	struct span *s = *sp;

	if (!s)
		return;
	*sp = NULL;
	if (s->sampled || s->kept) {
		str_reset(&s->o->scratch);
		put_span(&s->o->scratch, s);
		otel_send(s->o, &s->o->scratch);
	}
	keep_for_next(s);
}

void otel_spans_free(struct otel *o)
{
	while (o->unused) {
		struct span *s = o->unused;

		o->unused = s->next;
		str_fini(&s->attributes);
		free(s);
	}
	forget_shares(o);
	map_free(&o->shares);
}
