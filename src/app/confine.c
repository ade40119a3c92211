/* What the server gives up of its own (HARDENING 1.3).  First root, where the configuration names a user: toolcribd
 * asks for that before anything is opened.  Last, when all that it starts with is there: new privileges, its
 * capabilities, and by a filter for all threads what it needs to start programs, become somebody else, signal or
 * trace.  The launcher, which it has started before, does what is left of that. */
#include "config.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/sanitized.h"
#include "base/text.h"
#include "conf/conf.h"
#include "db/server.h"
#include "launcher/launcher.h"
#include "sandbox/filter.h"

#include "app_int.h"

/* --- at its start: root becomes the user of the key `user` (SEC S-601).  From then on this is a server that a service
 * manager has started as that user, with what its launcher needs and ports below 1024, which app_confine() gives up. */

#define KEY "user"

/* For the launcher, which passes them on to nobody but toolcrib-run; NET_BIND_SERVICE is for our own listeners. */
static const unsigned char for_launcher[] = LAUNCHER_CAPABILITIES;

static int failed(const char *step, struct err *err)
{
	return err_set(err, ERR_DENIED, KEY, "%s: %s", step, strerror(errno));
}

struct who { uid_t uid; gid_t gid; const char *name; };    /* name: NULL = a number that has none */

/* A name, or a number, as containers have users without one; its group has the same number then. */
static int find(const char *text, struct who *ret, struct err *err)
{
	const struct passwd *pw = getpwnam(text);
	uint64_t n = 0;

	if (!pw && text_u64(text, strlen(text), &n) == 0 && n < UINT32_MAX) {
		pw = getpwuid((uid_t)n);
		*ret = (struct who){ (uid_t)n, (gid_t)n, NULL };
	} else if (!pw) {
		(void)err_set(err, ERR_NOT_FOUND, KEY, "there is no user %s", text);
		err_hint(err, "useradd --system --shell /usr/sbin/nologin %s, and give the store to it", text);
		return ERR_NOT_FOUND;
	}
	if (pw)
		*ret = (struct who){ pw->pw_uid, pw->pw_gid, pw->pw_name };
	if (ret->uid == 0 || ret->gid == 0)
		return err_set(err, ERR_INVALID, KEY, "%s is root, or in its group: name a user without rights", text);
	return 0;
}

/* What of these this process may have: a container may have taken some away, which the launcher says. */
static int keep(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	uint32_t wanted = UINT32_C(1) << CAP_NET_BIND_SERVICE;

	for (size_t i = 0; i < NELEMS(for_launcher); i++)
		wanted |= UINT32_C(1) << for_launcher[i];
	if (syscall(SYS_capget, &head, caps))
		return failed("capabilities", err);
	wanted &= caps[0].permitted;
	memset(caps, 0, sizeof(caps));
	caps[0] = (struct __user_cap_data_struct){ wanted, wanted, wanted };
	if (syscall(SYS_capset, &head, caps))
		return failed("capabilities", err);
	for (size_t i = 0; i < NELEMS(for_launcher); i++) {
		if (wanted & UINT32_C(1) << for_launcher[i])
			(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, for_launcher[i], 0, 0);
	}
	return 0;
}

static int become(const struct who *who, struct err *err)
{
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
		return failed("capabilities", err);
	if (who->name ? initgroups(who->name, who->gid) : setgroups(0, NULL))
		return failed("groups", err);
	if (setresgid(who->gid, who->gid, who->gid))
		return failed("group", err);
	if (setresuid(who->uid, who->uid, who->uid))
		return failed(KEY, err);
	return keep(err);
}

int app_user_check(const struct conf *conf, struct err *err)
{
	struct who who;

	return conf->user ? find(conf->user, &who, err) : 0;
}

/* While we can still look: a store that root has used so far. */
static int check_store(const char *store, const char *user, const struct who *who, struct err *err)
{
	struct stat st;

	if (stat(store, &st) != 0 || st.st_uid == who->uid)
		return 0;               /* whoever opens it says that it is not there */
	(void)err_set(err, ERR_DENIED, KEY, "the store %s belongs to uid %u, not to user %s", store,
		      (unsigned)st.st_uid, user);
	err_hint(err, "chown -R %s %s", user, store);
	return ERR_DENIED;
}

