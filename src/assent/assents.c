/* The index of approvals, on the loop's thread: an entry says what the newest durable row says.  What changes a row
 * goes to the writer (rows.c), and the entry follows when that is durable; until then it is busy, which nobody uses. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "conf/conf.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/child.h"
#include "ev/ev.h"
#include "json/json.h"
#include "sandbox/policy.h"

#include "assent_int.h"

enum {
	ASK_QUEUE_MAX = 64,             /* requests that wait for the program; one more is not told */
	ASK_FILES = 64,
	ASK_FILE_BYTES = 1 << 30,
};
enum { LOOK_MIN_MS = 100, LOOK_MAX_MS = 30000, LAPSE_BATCH = 256, FIELDS_MAX = 8 };
#define STEP_US INT64_C(3600000000)     /* a clock that was set by more ends nothing at once */
#define CHANGED "the definition or its grant changed"

struct asking { struct list link; int64_t id; struct str line; };       /* a request that waits for the program */

struct telling {
	struct ev_loop *loop;
	char *program;
	uint64_t timeout_us;
	struct list queue; size_t n;
	struct asking *now;             /* whom the program is told of; NULL: it does not run */
	struct ev_child *child;
	struct ev_timer *timer;
	int fd[3];
	bool late, ended;               /* it took too long; no more programs */
};

struct assents {
	struct assent_env env;
	struct map *by_id;              /* all of them */
	struct map *by_digest;          /* the same by struct what */
	struct map *owners;             /* struct owner by struct who: of tenants, principal 0, and of principals */
	struct list jobs;               /* struct job.link: what has not come back */
	struct ev_timer *timer;
	int64_t last_id;
	int64_t offset_us;              /* wall clock above the monotonic one, as it was seen last */
	struct telling *telling;        /* NULL: nobody is told */
	bool closed;
};

struct what { int64_t tenant_id; uint8_t digest[32]; };
struct who { int64_t tenant_id, principal_id; };
struct owner { size_t open; };

/* --- entries and what is counted of them */

static struct what what_of(int64_t tenant_id, const uint8_t digest[32])
{
	struct what w;

	memset(&w, 0, sizeof(w));
	w.tenant_id = tenant_id;
	memcpy(w.digest, digest, sizeof(w.digest));
	return w;
}

static struct owner *owner_of(struct assents *all, int64_t tenant_id, int64_t principal_id)
{
	const struct who who = { tenant_id, principal_id };
	struct owner *o = map_get(all->owners, &who, sizeof(who));

	if (!o) {
		o = mem_zalloc(sizeof(*o));
		(void)map_set(all->owners, &who, sizeof(who), o);
	}
	return o;
}

/* by: 1 or -1 */
static void count(struct assents *all, const struct assent *a, int by)
{
	if (!assent_is_open((int)a->state))
		return;
	owner_of(all, a->tenant_id, 0)->open += (size_t)by;
	owner_of(all, a->tenant_id, a->principal_id)->open += (size_t)by;
	if (by > 0)
		metric_inc(METRIC_approvals_open);
	else
		metric_dec(METRIC_approvals_open);
}

static void entry_free(struct assent *a)
{
	assent_rule_free(&a->rule);
	free(a->prn);
	free(a->tool);
	free(a->name);
	free(a->whom);
	free(a->said);
	free(a);
}

static void add(struct assents *all, struct assent *a)
{
	const struct what w = what_of(a->tenant_id, a->digest);
	struct str whom = STR_INIT;

	assent_rule_whom(a->rule, &whom);
	a->whom = str_take(&whom);
	(void)map_set_u64(all->by_id, (uint64_t)a->id, a);
	(void)map_set(all->by_digest, &w, sizeof(w), a);
	count(all, a, 1);
}

static void drop(struct assents *all, struct assent *a)
{
	const struct what w = what_of(a->tenant_id, a->digest);

	count(all, a, -1);
	(void)map_del_u64(all->by_id, (uint64_t)a->id);
	if (map_get(all->by_digest, &w, sizeof(w)) == a)
		(void)map_del(all->by_digest, &w, sizeof(w));
	entry_free(a);
}

struct assent *assent_find(struct assents *all, int64_t tenant_id, const uint8_t digest[32])
{
	const struct what w = what_of(tenant_id, digest);
	struct assent *a = map_get(all->by_digest, &w, sizeof(w));

