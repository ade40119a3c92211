/* Fuzz target: what the owner of a store and its signer read from each other, and the signer's state file.  What is taken
 * is the same bytes when it is written again, so nothing is read that a writer does not write. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "sign/proto.h"
#include "tlog/signer.h"

static void check_state(const char *text, size_t len)
{
	struct signer_state s, again;
	struct str printed = STR_INIT;

	signer_state_init(&s);
	if (signer_state_parse(&s, text, len, NULL) == 0) {
		signer_state_print(&s, &printed);
		signer_state_init(&again);
		/* The hexadecimal digits may come in capitals, so the length has to do. */
		FUZZ_CHECK(printed.len == len && signer_state_parse(&again, printed.p, len, NULL) == 0);
		FUZZ_CHECK(again.nlogs == s.nlogs && again.epoch == s.epoch);
		signer_state_fini(&again);
	}
	str_fini(&printed);
	signer_state_fini(&s);
}

FUZZ_TARGET(sign)
{
	struct sign_msg m = { 0 };
	struct str again = STR_INIT;

	if (size <= SIGN_FRAME_MAX && sign_msg_decode(data, size, &m) == 0) {
		FUZZ_CHECK(m.text && m.nhead <= SIGN_HEADS_MAX && m.npair <= SIGN_HEADS_MAX);
		FUZZ_CHECK(sign_msg_encode(&m, &again) == 0);
		FUZZ_CHECK(again.len == SIGN_HEAD_SIZE + size && memcmp(again.p + SIGN_HEAD_SIZE, data, size) == 0);
		sign_msg_fini(&m);
	}
	str_fini(&again);
	check_state((const char *)data, size);
	return 0;
}
