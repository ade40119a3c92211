#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Guarded, locked, never dumped memory (SEC S-344).  Failing to lock warns once, it does not stop. */
void *secret_alloc(size_t n);
void secret_free(void *p);                      /* wipes; NULL is fine */
void secret_wipe(void *p, size_t n);
bool secret_equal(const void *a, const void *b, size_t n);     /* constant time */
/* Master key of a store: 32 bytes in a file of mode 0400 (SEC S-341).  Derived keys are BLAKE2b
 * (master, purpose); ret is 32 bytes. */
#define SECRET_KEY_SIZE 32
void secret_derive(const uint8_t master[SECRET_KEY_SIZE], const char *purpose, uint8_t ret[SECRET_KEY_SIZE]);
/* libsodium start-up, no core dumps, not dumpable.  First call of every program. */
int secret_init(void);

#endif
