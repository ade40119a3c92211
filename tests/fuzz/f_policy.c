/* Fuzz target: the launcher's instructions.  What is decoded encodes to the same bytes. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "fuzz.h"
#include "run/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run_policy *p = NULL;
	struct str again = STR_INIT;

	if (run_policy_decode(data, size, &p, NULL))
		return 0;
	FUZZ_CHECK(run_policy_encode(p, &again, NULL) == 0);
	FUZZ_CHECK(again.len == size && memcmp(again.p, data, size) == 0);
	str_fini(&again);
	free(p);
	return 0;
}
