#ifndef DB_OWNER_H
#define DB_OWNER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* One process owns a store: an open-file-description lock on <store>/toolcrib.lock, whose text is the
 * owner's card (AUDIT A-602).  Taken before SQLite opens anything, held for life. */

struct db_owner;
struct db_card {
	int64_t pid;
	char command_socket[108], mcp_sock[108];  /* "" = a command at work: no sockets, it ends soon */
};

/* store: the directory.  0: it is ours now.  1: somebody else's, and *ret_card tells how to reach the
 * owner.  ERR_UNREACHABLE: no such store or no right (hint: toolcrib init); ERR_DENIED: we are root and
 * the store's files belong to another user (trap 20: run as that user). */
int db_owner_take(const char *store, struct db_owner **ret, struct db_card *ret_card, struct err *err) MUST_CHECK;
/* The same without taking it: 1 and the card of whoever owns it, 0: nobody does. */
int db_owner_look(const char *store, struct db_card *ret_card, struct err *err) MUST_CHECK;
int db_owner_show(struct db_owner *o, const struct db_card *card, struct err *err) MUST_CHECK;
void db_owner_drop(struct db_owner **o);              /* last thing before exit */

#define DB_FILE "toolcrib.db"
#define DB_KEYS "keys.db"
#define DB_MASTER_KEY "master.key"
#define DB_LOCK "toolcrib.lock"

#endif
