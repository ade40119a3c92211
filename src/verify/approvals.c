/* Deeds that need two administrators (AUDIT A-909), each against the records of two: a request, its grant by somebody
 * else of the same action and the same text, within a day, used once; or the policy "one", in force by record.  The
 * system log has requests, grants, policies and the record that uses a grant up, and is read first; nothing of it is
 * ever pruned.  What records of older releases do not say is not asked of them. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/payload.h"
#include "audit/second.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

#include "verify_int.h"

#define SLACK_US (60ull * 1000000)      /* from a look at the clock to the record, from a deed to what uses it up */

enum { REQUESTS_MAX = 1 << 16, VERSIONS_MAX = 1 << 18, CHANGES_MAX = 4096 };
static size_t requests_max = REQUESTS_MAX, versions_max = VERSIONS_MAX, changes_max = CHANGES_MAX;

void verify_approvals_bound(size_t n)
{
	requests_max = n < REQUESTS_MAX ? n : REQUESTS_MAX;
	versions_max = n < VERSIONS_MAX ? n : VERSIONS_MAX;
	changes_max = n < CHANGES_MAX ? n : CHANGES_MAX;
}

struct request {
	struct audit_consent said;
	bool has_asked;                 /* not of an older release */
	bool granted, gone;             /* gone: denied, or used up at used_us */
	uint64_t used_us;
};

struct change { uint64_t ts; bool one; };

struct verify_approvals {
	struct map *requests;           /* struct request by number */
	struct map *versions;           /* who asked for a version, text, by the first bytes of a hash */
	struct change *change; size_t nchange;
	bool one, wait;                 /* policies by now */
	bool freed;                     /* by the record at hand, versions do not wait any more */
	bool has_days;                  /* of the log at hand: */
	uint64_t days[2];               /* its newest periods */
	bool stepped;                   /* the clock was set: times are not compared */
	bool overflow, unsaid;          /* unsaid: there are deeds of an older release without an approver */
	bool again;                     /* erasures on the word of keys.db */
	uint64_t first_us, last_us;     /* the first logs.commit that says policies; the newest record of the system log */
};

static void tell(struct verify_log *c, const struct audit_read *got)
{
	verify_tell_record(c, AUDIT_FINDING_APPROVAL, got->idx, got->idx);
}

static bool is_later(const struct verify_approvals *a, uint64_t ts, uint64_t than)
{
	return !a->stepped && ts > than + SLACK_US;
}

static uint64_t time_of(const struct audit_read *got)
{
	return got->row.v[COL_TS].present ? (uint64_t)got->row.v[COL_TS].n : 0;
}

/* --- requests and grants */

static void note_request(struct verify_log *c, const struct audit_read *got, int64_t id)
{
	struct verify_approvals *a = c->v->approvals;
	const struct audit_value *ext = &got->row.v[COL_EXT];
	struct request *r;

	if (map_get_u64(a->requests, (uint64_t)id)) {
		tell(c, got);           /* numbers are never used again */
		return;
	}
	if (map_count(a->requests) >= requests_max) {
		a->overflow = true;
		return;
	}
	r = mem_zalloc(sizeof(*r));
	r->said.asked_us = time_of(got);
	audit_said_who(ext, r->said.asked_by);
	r->has_asked = audit_said_asked(ext, r->said.asked, r->said.asker);
	if (!audit_said_digest(ext, AUDIT_TAG_AFTER, r->said.digest))
		tell(c, got);
	(void)map_set_u64(a->requests, (uint64_t)id, r);
}

