/* toolcribd.yaml: the scalar keys, one row of conf.def each; each list has a file of its own.  Read at the start and at
 * each reload, on the loop's thread or before it. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "json/json.h"
#include "json/yaml.h"

#include "conf_int.h"

#define CONF_FILE_MAX (1u << 20)
#define CONF_FILE "toolcribd.yaml"

enum row_type { ROW_UINT, ROW_TEXT };
enum row_reload { LIVE, START };

struct row {
	const char *key, *unit;         /* unit of a number, choices of a text */
	enum row_type type;
	enum row_reload reload;
	uint32_t min, max, def;
	const char *def_text;
	size_t offset;                  /* in struct conf */
	const char *help;
};

static const struct row rows[] = {
#define CONF_UINT(member, key, unit, min, max, def, reload, help) \
	{ key, unit, ROW_UINT, reload, min, max, def, NULL, offsetof(struct conf, member), help },
#define CONF_TEXT(member, key, choices, def, reload, help) \
	{ key, choices, ROW_TEXT, reload, 0, 0, 0, def, offsetof(struct conf, member), help },
#include "conf/conf.def"
#undef CONF_UINT
#undef CONF_TEXT
};

static uint32_t *uint_of(struct conf *c, const struct row *row)
{
	return (uint32_t *)(void *)((char *)c + row->offset);
}

static char **text_of(struct conf *c, const struct row *row)
{
	return (char **)(void *)((char *)c + row->offset);
}

static void set_text(char **at, const char *value)
{
	char *copy = mem_strdup0(value);

	free(*at);
	*at = copy;
}

static struct conf *conf_new(void)
{
	struct conf *c = mem_zalloc(sizeof(*c));

	c->lists = json_object();
	c->places = mem_calloc(NELEMS(rows), sizeof(*c->places));
	for (size_t i = 0; i < NELEMS(rows); i++) {
		if (rows[i].type == ROW_UINT)
			*uint_of(c, &rows[i]) = rows[i].def;
		else
			set_text(text_of(c, &rows[i]), rows[i].def_text);
	}
	return c;
}

void conf_free(struct conf **cp)
{
	struct conf *c = cp ? *cp : NULL;

	if (!c)
		return;
	for (size_t i = 0; i < NELEMS(rows); i++) {
		if (rows[i].type == ROW_TEXT)
			free(*text_of(c, &rows[i]));
		free(c->places[i]);
	}
	free(c->places);
	json_decref(c->lists);
	conf_list_free(c);
	conf_roles_free(c);
	conf_oauth_free(c);
	conf_sinks_free(c);
	conf_alerts_free(c);
	conf_pdps_free(c);
	free(c->file);
	free(c);
	*cp = NULL;
}

/* Is value one of "a|b|c"?  A placeholder "<…>" takes any text but the empty one. */
static bool is_choice(const char *choices, const char *value)
{
	size_t len = strlen(value);

	if (*choices == '<')
		return len > 0;
	for (const char *p = choices; *p; ) {
		size_t n = strcspn(p, "|");

		if (n == len && memcmp(p, value, n) == 0)
			return true;
		p += n + (p[n] == '|');
	}
	return false;
}

static int read_row(struct conf *c, const struct row *row, const json_t *obj, const char *at, const char *name,
		    struct err *err)
{
	const char *text = NULL;
	int64_t n = 0;
	int rc;

	if (row->type == ROW_UINT) {
		rc = jx_get_int(obj, at, name, JX_REQUIRED, row->min, row->max, &n, err);
		if (rc == 0)
			*uint_of(c, row) = (uint32_t)n;
		return rc < 0 ? err_wrap(err, "%s (%s)", row->key, row->unit) : 0;
	}
	rc = jx_get_string(obj, at, name, JX_REQUIRED, &text, err);
	if (rc < 0)
		return err_wrap(err, "%s", row->key);
	if (!is_choice(row->unit, text)) {
		return conf_err(err, at, name, "%s must be %s%s, is \"%s\"", row->key,
			      *row->unit == '<' ? "a " : "one of ", row->unit, text);
	}
	set_text(text_of(c, row), text);
	return 0;
}

/* The row with this very key, or NULL; *ret_group says whether keys lie below it ("audit"). */
static const struct row *row_find(const char *key, bool *ret_group)
{
	size_t len = strlen(key);

	*ret_group = false;
	for (size_t i = 0; i < NELEMS(rows); i++) {
		if (strcmp(rows[i].key, key) == 0)
			return &rows[i];
		if (strncmp(rows[i].key, key, len) == 0 && rows[i].key[len] == '.')
			*ret_group = true;
	}
	return NULL;
}

