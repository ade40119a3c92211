/* Which words of a command line are code to the program that gets them: interpreters, their options and operands,
 * and programs that start others.  bind() of exec asks for each word, on any thread; a caller's argument in one of
 * them would be a program of the caller's (SEC S-B04, HARDENING F-20).  Pure functions. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#include "exec_int.h"

enum code_kind {
	CODE_SHELL,             /* the first operand is a command or a script, whatever comes before it */
	CODE_LANGUAGE,          /* what follows the program or script is data, options as well */
	CODE_TOOL,              /* options stand anywhere */
	CODE_STARTER,           /* the first operands are its own, then comes a program */
};

struct code_row {
	const char *names;      /* without versions: python is python3.11 as well */
	enum code_kind kind;
	const char *letters;    /* short options whose value is code, or names a file of code */
	const char *values;     /* short options with another value */
	const char *rests;      /* short options with another value that stands in the same word */
	const char *words;      /* long options whose value is code */
	const char *skip;       /* long options with another value in the next words: one, or two behind a 2 */
	unsigned first, last;   /* operands that are code, unless an option gave some; of a starter: the program */
	const char *how;        /* to say it without a template in code */
	const char *loads;      /* options whose value is code besides the program; NULL: none */
	bool apart;             /* the value of a letter never stands in its own word */
};

#define ALL 255u

