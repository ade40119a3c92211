/* The table as completion for bash.  Names are asked from the store and never evaluated: compgen -W would. */

#include "config.h"

#include "ctl_int.h"

#include <string.h>

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
	"\t\t\telif [[ $word == --store || $word == --socket || $word == --remote || $word == --ca || $word == --key-file ]]; then\n"
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

static bool first_of_noun(const struct adm_cmd *const *tables, const struct adm_cmd *cmd)
{
	for (const struct adm_cmd *c = NULL; (c = admin_next(tables, c)) != cmd;)
		if (strcmp(c->noun, cmd->noun) == 0)
			return false;
	return true;
}

static void put_nouns(const struct adm_cmd *const *tables, struct str *out)
{
	str_puts(out, "_toolcrib_nouns()\n{\n\t_toolcrib_words");
	for (const struct adm_cmd *c = NULL; (c = admin_next(tables, c)) != NULL;)
		if (first_of_noun(tables, c))
			str_printf(out, " %s", c->noun);
	str_puts(out, "\n}\n");
}

static void put_verbs(const struct adm_cmd *const *tables, struct str *out)
{
	str_puts(out, "_toolcrib_verbs()\n{\n\tcase $1 in\n");
	for (const struct adm_cmd *c = NULL; (c = admin_next(tables, c)) != NULL;) {
		if (!c->verb || !first_of_noun(tables, c))
			continue;
		str_printf(out, "\t%s) _toolcrib_words", c->noun);
		for (const struct adm_cmd *v = c; v; v = admin_next(tables, v))
			if (v->verb && strcmp(v->noun, c->noun) == 0)
				str_printf(out, " %s", v->verb);
		str_puts(out, " ;;\n");
	}
	str_puts(out, "\tesac\n}\n_toolcrib_has_verbs()\n{\n\tcase $1 in\n");
	for (const struct adm_cmd *c = NULL; (c = admin_next(tables, c)) != NULL;)
		if (c->verb && first_of_noun(tables, c))
			str_printf(out, "\t%s) return 0 ;;\n", c->noun);
	str_puts(out, "\tesac\n\treturn 1\n}\n");
}

static void put_options(const struct adm_cmd *const *tables, struct str *out)
{
	str_puts(out, "_toolcrib_options()\n{\n\t_toolcrib_words");
	for (const struct ctl_global *g = ctl_globals; g->name; g++)
		str_printf(out, " --%s", g->name);
	str_puts(out, "\n\tcase $1 in\n");
	for (const struct adm_cmd *c = NULL; (c = admin_next(tables, c)) != NULL;) {
		bool any = false;

		for (const struct adm_arg *arg = c->args; arg && arg->name; arg++) {
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

static void put_valued(const struct adm_cmd *const *tables, struct str *out)
{
	str_puts(out, "_toolcrib_valued()\n{\n\tcase $1 in\n");
	for (const struct ctl_global *g = ctl_globals; g->name; g++)
		if (g->value)
			str_printf(out, "\t--%s) return 0 ;;\n", g->name);
	for (const struct adm_cmd *c = NULL; (c = admin_next(tables, c)) != NULL;)
		for (const struct adm_arg *arg = c->args; arg && arg->name; arg++) {
			struct str line = STR_INIT;

			str_printf(&line, "\t--%s) return 0 ;;\n", arg->name);
			if (arg->option && arg->value && !strstr(str_text(out), str_text(&line)))
				str_puts(out, str_text(&line));
			str_fini(&line);
		}
	str_puts(out, "\tesac\n\treturn 1\n}\n");
}

/* What completes one argument, or NULL. */
static const char *completer(enum adm_complete kind)
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

static void put_value(const struct adm_cmd *cmd, const struct adm_arg *arg, unsigned position, struct str *out)
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

static void put_values(const struct adm_cmd *const *tables, struct str *out)
{
	str_puts(out, "_toolcrib_value()\n{\n\tcase $1 in\n");
	for (const struct adm_cmd *c = NULL; (c = admin_next(tables, c)) != NULL;) {
		unsigned position = 0;

		for (const struct adm_arg *arg = c->args; arg && arg->name; arg++)
			if (arg->option)
				put_value(c, arg, 0, out);
		for (const struct adm_arg *arg = c->args; arg && arg->name; arg++)
			if (!arg->option)
				put_value(c, arg, position++, out);
	}
	str_puts(out, "\tesac\n}\n");
}

void ctl_complete_bash(const struct adm_cmd *const *tables, struct str *out)
{
	str_puts(out, head);
	put_nouns(tables, out);
	put_verbs(tables, out);
	put_options(tables, out);
	put_valued(tables, out);
	put_values(tables, out);
	str_puts(out, body);
}
