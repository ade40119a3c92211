/* The ways in: configured listeners with their certificates, gate and pressure, metrics, the relay's socket, the admin
 * socket, and the card that names both.  The table of start.c opens and closes them; loop thread. */

#include "config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alert/alert.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/tally.h"
#include "base/text.h"
#include "command/command.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "net/fetch.h"
#include "net/gate.h"
#include "net/tls.h"
#include "otel/otel.h"
#include "people/people.h"
#include "sink/sink.h"
#include "tenant/tenant.h"
#include "upstream/upstream.h"
#include "worker/worker.h"

#include "app_int.h"

/* --- certificates: how long they are good for, as a gauge, and a warning each day from thirty days before the end */

#define DAY_US (24ull * 3600 * 1000 * 1000)
#define WARN_US (30 * DAY_US)

static void look(void *arg, const char *address, uint64_t expires_us)
{
	uint64_t now = clock_wall_us(), *first_us = arg;
	char text[32];

	if (*first_us == 0 || expires_us < *first_us)
		*first_us = expires_us;
	if (expires_us > now + WARN_US)
		return;
	clock_format_utc(expires_us, text, sizeof(text));
	if (expires_us <= now)
		log_err(NULL, "certificate has expired listener=%s expired=%s", address, text);
	else
		log_warn(NULL, "certificate expires soon listener=%s expires=%s days=%llu", address, text,
			 (expires_us - now) / DAY_US);
}

void app_certs_each(const struct app *a, void (*fn)(void *arg, const char *address, uint64_t expires_us), void *arg)
{
	for (size_t i = 0; i < a->nlisteners; i++)
		if (transport_tls_expires_us(a->listeners[i].t) > 0)
			fn(arg, a->listeners[i].ops->address(a->listeners[i].t), transport_tls_expires_us(a->listeners[i].t));
	if (a->admin_tls)
		fn(arg, a->opt.conf->admin_listen, tls_server_expires_us(a->admin_tls));
	if (a->ops && ops_expires_us(a->ops) > 0)
		fn(arg, ops_address(a->ops), ops_expires_us(a->ops));
}

void app_certs_look(struct app *a)
{
	uint64_t first_us = 0;

	app_certs_each(a, look, &first_us);
	metric_set(METRIC_tls_certificate_expires, first_us / 1000000);
	a->certs_due_us = ev_now_us(a->loop) + DAY_US;
}

void app_certs_check(struct app *a)
{
	if (ev_now_us(a->loop) >= a->certs_due_us)
		app_certs_look(a);
}

/* --- pressure: a server that fills up leaves things out in steps, and says so (SEC S-807); mcp leaves out lists */

static const struct {
	enum transport_pressure pressure;
	const char *say;
} steps[LIMIT_STEPS] = {
	[LIMIT_CALM] = { TRANSPORT_CALM, "not full any more, connections are kept" },
	[LIMIT_NEARLY_FULL] = { TRANSPORT_NEARLY_FULL, "nearly full, connections of those who fill it are not kept" },
	[LIMIT_FULL] = { TRANSPORT_FULL, "full, new connections are taken slowly" },
};

static void count(int from, int to)
{
	metric_set(METRIC_pressure_step, (uint64_t)to);
	if (from < LIMIT_NEARLY_FULL && to >= LIMIT_NEARLY_FULL)
		metric_inc(METRIC_pressure_nearly_full);
	if (from < LIMIT_FULL && to >= LIMIT_FULL)
		metric_inc(METRIC_pressure_full);
}

/* What came and went within a turn is no change. */
static void tell(void *arg)
{
	static struct log_site site;
	struct app *a = arg;

	a->pressure.due = false;
	if (a->pressure.step == a->pressure.told)
		return;
	count(a->pressure.told, a->pressure.step);
	a->pressure.told = a->pressure.step;
	for (size_t i = 0; i < a->nlisteners; i++)
		a->listeners[i].ops->pressure(a->listeners[i].t, steps[a->pressure.told].pressure);
	if (!log_allow(&site))
		return;
	if (a->pressure.told == LIMIT_CALM)
		log_info(NULL, "%s pressure=%u%%", steps[a->pressure.told].say, limit_pressure(a->limiter));
	else
		log_warn(NULL, "%s pressure=%u%%", steps[a->pressure.told].say, limit_pressure(a->limiter));
}

