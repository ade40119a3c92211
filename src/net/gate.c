/* Sources, tenants and strangers among the connections, counted; and the penalties of sources. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "net/gate.h"

#define SOURCE_KEY 16                   /* addr_source() */
#define NET_KEY 6                       /* bytes of it that a /48 has */
#define SWEEP_US 1000000                /* between two looks for penalties that are over */
#define DOUBLINGS_MAX 16
#define GATE_HOLD_RETRY_MS 1000         /* a body has seconds, so that room comes soon */

struct gate_source {                    /* or a /48 */
	uint8_t key[SOURCE_KEY];
	bool is_net;
	unsigned live;                  /* connections; of a /48, its sources with faults */
	unsigned faults;                /* in a row; 0: none that is remembered */
	size_t held;                    /* bytes of messages that are not whole */
	uint64_t until_us;              /* no connection before */
	struct list node;               /* in struct offenders while it has faults */
};

/* Of one family, so that who has many addresses of one fills nothing that the other needs. */
struct offenders {
	struct list once, again;        /* with one fault, with more; who had the last one longest ago is first */
	unsigned n;
	uint64_t swept_us;
};

struct gate_tenant {
	int64_t id;
	unsigned live;
	size_t held;
};

struct gate {
	const struct ev_loop *loop;
	struct gate_limits limits;
	struct map *sources;            /* with connections, or with faults */
	struct map *nets;               /* with such sources, or with faults of their own */
	struct map *tenants;            /* with connections */
	unsigned strangers;             /* connections */
	size_t held;
	struct offenders v4, v6;
};

static void offenders_init(struct offenders *o)
{
	list_init(&o->once);
	list_init(&o->again);
}

struct gate *gate_new(const struct ev_loop *loop, const struct gate_limits *limits)
{
	struct gate *g = mem_zalloc(sizeof(*g));
	g->loop = loop;
	g->limits = *limits;
	g->sources = map_new();
	g->nets = map_new();
	offenders_init(&g->v4);
	offenders_init(&g->v6);
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
	free_values(&g->nets);
	free_values(&g->tenants);
	free(g);
}

/* --- sources */

/* False: this address is no source. */
static bool source_key(const struct gate *g, const struct addr *from, uint8_t ret[SOURCE_KEY])
{
	return (g->limits.loopback || !addr_is_loopback(from)) && addr_source(from, ret);
}

static struct gate_source *find_source(struct gate *g, const uint8_t key[SOURCE_KEY])
{
	return map_get(g->sources, key, SOURCE_KEY);
}

/* NULL for IPv4 too. */
static struct gate_source *find_net(struct gate *g, const uint8_t key[SOURCE_KEY])
{
	return addr_ip_is_v4(key) ? NULL : map_get(g->nets, key, NET_KEY);
}

static struct gate_source *make_source(struct gate *g, const uint8_t key[SOURCE_KEY], bool is_net)
{
	struct gate_source *s = mem_zalloc(sizeof(*s));
	s->is_net = is_net;
	memcpy(s->key, key, is_net ? NET_KEY : SOURCE_KEY);
	list_init(&s->node);
	(void)map_set(is_net ? g->nets : g->sources, key, is_net ? NET_KEY : SOURCE_KEY, s);    /* there was none */
	return s;
}

/* Unless it has connections, sources with faults, or faults. */
static void drop_source(struct gate *g, struct gate_source *s)
{
	if (s->live > 0 || s->faults > 0)
		return;
	(void)map_del(s->is_net ? g->nets : g->sources, s->key, s->is_net ? NET_KEY : SOURCE_KEY);
	free(s);
}

/* So long after its last penalty a source begins anew. */
static bool has_atoned(const struct gate *g, const struct gate_source *s, uint64_t now)
{
	return now >= s->until_us + g->limits.longest_ms * 1000ull;
}

static bool has_to_wait(const struct gate_source *s, uint64_t now)
{
	return s && s->until_us > now;
}

static uint32_t wait_ms(struct gate *g, const uint8_t key[SOURCE_KEY])
{
	const struct gate_source *s = find_source(g, key), *net = find_net(g, key);
	uint64_t now = ev_now_us(g->loop);
	if (has_to_wait(net, now) && (!s || net->until_us > s->until_us))
		s = net;
	return has_to_wait(s, now) ? (uint32_t)((s->until_us - now + 999) / 1000) : 0;
}

