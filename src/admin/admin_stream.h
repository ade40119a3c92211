#ifndef ADMIN_STREAM_H
#define ADMIN_STREAM_H

#include "admin_int.h"

/* Answers in parts: admin.c runs the bodies, admin_stream.c says when. */

void adm_stream_part(struct adm_run *run, int rc);      /* a body has ended */
void adm_stream_end(struct adm_run *run);               /* there will be no further one */
void adm_streams_close(struct admin *a);                /* end those that wait for their next part */
/* admin.c: ask for the next part; ERR_BUSY.  And: the command has ended. */
int adm_stream_body(struct adm_run *run) MUST_CHECK;
void adm_stream_done(struct adm_run *run, int rc);

#endif
