/* Fuzz target: what the server and a worker read from each other.  What is taken is the same bytes when it is written
 * again, so nothing is read that a writer does not write. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "worker/proto.h"

FUZZ_TARGET(worker)
{
	struct worker_msg m;
	struct str again = STR_INIT;

	if (worker_msg_decode(data, size, &m) == 0) {
		FUZZ_CHECK(m.op > 0 && m.op < WORKER_OP_COUNT && strlen(m.name) < sizeof(m.name));
		FUZZ_CHECK(m.len <= size && (m.len == 0 || (m.p >= (const char *)data && m.p + m.len == (const char *)data + size)));
		FUZZ_CHECK((m.op == WORKER_FAILED) == (m.err.code != 0));
		worker_msg_encode(&m, &again);
		FUZZ_CHECK(again.len == WORKER_HEAD_SIZE + size && worker_msg_length(again.p) == size);
		FUZZ_CHECK(memcmp(again.p + WORKER_HEAD_SIZE, data, size) == 0);
	}
	str_fini(&again);
	return 0;
}
