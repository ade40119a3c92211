/* The table of formats, and those that need no file of their own.  A name that is not in the table is an
 * annotation, whoever asks. */
#include "config.h"

#include "format_int.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define LOCAL_MAX 64            /* bytes in front of the @ (RFC 5321 4.5.3.1.1) */

static bool is_uuid(const char *p, size_t len)
{
	if (len != 36)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;

		if (hyphen ? p[i] != '-' : !format_is_hex(p[i]))
			return false;
	}
	return true;
}

/* RFC 6901. */
static bool is_pointer(const char *p, size_t len)
{
	if (len && *p != '/')
		return false;
	for (size_t i = 0; i < len; i++)
		if (p[i] == '~' && (i + 1 == len || (p[i + 1] != '0' && p[i + 1] != '1')))
			return false;
	return true;
}

static bool is_relative_pointer(const char *p, size_t len)
{
	struct cursor c = { p, p + len };

	while (c.p < c.end && format_is_digit(*c.p))
		c.p++;
	if (c.p == p || (*p == '0' && c.p > p + 1))
		return false;
	return (c.end - c.p == 1 && *c.p == '#') || is_pointer(c.p, (size_t)(c.end - c.p));
}

static bool is_regex(const char *p, size_t len)
{
	struct str text = STR_INIT;
	const char *why;
	bool ok = regex_translate(p, len, &text, &why);

	str_fini(&text);
	return ok;
}

/* EMAIL (RFC 5321 4.1.2, RFC 6531) */

static bool is_quoted(const char *p, const char *end, bool wide)
{
	for (p++, end--; p < end; p++) {
		if (*p == '\\' && ++p == end)
			return false;
		if ((unsigned char)*p < 0x20 || *p == 0x7f || (*p == '"' && p[-1] != '\\') ||
		    ((unsigned char)*p >= 0x80 && !wide))
			return false;
	}
	return true;
}

static bool is_local(const char *p, const char *end, bool wide)
{
	bool dot = true;

	if (end - p > LOCAL_MAX)
		return false;
	if (end - p >= 2 && *p == '"' && end[-1] == '"')
		return is_quoted(p, end, wide);
	for (; p < end; p++) {
		if (*p == '.' && dot)
			return false;
		dot = *p == '.';
		if (!dot && !format_is_alpha(*p) && !format_is_digit(*p) && !((unsigned char)*p >= 0x80 && wide) &&
		    !(*p > 0 && strchr("!#$%&'*+-/=?^_`{|}~", *p)))
			return false;
	}
	return !dot;
}

static bool is_mailbox(const char *p, size_t len, bool wide)
{
	const char *at = memrchr(p, '@', len), *end = p + len;

	if (!at || !is_local(p, at, wide))
		return false;
	p = at + 1;
	if (end - p > 2 && *p == '[' && end[-1] == ']') {
		p++;
		if (end - p > 5 && strncasecmp(p, "IPv6:", 5) == 0)
			return format_ipv6(p + 5, (size_t)(end - p) - 6);
		return format_ipv4(p, (size_t)(end - p) - 1);
	}
	return format_dns_name(p, (size_t)(end - p), wide);
}

static bool is_email(const char *p, size_t len)
{
	return is_mailbox(p, len, false);
}

static bool is_idn_email(const char *p, size_t len)
{
	return is_mailbox(p, len, true);
}

/* THE TABLE */

enum host { NO_HOST, HOST, IDN_HOST };

static const struct row {
	const char *name, *words;
	format_fn *is;
	enum host host;
} rows[] = {
	{ "date-time", "a date with a time like 2024-02-29T12:00:00Z", format_date_time, NO_HOST },
	{ "date", "a date like 2024-02-29", format_date, NO_HOST },
	{ "time", "a time like 12:00:00Z", format_time, NO_HOST },
	{ "duration", "a duration like P1DT12H", format_duration, NO_HOST },
	{ "email", "an email address", is_email, NO_HOST },
	{ "idn-email", "an email address", is_idn_email, NO_HOST },
	{ "hostname", "the name of a host", NULL, HOST },
	{ "idn-hostname", "the name of a host", NULL, IDN_HOST },
	{ "ipv4", "an IPv4 address", format_ipv4, NO_HOST },
	{ "ipv6", "an IPv6 address", format_ipv6, NO_HOST },
	{ "uri", "a URI with a scheme", format_uri, NO_HOST },
	{ "uri-reference", "a URI or a relative reference", format_uri_reference, NO_HOST },
	{ "iri", "an IRI with a scheme", format_iri, NO_HOST },
	{ "iri-reference", "an IRI or a relative reference", format_iri_reference, NO_HOST },
	{ "uri-template", "a URI template like /items/{id}", format_uri_template, NO_HOST },
	{ "json-pointer", "a JSON pointer like /a/0", is_pointer, NO_HOST },
	{ "relative-json-pointer", "a relative JSON pointer like 1/a", is_relative_pointer, NO_HOST },
	{ "uuid", "a UUID", is_uuid, NO_HOST },
	{ "regex", "a regular expression of ECMA-262", is_regex, NO_HOST },
};

struct format {
	const struct row *row;
	const struct idna *idna;        /* of host names */
};

int format_compile(struct arena *mem, const char *name, const struct format **ret, struct err *err)
{
	const struct row *row = NULL;
	struct format *f;
	int rc = 0;

	for (size_t i = 0; i < NELEMS(rows) && !row; i++)
		if (strcmp(rows[i].name, name) == 0)
			row = &rows[i];
	*ret = NULL;
	if (!row)
		return 0;
	f = arena_alloc(mem, sizeof *f);
	if (!f)
		return err_set(err, ERR_LIMIT, "", "the compiled schema is too large");
	f->row = row;
	if (row->host != NO_HOST)
		rc = idna_compile(mem, &f->idna, err);
	*ret = f;
	return rc;
}

const char *format_words(const struct format *f)
{
	return f->row->words;
}

bool format_check(const struct format *f, const char *p, size_t len, struct regex_room **room, size_t *steps)
{
	*steps += len / 16 + 1;
	if (f->row->host != NO_HOST)
		return idna_check(f->idna, p, len, f->row->host == IDN_HOST, room, steps);
	return f->row->is(p, len);
}
