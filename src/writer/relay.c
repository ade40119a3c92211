/* Records of a process that has given its store to another one, and runs on with calls (OP-903, decision 0125): an
 * event as bytes, who waits for which, and the other side of it.  What crosses is what a record is made of; hashes,
 * pseudonyms and keys are the owner's.  Loop thread. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/payload.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pack.h"
#include "writer/writer.h"

#include "writer_int.h"

#define FORM 1                          /* raised when what is packed changes: others are refused */

/* --- an event as bytes, and back */

/* One function each way would be two lists to keep apart; this is one, walked by either side. */
struct side {
	struct str *to;                 /* packs; or NULL, and */
	struct unpack *from;
	char *room;                     /* where texts go that are unpacked, with room for all of them */
};

static uint64_t number(struct side *s, uint64_t n)
{
	if (!s->to)
		return unpack_u64(s->from);
	pack_u64(s->to, n);
	return n;
}

static void spoil(struct side *s)
{
	if (s->to)
		s->to->failed = true;
	else
		s->from->bad = true;
}

#define NUMBER(s, member) ((member) = (__typeof__(member))number((s), (uint64_t)(member)))
/* As it is kept: there or not, so many bytes. */
#define ABSENT UINT64_MAX

static const void *bytes(struct side *s, const void *p, size_t *len, bool text)
{
	const uint64_t n = number(s, p ? *len : ABSENT);
	char *at = s->room;

	if (s->to) {
		pack_bytes(s->to, p, p ? *len : 0);
		return p;
	}
	*len = n == ABSENT || n > s->from->left ? 0 : (size_t)n;
	s->from->bad |= n != ABSENT && n > s->from->left;
	if (n == ABSENT || s->from->bad)
		return NULL;
	unpack_bytes(s->from, at, *len);
	at[*len] = '\0';
	s->from->bad |= text && memchr(at, '\0', *len) != NULL;
	s->room += *len + 1;
	return at;
}

static void text(struct side *s, const char **p)
{
	size_t len = s->to && *p ? strlen(*p) : 0;

	*p = bytes(s, *p, &len, true);
}

static void digest(struct side *s, const uint8_t **p)
{
	size_t len = 32;

	*p = bytes(s, *p, &len, false);
	if (!s->to && *p && len != 32)
		s->from->bad = true;
}

static void id(struct side *s, uint8_t at[16])
{
	if (s->to)
		pack_bytes(s->to, at, 16);
	else
		unpack_bytes(s->from, at, 16);
}

/* What an event borrows, on the other side. */
struct borrowed {
	struct audit_field field[AUDIT_FIELDS_MAX];
	struct audit_payload payload;
	struct audit_hidden hidden[AUDIT_VALUES_MAX][AUDIT_HIDDEN_MAX];
};

static void fields(struct side *s, struct audit_event *ev, struct borrowed *b)
{
	NUMBER(s, ev->nfield);
	if (ev->nfield > AUDIT_FIELDS_MAX) {
		spoil(s);
		ev->nfield = 0;
	}
	for (size_t i = 0; i < ev->nfield; i++) {
		if (s->to)
			b->field[i] = ev->field[i];
		NUMBER(s, b->field[i].tag);
		b->field[i].p = bytes(s, b->field[i].p, &b->field[i].len, false);
	}
	ev->field = s->to ? ev->field : b->field;
}

static void value(struct side *s, struct audit_value_said *v, struct audit_hidden hidden[AUDIT_HIDDEN_MAX])
{
	NUMBER(s, v->ctag);
	NUMBER(s, v->keep);
	NUMBER(s, v->nhidden);
	if (v->nhidden > AUDIT_HIDDEN_MAX) {
		spoil(s);
		v->nhidden = 0;
	}
	for (size_t i = 0; i < v->nhidden; i++) {
		if (s->to)
			hidden[i] = v->hidden[i];
		NUMBER(s, hidden[i].from);
		NUMBER(s, hidden[i].to);
		NUMBER(s, hidden[i].token);
	}
	v->hidden = hidden;
	v->p = bytes(s, v->p, &v->len, false);
	for (size_t i = 0; !s->to && i < v->nhidden; i++)
		s->from->bad |= hidden[i].from > hidden[i].to || hidden[i].to > v->len || (i && hidden[i].from < hidden[i - 1].to);
}

static void payload(struct side *s, struct audit_event *ev, struct borrowed *b)
{
	const bool has = number(s, ev->payload != NULL) != 0;

	if (!has) {
		ev->payload = NULL;
		return;
	}
	if (s->to)
		b->payload = *ev->payload;
	NUMBER(s, b->payload.level);
	NUMBER(s, b->payload.n);
	if (b->payload.n > AUDIT_VALUES_MAX) {
		spoil(s);
		b->payload.n = 0;
	}
	for (size_t i = 0; i < b->payload.n; i++)
		value(s, &b->payload.value[i], b->hidden[i]);
	ev->payload = s->to ? ev->payload : &b->payload;
}

