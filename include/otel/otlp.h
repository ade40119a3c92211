#ifndef OTEL_OTLP_H
#define OTEL_OTLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"

/* What all signals of OTLP/HTTP have in common (OpenTelemetry Protocol 1.x, opentelemetry-proto v1): attributes, the
 * frame around what is sent, and the answer.  Numbers of fields are those of the .proto files of the v1 packages, which
 * are stable.  Pure; any thread. */

#define OTLP_CONTENT_TYPE "application/x-protobuf"
#define OTLP_ANSWER_MAX 65536           /* bytes of an answer's body */
#define OTLP_VALUE_MAX 256              /* bytes of an attribute's text; what is longer is cut behind a character */

/* One attribute (common.v1.KeyValue) as this field of the message that is open in out.  Texts are UTF-8: bytes that are
 * none, and characters that a person does not see, are spelt out (text_printable()). */
void otlp_text(struct str *out, unsigned field, const char *key, const char *value);
void otlp_text_n(struct str *out, unsigned field, const char *key, const char *value, size_t len);
void otlp_int(struct str *out, unsigned field, const char *key, int64_t value);

/* A whole request of ExportTraceServiceRequest or ExportLogsServiceRequest: one resource, one scope, and its spans or
 * log records.  resource: attributes as field 1 (OTLP_RESOURCE_ATTRIBUTE).  items: each as field 2 (OTLP_ITEM), one
 * behind the other. */
#define OTLP_RESOURCE_ATTRIBUTE 1
#define OTLP_ITEM 2
struct otlp_frame {
	const struct str *resource;
	const char *scope, *version;    /* who made them: instrumentation scope */
	const struct str *items;
};
void otlp_put_request(struct str *out, const struct otlp_frame *f);

/* The body of an answer with status 200: how many of the items the collector says it has refused, 0 = none, and why, of
 * ret_why's size.  An empty body is one.  ERR_INVALID: it cannot be read. */
int otlp_read_answer(const void *p, size_t len, uint64_t *ret_rejected, char *ret_why, size_t size) MUST_CHECK;
/* Is it worth another try (OTLP 1.x, "Retryable Response Codes")? */
bool otlp_may_retry(int status);

#endif
