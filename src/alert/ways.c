/* Ways out of alerts (OP-604): each hears of what opens, becomes worse and is over, and again of what goes on.  What is
 * due is told together, a message at a time; the store knows what is to be told and what was taken, so that a start
 * tells the rest.  A way that is away costs what waits for it, ALERT_WAY_MAX alerts; of a thing that comes and goes
 * meanwhile it hears the last.  Loop thread, the body of a job on the writer's. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "db/db.h"
#include "ev/ev.h"
#include "json/json.h"
#include "net/hook.h"
#include "net/mail.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "alert_int.h"

#define RETRY_FIRST_MS 1000             /* doubled each time */
#define DURABLE_US UINT64_C(10000000)   /* so long an alert waits for its number, that is for the store */
#define SERVER_SIZE 256
#define ID_SIZE 40

/* What a way is told of one alert. */
struct item {
	struct alert_news news;
	int told;                       /* the severity that it took; -1: nothing */
	uint64_t told_us;               /* wall clock */
	bool silent, looked_after;
	bool dirty;                     /* the store is to know of told */
	bool sent, sent_over;           /* in the message that is under way; that it is over */
	int sent_severity;
};

struct way {
	struct alert_ways *all;
	const struct conf_alert *conf;
	struct hook *hook;
	struct mail *mail;              /* one of the two is there */
	struct ev_timer *retry;
	struct map *items;              /* by rule, tenant, subject */
	struct str body;                /* of the message that is under way, or sent again; len 0: there is none */
	char id[ID_SIZE];
	bool busy;
	unsigned failures;              /* in a row */
	uint64_t retry_us;              /* when it is tried again; monotonic */
	uint64_t begun_us; unsigned begun;      /* a span of WAY_SPAN_US, messages in it; monotonic */
	uint64_t sent, failed, dropped, told_us;
	char why[256];
};

struct alert_ways {
	struct alert_env env;
	char server[SERVER_SIZE];
	struct way *v; size_t n;
};

/* --- what the configuration names */

static struct hook_conf place(const struct conf_alert *conf, char **ret_url)
{
	size_t len = strlen(conf->url);

	while (len > 0 && conf->url[len - 1] == '/')
		len--;
	*ret_url = conf->type == CONF_ALERT_ALERTMANAGER ? mem_printf("%.*s/api/v2/alerts", (int)len, conf->url) :
		mem_strdup(conf->url);
	return (struct hook_conf){ .url = *ret_url, .ca = conf->ca, .secret_file = conf->secret_file,
				   .authorization_file = conf->authorization_file };
}

static struct mail_conf post(const struct conf_alert *conf)
{
	static const enum mail_tls tls[] = { MAIL_STARTTLS, MAIL_TLS, MAIL_CLEAR };

	return (struct mail_conf){ .server = conf->server, .tls = tls[conf->tls], .ca = conf->ca, .user = conf->user,
				   .password_file = conf->password_file, .from = conf->from, .to = conf->to, .nto = conf->nto };
}

static int fault(const struct conf_alert *conf, struct err *err)
{
	(void)snprintf(err->where, sizeof(err->where), "alerts");
	return err_wrap(err, "way out %s", conf->name);
}

static int check_way(const struct conf_alert *conf, struct err *err)
{
	const struct mail_conf mail = post(conf);
	char *url = NULL;
	int rc;

	if (conf->type == CONF_ALERT_MAIL)
		return mail_check(&mail, err);
	const struct hook_conf at = place(conf, &url);
	rc = hook_check(&at, err);
	free(url);
	return rc;
}

int alerts_check(const struct conf *conf, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < conf->nalerts; i++)
		rc = check_way(&conf->alerts[i], err) < 0 ? fault(&conf->alerts[i], err) : 0;
	return rc;
}

/* --- what was told, into the store */

struct told { const char *way; int64_t id, severity; uint64_t told_us; bool over; };
struct tolds { struct told *v; size_t n; };

static int put_told(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct tolds *job = arg;
	int rc = 0;

	(void)logs;
	for (size_t i = 0; rc == 0 && i < job->n; i++) {
		const struct told *t = &job->v[i];
		struct db_stmt *st = db_stmt_get(db, t->over ? SQL_ALERT_OUT_FORGET : SQL_ALERT_OUT_PUT);

		db_bind_textz(st, 1, t->way);
		db_bind_i64(st, 2, t->id);
		if (!t->over) {
			db_bind_i64(st, 3, t->severity);
			db_bind_i64(st, 4, (int64_t)t->told_us);
		}
		rc = db_run(&st, err);
	}
	return rc;
}

