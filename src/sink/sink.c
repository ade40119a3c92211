/* What happens when: each second positions are written and sizes of logs learned; then whoever has not all gets the
 * next part of a log, logs and sinks in turn; what was taken moves a position, what was not is sent again, later and
 * later.  Loop thread. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/db.h"
#include "ev/ev.h"
#include "writer/writer.h"

#include "sink_int.h"

#define REFUSED_AT_BYTES 3000           /* of places in one record */

static const struct sink_type *const types[CONF_SINK_TYPES] = { [CONF_SINK_FILE] = &sink_file,
								[CONF_SINK_WEBHOOK] = &sink_webhook,
								[CONF_SINK_SYSLOG] = &sink_syslog,
								[CONF_SINK_HEC] = &sink_hec,
								[CONF_SINK_OTLP] = &sink_otlp,
								[CONF_SINK_S3] = &sink_s3 };

/* --- what the configuration names */

static const struct { int code; const char *name; } kinds[] = {
#define KIND(sym, number, text) { number, text },
	AUDIT_KINDS(KIND)
#undef KIND
};

static int check_kinds(const struct conf_sink *s, struct err *err)
{
	const char *names[NELEMS(kinds)];

	for (size_t i = 0; i < NELEMS(kinds); i++)
		names[i] = kinds[i].name;
	for (size_t k = 0; k < s->nkinds; k++) {
		const char *near = text_nearest(s->kinds[k], names, NELEMS(names));
		size_t i = 0;

		while (i < NELEMS(kinds) && !text_glob(s->kinds[k], kinds[i].name))
			i++;
		if (i < NELEMS(kinds))
			continue;
		(void)err_set(err, ERR_INVALID, "sinks", "sink %s: no kind of records is called %s", s->name, s->kinds[k]);
		if (near)
			err_hint(err, "did you mean %s?", near);
		return ERR_INVALID;
	}
	return 0;
}

static bool is_inside(const char *dir, const char *store)
{
	char *real = realpath(dir, NULL), *folder = realpath(store, NULL);
	const size_t len = folder ? strlen(folder) : 0;
	const bool inside = real && folder && strncmp(real, folder, len) == 0 && (real[len] == '/' || real[len] == '\0');

	free(real);
	free(folder);
	return inside;
}

/* Its directory has to be there: the server opens nothing outside of what was there when it started. */
static int check_file(const struct conf_sink *s, const char *store, struct err *err)
{
	const char *slash = strrchr(s->path, '/');
	char *dir = slash > s->path ? mem_strndup(s->path, (size_t)(slash - s->path)) : mem_strdup("/");
	struct stat st;
	int rc = 0;

	if (stat(dir, &st) || !S_ISDIR(st.st_mode)) {
		rc = err_set(err, ERR_INVALID, "sinks", "sink %s: %s is no directory", s->name, dir);
		err_hint(err, "make it, writable for the user of the server: install -d -o USER -m 750 %s", dir);
	} else if (store && is_inside(dir, store)) {
		rc = err_set(err, ERR_DENIED, "sinks", "sink %s: %s lies in the store, where nothing else is written", s->name,
			     s->path);
	}
	free(dir);
	return rc;
}

int sinks_check(const struct conf *conf, const char *store, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < conf->nsinks; i++) {
		rc = check_kinds(&conf->sinks[i], err);
		if (rc == 0 && conf->sinks[i].path)
			rc = check_file(&conf->sinks[i], store, err);
		if (rc == 0 && types[conf->sinks[i].type]->check)
			rc = types[conf->sinks[i].type]->check(&conf->sinks[i], err);
	}
	return rc;
}

/* --- on record (OP-309) */