	/* What no longer counts is gone, though its end may not be on record yet. */
	if (a && a->state == ASSENT_REFUSED && a->due_us <= clock_wall_us()) {
		drop(all, a);
		a = NULL;
	}
	return a;
}

struct assent *assent_by_id(struct assents *all, int64_t id)
{
	return map_get_u64(all->by_id, (uint64_t)id);
}

struct assent *assent_of_call(struct assents *all, int64_t tenant_id, const uint8_t call[16])
{
	const void *key;
	size_t len;
	void *v;

	for (size_t it = 0; map_next(all->by_id, &it, &key, &len, &v); ) {
		struct assent *a = v;

		if (a->tenant_id == tenant_id && memcmp(a->call, call, sizeof(a->call)) == 0 && assent_is_open((int)a->state))
			return a;
	}
	return NULL;
}

void assents_each(struct assents *all, assent_each_fn *fn, void *arg)
{
	const void *key;
	size_t len;
	void *v;

	for (size_t it = 0; map_next(all->by_id, &it, &key, &len, &v); )
		if (assent_is_open((int)((struct assent *)v)->state))
			fn(arg, v);
}

bool assent_stands(const struct assents *all, const struct assent *a)
{
	const struct assent_caller caller = { a->tenant, a->principal };
	unsigned n = 0, also = 0;

	for (unsigned i = 0; i < a->nvote; i++) {
		const unsigned of = assent_decides(all->env.roles, all->env.nroles, a->rule, &caller, a->vote[i].who);

		n += (of & ASSENT_OF_RULE) != 0;
		also += (of & ASSENT_OF_ALSO) != 0;
	}
	return n >= a->rule->count && (!a->rule->also || also >= a->rule->also->count);
}

/* --- approve.notify */

/* A program is told of each request (decision 0129), a process for each, one after the other.  Nothing waits for it. */

static void tell_next(struct telling *k);

static void asking_free(struct asking *q)
{
	if (!q)
		return;
	list_unlink(&q->link);
	str_fini(&q->line);
	free(q);
}

static void fds_close(struct telling *k)
{
	for (size_t i = 0; i < NELEMS(k->fd); i++) {
		if (k->fd[i] >= 0)
			close(k->fd[i]);
		k->fd[i] = -1;
	}
}

static void tell_over(struct telling *k, bool told)
{
	if (told)
		metric_inc(METRIC_approvals_told);
	else
		metric_inc(METRIC_approvals_untold);
	asking_free(k->now);
	k->now = NULL;
}

static void on_tell_late(void *arg)
{
	struct telling *k = arg;

	k->late = true;
	log_warn(NULL, "approve.notify takes too long and is ended approval=%lld", (long long)k->now->id);
	ev_child_stop(k->child, 0);
}

static void on_told(void *arg, int status, const char *refused)
{
	struct telling *k = arg;
	const bool told = !refused && status == 0 && !k->late;

	k->child = NULL;
	ev_timer_stop(k->timer);
	fds_close(k);
	if (!told && !k->late)
		log_warn(NULL, "approve.notify failed approval=%lld status=%d why=\"%s\"", (long long)k->now->id, status,
			 refused ? refused : "");
	tell_over(k, told);
	tell_next(k);
}

static int tell_start(struct telling *k, struct err *err)
{
	static const char *const env[] = { "PATH=/usr/local/bin:/usr/bin:/bin", NULL };
	const char *const argv[] = { k->program, NULL };
	const struct sandbox_policy policy = { .program = k->program, .argv = argv, .env = env, .cwd = "/",
		.file_bytes = ASK_FILE_BYTES, .open_files = ASK_FILES, .net = SANDBOX_NET_ANY };
	const struct ev_child_req req = { .policy = &policy, .ended = on_told, .arg = k };
	const struct str *line = &k->now->line;
	int rc = ev_child_start(k->loop, &req, k->fd, &k->child, err);

	if (rc < 0)
		return rc;
	k->late = false;
	/* A line is smaller than what a pipe takes at once. */
	if (write(k->fd[0], line->p, line->len) != (ssize_t)line->len)
		log_warn(NULL, "approve.notify does not read its line approval=%lld", (long long)k->now->id);
	close(k->fd[0]);
	k->fd[0] = -1;
	ev_timer_start(k->timer, k->timeout_us);
	return 0;
}

