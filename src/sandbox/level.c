/* The level of confinement: its text, its order, and what this kernel offers. */
#include "config.h"

#include "sandbox/level.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#include "sandbox_int.h"

const char *sandbox_level_format(const struct sandbox_level *level, char ret[SANDBOX_LEVEL_TEXT])
{
	char landlock[24] = "";

	if (level->landlock)
		snprintf(landlock, sizeof(landlock), "+landlock:%u", level->landlock);
	snprintf(ret, SANDBOX_LEVEL_TEXT, "base%s%s%s%s%s", landlock, level->seccomp ? "+seccomp" : "",
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
			       "a level is base, then any of +landlock:N +seccomp +net0 +ns +cgroup in this order, is \"%.60s\"",
			       text);
	*ret = level;
	return 0;
}

bool sandbox_level_meets(const struct sandbox_level *reached, const struct sandbox_level *wanted)
{
	return reached->landlock >= wanted->landlock && reached->seccomp >= wanted->seccomp &&
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