static void tell(const struct sinks *a, const char *name, const char *what)
{
	char obj[CONF_SINK_NAME_MAX + sizeof("sink/")];
	struct audit_event ev;

	(void)snprintf(obj, sizeof(obj), "sink/%s", name);
	audit_event_init(&ev, AUDIT_SINK_CHANGE, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.obj = obj;
	ev.detail = what;
	if (writer_audit(a->env.writer, &ev, NULL, NULL) < 0)
		log_warn(NULL, "a change of a sink could not be recorded sink=%s what=\"%s\"", name, what);
}

/* What it is now, if that is not what the last record says; once in SINK_TELL_MS, so that one that comes and goes fills
 * no log. */
static void tell_state(struct sink *s)
{
	const bool down = s->failures > 0 || s->stopped;
	const uint64_t now = clock_mono_us();
	char text[sizeof(s->why) + 64];

	if (down == s->told_down || (s->told_us && now < s->told_us + SINK_TELL_MS * 1000ull))
		return;
	s->told_us = now;
	s->told_down = down;
	if (down)
		(void)snprintf(text, sizeof(text), "%s: %s", s->stopped ? "stopped" : "does not take records", s->why);
	else
		(void)snprintf(text, sizeof(text), "takes records again");
	tell(s->all, s->conf->name, text);
}

/* As seldom: what is told is a record again, which may be refused as well. */
static void tell_refused(struct sink *s)
{
	const uint64_t now = clock_mono_us(), n = s->refused - s->refused_told;
	char *text;

	if (n == 0 || (s->refused_us && !s->all->closing && now < s->refused_us + SINK_TELL_MS * 1000ull))
		return;
	s->refused_us = now;
	s->refused_told = s->refused;
	text = mem_printf("does not want %" PRIu64 " records: %s%s%s", n, s->refused_why, str_text(&s->refused_at),
			  s->refused_at.len < REFUSED_AT_BYTES ? "" : "; …");
	tell(s->all, s->conf->name, text);
	free(text);
	str_reset(&s->refused_at);
}

static void tell_names(struct sinks *a)
{
	bool news = a->ngone > 0;

	for (size_t i = 0; i < a->n; i++) {
		const struct sink *s = &a->v[i];
		const bool new = !s->known || !*s->text;
		char *text;

		if (!new && strcmp(s->text, s->conf->text) == 0)
			continue;
		text = mem_printf("%s%s: %s", new ? "added" : "changed", s->conf->clear ? ", with names of people" : "",
				  s->conf->text);
		tell(a, s->conf->name, text);
		free(text);
		news = true;
	}
	for (size_t i = 0; i < a->ngone; i++)
		tell(a, a->gone[i], "removed");
	if (news && sinks_put_names(a) < 0)
		log_warn(NULL, "what the configuration says of sinks could not be noted, the next start tells it again");
}

/* --- positions */

static bool wants(struct sink *s, size_t at)
{
	const struct sink_log *log = &s->all->log[at];
	struct sink_place *place = &s->place[at];
	bool named = s->conf->ntenants == 0;

	if (place->wanted != SINK_UNASKED)
		return place->wanted == SINK_WANTED;
	for (size_t i = 0; !named && i < s->conf->ntenants; i++)
		named = log->tenant && strcmp(log->tenant, s->conf->tenants[i]) == 0;
	if (log->tenant_id == 0)
		named = s->conf->system;
	place->wanted = named ? SINK_WANTED : SINK_UNWANTED;
	return named;
}

static uint64_t behind(struct sink *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->all->nlogs; i++)
		if (s->place[i].next < s->all->log[i].size && wants(s, i))
			n += (uint64_t)(s->all->log[i].size - s->place[i].next);
	return n;
}

/* How old what waits may be.  It has all of before has_us, which follows the time from goal to goal; and of a batch
 * that is not taken it is known how old that is, also by a server that has just started. */
static uint64_t lag_us(struct sink *s)
{
	const uint64_t now = clock_mono_us(), wall = clock_wall_us();
	uint64_t lag = now > s->has_us ? now - s->has_us : 0;

	if (behind(s) == 0)
		return 0;
	if (s->failures > 0 && s->full && (uint64_t)s->batch.ts_us < wall && wall - (uint64_t)s->batch.ts_us > lag)
		lag = wall - (uint64_t)s->batch.ts_us;
	return lag;
}

