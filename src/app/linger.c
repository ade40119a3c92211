/* Calls that outlast their server (OP-903, decision 0125): it gives the store away while they run, and stays for them
 * alone; each record of theirs goes to whoever has the store, and is durable there before anybody is answered.  First
 * the side of the one that has the store, which may have several such elders, then that of the one that stays.  Loop
 * thread; what is handed on is memory with a descriptor, so that a word is whole or not there. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"
#include "ship/ship.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "app_int.h"
#include "handover_int.h"

#define ID_HEX (2 * 16)

/* --- the one that has the store, and its elders */

static void put_call(struct app_word *m, const uint8_t id[16], uint64_t begun_us, const struct principal *who)
{
	char hex[ID_HEX + 1];

	text_hex(id, 16, hex);
	*m = (struct app_word){ .magic = APP_WORD_MAGIC, .protocol = APP_WORD_PROTOCOL, .word = APP_STAYS,
				.number = (int64_t)begun_us };
	(void)snprintf(m->text, sizeof(m->text), "%s %lld %lld %lld %d %s %s", hex, (long long)who->tenant_id,
		       (long long)who->principal_id, (long long)who->cred_id, who->authn,
		       *who->accessor ? who->accessor : "-", who->name);
}

struct elder_call {
	int64_t tenant_id, principal_id, cred_id;
	int authn;
	char accessor[16], name[64];
};

struct elder {
	struct app *app;
	int fd;                         /* -1: it has ended */
	int64_t pid;
	struct ev_io *io;
	struct elder_call call[APP_STAY_MAX];
	uint8_t id[APP_STAY_MAX][16];
	size_t n, waiting;              /* calls; records that are not durable yet */
};

struct app_elders {
	struct elder *at[APP_ELDERS_MAX + 1];
	size_t n;
	uint64_t since_us;              /* when the first of their calls began */
};

struct heard { struct elder *of; uint64_t number; };

static struct elder *elder_new(struct app *a, int64_t pid, int fd)
{
	struct elder *e;

	if (!a->elders)
		a->elders = mem_zalloc(sizeof(*a->elders));
	if (a->elders->n == NELEMS(a->elders->at))
		return NULL;
	e = a->elders->at[a->elders->n++] = mem_zalloc(sizeof(*e));
	e->app = a;
	e->pid = pid;
	e->fd = fd;
	return e;
}

static void add_call(struct app *a, struct elder *e, const struct app_word *m)
{
	struct app_elders *all = a->elders;
	struct audit_calls *out = &a->elsewhere;
	struct elder_call *c = &e->call[e->n];
	char hex[ID_HEX + 1];
	long long tenant, principal, cred;

	if (e->n == APP_STAY_MAX || sscanf(m->text, "%32s %lld %lld %lld %d %15s %63[^\n]", hex, &tenant, &principal, &cred,
					   &c->authn, c->accessor, c->name) != 7 ||
	    text_unhex(hex, strlen(hex), e->id[e->n], sizeof(e->id[e->n])) < 0)
		return;                 /* its start closes it, and what it says of its end finds no begin */
	c->tenant_id = tenant;
	c->principal_id = principal;
	c->cred_id = cred;
	if (strcmp(c->accessor, "-") == 0)
		c->accessor[0] = '\0';
	out->id = mem_realloc(out->id, (out->n + 1) * sizeof(*out->id));
	memcpy(out->id[out->n++], e->id[e->n++], sizeof(*out->id));
	if (all->since_us == 0 || (uint64_t)m->number < all->since_us)
		all->since_us = (uint64_t)m->number;
}

/* The first of them is the one that is spoken with: its descriptor comes last. */
bool app_elders_word(struct app *a, int64_t pid, const struct app_word *word, int fd)
{
	struct elder *first = a->elders ? a->elders->at[0] : NULL;

	if (!word) {
		if (first && first->n > 0)
			first->fd = fd;
		if (a->elsewhere.n > 0)         /* the record's time was read by another look at the clock */
			a->elsewhere_us = a->elders->since_us - 1000000;
		return first && first->n > 0;
	}
	if (!first)
		(void)elder_new(a, pid, -1);
	if (word->word == APP_ELDER)
		return fd >= 0 && elder_new(a, word->number, fd);
	if (word->word == APP_STAYS)
		add_call(a, a->elders->at[a->elders->n - 1], word);
	return false;
}

