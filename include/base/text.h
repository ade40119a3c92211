#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- growing strings */

/* A growable byte string with a limit.  Appends beyond max set `failed` and change nothing more, so a writer checks
 * once at the end; those of a string with a limit do the same when there is no memory.  p is NUL-terminated whenever
 * it is not NULL. */
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
void str_room(struct str *s, size_t n);               /* a hint: n more bytes will come, and grow it once */
void str_put(struct str *s, const void *p, size_t n);
void str_puts(struct str *s, const char *z);
void str_putc(struct str *s, char c);
void str_printf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_put_u64(struct str *s, unsigned long long v);
void str_put_i64(struct str *s, long long v);
void str_drop_front(struct str *s, size_t n);         /* n <= len */
char *str_take(struct str *s);                        /* hands out p ("" when empty); free() it */
const char *str_text(const struct str *s);            /* p or "" */
/* A cell of CSV: quoted, and nothing that a spreadsheet takes for a formula where it is text (AUDIT A-1003). */
void text_csv(const char *text, bool is_text, struct str *out);

/* --- reading and writing text */

/* Pure functions over text; any thread.  Parsers read the whole text or fail; they never skip white
 * space, signs or rubbish, and never clamp. */
bool text_utf8_valid(const char *p, size_t len);               /* no overlong, no surrogates, <= U+10FFFF */
size_t text_utf8_count(const char *p, size_t len);             /* code points of valid UTF-8 */
/* How many bytes at the front stand for themselves in a JSON string: ASCII, no control character but DEL, no quote, no
 * backslash.  A word at a time: most of a text is such a run. */
size_t text_plain_run(const char *p, size_t len);
/* One code point at p; its length in bytes, or 0: no valid UTF-8 begins there. */
unsigned text_decode(const char *p, size_t len, uint32_t *ret);

/* --- what a person does not see of a text (hidden.c) */

/* Of the one table of such characters: controls, what Unicode says to leave out of the picture (zero width, variation
 * selectors, tags, fillers), marks of direction, line separators, annotations. */
bool text_is_hidden(uint32_t c);
/* Copy with hidden characters and invalid bytes shown as \xNN or \u{N}; at most size - 1 bytes, NUL-terminated.  For
 * terminals and logs. */
char *text_printable(const char *p, size_t len, char *ret, size_t size);
/* What a model reads but a person does not see (SEC S-211): where the first such character of valid UTF-8 stands, or
 * len; and a copy without them into ret, of len bytes, which may be p.  Returns the length of the copy.  Line feeds and
 * tabs may stand in a text, and so may what shapes what is seen beside it: the selector of an emoji, a joiner between
 * two of them or within a word of a script that needs it (decision 0037). */
size_t text_hidden(const char *p, size_t len, uint32_t *ret);
size_t text_without_hidden(const char *p, size_t len, char *ret);
/* For those who decide: ret, of len, is set where a character begins that has to be spelt out, for it is hidden, or a
 * blank, sign or letter that is taken for another one; and where a byte is no UTF-8.  Words are judged as a whole, so
 * the text must be whole. */
void text_deceives(const char *p, size_t len, bool *ret);

void text_hex(const void *p, size_t n, char *ret);             /* ret has 2n + 1 bytes */
int text_unhex(const char *p, size_t len, void *ret, size_t size);         /* 0 or ERR_INVALID; len == 2 * size */
/* base64url without padding (RFC 4648 5), strict: no white space, no non-zero trailing bits. */
/* bytes incl. NUL */
static inline size_t text_base64url_size(size_t n)
{
	return n / 3 * 4 + (n % 3 ? n % 3 + 1 : 0) + 1;
}

void text_base64url(const void *p, size_t n, char *ret);
int text_unbase64url(const char *p, size_t len, void *ret, size_t size, size_t *ret_len);
/* Standard base64 with padding (RFC 4648 4); the same strictness. */
size_t text_base64_size(size_t n);                             /* bytes incl. NUL */
void text_base64(const void *p, size_t n, char *ret);
int text_unbase64(const char *p, size_t len, void *ret, size_t size, size_t *ret_len);
bool text_base64_valid(const char *p, size_t len);

int text_u64(const char *p, size_t len, uint64_t *ret);        /* decimal digits only */
int text_i64(const char *p, size_t len, int64_t *ret);
int text_time_of_day(const char *text, uint32_t *ret_s);       /* "03:00", in seconds; ERR_INVALID */
int text_duration_ms(const char *text, uint64_t *ret_ms);      /* "250ms" "10s" "5m" "1h" "90d" */
int text_size(const char *text, uint64_t *ret_bytes);          /* "512" "64KiB" "1MiB" "2GiB" */
struct text_rate { uint32_t count; uint32_t per_s; };          /* 60/min = {60, 60} */
int text_rate(const char *text, struct text_rate *ret);        /* "10/s" "60/min" "100/h" "5000/day"; count > 0 */
char *text_format_rate(struct text_rate r, char *ret, size_t size);
char *text_format_age(uint64_t us, char *ret, size_t size);    /* "3d", "5m", "12s" */

bool text_glob(const char *pattern, const char *text);         /* '*' and '?' only; never exponential */
bool text_glob_literal(const char *pattern);                   /* no '*' and no '?' */
bool text_tool_name(const char *p, size_t len);                /* [A-Za-z0-9_.-]{1,64} (product.md 4) */
/* Tenants, principals: [a-z0-9][a-z0-9_.-]{0,62}. */
bool text_entity_name(const char *p, size_t len);
/* The candidate nearest to word (edit distance at most 1 + strlen/4), or NULL: for "did you mean". */
const char *text_nearest(const char *word, const char *const *candidates, size_t n);
bool text_eq(const char *p, size_t len, const char *z);        /* bytes equal to the C string */

#endif