static void look_back(struct sink *s)
{
	const struct sinks *a = s->all;

	if (behind(s) == 0)
		s->has_us = a->sized_us;
	for (size_t i = 0; i < a->nlogs; i++)
		if (s->place[i].next < s->place[i].goal && wants(s, i))
			return;
	s->has_us = s->goal_us > s->has_us ? s->goal_us : s->has_us;
	s->goal_us = a->sized_us;
	for (size_t i = 0; i < a->nlogs; i++)
		s->place[i].goal = a->log[i].size;
}

static bool is_late(const struct sink *s, uint64_t lag)
{
	return s->conf->required_ms > 0 && lag > s->conf->required_ms * 1000;
}

/* OP-316: who may do nothing without the copy does nothing. */
static void hold(struct sinks *a)
{
	const struct sink *late = NULL;

	for (size_t i = 0; a->sized && !late && i < a->n; i++)
		if (is_late(&a->v[i], lag_us(&a->v[i])))
			late = &a->v[i];
	if (!late == !a->held[0])
		return;
	if (late) {
		(void)snprintf(a->held, sizeof(a->held), "sink %s is too far behind", late->conf->name);
		log_err(NULL, "calls are refused until a sink has what is recorded sink=%s", late->conf->name);
		tell(a, late->conf->name, "is required and too far behind: calls are refused");
	} else {
		a->held[0] = '\0';
		log_info(NULL, "calls are taken again, sinks have what is recorded");
	}
	writer_hold_sink(a->env.writer, late ? a->held : NULL);
}

static void move_on(struct sink *s)
{
	struct sink_batch *b = &s->batch;
	char text[160];

	s->place[b->log].next = b->to;
	s->place[b->log].dirty = true;
	if (b->n > 0)
		s->place[b->log].taken_us = clock_mono_us();
	s->turn = b->log + 1;
	s->pruned += b->pruned;
	if (b->pruned == 0)
		return;
	(void)snprintf(text, sizeof(text), "%" PRIu64 " records from %" PRId64 " on of %s were pruned before they were sent",
		       b->pruned, b->from, s->all->log[b->log].origin);
	log_warn(NULL, "records are gone that a sink has not got sink=%s log=%s from=%" PRId64 " count=%" PRIu64,
		 s->conf->name, s->all->log[b->log].origin, b->from, b->pruned);
	tell(s->all, s->conf->name, text);
}

/* A store that was put back is behind what was sent of it: to go on would send other records in their place. */
static void check_ends(struct sink *s)
{
	for (size_t i = 0; !s->stopped && i < s->all->nlogs; i++) {
		const struct sink_log *log = &s->all->log[i];

		if (s->place[i].next <= log->size)
			continue;
		s->stopped = true;
		(void)snprintf(s->why, sizeof(s->why),
			       "record %" PRId64 " of %s is next, but there are %" PRId64 ": the store was put back behind what was sent",
			       s->place[i].next, log->origin, log->size);
		log_err(NULL, "a sink is stopped sink=%s why=\"%s\"", s->conf->name, s->why);
	}
}

/* OP-302: a new one that begins with what comes. */
static void begin_now(struct sink *s)
{
	for (size_t i = 0; i < s->all->nlogs; i++)
		s->place[i] = (struct sink_place){ .next = s->all->log[i].size, .dirty = true };
}

/* --- delivering */

static void go(struct sinks *a);

static void settle(struct sinks *a)
{
	a->idle = !a->reading && !a->saving && a->lanes == 0 && a->naming == 0;
}

static void deliver(struct sink *s)
{
	if (!s->full || s->busy || s->waits || s->paused || s->stopped || s->all->closing || ev_timer_armed(s->retry))
		return;
	s->busy = true;
	s->type->send(s, &s->batch);
}

