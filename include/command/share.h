#ifndef COMMAND_SHARE_H
#define COMMAND_SHARE_H

#include "base/err.h"

/* A store that other nodes share, on PostgreSQL (CLUSTER 6).  Loop thread. */

struct commands;
struct conf;

/* From now on what others change is shown here. */
void commands_share(struct commands *a);
/* What a configuration says beside such a store: ERR_INVALID names its key. */
int commands_share_check(const struct conf *conf, struct err *err) MUST_CHECK;

#endif
