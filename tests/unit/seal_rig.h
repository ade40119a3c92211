#ifndef TESTS_SEAL_RIG_H
#define TESTS_SEAL_RIG_H

#include "base/err.h"
#include "tlog/note.h"

/* A store with a tenant's log of calls, of which some keep values, and with signed notes: two epochs, the second one from
 * the middle on. */

enum { SEAL_LOG = 2, SEAL_NOTES = 4 };  /* the tenant's log; how many notes it has */

struct seal_rig {
	struct note_key pin;            /* of the first epoch */
	char origin[256];               /* of the log */
	int64_t noted[SEAL_NOTES];      /* sizes of its notes */
};
/* dir: where it is made, as toolcrib.db.  records: of the log, at least SEAL_NOTES times as many as it has notes.  The
 * clock is a fake one from then on. */
int seal_rig_make(const char *dir, unsigned records, struct seal_rig *ret, struct err *err) MUST_CHECK;

#endif