int app_become_user(const struct conf *conf, const char *store, struct err *err)
{
	struct who who;
	int rc;

	if (!conf->user) {
		if (geteuid() == 0)
			log_warn(NULL, "the server stays root: name one of its own under user, see toolcribd.yaml(5)");
		return 0;
	}
	rc = find(conf->user, &who, err);
	if (rc < 0 || geteuid() == who.uid)
		return rc;
	if (geteuid() == 0) {
		rc = check_store(store, conf->user, &who, err);
		return rc < 0 ? rc : become(&who, err);
	}
	(void)err_set(err, ERR_DENIED, KEY, "only a server that root starts becomes %s, and this is uid %u", conf->user,
		      (unsigned)geteuid());
	err_hint(err, "start it as %s, or leave the key out", conf->user);
	return ERR_DENIED;
}

/* --- once the launcher is there, and no thread yet: which files it opens (SEC S-602)
 *
 * Landlock's rules hold for a thread and those that it starts, and for files as they are now: what is replaced under
 * its name is another one.  So what the configuration names is open with the directory in which it lies, as it is
 * written and where links lead.  What a command names comes with it as a descriptor, or is in `files`. */

static const char rule[] =
	"a server that runs opens its store and what its configuration names, and what toolcrib opens for it on the "
	"same machine: see files in toolcribd.yaml(5)";

struct places { struct confine_place *at; size_t n; };

static void add_place(struct places *p, char *path, unsigned may)
{
	p->at = mem_realloc(p->at, (p->n + 1) * sizeof(*p->at));
	p->at[p->n++] = (struct confine_place){ path, may };
}

/* The directory of a file; the file alone where that is "/". */
static void add_around(struct places *p, const char *file, unsigned may)
{
	const char *slash = strrchr(file, '/');

	add_place(p, slash && slash > file ? mem_strndup(file, (size_t)(slash - file)) : mem_strdup(file), may);
}

static void add_file(struct places *p, const char *file, unsigned may)
{
	char *real = realpath(file, NULL);

	add_around(p, file, may);
	if (real)
		add_around(p, real, may);
	free(real);
}