/* Bounded by the queue: one that cannot be started makes room for the one behind it. */
static void tell_next(struct telling *k)
{
	struct err err = { 0 };

	while (!k->now && !k->ended && !list_empty(&k->queue)) {
		k->now = CONTAINER_OF(k->queue.next, struct asking, link);
		list_unlink(&k->now->link);
		k->n--;
		if (tell_start(k, &err) == 0)
			return;
		log_warn(NULL, "approve.notify cannot be started why=\"%s\"", err.msg);
		tell_over(k, false);
	}
}

/* --- what it is told: what `approve list` shows an administrator, and nothing of the arguments */

static void put_time(json_t *to, const char *name, uint64_t us)
{
	char text[32];

	json_object_set_new(to, name, json_string(clock_format_utc(us, text, sizeof(text))));
}

static void put_line(const struct assent *a, struct str *out)
{
	json_t *line = json_object(), *by = json_array();

	for (const struct assent_rule *rule = a->rule; rule; rule = rule->also) {
		for (size_t i = 0; i < rule->nby; i++) {
			char *whom = mem_printf("%s:%s", rule->by[i].group ? "group" : "person", rule->by[i].name);

			json_array_append_new(by, json_string(whom));
			free(whom);
		}
	}
	json_object_set_new(line, "id", json_integer(a->id));
	json_object_set_new(line, "tenant", json_string(a->tenant));
	json_object_set_new(line, "tool", json_string(a->tool));
	if (*a->principal)
		json_object_set_new(line, "principal", json_string(a->principal));
	put_time(line, "asked", a->asked_us);
	put_time(line, "until", a->due_us);
	json_object_set_new(line, "count", json_integer((json_int_t)assent_rule_count(a->rule)));
	json_object_set_new(line, "by", by);
	jx_write(line, out);
	str_printf(out, "\n");
	json_decref(line);
}

static void tell_person(struct telling *k, const struct assent *a)
{
	struct asking *q;

	if (!k || !a || k->ended)
		return;
	if (k->n >= ASK_QUEUE_MAX) {
		log_warn(NULL, "approve.notify is behind and is not told approval=%lld", (long long)a->id);
		metric_inc(METRIC_approvals_untold);
		return;
	}
	q = mem_zalloc(sizeof(*q));
	q->id = a->id;
	put_line(a, &q->line);
	list_push_back(&k->queue, &q->link);
	k->n++;
	tell_next(k);
}

static struct telling *telling_new(const struct assent_env *env)
{
	struct telling *k;

	if (!env->notify)
		return NULL;
	k = mem_zalloc(sizeof(*k));
	*k = (struct telling){ .loop = env->loop, .program = mem_strdup(env->notify),
		.timeout_us = UINT64_C(1000) * env->notify_ms, .fd = { -1, -1, -1 } };
	list_init(&k->queue);
	k->timer = ev_timer_new(env->loop, on_tell_late, k);
	return k;
}

/* Its process dies with all others, of which nobody hears any more. */
void assents_no_commands(struct assents *all)
{
	struct telling *k = all ? all->telling : NULL;

	if (!k)
		return;
	k->ended = true;
	k->child = NULL;
	ev_timer_stop(k->timer);
}

static void telling_free(struct telling *k)
{
	if (!k)
		return;
	while (!list_empty(&k->queue))
		asking_free(CONTAINER_OF(k->queue.next, struct asking, link));
	asking_free(k->now);
	fds_close(k);
	ev_timer_free(&k->timer);
	free(k->program);
	free(k);
}

/* --- what is on its way */

struct job {
	struct list link;
	struct assents *all;
	int64_t id;
	writer_audit_fn *done;          /* or NULL */
	void *arg;
	enum assent_state to;
};

static struct job *job_new(struct assents *all, struct assent *a, enum assent_state to, writer_audit_fn *done,
			   void *arg)
{
	struct job *j = mem_zalloc(sizeof(*j));

	*j = (struct job){ .all = all, .id = a->id, .done = done, .arg = arg, .to = to };
	list_push_back(&all->jobs, &j->link);
	a->busy = true;
	return j;
}

static void assents_free(struct assents *all);

static void job_free(struct job *j)
{
	struct assents *all = j->all;

	list_unlink(&j->link);
	free(j);
	if (all->closed && list_empty(&all->jobs))
		assents_free(all);
}

