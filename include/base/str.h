#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>

/* A growable byte string with a limit.  Appends beyond max set `failed` and change nothing more, so
 * a writer checks once at the end.  p is NUL-terminated whenever it is not NULL. */
struct str {
	char *p;
	size_t len, cap, max;   /* max 0 = no limit */
	bool failed;
	bool secret;            /* nothing of it stays behind when it grows (SEC S-344); str_wipe() ends it */
};
#define STR_INIT { NULL, 0, 0, 0, false, false }
#define STR_SECRET_INIT { NULL, 0, 0, 0, false, true }

void str_init(struct str *s, size_t max);
void str_fini(struct str *s);                         /* frees; s may be used again as empty */
void str_wipe(struct str *s);                         /* str_fini(), after overwriting what it holds */
void str_reset(struct str *s);                        /* len 0, failed false; keeps the memory */
void str_put(struct str *s, const void *p, size_t n);
void str_puts(struct str *s, const char *z);
void str_putc(struct str *s, char c);
void str_printf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_put_u64(struct str *s, unsigned long long v);
void str_put_i64(struct str *s, long long v);
void str_drop_front(struct str *s, size_t n);         /* n <= len */
char *str_take(struct str *s);                        /* hands out p ("" when empty); free() it */
const char *str_text(const struct str *s);            /* p or "" */

#endif
