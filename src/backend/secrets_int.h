#ifndef SECRETS_INT_H
#define SECRETS_INT_H

#include "backend/secrets.h"
#include "keys/secrets.h"

/* What secrets.c keeps and mask.c looks for. */

#define SECRET_FORMS_MAX 9              /* base64 in two alphabets at three alignments, hex in two cases, Latin-1 */

struct secret_form { char *p; size_t len; };    /* not NUL-terminated */
struct used_secret {
	char *name;
	char *value; size_t len;                /* guarded memory */
	struct secret_form form[SECRET_FORMS_MAX]; size_t nforms;
	struct secret_form latin;               /* one of them, or nothing */
};
struct open_secrets {
	const struct secret_source *from;
	struct used_secret *used; size_t n;
};

void secret_forms(struct used_secret *u);       /* mask.c: fill in the encoded forms of the value */

#endif