static void count_open(struct app *a)
{
	a->nelders = 0;
	for (size_t i = 0; a->elders && i < a->elders->n; i++)
		a->nelders += a->elders->at[i]->fd >= 0;
}

/* What has no end by now gets none from it. */
static void ended(struct elder *e)
{
	const struct audit_calls calls = { e->id, e->n };

	ev_io_free(&e->io);
	if (e->fd < 0)
		return;
	close(e->fd);
	e->fd = -1;
	count_open(e->app);
	log_info(NULL, "no call runs in the server before any more pid=%lld", (long long)e->pid);
	if (e->n > 0 && writer_recover(e->app->writer, &calls) < 0)
		log_warn(NULL, "calls of the server before that have no end are closed by the next start pid=%lld",
			 (long long)e->pid);
}

static void sweep(struct app *a)
{
	struct app_elders *all = a->elders;
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		if (all->at[i]->fd < 0 && all->at[i]->waiting == 0)
			free(all->at[i]);
		else
			all->at[n++] = all->at[i];
	all->n = n;
}

static void sweep_later(void *arg)
{
	struct app *a = arg;

	if (a->elders)
		sweep(a);
}

static void on_durable(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct heard *h = arg;
	struct elder *e = h->of;
	struct app_word m = { .magic = APP_WORD_MAGIC, .protocol = APP_WORD_PROTOCOL, .word = APP_RECORDED,
			      .flag = rc < 0, .number = (int64_t)h->number };

	if (rc == 0)
		(void)snprintf(m.text, sizeof(m.text), "%lld %lld", (long long)receipt->log, (long long)receipt->idx);
	e->waiting--;
	if (!e->app) {          /* the server has stopped */
		if (e->waiting == 0)
			free(e);
		free(h);
		return;
	}
	if (e->fd >= 0 && !app_word_send(e->fd, &m, -1))
		ended(e);
	free(h);
	ev_defer(e->app->loop, sweep_later, e->app);
}

/* The bytes of a record, or NULL. */
static void *read_record(int fd, size_t *ret_len)
{
	struct stat st;
	char *p = NULL;
	size_t at = 0;

	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size <= 0 || st.st_size > WRITER_RELAY_BYTES_MAX)
		return NULL;
	*ret_len = (size_t)st.st_size;
	p = mem_try_realloc(NULL, *ret_len);
	while (p && at < *ret_len) {
		ssize_t n = pread(fd, p + at, *ret_len - at, (off_t)at);

		if (n <= 0 && !(n < 0 && errno == EINTR)) {
			free(p);
			return NULL;
		}
		at += n > 0 ? (size_t)n : 0;
	}
	return p;
}

static void take_record(struct elder *e, const struct app_word *m, int fd)
{
	struct heard *h = mem_alloc(sizeof(*h));
	size_t len = 0;
	void *p = read_record(fd, &len);
	int rc;

	*h = (struct heard){ e, (uint64_t)m->number };
	e->waiting++;
	rc = p ? writer_audit_relayed(e->app->writer, p, len, on_durable, h) : ERR_INVALID;
	if (rc == ERR_INVALID)
		log_warn(NULL, "the server before says what is no record pid=%lld", (long long)e->pid);
	if (rc < 0)
		on_durable(h, rc, NULL);
	free(p);
}

static void on_elder(void *arg, bool readable, bool writable)
{
	struct elder *e = arg;
	struct app_word m;
	int fd, rc = app_word_hear(e->fd, 0, &m, &fd);

	(void)readable;
	(void)writable;
	if (rc == ERR_TIMEOUT)
		return;
	if (rc == 1 && m.word == APP_RECORD)
		take_record(e, &m, fd);
	if (fd >= 0)
		close(fd);
	if (rc == 1)
		return;
	ended(e);
	ev_defer(e->app->loop, sweep_later, e->app);
}