static void all_is_well(struct sink *s)
{
	move_on(s);
	if (s->failures > 0)
		log_info(NULL, "a sink takes records again sink=%s", s->conf->name);
	s->failures = 0;
	s->mend = false;
	s->why[0] = '\0';
}

static void taken(struct sink *s)
{
	s->busy = false;
	s->full = false;
	s->sent += s->batch.n;
	s->cut += s->batch.cut;
	s->batches++;
	all_is_well(s);
	go(s->all);
	settle(s->all);
}

/* OP-305 */
static uint64_t delay_us(const struct sink *s)
{
	uint64_t ms = SINK_RETRY_FIRST_MS;
	uint8_t chance;

	for (unsigned i = 1; i < s->failures && ms < SINK_RETRY_MOST_MS; i++)
		ms *= 2;
	if (ms > SINK_RETRY_MOST_MS)
		ms = SINK_RETRY_MOST_MS;
	id_random(&chance, 1);
	return ms * 800 + ms * 400 * chance / 255;
}

static void failed(struct sink *s, const char *why, uint64_t after_us)
{
	const bool news = strcmp(s->why, why) != 0;
	uint64_t delay;

	s->busy = false;
	s->mend = after_us == SINK_MEND;
	after_us = s->mend ? SINK_RETRY_MOST_MS * 1000ull : after_us;
	s->failures++;
	s->failed++;
	(void)snprintf(s->why, sizeof(s->why), "%s", why);
	if (news)
		log_warn(NULL, "a sink does not take records, they wait sink=%s why=\"%s\"", s->conf->name, s->why);
	tell_state(s);
	delay = after_us ? after_us : delay_us(s);
	s->retry_us = clock_mono_us() + delay;
	if (!s->all->closing)
		ev_timer_start(s->retry, delay);
	settle(s->all);
}

static void not_yet(struct sink *s)
{
	s->busy = false;
	s->waits = true;
	s->file_dirty = true;
	s->all->save_soon = true;
	sinks_save(s->all);
	settle(s->all);
}

/* It says why, in its own words. */
static void refused(struct sink *s, uint64_t n, int64_t idx, const char *why)
{
	static struct log_site site;
	const struct sink_batch *b = &s->batch;
	const char *origin = s->all->log[b->log].origin;

	if (!*why)
		why = "it does not say why";
	sink_refusals_add(&s->refusals, &(struct sink_refusal){ .log = s->all->log[b->log].id, .from = idx < 0 ? b->from : idx,
		.to = idx < 0 ? b->to : idx + 1, .records = (int64_t)n, .at_us = clock_wall_us(), .why = (char *)(uintptr_t)why });
	if (idx >= 0 && s->refused_at.len < REFUSED_AT_BYTES)
		str_printf(&s->refused_at, "; record %" PRId64 " of %s", idx, origin);
	s->refused += n;
	(void)snprintf(s->refused_why, sizeof(s->refused_why), "%s", why);
	if (log_allow(&site))
		log_warn(NULL, "a sink does not want records sink=%s log=%s from=%" PRId64 " count=%" PRIu64 " why=\"%s\"",
			 s->conf->name, origin, idx < 0 ? s->batch.from : idx, n, s->refused_why);
}

static bool again(struct sink *s)
{
	bool any = false;

	for (size_t i = 0; i < s->all->nlogs; i++) {
		const int64_t from = sink_resend_from(&s->resend, i, s->place[i].next);

		s->place[i].dirty |= from != s->place[i].next;
		any |= from != s->place[i].next;
		s->place[i].next = from;
		sink_resend_forget(&s->resend, i);
	}
	s->full = false;
	return any;
}

static void read_done(struct sink *s, int rc, const struct err *err)
{
	char why[sizeof(s->why)];

	if (rc < 0) {
		(void)snprintf(why, sizeof(why), "its records cannot be read: %.200s", err->msg);
		failed(s, why, 0);
	} else if (s->batch.from != s->place[s->batch.log].next) {
		s->full = false;        /* again() came meanwhile */
	} else if (s->batch.n == 0) {
		if (s->batch.to == s->batch.from)
			s->place[s->batch.log].rest_us = clock_mono_us() + SINK_REST_MS * 1000ull;
		all_is_well(s);
	} else {
		s->full = true;
		deliver(s);
	}
	settle(s->all);
}