static void told_done(void *arg, int rc, const struct err *err)
{
	struct tolds *job = arg;

	if (rc < 0)
		log_warn(NULL, "what was told of alerts is not stored, a start may tell it again why=\"%s\"", err->msg);
	free(job->v);
	free(job);
}

static void add_told(struct tolds *job, const struct way *w, const struct item *it, int64_t id, bool over)
{
	if (id == 0)
		return;
	job->v = mem_realloc(job->v, (job->n + 1) * sizeof(*job->v));
	job->v[job->n++] = (struct told){ .way = w->conf->name, .id = id, .severity = it->told, .told_us = it->told_us,
					  .over = over };
}

static void store(struct alert_ways *a, struct tolds *told)
{
	static const struct writer_job what = { .name = "alerts told", .run = put_told, .volatile_only = true,
						.done = told_done };
	struct tolds *job;

	if (told->n == 0)
		return;
	job = mem_alloc(sizeof(*job));
	*job = *told;
	if (writer_submit(a->env.writer, &what, job) == 0)
		return;
	free(job->v);                   /* a full queue: a start may tell it again */
	free(job);
}

/* --- what is due */

static const char *key_of(const struct alert_news *n, char ret[ALERT_SUBJECT_SIZE + 64])
{
	(void)snprintf(ret, ALERT_SUBJECT_SIZE + 64, "%d %" PRId64 " %s", (int)n->rule, n->tenant_id, n->subject);
	return ret;
}

static const char *tenant_of(const struct alert_ways *a, int64_t id)
{
	const struct tenant *t = id && a->env.tenants ? tenant_by_id(a->env.tenants, id) : NULL;

	return t ? t->name : NULL;
}

static bool wants(const struct way *w, const struct alert_news *n)
{
	const char *tenant = tenant_of(w->all, n->tenant_id);

	if ((unsigned)n->severity < w->conf->severity)
		return false;
	if (n->tenant_id == 0)
		return w->conf->system;
	for (size_t i = 0; i < w->conf->ntenants; i++)
		if (tenant && strcmp(tenant, w->conf->tenants[i]) == 0)
			return true;
	return w->conf->ntenants == 0;
}

static bool is_due(const struct way *w, const struct item *it, uint64_t now_us)
{
	const bool manager = w->conf->type == CONF_ALERT_ALERTMANAGER;

	if (it->news.over)
		return true;            /* what nobody should hear of is not kept until then */
	if (it->silent || (it->news.id == 0 && now_us < it->news.first_us + DURABLE_US))
		return false;
	if (it->told < (int)it->news.severity)
		return !it->looked_after || it->told >= 0;
	return (manager || !it->looked_after) && now_us >= it->told_us + w->conf->repeat_s * UINT64_C(1000000);
}

static void drop(struct way *w, struct item *it)
{
	char key[ALERT_SUBJECT_SIZE + 64];

	(void)map_del_z(w->items, key_of(&it->news, key));      /* it is in hand */
	free(it);
}

static struct item *add(struct way *w, const struct alert_news *news)
{
	struct item *it;
	char key[ALERT_SUBJECT_SIZE + 64];

	if (map_count(w->items) >= ALERT_WAY_MAX) {
		w->dropped++;
		return NULL;
	}
	it = mem_zalloc(sizeof(*it));
	it->news = *news;
	it->told = -1;
	it->dirty = true;
	(void)map_set_z(w->items, key_of(news, key), it);
	return it;
}

static void hear(struct way *w, const struct alert_news *news, unsigned how)
{
	char key[ALERT_SUBJECT_SIZE + 64];
	struct item *it = map_get_z(w->items, key_of(news, key));
	struct tolds told = { NULL, 0 };

	if (it && it->news.id && news->id && it->news.id != news->id) {         /* another one in the same place */
		add_told(&told, w, it, it->news.id, true);
		it->told = -1;
		it->dirty = true;
		it->sent = false;
	}
	if (!it && !news->over && wants(w, news))
		it = add(w, news);
	if (it) {
		it->news = *news;
		it->silent = how & ALERT_SILENT;
		it->looked_after = how & ALERT_LOOKED_AFTER;
	}
	if (it && news->over && it->told < 0 && !it->sent && how) {
		add_told(&told, w, it, news->id, true);
		drop(w, it);
	} else if (it && it->dirty && news->id) {
		it->dirty = false;
		add_told(&told, w, it, news->id, false);
	}
	store(w->all, &told);
}

