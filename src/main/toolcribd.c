/* toolcribd: the server.  Options, the process's own setting, and which of three it is: the daemon, the owner of the
 * store on stdio, or a relay to the owner. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/app.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/served.h"
#include "base/text.h"
#include "conf/conf.h"
#include "db/owner.h"
#include "db/server.h"

#include "main_int.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#define OWNER_WAIT_US 10000000          /* for a command that owns the store at the moment */
#define OWNER_POLL_MS 20

struct options {
	const char *config, *store, *tenant;
	bool stdio, check_config, take_over;
};

static const char usage[] =
	"usage: toolcribd [-c FILE] [--store DIR]\n"
	"       toolcribd --take-over [-c FILE] [--store DIR]\n"
	"       toolcribd --stdio [--tenant TENANT] [-c FILE] [--store DIR]\n"
	"       toolcribd --check-config [-c FILE]\n"
	"       toolcribd --sample-config | --version | --help\n";

static const char help[] =
	"\nServes MCP tools to the tenants of a store.\n\n"
	"  -c, --config FILE   read this instead of /etc/toolcrib/toolcribd.yaml\n"
	"      --store DIR     the store; else the key `store`, $TOOLCRIB_STORE, the default\n"
	"      --stdio         serve one peer on standard input and output, as the owner of\n"
	"                      the store or through the server that owns it; who it is says\n"
	"                      the key in $TOOLCRIB_KEY\n"
	"      --tenant TENANT with --stdio, as the owner: this tenant, without a key\n"
	"      --take-over     serve in place of the server that owns the store: its\n"
	"                      listeners and waiting connections become this one's\n"
	"      --check-config  read the configuration, say what is wrong, and end\n"
	"      --sample-config print a file with every key and its default\n"
	"      --version       print the version, the build and that of each library\n"
	"  -h, --help          print this\n\n"
	"See toolcribd(8) and toolcribd.yaml(5).\n";

static void print(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno != EINTR)
			return;                 /* nobody reads it */
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
}

static int fail(const struct err *err)
{
	bool named = !*err->where || strstr(err->msg, err->where);
	bool meant = strncmp(err->hint, "did you mean", 12) == 0;

	fprintf(stderr, "toolcribd: %s%s%s%s%s\n", named ? "" : err->where, named ? "" : ": ", err->msg,
		meant ? "; " : "", meant ? err->hint : "");
	if (*err->hint && !meant)
		fprintf(stderr, "hint: %s\n", err->hint);
	return EXIT_FAILED;
}

/* Descriptor 1 belongs to MCP alone: it moves away before anything could write to it, and what is called standard
 * output from now on is standard error (MCP S-02). */
static int move_stdout(void)
{
	int fd;

	while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
		;                               /* 0, 1 and 2 exist */
	if (fd >= 0)
		close(fd);
	fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return -1;
	return fd;
}

static void set_up_process(void)
{
	struct rlimit files;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
	(void)umask(0077);
	mem_reserve(MEM_RESERVE);
	mem_few_heaps();
	/* A connection is a descriptor; children get a limit of their own. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files); /* fewer connections, then */
	}
}

/* -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, int out_fd, struct options *o)
{
	enum { OPT_STORE = 256, OPT_STDIO, OPT_TENANT, OPT_TAKE, OPT_CHECK, OPT_SAMPLE, OPT_VERSION };
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' }, { "store", required_argument, NULL, OPT_STORE },
		{ "stdio", no_argument, NULL, OPT_STDIO }, { "tenant", required_argument, NULL, OPT_TENANT },
		{ "take-over", no_argument, NULL, OPT_TAKE }, { "check-config", no_argument, NULL, OPT_CHECK },
		{ "sample-config", no_argument, NULL, OPT_SAMPLE },
		{ "version", no_argument, NULL, OPT_VERSION }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	struct str sample = STR_INIT;
	int c;

	while ((c = getopt_long(argc, argv, "c:h", longs, NULL)) != -1) {
		switch (c) {
		case 'c': o->config = optarg; break;
		case OPT_STORE: o->store = optarg; break;
		case OPT_STDIO: o->stdio = true; break;
		case OPT_TENANT: o->tenant = optarg; break;
		case OPT_TAKE: o->take_over = true; break;
		case OPT_CHECK: o->check_config = true; break;
		case OPT_SAMPLE:
			conf_sample(&sample);
			print(out_fd, sample.p, sample.len);
			str_fini(&sample);
			return EXIT_DONE;
		case OPT_VERSION:
			served_version("toolcribd", &sample);
			print(out_fd, sample.p, sample.len);
			str_fini(&sample);
			return EXIT_DONE;
		case 'h':
			print(out_fd, usage, sizeof(usage) - 1);
			print(out_fd, help, sizeof(help) - 1);
			return EXIT_DONE;
		default:
			fputs(usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind == argc && (!o->tenant || o->stdio) && !(o->take_over && o->stdio))
		return -1;
	if (optind < argc)
		fprintf(stderr, "toolcribd: %s: what is this?\n", argv[optind]);
	else if (o->take_over && o->stdio)
		fputs("toolcribd: --take-over is for a server with listeners, and --stdio has one peer\n", stderr);
	else
		fputs("toolcribd: --tenant is for --stdio; a listener names its tenant in the configuration\n", stderr);
	fputs(usage, stderr);
	return EXIT_USAGE;
}

static void open_log(const struct conf *conf)
{
	enum log_format format = LOG_FORMAT_AUTO;
	enum log_level level = LOG_LEVEL_INFO;

	if (strcmp(conf->log_format, "text") == 0)
		format = LOG_FORMAT_TEXT;
	else if (strcmp(conf->log_format, "json") == 0)
		format = LOG_FORMAT_JSON;
	(void)log_level_from_name(conf->log_level, &level);     /* checked by conf */
	log_open(STDERR_FILENO, format, level);
}

