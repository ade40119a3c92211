/* The table of commands as text: help for one command, one noun, everything; the COMMANDS list of toolcrib(8) in mdoc;
 * completion for bash, zsh and fish. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "base/mem.h"

#include "ctl_int.h"

/* --- help */

#define HELP_WIDTH 80
#define HELP_COLUMN 24                  /* where explanations of words and options begin */

const struct ctl_global ctl_globals[] = {
	{ "store", "DIR", "the store; default: $TOOLCRIB_STORE, then the state directory of the user", 0 },
	{ "socket", "PATH", "the admin socket of the server to ask, instead of the store's owner", 0 },
	{ "remote", "HOST:PORT", "the server of another machine, by its admin.listen; --key-file says who asks", 0 },
	{ "ca", "FILE", "with --remote: who vouches for that server; default: the system's list", 0 },
	{ "key-file", "FILE", "with --remote: the key that toolcrib admin-key made", 0 },
	{ "format", "FORMAT", "of lists and reports: table, json (one document), jsonl (a line each, the header of a report "
	  "first) or csv", 0 },
	{ "json", NULL, "one JSON object per line instead of text for people", 0 },
	{ "quiet", NULL, "print the essential alone: names, the key, nothing for a change", 'q' },
	{ "yes", NULL, "do not ask before a change that cannot be undone", 'y' },
	{ "help", NULL, "show help", 'h' },
	{ "version", NULL, "show the version", 'V' },
	{ NULL, NULL, NULL, 0 },
};

void ctl_command_name(const struct command *cmd, struct str *out)
{
	str_puts(out, cmd->noun);
	if (cmd->verb)
		str_printf(out, " %s", cmd->verb);
}

char ctl_letter(const struct command_arg *arg)
{
	if (!arg->option)
		return 0;
	if (arg->type == ARG_FILE || strcmp(arg->name, "follow") == 0)
		return 'f';
	return strcmp(arg->name, "number") == 0 ? 'n' : 0;
}

static void put_usage_arg(const struct command_arg *arg, struct str *out)
{
	str_puts(out, arg->required ? " " : " [");
	if (ctl_letter(arg))
		str_printf(out, "-%c ", ctl_letter(arg));
	else if (arg->option)
		str_printf(out, "--%s%s", arg->name, arg->value ? " " : "");
	if (arg->value)
		str_puts(out, arg->value);
	if (arg->repeated)
		str_puts(out, "...");
	if (!arg->required)
		str_putc(out, ']');
}

void ctl_usage(const struct command *cmd, struct str *out)
{
	str_puts(out, "toolcrib ");
	ctl_command_name(cmd, out);
	for (const struct command_arg *arg = cmd->args; arg && arg->name; arg++)
		if (!arg->option)
			put_usage_arg(arg, out);
	for (const struct command_arg *arg = cmd->args; arg && arg->name; arg++)
		if (arg->option)
			put_usage_arg(arg, out);
}

/* Words of a text from column `at`, broken before HELP_WIDTH, further lines indented to `indent`. */
static void put_wrapped(const char *text, size_t at, size_t indent, struct str *out)
{
	bool first = true;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (!first && at + 1 + n > HELP_WIDTH) {
			str_printf(out, "\n%*s", (int)indent, "");
			at = indent;
			first = true;
		}
		if (!first) {
			str_putc(out, ' ');
			at++;
		}
		str_put(out, text, n);
		at += n;
		first = false;
		text += n;
		text += strspn(text, " ");
	}
	str_putc(out, '\n');
}

/* "  LEFT       explanation", the explanation on a line of its own when LEFT is long. */
static void put_entry(const char *left, const char *text, struct str *out)
{
	size_t n = strlen(left);

	str_printf(out, "  %s", left);
	if (n + 4 > HELP_COLUMN)
		str_printf(out, "\n%*s", HELP_COLUMN, "");
	else
		str_printf(out, "%*s", (int)(HELP_COLUMN - 2 - n), "");
	put_wrapped(text, HELP_COLUMN, HELP_COLUMN, out);
}

