/* What the configuration says of the collector: where it is, what is said to it in headers, and who sends (OP-406);
 * read at a start, a reload and by --check-config.  And the life of all of it.  Loop thread, or before it is. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "conf/conf.h"
#include "otel/otlp.h"

#include "otel_int.h"

#define TRACES_PATH "/v1/traces"
#define INSTANCE_CHARS 22
#define MEM_MAX 4096
#define AT_ENDPOINT "otel.endpoint"
#define AT_RESOURCE "otel.resource"

/* --- where */

static int read_endpoint(struct otel_setup *s, const struct conf *conf, struct err *err)
{
	const char *endpoint = conf->otel_endpoint;
	size_t len = strlen(endpoint);
	int rc;

	while (len > 0 && endpoint[len - 1] == '/')
		len--;
	s->url = mem_printf("%.*s" TRACES_PATH, (int)(len < URL_MAX ? len : URL_MAX), endpoint);
	if (strchr(endpoint, '?'))
		rc = err_set(err, ERR_INVALID, AT_ENDPOINT, TRACES_PATH " is put behind it, so it has no query");
	else
		rc = url_parse(s->url, strlen(s->url), AT_ENDPOINT, &s->at, err);
	if (rc == 0)
		rc = fetch_policy_place(&s->at, conf->otel_ca, AT_ENDPOINT, s->mem, &s->allow, &s->policy, err);
	if (rc == 0 && conf->otel_headers_file && !s->at.tls && !url_is_here(&s->at))
		rc = err_set(err, ERR_INVALID, AT_ENDPOINT, "what otel.headers_file says is secret, and this is not https");
	if (rc < 0)
		(void)snprintf(err->where, sizeof(err->where), AT_ENDPOINT);
	return rc < 0 ? err_wrap(err, AT_ENDPOINT) : 0;
}

/* --- who */

static bool is_key(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] <= ' ' || p[i] >= 0x7f || strchr("\"=,;\\%", p[i]))
			return false;
	return len > 0 && len <= 128;
}

/* What stands in a text as %XX (the form of OTEL_RESOURCE_ATTRIBUTES). */
static bool decode(const char *p, size_t len, struct str *ret)
{
	for (size_t i = 0; i < len; i++) {
		char c = p[i];

		if (c == '%') {
			if (len - i < 3 || text_unhex(p + i + 1, 2, &c, 1) < 0)
				return false;
			i += 2;
		}
		str_putc(ret, c);
	}
	return text_utf8_valid(str_text(ret), ret->len) && ret->len <= OTLP_VALUE_MAX;
}

static int bad_resource(struct err *err, const char *p, size_t len, const char *why)
{
	return err_set(err, ERR_INVALID, AT_RESOURCE, "otel.resource: \"%.*s\" %s", (int)(len < 80 ? len : 80), p, why);
}

struct known { const char *key; bool given; };

static int read_pair(struct otel_setup *s, const char *p, size_t len, struct known *known, size_t nknown,
		     struct err *err)
{
	const char *equals = memchr(p, '=', len);
	struct str value = STR_INIT;
	char key[129];
	int rc = 0;

	if (!equals || !is_key(p, (size_t)(equals - p)))
		return bad_resource(err, p, len, "is no key=value");
	(void)snprintf(key, sizeof(key), "%.*s", (int)(equals - p), p);         /* is_key() */
	if (!decode(equals + 1, len - (size_t)(equals - p) - 1, &value))
		rc = bad_resource(err, p, len, "has a value that is no UTF-8 of at most 256 bytes, with %XX for , and %");
	else
		otlp_text_n(&s->resource, OTLP_RESOURCE_ATTRIBUTE, key, str_text(&value), value.len);
	for (size_t i = 0; i < nknown; i++)
		known[i].given |= strcmp(known[i].key, key) == 0;
	str_fini(&value);
	return rc;
}

static int read_resource(struct otel_setup *s, const struct conf *conf, struct err *err)
{
	struct known known[] = { { "service.name", false }, { "service.version", false }, { "service.instance.id", false } };
	char instance[INSTANCE_CHARS + 1];
	const char *p = conf->otel_resource;
	unsigned n = 0;

	while (p) {
		const char *comma = strchrnul(p, ',');

		if (++n > OTEL_RESOURCE_MAX)
			return err_set(err, ERR_INVALID, AT_RESOURCE, "otel.resource: at most %d attributes", OTEL_RESOURCE_MAX);
		if (read_pair(s, p, (size_t)(comma - p), known, NELEMS(known), err) < 0)
			return err->code;
		p = *comma ? comma + 1 : NULL;
	}
	id_random_text(instance, INSTANCE_CHARS);
	const char *const ours[] = { "toolcrib", PACKAGE_VERSION, instance };

	for (size_t i = 0; i < NELEMS(known); i++)
		if (!known[i].given)
			otlp_text(&s->resource, OTLP_RESOURCE_ATTRIBUTE, known[i].key, ours[i]);
	otlp_int(&s->resource, OTLP_RESOURCE_ATTRIBUTE, "process.pid", getpid());
	return 0;
}

