/* What a command says: lines of {"row":{…}}, written as text on whatever thread the body runs. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "json/reply.h"

bool reply_full(const struct reply *o)
{
	return o->text.failed;
}

void reply_row_begin(struct reply *o)
{
	str_puts(&o->text, "{\"row\":{");
	o->any = false;
}

void reply_row_end(struct reply *o)
{
	str_puts(&o->text, "}}\n");
	o->rows++;
}

static void put_name(struct reply *o, const char *name)
{
	if (o->any)
		str_putc(&o->text, ',');
	o->any = true;
	jx_write_stringz(&o->text, name);
	str_putc(&o->text, ':');
}

void reply_text(struct reply *o, const char *name, const char *value)
{
	put_name(o, name);
	if (value)
		jx_write_stringz(&o->text, value);
	else
		str_puts(&o->text, "null");
}

void reply_int(struct reply *o, const char *name, int64_t value)
{
	put_name(o, name);
	str_put_i64(&o->text, value);
}

void reply_bool(struct reply *o, const char *name, bool value)
{
	put_name(o, name);
	str_puts(&o->text, value ? "true" : "false");
}

void reply_time(struct reply *o, const char *name, uint64_t wall_us)
{
	char text[32];

	reply_text(o, name, wall_us ? clock_format_utc(wall_us, text, sizeof(text)) : NULL);
}

void reply_rate(struct reply *o, const char *name, struct text_rate rate)
{
	char text[40];

	reply_text(o, name, rate.count ? text_format_rate(rate, text, sizeof(text)) : NULL);
}

void reply_json(struct reply *o, const char *name, const json_t *value)
{
	put_name(o, name);
	if (value)
		jx_write(value, &o->text);
	else
		str_puts(&o->text, "null");
}

void reply_raw(struct reply *o, const char *name, const char *json, size_t len)
{
	put_name(o, name);
	str_put(&o->text, json, len);
}

void reply_hex(struct reply *o, const char *name, const void *p, size_t n)
{
	char *hex = mem_alloc(2 * n + 1);

	text_hex(p, n, hex);
	reply_text(o, name, hex);
	free(hex);
}

void reply_ms(struct reply *o, const char *name, uint64_t us)
{
	char ms[32];
	int n = snprintf(ms, sizeof(ms), "%" PRIu64 ".%" PRIu64, us / 1000, us % 1000 / 100);

	reply_raw(o, name, ms, (size_t)n);
}

void reply_error(struct str *out, const struct err *err)
{
	str_puts(out, "{\"error\":{\"code\":");
	jx_write_stringz(out, err_name(err->code));
	str_puts(out, ",\"where\":");
	jx_write_stringz(out, err->where);
	str_puts(out, ",\"message\":");
	jx_write_stringz(out, err->msg);
	str_puts(out, ",\"hint\":");
	jx_write_stringz(out, err->hint);
	str_printf(out, ",\"retryMs\":%u}}\n", err->retry_ms);
}
