#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A fuzz target is one function of (const uint8_t *data, size_t size): it feeds the bytes to one parser and checks
 * what must hold for every input.  It keeps nothing between two calls, frees all, and returns 0.  See module.am.
 * With libFuzzer it is the program's; otherwise the programs of replay.c have several, each with its name. */
#ifdef FUZZ_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#define FUZZ_TARGET(id) int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
#else
struct fuzz_target {
	const char *name;
	int (*run)(const uint8_t *data, size_t size);
	struct fuzz_target *next;
};
/* Before main(), which owns nothing: t lives as long as the program. */
void fuzz_add(struct fuzz_target *t);

#define FUZZ_TARGET(id) \
	static int fuzz_##id(const uint8_t *data, size_t size); \
	static void __attribute__((constructor)) fuzz_add_##id(void) \
	{ \
		static struct fuzz_target self = { #id, fuzz_##id, NULL }; \
		fuzz_add(&self); \
	} \
	static int fuzz_##id(const uint8_t *data, size_t size)
#endif

/* A property that no input may break; on in every build, unlike assert() under NDEBUG. */
#define FUZZ_CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

#endif
