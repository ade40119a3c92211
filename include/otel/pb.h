#ifndef OTEL_PB_H
#define OTEL_PB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"

/* Protocol Buffers as bytes, for OTLP (protobuf.dev, "Encoding"): written in the one form that is shortest, read
 * strictly.  Pure; any thread.  A string with a limit that is reached fails (base/text.h), and so does what is written
 * into it: whoever writes looks once, at the end. */

enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_LEN = 2, PB_FIXED32 = 5 };
#define PB_FIELD_MAX ((1u << 29) - 1)

/* --- writing: fields in the order of the calls; what has its default value is left out by who calls */

/* uint32, uint64, bool, enum; int64 as its complement of two */
void pb_uint(struct str *out, unsigned field, uint64_t v);
void pb_fixed64(struct str *out, unsigned field, uint64_t v);   /* fixed64, sfixed64 */
void pb_fixed32(struct str *out, unsigned field, uint32_t v);
void pb_bytes(struct str *out, unsigned field, const void *p, size_t len);      /* bytes; string: p is UTF-8 */
void pb_text(struct str *out, unsigned field, const char *text);
/* A message within it: what is written up to pb_close() with the mark that this returns is its content.  Nested ones
 * are closed before those around them. */
size_t pb_open(struct str *out, unsigned field);
void pb_close(struct str *out, size_t mark);

/* --- reading */

struct pb_field {
	unsigned number;
	enum pb_wire wire;
	uint64_t value;                 /* but with PB_LEN */
	const uint8_t *p; size_t len;   /* with PB_LEN: of the input */
};
/* The next field of a message, whose rest is [*p, end).  1; 0: there is none; ERR_INVALID: it is cut off, a group, of
 * number 0, or a number in it is longer than it need be. */
int pb_next(const uint8_t **p, const uint8_t *end, struct pb_field *ret) MUST_CHECK;

#endif