static void on_step(void *arg, enum limit_step step)
{
	struct app *a = arg;

	a->pressure.step = (int)step;
	if (a->pressure.due)
		return;
	a->pressure.due = true;
	ev_at_turn_end(a->loop, tell, a);
}

int app_pressure_start(struct app *a, struct err *err)
{
	(void)err;
	limiter_on_step(a->limiter, on_step, a);
	return 0;
}

void app_pressure_stop(struct app *a)
{
	limiter_on_step(a->limiter, NULL, NULL);
	a->pressure.step = a->pressure.told;          /* tell() may be due, and runs when the limiter is gone */
}

/* --- the gate: who may connect to the listeners, as the configuration has it */

static struct gate_limits limits_of(const struct conf *c)
{
	return (struct gate_limits){
		.per_source = c->per_source, .per_tenant = c->per_tenant,
		.start = c->unknown_start, .percent = c->unknown_percent, .full = c->unknown_full,
		.failed_ms = c->penalty_failed_s * 1000, .broken_ms = c->penalty_broken_s * 1000,
		.longest_ms = c->penalty_longest_s * 1000,
		.loopback = strcmp(c->loopback, "count") == 0,
		.bodies = (size_t)c->budget_bodies_mib << 20, .bodies_source = (size_t)c->budget_source_mib << 20,
		.bodies_tenant = (size_t)c->budget_tenant_mib << 20,
	};
}

int app_gate_start(struct app *a, struct err *err)
{
	const struct gate_limits limits = limits_of(a->opt.conf);

	(void)err;
	a->gate = gate_new(a->loop, &limits);
	a->transport_env.gate = a->gate;
	return 0;
}

void app_gate_reload(struct app *a)
{
	const struct gate_limits limits = limits_of(a->opt.conf);

	gate_limit(a->gate, &limits);
}

void app_taken(void *arg, int64_t tenant_id, struct command_taken *ret)
{
	const struct app *a = arg;
	struct gate_tenant_view v = { 0 };

	if (a->gate)
		v = gate_tenant_see(a->gate, tenant_id);
	*ret = (struct command_taken){ v.bodies, v.bodies_max, v.connections, v.connections_max,
				       a->pool ? worker_pool_running(a->pool, tenant_id) : 0,
				       a->pool ? worker_pool_share(a->pool) : 0 };
}

/* Behind the listeners, once what their closing has put off is done. */
void app_gate_stop(struct app *a)
{
	gate_free(&a->gate);
}

#define SUN_PATH_MAX 107                /* bytes of a socket's path, without its NUL */
#define RELAY_CONNECTIONS_MAX 1024
#define TAG_BYTES 6                     /* of the store's path in a socket's name, when it stands elsewhere */

/* --- listeners */

static const struct transport_ops *ops_of(enum conf_transport transport)
{
	switch (transport) {
	case CONF_HTTP:
		return &tr_http;
	case CONF_TCP:
		return &tr_tcp;
	case CONF_UNIX:
		return &tr_unix;
	}
	return NULL;
}

/* Puts the listener in front, and the file if it is one. */
static int about(const struct conf_listener *l, struct err *err)
{
	char file[sizeof(err->where)];

	if (err->where[0] != '/' || strstr(err->msg, err->where))
		return err_wrap(err, "%s listener %s", ops_of(l->transport)->name, l->address);
	memcpy(file, err->where, sizeof(file));
	return err_wrap(err, "%s listener %s: %s", ops_of(l->transport)->name, l->address, file);
}