static void put_args(const struct command *cmd, bool option, struct str *out)
{
	for (const struct command_arg *arg = cmd->args; arg && arg->name; arg++) {
		struct str left = STR_INIT;

		if (arg->option != option)
			continue;
		if (ctl_letter(arg))
			str_printf(&left, "-%c, ", ctl_letter(arg));
		if (option)
			str_printf(&left, "--%s%s", arg->name, arg->value ? " " : "");
		if (arg->value)
			str_puts(&left, arg->value);
		if (arg->repeated)
			str_puts(&left, "...");
		put_entry(str_text(&left), arg->help, out);
		str_fini(&left);
	}
}

void ctl_help_command(const struct command *cmd, struct str *out)
{
	str_puts(out, "usage: ");
	ctl_usage(cmd, out);
	str_puts(out, "\n\n");
	str_printf(out, "%s.\n", cmd->help);
	if (cmd->detail)
		put_wrapped(cmd->detail, 0, 0, out);
	if (cmd->args && cmd->args->name)
		str_putc(out, '\n');
	put_args(cmd, false, out);
	put_args(cmd, true, out);
	if (cmd->destructive)
		str_puts(out, "\nAsks first on a terminal; needs --yes without one.\n");
	str_puts(out, "\nOptions of every command: toolcrib --help.  Examples: man 8 toolcrib.\n");
}

static void put_command(const struct command *cmd, struct str *out)
{
	struct str name = STR_INIT;

	ctl_command_name(cmd, &name);
	put_entry(str_text(&name), cmd->help, out);
	str_fini(&name);
}

void ctl_help_noun(const struct command *const *tables, const char *noun, struct str *out)
{
	str_printf(out, "usage: toolcrib %s COMMAND ...\n\n", noun);
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;)
		if (strcmp(c->noun, noun) == 0)
			put_command(c, out);
	str_printf(out, "\ntoolcrib %s COMMAND --help explains one of them.\n", noun);
}

void ctl_help_all(const struct command *const *tables, struct str *out)
{
	const char *noun = NULL;

	str_puts(out, "usage: toolcrib [OPTION...] COMMAND ...\n\nAdministers the tools of a toolcrib store.\n\n");
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;) {
		if (c->verb && noun && strcmp(noun, c->noun) != 0)
			str_putc(out, '\n');
		noun = c->noun;
		put_command(c, out);
	}
	str_puts(out, "\nOptions of every command:\n");
	for (const struct ctl_global *g = ctl_globals; g->name; g++) {
		struct str left = STR_INIT;

		if (g->letter)
			str_printf(&left, "-%c, ", g->letter);
		str_printf(&left, "--%s%s%s", g->name, g->value ? " " : "", g->value ? g->value : "");
		put_entry(str_text(&left), g->help, out);
		str_fini(&left);
	}
	str_puts(out, "\ntoolcrib COMMAND --help explains one command, man 8 toolcrib all of them.\n");
}

/* --- The table as the COMMANDS list of toolcrib(8), in mdoc */

/* contrib/check-man-table.sh compares the page with it. */

#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* A text line: no request at its front, no escapes, a sentence per line. */
static void put_text(const char *text, struct str *out)
{
	bool start = true;

	for (const char *p = text; *p; p++) {
		if (start && (*p == '.' || *p == '\''))
			str_puts(out, "\\&");
		start = false;
		if (*p == '\\') {
			str_puts(out, "\\e");
			continue;
		}
		if (*p == '.' && p[1] == ' ' && strchr(UPPER, p[1 + strspn(p + 1, " ")])) {
			str_puts(out, ".\n");
			p += strspn(p + 1, " ");
			start = true;
			continue;
		}
		str_putc(out, *p);
	}
	str_putc(out, '\n');
}

static void put_arg_macros(const struct command_arg *arg, struct str *out)
{
	if (arg->option)
		str_printf(out, " Fl -%s", arg->name);
	if (arg->value)
		str_printf(out, " Ar %s", arg->value);
	if (arg->repeated)
		str_puts(out, " ...");
}

static void ctl_man_put_args(const struct command *cmd, bool option, struct str *out)
{
	for (const struct command_arg *arg = cmd->args; arg && arg->name; arg++) {
		if (arg->option != option)
			continue;
		str_puts(out, ".It");
		if (ctl_letter(arg))
			str_printf(out, " Fl %c ,", ctl_letter(arg));
		put_arg_macros(arg, out);
		str_putc(out, '\n');
		put_text(arg->help, out);
	}
}

