#ifndef LIMIT_INT_H
#define LIMIT_INT_H

#include <stdbool.h>

#include "limit/limit.h"

/* Is there a token?  When not, the time until there is one. */
bool bucket_has(struct limit_bucket *b, struct text_rate rate, uint64_t now_us, uint32_t *ret_retry_ms);
void bucket_pay(struct limit_bucket *b, struct text_rate rate);         /* after bucket_has() */
bool bucket_full(struct limit_bucket *b, struct text_rate rate, uint64_t now_us);

#endif
