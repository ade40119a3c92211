/* The server confines itself when all that it starts with is there (HARDENING 1.3): no new privileges, no capability of
 * its service user, and a filter for all threads by which it starts no program, becomes nobody else, signals nobody and
 * traces nobody.  The launcher, which it has started before, does what is left of that. */
#include "config.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sanitized.h"
#include "sandbox/filter.h"

#include "app_int.h"

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

/* A kernel without filters is said, by status as well; it has no cages for tools either. */
int app_confine(struct app *a, struct err *err)
{
	int rc;

	if (!a->opt.confine)
		return 0;
	if (SANITIZED) {
		a->confined = "no: built with a sanitizer";
		return drop_capabilities(err);
	}
	if (!filter_available()) {
		a->confined = "no: this kernel has no filters";
		log_warn(NULL, "the server is not confined why=\"this kernel has no filters on system calls\"");
		return drop_capabilities(err);
	}
	rc = app_confine_process(err);
	if (rc == 0)
		a->confined = "no new privileges, no programs";
	return rc;
}