static void numbers(struct side *s, struct audit_event *ev)
{
	NUMBER(s, ev->kind);
	NUMBER(s, ev->tenant_id);
	NUMBER(s, ev->time_us);
	NUMBER(s, ev->mono_us);
	NUMBER(s, ev->has_call);
	NUMBER(s, ev->has_prev);
	NUMBER(s, ev->has_trace);
	NUMBER(s, ev->has_outcome);
	NUMBER(s, ev->has_xstat);
	id(s, ev->call);
	id(s, ev->prev);
	id(s, ev->trace);
	NUMBER(s, ev->actor);
	NUMBER(s, ev->authn);
	NUMBER(s, ev->tport);
	NUMBER(s, ev->n_req);
	NUMBER(s, ev->n_res);
	NUMBER(s, ev->flags);
	NUMBER(s, ev->outcome);
	NUMBER(s, ev->xstat);
	NUMBER(s, ev->sig);
	NUMBER(s, ev->dur_us);
	NUMBER(s, ev->cpu_us);
	NUMBER(s, ev->rss_kib);
	NUMBER(s, ev->generation);
	NUMBER(s, ev->receivers);
}

static void walk(struct side *s, struct audit_event *ev, struct borrowed *b)
{
	const char **const texts[] = { &ev->cred, &ev->prn, &ev->rev, &ev->tool, &ev->rule, &ev->sbox, &ev->sys, &ev->mdl,
				       &ev->obj, &ev->detail, &ev->peer, &ev->client };
	const uint8_t **const digests[] = { &ev->tdef, &ev->before, &ev->after };

	numbers(s, ev);
	for (size_t i = 0; i < NELEMS(texts); i++)
		text(s, texts[i]);
	for (size_t i = 0; i < NELEMS(digests); i++)
		digest(s, digests[i]);
	fields(s, ev, b);
	payload(s, ev, b);
}

/* Records that others write: of a call's end, of what was refused, of who came.  Nothing that a command does. */
static bool may_be_relayed(const struct audit_event *ev)
{
	return ev->kind != AUDIT_CALL_BEGIN && audit_kind_name(ev->kind) && ev->actor >= 0 && ev->outcome >= 0 &&
		ev->outcome < AUDIT_OUTCOME_COUNT && ev->kind < AUDIT_CRED_CREATE && ev->kind > AUDIT_LOG_CLOSE;
}

int wrelay_event(const void *p, size_t len, wrelay_event_fn *fn, void *arg)
{
	struct unpack in = { p, len, false };
	struct borrowed *b = mem_zalloc(sizeof(*b));
	char *room = len <= WRITER_RELAY_BYTES_MAX ? mem_try_realloc(NULL, len + 1) : NULL;
	struct side s = { NULL, &in, room };
	struct audit_event ev = { .kind = AUDIT_CALL_END };
	int rc = room && unpack_u64(&in) == FORM ? 0 : ERR_INVALID;

	if (rc == 0)
		walk(&s, &ev, b);
	if (rc == 0 && (in.bad || in.left > 0 || !may_be_relayed(&ev)))
		rc = ERR_INVALID;
	if (rc == 0)
		rc = fn(arg, &ev);
	free(room);
	free(b);
	return rc;
}

/* --- who waits for which */

int wrelay_audit(struct wrelay *r, const struct audit_event *ev, writer_audit_fn *done, void *arg)
{
	struct audit_event copy = *ev;
	struct borrowed *b = mem_zalloc(sizeof(*b));
	struct str out = { .max = WRITER_RELAY_BYTES_MAX, .secret = true };
	struct side s = { &out, NULL, NULL };
	struct wrelay_waiting *w;
	bool said = false;

	if (!r->broken && map_count(r->waiting) < WRITER_RELAY_WAITING_MAX) {
		pack_u64(&out, FORM);
		walk(&s, &copy, b);
		said = !out.failed && r->to.say(r->to.arg, r->last + 1, out.p, out.len);
	}
	str_wipe(&out);
	free(b);
	if (!said)
		return ERR_AUDIT;
	w = mem_alloc(sizeof(*w));
	*w = (struct wrelay_waiting){ ++r->last, done, arg };
	map_set_u64(r->waiting, w->number, w);
	return 0;
}

static void answer(struct wrelay *r, uint64_t number, int rc, const struct audit_receipt *receipt)
{
	struct wrelay_waiting *it = map_del_u64(r->waiting, number);

	if (it && it->done)
		it->done(it->arg, rc < 0 ? ERR_AUDIT : 0, rc < 0 ? NULL : receipt);
	free(it);
}

void writer_relayed(struct writer *w, uint64_t number, int rc, const struct audit_receipt *receipt)
{
	if (w->relay)
		answer(w->relay, number, rc, receipt);
}

void writer_relay_broken(struct writer *w)
{
	struct wrelay *r = w->relay;
	void *value;

	if (!r)
		return;
	r->broken = true;
	for (size_t it = 0; map_next(r->waiting, &it, NULL, NULL, &value); it = 0)
		answer(r, ((const struct wrelay_waiting *)value)->number, ERR_AUDIT, NULL);
}

size_t writer_relay_waiting(const struct writer *w)
{
	return w->relay ? map_count(w->relay->waiting) : 0;
}