void alert_ways_hear(struct alert_ways *a, const struct alert_news *news, unsigned how)
{
	for (size_t i = 0; i < a->n; i++)
		hear(&a->v[i], news, how);
}

/* --- messages */

/* OP-604: so many in a span, then one with all that is due behind it.  An Alertmanager has its own groups. */
static bool may_begin(struct way *w)
{
	const uint64_t now_us = ev_now_us(w->all->env.loop);

	if (w->conf->type == CONF_ALERT_ALERTMANAGER)
		return true;
	if (w->begun == 0 || now_us - w->begun_us >= ALERT_WAY_SPAN_US) {
		w->begun_us = now_us;
		w->begun = 0;
	}
	if (w->begun >= ALERT_WAY_SPAN_MAX)
		return false;
	w->begun++;
	return true;
}

static bool has_due(const struct way *w, uint64_t now_us)
{
	void *value;

	for (size_t at = 0; map_next(w->items, &at, NULL, NULL, &value);)
		if (is_due(w, value, now_us))
			return true;
	return false;
}

static void write_body(struct way *w, uint64_t now_us)
{
	struct alert_telling t[ALERT_WAY_TOGETHER];
	uint8_t random[8];
	char hex[17];
	size_t n = 0;
	void *value;

	for (size_t at = 0; n < ALERT_WAY_TOGETHER && map_next(w->items, &at, NULL, NULL, &value);) {
		struct item *it = value;

		it->sent = is_due(w, it, now_us);
		it->sent_over = it->news.over;
		it->sent_severity = (int)it->news.severity;
		if (it->sent)
			t[n++] = (struct alert_telling){ &it->news, tenant_of(w->all, it->news.tenant_id), it->told };
	}
	id_random(random, sizeof(random));
	text_hex(random, sizeof(random), hex);
	(void)snprintf(w->id, sizeof(w->id), "alerts-%s", hex);
	alert_tell(&(struct alert_form){ w->conf, w->all->server, w->id }, t, n, now_us, &w->body);
}

static void go(struct way *w)
{
	const uint64_t now_us = clock_wall_us();

	if (w->busy || ev_timer_armed(w->retry))
		return;
	if (w->body.len == 0) {
		if (!has_due(w, now_us) || !may_begin(w))
			return;
		write_body(w, now_us);
	}
	w->busy = true;
	if (w->mail)
		mail_send(w->mail, w->body.p, w->body.len);
	else
		hook_send(w->hook, &(struct hook_message){ .id = w->id, .type = "application/json", .body = w->body.p,
							   .len = w->body.len });
}

void alert_ways_go(struct alert_ways *a)
{
	for (size_t i = 0; i < a->n; i++)
		go(&a->v[i]);
}

/* --- what became of them */

static void forget_message(struct way *w)
{
	void *value;

	str_reset(&w->body);
	for (size_t at = 0; map_next(w->items, &at, NULL, NULL, &value);)
		((struct item *)value)->sent = false;
}

static void taken(struct way *w)
{
	const uint64_t now_us = clock_wall_us();
	struct tolds told = { NULL, 0 };
	void *value;

	if (w->failures > 0)
		log_info(NULL, "a way out takes alerts again way=%s", w->conf->name);
	w->failures = 0;
	w->why[0] = '\0';
	w->sent++;
	w->told_us = now_us;
	for (size_t at = 0; map_next(w->items, &at, NULL, NULL, &value);) {
		struct item *it = value;
		const bool news = it->told != it->sent_severity || w->conf->type != CONF_ALERT_ALERTMANAGER;

		if (!it->sent)
			continue;
		it->told = it->sent_severity;
		it->told_us = now_us;
		it->dirty = it->news.id == 0;
		if (news || it->sent_over)
			add_told(&told, w, it, it->news.id, it->sent_over);
		if (it->sent_over && !it->news.over)
			it->told = -1;  /* it has begun again */
		else if (it->sent_over)
			drop(w, it);
	}
	forget_message(w);
	store(w->all, &told);
}

