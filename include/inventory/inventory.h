#ifndef INVENTORY_INVENTORY_H
#define INVENTORY_INVENTORY_H

#include "command/command.h"

/* The inventory: who answers for tenants, principals, tools and upstreams, what they are for, how risky they are, and
 * when somebody looks at them again (OP-1001 to OP-1003).  Rows that records vouch for (kind 12).
 * AI systems (kind 13) are what principals are: records of calls name them (OP-1004). */

#define INVENTORY_TEXT_MAX 500          /* bytes of a text */
#define INVENTORY_SYSTEMS_MAX 10000     /* AI systems of a tenant */
#define INVENTORY_DAYS_MAX 3650         /* between two reviews */

/* Its tables of commands, for app/commands.c. */
extern const struct command inventory_commands[], inventory_review_commands[], system_commands[];

#endif