static const struct list {
	const char *key;
	int (*read)(const json_t *value, struct conf *c, struct err *err);
} lists[] = {
	{ CONF_LISTENERS, conf_list_read }, { CONF_ROLES, conf_roles_read }, { CONF_ISSUERS, conf_oauth_read },
	{ CONF_SINKS, conf_sinks_read }, { CONF_ALERTS, conf_alerts_read }, { CONF_PDPS, conf_pdps_read },
};

static const struct list *list_find(const char *key)
{
	for (size_t i = 0; i < NELEMS(lists); i++)
		if (strcmp(lists[i].key, key) == 0)
			return &lists[i];
	return NULL;
}

static int unknown_key(const char *at, const char *name, const char *key, struct err *err)
{
	const char *keys[NELEMS(rows) + NELEMS(lists)];
	const char *near;
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < NELEMS(rows); i++)
		keys[n++] = rows[i].key;
	for (size_t i = 0; i < NELEMS(lists); i++)
		keys[n++] = lists[i].key;
	rc = conf_err(err, at, name, "unknown key %s", key);
	near = text_nearest(key, keys, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	return rc;
}

/* One level of the document: top (prefix "") or a group of keys ("audit."). */
static int read_level(struct conf *c, const json_t *obj, const char *at, const char *prefix, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)obj, name, value) {
		char *key = mem_printf("%s%s", prefix, name);
		bool group;
		const struct row *row = row_find(key, &group);
		int rc = 0;

		if (row) {
			rc = read_row(c, row, obj, at, name, err);
		} else if (group && !*prefix) {
			char *below = mem_printf("/%s", name);
			char *dotted = mem_printf("%s.", name);

			if (json_is_object(value))
				rc = read_level(c, value, below, dotted, err);
			else
				rc = err_set(err, ERR_INVALID, below, "%s must be a map", key);
			free(below);
			free(dotted);
		} else if (list_find(key)) {
			rc = list_find(key)->read(value, c, err);
			(void)json_object_set(c->lists, key, value);
		} else {
			rc = unknown_key(at, name, key, err);
		}
		free(key);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Whether the endpoint is one is for who asks it (otel/otel.h). */
static int conf_otel_check(const struct conf *c, struct err *err)
{
	const char *lone = c->otel_headers_file ? "headers_file" : c->otel_ca ? "ca" : c->otel_resource ? "resource" : NULL;

	return c->otel_endpoint || !lone ? 0 : conf_err(err, "/otel", lone, "it is for otel.endpoint, which is missing");
}

static int conf_audit_check(const struct conf *c, struct err *err)
{
	uint32_t s;

	return strcmp(c->verify_at, "none") == 0 || text_time_of_day(c->verify_at, &s) == 0 ? 0 :
		conf_err(err, "/audit", "verify_at",
			 "audit.verify_at must be a time of the day, such as \"03:00\", or none, is \"%s\"", c->verify_at);
}

/* Paths in the catalog of sealed files begin with it. */
static int check_archive(const struct conf *c, struct err *err)
{
	const char *dir = c->audit_archive;
	const size_t n = dir ? strlen(dir) : 0;

	return !dir || (path_is_plain(dir, n) && n <= CONF_ARCHIVE_MAX && strcmp(strrchr(dir, '/'), "/segments") != 0) ? 0 :
		conf_err(err, "/audit", "archive", "audit.archive must be an absolute path of at most %d bytes, without \".\", "
			 "\"..\" or a / at its end, and not called segments as the folder of a store, is \"%.80s\"",
			 CONF_ARCHIVE_MAX, dir);
}

/* "https://host[:port][/path]", as it stands in front of every address that the console writes (CONSOLE C-408). */
static bool is_console_url(const char *url)
{
	static const char name[] = "abcdefghijklmnopqrstuvwxyz0123456789.-", segment[] = "abcdefghijklmnopqrstuvwxyz"
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	const char *p = url + strlen("https://");
	size_t n;

	if (strlen(url) > CONF_CONSOLE_URL_MAX || strncmp(url, "https://", strlen("https://")) != 0 || strspn(p, name) == 0)
		return false;
	p += strspn(p, name);
	if (*p == ':') {
		n = strspn(p + 1, "0123456789");
		if (n < 1 || n > 5)
			return false;
		p += 1 + n;
	}
	while (*p == '/' && strspn(p + 1, segment) > 0)
		p += 1 + strspn(p + 1, segment);
	return *p == '\0';
}

/* Plain HTTP, which no other machine may see (CONSOLE C-305). */
static int check_console(const struct conf *c, struct err *err)
{
	if (c->console_url && !c->console_listen)
		return conf_err(err, "/console", "url", "it is for console.listen, which is missing");
	if (c->console_url && !is_console_url(c->console_url))
		return conf_err(err, "/console", "url", "console.url must be https://host[:port][/path], in lower case and without a "
				"/ at its end, of at most %d bytes, is \"%.80s\"", CONF_CONSOLE_URL_MAX, c->console_url);
	if (!c->console_listen || conf_is_loopback(c->console_listen))
		return 0;
	(void)conf_err(err, "/console", "listen", "the console is for this machine alone, and \"%.80s\" is no address of it",
		       c->console_listen);
	err_hint(err, "listen on 127.0.0.1:8811, and reach it from elsewhere with ssh -L 8811:127.0.0.1:8811");
	return ERR_INVALID;
}

static int read_root(struct conf *c, const json_t *root, struct err *err)
{
	int rc = read_level(c, root, "", "", err);

	conf_roles_join(c);
	if (rc == 0)
		rc = conf_admin_check(c, err);
	if (rc == 0)
		rc = conf_metrics_check(c, err);
	if (rc == 0)
		rc = check_console(c, err);
	if (rc == 0)
		rc = conf_otel_check(c, err);
	if (rc == 0)
		rc = conf_audit_check(c, err);
	if (rc == 0)
		rc = check_archive(c, err);
	return rc < 0 ? rc : conf_oauth_check(c, err);
}

/* Where each key stands, for who finds a fault in its value later. */
static void note_places(struct conf *c, const struct yaml_docs *docs)
{
	for (size_t i = 0; i < NELEMS(rows); i++) {
		const char *dot = strchr(rows[i].key, '.');
		char *group = mem_strndup(rows[i].key, dot ? (size_t)(dot - rows[i].key) : 0);
		const json_t *level = dot ? json_object_get(yaml_root(docs, 0), group) : yaml_root(docs, 0);
		const char *name = dot ? dot + 1 : rows[i].key;
		char *at = mem_printf("%s%s/%s", dot ? "/" : "", group, name), where[sizeof(((struct err *)0)->where)];

		if (json_object_get(level, name)) {
			yaml_where(docs, 0, at, where, sizeof(where));
			set_text(&c->places[i], where);
		}
		free(group);
		free(at);
	}
}

const char *conf_where(const struct conf *c, const char *key)
{
	for (size_t i = 0; i < NELEMS(rows); i++)
		if (strcmp(rows[i].key, key) == 0 && c->places[i])
			return c->places[i];
	return c->file ? c->file : "";
}

static int read_file(struct conf *c, const char *file, struct err *err)
{
	struct str text = STR_INIT;
	struct yaml_docs *docs = NULL;
	json_t *root;
	int rc = path_read(file, CONF_FILE_MAX, &text, err);

	if (rc == 0 && text.len == 0)   /* a disk was full, an editor died; the defaults are what a comment says */
		rc = err_set(err, ERR_INVALID, file, "the file is empty; for the defaults write a comment, or name no file");
	if (rc < 0)
		goto out;
	digest_sha256(str_text(&text), text.len, c->digest);
	rc = yaml_load(file, str_text(&text), text.len, &docs, err);
	if (rc < 0)
		goto out;
	if (yaml_count(docs) == 0)
		goto out;               /* a file of comments only: the defaults */
	root = yaml_root(docs, 0);
	if (yaml_count(docs) > 1)
		rc = err_set(err, ERR_INVALID, file, "more than one document");
	else if (json_is_object(root))
		rc = read_root(c, root, err);
	else if (!json_is_null(root))
		rc = err_set(err, ERR_INVALID, "", "must be a map of keys, is %s", jx_type_name(root));
	if (rc < 0 && err && yaml_count(docs) == 1) {
		char where[sizeof(err->where)];

		yaml_where(docs, 0, err->where, where, sizeof(where));
		memcpy(err->where, where, sizeof(where));
	}
	if (rc == 0)
		note_places(c, docs);
out:
	yaml_free(&docs);
	str_fini(&text);
	return rc;
}

int conf_digest(const char *file, uint8_t ret[32], struct err *err)
{
	struct str text = STR_INIT;
	int rc = path_read(file, CONF_FILE_MAX, &text, err);

	if (rc == 0)
		digest_sha256(text.p, text.len, ret);
	str_fini(&text);
	return rc;
}

/* The first default file that exists, or NULL; free() it. */
static char *default_file(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *file = mem_strdup(SYSCONFDIR "/toolcrib/" CONF_FILE);

	if (path_exists(file))
		return file;
	free(file);
	file = NULL;
	if (config && *config == '/')
		file = mem_printf("%s/toolcrib/" CONF_FILE, config);
	else if (home && *home == '/')
		file = mem_printf("%s/.config/toolcrib/" CONF_FILE, home);
	if (file && !path_exists(file)) {
		free(file);
		file = NULL;
	}
	return file;
}

int conf_load(const char *file, struct conf **ret, struct err *err)
{
	struct conf *c = conf_new();
	int rc = 0;

	c->file = file ? mem_strdup(file) : default_file();
	if (c->file)
		rc = read_file(c, c->file, err);
	if (rc < 0) {
		conf_free(&c);
		return rc;
	}
	if (c->nlisteners == 0)
		conf_list_default(c);
	*ret = c;
	return 0;
}

static const char *example_of(const struct row *row)
{
	static const char *const like[][2] = { { "store", "/var/lib/toolcrib" }, { "user", "crib" }, { "files", "/srv" },
		{ "signer.dir", "/var/lib/toolcrib-sign" }, { "signer.socket", "/run/toolcrib-sign/sign.sock" },
		{ "audit.archive", "/mnt/archive" },
		{ "anchor.file", "/mnt/elsewhere/notes" }, { "anchor.cmd", "/usr/local/bin/keep-note" },
		{ "approve.notify", "/usr/local/bin/ask-finance" },
		{ "admin.cert", "/etc/toolcrib/admin.crt" }, { "admin.key", "/etc/toolcrib/admin.key" },
		{ "admin.listen", "127.0.0.1:8810" }, { "admin.socket", "/run/toolcrib/admin.sock" },
		{ "metrics.listen", "127.0.0.1:9464" }, { "metrics.cert", "/etc/toolcrib/metrics.crt" },
		{ "metrics.key", "/etc/toolcrib/metrics.key" }, { "metrics.token_file", "/etc/toolcrib/metrics.token" },
		{ "console.listen", "127.0.0.1:8811" },
		{ "otel.endpoint", "https://otel.example.com:4318" }, { "otel.headers_file", "/etc/toolcrib/otel.headers" },
		{ "otel.ca", "/etc/toolcrib/otel-ca.crt" }, { "otel.resource", "deployment.environment.name=prod" } };

	for (size_t i = 0; i < NELEMS(like); i++)
		if (strcmp(row->key, like[i][0]) == 0)
			return like[i][1];
	return strcmp(row->unit, "<URL>") == 0 ? "https://tools.example.com" : row->unit;
}

static void sample_row(struct str *out, const struct row *row, const char *indent, const char *name)
{
	str_printf(out, "\n%s# %s\n", indent, row->help);
	if (row->type == ROW_UINT) {
		str_printf(out, "%s# Unit: %s, %u to %u, %s.\n", indent, row->unit, (unsigned)row->min,
			   (unsigned)row->max,
			   row->reload == LIVE ? "reloadable" : "needs a restart");
		str_printf(out, "#%s%s: %u\n", indent, name, (unsigned)row->def);
		return;
	}
	str_printf(out, "%s# Value: %s, %s.\n", indent, row->unit, row->reload == LIVE ? "reloadable"
		   : "needs a restart");
	str_printf(out, "#%s%s: %s\n", indent, name, row->def_text ? row->def_text : example_of(row));
}

void conf_sample(struct str *out)
{
	const char *group = "";
	size_t group_len = 0;

	str_puts(out, "# toolcribd.yaml: every key with its default.  See toolcribd.yaml(5).\n");
	for (size_t i = 0; i < NELEMS(rows); i++) {
		const char *dot = strchr(rows[i].key, '.');

		if (!dot) {
			sample_row(out, &rows[i], "", rows[i].key);
			continue;
		}
		if (strncmp(group, rows[i].key, group_len) != 0 || group_len == 0) {
			group = rows[i].key;
			group_len = (size_t)(dot - group) + 1;
			str_printf(out, "\n#%.*s:\n", (int)group_len - 1, group);
		}
		sample_row(out, &rows[i], "  ", dot + 1);
		if (strcmp(rows[i].key, "oauth.jwks_max_age") == 0)     /* the group's last */
			conf_oauth_sample(out);
	}
	conf_list_sample(out);
	conf_roles_sample(out);
	conf_sinks_sample(out);
	conf_alerts_sample(out);
	conf_pdps_sample(out);
}
