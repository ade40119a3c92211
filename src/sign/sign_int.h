#ifndef SIGN_SIGN_INT_H
#define SIGN_SIGN_INT_H

#include <stdint.h>

#include "base/err.h"
#include "sign/proto.h"

/* Inside of src/sign: the signer itself, apart from how it is spoken to. */

struct note_key;
struct signer;

/* Takes the directory for this process, reads what is in it.  A directory without a state is a signer without keys. */
int signer_open(const char *dir, struct signer **ret, struct err *err) MUST_CHECK;
void signer_close(struct signer **s);
/* Every request has a reply; one that cannot be obeyed gets SIGN_ERROR.  Negative: the state could not be written, and
 * nothing must be signed any more (the reply says so as well). */
int signer_answer(struct signer *s, const struct sign_msg *req, struct sign_msg *reply, struct err *err) MUST_CHECK;
/* The keys to pin: of the system log, of the epoch in force.  ERR_NOT_FOUND: there are none yet. */
int signer_keys(const struct signer *s, struct note_key *ret_log, struct note_key *ret_epoch,
		struct err *err) MUST_CHECK;

#endif