static int open_listener(struct app *a, const struct conf_listener *l, struct err *err)
{
	const struct transport_ops *ops = ops_of(l->transport);
	struct transport *t = NULL;
	int rc = ops->check(l, err);

	if (rc == 0)
		rc = ops->open(&a->transport_env, l, &t, err);
	if (rc < 0)
		return about(l, err);
	a->listeners[a->nlisteners].ops = ops;
	a->listeners[a->nlisteners].internal = l->relay;
	fetcher_own(a->fetcher, ops->address(t));       /* SEC S-705 */
	a->listeners[a->nlisteners++].t = t;
	return 0;
}

static int load_admin_tls(const struct conf *c, struct tls_server **ret, struct err *late, struct err *err)
{
	const struct tls_opt opt = { .cert = c->admin_cert, .key = c->admin_key, .late = late };
	char file[sizeof(err->where)];
	int rc = tls_server_new(&opt, ret, err);

	if (rc == 0)
		return 0;
	memcpy(file, err->where, sizeof(file));
	return err_wrap(err, "admin.listen %s: %s", c->admin_listen, file);
}

static void tell_door(struct app_door *door, struct tls_server *tls, const struct err *err,
		      void (*fn)(void *arg, const struct app_door *door), void *arg)
{
	door->expires_us = tls ? tls_server_expires_us(tls) : door->expires_us;
	door->err = err;
	fn(arg, door);
	tls_server_free(&tls);
}

static void tell_metrics(const struct conf *conf, void (*fn)(void *arg, const struct app_door *door), void *arg)
{
	struct app_door door = { .name = conf->metrics_listen, .cert = conf->metrics_cert };
	struct ops_files *files = NULL;
	struct err err = { 0 };
	int rc = ops_files_load(conf, &files, NULL, &err);

	door.expires_us = rc == 0 ? ops_files_expires_us(files) : 0;
	tell_door(&door, NULL, rc < 0 ? &err : NULL, fn, arg);
	ops_files_free(&files);
}

void app_doors(const struct conf *conf, void (*fn)(void *arg, const struct app_door *door), void *arg)
{
	struct err err = { 0 };

	for (size_t i = 0; i < conf->nlisteners; i++) {
		const struct conf_listener *l = &conf->listeners[i];
		struct app_door door = { .name = l->address, .cert = l->tls ? l->tls->cert : NULL };
		struct tls_server *tls = NULL;
		int rc = ops_of(l->transport)->check(l, &err);

		rc = rc ? rc : transport_tls_load(l, &tls, NULL, &err);
		if (rc < 0)
			(void)about(l, &err);
		tell_door(&door, tls, rc < 0 ? &err : NULL, fn, arg);
	}
	if (conf->admin_listen) {
		struct app_door door = { .name = conf->admin_listen, .cert = conf->admin_cert };
		struct tls_server *tls = NULL;
		int rc = load_admin_tls(conf, &tls, NULL, &err);

		tell_door(&door, tls, rc < 0 ? &err : NULL, fn, arg);
	}
	if (conf->metrics_listen)
		tell_metrics(conf, fn, arg);
}

int app_new_doors_check(const struct conf *conf, struct err *err)
{
	for (size_t i = 0; i < conf->nlisteners; i++) {
		const struct conf_listener *l = &conf->listeners[i];
		struct tls_server *tls = NULL;
		struct err late = { 0 };
		int rc = ops_of(l->transport)->check(l, err);

		rc = rc ? rc : transport_tls_load(l, &tls, &late, err);
		tls_server_free(&tls);
		if (rc < 0)
			return about(l, err);
	}
	return 0;
}

static void say_shut(const char *address, const char *why)
{
	log_err(NULL, "listener refused, nobody is served there until a reload finds good files listener=%s why=\"%s\"",
		address, why);
}

/* Time alone makes a certificate bad: it takes its listener with it, not those beside it.  The last ends the start. */
static int check_shut(struct app *a, struct err *err)
{
	const char *why = NULL;
	size_t n = 0;

	for (size_t i = 0; i < a->nlisteners; i++) {
		const char *shut = transport_shut(a->listeners[i].t);

		n += shut != NULL;
		why = shut ? shut : why;
		if (shut)
			say_shut(a->listeners[i].ops->address(a->listeners[i].t), shut);
	}
	if (n == 0 || n < a->nlisteners)
		return 0;
	return err_set(err, ERR_INVALID, "", "no listener is left: %s", why);
}

