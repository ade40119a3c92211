/* The table of commands as text: help for one command, one noun, everything; the COMMANDS list of toolcrib(8) in mdoc;
 * completion for bash. */
#include "config.h"

#include <string.h>

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

/* --- The table as completion for bash */

/* Names are asked from the store and never evaluated: compgen -W would. */

static const char head[] =
	"# bash completion for toolcrib, printed by \"toolcrib completion bash\"\n"
	"\n"
	"# Take the lines on standard input that fit; $1 is put behind each.\n"
	"_toolcrib_fit()\n"
	"{\n"
	"\tlocal line\n"
	"\twhile IFS= read -r line; do\n"
	"\t\tif [[ -n $line && $line == \"$cur\"* ]]; then\n"
	"\t\t\tCOMPREPLY+=(\"$(printf %q \"$line$1\")\")\n"
	"\t\tfi\n"
	"\tdone\n"
	"}\n"
	"_toolcrib_words()\n"
	"{\n"
	"\t_toolcrib_fit < <(printf '%s\\n' \"$@\")\n"
	"}\n"
	"_toolcrib_ask()\n"
	"{\n"
	"\tcommand toolcrib \"${road[@]}\" --quiet \"$@\" 2>/dev/null </dev/null\n"
	"}\n"
	"_toolcrib_tenant()\n"
	"{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask tenant list)\n"
	"}\n"
	"_toolcrib_principal()\n"
	"{\n"
	"\tif [[ $cur == */* ]]; then\n"
	"\t\t_toolcrib_fit < <(_toolcrib_ask principal list \"${cur%%/*}\")\n"
	"\telse\n"
	"\t\tcompopt -o nospace\n"
	"\t\t_toolcrib_fit / < <(_toolcrib_ask tenant list)\n"
	"\tfi\n"
	"}\n"
	"_toolcrib_key()\n"
	"{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask key list)\n"
	"}\n"
	"_toolcrib_tool()\n"
	"{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask tool list)\n"
	"}\n"
	"_toolcrib_upstream()\n"
	"{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask upstream list)\n"
	"}\n"
	"_toolcrib_schema()\n"
	"{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask schema list)\n"
	"}\n"
	"_toolcrib_prompt()\n"
	"{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask prompt list)\n"
	"}\n"
	"_toolcrib_resource()\n"
	"{\n"
	"\t_toolcrib_fit < <(_toolcrib_ask resource list)\n"
	"}\n"
	"_toolcrib_file()\n"
	"{\n"
	"\tcompopt -o filenames\n"
	"\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"}\n"
	"_toolcrib_command()\n"
	"{\n"
	"\tif ((${#plain[@]} > 1)); then\n"
	"\t\t_toolcrib_verbs \"${plain[1]}\"\n"
	"\telse\n"
	"\t\t_toolcrib_nouns\n"
	"\tfi\n"
	"}\n";

static const char body[] =
	"_toolcrib()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} option= command= word i\n"
	"\tlocal -a road=() plain=()\n"
	"\tCOMPREPLY=()\n"
	"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	"\t\tword=${COMP_WORDS[i]}\n"
	"\t\tif [[ $word != -?* ]]; then\n"
	"\t\t\tplain+=(\"$word\")\n"
	"\t\telif _toolcrib_valued \"$word\"; then\n"
	"\t\t\ti=$((i + 1))\n"
	"\t\t\tif ((i == COMP_CWORD)); then\n"
	"\t\t\t\toption=$word\n"
	"\t\t\telif [[ $word == --store || $word == --socket || $word == --remote || $word == --ca || $word == "
	"--key-file ]]; then\n"
	"\t\t\t\troad=(\"$word\" \"${COMP_WORDS[i]}\")\n"
	"\t\t\tfi\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tif [[ $option == --store || $option == --socket || $option == --ca || $option == --key-file ]]; then\n"
	"\t\t_toolcrib_file\n"
	"\telif ((${#plain[@]} == 0)); then\n"
	"\t\tif [[ $cur == -* ]]; then _toolcrib_options; else _toolcrib_nouns; fi\n"
	"\telse\n"
	"\t\tcommand=${plain[0]}\n"
	"\t\tif _toolcrib_has_verbs \"$command\"; then\n"
	"\t\t\tif ((${#plain[@]} == 1)); then\n"
	"\t\t\t\tif [[ $cur == -* ]]; then _toolcrib_options; else _toolcrib_verbs \"$command\"; fi\n"
	"\t\t\t\treturn\n"
	"\t\t\tfi\n"
	"\t\t\tcommand+=\" ${plain[1]}\"\n"
	"\t\t\ti=$((${#plain[@]} - 2))\n"
	"\t\telse\n"
	"\t\t\ti=$((${#plain[@]} - 1))\n"
	"\t\tfi\n"
	"\t\tif [[ -n $option ]]; then\n"
	"\t\t\t_toolcrib_value \"$command $option\"\n"
	"\t\telif [[ $cur == -* ]]; then\n"
	"\t\t\t_toolcrib_options \"$command\"\n"
	"\t\telse\n"
	"\t\t\t_toolcrib_value \"$command $i\"\n"
	"\t\tfi\n"
	"\tfi\n"
	"}\n"
	"complete -F _toolcrib toolcrib\n";

