/* The frame of OTLP's requests, attributes and answers: see include/otel/otlp.h. */
#include "config.h"

#include <string.h>

#include "otel/otlp.h"
#include "otel/pb.h"

/* common.v1 */
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { ANY_STRING = 1, ANY_INT = 3 };
enum { SCOPE_NAME = 1, SCOPE_VERSION = 2 };
/* trace.v1 and logs.v1, alike */
enum { REQUEST_RESOURCE_ITEMS = 1, RESOURCE_ITEMS_RESOURCE = 1, RESOURCE_ITEMS_SCOPE_ITEMS = 2, SCOPE_ITEMS_SCOPE = 1 };
/* collector.trace.v1 and collector.logs.v1, alike */
enum { ANSWER_PARTIAL = 1, PARTIAL_REJECTED = 1, PARTIAL_WHY = 2 };

/* --- attributes */

static size_t attribute_open(struct str *out, unsigned field, const char *key, size_t *ret_value)
{
	const size_t mark = pb_open(out, field);

	pb_text(out, KEY_VALUE_KEY, key);
	*ret_value = pb_open(out, KEY_VALUE_VALUE);
	return mark;
}

static void attribute_close(struct str *out, size_t mark, size_t value)
{
	pb_close(out, value);
	pb_close(out, mark);
}

void otlp_text_n(struct str *out, unsigned field, const char *key, const char *value, size_t len)
{
	char text[OTLP_VALUE_MAX + 1];
	size_t inner;
	const size_t mark = attribute_open(out, field, key, &inner);

	if (len <= OTLP_VALUE_MAX && text_plain_run(value, len) == len && !memchr(value, 0x7f, len)) {
		pb_bytes(out, ANY_STRING, value, len);          /* nearly all are */
	} else {
		(void)text_printable(value, len, text, sizeof(text));
		pb_text(out, ANY_STRING, text);
	}
	attribute_close(out, mark, inner);
}

void otlp_text(struct str *out, unsigned field, const char *key, const char *value)
{
	otlp_text_n(out, field, key, value, strlen(value));
}

void otlp_int(struct str *out, unsigned field, const char *key, int64_t value)
{
	size_t inner;
	const size_t mark = attribute_open(out, field, key, &inner);

	pb_uint(out, ANY_INT, (uint64_t)value);
	attribute_close(out, mark, inner);
}

/* --- requests and answers */

static void put_str(struct str *out, unsigned field, const struct str *text)
{
	pb_bytes(out, field, str_text(text), text->len);
}

void otlp_put_request(struct str *out, const struct otlp_frame *f)
{
	const size_t all = pb_open(out, REQUEST_RESOURCE_ITEMS);
	size_t scoped, scope;

	put_str(out, RESOURCE_ITEMS_RESOURCE, f->resource);
	scoped = pb_open(out, RESOURCE_ITEMS_SCOPE_ITEMS);
	scope = pb_open(out, SCOPE_ITEMS_SCOPE);
	pb_text(out, SCOPE_NAME, f->scope);
	pb_text(out, SCOPE_VERSION, f->version);
	pb_close(out, scope);
	str_put(out, str_text(f->items), f->items->len);
	pb_close(out, scoped);
	pb_close(out, all);
}

static int read_partial(const uint8_t *p, size_t len, uint64_t *ret_rejected, char *ret_why, size_t size)
{
	const uint8_t *const end = p + len;
	struct pb_field f;
	int rc;

	while ((rc = pb_next(&p, end, &f)) == 1) {
		if (f.number == PARTIAL_REJECTED && f.wire == PB_VARINT)
			*ret_rejected = f.value <= INT64_MAX ? f.value : 0;     /* less than none is none */
		else if (f.number == PARTIAL_WHY && f.wire == PB_LEN)
			(void)text_printable((const char *)f.p, f.len, ret_why, size);
		else if (f.number == PARTIAL_REJECTED || f.number == PARTIAL_WHY)
			return ERR_INVALID;
	}
	return rc;
}

int otlp_read_answer(const void *body, size_t len, uint64_t *ret_rejected, char *ret_why, size_t size)
{
	const uint8_t *p = body;
	const uint8_t *const end = p + len;
	uint64_t rejected = 0;
	struct pb_field f;
	int rc;

	*ret_why = '\0';
	while ((rc = pb_next(&p, end, &f)) == 1) {
		if (f.number != ANSWER_PARTIAL)
			continue;               /* of a later version */
		if (f.wire != PB_LEN || read_partial(f.p, f.len, &rejected, ret_why, size) < 0)
			return ERR_INVALID;
	}
	if (rc == 0)
		*ret_rejected = rejected;
	return rc;
}

bool otlp_may_retry(int status)
{
	return status == 429 || status == 502 || status == 503 || status == 504;
}
