/* toolcribd.yaml: defaults, limits, unknown keys, listeners that must not start, reload, sample. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "suite.h"

static char *dir;

static int make_dir(void **state)
{
	char name[] = "/tmp/t_conf.XXXXXX";

	(void)state;
	if (!mkdtemp(name))
		return -1;
	dir = mem_strdup(name);
	return 0;
}

static int drop_dir(void **state)
{
	char *file = path_join(dir, "c.yaml");

	(void)state;
	(void)unlink(file);
	(void)rmdir(dir);
	free(file);
	free(dir);
	return 0;
}

static int load(const char *text, struct conf **ret, struct err *err)
{
	char *file = path_join(dir, "c.yaml");
	FILE *f = fopen(file, "w");
	int rc;

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
	rc = conf_load(file, ret, err);
	free(file);
	return rc;
}

static void refuse(const char *text, const char *where, const char *msg)
{
	struct conf *c = NULL;
	struct err err = { 0 };
	char at[64];

	assert_int_equal(load(text, &c, &err), ERR_INVALID);
	assert_null(c);
	(void)snprintf(at, sizeof(at), "c.yaml:%s", where);
	if (!strstr(err.where, at) || !strstr(err.msg, msg))
		fail_msg("%s: got %s: %s (%s)", at, err.where, err.msg, err.hint);
}

static void accept(const char *text)
{
	struct conf *c = NULL;
	struct err err = { 0 };

	if (load(text, &c, &err) != 0)
		fail_msg("%s: %s: %s", text, err.where, err.msg);
	conf_free(&c);
}

static void empty_file_means_defaults(void **state)
{
	struct conf *c = NULL;
	struct err err;

	(void)state;
	assert_int_equal(load("", &c, &err), ERR_INVALID);      /* it was cut to nothing, and is not served as if it were ours */
	assert_int_equal(load("# nothing\n", &c, &err), 0);
	assert_int_equal(c->drain_ms, 25000);
	assert_int_equal(c->audit_deadline_ms, 2000);
	assert_string_equal(c->log_level, "info");
	assert_null(c->store);
	assert_int_equal(c->nlisteners, 1);
	assert_int_equal(c->listeners[0].transport, CONF_HTTP);
	assert_string_equal(c->listeners[0].address, "127.0.0.1:8808");
	conf_free(&c);
	assert_null(c);
}

static void missing_file_is_unreachable(void **state)
{
	struct conf *c = NULL;
	struct err err;

	(void)state;
	assert_int_equal(conf_load("/nonexistent/c.yaml", &c, &err), ERR_UNREACHABLE);
	assert_string_equal(err.where, "/nonexistent/c.yaml");
}

static void limits_hold_at_their_ends(void **state)
{
	(void)state;
	accept("audit: {deadline_ms: 50}\n");
	accept("audit: {deadline_ms: 60000}\n");
	refuse("audit:\n  deadline_ms: 49\n", "2:", "audit.deadline_ms (ms)");
	refuse("audit:\n  deadline_ms: 60001\n", "2:", "audit.deadline_ms (ms)");
	refuse("drain_ms: soon\n", "1:", "drain_ms (ms)");
	refuse("log: {level: loud}\n", "1:", "one of err|warn|info|debug");
}

static void unknown_key_is_refused_with_a_hint(void **state)
{
	struct conf *c = NULL;
	struct err err;

	(void)state;
	assert_int_equal(load("store: /x\naudit:\n  deadlin_ms: 3\n", &c, &err), ERR_INVALID);
	assert_non_null(strstr(err.where, "c.yaml:3:"));
	assert_string_equal(err.hint, "did you mean audit.deadline_ms?");
	refuse("listener: []\n", "1:", "unknown key listener");
	refuse("audit: 3\n", "1:", "audit must be a map");
	refuse("drain_ms: {x: 1}\n", "1:", "drain_ms");
}

static void open_door_needs_insecure(void **state)
{
	(void)state;
	refuse("listeners:\n- transport: http\n  address: 0.0.0.0:80\n", "3:", "there is no TLS");
	accept("listeners:\n- transport: http\n  address: 0.0.0.0:80\n  insecure: true\n");
	accept("listeners:\n- {transport: http, address: 127.0.0.1:80, get_opens_sse: true}\n");
	refuse("listeners:\n- {transport: tcp, address: 127.0.0.1:80, get_opens_sse: true}\n", "2:", "only HTTP");
	refuse("listeners:\n- {transport: tcp, address: \"[::]:80\"}\n", "2:", "there is no TLS");
	accept("listeners:\n- {transport: tcp, address: \"[::1]:0\"}\n");
	accept("listeners:\n- {transport: tcp, address: 127.255.0.1:65535}\n");
	refuse("listeners:\n- {transport: tcp, address: 127.0.0.1:65536}\n", "2:", "no address");
	refuse("listeners:\n- {transport: tcp, address: localhost:80}\n", "2:", "no address");
}

