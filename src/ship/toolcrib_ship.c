/* toolcrib-ship: copies a store into a directory elsewhere while it is written (OPERATE OP-501 to OP-506).
 * Started by the server, which then holds the other end of its descriptor 0, or by hand.  One thread.  Once both
 * databases and the target are open it can open nothing else but sealed files, and connect nowhere. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "age/age.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/sanitized.h"
#include "base/served.h"
#include "base/text.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "sandbox/filter.h"
#include "sandbox/level.h"
#include "ship/ship.h"

#define TICK_MS 100                     /* between two looks at the logs */
#define N "%" PRIu64 " "
#define HURRY_MS 5                      /* while the server closes the store */
#define SAY_AGAIN_US 60000000           /* the same failure by hand */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { OPT_STORE = 256, OPT_TO, OPT_RECIPIENT, OPT_EVERY, OPT_BASE, OPT_KEEP, OPT_LOG_MAX, OPT_ONCE, OPT_SERVE,
       OPT_VERSION };

static const char usage[] =
	"usage: toolcrib-ship --store DIR --to DIR --recipient KEY[,KEY...] [--every TIME] [--base TIME]\n"
	"                     [--keep TIME] [--log-max SIZE] [--once]\n"
	"       toolcrib-ship --version | --help\n";
static const char help[] =
	"\nCopies a store into a directory elsewhere while it is written, encrypted for age(1).\n"
	"See toolcrib-ship(8), and toolcrib restore, which puts it back.\n";

struct options {
	struct ship_options ship;
	struct age_recipient to[AGE_RECIPIENTS_MAX];
	bool once, serve;
};

static volatile sig_atomic_t ended;

static void on_signal(int signo)
{
	(void)signo;
	ended = 1;
}

static int complain(const struct err *err)
{
	(void)fprintf(stderr, "toolcrib-ship: %s\n", err->msg);
	if (*err->hint)
		(void)fprintf(stderr, "toolcrib-ship: %s\n", err->hint);
	return EXIT_FAILED;
}

/* --- options */

static bool take_time(const char *name, const char *text, uint64_t least_ms, uint64_t most_ms, uint64_t *ret_us)
{
	uint64_t ms;

	if (text_duration_ms(text, &ms) < 0 || ms < least_ms || ms > most_ms) {
		(void)fprintf(stderr, "toolcrib-ship: --%s is a time from %" PRIu64 "ms to %" PRIu64 "s, like 1s, not \"%s\"\n",
			      name, least_ms, most_ms / 1000, text);
		return false;
	}
	*ret_us = ms * 1000;
	return true;
}

static bool take_recipients(struct options *o, const char *list)
{
	struct err err = { 0 };

	return age_recipients_parse(list, o->to, &o->ship.nto, &err) == 0 || complain(&err) == EXIT_DONE;
}

static bool take(struct options *o, int c, const char *arg)
{
	struct ship_options *s = &o->ship;

	switch (c) {
	case OPT_STORE: s->store = arg; return true;
	case OPT_TO: s->target = arg; return true;
	case OPT_ONCE: o->once = true; return true;
	case OPT_SERVE: o->serve = true; return true;
	case OPT_RECIPIENT: return take_recipients(o, arg);
	case OPT_EVERY: return take_time("every", arg, SHIP_EVERY_MIN_MS, SHIP_EVERY_MAX_MS, &s->every_us);
	case OPT_BASE: return take_time("base", arg, SHIP_BASE_MIN_MS, SHIP_KEEP_MAX_MS, &s->base_us);
	case OPT_KEEP: return take_time("keep", arg, SHIP_BASE_MIN_MS, SHIP_KEEP_MAX_MS, &s->keep_us);
	case OPT_LOG_MAX:
		if (text_size(arg, &s->log_max) == 0 && s->log_max >= SHIP_LOG_MAX_MIN)
			return true;
		(void)fprintf(stderr, "toolcrib-ship: --log-max is a size from 1MiB on, not \"%s\"\n", arg);
		return false;
	default:
		return false;
	}
}

/* --- confinement */