int app_elders_start(struct app *a, struct err *err)
{
	(void)err;
	for (size_t i = 0; a->elders && i < a->elders->n; i++) {
		struct elder *e = a->elders->at[i];

		if (e->fd < 0)
			continue;
		log_info(NULL, "calls run on in the server before pid=%lld count=%zu", (long long)e->pid, e->n);
		e->io = ev_io_new(a->loop, e->fd, on_elder, e);
		ev_io_want(e->io, true, false);
	}
	count_open(a);
	if (a->elders)
		ev_defer(a->loop, sweep_later, a);
	return 0;
}

static void elders_quiet(struct app *a)
{
	for (size_t i = 0; a->elders && i < a->elders->n; i++)
		ev_io_free(&a->elders->at[i]->io);
}

static void elders_free(struct app *a)
{
	elders_quiet(a);
	for (size_t i = 0; a->elders && i < a->elders->n; i++) {
		struct elder *e = a->elders->at[i];

		if (e->fd >= 0)
			close(e->fd);
		e->fd = -1;
		e->app = NULL;
		if (e->waiting == 0)
			free(e);        /* else with the last record of it that comes back */
	}
	free(a->elsewhere.id);
	a->elsewhere = (struct audit_calls){ NULL, 0 };
	free(a->elders);
	a->elders = NULL;
	count_open(a);
}

void app_elders_stop(struct app *a)
{
	if (a->linger)
		elders_quiet(a);
	else
		elders_free(a);
}

/* And they are the other side's. */
static bool elders_tell(struct app *a, int fd)
{
	bool ok = true;

	for (size_t i = 0; a->elders && i < a->elders->n; i++) {
		const struct elder *e = a->elders->at[i];

		if (e->fd < 0)
			continue;
		ok = ok && app_word_say(fd, APP_ELDER, e->pid, "", e->fd);
		for (size_t k = 0; ok && k < e->n; k++) {
			struct app_word m;
			struct principal who = { .tenant_id = e->call[k].tenant_id, .principal_id = e->call[k].principal_id,
						 .cred_id = e->call[k].cred_id, .authn = e->call[k].authn };

			(void)snprintf(who.accessor, sizeof(who.accessor), "%s", e->call[k].accessor);
			(void)snprintf(who.name, sizeof(who.name), "%s", e->call[k].name);
			put_call(&m, e->id[k], a->elders->since_us, &who);
			ok = app_word_send(fd, &m, -1);
		}
	}
	if (ok)
		elders_free(a);
	return ok;
}

/* Is a record of theirs on its way? */
static bool elders_busy(const struct app *a)
{
	size_t n = 0;

	for (size_t i = 0; a->elders && i < a->elders->n; i++)
		n += a->elders->at[i]->waiting;
	return n > 0;
}

/* --- what ends here ends there */

static void say_cancel(struct elder *e, const struct call_where *where, enum cancel_why why)
{
	char text[232];

	(void)snprintf(text, sizeof(text), "%lld %lld %lld %s", (long long)where->tenant_id, (long long)where->principal_id,
		       (long long)where->cred_id, where->tool ? where->tool : "");
	if (e->fd >= 0 && !app_word_say(e->fd, APP_CANCELS, why, text, -1))
		ended(e);
}

size_t app_elders_cancel(void *app, const struct call_where *where, enum cancel_why why)
{
	struct app *a = app;
	size_t n = 0;

	for (size_t i = 0; a->elders && i < a->elders->n; i++) {
		struct elder *e = a->elders->at[i];

		say_cancel(e, where, why);
		for (size_t k = 0; e->fd >= 0 && !where->tool && k < e->n; k++)
			n += (!where->tenant_id || where->tenant_id == e->call[k].tenant_id) &&
				(!where->principal_id || where->principal_id == e->call[k].principal_id) &&
				(!where->cred_id || where->cred_id == e->call[k].cred_id);
	}
	return n;
}

