/* Sources, tenants and strangers among the connections, counted; and the penalties of sources. */
#include "config.h"

#include "net/gate.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "ev/ev.h"
#include "metrics/metric.h"

#define SOURCE_KEY 16                   /* an IPv4 address as IPv6 has it, or the upper half of one of IPv6 */
#define SWEEP_US 1000000                /* between two looks for penalties that are over */
#define DOUBLINGS_MAX 16

struct gate_source {
	uint8_t key[SOURCE_KEY];
	unsigned live;
	unsigned faults;                /* in a row; 0: none that is remembered */
	uint64_t until_us;              /* no connection before */
};

struct gate_tenant {
	int64_t id;
	unsigned live;
};

struct gate {
	const struct ev_loop *loop;
	struct gate_limits limits;
	struct map *sources;            /* with connections, or with faults */
	struct map *tenants;            /* with connections */
	unsigned strangers, faulty;     /* connections; sources with faults */
	uint64_t swept_us;
};

struct gate *gate_new(const struct ev_loop *loop, const struct gate_limits *limits)
{
	struct gate *g = mem_zalloc(sizeof(*g));
	g->loop = loop;
	g->limits = *limits;
	g->sources = map_new();
	g->tenants = map_new();
	return g;
}

void gate_limit(struct gate *g, const struct gate_limits *limits)
{
	g->limits = *limits;
}

static void free_values(struct map **m)
{
	void *value;
	for (size_t it = 0; map_next(*m, &it, NULL, NULL, &value);)
		free(value);
	map_free(m);
}

void gate_free(struct gate **pg)
{
	struct gate *g = pg ? *pg : NULL;
	if (!g)
		return;
	*pg = NULL;
	free_values(&g->sources);
	free_values(&g->tenants);
	free(g);
}

/* --- sources ------------------------------------------------------------------------------------- */

/* False: this address is no source. */
static bool source_key(const struct gate *g, const struct addr *from, uint8_t ret[SOURCE_KEY])
{
	if ((!g->limits.loopback && addr_is_loopback(from)) || !addr_ip(from, ret))
		return false;
	if (!addr_ip_is_v4(ret))
		memset(ret + SOURCE_KEY / 2, 0, SOURCE_KEY / 2);
	return true;
}

static struct gate_source *find_source(struct gate *g, const uint8_t key[SOURCE_KEY])
{
	return map_get(g->sources, key, SOURCE_KEY);
}

static struct gate_source *make_source(struct gate *g, const uint8_t key[SOURCE_KEY])
{
	struct gate_source *s = mem_zalloc(sizeof(*s));
	memcpy(s->key, key, SOURCE_KEY);
	(void)map_set(g->sources, key, SOURCE_KEY, s);
	return s;
}

/* So long after its last penalty a source begins anew. */
static bool has_atoned(const struct gate *g, const struct gate_source *s, uint64_t now)
{
	return now >= s->until_us + g->limits.longest_ms * 1000ull;
}

static uint32_t wait_ms(const struct gate *g, const struct gate_source *s)
{
	uint64_t now = ev_now_us(g->loop);
	return s && s->until_us > now ? (uint32_t)((s->until_us - now + 999) / 1000) : 0;
}

static void drop_source(struct gate *g, struct gate_source *s)
{
	g->faulty -= s->faults > 0;
	(void)map_del(g->sources, s->key, SOURCE_KEY);
	free(s);
}

/* Room for one more source with faults? */
static bool make_room(struct gate *g, uint64_t now)
{
	void *value;
	if (g->faulty < GATE_FAULTS_MAX)
		return true;
	if (g->swept_us && now - g->swept_us < SWEEP_US)
		return false;
	g->swept_us = now;
	for (size_t it = 0; map_next(g->sources, &it, NULL, NULL, &value);) {
		struct gate_source *s = value;
		if (s->faults == 0 || !has_atoned(g, s, now))
			continue;
		if (s->live == 0) {
			drop_source(g, s);      /* the pair just returned may be deleted */
		} else {
			s->faults = 0;
			g->faulty--;
		}
	}
	return g->faulty < GATE_FAULTS_MAX;
}