int app_listen_start(struct app *a, struct err *err)
{
	int shut;

	for (size_t i = 0; i < a->opt.conf->nlisteners; i++) {
		int rc = open_listener(a, &a->opt.conf->listeners[i], err);

		if (rc < 0) {
			app_listen_stop(a);
			return rc;
		}
	}
	shut = check_shut(a, err);
	if (shut < 0)
		app_listen_stop(a);
	return shut;
}

void app_renewal_drop(struct app_renewal *r)
{
	for (size_t i = 0; i < CONF_LISTENERS_MAX; i++)
		tls_server_free(&r->next[i]);
	tls_server_free(&r->admin);
	ops_files_free(&r->ops);
	otel_setup_free(&r->otel);
}

/* Of the door for metrics: where needs a restart to change, what its files hold does not. */
static int renew_metrics(const struct app *a, struct app_renewal *ret, struct err *err)
{
	struct err late = { 0 };
	bool shut = a->ops && ops_shut(a->ops);
	int rc = a->ops ? ops_files_load(a->opt.conf, &ret->ops, shut ? &late : NULL, err) : 0;

	if (late.code) {                /* it stays shut */
		ops_files_free(&ret->ops);
		say_shut(ops_address(a->ops), late.msg);
	}
	return rc;
}

/* The listeners of the configuration come first, in its order; the relay's follows. */
int app_renewal_make(const struct app *a, const struct conf *conf, struct app_renewal *ret, struct err *err)
{
	for (size_t i = 0; i < conf->nlisteners && i < a->nlisteners; i++) {
		const struct conf_listener *l = &conf->listeners[i];
		struct err late = { 0 };
		bool shut = transport_shut(a->listeners[i].t) != NULL;
		int rc = transport_tls_load(l, &ret->next[i], shut ? &late : NULL, err);

		if (late.code) {                /* it stays shut */
			tls_server_free(&ret->next[i]);
			say_shut(l->address, late.msg);
		}
		if (rc < 0) {
			app_renewal_drop(ret);
			return about(l, err);
		}
	}
	/* Where commands come from needs a restart to change; what its files hold does not. */
	if ((a->remote_sock && load_admin_tls(a->opt.conf, &ret->admin, NULL, err) < 0) ||
	    renew_metrics(a, ret, err) < 0 || (a->otel && otel_setup_load(a->opt.conf, &ret->otel, err) < 0)) {
		app_renewal_drop(ret);
		return err->code;
	}
	return 0;
}

void app_renewal_take(struct app *a, struct app_renewal *r)
{
	for (size_t i = 0; i < a->nlisteners && i < CONF_LISTENERS_MAX; i++)
		if (!a->listeners[i].internal)
			transport_tls_renew(a->listeners[i].t, &r->next[i]);
	if (r->admin)
		tls_server_replace(a->admin_tls, &r->admin);
	if (a->ops)
		ops_renew(a->ops, &r->ops);
	if (a->otel)
		otel_renew(a->otel, &r->otel);
	app_renewal_drop(r);
	app_certs_look(a);
}

void app_listen_stop(struct app *a)
{
	while (a->nlisteners > 0) {
		a->nlisteners--;
		a->listeners[a->nlisteners].ops->close(&a->listeners[a->nlisteners].t);
	}
	tr_stdio_close(&a->stdio);
}

unsigned app_listen_busy(const struct app *a)
{
	unsigned n = 0;

	for (size_t i = 0; i < a->nlisteners; i++)
		n += a->listeners[i].ops->busy(a->listeners[i].t);
	return n;
}

void app_listen_drain(struct app *a)
{
	for (size_t i = 0; i < a->nlisteners; i++)
		a->listeners[i].ops->drain(a->listeners[i].t);
}