static void on_retry(void *arg)
{
	struct sink *s = arg;

	deliver(s);
	go(s->all);
}

/* --- reading, in turn */

static bool next_log(struct sink *s, size_t *ret)
{
	const size_t n = s->all->nlogs;

	for (size_t i = 0; i < n; i++) {
		const size_t at = (s->turn + i) % n;

		if (s->place[at].next < s->all->log[at].size && wants(s, at) && (!s->type->ready || s->type->ready(s, at))) {
			*ret = at;
			return true;
		}
	}
	return false;
}

static void go(struct sinks *a)
{
	const uint64_t now = clock_mono_us();

	if (a->closing || a->reading || !a->sized)
		return;
	if (now < a->paced_us) {
		ev_timer_start(a->pace, a->paced_us - now);
		return;
	}
	for (size_t i = 0; i < a->n; i++) {
		struct sink *s = &a->v[a->turn++ % a->n];
		size_t log;

		if (!s->full && !s->paused && !s->stopped && !ev_timer_armed(s->retry) && next_log(s, &log) && sink_read(s, log))
			return;
	}
}

static void on_pace(void *arg)
{
	go(arg);
}

/* --- each second */

static void saved(struct sinks *a, bool well)
{
	for (size_t i = 0; well && i < a->n; i++) {
		struct sink *s = &a->v[i];

		if (!a->sized && !s->placed && s->conf->from_now)
			begin_now(s);
		check_ends(s);
	}
	a->sized |= well;
	for (size_t i = 0; well && i < a->n; i++) {
		struct sink *s = &a->v[i];

		if (!s->waits || s->file_dirty)
			continue;
		s->waits = false;
		deliver(s);
	}
	if (well && a->save_soon)
		sinks_save(a);
	go(a);
	settle(a);
}

static void on_tick(void *arg)
{
	struct sinks *a = arg;

	sinks_save(a);
	for (size_t i = 0; i < a->n; i++) {
		struct sink *s = &a->v[i];

		look_back(s);
		tell_state(s);
		tell_refused(s);
	}
	hold(a);
	go(a);
	ev_timer_start(a->tick, SINK_TICK_MS * 1000ull);
}

/* --- life */

static uint8_t *kinds_of(const struct conf_sink *conf)
{
	uint8_t *bits = conf->nkinds ? mem_zalloc(SINK_KIND_CODES / 8) : NULL;

	for (size_t k = 0; k < conf->nkinds; k++)
		for (size_t i = 0; i < NELEMS(kinds); i++)
			if (text_glob(conf->kinds[k], kinds[i].name))
				bits[kinds[i].code / 8] |= (uint8_t)(1u << kinds[i].code % 8);
	return bits;
}

static void sinks_free(struct sinks *a)
{
	for (size_t i = 0; i < a->n; i++) {
		struct sink *s = &a->v[i];

		if (s->own)
			s->type->close(s);
		ev_timer_free(&s->retry);
		str_fini(&s->batch.body);
		str_fini(&s->refused_at);
		sink_refusals_fini(&s->refusals);
		free(s->kinds);
		free(s->place);
		free(s->resend.log);
		free(s->text);
	}
	for (size_t i = 0; i < a->nlogs; i++) {
		free(a->log[i].origin);
		free(a->log[i].tenant);
	}
	while (a->ngone > 0)
		free(a->gone[--a->ngone]);
	for (size_t i = 0; i < NELEMS(a->carrier); i++)
		report_carrier_free(&a->carrier[i]);
	db_close(&a->db);
	ev_timer_free(&a->tick);
	ev_timer_free(&a->pace);
	free(a->gone);
	free(a->log);
	free(a->v);
	free(a);
}

