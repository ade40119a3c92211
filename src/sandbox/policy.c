/* The launcher's instructions as bytes: encoded by the server on the loop, decoded by toolcrib-run.  Whatever is not
 * exactly the format below is refused: the launcher must not guess. */
#include "config.h"

#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "sandbox/policy.h"

#include "sandbox_int.h"

/* All integers little-endian:
 *
 *   head    "tcr7", u32 length of what follows
 *   limits  u64 cpu_s, memory_bytes, file_bytes, open_files, processes, scratch_bytes
 *   sandbox u32 1 = uid, u32 landlock, u32 1 = seccomp, u32 1 = net0, u32 net, u32 1 = udp
 *   texts   program, cwd, scratch, bwrap, cgroup, sha256: each u32 length, the bytes, one NUL (counted); "" = NULL but
 *           for the program
 *   lists   argv, env, read, write, files, hide: each u32 count, then that many texts
 *   ports   connect, bind: each u32 count, then that many u32
 */

#define BWRAP_PROCESSES 2

static const char magic[4] = { 't', 'c', 'r', '7' };

static void put_u32(struct str *out, uint32_t v)
{
	v = htole32(v);
	str_put(out, &v, sizeof(v));
}

static void put_u64(struct str *out, uint64_t v)
{
	v = htole64(v);
	str_put(out, &v, sizeof(v));
}

static void put_text(struct str *out, const char *z)
{
	size_t n = strlen(z) + 1;

	put_u32(out, n > SANDBOX_POLICY_MAX ? SANDBOX_POLICY_MAX + 1 : (uint32_t)n);
	str_put(out, z, n);
}

static size_t count_list(const char *const *list, size_t max)
{
	size_t n = 0;

	while (n <= max && list && list[n])
		n++;
	return n;
}