static void note_grant(struct verify_log *c, const struct audit_read *got, int64_t id)
{
	struct verify_approvals *a = c->v->approvals;
	const struct audit_value *ext = &got->row.v[COL_EXT];
	struct request *r = map_get_u64(a->requests, (uint64_t)id);
	struct audit_consent g = { .granted_us = time_of(got) };
	char approver[AUDIT_WHO_MAX];
	bool has_asked = audit_said_asked(ext, g.asked, g.granter);

	if (!r) {
		if (!a->overflow)
			tell(c, got);
		return;
	}
	audit_said_who(ext, g.granted_by);
	(void)audit_said_text(ext, AUDIT_TAG_APPROVER, approver, sizeof(approver));
	if (r->granted || r->gone || !audit_said_digest(ext, AUDIT_TAG_AFTER, g.digest)
		|| memcmp(g.digest, r->said.digest, DIGEST_SIZE) != 0 || strcmp(g.granted_by, r->said.asked_by) == 0
		|| strcmp(approver, g.granted_by) != 0 || is_later(a, g.granted_us, r->said.asked_us + AUDIT_CONSENT_US)
		|| has_asked != r->has_asked || (has_asked && memcmp(g.asked, r->said.asked, DIGEST_SIZE) != 0)
		|| (*r->said.asker && strcmp(r->said.asker, g.granter) == 0)) {
		tell(c, got);
		return;
	}
	r->granted = true;
	r->said.granted_us = g.granted_us;
	memcpy(r->said.granted_by, g.granted_by, sizeof(g.granted_by));
}

/* --- what was done with them */

/* A deed that says "uid 1000 approval/7". */
static bool is_granted(const struct verify_approvals *a, const struct request *r, const char *by, size_t len,
		       uint64_t ts)
{
	return r && r->granted && text_eq(by, len, r->said.granted_by) &&
	       !is_later(a, ts, r->said.granted_us + AUDIT_CONSENT_US) && !is_later(a, r->said.granted_us, ts);
}

/* The record of the command itself: what it was allowed to do is used up. */
static void note_use(struct verify_log *c, const struct audit_read *got, int64_t id)
{
	struct verify_approvals *a = c->v->approvals;
	const struct audit_value *ext = &got->row.v[COL_EXT];
	struct request *r = map_get_u64(a->requests, (uint64_t)id);
	uint8_t digest[DIGEST_SIZE];
	char approver[AUDIT_WHO_MAX + 32];
	const char *number;

	if (!audit_said_text(ext, AUDIT_TAG_APPROVER, approver, sizeof(approver))) {
		if (r)
			r->gone = true; /* denied */
		return;
	}
	number = strstr(approver, " approval/");
	if (a->overflow && !r)
		return;
	if (!number || !is_granted(a, r, approver, (size_t)(number - approver), time_of(got)) || r->gone
		|| !audit_said_digest(ext, AUDIT_TAG_AFTER, digest) || memcmp(digest, r->said.digest, DIGEST_SIZE) != 0)
		tell(c, got);
	if (r) {
		r->gone = true;
		r->used_us = time_of(got);
	}
}

/* by: so many bytes of who granted it, then " approval/N". */
static void check_deed(struct verify_log *c, const struct audit_read *got, const char *by, size_t len)
{
	static const char between[] = " approval/";
	const char *number = by + len + sizeof(between) - 1;
	struct verify_approvals *a = c->v->approvals;
	struct request *r;
	uint64_t ts = time_of(got);
	int64_t id = 0;
	bool late;

	(void)text_i64(number, strlen(number), &id);
	r = map_get_u64(a->requests, (uint64_t)id);
	if (!r && a->overflow)
		return;
	/* A server may write on while this is read: its system log was read before. */
	if (!verify_is_system(c) && (!r || !r->granted) && ts > a->last_us)
		return;
	late = r && r->gone && (verify_is_system(c) || !r->used_us || is_later(a, ts, r->used_us));
	if (!is_granted(a, r, by, len, ts) || late)
		tell(c, got);
}

static bool one_was_enough(const struct verify_approvals *a, const struct verify_log *c, uint64_t ts)
{
	if (verify_is_system(c))
		return a->one;
	for (size_t i = 0; i < a->nchange; i++) {
		uint64_t end = i + 1 < a->nchange ? a->change[i + 1].ts : UINT64_MAX - SLACK_US;

		if (a->change[i].one && (a->stepped || (ts + SLACK_US >= a->change[i].ts && ts <= end + SLACK_US)))
			return true;
	}
	return a->overflow || ts > a->last_us;
}