unsigned app_listen_live(const struct app *a)
{
	unsigned n = 0;

	for (size_t i = 0; i < a->nlisteners; i++)
		n += a->listeners[i].ops->live(a->listeners[i].t);
	return n;
}

static void put_certificate(json_t *one, uint64_t expires_us, const char *shut)
{
	uint64_t now = clock_wall_us();
	char text[64];

	(void)json_object_set_new(one, "certificateExpires", json_string(clock_format_utc(expires_us, text, sizeof(text))));
	if (shut)
		(void)json_object_set_new(one, "refused", json_string(shut));
	else if (expires_us <= now + WARN_US) {
		(void)snprintf(text, sizeof(text), expires_us <= now ? "its certificate has expired"
			       : "its certificate expires in %llu days", (unsigned long long)((expires_us - now) / DAY_US));
		(void)json_object_set_new(one, "warning", json_string(text));
	}
}

json_t *app_listen_show(void *app)
{
	const struct app *a = app;
	json_t *list = json_array();

	for (size_t i = 0; i < a->nlisteners; i++) {
		const struct transport_ops *ops = a->listeners[i].ops;
		uint64_t expires_us = transport_tls_expires_us(a->listeners[i].t);
		json_t *one = json_object();

		if (a->listeners[i].internal) {
			json_decref(one);
			continue;
		}
		(void)json_object_set_new(one, "transport", json_string(ops->name));
		(void)json_object_set_new(one, "address", json_string(ops->address(a->listeners[i].t)));
		(void)json_object_set_new(one, "tls", json_boolean(expires_us > 0));
		if (expires_us > 0)
			put_certificate(one, expires_us, transport_shut(a->listeners[i].t));
		(void)json_object_set_new(one, "connections", json_integer(ops->live(a->listeners[i].t)));
		(void)json_array_append_new(list, one);
	}
	if (a->remote_sock || a->remote_shut[0]) {
		json_t *one = json_object();

		(void)json_object_set_new(one, "transport", json_string("admin"));
		(void)json_object_set_new(one, "address", json_string(a->remote_sock ? command_remote_address(a->remote_sock)
								      : a->opt.conf->admin_listen));
		(void)json_object_set_new(one, "tls", json_true());
		if (a->admin_tls)
			put_certificate(one, tls_server_expires_us(a->admin_tls), a->remote_sock ? NULL : a->remote_shut);
		(void)json_array_append_new(list, one);
	}
	if (a->ops) {
		json_t *one = json_pack("{s:s, s:s, s:b}", "transport", "metrics", "address", ops_address(a->ops), "tls",
					ops_expires_us(a->ops) > 0);

		if (ops_expires_us(a->ops) > 0)
			put_certificate(one, ops_expires_us(a->ops), ops_shut(a->ops));
		(void)json_array_append_new(list, one);
	}
	if (a->console)
		(void)json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "transport", "console", "address",
							     console_address(a->console), "tls", 0));
	return list;
}

/* --- metrics and health: there before the ways in, and still there while the server drains */

static bool stops(void *arg)
{
	const struct app *a = arg;

	return a->phase != APP_RUNNING;
}

static bool has_tenant(void *arg, const char *name)
{
	const struct app *a = arg;
	const struct tenant *tenant = tenant_by_name(a->tenants, name, strlen(name));

	return tenant && tenant->state != TENANT_REMOVED;
}

static bool has_upstream(void *arg, const char *name)
{
	const struct app *a = arg;

	return upstreams_has(a->upstreams, name);
}

void app_tallies_sweep(struct app *a)
{
	tally_sweep(TALLY_TENANT, has_tenant, a, ev_now_us(a->loop));
	if (a->upstreams)
		tally_sweep(TALLY_UPSTREAM, has_upstream, a, ev_now_us(a->loop));
}

static void put_ratio(double *ret, uint64_t used, uint64_t most)
{
	if (most > 0)
		*ret = (double)used / (double)most;
}

