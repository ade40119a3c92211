/* Handler blocks: what is refused, where the finger points, and what a template inserts. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/exec/exec_int.h"
#include "backend_run.h"
#include "../unit/handler_table.h"
#include "base/mem.h"
#include "base/text.h"
#include "suite.h"

struct bad {
	const char *handler;            /* ' stands for " */
	const char *where, *msg, *hint; /* msg and hint: a part of it */
};

static int bind(json_t *handler, struct err *err)
{
	struct arena *mem = arena_new(1 << 20);
	const struct backend_ops *ops = NULL;
	const void *plan = NULL;

	*err = (struct err){ 0 };
	int rc = bind_handler(handler, mem, &ops, &plan, err);
	if (rc == 0)
		assert_true(ops && plan);
	else
		assert_true(!ops && !plan);
	json_decref(handler);
	arena_free(&mem);
	return rc;
}

static void expect_refused(const struct bad *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct err err;
		int rc = bind(handler_json(list[i].handler), &err);
		if (rc != ERR_INVALID)
			fail_msg("%s: code %d %s", list[i].handler, rc, err.msg);
		if (strcmp(err.where, list[i].where) != 0 || !strstr(err.msg, list[i].msg))
			fail_msg("%s: %s: %s", list[i].handler, err.where, err.msg);
		if (list[i].hint && !strstr(err.hint, list[i].hint))
			fail_msg("%s: hint %s", list[i].handler, err.hint);
	}
}

static void expect_bound(const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct err err;
		if (bind(handler_json(list[i]), &err) < 0)
			fail_msg("%s: %s: %s", list[i], err.where, err.msg);
	}
}

static void type_is_known_or_refused_with_a_hint(void **state)
{
	static const struct bad bad[] = {
		{ "[]", "", "must be an object", NULL },
		{ "{}", "/type", "missing", NULL },
		{ "{'type':1}", "/type", "must be a string", NULL },
		{ "{'type':'exce','argv':['/x']}", "/type", "unknown handler type", "did you mean exec?" },
		{ "{'type':'carrier-pigeon'}", "/type", "unknown handler type",
		  "static, builtin, exec, http, sql and mcp" },
		{ "{'type':'static','txt':'x'}", "/txt", "", "did you mean text?" },
		{ "{'type':'exec','argv':['/x'],'args':[]}", "/args", "", "did you mean argv?" },
	};
	expect_refused(bad, NELEMS(bad));
}

/* MCP T-36 */
static void static_has_a_result_or_a_text(void **state)
{
	static const struct bad bad[] = {
		{ "{'type':'static'}", "", "either result or text", NULL },
		{ "{'type':'static','text':'x','result':{'content':[]}}", "", "either result or text", NULL },
		{ "{'type':'static','result':{}}", "/result/content", "missing", NULL },
		{ "{'type':'static','result':{'content':[{'type':'txt'}]}}", "/result/content/0/type",
		  "unknown content type", NULL },
		{ "{'type':'static','result':{'content':[{'type':'text','text':1}]}}",
		  "/result/content/0/text", "must be a string", NULL },
		{ "{'type':'static','result':{'content':[{'type':'image','data':'x!','mimeType':'image/png'}]}}",
		  "/result/content/0/data", "base64", NULL },
		{ "{'type':'static','result':{'content':[{'type':'resource','resource':{'uri':'a:b'}}]}}",
		  "/result/content/0/resource/text", "missing", NULL },
		{ "{'type':'static','result':{'content':[],'iserror':true}}", "/result/iserror", "",
		  "isError" },
	};
	static const char *const good[] = {
		"{'type':'static','text':''}",
		"{'type':'static','result':{'content':[],'structuredContent':null,'isError':false,'_meta':{}}}",
		"{'type':'static','result':{'content':[{'type':'image','data':'Zm8=','mimeType':'image/png'}]}}",
		"{'type':'static','result':{'content':[{'type':'resource','resource':{'uri':'a:b','blob':'Zm8='}}]}}",
		"{'type':'static','result':{'content':[{'type':'resource_link','uri':'a:b','name':'b'}]}}",
	};
	expect_refused(bad, NELEMS(bad));
	expect_bound(good, NELEMS(good));
}

