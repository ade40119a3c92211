#ifndef INVENTORY_INVENTORY_H
#define INVENTORY_INVENTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "command/command.h"

struct audit_logs;
struct command_call;
struct db;

/* The inventory: who answers for tenants, principals, tools and upstreams, what they are for, how risky they are, and
 * when somebody looks at them again (OP-1001 to OP-1003).  Rows that records vouch for (kind 12).
 * AI systems (kind 13) are what principals are: records of calls name them (OP-1004). */

#define INVENTORY_TEXT_MAX 500          /* bytes of a text */
#define INVENTORY_SYSTEMS_MAX 10000     /* AI systems of a tenant */
#define INVENTORY_DAYS_MAX 3650         /* between two reviews */

/* What is said of a subject, and of a system, as documents say it: all of it, or NULL.  Texts are in these orders. */
enum { INVENTORY_TEXTS = 6, INVENTORY_SYSTEM_TEXTS = 4 };
extern const char *const inventory_texts[INVENTORY_TEXTS];     /* "owner", "contact", … */
extern const char *const inventory_system_texts[INVENTORY_SYSTEM_TEXTS];       /* "provider", "model", … */
struct inventory_said { char *text[INVENTORY_TEXTS]; int64_t days; };   /* days: between two reviews, 0 = none */
struct inventory_system { char *text[INVENTORY_SYSTEM_TEXTS]; };
void inventory_said_fini(struct inventory_said *s);
void inventory_system_fini(struct inventory_system *s);
/* subject: as people write it.  ERR_INVALID, ERR_LIMIT; where is the member. */
int inventory_said_check(const char *subject, const struct inventory_said *s, struct err *err) MUST_CHECK;
int inventory_system_check(const struct inventory_system *s, struct err *err) MUST_CHECK;
/* Writer thread: this is what is said from now on, on record.  1: it was not so before; 0: nothing was changed.  What
 * is in *ret_before is the caller's.  tool: one that is prohibited by it, and was disabled; tenant: whose principals
 * are to be looked at again; 0: none.  ERR_NOT_FOUND: the subject, or the tenant of the system, is not there. */
struct inventory_before { bool there; int64_t tool, tenant; };
int inventory_store(struct command_call *c, struct db *db, struct audit_logs *logs, const char *subject,
		    const struct inventory_said *now, struct inventory_said *ret_said, struct inventory_before *ret,
		    struct err *err) MUST_CHECK;
int inventory_store_system(struct command_call *c, struct db *db, struct audit_logs *logs, const char *name,
			   const struct inventory_system *now, struct inventory_system *ret_said,
			   struct inventory_before *ret, struct err *err) MUST_CHECK;
/* All that is said, and all systems ("TENANT/NAME"), of one tenant or of all (0); ends at an error of fn(). */
typedef int inventory_fn(void *arg, const char *subject, const struct inventory_said *s, struct err *err);
typedef int inventory_system_fn(void *arg, const char *name, const struct inventory_system *s, struct err *err);
int inventory_each(struct db *db, int64_t tenant_id, inventory_fn *fn, void *arg, struct err *err) MUST_CHECK;
int inventory_each_system(struct db *db, int64_t tenant_id, inventory_system_fn *fn, void *arg,
			  struct err *err) MUST_CHECK;

/* Its tables of commands, for app/commands.c. */
extern const struct command inventory_commands[], inventory_review_commands[], system_commands[];

#endif
