#ifndef JSON_REPLY_H
#define JSON_REPLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Where of an error behind an answer that has rows: it was made without files that are not here. */
#define REPLY_ABSENT "archives"

/* Rows as lines of JSON, {"row":{...}}: what a command says, as text, so that no tree crosses a thread. */

struct reply {
	struct str text;
	bool any;                       /* the open row has a member already */
	size_t rows;
};
bool reply_full(const struct reply *o);         /* nothing more is taken: the command will be refused; stop */
void reply_row_begin(struct reply *o);
void reply_row_end(struct reply *o);
void reply_text(struct reply *o, const char *name, const char *value);      /* NULL: null */
void reply_int(struct reply *o, const char *name, int64_t value);
void reply_bool(struct reply *o, const char *name, bool value);
void reply_time(struct reply *o, const char *name, uint64_t wall_us);       /* 0: null */
void reply_rate(struct reply *o, const char *name, struct text_rate rate);  /* count 0: null */
void reply_json(struct reply *o, const char *name, const json_t *value);
void reply_raw(struct reply *o, const char *name, const char *json, size_t len);
void reply_ms(struct reply *o, const char *name, uint64_t us);                /* milliseconds, one decimal */
void reply_hex(struct reply *o, const char *name, const void *p, size_t n);

/* The last line of a command that failed: {"error":{...}}. */
struct err;
void reply_error(struct str *out, const struct err *err);

#endif
