#ifndef TENANT_CIDR_H
#define TENANT_CIDR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Networks that a key may be used from: "10.0.0.0/8 2001:db8::/32 192.0.2.7". */

#define CIDRS_MAX 32                    /* of one key */

struct cidrs;                           /* immutable */
/* Networks with blanks between them; no bits beyond the length.  Any thread.  ERR_INVALID, ERR_LIMIT: where is
 * "cidr". */
int cidrs_parse(const char *text, size_t len, struct cidrs **ret, struct err *err) MUST_CHECK;
void cidrs_free(struct cidrs **c);
/* from: an address as cred_source has it, "CLIENT via PROXY" is the client's; "unix" and "stdio" are 127.0.0.1.
 * What is no address is in no network. */
bool cidrs_hold(const struct cidrs *c, const char *from);

#endif