static void look_in(struct assents *all, uint64_t ms)
{
	if (!all->closed)
		ev_timer_start(all->timer, ms * 1000);
}

static void tell(const struct assents *all, const struct assent *a)
{
	if (a && all->env.changed && !all->closed)
		all->env.changed(all->env.arg, a);
}

/* Of a new one, a use, a lapse. */
static void on_written(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct job *j = arg;
	struct assents *all = j->all;
	struct assent *a = assent_by_id(all, j->id);

	if (a) {
		a->busy = false;
		if ((rc == 0) == (j->to != ASSENT_WAITS)) {     /* it is over, or never was */
			tell(all, j->to == ASSENT_LAPSED ? a : NULL);
			drop(all, a);
		}
	}
	if (rc == 0 && j->to == ASSENT_WAITS) {
		metric_inc(METRIC_approvals_asked);
		tell_person(all->closed ? NULL : all->telling, a);
	}
	if (rc == 0 && j->to == ASSENT_USED)
		metric_inc(METRIC_approvals_used);
	if (j->done && !all->closed)
		j->done(j->arg, rc, receipt);
	job_free(j);
}

static int carry(const struct assents *all, struct assent_carrier by, const struct audit_event *ev, int what,
		 const void *row, size_t size, struct job *j)
{
	return by.fn ? by.fn(by.arg, ev, &assent_rows[what], row, size, on_written, j) :
		writer_change(all->env.writer, ev, 1, &assent_rows[what], row, size, on_written, j);
}

/* The event of a caller with ours behind the fields it has. */
static void add_fields(struct audit_event *ev, struct audit_field fields[FIELDS_MAX], const uint8_t which[ASSENT_FIELD],
		       const struct str *votes)
{
	size_t n = 0;

	for (size_t i = 0; i < ev->nfield && n < FIELDS_MAX - 2; i++)
		fields[n++] = ev->field[i];
	fields[n++] = (struct audit_field){ AUDIT_TAG_ASSENT, which, ASSENT_FIELD };
	if (votes)
		fields[n++] = (struct audit_field){ AUDIT_TAG_VOTES, votes->p, votes->len };
	ev->field = fields;
	ev->nfield = n;
}

static void copy(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from ? from : "");       /* they fit: AUDIT A-409 */
}

/* --- filing */

int assent_room(struct assents *all, int64_t tenant_id, int64_t principal_id, struct err *err)
{
	if (owner_of(all, tenant_id, 0)->open < ASSENTS_TENANT_MAX &&
	    owner_of(all, tenant_id, principal_id)->open < ASSENTS_PRINCIPAL_MAX)
		return 0;
	metric_inc(METRIC_approvals_refused);
	return err_set(err, ERR_LIMIT, "", "too many calls wait for approval; nobody was asked");
}

static struct assent *entry_new(struct assents *all, const struct assent_new *n, const struct audit_event *ev)
{
	struct assent *a = mem_zalloc(sizeof(*a));
	struct err err = { 0 };

	if (assent_rule_parse(n->rule, &a->rule, &err) < 0) {   /* it has been read before */
		free(a);
		return NULL;
	}
	a->id = ++all->last_id;
	a->tenant_id = n->tenant_id;
	a->principal_id = n->principal_id;
	a->state = ASSENT_WAITS;
	memcpy(a->digest, n->digest, sizeof(a->digest));
	memcpy(a->tdef, n->tdef, sizeof(a->tdef));
	memcpy(a->call, ev->call, sizeof(a->call));
	copy(a->tenant, sizeof(a->tenant), n->tenant);
	copy(a->principal, sizeof(a->principal), n->principal);
	a->prn = mem_strdup(n->prn);
	a->tool = mem_strdup(n->tool);
	a->name = mem_strdup(n->name);
	a->asked_us = ev->time_us;
	a->due_us = ev->time_us + a->rule->timeout_ms * 1000;
	return a;
}

static struct assent_add *row_of(const struct assent *a, const struct assent_new *n, size_t *ret_size)
{
	const size_t rule_len = strlen(n->rule), size = sizeof(struct assent_add) + rule_len + 1 + n->shown_len + 1;
	struct assent_add *row = mem_zalloc(size);

