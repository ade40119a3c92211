#ifndef SRC_SCHEMA_FORMAT_INT_H
#define SRC_SCHEMA_FORMAT_INT_H

/* The formats behind the table of format.c.  Each reads the whole text or refuses it; nothing is skipped,
 * trimmed or guessed, and no format costs more than a few passes over the text. */

#include "schema_int.h"

/* What is left to read. */
struct cursor { const char *p, *end; };

static inline bool cursor_eat(struct cursor *c, char what)
{
	if (c->p == c->end || *c->p != what)
		return false;
	c->p++;
	return true;
}

static inline bool format_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool format_is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool format_is_hex(char c)
{
	return format_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

typedef bool format_fn(const char *p, size_t len);

/* format_time.c */
format_fn format_date, format_time, format_date_time, format_duration;
/* format_uri.c */
format_fn format_ipv4, format_ipv6, format_uri, format_uri_reference, format_iri, format_iri_reference,
	format_uri_template;
/* format_host.c: syntax of names in ASCII; with wide, any other character is taken as it is. */
bool format_dns_name(const char *p, size_t len, bool wide);

/* Names of hosts, looked at with the eyes of IDNA 2008 (RFC 5891): patterns for one label. */
struct idna {
	const struct regex *label;      /* code points and their context (RFC 5892) */
	const struct regex *bidi;       /* is there something that is written from right to left? */
	const struct regex *order;      /* the rule for each label then (RFC 5893) */
};
int idna_compile(struct arena *mem, const struct idna **ret, struct err *err) MUST_CHECK;
/* wide: U-labels and the full stops of IDNA 2003 may come too, else A-labels only. */
bool idna_check(const struct idna *idna, const char *p, size_t len, bool wide, struct regex_room **room,
		size_t *steps);

#endif
