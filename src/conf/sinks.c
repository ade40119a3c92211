/* The list of sinks: a map each, whose keys depend on its type.  Files and hosts are named only; nothing is opened
 * here (sink/sink.h looks at them). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"

#include "conf_int.h"

#define SINKS_AT "/" CONF_SINKS
#define ROTATE_BYTES_MIN 4096
#define ROTATE_BYTES_MAX (UINT64_C(1) << 40)
#define ROTATE_KEEP_MAX 10000
#define ROTATE_KEEP_DEFAULT 20
#define KIND_BYTES_MAX 64
#define REGION_MAX 64
#define LOCK_DAYS_MAX 3650              /* what is locked for longer by mistake outlives who did it */
#define SEGMENT_RECORDS_DEFAULT 10000
#define SEGMENT_RECORDS_MAX 65536
#define SEGMENT_BYTES_MIN (UINT64_C(64) << 10)
#define SEGMENT_BYTES_DEFAULT (UINT64_C(16) << 20)
#define SEGMENT_BYTES_MAX (UINT64_C(64) << 20)
#define SEGMENT_MS_MIN 1000
#define SEGMENT_MS_DEFAULT 3600000
#define SEGMENT_MS_MAX (UINT64_C(2592000) * 1000)
#define RESEND_MS_DEFAULT 30000
#define PEN_DEFAULT 32473               /* of examples (RFC 5612): none is ours (OP-333) */

static const char *const type_names[CONF_SINK_TYPES] = { [CONF_SINK_FILE] = "file", [CONF_SINK_WEBHOOK] = "webhook",
							  [CONF_SINK_SYSLOG] = "syslog", [CONF_SINK_HEC] = "hec",
							  [CONF_SINK_OTLP] = "otlp", [CONF_SINK_S3] = "s3" };

const char *conf_sink_type_name(enum conf_sink_type type)
{
	return type_names[type];
}

/* A kind of records, or several with * and ?. */
static bool is_kind(const char *text, size_t len)
{
	return len > 0 && len <= KIND_BYTES_MAX && strspn(text, "abcdefghijklmnopqrstuvwxyz_.*?") == len;
}

static int read_time(const json_t *obj, const char *at, const char *name, uint64_t least_ms, uint64_t most_ms,
		     const char *range, uint64_t *ret_ms, struct err *err)
{
	const char *text = NULL;

	if (jx_get_string(obj, at, name, JX_OPTIONAL, &text, err) < 0)
		return conf_named(err);
	if (text && (text_duration_ms(text, ret_ms) < 0 || *ret_ms < least_ms || *ret_ms > most_ms))
		return conf_err(err, at, name, "%s must be a time from %s, is \"%s\"", name, range, text);
	return 0;
}

/* What all types have. */
static int read_common(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	static const char *const formats[] = { [CONF_SINK_JSONL] = "jsonl", [CONF_SINK_OCSF] = "ocsf",
					       [CONF_SINK_CEF] = "cef" };
	static const char *const names[] = { "pseudonym", "clear" }, *const from[] = { "begin", "now" };
	static const struct conf_texts kinds = { "kinds", CONF_SINK_KINDS_MAX, is_kind,
					    "no kind of records, like call.end or auth.*" };
	static const struct conf_texts tenants = { "tenants", CONF_SINK_TENANTS_MAX, text_entity_name,
					      "no name of a tenant: lower-case letters, digits, _ . -" };
	unsigned format = s->format, clear = 0, now = 0;

	if (conf_read_word(obj, at, "format", formats, NELEMS(formats), JX_OPTIONAL, &format, err) < 0 ||
	    conf_read_word(obj, at, "names", names, NELEMS(names), JX_OPTIONAL, &clear, err) < 0 ||
	    conf_read_word(obj, at, "from", from, NELEMS(from), JX_OPTIONAL, &now, err) < 0 ||
	    read_time(obj, at, "required", CONF_SINK_REQUIRED_MS_MIN, CONF_SINK_REQUIRED_MS_MAX, "5s to 30d", &s->required_ms,
		      err) < 0 ||
	    conf_read_texts(obj, at, &kinds, &s->kinds, &s->nkinds, err) < 0 ||
	    conf_read_texts(obj, at, &tenants, &s->tenants, &s->ntenants, err) < 0)
		return err->code;
	s->format = (enum conf_sink_format)format;
	s->clear = clear == 1;
	s->from_now = now == 1;
	s->system = s->ntenants == 0;
	return conf_read_yes(obj, at, "system", &s->system, err);
}

/* --- type file */