static const struct sink_ends ends = { read_done, saved, taken, failed, not_yet, again, refused, settle, go };

int sinks_open(const struct sinks_env *env, struct sinks **ret, struct err *err)
{
	struct sinks *a = mem_zalloc(sizeof(*a));
	int rc = sinks_check(env->conf, env->store, err);

	a->env = *env;
	a->on = &ends;
	a->v = mem_calloc(env->conf->nsinks + 1, sizeof(*a->v));
	a->tick = ev_timer_new(env->loop, on_tick, a);
	a->pace = ev_timer_new(env->loop, on_pace, a);
	for (; a->n < env->conf->nsinks; a->n++) {
		struct sink *s = &a->v[a->n];

		*s = (struct sink){ .all = a, .conf = &env->conf->sinks[a->n] };
		s->has_us = s->goal_us = clock_mono_us();
		s->resend.for_us = s->conf->resend_ms * 1000;
		s->kinds = kinds_of(s->conf);
		s->type = types[s->conf->type];
		s->retry = ev_timer_new(env->loop, on_retry, s);
	}
	rc = rc ? rc : sinks_load(a, err);
	for (size_t i = 0; rc == 0 && i < a->n; i++)
		rc = a->v[i].type->open(&a->v[i], err);
	if (rc < 0) {
		sinks_free(a);
		return rc;
	}
	tell_names(a);
	a->save_soon = true;
	if (a->n > 0)
		ev_timer_start(a->tick, 0);
	*ret = a;
	return 0;
}

void sinks_close(struct sinks **ap)
{
	struct sinks *a = *ap;
	bool settled;

	if (!a)
		return;
	*ap = NULL;
	a->closing = true;
	writer_hold_sink(a->env.writer, NULL);
	ev_timer_stop(a->tick);
	ev_timer_stop(a->pace);
	for (size_t i = 0; i < a->n; i++) {
		ev_timer_stop(a->v[i].retry);
		tell_refused(&a->v[i]);
	}
	settle(a);
	settled = a->idle || ev_loop_run_until(a->env.loop, &a->idle, SINK_STOP_MS);
	sinks_save(a);
	settle(a);
	settled = settled && (a->idle || ev_loop_run_until(a->env.loop, &a->idle, SINK_STOP_MS));
	if (settled)
		sinks_free(a);
	else                            /* whoever has it still touches it */
		log_warn(NULL, "a sink does not end, what it has not confirmed is sent again by the next start");
}

/* --- what is seen of them */

const char *sink_state_name(enum sink_state state)
{
	static const char *const names[SINK_STATES] = { [SINK_UP] = "up", [SINK_RETRIES] = "retries",
							[SINK_REFUSED] = "refused", [SINK_PAUSED] = "paused",
							[SINK_STOPPED] = "stopped" };

	return names[state];
}

static enum sink_state state_of(const struct sink *s)
{
	if (s->stopped || s->paused)
		return s->stopped ? SINK_STOPPED : SINK_PAUSED;
	return s->failures == 0 ? SINK_UP : s->mend ? SINK_REFUSED : SINK_RETRIES;
}

void sinks_each(const struct sinks *a, sink_view_fn *fn, void *arg)
{
	const uint64_t now = clock_mono_us();

	for (size_t i = 0; i < a->n; i++) {
		struct sink *s = &a->v[i];
		const bool waits = ev_timer_armed(s->retry) && s->retry_us > now;
		const uint64_t lag = lag_us(s);

		fn(arg, &(struct sink_view){ .name = s->conf->name, .type = conf_sink_type_name(s->conf->type),
				.state = state_of(s), .why = s->why, .behind = behind(s),
				.behind_s = lag / 1000000,
				.required_s = s->conf->required_ms / 1000, .late = is_late(s, lag),
				.retry_s = waits ? (s->retry_us - now + 999999) / 1000000 : 0, .sent = s->sent,
				.pruned = s->pruned, .cut = s->cut, .refused = s->refused,
				.rejected = s->refusals.n, .batches = s->batches,
				.failures = s->failed, .clear = s->conf->clear });
	}
}

