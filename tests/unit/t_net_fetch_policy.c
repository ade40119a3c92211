/* URLs of outbound requests, and which addresses they may reach: the matrix of SEC section 10 in every spelling. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "net/fetch.h"
#include "net/url.h"
#include "suite.h"

static int parse(const char *text, struct url *u)
{
	struct err err = { .code = 0 };
	int rc = url_parse(text, strlen(text), "/url", u, &err);

	if (rc < 0)
		assert_string_equal(err.where, "/url");
	return rc;
}

static struct addr addr_of(const char *ip, unsigned port)
{
	char text[ADDR_TEXT_SIZE];
	struct addr a;

	snprintf(text, sizeof(text), strchr(ip, ':') ? "[%s]:%u" : "%s:%u", ip, port);
	if (addr_parse(text, &a, NULL) < 0)
		fail_msg("no address: %s", ip);
	return a;
}

/* SEC S-702 */
static void url_is_read_strictly(void **state)
{
	static const char *const bad[] = {
		"", "https://", "https:///x", "https:/x", "//example.com", "example.com", "ftp://example.com/",
		"file:///etc/passwd", "HTTPS://example.com/", "https://user@example.com/", "https://u:p@example.com/",
		"https://example.com:/", "https://example.com:0/", "https://example.com:65536/", "https://example.com:+1/",
		"https://example.com:080/", "https://example.com:8a/", "https://example.com/#f", "https://example.com/a b",
		"https://example.com/\xc3\xa9", "https://b\303\274cher.example/", "https://example.com\\@10.0.0.1/",
		"https://example.com/\\x", "https://example.com/%", "https://example.com/%1", "https://example.com/%zz",
		"https://exam ple.com/", "https://example..com/", "https://.example.com/", "https://example.com./",
		"https://-example.com/", "https://example-.com/", "https://exa%6dple.com/", "https://example.com\t/",
		"https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0177.0.0.1/", "https://127.1/",
		"https://127.0.1/", "https://0/", "https://1.2.3.4.5/", "https://256.1.1.1/", "https://01.2.3.4/",
		"https://1.2.3.0x4/", "https://example.0x/", "https://example.123/", "https://[::1/", "https://::1/",
		"https://[::1%25lo]/", "https://[::1%lo]/", "https://[127.0.0.1]/", "https://[::127.0.0.256]/",
		"https://[]/", "https://[::1]x/", "https://example.com/<x>", "https://example.com/{x}",
	};
	static const struct { const char *text, *host; unsigned port; bool tls, literal; const char *target; } good[] = {
		{ "https://example.com", "example.com", 443, true, false, "" },
		{ "https://Example.COM/", "example.com", 443, true, false, "/" },
		{ "http://example.com/a/b?c=/../d", "example.com", 80, false, false, "/a/b?c=/../d" },
		{ "https://xn--bcher-kva.example:8443?x", "xn--bcher-kva.example", 8443, true, false, "?x" },
		{ "https://a_b.example/%2F%41", "a_b.example", 443, true, false, "/%2F%41" },
		{ "https://1.2.3.4/", "1.2.3.4", 443, true, true, "/" },
		{ "https://[2001:DB8::1]:1/", "2001:db8::1", 1, true, true, "/" },
		{ "https://1e100.net/", "1e100.net", 443, true, false, "/" },
		{ "https://host.0x7g/", "host.0x7g", 443, true, false, "/" },
		{ "https://example.com/...", "example.com", 443, true, false, "/..." },
		{ "https://example.com/a.b/..c/.well-known/x", "example.com", 443, true, false, "/a.b/..c/.well-known/x" },
	};

	for (size_t i = 0; i < NELEMS(bad); i++) {
		struct url u;
		if (parse(bad[i], &u) != ERR_INVALID)
			fail_msg("accepted: %s", bad[i]);
	}
	for (size_t i = 0; i < NELEMS(good); i++) {
		struct url u;
		if (parse(good[i].text, &u) < 0)
			fail_msg("refused: %s", good[i].text);
		assert_string_equal(u.host, good[i].host);
		assert_int_equal(u.port, good[i].port);
		assert_int_equal(u.tls, good[i].tls);
		assert_int_equal(u.literal, good[i].literal);
		assert_string_equal(good[i].text + u.target, good[i].target);
	}
}