static void put_synopsis(const struct command *cmd, bool option, struct str *out)
{
	for (const struct command_arg *arg = cmd->args; arg && arg->name; arg++) {
		if (arg->option != option)
			continue;
		if (arg->required) {
			put_arg_macros(arg, out);
		} else {
			str_puts(out, " Oo");
			put_arg_macros(arg, out);
			str_puts(out, " Oc");
		}
	}
}

static void put_columns(const struct command *cmd, struct str *out)
{
	bool any = false;

	if (!cmd->columns || cmd->shape == ADM_SECRET)
		return;
	str_puts(out, ".Pp\nMembers:\n");
	for (const struct command_column *col = cmd->columns; col->member; col++) {
		if (any)
			str_puts(out, " ,\n");
		str_printf(out, ".Va %s", col->member);
		any = true;
	}
	str_puts(out, " .\n");
}

void ctl_man_commands(const struct command *const *tables, struct str *out)
{
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;) {
		str_puts(out, ".It Ic ");
		ctl_command_name(c, out);
		put_synopsis(c, false, out);
		put_synopsis(c, true, out);
		str_printf(out, "\n%s.\n", c->help);
		if (c->detail)
			put_text(c->detail, out);
		if (c->destructive)
			str_puts(out, "Asks on a terminal, needs\n.Fl -yes\nwithout one.\n");
		if (c->destructive_with)
			str_printf(out, "With\n.Fl -%s\nasks on a terminal, needs\n.Fl -yes\nwithout one.\n",
				   c->destructive_with);
		if (c->where != ADM_ON_CTL) {
			str_puts(out, "Roles: ");
			command_roles(c, out);
			str_puts(out, ".\n");
		}
		if (c->args && c->args->name) {
			str_puts(out, ".Bl -tag -width Ds -compact\n");
			ctl_man_put_args(c, false, out);
			ctl_man_put_args(c, true, out);
			str_puts(out, ".El\n");
		}
		put_columns(c, out);
	}
}

/* --- The table as completion for shells */

/* The same functions in the words of each shell; what is in front and behind them is written by hand, and easier to
 * read where "toolcrib completion" prints it.  Names are asked
 * from the store and never evaluated: compgen -W would. */

static const char bash_head[] =
	"# bash completion for toolcrib, printed by \"toolcrib completion bash\"\n\n"
	"# Take the lines on standard input that fit; $1 is put behind each.\n_toolcrib_fit()\n{\n\tlocal line\n"
	"\twhile IFS= read -r line; do\n\t\tif [[ -n $line && $line == \"$cur\"* ]]; then\n"
	"\t\t\tCOMPREPLY+=(\"$(printf %q \"$line$1\")\")\n\t\tfi\n\tdone\n}\n_toolcrib_words()\n{\n"
	"\t_toolcrib_fit < <(printf '%s\\n' \"$@\")\n}\n_toolcrib_ask()\n{\n"
	"\tcommand toolcrib \"${road[@]}\" --quiet \"$@\" 2>/dev/null </dev/null\n}\n_toolcrib_tenant()\n{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask tenant list)\n}\n_toolcrib_principal()\n{\n\tif [[ $cur == */* ]]; then\n"
	"\t\t_toolcrib_fit < <(_toolcrib_ask principal list \"${cur%%/*}\")\n\telse\n\t\tcompopt -o nospace\n"
	"\t\t_toolcrib_fit / < <(_toolcrib_ask tenant list)\n\tfi\n}\n_toolcrib_key()\n{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask key list)\n}\n_toolcrib_tool()\n{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask tool list)\n}\n_toolcrib_upstream()\n{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask upstream list)\n}\n_toolcrib_schema()\n{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask schema list)\n}\n_toolcrib_prompt()\n{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask prompt list)\n}\n_toolcrib_resource()\n{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask resource list)\n}\n_toolcrib_file()\n{\n\tcompopt -o filenames\n"
	"\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n}\n_toolcrib_command()\n{\n"
	"\tif ((${#plain[@]} > 1)); then\n\t\t_toolcrib_verbs \"${plain[1]}\"\n\telse\n\t\t_toolcrib_nouns\n\tfi\n}\n";

