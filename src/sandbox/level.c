/* The level of confinement: its text, its order, what this kernel offers; and Landlock, the layer of it that says which
 * files, ports and processes a tool reaches (SEC S-507, S-509, S-517).  The server compares levels on any thread; the
 * launcher, which has one thread, puts Landlock on. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "sandbox/filter.h"
#include "sandbox/level.h"
#include "sandbox/policy.h"

#include "landlock_abi.h"
#include "sandbox_int.h"

/* --- Landlock */

/* Landlock: which files, ports and processes a tool reaches (SEC S-507, S-509, S-517).
 *
 * Rules only ever allow, and a rule on a directory holds for all below it.  So that something inside an allowed
 * directory stays hidden, the directory is not allowed itself but each of its entries, down to the one that is
 * left out: then what comes into being there later is not visible either, and the directory cannot be listed. */

#define READ (LL_FS_EXECUTE | LL_FS_READ_FILE | LL_FS_READ_DIR)
#define WRITE (READ | LL_FS_WRITE_FILE | LL_FS_REMOVE_DIR | LL_FS_REMOVE_FILE | LL_FS_MAKE_DIR | LL_FS_MAKE_REG | \
	       LL_FS_MAKE_FIFO | LL_FS_MAKE_SYM | LL_FS_REFER | LL_FS_TRUNCATE)
#define DEVICE (LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV)
/* What a rule on something that is no directory may hold. */
#define OF_FILES (LL_FS_EXECUTE | LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV)

/* What every program needs; an entry that this machine does not have is passed over.  Of /etc only what libraries
 * read, and of /proc only what is about the process itself or the machine: another tenant's command line is none
 * of a tool's business. */
static const struct { const char *path; uint64_t access; } everywhere[] = {
	{ "/usr", READ }, { "/bin", READ }, { "/sbin", READ }, { "/lib", READ }, { "/lib32", READ },
	{ "/lib64", READ }, { "/libx32", READ },
	{ "/etc/ld.so.cache", READ }, { "/etc/ld.so.conf", READ }, { "/etc/ld.so.conf.d", READ },
	{ "/etc/ld.so.preload", READ }, { "/etc/alternatives", READ }, { "/etc/localtime", READ },
	{ "/etc/timezone", READ }, { "/etc/locale.alias", READ }, { "/etc/mime.types", READ },
	{ "/etc/nsswitch.conf", READ }, { "/etc/hosts", READ }, { "/etc/host.conf", READ }, { "/etc/gai.conf", READ },
	{ "/etc/resolv.conf", READ }, { "/etc/services", READ }, { "/etc/protocols", READ },
	{ "/etc/ssl/certs", READ }, { "/etc/ssl/openssl.cnf", READ }, { "/etc/ca-certificates", READ },
	{ "/etc/pki/tls/certs", READ }, { "/etc/pki/ca-trust", READ },
	/* Not /proc/self/net, nor the same below task: they name the sockets of all others (HARDENING F-14). */
	{ "/proc/self", LL_FS_READ_DIR }, { "/proc/self/auxv", READ }, { "/proc/self/cgroup", READ },
	{ "/proc/self/cmdline", READ }, { "/proc/self/comm", READ }, { "/proc/self/coredump_filter", READ },
	{ "/proc/self/environ", READ }, { "/proc/self/fdinfo", READ }, { "/proc/self/gid_map", READ },
	{ "/proc/self/io", READ }, { "/proc/self/limits", READ }, { "/proc/self/loginuid", READ },
	{ "/proc/self/maps", READ }, { "/proc/self/mountinfo", READ }, { "/proc/self/mounts", READ },
	{ "/proc/self/numa_maps", READ }, { "/proc/self/oom_score", READ }, { "/proc/self/oom_score_adj", READ },
	{ "/proc/self/pagemap", READ }, { "/proc/self/personality", READ }, { "/proc/self/sched", READ },
	{ "/proc/self/schedstat", READ }, { "/proc/self/setgroups", READ }, { "/proc/self/smaps", READ },
	{ "/proc/self/smaps_rollup", READ }, { "/proc/self/stat", READ }, { "/proc/self/statm", READ },
	{ "/proc/self/status", READ }, { "/proc/self/timerslack_ns", READ }, { "/proc/self/uid_map", READ },
	{ "/proc/cpuinfo", READ }, { "/proc/meminfo", READ }, { "/proc/stat", READ },
	{ "/proc/uptime", READ }, { "/proc/loadavg", READ }, { "/proc/version", READ },
	{ "/proc/filesystems", READ }, { "/proc/sys/kernel/osrelease", READ }, { "/proc/sys/kernel/ngroups_max", READ },
	{ "/proc/sys/kernel/cap_last_cap", READ }, { "/proc/sys/kernel/random", READ },
	{ "/proc/sys/vm/overcommit_memory", READ }, { "/sys/devices/system/cpu", READ },
	{ "/sys/devices/system/node", READ }, { "/sys/kernel/mm/transparent_hugepage", READ },
	{ "/dev/null", DEVICE }, { "/dev/zero", DEVICE }, { "/dev/full", DEVICE }, { "/dev/random", DEVICE },
	{ "/dev/urandom", DEVICE },
};