static const struct code_row code_rows[] = {
	{ "sh ash bash dash fish ksh mksh rbash zsh csh tcsh", CODE_SHELL, "c", "oO", "",
	  " --command --init-command --rcfile --init-file ", "", 1, 1, "\"$1\"", NULL, true },
	{ "pwsh powershell", CODE_LANGUAGE, "", "", "",
	  " -c -Command -command -CommandWithArgs -EncodedCommand -e -ec -enc -f -File -file ", "", 1, 1,
	  "$args[0]", NULL, false },
	{ "python pypy ipython", CODE_LANGUAGE, "cm", "WXQ", "", "", " --check-hash-based-pycs ", 1, 1,
	  "sys.argv[1]", NULL, false },
	{ "perl", CODE_LANGUAGE, "eE", "", "iCDlx0Vd", "", "", 1, 1, "$ARGV[0]", "-m -M -I -F", false },
	{ "ruby irb jruby", CODE_LANGUAGE, "e", "EC", "iFKTWxl0", "", " --encoding ", 1, 1, "ARGV[0]",
	  "-r -I --require", false },
	{ "node nodejs", CODE_LANGUAGE, "ep", "C", "", " --eval --print ", " --conditions ", 1, 1,
	  "process.argv[1]", "-r --require --import --loader --experimental-loader --env-file", true },
	{ "deno", CODE_TOOL, "", "", "", "", "", 1, 2, "Deno.args[0]", "--import-map --config --preload", false },
	{ "bun", CODE_TOOL, "ep", "", "", " --eval --print ", "", 1, 2, "process.argv[2]", "-r --preload", true },
	{ "php php-cgi", CODE_LANGUAGE, "rBREFf", "St", "",
	  " --run --process-begin --process-code --process-end --file --process-file ", "", 1, 1, "$argv[1]",
	  "-c -d -z --php-ini --define --zend-extension", false },
	{ "lua luajit texlua", CODE_LANGUAGE, "e", "", "jOb", "", "", 1, 1, "...", "-l", false },
	{ "tclsh wish", CODE_LANGUAGE, "", "", "", "", " -encoding ", 1, 1, "[lindex $argv 0]", NULL, false },
	{ "expect", CODE_LANGUAGE, "cf", "", "", "", "", 1, 1, "[lindex $argv 0]", NULL, false },
	{ "Rscript", CODE_LANGUAGE, "e", "", "", "", "", 1, 1, "commandArgs(TRUE)", NULL, false },
	{ "R", CODE_TOOL, "ef", "dg", "", " --file ", "", 0, 0, "commandArgs(TRUE) after --args", NULL, false },
	{ "julia", CODE_LANGUAGE, "eE", "JHCtOg", "", " --eval --print ", "", 1, 1, "ARGS[1]", "-L -p --load", false },
	{ "octave matlab", CODE_LANGUAGE, "r", "p", "", " --eval -batch ", "", 1, 1, "argv(){1}", NULL, false },
	{ "guile", CODE_LANGUAGE, "cs", "x", "", "", "", 1, 1, "(command-line)", "-e -l -L -C", false },
	{ "elixir iex", CODE_LANGUAGE, "e", "", "", " --eval ", "", 1, 1, "System.argv()",
	  "-r -pr -pz -pa --require --erl", false },
	{ "erl", CODE_TOOL, "", "", "", " -eval -run -s -pa -pz -config ", "", 0, 0,
	  "init:get_plain_arguments() after -extra", NULL, false },
	{ "sbcl ecl clisp", CODE_TOOL, "xi", "", "", " --eval --load --script -eval -load -shell --shell ",
	  " --core ", 1, 1, "*posix-argv*", NULL, false },
	{ "swipl", CODE_TOOL, "gtsfl", "", "", "", "", 1, 1, "current_prolog_flag(argv, A)", NULL, false },
	{ "java", CODE_LANGUAGE, "", "DX", "", " -jar -m --module ", "", 1, 1, "the arguments of its program",
	  "-cp -classpath --class-path -p --module-path", false },
	{ "ghc runghc runhaskell ocaml groovy scala clojure clj jshell osascript", CODE_TOOL, "eM", "", "",
	  " --eval --startup ", "", 1, 1, "the arguments of its program", "-cp -classpath", false },
	{ "awk gawk mawk nawk original-awk", CODE_LANGUAGE, "feE", "FvM", "", " --source --file --exec ",
	  " --field-separator --assign ", 1, 1, "-v name={/argument}, or ARGV[1]", "-i -l -W --include --load",
	  false },
	{ "sed gsed", CODE_TOOL, "ef", "l", "i", " --expression --file ", " --line-length ", 1, 1,
	  "a program in another language, with the text as data", NULL, false },
	{ "jq gojq jaq", CODE_TOOL, "f", "", "", " --from-file ",
	  " --indent 2--arg 2--argjson 2--slurpfile 2--rawfile 2--argfile ", 1, 1,
	  "--arg name {/argument}, which is $name", "-L --library-path", false },
	{ "yq", CODE_TOOL, "", "opI", "", " --expression --from-file ", "", 1, 2, "strenv(NAME), or stdin", NULL,
	  false },
	{ "dc", CODE_TOOL, "ef", "", "", " --expression --file ", "", 1, ALL, "stdin", NULL, false },
	{ "m4", CODE_TOOL, "DIFR", "s", "", " --define ", "", 1, ALL, "stdin", NULL, false },
	{ "make gmake", CODE_TOOL, "fIC", "jlo", "", " --eval --file --makefile --directory --include-dir ", "", 1,
	  ALL, "a variable of the environment in the definition, or stdin", NULL, false },
	{ "emacs emacsclient", CODE_TOOL, "efl", "", "",
	  " --eval -eval --execute -execute --load -load --funcall -funcall --script -script ", "", 0, 0,
	  "command-line-args-left", NULL, false },
	{ "vi vim nvim view ex ed", CODE_TOOL, "cSs", "", "", " --cmd ", "", 0, 0, "the name of a file", NULL, false },
	{ "gdb lldb", CODE_TOOL, "xok", "pc", "",
	  " -ex --ex -iex --eval-command -eval-command --command -command --source --one-line ", "", 0, 0, "--args",
	  NULL, false },
	{ "sqlite3", CODE_TOOL, "", "", "", " -cmd -init -unsafe-testing ", " -separator -nullvalue ", 2, ALL,
	  "a handler of type sql, which binds arguments", NULL, false },
	{ "psql", CODE_TOOL, "cf", "dUhpvPFLoRT", "", " --command --file ", " --dbname --username --host --port ",
	  0, 0, "-v name={/argument} and :'name' in a file, or a handler of type sql", NULL, false },
	{ "mysql mariadb", CODE_TOOL, "e", "uhPDS", "p", " --execute --init-command ", "", 0, 0,
	  "a handler of type sql", NULL, false },
	{ "mongosh mongo redis-cli", CODE_TOOL, "", "hpanu", "", " --eval ", "", 0, 0, "stdin", NULL, false },
	{ "find", CODE_TOOL, "", "", "", " -exec -execdir -ok -okdir -files0-from ", "", 0, 0,
	  "an operand before -exec", NULL, false },
	{ "tar gtar bsdtar", CODE_TOOL, "IF", "CfbTX", "",
	  " --to-command --use-compress-program --checkpoint-action --rsh-command "
	  "--info-script --new-volume-script ", "", 0, 0, "the name of a file behind --", NULL, false },
	{ "git", CODE_LANGUAGE, "c", "C", "", " --exec --upload-pack --receive-pack --exec-path --config-env ", "",
	  1, 1, "an operand behind --", NULL, false },
	{ "ssh", CODE_TOOL, "oF", "bcDEeIiJLlmOpQRSWw", "", "", "", 2, ALL, "stdin", NULL, false },
	{ "env", CODE_STARTER, "S", "uC", "", " --split-string ", " --unset --chdir ", 1, 1,
	  "the env of the handler", NULL, false },
	{ "nice nohup setsid stdbuf time ionice chrt xargs watch strace ltrace unshare sudo " "doas busybox",
	  CODE_STARTER, "", "nopugicIPELdstfeabA", "", "", "", 1, 1, "an operand of the program", NULL, false },
	{ "timeout taskset flock setpriv chroot su runuser", CODE_STARTER, "c", "ksw", "", " --command ",
	  " --signal --kill-after ", 2, 2, "an operand of the program", NULL, false },
};