static const char bash_body[] =
	"_toolcrib()\n{\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} option= command= word i\n\tlocal -a road=() plain=()\n"
	"\tCOMPREPLY=()\n\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tword=${COMP_WORDS[i]}\n"
	"\t\tif [[ $word != -?* ]]; then\n\t\t\tplain+=(\"$word\")\n\t\telif _toolcrib_valued \"$word\"; then\n"
	"\t\t\ti=$((i + 1))\n\t\t\tif ((i == COMP_CWORD)); then\n\t\t\t\toption=$word\n"
	"\t\t\telif [[ $word == --store || $word == --socket || $word == --remote || $word == --ca || $word == --k"
	"ey-file ]]; then\n\t\t\t\troad+=(\"$word\" \"${COMP_WORDS[i]}\")\n\t\t\tfi\n\t\tfi\n\tdone\n"
	"\tif [[ $option == --store || $option == --socket || $option == --ca || $option == --key-file ]]; then\n"
	"\t\t_toolcrib_file\n\telif [[ $option == --format ]]; then\n\t\t_toolcrib_value \" $option\"\n"
	"\telif ((${#plain[@]} == 0)); then\n"
	"\t\tif [[ $cur == -* ]]; then _toolcrib_options; else _toolcrib_nouns; fi\n\telse\n\t\tcommand=${plain[0]}\n"
	"\t\tif _toolcrib_has_verbs \"$command\"; then\n\t\t\tif ((${#plain[@]} == 1)); then\n"
	"\t\t\t\tif [[ $cur == -* ]]; then _toolcrib_options; else _toolcrib_verbs \"$command\"; fi\n\t\t\t\treturn\n"
	"\t\t\tfi\n\t\t\tcommand+=\" ${plain[1]}\"\n\t\t\ti=$((${#plain[@]} - 2))\n\t\telse\n"
	"\t\t\ti=$((${#plain[@]} - 1))\n\t\tfi\n\t\tif [[ -n $option ]]; then\n"
	"\t\t\t_toolcrib_value \"$command $option\"\n\t\telif [[ $cur == -* ]]; then\n"
	"\t\t\t_toolcrib_options \"$command\"\n\t\telse\n\t\t\t_toolcrib_value \"$command $i\"\n\t\tfi\n\tfi\n}\n"
	"complete -F _toolcrib toolcrib\n";

static const char zsh_head[] =
	"#compdef toolcrib\n# zsh completion for toolcrib, printed by \"toolcrib completion zsh\"\n\n"
	"# Word, help, word, help, ...\n_toolcrib_words()\n{\n\tlocal -a list\n\tlocal word help\n"
	"\tfor word help; do\n\t\tlist+=(\"$word:$help\")\n\tdone\n\t_describe -t words word list\n}\n"
	"_toolcrib_ask()\n{\n\tcommand toolcrib \"${road[@]}\" --quiet \"$@\" 2>/dev/null </dev/null\n}\n"
	"# Names go from the store to the list as they are.\n_toolcrib_names()\n{\n\tlocal -a names\n"
	"\tnames=(\"${(@f)$(_toolcrib_ask \"$@\")}\")\n\tnames=(\"${(@)names:#}\")\n\tcompadd -a names\n}\n"
	"_toolcrib_principal()\n{\n\tlocal -a names\n\tif [[ $PREFIX == */* ]]; then\n"
	"\t\t_toolcrib_names principal list \"${PREFIX%%/*}\"\n\telse\n"
	"\t\tnames=(\"${(@f)$(_toolcrib_ask tenant list)}\")\n\t\tnames=(\"${(@)names:#}\")\n"
	"\t\tcompadd -S / -a names\n\tfi\n}\n_toolcrib_tenant()\n{\n\t_toolcrib_names tenant list\n}\n"
	"_toolcrib_key()\n{\n\t_toolcrib_names key list\n}\n_toolcrib_tool()\n{\n\t_toolcrib_names tool list\n}\n"
	"_toolcrib_upstream()\n{\n\t_toolcrib_names upstream list\n}\n_toolcrib_schema()\n{\n"
	"\t_toolcrib_names schema list\n}\n_toolcrib_prompt()\n{\n\t_toolcrib_names prompt list\n}\n"
	"_toolcrib_resource()\n{\n\t_toolcrib_names resource list\n}\n_toolcrib_file()\n{\n\t_files\n}\n"
	"_toolcrib_command()\n{\n\tif (( ${#plain} > 1 )); then\n\t\t_toolcrib_verbs \"${plain[2]}\"\n\telse\n"
	"\t\t_toolcrib_nouns\n\tfi\n}\n";

