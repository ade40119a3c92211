#ifndef SIGN_PROTO_H
#define SIGN_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/err.h"
#include "tlog/note.h"
#include "tlog/tree.h"

/* What the owner of a store and toolcrib-sign say to each other (AUDIT ): requests and replies in
 * turn, each a length of 4 bytes, big-endian, and at most SIGN_FRAME_MAX bytes in one form for all.  Both sides
 * treat what they read as hostile. */

struct str;

#define SIGN_FRAME_MAX 65536
#define SIGN_HEAD_SIZE 4                /* of the length */
#define SIGN_HEADS_MAX 256              /* of one message; as many as fit into a frame */
#define SIGN_CONNECTIONS_MAX 16         /* that a signer with a socket serves; one more is closed */

enum sign_op {
	SIGN_HELLO = 1,                 /* reply: who */
	SIGN_CREATE,                    /* text: the instance; a signer that has no keys draws them.  Reply: who */
	SIGN_OPEN,                      /* heads: origins to sign from now on, of size 0 (AUDIT A-713).  Reply: nothing */
	SIGN_LOGS,                      /* number: where to begin.  Reply: heads as they are known, none at the end */
	SIGN_SIGN,                      /* heads with proofs.  Reply: a signature for each, in order; number: the epoch */
	SIGN_ROTATE,                    /* number: the epoch that ends; head: the system log's.  Reply: who, one signature */
	SIGN_ERROR,                     /* reply only.  text: why */
	SIGN_SUCCEED,                   /* heads: next names of logs (succession_name()), and where they go on: the names of
					 * before are closed then.  Reply: nothing */
	SIGN_PAST,                      /* number: an epoch that is over, or the one in force.  Reply: who, of that epoch */
	SIGN_OP_COUNT
};

struct sign_head {
	char *origin;
	uint64_t size;
	uint8_t root[TREE_HASH];
	uint8_t (*proof)[TREE_HASH]; size_t nproof;     /* that the last size grew into this one */
};
enum sign_verdict { SIGN_SIGNED, SIGN_UNKNOWN, SIGN_CONTRADICTION };
struct sign_pair {
	uint8_t verdict;
	uint8_t log[SIGN_SIZE], epoch[SIGN_SIZE];       /* over the checkpoint's text; zero unless SIGN_SIGNED */
};
struct sign_who {
	char *instance;                 /* "" = no keys yet, and the rest is zero */
	uint8_t log_key[SIGN_PUBLIC_SIZE], epoch_key[SIGN_PUBLIC_SIZE], cert[SIGN_SIZE];
	uint64_t epoch, logs;
};
struct sign_msg {
	uint8_t op;
	uint64_t number;
	char *text;                     /* or NULL = "" */
	struct sign_head *head; size_t nhead;
	struct sign_pair *pair; size_t npair;
	struct sign_who *who;           /* or NULL */
};
void sign_msg_fini(struct sign_msg *m);
/* Appends length and message.  ERR_LIMIT: more than a frame holds, and out is as it was. */
FOR_TESTS int sign_msg_encode(const struct sign_msg *m, struct str *out) MUST_CHECK;
/* The message of a frame, without the length.  ERR_INVALID. */
FOR_TESTS int sign_msg_decode(const void *p, size_t len, struct sign_msg *ret) MUST_CHECK;

/* One frame from or to a socket that blocks.  until_us: clock_mono_us() at which it is given up, 0 = never.  1 = a
 * message, 0 = the other side has ended between two; ERR_TIMEOUT, ERR_UNREACHABLE, ERR_INVALID. */
int sign_msg_read(int fd, uint64_t until_us, struct sign_msg *ret, struct err *err) MUST_CHECK;
int sign_msg_write(int fd, uint64_t until_us, const struct sign_msg *m, struct err *err) MUST_CHECK;

#endif