static void bound_listener_must_be_local(void **state)
{
	(void)state;
	accept("listeners:\n- {transport: tcp, address: 127.0.0.1:1, tenant: acme}\n");
	refuse("listeners:\n- {transport: tcp, address: 10.0.0.1:1, tenant: acme, insecure: true}\n", "2:", "bound to a tenant");
	refuse("listeners:\n- {transport: tcp, address: 127.0.0.1:1, principal: bot}\n", "2:", "needs its tenant");
	refuse("listeners:\n- {transport: tcp, address: 127.0.0.1:1, tenant: Acme}\n", "2:", "no name");
}

static void socket_path_is_absolute_and_fits(void **state)
{
	char path[160], text[256];

	(void)state;
	refuse("listeners:\n- {transport: unix, address: run/x}\n", "2:", "absolute");
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[107] = '\0';
	(void)snprintf(text, sizeof(text), "listeners:\n- {transport: unix, address: %s}\n", path);
	accept(text);
	path[107] = 'a';
	path[108] = '\0';
	(void)snprintf(text, sizeof(text), "listeners:\n- {transport: unix, address: %s}\n", path);
	refuse(text, "2:", "at most 107 bytes");
}

static void members_belong_to_their_transport(void **state)
{
	(void)state;
	refuse("listeners:\n- {transport: tcp, address: 127.0.0.1:1, uids: [{uid: 1, tenant: a}]}\n", "2:", "only a Unix socket");
	refuse("listeners:\n- {transport: tcp, address: 127.0.0.1:1, origins: [x]}\n", "2:", "only HTTP");
	refuse("listeners:\n- {transport: quic, address: 127.0.0.1:1}\n", "2:", "one of http, tcp, unix");
	refuse("listeners:\n- {transport: http, adress: 127.0.0.1:1}\n", "2:", "");
	refuse("listeners:\n- {transport: unix, address: /x, uids: [{uid: 1}]}\n", "2:", "tenant is missing");
	refuse("listeners: []\n", "1:", "at least one");
	refuse("listeners:\n- {transport: unix, address: /x, proxies: [10.0.0.1]}\n", "2:", "has no addresses");
	refuse("listeners:\n- {transport: tcp, address: 127.0.0.1:1, head_ms: 1}\n", "2:", "only HTTP");
	refuse("listeners:\n- {transport: tcp, address: 127.0.0.1:1, client_address: forwarded}\n", "2:", "only HTTP");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, credential_ms: 1}\n", "2:", "no credential line");
}

static void deadlines_and_proxies_are_checked(void **state)
{
	(void)state;
	accept("listeners:\n- {transport: http, address: 127.0.0.1:1, head_ms: 1, body_ms: 600000, idle_ms: 9, stall_ms: 9, late_ms: 9}\n");
	accept("listeners:\n- {transport: tcp, address: 127.0.0.1:1, credential_ms: 600000}\n");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, head_ms: 0}\n", "2:", "head_ms");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, body_ms: 600001}\n", "2:", "body_ms");
	accept("listeners:\n- {transport: http, address: 127.0.0.1:1, proxies: [10.0.0.1, 10.0.0.0/0, '::1/128'],\n"
	       "   client_address: forwarded}\n");
	accept("listeners:\n- {transport: http, address: 127.0.0.1:1, hosts: [a.example, a.example:65535, '[::1]', '[::1]:1']}\n");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, hosts: [https://a.example]}\n", "2:", "is no name");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, hosts: [a.example:65536]}\n", "2:", "is no name");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, hosts: [a.example:x]}\n", "2:", "is no name");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, hosts: ['*.example']}\n", "2:", "is no name");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, proxies: [10.0.0.0/33]}\n", "2:", "no address or block");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, proxies: ['::/129']}\n", "2:", "no address or block");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, proxies: [proxy.example]}\n", "2:", "no address or block");
	refuse("listeners:\n- {transport: http, address: 127.0.0.1:1, client_address: via}\n", "2:", "x-forwarded-for or forwarded");
}