static const char zsh_body[] =
	"_toolcrib()\n{\n\tlocal option= command= word\n\tlocal -a road plain\n\tlocal -i i\n"
	"\tfor (( i = 2; i < CURRENT; i++ )); do\n\t\tword=${words[i]}\n\t\tif [[ $word != -?* ]]; then\n"
	"\t\t\tplain+=(\"$word\")\n\t\telif _toolcrib_valued \"$word\"; then\n\t\t\ti+=1\n"
	"\t\t\tif (( i == CURRENT )); then\n\t\t\t\toption=$word\n"
	"\t\t\telif [[ $word == --(store|socket|remote|ca|key-file) ]]; then\n"
	"\t\t\t\troad+=(\"$word\" \"${words[i]}\")\n\t\t\tfi\n\t\tfi\n\tdone\n"
	"\tif [[ $option == --(store|socket|ca|key-file) ]]; then\n\t\t_files\n"
	"\telif [[ $option == --format ]]; then\n\t\t_toolcrib_value \" $option\"\n"
	"\telif (( ${#plain} == 0 )); then\n"
	"\t\tif [[ $PREFIX == -* ]]; then _toolcrib_options; else _toolcrib_nouns; fi\n\telse\n"
	"\t\tcommand=${plain[1]}\n\t\ti=$(( ${#plain} - 1 ))\n\t\tif _toolcrib_has_verbs \"$command\"; then\n"
	"\t\t\tif (( ${#plain} == 1 )); then\n"
	"\t\t\t\tif [[ $PREFIX == -* ]]; then _toolcrib_options; else _toolcrib_verbs \"$command\"; fi\n"
	"\t\t\t\treturn\n\t\t\tfi\n\t\t\tcommand+=\" ${plain[2]}\"\n\t\t\ti=$(( ${#plain} - 2 ))\n\t\tfi\n"
	"\t\tif [[ -n $option ]]; then\n\t\t\t_toolcrib_value \"$command $option\"\n"
	"\t\telif [[ $PREFIX == -* ]]; then\n\t\t\t_toolcrib_options \"$command\"\n\t\telse\n"
	"\t\t\t_toolcrib_value \"$command $i\"\n\t\tfi\n\tfi\n}\n"
	"if [ \"${funcstack[1]}\" = _toolcrib ]; then _toolcrib \"$@\"; else compdef _toolcrib toolcrib; fi\n";

static const char fish_head[] =
	"# fish completion for toolcrib, printed by \"toolcrib completion fish\"\n\n# Word, help, word, help, ...\n"
	"function _toolcrib_words\n\twhile set -q argv[1]\n\t\tprintf '%s\\t%s\\n' $argv[1] $argv[2]\n"
	"\t\tset -e argv[1..2]\n\tend\nend\nfunction _toolcrib_ask\n"
	"\tcommand toolcrib $_toolcrib_road --quiet $argv 2>/dev/null </dev/null\nend\nfunction _toolcrib_principal\n"
	"\tset -l cur (commandline -ct)\n\tif string match -q '*/*' -- $cur\n"
	"\t\t_toolcrib_ask principal list (string replace -r '/.*' '' -- $cur)\n\telse\n"
	"\t\tfor name in (_toolcrib_ask tenant list)\n\t\t\tprintf '%s/\\n' $name\n\t\tend\n\tend\nend\n"
	"function _toolcrib_tenant\n\t_toolcrib_ask tenant list\nend\nfunction _toolcrib_key\n"
	"\t_toolcrib_ask key list\nend\nfunction _toolcrib_tool\n\t_toolcrib_ask tool list\nend\n"
	"function _toolcrib_upstream\n\t_toolcrib_ask upstream list\nend\nfunction _toolcrib_schema\n"
	"\t_toolcrib_ask schema list\nend\nfunction _toolcrib_prompt\n\t_toolcrib_ask prompt list\nend\n"
	"function _toolcrib_resource\n\t_toolcrib_ask resource list\nend\nfunction _toolcrib_file\n"
	"\t__fish_complete_path (commandline -ct)\nend\nfunction _toolcrib_command\n"
	"\tif test (count $_toolcrib_plain) -gt 1\n\t\t_toolcrib_verbs $_toolcrib_plain[2]\n\telse\n"
	"\t\t_toolcrib_nouns\n\tend\nend\n";