struct rules {
	int fd;                         /* the ruleset */
	uint64_t handled;
	char *hide[SANDBOX_HIDE_MAX + 1];   /* without links */
	size_t nhide;
};

/* The ABI whose rules hold here, at most SANDBOX_LANDLOCK_MAX; 0 = no Landlock. */
static unsigned landlock_abi(void)
{
	long abi = syscall(LL_CREATE_RULESET, NULL, 0, LL_CREATE_VERSION);

	if (abi < 1)
		return 0;
	return abi > SANDBOX_LANDLOCK_MAX ? SANDBOX_LANDLOCK_MAX : (unsigned)abi;
}

const char *landlock_everywhere(size_t i)
{
	return i < NELEMS(everywhere) ? everywhere[i].path : NULL;
}

static uint64_t handled_by(unsigned abi)
{
	uint64_t all = LL_FS_REFER - 1;

	if (abi >= 2)
		all |= LL_FS_REFER;
	if (abi >= 3)
		all |= LL_FS_TRUNCATE;
	if (abi >= 5)
		all |= LL_FS_IOCTL_DEV;
	return all;
}

bool sandbox_is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return true;
	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool is_below_any(const char *path, const char *const *list)
{
	for (; list && *list; list++)
		if (sandbox_is_below(path, *list))
			return true;
	return false;
}

/* The tool's own directory, wherever it was made: own_dir_name() in toolcrib_run.c. */
static bool is_own(const char *path)
{
	static const char name[] = "/toolcrib-";
	const char *at = strstr(path, name);
	size_t n = at ? strspn(at + sizeof(name) - 1, "0123456789abcdef") : 0;

	return n == 16 && strchr("/", at[sizeof(name) - 1 + n]);
}

bool sandbox_policy_reads(const struct sandbox_policy *p, const char *path, bool *ret_hidden)
{
	*ret_hidden = false;
	if (is_own(path))
		return true;
	*ret_hidden = is_below_any(path, p->hide);
	if (*ret_hidden)
		return false;
	for (size_t i = 0; i < NELEMS(everywhere); i++)
		if (sandbox_is_below(path, everywhere[i].path))
			return true;
	return !p->level.landlock || is_below_any(path, p->read) || is_below_any(path, p->write) ||
	       is_below_any(path, p->files) || strcmp(path, p->program) == 0;
}

bool sandbox_policy_writes(const struct sandbox_policy *p, const char *path, bool *ret_closed)
{
	*ret_closed = is_below_any(path, p->hide);
	for (const char *const *at = p->hide; at && *at; at++)
		*ret_closed = *ret_closed || sandbox_is_below(*at, path);
	return is_own(path) || (!*ret_closed && (!p->level.landlock || is_below_any(path, p->write)));
}

