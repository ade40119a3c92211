/* Secrets in handlers: they get there by name, and nothing that a run says holds one (SEC S-345). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/secrets.h"
#include "backend_run.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "keys/secrets.h"
#include "suite.h"

#define VALUE "s3cr\"t/va%lue+\xc3\xa9\n?>~"

/* sh -c with the secret k in $K. */
static json_t *sh(const char *script, const char *output)
{
	json_t *h = handler_sh(script, output);

	json_object_set_new(h, "env", json_pack("{s:s}", "K", "{secret:k}"));
	return h;
}

static char *all_of(const struct run *r)
{
	struct str s = STR_INIT;

	const json_t *parts[] = { r->res.content, r->res.structured, r->res.meta, r->requests, r->rpc_data, r->log_data };
	for (size_t i = 0; i < NELEMS(parts); i++) {
		if (parts[i])
			jx_write(parts[i], &s);
	}
	str_printf(&s, "%s%s%s%s%s", r->err.msg, r->err.where, r->err.hint, r->note, r->logger);
	return str_take(&s);
}

static void assert_blanked(const struct run *r)
{
	char *text = all_of(r);

	assert_non_null(strstr(text, "[secret:k]"));
	assert_null(strstr(text, "s3cr"));
	assert_null(strstr(text, "lue+"));
	free(text);
}

static void program_gets_the_value_in_its_environment(void **state)
{
	struct run r;

	run_secret_set("k", VALUE);
	run_it(&r, sh("printf %s \"$K\" | od -An -tx1 | tr -d ' \\n' | sed 's/./&-/g'", "text"), NO_OPTS);
	assert_int_equal(r.kind, END_RESULT);
	char hex[2 * sizeof(VALUE)], want[4 * sizeof(VALUE)] = "";
	text_hex(VALUE, strlen(VALUE), hex);
	for (size_t i = 0; hex[i]; i++)
		snprintf(want + 2 * i, 3, "%c-", hex[i]);
	assert_memory_equal(run_text(&r), want, strlen(want));
	run_free(&r);
}

static void program_gets_the_value_on_stdin(void **state)
{
	struct run r;

	run_secret_set("k", VALUE);
	run_it(&r, handler_json("{'type':'exec','argv':['/usr/bin/wc','-c'],'stdin':'{secret:k}'}"), NO_OPTS);
	assert_int_equal(atoll(run_text(&r)), strlen(VALUE));
	run_free(&r);
}

static void unset_secret_is_named_and_nothing_runs(void **state)
{
	struct run r;
	json_t *h = handler_sh("touch ran", "text");

	json_object_set_new(h, "cwd", json_string(run_dir()));
	json_object_set_new(h, "env", json_pack("{s:s}", "K", "{secret:nobody-set-it}"));
	run_it(&r, h, NO_OPTS);
	assert_int_equal(r.kind, END_ERROR);
	assert_int_equal(r.err.code, ERR_TOOL);
	assert_non_null(strstr(r.err.msg, "the secret nobody-set-it, which this tool needs, is not set"));
	assert_null(run_read_file("ran"));
	run_free(&r);
}