/* A number, or a text with a unit. */
static int read_size(const json_t *obj, const char *at, const char *name, uint64_t least, uint64_t most,
		     const char *range, uint64_t *ret, struct err *err)
{
	const json_t *value = json_object_get(obj, name);
	const bool whole = json_is_integer(value) && json_integer_value(value) > 0;

	*ret = whole ? (uint64_t)json_integer_value(value) : 0;
	if ((whole || (json_is_string(value) && text_size(json_string_value(value), ret) == 0)) &&
	    *ret >= least && *ret <= most)
		return 0;
	return conf_err(err, at, name, "%s must be a size from %s", name, range);
}

static int read_rotate(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	static const char *const known[] = { "bytes", "keep" };
	json_t *block = NULL;
	char *here;
	int64_t keep = ROTATE_KEEP_DEFAULT;
	int rc = jx_get_object(obj, at, "rotate", JX_OPTIONAL, &block, err);

	if (rc < 0)
		return conf_named(err);
	if (!block)
		return 0;
	here = mem_printf("%s/rotate", at);
	if (jx_only(block, here, known, NELEMS(known), err) < 0 ||
	    jx_get_int(block, here, "keep", JX_OPTIONAL, 1, ROTATE_KEEP_MAX, &keep, err) < 0)
		rc = conf_named(err);
	else
		rc = read_size(block, here, "bytes", ROTATE_BYTES_MIN, ROTATE_BYTES_MAX, "4KiB to 1024GiB, like 256MiB",
			       &s->rotate_bytes, err);
	s->rotate_keep = (uint32_t)keep;
	free(here);
	return rc;
}

static int read_file(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	const char *path = NULL;
	size_t len;

	if (jx_get_string(obj, at, "path", JX_REQUIRED, &path, err) < 0)
		return conf_named(err);
	len = strlen(path);
	if (*path != '/' || path[len - 1] == '/')
		return conf_err(err, at, "path", "\"%s\" must be the absolute path of a file", path);
	s->path = mem_strdup(path);
	return read_rotate(obj, at, s, err);
}

/* --- type webhook */

static int read_place(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	const char *url = NULL;

	if (jx_get_string(obj, at, "url", JX_REQUIRED, &url, err) < 0)
		return conf_named(err);
	s->url = mem_strdup(url);
	return conf_read_path(obj, at, "ca", JX_OPTIONAL, &s->ca, err);
}

static int read_webhook(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	int rc = read_place(obj, at, s, err);

	return rc ? rc : conf_read_path(obj, at, "secret_file", JX_REQUIRED, &s->secret_file, err);
}

/* --- types hec, otlp: a path is put behind the URL */

static int read_base(const json_t *obj, const char *at, struct conf_sink *s, const char *file, enum jx_need need,
		     struct err *err)
{
	int rc = read_place(obj, at, s, err);

	if (rc == 0 && strpbrk(s->url, "?#"))
		return conf_err(err, at, "url", "a path is put behind the URL, so it has no ? and no #");
	return rc ? rc : conf_read_path(obj, at, file, need, &s->secret_file, err);
}

static int read_hec(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	int rc = read_base(obj, at, s, "token_file", JX_REQUIRED, err);

	if (rc == 0 && s->format == CONF_SINK_CEF)
		return conf_err(err, at, "format", "events of type hec are JSON: jsonl or ocsf");
	return rc ? rc : conf_read_yes(obj, at, "ack", &s->ack, err);
}

static int read_otlp(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	return read_base(obj, at, s, "authorization_file", JX_OPTIONAL, err);
}

/* --- type s3 */

static int read_lock(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	static const char *const known[] = { "mode", "days" }, *const modes[] = { "compliance", "governance" };
	json_t *block = NULL;
	unsigned mode = 0;
	int64_t days = 0;
	char *here;
	int rc = jx_get_object(obj, at, "lock", JX_OPTIONAL, &block, err);

	if (rc < 0)
		return conf_named(err);
	if (!block)
		return 0;
	here = mem_printf("%s/lock", at);
	if (jx_only(block, here, known, NELEMS(known), err) < 0 ||
	    jx_get_int(block, here, "days", JX_REQUIRED, 1, LOCK_DAYS_MAX, &days, err) < 0)
		rc = conf_named(err);
	else
		rc = conf_read_word(block, here, "mode", modes, NELEMS(modes), JX_REQUIRED, &mode, err);
	s->lock_days = (uint32_t)days;
	s->lock_governance = mode == 1;
	free(here);
	return rc;
}