static int add_rule(const struct rules *r, const char *name, int fd, uint64_t access, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_set(err, ERR_IO, "landlock", "%.100s: %s", name, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		access &= OF_FILES;
	const struct ll_path rule = { .allowed = access & r->handled, .parent_fd = fd };
	if (rule.allowed == 0 || syscall(LL_ADD_RULE, r->fd, LL_RULE_PATH, &rule, 0) == 0)
		return 0;
	return err_set(err, ERR_IO, "landlock", "%.100s: %s", name, strerror(errno));
}

static int allow(const struct rules *r, const char *path, uint64_t access, struct err *err);

/* What is not there, or hidden, is passed over where nobody has named it. */
static int unless_absent(int rc)
{
	return rc == ERR_NOT_FOUND || rc == ERR_DENIED ? 0 : rc;
}

/* Each entry on its own. */
static int allow_entries(const struct rules *r, const char *dir, uint64_t access, struct err *err)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int rc = 0;

	if (!d)
		return err_set(err, ERR_IO, "landlock", "%.100s: %s", dir, strerror(errno));
	while (rc == 0 && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || e->d_type == DT_LNK)
			continue;       /* what a link points to is allowed where it lies, or not at all */
		char *path = mem_printf("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, e->d_name);
		rc = unless_absent(allow(r, path, access, err));
		free(path);
	}
	closedir(d);
	return rc;
}

/* The name of an open file, without links. */
static bool real_name(int fd, char ret[PATH_MAX])
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, ret, PATH_MAX - 1);
	ret[n > 0 ? n : 0] = '\0';
	return ret[0] == '/';
}

/* ERR_NOT_FOUND: there is nothing to open.  ERR_DENIED: it is hidden itself. */
static int allow(const struct rules *r, const char *path, uint64_t access, struct err *err)
{
	char name[PATH_MAX];
	bool holds_hidden = false;
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, "landlock", "%.100s: %s", path, strerror(errno));
	int rc = real_name(fd, name) ? 0 : err_set(err, ERR_IO, "landlock", "%.100s: it has no name", path);
	for (size_t i = 0; rc == 0 && i < r->nhide; i++) {
		if (sandbox_is_below(name, r->hide[i]))
			rc = err_set(err, ERR_DENIED, "landlock", "%.100s: it is not for tools", path);
		holds_hidden = holds_hidden || sandbox_is_below(r->hide[i], name);
	}
	/* Entry by entry nothing new could be made in it. */
	if (rc == 0 && holds_hidden && (access & LL_FS_MAKE_REG))
		rc = err_set(err, ERR_DENIED, "landlock", "%.100s: what is not for tools lies in it", path);
	if (rc == 0 && !holds_hidden)
		rc = add_rule(r, path, fd, access, err);
	close(fd);
	if (rc == 0 && holds_hidden)
		rc = allow_entries(r, name, access, err);
	return rc;
}

/* strict: what is listed must be there and must not be the server's own. */
static int allow_list(const struct rules *r, const char *const *list, uint64_t access, bool strict, struct err *err)
{
	int rc = 0;

	for (; rc == 0 && *list; list++) {
		rc = allow(r, *list, access, err);
		rc = strict ? rc : unless_absent(rc);
	}
	return rc;
}

static int allow_everywhere(const struct rules *r, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < NELEMS(everywhere); i++)
		rc = unless_absent(allow(r, everywhere[i].path, everywhere[i].access, err));
	return rc;
}

/* Only regular files: a directory that is named on the command line is not given away with all below it. */
static int allow_files(const struct rules *r, const char *const *list, struct err *err)
{
	struct stat st;
	int rc = 0;

	for (; rc == 0 && *list; list++) {
		const char *const one[] = { *list, NULL };
		if (stat(*list, &st) == 0 && S_ISREG(st.st_mode))
			rc = allow_list(r, one, READ, false, err);
	}
	return rc;
}

static int allow_ports(const struct rules *r, const uint16_t *ports, size_t n, uint64_t access, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct ll_port rule = { .allowed = access, .port = ports[i] };
		if (syscall(LL_ADD_RULE, r->fd, LL_RULE_PORT, &rule, 0))
			return err_set(err, ERR_IO, "landlock", "port %u: %s", (unsigned)ports[i], strerror(errno));
	}
	return 0;
}