/* SEC S-708 */
static void dot_segments_are_refused_in_every_spelling(void **state)
{
	static const char *const bad[] = { "/.", "/..", "/a/../b", "/a/./b", "/a/..", "/%2e", "/%2E%2e/x", "/.%2e", "/%2e./x",
					   "/..;x=1/a", "/.;/a", "/%2e%2e;a", "/a/..?q" };
	static const char *const good[] = { "", "/", "/...", "/a..b", "/..a", "/%2e%2e%2e", "/a;..", "/?..", "/a?/../" };
	struct err err;

	for (size_t i = 0; i < NELEMS(bad); i++) {
		if (url_check_target(bad[i], strlen(bad[i]), "", &err) != ERR_INVALID)
			fail_msg("accepted: %s", bad[i]);
	}
	for (size_t i = 0; i < NELEMS(good); i++) {
		if (url_check_target(good[i], strlen(good[i]), "", &err) < 0)
			fail_msg("refused: %s", good[i]);
	}
}

static void url_at_its_longest_passes_and_one_byte_more_does_not(void **state)
{
	char text[URL_MAX + 2];
	struct url u;

	memset(text, 'a', sizeof(text));
	memcpy(text, "https://a/", 10);
	assert_int_equal(url_parse(text, URL_MAX, "", &u, NULL), 0);
	assert_int_equal(url_parse(text, URL_MAX + 1, "", &u, NULL), ERR_LIMIT);
	char host[8 + 5 * 51 + 2];
	memcpy(host, "https://", 9);
	for (int i = 0; i < 5; i++)
		memcpy(host + 8 + i * 51, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.", 52);
	assert_int_equal(url_parse(host, 8 + 253, "", &u, NULL), 0);
	assert_int_equal(url_parse(host, 8 + 254, "", &u, NULL), ERR_INVALID);
}

/* --- addresses ----------------------------------------------------------------------------------- */

static const struct fetch_own no_own;

static struct fetch_policy policy_of(struct arena *mem, bool private_ok, const char *entry)
{
	struct fetch_policy p = { .private_ok = private_ok };
	struct err err;

	if (entry) {
		struct fetch_allow *a = arena_alloc(mem, sizeof(*a));
		if (fetch_allow_parse(entry, "/allow/hosts/0", mem, a, &err) < 0)
			fail_msg("%s: %s", entry, err.msg);
		p.allow = a;
		p.nallow = 1;
	}
	return p;
}

/* A name that resolves to this address, asked by https on 443. */
static int reach(const struct fetch_policy *p, const char *ip)
{
	struct url u;
	struct addr a = addr_of(ip, 443);
	struct err err;

	assert_int_equal(parse("https://name.example/", &u), 0);
	return fetch_policy_addr(p, &no_own, &u, &a, &err);
}

static const char *const public_addresses[] = {
	"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
	"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0",
	"198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00::1", "::ffff:1.1.1.1",
	"2002:101:101::1", "64:ff9b::1.1.1.1", "2a00::5efe:1.1.1.1",
};
/* SEC S-704, S-705: each kind at its edges, and wrapped in every form. */
static const char *const private_addresses[] = {
	"10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255", "100.64.0.0",
	"100.127.255.255", "127.0.0.0", "127.0.0.1", "127.255.255.255", "::1", "fc00::", "fdff:ffff::1", "fec0::1",
	"::ffff:10.0.0.1", "::ffff:127.0.0.1", "2002:a00:1::1", "2002:7f00:1::", "2002:c0a8:101::1", "64:ff9b::10.0.0.1",
	"64:ff9b::127.0.0.1", "64:ff9b:1::10.0.0.1", "64:ff9b:1:a00:0:100::", "64:ff9b:1::1.1.1.1",
	"2001:0:a00:1::fefe:fefe", "2001:0:101:101::f5ff:fffe", "2a00::5efe:10.0.0.1", "2a00::200:5efe:10.0.0.1",
};
static const char *const link_local_addresses[] = {
	"169.254.0.0", "169.254.169.254", "169.254.255.255", "fe80::1", "febf::1", "::ffff:169.254.169.254",
	"2002:a9fe:a9fe::", "64:ff9b::169.254.169.254", "2a00::5efe:169.254.169.254", "2001:0:a9fe:a9fe::fefe:fefe",
	"2001:0:101:101::5601:5601",
};
static const char *const special_addresses[] = {
	"192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "240.0.0.1",
	"255.255.255.254", "2001:db8::1", "3fff::1", "2001:2::1", "::8.8.8.8", "::127.0.0.1", "::10.0.0.1",
	"::ffff:0:8.8.8.8", "::ffff:0:127.0.0.1", "4000::1", "100::1", "2002:c000:201::",
};
static const char *const never_addresses[] = {
	"0.0.0.0", "0.255.255.255", "224.0.0.1", "239.255.255.255", "255.255.255.255", "::", "ff02::1", "ff00::",
	"::ffff:0.0.0.0", "::ffff:224.0.0.1", "2002:e000:1::", "64:ff9b::0.0.0.0", "64:ff9b::255.255.255.255",
};

static void each_must_be(const struct fetch_policy *p, const char *const *ips, size_t n, int rc)
{
	for (size_t i = 0; i < n; i++) {
		if (reach(p, ips[i]) != rc)
			fail_msg("%s: expected %d", ips[i], rc);
	}
}
#define EACH(p, list, rc) each_must_be(p, list, NELEMS(list), rc)

static void without_switches_only_public_addresses_are_reached(void **state)
{
	const struct fetch_policy p = { .private_ok = false };

	EACH(&p, public_addresses, 0);
	EACH(&p, private_addresses, ERR_DENIED);
	EACH(&p, link_local_addresses, ERR_DENIED);
	EACH(&p, special_addresses, ERR_DENIED);
	EACH(&p, never_addresses, ERR_DENIED);
}

static void private_switch_adds_private_addresses_only(void **state)
{
	const struct fetch_policy p = { .private_ok = true };

	EACH(&p, public_addresses, 0);
	EACH(&p, private_addresses, 0);
	EACH(&p, link_local_addresses, ERR_DENIED);
	EACH(&p, special_addresses, ERR_DENIED);
	EACH(&p, never_addresses, ERR_DENIED);
}

static void listed_name_adds_private_addresses_of_that_name_and_port(void **state)
{
	struct arena *mem = arena_new(1 << 16);
	const struct fetch_policy listed = policy_of(mem, false, "name.example:443");
	const struct fetch_policy port = policy_of(mem, false, "name.example:444");
	const struct fetch_policy other = policy_of(mem, false, "other.example:443");

	EACH(&listed, public_addresses, 0);
	EACH(&listed, private_addresses, 0);
	EACH(&listed, link_local_addresses, ERR_DENIED);
	EACH(&listed, special_addresses, ERR_DENIED);
	EACH(&listed, never_addresses, ERR_DENIED);
	EACH(&port, private_addresses, ERR_DENIED);
	EACH(&other, private_addresses, ERR_DENIED);
	arena_free(&mem);
}

static void listed_range_adds_its_addresses_however_they_are_wrapped(void **state)
{
	static const char *const inside[] = { "10.1.2.3", "::ffff:10.1.2.3" };
	static const char *const outside[] = { "10.1.3.0", "10.1.1.255", "127.0.0.1", "192.168.0.1", "169.254.169.254",
					       "64:ff9b::10.1.3.0", "2002:a01:300::" };
	static const char *const wrapped[] = { "64:ff9b::10.1.2.3", "2002:a01:203::1", "2a00::5efe:10.1.2.3" };
	static const char *const metadata[] = { "169.254.169.254" };
	static const char *const lab[] = { "2001:db8::1", "2001:db8:ffff::" };
	struct arena *mem = arena_new(1 << 16);
	struct fetch_policy p = policy_of(mem, false, "10.1.2.0/24");

	EACH(&p, inside, 0);
	EACH(&p, wrapped, 0);
	EACH(&p, outside, ERR_DENIED);
	p = policy_of(mem, false, "169.254.169.254");
	EACH(&p, metadata, 0);
	EACH(&p, private_addresses, ERR_DENIED);
	p = policy_of(mem, false, "2001:db8::/32");
	EACH(&p, lab, 0);
	EACH(&p, private_addresses, ERR_DENIED);
	p = policy_of(mem, false, "0.0.0.0/0");
	EACH(&p, never_addresses, ERR_DENIED);
	p = policy_of(mem, false, "::/0");
	EACH(&p, never_addresses, ERR_DENIED);
	arena_free(&mem);
}

static int ask(const struct fetch_policy *p, const struct fetch_own *own, const char *url, const char *ip,
	       struct err *err)
{
	struct url u;

	assert_int_equal(parse(url, &u), 0);
	struct addr a = addr_of(ip, u.port);
	*err = (struct err){ .code = 0 };
	int before = fetch_policy_url(p, &u, err);
	int rc = fetch_policy_addr(p, own, &u, &a, err);
	/* What can be said early is never stricter than the check of the address. */
	if (before < 0 && rc == 0)
		fail_msg("%s refused early only", url);
	return rc;
}

/* SEC S-702, S-706 */
static void plain_http_and_other_ports_need_an_entry(void **state)
{
	struct arena *mem = arena_new(1 << 16);
	const struct fetch_policy none = { .private_ok = false }, private_ok = { .private_ok = true };
	const struct fetch_policy http = policy_of(mem, false, "name.example:80");
	const struct fetch_policy port = policy_of(mem, false, "name.example:8443");
	struct err err;

	assert_int_equal(ask(&none, &no_own, "http://name.example/", "1.1.1.1", &err), ERR_DENIED);
	assert_string_equal(err.hint, "allow: {hosts: [\"name.example:80\"]} would");
	assert_int_equal(ask(&none, &no_own, "https://name.example:8443/", "1.1.1.1", &err), ERR_DENIED);
	assert_string_equal(err.hint, "allow: {hosts: [\"name.example:8443\"]} would");
	assert_int_equal(ask(&private_ok, &no_own, "http://name.example/", "1.1.1.1", &err), ERR_DENIED);
	assert_int_equal(ask(&private_ok, &no_own, "http://name.example/", "10.0.0.1", &err), 0);
	assert_int_equal(ask(&http, &no_own, "http://name.example/", "1.1.1.1", &err), 0);
	assert_int_equal(ask(&http, &no_own, "http://name.example:81/", "1.1.1.1", &err), ERR_DENIED);
	assert_int_equal(ask(&port, &no_own, "https://name.example:8443/", "1.1.1.1", &err), 0);
	assert_int_equal(ask(&port, &no_own, "http://name.example/", "1.1.1.1", &err), ERR_DENIED);
	arena_free(&mem);
}

static void own_listeners_need_their_very_address(void **state)
{
	struct arena *mem = arena_new(1 << 16);
	struct addr ours[] = { addr_of("127.0.0.1", 8808), addr_of("::1", 8808) };
	const struct fetch_own own = { ours, 2 };
	const struct fetch_policy private_ok = { .private_ok = true };
	const struct fetch_policy named = policy_of(mem, false, "localhost:8808");
	const struct fetch_policy range = policy_of(mem, false, "127.0.0.0/8");
	const struct fetch_policy exact = policy_of(mem, false, "127.0.0.1:8808");
	struct err err;

	assert_int_equal(ask(&private_ok, &own, "http://localhost:8808/", "127.0.0.1", &err), ERR_DENIED);
	assert_int_equal(ask(&private_ok, &own, "http://localhost:8808/", "::ffff:127.0.0.1", &err), ERR_DENIED);
	assert_int_equal(ask(&private_ok, &own, "http://localhost:8808/", "::1", &err), ERR_DENIED);
	assert_int_equal(ask(&private_ok, &own, "http://localhost:8809/", "127.0.0.1", &err), 0);
	assert_int_equal(ask(&named, &own, "http://localhost:8808/", "127.0.0.1", &err), ERR_DENIED);
	assert_int_equal(ask(&range, &own, "http://127.0.0.1:8808/", "127.0.0.1", &err), ERR_DENIED);
	assert_int_equal(ask(&exact, &own, "http://127.0.0.1:8808/", "127.0.0.1", &err), 0);
	arena_free(&mem);
}

static void listed_address_is_reached_whatever_it_is(void **state)
{
	struct arena *mem = arena_new(1 << 16);
	const struct fetch_policy meta = policy_of(mem, false, "169.254.169.254:80");
	const struct fetch_policy never = policy_of(mem, false, "0.0.0.0:80");
	struct err err;

	assert_int_equal(ask(&meta, &no_own, "http://169.254.169.254/x", "169.254.169.254", &err), 0);
	assert_int_equal(ask(&meta, &no_own, "http://169.254.169.253/x", "169.254.169.253", &err), ERR_DENIED);
	assert_int_equal(ask(&never, &no_own, "http://0.0.0.0/x", "0.0.0.0", &err), ERR_DENIED);
	arena_free(&mem);
}

static void entries_are_read_strictly(void **state)
{
	static const char *const bad[] = { "", "example.com", "*.example.com:443", "example.com:0", "10.0.0.1/8", "10.0.0.0/33",
					   "10.0.0.0/", "10.0.0.0/-1", "10/8", "fd00::/129", "fd00::1/8", "::1/", "/8",
					   "example.com/8", "https://example.com", "user@example.com:1", "127.1:80", "0x7f.1:80",
					   "[::1]/128", "[::1]" };
	static const char *const good[] = { "example.com:443", "10.0.0.0/8", "10.0.0.1", "fd00::/8", "::1", "[::1]:80",
					    "127.0.0.1:80", "Example.com:1" };
	struct arena *mem = arena_new(1 << 16);
	struct fetch_allow a;
	struct err err;

	for (size_t i = 0; i < NELEMS(bad); i++) {
		if (fetch_allow_parse(bad[i], "/allow", mem, &a, &err) != ERR_INVALID)
			fail_msg("accepted: %s", bad[i]);
		assert_string_equal(err.where, "/allow");
	}
	for (size_t i = 0; i < NELEMS(good); i++) {
		if (fetch_allow_parse(good[i], "/allow", mem, &a, &err) < 0)
			fail_msg("refused: %s: %s", good[i], err.msg);
	}
	arena_free(&mem);
}

SINGLE_THREAD_SUITE(fetch_policy)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(url_is_read_strictly),
		cmocka_unit_test(dot_segments_are_refused_in_every_spelling),
		cmocka_unit_test(url_at_its_longest_passes_and_one_byte_more_does_not),
		cmocka_unit_test(without_switches_only_public_addresses_are_reached),
		cmocka_unit_test(private_switch_adds_private_addresses_only),
		cmocka_unit_test(listed_name_adds_private_addresses_of_that_name_and_port),
		cmocka_unit_test(listed_range_adds_its_addresses_however_they_are_wrapped),
		cmocka_unit_test(plain_http_and_other_ports_need_an_entry),
		cmocka_unit_test(own_listeners_need_their_very_address),
		cmocka_unit_test(listed_address_is_reached_whatever_it_is),
		cmocka_unit_test(entries_are_read_strictly),
	};
	return cmocka_run_group_tests_name("policy of outbound requests", tests, NULL, NULL);
}
