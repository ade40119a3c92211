/* struct run_policy <-> bytes.  All integers little-endian:
 *
 *   head    "tcr1", u32 length of what follows
 *   limits  u64 cpu_s, memory_bytes, file_bytes, open_files, parent_pid
 *   texts   program, cwd: each u32 length, the bytes, one NUL (counted); cwd "" = NULL
 *   lists   argv, env: each u32 count, then that many texts
 *
 * Whatever is not exactly this is refused: the launcher must not guess. */
#include "config.h"

#include "run/policy.h"

#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static const char magic[4] = { 't', 'c', 'r', '1' };

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
	put_u32(out, n > RUN_POLICY_MAX ? RUN_POLICY_MAX + 1 : (uint32_t)n);
	str_put(out, z, n);
}

static size_t count_list(const char *const *list, size_t max)
{
	size_t n = 0;
	while (n <= max && list && list[n])
		n++;
	return n;
}

static void put_list(struct str *out, const char *const *list, size_t n)
{
	put_u32(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		put_text(out, list[i]);
}

int run_policy_encode(const struct run_policy *p, struct str *out, struct err *err)
{
	size_t nargs = count_list(p->argv, RUN_ARGS_MAX), nenv = count_list(p->env, RUN_ENV_MAX);
	if (!p->program || p->program[0] != '/')
		return err_set(err, ERR_INVALID, "program", "a program is given by its absolute path");
	if (p->cwd && p->cwd[0] != '/')
		return err_set(err, ERR_INVALID, "cwd", "a working directory is an absolute path");
	if (nargs == 0)
		return err_set(err, ERR_INVALID, "argv", "argv is empty");
	if (nargs > RUN_ARGS_MAX)
		return err_set(err, ERR_LIMIT, "argv", "more than %d arguments", RUN_ARGS_MAX);
	if (nenv > RUN_ENV_MAX)
		return err_set(err, ERR_LIMIT, "env", "more than %d environment variables", RUN_ENV_MAX);

	struct str body;
	str_init(&body, RUN_POLICY_MAX - RUN_HEAD_SIZE);
	put_u64(&body, p->cpu_s);
	put_u64(&body, p->memory_bytes);
	put_u64(&body, p->file_bytes);
	put_u64(&body, p->open_files);
	put_u64(&body, (uint64_t)p->parent_pid);
	put_text(&body, p->program);
	put_text(&body, p->cwd ? p->cwd : "");
	put_list(&body, p->argv, nargs);
	put_list(&body, p->env, nenv);
	int rc = 0;
	if (body.failed) {
		rc = err_set(err, ERR_LIMIT, "argv", "arguments and environment are over %u bytes",
			     RUN_POLICY_MAX);
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

static void get_list(struct reader *r, const char **list, size_t max)
{
	uint32_t n = get_u32(r);
	if (n > max)
		r->failed = true;
	for (uint32_t i = 0; i < n && !r->failed; i++)
		list[i] = get_text(r);
}

int run_policy_head(const void *head, size_t *ret_len, struct err *err)
{
	struct reader r = { head, (const unsigned char *)head + RUN_HEAD_SIZE, false };
	if (memcmp(get(&r, sizeof(magic)), magic, sizeof(magic)) != 0)
		return err_set(err, ERR_INVALID, "head", "instructions of another version");
	uint32_t len = get_u32(&r);
	if (len > RUN_POLICY_MAX - RUN_HEAD_SIZE)
		return err_set(err, ERR_LIMIT, "head", "instructions over %u bytes", RUN_POLICY_MAX);
	*ret_len = len;
	return 0;
}

/* What run_policy_decode() hands out: the policy, its lists and the bytes they point into. */
struct block {
	struct run_policy policy;
	const char *argv[RUN_ARGS_MAX + 1];
	const char *env[RUN_ENV_MAX + 1];
	unsigned char bytes[];
};

static void read_policy(struct block *b, struct reader *r)
{
	struct run_policy *p = &b->policy;
	p->cpu_s = get_u64(r);
	p->memory_bytes = get_u64(r);
	p->file_bytes = get_u64(r);
	p->open_files = get_u64(r);
	p->parent_pid = (int64_t)get_u64(r);
	p->program = get_text(r);
	p->cwd = get_text(r);
	get_list(r, b->argv, RUN_ARGS_MAX);
	get_list(r, b->env, RUN_ENV_MAX);
	p->argv = b->argv;
	p->env = b->env;
	if (!r->failed && p->cwd[0] == '\0')
		p->cwd = NULL;
	if (r->p != r->end)
		r->failed = true;
}

int run_policy_decode(const void *p, size_t len, struct run_policy **ret, struct err *err)
{
	size_t rest = 0;
	if (len < RUN_HEAD_SIZE)
		return err_set(err, ERR_INVALID, "head", "instructions are cut short");
	int rc = run_policy_head(p, &rest, err);
	if (rc)
		return rc;
	if (rest != len - RUN_HEAD_SIZE)
		return err_set(err, ERR_INVALID, "head", "length does not match the instructions");

	struct block *b = mem_zalloc(sizeof(*b) + rest);
	memcpy(b->bytes, (const char *)p + RUN_HEAD_SIZE, rest);
	struct reader r = { b->bytes, b->bytes + rest, false };
	read_policy(b, &r);
	const struct run_policy *got = &b->policy;
	if (r.failed || got->program[0] != '/' || (got->cwd && got->cwd[0] != '/') || !got->argv[0]) {
		free(b);
		return err_set(err, ERR_INVALID, "body", "malformed instructions");
	}
	*ret = &b->policy;
	return 0;
}