static void failed(struct way *w, const struct hook_answer *a)
{
	const bool news = strcmp(w->why, a->why) != 0;
	uint64_t ms = RETRY_FIRST_MS;

	for (unsigned i = 0; i < w->failures && ms < ALERT_WAY_RETRY_MS; i++)
		ms *= 2;
	if (ms > ALERT_WAY_RETRY_MS || a->mend)
		ms = ALERT_WAY_RETRY_MS;
	w->failures++;
	w->failed++;
	(void)snprintf(w->why, sizeof(w->why), "%s", a->why);
	if (news)
		log_warn(NULL, "a way out does not take alerts, they wait way=%s why=\"%s\"", w->conf->name, w->why);
	if (w->conf->type == CONF_ALERT_ALERTMANAGER)
		forget_message(w);      /* it is told what holds by then */
	if (a->after_us)
		ms = a->after_us / 1000;
	w->retry_us = ev_now_us(w->all->env.loop) + ms * 1000;
	ev_timer_start(w->retry, ms * 1000);
}

static void on_answer(void *arg, const struct hook_answer *a)
{
	struct way *w = arg;

	w->busy = false;
	if (!a->taken) {
		failed(w, a);
		return;
	}
	taken(w);
	go(w);
}

static void on_retry(void *arg)
{
	go(arg);
}

/* --- from the store */

static struct way *find(struct alert_ways *a, const char *name)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i].conf->name, name) == 0)
			return &a->v[i];
	return NULL;
}

static void load_one(struct way *w, struct db_stmt *st)
{
	const int64_t severity = db_col_i64(st, 7);
	struct alert_news n = { .id = db_col_i64(st, 1), .tenant_id = db_col_i64(st, 6),
				.over = db_col_i64(st, 8) == ALERT_OVER, .first_us = (uint64_t)db_col_i64(st, 9),
				.last_us = (uint64_t)db_col_i64(st, 10), .count = (uint64_t)db_col_i64(st, 11),
				.value = (uint64_t)db_col_i64(st, 13), .usual = (uint64_t)db_col_i64(st, 14),
				.over_us = (uint64_t)db_col_i64(st, 15) };
	struct item *it;

	if (!db_col_text(st, 4, NULL) || alert_rule_find(db_col_text(st, 4, NULL), &n.rule) < 0 || severity < 0 ||
	    severity >= ALERT_SEVERITIES)
		return;
	n.severity = (enum alert_severity)severity;
	db_col_copy(st, 5, n.subject, sizeof(n.subject));
	db_col_copy(st, 12, n.text, sizeof(n.text));
	it = add(w, &n);
	if (!it)
		return;
	it->dirty = false;
	it->told = (int)db_col_i64(st, 2);
	it->told_us = (uint64_t)db_col_i64(st, 3);
	it->looked_after = db_col_i64(st, 8) == ALERT_ACKNOWLEDGED;
}

/* Of a way that the configuration has no more nothing is kept in memory; its rows stay, in case it comes back. */
static int load(struct alert_ways *a, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_OUT_LOAD);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		struct way *w = find(a, db_col_text(st, 0, NULL));

		if (w)
			load_one(w, st);
	}
	db_stmt_put(&st);
	return rc;
}

static int open_way(struct alert_ways *a, const struct conf_alert *conf, struct err *err)
{
	struct way *w = &a->v[a->n++];
	char scope[CONF_SINK_NAME_MAX + sizeof("alert:")], *url = NULL;
	const struct mail_conf mail = post(conf);
	int rc;

	w->all = a;
	w->conf = conf;
	w->items = map_new();
	w->retry = ev_timer_new(a->env.loop, on_retry, w);
	(void)snprintf(scope, sizeof(scope), "alert:%s", conf->name);   /* no tenant has that name */
	if (conf->type == CONF_ALERT_MAIL) {
		rc = mail_open(a->env.loop, a->env.fetcher, &mail, scope, on_answer, w, &w->mail, err);
	} else {
		const struct hook_conf at = place(conf, &url);

		rc = hook_open(a->env.fetcher, &at, scope, on_answer, w, &w->hook, err);
		free(url);
	}
	return rc < 0 ? fault(conf, err) : 0;
}