static int read_segment(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	static const char *const known[] = { "records", "bytes", "age" };
	json_t *block = NULL;
	int64_t records = SEGMENT_RECORDS_DEFAULT;
	char *here;
	int rc = jx_get_object(obj, at, "segment", JX_OPTIONAL, &block, err);

	s->segment_records = SEGMENT_RECORDS_DEFAULT;
	s->segment_bytes = SEGMENT_BYTES_DEFAULT;
	s->segment_ms = SEGMENT_MS_DEFAULT;
	if (rc < 0)
		return conf_named(err);
	if (!block)
		return 0;
	here = mem_printf("%s/segment", at);
	if (jx_only(block, here, known, NELEMS(known), err) < 0 ||
	    jx_get_int(block, here, "records", JX_OPTIONAL, 1, SEGMENT_RECORDS_MAX, &records, err) < 0)
		rc = conf_named(err);
	else if (json_object_get(block, "bytes"))
		rc = read_size(block, here, "bytes", SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX, "64KiB to 64MiB", &s->segment_bytes,
			       err);
	if (rc == 0)
		rc = read_time(block, here, "age", SEGMENT_MS_MIN, SEGMENT_MS_MAX, "1s to 30d", &s->segment_ms, err);
	s->segment_records = (uint32_t)records;
	free(here);
	return rc;
}

static int read_s3(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	const char *region = NULL;
	size_t len;

	if (read_base(obj, at, s, "key_file", JX_REQUIRED, err) < 0)
		return err->code;
	if (jx_get_string(obj, at, "region", JX_REQUIRED, &region, err) < 0)
		return conf_named(err);
	len = strlen(region);
	if (len == 0 || len > REGION_MAX || strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != len)
		return conf_err(err, at, "region", "\"%s\" is no region, like eu-central-1", region);
	s->region = mem_strdup(region);
	if (read_lock(obj, at, s, err) < 0 || read_segment(obj, at, s, err) < 0)
		return err->code;
	if (s->required_ms > 0 && s->required_ms <= s->segment_ms)
		return conf_err(err, at, "required", "required must be longer than the age of a segment, which waits so long");
	return 0;
}

/* --- type syslog */

/* Whether the address may be reached without TLS is sink/sink.h's question. */
static int read_syslog(const json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	static const char *const words[] = { "on", "off" };
	const char *address = NULL;
	unsigned off = 0;
	int64_t pen = PEN_DEFAULT;

	s->resend_ms = RESEND_MS_DEFAULT;
	if (jx_get_string(obj, at, "address", JX_REQUIRED, &address, err) < 0 ||
	    jx_get_int(obj, at, "pen", JX_OPTIONAL, 1, UINT32_MAX, &pen, err) < 0)
		return conf_named(err);
	s->address = mem_strdup(address);
	s->pen = (uint32_t)pen;
	if (conf_read_word(obj, at, "tls", words, NELEMS(words), JX_OPTIONAL, &off, err) < 0 ||
	    read_time(obj, at, "resend", CONF_SINK_RESEND_MS_MIN, CONF_SINK_RESEND_MS_MAX, "1s to 10m",
		      &s->resend_ms, err) < 0 ||
	    conf_read_path(obj, at, "ca", JX_OPTIONAL, &s->ca, err) < 0 ||
	    conf_read_path(obj, at, "cert", JX_OPTIONAL, &s->cert, err) < 0 ||
	    conf_read_path(obj, at, "key", JX_OPTIONAL, &s->key, err) < 0)
		return err->code;
	s->clear_text = off == 1;
	if (!s->cert != !s->key)
		return conf_err(err, at, s->cert ? "cert" : "key", "cert and key belong together: one is not there");
	if (s->clear_text && (s->ca || s->cert))
		return conf_err(err, at, "tls", "tls: off has no use for ca, cert and key");
	return 0;
}

/* --- the list */

#define KEYS_OF_ALL "name", "type", "format", "kinds", "tenants", "system", "names", "from", "required"

static const struct type {
	int (*read)(const json_t *obj, const char *at, struct conf_sink *s, struct err *err);
	const char *const *known; size_t nknown;
} types[CONF_SINK_TYPES] = {
	[CONF_SINK_FILE] = { read_file, (const char *const[]){ KEYS_OF_ALL, "path", "rotate" }, 11 },
	[CONF_SINK_WEBHOOK] = { read_webhook, (const char *const[]){ KEYS_OF_ALL, "url", "ca", "secret_file" }, 12 },
	[CONF_SINK_SYSLOG] = { read_syslog, (const char *const[]){ KEYS_OF_ALL, "address", "tls", "ca", "cert", "key",
								  "resend", "pen" }, 16 },
	[CONF_SINK_HEC] = { read_hec, (const char *const[]){ KEYS_OF_ALL, "url", "ca", "token_file", "ack" }, 13 },
	[CONF_SINK_OTLP] = { read_otlp, (const char *const[]){ KEYS_OF_ALL, "url", "ca", "authorization_file" }, 12 },
	/* No format, kinds and names: a bundle has all that a log has. */
	[CONF_SINK_S3] = { read_s3, (const char *const[]){ "name", "type", "tenants", "system", "from", "required", "url",
							  "ca", "key_file", "region", "lock", "segment" }, 12 },
};