	row->id = a->id;
	row->tenant_id = n->tenant_id;
	row->principal_id = n->principal_id;
	copy(row->prn, sizeof(row->prn), n->prn);
	copy(row->cred, sizeof(row->cred), n->cred);
	copy(row->tool, sizeof(row->tool), n->tool);
	copy(row->name, sizeof(row->name), n->name);
	memcpy(row->digest, n->digest, sizeof(row->digest));
	memcpy(row->tdef, n->tdef, sizeof(row->tdef));
	memcpy(row->call, a->call, sizeof(row->call));
	row->asked_us = a->asked_us;
	row->due_us = a->due_us;
	row->rule_len = rule_len;
	row->shown_len = n->shown_len;
	memcpy(row->text, n->rule, rule_len);
	memcpy(row->text + rule_len + 1, n->shown, n->shown_len);
	*ret_size = size;
	return row;
}

int assent_file(struct assents *all, const struct assent_new *n, const struct audit_event *ev, struct assent_carrier by,
		writer_audit_fn *done, void *arg, struct assent **ret)
{
	struct audit_field fields[FIELDS_MAX];
	struct audit_event with = *ev;
	uint8_t which[ASSENT_FIELD];
	struct assent_add *row;
	struct assent *a = entry_new(all, n, ev);
	struct job *j;
	size_t size;
	int rc;

	if (!a)
		return ERR_AUDIT;
	row = row_of(a, n, &size);
	assent_field(a->id, a->digest, ASSENT_WAITS, which);
	add_fields(&with, fields, which, NULL);
	add(all, a);                    /* an identical call joins it */
	j = job_new(all, a, ASSENT_WAITS, done, arg);
	*ret = a;
	rc = carry(all, by, &with, ASSENT_ROWS_ADD, row, size, j);
	free(row);
	if (rc < 0) {
		drop(all, a);
		job_free(j);
		return rc;
	}
	if (!ev_timer_armed(all->timer))
		look_in(all, LOOK_MAX_MS);
	return 0;
}

/* --- its end */

int assent_use(struct assents *all, struct assent *a, const struct audit_event *ev, struct assent_carrier by,
	       writer_audit_fn *done, void *arg)
{
	struct assent_end row = { .id = a->id, .tenant_id = a->tenant_id, .us = ev->time_us };
	struct audit_field fields[FIELDS_MAX];
	struct audit_event with = *ev;
	uint8_t which[ASSENT_FIELD];
	struct str votes = STR_INIT;
	struct job *j;
	int rc;

	memcpy(row.call, ev->call, sizeof(row.call));
	assent_field(a->id, a->digest, ASSENT_USED, which);
	assent_votes_text(a->vote, a->nvote, &votes);
	add_fields(&with, fields, which, &votes);
	if (!with.has_prev)
		memcpy(with.prev, a->call, sizeof(with.prev));
	with.has_prev = true;
	j = job_new(all, a, ASSENT_USED, done, arg);
	rc = carry(all, by, &with, ASSENT_ROWS_USE, &row, sizeof(row), j);
	str_fini(&votes);
	if (rc < 0) {
		a->busy = false;
		job_free(j);
	}
	return rc;
}

void assent_lapse(struct assents *all, struct assent *a, const char *why)
{
	struct assent_end row = { .id = a->id, .tenant_id = a->tenant_id };
	uint8_t which[ASSENT_FIELD];
	struct audit_field fields[FIELDS_MAX];
	struct audit_event ev;
	struct job *j;

	if (a->busy)
		return;                 /* the next look finds it */
	audit_event_init(&ev, AUDIT_CALL_LAPSED, a->tenant_id);
	row.us = ev.time_us;
	copy(row.said, sizeof(row.said), why);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.prn = a->prn;
	ev.tool = a->tool;
	ev.has_call = true;             /* beside the call that asked */
	memcpy(ev.call, a->call, sizeof(ev.call));
	ev.detail = why;
	assent_field(a->id, a->digest, ASSENT_LAPSED, which);
	add_fields(&ev, fields, which, NULL);
	j = job_new(all, a, ASSENT_LAPSED, NULL, NULL);
	if (writer_change(all->env.writer, &ev, 1, &assent_rows[ASSENT_ROWS_LAPSE], &row, sizeof(row), on_written, j) < 0) {
		a->busy = false;        /* the next look tries again */
		job_free(j);
	}
}