static void every_way_out_is_blanked(void **state)
{
	static const struct { const char *script, *output; } ways[] = {
		{ "printf %s \"$K\"", "text" },
		{ "printf %s \"$K\" >&2; exit 3", "text" },
		{ "printf %s \"$K\" | base64 -w0", "text" },
		{ "printf 'user:%s' \"$K\" | base64 -w0", "text" },
		{ "printf 'me:%s@x' \"$K\" | base64 -w0 | tr +/ -_", "text" },
		{ "printf %s \"$K\" | od -An -tx1 | tr -d ' \\n'", "text" },
		{ "printf '%s' 's3cr%22t%2fva%25lue%2B%C3%A9%0a%3f%3E~'", "text" },
		{ "printf '%s' 's3cr%22t/va%25lue+%c3%a9%0A?>%7E'", "text" },
		{ "printf '%s' 'a\\u00733cr\"t/va%lue+\\u00e9\\n?>~'", "text" },
		{ "printf '%s' 'a\\\\u00733cr\"t/va%lue+\\u00e9\\n?>~'", "text" },
		{ "printf %s \"$K\" | iconv -f latin1 -t utf-8", "text" },
		{ "printf '\"a s3cr\\\\\"t\\\\/va%%lue+\\\\u00e9\\\\n?>~ b\"'", "json" },
		{ "printf '{\"a s3cr\\\\\"t/va%%lue+\\\\u00E9\\\\n?>~\":1}'", "json" },
		{ "printf '{\"progress\":{\"done\":1,\"message\":\"s3cr\\\\\"t/va%%lue+\\\\u00e9\\\\n?>~\"}}\\n'", "stream" },
		{ "printf '{\"log\":{\"level\":\"info\",\"data\":[\"s3cr\\\\\"t/va%%lue+\\\\u00e9\\\\n?>~\"]}}\\n'", "stream" },
		{ "printf '{\"log\":{\"level\":\"info\",\"data\":1,\"logger\":\"s3cr\\\\\"t/va%%lue+\\\\u00e9\\\\n?>~\"}}\\n'",
		  "stream" },
		{ "printf '{\"error\":{\"code\":1,\"message\":\"s3cr\\\\\"t/va%%lue+\\\\u00e9\\\\n?>~\"}}\\n'", "stream" },
		{ "printf '{\"error\":{\"code\":1,\"message\":\"m\",\"data\":\"s3cr\\\\\"t/va%%lue+\\\\u00e9\\\\n?>~\"}}\\n'",
		  "stream" },
		{ "printf '{\"result\":{\"_meta\":{\"x/y\":\"s3cr\\\\\"t/va%%lue+\\\\u00e9\\\\n?>~\"}}}\\n'", "stream" },
		{ "printf '{\"ask\":{\"requests\":{\"q\":{\"method\":\"elicitation/create\",\"params\":{\"message\":"
		  "\"s3cr\\\\\"t/va%%lue+\\\\u00e9\\\\n?>~\"}}}}}\\n'", "stream" },
	};

	run_secret_set("k", VALUE);
	for (size_t i = 0; i < NELEMS(ways); i++) {
		struct run r;
		run_it(&r, sh(ways[i].script, ways[i].output), OPTS(.caps = ~0u));
		assert_blanked(&r);
		run_free(&r);
	}
}

static void state_with_a_secret_does_not_leave(void **state)
{
	struct run r;

	run_secret_set("k", "correct horse");
	run_it(&r, sh("printf '{\"ask\":{\"requests\":{\"q\":{\"method\":\"elicitation/create\",\"params\":{\"message\":\"m\"}}},"
		      "\"state\":\"x correct horse\"}}\\n'", "stream"), OPTS(.caps = ~0u));
	assert_int_equal(r.kind, END_ERROR);
	assert_non_null(strstr(r.err.msg, "put a secret into its state"));
	run_free(&r);
}

static void value_of_digits_is_blanked_as_a_number(void **state)
{
	struct run r;

	run_secret_set("k", "1234567890");
	run_it(&r, sh("echo '{\"n\":1234567890}'", "json"), NO_OPTS);
	assert_blanked(&r);
	run_free(&r);
}