static int create(const struct sandbox_policy *p, struct rules *r, struct err *err)
{
	unsigned abi = p->level.landlock;
	struct ll_ruleset attr = { .handled_fs = handled_by(abi) };
	size_t size = sizeof(attr.handled_fs);

	if (abi >= SANDBOX_LANDLOCK_PORTS) {
		attr.handled_net = p->net == SANDBOX_NET_ANY ? 0 : LL_NET_BIND_TCP | LL_NET_CONNECT_TCP;
		size += sizeof(attr.handled_net);
	}
	if (abi >= 6) {
		attr.scoped = LL_SCOPE_ABSTRACT_UNIX | LL_SCOPE_SIGNAL;
		size += sizeof(attr.scoped);
	}
	r->handled = attr.handled_fs;
	r->fd = (int)syscall(LL_CREATE_RULESET, &attr, size, 0);
	return r->fd < 0 ? err_set(err, ERR_IO, "landlock", "%s", strerror(errno)) : 0;
}

/* Without links; of what does not exist yet the place where it would be. */
static char *hidden_name(const char *path)
{
	char *name = realpath(path, NULL), *dir, *slash;

	if (name)
		return name;
	dir = mem_strdup(path);
	slash = strrchr(dir, '/');
	*slash = '\0';
	char *above = realpath(*dir ? dir : "/", NULL);
	if (above)
		name = mem_printf("%s/%s", strcmp(above, "/") == 0 ? "" : above, slash + 1);
	free(above);
	free(dir);
	return name;
}

static void find_hidden(const struct sandbox_policy *p, struct rules *r)
{
	for (const char *const *path = p->hide; *path; path++) {
		char *name = hidden_name(*path);
		if (name)               /* else there is nothing to hide */
			r->hide[r->nhide++] = name;
	}
}

static int fill(const struct sandbox_policy *p, const char *own_dir, struct rules *r, struct err *err)
{
	const char *const program[] = { p->program, NULL }, *const own[] = { own_dir, NULL };

	int rc = allow_everywhere(r, err);
	/* Processes of others show in /proc: a list that names it, or "/", does not open it. */
	r->hide[r->nhide++] = mem_strdup("/proc");
	rc = rc ? rc : allow_list(r, p->read, READ, true, err);
	rc = rc ? rc : allow_list(r, p->write, WRITE, true, err);
	rc = rc ? rc : allow_files(r, p->files, err);
	rc = rc ? rc : allow_list(r, program, READ, true, err);
	rc = rc ? rc : allow_list(r, own, WRITE, true, err);
	rc = rc ? rc : allow_ports(r, p->connect_ports, p->nconnect, LL_NET_CONNECT_TCP, err);
	return rc ? rc : allow_ports(r, p->bind_ports, p->nbind, LL_NET_BIND_TCP, err);
}

int landlock_confine(const struct sandbox_policy *p, const char *own_dir, struct err *err)
{
	struct rules r = { .fd = -1 };

	if (p->level.landlock == 0)
		return 0;
	if (p->level.landlock > landlock_abi())
		return err_set(err, ERR_IO, "landlock", "the kernel offers ABI %u, %u is asked for", landlock_abi(),
			       p->level.landlock);
	find_hidden(p, &r);
	int rc = create(p, &r, err);
	rc = rc ? rc : fill(p, own_dir, &r, err);
	if (rc == 0 && syscall(LL_RESTRICT_SELF, r.fd, 0))
		rc = err_set(err, ERR_IO, "landlock", "%s", strerror(errno));
	if (r.fd >= 0)
		close(r.fd);
	while (r.nhide > 0)
		free(r.hide[--r.nhide]);
	return rc;
}

/* --- Landlock for the server (HARDENING 1.3) */