static void put_change(void *arg, const struct conf_change *ch)
{
	str_printf(arg, "%s: %s -> %s%s; ", ch->key, ch->before ? ch->before : "none", ch->after ? ch->after : "none",
		   ch->restart ? " (restart)" : "");
}

static void changes_are(const struct conf *a, const struct conf *b, const char *want)
{
	struct str got = STR_INIT;

	conf_changes(a, b, put_change, &got);
	assert_string_equal(str_text(&got), want);
	str_fini(&got);
}

static void reload_takes_live_and_names_the_rest(void **state)
{
	struct conf *a = NULL, *b = NULL;
	struct err err;

	(void)state;
	assert_int_equal(load("drain_ms: 1\n", &a, &err), 0);
	assert_int_equal(load("drain_ms: 2\nlog: {level: debug}\naudit: {queue: 300}\nuser: crib\n"
			      "listeners: [{transport: unix, address: /x}]\n", &b, &err), 0);
	changes_are(a, b, "user: none -> crib (restart); drain_ms: 1 -> 2; audit.queue: 16384 -> 300 (restart); "
		    "log.level: info -> debug; "
		    "listeners[0]: none -> {\"transport\":\"unix\",\"address\":\"/x\"} (restart); ");
	conf_reload(a, b);
	assert_int_equal(a->drain_ms, 2);
	assert_string_equal(a->log_level, "debug");
	assert_int_equal(a->audit_queue, 16384);
	changes_are(a, b, "user: none -> crib (restart); audit.queue: 16384 -> 300 (restart); "
		    "listeners[0]: none -> {\"transport\":\"unix\",\"address\":\"/x\"} (restart); ");
	conf_free(&a);
	conf_free(&b);
}

#define UNIX(path, more) "{transport: unix, address: " path more "}"
#define TLS(cert) "- {transport: tcp, address: \"127.0.0.1:1\", tls: {cert: " cert ", key: /k}}\n"

/* One that comes or goes is one change, and what takes effect is no change any more. */
static void changes_in_lists_are_named_by_their_place(void **state)
{
	struct conf *a = NULL, *b = NULL, *c = NULL;
	struct err err;

	(void)state;
	assert_int_equal(load("roles:\n- {role: admin, uid: 1}\n- {role: auditor, uid: 2}\nlisteners:\n" TLS("/c"), &a, &err), 0);
	assert_int_equal(load("roles:\n- {role: operator, uid: 3}\n- {role: admin, uid: 1}\n- {role: auditor, uid: 2}\nlisteners:\n"
			      TLS("/d"), &b, &err), 0);
	changes_are(a, b, "listeners[0].tls.cert: /c -> /d; roles[0]: none -> {\"role\":\"operator\",\"uid\":3}; ");
	changes_are(b, a, "listeners[0].tls.cert: /d -> /c; roles[0]: {\"role\":\"operator\",\"uid\":3} -> none; ");
	conf_reload(a, b);
	changes_are(a, b, "");
	assert_int_equal(a->nroles, 3);
	assert_string_equal(a->listeners[0].tls->cert, "/d");
	assert_int_equal(load("roles:\n- {role: operator, uid: 3}\n- {role: auditor, uid: 1}\n- {role: auditor, uid: 2, person: x}\n"
			      "listeners:\n- " UNIX("/x", ", tenant: acme") "\n" TLS("/d"), &c, &err), 0);
	changes_are(a, c, "listeners[0]: none -> {\"transport\":\"unix\",\"address\":\"/x\",\"tenant\":\"acme\"} (restart); "
		    "roles[1].role: admin -> auditor; roles[2].person: none -> x; ");
	conf_free(&a);
	conf_free(&b);
	conf_free(&c);
}

static void a_key_has_its_place(void **state)
{
	struct conf *a = NULL;
	struct err err;

	(void)state;
	assert_int_equal(load("drain_ms: 1\naudit:\n  queue: 300\n", &a, &err), 0);
	assert_non_null(strstr(conf_where(a, "drain_ms"), ".yaml:1:"));
	assert_non_null(strstr(conf_where(a, "audit.queue"), ".yaml:3:"));
	assert_string_equal(conf_where(a, "audit.level"), a->file);
	conf_free(&a);
}

#define ISSUER "oauth:\n  issuers:\n  - {issuer: \"https://a.example\", "
#define REST "tenant: acme, scopes: {use: [\"tools:list\"]}}\n"

