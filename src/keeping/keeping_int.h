#ifndef KEEPING_INT_H
#define KEEPING_INT_H

#include <stdatomic.h>

#include "people/people.h"

/* The life of records. */

/* Of an after(): the answer waits until what the body intended is done, in this log, or says why it cannot be. */
void jobs_after(struct command_call *c, int64_t log);
/* Set when what runs on a lane has to end; until jobs_unref(). */
const atomic_bool *jobs_ref(struct jobs *jobs);
void jobs_unref(struct jobs *jobs);
/* ERR_DENIED with the hold that covers some of the records from <= idx < to, anything of a principal, anything of a
 * log. */
int held_range(struct db *db, int64_t log, int64_t from, int64_t to, const char *what, struct err *err) MUST_CHECK;
int held_subject(struct db *db, int64_t log, const char *prn, const char *what, struct err *err) MUST_CHECK;
int held_any(struct db *db, int64_t log, const char *what, struct err *err) MUST_CHECK;

/* At a start: what a crash has left of a drill has what may have been erased since (AUDIT A-509). */
void drill_clean(const char *store);

/* Files of a backup.  name: in the store; own: it may be moved there. */
struct file { char *from, *name; uint64_t bytes; unsigned mode; bool own; };
struct files { struct file *v; size_t n; uint64_t bytes; };
/* What a start would look for: in `from`, a directory or the copy of the store alone, and key files also in `keys`
 * (NULL: nowhere).  from NULL: key files alone.  ERR_UNREACHABLE: there is no toolcrib.db; ERR_CONFLICT: it is one in
 * use. */
int files_gather(const char *from, const char *keys, struct files *ret, struct err *err) MUST_CHECK;
bool files_have(const struct files *files, const char *name);
void files_fini(struct files *files);

/* Of a directory that toolcrib-ship wrote: a new one beside `to` with a store, and what it is of, for people; free()
 * both.  *ret_dir stays NULL of any other; it is the caller's to remove also when ERR_CORRUPT says what is damaged. */
struct shipped_ask { const char *from, *to, *identity, *until; };       /* the last two may be NULL */
int shipped_unpack(const struct shipped_ask *ask, char **ret_dir, struct str *said, struct err *err) MUST_CHECK;
/* What that would come to: 1, and its bytes; 0, and nothing: it is no such directory. */
int shipped_look(const struct shipped_ask *ask, uint64_t *ret_bytes, struct str *said, struct err *err) MUST_CHECK;

/* What came of restore --test, for audit restore-test elsewhere (OP-515).  size, last_us: of the copy's system log,
 * how many records, and the time of the last one.  copy: what was tested, for people. */
struct tested {
	const char *instance, *state, *copy;
	uint64_t size, last_us, tested_us, records, logs, missing, bad, gaps;
};
int tested_write(const char *file, const struct tested *t, struct err *err) MUST_CHECK;

#endif