/* --- versions of definitions */

static uint64_t version_key(const struct audit_row *row, const uint8_t digest[DIGEST_SIZE])
{
	uint8_t hash[DIGEST_SIZE], both[DIGEST_SIZE + AUDIT_TEXT_MAX];
	size_t len = row->v[COL_OBJ].len < AUDIT_TEXT_MAX ? row->v[COL_OBJ].len : AUDIT_TEXT_MAX;
	uint64_t key;

	memcpy(both, digest, DIGEST_SIZE);
	memcpy(both + DIGEST_SIZE, row->v[COL_OBJ].p, len);
	digest_sha256(both, DIGEST_SIZE + len, hash);
	memcpy(&key, hash, sizeof(key));
	return key;
}

static void note_version(struct verify_approvals *a, const struct audit_read *got)
{
	const struct audit_value *ext = &got->row.v[COL_EXT];
	uint8_t digest[DIGEST_SIZE];
	char *who;

	if (!got->row.v[COL_OBJ].present || !audit_said_digest(ext, AUDIT_TAG_AFTER, digest))
		return;
	if (map_count(a->versions) >= versions_max) {
		a->overflow = true;
		return;
	}
	who = mem_zalloc(AUDIT_WHO_MAX);
	audit_said_who(ext, who);
	free(map_set_u64(a->versions, version_key(&got->row, digest), who));
}

/* by: who approved, and alone where he says that one is enough. */
static void check_version(struct verify_log *c, const struct audit_read *got, const char *by)
{
	const struct verify_approvals *a = c->v->approvals;
	const struct audit_value *ext = &got->row.v[COL_EXT];
	uint8_t digest[DIGEST_SIZE];
	char who[AUDIT_WHO_MAX];
	const char *author;

	audit_said_who(ext, who);
	if (!got->row.v[COL_OBJ].present || !audit_said_digest(ext, AUDIT_TAG_AFTER, digest)) {
		tell(c, got);
		return;
	}
	author = map_get_u64(a->versions, version_key(&got->row, digest));
	if ((!author && !a->overflow) || strcmp(by, who) != 0 || (author && strcmp(author, who) == 0))
		tell(c, got);
}

/* --- records */

/* "request -> metadata", of a whole tenant; what "default" was is not in the record. */
static bool is_lowered(const struct audit_row *row)
{
	static const char arrow[] = " -> ";
	const struct audit_value *obj = &row->v[COL_OBJ];
	char text[80];
	char *to;
	int level;

	(void)audit_said_text(&row->v[COL_EXT], AUDIT_TAG_REASON, text, sizeof(text));
	to = strstr(text, arrow);
	if (!to || !obj->present || obj->len < sizeof("level/") || memchr((const char *)obj->p + 6, '/', obj->len - 6))
		return false;
	*to = 0;
	level = audit_level_from_name(to + sizeof(arrow) - 1);
	return level >= 0 && level < audit_level_from_name(text);
}

/* Less days than the change before; it may have been pruned. */
static bool is_shorter(struct verify_approvals *a, const struct audit_row *row)
{
	size_t len = 0;
	const struct audit_value *ext = &row->v[COL_EXT];
	const uint8_t *p = audit_field_find(ext->p, ext->len, AUDIT_TAG_COUNTS, &len);
	uint64_t before[2] = { a->days[0], a->days[1] };
	bool known = a->has_days;

	a->has_days = p && len == 16;
	if (!a->has_days)
		return false;
	a->days[0] = audit_get_be(p, 8);
	a->days[1] = audit_get_be(p + 8, 8);    /* 0: no end */
	return known && (a->days[0] < before[0] || (a->days[1] && before[1] && a->days[1] < before[1]));
}

