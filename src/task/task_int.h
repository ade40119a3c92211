#ifndef TASK_INT_H
#define TASK_INT_H

#include "audit/audit.h"
#include "task/task.h"

/* Inside of src/task: what crosses to the writer's thread, as plain bytes, and what is done there. */

struct str;

enum { TASK_PRN_MAX = 128, TASK_TEXT_MAX = AUDIT_TEXT_MAX + 1 };

struct task_add {                       /* of TASK_ROWS_ADD */
	char id[TASK_ID_LEN + 1], prn[TASK_PRN_MAX], cred[TASK_PRN_MAX], tool[TASK_TEXT_MAX], name[TASK_TEXT_MAX];
	uint8_t tdef[32], call[16];
	int64_t tenant_id, principal_id;
	uint64_t created_us, ends_us;
	uint32_t poll_ms;
};

struct task_finish {                    /* of TASK_ROWS_END; the text stands behind it */
	char id[TASK_ID_LEN + 1], prn[TASK_PRN_MAX], note[TASK_NOTE_MAX + 1];
	int64_t tenant_id;
	enum task_state state;
	uint64_t updated_us, ends_us;
	size_t len;
	char text[];
};

enum { TASK_ROWS_ADD, TASK_ROWS_END };
extern const struct writer_rows task_rows[];

/* One batch of those whose time is over at now_us. */
struct task_expiry {
	uint64_t now_us;
	size_t n;
	char id[TASKS_EXPIRE_BATCH][TASK_ID_LEN + 1];
};
int task_expire(struct task_expiry *x, struct db *db, struct audit_logs *logs, struct err *err) MUST_CHECK;

/* A reader's thread: what is sealed in a row, appended to *ret.  1: there is something, 0: nothing.  ERR_NOT_FOUND: it
 * cannot be opened any more. */
int task_unseal(const struct keyfile_place *place, const char *id, int64_t tenant_id, struct str *ret,
		struct err *err) MUST_CHECK;

#endif
