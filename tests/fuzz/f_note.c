/* Fuzz target: signed notes, the checkpoint in one, and keys as text.  What is taken is whole lines of valid text, and
 * written again it is the same bytes. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "tlog/note.h"

static void check_signature(const struct note *n, const struct note_sig *sig)
{
	struct note_key key = { 0 };

	FUZZ_CHECK(sig->name_len > 0 && sig->name_len <= NOTE_NAME_MAX && !memchr(sig->name, '+', sig->name_len));
	memcpy(key.name, sig->name, sig->name_len);
	memcpy(key.id, sig->id, NOTE_KEY_ID);
	/* By a key of all zeros nothing was signed, but the line is found. */
	FUZZ_CHECK(note_check(n, &key) == ERR_INVALID);
	key.id[0] ^= 1;
	for (size_t i = 0; i < n->nsig; i++)
		if (memcmp(n->sig[i].id, key.id, NOTE_KEY_ID) == 0)
			return;
	FUZZ_CHECK(note_check(n, &key) == 0);
}

static void check_checkpoint(const char *text, size_t len)
{
	struct checkpoint cp;
	struct str again = STR_INIT;

	if (checkpoint_parse(text, len, &cp) < 0)
		return;
	FUZZ_CHECK(cp.size <= INT64_MAX);
	checkpoint_print(&cp, &again);
	FUZZ_CHECK(text_eq(text, len, str_text(&again)));
	str_fini(&again);
}

FUZZ_TARGET(note)
{
	const char *text = (const char *)data;
	struct str again = STR_INIT;
	struct note_key key;
	struct note n;

	if (note_parse(text, size, &n) == 0) {
		FUZZ_CHECK(n.text == text && n.text_len < size && n.text[n.text_len - 1] == '\n' && n.nsig > 0);
		for (size_t i = 0; i < n.nsig; i++)
			check_signature(&n, &n.sig[i]);
		check_checkpoint(n.text, n.text_len);
	}
	check_checkpoint(text, size);
	if (note_key_parse(text, size, &key) == 0) {
		note_key_print(&key, &again);
		FUZZ_CHECK(text_eq(text, size, str_text(&again)));
		str_fini(&again);
	}
	return 0;
}
