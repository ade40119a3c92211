#ifndef TLOG_NOTE_H
#define TLOG_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/err.h"
#include "tlog/tree.h"

/* Signed notes and checkpoints as C2SP describes them (signed-note, tlog-checkpoint; AUDIT A-703).  A note is a text of
 * whole lines, an empty line, and one line "— NAME BASE64(key id, signature)" for each signature.  Pure; any thread;
 * what is parsed is hostile. */

struct str;

#define NOTE_MAX 16384                  /* bytes of a note */
#define NOTE_SIGS_MAX 16
#define NOTE_NAME_MAX 255               /* bytes of a key's name, and of an origin */
#define NOTE_SIG_MAX 4096               /* bytes of one signature; an ML-DSA-44 one has 2420 */
#define NOTE_KEY_ID 4

/* Parsed; points into the bytes it came from.  Signatures of kinds that are unknown here are kept as they are. */
struct note {
	const char *text; size_t text_len;      /* what is signed; ends with a newline */
	struct note_sig {
		const char *name; size_t name_len;
		const char *b64; size_t b64_len;        /* key id and signature */
		uint8_t id[NOTE_KEY_ID];
	} sig[NOTE_SIGS_MAX];
	size_t nsig;
};
int note_parse(const char *p, size_t len, struct note *ret) MUST_CHECK;         /* ERR_INVALID, ERR_LIMIT */

/* A key that verifies: name and Ed25519 key.  The id is the start of SHA-256(name, newline, 0x01, key). */
struct note_key {
	char name[NOTE_NAME_MAX + 1];
	uint8_t public[SIGN_PUBLIC_SIZE];
	uint8_t id[NOTE_KEY_ID];
};
int note_key_set(struct note_key *ret, const char *name, const uint8_t public[SIGN_PUBLIC_SIZE]) MUST_CHECK;
/* Its text form, "NAME+HEX ID+BASE64(0x01, key)", in which keys are pinned. */
int note_key_parse(const char *p, size_t len, struct note_key *ret) MUST_CHECK; /* ERR_INVALID */
void note_key_print(const struct note_key *key, struct str *ret);
/* 1: the note has a good signature of that key; 0: none of that name and id; ERR_INVALID: one that is wrong. */
int note_check(const struct note *n, const struct note_key *key) MUST_CHECK;

/* Append a signature line to a note whose first text_len bytes are the text; before the first one, the empty line. */
void note_add(struct str *note, size_t text_len, const struct note_key *key, const uint8_t sig[SIGN_SIZE]);

/* The text of a checkpoint: origin, size, root in base64, a line each.  Extension lines are refused: ours has none. */
struct checkpoint {
	char origin[NOTE_NAME_MAX + 1];
	uint64_t size;                  /* below 2^63 */
	uint8_t root[TREE_HASH];
};
int checkpoint_parse(const char *text, size_t len, struct checkpoint *ret) MUST_CHECK;  /* ERR_INVALID */
void checkpoint_print(const struct checkpoint *cp, struct str *ret);

#endif