/* --- faults */

static struct offenders *offenders_of(struct gate *g, const uint8_t key[SOURCE_KEY])
{
	return addr_ip_is_v4(key) ? &g->v4 : &g->v6;
}

static void remember(struct gate *g, struct gate_source *s)
{
	offenders_of(g, s->key)->n++;
	if (s->is_net || addr_ip_is_v4(s->key))
		return;
	struct gate_source *net = find_net(g, s->key);
	net = net ? net : make_source(g, s->key, true);
	net->live++;
}

/* s may be gone then, and its /48. */
static void forget(struct gate *g, struct gate_source *s)
{
	struct gate_source *net = s->is_net ? NULL : find_net(g, s->key);
	offenders_of(g, s->key)->n--;
	list_unlink(&s->node);
	s->faults = 0;
	s->until_us = 0;
	drop_source(g, s);
	if (net) {
		net->live--;
		drop_source(g, net);
	}
}

static void forget_atoned(struct gate *g, struct list *offenders, uint64_t now)
{
	LIST_FOREACH_SAFE(n, tmp, offenders) {
		struct gate_source *s = CONTAINER_OF(n, struct gate_source, node);
		if (has_atoned(g, s, now))
			forget(g, s);
	}
}

/* Room for one more?  Who had one fault makes room: no flood of new sources puts out who came back after a penalty. */
static bool make_room(struct gate *g, struct offenders *o, uint64_t now)
{
	if (o->n < GATE_FAULTS_MAX)
		return true;
	if (!o->swept_us || now - o->swept_us >= SWEEP_US) {
		o->swept_us = now;
		forget_atoned(g, &o->once, now);
		forget_atoned(g, &o->again, now);
	}
	if (o->n < GATE_FAULTS_MAX)
		return true;
	metric_inc(METRIC_penalties_forgotten);
	if (list_empty(&o->once))
		return false;
	forget(g, CONTAINER_OF(o->once.next, struct gate_source, node));
	return true;
}

/* Let the /48 of this source stand for its sources that have faults, with the most that one of them had. */
static struct gate_source *merge(struct gate *g, struct gate_source *net)
{
	struct list *const lists[] = { &g->v6.once, &g->v6.again };
	unsigned faults = 0;
	net->faults = 1;                /* it stays */
	for (size_t i = 0; i < NELEMS(lists); i++) {
		LIST_FOREACH_SAFE(n, tmp, lists[i]) {
			struct gate_source *s = CONTAINER_OF(n, struct gate_source, node);
			if (s->is_net || memcmp(s->key, net->key, NET_KEY) != 0)
				continue;
			faults = s->faults > faults ? s->faults : faults;
			forget(g, s);
		}
	}
	net->faults = faults;
	remember(g, net);
	return net;
}

/* Whose fault it is: the source's, or that of its /48.  NULL: too many are remembered. */
static struct gate_source *offender(struct gate *g, const uint8_t key[SOURCE_KEY], uint64_t now)
{
	struct gate_source *net = find_net(g, key), *s;
	if (net && net->faults > 0 && !has_atoned(g, net, now))
		return net;
	if (net && net->faults > 0)
		forget(g, net);
	s = find_source(g, key);
	if (s && s->faults > 0) {
		s->faults = has_atoned(g, s, now) ? 0 : s->faults;
		return s;
	}
	net = find_net(g, key);
	if (net && net->live >= GATE_NET_FAULTS_MAX) {
		forget_atoned(g, &g->v6.once, now);
		forget_atoned(g, &g->v6.again, now);
		net = find_net(g, key);
	}
	if (net && net->live >= GATE_NET_FAULTS_MAX)
		return merge(g, net);
	if (!make_room(g, offenders_of(g, key), now))
		return NULL;
	s = find_source(g, key);
	s = s ? s : make_source(g, key, false);
	remember(g, s);
	return s;
}

static void fault(struct gate *g, const uint8_t key[SOURCE_KEY], uint32_t first_ms)
{
	struct offenders *o = offenders_of(g, key);
	uint64_t now = ev_now_us(g->loop), ms = first_ms;
	if (first_ms == 0 || wait_ms(g, key) > 0)
		return;
	struct gate_source *s = offender(g, key, now);
	if (!s)
		return;
	ms <<= s->faults < DOUBLINGS_MAX ? s->faults : DOUBLINGS_MAX;
	ms = ms < g->limits.longest_ms ? ms : g->limits.longest_ms;
	s->faults++;
	s->until_us = now + ms * 1000;
	list_unlink(&s->node);
	list_push_back(s->faults > 1 ? &o->again : &o->once, &s->node);
	metric_inc(METRIC_penalties);
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
	return p->stranger && p->source ? wait_ms(p->gate, p->source->key) : 0;
}