/* What always needs two, as far as the record itself says. */
static bool needs_two(struct verify_approvals *a, const struct audit_row *row)
{
	const struct audit_value *obj = &row->v[COL_OBJ];

	switch (verify_kind(row)) {
	case AUDIT_ERASE:
	case AUDIT_PRUNE:
	case AUDIT_HOLD_RELEASE:
		return true;
	case AUDIT_LEVEL_CHANGE:
		return is_lowered(row);
	case AUDIT_RETENTION_CHANGE:
		return is_shorter(a, row);
	case AUDIT_POLICY_CHANGE:
		return a->freed && obj->present && text_eq(obj->p, obj->len, "approval/versions/free");
	default:
		return false;
	}
}

/* Erased by the server itself, because keys.db said so: nobody signs that. */
static bool is_again(const struct audit_row *row)
{
	return verify_kind(row) == AUDIT_ERASE && row->v[COL_ACTOR].present && row->v[COL_ACTOR].n == AUDIT_BY_SYSTEM;
}

static void check_claim(struct verify_log *c, const struct audit_read *got)
{
	struct verify_approvals *a = c->v->approvals;
	static const char alone[] = "approval policy one";
	char by[AUDIT_WHO_MAX + 64];
	const char *number;
	size_t len;
	bool said = audit_said_text(&got->row.v[COL_EXT], AUDIT_TAG_APPROVER, by, sizeof(by)) && *by;
	bool needs = needs_two(a, &got->row);

	if (!said && is_again(&got->row))
		a->again = true;
	else if (!said && needs && a->first_us && time_of(got) >= a->first_us)
		tell(c, got);
	else if (!said && needs)
		a->unsaid = true;
	if (!said)
		return;
	len = strlen(by);
	number = strstr(by, " approval/");
	if (len >= sizeof(alone) - 1 && strcmp(by + len - (sizeof(alone) - 1), alone) == 0) {
		if (!one_was_enough(a, c, time_of(got)))
			tell(c, got);
	} else if (number) {
		check_deed(c, got, by, (size_t)(number - by));
	} else if (verify_is_system(c)) {
		check_version(c, got, by);
	}
}

static void set_one(struct verify_approvals *a, bool one, uint64_t ts)
{
	a->one = one;
	if (a->nchange >= changes_max) {
		a->overflow = true;
		return;
	}
	a->change = mem_realloc(a->change, (a->nchange + 1) * sizeof(*a->change));
	a->change[a->nchange++] = (struct change){ ts, one };
}

static void note_policy(struct verify_approvals *a, const struct audit_read *got)
{
	const struct audit_value *obj = &got->row.v[COL_OBJ];
	bool one = obj->present && text_eq(obj->p, obj->len, "approval/policy/one");

	a->freed = a->wait && obj->present && text_eq(obj->p, obj->len, "approval/versions/free");
	if (a->freed)
		a->wait = false;
	if (obj->present && text_eq(obj->p, obj->len, "approval/versions/required"))
		a->wait = true;
	if (!one && (!obj->present || !text_eq(obj->p, obj->len, "approval/policy/two")))
		return;
	set_one(a, one, time_of(got));
}

/* logs.commit says which policies are in force.  It may ask for more than the records of before: a server does not
 * believe those that it found unsigned at its start. */
static void check_said(struct verify_log *c, const struct audit_read *got)
{
	struct verify_approvals *a = c->v->approvals;
	const struct audit_value *ext = &got->row.v[COL_EXT];
	size_t len = 0;
	const uint8_t *p = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_POLICIES, &len) : NULL;

	if (!p && !a->first_us)
		return;
	if (!p || len != 2 || (p[0] == 1 && !a->one) || (p[1] != 1 && a->wait))
		tell(c, got);
	if (p && len == 2 && p[0] != 1 && a->one)
		set_one(a, false, time_of(got));
	if (p && len == 2 && p[1] == 1)
		a->wait = true;
	if (!a->first_us)
		a->first_us = time_of(got);
}

