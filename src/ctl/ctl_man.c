/* The table as the COMMANDS list of toolcrib(8), in mdoc; contrib/check-man-table.sh compares the page with it. */

#include "config.h"

#include "ctl_int.h"

#include <string.h>

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

static void put_arg_macros(const struct adm_arg *arg, struct str *out)
{
	if (arg->option)
		str_printf(out, " Fl -%s", arg->name);
	if (arg->value)
		str_printf(out, " Ar %s", arg->value);
	if (arg->repeated)
		str_puts(out, " ...");
}

static void put_args(const struct adm_cmd *cmd, bool option, struct str *out)
{
	for (const struct adm_arg *arg = cmd->args; arg && arg->name; arg++) {
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

static void put_synopsis(const struct adm_cmd *cmd, bool option, struct str *out)
{
	for (const struct adm_arg *arg = cmd->args; arg && arg->name; arg++) {
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

static void put_columns(const struct adm_cmd *cmd, struct str *out)
{
	bool any = false;

	if (!cmd->columns || cmd->shape == ADM_SECRET)
		return;
	str_puts(out, ".Pp\nMembers:\n");
	for (const struct adm_column *col = cmd->columns; col->member; col++) {
		if (any)
			str_puts(out, " ,\n");
		str_printf(out, ".Va %s", col->member);
		any = true;
	}
	str_puts(out, " .\n");
}

void ctl_man_commands(const struct adm_cmd *const *tables, struct str *out)
{
	for (const struct adm_cmd *c = NULL; (c = admin_next(tables, c)) != NULL;) {
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
			str_printf(out, "With\n.Fl -%s\nasks on a terminal, needs\n.Fl -yes\nwithout one.\n", c->destructive_with);
		if (c->where != ADM_ON_CTL) {
			str_puts(out, "Roles: ");
			admin_cmd_roles(c, out);
			str_puts(out, ".\n");
		}
		if (c->args && c->args->name) {
			str_puts(out, ".Bl -tag -width Ds -compact\n");
			put_args(c, false, out);
			put_args(c, true, out);
			str_puts(out, ".El\n");
		}
		put_columns(c, out);
	}
}