/* Why it cannot go on; NULL: it can. */
static const char *reason_of(struct assents *all, const struct assent *a, uint64_t now)
{
	if (a->due_us <= now)
		return a->state == ASSENT_WAITS ? "nobody decided in time" : "it was not used in time";
	if (all->env.stands && !all->env.stands(all->env.arg, a))
		return CHANGED;
	if (a->state == ASSENT_GRANTED && !assent_stands(all, a))
		return "who agreed may not any more";
	return NULL;
}

static void on_timer(void *arg)
{
	struct assents *all = arg;
	const uint64_t now = clock_wall_us();
	const int64_t offset = (int64_t)now - (int64_t)clock_mono_us();
	const bool stepped = llabs(offset - all->offset_us) > STEP_US;
	uint64_t next = now + UINT64_C(1000) * LOOK_MAX_MS;
	const void *key;
	size_t len, n = 0;
	void *v;

	all->offset_us = offset;
	for (size_t it = 0; !stepped && map_next(all->by_id, &it, &key, &len, &v); ) {
		struct assent *a = v;
		const bool open = assent_is_open((int)a->state);
		const char *why = open ? reason_of(all, a, now) : NULL;

		if (!open && a->due_us <= now && !a->busy)
			drop(all, a);
		else if (why && n++ < LAPSE_BATCH)
			assent_lapse(all, a, why);
		else if (a->due_us < next)
			next = a->due_us;
	}
	if (map_count(all->by_id) > 0)
		look_in(all, next > now + UINT64_C(1000) * LOOK_MIN_MS && n == 0 ? (next - now) / 1000 : LOOK_MIN_MS);
}

void assents_look(struct assents *all)
{
	if (map_count(all->by_id) > 0)
		look_in(all, 0);
}

void assents_set_roles(struct assents *all, const struct conf_role *roles, size_t n)
{
	all->env.roles = roles;
	all->env.nroles = n;
	assents_look(all);
}

/* --- what a command has done */

static void voted(struct assent *a, const struct assent_deed *d)
{
	struct assent_vote *v = &a->vote[a->nvote];

	if (a->nvote == ASSENT_COUNT_MAX)
		return;
	copy(v->who, sizeof(v->who), d->who);
	copy(v->name, sizeof(v->name), d->name);
	copy(v->reason, sizeof(v->reason), d->reason);
	v->us = d->us;
	a->nvote++;
}

void assent_done(struct assents *all, const struct assent_deed *d)
{
	struct assent *a = assent_by_id(all, d->id);

	if (!a)
		return;
	count(all, a, -1);
	a->state = d->state;
	count(all, a, 1);
	if (d->state == ASSENT_WAITS || d->state == ASSENT_GRANTED)
		voted(a, d);
	if (d->state == ASSENT_GRANTED)
		a->due_us = d->use_by_us;
	if (d->state == ASSENT_REFUSED) {
		a->said = mem_printf("Refused by %s%s%s", d->who, *d->reason ? ": " : "", d->reason);
		a->due_us = d->us + UINT64_C(1000) * ASSENT_REFUSED_MS;
	}
	tell(all, d->state != ASSENT_WAITS ? a : NULL);
	if (d->state == ASSENT_RECALLED)
		drop(all, a);
	if (d->state != ASSENT_WAITS)
		metric_inc(METRIC_approvals_decided);
	assents_look(all);
}

/* --- opening and closing */

static bool copy_blob(struct db_stmt *st, unsigned col, uint8_t *ret, size_t size)
{
	size_t len;
	const void *p = db_col_blob(st, col, &len);

	if (len == size)
		memcpy(ret, p, size);
	return len == size;
}