static const char fish_body[] =
	"function _toolcrib\n\tset -l words (commandline -opc)\n\tset -l cur (commandline -ct)\n\tset -l option ''\n"
	"\tset -l command\n\tset -l n (count $words)\n\tset -l i 2\n\tset -g _toolcrib_road\n"
	"\tset -g _toolcrib_plain\n\twhile test $i -le $n\n\t\tset -l word $words[$i]\n"
	"\t\tif not string match -qr '^-.' -- $word\n\t\t\tset -a _toolcrib_plain $word\n"
	"\t\telse if _toolcrib_valued $word\n\t\t\tset i (math $i + 1)\n\t\t\tif test $i -gt $n\n"
	"\t\t\t\tset option $word\n\t\t\telse if contains -- $word --store --socket --remote --ca --key-file\n"
	"\t\t\t\tset -a _toolcrib_road $word $words[$i]\n\t\t\tend\n\t\tend\n\t\tset i (math $i + 1)\n\tend\n"
	"\tset -l plain (count $_toolcrib_plain)\n\tif contains -- \"$option\" --store --socket --ca --key-file\n"
	"\t\t_toolcrib_file\n\telse if test \"$option\" = --format\n\t\t_toolcrib_value \" $option\"\n"
	"\telse if test $plain -eq 0\n\t\tif string match -q -- '-*' $cur\n\t\t\t_toolcrib_options\n\t\telse\n"
	"\t\t\t_toolcrib_nouns\n\t\tend\n\telse\n\t\tset command $_toolcrib_plain[1]\n\t\tset i (math $plain - 1)\n"
	"\t\tif _toolcrib_has_verbs $command\n\t\t\tif test $plain -eq 1\n\t\t\t\tif string match -q -- '-*' $cur\n"
	"\t\t\t\t\t_toolcrib_options\n\t\t\t\telse\n\t\t\t\t\t_toolcrib_verbs $command\n\t\t\t\tend\n\t\t\t\treturn\n"
	"\t\t\tend\n\t\t\tset command \"$command $_toolcrib_plain[2]\"\n\t\t\tset i (math $plain - 2)\n\t\tend\n"
	"\t\tif test -n \"$option\"\n\t\t\t_toolcrib_value \"$command $option\"\n"
	"\t\telse if string match -q -- '-*' $cur\n\t\t\t_toolcrib_options $command\n\t\telse\n"
	"\t\t\t_toolcrib_value \"$command $i\"\n\t\tend\n\tend\nend\ncomplete -c toolcrib -f -a '(_toolcrib)'\n";

/* How a shell writes a function that chooses by its argument. */
static const struct shell {
	const char *name, *head, *body;
	const char *function, *begins, *ends;   /* in front of its name, behind it, at its end */
	const char *choose, *chosen;            /* the choice begins; and ends */
	const char *label, *labelled, *next;    /* in front of a text between quotes, behind it, behind what is chosen */
	bool inside;                            /* a star that stands for anything is between the quotes */
	bool helps;                             /* behind each word stands what it means */
} shells[] = {
	{ "bash", bash_head, bash_body, "", "()\n{\n", "}\n", "\tcase $1 in\n", "\tesac\n", "\t'", ") ", " ;;\n",
	  .helps = false },
	{ "zsh", zsh_head, zsh_body, "", "()\n{\n", "}\n", "\tcase $1 in\n", "\tesac\n", "\t'", ") ", " ;;\n",
	  .helps = true },
	{ "fish", fish_head, fish_body, "function ", "\n", "end\n", "\tswitch $argv[1]\n", "\tend\n", "\tcase '",
	  "\n\t\t", "\n", .inside = true, .helps = true },
};

static void put_function(const struct shell *sh, const char *name, struct str *out)
{
	str_printf(out, "%s%s%s", sh->function, name, sh->begins);
}

static bool first_of_noun(const struct command *const *tables, const struct command *cmd)
{
	for (const struct command *c = NULL; (c = command_next(tables, c)) != cmd;)
		if (strcmp(c->noun, cmd->noun) == 0)
			return false;
	return true;
}

/* A word, and perhaps what it means, between quotes; zsh and fish both take '\'' for one. */
static void put_word(const struct shell *sh, const char *dashes, const char *word, const char *help, struct str *out)
{
	str_printf(out, " %s%s", dashes, word);
	if (!sh->helps)
		return;
	str_puts(out, " '");
	for (const char *p = help; *p; p++)
		str_puts(out, *p == '\'' ? "'\\''" : (const char[]){ *p, '\0' });
	str_putc(out, '\'');
}