/* What libraries read when they look for a host, a user or a certificate, and what is replaced under its name. */
static void add_libraries(struct places *p)
{
	static const char *const dirs[] = { "/etc", "/run/systemd/resolve", "/var/lib/sss/mc", "/nix/store",
					    "/gnu/store" };
	static const char *const files[] = { "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/localtime" };
	static const char *const variables[] = { "SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "TZDIR" };

	for (size_t i = 0; i < NELEMS(dirs); i++)
		add_place(p, mem_strdup(dirs[i]), PLACES_READ);
	for (size_t i = 0; i < NELEMS(files); i++)
		add_file(p, files[i], PLACES_READ);
	for (size_t i = 0; i < NELEMS(variables); i++) {
		if (getenv(variables[i]))
			add_place(p, mem_strdup(getenv(variables[i])), PLACES_READ);
	}
}

/* DIR:DIR… */
static int add_files(struct places *p, const char *list, struct err *err)
{
	for (const char *at = list; *at;) {
		size_t n = strcspn(at, ":");
		char *dir = mem_strndup(at, n);
		struct stat st;
		bool fine = *dir == '/' && stat(dir, &st) == 0 && S_ISDIR(st.st_mode);
		int rc = fine ? 0 : err_set(err, ERR_INVALID, "files", "%s is no absolute path of a directory", dir);

		if (rc < 0) {
			free(dir);
			return rc;
		}
		add_place(p, dir, PLACES_READ | PLACES_WRITE);
		at += n + (at[n] == ':');
	}
	return 0;
}

static void add_named(void *arg, const char *file)
{
	add_file(arg, file, PLACES_READ);
}

static int find_places(const struct app *a, struct places *p, struct err *err)
{
	const struct conf *c = a->opt.conf;
	char **files = conf_read_files(c), *socket = app_admin_socket(a->store);

	add_libraries(p);
	add_place(p, mem_strdup(a->store), PLACES_READ | PLACES_WRITE);
	add_around(p, socket, PLACES_SOCKETS);
	for (char **file = files; *file; file++)
		add_file(p, *file, PLACES_READ);
	db_server_files(c->database_url, add_named, p);
	db_server_files(c->database_keys_url, add_named, p);
	if (c->audit_archive)
		add_place(p, mem_strdup(c->audit_archive), PLACES_READ | PLACES_WRITE);
	if (c->anchor_file)
		add_file(p, c->anchor_file, PLACES_APPEND);
	for (size_t i = 0; i < c->nsinks; i++)
		if (c->sinks[i].path)
			add_around(p, c->sinks[i].path, PLACES_READ | PLACES_WRITE);
	if (c->admin_socket)
		add_around(p, c->admin_socket, PLACES_SOCKETS);
	if (c->metrics_listen && *c->metrics_listen == '/')
		add_around(p, c->metrics_listen, PLACES_SOCKETS);
	for (size_t i = 0; i < c->nlisteners; i++) {
		if (c->listeners[i].transport == CONF_UNIX)
			add_around(p, c->listeners[i].address, PLACES_SOCKETS);
	}
	conf_hidden_free(&files);
	free(socket);
	return c->files ? add_files(p, c->files, err) : 0;
}

int app_confine_files(struct app *a, struct err *err)
{
	struct places p = { NULL, 0 };
	int rc;

	if (a->scratch && access(a->scratch, W_OK | X_OK) != 0)
		log_warn(NULL, "no own directories for tools, programs will fail tmpdir=%s why=\"%s\"", a->scratch,
			 strerror(errno));
	if (a->opt.profile == APP_DAEMON)
		ops_process_open(&a->process);
	if (!a->opt.confine)
		return 0;
	rc = find_places(a, &p, err);
	a->landlock = SANITIZED || COVERAGE ? 0 : a->sandbox.best.landlock;
	if (rc == 0 && a->landlock > 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		rc = err_set(err, ERR_IO, "no new privileges", "%s", strerror(errno));
	rc = rc ? rc : places_confine(p.at, p.n, a->landlock, err);
	if (rc == 0 && a->landlock > 0)
		path_set_rule(rule);
	while (p.n > 0)
		free((char *)(uintptr_t)p.at[--p.n].path);
	free(p.at);
	return rc;
}

/* --- when all is there */

/* Of what starts and ends processes only the wait for the launcher's end; and memory that can be handed on. */
static const struct filter_row rows[] = {
	{ SYS_wait4, FILTER_ALLOW, 0, { 0 }, { 0 } },
	{ SYS_waitid, FILTER_ALLOW, 0, { 0 }, { 0 } },
	{ SYS_memfd_create, FILTER_ALLOW, 0, { 0 }, { 0 } },    /* a record for the next server (linger.c) */
};

/* Root keeps what files need; who is not root needs none. */
static int drop_capabilities(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	if (geteuid() == 0)
		return 0;
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return syscall(SYS_capset, &head, none) ? err_set(err, ERR_IO, "capabilities", "%s", strerror(errno)) : 0;
}

int app_confine_process(struct err *err)
{
	const struct filter filter = {
		.groups = FILTER_CORE | FILTER_THREADS | FILTER_FILES | FILTER_MODES | FILTER_NET | FILTER_SCHED,
		.rows = rows, .nrows = NELEMS(rows), .all_threads = true,
	};
	int rc = drop_capabilities(err);

	if (rc == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		rc = err_set(err, ERR_IO, "no new privileges", "%s", strerror(errno));
	return rc ? rc : filter_put_on(&filter, NULL, err);
}

/* Root can do much of what is left whatever it gives up. */
static void say(struct app *a, const char *text)
{
	char files[64] = "any file of its user's (no Landlock)";

	if (a->landlock > 0)
		(void)snprintf(files, sizeof(files), "no other files (Landlock %u)", a->landlock);
	a->confined = mem_printf("%s, %s%s", text, files,
				 geteuid() == 0 ? ", but it is root (see user in toolcribd.yaml)" : "");
}

/* A kernel without filters is said, by status as well; it has no cages for tools either. */
int app_confine(struct app *a, struct err *err)
{
	int rc;

	if (!a->opt.confine)
		return 0;
	if (SANITIZED) {
		say(a, "no: built with a sanitizer");
		return drop_capabilities(err);
	}
	if (!filter_available()) {
		say(a, "no: this kernel has no filters");
		log_warn(NULL, "the server is not confined why=\"this kernel has no filters on system calls\"");
		return drop_capabilities(err);
	}
	rc = app_confine_process(err);
	if (rc == 0)
		say(a, "no new privileges, no programs");
	return rc;
}
