#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A fuzz target is this one function: it feeds the bytes to one parser and checks what must hold for
 * every input.  It keeps nothing between two calls, frees all, and returns 0.  See module.am. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that no input may break; on in every build, unlike assert() under NDEBUG. */
#define FUZZ_CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

#endif
