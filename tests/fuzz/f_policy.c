/* Fuzz target: the launcher's instructions, and texts of levels.  What is decoded encodes to the same bytes. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "sandbox/policy.h"

static void try_level(const uint8_t *data, size_t size)
{
	char text[SANDBOX_LEVEL_TEXT] = "", again[SANDBOX_LEVEL_TEXT];
	struct sandbox_level level;

	memcpy(text, data, size < sizeof(text) ? size : sizeof(text) - 1);
	if (sandbox_level_parse(text, &level, NULL))
		return;
	FUZZ_CHECK(strcmp(sandbox_level_format(&level, again), text) == 0);
	FUZZ_CHECK(sandbox_level_meets(&level, &level));
}

FUZZ_TARGET(policy)
{
	struct sandbox_policy *p = NULL;
	struct str again = STR_INIT;

	try_level(data, size);
	if (sandbox_policy_decode(data, size, &p, NULL))
		return 0;
	FUZZ_CHECK(sandbox_policy_encode(p, &again, NULL) == 0);
	FUZZ_CHECK(again.len == size && memcmp(again.p, data, size) == 0);
	str_fini(&again);
	free(p);
	return 0;
}
