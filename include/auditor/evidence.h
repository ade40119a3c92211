#ifndef AUDITOR_EVIDENCE_H
#define AUDITOR_EVIDENCE_H

#include <stdbool.h>

#include "audit/finding.h"
#include "base/err.h"

/* What somebody brings to a verification, from files and words. */

struct audit_evidence;
struct evidence;
struct evidence *evidence_new(void);
void evidence_free(struct evidence **e);
/* The text of a key, or a file with one in each line (empty ones and those that begin with # aside). */
int evidence_key(struct evidence *e, const char *value, struct err *err) MUST_CHECK;
/* The file `state` of a signer, or the directory that has it. */
int evidence_signer(struct evidence *e, const char *path, struct err *err) MUST_CHECK;
/* A file with signed notes, one after the other. */
int evidence_anchor(struct evidence *e, const char *path, struct err *err) MUST_CHECK;
int evidence_anchor_age(struct evidence *e, const char *duration, struct err *err) MUST_CHECK;
/* A directory with keys.db and the key files: payloads are opened.  served: its keys may be in the database that its
 * file `database` names, which then is asked; nothing else of this process may be open. */
int evidence_payload_keys(struct evidence *e, const char *dir, bool served, struct err *err) MUST_CHECK;
const struct audit_evidence *evidence_get(struct evidence *e);          /* borrowed */

#endif
