#ifndef SIGN_CLIENT_H
#define SIGN_CLIENT_H

#include <stdint.h>

#include "base/err.h"
#include "sign/proto.h"

/* The owner's side of the conversation.  One request at a time; the calling thread blocks until the reply or the
 * time. */

/* fd: a connected socket.  ERR_TIMEOUT, ERR_UNREACHABLE: whether the signer did it is not known; ERR_DENIED: it
 * refused (the text says why); ERR_INVALID: its reply is none.  After any of them but ERR_DENIED the connection is
 * of no use. */
int sign_call(int fd, uint64_t until_us, const struct sign_msg *req, struct sign_msg *reply,
	      struct err *err) MUST_CHECK;
/* Whether it was signed, and with `deep` whether a reply's signatures are those of its signer over this head; who from
 * SIGN_HELLO, epoch as of the reply. */
int sign_check_pair(const struct sign_who *who, const struct sign_head *head, const struct sign_pair *pair, bool deep,
		    struct err *err) MUST_CHECK;
/* The signed note of a head and its signatures, appended; free of checks. */
void sign_note(const struct sign_who *who, const struct sign_head *head, const struct sign_pair *pair, struct str *ret);
/* Connect to a signer that listens at a path.  ERR_UNREACHABLE. */
int sign_connect(const char *path, int *ret_fd, struct err *err) MUST_CHECK;

#endif
