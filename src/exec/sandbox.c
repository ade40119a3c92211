/* The block `sandbox`: compiled, weighed against what this machine and the server's configuration say, and turned into
 * the launcher's instructions. */
#include "config.h"

#include "exec/sandbox.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "sandbox/sandbox.h"

#define CPU_DEFAULT_S 3600              /* the longest timeout: what escapes the kill ends some day */
#define CPU_MAX_S 86400
#define MEMORY_DEFAULT (4ull << 30)     /* address space, of which some runtimes reserve more than a GiB */
#define MEMORY_MIN (8u << 20)           /* less does not even load libc */
#define MEMORY_MAX (1ull << 40)
#define PROCESSES_DEFAULT 256
#define PROCESSES_MAX 4096
#define FILE_BYTES_MAX (1u << 30)       /* RLIMIT_FSIZE */
#define OPEN_FILES_MAX 256              /* RLIMIT_NOFILE */

/* An absolute path, spelt so that it cannot mean another one (SEC S-506). */
static int check_path(const char *path, const char *at, struct err *err)
{
	if (path[0] != '/')
		return err_set(err, ERR_INVALID, at, "must be an absolute path, is %.60s", path);
	if (strpbrk(path, "{}"))
		return err_set(err, ERR_INVALID, at, "a path takes no template");
	for (const char *p = path; *p; p += strcspn(p, "/")) {
		p += strspn(p, "/");
		size_t n = strcspn(p, "/");
		if (n == 2 && memcmp(p, "..", 2) == 0)
			return err_set(err, ERR_INVALID, at, "a path does not go up by \"..\"");
	}
	return 0;
}

static int read_paths(const json_t *box, const char *name, struct arena *mem, const char *const **ret, struct err *err)
{
	json_t *list = NULL;
	char at[64];

	int rc = jx_get_array(box, "/sandbox", name, JX_OPTIONAL, &list, err);
	if (rc < 0)
		return rc;
	size_t n = json_array_size(list);
	snprintf(at, sizeof(at), "/sandbox/%s", name);
	if (n > SANDBOX_PATHS_MAX)
		return err_set(err, ERR_INVALID, at, "holds more than %d paths", SANDBOX_PATHS_MAX);
	const char **paths = arena_alloc(mem, (n + 1) * sizeof(*paths));
	if (!paths)
		return backend_bind_full(at, err);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		snprintf(at, sizeof(at), "/sandbox/%s/%zu", name, i);
		if (!json_is_string(v) || memchr(json_string_value(v), '\0', json_string_length(v)))
			return err_set(err, ERR_INVALID, at, "must be a path");
		rc = check_path(json_string_value(v), at, err);
		if (rc < 0)
			return rc;
		paths[i] = arena_strdup(mem, json_string_value(v));
		if (!paths[i])
			return backend_bind_full(at, err);
	}
	*ret = paths;
	return 0;
}

static int read_ports(const json_t *net, const char *name, struct arena *mem, const uint16_t **ret, size_t *ret_n,
		      struct err *err)
{
	json_t *list = NULL;
	char at[64];

	int rc = jx_get_array(net, "/sandbox/network", name, JX_OPTIONAL, &list, err);
	if (rc < 0)
		return rc;
	size_t n = json_array_size(list);
	snprintf(at, sizeof(at), "/sandbox/network/%s", name);
	if (n > SANDBOX_PORTS_MAX)
		return err_set(err, ERR_INVALID, at, "holds more than %d ports", SANDBOX_PORTS_MAX);
	uint16_t *ports = arena_alloc(mem, (n + 1) * sizeof(*ports));
	if (!ports)
		return backend_bind_full(at, err);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		snprintf(at, sizeof(at), "/sandbox/network/%s/%zu", name, i);
		if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > UINT16_MAX)
			return err_set(err, ERR_INVALID, at, "must be a port, 1 to 65535");
		ports[i] = (uint16_t)json_integer_value(v);
	}
	*ret = ports;
	*ret_n = n;
	return 0;
}

/* true, false, or the ports by name (SEC S-509). */
static int read_network(const json_t *box, struct arena *mem, struct exec_sandbox *ret, struct err *err)
{
	static const char *const known[] = { "connect", "bind", "udp" };
	const json_t *net = json_object_get(box, "network");

	if (!net)
		return 0;
	if (json_is_boolean(net)) {
		ret->net = json_is_true(net) ? SANDBOX_NET_ANY : SANDBOX_NET_NONE;
		return 0;
	}
	if (!json_is_object(net))
		return err_set(err, ERR_INVALID, "/sandbox/network", "must be true, false or {connect: [PORT, ...]}, is %s",
			       jx_type_name(net));
	int rc = jx_only(net, "/sandbox/network", known, NELEMS(known), err);
	if (rc == 0)
		rc = read_ports(net, "connect", mem, &ret->connect_ports, &ret->nconnect, err);
	if (rc == 0)
		rc = read_ports(net, "bind", mem, &ret->bind_ports, &ret->nbind, err);
	if (rc == 0)
		rc = jx_get_bool(net, "/sandbox/network", "udp", JX_OPTIONAL, &ret->udp, err);
	ret->net = ret->nconnect + ret->nbind > 0 || ret->udp ? SANDBOX_NET_PORTS : SANDBOX_NET_NONE;
	return rc;
}

