/* Reports on a log: what was refused, what administrators did, how each tool fares.  Reading is itself a record, durable
 * before anything is shown (AUDIT A-304). */
#include "config.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"
#include "tenant/tenant.h"

#include "adm_commands.h"
#include "admin_int.h"

#define ROWS_DEFAULT 100
#define BUCKETS 48                      /* of durations: bucket n holds those below 2^n µs */

/* What one tool's calls came to. */
struct tally {
	uint64_t calls, ok, errors, timeouts, refused, other;
	uint64_t longest_us, bucket[BUCKETS];
};

struct report {
	char tenant[64], tool[72], principal[64];
	uint64_t since_us, until_us;
	uint32_t limit, shown;
	int64_t tenant_id;
	struct adm_call *c;
	struct adm_out *out;
	struct map *names;              /* pseudonym -> name, of the tenant */
	struct map *tallies;            /* tool -> struct tally */
};

static void free_report(void *priv)
{
	struct report *r = priv;
	void *tally;

	adm_names_free(&r->names);
	for (size_t it = 0; r->tallies && map_next(r->tallies, &it, NULL, NULL, &tally); )
		free(tally);
	map_free(&r->tallies);
	free(r);
}

int adm_report_check(struct adm_call *c, struct err *err)
{
	struct report *r = adm_priv(c, sizeof(*r));
	const struct tenant *t;

	(void)err;
	c->free_priv = free_report;
	r->c = c;
	r->out = c->out;
	adm_copy(c, "tenant", r->tenant, sizeof(r->tenant));
	adm_copy(c, "tool", r->tool, sizeof(r->tool));
	adm_copy(c, "principal", r->principal, sizeof(r->principal));
	r->since_us = adm_time(c, "since");
	r->until_us = adm_time(c, "until");
	r->limit = adm_uint(c, "limit", ROWS_DEFAULT);
	t = *r->tenant ? tenant_by_name(c->admin->env.tenants, r->tenant, strlen(r->tenant)) : NULL;
	if (t)
		adm_record_in(c, t->id);
	return 0;
}

/* Walk the tenant's log, or the system's when none is named, newest first. */
static int walk(struct report *r, struct db *db, int kind, audit_row_fn *fn, struct err *err)
{
	struct audit_filter f = { .since_us = r->since_us, .until_us = r->until_us, .outcome = -1, .kind = kind,
		.tool = *r->tool ? r->tool : NULL, .limit = UINT_MAX };
	struct adm_principal p;
	struct adm_tenant t;
	int rc = 0;

	if (*r->tenant) {
		rc = adm_find_tenant(db, r->tenant, &t, err);
		if (rc == 0)
			rc = adm_names_load(db, t.id, &r->names, err);
		if (rc < 0)
			return rc;
		f.tenant_id = r->tenant_id = t.id;
	}
	if (*r->principal) {
		rc = adm_find_principal(db, &t, r->principal, &p, err);
		if (rc < 0)
			return rc;
		f.prn = p.pseudonym;
	}
	return audit_query(db, &f, fn, r, err);
}

static int enough(struct report *r)
{
	return adm_full(r->out) || (r->limit > 0 && ++r->shown >= r->limit);
}

/* --- denied */

static int denied_row(void *arg, const struct audit_view *v)
{
	struct report *r = arg;

	adm_seen(r->c, r->tenant_id, v->idx);
	adm_row_begin(r->out);
	adm_put_time(r->out, "time", v->ts_us);
	adm_put_text(r->out, "tool", v->tool);
	adm_put_text(r->out, "principal", adm_person(r->names, v->prn));
	adm_put_text(r->out, "key", v->cred);
	adm_put_text(r->out, "rule", v->rule);
	adm_put_text(r->out, "outcome", v->has_outcome ? audit_outcome_name(v->outcome) : NULL);
	adm_put_text(r->out, "transport", v->tport ? audit_tport_name(v->tport) : NULL);
	adm_put_text(r->out, "revision", v->rev);
	adm_put_text(r->out, "detail", v->detail);
	adm_row_end(r->out);
	return enough(r);
}

int adm_audit_denied_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)logs;
	return walk(c->priv, db, AUDIT_CALL_DENIED, denied_row, err);
}

/* --- admin */

/* All but what agents do once they are in: calls, lists, notices. */
static bool by_administrators(int kind)
{
	return kind >= AUDIT_AUTH_FAIL || kind == AUDIT_LOG_OPEN || kind == AUDIT_LOG_CLOSE;
}