/* --- names */

/* Is the word of this length one of those in the list, between blanks? */
static bool is_listed(const char *list, const char *word, size_t len)
{
	for (const char *p = list; len > 0 && *p; p += strcspn(p, " ")) {
		p += strspn(p, " ");
		if (strcspn(p, " ") == len && strncmp(p, word, len) == 0)
			return true;
	}
	return false;
}

/* Without its folder, and the version behind it. */
static const struct code_row *row_of(const char *text)
{
	const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;
	size_t len = strlen(name), bare = len;

	while (bare > 0 && strchr("0123456789.-", name[bare - 1]))
		bare--;
	for (size_t i = 0; i < NELEMS(code_rows); i++)
		if (is_listed(code_rows[i].names, name, len) || is_listed(code_rows[i].names, name, bare))
			return &code_rows[i];
	return NULL;
}

/* Variables by which whoever sets them chooses code that programs load. */
static bool loads_code(const char *name, size_t len)
{
	static const char *const fronts[] = { "LD_", "PYTHON", "PERL", "RUBY", "NODE_", "LUA_", "PHP", "BASH_", "GIT_",
		"R_", "JULIA_", "DOTNET_", "COR_", "CORECLR_", "GCONV_", "TCL", "ERL_", "ELIXIR_", "GUILE_", "NPM_",
		"DYLD_" };

	for (size_t i = 0; i < NELEMS(fronts); i++)
		if (len >= strlen(fronts[i]) && strncmp(name, fronts[i], strlen(fronts[i])) == 0)
			return true;
	return is_listed("PATH ENV IFS PS4 SHELL SHELLOPTS PROMPT_COMMAND ZDOTDIR CLASSPATH JAVA_TOOL_OPTIONS "
			 "_JAVA_OPTIONS JDK_JAVA_OPTIONS OPENSSL_CONF OPENSSL_MODULES EDITOR VISUAL PAGER LESSOPEN "
			 "LESSCLOSE MANPAGER BROWSER AWKPATH AWKLIBPATH GTK_MODULES QT_PLUGIN_PATH LOCPATH NLSPATH TERMINFO "
			 "HOME XDG_CONFIG_HOME MAKEFLAGS GDBINIT VIMINIT EXINIT EMACSLOADPATH PSQLRC MYSQL_HOME "
			 "SQLITE_HISTORY",
			 name, len);
}

/* --- one word behind the program; true: it is code, and has a template */

static bool is_loaded(const struct code_reader *r, const char *option, size_t len)
{
	return r->row->loads && is_listed(r->row->loads, option, len);
}

static bool long_option(struct code_reader *r, const char *text, bool templated)
{
	size_t len = strcspn(text, "={");
	const char *skip;

	if (text[len] == '{' && templated)
		return true;            /* which option it is, is the caller's choice */
	if (is_listed(r->row->words, text, len) || is_loaded(r, text, len)) {
		r->next = text[len] == '\0';
		r->given = r->given || !is_loaded(r, text, len);
		return templated;
	}
	skip = strstr(r->row->skip, text);
	if (skip && text[len] == '\0' && (skip[len] == ' '))
		r->skip = skip > r->row->skip && skip[-1] == '2' ? 2 : 1;
	return false;
}