static void static_gives_what_was_written(void **state)
{
	struct run r;

	run_it(&r, handler_json("{'type':'static','result':{'content':[{'type':'text','text':'a'}],"
				"'structuredContent':{'b':[1,null]},'_meta':{'c':1}}}"), NO_OPTS);
	assert_string_equal(run_text(&r), "a");
	json_t *want = json_pack("{s:[i,n]}", "b", 1);
	assert_true(json_equal(r.res.structured, want));
	assert_int_equal(json_integer_value(json_object_get(r.res.meta, "c")), 1);
	json_decref(want);
	run_free(&r);

	run_it(&r, handler_json("{'type':'static','result':{'content':[],'structuredContent':null}}"),
	       NO_OPTS);
	assert_true(json_is_null(r.res.structured));    /* null is a value, not an absence */
	assert_null(r.res.meta);
	run_free(&r);
}

static void builtin_functions_are_three(void **state)
{
	static const struct bad bad[] = {
		{ "{'type':'builtin'}", "/function", "missing", NULL },
		{ "{'type':'builtin','function':'ecko'}", "/function", "echo, time or sleep",
		  "did you mean echo?" },
		{ "{'type':'builtin','function':'echo','path':'/x'}", "/path", "", NULL }, /* SEC S-519 */
	};
	struct run r;

	expect_refused(bad, NELEMS(bad));
	run_it(&r, handler_json("{'type':'builtin','function':'echo'}"),
	       OPTS(.args = "{\"x\": [1.50, \"\\u00e9\"]}"));
	assert_string_equal(run_text(&r), "{\"x\": [1.50, \"\\u00e9\"]}");      /* as it came (MCP B-33) */
	run_free(&r);
	run_it(&r, handler_json("{'type':'builtin','function':'time'}"), NO_OPTS);
	assert_int_equal(strlen(json_string_value(json_object_get(r.res.structured, "time"))), 27);
	run_free(&r);
	run_it(&r, handler_json("{'type':'builtin','function':'sleep'}"), OPTS(.args = "{\"ms\":1}"));
	assert_string_equal(run_text(&r), "slept 1 ms");
	run_free(&r);
	run_it(&r, handler_json("{'type':'builtin','function':'sleep'}"), OPTS(.args = "{\"ms\":-1}"));
	assert_int_equal(r.err.code, ERR_TOOL);
	run_free(&r);
}