/* A row that is not as it was written is nobody's yes. */
static void read_one(struct assents *all, struct db_stmt *st)
{
	struct assent *a = mem_zalloc(sizeof(*a));
	struct err err = { 0 };
	bool ok = assent_rule_parse(db_col_text(st, 8, NULL), &a->rule, &err) == 0 &&
		copy_blob(st, 4, a->digest, sizeof(a->digest)) && copy_blob(st, 7, a->tdef, sizeof(a->tdef)) &&
		copy_blob(st, 14, a->call, sizeof(a->call));

	a->id = db_col_i64(st, 0);
	a->tenant_id = db_col_i64(st, 1);
	a->principal_id = db_col_i64(st, 2);
	a->state = (enum assent_state)db_col_i64(st, 9);
	if (!ok) {
		log_err(NULL, "the row of an approval is damaged, and nobody can use it approval=%" PRId64, a->id);
		entry_free(a);
		return;
	}
	a->prn = db_col_dup(st, 3);
	a->tool = db_col_dup(st, 5);
	a->name = db_col_dup(st, 6);
	db_col_copy(st, 16, a->tenant, sizeof(a->tenant));
	db_col_copy(st, 17, a->principal, sizeof(a->principal));
	a->asked_us = (uint64_t)db_col_i64(st, 10);
	a->due_us = (uint64_t)db_col_i64(st, a->state == ASSENT_WAITS ? 11 : 13);
	if (a->state == ASSENT_REFUSED) {
		a->due_us = (uint64_t)db_col_i64(st, 12) + UINT64_C(1000) * ASSENT_REFUSED_MS;
		a->said = db_col_dup(st, 15);
	}
	add(all, a);
}

static int read_votes(struct db *db, struct assent *a, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ASSENT_VOTES);
	int rc;

	db_bind_i64(st, 1, a->id);
	db_bind_i64(st, 2, a->tenant_id);
	while ((rc = db_step(st, err)) == 1 && a->nvote < ASSENT_COUNT_MAX) {
		struct assent_vote *v = &a->vote[a->nvote++];

		db_col_copy(st, 0, v->who, sizeof(v->who));
		db_col_copy(st, 1, v->name, sizeof(v->name));
		v->us = (uint64_t)db_col_i64(st, 2);
		db_col_copy(st, 3, v->reason, sizeof(v->reason));
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int read_last(struct assents *all, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ASSENT_LAST);
	int rc = db_step(st, err);

	if (rc == 1)
		all->last_id = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int read_all(struct assents *all, struct db *db, struct err *err)
{
	const uint64_t now = clock_wall_us(), back = UINT64_C(1000) * ASSENT_REFUSED_MS;
	struct db_stmt *st = db_stmt_get(db, SQL_ASSENT_LIST);
	const void *key;
	size_t len;
	void *v;
	int rc;

	db_bind_i64(st, 1, (int64_t)(now > back ? now - back : 0));
	while ((rc = db_step(st, err)) == 1)
		read_one(all, st);
	db_stmt_put(&st);
	for (size_t it = 0; rc == 0 && map_next(all->by_id, &it, &key, &len, &v); )
		rc = read_votes(db, v, err);
	return rc < 0 ? rc : read_last(all, db, err);
}

int assents_open(const struct assent_env *env, struct assents **ret, struct err *err)
{
	struct assents *all = mem_zalloc(sizeof(*all));
	struct db *own = NULL;
	int rc;

	all->env = *env;
	all->by_id = map_new();
	all->by_digest = map_new();
	all->owners = map_new();
	list_init(&all->jobs);
	all->telling = telling_new(env);
	all->timer = ev_timer_new(env->loop, on_timer, all);
	all->offset_us = (int64_t)clock_wall_us() - (int64_t)clock_mono_us();
	all->env.db = NULL;
	rc = env->db ? 0 : db_open_store(db_in(env->place.store), &own, err);
	if (rc == 0)
		rc = read_all(all, env->db ? env->db : own, err);
	db_close(&own);
	if (rc < 0) {
		assents_free(all);
		return rc;
	}
	assents_look(all);
	*ret = all;
	return 0;
}

static void assents_free(struct assents *all)
{
	const void *key;
	size_t len;
	void *v;

	for (size_t it = 0; map_next(all->by_id, &it, &key, &len, &v); ) {
		count(all, v, -1);
		entry_free(v);
	}
	for (size_t it = 0; map_next(all->owners, &it, &key, &len, &v); )
		free(v);
	map_free(&all->by_id);
	map_free(&all->by_digest);
	map_free(&all->owners);
	ev_timer_free(&all->timer);
	telling_free(all->telling);
	free(all);
}

void assents_close(struct assents **p)
{
	struct assents *all = p ? *p : NULL;

	if (!all)
		return;
	*p = NULL;
	all->closed = true;
	ev_timer_stop(all->timer);
	if (list_empty(&all->jobs))
		assents_free(all);      /* else whoever comes back last */
}