/* Is who called still who may?  Its server knows the day before yesterday's answer alone. */
void app_elders_recheck(void *app, int64_t tenant_id)
{
	struct app *a = app;

	for (size_t i = 0; a->elders && i < a->elders->n; i++) {
		struct elder *e = a->elders->at[i];

		for (size_t k = 0; e->fd >= 0 && k < e->n; k++) {
			const struct elder_call *c = &e->call[k];
			const struct principal_again was = { .tenant_id = c->tenant_id, .principal_id = c->principal_id,
				.name = c->name, .accessor = c->accessor, .authn = c->authn };
			struct principal *who = NULL;
			struct err err;

			if (tenant_id && c->tenant_id != tenant_id)
				continue;
			if (principal_again(a->tenants, &was, &who, &err) < 0)
				say_cancel(e, &(struct call_where){ c->tenant_id, c->principal_id, c->cred_id, NULL },
					   CANCEL_REVOKED);
			principal_unref(&who);
		}
	}
}

/* --- the one that stays */

#define LOOK_US 10000

struct app_linger {
	int fd;                         /* -1: nobody has the store */
	struct ev_io *io;
	struct ev_timer *look;
	uint64_t until_us;
	bool begun, stopping;           /* the other side is there, or was; calls are to end now */
	struct app_word *stays;         /* the calls that did when it began; their ends may come before anybody can be told */
	size_t nstays;
	struct kept { uint64_t number; int fd; } *kept; /* records of that time */
	size_t nkept;
};

static bool may_go(const struct app *a)
{
	const size_t n = call_engine_staying(a->calls, NULL, NULL);

	return n == call_engine_running(a->calls) && n <= APP_STAY_MAX && a->nelders < APP_ELDERS_MAX &&
		!elders_busy(a);
}

static void note_call(void *arg, const uint8_t id[16], uint64_t begun_us, const struct principal *who)
{
	struct app_linger *l = arg;

	put_call(&l->stays[l->nstays++], id, begun_us, who);
}

/* Memory with the bytes, or -1. */
static int put_away(const void *p, size_t len)
{
	const char *at = p;
	int fd = memfd_create("record", MFD_CLOEXEC);

	while (fd >= 0 && len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			close(fd);
			return -1;
		}
		at += n;
		len -= (size_t)n;
	}
	return fd;
}

static bool say_record(struct app_linger *l, uint64_t number, int fd)
{
	bool said = l->fd >= 0 && app_word_say(l->fd, APP_RECORD, (int64_t)number, "", fd);

	close(fd);
	return said;
}

static bool say(void *app, uint64_t number, const void *p, size_t len)
{
	struct app *a = app;
	struct app_linger *l = a->linger;
	int fd = l ? put_away(p, len) : -1;

	if (fd < 0 || l->begun)
		return fd >= 0 && say_record(l, number, fd);
	l->kept = mem_realloc(l->kept, (l->nkept + 1) * sizeof(*l->kept));
	l->kept[l->nkept++] = (struct kept){ number, fd };
	return true;
}

/* Now: cancel. */
static void stop_lingering(struct app *a)
{
	a->linger->stopping = true;
	a->linger->until_us = ev_now_us(a->loop) + 5000000;
	call_engine_cancel_all(a->calls, CANCEL_SHUTDOWN);
}

static void nobody(struct app *a)
{
	struct app_linger *l = a->linger;

	ev_io_free(&l->io);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	if (call_engine_running(a->calls) > 0)
		log_err(NULL, "nobody has the store any more, so calls cannot go on count=%zu", call_engine_running(a->calls));
	writer_relay_broken(a->writer);
	stop_lingering(a);
}

static void take_receipt(struct app *a, const struct app_word *m)
{
	struct audit_receipt receipt = { 0 };
	long long log = 0, idx = 0;

	if (sscanf(m->text, "%lld %lld", &log, &idx) == 2)
		receipt = (struct audit_receipt){ log, idx };
	writer_relayed(a->writer, (uint64_t)m->number, m->flag ? ERR_AUDIT : 0, &receipt);
}

static void cancel_some(struct app *a, const struct app_word *m)
{
	struct call_where where = { 0 };
	long long tenant, principal, cred;
	int at = 0;

	if (sscanf(m->text, "%lld %lld %lld %n", &tenant, &principal, &cred, &at) < 3 || at == 0)
		return;
	where = (struct call_where){ tenant, principal, cred, m->text[at] ? m->text + at : NULL };
	(void)call_cancel_where(a->calls, &where, (enum cancel_why)m->number);
}

