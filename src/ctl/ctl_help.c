/* The table as help: usage lines, one command, one noun, everything. */

#include "config.h"

#include "ctl_int.h"

#include <string.h>

#include "base/mem.h"

#define HELP_WIDTH 80
#define HELP_COLUMN 24                  /* where explanations of words and options begin */

void ctl_command_name(const struct adm_cmd *cmd, struct str *out)
{
	str_puts(out, cmd->noun);
	if (cmd->verb)
		str_printf(out, " %s", cmd->verb);
}

char ctl_letter(const struct adm_arg *arg)
{
	if (!arg->option)
		return 0;
	if (arg->type == ARG_FILE || strcmp(arg->name, "follow") == 0)
		return 'f';
	return strcmp(arg->name, "number") == 0 ? 'n' : 0;
}

static void put_usage_arg(const struct adm_arg *arg, struct str *out)
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

void ctl_usage(const struct adm_cmd *cmd, struct str *out)
{
	str_puts(out, "toolcrib ");
	ctl_command_name(cmd, out);
	for (const struct adm_arg *arg = cmd->args; arg && arg->name; arg++)
		if (!arg->option)
			put_usage_arg(arg, out);
	for (const struct adm_arg *arg = cmd->args; arg && arg->name; arg++)
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

static void put_args(const struct adm_cmd *cmd, bool option, struct str *out)
{
	for (const struct adm_arg *arg = cmd->args; arg && arg->name; arg++) {
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

void ctl_help_command(const struct adm_cmd *cmd, struct str *out)
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

static void put_command(const struct adm_cmd *cmd, struct str *out)
{
	struct str name = STR_INIT;

	ctl_command_name(cmd, &name);
	put_entry(str_text(&name), cmd->help, out);
	str_fini(&name);
}

void ctl_help_noun(const struct adm_cmd *const *tables, const char *noun, struct str *out)
{
	str_printf(out, "usage: toolcrib %s COMMAND ...\n\n", noun);
	for (const struct adm_cmd *c = NULL; (c = admin_next(tables, c)) != NULL;)
		if (strcmp(c->noun, noun) == 0)
			put_command(c, out);
	str_printf(out, "\ntoolcrib %s COMMAND --help explains one of them.\n", noun);
}

void ctl_help_all(const struct adm_cmd *const *tables, struct str *out)
{
	const char *noun = NULL;

	str_puts(out, "usage: toolcrib [OPTION...] COMMAND ...\n\nAdministers the tools of a toolcrib store.\n\n");
	for (const struct adm_cmd *c = NULL; (c = admin_next(tables, c)) != NULL;) {
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
