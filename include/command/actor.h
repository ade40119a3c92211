#ifndef COMMAND_ACTOR_H
#define COMMAND_ACTOR_H

#include "command/command.h"

#define ACTOR_SIZE 40                 /* "key " and the longest name */

/* "uid 1000", "key NAME" or "system". */
const char *actor_text(const struct actor *who, char ret[ACTOR_SIZE]);
/* The role that a key has by its hash, or NULL. */
const struct conf_role *actor_role_of_key(const struct commands *a, const char *hash);
/* Is it root, or the owner while nobody is named, or is there any role for it? */
bool actor_is_somebody(const struct commands *a, const struct actor *who);

#endif