static bool first_of_noun(const struct command *const *tables, const struct command *cmd)
{
	for (const struct command *c = NULL; (c = command_next(tables, c)) != cmd;)
		if (strcmp(c->noun, cmd->noun) == 0)
			return false;
	return true;
}

static void put_nouns(const struct command *const *tables, struct str *out)
{
	str_puts(out, "_toolcrib_nouns()\n{\n\t_toolcrib_words");
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;)
		if (first_of_noun(tables, c))
			str_printf(out, " %s", c->noun);
	str_puts(out, "\n}\n");
}

static void put_verbs(const struct command *const *tables, struct str *out)
{
	str_puts(out, "_toolcrib_verbs()\n{\n\tcase $1 in\n");
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;) {
		if (!c->verb || !first_of_noun(tables, c))
			continue;
		str_printf(out, "\t%s) _toolcrib_words", c->noun);
		for (const struct command *v = c; v; v = command_next(tables, v))
			if (v->verb && strcmp(v->noun, c->noun) == 0)
				str_printf(out, " %s", v->verb);
		str_puts(out, " ;;\n");
	}
	str_puts(out, "\tesac\n}\n_toolcrib_has_verbs()\n{\n\tcase $1 in\n");
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;)
		if (c->verb && first_of_noun(tables, c))
			str_printf(out, "\t%s) return 0 ;;\n", c->noun);
	str_puts(out, "\tesac\n\treturn 1\n}\n");
}

static void put_options(const struct command *const *tables, struct str *out)
{
	str_puts(out, "_toolcrib_options()\n{\n\t_toolcrib_words");
	for (const struct ctl_global *g = ctl_globals; g->name; g++)
		str_printf(out, " --%s", g->name);
	str_puts(out, "\n\tcase $1 in\n");
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;) {
		bool any = false;

		for (const struct command_arg *arg = c->args; arg && arg->name; arg++) {
			if (!arg->option)
				continue;
			if (!any) {
				str_puts(out, "\t'");
				ctl_command_name(c, out);
				str_puts(out, "') _toolcrib_words");
			}
			any = true;
			str_printf(out, " --%s", arg->name);
		}
		if (any)
			str_puts(out, " ;;\n");
	}
	str_puts(out, "\tesac\n}\n");
}

static void put_valued(const struct command *const *tables, struct str *out)
{
	str_puts(out, "_toolcrib_valued()\n{\n\tcase $1 in\n");
	for (const struct ctl_global *g = ctl_globals; g->name; g++)
		if (g->value)
			str_printf(out, "\t--%s) return 0 ;;\n", g->name);
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;)
		for (const struct command_arg *arg = c->args; arg && arg->name; arg++) {
			struct str line = STR_INIT;

			str_printf(&line, "\t--%s) return 0 ;;\n", arg->name);
			if (arg->option && arg->value && !strstr(str_text(out), str_text(&line)))
				str_puts(out, str_text(&line));
			str_fini(&line);
		}
	str_puts(out, "\tesac\n\treturn 1\n}\n");
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

static void put_value(const struct command *cmd, const struct command_arg *arg, unsigned position, struct str *out)
{
	const char *function = completer(arg->complete);
	bool choice = arg->value && strchr(arg->value, '|');            /* "yes|no" */

	if (!function && !choice)
		return;
	str_puts(out, "\t'");
	ctl_command_name(cmd, out);
	if (arg->option)
		str_printf(out, " --%s')", arg->name);
	else if (arg->repeated)
		str_puts(out, " '*)");  /* those before it stand above */
	else
		str_printf(out, " %u')", position);
	if (function) {
		str_printf(out, " %s ;;\n", function);
		return;
	}
	str_puts(out, " _toolcrib_words ");
	for (const char *p = arg->value; *p; p++)
		str_putc(out, *p == '|' ? ' ' : *p);
	str_puts(out, " ;;\n");
}

static void put_values(const struct command *const *tables, struct str *out)
{
	str_puts(out, "_toolcrib_value()\n{\n\tcase $1 in\n");
	for (const struct command *c = NULL; (c = command_next(tables, c)) != NULL;) {
		unsigned position = 0;

		for (const struct command_arg *arg = c->args; arg && arg->name; arg++)
			if (arg->option)
				put_value(c, arg, 0, out);
		for (const struct command_arg *arg = c->args; arg && arg->name; arg++)
			if (!arg->option)
				put_value(c, arg, position++, out);
	}
	str_puts(out, "\tesac\n}\n");
}

void ctl_complete_bash(const struct command *const *tables, struct str *out)
{
	str_puts(out, head);
	put_nouns(tables, out);
	put_verbs(tables, out);
	put_options(tables, out);
	put_valued(tables, out);
	put_values(tables, out);
	str_puts(out, body);
}