/* A card without sockets is a command at work: it ends soon.  0 and 1 as from db_owner_take(). */
static int take_store(const char *store, struct db_owner **ret, struct db_card *card, struct err *err)
{
	uint64_t until_us = clock_mono_us() + OWNER_WAIT_US;
	int rc;

	for (;;) {
		memset(card, 0, sizeof(*card));
		rc = db_owner_take(store, ret, card, err);
		if (rc != 1 || *card->mcp_sock || clock_mono_us() >= until_us)
			return rc;
		(void)poll(NULL, 0, OWNER_POLL_MS);
	}
}

/* What the run says, else what its end does. */
static int ended(struct app **app, int status)
{
	int closed = app_close(app);

	return status ? status : closed;
}

static int serve(struct conf *conf, const char *store, struct db_owner *owner)
{
	const struct app_opt opt = { .profile = APP_DAEMON, .store = store, .conf = conf, .owner = owner,
				     .confine = true };
	struct app *app = NULL;
	struct err err = { 0 };
	int status;

	if (app_start(&opt, &app, &err) < 0)
		return fail(&err);
	status = ended(&app, app_run(app));
	log_info(NULL, "stopped status=%d", status);
	return status;
}

/* Where a service manager has started the server that ends, this is one of its commands: it returns when the new server
 * is there, which goes on by itself.  -1: go on as that, with *ret_fd to be told; else the exit status. */
static int part(int *ret_fd)
{
	int fds[2], status = 0;
	char byte;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) || (pid = fork()) < 0) {
		fprintf(stderr, "toolcribd: no process of its own: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	if (pid == 0) {
		close(fds[0]);
		(void)setsid();
		*ret_fd = fds[1];
		return -1;
	}
	close(fds[1]);
	if (read(fds[0], &byte, 1) == 1)
		return EXIT_DONE;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : EXIT_FAILED;
}

static int ask(const char *store, struct app_take_over **ret, struct err *err)
{
	char *path = app_handover_socket(store);
	int fd = -1, rc = relay_connect(path, &fd, err);

	if (rc < 0)
		err_hint(err, "where no server runs, or one of an older release, start this one without --take-over");
	else
		rc = app_take_over_open(store, fd, ret, err);
	free(path);
	return rc;
}

static int take_over(struct conf *conf, const char *store)
{
	struct app_opt opt = { .profile = APP_DAEMON, .store = store, .conf = conf, .confine = true };
	struct app *app = NULL;
	struct err err = { 0 };
	int status = -1;

	if (app_conf_check(conf, &err) < 0 || app_take_over_check(store, &err) < 0 || ask(store, &opt.take_over, &err) < 0)
		return fail(&err);
	if (app_take_over_managed(opt.take_over))
		status = part(&opt.ready_fd);
	if (status < 0 && app_start(&opt, &app, &err) < 0)
		status = fail(&err);
	else if (status < 0)
		status = ended(&app, app_run(app));
	app_take_over_free(&opt.take_over);
	return status;
}

static int serve_stdio(const struct options *o, struct conf *conf, const char *store, struct db_owner *owner,
		       const char *key, int out_fd)
{
	const struct app_opt opt = { .profile = APP_STDIO, .store = store, .conf = conf, .owner = owner,
				     .confine = true };
	struct app *app = NULL;
	struct err err = { 0 };
	int status;

	if (app_start(&opt, &app, &err) < 0)
		return fail(&err);
	if (app_serve_stdio(app, STDIN_FILENO, out_fd, o->tenant, o->tenant ? NULL : key, &err) < 0)
		status = fail(&err);
	else
		status = app_run(app);
	return ended(&app, status);
}