static void exec_blocks_are_strict(void **state)
{
	static const struct bad bad[] = {
		{ "{'type':'exec'}", "/argv", "missing", NULL },
		{ "{'type':'exec','argv':[]}", "/argv", "1 to", NULL },
		{ "{'type':'exec','argv':['ls']}", "/argv/0", "absolute path", NULL },
		{ "{'type':'exec','argv':['{/program}']}", "/argv/0", "no template", NULL },
		{ "{'type':'exec','argv':['/bin/ls',7]}", "/argv/1", "must be a string", NULL },
		{ "{'type':'exec','argv':['/bin/ls','a\\u0000b']}", "/argv/1", "U+0000", NULL },
		{ "{'type':'exec','argv':['/x'],'output':'jsno'}", "/output", "text, json or stream",
		  "did you mean json?" },
		{ "{'type':'exec','argv':['/x'],'stdin':'jsn'}", "/stdin", "json, none or a template", NULL },
		{ "{'type':'exec','argv':['/x'],'stdin':'none','output':'stream'}", "/stdin", "must be json",
		  NULL },
		{ "{'type':'exec','argv':['/x'],'cwd':'tmp'}", "/cwd", "absolute", NULL },
		{ "{'type':'exec','argv':['/x'],'cwd':'/tmp/{/a}'}", "/cwd", "no template", NULL },
		{ "{'type':'exec','argv':['/x'],'env':{'A B':'x'}}", "/env/A B", "name of a variable", NULL },
		{ "{'type':'exec','argv':['/x'],'env':{'PATH':'/x'}}", "/env/PATH", "fixed", NULL },
		{ "{'type':'exec','argv':['/x'],'env':{'A':'{/a}'}}", "/env/A", "cannot be inserted here",
		  NULL },
		{ "{'type':'exec','argv':['/x'],'env':{'A':'{secret:}'}}", "/env/A", "a name has 1 to 64 of", NULL },
		{ "{'type':'exec','argv':['/x'],'env':{'A':'{secret:a/b}'}}", "/env/A", "a name has 1 to 64 of", NULL },
		{ "{'type':'exec','argv':['/x'],'trace':1}", "/trace", "", NULL },
		{ "{'type':'exec','argv':['/x'],'reuse':2}", "/reuse", "output: stream", NULL },
		{ "{'type':'exec','argv':['/x'],'output':'stream','reuse':0}", "/reuse", "", NULL },
		{ "{'type':'exec','argv':['/x'],'output':'stream','reuse':17}", "/reuse", "", NULL },
		{ "{'type':'exec','argv':['/x','{/a}'],'output':'stream','reuse':1}", "/argv/1", "the same for all calls", NULL },
		{ "{'type':'exec','argv':['/x'],'env':{'P':'{principal}'},'output':'stream','reuse':1}", "/env/P",
		  "the same for all calls", NULL },
		{ "{'type':'exec','argv':['/x'],'env':{'P':'{call}'},'output':'stream','reuse':1}", "/env/P",
		  "the same for all calls", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'memory':'x'}}", "/sandbox/memory", "size", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'memory':'8388607'}}", "/sandbox/memory", "size",
		  NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'cpu':'999ms'}}", "/sandbox/cpu", "duration",
		  NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'cpu':'86401s'}}", "/sandbox/cpu", "duration",
		  NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'netwrok':false}}", "/sandbox/netwrok", "",
		  "network" },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'network':1}}", "/sandbox/network", "true, false or", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'network':{'conect':[1]}}}", "/sandbox/network/conect", "", "connect" },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'network':{'connect':[0]}}}", "/sandbox/network/connect/0", "a port", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'network':{'bind':[80,65536]}}}", "/sandbox/network/bind/1", "a port", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'read':'/x'}}", "/sandbox/read", "array", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'read':['x']}}", "/sandbox/read/0", "absolute", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'read':['/{/a}']}}", "/sandbox/read/0", "no template", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'write':['/a/../b']}}", "/sandbox/write/0", "does not go up", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'write':['/a','/b/..']}}", "/sandbox/write/1", "does not go up", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'processes':0}}", "/sandbox/processes", "", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'processes':4097}}", "/sandbox/processes", "", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'require':'landlock'}}", "/sandbox/require", "a level is base, then", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'require':'base+net0+seccomp'}}", "/sandbox/require", "in this order", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'require':'base+landlock:0'}}", "/sandbox/require", "", NULL },
		{ "{'type':'exec','argv':['/x'],'sandbox':{'require':'base+net0','network':true}}", "/sandbox/require", "exclude each other", NULL },
	};
	static const char *const good[] = {
		"{'type':'exec','argv':['/x','--','{/a}'],'stdin':'{/b}','env':{'A_1':'{tenant}/{principal}','LANG':'C'}}",
		"{'type':'exec','argv':['/x'],'sandbox':{'memory':'8MiB','cpu':'1s'},'cwd':'/tmp','output':'stream'}",
		"{'type':'exec','argv':['/x'],'sandbox':{'memory':'1024GiB','cpu':'24h'},'stdin':'none'}",
		"{'type':'exec','argv':['/x'],'sandbox':{'read':[],'write':['/a/..b//c/...'],'network':false,'processes':1}}",
		"{'type':'exec','argv':['/x'],'sandbox':{'network':true,'require':'base+landlock:99+seccomp','processes':4096}}",
		"{'type':'exec','argv':['/x','{tenant}'],'env':{'K':'{secret:k}{tenant}'},'output':'stream','reuse':16}",
		"{'type':'exec','argv':['/x'],'sandbox':{'network':{'connect':[443,1],'bind':[65535],'udp':true}}}",
	};
	expect_refused(bad, NELEMS(bad));
	expect_bound(good, NELEMS(good));
}

/* Binds, or is refused at an element with a word of why. */
static void code_is_refused(const char *argv, const char *where, const char *why)
{
	char *handler = mem_printf("{'type':'exec','argv':[%s]}", argv);
	const struct bad bad = { handler, where, why, "operand" };

	expect_refused(&bad, 1);
	free(handler);
}