static int confine(const struct confine_place *places, size_t n, bool libraries, unsigned abi, struct err *err)
{
	const struct ll_ruleset attr = { .handled_fs = handled_by(abi) };
	struct rules r = { .fd = -1, .handled = attr.handled_fs & ~LL_FS_EXECUTE };
	int rc = 0;

	if (abi == 0)
		return 0;
	r.fd = (int)syscall(LL_CREATE_RULESET, &attr, sizeof(attr.handled_fs), 0);
	if (r.fd < 0)
		return err_set(err, ERR_IO, "landlock", "%s", strerror(errno));
	rc = libraries ? allow_everywhere(&r, err) : 0;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		uint64_t access = places[i].may & PLACES_WRITE ? WRITE | LL_FS_MAKE_SOCK : 0;

		access |= places[i].may & PLACES_READ ? READ : 0;
		access |= places[i].may & PLACES_APPEND ? LL_FS_WRITE_FILE | LL_FS_MAKE_REG : 0;
		access |= places[i].may & PLACES_SOCKETS ? LL_FS_MAKE_SOCK | LL_FS_REMOVE_FILE : 0;
		rc = unless_absent(allow(&r, places[i].path, access, err));
	}
	if (rc == 0 && syscall(LL_RESTRICT_SELF, r.fd, 0))
		rc = err_set(err, ERR_IO, "landlock", "%s", strerror(errno));
	close(r.fd);
	return rc;
}

int places_confine(const struct confine_place *places, size_t n, unsigned abi, struct err *err)
{
	return confine(places, n, true, abi, err);
}

int places_only(const struct confine_place *places, size_t n, unsigned abi, struct err *err)
{
	return confine(places, n, false, abi, err);
}

const char *sandbox_level_format(const struct sandbox_level *level, char ret[SANDBOX_LEVEL_TEXT])
{
	char landlock[24] = "";

	if (level->landlock)
		snprintf(landlock, sizeof(landlock), "+landlock:%u", level->landlock);
	snprintf(ret, SANDBOX_LEVEL_TEXT, "base%s%s%s%s%s%s", level->uid ? "+uid" : "", landlock,
		 level->seccomp ? "+seccomp" : "",
		 level->net0 ? "+net0" : "", level->ns ? "+ns" : "", level->cgroup ? "+cgroup" : "");
	return ret;
}

/* Take word off the front of *at. */
static bool take(const char **at, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*at, word, n) != 0)
		return false;
	*at += n;
	return true;
}

int sandbox_level_parse(const char *text, struct sandbox_level *ret, struct err *err)
{
	struct sandbox_level level = { 0 };
	const char *at = text;
	uint64_t n = 0;

	bool ok = take(&at, "base");
	level.uid = ok && take(&at, "+uid");
	if (ok && take(&at, "+landlock:")) {
		size_t digits = strspn(at, "0123456789");
		ok = digits > 0 && digits < 4 && *at != '0' && text_u64(at, digits, &n) == 0;
		level.landlock = (unsigned)n;
		at += digits;
	}
	level.seccomp = ok && take(&at, "+seccomp");
	level.net0 = ok && take(&at, "+net0");
	level.ns = ok && take(&at, "+ns");
	level.cgroup = ok && take(&at, "+cgroup");
	if (!ok || *at)
		return err_set(err, ERR_INVALID, "",
			       "a level is base, then any of +uid +landlock:N +seccomp +net0 +ns +cgroup in this order, is "
			       "\"%.60s\"", text);
	*ret = level;
	return 0;
}

bool sandbox_level_meets(const struct sandbox_level *reached, const struct sandbox_level *wanted)
{
	return reached->uid >= wanted->uid && reached->landlock >= wanted->landlock && reached->seccomp >= wanted->seccomp &&
	       reached->net0 >= wanted->net0 && reached->ns >= wanted->ns && reached->cgroup >= wanted->cgroup;
}

bool sandbox_level_equal(const struct sandbox_level *a, const struct sandbox_level *b)
{
	return sandbox_level_meets(a, b) && sandbox_level_meets(b, a);
}

struct sandbox_level sandbox_level_both(const struct sandbox_level *a, const struct sandbox_level *b)
{
	return (struct sandbox_level){
		.landlock = a->landlock > b->landlock ? a->landlock : b->landlock,
		.uid = a->uid || b->uid,
		.seccomp = a->seccomp || b->seccomp,
		.net0 = a->net0 || b->net0,
		.ns = a->ns || b->ns,
		.cgroup = a->cgroup || b->cgroup,
	};
}

struct sandbox_level sandbox_level_probe(void)
{
	bool seccomp = filter_available();

	return (struct sandbox_level){ .landlock = landlock_abi(), .seccomp = seccomp, .net0 = seccomp };
}
