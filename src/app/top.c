/* top, the command: each interval what the server has counted, as one row (OP-201).  On the loop, where all of it
 * is; what that costs is bounded by the rows that a sample has of each kind.  A tenant's own is all that is said
 * with --tenant. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "alert/alert.h"
#include "audit/audit.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/tally.h"
#include "base/text.h"
#include "command/call.h"
#include "command/rows.h"
#include "ev/ev.h"
#include "json/json.h"
#include "limit/limit.h"
#include "tenant/tenant.h"
#include "upstream/upstream.h"
#include "writer/writer.h"

#include "app_int.h"

#define INTERVAL_MS 2000
#define INTERVAL_MIN_MS 1000
#define INTERVAL_MAX_MS 60000

struct seen { uint64_t *all; size_t n; };       /* of each slot, how often it was counted, at the last sample */

struct watch {
	uint64_t interval_us, due_us;
	unsigned left;                  /* samples; 0: until its peer is gone */
	char tenant[64];                /* "": all */
	struct seen seen[TALLY_KINDS];
};

static void free_watch(void *priv)
{
	struct watch *w = priv;

	for (size_t i = 0; i < TALLY_KINDS; i++)
		free(w->seen[i].all);
	free(w);
}

/* --- what was counted, as JSON */

static void put_numbers(struct str *ret, const char *name, const uint64_t *n, size_t count)
{
	str_printf(ret, ",\"%s\":[", name);
	for (size_t i = 0; i < count; i++)
		str_printf(ret, "%s%" PRIu64, i > 0 ? "," : "", n[i]);
	str_putc(ret, ']');
}

static void put_bounds(struct str *ret, enum tally_kind kind)
{
	const char *const *bounds;
	const size_t n = tally_bounds(kind, &bounds);

	str_puts(ret, "\"bounds\":[");
	for (size_t i = 0; i < n; i++)
		str_printf(ret, "%s%s", i > 0 ? "," : "", bounds[i]);
	str_putc(ret, ']');
}

static size_t buckets_of(enum tally_kind kind)
{
	const char *const *bounds;

	return tally_bounds(kind, &bounds) + 1;
}

/* ,"outcomes":{…},"buckets":[…]; outcomes that there were none of are left out. */
static void put_counts(struct str *ret, enum tally_kind kind, const struct tally_view *v)
{
	const char *between = "";

	str_puts(ret, ",\"outcomes\":{");
	for (int i = 0; i < AUDIT_OUTCOME_COUNT; i++) {
		if (v->outcome[i] == 0)
			continue;
		str_printf(ret, "%s\"%s\":%" PRIu64, between, audit_outcome_name(i), v->outcome[i]);
		between = ",";
	}
	str_putc(ret, '}');
	put_numbers(ret, "buckets", v->bucket, buckets_of(kind));
}

static void add(struct tally_view *sum, const struct tally_view *v)
{
	for (size_t i = 0; i < TALLY_OUTCOMES; i++)
		sum->outcome[i] += v->outcome[i];
	for (size_t i = 0; i <= TALLY_BUCKETS_MAX; i++)
		sum->bucket[i] += v->bucket[i];
	for (size_t i = 0; i < TALLY_PLACES; i++)
		sum->in[i] += v->in[i];
	sum->sum_us += v->sum_us;
}

/* The fullest of its quotas of today. */
static void put_quota(struct str *ret, const struct app *a, const char *tenant)
{
	double used[OPS_QUOTAS] = { -1, -1, -1 }, most = -1;

	app_quotas((void *)(uintptr_t)a, tenant, used);
	for (size_t i = 0; i < OPS_QUOTAS; i++)
		most = used[i] > most ? used[i] : most;
	if (most >= 0)
		str_printf(ret, ",\"quota\":%.4f", most);
}

