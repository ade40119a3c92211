#ifndef PROTO_INT_H
#define PROTO_INT_H

#include "proto/encode.h"

/* Content blocks of a tool's result for a revision; ensures a text block when `structured` is there (MCP T-27). */
void content_write(struct str *out, enum rev rev, const struct enc_result *r);
/* Messages of a prompt, parts of a resource. */
void content_write_messages(struct str *out, enum rev rev, const json_t *messages);
void content_write_parts(struct str *out, enum rev rev, const json_t *parts);
/* The value of R0's toolResult (MCP D). */
void content_write_tool_result(struct str *out, const struct enc_result *r);

#endif