void app_quotas(void *app, const char *name, double ret[OPS_QUOTAS])
{
	const struct app *a = app;
	const struct tenant *t = tenant_by_name(a->tenants, name, strlen(name));
	const uint64_t now_us = clock_wall_us(), audit = limiter_conf(a->limiter)->tenant_audit;
	const struct tenant_limits *set = t ? tenant_limits(a->tenants, t->id, TENANT_SCOPE_TENANT, 0) : NULL;
	struct limit_view v;

	if (set && (set->calls_day > 0 || set->bytes_day > 0)) {
		v = limit_see(a->limiter, LIMIT_TENANT, t->id, 0, now_us);
		put_ratio(&ret[OPS_QUOTA_CALLS], v.calls, set->calls_day);
		put_ratio(&ret[OPS_QUOTA_BYTES], v.bytes, set->bytes_day);
	}
	if (t && audit > 0) {
		v = limit_see(a->limiter, LIMIT_AUDIT, t->id, 0, now_us);
		put_ratio(&ret[OPS_QUOTA_AUDIT], v.bytes, audit);
	}
}

static void upstreams(void *arg, ops_upstream_fn *fn, void *fn_arg)
{
	const struct app *a = arg;

	upstreams_each(a->upstreams, fn, fn_arg);
}

struct counting { ops_alert_fn *fn; void *arg; };

static void count_alerts(void *arg, enum alert_rule rule, enum alert_severity severity, unsigned n)
{
	const struct counting *c = arg;

	c->fn(c->arg, alert_rule_name(rule), alert_severity_name(severity), n);
}

static void alerts(void *arg, ops_alert_fn *fn, void *fn_arg)
{
	const struct app *a = arg;

	alerts_counts(a->alerts, count_alerts, &(struct counting){ fn, fn_arg });
}

static void sinks(void *arg, enum metric_format format, struct str *ret)
{
	const struct app *a = arg;

	if (a->sinks)
		sinks_expose(a->sinks, format, ret);
	alert_ways_expose(alerts_ways(a->alerts), format, ret);
}

int app_ops_start(struct app *a, struct err *err)
{
	static const char *const files[] = { DB_FILE, DB_FILE "-wal", DB_KEYS, NULL };
	bool fixed;
	int rc;

	ops_count_names(a->opt.conf);
	if (!a->opt.conf->metrics_listen)
		return 0;
	rc = ops_open(&(struct ops_env){ .loop = a->loop, .gate = a->gate, .writer = a->writer, .draining = stops,
					 .quotas = app_quotas, .upstreams = upstreams, .alerts = alerts, .more = sinks, .arg = a,
					 .store = a->store, .files = files,
					 .version = PACKAGE_VERSION, .engine = db_engine(&fixed), .started_us = a->started_us,
					 .process = a->process }, a->opt.conf, &a->ops, err);
	if (rc < 0)
		return rc;
	a->process = (struct ops_process){ -1, -1 };
	fetcher_own(a->fetcher, ops_address(a->ops));   /* SEC S-705 */
	return 0;
}

void app_ops_stop(struct app *a)
{
	ops_close(&a->ops);
	ops_process_close(&a->process);
}

/* --- sockets of the store */

/* <store>/<name>; where that is too long for a socket: a name made from it in the runtime directory. */
static char *socket_path(const char *store, const char *name)
{
	char *path = path_join(store, name);
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	uint8_t digest[DIGEST_SIZE];
	char tag[2 * TAG_BYTES + 1];

	if (strlen(path) <= SUN_PATH_MAX)
		return path;
	free(path);
	digest_sha256(store, strlen(store), digest);
	text_hex(digest, TAG_BYTES, tag);
	return mem_printf("%s/toolcrib-%s-%s", runtime && *runtime == '/' ? runtime : "/run/toolcrib", tag, name);
}

char *app_handover_socket(const char *store)
{
	char *absolute = path_absolute(store);
	char *path = socket_path(absolute, "handover.sock");

	free(absolute);
	return path;
}