static void put_label(const struct shell *sh, const char *text, bool any, struct str *out)
{
	str_printf(out, "%s%s%s'%s%s", sh->label, text, any && sh->inside ? "*" : "", any && !sh->inside ? "*" : "",
		   sh->labelled);
}

static void put_nouns(const struct command *const *tables, const struct shell *sh, struct str *out)
{
	put_function(sh, "_toolcrib_nouns", out);
	str_puts(out, "\t_toolcrib_words");
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;)
		if (first_of_noun(tables, c))
			put_word(sh, "", c->noun, c->verb ? "" : c->help, out);
	str_printf(out, "\n%s", sh->ends);
}

static void put_verbs(const struct command *const *tables, const struct shell *sh, struct str *out)
{
	put_function(sh, "_toolcrib_verbs", out);
	str_puts(out, sh->choose);
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;) {
		if (!c->verb || !first_of_noun(tables, c))
			continue;
		put_label(sh, c->noun, false, out);
		str_puts(out, "_toolcrib_words");
		for (const struct command *v = c; v; v = command_next(tables, v))
			if (v->verb && strcmp(v->noun, c->noun) == 0)
				put_word(sh, "", v->verb, v->help, out);
		str_puts(out, sh->next);
	}
	str_printf(out, "%s%s", sh->chosen, sh->ends);
	put_function(sh, "_toolcrib_has_verbs", out);
	str_puts(out, sh->choose);
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;) {
		if (!c->verb || !first_of_noun(tables, c))
			continue;
		put_label(sh, c->noun, false, out);
		str_printf(out, "return 0%s", sh->next);
	}
	str_printf(out, "%s\treturn 1\n%s", sh->chosen, sh->ends);
}

static void put_options(const struct command *const *tables, const struct shell *sh, struct str *out)
{
	put_function(sh, "_toolcrib_options", out);
	str_puts(out, "\t_toolcrib_words");
	for (const struct ctl_global *g = ctl_globals; g->name; g++)
		put_word(sh, "--", g->name, g->help, out);
	str_printf(out, "\n%s", sh->choose);
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;) {
		struct str name = STR_INIT;
		bool any = false;

		ctl_command_name(c, &name);
		for (const struct command_arg *arg = c->args; arg && arg->name; arg++) {
			if (!arg->option)
				continue;
			if (!any) {
				put_label(sh, str_text(&name), false, out);
				str_puts(out, "_toolcrib_words");
			}
			any = true;
			put_word(sh, "--", arg->name, arg->help, out);
		}
		str_puts(out, any ? sh->next : "");
		str_fini(&name);
	}
	str_printf(out, "%s%s", sh->chosen, sh->ends);
}

static void put_valued_option(const struct shell *sh, const char *name, size_t from, struct str *out)
{
	struct str line = STR_INIT, option = STR_INIT;

	str_printf(&option, "--%s", name);
	put_label(sh, str_text(&option), false, &line);
	str_printf(&line, "return 0%s", sh->next);
	if (!strstr(str_text(out) + from, str_text(&line)))
		str_puts(out, str_text(&line));
	str_fini(&option);
	str_fini(&line);
}

static void put_valued(const struct command *const *tables, const struct shell *sh, struct str *out)
{
	size_t from;

	put_function(sh, "_toolcrib_valued", out);
	str_puts(out, sh->choose);
	from = out->len;
	for (const struct ctl_global *g = ctl_globals; g->name; g++)
		if (g->value)
			put_valued_option(sh, g->name, from, out);
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;)
		for (const struct command_arg *arg = c->args; arg && arg->name; arg++)
			if (arg->option && arg->value)
				put_valued_option(sh, arg->name, from, out);
	str_printf(out, "%s\treturn 1\n%s", sh->chosen, sh->ends);
}

/* What completes one argument, or NULL. */
static const char *completer(enum command_complete kind)
{
	switch (kind) {
	case COMPLETE_TENANT:
		return "_toolcrib_tenant";
	case COMPLETE_PRINCIPAL:
		return "_toolcrib_principal";
	case COMPLETE_KEY:
		return "_toolcrib_key";
	case COMPLETE_TOOL:
		return "_toolcrib_tool";
	case COMPLETE_PROMPT:
		return "_toolcrib_prompt";
	case COMPLETE_RESOURCE:
		return "_toolcrib_resource";
	case COMPLETE_UPSTREAM:
		return "_toolcrib_upstream";
	case COMPLETE_SCHEMA:
		return "_toolcrib_schema";
	case COMPLETE_FILE:
		return "_toolcrib_file";
	case COMPLETE_COMMAND:
		return "_toolcrib_command";
	case COMPLETE_NONE:
		break;
	}
	return NULL;
}

