/* Fuzz target: what a verifier says to the server that has started it, and leaves in a file, and what it is asked.  What is
 * taken says the same when it is written and read again, and has no character that acts on a terminal. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "auditor/told.h"

static void check_text(const char *text)
{
	for (; *text; text++)
		FUZZ_CHECK((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check_told(const char *p, size_t len)
{
	static struct told t, again;
	struct str text = STR_INIT;

	if (told_read(p, len, &t, NULL) == 0) {
		FUZZ_CHECK(t.ended && t.nfound <= TOLD_FOUND_MAX);
		for (size_t i = 0; i < t.nfound; i++) {
			check_text(t.found[i].log);
			check_text(t.found[i].detail);
		}
		check_text(t.message);
		told_write(&t, &text);
		FUZZ_CHECK(told_read(text.p, text.len, &again, NULL) == 0);
		FUZZ_CHECK(again.nfound == t.nfound && strcmp(told_result(&again), told_result(&t)) == 0);
	}
	str_fini(&text);
}

FUZZ_TARGET(told)
{
	struct verifier_ask ask = { .store = NULL };

	check_told((const char *)data, size);
	if (verifier_ask_parse((const char *)data, size, &ask, NULL) == 0) {
		FUZZ_CHECK(ask.store && ask.folder);
		verifier_ask_fini(&ask);
	}
	return 0;
}
