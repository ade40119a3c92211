/* The server's end of toolcrib-ship: starts it through the launcher when backup.to is set, and again when it dies,
 * tells metrics and the log what it says, and lets the writer wait for it before a checkpoint.  Loop thread, but
 * ship_server_wait(), which is the writer's: what both use is behind a lock, and the loop waits for nobody. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "ev/helper.h"
#include "ship/ship.h"

enum { SAID_MAX = 1024, ARGS = 8 };
#define START_AGAIN_US 5000000
#define START_SOON_US 1000000           /* one that has worked */
#define N "%" SCNu64 " "

struct ship_server {
	struct ev_loop *loop;
	char *args[ARGS + 1];
	struct ev_helper *helper;
	struct ev_timer *start;
	struct ev_io *io;
	char said[SAID_MAX];
	size_t n;
	struct ship_figures last;
	ship_broken_fn *broken; void *arg;
	char why[SAID_MAX];             /* what does not work; "" = it works */
	uint64_t all_us;                /* when it last said that all is in the copy, by our clock */
	uint64_t wrong_us;              /* since when, or since when there is no whole copy, wall clock; 0 = neither */
	pthread_mutex_t lock;           /* of what follows */
	pthread_cond_t heard_more;
	int fd;
	uint64_t asked, heard;
};

/* --- what it says */

static void note(struct ship_server *s, const char *why)
{
	if (!*why && s->last.whole)
		s->wrong_us = 0;
	else if (s->wrong_us == 0)
		s->wrong_us = clock_wall_us();
	if (strcmp(s->why, why) == 0)
		return;
	if (*why)
		log_warn(NULL, "the store is not copied to backup.to why=\"%s\"", why);
	else
		log_info(NULL, "the store is copied to backup.to again");
	(void)snprintf(s->why, sizeof(s->why), "%s", why);
}

static void heed(struct ship_server *s, const char *line)
{
	struct ship_figures f = { 0 };
	uint64_t heard = 0;
	int whole = 0, why = 0;

	if (sscanf(line, N N N N N "%d " N "%n", &heard, &f.parts, &f.bytes, &f.broken, &f.generation, &whole, &f.at_us,
		   &why) != 7 || why == 0)
		return;
	f.whole = whole != 0;
	metric_add(METRIC_backup_parts, f.parts - s->last.parts);
	metric_add(METRIC_backup_bytes, f.bytes - s->last.bytes);
	metric_add(METRIC_backup_chains_broken, f.broken - s->last.broken);
	if (f.broken > s->last.broken) {
		log_warn(NULL, "the chain of copies at backup.to was broken, and a new base begins");
		if (s->broken)
			s->broken(s->arg, f.broken - s->last.broken);
	}
	if (f.at_us != s->last.at_us)
		s->all_us = clock_wall_us();
	if (f.at_us > 0)
		metric_set(METRIC_backup_last_success_s, f.at_us / 1000000);
	s->last = f;
	note(s, line + why);
	if (!s->wrong_us)
		metric_set(METRIC_backup_lag_s, 0);
	pthread_mutex_lock(&s->lock);
	s->heard = heard;
	pthread_cond_signal(&s->heard_more);
	pthread_mutex_unlock(&s->lock);
}

static void heed_lines(struct ship_server *s)
{
	char *at = s->said, *end;

	while ((end = memchr(at, '\n', (size_t)(s->said + s->n - at)))) {
		*end = '\0';
		heed(s, at);
		at = end + 1;
	}
	s->n = (size_t)(s->said + s->n - at);
	memmove(s->said, at, s->n);
}

/* --- its life */

static void gone(struct ship_server *s, const char *why)
{
	ev_io_free(&s->io);
	pthread_mutex_lock(&s->lock);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	pthread_cond_signal(&s->heard_more);
	pthread_mutex_unlock(&s->lock);
	ev_helper_kill(&s->helper);
	if (!*s->why)
		note(s, why);
	ev_timer_start(s->start, s->last.parts > 0 ? START_SOON_US : START_AGAIN_US);
}

static void on_said(void *arg, bool readable, bool writable)
{
	struct ship_server *s = arg;
	ssize_t n = recv(s->fd, s->said + s->n, sizeof(s->said) - s->n, MSG_DONTWAIT);

	(void)readable;
	(void)writable;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		s->n += (size_t)n;
	heed_lines(s);
	if (n <= 0 || s->n == sizeof(s->said))
		gone(s, "toolcrib-ship ended");
}

static void start(void *arg)
{
	struct ship_server *s = arg;
	struct err err;
	int fd = -1;

	if (ev_helper_start(s->loop, LAUNCHER_SHIP, (const char *const *)s->args, &fd, &s->helper, &err) < 0) {
		note(s, err.msg);
		ev_timer_start(s->start, START_AGAIN_US);
		return;
	}
	s->n = 0;
	s->last = (struct ship_figures){ .at_us = s->last.at_us, .generation = s->last.generation };
	pthread_mutex_lock(&s->lock);
	s->fd = fd;
	s->asked = s->heard = 0;
	pthread_mutex_unlock(&s->lock);
	s->io = ev_io_new(s->loop, fd, on_said, s);
	ev_io_want(s->io, true, false);
}

