/* URLs of outbound requests: read once, refused rather than repaired. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "net/url.h"

#define LABEL_MAX 63

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Four decimal numbers without leading zeros, or nothing: what other spellings mean depends on who reads them. */
static bool looks_numeric(const char *host, size_t len)
{
	size_t last = len;

	while (last > 0 && host[last - 1] != '.')
		last--;
	const char *label = host + last;
	size_t n = len - last;
	bool digits = true, hex = n >= 2 && label[0] == '0' && label[1] == 'x';

	for (size_t i = 0; i < n; i++) {
		digits = digits && label[i] >= '0' && label[i] <= '9';
		hex = hex && (i < 2 || is_hex(label[i]));
	}
	return digits || hex;
}

static int bad_host(const char *at, struct err *err, const char *why)
{
	return err_set(err, ERR_INVALID, at, "the host of the URL %s", why);
}

static int check_name(const char *host, size_t len, const char *at, struct err *err)
{
	size_t label = 0;

	for (size_t i = 0; i <= len; i++) {
		if (i < len && host[i] != '.') {
			if (!is_alnum(host[i]) && host[i] != '-' && host[i] != '_')
				return bad_host(at, err, "has a character that a host name cannot have");
			label++;
			continue;
		}
		if (label == 0 || label > LABEL_MAX || host[i - label] == '-' || host[i - 1] == '-')
			return bad_host(at, err, "is not a host name");
		label = 0;
	}
	return 0;
}

/* text is the host as written; port is known. */
static int set_host(const char *text, size_t len, const char *at, struct url *u, struct err *err)
{
	char full[URL_HOST_MAX + sizeof("[]:65535")];
	bool bracket = len > 0 && text[0] == '[';

	if (bracket && text[len - 1] == ']') {
		text++;
		len -= 2;
	} else if (bracket) {
		return bad_host(at, err, "has a [ without its ]");
	}
	if (len == 0)
		return bad_host(at, err, "is missing");
	if (len > URL_HOST_MAX)
		return bad_host(at, err, "is too long");
	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if ((unsigned char)c >= 0x80) {
			(void)bad_host(at, err, "is not ASCII");
			err_hint(err, "write it in its ASCII form, which begins with xn--");
			return ERR_INVALID;
		}
		u->host[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
	}
	u->host[len] = '\0';
	u->literal = bracket || looks_numeric(u->host, len);
	if (!u->literal)
		return check_name(u->host, len, at, err);
	snprintf(full, sizeof(full), bracket ? "[%s]:%u" : "%s:%u", u->host, u->port);
	if (strlen(u->host) != len || addr_parse(full, &u->addr, NULL) < 0)     /* SEC S-702 */
		return bad_host(at, err,
				"is a number in an unusual form; write addresses as 192.0.2.1 or [2001:db8::1]");
	return 0;
}

static int set_port(const char *p, size_t len, const char *at, struct url *u, struct err *err)
{
	uint64_t port = 0;

	if (len == 0 || p[0] == '0' || text_u64(p, len, &port) < 0 || port == 0 || port > UINT16_MAX)
		return err_set(err, ERR_INVALID, at, "the port must be a number from 1 to 65535");
	u->port = (uint16_t)port;
	return 0;
}

/* Where the port begins: behind the colon that is not part of an IPv6 address; len when there is none. */
static size_t find_port(const char *p, size_t len)
{
	for (size_t i = len; i > 0 && p[i - 1] != ']'; i--) {
		if (p[i - 1] == ':')
			return i;
	}
	return len;
}

static int set_authority(const char *p, size_t len, const char *at, struct url *u, struct err *err)
{
	size_t port = find_port(p, len);
	bool has_port = port < len || (len > 0 && p[len - 1] == ':');
	int rc = 0;

	if (memchr(p, '@', len))
		return err_set(err, ERR_INVALID, at, "a URL must not carry a user name or password");
	if (has_port)
		rc = set_port(p + port, len - port, at, u, err);
	return rc < 0 ? rc : set_host(p, has_port ? port - 1 : len, at, u, err);
}

int url_parse_host_port(const char *text, const char *at, struct url *ret, struct err *err)
{
	struct url u = { .port = 0 };
	int rc = set_authority(text, strlen(text), at, &u, err);

	if (rc == 0 && u.port == 0)
		rc = err_set(err, ERR_INVALID, at, "the port is missing");
	if (rc == 0)
		*ret = u;
	return rc;
}

/* One character of a segment, %2e read as the dot that servers may make of it; *i moves behind it. */
static char next_of_segment(const char *p, size_t len, size_t *i)
{
	char c = p[(*i)++];

	if (c == '%' && *i + 1 < len && p[*i] == '2' && (p[*i + 1] | 0x20) == 'e') {
		*i += 2;
		return '.';
	}
	return c;
}

static bool is_dots(const char *p, size_t len)
{
	size_t dots = 0;

	for (size_t i = 0; i < len; ) {
		char c = next_of_segment(p, len, &i);

		if (c == ';')           /* parameters of a segment, which some servers drop first */
			break;
		if (c != '.')
			return false;
		dots++;
	}
	return dots == 1 || dots == 2;
}

static int check_segments(const char *p, size_t len, const char *at, struct err *err)
{
	for (size_t i = 0, start = 0; i <= len; i++) {
		if (i < len && p[i] != '/')
			continue;
		if (is_dots(p + start, i - start))
			return err_set(err, ERR_INVALID, at, "the path must not have . or .. as a segment");
		start = i + 1;
	}
	return 0;
}

int url_check_target(const char *p, size_t len, const char *at, struct err *err)
{
	const char *query = memchr(p, '?', len);

	for (size_t i = 0; i < len; i++) {
		if (p[i] == '#')
			return err_set(err, ERR_INVALID, at, "a URL must not have a fragment");
		if (p[i] <= ' ' || p[i] >= 0x7f || strchr("\"<>\\^`{|}", p[i]))
			return err_set(err, ERR_INVALID, at, "the URL has a character that must be written as %%XX");
		if (p[i] == '%' && (i + 2 >= len || !is_hex(p[i + 1]) || !is_hex(p[i + 2])))
			return err_set(err, ERR_INVALID, at, "a %% in a URL needs two hexadecimal digits after it");
	}
	return check_segments(p, query ? (size_t)(query - p) : len, at, err);
}

int url_parse(const char *text, size_t len, const char *at, struct url *ret, struct err *err)
{
	static const char http[] = "http://", https[] = "https://";
	struct url u = { .tls = false };
	size_t begin, end;

	if (len > URL_MAX)
		return err_set(err, ERR_LIMIT, at, "the URL is longer than %d bytes", URL_MAX);
	if (len >= sizeof(https) - 1 && memcmp(text, https, sizeof(https) - 1) == 0) {
		u.tls = true;
		begin = sizeof(https) - 1;
	} else if (len >= sizeof(http) - 1 && memcmp(text, http, sizeof(http) - 1) == 0) {
		begin = sizeof(http) - 1;
	} else {
		return err_set(err, ERR_INVALID, at, "must be a URL that begins with https:// or http://");
	}
	for (end = begin; end < len && !strchr("/?#\\", text[end]); end++)
		;
	u.port = u.tls ? 443 : 80;
	u.target = end;
	int rc = set_authority(text + begin, end - begin, at, &u, err);
	if (rc == 0)
		rc = url_check_target(text + end, len - end, at, err);
	if (rc == 0)
		*ret = u;
	return rc;
}

bool url_is_here(const struct url *u)
{
	return strcmp(u->host, "localhost") == 0 || (u->literal && addr_is_loopback(&u->addr));
}
