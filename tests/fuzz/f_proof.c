/* Fuzz target: proofs of inclusion as text.  What is taken is written again as the same bytes, and nothing is proved by a
 * key that signed nothing. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "tlog/proof.h"

FUZZ_TARGET(proof)
{
	struct str again = STR_INIT;
	struct checkpoint cp;
	struct note_key key = { .name = "log" };
	struct proof p;
	struct err err;

	if (proof_parse((const char *)data, size, &p, &err) < 0) {
		FUZZ_CHECK(!p.record);
		return 0;
	}
	FUZZ_CHECK(p.n <= TREE_PROOF_MAX && p.record_len <= PROOF_EXTRA_MAX && p.note_len < size);
	proof_print(&p, &again);
	FUZZ_CHECK(again.len == size && memcmp(again.p, data, size) == 0);
	FUZZ_CHECK(proof_check(&p, &key, &cp, &err) < 0);
	str_fini(&again);
	proof_fini(&p);
	return 0;
}