static int confine(const struct options *o, struct err *err)
{
	char *sealed = path_join(o->ship.store, FORMS_FOLDER);
	const struct confine_place places[] = { { o->ship.target, PLACES_READ | PLACES_WRITE }, { sealed, PLACES_READ } };
	const struct sandbox_level level = sandbox_level_probe();
	int rc = path_mkdirs(sealed, 0700, err);        /* what comes to be later could not be opened */

	if (rc == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		rc = err_set(err, ERR_IO, "", "no new privileges: %s", strerror(errno));
	if (rc == 0)
		rc = places_only(places, NELEMS(places), SANITIZED || COVERAGE ? 0 : level.landlock, err);
	if (rc == 0)
		rc = filter_reader(FILTER_FILES | FILTER_MODES, err);
	free(sealed);
	return rc;
}

/* --- the loop */

/* What the server has asked for. */
struct server { uint64_t heard; bool now, hurry, gone; };

/* To the server: what was shipped so far, and what is wrong now. */
static void tell(const struct shipper *s, const struct server *of, const struct err *err)
{
	const struct ship_figures f = s ? shipper_figures(s) : (struct ship_figures){ 0 };
	struct str text = STR_INIT;

	str_printf(&text, N N N N N "%d " N "%s\n", of->heard, f.parts, f.bytes, f.broken, f.generation, f.whole,
		   f.at_us, err ? err->msg : "");
	(void)send(STDIN_FILENO, text.p, text.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	str_fini(&text);
}

static void listen_to(struct server *server)
{
	char asked[64];
	ssize_t n = recv(STDIN_FILENO, asked, sizeof(asked), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		server->gone = true;
	server->now = n > 0;
	server->heard += n > 0 ? (uint64_t)n : 0;
	server->hurry = server->hurry || (n > 0 && memchr(asked, SHIP_ASK_HURRY, (size_t)n));
}

static void wait_a_moment(const struct options *o, const struct server *server, bool more)
{
	struct pollfd fds = { .fd = o->serve ? STDIN_FILENO : -1, .events = POLLIN };

	(void)poll(&fds, 1, more ? 0 : server->hurry ? HURRY_MS : TICK_MS);
}

/* What failed is said when it begins, and each minute. */
static void note_failure(const struct err *err, uint64_t *said_us)
{
	const uint64_t now_us = clock_mono_us();

	if (*said_us && now_us - *said_us < SAY_AGAIN_US)
		return;
	*said_us = now_us;
	(void)complain(err);
}

static int work(struct shipper *s, const struct options *o)
{
	struct server server = { .heard = 0 };
	uint64_t said_us = 0, told_us = 0;
	bool more = false, failed = false;
	struct err err = { 0 };

	while (!ended && !server.gone && !shipper_figures(s).lost) {
		const int rc = shipper_run(s, server.now || server.hurry ? SHIP_NOW : SHIP_DUE, &more, &err);
		const uint64_t at_us = shipper_figures(s).at_us;

		if (rc < 0 && !o->serve)
			note_failure(&err, &said_us);
		if (o->serve && (server.now || (rc < 0) != failed || at_us != told_us || shipper_figures(s).lost))
			tell(s, &server, rc < 0 ? &err : NULL);
		said_us = rc < 0 ? said_us : 0;
		failed = rc < 0;
		told_us = at_us;
		wait_a_moment(o, &server, more);
		server.now = false;
		if (o->serve)
			listen_to(&server);
	}
	if (shipper_figures(s).lost)
		return complain(&err);
	return shipper_run(s, SHIP_NOW, &more, &err) < 0 ? complain(&err) : EXIT_DONE;
}

static int once(struct shipper *s)
{
	struct err err;
	bool more;

	return shipper_run(s, SHIP_ALL, &more, &err) < 0 ? complain(&err) : EXIT_DONE;
}

static int run(const struct options *o)
{
	struct sigaction act = { .sa_handler = on_signal };
	struct shipper *s;
	struct err err = { 0 };
	int rc, status;

	(void)sigaction(SIGTERM, &act, NULL);
	(void)sigaction(SIGINT, &act, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	rc = shipper_open(&o->ship, &s, &err);
	if (rc < 0 && o->serve)
		tell(NULL, &(struct server){ .heard = 0 }, &err);
	if (rc < 0)
		return complain(&err);
	rc = confine(o, &err);
	status = rc < 0 ? complain(&err) : o->once ? once(s) : work(s, o);
	shipper_close(&s);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "store", required_argument, NULL, OPT_STORE }, { "to", required_argument, NULL, OPT_TO },
		{ "recipient", required_argument, NULL, OPT_RECIPIENT }, { "every", required_argument, NULL, OPT_EVERY },
		{ "base", required_argument, NULL, OPT_BASE }, { "keep", required_argument, NULL, OPT_KEEP },
		{ "log-max", required_argument, NULL, OPT_LOG_MAX }, { "once", no_argument, NULL, OPT_ONCE },
		{ "serve", no_argument, NULL, OPT_SERVE }, { "version", no_argument, NULL, OPT_VERSION },
		{ "help", no_argument, NULL, 'h' }, { 0 },
	};
	static struct options o = { .ship = SHIP_DEFAULTS };

	o.ship.to = o.to;
	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		if (c == OPT_VERSION) {
			served_put_version("toolcrib-ship");
			return EXIT_DONE;
		}
		if (c == 'h') {
			printf("%s%s", usage, help);
			return EXIT_DONE;
		}
		if (!take(&o, c, optarg)) {
			fputs(usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc || !o.ship.store || !o.ship.target || o.ship.nto == 0) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	(void)umask(0077);
	if (secret_init() != 0) {
		fputs("toolcrib-ship: this system gives no random bytes\n", stderr);
		return EXIT_FAILED;
	}
	return run(&o);
}