static void data_is_taken(const char *argv)
{
	char *handler = mem_printf("{'type':'exec','argv':[%s]}", argv);
	const char *const good[] = { handler };

	expect_bound(good, 1);
	free(handler);
}

/* HARDENING F-20: each interpreter by its code options and operands, in all the ways to write them. */
static void test_f20_no_template_is_part_of_code(void **state)
{
	static const struct { const char *argv, *where; } code[] = {
		{ "'/usr/bin/python3','-c','{/a}'", "/argv/2" }, { "'/usr/bin/python3.11','-Ic','x={/a}'", "/argv/2" },
		{ "'/usr/bin/python3','-cprint({/a})'", "/argv/1" }, { "'/usr/bin/python3','-m','{/a}'", "/argv/2" },
		{ "'/usr/bin/python3','-W','ignore','{/a}'", "/argv/3" }, { "'/usr/bin/python3','-{/a}'", "/argv/1" },
		{ "'/usr/bin/perl','-e','{/a}'", "/argv/2" }, { "'/usr/bin/perl','-lane','print {/a}'", "/argv/2" },
		{ "'/usr/bin/perl','-M{/a}','-e','1'", "/argv/1" }, { "'/usr/bin/perl5.36.0','-I','/lib','{/a}'", "/argv/3" },
		{ "'/usr/bin/node','-e','{/a}'", "/argv/2" }, { "'/usr/bin/node','-pe','{/a}'", "/argv/2" },
		{ "'/usr/bin/node','--eval={/a}'", "/argv/1" }, { "'/usr/bin/nodejs','--require','{/a}','/x.js'", "/argv/2" },
		{ "'/usr/bin/ruby','-e','{/a}'", "/argv/2" }, { "'/usr/bin/ruby','-r{/a}','/x.rb'", "/argv/1" },
		{ "'/usr/bin/php','-r','{/a}'", "/argv/2" }, { "'/usr/bin/php8.2','-d','{/a}','/x.php'", "/argv/2" },
		{ "'/usr/bin/lua','-e','{/a}'", "/argv/2" }, { "'/usr/bin/lua5.4','{/a}'", "/argv/1" },
		{ "'/usr/bin/awk','{/a}','/x'", "/argv/1" }, { "'/usr/bin/gawk','-F',':','-f','{/a}'", "/argv/4" },
		{ "'/usr/bin/mawk','-v','a=1','/{/a}/'", "/argv/3" }, { "'/usr/bin/sed','-n','s/{/a}/b/'", "/argv/2" },
		{ "'/usr/bin/sed','/x','-e','{/a}'", "/argv/3" }, { "'/usr/bin/jq','.{/a}'", "/argv/1" },
		{ "'/usr/bin/jq','--arg','a','1','-r','{/a}'", "/argv/5" }, { "'/usr/bin/sqlite3','/x.db','{/a}'", "/argv/2" },
		{ "'/usr/bin/psql','-d','x','-c','{/a}'", "/argv/4" }, { "'/usr/bin/find','/x','-exec','{/a}',';'", "/argv/3" },
		{ "'/usr/bin/find','/x','-exec','sh','-c','{/a}',';'", "/argv/5" }, { "'/usr/bin/make','{/a}'", "/argv/1" },
		{ "'/usr/bin/Rscript','-e','{/a}'", "/argv/2" }, { "'/usr/bin/git','-c','{/a}','log'", "/argv/2" },
		{ "'/usr/bin/ssh','host','ls {/a}'", "/argv/2" }, { "'/usr/bin/tar','--to-command={/a}','-xf','/x'", "/argv/1" },
		{ "'/usr/bin/env','LD_PRELOAD={/a}','/x'", "/argv/1" }, { "'/usr/bin/env','A=1','PYTHONPATH={/a}','/x'", "/argv/2" },
		{ "'/usr/bin/env','{/a}','/x'", "/argv/1" }, { "'/usr/bin/env','X{/a}=1','/x'", "/argv/1" },
		{ "'/usr/bin/env','-S','{/a}'", "/argv/2" }, { "'/usr/bin/env','-i','A=1','{/a}'", "/argv/3" },
		{ "'/usr/bin/env','-u','HOME','python3','-c','{/a}'", "/argv/5" },
		{ "'/usr/bin/timeout','-k','1','5','python3','-c','{/a}'", "/argv/6" }, { "'/usr/bin/nice','{/a}'", "/argv/1" },
		{ "'/usr/bin/timeout','5','nice','-n','5','awk','{/a}'", "/argv/6" }, { "'/usr/bin/xargs','-n','1','{/a}'", "/argv/3" },
		{ "'/opt/wrapper','python3','-c','{/a}'", "/argv/3" }, { "'/bin/busybox','awk','{/a}'", "/argv/2" },
		{ "'/bin/sh','-c','-e','{/a}'", "/argv/3" }, { "'/bin/sh','{/a}'", "/argv/1" }, { "'/bin/sh','-ce','{/a}'", "/argv/2" },
		{ "'/bin/bash','--rcfile','{/a}','-i'", "/argv/2" }, { "'/usr/bin/pwsh','-Command','{/a}'", "/argv/2" },
	};
	static const char *const data[] = {
		"'/usr/bin/python3','-c','import sys; print(sys.argv[1])','{/a}'", "'/usr/bin/python3','/x.py','-c','{/a}'",
		"'/usr/bin/python3','-m','json.tool','{/a}'", "'/usr/bin/perl','-e','print $ARGV[0]','--','{/a}'",
		"'/usr/bin/node','/x.js','-e','{/a}'", "'/usr/bin/node','-e','1','{/a}'", "'/usr/bin/ruby','-W','/x.rb','{/a}'",
		"'/usr/bin/awk','-v','a={/a}','{{ print a }}','/x'", "'/usr/bin/awk','-F{/a}','{{ print $1 }}','{/file}'",
		"'/usr/bin/sed','-n','1p','{/a}'", "'/usr/bin/sed','-e','1p','{/a}'", "'/usr/bin/jq','--arg','a','{/a}','.x == $a','/x'",
		"'/usr/bin/jq','.','{/a}'", "'/usr/bin/env','A={/a}','/x','{/b}'", "'/usr/bin/timeout','{/t}','/x','{/a}'",
		"'/usr/bin/grep','-e','{/a}','/x'", "'/usr/bin/find','/x','-name','{/a}'", "'/usr/bin/git','log','-c','{/a}'",
		"'/usr/bin/java','-Da={/a}','-jar','/x.jar','{/b}'", "'/usr/bin/tar','-xf','{/a}'", "'/bin/sh','-s','{/a}'",
		"'/usr/bin/psql','-v','a={/a}','-f','/x.sql'", "'/bin/pythonic','{/a}'", "'/bin/echo','python3','{/a}'",
	};

	for (size_t i = 0; i < NELEMS(code); i++)
		code_is_refused(code[i].argv, code[i].where, "a template cannot");
	for (size_t i = 0; i < NELEMS(data); i++)
		data_is_taken(data[i]);
}