static bool short_options(struct code_reader *r, const char *text, bool templated)
{
	const struct code_row *row = r->row;

	for (const char *p = text + 1; *p; p++) {
		const char option[] = { '-', *p };
		bool loaded = is_loaded(r, option, sizeof(option));

		if (*p == '{' && templated)
			return true;
		if (row->apart && strchr(row->letters, *p)) {
			r->armed = true;
		} else if (loaded || strchr(row->letters, *p)) {
			r->given = r->given || !loaded;
			r->next = !p[1];
			return templated;
		} else if (strchr(row->values, *p)) {
			r->skip = p[1] ? 0 : 1;
			return false;
		} else if (strchr(row->rests, *p)) {
			return templated;
		}
		r->given = r->given || (row->kind == CODE_SHELL && *p == 's');  /* its input is the script */
	}
	return false;
}

static void become(struct code_reader *r, const char *text, bool placed)
{
	*r = (struct code_reader){ .row = row_of(text), .name = text, .seen = true, .placed = placed };
}

/* An operand of what starts another program. */
static bool starter_operand(struct code_reader *r, const char *text, bool templated)
{
	size_t len = strcspn(text, "={");

	if (text[len] == '=' && len > 0) {
		r->variable = templated && loads_code(text, len);
		return r->variable;
	}
	r->operands++;
	if (r->operands < r->row->first)
		return false;
	if (!templated)
		become(r, text, true);
	return templated;
}

static bool operand(struct code_reader *r, const char *text, bool templated)
{
	if (r->armed) {
		r->armed = false;
		r->given = true;
		r->operands++;
		return templated;
	}
	if (!r->placed)
		return false;
	if (r->row->kind == CODE_STARTER)
		return starter_operand(r, text, templated);
	r->operands++;
	return templated && !r->given && r->operands >= r->row->first && r->operands <= r->row->last;
}

static bool is_code(struct code_reader *r, const char *text, bool templated)
{
	size_t len = strlen(text);
	bool options = r->row->kind == CODE_TOOL || r->operands == 0, is_shell = r->row->kind == CODE_SHELL;

	if (r->next) {
		r->next = false;
		return templated;
	}
	if (r->skip > 0) {
		r->skip--;
		return false;
	}
	if (r->over || !options || !text[0] || !text[1] || !(text[0] == '-' || (text[0] == '+' && is_shell)))
		return operand(r, text, templated);
	if (strcmp(text, "--") == 0) {
		r->over = true;
		return false;
	}
	if (text[1] == '-' || is_listed(r->row->words, text, len) || is_listed(r->row->skip, text, len) ||
	    is_loaded(r, text, len))
		return long_option(r, text, templated);
	return short_options(r, text, templated);
}

static int refuse(const struct code_reader *r, const char *text, const char *at, struct err *err)
{
	if (r->variable)
		(void)err_set(err, ERR_INVALID, at, "a template cannot be the value of %.*s, which loads code",
			      (int)strcspn(text, "="), text);
	else if (r->row->kind == CODE_SHELL)
		(void)err_set(err, ERR_INVALID, at, "a template cannot be part of a shell command");
	else if (r->row->kind == CODE_STARTER)
		(void)err_set(err, ERR_INVALID, at, "a template cannot choose what %.60s starts", r->name);
	else
		(void)err_set(err, ERR_INVALID, at, "a template cannot be part of what %.60s takes for code", r->name);
	err_hint(err, "pass it as an operand after the code, or on stdin; here: %s", r->row->how);
	return ERR_INVALID;
}

int exec_code_check(struct code_reader r[2], const char *text, bool templated, const char *at, struct err *err)
{
	const struct code_row *row;

	for (size_t i = 0; i < 2; i++)
		if (r[i].row && is_code(&r[i], text, templated))
			return refuse(&r[i], text, at, err);
	if (!r[0].seen)
		become(&r[0], text, true);
	/* Behind a program that is not known here an interpreter may be started as well: its options count. */
	row = templated ? NULL : row_of(text);
	if (row && row != r[0].row && row->kind <= CODE_LANGUAGE)
		become(&r[1], text, false);
	return 0;
}