static int read_limits(const json_t *box, struct exec_sandbox *ret, struct err *err)
{
	const char *memory = NULL, *cpu = NULL;
	int64_t processes = PROCESSES_DEFAULT;
	uint64_t ms = 0;

	int rc = jx_get_string(box, "/sandbox", "memory", JX_OPTIONAL, &memory, err);
	if (rc == 0)
		rc = jx_get_string(box, "/sandbox", "cpu", JX_OPTIONAL, &cpu, err);
	if (rc == 0)
		rc = jx_get_int(box, "/sandbox", "processes", JX_OPTIONAL, 1, PROCESSES_MAX, &processes, err);
	if (rc < 0)
		return rc;
	if (memory && (text_size(memory, &ret->memory_bytes) < 0 || ret->memory_bytes < MEMORY_MIN ||
		       ret->memory_bytes > MEMORY_MAX))
		return err_set(err, ERR_INVALID, "/sandbox/memory", "must be a size from 8MiB to 1024GiB, is %.40s",
			       memory);
	if (cpu && (text_duration_ms(cpu, &ms) < 0 || ms < 1000 || ms > CPU_MAX_S * 1000ull))
		return err_set(err, ERR_INVALID, "/sandbox/cpu", "must be a duration from 1s to 24h, is %.40s", cpu);
	if (cpu)
		ret->cpu_s = (ms + 999) / 1000;
	ret->processes = (uint64_t)processes;
	return 0;
}

static int read_require(const json_t *box, struct exec_sandbox *ret, struct err *err)
{
	const char *require = NULL;

	int rc = jx_get_string(box, "/sandbox", "require", JX_OPTIONAL, &require, err);
	if (rc < 0 || !require)
		return rc;
	rc = sandbox_level_parse(require, &ret->require, err);
	if (rc < 0)
		err_at(err, "/sandbox/require");
	else if (ret->require.net0 && ret->net != SANDBOX_NET_NONE)
		rc = err_set(err, ERR_INVALID, "/sandbox/require", "+net0 and a network exclude each other");
	return rc;
}

int exec_sandbox_bind(const json_t *handler, struct arena *mem, struct exec_sandbox *ret, struct err *err)
{
	static const char *const known[] = { "read", "write", "network", "memory", "processes", "cpu", "require" };
	struct exec_sandbox c = { .cpu_s = CPU_DEFAULT_S, .memory_bytes = MEMORY_DEFAULT, .processes = PROCESSES_DEFAULT };
	json_t *box = NULL;

	int rc = jx_get_object(handler, "", "sandbox", JX_OPTIONAL, &box, err);
	if (rc == 0 && box)
		rc = jx_only(box, "/sandbox", known, NELEMS(known), err);
	if (rc == 0 && box)
		rc = read_paths(box, "read", mem, &c.read, err);
	if (rc == 0 && box)
		rc = read_paths(box, "write", mem, &c.write, err);
	if (rc == 0 && box)
		rc = read_network(box, mem, &c, err);
	if (rc == 0 && box)
		rc = read_limits(box, &c, err);
	if (rc == 0 && box)
		rc = read_require(box, &c, err);
	if (rc == 0)
		*ret = c;
	return rc;
}

struct sandbox_level exec_sandbox_level(const struct exec_sandbox *c, const struct sandbox *server)
{
	struct sandbox_level level = server->best;

	level.net0 = level.net0 && c->net == SANDBOX_NET_NONE;
	return level;
}

/* What must be reached: the server's word and the definition's, and what the listed ports need. */
static struct sandbox_level wanted(const struct exec_sandbox *c, const struct sandbox *server)
{
	const struct sandbox_level ports = { .landlock = SANDBOX_LANDLOCK_PORTS, .seccomp = true };
	struct sandbox_level both = sandbox_level_both(&c->require, &server->require);

	return c->net == SANDBOX_NET_PORTS ? sandbox_level_both(&both, &ports) : both;
}

void exec_sandbox_show(const struct exec_sandbox *c, const struct sandbox *server, struct backend_sandbox *ret)
{
	struct sandbox_level reached = exec_sandbox_level(c, server), want = wanted(c, server);

	sandbox_level_format(&reached, ret->level);
	sandbox_level_format(&want, ret->wanted);
	sandbox_level_format(&server->best, ret->best);
	ret->enough = sandbox_level_meets(&reached, &want);
}

int exec_sandbox_check(const struct exec_sandbox *c, const struct sandbox *server, struct err *err)
{
	struct backend_sandbox shown;

	exec_sandbox_show(c, server, &shown);
	return backend_sandbox_check(&shown, err);
}

void exec_sandbox_fill(const struct exec_sandbox *c, const struct sandbox *server, struct sandbox_policy *ret)
{
	ret->level = exec_sandbox_level(c, server);
	ret->cpu_s = c->cpu_s;
	ret->memory_bytes = c->memory_bytes;
	ret->file_bytes = FILE_BYTES_MAX;
	ret->open_files = OPEN_FILES_MAX;
	ret->processes = c->processes;
	ret->scratch = server->scratch;
	ret->bwrap = server->bwrap;
	ret->cgroup = server->cgroup;
	ret->read = c->read;
	ret->write = c->write;
	ret->hide = server->hide;
	ret->net = c->net;
	ret->udp = c->udp;
	ret->connect_ports = c->connect_ports;
	ret->nconnect = c->nconnect;
	ret->bind_ports = c->bind_ports;
	ret->nbind = c->nbind;
}
