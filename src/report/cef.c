/* A record as a line of the Common Event Format, version 0 (OP-333).  Keys are those of CEF's dictionary where it has
 * one that means the same; what it has no key for is a custom string or number with its label beside it.  The address
 * is a pseudonym, which src may not be.  Any thread. */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "report/carry.h"

#define SELF "toolcrib"

static void put_header(struct str *out, const char *p)
{
	for (; *p; p++) {
		if (*p == '|' || *p == '\\')
			str_putc(out, '\\');
		str_putc(out, (unsigned char)*p < ' ' ? ' ' : *p);
	}
}

/* What a value may have of len bytes, between two characters. */
static size_t whole(const char *p, size_t len)
{
	if (len <= REPORT_CEF_VALUE_MAX)
		return len;
	len = REPORT_CEF_VALUE_MAX;
	while (len > 0 && ((unsigned char)p[len] & 0xc0) == 0x80)
		len--;
	return len;
}

/* Returns how many bytes were cut off. */
static size_t put_value(struct str *out, const char *p)
{
	const size_t len = strlen(p), n = whole(p, len);

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' || p[i] == '\r') {
			str_puts(out, p[i] == '\n' ? "\\n" : "\\r");
			continue;
		}
		if (p[i] == '\\' || p[i] == '=')
			str_putc(out, '\\');
		str_putc(out, (unsigned char)p[i] < ' ' ? ' ' : p[i]);
	}
	return len - n;
}

static size_t put_text(struct str *out, const json_t *record, const char *member, const char *key, const char *label)
{
	const char *p = json_string_value(json_object_get(record, member));
	size_t cut;

	if (!p || !*p)
		return 0;
	str_printf(out, " %s=", key);
	cut = put_value(out, p);
	if (label)
		str_printf(out, " %sLabel=%s", key, label);
	return cut;
}

/* Whole ones, as CEF has them. */
static void put_number(struct str *out, const json_t *record, const char *member, const char *key, const char *label)
{
	const json_t *n = json_object_get(record, member);

	if (!json_is_number(n))
		return;
	str_printf(out, " %s=%" PRId64, key, (int64_t)(jx_nearest(n) + 0.5));
	if (label)
		str_printf(out, " %sLabel=%s", key, label);
}

static void put_times(struct str *out, const json_t *record)
{
	const char *time = json_string_value(json_object_get(record, "time"));
	uint64_t us;

	if (time && clock_parse(time, clock_wall_us(), &us) == 0)
		str_printf(out, " rt=%" PRIu64, us / 1000);
}

static void put_name(struct str *out, const char *kind)
{
	for (; *kind; kind++)
		str_putc(out, *kind == '.' || *kind == '_' || *kind == '|' || *kind == '\\' ? ' ' : *kind);
}

void report_cef(const json_t *record, unsigned severity, struct str *ret)
{
	static const struct { const char *member, *key, *label; } texts[] = {
		{ "log", "deviceExternalId", NULL }, { "tenant", "cs1", "tenant" }, { "principal", "suser", NULL },
		{ "pseudonym", "suid", NULL }, { "key", "cs2", "key" }, { "client", "cs3", "client" }, { "tool", "act", NULL },
		{ "definition", "cs4", "definition" }, { "call", "cs5", "call" }, { "trace", "cs6", "trace" },
		{ "outcome", "outcome", NULL }, { "rule", "reason", NULL }, { "address", "flexString1", "address" },
		{ "object", "flexString2", "object" }, { "detail", "msg", NULL },
	};
	const char *kind = json_string_value(json_object_get(record, "kind"));
	size_t cut = 0;

	kind = kind ? kind : "unknown";
	str_puts(ret, "CEF:0|" SELF "|" SELF "|");
	put_header(ret, PACKAGE_VERSION);
	str_putc(ret, '|');
	put_header(ret, kind);
	str_putc(ret, '|');
	put_name(ret, kind);
	str_printf(ret, "|%u|", severity);
	str_puts(ret, "externalId=");
	str_puts(ret, json_string_value(json_object_get(record, "id")));
	put_times(ret, record);
	for (size_t i = 0; i < NELEMS(texts); i++)
		cut += put_text(ret, record, texts[i].member, texts[i].key, texts[i].label);
	put_number(ret, record, "index", "cn1", "index");
	put_number(ret, record, "ms", "cn2", "ms");
	put_number(ret, record, "request_bytes", "in", NULL);
	put_number(ret, record, "result_bytes", "out", NULL);
	if (cut > 0)
		str_printf(ret, " cn3=%zu cn3Label=cut", cut);
}