/* The last lines of stderr are cut at 4,096 bytes, and so may a value be. */
static void value_is_blanked_before_a_text_is_cut(void **state)
{
	struct run r;

	run_secret_set("k", "0123456789abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
	for (int pad = 4030; pad < 4100; pad += 7) {
		char *script = mem_printf("printf 'x%%s%%%ds' \"$K\" . >&2; exit 1", pad);
		run_it(&r, sh(script, "text"), NO_OPTS);
		assert_null(strstr(run_text(&r), "WXYZ"));
		run_free(&r);
		free(script);
	}
}

static void value_that_an_error_cuts_is_blanked_to_its_end(void **state)
{
	struct run r;

	run_secret_set("k", "0123456789abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
	for (int pad = 230; pad < 330; pad += 7) {
		char *script = mem_printf("printf '{\"error\":{\"code\":1,\"message\":\"%%%ds%%s\"}}\\n' . \"$K\"", pad);
		run_it(&r, sh(script, "stream"), NO_OPTS);
		assert_int_equal(r.kind, END_ERROR);
		assert_null(strstr(r.err.msg, "0123"));
		run_free(&r);
		free(script);
	}
}

/* --- the set itself */

static int open_long(void *arg, const char *name, char **ret, size_t *ret_len, struct err *err)
{
	const size_t *n = arg;

	if (strcmp(name, "broken") == 0)
		return err_set(err, ERR_CORRUPT, "", "cannot be decrypted");
	*ret = secret_alloc(*n + 1);
	memset(*ret, 'a', *n);
	*ret_len = *n;
	return 0;
}

static void search_is_linear_in_a_hostile_text(void **state)
{
	size_t n = 64 << 10, size = 4 << 20;
	const struct secret_source from = { .arg = &n, .open = open_long };
	struct open_secrets *s = open_secrets_new(&from);
	struct str out = STR_INIT;
	const char *value;
	struct err err;
	char *text = mem_alloc(size);

	assert_int_equal(open_secrets_get(s, "a", &value, &n, &err), 0);
	for (size_t i = 0; i < size; i++)
		text[i] = i % (n - 1) == n - 2 ? '%' : 'a';
	mask_text(s, text, size, &out);  /* a quadratic one would take minutes */
	assert_int_equal(out.len, size);
	memset(text, 'a', size);
	str_reset(&out);
	mask_text(s, text, size, &out);
	assert_string_equal(str_text(&out), "[secret:a]");
	free(text);
	str_fini(&out);
	open_secrets_free(&s);
}

static void set_holds_so_many_and_not_one_more(void **state)
{
	size_t n = 8, len;
	const struct secret_source from = { .arg = &n, .open = open_long };
	struct open_secrets *s = open_secrets_new(&from);
	const char *value;
	char name[16];
	struct err err;

	for (int i = 0; i < OPEN_SECRETS_MAX; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		assert_int_equal(open_secrets_get(s, name, &value, &len, &err), 0);
		assert_int_equal(open_secrets_get(s, name, &value, &len, &err), 0);
	}
	assert_int_equal(open_secrets_get(s, "one more", &value, &len, &err), ERR_LIMIT);
	open_secrets_free(&s);
	s = open_secrets_new(&from);
	assert_int_equal(open_secrets_get(s, "broken", &value, &len, &err), ERR_TOOL);
	assert_non_null(strstr(err.msg, "the secret broken cannot be opened: cannot be decrypted"));
	open_secrets_free(&s);
	s = open_secrets_new(NULL);
	assert_int_equal(open_secrets_get(s, "x", &value, &len, &err), ERR_TOOL);
	open_secrets_free(&s);
}

SINGLE_THREAD_SUITE(secrets)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(program_gets_the_value_in_its_environment),
		cmocka_unit_test(program_gets_the_value_on_stdin),
		cmocka_unit_test(unset_secret_is_named_and_nothing_runs),
		cmocka_unit_test(every_way_out_is_blanked),
		cmocka_unit_test(state_with_a_secret_does_not_leave),
		cmocka_unit_test(value_of_digits_is_blanked_as_a_number),
		cmocka_unit_test(value_is_blanked_before_a_text_is_cut),
		cmocka_unit_test(value_that_an_error_cuts_is_blanked_to_its_end),
		cmocka_unit_test(search_is_linear_in_a_hostile_text),
		cmocka_unit_test(set_holds_so_many_and_not_one_more),
	};
	return cmocka_run_group_tests_name("secrets in handlers", tests, NULL, NULL);
}