/* --- connections */

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
	*ret_wait_ms = wait_ms(g, key);
	if (*ret_wait_ms > 0) {
		metric_inc(METRIC_connections_penalized);
		return GATE_PENALTY;
	}
	if (s && g->limits.per_source && s->live >= g->limits.per_source) {
		metric_inc(METRIC_connections_over_source);
		return GATE_CROWDED;
	}
	if (falls_on_it(g)) {
		metric_inc(METRIC_connections_dropped_early);
		return GATE_DROPPED;
	}
	s = s ? s : make_source(g, key, false);
	s->live++;
	g->strangers++;
	ret->source = s;
	ret->stranger = true;
	return GATE_OPEN;
}

/* --- bytes of messages that are not whole (HARDENING F-5) */

static void add_held(struct gate_pass *p, size_t add, size_t less)
{
	p->gate->held += add - less;
	p->held += add - less;
	if (p->source)
		p->source->held += add - less;
	if (p->tenant)
		p->tenant->held += add - less;
	metric_set(METRIC_budget_bodies_bytes, p->gate->held);
}

static int refuse_bytes(size_t bytes, size_t limit, const char *whose, const char *key, struct err *err)
{
	metric_inc(METRIC_budget_bodies_refused);
	(void)err_set(err, ERR_BUSY, "", "too many bytes of messages are on their way %s: %zu with this one, allowed are %zu "
		      "(%s)", whose, bytes, limit, key);
	if (err)
		err->retry_ms = GATE_HOLD_RETRY_MS;
	return ERR_BUSY;
}

int gate_hold(struct gate_pass *p, size_t bytes, struct err *err)
{
	const struct gate *g = p->gate;
	size_t more = bytes > p->held ? bytes - p->held : 0;
	const struct gate_limits *l = g ? &g->limits : NULL;

	if (!g)
		return 0;
	if (p->stranger && bytes > GATE_SMALL_MAX)
		return err_set(err, ERR_DENIED, "", "a message of more than %u bytes needs a credential", GATE_SMALL_MAX);
	size_t all = bytes > GATE_SMALL_MAX ? l->bodies - l->bodies / 8 : l->bodies;
	if (more > 0 && p->source && l->bodies_source && p->source->held + more > l->bodies_source)
		return refuse_bytes(p->source->held + more, l->bodies_source, "from this address",
				    "budgets.bodies_per_source", err);
	if (more > 0 && p->tenant && l->bodies_tenant && p->tenant->held + more > l->bodies_tenant)
		return refuse_bytes(p->tenant->held + more, l->bodies_tenant, "from this tenant",
				    "budgets.bodies_per_tenant", err);
	if (more > 0 && l->bodies && g->held + more > all)
		return refuse_bytes(g->held + more, all, "to this server", "budgets.bodies", err);
	add_held(p, more, bytes < p->held ? p->held - bytes : 0);
	return 0;
}

struct gate_tenant_view gate_tenant_see(const struct gate *g, int64_t tenant_id)
{
	const struct gate_tenant *t = map_get_u64(g->tenants, (uint64_t)tenant_id);

	return (struct gate_tenant_view){ t ? t->held : 0, g->limits.bodies_tenant, t ? t->live : 0, g->limits.per_tenant };
}

void gate_release(struct gate_pass *p)
{
	if (p->gate && p->held > 0)
		add_held(p, 0, p->held);
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
	gate_release(p);
	gate_known(p);
	leave_tenant(p);
	if (s) {
		s->live--;
		drop_source(p->gate, s);
	}
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
		metric_inc(METRIC_connections_over_tenant);
		return false;
	}
	if (!t) {
		t = mem_zalloc(sizeof(*t));
		t->id = tenant_id;
		(void)map_set_u64(g->tenants, (uint64_t)tenant_id, t);
	}
	t->live++;
	size_t held = p->held;
	gate_release(p);                /* what it holds goes along */
	leave_tenant(p);
	p->tenant = t;
	add_held(p, held, 0);
	return true;
}
