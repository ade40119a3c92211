/* The example tools of contrib/examples: their documents are valid, and they do what their descriptions say. */
#include "config.h"

#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend_run.h"
#include "../unit/handler_table.h"
#include "base/mem.h"
#include "json/yaml.h"
#include "proto/caps.h"
#include "registry/define.h"
#include "suite.h"

static int install_examples(void **state)
{
	const char *top = getenv("TOOLCRIB_SRCDIR");
	char *script = mem_printf("%s/contrib/examples/install", top ? top : "..");
	char *dir = mem_strdup(run_dir()), sh[] = "sh";
	char *argv[] = { sh, script, dir, NULL };
	int status = -1;
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	free(script);
	free(dir);
	(void)run_loop();
	return 0;
}

static void no_warning(void *arg, const char *pointer, const char *text)
{
	fail_msg("%s: %s: %s", (const char *)arg, pointer, text);
}

/* The handler of an example, its document checked as `tool add` and `tool lint` would. */
static json_t *example(const char *name)
{
	char *file = mem_printf("%s.yaml", name), *text = run_read_file(file);
	struct yaml_docs *docs = NULL;
	struct define_item def;
	struct err err;

	assert_non_null(text);
	if (yaml_load(file, text, strlen(text), &docs, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	assert_int_equal(yaml_count(docs), 1);
	if (define_item(yaml_root(docs, 0), bind_handler, NULL, &def, &err) < 0)
		fail_msg("%s: %s: %s", file, err.where, err.msg);
	assert_string_equal(def.name, name);
	define_lint(yaml_root(docs, 0), no_warning, file);
	json_t *handler = json_deep_copy(json_object_get(yaml_root(docs, 0), "handler"));
	define_free(&def);
	yaml_free(&docs);
	free(text);
	free(file);
	return handler;
}

static void get_weather_knows_a_city_or_says_which(void **state)
{
	struct run r;

	run_it(&r, example("get_weather"), OPTS(.args = "{\"location\":\"new york, US\"}"));
	assert_int_equal(r.kind, END_RESULT);
	assert_string_equal(
		run_text(&r),
		"{\"location\":\"New York\",\"temperature\":22.5,\"conditions\":\"Partly cloudy\","
		"\"humidity\":65}");
	run_free(&r);
	run_it(&r, example("get_weather"), OPTS(.args = "{\"location\":\"--version $(id)\"}"));
	assert_true(r.res.is_error);
	assert_non_null(strstr(run_text(&r), "known are: Amsterdam"));
	run_free(&r);
}

static void query_database_reads_three_databases(void **state)
{
	static const struct { const char *args, *rows; } cases[] = {
		{ "{\"database\":\"users\",\"query\":\"SELECT count(*) FROM users\"}", "[[8]]" },
		{ "{\"database\":\"products\",\"query\":\"SELECT count(*) FROM products\"}", "[[12]]" },
		{ "{\"database\":\"orders\",\"query\":\"SELECT count(*) FROM orders\"}", "[[60]]" },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct run r;
		run_it(&r, example("query_database"), OPTS(.args = cases[i].args));
		assert_int_equal(r.kind, END_RESULT);
		assert_non_null(strstr(run_text(&r), cases[i].rows));
		run_free(&r);
	}
}

static void word_count_counts(void **state)
{
	struct run r;

	run_it(&r, example("word_count"), OPTS(.args = "{\"text\":\"one two\\n$(id) \xc3\xa9\\n\"}"));
	assert_string_equal(run_text(&r), "2 lines, 4 words, 16 characters\n");
	run_free(&r);
}

static void deploy_asks_and_then_works(void **state)
{
	const char *args = "{\"service\":\"shop\",\"version\":\"1.4.2\"}";
	struct run r;

	run_it(&r, example("deploy"), OPTS(.args = args, .caps = CAP_ELICITATION_FORM));
	assert_int_equal(r.kind, END_ASK);
	const json_t *ask = json_object_get(r.requests, "confirm");
	assert_string_equal(json_string_value(json_object_get(json_object_get(ask, "params"), "message")),
			    "Deploy shop 1.4.2 to production?");
	assert_int_equal(r.nprogress, 0);
	run_free(&r);

	run_it(&r, example("deploy"),
	       OPTS(.args = args, .caps = CAP_ELICITATION_FORM, .state = "confirm",
		    .answers =
			    "{\"confirm\":{\"content\":{\"reason\":\"a \\\"fix\\\"\"},\"action\":\"accept\"}}"));
	assert_int_equal(r.kind, END_RESULT);
	assert_false(r.res.is_error);
	assert_int_equal(r.nprogress, 6);
	assert_string_equal(json_string_value(json_object_get(r.res.structured, "reason")), "a \"fix\"");
	run_free(&r);

	run_it(&r, example("deploy"), OPTS(.args = args, .caps = CAP_ELICITATION_FORM, .state = "confirm",
		.answers = "{\"confirm\":{\"action\":\"decline\"}}"));
	assert_true(r.res.is_error);
	assert_int_equal(r.nprogress, 0);
	run_free(&r);
}

/* Their servers are elsewhere: that they are taken, without a warning, is what can be said here. */
static void requests_to_servers_are_taken(void **state)
{
	json_decref(example("look_up"));
	json_decref(example("create_ticket"));
}

SINGLE_THREAD_SUITE(examples)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get_weather_knows_a_city_or_says_which),
		cmocka_unit_test(query_database_reads_three_databases),
		cmocka_unit_test(word_count_counts),
		cmocka_unit_test(deploy_asks_and_then_works),
		cmocka_unit_test(requests_to_servers_are_taken),
	};
	return cmocka_run_group_tests_name("examples", tests, install_examples, NULL);
}