/* SEC S-B04: an argument that becomes shell text would be the whole game. */
static void no_template_is_part_of_a_shell_command(void **state)
{
	static const struct bad bad[] = {
		{ "{'type':'exec','argv':['/bin/sh','-c','ls {/dir}']}", "/argv/2", "shell command",
		  "operand" },
		{ "{'type':'exec','argv':['/bin/bash','-o','pipefail','-ec','ls {/dir}']}", "/argv/4",
		  "shell command", NULL },
		{ "{'type':'exec','argv':['/usr/bin/env','-i','sh','-c','{/cmd}']}", "/argv/4",
		  "shell command", NULL },
	};
	static const char *const good[] = {
		"{'type':'exec','argv':['/bin/sh','-c','ls -- \\\"$1\\\"','sh','{/dir}']}",
		"{'type':'exec','argv':['/usr/bin/grep','-c','{/word}','/etc/motd']}",
		"{'type':'exec','argv':['/bin/sh','--','/x/script','-c','{/word}']}",
	};
	expect_refused(bad, NELEMS(bad));
	expect_bound(good, NELEMS(good));
}

static void template_syntax_is_checked(void **state)
{
	static const struct bad bad[] = {
		{ "{'type':'exec','argv':['/x','a{/b']}", "/argv/1", "a lone { at byte 2", "{{" },
		{ "{'type':'exec','argv':['/x','a}b']}", "/argv/1", "a lone } at byte 2", "}}" },
		{ "{'type':'exec','argv':['/x','{}']}", "/argv/1", "unknown insert {}", NULL },
		{ "{'type':'exec','argv':['/x','{file}']}", "/argv/1", "unknown insert {file}", "{/name}" },
		{ "{'type':'exec','argv':['/x','{tenent}']}", "/argv/1", "unknown insert",
		  "did you mean {tenant}?" },
		{ "{'type':'exec','argv':['/x','{/a~2}']}", "/argv/1", "no JSON pointer", NULL },
		{ "{'type':'exec','argv':['/x','{/a~}']}", "/argv/1", "no JSON pointer", NULL },
		{ "{'type':'exec','argv':['/x','{secret:token}']}", "/argv/1", "a secret cannot be inserted here",
		  NULL },
	};
	expect_refused(bad, NELEMS(bad));
}

