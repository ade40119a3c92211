#ifndef TASK_INT_H
#define TASK_INT_H

#include <pthread.h>
#include <string.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "task/task.h"

/* Inside of src/task: what crosses to the writer's thread, as plain bytes, and what is done there; and the index. */

struct db;
struct ev_timer;
struct str;

enum { TASK_PRN_MAX = 128, TASK_TEXT_MAX = AUDIT_TEXT_MAX + 1 };

/* What is sealed, and more rows of the same item, stand behind what follows, one after the other. */
struct task_more {
	const struct writer_rows *also;         /* NULL: no rows */
	size_t nbytes, len;                     /* of what is for them; of what is sealed */
};

struct task_add {                       /* of TASK_ROWS_ADD */
	char id[TASK_ID_LEN + 1], prn[TASK_PRN_MAX], cred[TASK_PRN_MAX], tool[TASK_TEXT_MAX], name[TASK_TEXT_MAX];
	char note[TASK_NOTE_MAX + 1];
	uint8_t tdef[32], call[16];
	int64_t tenant_id, principal_id;
	uint64_t created_us, ends_us;
	uint32_t poll_ms;
	enum task_state state;
	bool rerun;
	struct task_more more;
};

struct task_set {                       /* of TASK_ROWS_MOVE */
	char id[TASK_ID_LEN + 1], prn[TASK_PRN_MAX], note[TASK_NOTE_MAX + 1];
	int64_t tenant_id;
	enum task_state state;
	unsigned round;
	uint64_t updated_us;
	uint8_t call[16];
	bool has_call, has_body;
	struct task_more more;
};

struct task_finish {                    /* of TASK_ROWS_END; the text stands behind it */
	char id[TASK_ID_LEN + 1], prn[TASK_PRN_MAX], note[TASK_NOTE_MAX + 1];
	int64_t tenant_id;
	enum task_state state;
	uint64_t updated_us, ends_us;
	size_t len;
	char text[];
};

enum { TASK_ROWS_ADD, TASK_ROWS_MOVE, TASK_ROWS_END };
extern const struct writer_rows task_rows[];

/* Who waits until a change of a task has come: first come, first called. */
struct task_waiter { struct list link; char id[TASK_ID_LEN + 1]; void (*fn)(void *arg); void *arg; };
struct task_waiters { struct list all; size_t n; };

static inline struct task_waiter *task_waiter_of(const struct task_waiters *w, const char *id)
{
	LIST_FOREACH(link, &w->all) {
		struct task_waiter *one = CONTAINER_OF(link, struct task_waiter, link);

		if (strcmp(one->id, id) == 0)
			return one;
	}
	return NULL;
}

/* One batch of those whose time is over at now_us. */
struct task_expiry {
	uint64_t now_us;
	size_t n;
	char id[TASKS_EXPIRE_BATCH][TASK_ID_LEN + 1];
};
int task_expire(struct task_expiry *x, struct db *db, struct audit_logs *logs, struct err *err) MUST_CHECK;

/* All of them by their ids: open addressing, and the key of each is in the entry, since a map's pairs would take as
 * much memory again as the entries. */
struct task_table {
	struct task **slot;
	size_t cap, n, dirty;           /* dirty: slots that are not NULL */
};
/* Walk: for (size_t it = 0; (t = task_table_next(all, &it)) != NULL; ).  The one just returned may be deleted. */
struct task *task_table_next(const struct task_table *all, size_t *it);

/* Connections that nobody uses now: one for each thread that reads (EV_LANE_THREADS), which the lock is for. */
enum { TASK_READERS_MAX = 2 };
struct task_reader;
struct task_readers { pthread_mutex_t lock; struct task_reader *idle[TASK_READERS_MAX]; size_t n; };

struct tasks {
	struct task_env env;
	struct task_table all;
	struct map *kin;                /* struct task_kin by its texts */
	struct map *owners;             /* struct task_owner: of tenants, principal 0, and of principals */
	struct list jobs;               /* tasks.c: what has not come back */
	struct list queue;              /* struct task.queued */
	size_t queued;
	struct task_waiters waiters;
	struct ev_timer *expiry;
	struct task_readers readers;
	struct task_expiry *expiring;   /* the writer has it; NULL: nobody expires */
	int64_t offset_us;              /* wall clock above the monotonic one, as it was seen last */
	bool closed;
	task_changed_fn *changed; void *changed_arg;    /* NULL: nobody wants to hear of it */
};

struct task_owner { size_t open; uint64_t bytes; };
struct task_owner *task_owner(struct tasks *tasks, int64_t tenant_id, int64_t principal_id);   /* principal 0: all */
/* kin: only the texts and the principal count; cred NULL or "": none.  drop frees it, and wakes who waits for it. */
struct task *task_entry_new(struct tasks *tasks, const struct task_kin *kin) MUST_CHECK;
void task_entry_free(struct tasks *tasks, struct task *t);     /* one that was not added, or goes with all */
void task_entry_add(struct tasks *tasks, struct task *t);
void task_entry_drop(struct tasks *tasks, struct task *t);
void task_recount(struct tasks *tasks, struct task *t, enum task_state state, uint64_t bytes);

/* A reader's thread: what is sealed in a row, the answer or the body, into *ret, which was empty.  1: there is
 * something, 0: nothing.  ERR_NOT_FOUND: it cannot be opened any more. */
int task_unseal(struct task_readers *readers, const struct keyfile_place *place, const char *id, int64_t tenant_id,
		bool body, struct str *ret, struct err *err) MUST_CHECK;
void task_readers_fini(struct task_readers *readers);

#endif