static int relay(const struct options *o, const struct db_card *card, const char *key, int out_fd)
{
	struct err err = { 0 };

	if (!key || o->tenant) {
		(void)err_set(&err, ERR_DENIED, "",
			      "--tenant works for the owner of the store, and process %lld owns it",
			      (long long)card->pid);
		err_hint(&err,
			 "put a key into TOOLCRIB_KEY instead, which says whose it is: "
			 "toolcrib key create TENANT/NAME");
		return fail(&err);
	}
	return relay_run(card->mcp_sock, key, STDIN_FILENO, out_fd, &err) < 0 ? fail(&err) : EXIT_DONE;
}

/* Where the store's databases are: the folder remembers what the configuration said last. */
static int database(const struct options *o, const struct conf *conf, const char *store, struct err *err)
{
	const struct db_served at = { conf->database_url, conf->database_keys_url,
				      strcmp(conf->database_standby, "yes") == 0 };
	int rc = conf->database_url ? app_conf_check(conf, err) : db_serve_found(store, err);

	if (rc == 0 && conf->database_url)
		rc = db_serve(store, &at, err);
	if (rc == 0 && o->take_over && db_is_served(store)) {
		rc = err_set(err, ERR_CONFLICT, "", "a server with a store on PostgreSQL hands nothing over yet");
		err_hint(err, "stop it, and start the new one");
	}
	return rc;
}

static int run(const struct options *o, struct conf *conf, const char *store, int out_fd)
{
	const char *env_key = getenv("TOOLCRIB_KEY");
	char *key = env_key && *env_key ? mem_strdup(env_key) : NULL;
	struct db_owner *owner = NULL;
	struct db_card card;
	struct err err = { 0 };
	int status, rc;

	(void)unsetenv("TOOLCRIB_KEY");
	if (o->stdio && !key && !o->tenant) {
		(void)err_set(&err, ERR_DENIED, "", "--stdio needs the key of a principal in TOOLCRIB_KEY");
		err_hint(&err,
			 "toolcrib key create TENANT/NAME makes one; "
			 "the owner of the store may say --tenant TENANT instead");
		return fail(&err);
	}
	rc = database(o, conf, store, &err);
	if (rc == 0)
		rc = o->take_over ? 0 : take_store(store, &owner, &card, &err);
	if (rc == 1 && !o->stdio)
		rc = err_set(&err, ERR_CONFLICT, "", "the store %s is in use by process %lld", store,
			     (long long)card.pid);
	if (rc < 0)
		status = fail(&err);
	else if (o->take_over)
		status = take_over(conf, store);
	else if (rc == 1)
		status = relay(o, &card, key, out_fd);
	else if (o->stdio)
		status = serve_stdio(o, conf, store, owner, key, out_fd);
	else
		status = serve(conf, store, owner);
	if (key)
		secret_wipe(key, strlen(key));
	free(key);
	return status;
}

/* Where root's is, whoever this becomes. */
static int find_store(const struct options *o, const struct conf *conf, char **ret, struct err *err)
{
	if (!o->store && !conf->store)
		return path_default_store(ret, err);
	*ret = mem_strdup(o->store ? o->store : conf->store);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = { .config = NULL };
	struct conf *conf = NULL;
	struct err err = { 0 };
	char *store = NULL;
	int out_fd = move_stdout();
	int status;

	if (out_fd < 0 || secret_init() != 0) {
		fputs("toolcribd: this system gives neither descriptors nor random bytes\n", stderr);
		return EXIT_FAILED;
	}
	status = parse_options(argc, argv, out_fd, &o);
	if (status >= 0)
		return status;
	set_up_process();
	if (conf_load(o.config, &conf, &err) < 0)
		return fail(&err);
	open_log(conf);
	if (o.check_config && app_conf_check(conf, &err) < 0) {
		status = fail(&err);
	} else if (o.check_config) {
		fprintf(stderr, "toolcribd: configuration is fine: %s\n", conf->file ? conf->file :
			"built-in defaults");
		status = EXIT_DONE;
	} else if (find_store(&o, conf, &store, &err) < 0 || app_become_user(conf, store, &err) < 0) {
		status = fail(&err);
	} else {
		status = run(&o, conf, store, out_fd);
	}
	free(store);
	conf_free(&conf);
	return status;
}