static void issuers_are_strict(void **state)
{
	(void)state;
	accept(ISSUER "jwks_file: /x, " REST);
	accept(ISSUER "jwks_uri: \"https://a.example/k\", " REST);
	accept(ISSUER "jwks_uri: \"http://127.0.0.1:1/k\", allow: [\"127.0.0.1:1\"], " REST);
	accept(ISSUER "introspection: {uri: \"https://a.example/i\", client: c, secret: s}, " REST);
	accept(ISSUER "jwks_file: /x, tenant_claim: org, tenants: {a b: acme}, principal_claim: sub, principals: {x|1: bot}, "
	       "scopes: {use: [\"tools:list\"]}}\n");
	refuse(ISSUER REST, "3:", "one of jwks_file, jwks_uri and introspection");
	refuse(ISSUER "jwks_file: /x, jwks_uri: \"https://a.example/k\", " REST, "3:", "one of jwks_file");
	refuse(ISSUER "jwks_file: x, " REST, "3:", "absolute");
	refuse(ISSUER "jwks_uri: \"http://a.example/k\", " REST, "3:", "https");
	refuse(ISSUER "jwks_uri: \"ftp://a.example/k\", " REST, "3:", "no URL");
	refuse(ISSUER "jwks_uri: \"https://a.example/\\nX: y\", " REST, "3:", "no URL");
	refuse(ISSUER "introspection: {uri: \"https://a.example/i\", client: c}, " REST, "3:", "needs uri, client");
	refuse(ISSUER "introspection: {uri: \"https://a.example/i\", client: c, secret: s, secret_file: /s}, " REST, "3:", "needs uri");
	refuse(ISSUER "jwks_file: /x, tenant_claim: org, " REST, "3:", "one of tenant and tenant_claim");
	refuse(ISSUER "jwks_file: /x, tenants: {a: b}, " REST, "3:", "which is missing");
	refuse(ISSUER "jwks_file: /x, principal: a, principal_claim: b, " REST, "3:", "both principal");
	refuse(ISSUER "jwks_file: /x, tenant: Acme, scopes: {use: [x]}}\n", "3:", "no name");
	refuse(ISSUER "jwks_file: /x, tenant: acme}\n", "3:", "scopes");
	refuse(ISSUER "jwks_file: /x, tenant: acme, scopes: {use: []}}\n", "3:", "1 to 32 scopes");
	refuse(ISSUER "jwks_file: /x, tenant: acme, scopes: {\"a b\": [x]}}\n", "3:", "blanks");
	refuse(ISSUER "jwks_file: /x, tenat: acme, " REST, "3:", "");
	refuse("oauth:\n  issuers:\n  - {jwks_file: /x, " REST, "3:", "issuer");
	refuse("oauth: {issuers: 3}\n", "1:", "a list");
	refuse("oauth: {issers: []}\n", "1:", "unknown key oauth.issers");
}

static void issuers_go_together(void **state)
{
	static const char one[] = "{issuer: \"https://%c.example\", introspection: {uri: \"https://a.example/i\", client: c, secret: s}, " REST;
	struct str text = STR_INIT;

	(void)state;
	refuse(ISSUER "jwks_file: /x, " REST "  - {issuer: \"https://a.example\", jwks_file: /y, " REST, "4:", "twice");
	str_puts(&text, "oauth:\n  issuers:\n");
	for (char c = 'a'; c < 'c'; c++) {
		str_puts(&text, "  - ");
		str_printf(&text, one, c);
	}
	refuse(text.p, "4:", "only one issuer");
	str_fini(&text);
}

/* What a token must be for is known, not what a client says. */
static void open_listener_needs_its_url(void **state)
{
	static const char open[] = "listeners:\n- {transport: http, address: \"0.0.0.0:80\", insecure: true}\n" ISSUER "jwks_file: /x, " REST;
	char *text = mem_printf("%s  resource: https://tools.example.com\n", open);

	(void)state;
	refuse(open, "4:", "oauth.resource is missing");
	accept(text);
	free(text);
	refuse("oauth: {resource: \"https://x.example/\"}\n", "1:", "without / at its end");
	refuse("oauth: {resource: x.example}\n", "1:", "must be a URL");
}

