#ifndef SANITIZE_INT_H
#define SANITIZE_INT_H

#include "backend/handler.h"

#define SANITIZE_META_MAX (64u << 10)       /* bytes of its _meta as JSON */
#define SANITIZE_NOTE_MAX 1024              /* bytes of a progress message or a logger's name; the rest is cut */

/* Check a result and make its texts clean, in place.  ERR_TOOL: a block is none; ERR_LIMIT. */
int sanitize_result(struct backend_result *res, struct err *err) MUST_CHECK;
/* A content block, or a part of a resource, with clean texts: itself or a copy.  New reference. */
json_t *sanitize_block(json_t *block);
/* Control characters but tab, line feed and carriage return become U+FFFD. */
bool sanitize_is_clean(const char *p, size_t len);
void sanitize_put_clean(const char *p, size_t len, struct str *out);        /* appends */
void sanitize_put_note(const char *p, size_t len, struct str *out);         /* the same, and cut */
void sanitize_err(struct err *err);                                         /* they become blanks */

#endif