static void fault(struct gate *g, const uint8_t key[SOURCE_KEY], uint32_t first_ms)
{
	uint64_t now = ev_now_us(g->loop), ms = first_ms;
	struct gate_source *s = find_source(g, key);
	if (first_ms == 0 || (s && s->until_us > now))
		return;
	if (!s || s->faults == 0) {
		if (!make_room(g, now)) {
			met_inc(MET_penalties_forgotten);
			return;
		}
		s = find_source(g, key);        /* it may have gone with the others */
		s = s ? s : make_source(g, key);
		g->faulty++;
	} else if (has_atoned(g, s, now)) {
		s->faults = 0;
	}
	ms <<= s->faults < DOUBLINGS_MAX ? s->faults : DOUBLINGS_MAX;
	ms = ms < g->limits.longest_ms ? ms : g->limits.longest_ms;
	s->faults++;
	s->until_us = now + ms * 1000;
	met_inc(MET_penalties);
}

void gate_failed(struct gate *g, const char *from)
{
	struct addr a;
	uint8_t key[SOURCE_KEY];
	if (g && addr_from_host(from, &a) && source_key(g, &a, key))
		fault(g, key, g->limits.failed_ms);
}

void gate_broke(const struct gate_pass *p)
{
	if (p->source)
		fault(p->gate, p->source->key, p->gate->limits.broken_ms);
}

uint32_t gate_penalty_ms(const struct gate_pass *p)
{
	return p->stranger ? wait_ms(p->gate, p->source) : 0;
}

/* --- connections --------------------------------------------------------------------------------- */

/* As OpenSSH's MaxStartups: the chance grows in a line from percent at start to 100 at full. */
static bool falls_on_it(const struct gate *g)
{
	const struct gate_limits *l = &g->limits;
	uint32_t percent = l->percent, lot;
	if (l->full == 0 || g->strangers < l->start)
		return false;
	if (g->strangers >= l->full)
		return true;
	percent += (uint32_t)((uint64_t)(100 - percent) * (g->strangers - l->start) / (l->full - l->start));
	id_random(&lot, sizeof(lot));
	return lot % 100 < percent;
}

enum gate_verdict gate_enter(struct gate *g, const struct addr *from, bool exempt, struct gate_pass *ret,
			     uint32_t *ret_wait_ms)
{
	uint8_t key[SOURCE_KEY];
	*ret = (struct gate_pass){ .gate = g };
	*ret_wait_ms = 0;
	if (!g || exempt || !source_key(g, from, key))
		return GATE_OPEN;
	struct gate_source *s = find_source(g, key);
	*ret_wait_ms = wait_ms(g, s);
	if (*ret_wait_ms > 0) {
		met_inc(MET_connections_penalized);
		return GATE_PENALTY;
	}
	if (s && g->limits.per_source && s->live >= g->limits.per_source) {
		met_inc(MET_connections_over_source);
		return GATE_CROWDED;
	}
	if (falls_on_it(g)) {
		met_inc(MET_connections_dropped_early);
		return GATE_DROPPED;
	}
	s = s ? s : make_source(g, key);
	s->live++;
	g->strangers++;
	ret->source = s;
	ret->stranger = true;
	return GATE_OPEN;
}

static void leave_tenant(struct gate_pass *p)
{
	struct gate_tenant *t = p->tenant;
	p->tenant = NULL;
	if (!t || --t->live > 0)
		return;
	(void)map_del_u64(p->gate->tenants, (uint64_t)t->id);
	free(t);
}

void gate_known(struct gate_pass *p)
{
	if (p->stranger)
		p->gate->strangers--;
	p->stranger = false;
}

void gate_leave(struct gate_pass *p)
{
	struct gate_source *s = p->source;
	if (!p->gate)
		return;
	gate_known(p);
	leave_tenant(p);
	if (s && --s->live == 0 && s->faults == 0)
		drop_source(p->gate, s);
	*p = (struct gate_pass){ .gate = NULL };
}

bool gate_join(struct gate_pass *p, int64_t tenant_id)
{
	struct gate *g = p->gate;
	if (!g || (p->tenant && p->tenant->id == tenant_id))
		return true;
	gate_known(p);
	struct gate_tenant *t = map_get_u64(g->tenants, (uint64_t)tenant_id);
	if (t && g->limits.per_tenant && t->live >= g->limits.per_tenant) {
		met_inc(MET_connections_over_tenant);
		return false;
	}
	if (!t) {
		t = mem_zalloc(sizeof(*t));
		t->id = tenant_id;
		(void)map_set_u64(g->tenants, (uint64_t)tenant_id, t);
	}
	t->live++;
	leave_tenant(p);
	p->tenant = t;
	return true;
}