static void describe(void *arg, const struct sink_view *v)
{
	struct str *ret = arg;

	str_printf(ret, "%s%s: %s", ret->len ? "; " : "", v->name, sink_state_name(v->state));
	if (v->behind > 0)
		str_printf(ret, ", %" PRIu64 " records behind for %" PRIu64 " s", v->behind, v->behind_s);
	if (v->refused > 0)
		str_printf(ret, ", %" PRIu64 " records refused", v->refused);
	if (v->late)
		str_puts(ret, ", which calls wait for");
	if (v->rejected > 0)
		str_printf(ret, ", %zu to be settled", v->rejected);
	if (*v->why)
		str_printf(ret, ": %s", v->why);
}

void sinks_describe(const struct sinks *a, struct str *ret)
{
	sinks_each(a, describe, ret);
}

struct exposed { struct str *ret; const char *name; const char *label; uint64_t (*of)(const struct sink_view *v); };

static void expose_one(void *arg, const struct sink_view *v)
{
	const struct exposed *e = arg;

	str_printf(e->ret, METRIC_PREFIX "%s{sink=\"%s\"%s} %" PRIu64 "\n", e->name, v->name, e->label, e->of(v));
}

static uint64_t of_up(const struct sink_view *v) { return v->state == SINK_UP; }
static uint64_t of_behind(const struct sink_view *v) { return v->behind; }
static uint64_t of_seconds(const struct sink_view *v) { return v->behind_s; }
static uint64_t of_required(const struct sink_view *v) { return v->required_s; }
static uint64_t of_sent(const struct sink_view *v) { return v->sent; }
static uint64_t of_pruned(const struct sink_view *v) { return v->pruned; }
static uint64_t of_refused(const struct sink_view *v) { return v->refused; }
static uint64_t of_rejected(const struct sink_view *v) { return v->rejected; }
static uint64_t of_cut(const struct sink_view *v) { return v->cut; }
static uint64_t of_batches(const struct sink_view *v) { return v->batches; }
static uint64_t of_failures(const struct sink_view *v) { return v->failures; }

void sinks_expose(const struct sinks *a, enum metric_format format, struct str *ret)
{
	static const struct {
		const char *family;     /* NULL: the one before has this sample as well */
		enum metric_type type;
		const char *help, *sample, *label;
		uint64_t (*of)(const struct sink_view *v);
	} rows[] = {
		{ "sink_up", METRIC_GAUGE, "Whether a sink takes records: 1, else 0", "sink_up", "", of_up },
		{ "sink_lag_records", METRIC_GAUGE, "Records that wait for a sink", "sink_lag_records", "", of_behind },
		{ "sink_lag_seconds", METRIC_GAUGE, "How old the oldest record may be that waits for a sink; 0 = none does",
		  "sink_lag_seconds", "", of_seconds },
		{ "sink_required_seconds", METRIC_GAUGE, 
		  "How old what waits for a sink may be before calls are refused; 0 = they never are",
		  "sink_required_seconds", "", of_required },
		{ "sink_records", METRIC_COUNTER,
		  "Records by what became of them: sent, pruned before that, or refused of those that were sent",
		  "sink_records_total", ",result=\"sent\"", of_sent },
		{ NULL, METRIC_COUNTER, NULL, "sink_records_total", ",result=\"pruned\"", of_pruned },
		{ NULL, METRIC_COUNTER, NULL, "sink_records_total", ",result=\"refused\"", of_refused },
		{ "sink_rejected", METRIC_GAUGE, "Refusals of a sink that nobody has settled yet", "sink_rejected",
		  "", of_rejected },
		{ "sink_cut", METRIC_COUNTER, "Records that went without their text, which is too long for a message",
		  "sink_cut_total", "", of_cut },
		{ "sink_batches", METRIC_COUNTER, "Batches by what became of them: taken by a sink, or to be sent again",
		  "sink_batches_total", ",result=\"taken\"", of_batches },
		{ NULL, METRIC_COUNTER, NULL, "sink_batches_total", ",result=\"failed\"", of_failures },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		if (rows[i].family) {
			char *family = mem_printf(METRIC_PREFIX "%s", rows[i].family);

			metric_head(ret, format, family, rows[i].type, rows[i].help);
			free(family);
		}
		sinks_each(a, expose_one, &(struct exposed){ ret, rows[i].sample, rows[i].label, rows[i].of });
	}
}

