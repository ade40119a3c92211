/* What the server gives up of its own (HARDENING 1.3).  First root, where the configuration names a user: toolcribd
 * asks for that before anything is opened.  Last, when all that it starts with is there: new privileges, its
 * capabilities, and by a filter for all threads what it needs to start programs, become somebody else, signal or
 * trace.  The launcher, which it has started before, does what is left of that. */
#include "config.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sanitized.h"
#include "base/text.h"
#include "conf/conf.h"
#include "sandbox/filter.h"

#include "app_int.h"

/* --- at its start: root becomes the user of the key `user` (SEC S-601).  From then on this is a server that a service
 * manager has started as that user, with what its launcher needs and ports below 1024, which app_confine() gives up. */

#define KEY "user"

/* For the launcher, which passes them on to nobody but toolcrib-run; NET_BIND_SERVICE is for our own listeners. */
static const unsigned char for_launcher[] = { CAP_SETUID, CAP_SETGID, CAP_KILL };

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

/* --- when all is there */

/* Of what starts and ends processes only the wait for the launcher's end. */
static const struct filter_row rows[] = {
	{ SYS_wait4, FILTER_ALLOW, 0, { 0 }, { 0 } },
	{ SYS_waitid, FILTER_ALLOW, 0, { 0 }, { 0 } },
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

/* Root can do most of what is left whatever it gives up. */
static void say(struct app *a, const char *text)
{
	a->confined = mem_printf("%s%s", text, geteuid() == 0 ? ", but it is root (see user in toolcribd.yaml)" : "");
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