/* "yes|no" as words */
static void put_choices(const struct shell *sh, const char *choices, struct str *out)
{
	str_puts(out, "_toolcrib_words");
	for (const char *p = choices; *p; p += strspn(p, "|")) {
		size_t n = strcspn(p, "|");
		char *word = mem_strndup(p, n);

		put_word(sh, "", word, "", out);
		free(word);
		p += n;
	}
	str_puts(out, sh->next);
}

static void put_value(const struct command *cmd, const struct command_arg *arg, unsigned position,
		      const struct shell *sh, struct str *out)
{
	const char *function = completer(arg->complete);
	struct str label = STR_INIT;

	if (!function && !(arg->value && strchr(arg->value, '|')))
		return;
	ctl_command_name(cmd, &label);
	if (arg->option)
		str_printf(&label, " --%s", arg->name);
	else if (arg->repeated)
		str_putc(&label, ' ');          /* those before it stand above */
	else
		str_printf(&label, " %u", position);
	put_label(sh, str_text(&label), !arg->option && arg->repeated, out);
	str_fini(&label);
	if (function)
		str_printf(out, "%s%s", function, sh->next);
	else
		put_choices(sh, arg->value, out);
}

static void put_values(const struct command *const *tables, const struct shell *sh, struct str *out)
{
	put_function(sh, "_toolcrib_value", out);
	str_puts(out, sh->choose);
	put_label(sh, " --format", false, out);
	put_choices(sh, CTL_FORMATS, out);
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;) {
		unsigned position = 0;

		for (const struct command_arg *arg = c->args; arg && arg->name; arg++)
			if (arg->option)
				put_value(c, arg, 0, sh, out);
		for (const struct command_arg *arg = c->args; arg && arg->name; arg++)
			if (!arg->option)
				put_value(c, arg, position++, sh, out);
	}
	str_printf(out, "%s%s", sh->chosen, sh->ends);
}

int ctl_complete(const struct command *const *tables, const char *shell, struct str *out, struct err *err)
{
	const struct shell *sh = NULL;

	for (size_t i = 0; i < NELEMS(shells); i++)
		if (strcmp(shells[i].name, shell) == 0)
			sh = &shells[i];
	if (!sh)
		return err_set(err, ERR_INVALID, "", "no completion for %s; there is one for bash, zsh and fish", shell);
	str_puts(out, sh->head);
	put_nouns(tables, sh, out);
	put_verbs(tables, sh, out);
	put_options(tables, sh, out);
	put_valued(tables, sh, out);
	put_values(tables, sh, out);
	str_puts(out, sh->body);
	return 0;
}

int ctl_help_run(const struct ctl_line *line, struct str *rows, struct err *err)
{
	const json_t *words = json_object_get(line->args, "command");
	const char *noun = json_string_value(json_array_get(words, 0));
	const char *verb = json_string_value(json_array_get(words, 1));
	const char *candidates[256];
	const struct command *cmd = noun ? command_find(app_commands, noun, verb) : NULL;
	const char *near;
	size_t n = 0;

	if (!noun) {
		ctl_help_all(app_commands, rows);
		return 0;
	}
	if (cmd) {
		ctl_help_command(cmd, rows);
		return 0;
	}
	for (const struct command *c = NULL; n < NELEMS(candidates) && (c = command_next(app_commands, c)) != NULL;) {
		if (!verb && strcmp(c->noun, noun) == 0) {
			ctl_help_noun(app_commands, noun, rows);
			return 0;
		}
		if (!verb)
			candidates[n++] = c->noun;
		else if (c->verb && strcmp(c->noun, noun) == 0)
			candidates[n++] = c->verb;
	}
	(void)err_set(err, ERR_NOT_FOUND, "", "%s%s%s: no such command", noun, verb ? " " : "", verb ? verb : "");
	near = text_nearest(verb ? verb : noun, candidates, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	return ERR_NOT_FOUND;
}
