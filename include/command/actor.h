#ifndef COMMAND_ACTOR_H
#define COMMAND_ACTOR_H

#include "command/command.h"

#define ADM_WHO_SIZE 40                 /* "key " and the longest name */

/* "uid 1000", "key NAME" or "system". */
const char *adm_who_text(const struct adm_who *who, char ret[ADM_WHO_SIZE]);
/* The role that a key has by its hash, or NULL. */
const struct conf_role *adm_role_of_key(const struct admin *a, const char *hash);
/* Is it root, or the owner while nobody is named, or is there any role for it? */
bool adm_is_somebody(const struct admin *a, const struct adm_who *who);

#endif