/* --- headers */

/* "Name: value" in a line of its own, in place.  Neither is ever in a message. */
static int read_header(struct otel_headers *h, char *line, const char *file, unsigned number, struct err *err)
{
	char at[sizeof(err->where)], *colon = strchr(line, ':'), *value = colon ? colon + 1 : NULL, *end;

	(void)snprintf(at, sizeof(at), "%.140s:%u", file, number);
	if (!colon)
		return err_set(err, ERR_INVALID, at, "%s is no \"Name: value\"", at);
	if (h->n > OTEL_HEADERS_MAX)
		return err_set(err, ERR_INVALID, at, "%s: at most %d headers", at, OTEL_HEADERS_MAX);
	*colon = '\0';
	while (*value == ' ' || *value == '\t')
		value++;
	for (end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'); end--)
		;
	*end = '\0';
	if (strcasecmp(line, "content-type") == 0 || fetch_check_header_name(line, at, NULL) < 0 ||
	    fetch_check_header_value(value, strlen(value), at, NULL) < 0)
		return err_set(err, ERR_INVALID, at, "%s: this cannot be a header here", at);
	h->header[h->n++] = (struct fetch_header){ line, value };
	return 0;
}

static int read_headers(struct otel_headers *h, const char *file, struct err *err)
{
	unsigned number = 0;
	int rc;

	h->header[h->n++] = (struct fetch_header){ "content-type", OTLP_CONTENT_TYPE };
	if (!file)
		return 0;
	rc = path_read_as(file, PATH_SECRET, OTEL_HEADERS_FILE_MAX, &h->text, err);
	if (rc == 0 && memchr(str_text(&h->text), '\0', h->text.len))
		rc = err_set(err, ERR_INVALID, file, "%s is no text", file);
	for (char *line = h->text.p, *next; rc == 0 && line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		if (line[strspn(line, " \t\r")] != '\0' && *line != '#')
			rc = read_header(h, line, file, number, err);
	}
	return rc < 0 ? err_wrap(err, "otel.headers_file") : 0;
}

/* --- all of it */

int otel_setup_load(const struct conf *conf, struct otel_setup **ret, struct err *err)
{
	struct otel_setup *s = mem_zalloc(sizeof(*s));
	int rc;

	s->mem = arena_new(MEM_MAX);
	s->headers.text = (struct str)STR_SECRET_INIT;
	rc = read_endpoint(s, conf, err);
	if (rc == 0)
		rc = read_resource(s, conf, err);
	if (rc == 0)
		rc = read_headers(&s->headers, conf->otel_headers_file, err);
	if (rc < 0) {
		otel_setup_free(&s);
		return rc;
	}
	*ret = s;
	return 0;
}

void otel_setup_free(struct otel_setup **sp)
{
	struct otel_setup *s = *sp;

	if (!s)
		return;
	*sp = NULL;
	str_wipe(&s->headers.text);
	str_fini(&s->resource);
	arena_free(&s->mem);
	free(s->url);
	free(s);
}

/* --- life */

struct otel *otel_new(const struct otel_env *env, struct otel_setup **setup)
{
	struct otel *o = mem_zalloc(sizeof(*o));

	o->env = *env;
	o->setup = *setup;
	*setup = NULL;
	o->shares = map_new();
	otel_queue_open(o);
	return o;
}

void otel_renew(struct otel *o, struct otel_setup **next)
{
	struct otel_headers headers;

	if (!*next)
		return;
	headers = o->setup->headers;    /* a request under way has its own copy */
	o->setup->headers = (*next)->headers;
	(*next)->headers = headers;
	otel_setup_free(next);
}

void otel_free(struct otel **op)
{
	struct otel *o = *op;

	if (!o)
		return;
	*op = NULL;
	otel_queue_close(o);
	otel_spans_free(o);
	str_fini(&o->scratch);
	otel_setup_free(&o->setup);
	free(o);
}

void otel_describe(const struct otel *o, struct str *ret)
{
	str_printf(ret, "%s: %" PRIu64 " spans sent, %u wait, %" PRIu64 " dropped%s%s", o->setup->url,
		   metric_get(METRIC_otel_spans_sent), o->waiting,
		   metric_get(METRIC_otel_spans_dropped) + metric_get(METRIC_otel_spans_lost) +
			   metric_get(METRIC_otel_spans_rejected),
		   o->why[0] ? "; not taken now: " : "", o->why);
}
