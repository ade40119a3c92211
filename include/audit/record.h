#ifndef AUDIT_RECORD_H
#define AUDIT_RECORD_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct db;

/* The bytes that are hashed, made anew from the columns, and the leaf that they give.  Positions from <= idx < to;
 * origin is borrowed.  1 = a record, 0 = the end; its bytes stay until the next. */
struct audit_record { int64_t idx; int enc; const uint8_t *bytes; size_t len; uint8_t leaf[32]; };
struct audit_walk;
struct audit_walk *audit_walk_new(struct db *db, int64_t log, const char *origin, int64_t from, int64_t to);
int audit_walk_next(struct audit_walk *w, struct audit_record *ret, struct err *err) MUST_CHECK;
void audit_walk_free(struct audit_walk **w);

#endif