/* What the catalog of sealed files can name; at the limit of its bytes and one beyond. */
static void archive_is_a_plain_path(void **state)
{
	static const char *const wrong[] = { "archive", "/", "/mnt/", "/mnt//a", "/mnt/../a", "/mnt/./a", "/mnt/segments" };
	char *longest = mem_alloc(CONF_ARCHIVE_MAX + 2), *text;

	(void)state;
	for (size_t i = 0; i < NELEMS(wrong); i++) {
		text = mem_printf("audit: {archive: \"%s\"}\n", wrong[i]);
		refuse(text, "1:", "audit.archive must be an absolute path");
		free(text);
	}
	memset(longest, 'a', CONF_ARCHIVE_MAX + 1);
	longest[0] = '/';
	longest[CONF_ARCHIVE_MAX + 1] = '\0';
	text = mem_printf("audit: {archive: %s}\n", longest);
	refuse(text, "1:", "audit.archive must be an absolute path");
	free(text);
	longest[CONF_ARCHIVE_MAX] = '\0';
	text = mem_printf("audit: {archive: %s}\n", longest);
	accept(text);
	free(text);
	free(longest);
}

/* The sample is all comments; with the marks removed it is a file that loads. */
static void sample_uncommented_loads(void **state)
{
	struct str sample = STR_INIT, text = STR_INIT;

	(void)state;
	conf_sample(&sample);
	accept(str_text(&sample));
	for (const char *p = sample.p; *p; ) {
		size_t n = strcspn(p, "\n");

		if (p[0] == '#' && p[1] != ' ')
			str_put(&text, p + 1, n - 1);
		else if (p[0] == '#' && strncmp(p, "#  ", 3) == 0)
			str_put(&text, p + 1, n - 1);
		str_putc(&text, '\n');
		p += n + (p[n] == '\n');
	}
	accept(str_text(&text));
	str_fini(&sample);
	str_fini(&text);
}

static void read_source(const char *name, struct str *ret)
{
	const char *top = getenv("TOOLCRIB_SRCDIR");
	char *file = path_join(top ? top : ".", name);
	struct err err;

	if (path_read(file, 1 << 20, ret, &err) < 0)
		fail_msg("%s", err.msg);
	free(file);
}

/* House rule 51.  Made by: toolcribd --sample-config > etc/toolcribd.yaml */
static void sample_file_is_the_sample(void **state)
{
	struct str sample = STR_INIT, file = STR_INIT;

	(void)state;
	conf_sample(&sample);
	read_source("etc/toolcribd.yaml", &file);
	assert_string_equal(str_text(&file), str_text(&sample));
	str_fini(&sample);
	str_fini(&file);
}

static void man_page_names_every_key_with_its_limits(void **state)
{
	struct str page = STR_INIT;
	char want[128];

	(void)state;
	read_source("src/main/toolcribd.yaml.5", &page);
#define CONF_UINT(member, key, unit, min, max, def, reload, help) \
	(void)snprintf(want, sizeof(want), ".It Cm %s\n", key); \
	if (!strstr(page.p, want)) \
		fail_msg("toolcribd.yaml.5 has no %s", key); \
	(void)snprintf(want, sizeof(want), "%d to %d, default %d", min, max, def); \
	if (!strstr(strstr(page.p, "Cm " key), want)) \
		fail_msg("toolcribd.yaml.5: %s: not \"%s\"", key, want);
#define CONF_TEXT(member, key, choices, def, reload, help) \
	(void)snprintf(want, sizeof(want), ".It Cm %s\n", key); \
	if (!strstr(page.p, want)) \
		fail_msg("toolcribd.yaml.5 has no %s", key);
#include "conf/conf.def"
#undef CONF_UINT
#undef CONF_TEXT
	str_fini(&page);
}

SINGLE_THREAD_SUITE(conf)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_file_means_defaults),
		cmocka_unit_test(missing_file_is_unreachable),
		cmocka_unit_test(limits_hold_at_their_ends),
		cmocka_unit_test(unknown_key_is_refused_with_a_hint),
		cmocka_unit_test(open_door_needs_insecure),
		cmocka_unit_test(bound_listener_must_be_local),
		cmocka_unit_test(socket_path_is_absolute_and_fits),
		cmocka_unit_test(members_belong_to_their_transport),
		cmocka_unit_test(deadlines_and_proxies_are_checked),
		cmocka_unit_test(reload_takes_live_and_names_the_rest),
		cmocka_unit_test(changes_in_lists_are_named_by_their_place),
		cmocka_unit_test(a_key_has_its_place),
		cmocka_unit_test(issuers_are_strict),
		cmocka_unit_test(issuers_go_together),
		cmocka_unit_test(open_listener_needs_its_url),
		cmocka_unit_test(sample_uncommented_loads),
		cmocka_unit_test(archive_is_a_plain_path),
		cmocka_unit_test(sample_file_is_the_sample),
		cmocka_unit_test(man_page_names_every_key_with_its_limits),
	};

	return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
