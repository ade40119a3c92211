/* Fuzz target: requests to the launcher, with any number of descriptors.  What is taken is of its table and bounded. */

#include "config.h"

#include <signal.h>
#include <string.h>

#include "fuzz.h"
#include "launcher_int.h"

FUZZ_TARGET(launcher)
{
	static struct launcher_message m;
	size_t nfds = size > 0 ? data[0] % (LAUNCHER_FDS + 2) : 0;

	if (size == 0 || !launcher_request_parse(data + 1, size - 1, nfds, &m))
		return 0;
	FUZZ_CHECK(m.head.id != 0 && m.head.len <= LAUNCHER_ARGS_MAX);
	if (m.head.op == LAUNCHER_OP_START) {
		FUZZ_CHECK(m.head.row < LAUNCHER_ROWS && nfds == launcher_row_fds(m.head.row));
		FUZZ_CHECK(m.head.row == LAUNCHER_RUN ? m.head.len == 0 : m.head.number == 0);
		FUZZ_CHECK(m.head.len == 0 || m.text[m.head.len - 1] == '\0');
	} else {
		FUZZ_CHECK(m.head.op == LAUNCHER_OP_SIGNAL && (m.head.status == SIGTERM || m.head.status == SIGKILL));
	}
	return 0;
}