static void put_tenant(struct str *ret, const struct app *a, const struct tally_view *v)
{
	str_puts(ret, "{\"name\":");
	jx_write_stringz(ret, v->name);
	str_printf(ret, ",\"running\":%" PRIu64 ",\"waiting\":%" PRIu64, v->in[TALLY_RUNNING], v->in[TALLY_WAITING]);
	put_counts(ret, TALLY_TENANT, v);
	put_quota(ret, a, v->name);
	str_putc(ret, '}');
}

static void put_tool(struct str *ret, const struct app *a, const struct tally_view *v)
{
	(void)a;
	str_puts(ret, "{\"name\":");
	jx_write_stringz(ret, v->name);
	put_counts(ret, TALLY_TOOL, v);
	str_putc(ret, '}');
}

/* --- the busiest of a kind */

struct busy { uint64_t since, all; size_t at; };

static int by_use(const void *a, const void *b)
{
	const struct busy *x = a, *y = b;

	if (x->since != y->since)
		return x->since > y->since ? -1 : 1;
	if (x->all != y->all)
		return x->all > y->all ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static uint64_t count_of(const struct tally_view *v)
{
	uint64_t n = 0;

	for (size_t i = 0; i < TALLY_OUTCOMES; i++)
		n += v->outcome[i];
	return n + v->in[TALLY_RUNNING] + v->in[TALLY_WAITING];
}

/* Those that were counted most since the last sample, TOP_ROWS_MAX of them at most; *sum: of all slots. */
static void put_busiest(struct str *ret, const struct app *a, struct seen *seen, enum tally_kind kind,
			void (*put)(struct str *ret, const struct app *a, const struct tally_view *v), struct tally_view *sum)
{
	const size_t n = tally_slots(kind);
	struct busy *busy = mem_calloc(n + 1, sizeof(*busy));
	struct tally_view v;

	for (size_t i = 0; i < n; i++) {
		tally_see(kind, i, &v);
		add(sum, &v);
		busy[i] = (struct busy){ .all = count_of(&v), .at = i };
		busy[i].since = busy[i].all - (i < seen->n && seen->all[i] < busy[i].all ? seen->all[i] : 0);
	}
	tally_see(kind, TALLY_OTHERS, &v);
	add(sum, &v);
	seen->all = mem_realloc(seen->all, (n + 1) * sizeof(*seen->all));
	seen->n = n;
	for (size_t i = 0; i < n; i++)
		seen->all[i] = busy[i].all;
	if (n > TOP_ROWS_MAX)
		qsort(busy, n, sizeof(*busy), by_use);
	for (size_t i = 0; i < n && i < TOP_ROWS_MAX; i++) {
		tally_see(kind, busy[i].at, &v);
		if (i > 0)
			str_putc(ret, ',');
		put(ret, a, &v);
	}
	free(busy);
}

/* --- the whole server */

struct ups { struct str *ret; size_t n; };

static bool see_named(enum tally_kind kind, const char *name, struct tally_view *ret)
{
	for (size_t i = 0; i < tally_slots(kind); i++) {
		if (strcmp(tally_name(kind, i), name) != 0)
			continue;
		tally_see(kind, i, ret);
		return true;
	}
	return false;
}

/* Answers of each kind are one outcome here: that of a request is the call's matter. */
static void put_upstream(void *arg, const char *name, bool up)
{
	struct ups *u = arg;
	struct tally_view v = { .name = name };
	uint64_t answered = 0;

	if (u->n == TOP_ROWS_MAX)
		return;
	(void)see_named(TALLY_UPSTREAM, name, &v);
	for (size_t i = 0; i < buckets_of(TALLY_UPSTREAM); i++)
		answered += v.bucket[i];
	str_puts(u->ret, u->n++ > 0 ? ",{\"name\":" : "{\"name\":");
	jx_write_stringz(u->ret, name);
	str_printf(u->ret, ",\"up\":%s,\"outcomes\":{\"answered\":%" PRIu64 "}", up ? "true" : "false", answered);
	put_numbers(u->ret, "buckets", v.bucket, buckets_of(TALLY_UPSTREAM));
	str_putc(u->ret, '}');
}

static uint64_t records(void)
{
	static const unsigned kinds[] = {
#define KIND(sym, number, text) number,
		AUDIT_KINDS(KIND)
#undef KIND
	};
	uint64_t n = 0;

	for (size_t i = 0; i < NELEMS(kinds); i++)
		n += tally_records(kinds[i]);
	return n;
}

static void put_server(struct reply *o, const struct app *a)
{
	struct str text = STR_INIT;
	const char *reason = NULL;
	struct rusage use = { 0 };
	struct tally_view commit;

	(void)getrusage(RUSAGE_SELF, &use);
	reply_int(o, "serving_s", (int64_t)((clock_wall_us() - a->started_us) / 1000000));
	reply_int(o, "cpu_us", (int64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + use.ru_utime.tv_usec +
		  use.ru_stime.tv_usec);
	reply_int(o, "resident_bytes", (int64_t)ops_process_resident(a->ops ? ops_process(a->ops) : &a->process));
	reply_int(o, "pressure", limit_pressure(a->limiter));
	reply_text(o, "refusing", writer_state(a->writer, &reason) < 0 ? reason ? reason : "no records" : NULL);
	reply_int(o, "records", (int64_t)records());
	reply_int(o, "alerts", alerts_waiting(a->alerts));
	str_putc(&text, '{');
	for (unsigned i = 0; i < metric_count(); i++)
		str_printf(&text, "%s\"%s\":%" PRIu64, i > 0 ? "," : "", metric_name((enum metric_id)i),
			   metric_get((enum metric_id)i));
	str_putc(&text, '}');
	reply_raw(o, "counters", text.p, text.len);
	str_reset(&text);
	tally_see(TALLY_COMMIT, TALLY_OTHERS, &commit);
	str_putc(&text, '{');
	put_bounds(&text, TALLY_COMMIT);
	put_numbers(&text, "buckets", commit.bucket, buckets_of(TALLY_COMMIT));
	str_putc(&text, '}');
	reply_raw(o, "commit", text.p, text.len);
	str_fini(&text);
}

static void put_list(struct reply *o, const char *name, struct str *list)
{
	str_putc(list, ']');
	reply_raw(o, name, list->p, list->len);
	str_reset(list);
	str_putc(list, '[');
}

static void put_calls(struct reply *o, const struct tally_view *sum)
{
	struct str text = STR_INIT;

	str_printf(&text, "{\"running\":%" PRIu64, sum->in[TALLY_RUNNING]);
	put_counts(&text, TALLY_TENANT, sum);
	str_putc(&text, '}');
	reply_raw(o, "calls", text.p, text.len);
	str_fini(&text);
}

static void put_all(struct reply *o, const struct app *a, struct watch *w)
{
	struct tally_view calls = { 0 }, tools = { 0 };
	struct str list = STR_INIT;
	struct ups ups = { .ret = &list };

	put_server(o, a);
	str_putc(&list, '[');
	put_busiest(&list, a, &w->seen[TALLY_TENANT], TALLY_TENANT, put_tenant, &calls);
	put_list(o, "tenants", &list);
	put_busiest(&list, a, &w->seen[TALLY_TOOL], TALLY_TOOL, put_tool, &tools);
	put_list(o, "tools", &list);
	upstreams_each(a->upstreams, put_upstream, &ups);
	put_list(o, "upstreams", &list);
	put_calls(o, &calls);
	str_fini(&list);
}

/* --- one tenant: whoever asks, nothing of the others and of the server */

static void put_one(struct reply *o, const struct app *a, const char *name)
{
	struct tally_view v = { .name = name };
	struct str list = STR_INIT;

	(void)see_named(TALLY_TENANT, name, &v);
	str_putc(&list, '[');
	put_tenant(&list, a, &v);
	put_list(o, "tenants", &list);
	put_calls(o, &v);
	str_fini(&list);
}

/* --- the command */

static int top_check(struct command_call *c, struct err *err)
{
	const struct app *a = command_env(c)->arg;
	struct watch *w = command_priv(c, sizeof(*w));
	const char *tenant = arg_text(c, "tenant");
	const uint64_t ms = arg_duration_ms(c, "interval", INTERVAL_MS);
	const struct tenant *t;

	c->free_priv = free_watch;
	if (c->who.embedded) {
		(void)err_set(err, ERR_INVALID, "", "there is nothing to see: no server runs on this store");
		err_hint(err, "start toolcribd");
		return ERR_INVALID;
	}
	if (ms < INTERVAL_MIN_MS || ms > INTERVAL_MAX_MS)
		return err_set(err, ERR_INVALID, "interval", "--interval is from 1s to 60s");
	t = tenant ? tenant_by_name(a->tenants, tenant, strlen(tenant)) : NULL;
	if (tenant && !t)
		return err_set(err, ERR_NOT_FOUND, "", "tenant %.64s: not found", tenant);
	(void)snprintf(w->tenant, sizeof(w->tenant), "%s", t ? t->name : "");
	w->interval_us = ms * 1000;
	w->left = arg_flag(c, "once") ? 2 : 0;
	return 0;
}

/* Asked more often than that, so that a peer that is gone is missed soon. */
static int top_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct app *a = command_env(c)->arg;
	struct watch *w = c->priv;
	const uint64_t now_us = ev_now_us(a->loop), wall_us = clock_wall_us();
	struct str bounds = STR_INIT;

	c->more = ADM_MORE_LATER;
	if (now_us < w->due_us)
		return 0;
	w->due_us = now_us + w->interval_us;
	reply_row_begin(c->out);
	reply_time(c->out, "time", wall_us);
	reply_int(c->out, "unix_us", (int64_t)wall_us);
	reply_int(c->out, "us", (int64_t)now_us);
	reply_text(c->out, "version", PACKAGE_VERSION);
	reply_text(c->out, "tenant", *w->tenant ? w->tenant : NULL);
	put_bounds(&bounds, TALLY_TENANT);
	reply_raw(c->out, "bounds", bounds.p + strlen("\"bounds\":"), bounds.len - strlen("\"bounds\":"));
	str_fini(&bounds);
	if (*w->tenant)
		put_one(c->out, a, w->tenant);
	else
		put_all(c->out, a, w);
	reply_row_end(c->out);
	if (w->left > 0 && --w->left == 0)
		c->more = ADM_NO_MORE;
	return 0;
}

static const struct command_arg top_args[] = {
	OPT("interval", "TIME", ARG_DURATION, COMPLETE_NONE, "Between two samples, 1s to 60s; default 2s."),
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "What is counted of this tenant, and nothing else."),
	FLAG("once", "One picture, of two samples; this is also what a pipe or a file gets."), ARG_END };

const struct command top_commands[] = {
	{ .noun = "top", .help = "Watch what the server does, as it does it",
	  .detail = "Draws each interval what was counted since the last sample: calls in a second, how long half of them and "
		    "all but one of a hundred took, how many were refused or failed, and the same by tenant, tool and "
		    "upstream.  RUN and WAIT are calls that run and that wait for a slot, QUOTA the fullest quota of the day.  A "
		    "sample has the 200 busiest of each.  Keys: q ends, s sorts by the next column, t goes on to the next table, / "
		    "takes a text that names must have (Return keeps it, Escape drops it), p pauses, ? helps.  With --json each "
		    "sample is a line of what was counted since the server began.  It is no evidence: that is the audit alone.",
	  .args = top_args, .shape = ADM_SCREEN, .stream = true, .role = ADM_AUDIT, .own = "tenant",
	  .where = ADM_ON_LOOP, .check = top_check, .body = top_body },
	{ .noun = NULL },
};
