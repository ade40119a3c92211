/* Fuzz target: a collector's answer (OP-406).  Fields lie within their message and, written again, are the bytes that
 * they were read from; what an answer says is no more than a text that can be shown and a number. */

#include "config.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "fuzz.h"
#include "otel/otlp.h"
#include "otel/pb.h"

static void write_again(const struct pb_field *f, struct str *out)
{
	switch (f->wire) {
	case PB_VARINT:
		pb_uint(out, f->number, f->value);
		return;
	case PB_FIXED64:
		pb_fixed64(out, f->number, f->value);
		return;
	case PB_FIXED32:
		pb_fixed32(out, f->number, (uint32_t)f->value);
		return;
	case PB_LEN:
		pb_bytes(out, f->number, f->p, f->len);
		return;
	}
	FUZZ_CHECK(!"a wire type that there is");
}

FUZZ_TARGET(otlp)
{
	uint8_t *exact = mem_alloc(size ? size : 1);    /* with no byte behind it */
	const uint8_t *p = exact, *const end = exact + size;
	struct str again = STR_INIT;
	uint64_t rejected = UINT64_MAX;
	struct pb_field f;
	char why[64];
	int rc;

	if (size)
		memcpy(exact, data, size);
	while ((rc = pb_next(&p, end, &f)) == 1) {
		FUZZ_CHECK(f.wire != PB_LEN || (f.p >= exact && f.len <= (size_t)(end - f.p)));
		write_again(&f, &again);
	}
	FUZZ_CHECK(rc == 0 ? p == end : rc == ERR_INVALID);
	FUZZ_CHECK(again.len == (size_t)(p - exact) && (again.len == 0 || memcmp(again.p, exact, again.len) == 0));
	if (otlp_read_answer(exact, size, &rejected, why, sizeof(why)) == 0)
		FUZZ_CHECK(rc == 0 && rejected <= INT64_MAX);
	else
		FUZZ_CHECK(rejected == UINT64_MAX);
	FUZZ_CHECK(memchr(why, '\0', sizeof(why)) && text_utf8_valid(why, strlen(why)));
	str_fini(&again);
	free(exact);
	return 0;
}