static int admin_row(void *arg, const struct audit_view *v)
{
	struct report *r = arg;
	const char *kind = audit_kind_name(v->kind);

	if (!by_administrators(v->kind))
		return 0;
	adm_seen(r->c, r->tenant_id, v->idx);
	adm_row_begin(r->out);
	adm_put_time(r->out, "time", v->ts_us);
	adm_put_int(r->out, "index", v->idx);
	adm_put_text(r->out, "kind", kind ? kind : "unknown");
	adm_put_text(r->out, "object", v->obj);
	adm_put_text(r->out, "principal", adm_person(r->names, v->prn));
	adm_put_text(r->out, "key", v->cred);
	adm_put_text(r->out, "detail", v->detail);
	adm_row_end(r->out);
	return enough(r);
}

int adm_audit_admin_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)logs;
	return walk(c->priv, db, 0, admin_row, err);
}

/* --- tool-health */

static void count_outcome(struct tally *t, const struct audit_view *v)
{
	static const char refused[] = { AUDIT_INVALID, AUDIT_DENIED, AUDIT_RATE_LIMITED, AUDIT_OVERLOAD };

	if (v->kind == AUDIT_CALL_DENIED || memchr(refused, v->outcome, sizeof(refused)))
		t->refused++;
	else if (v->outcome == AUDIT_OK || v->outcome == AUDIT_INPUT_REQUIRED)
		t->ok++;
	else if (v->outcome == AUDIT_TOOL_ERROR)
		t->errors++;
	else if (v->outcome == AUDIT_TIMEOUT)
		t->timeouts++;
	else
		t->other++;
}

static int tally_row(void *arg, const struct audit_view *v)
{
	struct report *r = arg;
	struct tally *t;
	unsigned n = 0;

	if ((v->kind != AUDIT_CALL_END && v->kind != AUDIT_CALL_DENIED && v->kind != AUDIT_CALL_RECOVERED) || !v->tool)
		return 0;
	adm_seen(r->c, r->tenant_id, v->idx);
	t = map_get_z(r->tallies, v->tool);
	if (!t) {
		t = mem_zalloc(sizeof(*t));
		(void)map_set_z(r->tallies, v->tool, t);
	}
	t->calls++;
	count_outcome(t, v);
	if (v->kind != AUDIT_CALL_END)
		return 0;
	while (n < BUCKETS - 1 && v->dur_us >> n)
		n++;
	t->bucket[n]++;
	if (v->dur_us > t->longest_us)
		t->longest_us = v->dur_us;
	return 0;
}

/* An upper bound of the time that so many of a hundred calls took, within a factor of two. */
static uint64_t percentile_us(const struct tally *t, unsigned percent)
{
	uint64_t all = 0, seen = 0;

	for (unsigned n = 0; n < BUCKETS; n++)
		all += t->bucket[n];
	for (unsigned n = 0; n < BUCKETS; n++) {
		seen += t->bucket[n];
		if (all > 0 && seen * 100 >= all * percent)
			return 1ull << n < t->longest_us ? 1ull << n : t->longest_us;
	}
	return 0;
}

static void put_tally(struct adm_out *o, const char *tool, const struct tally *t)
{
	adm_row_begin(o);
	adm_put_text(o, "tool", tool);
	adm_put_int(o, "calls", (int64_t)t->calls);
	adm_put_int(o, "ok", (int64_t)t->ok);
	adm_put_int(o, "errors", (int64_t)t->errors);
	adm_put_int(o, "timeouts", (int64_t)t->timeouts);
	adm_put_int(o, "refused", (int64_t)t->refused);
	adm_put_int(o, "other", (int64_t)t->other);
	adm_put_ms(o, "p50_ms", percentile_us(t, 50));
	adm_put_ms(o, "p95_ms", percentile_us(t, 95));
	adm_put_ms(o, "max_ms", t->longest_us);
	adm_row_end(o);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void put_tallies(struct report *r)
{
	size_t n = 0, count = map_count(r->tallies), len;
	char **names = mem_calloc(count ? count : 1, sizeof(*names));
	const void *key;

	for (size_t it = 0; map_next(r->tallies, &it, &key, &len, NULL); )
		names[n++] = mem_strndup(key, len);
	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; i < n; i++) {
		put_tally(r->out, names[i], map_get_z(r->tallies, names[i]));
		free(names[i]);
	}
	free(names);
}

int adm_audit_tool_health_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct report *r = c->priv;
	int rc;

	(void)logs;
	r->tallies = map_new();
	rc = walk(r, db, 0, tally_row, err);
	if (rc == 0)
		put_tallies(r);
	return rc;
}
