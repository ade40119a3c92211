#ifndef COMMAND_ACTOR_H
#define COMMAND_ACTOR_H

#include "command/command.h"

#define ACTOR_SIZE 40                 /* "key " and the longest name */

/* "uid 1000", "key NAME" or "system". */
const char *actor_text(const struct actor *who, char ret[ACTOR_SIZE]);
/* Is this another person than the one who is `author`, as actor_text() wrote it?  0, or ERR_DENIED with a sentence:
 * AUTHOR `did`; another administrator has to `todo` it.  Two user ids or keys of one person are one administrator;
 * where any has a person, whoever has none is nobody's second (HARDENING F-15). */
int actor_check_other(const struct command_call *c, const char *author, const char *did, const char *todo,
		      struct err *err) MUST_CHECK;
/* The person that this is as an approver (HA-04), or NULL; of a server's peer alone. */
const char *actor_approver(const struct commands *a, const struct actor *who);
/* Is it root, or the owner while nobody is named, or is there any role for it? */
bool actor_is_somebody(const struct commands *a, const struct actor *who);

#endif