static void template_inserts_text(void **state)
{
	static const struct { const char *tpl, *out;
	} cases[] = {
		{ "{/s}", "text" },
		{ "a{/s}b{/s}c", "atextbtextc" },
		{ "{{{/s}}}", "{text}" },
		{ "{{}}", "{}" },
		{ "{/i}", "-42" },
		{ "{/f}", "12.30" },
		{ "{/t}{/n}", "truefalse" },
		{ "{/o/deep/1}", "two" },
		{ "{/o}", "{\"deep\": [\"one\", \"two\"]}" },
		{ "{/o/deep}", "[\"one\", \"two\"]" },
		{ "{/a~1b}", "slash" },
		{ "{/e}", "" },
		{ "{tenant}-{principal}", "acme-bot" },
		{ "{call}", "01020300-0000-0000-0000-000000000000" },
		{ "{/brace}", "{/s}" },
	};
	const char *args = "{\"s\":\"text\",\"i\":-42,\"f\":12.30,\"t\":true,\"n\":false,"
		"\"o\":{\"deep\": [\"one\", \"two\"]},\"a/b\":\"slash\",\"e\":\"\",\"brace\":\"{/s}\"}";

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct run r;
		json_t *h = json_pack("{s:s, s:[s,s,s,s]}", "type", "exec", "argv", "/usr/bin/printf", "--",
				      "%s", cases[i].tpl);
		run_it(&r, h, OPTS(.args = args));
		assert_int_equal(r.kind, END_RESULT);
		assert_string_equal(run_text(&r), cases[i].out);
		run_free(&r);
	}
}

static void template_refuses_what_is_missing(void **state)
{
	static const struct { const char *args, *msg; } cases[] = {
		{ "{}", "argument /a is missing" }, { "{\"a\":null}", "argument /a is missing" },
		{ "{\"a\":\"x\\u0000y\"}", "U+0000" },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct run r;
		run_it(&r, handler_json("{'type':'exec','argv':['/bin/echo','--','{/a}']}"),
		       OPTS(.args = cases[i].args));
		assert_int_equal(r.err.code, ERR_TOOL);
		assert_non_null(strstr(r.err.msg, cases[i].msg));
		run_free(&r);
	}
}

