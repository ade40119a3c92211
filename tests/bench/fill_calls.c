/* Calls of b_fill: how they are drawn, what their records say, and what is planted between them.  Saying is a function of
 * the call, any thread. */

#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#include "fill.h"

/* SplitMix64: the same store for the same seed. */
static uint64_t next_random(void)
{
	uint64_t z = fill.random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static double next_part(void)
{
	return (double)(next_random() >> 11) / 9007199254740992.0;
}

/* Shares of n, the i-th 1 / i^s of the first. */
double *fill_shares(uint64_t n)
{
	double *sum = mem_calloc(n, sizeof(*sum)), all = 0;

	for (uint64_t i = 0; i < n; i++)
		sum[i] = all += pow((double)(i + 1), -opt.zipf);
	for (uint64_t i = 0; i < n; i++)
		sum[i] /= all;
	return sum;
}

static size_t draw(const double *share, uint64_t n)
{
	const double part = next_part();
	size_t from = 0, to = n - 1;

	while (from < to) {
		size_t middle = (from + to) / 2;

		if (share[middle] > part)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

/* --- what is planted */

static void plant(const char *what, double at, struct plant p)
{
	p.what = what;
	p.at = at;
	if (fill.plants < PLANTS_MAX)
		fill.plant[fill.plants++] = p;
}

/* In the order of at. */
void fill_plan(void)
{
	plant("rare_tool", 0.05, (struct plant){ .tool = "rare", .who = -1 });
	plant("tool_error", 0.10, (struct plant){ .who = -1, .tool = "tool_000", .outcome = AUDIT_TOOL_ERROR });
	plant("rare_principal", 0.12, (struct plant){ .who = SELDOM });
	plant("rare_outcome", 0.20, (struct plant){ .who = -1, .outcome = AUDIT_CRASHED });
	plant("oversight", 0.25, (struct plant){ .who = -1, .outcome = AUDIT_INPUT_REQUIRED });
	plant("answer", 0.25, (struct plant){ .who = -1, .answers = 1 });
	plant("drift", 0.30, (struct plant){ .who = -1, .unknown_tool = true });
	plant("rare_principal", 0.35, (struct plant){ .who = SELDOM });
	plant("tool_error", 0.40, (struct plant){ .who = -1, .tool = "tool_000", .outcome = AUDIT_TOOL_ERROR });
	if (opt.tenants > 1)
		plant("isolation", 0.45, (struct plant){ .who = ELSEWHERE });
	plant("rare_tool", 0.46, (struct plant){ .who = -1, .tool = "rare" });
	plant("after_revocation", 0.60, (struct plant){ .who = GONE });
	plant("rare_outcome", 0.70, (struct plant){ .who = -1, .outcome = AUDIT_CRASHED });
	plant("tool_error", 0.80, (struct plant){ .who = -1, .tool = "tool_000", .outcome = AUDIT_TOOL_ERROR });
	plant("rare_principal", 0.85, (struct plant){ .who = SELDOM });
	plant("task", 0.85, (struct plant){ .who = SELDOM, .task = true });
	plant("oversight", 0.86, (struct plant){ .who = -1, .held = true });
}

static json_t *planted_json(const char *what)
{
	json_t *calls = json_array(), *idx = json_array();

	for (size_t i = 0; i < fill.planted; i++) {
		char hex[33], id[37];

		if (strcmp(fill.plant[i].what, what) != 0)
			continue;
		text_hex(fill.plant[i].call, 16, hex);
		(void)snprintf(id, sizeof(id), "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
		json_array_append_new(calls, json_string(id));
		json_array_append_new(idx, json_integer(fill.plant[i].idx));
	}
	return json_pack("{s:s, s:o, s:o}", "tenant", fill.tenant[0].name, "calls", calls, "index", idx);
}

/* A member of planted.WHAT. */
static void also(json_t *planted, const char *what, const char *member, const char *text)
{
	json_object_set_new(json_object_get(planted, what), member, json_string(text));
}

json_t *fill_all_planted(void)
{
	const struct person *others = fill.person + opt.people;
	json_t *all = json_object();
	char hex[65];

	for (size_t i = 0; i < fill.planted; i++)
		if (!json_object_get(all, fill.plant[i].what))
			json_object_set_new(all, fill.plant[i].what, planted_json(fill.plant[i].what));
	also(all, "tool_error", "tool", "tool_000");
	also(all, "tool_error", "outcome", "tool_error");
	also(all, "rare_outcome", "outcome", "crashed");
	also(all, "rare_tool", "tool", "rare");
	also(all, "rare_principal", "principal", "seldom");
	also(all, "rare_principal", "pseudonym", others[SELDOM].prn);
	also(all, "rare_principal", "key", others[SELDOM].cred);
	also(all, "after_revocation", "key", others[GONE].cred);
	if (opt.tenants > 1)
		also(all, "isolation", "key", others[ELSEWHERE].cred);
	text_hex(fill.tdef[0], 32, hex);
	json_object_set_new(all, "common", json_pack("{s:s, s:s, s:s, s:s, s:s}", "tenant", fill.tenant[0].name, "tool", "tool_000",
		"definition", hex, "principal", "agent000", "key", fill.person[0].cred));
	text_hex(fill.rare_tdef, 32, hex);
	also(all, "rare_tool", "definition", hex);
	json_object_set_new(all, "clock", json_pack("{s:I}", "step_ms", -(json_int_t)(STEP_BACK_US / 1000)));
	return all;
}

/* --- drawing */

static void write_call_id(uint8_t id[16], uint64_t us)
{
	uint64_t r[2] = { next_random(), next_random() };

	memcpy(id, r, 16);
	for (unsigned i = 0; i < 6; i++)        /* RFC 9562: milliseconds first */
		id[i] = (uint8_t)(us / 1000 >> (40 - 8 * i));
	id[6] = (uint8_t)(0x70 | (id[6] & 0x0f));
	id[8] = (uint8_t)(0x80 | (id[8] & 0x3f));
}

/* An outcome; tool_000 never says tool_error by itself, so that the planted ones are all there are. */
static int draw_outcome(size_t tool)
{
	static const int outcomes[] = { AUDIT_TOOL_ERROR, AUDIT_TIMEOUT, AUDIT_INVALID, AUDIT_RATE_LIMITED, AUDIT_CANCELLED,
		AUDIT_DENIED, AUDIT_RATE_LIMITED, AUDIT_TIMEOUT };
	const int outcome = outcomes[next_random() % NELEMS(outcomes)];

	if (next_part() >= opt.failures)
		return AUDIT_OK;
	return tool == 0 && outcome == AUDIT_TOOL_ERROR ? AUDIT_TIMEOUT : outcome;
}

static bool is_refused(const struct call *c)
{
	return !c->plant && (c->outcome == AUDIT_DENIED || c->outcome == AUDIT_RATE_LIMITED);
}

size_t fill_records(const struct call *c)
{
	return is_refused(c) || (c->plant && c->plant->held) ? 1 : 2;
}

static void draw_plant(struct call *c, struct plant *p)
{
	c->plant = p;
	c->outcome = p->outcome;
	c->who = p->who >= 0 ? (uint32_t)opt.people + (uint32_t)p->who : 0;
	memcpy(p->call, c->id, sizeof(p->call));
}

void fill_draw(struct call *c)
{
	const uint64_t at = (fill.n - fill.begun) * fill.step_us;
	const bool planted = fill.planted < fill.plants && (double)fill.n >= fill.plant[fill.planted].at * (double)opt.records;

	c->plant = NULL;
	c->us = fill.begun_us + at;
	c->mono_us = fill.begun_mono_us + at;
	c->tenant = planted ? 0 : (uint32_t)draw(fill.tenant_share, opt.tenants);
	c->tool = (uint32_t)draw(fill.tool_share, opt.tools);
	c->outcome = draw_outcome(c->tool);
	c->who = (uint32_t)draw(fill.person_share, opt.people);
	c->dur_us = 200 + (uint64_t)(1000 / (0.01 + next_part()));
	write_call_id(c->id, c->us);
	c->text = next_random();
	if (planted)
		draw_plant(c, &fill.plant[fill.planted++]);
	fill.n += fill_records(c);
}

void fill_at(const struct call *c, int64_t idx)
{
	if (c->plant)
		fill.plant[c->plant - fill.plant].idx = idx;
}

/* --- saying */

static void digits(char *to, size_t n, uint64_t v, unsigned base)
{
	while (n > 0) {
		to[--n] = "0123456789abcdef"[v % base];
		v /= base;
	}
}

const struct person *fill_person(const struct call *c, struct person *room)
{
	if (c->tenant == 0)
		return &fill.person[c->who];
	memcpy(room->prn, "prn_000000000000", sizeof("prn_000000000000"));
	digits(room->prn + 4, 5, c->tenant, 10);
	digits(room->prn + 9, 7, c->who, 10);
	memcpy(room->cred, room->prn + 4, sizeof("000000000000"));
	return room;
}

static void say_values(const struct call *c, struct said *s)
{
	static const char result[] = "{\"content\":[{\"type\":\"text\",\"text\":\"This is what came of it.\"}]}";
	static const char before[] = "{\"text\":\"", behind[] = "\"}";
	const size_t head = sizeof(before) - 1;

	memcpy(s->text, before, head);
	digits(s->text + head, 16, c->text, 16);
	memcpy(s->text + head + 16, behind, sizeof(behind));
	if (opt.level < 0)
		return;
	s->arguments = (struct audit_payload){ .level = opt.level, .n = 1, .value[0] = { .ctag = AUDIT_C_ARGUMENTS,
		.p = s->text, .len = head + 16 + sizeof(behind) - 1, .keep = opt.level >= AUDIT_REQUEST } };
	s->result = (struct audit_payload){ .level = opt.level, .n = 1, .value[0] = { .ctag = AUDIT_C_RESULT, .p = result,
		.len = sizeof(result) - 1, .keep = opt.level >= AUDIT_REQUEST_RESPONSE } };
	s->ev.payload = &s->arguments;
}

static const struct audit_field task[] = { { AUDIT_TAG_TASK, "A00000000000000000task", 22 },
					   { AUDIT_TAG_TASK_END, "\004", 1 } };

const uint8_t fill_drifted[32] = { 0xdd };

static void say_plant(const struct plant *p, struct said *s)
{
	s->ev.tool = p->tool ? p->tool : "tool_000";
	s->ev.tdef = p->unknown_tool ? fill_drifted : strcmp(s->ev.tool, "rare") == 0 ? fill.rare_tdef : fill.tdef[0];
	if (p->answers) {
		s->ev.has_prev = true;
		memcpy(s->ev.prev, (p - p->answers)->call, 16);
	}
	if (!p->held && !p->task)
		return;
	s->ev.kind = p->held ? AUDIT_CALL_HELD : AUDIT_TASK_CREATE;
	s->ev.field = task;
	s->ev.nfield = p->task;
}

void fill_say(const struct call *c, struct said *s)
{
	const bool refused = is_refused(c);
	struct person room;
	const struct person *who = fill_person(c, &room);

	memcpy(s->prn, who->prn, sizeof(s->prn));
	memcpy(s->cred, who->cred, sizeof(s->cred));
	s->ev = (struct audit_event){ .kind = refused ? AUDIT_CALL_DENIED : AUDIT_CALL_BEGIN,
		.tenant_id = fill.tenant[c->tenant].id, .time_us = c->us, .mono_us = c->mono_us, .has_call = true,
		.prn = s->prn, .cred = s->cred, .actor = AUDIT_BY_SERVICE, .authn = AUDIT_AUTHN_KEY, .tport = AUDIT_HTTP,
		.rev = FILL_REVISION, .tool = fill.tool[c->tool], .tdef = fill.tdef[c->tool], .has_outcome = refused,
		.outcome = c->outcome, .n_req = 120, .n_res = -1,
		.rule = !refused ? "grant/1" : c->outcome == AUDIT_DENIED ? "scope" : "rate" };
	memcpy(s->ev.call, c->id, sizeof(c->id));
	say_values(c, s);
	if (c->plant)
		say_plant(c->plant, s);
}

void fill_say_end(const struct call *c, struct said *s)
{
	s->ev.mono_us += fill.step_us;
	if (c->plant && c->plant->task) {
		s->ev.kind = AUDIT_TASK_END;
		s->ev.nfield = NELEMS(task);
		return;
	}
	s->ev.kind = AUDIT_CALL_END;
	s->ev.has_outcome = true;
	s->ev.time_us += fill.step_us / 2;
	s->ev.mono_us += fill.step_us / 2;
	s->ev.n_res = 270;
	s->ev.dur_us = c->dur_us;
	s->ev.cpu_us = c->dur_us / 4;
	s->ev.payload = opt.level < 0 ? NULL : &s->result;
}
