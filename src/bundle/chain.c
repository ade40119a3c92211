/* Who signed what is handed over: keys of epochs, of which each is signed by the one before, from one that the reader
 * has pinned on.  Used by read.c and segment.c; pure functions of bytes. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tlog/signer.h"

#include "bundle_int.h"

void bundle_chain_begin(struct bundle_chain *c, const char *origin, const struct audit_evidence *with)
{
	const char *slash = strstr(origin, "/t/");

	*c = (struct bundle_chain){ .with = with };
	(void)snprintf(c->instance, sizeof(c->instance), "%.*s",
		       (int)(slash ? slash - origin : (ptrdiff_t)strlen(origin)), origin);
}

void bundle_chain_fini(struct bundle_chain *c)
{
	free(c->epoch);
	c->epoch = NULL;
}

/* The key of an epoch under its name; a pinned one of that name has to be the same. */
static bool as_pinned(struct bundle_chain *c, const uint8_t public[SIGN_PUBLIC_SIZE])
{
	struct note_key key;

	if (epoch_key_set(&key, c->instance, c->n, public) < 0)
		return false;
	for (size_t i = 0; c->with && i < c->with->nkey; i++) {
		const struct note_key *pin = &c->with->key[i];

		if (strcmp(pin->name, key.name) != 0)
			continue;
		if (memcmp(pin->public, public, SIGN_PUBLIC_SIZE) != 0)
			return false;
		c->pinned = true;
	}
	return true;
}

bool bundle_chain_add(struct bundle_chain *c, const uint8_t public[SIGN_PUBLIC_SIZE], const uint8_t *cert)
{
	uint8_t text[EPOCH_CERT_TEXT];

	if ((c->n == 0) != !cert || !as_pinned(c, public))
		return false;
	if (c->n > 0) {
		epoch_cert_text(c->n, public, text);
		if (!sign_check(c->epoch[c->n - 1], text, sizeof(text), cert))
			return false;
	}
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 64;
		c->epoch = mem_realloc(c->epoch, c->cap * sizeof(*c->epoch));
	}
	memcpy(c->epoch[c->n++], public, SIGN_PUBLIC_SIZE);
	return true;
}

bool bundle_chain_signed(const struct bundle_chain *c, const struct note *note, int64_t epoch)
{
	struct note_key key;

	return epoch >= 0 && (uint64_t)epoch < c->n &&
	       epoch_key_set(&key, c->instance, (uint64_t)epoch, c->epoch[epoch]) == 0 && note_check(note, &key) == 1;
}