static void record_of_system(struct verify_log *c, const struct audit_read *got)
{
	struct verify_approvals *a = c->v->approvals;
	int64_t id = audit_said_number(&got->row.v[COL_OBJ]);

	if (time_of(got) > a->last_us)
		a->last_us = time_of(got);
	switch (verify_kind(&got->row)) {
	case AUDIT_CLOCK_STEP:
		a->stepped = true;
		break;
	case AUDIT_POLICY_CHANGE:
		note_policy(a, got);
		break;
	case AUDIT_LOGS_COMMIT:
		check_said(c, got);
		break;
	case AUDIT_APPROVAL_REQUEST:
		if (id)
			note_request(c, got, id);
		else
			note_version(a, got);
		break;
	case AUDIT_APPROVAL_GRANT:
		note_grant(c, got, id);
		break;
	default:
		break;
	}
}

static int approvals_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	int64_t kind = verify_kind(&got->row), id;

	(void)err;
	if (!c->v->approvals || kind < AUDIT_CRED_CREATE)
		return 0;
	if (verify_is_known(c, got->idx)) {             /* but for what it keeps of the log itself */
		if (kind == AUDIT_RETENTION_CHANGE && got->row.v[COL_EXT].present)
			(void)is_shorter(c->v->approvals, &got->row);
		return 0;
	}
	if (verify_is_system(c))
		record_of_system(c, got);
	if (!got->row.v[COL_EXT].present || kind == AUDIT_APPROVAL_GRANT || kind == AUDIT_APPROVAL_REQUEST)
		return 0;
	id = audit_said_number(&got->row.v[COL_OBJ]);
	if (kind == AUDIT_ADMIN_CMD && id)
		note_use(c, got, id);
	else
		check_claim(c, got);
	return 0;
}

/* --- the step */

static int approvals_open(struct verify *v, struct err *err)
{
	(void)err;
	if (v->tenant_id)               /* the system log is not read then */
		return 0;
	v->approvals = mem_zalloc(sizeof(*v->approvals));
	v->approvals->requests = map_new();
	v->approvals->versions = map_new();
	return 0;
}

static int approvals_begin(struct verify_log *c, struct err *err)
{
	(void)err;
	if (c->v->approvals)
		c->v->approvals->has_days = false;
	return 0;
}

static int approvals_finish(struct verify *v, struct err *err)
{
	(void)err;
	if (v->approvals && v->approvals->overflow)
		verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, NULL, "more approvals than their check keeps in mind");
	if (v->approvals && v->approvals->unsaid)
		verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, NULL,
				  "deeds from before records said which policy was in force name no second administrator");
	if (v->approvals && v->approvals->again)
		verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, NULL,
				  "what keys.db called erased went again when an older store was put back: by whose leave is not on record");
	return 0;
}

/* --- what is carried */

static void save_request(const struct request *r, struct str *to)
{
	const struct audit_consent *s = &r->said;

	pack_bytes(to, s->digest, sizeof(s->digest));
	pack_bytes(to, s->asked, sizeof(s->asked));
	pack_text(to, s->asked_by, strlen(s->asked_by));
	pack_text(to, s->granted_by, strlen(s->granted_by));
	pack_text(to, s->asker, strlen(s->asker));
	pack_u64(to, s->asked_us);
	pack_u64(to, s->granted_us);
	pack_u64(to, r->has_asked);
	pack_u64(to, r->granted);
	pack_u64(to, r->gone);
	pack_u64(to, r->used_us);
}

static void load_request(struct request *r, struct unpack *in)
{
	struct audit_consent *s = &r->said;

	unpack_bytes(in, s->digest, sizeof(s->digest));
	unpack_bytes(in, s->asked, sizeof(s->asked));
	unpack_name(in, s->asked_by, sizeof(s->asked_by));
	unpack_name(in, s->granted_by, sizeof(s->granted_by));
	unpack_name(in, s->asker, sizeof(s->asker));
	s->asked_us = unpack_u64(in);
	s->granted_us = unpack_u64(in);
	r->has_asked = unpack_bool(in);
	r->granted = unpack_bool(in);
	r->gone = unpack_bool(in);
	r->used_us = unpack_u64(in);
}

static uint64_t number_of(const void *key, size_t len)
{
	uint64_t n = 0;

	memcpy(&n, key, len < sizeof(n) ? len : sizeof(n));
	return n;
}

