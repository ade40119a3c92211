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
/* A lock is of an open file, not of a process: it goes to another one with the descriptor, and at no moment nobody
 * holds it.  Borrowed; who has passed it on leaves. */
int db_owner_fd(const struct db_owner *o);
void db_owner_leave(struct db_owner **o);
/* The other side: fd, taken, is this store's lock and holds it, and is ours now.  ERR_CONFLICT: it is not. */
int db_owner_adopt(const char *store, int fd, struct db_owner **ret, struct err *err) MUST_CHECK;

#define DB_FILE "toolcrib.db"
#define DB_KEYS "keys.db"
#define DB_MASTER_KEY "master.key"
#define DB_LOCK "toolcrib.lock"

#endif
