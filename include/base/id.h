#ifndef BASE_ID_H
#define BASE_ID_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define ID_TEXT_SIZE 37            /* 8-4-4-4-12 and NUL */

/* 16 bytes in UUIDv7 shape (RFC 9562 5.7): milliseconds, then random; ids of one process never go
 * back, also within a millisecond.  Loop thread. */
void id_uuid7(uint8_t ret[16]);
char *id_format(const uint8_t id[16], char ret[ID_TEXT_SIZE]);
int id_parse(const char *text, size_t len, uint8_t ret[16]);    /* 0 or ERR_INVALID; strict form */
/* n random base62 characters and NUL; ret has n + 1 bytes.  Any thread. */
void id_random_text(char *ret, size_t n);
void id_random(void *ret, size_t n);
void id_boot(char *ret, size_t size);   /* the kernel's name of this boot, "unknown" where there is none */
/* From here to its end this thread has id_random() of up to ID_POOL_TAKE bytes from a pool that one getrandom() fills;
 * what was taken is wiped there, and no other thread and no forked process gets the same bytes.  What is longer may
 * become a key, and is asked of the kernel each time; so is all where the kernel cannot wipe memory at a fork. */
#define ID_POOL_SIZE 4096
#define ID_POOL_TAKE 31
void id_random_pool(void);
/* The pool of this thread, NULL: it has none; how much is left at its end, how often it was filled. */
FOR_TESTS const uint8_t *id_random_look(size_t *ret_left, uint64_t *ret_refills);

#endif