static void put_list(struct str *out, const char *const *list)
{
	size_t n = count_list(list, SANDBOX_ARGS_MAX);

	put_u32(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		put_text(out, list[i]);
}

static void put_ports(struct str *out, const uint16_t *ports, size_t n)
{
	put_u32(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		put_u32(out, ports[i]);
}

static int check_count(const char *const *list, size_t max, const char *name, const char *what, struct err *err)
{
	return count_list(list, max) > max ? err_set(err, ERR_LIMIT, name, "more than %zu %s", max, what) : 0;
}

static int check_paths(const char *const *list, size_t max, const char *name, struct err *err)
{
	int rc = check_count(list, max, name, "paths", err);

	for (size_t i = 0; rc == 0 && list && list[i]; i++) {
		if (list[i][0] != '/')
			rc = err_set(err, ERR_INVALID, name, "a path is absolute");
	}
	return rc;
}

/* Do the layers and the network agree? */
static bool net_agrees(const struct sandbox_policy *p)
{
	bool closed = p->level.seccomp && p->net == SANDBOX_NET_NONE;

	if (p->net == SANDBOX_NET_PORTS && (!p->level.seccomp || p->level.landlock < SANDBOX_LANDLOCK_PORTS))
		return false;
	return p->level.net0 == closed;
}

bool sandbox_sha256_valid(const char *text)
{
	return strlen(text) == SANDBOX_SHA256_TEXT - 1 && text[strspn(text, "0123456789abcdef")] == '\0';
}

static int check_policy(const struct sandbox_policy *p, struct err *err)
{
	if (!net_agrees(p))
		return err_set(err, ERR_INVALID, "net", "the layers do not hold what the network says");
	if (!p->program || p->program[0] != '/')
		return err_set(err, ERR_INVALID, "program", "a program is given by its absolute path");
	if (p->cwd && p->cwd[0] != '/')
		return err_set(err, ERR_INVALID, "cwd", "a working directory is an absolute path");
	if (p->scratch && p->scratch[0] != '/')
		return err_set(err, ERR_INVALID, "scratch", "the place of the own directory is an absolute path");
	if (p->level.ns ? !p->bwrap || p->bwrap[0] != '/' : p->bwrap != NULL)
		return err_set(err, ERR_INVALID, "bwrap",
			       "a layer of namespaces has an absolute path, and no other has one");
	if (p->level.cgroup ? !p->cgroup || p->cgroup[0] != '/' : p->cgroup != NULL)
		return err_set(err, ERR_INVALID, "cgroup",
			       "a layer of cgroups has an absolute path, and no other has one");
	if (p->sha256 && !sandbox_sha256_valid(p->sha256))
		return err_set(err, ERR_INVALID, "sha256", "a SHA-256 has %d hexadecimal digits", SANDBOX_SHA256_TEXT - 1);
	if (!p->argv || !p->argv[0])
		return err_set(err, ERR_INVALID, "argv", "argv is empty");
	if (p->nconnect > SANDBOX_PORTS_MAX || p->nbind > SANDBOX_PORTS_MAX)
		return err_set(err, ERR_LIMIT, "ports", "more than %d ports", SANDBOX_PORTS_MAX);
	int rc = check_count(p->argv, SANDBOX_ARGS_MAX, "argv", "arguments", err);
	rc = rc ? rc : check_count(p->env, SANDBOX_ENV_MAX, "env", "environment variables", err);
	rc = rc ? rc : check_paths(p->read, SANDBOX_PATHS_MAX, "read", err);
	rc = rc ? rc : check_paths(p->write, SANDBOX_PATHS_MAX, "write", err);
	rc = rc ? rc : check_paths(p->files, SANDBOX_PATHS_MAX, "files", err);
	return rc ? rc : check_paths(p->hide, SANDBOX_HIDE_MAX, "hide", err);
}

static void put_policy(const struct sandbox_policy *p, struct str *out)
{
	put_u64(out, p->cpu_s);
	put_u64(out, p->memory_bytes);
	put_u64(out, p->file_bytes);
	put_u64(out, p->open_files);
	put_u64(out, p->processes);
	put_u64(out, p->scratch_bytes);
	put_u32(out, p->level.uid);
	put_u32(out, p->level.landlock);
	put_u32(out, p->level.seccomp);
	put_u32(out, p->level.net0);
	put_u32(out, p->net);
	put_u32(out, p->udp);
	put_text(out, p->program);
	put_text(out, p->cwd ? p->cwd : "");
	put_text(out, p->scratch ? p->scratch : "");
	put_text(out, p->bwrap ? p->bwrap : "");
	put_text(out, p->cgroup ? p->cgroup : "");
	put_text(out, p->sha256 ? p->sha256 : "");
	put_list(out, p->argv);
	put_list(out, p->env);
	put_list(out, p->read);
	put_list(out, p->write);
	put_list(out, p->files);
	put_list(out, p->hide);
	put_ports(out, p->connect_ports, p->nconnect);
	put_ports(out, p->bind_ports, p->nbind);
}

int sandbox_policy_encode(const struct sandbox_policy *p, struct str *out, struct err *err)
{
	int rc = check_policy(p, err);

	if (rc)
		return rc;

	struct str body;
	str_init(&body, SANDBOX_POLICY_MAX - SANDBOX_HEAD_SIZE);
	put_policy(p, &body);
	if (body.failed) {
		rc = err_set(err, ERR_LIMIT, "argv", "arguments and environment are over %u bytes",
			     SANDBOX_POLICY_MAX);
	} else {
		str_put(out, magic, sizeof(magic));
		put_u32(out, (uint32_t)body.len);
		str_put(out, body.p, body.len);
	}
	str_fini(&body);
	return rc;
}

struct reader {
	const unsigned char *p, *end;
	bool failed;
};

static const void *get(struct reader *r, size_t n)
{
	if (r->failed || (size_t)(r->end - r->p) < n) {
		r->failed = true;
		return NULL;
	}
	const void *at = r->p;
	r->p += n;
	return at;
}

static uint32_t get_u32(struct reader *r)
{
	uint32_t v = 0;
	const void *at = get(r, sizeof(v));

	if (at)
		memcpy(&v, at, sizeof(v));
	return le32toh(v);
}

static uint64_t get_u64(struct reader *r)
{
	uint64_t v = 0;
	const void *at = get(r, sizeof(v));

	if (at)
		memcpy(&v, at, sizeof(v));
	return le64toh(v);
}

/* A number of a small range. */
static uint32_t get_small(struct reader *r, uint32_t max)
{
	uint32_t v = get_u32(r);

	if (v > max)
		r->failed = true;
	return r->failed ? 0 : v;
}

/* A text lies in the block itself: no copy.  Exactly one NUL, at its end. */
static const char *get_text(struct reader *r)
{
	uint32_t n = get_u32(r);
	const char *z = get(r, n);

	if (z && (n == 0 || memchr(z, '\0', n) != z + n - 1)) {
		r->failed = true;
		z = NULL;
	}
	return z;
}

/* Absolute; empty is NULL where that is allowed. */
static const char *get_path(struct reader *r, bool optional)
{
	const char *path = get_text(r);

	if (path && optional && path[0] == '\0')
		return NULL;
	if (path && path[0] != '/')
		r->failed = true;
	return path;
}

static const char *const *get_list(struct reader *r, const char **list, size_t max, bool paths)
{
	uint32_t n = get_small(r, (uint32_t)max);

	for (uint32_t i = 0; i < n && !r->failed; i++)
		list[i] = paths ? get_path(r, false) : get_text(r);
	return list;
}

static const uint16_t *get_ports(struct reader *r, uint16_t *ports, size_t *ret_n)
{
	uint32_t n = get_small(r, SANDBOX_PORTS_MAX);

	for (uint32_t i = 0; i < n; i++)
		ports[i] = (uint16_t)get_small(r, UINT16_MAX);
	*ret_n = n;
	return ports;
}

int sandbox_policy_head(const void *head, size_t *ret_len, struct err *err)
{
	struct reader r = { head, (const unsigned char *)head + SANDBOX_HEAD_SIZE, false };

	if (memcmp(get(&r, sizeof(magic)), magic, sizeof(magic)) != 0)
		return err_set(err, ERR_INVALID, "head", "instructions of another version");
	uint32_t len = get_u32(&r);
	if (len > SANDBOX_POLICY_MAX - SANDBOX_HEAD_SIZE)
		return err_set(err, ERR_LIMIT, "head", "instructions over %u bytes", SANDBOX_POLICY_MAX);
	*ret_len = len;
	return 0;
}

/* What sandbox_policy_decode() hands out: the policy, its lists and the bytes they point into. */
struct block {
	struct sandbox_policy policy;
	const char *argv[SANDBOX_ARGS_MAX + 1];
	const char *env[SANDBOX_ENV_MAX + 1];
	const char *read[SANDBOX_PATHS_MAX + 1], *write[SANDBOX_PATHS_MAX + 1];
	const char *files[SANDBOX_PATHS_MAX + 1], *hide[SANDBOX_HIDE_MAX + 1];
	uint16_t connect_ports[SANDBOX_PORTS_MAX], bind_ports[SANDBOX_PORTS_MAX];
	unsigned char bytes[];
};

static void read_policy(struct block *b, struct reader *r)
{
	struct sandbox_policy *p = &b->policy;

	p->cpu_s = get_u64(r);
	p->memory_bytes = get_u64(r);
	p->file_bytes = get_u64(r);
	p->open_files = get_u64(r);
	p->processes = get_u64(r);
	p->scratch_bytes = get_u64(r);
	p->level.uid = get_small(r, 1);
	p->level.landlock = get_small(r, SANDBOX_LANDLOCK_MAX);
	p->level.seccomp = get_small(r, 1);
	p->level.net0 = get_small(r, 1);
	p->net = (enum sandbox_net)get_small(r, SANDBOX_NET_ANY);
	p->udp = get_small(r, 1);
	p->program = get_path(r, false);
	p->cwd = get_path(r, true);
	p->scratch = get_path(r, true);
	p->bwrap = get_path(r, true);
	p->level.ns = p->bwrap != NULL;
	p->cgroup = get_path(r, true);
	p->level.cgroup = p->cgroup != NULL;
	p->sha256 = get_text(r);
	if (p->sha256 && p->sha256[0] == '\0')
		p->sha256 = NULL;
	if (p->sha256 && !sandbox_sha256_valid(p->sha256))
		r->failed = true;
	p->argv = get_list(r, b->argv, SANDBOX_ARGS_MAX, false);
	p->env = get_list(r, b->env, SANDBOX_ENV_MAX, false);
	p->read = get_list(r, b->read, SANDBOX_PATHS_MAX, true);
	p->write = get_list(r, b->write, SANDBOX_PATHS_MAX, true);
	p->files = get_list(r, b->files, SANDBOX_PATHS_MAX, true);
	p->hide = get_list(r, b->hide, SANDBOX_HIDE_MAX, true);
	p->connect_ports = get_ports(r, b->connect_ports, &p->nconnect);
	p->bind_ports = get_ports(r, b->bind_ports, &p->nbind);
	if (r->p != r->end || !p->argv[0] || !net_agrees(p))
		r->failed = true;
}

int sandbox_policy_decode(const void *p, size_t len, struct sandbox_policy **ret, struct err *err)
{
	size_t rest = 0;

	if (len < SANDBOX_HEAD_SIZE)
		return err_set(err, ERR_INVALID, "head", "instructions are cut short");
	int rc = sandbox_policy_head(p, &rest, err);
	if (rc)
		return rc;
	if (rest != len - SANDBOX_HEAD_SIZE)
		return err_set(err, ERR_INVALID, "head", "length does not match the instructions");

	struct block *b = mem_zalloc(sizeof(*b) + rest);
	memcpy(b->bytes, (const char *)p + SANDBOX_HEAD_SIZE, rest);
	struct reader r = { b->bytes, b->bytes + rest, false };
	read_policy(b, &r);
	if (r.failed) {
		free(b);
		return err_set(err, ERR_INVALID, "body", "malformed instructions");
	}
	*ret = &b->policy;
	return 0;
}

uint64_t sandbox_processes(const struct sandbox_policy *p)
{
	return p->processes && p->bwrap ? p->processes + BWRAP_PROCESSES : p->processes;
}