static int read_sink(json_t *obj, const char *at, struct conf_sink *s, struct err *err)
{
	const char *name = NULL;
	struct str text = STR_INIT;
	unsigned type = 0;

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at, "must be a map with name, type and what belongs to that type");
	if (jx_get_string(obj, at, "name", JX_REQUIRED, &name, err) < 0)
		return conf_named(err);
	if (!text_entity_name(name, strlen(name)) || strlen(name) > CONF_SINK_NAME_MAX)
		return conf_err(err, at, "name", "\"%s\" is no name of at most %d bytes: lower-case letters, digits, _ . -", name,
				CONF_SINK_NAME_MAX);
	s->name = mem_strdup(name);
	if (conf_read_word(obj, at, "type", type_names, NELEMS(type_names), JX_REQUIRED, &type, err) < 0)
		return err->code;
	s->type = (enum conf_sink_type)type;
	if (jx_only(obj, at, types[type].known, types[type].nknown, err) < 0)
		return conf_named(err);
	if (read_common(obj, at, s, err) < 0)
		return err->code;
	if (types[type].read(obj, at, s, err) < 0)
		return err->code;
	if (s->url)
		conf_hide_url(obj, s->url);
	jx_write_canon(obj, &text);
	s->text = str_take(&text);
	return 0;
}

/* Two that write into one file would cut each other's lines. */
static int check_others(const struct conf *c, const char *at, struct err *err)
{
	const struct conf_sink *s = &c->sinks[c->nsinks - 1];

	for (const struct conf_sink *o = c->sinks; o < s; o++) {
		if (strcmp(o->name, s->name) == 0)
			return conf_err(err, at, "name", "%s is there twice", s->name);
		if (o->path && s->path && strcmp(o->path, s->path) == 0)
			return conf_err(err, at, "path", "%s is the file of sink %s", s->path, o->name);
	}
	return 0;
}

int conf_sinks_read(const json_t *list, struct conf *c, struct err *err)
{
	json_t *item;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > CONF_SINKS_MAX)
		return err_set(err, ERR_INVALID, SINKS_AT, "must be a list of at most %d sinks", CONF_SINKS_MAX);
	c->sinks = mem_calloc(json_array_size(list) + 1, sizeof(*c->sinks));
	json_array_foreach(list, i, item) {
		char *at = mem_printf(SINKS_AT "/%zu", i);
		int rc = read_sink(item, at, &c->sinks[c->nsinks++], err);

		rc = rc ? rc : check_others(c, at, err);
		free(at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void conf_sinks_free(struct conf *c)
{
	for (size_t i = 0; i < c->nsinks; i++) {
		struct conf_sink *s = &c->sinks[i];

		for (size_t k = 0; k < s->nkinds; k++)
			free(s->kinds[k]);
		for (size_t k = 0; k < s->ntenants; k++)
			free(s->tenants[k]);
		free(s->kinds);
		free(s->tenants);
		free(s->name);
		free(s->path);
		free(s->url);
		free(s->ca);
		free(s->secret_file);
		free(s->region);
		free(s->address);
		free(s->cert);
		free(s->key);
		free(s->text);
	}
	free(c->sinks);
	c->sinks = NULL;
	c->nsinks = 0;
}

void conf_sinks_sample(struct str *out)
{
	str_puts(out,
		 "\n# Where copies of records go, which the server carries there by itself.\n"
		 "# type: file, webhook, syslog, hec, otlp or s3.  kinds, tenants: all, and the system log, where they are missing.\n"
		 "# names: pseudonym, or clear, which stays there when somebody is erased here.\n"
		 "# See SINKS in toolcribd.yaml(5).  Needs a restart.\n"
		 "#sinks:\n"
		 "#  - {name: local, type: file, path: /var/log/toolcrib/audit.jsonl, rotate: {bytes: 256MiB, keep: 20}}\n"
		 "#  - {name: acme, type: file, path: /var/log/toolcrib/acme.jsonl, tenants: [acme], kinds: [call.*, auth.*], "
		 "format: ocsf}\n"
		 "#  - {name: hook, type: webhook, url: \"https://ops.example.com/hook\", secret_file: "
		 "/etc/toolcrib/hook.secret}\n"
		 "#  - {name: siem, type: syslog, address: \"siem.example.com:6514\", ca: /etc/toolcrib/siem.crt}\n");
}
