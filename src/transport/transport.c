/* The table of this room's listening members; stdio has one peer and opens by tr_stdio_open(). */

#include "config.h"

#include "transport/transport.h"

const struct transport_ops *const transport_all[] = { &tr_http, &tr_tcp, &tr_unix, 0 };