char *app_admin_socket(const char *store)
{
	char *absolute = path_absolute(store);
	char *path = socket_path(absolute, "admin.sock");

	free(absolute);
	return path;
}

static int check_length(const char *path, struct err *err)
{
	if (strlen(path) <= SUN_PATH_MAX)
		return 0;
	(void)err_set(err, ERR_LIMIT, path, "the path of a socket has at most %d bytes: %s", SUN_PATH_MAX, path);
	err_hint(err, "move the store to a shorter path, or set XDG_RUNTIME_DIR");
	return ERR_LIMIT;
}

/* For whom the list of roles names: the store's directory is closed to them. */
static int open_public(struct app *a, const char *path, struct err *err)
{
	int rc = check_length(path, err);

	return rc < 0 ? rc : command_socket_open(a->admin, a->loop, path, 0666, &a->public_sock, err);
}

static int open_remote(struct app *a, const struct conf *c, struct err *err)
{
	struct err late = { 0 };
	int rc = load_admin_tls(c, &a->admin_tls, &late, err);

	if (rc == 0 && late.code) {     /* its place is taken at a start */
		(void)snprintf(a->remote_shut, sizeof(a->remote_shut), "%s: %s", late.where, late.msg);
		log_err(NULL, "commands are not taken from other machines until a restart finds good files listener=%s why=\"%s\"",
			c->admin_listen, a->remote_shut);
		return 0;
	}
	if (rc == 0)
		rc = command_remote_open(a->admin, a->loop,
				       &(struct command_remote){ .address = c->admin_listen, .tls = a->admin_tls,
			.gate = a->gate, .tenants = a->tenants }, &a->remote_sock, err);
	if (rc == 0)
		log_info(NULL, "commands are taken from other machines address=%s",
			 command_remote_address(a->remote_sock));
	return rc;
}

static int open_sockets(struct app *a, const char *admin_path, const char *mcp_path, struct err *err)
{
	struct db_card card = { .pid = getpid() };
	int rc = check_length(admin_path, err);

	if (rc == 0)
		rc = check_length(mcp_path, err);
	if (rc == 0)
		rc = command_socket_open(a->admin, a->loop, admin_path, 0600, &a->command_socket, err);
	if (rc == 0 && a->opt.conf->admin_socket)
		rc = open_public(a, a->opt.conf->admin_socket, err);
	if (rc == 0 && a->opt.conf->admin_listen && a->opt.profile == APP_DAEMON)
		rc = open_remote(a, a->opt.conf, err);
	if (rc == 0)
		rc = open_listener(a, &a->relay, err);
	if (rc < 0)
		return rc;
	(void)snprintf(card.command_socket, sizeof(card.command_socket), "%s", admin_path);
	(void)snprintf(card.mcp_sock, sizeof(card.mcp_sock), "%s", mcp_path);
	return db_owner_show(a->opt.owner, &card, err);
}

int app_sockets_start(struct app *a, struct err *err)
{
	char *admin_path = socket_path(a->store, "admin.sock");
	int rc;

	a->relay = (struct conf_listener){ .transport = CONF_UNIX, .address = socket_path(a->store, "mcp.sock"),
		.connections_max = RELAY_CONNECTIONS_MAX, .relay = true };
	rc = open_sockets(a, admin_path, a->relay.address, err);
	free(admin_path);
	if (rc < 0)
		app_sockets_stop(a);
	return rc;
}

void app_sockets_stop(struct app *a)
{
	struct db_card card = { .pid = getpid() };
	struct err err;

	if (db_owner_show(a->opt.owner, &card, &err) < 0)
		log_warn(NULL, "card not cleared why=\"%s\"", err.msg);
	command_socket_close(&a->remote_sock);
	tls_server_free(&a->admin_tls);
	command_socket_close(&a->public_sock);
	command_socket_close(&a->command_socket);
	/* The relay's listener closes with the others; without a row of their own it is here. */
	if (a->opt.profile == APP_STDIO)
		app_listen_stop(a);
}
