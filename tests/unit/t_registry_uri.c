/* Which URIs a template generates, and from which values (RFC 6570, MCP U-05). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "registry/registry.h"
#include "suite.h"

/* want: the values as JSON with ' for ", NULL when there is no match. */
static void matches(const char *pattern, const char *uri, const char *want)
{
	struct str got = STR_INIT, quoted = STR_INIT;
	json_t *values = NULL;
	bool ok = reg_uri_match(pattern, uri, strlen(uri), &values);

	if (ok)
		jx_write_canon(values, &got);
	for (const char *p = want ? want : ""; *p; p++)
		str_putc(&quoted, *p == '\'' ? '"' : *p);
	if (ok != (want != NULL) || strcmp(str_text(&got), str_text(&quoted)) != 0)
		fail_msg("%s of %s: %s, not %s", uri, pattern, ok ? str_text(&got) : "no match", want ? want : "no match");
	json_decref(values);
	str_fini(&got);
	str_fini(&quoted);
}

static void simple_expansion_takes_what_is_not_reserved(void **state)
{
	matches("a:{x}", "a:b", "{'x':'b'}");
	matches("a:{x}", "a:", NULL);
	matches("a:{x}", "a:b/c", NULL);
	matches("a:{x}", "a:b%2Fc", "{'x':'b/c'}");
	matches("a:{x}/c", "a:b/c", "{'x':'b'}");
	matches("a:{x}/c", "a:b/d", NULL);
	matches("a:{x,y}", "a:1,2", "{'x':'1','y':'2'}");
	matches("a:{x,y}", "a:1", "{'x':'1'}");
	matches("a:{x}", "a:\xc3\xa5", "{'x':'\xc3\xa5'}");
	matches("a:{x}.{y}", "a:b.tar.gz", "{'x':'b.tar','y':'gz'}");
	matches("a:{x}-{y}-{z}", "a:1-2-3-4", "{'x':'1-2','y':'3','z':'4'}");
}

static void operators_are_read_backwards(void **state)
{
	matches("a:{+x}", "a:b/c?d", "{'x':'b/c?d'}");
	matches("a:{+x}/end", "a:b/end/end", "{'x':'b/end'}");
	matches("a:b{#x}", "a:b#c", "{'x':'c'}");
	matches("a:b{#x}", "a:b", "{}");
	matches("a:b{.x}", "a:b.tar.gz", "{'x':'tar.gz'}");
	matches("a:b{.x}", "a:b.tar.gz", "{'x':'tar.gz'}");
	matches("a:b{/x,y}", "a:b/c", "{'x':'c'}");
	matches("a:b{;x,y}", "a:b;x=1;y", "{'x':'1','y':''}");
	matches("a:b{?x,y}", "a:b?x=1&y=2", "{'x':'1','y':'2'}");
	matches("a:b{?x,y}", "a:b?y=2", "{'y':'2'}");
	matches("a:b{?x,y}", "a:b", "{}");
	matches("a:b{?x}", "a:b?x", NULL);
	matches("a:b?z=0{&x}", "a:b?z=0&x=1", "{'x':'1'}");
}

/* MCP U-05 */
static void values_that_leave_a_folder_are_no_match(void **state)
{
	matches("a:{+x}", "a:../b", NULL);
	matches("a:{+x}", "a:b/../c", NULL);
	matches("a:{+x}", "a:b/%2e%2E", NULL);
	matches("a:{x}", "a:..%5cb", NULL);
	matches("a:{x}", "a:.", NULL);
	matches("a:{x}", "a:...", "{'x':'...'}");
	matches("a:{x}", "a:b%00", NULL);
	matches("a:{x}", "a:%ff", NULL);
	matches("a:{x}", "a:%2", NULL);
}

static void broken_templates_match_nothing(void **state)
{
	matches("a:{x", "a:b", NULL);
	matches("a:x}", "a:x}", NULL);
	matches("a:{}", "a:b", NULL);
	matches("a:{x*}", "a:b", NULL);
	matches("a:{x}{y}", "a:bc", NULL);
}

static void a_match_costs_no_more_than_its_budget(void **state)
{
	char *uri = mem_alloc(REG_URI_MAX + 2);

	memset(uri, 'a', REG_URI_MAX + 1);
	memcpy(uri, "a:", 2);
	uri[REG_URI_MAX] = '\0';
	matches("a:{+a}a{+b}a{+c}a{+d}a{+e}b", uri, NULL);
	assert_true(reg_uri_match("a:{x}", uri, REG_URI_MAX, NULL));
	uri[REG_URI_MAX] = 'a';
	assert_false(reg_uri_match("a:{x}", uri, REG_URI_MAX + 1, NULL));
	free(uri);
}

SINGLE_THREAD_SUITE(uri)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(simple_expansion_takes_what_is_not_reserved),
		cmocka_unit_test(operators_are_read_backwards),
		cmocka_unit_test(values_that_leave_a_folder_are_no_match),
		cmocka_unit_test(broken_templates_match_nothing),
		cmocka_unit_test(a_match_costs_no_more_than_its_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