static void on_owner(void *arg, bool readable, bool writable)
{
	struct app *a = arg;
	struct app_word m;
	int fd, rc = app_word_hear(a->linger->fd, 0, &m, &fd);

	(void)readable;
	(void)writable;
	if (rc == ERR_TIMEOUT)
		return;
	if (fd >= 0)
		close(fd);
	if (rc != 1)
		nobody(a);
	else if (m.word == APP_RECORDED)
		take_receipt(a, &m);
	else if (m.word == APP_CANCELS && m.number == CANCEL_SHUTDOWN)
		stop_lingering(a);
	else if (m.word == APP_CANCELS && m.number >= 0 && m.number < CANCEL_SHUTDOWN)
		cancel_some(a, &m);
}

static void look(void *arg)
{
	struct app *a = arg;
	struct app_linger *l = a->linger;
	const bool late = ev_now_us(a->loop) >= l->until_us, done = call_engine_running(a->calls) == 0 &&
		app_listen_busy(a) == 0 && writer_relay_waiting(a->writer) == 0;

	if ((late || a->leaving_stopped) && !l->stopping)
		stop_lingering(a);
	else if (done || late)
		ev_loop_stop(a->loop);
	ev_timer_start(l->look, LOOK_US);
}

bool app_linger_begin(struct app *a)
{
	struct app_linger *l;

	if (!may_go(a))
		return false;
	l = a->linger = mem_zalloc(sizeof(*l));
	l->fd = -1;
	l->stays = mem_calloc(call_engine_staying(a->calls, NULL, NULL) + 1, sizeof(*l->stays));
	(void)call_engine_staying(a->calls, note_call, l);
	return true;
}

/* The store goes, with what is in the queue on record: what comes from here on is the next server's to record. */
void app_linger_writer(struct app *a)
{
	const struct writer_relay to = { say, a };
	struct err err;

	app_usage_flush(a);
	ship_server_hurry(a->ship);
	if (writer_leave(a->writer, APP_WRITER_CLOSE_MS, &to, &err) < 0) {
		log_err(NULL, "writer did not close where=%s why=\"%s\"", err.where, err.msg);
		a->status = 1;
	}
}

static bool tell_calls(struct app *a, int fd)
{
	bool ok = fd >= 0;

	for (size_t i = 0; ok && i < a->linger->nstays; i++)
		ok = app_word_send(fd, &a->linger->stays[i], -1);
	return ok && elders_tell(a, fd);
}

static void say_kept(struct app *a)
{
	struct app_linger *l = a->linger;
	bool ok = true;

	for (size_t i = 0; i < l->nkept; i++)
		ok = say_record(l, l->kept[i].number, l->kept[i].fd) && ok;
	if (!ok && l->fd >= 0)
		nobody(a);
}

void app_linger(struct app *a, int fd, bool (*pass)(struct app *a))
{
	struct app_linger *l = a->linger;
	const bool told = tell_calls(a, fd);

	l->fd = pass(a) && told ? fd : -1;
	if (l->fd < 0 && fd >= 0)
		close(fd);
	l->begun = true;
	l->until_us = ev_now_us(a->loop) + APP_LINGER_MAX_MS * 1000ull;
	l->look = ev_timer_new(a->loop, look, a);
	ev_timer_start(l->look, 0);
	log_info(NULL, "calls run on here count=%zu", call_engine_running(a->calls));
	if (l->fd >= 0) {
		l->io = ev_io_new(a->loop, fd, on_owner, a);
		ev_io_want(l->io, true, false);
	} else {
		nobody(a);
	}
	say_kept(a);
	ev_loop_run(a->loop);
	ev_timer_free(&l->look);
	ev_io_free(&l->io);
	if (l->fd >= 0)
		close(l->fd);
	a->linger = NULL;
	free(l->stays);
	free(l->kept);
	free(l);
	elders_free(a);
}