static void save_approvals(const struct verify *v, struct str *to)
{
	const struct verify_approvals *a = v->approvals;
	const uint64_t all[] = { a->one, a->wait, a->stepped, a->overflow, a->unsaid, a->again, a->first_us, a->last_us };
	const void *key;
	size_t len;
	void *value;

	for (size_t i = 0; i < NELEMS(all); i++)
		pack_u64(to, all[i]);
	pack_u64(to, a->nchange);
	for (size_t i = 0; i < a->nchange; i++) {
		pack_u64(to, a->change[i].ts);
		pack_u64(to, a->change[i].one);
	}
	pack_u64(to, map_count(a->requests));
	for (size_t it = 0; map_next(a->requests, &it, &key, &len, &value);) {
		pack_u64(to, number_of(key, len));
		save_request(value, to);
	}
	pack_u64(to, map_count(a->versions));
	for (size_t it = 0; map_next(a->versions, &it, &key, &len, &value);) {
		pack_u64(to, number_of(key, len));
		pack_text(to, value, strlen(value));
	}
}

static void load_approvals(struct verify *v, struct unpack *in)
{
	struct verify_approvals *a = v->approvals;
	bool *const flags[] = { &a->one, &a->wait, &a->stepped, &a->overflow, &a->unsaid, &a->again };

	for (size_t i = 0; i < NELEMS(flags); i++)
		*flags[i] = unpack_bool(in);
	a->first_us = unpack_u64(in);
	a->last_us = unpack_u64(in);
	a->nchange = unpack_count(in, 16);
	in->bad |= a->nchange > CHANGES_MAX;
	a->nchange = in->bad ? 0 : a->nchange;
	a->change = mem_calloc(a->nchange + 1, sizeof(*a->change));
	for (size_t i = 0; i < a->nchange; i++) {
		a->change[i].ts = unpack_u64(in);
		a->change[i].one = unpack_bool(in);
	}
	for (size_t n = unpack_count(in, 136); n > 0 && !in->bad; n--) {
		struct request *r = mem_zalloc(sizeof(*r));
		uint64_t id = unpack_u64(in);

		load_request(r, in);
		free(map_set_u64(a->requests, id, r));
	}
	for (size_t n = unpack_count(in, 16); n > 0 && !in->bad; n--) {
		char *who = mem_zalloc(AUDIT_WHO_MAX);
		uint64_t id = unpack_u64(in);

		unpack_name(in, who, AUDIT_WHO_MAX);
		free(map_set_u64(a->versions, id, who));
	}
	in->bad |= map_count(a->requests) > REQUESTS_MAX || map_count(a->versions) > VERSIONS_MAX;
}

/* The newest periods of the log at hand. */
static void save_days(const struct verify_log *c, struct str *to)
{
	const struct verify_approvals *a = c->v->approvals;

	pack_u64(to, a->has_days);
	pack_u64(to, a->days[0]);
	pack_u64(to, a->days[1]);
}

static void load_days(struct verify_log *c, struct unpack *in)
{
	struct verify_approvals *a = c->v->approvals;

	a->has_days = unpack_bool(in);
	a->days[0] = unpack_u64(in);
	a->days[1] = unpack_u64(in);
}

static void approvals_free(struct verify *v)
{
	struct verify_approvals *a = v->approvals;
	void *value;

	if (!a)
		return;
	for (size_t it = 0; map_next(a->requests, &it, NULL, NULL, &value);)
		free(value);
	for (size_t it = 0; map_next(a->versions, &it, NULL, NULL, &value);)
		free(value);
	map_free(&a->requests);
	map_free(&a->versions);
	free(a->change);
	free(a);
	v->approvals = NULL;
}

const struct verify_step verify_approvals = {
	.name = "approvals", .open = approvals_open, .begin = approvals_begin, .record = approvals_record,
	.finish = approvals_finish, .free = approvals_free, .form = 1, .save = save_approvals, .load = load_approvals,
	.save_log = save_days, .load_log = load_days,
};