/* --- what an administrator says */

static int find(struct sinks *a, const char *name, struct sink **ret, struct err *err)
{
	for (size_t i = 0; i < a->n; i++) {
		*ret = &a->v[i];
		if (strcmp(a->v[i].conf->name, name) == 0)
			return 0;
	}
	(void)err_set(err, ERR_NOT_FOUND, name, "there is no sink %s", name);
	err_hint(err, "toolcrib sink list");
	return ERR_NOT_FOUND;
}

int sinks_pause(struct sinks *a, const char *name, bool pause, struct err *err)
{
	struct sink *s;
	int rc = find(a, name, &s, err);

	if (rc < 0)
		return rc;
	s->paused = pause;
	if (!pause)
		ev_timer_stop(s->retry);
	deliver(s);
	go(a);
	return 0;
}

/* A batch that was read and not taken yet is of another place then. */
int sinks_seek(struct sinks *a, const char *name, const char *log, int64_t to, struct err *err)
{
	struct sink *s;
	char text[160];
	size_t moved = 0;
	int rc = find(a, name, &s, err);

	if (rc < 0)
		return rc;
	if (s->busy || a->reading_of == s)
		return err_set(err, ERR_BUSY, name, "records are on their way to %s right now; try again", name);
	for (size_t i = 0; i < a->nlogs; i++) {
		const struct sink_log *l = &a->log[i];

		if (log && strcmp(l->origin, log) != 0)
			continue;
		if (to > l->size)
			return err_set(err, ERR_INVALID, "index", "%s has %" PRId64 " records", l->origin, l->size);
		s->place[i].next = to < 0 ? l->size : to;
		s->place[i].dirty = true;
		sink_resend_forget(&s->resend, i);
		if (to >= 0)
			sink_refusals_forget(&s->refusals, l->id, to);
		moved++;
	}
	if (moved == 0)
		return err_set(err, ERR_NOT_FOUND, "log", "there is no log %s", log ? log : "");
	s->full = false;
	s->stopped = false;
	s->why[0] = '\0';
	(void)snprintf(text, sizeof(text), "moved to %s%.100s", to < 0 ? "the end" : to == 0 ? "the begin" : "a position",
		       log ? log : "");
	tell(a, name, text);
	check_ends(s);
	go(a);
	return 0;
}

int sinks_rejected(struct sinks *a, const char *name, sink_rejected_fn *fn, void *arg, struct err *err)
{
	struct sink *s;
	int rc = find(a, name, &s, err);

	for (size_t i = 0; rc == 0 && i < s->refusals.n; i++) {
		const struct sink_refusal *r = &s->refusals.v[i];
		const char *origin = "";

		for (size_t k = 0; k < a->nlogs; k++)
			if (a->log[k].id == r->log)
				origin = a->log[k].origin;
		fn(arg, &(struct sink_rejected){ origin, r->from, r->to, r->records, r->at_us, r->why });
	}
	return rc;
}

int sinks_settle(struct sinks *a, const char *name, size_t *ret_n, struct err *err)
{
	struct sink *s;
	int rc = find(a, name, &s, err);

	if (rc < 0)
		return rc;
	*ret_n = s->refusals.n;
	sink_refusals_forget(&s->refusals, 0, 0);
	ev_timer_stop(s->retry);
	deliver(s);
	go(a);
	return 0;
}