static void sql_blocks_are_strict(void **state)
{
	static const struct bad bad[] = {
		{ "{'type':'sql'}", "/database", "missing", NULL },
		{ "{'type':'sql','database':'/x.db','query':'SELECT 1'}", "/database", "sqlite:PATH", NULL },
		{ "{'type':'sql','database':'postgresql://h/d','query':'SELECT 1'}", "/database",
		  "sqlite:PATH", NULL },
		{ "{'type':'sql','database':'sqlite:x.db','query':'SELECT 1'}", "/database", "absolute",
		  NULL },
		{ "{'type':'sql','database':'sqlite:/data/{/name}.db','query':'SELECT 1'}", "/database",
		  "no template", "databases" },
		{ "{'type':'sql','database':'x{/db}','databases':{'a':'sqlite:/a'},'query':'SELECT 1'}",
		  "/database", "one argument", NULL },
		{ "{'type':'sql','database':'{/db}','databases':{},'query':'SELECT 1'}", "/databases", "1 to",
		  NULL },
		{ "{'type':'sql','database':'{/db}','databases':{'a':'a.db'},'query':'SELECT 1'}",
		  "/databases/a", "sqlite:PATH", NULL },
		{ "{'type':'sql','database':'sqlite:/x'}", "", "either query or statement", NULL },
		{ "{'type':'sql','database':'sqlite:/x','query':'SELECT 1','statement':'{/q}'}", "",
		  "either query or statement", NULL },
		{ "{'type':'sql','database':'sqlite:/x','statement':'SELECT * FROM {/table}'}", "/statement",
		  "one argument", ":name" },
		{ "{'type':'sql','database':'sqlite:/x','query':'SELECT 1','rows':0}", "/rows", "", NULL },
		{ "{'type':'sql','database':'sqlite:/x','query':'SELECT 1','rows':100001}", "/rows", "",
		  NULL },
	};
	static const char *const good[] = {
		"{'type':'sql','database':'sqlite:/x','query':'SELECT {}','rows':100000}",
		"{'type':'sql','database':'{/db}','databases':{'a':'sqlite:/a'},'statement':'{/query}','rows':1}",
	};
	expect_refused(bad, NELEMS(bad));
	expect_bound(good, NELEMS(good));
}

static void block_that_does_not_fit_is_a_limit(void **state)
{
	struct str big = STR_INIT;
	struct err err;

	str_puts(&big, "{'type':'static','text':'");
	for (int i = 0; i < (1 << 20); i++)
		str_putc(&big, 'x');
	str_puts(&big, "'}");
	assert_int_equal(bind(handler_json(str_text(&big)), &err), ERR_LIMIT);
	assert_string_equal(err.where, "/text");
	str_fini(&big);
}

/* A process that serves several calls would keep the trace of its first one (OP-404). */
static void environment_has_a_trace_where_it_is_one_calls(void **state)
{
	static const struct { const char *handler; bool traced; } cases[] = {
		{ "{'type':'exec','argv':['/x']}", true },
		{ "{'type':'exec','argv':['/x'],'trace':true}", true },
		{ "{'type':'exec','argv':['/x'],'trace':false}", false },
		{ "{'type':'exec','argv':['/x'],'output':'stream','reuse':1}", false },
		{ "{'type':'exec','argv':['/x'],'output':'stream','reuse':1,'trace':true}", false },
		{ "{'type':'exec','argv':['/x'],'env':{'TRACEPARENT':'mine'}}", false },
		{ "{'type':'exec','argv':['/x'],'env':{'TRACESTATE':'mine'}}", false },
		{ "{'type':'exec','argv':['/x'],'env':{'TRACE':'mine'}}", true },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct arena *mem = arena_new(1 << 20);
		const struct backend_ops *ops = NULL;
		const void *plan = NULL;
		struct err err;
		json_t *h = handler_json(cases[i].handler);

		assert_int_equal(bind_handler(h, mem, &ops, &plan, &err), 0);
		assert_int_equal(((const struct exec_plan *)plan)->traced, cases[i].traced);
		json_decref(h);
		arena_free(&mem);
	}
}

SINGLE_THREAD_SUITE(bind)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(environment_has_a_trace_where_it_is_one_calls),
		cmocka_unit_test(type_is_known_or_refused_with_a_hint),
		cmocka_unit_test(static_has_a_result_or_a_text),
		cmocka_unit_test(static_gives_what_was_written),
		cmocka_unit_test(builtin_functions_are_three),
		cmocka_unit_test(exec_blocks_are_strict),
		cmocka_unit_test(no_template_is_part_of_a_shell_command),
		cmocka_unit_test(test_f20_no_template_is_part_of_code),
		cmocka_unit_test(template_syntax_is_checked),
		cmocka_unit_test(template_inserts_text),
		cmocka_unit_test(template_refuses_what_is_missing),
		cmocka_unit_test(sql_blocks_are_strict),
		cmocka_unit_test(block_that_does_not_fit_is_a_limit),
	};
	return cmocka_run_group_tests_name("handler blocks", tests, NULL, NULL);
}