int alert_ways_open(const struct alert_env *env, struct db *db, struct alert_ways **ret, struct err *err)
{
	struct alert_ways *a = mem_zalloc(sizeof(*a));
	const size_t n = env->conf ? env->conf->nalerts : 0;
	int rc = 0;

	a->env = *env;
	a->v = mem_calloc(n + 1, sizeof(*a->v));
	if (gethostname(a->server, sizeof(a->server) - 1) != 0)
		(void)snprintf(a->server, sizeof(a->server), "toolcrib");
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = open_way(a, &env->conf->alerts[i], err);
	if (rc == 0 && n > 0)
		rc = load(a, db, err);
	if (rc < 0) {
		alert_ways_close(&a);
		return rc;
	}
	*ret = a;
	return 0;
}

void alert_ways_close(struct alert_ways **ap)
{
	struct alert_ways *a = ap ? *ap : NULL;

	if (!a)
		return;
	*ap = NULL;
	for (size_t i = 0; i < a->n; i++) {
		struct way *w = &a->v[i];
		void *value;

		hook_close(&w->hook);
		mail_close(&w->mail);
		ev_timer_free(&w->retry);
		for (size_t at = 0; map_next(w->items, &at, NULL, NULL, &value);)
			free(value);
		map_free(&w->items);
		str_fini(&w->body);
	}
	free(a->v);
	free(a);
}

/* --- for people */

static struct alert_way_view view(const struct way *w)
{
	const uint64_t now_us = ev_now_us(w->all->env.loop);
	struct alert_way_view v = { .name = w->conf->name, .type = conf_alert_type_name(w->conf->type), .why = w->why,
		.severity = (enum alert_severity)w->conf->severity, .sent = w->sent, .failures = w->failed,
		.dropped = w->dropped, .told_us = w->told_us,
		.retry_s = ev_timer_armed(w->retry) && w->retry_us > now_us ? (w->retry_us - now_us + 999999) / 1000000 : 0 };
	void *value;

	for (size_t at = 0; map_next(w->items, &at, NULL, NULL, &value);)
		v.waiting += is_due(w, value, clock_wall_us());
	return v;
}

void alert_ways_each(const struct alert_ways *a, alert_way_fn *fn, void *arg)
{
	for (size_t i = 0; i < a->n; i++) {
		const struct alert_way_view v = view(&a->v[i]);

		fn(arg, &v);
	}
}

static uint64_t of_up(const struct alert_way_view *v) { return *v->why == '\0'; }
static uint64_t of_waiting(const struct alert_way_view *v) { return v->waiting; }
static uint64_t of_sent(const struct alert_way_view *v) { return v->sent; }
static uint64_t of_failures(const struct alert_way_view *v) { return v->failures; }
static uint64_t of_dropped(const struct alert_way_view *v) { return v->dropped; }

void alert_ways_expose(const struct alert_ways *a, enum metric_format format, struct str *ret)
{
	static const struct {
		const char *family;     /* NULL: the one before has this sample as well */
		enum metric_type type;
		const char *help, *sample, *label;
		uint64_t (*of)(const struct alert_way_view *v);
	} rows[] = {
		{ "alert_way_up", METRIC_GAUGE, "Whether a way out of alerts takes them: 1, else 0", "alert_way_up", "", of_up },
		{ "alert_way_waiting", METRIC_GAUGE, "Alerts that a way out is to be told of", "alert_way_waiting", "", of_waiting },
		{ "alert_messages", METRIC_COUNTER, "Messages about alerts by what became of them: taken, or to be sent again",
		  "alert_messages_total", ",result=\"taken\"", of_sent },
		{ NULL, METRIC_COUNTER, NULL, "alert_messages_total", ",result=\"failed\"", of_failures },
		{ "alert_way_dropped", METRIC_COUNTER, "How often an alert found too many waiting for a way out",
		  "alert_way_dropped_total", "", of_dropped },
	};

	for (size_t i = 0; a->n > 0 && i < NELEMS(rows); i++) {
		if (rows[i].family) {
			char *family = mem_printf(METRIC_PREFIX "%s", rows[i].family);

			metric_head(ret, format, family, rows[i].type, rows[i].help);
			free(family);
		}
		for (size_t k = 0; k < a->n; k++) {
			const struct alert_way_view v = view(&a->v[k]);

			str_printf(ret, METRIC_PREFIX "%s{way=\"%s\"%s} %" PRIu64 "\n", rows[i].sample, v.name, rows[i].label,
				   rows[i].of(&v));
		}
	}
}
