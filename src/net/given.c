/* Sockets that somebody else has opened: what a service manager says of them, whether they can be served, and at which
 * address.  The start of a server calls it while there is one thread, and the listeners take them. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "net/addr.h"
#include "net/given.h"

#define FDS_FIRST 3                     /* SD_LISTEN_FDS_START */

struct one {
	int fd;                         /* -1: taken */
	bool wanted, own;
	char address[GIVEN_ADDRESS_SIZE], name[GIVEN_NAME_SIZE];
};

struct given {
	struct one all[GIVEN_MAX];
	size_t n;
};

/* --- one of them */

static int refuse(struct err *err, const struct one *o, const char *what)
{
	return err_set(err, ERR_INVALID, "LISTEN_FDS", "descriptor %d (%s) that the service manager gave %s", o->fd,
		       *o->name ? o->name : "without a name", what);
}

static int int_of(int fd, int level, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, level, option, &value, &len) == 0 ? value : -1;
}

/* Peers of IPv4 would share one /64 there, and the limits of a source (SEC S-316). */
static bool takes_both(const struct one *o, const struct addr *a)
{
	const struct sockaddr_in6 *six = (const void *)&a->sa;

	return a->sa.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) &&
		int_of(o->fd, IPPROTO_IPV6, IPV6_V6ONLY) == 0;
}

/* Its address, as the configuration would write it. */
static int find_address(struct one *o, struct err *err)
{
	struct addr a = { .len = sizeof(a.sa) };
	const struct sockaddr_un *un = (const void *)&a.sa;
	char text[ADDR_TEXT_SIZE];

	if (int_of(o->fd, SOL_SOCKET, SO_TYPE) != SOCK_STREAM || int_of(o->fd, SOL_SOCKET, SO_ACCEPTCONN) != 1) {
		(void)refuse(err, o, "does not listen for connections");
		err_hint(err, "a socket unit needs ListenStream= and Accept=no");
		return err->code;
	}
	if (getsockname(o->fd, (struct sockaddr *)&a.sa, &a.len))
		return refuse(err, o, "has no address");
	if (takes_both(o, &a)) {
		(void)refuse(err, o, "takes IPv4 on an address of IPv6");
		err_hint(err, "say BindIPv6Only=ipv6-only in the socket unit, and ListenStream=0.0.0.0:PORT for IPv4");
		return err->code;
	}
	if (a.sa.ss_family == AF_INET || a.sa.ss_family == AF_INET6)
		(void)snprintf(o->address, sizeof(o->address), "%s", addr_format(&a, text));
	else if (a.sa.ss_family == AF_UNIX && a.len > offsetof(struct sockaddr_un, sun_path) && un->sun_path[0] == '/')
		(void)snprintf(o->address, sizeof(o->address), "%.*s",
			       (int)strnlen(un->sun_path, a.len - offsetof(struct sockaddr_un, sun_path)), un->sun_path);
	else
		return refuse(err, o, "is neither of IPv4 nor of IPv6 nor a Unix socket with a path");
	return 0;
}

/* --- what the variables say */

/* How many there are for us: 0 where they are another process's. */
static int count(const char *pid, const char *fds, size_t *ret, struct err *err)
{
	uint64_t who = 0, n = 0;

	*ret = 0;
	if (!pid || !fds)
		return 0;
	if (text_u64(pid, strlen(pid), &who) < 0 || text_u64(fds, strlen(fds), &n) < 0)
		return err_set(err, ERR_INVALID, "LISTEN_FDS", "LISTEN_PID and LISTEN_FDS of the service manager are no numbers");
	if (who != (uint64_t)getpid())
		return 0;
	if (n > GIVEN_MAX)
		return err_set(err, ERR_LIMIT, "LISTEN_FDS", "the service manager gives %llu sockets, and at most %d can be served",
			       (unsigned long long)n, GIVEN_MAX);
	*ret = (size_t)n;
	return 0;
}

/* NAME:NAME…, in the order of the descriptors; there may be fewer. */
static void put_name(const char **names, struct one *o)
{
	size_t len = *names ? strcspn(*names, ":") : 0;

	if (!*names)
		return;
	(void)text_printable(*names, len, o->name, sizeof(o->name));
	*names = (*names)[len] ? *names + len + 1 : NULL;
}

static int add(struct given *g, int fd, const char **names, struct err *err)
{
	struct one *o = &g->all[g->n++];
	int flags = fcntl(fd, F_GETFL);

	o->fd = fd;
	put_name(names, o);
	if (flags < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, flags | O_NONBLOCK)) {
		(void)refuse(err, o, strerror(errno));
		o->fd = -1;
		return err->code;
	}
	return find_address(o, err);
}

int given_by(const char *pid, const char *fds, const char *names, int first, struct given **ret, struct err *err)
{
	struct given *g = NULL;
	size_t n = 0;
	int rc = count(pid, fds, &n, err);

	if (rc == 0 && n > 0)
		g = mem_zalloc(sizeof(*g));
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add(g, first + (int)i, &names, err);
	if (rc < 0)
		given_free(&g);
	else
		*ret = g;
	return rc;
}

int given_by_manager(struct given **ret, struct err *err)
{
	int rc = given_by(getenv("LISTEN_PID"), getenv("LISTEN_FDS"), getenv("LISTEN_FDNAMES"), FDS_FIRST, ret, err);

	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_FDS");
	(void)unsetenv("LISTEN_FDNAMES");
	return rc;
}

int given_add(struct given **gp, int fd, bool own, struct err *err)
{
	const char *names = NULL;

	if (!*gp)
		*gp = mem_zalloc(sizeof(**gp));
	if ((*gp)->n >= GIVEN_MAX) {
		close(fd);
		return err_set(err, ERR_LIMIT, "LISTEN_FDS", "more than %d sockets are given", GIVEN_MAX);
	}
	(*gp)->all[(*gp)->n].own = own;
	return add(*gp, fd, &names, err);
}

void given_free(struct given **gp)
{
	struct given *g = *gp;

	for (size_t i = 0; g && i < g->n; i++)
		if (g->all[i].fd >= 0)
			close(g->all[i].fd);
	free(g);
	*gp = NULL;
}

/* --- who takes them */

/* One address in two spellings is one: [::1] and [0:0:0:0:0:0:0:1]. */
static bool is_same(const char *conf, const char *bound)
{
	char text[ADDR_TEXT_SIZE];
	struct err none = { 0 };
	struct addr a;

	return strcmp(conf, bound) == 0 ||
		(*conf != '/' && addr_parse(conf, &a, &none) == 0 && strcmp(addr_format(&a, text), bound) == 0);
}

static struct one *find(struct given *g, const char *address)
{
	for (size_t i = 0; g && i < g->n; i++)
		if (g->all[i].fd >= 0 && is_same(address, g->all[i].address))
			return &g->all[i];
	return NULL;
}

bool given_want(struct given *g, const char *address)
{
	struct one *o = find(g, address);

	if (o)
		o->wanted = true;
	return o != NULL;
}

const char *given_stray(const struct given *g, const char **ret_name)
{
	for (size_t i = 0; g && i < g->n; i++) {
		if (g->all[i].wanted)
			continue;
		*ret_name = g->all[i].name;
		return g->all[i].address;
	}
	return NULL;
}

int given_take(struct given *g, const char *address, bool *ret_own)
{
	struct one *o = find(g, address);
	int fd = o ? o->fd : -1;

	if (!o)
		return -1;
	*ret_own = o->own;
	o->fd = -1;
	return fd;
}