struct ship_server *ship_server_new(struct ev_loop *loop, const struct conf *conf, const char *store)
{
	struct ship_server *s = mem_zalloc(sizeof(*s));
	pthread_condattr_t attr;

	s->loop = loop;
	s->fd = -1;
	s->wrong_us = clock_wall_us();
	s->args[0] = mem_strdup("--serve");
	s->args[1] = mem_printf("--store=%s", store);
	s->args[2] = mem_printf("--to=%s", conf->backup_to);
	s->args[3] = mem_printf("--recipient=%s", conf->backup_recipients);
	s->args[4] = mem_printf("--every=%ums", (unsigned)conf->backup_every_ms);
	s->args[5] = mem_printf("--base=%us", (unsigned)conf->backup_base_s);
	s->args[6] = mem_printf("--keep=%us", (unsigned)conf->backup_keep_s);
	s->args[7] = mem_printf("--log-max=%uMiB", (unsigned)conf->backup_wal_max_mib);
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->heard_more, &attr);
	pthread_condattr_destroy(&attr);
	s->start = ev_timer_new(loop, start, s);
	ev_timer_start(s->start, 0);
	return s;
}

void ship_server_on_broken(struct ship_server *s, ship_broken_fn *told, void *arg)
{
	s->broken = told;
	s->arg = arg;
}

static void ask(struct ship_server *s, char what)
{
	if (s->fd >= 0 && send(s->fd, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
		s->asked++;
}

void ship_server_wait(void *arg)
{
	struct ship_server *s = arg;
	struct timespec until;
	uint64_t mine;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += SHIP_WAIT_MS * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&s->lock);
	if (s->heard == s->asked) {     /* else it has not even answered what was asked before */
		ask(s, SHIP_ASK_NOW);
		mine = s->asked;
		while (s->fd >= 0 && s->heard < mine && pthread_cond_timedwait(&s->heard_more, &s->lock, &until) == 0)
			;
		if (s->heard < mine)
			metric_inc(METRIC_backup_waits_late);
	}
	pthread_mutex_unlock(&s->lock);
}

void ship_server_hurry(struct ship_server *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	ask(s, SHIP_ASK_HURRY);
	pthread_mutex_unlock(&s->lock);
}

void ship_server_view(const struct ship_server *s, struct ship_view *ret)
{
	*ret = (struct ship_view){ .since_us = s->wrong_us ? s->wrong_us : s->all_us, .at_us = s->last.at_us,
		.parts = s->last.parts, .generation = s->last.generation, .whole = s->last.whole, .why = s->why };
}

void ship_server_describe(const struct ship_server *s, struct str *ret)
{
	struct ship_view v;
	char when[64];

	if (!s)
		return;
	ship_server_view(s, &v);
	if (v.at_us > 0)
		str_printf(ret, "all until %s", clock_format_utc(v.at_us, when, sizeof(when)));
	else
		str_puts(ret, "nothing yet");
	str_printf(ret, ", %" PRIu64 " parts, generation %" PRIu64 "%s", v.parts, v.generation,
		   v.whole ? "" : ", whose base is not whole yet");
	if (*v.why)
		str_printf(ret, "; does not go on: %s", v.why);
}

void ship_server_free(struct ship_server **sp)
{
	struct ship_server *s = *sp;

	*sp = NULL;
	if (!s)
		return;
	ev_timer_free(&s->start);
	ev_io_free(&s->io);
	if (s->fd >= 0)
		close(s->fd);
	ev_helper_end(&s->helper, SHIP_END_MS);
	for (size_t i = 0; i < ARGS; i++)
		free(s->args[i]);
	pthread_cond_destroy(&s->heard_more);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* --- what the configuration says */

int ship_check(const struct conf *conf, struct err *err)
{
	struct age_recipient to[AGE_RECIPIENTS_MAX];
	size_t n;

	if (!conf->backup_to)
		return conf->backup_recipients ? err_set(err, ERR_INVALID, "backup.to", "backup.recipients are for a copy, and "
							 "backup.to does not say where") : 0;
	if (*conf->backup_to != '/')
		return err_set(err, ERR_INVALID, "backup.to", "\"%s\" must be the absolute path of a directory", conf->backup_to);
	if (!conf->backup_recipients)
		return err_set(err, ERR_INVALID, "backup.recipients", "backup.recipients must say who can read the copy");
	if (age_recipients_parse(conf->backup_recipients, to, &n, err) == 0)
		return 0;
	(void)snprintf(err->where, sizeof(err->where), "backup.recipients");
	return err->code;
}
